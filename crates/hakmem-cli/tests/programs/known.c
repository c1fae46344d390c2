/* Allocates exactly what its tests expect, in sizes that nothing else has here; says "ready" after each part, and goes on
   when it reads a byte. With an argument it does as that says first. */
#define _GNU_SOURCE
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BLOCKS = 700, SIZE = 3000 };
static void *blocks[BLOCKS + 150];
static sem_t freed, end;

static void next_part(void) {
    char byte;
    if (write(1, "ready\n", 6) != 6 || read(0, &byte, 1) < 0)
        _exit(9);
}

static void *frees(void *unused) {
    (void)unused;
    /* No page wholly: this thread would give such a page back itself. */
    for (int i = 0; i < 500; i += 5)
        free(blocks[i]);
    sem_post(&freed);
    sem_wait(&end);
    return NULL;
}

int main(int argc, char **argv) {
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = malloc(SIZE);
        memset(blocks[i], 1, SIZE);
    }
    for (int i = 500; i < BLOCKS; i++)
        free(blocks[i]);
    char *large = malloc(200 << 10), *huge = malloc(5 << 20);
    large[0] = huge[0] = 1;
    sem_init(&freed, 0, 0);
    sem_init(&end, 0, 0);
    pthread_t thread;
    pthread_create(&thread, NULL, frees, NULL);
    sem_wait(&freed);
    next_part();
    if (argc > 1 && strcmp(argv[1], "fork") == 0) {
        if (fork() == 0) {
            void *block = malloc(SIZE);
            next_part();
            free(block);
            _exit(0);
        }
        wait(NULL);
        next_part();
        return 0;
    }
    if (argc > 1)
        execvp(argv[1], argv + 1);
    /* The thread's last frees are sent when it ends, and merged when the list is empty. */
    sem_post(&end);
    pthread_join(thread, NULL);
    for (int i = BLOCKS; i < BLOCKS + 150; i++)
        blocks[i] = malloc(SIZE);
    next_part();
    free(large);
    free(huge);
    return 7;
}
