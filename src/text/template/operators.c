/* Arithmetic and relations with Python's rules. Not here: formatting by % (format.c), equality and order themselves
 * (value.c). Invariant: an integer result that needs more than 64 bits is an error, never a wrapped or rounded
 * number.
 *
 * Python's rules reach further than the sums: a bool is an int, a quotient of ints is a float, // and % round down, and
 * a power with a negative exponent leaves the integers. */
#include "base/size.h"
#include "text/template/eval.h"
#include "text/template/print.h"

#include <math.h>
#include <string.h>

/* In the order of plait_tpl_op. */
static const char *const op_names[] = {
    "+", "-", "*", "/", "//", "%", "**", "==", "!=", "<", "<=", ">", ">=", "in", "not in"};

/* An undefined operand is named first: "x is undefined" helps more than a type. */
static bool unsupported(plait_tpl_render *r, plait_tpl_op op, plait_tpl_value a, plait_tpl_value b) {
    if (a.kind == PLAIT_TPL_UNDEFINED) return plait_tpl_undefined_error(r, a);
    if (b.kind == PLAIT_TPL_UNDEFINED) return plait_tpl_undefined_error(r, b);
    if (op == PLAIT_TPL_OP_ADD && (a.kind == PLAIT_TPL_STRING) != (b.kind == PLAIT_TPL_STRING))
        return plait_tpl_type_error(r, "cannot add %s to %s; only strings can be joined to strings",
                                    plait_tpl_type_name(b), plait_tpl_type_name(a));
    return plait_tpl_type_error(r, "unsupported operand types for %s: %s and %s", op_names[op],
                                plait_tpl_type_name(a), plait_tpl_type_name(b));
}

/* One message for ints and floats. */
static bool zero_division(plait_tpl_render *r) {
    return plait_tpl_type_error(r, "division by zero");
}

/* exponent >= 0. Beyond the three bases that stay small at most 63 multiplications fit, so a loop ends soon: no
 * squaring is needed. So an exponent of 10^18 fails at once, with the error of an integer beyond 64 bits. */
static bool integer_power(plait_tpl_render *r, int64_t base, int64_t exponent, plait_tpl_value *out) {
    int64_t result = 1;
    if (base == 0 || base == 1 || base == -1) {
        *out = plait_tpl_int(exponent == 0 ? 1 : base == -1 && exponent % 2 == 0 ? 1 : base);
        return true;
    }
    for (; exponent > 0; exponent--)
        if (__builtin_mul_overflow(result, base, &result)) return plait_tpl_int_overflow(r);
    *out = plait_tpl_int(result);
    return true;
}

/* C rounds quotients towards zero, Python down: they differ when the signs do and something is left. a % b has the sign
 * of b and a // b rounds down, so that a == (a // b) * b + a % b; C gives m the sign of a. */
static bool floor_integers(plait_tpl_render *r, plait_tpl_op op, int64_t a, int64_t b, plait_tpl_value *out) {
    if (b == 0) return zero_division(r);
    if (b == -1) { /* the one quotient that can overflow */
        if (op == PLAIT_TPL_OP_MOD) return *out = plait_tpl_int(0), true;
        if (__builtin_sub_overflow((int64_t)0, a, &a)) return plait_tpl_int_overflow(r);
        return *out = plait_tpl_int(a), true;
    }
    int64_t q = a / b, m = a % b;
    if (m != 0 && (m < 0) != (b < 0)) q--, m += b;
    *out = plait_tpl_int(op == PLAIT_TPL_OP_MOD ? m : q);
    return true;
}

/* Python's quotient of two ints: the exact one, rounded once. Up to 2^53 both are doubles and the division rounds; beyond
 * it would come after the rounding of the ints. There the quotient is computed to 63 bits and more, of which the lowest
 * says whether something is left, and the conversion rounds. b != 0. */
