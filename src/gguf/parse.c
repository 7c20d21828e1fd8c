/* The header of one GGUF file: version, metadata, tensor list. Not here: tensor data (check.c) and split files
 * (open.c).
 *
 * Every array is walked twice: once without allocating, which proves that its bytes are there and its contents are
 * allowed, and once to build its table. So memory is only taken for bytes that exist, and an array of fixed-size
 * elements costs one check, however long it is.
 *
 * The format, all numbers little endian (source: see plait/gguf.h):
 *
 *   "GGUF"  u32 version  u64 n_tensors  u64 n_entries
 *   n_entries times   string key   u32 type   value
 *   n_tensors times   string name  u32 rank   u64 dims[rank]  u32 element type  u64 offset
 *   zeros up to the alignment, then data; offsets count from here and are multiples of the alignment
 *
 *   string: u64 length, bytes.  array: u32 element type, u64 count, elements.  bool: one byte, 0 or 1
 *
 * Invariant: nothing of the header is believed before it was compared with the bytes that are left. Strings and aligned
 * arrays are borrowed from the file; only tables and unaligned arrays take memory, all of it owned by the plait_gguf or
 * by `meta`, so a failure anywhere frees nothing itself. */
#include "gguf/internal.h"

#include "base/alloc.h"
#include "base/size.h"
#include "base/utf8.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "files are read in place, which needs a little-endian machine"
#endif

enum {
    OLDEST_VERSION = 2,
    NEWEST_VERSION = 3,
    /* The least that one of each can take in a file: a stated count is refused at once when that many cannot be there,
     * so a header of 24 bytes cannot ask for a table of 2^63 rows. */
    LEAST_ENTRY_BYTES = 8 + 1 + 4 + 1,      /* key length, key, type, value */
    LEAST_TENSOR_BYTES = 8 + 1 + 4 + 4 + 8, /* name length, name, rank, type, offset */
    LEAST_STRING_BYTES = 8,
    LEAST_ARRAY_BYTES = 4 + 8,
};

const char *plait_gguf_type_name(plait_gguf_type type) {
    switch (type) {
#define TYPE_CASE(name, number, text, bytes)                                                                 \
    case PLAIT_GGUF_##name: return text;
        PLAIT_GGUF_TYPE_LIST(TYPE_CASE)
#undef TYPE_CASE
    }
    return "unknown";
}

size_t plait_gguf_type_bytes(plait_gguf_type type) {
    switch (type) {
#define TYPE_CASE(name, number, text, bytes)                                                                 \
    case PLAIT_GGUF_##name: return bytes;
        PLAIT_GGUF_TYPE_LIST(TYPE_CASE)
#undef TYPE_CASE
    }
    return 0;
}

/* ---- texts ---- */

/* The room left is checked for the longest piece (4 bytes: a character or an escape) and "...". For messages: texts of
 * a file may hold anything, and a message must stay one printable line. Returns `out`. */
const char *plait_gguf_shown(plait_gguf_string text, char out[PLAIT_GGUF_SHOWN_BYTES]) {
    size_t used = 0;
    for (size_t i = 0; i < text.length;) {
        uint32_t code;
        size_t n = plait_utf8_decode(text.bytes + i, text.length - i, &code);
        bool plain = n > 0 && code >= 0x20 && (code < 0x7F || code > 0x9F);
        if (used + 4 + sizeof "..." > PLAIT_GGUF_SHOWN_BYTES) {
            memcpy(out + used, "...", 3);
            used += 3;
            break;
        }
        if (plain) {
            memcpy(out + used, text.bytes + i, n);
            used += n;
        } else {
            used += (size_t)snprintf(out + used, 5, "\\x%02x", (unsigned char)text.bytes[i]);
        }
        i += plain ? n : 1;
    }
    out[used] = '\0';
    return out;
}

/* What every name in a file has to be: not empty, not too long, UTF-8, and free of control bytes, so that it can be
 * printed, used as a C string (tensor names) and compared by bytes. `what` opens the message. Bytes 0x80 to 0x9F as
 * characters (C1 controls) are let through here: names are escaped where they are printed. */
