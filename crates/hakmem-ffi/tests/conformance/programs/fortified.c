/* Programs that grow a block to its usable size and then use all of it, checked by the compiler's own bounds. */
#undef _FORTIFY_SOURCE
#define _FORTIFY_SOURCE 3
#include "conformance.h"

/* The size must be one that the compiler can follow, or there is nothing to check. */
static char *grown(size_t n, size_t *size) {
    char *p = malloc(n);
    *size = malloc_usable_size(p);
    return __builtin_realloc(p, *size);
}

BEHAVIOUR(fortified_programs_use_the_usable_size) {
    for (size_t n = 1; n < 5 << 20; n = n * 3 / 2 + 1) {
        size_t size;
        char *p = grown(n, &size);
        __builtin___memset_chk(p, 'x', size, __builtin_dynamic_object_size(p, 0));
        CHECK(malloc_usable_size(p) >= size && is_filled(p, size, 'x'));
        free(p);
    }
}