static double divide_integers(int64_t a, int64_t b) {
    __extension__ typedef unsigned __int128 wide;
    const uint64_t exact = (uint64_t)1 << 53;
    uint64_t x = a < 0 ? 0 - (uint64_t)a : (uint64_t)a, y = b < 0 ? 0 - (uint64_t)b : (uint64_t)b;
    if (x == 0 || (x <= exact && y <= exact)) return (double)a / (double)b;
    int shift = 64 + __builtin_clzll(x); /* the highest bit of 128 */
    wide top = (wide)x << shift, quotient = top / y;
    double d = ldexp((double)(quotient | (top % y != 0)), -shift);
    return (a < 0) != (b < 0) ? -d : d;
}

/* A quotient is always a float, a power with a negative exponent too. 0 to a negative power is a division by zero, as
 * in Python. Both operands of such a power become doubles. */
static bool integers(plait_tpl_render *r, plait_tpl_op op, int64_t a, int64_t b, plait_tpl_value *out) {
    int64_t result;
    bool over;
    switch (op) {
    case PLAIT_TPL_OP_ADD: over = __builtin_add_overflow(a, b, &result); break;
    case PLAIT_TPL_OP_SUB: over = __builtin_sub_overflow(a, b, &result); break;
    case PLAIT_TPL_OP_MUL: over = __builtin_mul_overflow(a, b, &result); break;
    case PLAIT_TPL_OP_DIV:
        if (b == 0) return zero_division(r);
        *out = plait_tpl_float(divide_integers(a, b));
        return true;
    case PLAIT_TPL_OP_POW:
        if (b >= 0) return integer_power(r, a, b, out);
        if (a == 0) return zero_division(r);
        *out = plait_tpl_float(pow((double)a, (double)b));
        return true;
    default: return floor_integers(r, op, a, b, out);
    }
    if (over) return plait_tpl_int_overflow(r);
    *out = plait_tpl_int(result);
    return true;
}

/* Quotient and remainder as CPython computes them, so that a == (a // b) * b + a % b as nearly as can be. fmod is
 * exact; q is near a whole number and may miss it by rounding, which the last step mends. b is not 0. */
static double floor_doubles(plait_tpl_op op, double a, double b) {
    double m = fmod(a, b), q = (a - m) / b;
    if (m != 0) {
        if ((b < 0) != (m < 0)) m += b, q -= 1;
    } else {
        m = copysign(0.0, b);
    }
    if (op == PLAIT_TPL_OP_MOD) return m;
    /* Python keeps the sign of a zero quotient. */
    if (q == 0) return copysign(0.0, a / b);
    double whole = floor(q);
    return q - whole > 0.5 ? whole + 1 : whole;
}

/* What Python refuses is an error here as well: zero divisors, complex powers, finite operands with an infinite power.
 * Sums and products may overflow to infinity, as they do there. A negative base with a broken exponent would be complex
 * in Python, which goes on with it; here there are no complex numbers. */
static bool doubles(plait_tpl_render *r, plait_tpl_op op, double a, double b, plait_tpl_value *out) {
    double result;
    switch (op) {
    case PLAIT_TPL_OP_ADD: result = a + b; break;
    case PLAIT_TPL_OP_SUB: result = a - b; break;
    case PLAIT_TPL_OP_MUL: result = a * b; break;
    case PLAIT_TPL_OP_POW:
        if (a == 0 && b < 0) return zero_division(r);
        if (a < 0 && isfinite(a) && isfinite(b) && b != floor(b))
            return plait_tpl_type_error(r, "a power that is a complex number");
        result = pow(a, b);
        if (isinf(result) && isfinite(a) && isfinite(b))
            return plait_tpl_type_error(r, "a float result is too large");
        break;
    default:
        if (b == 0) return zero_division(r);
        result = op == PLAIT_TPL_OP_DIV ? a / b : floor_doubles(op, a, b);
    }
    *out = plait_tpl_float(result);
    return true;
}

