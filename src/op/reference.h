/* Element access for reference kernels: any dtype, any strides, by memcpy so that no alignment is assumed.
 * Slow and plain on purpose: reference kernels define what is right, devices have kernels that are fast.
 * Invariant: nothing here writes outside the element or row it is given. */
#ifndef PLAIT_OP_REFERENCE_H
#define PLAIT_OP_REFERENCE_H

#include "plait/op.h"
#include "tensor/quant/quant.h"

#include <string.h>

/* Loops over all rows (runs along dim 0) of an operand. */
#define PLAIT_REF_ROWS(o, i1, i2, i3)                                                                        \
    for (int64_t i3 = 0; i3 < (o)->dims[3]; i3++)                                                            \
        for (int64_t i2 = 0; i2 < (o)->dims[2]; i2++)                                                        \
            for (int64_t i1 = 0; i1 < (o)->dims[1]; i1++)

/* Address of block or element i0 of a row. */
static inline char *plait_ref_at(const plait_operand *o, int64_t i0, int64_t i1, int64_t i2, int64_t i3) {
    return (char *)o->data + i0 * o->strides[0] + i1 * o->strides[1] + i2 * o->strides[2] +
           i3 * o->strides[3];
}

/* Elements of operands of type F32 and I32. */
static inline double plait_ref_get(const plait_operand *o, int64_t i0, int64_t i1, int64_t i2, int64_t i3) {
    float value;
    memcpy(&value, plait_ref_at(o, i0, i1, i2, i3), sizeof value);
    return (double)value;
}
static inline void plait_ref_set(const plait_operand *o, int64_t i0, int64_t i1, int64_t i2, int64_t i3,
                                 double value) {
    float rounded = (float)value;
    memcpy(plait_ref_at(o, i0, i1, i2, i3), &rounded, sizeof rounded);
}
static inline int32_t plait_ref_get_id(const plait_operand *o, int64_t i0, int64_t i1) {
    int32_t value;
    memcpy(&value, plait_ref_at(o, i0, i1, 0, 0), sizeof value);
    return value;
}
static inline void plait_ref_set_id(const plait_operand *o, int64_t i0, int64_t i1, int32_t value) {
    memcpy(plait_ref_at(o, i0, i1, 0, 0), &value, sizeof value);
}

/* The first n elements of a row of any type to float32, and back. For quantised types n is whole blocks. */
static inline void plait_ref_read_row(const plait_operand *o, int64_t i1, int64_t i2, int64_t i3, int64_t n,
                                      float *out) {
    const plait_quant *quant = plait_quant_of(o->dtype);
    int64_t block = plait_dtype_block_elems(o->dtype);
    for (int64_t i = 0; i < n / block; i++)
        quant->decode(plait_ref_at(o, i, i1, i2, i3), out + i * block, block);
}
static inline void plait_ref_write_row(const plait_operand *o, int64_t i1, int64_t i2, int64_t i3, int64_t n,
                                       const float *x) {
    const plait_quant *quant = plait_quant_of(o->dtype);
    int64_t block = plait_dtype_block_elems(o->dtype);
    for (int64_t i = 0; i < n / block; i++)
        quant->encode(x + i * block, NULL, plait_ref_at(o, i, i1, i2, i3), block);
}

/* Law 7: an id outside its range was met at run time. Threads of one launch may say so at the same time. */
static inline void plait_ref_bad_id(const plait_op_use *use) {
    if (use->error_word) __atomic_store_n(use->error_word, 1, __ATOMIC_RELAXED);
}

#endif
