/* Overwrites its environment, as programs do to set their title. */
#include <stdlib.h>
#include <string.h>

extern char **environ;

int main(void) {
    free(malloc(100));
    for (char **entry = environ; *entry; entry++)
        memset(*entry, 'x', strlen(*entry));
    return 0;
}
