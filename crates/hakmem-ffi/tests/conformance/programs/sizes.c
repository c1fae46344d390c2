/* malloc_usable_size, and what realloc makes of it. */
#include "conformance.h"

enum { LARGEST = 12 << 20 };
#define SIZES(n) size_t n = 1; n < LARGEST; n = n * 5 / 4 + 1

BEHAVIOUR(usable_size_is_constant) {
    for (SIZES(n)) {
        unsigned char *p = malloc(n);
        size_t usable = malloc_usable_size(p);
        CHECK(usable >= n);
        void *q = malloc(n), *r = malloc(n);
        free(q);
        memset(p, 1, n);
        CHECK(malloc_usable_size(p) == usable);
        free(r);
        CHECK(malloc_usable_size(p) == usable);
        free(p);
    }
    CHECK(malloc_usable_size(NULL) == 0);
}

BEHAVIOUR(usable_size_is_writable) {
    for (SIZES(n)) {
        unsigned char *p[3];
        for (int i = 0; i < 3; i++)
            p[i] = malloc(n), memset(p[i], i, malloc_usable_size(p[i]));
        for (int i = 0; i < 3; i++)
            CHECK(is_filled(p[i], malloc_usable_size(p[i]), i));
        for (int i = 0; i < 3; i++)
            free(p[i]);
    }
    unsigned char *p = memalign(4096, 100);
    memset(p, 5, malloc_usable_size(p));
    CHECK(is_filled(p, malloc_usable_size(p), 5));
    free(p);
}

BEHAVIOUR(realloc_copies_the_whole_usable_size) {
    for (SIZES(n)) {
        unsigned char *p = malloc(n);
        size_t usable = malloc_usable_size(p);
        memset(p, 0xA5, usable);
        sink = malloc(n); /* What lies beside it keeps it from growing in place. */
        p = realloc(p, usable * 3);
        CHECK(is_filled(p, usable, 0xA5));
        p = realloc(p, usable / 2 + 1);
        CHECK(is_filled(p, usable / 2 + 1, 0xA5));
        free(p), free(sink);
    }
    unsigned char *p = memalign(4096, 100);
    size_t usable = malloc_usable_size(p);
    memset(p, 9, usable);
    p = realloc(p, 100000);
    CHECK(is_filled(p, usable, 9));
    free(p);
}

BEHAVIOUR(growing_to_the_usable_size_stays_in_place) {
    for (SIZES(n)) {
        void *p = malloc(n), *beside = malloc(n);
        void *q = realloc(p, malloc_usable_size(p));
        LACKS_ON_GLIBC(q != p, "a block with a mapping of its own gets another page");
        CHECK(q == p);
        free(p), free(beside);
    }
}
