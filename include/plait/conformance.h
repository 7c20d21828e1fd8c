/* The conformance suite: what every device kind must do, checked on a device that it opens. `plait conformance DEVICE`
 * runs it; so does whoever writes a kind.
 *
 * Checks: every op on the examples of its descriptor against the reference kernel, as they are, as views at odd
 * offsets, with named dims below their bound, and with such a dim at 0; segments of several nodes against their nodes
 * one by one; packed weights; queues, events, copies, imports; failures. Nothing in it knows a kind by name.
 *
 * A check is passed, failed, or lacking (the device says that it cannot; this is no failure). A device whose numeric
 * class is "null" computes nothing: its results are not compared.
 */
#ifndef PLAIT_CONFORMANCE_H
#define PLAIT_CONFORMANCE_H

#include "plait/device.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum plait_conformance_outcome {
    PLAIT_CONFORMANCE_PASSED,
    PLAIT_CONFORMANCE_FAILED,
    PLAIT_CONFORMANCE_LACKING
} plait_conformance_outcome;

/* One check that was run. Pointers are valid during the call that delivers it. */
typedef struct plait_conformance_result {
    const char *name; /* "op/matmul/3/offset", "queue/order" */
    plait_conformance_outcome outcome;
    const char *message; /* of what failed or why it lacks; "" when passed */
    double
        error; /* largest difference to the reference, relative to its scale; 0 where nothing is compared */
    uint64_t hash;      /* of the bytes that the device computed: equal on devices of one numeric class */
    double launch_ns;   /* a launch, when benchmarking; else 0 */
    double bytes, flop; /* that such a launch moves and computes; 0 where there is no launch */
} plait_conformance_result;

/* Receives results in the order of the checks, on the calling thread; false stops the run. */
typedef bool (*plait_conformance_fn)(void *user, const plait_conformance_result *result);

typedef struct plait_conformance_options {
    size_t struct_bytes;   /* sizeof(plait_conformance_options) of whoever made it */
    const char *only;      /* checks whose names match, '*' stands for any bytes; NULL: all */
    bool bench;            /* also time the launch of each op */
    const char *json_path; /* results as JSON there, {"device":..., "results":[...]}; NULL: no file */
} plait_conformance_options;

typedef struct plait_conformance_summary {
    int passed, failed, lacking;
} plait_conformance_summary;

/* Opens the device of a device-list item and checks it. OK when the suite ran, whatever its results, which are
 * counted in *out_summary; INVALID_ARGUMENT as plait_device_create gives it; CANCELLED when `result` asked to stop.
 * `options`, `result` and out_summary may be NULL. Any thread. */
plait_status plait_conformance_run(const char *device_item, const plait_conformance_options *options,
                                   plait_conformance_fn result, void *user,
                                   plait_conformance_summary *out_summary);

#ifdef __cplusplus
}
#endif
#endif
