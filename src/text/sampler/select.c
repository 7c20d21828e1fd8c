/* Selection by radix (k largest) and by buckets of value (prefix of a given mass). Invariant: the result
 * depends on values and indices only; sums are taken in list order. */
#include "text/sampler/select.h"

#include <string.h>

/* Unsigned keys in the order of the floats; -0 and +0 are equal. */
static inline uint32_t float_key(float x) {
    float canonical = x + 0.0f;
    uint32_t bits;
    memcpy(&bits, &canonical, sizeof bits);
    return bits ^ ((bits >> 31) ? 0xFFFFFFFFu : 0x80000000u);
}

#define RADIX_SIZE 2048

/* Among list[0..n), all alike above bit `shift + bits`, finds the digit of the k-th largest key; moves the
 * elements with that digit to `out` and lowers *k by the number of those above. Returns the digit. */
static uint32_t radix_step(const float *x, const uint32_t *list, size_t n, int shift, size_t *k,
                           uint32_t *out, size_t *n_out) {
    uint32_t histogram[RADIX_SIZE] = {0};
    for (size_t i = 0; i < n; i++) histogram[float_key(x[list[i]]) >> shift & (RADIX_SIZE - 1)]++;
    uint32_t digit = RADIX_SIZE - 1;
    for (; digit > 0 && histogram[digit] < *k; digit--) *k -= histogram[digit];
    size_t m = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t element = list[i];
        if ((float_key(x[element]) >> shift & (RADIX_SIZE - 1)) == digit) out[m++] = element;
    }
    *n_out = m;
    return digit;
}

void plait_sampler_select_largest(const float *x, uint32_t *index, size_t n, size_t k, uint32_t *scratch) {
    if (k >= n || k == 0) return;
    size_t left = k, m;
    /* Digits of 11, 11 and 10 bits; the last step sees one bit of the second digit again, the same for all.
     * */
    uint32_t key = radix_step(x, index, n, 21, &left, scratch, &m) << 21;
    key |= radix_step(x, scratch, m, 10, &left, scratch, &m) << 10;
    key |= radix_step(x, scratch, m, 0, &left, scratch, &m) & 1023;
    size_t kept = 0;
    for (size_t i = 0; i < n && kept < k; i++) {
        uint32_t own = float_key(x[index[i]]);
        bool tie = own == key && left > 0;
        if (own > key || tie) index[kept++] = index[i];
        left -= tie;
    }
}

/* ---- prefix by mass ---- */

#define N_BUCKETS 1024

typedef struct mass_walk {
    const float *order, *weight;
    plait_mass_rule rule;
    double mass; /* of what is taken so far */
    size_t count;
} mass_walk;

static bool rule_met(const mass_walk *w, double mass, size_t count) {
    bool reached = w->rule.strict ? mass > w->rule.target : mass >= w->rule.target;
    return reached && count >= w->rule.min_count;
}

/* Rising value times sign, then rising index. */
static bool before(const float *x, float sign, uint32_t a, uint32_t b) {
    return sign * x[a] < sign * x[b] || (x[a] == x[b] && a < b);
}

static void sift_down(const float *x, float sign, uint32_t *heap, size_t root, size_t n) {
    for (size_t child; (child = 2 * root + 1) < n; root = child) {
        if (child + 1 < n && before(x, sign, heap[child], heap[child + 1])) child++;
        if (!before(x, sign, heap[root], heap[child])) return;
        uint32_t t = heap[root];
        heap[root] = heap[child];
        heap[child] = t;
    }
}

static void heap_sort(const float *x, float sign, uint32_t *list, size_t n) {
    for (size_t i = n / 2; i-- > 0;) sift_down(x, sign, list, i, n);
    for (size_t end = n; end-- > 1;) {
        uint32_t t = list[0];
        list[0] = list[end];
        list[end] = t;
        sift_down(x, sign, list, 0, end);
    }
}

/* Takes from a sorted list until the rule is met; returns the last element taken. */
static uint32_t walk_sorted(mass_walk *w, const uint32_t *list, size_t n) {
    for (size_t i = 0; i < n; i++) {
        w->mass += (double)w->weight[list[i]];
        w->count++;
        if (rule_met(w, w->mass, w->count)) return list[i];
    }
    return list[n - 1];
}

/* Splits the list into buckets of equal width, takes whole buckets while the rule is not met, and moves the
 * bucket in which it is met (or else the last one) to `out`. */
static size_t walk_buckets(mass_walk *w, const uint32_t *list, size_t n, float low, float high,
                           uint32_t *out) {
    double mass[N_BUCKETS] = {0};
    uint32_t count[N_BUCKETS] = {0};
    float scale = (float)N_BUCKETS / (high - low);
    for (size_t i = 0; i < n; i++) {
        int b = (int)((w->order[list[i]] - low) * scale);
        b = b < N_BUCKETS - 1 ? b : N_BUCKETS - 1;
        mass[b] += (double)w->weight[list[i]];
        count[b]++;
    }
    int last = N_BUCKETS - 1, chosen = 0;
    while (last > 0 && !count[last]) last--;
    for (; chosen < last && !rule_met(w, w->mass + mass[chosen], w->count + count[chosen]); chosen++) {
        w->mass += mass[chosen];
        w->count += count[chosen];
    }
    size_t m = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t element = list[i];
        int b = (int)((w->order[element] - low) * scale);
        b = b < N_BUCKETS - 1 ? b : N_BUCKETS - 1;
        if (b == chosen) out[m++] = element;
    }
    return m;
}

size_t plait_sampler_select_mass(const float *order, const float *weight, uint32_t *index, size_t n,
                                 plait_mass_rule rule, uint32_t *scratch) {
    if (n == 0 || rule.min_count >= n) return n;
    mass_walk walk = {.order = order, .weight = weight, .rule = rule};
    const uint32_t *list = index;
    size_t m = n;
    uint32_t end;
    /* Each round narrows the range of values a thousandfold; eight rounds settle any real distribution, and
     * contrived ones are sorted. */
    for (int round = 0;; round++) {
        float low = order[list[0]], high = low;
        for (size_t i = 1; i < m; i++) {
            float value = order[list[i]];
            low = value < low ? value : low;
            high = value > high ? value : high;
        }
        if (low == high) { /* ties: already in the order of their indices */
            end = walk_sorted(&walk, list, m);
            break;
        }
        if (m <= 64 || round == 8 || !(high - low > 1e-30f)) {
            if (list == index) memcpy(scratch, index, m * sizeof *scratch);
            heap_sort(order, 1.0f, scratch, m);
            end = walk_sorted(&walk, scratch, m);
            break;
        }
        m = walk_buckets(&walk, list, m, low, high, scratch);
        list = scratch;
    }
    size_t kept = 0;
    for (size_t i = 0; i < n; i++)
        if (!before(order, 1.0f, end, index[i])) index[kept++] = index[i];
    return kept;
}

void plait_sampler_sort_falling(const float *x, uint32_t *index, size_t n) {
    heap_sort(x, -1.0f, index, n);
}
