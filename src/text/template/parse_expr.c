/* Expressions, by recursive descent along Jinja's ladder of precedence: if, or, and, not, comparisons, + -, ~, * / //
 * %, **, unary, postfix, filters and tests. Invariant: a function returns NULL exactly when the failure is recorded.
 *
 * The grammar, { } for any number of times and [ ] for at most once:
 *
 *    expression = or { "if" or [ "else" expression ] }
 *    or         = and { "or" and }
 *    and        = not { "and" not }
 *    not        = "not" not | compare
 *    compare    = sum { ("==" | "!=" | "<" | "<=" | ">" | ">=" | "in" | "not" "in") sum }
 *    sum        = concat { ("+" | "-") concat }
 *    concat     = product { "~" product }
 *    product    = power { ("*" | "/" | "//" | "%") power }
 *    power      = unary { "**" unary }
 *    unary      = signed { filter | test | call }
 *    signed     = ("+" | "-") signed | primary { "." (name | integer) | "[" subscripts "]" | call }
 *    filter     = "|" dotted [ call ]
 *    test       = "is" [ "not" ] dotted [ call | primary { ... } ]
 *    primary    = name | string { string } | number | "(" [ tuple ] ")" | "[" items "]" | "{" pairs "}"
 *    tuple      = expression { "," expression } [ "," ]
 *
 * Each level calls the next one, so an expression in brackets takes 14 C frames and three of the parser's levels. */
#include "text/template/builtin.h"
#include "text/template/parser.h"

#include <string.h>

/* Right of "else" stands another conditional, so "a if b else c if d else e" nests to the right; the loop serves "a if
 * b if c", which Jinja's grammar allows as well. */
static plait_tpl_node *parse_cond(plait_tpl_parser *p);
static plait_tpl_node *parse_or(plait_tpl_parser *p);
static plait_tpl_node *parse_unary(plait_tpl_parser *p, bool with_filter);
static plait_tpl_node *parse_primary(plait_tpl_parser *p, bool with_ns);
static bool parse_arguments(plait_tpl_parser *p, plait_tpl_node *call);

/* Appends to a list of which `tail` is the last link. n_items counts; callers bound nothing, because each item takes at
 * least one token. */
static void append(plait_tpl_node *owner, plait_tpl_node ***tail, plait_tpl_node *item) {
    **tail = item;
    *tail = &item->next;
    owner->n_items++;
}

/* NULL operands come from failures and make the result NULL. */
static plait_tpl_node *binary(plait_tpl_parser *p, plait_tpl_node_kind kind, const plait_tpl_token *at,
                              plait_tpl_node *a, plait_tpl_node *b) {
    plait_tpl_node *n = a && b ? plait_tpl_node_new(p, kind, at) : NULL;
    if (!n) return NULL;
    n->a = a;
    n->b = b;
    return n;
}

plait_tpl_node *plait_tpl_parse_expression(plait_tpl_parser *p) {
    return parse_cond(p);
}

/* "a if b else c". `a` is read before the condition is seen, so unknown names in it become soft afterwards. Without
 * else the value is undefined. */
static plait_tpl_node *parse_cond(plait_tpl_parser *p) {
    if (!plait_tpl_deeper(p)) return NULL;
    const plait_tpl_token *at = plait_tpl_peek(p);
    const plait_tpl_node *unknown = p->unknown;
    plait_tpl_node *n = parse_or(p);
    bool soft = p->soft;
    while (n && plait_tpl_at_name(p, "if")) {
        plait_tpl_take(p);
        p->unknown = unknown; /* what came before only runs under the condition */
        p->soft = true;
        plait_tpl_node *cond = plait_tpl_node_new(p, PLAIT_TPL_N_COND, at);
        if (!cond) return NULL;
        cond->a = n;
        if (!(cond->b = parse_or(p))) return NULL;
        if (plait_tpl_skip_name(p, "else") && !(cond->c = parse_cond(p))) return NULL;
        n = cond;
    }
    p->soft = soft;
    p->depth--;
    return n;
}

