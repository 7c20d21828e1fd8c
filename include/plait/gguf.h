/* GGUF files: the container in which models come. A reader that trusts nothing in the file, and a writer.
 *
 * A file holds metadata (keys with typed values) and tensors (name, element type, dims, bytes). The reader
 * accepts versions 2 and 3 of the format, little endian, alone or split into parts named
 * PREFIX-00001-of-0000N.gguf. It checks every count, length, offset and range before it is used: after a
 * successful open, every pointer it hands out may be read over its whole stated length. Nothing here knows
 * what a key or a tensor means; that is the business of whoever reads it.
 *
 * Facts about the format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
 *
 * Threading: an open plait_gguf never changes; any number of threads may read it, retain and release it. A
 * writer belongs to one thread at a time.
 */
#ifndef PLAIT_GGUF_H
#define PLAIT_GGUF_H

#include "plait/types.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Types of metadata values: X(NAME, number in the file, name in messages, bytes of one value, 0: not fixed). */
#define PLAIT_GGUF_TYPE_LIST(X)                                                                              \
    X(U8, 0, "u8", 1)                                                                                        \
    X(I8, 1, "i8", 1)                                                                                        \
    X(U16, 2, "u16", 2)                                                                                      \
    X(I16, 3, "i16", 2)                                                                                      \
    X(U32, 4, "u32", 4)                                                                                      \
    X(I32, 5, "i32", 4)                                                                                      \
    X(F32, 6, "f32", 4)                                                                                      \
    X(BOOL, 7, "bool", 1)                                                                                    \
    X(STRING, 8, "string", 0)                                                                                \
    X(ARRAY, 9, "array", 0)                                                                                  \
    X(U64, 10, "u64", 8)                                                                                     \
    X(I64, 11, "i64", 8)                                                                                     \
    X(F64, 12, "f64", 8)

/* A number from a file is checked before it becomes one of these. */
typedef enum plait_gguf_type {
#define PLAIT_GGUF_TYPE_ENUM(name, number, text, bytes) PLAIT_GGUF_##name = number,
    PLAIT_GGUF_TYPE_LIST(PLAIT_GGUF_TYPE_ENUM)
#undef PLAIT_GGUF_TYPE_ENUM
} plait_gguf_type;

/* Limits of the reader and of the writer. Larger files are refused with a message that states the limit. They bound
 * what a hostile file can cost, and stand far above what models have. */
#define PLAIT_GGUF_MAX_KEYS          (1u << 20) /* metadata entries of one part */
#define PLAIT_GGUF_MAX_TENSORS       (1u << 20) /* tensors of all parts */
#define PLAIT_GGUF_MAX_KEY_BYTES     65535u     /* the format's own limit */
#define PLAIT_GGUF_MAX_DEPTH         4          /* arrays inside arrays: [[[[1]]]] is the deepest */
#define PLAIT_GGUF_MIN_ALIGNMENT     8u         /* the format's own limit */
#define PLAIT_GGUF_MAX_ALIGNMENT     (1u << 20)
#define PLAIT_GGUF_DEFAULT_ALIGNMENT 32u
#define PLAIT_GGUF_MAX_PARTS         65535u

/* "u32", "string", ...; "unknown" for other numbers. Static. */
const char *plait_gguf_type_name(plait_gguf_type type);
/* Bytes of one value; 0 for strings, arrays and unknown numbers. */
size_t plait_gguf_type_bytes(plait_gguf_type type);

/* A byte string of the file. May hold any bytes, NUL included, and no NUL follows it: always use the length. */
typedef struct plait_gguf_string {
    const char *bytes;
    size_t length;
} plait_gguf_string;

typedef struct plait_gguf_value plait_gguf_value;

/* A metadata value: a scalar (count 1) or an array, laid out so that elements are reached without calls.
 * All pointers are borrowed from the plait_gguf and live as long as it does. */
struct plait_gguf_value {
    plait_gguf_type type; /* of the value: ARRAY, or that of the scalar */
    plait_gguf_type
        elem_type;  /* of what the pointer below points to: the scalar's type, or that of the elements */
    uint64_t count; /* elements; 1 for a scalar, 0 for an empty array */
    union {
        /* elem_type of fixed size: `count` values in host byte order, aligned to their size, so that a cast to
         * const uint32_t *, const float *, ... is right. Bools are bytes 0 or 1. */
        const void *data;
        const plait_gguf_string *strings; /* elem_type STRING: `count` strings */
        const plait_gguf_value
            *arrays; /* elem_type ARRAY: `count` arrays, each with an elem_type of its own */
    };
};

/* One metadata entry. The key is valid UTF-8 without control characters, not empty. */
typedef struct plait_gguf_entry {
    plait_gguf_string key;
    plait_gguf_value value;
} plait_gguf_entry;

