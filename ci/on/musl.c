// Allocates from several threads, for ci/musl. Fails if a block is damaged or not aligned.
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { BLOCKS = 500, STEPS = 200000 };

static void *work(void *seed)
{
    uint32_t random = (uint32_t)(uintptr_t)seed;
    unsigned char *blocks[BLOCKS] = {0};
    for (int step = 0; step < STEPS; step++) {
        random = random * 1664525 + 1013904223;
        uint32_t at = (random >> 4) % BLOCKS;
        if (blocks[at] && blocks[at][0] != at % 256) abort();
        blocks[at] = realloc(blocks[at], 1 + (random >> 16) % 3000);
        blocks[at][0] = at % 256;
    }
    for (int at = 0; at < BLOCKS; at++) free(blocks[at]);
    return NULL;
}

int main(void)
{
    pthread_t threads[4];
    for (uintptr_t i = 0; i < 4; i++)
        if (pthread_create(&threads[i], NULL, work, (void *)(i + 1))) return 2;
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    void *aligned = NULL;
    if (posix_memalign(&aligned, 4096, 100) || (uintptr_t)aligned % 4096) return 3;
    free(aligned);
    puts("done");
    return 0;
}
