/* hakmem's own functions, in the common subset of C and C++. */
#include "../../include/hakmem.h"
#include "check.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(void) {
    CHECK("hakmem_version", strchr(hakmem_version(), '.') != NULL);
    void *volatile p[100];
    struct hakmem_stats before, after;
    hakmem_stats(&before);
    for (int i = 0; i < 100; i++)
        p[i] = malloc(3000);
    hakmem_stats(&after);
    CHECK("hakmem_stats", after.allocations >= before.allocations + 100);
    struct hakmem_class_stats classes[100];
    size_t count = hakmem_class_stats(classes, 100), found = 0;
    for (size_t i = 0; i < count; i++)
        found += classes[i].size >= 3000 && classes[i].size < 4096 && classes[i].live_bytes >= 300000;
    CHECK("hakmem_class_stats", found == 1 && hakmem_class_stats(NULL, 0) == count);
    FILE *file = tmpfile();
    int fd = fileno(file);
    CHECK("hakmem_report", hakmem_report(fd, "json") == 0 && lseek(fd, 0, SEEK_END) > 1000);
    CHECK("hakmem_report_of_no_known_form", hakmem_report(fd, "prose") == -1);
    CHECK("hakmem_report_nowhere", hakmem_report(-1, "text") == -1);
    CHECK("hakmem_map", hakmem_map(fd) == 0 && hakmem_map(-1) == -1);
    for (int i = 0; i < 100; i++)
        free(p[i]);
    int trimmed = hakmem_trim();
    CHECK("hakmem_trim", trimmed == 0 || trimmed == 1);
    return failures != 0;
}
