/* pinned SCENARIO COUNT: forks while pages of the heap are pinned for input and output (io_uring's registered buffers). The
 * kernel copies a pinned page for the child when it comes to it, and not, as the others, when all threads see the end of the
 * fork: of what another thread writes meanwhile the child may have the later half. */
#include "torture.h"
#include <linux/io_uring.h>
#include <sys/syscall.h>
#include <sys/uio.h>

enum { SIZE = 64, BLOCKS = 4000, PAGES = 64, OWN = 300, PAGE = 4096 };
enum { PINNED, FORKS, ENDED_WELL };
static const char *const names[] = {"pinned", "forks", "ended_well", NULL};

static unsigned char *blocks[BLOCKS];
static volatile int is_ready, may_go_on, enough;

static unsigned char *written(void) {
    unsigned char *p = (unsigned char *)malloc(SIZE);
    CHECK(p);
    /* As a link, this leads nowhere. */
    memset(p, 0xab, SIZE);
    return p;
}

/* Frees and allocates in the pinned pages all the time. */
static void *replace_blocks(void *none) {
    uint64_t random = 88172645463325252;
    for (int i = 0; i < BLOCKS; i++)
        blocks[i] = written();
    is_ready = 1;
    while (!may_go_on)
        ;
    while (!enough) {
        uint64_t x = choose(&random);
        int i = x % BLOCKS, j = (x >> 32) % BLOCKS;
        free(blocks[i]);
        if (j != i) {
            free(blocks[j]);
            blocks[j] = written();
        }
        blocks[i] = written();
    }
    return none;
}

/* Pins the pages of the blocks for as long as the process lives. The number of them, 0 if the kernel refuses. */
static int pin(void) {
    struct io_uring_params parameters;
    memset(&parameters, 0, sizeof parameters);
    int ring = (int)syscall(SYS_io_uring_setup, 4, &parameters);
    if (ring < 0)
        return 0;
    static struct iovec pages[PAGES];
    int n = 0;
    for (int i = 0; i < BLOCKS && n < PAGES; i++) {
        void *page = (void *)((uintptr_t)blocks[i] / PAGE * PAGE);
        int known = 0;
        for (int k = 0; k < n; k++)
            known |= pages[k].iov_base == page;
        if (!known)
            pages[n++] = (struct iovec){page, PAGE};
    }
    return syscall(SYS_io_uring_register, ring, IORING_REGISTER_BUFFERS, pages, n) == 0 ? n : 0;
}

static void *take_many(void *none) {
    for (int i = 0; i < 20000; i++)
        memset(written(), 0xcd, SIZE);
    return none;
}

/* The forking thread's own blocks are whole in the child, and its heap goes on. */
static void go_on_alone(struct block *ledger, uint64_t random) {
    check_all(ledger, OWN);
    for (int i = 0; i < 2000; i++)
        churn(ledger, OWN, &random);
    take_many(NULL);
    end_all(ledger, OWN);
}

static void go_on_with_a_thread(struct block *ledger, uint64_t random) {
    pthread_t thread;
    (void)ledger, (void)random;
    CHECK(pthread_create(&thread, NULL, take_many, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
}

static void fork_often(long n, void (*child_life)(struct block *, uint64_t)) {
    uint64_t random = 99194853094755497;
    struct block *ledger = (struct block *)private_memory(OWN * sizeof *ledger);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, replace_blocks, NULL) == 0);
    while (!is_ready)
        ;
    counters->n[PINNED] = pin();
    may_go_on = 1;
    for (long i = 0; i < n && counters->n[PINNED]; i++) {
        for (int k = 0; k < 100; k++)
            churn(ledger, OWN, &random);
        pid_t child = fork();
        if (child == 0) {
            alarm(60);
            child_life(ledger, random);
            _exit(0);
        }
        int status = -1;
        CHECK(child > 0 && waitpid(child, &status, 0) == child);
        count(FORKS);
        if (status == 0)
            count(ENDED_WELL);
        check_all(ledger, OWN);
    }
    enough = 1;
    CHECK(pthread_join(thread, NULL) == 0);
    say_counts(names);
}

static void alone(long n) { fork_often(n, go_on_alone); }
static void with_a_thread(long n) { fork_often(n, go_on_with_a_thread); }

int main(int argc, char **argv) {
    static const struct scenario all[] = {{"alone", alone}, {"with_a_thread", with_a_thread}, {NULL, NULL}};
    return run_scenario(all, argc, argv);
}
