/* Weighing a graph: every device is asked once about every use of an op, and what the node does is counted from the op table at
 * the two ends of a model's life: steps of one item, and steps at the bounds.
 *
 * Invariant: the result depends on shapes, figures and the devices' answers alone. */
#include "plan/weigh.h"

#include "base/alloc.h"
#include "base/status.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Room for a device's reason; longer ones are cut. */
enum { REASON_BYTES = 120 };

/* Reasons are few and long: each is kept once. */
typedef struct reasons {
    plait_arena *arena;
    plait_map known; /* text -> place in `texts` */
    const char **texts;
    size_t n, capacity;
} reasons;

/* The same few words come back for hundreds of nodes. Texts live in the arena, so pointers to them stay good while
 * the table of pointers grows. */
static plait_status keep_reason(reasons *r, const char *text, const char **out) {
    uint32_t at;
    size_t length = strlen(text);
    if (plait_map_get(&r->known, text, length, &at)) {
        *out = r->texts[at];
        return PLAIT_OK;
    }
    PLAIT_TRY(plait_grow(&r->texts, &r->capacity, r->n + 1, sizeof *r->texts, 1 << 24, "reasons"));
    char *copy = plait_arena_string(r->arena, text);
    if (!copy) return plait_error_memory("reasons", length);
    PLAIT_TRY(plait_map_put(&r->known, copy, length, (uint32_t)r->n, NULL));
    r->texts[r->n++] = copy;
    *out = copy;
    return PLAIT_OK;
}

/* ---- what a device says ---- */

/* The encodings of the node's weights on the device; false when one is not there. */
static bool find_encodings(const plait_plan *plan, const plait_graph_node *node, int device,
                           plait_encoding *encodings) {
    const plait_graph *graph = plan->graph;
    for (int i = 0; i < node->n_inputs; i++) {
        uint32_t storage = graph->tensors[node->inputs[i]].storage;
        if (!node->inputs[i] || graph->storages[storage].kind != PLAIT_STORAGE_WEIGHT) continue;
        const plait_resident *entry = plait_plan_resident(plan, storage, device);
        if (!entry) return false;
        encodings[i] = entry->encoding;
    }
    return true;
}

/* Unbound, the use alone decides: weights are in file form as far as anybody knows. Bound, two nodes of one use may
 * have weights that were packed differently, because other readers of theirs differ, and then a device may say yes to
 * one and no to the other. */
bool plait_weigh_alike(const plait_context *context, const plait_graph *graph, uint32_t a, uint32_t b,
                       const plait_plan *bound) {
    if (graph->use_of[a] != graph->use_of[b]) return false;
    for (int d = 0; bound && d < context->n_devices; d++) {
        plait_encoding x[PLAIT_MAX_INPUTS] = {0}, y[PLAIT_MAX_INPUTS] = {0};
        bool here = find_encodings(bound, &graph->nodes[a], d, x);
        if (here != find_encodings(bound, &graph->nodes[b], d, y)) return false;
        if (here && memcmp(x, y, sizeof x) != 0) return false;
    }
    return true;
}

/* What a device says of a use when nothing else stands against it. An op that the device had accepted and then
 * refused (deny.c) is answered here, so every caller sees it as lacking. A device that says no and gives no reason
 * gets one. */
static bool supports(const plait_context *context, const plait_op_use *use, const plait_encoding *encodings,
                     int d, char *reason, size_t reason_bytes) {
    plait_device *device = context->devices[d].device;
    unsigned op = (unsigned)use->op->id;
    reason[0] = '\0';
    if (context->devices[d].denied[op / 64] >> op % 64 & 1u) {
        snprintf(reason, reason_bytes, "it said that it runs %s, and refused to", use->op->name);
        return false;
    }
    if (device->vtable->supports(device, use, encodings, reason, reason_bytes)) return true;
    if (!reason[0]) snprintf(reason, reason_bytes, "it lacks %s", use->op->name);
    return false;
}

/* ---- copies ---- */

/* A use without a node: of the right op, with the operand as it is and a dense one of its type and dims. Where the
 * dense one cannot be expressed the output stays as it is, and the caller sees that it is not dense. */
void plait_weigh_copy_use(const plait_operand *operand, plait_op_use *out) {
    *out = (plait_op_use){.op = plait_op_get(PLAIT_OP_copy), .n_inputs = 1, .n_outputs = 1, .present = 1};
    out->inputs[0] = out->outputs[0] = *operand;
    (void)plait_operand_make_dense(&out->outputs[0]);
}

