/* Tests: what may follow `is`. Not here: the syntax of tests (parse_expr.c). Undefined values are what tests are for,
 * so most take them without an error.
 *
 * Invariant: a test gives a bool and changes nothing. Those that only ask for the kind never fail; the ones with an
 * argument fail as the operator or function would that they stand for. */
#include "text/template/builtin.h"
#include "text/template/eval.h"
#include "text/template/print.h"

#include <string.h>

/* A test that only asks for the kind of the value. "iterable" relies on the order of the kinds in value.h. */
#define KIND_TEST(name, condition)                                                                           \
    static bool test_##name(plait_tpl_render *r, const plait_tpl_call *c, plait_tpl_value *out) {            \
        (void)r;                                                                                             \
        plait_tpl_kind k = c->self.kind;                                                                     \
        *out = plait_tpl_bool(condition);                                                                    \
        return true;                                                                                         \
    }

/* Kinds follow Jinja's tests and Python's abstract classes: a bool is a number and no integer, a loop is iterable, a
 * string a sequence, and an undefined value counts as an empty sequence. A cycler has no call and so is not
 * callable. */
KIND_TEST(defined, k != PLAIT_TPL_UNDEFINED)
KIND_TEST(undefined, k == PLAIT_TPL_UNDEFINED)
KIND_TEST(none, k == PLAIT_TPL_NONE)
KIND_TEST(boolean, k == PLAIT_TPL_BOOL)
KIND_TEST(false, k == PLAIT_TPL_BOOL && !c->self.u.boolean)
KIND_TEST(true, k == PLAIT_TPL_BOOL && c->self.u.boolean)
KIND_TEST(integer, k == PLAIT_TPL_INT)
KIND_TEST(float, k == PLAIT_TPL_FLOAT)
KIND_TEST(number, k == PLAIT_TPL_INT || k == PLAIT_TPL_FLOAT || k == PLAIT_TPL_BOOL)
KIND_TEST(string, k == PLAIT_TPL_STRING)
KIND_TEST(mapping, k == PLAIT_TPL_DICT)
KIND_TEST(callable, k == PLAIT_TPL_UNDEFINED || k == PLAIT_TPL_LOOP || k == PLAIT_TPL_MACRO ||
                        k == PLAIT_TPL_BUILTIN || k == PLAIT_TPL_METHOD || k == PLAIT_TPL_JOINER)
KIND_TEST(sequence, k == PLAIT_TPL_UNDEFINED || k == PLAIT_TPL_STRING || k == PLAIT_TPL_LIST ||
                        k == PLAIT_TPL_TUPLE || k == PLAIT_TPL_DICT || k == PLAIT_TPL_RANGE)
KIND_TEST(iterable, k == PLAIT_TPL_UNDEFINED || (k >= PLAIT_TPL_STRING && k <= PLAIT_TPL_ITERATOR) ||
                        k == PLAIT_TPL_LOOP)
KIND_TEST(escaped, k == PLAIT_TPL_STRING && c->self.u.string->markup)

/* Goes through the % operator, so strings format as in Python; such a text equals no number. */
static bool remainder_is(plait_tpl_render *r, plait_tpl_value v, plait_tpl_value by, int64_t wanted,
                         plait_tpl_value *out) {
    plait_tpl_value m;
    bool same;
    /* The format itself may still fail, and then the test does. */
    if (v.kind == PLAIT_TPL_STRING)
        return plait_tpl_format_percent(r, v.u.string, by, &m) ? (*out = plait_tpl_bool(false), true) : false;
    if (!plait_tpl_binary(r, PLAIT_TPL_OP_MOD, v, by, &m) ||
        !plait_tpl_equal(r, m, plait_tpl_int(wanted), &same))
        return false;
    *out = plait_tpl_bool(same);
    return true;
}

static bool test_odd(plait_tpl_render *r, const plait_tpl_call *c, plait_tpl_value *out) {
    return remainder_is(r, c->self, plait_tpl_int(2), 1, out);
}

static bool test_even(plait_tpl_render *r, const plait_tpl_call *c, plait_tpl_value *out) {
    return remainder_is(r, c->self, plait_tpl_int(2), 0, out);
}

/* A divisor of 0 fails as % does. */
static bool test_divisibleby(plait_tpl_render *r, const plait_tpl_call *c, plait_tpl_value *out) {
    return remainder_is(r, c->self, c->v[0], 0, out);
}

/* Whether a filter of that name exists. */
static bool test_filter(plait_tpl_render *r, const plait_tpl_call *c, plait_tpl_value *out) {
    (void)r;
    *out = plait_tpl_bool(c->self.kind == PLAIT_TPL_STRING && plait_tpl_find_filter(c->self.u.string));
    return true;
}

static bool test_test(plait_tpl_render *r, const plait_tpl_call *c, plait_tpl_value *out) {
    (void)r;
    *out = plait_tpl_bool(c->self.kind == PLAIT_TPL_STRING && plait_tpl_find_test(c->self.u.string));
    return true;
}

