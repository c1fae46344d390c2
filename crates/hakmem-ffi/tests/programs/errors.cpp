/* One error per run: errors CLASS SIZE EVENT [SEED]. The error is the EVENTth of the program's allocations of that size; the others
 * are correct. Status 0: nobody noticed. 42: the error did no harm, as the program could not see or use what it should not. */
#include <alloca.h>
#include <malloc.h>
#include <new>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

typedef unsigned char byte;

enum { HARMLESS = 42, OTHERS = 64 };
static const byte SECRET = 0x5a;

static size_t size;
static byte *others[OTHERS];
static char in_variables[64];

/* The compiler does not see where it points, nor that it points to nothing any more. */
static byte *hidden(void *p) {
    byte *volatile q = static_cast<byte *>(p);
    return q;
}

static byte *filled(void *p, size_t n) {
    memset(p, SECRET, n);
    return hidden(p);
}

static byte *block() { return filled(malloc(size), size); }

static void around(bool before) {
    for (int i = before ? 0 : OTHERS / 2; i < (before ? OTHERS / 2 : OTHERS); i++)
        others[i] = block();
}

/* The program goes on: it allocates and frees as it did. */
static void go_on() {
    for (int round = 0; round < 300; round++) {
        byte *p = block();
        free(p);
    }
    for (byte *p : others)
        free(p);
    byte *more[200];
    for (byte *&p : more)
        p = block();
    for (byte *p : more)
        free(p);
}

static size_t still(const byte *p, size_t n) {
    size_t found = 0;
    for (size_t i = 0; i < n; i++)
        found += p[i] == SECRET;
    return found;
}

/* Changes each of n bytes: a tag has any value by chance. */
static void overwrite(byte *p, size_t n) {
    for (size_t i = 0; i < n; i++)
        p[i] ^= 0x41;
}

static void over(size_t n) {
    byte *p = block();
    overwrite(p + size, n);
    free(p);
}
static void over_1() { over(1); }
static void over_32() { over(32); }
static void over_1m() { over(1 << 20); }
static void over_1_lost() { overwrite(hidden(block()) + size, 1); }
static void under(size_t n) {
    byte *p = block();
    overwrite(p - n, n);
    free(p);
}
static void under_1() { under(1); }
static void under_32() { under(32); }
static void over_after_realloc() {
    byte *p = static_cast<byte *>(realloc(block(), size * 2));
    overwrite(hidden(p) + size * 2, 1);
    free(p);
}

static void twice() {
    byte *p = block();
    free(p);
    free(hidden(p));
}
static void twice_later() {
    byte *p = block(), *q[20];
    free(p);
    for (byte *&other : q)
        other = hidden(malloc(size * 3));
    for (byte *other : q)
        free(other);
    free(hidden(p));
}
static void twice_between() {
    byte *p = block(), *q = block();
    free(p);
    free(q);
    free(hidden(p));
}
static void *free_it(void *p) {
    free(p);
    return nullptr;
}
static void twice_by_another() {
    byte *p = block();
    pthread_t thread;
    pthread_create(&thread, nullptr, free_it, p);
    pthread_join(thread, nullptr);
    free(hidden(p));
}
static void realloc_freed() {
    byte *p = block();
    free(p);
    free(realloc(hidden(p), size * 2));
}
static void size_of_freed() {
    byte *p = block();
    free(p);
    if (malloc_usable_size(hidden(p)) == 0)
        exit(HARMLESS);
}

static void inside_8() { free(hidden(block()) + 8); }
static void inside_16() { free(hidden(block()) + 16); }
static void inside_half() { free(hidden(block()) + size / 2 / 16 * 16); }
static void unaligned() { free(hidden(block()) + 1); }
static void realloc_inside() { free(realloc(hidden(block()) + 16, size * 2)); }
static void on_stack() {
    char there[64];
    free(hidden(there) + 16 - reinterpret_cast<uintptr_t>(there) % 16);
}
static void on_stack_alloca() { free(hidden(alloca(size < 4096 ? size : 4096))); }
static void variable() { free(hidden(in_variables)); }
static void mapping() { free(hidden(mmap(nullptr, 1 << 16, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))); }

