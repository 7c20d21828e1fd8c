/* Traces: spans of groups as the devices report them, in the JSON of Chrome's trace viewer (catapult's "Trace Event
 * Format": complete events, "ph": "X", microseconds). Invariant: recording allocates only at the beginning. */
#include "run/run.h"

#include "base/alloc.h"
#include "base/status.h"
#include "base/strbuf.h"

#include <stdlib.h>

plait_status plait_run_trace_begin(plait_run *run, size_t max_spans) {
    PLAIT_TRY(plait_run_wait(run));
    for (size_t s = 0; s < run->plan->n_segments; s++) {
        plait_launch_trace *trace = &run->traces[s];
        size_t share = max_spans / run->plan->n_segments;
        struct plait_launch_span *spans = plait_alloc_array(share, sizeof *spans);
        if (!spans) return plait_error_memory("trace", share * sizeof *spans);
        free(trace->spans);
        *trace = (plait_launch_trace){.capacity = share, .spans = spans};
    }
    return PLAIT_OK;
}

/* Name of a group: its nodes joined by '+'. */
static void print_group(plait_strbuf *text, const plait_plan_segment *segment, int g) {
    const plait_group *group = &segment->prepared.groups[g];
    plait_strbuf name;
    plait_strbuf_init(&name, 0);
    for (int k = 0; k < group->n; k++)
        plait_strbuf_printf(&name, "%s%s", k ? "+" : "",
                            segment->nodes[segment->prepared.order[group->first + k]].name);
    plait_strbuf_inherit(text, &name);
    plait_strbuf_json_string(text, plait_strbuf_text(&name));
    plait_strbuf_deinit(&name);
}

plait_status plait_run_trace_collect(plait_run *run, plait_strbuf *text, bool *first) {
    plait_status status = plait_run_wait(run);
    for (size_t s = 0; s < run->plan->n_segments; s++) {
        const plait_plan_segment *segment = &run->plan->segments[s];
        plait_launch_trace *trace = &run->traces[s];
        for (size_t i = 0; i < trace->n; i++) {
            const struct plait_launch_span *span = &trace->spans[i];
            if (span->group < 0 || span->group >= segment->prepared.n_groups) continue;
            plait_strbuf_append(text, *first ? "\n{\"name\":" : ",\n{\"name\":");
            print_group(text, segment, span->group);
            plait_strbuf_printf(text, ",\"ph\":\"X\",\"pid\":1,\"tid\":%d,\"ts\":%.3f,\"dur\":%.3f}",
                                segment->device, (double)span->begin_ns / 1000,
                                (double)(span->end_ns - span->begin_ns) / 1000);
            *first = false;
        }
        free(trace->spans);
        *trace = (plait_launch_trace){0};
    }
    return status;
}

plait_status plait_run_trace_end(plait_run *run, char **out_json) {
    plait_strbuf text;
    bool first = true;
    plait_strbuf_init(&text, 0);
    plait_strbuf_append(&text, "{\"traceEvents\":[");
    plait_status status = plait_run_trace_collect(run, &text, &first);
    plait_strbuf_append(&text, "\n]}\n");
    if (status == PLAIT_OK) status = plait_strbuf_status(&text);
    if (status == PLAIT_OK) *out_json = plait_strbuf_take(&text);
    plait_strbuf_deinit(&text);
    return status;
}
