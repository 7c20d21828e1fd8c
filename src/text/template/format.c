/* Formatting: "%05.2f" % x, "{:>8}".format(x), strftime. Not here: the fields of str.format (braces.c). Invariant:
 * literal parts of a format keep the format's origin, values keep theirs; widths and precisions from hostile formats
 * only cost steps and arena bytes.
 *
 * Rules are CPython's: unicodeobject.c for %, formatter_unicode.c for specifications. Digits come from the C library,
 * which rounds correctly, under the locale "C" whatever the program has set.
 *
 * Three languages of formats meet here, each with its own parser: printf's (percent_*), the specification behind the
 * colon of str.format (spec), and strftime's. All end in plait_tpl_number_digits and put_repeat, so there is one place
 * for digits and one for padding. */
#include "base/strbuf.h"
#include "text/template/builtin.h"
#include "text/template/print.h"

#include <ctype.h>
#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Far above what any double has to show (1074 digits behind the point at most), and small enough for one buffer. */
enum { LARGEST_PRECISION = 100000 };

/* Without the zero byte, which strchr would find. */
static bool one_of(char c, const char *set) {
    return c && strchr(set, c);
}

/* --- digits of one number --- */

/* 64 binary digits fit. The magnitude is unsigned, so the smallest integer has one. */
static bool integer_digits(plait_tpl_render *r, uint64_t magnitude, char type, bool alternate,
                           plait_tpl_number *out) {
    char text[72];
    size_t at = sizeof text;
    unsigned base = type == 'b' ? 2 : type == 'o' ? 8 : type == 'x' || type == 'X' ? 16 : 10;
    const char *set = type == 'X' ? "0123456789ABCDEF" : "0123456789abcdef";
    do text[--at] = set[magnitude % base];
    while (magnitude /= base);
    out->n_digits = sizeof text - at;
    out->digits = plait_tpl_alloc(r, out->n_digits, 1);
    if (!out->digits) return false;
    memcpy(out->digits, text + at, out->n_digits);
    if (alternate && base != 10)
        out->prefix = type == 'b' ? "0b" : type == 'o' ? "0o" : type == 'x' ? "0x" : "0X";
    return true;
}

/* Python's format without a type: like repr when there is no precision, else like 'g' that keeps a ".0". The probe
 * tells the decimal exponent after rounding: 9.99 with two digits is 10, whose exponent decides between the two forms.
 * 40 digits of it are more than rounding needs. */
static int print_plain(double magnitude, int precision, char *out, size_t n) {
    if (precision < 0) return (int)plait_tpl_float_repr(magnitude, out);
    int p = precision ? precision : 1, exponent;
    char probe[64];
    plait_format(probe, sizeof probe, "%.*e", p - 1 < 40 ? p - 1 : 40, magnitude);
    const char *e = strchr(probe, 'e');
    exponent = e ? atoi(e + 1) : 0;
    int used = plait_format(out, n, "%.*g", p, magnitude);
    if (isfinite(magnitude) && exponent == p - 1 && !strchr(out, 'e') && !strchr(out, '.'))
        used = plait_format(out, n, "%.*e", p - 1,
                            magnitude);            /* the digit behind the point would be one too many */
    if (isfinite(magnitude) && strchr(out, 'e')) { /* strip zeros of the mantissa, as g does */
        char *mark = strchr(out, 'e'), *z = mark;
        if (memchr(out, '.', (size_t)(mark - out))) {
            while (z[-1] == '0') z--;
            if (z[-1] == '.') z--;
            memmove(z, mark, strlen(mark) + 1);
        }
        used = (int)strlen(out);
    } else if (isfinite(magnitude) && !strchr(out, '.')) {
        used += snprintf(out + used, n - (size_t)used, ".0");
    }
    return used;
}

/* 400 bytes above the precision: the largest double has 309 digits in front of its point. The sign stays outside:
 * callers put it in front of prefix and zeros. `type` 0 is str.format without a type. */
