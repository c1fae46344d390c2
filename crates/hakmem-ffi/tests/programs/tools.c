/* A user's program: right, or with one mistake that tools are to find: `tools ok|after|leak`. */
#define _GNU_SOURCE
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCKS = 50, THREADS = 3 };

static void *make(void *byte) {
    char **blocks = malloc(BLOCKS * sizeof *blocks);
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = malloc(i * 40 + 1);
        memset(blocks[i], *(char *)byte, i * 40 + 1);
    }
    return blocks;
}

/* Frees what other threads allocated. */
static void right(void) {
    pthread_t threads[THREADS];
    char bytes[THREADS] = {1, 2, 3};
    for (int n = 0; n < THREADS; n++) pthread_create(&threads[n], NULL, make, &bytes[n]);
    for (int n = 0; n < THREADS; n++) {
        void *made;
        pthread_join(threads[n], &made);
        char **blocks = made;
        for (int i = 0; i < BLOCKS; i++) free(blocks[i]);
        free(blocks);
    }
}

/* Functions that a tool does not replace, but that may call one that it does. */
static void derived(void) {
    char *volatile blocks[] = {reallocarray(NULL, 10, 10), pvalloc(10)};
    for (int i = 0; i < 2; i++) {
        memset(blocks[i], i, 10);
        free(reallocarray(blocks[i], 20, 10));
    }
}

int main(int argc, char **argv) {
    const char *mistake = argc > 1 ? argv[1] : "ok";
    right();
    derived();
    char *volatile block = malloc(1000);
    memset(block, 7, 1000);
    if (strcmp(mistake, "leak") == 0) {
        block = NULL;
    } else {
        free(block);
        if (strcmp(mistake, "after") == 0) printf("%d\n", *(volatile char *)(block + 20));
    }
    puts("done");
    return 0;
}
