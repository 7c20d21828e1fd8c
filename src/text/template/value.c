/* Values: truth, equality, order, hashing, and the two containers. Not here: strings (string.c), iterating (iterate.c),
 * how values print (print.c). Invariant: everything is allocated from the rendering's arena, and every recursion
 * (nested containers) counts against the depth limit.
 *
 * A function that returns bool returns false only after plait_tpl_fail has recorded why: the caller passes it on, and
 * nobody tidies up, for the rendering is over. So levels that were entered need not be left on the way out of a
 * failure.
 *
 * Containers have identity, strings have none: two values may hold one list, and what append does through the first is
 * seen through the second, as in Python. A string is never changed after it was made, so its bytes may be shared by any
 * number of values and by threads that render the same template. */
#include "text/template/value.h"

#include "base/map.h"
#include "base/os.h"
#include "base/size.h"
#include "text/template/builtin.h"
#include "text/template/iterate.h"
#include "text/template/string.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Up to here comparing hashes one by one is quicker than an index, and most dicts of messages are as small. */
enum { SMALL_DICT = 8 };

/* What the arena may add to an object, at most. */
enum { ARENA_PADDING = 64 };

/* The place is that of the node at work (place in eval.c); line and column of the first failure stay. Returns false, so
 * that a failing function ends with `return plait_tpl_fail(...)`. */
bool plait_tpl_fail(plait_tpl_render *r, plait_status status, const char *format, ...) {
    if (r->status != PLAIT_OK) return false; /* the first failure is the one that counts */
    va_list args;
    va_start(args, format);
    plait_error_v(status, format, args);
    va_end(args);
    r->status = plait_error_context(status, "template line %" PRIu32 ", column %" PRIu32, r->line, r->column);
    return false;
}

/* The hint was made where the value became undefined: it names what was missing, which the use of it no longer can. */
bool plait_tpl_undefined_error(plait_tpl_render *r, plait_tpl_value v) {
    return plait_tpl_fail(r, PLAIT_INVALID_ARGUMENT, "%s",
                          v.u.hint ? v.u.hint : "an undefined value was used");
}

/* Compared by subtraction, which cannot overflow, since steps never exceed the limit. The clock is looked at each time
 * a border of 4096 steps is passed, however large n is. n may be 0, which only asks whether anything has failed before.
 * Work on text is charged with bytes >> 6: moving 64 bytes takes about as long as evaluating one node, so the limit
 * stands for time in both cases. */
bool plait_tpl_step(plait_tpl_render *r, uint64_t n) {
    uint64_t before = r->steps;
    if (r->status != PLAIT_OK) return false;
    if (n > r->limits.steps - before)
        return plait_tpl_fail(r, PLAIT_LIMIT, "more than the limit of %" PRIu64 " steps", r->limits.steps);
    r->steps = before + n;
    if ((before >> 12) != (r->steps >> 12) && plait_time_ns() > r->deadline_ns)
        return plait_tpl_fail(r, PLAIT_LIMIT, "longer than the limit of %" PRIu64 " ms",
                              r->limits.time_ns / 1000000);
    return true;
}

/* Depth stands for stack: 1000 levels of evaluation fit into any thread's. The count is one for all kinds of recursion
 * together, since they nest: a macro that prints a list of lists stands on the stack with evaluation, printing and
 * comparing at once. */
bool plait_tpl_enter(plait_tpl_render *r) {
    if (r->depth >= r->limits.depth)
        return plait_tpl_fail(r, PLAIT_LIMIT, "nested deeper than the limit of %" PRIu32, r->limits.depth);
    r->depth++;
    return true;
}

/* The arena says NULL for its limit and for want of memory alike; which it was follows from what is left. After a
 * failure nothing is handed out any more, so that loops that ignore it end soon. n of 0 gives a pointer that may not be
 * read, and is no failure: macros without parameters ask for it. */
void *plait_tpl_alloc(plait_tpl_render *r, size_t n, size_t size_bytes) {
    if (r->status != PLAIT_OK) return NULL;
    void *p = plait_arena_alloc(&r->arena, n, size_bytes);
    if (p) return p;
    size_t bytes;
    size_t left = r->limits.memory_bytes - r->arena.used_bytes;
    if (!plait_mul_size(n, size_bytes, &bytes) || bytes > left || left - bytes < ARENA_PADDING) {
        plait_tpl_fail(r, PLAIT_LIMIT, "needs more than the limit of %zu bytes of memory",
                       r->limits.memory_bytes);
        return NULL;
    }
    r->status = plait_error_memory("template rendering", bytes);
    return NULL;
}

plait_tpl_value plait_tpl_none(void) {
    return (plait_tpl_value){.kind = PLAIT_TPL_NONE};
}

plait_tpl_value plait_tpl_bool(bool b) {
    return (plait_tpl_value){.kind = PLAIT_TPL_BOOL, .u.boolean = b};
}