static plait_status check_text(const char *what, plait_gguf_string text, size_t max_bytes) {
    char shown[PLAIT_GGUF_SHOWN_BYTES];
    if (text.length == 0) return plait_error(PLAIT_CORRUPT, "%s is empty", what);
    if (text.length > max_bytes)
        return plait_error(PLAIT_CORRUPT, "%s \"%s\" has %zu bytes, at most %zu are allowed", what,
                           plait_gguf_shown(text, shown), text.length, max_bytes);
    for (size_t i = 0; i < text.length;) {
        uint32_t code;
        size_t n = plait_utf8_decode(text.bytes + i, text.length - i, &code);
        if (n == 0 || code < 0x20 || code == 0x7F)
            return plait_error(PLAIT_CORRUPT, "%s \"%s\" has byte 0x%02x at %zu, expected printable UTF-8",
                               what, plait_gguf_shown(text, shown), (unsigned char)text.bytes[i], i);
        i += n;
    }
    return PLAIT_OK;
}

plait_status plait_gguf_check_key(plait_gguf_string key) {
    return check_text("metadata key", key, PLAIT_GGUF_MAX_KEY_BYTES);
}

plait_status plait_gguf_check_tensor_name(plait_gguf_string name) {
    return check_text("tensor name", name, PLAIT_MAX_NAME - 1);
}

/* A power of two, as every reader rounds with masks; the upper limit keeps padding from being a way to a huge file. */
plait_status plait_gguf_check_alignment(uint64_t alignment) {
    if (plait_is_power_of_two(alignment) && alignment >= PLAIT_GGUF_MIN_ALIGNMENT &&
        alignment <= PLAIT_GGUF_MAX_ALIGNMENT)
        return PLAIT_OK;
    return plait_error(PLAIT_CORRUPT,
                       "general.alignment: expected a power of two from %u to %u, found %" PRIu64,
                       PLAIT_GGUF_MIN_ALIGNMENT, PLAIT_GGUF_MAX_ALIGNMENT, alignment);
}

/* ---- the cursor ---- */

/* Every read goes through these: they compare with what is left, never with a sum that could wrap. */
static uint64_t bytes_left(const plait_gguf_cursor *c) {
    return c->size_bytes - c->at;
}

/* The one message for "the file ends before this". */
static plait_status cut(const plait_gguf_cursor *c, const char *what, uint64_t needed) {
    return plait_error(PLAIT_CORRUPT,
                       "file is cut: %s at byte %" PRIu64 " needs %" PRIu64
                       " bytes, but the file ends at %" PRIu64,
                       what, c->at, needed, c->size_bytes);
}

/* Copies n bytes out; fields of a file lie at any address, so nothing is read through a cast pointer. A failed read
 * does not move the cursor, so the message has the place of the field. `what` names the field in the message. */
static inline plait_status take(plait_gguf_cursor *c, void *out, size_t n, const char *what) {
    if (bytes_left(c) < n) return cut(c, what, n);
    memcpy(out, c->bytes + c->at, n);
    c->at += n;
    return PLAIT_OK;
}

/* A length and that many bytes, which stay where they are. */
static inline plait_status take_string(plait_gguf_cursor *c, plait_gguf_string *out, const char *what) {
    uint64_t length = 0;
    PLAIT_TRY(take(c, &length, sizeof length, what));
    if (length > bytes_left(c)) return cut(c, what, length);
    *out = (plait_gguf_string){(const char *)c->bytes + c->at, (size_t)length};
    c->at += length;
    return PLAIT_OK;
}

/* ---- values ---- */

/* `count` values of a fixed-size type: one range check, and a look at bools. With an arena, *out_data is where they
 * lie, aligned. The look at bools is for the pass without an arena: the bytes are the same the second time. type has a
 * size, which the callers have checked. */
