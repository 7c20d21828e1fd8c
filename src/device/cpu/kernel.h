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

/* The one packing of this device: groups of 16 rows (matmul/packing.h), of the operand's dtype. */
#define PLAIT_CPU_ENCODING_PACKED 1u

/* One node as a kernel sees it when it runs: operands with data and actual dims. Shared by all threads, so read
 * only; `use.error_word` may be set to 1 by any of them (plait_ref_bad_id). */
typedef struct plait_cpu_call {
    plait_op_use use;
    plait_encoding encodings[PLAIT_MAX_INPUTS];
    void *scratch; /* at least scratch_bytes of these shapes, 64-byte aligned, shared by all threads */
    int n_threads;
    uint32_t features; /* PLAIT_CPU_... bits that may be used */
} plait_cpu_call;

typedef struct plait_cpu_kernel {
    plait_op_id op;
    const char *name; /* "rms_norm/avx2": for traces and benchmarks; NULL ends an array */
    uint32_t needs;   /* PLAIT_CPU_... feature bits that the host must have */
    int n_phases;     /* 1 to PLAIT_CPU_MAX_PHASES */
    /* It reads packed inputs. Otherwise it is asked only when every input is in file form. */
    bool takes_packed;

    /* Whether it takes these operands (dims at their bounds; data NULL). NULL: everything that the op's shape rule
     * accepts with dense float32 operands. On false a reason goes to `reason`. */
    bool (*accepts)(const plait_op_use *use, const plait_encoding *encodings, char *reason,
                    size_t reason_bytes);
    /* Shared scratch for shapes up to these; NULL: none. */
    size_t (*scratch_bytes)(const plait_op_use *use, int n_threads);
    /* Independent pieces of a phase; 0 is legal. Not called for empty outputs alone: units decide that. */
    int64_t (*units)(const plait_cpu_call *call, int phase);
    /* Does units [begin, end) of a phase on thread number `thread`. */
    void (*run)(const plait_cpu_call *call, int phase, int64_t begin, int64_t end, int thread);

    /* The same work by rows, where the op is local to rows; NULL where it is not. Does rows [begin, end) of every
     * output (rows are flattened over dims 1 to 3, dim 1 fastest; outputs have equally many), reading of every input
     * with output 0's dims 1 to 3 only the same rows, and gives the bytes that `run` gives. Nodes that have it are
     * run row by row one after the other without a barrier, and right before a product that reads them. Uses no
     * scratch. */
    void (*run_rows)(const plait_cpu_call *call, int64_t begin, int64_t end);
} plait_cpu_kernel;

#define PLAIT_CPU_MAX_PHASES 4

#endif