plait_tpl_value plait_tpl_int(int64_t i) {
    return (plait_tpl_value){.kind = PLAIT_TPL_INT, .u.integer = i};
}

plait_tpl_value plait_tpl_float(double f) {
    return (plait_tpl_value){.kind = PLAIT_TPL_FLOAT, .u.real = f};
}

plait_tpl_value plait_tpl_string(const plait_tpl_str *s) {
    return (plait_tpl_value){.kind = PLAIT_TPL_STRING, .u.string = s};
}

plait_tpl_value plait_tpl_undefined(const char *hint) {
    return (plait_tpl_value){.kind = PLAIT_TPL_UNDEFINED, .u.hint = hint};
}

/* Cut at 159 bytes. When memory is short the hint is NULL, and the failure is recorded already. */
plait_tpl_value plait_tpl_undefined_name(plait_tpl_render *r, const char *format, ...) {
    char text[160];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    char *hint = plait_tpl_alloc(r, 1, strlen(text) + 1);
    if (hint) memcpy(hint, text, strlen(text) + 1);
    return plait_tpl_undefined(hint);
}

/* Static. Views are named by their part, as in Python. */
const char *plait_tpl_type_name(plait_tpl_value v) {
    switch (v.kind) {
    case PLAIT_TPL_UNDEFINED: return "Undefined";
    case PLAIT_TPL_MISSING: return "missing";
    case PLAIT_TPL_NONE: return "NoneType";
    case PLAIT_TPL_BOOL: return "bool";
    case PLAIT_TPL_INT: return "int";
    case PLAIT_TPL_FLOAT: return "float";
    case PLAIT_TPL_STRING: return "str";
    case PLAIT_TPL_LIST: return "list";
    case PLAIT_TPL_TUPLE: return "tuple";
    case PLAIT_TPL_DICT: return "dict";
    case PLAIT_TPL_RANGE: return "range";
    case PLAIT_TPL_VIEW:
        return v.u.view->part == PLAIT_TPL_KEYS     ? "dict_keys"
               : v.u.view->part == PLAIT_TPL_VALUES ? "dict_values"
                                                    : "dict_items";
    case PLAIT_TPL_ITERATOR: return "generator";
    case PLAIT_TPL_NAMESPACE: return "Namespace";
    case PLAIT_TPL_LOOP: return "LoopContext";
    case PLAIT_TPL_MACRO: return "Macro";
    case PLAIT_TPL_BUILTIN: return "function";
    case PLAIT_TPL_METHOD: return "method";
    case PLAIT_TPL_CYCLER: return "Cycler";
    case PLAIT_TPL_JOINER: return "Joiner";
    }
    return "object";
}

/* Never fails. Objects that Python gives no length are true, iterators too: looking would use them up. Ranges and views
 * know their length without being run over, so they are as true as a list of their items would be. */
bool plait_tpl_truth(plait_tpl_value v) {
    switch (v.kind) {
    case PLAIT_TPL_UNDEFINED:
    case PLAIT_TPL_MISSING:
    case PLAIT_TPL_NONE: return false;
    case PLAIT_TPL_BOOL: return v.u.boolean;
    case PLAIT_TPL_INT: return v.u.integer != 0;
    case PLAIT_TPL_FLOAT: return v.u.real != 0;
    case PLAIT_TPL_STRING: return v.u.string->n_bytes != 0;
    case PLAIT_TPL_LIST:
    case PLAIT_TPL_TUPLE: return v.u.list->n_items != 0;
    case PLAIT_TPL_DICT: return v.u.dict->n_entries != 0;
    case PLAIT_TPL_RANGE: return v.u.range->length != 0;
    case PLAIT_TPL_VIEW: return v.u.view->dict->n_entries != 0;
    default: return true;
    }
}

/* A bool counts as one everywhere but in the tests of `is`. */
bool plait_tpl_is_number(plait_tpl_value v) {
    return v.kind == PLAIT_TPL_INT || v.kind == PLAIT_TPL_FLOAT || v.kind == PLAIT_TPL_BOOL;
}

/* For numbers only; an int beyond 2^53 is rounded, as Python rounds it in mixed arithmetic. */
double plait_tpl_as_double(plait_tpl_value v) {
    return v.kind == PLAIT_TPL_FLOAT  ? v.u.real
           : v.kind == PLAIT_TPL_BOOL ? (double)v.u.boolean
                                      : (double)v.u.integer;
}

/* A bool is an int, as in Python; a float is none, however whole. */
bool plait_tpl_as_int(plait_tpl_render *r, plait_tpl_value v, const char *what, int64_t *out) {
    if (v.kind == PLAIT_TPL_UNDEFINED) return plait_tpl_undefined_error(r, v);
    if (v.kind != PLAIT_TPL_INT && v.kind != PLAIT_TPL_BOOL)
        return plait_tpl_type_error(r, "%s: expected an int, found %s", what, plait_tpl_type_name(v));
    *out = v.kind == PLAIT_TPL_BOOL ? v.u.boolean : v.u.integer;
    return true;
}

