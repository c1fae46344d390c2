/* What PROG stands for in the book: one thread allocates, another one frees most of it. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCKS = 200000 };
static void *blocks[BLOCKS];

static void *frees(void *unused) {
    (void)unused;
    for (int i = 0; i < BLOCKS; i++)
        if (i % 20 != 0)
            free(blocks[i]);
    return NULL;
}

int main(void) {
    for (int i = 0; i < BLOCKS; i++) {
        size_t size = 16 + i % 400;
        blocks[i] = malloc(size);
        memset(blocks[i], 1, size);
    }
    pthread_t thread;
    pthread_create(&thread, NULL, frees, NULL);
    pthread_join(thread, NULL);
    char *huge = malloc(8 << 20);
    memset(huge, 1, 8 << 20);
    free(huge);
    return 0;
}
