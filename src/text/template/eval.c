/* Expressions. Not here: operators (operators.c), attributes, items and calls (access.c), statements (exec.c).
 * Invariant: every path through plait_tpl_eval counts one step and one level, so no tree can hang it.
 *
 * Operands are evaluated from left to right, as Python does: a macro that changes a namespace can tell. */
#include "text/template/eval.h"

#include "text/template/print.h"

#include <string.h>

/* Where a failure is reported. Set again after operands were evaluated, which have moved it. */
static void place(plait_tpl_render *r, const plait_tpl_node *node) {
    r->line = node->line;
    r->column = node->column;
}

/* From the innermost scope outwards, then the caller's variables, then the global functions: a template may hide any of
 * them. What is nowhere is undefined, which is no failure yet. A hash is computed for each frame that is asked, as
 * frames do not share a table; names are short. */
static bool eval_name(plait_tpl_render *r, const plait_tpl_node *node, plait_tpl_frame *frame,
                      plait_tpl_value *out) {
    const plait_tpl_str *name = node->value.u.string;
    /* Each frame is a small dict, and frames are few. */
    for (; frame; frame = frame->parent)
        if (plait_tpl_dict_get(r, &frame->names, node->value, out) > 0) return true;
    if (plait_tpl_dict_get(r, r->context, node->value, out) > 0) return true;
    /* Made anew each time: a built-in function is a row and takes no memory. */
    const plait_tpl_builtin *row = plait_tpl_find_global(name);
    if (row) {
        *out = (plait_tpl_value){.kind = PLAIT_TPL_BUILTIN, .u.builtin = row};
        return true;
    }
    /* Names are cut at 80 bytes, which may split a character. */
    *out = plait_tpl_undefined_name(r, "'%.*s' is undefined", (int)(name->n_bytes < 80 ? name->n_bytes : 80),
                                    name->bytes);
    return r->status == PLAIT_OK;
}

/* Also for tuples without parentheses; n_items makes the list large enough at once. */
static bool eval_sequence(plait_tpl_render *r, const plait_tpl_node *node, plait_tpl_frame *frame,
                          plait_tpl_value *out) {
    plait_tpl_value list;
    if (!plait_tpl_list_new(r, node->kind == PLAIT_TPL_N_LIST ? PLAIT_TPL_LIST : PLAIT_TPL_TUPLE,
                            node->n_items, &list))
        return false;
    for (const plait_tpl_node *item = node->items; item; item = item->next) {
        plait_tpl_value v;
        if (!plait_tpl_eval(r, item, frame, &v) || !plait_tpl_list_push(r, list.u.list, v)) return false;
    }
    *out = list;
    return true;
}

/* A key that occurs twice keeps its first place and its last value. The key is evaluated before its value. An
 * unhashable key fails only when it is set, behind the evaluation of the value, as in Python. */
static bool eval_dict(plait_tpl_render *r, const plait_tpl_node *node, plait_tpl_frame *frame,
                      plait_tpl_value *out) {
    plait_tpl_value dict;
    if (!plait_tpl_dict_new(r, &dict)) return false;
    for (const plait_tpl_node *pair = node->items; pair; pair = pair->next) {
        plait_tpl_value key, value;
        if (!plait_tpl_eval(r, pair->a, frame, &key) || !plait_tpl_eval(r, pair->b, frame, &value) ||
            !plait_tpl_dict_set(r, dict.u.dict, key, value))
            return false;
    }
    *out = dict;
    return true;
}

/* The operator ~: everything becomes a string first. The result is plain, whatever its parts were. An undefined part
 * gives no text and is no failure here, unlike with +. */
static bool eval_concat(plait_tpl_render *r, const plait_tpl_node *node, plait_tpl_frame *frame,
                        plait_tpl_value *out) {
    const plait_tpl_str *whole = NULL, *part;
    for (const plait_tpl_node *item = node->items; item; item = item->next) {
        plait_tpl_value v;
        if (!plait_tpl_eval(r, item, frame, &v)) return false;
        place(r, node);
        /* str_concat grows the left string in place where it can, so a chain of ~ costs its length once. */
        if (!plait_tpl_to_str(r, v, &part)) return false;
        if (whole && !plait_tpl_str_concat(r, whole, part, &v)) return false;
        whole = whole ? v.u.string : part;
    }
    return plait_tpl_str_with_markup(r, whole, false, out);
}

