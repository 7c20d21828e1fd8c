/* Inside of a run: one command list for each queue and each step that may be in flight, made once; what changes from
 * step to step is read through pointers into this struct.
 *
 * Everything that a step in flight needs for itself (staging, sizes, dims, the values of signals) exists `depth` times:
 * step s uses place s % depth, once step s - depth has ended.
 */
#ifndef PLAIT_RUN_RUN_H
#define PLAIT_RUN_RUN_H

#include "base/strbuf.h"
#include "plait/run.h"
#include "plan/plan.h"

/* How a queue of the plan waits for another queue of the context. */
typedef struct plait_run_source {
    plait_event *event; /* the timeline, or a mirror of it. Borrowed from the context. */
    bool relayed;       /* every value must be asked of the relay */
} plait_run_source;

/* A wait whose value the relay has to pass on. */
typedef struct plait_run_request {
    uint32_t source;   /* queue of the context */
    uint32_t rank;     /* order of its values among those of the source */
    plait_event *from; /* its timeline */
    plait_event *target;
    const uint64_t *value;
} plait_run_request;

/* Commands of one queue for one place. In front of them is room for what hand-over from another run adds. */
typedef struct plait_run_list {
    plait_command *commands; /* Owned. `room` commands, then the step's own. */
    int room, n_commands;
} plait_run_list;

/* What one step in flight has for itself. Commands point into it, so it is written between steps only: when the step
 * that used it has ended, and before the next is submitted. */
typedef struct plait_run_place {
    int64_t *dims;          /* values of the named dims */
    uint64_t *input_sizes;  /* [input] bytes to move */
    uint64_t *output_sizes; /* [output] */
    plait_box *pieces;      /* of transfers, in the order of the commands that move them */
    plait_command *
        *moves;        /* [piece] its command, where a step changes more of it than the piece: rows by ids */
    uint64_t *offsets; /* [2 * the most pieces of a transfer by ids] in the storage, in staging */
    uint64_t *signals; /* [queue][signal] values that the step's signals make */
    uint64_t *before;  /* the same of the step before */
    uint64_t *handed;  /* [queue of the plan][queue of the context] values that hand-over waits for */
    plait_buffer ***slots; /* [device] owned arrays of the buffers of all slots */
    plait_run_list *lists; /* [queue] */
    plait_run_request *requests;
    size_t n_requests;
    uint64_t arenas; /* the context's arenas for which the lists were made, by their count */
} plait_run_place;

/* Host memory that devices transfer from and to. */
typedef struct plait_run_staging {
    uint8_t *bytes;
    plait_device *device; /* that gave it, pinned; NULL: ordinary memory */
} plait_run_staging;

/* A stretch of the host's time, and a step that it handed over in one. */
typedef struct plait_run_moment {
    uint64_t begin_ns, end_ns;
} plait_run_moment;

typedef struct plait_run_recorded {
    plait_run_moment submit;
    uint64_t keys;
} plait_run_recorded;

/* Driven by one thread. Everything is allocated when it is created; the lists are filled anew where the context's
 * arenas are replaced. */
struct plait_run {
    plait_plan *plan; /* Retained. */
    plait_session_state *state;
    bool own_state;
    int64_t *dims; /* values of the named dims, for the next step */
    uint64_t keys; /* that a query of the next step sees on average, for the trace; 0: nobody said */
    int depth;
    plait_run_place *places;                                           /* [depth] */
    plait_run_staging input_staging, output_staging, transfer_staging; /* depth parts each */
    plait_buffer **inputs; /* Owned. [place * n_devices + device] SLOT_INPUTS */
    size_t *first_signal;  /* [queue] place of its signals among all */
    size_t *first_piece;   /* [step of the plan] */
    size_t n_signals, n_pieces, most_row_pieces;
    plait_run_source *sources; /* [queue of the plan][queue of the context] */
    size_t n_reserved;         /* requests for which the relay keeps room */
    uint32_t *checks;          /* nodes whose run-time inputs are checked before a step, equal ones once */
    size_t n_checks;
    /* The step whose places were waited for: not again, when its submission failed and has overwritten their values. */
    uint64_t place_free_for;
    uint64_t step;                 /* steps submitted so far */
    bool submitted, submitted_now; /* something ever, something of the current step */
    bool failed;
    plait_error_record failure;
    struct plait_run_trace {
        /* [place * n_spans + k]; k counts the commands of the plan, then its waits, then the queues (hand-over). Capacity 0
         * unless tracing. */
        plait_launch_trace *spans;
        size_t n_spans;
        plait_run_recorded *steps; /* Owned. [step_capacity], NULL unless tracing */
        int64_t *dims;             /* Owned. [step_capacity * n_dims] */
        size_t n_steps, step_capacity;
        size_t limit; /* steps whose spans are kept; of the others just the beginning is recorded */
        uint64_t first_step;
        plait_run_moment *waits; /* Owned. [wait_capacity] when the host waited */
        size_t n_waits, wait_capacity;
    } trace;
};

/* ---- trace.c ---- */

/* The trace that a command of the plan, a wait of the plan, or a queue's hand-over has in a place. */
plait_launch_trace *plait_run_trace_of_step(plait_run *run, int place, size_t step);
plait_launch_trace *plait_run_trace_of_wait(plait_run *run, int place, size_t wait);
plait_launch_trace *plait_run_trace_of_hand_over(plait_run *run, int place, size_t queue);
/* Room for no spans: traces are there, whoever points to them. */
plait_status plait_run_trace_init(plait_run *run);
void plait_run_trace_deinit(plait_run *run);
/* What shapes do not tell and predictions depend on: how many keys a query of the next step sees on average. */
void plait_run_note_keys(plait_run *run, uint64_t keys);
/* The host begins to hand over the coming step; has done so; waited since begin_ns. Nothing unless tracing. */
void plait_run_trace_step(plait_run *run);
void plait_run_trace_submitted(plait_run *run);
void plait_run_trace_waited(plait_run *run, uint64_t begin_ns);

/* Where the host writes an input for the coming step. */
void *plait_run_input_bytes(const plait_run *run, size_t input);
/* Where the host's copy of a tensor lies for the coming step; NULL when the host does not write it. */
void *plait_run_host_copy(const plait_run *run, uint32_t tensor_id);
/* Bytes of a tensor from its first to its last element at the current dims. */
uint64_t plait_run_span_now(const plait_run *run, uint32_t tensor_id);

/* Lists the nodes whose host-written ids are worth checking; called once by plait_run_create. */
plait_status plait_run_list_checks(plait_run *run);
/* Room for the command lists, called once by plait_run_create; filling those of a place, which allocates nothing. */
plait_status plait_run_reserve_lists(plait_run *run);
void plait_run_fill_lists(plait_run *run, int place);
/* The pieces of all transfers at the current dims. */
void plait_run_set_pieces(plait_run *run, int place);
/* Checks ids and positions that the host wrote against the ranges of their ops. */
plait_status plait_run_check_ids(const plait_run *run);
/* Hands the lists of the coming step to the queues. */
plait_status plait_run_submit(plait_run *run, int place);
/* What other runs must wait for is forgotten; nothing of the run is in flight. */
void plait_run_forget(plait_run *run);
/* Ends recording and appends the spans as elements of a JSON array, *first telling whether it is empty so far. */
plait_status plait_run_trace_collect(plait_run *run, plait_strbuf *text, bool *first);

#endif
