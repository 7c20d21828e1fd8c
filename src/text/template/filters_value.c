/* Filters over single values: default, attr, and conversions to numbers. Not here: filters over sequences
 * (filters_list.c) and text (filters_text.c).
 *
 * Python's integers have no bound and these have 64 bits: where a result does not fit, the rendering fails instead of
 * giving another number.
 *
 * Invariant: a filter that cannot read its input gives the default it was called with, except where Python itself
 * raises; the one more failure is a number that needs more than 64 bits. */
#include "base/strbuf.h"
#include "text/template/builtin.h"
#include "text/template/eval.h"
#include "text/template/print.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* None is a value here: default(none) gives None. */
static bool given(const plait_tpl_call *c, int i) {
    return c->v[i].kind != PLAIT_TPL_MISSING;
}

/* The second argument makes every false value count as missing, not only undefined ones. */
static bool filter_default(plait_tpl_render *r, const plait_tpl_call *c, plait_tpl_value *out) {
    /* Undefined, or false when asked for. */
    bool use = c->self.kind == PLAIT_TPL_UNDEFINED ||
               (given(c, 1) && plait_tpl_truth(c->v[1]) && !plait_tpl_truth(c->self));
    *out = c->self;
    if (!use) return true;
    *out = c->v[0];
    return given(c, 0) || plait_tpl_str_text(r, "", out);
}

/* foo|attr("x"): attributes only, never keys of a dict. */
static bool filter_attr(plait_tpl_render *r, const plait_tpl_call *c, plait_tpl_value *out) {
    const plait_tpl_str *name;
    if (c->self.kind == PLAIT_TPL_UNDEFINED) return plait_tpl_undefined_error(r, c->self);
    if (!plait_tpl_as_str(r, c->v[0], "attr", &name)) return false;
    /* get_attribute would go on to the keys. */
    if (c->self.kind == PLAIT_TPL_DICT && !plait_tpl_find_method(PLAIT_TPL_DICT, name)) {
        *out = plait_tpl_undefined_name(r, "'dict' object has no attribute '%.*s'",
                                        (int)(name->n_bytes < 80 ? name->n_bytes : 80), name->bytes);
        return r->status == PLAIT_OK;
    }
    return plait_tpl_get_attribute(r, c->self, name, out);
}

static bool filter_abs(plait_tpl_render *r, const plait_tpl_call *c, plait_tpl_value *out) {
    plait_tpl_value v = c->self;
    if (v.kind == PLAIT_TPL_FLOAT) return *out = plait_tpl_float(fabs(v.u.real)), true;
    if (v.kind == PLAIT_TPL_UNDEFINED) return plait_tpl_undefined_error(r, v);
    if (!plait_tpl_is_number(v))
        return plait_tpl_type_error(r, "abs: expected a number, found %s", plait_tpl_type_name(v));
    int64_t i = v.kind == PLAIT_TPL_BOOL ? v.u.boolean : v.u.integer;
    if (i == INT64_MIN) return plait_tpl_int_overflow(r);
    *out = plait_tpl_int(i < 0 ? -i : i);
    return true;
}

/* Text without underscores between digits and without white space around, as int() and float() read it, digits of other
 * scripts turned into ASCII ones; false when it does not fit. Underscores stand between digits only. Texts longer than
 * `n` are no numbers; all that is left is ASCII without zero bytes. Both callers give room for 511 characters, so a
 * longer text is no number here, where Python would read it. */
static bool plain_number(plait_tpl_render *r, const plait_tpl_str *s, char *out, size_t n) {
    plait_tpl_value stripped;
    if (!plait_tpl_str_strip(r, s, NULL, true, true, &stripped)) return false;
    const plait_tpl_str *t = stripped.u.string;
    size_t k = 0;
    for (size_t at = 0, next = 0; at < t->n_bytes; at = next) {
        uint32_t code = plait_tpl_str_next(t, &next);
        if (code == '_') {
            bool between = at > 0 && next < t->n_bytes && !strchr("_+-. ", t->bytes[at - 1]) &&
                           !strchr("_+-. ", t->bytes[next]);
            if (!between) return false;
            continue;
        }
        if (code >= 0x80 && plait_tpl_is_decimal(code)) code = '0' + plait_tpl_decimal_value(code);
        /* No number has other characters; a zero byte would end the text for strtod. */
        if (k + 1 >= n || code == 0 || code >= 0x80) return false;
        out[k++] = (char)code;
    }
    out[k] = '\0';
    return k > 0;
}

/* float(text) of Python: decimal, inf, nan; nothing hexadecimal. strtod alone would take hexadecimal and "nan(...)".
 * What strtod takes and Python does not is sorted out before and after: hexadecimal, "nan(...)", white space inside,
 * and rests behind the number. */
