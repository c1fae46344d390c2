/* Heaps that the program makes, in the common subset of C and C++. */
#include "../../include/hakmem.h"
#include "check.h"
#include <errno.h>
#include <pthread.h>
#include <malloc.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static struct hakmem_heap_stats stats(struct hakmem_heap *heap) {
    struct hakmem_heap_stats now;
    hakmem_heap_get_stats(heap, &now);
    return now;
}

static int is_zero(const char *p, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (p[i])
            return 0;
    return 1;
}

static void *in_scope(void *heap) {
    /* Ends within its scope. */
    return hakmem_heap_enter((struct hakmem_heap *)heap) == 0 ? malloc(50) : NULL;
}

static void blocks(void) {
    struct hakmem_heap *heap = hakmem_heap_new("blocks", 1 << 20), *other = hakmem_heap_new(NULL, 0);
    char *p = (char *)hakmem_heap_malloc(heap, 1000);
    CHECK("malloc", p != NULL && stats(heap).live_bytes >= 1000 && stats(heap).limit_bytes == 1 << 20);
    memset(p, 7, 1000);
    p = (char *)hakmem_heap_realloc(heap, p, 20000);
    CHECK("realloc", p != NULL && p[0] == 7 && p[999] == 7);
    CHECK("realloc_null", (p = (char *)hakmem_heap_realloc(heap, p, 0)) == NULL && stats(heap).live_bytes == 0);
    p = (char *)hakmem_heap_calloc(heap, 100, 100);
    CHECK("calloc", p != NULL && is_zero(p, 10000));
    hakmem_heap_free(heap, p);
    errno = 0;
    CHECK("calloc_overflow", hakmem_heap_calloc(heap, (size_t)-1, 3) == NULL && errno == ENOMEM);
    p = (char *)hakmem_heap_aligned_alloc(heap, 4096, 100);
    CHECK("aligned_alloc", p != NULL && (size_t)p % 4096 == 0);
    free(p);
    CHECK("free_of_any_block", stats(heap).live_bytes == 0);
    errno = 0;
    CHECK("aligned_alloc_of_no_power", hakmem_heap_aligned_alloc(heap, 24, 100) == NULL && errno == EINVAL);
    errno = 0;
    CHECK("limit", hakmem_heap_malloc(heap, 2 << 20) == NULL && errno == ENOMEM && stats(heap).refused == 1);
    hakmem_heap_set_limit(heap, 0);
    CHECK("no_limit", hakmem_heap_malloc(heap, 2 << 20) != NULL && stats(heap).limit_bytes == UINT64_MAX);
    CHECK("reset", hakmem_heap_reset(heap) == 0 && stats(heap).live_bytes == 0);
    malloc_trim(0);
    CHECK("what a reset keeps", stats(heap).held_bytes == 0);
    CHECK("reserve", hakmem_heap_reserve(other, 3 << 20) == 0 && stats(other).reserved_bytes == 4 << 20);
    CHECK("null", hakmem_heap_malloc(NULL, 1) == NULL && hakmem_heap_reset(NULL) == -1 && hakmem_heap_delete(NULL) == 0);
    CHECK("delete", hakmem_heap_delete(heap) == 0 && hakmem_heap_delete(other) == 0);
}

static void scopes(void) {
    struct hakmem_heap *outer = hakmem_heap_new("outer", 0), *inner = hakmem_heap_new("inner", 0);
    CHECK("enter", hakmem_heap_enter(outer) == 0);
    char *volatile a = (char *)malloc(100);
    CHECK("enter_within", hakmem_heap_enter(inner) == 0);
    char *volatile b = strdup("from the C library");
    errno = 0;
    CHECK("leave_another", hakmem_heap_leave(outer) == -1 && errno == EINVAL);
    CHECK("delete_within", hakmem_heap_delete(inner) == -1 && errno == EBUSY);
    CHECK("leave", hakmem_heap_leave(inner) == 0 && hakmem_heap_leave(outer) == 0);
    CHECK("leave_twice", hakmem_heap_leave(outer) == -1);
    char *volatile c = (char *)malloc(100);
    CHECK("routed", stats(outer).allocations == 1 && stats(inner).allocations == 1);
    pthread_t thread;
    void *d = NULL;
    CHECK("thread", pthread_create(&thread, NULL, in_scope, inner) == 0 && pthread_join(thread, &d) == 0 && d != NULL);
    CHECK("routed_in_a_thread", stats(inner).allocations - stats(inner).frees == 2);
    CHECK("delete_with_live_blocks", hakmem_heap_delete(inner) == 0 && !strcmp(b, "from the C library"));
    free(a);
    free(b);
    free(c);
    free(d);
    CHECK("all_are_back", stats(outer).live_bytes == 0 && hakmem_heap_delete(outer) == 0);
}

/* A call with a heap that was deleted ends the process, also one that could not succeed. */
static int ends(int call) {
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        struct hakmem_heap *heap = hakmem_heap_new("deleted", 0);
        close(2);
        hakmem_heap_delete(heap);
        switch (call) {
        case 0: hakmem_heap_malloc(heap, 1); break;
        case 1: hakmem_heap_calloc(heap, SIZE_MAX, 2); break;
        case 2: hakmem_heap_aligned_alloc(heap, 3, 1); break;
        default: hakmem_heap_free(heap, NULL);
        }
        _exit(0);
    }
    waitpid(child, &status, 0);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

int main(void) {
    blocks();
    scopes();
    CHECK("deleted_malloc", ends(0));
    CHECK("deleted_calloc_too_large", ends(1));
    CHECK("deleted_aligned_alloc_not_aligned", ends(2));
    CHECK("deleted_free_null", ends(3));
    return failures != 0;
}
