/* Reading hyperparameters. Keys and their meaning are those of GGUF's metadata ("ARCH.attention.head_count", ...);
 * defaults are what the format's users take where a key is missing. Not here: shapes of tensors, which builders compare
 * with these numbers.
 *
 * Invariant: every number that a builder divides by or sizes a tensor with was checked. */
#include "model/hparams.h"

#include "base/status.h"
#include "model/arch.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* `key` is room for the name asked for last, which messages show. */
typedef struct reader {
    const plait_gguf *gguf;
    const plait_arch *arch;
    char key[PLAIT_MAX_NAME];
} reader;

/* Overwritten by the next call. */
static const char *key(reader *r, const char *name) {
    snprintf(r->key, sizeof r->key, "%s.%s", r->arch->name, name);
    return r->key;
}

/* A count that must be in [low, high]; `otherwise` < 0: it must be there. Bounds keep products of a few such numbers
 * within 64 bits. */
static plait_status read_count(reader *r, const char *name, int64_t low, int64_t high, int64_t otherwise,
                               int64_t *out) {
    int64_t value = 0;
    if (otherwise >= 0 && !plait_gguf_find(r->gguf, key(r, name))) return *out = otherwise, PLAIT_OK;
    PLAIT_TRY(plait_gguf_get_i64(r->gguf, key(r, name), &value));
    if (value < low || value > high)
        return plait_error(PLAIT_CORRUPT, "%s: %s is %lld, expected %lld to %lld", plait_gguf_path(r->gguf),
                           r->key, (long long)value, (long long)low, (long long)high);
    *out = value;
    return PLAIT_OK;
}

/* NaN and infinities would pass comparisons that follow. */
static plait_status read_number(reader *r, const char *name, double otherwise, double *out) {
    double value = 0;
    PLAIT_TRY(plait_gguf_get_f64_or(r->gguf, key(r, name), otherwise, &value));
    if (!isfinite(value))
        return plait_error(PLAIT_CORRUPT, "%s: %s is not a finite number", plait_gguf_path(r->gguf), r->key);
    *out = value;
    return PLAIT_OK;
}

/* One number for all layers, or a list with one for each. */
static plait_status read_each(reader *r, const char *name, int64_t n, uint32_t low, uint32_t high,
                              plait_arena *arena, uint32_t **out) {
    uint32_t *values = plait_arena_alloc(arena, (size_t)n, sizeof *values);
    if (!values) return plait_error_memory("hyperparameters", (uint64_t)n * sizeof *values);
    PLAIT_TRY(plait_gguf_get_u32_each(r->gguf, key(r, name), values, (size_t)n));
    for (int64_t i = 0; i < n; i++)
        if (values[i] < low || values[i] > high)
            return plait_error(PLAIT_CORRUPT, "%s: %s of layer %lld is %u, expected %u to %u",
                               plait_gguf_path(r->gguf), r->key, (long long)i, values[i], low, high);
    *out = values;
    return PLAIT_OK;
}

/* ---- sizes ---- */

/* From the embedding, not from the tokenizer: ids index its rows. */
static plait_status read_vocabulary(reader *r, plait_hparams *hp) {
    const plait_gguf_tensor *embedding;
    PLAIT_TRY(plait_gguf_get_tensor(r->gguf, "token_embd.weight", &embedding));
    hp->n_vocab = embedding->dims[1];
    return PLAIT_OK;
}

/* Grouped attention gives each KV head the same number of query heads. The dim of a head follows from the embedding
 * only where the file does not say it. */
