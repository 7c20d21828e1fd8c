/* str(), repr() and json.dumps. Invariant: numbers and punctuation that come with a container from the
 * variables are marked as foreign like the container's strings; those that a template computed are its own. Not
 * here: the lines of pprint (pformat.c), formats with a width (format.c).
 *
 *    str()        strings bare, undefined as nothing, all else as repr
 *    repr()       Python's, also inside of every container
 *    JSON         json.dumps as transformers calls it; only what JSON has a form for
 *
 * Everything is written into a builder whose failure is sticky: functions without a result go on after a failure and
 * write nothing, so only loops over data of the template ask for it. */
#include "text/template/print.h"

#include "base/strbuf.h"
#include "text/template/builtin.h"
#include "text/template/eval.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The shortest digits that read back as the same double, by trying 1 to 17: 17 always do. Exponents from -4 to 15 print
 * without e, as in Python. The text has 24 bytes at most. `out` has room for 40 bytes. The result is Python's repr,
 * digit for digit, since both choose the shortest digits and the C library rounds them correctly. */
size_t plait_tpl_float_repr(double value, char *out) {
    if (isnan(value)) return (size_t)snprintf(out, 40, "nan");
    if (isinf(value)) return (size_t)snprintf(out, 40, value < 0 ? "-inf" : "inf");
    char shortest[32], digits[24];
    int n = 0, exponent = 0;
    /* Most numbers in templates have few digits, so the loop ends early. */
    for (n = 1; n <= 17; n++) {
        plait_format(shortest, sizeof shortest, "%.*e", n - 1, value);
        if (plait_strtod(shortest, NULL) == value) break;
    }
    const char *p = shortest;
    bool negative = *p == '-';
    n = 0;
    for (p += negative; *p && *p != 'e'; p++)
        if (*p != '.' && n < 20) digits[n++] = *p;
    /* "%.*e" always writes an exponent for finite numbers. */
    if (*p == 'e') exponent = atoi(p + 1);
    /* From here n counts digits without zeros at the end. */
    while (n > 1 && digits[n - 1] == '0') n--;
    char *o = out;
    if (negative) *o++ = '-';
    /* One digit, the rest behind a point, and an exponent of two digits or more. */
    if (exponent < -4 || exponent >= 16) {
        *o++ = digits[0];
        if (n > 1) {
            *o++ = '.';
            memcpy(o, digits + 1, (size_t)n - 1);
            o += n - 1;
        }
        o += snprintf(o, 8, "e%c%02d", exponent < 0 ? '-' : '+', abs(exponent));
    } else if (exponent < 0) {
        *o++ = '0', *o++ = '.';
        for (int i = -1; i > exponent; i--) *o++ = '0';
        memcpy(o, digits, (size_t)n);
        o += n;
    } else {
        for (int i = 0; i <= exponent || i < n; i++) {
            if (i == exponent + 1) *o++ = '.';
            *o++ = i < n ? digits[i] : '0';
        }
        /* Shows of a whole number that it is a float. */
        if (n <= exponent + 1) *o++ = '.', *o++ = '0';
    }
    *o = '\0';
    return (size_t)(o - out);
}

/* 64 bits in decimal need 20 characters. */
static void put_int(plait_tpl_builder *b, int64_t i, uint8_t foreign) {
    char text[24];
    plait_tpl_put(b, text, (size_t)snprintf(text, sizeof text, "%" PRId64, i), foreign);
}

/* See plait_tpl_float_repr for the room. */
static void put_float(plait_tpl_builder *b, double f, uint8_t foreign) {
    char text[40];
    plait_tpl_put(b, text, plait_tpl_float_repr(f, text), foreign);
}

/* One character of a repr in quotes. `ascii`: all beyond ASCII is escaped, as ascii() does; else what Python calls
 * printable stays. [at, next) is the character in s and c its code; `quote` is the one that the whole string is written
 * in. */
static void put_repr_char(plait_tpl_builder *b, const plait_tpl_str *s, size_t at, size_t next, uint32_t c,
                          char quote, bool ascii) {
    char text[16];
    /* An escape has the origin of the character that it stands for. */
    uint8_t foreign = plait_tpl_str_mark(s, at);
    if (c == (uint32_t)quote || c == '\\')
        snprintf(text, sizeof text, "\\%c", (char)c);
    else if (c == '\n' || c == '\r' || c == '\t')
        snprintf(text, sizeof text, "\\%c", c == '\n' ? 'n' : c == '\r' ? 'r' : 't');
    else if (c < 0x7F ? c >= ' ' : !ascii && plait_tpl_is_printable(c)) {
        plait_tpl_put_slice(b, s, at, next);
        return;
    } else
        snprintf(text, sizeof text, c < 0x100 ? "\\x%02x" : c < 0x10000 ? "\\u%04x" : "\\U%08x", (unsigned)c);
    plait_tpl_put_text(b, text, foreign);
}

