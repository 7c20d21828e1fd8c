/* What a person wants to know about a GGUF file, as data and as text: the layer under `plait inspect`. Knows the
 * common keys of the format, not what any architecture computes: which keys and tensors one needs is told by the
 * caller. Nothing in a file can make it fail, except memory: what does not make sense is listed as a problem.
 *
 * Key names: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md, and those that converters write. */
#ifndef PLAIT_GGUF_DESCRIBE_H
#define PLAIT_GGUF_DESCRIBE_H

#include "base/arena.h"
#include "base/strbuf.h"
#include "plait/gguf.h"

/* Facts that stand in one key: X(NAME, key, kind, title). A key that begins with '.' follows the architecture's name.
 * Kinds: TEXT a string; INT an integer; EACH one integer, or one for each layer; REAL a float; LIST anything. The JSON
 * name of a fact is NAME in lower case. */
#define PLAIT_GGUF_FACT_LIST(X)                                                                              \
    X(ARCHITECTURE, "general.architecture", TEXT, "architecture")                                            \
    X(NAME, "general.name", TEXT, "name")                                                                    \
    X(SIZE_LABEL, "general.size_label", TEXT, "size label")                                                  \
    X(LICENSE, "general.license", TEXT, "licence")                                                           \
    X(FILE_TYPE, "general.file_type", INT, "file type")                                                      \
    X(QUANTISATION_VERSION, "general.quantization_version", INT, "quantisation version")                     \
    X(CONTEXT_LENGTH, ".context_length", INT, "context length")                                              \
    X(EMBEDDING_LENGTH, ".embedding_length", INT, "embedding length")                                        \
    X(LAYERS, ".block_count", INT, "layers")                                                                 \
    X(FEED_FORWARD, ".feed_forward_length", EACH, "feed forward length")                                     \
    X(EXPERTS, ".expert_count", EACH, "experts")                                                             \
    X(EXPERTS_USED, ".expert_used_count", EACH, "experts used")                                              \
    X(EXPERTS_SHARED, ".expert_shared_count", INT, "shared experts")                                         \
    X(EXPERT_FEED_FORWARD, ".expert_feed_forward_length", EACH, "expert feed forward")                       \
    X(HEADS, ".attention.head_count", EACH, "heads")                                                         \
    X(KV_HEADS, ".attention.head_count_kv", EACH, "KV heads")                                                \
    X(KEY_LENGTH, ".attention.key_length", EACH, "key length")                                               \
    X(VALUE_LENGTH, ".attention.value_length", EACH, "value length")                                         \
    X(KEY_LENGTH_SWA, ".attention.key_length_swa", EACH, "key length, window")                               \
    X(VALUE_LENGTH_SWA, ".attention.value_length_swa", EACH, "value length, window")                         \
    X(SLIDING_WINDOW, ".attention.sliding_window", EACH, "sliding window")                                   \
    X(SLIDING_PATTERN, ".attention.sliding_window_pattern", LIST, "window pattern")                          \
    X(NORM_EPSILON, ".attention.layer_norm_rms_epsilon", REAL, "RMS norm epsilon")                           \
    X(ROPE_DIMS, ".rope.dimension_count", INT, "rope dims")                                                  \
    X(ROPE_SECTIONS, ".rope.dimension_sections", LIST, "rope sections")                                      \
    X(ROPE_BASE, ".rope.freq_base", REAL, "rope base")                                                       \
    X(ROPE_BASE_SWA, ".rope.freq_base_swa", REAL, "rope base, window")                                       \
    X(ROPE_SCALING, ".rope.scaling.type", TEXT, "rope scaling")                                              \
    X(ROPE_FACTOR, ".rope.scaling.factor", REAL, "rope scaling factor")                                      \
    X(ROPE_CONTEXT, ".rope.scaling.original_context_length", INT, "rope original context")                   \
    X(TOKENIZER, "tokenizer.ggml.model", TEXT, "tokenizer")                                                  \
    X(PRE_TOKENIZER, "tokenizer.ggml.pre", TEXT, "pre-tokenizer")

typedef enum plait_gguf_fact {
#define PLAIT_GGUF_FACT_ENUM(name, key, kind, title) PLAIT_GGUF_FACT_##name,
    PLAIT_GGUF_FACT_LIST(PLAIT_GGUF_FACT_ENUM)
#undef PLAIT_GGUF_FACT_ENUM
        PLAIT_GGUF_FACTS
} plait_gguf_fact;

