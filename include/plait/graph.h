/* Graphs: an append-only builder, then sealed for ever.
 *
 * Builder calls return a tensor; a wrong call makes the graph remember its first error (names and shape numbers
 * included) and returns a poison tensor, which later calls pass on silently, so that model code reads as
 * mathematics and checks once, at plait_graph_seal. A sealed graph never changes: it can be planned for any
 * devices, any number of times, and shared by threads. Building is for one thread at a time.
 *
 *     plait_graph *g = plait_graph_create(NULL);
 *     plait_dim    n = plait_graph_dim(g, "tokens", 512);
 *     plait_tensor x = plait_input(g, "x", PLAIT_F32, PLAIT_SHAPE(4096, n));
 *     plait_tensor w = plait_weight(g, "w", PLAIT_Q4_K, PLAIT_SHAPE(4096, 14336));
 *     plait_output(g, "y", plait_silu(g, plait_matmul(g, w, x)));
 *     PLAIT_TRY(plait_graph_seal(g));
 */
#ifndef PLAIT_GRAPH_H
#define PLAIT_GRAPH_H

#include "plait/op.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Opaque; ended by plait_graph_destroy. While unsealed it belongs to the thread that builds. */
typedef struct plait_graph plait_graph;

/* A value in a graph. A small id: copy it freely. {0} is no tensor (an absent optional input). Ids of one graph
 * mean nothing in another. */
typedef struct plait_tensor {
    uint32_t id;
} plait_tensor;
#define PLAIT_NO_TENSOR ((plait_tensor){0})

/* A dim in a shape: a positive size, or a bounded dim as plait_graph_dim returns it (a negative number that
 * names it). 0 is a legal size. */
typedef int64_t plait_dim;

/* The rank is 0 to PLAIT_MAX_RANK; dims beyond it count as 1. */
typedef struct plait_shape {
    int rank;
    plait_dim dims[PLAIT_MAX_RANK];
} plait_shape;
/* PLAIT_SHAPE(64, 9, n): rank and dims from the arguments, dim 0 (contiguous) first. C only. */
#define PLAIT_SHAPE(...)                                                                                     \
    ((plait_shape){(int)(sizeof((plait_dim[]){__VA_ARGS__}) / sizeof(plait_dim)), {__VA_ARGS__}})

/* What a storage holds. */
typedef enum plait_storage_kind {
    PLAIT_STORAGE_TEMPORARY, /* made by a node, dead after its last reader */
    PLAIT_STORAGE_INPUT,     /* written by the host before each step */
    PLAIT_STORAGE_WEIGHT,    /* constant, found by name in a model's weights */
    PLAIT_STORAGE_STATE      /* kept between steps, found by name in a session's state */
} plait_storage_kind;

/* ---- building ---- */

/* Zeroed: unnamed. */
typedef struct plait_graph_options {
    const char *name; /* for messages and prints; copied; NULL: "graph" */
} plait_graph_options;

/* NULL only when memory is exhausted. `options` may be NULL. */
plait_graph *plait_graph_create(const plait_graph_options *options);
/* Gives the graph up. Plans that were made of it keep what they need of it. Accepts NULL. */
void plait_graph_destroy(plait_graph *graph);

/* A named dim with an upper bound, set before each run; the same name again must have the same bound. */
plait_dim plait_graph_dim(plait_graph *graph, const char *name, int64_t bound);
/* floor((a * n + b) / c) of a bounded dim n (derived dims compose). a >= 0, c > 0. */
plait_dim plait_graph_derived_dim(plait_graph *graph, plait_dim n, int64_t a, int64_t b, int64_t c);

/* Only the outermost dim of a shape (its last) may be bounded. Names are unique in a graph among inputs, weights,
 * states and outputs of each kind. The shape's dims are in elements, dim 0 first; a quantised type needs whole blocks
 * along dim 0. Weights and states are found by their names when a plan gets memory: equal names in several graphs of a
 * model mean the same storage. */
plait_tensor plait_input(plait_graph *graph, const char *name, plait_dtype dtype, plait_shape shape);
plait_tensor plait_weight(plait_graph *graph, const char *name, plait_dtype dtype, plait_shape shape);
plait_tensor plait_state(plait_graph *graph, const char *name, plait_dtype dtype, plait_shape shape);
/* Marks a value as result under a name. An output may be a view; its storage is kept until the host has read. The name
 * of the host's side: plait_run_output asks for it. */
void plait_output(plait_graph *graph, const char *name, plait_tensor tensor);

/* Prefix for the names of nodes that follow, for example "blk.3."; copied. NULL or "": none. */
void plait_graph_scope(plait_graph *graph, const char *prefix);
/* Names the node that makes the tensor (for plans and messages); otherwise nodes are called after their op. */
plait_tensor plait_named(plait_graph *graph, const char *name, plait_tensor tensor);

/* Nodes, weights and states that follow belong to this block (a layer of a model): 0 to 1048575; -1, as a graph begins:
 * to none. Residence puts whole blocks on devices; the same number in several graphs of a model means the same block.
 * What a block holds need not be appended in one go. */
void plait_graph_block(plait_graph *graph, int block);

