/* A program that may run with rights that its user does not have. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

int hakmem_get_option(const char *name, char *value, size_t room);

int main(void) {
    char decay[20] = "";
    void *p = malloc(100);
    hakmem_get_option("DECAY_MS", decay, sizeof decay);
    printf("%lu %s\n", getauxval(AT_SECURE), decay);
    fflush(stdout);
    free(p);
    raise(SIGALRM);
    return 0;
}
