/* Runs on hakmem, says "ready" and waits. Before that it changes what a reader from outside finds in its memory, as its
   arguments say. Numbers are hexadecimal.
     NAME=VALUE           the entry of the note gets this value: a number, or for @NAME an address
     NAME:OTHER           the entry gets another name, of the same length; %XX is a byte
     word PLACE NAME VALUE    the word at the address @PLACE, plus the number NAME
     heap NAME VALUE      the same of the newest heap
     loop                 the list of heaps leads back to its beginning
     cycle                a list of free blocks of the newest heap that leads back to its beginning
     span VALUE           the first huge has so many segments
     heaps VALUE          there are so many heaps more
     segments             every segment there can be is in use, in an arena of 32 TiB
     name TEXT            the name of the process */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

static char *note, *end;

static void writable(void *at) {
    char *page = (char *)((uintptr_t)at & ~4095ul);
    if (mprotect(page, 8192, PROT_READ | PROT_WRITE) != 0)
        mprotect(page, 4096, PROT_READ | PROT_WRITE);
}

static void find_note(void) {
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[4096];
    while (note == NULL && maps != NULL && fgets(line, sizeof line, maps) != NULL) {
        unsigned long from, to, offset;
        if (strstr(line, "libhakmem") == NULL || sscanf(line, "%lx-%lx %*s %lx", &from, &to, &offset) != 3 || offset != 0)
            continue;
        static const char owner[] = "\1\0\0\0hakmem\0";
        note = memmem((void *)from, to - from, owner, sizeof owner);
        if (note == NULL)
            continue;
        uint32_t length;
        memcpy(&length, note - 4, 4);
        note += sizeof owner;
        end = note + length;
    }
    if (note == NULL)
        _exit(3);
}

/* The eight bytes of an entry. */
static char *entry(const char *name) {
    for (char *at = note; at < end; at += strlen(at) + 9)
        if (strcmp(at, name) == 0)
            return at + strlen(at) + 1;
    fprintf(stderr, "no %s\n", name);
    _exit(4);
}

static uint64_t number(const char *name) {
    uint64_t value;
    memcpy(&value, entry(name), 8);
    return value;
}

static char *place(const char *name) {
    char *at = entry(name);
    uint64_t value;
    memcpy(&value, at, 8);
    return at + value;
}

static void set(char *name) {
    char *value = strchr(name, '=');
    *value++ = 0;
    char *at = entry(name);
    uint64_t n = strtoull(value, NULL, 16);
    if (name[0] == '@')
        n -= (uintptr_t)at;
    memcpy(at, &n, 8);
}

static void rename_entry(char *name) {
    char *other = strchr(name, ':');
    *other++ = 0;
    char *at = entry(name) - strlen(name) - 1;
    for (; *other != 0; other++, at++) {
        unsigned byte = (unsigned char)*other;
        if (byte == '%' && sscanf(other + 1, "%2x", &byte) == 1)
            other += 2;
        *at = (char)byte;
    }
}

static char *memory(size_t bytes, int rights) {
    char *at = mmap(NULL, bytes, rights, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED)
        _exit(5);
    return at;
}

int main(int argc, char **argv) {
    void *blocks[40];
    for (int i = 0; i < 40; i++)
        memset(blocks[i] = malloc(3000), 1, 3000);
    for (int i = 0; i < 20; i++)
        free(blocks[i]);
    *(volatile char *)malloc(200 << 10) = 1;
    *(volatile char *)malloc(5 << 20) = 1;
    find_note();
    for (char *at = (char *)((uintptr_t)note & ~4095ul); at < end; at += 4096)
        writable(at);
    char *heap = *(char **)place("@heaps");
    /* What the note says is read before it is changed: words come first. */
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "word") == 0) {
            char *at = place(argv[i + 1]) + number(argv[i + 2]);
            writable(at);
            *(uint64_t *)at = strtoull(argv[i + 3], NULL, 16);
            i += 3;
        } else if (strcmp(argv[i], "heap") == 0) {
            *(uint64_t *)(heap + number(argv[i + 1])) = strtoull(argv[i + 2], NULL, 16);
            i += 2;
        } else if (strcmp(argv[i], "loop") == 0) {
            *(char **)(heap + number("heap.next")) = heap;
        } else if (strcmp(argv[i], "cycle") == 0) {
            static void *ring[2] __attribute__((aligned(16)));
            ring[0] = ring;
            for (unsigned class = 0; class < number("classes"); class++)
                *(void **)(heap + number("heap.lists") + 8 * class) = ring;
        } else if (strcmp(argv[i], "span") == 0) {
            char *meta = *(char **)(place("@arenas") + number("arena.metas"));
            while (meta[number("meta.kind")] != 4)
                meta += number("meta_bytes") * number("segment_bytes") / number("slot_bytes");
            *(uint32_t *)(meta + number("meta.span")) = (uint32_t)strtoull(argv[++i], NULL, 16);
        } else if (strcmp(argv[i], "heaps") == 0) {
            size_t more = strtoull(argv[++i], NULL, 16), size = number("heap_bytes");
            char *all = memory(more * size, PROT_READ | PROT_WRITE);
            for (size_t n = 0; n < more; n++) {
                *(char **)(all + n * size + number("heap.next")) = heap;
                heap = all + n * size;
            }
            *(char **)place("@heaps") = heap;
        } else if (strcmp(argv[i], "segments") == 0) {
            size_t groups = 1 << 18, bytes = groups * number("group_bytes");
            char *arena = place("@arenas"), *used = memory(bytes, PROT_READ | PROT_WRITE);
            memset(used, 0xff, bytes);
            writable(arena);
            *(char **)(arena + number("arena.groups")) = used;
            *(char **)(arena + number("arena.metas")) = memory(groups * 64 * 4096, PROT_READ);
            *(size_t *)(arena + number("arena.top")) = groups;
        } else if (strcmp(argv[i], "name") == 0) {
            prctl(PR_SET_NAME, argv[++i]);
        } else if (strchr(argv[i], '=') != NULL) {
            set(argv[i]);
        } else {
            rename_entry(argv[i]);
        }
    }
    char byte;
    if (write(1, "ready\n", 6) != 6 || read(0, &byte, 1) < 0)
        _exit(9);
    _exit(0);
}
