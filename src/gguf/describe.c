/* Fills a description from metadata and tensor list. Not here: printing. Invariant: nothing that a file says is
 * trusted to make sense; what does not becomes a line of `problems`, and the fact stays empty.
 *
 * What is described is the file, not a model: an architecture that is not known here is described like any other, by
 * the keys that its name leads to. */
#include "gguf/describe.h"

#include "gguf/internal.h"

#include "base/alloc.h"
#include "base/size.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The kinds of describe.h; their expectations in words are for the lines of `problems`. */
typedef enum fact_kind { KIND_TEXT, KIND_INT, KIND_EACH, KIND_REAL, KIND_LIST } fact_kind;

static const struct {
    const char *key, *expected;
    fact_kind kind;
} fact_rows[PLAIT_GGUF_FACTS] = {
#define EXPECTED_TEXT                    "a string"
#define EXPECTED_INT                     "an integer of at least 0"
#define EXPECTED_EACH                    "integers of at least 0"
#define EXPECTED_REAL                    "a float"
#define EXPECTED_LIST                    "anything"
#define FACT_ROW(name, key, kind, title) {key, EXPECTED_##kind, KIND_##kind},
    PLAIT_GGUF_FACT_LIST(FACT_ROW)
#undef FACT_ROW
};

/* Adds a line to the problems; beyond the limit they are dropped. Room for all lines is taken at the first one: most
 * files have none. */
static plait_status add_problem(plait_gguf_description *d, const char *text) {
    if (d->n_problems == PLAIT_GGUF_MAX_PROBLEMS) return PLAIT_OK;
    if (!d->problems) {
        d->problems = plait_arena_alloc(&d->arena, PLAIT_GGUF_MAX_PROBLEMS, sizeof *d->problems);
        if (!d->problems) return plait_error_memory("description", 0);
    }
    char *copy = plait_arena_string(&d->arena, text);
    if (!copy) return plait_error_memory("description", strlen(text));
    d->problems[d->n_problems++] = copy;
    return PLAIT_OK;
}

/* ---- facts ---- */

/* Every value an integer of at least 0; an empty array says nothing and is not accepted. Serves scalars and arrays,
 * since a scalar is an array of one. */
static bool each_is_count(const plait_gguf_value *v) {
    uint64_t number;
    for (uint64_t i = 0; i < v->count; i++)
        if (!plait_gguf_elem_u64(v, i, &number)) return false;
    return v->count > 0;
}

/* Whether a value is what its fact promises, so that printers and callers need not look again. An integer is no float
 * here: a REAL that was written as an integer is worth a line. */
static bool fits(const plait_gguf_value *v, fact_kind kind) {
    switch (kind) {
    case KIND_TEXT: return v->type == PLAIT_GGUF_STRING;
    case KIND_INT: return v->type != PLAIT_GGUF_ARRAY && each_is_count(v);
    case KIND_EACH: return each_is_count(v);
    case KIND_REAL: return v->type == PLAIT_GGUF_F32 || v->type == PLAIT_GGUF_F64;
    case KIND_LIST: return true;
    }
    return false;
}

/* The full key of a fact, NUL-terminated, or NULL when memory is short. In the arena, though used once: a few dozen
 * short keys, and no limit on the architecture's name to think of. */
static const char *full_key(plait_gguf_description *d, plait_gguf_string architecture, const char *key) {
    size_t n = key[0] == '.' ? architecture.length : 0, rest = strlen(key) + 1;
    char *text = plait_arena_alloc(&d->arena, n + rest, 1);
    if (!text) return NULL;
    if (n) memcpy(text, architecture.bytes, n);
    memcpy(text + n, key, rest);
    return text;
}

/* Looks up every fact of the list. The architecture comes first, for it is part of the other keys. A key that begins
 * with a dot belongs to the architecture: ".block_count" is "llama.block_count". An architecture that is missing leaves
 * such keys unfound. */
