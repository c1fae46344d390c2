/* Prints the usable size of a block for 100 bytes. */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>

int main(void) {
    void *p = malloc(100);
    printf("%zu\n", malloc_usable_size(p));
    free(p);
}
