/* Statements. Not here: expressions and targets (parse_expr.c). Invariant: every function that returns NULL or false
 * has recorded the failure.
 *
 * A failure leaves depth and the other counters as they are: the parser is given up with it.
 *
 * What there is, with T a tuple without parentheses, E an expression, and any of the tags with '-' or '+' signs:
 *
 *    {% if T %} ... {% elif T %} ... {% else %} ... {% endif %}
 *    {% for TARGETS in T [if E] [recursive] %} ... [{% else %} ...] {% endfor %}   {% break %}   {% continue %}
 *    {% set TARGETS = T %}   {% set TARGET [| filters] %} ... {% endset %}
 *    {% macro NAME(PARAMETERS) %} ... {% endmacro %}   {% call[(PARAMETERS)] CALL %} ... {% endcall %}
 *    {% filter FILTERS %} ... {% endfilter %}   {% with [NAME = E, ...] %} ... {% endwith %}
 *    {% block NAME [scoped] %} ... {% endblock [NAME] %}   {% generation %} ... {% endgeneration %}
 *    {% autoescape false %} ... {% endautoescape %}   {% print E, ... %}
 *
 * include, import, from and extends need other templates and are refused with these words. */
#include "text/template/parser.h"

#include "text/template/string.h"

#include <inttypes.h>
#include <string.h>

static bool parse_body(plait_tpl_parser *p, const char *const *ends, plait_tpl_node **out);

const plait_tpl_token *plait_tpl_peek(const plait_tpl_parser *p) {
    return &p->tokens[p->at];
}

/* At the end it is the end again. One token of looking ahead decides the two places that need it: "not in" and NAME "="
 * in arguments. */
const plait_tpl_token *plait_tpl_peek_next(const plait_tpl_parser *p) {
    return &p->tokens[p->at + (p->tokens[p->at].kind != PLAIT_TPL_T_END)];
}

/* The end is never passed, so peek is always valid. */
const plait_tpl_token *plait_tpl_take(plait_tpl_parser *p) {
    const plait_tpl_token *t = plait_tpl_peek(p);
    if (t->kind != PLAIT_TPL_T_END) p->at++;
    return t;
}

bool plait_tpl_at_op(const plait_tpl_parser *p, const char *op) {
    const plait_tpl_token *t = plait_tpl_peek(p);
    return t->kind == PLAIT_TPL_T_OPERATOR && strcmp(t->op, op) == 0;
}

bool plait_tpl_at_name(const plait_tpl_parser *p, const char *name) {
    const plait_tpl_token *t = plait_tpl_peek(p);
    return t->kind == PLAIT_TPL_T_NAME && plait_tpl_str_is(t->value.u.string, name);
}

bool plait_tpl_skip_op(plait_tpl_parser *p, const char *op) {
    return plait_tpl_at_op(p, op) && plait_tpl_take(p);
}

bool plait_tpl_skip_name(plait_tpl_parser *p, const char *name) {
    return plait_tpl_at_name(p, name) && plait_tpl_take(p);
}

/* Always NULL, so that a caller may return it. Long names are cut: they come out of the file. `expected` continues the
 * sentence "expected ..., found ...". The position is that of the token found, which is where the text stops making
 * sense. */
void *plait_tpl_syntax(plait_tpl_parser *p, const char *expected) {
    const plait_tpl_token *t = plait_tpl_peek(p);
    /* In the order of plait_tpl_token_kind; names and operators show themselves. */
    static const char *const names[] = {"text",
                                        "a tag",
                                        "the end of the tag",
                                        "an expression tag",
                                        "the end of the expression",
                                        "",
                                        "a string",
                                        "an integer",
                                        "a float",
                                        "",
                                        "the end of the template"};
    p->r->line = t->line;
    p->r->column = t->column;
    if (t->kind == PLAIT_TPL_T_NAME) {
        const plait_tpl_str *s = t->value.u.string;
        plait_tpl_fail(p->r, PLAIT_CORRUPT, "expected %s, found '%.*s'", expected,
                       (int)(s->n_bytes < 60 ? s->n_bytes : 60), s->bytes);
    } else {
        plait_tpl_fail(p->r, PLAIT_CORRUPT, "expected %s, found %s", expected,
                       t->kind == PLAIT_TPL_T_OPERATOR ? t->op : names[t->kind]);
    }
    return NULL;
}