uint64_t plait_weigh_copiers(const plait_context *context, const plait_op_use *copy) {
    char reason[REASON_BYTES];
    uint64_t found = 0;
    for (int d = 0; d < context->n_devices; d++)
        if (supports(context, copy, NULL, d, reason, sizeof reason)) found |= (uint64_t)1 << d;
    return found;
}

/* A copy streams: no factor of arithmetic, and the bytes of both sides. */
double plait_weigh_copy_ns(const plait_cost *cost, const plait_op_use *copy, int device) {
    plait_work work = {.kind = (plait_cost_class)cost->classes[PLAIT_OP_copy], .bytes = plait_op_bytes(copy)};
    return plait_cost_time(cost, device, &work);
}

/* Whether a copy of the input could be read instead, and some device makes it. Weights are not copied in every step; what
 * is written in place has to be where it is; ids of the host are checked where the host wrote them. */
static bool may_copy(const plait_context *context, const plait_graph *graph, uint32_t n,
                     const plait_op_use *use, int i) {
    const plait_op *op = use->op;
    plait_op_use copy;
    if (!plait_op_has(use, i) || i == op->writes_input || op->runtime_inputs >> i & 1u) return false;
    const plait_graph_tensor *tensor = &graph->tensors[graph->nodes[n].inputs[i]];
    if (graph->storages[tensor->storage].kind == PLAIT_STORAGE_WEIGHT) return false;
    if (plait_operand_is_dense(&use->inputs[i])) return false;
    /* The bounded dim of a tensor has to be its outermost, so a copy of a view in which another dim lies outside of
     * it could not be declared. */
    for (int k = tensor->outer.axis + 1; tensor->outer.dim >= 0 && k < PLAIT_MAX_RANK; k++)
        if (use->inputs[i].dims[k] != 1) return false;
    plait_weigh_copy_use(&use->inputs[i], &copy);
    /* A repeated operand may be too large to be written out. */
    return plait_operand_is_dense(&copy.outputs[0]) && plait_weigh_copiers(context, &copy) != 0;
}

/* The least inputs that have to be dense for the device to run the use, 0 when that does not help. All that may be
 * copied are tried at once first, as few devices refuse then; those without which the device is content are taken back
 * one by one, in the order of the inputs. That is one question more than there are such inputs, and finds a least set
 * as long as what a device says of one operand does not depend on another's form. */
static uint16_t find_copies(const plait_context *context, const plait_graph *graph, uint32_t n,
                            const plait_op_use *use, const plait_encoding *encodings, int d) {
    char reason[REASON_BYTES];
    plait_op_use dense = *use;
    uint16_t copies = 0;
    for (int i = 0; i < use->n_inputs; i++)
        if (may_copy(context, graph, n, use, i)) {
            copies |= (uint16_t)(1u << i);
            (void)plait_operand_make_dense(&dense.inputs[i]);
        }
    if (!copies || !supports(context, &dense, encodings, d, reason, sizeof reason)) return 0;
    for (int i = 0; i < use->n_inputs; i++) {
        if (!(copies >> i & 1u)) continue;
        plait_operand copied = dense.inputs[i];
        dense.inputs[i] = use->inputs[i];
        if (supports(context, &dense, encodings, d, reason, sizeof reason))
            copies &= (uint16_t) ~(1u << i);
        else
            dense.inputs[i] = copied;
    }
    return copies;
}

/* The order of the questions is the order in which a reason helps: where a weight is missing, nothing the device says
 * matters. Without `out_copies` nobody would make the copies, so a device that needs some counts as one that refuses.
 */
bool plait_weigh_device(const plait_context *context, const plait_graph *graph, uint32_t n,
                        const plait_op_use *use, const plait_plan *bound, int d, char *reason,
                        size_t reason_bytes, uint16_t *out_copies) {
    plait_encoding encodings[PLAIT_MAX_INPUTS] = {0};
    if (out_copies) *out_copies = 0;
    if (bound && !find_encodings(bound, &graph->nodes[n], d, encodings)) {
        snprintf(reason, reason_bytes, "its weights are not there");
        return false;
    }
    if (supports(context, use, bound ? encodings : NULL, d, reason, reason_bytes)) return true;
    if (!out_copies) return false;
    *out_copies = find_copies(context, graph, n, use, bound ? encodings : NULL, d);
    return *out_copies != 0;
}

/* ---- nodes ---- */

