/* The limits of the system: memory ends with NULL and ENOMEM, what lives stays, and it comes back. */
#include "conformance.h"
#include <sys/mman.h>

enum { SIZE = 1 << 20, COUNT = 4096 };
static unsigned char *blocks[COUNT];

static void set_limit(int resource, size_t bytes) {
    struct rlimit limit;
    CHECK(getrlimit(resource, &limit) == 0);
    limit.rlim_cur = bytes;
    CHECK(setrlimit(resource, &limit) == 0);
}

/* Takes blocks until there is no memory; returns how many. */
static int take_all(void) {
    int n = 0;
    errno = 0;
    while (n < COUNT && (blocks[n] = malloc(SIZE)))
        memset(blocks[n], n & 0xFF, SIZE), n++;
    CHECK(n < COUNT && errno == ENOMEM);
    CHECK_NO_MEMORY(malloc((size_t)1 << 40));
    CHECK_NO_MEMORY(calloc(1, (size_t)1 << 40));
    if (n > 0)
        CHECK_NO_MEMORY(realloc(blocks[0], (size_t)1 << 40));
    return n;
}

static void check_and_free(int n) {
    for (int i = 0; i < n; i++)
        CHECK(is_filled(blocks[i], SIZE, i & 0xFF));
    for (int i = 0; i < n; i++)
        free(blocks[i]);
}

static void ends_and_recovers(int at_least) {
    int n = take_all();
    CHECK(n >= at_least);
    check_and_free(n);
    for (int i = 0; i < n * 3 / 4; i++)
        CHECK(blocks[i] = malloc(SIZE));
    for (int i = 0; i < n * 3 / 4; i++)
        free(blocks[i]);
}

/* Runs this program anew: a limit is to be there from its start. True the second time. */
static int restarted_with(const char *name, int resource, size_t bytes) {
    if (getenv("RESTARTED"))
        return 1;
    free(malloc(1));
    pid_t child = fork();
    if (child == 0) {
        setenv("RESTARTED", "1", 1);
        set_limit(resource, bytes);
        execl("/proc/self/exe", "limits", name, on_hakmem ? "hakmem" : "glibc", (char *)NULL);
        _exit(127);
    }
    CHECK(ended_well(child));
    return 0;
}

BEHAVIOUR(address_space_limit_ends_with_enomem_and_recovers) {
    if (restarted_with(__func__, RLIMIT_AS, (size_t)400 << 20))
        ends_and_recovers(100);
}

BEHAVIOUR(address_space_limit_is_lowered_while_running) {
    unsigned char *kept = malloc(SIZE);
    memset(kept, 0xAB, SIZE);
    set_limit(RLIMIT_AS, 64 << 20); /* Less than the process has. */
    int n = 0;
    errno = ENOMEM; /* What was reserved before may well serve them all. */
    while (n < 200 && (blocks[n] = malloc(SIZE)))
        memset(blocks[n], n & 0xFF, SIZE), n++;
    CHECK(errno == ENOMEM);
    CHECK_NO_MEMORY(malloc((size_t)1 << 44));
    CHECK(is_filled(kept, SIZE, 0xAB));
    kept = realloc(kept, SIZE / 2); /* To shrink needs nothing. */
    CHECK(kept && is_filled(kept, SIZE / 2, 0xAB));
    check_and_free(n);
    set_limit(RLIMIT_AS, RLIM_INFINITY);
    void *p = malloc(200 << 20);
    CHECK(p);
    free(p), free(kept);
}

/* RLIMIT_DATA counts what overcommit_memory=2 does: memory that can be written, not address space that is reserved. */
BEHAVIOUR(reserved_address_space_is_not_charged) {
    if (restarted_with(__func__, RLIMIT_DATA, 200 << 20))
        ends_and_recovers(100);
}

BEHAVIOUR(many_small_blocks_end_with_enomem_and_recover) {
    limit_memory(100 << 20);
    static void *head;
    size_t count[2] = {0, 0};
    for (int round = 0; round < 2; round++) {
        errno = 0;
        for (void **p; (p = malloc(200)); count[round]++)
            *p = head, head = p;
        CHECK(errno == ENOMEM);
        while (head) {
            void *next = *(void **)head;
            free(head);
            head = next;
        }
    }
    CHECK(count[0] > 50 << 20 >> 8 && count[1] >= count[0] * 9 / 10);
}

BEHAVIOUR(map_count_limit_keeps_memory_usable) {
    enum { MAPS = 200000, KEPT = 64 };
    static char *kept[KEPT];
    for (int i = 0; i < KEPT; i++)
        memset(kept[i] = malloc(3 << 20), i, 3 << 20);
    /* Neighbours with different rights do not join; one refusal, and there is no map more to be had. */
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *foreign = mmap(NULL, MAPS * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(foreign != MAP_FAILED);
    for (size_t i = 0; i < MAPS && mprotect(foreign + i * page, page, i % 2 ? PROT_NONE : PROT_READ) == 0; i++) {
    }
    CHECK(mprotect(foreign + (MAPS - 2) * page, page, PROT_READ) != 0 && errno == ENOMEM);
    for (int i = 0; i < KEPT; i += 2) {
        errno = 789;
        free(kept[i]);
        CHECK(errno == 789);
    }
    for (size_t n = 1; n < 64 << 20; n = n * 3 + 1) {
        char *p = malloc(n); /* May fail, but not harm. */
        if (p)
            memset(p, 1, n);
        free(p);
    }
    malloc_trim(0);
    for (int i = 1; i < KEPT; i += 2)
        CHECK(is_filled(kept[i], 3 << 20, i));
    CHECK(munmap(foreign, MAPS * page) == 0);
    for (int i = 0; i < KEPT; i += 2)
        CHECK(is_filled(kept[i] = calloc(1, 3 << 20), 3 << 20, 0));
    for (int i = 0; i < KEPT; i++)
        free(kept[i]);
}

static long status_kib(const char *key) {
    char line[200];
    long value = -1;
    FILE *f = fopen("/proc/self/status", "r");
    CHECK(f);
    while (fgets(line, sizeof line, f))
        if (!strncmp(line, key, strlen(key)))
            value = atol(line + strlen(key));
    fclose(f);
    return value;
}

/* All that is mapped from now on is resident at once: what is merely reserved must not be. */
BEHAVIOUR(mlockall_future_locks_what_is_used_alone) {
    CHECK(mlockall(MCL_FUTURE) == 0);
    for (int round = 0; round < 3; round++)
        for (size_t n = 1; n < 3 << 20; n = n * 3 + 1) {
            unsigned char *p = malloc(n), *q = calloc(1, n);
            LACKS_ON_GLIBC(!p || !q, "the memory may not be locked here");
            CHECK(p && q && is_filled(q, n, 0));
            memset(p, 0xFF, n), memset(q, 0xFF, n);
            free(p), free(q);
        }
    CHECK(status_kib("VmRSS:") < 100 << 10);
}

/* A kernel that backs whatever it can by huge pages must not make a small program large. On one that does not, this
 * shows that the allocator asks for none too early. */
BEHAVIOUR(small_programs_stay_small_with_huge_pages) {
    enum { N = 3000 };
    static void *p[N];
    for (int i = 0; i < N; i++)
        memset(p[i] = malloc(i % 500 + 1), 1, i % 500 + 1);
    CHECK(status_kib("VmRSS:") < 16 << 10);
    for (int i = 0; i < N; i++)
        free(p[i]);
}
