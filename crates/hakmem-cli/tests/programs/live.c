/* Does what its input says, a line at a time, and answers "ready" after each; so others may profile it meanwhile.
   keep N: keeps N blocks. churn: two threads allocate by ever new stacks, from then on. hide: others may not read it.
   filter: filters its system calls. again: executes itself. open PATH: loads a plug-in that carries hakmem, and uses it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

enum { SIZE = 1024, DEEP = 12 };
static void *volatile kept;

__attribute__((noinline)) void keeps(long n) {
    while (n-- > 0) {
        void **block = malloc(SIZE);
        memset(block, 1, SIZE);
        *block = kept;
        kept = block;
    }
    __asm__ volatile("");
}

/* Each bit of the number takes one of two ways: some thousand stacks. */
__attribute__((noinline)) static void *digs(unsigned way, int deep) {
    if (deep == 0)
        return malloc(1024 + way % 4 * 1024);
    void *block;
    if (way & 1)
        block = digs(way >> 1 | way << 31, deep - 1);
    else
        block = digs(way >> 1, deep - 1);
    __asm__ volatile("" : "+r"(block));
    return block;
}

static void *churns(void *seed) {
    unsigned way = (unsigned)(size_t)seed;
    void *blocks[64] = {0};
    for (unsigned i = 0;; i++) {
        free(blocks[i % 64]);
        way = way * 1664525 + 1013904223;
        blocks[i % 64] = digs(way, (int)(way >> 20) % DEEP);
    }
    return NULL;
}

/* One that allows everything. */
static void filters(void) {
    struct sock_filter all = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog program = {1, &all};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

static void opens(char *path) {
    path[strcspn(path, "\n")] = 0;
    void *plug_in = dlopen(path, RTLD_NOW);
    void *(*holds)(unsigned long, unsigned long) = (void *(*)(unsigned long, unsigned long))dlsym(plug_in, "plugin_hold");
    kept = holds ? holds(100, 1) : NULL;
}

int main(int argc, char **argv) {
    char line[4096];
    puts("ready");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        if (!strncmp(line, "keep ", 5))
            keeps(atol(line + 5));
        else if (!strncmp(line, "open ", 5))
            opens(line + 5);
        else if (!strcmp(line, "hide\n"))
            prctl(PR_SET_DUMPABLE, 0);
        else if (!strcmp(line, "filter\n"))
            filters();
        else if (!strcmp(line, "again\n"))
            execv("/proc/self/exe", argv);
        else if (!strcmp(line, "churn\n"))
            for (size_t i = 1; i <= 2; i++) {
                pthread_t thread;
                pthread_create(&thread, NULL, churns, (void *)(i * 77777));
            }
        puts("ready");
        fflush(stdout);
    }
    return argc > 9;
}
