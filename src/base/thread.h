/* Threads and the two ways to wait: a futex word for the hot path, nothing else. Not here: pools of workers
 * (a device owns those) and queues. */
#ifndef PLAIT_BASE_THREAD_H
#define PLAIT_BASE_THREAD_H

#include "base/cpuset.h"
#include "base/status.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct plait_thread {
    pthread_t handle;
    bool started;
} plait_thread;

/* Starts a thread that blocks all signals, so that the program's handlers run on its own threads. `name` (up
 * to 15 bytes) shows in debuggers. */
plait_status plait_thread_start(plait_thread *thread, const char *name, void *(*entry)(void *),
                                void *argument);
/* Waits for its end. Accepts a zeroed thread. */
void plait_thread_join(plait_thread *thread);

/* Processors on which the calling thread may run. An empty set when the system does not tell. */
void plait_thread_processors(plait_cpuset *out);
/* Keeps a thread to these processors; NULL: the calling one. UNSUPPORTED with the system's reason when it refuses (none
 * of them is at hand, or a sandbox forbids it): the thread then runs where it did. */
plait_status plait_thread_bind(const plait_thread *thread, const plait_cpuset *processors);

/* Sleeps while *word == expected, for at most timeout_ns (UINT64_MAX: for ever). May wake early for no reason:
 * callers loop. Returns false when the time is over. */
bool plait_futex_wait(_Atomic uint32_t *word, uint32_t expected, uint64_t timeout_ns);
/* Wakes up to `n` sleepers on the word; pass INT32_MAX for all. */
void plait_futex_wake(_Atomic uint32_t *word, int32_t n);

/* Tells the processor that this is a spin loop. */
static inline void plait_cpu_relax(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

#endif
