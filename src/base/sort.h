/* Sorting arrays of a known type by an expression that the compiler sees: where qsort's calls through a pointer, and
 * the memory that it may take, would be most of the time. Not here: stable sorting; give equal items different keys
 * where their order matters. Nothing is allocated, and the stack is bounded by log n, since the smaller side is the one
 * that recurses. */
#ifndef PLAIT_BASE_SORT_H
#define PLAIT_BASE_SORT_H

#include <stddef.h>

/* Defines static void NAME(TYPE *items, size_t n). LESS(a, b) takes two pointers to const TYPE. Quicksort by the middle
 * of three down to short runs (24), which are inserted; where the middles are bad again and again (twice the logarithm
 * of n in splits), heapsort: never worse than n log n. The split is Hoare's: it ends with low >= 1 and low < n, so both
 * sides are smaller than the whole even when all items are equal. */
#define PLAIT_DEFINE_SORT(NAME, TYPE, LESS)                                                                  \
    static void NAME##_insert(TYPE *items, size_t n) {                                                       \
        for (size_t i = 1; i < n; i++) {                                                                     \
            TYPE moved = items[i];                                                                           \
            size_t k = i;                                                                                    \
            for (; k > 0 && LESS(&moved, &items[k - 1]); k--) items[k] = items[k - 1];                       \
            items[k] = moved;                                                                                \
        }                                                                                                    \
    }                                                                                                        \
    static void NAME##_sink(TYPE *items, size_t i, size_t n) {                                               \
        TYPE moved = items[i];                                                                               \
        for (size_t child; (child = 2 * i + 1) < n; i = child) {                                             \
            if (child + 1 < n && LESS(&items[child], &items[child + 1])) child++;                            \
            if (!LESS(&moved, &items[child])) break;                                                         \
            items[i] = items[child];                                                                         \
        }                                                                                                    \
        items[i] = moved;                                                                                    \
    }                                                                                                        \
    static void NAME##_heap(TYPE *items, size_t n) {                                                         \
        for (size_t i = n / 2; i-- > 0;) NAME##_sink(items, i, n);                                           \
        for (size_t end = n; end-- > 1;) {                                                                   \
            TYPE largest = items[0];                                                                         \
            items[0] = items[end];                                                                           \
            items[end] = largest;                                                                            \
            NAME##_sink(items, 0, end);                                                                      \
        }                                                                                                    \
    }                                                                                                        \
    static size_t NAME##_split(TYPE *items, size_t n) {                                                      \
        const TYPE *a = &items[0], *b = &items[n / 2], *c = &items[n - 1];                                   \
        TYPE pivot = LESS(a, b) ? (LESS(b, c)   ? *b                                                         \
                                   : LESS(a, c) ? *c                                                         \
                                                : *a)                                                        \
                                : (LESS(a, c)   ? *a                                                         \
                                   : LESS(b, c) ? *c                                                         \
                                                : *b);                                                       \
        size_t low = 0, high = n - 1;                                                                        \
        for (;;) {                                                                                           \
            while (LESS(&items[low], &pivot)) low++;                                                         \
            while (LESS(&pivot, &items[high])) high--;                                                       \
            if (low >= high) return low;                                                                     \
            TYPE swapped = items[low];                                                                       \
            items[low++] = items[high];                                                                      \
            items[high--] = swapped;                                                                         \
        }                                                                                                    \
    }                                                                                                        \
    static void NAME##_within(TYPE *items, size_t n, int splits) {                                           \
        while (n > 24 && splits-- > 0) {                                                                     \
            size_t low = NAME##_split(items, n);                                                             \
            if (low < n - low) {                                                                             \
                NAME##_within(items, low, splits);                                                           \
                items += low, n -= low;                                                                      \
            } else {                                                                                         \
                NAME##_within(items + low, n - low, splits);                                                 \
                n = low;                                                                                     \
            }                                                                                                \
        }                                                                                                    \
        if (n > 24)                                                                                          \
            NAME##_heap(items, n);                                                                           \
        else                                                                                                 \
            NAME##_insert(items, n);                                                                         \
    }                                                                                                        \
    static void NAME(TYPE *items, size_t n) {                                                                \
        int splits = 2;                                                                                      \
        for (size_t m = n; m > 1; m /= 2) splits += 2;                                                       \
        NAME##_within(items, n, splits);                                                                     \
    }

#endif
