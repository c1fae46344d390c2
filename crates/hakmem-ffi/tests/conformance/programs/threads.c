/* Threads: small stacks, their ends, and being cancelled. */
#include "conformance.h"
#include "every_size.h"
#include <pthread.h>

static void use_every_size(void) {
    use_sizes_below(5 << 20);
}

static void run_with_stack(size_t stack, void *(*run)(void *), int times) {
    pthread_attr_t attr;
    if (stack < (size_t)PTHREAD_STACK_MIN) /* It differs by machine. */
        stack = PTHREAD_STACK_MIN;
    CHECK(pthread_attr_init(&attr) == 0 && pthread_attr_setstacksize(&attr, stack) == 0);
    for (int i = 0; i < times; i++) {
        pthread_t thread[4];
        for (int k = 0; k < 4; k++)
            CHECK(pthread_create(&thread[k], &attr, run, NULL) == 0);
        for (int k = 0; k < 4; k++)
            CHECK(pthread_join(thread[k], NULL) == 0);
    }
}

static void *on_a_small_stack(void *unused) {
    use_every_size();
    free(malloc(100));
    malloc_trim(0);
    return unused;
}

BEHAVIOUR(threads_with_stacks_of_64_kib_allocate) { run_with_stack(64 << 10, on_a_small_stack, 50); }

enum { KEYS = 40 };
static pthread_key_t keys[KEYS];
static __thread int rounds;

/* Among forty, many run after the allocator's own hook; and it runs again in each of four rounds. */
static void late(void *block) {
    static __thread char *left;
    free(block);
    free(left);
    left = malloc(3000);
    if (rounds % KEYS == 0)
        use_every_size();
    if (rounds++ < 3 * KEYS)
        pthread_setspecific(keys[rounds % KEYS], malloc(200));
    else
        free(left), left = NULL;
}

static void *with_keys(void *unused) {
    for (int i = 0; i < KEYS; i++)
        pthread_setspecific(keys[i], malloc(100));
    free(malloc(10));
    return unused;
}

static void *with_keys_before_the_first_block(void *unused) {
    static char nothing;
    for (int i = 0; i < KEYS; i++)
        pthread_setspecific(keys[i], &nothing + 0 * sizeof unused);
    return unused;
}

static void late_without_block(void *unused) {
    (void)unused;
    free(malloc(100)); /* The thread's very first. */
}

BEHAVIOUR(thread_destructors_free_and_allocate_after_our_hook) {
    for (int i = 0; i < KEYS; i++)
        CHECK(pthread_key_create(&keys[i], late) == 0);
    run_with_stack(64 << 10, with_keys, 20);
    for (int i = 0; i < KEYS; i++)
        CHECK(pthread_key_delete(keys[i]) == 0 && pthread_key_create(&keys[i], late_without_block) == 0);
    run_with_stack(64 << 10, with_keys_before_the_first_block, 20);
}

/* Memory of ended threads does not pile up: 2000 threads leave what a few do. */
static void *churn(void *unused) {
    static __thread char *p[300];
    for (int i = 0; i < 300; i++)
        memset(p[i] = malloc(1000), 1, 1000);
    for (int i = 0; i < 300; i++)
        free(p[i]);
    return unused;
}

BEHAVIOUR(ended_threads_leave_their_memory_to_others) {
    run_with_stack(64 << 10, churn, 500);
    struct rusage usage;
    CHECK(getrusage(RUSAGE_SELF, &usage) == 0 && usage.ru_maxrss < 60 << 10);
    free(malloc(1));
}

static pthread_t first;

static void *last_thread(void *block) {
    CHECK(pthread_join(first, NULL) == 0);
    CHECK(!strcmp(block, "of the first thread"));
    free(block);
    use_every_size();
    run_with_stack(64 << 10, churn, 20);
    CHECK(ended_well(fork() ?: (use_every_size(), _exit(0), 0)));
    conclude();
    return NULL; /* The last thread's end is the process's, with its exit handlers. */
}

BEHAVIOUR(first_thread_may_end_before_the_process) {
    pthread_t thread;
    char *block = malloc(100);
    strcpy(block, "of the first thread");
    first = pthread_self();
    CHECK(pthread_create(&thread, NULL, last_thread, block) == 0 && pthread_detach(thread) == 0);
    pthread_exit(NULL);
}

static int completed;
static pthread_barrier_t cancelled;

static void note(void *block) {
    free(block);
    completed = -completed;
}

/* What a thread does while it is asked to end. It may not end in there. */
static void (*work)(void);

static void *works_while_cancelled(void *unused) {
    completed = 0;
    char *block = malloc(1000);
    pthread_cleanup_push(note, block);
    int old;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old);
    pthread_barrier_wait(&cancelled), pthread_barrier_wait(&cancelled);
    pthread_setcancelstate(old, &old);
    work();
    completed = 1;
    pthread_testcancel();
    completed = 2;
    pthread_cleanup_pop(0);
    return unused;
}

static void cancel_during(void (*what)(void)) {
    pthread_t thread;
    void *result;
    work = what;
    CHECK(pthread_create(&thread, NULL, works_while_cancelled, NULL) == 0);
    pthread_barrier_wait(&cancelled);
    CHECK(pthread_cancel(thread) == 0);
    pthread_barrier_wait(&cancelled);
    CHECK(pthread_join(thread, &result) == 0 && result == PTHREAD_CANCELED && completed == -1);
}

/* To be ended in here would leave a lock held, or a list half changed. */
static void allocates(void) {
    for (int i = 0; i < 5; i++)
        use_every_size();
    malloc_trim(0);
}

BEHAVIOUR(allocation_is_no_cancellation_point) {
    pthread_barrier_init(&cancelled, NULL, 2);
    for (int i = 0; i < 8; i++)
        cancel_during(allocates);
}

static FILE *stream;

static void reports(void) {
    malloc_stats();
    malloc_info(0, stream);
}

/* To be ended in here would lose the report, and leave signals blocked or a descriptor open. */
BEHAVIOUR(reports_are_no_cancellation_points) {
    int ends[2];
    char text[4096], *xml = NULL;
    size_t length;
    stream = open_memstream(&xml, &length);
    CHECK(stream && pipe(ends) == 0 && dup2(ends[1], STDERR_FILENO) == STDERR_FILENO && close(ends[1]) == 0);
    pthread_barrier_init(&cancelled, NULL, 2);
    cancel_during(reports);
    CHECK(close(STDERR_FILENO) == 0);
    ssize_t n = read(ends[0], text, sizeof text);
    CHECK(n > 20 && text[n - 1] == '\n');
    CHECK(fclose(stream) == 0 && strstr(xml, "</malloc>"));
    free(xml);
}