bool plait_tpl_expect_op(plait_tpl_parser *p, const char *op) {
    if (plait_tpl_skip_op(p, op)) return true;
    return plait_tpl_syntax(p, op) != NULL;
}

const plait_tpl_token *plait_tpl_expect_name(plait_tpl_parser *p) {
    return plait_tpl_peek(p)->kind == PLAIT_TPL_T_NAME ? plait_tpl_take(p) : plait_tpl_syntax(p, "a name");
}

/* %} of the tag that is being read. */
static bool expect_end(plait_tpl_parser *p) {
    if (plait_tpl_peek(p)->kind != PLAIT_TPL_T_BLOCK_END)
        return plait_tpl_syntax(p, "the end of the tag") != NULL;
    plait_tpl_take(p);
    return true;
}

plait_tpl_node *plait_tpl_node_new(plait_tpl_parser *p, plait_tpl_node_kind kind, const plait_tpl_token *at) {
    plait_tpl_node *n = plait_tpl_alloc(p->r, 1, sizeof *n);
    if (!n) return NULL;
    n->kind = (uint8_t)kind;
    n->line = at->line;
    n->column = at->column;
    return n;
}

/* Bounds the parser's own recursion. The tree may be deeper, since chains as a + b + c nest to the left; evaluation
 * counts its levels itself. */
bool plait_tpl_deeper(plait_tpl_parser *p) {
    if (p->depth < p->r->limits.parse_depth) return ++p->depth;
    p->r->line = plait_tpl_peek(p)->line;
    p->r->column = plait_tpl_peek(p)->column;
    return plait_tpl_fail(p->r, PLAIT_LIMIT, "nested deeper than the limit of %" PRIu32,
                          p->r->limits.parse_depth);
}

/* --- statements --- */

/* Names that end a body; the one that was met is left for the statement to look at. */
static const char *const ends_if[] = {"elif", "else", "endif", NULL};
static const char *const ends_endif[] = {"endif", NULL};
static const char *const ends_for[] = {"else", "endfor", NULL};
static const char *const ends_endfor[] = {"endfor", NULL};
static const char *const ends_set[] = {"endset", NULL};
static const char *const ends_macro[] = {"endmacro", NULL};
static const char *const ends_call[] = {"endcall", NULL};
static const char *const ends_filter[] = {"endfilter", NULL};
static const char *const ends_with[] = {"endwith", NULL};
static const char *const ends_block[] = {"endblock", NULL};
static const char *const ends_generation[] = {"endgeneration", NULL};
static const char *const ends_autoescape[] = {"endautoescape", NULL};

/* A body in which unknown filter names are errors again, and loops around do not count (a function of its own). The tag
 * that ends the body is taken too. break and continue of a loop around would have to leave a macro in the middle of a
 * call, so they do not reach through. */
static bool parse_function_body(plait_tpl_parser *p, const char *const *ends, plait_tpl_node *n) {
    uint32_t loops = p->n_loops;
    bool soft = p->soft;
    p->n_loops = 0;
    p->soft = false;
    bool ok = parse_body(p, ends, &n->items);
    p->n_loops = loops;
    p->soft = soft;
    return ok && plait_tpl_take(p);
}

/* A body in a scope of its own. */
static bool parse_scope_body(plait_tpl_parser *p, const char *const *ends, plait_tpl_node *n) {
    bool soft = p->soft;
    p->soft = false;
    bool ok = parse_body(p, ends, &n->items);
    p->soft = soft;
    return ok && plait_tpl_take(p);
}

/* elif is a chain of nodes and costs no depth. Names of filters are soft inside: unknown ones fail only when reached,
 * because templates guard them by conditions. A node's `b` is the next branch, a BODY for else; run_if walks the same
 * chain. */
static plait_tpl_node *parse_if(plait_tpl_parser *p) {
    plait_tpl_node *first = NULL, **link = &first;
    bool soft = p->soft;
    p->soft = true;
    for (;;) {
        plait_tpl_node *n = plait_tpl_node_new(p, PLAIT_TPL_N_IF, plait_tpl_take(p));
        if (!n || !(n->a = plait_tpl_parse_tuple(p, false, NULL)) || !parse_body(p, ends_if, &n->items))
            return NULL;
        *link = n;
        link = &n->b;
        if (plait_tpl_at_name(p, "elif")) continue;
        if (plait_tpl_at_name(p, "else")) {
            if (!(n->b = plait_tpl_node_new(p, PLAIT_TPL_N_BODY, plait_tpl_take(p))) ||
                !parse_body(p, ends_endif, &n->b->items))
                return NULL;
        }
        plait_tpl_take(p); /* endif */
        p->soft = soft;
        return first;
    }
}

