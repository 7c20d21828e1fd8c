/* The writer. Entries are laid out as bytes when they are added; tensors are remembered and their data is fetched
 * while writing, one piece at a time, so that a model larger than memory can be written. Offsets are assigned while
 * writing, in the order of the tensors, for the alignment may be set at any time before. Every tensor, the last one too,
 * is padded to the alignment, as other writers do. Not here: splitting into parts.
 *
 * Invariant: whatever a writer accepted, the reader opens: both share the rules in parse.c. A failed call leaves the
 * writer as it was. */
#include "gguf/internal.h"

#include "base/alloc.h"
#include "base/size.h"
#include "base/strbuf.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { FILL_BYTES = 1 << 18, HEAD_BYTES = 24 };

/* `bytes` wins over `fill` where both are given. dtype, dims and size are final when the tensor is added; the offset is
 * not. */
typedef struct writer_tensor {
    plait_gguf_tensor info; /* name borrowed from the arena; bytes borrowed from the caller, or NULL */
    plait_gguf_fill_fn fill;
    void *user;
} writer_tensor;

struct plait_gguf_writer {
    uint32_t version, alignment;
    plait_arena arena; /* keys and tensor names */
    plait_map keys, names;
    plait_strbuf entries; /* all entries as they go into the file */
    uint64_t n_entries;
    writer_tensor *tensors; /* Owned. */
    size_t n_tensors, capacity;
};

/* Arena and maps take no memory yet: one allocation, one way to fail. */
plait_status plait_gguf_writer_create(plait_gguf_writer **out_writer) {
    plait_gguf_writer *w = plait_alloc_array(1, sizeof *w);
    if (!w) return plait_error_memory("GGUF writer", sizeof *w);
    w->version = 3;
    w->alignment = PLAIT_GGUF_DEFAULT_ALIGNMENT;
    plait_arena_init(&w->arena, 0);
    plait_map_init(&w->keys);
    plait_map_init(&w->names);
    plait_strbuf_init(&w->entries, 0);
    *out_writer = w;
    return PLAIT_OK;
}

/* Accepts NULL. Keys and names go with the arena. */
void plait_gguf_writer_destroy(plait_gguf_writer *w) {
    if (!w) return;
    free(w->tensors);
    plait_strbuf_deinit(&w->entries);
    plait_map_deinit(&w->keys);
    plait_map_deinit(&w->names);
    plait_arena_deinit(&w->arena);
    free(w);
}

/* Versions 2 and 3 have the same layout on a little-endian machine. Version 1 had 32-bit counts and is neither written
 * nor read. */
plait_status plait_gguf_writer_set_version(plait_gguf_writer *w, uint32_t version) {
    if (version != 2 && version != 3)
        return plait_error(PLAIT_INVALID_ARGUMENT, "GGUF writer: version %u, expected 2 or 3", version);
    w->version = version;
    return PLAIT_OK;
}

/* The reader's word for a broken rule is CORRUPT; from a caller it is a wrong argument. */
static plait_status as_argument(plait_status status) {
    if (status == PLAIT_CORRUPT || status == PLAIT_UNSUPPORTED) status = PLAIT_INVALID_ARGUMENT;
    return plait_error_context(status, "GGUF writer");
}

/* ---- entries ---- */

/* Failures of the buffer are sticky and asked for once, at the end of an entry. The machine is little-endian (parse.c
 * refuses to compile elsewhere), so numbers go out as they lie in memory. */
static void put(plait_strbuf *s, const void *bytes, size_t n) {
    plait_strbuf_append_n(s, bytes, n);
}

static void put_u32(plait_strbuf *s, uint32_t value) {
    put(s, &value, sizeof value);
}

static void put_u64(plait_strbuf *s, uint64_t value) {
    put(s, &value, sizeof value);
}

/* Length in 64 bits, then the bytes, without a zero byte behind them. */
static void put_string(plait_strbuf *s, plait_gguf_string text) {
    put_u64(s, text.length);
    put(s, text.bytes, text.length);
}

/* A bool is one byte, and the reader takes 0 and 1 only. */
static plait_status check_bools(const plait_gguf_value *value) {
    const uint8_t *bools = value->data;
    for (uint64_t i = 0; i < value->count; i++)
        if (bools[i] > 1)
            return plait_error(PLAIT_INVALID_ARGUMENT, "GGUF writer: bool %" PRIu64 " is %u, expected 0 or 1",
                               i, bools[i]);
    return PLAIT_OK;
}

static plait_status put_array(plait_strbuf *s, const plait_gguf_value *value, int depth);

