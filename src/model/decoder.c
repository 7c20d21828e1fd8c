/* The block that most language models share: RMS norm, attention with rotary positions over a paged cache, gated
 * feed-forward or experts, residuals; traits (arch.h) say where a family differs. Not here: weights' placement, caches' memory.
 *
 * Sources: RMS norm, Zhang and Sennrich, arXiv 1910.07467; rotary positions, Su et al., arXiv 2104.09864; heads that
 * share keys and values, Ainslie et al., arXiv 2305.13245; gated feed-forward, Shazeer, arXiv 2002.05202.
 *
 * Invariant: rows that nobody wants logits of leave the graph after the last attention; every tensor name is the GGUF
 * convention's. */
#include "model/arch.h"

#include <math.h>
#include <stdio.h>

static plait_tensor norm(plait_builder *b, int64_t il, const char *name, plait_tensor x) {
    return plait_rms_norm(b->graph, x, plait_builder_weight(b, il, name, b->hp->n_embd, 1), b->hp->norm_eps);
}

/* q or k of a layer: projection, heads, optional norm, rotary. The norm of qk_norm models is over each head, and before
 * rotary, as those were trained. */
static plait_tensor heads(plait_builder *b, int64_t il, const char *name, const char *norm_name,
                          plait_tensor x, int64_t n_heads, plait_tensor freqs) {
    const plait_hparams *hp = b->hp;
    plait_tensor y = plait_builder_linear(b, il, name, x, hp->n_embd, n_heads * hp->k_dim);
    y = plait_reshape(b->graph, y, PLAIT_SHAPE(hp->k_dim, n_heads, b->tokens));
    if (b->arch->traits.qk_norm)
        y = plait_rms_norm(b->graph, y, plait_builder_weight(b, il, norm_name, hp->k_dim, 1), hp->norm_eps);
    return plait_rope(b->graph, y, b->positions, freqs, hp->is_local[il] ? &hp->rope_local : &hp->rope);
}

/* Scales queries by their position, for models that were trained to sharpen attention over long contexts; 0 in the
 * file: nothing is scaled. */
static plait_tensor temperature(plait_builder *b, plait_tensor q) {
    const plait_hparams *hp = b->hp;
    const plait_tensor inputs[] = {q, b->positions};
    const plait_attr_value attrs[] = {PLAIT_FLOAT("scale", hp->temperature_scale),
                                      PLAIT_INT("length", hp->temperature_length)};
    if (hp->temperature_scale == 0) return q;
    return plait_apply(b->graph, PLAIT_OP_position_scale, inputs, 2, attrs, 2, NULL, 1);
}

/* Keys and values of this step are written before they are attended, so a token sees itself and those before it in the
 * same step. */
static plait_tensor attention(plait_builder *b, int64_t il, plait_tensor x, plait_tensor freqs) {
    const plait_hparams *hp = b->hp;
    int64_t n_heads = hp->n_heads[il], n_kv = hp->n_kv_heads[il];
    plait_tensor q = temperature(b, heads(b, il, "attn_q", "attn_q_norm.weight", x, n_heads, freqs));
    plait_tensor k = heads(b, il, "attn_k", "attn_k_norm.weight", x, n_kv, freqs);
    plait_tensor v = plait_builder_linear(b, il, "attn_v", x, hp->n_embd, n_kv * hp->v_dim);
    v = plait_reshape(b->graph, v, PLAIT_SHAPE(hp->v_dim, n_kv, b->tokens));
    plait_attention_options options = {.scale = hp->attention_scale,
                                       .window = hp->is_local[il] ? hp->window : 0,
                                       .softcap = hp->attention_softcap};
    plait_tensor y = plait_builder_attend(b, il, q, k, v, &options);
    y = plait_reshape(b->graph, y, PLAIT_SHAPE(hp->v_dim * n_heads, b->tokens));
    return plait_builder_linear(b, il, "attn_output", y, hp->v_dim * n_heads, hp->n_embd);
}

static plait_tensor gated(const plait_builder *b, plait_tensor gate, plait_tensor up) {
    return b->arch->traits.gelu ? plait_geglu(b->graph, gate, up) : plait_swiglu(b->graph, gate, up);
}

/* down(act(gate x) * up x); the activation and the product are one op. The matrices are ffn_gate, ffn_up and ffn_down with
 * this suffix. */
static plait_tensor feed_forward(plait_builder *b, int64_t il, const char *suffix, plait_tensor x,
                                 int64_t n_ff) {
    char name[3][32];
    const char *const which[3] = {"ffn_gate", "ffn_up", "ffn_down"};
    for (int i = 0; i < 3; i++) snprintf(name[i], sizeof name[i], "%s%s", which[i], suffix);
    plait_tensor gate = plait_builder_linear(b, il, name[0], x, b->hp->n_embd, n_ff);
    plait_tensor up = plait_builder_linear(b, il, name[1], x, b->hp->n_embd, n_ff);
    return plait_builder_linear(b, il, name[2], gated(b, gate, up), n_ff, b->hp->n_embd);
}

/* ---- experts ---- */

