/* Methods of strings that cut, join, search and pad. Not here: letter case (methods_case.c), the algorithms on bytes
 * (string.c), the formats themselves (braces.c).
 *
 * Positions are characters in templates and bytes in here. Results keep the marks of origin of the parts they were cut
 * from, and are markup when the string was. */
#include "text/template/builtin.h"
#include "text/template/iterate.h"
#include "text/template/print.h"

#include <string.h>

/* None counts as not given, as Python has it for these parameters. */
static bool given(const plait_tpl_call *c, int i) {
    return c->v[i].kind != PLAIT_TPL_MISSING && c->v[i].kind != PLAIT_TPL_NONE;
}

static const plait_tpl_str *self(const plait_tpl_call *c) {
    return c->self.u.string;
}

/* *out holds a string; its flag becomes that of the method's string. Only the flag of the string's header changes;
 * bytes are shared. */
static bool keep_markup(plait_tpl_render *r, const plait_tpl_call *c, plait_tpl_value *out) {
    return plait_tpl_str_with_markup(r, out->u.string, self(c)->markup, out);
}

/* A string argument, escaped when the method belongs to markup. */
static bool text_argument(plait_tpl_render *r, const plait_tpl_call *c, int i, const char *what,
                          const plait_tpl_str **out) {
    plait_tpl_value v;
    if (!plait_tpl_as_str(r, c->v[i], what, out)) return false;
    /* markupsafe escapes arguments of most methods, so that what is put into markup stays text. */
    if (!self(c)->markup) return true;
    if (!plait_tpl_str_escape(r, *out, &v)) return false;
    *out = v.u.string;
    return true;
}

/* --- strip --- */

/* `chars` is a set of characters; without it white space goes. */
static bool strip(plait_tpl_render *r, const plait_tpl_call *c, bool left, bool right, plait_tpl_value *out) {
    const plait_tpl_str *chars = NULL;
    if (given(c, 0) && !plait_tpl_as_str(r, c->v[0], "strip", &chars)) return false;
    return plait_tpl_str_strip(r, self(c), chars, left, right, out);
}

static bool method_strip(plait_tpl_render *r, const plait_tpl_call *c, plait_tpl_value *out) {
    return strip(r, c, true, true, out);
}

static bool method_lstrip(plait_tpl_render *r, const plait_tpl_call *c, plait_tpl_value *out) {
    return strip(r, c, true, false, out);
}

static bool method_rstrip(plait_tpl_render *r, const plait_tpl_call *c, plait_tpl_value *out) {
    return strip(r, c, false, true, out);
}

/* --- split --- */

/* Parts share the bytes of the string where they can; each costs a step. */
static bool push_part(plait_tpl_render *r, const plait_tpl_str *s, size_t from, size_t to,
                      plait_tpl_list *list) {
    plait_tpl_value part;
    return plait_tpl_step(r, 1) && plait_tpl_str_sub(r, s, from, to, &part) &&
           plait_tpl_list_push(r, list, part);
}

/* Next white space at or behind `at` (space true), or next non-space. Forwards; the end of the string when there is
 * none. `at` must be the border of a character, and so is the result. */
static size_t find_space(const plait_tpl_str *s, size_t at, bool space) {
    while (at < s->n_bytes) {
        size_t next = at;
        if (plait_tpl_is_space(plait_tpl_str_next(s, &next)) == space) break;
        at = next;
    }
    return at;
}

/* The same backwards: a position behind the character found, 0 when there is none. */
static size_t rfind_space(const plait_tpl_str *s, size_t at, bool space) {
    while (at > 0) {
        size_t previous = at;
        if (plait_tpl_is_space(plait_tpl_str_prev(s, &previous)) == space) break;
        at = previous;
    }
    return at;
}

/* Runs of white space separate, and none are at the ends, so there are no empty parts. max < 0: no bound. max counts
 * cuts, so at most max + 1 parts come out. */
static bool split_space(plait_tpl_render *r, const plait_tpl_str *s, int64_t max, plait_tpl_list *list) {
    size_t at = find_space(s, 0, false);
    for (; at < s->n_bytes && max != 0; max--) {
        size_t end = find_space(s, at, true);
        if (!push_part(r, s, at, end, list)) return false;
        at = find_space(s, end, false);
    }
    return at >= s->n_bytes || push_part(r, s, at, s->n_bytes, list); /* the rest keeps its white space */
}

