/* The numbers that samplers decide by: random numbers from a counter, and scalar exp and log.
 *
 * Why not libm: its results differ between versions and processors in the last bit, and a sampler turns a
 * last bit into another token now and then. These use only +, -, *, / of IEEE 754 doubles in a fixed order,
 * so they give the same bits everywhere.
 */
#ifndef PLAIT_TEXT_SAMPLER_NUMBERS_H
#define PLAIT_TEXT_SAMPLER_NUMBERS_H

#include <stdint.h>

/* Philox4x32-10 (Salmon, Moraes, Dror, Shaw 2011, "Parallel random numbers: as easy as 1, 2, 3"): the block
 * of four 32-bit numbers that belongs to a counter under a key. */
void plait_philox4x32(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);

/* A number in [0, 1) with 53 random bits: the one that belongs to (seed, index, lane). */
double plait_philox_uniform(uint64_t seed, uint64_t index, uint32_t lane);

/* e^x. At most 1 ulp off; 0 below -708, infinity above 709; NaN stays NaN. */
double plait_sampler_exp(double x);
/* ln x. At most 1 ulp off; minus infinity at 0, NaN below 0. */
double plait_sampler_log(double x);
/* base^exponent for base >= 0; 0^0 is 1. exp(exponent * log(base)): relative error about |exponent * log
 * base| * 2^-52. */
double plait_sampler_pow(double base, double exponent);

#endif
