/* Workers, barriers and ranges. Invariants: a worker touches the shared work only between the start of a launch that it
 * takes part in and its arrival at the last barrier; the range of a worker for phase p + 1 is published before it arrives
 * at the barrier behind phase p, in the other of two sets, which nobody reads any more at that time.
 *
 * A launch has the workers [0, n) with n from device/processors.h. Its number and n are one word, so that a worker that is
 * left out never reads what the next launch is already writing: it learns from the word alone that it is left out. */
#include "device/cpu/pool.h"

#include "base/alloc.h"
#include "base/os.h"
#include "base/size.h"
#include "base/status.h"
#include "base/thread.h"
#include "device/processors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* MOST_SPIN_NS, LEAST_SPIN_NS: between them each worker's spin times adapt. TAKE_SHARE: a worker takes a quarter of
 * what is left of a range, so pieces get smaller towards its end, where somebody may come to help. */
enum {
    WORKER_BITS = 9, /* of the launch word: number of workers, at most PLAIT_CPU_MAX_THREADS */
    MOST_SPIN_NS = 30000,
    LEAST_SPIN_NS = 500,
    SPINS_PER_LOOK = 16,   /* at the clock, which costs as much as some of them */
    SPINS_BEFORE_HELP = 4, /* a worker that is this much later than another is late */
    TAKE_SHARE = 4
};

/* What is left of a worker's home range: next unit in the upper half, end in the lower one. And for how long the worker
 * spins at a barrier and when idle: longer after a spin that was worth it, shorter after one that was not, so that a
 * busy machine gets its processors back. */
typedef struct home_range {
    _Alignas(64) _Atomic uint64_t left[2];
    uint64_t barrier_spin_ns, idle_spin_ns; /* of the worker itself */
    uint32_t before_barrier;                /* arrivals before its next barrier; of the worker itself */
} home_range;

typedef struct worker {
    plait_cpu_pool *pool;
    int number;
    plait_thread thread;
} worker;

_Static_assert(PLAIT_CPU_MAX_THREADS < 1 << WORKER_BITS,
               "the launch word has room for the number of workers");

struct plait_cpu_pool {
    /* Number of the launch, and below WORKER_BITS how many workers it has; futex word of idle workers. */
    _Alignas(64) _Atomic uint32_t launch;
    _Atomic uint32_t sleeping; /* on `launch` */
    _Atomic bool stop;
    const plait_cpu_work *work;
    int n_workers;         /* of the launch */
    uint32_t first_before; /* `arrived` when the launch began */
    /* Arrivals at barriers since the beginning, modulo 2^32: a barrier is passed when it has grown by n_workers. Also
     * the futex word of those who wait. One word, so that an arrival is one transfer between processors. */
    _Alignas(64) _Atomic uint32_t arrived;
    _Alignas(64) _Atomic uint32_t waiting; /* asleep on `arrived` */
    _Alignas(64) pthread_mutex_t holder;
    plait_cpu_share share;
    plait_processor_user user;
    plait_cpuset holder_processors; /* where the holder ran before */
    int n_threads;
    bool may_spin, holder_ready, bound, even;
    char unbound_reason[96];
    home_range *ranges; /* Owned. One a worker. */
    worker *workers;    /* Owned. n_threads; the first one has no thread. */
    uint32_t *weights;  /* Owned. n_threads + 1: weights[i] is what workers [0, i) weigh together */
};

/* ---- waiting ---- */

/* Spins until *word - before >= n; false when the time is over. The difference is taken modulo 2^32, so words may wrap.
 * The clock is read once in SPINS_PER_LOOK looks, and the time begins with its first reading: the shortest waits never
 * read it. *spin_ns doubles after success and halves after failure, between LEAST_SPIN_NS and MOST_SPIN_NS. */
