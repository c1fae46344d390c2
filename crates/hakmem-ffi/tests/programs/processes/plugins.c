/* plugins SCENARIO COUNT, with the plug-in's path in PLUGIN: a library that carries hakmem is loaded and unloaded. */
#include "torture.h"
#include <dlfcn.h>
#include <fcntl.h>
#include <sched.h>

enum { LOADED, SERVED, OUTLIVED, FORKS, KIB_LEFT, RESIDENT_KIB_LEFT };
static const char *const names[] = {"loaded", "served", "outlived", "forks", "kib_left", "resident_kib_left", NULL};

struct plugin {
    void *handle;
    void *(*hold)(uint64_t, uint64_t);
    int (*check)(void *);
    void (*drop)(void *);
    void (*leave_idle)(size_t);
    void *(*give)(size_t);
    void (*take)(void *);
    uint64_t (*served)(void);
};
static struct plugin plugin;

static void load(void) {
    plugin.handle = dlopen(getenv("PLUGIN"), RTLD_NOW | RTLD_LOCAL);
    if (!plugin.handle) {
        dprintf(2, "%s\n", dlerror());
        _exit(1);
    }
#define FIND(name) CHECK((*(void **)&plugin.name = dlsym(plugin.handle, "plugin_" #name)))
    FIND(hold);
    FIND(check);
    FIND(drop);
    FIND(leave_idle);
    FIND(give);
    FIND(take);
    FIND(served);
    count(LOADED);
}

/* Ours alone: it is gone after this. */
static void unload(void) {
    CHECK(dlclose(plugin.handle) == 0);
    CHECK(!dlopen(getenv("PLUGIN"), RTLD_NOW | RTLD_NOLOAD));
}

static void use(uint64_t seed) {
    void *a = plugin.hold(100, seed), *b = plugin.hold(50, ~seed);
    CHECK(plugin.check(a) && plugin.check(b));
    plugin.drop(a);
    CHECK(plugin.check(b));
    plugin.drop(b);
    /* The program's blocks, through the plug-in's hands, and the other way about. */
    char *mine = (char *)malloc(300), *given = (char *)plugin.give(300);
    CHECK(mine && given);
    memset(mine, 1, 300), memset(given, 2, 300);
    plugin.take(mine);
    free(given);
}

enum { PARTS = 3 };
static void *parts[PARTS];
static pthread_barrier_t barrier;

static void *use_in_a_thread(void *number) {
    uintptr_t i = (uintptr_t)number;
    use(i);
    parts[i] = plugin.hold(60, i);
    pthread_barrier_wait(&barrier);
    /* What another thread holds. */
    void *other = parts[(i + 1) % PARTS];
    CHECK(plugin.check(other));
    plugin.drop(other);
    pthread_barrier_wait(&barrier);
    if (i == 0)
        return NULL;
    /* The others live on while the plug-in is unloaded, and end after it. */
    pthread_barrier_wait(&barrier);
    free(malloc(100));
    count(OUTLIVED);
    return NULL;
}

static void load_and_unload(long n) {
    for (long i = 0; i < n; i++) {
        load();
        use(i);
        pthread_t threads[PARTS];
        CHECK(pthread_barrier_init(&barrier, NULL, PARTS) == 0);
        for (uintptr_t k = 0; k < PARTS; k++)
            CHECK(pthread_create(&threads[k], NULL, use_in_a_thread, (void *)k) == 0);
        CHECK(pthread_join(threads[0], NULL) == 0);
        /* Its scavenger is at work when it goes. */
        if (i % 2)
            plugin.leave_idle(40);
        CHECK(plugin.served() > 0);
        count(SERVED);
        unload();
        pthread_barrier_wait(&barrier);
        for (int k = 1; k < PARTS; k++)
            CHECK(pthread_join(threads[k], NULL) == 0);
        pthread_barrier_destroy(&barrier);
    }
    say_counts(names);
}

/* The process's address space and what of it is resident, in KiB. */
static void read_sizes(long sizes[2]) {
    char text[200] = "";
    int file = open("/proc/self/statm", O_RDONLY);
    CHECK(file >= 0 && read(file, text, sizeof text - 1) > 0);
    close(file);
    CHECK(sscanf(text, "%ld %ld", &sizes[0], &sizes[1]) == 2);
    for (int i = 0; i < 2; i++)
        sizes[i] *= sysconf(_SC_PAGESIZE) / 1024;
}

