/* Uses of ops as calls of the cpu device's kernels: operands between guard bytes, scratch that starts as NaN, units run
 * in any cut and order. Included by test programs only. */
#ifndef PLAIT_TESTS_DEVICE_KERNEL_CALLS_H
#define PLAIT_TESTS_DEVICE_KERNEL_CALLS_H

#include "op/uses.h"

#include "device/cpu/kernels.h"

/* Every set of features that this machine has, worst first: none, AVX2, AVX-512. */
static inline int feature_sets(uint32_t out[3]) {
    uint32_t have = plait_cpu_features_detect();
    int n = 0;
    out[n++] = 0;
    if (have & PLAIT_CPU_AVX2) out[n++] = PLAIT_CPU_AVX2;
    if (have & PLAIT_CPU_AVX512) out[n++] = PLAIT_CPU_AVX2 | PLAIT_CPU_AVX512;
    return n;
}

/* How the units of a phase are run. */
typedef enum unit_order { UNITS_AT_ONCE, UNITS_ONE_BY_ONE, UNITS_BACKWARDS, UNITS_BY_THREADS } unit_order;

enum { TEST_THREADS = 3 };

static inline void run_phase(const plait_cpu_kernel *kernel, const plait_cpu_call *call, int phase,
                             unit_order order) {
    int64_t n = kernel->units(call, phase);
    assert_true(n >= 0);
    switch (order) {
    case UNITS_AT_ONCE: kernel->run(call, phase, 0, n, 0); break;
    case UNITS_ONE_BY_ONE:
        for (int64_t u = 0; u < n; u++) kernel->run(call, phase, u, u + 1, 1);
        break;
    case UNITS_BACKWARDS:
        for (int64_t u = n; u > 0; u--) kernel->run(call, phase, u - 1, u, 2);
        break;
    case UNITS_BY_THREADS:
        for (int t = TEST_THREADS; t > 0; t--)
            kernel->run(call, phase, plait_part_start(n, t - 1, TEST_THREADS),
                        plait_part_start(n, t, TEST_THREADS), t - 1);
        break;
    }
}

/* Runs a use, whose operands have data, on a kernel; scratch is checked for writes behind its end. */
static inline void run_kernel(const plait_cpu_kernel *kernel, const plait_op_use *use, uint32_t features,
                              unit_order order) {
    plait_cpu_call call = {.use = *use, .n_threads = TEST_THREADS, .features = features};
    size_t bytes = kernel->scratch_bytes ? kernel->scratch_bytes(use, TEST_THREADS) : 0;
    unsigned char *scratch = aligned_alloc(64, (bytes + 64 + 63) / 64 * 64);
    assert_non_null(scratch);
    memset(scratch, 0xFF, (bytes + 64 + 63) / 64 * 64); /* NaN */
    call.scratch = scratch;
    for (int phase = 0; phase < kernel->n_phases; phase++) run_phase(kernel, &call, phase, order);
    for (int i = 0; i < 64; i++) assert_int_equal(scratch[bytes + (size_t)i], 0xFF);
    free(scratch);
}

/* The kernel of the families for a use, NULL when only the reference takes it. */
static inline const plait_cpu_kernel *fast_kernel(const plait_op_use *use, uint32_t features) {
    char reason[256];
    const plait_cpu_kernel *kernel = plait_cpu_kernel_find(use, NULL, features, reason, sizeof reason);
    assert_non_null(kernel);
    return strstr(kernel->name, "reference") ? NULL : kernel;
}

/* The memory of an output (the whole storage of a cache), to be compared and put back. */
typedef struct kept {
    const test_memory *memory;
    unsigned char *bytes;
} kept;

static inline const test_memory *output_memory(const test_use *t, int i) {
    if (i == 0 && t->use.op->writes_input >= 0) return &t->inputs[t->use.op->writes_input];
    return &t->outputs[i];
}

static inline kept keep(const test_memory *memory) {
    kept k = {memory, malloc((size_t)memory->bytes + 2 * GUARD_BYTES + 1)};
    assert_non_null(k.bytes);
    if (memory->block) memcpy(k.bytes, memory->block, (size_t)memory->bytes + 2 * GUARD_BYTES);
    return k;
}
static inline void put_back(const kept *k) {
    if (k->memory->block) memcpy(k->memory->block, k->bytes, (size_t)k->memory->bytes + 2 * GUARD_BYTES);
}
static inline bool is_kept(const kept *k) {
    return !k->memory->block ||
           memcmp(k->memory->block, k->bytes, (size_t)k->memory->bytes + 2 * GUARD_BYTES) == 0;
}

#endif