/* Size and steps are settled before anything is built. Each round of a short string costs too, hence the n >> 4. A
 * negative count gives the empty text. Bytes are compared with the memory limit, so the message names the limit and not
 * what the arena would say in the middle of the work. */
static bool repeat_str(plait_tpl_render *r, const plait_tpl_str *s, int64_t n, plait_tpl_value *out) {
    plait_tpl_builder b;
    const plait_tpl_str *whole;
    size_t total;
    if (n < 0 || s->n_bytes == 0) n = 0;
    plait_tpl_builder_init(&b, r);
    if (!plait_mul_size((size_t)n, s->n_bytes, &total) || total > r->limits.memory_bytes)
        return plait_tpl_fail(r, PLAIT_LIMIT, "a string longer than the limit of %zu bytes",
                              r->limits.memory_bytes);
    if (!plait_tpl_step(r, ((uint64_t)n >> 4) + (total >> 6))) return false;
    for (int64_t i = 0; i < n && !b.failed; i++) plait_tpl_put_str(&b, s);
    return plait_tpl_finish_str(&b, &whole) && plait_tpl_str_with_markup(r, whole, s->markup, out);
}

/* Items are shared, not copied: a list of lists repeats the same inner list, as in Python. A foreign list stays one. */
static bool repeat_list(plait_tpl_render *r, plait_tpl_value v, int64_t n, plait_tpl_value *out) {
    const plait_tpl_list *list = v.u.list;
    plait_tpl_value result;
    size_t total;
    if (n < 0 || list->n_items == 0) n = 0;
    if (!plait_mul_size((size_t)n, list->n_items, &total) ||
        total > r->limits.memory_bytes / sizeof(plait_tpl_value))
        return plait_tpl_fail(r, PLAIT_LIMIT, "a list beyond the limit of %zu bytes of memory",
                              r->limits.memory_bytes);
    if (!plait_tpl_step(r, total) || !plait_tpl_list_new(r, v.kind, total, &result)) return false;
    for (int64_t i = 0; i < n; i++) {
        memcpy(result.u.list->items + result.u.list->n_items, list->items,
               list->n_items * sizeof(plait_tpl_value));
        result.u.list->n_items += list->n_items;
    }
    result.u.list->foreign = list->foreign;
    *out = result;
    return true;
}

/* The result is foreign when either is: its brackets are one text. */
static bool join_lists(plait_tpl_render *r, plait_tpl_value a, plait_tpl_value b, plait_tpl_value *out) {
    const plait_tpl_list *x = a.u.list, *y = b.u.list;
    plait_tpl_value result;
    if (!plait_tpl_step(r, x->n_items + y->n_items) ||
        !plait_tpl_list_new(r, a.kind, x->n_items + y->n_items, &result))
        return false;
    if (x->n_items) memcpy(result.u.list->items, x->items, x->n_items * sizeof(plait_tpl_value));
    if (y->n_items) memcpy(result.u.list->items + x->n_items, y->items, y->n_items * sizeof(plait_tpl_value));
    result.u.list->n_items = x->n_items + y->n_items;
    result.u.list->foreign = x->foreign || y->foreign;
    *out = result;
    return true;
}

/* Markup joined to text escapes the text, as markupsafe does; text to text stays text. Escaping is undone by nothing: a
 * text that met markup once is escaped in the result, and the result is markup, so it is not escaped again. */
static bool join_strings(plait_tpl_render *r, const plait_tpl_str *a, const plait_tpl_str *b,
                         plait_tpl_value *out) {
    plait_tpl_value x, y;
    if (!a->markup && !b->markup) return plait_tpl_str_concat(r, a, b, out);
    if (!plait_tpl_str_escape(r, a, &x) || !plait_tpl_str_escape(r, b, &y) ||
        !plait_tpl_str_concat(r, x.u.string, y.u.string, out))
        return false;
    return plait_tpl_str_with_markup(r, out->u.string, true, out);
}

