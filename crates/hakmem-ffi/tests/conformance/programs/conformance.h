/* A conformance program holds named behaviours and runs one of them: PROGRAM NAME glibc|hakmem. PROGRAM --list names
 * them. Its output is "ok N", N being the blocks that hakmem handed out meanwhile; "lacks WHY", on glibc alone; or
 * "FAIL FILE:LINE: WHAT". */
#ifndef CONFORMANCE_H
#define CONFORMANCE_H
#include "hakmem.h"
#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

struct behaviour {
    const char *name;
    void (*run)(void);
};

/* BEHAVIOUR(name) { ... } defines one and lists it. */
#define BEHAVIOUR(name)                                                                                                \
    static void name(void);                                                                                            \
    __attribute__((section("behaviours"), used)) static const struct behaviour behaviour_##name = {#name, name};       \
    static void name(void)
extern const struct behaviour __start_behaviours[], __stop_behaviours[];

/* Whether hakmem is to serve this run. */
static int on_hakmem;

/* dprintf has its buffer on the stack: saying what went wrong allocates nothing. */
#define CHECK(what)                                                                                                    \
    do {                                                                                                               \
        if (!(what)) {                                                                                                 \
            dprintf(1, "FAIL %s:%d: %s\n", __FILE__, __LINE__, #what);                                                 \
            _exit(1);                                                                                                  \
        }                                                                                                              \
    } while (0)

/* Ends the run: glibc has no such behaviour. */
#define LACKS_ON_GLIBC(condition, why)                                                                                 \
    do {                                                                                                               \
        if (!on_hakmem && (condition)) {                                                                               \
            dprintf(1, "lacks %s\n", why);                                                                             \
            _exit(0);                                                                                                  \
        }                                                                                                              \
    } while (0)

/* The call refuses, and says that there is no memory. */
#define CHECK_NO_MEMORY(call)                                                                                          \
    do {                                                                                                               \
        errno = 0;                                                                                                     \
        sink = (call);                                                                                                 \
        CHECK(sink == NULL && errno == ENOMEM);                                                                        \
    } while (0)

/* Results go here, and numbers come from here, so that the compiler neither removes a call nor judges its arguments. */
static void *volatile sink __attribute__((unused));
static volatile size_t zero __attribute__((unused)) = 0;
static volatile size_t too_much __attribute__((unused)) = (size_t)PTRDIFF_MAX + 1;
static volatile size_t most __attribute__((unused)) = SIZE_MAX;

__attribute__((unused)) static int is_aligned(const void *p, size_t align) { return p && (uintptr_t)p % align == 0; }

__attribute__((unused)) static int is_filled(const void *p, size_t n, unsigned char value) {
    for (size_t i = 0; i < n; i++)
        if (((const unsigned char *)p)[i] != value)
            return 0;
    return 1;
}

/* From here on only so much memory can be made writable: what is not freed is missed soon. */
__attribute__((unused)) static void limit_memory(size_t bytes) {
    struct rlimit limit = {bytes, RLIM_INFINITY};
    CHECK(setrlimit(RLIMIT_DATA, &limit) == 0);
}

/* A child that checked everything ends with 0. */
__attribute__((unused)) static int ended_well(pid_t child) {
    int status = -1;
    return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

/* A function of the running allocator that not every C library has. */
__attribute__((unused)) static void *function(const char *name) {
    void *f = dlsym(RTLD_DEFAULT, name);
    if (!f && on_hakmem) {
        dprintf(1, "FAIL there is no %s\n", name);
        _exit(1);
    }
    return f;
}

static void (*figures)(struct hakmem_stats *);
static uint64_t served_before;

static uint64_t served(void) {
    struct hakmem_stats now = {};
    if (figures)
        figures(&now);
    return now.allocations;
}

/* The behaviour held. */
static void conclude(void) {
    dprintf(1, "ok %llu\n", (unsigned long long)(served() - served_before));
}

int main(int argc, char **argv) {
    if (argc == 2 && !strcmp(argv[1], "--list")) {
        for (const struct behaviour *b = __start_behaviours; b < __stop_behaviours; b++)
            puts(b->name);
        return 0;
    }
    if (argc != 3) {
        dprintf(2, "usage: %s NAME glibc|hakmem, or --list\n", argv[0]);
        return 2;
    }
    alarm(120); /* Ends what hangs. */
    on_hakmem = !strcmp(argv[2], "hakmem");
    figures = (void (*)(struct hakmem_stats *))dlsym(RTLD_DEFAULT, "hakmem_stats");
    CHECK(on_hakmem == (figures != NULL));
    for (const struct behaviour *b = __start_behaviours; b < __stop_behaviours; b++)
        if (!strcmp(b->name, argv[1])) {
            served_before = served();
            b->run();
            conclude();
            return 0;
        }
    dprintf(2, "%s: no behaviour %s\n", argv[0], argv[1]);
    return 2;
}
#endif
