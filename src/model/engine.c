/* The graphs of a model for one length of context, their residence, and the plans. Nothing is loaded here, so a
 * length that does not fit costs milliseconds.
 *
 * Graphs: the layers (tokens in, hidden state of wanted rows into the state "hidden"), the tails (rows of "hidden" to
 * argmax, best, logits, or as they are) and the page copies (copy-on-write of shared cache pages).
 *
 * Invariant: all graphs name weights and state alike, so one residence serves them. */
#include "model/model.h"

#include "base/alloc.h"
#include "base/size.h"
#include "device/context.h"
#include "plan/explain.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- cache groups ---- */

/* Layers that keep the same positions share pages and their tables: one group of full layers, one of windowed ones. A
 * full group has pages for the whole context of every sequence. Models that have both have the full group first,
 * windowed layers ask for the last (builder.c). */
static void plan_groups(const plait_model *model, int64_t context, plait_engine *engine) {
    const plait_hparams *hp = &model->hp;
    int64_t len = PLAIT_MODEL_PAGE_LEN, sequences = model->options.sequences;
    int64_t whole = (context + len - 1) / len;
    bool full = false, local = false;
    for (int64_t il = 0; il < hp->n_layers; il++) *(hp->is_local[il] ? &local : &full) = true;
    engine->n_groups = 0;
    if (full || !local)
        engine->groups[engine->n_groups++] =
            (plait_cache_group){.n_pages = whole * sequences, .max_list = whole};
    if (local) {
        /* What a step can see and write: the window, the batch, and a page cut at each end. */
        int64_t seen = (hp->window + model->options.batch + len - 1) / len + 2;
        engine->groups[engine->n_groups++] = (plait_cache_group){
            .window = hp->window, .n_pages = plait_min_i64(seen, whole) * sequences, .max_list = whole};
    }
    for (int g = 0; g < engine->n_groups; g++) {
        snprintf(engine->groups[g].slots_name, sizeof engine->groups[g].slots_name, "slots.%d", g);
        snprintf(engine->groups[g].pages_name, sizeof engine->groups[g].pages_name, "pages.%d", g);
    }
}

/* ---- graphs ---- */

static plait_status new_graph(const char *name, plait_graph **out) {
    *out = plait_graph_create(&(plait_graph_options){.name = name});
    return *out ? PLAIT_OK : plait_error_memory("graph", 0);
}

/* Rows of the last step's wanted outputs. State rather than an output, so that the tails read it where it is, and only
 * the tail that is asked for runs. */
static plait_tensor hidden_state(const plait_model *model, plait_graph *graph) {
    return plait_state(graph, "hidden", PLAIT_F32, PLAIT_SHAPE(model->hp.n_embd, model->options.batch));
}

/* Where a message of the builder's stands, it is raised instead of the graph's: it names the tensor in the file. */
static plait_status build_layers(plait_model *model, plait_engine *engine) {
    PLAIT_TRY(new_graph("layers", &engine->layers));
    plait_graph *g = engine->layers;
    plait_builder b = {.graph = g,
                       .gguf = model->gguf,
                       .hp = &model->hp,
                       .arch = model->arch,
                       .page_len = PLAIT_MODEL_PAGE_LEN,
                       .k_type = model->options.k_type,
                       .v_type = model->options.v_type,
                       .n_groups = engine->n_groups};
    memcpy(b.groups, engine->groups, sizeof b.groups);
    b.tokens = plait_graph_dim(g, "tokens", model->options.batch);
    b.outputs = plait_graph_dim(g, "outputs", model->options.batch);
    b.sequences = plait_graph_dim(g, "sequences", model->options.sequences);
    b.ids = plait_input(g, "ids", PLAIT_I32, PLAIT_SHAPE(b.tokens));
    b.positions = plait_input(g, "positions", PLAIT_I32, PLAIT_SHAPE(b.tokens));
    b.sequence_of = plait_input(g, "sequence_of", PLAIT_I32, PLAIT_SHAPE(b.tokens));
    b.output_rows = plait_input(g, "output_rows", PLAIT_I32, PLAIT_SHAPE(b.outputs));
    /* A slot for each token of the step, and for each sequence the pages of its whole length. */
    for (int i = 0; i < b.n_groups; i++) {
        b.groups[i].slots = plait_input(g, b.groups[i].slots_name, PLAIT_I32, PLAIT_SHAPE(b.tokens));
        b.groups[i].pages =
            plait_input(g, b.groups[i].pages_name, PLAIT_I32, PLAIT_SHAPE(b.groups[i].max_list, b.sequences));
    }
    plait_tensor hidden = model->arch->layers(&b);
    plait_tensor slots = plait_input(g, "hidden_slots", PLAIT_I32, PLAIT_SHAPE(b.outputs));
    plait_kv_write(g, hidden_state(model, g),
                   plait_reshape(g, hidden, PLAIT_SHAPE(model->hp.n_embd, 1, b.outputs)), slots);
    if (b.status != PLAIT_OK) return plait_error(b.status, "%s", b.error);
    return plait_graph_seal(g);
}