/* str.islower and str.isupper of str(v): some cased character, and none of the other case. Stops at the first character
 * that decides; the charge is that of the whole text. */
static bool all_cased(plait_tpl_render *r, plait_tpl_value v, bool upper, plait_tpl_value *out) {
    const plait_tpl_str *s;
    bool some = false, good = true;
    if (!plait_tpl_to_str(r, v, &s) || !plait_tpl_step(r, s->n_bytes >> 6)) return false;
    for (size_t at = 0; at < s->n_bytes && good;) {
        uint32_t code = plait_tpl_str_next(s, &at);
        if (upper ? plait_tpl_is_lower(code) : plait_tpl_is_upper(code)) good = false;
        /* Title case is neither. */
        if (plait_tpl_is_title(code)) good = false;
        some = some || (upper ? plait_tpl_is_upper(code) : plait_tpl_is_lower(code));
    }
    *out = plait_tpl_bool(some && good);
    return true;
}

static bool test_lower(plait_tpl_render *r, const plait_tpl_call *c, plait_tpl_value *out) {
    return all_cased(r, c->self, false, out);
}

static bool test_upper(plait_tpl_render *r, const plait_tpl_call *c, plait_tpl_value *out) {
    return all_cased(r, c->self, true, out);
}

/* Identity. Numbers and strings have none here, so equal ones of one kind count as the same. A namespace shares its
 * member of the union with dicts, a joiner with cyclers; kinds were compared before. */
static bool test_sameas(plait_tpl_render *r, const plait_tpl_call *c, plait_tpl_value *out) {
    plait_tpl_value a = c->self, b = c->v[0];
    bool same = a.kind == b.kind;
    if (same && a.kind == PLAIT_TPL_STRING)
        same = a.u.string == b.u.string ||
               plait_tpl_str_equal(a.u.string, b.u.string); /* Python interns what templates compare */
    else if (same && (a.kind == PLAIT_TPL_BOOL || a.kind == PLAIT_TPL_INT || a.kind == PLAIT_TPL_FLOAT)) {
        if (!plait_tpl_equal(r, a, b, &same)) return false;
    } else if (same && a.kind != PLAIT_TPL_NONE && a.kind != PLAIT_TPL_UNDEFINED)
        same = a.u.list == b.u.list; /* any pointer of the union */
    *out = plait_tpl_bool(same);
    return true;
}

static bool test_in(plait_tpl_render *r, const plait_tpl_call *c, plait_tpl_value *out) {
    bool found;
    if (!plait_tpl_contains(r, c->v[0], c->self, &found)) return false;
    *out = plait_tpl_bool(found);
    return true;
}

/* The comparison operators as tests, with their errors for kinds without an order. */
#define RELATION_TEST(name, op)                                                                              \
    static bool test_##name(plait_tpl_render *r, const plait_tpl_call *c, plait_tpl_value *out) {            \
        bool holds;                                                                                          \
        if (!plait_tpl_relation(r, op, c->self, c->v[0], &holds)) return false;                              \
        *out = plait_tpl_bool(holds);                                                                        \
        return true;                                                                                         \
    }

RELATION_TEST(eq, PLAIT_TPL_OP_EQ)
RELATION_TEST(ne, PLAIT_TPL_OP_NE)
RELATION_TEST(lt, PLAIT_TPL_OP_LT)
RELATION_TEST(le, PLAIT_TPL_OP_LE)
RELATION_TEST(gt, PLAIT_TPL_OP_GT)
RELATION_TEST(ge, PLAIT_TPL_OP_GE)

/* Aliases are Jinja's. */
const plait_tpl_builtin plait_tpl_tests[] = {
    {"defined", "", test_defined},     {"undefined", "", test_undefined},
    {"none", "", test_none},           {"boolean", "", test_boolean},
    {"false", "", test_false},         {"true", "", test_true},
    {"integer", "", test_integer},     {"float", "", test_float},
    {"number", "", test_number},       {"string", "", test_string},
    {"mapping", "", test_mapping},     {"callable", "", test_callable},
    {"sequence", "", test_sequence},   {"iterable", "", test_iterable},
    {"escaped", "", test_escaped},     {"odd", "", test_odd},
    {"even", "", test_even},           {"divisibleby", "num", test_divisibleby},
    {"filter", "", test_filter},       {"test", "", test_test},
    {"lower", "", test_lower},         {"upper", "", test_upper},
    {"sameas", "other", test_sameas},  {"in", "seq", test_in},
    {"eq", "other", test_eq},          {"==", "other", test_eq},
    {"equalto", "other", test_eq},     {"ne", "other", test_ne},
    {"!=", "other", test_ne},          {"lt", "other", test_lt},
    {"<", "other", test_lt},           {"lessthan", "other", test_lt},
    {"le", "other", test_le},          {"<=", "other", test_le},
    {"gt", "other", test_gt},          {">", "other", test_gt},
    {"greaterthan", "other", test_gt}, {"ge", "other", test_ge},
    {">=", "other", test_ge},          {0},
};
