/* A kernel whose pages have 64 KiB, as far as the C functions can tell: sysconf is the program's own here. */
#include "conformance.h"

enum { PAGE = 64 << 10 };
static volatile int asked; /* The headers promise the compiler that malloc calls nothing of the program. */

long sysconf(int name) {
    static long (*real)(int);
    if (name == _SC_PAGESIZE)
        return asked = 1, PAGE;
    if (!real)
        real = (long (*)(int))dlsym(RTLD_NEXT, "sysconf");
    return real(name);
}

BEHAVIOUR(page_size_is_read_at_run_time) {
    /* The first of its size may well lie at the start of a page. */
    void *p = memalign(4096, 1), *q = valloc(1), *r = pvalloc(PAGE + 1);
    LACKS_ON_GLIBC(!asked, "it asks by a way that the test cannot take");
    CHECK(asked && p && is_aligned(q, PAGE) && is_aligned(r, PAGE));
    CHECK(malloc_usable_size(r) >= 2 * PAGE);
    memset(r, 1, malloc_usable_size(r));
    free(p), free(q), free(r);
}
