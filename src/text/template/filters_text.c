/* Filters that give text. Each takes str(value) first, as Jinja's do, unless it says otherwise. Not here: wordwrap and
 * urlize (filters_wrap.c), methods of strings (methods_*.c), JSON itself (print.c).
 *
 * Marks of origin pass through: what was cut, replaced or escaped keeps the mark of the byte it came from, and what a
 * filter adds is the template's. */
#include "base/strbuf.h"
#include "text/template/builtin.h"
#include "text/template/iterate.h"
#include "text/template/print.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static bool given(const plait_tpl_call *c, int i) {
    return c->v[i].kind != PLAIT_TPL_MISSING;
}

/* `what` is for the error. */
static bool int_or(plait_tpl_render *r, const plait_tpl_call *c, int i, const char *what, int64_t otherwise,
                   int64_t *out) {
    *out = otherwise;
    return !given(c, i) || plait_tpl_as_int(r, c->v[i], what, out);
}

/* Full case mapping: one character may become several. */
static bool filter_upper(plait_tpl_render *r, const plait_tpl_call *c, plait_tpl_value *out) {
    const plait_tpl_str *s;
    return plait_tpl_to_str(r, c->self, &s) && plait_tpl_str_case(r, s, PLAIT_TPL_UPPER, out);
}

static bool filter_lower(plait_tpl_render *r, const plait_tpl_call *c, plait_tpl_value *out) {
    const plait_tpl_str *s;
    return plait_tpl_to_str(r, c->self, &s) && plait_tpl_str_case(r, s, PLAIT_TPL_LOWER, out);
}

/* By the method of that name. */
static bool filter_capitalize(plait_tpl_render *r, const plait_tpl_call *c, plait_tpl_value *out) {
    plait_tpl_args none = {0};
    const plait_tpl_str *s;
    plait_tpl_str name = {.bytes = "capitalize", .n_bytes = 10};
    return plait_tpl_to_str(r, c->self, &s) &&
           plait_tpl_apply(r, plait_tpl_find_method(PLAIT_TPL_STRING, &name), plait_tpl_string(s), &none,
                           out);
}

/* Words begin behind - ( { [ < and white space; unlike str.title, and with full upper case. A word is what stands
 * between these characters, so an apostrophe inside of one does not begin another, as it does for str.title. */
static bool filter_title(plait_tpl_render *r, const plait_tpl_call *c, plait_tpl_value *out) {
    const plait_tpl_str *s, *whole;
    plait_tpl_builder b;
    bool first = true;
    if (!plait_tpl_to_str(r, c->self, &s)) return false;
    plait_tpl_builder_init(&b, r);
    for (size_t at = 0; at < s->n_bytes && !b.failed;) {
        size_t next = at;
        uint32_t code = plait_tpl_str_next(s, &next);
        bool splits = plait_tpl_is_space(code) || code == '-' || code == '(' || code == '{' || code == '[' ||
                      code == '<';
        at = plait_tpl_put_case(&b, s, at, first && !splits ? PLAIT_TPL_UPPER : PLAIT_TPL_LOWER);
        first = splits;
    }
    return plait_tpl_step(r, s->n_bytes >> 6) && plait_tpl_finish_str(&b, &whole) &&
           plait_tpl_str_with_markup(r, whole, s->markup, out);
}

/* `chars` is a set, as for str.strip. */
static bool filter_trim(plait_tpl_render *r, const plait_tpl_call *c, plait_tpl_value *out) {
    const plait_tpl_str *s, *chars = NULL;
    if (!plait_tpl_to_str(r, c->self, &s)) return false;
    if (given(c, 0) && c->v[0].kind != PLAIT_TPL_NONE && !plait_tpl_as_str(r, c->v[0], "trim", &chars))
        return false;
    return plait_tpl_str_strip(r, s, chars, true, true, out);
}