/* The values of all named dims in a step of one item. A dim whose bound is 0 stays 0. */
static plait_status ones(plait_weighed *w, int64_t **out) {
    int64_t *values = plait_arena_alloc(&w->arena, w->graph->n_dims, sizeof *values);
    if (!values) return plait_error_memory("weighing", w->graph->n_dims);
    for (size_t d = 0; d < w->graph->n_dims; d++) values[d] = w->graph->dims[d].bound > 0;
    *out = values;
    return PLAIT_OK;
}

/* Shapes tell of attention only how many keys there can be. Where nobody says how many a query usually sees, a cache that
 * is a quarter full is taken for the usual one where devices are compared; predictions are for a full one. */
static const double USUAL_KEYS = 0.25;

/* Of making an operand dense for a device: there, or where that costs least with the ways there and back. INFINITY
 * when nobody copies, which may_copy() has excluded. The dense bytes are charged both ways: it is not known here
 * where the operand's maker will be. */
static double time_of_copy(const plait_weighed *w, const plait_context *context, const plait_operand *operand,
                           int device) {
    plait_op_use copy;
    plait_weigh_copy_use(operand, &copy);
    uint64_t copiers = plait_weigh_copiers(context, &copy);
    double least = INFINITY, bytes = (double)plait_operand_span_bytes(&copy.outputs[0]);
    for (int d = 0; d < w->n_devices; d++) {
        if (!(copiers >> d & 1u)) continue;
        double ns = plait_weigh_copy_ns(w->cost, &copy, d) + plait_weigh_move(w, device, d, bytes) +
                    plait_weigh_move(w, d, device, bytes);
        if (ns < least) least = ns;
    }
    return least;
}

/* Attention with as many keys as expected; what it takes besides stays. */
static void weigh_usual(plait_weighed *w, uint32_t n, const int64_t *one, plait_op_use *use) {
    double all = w->steps.single + w->steps.full;
    size_t first = (size_t)n * (size_t)w->n_devices;
    for (int d = 0; d < w->n_devices; d++) w->ns[first + (size_t)d] = 0;
    for (int which = 0; which < 2; which++) {
        const float *ns = (which ? w->full_ns : w->single_ns) + first;
        double share = (which ? w->steps.full : w->steps.single) / all;
        plait_work most, usual;
        plait_cost_work(w->cost, w->graph, n, which ? NULL : one, use, &most);
        plait_cost_work_keys(w->cost, w->graph, n, which ? NULL : one, w->steps.keys, use, &usual);
        for (int d = 0; d < w->n_devices; d++)
            if (w->runs[n] >> d & 1u)
                w->ns[first + (size_t)d] +=
                    (float)(share * ((double)ns[d] + plait_cost_time(w->cost, d, &usual) -
                                     plait_cost_time(w->cost, d, &most)));
    }
}

/* Time on each device that runs the node. Twice: with every dim at 1 and at its bound, as a model answers and as it
 * reads a prompt. Where the device needs copies their time is in the node's, so that all later comparisons are fair
 * without knowing of copies.
 *
 * `ns` is the mean over the expected steps. Of attention it is what the usual number of keys takes: a cache is as
 * long as the longest text, and by its bounds attention would outweigh everything in comparisons that are about
 * ordinary use. */
static void weigh_node(plait_weighed *w, const plait_context *context, uint32_t n, const int64_t *one,
                       plait_op_use *use) {
    double all = w->steps.single + w->steps.full;
    const uint16_t *copies = &w->copies[(size_t)n * (size_t)w->n_devices];
    plait_work work;
    for (int which = 0; which < 2; which++) {
        float *ns = &(which ? w->full_ns : w->single_ns)[(size_t)n * (size_t)w->n_devices];
        plait_cost_work(w->cost, w->graph, n, which ? NULL : one, use, &work);
        for (int d = 0; d < w->n_devices; d++) {
            if (!(w->runs[n] >> d & 1u)) continue;
            ns[d] = (float)plait_cost_time(w->cost, d, &work);
            for (int i = 0; copies[d] >> i; i++)
                if (copies[d] >> i & 1u) ns[d] += (float)time_of_copy(w, context, &use->inputs[i], d);
        }
    }
    if (work.kind == PLAIT_COST_ATTENTION && w->steps.keys > 0) {
        weigh_usual(w, n, one, use);
        return;
    }
    double usual = work.kind == PLAIT_COST_ATTENTION ? USUAL_KEYS : 1;
    for (size_t k = (size_t)n * (size_t)w->n_devices; k < ((size_t)n + 1) * (size_t)w->n_devices; k++) {
        double sum = w->steps.single * (double)w->single_ns[k] + w->steps.full * (double)w->full_ns[k];
        w->ns[k] = (float)(usual * sum / all);
    }
}

