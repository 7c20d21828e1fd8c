/* Statements, macros and loops. Not here: expressions (eval.c), how values print (print.c). Invariant: r->out is
 * restored by whoever replaced it, also after a failure.
 *
 * Scopes are frames: a round of a loop, a call of a macro, with, blocks and captured text each get one, `if` does not.
 * What is set in a frame is gone with it, which is Jinja's rule; namespaces are the way around it.
 *
 * Output is a builder that r->out points to. Text, once put there, is never taken back: what must not appear after a
 * failure is dropped with the builder around it, and the caller of the whole rendering gets no text at all. */
#include "text/template/eval.h"

#include "text/template/print.h"

#include <string.h>

/* How a statement ended. BREAK and CONTINUE end every list up to the loop around, and the parser lets them stand only
 * inside of one. */
typedef enum flow { FLOW_NEXT, FLOW_BREAK, FLOW_CONTINUE, FLOW_FAIL } flow;

static flow run_list(plait_tpl_render *r, const plait_tpl_node *list, plait_tpl_frame *frame);

/* Errors name the line of the statement or target that was placed last. */
static void place(plait_tpl_render *r, const plait_tpl_node *node) {
    r->line = node->line;
    r->column = node->column;
}

/* NULL after a failure. Frames live in the arena, not on the stack, because a macro keeps the one it was defined in. A
 * round whose frame a macro holds costs the next round a new one, which the arena's limit counts. */
static plait_tpl_frame *new_frame(plait_tpl_render *r, plait_tpl_frame *parent) {
    plait_tpl_frame *f = plait_tpl_alloc(r, 1, sizeof *f);
    if (f) f->parent = parent;
    return f;
}

/* --- assignment --- */

static bool assign(plait_tpl_render *r, const plait_tpl_node *target, plait_tpl_frame *frame,
                   plait_tpl_value v);

/* As many items as targets, neither fewer nor more; one item more is asked for to know that. Targets that were set
 * before the count turned out wrong stay set; nothing can see them, for the rendering fails. */
static bool unpack(plait_tpl_render *r, const plait_tpl_node *target, plait_tpl_frame *frame,
                   plait_tpl_value v) {
    plait_tpl_iter it;
    plait_tpl_value item;
    int more;
    if (!plait_tpl_iterate(r, v, &it)) return false;
    for (const plait_tpl_node *t = target->items; t; t = t->next) {
        more = plait_tpl_next(r, &it, &item);
        if (more == 0)
            return plait_tpl_type_error(r, "not enough values to unpack, expected %u", target->n_items);
        if (more < 0 || !assign(r, t, frame, item)) return false;
    }
    more = plait_tpl_next(r, &it, &item);
    if (more > 0) return plait_tpl_type_error(r, "too many values to unpack, expected %u", target->n_items);
    return more == 0;
}

/* Only a namespace can be changed through a name: set ns.x = ... is the one assignment that reaches out of its scope.
 * The namespace is looked up as any name would be, so one from an outer scope or passed as an argument can be
 * changed. */
static bool assign_attribute(plait_tpl_render *r, const plait_tpl_node *target, plait_tpl_frame *frame,
                             plait_tpl_value v) {
    plait_tpl_value ns;
    plait_tpl_node name = {
        .kind = PLAIT_TPL_N_NAME, .line = target->line, .column = target->column, .value = target->value};
    if (!plait_tpl_eval(r, &name, frame, &ns)) return false;
    if (ns.kind != PLAIT_TPL_NAMESPACE)
        return plait_tpl_type_error(r, "cannot assign attribute on non-namespace object");
    return plait_tpl_dict_set(r, ns.u.dict, plait_tpl_string(target->name2), v);
}

static bool assign(plait_tpl_render *r, const plait_tpl_node *target, plait_tpl_frame *frame,
                   plait_tpl_value v) {
    place(r, target);
    if (target->kind == PLAIT_TPL_N_NAME) return plait_tpl_dict_set(r, &frame->names, target->value, v);
    if (target->kind == PLAIT_TPL_N_NS_TARGET) return assign_attribute(r, target, frame, v);
    return unpack(r, target, frame, v);
}

