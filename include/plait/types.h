/* Element types and shapes: the vocabulary that every other header uses. Not here: what a type's bits mean
 * (src/tensor/quant, one file a format) and tensors themselves (plait/op.h for kernels, plait/graph.h for builders).
 * Invariant: the number of a type is its number in GGUF files, so no table translates between the two. */
#ifndef PLAIT_TYPES_H
#define PLAIT_TYPES_H

#include "plait/status.h"

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Every element type, one line each: X(NAME, number in GGUF files, elements per block, bytes per block). A type with
 * blocks of one element is plain; the others are quantised, their rows are whole blocks, and each has a file of its own
 * in src/tensor/quant. Numbers and block sizes are those of the GGUF format; numbers that are missing belong to types
 * that the format gave up or that never stand in files.
 *
 * Names say the scheme, the digit the bits of a code (a block's scales come on top: bits per element are 8 * bytes /
 * elements, 4.5 for Q4_0):
 *
 *   Qn_0            one scale: code * d
 *   Qn_1            scale and offset: code * d + m
 *   Qn_K            256 elements; sub-blocks have small integer scales of their own
 *   IQn             points of a fixed grid, or 16 unequal steps (IQ4), instead of evenly spaced codes
 *   TQn             ternary: -d, 0, d
 *   MXFP4, NVFP4    4-bit floats under a scale that is a power of two or an 8-bit float */
#define PLAIT_DTYPE_LIST(X)                                                                                  \
    X(F32, 0, 1, 4)                                                                                          \
    X(F16, 1, 1, 2)                                                                                          \
    X(Q4_0, 2, 32, 18)                                                                                       \
    X(Q4_1, 3, 32, 20)                                                                                       \
    X(Q5_0, 6, 32, 22)                                                                                       \
    X(Q5_1, 7, 32, 24)                                                                                       \
    X(Q8_0, 8, 32, 34)                                                                                       \
    X(Q2_K, 10, 256, 84)                                                                                     \
    X(Q3_K, 11, 256, 110)                                                                                    \
    X(Q4_K, 12, 256, 144)                                                                                    \
    X(Q5_K, 13, 256, 176)                                                                                    \
    X(Q6_K, 14, 256, 210)                                                                                    \
    X(IQ2_XXS, 16, 256, 66)                                                                                  \
    X(IQ2_XS, 17, 256, 74)                                                                                   \
    X(IQ3_XXS, 18, 256, 98)                                                                                  \
    X(IQ1_S, 19, 256, 50)                                                                                    \
    X(IQ4_NL, 20, 32, 18)                                                                                    \
    X(IQ3_S, 21, 256, 110)                                                                                   \
    X(IQ2_S, 22, 256, 82)                                                                                    \
    X(IQ4_XS, 23, 256, 136)                                                                                  \
    X(I8, 24, 1, 1)                                                                                          \
    X(I16, 25, 1, 2)                                                                                         \
    X(I32, 26, 1, 4)                                                                                         \
    X(I64, 27, 1, 8)                                                                                         \
    X(F64, 28, 1, 8)                                                                                         \
    X(IQ1_M, 29, 256, 56)                                                                                    \
    X(BF16, 30, 1, 2)                                                                                        \
    X(TQ1_0, 34, 256, 54)                                                                                    \
    X(TQ2_0, 35, 256, 66)                                                                                    \
    X(MXFP4, 39, 32, 17)                                                                                     \
    X(NVFP4, 40, 64, 36)                                                                                     \
    X(Q1_0, 41, 128, 18)                                                                                     \
    X(Q2_0, 42, 64, 18)

/* A value of this type may come from a file: only numbers that plait_dtype_known accepts are of the list. */
typedef enum plait_dtype {
#define PLAIT_DTYPE_ENUM(name, number, elems, bytes) PLAIT_##name = number,
    PLAIT_DTYPE_LIST(PLAIT_DTYPE_ENUM)
#undef PLAIT_DTYPE_ENUM
} plait_dtype;

/* One more than the largest number of a dtype: for tables indexed by dtype. Not all smaller numbers are types. */
#define PLAIT_DTYPE_LIMIT 43

/* True when `number` is a dtype of the list. Never fails, any int: the first question to a number from outside. */
bool plait_dtype_known(int number);
/* Name as in the list, "F32", "Q4_K"; "unknown" for other numbers. Static. */
const char *plait_dtype_name(plait_dtype dtype);
/* Finds a dtype by name, in any letter case; NOT_FOUND with the known names otherwise. *out_dtype is set on success
 * only. */
plait_status plait_dtype_parse(const char *name, plait_dtype *out_dtype);
/* Elements and bytes of a block; 0 for unknown numbers. */
int64_t plait_dtype_block_elems(plait_dtype dtype);
int64_t plait_dtype_block_bytes(plait_dtype dtype);
/* True for types with blocks of more than one element. Such types have a row format, so they cannot be cut inside of a
 * block or have a strided dim 0. */
bool plait_dtype_quantised(plait_dtype dtype);
/* Bytes of a row of n_elems elements; -1 when n_elems is negative, no whole number of blocks, or too large. A row of 0
 * elements has 0 bytes. Rows lie one behind the other without padding in files; in device memory strides say where they
 * lie. */
int64_t plait_dtype_row_bytes(plait_dtype dtype, int64_t n_elems);

/* Tensors have up to four dims; dim 0 is contiguous, as in GGUF. Dims beyond the rank are 1. An index (i0, i1, i2, i3)
 * counts i0 fastest: a weight matrix of k inputs and m outputs has the shape [k, m]. Four are enough for a batch of
 * heads of rows, and for caches; shapes are arrays of this size everywhere, with 1 in what is not used. */
#define PLAIT_MAX_RANK 4

/* A token of a vocabulary: its number, which is its row in the embedding and in the output matrix. Never negative; "no
 * token" is PLAIT_NO_TOKEN of plait/tokenizer.h. */
typedef int32_t plait_token;

/* Longest name of a tensor, node, dim, device or op, the NUL included. The builder and the reader of files refuse
 * longer ones. */
#define PLAIT_MAX_NAME 128

#ifdef __cplusplus
}
#endif
#endif
