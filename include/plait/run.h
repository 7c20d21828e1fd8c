/* Runs: a plan in execution. A run owns staging for inputs and outputs and the events of its steps; a step
 * allocates nothing, builds nothing and re-plans nothing.
 *
 *     PLAIT_TRY(plait_run_create(&run, plan, NULL));
 *     PLAIT_TRY(plait_run_set_dim(run, "tokens", 17));
 *     PLAIT_TRY(plait_run_write(run, "x", x_bytes, sizeof x_bytes));
 *     PLAIT_TRY(plait_run_step(run));
 *     PLAIT_TRY(plait_run_output(run, "y", &y, &y_size_bytes));
 *
 * A run is driven by one thread at a time; different runs of one plan may be driven by different threads when
 * they have different state.
 */
#ifndef PLAIT_RUN_H
#define PLAIT_RUN_H

#include "plait/plan.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Opaque. Keeps a reference to its plan. */
typedef struct plait_run plait_run;

/* Zeroed: state of its own. */
typedef struct plait_run_options {
    plait_session_state
        *state; /* borrowed, must outlive the run; NULL: the run makes one when the graph has state */
} plait_run_options;

/* All memory that steps will use is taken here. `options` may be NULL. The caller destroys *out. */
plait_status plait_run_create(plait_run **out, plait_plan *plan, const plait_run_options *options);
void plait_run_destroy(plait_run *run); /* waits for its steps; accepts NULL */

/* Value of a named dim for the steps that follow, 0 to its bound; at first every dim is at its bound. NOT_FOUND and
 * OUT_OF_RANGE name the dim. */
plait_status plait_run_set_dim(plait_run *run, const char *name, int64_t value);

/* Bytes of an input for the next step: from the start, as many as the current dims need (more is an error, fewer leaves
 * the rest as it was written as many steps before as may be in flight, two by default). Integer inputs that an op uses
 * as ids or positions are checked against their range at the step. Inputs that nothing reads can be written all the
 * same. */
plait_status plait_run_write(plait_run *run, const char *input, const void *bytes, uint64_t size_bytes);
/* Where the host may fill that input itself instead: valid until the next step. *out_size_bytes is the capacity. What
 * stands there was written as many steps before as may be in flight, or is zero at first; the host writes all that the
 * step shall read. */
plait_status plait_run_input(plait_run *run, const char *input, void **out_bytes, uint64_t *out_size_bytes);

/* Submits one step. It returns before the devices are done, except where the calling thread is the device. */
plait_status plait_run_step(plait_run *run);
/* Waits for the last step and returns its failure, if any. A run whose step failed returns that failure ever after; what
 * else can be used is what plait_context_health says. A step that was refused before anything of it was submitted (bad
 * ids, no memory) has failed nothing: the run goes on. */
plait_status plait_run_wait(plait_run *run);

/* Waits for the last step and lends the output: valid until the next step but one. */
plait_status plait_run_output(plait_run *run, const char *output, const void **out_bytes,
                              uint64_t *out_size_bytes);

/* Names resolved once, for loops that must not search: an index for the calls below. NOT_FOUND when the graph has none
 * of that name. Indices hold as long as the run. */
plait_status plait_run_dim_index(const plait_run *run, const char *name, int *out_index);
plait_status plait_run_input_index(const plait_run *run, const char *name, int *out_index);
plait_status plait_run_output_index(const plait_run *run, const char *name, int *out_index);
plait_status plait_run_set_dim_at(plait_run *run, int index, int64_t value);
plait_status plait_run_input_at(plait_run *run, int index, void **out_bytes, uint64_t *out_size_bytes);
plait_status plait_run_output_at(plait_run *run, int index, const void **out_bytes, uint64_t *out_size_bytes);

/* Trace: when the commands of steps ran (and the groups of launches, where the device tells), in Chrome's trace format, with
 * the names that the plan prints: a process for each device, a thread for each of its queues, one for the host; arrows
 * for what waited for what. Recorded are whole steps, as many as have `max_spans` spans together, but two at least (none
 * for 0); steps after those are not. Only this allocates. The caller frees *out_json. */
plait_status plait_run_trace_begin(plait_run *run, size_t max_spans);
plait_status plait_run_trace_end(plait_run *run, char **out_json);

#ifdef __cplusplus
}
#endif
#endif
