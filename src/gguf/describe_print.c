/* A description as text and as JSON. Not here: what it is filled from (describe.c), single values (print.c). Invariant:
 * texts of the file reach the output through plait_gguf_plain_text or the JSON escapes only; failures are the buffer's,
 * asked for once by the caller. */
#include "gguf/describe.h"

#include "base/size.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* The width of the first column, wider than every title. */
enum { TITLE_WIDTH = 24, SHOWN_TEXT = 200 };

static const struct {
    const char *name, *title;
} fact_names[PLAIT_GGUF_FACTS] = {
#define FACT_NAMES(name, key, kind, title) {#name, title},
    PLAIT_GGUF_FACT_LIST(FACT_NAMES)
#undef FACT_NAMES
};

/* A line in a terminal is no place for whole arrays. */
static const plait_gguf_print_limits fact_limits = {.max_elems = 12, .max_text_bytes = SHOWN_TEXT};

/* What a weight costs on average; 0 where there is none. */
static double bits_per_elem(uint64_t size_bytes, uint64_t n_elems) {
    return n_elems ? (double)size_bytes * 8 / (double)n_elems : 0;
}

/* Name of a row of the histogram; out is used where there is no name. */
static const char *type_name(const plait_gguf_type_sum *sum, char out[24]) {
    if (sum->known) return plait_dtype_name((plait_dtype)sum->type_number);
    snprintf(out, 24, "type %u", sum->type_number);
    return out;
}

/* ---- text ---- */

/* Pads to the column, so that values stand below each other. */
static void title(plait_strbuf *out, const char *text) {
    plait_strbuf_printf(out, "%-*s", TITLE_WIDTH, text);
}

/* 134515008 as "134.5 M". Powers of 1000, as people count parameters; bytes have powers of 1024 (plait_strbuf_bytes).
 * Three significant digits from 1000 on, exact below. */
static void append_count(plait_strbuf *out, uint64_t n) {
    static const char units[] = " KMGTPE";
    double value = (double)n;
    size_t unit = 0;
    /* The array has a space in front and NUL behind. */
    while (value >= 1000 && unit + 2 < sizeof units) value /= 1000, unit++;
    if (unit == 0)
        plait_strbuf_printf(out, "%" PRIu64, n);
    else
        plait_strbuf_printf(out, value < 10 ? "%.2f %c" : "%.1f %c", value, units[unit]);
}

/* Numbers for each layer that are all the same are printed as one. Integers only: the facts of kind EACH, which most
 * models state as one number for every layer. */
static bool all_equal(const plait_gguf_value *v, uint64_t *out) {
    uint64_t other;
    if (v->type != PLAIT_GGUF_ARRAY || v->count == 0 || !plait_gguf_elem_u64(v, 0, out)) return false;
    for (uint64_t i = 1; i < v->count; i++)
        if (!plait_gguf_elem_u64(v, i, &other) || other != *out) return false;
    return true;
}

/* The value of a fact, and in words where the number alone says little. A number that has no name is printed alone. */
static void fact_text(const plait_gguf_description *d, int fact, plait_strbuf *out) {
    const plait_gguf_value *v = d->facts[fact];
    uint64_t number = 0;
    if (v->type == PLAIT_GGUF_STRING)
        plait_gguf_plain_text(v->strings[0], SHOWN_TEXT, out);
    else if (all_equal(v, &number))
        plait_strbuf_printf(out, "%" PRIu64 " (each of %" PRIu64 ")", number, v->count);
    else
        plait_gguf_value_text(v, &fact_limits, out);
    /* The one fact that is a number by convention only. */
    if (fact != PLAIT_GGUF_FACT_FILE_TYPE || !plait_gguf_elem_u64(v, 0, &number)) return;
    if (plait_gguf_file_type_name(number))
        plait_strbuf_printf(out, " (%s)", plait_gguf_file_type_name(number));
}

/* The first three lines: which file, how large, what format. */
static void files_text(const plait_gguf_description *d, plait_strbuf *out) {
    const char *path = plait_gguf_path(d->gguf);
    title(out, "file");
    plait_gguf_plain_text((plait_gguf_string){path, strlen(path)}, 4096, out);
    plait_strbuf_append_char(out, '\n');
    title(out, "size");
    plait_strbuf_bytes(out, d->file_bytes);
    if (plait_gguf_part_count(d->gguf) > 1)
        plait_strbuf_printf(out, " in %zu parts", plait_gguf_part_count(d->gguf));
    plait_strbuf_append_char(out, '\n');
    title(out, "format");
    plait_strbuf_printf(out, "GGUF version %u, alignment %u, %zu metadata entries, %zu tensors\n",
                        plait_gguf_version(d->gguf), plait_gguf_alignment(d->gguf),
                        plait_gguf_entry_count(d->gguf), plait_gguf_tensor_count(d->gguf));
}

