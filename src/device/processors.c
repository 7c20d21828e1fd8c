/* The list of users, under a lock that launches take only when processors are short. Invariant: a user that is not
 * crowded has announced its launch in `taken` before it looked at `crowded`, and whoever makes it crowded looks at `taken`
 * afterwards: so one of the two sees the other. */
#include "device/processors.h"

#include "base/os.h"
#include "base/size.h"

#include <pthread.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static plait_processor_user *users;
static int n_processors;              /* as of the last joining: quotas may change while a process lives */
static _Atomic int spinners;          /* threads of no user */
static _Atomic int spare = INT32_MAX; /* how many of them may spin */

/* ---- with the lock held ---- */

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

static int take_what_is_left(plait_processor_user *user) {
    pthread_mutex_lock(&lock);
    int64_t n = user->n_threads, others = taken_by_others(user, false);
    int64_t near = user->bound ? taken_by_others(user, true) : 0;
    if (others > 0) n = plait_min_i64(n, n_processors - others);
    if (near > 0) n = plait_min_i64(n, plait_cpuset_count(user->bound) - near);
    n = plait_max_i64(n, 1);
    atomic_store(&user->taken, (int)n);
    pthread_mutex_unlock(&lock);
    return (int)n;
}

int plait_processors_take(plait_processor_user *user) {
    atomic_store(&user->taken, user->n_threads);
    if (user->n_threads == 1 || !atomic_load(&user->crowded)) return user->n_threads;
    return take_what_is_left(user);
}

void plait_processors_give(plait_processor_user *user) {
    atomic_store_explicit(&user->taken, 0, memory_order_release);
}

/* ---- threads of the host ---- */

bool plait_spin_begin(void) {
    if (atomic_fetch_add(&spinners, 1) < atomic_load(&spare)) return true;
    atomic_fetch_sub(&spinners, 1);
    return false;
}

void plait_spin_end(void) {
    atomic_fetch_sub(&spinners, 1);
}
