// hakmem's own functions. The headers of the C and C++ libraries declare everything else that the
// library exports (malloc, free, operator new, ...). cbindgen makes this file from src/api.rs
// and src/heaps.rs: change it there, then run `BLESS=1 ci/header`.

#ifndef HAKMEM_H
#define HAKMEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// A heap that the program makes, limits, and drops as a whole. Its blocks come from functions that
// name the heap, or from ordinary calls of a thread that is in a scope of it (hakmem_heap_enter).
//
// - Any thread may use a heap. It has a lock of its own.
// - Every block can be freed by free, and by C++ delete in the ordinary build. realloc of a block
//   moves it to a heap of the calling thread, or of its scope.
// - The limit is for the live bytes of the heap, of both kinds of blocks. Each block counts with
//   its usable size. A request beyond the limit gets NULL and ENOMEM, and changes nothing else.
// - A call with a heap that was deleted ends the process with a line that says so. (It is missed
//   once 8191 other heaps had the same place.) With NULL, as if the heap had no memory, allocation
//   fails and the other functions do nothing.
struct hakmem_heap;

// Figures of the process.
struct hakmem_stats {
  // Blocks allocated so far. Exact if `running_heaps` is 0.
  uint64_t allocations;
  // Blocks freed so far. Exact if `running_heaps` is 0.
  uint64_t frees;
  // Bytes of live blocks, and of blocks that a thread freed for another heap and that are on
  // their way. hakmem_trim delivers those for ended threads and for the calling one. Exact but
  // for them if `running_heaps` is 0.
  uint64_t live_bytes;
  // At least the highest value that `live_bytes` ever had.
  uint64_t peak_live_bytes_upper_bound;
  // Bytes of reserved address space.
  uint64_t reserved_bytes;
  // Bytes of it that are accessible.
  uint64_t committed_bytes;
  // Free bytes that hakmem has not given back to the system yet.
  uint64_t dirty_bytes;
  // Bytes given back to the system so far.
  uint64_t purged_bytes;
  // Calls of free with a foreign pointer: one that is not from hakmem.
  uint64_t foreign_frees;
  // Thread heaps made so far.
  uint64_t heaps;
  // Frees by a thread that does not hold the heap of the block's page. A block that stays with
  // such a thread is none until the thread sends it.
  uint64_t remote_frees;
  // Allocations up to 64 KiB that found the free list empty.
  uint64_t refills;
  // Heaps of other running threads: their lists are not known.
  uint64_t running_heaps;
  // Blocks of `remote_frees` that have not reached the owner of their page. They count in
  // `live_bytes`.
  uint64_t in_flight;
};

// Figures of a size class: blocks of one size, in all heaps.
struct hakmem_class_stats {
  // Bytes of a block.
  uint64_t size;
  // Blocks allocated.
  uint64_t allocations;
  // Blocks freed that have reached the owner of their page.
  uint64_t frees;
  // Of these, blocks that another thread freed.
  uint64_t remote_frees;
  // Allocations that found the free list empty.
  uint64_t refills;
  // Pages now.
  uint64_t pages;
  // Bytes of these pages.
  uint64_t page_bytes;
  // Bytes of live blocks.
  uint64_t live_bytes;
};

// The memory of the process that hakmem manages, in bytes. allocated <= active <= resident <=
// mapped.
struct hakmem_gauges {
  // Live blocks.
  uint64_t allocated;
  // Slots and segments that pages, large blocks and huge blocks have.
  uint64_t active;
  // What hakmem knows of the memory.
  uint64_t metadata;
  // What may be in memory now, an upper bound: active, metadata, and free memory that was not
  // given back yet.
  uint64_t resident;
  // What is accessible.
  uint64_t mapped;
  // Address space that is reserved and not accessible. It costs no memory.
  uint64_t retained;
};

// The hard limit of the process, HARD_LIMIT_MIB, and what it has refused.
struct hakmem_limit {
  // Bytes that count: memory for blocks that may be resident, in use or free.
  uint64_t held;
  // The limit in bytes. 0: there is none.
  uint64_t hard;
  // Requests that failed because of it.
  uint64_t refused;
};

// Figures of a heap that the program made.
struct hakmem_heap_stats {
  // Bytes of live blocks.
  uint64_t live_bytes;
  // The most that `live_bytes` was.
  uint64_t peak_live_bytes;
  // The most that it may be; UINT64_MAX: there is no limit.
  uint64_t limit_bytes;
  // Blocks allocated.
  uint64_t allocations;
  // Blocks that came back: freed, or given back by a reset.
  uint64_t frees;
  // Requests that would have passed the limit.
  uint64_t refused;
  // Bytes of the memory that the heap has, with free blocks and what it reserved.
  uint64_t held_bytes;
  // Bytes that it reserved.
  uint64_t reserved_bytes;
};

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// The version, such as "0.1.0". The string is static.
const char *hakmem_version(void);

