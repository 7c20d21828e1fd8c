/* A graph of one's own: y = silu(w x), for a number of columns that changes from step to step. */
#include <plait/run.h>

#include <stdio.h>
#include <stdlib.h>

enum { IN = 4, OUT = 3, MOST = 8 };

static plait_graph *build(void) {
    plait_graph *g = plait_graph_create(NULL);
    if (!g) return NULL;
    plait_dim n = plait_graph_dim(g, "tokens", MOST); /* a bounded dim */
    plait_tensor x = plait_input(g, "x", PLAIT_F32, PLAIT_SHAPE(IN, n));
    plait_tensor w = plait_weight(g, "w", PLAIT_F32, PLAIT_SHAPE(IN, OUT));
    plait_output(g, "y", plait_silu(g, plait_matmul(g, w, x)));
    return g;
}

static plait_status step(plait_run *run, int64_t n) {
    float x[IN * MOST];
    const void *y = NULL;
    uint64_t size_bytes = 0;
    for (int i = 0; i < IN * MOST; i++) x[i] = 0.1f * (float)i;
    PLAIT_TRY(plait_run_set_dim(run, "tokens", n));
    PLAIT_TRY(plait_run_write(run, "x", x, (uint64_t)n * IN * sizeof *x));
    PLAIT_TRY(plait_run_step(run)); /* allocates nothing after the first */
    PLAIT_TRY(plait_run_output(run, "y", &y, &size_bytes));
    for (uint64_t i = 0; i < size_bytes / sizeof(float); i++)
        printf("%s%g", i ? " " : "", ((const float *)y)[i]);
    printf("\n");
    return PLAIT_OK;
}

static plait_status plan_and_run(plait_context *context, const plait_graph *g) {
    static const float w[IN * OUT] = {1, 0, 0, 0, 0, 1, 0, 0, 0.5f, 0.5f, 0.5f, 0.5f};
    plait_plan *plan = NULL;
    plait_run *run = NULL;
    char *text = NULL;
    PLAIT_TRY(plait_plan_make(&plan, context, g, NULL)); /* proved before it is returned */
    plait_status status = plait_plan_write_weight(plan, "w", w, sizeof w);
    if (status == PLAIT_OK) status = plait_plan_print(plan, &text); /* where, why, bytes */
    if (status == PLAIT_OK) printf("%s", text);
    if (status == PLAIT_OK) status = plait_run_create(&run, plan, NULL);
    for (int64_t n = 1; status == PLAIT_OK && n <= 2; n++) status = step(run, n);
    free(text);
    plait_run_destroy(run);
    plait_plan_release(plan);
    return status;
}

int main(void) {
    plait_context *context = NULL;
    plait_graph *g = build();
    plait_status status =
        g ? plait_graph_seal(g) : PLAIT_OUT_OF_MEMORY; /* the first error of all calls, if any */
    if (status == PLAIT_OK) status = plait_context_open(&context, "cpu", NULL);
    if (status == PLAIT_OK) status = plan_and_run(context, g);
    if (status != PLAIT_OK) fprintf(stderr, "graph: %s\n", plait_error_message());
    plait_context_close(context);
    plait_graph_destroy(g);
    return status == PLAIT_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}
