/* The part of the proof that compares lives, against every pair of them compared: random lives of values and scratch, and
 * random pairs that may share bytes. Both must find a clash, or none. */
#include "base/arena.h"
#include "plan/verify.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

enum { MOST_LIVES = 40, MOST_PAIRS = 60, ROUNDS = 40000 };

/* A plan has nothing but names here, for messages. */
typedef struct fixture {
    plait_context context;
    plait_graph graph;
    plait_graph_storage storage;
    plait_plan_value values[MOST_LIVES];
    plait_plan plan;
    uint32_t heads[MOST_LIVES];
    struct plait_life_pair rows[MOST_PAIRS];
    plait_life_pairs pairs;
    plait_life lives[MOST_LIVES];
    size_t n;
} fixture;

static uint64_t next(uint64_t *state, uint64_t limit) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (*state >> 33) % limit;
}

static void init(fixture *f) {
    memset(f, 0, sizeof *f);
    plait_arena_pool_init(&f->context.pool, 1 << 20);
    f->storage.name = "value";
    f->graph.storages = &f->storage;
    f->plan.context = &f->context;
    f->plan.graph = &f->graph;
    f->plan.values = f->values;
    f->plan.n_values = MOST_LIVES;
    f->pairs = (plait_life_pairs){f->heads, f->rows};
}

/* Crowded or not: from sets that always clash to sets that seldom do. Some lives begin where another one ends, in its
 * place, as an heir does; some pairs are of those, others of anybody. */
static void make(fixture *f, uint64_t *state) {
    uint64_t bytes = 4 + next(state, 1500), positions = 2 + next(state, 40), longest = 1 + next(state, 6);
    uint32_t n_pairs = 0;
    f->n = 1 + next(state, 1 + next(state, MOST_LIVES));
    memset(f->heads, 0, sizeof f->heads);
    for (uint32_t i = 0; i < f->n; i++) {
        plait_life *life = &f->lives[i], *other = &f->lives[i ? next(state, i) : 0];
        bool heir = i && next(state, 3) == 0;
        uint64_t begin = heir ? other->begin : next(state, bytes);
        int32_t first = heir ? other->last : (int32_t)next(state, positions);
        *life = (plait_life){.begin = begin,
                             .end = begin + 1 + next(state, 12),
                             .first = first,
                             .last = first + (int32_t)next(state, longest),
                             .value = next(state, 8) ? i : PLAIT_NO_SLOT};
        if (life->value == PLAIT_NO_SLOT) life->last = life->first;
        bool pair = life->value != PLAIT_NO_SLOT && other->value != PLAIT_NO_SLOT && next(state, 4);
        if (!pair || n_pairs == MOST_PAIRS) continue;
        f->rows[n_pairs] = (struct plait_life_pair){other->value, f->heads[i]};
        f->heads[i] = ++n_pairs;
    }
}

/* Directly, or by way of a life that begins and ends just there and covers all of `early`. */
static bool may_follow(const fixture *f, const plait_life *early, const plait_life *late) {
    if (early->value == PLAIT_NO_SLOT || late->value == PLAIT_NO_SLOT) return false;
    if (early->last != late->first || early->begin != late->begin) return false;
    for (uint32_t k = f->heads[late->value]; k; k = f->rows[k - 1].next)
        if (f->rows[k - 1].input == early->value) return true;
    for (size_t i = 0; i < f->n; i++) {
        const plait_life *between = &f->lives[i];
        bool there = between != early && between != late && between->first == between->last &&
                     between->end >= early->end && between->value > early->value &&
                     between->value < late->value;
        if (there && may_follow(f, early, between) && may_follow(f, between, late)) return true;
    }
    return false;
}

static bool clash(const fixture *f) {
    for (size_t i = 0; i < f->n; i++)
        for (size_t k = 0; k < i; k++) {
            const plait_life *a = &f->lives[i], *b = &f->lives[k];
            bool meet = a->first <= b->last && b->first <= a->last && a->begin < b->end && b->begin < a->end;
            if (meet && !may_follow(f, a, b) && !may_follow(f, b, a)) return true;
        }
    return false;
}

static void test_against_all_pairs(void **state) {
    static fixture f;
    uint64_t random = 1;
    int n_refused = 0;
    (void)state;
    init(&f);
    for (int r = 0; r < ROUNDS; r++) {
        make(&f, &random);
        bool refused = clash(&f);
        plait_status status = plait_plan_verify_keep(&f.plan, &f.pairs, f.lives, f.n);
        if (refused != (status == PLAIT_INTERNAL))
            fail_msg("round %d: %zu lives %s, the proof says %s", r, f.n, refused ? "clash" : "are apart",
                     status == PLAIT_OK ? "nothing" : plait_error_message());
        n_refused += refused;
    }
    print_message("%d of %d sets clash\n", n_refused, ROUNDS);
    assert_in_range(n_refused, ROUNDS / 5, ROUNDS * 4 / 5);
    plait_arena_pool_deinit(&f.context.pool);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_all_pairs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
