/* Programs under filters for system calls (seccomp), one per run.
 *
 * sandbox privsep             works like a server's child that drops everything, under a filter that kills
 * sandbox young               makes such a filter before its first block
 * sandbox FEATURE             uses one feature of the allocator under a filter of what that needs, which it does not tell of
 * sandbox under FILE PROGRAM  runs a program under a filter of the calls whose numbers FILE has */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <malloc.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define CHECK(what) \
    do { \
        if (!(what)) { \
            fprintf(stderr, "line %d: %s\n", __LINE__, #what); \
            exit(1); \
        } \
    } while (0)

static struct sock_filter code[2000] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))};
static unsigned short length = 1;

static void answer(int call, unsigned action) {
    code[length++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1);
    code[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, action);
}

static void allow(const int *calls) {
    for (int i = 0; calls[i] >= 0; i++)
        answer(calls[i], SECCOMP_RET_ALLOW);
}

/* Past whatever has the C library's name for it. */
static long bare(long number, long a, long b, void *c) {
    long result;
    register long d __asm__("r10") = 0, e __asm__("r8") = 0;
    __asm__ volatile("syscall" : "=a"(result) : "0"(number), "D"(a), "S"(b), "d"(c), "r"(d), "r"(e) : "rcx", "r11", "memory");
    return result;
}

/* What a process needs in any case to end, and to say so. */
static const int ending[] = {SYS_write, SYS_exit_group, SYS_rt_sigreturn, -1};

