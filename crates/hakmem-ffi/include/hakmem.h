// hakmem's own functions. Everything else it exports (malloc, free, operator new, ...) is declared by the headers of
// the C and C++ libraries. Made by cbindgen from src/api.rs: change it there, then run `HAKMEM_BLESS=1 ci/header`.

#ifndef HAKMEM_H
#define HAKMEM_H

#include <stdint.h>

// Figures of the process. Bytes unless said otherwise.
struct hakmem_stats {
  // Blocks handed out so far; exact for threads at rest.
  uint64_t allocations;
  // Blocks that came back; lags behind by what threads have not passed on yet.
  uint64_t frees;
  // In blocks that are out, at most.
  uint64_t live_bytes;
  // The highest that `live_bytes` was.
  uint64_t peak_live_bytes;
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

// Gives all free memory back to the system now; 1 if there was any, else 0.
int hakmem_trim(void);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* HAKMEM_H */