/* What follows the facts about the tokenizer. */
static void tokenizer_text(const plait_gguf_description *d, plait_strbuf *out) {
    if (d->vocabulary_size) {
        title(out, "vocabulary");
        plait_strbuf_printf(out, "%" PRIu64 "\n", d->vocabulary_size);
    }
    if (d->n_specials) {
        title(out, "special tokens");
        for (size_t i = 0; i < d->n_specials; i++) {
            if (i) plait_strbuf_append(out, ", ");
            /* Texts of special tokens are short; 40 bytes show what one is. */
            plait_gguf_plain_text(d->specials[i].name, 40, out);
            plait_strbuf_printf(out, " %" PRIu64, d->specials[i].id);
        }
        plait_strbuf_append_char(out, '\n');
    }
    title(out, "chat template");
    if (d->chat_template_bytes)
        plait_strbuf_printf(out, "%" PRIu64 " bytes\n", d->chat_template_bytes);
    else
        plait_strbuf_append(out, "none\n");
}

/* The sum, then a line for each element type. Types are sorted by bytes: what dominates stands first. Unknown types
 * have no bits each, for their bytes are not known. The average is over all weights of known types, norms included. */
static void tensors_text(const plait_gguf_description *d, plait_strbuf *out) {
    title(out, "parameters");
    append_count(out, d->n_parameters);
    plait_strbuf_append(out, " in ");
    plait_strbuf_bytes(out, d->tensor_bytes);
    plait_strbuf_printf(out, ", %.2f bits each\n", bits_per_elem(d->tensor_bytes, d->n_parameters));
    for (size_t i = 0; i < d->n_types; i++) {
        const plait_gguf_type_sum *sum = &d->types[i];
        char buffer[24];
        plait_strbuf_printf(out, "  %-*s%5" PRIu64 " tensors  ", TITLE_WIDTH - 2, type_name(sum, buffer),
                            sum->n_tensors);
        append_count(out, sum->n_elems);
        plait_strbuf_append(out, " elements  ");
        plait_strbuf_bytes(out, sum->size_bytes);
        if (sum->known)
            plait_strbuf_printf(out, "  %.2f bits each", bits_per_elem(sum->size_bytes, sum->n_elems));
        plait_strbuf_append_char(out, '\n');
    }
}

/* A line for each item; items may quote the file, so they are printed as its texts are. PLAIT_ERROR_BYTES bounds an
 * item, which no message exceeds. */
static void list_text(const char *what, const char *const *items, size_t n, plait_strbuf *out) {
    for (size_t i = 0; i < n; i++) {
        title(out, what);
        plait_gguf_plain_text((plait_gguf_string){items[i], strlen(items[i])}, PLAIT_ERROR_BYTES, out);
        plait_strbuf_append_char(out, '\n');
    }
}

/* The head size is derived and not a fact of a key; it stands behind the heads, where a reader looks for it. */
void plait_gguf_description_text(const plait_gguf_description *d, plait_strbuf *out) {
    files_text(d, out);
    for (int i = 0; i < PLAIT_GGUF_FACTS; i++) {
        if (!d->facts[i]) continue;
        title(out, fact_names[i].title);
        fact_text(d, i, out);
        plait_strbuf_append_char(out, '\n');
        if (i == PLAIT_GGUF_FACT_KV_HEADS && d->head_size) {
            title(out, "head size");
            plait_strbuf_printf(out, "%" PRIu64 "\n", d->head_size);
        }
    }
    tokenizer_text(d, out);
    tensors_text(d, out);
    list_text("missing key", d->missing_keys, d->n_missing_keys, out);
    list_text("missing tensor", d->missing_tensors, d->n_missing_tensors, out);
    list_text("problem", d->problems, d->n_problems, out);
}

/* ---- JSON ---- */

/* JSON keeps bytes and counts as plain integers; rounding is for people. */
static void parts_json(const plait_gguf *gguf, plait_strbuf *out) {
    plait_strbuf_append(out, ",\"parts\":[");
    for (size_t i = 0; i < plait_gguf_part_count(gguf); i++) {
        const plait_gguf_part *part = plait_gguf_part_at(gguf, i);
        plait_strbuf_append(out, i ? ",{\"path\":" : "{\"path\":");
        plait_strbuf_json_string(out, part->path);
        plait_strbuf_printf(out, ",\"bytes\":%" PRIu64 ",\"tensors\":%u}", part->size_bytes, part->n_tensors);
    }
    plait_strbuf_append_char(out, ']');
}