static plait_status read_facts(plait_gguf_description *d) {
    plait_gguf_string architecture = {"", 0};
    char problem[256];
    for (int i = 0; i < PLAIT_GGUF_FACTS; i++) {
        /* A name with a NUL in it ends there; it can then only miss keys. */
        const char *key = full_key(d, architecture, fact_rows[i].key);
        if (!key) return plait_error_memory("description", 0);
        const plait_gguf_value *v = plait_gguf_find(d->gguf, key);
        if (!v) continue;
        if (!fits(v, fact_rows[i].kind)) {
            snprintf(problem, sizeof problem, "metadata \"%.100s\": expected %s, found %s%s%s", key,
                     fact_rows[i].expected, plait_gguf_type_name(v->type),
                     v->type == PLAIT_GGUF_ARRAY ? " of " : "",
                     v->type == PLAIT_GGUF_ARRAY ? plait_gguf_type_name(v->elem_type) : "");
            PLAIT_TRY(add_problem(d, problem));
            continue;
        }
        d->facts[i] = v;
        if (i == PLAIT_GGUF_FACT_ARCHITECTURE && v->strings[0].length <= PLAIT_GGUF_MAX_KEY_BYTES)
            architecture = v->strings[0];
    }
    return PLAIT_OK;
}

/* First value of an integer fact, or 0. */
static uint64_t number_of(const plait_gguf_description *d, plait_gguf_fact fact) {
    uint64_t number = 0;
    if (d->facts[fact]) plait_gguf_elem_u64(d->facts[fact], 0, &number);
    return number;
}

/* Files of older converters have no key length; then it is the embedding's share of a head. Layers without attention
 * state 0 heads, so the first layer that has some counts. Only for the description; what the model uses is read by
 * model/ under its own checks. */
static void derive_head_size(plait_gguf_description *d) {
    uint64_t width = number_of(d, PLAIT_GGUF_FACT_EMBEDDING_LENGTH), heads = 0;
    const plait_gguf_value *each = d->facts[PLAIT_GGUF_FACT_HEADS];
    d->head_size = number_of(d, PLAIT_GGUF_FACT_KEY_LENGTH);
    for (uint64_t i = 0; each && i < each->count && heads == 0; i++) plait_gguf_elem_u64(each, i, &heads);
    if (d->head_size == 0 && heads > 0 && width % heads == 0) d->head_size = width / heads;
}

/* ---- tokenizer ---- */

/* The token list is what counts; the stated size serves files without one. 0 when neither is there or right. */
static void read_vocabulary(plait_gguf_description *d, const char *size_key) {
    const plait_gguf_value *tokens = plait_gguf_find(d->gguf, "tokenizer.ggml.tokens");
    const plait_gguf_value *size = plait_gguf_find(d->gguf, size_key);
    const plait_gguf_value *template = plait_gguf_find(d->gguf, "tokenizer.chat_template");
    if (tokens && tokens->type == PLAIT_GGUF_ARRAY)
        d->vocabulary_size = tokens->count;
    else if (size && size->type != PLAIT_GGUF_ARRAY)
        plait_gguf_elem_u64(size, 0, &d->vocabulary_size);
    if (template && template->type == PLAIT_GGUF_STRING) d->chat_template_bytes = template->strings[0].length;
}

/* The NAME of tokenizer.ggml.NAME_token_id. The bytes between must not be empty. */
static bool special_name(plait_gguf_string key, plait_gguf_string *out) {
    static const char front[] = "tokenizer.ggml.", back[] = "_token_id";
    size_t f = sizeof front - 1, b = sizeof back - 1;
    if (key.length <= f + b || memcmp(key.bytes, front, f) != 0 ||
        memcmp(key.bytes + key.length - b, back, b) != 0)
        return false;
    *out = (plait_gguf_string){key.bytes + f, key.length - f - b};
    return true;
}

/* All special tokens, whatever their names: models add new ones, and none is worth a line of code here. An id outside
 * the vocabulary is listed and named as a problem, for somebody would use it as an index. Two passes: the count first,
 * so the list is one allocation. */