static bool spin(_Atomic uint32_t *word, uint32_t before, uint32_t n, uint64_t *spin_ns) {
    uint64_t start = 0, now = 0;
    do {
        for (int i = 0; i < SPINS_PER_LOOK; i++) {
            if (atomic_load_explicit(word, memory_order_acquire) - before >= n) {
                *spin_ns = *spin_ns < MOST_SPIN_NS / 2 ? 2 * *spin_ns : MOST_SPIN_NS;
                return true;
            }
            plait_cpu_relax();
        }
        now = plait_time_ns();
        if (start == 0) start = now;
    } while (now - start < *spin_ns);
    *spin_ns = *spin_ns > 2 * LEAST_SPIN_NS ? *spin_ns / 2 : LEAST_SPIN_NS;
    return false;
}

/* Returns when *word - before >= n. A sleeper counts itself before it looks at the word, and who changes the word does
 * so before it looks at the count, both sequentially consistent: none of them misses the other. The futex compares the
 * word once more. */
static void wait_growth(bool may_spin, _Atomic uint32_t *word, _Atomic uint32_t *sleepers, uint32_t before,
                        uint32_t n, uint64_t *spin_ns) {
    if (may_spin && spin(word, before, n, spin_ns)) return;
    atomic_fetch_add(sleepers, 1);
    for (uint32_t value; (value = atomic_load(word)) - before < n;) plait_futex_wait(word, value, UINT64_MAX);
    atomic_fetch_sub(sleepers, 1);
}

/* After the word was changed. Without sleepers it costs a load and no system call. */
static void wake(_Atomic uint32_t *word, _Atomic uint32_t *sleepers) {
    if (atomic_load(sleepers)) plait_futex_wake(word, INT32_MAX);
}

/* The last one to arrive wakes the sleepers and goes on without waiting. `before` is the worker's own: what `arrived`
 * was when the phase began follows from how many barriers of this launch it has passed, so nobody has to reset a
 * counter. */
static void barrier(plait_cpu_pool *pool, int thread) {
    home_range *own = &pool->ranges[thread];
    uint32_t before = own->before_barrier, n = (uint32_t)pool->n_workers;
    own->before_barrier += n;
    if (atomic_fetch_add(&pool->arrived, 1) + 1 - before == n)
        wake(&pool->arrived, &pool->waiting);
    else
        wait_growth(pool->may_spin, &pool->arrived, &pool->waiting, before, n, &own->barrier_spin_ns);
}

/* ---- units ---- */

/* Ranges are 32 bits wide; phases with more units count in grains. */
static int64_t grain_of(int64_t units) {
    return units / INT32_MAX + 1;
}

/* A range as one word, so that owner and helpers take from both ends with one compare-and-swap. */
static uint64_t pair(int64_t next, int64_t end) {
    return (uint64_t)next << 32 | (uint64_t)end;
}

/* Where the home range of a worker begins, of n units: the same for equal n, so that rows stay with their worker, in
 * whose cache they are. n is below 2^31 and weights together below 2^19, so the product is far from 2^63. */
static int64_t home_start(const plait_cpu_pool *pool, int64_t n, int thread) {
    if (pool->even) return plait_part_start(n, thread, pool->n_workers);
    return n * pool->weights[thread] / pool->weights[pool->n_workers];
}

/* The range is one worker's own part, in grains, whose number is at most INT32_MAX. Released by the store, and by the
 * barrier that follows: helpers read it behind that. */
static void publish(plait_cpu_pool *pool, const plait_cpu_work *work, int phase, int thread) {
    int64_t units = work->units[phase], grain = grain_of(units), n = (units + grain - 1) / grain;
    uint64_t range = pair(home_start(pool, n, thread), home_start(pool, n, thread + 1));
    atomic_store_explicit(&pool->ranges[thread].left[phase & 1], range, memory_order_release);
}

/* Takes a piece of a range: from the front for its owner, from the back for others, so that they meet in the middle and
 * the owner walks through memory in order. False when it is empty. A failed exchange has read the range anew. */