/* The elements of a value, without types and count. Multiplication is checked although the values are in memory: a
 * caller's count may be wrong, and reading by it would be worse than refusing. Strings are not checked for UTF-8,
 * neither here nor by the reader: only keys and names are. */
static plait_status put_elems(plait_strbuf *s, const plait_gguf_value *value, int depth) {
    size_t each = plait_gguf_type_bytes(value->elem_type), bytes;
    if (value->elem_type == PLAIT_GGUF_STRING) {
        for (uint64_t i = 0; i < value->count; i++) put_string(s, value->strings[i]);
    } else if (value->elem_type == PLAIT_GGUF_ARRAY) {
        for (uint64_t i = 0; i < value->count; i++) PLAIT_TRY(put_array(s, &value->arrays[i], depth + 1));
    } else if (each == 0) {
        return plait_error(PLAIT_INVALID_ARGUMENT, "GGUF writer: element type %u is unknown",
                           (unsigned)value->elem_type);
    } else {
        if (value->elem_type == PLAIT_GGUF_BOOL) PLAIT_TRY(check_bools(value));
        if (!plait_mul_size((size_t)value->count, each, &bytes))
            return plait_error(PLAIT_INVALID_ARGUMENT, "GGUF writer: %" PRIu64 " values are too many",
                               value->count);
        put(s, value->data, bytes);
    }
    return PLAIT_OK;
}

/* Element type, count, elements; the depth is bounded as in the reader. */
static plait_status put_array(plait_strbuf *s, const plait_gguf_value *value, int depth) {
    if (value->type != PLAIT_GGUF_ARRAY || depth > PLAIT_GGUF_MAX_DEPTH)
        return plait_error(PLAIT_INVALID_ARGUMENT,
                           "GGUF writer: expected an array at most %d deep, found %s at depth %d",
                           PLAIT_GGUF_MAX_DEPTH, plait_gguf_type_name(value->type), depth);
    put_u32(s, (uint32_t)value->elem_type);
    put_u64(s, value->count);
    return put_elems(s, value, depth);
}

/* Type number and value. A scalar is an array of one, see plait_gguf_value. Nothing is taken back here: the caller cuts
 * the buffer to where the entry began. */
static plait_status put_value(plait_strbuf *s, const plait_gguf_value *value) {
    put_u32(s, (uint32_t)value->type);
    if (value->type == PLAIT_GGUF_ARRAY) return put_array(s, value, 1);
    if (value->count != 1 || value->elem_type != value->type)
        return plait_error(
            PLAIT_INVALID_ARGUMENT, "GGUF writer: a scalar %s with %" PRIu64 " elements of type %s",
            plait_gguf_type_name(value->type), value->count, plait_gguf_type_name(value->elem_type));
    return put_elems(s, value, 0);
}

/* The alignment that the entry asks for; 0 when it is another key. The reader takes u32 only (read_alignment), so the
 * writer must not let anything else pass. memcpy, because the caller's value may lie at any address. */
static plait_status alignment_of(plait_gguf_string key, const plait_gguf_value *value, uint32_t *out) {
    *out = 0;
    if (!plait_gguf_string_is(key, "general.alignment")) return PLAIT_OK;
    if (value->type != PLAIT_GGUF_U32)
        return plait_error(PLAIT_INVALID_ARGUMENT, "GGUF writer: general.alignment: expected u32, found %s",
                           plait_gguf_type_name(value->type));
    memcpy(out, value->data, sizeof *out);
    return as_argument(plait_gguf_check_alignment(*out));
}

/* Registers a copy of `text` in map; a second time is an error. The map borrows its keys, hence the copy in the arena.
 * A name that fails later stays in the arena, unused. The look-up comes before the copy, so that a name given twice
 * costs no memory each time. */
static plait_status add_name(plait_gguf_writer *w, plait_map *map, const char *what, plait_gguf_string text,
                             uint32_t index, const char **out_copy) {
    char shown[PLAIT_GGUF_SHOWN_BYTES];
    uint32_t before = 0;
    if (plait_map_get(map, text.bytes, text.length, &before))
        return plait_error(PLAIT_INVALID_ARGUMENT, "GGUF writer: %s \"%s\" is there already", what,
                           plait_gguf_shown(text, shown));
    const char *copy = plait_arena_string_n(&w->arena, text.bytes, text.length);
    if (!copy) return plait_error_memory(what, text.length);
    PLAIT_TRY(plait_map_put(map, copy, text.length, index, NULL));
    *out_copy = copy;
    return PLAIT_OK;
}

