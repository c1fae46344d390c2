/* The system refuses, one way per run: limits NAME. Exit status 0: passed. The books lie outside the heap. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)
#define CHECK(what) \
    do { \
        if (!(what)) { \
            fprintf(stderr, "line %d: %s (errno %d)\n", __LINE__, #what, errno); \
            exit(1); \
        } \
    } while (0)

enum { MOST = 60000 };
struct block {
    uint32_t *at;
    size_t size;
};
static struct block blocks[MOST];
static size_t count, live;

/* The first word of each 4 KiB, and the last word, tell whose they are. */
static void mark(struct block b) {
    for (size_t at = 0; at + 4 <= b.size; at += 4096)
        b.at[at / 4] = (uint32_t)(b.size + at);
    if (b.size >= 4)
        b.at[b.size / 4 - 1] = (uint32_t)b.size;
}

static void check_block(struct block b) {
    size_t last = b.size / 4 - 1;
    for (size_t at = 0; at + 4 <= b.size; at += 4096)
        CHECK(at / 4 == last || b.at[at / 4] == (uint32_t)(b.size + at));
    CHECK(b.at[last] == (uint32_t)b.size);
}

/* False: NULL, and errno says why. */
static int add(size_t size) {
    if (count == MOST)
        return 0;
    errno = 0;
    struct block b = {malloc(size), size};
    if (!b.at) {
        CHECK(errno == ENOMEM);
        return 0;
    }
    mark(b);
    blocks[count++] = b;
    live += size;
    return 1;
}

static void drop(size_t i) {
    check_block(blocks[i]);
    errno = 77;
    free(blocks[i].at);
    CHECK(errno == 77);
    live -= blocks[i].size;
    blocks[i] = blocks[--count];
}

static void drop_all_but(size_t n) {
    while (count > n)
        drop(count - 1);
}

static uint64_t seed = 88172645463325252;
static size_t chance(size_t below) {
    seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
    return (seed >> 11) % below;
}

static size_t some_size(void) {
    switch (chance(20)) {
    case 0: return MIB + chance(4 * MIB);
    case 1: case 2: return 65536 + chance(MIB - 65536);
    case 3: case 4: case 5: case 6: return 1024 + chance(60000);
    default: return 16 + chance(1008);
    }
}

/* Allocates until nothing is to be had, not even the least. Returns how much was had. */
static size_t exhaust(void) {
    for (int refused = 0; refused < 40 && count < MOST;)
        refused += !add(some_size());
    for (size_t size = 4 * MIB; size >= 16; size /= 2)
        while (count < MOST && add(size)) {
        }
    return live;
}

/* Allocates, resizes and frees; what is refused is refused. Returns how often. */
static size_t churn(int rounds) {
    size_t refused = 0;
    for (int i = 0; i < rounds; i++) {
        if (count < MOST && live < 64 * MIB)
            refused += !add(some_size());
        if (count > 0 && chance(2))
            drop(chance(count));
        if (count > 0 && chance(8) == 0) {
            struct block *b = &blocks[chance(count)];
            size_t size = some_size();
            check_block(*b);
            errno = 0;
            void *p = realloc(b->at, size);
            CHECK(p || errno == ENOMEM);
            refused += !p;
            if (p) {
                live += size - b->size;
                *b = (struct block){p, size};
                mark(*b);
            }
        }
        if (i % 500 == 499)
            malloc_trim(0);
    }
    return refused;
}

static void calloc_is_zero_below(size_t most) {
    for (size_t size = 100; size < most; size = size * 5 / 2) {
        char *p = calloc(1, size);
        CHECK(p);
        for (size_t i = 0; i < size; i++)
            CHECK(p[i] == 0);
        memset(p, 1, size);
        free(p);
    }
}

static void calloc_is_zero(void) {
    calloc_is_zero_below(8 * MIB);
}

static size_t statm(int field) {
    FILE *f = fopen("/proc/self/statm", "r");
    CHECK(f);
    size_t n[2];
    CHECK(fscanf(f, "%zu %zu", &n[0], &n[1]) == 2);
    fclose(f);
    return n[field] * (size_t)sysconf(_SC_PAGESIZE);
}

