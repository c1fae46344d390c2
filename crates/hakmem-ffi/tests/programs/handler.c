/* Writes to a freed block of 1,000 bytes, and goes on. The handler of SIGABRT waits for a thread that allocates, as one does
 * that writes a report by a library. Exit status: 3, the handler ran to its end. */
#include "must.h"
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SIZE = 1000, BLOCKS = 400 };

static void *allocates(void *none) {
    for (int i = 0; i < BLOCKS; i++) {
        void *volatile p = malloc(SIZE);
        memset(p, 1, SIZE);
        free(p);
    }
    return none;
}

static void ends(int number) {
    (void)number;
    pthread_t thread;
    MUST(pthread_create(&thread, NULL, allocates, NULL) == 0);
    MUST(pthread_join(thread, NULL) == 0);
    _exit(3);
}

int main(void) {
    signal(SIGABRT, ends);
    static char *volatile blocks[BLOCKS];
    for (int i = 0; i < BLOCKS; i++)
        MUST((blocks[i] = malloc(SIZE)) != NULL);
    for (int i = 0; i < BLOCKS / 2; i++)
        free(blocks[i]);
    for (int i = 0; i < BLOCKS / 2; i++)
        memset(blocks[i], 0x41, 8);
    for (int i = 0; i < 100 * BLOCKS; i++)
        MUST(malloc(SIZE) != NULL);
    return 0;
}
