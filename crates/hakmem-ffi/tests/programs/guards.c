/* Blocks in guarded places: guards PART. Each allocation gets one, or as many as have room. */
#define _GNU_SOURCE
#include "must.h"

#include <dlfcn.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <malloc.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static void filled(unsigned char *p, size_t n, int seed) {
    for (size_t i = 0; i < n; i++)
        p[i] = (unsigned char)(seed + i);
}

static void same(const unsigned char *p, size_t n, int seed) {
    for (size_t i = 0; i < n; i++)
        MUST(p[i] == (unsigned char)(seed + i));
}

static void *all_sizes(void *unused) {
    for (size_t n = 1; n < 70000; n += n < 600 ? 1 : n / 9) {
        unsigned char *p = hidden(malloc(n)), *q = hidden(calloc(1, n));
        MUST((uintptr_t)p % 16 == 0 && malloc_usable_size(p) >= n);
        filled(p, malloc_usable_size(p), 1);
        for (size_t i = 0; i < malloc_usable_size(q); i++)
            MUST(q[i] == 0);
        filled(p, n, 7);
        size_t more = n + 1 + n / 3;
        p = hidden(realloc(p, more));
        MUST(p);
        same(p, n, 7);
        filled(p, more, 9);
        p = hidden(realloc(p, n / 5 + 1));
        MUST(p);
        same(p, n / 5 + 1, 9);
        free(p);
        free(q);
        for (size_t align = 32; align <= 8192; align *= 4) {
            void *r;
            MUST(!posix_memalign(&r, align, n) && (uintptr_t)r % align == 0);
            filled(r, n, 3);
            free(r);
        }
    }
    return unused;
}

