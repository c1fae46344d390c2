/* A process forks in a signal handler at one instruction after the other of what it does with its heap: the child returns
   from the handler, and goes on with a heap that is whole. */
#include "torture.h"
#include <malloc.h>
#include <ucontext.h>

enum { FORKS };
static const char *const names[] = {"forks", NULL};

/* The single-step flag: each instruction ends in SIGTRAP. */
enum { TRAP = 0x100 };
static inline void step(void) { __asm__ volatile("pushfq; orq $0x100, (%%rsp); popfq" ::: "memory", "cc"); }
static inline void go(void) { __asm__ volatile("pushfq; andq $~0x100, (%%rsp); popfq" ::: "memory", "cc"); }

static volatile long instruction, fork_at;
static volatile int is_child;

static void on_instruction(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)info;
    if (instruction++ != fork_at)
        return;
    /* Without steps from here on, here and there. */
    ((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL] &= ~(greg_t)TRAP;
    pid_t child = fork();
    if (child == 0) {
        is_child = 1;
        return;
    }
    CHECK(child > 0);
    int status;
    while (waitpid(child, &status, 0) != child)
        CHECK(errno == EINTR);
    if (status != 0)
        dprintf(2, "forked at instruction %ld: status 0x%x\n", fork_at, status);
    CHECK(status == 0);
    count(FORKS);
}

enum { BLOCKS = 400 };

/* Lists run out and are filled again, pages become full and unfull, blocks grow and move: the classes are few. */
static void act(struct block *ledger) {
    static const size_t sizes[] = {80, 3000, 80, 80, 12000, 80, 80, 80};
    for (int i = 0; i < 24; i++) {
        struct block *b = &ledger[i * 7 % BLOCKS];
        if (b->p) {
            free(b->p);
            b->p = NULL;
        } else {
            b->n = sizes[i / 3 % 8];
            b->p = malloc(b->n);
            CHECK(b->p);
            if (i % 8 == 0)
                CHECK((b->p = realloc(b->p, b->n *= 2)));
        }
    }
}

static void live_on(struct block *ledger) {
    uint64_t random = 88172645463325252;
    for (int i = 0; i < BLOCKS; i++)
        if (ledger[i].p)
            memset(ledger[i].p, i, ledger[i].n);
    for (int i = 0; i < BLOCKS; i++) {
        for (size_t k = 0; ledger[i].p && k < ledger[i].n; k += stride(ledger[i].n))
            CHECK(ledger[i].p[k] == (unsigned char)i);
        free(ledger[i].p);
        ledger[i].p = NULL;
    }
    for (int i = 0; i < 1000; i++)
        churn(ledger, BLOCKS, &random);
    end_all(ledger, BLOCKS);
    malloc_trim(0);
}

/* Does it once, and forks at instruction `at`, if it comes to that. */
static void once(long at) {
    struct block *ledger = (struct block *)private_memory(BLOCKS * sizeof *ledger);
    uint64_t random = 2463534242;
    for (int i = 0; i < 300; i++) {
        struct block *b = &ledger[choose(&random) % BLOCKS];
        if (b->p)
            free(b->p), b->p = NULL;
        else
            CHECK((b->p = malloc(b->n = 80)));
    }
    instruction = 0, fork_at = at;
    step();
    act(ledger);
    go();
    if (is_child)
        live_on(ledger);
}

/* Instructions that it takes at least; a sample of the profile takes many more. */
enum { LEAST = 4000 };

/* `n` forks, evenly spread. Each in a process of its own, so that what is done is the same. */
static void each(long n) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = on_instruction;
    action.sa_flags = SA_SIGINFO;
    CHECK(sigaction(SIGTRAP, &action, NULL) == 0);
    for (long i = 0; i < n; i++) {
        pid_t child = fork();
        if (child == 0) {
            once(LEAST * i / n);
            _exit(0);
        }
        CHECK(child > 0);
        int status;
        CHECK(waitpid(child, &status, 0) == child && status == 0);
    }
    say_counts(names);
}

int main(int argc, char **argv) {
    static const struct scenario all[] = {{"each", each}, {NULL, NULL}};
    return run_scenario(all, argc, argv);
}
