/* From tokens to the syntax tree. parser.c reads statements, parse_expr.c expressions. */
#ifndef PLAIT_TEXT_TEMPLATE_PARSER_H
#define PLAIT_TEXT_TEMPLATE_PARSER_H

#include "text/template/lexer.h"

typedef struct plait_tpl_parser {
    plait_tpl_render *r;
    const plait_tpl_token *tokens;
    size_t at; /* current token; the last one is END and is never passed */
    uint32_t depth;
    uint32_t n_loops;              /* loops around the current statement within the same function */
    uint8_t uses;                  /* PLAIT_TPL_USES_... of the names seen in the current macro */
    const plait_tpl_node *unknown; /* first filter or test of unknown name outside of any condition */
    plait_tpl_node *blocks;        /* linked by c: their names are unique */
    bool soft;                     /* inside a condition: unknown names only fail when reached */
} plait_tpl_parser;

/* Parses the whole template; NULL after a failure. */
plait_tpl_node *plait_tpl_parse(plait_tpl_render *r, const plait_tpl_token *tokens);

/* --- shared by the two files --- */

/* Looking at and taking tokens. */
const plait_tpl_token *plait_tpl_peek(const plait_tpl_parser *p);
const plait_tpl_token *plait_tpl_peek_next(const plait_tpl_parser *p);
const plait_tpl_token *plait_tpl_take(plait_tpl_parser *p);
bool plait_tpl_at_op(const plait_tpl_parser *p, const char *op);
bool plait_tpl_at_name(const plait_tpl_parser *p, const char *name);
bool plait_tpl_skip_op(plait_tpl_parser *p, const char *op);
bool plait_tpl_skip_name(plait_tpl_parser *p, const char *name);
bool plait_tpl_expect_op(plait_tpl_parser *p, const char *op);
const plait_tpl_token *plait_tpl_expect_name(plait_tpl_parser *p);
/* Fails at the current token; always returns NULL. */
void *plait_tpl_syntax(plait_tpl_parser *p, const char *expected);

/* A node placed at a token. */
plait_tpl_node *plait_tpl_node_new(plait_tpl_parser *p, plait_tpl_node_kind kind, const plait_tpl_token *at);
/* One more level of nesting; false when too deep. */
bool plait_tpl_deeper(plait_tpl_parser *p);

plait_tpl_node *plait_tpl_parse_expression(plait_tpl_parser *p);
/* An expression, or several with commas between them as a tuple; with_cond: conditional expressions are allowed;
 * `stop`: a name that ends it, or NULL. */
plait_tpl_node *plait_tpl_parse_tuple(plait_tpl_parser *p, bool with_cond, const char *stop);
/* Name, name.attribute (with_ns) or tuple of such, to be assigned to. */
plait_tpl_node *plait_tpl_parse_target(plait_tpl_parser *p, bool with_ns, const char *stop);
/* filter | filter ..., the first applied to `node` (NULL: to a block); `inlined`: no bar before the first. */
plait_tpl_node *plait_tpl_parse_filters(plait_tpl_parser *p, plait_tpl_node *node, bool inlined);

#endif
