/* Plans: where every node of a graph runs, and why; what is copied; how memory is shared out. A plan is immutable,
 * proved before it is returned, printable, and used by any number of runs.
 *
 * A residence says where the weights and the state of a model live: device, offset and encoding, decided once
 * for all plans of the model. plait_plan_make makes one of its own when none is given.
 */
#ifndef PLAIT_PLAN_H
#define PLAIT_PLAN_H

#include "plait/context.h"
#include "plait/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Both are opaque and have counted references; a plan keeps its residence. */
typedef struct plait_plan plait_plan;
typedef struct plait_residence plait_residence;

/* ---- residence ---- */

/* Where weights come from: called for each weight of the residence. The operand's data points to the weight in
 * file form (dense rows) in host memory that stays readable while the residence lives when `lasting` is set,
 * else until the next call. NOT_FOUND for names that do not exist. */
typedef struct plait_weight_source {
    plait_status (*find)(void *user, const char *name, plait_operand *out_operand, bool *out_lasting);
    /* Says that the bytes of a weight were copied and are not needed any more. May be NULL. */
    void (*release)(void *user, const char *name);
    void *user;
} plait_weight_source;

/* The user's word on where something lives or runs. A pattern is compared with names of weights, states and nodes, and
 * with those of blocks, which are called blk.0, blk.1, ...; '*' matches any bytes, {0-26} one of these numbers. The first
 * pin of the list that matches wins: a pin of a weight takes its readers along, a pin of a node that writes state the
 * state. A pin says less than the law that a device must be able to do it: what the device lacks runs elsewhere, and the
 * plan says why. */
typedef struct plait_pin {
    const char *pattern;
    int device; /* index in the context */
} plait_pin;

/* How a model is spread over several devices; with one device every way is the same. */
typedef enum plait_split {
    PLAIT_SPLIT_AUTO,  /* by ratio if there is one, else by cost */
    PLAIT_SPLIT_NONE,  /* the first device; others for what it lacks and what it has no room for */
    PLAIT_SPLIT_LAYER, /* whole blocks: by ratio if there is one, else by cost */
    PLAIT_SPLIT_TENSOR /* UNSUPPORTED so far */
} plait_split;

/* How often a graph runs in a typical use, for costs: steps with every dim at 1, and steps with every dim at its bound.
 * Both 0: it hardly ever runs. */
typedef struct plait_expected_steps {
    double single, full;
    double keys; /* that a query of attention sees then; 0: a quarter of what the caches hold */
} plait_expected_steps;

/* docs/placement.md says how these decide. Arrays are borrowed for the call; those of devices have an entry for each
 * device of the context. */
typedef struct plait_residence_options {
    const plait_pin *pins; /* copied */
    int n_pins;
    bool no_packing; /* keep every weight in file form */
    plait_split split;
    const double
        *ratio; /* [device] shares of the bytes of weights and state, none negative, not all 0; NULL: none.
                          * A device of share 0 holds nothing and runs only what nobody else can run */
    /* Most bytes a device may hold: weights that are not used in the mapped file, state of one session, and `reserve`.
     * NULL: what is free now, less a margin. */
    const uint64_t *budget_bytes;
    const uint64_t *margin_bytes;  /* [device] left free of what is free now; NULL: one part in 32 of it */
    const uint64_t *reserve_bytes; /* kept for temporaries; NULL: nothing */
    const plait_expected_steps *steps; /* [graph]; NULL: each graph runs once, at its bounds */
    /* NULL, or set to whether the devices' memory was too small: other things run out of memory too. */
    bool *out_full;
} plait_residence_options;

/* Decides residence for the weights and states of all `graphs` (same names mean the same thing; shapes must
 * agree). Nothing is allocated on devices yet. Graphs and context must outlive the residence. With several devices their
 * figures are asked for (plait/cost.h), memory is kept to the budgets, and a failure to do so is OUT_OF_MEMORY with what
 * is needed and what there is on each device; with one, only plait_residence_check judges. UNSUPPORTED: no device runs a
 * node. */
