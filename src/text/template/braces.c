/* str.format: "{} {name!r:>{width}}". Not here: one value under a specification (format.c), the % operator (pformat.c).
 * Invariant: nested fields go two levels deep, as in Python. */
#include "text/template/builtin.h"
#include "text/template/print.h"

#include <string.h>

/* One call of str.format: shared by the nested specifications, so a field inside of one takes the next argument. */
typedef struct braces {
    const plait_tpl_str *format;
    const plait_tpl_args *args;
    int64_t next; /* number of the next automatic field; -1 once fields were numbered by hand */
} braces;

static bool put_format(plait_tpl_builder *b, braces *f, size_t from, size_t to, int depth);

/* The message does not repeat the name: it is a part of the format, whose place the error gives. */
static bool named_argument(plait_tpl_render *r, const plait_tpl_args *args, const plait_tpl_str *name,
                           plait_tpl_value *out) {
    for (size_t i = 0; i < args->n_named; i++)
        if (plait_tpl_str_equal(args->names[i], name)) return *out = args->named[i], true;
    return plait_tpl_type_error(r, "format: there is no argument of that name");
}

/* A whole number in bytes [from, to): -1 when it is none. */
static int64_t number_in(const plait_tpl_str *s, size_t from, size_t to) {
    int64_t n = 0;
    /* Nine digits fit into 32 bits; more cannot be the number of an argument. */
    if (from == to || to - from > 9) return -1;
    for (size_t i = from; i < to; i++) {
        if (s->bytes[i] < '0' || s->bytes[i] > '9') return -1;
        n = n * 10 + (s->bytes[i] - '0');
    }
    return n;
}

/* Python's rule: fields are numbered either all by hand or all by themselves, while names mix with both. [from, to) is
 * what stands in front of the first '.' or '['. `next` above 0 means that automatic fields were used, -1 numbered
 * ones. */
static bool positional(plait_tpl_render *r, braces *f, size_t from, size_t to, plait_tpl_value *out) {
    int64_t n = number_in(f->format, from, to);
    plait_tpl_value name;
    if (from == to) {
        if (f->next < 0)
            return plait_tpl_type_error(
                r, "cannot switch from manual field specification to automatic field numbering");
        n = f->next++;
    } else if (n < 0) {
        return plait_tpl_str_sub(r, f->format, from, to, &name) &&
               named_argument(r, f->args, name.u.string, out);
    } else if (f->next > 0) {
        return plait_tpl_type_error(
            r, "cannot switch from automatic field numbering to manual field specification");
    } else {
        f->next = -1;
    }
    if ((size_t)n >= f->args->n_pos)
        return plait_tpl_type_error(r, "format: index %lld is out of range", (long long)n);
    *out = f->args->pos[n];
    return true;
}

/* name.attribute[item]... in bytes [from, to). Parts behind the name are reached as templates reach them. An item of
 * digits is a number, any other a string. A digit key longer than nine digits is a string, as number_in has it. */
static bool field_value(plait_tpl_render *r, braces *f, size_t from, size_t to, plait_tpl_value *out) {
    const plait_tpl_str *s = f->format;
    plait_tpl_value key;
    size_t at = from;
    while (at < to && s->bytes[at] != '.' && s->bytes[at] != '[') at++;
    if (!positional(r, f, from, at, out)) return false;
    while (at < to) {
        bool item = s->bytes[at] == '[';
        size_t start = ++at;
        while (at < to && (item ? s->bytes[at] != ']' : s->bytes[at] != '.' && s->bytes[at] != '[')) at++;
        if (at == start || (item && at == to))
            return plait_tpl_type_error(r, "format: empty or unclosed attribute");
        int64_t n = item ? number_in(s, start, at) : -1;
        if (!plait_tpl_str_sub(r, s, start, at, &key)) return false;
        if (n >= 0) key = plait_tpl_int(n);
        if (!(item ? plait_tpl_get_item(r, *out, key, out)
                   : plait_tpl_get_attribute(r, *out, key.u.string, out)))
            return false;
        at += item;
        if (item && at < to && s->bytes[at] != '.' && s->bytes[at] != '[')
            return plait_tpl_type_error(r, "format: only '.' or '[' may follow ']'");
    }
    return true;
}

/* !s, !r and !a as in Python; 0 for none. */
static bool convert(plait_tpl_render *r, char how, plait_tpl_value v, plait_tpl_value *out) {
    plait_tpl_builder b;
    if (how == 0) return *out = v, true;
    plait_tpl_builder_init(&b, r);
    if (how == 's')
        plait_tpl_put_value(&b, v);
    else if (how == 'a' && v.kind == PLAIT_TPL_STRING)
        plait_tpl_put_str_repr(&b, v.u.string, true);
    else if (how == 'r' || how == 'a')
        plait_tpl_put_repr(&b, v, 0);
    else
        return plait_tpl_type_error(r, "format: unknown conversion specifier");
    return plait_tpl_finish(&b, out);
}

