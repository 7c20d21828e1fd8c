/* The ranges of units, by dynamic programming over (device, number of units before the end of its range). A state
 * says that device d holds the unit before i, so the next range must begin at i on a later device; what it costs to
 * get there depends on those two numbers alone, which is what makes the tables small. Not here: what the numbers mean
 * (survey.c, spread.c), and whether the answer fits after all (spread.c).
 *
 * Invariant: the solution is the best of all contiguous ranges in device order, and never takes more than the room of
 * a device. Equal inputs give equal outputs: comparisons are strict, in a fixed order. */
#include "plan/split.h"

#include "base/alloc.h"
#include "base/size.h"
#include "base/status.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Rounds of solve_shares; and the least part of the time on one device that a spread must win. */
enum { MAX_ROUNDS = 6 };
static const double LEAST_GAIN = 0.03;

/* Tables; row d, column i: device d holds the unit before i, and i units are placed. */
typedef struct solver {
    const plait_split_problem *p;
    size_t width;     /* n_units + 1 */
    double *best;     /* cost so far, INFINITY: impossible */
    uint32_t *begin;  /* where the range of d begins */
    int *before;      /* device of the range before it, -1: none */
    double *arrive;   /* [i] least cost of i units on devices before d, with the way to d */
    int *arrive_from; /* [i] */
    double *targets;  /* [device] bytes, with shares */
    double *held;     /* [device] bytes in a solution */
    int *solution;    /* [unit] */
    double *empty;    /* [device + 1] sum of what the devices before cost when they hold nothing */
    uint32_t *seen;   /* [n_shared] stamp */
    uint32_t stamp;
} solver;

/* Bytes of the units that a solution gives to a device (all of them without one), each shared thing once. `seen` is a
 * set that is emptied by counting its stamp up. */
static double bytes_on(solver *s, int d, const int *solution) {
    const plait_split_problem *p = s->p;
    double sum = 0;
    s->stamp++;
    for (uint32_t u = 0; u < p->n_units; u++) {
        if (solution && solution[u] != d) continue;
        sum += (double)p->bytes[(size_t)u * (size_t)p->n_devices + (size_t)d];
        for (uint32_t k = p->first_shared[u]; k < p->first_shared[u + 1]; k++)
            if (s->seen[p->shared[k].item] != s->stamp) {
                s->seen[p->shared[k].item] = s->stamp;
                sum += (double)p->shared[k].bytes[d];
            }
    }
    return sum;
}

/* What a solution puts on a device for units of others. */
static double bytes_for_others(const solver *s, int d, const int *solution) {
    const plait_split_problem *p = s->p;
    size_t n = (size_t)p->n_devices;
    double sum = 0;
    for (uint32_t u = 0; p->elsewhere && u < p->n_units; u++)
        if (solution[u] != d)
            sum += (double)p->elsewhere[((size_t)u * n + (size_t)solution[u]) * n + (size_t)d];
    return sum;
}

/* Shares need not add up to 1. */
static double sum_of_shares(const plait_split_problem *p) {
    double sum = 0;
    for (int d = 0; d < p->n_devices; d++) sum += p->shares[d];
    return sum;
}

/* Shares of all bytes as they would lie on one device. `empty` becomes the running sum of what it costs each device
 * to hold nothing: its target, squared. So a range of devices that are passed over is charged by one subtraction. */
static void set_first_targets(solver *s) {
    for (int d = 0; d < s->p->n_devices; d++) {
        s->targets[d] = s->p->shares ? s->p->shares[d] / sum_of_shares(s->p) * bytes_on(s, d, NULL) : 0;
        s->empty[d + 1] = s->empty[d] + s->targets[d] * s->targets[d];
    }
}

/* Shares of all bytes as they lie in a solution, where shared things may be there more than once and some lie elsewhere;
 * what a device holds for others is not sought any more. Returns how unfair the solution is. */
static double set_targets(solver *s, const int *solution) {
    const plait_split_problem *p = s->p;
    double total = 0, unfair = 0;
    for (int d = 0; d < p->n_devices; d++)
        total += s->held[d] = bytes_on(s, d, solution) + bytes_for_others(s, d, solution);
    for (int d = 0; d < p->n_devices; d++) {
        double due = p->shares[d] / sum_of_shares(p) * total, off = s->held[d] - due;
        double target = due - bytes_for_others(s, d, solution);
        unfair += off * off;
        s->targets[d] = target > 0 ? target : 0;
        s->empty[d + 1] = s->empty[d] + s->targets[d] * s->targets[d];
    }
    return unfair;
}