/* The soft limit alone, so that it can be raised again. */
static void limit_address_space(size_t bytes) {
    struct rlimit limit;
    CHECK(getrlimit(RLIMIT_AS, &limit) == 0);
    limit.rlim_cur = bytes;
    CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
    CHECK(getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur == bytes);
}

static void unlimited_again(void) {
    struct rlimit limit;
    CHECK(getrlimit(RLIMIT_AS, &limit) == 0);
    limit.rlim_cur = limit.rlim_max;
    CHECK(prlimit(0, RLIMIT_AS, &limit, NULL) == 0);
}

static void *work_a_little(void *unused) {
    (void)unused;
    for (int i = 0; i < 1000; i++) {
        char *p = malloc(100 + i);
        CHECK(p);
        p[i] = 1;
        free(p);
    }
    return malloc(100);
}

/* Threads start, and the program maps what it wants. */
static void room_for(size_t bytes) {
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(p != MAP_FAILED);
    CHECK(munmap(p, bytes) == 0);
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        CHECK(pthread_create(&threads[i], NULL, work_a_little, NULL) == 0);
    for (int i = 0; i < 4; i++) {
        void *block;
        CHECK(pthread_join(threads[i], &block) == 0 && block);
        free(block);
    }
}

/* Under a limit that was there from the start: all of it can be used but for some MiB, and used again. */
static void small_address_space(void) {
    struct rlimit limit;
    CHECK(getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY);
    size_t had = exhaust();
    printf("%zu of %zu KiB\n", had >> 10, (size_t)limit.rlim_cur >> 10);
    CHECK(count < MOST && had < limit.rlim_cur);
    for (size_t i = 0; i < count; i++)
        check_block(blocks[i]);
    drop_all_but(0);
    CHECK(exhaust() >= had * 3 / 4);
    drop_all_but(count / 2);
    churn(5000);
    drop_all_but(0);
}

/* A limit that comes later. */
static void lowered(void) {
    churn(3000);
    limit_address_space(600 * MIB);
    room_for(100 * MIB);
    CHECK(malloc(700 * MIB) == NULL && errno == ENOMEM);
    size_t had = exhaust();
    printf("%zu KiB\n", had >> 10);
    CHECK(count < MOST && had > 350 * MIB && had < 600 * MIB);
    drop_all_but(100);
    CHECK(exhaust() >= had * 3 / 4);
    drop_all_but(100);
    unlimited_again();
    room_for(1000 * MIB);
    void *p = malloc(2000 * MIB);
    CHECK(p);
    free(p);
    churn(3000);
    drop_all_but(0);
}

/* It comes down step by step, to less than there is, and goes up again. */
static void lowered_step_by_step(void) {
    for (int round = 0; round < 3; round++) {
        for (size_t bytes = (size_t)64 << 30; bytes >= 1024 * MIB; bytes /= 2) {
            limit_address_space(bytes);
            room_for(50 * MIB);
            churn(300);
        }
        limit_address_space(statm(0) + 8 * MIB);
        churn(2000);
        limit_address_space(4 * MIB);
        churn(3000);
        CHECK(malloc(300 * MIB) == NULL && errno == ENOMEM);
        unlimited_again();
        CHECK(churn(1000) == 0);
        room_for(1000 * MIB);
    }
    drop_all_but(0);
}

/* What a child of vfork limits is the child's, and what the kernel refuses changes nothing. */
static void limits_that_are_not_ours(void) {
    churn(300);
    size_t mapped = statm(0);
    pid_t child = vfork();
    if (child == 0) {
        limit_address_space(600 * MIB);
        _exit(0);
    }
    int status;
    CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
    CHECK(statm(0) == mapped);
    struct rlimit limit = {(size_t)1 << 44, (size_t)1 << 44};
    CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
    mapped = statm(0);
    limit = (struct rlimit){600 * MIB, RLIM_INFINITY};
    if (geteuid() == 0)
        CHECK(setresuid(65534, 65534, 65534) == 0);
    CHECK(setrlimit(RLIMIT_AS, &limit) == -1 && errno == EPERM);
    CHECK(statm(0) == mapped);
    limit.rlim_max = 600 * MIB;
    CHECK(setrlimit(RLIMIT_AS, &limit) == 0 && statm(0) < mapped);
    churn(300);
    drop_all_but(0);
}