static plait_status read_fixed(plait_gguf_cursor *c, plait_arena *arena, plait_gguf_type type, uint64_t count,
                               const void **out_data) {
    size_t each = plait_gguf_type_bytes(type);
    /* Divided, not multiplied: count times size may wrap. */
    if (count > bytes_left(c) / each)
        return plait_error(PLAIT_CORRUPT,
                           "file is cut: %" PRIu64 " values of type %s at byte %" PRIu64 ", but only %" PRIu64
                           " bytes are left",
                           count, plait_gguf_type_name(type), c->at, bytes_left(c));
    const unsigned char *data = c->bytes + c->at;
    if (type == PLAIT_GGUF_BOOL && !arena)
        for (uint64_t i = 0; i < count; i++)
            if (data[i] > 1)
                return plait_error(PLAIT_CORRUPT, "bool at byte %" PRIu64 " is %u, expected 0 or 1",
                                   c->at + i, data[i]);
    /* Values lie at any address in a file; one copy here spares every reader a memcpy for each element. */
    if (arena && (uintptr_t)data % each != 0) {
        void *aligned = plait_arena_alloc(arena, (size_t)count, each);
        if (!aligned) return plait_error_memory("metadata", count * each);
        memcpy(aligned, data, (size_t)(count * each));
        data = aligned;
    }
    if (arena) *out_data = data;
    c->at += count * each;
    return PLAIT_OK;
}

/* `count` strings: with an arena, a table of where each one lies, so that the n-th is found without walking. */
static plait_status read_strings(plait_gguf_cursor *c, plait_arena *arena, uint64_t count,
                                 const plait_gguf_string **out) {
    if (count > bytes_left(c) / LEAST_STRING_BYTES)
        return plait_error(PLAIT_CORRUPT,
                           "file is cut: %" PRIu64 " strings at byte %" PRIu64 ", but only %" PRIu64
                           " bytes are left",
                           count, c->at, bytes_left(c));
    plait_gguf_string *strings = NULL, one;
    if (arena && !(strings = plait_arena_alloc(arena, (size_t)count, sizeof *strings)))
        return plait_error_memory("metadata strings", count * sizeof *strings);
    for (uint64_t i = 0; i < count; i++) PLAIT_TRY(take_string(c, strings ? &strings[i] : &one, "a string"));
    if (arena) *out = strings;
    return PLAIT_OK;
}

/* One array after its type number; nested arrays recurse, at most PLAIT_GGUF_MAX_DEPTH deep. Without an arena it is
 * only checked; *out is written with one. An array of arrays states its elements' type in each of them, so the types
 * may differ from one to the next. */
static plait_status read_array(plait_gguf_cursor *c, plait_arena *arena, int depth, plait_gguf_value *out) {
    uint32_t elem_type = 0;
    uint64_t count = 0;
    plait_gguf_value value = {.type = PLAIT_GGUF_ARRAY};
    /* Depth costs stack here and in whoever walks the value later. */
    if (depth > PLAIT_GGUF_MAX_DEPTH)
        return plait_error(PLAIT_CORRUPT, "arrays inside arrays at byte %" PRIu64 " are more than %d deep",
                           c->at, PLAIT_GGUF_MAX_DEPTH);
    PLAIT_TRY(take(c, &elem_type, sizeof elem_type, "the element type of an array"));
    PLAIT_TRY(take(c, &count, sizeof count, "the length of an array"));
    value.elem_type = (plait_gguf_type)elem_type;
    value.count = count;
    if (elem_type == PLAIT_GGUF_STRING) {
        PLAIT_TRY(read_strings(c, arena, count, &value.strings));
    } else if (elem_type == PLAIT_GGUF_ARRAY) {
        if (count > bytes_left(c) / LEAST_ARRAY_BYTES)
            return plait_error(PLAIT_CORRUPT,
                               "file is cut: %" PRIu64 " arrays at byte %" PRIu64 ", but only %" PRIu64
                               " bytes are left",
                               count, c->at, bytes_left(c));
        plait_gguf_value *arrays = arena ? plait_arena_alloc(arena, (size_t)count, sizeof *arrays) : NULL;
        if (arena && !arrays) return plait_error_memory("metadata arrays", count * sizeof *arrays);
        for (uint64_t i = 0; i < count; i++)
            PLAIT_TRY(read_array(c, arena, depth + 1, arrays ? &arrays[i] : NULL));
        value.arrays = arrays;
    } else if (plait_gguf_type_bytes(value.elem_type) > 0) {
        PLAIT_TRY(read_fixed(c, arena, value.elem_type, count, &value.data));
    } else {
        return plait_error(PLAIT_CORRUPT,
                           "element type %u before byte %" PRIu64 " is unknown, expected 0 to 12", elem_type,
                           c->at);
    }
    if (arena) *out = value;
    return PLAIT_OK;
}