/* Only strings: nothing becomes text by itself, as in Python. */
bool plait_tpl_as_str(plait_tpl_render *r, plait_tpl_value v, const char *what, const plait_tpl_str **out) {
    if (v.kind == PLAIT_TPL_UNDEFINED) return plait_tpl_undefined_error(r, v);
    if (v.kind != PLAIT_TPL_STRING)
        return plait_tpl_type_error(r, "%s: expected a string, found %s", what, plait_tpl_type_name(v));
    *out = v.u.string;
    return true;
}

/* LIMIT and not a type error: Python would go on with a longer integer. */
bool plait_tpl_int_overflow(plait_tpl_render *r) {
    return plait_tpl_fail(r, PLAIT_LIMIT, "an integer beyond the limit of 64 bits");
}

/* --- equality and order --- */

/* Compares an int with a double without losing bits: -1, 0, 1, or 2 for NaN. Converting i to double would make 2^53 and
 * 2^53 + 1 equal; converting d to an integer is exact once its range is known. */
static int compare_int_double(int64_t i, double d) {
    if (isnan(d)) return 2;
    /* 2^63 is a double; the largest int64 is none. */
    if (d >= 9223372036854775808.0) return -1;
    if (d < -9223372036854775808.0) return 1;
    /* Towards zero; what was cut off decides when the integers are equal. */
    int64_t whole = (int64_t)d;
    if (i != whole) return i < whole ? -1 : 1;
    double rest = d - (double)whole;
    return rest > 0 ? -1 : rest < 0 ? 1 : 0;
}

/* A float that equals an integer of 64 bits gives that integer. 2^63 itself is a double, the largest integer none. */
static bool whole_double(double d, int64_t *out) {
    if (!(d >= -9223372036854775808.0 && d < 9223372036854775808.0) || d != floor(d)) return false;
    *out = (int64_t)d;
    return true;
}

/* -1, 0, 1, or 2 where one is NaN, with which nothing compares. Bools enter as 0 and 1. The mixed case never converts
 * the integer: rounding it would make an order that is not transitive, with which the merge sort would put equal input
 * into different orders. */
static int compare_numbers(plait_tpl_value a, plait_tpl_value b) {
    if (a.kind == PLAIT_TPL_FLOAT && b.kind == PLAIT_TPL_FLOAT) {
        double x = a.u.real, y = b.u.real;
        return x < y ? -1 : x > y ? 1 : x == y ? 0 : 2;
    }
    if (a.kind == PLAIT_TPL_FLOAT) {
        /* The mixed case is written for the int on the left. */
        int c = compare_numbers(b, a);
        return c == 2 ? 2 : -c;
    }
    int64_t x = a.kind == PLAIT_TPL_BOOL ? a.u.boolean : a.u.integer;
    if (b.kind == PLAIT_TPL_FLOAT) return compare_int_double(x, b.u.real);
    int64_t y = b.kind == PLAIT_TPL_BOOL ? b.u.boolean : b.u.integer;
    return x < y ? -1 : x > y;
}

/* Stops at the first difference, as Python does: what stands behind it is not looked at, and cannot fail. Items that
 * are the same object are compared all the same, so a list that holds NaN does not equal itself; Python looks at
 * identity first there. */
static bool equal_items(plait_tpl_render *r, const plait_tpl_list *a, const plait_tpl_list *b, bool *out) {
    *out = false;
    if (a->n_items != b->n_items) return true;
    for (size_t i = 0; i < a->n_items; i++) {
        bool same;
        if (!plait_tpl_equal(r, a->items[i], b->items[i], &same)) return false;
        if (!same) return true;
    }
    *out = true;
    return true;
}

/* Order does not count. Keys are looked up by hash, so the cost is linear. The key that is looked up comes out of the
 * other dict, so it is hashable; -1 can only mean that steps or levels are used up. */
static bool equal_dicts(plait_tpl_render *r, const plait_tpl_dict *a, const plait_tpl_dict *b, bool *out) {
    *out = false;
    if (a->n_entries != b->n_entries) return true;
    for (size_t i = 0; i < a->n_entries; i++) {
        plait_tpl_value other;
        int found = plait_tpl_dict_get(r, b, a->entries[i].key, &other);
        if (found < 0) return false;
        bool same = false;
        if (found && !plait_tpl_equal(r, a->entries[i].value, other, &same)) return false;
        if (!same) return true;
    }
    *out = true;
    return true;
}

/* As sequences: two empty ones are equal, and of two with one item the step does not matter. */
static bool equal_ranges(const plait_tpl_range *a, const plait_tpl_range *b) {
    if (a->length != b->length) return false;
    return a->length == 0 || (a->start == b->start && (a->length == 1 || a->step == b->step));
}

