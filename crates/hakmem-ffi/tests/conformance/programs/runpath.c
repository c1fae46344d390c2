/* A library whose RUNPATH names the directory `inner` beside it. */
#include <dlfcn.h>

int opened;

void *library_open(const char *name, int mode) {
    void *handle = dlopen(name, mode);
    opened += handle != 0; /* So that it is a call, not a jump: the loader looks at who called. */
    return handle;
}