/* Each round sets `loop`, so Jinja refuses it as a target. */
static bool names_loop(const plait_tpl_node *target) {
    if (target->kind == PLAIT_TPL_N_NAME) return plait_tpl_str_is(target->value.u.string, "loop");
    for (const plait_tpl_node *item = target->items; item; item = item->next)
        if (names_loop(item)) return true;
    return false;
}

/* `else` no longer counts as inside of this loop: break there belongs to the loop around. The source is read as a
 * tuple, so {% for x in 1, 2 %} works; `recursive` ends it, as it would otherwise be its next name. Inside of the body
 * unknown filters are errors again: a loop is a scope of its own. */
static plait_tpl_node *parse_for(plait_tpl_parser *p) {
    plait_tpl_node *n = plait_tpl_node_new(p, PLAIT_TPL_N_FOR, plait_tpl_take(p));
    bool soft = p->soft;
    if (!n || !(n->a = plait_tpl_parse_target(p, false, "in"))) return NULL;
    if (names_loop(n->a)) return plait_tpl_syntax(p, "another name than loop to assign to");
    if (!plait_tpl_skip_name(p, "in")) return plait_tpl_syntax(p, "in");
    if (!(n->b = plait_tpl_parse_tuple(p, false, "recursive"))) return NULL;
    if (plait_tpl_skip_name(p, "if") && !(n->c = plait_tpl_parse_expression(p))) return NULL;
    n->flag = plait_tpl_skip_name(p, "recursive");
    p->n_loops++;
    p->soft = false;
    if (!parse_body(p, ends_for, &n->items)) return NULL;
    p->n_loops--;
    if (plait_tpl_at_name(p, "else")) {
        plait_tpl_take(p);
        if (!parse_body(p, ends_endfor, &n->else_items)) return NULL;
    }
    p->soft = soft;
    plait_tpl_take(p); /* endfor */
    return n;
}

/* With "=" an assignment; without it a block up to endset, whose text goes through the filters behind a bar. */
static plait_tpl_node *parse_set(plait_tpl_parser *p) {
    const plait_tpl_token *at = plait_tpl_take(p);
    plait_tpl_node *target = plait_tpl_parse_target(p, true, NULL), *n;
    if (!target) return NULL;
    if (plait_tpl_skip_op(p, "=")) {
        n = plait_tpl_node_new(p, PLAIT_TPL_N_SET, at);
        if (!n || !(n->b = plait_tpl_parse_tuple(p, true, NULL))) return NULL;
        n->a = target;
        return n;
    }
    if (!(n = plait_tpl_node_new(p, PLAIT_TPL_N_SET_BLOCK, at))) return NULL;
    n->a = target;
    if (plait_tpl_at_op(p, "|") && !(n->b = plait_tpl_parse_filters(p, NULL, false))) return NULL;
    return parse_scope_body(p, ends_set, n) ? n : NULL;
}

/* (a, b=1): NAMEs whose `a` is the default. Names are compared with all before them, which is quadratic in a list that
 * people write by hand; the tokens of a template bound it. */
static bool parse_parameters(plait_tpl_parser *p, plait_tpl_node **out) {
    bool defaults = false;
    plait_tpl_node **first = out;
    if (!plait_tpl_expect_op(p, "(")) return false;
    while (!plait_tpl_at_op(p, ")")) {
        const plait_tpl_token *name = plait_tpl_expect_name(p);
        plait_tpl_node *n = name ? plait_tpl_node_new(p, PLAIT_TPL_N_NAME, name) : NULL;
        if (!n) return false;
        n->value = name->value;
        for (const plait_tpl_node *q = *first; q; q = q->next)
            if (plait_tpl_str_equal(q->value.u.string, name->value.u.string))
                return plait_tpl_syntax(p, "each parameter only once before") != NULL;
        if (plait_tpl_skip_op(p, "=")) {
            defaults = true;
            if (!(n->a = plait_tpl_parse_expression(p))) return false;
        } else if (defaults) {
            return plait_tpl_syntax(p, "a default for this parameter too") != NULL;
        }
        *out = n;
        out = &n->next;
        if (!plait_tpl_at_op(p, ")") && !plait_tpl_expect_op(p, ",")) return false;
    }
    return plait_tpl_expect_op(p, ")");
}