/* Dict views of keys and items are sets. Views of values are not, for values need not be hashable, so such a view
 * equals only itself. A view of keys never equals one of items. */
static bool equal_views(plait_tpl_render *r, plait_tpl_value a, plait_tpl_value b, bool *out) {
    *out = a.u.view == b.u.view;
    if (*out || a.u.view->part == PLAIT_TPL_VALUES || b.u.view->part != a.u.view->part) return true;
    if (a.u.view->part == PLAIT_TPL_ITEMS) return equal_dicts(r, a.u.view->dict, b.u.view->dict, out);
    const plait_tpl_dict *x = a.u.view->dict, *y = b.u.view->dict;
    if (x->n_entries != y->n_entries) return true;
    for (size_t i = 0; i < x->n_entries; i++) {
        plait_tpl_value ignored;
        int found = plait_tpl_dict_get(r, y, x->entries[i].key, &ignored);
        if (found < 0) return false;
        if (!found) return true;
    }
    *out = true;
    return true;
}

/* By identity: both are of the same kind. */
static bool equal_objects(plait_tpl_value a, plait_tpl_value b) {
    switch (a.kind) {
    case PLAIT_TPL_BUILTIN: return a.u.builtin == b.u.builtin;
    case PLAIT_TPL_METHOD: return a.u.method == b.u.method;
    case PLAIT_TPL_ITERATOR: return a.u.iter == b.u.iter;
    case PLAIT_TPL_NAMESPACE: return a.u.dict == b.u.dict;
    case PLAIT_TPL_LOOP: return a.u.loop == b.u.loop;
    case PLAIT_TPL_MACRO: return a.u.macro == b.u.macro;
    case PLAIT_TPL_CYCLER:
    case PLAIT_TPL_JOINER: return a.u.cycle == b.u.cycle;
    default: return true; /* NONE, UNDEFINED, MISSING */
    }
}

/* Different kinds are unequal, numbers excepted: 1 == 1.0 == true. Strings are charged when they are equal, for only
 * then all bytes were compared. Objects have an identity and nothing else to compare. The level is entered only for
 * containers: comparing the roles of a thousand messages must not be slower for it. */
bool plait_tpl_equal(plait_tpl_render *r, plait_tpl_value a, plait_tpl_value b, bool *out) {
    if (plait_tpl_is_number(a) && plait_tpl_is_number(b)) {
        *out = compare_numbers(a, b) == 0;
        return true;
    }
    *out = false;
    if (a.kind != b.kind) return true;
    if (a.kind == PLAIT_TPL_STRING) {
        *out = plait_tpl_str_equal(a.u.string, b.u.string);
        return plait_tpl_step(r, 1 + (*out ? a.u.string->n_bytes >> 6 : 0));
    }
    if (a.kind == PLAIT_TPL_RANGE) {
        *out = equal_ranges(a.u.range, b.u.range);
        return true;
    }
    if (a.kind != PLAIT_TPL_LIST && a.kind != PLAIT_TPL_TUPLE && a.kind != PLAIT_TPL_DICT &&
        a.kind != PLAIT_TPL_VIEW) {
        *out = equal_objects(a, b);
        return true;
    }
    if (!plait_tpl_step(r, 1) || !plait_tpl_enter(r)) return false;
    bool ok = a.kind == PLAIT_TPL_DICT   ? equal_dicts(r, a.u.dict, b.u.dict, out)
              : a.kind == PLAIT_TPL_VIEW ? equal_views(r, a, b, out)
                                         : equal_items(r, a.u.list, b.u.list, out);
    plait_tpl_leave(r);
    return ok;
}

/* Lexicographic, as Python orders sequences: the first items that differ decide, else the length. */
static bool compare_items(plait_tpl_render *r, const plait_tpl_list *a, const plait_tpl_list *b,
                          const char *op, int *out) {
    for (size_t i = 0; i < a->n_items && i < b->n_items; i++) {
        bool same;
        if (!plait_tpl_equal(r, a->items[i], b->items[i], &same)) return false;
        /* Equality is asked first, as Python does, since it is defined for values that have no order. */
        if (!same) return plait_tpl_compare(r, a->items[i], b->items[i], op, out);
    }
    *out = a->n_items < b->n_items ? -1 : a->n_items > b->n_items;
    return true;
}

/* *out is 2 for NaN. `op` only appears in the message. Strings are charged by the left one: no more of its bytes are
 * looked at, however long the right one is. */