/* Which experts each token uses, and by what share. */
static plait_tensor choose_experts(plait_builder *b, int64_t il, plait_tensor x, plait_tensor *out_ids) {
    const plait_hparams *hp = b->hp;
    bool all = b->arch->traits.experts == PLAIT_EXPERTS_OF_ALL;
    plait_tensor best, y = plait_builder_linear(b, il, "ffn_gate_inp", x, hp->n_embd, hp->n_experts);
    if (all) y = plait_apply(b->graph, PLAIT_OP_softmax, &y, 1, NULL, 0, NULL, 1);
    plait_top_k(b->graph, y, hp->n_used_experts, &best, out_ids);
    if (!all) best = plait_apply(b->graph, PLAIT_OP_softmax, &best, 1, NULL, 0, NULL, 1);
    return hp->expert_scale != 1 ? plait_scale(b->graph, best, hp->expert_scale) : best;
}

static plait_tensor expert_linear(plait_builder *b, int64_t il, const char *name, plait_tensor x,
                                  plait_tensor ids, int64_t n_in, int64_t n_out) {
    plait_tensor w = plait_builder_experts(b, il, name, n_in, n_out, b->hp->n_experts);
    return plait_named(b->graph, name, plait_expert_matmul(b->graph, w, x, ids));
}

/* The expert that all tokens use, behind a gate of its own or not. */
static plait_tensor shared_expert(plait_builder *b, int64_t il, plait_tensor x) {
    plait_tensor y = feed_forward(b, il, "_shexp", x, b->hp->n_ff_shared);
    if (!b->arch->traits.shared_gate) return y;
    plait_tensor gate = plait_builder_linear(b, il, "ffn_gate_inp_shexp", x, b->hp->n_embd, 1);
    return plait_mul(b->graph, y, plait_sigmoid(b->graph, gate));
}

/* x is [n_embd, rows]; what a token's experts give is [n_embd, used, rows] until it is summed by shares. All nodes between
 * are called "_exps", so that one pin (PLAIT_EXPERT_NAMES) takes them along with their weights. */
static plait_tensor experts(plait_builder *b, int64_t il, plait_tensor x, plait_dim rows) {
    const plait_hparams *hp = b->hp;
    int64_t n_ff = hp->n_ff_expert ? hp->n_ff_expert : hp->n_ff[il];
    plait_tensor ids, shares = choose_experts(b, il, x, &ids);
    plait_tensor column = plait_reshape(b->graph, x, PLAIT_SHAPE(hp->n_embd, 1, rows));
    plait_tensor gate = expert_linear(b, il, "ffn_gate_exps", column, ids, hp->n_embd, n_ff);
    plait_tensor up = expert_linear(b, il, "ffn_up_exps", column, ids, hp->n_embd, n_ff);
    plait_tensor y = plait_named(b->graph, "ffn_act_exps", gated(b, gate, up));
    y = expert_linear(b, il, "ffn_down_exps", y, ids, n_ff, hp->n_embd);
    y = plait_named(b->graph, "ffn_sum_exps", plait_weighted_sum(b->graph, y, shares));
    return hp->n_ff_shared ? plait_add(b->graph, y, shared_expert(b, il, x)) : y;
}

/* x + part, the part normed or scaled first where the family does that. */
static plait_tensor residual(plait_builder *b, int64_t il, const char *post_norm, plait_tensor x,
                             plait_tensor part) {
    if (b->arch->traits.post_norms) part = norm(b, il, post_norm, part);
    if (b->hp->residual_scale != 1) part = plait_scale(b->graph, part, b->hp->residual_scale);
    return plait_add(b->graph, part, x);
}

/* Divisors of the rotary frequencies (llama 3), if the file has them. */
static plait_tensor rope_frequencies(plait_builder *b) {
    return plait_builder_optional(b, -1, "rope_freqs.weight", b->hp->rope.n_rot / 2, 1);
}

/* Names of weights are the file's, scopes only name nodes. The embedding stands before all blocks, the last norm behind
 * them: residence places them as units of their own.
 *
 * In the last layer, keys and values of every token are still needed by later steps; what comes behind its attention is
 * only needed for rows whose output is wanted, so those rows are taken there. For a prompt that saves nearly the whole
 * feed-forward of a layer, and the norm. */
plait_tensor plait_decoder_layers(plait_builder *b) {
    const plait_hparams *hp = b->hp;
    plait_tensor table = plait_builder_weight(b, -1, "token_embd.weight", hp->n_embd, hp->n_vocab);
    plait_tensor freqs = rope_frequencies(b);
    plait_tensor x = plait_get_rows(b->graph, table, b->ids);
    if (hp->embedding_scale != 1) x = plait_scale(b->graph, x, hp->embedding_scale);
    for (int64_t il = 0; il < hp->n_layers; il++) {
        char scope[32];
        snprintf(scope, sizeof scope, "blk.%lld.", (long long)il);
        plait_graph_scope(b->graph, scope);
        plait_graph_block(b->graph, (int)il);
        bool last = il == hp->n_layers - 1;
        plait_tensor part = attention(b, il, norm(b, il, "attn_norm.weight", x), freqs);
        if (last) { /* from here on only the wanted rows matter */
            part = plait_get_rows(b->graph, part, b->output_rows);
            x = plait_get_rows(b->graph, x, b->output_rows);
        }
        x = residual(b, il, "post_attention_norm.weight", x, part);
        part = norm(b, il, "ffn_norm.weight", x);
        part = hp->n_experts ? experts(b, il, part, last ? b->outputs : b->tokens)
                             : feed_forward(b, il, "", part, hp->n_ff[il]);
        x = residual(b, il, "post_ffw_norm.weight", x, part);
    }
    plait_graph_scope(b->graph, NULL);
    plait_graph_block(b->graph, -1);
    return norm(b, -1, "output_norm.weight", x);
}
