/* Shared libraries that come and go: run in the directory where they are. */
#include "conformance.h"
#include <pthread.h>

static void *open_library(const char *name, int flags) {
    void *library = dlopen(name, flags);
    if (!library)
        dprintf(1, "%s\n", dlerror());
    CHECK(library);
    return library;
}

/* What embedding.c, an own copy of hakmem linked into it, and plain.c export. */
struct library {
    void *handle;
    void *(*allocate)(size_t);
    void (*release)(void *);
    uint64_t (*served)(void);
};

static struct library load(const char *name, int flags) {
    struct library l = {.handle = open_library(name, flags)};
    l.allocate = (void *(*)(size_t))dlsym(l.handle, "library_allocate");
    l.release = (void (*)(void *))dlsym(l.handle, "library_release");
    l.served = (uint64_t (*)(void))dlsym(l.handle, "library_served");
    CHECK(l.allocate && l.release);
    return l;
}

static void use(const struct library *l) {
    for (size_t n = 1; n < 4 << 20; n = n * 3 + 1) {
        char *theirs = l->allocate(n), *ours = malloc(n);
        CHECK(theirs && ours && theirs != ours);
        memset(theirs, 1, n), memset(ours, 2, n);
        CHECK(is_filled(theirs, n, 1) && is_filled(ours, n, 2));
        l->release(theirs), free(ours);
    }
}

static void *use_in_a_thread(void *l) {
    use(l);
    return NULL;
}

static void use_in_threads(struct library *l) {
    pthread_t thread[4];
    for (int i = 0; i < 4; i++)
        CHECK(pthread_create(&thread[i], NULL, use_in_a_thread, l) == 0);
    for (int i = 0; i < 4; i++)
        CHECK(pthread_join(thread[i], NULL) == 0);
}

BEHAVIOUR(two_copies_live_in_one_process) {
    struct library l = load("./embedding.so", RTLD_NOW | RTLD_LOCAL);
    uint64_t own = served(), theirs = l.served();
    use(&l), use_in_threads(&l);
    CHECK(l.served() - theirs >= 50 && (!on_hakmem || served() - own >= 50));
    CHECK(ended_well(fork() ?: (use(&l), _exit(0), 0)));
    use(&l);
}

static pthread_barrier_t used, closed;

static void *outlive(void *l) {
    use(l);
    pthread_barrier_wait(&used), pthread_barrier_wait(&closed);
    return NULL;
}

BEHAVIOUR(library_that_carries_the_allocator_is_closed) {
    pthread_barrier_init(&used, NULL, 2), pthread_barrier_init(&closed, NULL, 2);
    for (int i = 0; i < 10; i++) {
        struct library l = load("./embedding.so", RTLD_NOW | RTLD_LOCAL);
        use(&l), use_in_threads(&l);
        /* This thread used it, and ends after it has gone: nothing of it may be called then. */
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, outlive, &l) == 0);
        pthread_barrier_wait(&used);
        CHECK(dlclose(l.handle) == 0);
        CHECK(!dlopen("./embedding.so", RTLD_NOW | RTLD_NOLOAD));
        pthread_barrier_wait(&closed);
        CHECK(pthread_join(thread, NULL) == 0);
        CHECK(ended_well(fork() ?: (free(malloc(100)), _exit(0), 0)));
        free(malloc(1000));
    }
}

/* glibc parks some 1.6 KB for the thread-local storage of libraries that are loaded later and want it at a fixed
 * place; 512 bytes of it for all that do not come with the C library. */
BEHAVIOUR(thread_local_storage_fits_what_the_loader_sets_aside) {
    struct library l = load("./embedding.so", RTLD_NOW | RTLD_LOCAL);
    char *(*storage)(void) = (char *(*)(void))dlsym(open_library("./fixed_tls.so", RTLD_NOW), "fixed_storage");
    CHECK(storage && is_filled(storage(), 480, 0));
    memset(storage(), 1, 480);
    use(&l);
    CHECK(is_filled(storage(), 480, 1));
}

