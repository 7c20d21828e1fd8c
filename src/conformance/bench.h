/* Times, through the interface: a launch, and the limits of the device that it is compared with. */
#ifndef PLAIT_CONFORMANCE_BENCH_H
#define PLAIT_CONFORMANCE_BENCH_H

#include "conformance/built.h"

/* Adds the median and the least time of a launch to those of the bench. The images change from launch to launch, so
 * that weights come from memory as
 * they do in a model, unless the device has no room for more of them. */
plait_status plait_conf_time_launch(const plait_conf_built *built, plait_buffer *scratch);
/* Measures c->bytes_per_s and c->flop_per_s: the best of some runs, since limits are what nothing goes beyond. */
plait_status plait_conf_measure(plait_conf *c);

#endif