/* Double quotes only when there are single ones and no double ones. The quotes are foreign when any part of the string
 * is. A string marked safe prints as Markup('...'), as markupsafe does it; inside of a list that is what Python's str
 * shows too. */
void plait_tpl_put_str_repr(plait_tpl_builder *b, const plait_tpl_str *s, bool ascii) {
    bool single = s->n_bytes && memchr(s->bytes, '\'', s->n_bytes),
         both = s->n_bytes && memchr(s->bytes, '"', s->n_bytes);
    char quote = single && !both ? '"' : '\'';
    uint8_t foreign = plait_tpl_str_any_foreign(s);
    if (s->markup) plait_tpl_put_text(b, "Markup(", foreign);
    plait_tpl_put(b, &quote, 1, foreign);
    for (size_t at = 0, next = 0; at < s->n_bytes && !b->failed; at = next) {
        uint32_t c = plait_tpl_str_next(s, &next);
        put_repr_char(b, s, at, next, c, quote, ascii);
    }
    if (!plait_tpl_step(b->r, s->n_bytes >> 6)) b->failed = true;
    plait_tpl_put(b, &quote, 1, foreign);
    if (s->markup) plait_tpl_put_text(b, ")", foreign);
}

/* `foreign` comes down from the containers around: what is inside a foreign one is foreign whole. */
static void put_list(plait_tpl_builder *b, const plait_tpl_list *list, bool tuple, uint8_t foreign) {
    foreign |= list->foreign;
    plait_tpl_put(b, tuple ? "(" : "[", 1, foreign);
    for (size_t i = 0; i < list->n_items && !b->failed; i++) {
        if (i) plait_tpl_put(b, ", ", 2, foreign);
        plait_tpl_put_repr(b, list->items[i], foreign);
    }
    /* (1,) is a tuple and (1) would not be. */
    if (tuple && list->n_items == 1) plait_tpl_put(b, ",", 1, foreign);
    plait_tpl_put(b, tuple ? ")" : "]", 1, foreign);
}

/* Entries in the order in which they were set, as Python's. */
static void put_dict(plait_tpl_builder *b, const plait_tpl_dict *d, uint8_t foreign) {
    foreign |= d->foreign;
    plait_tpl_put(b, "{", 1, foreign);
    for (size_t i = 0; i < d->n_entries && !b->failed; i++) {
        if (i) plait_tpl_put(b, ", ", 2, foreign);
        plait_tpl_put_repr(b, d->entries[i].key, foreign);
        plait_tpl_put(b, ": ", 2, foreign);
        plait_tpl_put_repr(b, d->entries[i].value, foreign);
    }
    plait_tpl_put(b, "}", 1, foreign);
}

/* A view prints what its dict holds at this moment. The name follows Python's: dict_keys([...]), with the brackets of
 * the list that Python's own repr makes. */
static void put_view(plait_tpl_builder *b, const plait_tpl_view *view, uint8_t foreign) {
    /* In the order of plait_tpl_view_part. */
    static const char *const names[] = {"dict_keys([", "dict_values([", "dict_items(["};
    const plait_tpl_dict *d = view->dict;
    foreign |= d->foreign;
    plait_tpl_put_text(b, names[view->part], foreign);
    for (size_t i = 0; i < d->n_entries && !b->failed; i++) {
        if (i) plait_tpl_put(b, ", ", 2, foreign);
        if (view->part == PLAIT_TPL_ITEMS) plait_tpl_put(b, "(", 1, foreign);
        if (view->part != PLAIT_TPL_VALUES) plait_tpl_put_repr(b, d->entries[i].key, foreign);
        if (view->part == PLAIT_TPL_ITEMS) plait_tpl_put(b, ", ", 2, foreign);
        if (view->part != PLAIT_TPL_KEYS) plait_tpl_put_repr(b, d->entries[i].value, foreign);
        if (view->part == PLAIT_TPL_ITEMS) plait_tpl_put(b, ")", 1, foreign);
    }
    plait_tpl_put(b, "])", 2, foreign);
}