static bool float_digits(plait_tpl_render *r, double magnitude, char type, int precision, bool alternate,
                         plait_tpl_number *out) {
    if (precision > LARGEST_PRECISION)
        return plait_tpl_fail(r, PLAIT_LIMIT, "a precision above the limit of %d", LARGEST_PRECISION);
    bool percent = type == '%';
    if (percent) magnitude *= 100, type = 'f';
    size_t n = (size_t)(precision < 0 ? 17 : precision) + 400;
    char format[16], *text = plait_tpl_alloc(r, n, 1);
    if (!text || !plait_tpl_step(r, n >> 6)) return false;
    int used;
    if (!isfinite(magnitude)) {
        used = snprintf(text, n, isnan(magnitude) ? "nan" : "inf");
        if (type == 'F' || type == 'E' || type == 'G')
            for (int i = 0; i < used; i++) text[i] = (char)toupper((unsigned char)text[i]);
    } else if (type == 0 || type == 'n') {
        used = type == 0 ? print_plain(magnitude, precision, text, n)
                         : plait_format(text, n, "%.*g", precision < 0 ? 6 : precision, magnitude);
    } else {
        snprintf(format, sizeof format, "%%%s.*%c", alternate ? "#" : "", type);
        used = plait_format(text, n, format, precision < 0 ? 6 : precision, magnitude);
    }
    if (percent) text[used++] = '%';
    out->digits = text;
    out->n_digits = (size_t)used;
    return true;
}

/* Integers under a float's type become doubles; a type that wants integers does not come here with a float. */
bool plait_tpl_number_digits(plait_tpl_render *r, plait_tpl_value v, char type, int precision, bool alternate,
                             plait_tpl_number *out) {
    *out = (plait_tpl_number){0};
    bool whole = type && one_of(type, "dxXobiu");
    if (v.kind == PLAIT_TPL_FLOAT || (!whole && type != 0 && type != 'n')) {
        double d = plait_tpl_as_double(v);
        out->negative = signbit(d) && !isnan(d);
        return float_digits(r, fabs(d), type, precision, alternate, out);
    }
    int64_t i = v.kind == PLAIT_TPL_BOOL ? v.u.boolean : v.u.integer;
    out->negative = i < 0;
    return integer_digits(r, i < 0 ? 0 - (uint64_t)i : (uint64_t)i, type, alternate, out);
}

/* --- % --- */

/* One % operation in progress; the flags are those of the directive that is read at the moment. `next` counts the
 * arguments that were taken, also of a single value, so one left over and one too few are both seen. */
typedef struct percent {
    plait_tpl_builder *b;
    const plait_tpl_str *format;
    plait_tpl_value args; /* tuple, or one value */
    size_t at, next;      /* byte in the format, number of the next argument */
    bool used_mapping, minus, plus, space, zero, alternate;
    int64_t width;
    int precision;   /* -1: none */
    uint8_t foreign; /* origin of the specification: padding takes it */
} percent;

/* One value that is no tuple is the only argument. */
static bool percent_argument(percent *p, plait_tpl_value *out) {
    if (p->args.kind == PLAIT_TPL_TUPLE) {
        if (p->next >= p->args.u.list->n_items)
            return plait_tpl_type_error(p->b->r, "not enough arguments for format string");
        *out = p->args.u.list->items[p->next++];
        return true;
    }
    if (p->next++ > 0) return plait_tpl_type_error(p->b->r, "not enough arguments for format string");
    *out = p->args;
    return true;
}

/* A number in the format, or * for the next argument. Bounded to 31 bits, as the C library counts. */
static bool percent_number(percent *p, int64_t *out) {
    plait_tpl_value v;
    if (p->at < p->format->n_bytes && p->format->bytes[p->at] == '*') {
        p->at++;
        return percent_argument(p, &v) && plait_tpl_as_int(p->b->r, v, "* in a format", out);
    }
    *out = 0;
    while (p->at < p->format->n_bytes && isdigit((unsigned char)p->format->bytes[p->at])) {
        /* The check behind each digit keeps this far from an overflow. */
        *out = *out * 10 + (p->format->bytes[p->at++] - '0');
        if (*out > INT32_MAX)
            return plait_tpl_fail(p->b->r, PLAIT_LIMIT, "a width beyond the limit of 31 bits");
    }
    return true;
}

/* Padding has the origin of the specification that asked for it. Zeros go between prefix and digits, spaces around
 * both. Widths count characters, not bytes: a name of five Chinese characters fills five places, however wide they
 * print. */
