/* Reading an open file: typed getters, tensors by name. Not here: any check of the file itself; after an open all of it
 * is proved. Invariant: nothing here changes a plait_gguf, so any number of threads may call. An output is written only
 * when the call succeeds, arrays of outputs too. */
#include "gguf/internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- the file ---- */

/* Facts of the first part stand for the file. Parts of one file may in theory differ; nothing depends on it. */
uint32_t plait_gguf_version(const plait_gguf *gguf) {
    return gguf->sources[0].version;
}

uint32_t plait_gguf_alignment(const plait_gguf *gguf) {
    return gguf->sources[0].alignment;
}

const char *plait_gguf_path(const plait_gguf *gguf) {
    return gguf->sources[0].path;
}

size_t plait_gguf_part_count(const plait_gguf *gguf) {
    return gguf->n_sources;
}

const plait_gguf_part *plait_gguf_part_at(const plait_gguf *gguf, size_t index) {
    return index < gguf->n_sources ? &gguf->sources[index].info : NULL;
}

/* Of the first part as well: of the others only the facts about the split are read. */
size_t plait_gguf_entry_count(const plait_gguf *gguf) {
    return gguf->meta.n_entries;
}

const plait_gguf_entry *plait_gguf_entry_at(const plait_gguf *gguf, size_t index) {
    return index < gguf->meta.n_entries ? &gguf->meta.entries[index] : NULL;
}

/* NULL when there is no such key; of keys that occur twice an open has complained. */
const plait_gguf_value *plait_gguf_find(const plait_gguf *gguf, const char *key) {
    return plait_gguf_meta_find(&gguf->meta, key);
}

/* Strings of a file have no NUL at their end, but may hold some. */
bool plait_gguf_string_is(plait_gguf_string string, const char *text) {
    return string.length == strlen(text) && memcmp(string.bytes, text, string.length) == 0;
}

/* ---- elements ---- */

/* Every integer fits a sign and 64 bits of magnitude; this is the one place that knows all types. Values are aligned
 * and in host byte order (read_fixed of parse.c), so the casts are right. False: no integer, or no such element. A
 * scalar is element 0 of its value. Bools and floats are no integers. */
static bool integer_elem(const plait_gguf_value *v, uint64_t i, bool *out_negative, uint64_t *out_bits) {
    int64_t s;
    if (i >= v->count) return false;
    *out_negative = false;
    switch (v->elem_type) {
    case PLAIT_GGUF_U8: *out_bits = ((const uint8_t *)v->data)[i]; return true;
    case PLAIT_GGUF_U16: *out_bits = ((const uint16_t *)v->data)[i]; return true;
    case PLAIT_GGUF_U32: *out_bits = ((const uint32_t *)v->data)[i]; return true;
    case PLAIT_GGUF_U64: *out_bits = ((const uint64_t *)v->data)[i]; return true;
    case PLAIT_GGUF_I8: s = ((const int8_t *)v->data)[i]; break;
    case PLAIT_GGUF_I16: s = ((const int16_t *)v->data)[i]; break;
    case PLAIT_GGUF_I32: s = ((const int32_t *)v->data)[i]; break;
    case PLAIT_GGUF_I64: s = ((const int64_t *)v->data)[i]; break;
    default: return false;
    }
    *out_negative = s < 0;
    /* Two's complement, which elem_i64 and integer_in turn back. */
    *out_bits = (uint64_t)s;
    return true;
}

/* Bools are no integers: a file that stores a count as a bool is wrong, not clever. */
static bool is_integer(plait_gguf_type type) {
    return plait_gguf_type_bytes(type) > 0 && type != PLAIT_GGUF_BOOL && type != PLAIT_GGUF_F32 &&
           type != PLAIT_GGUF_F64;
}

static bool is_float(plait_gguf_type type) {
    return type == PLAIT_GGUF_F32 || type == PLAIT_GGUF_F64;
}

/* *out stays untouched when the answer is false, as with all three. */
bool plait_gguf_elem_u64(const plait_gguf_value *value, uint64_t index, uint64_t *out) {
    bool negative = false;
    uint64_t bits = 0;
    if (!integer_elem(value, index, &negative, &bits) || negative) return false;
    *out = bits;
    return true;
}