/* The registration comes last, because it alone cannot be taken back. */
plait_status plait_gguf_writer_add(plait_gguf_writer *w, plait_gguf_string key,
                                   const plait_gguf_value *value) {
    plait_strbuf *s = &w->entries;
    size_t start = s->length;
    uint32_t alignment = 0;
    const char *copy = NULL;
    if (w->n_entries >= PLAIT_GGUF_MAX_KEYS)
        return plait_error(PLAIT_LIMIT, "GGUF writer: more than %u metadata entries", PLAIT_GGUF_MAX_KEYS);
    PLAIT_TRY(as_argument(plait_gguf_check_key(key)));
    PLAIT_TRY(alignment_of(key, value, &alignment));
    /* Written first and taken back on failure: one pass, and the limits of the buffer are those of the entry. */
    put_string(s, key);
    plait_status status = put_value(s, value);
    if (status == PLAIT_OK) status = plait_strbuf_status(s);
    if (status == PLAIT_OK)
        status = add_name(w, &w->keys, "metadata key", key, (uint32_t)w->n_entries, &copy);
    if (status != PLAIT_OK) {
        s->length = start;
        if (s->bytes) s->bytes[start] = '\0';
        s->status = PLAIT_OK;
        return status;
    }
    if (alignment) w->alignment = alignment;
    w->n_entries++;
    return PLAIT_OK;
}

/* ---- conveniences over plait_gguf_writer_add ---- */

static plait_gguf_string string_of(const char *text) {
    return (plait_gguf_string){text, strlen(text)};
}

/* `data` is read before the call returns: callers pass the address of a parameter. */
static plait_status add_scalar(plait_gguf_writer *w, const char *key, plait_gguf_type type,
                               const void *data) {
    return plait_gguf_writer_add(
        w, string_of(key), &(plait_gguf_value){.type = type, .elem_type = type, .count = 1, .data = data});
}

plait_status plait_gguf_writer_add_u32(plait_gguf_writer *w, const char *key, uint32_t value) {
    return add_scalar(w, key, PLAIT_GGUF_U32, &value);
}

plait_status plait_gguf_writer_add_i32(plait_gguf_writer *w, const char *key, int32_t value) {
    return add_scalar(w, key, PLAIT_GGUF_I32, &value);
}

plait_status plait_gguf_writer_add_u64(plait_gguf_writer *w, const char *key, uint64_t value) {
    return add_scalar(w, key, PLAIT_GGUF_U64, &value);
}

plait_status plait_gguf_writer_add_f32(plait_gguf_writer *w, const char *key, float value) {
    return add_scalar(w, key, PLAIT_GGUF_F32, &value);
}

plait_status plait_gguf_writer_add_bool(plait_gguf_writer *w, const char *key, bool value) {
    uint8_t byte = value;
    return add_scalar(w, key, PLAIT_GGUF_BOOL, &byte);
}

plait_status plait_gguf_writer_add_string(plait_gguf_writer *w, const char *key, const char *value) {
    plait_gguf_string text = string_of(value);
    return add_scalar(w, key, PLAIT_GGUF_STRING, &text);
}

plait_status plait_gguf_writer_add_array(plait_gguf_writer *w, const char *key, plait_gguf_type elem_type,
                                         const void *elems, uint64_t count) {
    return plait_gguf_writer_add(
        w, string_of(key),
        &(plait_gguf_value){.type = PLAIT_GGUF_ARRAY, .elem_type = elem_type, .count = count, .data = elems});
}

/* `list` ends with NULL, or is NULL. */
static bool listed(plait_gguf_string key, const char *const *list) {
    for (; list && *list; list++)
        if (plait_gguf_string_is(key, *list)) return true;
    return false;
}

/* Types and order of the file are kept. A failure in the middle leaves the entries before it added. A key that the
 * writer has already fails as added twice; `skip` is how a caller replaces one. */
plait_status plait_gguf_writer_add_entries(plait_gguf_writer *w, const plait_gguf *gguf,
                                           const char *const *skip) {
    for (size_t i = 0; i < gguf->meta.n_entries; i++) {
        const plait_gguf_entry *entry = &gguf->meta.entries[i];
        if (!listed(entry->key, skip)) PLAIT_TRY(plait_gguf_writer_add(w, entry->key, &entry->value));
    }
    return PLAIT_OK;
}

/* ---- tensors ---- */

