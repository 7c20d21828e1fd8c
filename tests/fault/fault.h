/* Memory that runs out on demand. Tests in tests/fault are linked so that every malloc, calloc, realloc, aligned_alloc
 * and free of plait's own code comes here first; one allocation can be made to fail, and what is alive is counted. Not
 * here: memory that libraries take for themselves, which plait does not decide about.
 *
 * Counting is per process and safe from any thread. */
#ifndef PLAIT_TESTS_FAULT_FAULT_H
#define PLAIT_TESTS_FAULT_FAULT_H

#include "plait/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Makes the nth allocation from now fail, once (1: the next); 0: none. */
void fault_arm(uint64_t nth);
/* True when an allocation has been made to fail since fault_arm. */
bool fault_hit(void);

/* Allocations asked for since the process began, failed ones too. The difference of two readings around a step must
 * be 0 where a step may not allocate. */
uint64_t fault_allocations(void);
/* Blocks and bytes that are allocated and not yet freed. */
size_t fault_live_blocks(void);
size_t fault_live_bytes(void);

/* A whole life of something: makes it, uses it, destroys it, and returns the first failure. */
typedef plait_status (*fault_fn)(void *user);

/* Runs fn with its first allocation failing, then with its second, and so on until it needs no more; a last run in
 * which none fails must succeed. Each failed run must return OUT_OF_MEMORY, leave a message of its own, and have freed
 * all that it took. Fails the cmocka test otherwise. Returns the number of allocations that were made to fail, which is
 * printed as well. */
uint64_t fault_each_named(const char *name, fault_fn fn, void *user);
#define fault_each(fn, user) fault_each_named(#fn, fn, user)

#endif
