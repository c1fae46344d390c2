/* Changes of rights, namespaces and sandboxes, one kind per run: rights NAME. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <pwd.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "resident.h"

int capset(void *, const void *);

#define CHECK(what) \
    do { \
        if (!(what)) { \
            dprintf(2, "line %d: %s: %s\n", __LINE__, #what, strerror(errno)); \
            _exit(1); \
        } \
    } while (0)

/* One call: its result and errno, by a number that is the same wherever it is made. */
#define SAY(call) \
    do { \
        errno = 77; \
        long result = (call); \
        dprintf(1, "%s = %ld, errno %d\n", #call, result, errno); \
    } while (0)

static struct sock_filter nothing[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
static struct sock_fprog program = {1, nothing};

/* Each function and each number, with what is done and what is refused. As root it ends without rights. */
static void each(void) {
    gid_t groups[] = {1, 2};
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct none[2] = {};
    int sandbox[] = {1, 2, 3};
    SAY(prctl(PR_SET_NAME, "another"));
    SAY(prctl(-1, 2, 3, 4, 5));
    SAY(prctl(64 + PR_SET_KEEPCAPS, 1, 0, 0, 0));
    SAY(prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0));
    SAY(prctl(PR_SET_KEEPCAPS, 9, 0, 0, 0));
    SAY(prctl(PR_GET_KEEPCAPS, 0, 0, 0, 0));
    SAY(prctl(PR_CAPBSET_DROP, 1000, 0, 0, 0));
    SAY(prctl(PR_SET_SECUREBITS, -1, 0, 0, 0));
    SAY(prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0));
    SAY(prctl(PR_CAP_AMBIENT, 99, 0, 0, 0));
    SAY(chroot("/nowhere/at/all"));
    SAY(chroot("/"));
    SAY(unshare(0));
    SAY(unshare(0x1));
    SAY(setns(-1, 0));
    SAY(syscall(SYS_getppid) == getppid());
    SAY(syscall(SYS_getpid) == getpid());
    SAY(syscall(100000, 1, 2, 3, 4, 5, 6));
    SAY(syscall(-1));
    /* All six arguments. */
    SAY(syscall(SYS_mmap, NULL, 4096, 0, 0x22, -1, 0) > 0);
    SAY(syscall(SYS_mmap, NULL, 4096, 0, 0x22, -1, 1));
    SAY(syscall(SYS_prctl, PR_SET_KEEPCAPS, 9, 0, 0, 0));
    SAY(syscall(SYS_prctl, PR_GET_KEEPCAPS, 0, 0, 0, 0));
    SAY(syscall(SYS_prctl, 64 + PR_SET_KEEPCAPS, 0, 0, 0, 0));
    SAY(syscall(SYS_unshare, 1));
    SAY(syscall(SYS_setns, -1, 0));
    SAY(syscall(SYS_chroot, "/nowhere"));
    SAY(syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &sandbox[2]));
    SAY(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, NULL));
    SAY(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 1 << 30, &program));
    SAY(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, NULL));
    SAY(prctl(PR_SET_SECCOMP, 99, NULL));
    SAY(setgroups(2, groups));
    SAY(setgroups(1 << 20, groups));
    SAY(setgroups(0, NULL));
    SAY(getgroups(0, NULL));
    SAY(initgroups("root", 5));
    SAY(getgroups(0, NULL));
    SAY(syscall(SYS_setgroups, 2, groups));
    SAY(setegid(3));
    SAY(setegid(-1));
    SAY(seteuid(4));
    SAY(getegid() * 1000 + geteuid());
    SAY(setgid(9));
    SAY(seteuid(0));
    SAY(setfsgid(6));
    SAY(setfsgid(-1));
    SAY(setfsuid(7));
    SAY(setfsuid(-1));
    SAY(setregid(10, 11));
    SAY(setresgid(12, 13, 14));
    SAY(setgid(15));
    SAY(getgid() * 1000 + getegid());
    SAY(syscall(SYS_setresuid, -1, -1, -1));
    SAY(syscall(SYS_setfsuid, 0));
    SAY(setreuid(16, 0));
    SAY(setresuid(17, 18, 0));
    SAY(setuid(19));
    SAY(getuid() * 1000 + geteuid());
    SAY(seteuid(0));
    SAY(syscall(SYS_capset, &header, none));
    SAY(capset(&header, none));
    SAY(capset(NULL, none));
    SAY(setuid(20));
    SAY(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
    SAY(prctl(PR_SET_NO_NEW_PRIVS, 7, 0, 0, 0));
    SAY(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0));
    SAY(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program));
    SAY(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program));
    SAY(prctl(PR_GET_SECCOMP, 0, 0, 0, 0));
    free(malloc(100));
}

static void ended_well(pid_t child) {
    int status;
    CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
}

