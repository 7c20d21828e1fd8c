/* Experts apart from their layers: whether it is open on which device they lie, which device that would be, and the pin that
 * puts them there. Of a mixture most bytes are experts, of which a token reads a few; everything else of a layer is read
 * for each token. So where not all fits near the fast memory, experts are what should be far.
 *
 * Not here: how many layers' experts go (choose.c). Invariant: what the user pinned stays as it was pinned. */
#include "fit/fit.h"

#include "base/glob.h"
#include "base/status.h"
#include "plait/cost.h"

#include <stdio.h>

enum { NAME_BYTES = 96 };

/* A weight of a layer's experts, or the layer, as pins name them. */
static bool pinned(const plait_model *model, int64_t il) {
    static const char *const which[] = {"gate", "up", "down"};
    char block[32], name[NAME_BYTES];
    snprintf(block, sizeof block, "blk.%lld", (long long)il);
    for (int p = 0; p < model->options.n_pins; p++) {
        const char *pattern = model->options.pins[p].pattern;
        if (plait_glob_matches(pattern, block)) return true;
        for (size_t i = 0; i < sizeof which / sizeof *which; i++) {
            snprintf(name, sizeof name, "%s.ffn_%s_exps.weight", block, which[i]);
            if (plait_glob_matches(pattern, name)) return true;
        }
    }
    return false;
}

static bool any_pinned(const plait_model *model) {
    for (int64_t il = 0; model->options.n_pins && il < model->hp.n_layers; il++)
        if (pinned(model, il)) return true;
    return false;
}

/* The device that reads weights fastest keeps what it can; of the others the one with most memory takes experts. -1: times
 * are not known, and nothing says where what would be better. */
static plait_status find_far_device(plait_context *context, int *out) {
    int n = plait_context_device_count(context), fastest = 0;
    uint64_t best_rate = 0, most = 0;
    *out = -1;
    for (int d = 0; d < n; d++) {
        plait_device_figures figures;
        PLAIT_TRY(plait_context_figures(context, d, &figures));
        if (figures.weight_bytes_per_s == 0) return PLAIT_OK;
        if (figures.weight_bytes_per_s > best_rate) best_rate = figures.weight_bytes_per_s, fastest = d;
    }
    for (int d = 0; d < n; d++) {
        uint64_t total, available;
        plait_device *device = plait_context_device(context, d);
        if (d == fastest) continue;
        PLAIT_TRY(device->vtable->memory_query(device, &total, &available));
        if (*out < 0 || available > most) most = available, *out = d;
    }
    return PLAIT_OK;
}

/* In file form; packed they take about as much. */
static double expert_bytes(const plait_model *model) {
    static const char *const which[] = {"gate", "up", "down"};
    double bytes = 0;
    for (int64_t il = 0; il < model->hp.n_layers; il++)
        for (size_t i = 0; i < sizeof which / sizeof *which; i++) {
            char name[NAME_BYTES];
            snprintf(name, sizeof name, "blk.%lld.ffn_%s_exps.weight", (long long)il, which[i]);
            const plait_gguf_tensor *tensor = plait_gguf_find_tensor(model->gguf, name);
            if (tensor) bytes += (double)tensor->size_bytes;
        }
    return bytes / (double)model->hp.n_layers;
}

plait_status plait_fit_experts_init(plait_fit_experts *out, plait_model *model) {
    const plait_model_options *o = &model->options;
    *out = (plait_fit_experts){.device = -1, .n_user_pins = o->n_pins};
    bool open = !o->fit_off && o->split == PLAIT_SPLIT_AUTO && !o->ratio && model->hp.n_experts > 0 &&
                plait_context_device_count(model->context) > 1 && !any_pinned(model);
    if (!open) return PLAIT_OK;
    PLAIT_TRY(find_far_device(model->context, &out->device));
    if (out->device < 0) return PLAIT_OK;
    out->bytes = expert_bytes(model);
    if (!(out->bytes > 0)) return PLAIT_OK;
    out->pattern = plait_arena_alloc(&model->arena, NAME_BYTES, 1);
    out->pins = plait_arena_alloc(&model->arena, (size_t)o->n_pins + 1, sizeof *out->pins);
    if (!out->pattern || !out->pins) return plait_error_memory("pins", NAME_BYTES);
    for (int p = 0; p < o->n_pins; p++) out->pins[p] = o->pins[p];
    out->pins[o->n_pins] = (plait_pin){out->pattern, out->device};
    out->n_layers = model->hp.n_layers;
    return PLAIT_OK;
}

void plait_fit_experts_pin(const plait_fit_experts *experts, plait_model *model, int64_t far_layers) {
    if (experts->n_layers == 0) return;
    snprintf(experts->pattern, NAME_BYTES, "blk.{0-%lld}." PLAIT_EXPERT_NAMES,
             (long long)(far_layers > 0 ? far_layers - 1 : 0));
    model->options.pins = experts->pins;
    model->options.n_pins = experts->n_user_pins + (far_layers > 0);
}
