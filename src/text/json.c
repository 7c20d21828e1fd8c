/* Reading JSON through jansson, copying into our tree, and printing. Not here: numbers and strings as text
 * (base/strbuf.h). Invariant: jansson's objects never outlive plait_json_parse. Depth is checked on the text before
 * jansson sees it, because jansson's own limit is fixed, and because its parser recurses.
 *
 * Copying costs a second tree for a moment; what it buys is one arena with a limit, and callers that know nothing of
 * reference counts or of another library's types.
 *
 * Not here either: a writer for building values. What writes JSON appends text to a strbuf and uses
 * plait_strbuf_json_string for strings. */
#include "text/json.h"

#include "base/size.h"
#include "base/utf8.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* LARGEST_DEPTH lies below jansson's own limit (2048), so that the message is always ours. */
enum { DEFAULT_TEXT_BYTES = 256 << 20, DEFAULT_DEPTH = 512, LARGEST_DEPTH = 2000 };
static const size_t DEFAULT_TREE_BYTES = (size_t)2 << 30;

/* Nesting of the text as written, strings skipped; wrong syntax is left for the parser to name. Linear and without
 * memory. Counting brackets is enough: a text whose brackets do not match is refused by the parser afterwards, and
 * cannot be nested deeper than it has opening ones. */
static plait_status check_depth(const char *text, size_t n_bytes, uint32_t max_depth) {
    uint32_t depth = 0;
    size_t line = 1;
    for (size_t i = 0; i < n_bytes; i++) {
        char c = text[i];
        if (c == '\n') {
            line++;
        } else if (c == '"') {
            /* A string ends at a line's end at the latest: one that is not closed is an error anyway, and must not hide
             * brackets. */
            for (i++; i < n_bytes && text[i] != '"' && text[i] != '\n'; i++)
                if (text[i] == '\\') i++;
        } else if (c == '[' || c == '{') {
            if (++depth > max_depth)
                return plait_error(PLAIT_LIMIT, "JSON line %zu: nested deeper than the limit of %" PRIu32,
                                   line, max_depth);
        } else if ((c == ']' || c == '}') && depth > 0) {
            depth--;
        }
    }
    return PLAIT_OK;
}

/* Tells the limit of the arena from the machine's: an arena says NULL for both. 64 bytes cover its padding. */
static plait_status no_memory(const plait_arena *arena, size_t wanted) {
    size_t left = arena->max_bytes - arena->used_bytes; /* of which the arena may take some for padding */
    if (arena->max_bytes && (wanted > left || left - wanted < 64))
        return plait_error(PLAIT_LIMIT, "JSON: the tree needs more than the limit of %zu bytes",
                           arena->max_bytes);
    return plait_error_memory("JSON tree", wanted);
}

static plait_status copy(plait_arena *arena, const json_t *from, plait_json *to);

/* Items are filled in place: an array is one allocation. What was copied before a failure stays in the arena, which the
 * caller releases whole. */
static plait_status copy_array(plait_arena *arena, const json_t *from, plait_json *to) {
    size_t n = json_array_size(from);
    plait_json *items = plait_arena_alloc(arena, n, sizeof *items);
    if (!items) return no_memory(arena, n * sizeof *items);
    for (size_t i = 0; i < n; i++) PLAIT_TRY(copy(arena, json_array_get(from, i), &items[i]));
    to->kind = PLAIT_JSON_ARRAY;
    to->u.array.items = items;
    to->u.array.n_items = n;
    return PLAIT_OK;
}

/* Members come in the order of the text, which jansson keeps. The bound by n guards against an iterator that yields
 * more. Names given twice were merged by jansson: the last value counts. */
static plait_status copy_object(plait_arena *arena, const json_t *from, plait_json *to) {
    size_t n = json_object_size(from);
    plait_json_member *members = plait_arena_alloc(arena, n, sizeof *members);
    if (!members) return no_memory(arena, n * sizeof *members);
    json_t *object = (json_t *)(uintptr_t)from; /* jansson's iterators take no const */
    size_t i = 0;
    for (void *it = json_object_iter(object); it && i < n; it = json_object_iter_next(object, it), i++) {
        const char *name = json_object_iter_key(it);
        /* Names with NUL are refused by jansson, whose keys are C strings. */
        members[i].name_bytes = strlen(name);
        members[i].name = plait_arena_string_n(arena, name, members[i].name_bytes);
        if (!members[i].name) return no_memory(arena, members[i].name_bytes + 1);
        PLAIT_TRY(copy(arena, json_object_iter_value(it), &members[i].value));
    }
    to->kind = PLAIT_JSON_OBJECT;
    to->u.object.members = members;
    to->u.object.n_members = n;
    return PLAIT_OK;
}

