/* The split of units over devices against all possible splits: random problems, small enough to try every one; equal
 * units against the method of largest remainders; and problems with an answer that one can see. */
#include "plan/split.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_UNITS = 6, MAX_DEVICES = 4, MAX_SHARED = 3 };

/* A problem with its tables. */
typedef struct instance {
    plait_split_problem p;
    uint64_t bytes[MAX_UNITS * MAX_DEVICES], need[MAX_UNITS * MAX_DEVICES], room[MAX_DEVICES];
    double ns[MAX_UNITS * MAX_DEVICES], cross_n[MAX_UNITS + 1], cross_bytes[MAX_UNITS + 1],
        shares[MAX_DEVICES];
    uint64_t shared_bytes[MAX_SHARED * MAX_DEVICES], shared_need[MAX_SHARED * MAX_DEVICES];
    uint32_t first_shared[MAX_UNITS + 1];
    plait_split_shared shared[MAX_UNITS * MAX_SHARED];
    plait_cost cost;
    plait_device_figures figures[MAX_DEVICES];
    plait_link_figures links[MAX_DEVICES * MAX_DEVICES];
} instance;

static uint64_t state;

static uint64_t next(uint64_t limit) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 33) % limit;
}

static void make(instance *x, uint64_t seed) {
    memset(x, 0, sizeof *x);
    state = seed * 2 + 1;
    int n = 1 + (int)next(MAX_DEVICES);
    x->p = (plait_split_problem){.n_units = 1 + (uint32_t)next(MAX_UNITS),
                                 .n_shared = MAX_SHARED,
                                 .n_devices = n,
                                 .bytes = x->bytes,
                                 .need = x->need,
                                 .ns = x->ns,
                                 .first_shared = x->first_shared,
                                 .shared = x->shared,
                                 .room = x->room,
                                 .cross_n = x->cross_n,
                                 .cross_bytes = x->cross_bytes,
                                 .cost = &x->cost};
    x->cost = (plait_cost){.n_devices = n, .devices = x->figures, .links = x->links};
    for (int k = 0; k < n * n; k++)
        x->links[k] = (plait_link_figures){.bytes_per_s = 1 + next(1000000000), .latency_ns = next(50)};
    for (uint32_t k = 0; k < x->p.n_units * (uint32_t)n; k++) {
        x->bytes[k] = next(100);
        x->need[k] = next(2) ? x->bytes[k] : 0;
        x->ns[k] = (double)next(1000);
    }
    for (int k = 0; k < MAX_SHARED * n; k++) x->shared_bytes[k] = next(60), x->shared_need[k] = next(60);
    uint32_t n_refs = 0;
    for (uint32_t u = 0; u < x->p.n_units; u++) {
        x->first_shared[u] = n_refs;
        x->cross_n[u] = (double)next(4);
        x->cross_bytes[u] = (double)next(100);
        for (uint32_t i = 0; i < MAX_SHARED; i++)
            if (next(3) == 0)
                x->shared[n_refs++] = (plait_split_shared){i, &x->shared_bytes[i * (uint32_t)n],
                                                           &x->shared_need[i * (uint32_t)n]};
    }
    x->first_shared[x->p.n_units] = n_refs;
    uint64_t most = next(2) ? 10000 : 40 + next(300);
    for (int d = 0; d < n; d++) x->room[d] = next(4) ? most : next(200);
}

/* Bytes or needs of the units of a solution on a device. */
static uint64_t sum_on(const instance *x, const int *solution, int d, bool need) {
    bool seen[MAX_SHARED] = {0};
    uint64_t sum = 0;
    for (uint32_t u = 0; u < x->p.n_units; u++) {
        if (solution[u] != d) continue;
        sum += (need ? x->need : x->bytes)[u * (uint32_t)x->p.n_devices + (uint32_t)d];
        for (uint32_t k = x->first_shared[u]; k < x->first_shared[u + 1]; k++) {
            const plait_split_shared *s = &x->shared[k];
            if (!seen[s->item]) sum += (need ? s->need : s->bytes)[d];
            seen[s->item] = true;
        }
    }
    return sum;
}

static bool legal(const instance *x, const int *solution) {
    for (uint32_t u = 1; u < x->p.n_units; u++)
        if (solution[u] < solution[u - 1]) return false;
    for (int d = 0; d < x->p.n_devices; d++) {
        if (sum_on(x, solution, d, true) > x->room[d]) return false;
        for (uint32_t u = 0; u < x->p.n_units; u++)
            if (solution[u] == d && x->p.shares && x->shares[d] == 0 && !x->p.soft) return false;
    }
    return true;
}

