/* pairs N [SIZE [KEPT [calloc]]]: N times malloc(SIZE), 64 if there is none, and free; after KEPT
   blocks of that size, which are never freed. With a fourth argument, calloc in place of malloc. */
#include <stdlib.h>

int main(int argc, char **argv) {
    long n = argc > 1 ? atol(argv[1]) : 0;
    size_t size = argc > 2 ? strtoul(argv[2], NULL, 10) : 64;
    for (long kept = argc > 3 ? atol(argv[3]) : 0; kept > 0; kept--)
        if (!malloc(size)) return 1;
    if (argc > 4)
        for (; n > 0; n--) free(calloc(1, size));
    else
        for (; n > 0; n--) free(malloc(size));
    return 0;
}
