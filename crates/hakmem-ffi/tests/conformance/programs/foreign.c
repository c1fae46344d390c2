/* Pointers that are not the allocator's: to decide that, nothing may be read. */
#include "conformance.h"
#include <sys/mman.h>

static char in_bss[4096];

static uint64_t foreign(void) {
    struct hakmem_stats stats;
    figures(&stats);
    return stats.foreign_frees;
}

BEHAVIOUR(foreign_pointers_are_told_without_reading_them) {
    LACKS_ON_GLIBC(1, "it reads what it takes for a header in front of the block");
    void *block = malloc(100); /* From here on the allocator has its own place. */
    char on_stack[4096] __attribute__((aligned(16)));
    char *unreadable = mmap(NULL, 1 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *unmapped = mmap(NULL, 1 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(unreadable != MAP_FAILED && unmapped != MAP_FAILED && munmap(unmapped, 1 << 20) == 0);
    memset(on_stack, 7, sizeof on_stack);
    void *const pointers[] = {on_stack + 64, in_bss + 1024, unreadable, unreadable + 4096, unmapped + 64, (void *)16,
                              (void *)0x7FFFFFFFFFF0, (void *)0xFFFFFFFFFFFFFFF0, (void *)(uintptr_t)foreign};
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
    CHECK(is_filled(on_stack, sizeof on_stack, 7) && is_filled(in_bss, sizeof in_bss, 0));
    free(block);
}