/* Arguments become text first, unlike those of the method of that name. */
static bool filter_replace(plait_tpl_render *r, const plait_tpl_call *c, plait_tpl_value *out) {
    const plait_tpl_str *s, *old, *with;
    int64_t count = -1;
    if (!plait_tpl_to_str(r, c->self, &s) || !plait_tpl_to_str(r, c->v[0], &old) ||
        !plait_tpl_to_str(r, c->v[1], &with))
        return false;
    /* Without a count all are replaced, which is what -1 means to str_replace. */
    if (given(c, 2) && c->v[2].kind != PLAIT_TPL_NONE && !plait_tpl_as_int(r, c->v[2], "replace", &count))
        return false;
    return plait_tpl_str_replace(r, s, old, with, count, out);
}

/* Markup stays markup. */
static bool filter_string(plait_tpl_render *r, const plait_tpl_call *c, plait_tpl_value *out) {
    const plait_tpl_str *s;
    if (!plait_tpl_to_str(r, c->self, &s)) return false;
    *out = plait_tpl_string(s);
    return true;
}

/* Marks the text as markup. Nothing is escaped by itself here, so it only matters for escape and for what is done with
 * markup. */
static bool filter_safe(plait_tpl_render *r, const plait_tpl_call *c, plait_tpl_value *out) {
    const plait_tpl_str *s;
    return plait_tpl_to_str(r, c->self, &s) && plait_tpl_str_with_markup(r, s, true, out);
}

/* `safe` text is escaped once only. */
static bool filter_escape(plait_tpl_render *r, const plait_tpl_call *c, plait_tpl_value *out) {
    const plait_tpl_str *s;
    return plait_tpl_to_str(r, c->self, &s) && plait_tpl_str_escape(r, s, out);
}

/* Escapes markup too. */
static bool filter_forceescape(plait_tpl_render *r, const plait_tpl_call *c, plait_tpl_value *out) {
    const plait_tpl_str *s;
    plait_tpl_value plain;
    return plait_tpl_to_str(r, c->self, &s) && plait_tpl_str_with_markup(r, s, false, &plain) &&
           plait_tpl_str_escape(r, plain.u.string, out);
}

/* 80 is Jinja's default width. */
static bool filter_center(plait_tpl_render *r, const plait_tpl_call *c, plait_tpl_value *out) {
    const plait_tpl_str *s;
    int64_t width;
    return plait_tpl_to_str(r, c->self, &s) && int_or(r, c, 0, "center", 80, &width) &&
           plait_tpl_center(r, s, width, ' ', '^', out);
}

/* Every line but the first gets `width` spaces (or the string itself) in front; empty lines only when asked. `width`
 * may be the text to put in front instead of a number of spaces. Line ends are those of str.splitlines, so text with
 * \r\n comes out with \n. */
static bool filter_indent(plait_tpl_render *r, const plait_tpl_call *c, plait_tpl_value *out) {
    const plait_tpl_str *s, *by = NULL, *whole;
    int64_t width = 4;
    plait_tpl_builder b, spaces;
    plait_tpl_builder_init(&b, r);
    if (!plait_tpl_as_str(r, c->self, "indent", &s)) return false;
    if (given(c, 0) && c->v[0].kind == PLAIT_TPL_STRING)
        by = c->v[0].u.string;
    else if (!int_or(r, c, 0, "indent", 4, &width))
        return false;
    /* `first` indents the first line too, `blank` empty lines. */
    bool first = given(c, 1) && plait_tpl_truth(c->v[1]), blank = given(c, 2) && plait_tpl_truth(c->v[2]);
    plait_tpl_builder_init(&spaces, r);
    /* No spaces for a width below 0. */
    if (!by) plait_tpl_put_repeat(&spaces, ' ', width, 0);
    if (!by && !plait_tpl_finish_str(&spaces, &by)) return false;
    if (first) plait_tpl_put_str(&b, by);
    size_t at = 0, next = 0;
    do {
        size_t end = plait_tpl_str_line_end(s, at, &next);
        /* Every kind of line end becomes \n, with the mark of its last byte. */
        if (at > 0) plait_tpl_put(&b, "\n", 1, plait_tpl_str_mark(s, at - 1));
        if (at > 0 && (blank || end > at)) plait_tpl_put_str(&b, by);
        plait_tpl_put_slice(&b, s, at, end);
        if (!plait_tpl_step(r, 1)) return false;
        /* The last line has no line end. */
        if (end == s->n_bytes) break;
        if (next == s->n_bytes) { /* the text ends with a line end: one more, empty line */
            plait_tpl_put(&b, "\n", 1, plait_tpl_str_mark(s, s->n_bytes - 1));
            if (blank) plait_tpl_put_str(&b, by);
            break;
        }
        at = next;
    } while (!b.failed);
    return plait_tpl_finish_str(&b, &whole) && plait_tpl_str_with_markup(r, whole, s->markup, out);
}

