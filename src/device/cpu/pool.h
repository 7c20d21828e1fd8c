/* The compute threads of a cpu device. The thread that asks for work is worker 0; the pool adds n_threads - 1.
 *
 * Work is a list of phases with a barrier between them; a phase is a number of units. Each worker has a home range
 * of units, contiguous and the same from phase to phase where the numbers are equal; it takes pieces of it from the
 * front, and when it is done takes pieces from the back of whoever is late. Home ranges are as long as the workers are
 * fast (share.h). Who computes a unit never changes its bytes.
 *
 * Idle workers spin for some tens of microseconds, then sleep on a futex; when there are fewer processors than workers
 * they never spin. While other pools of the process are at work and processors are short, a launch runs on as many
 * workers as find one (device/processors.h), with barriers among those. Nothing here allocates after creation.
 *
 * Neighbouring phases of at most one unit are run by worker 0 without barriers between them.
 */
#ifndef PLAIT_DEVICE_CPU_POOL_H
#define PLAIT_DEVICE_CPU_POOL_H

#include "device/cpu/share.h"

#include <stdint.h>

typedef struct plait_cpu_pool plait_cpu_pool;

typedef struct plait_cpu_work plait_cpu_work;
struct plait_cpu_work {
    int n_phases;
    const int64_t *units; /* of each phase */
    /* Does units [begin, end) of the phase. Called from any worker, several at once. */
    void (*run)(const plait_cpu_work *work, int phase, int64_t begin, int64_t end, int thread);
};

/* The workers of a share, the caller's thread included. Where the system refuses to bind threads, they run unbound. */
plait_status plait_cpu_pool_create(const plait_cpu_share *share, plait_cpu_pool **out);
/* Accepts NULL. */
void plait_cpu_pool_destroy(plait_cpu_pool *pool);
int plait_cpu_pool_threads(const plait_cpu_pool *pool);
/* Why the workers of a bound share run unbound; empty when they do not. */
const char *plait_cpu_pool_unbound_reason(const plait_cpu_pool *pool);

/* One thread at a time uses the pool: whoever holds it. Where workers are bound, the holder is bound like worker 0 until
 * it releases the pool; it then runs where it did before. */
void plait_cpu_pool_acquire(plait_cpu_pool *pool);
void plait_cpu_pool_release(plait_cpu_pool *pool);
/* Binds the calling thread like worker 0 for good, where workers are bound, so that acquiring need not. */
void plait_cpu_pool_adopt(const plait_cpu_pool *pool);
/* Runs all phases; returns when they are done. The caller holds the pool. */
void plait_cpu_pool_run(plait_cpu_pool *pool, const plait_cpu_work *work);

#endif