plait_status plait_residence_create(plait_residence **out, plait_context *context,
                                    const plait_graph *const *graphs, int n_graphs,
                                    const plait_residence_options *options);
/* Memory it will take on a device of the context: weights that need memory of their own (packed or copied),
 * weights used where they are (mapped), and state of one session. */
void plait_residence_bytes(const plait_residence *residence, int device, uint64_t *out_private,
                           uint64_t *out_mapped, uint64_t *out_state);
/* Share of all bytes of weights and state that a device was asked to hold (-1 when no ratio was given), and that it
 * holds; and how many blocks of the model live there. */
void plait_residence_shares(const plait_residence *residence, int device, double *out_asked, double *out_held,
                            int *out_n_blocks);
/* What a session and the plans of a model take on a device beside the weights, at most. OUT_OF_MEMORY, with what is needed
 * and what there is on each device, when that and the weights exceed a budget: then decide again, with `reserve_bytes`.
 * temporary_bytes has an entry for each device: as much as they take there, padding included. *out_full: a budget is
 * exceeded; false after a failure for want of the host's memory. */
plait_status plait_residence_check(const plait_residence *residence, const uint64_t *temporary_bytes,
                                   bool *out_full);
/* Allocates, packs and copies all weights; shows progress through the context's logger, and can be cancelled
 * by it. After a failure the residence can only be destroyed. */
plait_status plait_residence_load(plait_residence *residence, const plait_weight_source *source);
plait_residence *plait_residence_retain(plait_residence *residence);
void plait_residence_release(plait_residence *residence); /* accepts NULL */

/* State of one session on all devices: zeroed when created. Used by one run at a time. Its size is what
 * plait_residence_bytes says. Keeps a reference to the residence; runs that use it must be gone before it. */
typedef struct plait_session_state plait_session_state;
plait_status plait_session_state_create(plait_session_state **out, plait_residence *residence);
void plait_session_state_destroy(plait_session_state *state);

/* ---- plan ---- */

/* Keeps plans to be found again: plait_plan_make with a cache in its options returns, with a reference for the caller, the
 * plan that was made of an equal graph with equal options, if it is still there; so a graph that is rebuilt for every
 * step costs its building and a comparison of a few nanoseconds a node.
 *
 * Graphs are equal when they were built by the same calls in the same order: dims and bounds, names, types, shapes, views,
 * ops, attributes, who reads whose result, parts, blocks, outputs. Only the graph's own name does not count: a plan has
 * the name that it was asked for, and is not given to somebody who asks for another. Options are equal when they name the
 * same residence object, or none, and agree in what else changes a plan. Where no residence is named, the plan's own is
 * found with it: weights that were written before are still there.
 *
 * The context must outlive the cache. Any thread may ask; a plan that is not found is made by the thread that asks, which
 * needs the context to itself as plait_plan_make does. */
typedef struct plait_plan_cache plait_plan_cache;
/* Keeps at most most_plans (0: 64); the one that was not asked for longest goes first. Plans that somebody holds live on. */
plait_status plait_plan_cache_create(plait_plan_cache **out, plait_context *context, int most_plans);
void plait_plan_cache_destroy(plait_plan_cache *cache); /* accepts NULL */
/* Forgets all plans, for example because a device is lost. */
void plait_plan_cache_clear(plait_plan_cache *cache);
/* How often a plan was found and made so far. */
void plait_plan_cache_describe(plait_plan_cache *cache, uint64_t *out_found, uint64_t *out_made);

/* Zeroed: a residence of its own, proved, two steps in flight. */
typedef struct plait_plan_options {
    plait_residence *residence; /* retained; NULL: the plan makes one, with zeroed weights to be written */
    bool skip_verify;           /* proof off (to measure its cost) */
    bool dry;          /* no programs and no memory: to be looked at, not to be run. Not kept in a cache */
    bool exact;        /* same bytes for any batching and number of devices of one class */
    plait_split split; /* of the residence that the plan makes itself */
    plait_expected_steps steps; /* what predicted times are weighed by; both 0: steps at the bounds */
    const char *name;           /* for messages; NULL: the graph's */
    plait_plan_cache *cache;    /* of the same context; NULL: always a new plan */
    int depth; /* steps of a run that may be in flight at a time, 2 to 16; 0: 2. Each takes staging and inputs of its own:
                * more than 2 keep a pipeline of more than two devices busy */
} plait_plan_options;