/* --- output --- */

static bool print_value(plait_tpl_render *r, plait_tpl_value v) {
    plait_tpl_put_value(r->out, v);
    return !r->out->failed && r->status == PLAIT_OK;
}

/* Runs a list with its output going to *out, which is set when the list ended normally: of what break and continue leave,
 * nothing is kept, as in Jinja. */
static flow capture(plait_tpl_render *r, const plait_tpl_node *list, plait_tpl_frame *frame,
                    plait_tpl_value *out) {
    plait_tpl_builder b, *outer = r->out;
    plait_tpl_builder_init(&b, r);
    r->out = &b;
    flow f = run_list(r, list, frame);
    r->out = outer;
    return f == FLOW_NEXT && !plait_tpl_finish(&b, out) ? FLOW_FAIL : f;
}

/* --- loops --- */

/* *loop is complete even when the source cannot be iterated. Nothing is read yet. The length is asked for only when the
 * body wants it, since for a lazy source the answer costs the whole source. */
static bool loop_init(plait_tpl_render *r, plait_tpl_loop *loop, const plait_tpl_node *node,
                      plait_tpl_frame *outer, plait_tpl_value source, uint32_t depth0) {
    *loop = (plait_tpl_loop){
        .node = node, .outer = outer, .index0 = -1, .length = -1, .depth0 = depth0, .source = source};
    return plait_tpl_iterate(r, source, &loop->iter);
}

/* The next item that passes the loop's condition. 1 and *out, 0 at the end, -1 failed. Items that fail the condition
 * count neither for the index nor as neighbours. The condition sees the loop's names in a frame of its own, without
 * `loop`. A loop's condition sees the items one by one, in order, also when `length` was asked: plait_tpl_loop_length
 * runs it for the rest and sets `tested`, and from then on it is not asked again. */
static int pull(plait_tpl_render *r, plait_tpl_loop *loop, plait_tpl_value *out) {
    for (;;) {
        int more = plait_tpl_next(r, &loop->iter, out);
        if (more <= 0 || !loop->node->c || loop->tested) return more;
        plait_tpl_frame *frame = new_frame(r, loop->outer);
        plait_tpl_value condition;
        if (!frame || !assign(r, loop->node->a, frame, *out) ||
            !plait_tpl_eval(r, loop->node->c, frame, &condition))
            return -1;
        if (plait_tpl_truth(condition)) return 1;
    }
}

/* Looks one item ahead: 1 there is one (in loop->after), 0 none, -1 failed. */
static int peek(plait_tpl_render *r, plait_tpl_loop *loop) {
    if (loop->has_after) return 1;
    int more = pull(r, loop, &loop->after);
    loop->has_after = more > 0;
    return more;
}

/* Steps on to the next item, first to one that peek took ahead; returns as pull. previtem is the item of the round
 * before, whatever the body did with it; `has_before` stays false in the first round. */
static int advance(plait_tpl_render *r, plait_tpl_loop *loop) {
    plait_tpl_value v = loop->after;
    int more = loop->has_after ? 1 : pull(r, loop, &v);
    if (more <= 0) return more;
    loop->has_after = false;
    loop->index0++;
    loop->before = loop->current;
    loop->has_before = loop->has_current;
    loop->current = v;
    loop->has_current = true;
    return 1;
}

/* A lazy or filtered source has a length only when it was read to its end: the rest goes into a list over which the
 * loop then runs on, with its condition already applied (tested). Items already taken are index0 + 1, and one that peek
 * holds has left the source without having been in a round, hence has_after in the sum. Kept once known: a list that
 * grows while the loop runs over it does not change it. */
