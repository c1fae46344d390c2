/* Lines that hakmem writes on standard error of a program that goes on: lines WHAT [FILE].
 *
 * foreign  frees 1000 pointers of another allocator
 * over     writes behind a block, and frees it
 * none     neither
 *
 * With a FILE the program closes its standard error first, and opens that file. The file gets its
 * number. */
#include "must.h"
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int main(int count, char **arguments) {
    MUST(count == 2 || count == 3);
    if (count == 3) {
        close(2);
        MUST(open(arguments[2], O_RDWR | O_CREAT | O_TRUNC, 0644) == 2 && write(2, "data\n", 5) == 5);
    }
    if (!strcmp(arguments[1], "foreign")) {
        char *p = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        MUST(p != MAP_FAILED);
        for (int i = 0; i < 1000; i++)
            free(hidden(p + 64 + i * 64));
    }
    if (!strcmp(arguments[1], "over")) {
        char *p = malloc(40);
        hidden(p)[40] = 1;
        free(p);
    }
    free(hidden(malloc(100)));
    return write(1, "goes on\n", 8) != 8;
}
