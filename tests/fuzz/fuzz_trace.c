/* room: model */
/* Any text as a trace, laid beside plans of a small decoder on two devices: it is refused with a message, or compared, and
 * then the counts agree with each other. */
#include "model/compare.h"

#include "support/decoder.h"
#include "support/fake_device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void broken(const char *what) {
    fprintf(stderr, "%s: %s\n", what, plait_error_message());
    abort();
}

/* Made once, for all inputs. */
static const plait_plan *the_plan(void) {
    static plait_context *context;
    static plait_graph *graph;
    static plait_plan *plan;
    if (plan) return plan;
    graph = decoder_make(2, 64, 8);
    if (!graph || fake_register() != PLAIT_OK ||
        plait_context_open(&context, "fake:lack=attention,fake:copy=1", NULL) != PLAIT_OK ||
        plait_plan_make(&plan, context, graph,
                        &(plait_plan_options){.split = PLAIT_SPLIT_NONE, .name = "layers"}) != PLAIT_OK)
        broken("no plan");
    return plan;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const plait_plan *plan = the_plan();
    plait_comparison c;
    uint64_t n = 0;
    plait_status status = plait_compare(&c, &plan, 1, (const char *)data, size);
    if (status != PLAIT_OK) {
        if (!plait_error_message()[0]) broken("refused without a message");
        return 0;
    }
    for (size_t r = 0; r < c.n_rows; r++) {
        n += c.rows[r].n_measured;
        if (!(c.rows[r].measured_ns >= 0) || !(c.rows[r].predicted_ns >= 0)) broken("a time below zero");
    }
    if (n != c.n_known || c.n_known > c.n_spans) broken("counts differ");
    for (size_t i = 0; i < c.n_strangers; i++) n += c.strangers[i].n;
    if (n != c.n_spans) broken("spans are lost");
    plait_comparison_deinit(&c);
    return 0;
}
