/* Values, metadata and tensor tables as text and JSON:
 *
 *   general.name = string "A name"
 *   tokenizer.ggml.scores = f32[32000] [0, 0, -1.5, ...]
 *   {"key":"general.name","type":"string","value":"A name"}
 *
 * Not here: what they mean (describe.c). Invariant: nothing a file
 * holds reaches a terminal as a control sequence, and the length of the output is bounded by the limits, not the file's
 * arrays. */
#include "gguf/describe.h"

#include "base/size.h"
#include "base/utf8.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEFAULT_ELEMS = 8, DEFAULT_TEXT_BYTES = 100 };

/* Without limits from the caller, a line stays about as wide as a terminal. */
static size_t max_elems(const plait_gguf_print_limits *limits) {
    return limits && limits->max_elems ? limits->max_elems : DEFAULT_ELEMS;
}

static size_t max_text(const plait_gguf_print_limits *limits) {
    return limits && limits->max_text_bytes ? limits->max_text_bytes : DEFAULT_TEXT_BYTES;
}

/* ---- pieces ---- */

/* Controls of ASCII and Latin-1, and the marks that reorder or hide text. Zero-width and bidirectional marks, line and
 * paragraph separators, and the byte order mark: a name could look like another one with them. */
static bool is_harmless(uint32_t c) {
    return c >= 0x20 && (c < 0x7F || c > 0x9F) && !(c >= 0x200B && c <= 0x200F) &&
           !(c >= 0x2028 && c <= 0x202E) && !(c >= 0x2060 && c <= 0x206F) && c != 0xFEFF;
}

/* One character, escaped if need be; returns its bytes in the text. What is no UTF-8 is shown byte by byte. */
static size_t append_plain_char(plait_gguf_string text, size_t i, plait_strbuf *out) {
    uint32_t code;
    size_t n = plait_utf8_decode(text.bytes + i, text.length - i, &code);
    if (n == 0) return plait_strbuf_printf(out, "\\x%02x", (unsigned char)text.bytes[i]), 1;
    if (code == '\n')
        plait_strbuf_append(out, "\\n");
    else if (code == '\t')
        plait_strbuf_append(out, "\\t");
    else if (is_harmless(code))
        plait_strbuf_append_n(out, text.bytes + i, n);
    else
        plait_strbuf_printf(out, "\\u%04x", code);
    return n;
}

/* max_bytes counts bytes of the text and not of the output; a character is never cut. */
void plait_gguf_plain_text(plait_gguf_string text, size_t max_bytes, plait_strbuf *out) {
    size_t i = 0;
    while (i < text.length && i < max_bytes) i += append_plain_char(text, i, out);
    if (i < text.length) plait_strbuf_append(out, "...");
}

/* Quoted, and when cut with the true length behind it. */
static void quoted_text(plait_gguf_string text, size_t max_bytes, plait_strbuf *out) {
    plait_strbuf_append_char(out, '"');
    plait_gguf_plain_text(text, max_bytes, out);
    plait_strbuf_append_char(out, '"');
    if (text.length > max_bytes) plait_strbuf_printf(out, " (%zu bytes)", text.length);
}

/* A string for JSON, cut between characters; *cut is set when something is left out. Cut at a character's first byte:
 * half a character would come out as U+FFFD, which the file does not hold. */
static void json_text(plait_gguf_string text, size_t max_bytes, plait_strbuf *out, bool *cut) {
    size_t n = text.length;
    if (n > max_bytes) {
        *cut = true;
        for (n = max_bytes; n > 0 && ((unsigned char)text.bytes[n] & 0xC0) == 0x80;) n--;
    }
    plait_strbuf_json_string_n(out, text.bytes, n);
}

/* Nine digits always suffice for a float32; printing the float64 it widens to would show digits that nobody wrote.
 * `out` has room for 32 bytes. Not for NaN, which equals nothing: callers sort it out before. */
void plait_gguf_format_f32(float value, char *out) {
    for (int digits = 1; digits <= 9; digits++) {
        plait_format(out, 32, "%.*g", digits, (double)value);
        if (plait_strtof(out, NULL) == value) return;
    }
}

/* Any fixed-size element. JSON has no word for NaN and infinities. Whole numbers below 1e15 print without exponent: a
 * rope base of 10000 is read as a number, not decoded. Integers are tried first, since every integer type answers
 * elem_u64 or elem_i64, whichever fits. */