/* One tensor. Dims are at least 1; dim 0 is contiguous; dims beyond the rank are 1. The bytes of the tensor are
 * rows of dim 0, each a whole number of blocks of the dtype, without gaps. */
typedef struct plait_gguf_tensor {
    const char
        *name; /* NUL-terminated, valid UTF-8 without control characters, 1 to PLAIT_MAX_NAME - 1 bytes */
    plait_dtype dtype;    /* meaningful when type_known */
    uint32_t type_number; /* as the file states it */
    bool type_known;      /* false only in files opened with metadata_only */
    int rank;             /* 0 (one element) to PLAIT_MAX_RANK */
    int64_t dims[PLAIT_MAX_RANK];
    int64_t n_elems;
    uint64_t size_bytes;   /* 0 when the type is not known */
    uint64_t offset_bytes; /* from the start of the part's file */
    uint32_t part;         /* index of the part that holds it */
    /* size_bytes of data, at an address that is a multiple of the smaller of the file's alignment and 16. NULL in
     * files opened with metadata_only. */
    const unsigned char *bytes;
} plait_gguf_tensor;

/* One file of a possibly split model. Two tensors with equal (device_id, inode, offset_bytes, size_bytes) are the
 * same bytes, however often and by whatever path the file was opened. */
typedef struct plait_gguf_part {
    const char *path; /* as opened; "memory" or "stream" for those */
    uint64_t size_bytes;
    uint64_t device_id, inode;  /* both 0 for memory, streams and pipes: never equal to anything */
    uint64_t data_offset_bytes; /* where tensor data begins */
    uint32_t first_tensor, n_tensors;
    bool mapped; /* false: read into private memory */
} plait_gguf_part;

/* An open file with all its parts. Counted references: plait_gguf_open gives the first one. */
typedef struct plait_gguf plait_gguf;

/* How to open. Zeroed: mapped, all parts, everything checked. */
typedef struct plait_gguf_options {
    bool read_into_memory; /* read the file instead of mapping it; pipes are always read */
    /* Only look: tensors keep `bytes` NULL, unknown tensor types and cut or overlapping data are not errors.
     * plait_gguf_check_tensors tells afterwards what a full open would have said. */
    bool metadata_only;
    /* Take the file as it is, without its sibling parts. */
    bool single_part;
} plait_gguf_options;

/* Opens a file, or all parts of a split one through the path of any of them. options may be NULL. On success the
 * caller owns one reference. Errors, each one line that names path, place and numbers:
 *   NOT_FOUND, IO       the file, or a part, is missing or unreadable, or is a directory
 *   CORRUPT             not GGUF, cut, inconsistent, or against a rule of the format
 *   UNSUPPORTED         another version, big endian, or an unknown tensor type
 *   LIMIT               above one of the limits stated above
 *   OUT_OF_MEMORY       everything was freed */
plait_status plait_gguf_open(plait_gguf **out_gguf, const char *path, const plait_gguf_options *options);

/* The same for a file image in memory. The bytes are borrowed: they must stay unchanged until the last reference
 * is gone. At an address that is no multiple of 16 a private copy is made. A split file is accepted only with
 * single_part. */
plait_status plait_gguf_open_memory(plait_gguf **out_gguf, const void *bytes, size_t size_bytes,
                                    const plait_gguf_options *options);

/* Delivers up to `capacity` bytes of a stream into out and sets *out_n, 0 at the end. */
typedef plait_status (*plait_gguf_read_fn)(void *user, void *out, size_t capacity, size_t *out_n);

/* The same for a stream, read to its end into memory; more than max_bytes (0: no bound) is LIMIT. What does not
 * begin as a GGUF file is refused after its first bytes. */
plait_status plait_gguf_open_stream(plait_gguf **out_gguf, plait_gguf_read_fn read, void *user,
                                    uint64_t max_bytes, const plait_gguf_options *options);

/* Adds a reference and returns gguf: for whoever keeps pointers into it, such as a model its weights. */
plait_gguf *plait_gguf_retain(plait_gguf *gguf);
/* Drops a reference; the last one unmaps and frees. NULL is accepted. */
void plait_gguf_release(plait_gguf *gguf);

/* What plait_gguf_open checks about tensors and metadata_only leaves out: known types, whole blocks, ranges inside
 * their file, no overlap. */
plait_status plait_gguf_check_tensors(const plait_gguf *gguf);

/* ---- the file ---- */

/* 2 or 3; of the first part. */
uint32_t plait_gguf_version(const plait_gguf *gguf);
/* Bytes to whose multiples tensor data is aligned: the key general.alignment, or PLAIT_GGUF_DEFAULT_ALIGNMENT. A
 * multiple of 8. */