bool plait_tpl_loop_length(plait_tpl_render *r, plait_tpl_loop *loop, int64_t *out) {
    if (loop->length < 0 && (loop->node->c || loop->source.kind == PLAIT_TPL_ITERATOR)) {
        plait_tpl_value rest, v;
        int more;
        if (!plait_tpl_list_new(r, PLAIT_TPL_LIST, 0, &rest)) return false;
        while ((more = pull(r, loop, &v)) > 0)
            if (!plait_tpl_list_push(r, rest.u.list, v)) return false;
        /* The loop goes on over the list, from its first item; what came before is in index0. */
        if (more < 0 || !plait_tpl_iterate(r, rest, &loop->iter)) return false;
        loop->tested = true;
        loop->length = (int64_t)rest.u.list->n_items + loop->index0 + 1 + loop->has_after;
    } else if (loop->length < 0 && !plait_tpl_length(r, loop->source, &loop->length)) {
        return false;
    }
    *out = loop->length;
    return true;
}

/* A neighbour that is not there is undefined, not an error; the hint appears when it is used. */
static int neighbour(bool there, plait_tpl_value v, const char *hint, plait_tpl_value *out) {
    *out = there ? v : plait_tpl_undefined(hint);
    return 1;
}

/* 1 and *out, 0 when `loop` has no such attribute, -1 failed. last and nextitem look one item ahead, so a lazy source
 * runs one item early, as in Jinja. */
int plait_tpl_loop_attribute(plait_tpl_render *r, plait_tpl_loop *loop, const plait_tpl_str *name,
                             plait_tpl_value *out) {
    int64_t n;
    int more;
    if (plait_tpl_str_is(name, "index")) return *out = plait_tpl_int(loop->index0 + 1), 1;
    if (plait_tpl_str_is(name, "index0")) return *out = plait_tpl_int(loop->index0), 1;
    if (plait_tpl_str_is(name, "first")) return *out = plait_tpl_bool(loop->index0 == 0), 1;
    if (plait_tpl_str_is(name, "depth")) return *out = plait_tpl_int(loop->depth0 + 1), 1;
    if (plait_tpl_str_is(name, "depth0")) return *out = plait_tpl_int(loop->depth0), 1;
    if (plait_tpl_str_is(name, "previtem"))
        return neighbour(loop->has_before && loop->index0 > 0, loop->before, "there is no previous item",
                         out);
    bool last = plait_tpl_str_is(name, "last"), next = plait_tpl_str_is(name, "nextitem");
    if (last || next) {
        if ((more = peek(r, loop)) < 0) return -1;
        if (next) return neighbour(more > 0, loop->after, "there is no next item", out);
        return *out = plait_tpl_bool(!more), 1;
    }
    bool rev = plait_tpl_str_is(name, "revindex"), rev0 = plait_tpl_str_is(name, "revindex0");
    if (!rev && !rev0 && !plait_tpl_str_is(name, "length")) return 0;
    if (!plait_tpl_loop_length(r, loop, &n)) return -1;
    *out = plait_tpl_int(rev ? n - loop->index0 : rev0 ? n - loop->index0 - 1 : n);
    return 1;
}

/* One round: the body in a frame of its own, with `loop` and the loop's names. *frame is used again unless a macro
 * refers to it. Clearing a frame and filling it again saves an allocation for each round: a template that runs over ten
 * thousand tools keeps one. */
static flow run_round(plait_tpl_render *r, plait_tpl_loop *loop, plait_tpl_frame **frame) {
    static const plait_tpl_str loop_name = {.bytes = "loop", .n_bytes = 4, .n_chars = 4};
    if (!*frame || (*frame)->captured) {
        if (!(*frame = new_frame(r, loop->outer))) return FLOW_FAIL;
    } else {
        plait_tpl_dict_clear(&(*frame)->names);
    }
    plait_tpl_value self = {.kind = PLAIT_TPL_LOOP, .u.loop = loop};
    if (!plait_tpl_dict_set(r, &(*frame)->names, plait_tpl_string(&loop_name), self)) return FLOW_FAIL;
    if (!assign(r, loop->node->a, *frame, loop->current)) return FLOW_FAIL;
    return run_list(r, loop->node->items, *frame);
}