static void append_number(const plait_gguf_value *v, uint64_t i, bool json, plait_strbuf *out) {
    char text[32] = "";
    double real = 0;
    int64_t negative = 0;
    uint64_t positive = 0;
    if (v->elem_type == PLAIT_GGUF_BOOL) {
        plait_strbuf_append(out, ((const uint8_t *)v->data)[i] ? "true" : "false");
    } else if (plait_gguf_elem_u64(v, i, &positive)) {
        plait_strbuf_printf(out, "%" PRIu64, positive);
    } else if (plait_gguf_elem_i64(v, i, &negative)) {
        plait_strbuf_printf(out, "%" PRId64, negative);
    } else if (plait_gguf_elem_f64(v, i, &real) && !isfinite(real)) {
        plait_strbuf_append(out, json ? "null" : isnan(real) ? "nan" : real > 0 ? "inf" : "-inf");
    } else {
        if (real == floor(real) && fabs(real) < 1e15)
            plait_format(text, sizeof text, "%.0f", real); /* 10000, not 1e+04 */
        else if (v->elem_type == PLAIT_GGUF_F32)
            plait_gguf_format_f32((float)real, text);
        else
            plait_format_double(real, text);
        plait_strbuf_append(out, text);
    }
}

/* ---- values ---- */

/* One element of a value, or the scalar itself. */
static void elem_text(const plait_gguf_value *v, uint64_t i, const plait_gguf_print_limits *limits,
                      plait_strbuf *out) {
    if (v->elem_type == PLAIT_GGUF_STRING)
        quoted_text(v->strings[i], max_text(limits), out);
    else if (v->elem_type == PLAIT_GGUF_ARRAY)
        plait_gguf_value_text(&v->arrays[i], limits, out); /* as deep as PLAIT_GGUF_MAX_DEPTH */
    else
        append_number(v, i, false, out);
}

/* Only as many elements are looked at as are printed: a vocabulary of a million strings costs eight. Nested arrays have
 * the same limit each, so at most limit^depth elements are printed. */
void plait_gguf_value_text(const plait_gguf_value *v, const plait_gguf_print_limits *limits,
                           plait_strbuf *out) {
    size_t most = max_elems(limits);
    if (v->type != PLAIT_GGUF_ARRAY) {
        elem_text(v, 0, limits, out);
        return;
    }
    plait_strbuf_append_char(out, '[');
    for (uint64_t i = 0; i < v->count && i < most; i++) {
        if (i) plait_strbuf_append(out, ", ");
        elem_text(v, i, limits, out);
    }
    plait_strbuf_append(out, v->count > most ? ", ...]" : "]");
}

/* The value as JSON; a scalar has one element and no brackets. *cut is only ever set, for arrays hold arrays. */
static void value_json(const plait_gguf_value *v, const plait_gguf_print_limits *limits, plait_strbuf *out,
                       bool *cut) {
    size_t most = max_elems(limits);
    bool array = v->type == PLAIT_GGUF_ARRAY;
    if (array) plait_strbuf_append_char(out, '[');
    for (uint64_t i = 0; i < v->count && i < most; i++) {
        if (i) plait_strbuf_append_char(out, ',');
        if (v->elem_type == PLAIT_GGUF_STRING)
            json_text(v->strings[i], max_text(limits), out, cut);
        else if (v->elem_type == PLAIT_GGUF_ARRAY)
            value_json(&v->arrays[i], limits, out, cut);
        else
            append_number(v, i, true, out);
    }
    if (v->count > most) *cut = true;
    if (array) plait_strbuf_append_char(out, ']');
}

/* True when something was left out, which a consumer has to know: half a vocabulary looks like a whole one. */
bool plait_gguf_value_json(const plait_gguf_value *value, const plait_gguf_print_limits *limits,
                           plait_strbuf *out) {
    bool cut = false;
    value_json(value, limits, out, &cut);
    return cut;
}

/* ---- metadata ---- */

void plait_gguf_metadata_text(const plait_gguf *gguf, const plait_gguf_print_limits *limits,
                              plait_strbuf *out) {
    for (size_t i = 0; i < plait_gguf_entry_count(gguf); i++) {
        const plait_gguf_entry *entry = plait_gguf_entry_at(gguf, i);
        plait_gguf_plain_text(entry->key, max_text(limits), out);
        plait_strbuf_printf(out, " = %s", plait_gguf_type_name(entry->value.elem_type));
        if (entry->value.type == PLAIT_GGUF_ARRAY)
            plait_strbuf_printf(out, "[%" PRIu64 "]", entry->value.count);
        plait_strbuf_append_char(out, ' ');
        plait_gguf_value_text(&entry->value, limits, out);
        plait_strbuf_append_char(out, '\n');
    }
}