uint32_t plait_gguf_alignment(const plait_gguf *gguf);
/* Path of the first part: the name of the file in messages. "memory" or "stream" for files opened so. Borrowed. */
const char *plait_gguf_path(const plait_gguf *gguf);
/* 1 for a file that is not split. */
size_t plait_gguf_part_count(const plait_gguf *gguf);
/* NULL when index is out of range. */
const plait_gguf_part *plait_gguf_part_at(const plait_gguf *gguf, size_t index);

/* ---- metadata (that of the first part) ---- */

size_t plait_gguf_entry_count(const plait_gguf *gguf);
/* In file order; NULL when index is out of range. */
const plait_gguf_entry *plait_gguf_entry_at(const plait_gguf *gguf, size_t index);
/* The value of a key, or NULL when there is none. Constant time. */
const plait_gguf_value *plait_gguf_find(const plait_gguf *gguf, const char *key);

/* Typed getters. NOT_FOUND when the key is missing; CORRUPT when the value has another type, OUT_OF_RANGE when it does
 * not fit; the message names file, key, expected and actual. Integers come from any integer type, floats from f32 and
 * f64, nothing else is converted. *out is set only on success. A string is borrowed from the file. An f64 beyond
 * float's range becomes infinity in get_f32. */
plait_status plait_gguf_get_u32(const plait_gguf *gguf, const char *key, uint32_t *out);
plait_status plait_gguf_get_i32(const plait_gguf *gguf, const char *key, int32_t *out);
plait_status plait_gguf_get_u64(const plait_gguf *gguf, const char *key, uint64_t *out);
plait_status plait_gguf_get_i64(const plait_gguf *gguf, const char *key, int64_t *out);
plait_status plait_gguf_get_f32(const plait_gguf *gguf, const char *key, float *out);
plait_status plait_gguf_get_f64(const plait_gguf *gguf, const char *key, double *out);
plait_status plait_gguf_get_bool(const plait_gguf *gguf, const char *key, bool *out);
plait_status plait_gguf_get_string(const plait_gguf *gguf, const char *key, plait_gguf_string *out);
/* An array whose elements have exactly elem_type; an empty array of any type is accepted. */
plait_status plait_gguf_get_array(const plait_gguf *gguf, const char *key, plait_gguf_type elem_type,
                                  const plait_gguf_value **out);

/* The same for keys that may be missing: then *out is `otherwise`. A wrong type is still an error. */
plait_status plait_gguf_get_u32_or(const plait_gguf *gguf, const char *key, uint32_t otherwise,
                                   uint32_t *out);
plait_status plait_gguf_get_i32_or(const plait_gguf *gguf, const char *key, int32_t otherwise, int32_t *out);
plait_status plait_gguf_get_u64_or(const plait_gguf *gguf, const char *key, uint64_t otherwise,
                                   uint64_t *out);
plait_status plait_gguf_get_i64_or(const plait_gguf *gguf, const char *key, int64_t otherwise, int64_t *out);
plait_status plait_gguf_get_f32_or(const plait_gguf *gguf, const char *key, float otherwise, float *out);
plait_status plait_gguf_get_f64_or(const plait_gguf *gguf, const char *key, double otherwise, double *out);
plait_status plait_gguf_get_bool_or(const plait_gguf *gguf, const char *key, bool otherwise, bool *out);

/* Values that are one number for all of n things (layers), or an array with at least one for each: fills out[0..n).
 * An array of more than n is accepted, of fewer is CORRUPT. */
plait_status plait_gguf_get_u32_each(const plait_gguf *gguf, const char *key, uint32_t *out, size_t n);
plait_status plait_gguf_get_f32_each(const plait_gguf *gguf, const char *key, float *out, size_t n);
plait_status plait_gguf_get_bool_each(const plait_gguf *gguf, const char *key, bool *out, size_t n);

/* One element of a value, widened; false when its type is no integer (no float; no integer or float) or index is
 * out of range, or when it does not fit. */
bool plait_gguf_elem_u64(const plait_gguf_value *value, uint64_t index, uint64_t *out);
bool plait_gguf_elem_i64(const plait_gguf_value *value, uint64_t index, int64_t *out);
bool plait_gguf_elem_f64(const plait_gguf_value *value, uint64_t index, double *out);

/* True when the string has exactly these bytes. */
bool plait_gguf_string_is(plait_gguf_string string, const char *text);

/* ---- tensors (of all parts, in file order) ---- */

