/* Who touched which bytes last, against all pairs of accesses: what is told is what conflicts or follows from it, and
 * nothing that conflicts is missing. */
#include "plan/touches.h"

#include "support/random_graph.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

enum { LANES = 4, MOST = 400 };

typedef struct entry {
    size_t begin, end;
    uint32_t lane, stamp;
    bool write;
} entry;

typedef struct told {
    uint32_t clock[LANES]; /* of the access at hand: what it was told of, and all that those come after */
    uint32_t clocks[LANES][MOST + 1][LANES];
} told;

static void tell(void *user, uint32_t lane, uint32_t stamp) {
    told *t = user;
    for (int l = 0; l < LANES; l++)
        if (t->clocks[lane][stamp][l] > t->clock[l]) t->clock[l] = t->clocks[lane][stamp][l];
}

static bool conflicts(const entry *a, const entry *b) {
    size_t begin = a->begin > b->begin ? a->begin : b->begin, end = a->end < b->end ? a->end : b->end;
    return a->lane != b->lane && (a->write || b->write) && begin < end;
}

/* Every access comes after what it is told of: then it must come after everything that it conflicts with, and after
 * nothing else than what follows from that. */
static void one_round(uint64_t seed, size_t n_cells) {
    static told t;
    static entry entries[MOST];
    static uint32_t needed[LANES][MOST + 1][LANES]; /* of each command */
    uint64_t state = seed;
    uint32_t stamps[LANES] = {0};
    plait_touches touches;
    plait_arena arena;
    plait_arena_init(&arena, 0);
    memset(&t, 0, sizeof t);
    memset(needed, 0, sizeof needed);
    assert_int_equal(plait_touches_init(&touches, &arena, n_cells), PLAIT_OK);
    for (uint32_t i = 0; i < MOST; i++) {
        entry *e = &entries[i];
        bool again = i > 0 && random_next(&state, 2); /* the same command as before */
        e->lane = again ? entries[i - 1].lane : (uint32_t)random_next(&state, LANES);
        e->stamp = again ? entries[i - 1].stamp : ++stamps[e->lane];
        e->begin = random_next(&state, n_cells + 1);
        e->end = e->begin + random_next(&state, random_next(&state, 3) ? 3 : n_cells + 1 - e->begin + 1);
        if (e->end > n_cells) e->end = n_cells;
        e->write = random_next(&state, 3) == 0;
        uint32_t *need = needed[e->lane][e->stamp], *clock = t.clocks[e->lane][e->stamp];
        if (!again) {
            memcpy(need, needed[e->lane][e->stamp - 1], sizeof t.clock);
            memcpy(clock, t.clocks[e->lane][e->stamp - 1], sizeof t.clock);
            need[e->lane] = clock[e->lane] = e->stamp;
        }
        for (uint32_t k = 0; k < i; k++) /* what the definition demands, closed over what those demand */
            for (int l = 0; conflicts(&entries[k], e) && l < LANES; l++)
                if (needed[entries[k].lane][entries[k].stamp][l] > need[l])
                    need[l] = needed[entries[k].lane][entries[k].stamp][l];
        memcpy(t.clock, clock, sizeof t.clock);
        assert_int_equal(plait_touches_add(&touches, e->begin, e->end, e->lane, e->stamp, e->write, tell, &t),
                         PLAIT_OK);
        memcpy(clock, t.clock, sizeof t.clock);
        for (int l = 0; l < LANES; l++)
            if (clock[l] != need[l])
                fail_msg("seed %llu, access %u, lane %d: told of %u, expected %u", (unsigned long long)seed,
                         i, l, clock[l], need[l]);
    }
    plait_arena_deinit(&arena);
}

static void test_against_all_pairs(void **state) {
    (void)state;
    static const size_t sizes[] = {1, 2, 7, 64, 65, 300, 5000};
    for (uint64_t seed = 0; seed < 140; seed++) one_round(seed * 977 + 1, sizes[seed % 7]);
}

static void test_spans(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed < 200; seed++) {
        uint64_t random = seed;
        bool inside[64] = {false};
        plait_span spans[12];
        for (int i = 0; i < 12; i++) {
            spans[i].begin = random_next(&random, 60);
            spans[i].end = spans[i].begin + random_next(&random, 5);
            for (uint64_t k = spans[i].begin; k < spans[i].end; k++) inside[k] = true;
        }
        size_t n = plait_spans_join(spans, 12);
        for (size_t i = 0; i + 1 < n; i++) assert_true(spans[i].end < spans[i + 1].begin);
        for (uint64_t begin = 0; begin < 62; begin++)
            for (uint64_t end = begin; end < 63; end++) {
                bool any = false;
                for (uint64_t k = begin; k < end; k++) any |= inside[k];
                assert_int_equal(plait_spans_meet(spans, n, (plait_span){begin, end}), any);
            }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_against_all_pairs),
                                       cmocka_unit_test(test_spans)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
