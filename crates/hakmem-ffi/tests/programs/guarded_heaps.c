/* Blocks of program heaps in guarded places: guarded_heaps PART. Each block gets one, or as many as
   have room. */
#include "../../include/hakmem.h"
#include "must.h"

#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct hakmem_heap_stats stats(struct hakmem_heap *heap) {
    struct hakmem_heap_stats now;
    hakmem_heap_get_stats(heap, &now);
    return now;
}

/* A place has pages of its own: no block beside it is of the heap's memory. */
static void *placed(struct hakmem_heap *heap, size_t n) {
    uint64_t held = stats(heap).held_bytes;
    void *p = hakmem_heap_malloc(heap, n);
    MUST(p && stats(heap).held_bytes == held);
    return hidden(p);
}

static void own(void) {
    struct hakmem_heap *heap = hakmem_heap_new("own", 3000);
    for (int round = 0; round < 500; round++) {
        unsigned char *p = placed(heap, 1000), *q = placed(heap, 900);
        memset(p, 7, 1000);
        MUST(stats(heap).live_bytes == 2048 && !hakmem_heap_malloc(heap, 1000));
        MUST(stats(heap).refused == (uint64_t)round + 1);
        hakmem_heap_free(heap, q);
        p = hakmem_heap_realloc(heap, p, 1100);
        MUST(p && p[0] == 7 && p[999] == 7 && stats(heap).live_bytes >= 1100);
        free(p);
        MUST(stats(heap).live_bytes == 0);
        p = hakmem_heap_aligned_alloc(heap, 256, 100);
        MUST(p && (uintptr_t)p % 256 == 0);
        for (int i = 0; i < 5; i++)
            memset(placed(heap, 100), i, 100);
        MUST(hakmem_heap_reset(heap) == 0 && stats(heap).live_bytes == 0);
        MUST(stats(heap).allocations == stats(heap).frees);
    }
    MUST(placed(heap, 100) && hakmem_heap_delete(heap) == 0);
}

static void routed(void) {
    for (int round = 0; round < 500; round++) {
        struct hakmem_heap *heap = hakmem_heap_new("routed", 0);
        MUST(hakmem_heap_enter(heap) == 0);
        unsigned char *all[10];
        for (int i = 0; i < 10; i++) {
            all[i] = hidden(malloc(100));
            memset(all[i], i, 100);
        }
        all[9] = hidden(realloc(all[9], 300));
        MUST(hakmem_heap_leave(heap) == 0);
        MUST(all[9][99] == 9 && stats(heap).held_bytes == 0);
        MUST(stats(heap).allocations - stats(heap).frees == 10);
        MUST(hakmem_heap_reset(heap) == 0 && all[0][50] == 0);
        MUST(hakmem_heap_delete(heap) == 0);
        for (int i = 0; i < 10; i++)
            free(all[i]);
    }
}

static void correct(void) {
    own();
    routed();
    puts("correct");
}

/* How many of 20,000 blocks lie in places, where they have no more bytes than were asked for. */
static void rate(void) {
    struct hakmem_heap *heap = hakmem_heap_new("rate", 0);
    int places = 0, of_scope = 0;
    for (int i = 0; i < 20000; i++) {
        void *p = hakmem_heap_malloc(heap, 33);
        places += malloc_usable_size(p) == 33;
        hakmem_heap_free(heap, p);
    }
    MUST(hakmem_heap_enter(heap) == 0);
    for (int i = 0; i < 20000; i++) {
        void *p = hidden(malloc(33));
        of_scope += malloc_usable_size(p) == 33;
        free(p);
    }
    MUST(hakmem_heap_leave(heap) == 0);
    printf("%d %d\n", places, of_scope);
}

static void use_after_reset(void) {
    struct hakmem_heap *heap = hakmem_heap_new("a", 0);
    unsigned char *p = hakmem_heap_malloc(heap, 100);
    hakmem_heap_reset(heap);
    hidden(p)[5] = 1;
}

static void use_after_delete(void) {
    struct hakmem_heap *heap = hakmem_heap_new("a", 0);
    unsigned char *p = hakmem_heap_malloc(heap, 100);
    hakmem_heap_delete(heap);
    hidden(p)[5] = 1;
}

static void use_after_scope(void) {
    struct hakmem_heap *heap = hakmem_heap_new("a", 0);
    hakmem_heap_enter(heap);
    unsigned char *p = hidden(malloc(100));
    hakmem_heap_leave(heap);
    free(p);
    hidden(p)[5] = 1;
}

static void overflow(void) {
    struct hakmem_heap *heap = hakmem_heap_new("a", 0);
    for (int i = 0; i < 40; i++) {
        unsigned char *p = hakmem_heap_malloc(heap, 112);
        hidden(p)[112] = 1;
        hakmem_heap_free(heap, p);
    }
}

static void freed_twice(void) {
    struct hakmem_heap *heap = hakmem_heap_new("a", 0);
    unsigned char *p = hakmem_heap_malloc(heap, 100);
    hakmem_heap_free(heap, p);
    hakmem_heap_free(heap, hidden(p));
}

static void of_another(void) {
    struct hakmem_heap *heap = hakmem_heap_new("a", 0), *other = hakmem_heap_new("b", 0);
    hakmem_heap_free(other, hakmem_heap_malloc(heap, 100));
}

static void of_none(void) { hakmem_heap_free(hakmem_heap_new("a", 0), hidden(malloc(100))); }

int main(int count, char **arguments) {
    MUST(count == 2);
    static const struct {
        const char *name;
        void (*run)(void);
    } parts[] = {{"correct", correct}, {"rate", rate}, {"use_after_reset", use_after_reset}, {"use_after_delete", use_after_delete}, {"use_after_scope", use_after_scope}, {"overflow", overflow}, {"freed_twice", freed_twice}, {"of_another", of_another}, {"of_none", of_none}};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (!strcmp(parts[i].name, arguments[1]))
            parts[i].run();
    return 0;
}