static bool text_to_double(plait_tpl_render *r, const plait_tpl_str *s, double *out) {
    char text[512], *end;
    if (!plain_number(r, s, text, sizeof text) || strpbrk(text, "xX(")) return false;
    /* strtod takes white space in front, and signs alone are none. */
    if (text[0] == ' ' || text[strspn(text, "+-")] == '\0') return false;
    *out = plait_strtod(text, &end);
    return *end == '\0';
}

static int digit_of(char ch) {
    return ch >= '0' && ch <= '9'                     ? ch - '0'
           : (ch | 0x20) >= 'a' && (ch | 0x20) <= 'z' ? (ch | 0x20) - 'a' + 10
                                                      : 99;
}

/* int(text, base): 1 read, 0 not an integer or a base that Python does not know, -1 beyond 64 bits. A prefix counts when
 * it fits the base. The value is
 * built up negative, because the smallest integer has no positive counterpart. */
static int text_to_int(plait_tpl_render *r, const plait_tpl_str *s, int64_t base, int64_t *out) {
    char text[512];
    const char *p = text;
    if (base != 0 && (base < 2 || base > 36)) return 0;
    if (!plain_number(r, s, text, sizeof text)) return 0;
    bool negative = *p == '-';
    p += *p == '-' || *p == '+';
    if (p[0] == '0' && p[1]) {
        char kind = (char)(p[1] | 0x20);
        /* Python's rule: base 0 takes the base from the prefix. */
        int64_t said = kind == 'x' ? 16 : kind == 'o' ? 8 : kind == 'b' ? 2 : 0;
        if (said && (base == said || base == 0)) p += 2, base = said;
    }
    if (base == 0) base = 10;
    if (!*p) return 0;
    int64_t value = 0;
    bool over = false;
    /* To the end: what is no integer is none however long. */
    for (; *p; p++) {
        if (digit_of(*p) >= base) return 0;
        over = over || __builtin_mul_overflow(value, base, &value) ||
               __builtin_sub_overflow(value, (int64_t)digit_of(*p), &value);
    }
    if (over || (!negative && value == INT64_MIN)) return -1;
    *out = negative ? value : -value;
    return 1;
}

/* Towards zero. The bound is 2^63, which is a double; NaN is handled by the callers. A double at or beyond 2^63 has no
 * integer of 64 bits, and converting it is undefined in C. */
static bool double_to_int(plait_tpl_render *r, double d, plait_tpl_value *out) {
    if (fabs(d) >= 9.2233720368547758e18) return plait_tpl_int_overflow(r);
    *out = plait_tpl_int((int64_t)d);
    return true;
}

/* What cannot be read gives the default, except where Python itself raises. A text like "1.9" is read as a float after
 * that failed. A string is tried as an integer first, so 19 digits keep all their bits, and as a float second. */
static bool filter_int(plait_tpl_render *r, const plait_tpl_call *c, plait_tpl_value *out) {
    plait_tpl_value v = c->self, otherwise = given(c, 0) ? c->v[0] : plait_tpl_int(0);
    int64_t base = 10, i;
    double d;
    if (given(c, 1) && !plait_tpl_as_int(r, c->v[1], "int", &base)) return false;
    if (v.kind == PLAIT_TPL_UNDEFINED) return plait_tpl_undefined_error(r, v);
    *out = otherwise;
    if (v.kind == PLAIT_TPL_INT) return *out = v, true;
    if (v.kind == PLAIT_TPL_BOOL) return *out = plait_tpl_int(v.u.boolean), true;
    if (v.kind == PLAIT_TPL_FLOAT) {
        if (isinf(v.u.real)) return plait_tpl_type_error(r, "cannot convert float infinity to integer");
        return isnan(v.u.real) || double_to_int(r, v.u.real, out);
    }
    if (v.kind != PLAIT_TPL_STRING) return true;
    int read = text_to_int(r, v.u.string, base, &i);
    if (read < 0) return plait_tpl_int_overflow(r);
    if (read > 0) return *out = plait_tpl_int(i), true;
    if (r->status != PLAIT_OK) return false;
    if (text_to_double(r, v.u.string, &d) && isfinite(d)) return double_to_int(r, d, out);
    return r->status == PLAIT_OK;
}

