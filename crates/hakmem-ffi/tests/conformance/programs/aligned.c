/* Blocks with an alignment. */
#include "conformance.h"

BEHAVIOUR(alignments_are_met) {
    for (size_t align = 1; align <= (size_t)64 << 20; align *= 2)
        for (size_t n = 1; n <= 200000; n = n * 11 + 3) {
            void *p = aligned_alloc(align, n), *q = memalign(align, n), *r = NULL;
            CHECK(is_aligned(p, align) && is_aligned(q, align));
            if (align >= sizeof(void *))
                CHECK(posix_memalign(&r, align, n) == 0 && is_aligned(r, align));
            memset(p, 3, n), memset(q, 4, n);
            CHECK(is_filled(p, n, 3));
            free(p), free(q), free(r);
        }
}

BEHAVIOUR(aligned_alloc_refuses_alignments_that_are_no_power_of_two) {
    static const size_t wrong[] = {0, 3, 24, 48, 100, SIZE_MAX};
    free(malloc(1));
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        errno = 0;
        sink = aligned_alloc(wrong[i], 100);
        LACKS_ON_GLIBC(sink != NULL, "before 2.38 it rounds them up");
        CHECK(sink == NULL && errno == EINVAL);
    }
    void *p = aligned_alloc(64, 100); /* The size need not be a multiple. */
    CHECK(is_aligned(p, 64));
    free(p);
}

BEHAVIOUR(posix_memalign_refuses_and_leaves_the_pointer) {
    static const size_t wrong[] = {0, 1, 2, 3, 4, 24, 100, SIZE_MAX};
    void *untouched = malloc(1), *out = untouched;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        CHECK(posix_memalign(&out, wrong[i], 100) == EINVAL && out == untouched);
    CHECK(posix_memalign(&out, 64, too_much) == ENOMEM && out == untouched);
    CHECK(posix_memalign(&out, 64, zero) == 0 && is_aligned(out, 64) && out != untouched);
    free(out), free(untouched);
}

BEHAVIOUR(posix_memalign_leaves_errno) {
    void *out = NULL;
    errno = 77;
    int result = posix_memalign(&out, 64, too_much);
    LACKS_ON_GLIBC(errno != 77, "a failure sets it");
    CHECK(result == ENOMEM && errno == 77);
    CHECK(posix_memalign(&out, 3, 100) == EINVAL && errno == 77);
    CHECK(posix_memalign(&out, 64, 100) == 0 && errno == 77);
    free(out);
}

BEHAVIOUR(memalign_rounds_odd_alignments_up) {
    static const size_t odd[][2] = {{0, 16}, {3, 16}, {17, 32}, {48, 64}, {100, 128}, {5000, 8192}, {70000, 131072}};
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        void *p = memalign(odd[i][0], 100);
        CHECK(is_aligned(p, odd[i][1]));
        free(p);
    }
    errno = 0;
    sink = memalign(most - 1, 100); /* There is no power of two above it. */
    CHECK(sink == NULL && errno == EINVAL);
}

BEHAVIOUR(valloc_and_pvalloc_give_pages) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    for (size_t n = 0; n < 5 * page; n += page / 3) {
        void *before = malloc(n); /* The first of its size may well lie at the start of a page. */
        void *p = valloc(n), *q = pvalloc(n);
        CHECK(is_aligned(p, page) && is_aligned(q, page));
        CHECK(malloc_usable_size(q) >= (n ? (n + page - 1) / page * page : 0));
        memset(q, 1, malloc_usable_size(q));
        free(p), free(q), free(before);
    }
}

BEHAVIOUR(blocks_lie_below_47_bits) {
    for (size_t n = 1; n < (size_t)1 << 32; n = n * 5 + 1) {
        void *p = malloc(n);
        CHECK(p && ((uintptr_t)p + n) >> 47 == 0);
        free(p);
    }
}
