/* fork and its relatives. */
#include "conformance.h"
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <sys/time.h>

static void use_every_size(void) {
    for (size_t n = 1; n < 5 << 20; n = n * 3 + 1) {
        char *p = malloc(n), *q = calloc(1, n);
        CHECK(p && q);
        p[0] = p[n - 1] = 1;
        p = realloc(p, 2 * n);
        free(p), free(q);
    }
    malloc_trim(0);
}

static volatile int stop;

static void *churn(void *unused) {
    while (!stop)
        use_every_size();
    return unused;
}

static void *use_in_a_thread(void *unused) {
    use_every_size();
    return unused;
}

static int run_thread(void) {
    pthread_t thread;
    return pthread_create(&thread, NULL, use_in_a_thread, NULL) == 0 && pthread_join(thread, NULL) == 0;
}

BEHAVIOUR(child_of_a_threaded_process_allocates_and_forks_again) {
    pthread_t thread[3];
    for (int i = 0; i < 3; i++)
        CHECK(pthread_create(&thread[i], NULL, churn, NULL) == 0);
    char *kept = malloc(1000);
    memset(kept, 5, 1000);
    for (int i = 0; i < 20; i++) {
        pid_t child = fork();
        if (child == 0) {
            alarm(120);
            use_every_size();
            CHECK(run_thread());
            CHECK(ended_well(fork() ?: (use_every_size(), _exit(0), 0)));
            CHECK(is_filled(kept, 1000, 5));
            free(kept);
            _exit(0);
        }
        CHECK(ended_well(child));
    }
    stop = 1;
    for (int i = 0; i < 3; i++)
        CHECK(pthread_join(thread[i], NULL) == 0);
    CHECK(is_filled(kept, 1000, 5));
    free(kept);
}

static pthread_barrier_t start;

static void *first_block(void *unused) {
    pthread_barrier_wait(&start);
    free(malloc(100));
    return unused;
}

/* A thread gets its part of the allocator with its first block: a fork meets it half made. */
BEHAVIOUR(fork_beside_the_first_blocks_of_threads) {
    for (int i = 0; i < 50; i++) {
        pthread_t thread[2];
        pthread_barrier_init(&start, NULL, 3);
        for (int k = 0; k < 2; k++)
            CHECK(pthread_create(&thread[k], NULL, first_block, NULL) == 0);
        pthread_barrier_wait(&start);
        CHECK(ended_well(fork() ?: (use_every_size(), _exit(0), 0)));
        for (int k = 0; k < 2; k++)
            CHECK(pthread_join(thread[k], NULL) == 0);
        pthread_barrier_destroy(&start);
    }
}

static volatile sig_atomic_t forks;

static void fork_here(int signal) {
    (void)signal;
    int before = errno;
    pid_t child = fork();
    if (child == 0)
        _exit(0);
    int status;
    if (child > 0 && waitpid(child, &status, 0) == child && status == 0)
        forks++;
    errno = before;
}

/* POSIX lets a handler fork; the thread may be anywhere inside the allocator then. */
BEHAVIOUR(signal_handler_forks_inside_the_allocator) {
    struct sigaction action = {.sa_handler = fork_here, .sa_flags = SA_RESTART};
    CHECK(sigaction(SIGVTALRM, &action, NULL) == 0);
    struct itimerval every = {{0, 1000}, {0, 1000}}, never = {{0, 0}, {0, 0}};
    CHECK(setitimer(ITIMER_VIRTUAL, &every, NULL) == 0);
    while (forks < 50)
        for (int i = 0; i < 100; i++)
            use_every_size();
    CHECK(setitimer(ITIMER_VIRTUAL, &never, NULL) == 0);
    use_every_size();
}

/* Such a child shares the parent's memory, and some programs allocate in it before they exec. */
BEHAVIOUR(vfork_child_allocates_and_runs_a_program) {
    char *kept = malloc(1000), *volatile given = NULL;
    memset(kept, 5, 1000);
    for (volatile int i = 0; i < 50; i++) {
        pid_t child = vfork();
        if (child == 0) {
            free(malloc(100)), free(malloc(70000)), free(malloc(3 << 20));
            given = malloc(500);
            memset(given, 6, 500);
            if (i % 2)
                _exit(0);
            execl("/bin/true", "true", (char *)NULL);
            _exit(1);
        }
        CHECK(ended_well(child));
        CHECK(is_filled(kept, 1000, 5) && is_filled(given, 500, 6));
        free(given);
        use_every_size();
    }
    pid_t spawned;
    char *arguments[] = {"true", NULL}, *environment[] = {NULL};
    CHECK(posix_spawn(&spawned, "/bin/true", NULL, NULL, arguments, environment) == 0 && ended_well(spawned));
    free(kept);
}