/* A u64 above INT64_MAX is no i64, and a negative number has its bits already in two's complement. */
bool plait_gguf_elem_i64(const plait_gguf_value *value, uint64_t index, int64_t *out) {
    bool negative = false;
    uint64_t bits = 0;
    if (!integer_elem(value, index, &negative, &bits) || (!negative && bits > INT64_MAX)) return false;
    *out = (int64_t)bits;
    return true;
}

/* Integers beyond 2^53 are rounded: this is for showing and comparing, not for counting. */
bool plait_gguf_elem_f64(const plait_gguf_value *value, uint64_t index, double *out) {
    bool negative = false;
    uint64_t bits = 0;
    if (index >= value->count) return false;
    if (value->elem_type == PLAIT_GGUF_F32)
        *out = ((const float *)value->data)[index];
    else if (value->elem_type == PLAIT_GGUF_F64)
        *out = ((const double *)value->data)[index];
    else if (integer_elem(value, index, &negative, &bits))
        *out = negative ? (double)(int64_t)bits : (double)bits;
    else
        return false;
    return true;
}

/* ---- getters ---- */

/* The messages of all getters name file and key, so that callers pass them on as they are. */
static plait_status missing(const plait_gguf *gguf, const char *key) {
    return plait_error(PLAIT_NOT_FOUND, "%s: metadata \"%s\" is missing", plait_gguf_path(gguf), key);
}

/* CORRUPT, not INVALID_ARGUMENT: the caller asked for what the format says, and the file has something else. `expected`
 * names a kind and not one type, since an integer getter takes any integer type that holds the number. */
static plait_status wrong_type(const plait_gguf *gguf, const char *key, const char *expected,
                               const plait_gguf_value *found) {
    if (found->type == PLAIT_GGUF_ARRAY)
        return plait_error(
            PLAIT_CORRUPT, "%s: metadata \"%s\": expected %s, found an array of %" PRIu64 " %s",
            plait_gguf_path(gguf), key, expected, found->count, plait_gguf_type_name(found->elem_type));
    return plait_error(PLAIT_CORRUPT, "%s: metadata \"%s\": expected %s, found %s", plait_gguf_path(gguf),
                       key, expected, plait_gguf_type_name(found->type));
}

/* One integer in [min, max] (max above INT64_MAX only with min 0), as 64 bits of two's complement. Negative values are
 * compared as signed, others as unsigned: no comparison mixes the two, for C would convert the negative one to a huge
 * number. */
static plait_status integer_in(const plait_gguf *gguf, const char *key, const plait_gguf_value *v,
                               uint64_t index, int64_t min, uint64_t max, uint64_t *out) {
    bool negative = false;
    uint64_t bits = 0;
    if (!integer_elem(v, index, &negative, &bits)) return wrong_type(gguf, key, "an integer", v);
    if (negative ? (int64_t)bits >= min : bits <= max) {
        *out = bits;
        return PLAIT_OK;
    }
    if (negative)
        return plait_error(PLAIT_OUT_OF_RANGE,
                           "%s: metadata \"%s\": expected %" PRId64 " to %" PRIu64 ", found %" PRId64,
                           plait_gguf_path(gguf), key, min, max, (int64_t)bits);
    return plait_error(PLAIT_OUT_OF_RANGE,
                       "%s: metadata \"%s\": expected %" PRId64 " to %" PRIu64 ", found %" PRIu64,
                       plait_gguf_path(gguf), key, min, max, bits);
}

/* The integer getters differ only in their range. The message of a number out of range gives the range of the caller's
 * type and not of the stored one. */
static plait_status get_integer(const plait_gguf *gguf, const char *key, int64_t min, uint64_t max,
                                uint64_t *out) {
    const plait_gguf_value *v = plait_gguf_find(gguf, key);
    if (!v) return missing(gguf, key);
    if (v->type == PLAIT_GGUF_ARRAY) return wrong_type(gguf, key, "an integer", v);
    return integer_in(gguf, key, v, 0, min, max, out);
}

plait_status plait_gguf_get_u32(const plait_gguf *gguf, const char *key, uint32_t *out) {
    uint64_t bits = 0;
    PLAIT_TRY(get_integer(gguf, key, 0, UINT32_MAX, &bits));
    *out = (uint32_t)bits;
    return PLAIT_OK;
}