bool plait_tpl_add(plait_tpl_render *r, plait_tpl_value a, plait_tpl_value b, plait_tpl_value *out) {
    return plait_tpl_binary(r, PLAIT_TPL_OP_ADD, a, b, out);
}

/* true is 1 in arithmetic. */
static int64_t int_of(plait_tpl_value v) {
    return v.kind == PLAIT_TPL_BOOL ? v.u.boolean : v.u.integer;
}

/* The sequence may stand on either side. */
static bool repeat(plait_tpl_render *r, plait_tpl_value a, plait_tpl_value b, plait_tpl_value *out) {
    plait_tpl_value sequence = plait_tpl_is_number(a) ? b : a, times = plait_tpl_is_number(a) ? a : b;
    if (times.kind != PLAIT_TPL_INT && times.kind != PLAIT_TPL_BOOL)
        return unsupported(r, PLAIT_TPL_OP_MUL, a, b);
    if (sequence.kind == PLAIT_TPL_STRING) return repeat_str(r, sequence.u.string, int_of(times), out);
    if (sequence.kind == PLAIT_TPL_LIST || sequence.kind == PLAIT_TPL_TUPLE)
        return repeat_list(r, sequence, int_of(times), out);
    return unsupported(r, PLAIT_TPL_OP_MUL, a, b);
}

/* Numbers first; a bool counts as one. Whatever is left has no meaning for the operator. */
bool plait_tpl_binary(plait_tpl_render *r, plait_tpl_op op, plait_tpl_value a, plait_tpl_value b,
                      plait_tpl_value *out) {
    if (plait_tpl_is_number(a) && plait_tpl_is_number(b)) {
        if (a.kind == PLAIT_TPL_FLOAT || b.kind == PLAIT_TPL_FLOAT)
            return doubles(r, op, plait_tpl_as_double(a), plait_tpl_as_double(b), out);
        return integers(r, op, int_of(a), int_of(b), out);
    }
    if (op == PLAIT_TPL_OP_ADD && a.kind == PLAIT_TPL_STRING && b.kind == PLAIT_TPL_STRING)
        return join_strings(r, a.u.string, b.u.string, out);
    if (op == PLAIT_TPL_OP_ADD && a.kind == b.kind && (a.kind == PLAIT_TPL_LIST || a.kind == PLAIT_TPL_TUPLE))
        return join_lists(r, a, b, out);
    /* % of a string is formatting, whatever the right side is. */
    if (op == PLAIT_TPL_OP_MOD && a.kind == PLAIT_TPL_STRING)
        return plait_tpl_format_percent(r, a.u.string, b, out);
    if (op == PLAIT_TPL_OP_MUL) return repeat(r, a, b, out);
    return unsupported(r, op, a, b);
}

/* == and != never fail but for limits; the order fails for types that have none. With NaN every order is false and !=
 * is true. */
bool plait_tpl_relation(plait_tpl_render *r, plait_tpl_op op, plait_tpl_value a, plait_tpl_value b,
                        bool *out) {
    int c;
    switch (op) {
    case PLAIT_TPL_OP_EQ: return plait_tpl_equal(r, a, b, out);
    case PLAIT_TPL_OP_NE:
        if (!plait_tpl_equal(r, a, b, out)) return false;
        *out = !*out;
        return true;
    case PLAIT_TPL_OP_IN: return plait_tpl_contains(r, b, a, out);
    case PLAIT_TPL_OP_NOT_IN:
        if (!plait_tpl_contains(r, b, a, out)) return false;
        *out = !*out;
        return true;
    default: break;
    }
    if (!plait_tpl_compare(r, a, b, op_names[op], &c))
        return false; /* 2: not comparable (NaN), nothing holds */
    *out = op == PLAIT_TPL_OP_LT   ? c == -1
           : op == PLAIT_TPL_OP_LE ? c == -1 || c == 0
           : op == PLAIT_TPL_OP_GT ? c == 1
                                   : c == 1 || c == 0;
    return true;
}
