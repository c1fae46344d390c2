/* One block, used and freed. */
#include <stdlib.h>
#include <string.h>

static void *volatile block;

int main(void) {
    block = malloc(64);
    memset(block, 1, 64);
    free(block);
    return 0;
}
