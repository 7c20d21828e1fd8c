/* The list of all product kernels, and the choice among them. Not here: packing and quantising, which are chosen by
 * dtype alone. Invariant: for every dtype of the list the last tables have a row that needs no feature. */
#include "device/cpu/matmul/matmul.h"

#include "base/size.h"
#include "device/cpu/matmul/kernels.h"

/* Best first. */
static const plait_cpu_matmul *const tables[] = {
#if defined(__x86_64__)
    plait_cpu_blocks_avx512vnni, plait_cpu_blocks_avxvnni,  plait_cpu_blocks_avx2,
    plait_cpu_floats_avx512,     plait_cpu_floats_avx2,
#endif
    plait_cpu_blocks_portable,   plait_cpu_floats_portable,
};

/* `any` asks for rows that decode whatever dtype; a dtype's own row is looked for first, in all tables, so that a
 * slower instruction set with the right kernel is better than a faster one that decodes. */
static const plait_cpu_matmul *find(plait_dtype dtype, bool any, uint32_t features) {
    for (size_t t = 0; t < PLAIT_COUNT_OF(tables); t++)
        for (const plait_cpu_matmul *row = tables[t]; row->run; row++)
            if (row->any_dtype == any && (any || row->dtype == dtype) && (row->features & ~features) == 0)
                return row;
    return NULL;
}

const plait_cpu_matmul *plait_cpu_matmul_find(plait_dtype dtype, uint32_t features) {
    const plait_cpu_matmul *own = find(dtype, false, features);
    return own ? own : find(dtype, true, features);
}

const plait_cpu_matmul *plait_cpu_matmul_at(size_t index) {
    for (size_t t = 0; t < PLAIT_COUNT_OF(tables); t++)
        for (const plait_cpu_matmul *row = tables[t]; row->run; row++)
            if (index-- == 0) return row;
    return NULL;
}
