/* Plans that are found again by what their graphs are. A hash picks the candidates, the graphs' words decide (law 9
 * would not survive a plan that only looks right).
 *
 * Not here: the words (graph/identity.c), and making plans. Entries are few and looked through one after the other;
 * comparing graphs stops at the hash for all but the one that matches.
 *
 * Invariant: a plan is given only to who would get the same plan made anew, in the same context. */
#include "plan/plan.h"

#include "base/alloc.h"
#include "base/status.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { USUAL_PLANS = 64 };

typedef struct entry {
    plait_plan *plan;                 /* Retained. */
    const plait_residence *residence; /* as asked for: the plan retains it; NULL: the plan's own */
    plait_split split;
    bool proved;       /* such a plan serves callers who do not ask for a proof, too */
    uint64_t last_use; /* of `uses`: what was not asked for longest goes first */
} entry;

struct plait_plan_cache {
    plait_context *context;
    pthread_mutex_t lock;
    bool lock_ready;
    entry *entries; /* Owned. [most] */
    int n, most;
    uint64_t uses, found, made;
};

/* most_plans 0 or less: the usual number. Failures are put down to memory: a mutex that cannot be made lacks nothing
 * else. */
plait_status plait_plan_cache_create(plait_plan_cache **out, plait_context *context, int most_plans) {
    plait_plan_cache *cache = plait_alloc_array(1, sizeof *cache);
    if (!cache) return plait_error_memory("plan cache", sizeof *cache);
    cache->context = context;
    cache->most = most_plans > 0 ? most_plans : USUAL_PLANS;
    cache->entries = plait_alloc_array((size_t)cache->most, sizeof *cache->entries);
    cache->lock_ready = pthread_mutex_init(&cache->lock, NULL) == 0;
    if (!cache->entries || !cache->lock_ready) {
        plait_plan_cache_destroy(cache);
        return plait_error_memory("plan cache", (uint64_t)most_plans * sizeof *cache->entries);
    }
    *out = cache;
    return PLAIT_OK;
}

/* Accepts one whose creation failed: without a lock there can be no plan in it. */
void plait_plan_cache_destroy(plait_plan_cache *cache) {
    if (!cache) return;
    if (cache->lock_ready) {
        plait_plan_cache_clear(cache);
        pthread_mutex_destroy(&cache->lock);
    }
    free(cache->entries);
    free(cache);
}

/* Plans that somebody holds go on living: only the cache's references are given up. */
void plait_plan_cache_clear(plait_plan_cache *cache) {
    pthread_mutex_lock(&cache->lock);
    for (int i = 0; i < cache->n; i++) plait_plan_release(cache->entries[i].plan);
    cache->n = 0;
    pthread_mutex_unlock(&cache->lock);
}

void plait_plan_cache_describe(plait_plan_cache *cache, uint64_t *out_found, uint64_t *out_made) {
    pthread_mutex_lock(&cache->lock);
    *out_found = cache->found;
    *out_made = cache->made;
    pthread_mutex_unlock(&cache->lock);
}

/* Every option that changes a plan is compared here: who adds one, adds it here, or plans get confused. */
_Static_assert(sizeof(plait_plan_options) == 5 * sizeof(void *) + 3 * sizeof(double),
               "compare the new option in suits()");

/* Whether the plan in an entry is what these options would make. A plan's own residence, not asked for, is told by
 * `split`; the caller's by being the same object, since two that look alike have different buffers. A plan with proof
 * does for who wants none, not the other way round. */
static bool suits(const entry *e, const plait_graph *graph, const plait_plan_options *options) {
    const char *name = options->name ? options->name : graph->name;
    const plait_expected_steps *steps = &e->plan->steps_expected;
    return e->residence == options->residence && (e->residence || e->split == options->split) &&
           e->plan->exact == options->exact && e->plan->depth == plait_plan_depth(options) &&
           steps->single == options->steps.single && steps->full == options->steps.full &&
           steps->keys == options->steps.keys && (e->proved || options->skip_verify) &&
           strcmp(e->plan->name, name) == 0 && plait_graph_same(e->plan->source, graph);
}

/* A reference to the plan that suits, or NULL. The lock is held. */
static plait_plan *find(plait_plan_cache *cache, const plait_graph *graph,
                        const plait_plan_options *options) {
    for (int i = 0; i < cache->n; i++) {
        entry *e = &cache->entries[i];
        if (!suits(e, graph, options)) continue;
        e->last_use = ++cache->uses;
        return plait_plan_retain(e->plan);
    }
    return NULL;
}

/* Makes room by dropping the plan that was used longest ago. The lock is held. */
static void keep(plait_plan_cache *cache, plait_plan *plan, const plait_plan_options *options) {
    int at = cache->n;
    if (cache->n < cache->most) {
        cache->n++;
    } else {
        at = 0;
        for (int i = 1; i < cache->n; i++)
            if (cache->entries[i].last_use < cache->entries[at].last_use) at = i;
        plait_plan_release(cache->entries[at].plan);
    }
    cache->entries[at] = (entry){.plan = plait_plan_retain(plan),
                                 .residence = options->residence,
                                 .split = options->split,
                                 .proved = !options->skip_verify,
                                 .last_use = ++cache->uses};
}

/* Planning is done outside of the lock: others find theirs meanwhile. Two who plan the same at once get one plan. */
plait_status plait_plan_cache_make(plait_plan_cache *cache, plait_plan **out, plait_context *context,
                                   const plait_graph *graph, const plait_plan_options *options) {
    if (cache->context != context)
        return plait_error(PLAIT_INVALID_ARGUMENT, "plan of %s: its cache is of another context",
                           graph->name);
    pthread_mutex_lock(&cache->lock);
    plait_plan *plan = find(cache, graph, options);
    cache->found += plan != NULL;
    pthread_mutex_unlock(&cache->lock);
    if (!plan) {
        plait_plan *other;
        PLAIT_TRY(plait_plan_make_new(&plan, context, graph, options));
        pthread_mutex_lock(&cache->lock);
        cache->made++;
        other = find(cache, graph, options);
        if (!other) keep(cache, plan, options);
        pthread_mutex_unlock(&cache->lock);
        if (other) {
            plait_plan_release(plan);
            plan = other;
        }
    }
    *out = plan;
    return PLAIT_OK;
}
