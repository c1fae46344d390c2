/* Allocates 1000 blocks of 3000 bytes, frees 30 of them, and writes a map to standard output. */
#include "../../include/hakmem.h"
#include <stdlib.h>
#include <unistd.h>

int main(void) {
    static void *blocks[1000];
    for (int i = 0; i < 1000; i++)
        blocks[i] = malloc(3000);
    for (int i = 100; i < 130; i++)
        free(blocks[i]);
    return hakmem_map(1) == 0 && hakmem_map(-1) == -1 ? 0 : 1;
}
