/* threads SCENARIO COUNT: how threads begin, are interrupted and end. */
#include "torture.h"
#include <limits.h>
#include <malloc.h>
#include <sched.h>
#include <setjmp.h>
#include <sys/resource.h>

enum { BLOCKS = 120 };
enum { DONE, CANCELLED, EXITED, DESTRUCTORS, SIGNALS, JUMPS, AT_ONCE, PROCESSES };
static const char *const names[] = {"done", "cancelled", "exited", "destructors", "signals", "jumps", "at_once", "processes", NULL};

/* One entry more, whose `n` is anybody's. */
enum { LEDGER_BYTES = (BLOCKS + 1) * sizeof(struct block) };

static struct block *new_ledger(void) { return (struct block *)private_memory(LEDGER_BYTES); }

static void end_ledger(void *ledger) {
    end_all((struct block *)ledger, BLOCKS);
    munmap(ledger, LEDGER_BYTES);
}

static uint64_t seed(void) {
    static uint64_t seeds;
    return 0x2545f4914f6cdd1d * __atomic_add_fetch(&seeds, 1, __ATOMIC_RELAXED);
}

/* --- cancellation and pthread_exit -------------------------------------------------------------------------------- */

static void note_cancelled(void *ledger) {
    end_ledger(ledger);
    count(CANCELLED);
}

static int sum;

/* Deferred cancellation, requested at any moment, allocation included; and asynchronous outside of allocation. */
static void *be_cancelled(void *asynchronous) {
    uint64_t random = seed();
    struct block *ledger = new_ledger();
    pthread_cleanup_push(note_cancelled, ledger);
    for (;;) {
        for (int i = 0; i < 30; i++)
            churn(ledger, BLOCKS, &random);
        if (asynchronous) {
            int old;
            pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &old);
            for (volatile int i = 0; i < 3000; i++)
                sum += i;
            pthread_setcanceltype(old, &old);
        }
        pthread_testcancel();
    }
    pthread_cleanup_pop(0);
    return NULL;
}

static void cancellation(long n) {
    uint64_t random = seed();
    for (long i = 0; i < n; i++) {
        pthread_t threads[4];
        for (intptr_t k = 0; k < 4; k++)
            CHECK(pthread_create(&threads[k], NULL, be_cancelled, (void *)(k % 2)) == 0);
        for (uint64_t spins = choose(&random) % 20000; spins; spins--)
            sum++;
        for (int k = 0; k < 4; k++)
            CHECK(pthread_cancel(threads[k]) == 0);
        for (int k = 0; k < 4; k++) {
            void *result;
            CHECK(pthread_join(threads[k], &result) == 0 && result == PTHREAD_CANCELED);
        }
        count(DONE);
    }
    say_counts(names);
}

/* A thread is cancelled while it holds blocks of another's that it freed, too few to be sent at once: they come back. */
struct gift {
    void *p[200];
};

__attribute__((noreturn)) static void *free_and_wait(void *gift) {
    for (int i = 0; i < 200; i++)
        free(((struct gift *)gift)->p[i]);
    free(malloc(100));
    count(EXITED);
    for (;;)
        pause();
}

static void cancelled_with_others_blocks(long n) {
    struct gift *gift = (struct gift *)private_memory(sizeof *gift);
    size_t after_ten = 0;
    for (long i = 0; i < n; i++) {
        for (int k = 0; k < 200; k++)
            memset(gift->p[k] = malloc(200), 1, 200);
        pthread_t thread;
        long before = __atomic_load_n(&counters->n[EXITED], __ATOMIC_RELAXED);
        CHECK(pthread_create(&thread, NULL, free_and_wait, gift) == 0);
        while (__atomic_load_n(&counters->n[EXITED], __ATOMIC_RELAXED) == before)
            sched_yield();
        CHECK(pthread_cancel(thread) == 0);
        CHECK(pthread_join(thread, NULL) == 0);
        count(DONE);
        if (i == 10)
            after_ten = mallinfo2().arena;
    }
    /* 200 blocks a round, lost, would be 40 KB a round. */
    CHECK(mallinfo2().arena < after_ten + (4 << 20));
    say_counts(names);
}

/* A thread is cancelled while it writes a report, as SIGUSR1 and SIGUSR2 ask for, which interrupted it in a system call
 * that is a cancellation point. What runs at its end may be interrupted by signals. */
static void note_cancelled_with_signals(void *unused) {
    (void)unused;
    sigset_t blocked;
    CHECK(pthread_sigmask(SIG_BLOCK, NULL, &blocked) == 0);
    CHECK(!sigismember(&blocked, SIGTERM) && !sigismember(&blocked, SIGUSR1));
    count(CANCELLED);
}

