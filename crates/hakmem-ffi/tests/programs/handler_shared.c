/* One of many threads, which get their first blocks from shared pages, frees a block twice. The handler of SIGABRT waits
 * for a thread that allocates: for a new one, or for one that was there before ("older"). Exit status: 3, the handler ran
 * to its end. */
#include "must.h"
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { THREADS = 80, MOST = 2048, EACH = 8 };

static int older;
static pthread_barrier_t begun, ending, ended;

static void *allocates(void *none) {
    for (size_t size = 16; size <= MOST; size += 16)
        for (int i = 0; i < EACH; i++) {
            void *volatile p = malloc(size);
            memset(p, 1, size);
        }
    return none;
}

static void *waits(void *is_first) {
    void *volatile first = malloc(40);
    free(first);
    pthread_barrier_wait(&begun);
    if (is_first != NULL) {
        pthread_barrier_wait(&ending);
        allocates(NULL);
        pthread_barrier_wait(&ended);
    }
    for (;;)
        pause();
}

static void ends(int number) {
    (void)number;
    pthread_t thread;
    if (older) {
        pthread_barrier_wait(&ending);
        pthread_barrier_wait(&ended);
    } else {
        MUST(pthread_create(&thread, NULL, allocates, NULL) == 0);
        MUST(pthread_join(thread, NULL) == 0);
    }
    _exit(3);
}

static void *frees_twice(void *none) {
    for (int i = 0; i < 400; i++) {
        void *volatile freed = malloc(200);
        void *volatile kept = malloc(200);
        free(freed);
        (void)kept;
    }
    void *volatile block = malloc(304);
    void *volatile kept = malloc(304);
    (void)kept;
    free(block);
    free(block);
    return none;
}

int main(int count, char **arguments) {
    older = count > 1 && strcmp(arguments[1], "older") == 0;
    signal(SIGABRT, ends);
    MUST(pthread_barrier_init(&begun, NULL, THREADS + 1) == 0);
    MUST(pthread_barrier_init(&ending, NULL, 2) == 0);
    MUST(pthread_barrier_init(&ended, NULL, 2) == 0);
    pthread_t thread;
    for (int i = 0; i < THREADS; i++)
        MUST(pthread_create(&thread, NULL, waits, i == 0 ? &older : NULL) == 0);
    pthread_barrier_wait(&begun);
    MUST(pthread_create(&thread, NULL, frees_twice, NULL) == 0);
    MUST(pthread_join(thread, NULL) == 0);
    return 0;
}
