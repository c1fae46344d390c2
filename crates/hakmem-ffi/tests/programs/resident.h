/* What a process has of the machine's memory. */
#ifndef RESIDENT_H
#define RESIDENT_H
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* KiB of the process that are resident; -1 if the system does not say. */
static long resident_kib(void) {
    FILE *f = fopen("/proc/self/statm", "r");
    long size, resident;
    int got = fscanf(f, "%ld %ld", &size, &resident);
    fclose(f);
    return got == 2 ? resident * (sysconf(_SC_PAGESIZE) / 1024) : -1;
}

/* 100 MiB that are written and freed, and so lie idle. */
static void leave_idle(void) {
    enum { N = 200 };
    void *p[N];
    for (int i = 0; i < N; i++)
        memset(p[i] = malloc(500 << 10), 1, 500 << 10);
    for (int i = 0; i < N; i++)
        free(p[i]);
}
#endif
