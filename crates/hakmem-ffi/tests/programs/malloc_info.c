/* Writes what malloc_info says of a thousand live blocks. */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>

int main(void) {
    void *volatile p[1000];
    for (int i = 0; i < 1000; i++)
        p[i] = malloc(1024);
    int result = malloc_info(0, stdout);
    for (int i = 0; i < 1000; i++)
        free(p[i]);
    return result;
}
