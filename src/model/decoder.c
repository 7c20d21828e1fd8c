/* The block that most language models share: RMS norm, attention with rotary positions over a paged cache, gated
 * feed-forward, residuals; traits (arch.h) say where a family differs. Not here: weights' placement, caches' memory.
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

/* down(act(gate x) * up x); the activation and the product are one op. */
static plait_tensor feed_forward(plait_builder *b, int64_t il, plait_tensor x) {
    int64_t n_ff = b->hp->n_ff[il];
    plait_tensor gate = plait_builder_linear(b, il, "ffn_gate", x, b->hp->n_embd, n_ff);
    plait_tensor up = plait_builder_linear(b, il, "ffn_up", x, b->hp->n_embd, n_ff);
    plait_tensor y =
        b->arch->traits.gelu ? plait_geglu(b->graph, gate, up) : plait_swiglu(b->graph, gate, up);
    return plait_builder_linear(b, il, "ffn_down", y, n_ff, b->hp->n_embd);
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
        plait_tensor part = attention(b, il, norm(b, il, "attn_norm.weight", x), freqs);
        if (il == hp->n_layers - 1) { /* from here on only the wanted rows matter */
            part = plait_get_rows(b->graph, part, b->output_rows);
            x = plait_get_rows(b->graph, x, b->output_rows);
        }
        x = residual(b, il, "post_attention_norm.weight", x, part);
        x = residual(b, il, "post_ffw_norm.weight", x,
                     feed_forward(b, il, norm(b, il, "ffn_norm.weight", x)));
    }
    plait_graph_scope(b->graph, NULL);
    plait_graph_block(b->graph, -1);
    return norm(b, -1, "output_norm.weight", x);
}
