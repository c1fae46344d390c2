/* pairs N: N times malloc(64) and free. */
#include <stdlib.h>

int main(int argc, char **argv) {
    for (long n = argc > 1 ? atol(argv[1]) : 0; n > 0; n--)
        free(malloc(64));
    return 0;
}
