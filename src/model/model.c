/* The two ends of opening a model: file, architecture, hyperparameters; then, with an engine that fits, loading. What
 * lies between, the choice of context, batch, types and split, is the room fit's.
 *
 * Invariant: memory for weights and cache is taken only after plans were compared with what is free; a failure at any point
 * frees everything. */
#include "model/model.h"

#include "base/alloc.h"
#include "base/log.h"
#include "base/os.h"
#include "base/size.h"
#include "base/strbuf.h"
#include "device/context.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_SEQUENCES = 4096, MOST_BATCH = 65536 };

const char *plait_model_architecture(size_t index) {
    const plait_arch *arch = plait_arch_at(index);
    return arch ? arch->name : NULL;
}

/* ---- options ---- */

/* Limits of options, with the option's name in the message. */
static plait_status check_count(const char *what, int64_t value, int64_t low, int64_t high) {
    if (value >= low && value <= high) return PLAIT_OK;
    return plait_error(PLAIT_INVALID_ARGUMENT, "%s: %lld, expected %lld to %lld", what, (long long)value,
                       (long long)low, (long long)high);
}

/* A row of a cache is a head: whole blocks, or a row would share bytes with the next. */
static plait_status check_kv_type(const char *which, plait_dtype type, int64_t dim) {
    bool can = type == PLAIT_F32 || type == PLAIT_F16 || type == PLAIT_BF16 || plait_dtype_quantised(type);
    if (can && dim % plait_dtype_block_elems(type) == 0) return PLAIT_OK;
    return plait_error(PLAIT_UNSUPPORTED,
                       "cache of %s in %s: heads of %lld elements are no whole number of its blocks", which,
                       plait_dtype_name(type), (long long)dim);
}

/* A batch or context of 0 stays 0: that is what is left open for fit to choose. */
static plait_status fill_options(plait_model *model, const plait_model_options *given) {
    plait_model_options *o = &model->options;
    /* A copy of the struct: arrays in it stay the caller's, and are used while the model is being opened. */
    if (given) *o = *given;
    if (!o->kv_given) o->k_type = o->v_type = PLAIT_F16;
    if (o->sequences == 0) o->sequences = 1;
    PLAIT_TRY(check_count("batch", o->batch, 0, MOST_BATCH));
    PLAIT_TRY(check_count("sequences", o->sequences, 1, MOST_SEQUENCES));
    PLAIT_TRY(check_count("context", o->context, 0, INT32_MAX));
    PLAIT_TRY(check_kv_type("keys", o->k_type, model->hp.k_dim));
    PLAIT_TRY(check_kv_type("values", o->v_type, model->hp.v_dim));
    model->n_best = plait_min_i64(PLAIT_MODEL_BEST, model->hp.n_vocab);
    return PLAIT_OK;
}

/* ---- what was chosen ---- */

/* What each of several devices got, and what it was asked to take. */
static plait_status say_shares(const plait_model *model) {
    plait_strbuf line;
    int n = plait_context_device_count(model->context);
    plait_strbuf_init(&line, 0);
    plait_status status = PLAIT_OK;
    for (int d = 0; n > 1 && status == PLAIT_OK && d < n; d++) {
        uint64_t private_bytes, mapped_bytes, state_bytes;
        double asked, held;
        int n_blocks;
        plait_residence_bytes(model->engine.residence, d, &private_bytes, &mapped_bytes, &state_bytes);
        plait_residence_shares(model->engine.residence, d, &asked, &held, &n_blocks);
        plait_strbuf_clear(&line);
        plait_strbuf_printf(&line, "%s: %d of %lld layers, weights ",
                            plait_context_device(model->context, d)->name, n_blocks,
                            (long long)model->hp.n_layers);
        plait_strbuf_bytes(&line, private_bytes + mapped_bytes);
        plait_strbuf_append(&line, ", cache ");
        plait_strbuf_bytes(&line, state_bytes);
        plait_strbuf_printf(&line, ": %.1f%% of all", 100 * held);
        if (asked >= 0) plait_strbuf_printf(&line, ", asked %.1f%%", 100 * asked);
        plait_log(plait_context_logger(model->context), PLAIT_LOG_INFO, "%s", plait_strbuf_text(&line));
        status = plait_strbuf_status(&line);
    }
    plait_strbuf_deinit(&line);
    return status;
}