/* Models without an output matrix use the embedding for it. */
static plait_tensor output_logits(plait_model *model, plait_graph *g, plait_tensor x) {
    const plait_hparams *hp = &model->hp;
    plait_builder b = {.graph = g, .gguf = model->gguf, .hp = hp};
    plait_tensor w = plait_builder_optional(&b, -1, "output.weight", hp->n_embd, hp->n_vocab);
    if (!w.id && b.status == PLAIT_OK)
        w = plait_builder_weight(&b, -1, "token_embd.weight", hp->n_embd, hp->n_vocab);
    plait_tensor y = plait_named(g, "output", plait_matmul(g, w, x));
    if (hp->output_scale != 1) y = plait_scale(g, y, hp->output_scale);
    const plait_attr_value cap[] = {PLAIT_FLOAT("cap", hp->output_softcap)};
    return hp->output_softcap != 0 ? plait_apply(g, PLAIT_OP_softcap, &y, 1, cap, 1, NULL, 1) : y;
}

/* A misshapen output matrix is found while building the layers' tails: the builder's message is lost there, so it is
 * checked first. */
static plait_status check_output(const plait_model *model) {
    const plait_gguf_tensor *w = plait_gguf_find_tensor(model->gguf, "output.weight");
    const int64_t expected[PLAIT_MAX_RANK] = {model->hp.n_embd, model->hp.n_vocab, 1, 1};
    if (!w || memcmp(w->dims, expected, sizeof expected) == 0) return PLAIT_OK;
    return plait_error(
        PLAIT_CORRUPT,
        "%s: tensor output.weight: expected shape [%lld, %lld], found [%lld, %lld, %lld, %lld]",
        plait_gguf_path(model->gguf), (long long)expected[0], (long long)expected[1], (long long)w->dims[0],
        (long long)w->dims[1], (long long)w->dims[2], (long long)w->dims[3]);
}

/* Bounded by fewer rows than a step has: logits of a whole batch would be the largest temporary of all. */
static plait_status build_tail(plait_model *model, plait_engine *engine, plait_tail tail) {
    static const char *const names[] = {"tail.argmax", "tail.best", "tail.logits", "tail.embedding"};
    int64_t most = plait_min_i64(PLAIT_MODEL_TAIL_OUTPUTS, model->options.batch);
    PLAIT_TRY(new_graph(names[tail], &engine->tails[tail]));
    plait_graph *g = engine->tails[tail];
    plait_dim outputs = plait_graph_dim(g, "outputs", most);
    plait_tensor rows = plait_input(g, "rows", PLAIT_I32, PLAIT_SHAPE(outputs));
    plait_tensor x = plait_get_rows(g, hidden_state(model, g), rows), values, ids;
    switch (tail) {
    case PLAIT_TAIL_ARGMAX: plait_output(g, "ids", plait_argmax(g, output_logits(model, g, x))); break;
    case PLAIT_TAIL_BEST:
        plait_top_k(g, output_logits(model, g, x), model->n_best, &values, &ids);
        plait_output(g, "values", values);
        plait_output(g, "ids", ids);
        break;
    case PLAIT_TAIL_LOGITS: plait_output(g, "logits", output_logits(model, g, x)); break;
    default: plait_output(g, "hidden", x); break;
    }
    return plait_graph_seal(g);
}

/* Copies of cache pages, for sequences that part: list entries are (from, to). Every layer's caches are declared as the
 * layers' graph declares them, or residence would refuse the name. A sequence copies one page of a group in a step at
 * most: the one that it writes next. */
