/* Selection by radix (k largest) and by buckets of value (prefix of a given mass). Invariant: the result
 * depends on values and indices only; sums are taken in list order.
 *
 * Not here: what the prefix or the k are for (steps_cut.c). Neither function sorts its input or allocates; both are
 * linear for real distributions, and n log n at worst. */
#include "text/sampler/select.h"

#include <float.h>
#include <string.h>

/* Unsigned keys in the order of the floats; -0 and +0 are equal. Negative floats order in reverse of their bits, so all
 * bits are flipped; positive ones get the sign bit, to lie above them. */
static inline uint32_t float_key(float x) {
    float canonical = x + 0.0f;
    uint32_t bits;
    memcpy(&bits, &canonical, sizeof bits);
    return bits ^ ((bits >> 31) ? 0xFFFFFFFFu : 0x80000000u);
}

#define N_BUCKETS 1024
#define BLOCK     256

/* Moves the elements of block[0..m) that are marked to out; returns the new length of out. A block without marks, which
 * is nearly every block, costs one vector loop. */
static size_t append_marked(const int *block, size_t m, size_t start, uint32_t *out, size_t found) {
    int any = 0;
    for (size_t i = 0; i < m; i++) any |= block[i];
    for (size_t i = 0; any && i < m; i++) {
        out[found] = (uint32_t)(start + i);
        found += (size_t)block[i];
    }
    return found;
}

/* ---- the k largest ---- */

#define RADIX_SIZE 2048

/* A digit of the k-th largest key of the list; elements that do not have it leave the list, and *k is lowered by the
 * number of those above. 11 bits of the key at `shift`; the histogram stays in the nearest cache. *k stays at least 1:
 * it counts the place within the elements that share all digits found so far. */
static uint32_t find_digit(const float *x, uint32_t *list, size_t *n, int shift, size_t *k) {
    uint32_t histogram[RADIX_SIZE] = {0}, digit = RADIX_SIZE - 1;
    for (size_t i = 0; i < *n; i++) histogram[float_key(x[list[i]]) >> shift & (RADIX_SIZE - 1)]++;
    for (; digit > 0 && histogram[digit] < *k; digit--) *k -= histogram[digit];
    size_t m = 0;
    for (size_t i = 0; i < *n; i++) {
        uint32_t element = list[i];
        list[m] = element;
        m += (float_key(x[element]) >> shift & (RADIX_SIZE - 1)) == digit;
    }
    *n = m;
    return digit;
}

/* Buckets of equal width, the largest values first. Any positive scale gives a right order of buckets; minus infinity
 * goes into the last. Rounding may move elements at a border into a neighbouring bucket, always the same way for the
 * same value, so equal values share one. */
static inline int falling_bucket(float x, float max, float scale) {
    float b = (max - x) * scale;
    return (int)(b < (float)(N_BUCKETS - 1) ? b : (float)(N_BUCKETS - 1));
}

/* Finds the bucket that holds the k-th largest of all elements, moves its elements to list, and lowers *k by the number
 * of those in buckets above. A first cut by value instead of by bits: logits crowd into few exponents, where the upper
 * digit of a key tells little apart. The scale for a range of nothing or of infinity is arbitrary: one bucket then
 * takes nearly all, and the digits do the work. */
static size_t split_by_value(const plait_sampler_kernels *kernels, const float *x, size_t n, size_t *k,
                             uint32_t *list) {
    float max = kernels->max(x, n), range = max - kernels->min(x, n);
    float scale = range > 1e-30f && range < 1e30f ? (float)N_BUCKETS / range : 10.0f;
    uint32_t counts[N_BUCKETS] = {0};
    int block[BLOCK], chosen = 0; /* blocks are filled by vector code */
    for (size_t start = 0; start < n; start += BLOCK) {
        size_t m = n - start < BLOCK ? n - start : BLOCK;
        for (size_t i = 0; i < m; i++) block[i] = falling_bucket(x[start + i], max, scale);
        for (size_t i = 0; i < m; i++) counts[block[i]]++;
    }
    for (; chosen < N_BUCKETS - 1 && counts[chosen] < *k; chosen++) *k -= counts[chosen];
    size_t found = 0;
    for (size_t start = 0; start < n; start += BLOCK) {
        size_t m = n - start < BLOCK ? n - start : BLOCK;
        for (size_t i = 0; i < m; i++) block[i] = falling_bucket(x[start + i], max, scale) == chosen;
        found = append_marked(block, m, start, list, found);
    }
    return found;
}