static bool take(_Atomic uint64_t *left, bool own, int64_t *out_begin, int64_t *out_end) {
    uint64_t range = atomic_load_explicit(left, memory_order_acquire);
    for (;;) {
        int64_t next = (int64_t)(range >> 32), end = (int64_t)(range & UINT32_MAX);
        if (next >= end) return false;
        int64_t n = (end - next + TAKE_SHARE - 1) / TAKE_SHARE;
        uint64_t rest = own ? pair(next + n, end) : pair(next, end - n);
        if (!atomic_compare_exchange_weak(left, &range, rest)) continue;
        *out_begin = own ? next : end - n;
        *out_end = own ? next + n : end;
        return true;
    }
}

/* `end` of the last grain may lie beyond the units. */
static void run_range(plait_cpu_pool *pool, const plait_cpu_work *work, int phase, int owner, int thread) {
    int64_t units = work->units[phase], grain = grain_of(units), begin, end;
    while (take(&pool->ranges[owner].left[phase & 1], owner == thread, &begin, &end))
        work->run(work, phase, begin * grain, plait_min_i64(end * grain, units), thread);
}

/* True when everybody else has arrived at the next barrier, soon: then no range has anything left, and looking through
 * all of them would only move their cache lines. */
static bool others_are_done(const plait_cpu_pool *pool, int thread) {
    uint32_t before = pool->ranges[thread].before_barrier, others = (uint32_t)pool->n_workers - 1;
    for (int i = 0; i < (pool->may_spin ? SPINS_BEFORE_HELP : 1); i++) {
        if (atomic_load_explicit(&pool->arrived, memory_order_acquire) - before == others) return true;
        plait_cpu_relax();
    }
    return false;
}

/* The worker's own range, then those of who is late, beginning with its neighbour: helpers of one late worker start at
 * different ones. */
static void run_share(plait_cpu_pool *pool, const plait_cpu_work *work, int phase, int thread) {
    run_range(pool, work, phase, thread, thread);
    if (others_are_done(pool, thread)) return;
    for (int k = 1; k < pool->n_workers; k++)
        run_range(pool, work, phase, (thread + k) % pool->n_workers, thread);
}

/* ---- phases ---- */

/* Phases that worker 0 does by itself: of one unit, or of none. */
static bool alone(const plait_cpu_work *work, int phase) {
    return work->units[phase] <= 1;
}

/* All phases, as worker `thread` does them. `work` may be gone once the last barrier is passed, so nothing of it is
 * read behind that. No barrier stands between two phases that only worker 0 works in. The ranges of phase p + 1 go
 * where those of p - 1 were, which nobody takes from since the barrier behind p - 1; where that barrier was left out,
 * nobody ever did. */
static void run_phases(plait_cpu_pool *pool, const plait_cpu_work *work, int thread) {
    const int last = work->n_phases - 1;
    for (int p = 0; p <= last; p++) {
        bool between = p < last;
        if (between) publish(pool, work, p + 1, thread);
        if (!alone(work, p))
            run_share(pool, work, p, thread);
        else if (thread == 0 && work->units[p] == 1)
            work->run(work, p, 0, 1, 0);
        if (!between || !alone(work, p) || !alone(work, p + 1)) barrier(pool, thread);
    }
}

/* No phase has work for a second worker. */
static bool all_alone(const plait_cpu_work *work) {
    for (int p = 0; p < work->n_phases; p++)
        if (!alone(work, p)) return false;
    return true;
}

/* Announces what was written before: a launch of n workers, or the end (n = 0). */
static void begin_launch(plait_cpu_pool *pool, int n) {
    uint32_t number = atomic_load_explicit(&pool->launch, memory_order_relaxed) >> WORKER_BITS;
    atomic_store(&pool->launch, (number + 1) << WORKER_BITS | (uint32_t)n);
    wake(&pool->launch, &pool->sleeping);
}

/* Every phase as one piece. Units are cut nowhere, which no kernel's bytes depend on. */
static void run_alone(const plait_cpu_work *work) {
    for (int p = 0; p < work->n_phases; p++)
        if (work->units[p] > 0) work->run(work, p, 0, work->units[p], 0);
}

