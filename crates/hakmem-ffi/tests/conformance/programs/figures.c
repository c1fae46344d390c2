/* glibc's functions that tune and report. */
#include "conformance.h"

BEHAVIOUR(mallopt_accepts_glibcs_options) {
    static const int options[] = {M_MXFAST,   M_TRIM_THRESHOLD, M_TOP_PAD,    M_MMAP_THRESHOLD, M_MMAP_MAX,
                                  M_CHECK_ACTION, M_PERTURB,    M_ARENA_TEST, M_ARENA_MAX};
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        CHECK(mallopt(options[i], options[i] == M_PERTURB ? 0 : 64) == 1);
    void *p = malloc(1000);
    CHECK(p);
    free(p);
}

BEHAVIOUR(malloc_trim_gives_free_memory_back) {
    enum { N = 2000, SIZE = 10000 };
    static void *p[N];
    for (int i = 0; i < N; i++)
        memset(p[i] = malloc(SIZE), 1, SIZE);
    void *last = malloc(SIZE); /* Above the others, so that glibc keeps what is below it. */
    for (int i = 0; i < N; i++)
        free(p[i]);
    CHECK(malloc_trim(0) == 1);
    int again = malloc_trim(0);
    CHECK(again == 0 || !on_hakmem);
    free(last);
}

BEHAVIOUR(mallinfo_counts) {
    struct mallinfo2 before = mallinfo2();
    enum { SIZE = 3 << 20 };
    char *p = malloc(SIZE);
    memset(p, 1, SIZE);
    struct mallinfo2 after = mallinfo2();
    CHECK(after.uordblks + after.hblkhd >= before.uordblks + before.hblkhd + SIZE);
    CHECK(after.uordblks <= after.arena + after.hblkhd);
    struct mallinfo old = mallinfo();
    CHECK((size_t)old.uordblks == after.uordblks && (size_t)old.arena == after.arena);
    free(p);
    struct mallinfo2 end = mallinfo2();
    CHECK(end.uordblks + end.hblkhd < after.uordblks + after.hblkhd);
}

/* Programs add uordblks and hblkhd, and arena and hblkhd: a huge block is in one of each two. */
BEHAVIOUR(mallinfo_tells_mapped_and_free_blocks) {
    enum { THP_SIZE = 3 << 20, N = 1000, SIZE = 200 };
    struct mallinfo2 before = mallinfo2();
    void *thp = malloc(THP_SIZE);
    struct mallinfo2 after = mallinfo2();
    CHECK(after.hblks == before.hblks + 1 && after.hblkhd >= before.hblkhd + THP_SIZE);
    CHECK(after.uordblks < before.uordblks + THP_SIZE && after.arena < before.arena + THP_SIZE);
    CHECK(after.arena == after.uordblks + after.fordblks);
    struct mallinfo old = mallinfo();
    CHECK((size_t)old.hblkhd == after.hblkhd && (size_t)old.hblks == after.hblks);

    char *text = NULL;
    size_t length = 0, count = 0, size = 0;
    FILE *stream = open_memstream(&text, &length);
    CHECK(malloc_info(0, stream) == 0 && fclose(stream) == 0);
    char *mapped = strstr(text, "<total type=\"mmap\"");
    CHECK(mapped && sscanf(mapped, "<total type=\"mmap\" count=\"%zu\" size=\"%zu\"/>", &count, &size) == 2);
    CHECK(count == after.hblks && size == after.hblkhd);
    free(text), free(thp);
    struct mallinfo2 end = mallinfo2();
    CHECK(end.hblks == before.hblks && end.hblkhd == before.hblkhd);

    void *small[N];
    for (int i = 0; i < N; i++)
        small[i] = malloc(SIZE);
    before = mallinfo2();
    for (int i = 0; i < N; i += 2)
        free(small[i]);
    after = mallinfo2();
    CHECK(after.ordblks >= before.ordblks + N / 2 - 16); /* glibc's counts what a thread has at hand as used. */
    for (int i = 1; i < N; i += 2)
        free(small[i]);
}

BEHAVIOUR(malloc_info_writes_xml) {
    void *p = malloc(100);
    char *text = NULL;
    size_t length = 0;
    FILE *stream = open_memstream(&text, &length);
    CHECK(malloc_info(0, stream) == 0 && fclose(stream) == 0);
    CHECK(!strncmp(text, "<malloc version=\"1\">", 20) && strstr(text, "</malloc>\n") == text + length - 10);
    CHECK(strstr(text, "<system type=\"current\" size=\""));
    CHECK(malloc_info(1, stdout) != 0); /* There are no options yet. */
    free(text), free(p);
}

BEHAVIOUR(malloc_stats_writes_to_stderr) {
    int ends[2];
    char text[4096];
    void *p = malloc(100);
    CHECK(pipe(ends) == 0 && dup2(ends[1], STDERR_FILENO) == STDERR_FILENO && close(ends[1]) == 0);
    malloc_stats();
    CHECK(close(STDERR_FILENO) == 0);
    ssize_t n = read(ends[0], text, sizeof text);
    CHECK(n > 20 && text[n - 1] == '\n');
    free(p);
}