static plait_tpl_node *parse_not(plait_tpl_parser *p);

/* Groups to the left, which only shows in positions of errors: `and` is associative. */
static plait_tpl_node *parse_and(plait_tpl_parser *p) {
    plait_tpl_node *n = parse_not(p);
    while (n && plait_tpl_at_name(p, "and")) {
        const plait_tpl_token *at = plait_tpl_take(p);
        n = binary(p, PLAIT_TPL_N_AND, at, n, parse_not(p));
    }
    return n;
}

static plait_tpl_node *parse_or(plait_tpl_parser *p) {
    plait_tpl_node *n = parse_and(p);
    while (n && plait_tpl_at_name(p, "or")) {
        const plait_tpl_token *at = plait_tpl_take(p);
        n = binary(p, PLAIT_TPL_N_OR, at, n, parse_and(p));
    }
    return n;
}

static plait_tpl_node *parse_concat(plait_tpl_parser *p);

/* An operand that failed to parse leaves n NULL, which ends the loop; the failure is recorded where it was found. */
static plait_tpl_node *parse_sum(plait_tpl_parser *p) {
    plait_tpl_node *n = parse_concat(p);
    while (n && (plait_tpl_at_op(p, "+") || plait_tpl_at_op(p, "-"))) {
        const plait_tpl_token *at = plait_tpl_take(p);
        n = binary(p, PLAIT_TPL_N_BINARY, at, n, parse_concat(p));
        if (n) n->op = at->op[0] == '+' ? PLAIT_TPL_OP_ADD : PLAIT_TPL_OP_SUB;
    }
    return n;
}

