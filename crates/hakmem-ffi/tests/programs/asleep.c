/* Threads that sleep.
 *
 * asleep idle     32 threads each allocate and free 8 MB of mixed sizes, and sleep. Ends when less
 *                 than an eighth of that is resident, or after half a minute with status 1.
 * asleep forked   the first thread of a child of fork does so, with 64 MB
 * asleep at_work  threads allocate, write, check and free blocks, also each other's, and sleep */
#define _GNU_SOURCE
#include "must.h"
#include "resident.h"
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MOST (64 << 20)

static pthread_barrier_t freed;

static void nap(long us) {
    struct timespec time = {us / 1000000, us % 1000000 * 1000};
    nanosleep(&time, NULL);
}

static uint32_t next(uint32_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 17;
    return *state ^= *state << 5;
}

static size_t any_size(uint32_t *state) {
    return 16 + next(state) % (next(state) % 8 ? 1000 : 32000);
}

/* Allocates and frees so many bytes, and sleeps for ever. */
static void *idle(void *bytes) {
    uint32_t state = 2463534242u;
    size_t left = (size_t)bytes, count = 0;
    char **blocks = malloc(left / 16);
    for (; left < (size_t)MOST + 1; count++) {
        size_t size = any_size(&state);
        MUST(blocks[count] = malloc(size));
        memset(blocks[count], 1, size);
        left -= size;
    }
    while (count)
        free(blocks[--count]);
    free(blocks);
    pthread_barrier_wait(&freed);
    for (;;)
        pause();
}

/* Waits until `threads` threads have freed `bytes` each, and their memory has gone back. */
static void *watch(void *bytes_and_threads) {
    long *all = bytes_and_threads, most = all[0] / 1024 * all[1] / 8;
    pthread_barrier_wait(&freed);
    for (int i = 0; i < 3000; i++) {
        if (resident_kib() < most)
            exit(0);
        nap(10000);
    }
    printf("%ld KiB are resident\n", resident_kib());
    exit(1);
}

static void sleepers(void) {
    enum { THREADS = 32 };
    static long each[2] = {8 << 20, THREADS};
    pthread_t thread;
    pthread_barrier_init(&freed, NULL, THREADS + 1);
    for (int i = 0; i < THREADS; i++)
        MUST(!pthread_create(&thread, NULL, idle, (void *)each[0]));
    watch(each);
}

static int forked(void) {
    static long each[2] = {MOST, 1};
    int status = -1;
    pthread_t thread;
    free(malloc(100));
    pid_t child = fork();
    MUST(child >= 0);
    if (child) {
        MUST(waitpid(child, &status, 0) == child);
        return status != 0;
    }
    pthread_barrier_init(&freed, NULL, 2);
    MUST(!pthread_create(&thread, NULL, watch, each));
    idle((void *)each[0]);
    return 1;
}

/* Places that threads put blocks in and take them from. */
#define PLACES 4096
static uint32_t *places[PLACES];

static void *at_work(void *number) {
    uint32_t state = 88172645u + (uint32_t)(uintptr_t)number;
    for (int round = 0; round < 60; round++) {
        for (int i = 0; i < 3000; i++) {
            uint32_t words = (uint32_t)any_size(&state) / 4, *p = malloc(words * 4);
            MUST(p);
            for (size_t at = 0; at < words; at++)
                p[at] = words;
            p = __atomic_exchange_n(&places[next(&state) % PLACES], p, __ATOMIC_ACQ_REL);
            if (!p)
                continue;
            words = p[0];
            for (size_t at = 0; at < words; at++)
                MUST(p[at] == words);
            free(p);
        }
        nap(next(&state) % 40000);
    }
    return NULL;
}

static int workers(void) {
    enum { THREADS = 6 };
    pthread_t thread[THREADS];
    for (long i = 0; i < THREADS; i++)
        MUST(!pthread_create(&thread[i], NULL, at_work, (void *)i));
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    for (int i = 0; i < PLACES; i++)
        free(places[i]);
    return 0;
}

int main(int argc, char **argv) {
    MUST(argc == 2);
    if (!strcmp(argv[1], "idle"))
        sleepers();
    return !strcmp(argv[1], "forked") ? forked() : workers();
}