/* Within `leeway` characters of the length nothing is cut. Without killwords the cut goes back to the last space before
 * it. Lengths are in characters. The result is a new string even where only the end was added; uncut input is given
 * back as the same value, of whatever kind. */
static bool filter_truncate(plait_tpl_render *r, const plait_tpl_call *c, plait_tpl_value *out) {
    const plait_tpl_str *s, *end;
    int64_t length, leeway, n;
    plait_tpl_value dots = c->v[2], part;
    /* The length is asked before anything else, so whatever has none fails, and what is short enough stays what it
     * is. */
    if (!plait_tpl_length(r, c->self, &n) || !int_or(r, c, 0, "truncate", 255, &length)) return false;
    bool kill = given(c, 1) && plait_tpl_truth(c->v[1]);
    if (!given(c, 2) && !plait_tpl_str_text(r, "...", &dots)) return false;
    if (!plait_tpl_as_str(r, dots, "truncate", &end)) return false;
    /* Jinja's policy truncate.leeway. */
    leeway = 5;
    if (given(c, 3) && c->v[3].kind != PLAIT_TPL_NONE && !plait_tpl_as_int(r, c->v[3], "truncate", &leeway))
        return false;
    /* Both are assertions in Jinja. */
    if (length < (int64_t)end->n_chars || leeway < 0)
        return plait_tpl_type_error(r, "truncate: the length must be at least that of the end");
    if (n <= length || n - length <= leeway) return *out = c->self, true;
    if (!plait_tpl_as_str(r, c->self, "truncate", &s)) return false;
    /* The end counts for the length. */
    size_t cut = plait_tpl_str_byte_of(s, (size_t)(length - (int64_t)end->n_chars));
    /* A space and no other white space, as Jinja's rsplit(" "). */
    plait_tpl_str space = {.bytes = " ", .n_bytes = 1, .n_chars = 1};
    size_t at = kill ? SIZE_MAX : plait_tpl_str_rfind(s, &space, 0, cut);
    return plait_tpl_str_sub(r, s, 0, at == SIZE_MAX ? cut : at, &part) &&
           plait_tpl_str_concat(r, part.u.string, end, out);
}

/* Runs of word characters, as the pattern \w+ finds them. */
static bool filter_wordcount(plait_tpl_render *r, const plait_tpl_call *c, plait_tpl_value *out) {
    const plait_tpl_str *s;
    int64_t n = 0;
    bool inside = false;
    if (!plait_tpl_to_str(r, c->self, &s) || !plait_tpl_step(r, s->n_bytes >> 6)) return false;
    for (size_t at = 0; at < s->n_bytes;) {
        /* A word is counted where it begins. */
        bool word = plait_tpl_is_word(plait_tpl_str_next(s, &at));
        n += word && !inside;
        inside = word;
    }
    *out = plait_tpl_int(n);
    return true;
}

/* printf style: the text is the format. Names become a mapping. */
static bool filter_format(plait_tpl_render *r, const plait_tpl_call *c, plait_tpl_value *out) {
    const plait_tpl_str *s;
    plait_tpl_value args;
    if (!plait_tpl_to_str(r, c->self, &s)) return false;
    if (c->args->n_pos && c->args->n_named)
        return plait_tpl_type_error(r, "format: positional and named arguments at the same time");
    /* One kind of arguments only, so either a mapping or a tuple. */
    if (!(c->args->n_named ? plait_tpl_dict_new(r, &args)
                           : plait_tpl_list_new(r, PLAIT_TPL_TUPLE, c->args->n_pos, &args)))
        return false;
    for (size_t i = 0; i < c->args->n_named; i++)
        if (!plait_tpl_dict_set(r, args.u.dict, plait_tpl_string(c->args->names[i]), c->args->named[i]))
            return false;
    for (size_t i = 0; i < c->args->n_pos; i++)
        if (!plait_tpl_list_push(r, args.u.list, c->args->pos[i])) return false;
    return plait_tpl_format_percent(r, s, args, out);
}

