/* Costs: what a node's work is, and what it takes on a device of given figures. Everything is a pure function of
 * integers and shapes; only figures.c and measure.c touch devices.
 *
 * Times are nanoseconds in double: sums of thousands of nodes stay exact enough, and the same build gives the same
 * numbers everywhere (contraction is off). */
#ifndef PLAIT_COST_COST_H
#define PLAIT_COST_COST_H

#include "device/context.h"
#include "graph/graph.h"
#include "plait/cost.h"

/* ---- figures ---- */

/* The nearest number of the scale 1, 2, ... 10, 11, 12, 13, ... in which each number is about a tenth more than the one
 * before (figures.c); 0 stays 0. Rounding a number of the scale gives the number itself. */
uint64_t plait_cost_round(uint64_t value);
/* Fills what a device left at 0 from its other figures, and rounds all: afterwards no rate is 0. */
void plait_cost_complete(plait_device_figures *figures);

/* Measured figures, and how much they are worth. */
typedef struct plait_cost_record {
    plait_device_figures figures;
    uint64_t
        n_disturbed; /* how often they were measured, each time while others used the machine; 0: once in peace */
    uint64_t age_s; /* seconds since they were written, when they are read */
} plait_cost_record;

/* Measures through the device's interface (measure.c). `out_disturbed`: others used the processors meanwhile. */
plait_status plait_cost_measure(plait_device *device, plait_device_figures *out, bool *out_disturbed);
/* Whether a device of n_threads on a machine of n_processors lacked processors: what others worked in wall_ns, and the
 * device's threads, are more than there are. */
bool plait_cost_was_disturbed(int n_processors, int n_threads, uint64_t others_ns, uint64_t wall_ns);
/* The better of two measurements, figure by figure: rates are the larger ones, times the smaller ones. What disturbs,
 * slows down. */
void plait_cost_keep_best(plait_device_figures *best, const plait_device_figures *other);

/* The remembered figures of a device of this description (cache.c): NOT_FOUND when there are none, or none that can be
 * read. Other failures are those of memory only. */
plait_status plait_cost_cache_read(const plait_device_info *info, plait_cost_record *out);
/* Remembers them. A failure leaves an older file as it was. */
plait_status plait_cost_cache_write(const plait_device_info *info, const plait_cost_record *record);

/* ---- the figures of a context, laid out for many questions ---- */

/* Kinds of work, told from an op's factors. */
typedef enum plait_cost_class {
    PLAIT_COST_STREAM,   /* bytes decide */
    PLAIT_COST_PRODUCT,  /* a sum over an index: matrix products */
    PLAIT_COST_ATTENTION /* slices that merge by the rule of softmax */
} plait_cost_class;

typedef struct plait_cost {
    int n_devices;
    plait_device_figures *devices; /* [n_devices] */
    plait_link_figures *links;     /* [from * n_devices + to] */
    unsigned char classes[PLAIT_OP_COUNT];
} plait_cost;

/* Asks for all figures of the context. Deinit accepts a zeroed one. */
plait_status plait_cost_init(plait_cost *cost, plait_context *context);
void plait_cost_deinit(plait_cost *cost);

/* ---- work ---- */

/* What a node does at given dims, whatever runs it. */
typedef struct plait_work {
    plait_cost_class kind;
    bool quantised;      /* of a product: its weights are, so integer arithmetic may do it */
    double flop;         /* at these dims */
    double weight_bytes; /* of constant operands */
    double bytes;        /* of all others */
} plait_work;

/* Work of a node; dims at their bounds (values NULL) or at given values. `use` is room that the call may write to. */
void plait_cost_work(const plait_cost *cost, const plait_graph *graph, uint32_t node, const int64_t *values,
                     plait_op_use *use, plait_work *out);
/* The same where caches hold so many keys at most. */
void plait_cost_work_keys(const plait_cost *cost, const plait_graph *graph, uint32_t node,
                          const int64_t *values, double keys, plait_op_use *use, plait_work *out);
/* Time of the work on a device, in nanoseconds. A launch is not in it. */
double plait_cost_time(const plait_cost *cost, int device, const plait_work *work);
/* Time of n transfers from one device to another that move this many bytes together. */
double plait_cost_transfer(const plait_cost *cost, int from, int to, double n_transfers, double bytes);

#endif
