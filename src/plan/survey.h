/* All graphs of a model at once, as residence sees them: what is stored, who touches it, which unit (a block, or what
 * stands before or behind all blocks) everything belongs to, and what a unit costs on each device. Lives while a
 * residence is decided. Only for contexts of several devices: with one there is nothing to decide. */
#ifndef PLAIT_PLAN_SURVEY_H
#define PLAIT_PLAN_SURVEY_H

#include "plan/split.h"
#include "plan/weigh.h"

enum { PLAIT_SURVEY_MAX_UNITS = 256, PLAIT_SURVEY_HERE = -1, PLAIT_SURVEY_ALL = -2 };

/* Which units have a copy of their own of a weight that several units read: all of them; all but those that only look
 * things up in what another unit reads whole; only one, to which the others' readers go. */
typedef enum plait_copies { PLAIT_COPIES_ALL, PLAIT_COPIES_NO_LOOKUPS, PLAIT_COPIES_NONE } plait_copies;

/* A weight or state, over all graphs that name it. */
typedef struct plait_survey_item {
    const char *name; /* Borrowed from a graph, as `row`. */
    const plait_graph_storage *row;
    plait_operand shape;
    int pin,
        pin_rank; /* device of the first pin that names it (or a node that writes it), and which pin that is */
    bool shown;   /* an output gives it out as it is */
    uint32_t first_user, n_users; /* in `users` */
    uint32_t first_unit, last_unit;
    uint64_t touch, write; /* of a state: devices that run all nodes that touch it, all that write it */
    int refuge;            /* of a state: where it goes when its unit's device does not run what touches it */
    int home;              /* of a state, once decided; -1 before */
} plait_survey_item;

/* A use of an item by a node; sorted by item, then graph, then node. */
typedef struct plait_survey_user {
    uint32_t node; /* number over all graphs */
    int input;
    bool whole, lookup, writes;
} plait_survey_user;

typedef struct plait_survey_node {
    uint32_t graph, node;
    uint32_t unit;
    int pin;
    /* Decided last. */
    int device;
    plait_cause cause;
    const char *why;
} plait_survey_node;

typedef struct plait_survey {
    plait_context *context;
    const plait_graph *const *graphs;
    int n_graphs, n_devices;
    const plait_residence *residence; /* pins */
    uint64_t idle;                    /* devices of share 0: only for what nobody else runs */
    plait_cost cost;
    plait_weighed *weighed; /* [graph] */
    double *steps;          /* [graph] steps of it in a typical use */
    uint32_t *first_node;   /* [graph + 1] numbers over all graphs */
    uint32_t *first_value;  /* [graph + 1] */
    plait_survey_node *nodes;
    plait_survey_item *items;
    size_t n_items, item_capacity;
    plait_survey_user *users;
    plait_map names;
    size_t *first_storage; /* [graph] */
    uint32_t *item_of;     /* [first_storage[graph] + storage] index in `items` + 1, 0: none */
    uint32_t n_units;
    int32_t *unit_block;              /* [unit] the first block in it; -1: none */
    int *unit_blocks;                 /* [unit] how many */
    uint32_t *first_in_unit;          /* [n_units + 1] places in in_unit */
    uint32_t *in_unit;                /* nodes by unit, in order of graphs and nodes */
    uint32_t *first_item;             /* [n_units + 1] places in unit_items */
    uint32_t *unit_items;             /* items that nodes of a unit touch */
    bool *escapes;                    /* [value] a node of another unit reads it */
    double *cross_n, *cross_bytes;    /* [unit] what comes over from the unit before */
    uint32_t lookups[PLAIT_OP_COUNT]; /* bit i: input i is a table in which the op looks things up */
    /* While a unit is tried on a device: where each value is. */
    uint64_t *places; /* [value] a bit for each device */
    uint32_t *placed; /* [value] the trial that `places` is of */
    uint32_t trial;
    int *unit_device; /* [unit] decided; -1 before */
    plait_copies copies;
    plait_arena arena;
} plait_survey;

/* `options` as given to plait_residence_create. UNSUPPORTED when no device runs a node. Deinit accepts a zeroed one, and
 * one whose init failed. */
plait_status plait_survey_init(plait_survey *survey, plait_residence *residence,
                               const plait_graph *const *graphs, int n_graphs,
                               const plait_residence_options *options);
void plait_survey_deinit(plait_survey *survey);

/* Time of a unit on a device, over the steps of a typical use: what the device does not run is done elsewhere. The unit's
 * nodes show what was found until the next trial. */
double plait_survey_try(plait_survey *survey, uint32_t unit, int device);
/* Home of a state whose unit is on a device. */
int plait_survey_home(const plait_survey_item *item, int device);
/* Decides all homes and nodes for the devices of the units (`unit_device`); forgets what was decided. */
void plait_survey_decide(plait_survey *survey);
void plait_survey_forget(plait_survey *survey);
/* Whether a unit that reads an item has a copy of its own, where other units read it too. */
bool plait_survey_copies(const plait_survey *survey, const plait_survey_item *item, uint32_t unit);
/* Form of an item on a device, for its users in a unit; or those whose nodes are on that device (PLAIT_SURVEY_HERE); or
 * PLAIT_SURVEY_ALL. */
plait_status plait_survey_form(const plait_survey *survey, const plait_survey_item *item, int device,
                               int unit, plait_encoding_offer *out);
/* Whether the item is on the device, once nodes are decided. */
bool plait_survey_holds(const plait_survey *survey, const plait_survey_item *item, int device);

#endif
