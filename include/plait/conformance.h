/* The conformance suite: what every device kind must do, checked on devices that it opens. `plait conformance DEVICE`
 * runs it; so does whoever writes a kind.
 *
 * Checks are in groups, the first word of their names: device, memory, copy, queue, event, peer, program, failure, life,
 * op, shape, segment, packing. They know the contract of plait/device.h and nothing of any kind. Results of ops are
 * compared with the reference kernels in float64, within the bounds of the op table (plait_op.tolerance); every byte
 * that a command should not touch is compared as well.
 *
 * A check is passed, failed, or lacking (the device says that it cannot, where it may; this is no failure). A device
 * whose numeric class is "null" computes nothing: its results are not compared.
 *
 * The suite runs on a thread of its own. A check that does not end is failed, its device given up with all that it
 * holds, and the rest goes on with a new one.
 */
#ifndef PLAIT_CONFORMANCE_H
#define PLAIT_CONFORMANCE_H

#include "plait/device.h"

#ifdef __cplusplus
extern "C" {
#endif

/* LACKING counts neither for nor against: the message says what the device lacks. */
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
    /* Largest difference to the reference, relative to the bound of the op table: 1 is at the bound. 0 where nothing is
     * compared. */
    double error;
    uint64_t hash;      /* of the bytes that the device computed: equal on devices of one numeric class */
    double launch_ns;   /* a launch, when benchmarking; else 0 */
    double bytes, flop; /* that such a launch moves and computes; 0 where there is no launch */
    /* Of the speed that the device's measured limits allow: the longer of bytes / bandwidth and flop / arithmetic, over
     * launch_ns. 0 when not benchmarking. */
    double share_of_limit;
} plait_conformance_result;

/* Receives results in the order of the checks, on the thread that called plait_conformance_run; false stops the run. */
typedef bool (*plait_conformance_fn)(void *user, const plait_conformance_result *result);

/* Zeroed but for struct_bytes: the usual checks. */
typedef struct plait_conformance_options {
    size_t struct_bytes;   /* sizeof(plait_conformance_options) of whoever made it */
    const char *only;      /* checks whose names match, '*' stands for any bytes; NULL: all */
    bool bench;            /* also measure the device's limits, and time the launches of shape/... */
    const char *json_path; /* results as JSON there, {"device":..., "results":[...]}; NULL: no file */

    bool deep; /* more sizes, types, values and rounds of everything: minutes instead of seconds */
    /* Loss (life/lost) is checked on a device that is lost while it works. Either the device-list item of one that is lost
     * by itself, after some commands (at most a few thousand); or a function that makes a device lost, which is given one
     * that has work. Both NULL: not checked. */
    const char *lost_item;
    plait_status (*lose)(void *user, plait_device *device);
    void *lose_user;
    bool monitor; /* puts a monitor (plait/monitor.h) around every device: what it finds fails the check */
    uint64_t patience_ns; /* a single wait that takes longer has failed; 0: 20 s */
    uint64_t
        check_limit_ns; /* a check that takes longer has failed, and its device is given up; 0: 5 minutes */
} plait_conformance_options;

/* Counts of all checks that were run, one outcome each. */
typedef struct plait_conformance_summary {
    int passed, failed, lacking;
    plait_device_info info; /* of the device */
    /* The device's limits, measured through the interface: bytes moved in a second by its fastest large transfer, and
     * floating-point operations in a second of its fastest large product of any type. 0 when not benchmarking. */
    double bytes_per_s, flop_per_s;
} plait_conformance_summary;

/* Opens the device of a device-list item and checks it; opens further ones beside it (the same item, `cpu`). OK when the
 * suite ran, whatever its results, which are counted in *out_summary; INVALID_ARGUMENT as plait_device_create gives it;
 * CANCELLED when `result` asked to stop. `options`, `result` and out_summary may be NULL. Any thread. */
plait_status plait_conformance_run(const char *device_item, const plait_conformance_options *options,
                                   plait_conformance_fn result, void *user,
                                   plait_conformance_summary *out_summary);

#ifdef __cplusplus
}
#endif
#endif
