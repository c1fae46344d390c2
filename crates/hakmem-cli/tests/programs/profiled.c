// Allocates by functions that are known, and says on standard output what each did: name, live bytes, bytes allocated.
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define APART __attribute__((noinline, noclone))

struct account {
    unsigned long live, all;
};

static void *kept[1 << 20];
static unsigned long kept_count;

static void *note(struct account *to, void *p) {
    to->live += malloc_usable_size(p);
    to->all += malloc_usable_size(p);
    return p;
}

static void drop(struct account *of, void *p) {
    of->live -= malloc_usable_size(p);
    free(p);
}

// Small blocks, all kept.
APART static void keeps_small(struct account *a) {
    for (int i = 0; i < 100000; i++) kept[kept_count++] = note(a, malloc(24 + i % 100));
}

// Of all sizes, most dropped.
APART static void drops_most(struct account *a) {
    for (int i = 0; i < 200000; i++) {
        void *p = note(a, malloc(16 + (i * 37) % 3000));
        if (i % 10 == 0) kept[kept_count++] = p;
        else drop(a, p);
    }
}

// By way of the C library, from a function that is called by another one.
APART static char *copies(struct account *a, const char *text) {
    char *copy = strdup(text);
    note(a, copy);
    return copy;
}
APART static void lets_copy(struct account *a) {
    char text[200];
    memset(text, 'x', sizeof text);
    text[199] = 0;
    for (int i = 0; i < 30000; i++) kept[kept_count++] = copies(a, text);
}

// Deep in a recursion with frames of odd sizes.
APART static void digs(struct account *a, int depth) {
    volatile char room[200 + 8 * 3];
    room[depth] = 1;
    if (depth == 0) {
        for (int i = 0; i < 20000; i++) kept[kept_count++] = note(a, calloc(1, 300));
    } else {
        digs(a, depth - 1);
    }
    room[0]++;
}

// Large ones, that grow, and come and go.
APART static void grows(struct account *a) {
    for (int i = 0; i < 40; i++) {
        size_t size = 70000;
        char *p = note(a, malloc(size));
        for (int j = 0; j < 8; j++) {
            size_t before = malloc_usable_size(p);
            size += size / 2;
            p = realloc(p, size);
            size_t now = malloc_usable_size(p);
            if (now != before) {
                a->live += now - before;
                a->all += now;
            }
        }
        if (i % 2) kept[kept_count++] = p;
        else drop(a, p);
    }
}

// In a thread.
APART static void *in_thread(void *a) {
    for (int i = 0; i < 50000; i++) kept[kept_count++] = note(a, malloc(100));
    return NULL;
}

APART static int compare(const void *a, const void *b) {
    return *(const int *)a - *(const int *)b;
}
// Called back by the C library, in the middle of a sort.
static struct account *of_called;
APART static int called_back(const void *a, const void *b) {
    kept[kept_count++] = note(of_called, malloc(512));
    return compare(a, b);
}

int main(void) {
    struct account a[7] = {0};
    keeps_small(&a[0]);
    drops_most(&a[1]);
    lets_copy(&a[2]);
    digs(&a[3], 30);
    grows(&a[4]);
    pthread_t thread;
    pthread_create(&thread, NULL, in_thread, &a[5]);
    pthread_join(thread, NULL);
    int numbers[2000];
    for (int i = 0; i < 2000; i++) numbers[i] = (i * 7919) % 2000;
    of_called = &a[6];
    qsort(numbers, 2000, sizeof *numbers, called_back);
    const char *names[] = {"keeps_small", "drops_most", "copies", "digs", "grows", "in_thread", "called_back"};
    for (int i = 0; i < 7; i++) printf("%s %lu %lu\n", names[i], a[i].live, a[i].all);
    return 3;
}
