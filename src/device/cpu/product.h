/* Matrix products as parts of a group: the common input of several products (quantised once), the rows of one
 * product with what happens to its sums, and pairs of products that end in a gate. Also the row of the kernel table
 * for a product alone, made of the same parts.
 *
 * Scratch of a product group: the input's area, then an area for each thread.
 */
#ifndef PLAIT_DEVICE_CPU_PRODUCT_H
#define PLAIT_DEVICE_CPU_PRODUCT_H

#include "device/cpu/kernel.h"
#include "device/cpu/matmul/matmul.h"

extern const plait_cpu_kernel plait_cpu_matmul_kernels[];

/* ---- input ---- */

/* The x of one or more products. */
typedef struct plait_cpu_product_input {
    const plait_operand *x; /* Borrowed from a call; actual dims. */
    bool gathers;           /* dim 0 of x is not contiguous: products read a copy */
    bool quantises;
    void *area; /* of plait_cpu_input_bytes; 64-byte aligned */
    uint32_t features;
} plait_cpu_product_input;

/* True when x must be copied before products can read it. */
bool plait_cpu_input_gathers(const plait_operand *x);
/* Bytes of the area for x up to these dims, a multiple of 64. */
size_t plait_cpu_input_bytes(const plait_operand *x, bool gathers, bool quantises);
/* Prepares columns [begin, end) of x. */
void plait_cpu_input_run(const plait_cpu_product_input *input, int64_t begin, int64_t end);

/* ---- products ---- */

typedef struct plait_cpu_product {
    const plait_cpu_matmul *kernel;
    const plait_operand *w, *y; /* Borrowed from calls; actual dims. */
    bool packed;                /* w is */
    const plait_cpu_product_input *input;
    const plait_operand
        *add;          /* joins the sums when they are stored: y's dims, or one column for all; NULL: none */
    void *thread_area; /* of thread 0; those of the others follow */
    size_t thread_bytes;
} plait_cpu_product;

/* The product kernel for a weight of this dtype, and whether it reads quantised columns. */
const plait_cpu_matmul *plait_cpu_product_kernel(plait_dtype dtype, uint32_t features);
/* Bytes of a thread's area for this weight, a multiple of 64. */
size_t plait_cpu_product_thread_bytes(const plait_operand *w, plait_encoding encoding);
/* Rows come in units of PLAIT_CPU_GROUP_ROWS. */
int64_t plait_cpu_product_units(const plait_cpu_product *product);
void plait_cpu_product_run(const plait_cpu_product *product, int64_t begin, int64_t end, int thread);
/* Rows [begin, end), begin a multiple of PLAIT_CPU_GROUP_ROWS, into memory of the caller's: row begin + r of column i is
 * y[i * y_stride + r]. */
void plait_cpu_product_run_rows(const plait_cpu_product *product, int64_t begin, int64_t end, float *y,
                                int64_t y_stride, int thread);
/* Whether products read such a weight: known encoding, rows contiguous or of a type that is packed before use. */
bool plait_cpu_product_reads(const plait_operand *w, plait_encoding encoding, char *reason,
                             size_t reason_bytes);

/* ---- gates ---- */

/* gate(a, b) of two products with equal dims, whose own results never exist. */
typedef struct plait_cpu_gated {
    plait_cpu_product a, b;         /* input 0 and input 1 of the gate */
    const plait_cpu_kernel *kernel; /* of the gate: one phase, no scratch */
    const plait_cpu_call *call;     /* the gate's, for op, attributes and output */
    int64_t tile_floats;            /* room for a tile of each product */
    void *tiles;                    /* of thread 0; 2 * tile_floats for each thread */
} plait_cpu_gated;

/* Floats of a tile for outputs up to n columns. */
int64_t plait_cpu_gated_tile_floats(int64_t n);
/* The gate's use on a tile, for finding its kernel: rows x n, rows apart by a multiple of 64 bytes. */
void plait_cpu_gated_tile_use(const plait_op_use *gate, int64_t rows, int64_t n, plait_op_use *out);
void plait_cpu_gated_run(const plait_cpu_gated *gated, int64_t begin, int64_t end, int thread);

#endif