static plait_status build_copies(plait_model *model, plait_engine *engine) {
    const plait_hparams *hp = &model->hp;
    plait_tensor lists[PLAIT_MODEL_MAX_GROUPS];
    PLAIT_TRY(new_graph("copies", &engine->copies));
    plait_graph *g = engine->copies;
    for (int i = 0; i < engine->n_groups; i++) {
        char name[32];
        snprintf(name, sizeof name, "copies.%d", i);
        plait_dim n = plait_graph_dim(g, name, model->options.sequences);
        lists[i] = plait_input(g, name, PLAIT_I32, PLAIT_SHAPE(2, n));
    }
    for (int64_t il = 0; il < hp->n_layers; il++) {
        plait_graph_block(g, (int)il);
        for (int which = 0; which < 2; which++) {
            /* The groups as plan_groups() has made them. */
            int group = hp->is_local[il] ? engine->n_groups - 1 : 0;
            char name[PLAIT_MAX_NAME];
            snprintf(name, sizeof name, "cache.%lld.%s", (long long)il, which ? "v" : "k");
            plait_tensor inputs[2] = {
                plait_state(g, name, which ? model->options.v_type : model->options.k_type,
                            PLAIT_SHAPE(which ? hp->v_dim : hp->k_dim, PLAIT_MODEL_PAGE_LEN,
                                        hp->n_kv_heads[il], engine->groups[group].n_pages)),
                lists[group]};
            plait_apply(g, PLAIT_OP_page_copy, inputs, 2, NULL, 0, NULL, 1);
        }
    }
    return plait_graph_seal(g);
}

/* ---- plans ---- */

/* Graphs in one order for everybody, and how often each runs in a typical use: a prompt in as few steps as the batch
 * allows, then answers token by token, of which the best is taken; caches hold the prompt. */
enum {
    GRAPH_LAYERS,
    GRAPH_COPIES,
    GRAPH_TAILS,
    N_GRAPHS = GRAPH_TAILS + PLAIT_TAIL_COUNT,
    PROMPT = 512,
    ANSWER = 64
};

/* Order matters: residence weighs graphs in it, and steps_of() counts by it. */
static const plait_graph *graph_at(const plait_engine *engine, int g) {
    if (g == GRAPH_LAYERS) return engine->layers;
    return g == GRAPH_COPIES ? engine->copies : engine->tails[g - GRAPH_TAILS];
}

static plait_plan **place_of(plait_engine *engine, int g) {
    if (g == GRAPH_LAYERS) return &engine->layers_plan;
    return g == GRAPH_COPIES ? &engine->copies_plan : &engine->tail_plans[g - GRAPH_TAILS];
}

static plait_plan *plan_at(const plait_engine *engine, int g) {
    if (g == GRAPH_LAYERS) return engine->layers_plan;
    return g == GRAPH_COPIES ? engine->copies_plan : engine->tail_plans[g - GRAPH_TAILS];
}

/* What weighs in decisions are the layers and the greedy tail; other tails and copies are placed, but do not pull
 * residence anywhere. */
static plait_expected_steps steps_of(const plait_model *model, int g) {
    int64_t batch = model->options.batch;
    if (g == GRAPH_LAYERS)
        return (plait_expected_steps){
            .single = ANSWER, .full = (double)((PROMPT + batch - 1) / batch), .keys = PROMPT};
    return g == GRAPH_TAILS + PLAIT_TAIL_ARGMAX ? (plait_expected_steps){.single = ANSWER}
                                                : (plait_expected_steps){0};
}

/* Budgets and reserve are set while fit is trying settings; else the residence asks the devices. */
static plait_status make_residence(const plait_model *model, plait_engine *engine) {
    const plait_graph *graphs[N_GRAPHS];
    plait_expected_steps steps[N_GRAPHS];
    for (int g = 0; g < N_GRAPHS; g++) graphs[g] = graph_at(engine, g), steps[g] = steps_of(model, g);
    plait_residence_options options = {.pins = model->options.pins,
                                       .n_pins = model->options.n_pins,
                                       .no_packing = model->options.no_packing,
                                       .split = model->options.split,
                                       .ratio = model->options.ratio,
                                       .budget_bytes = model->budget_bytes,
                                       .margin_bytes = model->options.margin_bytes,
                                       .reserve_bytes = engine->reserve_bytes,
                                       .steps = steps,
                                       .out_full = &engine->full};
    return plait_residence_create(&engine->residence, model->context, graphs, N_GRAPHS, &options);
}

/* Dry: what does not fit is thrown away, and programs of what fits are made once (plait_engine_complete). */
static plait_status make_plans(const plait_model *model, plait_engine *engine) {
    for (int g = 0; g < N_GRAPHS; g++) {
        plait_plan_options options = {.residence = engine->residence,
                                      .skip_verify = model->options.skip_verify,
                                      .dry = true,
                                      .exact = model->options.exact,
                                      .steps = steps_of(model, g)};
        PLAIT_TRY(plait_plan_make(place_of(engine, g), model->context, graph_at(engine, g), &options));
    }
    return PLAIT_OK;
}

