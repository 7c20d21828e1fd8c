/* What a kernel of the cpu device is: a row of the kernel table. `supports` and the choice of a kernel both read the
 * table (kernels.c), best row first, so there is no second list of what the device can do.
 *
 * A kernel works in phases with a barrier between them; a phase is cut into units at positions that depend on shapes
 * only, never on the number of threads, so that bytes do not depend on it either. Unit u of a phase has a home
 * thread (contiguous ranges of units), which keeps the same rows on the same core from node to node.
 *
 * Kernels are pure: they do not allocate, lock, log or keep state. They touch their operands and the scratch that
 * they asked for.
 */
#ifndef PLAIT_DEVICE_CPU_KERNEL_H
#define PLAIT_DEVICE_CPU_KERNEL_H

#include "device/cpu/features.h"
#include "plait/device.h"

/* One node (or fused group) as a kernel sees it when it runs: operands with data and actual dims. */
typedef struct plait_cpu_call {
    plait_op_use use;
    plait_encoding encodings[PLAIT_MAX_INPUTS];
    void *scratch; /* at least scratch_bytes of these shapes, 64-byte aligned, shared by all threads */
    int n_threads;
} plait_cpu_call;

typedef struct plait_cpu_kernel {
    plait_op_id op;
    const char *name;     /* "rms_norm/avx2": for traces and benchmarks */
    uint32_t needs;       /* PLAIT_CPU_... feature bits that the host must have */
    int n_phases;         /* at least 1 */

    /* Whether it takes these operands (dims at their bounds; data NULL). NULL: everything that the op's shape rule
     * accepts with dense float32 operands. On false a reason goes to `reason`. */
    bool (*accepts)(const plait_op_use *use, const plait_encoding *encodings, char *reason, size_t reason_bytes);
    /* Shared scratch for shapes up to these; NULL: none. */
    size_t (*scratch_bytes)(const plait_op_use *use, int n_threads);
    /* Independent pieces of a phase; 0 is legal. */
    int64_t (*units)(const plait_cpu_call *call, int phase);
    /* Does units [begin, end) of a phase on thread number `thread`. */
    void (*run)(const plait_cpu_call *call, int phase, int64_t begin, int64_t end, int thread);
} plait_cpu_kernel;

#endif
