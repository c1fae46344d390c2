/* A program with a malloc of its own. It has none of the functions that are not among those which a malloc must have. */
#define _GNU_SOURCE
#include "must.h"
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

/* Each block has its size in front. */
enum { FRONT = 16, POOL = 16 << 20 };
static char pool[POOL] __attribute__((aligned(16)));
static size_t used;

static int is_own(const void *p) {
    return (const char *)p >= pool && (const char *)p < pool + POOL;
}

void *malloc(size_t size) {
    size_t all = FRONT + (size + 15) / 16 * 16;
    if (size > POOL || used + all > POOL)
        return NULL;
    char *p = pool + used;
    memcpy(p, &size, sizeof size);
    used += all;
    return p + FRONT;
}

static int frees;

void free(void *p) {
    frees += p != NULL;
}

void *calloc(size_t count, size_t size) {
    return malloc(count * size); /* The pool is zero, and no block comes twice. */
}

void *realloc(void *p, size_t size) {
    size_t was = 0;
    void *q = malloc(size);
    if (p != NULL && q != NULL) {
        memcpy(&was, (char *)p - FRONT, sizeof was);
        memcpy(q, p, was < size ? was : size);
    }
    return q;
}

/* A program that is linked for a fixed address has addresses of its own for these functions. */
static void *volatile addresses[] = {(void *)abort, (void *)reallocarray};

int main(void) {
    MUST(addresses[0] != NULL && addresses[1] != NULL);
    char *p = malloc(100);
    MUST(is_own(strcpy(p, "text")));
    p = reallocarray(p, 1000, 2);
    MUST(is_own(p) && strcmp(p, "text") == 0);
    MUST(is_own(reallocarray(NULL, 10, 10)));

    /* The C library of this system need not have these four. */
    void *(*reallocf)(void *, size_t) = (void *(*)(void *, size_t))dlsym(RTLD_DEFAULT, "reallocf");
    int (*reallocarr)(void *, size_t, size_t) = (int (*)(void *, size_t, size_t))dlsym(RTLD_DEFAULT, "reallocarr");
    void (*free_sized)(void *, size_t) = (void (*)(void *, size_t))dlsym(RTLD_DEFAULT, "free_sized");
    void (*free_aligned_sized)(void *, size_t, size_t) =
        (void (*)(void *, size_t, size_t))dlsym(RTLD_DEFAULT, "free_aligned_sized");
    if (dlsym(RTLD_DEFAULT, "hakmem_version") != NULL)
        MUST(reallocf && reallocarr && free_sized && free_aligned_sized);
    if (reallocf != NULL) {
        p = reallocf(p, 3000);
        MUST(is_own(p) && strcmp(p, "text") == 0);
        int before = frees;
        MUST(reallocf(p, 2 * (size_t)POOL) == NULL && frees == before + 1);
    }
    if (free_sized != NULL && free_aligned_sized != NULL) {
        int before = frees;
        free_sized(malloc(10), 10);
        free_aligned_sized(malloc(10), 16, 10);
        MUST(frees == before + 2);
    }
    if (reallocarr != NULL)
        MUST(reallocarr(&p, 10, 1000) == 0 && is_own(p) && strcmp(p, "text") == 0);
    return 0;
}