/* The 64 bits are the number in two's complement, checked against its range. */
plait_status plait_gguf_get_i32(const plait_gguf *gguf, const char *key, int32_t *out) {
    uint64_t bits = 0;
    PLAIT_TRY(get_integer(gguf, key, INT32_MIN, INT32_MAX, &bits));
    *out = (int32_t)(int64_t)bits;
    return PLAIT_OK;
}

plait_status plait_gguf_get_u64(const plait_gguf *gguf, const char *key, uint64_t *out) {
    uint64_t bits = 0;
    PLAIT_TRY(get_integer(gguf, key, 0, UINT64_MAX, &bits));
    *out = bits;
    return PLAIT_OK;
}

plait_status plait_gguf_get_i64(const plait_gguf *gguf, const char *key, int64_t *out) {
    uint64_t bits = 0;
    PLAIT_TRY(get_integer(gguf, key, INT64_MIN, INT64_MAX, &bits));
    *out = (int64_t)bits;
    return PLAIT_OK;
}

/* An integer is not taken for a float: writers store floats as floats, and a mix-up of keys should be seen. */
plait_status plait_gguf_get_f64(const plait_gguf *gguf, const char *key, double *out) {
    const plait_gguf_value *v = plait_gguf_find(gguf, key);
    if (!v) return missing(gguf, key);
    if (!is_float(v->type)) return wrong_type(gguf, key, "a float", v);
    plait_gguf_elem_f64(v, 0, out);
    return PLAIT_OK;
}

/* An f64 beyond float's range becomes infinity. */
plait_status plait_gguf_get_f32(const plait_gguf *gguf, const char *key, float *out) {
    double value;
    PLAIT_TRY(plait_gguf_get_f64(gguf, key, &value));
    *out = (float)value;
    return PLAIT_OK;
}

/* Any byte but 0 would count, but the reader let only 0 and 1 pass. */
plait_status plait_gguf_get_bool(const plait_gguf *gguf, const char *key, bool *out) {
    const plait_gguf_value *v = plait_gguf_find(gguf, key);
    if (!v) return missing(gguf, key);
    if (v->type != PLAIT_GGUF_BOOL) return wrong_type(gguf, key, "a bool", v);
    *out = *(const uint8_t *)v->data != 0;
    return PLAIT_OK;
}

/* Borrowed from the file's bytes, without a NUL behind it. */
plait_status plait_gguf_get_string(const plait_gguf *gguf, const char *key, plait_gguf_string *out) {
    const plait_gguf_value *v = plait_gguf_find(gguf, key);
    if (!v) return missing(gguf, key);
    if (v->type != PLAIT_GGUF_STRING) return wrong_type(gguf, key, "a string", v);
    *out = v->strings[0];
    return PLAIT_OK;
}

/* The element type must be the very one: the caller goes on to read the data through a pointer of that type. An empty
 * array passes whatever its element type, as there is nothing to read. */
plait_status plait_gguf_get_array(const plait_gguf *gguf, const char *key, plait_gguf_type elem_type,
                                  const plait_gguf_value **out) {
    const plait_gguf_value *v = plait_gguf_find(gguf, key);
    if (!v) return missing(gguf, key);
    if (v->type != PLAIT_GGUF_ARRAY || (v->elem_type != elem_type && v->count > 0)) {
        char expected[32];
        snprintf(expected, sizeof expected, "an array of %s", plait_gguf_type_name(elem_type));
        return wrong_type(gguf, key, expected, v);
    }
    *out = v;
    return PLAIT_OK;
}

/* Getters with a default. A key that is there must still be right: a wrong type is a broken file, not an absent
 * value. */
#define GETTER_OR(name, type)                                                                                \
    plait_status plait_gguf_get_##name##_or(const plait_gguf *gguf, const char *key, type otherwise,         \
                                            type *out) {                                                     \
        if (plait_gguf_find(gguf, key)) return plait_gguf_get_##name(gguf, key, out);                        \
        *out = otherwise;                                                                                    \
        return PLAIT_OK;                                                                                     \
    }
GETTER_OR(u32, uint32_t)
GETTER_OR(i32, int32_t)
GETTER_OR(u64, uint64_t)
GETTER_OR(i64, int64_t)
GETTER_OR(f32, float)
GETTER_OR(f64, double)
GETTER_OR(bool, bool)

/* Finds a value that is one scalar or an array of at least n; `right` tells the element types allowed. Arrays longer
 * than n are accepted, since files of models that were cut keep the numbers of all layers. The caller has looked the
 * key up already to judge its type; the second look-up keeps all messages in one place. */