/* Body of a macro or call block, with the special names that it uses. A parameter of such a name is the macro's own and
 * not the special one. What an inner macro mentions counts for the one around it too. Jinja collects these three names
 * while compiling, and so it is known without running whether a call may pass them. */
static bool parse_macro_body(plait_tpl_parser *p, const char *const *ends, plait_tpl_node *n) {
    uint8_t outer = p->uses;
    p->uses = 0;
    if (!parse_function_body(p, ends, n)) return false;
    n->uses = p->uses;
    /* A mention inside of an inner macro is one of the outer macro's body as well. */
    p->uses |= outer;
    for (const plait_tpl_node *q = n->a; q; q = q->next) {
        const plait_tpl_str *name = q->value.u.string;
        if (plait_tpl_str_is(name, "kwargs")) n->uses &= (uint8_t)~PLAIT_TPL_USES_KWARGS;
        if (plait_tpl_str_is(name, "varargs")) n->uses &= (uint8_t)~PLAIT_TPL_USES_VARARGS;
    }
    return true;
}

/* The name is a variable like any other, set when the statement runs. */
static plait_tpl_node *parse_macro(plait_tpl_parser *p) {
    plait_tpl_node *n = plait_tpl_node_new(p, PLAIT_TPL_N_MACRO, plait_tpl_take(p));
    const plait_tpl_token *name = n ? plait_tpl_expect_name(p) : NULL;
    if (!name) return NULL;
    n->value = name->value;
    return parse_parameters(p, &n->a) && parse_macro_body(p, ends_macro, n) ? n : NULL;
}

/* {% call(a) f() %}: the body is a macro with the parameters `a`, given to f as `caller`. The expression must be a
 * call: its arguments get `caller` added when it runs. */
static plait_tpl_node *parse_call_block(plait_tpl_parser *p) {
    plait_tpl_node *n = plait_tpl_node_new(p, PLAIT_TPL_N_CALL_BLOCK, plait_tpl_take(p));
    if (!n || (plait_tpl_at_op(p, "(") && !parse_parameters(p, &n->a))) return NULL;
    if (!(n->b = plait_tpl_parse_expression(p))) return NULL;
    if (n->b->kind != PLAIT_TPL_N_CALL) return plait_tpl_syntax(p, "a call");
    return parse_macro_body(p, ends_call, n) ? n : NULL;
}

/* The first filter stands without a bar. */
static plait_tpl_node *parse_filter_block(plait_tpl_parser *p) {
    plait_tpl_node *n = plait_tpl_node_new(p, PLAIT_TPL_N_FILTER_BLOCK, plait_tpl_take(p));
    if (!n || !(n->b = plait_tpl_parse_filters(p, NULL, true))) return NULL;
    return parse_scope_body(p, ends_filter, n) ? n : NULL;
}

/* Assignments as nodes of kind SET, in their order. */
static plait_tpl_node *parse_with(plait_tpl_parser *p) {
    plait_tpl_node *n = plait_tpl_node_new(p, PLAIT_TPL_N_WITH, plait_tpl_take(p)), **tail;
    if (!n) return NULL;
    tail = &n->a;
    while (plait_tpl_peek(p)->kind != PLAIT_TPL_T_BLOCK_END) {
        if (n->a && !plait_tpl_expect_op(p, ",")) return NULL;
        plait_tpl_node *set = plait_tpl_node_new(p, PLAIT_TPL_N_SET, plait_tpl_peek(p));
        if (!set || !(set->a = plait_tpl_parse_target(p, false, NULL)) || !plait_tpl_expect_op(p, "=") ||
            !(set->b = plait_tpl_parse_expression(p)))
            return NULL;
        *tail = set;
        tail = &set->next;
    }
    return parse_scope_body(p, ends_with, n) ? n : NULL;
}

/* Marks what the model wrote, for training; for a prompt it is no more than a scope. */
static plait_tpl_node *parse_generation(plait_tpl_parser *p) {
    plait_tpl_node *n = plait_tpl_node_new(p, PLAIT_TPL_N_SCOPE, plait_tpl_take(p));
    return n && parse_function_body(p, ends_generation, n) ? n : NULL;
}