/* Recursion is bounded by check_depth. Strings are copied with a NUL behind them, so they may be used as C strings
 * where they have none inside. */
static plait_status copy(plait_arena *arena, const json_t *from, plait_json *to) {
    switch (json_typeof(from)) {
    case JSON_OBJECT: return copy_object(arena, from, to);
    case JSON_ARRAY: return copy_array(arena, from, to);
    case JSON_STRING:
        to->kind = PLAIT_JSON_STRING;
        to->u.string.n_bytes = json_string_length(from);
        to->u.string.bytes = plait_arena_string_n(arena, json_string_value(from), to->u.string.n_bytes);
        return to->u.string.bytes ? PLAIT_OK : no_memory(arena, to->u.string.n_bytes + 1);
    case JSON_INTEGER:
        to->kind = PLAIT_JSON_INTEGER;
        to->u.integer = json_integer_value(from);
        return PLAIT_OK;
    case JSON_REAL:
        to->kind = PLAIT_JSON_REAL;
        to->u.real = json_real_value(from);
        return PLAIT_OK;
    case JSON_TRUE:
    case JSON_FALSE:
        to->kind = PLAIT_JSON_BOOL;
        to->u.boolean = json_typeof(from) == JSON_TRUE;
        return PLAIT_OK;
    case JSON_NULL: break;
    }
    to->kind = PLAIT_JSON_NULL;
    return PLAIT_OK;
}

/* document->root is set last, so a failure leaves no half tree to be found. */
static plait_status copy_root(plait_json_document *document, const json_t *from) {
    plait_json *root = plait_arena_alloc(&document->arena, 1, sizeof *root);
    if (!root) return no_memory(&document->arena, sizeof *root);
    PLAIT_TRY(copy(&document->arena, from, root));
    document->root = root;
    return PLAIT_OK;
}

/* Syntax is the text's fault, so CORRUPT; want of memory is not, and must not be reported as bad JSON. jansson's words
 * are kept: they name the token that was not expected. */
static plait_status parse_failure(const json_error_t *error) {
    if (json_error_code(error) == json_error_out_of_memory) return plait_error_memory("JSON", 0);
    return plait_error(PLAIT_CORRUPT, "JSON line %d, column %d: %s", error->line, error->column, error->text);
}

/* *out is zeroed first and after every failure: deinit is right at any time. Both trees live at the same time for the
 * length of the copy; tree_bytes bounds ours, text_bytes the other one. */
plait_status plait_json_parse(plait_json_document *out, const char *text, size_t n_bytes,
                              const plait_json_limits *limits) {
    *out = (plait_json_document){0};
    plait_json_limits l = limits ? *limits : (plait_json_limits){0};
    if (!l.text_bytes) l.text_bytes = DEFAULT_TEXT_BYTES;
    if (!l.depth) l.depth = DEFAULT_DEPTH;
    if (l.depth > LARGEST_DEPTH) l.depth = LARGEST_DEPTH;
    if (!l.tree_bytes) l.tree_bytes = DEFAULT_TREE_BYTES;
    if (n_bytes > l.text_bytes)
        return plait_error(PLAIT_LIMIT, "JSON: %zu bytes, the limit is %zu", n_bytes, l.text_bytes);
    PLAIT_TRY(check_depth(text, n_bytes, l.depth));
    json_error_t error = {0};
    /* ANY: a value alone is a document, as RFC 8259 has it. NUL is allowed in strings, which carry their length
     * here. */
    json_t *tree = json_loadb(text, n_bytes, JSON_DECODE_ANY | JSON_ALLOW_NUL, &error);
    if (!tree) return parse_failure(&error);
    plait_arena_init(&out->arena, l.tree_bytes);
    plait_status status = copy_root(out, tree);
    json_decref(tree);
    if (status != PLAIT_OK) {
        plait_arena_deinit(&out->arena);
        *out = (plait_json_document){0};
    }
    return status;
}

void plait_json_document_deinit(plait_json_document *document) {
    plait_arena_deinit(&document->arena);
    document->root = NULL;
}

