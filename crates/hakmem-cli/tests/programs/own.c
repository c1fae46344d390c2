/* Allocates a thousand blocks by an allocator of its own. With -DPREFIX it is not called malloc. With -DLIBRARY it
   is a library. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#ifdef PREFIX
#define NAME mi_malloc
#else
#define NAME malloc
#endif

static _Alignas(16) char memory[1 << 20];
static size_t used;

void *NAME(size_t size) {
    char *block = memory + used;
    used += (size + 15) / 16 * 16;
    return used <= sizeof memory ? block : NULL;
}

#ifndef PREFIX
void free(void *block) { (void)block; }

void *calloc(size_t count, size_t size) { return NAME(count * size); }

void *realloc(void *block, size_t size) {
    void *larger = NAME(size);
    return block && larger ? memmove(larger, block, size) : larger;
}
#endif

#ifndef LIBRARY
int main(void) {
    for (int i = 0; i < 1000; i++)
        if (!NAME(100))
            return 1;
    puts("done");
    return 0;
}
#endif