/* The key says bits_per_weight, which includes the scales of blocks: 4.5 for Q4_0. */
static void types_json(const plait_gguf_description *d, plait_strbuf *out) {
    plait_strbuf_append(out, ",\"types\":[");
    for (size_t i = 0; i < d->n_types; i++) {
        const plait_gguf_type_sum *sum = &d->types[i];
        char buffer[24];
        plait_strbuf_printf(out,
                            "%s{\"type\":\"%s\",\"tensors\":%" PRIu64 ",\"elements\":%" PRIu64
                            ",\"bytes\":%" PRIu64 ",\"bits_per_weight\":",
                            i ? "," : "", type_name(sum, buffer), sum->n_tensors, sum->n_elems,
                            sum->size_bytes);
        plait_strbuf_json_number(out, bits_per_elem(sum->size_bytes, sum->n_elems));
        plait_strbuf_append_char(out, '}');
    }
    plait_strbuf_append_char(out, ']');
}

/* Facts under their names in lower case, as describe.h lists them; missing ones are left out. Lists for each layer fit
 * whole: no model has a thousand layers. A fact that was cut is not marked as such. */
static void facts_json(const plait_gguf_description *d, plait_strbuf *out) {
    for (int i = 0; i < PLAIT_GGUF_FACTS; i++) {
        if (!d->facts[i]) continue;
        plait_strbuf_append(out, ",\"");
        for (const char *c = fact_names[i].name; *c; c++)
            plait_strbuf_append_char(out, *c >= 'A' && *c <= 'Z' ? (char)(*c - 'A' + 'a') : *c);
        plait_strbuf_append(out, "\":");
        /* Bounds all the same, so that no file makes the output as large as itself. */
        plait_gguf_value_json(d->facts[i], &(plait_gguf_print_limits){1024, 4096}, out);
    }
}

/* Escaped like any string: a problem may quote the file. */
static void list_json(const char *name, const char *const *items, size_t n, plait_strbuf *out) {
    plait_strbuf_printf(out, "\"%s\":[", name);
    for (size_t i = 0; i < n; i++) {
        if (i) plait_strbuf_append_char(out, ',');
        plait_strbuf_json_string(out, items[i]);
    }
    plait_strbuf_append_char(out, ']');
}

/* Programs rely on these names: they are added to, never renamed. Everything is there for every file but facts, head
 * size and vocabulary, which are left out where the file does not tell. */
void plait_gguf_description_json(const plait_gguf_description *d, plait_strbuf *out) {
    plait_strbuf_append(out, "{\"file\":");
    plait_strbuf_json_string(out, plait_gguf_path(d->gguf));
    plait_strbuf_printf(
        out, ",\"bytes\":%" PRIu64 ",\"version\":%u,\"alignment\":%u,\"entries\":%zu,\"tensors\":%zu",
        d->file_bytes, plait_gguf_version(d->gguf), plait_gguf_alignment(d->gguf),
        plait_gguf_entry_count(d->gguf), plait_gguf_tensor_count(d->gguf));
    parts_json(d->gguf, out);
    plait_strbuf_printf(out, ",\"parameters\":%" PRIu64 ",\"tensor_bytes\":%" PRIu64 ",\"bits_per_weight\":",
                        d->n_parameters, d->tensor_bytes);
    plait_strbuf_json_number(out, bits_per_elem(d->tensor_bytes, d->n_parameters));
    types_json(d, out);
    facts_json(d, out);
    if (d->head_size) plait_strbuf_printf(out, ",\"head_size\":%" PRIu64, d->head_size);
    if (d->vocabulary_size) plait_strbuf_printf(out, ",\"vocabulary_size\":%" PRIu64, d->vocabulary_size);
    plait_strbuf_append(out, ",\"special_tokens\":{");
    for (size_t i = 0; i < d->n_specials; i++) {
        if (i) plait_strbuf_append_char(out, ',');
        plait_strbuf_json_string_n(out, d->specials[i].name.bytes, d->specials[i].name.length);
        plait_strbuf_printf(out, ":%" PRIu64, d->specials[i].id);
    }
    plait_strbuf_printf(out, "},\"chat_template_bytes\":%" PRIu64 ",\"missing\":{", d->chat_template_bytes);
    list_json("keys", d->missing_keys, d->n_missing_keys, out);
    plait_strbuf_append_char(out, ',');
    list_json("tensors", d->missing_tensors, d->n_missing_tensors, out);
    plait_strbuf_append(out, "},");
    list_json("problems", d->problems, d->n_problems, out);
    plait_strbuf_append_char(out, '}');
}
