/* The syntax tree of a template: what the parser makes and the evaluator walks. Immutable once made; everything in it
 * lives in the arena of the compiled template.
 *
 * One node type serves all kinds; the list says which fields each kind uses. `items` heads a list linked by `next`.
 */
#ifndef PLAIT_TEXT_TEMPLATE_AST_H
#define PLAIT_TEXT_TEMPLATE_AST_H

#include "text/template/value.h"

typedef enum plait_tpl_node_kind {
    /* expressions */
    PLAIT_TPL_N_CONST,     /* value */
    PLAIT_TPL_N_NAME,      /* value: the name */
    PLAIT_TPL_N_TUPLE,     /* items */
    PLAIT_TPL_N_LIST,      /* items */
    PLAIT_TPL_N_DICT,      /* items: PAIRs */
    PLAIT_TPL_N_PAIR,      /* a: key, b: value */
    PLAIT_TPL_N_COND,      /* a if b else c (may be NULL) */
    PLAIT_TPL_N_OR,        /* a or b */
    PLAIT_TPL_N_AND,       /* a and b */
    PLAIT_TPL_N_NOT,       /* not a */
    PLAIT_TPL_N_COMPARE,   /* a, then items: OPERANDs */
    PLAIT_TPL_N_OPERAND,   /* op, a */
    PLAIT_TPL_N_BINARY,    /* a op b */
    PLAIT_TPL_N_CONCAT,    /* items */
    PLAIT_TPL_N_NEGATE,    /* -a */
    PLAIT_TPL_N_POSITIVE,  /* +a */
    PLAIT_TPL_N_ATTRIBUTE, /* a.value */
    PLAIT_TPL_N_ITEM,      /* a[b] */
    PLAIT_TPL_N_SLICE,     /* inside ITEM: a:b:c, each may be NULL */
    PLAIT_TPL_N_CALL,      /* a(items, named, *star, **stars) */
    PLAIT_TPL_N_KEYWORD,   /* value: name, a */
    PLAIT_TPL_N_FILTER,    /* a (NULL: the text of the block) | value(items, ...); builtin */
    PLAIT_TPL_N_TEST,      /* a is value(items, ...); builtin */
    PLAIT_TPL_N_NS_TARGET, /* target only: value.name2 */
    /* statements */
    PLAIT_TPL_N_TEXT,  /* value */
    PLAIT_TPL_N_PRINT, /* a */
    PLAIT_TPL_N_IF,    /* a, items: then; next in `b` chain: IF for elif, or BODY for else */
    PLAIT_TPL_N_BODY,  /* items */
    PLAIT_TPL_N_FOR, /* a: target, b: iterable, c: condition or NULL, items: body, else_items; flag: recursive */
    PLAIT_TPL_N_SET,          /* a: target, b: value */
    PLAIT_TPL_N_SET_BLOCK,    /* a: target, b: filter chain or NULL, items */
    PLAIT_TPL_N_MACRO,        /* value: name, a: list of parameters (NAMEs whose `a` is the default), items */
    PLAIT_TPL_N_CALL_BLOCK,   /* b: the call, a: parameters, items */
    PLAIT_TPL_N_FILTER_BLOCK, /* b: filter chain, items */
    PLAIT_TPL_N_WITH,         /* a: list of SETs, items */
    PLAIT_TPL_N_SCOPE,        /* items, in a frame of their own: generation, autoescape, block */
    PLAIT_TPL_N_BREAK,
    PLAIT_TPL_N_CONTINUE
} plait_tpl_node_kind;

typedef enum plait_tpl_op {
    PLAIT_TPL_OP_ADD,
    PLAIT_TPL_OP_SUB,
    PLAIT_TPL_OP_MUL,
    PLAIT_TPL_OP_DIV,
    PLAIT_TPL_OP_FLOORDIV,
    PLAIT_TPL_OP_MOD,
    PLAIT_TPL_OP_POW,
    PLAIT_TPL_OP_EQ,
    PLAIT_TPL_OP_NE,
    PLAIT_TPL_OP_LT,
    PLAIT_TPL_OP_LE,
    PLAIT_TPL_OP_GT,
    PLAIT_TPL_OP_GE,
    PLAIT_TPL_OP_IN,
    PLAIT_TPL_OP_NOT_IN
} plait_tpl_op;

/* Names that a macro receives only when its body mentions them. */
enum { PLAIT_TPL_USES_CALLER = 1, PLAIT_TPL_USES_KWARGS = 2, PLAIT_TPL_USES_VARARGS = 4 };

struct plait_tpl_node {
    uint8_t kind, op;
    uint8_t uses; /* MACRO, CALL_BLOCK: PLAIT_TPL_USES_... */
    bool flag;    /* FOR: recursive; SCOPE: its frame hangs on the top level (blocks) */
    uint32_t line, column;
    uint32_t n_items;
    plait_tpl_node *a, *b, *c;
    plait_tpl_node *items, *else_items, *next;
    plait_tpl_node *named, *star, *stars; /* CALL, FILTER, TEST */
    plait_tpl_value value;                /* constant, or name as a string */
    const plait_tpl_str *name2;
    const plait_tpl_builtin *builtin; /* FILTER and TEST; NULL: unknown name, an error when it is reached */
};

/* A compiled template. */
struct plait_template {
    plait_arena arena; /* Owned: text, tokens, tree. */
    plait_template_limits limits;
    plait_tpl_node *body;
};

#endif
