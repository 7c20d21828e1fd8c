/* Threads over pthread and Linux futexes. Not here: mutexes (pthread's serve where nothing is hot), pools. Invariant: a
 * thread that failed to start needs no join. */
#define _GNU_SOURCE
#include "base/thread.h"

#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Signals are blocked around the creation, because a thread inherits the mask of its creator: blocking them in the new
 * thread itself would leave a moment in which a handler of the program runs there. The caller's mask is as before. The
 * name is set from outside, best effort; a name too long only stays away. A want of threads is reported as one of
 * memory, which it is nearly always: stacks, or the limit on processes. */
plait_status plait_thread_start(plait_thread *thread, const char *name, void *(*entry)(void *),
                                void *argument) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_t handle;
    int error = pthread_create(&handle, NULL, entry, argument);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error) return plait_error(PLAIT_OUT_OF_MEMORY, "thread %s: cannot start: %s", name, strerror(error));
    pthread_setname_np(handle, name);
    *thread = (plait_thread){.handle = handle, .started = true};
    return PLAIT_OK;
}

void plait_thread_join(plait_thread *thread) {
    if (thread->started) pthread_join(thread->handle, NULL);
    *thread = (plait_thread){0};
}

/* Both kinds of set are arrays of words, least number first: the system's of unsigned long. */
_Static_assert(sizeof(unsigned long) == sizeof(uint64_t), "words of a set are the system's");

/* An empty set where the system has more processors than the set holds; plait_os_processors then counts one. */
void plait_thread_processors(plait_cpuset *out) {
    *out = (plait_cpuset){0};
    if (sched_getaffinity(0, sizeof *out, (cpu_set_t *)out) != 0) *out = (plait_cpuset){0};
}

/* NULL is the calling thread. UNSUPPORTED and no failure of the whole: an unbound thread computes the same bytes. */
plait_status plait_thread_bind(const plait_thread *thread, const plait_cpuset *processors) {
    const cpu_set_t *set = (const cpu_set_t *)processors;
    int error = 0;
    if (thread)
        error = pthread_setaffinity_np(thread->handle, sizeof *processors, set);
    else if (sched_setaffinity(0, sizeof *processors, set) != 0)
        error = errno;
    if (error) return plait_error(PLAIT_UNSUPPORTED, "keeping threads to processors: %s", strerror(error));
    return PLAIT_OK;
}

/* Returns at once when *word differs from `expected` already: the kernel compares and goes to sleep in one step, so a
 * wake between the caller's look and the sleep is not lost. Signals and false wakes count as woken (true). The time is
 * relative, on the monotonic clock. */
bool plait_futex_wait(_Atomic uint32_t *word, uint32_t expected, uint64_t timeout_ns) {
    struct timespec t = {.tv_sec = (time_t)(timeout_ns / 1000000000u),
                         .tv_nsec = (long)(timeout_ns % 1000000000u)};
    long r =
        syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, expected, timeout_ns == UINT64_MAX ? NULL : &t, NULL, 0);
    return !(r < 0 && errno == ETIMEDOUT);
}

/* Wakes at most n waiters of this process; INT32_MAX is all of them. The word was changed before, or a waiter would go
 * back to sleep. */
void plait_futex_wake(_Atomic uint32_t *word, int32_t n) {
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, n, NULL, NULL, 0);
}