static void write_freed_at(size_t offset) {
    byte *p = block();
    free(p);
    /* The byte must change: an encoded link has this value by chance. */
    hidden(p)[offset] = hidden(p)[offset] == 0x41 ? 0x42 : 0x41;
}
static void write_freed_start() { write_freed_at(0); }
static void write_freed_middle() { write_freed_at(size / 2); }
static void write_freed_end() { write_freed_at(size - 1); }
static void read_freed() {
    byte *p = block();
    free(p);
    if (still(hidden(p), size) < size / 8)
        exit(HARMLESS);
}
static void read_reused() {
    for (int i = 0; i < 100; i++)
        free(block());
    for (int i = 0; i < 200; i++)
        if (still(hidden(malloc(size)), size) >= size / 8)
            return;
    exit(HARMLESS);
}
/* A write through a dangling pointer shall not choose what malloc returns. */
static void poison() {
    static uintptr_t target[512];
    byte *p = block(), *q = block();
    free(p);
    free(q);
    uintptr_t address = reinterpret_cast<uintptr_t>(target) + 64;
    memcpy(hidden(q), &address, sizeof address);
    memcpy(hidden(p), &address, sizeof address);
    for (int i = 0; i < 3000; i++) {
        byte *r = hidden(malloc(size));
        if (reinterpret_cast<uintptr_t>(r) == address)
            return;
    }
    exit(HARMLESS);
}

static void zero_write() {
    volatile byte *p = hidden(malloc(0));
    for (int i = 0; i < 16; i++)
        p[i] = 0x41;
    free(hidden(const_cast<byte *>(p)));
}
static void zero_read() {
    byte *p = hidden(malloc(0));
    volatile byte sum = 0;
    for (int i = 0; i < 16; i++)
        sum = sum + p[i];
    free(p);
}

static void new_free() { free(filled(::operator new(size), size)); }
static void new_delete_array() { ::operator delete[](filled(::operator new(size), size)); }
static void array_delete() { ::operator delete(filled(::operator new[](size), size)); }
static void malloc_delete() { ::operator delete(block()); }
static void delete_smaller() { ::operator delete(filled(::operator new(size), size), size / 2); }
static void delete_larger() { ::operator delete(filled(::operator new(size), size), size * 2); }
static void delete_near() { ::operator delete(filled(::operator new(size), size), size - 1); }
static void delete_twice() {
    byte *p = filled(::operator new(size), size);
    ::operator delete(p);
    ::operator delete(hidden(p));
}

#define CASE(name) {#name, name}
static const struct {
    const char *name;
    void (*run)();
} cases[] = {
    CASE(over_1), CASE(over_32), CASE(over_1m), CASE(over_1_lost), CASE(over_after_realloc), CASE(under_1), CASE(under_32),
    CASE(twice), CASE(twice_later), CASE(twice_between), CASE(twice_by_another), CASE(realloc_freed), CASE(size_of_freed),
    CASE(inside_8), CASE(inside_16), CASE(inside_half), CASE(unaligned), CASE(realloc_inside), CASE(on_stack),
    CASE(on_stack_alloca), CASE(variable), CASE(mapping), CASE(write_freed_start), CASE(write_freed_middle),
    CASE(write_freed_end), CASE(read_freed), CASE(read_reused), CASE(poison), CASE(zero_write), CASE(zero_read), CASE(new_free),
    CASE(new_delete_array), CASE(array_delete), CASE(malloc_delete), CASE(delete_smaller), CASE(delete_larger),
    CASE(delete_near), CASE(delete_twice),
};

int main(int count, char **arguments) {
    if (count == 2 && !strcmp(arguments[1], "list")) {
        for (const auto &each : cases)
            puts(each.name);
        return 0;
    }
    size = strtoul(arguments[2], nullptr, 10);
    for (int i = 1; i < atoi(arguments[3]); i++) {
        byte *p = block();
        free(p);
    }
    around(true);
    for (const auto &each : cases)
        if (!strcmp(each.name, arguments[1])) {
            each.run();
            around(false);
            go_on();
            return 0;
        }
    return 2;
}