/* The key of the k-th largest is found exactly; then one pass takes all above it and, up to the last tie that still
 * fits, those equal to it: in rising order, without sorting. 1 <= k <= n. `out` gets k places, `scratch` has room for
 * n. Of equal elements those with the smallest index are taken. */
void plait_sampler_select_largest(const plait_sampler_kernels *kernels, const float *x, size_t n, size_t k,
                                  uint32_t *out, uint32_t *scratch) {
    size_t left = k, m = n, kept = 0;
    if (n > 4096 && kernels->max(x, n) > -FLT_MAX)
        m = split_by_value(kernels, x, n, &left, scratch);
    else
        for (size_t i = 0; i < n; i++) scratch[i] = (uint32_t)i;
    /* Digits of 11, 11 and 10 bits; the last step sees one bit of the second digit again, the same for all.
     * */
    uint32_t key = find_digit(x, scratch, &m, 21, &left) << 21;
    key |= find_digit(x, scratch, &m, 10, &left) << 10;
    key |= find_digit(x, scratch, &m, 0, &left) & 1023;
    size_t last_tie = scratch[left - 1];
    int block[BLOCK];
    for (size_t start = 0; start < n; start += BLOCK) {
        size_t rest = n - start < BLOCK ? n - start : BLOCK;
        for (size_t i = 0; i < rest; i++) block[i] = float_key(x[start + i]) > key;
        for (size_t i = 0; i < rest && start + i <= last_tie; i++) block[i] |= float_key(x[start + i]) == key;
        kept = append_marked(block, rest, start, out, kept);
    }
}

/* ---- sorting ---- */

/* Rising value times sign, then rising index. A total order, since indices differ; sign -1 sorts by falling value and
 * still by rising index. */
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

/* In place and n log n for every input; lists are short. */
static void heap_sort(const float *x, float sign, uint32_t *list, size_t n) {
    for (size_t i = n / 2; i-- > 0;) sift_down(x, sign, list, i, n);
    for (size_t end = n; end-- > 1;) {
        uint32_t t = list[0];
        list[0] = list[end];
        list[end] = t;
        sift_down(x, sign, list, 0, end);
    }
}

void plait_sampler_sort_falling(const float *x, uint32_t *index, size_t n) {
    heap_sort(x, -1.0f, index, n);
}

/* ---- prefix by mass ---- */

#define N_BUCKETS 1024
#define BLOCK     256

/* A selection in progress: elements by rising `order`, their masses in `weight`. */
typedef struct mass_walk {
    const float *order, *weight;
    plait_mass_rule rule;
    double mass; /* of what is taken so far */
    size_t count;
} mass_walk;

typedef struct mass_bucket {
    double mass;
    size_t count;
} mass_bucket;

