/* Scalar activation functions in float64, shared by unary, gate and attention. */
#ifndef PLAIT_OP_ACTIVATION_H
#define PLAIT_OP_ACTIVATION_H

#include <math.h>

/* exp(-x) may overflow to infinity, which gives the right 0. */
static inline double plait_act_sigmoid(double x) {
    return 1.0 / (1.0 + exp(-x));
}

/* Elfwing et al., arXiv 1702.03118. x * sigmoid rather than x / (1 + exp): the same, and -0 for -infinity is
 * avoided in favour of the limit 0. */
static inline double plait_act_silu(double x) {
    return x == -INFINITY ? 0.0 : x * plait_act_sigmoid(x);
}

/* Tanh form of Hendrycks and Gimpel, arXiv 1606.08415; 0.7978... is sqrt(2/pi). */
static inline double plait_act_gelu(double x) {
    if (x == -INFINITY) return 0.0;
    return 0.5 * x * (1.0 + tanh(0.79788456080286535588 * (x + 0.044715 * x * x * x)));
}

static inline double plait_act_softcap(double x, double cap) {
    return cap * tanh(x / cap);
}

#endif
