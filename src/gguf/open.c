/* Opening, parts of split files, references. Not here: the format itself (parse.c, check.c).
 *
 * A split file is opened through any part: the part says how many there are, its name says where the others lie, and
 * the whole is then opened from the first one. What the parts must agree on:
 *
 *   name             PREFIX-00002-of-00003.gguf: the number from 1, the count
 *   split.no         the number from 0
 *   split.count      the count, the same in all; absent, 0 or 1: not split
 *   split.tensors.count   tensors of all parts together, stated by the first; may be absent
 *
 * Metadata is that of the first part; each part has its own alignment and its own data. Invariant: a plait_gguf that
 * a caller sees is complete: all parts
 * there, agreeing on their number, and no tensor in two of them. */
#include "gguf/internal.h"

#include "base/alloc.h"
#include "base/strbuf.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- life ---- */

/* Gives back whatever of a source there is; `bytes` is borrowed from one of the others. Only one of file and copy is
 * set; closing the other, zeroed one does nothing. */
static void source_deinit(plait_gguf_source *source) {
    plait_file_close(&source->file);
    free(source->copy);
    free(source->path);
}

/* Also for half-built objects: everything is zeroed before it is filled. */
static void gguf_destroy(plait_gguf *gguf) {
    if (!gguf) return;
    for (size_t i = 0; i < gguf->n_sources; i++) source_deinit(&gguf->sources[i]);
    free(gguf->sources);
    free(gguf->tensors);
    plait_gguf_meta_deinit(&gguf->meta);
    plait_map_deinit(&gguf->names);
    plait_arena_deinit(&gguf->arena);
    free(gguf);
}

/* With one reference, the caller's; options are copied, NULL means zeroed. */
static plait_status gguf_create(plait_gguf **out, const plait_gguf_options *options) {
    plait_gguf *gguf = plait_alloc_array(1, sizeof *gguf);
    if (!gguf) return plait_error_memory("GGUF file", sizeof *gguf);
    atomic_init(&gguf->references, 1);
    if (options) gguf->options = *options;
    plait_arena_init(&gguf->arena, 0);
    plait_map_init(&gguf->meta.keys);
    plait_map_init(&gguf->names);
    *out = gguf;
    return PLAIT_OK;
}

/* Relaxed is enough: who retains has a reference, so the count cannot reach 0 meanwhile. Releasing orders all uses
 * before the end, hence acquire and release there. */
plait_gguf *plait_gguf_retain(plait_gguf *gguf) {
    atomic_fetch_add_explicit(&gguf->references, 1, memory_order_relaxed);
    return gguf;
}

void plait_gguf_release(plait_gguf *gguf) {
    if (gguf && atomic_fetch_sub_explicit(&gguf->references, 1, memory_order_acq_rel) == 1)
        gguf_destroy(gguf);
}

/* ---- sources ---- */

/* Appends a source with a copy of path; its bytes are not set yet. Growing moves the sources, so nobody may keep a
 * pointer to one across a call of this. */
static plait_status add_source(plait_gguf *gguf, const char *path, plait_gguf_source **out) {
    PLAIT_TRY(plait_grow(&gguf->sources, &gguf->sources_capacity, gguf->n_sources + 1, sizeof *gguf->sources,
                         PLAIT_GGUF_MAX_PARTS, "parts"));
    char *copy = plait_string_copy(path);
    if (!copy) return plait_error_memory("path", strlen(path));
    plait_gguf_source *source = &gguf->sources[gguf->n_sources++];
    *source = (plait_gguf_source){.path = copy, .info.path = copy};
    *out = source;
    return PLAIT_OK;
}

/* Appends a source with the bytes of a file, mapped unless the caller asked for reading. device and inode are the
 * file's identity, by which models share weights. */
static plait_status add_file(plait_gguf *gguf, const char *path) {
    plait_gguf_source *source = NULL;
    PLAIT_TRY(add_source(gguf, path, &source));
    PLAIT_TRY(plait_file_open(&source->file, path, !gguf->options.read_into_memory));
    source->bytes = source->file.bytes;
    source->info.size_bytes = source->file.size_bytes;
    source->info.device_id = source->file.device_id;
    source->info.inode = source->file.inode;
    source->info.mapped = source->file.mapped;
    return PLAIT_OK;
}

/* ---- split files ---- */

/* What a part says about itself; count 0 in files that are not split. */
typedef struct split_facts {
    uint64_t number; /* from 0 */
    uint64_t count;
    uint64_t n_tensors; /* of all parts; UINT64_MAX when not stated */
} split_facts;

/* An integer of any type; writers of parts differ in which one they choose. A negative number is refused with the same
 * message as a wrong type. */