static bool percent_padded(percent *p, const char *prefix, const plait_tpl_str *body, bool number) {
    plait_tpl_builder *b = p->b;
    int64_t used = (int64_t)(strlen(prefix) + body->n_chars), pad = p->width > used ? p->width - used : 0;
    bool zeros = number && p->zero && !p->minus;
    /* Three places for the padding; the flags choose one. */
    if (!p->minus && !zeros) plait_tpl_put_repeat(b, ' ', pad, p->foreign);
    plait_tpl_put_text(b, prefix, 0);
    if (zeros) plait_tpl_put_repeat(b, '0', pad, p->foreign);
    plait_tpl_put_str(b, body);
    if (p->minus) plait_tpl_put_repeat(b, ' ', pad, p->foreign);
    return !b->failed;
}

/* In a markup format everything but markup is escaped. The precision cuts characters, and after escaping. */
static bool percent_text(percent *p, char type, plait_tpl_value v) {
    plait_tpl_builder body;
    plait_tpl_value s;
    plait_tpl_builder_init(&body, p->b->r);
    if (type == 's')
        plait_tpl_put_value(&body, v);
    else if (type == 'a' && v.kind == PLAIT_TPL_STRING)
        plait_tpl_put_str_repr(&body, v.u.string, true);
    else
        plait_tpl_put_repr(&body, v, 0);
    if (!plait_tpl_finish(&body, &s)) return false;
    /* The original and not its copy: only it knows whether it is markup. */
    if (p->format->markup && type == 's' && v.kind == PLAIT_TPL_STRING) {
        if (!plait_tpl_str_escape(p->b->r, v.u.string, &s)) return false;
    } else if (p->format->markup && !plait_tpl_str_escape(p->b->r, s.u.string, &s)) {
        return false;
    }
    const plait_tpl_str *t = s.u.string;
    size_t end = p->precision >= 0 && (size_t)p->precision < t->n_chars
                     ? plait_tpl_str_byte_of(t, (size_t)p->precision)
                     : t->n_bytes;
    return plait_tpl_str_sub(p->b->r, t, 0, end, &s) && percent_padded(p, "", s.u.string, false);
}

/* "%c" takes a string of one character or a code point. The code's character is foreign whatever the format was: a
 * number from a message could otherwise forge a control token's bytes as the template's own. */
static bool percent_char(percent *p, plait_tpl_value v) {
    plait_tpl_builder body;
    const plait_tpl_str *s;
    plait_tpl_builder_init(&body, p->b->r);
    if (v.kind == PLAIT_TPL_STRING) {
        if (v.u.string->n_chars != 1) return plait_tpl_type_error(p->b->r, "%%c requires int or char");
        plait_tpl_put_str(&body, v.u.string);
    } else {
        int64_t code;
        if (!plait_tpl_as_int(p->b->r, v, "%c", &code)) return false;
        if (code < 0 || code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF))
            return plait_tpl_type_error(p->b->r, "%%c: not a character");
        plait_tpl_put_code(&body, (uint32_t)code, 1); /* whoever chose the number wrote the character */
    }
    return plait_tpl_finish_str(&body, &s) && percent_padded(p, "", s, false);
}

/* %d of a float drops the fraction, as in Python; %x refuses it. Without a sign of its own a number takes that of the
 * flags; '+' wins over ' ', as in C. */
static bool percent_value(percent *p, char type, plait_tpl_value v) {
    plait_tpl_render *r = p->b->r;
    if (type == 's' || type == 'r' || type == 'a') return percent_text(p, type, v);
    if (type == 'c') return percent_char(p, v);
    if (v.kind == PLAIT_TPL_UNDEFINED) return plait_tpl_undefined_error(r, v);
    if (!plait_tpl_is_number(v))
        return plait_tpl_type_error(r, "%%%c format: a number is required, not %s", type,
                                    plait_tpl_type_name(v));
    bool whole = one_of(type, "diuxXo");
    if (whole && v.kind == PLAIT_TPL_FLOAT) {
        if (one_of(type, "xXo"))
            return plait_tpl_type_error(r, "%%%c format: an integer is required, not float", type);
        /* Also false for NaN. Slightly below 2^63, so that the conversion is defined. */
        if (!(fabs(v.u.real) < 9.2e18)) return plait_tpl_int_overflow(r);
        v = plait_tpl_int((int64_t)v.u.real);
    }
    plait_tpl_number n;
    if (!plait_tpl_number_digits(r, v, type, p->precision, p->alternate, &n)) return false;
    char prefix[8];
    snprintf(prefix, sizeof prefix, "%s%s",
             n.negative ? "-"
             : p->plus  ? "+"
             : p->space ? " "
                        : "",
             n.prefix ? n.prefix : "");
    plait_tpl_builder body;
    const plait_tpl_str *s;
    plait_tpl_builder_init(&body, r);
    /* The precision of an integer is its least number of digits. */
    if (whole) plait_tpl_put_repeat(&body, '0', (int64_t)p->precision - (int64_t)n.n_digits, 0);
    plait_tpl_put(&body, n.digits, n.n_digits, 0);
    return plait_tpl_finish_str(&body, &s) && percent_padded(p, prefix, s, true);
}