/* In place; parts were found from the end. */
static void reverse(plait_tpl_list *list) {
    for (size_t i = 0; i < list->n_items / 2; i++) {
        plait_tpl_value t = list->items[i];
        list->items[i] = list->items[list->n_items - 1 - i];
        list->items[list->n_items - 1 - i] = t;
    }
}

/* Parts are found from the end, and put in order at last. */
static bool rsplit_space(plait_tpl_render *r, const plait_tpl_str *s, int64_t max, plait_tpl_list *list) {
    size_t end = rfind_space(s, s->n_bytes, false);
    for (; end > 0 && max != 0; max--) {
        size_t from = rfind_space(s, end, true);
        if (!push_part(r, s, from, end, list)) return false;
        end = rfind_space(s, from, false);
    }
    if (end > 0 && !push_part(r, s, 0, end, list)) return false;
    reverse(list);
    return true;
}

/* Empty parts count. `by` is not empty. */
static bool split_at(plait_tpl_render *r, const plait_tpl_str *s, const plait_tpl_str *by, int64_t max,
                     plait_tpl_list *list) {
    size_t at = 0;
    for (; max != 0; max--) {
        size_t end = plait_tpl_str_find(s, by, at, s->n_bytes);
        if (end == SIZE_MAX) break;
        if (!push_part(r, s, at, end, list)) return false;
        at = end + by->n_bytes;
    }
    return push_part(r, s, at, s->n_bytes, list);
}

static bool rsplit_at(plait_tpl_render *r, const plait_tpl_str *s, const plait_tpl_str *by, int64_t max,
                      plait_tpl_list *list) {
    size_t end = s->n_bytes;
    for (; max != 0; max--) {
        size_t at = plait_tpl_str_rfind(s, by, 0, end);
        if (at == SIZE_MAX) break;
        if (!push_part(r, s, at + by->n_bytes, end, list)) return false;
        end = at;
    }
    if (!push_part(r, s, 0, end, list)) return false;
    reverse(list);
    return true;
}

/* The scan is charged here, the parts by push_part. Without a separator, or with None, runs of white space separate and
 * none is kept; with one every occurrence counts, empty parts included. The two rules are Python's, and " ".split(" ")
 * shows the difference. */
static bool split(plait_tpl_render *r, const plait_tpl_call *c, bool from_right, plait_tpl_value *out) {
    const plait_tpl_str *by = NULL;
    int64_t max = -1;
    if (given(c, 0) && !plait_tpl_as_str(r, c->v[0], "split", &by)) return false;
    /* -1, as any negative number, is no bound. */
    if (c->v[1].kind != PLAIT_TPL_MISSING && !plait_tpl_as_int(r, c->v[1], "split", &max)) return false;
    if (by && by->n_bytes == 0) return plait_tpl_type_error(r, "split: empty separator");
    if (!plait_tpl_step(r, self(c)->n_bytes >> 6) || !plait_tpl_list_new(r, PLAIT_TPL_LIST, 0, out))
        return false;
    if (by) return (from_right ? rsplit_at : split_at)(r, self(c), by, max, out->u.list);
    return (from_right ? rsplit_space : split_space)(r, self(c), max, out->u.list);
}

static bool method_split(plait_tpl_render *r, const plait_tpl_call *c, plait_tpl_value *out) {
    return split(r, c, false, out);
}

static bool method_rsplit(plait_tpl_render *r, const plait_tpl_call *c, plait_tpl_value *out) {
    return split(r, c, true, out);
}

/* At every line end that Python knows, not only at \n. The text behind the last line end is a line only if it is not
 * empty. */
static bool method_splitlines(plait_tpl_render *r, const plait_tpl_call *c, plait_tpl_value *out) {
    const plait_tpl_str *s = self(c);
    bool keep = c->v[0].kind != PLAIT_TPL_MISSING && plait_tpl_truth(c->v[0]);
    if (!plait_tpl_step(r, s->n_bytes >> 6) || !plait_tpl_list_new(r, PLAIT_TPL_LIST, 0, out)) return false;
    for (size_t at = 0, next = 0; at < s->n_bytes; at = next) {
        size_t end = plait_tpl_str_line_end(s, at, &next);
        if (!push_part(r, s, at, keep ? next : end, out->u.list)) return false;
    }
    return true;
}