/* A wrong pointer is an error of the call, not a fault. */
static void limits_at_wrong_places(void) {
    churn(300);
    const struct rlimit *wrong = (const struct rlimit *)8;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *edge = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(edge != MAP_FAILED && munmap(edge + page, page) == 0);
    const struct rlimit *half = (const struct rlimit *)(edge + page - 8);
    errno = 0;
    CHECK(setrlimit(RLIMIT_AS, wrong) == -1 && errno == EFAULT);
    errno = 0;
    CHECK(setrlimit(RLIMIT_AS, half) == -1 && errno == EFAULT);
    errno = 0;
    CHECK(prlimit(0, RLIMIT_AS, wrong, NULL) == -1 && errno == EFAULT);
    errno = 0;
    CHECK(prlimit(getpid(), RLIMIT_AS, half, NULL) == -1 && errno == EFAULT);
    errno = 7;
    limit_address_space(600 * MIB);
    CHECK(errno == 7);
    churn(300);
    drop_all_but(0);
}

/* What lies in the part of the address space that was given back is not ours any more. */
static void others_map_what_was_given_back(void) {
    char *block = malloc(100);
    limit_address_space(1000 * MIB);
    int maps = 0;
    for (size_t ahead = 512 * MIB; ahead < 16384 * MIB; ahead *= 2) {
        void *hint = (void *)(((uintptr_t)block + ahead) & -(2 * MIB));
        char *p = mmap(hint, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
        if (p == MAP_FAILED)
            continue;
        memset(p, 1, MIB);
        CHECK(malloc_usable_size(p) == 0);
        free(p);
        free(p + 4096);
        CHECK(p[0] == 1 && p[4096] == 1);
        maps++;
    }
    CHECK(maps > 0);
    limit_address_space(900 * MIB);
    churn(1000);
    drop_all_but(0);
    free(block);
}

static atomic_int stop;
static _Atomic(char *) parked_list[64];

static void *churn_beside(void *number) {
    uint64_t x = (uintptr_t)number * 7919 + 1;
    while (!stop) {
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        size_t size = x % 50 == 0 ? 3 * MIB : x % 10 == 0 ? 200000 : 16 + x % 3000;
        char *p = malloc(size);
        if (!p)
            continue;
        p[0] = p[size - 1] = 5;
        p = atomic_exchange(&parked_list[x / 64 % 64], p);
        CHECK(!p || p[0] == 5);
        free(p);
        free(NULL);
    }
    return NULL;
}

/* Threads go on while the limit moves. */
static void lowered_beside_threads(void) {
    pthread_t threads[4];
    for (uintptr_t i = 0; i < 4; i++)
        CHECK(pthread_create(&threads[i], NULL, churn_beside, (void *)i) == 0);
    for (int round = 0; round < 40; round++) {
        for (size_t bytes = (size_t)32 << 30; bytes >= 1024 * MIB; bytes /= 2) {
            limit_address_space(bytes);
            room_for(20 * MIB);
            churn(20);
        }
        unlimited_again();
        churn(20);
    }
    stop = 1;
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < 64; i++)
        free(parked_list[i]);
    drop_all_but(0);
}

