/* Allocates a thousand blocks by malloc; with -DMI, by mimalloc's own function. The library is own.c's. */
#include <stdlib.h>

#ifdef MI
void *mi_malloc(size_t size);
#define malloc mi_malloc
#endif

int main(void) {
    for (int i = 0; i < 1000; i++) {
        volatile char *block = malloc(100);
        if (!block)
            return 1;
        *block = 1;
    }
    return 0;
}