/* Model knowledge as data on a tensor (law 10), used by sharding and residence, never required. */
typedef struct plait_part {
    const char *name; /* "q", "k", "gate": copied */
    int64_t size;     /* elements along the dim */
    int64_t granule;  /* smallest piece that may be cut off, for example head_dim * heads per KV head */
} plait_part;
/* The dim `axis` of a weight or state is a packing of n parts, whose sizes add up to the dim. */
void plait_graph_parts(plait_graph *graph, plait_tensor tensor, int axis, const plait_part *parts, int n);

/* ---- views: addressing, never nodes ---- */

/* The same elements in another shape: the tensor must be dense over the dims that change. */
plait_tensor plait_reshape(plait_graph *graph, plait_tensor x, plait_shape shape);
/* `size` neighbours along `axis` from index `start` on. For the axis of blocks of a quantised type both must be
 * whole blocks. */
plait_tensor plait_slice(plait_graph *graph, plait_tensor x, int axis, int64_t start, int64_t size);
/* Dims in another order: dim i of the result is dim order[i] of x (4 entries, a permutation). A bounded dim must stay
 * outermost. Nothing is moved: later nodes see strides. Who cannot take them gets a copy, which the planner inserts
 * where that is cheaper. */
plait_tensor plait_permute(plait_graph *graph, plait_tensor x, const int order[PLAIT_MAX_RANK]);

/* ---- nodes ---- */

/* Values of attributes by name, for plait_apply. */
typedef struct plait_attr_value {
    const char *name;
    plait_attr value;
} plait_attr_value;
/* Values for plait_apply: PLAIT_INT serves INT, BOOL and DTYPE attributes, PLAIT_FLOAT the others. */
#define PLAIT_INT(name_, value_)   ((plait_attr_value){(name_), {.i = (value_)}})
#define PLAIT_FLOAT(name_, value_) ((plait_attr_value){(name_), {.f = (value_)}})

/* Appends a node of any op. inputs[i].id == 0: absent. outputs may be NULL when n_outputs <= 1; the first output is
 * returned as well. Returns the poison tensor, and fills the outputs with it, when the op refuses: seal tells why. */
plait_tensor plait_apply(plait_graph *graph, plait_op_id op, const plait_tensor *inputs, int n_inputs,
                         const plait_attr_value *attrs, int n_attrs, plait_tensor *outputs, int n_outputs);

/* plait_NAME(graph, x) and plait_NAME(graph, a, b) for the ops of the list without attributes. */
#define PLAIT_SUGAR_0(name)
#define PLAIT_SUGAR_1(name)                                                                                  \
    static inline plait_tensor plait_##name(plait_graph *graph, plait_tensor x) {                            \
        return plait_apply(graph, PLAIT_OP_##name, &x, 1, NULL, 0, NULL, 1);                                 \
    }
#define PLAIT_SUGAR_2(name)                                                                                  \
    static inline plait_tensor plait_##name(plait_graph *graph, plait_tensor a, plait_tensor b) {            \
        const plait_tensor inputs[2] = {a, b};                                                               \
        return plait_apply(graph, PLAIT_OP_##name, inputs, 2, NULL, 0, NULL, 1);                             \
    }
#define PLAIT_OP(name, sugar) PLAIT_SUGAR_##sugar(name)
#include "plait/ops.inc"
#undef PLAIT_OP
#undef PLAIT_SUGAR_0
#undef PLAIT_SUGAR_1
#undef PLAIT_SUGAR_2

/* x over sqrt(mean(x^2) + eps), times weight if there is one. The norm runs over dim 0. weight is float32 [size of dim
 * 0], or no tensor. Zhang and Sennrich, arXiv 1910.07467. */
plait_tensor plait_rms_norm(plait_graph *graph, plait_tensor x, plait_tensor weight, double eps);
/* x times factor, element by element. */
plait_tensor plait_scale(plait_graph *graph, plait_tensor x, double factor);

/* Rotary embedding (RoFormer; YaRN for the extrapolation mix). Zeroed fields take the op's defaults. x is [head_dim,
 * heads, tokens], positions i32 [tokens]; freq_factors, float32 [n_rot / 2], divides the frequencies of the pairs
 * (Llama 3, longrope), and may be absent. The angle of pair i at position t is t * freq_base^(-2i / n_rot), divided by
 * freq_factors[i] and scaled; the result has x's type and shape. Su et al., arXiv 2104.09864; YaRN: Peng et al., arXiv
 * 2309.00071. */
typedef struct plait_rope_options {
    int64_t n_rot;               /* rotated elements of each head, from the start; 0: all */
    bool split_halves;           /* pairs (i, i + n_rot/2) instead of (2i, 2i+1) */
    double freq_base;            /* 0: 10000 */
    double freq_scale;           /* 0: 1; multiplies positions (linear scaling: 1/factor) */
    double ext_factor;           /* YaRN mix, 0: off */
    double attn_factor;          /* multiplies cos and sin; 0: 1 */
    double beta_fast, beta_slow; /* 0: 32 and 1 */
    int64_t original_context;    /* YaRN's training context */
} plait_rope_options;
plait_tensor plait_rope(plait_graph *graph, plait_tensor x, plait_tensor positions, plait_tensor freq_factors,
                        const plait_rope_options *options);