static void correct(void) {
    pthread_t threads[3];
    for (int i = 0; i < 3; i++)
        MUST(!pthread_create(&threads[i], NULL, all_sizes, NULL));
    all_sizes(NULL);
    void *ours = hidden(malloc(100));
    pid_t child = fork();
    if (child == 0) {
        free(ours);
        all_sizes(NULL);
        _exit(0);
    }
    int status;
    MUST(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    free(ours);
    for (int i = 0; i < 3; i++)
        MUST(!pthread_join(threads[i], NULL));
    puts("correct");
}

static void use_after_free(void) {
    unsigned char *p = hidden(malloc(100));
    free(p);
    p = hidden(p);
    p[5] = 1;
}

/* Each place has had a block. Then comes a filter, which allows all calls, and the free of a block
   from before. */
static void filtered(void) {
    for (int i = 0; i < 200; i++)
        free(hidden(malloc(100)));
    unsigned char *p = hidden(malloc(100));
    struct sock_filter all[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    struct sock_fprog program = {1, all};
    MUST(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
    MUST(!prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program));
    free(p);
    hidden(p)[5] = 1;
}

static void own_handler(int signal, siginfo_t *info, void *context) {
    MUST(signal == SIGSEGV && info->si_addr && context);
    _exit(77);
}

/* The program has a handler, and switches the guards on later. */
static void handler(void) {
    struct sigaction action = {.sa_sigaction = own_handler, .sa_flags = SA_SIGINFO};
    MUST(!sigaction(SIGSEGV, &action, NULL));
    int (*set)(const char *, const char *) = (int (*)(const char *, const char *))dlsym(RTLD_DEFAULT, "hakmem_set_option");
    MUST(set && set("GUARD_SAMPLE", "1") == 0);
    for (int i = 0; i < 1000; i++)
        free(hidden(malloc(100))); /* what is on lists was not sampled */
    use_after_free();
}

static void goes_on(void) {
    for (int i = 0; i < 3; i++)
        use_after_free();
    unsigned char *p = hidden(malloc(64));
    hidden(p)[-1] = 1;
    hidden(p)[64] = 1;
    free(p);
    free(hidden(p) + 16);
    /* A block that the program wrote beyond is the program's until it frees it. At one end of a
       room such a write faults. */
    for (int i = 0; i < 20; i++) {
        p = hidden(malloc(64));
        filled(p, 64, i);
        hidden(p)[-1] = 1;
        hidden(p)[64] = 1;
        MUST(malloc_usable_size(p) == 64);
        p = hidden(realloc(p, 200));
        same(p, 64, i);
        free(p);
    }
    all_sizes(NULL);
    puts("went on");
}

static void null_pointer(void) { *(volatile char *)hidden(NULL) = 1; }
static void sent(void) {
    free(hidden(malloc(10)));
    kill(getpid(), SIGSEGV);
    pause();
}


/* Signals that were sent have the effect that the program chose before. */
static void ignored(void) {
    MUST(signal(SIGSEGV, SIG_IGN) != SIG_ERR && signal(SIGBUS, SIG_IGN) != SIG_ERR);
    free(hidden(malloc(10)));
    for (int i = 0; i < 2; i++)
        MUST(!kill(getpid(), SIGSEGV) && !raise(SIGBUS));
    puts("ignored");
}

static sigjmp_buf before_fault;
static void jumps(int signal) {
    MUST(signal == SIGSEGV);
    siglongjmp(before_fault, 1);
}

/* A handler that leaves by a jump, and has the signal not blocked for that. */
static void jumped(void) {
    struct sigaction action = {.sa_handler = jumps, .sa_flags = SA_NODEFER};
    MUST(!sigaction(SIGSEGV, &action, NULL));
    free(hidden(malloc(10)));
    for (volatile int i = 0; i < 3; i++)
        if (!sigsetjmp(before_fault, 0))
            null_pointer();
    puts("jumped");
}

/* Memory for an alternate stack, with memory without access on both sides. */
enum { SHORT = 8192 };
static stack_t stack_for_handlers(size_t bytes) {
    enum { APART = 1 << 20 };
    char *p = mmap(NULL, APART + bytes + APART, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    MUST(p != MAP_FAILED && !mprotect(p + APART, bytes, PROT_READ | PROT_WRITE));
    stack_t stack = {.ss_sp = p + APART, .ss_size = bytes};
    MUST(!sigaltstack(&stack, NULL));
    return stack;
}

/* An error where the handler of the fault has a stack as short as that of Rust's threads. */
static void short_stack(void) {
    stack_for_handlers(SHORT);
    use_after_free();
}

static void called_once(int signal) { MUST(signal == SIGSEGV && write(1, "called\n", 7) == 7); }

/* A handler that the system takes away when it calls it, as those have that end by the fault. */
static void once(void) {
    struct sigaction action = {.sa_handler = called_once, .sa_flags = SA_RESETHAND};
    MUST(!sigaction(SIGSEGV, &action, NULL));
    free(hidden(malloc(10)));
    null_pointer();
}

static stack_t other_stack;
static void where(int signal) {
    char *here = (char *)&signal;
    MUST(here < (char *)other_stack.ss_sp || here >= (char *)other_stack.ss_sp + other_stack.ss_size);
    _exit(77);
}

/* A handler that did not ask for the alternate stack, which may be too short for it. */
static void same_stack(void) {
    struct sigaction action = {.sa_handler = where};
    other_stack = stack_for_handlers(1 << 20);
    MUST(!sigaction(SIGSEGV, &action, NULL));
    free(hidden(malloc(10)));
    null_pointer();
}

int main(int count, char **arguments) {
    MUST(count == 2);
    static const struct {
        const char *name;
        void (*run)(void);
    } parts[] = {{"correct", correct}, {"use_after_free", use_after_free}, {"filtered", filtered}, {"handler", handler}, {"goes_on", goes_on}, {"null_pointer", null_pointer}, {"sent", sent}, {"ignored", ignored}, {"jumped", jumped}, {"short_stack", short_stack}, {"once", once}, {"same_stack", same_stack}};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (!strcmp(parts[i].name, arguments[1]))
            parts[i].run();
    return 0;
}