/* "(name)" behind the percent sign: the arguments are then a mapping. Brackets may nest inside of the name, as CPython
 * counts them. *out stays MISSING where there is no name, by which percent_one knows that an argument is still to be
 * taken. */
static bool percent_key(percent *p, plait_tpl_value mapping, plait_tpl_value *out) {
    const plait_tpl_str *f = p->format;
    size_t from = ++p->at;
    int depth = 1;
    plait_tpl_value key;
    for (; p->at < f->n_bytes; p->at++) {
        if (f->bytes[p->at] == '(') depth++;
        if (f->bytes[p->at] == ')' && --depth == 0) break;
    }
    if (p->at >= f->n_bytes) return plait_tpl_type_error(p->b->r, "incomplete format key");
    if (mapping.kind != PLAIT_TPL_DICT) return plait_tpl_type_error(p->b->r, "format requires a mapping");
    if (!plait_tpl_str_sub(p->b->r, f, from, p->at++, &key)) return false;
    p->used_mapping = true;
    int found = plait_tpl_dict_get(p->b->r, mapping.u.dict, key, out);
    if (found == 0) return plait_tpl_type_error(p->b->r, "a key of the format is missing in the mapping");
    return found > 0;
}

/* Flags, width, precision, and C's length letters, which Python skips. A negative width from * means to the left. */
static bool percent_flags(percent *p) {
    const plait_tpl_str *f = p->format;
    p->minus = p->plus = p->space = p->zero = p->alternate = false;
    for (; p->at < f->n_bytes; p->at++) {
        char c = f->bytes[p->at];
        if (c == '-')
            p->minus = true;
        else if (c == '+')
            p->plus = true;
        else if (c == ' ')
            p->space = true;
        else if (c == '0')
            p->zero = true;
        else if (c == '#')
            p->alternate = true;
        else
            break;
    }
    int64_t precision = -1;
    if (!percent_number(p, &p->width)) return false;
    if (p->width < 0) p->minus = true, p->width = p->width < -INT32_MAX ? INT32_MAX : -p->width;
    if (p->at < f->n_bytes && f->bytes[p->at] == '.') {
        p->at++;
        if (!percent_number(p, &precision)) return false;
        if (precision < 0) precision = 0;
        if (precision > INT32_MAX)
            return plait_tpl_fail(p->b->r, PLAIT_LIMIT, "a precision beyond the limit of 31 bits");
    }
    p->precision = (int)precision;
    /* C's length letters mean nothing, as in Python. */
    while (p->at < f->n_bytes && one_of(f->bytes[p->at], "hlL")) p->at++;
    return true;
}

/* One directive behind the sign, which is at p->at - 1. A percent sign with flags takes an argument all the same, which
 * is Python's rule. An undefined value as the right side is found by whatever directive uses it, with its own hint. */
