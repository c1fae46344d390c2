/* The program damages free blocks and then rests, so that the thread that gives memory back finds
 * it. That thread is not the C library's. The variable below takes more thread-local storage than
 * that thread has. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BLOCKS 100000

static volatile __thread char large[1 << 20];
static volatile __thread int own = 42;
static char *blocks[BLOCKS];

/* Does what the handlers of crash reporters do. */
static void report(int signal) {
    (void)signal;
    char *text = malloc(100);
    int length = snprintf(text, 100, "the program's own report %d\n", own);
    if (write(1, text, length) != length)
        _exit(1);
    free(text);
    _exit(77);
}

static void come_back(int signal) {
    (void)signal;
}

int main(int argc, char **argv) {
    const char *mode = argc > 1 ? argv[1] : "";
    large[0] = 1;
    if (!strcmp(mode, "report"))
        signal(SIGABRT, report);
    if (!strcmp(mode, "come_back"))
        signal(SIGABRT, come_back);
    if (!strcmp(mode, "ignore"))
        signal(SIGABRT, SIG_IGN);
    for (int i = 0; i < BLOCKS; i++)
        memset(blocks[i] = malloc(1000), 1, 1000);
    for (int i = 0; i < BLOCKS; i++)
        if (i % 50)
            free(blocks[i]);
    for (int i = 0; i < BLOCKS; i++)
        if (i % 50)
            memset(blocks[i], 0x55, 8);
    alarm(60);
    for (;;)
        pause();
}