/* Checked by the reader's own rules, under its messages. */
plait_status plait_gguf_writer_add_tensor(plait_gguf_writer *w, const plait_gguf_tensor_source *source) {
    plait_gguf_string name = string_of(source->name);
    writer_tensor added = {.fill = source->fill, .user = source->user};
    plait_gguf_tensor *t = &added.info;
    PLAIT_TRY(as_argument(plait_gguf_check_tensor_name(name)));
    if (source->rank < 0 || source->rank > PLAIT_MAX_RANK)
        return plait_error(PLAIT_INVALID_ARGUMENT, "GGUF writer: tensor \"%s\": %d dims, expected 0 to %d",
                           source->name, source->rank, PLAIT_MAX_RANK);
    if (!plait_dtype_known((int)source->dtype))
        return plait_error(PLAIT_INVALID_ARGUMENT, "GGUF writer: tensor \"%s\": element type %d is unknown",
                           source->name, (int)source->dtype);
    if (!source->bytes && !source->fill)
        return plait_error(PLAIT_INVALID_ARGUMENT, "GGUF writer: tensor \"%s\": neither bytes nor fill",
                           source->name);
    t->dtype = source->dtype;
    t->type_number = (uint32_t)source->dtype;
    t->type_known = true;
    t->rank = source->rank;
    t->bytes = source->bytes;
    for (int i = 0; i < PLAIT_MAX_RANK; i++) t->dims[i] = i < t->rank ? source->dims[i] : 1;
    plait_status status = plait_gguf_measure_tensor(t);
    if (status != PLAIT_OK) return as_argument(plait_error_context(status, "tensor \"%s\"", source->name));
    /* Room first, then the name, then the tensor: the last step cannot fail, so a failed call leaves no trace. */
    PLAIT_TRY(plait_grow(&w->tensors, &w->capacity, w->n_tensors + 1, sizeof *w->tensors,
                         PLAIT_GGUF_MAX_TENSORS, "GGUF writer: tensors"));
    PLAIT_TRY(add_name(w, &w->names, "tensor", name, (uint32_t)w->n_tensors, &t->name));
    w->tensors[w->n_tensors++] = added;
    return PLAIT_OK;
}

/* ---- layout ---- */

/* Where the tensor after one at `offset` begins, both from the start of the data. w->alignment may change until the
 * writing begins, so offsets are not stored but walked each time. */
static plait_status next_offset(const plait_gguf_writer *w, const writer_tensor *t, uint64_t offset,
                                uint64_t *out) {
    uint64_t end = 0;
    if (plait_add_u64(offset, t->info.size_bytes, &end) && plait_align_u64(end, w->alignment, out))
        return PLAIT_OK;
    return plait_error(PLAIT_INVALID_ARGUMENT, "GGUF writer: tensor \"%s\" ends beyond 2^64 bytes",
                       t->info.name);
}

/* The list of tensors as it goes into the file, and the size of all data with padding. */
static plait_status put_tensors(const plait_gguf_writer *w, plait_strbuf *s, uint64_t *out_data_bytes) {
    uint64_t offset = 0;
    for (size_t i = 0; i < w->n_tensors; i++) {
        const plait_gguf_tensor *t = &w->tensors[i].info;
        put_string(s, string_of(t->name));
        put_u32(s, (uint32_t)t->rank);
        put(s, t->dims, (size_t)t->rank * sizeof t->dims[0]);
        put_u32(s, t->type_number);
        put_u64(s, offset);
        PLAIT_TRY(next_offset(w, &w->tensors[i], offset, &offset));
    }
    *out_data_bytes = offset;
    return plait_strbuf_status(s);
}

/* Bytes of the header before padding, and of the whole file; `list` receives the list of tensors. The offsets in `list`
 * are those that write_all keeps to, for both step by next_offset's rule. `list` was initialised by the caller, who
 * releases it in either case. */
static plait_status measure(const plait_gguf_writer *w, plait_strbuf *list, uint64_t *out_header,
                            uint64_t *out_total) {
    uint64_t data = 0, padded = 0, header = HEAD_BYTES + (uint64_t)w->entries.length;
    PLAIT_TRY(put_tensors(w, list, &data));
    header += list->length; /* both texts are at most 1 GiB */
    if (!plait_align_u64(header, w->alignment, &padded) || !plait_add_u64(padded, data, out_total))
        return plait_error(PLAIT_INVALID_ARGUMENT, "GGUF writer: the file would be larger than 2^64 bytes");
    *out_header = header;
    return PLAIT_OK;
}

/* Lays everything out but the data, so it costs as much as the list of tensors. */
plait_status plait_gguf_writer_size(const plait_gguf_writer *w, uint64_t *out_size_bytes) {
    plait_strbuf list;
    uint64_t header = 0, total = 0;
    plait_strbuf_init(&list, 0);
    plait_status status = measure(w, &list, &header, &total);
    plait_strbuf_deinit(&list);
    if (status == PLAIT_OK) *out_size_bytes = total;
    return status;
}

