/* A clock of the program's own, as a library that fakes the time has: it stands still, and it allocates. The allocator's
 * time is the kernel's, so idle memory comes back all the same, and nothing of the allocator's ever comes by here. */
#include "resident.h"
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static atomic_long calls;

int clock_gettime(clockid_t id, struct timespec *time) {
    (void)id;
    atomic_fetch_add(&calls, 1);
    free(malloc(5000));
    time->tv_sec = 1000;
    time->tv_nsec = 0;
    return 0;
}

int main(void) {
    leave_idle();
    /* Idle from here on; the caller's patience is the limit. */
    while (resident_kib() > 20 << 10)
        usleep(10000);
    if (atomic_load(&calls) != 0) {
        fprintf(stderr, "FAIL %s:%d: %ld calls of the program's clock\n", __FILE__, __LINE__, atomic_load(&calls));
        return 1;
    }
    return 0;
}
