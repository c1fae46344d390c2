/* Errors, and what is none, at places where a report or a check may fail itself. */
#define _GNU_SOURCE
#include "must.h"

#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static void *freed;

static void free_again(int number) {
    (void)number;
    free(freed);
}

/* A handler on a stack of about 8 KiB frees a block that is free. */
static int small_stack(void) {
    size_t size = 6144 + getauxval(AT_MINSIGSTKSZ), room = 1 << 16;
    int flags = MAP_PRIVATE | MAP_ANONYMOUS;
    unsigned char *guarded = mmap(NULL, 2 * room, PROT_NONE, flags, -1, 0);
    MUST(guarded != MAP_FAILED && mprotect(guarded + room, room, PROT_READ | PROT_WRITE) == 0);
    stack_t stack = {.ss_sp = guarded + room, .ss_size = size};
    struct sigaction action = {.sa_handler = free_again, .sa_flags = SA_ONSTACK};
    MUST(sigaltstack(&stack, NULL) == 0 && sigaction(SIGUSR1, &action, NULL) == 0);
    freed = hidden(malloc(40));
    free(freed);
    raise(SIGUSR1);
    return 3;
}

/* A child that does not have all pages of a live block ends as another one. */
static int left_out(void) {
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    static const size_t sizes[] = {4000, 20000, 100000, 3000000};
    for (int i = 0; i < 4; i++) {
        unsigned char *p = hidden(malloc(sizes[i]));
        uintptr_t from = (uintptr_t)p & -page, to = ((uintptr_t)p + sizes[i] + page - 1) & -page;
        memset(p, 1, sizes[i]);
        unsigned char *small = hidden(malloc(i == 0 ? 3000 : 40));
        MUST(madvise((void *)from, to - from, MADV_DONTFORK) == 0);
        free(small);
    }
    pid_t child = fork();
    if (child == 0) exit(3);
    int status;
    MUST(waitpid(child, &status, 0) == child && WIFEXITED(status));
    return WEXITSTATUS(status);
}

/* A bit of the first word of a block in the middle of a list is changed. */
static int changed_link(size_t size) {
    unsigned char *blocks[6];
    for (int i = 0; i < 6; i++) blocks[i] = hidden(malloc(size));
    uintptr_t *word = (uintptr_t *)hidden(blocks[2]);
    for (int i = 0; i < 6; i++) free(blocks[i]);
    *word ^= 0x20;
    for (int i = 0; i < 12; i++) hidden(malloc(size));
    return 3;
}

/* Frees a pointer into a block. */
static int inside(size_t size, size_t offset) {
    free(hidden((char *)malloc(size) + offset));
    return 3;
}

/* Frees a pointer in front of the lowest block. */
static int in_front(void) {
    char *lowest = hidden(malloc(1 << 20));
    for (int i = 0; i < 100; i++) {
        char *p = hidden(malloc(1 << (4 + i % 10)));
        if (p < lowest) lowest = p;
    }
    free((char *)((uintptr_t)lowest & -(uintptr_t)(2 << 20)) - 16);
    return 3;
}

/* What the system refuses to a program that maps it, malloc, calloc and realloc refuse, too. */
static int too_large(void) {
    struct rlimit limit;
    int mode = -1;
    FILE *file = fopen("/proc/sys/vm/overcommit_memory", "r");
    MUST(file != NULL && fscanf(file, "%d", &mode) == 1 && fclose(file) == 0);
    MUST(getrlimit(RLIMIT_AS, &limit) == 0);
    if (mode != 0 || limit.rlim_cur != RLIM_INFINITY) return 3;
    for (size_t size = (size_t)1 << 33; size <= (size_t)1 << 43; size *= 2) {
        void *map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        MUST(map == MAP_FAILED || munmap(map, size) == 0);
        for (int i = 0; i < 3; i++) {
            errno = 0;
            void *small = i < 2 ? NULL : hidden(malloc(100));
            void *p = hidden(i == 0 ? malloc(size) : i == 1 ? calloc(1, size) : realloc(small, size));
            MUST((p == NULL) == (map == MAP_FAILED));
            MUST(p != NULL || errno == ENOMEM);
            free(p == NULL ? small : p);
        }
    }
    return 3;
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    if (strcmp(what, "small_stack") == 0) return small_stack();
    if (strcmp(what, "left_out") == 0) return left_out();
    if (strcmp(what, "inside") == 0 && argc > 3) {
        return inside(strtoul(argv[2], NULL, 10), strtoul(argv[3], NULL, 10));
    }
    if (strcmp(what, "in_front") == 0) return in_front();
    if (strcmp(what, "into_page") == 0) return inside(100, 16);
    if (strcmp(what, "too_large") == 0) return too_large();
    if (strcmp(what, "link") == 0 && argc > 2) return changed_link(strtoul(argv[2], NULL, 10));
    return 9;
}
