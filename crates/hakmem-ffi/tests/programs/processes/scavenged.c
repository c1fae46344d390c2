/* scavenged SCENARIO COUNT: processes made while memory is being given back. Run with HAKMEM_SCAVENGER=1 and
 * HAKMEM_DECAY_MS=20, so that the scavenger comes and goes all the time; "idle" with neither. */
#include "../resident.h"
#include "torture.h"
#include <dirent.h>
#include <sched.h>

enum { FORKS, MADE, SEEN, HANDLED };
static const char *const names[] = {"forks", "allocations", "scavengers_seen", "handled", NULL};

static volatile sig_atomic_t enough;

/* Enough at a time for the scavenger to be made: it ends when this is given back. */
static void make_work(void) {
    void *p[8];
    for (int i = 0; i < 8; i++) {
        CHECK((p[i] = malloc(900 << 10)));
        memset(p[i], 1, 900 << 10);
    }
    char *huge = (char *)malloc(6 << 20);
    CHECK(huge);
    memset(huge, 2, 6 << 20);
    for (int i = 0; i < 8; i++)
        free(p[i]);
    free(huge);
    count(MADE);
}

static void *make_work_until_enough(void *unused) {
    (void)unused;
    for (int i = 0; !enough; i++) {
        make_work();
        usleep(i % 7 * 9000); /* Not to wait for anything: so that it ends now and then. */
    }
    return NULL;
}

static int threads_of_the_process(void) {
    int n = 0;
    DIR *d = opendir("/proc/self/task");
    CHECK(d);
    for (struct dirent *e; (e = readdir(d));)
        n += e->d_name[0] != '.';
    closedir(d);
    return n;
}

static void child_life(long i) {
    make_work();
    make_work();
    /* This thread, and the scavenger that the child made for itself. */
    if (threads_of_the_process() > 1)
        count(SEEN);
    if (i % 4 == 0) {
        pid_t again = fork();
        if (again == 0) {
            make_work();
            _exit(0);
        }
        child_succeeds(again);
    }
}

/* What is free at a fork goes back, although the program sleeps from then on: the scavenger ends at the fork. What the
 * fork handlers below free afterwards stays. */
static void idle(long n) {
    enum { BLOCKS = 60000, SIZE = 1000, MOST_KIB = 32 << 10 };
    static void *blocks[BLOCKS];
    for (int i = 0; i < BLOCKS; i++) {
        CHECK((blocks[i] = malloc(SIZE)));
        memset(blocks[i], 1, SIZE);
    }
    CHECK(resident_kib() > BLOCKS);
    for (int i = 0; i < BLOCKS; i++)
        free(blocks[i]);
    for (long i = 0; i < n; i++) {
        pid_t child = fork();
        if (child == 0)
            _exit(0);
        child_succeeds(child);
        CHECK(resident_kib() < MOST_KIB);
        count(FORKS);
    }
    say_counts(names);
}

static void forks(long n) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, make_work_until_enough, NULL) == 0);
    for (long i = 0; i < n; i++) {
        make_work();
        pid_t child = fork();
        if (child == 0) {
            child_life(i);
            if (i % 2)
                exit(0);
            _exit(0);
        }
        child_succeeds(child);
        count(FORKS);
    }
    enough = 1;
    CHECK(pthread_join(thread, NULL) == 0);
    say_counts(names);
}

/* A child of vfork frees so much that a scavenger is wanted; it is then replaced. The parent goes on, and forks. */
static void vforks(long n) {
    for (long i = 0; i < n; i++) {
        pid_t child = vfork();
        if (child == 0) {
            make_work();
            if (i % 2)
                _exit(0);
            execl("/bin/true", "true", NULL);
            _exit(1);
        }
        child_succeeds(child);
        pid_t forked = fork();
        if (forked == 0) {
            make_work();
            _exit(0);
        }
        child_succeeds(forked);
        make_work();
        count(FORKS);
    }
    say_counts(names);
}

/* The program drops what rights it has while the scavenger is there, and starts a process. */
static void drop_rights(long n) {
    for (long i = 0; i < n; i++) {
        pid_t child = fork();
        if (child == 0) {
            make_work();
            if (getuid() == 0) {
                CHECK(setgid(65534) == 0);
                CHECK(setuid(65534) == 0);
                CHECK(setuid(0) != 0);
            }
            make_work();
            child_life(0);
            exit(0);
        }
        child_succeeds(child);
        count(FORKS);
    }
    say_counts(names);
}

/* --- fork handlers of the program's, older than the allocator's ---------------------------------------------------- */

static void allocate_in_fork(void) {
    for (int i = 0; i < 20; i++)
        make_work();
    count(HANDLED);
}

/* Before the first allocation, where nothing is preloaded: these handlers then run inside the allocator's. */
__attribute__((constructor)) static void before_anything(void) {
    counters = (struct counters *)shared_memory(sizeof *counters);
    CHECK(pthread_atfork(allocate_in_fork, allocate_in_fork, allocate_in_fork) == 0);
}

int main(int argc, char **argv) {
    static const struct scenario all[] = {
        {"forks", forks},
        {"idle", idle},
        {"vforks", vforks},
        {"drop_rights", drop_rights},
        {NULL, NULL},
    };
    return run_scenario(all, argc, argv);
}