bool plait_tpl_compare(plait_tpl_render *r, plait_tpl_value a, plait_tpl_value b, const char *op, int *out) {
    if (!plait_tpl_step(r, 1)) return false;
    if (plait_tpl_is_number(a) && plait_tpl_is_number(b)) {
        *out = compare_numbers(a, b);
        return true;
    }
    if (a.kind == PLAIT_TPL_UNDEFINED) return plait_tpl_undefined_error(r, a);
    if (b.kind == PLAIT_TPL_UNDEFINED) return plait_tpl_undefined_error(r, b);
    if (a.kind == b.kind && a.kind == PLAIT_TPL_STRING) {
        *out = plait_tpl_str_compare(a.u.string, b.u.string);
        return plait_tpl_step(r, a.u.string->n_bytes >> 6);
    }
    if (a.kind == b.kind && (a.kind == PLAIT_TPL_LIST || a.kind == PLAIT_TPL_TUPLE)) {
        if (!plait_tpl_enter(r)) return false;
        bool ok = compare_items(r, a.u.list, b.u.list, op, out);
        plait_tpl_leave(r);
        return ok;
    }
    return plait_tpl_type_error(r, "'%s' not supported between %s and %s", op, plait_tpl_type_name(a),
                                plait_tpl_type_name(b));
}

/* Every item is a number of 64 bits, but the way to it from the start may be longer than the largest: in unsigned
 * arithmetic the sum is right, whatever overflows on the way. */
int64_t plait_tpl_range_item(const plait_tpl_range *range, size_t i) {
    return (int64_t)((uint64_t)range->start + (uint64_t)i * (uint64_t)range->step);
}

/* From its ends and step, without running over it. Distances are unsigned, since the ends may be any two numbers. The
 * sign of the step decides which end is the larger one; with the item between the ends, the distance from the start
 * fits into 64 bits without a sign even when start and item lie on both sides of zero. */
static bool range_contains(const plait_tpl_range *range, plait_tpl_value item) {
    int64_t i;
    if (item.kind == PLAIT_TPL_FLOAT) {
        if (!whole_double(item.u.real, &i)) return false;
    } else if (item.kind == PLAIT_TPL_INT || item.kind == PLAIT_TPL_BOOL) {
        i = item.kind == PLAIT_TPL_BOOL ? item.u.boolean : item.u.integer;
    } else {
        return false;
    }
    if (range->length == 0) return false;
    int64_t last = plait_tpl_range_item(range, (size_t)range->length - 1);
    bool rises = range->step > 0;
    if (rises ? i < range->start || i > last : i > range->start || i < last) return false;
    uint64_t distance = rises ? (uint64_t)i - (uint64_t)range->start : (uint64_t)range->start - (uint64_t)i;
    uint64_t by = rises ? (uint64_t)range->step : 0 - (uint64_t)range->step;
    return distance % by == 0;
}

/* Keys of a dict by hash, a string in a string by search, everything else item by item with ==; an iterator is used up
 * to the item found. The search in a string is charged before it runs: a failure afterwards would come too late to save
 * the time. */
bool plait_tpl_contains(plait_tpl_render *r, plait_tpl_value container, plait_tpl_value item, bool *out) {
    if (container.kind == PLAIT_TPL_STRING) {
        const plait_tpl_str *part, *s = container.u.string;
        /* With Jinja's undefined the left side of `in` fails by its type, not by being undefined. */
        if (item.kind == PLAIT_TPL_UNDEFINED)
            return plait_tpl_type_error(r, "'in <string>' requires a string, found Undefined");
        if (!plait_tpl_as_str(r, item, "'in <string>'", &part) || !plait_tpl_step(r, 1 + (s->n_bytes >> 6)))
            return false;
        *out = plait_tpl_str_find(s, part, 0, s->n_bytes) != SIZE_MAX;
        return true;
    }
    if (container.kind == PLAIT_TPL_DICT ||
        (container.kind == PLAIT_TPL_VIEW && container.u.view->part == PLAIT_TPL_KEYS)) {
        plait_tpl_value ignored;
        const plait_tpl_dict *d =
            container.kind == PLAIT_TPL_DICT ? container.u.dict : container.u.view->dict;
        int found = plait_tpl_dict_get(r, d, item, &ignored);
        *out = found > 0;
        return found >= 0;
    }
    if (container.kind == PLAIT_TPL_RANGE) {
        *out = range_contains(container.u.range, item);
        return true;
    }
    plait_tpl_iter it;
    if (!plait_tpl_iterate(r, container, &it)) return false;
    plait_tpl_value v;
    int more;
    *out = false;
    while ((more = plait_tpl_next(r, &it, &v)) > 0) {
        if (!plait_tpl_equal(r, v, item, out)) return false;
        if (*out) return true;
    }
    return more == 0;
}

/* Characters of strings, which were counted when they were made. An undefined value has the length 0, as Jinja's
 * undefined is an empty sequence, while reaching into it fails. */
