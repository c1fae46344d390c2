/* Makes three heaps of its own, in sizes that nothing else has here: "tiles" has a limit, which it
   reaches, "words" is deleted while a block of its scope is live, and "films" has a large and a huge
   block. Says "ready", and goes on when it reads a byte. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

#define CALL(name) (*(__typeof__(name) *)need(#name))

void *hakmem_heap_new(const char *, size_t);
void *hakmem_heap_malloc(void *, size_t);
int hakmem_heap_enter(void *);
int hakmem_heap_leave(void *);
int hakmem_heap_delete(void *);

static void *need(const char *name) {
    void *found = dlsym(RTLD_DEFAULT, name);
    if (!found)
        _exit(8);
    return found;
}

int main(void) {
    void *tiles = CALL(hakmem_heap_new)("tiles", 1 << 20), *words = CALL(hakmem_heap_new)("words", 0);
    for (int i = 0; i < 200; i++)
        if (!CALL(hakmem_heap_malloc)(tiles, 3072))
            _exit(7);
    if (CALL(hakmem_heap_malloc)(tiles, 2 << 20) || CALL(hakmem_heap_enter)(words) != 0)
        _exit(6);
    void *volatile word = malloc(5000);
    if (CALL(hakmem_heap_leave)(words) != 0 || CALL(hakmem_heap_delete)(words) != 0)
        _exit(5);
    void *films = CALL(hakmem_heap_new)("films", 0);
    if (!CALL(hakmem_heap_malloc)(films, 300000) || !CALL(hakmem_heap_malloc)(films, 3 << 20))
        _exit(4);
    char byte;
    if (write(1, "ready\n", 6) != 6 || read(0, &byte, 1) < 0)
        _exit(9);
    free(word);
    return 0;
}