/* One value after its type number. A scalar is stored as an array of one, so readers know a single layout. NULL arena:
 * only checked, and `out` may be NULL too. */
static plait_status read_value(plait_gguf_cursor *c, plait_arena *arena, uint32_t type,
                               plait_gguf_value *out) {
    if (type == PLAIT_GGUF_ARRAY) return read_array(c, arena, 1, out);
    plait_gguf_value value = {.type = (plait_gguf_type)type, .elem_type = (plait_gguf_type)type, .count = 1};
    if (type == PLAIT_GGUF_STRING)
        PLAIT_TRY(read_strings(c, arena, 1, &value.strings));
    else if (plait_gguf_type_bytes(value.type) > 0)
        PLAIT_TRY(read_fixed(c, arena, value.type, 1, &value.data));
    else
        return plait_error(PLAIT_CORRUPT,
                           "value type %u before byte %" PRIu64 " is unknown, expected 0 to 12", type, c->at);
    if (arena) *out = value;
    return PLAIT_OK;
}

/* ---- metadata ---- */

void plait_gguf_meta_deinit(plait_gguf_meta *meta) {
    free(meta->entries);
    plait_map_deinit(&meta->keys);
    *meta = (plait_gguf_meta){0};
}

const plait_gguf_value *plait_gguf_meta_find(const plait_gguf_meta *meta, const char *key) {
    uint32_t index;
    return plait_map_get(&meta->keys, key, strlen(key), &index) ? &meta->entries[index].value : NULL;
}

/* One entry: key, type, value. The value is checked from a copy of the cursor first and built from the other. The first
 * pass has proved everything, so the second can fail for want of memory only. The map borrows the key's bytes from the
 * file. An entry that failed is in the arena in part, which goes with the whole. */
static plait_status read_entry(plait_gguf_cursor *c, plait_arena *arena, plait_gguf_meta *meta) {
    plait_gguf_entry entry = {0};
    char shown[PLAIT_GGUF_SHOWN_BYTES];
    uint32_t type = 0;
    bool existed;
    PLAIT_TRY(take_string(c, &entry.key, "a metadata key"));
    PLAIT_TRY(plait_gguf_check_key(entry.key));
    plait_gguf_shown(entry.key, shown);
    plait_status status = take(c, &type, sizeof type, "the value type");
    plait_gguf_cursor start = *c;
    if (status == PLAIT_OK) status = read_value(c, NULL, type, NULL);
    if (status == PLAIT_OK) status = read_value(&start, arena, type, &entry.value);
    if (status != PLAIT_OK) return plait_error_context(status, "metadata \"%s\"", shown);
    PLAIT_TRY(plait_grow(&meta->entries, &meta->capacity, meta->n_entries + 1, sizeof *meta->entries,
                         PLAIT_GGUF_MAX_KEYS, "metadata"));
    PLAIT_TRY(
        plait_map_put(&meta->keys, entry.key.bytes, entry.key.length, (uint32_t)meta->n_entries, &existed));
    if (existed) return plait_error(PLAIT_CORRUPT, "metadata key \"%s\" appears twice", shown);
    meta->entries[meta->n_entries++] = entry;
    return PLAIT_OK;
}

