// hakmem's own functions. The headers of the C and C++ libraries declare everything else that the
// library exports (malloc, free, operator new, ...). cbindgen makes this file from src/api.rs:
// change it there, then run `BLESS=1 ci/header`.

#ifndef HAKMEM_H
#define HAKMEM_H

#include <stddef.h>
#include <stdint.h>

// Figures of the process.
struct hakmem_stats {
  // Blocks allocated so far. Exact if `running_heaps` is 0.
  uint64_t allocations;
  // Blocks freed so far. Exact if `running_heaps` is 0.
  uint64_t frees;
  // Bytes of live blocks. Exact if `running_heaps` is 0.
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
  // Frees by a thread that does not hold the heap of the block's page.
  uint64_t remote_frees;
  // Allocations up to 64 KiB that found the free list empty.
  uint64_t refills;
  // Heaps of other running threads: their lists are not known.
  uint64_t running_heaps;
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
// not one of its values, or if hakmem reads the option only at the start (STATS, STATS_SIGNAL).
//
// # Safety
// `name` and `value` are C strings.
int hakmem_set_option(const char *name, const char *value);

// Writes an option's value to `value`, at most `room` bytes with the NUL, in the form that
// hakmem_set_option takes. Returns the length of the whole value without the NUL, as snprintf
// does. Returns -1 and sets errno to EINVAL if there is no such option.
//
// # Safety
// `name` is a C string. `value` is valid for writing `room` bytes, or NULL with a `room` of 0.
int hakmem_get_option(const char *name, char *value, size_t room);

// Writes a map to a file descriptor: what each slot of the heap holds, as JSON, for `hakmem map`
// to draw. Returns 0, or -1 if there is no memory for the map, or if not all of it could be
// written.
int hakmem_map(int fd);

// Begins to sample allocations for the heap profile, one in `interval` bytes on average. An
// `interval` of 0 stands for 524288 bytes. If the profile is on, it goes on with the new interval.
// Returns 0, or -1 if there is no such interval, or if a fork has cut the profile short in this
// process. See HAKMEM_PROFILE.
int hakmem_profile_start(size_t interval);

// Takes no more samples. The profile still notices frees of the existing samples.
void hakmem_profile_stop(void);

// Writes the heap profile to a file descriptor, in the form that `hakmem profile --file FILE` and
// pprof read. Returns 0, or -1 if no profile was started, if there is no memory for it, or if not
// all of it could be written.
int hakmem_profile_dump(int fd);

// Gives free memory back to the system now: what is free in the calling thread's heap, in the
// heaps of ended threads, and in no heap. Returns 1 if there was any, else 0.
int hakmem_trim(void);

// Gives up what is free in the calling thread's heap: its free lists, its empty pages, and blocks
// of other threads that it freed. For a thread that is about to sleep. The memory serves other
// threads at once, and goes back to the system after the decay. Keeps errno.
void hakmem_thread_idle(void);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* HAKMEM_H */
