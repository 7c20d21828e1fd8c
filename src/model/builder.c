/* What architecture builders call: weights by name with their expected shape, linear maps, attention over the cache.
 * Not here: which layers there are (decoder.c), and how much cache (engine.c).
 *
 * Errors are remembered twice: the graph its first error, the builder the first tensor that is wrong. The builder's
 * counts, since a missing weight makes the graph fail with the less telling message that an input is poison.
 *
 * Invariant: the first missing or misshapen tensor is remembered with name, expected and actual shape; nothing is read
 * from a tensor's bytes. */
#include "base/status.h"
#include "graph/graph.h"
#include "model/arch.h"
#include "op/shape.h"

#include <stdio.h>
#include <string.h>

/* The convention of GGUF: "blk.N." before what belongs to a layer. */
static void weight_name(char *out, size_t size, int64_t layer, const char *name) {
    if (layer < 0)
        snprintf(out, size, "%s", name);
    else
        snprintf(out, size, "blk.%lld.%s", (long long)layer, name);
}

/* Only the first: what comes after it follows from it. */
static plait_tensor fail(plait_builder *b, plait_status status) {
    if (b->status == PLAIT_OK) {
        b->status = status;
        plait_error_copy(b->error, sizeof b->error);
    }
    return PLAIT_NO_TENSOR;
}

/* "64, 36", or with all dims up to the last one that counts. */
static const char *shape_text(const int64_t dims[PLAIT_MAX_RANK], int rank, char out[96]) {
    int n = 0;
    while (rank < PLAIT_MAX_RANK && dims[rank] != 1) rank++;
    for (int d = 0; d < rank; d++)
        n += snprintf(out + n, 96 - (size_t)n, "%s%lld", d ? ", " : "", (long long)dims[d]);
    return out;
}

/* Shapes are compared with all four dims, dims beyond those expected being 1. A weight that several nodes read is one
 * tensor of the graph, so a second call gives the first one's. */
static plait_tensor take_weight(plait_builder *b, int64_t layer, const char *name,
                                const int64_t expected[PLAIT_MAX_RANK]) {
    char full[PLAIT_MAX_NAME], wanted[96], found[96];
    plait_tensor known;
    weight_name(full, sizeof full, layer, name);
    const plait_gguf_tensor *tensor = plait_gguf_find_tensor(b->gguf, full);
    if (!tensor) return PLAIT_NO_TENSOR;
    if (memcmp(tensor->dims, expected, sizeof tensor->dims) != 0)
        return fail(b, plait_error(PLAIT_CORRUPT, "%s: tensor %s: expected shape [%s], found [%s]",
                                   plait_gguf_path(b->gguf), full, shape_text(expected, 2, wanted),
                                   shape_text(tensor->dims, PLAIT_MAX_RANK, found)));
    if (!plait_dtype_is_float(tensor->dtype))
        return fail(b,
                    plait_error(PLAIT_CORRUPT, "%s: tensor %s: expected a float or quantised type, found %s",
                                plait_gguf_path(b->gguf), full, plait_dtype_name(tensor->dtype)));
    if (plait_graph_known_weight(b->graph, full, &known)) return known;
    if (expected[2] != 1)
        return plait_weight(b->graph, full, tensor->dtype,
                            PLAIT_SHAPE(expected[0], expected[1], expected[2]));
    return plait_weight(b->graph, full, tensor->dtype,
                        expected[1] == 1 ? PLAIT_SHAPE(expected[0]) : PLAIT_SHAPE(expected[0], expected[1]));
}

static plait_tensor need_weight(plait_builder *b, int64_t layer, const char *name,
                                const int64_t expected[PLAIT_MAX_RANK]) {
    char full[PLAIT_MAX_NAME], wanted[96];
    weight_name(full, sizeof full, layer, name);
    if (!plait_gguf_find_tensor(b->gguf, full))
        return fail(b, plait_error(PLAIT_NOT_FOUND, "%s: tensor %s of shape [%s] is missing",
                                   plait_gguf_path(b->gguf), full, shape_text(expected, 2, wanted)));
    return take_weight(b, layer, name, expected);
}

plait_tensor plait_builder_optional(plait_builder *b, int64_t layer, const char *name, int64_t d0,
                                    int64_t d1) {
    return take_weight(b, layer, name, (const int64_t[]){d0, d1, 1, 1});
}

plait_tensor plait_builder_weight(plait_builder *b, int64_t layer, const char *name, int64_t d0, int64_t d1) {
    return need_weight(b, layer, name, (const int64_t[]){d0, d1, 1, 1});
}

