/* A workbench: tensors with bytes, nodes over them, and two ways to run the nodes: on the host with the reference
 * kernels, and on the device as segments. Both work on an image: one block of bytes that holds every value at the
 * offset that it has in the device's buffer.
 *
 * Two slots: 0 holds the image, 1 the scratch of groups. Bytes between values belong to nobody and must not change.
 */
#ifndef PLAIT_CONFORMANCE_WORK_H
#define PLAIT_CONFORMANCE_WORK_H

#include "base/arena.h"
#include "conformance/suite.h"

enum { PLAIT_CONF_MAX_TENSORS = 96, PLAIT_CONF_MAX_NODES = 48, PLAIT_CONF_MAX_DIMS = 2 };

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
    plait_segment_operand *operands; /* of the nodes, with room for the most that a node can have */
    int64_t bounds[PLAIT_CONF_MAX_DIMS], dims[PLAIT_CONF_MAX_DIMS];
    uint64_t device_bytes, host_bytes; /* of the images */
    unsigned char *host;               /* Owned by the arena, once frozen: the values in file form */
    plait_buffer *image;               /* Owned. */
    uint64_t *shown;                   /* where each value was in the image of the last run */
    int n_groups;                      /* of the last run as one segment */
    double launch_ns;
} plait_conf_work;

void plait_conf_work_init(plait_conf_work *w, plait_conf *c);
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

/* Lays out the images; no more tensors. Host bytes are filled with a pattern. */
plait_status plait_conf_freeze(plait_conf_work *w);
/* Operand with data in the host image and dims at their values. */
plait_operand plait_conf_host(const plait_conf_work *w, int tensor);
/* Random numbers in [-amplitude, amplitude) for an operand of any type; small whole ones for integers. */
void plait_conf_fill(const plait_operand *operand, uint64_t seed, float amplitude);

/* The nodes on the host, in place in `host`. */
plait_status plait_conf_run_reference(plait_conf_work *w);
/* Host image (file form) -> device image; the device runs; device image -> `out` of device_bytes. As one segment, or
 * each node as a segment of its own; sharing: pairs that the device allows to share bytes do. */
typedef enum plait_conf_way { PLAIT_CONF_WHOLE, PLAIT_CONF_SINGLE, PLAIT_CONF_SHARING } plait_conf_way;
plait_status plait_conf_run_device(plait_conf_work *w, plait_conf_way way, unsigned char *out);
/* Room for a device image, from the arena. */
unsigned char *plait_conf_image(plait_conf_work *w);

/* Compares a tensor in the device image with the host's: largest difference over `scale`. */
double plait_conf_difference(const plait_conf_work *w, int tensor, const unsigned char *image, double scale);
/* Root of the mean square of the first matrix of an operand with data. */
double plait_conf_magnitude(const plait_operand *operand);
/* Bytes of the image that no written value has are those of the host image. */
bool plait_conf_untouched(const plait_conf_work *w, const unsigned char *image);

#define PLAIT_CONF_FIXED ((plait_extent){.dim = -1, .a = 1, .c = 1})

#endif
