/* What a process has of the machine's memory. */
#ifndef RESIDENT_H
#define RESIDENT_H
#include <stdio.h>
#include <unistd.h>

/* KiB of the process that are resident; -1 if the system does not say. */
static long resident_kib(void) {
    FILE *f = fopen("/proc/self/statm", "r");
    long size, resident;
    int got = fscanf(f, "%ld %ld", &size, &resident);
    fclose(f);
    return got == 2 ? resident * (sysconf(_SC_PAGESIZE) / 1024) : -1;
}
#endif
