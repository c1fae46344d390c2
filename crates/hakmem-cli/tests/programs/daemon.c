/* A daemon: its first process prints the number of the second one and ends without exit handlers.
   The second one ends with its standard input. daemon titled: it writes over its environment, as
   services do that show what they do. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern char **environ;

int main(int argc, char **argv) {
    char byte;
    int ready[2];
    free(malloc(100));
    if (pipe(ready) != 0)
        return 1;
    pid_t second = fork();
    if (second != 0) {
        close(ready[1]);
        if (read(ready[0], &byte, 1) != 1)
            _exit(1);
        printf("%d\n", second);
        fflush(stdout);
        _exit(second < 0);
    }
    setsid();
    close(1);
    if (argc > 1 && strcmp(argv[1], "titled") == 0) {
        char **last = environ;
        while (last[1])
            last++;
        memset(argv[0], 'x', *last + strlen(*last) - argv[0]);
    }
    free(malloc(100));
    if (write(ready[1], "", 1) != 1)
        return 1;
    while (read(0, &byte, 1) > 0)
        ;
    /* The second one's exit handlers report. */
    return 0;
}