bool plait_tpl_length(plait_tpl_render *r, plait_tpl_value v, int64_t *out) {
    switch (v.kind) {
    case PLAIT_TPL_UNDEFINED: *out = 0; return true;
    case PLAIT_TPL_STRING: *out = (int64_t)v.u.string->n_chars; return true;
    case PLAIT_TPL_LIST:
    case PLAIT_TPL_TUPLE: *out = (int64_t)v.u.list->n_items; return true;
    case PLAIT_TPL_DICT: *out = (int64_t)v.u.dict->n_entries; return true;
    case PLAIT_TPL_RANGE: *out = v.u.range->length; return true;
    case PLAIT_TPL_VIEW: *out = (int64_t)v.u.view->dict->n_entries; return true;
    case PLAIT_TPL_LOOP: return plait_tpl_loop_length(r, v.u.loop, out);
    default: return plait_tpl_type_error(r, "object of type %s has no length", plait_tpl_type_name(v));
    }
}

/* --- lists --- */

/* With `capacity` items to come; n_items is 0. The kind is LIST or TUPLE, one struct for both. */
bool plait_tpl_list_new(plait_tpl_render *r, plait_tpl_kind kind, size_t capacity, plait_tpl_value *out) {
    plait_tpl_list *list = plait_tpl_alloc(r, 1, sizeof *list);
    if (!list) return false;
    if (capacity && !(list->items = plait_tpl_alloc(r, capacity, sizeof *list->items))) return false;
    list->capacity = capacity;
    *out = (plait_tpl_value){.kind = kind, .u.list = list};
    return true;
}

/* Doubling into the arena: what is left behind is at most as much as stays. */
bool plait_tpl_list_push(plait_tpl_render *r, plait_tpl_list *list, plait_tpl_value v) {
    if (list->n_items == list->capacity) {
        /* Most lists of templates are short. */
        size_t capacity = list->capacity ? list->capacity * 2 : 4;
        plait_tpl_value *items = plait_tpl_alloc(r, capacity, sizeof *items);
        if (!items) return false;
        if (list->n_items) memcpy(items, list->items, list->n_items * sizeof *items);
        list->items = items;
        list->capacity = capacity;
    }
    list->items[list->n_items++] = v;
    return true;
}

/* A tuple of two, as items() and groupby give. */
bool plait_tpl_pair(plait_tpl_render *r, plait_tpl_value a, plait_tpl_value b, plait_tpl_value *out) {
    if (!plait_tpl_list_new(r, PLAIT_TPL_TUPLE, 2, out)) return false;
    out->u.list->items[0] = a;
    out->u.list->items[1] = b;
    out->u.list->n_items = 2;
    return true;
}

/* A list of the variables keeps its origin, so that its brackets print as foreign text. The copy is shallow. An
 * iterator is used up by it, so a second call gives an empty list. */
bool plait_tpl_list_from(plait_tpl_render *r, plait_tpl_value v, plait_tpl_value *out) {
    plait_tpl_value list, item;
    plait_tpl_iter it;
    if (!plait_tpl_iterate(r, v, &it) || !plait_tpl_list_new(r, PLAIT_TPL_LIST, 0, &list)) return false;
    int more;
    while ((more = plait_tpl_next(r, &it, &item)) > 0)
        if (!plait_tpl_step(r, 1) || !plait_tpl_list_push(r, list.u.list, item)) return false;
    if (more < 0) return false;
    if (v.kind == PLAIT_TPL_LIST || v.kind == PLAIT_TPL_TUPLE) list.u.list->foreign = v.u.list->foreign;
    *out = list;
    return true;
}

/* Merges two sorted runs of order[]; `less` asks whether the right one must go first. On failure order[] is half merged
 * and worth nothing, but items have not moved yet. */
static bool merge_runs(plait_tpl_render *r, const plait_tpl_value *keys, size_t *order, size_t *spare,
                       size_t from, size_t mid, size_t to, bool reverse) {
    size_t i = from, j = mid, k = from;
    while (i < mid && j < to) {
        int c;
        /* as Python: only "less than" is asked, and equal items keep their order in both directions */
        if (!plait_tpl_compare(r, keys[order[j]], keys[order[i]], "<", &c)) return false;
        bool right_first = reverse ? c == 1 : c == -1;
        spare[k++] = right_first ? order[j++] : order[i++];
    }
    /* One of both is empty. */
    while (i < mid) spare[k++] = order[i++];
    while (j < to) spare[k++] = order[j++];
    memcpy(order + from, spare + from, (to - from) * sizeof *order);
    return true;
}

/* Merge sort from below on indices: stable, n log n, no recursion. Each comparison is charged in plait_tpl_compare. The
 * items are moved once, when the order is known; on failure they are as before. */
bool plait_tpl_sort(plait_tpl_render *r, plait_tpl_value *items, plait_tpl_value *keys, size_t n,
                    bool reverse) {
    if (n < 2) return true;
    size_t *order = plait_tpl_alloc(r, n, sizeof *order), *spare = plait_tpl_alloc(r, n, sizeof *spare);
    plait_tpl_value *sorted = plait_tpl_alloc(r, n, sizeof *sorted);
    if (!order || !spare || !sorted) return false;
    for (size_t i = 0; i < n; i++) order[i] = i;
    for (size_t width = 1; width < n; width *= 2)
        for (size_t from = 0; from + width < n; from += 2 * width) {
            size_t to = from + 2 * width < n ? from + 2 * width : n;
            if (!merge_runs(r, keys, order, spare, from, from + width, to, reverse)) return false;
        }
    for (size_t i = 0; i < n; i++) sorted[i] = items[order[i]];
    memcpy(items, sorted, n * sizeof *items);
    return true;
}

