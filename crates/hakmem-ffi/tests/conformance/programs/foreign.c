/* Pointers that are not the allocator's, and may be another's: to decide that, nothing may be read. */
#include "conformance.h"
#include <sys/mman.h>

static uint64_t foreign(void) {
    struct hakmem_stats stats;
    figures(&stats);
    return stats.foreign_frees;
}

BEHAVIOUR(foreign_pointers_are_told_without_reading_them) {
    LACKS_ON_GLIBC(1, "it reads what it takes for a header in front of the block");
    void *block = malloc(100); /* From here on the allocator has its own place. */
    char *unreadable = mmap(NULL, 1 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *unmapped = mmap(NULL, 1 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(unreadable != MAP_FAILED && unmapped != MAP_FAILED && munmap(unmapped, 1 << 20) == 0);
    void *const pointers[] = {unreadable, unreadable + 4096, unreadable + 72, unmapped + 64, (void *)0x7FFFFFFFFFF0};
    enum { N = sizeof pointers / sizeof *pointers };
    uint64_t before = foreign();
    for (int i = 0; i < N; i++) {
        void *volatile p = pointers[i];
        free(p);
        CHECK(malloc_usable_size(p) == 0);
        errno = 0;
        CHECK(realloc(p, 100) == NULL && errno == ENOMEM);
    }
    CHECK(foreign() - before >= N);
    free(block);
}