/* Without inheritance a block runs where it stands. */
static plait_tpl_node *parse_block(plait_tpl_parser *p) {
    plait_tpl_node *n = plait_tpl_node_new(p, PLAIT_TPL_N_SCOPE, plait_tpl_take(p));
    const plait_tpl_token *name = n ? plait_tpl_expect_name(p) : NULL;
    if (!name) return NULL;
    n->value = name->value;
    for (const plait_tpl_node *b = p->blocks; b; b = b->c)
        if (plait_tpl_str_equal(b->value.u.string, name->value.u.string))
            return plait_tpl_syntax(p, "each block name only once before");
    /* The blocks so far are linked through `c`; Jinja refuses a second one of a name, since children could not tell
     * them apart. */
    n->c = p->blocks;
    p->blocks = n;
    n->flag = !plait_tpl_skip_name(p, "scoped");
    if (plait_tpl_at_name(p, "required"))
        return plait_tpl_syntax(p, "a block with its text, as there is no inheritance");
    if (!parse_function_body(p, ends_block, n)) return NULL;
    const plait_tpl_token *again = plait_tpl_peek(p);
    if (again->kind == PLAIT_TPL_T_NAME && plait_tpl_str_equal(again->value.u.string, name->value.u.string))
        plait_tpl_take(p);
    return n;
}

/* Only "autoescape false", which asks for what happens anyway. A constant true, or an expression whose value is not
 * known yet, would change the text of a prompt and is refused. */
static plait_tpl_node *parse_autoescape(plait_tpl_parser *p) {
    plait_tpl_node *n = plait_tpl_node_new(p, PLAIT_TPL_N_SCOPE, plait_tpl_take(p));
    if (!n || !(n->a = plait_tpl_parse_expression(p))) return NULL;
    if (n->a->kind != PLAIT_TPL_N_CONST || plait_tpl_truth(n->a->value)) {
        p->r->line = n->line;
        p->r->column = n->column;
        plait_tpl_fail(p->r, PLAIT_UNSUPPORTED, "autoescape: a prompt is never escaped");
        return NULL;
    }
    return parse_scope_body(p, ends_autoescape, n) ? n : NULL;
}

/* {% print a, b %}: one output for each expression. */
static plait_tpl_node *parse_print(plait_tpl_parser *p) {
    plait_tpl_node *body = plait_tpl_node_new(p, PLAIT_TPL_N_BODY, plait_tpl_take(p)), **tail;
    if (!body) return NULL;
    tail = &body->items;
    while (plait_tpl_peek(p)->kind != PLAIT_TPL_T_BLOCK_END) {
        if (body->items && !plait_tpl_expect_op(p, ",")) return NULL;
        plait_tpl_node *n = plait_tpl_node_new(p, PLAIT_TPL_N_PRINT, plait_tpl_peek(p));
        if (!n || !(n->a = plait_tpl_parse_expression(p))) return NULL;
        *tail = n;
        tail = &n->next;
    }
    return body;
}

/* Not through the border of a macro or block, where n_loops begins anew. */
static plait_tpl_node *parse_jump(plait_tpl_parser *p, plait_tpl_node_kind kind) {
    if (p->n_loops == 0) return plait_tpl_syntax(p, "break and continue only inside a loop");
    return plait_tpl_node_new(p, kind, plait_tpl_take(p));
}

/* Known but impossible here, which is another error than an unknown word. */
static plait_tpl_node *parse_refused(plait_tpl_parser *p) {
    const plait_tpl_token *t = plait_tpl_peek(p);
    p->r->line = t->line;
    p->r->column = t->column;
    plait_tpl_fail(p->r, PLAIT_UNSUPPORTED,
                   "%.*s: a chat template stands alone, other templates cannot be used",
                   (int)t->value.u.string->n_bytes, t->value.u.string->bytes);
    return NULL;
}

