/* Segments of a workbench on their way through the device: prepared, checked, compiled, launched.
 *
 * Two slots: 0 holds the image, 1 the scratch of groups, with bytes between that must not change.
 */
#ifndef PLAIT_CONFORMANCE_BUILT_H
#define PLAIT_CONFORMANCE_BUILT_H

#include "conformance/work.h"

enum { PLAIT_CONF_SLOT_IMAGE, PLAIT_CONF_SLOT_SCRATCH, PLAIT_CONF_SLOTS };

/* As one segment, or each node as a segment of its own; sharing: pairs that the device allows to share bytes do, and
 * all groups have the same scratch. */
typedef enum plait_conf_way { PLAIT_CONF_WHOLE, PLAIT_CONF_SINGLE, PLAIT_CONF_SHARING } plait_conf_way;

typedef struct plait_conf_built {
    plait_conf_work *w;
    plait_segment_node *nodes;       /* Owned. */
    plait_segment_operand *operands; /* Owned. PLAIT_CONF_OPERANDS a node. */
    plait_segment segment;
    plait_prepared prepared;
    bool is_prepared;
    int n_shared; /* pairs that share */
    plait_program *program;
    uint64_t scratch_bytes;
    uint64_t *offsets; /* Owned. Of each value in the image. */
} plait_conf_built;

/* Nodes [first, first + n) of the bench, which is frozen. deinit works after a failure too. */
plait_status plait_conf_build(plait_conf_work *w, int first, int n, plait_conf_way way,
                              plait_conf_built *out);
void plait_conf_built_deinit(plait_conf_built *built);
/* What `prepare` answered keeps its contract: groups, order, elided values, pairs. */
plait_status plait_conf_check_prepared(const plait_conf_built *built);

/* A buffer for the scratch of one launch at a time, every byte of it PLAIT_CONF_NOBODY. The caller destroys it. */
plait_status plait_conf_scratch_create(const plait_conf_built *built, plait_queue *queue, plait_buffer **out);
/* Bytes of it that belong to no group are untouched. */
plait_status plait_conf_scratch_check(const plait_conf_built *built, plait_queue *queue,
                                      plait_buffer *scratch);

/* Without a trace. `slots` and `dims` stay with the caller. */
plait_command plait_conf_launch(const plait_program *program, plait_buffer *const *slots,
                                const int64_t *dims);

/* Uploads, runs, reads the image back into `out` of device_bytes. */
plait_status plait_conf_run_device(plait_conf_work *w, plait_conf_way way, unsigned char *out);
/* Every node is one that the device runs, by itself; lacking otherwise. */
plait_status plait_conf_all_supported(plait_conf *c, const plait_conf_work *w);

#endif