/* ---- writing ---- */

/* Where bytes go, and one buffer for all tensors whose data comes in pieces. */
typedef struct sink {
    plait_gguf_sink_fn write;
    void *user;
    unsigned char *buffer; /* FILL_BYTES, for fill functions */
} sink;

/* Zeros from `at` to the next multiple of the alignment. `at` may count from any multiple of the alignment, for only
 * the remainder matters. */
static plait_status write_padding(const sink *out, uint64_t at, uint64_t alignment) {
    static const unsigned char zeros[4096];
    uint64_t n = (alignment - at % alignment) % alignment;
    for (; n > sizeof zeros; n -= sizeof zeros) PLAIT_TRY(out->write(out->user, zeros, sizeof zeros));
    return n ? out->write(out->user, zeros, (size_t)n) : PLAIT_OK;
}

/* The bytes of one tensor, in one piece when they are at hand, else in pieces from its function. Data at hand is
 * written without a copy; a sink must take any size. A fill function gets offset, room and length, and may read from
 * wherever it likes; the one buffer is why a model of any size takes 256 KiB. */
static plait_status write_data(const sink *out, const writer_tensor *t) {
    uint64_t size = t->info.size_bytes;
    if (t->info.bytes && size <= SIZE_MAX) return out->write(out->user, t->info.bytes, (size_t)size);
    for (uint64_t at = 0; at < size;) {
        size_t n = size - at < FILL_BYTES ? (size_t)(size - at) : FILL_BYTES;
        PLAIT_TRY(plait_error_context(t->fill(t->user, at, out->buffer, n), "tensor \"%s\"", t->info.name));
        PLAIT_TRY(out->write(out->user, out->buffer, n));
        at += n;
    }
    return PLAIT_OK;
}

/* Everything before the data. */
static plait_status write_header(const plait_gguf_writer *w, const sink *out, const plait_strbuf *list,
                                 uint64_t header) {
    unsigned char head[HEAD_BYTES] = "GGUF";
    uint64_t counts[2] = {w->n_tensors, w->n_entries};
    memcpy(head + 4, &w->version, 4);
    memcpy(head + 8, counts, sizeof counts);
    PLAIT_TRY(out->write(out->user, head, sizeof head));
    if (w->entries.length) PLAIT_TRY(out->write(out->user, w->entries.bytes, w->entries.length));
    if (list->length) PLAIT_TRY(out->write(out->user, list->bytes, list->length));
    return write_padding(out, header, w->alignment);
}

/* The sizes are known before the first byte goes out, so a file too large fails without writing. */
static plait_status write_all(const plait_gguf_writer *w, const sink *out, plait_strbuf *list) {
    uint64_t header = 0, total = 0;
    PLAIT_TRY(measure(w, list, &header, &total));
    PLAIT_TRY(write_header(w, out, list, header));
    for (size_t i = 0; i < w->n_tensors; i++) {
        PLAIT_TRY(write_data(out, &w->tensors[i]));
        PLAIT_TRY(write_padding(out, w->tensors[i].info.size_bytes, w->alignment)); /* each starts aligned */
    }
    return PLAIT_OK;
}

/* One buffer for all tensors; the writer itself is only read, so several writes may follow each other. The sink sees
 * bytes in file order and never a second time; it may be a pipe. */
plait_status plait_gguf_writer_write_to(const plait_gguf_writer *w, plait_gguf_sink_fn write, void *user) {
    sink out = {.write = write, .user = user, .buffer = plait_alloc_array(FILL_BYTES, 1)};
    plait_strbuf list;
    if (!out.buffer) return plait_error_memory("GGUF writer", FILL_BYTES);
    plait_strbuf_init(&list, 0);
    plait_status status = write_all(w, &out, &list);
    plait_strbuf_deinit(&list);
    free(out.buffer);
    return status;
}

/* The sink for files. */
static plait_status to_file(void *user, const void *bytes, size_t size_bytes) {
    return plait_file_writer_write(user, bytes, size_bytes);
}

/* On any failure the temporary goes and the file that was at `path` stays. */
plait_status plait_gguf_writer_write(const plait_gguf_writer *w, const char *path) {
    plait_file_writer file = {0};
    PLAIT_TRY(plait_file_writer_open(&file, path));
    plait_status status = plait_gguf_writer_write_to(w, to_file, &file);
    if (status == PLAIT_OK) return plait_file_writer_commit(&file);
    plait_file_writer_abandon(&file);
    return status;
}