/* a < b < c is a < b and b < c, with b evaluated once, and c not at all when the first does not hold. */
static bool eval_compare(plait_tpl_render *r, const plait_tpl_node *node, plait_tpl_frame *frame,
                         plait_tpl_value *out) {
    plait_tpl_value left, right;
    bool holds = true;
    if (!plait_tpl_eval(r, node->a, frame, &left)) return false;
    for (const plait_tpl_node *operand = node->items; operand && holds; operand = operand->next) {
        if (!plait_tpl_eval(r, operand->a, frame, &right)) return false;
        place(r, operand);
        if (!plait_tpl_relation(r, operand->op, left, right, &holds)) return false;
        /* The middle operand of a chain, evaluated once. */
        left = right;
    }
    *out = plait_tpl_bool(holds);
    return true;
}

/* Only the branch that is taken is evaluated. Without else the value is undefined, with a hint of Jinja's words. */
static bool eval_cond(plait_tpl_render *r, const plait_tpl_node *node, plait_tpl_frame *frame,
                      plait_tpl_value *out) {
    plait_tpl_value condition;
    if (!plait_tpl_eval(r, node->b, frame, &condition)) return false;
    if (plait_tpl_truth(condition)) return plait_tpl_eval(r, node->a, frame, out);
    if (node->c) return plait_tpl_eval(r, node->c, frame, out);
    *out = plait_tpl_undefined("the inline if-expression evaluated to false and no else section was defined");
    return true;
}

/* +true is 1. The one overflow is -INT64_MIN. A sign in front of a literal is an operation, so the smallest 64-bit
 * integer cannot be written: its digits without the sign are one too many. */
static bool eval_sign(plait_tpl_render *r, const plait_tpl_node *node, plait_tpl_value v,
                      plait_tpl_value *out) {
    if (v.kind == PLAIT_TPL_UNDEFINED) return plait_tpl_undefined_error(r, v);
    if (!plait_tpl_is_number(v))
        return plait_tpl_type_error(r, "bad operand type for unary sign: '%s'", plait_tpl_type_name(v));
    if (v.kind == PLAIT_TPL_FLOAT) {
        *out = plait_tpl_float(node->kind == PLAIT_TPL_N_NEGATE ? -v.u.real : v.u.real);
        return true;
    }
    int64_t i = v.kind == PLAIT_TPL_BOOL ? v.u.boolean : v.u.integer;
    if (node->kind == PLAIT_TPL_N_NEGATE && __builtin_sub_overflow((int64_t)0, i, &i))
        return plait_tpl_int_overflow(r);
    *out = plait_tpl_int(i);
    return true;
}

/* Slices are not values: their parts are evaluated here, and what is left out is None. The value is evaluated before
 * what stands in the brackets. x[a:b] of a dict fails in the slice, not here. */
static bool eval_item(plait_tpl_render *r, const plait_tpl_node *node, plait_tpl_frame *frame,
                      plait_tpl_value *out) {
    plait_tpl_value v, key, part[3];
    if (!plait_tpl_eval(r, node->a, frame, &v)) return false;
    if (node->b->kind != PLAIT_TPL_N_SLICE) {
        if (!plait_tpl_eval(r, node->b, frame, &key)) return false;
        place(r, node);
        return plait_tpl_get_item(r, v, key, out);
    }
    const plait_tpl_node *parts[3] = {node->b->a, node->b->b, node->b->c};
    for (int i = 0; i < 3; i++) {
        part[i] = plait_tpl_none();
        if (parts[i] && !plait_tpl_eval(r, parts[i], frame, &part[i])) return false;
    }
    place(r, node);
    return plait_tpl_slice(r, v, part[0], part[1], part[2], out);
}

/* Always true, so that it can end a condition. */
static bool add_named(plait_tpl_args *args, const plait_tpl_str *name, plait_tpl_value v) {
    args->names[args->n_named] = name;
    args->named[args->n_named++] = v;
    return true;
}

/* Lists of arguments are short. */
static size_t count_nodes(const plait_tpl_node *list) {
    size_t n = 0;
    for (; list; list = list->next) n++;
    return n;
}

/* **mapping: keys must be strings. Room was made for all of them. */
static bool spread_named(plait_tpl_render *r, plait_tpl_value stars, plait_tpl_args *args) {
    for (size_t i = 0; i < stars.u.dict->n_entries; i++) {
        const plait_tpl_str *name;
        if (!plait_tpl_as_str(r, stars.u.dict->entries[i].key, "name of an argument", &name)) return false;
        add_named(args, name, stars.u.dict->entries[i].value);
    }
    return true;
}

/* The order of Python: positional, named, *sequence, **mapping; the result lists named ones first in the order of
 * writing. That a name is given twice shows when the arguments meet the parameters. No arguments take no memory.
 * Everything given is in the arena and never changed afterwards, so a lazy filter may keep the arrays until it runs. */
