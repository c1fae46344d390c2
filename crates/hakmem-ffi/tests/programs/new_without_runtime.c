/* A C program that gets hold of operator new. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>

int main(void) {
    void *(*operator_new)(unsigned long) = (void *(*)(unsigned long))dlsym(RTLD_DEFAULT, "_Znwm");
    return operator_new((unsigned long)PTRDIFF_MAX + 1) != 0;
}
