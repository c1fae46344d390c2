/* MUST(condition) ends the program with status 9, and says which condition does not hold, and where. */
#ifndef MUST_H
#define MUST_H
#include <stdio.h>
#include <unistd.h>

#define MUST(condition) ((condition) ? (void)0 : missed(#condition, __LINE__))
static void missed(const char *what, int line) {
    fprintf(stderr, "not so in line %d: %s\n", line, what);
    _exit(9);
}

/* The compiler does not see where it points. */
static unsigned char *hidden(void *p) {
    unsigned char *volatile q = (unsigned char *)p;
    return q;
}
#endif
