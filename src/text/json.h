/* JSON (RFC 8259) read into a tree of our own, and written back. The one place in plait that reads JSON; the library
 * behind it (jansson) is not seen outside.
 *
 * Kept as the text has it: the order of keys, whether a number is written as an integer or a real, NUL characters
 * in strings (but not in keys). The top may be any value. Of keys that occur twice the last value wins, at the place
 * of the first. Trees are immutable and may be read by
 * several threads.
 */
#ifndef PLAIT_TEXT_JSON_H
#define PLAIT_TEXT_JSON_H

#include "base/arena.h"
#include "base/status.h"
#include "base/strbuf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum plait_json_kind {
    PLAIT_JSON_NULL,
    PLAIT_JSON_BOOL,
    PLAIT_JSON_INTEGER,
    PLAIT_JSON_REAL,
    PLAIT_JSON_STRING,
    PLAIT_JSON_ARRAY,
    PLAIT_JSON_OBJECT
} plait_json_kind;

typedef struct plait_json plait_json;
typedef struct plait_json_member plait_json_member;

struct plait_json {
    plait_json_kind kind;
    union {
        bool boolean;
        int64_t integer;
        double real;
        struct {
            const char *bytes; /* valid UTF-8, a NUL follows */
            size_t n_bytes;
        } string;
        struct {
            const plait_json *items;
            size_t n_items;
        } array;
        struct {
            const plait_json_member *members;
            size_t n_members;
        } object;
    } u;
};

struct plait_json_member {
    const char *name; /* valid UTF-8, a NUL follows */
    size_t name_bytes;
    plait_json value;
};

/* 0 stands for the default. */
typedef struct plait_json_limits {
    size_t text_bytes; /* 256 MiB */
    uint32_t depth;    /* nested arrays and objects: 512; never more than 2000 */
    size_t tree_bytes; /* memory of the tree: 2 GiB */
} plait_json_limits;

/* A tree and the memory it lives in. */
typedef struct plait_json_document {
    plait_arena arena; /* Owned. */
    const plait_json *root;
} plait_json_document;

/* Reads all n_bytes as one value. limits may be NULL. Fails with CORRUPT (the message names line and column), LIMIT,
 * OUT_OF_MEMORY; then *out is zeroed. */
plait_status plait_json_parse(plait_json_document *out, const char *text, size_t n_bytes,
                              const plait_json_limits *limits);
/* Accepts a zeroed document. */
void plait_json_document_deinit(plait_json_document *document);

/* Member of an object by name; NULL when absent or when value is no object (or NULL). Linear in the object. */
const plait_json *plait_json_get(const plait_json *value, const char *name);
/* Name of a kind for messages: "null", "boolean", ... */
const char *plait_json_kind_name(plait_json_kind kind);

/* Appends the value. indent 0: one line without spaces; otherwise that many spaces a level. Reals are the shortest form
 * that reads back, with ".0" when they would look like integers; NaN and infinities (never read) become null. */
void plait_json_print(plait_strbuf *s, const plait_json *value, int indent);

#endif