/* min_count wins over the mass, so a step with min_keep takes more than its p asks for. */
static bool rule_met(const mass_walk *w, double mass, size_t count) {
    bool reached = w->rule.strict ? mass > w->rule.target : mass >= w->rule.target;
    return reached && count >= w->rule.min_count;
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

/* Takes whole buckets while the rule is not met; returns the one in which it is met, or else the last. */
static int walk_buckets(mass_walk *w, const mass_bucket buckets[N_BUCKETS]) {
    int last = N_BUCKETS - 1, b = 0;
    while (last > 0 && buckets[last].count == 0) last--;
    for (; b < last && !rule_met(w, w->mass + buckets[b].mass, w->count + buckets[b].count); b++) {
        w->mass += buckets[b].mass;
        w->count += buckets[b].count;
    }
    return b;
}

static inline int bucket_of(float value, float low, float scale) {
    int b = (int)((value - low) * scale);
    return b < N_BUCKETS - 1 ? b : N_BUCKETS - 1;
}

/* Splits the values of all n elements, which lie in [low, high], into buckets of equal width, and moves the elements of
 * the bucket where the prefix ends to `out`. Masses of buckets are summed in index order, which is fixed, so the bucket
 * in which the rule is met is the same everywhere. */
static size_t split_all(mass_walk *w, size_t n, float low, float high, uint32_t *out) {
    mass_bucket buckets[N_BUCKETS] = {{0}};
    float scale = (float)N_BUCKETS / (high - low);
    int block[BLOCK]; /* filled by vector code */
    for (size_t start = 0; start < n; start += BLOCK) {
        size_t m = n - start < BLOCK ? n - start : BLOCK;
        for (size_t i = 0; i < m; i++) block[i] = bucket_of(w->order[start + i], low, scale);
        for (size_t i = 0; i < m; i++) {
            buckets[block[i]].mass += (double)w->weight[start + i];
            buckets[block[i]].count++;
        }
    }
    int chosen = walk_buckets(w, buckets);
    size_t found = 0;
    for (size_t start = 0; start < n; start += BLOCK) {
        size_t m = n - start < BLOCK ? n - start : BLOCK;
        for (size_t i = 0; i < m; i++) block[i] = bucket_of(w->order[start + i], low, scale) == chosen;
        found = append_marked(block, m, start, out, found);
    }
    return found;
}

/* The same for a list, which is cut down to the elements of the last bucket. */
static size_t split_list(mass_walk *w, uint32_t *list, size_t n, float low, float high) {
    mass_bucket buckets[N_BUCKETS] = {{0}};
    float scale = (float)N_BUCKETS / (high - low);
    for (size_t i = 0; i < n; i++) {
        mass_bucket *b = &buckets[bucket_of(w->order[list[i]], low, scale)];
        b->mass += (double)w->weight[list[i]];
        b->count++;
    }
    int chosen = walk_buckets(w, buckets);
    size_t found = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t element = list[i];
        list[found] = element;
        found += bucket_of(w->order[element], low, scale) == chosen;
    }
    return found;
}

/* The last element of the prefix, among those in list. `list` is not empty and rises by index. A range below 1e-30
 * would make the scale infinite; such lists are sorted. */
static uint32_t find_end(mass_walk *w, uint32_t *list, size_t n) {
    for (int round = 0;; round++) {
        float low = w->order[list[0]], high = low;
        for (size_t i = 1; i < n; i++) {
            float value = w->order[list[i]];
            low = value < low ? value : low;
            high = value > high ? value : high;
        }
        /* Ties are in the order of their indices already. Each round narrows the range of values a
         * thousandfold: eight rounds settle any real distribution, and contrived ones are sorted. */
        bool sorted = low == high;
        if (!sorted && n > 64 && round < 8 && high - low > 1e-30f) {
            n = split_list(w, list, n, low, high);
            continue;
        }
        if (!sorted) heap_sort(w->order, 1.0f, list, n);
        return walk_sorted(w, list, n);
    }
}

/* The prefix is given by its last element: everything smaller, and of equal ones those up to its index. So it comes out
 * in rising index without being sorted. */
size_t plait_sampler_select_mass(const plait_sampler_kernels *kernels, const float *order,
                                 const float *weight, size_t n, plait_mass_rule rule, uint32_t *out,
                                 uint32_t *scratch) {
    mass_walk walk = {.order = order, .weight = weight, .rule = rule};
    float low = kernels->min(order, n), high = kernels->max(order, n);
    size_t m = n, kept = 0;
    if (n > 1024 && high - low > 1e-30f)
        m = split_all(&walk, n, low, high, scratch);
    else
        for (size_t i = 0; i < n; i++) scratch[i] = (uint32_t)i;
    uint32_t end = find_end(&walk, scratch, m);
    int block[BLOCK];
    for (size_t start = 0; start < n; start += BLOCK) {
        size_t rest = n - start < BLOCK ? n - start : BLOCK;
        for (size_t i = 0; i < rest; i++) block[i] = order[start + i] < order[end];
        for (size_t i = 0; i < rest && start + i <= end; i++) block[i] |= order[start + i] == order[end];
        kept = append_marked(block, rest, start, out, kept);
    }
    return kept;
}
