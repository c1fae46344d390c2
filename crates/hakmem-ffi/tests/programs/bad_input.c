/* One misuse per run: bad_input NAME. Prints the pointer that is misused before it is. Exit status 0: survived without
 * harm; 3: the same block was handed out twice. */
#define _GNU_SOURCE
#include <alloca.h>
#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

enum { FURTHER = 10000, SMALL = 64, LARGE = 200 << 10, THP_SIZE = 8 << 20 };

static char in_bss[4096];
static void *further[FURTHER];

/* Volatile, so that the compiler does not judge what it sees. */
static void *volatile bad;

static void misuse(void *p) {
    bad = p;
    printf("%p\n", p);
    fflush(stdout);
    free(bad);
}

static int compare(const void *a, const void *b) {
    const char *x = *(char *const *)a, *y = *(char *const *)b;
    return (x > y) - (x < y);
}

/* Goes on allocating, and freeing half of it: a damaged list shows, or hands a block out twice. */
static int go_on(size_t size) {
    for (int i = 0; i < FURTHER; i++) {
        further[i] = malloc(size);
        memset(further[i], 0x33, size < 16 ? size : 16);
    }
    qsort(further, FURTHER, sizeof *further, compare);
    for (int i = 1; i < FURTHER; i++)
        if (further[i] == further[i - 1]) {
            fprintf(stderr, "%p was handed out twice\n", further[i]);
            _Exit(3);
        }
    for (int i = 0; i < FURTHER; i++)
        free(further[i]);
    return 0;
}

static int twice_at_once(size_t size) {
    void *p = malloc(size);
    memset(p, 1, size);
    free(p);
    misuse(p);
    return 0;
}

static int twice_later(size_t size) {
    void *p = malloc(size), *others[1000];
    free(p);
    /* Its place must not be given out again meanwhile: another size does that. */
    for (int i = 0; i < 1000; i++)
        others[i] = malloc(size * 3);
    for (int i = 0; i < 1000; i++)
        free(others[i]);
    misuse(p);
    return go_on(size);
}

static int inside(size_t size, size_t offset) {
    char *p = malloc(size);
    misuse(p + offset);
    return 0;
}

/* Resized so that it has to move. */
static int realloc_inside(size_t size, size_t offset) {
    char *p = malloc(size);
    bad = p + offset;
    printf("%p\n", bad);
    fflush(stdout);
    return realloc(bad, size * 100) != NULL;
}

static int realloc_of(void *p) {
    bad = p;
    printf("%p\n", p);
    fflush(stdout);
    return realloc(bad, 100) != NULL;
}

static void in_thread(void *(*run)(void *)) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, run, NULL) || pthread_join(thread, NULL))
        _Exit(4);
}

/* In the page of memory in which the frames below it lie. */
static void *free_on_stack(void *unused) {
    char *frame = __builtin_frame_address(0);
    size_t above = ((uintptr_t)frame & 4095) + 4096 - 3072;
    char *volatile room = alloca(above); /* Goes on in the upper part of a page. */
    room[0] = 1;
    misuse((char *)(((uintptr_t)room & ~(uintptr_t)4095) + 4080));
    return unused;
}

/* Of one that is no allocator. */
static void *variable_of_a_library(void) {
    void *mathematics = dlopen("libm.so.6", RTLD_NOW);
    void *variable = mathematics ? dlsym(mathematics, "signgam") : NULL;
    if (!variable)
        _Exit(5);
    return variable;
}

/* Blocks of the C library's own malloc, as a library has them that asks it by name. */
static int next_allocator(void) {
    void *c_library = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
    void *(*next_malloc)(size_t) = (void *(*)(size_t))dlsym(c_library, "malloc");
    /* Meanwhile a wild pointer is ours to judge; afterwards it would be the C library's. */
    misuse((void *)0x7FFFFFFFFFF0);
    if (next_malloc == malloc)
        return 4;
    for (size_t size = 1; size < 1 << 20; size = size * 3 + 1) {
        char *p = next_malloc(size);
        memset(p, 'x', size);
        size_t usable = malloc_usable_size(p);
        if (usable < size || usable > size + 64 + 4096)
            return 5;
        p = realloc(p, size * 2);
        for (size_t i = 0; i < size; i++)
            if (p[i] != 'x')
                return 6;
        free(p);
        bad = next_malloc(size);
        free(bad);
    }
    return 0;
}