// Takes the figures of the process. Allocates nothing.
//
// # Safety
// `out` is aligned and valid for writing.
void hakmem_stats(struct hakmem_stats *out);

// Takes the figures of up to `room` size classes, smallest blocks first. Allocates nothing.
// Returns the number of all size classes.
//
// # Safety
// `out` is aligned and valid for writing `room` of them, or NULL with a `room` of 0.
size_t hakmem_class_stats(struct hakmem_class_stats *out, size_t room);

// Writes a report to a file descriptor, as HAKMEM_STATS does at exit. `form` is "text", "json" or
// "csv". Returns 0, or -1 if there is no such form, if there is no memory for the report, or if
// not all of it could be written.
//
// # Safety
// `form` is a C string.
int hakmem_report(int fd, const char *form);

// Sets an option while the program runs. Name and value are as in the environment, without
// HAKMEM_: hakmem_set_option("DECAY_MS", "1000"). `hakmem options` lists the options. Returns 0.
// Returns -1, sets errno to EINVAL and changes nothing if there is no such option, if the value is
// not one of its values, or if hakmem reads the option only at the start. These are STATS,
// STATS_SIGNAL, MAP, PROFILE, PROFILE_SIGNAL and ERRORS, and HARDENED in the hardened build.
//
// # Safety
// `name` and `value` are C strings.
int hakmem_set_option(const char *name, const char *value);

// Writes an option's value to `value`, at most `room` bytes with the NUL, in the form that
// hakmem_set_option takes. Returns the length of the whole value without the NUL, as snprintf
// does. Returns -1 and sets errno to EINVAL if there is no such option, or if it is STATS,
// STATS_SIGNAL, MAP, PROFILE, PROFILE_SIGNAL or ERRORS, which hakmem reads only at the start.
//
// # Safety
// `name` is a C string. `value` is valid for writing `room` bytes, or NULL with a `room` of 0.
int hakmem_get_option(const char *name, char *value, size_t room);

// Writes a map to a file descriptor: what each slot of the heap holds, as JSON, for `hakmem map`
// to draw. Returns 0, or -1 if there is no memory for the map, or if not all of it could be
// written.
int hakmem_map(int fd);

// Begins to sample allocations for the heap profile, one in `interval` bytes on average. An
// `interval` of 0 stands for the option PROFILE_INTERVAL, which is 524288 bytes if nobody set it.
// If the profile is on, it goes on with the new interval. Returns 0, or -1 if there is no such
// interval, or if a fork has cut the profile short in this process. See HAKMEM_PROFILE.
int hakmem_profile_start(size_t interval);

// Takes no more samples. The profile still notices frees of the existing samples.
void hakmem_profile_stop(void);

// Writes the heap profile to a file descriptor, in the form that `hakmem profile --file FILE` and
// pprof read. Returns 0, or -1 if no profile was started, if there is no memory for it, if another
// thread is in a fork that takes a tenth of a second, or if not all of it could be written.
int hakmem_profile_dump(int fd);

// Reads the gauges. Costs about as much as hakmem_stats, for the sake of `allocated`. Allocates
// nothing.
//
// # Safety
// `out` is aligned and valid for writing.
void hakmem_gauges(struct hakmem_gauges *out);

// Reads the hard limit, what is held of it, and what it has refused. O(1), allocates nothing.
//
// # Safety
// `out` is aligned and valid for writing.
void hakmem_limit(struct hakmem_limit *out);

// Sets what hakmem calls before an allocation fails with ENOMEM, because it would exceed
// HARD_LIMIT_MIB or the system has no more memory; NULL for nothing. hakmem calls it on the
// allocating thread, holds no lock then, and passes the bytes of the request, up to 65,536 those
// of the block that it would get. The callback may free and allocate, but must use nothing that
// the program may be changing at that moment; it must not leave by longjmp or an exception. If it
// returns true, the allocation is tried once more.
void hakmem_set_limit_callback(bool (*callback)(size_t size));

// Gives free memory of the whole process back to the system now: what hakmem_trim gives, and what
// is unused in the heaps of other threads, which it pauses for a moment. Under a filter for system
// calls it pauses none. Returns the bytes.
size_t hakmem_purge_all(void);

// Gives free memory back to the system now: what is free in the calling thread's heap, in the
// heaps of ended threads, and in no heap. Returns 1 if there was any, else 0.
int hakmem_trim(void);