/* As filter_int: unreadable gives the default. */
static bool filter_float(plait_tpl_render *r, const plait_tpl_call *c, plait_tpl_value *out) {
    double d;
    if (c->self.kind == PLAIT_TPL_UNDEFINED) return plait_tpl_undefined_error(r, c->self);
    *out = given(c, 0) ? c->v[0] : plait_tpl_float(0);
    if (plait_tpl_is_number(c->self))
        *out = plait_tpl_float(plait_tpl_as_double(c->self));
    else if (c->self.kind == PLAIT_TPL_STRING && text_to_double(r, c->self.u.string, &d))
        *out = plait_tpl_float(d);
    return r->status == PLAIT_OK;
}

/* round(x, n) of Python: correctly rounded by way of the decimal form, ties to even as they really are. For more than
 * 322 digits the number stays as it is, as CPython has it. A text that does not fit loses only zeros, because a double
 * that long is whole. Below zero digits it divides by the power of ten and rounds there, as CPython's fallback does; a
 * quotient of exactly one half goes to the even side. */
static double round_digits(double d, int64_t digits) {
    char text[400];
    if (!isfinite(d) || digits > 22 + 300) return d;
    if (digits < 0) {
        if (digits < -308) return copysign(0.0, d);
        double unit = pow(10, (double)-digits), y = d / unit, z = round(y);
        if (fabs(y - z) == 0.5) z = 2.0 * round(y / 2.0);
        return z * unit;
    }
    plait_format(text, sizeof text, "%.*f", (int)digits, d);
    return plait_strtod(text, NULL);
}

/* Digits below zero round to tens, hundreds and so on, ties to even. */
static bool round_int(plait_tpl_render *r, int64_t i, int64_t digits, plait_tpl_value *out) {
    const int64_t half = 5000000000000000000; /* of 10^19, the least power that has no room */
    int64_t unit = 1;
    if (digits >= 0) return *out = plait_tpl_int(i), true;
    if (digits == -19 && (i > half || i < -half)) return plait_tpl_int_overflow(r);
    for (int64_t k = digits; k < 0; k++)
        if (__builtin_mul_overflow(unit, (int64_t)10, &unit)) return *out = plait_tpl_int(0), true;
    /* `rest` in [0, unit) after this: rounding down first, then up where it is nearer. */
    int64_t rest = i % unit, base = i - rest;
    if (rest < 0) {
        rest += unit;
        if (__builtin_sub_overflow(base, unit, &base)) return plait_tpl_int_overflow(r);
    }
    bool up = rest > unit - rest || (rest == unit - rest && (base / unit) % 2 != 0);
    if (up && __builtin_add_overflow(base, unit, &base)) return plait_tpl_int_overflow(r);
    *out = plait_tpl_int(base);
    return true;
}

/* ceil and floor go through doubles, as Jinja computes them, and give a float even for an int. `common` rounds as
 * Python's round: an int stays an int, a float a float. */
static bool filter_round(plait_tpl_render *r, const plait_tpl_call *c, plait_tpl_value *out) {
    int64_t digits = 0;
    const plait_tpl_str *method = NULL;
    plait_tpl_value v = c->self;
    if (given(c, 0) && !plait_tpl_as_int(r, c->v[0], "round", &digits)) return false;
    if (given(c, 1) && !plait_tpl_as_str(r, c->v[1], "round", &method)) return false;
    bool common = !method || plait_tpl_str_is(method, "common"),
         ceiling = method && plait_tpl_str_is(method, "ceil");
    if (!common && !ceiling && !plait_tpl_str_is(method, "floor"))
        return plait_tpl_type_error(r, "round: method must be common, ceil or floor");
    if (v.kind == PLAIT_TPL_UNDEFINED) return plait_tpl_undefined_error(r, v);
    if (!plait_tpl_is_number(v))
        return plait_tpl_type_error(r, "round: expected a number, found %s", plait_tpl_type_name(v));
    if (common && v.kind != PLAIT_TPL_FLOAT)
        return round_int(r, v.kind == PLAIT_TPL_BOOL ? v.u.boolean : v.u.integer, digits, out);
    if (common) return *out = plait_tpl_float(round_digits(v.u.real, digits)), true;
    /* May overflow for absurd precisions; the result is then infinite or NaN, as in Jinja. */
    double unit = pow(10, (double)digits), scaled = plait_tpl_as_double(v) * unit;
    *out = plait_tpl_float((ceiling ? ceil(scaled) : floor(scaled)) / unit);
    return true;
}

const plait_tpl_builtin plait_tpl_filters_value[] = {
    {"default", "?default_value ?boolean", filter_default},
    {"d", "?default_value ?boolean", filter_default},
    {"attr", "name", filter_attr},
    {"abs", "", filter_abs},
    {"int", "?default ?base", filter_int},
    {"float", "?default", filter_float},
    {"round", "?precision ?method", filter_round},
    {0},
};
