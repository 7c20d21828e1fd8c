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

/* Layers first, whose events carry the labels. After a failure of one run the others keep recording until the next
 * beginning ends that. */
plait_status plait_session_trace_end(plait_session *s, char **out_json) {
    plait_strbuf text;
    bool first = true;
    plait_strbuf_init(&text, 0);
    plait_strbuf_append(&text, "{\"traceEvents\":[");
    plait_status status = plait_run_trace_collect(s->layers, &text, &first);
    for (int t = 0; t < PLAIT_TAIL_COUNT && status == PLAIT_OK; t++)
        status = plait_run_trace_collect(s->tails[t], &text, &first);
    if (status == PLAIT_OK) status = plait_run_trace_collect(s->copies, &text, &first);
    plait_strbuf_append(&text, "\n]}\n");
    if (status == PLAIT_OK) status = plait_strbuf_status(&text);
    if (status == PLAIT_OK)
        *out_json = plait_strbuf_take(&text);
    else
        plait_strbuf_deinit(&text);
    return status;
}
