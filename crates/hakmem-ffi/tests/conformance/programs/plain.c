/* A library that uses whatever malloc it is bound to. */
#include <stdlib.h>

void *library_allocate(size_t n) { return malloc(n); }
void library_release(void *p) { free(p); }
