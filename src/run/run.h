/* Inside of a run: one command list for each queue and each parity of the step, made once; what changes from step to
 * step is read through pointers into this struct. */
#ifndef PLAIT_RUN_RUN_H
#define PLAIT_RUN_RUN_H

#include "base/strbuf.h"
#include "plait/run.h"
#include "plan/plan.h"

/* Commands of one device's queue for one parity. */
typedef struct plait_run_list {
    plait_command *commands; /* Owned. */
    int n_commands;
} plait_run_list;

typedef struct plait_run_device {
    plait_run_list lists[2];
    plait_buffer *inputs; /* Owned. SLOT_INPUTS */
    plait_buffer **slots; /* Owned array: buffers of all slots; SLOT_ARENA is set at each step */
    int n_slots;
    plait_event *event; /* Owned. Timeline of this run on this queue: see `signals`. */
    uint64_t n_signals; /* signals in one step */
} plait_run_device;

struct plait_run {
    plait_plan *plan; /* Retained. */
    plait_session_state *state;
    bool own_state;
    int64_t *dims;           /* values of the named dims, for the next step */
    int64_t *launched[2];    /* the values that the commands of each parity read */
    uint8_t *input_staging;  /* two halves */
    uint8_t *output_staging; /* two halves */
    uint8_t *transfer_staging;
    uint64_t *input_sizes[2]; /* bytes to move by input index, by parity */
    uint64_t *output_sizes[2];
    uint64_t *transfer_sizes[2];
    plait_run_device *devices;
    /* Values that signal and wait commands read: [device][signal] for the step of each parity. */
    uint64_t *signal_values[2];
    uint64_t *end_values[2]; /* [device]: value at the end of the previous step, to wait for */
    size_t n_signal_values;
    uint32_t *checks; /* nodes whose run-time inputs are checked before a step, equal ones once */
    size_t n_checks;
    uint64_t step; /* steps submitted so far */
    bool failed;
    plait_error_record failure;
    plait_launch_trace *traces; /* [segment]; capacity 0 unless tracing */
};

/* Lists the nodes whose host-written ids are worth checking; called once by plait_run_create. */
plait_status plait_run_list_checks(plait_run *run);
/* The command lists; called once by plait_run_create. */
plait_status plait_run_build_lists(plait_run *run);
/* Checks ids and positions that the host wrote against the ranges of their ops. */
plait_status plait_run_check_ids(const plait_run *run);
/* Ends recording and appends the spans as elements of a JSON array, *first telling whether it is empty so far. */
plait_status plait_run_trace_collect(plait_run *run, plait_strbuf *text, bool *first);

#endif
