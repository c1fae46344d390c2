/* Functions of other systems and standards, and glibc's second names. */
#include "conformance.h"

BEHAVIOUR(reallocarray_overflow_is_enomem) {
    unsigned char *p = reallocarray(NULL, 10, 30);
    CHECK(p && malloc_usable_size(p) >= 300);
    memset(p, 6, 300);
    CHECK_NO_MEMORY(reallocarray(p, most / 2, 3));
    CHECK_NO_MEMORY(reallocarray(p, (size_t)1 << 33, (size_t)1 << 33));
    p = reallocarray(p, 1000, 30);
    CHECK(p && is_filled(p, 300, 6));
    free(p);
}

BEHAVIOUR(free_sized_and_free_aligned_sized_free) {
    void (*sized)(void *, size_t) = (void (*)(void *, size_t))function("free_sized");
    void (*aligned)(void *, size_t, size_t) = (void (*)(void *, size_t, size_t))function("free_aligned_sized");
    LACKS_ON_GLIBC(!sized || !aligned, "not in this version");
    limit_memory(200 << 20);
    for (size_t n = 100; n < 50 << 20; n *= 10)
        for (size_t total = 0; total < (size_t)500 << 20; total += n) {
            void *p = malloc(n), *q = aligned_alloc(64, n);
            CHECK(p && q);
            sized(p, n), aligned(q, 64, n);
        }
    sized(NULL, 0), aligned(NULL, 64, 0);
}

BEHAVIOUR(reallocf_frees_when_it_fails) {
    void *(*reallocf)(void *, size_t) = (void *(*)(void *, size_t))function("reallocf");
    LACKS_ON_GLIBC(!reallocf, "it is FreeBSD's");
    char *p = reallocf(malloc(10), 1000);
    CHECK(p && malloc_usable_size(p) >= 1000);
    limit_memory(200 << 20);
    for (int i = 0; i < 100; i++) {
        void *q = malloc(20 << 20);
        CHECK(q);
        CHECK_NO_MEMORY(reallocf(q, too_much));
    }
    CHECK(reallocf(p, zero) == NULL);
}

BEHAVIOUR(reallocarr_reports_by_its_result) {
    int (*reallocarr)(void *, size_t, size_t) = (int (*)(void *, size_t, size_t))function("reallocarr");
    LACKS_ON_GLIBC(!reallocarr, "it is NetBSD's");
    unsigned char *p = NULL;
    errno = 5;
    CHECK(reallocarr(&p, 10, 10) == 0 && p && errno == 5);
    memset(p, 8, 100);
    CHECK(reallocarr(&p, 100, 100) == 0 && is_filled(p, 100, 8));
    unsigned char *before = p;
    CHECK(reallocarr(&p, most / 2, 3) == EOVERFLOW && p == before && errno == 5);
    CHECK(reallocarr(&p, too_much, 1) == ENOMEM && p == before && errno == 5);
    CHECK(is_filled(p, 100, 8));
    CHECK(reallocarr(&p, zero, 10) == 0 && p == NULL);
    CHECK(reallocarr(&p, zero, 10) == 0 && p == NULL);
}

BEHAVIOUR(cfree_frees) {
    void (*cfree)(void *) = (void (*)(void *))function("cfree");
    LACKS_ON_GLIBC(!cfree, "it went with 2.26");
    limit_memory(200 << 20);
    for (int i = 0; i < 100; i++) {
        void *p = malloc(20 << 20);
        CHECK(p);
        cfree(p);
    }
    cfree(NULL);
}

BEHAVIOUR(libc_aliases_are_the_same_allocator) {
    void *(*a_malloc)(size_t) = (void *(*)(size_t))function("__libc_malloc");
    void *(*a_calloc)(size_t, size_t) = (void *(*)(size_t, size_t))function("__libc_calloc");
    void *(*a_realloc)(void *, size_t) = (void *(*)(void *, size_t))function("__libc_realloc");
    void (*a_free)(void *) = (void (*)(void *))function("__libc_free");
    void *(*a_memalign)(size_t, size_t) = (void *(*)(size_t, size_t))function("__libc_memalign");
    int (*a_posix)(void **, size_t, size_t) = (int (*)(void **, size_t, size_t))function("__posix_memalign");
    uint64_t before = served();
    /* Blocks pass freely between the names. */
    char *p = a_malloc(100);
    strcpy(p, "text");
    p = a_realloc(realloc(p, 5000), 50000);
    CHECK(!strcmp(p, "text"));
    free(p);
    a_free(malloc(10)), a_free(memalign(64, 10)), a_free(NULL);
    unsigned char *q = a_calloc(100, 10);
    CHECK(is_filled(q, 1000, 0));
    q = realloc(q, 10);
    a_free(q);
    void *r = a_memalign(256, 10);
    CHECK(is_aligned(r, 256));
    free(r);
    if (a_posix) { /* Old programs link to it; new glibcs have it for them alone. */
        CHECK(a_posix(&r, 512, 10) == 0 && is_aligned(r, 512));
        free(r);
    }
    CHECK(!on_hakmem || served() - before >= 8);
}
