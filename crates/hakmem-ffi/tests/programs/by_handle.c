/* Opens the library that the first argument names, and takes functions from its handle. The second argument is the scope. */
#define _GNU_SOURCE
#include "must.h"
#include <dlfcn.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

typedef void *(*malloc_t)(size_t);
typedef void *(*realloc_t)(void *, size_t);
typedef void *(*reallocarray_t)(void *, size_t, size_t);
typedef int (*reallocarr_t)(void *, size_t, size_t);
typedef void (*free_t)(void *);

int main(int count, char **words) {
    MUST(count == 3);
    void *handle = dlopen(words[1], RTLD_NOW | (strcmp(words[2], "global") == 0 ? RTLD_GLOBAL : RTLD_LOCAL));
    MUST(handle != NULL);
    malloc_t its_malloc = (malloc_t)dlsym(handle, "malloc");
    free_t its_free = (free_t)dlsym(handle, "free");
    realloc_t its_realloc = (realloc_t)dlsym(handle, "realloc");
    MUST(its_malloc && its_malloc != malloc && its_free && its_realloc);

    char *p = its_malloc(100);
    MUST(strcpy(p, "text"));
    p = ((reallocarray_t)dlsym(handle, "reallocarray"))(p, 1000, 2);
    MUST(p != NULL && strcmp(p, "text") == 0);
    p = ((realloc_t)dlsym(handle, "reallocf"))(p, 3000);
    MUST(p != NULL && strcmp(p, "text") == 0);
    MUST(((realloc_t)dlsym(handle, "reallocf"))(p, (size_t)1 << 60) == NULL);
    p = its_malloc(10);
    MUST(((reallocarr_t)dlsym(handle, "reallocarr"))(&p, 10, 1000) == 0);
    its_free(p);

    /* What the C library made goes back to it. */
    size_t before = mallinfo2().hblkhd;
    char *theirs = malloc(100 << 20);
    MUST(theirs != NULL && mallinfo2().hblkhd > before);
    theirs = its_realloc(theirs, 200 << 20);
    MUST(theirs != NULL);
    its_free(theirs);
    MUST(mallinfo2().hblkhd == before);
    return 0;
}
