/* The compute threads of a cpu device. The thread that asks for work is worker 0; the pool adds n_threads - 1.
 *
 * Work is a list of phases with a barrier between them; a phase is a number of units. Each worker has a home range
 * of units, contiguous and the same from phase to phase where the numbers are equal; it takes pieces of it from the
 * front, and when it is done takes pieces from the back of whoever is late. Who computes a unit never changes its
 * bytes. Idle workers spin for some tens of microseconds, then sleep on a futex; when there are fewer processors
 * than workers they never spin. Nothing here allocates after creation.
 *
 * Neighbouring phases of at most one unit are run by worker 0 without barriers between them.
 */
#ifndef PLAIT_DEVICE_CPU_POOL_H
#define PLAIT_DEVICE_CPU_POOL_H

#include "plait/status.h"

#include <stdint.h>

#define PLAIT_CPU_MAX_THREADS 256

typedef struct plait_cpu_pool plait_cpu_pool;

typedef struct plait_cpu_work plait_cpu_work;
struct plait_cpu_work {
    int n_phases;
    const int64_t *units; /* of each phase */
    /* Does units [begin, end) of the phase. Called from any worker, several at once. */
    void (*run)(const plait_cpu_work *work, int phase, int64_t begin, int64_t end, int thread);
};

/* 1 to PLAIT_CPU_MAX_THREADS workers, the caller's thread included. */
plait_status plait_cpu_pool_create(int n_threads, plait_cpu_pool **out);
void plait_cpu_pool_destroy(plait_cpu_pool *pool);
int plait_cpu_pool_threads(const plait_cpu_pool *pool);

/* One thread at a time uses the pool: whoever holds it. */
void plait_cpu_pool_acquire(plait_cpu_pool *pool);
void plait_cpu_pool_release(plait_cpu_pool *pool);
/* Runs all phases; returns when they are done. The caller holds the pool. */
void plait_cpu_pool_run(plait_cpu_pool *pool, const plait_cpu_work *work);

#endif