/* A comparison operator at the current token, taken; -1: none. */
static int take_comparison(plait_tpl_parser *p) {
    static const struct {
        const char *text;
        plait_tpl_op op;
    } rows[] = {{"==", PLAIT_TPL_OP_EQ}, {"!=", PLAIT_TPL_OP_NE}, {"<", PLAIT_TPL_OP_LT},
                {"<=", PLAIT_TPL_OP_LE}, {">", PLAIT_TPL_OP_GT},  {">=", PLAIT_TPL_OP_GE}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (plait_tpl_skip_op(p, rows[i].text)) return rows[i].op;
    if (plait_tpl_skip_name(p, "in")) return PLAIT_TPL_OP_IN;
    const plait_tpl_token *next = plait_tpl_peek_next(p);
    if (plait_tpl_at_name(p, "not") && next->kind == PLAIT_TPL_T_NAME &&
        plait_tpl_str_is(next->value.u.string, "in")) {
        plait_tpl_take(p);
        plait_tpl_take(p);
        return PLAIT_TPL_OP_NOT_IN;
    }
    return -1;
}

/* A chain (a < b < c) is one node, so that b is evaluated once. "not in" is an operator of its own. */
static plait_tpl_node *parse_compare(plait_tpl_parser *p) {
    plait_tpl_node *first = parse_sum(p), *n = NULL, **tail = NULL;
    if (!first) return NULL;
    for (;;) {
        const plait_tpl_token *at = plait_tpl_peek(p);
        int op = take_comparison(p);
        if (op < 0) return n ? n : first;
        if (!n) {
            if (!(n = plait_tpl_node_new(p, PLAIT_TPL_N_COMPARE, at))) return NULL;
            n->a = first;
            tail = &n->items;
        }
        plait_tpl_node *operand = plait_tpl_node_new(p, PLAIT_TPL_N_OPERAND, at);
        if (!operand || !(operand->a = parse_sum(p))) return NULL;
        operand->op = (uint8_t)op;
        append(n, &tail, operand);
    }
}

static plait_tpl_node *parse_not(plait_tpl_parser *p) {
    if (!plait_tpl_at_name(p, "not")) return parse_compare(p);
    if (!plait_tpl_deeper(p)) return NULL;
    plait_tpl_node *n = plait_tpl_node_new(p, PLAIT_TPL_N_NOT, plait_tpl_take(p));
    if (!n || !(n->a = parse_not(p))) return NULL;
    p->depth--;
    return n;
}

/* Groups to the left, as Jinja does and unlike Python; a sign binds tighter, unlike Python too. */
static plait_tpl_node *parse_power(plait_tpl_parser *p) {
    plait_tpl_node *n = parse_unary(p, true);
    while (n && plait_tpl_at_op(p, "**")) {
        const plait_tpl_token *at = plait_tpl_take(p);
        n = binary(p, PLAIT_TPL_N_BINARY, at, n, parse_unary(p, true));
        if (n) n->op = PLAIT_TPL_OP_POW;
    }
    return n;
}

static plait_tpl_node *parse_product(plait_tpl_parser *p) {
    plait_tpl_node *n = parse_power(p);
    while (n && (plait_tpl_at_op(p, "*") || plait_tpl_at_op(p, "/") || plait_tpl_at_op(p, "//") ||
                 plait_tpl_at_op(p, "%"))) {
        const plait_tpl_token *at = plait_tpl_take(p);
        n = binary(p, PLAIT_TPL_N_BINARY, at, n, parse_power(p));
        if (n)
            n->op = at->op[0] == '*'   ? PLAIT_TPL_OP_MUL
                    : at->op[0] == '%' ? PLAIT_TPL_OP_MOD
                    : at->op[1]        ? PLAIT_TPL_OP_FLOORDIV
                                       : PLAIT_TPL_OP_DIV;
    }
    return n;
}

/* Between + and * in Jinja's grammar. All operands are in one node: their texts are joined once. */
static plait_tpl_node *parse_concat(plait_tpl_parser *p) {
    const plait_tpl_token *at = plait_tpl_peek(p);
    plait_tpl_node *first = parse_product(p);
    if (!first || !plait_tpl_at_op(p, "~")) return first;
    plait_tpl_node *n = plait_tpl_node_new(p, PLAIT_TPL_N_CONCAT, at), **tail;
    if (!n) return NULL;
    tail = &n->items;
    append(n, &tail, first);
    while (plait_tpl_skip_op(p, "~")) {
        plait_tpl_node *item = parse_product(p);
        if (!item) return NULL;
        append(n, &tail, item);
    }
    return n;
}

/* a, a:b, a:b:c between brackets. A slice's parts may each be missing, also all of them: x[:] copies. */
static plait_tpl_node *parse_subscript(plait_tpl_parser *p) {
    const plait_tpl_token *at = plait_tpl_peek(p);
    plait_tpl_node *first = NULL;
    /* A slice may begin without its first part. */
    if (!plait_tpl_at_op(p, ":")) {
        first = parse_cond(p);
        if (!first || !plait_tpl_at_op(p, ":")) return first;
    }
    plait_tpl_node *n = plait_tpl_node_new(p, PLAIT_TPL_N_SLICE, at);
    if (!n) return NULL;
    plait_tpl_take(p);
    n->a = first;
    if (!plait_tpl_at_op(p, ":") && !plait_tpl_at_op(p, "]") && !plait_tpl_at_op(p, ",") &&
        !(n->b = parse_cond(p)))
        return NULL;
    if (plait_tpl_skip_op(p, ":") && !plait_tpl_at_op(p, "]") && !plait_tpl_at_op(p, ",") &&
        !(n->c = parse_cond(p)))
        return NULL;
    return n;
}

/* Several indices with commas between them are one tuple, as in Python. */
static plait_tpl_node *parse_index(plait_tpl_parser *p, plait_tpl_node *node) {
    plait_tpl_node *n = plait_tpl_node_new(p, PLAIT_TPL_N_ITEM, plait_tpl_take(p)), *tuple = NULL,
                   **tail = NULL;
    if (!n) return NULL;
    n->a = node;
    /* x[] has no meaning. */
    if (plait_tpl_at_op(p, "]")) return plait_tpl_syntax(p, "an index");
    for (;;) {
        plait_tpl_node *index = parse_subscript(p);
        if (!index) return NULL;
        if (!tuple && plait_tpl_at_op(p, "]")) {
            n->b = index;
            break;
        }
        if (!tuple) {
            if (!(n->b = tuple = plait_tpl_node_new(p, PLAIT_TPL_N_TUPLE, plait_tpl_peek(p)))) return NULL;
            tail = &tuple->items;
        }
        append(tuple, &tail, index);
        if (plait_tpl_at_op(p, "]")) break;
        if (!plait_tpl_expect_op(p, ",")) return NULL;
        if (plait_tpl_at_op(p, "]")) break;
    }
    return plait_tpl_expect_op(p, "]") ? n : NULL;
}

/* x.0 is x[0]. */
static plait_tpl_node *parse_dot(plait_tpl_parser *p, plait_tpl_node *node) {
    const plait_tpl_token *at = plait_tpl_take(p), *what = plait_tpl_peek(p);
    if (what->kind != PLAIT_TPL_T_NAME && what->kind != PLAIT_TPL_T_INTEGER)
        return plait_tpl_syntax(p, "a name or number");
    plait_tpl_take(p);
    plait_tpl_node *n =
        plait_tpl_node_new(p, what->kind == PLAIT_TPL_T_NAME ? PLAIT_TPL_N_ATTRIBUTE : PLAIT_TPL_N_ITEM, at);
    if (!n) return NULL;
    n->a = node;
    if (what->kind == PLAIT_TPL_T_NAME) {
        n->value = what->value;
        return n;
    }
    if (!(n->b = plait_tpl_node_new(p, PLAIT_TPL_N_CONST, what))) return NULL;
    n->b->value = what->value;
    return n;
}

/* The node of a call holds what is called in `a`, arguments in items and named, the starred ones apart. */
static plait_tpl_node *parse_call(plait_tpl_parser *p, plait_tpl_node *node) {
    plait_tpl_node *n = plait_tpl_node_new(p, PLAIT_TPL_N_CALL, plait_tpl_peek(p));
    if (!n) return NULL;
    n->a = node;
    return parse_arguments(p, n) ? n : NULL;
}

/* Calls, indices and attributes bind tighter than any sign or filter. */
static plait_tpl_node *parse_postfix(plait_tpl_parser *p, plait_tpl_node *n) {
    while (n) {
        if (plait_tpl_at_op(p, "."))
            n = parse_dot(p, n);
        else if (plait_tpl_at_op(p, "["))
            n = parse_index(p, n);
        else if (plait_tpl_at_op(p, "("))
            n = parse_call(p, n);
        else
            break;
    }
    return n;
}

/* Python's order: positional ones, then names and *, then **. `tail` and `named_tail` are the ends of the two lists,
 * kept by parse_arguments so that each argument costs constant time. */
static bool add_argument(plait_tpl_parser *p, plait_tpl_node *call, plait_tpl_node ***tail,
                         plait_tpl_node ***named_tail) {
    const plait_tpl_token *at = plait_tpl_peek(p);
    const plait_tpl_token *next = plait_tpl_peek_next(p);
    if (plait_tpl_at_op(p, "*") || plait_tpl_at_op(p, "**")) {
        /* "**" is one token of two characters. */
        bool two = at->op[1] != 0;
        plait_tpl_take(p);
        /* One of each, and ** ends the list. */
        if (call->stars || (!two && call->star)) return plait_tpl_syntax(p, "no further arguments");
        plait_tpl_node *n = parse_cond(p);
        *(two ? &call->stars : &call->star) = n;
        return n != NULL;
    }
    if (call->stars) return plait_tpl_syntax(p, "no further arguments");
    if (at->kind == PLAIT_TPL_T_NAME && next->kind == PLAIT_TPL_T_OPERATOR && strcmp(next->op, "=") == 0) {
        plait_tpl_node *n = plait_tpl_node_new(p, PLAIT_TPL_N_KEYWORD, at);
        if (!n) return false;
        n->value = at->value;
        plait_tpl_take(p);
        plait_tpl_take(p);
        **named_tail = n;
        *named_tail = &n->next;
        return (n->a = parse_cond(p)) != NULL;
    }
    /* Python allows positional ones behind *; Jinja does not. */
    if (call->named || call->star) return plait_tpl_syntax(p, "a named argument");
    plait_tpl_node *n = parse_cond(p);
    if (!n) return false;
    append(call, tail, n);
    return true;
}

static bool parse_arguments(plait_tpl_parser *p, plait_tpl_node *call) {
    plait_tpl_node **tail = &call->items, **named_tail = &call->named;
    if (!plait_tpl_expect_op(p, "(")) return false;
    while (!plait_tpl_at_op(p, ")")) {
        if (!add_argument(p, call, &tail, &named_tail)) return false;
        if (!plait_tpl_at_op(p, ")") && !plait_tpl_expect_op(p, ",")) return false;
    }
    return plait_tpl_expect_op(p, ")");
}

/* The first one is what the error names. */
static void note_unknown(plait_tpl_parser *p, const plait_tpl_node *n) {
    if (!n->builtin && !p->soft && !p->unknown) p->unknown = n;
}

/* Dotted names of filters and tests exist in Jinja, but none is built in: the parts are read and the whole is unknown.
 * The row is found once, when the template is compiled. An unknown name leaves builtin NULL: evaluation fails there
 * when it is reached, parsing fails at the end if no condition guards it. */
static bool take_dotted(plait_tpl_parser *p, plait_tpl_node *n) {
    const plait_tpl_token *name = plait_tpl_expect_name(p);
    if (!name) return false;
    n->value = name->value;
    bool dotted = false;
    while (plait_tpl_skip_op(p, ".")) {
        dotted = true;
        if (!plait_tpl_expect_name(p)) return false;
    }
    const plait_tpl_str *s = name->value.u.string;
    n->builtin = dotted                          ? NULL
                 : n->kind == PLAIT_TPL_N_FILTER ? plait_tpl_find_filter(s)
                                                 : plait_tpl_find_test(s);
    note_unknown(p, n);
    return true;
}

/* `inlined`: the first name stands without its bar, as in {% filter upper %}. `node` NULL is the text of a block. */
plait_tpl_node *plait_tpl_parse_filters(plait_tpl_parser *p, plait_tpl_node *node, bool inlined) {
    while (plait_tpl_at_op(p, "|") || inlined) {
        if (!inlined) plait_tpl_take(p);
        inlined = false;
        plait_tpl_node *n = plait_tpl_node_new(p, PLAIT_TPL_N_FILTER, plait_tpl_peek(p));
        if (!n || !take_dotted(p, n)) return NULL;
        n->a = node;
        if (plait_tpl_at_op(p, "(") && !parse_arguments(p, n)) return NULL;
        node = n;
    }
    return node;
}

/* What may follow a test's name as its only argument, without parentheses. `else`, `or` and `and` continue the
 * expression around, so "x is defined and y" has no argument; every other name is taken for one, as in Jinja. */
static bool starts_test_argument(const plait_tpl_parser *p) {
    const plait_tpl_token *t = plait_tpl_peek(p);
    if (t->kind == PLAIT_TPL_T_NAME)
        return !plait_tpl_at_name(p, "else") && !plait_tpl_at_name(p, "or") && !plait_tpl_at_name(p, "and");
    return t->kind == PLAIT_TPL_T_STRING || t->kind == PLAIT_TPL_T_INTEGER || t->kind == PLAIT_TPL_T_FLOAT ||
           plait_tpl_at_op(p, "[") || plait_tpl_at_op(p, "{");
}

/* Without parentheses a test takes one argument with its postfix and no more: "x is divisibleby 3 and y" ends before
 * "and". */
static plait_tpl_node *parse_test(plait_tpl_parser *p, plait_tpl_node *node) {
    const plait_tpl_token *at = plait_tpl_take(p);
    /* "is not" is the negated test; "not x is y" is the same by precedence. */
    bool negated = plait_tpl_skip_name(p, "not");
    plait_tpl_node *n = plait_tpl_node_new(p, PLAIT_TPL_N_TEST, at);
    if (!n || !take_dotted(p, n)) return NULL;
    n->a = node;
    if (plait_tpl_at_op(p, "(")) {
        if (!parse_arguments(p, n)) return NULL;
    } else if (starts_test_argument(p)) {
        /* Without this the second `is` would be read as the argument. Jinja refuses it too. */
        if (plait_tpl_at_name(p, "is")) return plait_tpl_syntax(p, "no second test");
        plait_tpl_node **tail = &n->items, *argument = parse_postfix(p, parse_primary(p, false));
        if (!argument) return NULL;
        append(n, &tail, argument);
    }
    if (!negated) return n;
    /* NULL after a failure, which is the caller's NULL too. */
    plait_tpl_node *negation = plait_tpl_node_new(p, PLAIT_TPL_N_NOT, at);
    if (negation) negation->a = n;
    return negation;
}

static plait_tpl_node *parse_filters_and_tests(plait_tpl_parser *p, plait_tpl_node *n) {
    while (n) {
        if (plait_tpl_at_op(p, "|"))
            n = plait_tpl_parse_filters(p, n, false);
        else if (plait_tpl_at_name(p, "is"))
            n = parse_test(p, n);
        else if (plait_tpl_at_op(p, "("))
            n = parse_call(p, n);
        else
            break;
    }
    return n;
}

/* Filters apply to the value with its sign, as in Jinja: -x|abs is (-x)|abs. */
static plait_tpl_node *parse_unary(plait_tpl_parser *p, bool with_filter) {
    if (!plait_tpl_deeper(p)) return NULL;
    plait_tpl_node *n;
    if (plait_tpl_at_op(p, "-") || plait_tpl_at_op(p, "+")) {
        const plait_tpl_token *at = plait_tpl_take(p);
        n = plait_tpl_node_new(p, at->op[0] == '-' ? PLAIT_TPL_N_NEGATE : PLAIT_TPL_N_POSITIVE, at);
        if (!n || !(n->a = parse_unary(p, false))) return NULL;
    } else {
        n = parse_primary(p, false);
    }
    n = parse_postfix(p, n);
    if (with_filter) n = parse_filters_and_tests(p, n);
    p->depth--;
    return n;
}

/* A comma may stand behind the last item, here and in dicts and calls. */
static plait_tpl_node *parse_list(plait_tpl_parser *p) {
    plait_tpl_node *n = plait_tpl_node_new(p, PLAIT_TPL_N_LIST, plait_tpl_take(p)), **tail;
    if (!n) return NULL;
    tail = &n->items;
    while (!plait_tpl_at_op(p, "]")) {
        plait_tpl_node *item = parse_cond(p);
        if (!item) return NULL;
        append(n, &tail, item);
        if (!plait_tpl_at_op(p, "]") && !plait_tpl_expect_op(p, ",")) return NULL;
    }
    return plait_tpl_expect_op(p, "]") ? n : NULL;
}

/* Keys are any expressions; equal ones are found when it runs. */
static plait_tpl_node *parse_dict(plait_tpl_parser *p) {
    plait_tpl_node *n = plait_tpl_node_new(p, PLAIT_TPL_N_DICT, plait_tpl_take(p)), **tail;
    if (!n) return NULL;
    tail = &n->items;
    while (!plait_tpl_at_op(p, "}")) {
        plait_tpl_node *pair = plait_tpl_node_new(p, PLAIT_TPL_N_PAIR, plait_tpl_peek(p));
        if (!pair || !(pair->a = parse_cond(p)) || !plait_tpl_expect_op(p, ":") || !(pair->b = parse_cond(p)))
            return NULL;
        append(n, &tail, pair);
        if (!plait_tpl_at_op(p, "}") && !plait_tpl_expect_op(p, ",")) return NULL;
    }
    return plait_tpl_expect_op(p, "}") ? n : NULL;
}

/* All renderings, on all threads, share the constants of a template. Literals lie side by side in the source as in
 * Python; joined at once, they cost nothing when the template runs. */
static plait_tpl_node *parse_constant(plait_tpl_parser *p) {
    const plait_tpl_token *at = plait_tpl_take(p);
    plait_tpl_node *n = plait_tpl_node_new(p, PLAIT_TPL_N_CONST, at);
    if (!n) return NULL;
    n->value = at->value;
    while (at->kind == PLAIT_TPL_T_STRING &&
           plait_tpl_peek(p)->kind == PLAIT_TPL_T_STRING) /* 'a' 'b' is one string */
        if (!plait_tpl_str_concat(p->r, n->value.u.string, plait_tpl_take(p)->value.u.string, &n->value))
            return NULL;
    if (n->value.kind != PLAIT_TPL_STRING || !n->value.u.string->home) return n;
    plait_tpl_str *fixed =
        plait_tpl_alloc(p->r, 1, sizeof *fixed); /* renderings share it: it must not grow in place */
    if (!fixed) return NULL;
    *fixed = *n->value.u.string;
    fixed->home = NULL;
    n->value = plait_tpl_string(fixed);
    return n;
}

/* true, false and none are constants in both spellings, and can therefore not be set. `with_ns`: in the target of a
 * set, where ns.x is a place and not a value. */
static plait_tpl_node *parse_name(plait_tpl_parser *p, bool with_ns) {
    const plait_tpl_token *at = plait_tpl_take(p);
    const plait_tpl_str *name = at->value.u.string;
    bool yes = plait_tpl_str_is(name, "true") || plait_tpl_str_is(name, "True");
    bool no = plait_tpl_str_is(name, "false") || plait_tpl_str_is(name, "False");
    bool none = plait_tpl_str_is(name, "none") || plait_tpl_str_is(name, "None");
    plait_tpl_node *n = plait_tpl_node_new(p, yes || no || none ? PLAIT_TPL_N_CONST : PLAIT_TPL_N_NAME, at);
    if (!n) return NULL;
    n->value = none ? plait_tpl_none() : yes || no ? plait_tpl_bool(yes) : at->value;
    if (n->kind == PLAIT_TPL_N_CONST) return n;
    /* Also in expressions that never run: the macro takes the argument then. */
    if (plait_tpl_str_is(name, "caller")) p->uses |= PLAIT_TPL_USES_CALLER;
    if (plait_tpl_str_is(name, "kwargs")) p->uses |= PLAIT_TPL_USES_KWARGS;
    if (plait_tpl_str_is(name, "varargs")) p->uses |= PLAIT_TPL_USES_VARARGS;
    /* One level only: set ns.a.b is refused. */
    if (with_ns && plait_tpl_skip_op(p, ".")) {
        const plait_tpl_token *attribute = plait_tpl_expect_name(p);
        if (!attribute) return NULL;
        n->kind = PLAIT_TPL_N_NS_TARGET;
        n->name2 = attribute->value.u.string;
    }
    return n;
}

/* () is the empty tuple, (a) is a, (a,) is a tuple. */
static plait_tpl_node *parse_parentheses(plait_tpl_parser *p) {
    const plait_tpl_token *at = plait_tpl_take(p);
    plait_tpl_node *n;
    if (plait_tpl_at_op(p, ")"))
        n = plait_tpl_node_new(p, PLAIT_TPL_N_TUPLE, at);
    else
        n = plait_tpl_parse_tuple(p, true, NULL);
    return n && plait_tpl_expect_op(p, ")") ? n : NULL;
}

/* `with_ns`: a target of set, where a.b is an attribute of a namespace and no lookup. */
static plait_tpl_node *parse_primary(plait_tpl_parser *p, bool with_ns) {
    const plait_tpl_token *t = plait_tpl_peek(p);
    switch (t->kind) {
    case PLAIT_TPL_T_NAME: return parse_name(p, with_ns);
    case PLAIT_TPL_T_STRING:
    case PLAIT_TPL_T_INTEGER:
    case PLAIT_TPL_T_FLOAT: return parse_constant(p);
    default: break;
    }
    if (plait_tpl_at_op(p, "(")) return parse_parentheses(p);
    if (plait_tpl_at_op(p, "[")) return parse_list(p);
    if (plait_tpl_at_op(p, "{")) return parse_dict(p);
    return plait_tpl_syntax(p, "an expression");
}

/* What may follow a comma that ends a tuple. */
static bool tuple_ends(const plait_tpl_parser *p, const char *stop) {
    const plait_tpl_token *t = plait_tpl_peek(p);
    return t->kind == PLAIT_TPL_T_PRINT_END || t->kind == PLAIT_TPL_T_BLOCK_END || plait_tpl_at_op(p, ")") ||
           (stop && plait_tpl_at_name(p, stop));
}

/* Items with commas between them, each read by one of the two functions. */
static plait_tpl_node *parse_items(plait_tpl_parser *p, bool targets, bool with_ns, bool with_cond,
                                   const char *stop) {
    const plait_tpl_token *at = plait_tpl_peek(p);
    plait_tpl_node *tuple = NULL, **tail = NULL;
    if (!plait_tpl_deeper(p)) return NULL;
    for (;;) {
        if (tuple && tuple_ends(p, stop)) break;
        plait_tpl_node *item = targets ? parse_primary(p, with_ns) : with_cond ? parse_cond(p) : parse_or(p);
        if (!item) return NULL;
        /* One item without a comma is that item. */
        if (!tuple && !plait_tpl_at_op(p, ",")) {
            p->depth--;
            return item;
        }
        if (!tuple) {
            if (!(tuple = plait_tpl_node_new(p, PLAIT_TPL_N_TUPLE, at))) return NULL;
            tail = &tuple->items;
        }
        append(tuple, &tail, item);
        if (!plait_tpl_skip_op(p, ",")) break;
    }
    p->depth--;
    return tuple;
}

/* `stop` is a name that may follow a comma at the end, as "recursive" does behind a for. */
plait_tpl_node *plait_tpl_parse_tuple(plait_tpl_parser *p, bool with_cond, const char *stop) {
    return parse_items(p, false, false, with_cond, stop);
}

/* Targets were read as expressions; only names and tuples of them can be assigned to. */
static bool check_target(plait_tpl_parser *p, const plait_tpl_node *n) {
    if (n->kind == PLAIT_TPL_N_NAME || n->kind == PLAIT_TPL_N_NS_TARGET) return true;
    if (n->kind != PLAIT_TPL_N_TUPLE || !plait_tpl_deeper(p))
        return plait_tpl_syntax(p, "a name to assign to") != NULL;
    for (const plait_tpl_node *item = n->items; item; item = item->next)
        if (!check_target(p, item)) return false;
    p->depth--;
    return true;
}

/* Read as primary expressions and checked then; `with_ns` allows a.b, an attribute of a namespace. */
plait_tpl_node *plait_tpl_parse_target(plait_tpl_parser *p, bool with_ns, const char *stop) {
    plait_tpl_node *n = parse_items(p, true, with_ns, false, stop);
    return n && check_target(p, n) ? n : NULL;
}
