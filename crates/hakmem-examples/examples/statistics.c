// A C program that reads the statistics of its allocator.
//
// It links to libhakmem.so, whose malloc and free are then the program's. `hakmem.h` declares
// what hakmem has beyond these. With hakmem installed by `install.sh`, build and run it so:
//
//   cc statistics.c $(pkg-config --cflags --libs hakmem) -o statistics
//   ./statistics
//
// It prints the line below for the blocks of 1000 bytes: 1024 bytes are the size of the class
// that they come from. Then it prints that free memory went back to the system.
//
//   blocks of 1024 bytes: 10000 live, then 0
//   trimmed: 1

#include <hakmem.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCKS = 10000, BLOCK_BYTES = 1000, CLASS_BYTES = 1024, MOST_CLASSES = 256 };

// Blocks of the class that are live, or 0 if there is no such class.
static unsigned long live_blocks(void)
{
    struct hakmem_class_stats classes[MOST_CLASSES];
    size_t n = hakmem_class_stats(classes, MOST_CLASSES);
    for (size_t i = 0; i < n && i < MOST_CLASSES; i++)
        if (classes[i].size == CLASS_BYTES)
            return (unsigned long)(classes[i].live_bytes / CLASS_BYTES);
    return 0;
}

int main(void)
{
    static void *blocks[BLOCKS];
    // Free memory goes back when this program says so, and not before.
    if (hakmem_set_option("DECAY_MS", "1h") != 0) {
        perror("hakmem_set_option");
        return EXIT_FAILURE;
    }
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = malloc(BLOCK_BYTES);
        if (blocks[i] == NULL)
            return EXIT_FAILURE;
        memset(blocks[i], 1, BLOCK_BYTES);
    }
    unsigned long before = live_blocks();
    for (int i = 0; i < BLOCKS; i++)
        free(blocks[i]);
    printf("blocks of %d bytes: %lu live, then %lu\n", CLASS_BYTES, before, live_blocks());
    printf("trimmed: %d\n", hakmem_trim());
    return EXIT_SUCCESS;
}