/* By the three things that may be sought. `first` charges a byte the place of its device: the least sum has as much
 * as possible in front, and ties cannot hide behind other figures. */
static double range_cost(const solver *s, int d, uint64_t bytes, double ns) {
    const plait_split_problem *p = s->p;
    if (p->first) return (double)d * (double)bytes;
    if (!p->shares) return ns;
    double off = (double)bytes - s->targets[d];
    return off * off;
}

/* What moves from the range before, which ends before unit i. */
static double cross_cost(const solver *s, int from, int to, uint32_t i) {
    const plait_split_problem *p = s->p;
    if (p->first || p->shares) return 0;
    return plait_cost_transfer(p->cost, from, to, p->cross_n[i], p->cross_bytes[i]);
}

/* The best way to arrive at device d with i units placed before it. */
static void find_arrivals(solver *s, int d) {
    const plait_split_problem *p = s->p;
    for (uint32_t i = 0; i < p->n_units; i++) {
        s->arrive[i] = i == 0 ? s->empty[d] : INFINITY;
        s->arrive_from[i] = -1;
        /* Devices between e and d hold nothing, and are charged for it. */
        for (int e = 0; i > 0 && e < d; e++) {
            double cost = s->best[(size_t)e * s->width + i];
            if (cost == INFINITY) continue;
            cost += s->empty[d] - s->empty[e + 1] + cross_cost(s, e, d, i);
            if (cost < s->arrive[i]) s->arrive[i] = cost, s->arrive_from[i] = e;
        }
    }
}

/* Adds what a unit has and the range does not hold yet. False when the device has no room for it. What is shared is
 * counted with the first unit of the range that has it; the caller has begun a new stamp for the range. An overflow
 * counts as no room. */
static bool add_unit(solver *s, int d, uint32_t u, uint64_t *bytes, uint64_t *need) {
    const plait_split_problem *p = s->p;
    size_t at = (size_t)u * (size_t)p->n_devices + (size_t)d;
    if (!plait_add_u64(*bytes, p->bytes[at], bytes) || !plait_add_u64(*need, p->need[at], need)) return false;
    for (uint32_t k = p->first_shared[u]; k < p->first_shared[u + 1]; k++) {
        if (s->seen[p->shared[k].item] == s->stamp) continue;
        s->seen[p->shared[k].item] = s->stamp;
        if (!plait_add_u64(*bytes, p->shared[k].bytes[d], bytes) ||
            !plait_add_u64(*need, p->shared[k].need[d], need))
            return false;
    }
    return *need <= p->room[d];
}

/* Ranges of device d that end before unit i, the shortest first: of equal ones the earlier devices have more. A range
 * grows backwards, so adding a unit never takes one away, and the first that has no room ends the search.
 *
 * It ends early, too, where no longer range can be better: without shares costs only grow; with them they grow once
 * the target is passed. The way to the beginning of the range costs 0 at least. */
static void extend(solver *s, int d, uint32_t i) {
    const plait_split_problem *p = s->p;
    size_t at = (size_t)d * s->width + i;
    uint64_t bytes = 0, need = 0;
    double ns = 0;
    s->stamp++;
    for (uint32_t j = i; j-- > 0;) {
        if (!add_unit(s, d, j, &bytes, &need)) return;
        ns += p->ns[(size_t)j * (size_t)p->n_devices + (size_t)d];
        double cost = range_cost(s, d, bytes, ns);
        bool growing = !p->shares || (double)bytes >= s->targets[d]; /* longer ranges cost more and more */
        if (growing && cost >= s->best[at]) return;
        cost += s->arrive[j];
        if (cost < s->best[at]) {
            s->best[at] = cost;
            s->begin[at] = j;
            s->before[at] = s->arrive_from[j];
        }
    }
}

/* Devices in order: arrivals at d need the finished rows of those before. A share of 0 bars a device unless the
 * problem is soft. */
static void solve(solver *s) {
    const plait_split_problem *p = s->p;
    for (size_t k = 0; k < (size_t)p->n_devices * s->width; k++) s->best[k] = INFINITY;
    for (int d = 0; d < p->n_devices; d++) {
        bool barred = p->shares && p->shares[d] == 0 && !p->soft;
        find_arrivals(s, d);
        for (uint32_t i = 1; !barred && i <= p->n_units; i++) extend(s, d, i);
    }
}

