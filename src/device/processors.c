/* The list of users, under a lock that launches take only when processors are short. Not here: who is bound to what,
 * and how a launch that got fewer threads is cut (device/cpu/pool.h).
 *
 * Invariant: a user that is not crowded has announced its launch in `taken` before it looked at `crowded`, and whoever
 * makes it crowded looks at `taken` afterwards: so one of the two sees the other. Both are sequentially consistent for
 * that reason. */
#include "device/processors.h"

#include "base/os.h"
#include "base/size.h"

#include <pthread.h>

/* Guards `users`, the links between them and n_processors. What is read without it is atomic. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static plait_processor_user *users;
static int n_processors;              /* as of the last joining: quotas may change while a process lives */
static _Atomic int spinners;          /* threads of no user */
static _Atomic int spare = INT32_MAX; /* how many of them may spin */

/* ---- with the lock held ---- */

/* A user that is bound to nothing takes part in no set: it counts among all. */
static bool share_processors(const plait_processor_user *a, const plait_processor_user *b) {
    return a->bound && b->bound && plait_cpuset_intersects(a->bound, b->bound);
}

/* Threads of all users, or those bound to processors of `user` (itself included). */
static int64_t count_threads(const plait_processor_user *user) {
    int64_t n = 0;
    for (const plait_processor_user *u = users; u; u = u->next)
        if (!user || share_processors(u, user)) n += u->n_threads;
    return n;
}

/* After each change of the list: who is crowded, and how many threads of the host may spin. A user is crowded when all
 * threads together are more than the processors, or those bound to processors of its own set are more than the set:
 * both cases end with spinners that hold what others wait for. Quadratic in users, which are devices. */
static void reconsider(void) {
    bool all = count_threads(NULL) > n_processors;
    int64_t helpers = 0; /* all threads but those that drive the launches, which are the host's */
    for (plait_processor_user *u = users; u; u = u->next) {
        bool crowded = all || (u->bound && count_threads(u) > plait_cpuset_count(u->bound));
        atomic_store(&u->crowded, crowded);
        helpers += u->n_threads - 1;
    }
    atomic_store(&spare, (int)plait_max_i64(n_processors - helpers, 0));
}

/* Threads of launches that run for others, of all or of those bound to the user's processors. */
static int64_t taken_by_others(const plait_processor_user *user, bool bound) {
    int64_t n = 0;
    for (plait_processor_user *u = users; u; u = u->next)
        if (u != user && (!bound || share_processors(u, user))) n += atomic_load(&u->taken);
    return n;
}

/* ---- joining ---- */

/* The processors are counted anew, before the lock is taken: quotas of control groups may have changed. */
void plait_processors_join(plait_processor_user *user) {
    int processors = plait_os_processors();
    pthread_mutex_lock(&lock);
    n_processors = processors;
    user->next = users;
    users = user;
    reconsider();
    pthread_mutex_unlock(&lock);
}

void plait_processors_leave(plait_processor_user *user) {
    pthread_mutex_lock(&lock);
    for (plait_processor_user **link = &users; *link; link = &(*link)->next)
        if (*link == user) {
            *link = user->next;
            reconsider();
            break;
        }
    pthread_mutex_unlock(&lock);
}

/* ---- launches ---- */

/* For a crowded user; the lock makes takers decide one after the other, each seeing what those before it took. `taken`
 * held all threads while it waited for the lock, so others that decided in between left more room than necessary, never
 * too little. */
static int take_what_is_left(plait_processor_user *user) {
    pthread_mutex_lock(&lock);
    int64_t n = user->n_threads, others = taken_by_others(user, false);
    int64_t near = user->bound ? taken_by_others(user, true) : 0;
    if (others > 0) n = plait_min_i64(n, n_processors - others);
    /* Also within the set that it is bound to: others may have taken its processors while the machine as a whole has
     * plenty. */
    if (near > 0) n = plait_min_i64(n, plait_cpuset_count(user->bound) - near);
    n = plait_max_i64(n, 1);
    atomic_store(&user->taken, (int)n);
    pthread_mutex_unlock(&lock);
    return (int)n;
}

/* One store and one load where processors are plenty; a user with a single thread waits for nobody, and needs no
 * leave. */
int plait_processors_take(plait_processor_user *user) {
    atomic_store(&user->taken, user->n_threads);
    if (user->n_threads == 1 || !atomic_load(&user->crowded)) return user->n_threads;
    return take_what_is_left(user);
}

void plait_processors_give(plait_processor_user *user) {
    atomic_store_explicit(&user->taken, 0, memory_order_release);
}

/* ---- threads of the host ---- */

/* Adds first and looks then: two threads that come at the same time may both be refused though there was room for one,
 * but never are more spinning than may. */
bool plait_spin_begin(void) {
    if (atomic_fetch_add(&spinners, 1) < atomic_load(&spare)) return true;
    atomic_fetch_sub(&spinners, 1);
    return false;
}

void plait_spin_end(void) {
    atomic_fetch_sub(&spinners, 1);
}