/* Plans the sealed graph for the context's devices: residence, place, segment, prepare, order, memory, verify,
 * compile. The error of a graph that no device can run names node, op, shapes, types and each device's reason.
 * The plan keeps the graph alive. `options` may be NULL. */
plait_status plait_plan_make(plait_plan **out, plait_context *context, const plait_graph *graph,
                             const plait_plan_options *options);
plait_plan *plait_plan_retain(plait_plan *plan);
void plait_plan_release(plait_plan *plan); /* accepts NULL */

/* Writes a weight of a plan that made its own residence: size_bytes of file form, the whole weight. */
plait_status plait_plan_write_weight(plait_plan *plan, const char *name, const void *bytes,
                                     uint64_t size_bytes);

/* Figures of a plan. Sizes are bytes, times ns. Counts are those of the plan, whatever the dims of a step are. */
typedef struct plait_plan_facts {
    int n_nodes, n_groups, n_segments, n_transfers;
    int n_copies;                   /* of n_nodes: copies of operands that planning inserted */
    uint64_t temporary_bytes;       /* largest arena of a device as assigned */
    uint64_t temporary_bound_bytes; /* heaviest set of values alive at once over the command order, there */
    uint64_t weight_bytes_read;     /* bytes of weights read in a step at the bounds */
    uint64_t transfer_bytes;        /* between devices in a step at the bounds */
    double flop;                    /* in a step at the bounds */
    uint64_t plan_ns, verify_ns;    /* time that planning and proving took */
    /* Predicted time of a step, with every dim at its bound and with every dim at 1; transfers and devices that work side
     * by side taken into account. 0: the figures of the devices are not known, which with one device they are only when
     * somebody asked for them (plait/cost.h). */
    uint64_t predicted_ns, predicted_single_ns;
} plait_plan_facts;
/* Fills all of *out. Cannot fail; any thread. */
void plait_plan_describe(const plait_plan *plan, plait_plan_facts *out);
/* Memory of a device that a step needs: for temporaries, which all plans of the context share, and for inputs. */
void plait_plan_device_bytes(const plait_plan *plan, int device, uint64_t *out_temporary,
                             uint64_t *out_inputs);

/* Memory of a plan on one device. Plans of a context share one arena there, as large as the largest of them needs; it is
 * made when the plan is, and never by a run. */
typedef struct plait_plan_memory {
    uint64_t temporary_bytes; /* of the arena, as assigned */
    uint64_t
        taken_bytes; /* of the device's memory for that: in as many buffers as it takes, their padding included */
    uint64_t bound_bytes; /* heaviest set of values alive at once: no arrangement needs less */
    uint64_t input_bytes; /* of the buffer of inputs; a run has one for each step in flight */
} plait_plan_memory;
/* OUT_OF_RANGE: there is no such device. */
plait_status plait_plan_memory_on(const plait_plan *plan, int device, plait_plan_memory *out);

/* The plan as text for people, as JSON, and as a page with pictures of queues and memory over time. Predicted times are
 * part of them when the figures of all devices are known: always with several devices; with one, once they were asked for
 * (plait_context_figures). The caller frees *out. */
plait_status plait_plan_print(const plait_plan *plan, char **out_text);
plait_status plait_plan_print_json(const plait_plan *plan, char **out_text);
plait_status plait_plan_print_html(const plait_plan *plan, char **out_text);
/* One page for several plans of one context, for example those of a model's layers and its tails, with a title of
 * the caller's (NULL: the first plan's name). The page stands alone: no scripts, no links, light and dark. n >= 1. */
plait_status plait_plans_print_html(const plait_plan *const *plans, int n_plans, const char *title,
                                    char **out_text);

#ifdef __cplusplus
}
#endif
#endif