/* Words that end or continue other statements are errors here. */
static plait_tpl_node *parse_statement(plait_tpl_parser *p) {
    if (plait_tpl_at_name(p, "if")) return parse_if(p);
    if (plait_tpl_at_name(p, "for")) return parse_for(p);
    if (plait_tpl_at_name(p, "set")) return parse_set(p);
    if (plait_tpl_at_name(p, "macro")) return parse_macro(p);
    if (plait_tpl_at_name(p, "call")) return parse_call_block(p);
    if (plait_tpl_at_name(p, "filter")) return parse_filter_block(p);
    if (plait_tpl_at_name(p, "with")) return parse_with(p);
    if (plait_tpl_at_name(p, "generation")) return parse_generation(p);
    if (plait_tpl_at_name(p, "block")) return parse_block(p);
    if (plait_tpl_at_name(p, "autoescape")) return parse_autoescape(p);
    if (plait_tpl_at_name(p, "print")) return parse_print(p);
    if (plait_tpl_at_name(p, "break")) return parse_jump(p, PLAIT_TPL_N_BREAK);
    if (plait_tpl_at_name(p, "continue")) return parse_jump(p, PLAIT_TPL_N_CONTINUE);
    if (plait_tpl_at_name(p, "include") || plait_tpl_at_name(p, "import") || plait_tpl_at_name(p, "from") ||
        plait_tpl_at_name(p, "extends"))
        return parse_refused(p);
    return plait_tpl_syntax(p, "a statement that exists");
}

static bool at_end(const plait_tpl_parser *p, const char *const *ends) {
    for (; ends && *ends; ends++)
        if (plait_tpl_at_name(p, *ends)) return true;
    return false;
}

static plait_tpl_node *parse_print_tag(plait_tpl_parser *p) {
    plait_tpl_node *n = plait_tpl_node_new(p, PLAIT_TPL_N_PRINT, plait_tpl_take(p));
    if (!n || !(n->a = plait_tpl_parse_tuple(p, true, NULL))) return NULL;
    if (plait_tpl_peek(p)->kind != PLAIT_TPL_T_PRINT_END)
        return plait_tpl_syntax(p, "the end of the expression");
    plait_tpl_take(p);
    return n;
}

static plait_tpl_node *parse_text(plait_tpl_parser *p) {
    const plait_tpl_token *t = plait_tpl_take(p);
    plait_tpl_node *n = plait_tpl_node_new(p, PLAIT_TPL_N_TEXT, t);
    if (n) n->value = t->value;
    return n;
}

/* Statements up to one of the `ends`, which is left as the current token; NULL ends: up to the end of the template.
 * Text, print tags and statements, appended at *tail. The tag's first word has not been taken when at_end is asked, so
 * a statement finds its own name as the current token. */
static bool parse_statements(plait_tpl_parser *p, const char *const *ends, plait_tpl_node **tail) {
    for (;;) {
        const plait_tpl_token *t = plait_tpl_peek(p);
        plait_tpl_node *n;
        if (t->kind == PLAIT_TPL_T_END) return ends ? plait_tpl_syntax(p, ends[0]) != NULL : true;
        if (t->kind == PLAIT_TPL_T_BLOCK_BEGIN) {
            plait_tpl_take(p);
            if (at_end(p, ends)) return true;
            n = parse_statement(p);
            if (!n || !expect_end(p)) return false;
        } else if (!(n = t->kind == PLAIT_TPL_T_TEXT ? parse_text(p) : parse_print_tag(p))) {
            return false;
        }
        *tail = n;
        tail = &n->next;
    }
}

/* The rest of a tag, then statements up to the tag that ends it. */
static bool parse_body(plait_tpl_parser *p, const char *const *ends, plait_tpl_node **out) {
    /* Python's colon is allowed behind a tag's head, as in Jinja. */
    plait_tpl_skip_op(p, ":");
    if (!expect_end(p) || !plait_tpl_deeper(p)) return false;
    bool ok = parse_statements(p, ends, out);
    p->depth--;
    return ok;
}

/* A filter or test that does not exist is an error at once when no condition is around it, as in Jinja. The first such
 * name is reported, at its place, after all syntax was found to be right: a broken tag is the more useful message. */
plait_tpl_node *plait_tpl_parse(plait_tpl_render *r, const plait_tpl_token *tokens) {
    plait_tpl_parser p = {.r = r, .tokens = tokens};
    plait_tpl_node *root = plait_tpl_node_new(&p, PLAIT_TPL_N_BODY, tokens);
    if (!root || !parse_statements(&p, NULL, &root->items)) return NULL;
    if (!p.unknown) return root;
    const plait_tpl_str *name = p.unknown->value.u.string;
    r->line = p.unknown->line;
    r->column = p.unknown->column;
    plait_tpl_fail(r, PLAIT_CORRUPT, "there is no %s named '%.*s'",
                   p.unknown->kind == PLAIT_TPL_N_FILTER ? "filter" : "test",
                   (int)(name->n_bytes < 60 ? name->n_bytes : 60), name->bytes);
    return NULL;
}