/* What each load leaves behind. Blocks of the plug-in's that stay live are kept in every tenth. */
static void load_often(long n) {
    enum { WARM = 20 };
    long before[2], after[2];
    for (long i = -WARM; i < n; i++) {
        if (i == 0)
            read_sizes(before);
        load();
        if (i % 10 == 0) {
            use((uint64_t)i);
            plugin.hold(10, (uint64_t)i);
        } else {
            plugin.drop(plugin.hold(10, (uint64_t)i));
        }
        if (i % 50 == 0)
            plugin.leave_idle(40);
        CHECK(plugin.served() > 0);
        count(SERVED);
        unload();
    }
    read_sizes(after);
    for (int i = 0; i < 2; i++)
        counters->n[KIB_LEFT + i] = (after[i] - before[i]) / n;
    say_counts(names);
}

/* --- first used while another thread forks ------------------------------------------------------------------------- */

static int published, stop, at_rest;

static void *fork_all_the_time(void *unused) {
    (void)unused;
    while (!__atomic_load_n(&stop, __ATOMIC_SEQ_CST)) {
        __atomic_store_n(&at_rest, 0, __ATOMIC_SEQ_CST);
        if (!__atomic_load_n(&published, __ATOMIC_SEQ_CST)) {
            __atomic_store_n(&at_rest, 1, __ATOMIC_SEQ_CST);
            sched_yield();
            continue;
        }
        pid_t child = fork();
        if (child == 0) {
            use(99);
            _exit(0);
        }
        child_succeeds(child);
        count(FORKS);
    }
    return NULL;
}

static void *use_first(void *seed) {
    for (uintptr_t i = 0; i < 20; i++)
        use((uintptr_t)seed + i);
    return NULL;
}

static void forked_at_first_use(long n) {
    pthread_t forker, users[2];
    CHECK(pthread_create(&forker, NULL, fork_all_the_time, NULL) == 0);
    uint64_t random = 5;
    for (long i = 0; i < n; i++) {
        load();
        long before = __atomic_load_n(&counters->n[FORKS], __ATOMIC_SEQ_CST);
        __atomic_store_n(&published, 1, __ATOMIC_SEQ_CST);
        for (volatile uint64_t spins = choose(&random) % 200000; spins; spins--) {
        }
        for (uintptr_t k = 0; k < 2; k++)
            CHECK(pthread_create(&users[k], NULL, use_first, (void *)k) == 0);
        while (__atomic_load_n(&counters->n[FORKS], __ATOMIC_SEQ_CST) < before + 2)
            sched_yield();
        __atomic_store_n(&published, 0, __ATOMIC_SEQ_CST);
        for (int k = 0; k < 2; k++)
            CHECK(pthread_join(users[k], NULL) == 0);
        while (!__atomic_load_n(&at_rest, __ATOMIC_SEQ_CST))
            sched_yield();
        CHECK(plugin.served() > 0);
        count(SERVED);
        unload();
    }
    __atomic_store_n(&stop, 1, __ATOMIC_SEQ_CST);
    CHECK(pthread_join(forker, NULL) == 0);
    say_counts(names);
}

/* --- unloaded while threads that used it are just ending ------------------------------------------------------------ */

enum { ENDING = 8 };

static void *use_and_end(void *seed) {
    use((uintptr_t)seed);
    pthread_barrier_wait(&barrier);
    return NULL;
}

/* In a process of its own each time: what happens there is a matter of moments. */
static void unload_beside_ending_threads(long n) {
    for (long i = 0; i < n; i++) {
        pid_t child = fork();
        if (child == 0) {
            pthread_t threads[ENDING];
            load();
            CHECK(pthread_barrier_init(&barrier, NULL, ENDING + 1) == 0);
            for (uintptr_t k = 0; k < ENDING; k++)
                CHECK(pthread_create(&threads[k], NULL, use_and_end, (void *)k) == 0);
            pthread_barrier_wait(&barrier);
            for (volatile long spins = i % 20 * 3000; spins; spins--) {
            }
            unload();
            for (int k = 0; k < ENDING; k++)
                CHECK(pthread_join(threads[k], NULL) == 0);
            count(OUTLIVED);
            _exit(0);
        }
        child_succeeds(child);
    }
    say_counts(names);
}

int main(int argc, char **argv) {
    static const struct scenario all[] = {
        {"load_and_unload", load_and_unload},
        {"load_often", load_often},
        {"forked_at_first_use", forked_at_first_use},
        {"unload_beside_ending_threads", unload_beside_ending_threads},
        {NULL, NULL},
    };
    return run_scenario(all, argc, argv);
}