/* So many maps that there is none to be had: munmap, mprotect and mremap in the middle of a map fail too. */
static void no_maps_left(size_t served_below) {
    enum { PAGES = 140000 };
    churn(2000);
    char *p = mmap(NULL, PAGES * 4096ul, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(p != MAP_FAILED);
    size_t made = 0;
    for (size_t i = 1; i < PAGES; i += 2) {
        if (mprotect(p + i * 4096, 4096, PROT_NONE) != 0)
            break;
        made = i;
    }
    CHECK(made < PAGES - 2 && errno == ENOMEM);
    size_t refused = churn(4000);
    /* Fresh memory may need a map. What the program frees does not, below that size. */
    drop_all_but(count / 2);
    calloc_is_zero_below(served_below);
    /* Growth that would move pages. */
    for (size_t size = MIB; size < 64 * MIB; size += size / 2) {
        add(size);
        void *moved = realloc(blocks[count - 1].at, size * 2);
        if (moved) {
            live += size;
            blocks[count - 1] = (struct block){moved, size * 2};
            mark(blocks[count - 1]);
        }
    }
    drop_all_but(count / 2);
    malloc_trim(0);
    for (size_t i = 0; i < count; i++)
        check_block(blocks[i]);
    printf("%zu maps, %zu requests refused\n", made, refused);
    CHECK(munmap(p, PAGES * 4096ul) == 0);
    CHECK(churn(4000) == 0);
    drop_all_but(0);
    malloc_trim(0);
}

static void foreign_maps(void) {
    no_maps_left(8 * MIB);
}

/* A freed block above 1 MiB loses its access: to give it out again takes a map. */
static void foreign_maps_and_guards(void) {
    no_maps_left(MIB);
}

/* Locked memory is never given back, nor fresh: calloc must clear it. */
static void locked(int flags) {
    if (mlockall(flags) != 0) {
        printf("skip: mlockall: %s\n", strerror(errno));
        return;
    }
    churn(3000);
    calloc_is_zero();
    malloc_trim(0);
    drop_all_but(count / 2);
    malloc_trim(0);
    calloc_is_zero();
    CHECK(munlockall() == 0);
    churn(3000);
    drop_all_but(0);
    malloc_trim(0);
    calloc_is_zero();
}

static void locked_from_the_start(void) {
    locked(MCL_FUTURE);
}

static void locked_later(void) {
    churn(1000);
    locked(MCL_CURRENT | MCL_FUTURE);
}

/* In a memory cgroup, or with little memory to commit: as much passes through as often as it likes. */
static void little_memory(void) {
    for (int round = 0; round < 30; round++) {
        while (live < 24 * MIB)
            CHECK(add(some_size()));
        drop_all_but(count / 20);
    }
    drop_all_but(0);
}

/* A live set, and beside it as much of one size after another, of which each is freed before the next. */
static void sizes_change(void) {
    static const size_t sizes[] = {6 * MIB, 1000, 10 * MIB, 100000, 3 * MIB, 20000};
    while (live < 20 * MIB)
        CHECK(add(2000));
    size_t stays = count;
    for (int round = 0; round < 18; round++) {
        while (live < 60 * MIB)
            CHECK(add(sizes[round % 6]));
        drop_all_but(stays);
    }
    drop_all_but(0);
}

/* Has freed much, and stays until it is told to end. */
static void frees_and_waits(void) {
    while (live < 100 * MIB)
        CHECK(add(3000));
    drop_all_but(0);
    CHECK(write(1, "freed\n", 6) == 6);
    char end;
    CHECK(read(0, &end, 1) == 0);
}

/* Goes through a file that is larger than the memory that it may have, until it is killed. */
static void thrashes(void) {
    size_t size = 200 * MIB;
    int file = open(".", O_TMPFILE | O_RDWR, 0600);
    CHECK(file >= 0 && ftruncate(file, size) == 0);
    volatile char *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    CHECK(at != MAP_FAILED);
    for (int child = 0; child < 3 && fork() != 0; child++) {
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (;;)
        for (size_t i = 0; i < size; i += 4096)
            at[i]++;
}

/* Few blocks of many stay, each beside holes in which no larger block has room. */
static void holes_stay(void) {
    while (live < 64 * MIB)
        CHECK(add(2000));
    size_t kept = 0;
    for (size_t i = 0; i < count; i++)
        if (i % 16)
            free(blocks[i].at), live -= blocks[i].size;
        else
            blocks[kept++] = blocks[i];
    count = kept;
    while (live < 50 * MIB)
        CHECK(add(40000));
    for (size_t i = 0; i < count; i++)
        check_block(blocks[i]);
    drop_all_but(0);
}

/* A request beyond what may be committed is refused; others are served. */
static void commit_limit(void) {
    FILE *f = fopen("/proc/meminfo", "r");
    char line[200];
    size_t kib = 0;
    while (f && fgets(line, sizeof line, f))
        sscanf(line, "CommitLimit: %zu kB", &kib);
    CHECK(f && kib > 0);
    fclose(f);
    CHECK(malloc((kib << 10) + MIB) == NULL && errno == ENOMEM);
    CHECK(calloc(1, (kib << 10) + MIB) == NULL && errno == ENOMEM);
    CHECK(churn(5000) == 0);
    room_for(10 * MIB);
    calloc_is_zero();
    drop_all_but(0);
}

/* Blocks spread over many segments, most of them freed: huge pages must not bring them back. */
static void huge_pages(void) {
    for (int i = 0; i < 50000; i++)
        CHECK(add(1000));
    for (size_t i = 0; i < count; i++) {
        size_t last = count - 1;
        if (i % 50 != 0) {
            drop(i);
            i -= i < last;
        }
        if (count < 1000)
            break;
    }
    drop_all_but(1000);
    malloc_trim(0);
    size_t trimmed = statm(1);
    churn(2000);
    printf("%zu KiB resident after trim\n", trimmed >> 10);
    drop_all_but(0);
}

static pthread_barrier_t all_have, may_end;

/* A block of each of many sizes, of which the first byte is written. */
static void *touches_little(void *unused) {
    (void)unused;
    char *mine[40];
    for (size_t i = 0; i < 40; i++) {
        mine[i] = malloc(1100 + 1500 * i);
        CHECK(mine[i]);
        *mine[i] = 1;
    }
    pthread_barrier_wait(&all_have);
    pthread_barrier_wait(&may_end);
    for (size_t i = 0; i < 40; i++)
        free(mine[i]);
    return NULL;
}

/* One thread fills its blocks. That says nothing of those that touch little of theirs. */
static void threads_touch_little(void) {
    enum { THREADS = 30 };
    pthread_t threads[THREADS];
    CHECK(pthread_barrier_init(&all_have, NULL, THREADS + 1) == 0);
    CHECK(pthread_barrier_init(&may_end, NULL, THREADS + 1) == 0);
    while (live < 16 * MIB) {
        CHECK(add(12000));
        memset(blocks[count - 1].at, 1, blocks[count - 1].size);
    }
    size_t before = statm(1);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, touches_little, NULL) == 0);
    pthread_barrier_wait(&all_have);
    size_t more = statm(1) - before;
    printf("%zu MiB more\n", more / MIB);
    pthread_barrier_wait(&may_end);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    for (size_t i = 0; i < count; i++)
        free(blocks[i].at);
    count = live = 0;
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*run)(void);
    } all[] = {
        {"small_address_space", small_address_space},
        {"lowered", lowered},
        {"lowered_step_by_step", lowered_step_by_step},
        {"limits_that_are_not_ours", limits_that_are_not_ours},
        {"limits_at_wrong_places", limits_at_wrong_places},
        {"lowered_beside_threads", lowered_beside_threads},
        {"others_map_what_was_given_back", others_map_what_was_given_back},
        {"foreign_maps", foreign_maps},
        {"foreign_maps_and_guards", foreign_maps_and_guards},
        {"locked_from_the_start", locked_from_the_start},
        {"locked_later", locked_later},
        {"little_memory", little_memory},
        {"sizes_change", sizes_change},
        {"holes_stay", holes_stay},
        {"frees_and_waits", frees_and_waits},
        {"thrashes", thrashes},
        {"commit_limit", commit_limit},
        {"huge_pages", huge_pages},
        {"threads_touch_little", threads_touch_little},
    };
    for (size_t i = 0; argc == 2 && i < sizeof all / sizeof *all; i++)
        if (strcmp(argv[1], all[i].name) == 0) {
            all[i].run();
            return 0;
        }
    fprintf(stderr, "usage: limits NAME\n");
    return 2;
}