/* Mapped weights need not fit into memory, the system reads them again; but then each token costs reading the file. */
static void say_what_fits(const plait_model *model) {
    const plait_logger *logger = plait_context_logger(model->context);
    if (model->engine.mapped_bytes > plait_os_memory_available())
        plait_log(
            logger, PLAIT_LOG_WARNING,
            "the mapped weights (%llu MiB) exceed free memory: they will be read from disk again and again",
            (unsigned long long)(model->engine.mapped_bytes >> 20));
}

/* ---- loading ---- */

/* The operand as the file has it; residence compares it with what the graphs expect. */
static plait_status find_weight(void *user, const char *name, plait_operand *out_operand, bool *out_lasting) {
    const plait_model *model = user;
    const plait_gguf_tensor *tensor;
    PLAIT_TRY(plait_gguf_get_tensor(model->gguf, name, &tensor));
    /* The bytes are only read; operands have one kind of pointer. */
    plait_operand operand = {.dtype = tensor->dtype, .data = (void *)(uintptr_t)tensor->bytes};
    memcpy(operand.dims, tensor->dims, sizeof operand.dims);
    if (!plait_operand_make_dense(&operand))
        return plait_error(PLAIT_CORRUPT, "tensor %s: its size overflows", name);
    *out_operand = operand;
    *out_lasting = true; /* the model retains the file */
    return PLAIT_OK;
}

/* The weight has been packed elsewhere: its pages need not stay in memory. */
static void release_weight(void *user, const char *name) {
    const plait_model *model = user;
    const plait_gguf_tensor *tensor = plait_gguf_find_tensor(model->gguf, name);
    if (tensor) plait_gguf_forget_pages(model->gguf, tensor);
}

/* The message lists what is known, at most 60 bytes of what was found. */
static plait_status find_architecture(plait_model *model) {
    plait_gguf_string name;
    PLAIT_TRY(plait_gguf_get_string(model->gguf, "general.architecture", &name));
    model->arch = plait_arch_find(name.bytes, name.length);
    if (model->arch) return PLAIT_OK;
    plait_strbuf known;
    plait_strbuf_init(&known, 0);
    for (size_t i = 0; plait_model_architecture(i); i++)
        plait_strbuf_printf(&known, " %s", plait_model_architecture(i));
    plait_status status = plait_strbuf_status(&known);
    if (status == PLAIT_OK)
        status = plait_error(PLAIT_UNSUPPORTED, "%s: architecture \"%.*s\" is not known; known are:%s",
                             plait_gguf_path(model->gguf), (int)(name.length < 60 ? name.length : 60),
                             name.bytes, plait_strbuf_text(&known));
    plait_strbuf_deinit(&known);
    return status;
}

/* A file whose tokenizer cannot be used still runs on token ids; want of memory is no property of the file. */
static plait_status open_tokenizer(plait_model *model) {
    plait_status status = plait_tokenizer_create(&model->tokenizer, model->gguf, NULL);
    if (status != PLAIT_OK) plait_error_save(status, &model->tokenizer_failure);
    return status == PLAIT_OUT_OF_MEMORY ? status : PLAIT_OK;
}

/* In the order in which things depend on each other; no byte of a tensor is read. */
static plait_status read_model(plait_model *model, const char *path, const plait_model_options *options) {
    plait_gguf_options how = {.read_into_memory = options && options->no_mmap};
    PLAIT_TRY(plait_gguf_open(&model->gguf, path, &how));
    PLAIT_TRY(find_architecture(model));
    PLAIT_TRY(plait_hparams_read(&model->hp, model->gguf, model->arch, &model->arena));
    return fill_options(model, options);
}

/* The parts of a model that failed half way are freed by release. */
plait_status plait_model_create(plait_model **out, plait_context *context, const char *path,
                                const plait_model_options *options) {
    plait_model *model = plait_alloc_array(1, sizeof *model);
    if (!model) return plait_error_memory("model", sizeof *model);
    atomic_init(&model->references, 1);
    model->context = context;
    plait_arena_init(&model->arena, 0);
    plait_status status = read_model(model, path, options);
    if (status != PLAIT_OK) {
        plait_model_release(model);
        return status;
    }
    *out = model;
    return PLAIT_OK;
}

/* A device that refuses what it had accepted is not asked again; then everything is planned anew without it. Ends,
 * because each round denies an op more, and there are finitely many. */