static plait_status read_specials(plait_gguf_description *d) {
    plait_gguf_special s;
    char problem[256], shown[PLAIT_GGUF_SHOWN_BYTES];
    size_t n = 0, n_entries = plait_gguf_entry_count(d->gguf);
    for (size_t i = 0; i < n_entries; i++) n += special_name(plait_gguf_entry_at(d->gguf, i)->key, &s.name);
    if (n && !(d->specials = plait_arena_alloc(&d->arena, n, sizeof s)))
        return plait_error_memory("description", n * sizeof s);
    for (size_t i = 0; i < n_entries; i++) {
        const plait_gguf_entry *entry = plait_gguf_entry_at(d->gguf, i);
        if (!special_name(entry->key, &s.name)) continue;
        plait_gguf_shown(s.name, shown);
        if (entry->value.type == PLAIT_GGUF_ARRAY || !plait_gguf_elem_u64(&entry->value, 0, &s.id)) {
            snprintf(problem, sizeof problem,
                     "special token \"%s\": expected an integer of at least 0, found %s", shown,
                     plait_gguf_type_name(entry->value.type));
            PLAIT_TRY(add_problem(d, problem));
            continue;
        }
        d->specials[d->n_specials++] = s;
        if (d->vocabulary_size == 0 || s.id < d->vocabulary_size) continue;
        snprintf(problem, sizeof problem,
                 "special token \"%s\": id %" PRIu64 " is outside the vocabulary of %" PRIu64, shown, s.id,
                 d->vocabulary_size);
        PLAIT_TRY(add_problem(d, problem));
    }
    return PLAIT_OK;
}

/* ---- tensors ---- */

/* Sums over a hostile tensor list can pass 2^64; a saturated figure is as good as any there. */
static void add_saturating(uint64_t *sum, uint64_t value) {
    if (!plait_add_u64(*sum, value, sum)) *sum = UINT64_MAX;
}

static int larger_first(const void *a, const void *b) {
    const plait_gguf_type_sum *x = a, *y = b;
    if (x->size_bytes != y->size_bytes) return x->size_bytes > y->size_bytes ? -1 : 1;
    return x->type_number < y->type_number ? -1 : x->type_number > y->type_number;
}

/* Room for every known type and one more row, in which all unknown ones are counted under the first number seen.
 * Unknown types count as tensors but neither as parameters nor as bytes, of which nothing is known. The arena's zeroes
 * are the counters' start; rows in use are moved to the front in place. */
static plait_status sum_types(plait_gguf_description *d) {
    plait_gguf_type_sum *sums = plait_arena_alloc(&d->arena, PLAIT_DTYPE_LIMIT + 1, sizeof *sums);
    if (!sums) return plait_error_memory("description", 0);
    for (size_t i = 0; i < plait_gguf_tensor_count(d->gguf); i++) {
        const plait_gguf_tensor *t = plait_gguf_tensor_at(d->gguf, i);
        plait_gguf_type_sum *sum = &sums[t->type_known ? t->type_number : PLAIT_DTYPE_LIMIT];
        if (sum->n_tensors == 0) sum->type_number = t->type_number, sum->known = t->type_known;
        sum->n_tensors++;
        add_saturating(&sum->n_elems, (uint64_t)t->n_elems);
        add_saturating(&sum->size_bytes, t->size_bytes);
        if (!t->type_known) continue;
        add_saturating(&d->n_parameters, (uint64_t)t->n_elems);
        add_saturating(&d->tensor_bytes, t->size_bytes);
    }
    for (size_t i = 0; i <= PLAIT_DTYPE_LIMIT; i++)
        if (sums[i].n_tensors) sums[d->n_types++] = sums[i];
    qsort(sums, d->n_types, sizeof *sums, larger_first);
    d->types = sums;
    return PLAIT_OK;
}

/* ---- needs ---- */

/* What the caller needs and the file lacks, in the caller's order. One entry more than asked for, so that an allocation
 * of 0 is no case of its own. */