/* Objects that a template cannot look into. Those whose form holds an address in Python print without one, so equal
 * input gives equal text. Nothing in here is text of the variables but the entries of a namespace, which carry their
 * own marks; the words around are the template's. */
static void put_object(plait_tpl_builder *b, plait_tpl_value v) {
    char text[96];
    /* Stays 0 when the length fails, which the builder remembers. */
    int64_t n = 0;
    switch (v.kind) {
    case PLAIT_TPL_RANGE:
        snprintf(text, sizeof text,
                 v.u.range->step == 1 ? "range(%" PRId64 ", %" PRId64 ")"
                                      : "range(%" PRId64 ", %" PRId64 ", %" PRId64 ")",
                 v.u.range->start, v.u.range->stop, v.u.range->step);
        plait_tpl_put_text(b, text, 0);
        break;
    case PLAIT_TPL_NAMESPACE:
        plait_tpl_put_text(b, "<Namespace ", 0);
        put_dict(b, v.u.dict, 0);
        plait_tpl_put_text(b, ">", 0);
        break;
    case PLAIT_TPL_LOOP:
        /* Printing a loop asks for its length, which reads a lazy source to its end; Jinja does so too. */
        if (!plait_tpl_loop_length(b->r, v.u.loop, &n)) b->failed = true;
        snprintf(text, sizeof text, "<LoopContext %" PRId64 "/%" PRId64 ">", v.u.loop->index0 + 1, n);
        plait_tpl_put_text(b, text, 0);
        break;
    case PLAIT_TPL_MACRO:
        plait_tpl_put_text(b, "<Macro ", 0);
        /* The other kind is a call block, which has no name. */
        if (v.u.macro->node->kind == PLAIT_TPL_N_MACRO)
            plait_tpl_put_str_repr(b, v.u.macro->node->value.u.string, false);
        else
            plait_tpl_put_text(b, "anonymous", 0);
        plait_tpl_put_text(b, ">", 0);
        break;
    default:
        snprintf(text, sizeof text, "<%s object>", plait_tpl_type_name(v));
        plait_tpl_put_text(b, text, 0);
    }
}

/* The level bounds recursion, also for a list that contains itself; Python would print [...] there. */
void plait_tpl_put_repr(plait_tpl_builder *b, plait_tpl_value v, uint8_t foreign) {
    /* Values may be deep or wide, so a failure is looked for before each. */
    if (b->failed) return;
    if (!plait_tpl_step(b->r, 1) || !plait_tpl_enter(b->r)) {
        b->failed = true;
        return;
    }
    switch (v.kind) {
    case PLAIT_TPL_UNDEFINED:
    case PLAIT_TPL_MISSING: plait_tpl_put_text(b, "Undefined", foreign); break;
    case PLAIT_TPL_NONE: plait_tpl_put_text(b, "None", foreign); break;
    case PLAIT_TPL_BOOL: plait_tpl_put_text(b, v.u.boolean ? "True" : "False", foreign); break;
    case PLAIT_TPL_INT: put_int(b, v.u.integer, foreign); break;
    case PLAIT_TPL_FLOAT: put_float(b, v.u.real, foreign); break;
    case PLAIT_TPL_STRING: plait_tpl_put_str_repr(b, v.u.string, false); break;
    case PLAIT_TPL_LIST:
    case PLAIT_TPL_TUPLE: put_list(b, v.u.list, v.kind == PLAIT_TPL_TUPLE, foreign); break;
    case PLAIT_TPL_DICT: put_dict(b, v.u.dict, foreign); break;
    case PLAIT_TPL_VIEW: put_view(b, v.u.view, foreign); break;
    default: put_object(b, v);
    }
    plait_tpl_leave(b->r);
}

/* str(): strings bare, undefined as nothing, the rest as repr. */
void plait_tpl_put_value(plait_tpl_builder *b, plait_tpl_value v) {
    if (v.kind == PLAIT_TPL_STRING)
        plait_tpl_put_str(b, v.u.string);
    else if (v.kind != PLAIT_TPL_UNDEFINED)
        plait_tpl_put_repr(b, v, 0);
}

/* A string is given back as it is, without a copy. */
bool plait_tpl_to_str(plait_tpl_render *r, plait_tpl_value v, const plait_tpl_str **out) {
    if (v.kind == PLAIT_TPL_STRING) {
        *out = v.u.string;
        return true;
    }
    plait_tpl_builder b;
    plait_tpl_builder_init(&b, r);
    plait_tpl_put_value(&b, v);
    return plait_tpl_finish_str(&b, out);
}

