/* Named checks: "ok NAME", "FAIL NAME: why", "skip NAME". */
#ifndef CHECK_H
#define CHECK_H
#include <stdio.h>

static int failures;

#define CHECK(name, condition)                                                                                         \
    do {                                                                                                               \
        if (condition)                                                                                                 \
            printf("ok %s\n", name);                                                                                   \
        else {                                                                                                         \
            printf("FAIL %s: %s (line %d)\n", name, #condition, __LINE__);                                             \
            failures++;                                                                                                \
        }                                                                                                              \
        fflush(stdout);                                                                                                \
    } while (0)
#endif