/* Integers beyond 2^53 are printed in full: JSON allows it, and readers with 64-bit integers keep them. */
void plait_gguf_metadata_json(const plait_gguf *gguf, const plait_gguf_print_limits *limits,
                              plait_strbuf *out) {
    plait_strbuf_append_char(out, '[');
    for (size_t i = 0; i < plait_gguf_entry_count(gguf); i++) {
        const plait_gguf_entry *entry = plait_gguf_entry_at(gguf, i);
        const plait_gguf_value *v = &entry->value;
        plait_strbuf_append(out, i ? ",{\"key\":" : "{\"key\":");
        plait_strbuf_json_string_n(out, entry->key.bytes, entry->key.length);
        plait_strbuf_printf(out, ",\"type\":\"%s\"", plait_gguf_type_name(v->type));
        if (v->type == PLAIT_GGUF_ARRAY)
            plait_strbuf_printf(out, ",\"elem_type\":\"%s\",\"count\":%" PRIu64,
                                plait_gguf_type_name(v->elem_type), v->count);
        plait_strbuf_append(out, ",\"value\":");
        bool cut = plait_gguf_value_json(v, limits, out);
        plait_strbuf_append(out, cut ? ",\"cut\":true}" : "}");
    }
    plait_strbuf_append_char(out, ']');
}

/* ---- tensors ---- */

/* "[64, 112]", "[]" for a scalar. Room for four dims of 19 digits. */
static void dims_text(const plait_gguf_tensor *t, char out[96]) {
    size_t used = (size_t)snprintf(out, 96, "[");
    for (int i = 0; i < t->rank; i++)
        used += (size_t)snprintf(out + used, 96 - used, i ? ", %" PRId64 : "%" PRId64, t->dims[i]);
    snprintf(out + used, 96 - used, "]");
}

/* The type's name, or its number where no name is known. */
static void type_text(const plait_gguf_tensor *t, char out[24]) {
    if (t->type_known)
        snprintf(out, 24, "%s", plait_dtype_name(t->dtype));
    else
        snprintf(out, 24, "type %u", t->type_number);
}

/* Columns are as wide as their longest entry; a few names longer than 60 bytes push their own line only. Two passes
 * over the list, which is in memory: the first measures. */
void plait_gguf_tensors_text(const plait_gguf *gguf, plait_strbuf *out) {
    char dims[96], type[24];
    int width = 4, dims_width = 4;
    size_t n = plait_gguf_tensor_count(gguf);
    for (size_t i = 0; i < n; i++) {
        const plait_gguf_tensor *t = plait_gguf_tensor_at(gguf, i);
        int length = (int)strlen(t->name);
        dims_text(t, dims);
        if (length > width && length <= 60) width = length;
        if ((int)strlen(dims) > dims_width) dims_width = (int)strlen(dims);
    }
    plait_strbuf_printf(out, "%-*s  %-8s  %-*s  %14s  %16s\n", width, "name", "type", dims_width, "dims",
                        "bytes", "offset");
    for (size_t i = 0; i < n; i++) {
        const plait_gguf_tensor *t = plait_gguf_tensor_at(gguf, i);
        size_t start = out->length;
        dims_text(t, dims);
        type_text(t, type);
        plait_gguf_plain_text((plait_gguf_string){t->name, strlen(t->name)}, PLAIT_MAX_NAME, out);
        while (out->length - start < (size_t)width && out->status == PLAIT_OK)
            plait_strbuf_append_char(out, ' ');
        plait_strbuf_printf(out, "  %-8s  %-*s  %14" PRIu64 "  %16" PRIu64, type, dims_width, dims,
                            t->size_bytes, t->offset_bytes);
        if (plait_gguf_part_count(gguf) > 1) plait_strbuf_printf(out, "  part %u", t->part + 1);
        plait_strbuf_append_char(out, '\n');
    }
}

/* offset is from the start of the part's file, as in plait_gguf_tensor. */
void plait_gguf_tensors_json(const plait_gguf *gguf, plait_strbuf *out) {
    plait_strbuf_append_char(out, '[');
    for (size_t i = 0; i < plait_gguf_tensor_count(gguf); i++) {
        const plait_gguf_tensor *t = plait_gguf_tensor_at(gguf, i);
        char type[24];
        type_text(t, type);
        plait_strbuf_append(out, i ? ",{\"name\":" : "{\"name\":");
        plait_strbuf_json_string(out, t->name);
        plait_strbuf_printf(out, ",\"type\":\"%s\",\"type_number\":%u,\"dims\":[", type, t->type_number);
        for (int k = 0; k < t->rank; k++) plait_strbuf_printf(out, k ? ",%" PRId64 : "%" PRId64, t->dims[k]);
        plait_strbuf_printf(
            out, "],\"n_elems\":%" PRId64 ",\"bytes\":%" PRIu64 ",\"offset\":%" PRIu64 ",\"part\":%u}",
            t->n_elems, t->size_bytes, t->offset_bytes, t->part);
    }
    plait_strbuf_append_char(out, ']');
}