static plait_status complete(plait_model *model) {
    for (;;) {
        /* Something was denied if the number has grown: a failure without that is one. */
        uint32_t n_denied = model->context->n_denied;
        int64_t context = model->engine.context;
        plait_status status = plait_engine_complete(model, &model->engine);
        if (status == PLAIT_OK || model->context->n_denied == n_denied) return status;
        plait_engine_destroy(&model->engine);
        PLAIT_TRY(plait_engine_build(model, context, &model->engine));
    }
}

/* A dry model has a tokenizer, so that what it plans can be tried with text, and nothing on the devices. What was
 * chosen is said before loading, which may take long. */
plait_status plait_model_finish(plait_model *model, plait_engine *engine) {
    model->engine = *engine;
    *engine = (plait_engine){0};
    PLAIT_TRY(open_tokenizer(model));
    if (model->options.dry) return PLAIT_OK;
    /* A device may still refuse something here; weights come last, as they take longest. */
    PLAIT_TRY(complete(model));
    say_what_fits(model);
    PLAIT_TRY(say_shares(model));
    plait_weight_source source = {.find = find_weight, .release = release_weight, .user = model};
    return plait_error_context(plait_residence_load(model->engine.residence, &source), "%s",
                               plait_gguf_path(model->gguf));
}

plait_model *plait_model_retain(plait_model *model) {
    atomic_fetch_add(&model->references, 1);
    return model;
}

/* Sessions hold references, so no run is left. */
void plait_model_release(plait_model *model) {
    if (!model || atomic_fetch_sub(&model->references, 1) > 1) return;
    plait_engine_destroy(&model->engine);
    plait_tokenizer_destroy(model->tokenizer);
    plait_gguf_release(model->gguf);
    plait_arena_deinit(&model->arena);
    free(model->flags);
    free(model);
}

/* ---- facts ---- */

/* All tensors of the file, used or not. */
static int64_t count_parameters(const plait_gguf *gguf) {
    int64_t n = 0;
    for (size_t i = 0; i < plait_gguf_tensor_count(gguf); i++) n += plait_gguf_tensor_at(gguf, i)->n_elems;
    return n;
}

/* Of numbers that differ by layer the first layer's. */
void plait_model_describe(const plait_model *model, plait_model_facts *out) {
    const plait_hparams *hp = &model->hp;
    const plait_engine *e = &model->engine;
    plait_model_facts facts = {.n_vocab = hp->n_vocab,
                               .n_embd = hp->n_embd,
                               .n_layers = hp->n_layers,
                               .n_heads = hp->n_heads[0],
                               .n_kv_heads = hp->n_kv_heads[0],
                               .head_dim = hp->k_dim,
                               .n_ff = hp->n_ff[0],
                               .context_trained = hp->context_trained,
                               .context = e->context,
                               .batch = model->options.batch,
                               .sequences = model->options.sequences,
                               .page_len = PLAIT_MODEL_PAGE_LEN,
                               .n_outputs = plait_min_i64(PLAIT_MODEL_TAIL_OUTPUTS, model->options.batch),
                               .tied_output = !plait_gguf_find_tensor(model->gguf, "output.weight"),
                               .has_window = hp->window > 0,
                               .weight_private_bytes = e->private_bytes,
                               .weight_mapped_bytes = e->mapped_bytes,
                               .state_bytes = e->state_bytes,
                               .temporary_bytes = e->temporary_bytes,
                               .n_parameters = count_parameters(model->gguf)};
    strncpy(facts.architecture, model->arch->name, sizeof facts.architecture - 1);
    *out = facts;
}

const plait_gguf *plait_model_gguf(const plait_model *model) {
    return model->gguf;
}

const plait_tokenizer *plait_model_tokenizer(const plait_model *model) {
    return model->tokenizer;
}

/* The reason was kept when the model was opened, as most uses do not need one. */
plait_status plait_model_need_tokenizer(const plait_model *model, const plait_tokenizer **out) {
    if (!model->tokenizer) return plait_error_raise(&model->tokenizer_failure);
    *out = model->tokenizer;
    return PLAIT_OK;
}

const char *plait_model_flags(const plait_model *model) {
    return model->flags ? model->flags : "";
}

const plait_plan *plait_model_plan(const plait_model *model) {
    return model->engine.layers_plan;
}

const plait_plan *plait_model_tail_plan(const plait_model *model, int kind) {
    return kind >= 0 && kind < PLAIT_TAIL_COUNT ? model->engine.tail_plans[kind] : NULL;
}