/* Objects of messages and options have few members; a hash would cost more than it saves. NULL for a value that is no
 * object too, so lookups can be chained without asking in between. */
const plait_json *plait_json_get(const plait_json *value, const char *name) {
    if (!value || value->kind != PLAIT_JSON_OBJECT) return NULL;
    for (size_t i = 0; i < value->u.object.n_members; i++)
        if (strcmp(value->u.object.members[i].name, name) == 0) return &value->u.object.members[i].value;
    return NULL;
}

/* For messages. */
const char *plait_json_kind_name(plait_json_kind kind) {
    switch (kind) {
    case PLAIT_JSON_NULL: return "null";
    case PLAIT_JSON_BOOL: return "boolean";
    case PLAIT_JSON_INTEGER: return "integer";
    case PLAIT_JSON_REAL: return "real";
    case PLAIT_JSON_STRING: return "string";
    case PLAIT_JSON_ARRAY: return "array";
    case PLAIT_JSON_OBJECT: return "object";
    }
    return "unknown";
}

/* Nothing without indentation, where the whole stands on one line. `level` is the depth of what follows. */
static void new_line(plait_strbuf *s, int indent, int level) {
    if (indent <= 0) return;
    plait_strbuf_append_char(s, '\n');
    for (int i = 0; i < indent * level; i++) plait_strbuf_append_char(s, ' ');
}

/* "2.0" and not "2": a reader shall get back a real, as the text had one. From 1e16 on the shortest form has an
 * exponent, which says as much. JSON has no infinity and no NaN, hence null. */
static void print_real(plait_strbuf *s, double value) {
    char text[32];
    if (!isfinite(value)) {
        plait_strbuf_append(s, "null");
        return;
    }
    if (value == floor(value) && fabs(value) < 1e16) {
        plait_strbuf_printf(s, "%.1f", value);
        return;
    }
    plait_strbuf_append_n(s, text, plait_format_double(value, text));
}

static void print(plait_strbuf *s, const plait_json *value, int indent, int level);

/* An empty one stays "[]" on its line, with any indentation. */
static void print_array(plait_strbuf *s, const plait_json *value, int indent, int level) {
    plait_strbuf_append_char(s, '[');
    for (size_t i = 0; i < value->u.array.n_items; i++) {
        if (i) plait_strbuf_append_char(s, ',');
        new_line(s, indent, level + 1);
        print(s, &value->u.array.items[i], indent, level + 1);
    }
    if (value->u.array.n_items) new_line(s, indent, level);
    plait_strbuf_append_char(s, ']');
}

/* In the order of the text. */
static void print_object(plait_strbuf *s, const plait_json *value, int indent, int level) {
    plait_strbuf_append_char(s, '{');
    for (size_t i = 0; i < value->u.object.n_members; i++) {
        const plait_json_member *m = &value->u.object.members[i];
        if (i) plait_strbuf_append_char(s, ',');
        new_line(s, indent, level + 1);
        plait_strbuf_json_string_n(s, m->name, m->name_bytes);
        plait_strbuf_append(s, indent > 0 ? ": " : ":");
        print(s, &m->value, indent, level + 1);
    }
    if (value->u.object.n_members) new_line(s, indent, level);
    plait_strbuf_append_char(s, '}');
}

/* Recursion is as deep as the tree, which parsing bounded. */
static void print(plait_strbuf *s, const plait_json *value, int indent, int level) {
    switch (value->kind) {
    case PLAIT_JSON_NULL: plait_strbuf_append(s, "null"); break;
    case PLAIT_JSON_BOOL: plait_strbuf_append(s, value->u.boolean ? "true" : "false"); break;
    case PLAIT_JSON_INTEGER: plait_strbuf_printf(s, "%" PRId64, value->u.integer); break;
    case PLAIT_JSON_REAL: print_real(s, value->u.real); break;
    case PLAIT_JSON_STRING:
        plait_strbuf_json_string_n(s, value->u.string.bytes, value->u.string.n_bytes);
        break;
    case PLAIT_JSON_ARRAY: print_array(s, value, indent, level); break;
    case PLAIT_JSON_OBJECT: print_object(s, value, indent, level); break;
    }
}

void plait_json_print(plait_strbuf *s, const plait_json *value, int indent) {
    print(s, value, indent, 0);
}