/* A separator that is not there: all in front for partition, all at the end for rpartition. */
static bool partition(plait_tpl_render *r, const plait_tpl_call *c, bool from_right, plait_tpl_value *out) {
    const plait_tpl_str *s = self(c), *by;
    if (!plait_tpl_as_str(r, c->v[0], "partition", &by)) return false;
    /* Python's ValueError. */
    if (by->n_bytes == 0) return plait_tpl_type_error(r, "partition: empty separator");
    size_t at =
        from_right ? plait_tpl_str_rfind(s, by, 0, s->n_bytes) : plait_tpl_str_find(s, by, 0, s->n_bytes);
    size_t end = at == SIZE_MAX ? 0 : at + by->n_bytes;
    /* The middle is empty then. */
    if (at == SIZE_MAX) at = from_right ? 0 : s->n_bytes, end = at;
    plait_tpl_value middle;
    if (!plait_tpl_step(r, s->n_bytes >> 6) || !plait_tpl_list_new(r, PLAIT_TPL_TUPLE, 3, out) ||
        !push_part(r, s, 0, at, out->u.list))
        return false;
    return plait_tpl_str_sub(r, s, at, end, &middle) && plait_tpl_list_push(r, out->u.list, middle) &&
           push_part(r, s, end, s->n_bytes, out->u.list);
}

static bool method_partition(plait_tpl_render *r, const plait_tpl_call *c, plait_tpl_value *out) {
    return partition(r, c, false, out);
}

static bool method_rpartition(plait_tpl_render *r, const plait_tpl_call *c, plait_tpl_value *out) {
    return partition(r, c, true, out);
}

/* Items have to be strings, unlike for the filter of that name. Markup escapes those that are not markup. */
static bool method_join(plait_tpl_render *r, const plait_tpl_call *c, plait_tpl_value *out) {
    plait_tpl_builder b;
    plait_tpl_iter it;
    plait_tpl_value v;
    const plait_tpl_str *part;
    int more;
    size_t n = 0;
    plait_tpl_builder_init(&b, r);
    if (!plait_tpl_iterate(r, c->v[0], &it)) return false;
    while ((more = plait_tpl_next(r, &it, &v)) > 0) {
        if (!plait_tpl_as_str(r, v, "join: item", &part)) return false;
        /* In front of all but the first, so one item stands alone. */
        if (n++) plait_tpl_put_str(&b, self(c));
        if (self(c)->markup) {
            if (!plait_tpl_str_escape(r, part, &v)) return false;
            part = v.u.string;
        }
        plait_tpl_put_str(&b, part);
    }
    return more == 0 && plait_tpl_finish(&b, out) && keep_markup(r, c, out);
}

/* --- searching --- */

/* Optional start and end arguments, as byte positions. *void_range: they cross, nothing is found. Positions are those
 * of Python's slices: negative ones count from the end, and too large ones are the end. */
static bool window(plait_tpl_render *r, const plait_tpl_call *c, size_t *from, size_t *to, bool *void_range) {
    int64_t n = (int64_t)self(c)->n_chars, start = 0, stop = n;
    if (given(c, 1) && !plait_tpl_as_int(r, c->v[1], "start", &start)) return false;
    if (given(c, 2) && !plait_tpl_as_int(r, c->v[2], "end", &stop)) return false;
    /* Asked before clamping: a start behind the end finds nothing, not even the empty string. */
    *void_range = start > n;
    plait_tpl_clamp(n, &start, &stop);
    *void_range = *void_range || start > stop;
    /* Both walks are paid for by the step below. */
    *from = plait_tpl_str_byte_of(self(c), (size_t)start);
    *to = plait_tpl_str_byte_of(self(c), (size_t)stop);
    return plait_tpl_step(r, self(c)->n_bytes >> 6);
}

/* Byte positions go back to characters at the very end; `must` makes "not found" an error. */
static bool find(plait_tpl_render *r, const plait_tpl_call *c, bool from_right, bool must,
                 plait_tpl_value *out) {
    const plait_tpl_str *part, *s = self(c);
    size_t from, to, at = SIZE_MAX;
    bool crossed;
    if (!plait_tpl_as_str(r, c->v[0], "find", &part) || !window(r, c, &from, &to, &crossed)) return false;
    if (!crossed)
        at = from_right ? plait_tpl_str_rfind(s, part, from, to) : plait_tpl_str_find(s, part, from, to);
    /* The two words differ in Python only in this. */
    if (at == SIZE_MAX && must) return plait_tpl_type_error(r, "substring not found");
    *out = plait_tpl_int(at == SIZE_MAX ? -1 : (int64_t)plait_tpl_str_char_of(s, at));
    return true;
}

