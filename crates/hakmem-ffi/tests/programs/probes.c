/* Blocks of all kinds come, grow and go; some stay. */
#include <stdlib.h>
#include <string.h>

enum { COUNT = 3000 };

int main(void) {
    static const size_t sizes[] = {100, 2000, 9000, 50000, 200000, 3000000};
    void *blocks[COUNT];
    for (int i = 0; i < COUNT; i++) {
        size_t size = sizes[i % 97 == 0 ? 5 : i % 5];
        blocks[i] = malloc(size);
        if (!blocks[i])
            return 1;
        memset(blocks[i], 1, 100);
        if (i % 7 == 0)
            blocks[i] = realloc(blocks[i], 2 * size);
        if (i >= 50 && i % 3 != 0) {
            free(blocks[i - 50]);
            blocks[i - 50] = NULL;
        }
    }
    return 0;
}