static plait_status read_sizes(reader *r, plait_hparams *hp, plait_arena *arena) {
    PLAIT_TRY(read_vocabulary(r, hp));
    PLAIT_TRY(read_count(r, "embedding_length", 1, 1 << 24, -1, &hp->n_embd));
    PLAIT_TRY(read_count(r, "block_count", 1, PLAIT_MODEL_MAX_LAYERS, -1, &hp->n_layers));
    PLAIT_TRY(read_count(r, "context_length", 1, INT32_MAX, -1, &hp->context_trained));
    PLAIT_TRY(
        read_each(r, "attention.head_count", hp->n_layers, 1, PLAIT_MODEL_MAX_HEADS, arena, &hp->n_heads));
    hp->n_kv_heads = hp->n_heads;
    if (plait_gguf_find(r->gguf, key(r, "attention.head_count_kv")))
        PLAIT_TRY(read_each(r, "attention.head_count_kv", hp->n_layers, 1, PLAIT_MODEL_MAX_HEADS, arena,
                            &hp->n_kv_heads));
    PLAIT_TRY(read_each(r, "feed_forward_length", hp->n_layers, 1, 1 << 28, arena, &hp->n_ff));
    for (int64_t il = 0; il < hp->n_layers; il++)
        if (hp->n_heads[il] % hp->n_kv_heads[il] != 0)
            return plait_error(PLAIT_CORRUPT, "%s: layer %lld has %u heads, no multiple of its %u KV heads",
                               plait_gguf_path(r->gguf), (long long)il, hp->n_heads[il], hp->n_kv_heads[il]);
    int64_t by_heads = hp->n_embd / hp->n_heads[0];
    if (hp->n_embd % hp->n_heads[0] != 0 && !plait_gguf_find(r->gguf, key(r, "attention.key_length")))
        return plait_error(PLAIT_CORRUPT,
                           "%s: there is no %s, and embedding_length %lld is no multiple of %u heads",
                           plait_gguf_path(r->gguf), r->key, (long long)hp->n_embd, hp->n_heads[0]);
    PLAIT_TRY(read_count(r, "attention.key_length", 1, 1 << 16, by_heads, &hp->k_dim));
    PLAIT_TRY(read_count(r, "attention.value_length", 1, 1 << 16, hp->k_dim, &hp->v_dim));
    PLAIT_TRY(read_number(r, "attention.layer_norm_rms_epsilon", 1e-5, &hp->norm_eps));
    if (hp->norm_eps <= 0)
        return plait_error(PLAIT_CORRUPT, "%s: %s is %g, expected more than 0", plait_gguf_path(r->gguf),
                           r->key, hp->norm_eps);
    return PLAIT_OK;
}

/* ---- rotary positions ---- */

/* A file without the key scales nothing. */
static plait_status read_scaling_type(reader *r, plait_gguf_string *out) {
    *out = (plait_gguf_string){"none", 4};
    if (!plait_gguf_find(r->gguf, key(r, "rope.scaling.type"))) return PLAIT_OK;
    return plait_gguf_get_string(r->gguf, r->key, out);
}

/* YaRN (Peng et al., arXiv 2309.00071): frequencies that turn more often than beta_fast over the original context stay,
 * those that turn less often than beta_slow are interpolated, with a ramp between. */
static plait_status read_yarn(reader *r, plait_hparams *hp, double factor) {
    plait_rope_options *rope = &hp->rope;
    double log_multiplier;
    rope->ext_factor = 1;
    PLAIT_TRY(read_number(r, "rope.scaling.yarn_beta_fast", 32, &rope->beta_fast));
    PLAIT_TRY(read_number(r, "rope.scaling.yarn_beta_slow", 1, &rope->beta_slow));
    PLAIT_TRY(read_number(r, "rope.scaling.yarn_log_multiplier", 0, &log_multiplier));
    /* The op multiplies cos and sin by 1 + 0.1 ln(factor) as YaRN does; with a log multiplier the model wants that
     * magnitude to be 1. */
    if (log_multiplier != 0) rope->attn_factor /= 1 + 0.1 * log(factor);
    return PLAIT_OK;
}