/* The reason is kept also where the device runs the node with copies: the plan shows why there is one. */
static plait_status ask_devices(plait_weighed *w, uint32_t n, const plait_context *context,
                                const plait_plan *bound, const plait_op_use *use, reasons *r) {
    for (int d = 0; d < w->n_devices; d++) {
        char reason[REASON_BYTES];
        const char **why = &w->why[(size_t)n * (size_t)w->n_devices + (size_t)d];
        *why = "";
        uint16_t *copies = &w->copies[(size_t)n * (size_t)w->n_devices + (size_t)d];
        bool runs = plait_weigh_device(context, w->graph, n, use, bound, d, reason, sizeof reason, copies);
        if (runs) w->runs[n] |= (uint64_t)1 << d;
        if (!runs || *copies) PLAIT_TRY(keep_reason(r, reason, why));
    }
    return PLAIT_OK;
}

/* What was found for an earlier node that is the same use. Everything that belongs to a device in a step is by node,
 * so equal uses are copied rather than shared: a table of uses would break when weights of one use lie in different
 * forms (plait_weigh_alike). */
static void copy_weighed(plait_weighed *w, uint32_t from, uint32_t to) {
    size_t n = (size_t)w->n_devices, a = (size_t)from * n, b = (size_t)to * n;
    w->runs[to] = w->runs[from];
    memcpy(w->ns + b, w->ns + a, n * sizeof *w->ns);
    memcpy(w->single_ns + b, w->single_ns + a, n * sizeof *w->single_ns);
    memcpy(w->full_ns + b, w->full_ns + a, n * sizeof *w->full_ns);
    memcpy(w->why + b, w->why + a, n * sizeof *w->why);
    memcpy(w->copies + b, w->copies + a, n * sizeof *w->copies);
}

/* A node that is the same use as an earlier one, with weights in the same forms, has the earlier one's answers. Reasons
 * are kept for all nodes together. */
static plait_status weigh_nodes(plait_weighed *w, const plait_context *context, const plait_plan *bound) {
    plait_op_use use;
    int64_t *one = NULL;
    reasons r = {.arena = &w->arena};
    plait_map_init(&r.known);
    plait_status status = ones(w, &one);
    for (uint32_t n = 0; status == PLAIT_OK && n < w->graph->n_nodes; n++) {
        uint32_t first = w->graph->use_nodes[w->graph->use_of[n]];
        if (first < n && plait_weigh_alike(context, w->graph, first, n, bound)) {
            copy_weighed(w, first, n);
            continue;
        }
        plait_graph_use(w->graph, n, NULL, &use);
        status = ask_devices(w, n, context, bound, &use, &r);
        if (status == PLAIT_OK) weigh_node(w, context, n, one, &use);
    }
    plait_map_deinit(&r.known);
    free(r.texts);
    return status;
}

/* ---- values ---- */

/* From the first element to the last, at a value of the tensor's bounded dim; other dims never depend on it. */
static double bytes_at(const plait_graph_tensor *tensor, int64_t dim_value) {
    plait_operand operand = tensor->shape;
    const plait_extent *e = &tensor->outer;
    if (e->dim >= 0) operand.dims[e->axis] = (e->a * dim_value + e->b) / e->c;
    return (double)plait_operand_span_bytes(&operand);
}

/* Not by the views that are read: what moves is told exactly only when segments are cut, here one number for each
 * storage has to do. */
double plait_weigh_storage(const plait_graph *graph, uint32_t storage, plait_expected_steps steps) {
    const plait_graph_tensor *root = &graph->tensors[graph->storages[storage].root];
    double all = steps.single + steps.full, full = (double)graph->storages[storage].size_bytes;
    if (root->outer.dim < 0 || steps.single <= 0) return full;
    int64_t one = graph->dims[root->outer.dim].bound > 0;
    return (steps.single * bytes_at(root, one) + steps.full * full) / all;
}

/* Every output has a value, also one that is written in place: who reads it then gets the state's bytes, and
 * placement has to see what it costs to carry them. */
static plait_status weigh_values(plait_weighed *w) {
    const plait_graph *graph = w->graph;
    uint32_t n_values = 0;
    for (uint32_t n = 0; n < graph->n_nodes; n++) {
        w->first_value[n] = n_values;
        n_values += (uint32_t)graph->nodes[n].n_outputs;
    }
    w->first_value[graph->n_nodes] = n_values;
    w->bytes = plait_arena_alloc(&w->arena, n_values, sizeof *w->bytes);
    if (!w->bytes) return plait_error_memory("weighing", n_values);
    for (uint32_t n = 0; n < graph->n_nodes; n++)
        for (int o = 0; o < graph->nodes[n].n_outputs; o++)
            w->bytes[w->first_value[n] + (uint32_t)o] = (float)plait_weigh_storage(
                graph, graph->tensors[graph->nodes[n].outputs[o]].storage, w->steps);
    return PLAIT_OK;
}

