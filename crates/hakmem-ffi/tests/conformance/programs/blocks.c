/* What malloc, calloc, realloc and free promise. */
#include "conformance.h"

BEHAVIOUR(empty_requests_get_blocks_of_their_own) {
    void *p[] = {malloc(zero), malloc(zero), calloc(zero, 8), calloc(8, zero), realloc(NULL, zero)};
    enum { N = sizeof p / sizeof *p };
    for (int i = 0; i < N; i++)
        for (int j = 0; j <= i; j++)
            CHECK(p[i] && (i == j || p[i] != p[j]));
    /* What is resized from nothing has bytes. */
    p[0] = realloc(p[0], 100);
    CHECK(p[0]);
    memset(p[0], 1, 100);
    for (int i = 0; i < N; i++)
        free(p[i]);
}

BEHAVIOUR(realloc_to_zero_frees_and_returns_null) {
    limit_memory(200 << 20);
    for (size_t n = 100; n < 100 << 20; n *= 10)
        for (size_t total = 0; total < (size_t)500 << 20; total += n) {
            void *p = malloc(n);
            CHECK(p && realloc(p, zero) == NULL);
        }
}

BEHAVIOUR(requests_above_ptrdiff_max_fail_with_enomem) {
    void *p = malloc(100);
    CHECK_NO_MEMORY(malloc(too_much));
    CHECK_NO_MEMORY(malloc(most));
    CHECK_NO_MEMORY(malloc(most - 8));
    CHECK_NO_MEMORY(calloc(too_much, 1));
    CHECK_NO_MEMORY(calloc(1, most));
    CHECK_NO_MEMORY(realloc(p, too_much));
    CHECK_NO_MEMORY(realloc(p, most));
    CHECK_NO_MEMORY(realloc(NULL, too_much));
    CHECK_NO_MEMORY(reallocarray(p, too_much / 2, 2));
    CHECK_NO_MEMORY(aligned_alloc(64, too_much));
    CHECK_NO_MEMORY(memalign(64, too_much));
    CHECK_NO_MEMORY(valloc(too_much));
    CHECK_NO_MEMORY(pvalloc(too_much));
    void *out = p;
    CHECK(posix_memalign(&out, 64, too_much) == ENOMEM && out == p);
    free(p);
}

BEHAVIOUR(sizes_that_wrap_around_fail_with_enomem) {
    void *p = malloc(100), *out = p;
    CHECK_NO_MEMORY(calloc(most / 2, 3));
    CHECK_NO_MEMORY(calloc((size_t)1 << 32, ((size_t)1 << 32) + 1)); /* Wraps to 4 GiB. */
    CHECK_NO_MEMORY(calloc(most / 2 + 1, 2));                        /* Wraps to 0. */
    CHECK_NO_MEMORY(aligned_alloc(4096, most - 100));
    CHECK_NO_MEMORY(memalign(4096, most - 100));
    CHECK_NO_MEMORY(memalign((size_t)1 << 62, too_much - 100)); /* Each alone is allowed. */
    CHECK_NO_MEMORY(valloc(most - 100));
    CHECK_NO_MEMORY(pvalloc(most - 100));
    CHECK(posix_memalign(&out, 4096, most - 100) == ENOMEM && out == p);
    free(p);
}

BEHAVIOUR(failed_realloc_keeps_the_block) {
    for (size_t n = 1; n < 8 << 20; n = n * 5 + 1) {
        unsigned char *p = malloc(n);
        memset(p, 0x7E, n);
        CHECK_NO_MEMORY(realloc(p, too_much));
        CHECK_NO_MEMORY(realloc(p, too_much - 1 - n));
        CHECK_NO_MEMORY(reallocarray(p, most / 2, 3));
        CHECK(is_filled(p, n, 0x7E));
        free(p);
    }
}

BEHAVIOUR(free_preserves_errno) {
    for (size_t n = 1; n < 100 << 20; n = n * 7 + 3) {
        char *p = malloc(n);
        p[0] = p[n - 1] = 1;
        errno = 789;
        free(p);
        CHECK(errno == 789);
    }
    free(NULL);
    CHECK(errno == 789);
}

BEHAVIOUR(every_block_is_aligned_to_16) {
    static void *keep[3000];
    for (size_t n = 0; n < 3000; n++)
        CHECK(is_aligned(keep[n] = malloc(n), 16));
    for (size_t n = 0; n < 3000; n++)
        CHECK(is_aligned(keep[n] = realloc(keep[n], n / 2 + 1), 16));
    for (size_t n = 0; n < 3000; n++)
        free(keep[n]);
    for (size_t n = 1; n < 16 << 20; n = n * 3 / 2 + 1) {
        void *p = malloc(n), *q = calloc(1, n), *r = memalign(1, n);
        CHECK(is_aligned(p, 16) && is_aligned(q, 16) && is_aligned(r, 16));
        free(p), free(q), free(r);
    }
}
