/* One hazard per run: hazards NAME. Exit status 0: passed. */
#define _GNU_SOURCE
#include "resident.h"
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(what) \
    do { \
        if (!(what)) { \
            fprintf(stderr, "line %d: %s\n", __LINE__, #what); \
            return 1; \
        } \
    } while (0)

/* Memory that is locked cannot be given back: freeing it must end all the same, and it must read as zero for calloc. */
static int locked_huge(void) {
    const size_t n = 64 << 20;
    for (int i = 0; i < 4; i++) {
        char *p = malloc(n);
        CHECK(p);
        memset(p, 1, n);
        CHECK(mlock(p + (1 << 20), 4096) == 0);
        free(p);
        malloc_trim(0);
        p = calloc(1, n);
        CHECK(p);
        for (size_t at = 0; at < n; at += 512)
            CHECK(p[at] == 0);
        free(p);
    }
    return 0;
}

static volatile sig_atomic_t forks;

static void fork_here(int signal) {
    (void)signal;
    pid_t child = fork();
    if (child == 0)
        _exit(0);
    if (child > 0 && waitpid(child, NULL, 0) == child)
        forks++;
}

/* A signal handler forks while its own thread holds the allocator's locks. */
static int fork_in_a_handler(void) {
    struct sigaction action = {.sa_handler = fork_here, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &action, NULL);
    struct itimerval every = {{0, 2000}, {0, 2000}};
    setitimer(ITIMER_REAL, &every, NULL);
    while (forks < 200) {
        void *p[64];
        for (int i = 0; i < 64; i++)
            p[i] = malloc(300 << 10);
        for (int i = 0; i < 64; i++)
            memset(p[i], 1, 300 << 10), free(p[i]);
        free(malloc(8 << 20));
        malloc_trim(0);
    }
    return 0;
}

static void *churn(void *unused) {
    (void)unused;
    for (int i = 0; i < 100; i++) {
        char *p[100];
        for (int k = 0; k < 100; k++) {
            p[k] = malloc(16 + 8 * k);
            memset(p[k], 0xff, 16 + 8 * k);
        }
        for (int k = 0; k < 100; k++)
            free(p[k]);
    }
    return NULL;
}

static void *start_threads(void *count) {
    for (int i = 0; i < (int)(intptr_t)count; i++) {
        pthread_t thread;
        pthread_create(&thread, NULL, churn, NULL);
        pthread_join(thread, NULL);
    }
    return NULL;
}

/* Statistics are read while threads start, write into their blocks and end. */
static int statistics_beside_threads(void) {
    pthread_t starter;
    pthread_create(&starter, NULL, start_threads, (void *)(intptr_t)500);
    size_t sum = 0;
    while (pthread_tryjoin_np(starter, NULL) == EBUSY)
        sum += mallinfo2().uordblks;
    return sum == 0;
}

/* With no memory left, a block can still be made smaller. */
static int shrink_without_memory(void) {
    char *huge = malloc(3 << 20), *large = malloc(600000);
    CHECK(huge && large);
    memset(huge, 7, 50000);
    memset(large, 8, 30000);
    struct rlimit none = {0, 0};
    CHECK(setrlimit(RLIMIT_DATA, &none) == 0);
    for (size_t n = 8 << 20; n >= 16; n /= 2)
        for (int i = 0; i < 10000000 && malloc(n); i++) {
        }
    huge = realloc(huge, 50000);
    large = realloc(large, 30000);
    CHECK(huge && large);
    for (int i = 0; i < 30000; i++)
        CHECK(huge[i] == 7 && large[i] == 8);
    return 0;
}

/* The thread that made the scavenger ends; the scavenger goes on. */
static void *free_much(void *unused) {
    (void)unused;
    leave_idle();
    return NULL;
}

static int idle_memory_comes_back(void) {
    pthread_t thread;
    pthread_create(&thread, NULL, free_much, NULL);
    pthread_join(thread, NULL);
    /* Idle from here on; the caller's patience is the limit. */
    while (resident_kib() > 20 << 10)
        usleep(10000);
    return 0;
}

/* A block grown again and again keeps its contents, wherever its pages are moved. */
static int growth_by_moving(void) {
    size_t n = 1 << 20;
    uint64_t *p = malloc(n);
    for (size_t i = 0; i < n / 8; i++)
        p[i] = i;
    while (n < (size_t)300 << 20) {
        free(malloc(n)); /* Something beside it, so that it cannot always grow in place. */
        void *beside = malloc(2 << 20);
        size_t more = n + n / 2;
        p = realloc(p, more);
        CHECK(p && beside);
        for (size_t i = n / 8; i < more / 8; i++)
            p[i] = i;
        for (size_t i = 0; i < more / 8; i += 97)
            CHECK(p[i] == i);
        n = more;
    }
    free(p);
    return 0;
}

/* Large blocks of all sizes, replaced at random and hardly written to: memory must stay near what is live. */
static int large_blocks_at_random(void) {
    enum { N = 512 };
    static char *p[N];
    uint64_t x = 12345;
    for (int k = 0; k < 500000; k++) {
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        int i = x % N;
        size_t n = (x >> 30) % 3 == 0 ? 70000 + (x >> 20) % 900000 : 16 + (x >> 20) % 300;
        free(p[i]);
        p[i] = malloc(n);
        CHECK(p[i]);
        p[i][0] = p[i][n - 1] = 1;
    }
    /* About 95 MB are live, of which two pages a block are written. */
    CHECK(resident_kib() < 200 << 10);
    return 0;
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        int (*run)(void);
    } all[] = {
        {"locked_huge", locked_huge},
        {"fork_in_a_handler", fork_in_a_handler},
        {"statistics_beside_threads", statistics_beside_threads},
        {"shrink_without_memory", shrink_without_memory},
        {"idle_memory_comes_back", idle_memory_comes_back},
        {"growth_by_moving", growth_by_moving},
        {"large_blocks_at_random", large_blocks_at_random},
    };
    for (size_t i = 0; argc == 2 && i < sizeof all / sizeof *all; i++)
        if (strcmp(argv[1], all[i].name) == 0)
            return all[i].run();
    fprintf(stderr, "usage: hazards NAME\n");
    return 2;
}
