/* deadlocks SCENARIO COUNT: the allocator's locks against those of the C library, which a program cannot see. */
#include "torture.h"
#include <dlfcn.h>
#include <fcntl.h>

enum { FORKS, LINES, FLUSHES, SIGNALS, FREED };
static const char *const names[] = {"forks", "lines", "flushes", "signals", "freed", NULL};

static int enough;

static int is_enough(void) { return __atomic_load_n(&enough, __ATOMIC_RELAXED); }

static void start(pthread_t *thread, void *(*run)(void *), void *argument) {
    CHECK(pthread_create(thread, NULL, run, argument) == 0);
}

/* --- fork takes the list of streams, a flusher waits for a stream under it, a reader has that stream and allocates --- */

/* So long that the buffer for it comes from the part of the heap that is under locks. */
enum { READERS = 8, FORKERS = 4, LINE = 1200 << 10 };

static void *read_lines(void *unused) {
    (void)unused;
    FILE *file = tmpfile();
    CHECK(file);
    for (int i = 0; i < LINE; i++)
        CHECK(fputc('a', file) == 'a');
    CHECK(fputc('\n', file) == '\n');
    while (!is_enough()) {
        char *line = NULL;
        size_t room = 0;
        rewind(file);
        CHECK(getline(&line, &room, file) == LINE + 1);
        free(line);
        count(LINES);
        usleep(500); /* The flusher and the forks are to have their turn. */
    }
    fclose(file);
    return NULL;
}

static void *flush_all(void *unused) {
    (void)unused;
    while (!is_enough()) {
        CHECK(fflush(NULL) == 0);
        count(FLUSHES);
    }
    return NULL;
}

static void *fork_often(void *number) {
    for (uintptr_t n = (uintptr_t)number; n > 0; n--) {
        pid_t child = fork();
        if (child == 0) {
            free(malloc(100));
            free(malloc(3 << 20));
            _exit(0);
        }
        child_succeeds(child);
        count(FORKS);
    }
    return NULL;
}

static void forks_beside_streams(long n) {
    pthread_t readers[READERS], flusher, forkers[FORKERS];
    for (int i = 0; i < READERS; i++)
        start(&readers[i], read_lines, NULL);
    start(&flusher, flush_all, NULL);
    /* On a busy machine the forks could be over before a reader has written its file. */
    while (counted(LINES) == 0 || counted(FLUSHES) == 0)
        usleep(100);
    for (int i = 0; i < FORKERS; i++)
        start(&forkers[i], fork_often, (void *)(n / FORKERS));
    for (int i = 0; i < FORKERS; i++)
        CHECK(pthread_join(forkers[i], NULL) == 0);
    __atomic_store_n(&enough, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < READERS; i++)
        CHECK(pthread_join(readers[i], NULL) == 0);
    CHECK(pthread_join(flusher, NULL) == 0);
    say_counts(names);
}

/* --- the signal that writes the profile interrupts threads that grow ------------------------------------------------- */

enum { GROWERS = 8 };

/* Every other thread takes blocks whose samples need segments under the profile's lock, the others take segments without
 * it. */
static void *grow(void *number) {
    enum { KEPT = 3000 };
    size_t size = (uintptr_t)number % 2 ? 60000 : 1 << 20;
    void **kept = (void **)private_memory(KEPT * sizeof *kept);
    while (!is_enough()) {
        for (int i = 0; i < KEPT && !is_enough(); i++)
            CHECK((kept[i] = malloc(size)));
        for (int i = 0; i < KEPT; i++)
            free(kept[i]), kept[i] = NULL;
    }
    return NULL;
}

/* The handler is the library's. */
static void signals_beside_growth(long n) {
    pthread_t growers[GROWERS];
    for (int i = 0; i < GROWERS; i++)
        start(&growers[i], grow, (void *)(uintptr_t)i);
    for (long i = 0; i < n; i++) {
        CHECK(pthread_kill(growers[i % GROWERS], SIGUSR1) == 0);
        usleep(100);
        count(SIGNALS);
    }
    __atomic_store_n(&enough, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < GROWERS; i++)
        CHECK(pthread_join(growers[i], NULL) == 0);
    say_counts(names);
}

/* --- a constructor frees a block of the C library's, under the loader's lock, and so does another thread ------------ */

static void *(*libc_malloc)(size_t);
static pid_t freer;
static int began, ended;

static void *free_foreign(void *block) {
    freer = gettid();
    __atomic_store_n(&began, 1, __ATOMIC_RELEASE);
    free(block);
    count(FREED);
    __atomic_store_n(&ended, 1, __ATOMIC_RELEASE);
    return NULL;
}

/* The other thread has freed its block, or waits for something. */
static int is_through_or_asleep(void) {
    char name[64], text[200] = "";
    if (__atomic_load_n(&ended, __ATOMIC_ACQUIRE))
        return 1;
    if (!__atomic_load_n(&began, __ATOMIC_ACQUIRE))
        return 0;
    snprintf(name, sizeof name, "/proc/self/task/%d/stat", (int)freer);
    int file = open(name, O_RDONLY);
    if (file < 0)
        return 1;
    CHECK(read(file, text, sizeof text - 1) > 0);
    close(file);
    return strstr(text, ") S ") != NULL;
}

static pthread_t other;

/* Called by the constructor. */
static void during_load(void) {
    start(&other, free_foreign, libc_malloc(200));
    while (!is_through_or_asleep())
        usleep(100);
    free(libc_malloc(200));
    count(FREED);
}

static void foreign_frees_under_the_loaders_lock(long n) {
    (void)n;
    void *libc = dlopen("libc.so.6", RTLD_NOW);
    CHECK(libc && (*(void **)&libc_malloc = dlsym(libc, "malloc")));
    CHECK((void *)libc_malloc != (void *)malloc);
    char hook[32];
    snprintf(hook, sizeof hook, "%p", (void *)during_load);
    CHECK(setenv("HOOK", hook, 1) == 0);
    CHECK(dlopen(getenv("CONSTRUCTOR"), RTLD_NOW));
    CHECK(pthread_join(other, NULL) == 0);
    say_counts(names);
}

int main(int argc, char **argv) {
    static const struct scenario all[] = {
        {"forks_beside_streams", forks_beside_streams},
        {"signals_beside_growth", signals_beside_growth},
        {"foreign_frees_under_the_loaders_lock", foreign_frees_under_the_loaders_lock},
        {NULL, NULL},
    };
    return run_scenario(all, argc, argv);
}
