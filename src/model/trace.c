/* The trace of a session: the spans of its runs in one list. Not here: how a run records (run/trace.c). Invariant: all
 * runs share one JSON array, whose first event names processes and threads. */
#include "model/session.h"

#include "base/strbuf.h"
#include "run/run.h"

/* The layers are nearly all of the work and get nearly all of the spans; what is left is for four tails and the copies.
 */
plait_status plait_session_trace_begin(plait_session *s, size_t max_spans) {
    size_t share = max_spans / (PLAIT_TAIL_COUNT + 1);
    PLAIT_TRY(plait_run_trace_begin(s->layers, max_spans - share));
    for (int t = 0; t < PLAIT_TAIL_COUNT; t++)
        PLAIT_TRY(plait_run_trace_begin(s->tails[t], share / (PLAIT_TAIL_COUNT + 1)));
    return plait_run_trace_begin(s->copies, share / (PLAIT_TAIL_COUNT + 1));
}

/* A run's events behind those of the runs before. Recording ends in every run, also behind one that has failed; the first
 * failure is kept. */
static void collect(plait_run *run, plait_strbuf *text, bool *first, plait_error_record *failure) {
    plait_status status = plait_run_trace_collect(run, text, first);
    if (status != PLAIT_OK && failure->status == PLAIT_OK) plait_error_save(status, failure);
}

/* Layers first, whose events carry the labels. */
plait_status plait_session_trace_end(plait_session *s, char **out_json) {
    plait_strbuf text;
    plait_error_record failure = {.status = PLAIT_OK};
    bool first = true;
    plait_strbuf_init(&text, 0);
    plait_strbuf_append(&text, "{\"traceEvents\":[");
    collect(s->layers, &text, &first, &failure);
    for (int t = 0; t < PLAIT_TAIL_COUNT; t++) collect(s->tails[t], &text, &first, &failure);
    collect(s->copies, &text, &first, &failure);
    plait_strbuf_append(&text, "\n]}\n");
    plait_status status =
        failure.status == PLAIT_OK ? plait_strbuf_status(&text) : plait_error_raise(&failure);
    if (status == PLAIT_OK)
        *out_json = plait_strbuf_take(&text);
    else
        plait_strbuf_deinit(&text);
    return status;
}