/* Everything that workers read is written before begin_launch announces it. With one worker, or with work for one,
 * nobody is woken. */
void plait_cpu_pool_run(plait_cpu_pool *pool, const plait_cpu_work *work) {
    if (work->n_phases == 0) return;
    int n = plait_processors_take(&pool->user);
    if (n == 1 || all_alone(work)) {
        run_alone(work);
    } else {
        pool->work = work;
        pool->n_workers = n;
        pool->first_before = pool->ranges[0].before_barrier = atomic_load(&pool->arrived);
        /* The first phase's ranges are there before anybody wakes, so that nobody waits for a worker that is late. */
        for (int i = 0; i < n; i++) publish(pool, work, 0, i);
        begin_launch(pool, n);
        run_phases(pool, work, 0);
    }
    plait_processors_give(&pool->user);
}

/* Idle until the launch word changes. What it says tells whether this worker takes part; only then is anything else of
 * the launch read. Spinning when idle is for times when processors are plenty, which is asked anew each time. */
static void *worker_main(void *argument) {
    worker *self = argument;
    plait_cpu_pool *pool = self->pool;
    home_range *own = &pool->ranges[self->number];
    uint32_t seen = 0;
    for (;;) {
        bool may_spin = pool->may_spin && plait_processors_are_plenty(&pool->user);
        wait_growth(may_spin, &pool->launch, &pool->sleeping, seen, 1, &own->idle_spin_ns);
        seen = atomic_load_explicit(&pool->launch, memory_order_acquire);
        if (atomic_load(&pool->stop)) return NULL;
        if (self->number >= (int)(seen & ((1u << WORKER_BITS) - 1))) continue;
        own->before_barrier = pool->first_before;
        run_phases(pool, pool->work, self->number);
    }
}

/* ---- life ---- */

/* Whether the system lets threads be bound is learnt with the creating thread, which is bound back at once: the only way
 * to know it also for a single worker, who is somebody else's thread. */
static void try_binding(plait_cpu_pool *pool) {
    plait_cpuset before;
    if (!pool->share.bound) return;
    plait_thread_processors(&before);
    pool->bound = plait_thread_bind(NULL, &pool->share.processors) == PLAIT_OK;
    if (pool->bound) plait_thread_bind(NULL, &before);
    if (!pool->bound)
        snprintf(pool->unbound_reason, sizeof pool->unbound_reason, "%s", plait_error_message());
}

/* Prefix sums of weights, and whether all are equal, in which case ranges are cut evenly to the unit (the quotient of
 * weights could round otherwise). */
static void weigh(plait_cpu_pool *pool) {
    pool->even = true;
    for (int i = 0; i < pool->n_threads; i++) {
        const plait_cpu_share *share = &pool->share;
        uint32_t weight = share->n_kinds ? share->kinds[plait_cpu_share_kind_of(share, i)].weight : 1;
        pool->weights[i + 1] = pool->weights[i] + weight;
        pool->even = pool->even && weight == pool->weights[1];
    }
}

/* Names are at most 15 bytes, which is the system's limit for names of threads. */
static plait_status start_worker(plait_cpu_pool *pool, int number) {
    worker *w = &pool->workers[number];
    char name[16];
    *w = (worker){.pool = pool, .number = number};
    snprintf(name, sizeof name, "plait-cpu-%d", number);
    PLAIT_TRY(plait_thread_start(&w->thread, name, worker_main, w));
    /* It was possible a moment ago; if it is not any more, the worker runs where the system puts it. */
    if (pool->bound)
        plait_thread_bind(&w->thread,
                          &pool->share.kinds[plait_cpu_share_kind_of(&pool->share, number)].processors);
    return PLAIT_OK;
}

