/* Blocks of every kind of size. */
#ifndef EVERY_SIZE_H
#define EVERY_SIZE_H
#include "conformance.h"

/* Takes, grows and frees blocks of sizes below `end`. */
static void use_sizes_below(size_t end) {
    for (size_t n = 1; n < end; n = n * 5 + 1) {
        char *p = malloc(n), *q = calloc(1, n), *r = memalign(256, n);
        CHECK(p && q && r);
        p[0] = p[n - 1] = 1;
        p = realloc(p, 2 * n);
        CHECK(p && p[0] == 1);
        free(p), free(q), free(r);
    }
}
#endif
