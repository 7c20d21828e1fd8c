/* Chat templates: the Jinja that model files carry, compiled once and rendered often.
 *
 * A template turns a conversation (messages, tools and whatever else the model's authors thought of) into the prompt
 * that the model was trained on. The language is that of Jinja2 as Hugging Face transformers sets it up: trim_blocks
 * and lstrip_blocks on, loop controls, generation blocks, raise_exception, strftime_now, and a tojson filter that does
 * not escape HTML. Values behave and print as Python's do. Templates cannot reach files, other templates, the network
 * or the program around them: include, import and extends are refused.
 *
 * Both template and variables may be hostile: depth, steps, memory, output and time are limited, and a limit that
 * is reached gives PLAIT_LIMIT with a message that names the template's line and the limit.
 *
 * Every byte of the output is known to come either from the template's own text or from a variable. Special tokens
 * must be recognised only in the former: a user's "<|im_end|>" inside a message stays text.
 */
#ifndef PLAIT_TEMPLATE_H
#define PLAIT_TEMPLATE_H

#include "plait/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A compiled template. Immutable: any number of threads may render it at once. */
typedef struct plait_template plait_template;

/* A value read by plait's JSON reader; opaque here. */
struct plait_json;

/* Limits of compiling and rendering. A field that is 0 takes the default given with it. */
typedef struct plait_template_limits {
    size_t source_bytes;  /* length of the template: 4 MiB */
    uint32_t parse_depth; /* nested brackets and blocks: 200 */
    uint32_t depth;       /* nested evaluation, macro calls included: 1000 */
    uint64_t steps;       /* evaluated expressions, loop rounds, bytes moved / 64: 200 million */
    size_t memory_bytes;  /* everything a rendering allocates: 512 MiB */
    size_t output_bytes;  /* length of the result: 64 MiB */
    uint64_t time_ns;     /* wall clock of a rendering, looked at every 4096 steps: 30 seconds */
} plait_template_limits;

/* Compiles n_bytes of UTF-8 at `text`, which is copied. limits may be NULL; they are kept for rendering. Sets *out,
 * which plait_template_destroy frees. Fails with CORRUPT for wrong syntax, UNSUPPORTED for include, import and
 * extends, LIMIT, OUT_OF_MEMORY; messages begin with "template line N, column M". */
plait_status plait_template_create(plait_template **out, const char *text, size_t n_bytes,
                                   const plait_template_limits *limits);
/* Accepts NULL. */
void plait_template_destroy(plait_template *t);

/* What a rendering works on. Zeroed fields are optional. */
typedef struct plait_template_input {
    /* The variables, a JSON object: as text ... */
    const char *variables_json;
    size_t variables_bytes;
    /* ... or as a tree that was read before; then variables_json is ignored. Borrowed during the call. */
    const struct plait_json *variables;
    /* The local time that strftime_now prints, "2025-03-09 14:05:07"; NULL: the clock. */
    const char *now;
    /* Names of variables whose strings count as the template's own text, ended by NULL. NULL itself stands for
     * bos_token, eos_token, unk_token, sep_token, pad_token, cls_token, mask_token, eot_token, image_token. Only
     * top-level strings are meant. */
    const char *const *trusted;
    /* Seed of the filter `random`: equal seeds, equal choices. */
    uint64_t seed;
} plait_template_input;

/* A run of output bytes of one origin. */
typedef struct plait_template_segment {
    size_t offset_bytes, n_bytes;
    bool from_template; /* false: came from a variable; no special token may be recognised that touches it */
} plait_template_segment;

/* The result; owned by the caller, freed by plait_template_output_deinit. Segments are in order, not empty, cover the
 * text exactly, and neighbours differ in origin. */
typedef struct plait_template_output {
    char *text; /* valid UTF-8; a NUL follows, and NULs may be inside */
    size_t n_bytes;
    plait_template_segment *segments;
    size_t n_segments;
    /* Set only when the template itself refused the variables by raise_exception (status INVALID_ARGUMENT): its
     * message in full, which plait_error_message may cut. Freed by deinit as well. */
    char *raised;
} plait_template_output;

/* Renders. *out need not be initialised; on failure it is zeroed but for `raised`. Fails with INVALID_ARGUMENT when the
 * template calls raise_exception or does what Python would refuse (adding None to a string, attributes of undefined
 * values), CORRUPT for bad JSON, LIMIT, OUT_OF_MEMORY; messages begin with "template line N, column M". Safe to
 * call from several threads on one template. */
plait_status plait_template_render(const plait_template *t, const plait_template_input *input,
                                   plait_template_output *out);
/* Accepts a zeroed output. */
void plait_template_output_deinit(plait_template_output *out);

#ifdef __cplusplus
}
#endif
#endif