static int *(*variables[70])(void);

static void *touch_variables(void *unused) {
    for (int i = 0; i < 70; i++) {
        CHECK(*variables[i]() == 5);
        *variables[i]() = i;
    }
    for (int i = 0; i < 70; i++)
        CHECK(*variables[i]() == i);
    return unused;
}

/* Each thread's table of thread-local storage has to grow: the main thread's first one came from the loader's own
 * malloc, ahead of the switch to ours. */
BEHAVIOUR(loader_resizes_what_it_allocated_before_the_switch) {
    void *handles[70];
    pthread_t thread;
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 70; i++) {
            char name[30];
            sprintf(name, "./tls_%d.so", i);
            handles[i] = open_library(name, RTLD_NOW);
            variables[i] = (int *(*)(void))dlsym(handles[i], "variable");
            if (i == 0)
                CHECK(variables[i] && *variables[i]() == 5);
        }
        *variables[0]() = 5;
        touch_variables(NULL);
        CHECK(pthread_create(&thread, NULL, touch_variables, NULL) == 0 && pthread_join(thread, NULL) == 0);
        for (int i = 0; i < 70; i++)
            CHECK(dlclose(handles[i]) == 0);
    }
}

BEHAVIOUR(blocks_of_the_c_librarys_malloc_go_back_to_it) {
    void *c_library = open_library("libc.so.6", RTLD_NOW | RTLD_NOLOAD);
    void *(*allocate)(size_t) = (void *(*)(size_t))dlsym(c_library, "malloc");
    CHECK(allocate && on_hakmem == (allocate != malloc));
    for (size_t n = 1; n < 4 << 20; n = n * 3 + 1) {
        char *p = allocate(n);
        memset(p, 'x', n);
        CHECK(malloc_usable_size(p) >= n);
        p = realloc(p, 2 * n);
        CHECK(is_filled(p, n, 'x'));
        free(p);
    }
    struct hakmem_stats stats = {};
    if (on_hakmem)
        figures(&stats);
    CHECK(!on_hakmem || stats.foreign_frees >= 10);
    free(malloc(100));
}

/* The loader would give it the C library's malloc, ahead of the program's, and blocks do cross. */
BEHAVIOUR(deepbound_library_shares_the_programs_malloc) {
    struct library l = load("./plain.so", RTLD_NOW | RTLD_DEEPBIND);
    struct hakmem_stats before = {}, after = {};
    if (on_hakmem)
        figures(&before);
    for (size_t n = 1; n < 4 << 20; n = n * 3 + 1) {
        char *theirs = l.allocate(n), *ours = malloc(n);
        memset(theirs, 1, n), memset(ours, 2, n);
        CHECK(is_filled(theirs, n, 1) && is_filled(ours, n, 2));
        free(theirs), l.release(ours);
    }
    l.release(strdup("from a function of the C library"));
    if (on_hakmem)
        figures(&after);
    CHECK(after.foreign_frees == before.foreign_frees);
    CHECK(!dlopen("./not there", RTLD_NOW | RTLD_DEEPBIND) && strstr(dlerror(), "not there"));
}

/* Whoever stands in for dlopen must not be taken for its caller. */
BEHAVIOUR(dlopen_searches_the_callers_runpath) {
    void *(*open_there)(const char *, int) =
        (void *(*)(const char *, int))dlsym(open_library("./runpath.so", RTLD_NOW), "library_open");
    CHECK(open_there && !dlopen("inner.so", RTLD_NOW));
    void *inner = open_there("inner.so", RTLD_NOW);
    CHECK(inner && dlsym(inner, "library_allocate"));
    CHECK(dlclose(inner) == 0 && !dlopen("inner.so", RTLD_NOW | RTLD_NOLOAD));
    free(malloc(100));
}
