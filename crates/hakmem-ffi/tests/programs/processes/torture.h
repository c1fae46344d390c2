/* What the programs about threads and processes share: checks, a ledger of blocks outside the heap, counts, choices. */
#ifndef TORTURE_H
#define TORTURE_H
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* Ends the process at once, from any thread or child. Allocates nothing. */
#define CHECK(what)                                                                                                    \
    do {                                                                                                               \
        if (!(what)) {                                                                                                 \
            dprintf(2, "%s:%d: pid %d: %s\n", __FILE__, __LINE__, (int)getpid(), #what);                                \
            _exit(1);                                                                                                  \
        }                                                                                                              \
    } while (0)

/* Memory that is not the heap's, and that forked children share with their parent. */
static inline void *shared_memory(size_t bytes) {
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(p != MAP_FAILED);
    return p;
}

/* The same, but a child gets a copy. */
static inline void *private_memory(size_t bytes) {
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(p != MAP_FAILED);
    return p;
}

/* Counters in shared memory: what was really done, for the test to assert. */
enum { MAX_COUNTERS = 16 };
struct counters {
    long n[MAX_COUNTERS];
};
static struct counters *counters;

static inline void count(int which) { __atomic_fetch_add(&counters->n[which], 1, __ATOMIC_RELAXED); }
static inline long counted(int which) { return __atomic_load_n(&counters->n[which], __ATOMIC_RELAXED); }

static inline void say_counts(const char *const names[]) {
    for (int i = 0; names[i]; i++)
        dprintf(1, "%s %ld\n", names[i], counted(i));
}

/* xorshift64 */
static inline uint64_t choose(uint64_t *state) {
    uint64_t x = *state;
    x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    return *state = x;
}

static inline size_t choose_size(uint64_t *random) {
    uint64_t x = choose(random);
    switch (x % 256) {
    case 0: return (1 << 20) + (x >> 20) % (3 << 20);
    case 1 ... 3: return (64 << 10) + (x >> 20) % (900 << 10);
    case 4 ... 20: return 1 + (x >> 20) % (64 << 10);
    default: return 1 + (x >> 20) % 600;
    }
}

/* A block as the ledger knows it. Its bytes tell of its seed, so that two blocks that overlap damage each other. */
struct block {
    unsigned char *p;
    size_t n;
    uint64_t seed;
};

/* Bytes between those that are written in blocks above a page: all of a small one, some of each page of a large one. */
static inline size_t stride(size_t n) { return n <= 4096 ? 1 : 509; }

static inline void block_make(struct block *b, size_t n, uint64_t seed) {
    b->p = (unsigned char *)malloc(n);
    CHECK(b->p && (uintptr_t)b->p % 16 == 0);
    b->n = n, b->seed = seed;
    for (size_t i = 0, step = stride(n); i < n; i += step)
        b->p[i] = (unsigned char)(seed + i);
    b->p[n - 1] = (unsigned char)~seed;
}

static inline void block_check(const struct block *b) {
    if (!b->p)
        return;
    CHECK(b->p[b->n - 1] == (unsigned char)~b->seed);
    for (size_t i = 0, step = stride(b->n); i + 1 < b->n; i += step)
        CHECK(b->p[i] == (unsigned char)(b->seed + i));
}

static inline void block_end(struct block *b) {
    block_check(b);
    free(b->p);
    b->p = NULL;
}

/* One step of a life: a block of the ledger ends, and another begins in its place. */
static inline void churn(struct block *ledger, int blocks, uint64_t *random) {
    uint64_t x = choose(random);
    struct block *b = &ledger[x % blocks];
    block_end(b);
    if (x >> 60)
        block_make(b, choose_size(random), x);
}

static inline void check_all(const struct block *ledger, int blocks) {
    for (int i = 0; i < blocks; i++)
        block_check(&ledger[i]);
}

static inline void end_all(struct block *ledger, int blocks) {
    for (int i = 0; i < blocks; i++)
        block_end(&ledger[i]);
}

/* Waits for a child, which must succeed. */
static inline void child_succeeds(pid_t child) {
    int status = -1;
    CHECK(child > 0);
    pid_t got;
    do
        got = waitpid(child, &status, 0);
    while (got < 0 && errno == EINTR);
    CHECK(got == child);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        dprintf(2, "child %d ended with status %#x\n", (int)child, status);
        _exit(1);
    }
}

/* Runs the scenario that is named first among the arguments. */
struct scenario {
    const char *name;
    void (*run)(long n);
};
static inline int run_scenario(const struct scenario *all, int argc, char **argv) {
    counters = (struct counters *)shared_memory(sizeof *counters);
    for (; argc == 3 && all->name; all++)
        if (strcmp(argv[1], all->name) == 0) {
            all->run(strtol(argv[2], NULL, 10));
            return 0;
        }
    dprintf(2, "usage: %s SCENARIO COUNT\n", argv[0]);
    return 2;
}
#endif