/* All entries. The stated count only bounds the loop; the table grows with what is really there. */
static plait_status read_metadata(plait_gguf_cursor *c, plait_arena *arena, uint64_t count,
                                  plait_gguf_meta *meta) {
    if (count > PLAIT_GGUF_MAX_KEYS)
        return plait_error(PLAIT_LIMIT, "%" PRIu64 " metadata entries stated, at most %u are read", count,
                           PLAIT_GGUF_MAX_KEYS);
    if (count > bytes_left(c) / LEAST_ENTRY_BYTES)
        return plait_error(PLAIT_CORRUPT,
                           "file is cut: %" PRIu64 " metadata entries stated, but only %" PRIu64
                           " bytes are left",
                           count, bytes_left(c));
    for (uint64_t i = 0; i < count; i++) {
        plait_status status = read_entry(c, arena, meta);
        if (status != PLAIT_OK)
            return plait_error_context(status, "metadata entry %" PRIu64 " of %" PRIu64, i + 1, count);
    }
    return PLAIT_OK;
}

/* general.alignment, or the format's default. The type must be u32, as the format says: a reader that takes any
 * integer and one that takes u32 only would place the data differently. */
static plait_status read_alignment(const plait_gguf_meta *meta, uint32_t *out) {
    const plait_gguf_value *value = plait_gguf_meta_find(meta, "general.alignment");
    *out = PLAIT_GGUF_DEFAULT_ALIGNMENT;
    if (!value) return PLAIT_OK;
    if (value->type != PLAIT_GGUF_U32)
        return plait_error(PLAIT_CORRUPT, "general.alignment: expected type u32, found %s",
                           plait_gguf_type_name(value->type));
    uint32_t alignment = *(const uint32_t *)value->data;
    PLAIT_TRY(plait_gguf_check_alignment(alignment));
    *out = alignment;
    return PLAIT_OK;
}

/* ---- tensors ---- */

/* Fills nothing on failure that a caller would use: it gives the tensor up. Shared with the writer, so that a tensor
 * that can be written can be read. Rank 0 is a scalar, one element. */
plait_status plait_gguf_measure_tensor(plait_gguf_tensor *t) {
    int64_t n = 1;
    /* The product of the dims must fit before anything is derived from it: a product that wraps would pass for a
     * small tensor, and its rows would be read far outside the file. */
    for (int i = 0; i < t->rank; i++) {
        if (t->dims[i] < 1)
            return plait_error(PLAIT_CORRUPT, "dim %d is %" PRId64 ", expected at least 1", i, t->dims[i]);
        if (__builtin_mul_overflow(n, t->dims[i], &n))
            return plait_error(PLAIT_CORRUPT,
                               "dims [%" PRId64 ", %" PRId64 ", %" PRId64 ", %" PRId64
                               "] multiply to more than 2^63 elements",
                               t->dims[0], t->dims[1], t->dims[2], t->dims[3]);
    }
    t->n_elems = n;
    t->size_bytes = 0;
    if (!t->type_known) return PLAIT_OK;
    int64_t block = plait_dtype_block_elems(t->dtype), bytes = plait_dtype_row_bytes(t->dtype, n);
    /* Blocks never cross rows, so a whole number of blocks in all is not enough. */
    if (t->dims[0] % block != 0)
        return plait_error(PLAIT_CORRUPT,
                           "rows of %" PRId64 " elements are no whole blocks of %s (%" PRId64 " elements)",
                           t->dims[0], plait_dtype_name(t->dtype), block);
    if (bytes < 0)
        return plait_error(PLAIT_CORRUPT, "%" PRId64 " elements of type %s are more than 2^63 bytes", n,
                           plait_dtype_name(t->dtype));
    t->size_bytes = (uint64_t)bytes;
    return PLAIT_OK;
}

/* What follows a tensor's name. Dims are u64 in the file: one above 2^63 comes out negative, and
 * plait_gguf_measure_tensor refuses it. `only_look`: unknown element types are kept with their number and no size, as a
 * tool that describes a file wants them. */
