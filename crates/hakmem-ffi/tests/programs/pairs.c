/* pairs N [SIZE]: N times malloc(SIZE), 64 if there is none, and free. */
#include <stdlib.h>

int main(int argc, char **argv) {
    size_t size = argc > 2 ? strtoul(argv[2], NULL, 10) : 64;
    for (long n = argc > 1 ? atol(argv[1]) : 0; n > 0; n--)
        free(malloc(size));
    return 0;
}
