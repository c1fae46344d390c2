/* hakmem's own functions, in the common subset of C and C++. */
#include "../../include/hakmem.h"
#include "check.h"
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int refusals;

/* Counts the requests that are about to fail, and lets them. */
static bool count_refusal(size_t size) {
    refusals += size == 40 << 20;
    return false;
}

static void limits(void) {
    CHECK("hakmem_purge_all", hakmem_purge_all() < 1u << 30);
    struct hakmem_gauges gauges;
    hakmem_gauges(&gauges);
    CHECK("hakmem_gauges", gauges.allocated <= gauges.active && gauges.active <= gauges.resident &&
          gauges.resident <= gauges.mapped && gauges.metadata > 0 && gauges.retained > 0);
    hakmem_set_limit_callback(count_refusal);
    hakmem_set_option("HARD_LIMIT_MIB", "32");
    errno = 0;
    CHECK("hakmem_hard_limit", malloc(40 << 20) == NULL && errno == ENOMEM && refusals == 1);
    hakmem_set_limit_callback(NULL);
    CHECK("hakmem_no_callback", malloc(40 << 20) == NULL && refusals == 1);
    struct hakmem_limit limit;
    hakmem_limit(&limit);
    CHECK("hakmem_limit", limit.hard == 32 << 20 && limit.refused == 2 && limit.held > 0 &&
          limit.held <= limit.hard);
    hakmem_set_option("HARD_LIMIT_MIB", "0");
    hakmem_limit(&limit);
    CHECK("hakmem_limit_none", limit.hard == 0 && limit.refused == 2);
    void *volatile p = malloc(40 << 20);
    CHECK("hakmem_no_hard_limit", p != NULL);
    free(p);
}

static void *free_it(void *block) {
    free(block);
    return NULL;
}

/* A block that another thread freed is in flight until the thread that allocated it takes it. */
static void in_flight(void) {
    struct hakmem_stats before, after;
    pthread_t thread;
    void *volatile block = malloc(500);
    hakmem_stats(&before);
    if (pthread_create(&thread, NULL, free_it, block) == 0)
        pthread_join(thread, NULL);
    hakmem_stats(&after);
    CHECK("hakmem_stats_in_flight", after.remote_frees == before.remote_frees + 1 &&
          after.in_flight == before.in_flight + 1);
}

int main(void) {
    in_flight();
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
    errno = 7;
    hakmem_thread_idle();
    CHECK("hakmem_thread_idle", errno == 7);
    int trimmed = hakmem_trim();
    CHECK("hakmem_trim", trimmed == 0 || trimmed == 1);
    char value[20] = "";
    CHECK("hakmem_set_option", hakmem_set_option("DECAY_MS", "1234") == 0 && hakmem_set_option("HAKMEM_SCAVENGER", "0") == 0);
    CHECK("hakmem_get_option", hakmem_get_option("DECAY_MS", value, sizeof value) == 4 && !strcmp(value, "1234"));
    CHECK("hakmem_get_option_cut", hakmem_get_option("DECAY_MS", value, 3) == 4 && !strcmp(value, "12"));
    CHECK("hakmem_get_option_length", hakmem_get_option("DECAY_MS", NULL, 0) == 4);
    CHECK("hakmem_set_option_by_class", hakmem_set_option("CARVE_BYTES", "4096,64:512") == 0 &&
          hakmem_get_option("CARVE_BYTES", value, sizeof value) == 11 && !strcmp(value, "4096,64:512"));
    errno = 0;
    CHECK("hakmem_set_option_out_of_range", hakmem_set_option("CARVE_BYTES", "1") == -1 && errno == EINVAL);
    CHECK("hakmem_set_option_at_start_only", hakmem_set_option("STATS", "1") == -1);
    errno = 0;
    CHECK("hakmem_get_option_unknown", hakmem_get_option("NOTHING", value, sizeof value) == -1 && errno == EINVAL);
    CHECK("mallopt_sets_what_may_stay", mallopt(M_TRIM_THRESHOLD, (3 << 20) + 1) == 1 &&
          hakmem_get_option("SURPLUS_MIB", value, sizeof value) == 1 && *value == '4' &&
          hakmem_get_option("HUGE_CACHE_MIB", value, sizeof value) == 1 && *value == '4');
    CHECK("mallopt_without_limit", mallopt(M_TRIM_THRESHOLD, -1) == 1 &&
          hakmem_get_option("SURPLUS_MIB", value, sizeof value) == 7);
    limits();
    return failures != 0;
}