static plait_status read_tensor_shape(plait_gguf_cursor *c, bool only_look, plait_gguf_tensor *t) {
    uint32_t rank = 0;
    PLAIT_TRY(take(c, &rank, sizeof rank, "the number of dims"));
    if (rank > PLAIT_MAX_RANK)
        return plait_error(PLAIT_CORRUPT, "%u dims, at most %d are allowed", rank, PLAIT_MAX_RANK);
    t->rank = (int)rank;
    for (uint32_t i = 0; i < PLAIT_MAX_RANK; i++) t->dims[i] = 1;
    PLAIT_TRY(take(c, t->dims, rank * sizeof t->dims[0], "the dims"));
    PLAIT_TRY(take(c, &t->type_number, sizeof t->type_number, "the element type"));
    PLAIT_TRY(take(c, &t->offset_bytes, sizeof t->offset_bytes, "the data offset"));
    t->type_known = t->type_number < PLAIT_DTYPE_LIMIT && plait_dtype_known((int)t->type_number);
    if (t->type_known) t->dtype = (plait_dtype)t->type_number;
    if (!t->type_known && !only_look)
        return plait_error(PLAIT_UNSUPPORTED, "element type number %u is unknown", t->type_number);
    return plait_gguf_measure_tensor(t);
}

/* One tensor of the list, appended to gguf. The name is copied, for the file's own has no NUL behind it. Offsets are
 * checked later: the start of the data is known only behind the last tensor of the list. */
static plait_status read_tensor(plait_gguf *gguf, size_t part, plait_gguf_cursor *c) {
    plait_gguf_tensor tensor = {.part = (uint32_t)part};
    plait_gguf_string name;
    char shown[PLAIT_GGUF_SHOWN_BYTES];
    bool existed;
    PLAIT_TRY(take_string(c, &name, "a tensor name"));
    PLAIT_TRY(plait_gguf_check_tensor_name(name));
    plait_status status = read_tensor_shape(c, gguf->options.metadata_only, &tensor);
    if (status != PLAIT_OK)
        return plait_error_context(status, "tensor \"%s\"", plait_gguf_shown(name, shown));
    tensor.name = plait_arena_string_n(&gguf->arena, name.bytes, name.length);
    if (!tensor.name) return plait_error_memory("tensor name", name.length);
    PLAIT_TRY(plait_grow(&gguf->tensors, &gguf->tensors_capacity, gguf->n_tensors + 1, sizeof *gguf->tensors,
                         PLAIT_GGUF_MAX_TENSORS, "tensors"));
    PLAIT_TRY(plait_map_put(&gguf->names, tensor.name, name.length, (uint32_t)gguf->n_tensors, &existed));
    if (existed)
        return plait_error(PLAIT_CORRUPT, "tensor \"%s\" appears twice", plait_gguf_shown(name, shown));
    gguf->tensors[gguf->n_tensors++] = tensor;
    return PLAIT_OK;
}

/* The list of tensors of one part; names are unique over all parts. */
static plait_status read_tensors(plait_gguf *gguf, size_t part, plait_gguf_cursor *c, uint64_t count) {
    if (count > PLAIT_GGUF_MAX_TENSORS)
        return plait_error(PLAIT_LIMIT, "%" PRIu64 " tensors stated, at most %u are read", count,
                           PLAIT_GGUF_MAX_TENSORS);
    if (count > bytes_left(c) / LEAST_TENSOR_BYTES)
        return plait_error(PLAIT_CORRUPT,
                           "file is cut: %" PRIu64 " tensors stated, but only %" PRIu64 " bytes are left",
                           count, bytes_left(c));
    for (uint64_t i = 0; i < count; i++) {
        plait_status status = read_tensor(gguf, part, c);
        if (status != PLAIT_OK)
            return plait_error_context(status, "tensor %" PRIu64 " of %" PRIu64, i + 1, count);
    }
    return PLAIT_OK;
}

/* Turns offsets from the start of the data into offsets from the start of the file. Whether the data is there is not
 * asked here but in check.c, which a file that is only looked at never reaches. */