/* --- JSON --- */

/* `level` counts containers around, for the indent. */
typedef struct json_printer {
    plait_tpl_builder *b;
    const plait_tpl_json_style *style;
    size_t level;
} json_printer;

static bool put_json(json_printer *j, plait_tpl_value v, uint8_t foreign);

/* json.dumps escapes only what it must; with `ascii` characters above U+FFFF become a pair of surrogates. Runs between
 * escapes go in one piece, with their marks. With `ascii` off only quotes, backslashes and controls are escaped, so
 * text beyond ASCII reaches the model as itself. */
static void put_json_string(json_printer *j, const plait_tpl_str *s) {
    plait_tpl_builder *b = j->b;
    uint8_t foreign = plait_tpl_str_any_foreign(s);
    char text[16];
    size_t plain = 0;
    plait_tpl_put(b, "\"", 1, foreign);
    for (size_t at = 0, next = 0; at < s->n_bytes && !b->failed; at = next) {
        uint32_t c = plait_tpl_str_next(s, &next);
        /* c is not 0, so strchr does not find the zero byte. */
        static const char from[] = "\"\\\b\f\n\r\t", to[] = "\"\\bfnrt";
        const char *known = c && c < 0x80 ? strchr(from, (int)c) : NULL;
        if (known)
            snprintf(text, sizeof text, "\\%c", to[known - from]);
        else if (c >= 0x10000 && j->style->ascii)
            /* A surrogate pair: JSON's escapes have 16 bits. */
            snprintf(text, sizeof text, "\\u%04x\\u%04x", (unsigned)(0xD800 + ((c - 0x10000) >> 10)),
                     (unsigned)(0xDC00 + ((c - 0x10000) & 0x3FF)));
        else if (c < 0x20 || (c >= 0x7F && j->style->ascii))
            snprintf(text, sizeof text, "\\u%04x", (unsigned)c);
        else
            continue;
        /* [plain, at) needed no escapes. */
        plait_tpl_put_slice(b, s, plain, at);
        plait_tpl_put_text(b, text, plait_tpl_str_mark(s, at));
        plain = next;
    }
    if (!plait_tpl_step(b->r, s->n_bytes >> 6)) b->failed = true;
    plait_tpl_put_slice(b, s, plain, s->n_bytes);
    plait_tpl_put(b, "\"", 1, foreign);
}

/* Nothing without an indent; the indent's text may come from the template and has its marks. */
static void json_line(json_printer *j, uint8_t foreign) {
    if (!j->style->indent) return;
    plait_tpl_put(j->b, "\n", 1, foreign);
    /* The loop ends with the output's limit, whatever the depth. */
    for (size_t i = 0; i < j->level && !j->b->failed; i++) plait_tpl_put_str(j->b, j->style->indent);
}

/* The separators of tojson come from the template and have marks of their own. */
static void json_separator(json_printer *j, const plait_tpl_str *s, uint8_t foreign) {
    /* Separators of the template's own become foreign inside of foreign containers, as other punctuation does. */
    plait_tpl_put(j->b, s->bytes, s->n_bytes, foreign | plait_tpl_str_any_foreign(s));
}

/* A tuple has the form of a list. */
static bool put_json_list(json_printer *j, const plait_tpl_list *list, uint8_t foreign) {
    foreign |= list->foreign;
    plait_tpl_put(j->b, "[", 1, foreign);
    j->level++;
    for (size_t i = 0; i < list->n_items; i++) {
        if (i) json_separator(j, j->style->item_separator, foreign);
        json_line(j, foreign);
        if (!put_json(j, list->items[i], foreign)) return false;
    }
    j->level--;
    if (list->n_items) json_line(j, foreign);
    plait_tpl_put(j->b, "]", 1, foreign);
    return true;
}

/* Numbers and None become strings, as json.dumps does. A string key is written as any string; others go through
 * put_json between quotes, which gives "null", "true" and numbers as json.dumps has them. Two keys may so become the
 * same text; json.dumps writes both, too. */
static bool put_json_key(json_printer *j, plait_tpl_value key, uint8_t foreign) {
    if (key.kind == PLAIT_TPL_STRING) {
        put_json_string(j, key.u.string);
        return true;
    }
    if (!plait_tpl_is_number(key) && key.kind != PLAIT_TPL_NONE)
        return plait_tpl_type_error(j->b->r, "tojson: a key must be str, int, float, bool or None, not %s",
                                    plait_tpl_type_name(key));
    plait_tpl_put(j->b, "\"", 1, foreign);
    if (!put_json(j, key, foreign)) return false;
    plait_tpl_put(j->b, "\"", 1, foreign);
    return true;
}