static bool percent_one(percent *p) {
    const plait_tpl_str *f = p->format;
    plait_tpl_value v = {.kind = PLAIT_TPL_MISSING};
    p->foreign = plait_tpl_str_mark(f, p->at - 1);
    if (p->at < f->n_bytes && f->bytes[p->at] == '(' && !percent_key(p, p->args, &v)) return false;
    if (!percent_flags(p)) return false;
    if (p->at >= f->n_bytes) return plait_tpl_type_error(p->b->r, "incomplete format");
    char type = f->bytes[p->at++];
    if (type == '%') {
        if (f->bytes[p->at - 2] != '%' && v.kind == PLAIT_TPL_MISSING && !percent_argument(p, &v))
            return false;
        plait_tpl_put_slice(p->b, f, p->at - 1, p->at);
        return true;
    }
    if (!type || !one_of(type, "srdiuxXofFeEgGca"))
        return plait_tpl_type_error(p->b->r, "unsupported format character");
    if (v.kind == PLAIT_TPL_MISSING && !percent_argument(p, &v)) return false;
    return percent_value(p, type, v);
}

/* Arguments left over are an error, unless the value is one that may be a mapping. */
bool plait_tpl_format_percent(plait_tpl_render *r, const plait_tpl_str *format, plait_tpl_value args,
                              plait_tpl_value *out) {
    plait_tpl_builder b;
    const plait_tpl_str *whole;
    plait_tpl_builder_init(&b, r);
    percent p = {.b = &b, .format = format, .args = args};
    while (p.at < format->n_bytes && !b.failed) {
        const char *sign = memchr(format->bytes + p.at, '%', format->n_bytes - p.at);
        size_t to = sign ? (size_t)(sign - format->bytes) : format->n_bytes;
        plait_tpl_put_slice(&b, format, p.at, to);
        p.at = to + 1;
        if (sign && (!plait_tpl_step(r, 1) || !percent_one(&p))) return false;
    }
    /* "%%" alone takes no argument, so a string without directives refuses any. */
    bool left = args.kind == PLAIT_TPL_TUPLE ? p.next < args.u.list->n_items : p.next == 0;
    bool container = args.kind == PLAIT_TPL_DICT || args.kind == PLAIT_TPL_UNDEFINED ||
                     args.kind == PLAIT_TPL_LIST || args.kind == PLAIT_TPL_RANGE;
    if (left && !p.used_mapping && !container)
        return plait_tpl_type_error(r, "not all arguments converted during string formatting");
    return plait_tpl_finish_str(&b, &whole) && plait_tpl_str_with_markup(r, whole, format->markup, out);
}

/* --- format specifications --- */

/* One specification of str.format, parsed. Filled by parse_spec; -1 is no precision, 0 no width. fill_mark is the
 * origin of the fill character: padding with a character from a variable is foreign. */
typedef struct spec {
    uint32_t fill;
    uint8_t fill_mark;
    char align, sign, group, type; /* 0: not given */
    bool alternate, zero;
    int64_t width;
    int precision;
} spec;

/* No digits give 0; the caller that must tell looks whether *at has moved. */
static bool spec_number(plait_tpl_render *r, const plait_tpl_str *s, size_t *at, int64_t *out) {
    int64_t n = 0;
    while (*at < s->n_bytes && isdigit((unsigned char)s->bytes[*at])) {
        n = n * 10 + (s->bytes[(*at)++] - '0');
        if (n > INT32_MAX) return plait_tpl_fail(r, PLAIT_LIMIT, "a width beyond the limit of 31 bits");
    }
    *out = n;
    return true;
}

/* [[fill]align][sign][#][0][width][group][.precision][type], as Python's manual gives it. The fill may be any
 * character. */
static bool parse_spec(plait_tpl_render *r, const plait_tpl_str *s, spec *out) {
    *out = (spec){.fill = ' ', .precision = -1};
    size_t at = 0, second = 0;
    bool has_fill = false;
    uint32_t first = s->n_bytes ? plait_tpl_str_next(s, &second) : 0;
    /* What follows tells a fill from an align, so the second character decides first. */
    if (second && second < s->n_bytes && one_of(s->bytes[second], "<>=^")) {
        out->fill = first;
        out->fill_mark = plait_tpl_str_mark(s, 0);
        out->align = s->bytes[second];
        has_fill = true;
        at = second + 1;
    } else if (s->n_bytes && one_of(s->bytes[0], "<>=^")) {
        out->align = s->bytes[at++];
    }
    if (at < s->n_bytes && one_of(s->bytes[at], "+- ")) out->sign = s->bytes[at++];
    if (at < s->n_bytes && s->bytes[at] == '#') out->alternate = true, at++;
    if (at < s->n_bytes && s->bytes[at] == '0') {
        /* Short for fill 0 and align '='. */
        out->zero = true, at++;
        if (!has_fill) out->fill = '0';
        if (!out->align) out->align = '=';
    }
    int64_t precision = -1;
    if (!spec_number(r, s, &at, &out->width)) return false;
    if (at < s->n_bytes && (s->bytes[at] == ',' || s->bytes[at] == '_')) out->group = s->bytes[at++];
    if (at < s->n_bytes && s->bytes[at] == '.') {
        size_t from = ++at;
        if (!spec_number(r, s, &at, &precision)) return false;
        if (at == from) return plait_tpl_type_error(r, "format specifier missing precision");
    }
    out->precision = (int)precision;
    if (at < s->n_bytes) out->type = s->bytes[at++];
    return at == s->n_bytes ? true : plait_tpl_type_error(r, "invalid format specifier");
}

