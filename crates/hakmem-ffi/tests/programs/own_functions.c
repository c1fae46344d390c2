/* hakmem's own functions, in the common subset of C and C++. */
#include "../../include/hakmem.h"
#include "check.h"
#include <stdlib.h>
#include <string.h>

int main(void) {
    CHECK("hakmem_version", strchr(hakmem_version(), '.') != NULL);
    void *volatile p[100];
    struct hakmem_stats before, after;
    hakmem_stats(&before);
    for (int i = 0; i < 100; i++)
        p[i] = malloc(3000);
    hakmem_stats(&after);
    CHECK("hakmem_stats", after.allocations >= before.allocations + 100);
    for (int i = 0; i < 100; i++)
        free(p[i]);
    int trimmed = hakmem_trim();
    CHECK("hakmem_trim", trimmed == 0 || trimmed == 1);
    return failures != 0;
}