static void in_a_child_of_vfork(void) {
    pid_t child = vfork();
    if (child == 0) {
        each();
        _exit(0);
    }
    ended_well(child);
    /* It is its parent's memory, but the parent has all rights, and no filter. */
    SAY(prctl(PR_GET_SECCOMP, 0, 0, 0, 0));
    SAY(setuid(0));
}

static void handler(int signal) {
    dprintf(1, "signal %d\n", signal);
    each();
}

static void in_a_handler(void) {
    struct sigaction action = {.sa_handler = handler};
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
    raise(SIGUSR1);
}

/* All threads follow, as POSIX has it. */
static volatile int go;

static void *wait_for_it(void *what) {
    while (!go)
        usleep(1000);
    int *ids = what;
    ids[0] = syscall(SYS_getuid), ids[1] = syscall(SYS_getegid), ids[2] = getgroups(0, NULL);
    return NULL;
}

static void all_threads(void) {
    pthread_t threads[4];
    int ids[4][3];
    gid_t groups[] = {1, 2, 3};
    for (int i = 0; i < 4; i++)
        CHECK(pthread_create(&threads[i], NULL, wait_for_it, ids[i]) == 0);
    CHECK(setgroups(3, groups) == 0 && setegid(40) == 0 && setuid(41) == 0);
    go = 1;
    for (int i = 0; i < 4; i++) {
        CHECK(pthread_join(threads[i], NULL) == 0);
        dprintf(1, "%d %d %d\n", ids[i][0], ids[i][1], ids[i][2]);
    }
}

/* A thread writes a report that nobody reads, in the handler of SIGUSR2. All threads change their group all the same. */
static pid_t reporter;

static void *report(void *unused) {
    __atomic_store_n(&reporter, syscall(SYS_gettid), __ATOMIC_RELEASE);
    CHECK(pthread_kill(pthread_self(), SIGUSR2) == 0);
    return unused;
}

static void beside_a_report(void) {
    pthread_t thread;
    pid_t who;
    CHECK(pthread_create(&thread, NULL, report, NULL) == 0);
    while ((who = __atomic_load_n(&reporter, __ATOMIC_ACQUIRE)) == 0)
        sched_yield();
    /* Until it is in a call for a descriptor of the pipe: its number, and then its arguments. */
    char path[64];
    struct stat pipe, other = {0};
    CHECK(fstat(STDERR_FILENO, &pipe) == 0);
    snprintf(path, sizeof path, "/proc/self/task/%d/syscall", (int)who);
    while (other.st_ino != pipe.st_ino) {
        FILE *file = fopen(path, "r");
        unsigned fd;
        CHECK(file);
        if (fscanf(file, "%*d 0x%x", &fd) == 1)
            fstat((int)fd, &other);
        fclose(file);
    }
    SAY(setgid(getgid()));
    _exit(0);
}

/* The C library's own functions of these files, beside ours. */
static void neighbours(void) {
    gid_t groups[100];
    int count = 100;
    SAY(getgrouplist("root", 0, groups, &count) > 0);
    SAY(getpwuid(0) != NULL);
}

/* Enough to be worth a thread of the allocator's. */
static void free_much(void) {
    enum { N = 64 };
    void *p[N];
    for (int i = 0; i < N; i++)
        memset(p[i] = malloc(1 << 20), 1, 1 << 20);
    for (int i = 0; i < N; i++)
        free(p[i]);
}

/* How many threads there are; each line of their status that begins so goes to `line`, which must be the same for all. */
static int threads(const char *begin, char *line, size_t room) {
    int count = 0;
    DIR *d = opendir("/proc/self/task");
    struct dirent *entry;
    CHECK(d);
    line[0] = 0;
    while ((entry = readdir(d))) {
        char name[300], now[300];
        snprintf(name, sizeof name, "/proc/self/task/%s/status", entry->d_name);
        FILE *f = fopen(name, "r");
        if (entry->d_name[0] == '.' || !f)
            continue; /* It ended meanwhile. */
        count++;
        while (fgets(now, sizeof now, f))
            if (strncmp(now, begin, strlen(begin)) == 0) {
                if (line[0] && strcmp(line, now) != 0) {
                    dprintf(2, "not the same: %s%s", line, now);
                    _exit(1);
                }
                snprintf(line, room, "%s", now);
            }
        fclose(f);
    }
    closedir(d);
    return count;
}

static void user_changes(void) {
    char line[300];
    free_much();
    CHECK(setuid(65534) == 0);
    for (int i = 0; i < 10; i++) {
        threads("Uid:", line, sizeof line);
        CHECK(strcmp(line, "Uid:\t65534\t65534\t65534\t65534\n") == 0);
        free_much();
    }
}

/* What is freed goes back, although no other thread does it. */
static void gives_back_by_itself(void) {
    for (int round = 0; round < 3; round++) {
        enum { N = 60000 };
        static void *p[N];
        for (int i = 0; i < N; i++)
            memset(p[i] = malloc(1000 + i % 1000), 1, 1000);
        CHECK(resident_kib() > 80 << 10);
        for (int i = 0; i < N; i++)
            free(p[i]);
        CHECK(resident_kib() < 40 << 10);
        leave_idle();
        CHECK(resident_kib() < 40 << 10);
    }
}