/* Indices of tensors run over all parts, each part's in the order of its file. */
size_t plait_gguf_tensor_count(const plait_gguf *gguf);
/* NULL when index is out of range. Borrowed; the struct lives as long as the file. */
const plait_gguf_tensor *plait_gguf_tensor_at(const plait_gguf *gguf, size_t index);
/* NULL when no tensor has the name. Constant time. */
const plait_gguf_tensor *plait_gguf_find_tensor(const plait_gguf *gguf, const char *name);
/* The same as a call that fails: NOT_FOUND names file and tensor. */
plait_status plait_gguf_get_tensor(const plait_gguf *gguf, const char *name, const plait_gguf_tensor **out);
/* Says that the bytes of a tensor will not be read again soon, so that their pages can go; they stay readable. */
void plait_gguf_forget_pages(const plait_gguf *gguf, const plait_gguf_tensor *tensor);

/* ---- writer ---- */

/* Collects entries and tensors, then writes the file any number of times. Nothing is written before. */
typedef struct plait_gguf_writer plait_gguf_writer;

/* OUT_OF_MEMORY is the only failure. The caller destroys *out_writer. */
plait_status plait_gguf_writer_create(plait_gguf_writer **out_writer);
/* NULL is accepted. */
void plait_gguf_writer_destroy(plait_gguf_writer *writer);

/* Version 3 unless set; 2 or 3. INVALID_ARGUMENT for others. The two differ in nothing that this writer writes but the
 * number. */
plait_status plait_gguf_writer_set_version(plait_gguf_writer *writer, uint32_t version);

/* Adds a metadata entry; the value is copied. A key that is there already, or that the reader would refuse, is
 * INVALID_ARGUMENT. The key general.alignment (u32) also sets the alignment. The functions below build the value from
 * their arguments; keys and strings end with NUL there. */
plait_status plait_gguf_writer_add(plait_gguf_writer *writer, plait_gguf_string key,
                                   const plait_gguf_value *value);
plait_status plait_gguf_writer_add_u32(plait_gguf_writer *writer, const char *key, uint32_t value);
plait_status plait_gguf_writer_add_i32(plait_gguf_writer *writer, const char *key, int32_t value);
plait_status plait_gguf_writer_add_u64(plait_gguf_writer *writer, const char *key, uint64_t value);
plait_status plait_gguf_writer_add_f32(plait_gguf_writer *writer, const char *key, float value);
plait_status plait_gguf_writer_add_bool(plait_gguf_writer *writer, const char *key, bool value);
plait_status plait_gguf_writer_add_string(plait_gguf_writer *writer, const char *key, const char *value);
/* `count` values of a fixed-size type, or of plait_gguf_string, at `elems`. */
plait_status plait_gguf_writer_add_array(plait_gguf_writer *writer, const char *key,
                                         plait_gguf_type elem_type, const void *elems, uint64_t count);
/* All entries of an open file except the keys named in skip (NULL-terminated list; may be NULL). */
plait_status plait_gguf_writer_add_entries(plait_gguf_writer *writer, const plait_gguf *gguf,
                                           const char *const *skip);

/* Fills out with `size_bytes` of a tensor's data, starting `offset_bytes` into it. Called in order, each byte once
 * per write. A failure ends the write with that status. */
typedef plait_status (*plait_gguf_fill_fn)(void *user, uint64_t offset_bytes, void *out, size_t size_bytes);

/* What to write for a tensor: dims as in plait_gguf_tensor; data from `bytes` (borrowed until the write is done), or
 * when that is NULL from fill(user, ...). */
typedef struct plait_gguf_tensor_source {
    const char *name;
    plait_dtype dtype;
    int rank;
    int64_t dims[PLAIT_MAX_RANK]; /* the first `rank` are read */
    const void *bytes;
    plait_gguf_fill_fn fill;
    void *user;
} plait_gguf_tensor_source;

/* Adds a tensor; name and dims are copied. INVALID_ARGUMENT for what the reader would refuse. Tensors are written in
 * the order in which they were added, each at a multiple of the alignment. */
plait_status plait_gguf_writer_add_tensor(plait_gguf_writer *writer, const plait_gguf_tensor_source *source);

/* Receives the file's bytes in order. Of any size, valid during the call. */
typedef plait_status (*plait_gguf_sink_fn)(void *user, const void *bytes, size_t size_bytes);

/* Size of the file that a write would make now. INVALID_ARGUMENT when that is beyond 2^64. */
plait_status plait_gguf_writer_size(const plait_gguf_writer *writer, uint64_t *out_size_bytes);
/* Writes the file so that it appears at path whole or not at all. The writer is unchanged and can write again. */
plait_status plait_gguf_writer_write(const plait_gguf_writer *writer, const char *path);
/* Writes into a sink; a failure of the sink ends the write with that status. */
plait_status plait_gguf_writer_write_to(const plait_gguf_writer *writer, plait_gguf_sink_fn sink, void *user);

#ifdef __cplusplus
}
#endif
#endif
