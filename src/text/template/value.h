/* Values of the template language, and the state of one rendering.
 *
 * What a template computes with is what Python would give it: None, bool, int, float, str, list, tuple, dict, and
 * the few objects that Jinja adds (loop, namespace, macro, ...). A value is 16 bytes and copied freely; whatever it
 * points to lives in the arena of its rendering, in the compiled template, or in the caller's variables, and is
 * freed as a whole. Strings are UTF-8 and immutable; lists and dicts can change.
 *
 * Invariant: every string knows for each of its bytes whether it came from the template's own text or from a
 * variable ("foreign"), and every function that makes strings from strings carries that along. Where a function
 * cannot say it byte by byte, the whole result is foreign as soon as one input is.
 *
 * Not here: the syntax tree (ast.h) and the built-in functions (builtin.h).
 */
#ifndef PLAIT_TEXT_TEMPLATE_VALUE_H
#define PLAIT_TEXT_TEMPLATE_VALUE_H

#include "base/arena.h"
#include "base/status.h"
#include "plait/template.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum plait_tpl_kind {
    PLAIT_TPL_UNDEFINED, /* hint: why, or NULL */
    PLAIT_TPL_MISSING,   /* an argument that was not given; never seen by templates */
    PLAIT_TPL_NONE,
    PLAIT_TPL_BOOL,
    PLAIT_TPL_INT, /* 64 bits; results beyond are an error */
    PLAIT_TPL_FLOAT,
    PLAIT_TPL_STRING,
    PLAIT_TPL_LIST,
    PLAIT_TPL_TUPLE,
    PLAIT_TPL_DICT,
    PLAIT_TPL_RANGE,
    PLAIT_TPL_VIEW,     /* keys(), values() or items() of a dict */
    PLAIT_TPL_ITERATOR, /* what lazy filters give: runs once, has no length, is always true */
    PLAIT_TPL_NAMESPACE,
    PLAIT_TPL_LOOP,
    PLAIT_TPL_MACRO,
    PLAIT_TPL_BUILTIN, /* a global function */
    PLAIT_TPL_METHOD,  /* a built-in function bound to a value */
    PLAIT_TPL_CYCLER,
    PLAIT_TPL_JOINER
} plait_tpl_kind;

typedef struct plait_tpl_str plait_tpl_str;
typedef struct plait_tpl_list plait_tpl_list;
typedef struct plait_tpl_dict plait_tpl_dict;
typedef struct plait_tpl_range plait_tpl_range;
typedef struct plait_tpl_view plait_tpl_view;
typedef struct plait_tpl_iter plait_tpl_iter;
typedef struct plait_tpl_loop plait_tpl_loop;
typedef struct plait_tpl_macro plait_tpl_macro;
typedef struct plait_tpl_method plait_tpl_method;
typedef struct plait_tpl_builtin plait_tpl_builtin;
typedef struct plait_tpl_cycle plait_tpl_cycle;
typedef struct plait_tpl_node plait_tpl_node;
typedef struct plait_tpl_frame plait_tpl_frame;
typedef struct plait_tpl_render plait_tpl_render;

typedef struct plait_tpl_value {
    plait_tpl_kind kind;
    union {
        const char *hint;
        bool boolean;
        int64_t integer;
        double real;
        const plait_tpl_str *string;
        plait_tpl_list *list; /* LIST and TUPLE */
        plait_tpl_dict *dict; /* DICT and NAMESPACE */
        plait_tpl_range *range;
        plait_tpl_view *view;
        plait_tpl_iter *iter;
        plait_tpl_loop *loop;
        plait_tpl_macro *macro;
        const plait_tpl_builtin *builtin;
        plait_tpl_method *method;
        plait_tpl_cycle *cycle; /* CYCLER and JOINER */
    } u;
} plait_tpl_value;

/* A growing place for bytes; strings are windows onto it. A string that ends where the chunk's used part ends can be
 * lengthened in place, so that building a text piece by piece takes linear time. */
typedef struct plait_tpl_chunk {
    char *bytes;
    uint8_t *marks; /* one for each byte, or NULL while all have the same origin */
    size_t used, capacity;
    uint8_t foreign; /* the common origin while marks is NULL */
} plait_tpl_chunk;

