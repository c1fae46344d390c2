/* Larson's server pattern: each thread replaces random blocks of its set, then hands the whole set on to a successor
 * and ends. Every block carries a pattern that is checked before it is freed.
 *
 * larson SECONDS [THREADS]: prints the resident size every ten seconds; fails on damaged contents and, in runs of
 * more than two minutes, if the resident size grows by more than a tenth (and 2 MiB) after the first minute. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { BLOCKS = 1000, ROUND = 20000, MIN_SIZE = 8, MAX_SIZE = 1000, LARGE_SIZE = 40000, RARELY = 500 };

struct block {
    unsigned char *bytes;
    size_t size;
    unsigned char mark;
};

struct set {
    struct block blocks[BLOCKS];
    uint64_t random;
};

static atomic_int stop;
static atomic_ulong replaced, lives, damaged;

static uint64_t next_random(uint64_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    return *state ^= *state << 17;
}

static void fill(struct block *block, uint64_t random) {
    block->size = random % RARELY == 0 ? MAX_SIZE + random / RARELY % LARGE_SIZE
                                       : MIN_SIZE + random / RARELY % (MAX_SIZE - MIN_SIZE);
    block->mark = (unsigned char)(random >> 56);
    block->bytes = malloc(block->size);
    if (!block->bytes) {
        fprintf(stderr, "larson: out of memory\n");
        exit(2);
    }
    memset(block->bytes, block->mark, block->size);
}

static void check(const struct block *block) {
    for (size_t i = 0; i < block->size; i++)
        if (block->bytes[i] != block->mark) {
            fprintf(stderr, "larson: byte %zu of %zu at %p is damaged\n", i, block->size, (void *)block->bytes);
            atomic_fetch_add(&damaged, 1);
            return;
        }
}

static void *life(void *argument) {
    struct set *set = argument;
    for (int i = 0; i < ROUND; i++) {
        uint64_t random = next_random(&set->random);
        struct block *block = &set->blocks[random % BLOCKS];
        check(block);
        free(block->bytes);
        fill(block, next_random(&set->random));
    }
    atomic_fetch_add(&replaced, ROUND);
    atomic_fetch_add(&lives, 1);
    if (atomic_load(&stop))
        return NULL;
    pthread_attr_t attr;
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_JOINABLE);
    pthread_t *successor = malloc(sizeof *successor);
    if (pthread_create(successor, &attr, life, set) != 0) {
        fprintf(stderr, "larson: no thread\n");
        exit(2);
    }
    pthread_attr_destroy(&attr);
    return successor;
}

static long resident_kib(void) {
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file || fscanf(file, "%*d %ld", &pages) != 1)
        pages = 0;
    if (file)
        fclose(file);
    return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Follows one chain of threads to its end: each returns its successor's handle. */
static void *follow(void *first) {
    pthread_t *thread = first;
    while (thread) {
        pthread_t current = *thread;
        free(thread);
        void *next = NULL;
        pthread_join(current, &next);
        thread = next;
    }
    return NULL;
}

int main(int argc, char **argv) {
    double seconds = argc > 1 ? atof(argv[1]) : 0;
    int threads = argc > 2 ? atoi(argv[2]) : 4;
    if (!(seconds > 0) || threads < 1 || threads > 256) {
        fprintf(stderr, "usage: larson SECONDS [THREADS]\n");
        return 2;
    }
    struct set *sets = calloc((size_t)threads, sizeof *sets);
    pthread_t *followers = calloc((size_t)threads, sizeof *followers);
    for (int i = 0; i < threads; i++) {
        sets[i].random = 0x9E3779B97F4A7C15u * (unsigned)(i + 1);
        for (int j = 0; j < BLOCKS; j++)
            fill(&sets[i].blocks[j], next_random(&sets[i].random));
        pthread_t *first = malloc(sizeof *first);
        if (pthread_create(first, NULL, life, &sets[i]) != 0 ||
            pthread_create(&followers[i], NULL, follow, first) != 0) {
            fprintf(stderr, "larson: no thread\n");
            return 2;
        }
    }
    double begin = now(), report = 10;
    long after_a_minute = 0, highest_later = 0;
    while (now() - begin < seconds) {
        usleep(100000);
        double elapsed = now() - begin;
        if (elapsed < report)
            continue;
        report += 10;
        long resident = resident_kib();
        printf("%5.0f s  %8ld KiB resident  %12lu replaced  %8lu threads\n", elapsed, resident, replaced, lives);
        fflush(stdout);
        if (elapsed <= 61) {
            if (resident > after_a_minute)
                after_a_minute = resident;
        } else if (resident > highest_later)
            highest_later = resident;
    }
    atomic_store(&stop, 1);
    for (int i = 0; i < threads; i++)
        pthread_join(followers[i], NULL);
    for (int i = 0; i < threads; i++)
        for (int j = 0; j < BLOCKS; j++) {
            check(&sets[i].blocks[j]);
            free(sets[i].blocks[j].bytes);
        }
    free(sets), free(followers);
    double rate = (double)replaced / (now() - begin) / 1e6;
    printf("%lu replaced by %lu threads, %.1f million a second; %lu damaged\n", replaced, lives, rate, damaged);
    if (highest_later > after_a_minute + after_a_minute / 10 + 2048 && seconds > 120) {
        printf("FAIL: grew from %ld to %ld KiB after the first minute\n", after_a_minute, highest_later);
        return 1;
    }
    return damaged != 0 || lives < (unsigned long)threads;
}
