// Frees a block twice, in a function with a name.
#include <stdlib.h>

__attribute__((noinline)) static void frees_it(void *block) {
    free(block);
    __asm__ volatile("");
}

int main(void) {
    void *block = malloc(40);
    void *volatile again = block;
    frees_it(block);
    frees_it(again);
    return 0;
}
