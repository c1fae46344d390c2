// hakmem's own functions. Everything else it exports (malloc, free, operator new, ...) is declared by the headers of
// the C and C++ libraries. Made by cbindgen from src/api.rs: change it there, then run `BLESS=1 ci/header`.

#ifndef HAKMEM_H
#define HAKMEM_H

#include <stddef.h>
#include <stdint.h>

// Figures of the process. Bytes unless said otherwise.
struct hakmem_stats {
  // Blocks handed out so far; exact for threads at rest.
  uint64_t allocations;
  // Blocks that came back; lags behind by what threads have not passed on yet.
  uint64_t frees;
  // In blocks that are out; exact for threads at rest.
  uint64_t live_bytes;
  // No less than the most that `live_bytes` ever was.
  uint64_t peak_live_bytes_upper_bound;
  // Address space reserved.
  uint64_t reserved_bytes;
  // Made accessible.
  uint64_t committed_bytes;
  // Free, and not given back to the system yet.
  uint64_t dirty_bytes;
  // Given back to the system so far.
  uint64_t purged_bytes;
  // Calls of free with a pointer that is not hakmem's.
  uint64_t foreign_frees;
  // Thread heaps made so far.
  uint64_t heaps;
  // Frees by other threads than those that have the blocks' pages.
  uint64_t remote_frees;
  // Allocations up to 64 KiB that found their list empty.
  uint64_t refills;
  // Heaps of other running threads, whose lists are not known: without any the totals are exact.
  uint64_t running_heaps;
};

// Figures of a size class: blocks of one size, in all heaps.
struct hakmem_class_stats {
  // Bytes of a block.
  uint64_t size;
  // Blocks handed out.
  uint64_t allocations;
  // Blocks that came back to their pages.
  uint64_t frees;
  // Of these, freed by other threads.
  uint64_t remote_frees;
  // Allocations that found the list empty.
  uint64_t refills;
  // Pages now.
  uint64_t pages;
  // Bytes of these pages.
  uint64_t page_bytes;
  // Bytes of blocks that are out.
  uint64_t live_bytes;
};

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// The version, such as "0.1.0". Static.
const char *hakmem_version(void);

// Takes the figures of the process; allocates nothing.
//
// # Safety
// `out` is valid for writing.
void hakmem_stats(struct hakmem_stats *out);

// Takes the figures of up to `room` size classes, smallest blocks first; allocates nothing. Returns how many there are.
//
// # Safety
// `out` is valid for writing `room` of them, or NULL with a `room` of 0.
size_t hakmem_class_stats(struct hakmem_class_stats *out,
                          size_t room);

// Writes a report to a file descriptor: "text", "json" or "csv", as HAKMEM_STATS does at exit. 0, or -1 if there is no
// such form, no memory for it, or it could not be written as a whole.
//
// # Safety
// `form` is a C string.
int hakmem_report(int fd,
                  const char *form);

// Sets an option while the program runs, by its name and as the environment could have it: hakmem_set_option("DECAY_MS",
// "1000"). `hakmem options` lists them. 0; -1 and errno EINVAL, and nothing has changed, if there is no such option, it
// takes other values, or it is read at start alone (STATS, STATS_SIGNAL).
//
// # Safety
// Both are C strings.
int hakmem_set_option(const char *name,
                      const char *value);

// Writes an option's value to `value`, up to `room` bytes with the NUL behind it, in the form that hakmem_set_option takes.
// Returns the length of all of it without the NUL, as snprintf does; -1 and errno EINVAL if there is no such option.
//
// # Safety
// `name` is a C string; `value` is valid for writing `room` bytes, or NULL with a `room` of 0.
int hakmem_get_option(const char *name,
                      char *value,
                      size_t room);

// Writes to a file descriptor what each slot of the heap holds, as JSON, for `hakmem map` to draw. 0, or -1 if there is no
// memory for it, or it could not be written as a whole.
int hakmem_map(int fd);

// Begins to sample allocations for the heap profile, one for each `interval` bytes on average; 0: for 524288. 0, or -1 if the
// profile began with another interval before. See HAKMEM_PROFILE.
int hakmem_profile_start(size_t interval);

// Takes no more samples. Frees of those that there are go on being seen.
void hakmem_profile_stop(void);

// Writes the heap profile to a file descriptor, as `hakmem profile --file FILE` and pprof read it. 0, or -1 if none was started,
// there is no memory for it, or it could not be written as a whole.
int hakmem_profile_dump(int fd);

// Gives all free memory back to the system now; 1 if there was any, else 0.
int hakmem_trim(void);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* HAKMEM_H */
