/* Threads that are all there at once and allocate little each.
 *
 * many_threads [THREADS [BLOCKS [LARGEST]]]: each thread takes BLOCKS blocks of 16 to LARGEST bytes and writes them; when all have
 * done that, prints what is resident; then the threads free them and end. Prints page faults and processor time at the end. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum { MOST_BLOCKS = 100, STACK = 64 << 10 };

static pthread_barrier_t full, over;
static unsigned blocks = 50, largest = 1024;

static void *life(void *number) {
    unsigned char *all[MOST_BLOCKS];
    unsigned random = (unsigned)(size_t)number * 2654435761u + 1;
    for (unsigned i = 0; i < blocks; i++) {
        random = random * 1664525u + 1013904223u;
        size_t size = 16 + (random >> 8) % (largest - 15);
        all[i] = malloc(size);
        if (!all[i])
            abort();
        memset(all[i], (int)i, size);
    }
    pthread_barrier_wait(&full);
    pthread_barrier_wait(&over);
    for (unsigned i = 0; i < blocks; i++) {
        if (all[i][0] != (unsigned char)i || all[i][15] != (unsigned char)i)
            abort();
        free(all[i]);
    }
    return NULL;
}

static long resident_kib(void) {
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file || fscanf(file, "%*d %ld", &pages) != 1)
        abort();
    fclose(file);
    return pages * 4;
}

static long ms(struct timeval t) { return t.tv_sec * 1000 + t.tv_usec / 1000; }

int main(int argc, char **argv) {
    unsigned threads = argc > 1 ? (unsigned)atoi(argv[1]) : 5000;
    if (argc > 2)
        blocks = (unsigned)atoi(argv[2]);
    if (argc > 3)
        largest = (unsigned)atoi(argv[3]);
    if (blocks > MOST_BLOCKS || largest < 16)
        return 2;
    pthread_t *all = calloc(threads, sizeof *all);
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, STACK);
    pthread_barrier_init(&full, NULL, threads + 1);
    pthread_barrier_init(&over, NULL, threads + 1);
    for (unsigned i = 0; i < threads; i++)
        if (pthread_create(&all[i], &small, life, (void *)(size_t)(i + 1)) != 0)
            return 3;
    pthread_barrier_wait(&full);
    printf("resident_kib %ld\n", resident_kib());
    pthread_barrier_wait(&over);
    for (unsigned i = 0; i < threads; i++)
        pthread_join(all[i], NULL);
    free(all);
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    printf("faults %ld\nuser_ms %ld\nsystem_ms %ld\n", usage.ru_minflt, ms(usage.ru_utime), ms(usage.ru_stime));
    return 0;
}
