/* forks SCENARIO COUNT: processes that are made while threads allocate. */
#include "torture.h"
#include <malloc.h>
#include <sched.h>
#include <spawn.h>

extern char **environ;

enum { THREADS = 4, BLOCKS = 300, MAILBOX = 256 };
enum { FORKS, GRANDCHILDREN, CHILD_THREADS, HANDLER_FORKS, RETURNED };
static const char *const names[] = {"forks", "grandchildren", "child_threads", "handler_forks", "returned", NULL};

/* Blocks that threads leave for each other, so that many frees are of other threads' blocks. A block is taken and left
 * by exchanging a pointer to its entry; the entries outlive everything. */
static struct block *mailbox[MAILBOX];

static void leave_and_take(struct block *ledger, uint64_t *random) {
    uint64_t x = choose(random);
    struct block *mine = &ledger[x % BLOCKS];
    if (!mine->p)
        return;
    struct block *box = (struct block *)malloc(sizeof *box);
    CHECK(box);
    *box = *mine;
    box = __atomic_exchange_n(&mailbox[(x >> 32) % MAILBOX], box, __ATOMIC_ACQ_REL);
    mine->p = NULL;
    if (box) {
        *mine = *box;
        block_check(mine);
        free(box);
    }
}

static void *child_thread(void *ledger) {
    uint64_t random = 0x9e3779b97f4a7c15;
    struct block *own = (struct block *)private_memory(BLOCKS * sizeof *own);
    for (int i = 0; i < 300; i++)
        churn(own, BLOCKS, &random);
    /* Frees what the parent's threads allocated. */
    end_all(ledger, BLOCKS / 4);
    end_all(own, BLOCKS);
    munmap(own, BLOCKS * sizeof *own);
    count(CHILD_THREADS);
    return NULL;
}

/* All that a child does: the forking thread's blocks are as they were, and the heap works. */
static void child_life(struct block *ledger, uint64_t random, int generation) {
    check_all(ledger, BLOCKS);
    for (int i = 0; i < 200; i++)
        churn(ledger, BLOCKS, &random);
    if (choose(&random) % 3 == 0) {
        pthread_t threads[3];
        struct block *parts[3] = {ledger, ledger + BLOCKS / 4, ledger + BLOCKS / 2};
        for (int i = 0; i < 3; i++)
            CHECK(pthread_create(&threads[i], NULL, child_thread, parts[i]) == 0);
        for (int i = 0; i < 200; i++)
            churn(ledger + 3 * BLOCKS / 4, BLOCKS / 4, &random);
        for (int i = 0; i < 3; i++)
            CHECK(pthread_join(threads[i], NULL) == 0);
    }
    if (choose(&random) % 8 == 0)
        malloc_trim(0);
    if (generation < 2 && choose(&random) % 3 == 0) {
        pid_t again = fork();
        if (again == 0) {
            child_life(ledger, random + 1, generation + 1);
            _exit(0);
        }
        child_succeeds(again);
        count(GRANDCHILDREN);
    }
    check_all(ledger, BLOCKS);
    if (choose(&random) % 4 == 0)
        end_all(ledger, BLOCKS);
}

static long forks_wanted;

static void *fork_and_churn(void *number) {
    uint64_t random = 88172645463325252 * (1 + (uintptr_t)number);
    struct block *ledger = (struct block *)private_memory(BLOCKS * sizeof *ledger);
    while (__atomic_sub_fetch(&forks_wanted, 1, __ATOMIC_RELAXED) >= 0) {
        uint64_t steps = choose(&random) % 400;
        for (uint64_t i = 0; i < steps; i++) {
            churn(ledger, BLOCKS, &random);
            leave_and_take(ledger, &random);
        }
        pid_t child = fork();
        if (child == 0) {
            child_life(ledger, random, 0);
            /* With and without exit handlers. */
            if (choose(&random) % 2)
                exit(0);
            _exit(0);
        }
        count(FORKS);
        /* The others go on, and fork, meanwhile. */
        child_succeeds(child);
        check_all(ledger, BLOCKS);
    }
    end_all(ledger, BLOCKS);
    return NULL;
}

static void from_churning_threads(long n) {
    forks_wanted = n;
    pthread_t threads[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, fork_and_churn, (void *)i) == 0);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    say_counts(names);
}

/* --- in handlers ------------------------------------------------------------------------------------------------- */

static volatile sig_atomic_t enough;
static pid_t first_process;
static __thread volatile sig_atomic_t is_child;

/* Whatever the signal interrupts, malloc included: the child ends at once, or returns from the handler and goes on. */
static void fork_here(int signal) {
    (void)signal;
    int saved = errno;
    static int turn;
    int go_on = __atomic_fetch_add(&turn, 1, __ATOMIC_RELAXED) % 2;
    pid_t child = fork();
    if (child == 0) {
        if (!go_on)
            _exit(0);
        is_child = 1;
    } else {
        child_succeeds(child);
        count(HANDLER_FORKS);
    }
    errno = saved;
}

static void *churn_and_be_interrupted(void *number) {
    uint64_t random = 99194853094755497 * (1 + (uintptr_t)number);
    struct block *ledger = (struct block *)private_memory(BLOCKS * sizeof *ledger);
    while (!enough) {
        churn(ledger, BLOCKS, &random);
        leave_and_take(ledger, &random);
        if (choose(&random) % 64 == 0)
            malloc_trim(0);
        if (is_child) {
            /* The fork happened anywhere above. Single from now on, so signals are no matter. */
            count(RETURNED);
            is_child = 0;
            child_life(ledger, random, 2);
            _exit(0);
        }
    }
    end_all(ledger, BLOCKS);
    return NULL;
}