static double time_of(const instance *x, const int *solution) {
    double ns = 0;
    for (uint32_t u = 0; u < x->p.n_units; u++) {
        ns += x->ns[u * (uint32_t)x->p.n_devices + (uint32_t)solution[u]];
        if (u && solution[u] != solution[u - 1])
            ns +=
                plait_cost_transfer(&x->cost, solution[u - 1], solution[u], x->cross_n[u], x->cross_bytes[u]);
    }
    return ns;
}

/* Calls for every solution there is. */
typedef void visit_fn(const instance *x, const int *solution, void *user);

static int each(const instance *x, visit_fn *visit, void *user) {
    int solution[MAX_UNITS] = {0}, n = 0;
    for (;;) {
        if (legal(x, solution)) visit(x, solution, user), n++;
        uint32_t u = 0;
        while (u < x->p.n_units && ++solution[u] == x->p.n_devices) solution[u++] = 0;
        if (u == x->p.n_units) return n;
    }
}

static void least_time(const instance *x, const int *solution, void *user) {
    *(double *)user = fmin(*(double *)user, time_of(x, solution));
}

static void least_late(const instance *x, const int *solution, void *user) {
    double sum = 0;
    for (int d = 0; d < x->p.n_devices; d++) sum += d * (double)sum_on(x, solution, d, false);
    *(double *)user = fmin(*(double *)user, sum);
}

static bool on_first(const instance *x, const int *solution) {
    for (uint32_t u = 0; u < x->p.n_units; u++)
        if (solution[u]) return false;
    return true;
}

/* 4000 random problems: a solution is found exactly when there is one, and none is better. */
static void test_best_of_all(void **unused) {
    (void)unused;
    double cost;
    int found_some = 0, impossible = 0;
    for (uint64_t seed = 0; seed < 4000; seed++) {
        instance x;
        int solution[MAX_UNITS];
        bool found = false;
        make(&x, seed);
        x.p.first = seed % 2;
        double best = INFINITY, mine = INFINITY;
        int n = each(&x, x.p.first ? least_late : least_time, &best);
        assert_int_equal(plait_split_solve(&x.p, solution, &cost, &found), PLAIT_OK);
        assert_int_equal(found, n > 0);
        if (!found) {
            impossible++;
            continue;
        }
        found_some++;
        assert_true(legal(&x, solution));
        (x.p.first ? least_late : least_time)(&x, solution, &mine);
        assert_true(fabs(cost - mine) <= 1e-9 * mine + 1e-9);
        bool kept = !x.p.first && on_first(&x, solution) && mine <= best / 0.97 + 1e-6;
        if (mine > best * (1 + 1e-12) + 1e-9 && !kept)
            fail_msg("seed %llu: cost %g, best %g", (unsigned long long)seed, mine, best);
    }
    print_message("%d problems solved, %d without a solution\n", found_some, impossible);
    assert_true(found_some > 1000 && impossible > 100);
}

/* Sum of squares of what is missing or too much, of the bytes as they lie. */
static double unfair(const instance *x, const int *solution) {
    double total = 0, shares = 0, sum = 0;
    for (int d = 0; d < x->p.n_devices; d++) {
        total += (double)sum_on(x, solution, d, false);
        shares += x->shares[d];
    }
    for (int d = 0; d < x->p.n_devices; d++) {
        double off = (double)sum_on(x, solution, d, false) - total * x->shares[d] / shares;
        sum += off * off;
    }
    return sum;
}

static void least_unfair(const instance *x, const int *solution, void *user) {
    *(double *)user = fmin(*(double *)user, unfair(x, solution));
}

/* Shares, without things that units share (those make the sum depend on the solution) and alike on all devices: exact. */
static void test_shares(void **unused) {
    (void)unused;
    double cost;
    for (uint64_t seed = 0; seed < 3000; seed++) {
        instance x;
        int solution[MAX_UNITS];
        bool found = false;
        make(&x, seed);
        for (uint32_t u = 0; u <= x.p.n_units; u++) x.first_shared[u] = 0;
        for (uint32_t u = 0; u < x.p.n_units; u++)
            for (int d = 1; d < x.p.n_devices; d++)
                x.bytes[u * (uint32_t)x.p.n_devices + (uint32_t)d] = x.bytes[u * (uint32_t)x.p.n_devices];
        double sum = 0;
        for (int d = 0; d < x.p.n_devices; d++) sum += x.shares[d] = (double)next(4) * 0.25;
        if (sum == 0) x.shares[0] = 1;
        x.p.shares = x.shares;
        x.p.soft = seed % 3 == 0;
        double best = INFINITY;
        int n = each(&x, least_unfair, &best);
        assert_int_equal(plait_split_solve(&x.p, solution, &cost, &found), PLAIT_OK);
        assert_int_equal(found, n > 0);
        if (!found) continue;
        assert_true(legal(&x, solution));
        assert_true(fabs(cost - unfair(&x, solution)) <= 1e-9 * cost + 1e-6);
        if (unfair(&x, solution) > best * (1 + 1e-9) + 1e-6)
            fail_msg("seed %llu: %g, best %g", (unsigned long long)seed, unfair(&x, solution), best);
    }
}