/* In a call that the system makes again after a signal, or in one that ends. */
static void *wait_for_ever(void *pipe) {
    pthread_cleanup_push(note_cancelled_with_signals, NULL);
    for (char byte;;)
        if (!pipe)
            pause();
        else if (read(*(int *)pipe, &byte, 1) < 0)
            CHECK(errno == EINTR);
    pthread_cleanup_pop(0);
    return NULL;
}

static void cancelled_in_reports(long n) {
    uint64_t random = 1;
    int ends[2];
    CHECK(pipe(ends) == 0);
    for (long i = 0; i < n; i++) {
        pthread_t thread;
        void *result = NULL;
        CHECK(pthread_create(&thread, NULL, wait_for_ever, i / 2 % 2 ? ends : NULL) == 0);
        usleep(200); /* Not to wait for anything: so that most threads are in the system call. */
        CHECK(pthread_kill(thread, i % 2 ? SIGUSR1 : SIGUSR2) == 0);
        usleep(choose(&random) % 400); /* The same: at any moment of the report. */
        CHECK(pthread_cancel(thread) == 0);
        CHECK(pthread_join(thread, &result) == 0);
        CHECK(result == PTHREAD_CANCELED);
        count(DONE);
    }
    say_counts(names);
}

static void *exit_somewhere(void *depth) {
    uint64_t random = seed();
    struct block *ledger = new_ledger();
    for (int i = 0; i < 50; i++)
        churn(ledger, BLOCKS, &random);
    end_ledger(ledger);
    count(EXITED);
    if ((intptr_t)depth % 2)
        pthread_exit(depth);
    return depth;
}

/* Threads that start and end all the time, free what their predecessors left, while memory is given back. */
static struct block *left[64];

static void *short_life(void *unused) {
    (void)unused;
    uint64_t random = seed();
    struct block *mine = (struct block *)malloc(sizeof *mine);
    CHECK(mine);
    block_make(mine, choose_size(&random), random);
    for (int i = 0; i < 3; i++) {
        mine = __atomic_exchange_n(&left[choose(&random) % 64], mine, __ATOMIC_ACQ_REL);
        if (!mine)
            return NULL;
        block_check(mine);
    }
    block_end(mine);
    free(mine);
    return NULL;
}

static void *start_short_lives(void *n) {
    for (long i = 0; i < (long)(intptr_t)n; i += 8) {
        pthread_t threads[8];
        for (int k = 0; k < 8; k++)
            CHECK(pthread_create(&threads[k], NULL, k == 7 ? exit_somewhere : short_life, (void *)(intptr_t)i) == 0);
        for (int k = 0; k < 8; k++) {
            CHECK(pthread_join(threads[k], NULL) == 0);
            count(DONE);
        }
    }
    return NULL;
}

static volatile sig_atomic_t enough;

static void *trim_and_look(void *unused) {
    (void)unused;
    while (!enough) {
        malloc_trim(0);
        CHECK(mallinfo2().arena > 0);
        sched_yield();
    }
    return NULL;
}

static void adoption_storm(long n) {
    pthread_t starters[4], trimmer;
    CHECK(pthread_create(&trimmer, NULL, trim_and_look, NULL) == 0);
    for (int i = 0; i < 4; i++)
        CHECK(pthread_create(&starters[i], NULL, start_short_lives, (void *)(intptr_t)(n / 4)) == 0);
    for (int i = 0; i < 4; i++)
        CHECK(pthread_join(starters[i], NULL) == 0);
    enough = 1;
    CHECK(pthread_join(trimmer, NULL) == 0);
    say_counts(names);
}

/* --- destructors -------------------------------------------------------------------------------------------------- */

enum { KEYS = 6 };
static pthread_key_t keys[KEYS];

/* Runs after the allocator's own, since its key is older; sets its value again, so that it runs in every round. */
static void destroy(void *ledger) {
    uint64_t random = seed();
    struct block *blocks = (struct block *)ledger;
    check_all(blocks, BLOCKS);
    for (int i = 0; i < 40; i++)
        churn(blocks, BLOCKS, &random);
    count(DESTRUCTORS);
    if (++blocks[BLOCKS].n == PTHREAD_DESTRUCTOR_ITERATIONS - 1) {
        end_ledger(ledger);
        return;
    }
    for (int i = 0; i < KEYS; i++)
        if (!pthread_getspecific(keys[i])) {
            CHECK(pthread_setspecific(keys[i], ledger) == 0);
            return;
        }
    CHECK(!"a key whose destructor runs has no value");
}