/* The field between braces in bytes [from, to). The specification may hold fields of its own. In a markup format a
 * value without specification is escaped, as in Jinja's str.format for Markup. `to` is the closing brace. Without a
 * specification the empty text is formatted, which costs nothing. */
static bool put_field(plait_tpl_builder *b, braces *f, size_t from, size_t to, int depth) {
    const plait_tpl_str *s = f->format;
    plait_tpl_render *r = b->r;
    size_t name_end = from, spec_from = to;
    char how = 0;
    bool in_item = false;
    for (; name_end < to; name_end++) {
        char c = s->bytes[name_end];
        /* Inside of brackets '!' and ':' belong to the key. */
        if (c == '[') in_item = true;
        if (c == ']') in_item = false;
        if (!in_item && (c == '!' || c == ':')) break;
    }
    size_t at = name_end;
    if (at < to && s->bytes[at] == '!') {
        /* One letter, and nothing behind it but a specification. */
        if (at + 1 >= to || (at + 2 < to && s->bytes[at + 2] != ':'))
            return plait_tpl_type_error(r, "format: a broken conversion");
        how = s->bytes[at + 1];
        at += 2;
    }
    if (at < to) spec_from = at + 1;
    plait_tpl_value v;
    const plait_tpl_str *spec;
    if (!field_value(r, f, from, name_end, &v) || !convert(r, how, v, &v)) return false;
    plait_tpl_builder spec_text;
    plait_tpl_builder_init(&spec_text, r);
    if (!put_format(&spec_text, f, spec_from, to, depth + 1) || !plait_tpl_finish_str(&spec_text, &spec))
        return false;
    /* With a specification the result is the caller's to escape, as in markupsafe. */
    if (s->markup && spec->n_bytes == 0) {
        const plait_tpl_str *text;
        if (!plait_tpl_to_str(r, v, &text) || !plait_tpl_str_escape(r, text, &v)) return false;
    }
    return plait_tpl_put_spec(b, v, spec);
}

/* Position of the brace that closes the field which starts at `at`. Braces inside of the field nest, since its
 * specification may hold fields; those inside of [...] count as well. SIZE_MAX when none closes it. */
static size_t field_end(const plait_tpl_str *s, size_t at, size_t to) {
    int open = 1;
    for (; at < to; at++) {
        if (s->bytes[at] == '{') open++;
        if (s->bytes[at] == '}' && --open == 0) return at;
    }
    return SIZE_MAX;
}

/* Doubled braces stand for themselves only on the outer level: inside a specification Python reads them as fields.
 * Text, doubled braces and fields of bytes [from, to), at depth 0 for the format itself. */
static bool put_format(plait_tpl_builder *b, braces *f, size_t from, size_t to, int depth) {
    const plait_tpl_str *s = f->format;
    if (depth > 2) return plait_tpl_type_error(b->r, "format: nested too deep");
    while (from < to && !b->failed) {
        size_t at = from;
        while (at < to && s->bytes[at] != '{' && s->bytes[at] != '}') at++;
        plait_tpl_put_slice(b, s, from, at);
        if (at == to) break;
        if (!plait_tpl_step(b->r, 1)) return false;
        /* Also "}}", which no field has opened. */
        bool twice = at + 1 < to && s->bytes[at + 1] == s->bytes[at];
        if (twice && depth == 0) {
            plait_tpl_put_slice(b, s, at, at + 1);
            from = at + 2;
            continue;
        }
        size_t end = s->bytes[at] == '{' ? field_end(s, at + 1, to) : SIZE_MAX;
        if (end == SIZE_MAX)
            return plait_tpl_type_error(b->r, "format: single '%c' encountered", s->bytes[at]);
        if (!put_field(b, f, at + 1, end, depth)) return false;
        from = end + 1;
    }
    return !b->failed;
}

/* Text of the format keeps its origin, and so does each value. */
bool plait_tpl_format_braces(plait_tpl_render *r, const plait_tpl_str *format, const plait_tpl_args *args,
                             plait_tpl_value *out) {
    plait_tpl_builder b;
    const plait_tpl_str *whole;
    plait_tpl_builder_init(&b, r);
    braces f = {.format = format, .args = args};
    return put_format(&b, &f, 0, format->n_bytes, 0) && plait_tpl_finish_str(&b, &whole) &&
           plait_tpl_str_with_markup(r, whole, format->markup, out);
}