/* Everything else ends the process. */
static void install(int told) {
    code[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
    struct sock_fprog program = {length, code};
    struct rlimit no_core = {0, 0};
    CHECK(setrlimit(RLIMIT_CORE, &no_core) == 0);
    if (told) {
        CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
        CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
    } else {
        CHECK(bare(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, NULL) == 0);
        CHECK(bare(SYS_prctl, PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
    }
}

enum { MIB = 1 << 20 };

static void free_blocks(size_t size, int count) {
    void **p = malloc(count * sizeof *p);
    for (int i = 0; i < count; i++)
        memset(p[i] = malloc(size), 1, size);
    for (int i = 0; i < count; i++)
        free(p[i]);
    free(p);
}

static void clear(size_t size) {
    char *p = malloc(size);
    p[size / 2] = 1;
    free(p);
    p = calloc(1, size);
    CHECK(p[size / 2] == 0);
    free(p);
}

static void grow(size_t to) {
    char *p = NULL, *beside[8];
    int n = 0;
    for (size_t size = 2 * MIB; size < to; size += size / 2) {
        p = realloc(p, size);
        p[size - 1] = 1;
        beside[n] = malloc(3 * MIB);
        if (++n == 8)
            while (n)
                free(beside[--n]);
    }
    while (n)
        free(beside[--n]);
    free(p);
}

static void work(void) {
    free_blocks(100, 640000);
    free_blocks(300 << 10, 213);
    free_blocks(3 * MIB, 22);
    for (int i = 0; i < 5; i++)
        clear(5 * MIB);
    void *live = malloc(100 * MIB);
    clear(60 * MIB);
    grow(200 * MIB);
    free(live);
}

static void young(void) {
    static const int calls[] = {SYS_brk,     SYS_mmap,         SYS_munmap, SYS_mremap, SYS_madvise,        SYS_futex,
                                SYS_read,    SYS_write,        SYS_close,  SYS_exit,   SYS_exit_group,     SYS_rt_sigprocmask,
                                SYS_getpid,  SYS_rt_sigreturn, SYS_poll,   SYS_gettimeofday, SYS_clock_gettime, SYS_nanosleep,
                                -1};
    static const int refused[] = {SYS_open, SYS_openat, SYS_newfstatat, -1};
    allow(calls);
    for (int i = 0; refused[i] >= 0; i++)
        answer(refused[i], SECCOMP_RET_ERRNO | EACCES);
    /* mprotect, but for code. */
    code[length++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mprotect, 0, 4);
    code[length++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2]));
    code[length++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, 4, 1, 0);
    code[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    code[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
    install(1);
    work();
    CHECK(write(1, "done\n", 5) == 5);
}

static void privsep(void) {
    free_blocks(100, 1000);
    young();
}

/* Its report goes to a pipe that nobody reads. */
static void signalled(void) {
    static const int calls[] = {SYS_mmap,   SYS_munmap,         SYS_mprotect, SYS_madvise, SYS_getpid, SYS_gettid,
                                SYS_tgkill, SYS_rt_sigprocmask, -1};
    free_blocks(100, 1000);
    allow(calls);
    allow(ending);
    install(1);
    for (int i = 0; i < 3; i++)
        CHECK(raise(SIGUSR2) == 0);
    CHECK(write(1, "done\n", 5) == 5);
}

static void first_block(void) {
    static const int calls[] = {SYS_mmap, SYS_mprotect, SYS_sysinfo, SYS_prlimit64, -1};
    allow(calls);
    allow(ending);
    install(0);
    free(malloc(100));
}

static void allocation(void) {
    static const int calls[] = {SYS_mmap,  SYS_munmap, SYS_mprotect, SYS_mremap, SYS_madvise,
                                SYS_openat, SYS_read,   SYS_pread64,  SYS_close,  SYS_futex, -1};
    free(malloc(100));
    allow(calls);
    allow(ending);
    install(0);
    work();
}

static void giving_back(void) {
    static const int calls[] = {SYS_mmap, SYS_munmap, SYS_mprotect, SYS_madvise, SYS_futex, -1};
    static void *p[2010];
    for (int i = 0; i < 2010; i++) {
        size_t size = i < 2000 ? (size_t)i * 50 : 3 * MIB;
        memset(p[i] = malloc(size), 1, size);
    }
    allow(calls);
    allow(ending);
    install(0);
    for (int i = 0; i < 2010; i++)
        free(p[i]);
    CHECK(malloc_trim(0) == 1);
}

/* Waits until a pass was made, by this thread's own sleep. */
static void scavenger(void) {
    free(malloc(100));
    static const int calls[] = {SYS_mmap,   SYS_munmap, SYS_mprotect,        SYS_madvise, SYS_futex,  SYS_clone,
                                SYS_gettid, SYS_exit,   SYS_rt_sigprocmask,  SYS_getpid,  SYS_tgkill,
                                SYS_openat, SYS_read,   SYS_pread64, SYS_close, SYS_clock_nanosleep, SYS_newfstatat, -1};
    allow(calls);
    allow(ending);
    install(0);
    free_blocks(300 << 10, 300);
    for (;;) {
        FILE *f = fopen("/proc/self/statm", "r");
        long size, resident = 0;
        CHECK(f && fscanf(f, "%ld %ld", &size, &resident) == 2);
        fclose(f);
        if (resident * 4096 < 20 * MIB)
            return;
        struct timespec nap = {0, 10000000};
        clock_nanosleep(CLOCK_MONOTONIC, 0, &nap, NULL);
    }
}

/* What HAKMEM_STATS, HAKMEM_MAP and HAKMEM_PROFILE ask for at the end. */
static const int writing[] = {SYS_mmap,          SYS_munmap,         SYS_mprotect, SYS_openat,     SYS_close,
                              SYS_rt_sigpending, SYS_rt_sigprocmask, SYS_getpid,   SYS_rt_sigtimedwait, -1};

static void statistics(void) {
    static const int calls[] = {SYS_read, SYS_pread64, SYS_getrusage, SYS_newfstatat, -1};
    free_blocks(100, 1000);
    allow(writing);
    allow(calls);
    allow(ending);
    install(0);
}

static void map(void) {
    static const int calls[] = {SYS_pread64, SYS_prctl, -1};
    free_blocks(100, 1000);
    allow(writing);
    allow(calls);
    allow(ending);
    install(0);
}

static void profile(void) {
    static const int calls[] = {SYS_read, SYS_madvise, SYS_process_vm_readv, -1};
    free(malloc(100));
    allow(writing);
    allow(calls);
    allow(ending);
    install(0);
    free_blocks(1000, 1000);
}

static int under(const char *file, char **argv) {
    FILE *f = fopen(file, "r");
    int call;
    CHECK(f);
    while (fscanf(f, "%d", &call) == 1)
        answer(call, SECCOMP_RET_ALLOW);
    fclose(f);
    CHECK(length > 100);
    install(0);
    execv(argv[0], argv);
    perror(argv[0]);
    return 2;
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*run)(void);
    } all[] = {
        {"privsep", privsep},         {"young", young},         {"signalled", signalled},     {"first_block", first_block},
        {"allocation", allocation},   {"scavenger", scavenger}, {"giving_back", giving_back},
        {"statistics", statistics},   {"map", map},             {"profile", profile},
    };
    if (argc > 3 && strcmp(argv[1], "under") == 0)
        return under(argv[2], argv + 3);
    for (size_t i = 0; argc == 2 && i < sizeof all / sizeof *all; i++)
        if (strcmp(argv[1], all[i].name) == 0) {
            all[i].run();
            return 0;
        }
    fprintf(stderr, "usage: sandbox NAME\n");
    return 2;
}
