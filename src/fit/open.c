/* Opening a model with what fits: choose, say what was chosen, load. Not here: the choice (choose.c) and the loading
 * (model.c). Invariant: a ratio is written into the flags only where planning by it gives the same engine. */
#include "fit/fit.h"

#include "base/alloc.h"
#include "base/log.h"
#include "base/os.h"
#include "base/status.h"
#include "base/strbuf.h"

#include <stdlib.h>
#include <string.h>

/* ---- flags ---- */

/* 17 digits, so that the shares read back are the same numbers. */
static plait_status write_ratio(plait_strbuf *out, const double *ratio, int n) {
    plait_strbuf_append(out, " --ratio ");
    for (int d = 0; d < n; d++) plait_strbuf_printf(out, "%s%.17g", d ? "," : "", ratio[d]);
    return plait_strbuf_status(out);
}

/* Plans again by the shares. *out_same: that gives the same engine. The options are put back whatever comes of it. A
 * ratio that does not fit is no failure: it is not the one. */
static plait_status try_ratio(plait_model *model, const plait_engine *engine, const double *ratio,
                              bool *out_same) {
    plait_model_options kept = model->options;
    plait_engine again = {0};
    model->options.split = PLAIT_SPLIT_LAYER;
    model->options.ratio = ratio;
    plait_status status = plait_engine_build(model, engine->context, &again);
    *out_same = status == PLAIT_OK && plait_engine_same(engine, &again);
    if (status == PLAIT_OUT_OF_MEMORY && again.full) status = PLAIT_OK;
    plait_engine_destroy(&again);
    model->options = kept;
    return status;
}

/* Shares that lead to the split of the engine: numbers of layers where that is enough, else bytes. A ratio is believed
 * only when planning with it gives the same split: residence by shares and residence by cost are different questions.
 * `way` 0 is readable ("20,12"), 1 nearly always exact. */
static plait_status find_ratio(plait_model *model, const plait_engine *engine, double *ratio,
                               bool *out_found) {
    int n = plait_context_device_count(model->context);
    *out_found = false;
    for (int way = 0; way < 2 && !*out_found; way++) {
        double sum = 0;
        for (int d = 0; d < n; d++) {
            uint64_t private_bytes, mapped_bytes, state_bytes;
            double asked, held;
            int n_blocks;
            plait_residence_bytes(engine->residence, d, &private_bytes, &mapped_bytes, &state_bytes);
            plait_residence_shares(engine->residence, d, &asked, &held, &n_blocks);
            ratio[d] = way ? (double)(private_bytes + mapped_bytes + state_bytes) : n_blocks;
            sum += ratio[d];
        }
        if (sum > 0) PLAIT_TRY(try_ratio(model, engine, ratio, out_found));
    }
    return PLAIT_OK;
}

/* In single quotes where a shell would read signs of it for its own. A quote in a pattern ends the quoting, stands escaped,
 * and begins it again. */
static void write_pin(plait_strbuf *out, const char *pattern, const char *device) {
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.:/+-,@%";
    bool quoted = pattern[strspn(pattern, plain)] != '\0';
    plait_strbuf_append(out, quoted ? " --pin '" : " --pin ");
    for (const char *c = pattern; *c; c++)
        if (*c == '\'')
            plait_strbuf_append(out, "'\\''");
        else
            plait_strbuf_append_char(out, *c);
    plait_strbuf_printf(out, "=%s%s", device, quoted ? "'" : "");
}

/* Pins and ratio as the user gave them come back as they are; what residence found by cost is turned into a ratio if
 * one leads there, and left to cost if none does. */