static plait_status find_each(const plait_gguf *gguf, const char *key, size_t n, bool right,
                              const char *expected) {
    const plait_gguf_value *v = plait_gguf_find(gguf, key);
    if (!v) return missing(gguf, key);
    if (!right) return wrong_type(gguf, key, expected, v);
    if (v->type == PLAIT_GGUF_ARRAY && v->count < n)
        return plait_error(PLAIT_CORRUPT,
                           "%s: metadata \"%s\": expected one value or at least %zu, found %" PRIu64,
                           plait_gguf_path(gguf), key, n, v->count);
    return PLAIT_OK;
}

/* Two passes, so that out[] is untouched when a later number does not fit. */
plait_status plait_gguf_get_u32_each(const plait_gguf *gguf, const char *key, uint32_t *out, size_t n) {
    const plait_gguf_value *v = plait_gguf_find(gguf, key);
    uint64_t bits = 0;
    PLAIT_TRY(find_each(gguf, key, n, v && is_integer(v->elem_type), "integers"));
    for (size_t i = 0; i < n; i++) /* all are checked before the first is written */
        PLAIT_TRY(integer_in(gguf, key, v, v->type == PLAIT_GGUF_ARRAY ? i : 0, 0, UINT32_MAX, &bits));
    for (size_t i = 0; i < n; i++) {
        plait_gguf_elem_u64(v, v->type == PLAIT_GGUF_ARRAY ? i : 0, &bits);
        out[i] = (uint32_t)bits;
    }
    return PLAIT_OK;
}

/* Writes at once, since after find_each nothing can fail; floats that do not fit become infinity. */
plait_status plait_gguf_get_f32_each(const plait_gguf *gguf, const char *key, float *out, size_t n) {
    const plait_gguf_value *v = plait_gguf_find(gguf, key);
    double value = 0;
    PLAIT_TRY(find_each(gguf, key, n, v && is_float(v->elem_type), "floats"));
    for (size_t i = 0; i < n; i++) {
        plait_gguf_elem_f64(v, v->type == PLAIT_GGUF_ARRAY ? i : 0, &value);
        out[i] = (float)value;
    }
    return PLAIT_OK;
}

plait_status plait_gguf_get_bool_each(const plait_gguf *gguf, const char *key, bool *out, size_t n) {
    const plait_gguf_value *v = plait_gguf_find(gguf, key);
    PLAIT_TRY(find_each(gguf, key, n, v && v->elem_type == PLAIT_GGUF_BOOL, "bools"));
    for (size_t i = 0; i < n; i++)
        out[i] = ((const uint8_t *)v->data)[v->type == PLAIT_GGUF_ARRAY ? i : 0] != 0;
    return PLAIT_OK;
}

/* ---- tensors ---- */

/* Of all parts together, in the order of the parts. */
size_t plait_gguf_tensor_count(const plait_gguf *gguf) {
    return gguf->n_tensors;
}

const plait_gguf_tensor *plait_gguf_tensor_at(const plait_gguf *gguf, size_t index) {
    return index < gguf->n_tensors ? &gguf->tensors[index] : NULL;
}

/* The names of all parts are in one map: a reader need not know that a file is split. */
const plait_gguf_tensor *plait_gguf_find_tensor(const plait_gguf *gguf, const char *name) {
    uint32_t index;
    return plait_map_get(&gguf->names, name, strlen(name), &index) ? &gguf->tensors[index] : NULL;
}

plait_status plait_gguf_get_tensor(const plait_gguf *gguf, const char *name, const plait_gguf_tensor **out) {
    const plait_gguf_tensor *tensor = plait_gguf_find_tensor(gguf, name);
    if (!tensor)
        return plait_error(PLAIT_NOT_FOUND, "%s: tensor \"%s\" is missing", plait_gguf_path(gguf), name);
    *out = tensor;
    return PLAIT_OK;
}

/* For memory and streams the range is not mapped, and nothing happens. Weights that were packed elsewhere are not read
 * again: without this their pages would count as memory of the process for the life of the model. */
void plait_gguf_forget_pages(const plait_gguf *gguf, const plait_gguf_tensor *tensor) {
    plait_file_release_range(&gguf->sources[tensor->part].file, tensor->offset_bytes, tensor->size_bytes);
}