bool plait_tpl_eval_args(plait_tpl_render *r, const plait_tpl_node *node, plait_tpl_frame *frame,
                         const plait_tpl_value *extra, plait_tpl_args *out) {
    static const plait_tpl_str caller = {.bytes = "caller", .n_bytes = 6, .n_chars = 6};
    plait_tpl_value v, stars = {.kind = PLAIT_TPL_MISSING}, list;
    *out = (plait_tpl_args){0};
    if (!node->items && !node->named && !node->star && !node->stars && !extra) return true;
    if (!plait_tpl_list_new(r, PLAIT_TPL_LIST, node->n_items, &list)) return false;
    for (const plait_tpl_node *item = node->items; item; item = item->next)
        if (!plait_tpl_eval(r, item, frame, &v) || !plait_tpl_list_push(r, list.u.list, v)) return false;
    /* `extra` is the caller of a call block, passed by that name. */
    size_t n_named = count_nodes(node->named) + (extra != NULL);
    plait_tpl_value *named = NULL;
    if (n_named && !(named = plait_tpl_alloc(r, n_named, sizeof *named))) return false;
    size_t k = 0;
    for (const plait_tpl_node *item = node->named; item; item = item->next)
        if (!plait_tpl_eval(r, item->a, frame, &named[k++])) return false;
    if (node->star) {
        plait_tpl_iter it;
        int more;
        if (!plait_tpl_eval(r, node->star, frame, &v) || !plait_tpl_iterate(r, v, &it)) return false;
        while ((more = plait_tpl_next(r, &it, &v)) > 0)
            if (!plait_tpl_list_push(r, list.u.list, v)) return false;
        if (more < 0) return false;
    }
    if (node->stars) {
        if (!plait_tpl_eval(r, node->stars, frame, &stars)) return false;
        if (stars.kind != PLAIT_TPL_DICT)
            return plait_tpl_type_error(r, "argument after ** must be a mapping, not %s",
                                        plait_tpl_type_name(stars));
        n_named += stars.u.dict->n_entries;
    }
    out->pos = list.u.list->items;
    out->n_pos = list.u.list->n_items;
    if (!n_named) return true;
    out->names = plait_tpl_alloc(r, n_named, sizeof *out->names);
    out->named = plait_tpl_alloc(r, n_named, sizeof *out->named);
    if (!out->names || !out->named) return false;
    k = 0;
    for (const plait_tpl_node *item = node->named; item; item = item->next)
        add_named(out, item->value.u.string, named[k++]);
    if (extra) add_named(out, &caller, *extra);
    return stars.kind == PLAIT_TPL_MISSING || spread_named(r, stars, out);
}

/* The callee is found before its arguments are evaluated, so the failure of a missing method comes first, as in Python.
 * A method that is called at once needs no bound object: `row` says what to run and `self` on what. */
bool plait_tpl_eval_call(plait_tpl_render *r, const plait_tpl_node *node, plait_tpl_frame *frame,
                         const plait_tpl_value *caller, plait_tpl_value *out) {
    plait_tpl_value callee, self;
    plait_tpl_args args;
    const plait_tpl_builtin *row = NULL;
    if (node->a->kind == PLAIT_TPL_N_ATTRIBUTE) { /* the usual case, without an object for the bound method */
        if (!plait_tpl_eval(r, node->a->a, frame, &self)) return false;
        row = plait_tpl_find_method(self.kind, node->a->value.u.string);
        place(r, node->a);
        if (!row && !plait_tpl_get_attribute(r, self, node->a->value.u.string, &callee)) return false;
    } else if (!plait_tpl_eval(r, node->a, frame, &callee)) {
        return false;
    }
    if (!plait_tpl_eval_args(r, node, frame, caller, &args)) return false;
    place(r, node);
    return row ? plait_tpl_apply(r, row, self, &args, out) : plait_tpl_call_value(r, callee, &args, out);
}

/* `text` reaches the innermost filter of a block, whose node has no operand. An unknown filter fails when it is
 * reached, not when it is parsed: a template may name filters of other systems in branches that are never taken. */
bool plait_tpl_eval_filters(plait_tpl_render *r, const plait_tpl_node *node, plait_tpl_frame *frame,
                            plait_tpl_value text, plait_tpl_value *out) {
    /* Stays the text where the innermost filter has no operand. */
    plait_tpl_value self = text;
    plait_tpl_args args;
    if (!plait_tpl_enter(r)) return false;
    if (node->a) {
        bool chained = node->a->kind == PLAIT_TPL_N_FILTER;
        if (!(chained ? plait_tpl_eval_filters(r, node->a, frame, text, &self)
                      : plait_tpl_eval(r, node->a, frame, &self)))
            return false;
    }
    place(r, node);
    const plait_tpl_str *name = node->value.u.string;
    if (!node->builtin)
        return plait_tpl_type_error(r, "there is no filter named '%.*s'",
                                    (int)(name->n_bytes < 60 ? name->n_bytes : 60), name->bytes);
    /* Arguments after the value, as Python evaluates a call. */
    if (!plait_tpl_eval_args(r, node, frame, NULL, &args)) return false;
    place(r, node);
    if (!plait_tpl_step(r, 1) || !plait_tpl_apply(r, node->builtin, self, &args, out)) return false;
    plait_tpl_leave(r);
    return true;
}