/* The loop's state is in the arena and not on the stack, because a value in the template may refer to it after the end.
 * `else` belongs to a loop that ran no round to its end. That a loop whose every round broke off counts as empty is
 * what Jinja's compiled code does. */
static flow run_loop(plait_tpl_render *r, const plait_tpl_node *node, plait_tpl_frame *frame,
                     plait_tpl_value source, uint32_t depth0) {
    plait_tpl_loop *loop = plait_tpl_alloc(r, 1, sizeof *loop);
    plait_tpl_frame *inner = NULL;
    bool ran = false;
    int more;
    place(r, node);
    if (!loop || !loop_init(r, loop, node, frame, source, depth0)) return FLOW_FAIL;
    while ((more = advance(r, loop)) > 0) {
        flow f = run_round(r, loop, &inner);
        if (f == FLOW_FAIL) return f;
        if (f == FLOW_NEXT) ran = true; /* as in Jinja: only a round that reached its end counts for `else` */
        if (f == FLOW_BREAK) break;
        place(r, node);
    }
    if (more < 0) return FLOW_FAIL;
    if (ran || !node->else_items) return FLOW_NEXT;
    plait_tpl_frame *otherwise = new_frame(r, frame);
    return otherwise ? run_list(r, node->else_items, otherwise) : FLOW_FAIL;
}

static flow run_for(plait_tpl_render *r, const plait_tpl_node *node, plait_tpl_frame *frame) {
    plait_tpl_value source;
    if (!plait_tpl_eval(r, node->b, frame, &source)) return FLOW_FAIL;
    return run_loop(r, node, frame, source, 0);
}

/* loop(items) in a recursive loop: the same body over other items, one depth further in. Its text is the value of the
 * call. The level entered here is left only on success, as everywhere. Output goes into a builder of its own, because
 * the call's value can be used in an expression. */
bool plait_tpl_call_loop(plait_tpl_render *r, plait_tpl_loop *loop, const plait_tpl_args *args,
                         plait_tpl_value *out) {
    if (!loop->node->flag)
        return plait_tpl_type_error(r, "the loop must have the 'recursive' marker to be called");
    if (args->n_pos != 1 || args->n_named) return plait_tpl_type_error(r, "loop() takes one argument");
    plait_tpl_builder b, *outer = r->out;
    plait_tpl_builder_init(&b, r);
    r->out = &b;
    bool ok = plait_tpl_enter(r) &&
              run_loop(r, loop->node, loop->outer, args->pos[0], loop->depth0 + 1) != FLOW_FAIL;
    r->out = outer;
    if (!ok) return false;
    plait_tpl_leave(r);
    return plait_tpl_finish(&b, out);
}

/* --- macros --- */

/* Frames that the macro can see are marked, up to the first that is marked already, so a loop around takes a fresh
 * frame for its next round. Marking stops at a frame that is marked: all above it were marked with it. */
static bool define_macro(plait_tpl_render *r, const plait_tpl_node *node, plait_tpl_frame *frame,
                         plait_tpl_value *out) {
    plait_tpl_macro *macro = plait_tpl_alloc(r, 1, sizeof *macro);
    if (!macro) return false;
    *macro = (plait_tpl_macro){.node = node, .frame = frame};
    for (plait_tpl_frame *f = frame; f && !f->captured; f = f->parent) f->captured = true;
    *out = (plait_tpl_value){.kind = PLAIT_TPL_MACRO, .u.macro = macro};
    return true;
}

/* Takes the argument of that name out of the named ones (marks it used); false when it is not there. From the end, so
 * of names given twice the last counts; the others stay behind as arguments left over. */
static bool take_named(const plait_tpl_args *args, bool *used, const plait_tpl_str *name,
                       plait_tpl_value *out) {
    for (size_t i = args->n_named; i-- > 0;)
        if (!used[i] && plait_tpl_str_equal(args->names[i], name)) {
            used[i] = true;
            *out = args->named[i];
            return true;
        }
    return false;
}