/* Failing, what is there is the destroyer's: workers that never started are zeroed, and joining them does nothing. */
static plait_status start(plait_cpu_pool *pool) {
    size_t n = (size_t)pool->n_threads;
    if (pthread_mutex_init(&pool->holder, NULL) != 0) return plait_error_memory("lock of the cpu threads", 0);
    pool->holder_ready = true;
    pool->ranges = plait_alloc_aligned(64, n * sizeof *pool->ranges);
    pool->workers = plait_alloc_array(n, sizeof *pool->workers);
    pool->weights = plait_alloc_array(n + 1, sizeof *pool->weights);
    if (!pool->ranges || !pool->workers || !pool->weights)
        return plait_error_memory("cpu threads", n * sizeof *pool->ranges);
    weigh(pool);
    for (size_t i = 0; i < n; i++)
        pool->ranges[i].barrier_spin_ns = pool->ranges[i].idle_spin_ns = MOST_SPIN_NS;
    for (int i = 1; i < pool->n_threads; i++) PLAIT_TRY(start_worker(pool, i));
    return PLAIT_OK;
}

/* may_spin: spinning threads beyond the processors would keep away the ones that they wait for. The user joins last:
 * `user` must be complete, and a pool that failed was never counted. */
plait_status plait_cpu_pool_create(const plait_cpu_share *share, plait_cpu_pool **out) {
    plait_cpu_pool *pool = plait_alloc_aligned(64, sizeof *pool);
    if (!pool) return plait_error_memory("cpu threads", sizeof *pool);
    int processors = plait_os_processors();
    pool->share = *share;
    pool->n_threads = share->n_threads;
    try_binding(pool);
    if (pool->bound) processors = (int)plait_min_i64(processors, plait_cpuset_count(&share->processors));
    pool->may_spin = pool->n_threads <= processors;
    pool->user.n_threads = pool->n_threads;
    pool->user.bound = pool->bound ? &pool->share.processors : NULL;
    plait_status status = start(pool);
    if (status != PLAIT_OK) {
        plait_cpu_pool_destroy(pool);
        return status;
    }
    plait_processors_join(&pool->user);
    *out = pool;
    return PLAIT_OK;
}

/* No launch runs, so all workers wait at the launch word. `stop` is set before the word changes, and read behind it. */
void plait_cpu_pool_destroy(plait_cpu_pool *pool) {
    if (!pool) return;
    plait_processors_leave(&pool->user);
    atomic_store(&pool->stop, true);
    begin_launch(pool, 0);
    for (int i = 1; pool->workers && i < pool->n_threads; i++) plait_thread_join(&pool->workers[i].thread);
    if (pool->holder_ready) pthread_mutex_destroy(&pool->holder);
    free(pool->ranges);
    free(pool->workers);
    free(pool->weights);
    free(pool);
}

int plait_cpu_pool_threads(const plait_cpu_pool *pool) {
    return pool->n_threads;
}

const char *plait_cpu_pool_unbound_reason(const plait_cpu_pool *pool) {
    return pool->unbound_reason;
}

/* ---- the holder ---- */

/* Queue threads call this once; plait_cpu_pool_acquire then finds them where they should be, and changes nothing. */
void plait_cpu_pool_adopt(const plait_cpu_pool *pool) {
    if (pool->bound) plait_thread_bind(NULL, &pool->share.kinds[0].processors);
}

/* The holder is worker 0, so it runs where worker 0's home ranges are. Binding is undone by the release, for a thread
 * of the caller may have a place of its own. */
void plait_cpu_pool_acquire(plait_cpu_pool *pool) {
    pthread_mutex_lock(&pool->holder);
    if (!pool->bound) return;
    plait_thread_processors(&pool->holder_processors);
    if (!plait_cpuset_equal(&pool->holder_processors, &pool->share.kinds[0].processors))
        plait_thread_bind(NULL, &pool->share.kinds[0].processors);
}

void plait_cpu_pool_release(plait_cpu_pool *pool) {
    if (pool->bound && !plait_cpuset_equal(&pool->holder_processors, &pool->share.kinds[0].processors))
        plait_thread_bind(NULL, &pool->holder_processors);
    pthread_mutex_unlock(&pool->holder);
}
