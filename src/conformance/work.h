/* A workbench: tensors with bytes, nodes over them, and two ways to run the nodes: on the host with the reference
 * kernels, and on the device as segments (built.h). Both work on an image: one block of bytes that holds every value at
 * the offset that it has in the device's buffer.
 *
 * Bytes between values, and those that no element has, belong to nobody and must not change: they are all ones, which is
 * NaN in every float type, so that a kernel that reads them shows.
 */
#ifndef PLAIT_CONFORMANCE_WORK_H
#define PLAIT_CONFORMANCE_WORK_H

#include "base/arena.h"
#include "conformance/suite.h"

/* Room for the operands of any node. */
enum { PLAIT_CONF_OPERANDS = PLAIT_MAX_INPUTS + PLAIT_MAX_OUTPUTS };
enum { PLAIT_CONF_MAX_TENSORS = 96, PLAIT_CONF_MAX_NODES = 48, PLAIT_CONF_MAX_DIMS = 2 };
/* What bytes that belong to nobody hold, and how many of them lie between values at least. */
enum { PLAIT_CONF_NOBODY = 0xFF, PLAIT_CONF_GAP_BYTES = 64 };

typedef struct plait_conf_tensor {
    plait_operand shape; /* dims at the bounds */
    plait_extent outer;
    uint32_t value;
    uint64_t view_offset;
} plait_conf_tensor;

/* A value: a place in the image. */
typedef struct plait_conf_value {
    uint64_t offset, size_bytes; /* in the device's image */
    plait_encoding encoding;     /* on the device; the host image has file form */
    uint64_t host_offset;        /* in the host's image */
    bool weight, written, needed;
} plait_conf_value;

typedef struct plait_conf_work {
    plait_conf *c;
    plait_arena arena;
    int n_tensors, n_values, n_nodes, n_dims;
    plait_conf_tensor *tensors;
    plait_conf_value *values;
    plait_segment_node *nodes;
    plait_segment_operand *operands; /* PLAIT_CONF_OPERANDS a node */
    int64_t bounds[PLAIT_CONF_MAX_DIMS], dims[PLAIT_CONF_MAX_DIMS];
    uint64_t device_bytes, host_bytes; /* of the images */
    unsigned char *host;               /* Owned by the arena, once frozen: the values in file form */
    unsigned char *uploaded;           /* the device's image before it ran; packed values in no form */
    plait_buffer *image;               /* Owned. */
    uint64_t *shown;                   /* where each value was in the image of the last run */
    int n_groups, n_elided,
        n_shared; /* of the last run: groups; values that never existed; pairs that shared bytes */
    double launch_ns, least_ns; /* of the last run, when it is timed: median, and the least */
    bool timed;
} plait_conf_work;

/* Empty, for the device under test. */
void plait_conf_work_init(plait_conf_work *w, plait_conf *c);
/* At any stage after init; destroys the image. */
void plait_conf_work_deinit(plait_conf_work *w);

/* Adds a named dim; returns its number. */
int plait_conf_dim(plait_conf_work *w, int64_t bound, int64_t value);
/* Adds a value with a tensor that is all of it, `shift` bytes behind an aligned offset. Returns the tensor. */
int plait_conf_tensor_add(plait_conf_work *w, const plait_operand *shape, plait_extent outer, uint64_t shift,
                          bool weight);
/* Another tensor of the same value. */
int plait_conf_view(plait_conf_work *w, int tensor, const plait_operand *shape, plait_extent outer,
                    uint64_t more_offset);
/* The value of a weight lies in this encoding on the device. Before freezing. */
void plait_conf_encode(plait_conf_work *w, int tensor, const plait_encoding_offer *offer);
/* Adds a node; its outputs become tensors, the first one is returned (the others follow), -1 after a failure, which
 * is this thread's message. inputs[i] < 0: absent. `extent`: of the outputs' outermost dim. */
int plait_conf_apply(plait_conf_work *w, const plait_op_use *attrs_of, int n_inputs, const int *inputs,
                     plait_extent extent);
/* The value of a tensor is read after the segment. */
void plait_conf_need(plait_conf_work *w, int tensor);

/* Lays out the images; no more tensors. */
plait_status plait_conf_freeze(plait_conf_work *w);
/* Operand with data in the host image and dims at their values. */
plait_operand plait_conf_host(const plait_conf_work *w, int tensor);
/* The same of an operand of a node; and at its bounds. */
plait_operand plait_conf_host_operand(const plait_conf_work *w, const plait_segment_operand *operand);

/* The nodes on the host, in place in `host`. */
plait_status plait_conf_run_reference(plait_conf_work *w);
/* A node as a kernel on the host sees it. */
plait_op_use plait_conf_host_use(const plait_conf_work *w, const plait_segment_node *node);

/* Bytes of a value on the device: the packing's, when there is one. */
plait_status plait_conf_device_bytes(const plait_conf_work *w, int value, uint64_t *out);
/* Of the bytes of all values that nodes write: the same on devices that keep weights in other forms. */
uint64_t plait_conf_hash(const plait_conf_work *w, const unsigned char *image);
/* Room for a device image, from the arena. */
unsigned char *plait_conf_image(plait_conf_work *w);
/* Host image (file form) -> buffer of an image. */
plait_status plait_conf_upload(plait_conf_work *w, plait_queue *queue, plait_buffer *image);

/* ---- comparing images that came back with the host's ---- */

/* Largest difference of a tensor over `scale`. */
double plait_conf_difference(const plait_conf_work *w, int tensor, const unsigned char *image, double scale);
/* Every element lies within its limit of the host's: `limits` in the order of the dims, NULL for none, where quantised
 * tensors must be the same bytes. *worst: the largest difference over its limit so far. A failure names the element. */
plait_status plait_conf_within(const plait_conf_work *w, int tensor, const unsigned char *image,
                               const double *limits, double *worst);
/* Root of the mean square of the first matrix of an operand with data. */
double plait_conf_magnitude(const plait_operand *operand);
/* Bytes that no written element has are those that were uploaded. A failure says where. */
plait_status plait_conf_untouched(const plait_conf_work *w, const unsigned char *image);

#define PLAIT_CONF_FIXED ((plait_extent){.dim = -1, .a = 1, .c = 1})

#endif