static plait_status find_missing(plait_gguf_description *d, const plait_gguf_needs *needs) {
    d->missing_keys = plait_arena_alloc(&d->arena, needs->n_keys + 1, sizeof *d->missing_keys);
    d->missing_tensors = plait_arena_alloc(&d->arena, needs->n_tensors + 1, sizeof *d->missing_tensors);
    if (!d->missing_keys || !d->missing_tensors) return plait_error_memory("description", 0);
    for (size_t i = 0; i < needs->n_keys; i++)
        if (!plait_gguf_find(d->gguf, needs->keys[i])) d->missing_keys[d->n_missing_keys++] = needs->keys[i];
    for (size_t i = 0; i < needs->n_tensors; i++)
        if (!plait_gguf_find_tensor(d->gguf, needs->tensors[i]))
            d->missing_tensors[d->n_missing_tensors++] = needs->tensors[i];
    return PLAIT_OK;
}

/* ---- the whole ---- */

/* The passes in the order in which they need each other: facts before tokens (the architecture names the vocabulary's
 * key), tokens before special ids. A file whose tensors do not fit is described all the same: what is wrong is the
 * first line of problems. */
static plait_status fill(plait_gguf_description *d, const plait_gguf_needs *needs) {
    plait_gguf_string architecture = {"", 0};
    for (size_t i = 0; i < plait_gguf_part_count(d->gguf); i++)
        add_saturating(&d->file_bytes, plait_gguf_part_at(d->gguf, i)->size_bytes);
    if (plait_gguf_check_tensors(d->gguf) != PLAIT_OK) {
        char problem[PLAIT_ERROR_BYTES];
        plait_error_copy(problem, sizeof problem);
        PLAIT_TRY(add_problem(d, problem));
    }
    PLAIT_TRY(read_facts(d));
    derive_head_size(d);
    if (d->facts[PLAIT_GGUF_FACT_ARCHITECTURE])
        architecture = d->facts[PLAIT_GGUF_FACT_ARCHITECTURE]->strings[0];
    const char *size_key = full_key(d, architecture, ".vocab_size");
    if (!size_key) return plait_error_memory("description", 0);
    read_vocabulary(d, size_key);
    PLAIT_TRY(read_specials(d));
    PLAIT_TRY(sum_types(d));
    return needs ? find_missing(d, needs) : PLAIT_OK;
}

/* The arena is the whole of what the description owns: giving it back is giving everything back. */
plait_status plait_gguf_describe(plait_gguf_description *out, const plait_gguf *gguf,
                                 const plait_gguf_needs *needs) {
    plait_gguf_description d = {.gguf = gguf};
    plait_arena_init(&d.arena, 0);
    plait_status status = fill(&d, needs);
    if (status == PLAIT_OK)
        *out = d;
    else
        plait_arena_deinit(&d.arena);
    return status;
}

void plait_gguf_description_deinit(plait_gguf_description *description) {
    plait_arena_deinit(&description->arena);
    *description = (plait_gguf_description){0};
}

const char *plait_gguf_file_type_name(uint64_t number) {
    /* Numbers of general.file_type, from the list in gguf.md and those that quantisers added since. */
    static const char *const names[] = {
        [0] = "F32",      [1] = "F16",      [2] = "Q4_0",    [3] = "Q4_1",    [7] = "Q8_0",
        [8] = "Q5_0",     [9] = "Q5_1",     [10] = "Q2_K",   [11] = "Q3_K_S", [12] = "Q3_K_M",
        [13] = "Q3_K_L",  [14] = "Q4_K_S",  [15] = "Q4_K_M", [16] = "Q5_K_S", [17] = "Q5_K_M",
        [18] = "Q6_K",    [19] = "IQ2_XXS", [20] = "IQ2_XS", [21] = "Q2_K_S", [22] = "IQ3_XS",
        [23] = "IQ3_XXS", [24] = "IQ1_S",   [25] = "IQ4_NL", [26] = "IQ3_S",  [27] = "IQ3_M",
        [28] = "IQ2_S",   [29] = "IQ2_M",   [30] = "IQ4_XS", [31] = "IQ1_M",  [32] = "BF16",
        [36] = "TQ1_0",   [37] = "TQ2_0",   [38] = "MXFP4",  [39] = "NVFP4",  [40] = "Q1_0",
    };
    return number < PLAIT_COUNT_OF(names) ? names[number] : NULL;
}
