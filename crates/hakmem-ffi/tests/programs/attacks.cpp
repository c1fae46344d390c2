/* Attacks on the allocator, each with one write through a dangling pointer, or one wrong free:
 *
 *     attacks list          their names
 *     attacks NAME          runs one
 *
 * The attacker wants an allocation at `target`, or two live blocks that overlap. Exit status: 7, the attack succeeded; 0, it
 * had no effect. Anything else: the allocator stopped it. */
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <pthread.h>
#include <semaphore.h>
#include <set>
#include <vector>

using byte = unsigned char;

enum { SUCCEEDED = 7, SIZE = 48, MANY = 20000 };

/* What the attacker wants to own: its words look like free blocks that lead to each other. */
alignas(64) static uintptr_t target[64];

static byte *hidden(void *p) {
    byte *volatile q = static_cast<byte *>(p);
    return q;
}

static byte *block() { return hidden(memset(hidden(malloc(SIZE)), 0x55, SIZE)); }

static bool is_target(const void *p) {
    const uintptr_t at = reinterpret_cast<uintptr_t>(p), start = reinterpret_cast<uintptr_t>(target);
    return at >= start && at < start + sizeof target;
}

static void write_word(byte *p, size_t i, uintptr_t word) { memcpy(p + i * sizeof word, &word, sizeof word); }

static uintptr_t target_word() { return reinterpret_cast<uintptr_t>(target) + 64; }

/* The program goes on. Does it get the target, or one address twice? */
static void go_on() {
    std::vector<byte *> all(MANY);
    for (byte *&p : all) {
        p = hidden(malloc(SIZE));
        if (is_target(p))
            exit(SUCCEEDED);
    }
    std::set<byte *> apart;
    for (byte *p : all)
        if (!apart.insert(p).second)
            exit(SUCCEEDED);
    for (byte *p : all)
        free(p);
}

static std::vector<byte *> blocks(size_t n) {
    std::vector<byte *> all(n);
    for (byte *&p : all)
        p = block();
    return all;
}

/* The link of the block that was freed last. */
static void list_first() {
    std::vector<byte *> all = blocks(100);
    for (byte *p : all)
        free(p);
    write_word(all.back(), 0, target_word());
    go_on();
}

/* The link of a block in the middle of the list. */
static void list_middle() {
    std::vector<byte *> all = blocks(100);
    for (byte *p : all)
        free(p);
    write_word(all[50], 0, target_word());
    go_on();
}

/* A link to a live block: an allocation overlaps it. */
static void list_to_live() {
    std::vector<byte *> all = blocks(100);
    byte *live = all[10];
    for (byte *p : all)
        if (p != live)
            free(p);
    write_word(all[50], 0, reinterpret_cast<uintptr_t>(live));
    for (int i = 0; i < MANY; i++)
        if (malloc(SIZE) == live)
            exit(SUCCEEDED);
}

/* Another thread frees blocks of this one, which changes them before they come back. */
static sem_t freed, changed;
static void *frees(void *all) {
    for (byte *p : *static_cast<std::vector<byte *> *>(all))
        free(p);
    sem_post(&freed);
    sem_wait(&changed);
    return nullptr;
}
static void remote(size_t word, uintptr_t value) {
    std::vector<byte *> all = blocks(100);
    sem_init(&freed, 0, 0);
    sem_init(&changed, 0, 0);
    pthread_t thread;
    pthread_create(&thread, nullptr, frees, &all);
    sem_wait(&freed);
    for (byte *p : all)
        write_word(p, word, value);
    sem_post(&changed);
    pthread_join(thread, nullptr);
    go_on();
}
static void remote_list() { remote(0, target_word()); }
static void remote_chain() { remote(1, target_word() | uintptr_t(1) << 48); }
static void remote_length() { remote(1, uintptr_t(0x7fff) << 48); }
static void remote_page() { remote(1, (target_word() + 1) | uintptr_t(1) << 48); }

/* A thread ends, and leaves pages with few used blocks. Any thread may take these pages over. */
static void *leaves(void *all) {
    std::vector<byte *> &made = *static_cast<std::vector<byte *> *>(all);
    made = blocks(3000);
    for (size_t i = 0; i < made.size(); i++)
        if (i % 100)
            free(made[i]);
    return nullptr;
}
static void parked() {
    std::vector<byte *> all;
    pthread_t thread;
    pthread_create(&thread, nullptr, leaves, &all);
    pthread_join(thread, nullptr);
    for (size_t i = 0; i < all.size(); i++)
        if (i % 100)
            write_word(all[i], 0, target_word());
    go_on();
}

/* A block that the attacker made up, in its own variable. */
static void made_up_block() {
    target[8] = SIZE;
    target[9] = SIZE | 1;
    free(hidden(target + 10));
    go_on();
}
/* … and in the middle of a live block. */
static void made_up_inside() {
    byte *p = hidden(calloc(1, 1000));
    write_word(p, 6, SIZE | 1);
    free(p + 16 * 5);
    for (int i = 0; i < MANY; i++) {
        byte *q = hidden(malloc(1000));
        if (q != p && q < p + 1000 && p < q + 1000)
            exit(SUCCEEDED);
    }
}
static void twice() {
    byte *p = block();
    free(p);
    free(p);
    go_on();
}
static void twice_around() {
    byte *p = block(), *q = block();
    free(p);
    free(q);
    free(p);
    go_on();
}
static void *frees_one(void *p) {
    free(p);
    return nullptr;
}
static void twice_by_two_threads() {
    byte *p = block();
    pthread_t thread;
    pthread_create(&thread, nullptr, frees_one, p);
    pthread_join(thread, nullptr);
    free(p);
    go_on();
}
/* Heap grooming: the attacker's next allocation gets the victim's freed block. */
static void next_gets_freed() {
    std::vector<byte *> all = blocks(30);
    byte *p = all[15];
    free(p);
    for (int i = 0; i < 16; i++)
        if (malloc(SIZE) == p)
            exit(SUCCEEDED);
}
/* A write over the next blocks, or in front of one. */
static void to_the_neighbour(long by) {
    std::vector<byte *> all = blocks(10);
    memset(all[3] + (by < 0 ? by : SIZE), 0x41, static_cast<size_t>(by < 0 ? -by : by));
    for (byte *p : all)
        free(p);
    go_on();
}
static void over_neighbour() { to_the_neighbour(3 * SIZE); }
static void under_neighbour() { to_the_neighbour(-2 * SIZE); }

#define ATTACK(name) {#name, name}
static const struct {
    const char *name;
    void (*run)();
} attacks[] = {
    ATTACK(list_first), ATTACK(list_middle), ATTACK(list_to_live), ATTACK(remote_list), ATTACK(remote_chain),
    ATTACK(remote_length), ATTACK(remote_page), ATTACK(parked), ATTACK(made_up_block), ATTACK(made_up_inside),
    ATTACK(twice), ATTACK(twice_around), ATTACK(twice_by_two_threads), ATTACK(next_gets_freed), ATTACK(over_neighbour),
    ATTACK(under_neighbour),
};

int main(int count, char **arguments) {
    for (uintptr_t &word : target)
        word = target_word();
    for (const auto &each : attacks) {
        if (count == 2 && !strcmp(arguments[1], "list"))
            puts(each.name);
        else if (count == 2 && !strcmp(arguments[1], each.name))
            each.run();
    }
    return 0;
}