static void *live_with_keys(void *unused) {
    (void)unused;
    uint64_t random = seed();
    for (int i = 0; i < KEYS; i++) {
        struct block *ledger = new_ledger();
        for (int k = 0; k < 40; k++)
            churn(ledger, BLOCKS, &random);
        CHECK(pthread_setspecific(keys[i], ledger) == 0);
    }
    return NULL;
}

static void key_destructors(long n) {
    free(malloc(1));
    for (int i = 0; i < KEYS; i++)
        CHECK(pthread_key_create(&keys[i], destroy) == 0);
    for (long i = 0; i < n; i++) {
        pthread_t threads[4];
        for (int k = 0; k < 4; k++)
            CHECK(pthread_create(&threads[k], NULL, live_with_keys, NULL) == 0);
        for (int k = 0; k < 4; k++)
            CHECK(pthread_join(threads[k], NULL) == 0);
        count(DONE);
    }
    say_counts(names);
}

/* --- the first thread --------------------------------------------------------------------------------------------- */

static pthread_t first_thread;

static void *outlive_the_first(void *n) {
    CHECK(pthread_join(first_thread, NULL) == 0);
    uint64_t random = seed();
    struct block *ledger = new_ledger();
    for (long i = 0; i < 3000; i++)
        churn(ledger, BLOCKS, &random);
    start_short_lives(n);
    pid_t child = fork();
    if (child == 0) {
        check_all(ledger, BLOCKS);
        end_ledger(ledger);
        exit(0);
    }
    child_succeeds(child);
    end_ledger(ledger);
    say_counts(names);
    return NULL;
}

/* The others wait for the first thread to end, and go on; the process ends with the last of them. */
static void first_thread_exits(long n) {
    first_thread = pthread_self();
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, outlive_the_first, (void *)(intptr_t)n) == 0);
    pthread_detach(thread);
    free(malloc(20 << 20));
    pthread_exit(NULL);
}

/* --- many --------------------------------------------------------------------------------------------------------- */

static struct block (*many)[2];
static long many_threads;
static pthread_barrier_t all_there;

static void *one_of_many(void *number) {
    long i = (long)(intptr_t)number;
    block_make(&many[i][0], 1 + i % 700, i);
    block_make(&many[i][1], 1 + i % 5000, ~i);
    pthread_barrier_wait(&all_there);
    /* Everybody is alive now: each ends a block of another's. */
    if (i == 0)
        __atomic_store_n(&counters->n[AT_ONCE], many_threads, __ATOMIC_RELAXED);
    block_end(&many[(i + 1) % many_threads][0]);
    block_check(&many[i][1]);
    block_end(&many[i][1]);
    count(DONE);
    return NULL;
}

static void many_at_once(long n) {
    pthread_attr_t attributes;
    CHECK(pthread_attr_init(&attributes) == 0);
    CHECK(pthread_attr_setstacksize(&attributes, 64 << 10) == 0);
    many_threads = n;
    many = (struct block(*)[2])private_memory(n * sizeof *many);
    pthread_t *threads = (pthread_t *)private_memory(n * sizeof *threads);
    CHECK(pthread_barrier_init(&all_there, NULL, n) == 0);
    for (long i = 0; i < n; i++) {
        int error = pthread_create(&threads[i], &attributes, one_of_many, (void *)(intptr_t)i);
        if (error) {
            dprintf(2, "limit: thread %ld of %ld: %s\n", i, n, strerror(error));
            _exit(3);
        }
    }
    for (long i = 0; i < n; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    say_counts(names);
}

/* --- signals ------------------------------------------------------------------------------------------------------ */

static void use_the_heap(int signal) {
    (void)signal;
    int saved = errno;
    static __thread uint64_t random = 1;
    struct block a, b;
    random += 77;
    block_make(&a, choose_size(&random), random);
    block_make(&b, choose_size(&random), ~random);
    block_end(&a);
    block_end(&b);
    count(SIGNALS);
    errno = saved;
}

static void on_alternate_stack(size_t bytes) {
    stack_t stack;
    memset(&stack, 0, sizeof stack);
    stack.ss_size = bytes;
    stack.ss_sp = private_memory(bytes);
    CHECK(sigaltstack(&stack, NULL) == 0);
}

static void handle(int signal, void (*handler)(int), int flags) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = handler;
    action.sa_flags = flags;
    CHECK(sigaction(signal, &action, NULL) == 0);
}

static void *churn_unsignalled(void *unused) {
    (void)unused;
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    uint64_t random = seed();
    struct block *ledger = new_ledger();
    while (!enough) {
        churn(ledger, BLOCKS, &random);
        if (choose(&random) % 512 == 0)
            malloc_trim(0);
    }
    end_ledger(ledger);
    return NULL;
}