static plait_status write_split(plait_model *model, const plait_engine *engine, plait_strbuf *out) {
    const plait_model_options *o = &model->options;
    int n = plait_context_device_count(model->context);
    for (int i = 0; i < o->n_pins; i++)
        write_pin(out, o->pins[i].pattern, plait_context_device(model->context, o->pins[i].device)->name);
    if (n == 1) return plait_strbuf_status(out);
    if (o->split == PLAIT_SPLIT_NONE) plait_strbuf_append(out, " --split none");
    if (o->split == PLAIT_SPLIT_NONE) return plait_strbuf_status(out);
    if (o->ratio) return write_ratio(out, o->ratio, n);
    double *ratio = plait_alloc_array((size_t)n, sizeof *ratio);
    bool found = false;
    if (!ratio) return plait_error_memory("fit", (uint64_t)n * sizeof *ratio);
    plait_status status = find_ratio(model, engine, ratio, &found);
    if (status == PLAIT_OK && found) status = write_ratio(out, ratio, n);
    /* Whole layers by cost, and no experts apart but those that are pinned. */
    if (!found && model->hp.n_experts > 0) plait_strbuf_append(out, " --split layer");
    free(ratio);
    return status;
}

/* As options have it; cut to the room. */
const char *plait_fit_type_name(plait_dtype type, char out[16]) {
    const char *name = plait_dtype_name(type);
    size_t n = 0;
    for (; name[n] && n < 15; n++) out[n] = (char)(name[n] >= 'A' && name[n] <= 'Z' ? name[n] + 32 : name[n]);
    out[n] = '\0';
    return out;
}

/* Everything but the file and the devices, which the user has in hand. */
plait_status plait_fit_write_flags(plait_model *model, const plait_engine *engine) {
    const plait_model_options *o = &model->options;
    char type[16];
    plait_strbuf text;
    plait_strbuf_init(&text, 0);
    plait_strbuf_printf(&text, "--ctx %lld --batch %lld --kv %s", (long long)engine->context,
                        (long long)o->batch, plait_fit_type_name(o->k_type, type));
    if (o->v_type != o->k_type) plait_strbuf_printf(&text, ",%s", plait_fit_type_name(o->v_type, type));
    plait_status status = write_split(model, engine, &text);
    if (status == PLAIT_OK) status = plait_strbuf_status(&text);
    if (status == PLAIT_OK) {
        model->flags = plait_strbuf_take(&text);
        if (!model->flags) status = plait_error_memory("fit", 0);
    }
    plait_strbuf_deinit(&text);
    return status;
}

/* ---- opening ---- */

/* With one device and everything as wished there is nothing to say. */
static void say(const plait_model *model, bool as_wished, int n_tried, uint64_t ns) {
    const plait_logger *logger = plait_context_logger(model->context);
    bool plain = as_wished && plait_context_device_count(model->context) == 1;
    if (model->engine.context < model->hp.context_trained && !as_wished)
        plait_log(logger, PLAIT_LOG_WARNING, "context reduced from %lld to %lld tokens to fit into memory",
                  (long long)model->hp.context_trained, (long long)model->engine.context);
    plait_log(logger, plain ? PLAIT_LOG_DEBUG : PLAIT_LOG_INFO, "fit: %s; %d plans in %.1f ms",
              plait_model_flags(model), n_tried, (double)ns * 1e-6);
}

/* Flags are written before loading: they need plans only, and a model that cannot be loaded has told nothing. */
static plait_status open_model(plait_model *model) {
    plait_engine engine = {0};
    int n_tried = 0;
    bool as_wished = false;
    uint64_t begin = plait_time_ns();
    plait_status status = plait_fit_choose(model, &engine, &as_wished, &n_tried);
    if (status == PLAIT_OK) status = plait_fit_write_flags(model, &engine);
    uint64_t ns = plait_time_ns() - begin;
    if (status == PLAIT_OK) status = plait_model_finish(model, &engine);
    if (status == PLAIT_OK) say(model, as_wished, n_tried, ns);
    plait_engine_destroy(&engine);
    return status;
}

/* Creating reads metadata only, so a file that is none fails before anything is planned. */
plait_status plait_model_open(plait_model **out, plait_context *context, const char *path,
                              const plait_model_options *options) {
    plait_model *model = NULL;
    PLAIT_TRY(plait_model_create(&model, context, path, options));
    plait_status status = open_model(model);
    if (status != PLAIT_OK) {
        plait_model_release(model);
        return status;
    }
    *out = model;
    return PLAIT_OK;
}
