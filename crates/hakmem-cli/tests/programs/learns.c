/* Buffers that are too large for the cache of mode learn as it is at first, until that has changed; then says "ready" and
   waits for a byte. */
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

int hakmem_get_option(const char *name, char *value, size_t room) __attribute__((weak));

int main(void) {
    char first[16], now[16], byte;
    time_t end = time(NULL) + 100;
    if (!hakmem_get_option)
        return 8;
    hakmem_get_option("HUGE_CACHE_MIB", first, sizeof first);
    do {
        char *buffer = malloc(48 << 20);
        memset(buffer, 1, 48 << 20);
        free(buffer);
        hakmem_get_option("HUGE_CACHE_MIB", now, sizeof now);
    } while (strcmp(first, now) == 0 && time(NULL) < end);
    if (write(1, "ready\n", 6) != 6 || read(0, &byte, 1) < 0)
        return 9;
    return 0;
}