/* A user who may have no further thread. */
static void no_thread_is_left(void) {
    struct rlimit one = {1, 1};
    CHECK(setrlimit(RLIMIT_NPROC, &one) == 0 && setuid(65534) == 0);
    gives_back_by_itself();
}

static void filtered_and_idle(void) {
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
    gives_back_by_itself();
}

static void groups_change(void) {
    char line[300];
    gid_t groups[] = {7};
    free_much();
    CHECK(setgroups(1, groups) == 0 && setresgid(8, 8, 8) == 0);
    free_much();
    threads("Gid:", line, sizeof line);
    CHECK(strcmp(line, "Gid:\t8\t8\t8\t8\n") == 0);
    threads("Groups:", line, sizeof line);
    CHECK(strcmp(line, "Groups:\t7 \n") == 0);
}

static void capabilities_are_equal(void) {
    char line[300];
    for (int i = 0; i < 5; i++) {
        free_much();
        CHECK(threads("CapPrm:", line, sizeof line) > 0 && line[0]);
        threads("CapEff:", line, sizeof line);
        threads("CapBnd:", line, sizeof line);
    }
}

/* What the kernel refuses to a process with a second thread. */
static void namespaces_change(void) {
    free_much();
    CHECK(unshare(CLONE_VM | CLONE_SIGHAND | CLONE_THREAD) == 0);
    free_much();
    int mounts = open("/proc/self/ns/mnt", O_RDONLY), times = open("/proc/self/ns/time", O_RDONLY);
    CHECK(mounts >= 0);
    CHECK(setns(mounts, CLONE_NEWNS) == 0);
    free_much();
    if (times >= 0)
        CHECK(setns(times, CLONE_NEWTIME) == 0);
    free_much();
    CHECK(unshare(CLONE_NEWUSER) == 0);
    free_much();
}

static int count_in_stat(void) {
    FILE *f = fopen("/proc/self/stat", "r");
    int count = -1;
    CHECK(f && fscanf(f, "%*d %*s %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %d", &count) == 1);
    fclose(f);
    return count;
}

/* Python counts threads just after a fork, in the parent. */
static void fork_leaves_one_thread(void) {
    for (int i = 0; i < 20; i++) {
        free_much();
        pid_t child = fork();
        if (child == 0)
            _exit(0);
        CHECK(count_in_stat() == 1);
        ended_well(child);
    }
}

/* Gives up what it needs to open its reports by name. */
static void is_confined(void) {
    CHECK(chroot("/usr") == 0 && chdir("/") == 0);
    CHECK(setgroups(0, NULL) == 0 && setgid(65534) == 0 && setuid(65534) == 0);
    free(malloc(100));
}

static void filter_of_another(void) {
    free_much();
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
    CHECK(count_in_stat() == 1);
    free_much();
    CHECK(count_in_stat() == 1);
}

/* A process has the exit status of its last thread. */
static void the_last_thread_has_the_status(void) {
    for (int status = 40; status < 50; status++) {
        pid_t child = fork();
        int how;
        if (child == 0) {
            free_much();
            CHECK(!getenv("LD_PRELOAD") || count_in_stat() == 2);
            syscall(SYS_exit, status);
        }
        CHECK(waitpid(child, &how, 0) == child);
        CHECK(WIFEXITED(how) && WEXITSTATUS(how) == status);
    }
    /* A child of vfork that may make no call but exit, beside its parent's scavenger. */
    free_much();
    pid_t child = vfork();
    int how;
    if (child == 0) {
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT);
        syscall(SYS_exit, 7);
    }
    CHECK(waitpid(child, &how, 0) == child);
    CHECK(WIFEXITED(how) && WEXITSTATUS(how) == 7);
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*run)(void);
    } all[] = {
        {"each", each},
        {"in_a_child_of_vfork", in_a_child_of_vfork},
        {"in_a_handler", in_a_handler},
        {"all_threads", all_threads},
        {"beside_a_report", beside_a_report},
        {"neighbours", neighbours},
        {"user_changes", user_changes},
        {"no_thread_is_left", no_thread_is_left},
        {"groups_change", groups_change},
        {"capabilities_are_equal", capabilities_are_equal},
        {"namespaces_change", namespaces_change},
        {"fork_leaves_one_thread", fork_leaves_one_thread},
        {"the_last_thread_has_the_status", the_last_thread_has_the_status},
        {"filter_of_another", filter_of_another},
        {"filtered_and_idle", filtered_and_idle},
        {"is_confined", is_confined},
    };
    alarm(120);
    for (size_t i = 0; argc == 2 && i < sizeof all / sizeof *all; i++)
        if (strcmp(argv[1], all[i].name) == 0) {
            all[i].run();
            return 0;
        }
    dprintf(2, "usage: rights NAME\n");
    return 2;
}
