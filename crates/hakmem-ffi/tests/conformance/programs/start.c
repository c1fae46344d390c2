/* Before main and after it: blocks are handed out ahead of every constructor, and taken back after every destructor. */
#include "conformance.h"
#include <link.h>

static char *before_constructors, *at_the_end;

static void runs_first(void) {
    before_constructors = malloc(100);
    strcpy(before_constructors, "early");
    free(calloc(1, 3 << 20));
}
/* Runs ahead of the constructors of all libraries. */
__attribute__((section(".preinit_array"), used)) static void (*const first)(void) = runs_first;

BEHAVIOUR(malloc_is_called_before_any_constructor) {
    CHECK(!strcmp(before_constructors, "early"));
    before_constructors = realloc(before_constructors, 100000);
    CHECK(!strcmp(before_constructors, "early"));
    free(before_constructors);
}

/* The program's destructors run ahead of the library's; what is registered by a library that ld.so loaded first, or by
 * libc itself, runs behind. A failure here is a crash, or another exit status. */
static void in_atexit(void) {
    at_the_end = realloc(at_the_end, 50000);
    free(malloc(300));
}

__attribute__((destructor)) static void runs_last(void) {
    if (!at_the_end)
        return;
    free(at_the_end);
    for (size_t n = 1; n < 8 << 20; n *= 3) {
        char *p = malloc(n);
        if (!p)
            _exit(3);
        p[n - 1] = 1;
        free(p);
    }
}

BEHAVIOUR(exit_handlers_and_destructors_allocate) {
    at_the_end = malloc(100);
    CHECK(atexit(in_atexit) == 0);
    /* stdio's own buffer is freed, or just left, at the very end. */
    CHECK(setvbuf(stdin, NULL, _IOFBF, 4096) == 0);
}

/* ld.so allocates by its own minimal malloc until it has found the real one: such blocks are nobody's to free. */
BEHAVIOUR(blocks_of_the_loader_are_left_alone) {
    LACKS_ON_GLIBC(1, "its free would abort; its loader never frees such a block");
    struct link_map *map = NULL;
    CHECK(dlinfo(dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD), RTLD_DI_LINKMAP, &map) == 0 && map->l_name[0]);
    char name[200];
    strcpy(name, map->l_name);
    struct hakmem_stats stats;
    for (int i = 0; i < 100; i++)
        free(map->l_name);
    errno = 0;
    CHECK(realloc(map->l_name, 100) == NULL && errno == ENOMEM);
    CHECK(malloc_usable_size(map->l_name) == 0);
    CHECK(!strcmp(map->l_name, name));
    figures(&stats);
    CHECK(stats.foreign_frees >= 100);
    void *p = malloc(100);
    CHECK(p);
    free(p);
}