/* '=' puts the padding between sign and digits. Centred text has the odd space behind it. */
static void put_aligned(plait_tpl_builder *b, const spec *f, char align, const char *prefix,
                        const plait_tpl_str *body) {
    int64_t used = (int64_t)(strlen(prefix) + body->n_chars), pad = f->width > used ? f->width - used : 0;
    int64_t before = align == '>' ? pad : align == '^' ? pad / 2 : 0, inside = align == '=' ? pad : 0;
    plait_tpl_put_repeat(b, f->fill, before, f->fill_mark);
    plait_tpl_put_text(b, prefix, 0);
    plait_tpl_put_repeat(b, f->fill, inside, f->fill_mark);
    plait_tpl_put_str(b, body);
    plait_tpl_put_repeat(b, f->fill, pad - before - inside, f->fill_mark);
}

/* Digits with separators every three (four for bases 2, 8, 16) from the point to the left; zero padding to `width`
 * includes separators. `zeros_to` counts places without sign and prefix. The loop that widens steps by one place at a
 * time, hence the charge in front of it. */
static void put_grouped(plait_tpl_builder *b, const plait_tpl_number *n, const spec *f, int64_t zeros_to) {
    size_t whole = 0;
    /* Digits in front of the point or exponent; 'e' is a digit in base 16 only. */
    while (whole < n->n_digits && isxdigit((unsigned char)n->digits[whole]) &&
           !((n->digits[whole] | 0x20) == 'e' && !one_of(f->type ? f->type : 'd', "xX")))
        whole++;
    if (zeros_to > 0 && !plait_tpl_step(b->r, (uint64_t)zeros_to >> 2)) {
        b->failed = true;
        return;
    }
    size_t every = f->type && one_of(f->type, "boxX") ? 4 : 3;
    int64_t rest = (int64_t)(n->n_digits - whole), total = (int64_t)whole;
    /* Zeros until digits and separators together fill the width; one place may be too many, as in Python, where no
     * separator leads. */
    while (total + (total - 1) / (int64_t)every + rest < zeros_to) total++;
    for (int64_t i = 0; i < total && !b->failed; i++) {
        int64_t left = total - i;
        char c = left <= (int64_t)whole ? n->digits[(int64_t)whole - left] : '0';
        plait_tpl_put(b, &c, 1, 0);
        if (left > 1 && (left - 1) % (int64_t)every == 0) plait_tpl_put(b, &f->group, 1, 0);
    }
    plait_tpl_put(b, n->digits + whole, n->n_digits - whole, 0);
}