/* --- dicts --- */

/* A bijection of 64 bits (shifts and odd factors), so nothing is lost of a hash that goes through it. */
static uint64_t mix(uint64_t x) {
    x ^= x >> 31;
    x *= 0x9E3779B97F4A7C15u;
    x ^= x >> 29;
    x *= 0xBF58476D1CE4E5B9u;
    return x ^ x >> 32;
}

/* Equal numbers must have equal hashes, whatever their kind: whole floats hash as integers. Seeded, so that keys cannot
 * be chosen to collide. */
static uint64_t hash_number(plait_tpl_render *r, plait_tpl_value v) {
    uint64_t bits;
    int64_t i = v.kind == PLAIT_TPL_BOOL ? v.u.boolean : v.kind == PLAIT_TPL_INT ? v.u.integer : 0;
    /* NaN has a hash too, by its bits; it equals nothing, so each is a key of its own. */
    if (v.kind == PLAIT_TPL_FLOAT && !whole_double(v.u.real, &i))
        memcpy(&bits, &v.u.real, sizeof bits);
    else
        bits = (uint64_t)i;
    return mix(bits ^ r->hash_seed);
}

/* Python's rule of what can be a key: lists and dicts cannot, tuples can if their items can. Objects hash by kind
 * alone; nobody has many of them as keys. A range hashes by its length, the one thing that equal ranges surely
 * share. */
bool plait_tpl_hash(plait_tpl_render *r, plait_tpl_value v, uint64_t *out) {
    switch (v.kind) {
    case PLAIT_TPL_STRING:
        *out = plait_hash_bytes(v.u.string->bytes, v.u.string->n_bytes, r->hash_seed);
        return true;
    case PLAIT_TPL_BOOL:
    case PLAIT_TPL_INT:
    case PLAIT_TPL_FLOAT: *out = hash_number(r, v); return true;
    case PLAIT_TPL_LIST:
    case PLAIT_TPL_DICT: return plait_tpl_type_error(r, "unhashable type: '%s'", plait_tpl_type_name(v));
    case PLAIT_TPL_RANGE: *out = mix((uint64_t)v.u.range->length); return true;
    case PLAIT_TPL_TUPLE: break;
    default: *out = mix((uint64_t)v.kind); return true;
    }
    /* The empty tuple's hash; order matters, for each item is mixed in with what came before. */
    uint64_t h = 7;
    if (!plait_tpl_enter(r)) return false;
    for (size_t i = 0; i < v.u.list->n_items; i++) {
        uint64_t item;
        if (!plait_tpl_hash(r, v.u.list->items[i], &item)) return false;
        h = mix(h ^ item);
    }
    plait_tpl_leave(r);
    *out = h;
    return true;
}

/* Without entries it takes no more memory than its head. */
bool plait_tpl_dict_new(plait_tpl_render *r, plait_tpl_value *out) {
    plait_tpl_dict *d = plait_tpl_alloc(r, 1, sizeof *d);
    if (!d) return false;
    *out = (plait_tpl_value){.kind = PLAIT_TPL_DICT, .u.dict = d};
    return true;
}

/* 1, 0, or -1 after a failure. Hashes were equal, so this is seldom in vain. Two strings, the usual case, are compared
 * without the charge by length: their hashes of 64 bits agree already, so the comparison nearly always ends the
 * search. */
static int same_key(plait_tpl_render *r, plait_tpl_value a, plait_tpl_value b) {
    if (!plait_tpl_step(r, 1)) return -1;
    if (a.kind == PLAIT_TPL_STRING && b.kind == PLAIT_TPL_STRING)
        return plait_tpl_str_equal(a.u.string, b.u.string);
    bool same;
    return plait_tpl_equal(r, a, b, &same) ? same : -1;
}

/* Position of a key, or n_entries; false after a failure. Linear while there is no index; with one the probing ends at
 * a free slot, of which there are at least half. The stored hash is looked at before the key, so keys that differ are
 * passed without a look at their bytes. */
static bool find_entry(plait_tpl_render *r, const plait_tpl_dict *d, plait_tpl_value key, uint64_t hash,
                       size_t *out) {
    *out = d->n_entries;
    if (!d->index) {
        for (size_t i = 0; i < d->n_entries; i++) {
            if (d->entries[i].hash != hash) continue;
            int same = same_key(r, d->entries[i].key, key);
            if (same < 0) return false;
            if (same) return *out = i, true;
        }
        return true;
    }
    size_t mask = d->n_index - 1;
    for (size_t slot = hash & mask; d->index[slot]; slot = (slot + 1) & mask) {
        size_t i = d->index[slot] - 1;
        if (d->entries[i].hash != hash) continue;
        int same = same_key(r, d->entries[i].key, key);
        if (same < 0) return false;
        if (same) return *out = i, true;
    }
    return true;
}

