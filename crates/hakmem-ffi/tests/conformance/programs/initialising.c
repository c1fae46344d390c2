/* What an allocator may call while it sets itself up, made to allocate itself: the program's own versions of these
 * functions stand in front of the C library's. */
#include "conformance.h"
#include <pthread.h>

/* Volatile: the headers promise the compiler that malloc and free call nothing of the program. */
static volatile int reached;

static void allocate(void) {
    static __thread int deep;
    if (deep++ == 0) {
        char *p = calloc(3, 100), *q = malloc(100000);
        CHECK(p && q && is_filled(p, 300, 0));
        memset(p, 1, 300), memset(q, 1, 100000);
        free(realloc(p, 5000)), free(q);
        reached++;
    }
    deep--;
}

/* dlsym itself is one of them. */
static void *look_up(void *where, const char *name) {
    static void *(*real)(void *, const char *);
    if (!real)
        real = (void *(*)(void *, const char *))dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.34");
    if (!real)
        real = (void *(*)(void *, const char *))dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
    return real(where, name);
}

static void *next(const char *name) { return look_up(RTLD_NEXT, name); }

void *dlsym(void *handle, const char *name) {
    allocate();
    return look_up(handle, name);
}

int pthread_key_create(pthread_key_t *key, void (*destructor)(void *)) {
    allocate();
    return ((int (*)(pthread_key_t *, void (*)(void *)))next("pthread_key_create"))(key, destructor);
}

int pthread_setspecific(pthread_key_t key, const void *value) {
    allocate();
    return ((int (*)(pthread_key_t, const void *))next("pthread_setspecific"))(key, value);
}

/* What pthread_atfork becomes. */
int __register_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void), void *library) {
    allocate();
    typedef int (*type)(void (*)(void), void (*)(void), void (*)(void), void *);
    return ((type)next("__register_atfork"))(prepare, parent, child, library);
}

char *getenv(const char *name) {
    allocate();
    return ((char *(*)(const char *))next("getenv"))(name);
}

static void *in_a_thread(void *unused) {
    free(malloc(100));
    return unused;
}

BEHAVIOUR(what_is_called_while_initialising_may_allocate) {
    void *p = malloc(100);
    CHECK(p);
    pthread_t thread;
    for (int i = 0; i < 10; i++)
        CHECK(pthread_create(&thread, NULL, in_a_thread, NULL) == 0 && pthread_join(thread, NULL) == 0);
    free(p);
    /* The first foreign pointer makes the allocator look for the one behind it, by dlsym. */
    void *volatile foreign = (void *)0x7FFFFFFFFFF0;
    if (on_hakmem) {
        int before = reached;
        free(foreign);
        CHECK(before > 0 && reached > before);
    }
    CHECK(ended_well(fork() ?: (free(malloc(100)), _exit(0), 0)));
}
