/* A library whose constructor calls the function at the address in HOOK, under the loader's lock. */
#include <stdio.h>
#include <stdlib.h>

__attribute__((constructor)) static void construct(void) {
    void *hook = NULL;
    const char *text = getenv("HOOK");
    if (text && sscanf(text, "%p", &hook) == 1)
        ((void (*)(void))hook)();
}
