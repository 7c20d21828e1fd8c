/* The set of ranks against an array of flags; the sort against what it promises, on orders that are hard for quicksort; the
 * pool of arena chunks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/ranks.h"
#include "base/sort.h"

#include <stdlib.h>
#include <string.h>

static uint64_t next(uint64_t *state, uint64_t limit) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (*state >> 33) % limit;
}

/* ---- ranks ---- */

static void check_neighbours(const plait_ranks *ranks, const bool *flags, size_t n, size_t rank) {
    size_t below = rank, above = rank;
    while (!flags[below] && below > 0) below--;
    while (above < n && !flags[above]) above++;
    assert_true(plait_ranks_has(ranks, rank) == flags[rank]);
    assert_true(plait_ranks_below(ranks, rank) == (flags[below] ? below : PLAIT_NO_RANK));
    assert_true(plait_ranks_above(ranks, rank) == (above < n ? above : PLAIT_NO_RANK));
}

static void test_ranks(void **unused) {
    static const size_t sizes[] = {1, 2, 63, 64, 65, 4095, 4096, 4097, 300000};
    (void)unused;
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        size_t n = sizes[k];
        uint64_t state = k + 1;
        plait_arena arena;
        plait_ranks ranks;
        bool *flags = calloc(n, sizeof *flags);
        assert_non_null(flags);
        plait_arena_init(&arena, 0);
        assert_int_equal(plait_ranks_init(&ranks, &arena, n), PLAIT_OK);
        for (int i = 0; i < 3000; i++) {
            size_t rank = next(&state, n);
            bool add = next(&state, 3) != 0;
            flags[rank] = add;
            (add ? plait_ranks_add : plait_ranks_remove)(&ranks, rank);
            if (i % 3 == 0) check_neighbours(&ranks, flags, n, next(&state, n));
        }
        for (size_t i = 0; i < n; i++)
            if (flags[i]) plait_ranks_remove(&ranks, i);
        assert_true(plait_ranks_above(&ranks, 0) == PLAIT_NO_RANK);
        assert_true(plait_ranks_below(&ranks, n - 1) == PLAIT_NO_RANK);
        plait_arena_deinit(&arena);
        free(flags);
    }
}

/* 64^k numbers take k levels; 64^6, the most there may be, takes all, but also 8 GiB. */
static void test_levels(void **unused) {
    (void)unused;
    size_t n = 1;
    for (int k = 1; k <= 4; k++) {
        plait_arena arena;
        plait_ranks ranks;
        n *= 64;
        plait_arena_init(&arena, 0);
        for (size_t more = 0; more < 2; more++) {
            assert_int_equal(plait_ranks_init(&ranks, &arena, n + more), PLAIT_OK);
            assert_int_equal(ranks.n_levels, k + (int)more);
            plait_ranks_add(&ranks, n + more - 1);
            assert_true(plait_ranks_above(&ranks, 0) == n + more - 1);
        }
        assert_int_equal(plait_ranks_init(&ranks, &arena, 0), PLAIT_OK);
        assert_int_equal(ranks.n_levels, 1);
        assert_int_equal(plait_ranks_init(&ranks, &arena, ((size_t)1 << 36) + 1), PLAIT_LIMIT);
        plait_arena_deinit(&arena);
    }
    assert_int_equal(PLAIT_RANKS_LEVELS, 6);
}

/* ---- sort ---- */

typedef struct pair {
    uint32_t key, place;
} pair;

static size_t comparisons;

static bool comes_before(const pair *a, const pair *b) {
    comparisons++;
    return a->key < b->key;
}

PLAIT_DEFINE_SORT(sort_pairs, pair, comes_before)

/* The order that is worst for the middle of three: it splits off two at a time. */
static void killer(pair *pairs, size_t n) {
    for (size_t i = 0; i < n; i++) pairs[i].key = (uint32_t)i;
    for (size_t i = n - 1; i >= 2; i--) {
        pair swapped = pairs[i];
        pairs[i] = pairs[i / 2];
        pairs[i / 2] = swapped;
    }
}

static void test_sort(void **unused) {
    static pair pairs[20000];
    static bool seen[20000];
    uint64_t state = 3;
    (void)unused;
    for (int how = 0; how < 6; how++)
        for (size_t n = 0; n <= 20000; n = n < 70 ? n + 1 : n * 7) {
            for (size_t i = 0; i < n; i++) {
                static const uint32_t limits[] = {1u << 30, 4, 1};
                pairs[i].key = (uint32_t)next(&state, limits[how % 3]);
                if (how == 3) pairs[i].key = (uint32_t)i;
                if (how == 4) pairs[i].key = (uint32_t)(n - i);
            }
            if (how == 5 && n > 2) killer(pairs, n);
            for (size_t i = 0; i < n; i++) pairs[i].place = (uint32_t)i;
            comparisons = 0;
            sort_pairs(pairs, n);
            memset(seen, 0, sizeof seen);
            for (size_t i = 0; i < n; i++) {
                assert_true(i == 0 || pairs[i - 1].key <= pairs[i].key);
                assert_false(seen[pairs[i].place]);
                seen[pairs[i].place] = true;
            }
            size_t log = 1;
            while ((size_t)1 << log < n) log++;
            assert_true(comparisons <= 100 + 8 * n * log);
        }
}

/* ---- pool ---- */

static void test_pool(void **unused) {
    plait_arena_pool pool;
    plait_arena a, b;
    (void)unused;
    plait_arena_pool_init(&pool, 1 << 20);
    plait_arena_init_pooled(&a, &pool);
    char *first = plait_arena_alloc(&a, 1, 100000);
    assert_non_null(first);
    memset(first, 7, 100000);
    plait_arena_deinit(&a);
    assert_true(pool.held_bytes >= 100000);
    char *second = plait_arena_alloc(&a, 1, 90000); /* the same memory, and zeroed */
    assert_ptr_equal(first, second);
    for (int i = 0; i < 90000; i++) assert_int_equal(second[i], 0);
    plait_arena_init_pooled(&b, &pool);
    assert_ptr_not_equal(plait_arena_alloc(&b, 1, 90000), second);
    plait_arena_deinit(&a);
    plait_arena_deinit(&b);
    for (int i = 0; i < 40; i++) assert_non_null(plait_arena_alloc(&a, 1, 200000));
    plait_arena_deinit(&a);
    assert_true(pool.held_bytes <= pool.most_bytes);
    plait_arena_pool_deinit(&pool);
    assert_int_equal(pool.held_bytes, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_ranks), cmocka_unit_test(test_levels),
                                       cmocka_unit_test(test_sort), cmocka_unit_test(test_pool)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
