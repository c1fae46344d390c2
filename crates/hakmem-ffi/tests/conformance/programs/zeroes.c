/* calloc gives zeroes, whatever the memory was before. */
#include "conformance.h"
#include <sys/mman.h>

BEHAVIOUR(calloc_clears_recycled_memory) {
    for (int round = 0; round < 3; round++)
        for (size_t n = 1; n < 40 << 20; n = n * 3 + 1) {
            unsigned char *p = malloc(n);
            memset(p, 0xFF, malloc_usable_size(p));
            free(p);
            p = calloc(n, 1);
            CHECK(is_filled(p, n, 0));
            memset(p, 0xFF, malloc_usable_size(p));
            free(p);
            malloc_trim(0);
            p = calloc(1, n);
            CHECK(is_filled(p, n, 0));
            memset(p, 0xFF, n);
            free(p);
        }
}

/* All that malloc_usable_size reports is zero, not only what was asked for: programs use the one where they cleared the other. */
BEHAVIOUR(calloc_clears_the_usable_size) {
    enum { BLOCKS = 3 };
    for (size_t n = 1; n < 20 << 20; n += n / 4 + 7) {
        unsigned char *p[BLOCKS];
        for (int i = 0; i < BLOCKS; i++) {
            p[i] = malloc(n);
            memset(p[i], 0xFF, malloc_usable_size(p[i]));
        }
        for (int i = 0; i < BLOCKS; i++)
            free(p[i]);
        for (int i = 0; i < BLOCKS; i++) {
            p[i] = calloc(1, n);
            CHECK(is_filled(p[i], malloc_usable_size(p[i]), 0));
        }
        for (int i = 0; i < BLOCKS; i++)
            free(p[i]);
    }
}

/* The same where memory that was to be given back keeps its contents. */
BEHAVIOUR(calloc_clears_the_usable_size_of_locked_memory) {
    static const size_t sizes[] = {5000, 70000, (2 << 20) + 5000};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        unsigned char *p = malloc(sizes[i]);
        size_t held = malloc_usable_size(p);
        memset(p, 0xFF, held);
        CHECK(mlock(p, held) == 0);
        free(p);
        unsigned char *q = calloc(1, sizes[i]);
        CHECK(is_filled(q, malloc_usable_size(q), 0));
        free(q);
        munlockall();
    }
}

/* Locked pages refuse MADV_DONTNEED: memory that was to be given back still has its contents. */
BEHAVIOUR(calloc_clears_locked_memory) {
    static const size_t sizes[] = {5000, 60000, 300000, 2 << 20, 5 << 20};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        size_t n = sizes[i];
        unsigned char *p = malloc(n);
        memset(p, 0xFF, n);
        CHECK(mlock(p, n) == 0);
        free(p);
        malloc_trim(0);
        unsigned char *q = calloc(1, n);
        CHECK(is_filled(q, n, 0));
        free(q);
        munlockall();
    }
}