/* Plans before the residence that they retain; the graphs stay, they depend on the settings only. */
static void release_plans(plait_engine *engine) {
    for (int g = 0; g < N_GRAPHS; g++) {
        plait_plan_release(plan_at(engine, g));
        *place_of(engine, g) = NULL;
    }
    plait_residence_release(engine->residence);
    engine->residence = NULL;
}

/* A buffer that is asked for even where nothing lies in it, as slots have one always. n: buffers of that size. */
static plait_status add_buffer(plait_device *device, uint64_t size_bytes, uint64_t n, uint64_t *sum) {
    uint64_t taken;
    PLAIT_TRY(device->vtable->allocation_bytes(device, size_bytes ? size_bytes : 1, PLAIT_BUFFER_TEMPORARY,
                                               &taken));
    if (!plait_mul_u64(taken, n, &taken) || !plait_add_u64(*sum, taken, sum))
        return plait_error(PLAIT_OUT_OF_RANGE, "temporaries on %s: sizes overflow", device->name);
    return PLAIT_OK;
}

/* What plans take of a device beside weights and state: the arena, which they share, and the inputs of every run, which
 * has as many places as steps may be in flight. Plans that run nothing on the device take nothing. Inputs add up, since
 * every run lives as long as the session does. */
static plait_status measure_device(plait_engine *engine, int d, uint64_t *out) {
    uint64_t arena = 0, inputs = 0;
    for (int g = 0; g < N_GRAPHS; g++) {
        const plait_plan *plan = plan_at(engine, g);
        plait_device *device = plan->context->devices[d].device;
        plait_plan_memory memory;
        if (plan->devices[d].n_positions == 0) continue;
        PLAIT_TRY(plait_plan_memory_on(plan, d, &memory));
        if (memory.temporary_bytes == 0) PLAIT_TRY(add_buffer(device, 1, 1, &memory.taken_bytes));
        if (memory.taken_bytes > arena) arena = memory.taken_bytes;
        if (memory.temporary_bytes > engine->temporary_bytes)
            engine->temporary_bytes = memory.temporary_bytes;
        uint64_t least = memory.temporary_bytes ? memory.temporary_bytes : 1;
        if (least > engine->arena_bytes[d]) engine->arena_bytes[d] = least;
        PLAIT_TRY(add_buffer(device, memory.input_bytes, (uint64_t)plan->depth, &inputs));
    }
    if (!plait_add_u64(arena, inputs, out))
        return plait_error(PLAIT_OUT_OF_RANGE, "temporaries: sizes overflow");
    return PLAIT_OK;
}

static plait_status measure_temporaries(plait_engine *engine, size_t n_devices, uint64_t *out) {
    engine->temporary_bytes = 0;
    memset(engine->arena_bytes, 0, n_devices * sizeof *engine->arena_bytes);
    for (size_t d = 0; d < n_devices; d++) PLAIT_TRY(measure_device(engine, (int)d, &out[d]));
    return PLAIT_OK;
}

/* Room for temporaries where residence did not leave enough: as much as they take, and where that was left and
 * something else did not fit (the padding of buffers), as much more as was lacking. It only ever grows. */
static void reserve_more(plait_engine *engine, int d, uint64_t temporary) {
    const plait_residence_device *row = &engine->residence->devices[d];
    uint64_t budget = engine->residence->budget_bytes[d], *reserve = &engine->reserve_bytes[d], need;
    if (!plait_add_u64(row->taken_bytes, temporary, &need)) return;
    if (temporary > *reserve)
        *reserve = temporary;
    else if (need > budget)
        *reserve += need - budget;
}

/* Residence is decided before plans tell how large temporaries are. Where they do not fit beside it, residence is
 * decided again with room kept for them; and again where that made others of them larger. Likewise where a device turns
 * out to refuse an op. What does not fit with one device does not fit with another residence either. `full` tells the
 * caller that memory was what lacked, not something that would fail anyway. */
static plait_status plan_within_memory(plait_model *model, plait_engine *engine) {
    enum { ATTEMPTS = 4 };
    size_t n = (size_t)plait_context_device_count(model->context);
    plait_status status = PLAIT_OK;
    for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
        uint32_t n_denied = model->context->n_denied;
        engine->full = false;
        status = make_residence(model, engine);
        if (status == PLAIT_OK) status = make_plans(model, engine);
        if (status != PLAIT_OK && model->context->n_denied > n_denied) {
            release_plans(
                engine); /* a device refused what weights were put there for; that happens once for each op */
            attempt--;
            continue;
        }
        if (status == PLAIT_OK) status = measure_temporaries(engine, n, engine->taken_bytes);
        if (status == PLAIT_OUT_OF_RANGE)
            engine->full = true; /* a buffer larger than any may be, or than numbers */
        if (status != PLAIT_OK) break;
        status = plait_residence_check(engine->residence, engine->taken_bytes, &engine->full);
        if (!engine->full || n == 1 || attempt + 1 == ATTEMPTS) break;
        for (size_t d = 0; d < n; d++) reserve_more(engine, (int)d, engine->taken_bytes[d]);
        release_plans(engine);
    }
    return status;
}