static void *be_signalled(void *ready) {
    on_alternate_stack(24 << 10);
    __atomic_store_n((int *)ready, 1, __ATOMIC_RELEASE);
    while (!enough) /* Nothing of ours is interrupted here. */
        sum++;
    return NULL;
}

/* Handlers allocate, on a small stack of their own, while they interrupt anything but the allocator. Other threads are
 * inside it. */
static void alternate_stack(long n) {
    handle(SIGUSR1, use_the_heap, SA_ONSTACK | SA_RESTART);
    pthread_t busy[2], signalled;
    int ready = 0;
    for (int i = 0; i < 2; i++)
        CHECK(pthread_create(&busy[i], NULL, churn_unsignalled, NULL) == 0);
    CHECK(pthread_create(&signalled, NULL, be_signalled, &ready) == 0);
    while (!__atomic_load_n(&ready, __ATOMIC_ACQUIRE))
        sched_yield();
    while (__atomic_load_n(&counters->n[SIGNALS], __ATOMIC_RELAXED) < n) {
        CHECK(pthread_kill(signalled, SIGUSR1) == 0);
        sched_yield();
    }
    enough = 1;
    CHECK(pthread_join(signalled, NULL) == 0);
    for (int i = 0; i < 2; i++)
        CHECK(pthread_join(busy[i], NULL) == 0);
    say_counts(names);
}

static sigjmp_buf back;

static void allocate_and_jump(int signal) {
    use_the_heap(signal);
    siglongjmp(back, 1);
}

/* Out of handlers by a jump, with and without an alternate stack, between the program's allocations. */
static void jump_out(long n) {
    on_alternate_stack(24 << 10);
    handle(SIGUSR1, allocate_and_jump, SA_ONSTACK);
    handle(SIGUSR2, allocate_and_jump, 0);
    handle(SIGSEGV, allocate_and_jump, SA_ONSTACK);
    static uint64_t random;
    static struct block *ledger;
    static long i;
    random = seed();
    ledger = new_ledger();
    char *forbidden = (char *)mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (i = 0; i < n; i++) {
        churn(ledger, BLOCKS, &random);
        if (sigsetjmp(back, 1) == 0) {
            switch (i % 3) {
            case 0: raise(SIGUSR1); break;
            case 1: raise(SIGUSR2); break;
            default: *(volatile char *)forbidden = 1;
            }
            CHECK(!"the handler does not return");
        }
        count(JUMPS);
    }
    check_all(ledger, BLOCKS);
    end_ledger(ledger);
    say_counts(names);
}

/* --- the end of the process --------------------------------------------------------------------------------------- */

__attribute__((noreturn)) static void *churn_for_ever(void *unused) {
    (void)unused;
    uint64_t random = seed();
    struct block *ledger = new_ledger();
    for (;;)
        churn(ledger, BLOCKS, &random);
}

__attribute__((noreturn)) static void *start_for_ever(void *unused) {
    (void)unused;
    for (;;)
        start_short_lives((void *)8);
}

static void end_of_program(void) {
    uint64_t random = seed();
    struct block *ledger = new_ledger();
    for (int i = 0; i < 200; i++)
        churn(ledger, BLOCKS, &random);
    end_ledger(ledger);
    count(EXITED);
}

/* exit() while threads allocate, start and end, and in exit handlers. */
static void exit_beside_threads(long n) {
    for (long i = 0; i < n; i++) {
        pid_t child = fork();
        if (child == 0) {
            atexit(end_of_program);
            pthread_t thread;
            CHECK(pthread_create(&thread, NULL, churn_for_ever, NULL) == 0);
            CHECK(pthread_create(&thread, NULL, churn_for_ever, NULL) == 0);
            CHECK(pthread_create(&thread, NULL, start_for_ever, NULL) == 0);
            uint64_t random = seed() + i;
            for (uint64_t spins = choose(&random) % 3000000; spins; spins--)
                sum++;
            exit(0);
        }
        child_succeeds(child);
        count(PROCESSES);
    }
    say_counts(names);
}

int main(int argc, char **argv) {
    static const struct scenario all[] = {
        {"cancellation", cancellation},
        {"cancelled_with_others_blocks", cancelled_with_others_blocks},
        {"cancelled_in_reports", cancelled_in_reports},
        {"adoption_storm", adoption_storm},
        {"key_destructors", key_destructors},
        {"first_thread_exits", first_thread_exits},
        {"many_at_once", many_at_once},
        {"alternate_stack", alternate_stack},
        {"jump_out", jump_out},
        {"exit_beside_threads", exit_beside_threads},
        {NULL, NULL},
    };
    return run_scenario(all, argc, argv);
}