/* n_index is a power of two. */
static void index_entry(plait_tpl_dict *d, size_t i) {
    size_t mask = d->n_index - 1, slot = d->entries[i].hash & mask;
    while (d->index[slot]) slot = (slot + 1) & mask;
    /* Zero stands for a free slot. */
    d->index[slot] = (uint32_t)i + 1;
}

/* After entries have moved. Linear, which growing and removing pay for anyway. */
static void index_all(plait_tpl_dict *d) {
    memset(d->index, 0, d->n_index * sizeof *d->index);
    for (size_t i = 0; i < d->n_entries; i++) index_entry(d, i);
}

/* The old arrays stay in the arena, unused. The index holds entry numbers of 32 bits. */
static bool grow_dict(plait_tpl_render *r, plait_tpl_dict *d) {
    size_t capacity = d->capacity ? d->capacity * 2 : 4;
    if (capacity > UINT32_MAX / 4)
        return plait_tpl_fail(r, PLAIT_LIMIT, "a dict beyond the limit of %u keys", UINT32_MAX / 8);
    plait_tpl_entry *entries = plait_tpl_alloc(r, capacity, sizeof *entries);
    if (!entries) return false;
    /* Twice as many slots as entries, so at least half of them stay free. */
    if (capacity > SMALL_DICT) {
        uint32_t *index = plait_tpl_alloc(r, capacity * 2, sizeof *index);
        if (!index) return false;
        d->index = index;
        d->n_index = capacity * 2;
    }
    if (d->n_entries) memcpy(entries, d->entries, d->n_entries * sizeof *entries);
    d->entries = entries;
    d->capacity = capacity;
    if (d->index) index_all(d);
    return true;
}

/* An existing key keeps its place and its first spelling (1 stays 1 when true is set), as in Python. */
bool plait_tpl_dict_set(plait_tpl_render *r, plait_tpl_dict *d, plait_tpl_value key, plait_tpl_value value) {
    uint64_t hash;
    size_t i;
    if (!plait_tpl_hash(r, key, &hash) || !find_entry(r, d, key, hash, &i)) return false;
    if (i == d->n_entries) {
        if (d->n_entries == d->capacity && !grow_dict(r, d)) return false;
        d->entries[d->n_entries++] = (plait_tpl_entry){key, value, hash};
        if (d->index) index_entry(d, i);
        return true;
    }
    d->entries[i].value = value;
    return true;
}

/* The hash comes before the look at emptiness: an unhashable key fails in an empty dict too. */
int plait_tpl_dict_get(plait_tpl_render *r, const plait_tpl_dict *d, plait_tpl_value key,
                       plait_tpl_value *out) {
    uint64_t hash;
    size_t i;
    if (!plait_tpl_hash(r, key, &hash)) return -1;
    if (d->n_entries == 0) return 0;
    if (!find_entry(r, d, key, hash, &i)) return -1;
    if (i == d->n_entries) return 0;
    *out = d->entries[i].value;
    return 1;
}

/* Later entries move up, which keeps the order and costs linear time; it is charged. */
int plait_tpl_dict_remove(plait_tpl_render *r, plait_tpl_dict *d, plait_tpl_value key, plait_tpl_value *out) {
    uint64_t hash;
    size_t i;
    if (!plait_tpl_hash(r, key, &hash) || !find_entry(r, d, key, hash, &i)) return -1;
    if (i == d->n_entries) return 0;
    if (!plait_tpl_step(r, 1 + d->n_entries / 16)) return -1;
    *out = d->entries[i].value;
    memmove(d->entries + i, d->entries + i + 1, (d->n_entries - i - 1) * sizeof *d->entries);
    d->n_entries--;
    if (d->index) index_all(d);
    return 1;
}

/* For names that the program knows. The string is a stack value without counts of characters, which neither hash nor ==
 * looks at. */
const plait_tpl_value *plait_tpl_dict_find(plait_tpl_render *r, const plait_tpl_dict *d, const char *key) {
    plait_tpl_str s = {.bytes = key, .n_bytes = strlen(key)};
    uint64_t hash;
    size_t i;
    if (!plait_tpl_hash(r, plait_tpl_string(&s), &hash) || !find_entry(r, d, plait_tpl_string(&s), hash, &i))
        return NULL;
    return i < d->n_entries ? &d->entries[i].value : NULL;
}

/* Memory stays for the next round of a loop, which is what clears its names. */
void plait_tpl_dict_clear(plait_tpl_dict *d) {
    d->n_entries = 0;
    if (d->index) memset(d->index, 0, d->n_index * sizeof *d->index);
}