int main(int argc, char **argv) {
    const char *name = argc > 1 ? argv[1] : "";
    struct rlimit no_core = {0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    free(malloc(SMALL));
#define IS(what) (!strcmp(name, what))
    char on_stack[256] __attribute__((aligned(16)));
    memset(on_stack, 0, sizeof on_stack);
    if (IS("on_stack"))
        return misuse(on_stack + 64), go_on(SMALL);
    if (IS("on_stack_realloc"))
        return realloc_of(on_stack + 64);
    if (IS("on_stack_of_thread"))
        return in_thread(free_on_stack), go_on(SMALL);
    if (IS("in_environment"))
        return misuse((char *)((uintptr_t)getenv("PATH") & ~(uintptr_t)15)), go_on(SMALL);
    if (IS("in_variables"))
        return misuse(in_bss + 1024), go_on(SMALL);
    if (IS("in_variables_realloc"))
        return realloc_of(in_bss + 1024);
    if (IS("in_constants"))
        return misuse((void *)((uintptr_t)"constant" & ~(uintptr_t)15)), go_on(SMALL);
    if (IS("in_code"))
        return misuse((void *)((uintptr_t)main & ~(uintptr_t)15)), go_on(SMALL);
    if (IS("in_library"))
        return misuse((void *)((uintptr_t)variable_of_a_library() & ~(uintptr_t)15)), go_on(SMALL);
    if (IS("first_64_kib"))
        return misuse((void *)0x10), go_on(SMALL);
    if (IS("kernels_half"))
        return misuse((void *)0xFFFFFFFFFFFFFFF0), go_on(SMALL);
    /* Elsewhere the upper byte may be a tag. */
#ifdef __x86_64__
    const uintptr_t no_address = 0x4141414141414140;
#else
    const uintptr_t no_address = 0xC141414141414140;
#endif
    if (IS("no_address"))
        return misuse((void *)no_address), go_on(SMALL);
    if (IS("misaligned"))
        return misuse((char *)mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) + 4), 0;
    if (IS("foreign_mapping")) {
        char *p = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        misuse(p);
        misuse(p + 4096);
        p[0] = 1;
        return go_on(SMALL);
    }
    if (IS("foreign_wild")) {
        misuse((void *)0x7FFFFFFFFFF0);
        return go_on(SMALL);
    }
    if (IS("foreign_usable_size"))
        return malloc_usable_size(in_bss + 1024) != 0;
    if (IS("foreign_realloc"))
        return bad = realloc((void *)0x7FFFFFFFFFF0, 100), bad != NULL;
    if (IS("next_allocator"))
        return next_allocator();
    if (IS("twice_at_once"))
        return twice_at_once(SMALL), go_on(SMALL);
    if (IS("twice_later"))
        return twice_later(SMALL);
    if (IS("twice_medium"))
        return twice_at_once(20000), go_on(20000);
    if (IS("twice_large"))
        return twice_at_once(LARGE);
    if (IS("twice_thp"))
        return twice_at_once(THP_SIZE);
    if (IS("inside_by_8"))
        return inside(SMALL, 8), go_on(SMALL);
    if (IS("inside_by_1"))
        return inside(SMALL, 1), go_on(SMALL);
    if (IS("realloc_inside_by_8"))
        return realloc_inside(SMALL, 8);
    if (IS("realloc_inside_by_16"))
        return realloc_inside(SMALL, 16);
    if (IS("realloc_inside_medium"))
        return realloc_inside(20000, 16000);
    if (IS("inside_large"))
        return inside(LARGE, 4096);
    if (IS("inside_thp"))
        return inside(THP_SIZE, 65536);
    if (IS("never_given_out"))
        return misuse((char *)malloc(THP_SIZE) + ((size_t)1 << 30)), 0;
    fprintf(stderr, "usage: bad_input NAME\n");
    return 2;
}