struct plait_tpl_str {
    const char *bytes;    /* valid UTF-8, not NUL-terminated */
    const uint8_t *marks; /* 1 for a byte that came from a variable; NULL: all are as `foreign` says */
    size_t n_bytes, n_chars;
    plait_tpl_chunk *home; /* NULL: cannot grow in place */
    uint8_t foreign;
    bool markup; /* marked safe: operators escape what is joined to it, as markupsafe does */
};

struct plait_tpl_list {
    plait_tpl_value *items;
    size_t n_items, capacity;
    bool foreign; /* came from the variables: its brackets print as foreign text */
    bool group;   /* a pair made by groupby, with the attributes grouper and list */
};

typedef struct plait_tpl_entry {
    plait_tpl_value key, value;
    uint64_t hash;
} plait_tpl_entry;

/* Insertion-ordered, keys as in Python (1, 1.0 and true are one key). */
struct plait_tpl_dict {
    plait_tpl_entry *entries;
    size_t n_entries, capacity;
    uint32_t *index; /* open addressing over entry numbers + 1; NULL while small */
    size_t n_index;
    bool foreign;
};

struct plait_tpl_range {
    int64_t start, stop, step, length;
};

typedef enum plait_tpl_view_part { PLAIT_TPL_KEYS, PLAIT_TPL_VALUES, PLAIT_TPL_ITEMS } plait_tpl_view_part;
struct plait_tpl_view {
    plait_tpl_dict *dict;
    plait_tpl_view_part part;
};

struct plait_tpl_method {
    plait_tpl_value self;
    const plait_tpl_builtin *builtin;
};

struct plait_tpl_cycle {
    plait_tpl_value *items; /* a joiner has one: its separator */
    size_t n_items, position;
};

/* Variables of one scope. Lookup goes from a frame to its parent; assignment always stores in the frame itself. */
struct plait_tpl_frame {
    plait_tpl_dict names;
    plait_tpl_frame *parent;
    bool captured; /* a macro refers to it: the next loop iteration takes a fresh one */
};

/* Arguments of a call as written: positional ones, then named ones. */
typedef struct plait_tpl_args {
    plait_tpl_value *pos;
    size_t n_pos;
    const plait_tpl_str **names;
    plait_tpl_value *named;
    size_t n_named;
} plait_tpl_args;

/* Text under construction. Failure is sticky; plait_tpl_finish reports it. */
typedef struct plait_tpl_builder {
    plait_tpl_render *r;
    plait_tpl_chunk chunk;
    size_t max_bytes; /* 0: only the arena's limit */
    bool failed;
} plait_tpl_builder;

/* One rendering: everything that changes. Lives on the stack of plait_template_render. */
struct plait_tpl_render {
    plait_arena arena;
    plait_template_limits limits;
    uint64_t steps, deadline_ns, hash_seed, random_state;
    uint32_t depth;
    uint32_t line, column;         /* of the node being evaluated: where an error is reported */
    plait_status status;           /* the first failure */
    plait_tpl_dict *context;       /* the caller's variables */
    plait_tpl_frame *root;         /* variables set at the top level */
    plait_tpl_builder *out;        /* where output goes at the moment */
    const char *now;               /* "2025-03-09 14:05:07", or NULL: the clock */
    plait_template_output *raised; /* where raise_exception leaves its message */
};

/* Failure: records status and "template line N, column M: ..." once and returns false. */
bool plait_tpl_fail(plait_tpl_render *r, plait_status status, const char *format, ...) PLAIT_PRINTF(3, 4);
/* Wrong type, wrong value: what Python would raise. */
#define plait_tpl_type_error(r, ...) plait_tpl_fail((r), PLAIT_INVALID_ARGUMENT, __VA_ARGS__)
/* An operation on an undefined value. */
bool plait_tpl_undefined_error(plait_tpl_render *r, plait_tpl_value v);

/* Charges n steps; false with LIMIT when they are used up or the time is over, and false after any failure: what noticed
 * it late stops here. */
bool plait_tpl_step(plait_tpl_render *r, uint64_t n);
/* Enters and leaves one level of nesting (evaluation, printing, comparing). */
bool plait_tpl_enter(plait_tpl_render *r);
static inline void plait_tpl_leave(plait_tpl_render *r) {
    r->depth--;
}