static void in_handlers(long n) {
    first_process = getpid();
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = fork_here;
    action.sa_flags = SA_RESTART;
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
    pthread_t threads[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, churn_and_be_interrupted, (void *)i) == 0);
    uint64_t random = 7;
    while (__atomic_load_n(&counters->n[HANDLER_FORKS], __ATOMIC_RELAXED) < n) {
        CHECK(pthread_kill(threads[choose(&random) % THREADS], SIGUSR1) == 0);
        sched_yield();
    }
    enough = 1;
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    say_counts(names);
}

/* --- other ways to make a process -------------------------------------------------------------------------------- */

static void *churn_until_enough(void *number) {
    uint64_t random = 362436069 * (1 + (uintptr_t)number);
    struct block *ledger = (struct block *)private_memory(BLOCKS * sizeof *ledger);
    while (!enough) {
        churn(ledger, BLOCKS, &random);
        leave_and_take(ledger, &random);
    }
    end_all(ledger, BLOCKS);
    return NULL;
}

static pthread_t busy[THREADS];

static void start_busy_threads(void) {
    for (uintptr_t i = 0; i < THREADS; i++)
        CHECK(pthread_create(&busy[i], NULL, churn_until_enough, (void *)i) == 0);
}

static void end_busy_threads(void) {
    enough = 1;
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_join(busy[i], NULL) == 0);
}

/* Processes that share the memory until they execute something. Some children allocate meanwhile, as shells do. */
static void vforks(long n) {
    start_busy_threads();
    uint64_t random = 1234567;
    struct block *ledger = (struct block *)private_memory(BLOCKS * sizeof *ledger);
    for (long i = 0; i < n; i++) {
        for (int k = 0; k < 100; k++)
            churn(ledger, BLOCKS, &random);
        pid_t child = vfork();
        if (child == 0) {
            if (i % 2) {
                /* Its heap is the parent's thread's, which filled. */
                for (int k = 0; k < 50; k++)
                    churn(ledger, BLOCKS, &random);
            }
            if (i % 3)
                _exit(0);
            execl("/bin/true", "true", NULL);
            _exit(1);
        }
        child_succeeds(child);
        count(FORKS);
        check_all(ledger, BLOCKS);
    }
    end_all(ledger, BLOCKS);
    end_busy_threads();
    say_counts(names);
}

static void *spawn_some(void *n) {
    uint64_t random = 1234567 + (uintptr_t)&random;
    struct block *ledger = (struct block *)private_memory(BLOCKS * sizeof *ledger);
    for (long i = 0; i < (long)(intptr_t)n; i++) {
        for (int k = 0; k < 100; k++)
            churn(ledger, BLOCKS, &random);
        posix_spawn_file_actions_t actions;
        CHECK(posix_spawn_file_actions_init(&actions) == 0);
        CHECK(posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", 1, 0) == 0);
        char *const arguments[] = {(char *)"true", NULL};
        pid_t child;
        CHECK(posix_spawnp(&child, "true", &actions, NULL, arguments, environ) == 0);
        posix_spawn_file_actions_destroy(&actions);
        child_succeeds(child);
        count(FORKS);
        check_all(ledger, BLOCKS);
    }
    end_all(ledger, BLOCKS);
    return NULL;
}

static void spawns(long n) {
    start_busy_threads();
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        CHECK(pthread_create(&threads[i], NULL, spawn_some, (void *)(intptr_t)(n / 2)) == 0);
    for (int i = 0; i < 2; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    end_busy_threads();
    say_counts(names);
}

/* A daemon, and what it leaves to init: forked twice, its own session, its standard streams replaced. */
static void daemons(long n) {
    start_busy_threads();
    uint64_t random = 4242;
    struct block *ledger = (struct block *)private_memory(BLOCKS * sizeof *ledger);
    for (long i = 0; i < n; i++) {
        for (int k = 0; k < 100; k++)
            churn(ledger, BLOCKS, &random);
        int ends[2];
        CHECK(pipe(ends) == 0);
        pid_t child = fork();
        if (child == 0) {
            close(ends[0]);
            if (i % 2) {
                CHECK(daemon(1, 1) == 0);
            } else {
                CHECK(setsid() > 0);
                pid_t second = fork();
                if (second != 0)
                    _exit(second < 0);
            }
            child_life(ledger, random, 1);
            CHECK(write(ends[1], "!", 1) == 1);
            exit(0);
        }
        close(ends[1]);
        child_succeeds(child);
        char said = 0;
        CHECK(read(ends[0], &said, 1) == 1 && said == '!');
        close(ends[0]);
        count(FORKS);
    }
    end_all(ledger, BLOCKS);
    end_busy_threads();
    say_counts(names);
}

int main(int argc, char **argv) {
    static const struct scenario all[] = {
        {"from_churning_threads", from_churning_threads},
        {"in_handlers", in_handlers},
        {"vforks", vforks},
        {"spawns", spawns},
        {"daemons", daemons},
        {NULL, NULL},
    };
    return run_scenario(all, argc, argv);
}