static plait_status read_fact(const plait_gguf_meta *meta, const char *key, uint64_t otherwise,
                              uint64_t *out) {
    const plait_gguf_value *value = plait_gguf_meta_find(meta, key);
    uint64_t number = otherwise;
    if (value && (value->type == PLAIT_GGUF_ARRAY || !plait_gguf_elem_u64(value, 0, &number)))
        return plait_error(PLAIT_CORRUPT, "metadata \"%s\": expected an integer of at least 0, found %s", key,
                           plait_gguf_type_name(value->type));
    *out = number;
    return PLAIT_OK;
}

/* split.no counts from 0, the numbers in file names from 1: all messages use the latter. A count of 1 is a whole file
 * that some tool has named as a split one. */
static plait_status read_split_facts(const plait_gguf_meta *meta, split_facts *out) {
    split_facts facts = {0};
    PLAIT_TRY(read_fact(meta, "split.count", 0, &facts.count));
    PLAIT_TRY(read_fact(meta, "split.no", 0, &facts.number));
    PLAIT_TRY(read_fact(meta, "split.tensors.count", UINT64_MAX, &facts.n_tensors));
    if (facts.count > PLAIT_GGUF_MAX_PARTS)
        return plait_error(PLAIT_LIMIT, "split.count is %" PRIu64 ", at most %u parts are read", facts.count,
                           PLAIT_GGUF_MAX_PARTS);
    if (facts.count > 0 && facts.number >= facts.count)
        return plait_error(PLAIT_CORRUPT, "split.no is %" PRIu64 ", but split.count is %" PRIu64,
                           facts.number, facts.count);
    *out = facts;
    return PLAIT_OK;
}

/* Exactly five decimal digits, as the names of parts have. */
static bool five_digits(const char *text, unsigned *out) {
    unsigned value = 0;
    for (int i = 0; i < 5; i++) {
        if (text[i] < '0' || text[i] > '9') return false;
        value = value * 10 + (unsigned)(text[i] - '0');
    }
    *out = value;
    return true;
}

/* Takes PREFIX-00002-of-00003.gguf apart: the length of PREFIX, 2 and 3. PREFIX must not be empty. Only the end of the
 * name is looked at, so folders with such names do no harm. */
static bool parse_part_name(const char *path, size_t *out_prefix, unsigned *out_number, unsigned *out_count) {
    enum { TAIL = sizeof "-00001-of-00001.gguf" - 1 };
    size_t n = strlen(path);
    if (n <= TAIL) return false;
    const char *tail = path + n - TAIL;
    if (tail[0] != '-' || !five_digits(tail + 1, out_number) || memcmp(tail + 6, "-of-", 4) != 0 ||
        !five_digits(tail + 10, out_count) || strcmp(tail + 15, ".gguf") != 0)
        return false;
    *out_prefix = n - TAIL;
    return true;
}

/* Adds, parses and checks part `number` (from 0) of a file whose first part has `facts`. Metadata of later parts is
 * read for its split keys, then dropped; what gguf has got of the part stays its own, also on failure. */
static plait_status add_part(plait_gguf *gguf, const char *path, uint64_t number, const split_facts *facts) {
    plait_gguf_meta meta = {0};
    split_facts own = {0};
    size_t index = gguf->n_sources;
    plait_status status = add_file(gguf, path);
    if (status == PLAIT_NOT_FOUND)
        return plait_error_context(status, "part %" PRIu64 " of %" PRIu64 " is missing", number + 1,
                                   facts->count);
    if (status == PLAIT_OK) status = plait_gguf_parse(gguf, index, &meta);
    if (status == PLAIT_OK) status = plait_error_context(read_split_facts(&meta, &own), "%s", path);
    if (status == PLAIT_OK && (own.number != number || own.count != facts->count))
        status = plait_error(PLAIT_CORRUPT,
                             "%s: expected part %" PRIu64 " of %" PRIu64 ", the file says it is part %" PRIu64
                             " of %" PRIu64,
                             path, number + 1, facts->count, own.number + 1, own.count);
    plait_gguf_meta_deinit(&meta);
    return status;
}

/* `path` is that of the first part, which is parsed already. */
static plait_status add_other_parts(plait_gguf *gguf, const char *path, size_t prefix,
                                    const split_facts *facts) {
    plait_strbuf name;
    plait_strbuf_init(&name, 0);
    plait_status status = PLAIT_OK;
    for (uint64_t i = 1; i < facts->count && status == PLAIT_OK; i++) {
        plait_strbuf_clear(&name);
        plait_strbuf_append_n(&name, path, prefix);
        plait_strbuf_printf(&name, "-%05" PRIu64 "-of-%05" PRIu64 ".gguf", i + 1, facts->count);
        status = plait_strbuf_status(&name);
        if (status == PLAIT_OK) status = add_part(gguf, plait_strbuf_text(&name), i, facts);
    }
    plait_strbuf_deinit(&name);
    if (status == PLAIT_OK && facts->n_tensors != UINT64_MAX && facts->n_tensors != gguf->n_tensors)
        status =
            plait_error(PLAIT_CORRUPT,
                        "%s: split.tensors.count is %" PRIu64 ", but the %" PRIu64 " parts hold %zu tensors",
                        path, facts->n_tensors, facts->count, gguf->n_tensors);
    return status;
}