/* Parameters by position and name; missing[i] becomes true for those not given, which are undefined, even while the
 * defaults of others are computed. A default may use the parameters before it and the ones after it that were given.
 * Two passes, since a default may name a parameter that stands behind it. used[] has one flag for each named argument,
 * missing[] one for each parameter. */
static bool bind_parameters(plait_tpl_render *r, const plait_tpl_macro *macro, plait_tpl_frame *frame,
                            const plait_tpl_args *args, bool *used, bool *missing) {
    size_t i = 0;
    for (const plait_tpl_node *p = macro->node->a; p; p = p->next, i++) {
        const plait_tpl_str *name = p->value.u.string;
        plait_tpl_value v;
        if (i < args->n_pos)
            v = args->pos[i];
        else if ((missing[i] = !take_named(args, used, name, &v)))
            v = plait_tpl_undefined_name(r, "parameter '%.*s' was not provided",
                                         (int)(name->n_bytes < 80 ? name->n_bytes : 80), name->bytes);
        if (!plait_tpl_dict_set(r, &frame->names, p->value, v)) return false;
    }
    i = 0;
    for (const plait_tpl_node *p = macro->node->a; p; p = p->next, i++) {
        plait_tpl_value v;
        if (!missing[i] || !p->a) continue;
        if (!plait_tpl_eval(r, p->a, frame, &v) || !plait_tpl_dict_set(r, &frame->names, p->value, v))
            return false;
    }
    return true;
}

/* `name` is a literal: the key borrows it. */
static bool set_text(plait_tpl_render *r, plait_tpl_frame *frame, const char *name, plait_tpl_value v) {
    plait_tpl_value key;
    return plait_tpl_str_borrow(r, name, strlen(name), 0, &key) &&
           plait_tpl_dict_set(r, &frame->names, key, v);
}

/* caller, kwargs and varargs, as far as the body mentions them; an error for arguments left over. A macro that does not
 * mention kwargs or varargs takes none, which is how Jinja finds mistyped arguments. A parameter that is itself called
 * caller, kwargs or varargs wins: the parser has taken its use out of `uses`, or it is found in the frame. */
static bool bind_rest(plait_tpl_render *r, const plait_tpl_macro *macro, plait_tpl_frame *frame,
                      const plait_tpl_args *args, size_t n_params, bool *used) {
    static const plait_tpl_str caller_name = {.bytes = "caller", .n_bytes = 6, .n_chars = 6};
    uint8_t uses = macro->node->uses;
    plait_tpl_value v, ignored;
    if ((uses & PLAIT_TPL_USES_CALLER) &&
        plait_tpl_dict_get(r, &frame->names, plait_tpl_string(&caller_name), &ignored) == 0) {
        if (!take_named(args, used, &caller_name, &v) || v.kind == PLAIT_TPL_NONE)
            v = plait_tpl_undefined("no caller defined");
        if (!set_text(r, frame, "caller", v)) return false;
    }
    plait_tpl_value kwargs;
    if (!plait_tpl_dict_new(r, &kwargs)) return false;
    for (size_t i = 0; i < args->n_named; i++) {
        const plait_tpl_str *name = args->names[i];
        if (used[i]) continue;
        if (!(uses & PLAIT_TPL_USES_KWARGS))
            return plait_tpl_type_error(r, "macro takes no keyword argument '%.*s'",
                                        (int)(name->n_bytes < 80 ? name->n_bytes : 80), name->bytes);
        if (!plait_tpl_dict_set(r, kwargs.u.dict, plait_tpl_string(name), args->named[i])) return false;
    }
    if ((uses & PLAIT_TPL_USES_KWARGS) && !set_text(r, frame, "kwargs", kwargs)) return false;
    if (!(uses & PLAIT_TPL_USES_VARARGS)) {
        if (args->n_pos > n_params)
            return plait_tpl_type_error(r, "macro takes not more than %zu argument(s)", n_params);
        return true;
    }
    if (!plait_tpl_list_new(r, PLAIT_TPL_TUPLE, 0, &v)) return false;
    for (size_t i = n_params; i < args->n_pos; i++)
        if (!plait_tpl_list_push(r, v.u.list, args->pos[i])) return false;
    return set_text(r, frame, "varargs", v);
}