/* Without an align numbers go right. Precision is refused for integers, as in Python. */
static bool put_number(plait_tpl_builder *b, plait_tpl_value v, const spec *f) {
    plait_tpl_render *r = b->r;
    plait_tpl_number n;
    plait_tpl_builder body;
    const plait_tpl_str *s;
    char prefix[8];
    bool whole_type = f->type && one_of(f->type, "dxXobn"), is_int = v.kind != PLAIT_TPL_FLOAT;
    if (f->type && !strchr(is_int ? "dxXobneEfFgG%" : "neEfFgG%", f->type))
        return plait_tpl_type_error(r, "unknown format code '%c' for a %s", f->type, plait_tpl_type_name(v));
    /* An integer under 'f' or 'e' is a float and may have one. */
    if (is_int && (!f->type || whole_type) && f->precision >= 0)
        return plait_tpl_type_error(r, "precision not allowed in integer format specifier");
    if (!plait_tpl_number_digits(r, v, is_int && (!f->type || f->type == 'n') ? 'd' : f->type, f->precision,
                                 f->alternate, &n))
        return false;
    snprintf(prefix, sizeof prefix, "%s%s",
             n.negative       ? "-"
             : f->sign == '+' ? "+"
             : f->sign == ' ' ? " "
                              : "",
             n.prefix ? n.prefix : "");
    plait_tpl_builder_init(&body, r);
    /* With separators the zeros are grouped as well, so they belong to the digits and not to the padding. */
    bool zeros = f->align == '=' && f->fill == '0';
    if (f->group)
        put_grouped(&body, &n, f, zeros ? f->width - (int64_t)strlen(prefix) : 0);
    else
        plait_tpl_put(&body, n.digits, n.n_digits, 0);
    if (!plait_tpl_finish_str(&body, &s)) return false;
    put_aligned(b, f, f->align ? f->align : '>', prefix, s);
    return !b->failed;
}

/* A number under 'c' is the character of that code and then a string. Kinds without a format of their own take only the
 * empty specification. An empty specification is str(), for every kind, which is why "{}" works with lists and "{:>3}"
 * does not. */
bool plait_tpl_put_spec(plait_tpl_builder *b, plait_tpl_value v, const plait_tpl_str *spec_text) {
    plait_tpl_render *r = b->r;
    spec f;
    if (spec_text->n_bytes == 0) {
        plait_tpl_put_value(b, v);
        return !b->failed;
    }
    if (!parse_spec(r, spec_text, &f)) return false;
    if (plait_tpl_is_number(v) && f.type != 'c' && f.type != 's') return put_number(b, v, &f);
    plait_tpl_value s = v;
    /* By way of "%c", which knows what a character is and whose text it is. */
    if (plait_tpl_is_number(v) && f.type == 'c') {
        plait_tpl_value pair;
        plait_tpl_str one = {.bytes = "%c", .n_bytes = 2, .n_chars = 2};
        if (!plait_tpl_list_new(r, PLAIT_TPL_TUPLE, 1, &pair) || !plait_tpl_list_push(r, pair.u.list, v) ||
            !plait_tpl_format_percent(r, &one, pair, &s))
            return false;
        /* From here on it is a string, but still aligned as a number. */
        f.type = 0;
        if (!f.align) f.align = '>';
    }
    if (s.kind != PLAIT_TPL_STRING)
        return plait_tpl_type_error(r, "unsupported format string passed to %s", plait_tpl_type_name(v));
    if (f.type && f.type != 's') return plait_tpl_type_error(r, "unknown format code '%c' for a str", f.type);
    if (f.sign || f.alternate || f.group || (f.align == '=' && !f.zero))
        return plait_tpl_type_error(r, "flag not allowed in string format specifier");
    const plait_tpl_str *t = s.u.string;
    size_t end = f.precision >= 0 && (size_t)f.precision < t->n_chars
                     ? plait_tpl_str_byte_of(t, (size_t)f.precision)
                     : t->n_bytes;
    if (!plait_tpl_str_sub(r, t, 0, end, &s)) return false;
    put_aligned(b, &f, f.align && f.align != '=' ? f.align : '<', "", s.u.string);
    return !b->failed;
}

/* --- strftime --- */

/* "YYYY-MM-DD HH:MM:SS", with T for the space too. The day of the week is counted from the year 1, which began on a
 * Monday. */