/* The path of the first part, from that of any. */
static plait_status first_part_path(const char *path, size_t prefix, uint64_t count, char **out) {
    plait_strbuf name;
    plait_strbuf_init(&name, 0);
    plait_strbuf_append_n(&name, path, prefix);
    plait_strbuf_printf(&name, "-%05d-of-%05" PRIu64 ".gguf", 1, count);
    plait_status status = plait_strbuf_status(&name);
    if (status == PLAIT_OK) *out = plait_strbuf_take(&name);
    plait_strbuf_deinit(&name);
    return status;
}

/* Checks that the name of a part agrees with what the part says. Only names lead to the other parts; one that was
 * renamed is refused here, and not by a part that seems to be missing. *out_prefix is the length of what all names of
 * the parts begin with, folder included. */
static plait_status check_part_name(const char *path, const split_facts *facts, size_t *out_prefix) {
    unsigned number, count;
    if (!parse_part_name(path, out_prefix, &number, &count))
        return plait_error(PLAIT_CORRUPT,
                           "%s: is part %" PRIu64 " of %" PRIu64 ", so its name must end in -%05" PRIu64
                           "-of-%05" PRIu64 ".gguf for the others to be found",
                           path, facts->number + 1, facts->count, facts->number + 1, facts->count);
    if (number != facts->number + 1 || count != facts->count)
        return plait_error(PLAIT_CORRUPT,
                           "%s: the name says part %u of %u, the file says it is part %" PRIu64
                           " of %" PRIu64,
                           path, number, count, facts->number + 1, facts->count);
    return PLAIT_OK;
}

/* ---- opening ---- */

/* The last step of every open: proves the data's ranges, then hands out addresses. `bytes` of tensors stay NULL in a
 * file opened for its metadata alone; nothing may read data there. */
static plait_status finish(plait_gguf *gguf) {
    if (gguf->options.metadata_only) return PLAIT_OK;
    PLAIT_TRY(plait_gguf_check_tensors(gguf));
    for (size_t i = 0; i < gguf->n_tensors; i++) {
        plait_gguf_tensor *t = &gguf->tensors[i];
        t->bytes = gguf->sources[t->part].bytes + t->offset_bytes;
    }
    return PLAIT_OK;
}

/* Opens what lies at path. A part that is not the first sets *out_first (the caller frees) and stops. `through` is the
 * part by which this first one was found, or NULL. single_part opens a part as if it were whole, for tools that look at
 * one; its tensors are those of the part. */
static plait_status fill_from_file(plait_gguf *gguf, const char *path, const char *through,
                                   char **out_first) {
    split_facts facts = {0};
    size_t prefix = 0;
    plait_status status = add_file(gguf, path);
    if (status == PLAIT_NOT_FOUND && through)
        return plait_error_context(status, "%s: the first part is missing", through);
    PLAIT_TRY(status);
    PLAIT_TRY(plait_gguf_parse(gguf, 0, &gguf->meta));
    PLAIT_TRY(plait_error_context(read_split_facts(&gguf->meta, &facts), "%s", path));
    if (facts.count > 1 && !gguf->options.single_part) {
        PLAIT_TRY(check_part_name(path, &facts, &prefix));
        if (facts.number > 0) return first_part_path(path, prefix, facts.count, out_first);
        PLAIT_TRY(add_other_parts(gguf, path, prefix, &facts));
    } else if (through) {
        return plait_error(PLAIT_CORRUPT,
                           "%s: expected part 1 of the file that %s is a part of, found a whole file", path,
                           through);
    }
    return finish(gguf);
}

/* One try at a path. On success either *out is set, or *out_first names the path to open instead. A part that is not
 * the first is parsed in full before its first one is opened: the name alone is not believed. */
static plait_status open_path(plait_gguf **out, const char *path, const char *through,
                              const plait_gguf_options *options, char **out_first) {
    plait_gguf *gguf = NULL;
    PLAIT_TRY(gguf_create(&gguf, options));
    plait_status status = fill_from_file(gguf, path, through, out_first);
    if (status != PLAIT_OK || *out_first)
        gguf_destroy(gguf);
    else
        *out = gguf;
    return status;
}