/* A bias for each expert would be one more term that no node adds. */
plait_tensor plait_builder_experts(plait_builder *b, int64_t layer, const char *name, int64_t d0, int64_t d1,
                                   int64_t n_experts) {
    char weight[PLAIT_MAX_NAME], bias[PLAIT_MAX_NAME], full[PLAIT_MAX_NAME];
    snprintf(weight, sizeof weight, "%s.weight", name);
    snprintf(bias, sizeof bias, "%s.bias", name);
    weight_name(full, sizeof full, layer, bias);
    if (plait_gguf_find_tensor(b->gguf, full))
        return fail(b, plait_error(PLAIT_UNSUPPORTED, "%s: tensor %s: biases of experts are not known",
                                   plait_gguf_path(b->gguf), full));
    return need_weight(b, layer, weight, (const int64_t[]){d0, d1, n_experts, 1});
}

/* Named after its weight without ".weight": that is what plans and pins call it. */
plait_tensor plait_builder_linear(plait_builder *b, int64_t layer, const char *name, plait_tensor x,
                                  int64_t n_in, int64_t n_out) {
    char full[PLAIT_MAX_NAME];
    snprintf(full, sizeof full, "%s.weight", name);
    plait_tensor y = plait_matmul(b->graph, plait_builder_weight(b, layer, full, n_in, n_out), x);
    y = plait_named(b->graph, name, y);
    snprintf(full, sizeof full, "%s.bias", name);
    plait_tensor bias = plait_builder_optional(b, layer, full, n_out, 1);
    return bias.id ? plait_add(b->graph, y, bias) : y;
}

/* The cache of a layer as state: [dim, page_len, kv_heads, pages], so that the keys of one head in one page are
 * contiguous. Returns its value after the write; attention reads that, which is all that orders the two. */
static plait_tensor write_cache(plait_builder *b, int64_t layer, const char *which, plait_dtype type,
                                plait_tensor rows, int64_t dim, const plait_cache_group *group) {
    char name[PLAIT_MAX_NAME];
    snprintf(name, sizeof name, "cache.%lld.%s", (long long)layer, which);
    plait_tensor cache = plait_state(b->graph, name, type,
                                     PLAIT_SHAPE(dim, b->page_len, b->hp->n_kv_heads[layer], group->n_pages));
    return plait_kv_write(b->graph, cache, rows, group->slots);
}

/* Largest power of two that divides the size of a head, at most 64 (as far as an outlier need be spread). */
static int64_t spread_block(int64_t dim) {
    int64_t block = 1;
    while (block < 64 && dim % (2 * block) == 0) block *= 2;
    return block;
}

/* Spreads outliers over their block before a cache of few bits stores them; see src/op/hadamard.c. */
static plait_tensor spread(plait_builder *b, plait_tensor x, int64_t dim) {
    const plait_attr_value attrs[] = {PLAIT_INT("block", spread_block(dim))};
    return plait_apply(b->graph, PLAIT_OP_hadamard, &x, 1, attrs, 1, NULL, 1);
}

/* The group is told by the layer's window; the last one takes what no window matches. The Hadamard transform is its own
 * inverse, so spreading y once more gives what attention over unspread values would have given: it is linear in v. */
plait_tensor plait_builder_attend(plait_builder *b, int64_t layer, plait_tensor q, plait_tensor k,
                                  plait_tensor v, const plait_attention_options *options) {
    int g = 0;
    while (g + 1 < b->n_groups && b->groups[g].window != options->window) g++;
    const plait_cache_group *group = &b->groups[g];
    bool spread_k = plait_dtype_quantised(b->k_type), spread_v = plait_dtype_quantised(b->v_type);
    /* q and k alike, so that their products stay; v is spread back behind the attention. */
    if (spread_k) q = spread(b, q, b->hp->k_dim), k = spread(b, k, b->hp->k_dim);
    if (spread_v) v = spread(b, v, b->hp->v_dim);
    plait_attention_inputs inputs = {.q = q,
                                     .k = write_cache(b, layer, "k", b->k_type, k, b->hp->k_dim, group),
                                     .v = write_cache(b, layer, "v", b->v_type, v, b->hp->v_dim, group),
                                     .positions = b->positions,
                                     .sequences = b->sequence_of,
                                     .pages = group->pages};
    plait_tensor y = plait_attention(b->graph, &inputs, options);
    return spread_v ? spread(b, y, b->hp->v_dim) : y;
}