/* ---- equal units ---- */

/* Units by the method of largest remainders; equal remainders to the earlier device. */
static void largest_remainders(const double *shares, int n_devices, int n_units, int *out) {
    double sum = 0, rest[8];
    int given = 0;
    for (int d = 0; d < n_devices; d++) sum += shares[d];
    for (int d = 0; d < n_devices; d++) {
        double quota = shares[d] / sum * n_units;
        out[d] = (int)floor(quota + 1e-9);
        rest[d] = quota - out[d];
        given += out[d];
    }
    for (; given < n_units; given++) {
        int best = 0;
        for (int d = 1; d < n_devices; d++)
            if (rest[d] > rest[best] + 1e-9) best = d;
        out[best]++;
        rest[best] = -1;
    }
}

static void split_equal(const double *shares, int n_devices, uint32_t n_units, int *out_counts) {
    uint64_t *bytes = calloc(n_units * (size_t)n_devices, sizeof *bytes), room[8];
    double *ns = calloc(n_units * (size_t)n_devices, sizeof *ns), *cross = calloc(n_units + 1, sizeof *cross);
    uint32_t *first = calloc(n_units + 1, sizeof *first);
    int *solution = calloc(n_units, sizeof *solution);
    bool found = false;
    double cost;
    assert_true(bytes && ns && cross && first && solution);
    for (size_t k = 0; k < n_units * (size_t)n_devices; k++) bytes[k] = 7345678;
    for (int d = 0; d < n_devices; d++) room[d] = UINT64_MAX, out_counts[d] = 0;
    plait_split_problem p = {.n_units = n_units,
                             .n_devices = n_devices,
                             .bytes = bytes,
                             .need = bytes,
                             .ns = ns,
                             .first_shared = first,
                             .room = room,
                             .cross_n = cross,
                             .cross_bytes = cross,
                             .shares = shares};
    assert_int_equal(plait_split_solve(&p, solution, &cost, &found), PLAIT_OK);
    assert_true(found);
    for (uint32_t u = 0; u < n_units; u++) {
        out_counts[solution[u]]++;
        assert_true(u == 0 || solution[u] >= solution[u - 1]);
    }
    free(bytes), free(ns), free(cross), free(first), free(solution);
}

static void test_largest_remainders(void **unused) {
    (void)unused;
    static const double shares[][4] = {{1, 1},       {0.49, 0.51}, {2, 1},    {41, 29, 30}, {1, 0, 1},
                                       {1, 1, 1, 1}, {7, 2, 2, 1}, {0, 0, 1}, {3, 0, 0, 1}, {1, 1, 1}};
    static const int n_devices[] = {2, 2, 2, 3, 3, 4, 4, 3, 4, 3};
    for (size_t s = 0; s < sizeof n_devices / sizeof *n_devices; s++)
        for (int n_units = 1; n_units <= 130; n_units += n_units < 40 ? 1 : 9) {
            int expected[4] = {0}, actual[4] = {0};
            largest_remainders(shares[s], n_devices[s], n_units, expected);
            split_equal(shares[s], n_devices[s], (uint32_t)n_units, actual);
            if (memcmp(expected, actual, sizeof actual) != 0)
                fail_msg("shares %zu, %d units: %d %d %d %d, expected %d %d %d %d", s, n_units, actual[0],
                         actual[1], actual[2], actual[3], expected[0], expected[1], expected[2], expected[3]);
        }
}

/* A device of share 0 in between changes nothing for the others. */
static void test_zero_shares(void **unused) {
    (void)unused;
    for (int n_units = 1; n_units < 40; n_units++) {
        int two[2], three[3];
        split_equal((const double[]){2, 3}, 2, (uint32_t)n_units, two);
        split_equal((const double[]){2, 0, 3}, 3, (uint32_t)n_units, three);
        assert_int_equal(three[0], two[0]);
        assert_int_equal(three[1], 0);
        assert_int_equal(three[2], two[1]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_best_of_all),
        cmocka_unit_test(test_shares),
        cmocka_unit_test(test_largest_remainders),
        cmocka_unit_test(test_zero_shares),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