/* ---- points ---- */

/* A cut behind node n is a point when at most one value that was made before it is read after it. Counted in one
 * pass, as a sum of births less deaths: a value lives from its node to its last reader, one that nobody reads dies at
 * once. Weights, inputs and state do not count: they are no activation that crosses. Time in the number of operands. */
plait_status plait_weigh_points(const plait_weighed *w, uint32_t *unit, uint32_t *out_n) {
    const plait_graph *graph = w->graph;
    size_t n_nodes = graph->n_nodes, n_values = w->first_value[n_nodes];
    int32_t *change = plait_alloc_array(n_nodes + 1, sizeof *change);
    uint32_t *last = plait_alloc_array(n_values, sizeof *last);
    if (!change || !last) {
        free(change);
        free(last);
        return plait_error_memory("weighing", n_nodes);
    }
    for (uint32_t n = 0; n < n_nodes; n++) {
        for (int i = 0; i < graph->nodes[n].n_inputs; i++) {
            uint32_t tensor = graph->nodes[n].inputs[i];
            uint32_t value = tensor ? plait_weighed_value(w, tensor) : UINT32_MAX;
            if (value != UINT32_MAX) last[value] = n;
        }
        /* What nobody reads dies where it is born. */
        for (uint32_t v = w->first_value[n]; v < w->first_value[n + 1]; v++) last[v] = n;
    }
    for (uint32_t n = 0; n < n_nodes; n++)
        for (uint32_t v = w->first_value[n]; v < w->first_value[n + 1]; v++) change[n]++, change[last[v]]--;
    int32_t alive = 0;
    *out_n = n_nodes > 0;
    for (uint32_t n = 0; n < n_nodes; n++) {
        unit[n] = *out_n - 1;
        /* Alive behind node n: what is still to be read. One at most means that a single value carries everything on.
         */
        alive += change[n];
        if (alive <= 1 && n + 1 < n_nodes) ++*out_n;
    }
    free(change);
    free(last);
    return PLAIT_OK;
}

/* ---- all ---- */

/* By node first, then by device: all that one decision compares lies side by side. */
static plait_status weigh(plait_weighed *w, const plait_context *context, const plait_plan *bound) {
    size_t n = w->graph->n_nodes, n_all = n * (size_t)w->n_devices;
    w->runs = plait_arena_alloc(&w->arena, n, sizeof *w->runs);
    w->ns = plait_arena_alloc(&w->arena, n_all, sizeof *w->ns);
    w->single_ns = plait_arena_alloc(&w->arena, n_all, sizeof *w->single_ns);
    w->full_ns = plait_arena_alloc(&w->arena, n_all, sizeof *w->full_ns);
    w->why = plait_arena_alloc(&w->arena, n_all, sizeof *w->why);
    w->copies = plait_arena_alloc(&w->arena, n_all, sizeof *w->copies);
    w->first_value = plait_arena_alloc(&w->arena, n + 1, sizeof *w->first_value);
    if (!w->runs || !w->copies || !w->ns || !w->single_ns || !w->full_ns || !w->why || !w->first_value)
        return plait_error_memory("weighing", n_all);
    PLAIT_TRY(weigh_nodes(w, context, bound));
    return weigh_values(w);
}

/* Expected steps that are both 0 mean that it hardly ever runs: then one step at the bounds, so that no mean is
 * divided by 0. */
plait_status plait_weigh(plait_weighed *out, const plait_graph *graph, const plait_context *context,
                         const plait_cost *cost, plait_expected_steps steps, const plait_plan *bound) {
    *out = (plait_weighed){.graph = graph, .cost = cost, .n_devices = context->n_devices, .steps = steps};
    if (steps.single <= 0 && steps.full <= 0) out->steps.full = 1;
    plait_arena_init(&out->arena, 0);
    plait_status status = weigh(out, context, bound);
    if (status != PLAIT_OK) plait_weighed_deinit(out);
    return status;
}

void plait_weighed_deinit(plait_weighed *weighed) {
    plait_arena_deinit(&weighed->arena);
    *weighed = (plait_weighed){0};
}