static bool parse_now(const char *now, struct tm *out) {
    int n = 0;
    memset(out, 0, sizeof *out);
    for (size_t i = 0; i < 19; i++) { /* sscanf alone would take signs and spaces */
        bool digit = i != 4 && i != 7 && i != 10 && i != 13 && i != 16;
        if (!now[i] || (digit && !isdigit((unsigned char)now[i]))) return false;
    }
    if (sscanf(now, "%4d-%2d-%2d%*1[ T]%2d:%2d:%2d%n", &out->tm_year, &out->tm_mon, &out->tm_mday,
               &out->tm_hour, &out->tm_min, &out->tm_sec, &n) != 6 ||
        n != 19 || now[n])
        return false;
    /* Checked by hand, because mktime would turn the 31st of February into a day of March. */
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    int y = out->tm_year, m = out->tm_mon;
    if (y < 1 || m < 1 || m > 12 || out->tm_hour > 23 || out->tm_min > 59 || out->tm_sec > 59) return false;
    bool leap = (y % 4 == 0 && y % 100 != 0) || y % 400 == 0;
    if (out->tm_mday < 1 || out->tm_mday > days[m - 1] + (leap && m == 2)) return false;
    out->tm_yday = out->tm_mday - 1 + (leap && m > 2);
    for (int i = 0; i + 1 < m; i++) out->tm_yday += days[i];
    int k = y - 1;
    out->tm_wday = (k * 365 + k / 4 - k / 100 + k / 400 + out->tm_yday + 1) % 7;
    out->tm_year -= 1900;
    out->tm_mon -= 1;
    /* Unknown: the time has no zone. */
    out->tm_isdst = -1;
    return true;
}

plait_status plait_tpl_check_now(const char *now) {
    struct tm t;
    if (parse_now(now, &t)) return PLAIT_OK;
    return plait_error(PLAIT_INVALID_ARGUMENT,
                       "template time: expected \"YYYY-MM-DD HH:MM:SS\", found \"%.40s\"", now);
}

/* One directive through the C library, in the C locale. Field widths have two digits at most. The locale is made for
 * each directive: templates have one or two, and a locale kept between renderings would be global state. */
static bool put_directive(plait_tpl_builder *b, const struct tm *t, const char *directive, uint8_t foreign) {
    char text[256];
    locale_t c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (!c_locale) return plait_tpl_fail(b->r, PLAIT_OUT_OF_MEMORY, "strftime: no C locale");
    size_t n = strftime_l(text, sizeof text, directive, t, c_locale);
    freelocale(c_locale);
    plait_tpl_put(b, text, n, foreign);
    return !b->failed;
}

/* The caller's time, so that prompts can be repeated; without one the clock's local time. Unknown directives stay as
 * they are, as glibc has it. What a directive gives has the origin of its percent sign. */
bool plait_tpl_strftime(plait_tpl_render *r, const plait_tpl_str *format, plait_tpl_value *out) {
    struct tm t;
    if (r->now) {
        if (!parse_now(r->now, &t)) return plait_tpl_type_error(r, "strftime_now: not a time: %.40s", r->now);
    } else {
        time_t clock = time(NULL);
        if (!localtime_r(&clock, &t))
            return plait_tpl_type_error(r, "strftime_now: the clock cannot be read");
    }
    plait_tpl_builder b;
    plait_tpl_builder_init(&b, r);
    for (size_t i = 0; i < format->n_bytes && !b.failed;) {
        const char *p = format->bytes + i, *end = format->bytes + format->n_bytes;
        if (*p != '%') {
            const char *sign = memchr(p, '%', (size_t)(end - p));
            size_t to = sign ? (size_t)(sign - format->bytes) : format->n_bytes;
            plait_tpl_put_slice(&b, format, i, to);
            i = to;
            continue;
        }
        char directive[8] = "%";
        size_t n = 1;
        /* glibc's flags, a width of two digits, and the modifiers E and O; at most six bytes with '%' and the
         * letter. */
        while (n < 5 && p + n < end && (one_of(p[n], "-_0^#EO") || (n < 3 && isdigit((unsigned char)p[n]))))
            directive[n] = p[n], n++;
        /* 0 when the format ends inside of a directive, which then stays as text. */
        char type = p + n < end ? p[n] : 0;
        uint8_t foreign = plait_tpl_str_mark(format, i);
        directive[n] = type;
        size_t length = n + (type != 0);
        i += length;
        /* Microseconds, which neither the caller's time nor the C library has. */
        if (type == 'f' && n == 1)
            plait_tpl_put_text(&b, "000000", foreign);
        else if (type == 'z' || type == 'Z')
            continue; /* a time without zone */
        else if (type && one_of(type, "aAbBcCdDeFgGhHIjklmMnpPrRsStTuUVwWxXyY%")) {
            if (!plait_tpl_step(r, 4) || !put_directive(&b, &t, directive, foreign)) return false;
        } else
            plait_tpl_put_slice(&b, format, i - length, i);
    }
    return plait_tpl_finish(&b, out);
}