/* Numbers of the entries in order of their keys. Keys of mixed kinds have no order and fail, as json.dumps fails with
 * sort_keys. The numbers are sorted and not the entries: the dict keeps its order. */
static bool sorted_entries(plait_tpl_render *r, const plait_tpl_dict *d, plait_tpl_value *out) {
    plait_tpl_value keys;
    if (!plait_tpl_list_new(r, PLAIT_TPL_LIST, d->n_entries, out) ||
        !plait_tpl_list_new(r, PLAIT_TPL_LIST, d->n_entries, &keys))
        return false;
    for (size_t i = 0; i < d->n_entries; i++) {
        out->u.list->items[out->u.list->n_items++] = plait_tpl_int((int64_t)i);
        keys.u.list->items[i] = d->entries[i].key;
    }
    return plait_tpl_sort(r, out->u.list->items, keys.u.list->items, d->n_entries, false);
}

static bool put_json_dict(json_printer *j, const plait_tpl_dict *d, uint8_t foreign) {
    plait_tpl_value order = {.kind = PLAIT_TPL_MISSING};
    foreign |= d->foreign;
    if (j->style->sort_keys && !sorted_entries(j->b->r, d, &order)) return false;
    plait_tpl_put(j->b, "{", 1, foreign);
    j->level++;
    for (size_t i = 0; i < d->n_entries; i++) {
        const plait_tpl_entry *e =
            /* Without sort_keys in the order of the dict. */
            &d->entries[order.kind == PLAIT_TPL_LIST ? (size_t)order.u.list->items[i].u.integer : i];
        if (i) json_separator(j, j->style->item_separator, foreign);
        json_line(j, foreign);
        if (!put_json_key(j, e->key, foreign)) return false;
        json_separator(j, j->style->key_separator, foreign);
        if (!put_json(j, e->value, foreign)) return false;
    }
    j->level--;
    if (d->n_entries) json_line(j, foreign);
    plait_tpl_put(j->b, "}", 1, foreign);
    return true;
}

/* json.dumps writes NaN and Infinity, which JSON itself does not have. */
static void put_json_float(plait_tpl_builder *b, double f, uint8_t foreign) {
    if (isfinite(f))
        put_float(b, f, foreign);
    else
        plait_tpl_put_text(b, isnan(f) ? "NaN" : f > 0 ? "Infinity" : "-Infinity", foreign);
}

/* A failure leaves the level and the printer's indent as they were; nothing is printed after it. */
static bool put_json(json_printer *j, plait_tpl_value v, uint8_t foreign) {
    plait_tpl_render *r = j->b->r;
    bool ok = true;
    if (j->b->failed || !plait_tpl_step(r, 1) || !plait_tpl_enter(r)) return false;
    switch (v.kind) {
    case PLAIT_TPL_NONE: plait_tpl_put_text(j->b, "null", foreign); break;
    case PLAIT_TPL_BOOL: plait_tpl_put_text(j->b, v.u.boolean ? "true" : "false", foreign); break;
    case PLAIT_TPL_INT: put_int(j->b, v.u.integer, foreign); break;
    case PLAIT_TPL_FLOAT: put_json_float(j->b, v.u.real, foreign); break;
    case PLAIT_TPL_STRING: put_json_string(j, v.u.string); break;
    case PLAIT_TPL_LIST:
    case PLAIT_TPL_TUPLE: ok = put_json_list(j, v.u.list, foreign); break;
    case PLAIT_TPL_DICT: ok = put_json_dict(j, v.u.dict, foreign); break;
    default:
        return plait_tpl_type_error(r, "tojson: a value of type %s has no JSON form", plait_tpl_type_name(v));
    }
    plait_tpl_leave(r);
    return ok;
}

/* After a failure in the middle nothing is left: the builder is dropped. */
bool plait_tpl_to_json(plait_tpl_render *r, plait_tpl_value v, const plait_tpl_json_style *style,
                       plait_tpl_value *out) {
    plait_tpl_builder b;
    plait_tpl_builder_init(&b, r);
    json_printer j = {.b = &b, .style = style};
    return put_json(&j, v, 0) && plait_tpl_finish(&b, out);
}