/* Sums over devices, for what a model says of itself. */
static void add_bytes(const plait_model *model, plait_engine *engine) {
    for (int d = 0; d < plait_context_device_count(model->context); d++) {
        uint64_t private_bytes, mapped_bytes, state_bytes;
        plait_residence_bytes(engine->residence, d, &private_bytes, &mapped_bytes, &state_bytes);
        engine->private_bytes += private_bytes;
        engine->mapped_bytes += mapped_bytes;
        engine->state_bytes += state_bytes;
    }
}

/* Everything stays in *engine, also on failure; the caller destroys it. reserve, arena and taken are thirds of one
 * allocation. */
plait_status plait_engine_build(plait_model *model, int64_t context, plait_engine *engine) {
    engine->context = context;
    plan_groups(model, context, engine);
    PLAIT_TRY(check_output(model));
    PLAIT_TRY(build_layers(model, engine));
    for (int t = 0; t < PLAIT_TAIL_COUNT; t++) PLAIT_TRY(build_tail(model, engine, (plait_tail)t));
    PLAIT_TRY(build_copies(model, engine));
    size_t n_devices = (size_t)plait_context_device_count(model->context);
    engine->reserve_bytes = plait_alloc_array(3 * n_devices, sizeof *engine->reserve_bytes);
    if (!engine->reserve_bytes) return plait_error_memory("plans", n_devices);
    if (model->reserve_bytes)
        memcpy(engine->reserve_bytes, model->reserve_bytes, n_devices * sizeof *engine->reserve_bytes);
    engine->arena_bytes = engine->reserve_bytes + n_devices;
    engine->taken_bytes = engine->reserve_bytes + 2 * n_devices;
    PLAIT_TRY(plan_within_memory(model, engine));
    add_bytes(model, engine);
    return PLAIT_OK;
}

plait_status plait_engine_prove(plait_engine *engine) {
    for (int g = 0; g < N_GRAPHS; g++) PLAIT_TRY(plait_plan_prove(plan_at(engine, g)));
    return PLAIT_OK;
}

/* The arenas come first, as large as the largest plan needs: one that grows takes the memory of two for a while. Nobody
 * may be running on the context's devices while arenas grow. */
plait_status plait_engine_complete(plait_model *model, plait_engine *engine) {
    for (int d = 0; d < plait_context_device_count(model->context); d++)
        PLAIT_TRY(plait_context_reserve_arena(model->context, d, engine->arena_bytes[d]));
    for (int g = 0; g < N_GRAPHS; g++) PLAIT_TRY(plait_plan_complete(plan_at(engine, g)));
    return PLAIT_OK;
}

plait_status plait_engine_time(const plait_engine *engine, double *out_ns) {
    double layers, tail;
    PLAIT_TRY(plait_forecast_use(engine->layers_plan, &layers));
    PLAIT_TRY(plait_forecast_use(engine->tail_plans[PLAIT_TAIL_ARGMAX], &tail));
    *out_ns = layers + tail;
    return PLAIT_OK;
}

/* By devices alone: causes and predicted times may differ, bytes that come out do not. */
bool plait_engine_same(const plait_engine *a, const plait_engine *b) {
    if (!plait_residence_same(a->residence, b->residence)) return false;
    for (int g = 0; g < N_GRAPHS; g++) {
        const plait_plan *x = plan_at(a, g), *y = plan_at(b, g);
        if (x->graph->n_nodes != y->graph->n_nodes) return false;
        for (size_t n = 0; n < x->graph->n_nodes; n++)
            if (x->placements[n].device != y->placements[n].device) return false;
    }
    return true;
}

/* Graphs go last: plans retain theirs, residence borrows names. */
void plait_engine_destroy(plait_engine *engine) {
    release_plans(engine);
    plait_graph_destroy(engine->layers);
    plait_graph_destroy(engine->copies);
    for (int t = 0; t < PLAIT_TAIL_COUNT; t++) plait_graph_destroy(engine->tails[t]);
    free(engine->reserve_bytes);
    *engine = (plait_engine){0};
}