// Gives up what is free in the calling thread's heap: its free lists, its empty pages, and blocks
// of other threads that it freed. For a thread that is about to sleep. The memory serves other
// threads at once, and goes back to the system after the decay. Keeps errno.
void hakmem_thread_idle(void);

// Makes a heap. `name` is for reports; NULL: it has none. A `limit` of 0 is none. Returns NULL
// with errno ENOMEM if there is no memory.
//
// # Safety
// `name` is NULL or a C string.
struct hakmem_heap *hakmem_heap_new(const char *name, size_t limit);

// malloc from the heap.
//
// # Safety
// `heap` is NULL or from hakmem_heap_new.
void *hakmem_heap_malloc(struct hakmem_heap *heap, size_t size);

// calloc from the heap.
//
// # Safety
// `heap` is NULL or from hakmem_heap_new.
void *hakmem_heap_calloc(struct hakmem_heap *heap, size_t n, size_t size);

// aligned_alloc from the heap. An alignment that is 0 or no power of two gives NULL and EINVAL.
//
// # Safety
// `heap` is NULL or from hakmem_heap_new.
void *hakmem_heap_aligned_alloc(struct hakmem_heap *heap, size_t alignment, size_t size);

// realloc within the heap: with NULL it allocates, with a size of 0 it frees and returns NULL. A
// failure leaves the block as it was. A block of another heap ends the process.
//
// # Safety
// `heap` is NULL or from hakmem_heap_new. `p` is NULL or a live block of it, and the caller's.
void *hakmem_heap_realloc(struct hakmem_heap *heap, void *p, size_t size);

// Frees a block of the heap. Ignores NULL, and leaves errno alone. A block of another heap ends
// the process.
//
// # Safety
// `heap` is NULL or from hakmem_heap_new. `p` is NULL or a live block of it, and the caller's.
void hakmem_heap_free(struct hakmem_heap *heap, void *p);

// Gives back all blocks of the heap at once, but not those of its scopes. The limit and what was
// reserved stay. If nothing was, a page of 64 KiB stays for each size up to 8 KiB in use, until
// malloc_trim.
// Returns 0, or -1 with errno EINVAL for NULL.
//
// # Safety
// `heap` is NULL or from hakmem_heap_new. Nobody uses a block of the heap any more, but those of
// its scopes.
int hakmem_heap_reset(struct hakmem_heap *heap);

// Deletes the heap, and gives back all of its blocks but those of its scopes. The memory of these
// goes back when the last of them is freed. Returns 0, or -1 with errno EBUSY if a thread is in a
// scope of the heap: then nothing was done. Ignores NULL.
//
// # Safety
// As hakmem_heap_reset, and nobody uses the heap any more.
int hakmem_heap_delete(struct hakmem_heap *heap);

// Begins a scope: from now on malloc, new and the like get memory from the heap when this thread
// calls them. The program frees these blocks as usual, whenever it likes, also after
// hakmem_heap_delete. Scopes nest. A thread that ends leaves its scopes. Returns 0, or -1 with
// errno ENOMEM if there is no memory, if `heap` is NULL, or late in the end of the thread: then
// there is no scope to leave.
//
// # Safety
// `heap` is NULL or from hakmem_heap_new.
int hakmem_heap_enter(struct hakmem_heap *heap);

// Ends the scope that this thread entered last. Returns 0, or -1 with errno EINVAL if it is none
// of this heap: then nothing was done.
//
// # Safety
// `heap` is NULL or from hakmem_heap_new.
int hakmem_heap_leave(struct hakmem_heap *heap);

// Sets the limit of live bytes; 0: there is none. What is live stays. Ignores NULL.
//
// # Safety
// `heap` is NULL or from hakmem_heap_new.
void hakmem_heap_set_limit(struct hakmem_heap *heap, size_t limit);

// Takes memory for `bytes` bytes more, in steps of 2 MiB and up to 512 MiB in all, and makes it
// resident. From then on the heap makes no system call as long as its blocks of up to 1 MiB fit in
// there. Returns 0, or -1 with errno ENOMEM. Beyond 512 MiB nothing changes. If there is no
// memory, what was reserved before stays.
//
// # Safety
// `heap` is NULL or from hakmem_heap_new.
int hakmem_heap_reserve(struct hakmem_heap *heap, size_t bytes);

// Gets the figures of the heap. For NULL, all of them are 0.
//
// # Safety
// `heap` is NULL or from hakmem_heap_new. `out` is aligned and valid for writing.
void hakmem_heap_get_stats(struct hakmem_heap *heap, struct hakmem_heap_stats *out);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* HAKMEM_H */
