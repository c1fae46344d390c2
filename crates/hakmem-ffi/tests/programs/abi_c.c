/* The C, POSIX and glibc behaviours. "abi_c system" lets the C library lack functions and strictness; without the
 * argument all of them must be there. "abi_c limited" is run with little address space. */
#define _GNU_SOURCE
#include "check.h"
#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static int on_system;

/* Looked up by name: not every C library declares or has all of them. */
#define FUNCTION(result, name, ...)                                                                                    \
    static result (*find_##name(void))(__VA_ARGS__) {                                                                  \
        result (*f)(__VA_ARGS__) = (result (*)(__VA_ARGS__))dlsym(RTLD_DEFAULT, #name);                                \
        if (!f && on_system)                                                                                           \
            printf("skip %s: not in this C library\n", #name);                                                         \
        else if (!f)                                                                                                   \
            CHECK("exists_" #name, 0);                                                                                 \
        return f;                                                                                                      \
    }
FUNCTION(void *, reallocf, void *, size_t)
FUNCTION(int, reallocarr, void *, size_t, size_t)
FUNCTION(void, free_sized, void *, size_t)
FUNCTION(void, free_aligned_sized, void *, size_t, size_t)
FUNCTION(void, cfree, void *)
FUNCTION(void *, __libc_malloc, size_t)
FUNCTION(void *, __libc_calloc, size_t, size_t)
FUNCTION(void *, __libc_realloc, void *, size_t)
FUNCTION(void, __libc_free, void *)
FUNCTION(void *, __libc_memalign, size_t, size_t)
FUNCTION(void *, __libc_valloc, size_t)
FUNCTION(void *, __libc_pvalloc, size_t)
FUNCTION(int, __posix_memalign, void **, size_t, size_t)

/* Volatile, so that the compiler judges no size and no pointer first. */
static volatile size_t too_much = (size_t)PTRDIFF_MAX + 1, most = SIZE_MAX, zero = 0;
static void *volatile sink;

static int aligned(void *p, size_t align) { return p && (uintptr_t)p % align == 0; }

static int all(const unsigned char *p, size_t n, unsigned char value) {
    for (size_t i = 0; i < n; i++)
        if (p[i] != value)
            return 0;
    return 1;
}

static void empty_requests(void) {
    void *p = malloc(zero), *q = malloc(zero), *r = calloc(zero, 8), *s = calloc(8, zero), *t = realloc(NULL, zero);
    CHECK("empty_requests_are_unique", p && q && r && s && t && p != q && q != r && r != s && s != t && t != p);
    free(p), free(q), free(r), free(s), free(t);
    p = malloc(100);
    CHECK("realloc_to_zero_frees", realloc(p, zero) == NULL);
    free(NULL);
    p = realloc(NULL, 100);
    CHECK("realloc_null_allocates", p && malloc_usable_size(p) >= 100);
    free(p);
    CHECK("usable_size_of_null", malloc_usable_size(NULL) == 0);
}

#define REFUSED(name, call)                                                                                            \
    do {                                                                                                               \
        errno = 0;                                                                                                     \
        sink = (call);                                                                                                 \
        CHECK(name, sink == NULL && errno == ENOMEM);                                                                  \
    } while (0)

static void too_large(void) {
    REFUSED("malloc_too_large", malloc(too_much));
    REFUSED("malloc_size_max", malloc(most));
    REFUSED("malloc_near_size_max", malloc(most - 8));
    REFUSED("calloc_too_large", calloc(too_much, 1));
    REFUSED("calloc_overflow", calloc(most / 2, 3));
    REFUSED("calloc_overflow_to_small", calloc((size_t)1 << 32, ((size_t)1 << 32) + 1));
    unsigned char *p = malloc(1000);
    memset(p, 0x7E, 1000);
    REFUSED("realloc_too_large", realloc(p, too_much));
    REFUSED("realloc_size_max", realloc(p, most));
    REFUSED("reallocarray_overflow", reallocarray(p, most / 2, 3));
    REFUSED("reallocarray_too_large", reallocarray(p, too_much / 2, 2));
    CHECK("failed_realloc_keeps_the_block", all(p, 1000, 0x7E));
    free(p);
    p = malloc(zero);
    REFUSED("realloc_of_no_bytes_too_large", realloc(p, too_much));
    free(p);
    REFUSED("realloc_null_too_large", realloc(NULL, too_much));
    REFUSED("aligned_alloc_too_large", aligned_alloc(64, too_much));
    REFUSED("aligned_alloc_wraps", aligned_alloc(4096, most - 100));
    REFUSED("memalign_too_large", memalign(64, too_much));
    REFUSED("memalign_wraps", memalign(4096, most - 100));
    REFUSED("valloc_too_large", valloc(too_much));
    REFUSED("pvalloc_wraps", pvalloc(most));
    void *out = (void *)&sink;
    CHECK("posix_memalign_too_large", posix_memalign(&out, 64, too_much) == ENOMEM && out == (void *)&sink);
    CHECK("posix_memalign_wraps", posix_memalign(&out, 4096, most - 100) == ENOMEM && out == (void *)&sink);
    errno = 77;
    int result = posix_memalign(&out, 64, too_much);
    CHECK("posix_memalign_leaves_errno", on_system || (result == ENOMEM && errno == 77));
}

static void free_and_errno(void) {
    static const size_t sizes[] = {1, 100, 5000, 40000, 200000, 3 << 20, 40 << 20};
    int ok = 1;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        char *p = malloc(sizes[i]);
        memset(p, 1, sizes[i]);
        errno = 789;
        free(p);
        ok = ok && errno == 789;
    }
    errno = 790;
    free(NULL);
    CHECK("free_preserves_errno", ok && errno == 790);
}

static void alignment(void) {
    int ok = 1;
    void *keep[300];
    for (size_t i = 0; i < 300; i++)
        ok = aligned(keep[i] = malloc(i * 7), 16) && ok;
    for (size_t i = 0; i < 300; i++)
        ok = aligned(keep[i] = realloc(keep[i], i * 3 + 1), 16) && ok;
    for (size_t i = 0; i < 300; i++)
        free(keep[i]);
    for (size_t i = 0; i < 300; i++)
        free((ok = aligned(keep[i] = calloc(i, 3), 16) && ok, keep[i]));
    CHECK("every_block_aligned_to_16", ok);

    ok = 1;
    for (size_t align = 1; align <= (size_t)64 << 20; align *= 2)
        for (size_t size = 1; size <= 200000; size = size * 11 + 3) {
            unsigned char *p = aligned_alloc(align, size), *q = memalign(align, size);
            void *r = NULL;
            ok = ok && aligned(p, align) && aligned(q, align);
            ok = ok && (align < sizeof(void *) || (posix_memalign(&r, align, size) == 0 && aligned(r, align)));
            if (p && q)
                memset(p, 3, size), memset(q, 4, size), ok = ok && p[0] == 3 && p[size - 1] == 3;
            free(p), free(q), free(r);
        }
    CHECK("alignments_up_to_64_mib", ok);
    void *thp = aligned_alloc((size_t)1 << 30, 100);
    CHECK("alignment_of_1_gib", aligned(thp, (size_t)1 << 30));
    free(thp);

    errno = 0;
    CHECK("aligned_alloc_3", on_system || (aligned_alloc(3, 100) == NULL && errno == EINVAL));
    errno = 0;
    CHECK("aligned_alloc_0", on_system || (aligned_alloc(zero, 100) == NULL && errno == EINVAL));
    void *p = aligned_alloc(64, 100);
    CHECK("aligned_alloc_any_size", aligned(p, 64));
    free(p);
    void *out = (void *)&sink;
    CHECK("posix_memalign_3", posix_memalign(&out, 3, 100) == EINVAL && out == (void *)&sink);
    CHECK("posix_memalign_0", posix_memalign(&out, zero, 100) == EINVAL && out == (void *)&sink);
    CHECK("posix_memalign_4", posix_memalign(&out, 4, 100) == EINVAL && out == (void *)&sink);
    CHECK("posix_memalign_24", posix_memalign(&out, 24, 100) == EINVAL && out == (void *)&sink);
    CHECK("posix_memalign_empty", posix_memalign(&out, 64, zero) == 0 && aligned(out, 64));
    free(out);
    CHECK("memalign_rounds_up", aligned(p = memalign(3, 100), 16));
    free(p);
    CHECK("memalign_rounds_48_up", aligned(p = memalign(48, 100), 64));
    free(p);
    errno = 0;
    CHECK("memalign_beyond_rounding", memalign(most - 1, 100) == NULL && errno == EINVAL);
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    CHECK("valloc", aligned(p = valloc(100), page));
    free(p);
    CHECK("pvalloc", aligned(p = pvalloc(page + 1), page) && malloc_usable_size(p) >= 2 * page);
    free(p);
}

static void sizes(void) {
    int writable = 1, constant = 1, copied = 1, in_place = 1;
    for (size_t size = 1; size < 12 << 20; size = size * 5 / 4 + 1) {
        unsigned char *p = malloc(size);
        size_t usable = malloc_usable_size(p);
        writable = writable && usable >= size;
        memset(p, 0xA5, usable);
        void *other = malloc(size);
        constant = constant && malloc_usable_size(p) == usable;
        free(other);
        unsigned char *q = realloc(p, usable);
        in_place = in_place && q == p;
        q = realloc(q, usable * 3);
        copied = copied && all(q, usable, 0xA5);
        q = realloc(q, usable / 2 + 1);
        copied = copied && all(q, usable / 2 + 1, 0xA5);
        free(q);
    }
    CHECK("usable_size_writable", writable);
    CHECK("usable_size_constant", constant);
    CHECK("realloc_copies_all_of_it", copied);
    CHECK("realloc_to_usable_size_in_place", on_system || in_place);
    unsigned char *grown = NULL;
    int ok = 1;
    for (size_t size = 1; size < 8 << 20; size = size * 3 / 2 + 1) {
        grown = realloc(grown, size);
        memset(grown, (int)(size & 0x7F), size);
        ok = ok && all(grown, size, size & 0x7F);
    }
    CHECK("realloc_growth", ok);
    unsigned char *p = memalign(4096, 100);
    memset(p, 9, 100);
    p = realloc(p, 100000);
    CHECK("realloc_of_an_aligned_block", all(p, 100, 9));
    free(p), free(grown);
}

static void zeroes(void) {
    int ok = 1;
    for (int round = 0; round < 3; round++)
        for (size_t size = 1; size < 5 << 20; size = size * 3 + 1) {
            unsigned char *p = malloc(size);
            memset(p, 0xFF, size);
            free(p);
            p = calloc(size, 1);
            ok = ok && all(p, size, 0);
            memset(p, 0xFF, malloc_usable_size(p));
            free(p);
        }
    CHECK("calloc_clears_recycled_memory", ok);
    /* More blocks of no bytes than there are places for. */
    enum { MANY = 40000, DIRTY = 200 };
    void **none = malloc(MANY * sizeof *none), *dirty[DIRTY];
    for (int i = 0; i < MANY; i++)
        none[i] = malloc(zero);
    for (int i = 0; i < DIRTY; i++)
        memset(dirty[i] = malloc(16), 0xFF, 16);
    for (int i = 0; i < DIRTY; i++)
        free(dirty[i]);
    ok = 1;
    for (int i = 0; i < DIRTY; i++) {
        dirty[i] = calloc(zero, 8);
        ok &= all(dirty[i], malloc_usable_size(dirty[i]), 0);
    }
    for (int i = 0; i < DIRTY; i++)
        free(dirty[i]);
    for (int i = 0; i < MANY; i++)
        free(none[i]);
    free(none);
    CHECK("calloc_of_no_bytes", ok);
    /* Locked pages refuse MADV_DONTNEED. */
    size_t size = 2 << 20;
    unsigned char *p = malloc(size);
    memset(p, 0xFF, size);
    if (mlock(p, size) != 0) {
        printf("skip calloc_of_locked_pages: mlock is not allowed\n");
        free(p);
        return;
    }
    free(p);
    malloc_trim(0);
    p = calloc(1, size);
    CHECK("calloc_of_locked_pages", all(p, size, 0));
    munlock(p, size);
    free(p);
}

static void relatives(void) {
    void *p = reallocarray(NULL, 10, 30);
    CHECK("reallocarray", p && malloc_usable_size(p) >= 300);
    free(p);
    void *(*f_reallocf)(void *, size_t) = find_reallocf();
    if (f_reallocf) {
        p = f_reallocf(malloc(10), 1000);
        CHECK("reallocf_grows", p && malloc_usable_size(p) >= 1000);
        errno = 0;
        CHECK("reallocf_fails", f_reallocf(p, too_much) == NULL && errno == ENOMEM);
        CHECK("reallocf_to_zero", f_reallocf(malloc(10), zero) == NULL);
    }
    int (*f_reallocarr)(void *, size_t, size_t) = find_reallocarr();
    if (f_reallocarr) {
        p = NULL;
        errno = 5;
        CHECK("reallocarr_allocates", f_reallocarr(&p, 10, 10) == 0 && p && errno == 5);
        memset(p, 8, 100);
        CHECK("reallocarr_grows", f_reallocarr(&p, 100, 100) == 0 && all(p, 100, 8));
        void *before = p;
        CHECK("reallocarr_overflow", f_reallocarr(&p, most / 2, 3) == EOVERFLOW && p == before && errno == 5);
        CHECK("reallocarr_too_large", f_reallocarr(&p, too_much, 1) == ENOMEM && p == before && errno == 5);
        CHECK("reallocarr_to_zero", f_reallocarr(&p, zero, 10) == 0 && p == NULL);
        CHECK("reallocarr_null_to_zero", f_reallocarr(&p, zero, 10) == 0 && p == NULL);
    }
    void (*f_free_sized)(void *, size_t) = find_free_sized();
    if (f_free_sized) {
        f_free_sized(malloc(100), 100), f_free_sized(NULL, 0);
        CHECK("free_sized", 1);
    }
    void (*f_free_aligned_sized)(void *, size_t, size_t) = find_free_aligned_sized();
    if (f_free_aligned_sized) {
        f_free_aligned_sized(aligned_alloc(64, 128), 64, 128), f_free_aligned_sized(NULL, 64, 0);
        CHECK("free_aligned_sized", 1);
    }
    void (*f_cfree)(void *) = find_cfree();
    if (f_cfree) {
        f_cfree(malloc(100));
        CHECK("cfree", 1);
    }
}

static void aliases(void) {
    void *(*f_malloc)(size_t) = find___libc_malloc();
    void *(*f_calloc)(size_t, size_t) = find___libc_calloc();
    void *(*f_realloc)(void *, size_t) = find___libc_realloc();
    void (*f_free)(void *) = find___libc_free();
    void *(*f_memalign)(size_t, size_t) = find___libc_memalign();
    void *(*f_valloc)(size_t) = find___libc_valloc();
    void *(*f_pvalloc)(size_t) = find___libc_pvalloc();
    int (*f_posix_memalign)(void **, size_t, size_t) = find___posix_memalign();
    /* Blocks pass freely between the names. */
    if (f_malloc && f_realloc && f_free) {
        char *p = f_malloc(100);
        strcpy(p, "text");
        p = f_realloc(realloc(p, 5000), 50000);
        CHECK("libc_aliases_mix", !strcmp(p, "text"));
        f_free(p);
        f_free(malloc(10));
    }
    if (f_calloc) {
        unsigned char *p = f_calloc(100, 10);
        CHECK("libc_calloc", p && all(p, 1000, 0));
        free(p);
    }
    void *p;
    if (f_memalign) {
        CHECK("libc_memalign", aligned(p = f_memalign(256, 10), 256));
        free(p);
    }
    if (f_valloc) {
        CHECK("libc_valloc", aligned(p = f_valloc(10), 4096));
        free(p);
    }
    if (f_pvalloc) {
        CHECK("libc_pvalloc", aligned(p = f_pvalloc(10), 4096));
        free(p);
    }
    if (f_posix_memalign) {
        CHECK("posix_memalign_alias", f_posix_memalign(&p, 512, 10) == 0 && aligned(p, 512));
        free(p);
    }
}

static void gnu_extras(void) {
    static const int options[] = {M_MXFAST,    M_TRIM_THRESHOLD, M_TOP_PAD,    M_MMAP_THRESHOLD, M_MMAP_MAX,
                                  M_CHECK_ACTION, M_PERTURB,     M_ARENA_TEST, M_ARENA_MAX};
    int ok = 1;
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        ok = mallopt(options[i], options[i] == M_PERTURB ? 0 : 64) == 1 && ok;
    CHECK("mallopt", ok);
    int trimmed = malloc_trim(0);
    CHECK("malloc_trim", trimmed == 0 || trimmed == 1);
    void *p = malloc(100000);
    struct mallinfo2 info = mallinfo2();
    CHECK("mallinfo2", info.uordblks <= info.arena + info.hblkhd);
    struct mallinfo old = mallinfo();
    CHECK("mallinfo", old.uordblks >= 0);
    free(p);
    char *text = NULL;
    size_t length = 0;
    FILE *stream = open_memstream(&text, &length);
    int result = malloc_info(0, stream);
    fclose(stream);
    CHECK("malloc_info_is_xml", result == 0 && !strncmp(text, "<malloc version=\"1\">", 20) &&
                                    strstr(text, "</malloc>\n") == text + length - 10);
    free(text);
    CHECK("malloc_info_options", malloc_info(1, stdout) != 0);
    malloc_stats();
    CHECK("malloc_stats", 1);
}

static pthread_key_t key;

static void late(void *p) {
    /* Runs after the allocator's own hook as often as before it. */
    free(p);
    static __thread int rounds;
    if (rounds++ < 3)
        pthread_setspecific(key, malloc(200));
}

static void *short_life(void *arg) {
    void *blocks[50];
    pthread_setspecific(key, malloc(100));
    for (int i = 0; i < 50; i++)
        memset(blocks[i] = malloc(20 * i + 1), i, 20 * i + 1);
    for (int i = 1; i < 50; i++)
        free(blocks[i]);
    return (void)arg, blocks[0];
}

static void threads(void) {
    pthread_key_create(&key, late);
    pthread_attr_t attr;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, 64 << 10);
    int ok = 1;
    for (int i = 0; i < 200; i++) {
        pthread_t thread[2];
        for (int j = 0; j < 2; j++)
            ok = pthread_create(&thread[j], &attr, short_life, NULL) == 0 && ok;
        for (int j = 0; j < 2; j++) {
            void *block = NULL;
            pthread_join(thread[j], &block);
            ok = ok && block;
            free(block);
        }
    }
    CHECK("threads_with_small_stacks_and_late_frees", ok);
}

static volatile int stop;

static void *busy(void *arg) {
    while (!stop) {
        void *p = malloc(100), *q = malloc(70000);
        free(p), free(q);
    }
    return arg;
}

static void forks(void) {
    pthread_t thread[2];
    for (int i = 0; i < 2; i++)
        pthread_create(&thread[i], NULL, busy, NULL);
    int ok = 1;
    for (int i = 0; i < 50 && ok; i++) {
        pid_t child = fork();
        if (child == 0) {
            void *p[20];
            for (int j = 0; j < 20; j++)
                memset(p[j] = malloc(j * 1000), j, j * 1000);
            for (int j = 0; j < 20; j++)
                free(p[j]);
            pid_t grandchild = fork();
            if (grandchild == 0)
                free(malloc(3000)), _exit(0);
            int status;
            _exit(waitpid(grandchild, &status, 0) == grandchild && status == 0 ? 0 : 1);
        }
        int status = -1;
        ok = waitpid(child, &status, 0) == child && status == 0;
    }
    stop = 1;
    for (int i = 0; i < 2; i++)
        pthread_join(thread[i], NULL);
    CHECK("fork_in_a_threaded_process", ok);
}

/* The caller has limited the address space: memory ends with NULL and ENOMEM, what lives stays, and it comes back. */
static int limited(void) {
    enum { SIZE = 1 << 20, COUNT = 4096 };
    static unsigned char *blocks[COUNT];
    int n = 0, ok = 1;
    errno = 0;
    while (n < COUNT && (blocks[n] = malloc(SIZE)))
        memset(blocks[n], n & 0xFF, SIZE), n++;
    CHECK("memory_ends_with_enomem", n > 20 && n < COUNT && errno == ENOMEM);
    for (int i = 0; i < n; i++)
        ok = ok && all(blocks[i], SIZE, i & 0xFF);
    CHECK("live_blocks_intact", ok);
    for (int i = 0; i < n; i++)
        free(blocks[i]);
    ok = 1;
    for (int i = 0; i < n / 2; i++)
        ok = (blocks[i] = malloc(SIZE)) && ok;
    for (int i = 0; i < n / 2; i++)
        free(blocks[i]);
    CHECK("allocation_recovers", ok);
    return failures != 0;
}

int main(int argc, char **argv) {
    if (argc > 1 && !strcmp(argv[1], "limited"))
        return limited();
    on_system = argc > 1 && !strcmp(argv[1], "system");
    empty_requests();
    too_large();
    free_and_errno();
    alignment();
    sizes();
    zeroes();
    relatives();
    aliases();
    gnu_extras();
    threads();
    forks();
    return failures != 0;
}
