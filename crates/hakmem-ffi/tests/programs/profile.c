// The heap profile by hakmem.h and by the environment: argv[1] says what to do, argv[2] is a file.
#include "../../include/hakmem.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define check(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "line %d: %s\n", __LINE__, #condition);                                                    \
            _exit(9);                                                                                                  \
        }                                                                                                              \
    } while (0)

static void *volatile kept[100];

static void dump(const char *file) {
    int fd = open(file, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    check(hakmem_profile_dump(fd) == 0);
    close(fd);
}

// 50 blocks of 1000 bytes are live, 50 were.
static void allocate(void) {
    for (int i = 0; i < 100; i++) kept[i] = malloc(1000);
    for (int i = 0; i < 100; i += 2) free(kept[i]);
}

static void by_functions(const char *file) {
    check(hakmem_profile_dump(1) == -1); // None was started.
    check(hakmem_profile_start((size_t)1 << 60) == -1);
    check(hakmem_profile_start(2) == 0);
    // 0 stands for the option.
    check(hakmem_set_option("PROFILE_INTERVAL", "1") == 0);
    check(hakmem_profile_start(0) == 0);
    allocate();
    hakmem_profile_stop();
    kept[0] = malloc(3000);
    dump(file);
    check(hakmem_profile_dump(-1) == -1);
}

// The child has what was live, and counts from there.
static void forked(void) {
    allocate();
    pid_t child = fork();
    if (child == 0) {
        for (int i = 1; i < 21; i += 2) free(kept[i]);
        for (int i = 0; i < 5; i++) kept[i * 2] = malloc(2000);
        exit(0);
    }
    int status;
    waitpid(child, &status, 0);
    check(status == 0);
}

// Of 100 blocks of a heap, and of 100 of its scope, half are live. The others were freed, as were those
// of a heap that was reset and one that was deleted.
static void in_heaps(void) {
    struct hakmem_heap *parser = hakmem_heap_new("parser", 0), *gone = hakmem_heap_new(NULL, 1 << 20);
    void *own[100];
    for (int i = 0; i < 100; i++) own[i] = hakmem_heap_malloc(parser, 1000);
    for (int i = 0; i < 100; i += 2) hakmem_heap_free(parser, own[i]);
    check(hakmem_heap_enter(parser) == 0);
    for (int i = 0; i < 100; i++) kept[i] = malloc(2000);
    check(hakmem_heap_leave(parser) == 0);
    for (int i = 0; i < 100; i += 2) free(kept[i]);
    for (int i = 0; i < 10; i++) check(hakmem_heap_malloc(gone, 5000));
    hakmem_heap_reset(gone);
    for (int i = 0; i < 5; i++) check(hakmem_heap_malloc(gone, 100000));
    check(hakmem_heap_delete(gone) == 0);
}

static volatile int stop;
static struct hakmem_heap *shared;

// Half of the blocks come from the heap `shared`, those of odd slots by a scope.
static void *churns_in_heap(void *seed) {
    void *blocks[500] = {0};
    unsigned long random = (unsigned long)seed;
    while (!stop) {
        random = random * 6364136223846793005UL + 1442695040888963407UL;
        unsigned long slot = (random >> 33) % 500, size = (random >> 40) % 2000;
        free(blocks[slot]);
        if (slot % 2) check(hakmem_heap_enter(shared) == 0);
        blocks[slot] = slot % 4 ? malloc(size) : hakmem_heap_malloc(shared, size);
        if (slot % 2) check(hakmem_heap_leave(shared) == 0);
    }
    for (int i = 0; i < 500; i++) free(blocks[i]);
    return NULL;
}

static void *churns(void *seed) {
    void *blocks[500] = {0};
    unsigned long random = (unsigned long)seed;
    while (!stop) {
        random = random * 6364136223846793005UL + 1442695040888963407UL;
        void **slot = &blocks[(random >> 33) % 500];
        free(*slot);
        *slot = malloc((random >> 40) % 2000);
    }
    for (int i = 0; i < 500; i++) free(blocks[i]);
    return NULL;
}

// Forks and dumps while threads allocate, sample and free.
static void beside_threads(const char *file) {
    pthread_t threads[3];
    shared = hakmem_heap_new("shared", 0);
    for (long i = 0; i < 3; i++) pthread_create(&threads[i], NULL, i ? churns_in_heap : churns, (void *)(i + 1));
    for (int i = 0; i < 100; i++) {
        pid_t child = fork();
        if (child == 0) {
            void *p[200];
            for (int j = 0; j < 200; j++) p[j] = malloc(1000);
            for (int j = 0; j < 200; j++) free(p[j]);
            _exit(hakmem_profile_dump(open("/dev/null", O_WRONLY)) ? 1 : 0);
        }
        int status;
        check(waitpid(child, &status, 0) == child && status == 0);
        dump(file);
    }
    stop = 1;
    for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
    dump(file);
}

// On a stack of its own, of the least size that anybody uses.
static void handles(int signal) {
    (void)signal;
    free(kept[0]);
    kept[0] = malloc(40000);
}
static void on_another_stack(void) {
    static char stack[16 << 10];
    stack_t other = {.ss_sp = stack, .ss_size = sizeof stack};
    check(sigaltstack(&other, NULL) == 0);
    struct sigaction action = {.sa_handler = handles, .sa_flags = SA_ONSTACK};
    sigaction(SIGUSR1, &action, NULL);
    for (int i = 0; i < 1000; i++) raise(SIGUSR1);
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "", *file = argc > 2 ? argv[2] : "";
    if (!strcmp(what, "by_functions")) by_functions(file);
    else if (!strcmp(what, "forked")) forked();
    else if (!strcmp(what, "in_heaps")) in_heaps();
    else if (!strcmp(what, "beside_threads")) beside_threads(file);
    else if (!strcmp(what, "on_another_stack")) on_another_stack();
    else if (!strcmp(what, "twice")) {
        char *volatile p = malloc(1000), *volatile other = malloc(1000);
        printf("%p\n", p);
        fflush(stdout);
        free(p);
        free(p);
        free(other);
    } else if (!strcmp(what, "inner")) {
        char *volatile p = malloc(1000);
        p += 16;
        printf("%p\n", p);
        fflush(stdout);
        free(p);
    } else allocate();
    puts("done");
    return 0;
}