/* "linear" divides positions by the factor. Dims beyond n_rot are not rotated. */
static plait_status read_rope(reader *r, plait_hparams *hp) {
    plait_rope_options *rope = &hp->rope;
    plait_gguf_string type;
    double factor = 1;
    PLAIT_TRY(read_count(r, "rope.dimension_count", 2, hp->k_dim, hp->k_dim, &rope->n_rot));
    if (rope->n_rot % 2)
        return plait_error(PLAIT_CORRUPT, "%s: %s is %lld, expected an even number", plait_gguf_path(r->gguf),
                           key(r, "rope.dimension_count"), (long long)rope->n_rot);
    rope->split_halves = r->arch->traits.rope_halves;
    PLAIT_TRY(read_number(r, "rope.freq_base", 10000, &rope->freq_base));
    PLAIT_TRY(read_count(r, "rope.scaling.original_context_length", 1, INT32_MAX, hp->context_trained,
                         &rope->original_context));
    PLAIT_TRY(read_number(r, "rope.scaling.attn_factor", 1, &rope->attn_factor));
    PLAIT_TRY(read_scaling_type(r, &type));
    PLAIT_TRY(read_number(r, "rope.scaling.factor", 1, &factor));
    if (factor == 0) factor = 1; /* some files write 0 for "none" */
    if (factor < 0 || rope->freq_base <= 0 || rope->attn_factor <= 0)
        return plait_error(PLAIT_CORRUPT, "%s: rope base %g, factor %g, attn_factor %g: expected more than 0",
                           plait_gguf_path(r->gguf), rope->freq_base, factor, rope->attn_factor);
    rope->freq_scale = 1;
    if (plait_gguf_string_is(type, "none")) return PLAIT_OK;
    if (factor < 1e-3) /* YaRN's magnitude 1 + 0.1 ln(factor) stays above 0 */
        return plait_error(PLAIT_CORRUPT, "%s: %s is %g, expected at least 0.001", plait_gguf_path(r->gguf),
                           key(r, "rope.scaling.factor"), factor);
    rope->freq_scale = 1 / factor;
    if (plait_gguf_string_is(type, "linear")) return PLAIT_OK;
    if (plait_gguf_string_is(type, "yarn")) return read_yarn(r, hp, factor);
    return plait_error(PLAIT_UNSUPPORTED, "%s: rope scaling of type \"%.*s\"; known are none, linear, yarn",
                       plait_gguf_path(r->gguf), (int)(type.length < 40 ? type.length : 40), type.bytes);
}

/* ---- attention ---- */

/* Which layers are local: a list of bools, or every period-th layer is full. */
static plait_status read_windows(reader *r, plait_hparams *hp, plait_arena *arena) {
    int64_t period = r->arch->traits.window_period;
    hp->is_local = plait_arena_alloc(arena, (size_t)hp->n_layers, sizeof *hp->is_local);
    if (!hp->is_local) return plait_error_memory("hyperparameters", (uint64_t)hp->n_layers);
    PLAIT_TRY(read_count(r, "attention.sliding_window", 0, INT32_MAX, 0, &hp->window));
    if (hp->window == 0) return PLAIT_OK;
    const plait_gguf_value *pattern = plait_gguf_find(r->gguf, key(r, "attention.sliding_window_pattern"));
    if (pattern && pattern->elem_type == PLAIT_GGUF_BOOL)
        return plait_gguf_get_bool_each(r->gguf, r->key, hp->is_local, (size_t)hp->n_layers);
    if (pattern)
        PLAIT_TRY(read_count(r, "attention.sliding_window_pattern", 1, PLAIT_MODEL_MAX_LAYERS, -1, &period));
    for (int64_t il = 0; il < hp->n_layers; il++) hp->is_local[il] = period > 0 && (il + 1) % period != 0;
    return PLAIT_OK;
}

/* Local layers look back a window at most, so the families that say so leave their frequencies as they were trained. */
static plait_status read_local_rope(reader *r, plait_hparams *hp) {
    hp->rope_local = hp->rope;
    if (!r->arch->traits.local_unscaled) return PLAIT_OK;
    hp->rope_local.freq_scale = 1;
    hp->rope_local.ext_factor = 0;
    PLAIT_TRY(read_number(r, "rope.freq_base_swa", 10000, &hp->rope_local.freq_base));
    if (hp->rope_local.freq_base > 0) return PLAIT_OK;
    return plait_error(PLAIT_CORRUPT, "%s: %s is %g, expected more than 0", plait_gguf_path(r->gguf), r->key,
                       hp->rope_local.freq_base);
}

/* 0 in the file stands for what is usual: no cap, and a scale of 1 / sqrt(k_dim). */
static plait_status read_attention(reader *r, plait_hparams *hp, plait_arena *arena) {
    PLAIT_TRY(read_windows(r, hp, arena));
    PLAIT_TRY(read_local_rope(r, hp));
    PLAIT_TRY(read_number(r, "attention.scale", 0, &hp->attention_scale));
    PLAIT_TRY(read_number(r, "attn_logit_softcapping", 0, &hp->attention_softcap));
    PLAIT_TRY(read_number(r, "final_logit_softcapping", 0, &hp->output_softcap));
    if (!r->arch->traits.temperature) return PLAIT_OK;
    PLAIT_TRY(read_number(r, "attention.temperature_scale", 0, &hp->temperature_scale));
    hp->temperature_length = hp->rope.original_context;
    return PLAIT_OK;
}