static plait_status place_tensors(plait_gguf *gguf, plait_gguf_source *source, uint64_t header_bytes) {
    uint64_t start;
    if (!plait_align_u64(header_bytes, source->alignment, &start))
        return plait_error(PLAIT_CORRUPT, "header of %" PRIu64 " bytes is too long", header_bytes);
    source->info.data_offset_bytes = start;
    for (size_t i = source->info.first_tensor; i < gguf->n_tensors; i++) {
        plait_gguf_tensor *t = &gguf->tensors[i];
        if (t->offset_bytes % source->alignment != 0)
            return plait_error(PLAIT_CORRUPT,
                               "tensor \"%s\": offset %" PRIu64 " is no multiple of the alignment %u",
                               t->name, t->offset_bytes, source->alignment);
        if (!plait_add_u64(t->offset_bytes, start, &t->offset_bytes))
            return plait_error(PLAIT_CORRUPT, "tensor \"%s\": offset %" PRIu64 " is beyond 2^64", t->name,
                               t->offset_bytes);
    }
    return PLAIT_OK;
}

/* ---- the whole header ---- */

/* n may be anything; a stream is checked by its first 8 bytes. A file that ends inside of the magic is compared as far
 * as it goes, so that a cut GGUF file is called cut and not foreign. */
plait_status plait_gguf_check_magic(const unsigned char *bytes, uint64_t n) {
    uint32_t version = 0;
    if (n == 0) return plait_error(PLAIT_CORRUPT, "file is empty, expected a GGUF file");
    if (memcmp(bytes, "GGUF", n < 4 ? (size_t)n : 4) != 0) {
        char shown[PLAIT_GGUF_SHOWN_BYTES];
        plait_gguf_string first = {(const char *)bytes, n < 4 ? (size_t)n : 4};
        return plait_error(PLAIT_CORRUPT, "not a GGUF file: begins with \"%s\", expected \"GGUF\"",
                           plait_gguf_shown(first, shown));
    }
    if (n < 8) return plait_error(PLAIT_CORRUPT, "file is cut: %" PRIu64 " bytes, a GGUF header has 24", n);
    memcpy(&version, bytes + 4, sizeof version);
    if (version >= OLDEST_VERSION && version <= NEWEST_VERSION) return PLAIT_OK;
    /* A version is a small number; one that is small only when its bytes are swapped was written in the other order. */
    uint32_t swapped = __builtin_bswap32(version);
    if (swapped > 0 && swapped <= UINT16_MAX && version > UINT16_MAX)
        return plait_error(PLAIT_UNSUPPORTED,
                           "GGUF version %u in big-endian byte order; only little-endian files are read",
                           swapped);
    return plait_error(PLAIT_UNSUPPORTED, "GGUF version %u is too %s, versions %d to %d are read", version,
                       version < OLDEST_VERSION ? "old" : "new", OLDEST_VERSION, NEWEST_VERSION);
}

/* The four pieces of a header in file order. Counts come before everything they count. `meta` is filled also when a
 * later piece fails, and is the caller's to release. */
static plait_status parse_header(plait_gguf *gguf, size_t part, plait_gguf_meta *meta) {
    plait_gguf_source *source = &gguf->sources[part];
    plait_gguf_cursor c = {.bytes = source->bytes, .size_bytes = source->info.size_bytes, .at = 8};
    uint64_t n_tensors = 0, n_entries = 0;
    PLAIT_TRY(plait_gguf_check_magic(c.bytes, c.size_bytes));
    memcpy(&source->version, c.bytes + 4, sizeof source->version);
    PLAIT_TRY(take(&c, &n_tensors, sizeof n_tensors, "the tensor count"));
    PLAIT_TRY(take(&c, &n_entries, sizeof n_entries, "the metadata count"));
    source->info.first_tensor = (uint32_t)gguf->n_tensors;
    PLAIT_TRY(read_metadata(&c, &gguf->arena, n_entries, meta));
    PLAIT_TRY(read_alignment(meta, &source->alignment));
    PLAIT_TRY(read_tensors(gguf, part, &c, n_tensors));
    source->info.n_tensors = (uint32_t)n_tensors;
    return place_tensors(gguf, source, c.at);
}

/* The path is put in front once, here. */
plait_status plait_gguf_parse(plait_gguf *gguf, size_t part, plait_gguf_meta *meta) {
    return plait_error_context(parse_header(gguf, part, meta), "%s", gguf->sources[part].path);
}