/* Bytes other than letters, digits and _.-~/ as %XX. for_query: '/' too, and spaces as '+'. Bytes and not characters
 * are quoted, since URLs carry UTF-8; each byte of a character becomes an escape of its own. */
static void put_quoted(plait_tpl_builder *b, const plait_tpl_str *s, bool for_query) {
    for (size_t i = 0; i < s->n_bytes && !b->failed; i++) {
        unsigned char ch = (unsigned char)s->bytes[i];
        bool plain = (ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z') || (ch >= '0' && ch <= '9') ||
                     (ch && strchr("_.-~", ch)) || (ch == '/' && !for_query);
        char text[8];
        if (plain)
            snprintf(text, sizeof text, "%c", ch);
        else if (ch == ' ' && for_query)
            snprintf(text, sizeof text, "+");
        else
            snprintf(text, sizeof text, "%%%02X", ch);
        /* All three characters of an escape have the byte's origin. */
        plait_tpl_put_text(b, text, plait_tpl_str_mark(s, i));
    }
}

/* A mapping or pairs become a query string, everything else one quoted text. A text given alone keeps its slashes, as a
 * path has them; in a query they are escaped. */
static bool filter_urlencode(plait_tpl_render *r, const plait_tpl_call *c, plait_tpl_value *out) {
    const plait_tpl_str *s, *name;
    plait_tpl_builder b;
    plait_tpl_iter it;
    plait_tpl_value v = c->self, pair;
    int more, n = 0;
    plait_tpl_builder_init(&b, r);
    /* What Jinja finds to be iterable and no string. */
    bool many = v.kind == PLAIT_TPL_LIST || v.kind == PLAIT_TPL_TUPLE || v.kind == PLAIT_TPL_DICT ||
                v.kind == PLAIT_TPL_VIEW || v.kind == PLAIT_TPL_ITERATOR || v.kind == PLAIT_TPL_RANGE ||
                v.kind == PLAIT_TPL_UNDEFINED;
    if (!many) {
        if (!plait_tpl_to_str(r, v, &s)) return false;
        put_quoted(&b, s, false);
        return plait_tpl_finish(&b, out);
    }
    /* Mappings go by their items. */
    plait_tpl_view *view = plait_tpl_alloc(r, 1, sizeof *view);
    if (!view) return false;
    if (v.kind == PLAIT_TPL_DICT) {
        *view = (plait_tpl_view){.dict = v.u.dict, .part = PLAIT_TPL_ITEMS};
        v = (plait_tpl_value){.kind = PLAIT_TPL_VIEW, .u.view = view};
    }
    if (!plait_tpl_iterate(r, v, &it)) return false;
    while ((more = plait_tpl_next(r, &it, &pair)) > 0) {
        if ((pair.kind != PLAIT_TPL_TUPLE && pair.kind != PLAIT_TPL_LIST) || pair.u.list->n_items != 2)
            return plait_tpl_type_error(r, "urlencode: expected pairs");
        if (!plait_tpl_to_str(r, pair.u.list->items[0], &name) ||
            !plait_tpl_to_str(r, pair.u.list->items[1], &s))
            return false;
        if (n++) plait_tpl_put(&b, "&", 1, 0);
        put_quoted(&b, name, true);
        plait_tpl_put(&b, "=", 1, 0);
        put_quoted(&b, s, true);
    }
    return more == 0 && plait_tpl_finish(&b, out);
}

/* None and undefined values are left out. Names with characters that would end a name are refused, which closes
 * CVE-2024-22195 and CVE-2024-34064. Values are escaped as text, names are checked and escaped: a name from a message
 * could otherwise close the tag and open another. */
static bool filter_xmlattr(plait_tpl_render *r, const plait_tpl_call *c, plait_tpl_value *out) {
    plait_tpl_builder b;
    const plait_tpl_str *key, *text;
    plait_tpl_value v;
    if (c->self.kind == PLAIT_TPL_UNDEFINED) return plait_tpl_undefined_error(r, c->self);
    if (c->self.kind != PLAIT_TPL_DICT)
        return plait_tpl_type_error(r, "xmlattr: expected a dict, found %s", plait_tpl_type_name(c->self));
    bool autospace = !given(c, 0) || plait_tpl_truth(c->v[0]);
    plait_tpl_builder_init(&b, r);
    for (size_t i = 0, n = 0; i < c->self.u.dict->n_entries; i++) {
        const plait_tpl_entry *e = &c->self.u.dict->entries[i];
        if (e->value.kind == PLAIT_TPL_NONE || e->value.kind == PLAIT_TPL_UNDEFINED) continue;
        if (!plait_tpl_as_str(r, e->key, "xmlattr", &key)) return false;
        /* What would end the name in a tag, byte by byte: all of them are ASCII. */
        for (size_t k = 0; k < key->n_bytes; k++)
            if (key->bytes[k] && strchr(" \t\n\r\f\v/>=", key->bytes[k]))
                return plait_tpl_type_error(r, "xmlattr: invalid character in attribute name");
        /* autospace only decides about the first. */
        if (n++ || autospace) plait_tpl_put(&b, " ", 1, 0);
        if (!plait_tpl_str_escape(r, key, &v)) return false;
        plait_tpl_put_str(&b, v.u.string);
        plait_tpl_put(&b, "=\"", 2, 0);
        if (!plait_tpl_to_str(r, e->value, &text) || !plait_tpl_str_escape(r, text, &v)) return false;
        plait_tpl_put_str(&b, v.u.string);
        plait_tpl_put(&b, "\"", 1, 0);
    }
    return plait_tpl_finish(&b, out);
}

/* A character reference at byte `at` ("&lt;", "&#39;", "&#x27;"): its code and end, or 0. Only the entities that escaping
 * makes and the commonest others are known by name. */
static uint32_t entity_at(const plait_tpl_str *s, size_t at, size_t *end) {
    static const struct {
        const char *text;
        uint32_t code;
    } rows[] = {{"&lt;", '<'},   {"&gt;", '>'},    {"&amp;", '&'},
                {"&quot;", '"'}, {"&apos;", '\''}, {"&nbsp;", 0xA0}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        size_t n = strlen(rows[i].text);
        if (s->n_bytes - at >= n && memcmp(s->bytes + at, rows[i].text, n) == 0)
            return *end = at + n, rows[i].code;
    }
    size_t p = at + 2;
    /* Seven digits at most cannot overflow, and hold every character. */
    uint32_t code = 0, base = 10;
    if (p >= s->n_bytes || s->bytes[at + 1] != '#') return 0;
    if ((s->bytes[p] | 0x20) == 'x') base = 16, p++;
    size_t from = p;
    for (; p < s->n_bytes && p - from < 7; p++) {
        int ch = s->bytes[p], d = ch >= '0' && ch <= '9'                     ? ch - '0'
                                  : (ch | 0x20) >= 'a' && (ch | 0x20) <= 'f' ? (ch | 0x20) - 'a' + 10
                                                                             : 99;
        if (d >= (int)base) break;
        code = code * base + (uint32_t)d;
    }
    bool valid = p > from && p < s->n_bytes && s->bytes[p] == ';' && code && code <= 0x10FFFF &&
                 (code < 0xD800 || code > 0xDFFF);
    *end = p + 1;
    return valid ? code : 0;
}

/* Text without comments and tags; white space collapsed; references resolved. Comments go before tags, since a comment
 * may hold a tag's end. Nothing else of HTML is understood. Two passes for comments and tags, one to collapse and one
 * to resolve references: done last, so "&lt;b&gt;" becomes the text <b> and no tag. */
static bool filter_striptags(plait_tpl_render *r, const plait_tpl_call *c, plait_tpl_value *out) {
    const plait_tpl_str *s, *bare;
    plait_tpl_builder b, collapsed;
    static const struct { const char *from, *to; } cuts[] = {{"<!--", "-->"}, {"<", ">"}};
    if (!plait_tpl_to_str(r, c->self, &s)) return false;
    /* Two passes over the text; an opening without an end stays. */
    for (size_t k = 0; k < 2; k++) {
        plait_tpl_str from = {.bytes = cuts[k].from, .n_bytes = strlen(cuts[k].from)},
                      to = {.bytes = cuts[k].to, .n_bytes = strlen(cuts[k].to)};
        size_t at = 0;
        plait_tpl_builder_init(&b, r);
        while (at < s->n_bytes) {
            size_t start = plait_tpl_str_find(s, &from, at, s->n_bytes);
            size_t end = start == SIZE_MAX ? SIZE_MAX : plait_tpl_str_find(s, &to, start, s->n_bytes);
            if (end == SIZE_MAX) break;
            plait_tpl_put_slice(&b, s, at, start);
            at = end + to.n_bytes;
            if (!plait_tpl_step(r, 1)) return false;
        }
        plait_tpl_put_slice(&b, s, at, s->n_bytes);
        if (!plait_tpl_finish_str(&b, &s)) return false;
    }
    plait_tpl_builder_init(&collapsed, r);
    /* A run of white space becomes one space, with the mark of its last byte; none is left at either end, since a space
     * is put only in front of a character that follows another. */
    bool pending = false;
    for (size_t at = 0, next = 0; at < s->n_bytes && !collapsed.failed; at = next) {
        if (plait_tpl_is_space(plait_tpl_str_next(s, &next))) {
            pending = collapsed.chunk.used > 0;
            continue;
        }
        if (pending) plait_tpl_put(&collapsed, " ", 1, plait_tpl_str_mark(s, at - 1));
        pending = false;
        plait_tpl_put_slice(&collapsed, s, at, next);
    }
    if (!plait_tpl_finish_str(&collapsed, &bare)) return false;
    plait_tpl_builder_init(&b, r);
    for (size_t at = 0; at < bare->n_bytes && !b.failed;) {
        size_t end = at;
        uint32_t code = bare->bytes[at] == '&' ? entity_at(bare, at, &end) : 0;
        /* A resolved reference keeps the mark of its first byte: text that a variable hid in one is still foreign. */
        if (code) {
            plait_tpl_put_code(&b, code, plait_tpl_str_mark(bare, at));
        } else {
            end = at;
            plait_tpl_str_next(bare, &end);
            plait_tpl_put_slice(&b, bare, at, end);
        }
        at = end;
    }
    return plait_tpl_step(r, s->n_bytes >> 5) && plait_tpl_finish(&b, out);
}

/* Decimal units unless `binary`; a text is read as float() would. The first unit above the size is looked for, up to
 * the eighth; larger sizes stay in it, with as many digits as it takes. */
static bool filter_filesizeformat(plait_tpl_render *r, const plait_tpl_call *c, plait_tpl_value *out) {
    static const char *const names[2][8] = {{"kB", "MB", "GB", "TB", "PB", "EB", "ZB", "YB"},
                                            {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB", "ZiB", "YiB"}};
    bool binary = given(c, 0) && plait_tpl_truth(c->v[0]);
    double base = binary ? 1024 : 1000, unit = base;
    char text[400];
    plait_tpl_args none = {0};
    plait_tpl_value number;
    plait_tpl_str to_float = {.bytes = "float", .n_bytes = 5};
    if (c->self.kind == PLAIT_TPL_UNDEFINED) return plait_tpl_undefined_error(r, c->self);
    if (c->self.kind != PLAIT_TPL_STRING && !plait_tpl_is_number(c->self))
        return plait_tpl_type_error(r, "filesizeformat: expected a number");
    /* None as the default of the float filter tells what is no number. */
    plait_tpl_value missing = plait_tpl_none();
    none = (plait_tpl_args){.pos = &missing, .n_pos = 1};
    if (!plait_tpl_apply(r, plait_tpl_find_filter(&to_float), c->self, &none, &number)) return false;
    if (number.kind == PLAIT_TPL_NONE) return plait_tpl_type_error(r, "filesizeformat: expected a number");
    double bytes = plait_tpl_as_double(number);
    if (bytes == 1) return plait_tpl_str_text(r, "1 Byte", out);
    /* Also negative sizes, as in Jinja. */
    if (bytes < base) {
        plait_format(text, sizeof text, "%.0f Bytes", trunc(bytes));
        return plait_tpl_str_text(r, text, out);
    }
    int i = 0;
    /* `unit` is the next one up, hence base * bytes / unit. */
    for (unit = base * base; i < 7 && bytes >= unit; i++) unit *= base;
    plait_format(text, sizeof text, "%.1f %s", base * bytes / unit, names[binary][i]);
    return plait_tpl_str_text(r, text, out);
}

static bool filter_pprint(plait_tpl_render *r, const plait_tpl_call *c, plait_tpl_value *out) {
    return plait_tpl_pformat(r, c->self, out);
}

/* Separators have to be strings. */
static bool style_text(plait_tpl_render *r, plait_tpl_value v, const char *what, const plait_tpl_str **out) {
    return plait_tpl_as_str(r, v, what, out);
}

/* tojson(ensure_ascii, indent, separators, sort_keys) as Hugging Face sets it up. Unlike Jinja's own tojson it does not
 * escape <, > and & for HTML, and its result is no markup: models were trained on the plain form. */
static bool filter_tojson(plait_tpl_render *r, const plait_tpl_call *c, plait_tpl_value *out) {
    static const plait_tpl_str comma_space = {.bytes = ", ", .n_bytes = 2, .n_chars = 2},
                               comma = {.bytes = ",", .n_bytes = 1, .n_chars = 1},
                               colon = {.bytes = ": ", .n_bytes = 2, .n_chars = 2};
    /* ensure_ascii is off unless asked for, which transformers sets and Jinja itself does not. */
    plait_tpl_json_style style = {.ascii = given(c, 0) && plait_tpl_truth(c->v[0]),
                                  .sort_keys = given(c, 3) && plait_tpl_truth(c->v[3])};
    /* json.dumps takes the text of an indent as well as its width. */
    if (given(c, 1) && c->v[1].kind == PLAIT_TPL_STRING) {
        style.indent = c->v[1].u.string;
    } else if (given(c, 1) && c->v[1].kind != PLAIT_TPL_NONE) {
        int64_t width;
        plait_tpl_builder spaces;
        plait_tpl_builder_init(&spaces, r);
        /* 0 gives lines without an indent, as json.dumps has it. */
        if (!plait_tpl_as_int(r, c->v[1], "tojson: indent", &width)) return false;
        plait_tpl_put_repeat(&spaces, ' ', width, 0);
        if (!plait_tpl_finish_str(&spaces, &style.indent)) return false;
    }
    /* json.dumps leaves out the space where a line ends anyway. */
    style.item_separator = style.indent ? &comma : &comma_space;
    style.key_separator = &colon;
    if (given(c, 2) && c->v[2].kind != PLAIT_TPL_NONE) {
        plait_tpl_value s;
        if (!plait_tpl_list_from(r, c->v[2], &s)) return false;
        if (s.u.list->n_items != 2) return plait_tpl_type_error(r, "tojson: separators must be a pair");
        if (!style_text(r, s.u.list->items[0], "tojson: separator", &style.item_separator) ||
            !style_text(r, s.u.list->items[1], "tojson: separator", &style.key_separator))
            return false;
    }
    return plait_tpl_to_json(r, c->self, &style, out);
}

const plait_tpl_builtin plait_tpl_filters_text[] = {
    {"upper", "", filter_upper},
    {"lower", "", filter_lower},
    {"capitalize", "", filter_capitalize},
    {"title", "", filter_title},
    {"trim", "?chars", filter_trim},
    {"replace", "old new ?count", filter_replace},
    {"string", "", filter_string},
    {"safe", "", filter_safe},
    {"escape", "", filter_escape},
    {"e", "", filter_escape},
    {"forceescape", "", filter_forceescape},
    {"center", "?width", filter_center},
    {"indent", "?width ?first ?blank", filter_indent},
    {"truncate", "?length ?killwords ?end ?leeway", filter_truncate},
    {"wordcount", "", filter_wordcount},
    {"format", "*", filter_format},
    {"urlencode", "", filter_urlencode},
    {"xmlattr", "?autospace", filter_xmlattr},
    {"striptags", "", filter_striptags},
    {"filesizeformat", "?binary", filter_filesizeformat},
    {"pprint", "", filter_pprint},
    {"tojson", "?ensure_ascii ?indent ?separators ?sort_keys", filter_tojson},
    {0},
};
