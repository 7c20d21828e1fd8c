/* Numbers for operands of any type: random ones, and those on which kernels fail. All are finite but for the kind that
 * is not; the same seed gives the same bytes.
 */
#ifndef PLAIT_CONFORMANCE_FILL_H
#define PLAIT_CONFORMANCE_FILL_H

#include "conformance/suite.h"

typedef enum plait_conf_values {
    PLAIT_CONF_RANDOM, /* in [-1, 1); quantised: any codes, scales for about that range */
    PLAIT_CONF_LARGE,  /* 1e15 where the type holds it */
    PLAIT_CONF_TINY,   /* around the smallest normal numbers of the type, and below */
    PLAIT_CONF_SPECIAL, /* zeros of both signs, ones, powers of two, ties of rounding, neighbours of bounds, repeats */
    PLAIT_CONF_ZERO, /* zeros; quantised: blocks that decode to zeros */
    PLAIT_CONF_CODES, /* quantised: largest and smallest codes; floats: whole steps of 8-bit blocks, which lose nothing */
    PLAIT_CONF_NAN, /* random, a few of them NaN; quantised: as RANDOM */
    PLAIT_CONF_N_VALUES
} plait_conf_values;

/* "random", "large", ... */
extern const char *const plait_conf_value_names[PLAIT_CONF_N_VALUES];

/* Fills the elements of an operand with data; those of integer types are small whole numbers. */
plait_status plait_conf_values_fill(plait_conf *c, const plait_operand *operand, plait_conf_values kind,
                                    uint64_t seed, float amplitude);

void plait_conf_blocks_destroy(plait_conf_block *blocks);

#endif