/* 1 is none, and leaves no node in the graph. */
static plait_status read_multipliers(reader *r, plait_hparams *hp) {
    double logit_scale = 1;
    hp->embedding_scale = r->arch->traits.scaled_embedding ? sqrt((double)hp->n_embd) : 1;
    hp->residual_scale = hp->output_scale = 1;
    if (!r->arch->traits.multipliers) return PLAIT_OK;
    PLAIT_TRY(read_number(r, "embedding_scale", 1, &hp->embedding_scale));
    PLAIT_TRY(read_number(r, "residual_scale", 1, &hp->residual_scale));
    PLAIT_TRY(read_number(r, "logit_scale", 1, &logit_scale));
    if (logit_scale == 0) return plait_error(PLAIT_CORRUPT, "%s: %s is 0", plait_gguf_path(r->gguf), r->key);
    hp->output_scale = 1 / logit_scale; /* granite divides the logits */
    return PLAIT_OK;
}

/* Rope before attention: local layers begin with its numbers. */
/* ---- experts ---- */

enum { MAX_EXPERTS = 65536, SOFTMAX = 1 };

/* What chooses experts in a way that no builder here knows is refused, for the model would talk nonsense. */
static plait_status check_choice(reader *r) {
    int64_t function, n_groups;
    PLAIT_TRY(read_count(r, "expert_gating_func", 0, INT32_MAX, SOFTMAX, &function));
    if (function > SOFTMAX)
        return plait_error(PLAIT_UNSUPPORTED, "%s: %s is %lld; known is 1 (softmax)",
                           plait_gguf_path(r->gguf), r->key, (long long)function);
    PLAIT_TRY(read_count(r, "expert_group_count", 0, MAX_EXPERTS, 0, &n_groups));
    if (n_groups <= 1) return PLAIT_OK;
    return plait_error(PLAIT_UNSUPPORTED, "%s: %s is %lld: groups of experts are not known",
                       plait_gguf_path(r->gguf), r->key, (long long)n_groups);
}

static plait_status read_experts(reader *r, plait_hparams *hp) {
    PLAIT_TRY(read_count(r, "expert_count", 0, MAX_EXPERTS, 0, &hp->n_experts));
    if (hp->n_experts == 0) return PLAIT_OK;
    if (r->arch->traits.experts == PLAIT_EXPERTS_NONE)
        return plait_error(PLAIT_UNSUPPORTED, "%s: %s is %lld, and architecture %s is known without experts",
                           plait_gguf_path(r->gguf), r->key, (long long)hp->n_experts, r->arch->name);
    PLAIT_TRY(read_count(r, "expert_used_count", 1, hp->n_experts, -1, &hp->n_used_experts));
    PLAIT_TRY(read_count(r, "expert_feed_forward_length", 1, 1 << 28, 0, &hp->n_ff_expert));
    PLAIT_TRY(read_count(r, "expert_shared_feed_forward_length", 0, 1 << 28,
                         r->arch->traits.shared_gate ? hp->n_ff[0] : 0, &hp->n_ff_shared));
    PLAIT_TRY(read_number(r, "expert_weights_scale", 1, &hp->expert_scale));
    if (hp->expert_scale == 0) hp->expert_scale = 1; /* some files write 0 for "none" */
    return check_choice(r);
}

plait_status plait_hparams_read(plait_hparams *out, const plait_gguf *gguf, const struct plait_arch *arch,
                                plait_arena *arena) {
    reader r = {.gguf = gguf, .arch = arch};
    plait_hparams hp = {0};
    PLAIT_TRY(read_sizes(&r, &hp, arena));
    PLAIT_TRY(read_rope(&r, &hp));
    PLAIT_TRY(read_attention(&r, &hp, arena));
    PLAIT_TRY(read_multipliers(&r, &hp));
    PLAIT_TRY(read_experts(&r, &hp));
    *out = hp;
    return PLAIT_OK;
}
