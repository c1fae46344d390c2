/* Signals, jumps, and system calls that are forbidden. */
#include "conformance.h"
#include "every_size.h"
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <setjmp.h>
#include <signal.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>

static void use_every_size(void) {
    use_sizes_below(40 << 20);
    malloc_trim(0);
}

static char small_stack[16 << 10] __attribute__((aligned(16)));
static volatile int handled;

static void on_small_stack(int signal) {
    (void)signal;
    char here;
    CHECK(&here > small_stack && &here < small_stack + sizeof small_stack);
    use_every_size();
    handled++;
}

BEHAVIOUR(handler_on_an_alternate_stack_allocates) {
    stack_t stack = {.ss_sp = small_stack, .ss_size = sizeof small_stack};
    struct sigaction action = {.sa_handler = on_small_stack, .sa_flags = SA_ONSTACK};
    CHECK(sigaltstack(&stack, NULL) == 0 && sigaction(SIGUSR1, &action, NULL) == 0);
    for (int i = 0; i < 20; i++) {
        void *p = malloc(100);
        CHECK(raise(SIGUSR1) == 0); /* Here, where it interrupts nothing of the allocator. */
        free(p);
    }
    CHECK(handled == 20);
}

static sigjmp_buf back;

static void jump(int signal) {
    (void)signal;
    free(malloc(1000));
    siglongjmp(back, 1);
}

static void jump_from_depth(int depth) {
    void *p = malloc(depth * 1000);
    CHECK(p);
    if (depth > 0)
        jump_from_depth(depth - 1);
    else
        raise(SIGUSR1);
    free(p);
}

BEHAVIOUR(longjmp_passes_over_frames_that_allocated) {
    struct sigaction action = {.sa_handler = jump};
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
    for (volatile int i = 0; i < 30; i++) {
        if (sigsetjmp(back, 1) == 0) {
            jump_from_depth(100); /* Its blocks are lost. */
            CHECK(!"came back");
        }
        use_every_size();
    }
}

/* A filter: what `calls` lists is `listed`, everything else `other`. */
static void install(const int *calls, int count, uint32_t listed, uint32_t other) {
    struct sock_filter code[64] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))};
    int n = 1;
    for (int i = 0; i < count; i++) {
        code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, calls[i], 0, 1);
        code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, listed);
    }
    code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, other);
    struct sock_fprog program = {.len = n, .filter = code};
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
}

/* Programs that lock themselves in know what a malloc calls: these, and nothing else. HAKMEM_SCAVENGER=0: its thread
 * would need clone. */
BEHAVIOUR(sandboxed_program_allocates) {
    static const int memory[] = {SYS_mmap,   SYS_munmap,  SYS_mprotect,   SYS_madvise,      SYS_mremap,
                                 SYS_brk,    SYS_futex,   SYS_exit_group, SYS_rt_sigreturn, SYS_write};
    free(malloc(100));
    pid_t child = fork();
    if (child == 0) {
        install(memory, sizeof memory / sizeof *memory, SECCOMP_RET_ALLOW, SECCOMP_RET_KILL_PROCESS);
        for (int i = 0; i < 5; i++)
            use_every_size();
        _exit(0);
    }
    CHECK(ended_well(child));
    /* The filter does kill. */
    struct rlimit no_core = {0, 0};
    CHECK(setrlimit(RLIMIT_CORE, &no_core) == 0);
    child = fork();
    if (child == 0) {
        install(memory, sizeof memory / sizeof *memory, SECCOMP_RET_ALLOW, SECCOMP_RET_KILL_PROCESS);
        syscall(SYS_getpid);
        _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS);
}

static volatile int refused;

static void refuse(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)info;
    refused++;
    ((ucontext_t *)context)->uc_mcontext.gregs[REG_RAX] = -EPERM;
}

/* free gives memory back to the system, which may fail; the program must not see it. */
BEHAVIOUR(free_preserves_errno_when_the_system_refuses) {
    static const int returning[] = {SYS_munmap, SYS_madvise, SYS_mprotect, SYS_brk};
    struct sigaction action = {.sa_sigaction = refuse, .sa_flags = SA_SIGINFO};
    CHECK(sigaction(SIGSYS, &action, NULL) == 0);
    static void *p[2000];
    /* Of zeros: hakmem asks for no huge pages there, and what has them goes back by a fresh map. */
    char *large = calloc(1, 100 << 20);
    memset(large, 1, 100 << 20);
    for (int i = 0; i < 2000; i++)
        memset(p[i] = malloc(i * 20 + 1), 1, i * 20 + 1);
    install(returning, sizeof returning / sizeof *returning, SECCOMP_RET_TRAP, SECCOMP_RET_ALLOW);
    errno = 789;
    free(large);
    for (int i = 0; i < 2000; i++)
        free(p[i]);
    CHECK(errno == 789);
    CHECK(refused > 0);
    /* Memory that could not be given back is still good. */
    for (int i = 0; i < 2000; i++) {
        unsigned char *q = calloc(1, i * 20 + 1);
        CHECK(is_filled(q, i * 20 + 1, 0));
        free(q);
    }
}