/* Two tries at most: through a later part to the first one. The later part is opened again among the others. */
plait_status plait_gguf_open(plait_gguf **out_gguf, const char *path, const plait_gguf_options *options) {
    char *first = NULL, *again = NULL;
    PLAIT_TRY(open_path(out_gguf, path, NULL, options, &first));
    if (!first) return PLAIT_OK;
    plait_status status = open_path(out_gguf, first, path, options, &again);
    if (again) /* cannot be: name and content of a part were compared */
        status =
            plait_error(PLAIT_CORRUPT, "%s: expected the first part of a split file, found another", first);
    free(first);
    free(again);
    return status;
}

/* Opens the bytes of source 0, which no path leads to. */
static plait_status fill_from_bytes(plait_gguf *gguf) {
    split_facts facts = {0};
    const char *path = gguf->sources[0].path;
    PLAIT_TRY(plait_gguf_parse(gguf, 0, &gguf->meta));
    PLAIT_TRY(plait_error_context(read_split_facts(&gguf->meta, &facts), "%s", path));
    if (facts.count > 1 && !gguf->options.single_part)
        return plait_error(PLAIT_UNSUPPORTED,
                           "%s: is part %" PRIu64 " of %" PRIu64 "; split files are opened by path", path,
                           facts.number + 1, facts.count);
    return finish(gguf);
}

/* Borrows the caller's bytes, or copies them to where tensor data is aligned. 16 bytes is what plait_gguf_tensor.bytes
 * promises, as far as the file's alignment goes. Borrowed bytes must outlive the plait_gguf. */
static plait_status set_memory(plait_gguf_source *source, const void *bytes, size_t size_bytes) {
    source->bytes = bytes;
    source->info.size_bytes = size_bytes;
    if ((uintptr_t)bytes % 16 == 0 || size_bytes == 0) return PLAIT_OK;
    source->copy = plait_alloc_array(size_bytes, 1);
    if (!source->copy) return plait_error_memory("copy of a GGUF file", size_bytes);
    memcpy(source->copy, bytes, size_bytes);
    source->bytes = source->copy;
    return PLAIT_OK;
}

/* size_bytes 0 reaches the parser, which says that the file is empty. */
plait_status plait_gguf_open_memory(plait_gguf **out_gguf, const void *bytes, size_t size_bytes,
                                    const plait_gguf_options *options) {
    plait_gguf *gguf = NULL;
    plait_gguf_source *source = NULL;
    PLAIT_TRY(gguf_create(&gguf, options));
    plait_status status = add_source(gguf, "memory", &source);
    if (status == PLAIT_OK) status = set_memory(source, bytes, size_bytes);
    if (status == PLAIT_OK) status = fill_from_bytes(gguf);
    if (status == PLAIT_OK)
        *out_gguf = gguf;
    else
        gguf_destroy(gguf);
    return status;
}

/* Reads to the end: a short read means nothing, only a read of 0 bytes is the end. The magic is looked at as soon as 8
 * bytes are there: a wrong stream of gigabytes is refused at once. The buffer is given to the source even after a
 * failure, which frees it with everything else. A stream has no length to ask for, so the buffer doubles, which copies
 * a byte about once on average. */
static plait_status read_stream(plait_gguf_source *source, plait_gguf_read_fn read, void *user,
                                uint64_t max_bytes) {
    enum { CHUNK = 1 << 16, HEAD = 8 };
    unsigned char *bytes = NULL;
    size_t capacity = 0, length = 0, n = 0;
    bool known = false;
    plait_status status;
    do {
        status = plait_grow(&bytes, &capacity, length + CHUNK, 1, SIZE_MAX / 2, "stream");
        if (status == PLAIT_OK) status = read(user, bytes + length, capacity - length, &n);
        if (status != PLAIT_OK) break;
        length += n;
        if (max_bytes && length > max_bytes)
            status = plait_error(PLAIT_LIMIT, "stream: more than %" PRIu64 " bytes", max_bytes);
        if (status == PLAIT_OK && !known && (length >= HEAD || n == 0)) {
            status = plait_error_context(plait_gguf_check_magic(bytes, length), "stream");
            known = true;
        }
    } while (n > 0 && status == PLAIT_OK);
    source->copy = bytes;
    source->bytes = bytes;
    source->info.size_bytes = length;
    return status;
}

plait_status plait_gguf_open_stream(plait_gguf **out_gguf, plait_gguf_read_fn read, void *user,
                                    uint64_t max_bytes, const plait_gguf_options *options) {
    plait_gguf *gguf = NULL;
    plait_gguf_source *source = NULL;
    PLAIT_TRY(gguf_create(&gguf, options));
    plait_status status = add_source(gguf, "stream", &source);
    if (status == PLAIT_OK) status = read_stream(source, read, user, max_bytes);
    if (status == PLAIT_OK) status = fill_from_bytes(gguf);
    if (status == PLAIT_OK)
        *out_gguf = gguf;
    else
        gguf_destroy(gguf);
    return status;
}
