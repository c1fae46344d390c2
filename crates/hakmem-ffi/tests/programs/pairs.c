/* pairs N [SIZE [KEPT [FUNCTION]]]: N times malloc(SIZE), 64 if there is none, and free; after KEPT
   blocks of that size, which are never freed. FUNCTION: calloc; memalign, for posix_memalign to 64
   bytes; or bursts, for malloc of 64 blocks that are then freed. */
#include <stdlib.h>
#include <string.h>

static void memaligns(long n, size_t size) {
    for (; n > 0; n--) {
        void *p;
        if (posix_memalign(&p, 64, size)) abort();
        free(p);
    }
}

static void bursts(long n, size_t size) {
    for (; n > 0; n -= 64) {
        void *blocks[64];
        for (int i = 0; i < 64; i++) blocks[i] = malloc(size);
        for (int i = 0; i < 64; i++) free(blocks[i]);
    }
}

int main(int argc, char **argv) {
    long n = argc > 1 ? atol(argv[1]) : 0;
    size_t size = argc > 2 ? strtoul(argv[2], NULL, 10) : 64;
    for (long kept = argc > 3 ? atol(argv[3]) : 0; kept > 0; kept--)
        if (!malloc(size)) return 1;
    const char *function = argc > 4 ? argv[4] : "malloc";
    if (!strcmp(function, "calloc"))
        for (; n > 0; n--) free(calloc(1, size));
    else if (!strcmp(function, "memalign"))
        memaligns(n, size);
    else if (!strcmp(function, "bursts"))
        bursts(n, size);
    else
        for (; n > 0; n--) free(malloc(size));
    return 0;
}
