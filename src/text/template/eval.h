/* Evaluation of expressions (eval.c, operators.c, access.c) and execution of statements (exec.c). */
#ifndef PLAIT_TEXT_TEMPLATE_EVAL_H
#define PLAIT_TEXT_TEMPLATE_EVAL_H

#include "text/template/ast.h"
#include "text/template/builtin.h"
#include "text/template/iterate.h"

/* A for loop in progress, and what its body sees as `loop`. */
struct plait_tpl_loop {
    plait_tpl_iter iter;
    const plait_tpl_node *node;
    plait_tpl_frame *outer; /* scope around the loop */
    plait_tpl_value current, before, after;
    bool has_current, has_before, has_after;
    bool tested;            /* the rest of the source went through the loop's condition already */
    int64_t index0, length; /* length -1: not known yet */
    uint32_t depth0;
    plait_tpl_value changed; /* a tuple: the last arguments of loop.changed */
    bool has_changed;
    plait_tpl_value source;
};

struct plait_tpl_macro {
    const plait_tpl_node *node; /* MACRO, or CALL_BLOCK for a caller */
    plait_tpl_frame *frame;     /* where it was defined */
};

/* Value of an expression in a scope. */
bool plait_tpl_eval(plait_tpl_render *r, const plait_tpl_node *node, plait_tpl_frame *frame,
                    plait_tpl_value *out);
/* A chain of filters of a block; `text` goes into the innermost one. */
bool plait_tpl_eval_filters(plait_tpl_render *r, const plait_tpl_node *node, plait_tpl_frame *frame,
                            plait_tpl_value text, plait_tpl_value *out);
/* Arguments of a CALL, FILTER or TEST; `extra` (may be NULL) is added as the named argument caller. */
bool plait_tpl_eval_args(plait_tpl_render *r, const plait_tpl_node *node, plait_tpl_frame *frame,
                         const plait_tpl_value *extra, plait_tpl_args *out);
/* The call of a call block, with its caller. */
bool plait_tpl_eval_call(plait_tpl_render *r, const plait_tpl_node *node, plait_tpl_frame *frame,
                         const plait_tpl_value *caller, plait_tpl_value *out);

/* a op b for the arithmetic operators; a op b for comparisons. */
bool plait_tpl_binary(plait_tpl_render *r, plait_tpl_op op, plait_tpl_value a, plait_tpl_value b,
                      plait_tpl_value *out);
bool plait_tpl_relation(plait_tpl_render *r, plait_tpl_op op, plait_tpl_value a, plait_tpl_value b,
                        bool *out);

/* Runs the whole template in r->root. */
bool plait_tpl_execute(plait_tpl_render *r, const plait_tpl_node *body);
bool plait_tpl_call_macro(plait_tpl_render *r, plait_tpl_macro *macro, const plait_tpl_args *args,
                          plait_tpl_value *out);
/* loop(items) of a recursive loop. */
bool plait_tpl_call_loop(plait_tpl_render *r, plait_tpl_loop *loop, const plait_tpl_args *args,
                         plait_tpl_value *out);
/* loop.NAME; 0 when there is no such attribute, -1 after a failure. */
int plait_tpl_loop_attribute(plait_tpl_render *r, plait_tpl_loop *loop, const plait_tpl_str *name,
                             plait_tpl_value *out);

#endif