/* An unknown test fails before its operand is evaluated. */
static bool eval_test(plait_tpl_render *r, const plait_tpl_node *node, plait_tpl_frame *frame,
                      plait_tpl_value *out) {
    plait_tpl_value self;
    plait_tpl_args args;
    const plait_tpl_str *name = node->value.u.string;
    if (!node->builtin) {
        place(r, node);
        return plait_tpl_type_error(r, "there is no test named '%.*s'",
                                    (int)(name->n_bytes < 60 ? name->n_bytes : 60), name->bytes);
    }
    if (!plait_tpl_eval(r, node->a, frame, &self) || !plait_tpl_eval_args(r, node, frame, NULL, &args))
        return false;
    place(r, node);
    return plait_tpl_apply(r, node->builtin, self, &args, out);
}

/* Both operands always: these operators have no short form. */
static bool eval_binary(plait_tpl_render *r, const plait_tpl_node *node, plait_tpl_frame *frame,
                        plait_tpl_value *out) {
    plait_tpl_value a, b;
    if (!plait_tpl_eval(r, node->a, frame, &a) || !plait_tpl_eval(r, node->b, frame, &b)) return false;
    place(r, node);
    return plait_tpl_binary(r, node->op, a, b, out);
}

/* `and` and `or` give one of their operands, not a bool, and skip the second where the first decides. */
static bool eval_one(plait_tpl_render *r, const plait_tpl_node *node, plait_tpl_frame *frame,
                     plait_tpl_value *out) {
    plait_tpl_value v;
    switch (node->kind) {
    case PLAIT_TPL_N_CONST: *out = node->value; return true;
    case PLAIT_TPL_N_NAME: return eval_name(r, node, frame, out);
    case PLAIT_TPL_N_TUPLE:
    case PLAIT_TPL_N_LIST: return eval_sequence(r, node, frame, out);
    case PLAIT_TPL_N_DICT: return eval_dict(r, node, frame, out);
    case PLAIT_TPL_N_COND: return eval_cond(r, node, frame, out);
    case PLAIT_TPL_N_OR:
    case PLAIT_TPL_N_AND:
        if (!plait_tpl_eval(r, node->a, frame, out)) return false;
        return plait_tpl_truth(*out) == (node->kind == PLAIT_TPL_N_OR) ||
               plait_tpl_eval(r, node->b, frame, out);
    case PLAIT_TPL_N_NOT:
        if (!plait_tpl_eval(r, node->a, frame, &v)) return false;
        *out = plait_tpl_bool(!plait_tpl_truth(v));
        return true;
    case PLAIT_TPL_N_COMPARE: return eval_compare(r, node, frame, out);
    case PLAIT_TPL_N_BINARY: return eval_binary(r, node, frame, out);
    case PLAIT_TPL_N_CONCAT: return eval_concat(r, node, frame, out);
    case PLAIT_TPL_N_NEGATE:
    case PLAIT_TPL_N_POSITIVE:
        if (!plait_tpl_eval(r, node->a, frame, &v)) return false;
        place(r, node);
        return eval_sign(r, node, v, out);
    case PLAIT_TPL_N_ATTRIBUTE:
        if (!plait_tpl_eval(r, node->a, frame, &v)) return false;
        place(r, node);
        return plait_tpl_get_attribute(r, v, node->value.u.string, out);
    case PLAIT_TPL_N_ITEM: return eval_item(r, node, frame, out);
    case PLAIT_TPL_N_CALL: return plait_tpl_eval_call(r, node, frame, NULL, out);
    case PLAIT_TPL_N_FILTER: return plait_tpl_eval_filters(r, node, frame, plait_tpl_none(), out);
    case PLAIT_TPL_N_TEST: return eval_test(r, node, frame, out);
    /* A slice inside of several indices, which Python's own types refuse as well. */
    default: return plait_tpl_type_error(r, "a slice stands alone between brackets");
    }
}

/* A failure leaves the level entered: the rendering is over. */
bool plait_tpl_eval(plait_tpl_render *r, const plait_tpl_node *node, plait_tpl_frame *frame,
                    plait_tpl_value *out) {
    place(r, node);
    if (!plait_tpl_step(r, 1) || !plait_tpl_enter(r) || !eval_one(r, node, frame, out)) return false;
    plait_tpl_leave(r);
    return true;
}