/* Follows the tables back from the end. Devices behind the last range hold nothing, and are charged for it. False: no
 * device can hold the last unit in any way. */
static bool read_solution(const solver *s, int *out, double *out_cost) {
    const plait_split_problem *p = s->p;
    double best = INFINITY;
    int device = -1;
    for (int d = 0; d < p->n_devices; d++) {
        double cost = s->best[(size_t)d * s->width + p->n_units] + s->empty[p->n_devices] - s->empty[d + 1];
        if (cost < best) best = cost, device = d;
    }
    /* Leaving the first device must win something, or figures that hardly differ would decide. */
    double on_first = s->best[p->n_units];
    if (!p->first && !p->shares && on_first < INFINITY && best >= (1 - LEAST_GAIN) * on_first)
        device = 0, best = on_first;
    if (device < 0) return false;
    *out_cost = best;
    for (uint32_t i = p->n_units; i > 0;) {
        size_t at = (size_t)device * s->width + i;
        for (uint32_t u = s->begin[at]; u < i; u++) out[u] = device;
        device = s->before[at];
        i = s->begin[at];
    }
    return true;
}

/* What the bytes are in all is known only from a solution, if units share things or put some elsewhere: then again,
 * for the bytes of the solution before; the fairest of all counts. Rounds need not converge, a block may go back and
 * forth between two devices, so they are few and the best is kept. Whether there is a solution does not depend on the
 * targets: all rounds have one, or none. */
static void solve_shares(solver *s, int *out, double *out_cost, bool *out_found) {
    const plait_split_problem *p = s->p;
    bool exact = !p->elsewhere && p->first_shared[p->n_units] == 0;
    double fairest = INFINITY;
    set_first_targets(s);
    for (int round = 0; round < (exact ? 1 : MAX_ROUNDS); round++) {
        double cost;
        solve(s);
        *out_found = read_solution(s, s->solution, &cost);
        if (!*out_found) return;
        double unfair = set_targets(s, s->solution);
        if (unfair < fairest) {
            fairest = *out_cost = unfair;
            memcpy(out, s->solution, p->n_units * sizeof *out);
        }
    }
}

/* Without shares one round says all. */
static void solve_once(solver *s, int *out, double *out_cost, bool *out_found) {
    set_first_targets(s); /* none */
    solve(s);
    *out_found = read_solution(s, out, out_cost);
}

/* Not for n_units 0, which has the empty solution of cost 0. */
plait_status plait_split_solve(const plait_split_problem *problem, int *out_devices, double *out_cost,
                               bool *out_found) {
    size_t width = (size_t)problem->n_units + 1, n = (size_t)problem->n_devices;
    plait_arena arena;
    plait_arena_init(&arena, 0);
    solver s = {.p = problem,
                .width = width,
                .best = plait_arena_alloc(&arena, n * width, sizeof *s.best),
                .begin = plait_arena_alloc(&arena, n * width, sizeof *s.begin),
                .before = plait_arena_alloc(&arena, n * width, sizeof *s.before),
                .arrive = plait_arena_alloc(&arena, width, sizeof *s.arrive),
                .arrive_from = plait_arena_alloc(&arena, width, sizeof *s.arrive_from),
                .targets = plait_arena_alloc(&arena, n, sizeof *s.targets),
                .held = plait_arena_alloc(&arena, n, sizeof *s.held),
                .empty = plait_arena_alloc(&arena, n + 1, sizeof *s.empty),
                .solution = plait_arena_alloc(&arena, width, sizeof *s.solution),
                .seen = plait_arena_alloc(&arena, problem->n_shared, sizeof *s.seen)};
    /* All tables at once, checked together: what is missing of them is found in one place. */
    bool all = s.best && s.begin && s.before && s.arrive && s.arrive_from && s.targets && s.held && s.empty &&
               s.solution && s.seen;
    if (all) {
        *out_found = true;
        *out_cost = 0;
        if (problem->n_units > 0)
            (problem->shares ? solve_shares : solve_once)(&s, out_devices, out_cost, out_found);
    }
    plait_arena_deinit(&arena);
    return all ? PLAIT_OK : plait_error_memory("split", n * width * sizeof *s.best);
}