/* The macro's frame hangs on the frame of its definition, not on that of the call: names are lexical. The value is a
 * string always, also of a body that prints nothing. Recursion through macros ends at the limit of levels, of which
 * each call takes several. */
bool plait_tpl_call_macro(plait_tpl_render *r, plait_tpl_macro *macro, const plait_tpl_args *args,
                          plait_tpl_value *out) {
    plait_tpl_frame *frame = new_frame(r, macro->frame);
    bool *used = plait_tpl_alloc(r, args->n_named, sizeof *used);
    size_t n_params = 0;
    /* Counted anew at each call: macros have few. */
    for (const plait_tpl_node *p = macro->node->a; p; p = p->next) n_params++;
    bool *missing = plait_tpl_alloc(r, n_params, sizeof *missing);
    if (!frame || !used || !missing || !plait_tpl_enter(r)) return false;
    if (!bind_parameters(r, macro, frame, args, used, missing)) return false;
    /* The parser lets no break out of a macro. */
    if (!bind_rest(r, macro, frame, args, n_params, used) ||
        capture(r, macro->node->items, frame, out) != FLOW_NEXT)
        return false;
    plait_tpl_leave(r);
    return true;
}

/* The text of a block that went through a filter or call: other values than strings are refused there. */
static bool print_text(plait_tpl_render *r, const plait_tpl_node *node, plait_tpl_value v) {
    place(r, node);
    if (v.kind != PLAIT_TPL_STRING)
        return plait_tpl_type_error(r, "a block must give a string, not %s", plait_tpl_type_name(v));
    return print_value(r, v);
}

/* The block becomes a macro, which the called one sees as `caller`. caller is bound to the frame of the block, so its
 * body sees the names around the block and not those of the macro that calls it. */
static bool run_call_block(plait_tpl_render *r, const plait_tpl_node *node, plait_tpl_frame *frame) {
    plait_tpl_value caller, v;
    return define_macro(r, node, frame, &caller) && plait_tpl_eval_call(r, node->b, frame, &caller, &v) &&
           print_text(r, node, v);
}

/* --- the rest --- */

/* No frame of its own: what is set in a branch is visible behind the endif, as in Jinja and Python. */
static flow run_if(plait_tpl_render *r, const plait_tpl_node *node, plait_tpl_frame *frame) {
    for (; node; node = node->b) {
        plait_tpl_value condition;
        if (node->kind == PLAIT_TPL_N_BODY) return run_list(r, node->items, frame);
        if (!plait_tpl_eval(r, node->a, frame, &condition)) return FLOW_FAIL;
        if (plait_tpl_truth(condition)) return run_list(r, node->items, frame);
    }
    return FLOW_NEXT;
}

/* The block runs in a frame of its own; only the target is set outside. */
static flow run_set_block(plait_tpl_render *r, const plait_tpl_node *node, plait_tpl_frame *frame) {
    plait_tpl_value v;
    plait_tpl_frame *inner = new_frame(r, frame);
    flow f = inner ? capture(r, node->items, inner, &v) : FLOW_FAIL;
    if (f != FLOW_NEXT) return f;
    if (node->b && !plait_tpl_eval_filters(r, node->b, inner, v, &v)) return FLOW_FAIL;
    return assign(r, node->a, frame, v) ? FLOW_NEXT : FLOW_FAIL;
}

/* The filter's arguments are evaluated in the block's frame and after its text, so they can use names that the block
 * set. */