static bool method_find(plait_tpl_render *r, const plait_tpl_call *c, plait_tpl_value *out) {
    return find(r, c, false, false, out);
}

static bool method_rfind(plait_tpl_render *r, const plait_tpl_call *c, plait_tpl_value *out) {
    return find(r, c, true, false, out);
}

static bool method_index(plait_tpl_render *r, const plait_tpl_call *c, plait_tpl_value *out) {
    return find(r, c, false, true, out);
}

static bool method_rindex(plait_tpl_render *r, const plait_tpl_call *c, plait_tpl_value *out) {
    return find(r, c, true, true, out);
}

/* Without overlaps. The empty string is found between all characters and at both ends. Each match costs a search from
 * where the last one ended, so the whole is linear in the text. */
static bool method_count(plait_tpl_render *r, const plait_tpl_call *c, plait_tpl_value *out) {
    const plait_tpl_str *part, *s = self(c);
    size_t from, to;
    int64_t n = 0;
    bool crossed;
    if (!plait_tpl_as_str(r, c->v[0], "count", &part) || !window(r, c, &from, &to, &crossed)) return false;
    /* The loop below would not move on. */
    if (part->n_bytes == 0 && !crossed)
        n = (int64_t)(plait_tpl_str_char_of(s, to) - plait_tpl_str_char_of(s, from)) + 1;
    for (size_t at = from; part->n_bytes && !crossed; n++) {
        at = plait_tpl_str_find(s, part, at, to);
        if (at == SIZE_MAX) break;
        at += part->n_bytes;
    }
    *out = plait_tpl_int(n);
    return true;
}

/* Whether bytes [from, to) begin or end with `part`; valid UTF-8 on both sides makes bytes enough. */
static bool edge_is(const plait_tpl_str *s, const plait_tpl_str *part, size_t from, size_t to, bool at_end) {
    /* from <= to, since the window does not cross. */
    if (part->n_bytes > to - from) return false;
    return memcmp(s->bytes + (at_end ? to - part->n_bytes : from), part->bytes, part->n_bytes) == 0;
}

/* A tuple asks for any of its strings. */
static bool edge(plait_tpl_render *r, const plait_tpl_call *c, bool at_end, plait_tpl_value *out) {
    const plait_tpl_str *part;
    size_t from, to;
    bool crossed, found = false;
    if (!window(r, c, &from, &to, &crossed)) return false;
    if (c->v[0].kind == PLAIT_TPL_TUPLE) {
        /* All up to the first that fits have to be strings; those behind it are not looked at. */
        const plait_tpl_list *many = c->v[0].u.list;
        for (size_t i = 0; i < many->n_items && !found; i++) {
            if (!plait_tpl_as_str(r, many->items[i], "startswith", &part)) return false;
            found = !crossed && edge_is(self(c), part, from, to, at_end);
        }
    } else {
        if (!plait_tpl_as_str(r, c->v[0], at_end ? "endswith" : "startswith", &part)) return false;
        found = !crossed && edge_is(self(c), part, from, to, at_end);
    }
    *out = plait_tpl_bool(found);
    return true;
}

static bool method_startswith(plait_tpl_render *r, const plait_tpl_call *c, plait_tpl_value *out) {
    return edge(r, c, false, out);
}

static bool method_endswith(plait_tpl_render *r, const plait_tpl_call *c, plait_tpl_value *out) {
    return edge(r, c, true, out);
}

static bool method_removeprefix(plait_tpl_render *r, const plait_tpl_call *c, plait_tpl_value *out) {
    const plait_tpl_str *s = self(c), *part;
    if (!plait_tpl_as_str(r, c->v[0], "removeprefix", &part)) return false;
    return plait_tpl_str_sub(r, s, edge_is(s, part, 0, s->n_bytes, false) ? part->n_bytes : 0, s->n_bytes,
                             out);
}

static bool method_removesuffix(plait_tpl_render *r, const plait_tpl_call *c, plait_tpl_value *out) {
    const plait_tpl_str *s = self(c), *part;
    if (!plait_tpl_as_str(r, c->v[0], "removesuffix", &part)) return false;
    return plait_tpl_str_sub(r, s, 0,
                             s->n_bytes - (edge_is(s, part, 0, s->n_bytes, true) ? part->n_bytes : 0), out);
}

