/* Writes to a freed block of a program heap, and takes blocks of it until that is found, under the heap's lock. The handler of
 * SIGABRT waits for a thread that uses the heap. Exit status: 3, the handler ran to its end. */
#define _GNU_SOURCE
#include "must.h"
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

enum { SIZE = 100 };
struct hakmem_heap;
static struct hakmem_heap *heap;
static struct hakmem_heap *(*new_heap)(const char *, size_t);
static void *(*take)(struct hakmem_heap *, size_t);
static void (*give)(struct hakmem_heap *, void *);

static void *uses_it(void *block) {
    give(heap, block);
    take(heap, SIZE);
    return NULL;
}

static void *volatile live;

static void ends(int number) {
    (void)number;
    pthread_t thread;
    MUST(pthread_create(&thread, NULL, uses_it, live) == 0);
    MUST(pthread_join(thread, NULL) == 0);
    _exit(3);
}

int main(void) {
    new_heap = (struct hakmem_heap * (*)(const char *, size_t)) dlsym(RTLD_DEFAULT, "hakmem_heap_new");
    take = (void *(*)(struct hakmem_heap *, size_t))dlsym(RTLD_DEFAULT, "hakmem_heap_malloc");
    give = (void (*)(struct hakmem_heap *, void *))dlsym(RTLD_DEFAULT, "hakmem_heap_free");
    MUST(new_heap && take && give);
    signal(SIGABRT, ends);
    MUST((heap = new_heap("handler", 0)) != NULL);
    void *volatile freed = take(heap, SIZE);
    MUST((live = take(heap, SIZE)) != NULL && freed != NULL);
    give(heap, freed);
    memset(freed, 0x41, 8);
    take(heap, SIZE);
    take(heap, SIZE);
    return 0;
}
