/* A library with an allocator of its own: libhakmem.a is linked into it, and hidden. */
#include "hakmem.h"
#include <stdlib.h>

void *library_allocate(size_t n) { return malloc(n); }
void library_release(void *p) { free(p); }

uint64_t library_served(void) {
    struct hakmem_stats stats;
    hakmem_stats(&stats);
    return stats.allocations;
}