/* Markup escapes what is looked for and what is put in. */
static bool method_replace(plait_tpl_render *r, const plait_tpl_call *c, plait_tpl_value *out) {
    const plait_tpl_str *old, *with;
    int64_t count = -1;
    if (!text_argument(r, c, 0, "replace", &old) || !text_argument(r, c, 1, "replace", &with)) return false;
    if (c->v[2].kind != PLAIT_TPL_MISSING && !plait_tpl_as_int(r, c->v[2], "replace", &count)) return false;
    return plait_tpl_str_replace(r, self(c), old, with, count, out) && keep_markup(r, c, out);
}

/* --- padding --- */

/* An odd space goes left when the width is odd, which is CPython's rule for str.center. Padding is the template's own
 * text. `align` is '<', '>' or '^'. A width below the length pads nothing; there is no cutting. */
bool plait_tpl_center(plait_tpl_render *r, const plait_tpl_str *s, int64_t width, uint32_t fill, char align,
                      plait_tpl_value *out) {
    plait_tpl_builder b;
    const plait_tpl_str *whole;
    int64_t used = (int64_t)s->n_chars, pad = width > used ? width - used : 0;
    /* What is not left of the text is right of it. */
    int64_t left = align == '>' ? pad : align == '^' ? pad / 2 + (pad & width & 1) : 0;
    plait_tpl_builder_init(&b, r);
    plait_tpl_put_repeat(&b, fill, left, 0);
    plait_tpl_put_str(&b, s);
    plait_tpl_put_repeat(&b, fill, pad - left, 0);
    return plait_tpl_finish_str(&b, &whole) && plait_tpl_str_with_markup(r, whole, s->markup, out);
}

/* The padding cannot be marked apart without marks for every byte, so a foreign fill character makes the whole text
 * foreign: too much marked is safe, too little is not. */
static bool pad(plait_tpl_render *r, const plait_tpl_call *c, char align, plait_tpl_value *out) {
    int64_t width;
    size_t at = 0;
    uint32_t fill = ' ';
    const plait_tpl_str *with, *whole;
    if (!plait_tpl_as_int(r, c->v[0], "width", &width)) return false;
    /* Spaces of the template's own. */
    if (c->v[1].kind == PLAIT_TPL_MISSING) return plait_tpl_center(r, self(c), width, fill, align, out);
    if (!plait_tpl_as_str(r, c->v[1], "fill character", &with)) return false;
    if (with->n_chars != 1)
        return plait_tpl_type_error(r, "the fill character must be exactly one character long");
    /* Any character, of any number of bytes. */
    fill = plait_tpl_str_next(with, &at);
    if (!plait_tpl_str_any_foreign(with)) return plait_tpl_center(r, self(c), width, fill, align, out);
    plait_tpl_value padded; /* a fill character from a variable: all that was padded counts as foreign */
    plait_tpl_builder b;
    if (!plait_tpl_center(r, self(c), width, fill, align, &padded)) return false;
    plait_tpl_builder_init(&b, r);
    plait_tpl_put(&b, padded.u.string->bytes, padded.u.string->n_bytes, 1);
    return plait_tpl_finish_str(&b, &whole) && plait_tpl_str_with_markup(r, whole, self(c)->markup, out);
}

static bool method_center(plait_tpl_render *r, const plait_tpl_call *c, plait_tpl_value *out) {
    return pad(r, c, '^', out);
}

static bool method_ljust(plait_tpl_render *r, const plait_tpl_call *c, plait_tpl_value *out) {
    return pad(r, c, '<', out);
}

static bool method_rjust(plait_tpl_render *r, const plait_tpl_call *c, plait_tpl_value *out) {
    return pad(r, c, '>', out);
}

/* Zeros go behind a sign. */
static bool method_zfill(plait_tpl_render *r, const plait_tpl_call *c, plait_tpl_value *out) {
    const plait_tpl_str *s = self(c);
    int64_t width;
    plait_tpl_builder b;
    if (!plait_tpl_as_int(r, c->v[0], "zfill", &width)) return false;
    /* Also in front of what is no number. */
    size_t sign = s->n_bytes && (s->bytes[0] == '-' || s->bytes[0] == '+');
    plait_tpl_builder_init(&b, r);
    plait_tpl_put_slice(&b, s, 0, sign);
    plait_tpl_put_repeat(&b, '0', width - (int64_t)s->n_chars, 0);
    plait_tpl_put_slice(&b, s, sign, s->n_bytes);
    return plait_tpl_finish(&b, out) && keep_markup(r, c, out);
}