static flow run_filter_block(plait_tpl_render *r, const plait_tpl_node *node, plait_tpl_frame *frame) {
    plait_tpl_value v;
    plait_tpl_frame *inner = new_frame(r, frame);
    flow f = inner ? capture(r, node->items, inner, &v) : FLOW_FAIL;
    if (f != FLOW_NEXT) return f;
    return plait_tpl_eval_filters(r, node->b, inner, v, &v) && print_text(r, node, v) ? FLOW_NEXT : FLOW_FAIL;
}

/* Values are computed in the outer scope: in with a=1, b=a the second a is not the first. */
static flow run_with(plait_tpl_render *r, const plait_tpl_node *node, plait_tpl_frame *frame) {
    plait_tpl_frame *inner = new_frame(r, frame);
    if (!inner) return FLOW_FAIL;
    for (const plait_tpl_node *set = node->a; set; set = set->next) {
        plait_tpl_value v;
        if (!plait_tpl_eval(r, set->b, frame, &v) || !assign(r, set->a, inner, v)) return FLOW_FAIL;
    }
    return run_list(r, node->items, inner);
}

/* A block sees the variables of the top level and not those around it, unless it is scoped. */
static flow run_scope(plait_tpl_render *r, const plait_tpl_node *node, plait_tpl_frame *frame) {
    plait_tpl_frame *inner = new_frame(r, node->flag ? r->root : frame);
    return inner ? run_list(r, node->items, inner) : FLOW_FAIL;
}

static flow run_node(plait_tpl_render *r, const plait_tpl_node *node, plait_tpl_frame *frame) {
    plait_tpl_value v;
    bool ok;
    switch (node->kind) {
    case PLAIT_TPL_N_TEXT:
        plait_tpl_put_str(r->out, node->value.u.string);
        ok = !r->out->failed;
        break;
    case PLAIT_TPL_N_PRINT: ok = plait_tpl_eval(r, node->a, frame, &v) && print_value(r, v); break;
    case PLAIT_TPL_N_IF: return run_if(r, node, frame);
    case PLAIT_TPL_N_FOR: return run_for(r, node, frame);
    case PLAIT_TPL_N_BODY: return run_list(r, node->items, frame);
    case PLAIT_TPL_N_WITH: return run_with(r, node, frame);
    case PLAIT_TPL_N_SCOPE: return run_scope(r, node, frame);
    case PLAIT_TPL_N_BREAK: return FLOW_BREAK;
    case PLAIT_TPL_N_CONTINUE: return FLOW_CONTINUE;
    case PLAIT_TPL_N_SET: ok = plait_tpl_eval(r, node->b, frame, &v) && assign(r, node->a, frame, v); break;
    case PLAIT_TPL_N_SET_BLOCK: return run_set_block(r, node, frame);
    case PLAIT_TPL_N_MACRO:
        ok = define_macro(r, node, frame, &v) && plait_tpl_dict_set(r, &frame->names, node->value, v);
        break;
    case PLAIT_TPL_N_CALL_BLOCK: ok = run_call_block(r, node, frame); break;
    case PLAIT_TPL_N_FILTER_BLOCK: return run_filter_block(r, node, frame);
    default: ok = plait_tpl_fail(r, PLAIT_INTERNAL, "a statement of unknown kind %d", node->kind);
    }
    return ok ? FLOW_NEXT : FLOW_FAIL;
}

/* One step for each statement, one level for each list. The first statement that does not end normally ends the
 * list. */
static flow run_list(plait_tpl_render *r, const plait_tpl_node *list, plait_tpl_frame *frame) {
    flow f = FLOW_NEXT;
    if (!plait_tpl_enter(r)) return FLOW_FAIL;
    for (; list && f == FLOW_NEXT; list = list->next) {
        place(r, list);
        f = plait_tpl_step(r, 1) ? run_node(r, list, frame) : FLOW_FAIL;
    }
    plait_tpl_leave(r);
    return f;
}

bool plait_tpl_execute(plait_tpl_render *r, const plait_tpl_node *body) {
    return run_list(r, body->items, r->root) != FLOW_FAIL;
}
