/* A C program that loads a library for itself alone, and calls its function `run`. */
#include <dlfcn.h>
#include <stdio.h>

int main(int count, char **words) {
    void *library = count > 1 ? dlopen(words[1], RTLD_NOW | RTLD_LOCAL) : 0;
    int (*run)(void) = library ? (int (*)(void))dlsym(library, "run") : 0;
    if (run)
        return run();
    fprintf(stderr, "%s\n", dlerror());
    return 3;
}
