/* Builder calls with options: thin wrappers that name the attributes of their op. Ops without attributes get
 * their call from the op list (graph.h). Invariant: no rule about an op is here; the op's file has them all. */
#include "plait/graph.h"

#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

plait_tensor plait_rms_norm(plait_graph *graph, plait_tensor x, plait_tensor weight, double eps) {
    const plait_tensor inputs[] = {x, weight};
    const plait_attr_value attrs[] = {PLAIT_FLOAT("eps", eps)};
    return plait_apply(graph, PLAIT_OP_rms_norm, inputs, COUNT(inputs), attrs, COUNT(attrs), NULL, 1);
}

plait_tensor plait_scale(plait_graph *graph, plait_tensor x, double factor) {
    const plait_attr_value attrs[] = {PLAIT_FLOAT("factor", factor)};
    return plait_apply(graph, PLAIT_OP_scale, &x, 1, attrs, COUNT(attrs), NULL, 1);
}

/* 0 stands for "usual" in the options' structs, which are mostly left zeroed. */
static double or_default(double value, double otherwise) {
    return value != 0 ? value : otherwise;
}

/* freq_factors may be absent. All attributes are told, so that a graph's text shows what was meant; those that have
 * their op's initial value are left out there. */
plait_tensor plait_rope(plait_graph *graph, plait_tensor x, plait_tensor positions, plait_tensor freq_factors,
                        const plait_rope_options *options) {
    const plait_tensor inputs[] = {x, positions, freq_factors};
    const plait_attr_value attrs[] = {
        PLAIT_INT("n_rot", options->n_rot),
        PLAIT_INT("split_halves", options->split_halves),
        PLAIT_FLOAT("freq_base", or_default(options->freq_base, 10000)),
        PLAIT_FLOAT("freq_scale", or_default(options->freq_scale, 1)),
        PLAIT_FLOAT("ext_factor", options->ext_factor),
        PLAIT_FLOAT("attn_factor", or_default(options->attn_factor, 1)),
        PLAIT_FLOAT("beta_fast", or_default(options->beta_fast, 32)),
        PLAIT_FLOAT("beta_slow", or_default(options->beta_slow, 1)),
        PLAIT_INT("original_context", options->original_context),
    };
    return plait_apply(graph, PLAIT_OP_rope, inputs, COUNT(inputs), attrs, COUNT(attrs), NULL, 1);
}

/* k and v are what the caches' writes returned, so that attention comes after them. */
plait_tensor plait_attention(plait_graph *graph, const plait_attention_inputs *inputs,
                             const plait_attention_options *options) {
    const plait_tensor tensors[] = {inputs->q,         inputs->k,     inputs->v,    inputs->positions,
                                    inputs->sequences, inputs->pages, inputs->sinks};
    plait_attr_value attrs[3] = {PLAIT_INT("window", options->window),
                                 PLAIT_FLOAT("softcap", options->softcap),
                                 PLAIT_FLOAT("scale", options->scale)};
    /* Without a scale of its own the op takes 1/sqrt(head_dim). */
    return plait_apply(graph, PLAIT_OP_attention, tensors, COUNT(tensors), attrs, options->scale != 0 ? 3 : 2,
                       NULL, 1);
}

plait_tensor plait_kv_write(plait_graph *graph, plait_tensor cache, plait_tensor rows, plait_tensor slots) {
    const plait_tensor inputs[] = {cache, rows, slots};
    return plait_apply(graph, PLAIT_OP_kv_write, inputs, COUNT(inputs), NULL, 0, NULL, 1);
}

plait_tensor plait_expert_matmul(plait_graph *graph, plait_tensor w, plait_tensor x, plait_tensor ids) {
    const plait_tensor inputs[] = {w, x, ids};
    return plait_apply(graph, PLAIT_OP_expert_matmul, inputs, COUNT(inputs), NULL, 0, NULL, 1);
}

/* Both are poison after a failure. */
void plait_top_k(plait_graph *graph, plait_tensor x, int64_t n, plait_tensor *out_values,
                 plait_tensor *out_ids) {
    const plait_attr_value attrs[] = {PLAIT_INT("k", n)};
    plait_tensor outputs[2];
    plait_apply(graph, PLAIT_OP_top_k, &x, 1, attrs, COUNT(attrs), outputs, 2);
    *out_values = outputs[0];
    *out_ids = outputs[1];
}