/* n zeroed objects from the arena, or NULL with the failure recorded (LIMIT or OUT_OF_MEMORY). */
void *plait_tpl_alloc(plait_tpl_render *r, size_t n, size_t size_bytes);

/* Plain values. */
plait_tpl_value plait_tpl_none(void);
plait_tpl_value plait_tpl_bool(bool b);
plait_tpl_value plait_tpl_int(int64_t i);
plait_tpl_value plait_tpl_float(double f);
plait_tpl_value plait_tpl_string(const plait_tpl_str *s);
/* hint may be NULL; it is borrowed and must outlive the rendering (a literal or arena text). */
plait_tpl_value plait_tpl_undefined(const char *hint);
plait_tpl_value plait_tpl_undefined_name(plait_tpl_render *r, const char *format, ...) PLAIT_PRINTF(2, 3);

/* Name of the value's type as Python spells it, for messages. */
const char *plait_tpl_type_name(plait_tpl_value v);
bool plait_tpl_truth(plait_tpl_value v);
bool plait_tpl_is_number(plait_tpl_value v); /* int, float or bool */
double plait_tpl_as_double(plait_tpl_value v);
/* An int or bool; fails naming `what` otherwise. */
bool plait_tpl_as_int(plait_tpl_render *r, plait_tpl_value v, const char *what, int64_t *out);
bool plait_tpl_as_str(plait_tpl_render *r, plait_tpl_value v, const char *what, const plait_tpl_str **out);

/* Python's == (never fails but for depth and steps), ordering (fails for types that have none), and membership. */
bool plait_tpl_equal(plait_tpl_render *r, plait_tpl_value a, plait_tpl_value b, bool *out);
bool plait_tpl_compare(plait_tpl_render *r, plait_tpl_value a, plait_tpl_value b, const char *op, int *out);
bool plait_tpl_contains(plait_tpl_render *r, plait_tpl_value container, plait_tpl_value item, bool *out);
/* Item i of a range, i below its length. */
int64_t plait_tpl_range_item(const plait_tpl_range *range, size_t i);
/* len(); fails for values without one. */
bool plait_tpl_length(plait_tpl_render *r, plait_tpl_value v, int64_t *out);

/* Lists and tuples. */
bool plait_tpl_list_new(plait_tpl_render *r, plait_tpl_kind kind, size_t capacity, plait_tpl_value *out);
bool plait_tpl_list_push(plait_tpl_render *r, plait_tpl_list *list, plait_tpl_value v);
bool plait_tpl_pair(plait_tpl_render *r, plait_tpl_value a, plait_tpl_value b, plait_tpl_value *out);
/* list(v): every item of an iterable, in a new list. */
bool plait_tpl_list_from(plait_tpl_render *r, plait_tpl_value v, plait_tpl_value *out);
/* Stable sort by parallel keys (keys[i] belongs to items[i]); fails where keys have no order. */
bool plait_tpl_sort(plait_tpl_render *r, plait_tpl_value *items, plait_tpl_value *keys, size_t n,
                    bool reverse);

/* Dicts. Keys must be hashable: strings, numbers, None, tuples of such. */
bool plait_tpl_dict_new(plait_tpl_render *r, plait_tpl_value *out);
bool plait_tpl_dict_set(plait_tpl_render *r, plait_tpl_dict *d, plait_tpl_value key, plait_tpl_value value);
/* 1: found, *out set; 0: not there; -1: failed (unhashable key). */
int plait_tpl_dict_get(plait_tpl_render *r, const plait_tpl_dict *d, plait_tpl_value key,
                       plait_tpl_value *out);
int plait_tpl_dict_remove(plait_tpl_render *r, plait_tpl_dict *d, plait_tpl_value key, plait_tpl_value *out);
/* Lookup by a C string; NULL when absent. */
const plait_tpl_value *plait_tpl_dict_find(plait_tpl_render *r, const plait_tpl_dict *d, const char *key);
void plait_tpl_dict_clear(plait_tpl_dict *d);
bool plait_tpl_hash(plait_tpl_render *r, plait_tpl_value v, uint64_t *out);

/* Integer arithmetic that fails instead of wrapping. */
bool plait_tpl_int_overflow(plait_tpl_render *r);

#endif