/* Attention over a paged cache; masks follow from positions and page lists. See src/op/attention.c. Query head q reads
 * KV head q / (heads / kv_heads). The key at position t of a sequence lies in page pages[t / page_len] of its column at
 * offset t % page_len. A token at position p sees keys up to p, no farther back than the window; with sinks, exp(sink)
 * joins the denominator of the softmax. The result is [head_dim of v, heads, tokens] float32. Vaswani et al., arXiv
 * 1706.03762; grouped heads: arXiv 2305.13245; pages: arXiv 2309.06180; sinks: arXiv 2309.17453. */
typedef struct plait_attention_inputs {
    plait_tensor q;         /* [head_dim, heads, tokens] float32 */
    plait_tensor k, v;      /* caches [dim, page_len, kv_heads, pages], as kv_write returned them */
    plait_tensor positions; /* i32 [tokens] */
    plait_tensor sequences; /* i32 [tokens]: column of the page table */
    plait_tensor pages;     /* i32 [pages per sequence, sequences]: page numbers, -1: none */
    plait_tensor sinks;     /* float32 [heads], optional */
} plait_attention_inputs;
/* Zeroed: what is usual. A score is scale * q.k, then capped, then softmax over the keys that are seen. */
typedef struct plait_attention_options {
    double scale;   /* 0: 1/sqrt(head_dim) */
    int64_t window; /* keys at distance < window are visible; 0: all */
    double softcap; /* cap * tanh(score / cap); 0: off */
} plait_attention_options;
plait_tensor plait_attention(plait_graph *graph, const plait_attention_inputs *inputs,
                             const plait_attention_options *options);

/* An op that writes in place returns the storage's new value. The old one, and views of it, must not be read by later
 * nodes or be outputs: that is an error, since its bytes are gone. */

/* Writes rows [dim, kv_heads, tokens] to the cache at slots i32 [tokens] (page * page_len + offset; negative:
 * nowhere) and returns the cache as it is after that. */
plait_tensor plait_kv_write(plait_graph *graph, plait_tensor cache, plait_tensor rows, plait_tensor slots);

/* Products of columns with matrices of their own choice: w [k, m, experts], ids i32 [used, tokens], x [k, used, tokens] or
 * [k, 1, tokens], a column for all that a token uses. The result is [m, used, tokens]; plait_weighted_sum(graph, result,
 * shares [used, tokens]) makes it [m, tokens]. */
plait_tensor plait_expert_matmul(plait_graph *graph, plait_tensor w, plait_tensor x, plait_tensor ids);

/* The n largest along dim 0 and their ids, best first, equal ones by lower id. Values have x's type, ids are i32; both
 * are [n, ...] with x's other dims. n is at most x's dim 0. */
void plait_top_k(plait_graph *graph, plait_tensor x, int64_t n, plait_tensor *out_values,
                 plait_tensor *out_ids);

/* ---- sealing and reading ---- */

/* Ends building: returns the first error of all calls above, if any, else checks the whole (outputs exist, every node
 * is used or writes state) and freezes the graph. Sealing a sealed graph again is OK and changes nothing. After a
 * failure the graph can be printed and destroyed. */
plait_status plait_graph_seal(plait_graph *graph);

/* What is known of a tensor; INVALID_ARGUMENT for poison or foreign ids. */
typedef struct plait_tensor_info {
    const char *name; /* of the input, weight, state or node. Borrowed from the graph. */
    plait_dtype dtype;
    plait_shape shape;              /* bounded dims as negative names */
    int64_t bounds[PLAIT_MAX_RANK]; /* sizes with dims at their bounds */
    plait_storage_kind storage;
    bool is_view;
    int block; /* of the storage; -1: none */
} plait_tensor_info;
plait_status plait_tensor_describe(const plait_graph *graph, plait_tensor tensor, plait_tensor_info *out);
/* Finds an input, weight, state or output by name. One name may stand for an output and for a weight, say: outputs are
 * looked at first, then the others in the order in which they were made. NOT_FOUND when there is none. */
plait_status plait_graph_find(const plait_graph *graph, const char *name, plait_tensor *out);

/* The graph as text that plait_graph_parse reads back to an equal graph (src/graph/text.c shows the form); and as a
 * Graphviz drawing. An unsealed graph prints what it holds so far. Parsing builds through the calls above, so all
 * rules are checked again; errors name the line, the result is sealed. The text may come from anywhere and need
 * not end with a NUL. The caller frees *out_text and destroys *out. */
plait_status plait_graph_print(const plait_graph *graph, char **out_text);
plait_status plait_graph_parse(const char *text, size_t n_bytes, plait_graph **out);
plait_status plait_graph_print_dot(const plait_graph *graph, char **out_text);
/* True when both have the same dims, storages, tensors, nodes, names and attributes in the same order. */
bool plait_graph_equal(const plait_graph *a, const plait_graph *b);

#ifdef __cplusplus
}
#endif
#endif