/* Columns begin anew behind \n and \r. The spaces keep the origin of the tab. */
static bool method_expandtabs(plait_tpl_render *r, const plait_tpl_call *c, plait_tpl_value *out) {
    const plait_tpl_str *s = self(c);
    int64_t size = 8, column = 0;
    plait_tpl_builder b;
    if (c->v[0].kind != PLAIT_TPL_MISSING && !plait_tpl_as_int(r, c->v[0], "expandtabs", &size)) return false;
    plait_tpl_builder_init(&b, r);
    for (size_t at = 0, next = 0; at < s->n_bytes && !b.failed; at = next) {
        uint32_t code = plait_tpl_str_next(s, &next);
        if (code == '\t') {
            /* Tabs vanish for a size of 0 or less, as in Python. */
            int64_t spaces = size > 0 ? size - column % size : 0;
            plait_tpl_put_repeat(&b, ' ', spaces, plait_tpl_str_mark(s, at));
            column += spaces;
            continue;
        }
        plait_tpl_put_slice(&b, s, at, next);
        /* A column for each character, however wide it looks. */
        column = code == '\n' || code == '\r' ? 0 : column + 1;
    }
    return plait_tpl_step(r, s->n_bytes >> 6) && plait_tpl_finish(&b, out) && keep_markup(r, c, out);
}

static bool method_format(plait_tpl_render *r, const plait_tpl_call *c, plait_tpl_value *out) {
    return plait_tpl_format_braces(r, self(c), c->args, out);
}

/* Keys that are no strings cannot be named in a format and are left out. Unlike format(**mapping) the mapping is not
 * copied in Python either, which cannot be seen here: formatting runs no code of the template's. */
static bool method_format_map(plait_tpl_render *r, const plait_tpl_call *c, plait_tpl_value *out) {
    plait_tpl_args args = {0};
    if (c->v[0].kind != PLAIT_TPL_DICT) return plait_tpl_type_error(r, "format_map: expected a dict");
    const plait_tpl_dict *d = c->v[0].u.dict;
    /* The entries as named arguments: missing keys fail as missing names do. */
    args.names = plait_tpl_alloc(r, d->n_entries, sizeof *args.names);
    args.named = plait_tpl_alloc(r, d->n_entries, sizeof *args.named);
    if (!args.names || !args.named) return false;
    for (size_t i = 0; i < d->n_entries; i++) {
        if (d->entries[i].key.kind != PLAIT_TPL_STRING) continue;
        args.names[args.n_named] = d->entries[i].key.u.string;
        args.named[args.n_named++] = d->entries[i].value;
    }
    return plait_tpl_format_braces(r, self(c), &args, out);
}

const plait_tpl_builtin plait_tpl_methods_str_parts[] = {
    {"strip", "?chars", method_strip},
    {"lstrip", "?chars", method_lstrip},
    {"rstrip", "?chars", method_rstrip},
    {"split", "?sep ?maxsplit", method_split},
    {"rsplit", "?sep ?maxsplit", method_rsplit},
    {"splitlines", "?keepends", method_splitlines},
    {"partition", "sep", method_partition},
    {"rpartition", "sep", method_rpartition},
    {"join", "iterable", method_join},
    {"find", "sub ?start ?end", method_find},
    {"rfind", "sub ?start ?end", method_rfind},
    {"index", "sub ?start ?end", method_index},
    {"rindex", "sub ?start ?end", method_rindex},
    {"count", "sub ?start ?end", method_count},
    {"startswith", "prefix ?start ?end", method_startswith},
    {"endswith", "suffix ?start ?end", method_endswith},
    {"removeprefix", "prefix", method_removeprefix},
    {"removesuffix", "suffix", method_removesuffix},
    {"replace", "old new ?count", method_replace},
    {"center", "width ?fillchar", method_center},
    {"ljust", "width ?fillchar", method_ljust},
    {"rjust", "width ?fillchar", method_rjust},
    {"zfill", "width", method_zfill},
    {"expandtabs", "?tabsize", method_expandtabs},
    {"format", "*", method_format},
    {"format_map", "mapping", method_format_map},
    {0},
};