/* Tensors of one element type. */
typedef struct plait_gguf_type_sum {
    uint32_t type_number;
    bool known;
    uint64_t n_tensors, n_elems, size_bytes;
} plait_gguf_type_sum;

/* A key tokenizer.ggml.NAME_token_id. */
typedef struct plait_gguf_special {
    plait_gguf_string name;
    uint64_t id;
} plait_gguf_special;

/* What the caller knows that the architecture needs; lists may be NULL when their count is 0. */
typedef struct plait_gguf_needs {
    const char *const *keys;
    size_t n_keys;
    const char *const *tensors;
    size_t n_tensors;
} plait_gguf_needs;

typedef struct plait_gguf_description {
    const plait_gguf *gguf; /* Borrowed; everything below may point into it. */
    plait_arena arena;      /* owns the lists below */
    const plait_gguf_value
        *facts[PLAIT_GGUF_FACTS];        /* of the kind of the list above; NULL when missing or wrong */
    uint64_t file_bytes;                 /* of all parts */
    uint64_t n_parameters, tensor_bytes; /* elements and bytes of all tensors of known type */
    plait_gguf_type_sum *types;          /* by bytes, largest first */
    size_t n_types;
    uint64_t head_size; /* key length, or embedding length / heads where that is whole; 0 when unknown */
    uint64_t vocabulary_size; /* 0 when unknown */
    plait_gguf_special *specials;
    size_t n_specials;
    uint64_t chat_template_bytes;                 /* 0: none */
    const char **missing_keys, **missing_tensors; /* borrowed from the needs */
    size_t n_missing_keys, n_missing_tensors;
    const char **problems; /* what is wrong, a line each; at most PLAIT_GGUF_MAX_PROBLEMS */
    size_t n_problems;
} plait_gguf_description;

#define PLAIT_GGUF_MAX_PROBLEMS 32

/* Fills *out, which must not outlive gguf; deinit it after success. needs may be NULL. Fails only for want of memory. */
plait_status plait_gguf_describe(plait_gguf_description *out, const plait_gguf *gguf,
                                 const plait_gguf_needs *needs);
void plait_gguf_description_deinit(plait_gguf_description *description);

/* Lines of "title   value"; what is missing is left out. */
void plait_gguf_description_text(const plait_gguf_description *description, plait_strbuf *out);
/* One JSON object, without line end. */
void plait_gguf_description_json(const plait_gguf_description *description, plait_strbuf *out);

/* How much of long values is printed; 0: the default. */
typedef struct plait_gguf_print_limits {
    size_t max_elems;      /* of each array; default 8 */
    size_t max_text_bytes; /* of each string; default 100 */
} plait_gguf_print_limits;

/* One value for a person: strings quoted, bytes that a terminal would obey or cannot show escaped, long things cut and
 * their true length said. limits may be NULL, also below. */
void plait_gguf_value_text(const plait_gguf_value *value, const plait_gguf_print_limits *limits,
                           plait_strbuf *out);
/* The same as JSON; returns true when something was left out. NaN and infinities are null. */
bool plait_gguf_value_json(const plait_gguf_value *value, const plait_gguf_print_limits *limits,
                           plait_strbuf *out);

/* All entries: "key = type value" a line; or a JSON array of {"key","type","value"}, arrays also with "elem_type" and
 * "count". In JSON a cut value has "cut": true. */
void plait_gguf_metadata_text(const plait_gguf *gguf, const plait_gguf_print_limits *limits,
                              plait_strbuf *out);
void plait_gguf_metadata_json(const plait_gguf *gguf, const plait_gguf_print_limits *limits,
                              plait_strbuf *out);
/* All tensors: a table; or a JSON array of {"name","type","dims","n_elems","bytes","offset","part"}. */
void plait_gguf_tensors_text(const plait_gguf *gguf, plait_strbuf *out);
void plait_gguf_tensors_json(const plait_gguf *gguf, plait_strbuf *out);

/* Name of a number of general.file_type ("mostly Q4_K, medium" is "Q4_K_M"), or NULL. */
const char *plait_gguf_file_type_name(uint64_t number);

/* A float in the fewest digits that read back to it; out needs 32 bytes. */
void plait_gguf_format_f32(float value, char *out);
/* Text without anything that a terminal would obey, at most max_bytes of it, without quotes. */
void plait_gguf_plain_text(plait_gguf_string text, size_t max_bytes, plait_strbuf *out);

#endif
