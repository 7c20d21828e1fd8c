/* What shape rules are made of: checks that name the operand or attribute, what was expected and what is there.
 * The generic part (known dtypes, sane dims, whole blocks, finite attributes) has been done by plait_op_infer
 * before a rule runs. Not here: anything about one op. */
#ifndef PLAIT_OP_SHAPE_H
#define PLAIT_OP_SHAPE_H

#include "plait/op.h"

/* Every descriptor of the list. */
#define PLAIT_OP(name, sugar) extern const plait_op plait_op_##name;
#include "plait/ops.inc"
#undef PLAIT_OP

/* Name of an input or output of the op as its factor text gives it, written to out (16 bytes). */
const char *plait_op_input_name(const plait_op *op, int input, char out[16]);
const char *plait_op_output_name(const plait_op *op, int output, char out[16]);

/* Input is of this type. "x: type is F16, expected F32" */
plait_status plait_shape_dtype(const plait_op_use *use, int input, plait_dtype dtype);
/* Input is of a float or quantised type, no integer. */
plait_status plait_shape_float(const plait_op_use *use, int input);
/* True for float and quantised types. */
bool plait_dtype_is_float(plait_dtype dtype);

/* Dim of an input has this size. `why` says where the number comes from, for the message. */
plait_status plait_shape_dim(const plait_op_use *use, int input, int dim, int64_t expected, const char *why);

/* Checks that all inputs agree on every factor of the op's text and have no dims beyond it, and fills the
 * outputs' dims from the factors and their dtype with F32. Dims of factors that no input has become 1. */
plait_status plait_shape_by_factors(plait_op_use *use);

/* Attribute above zero, or not below zero. */
plait_status plait_attr_above_zero(const plait_op_use *use, int attr);
plait_status plait_attr_not_negative(const plait_op_use *use, int attr);

/* start_NAME and total_NAME of a factor whose slice here has `size`: 0 <= start, start + size <= total (when
 * total is given), and the whole below 2^31, because ids are i32. */
plait_status plait_attr_window(const plait_op_use *use, int start_attr, int total_attr, int64_t size);
/* Size of the whole: total when given, else start + size. */
int64_t plait_attr_total(const plait_op_use *use, int start_attr, int total_attr, int64_t size);

/* The factors of an op without a copy: those of built-in ops live for ever, others are parsed into `room`. Fails as
 * plait_op_factors does. */
plait_status plait_op_factors_at(const plait_op *op, plait_factors *room, const plait_factors **out);

/* Sizes of factors for the inputs, and for outputs when asked; -1 where nothing tells. `broadcast`: a dim of
 * size 1 agrees with everything. */
plait_status plait_factor_solve(const plait_op_use *use, const plait_factors *factors, bool with_outputs,
                                bool broadcast, int64_t *sizes);

/* Bytes of an input that a node must read, by the op's factors: of what ids choose from, as much as they can name. */
double plait_op_input_bytes(const plait_op_use *use, int input);

/* Bytes of an operand, every element once; of n of its rows along a dim (n / dims[dim] of it). */
double plait_operand_moved_bytes(const plait_operand *operand);
double plait_operand_part_bytes(const plait_operand *operand, double share);

#endif
