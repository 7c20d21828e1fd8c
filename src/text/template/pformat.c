/* pprint.pformat: repr, broken over lines of 80 characters, with dicts sorted by key. Not here: repr itself (print.c).
 * The rules are those of CPython's pprint module; only lists, tuples, dicts and strings are ever broken.
 *
 * Each level makes the repr of its value to see whether it fits, as pprint does: text times depth, which steps
 * bound.
 *
 * Invariant: what reads back in Python as one line reads back as the same value when it is broken; widths count
 * characters. */
#include "text/template/print.h"

#include <string.h>

enum { WIDTH = 80 };

/* `b` is the output; measuring uses builders of its own. */
typedef struct printer {
    plait_tpl_render *r;
    plait_tpl_builder *b;
} printer;

static bool put_item(printer *p, plait_tpl_value v, int64_t indent, int64_t allowance, int level);

/* Numbers of all kinds compare with each other and are one group. */
static int kind_rank(plait_tpl_value v) {
    return plait_tpl_is_number(v) ? 0 : (int)v.kind;
}

/* Entries by key into a copy. Keys of different types have no order, so they are grouped by type first and then sorted
 * inside of each group; a group without an order stays as it is. Sorting numbers of entries and not entries keeps keys
 * and values together; both sorts are stable, so a group without an order keeps that of the dict. */
static bool sorted_copy(plait_tpl_render *r, const plait_tpl_dict *d, plait_tpl_dict *out) {
    size_t n = d->n_entries;
    *out = *d;
    out->index = NULL;
    out->entries = plait_tpl_alloc(r, n, sizeof *out->entries);
    plait_tpl_value *keys = plait_tpl_alloc(r, n, sizeof *keys),
                    *order = plait_tpl_alloc(r, n, sizeof *order);
    if (!out->entries || !keys || !order) return false;
    for (size_t i = 0; i < n; i++) {
        order[i] = plait_tpl_int((int64_t)i);
        keys[i] = plait_tpl_int(kind_rank(d->entries[i].key));
    }
    if (!plait_tpl_sort(r, order, keys, n, false)) return false;
    for (size_t from = 0, to; from < n; from = to) {
        int rank = kind_rank(d->entries[order[from].u.integer].key);
        for (to = from; to < n && kind_rank(d->entries[order[to].u.integer].key) == rank; to++)
            keys[to] = d->entries[order[to].u.integer].key;
        /* Other kinds may hold what has no order, which would be a failure where Python falls back to the address. */
        bool ordered = rank == 0 || rank == PLAIT_TPL_STRING;
        if (ordered && !plait_tpl_sort(r, order + from, keys + from, to - from, false)) return false;
    }
    for (size_t i = 0; i < n; i++) out->entries[i] = d->entries[order[i].u.integer];
    return true;
}

/* A copy in which all dicts are sorted, for repr. */
static bool sort_deep(plait_tpl_render *r, plait_tpl_value v, plait_tpl_value *out) {
    *out = v;
    if (v.kind != PLAIT_TPL_LIST && v.kind != PLAIT_TPL_TUPLE && v.kind != PLAIT_TPL_DICT) return true;
    /* A list that contains itself ends at the depth limit. */
    if (!plait_tpl_step(r, 1) || !plait_tpl_enter(r)) return false;
    if (v.kind == PLAIT_TPL_DICT) {
        plait_tpl_dict *d = plait_tpl_alloc(r, 1, sizeof *d);
        if (!d || !sorted_copy(r, v.u.dict, d)) return false;
        for (size_t i = 0; i < d->n_entries; i++)
            if (!sort_deep(r, d->entries[i].value, &d->entries[i].value)) return false;
        out->u.dict = d;
    } else {
        if (!plait_tpl_list_new(r, v.kind, v.u.list->n_items, out)) return false;
        out->u.list->foreign = v.u.list->foreign;
        for (size_t i = 0; i < v.u.list->n_items; i++) {
            plait_tpl_value item;
            if (!sort_deep(r, v.u.list->items[i], &item) || !plait_tpl_list_push(r, out->u.list, item))
                return false;
        }
    }
    plait_tpl_leave(r);
    return true;
}

/* The text of v as print.c writes it, with the marks of its own strings. */
static bool repr_of(plait_tpl_render *r, plait_tpl_value v, const plait_tpl_str **out) {
    plait_tpl_builder b;
    plait_tpl_builder_init(&b, r);
    plait_tpl_put_repr(&b, v, 0);
    return plait_tpl_finish_str(&b, out);
}

/* Line breaks and indents are the printer's own text, not the variables'. */
static void new_line(printer *p, int64_t indent) {
    plait_tpl_put(p->b, "\n", 1, 0);
    plait_tpl_put_repeat(p->b, ' ', indent, 0);
}

/* Behind all items but the last only a comma has to fit. `allowance` is for what closes behind the last item: as many
 * brackets as are open. Each item begins in column indent + 1, under the first. */
static bool put_items(printer *p, const plait_tpl_list *list, int64_t indent, int64_t allowance, int level) {
    indent++;
    for (size_t i = 0; i < list->n_items; i++) {
        bool last = i + 1 == list->n_items;
        if (i) {
            plait_tpl_put(p->b, ",", 1, list->foreign);
            new_line(p, indent);
        }
        if (!put_item(p, list->items[i], indent, last ? allowance : 1, level)) return false;
    }
    return true;
}

/* A value starts behind its key, and its continuation lines do too. A key is never broken, whatever its length. */
static bool put_entries(printer *p, const plait_tpl_dict *d, int64_t indent, int64_t allowance, int level) {
    indent++;
    for (size_t i = 0; i < d->n_entries; i++) {
        const plait_tpl_str *key;
        bool last = i + 1 == d->n_entries;
        if (i) {
            plait_tpl_put(p->b, ",", 1, d->foreign);
            new_line(p, indent);
        }
        if (!repr_of(p->r, d->entries[i].key, &key)) return false;
        plait_tpl_put_str(p->b, key);
        plait_tpl_put(p->b, ": ", 2, d->foreign);
        if (!put_item(p, d->entries[i].value, indent + (int64_t)key->n_chars + 2, last ? allowance : 1,
                      level))
            return false;
    }
    return true;
}

/* End of one run of non-space followed by one of space. The pattern \S*\s* of pprint. */
static size_t part_end(const plait_tpl_str *s, size_t at, size_t end) {
    bool space = false;
    while (at < end) {
        size_t next = at;
        bool is_space = plait_tpl_is_space(plait_tpl_str_next(s, &next));
        if (space && !is_space) break;
        space = is_space;
        at = next;
    }
    return at;
}

/* Cuts bytes [from, to) of a string into reprs of at most `width` characters at white space; the last of all pieces may
 * only be width - allowance. Pieces are pushed to chunks. The repr is measured anew for each longer piece, since quotes
 * and escapes depend on the whole of it; a piece without white space may come out wider than the line. */
static bool cut_line(printer *p, const plait_tpl_str *s, size_t from, size_t to, int64_t width,
                     int64_t last_width, plait_tpl_list *chunks) {
    size_t current = from, at = from;
    const plait_tpl_str *rep;
    plait_tpl_value part;
    while (at < to) {
        size_t end = part_end(s, at, to);
        if (!plait_tpl_str_sub(p->r, s, current, end, &part) || !repr_of(p->r, part, &rep)) return false;
        if ((int64_t)rep->n_chars > (end == to ? last_width : width)) {
            if (at > current) {
                if (!plait_tpl_str_sub(p->r, s, current, at, &part) || !repr_of(p->r, part, &rep) ||
                    !plait_tpl_list_push(p->r, chunks, plait_tpl_string(rep)))
                    return false;
            }
            current = at;
        }
        at = end;
    }
    if (current == to) return true;
    return plait_tpl_str_sub(p->r, s, current, to, &part) && repr_of(p->r, part, &rep) &&
           plait_tpl_list_push(p->r, chunks, plait_tpl_string(rep));
}

/* Lines of the string become literals under each other, which Python joins; at the top level they stand in parentheses.
 * Line ends stay in the literals, as \n. `level` 1 is a string that is the whole value. */
static bool put_long_string(printer *p, const plait_tpl_str *s, int64_t indent, int64_t allowance,
                            int level) {
    plait_tpl_value chunks, line;
    const plait_tpl_str *rep;
    if (!plait_tpl_list_new(p->r, PLAIT_TPL_LIST, 0, &chunks)) return false;
    /* Room for the parentheses. */
    if (level == 1) indent++, allowance++;
    int64_t width = WIDTH - indent;
    for (size_t at = 0, next = 0; at < s->n_bytes; at = next) {
        plait_tpl_str_line_end(s, at, &next);
        /* Only the last literal has something behind it on its line. */
        int64_t fits = next == s->n_bytes ? width - allowance : width;
        if (!plait_tpl_str_sub(p->r, s, at, next, &line) || !repr_of(p->r, line, &rep)) return false;
        if ((int64_t)rep->n_chars <= fits) {
            if (!plait_tpl_list_push(p->r, chunks.u.list, plait_tpl_string(rep))) return false;
        } else if (!cut_line(p, s, at, next, width, fits, chunks.u.list)) {
            return false;
        }
    }
    /* Without brackets inside of a container, where commas keep the literals apart from others. */
    bool brackets = level == 1 && chunks.u.list->n_items > 1;
    if (brackets) plait_tpl_put(p->b, "(", 1, 0);
    for (size_t i = 0; i < chunks.u.list->n_items; i++) {
        if (i) new_line(p, indent);
        plait_tpl_put_str(p->b, chunks.u.list->items[i].u.string);
    }
    if (brackets) plait_tpl_put(p->b, ")", 1, 0);
    return true;
}

/* Brackets are marked as those of print.c are. */
static bool put_broken(printer *p, plait_tpl_value v, int64_t indent, int64_t allowance, int level) {
    bool ok, tuple = v.kind == PLAIT_TPL_TUPLE;
    if (v.kind == PLAIT_TPL_STRING) return put_long_string(p, v.u.string, indent, allowance, level);
    uint8_t foreign = v.kind == PLAIT_TPL_DICT ? v.u.dict->foreign : v.u.list->foreign;
    plait_tpl_put(p->b, v.kind == PLAIT_TPL_DICT ? "{" : tuple ? "(" : "[", 1, foreign);
    if (v.kind == PLAIT_TPL_DICT) {
        ok = put_entries(p, v.u.dict, indent, allowance + 1, level);
    } else {
        /* The comma of a tuple with one item takes a place more. */
        bool one = tuple && v.u.list->n_items == 1;
        ok = put_items(p, v.u.list, indent, allowance + (one ? 2 : 1), level);
        if (one) plait_tpl_put(p->b, ",", 1, foreign);
    }
    plait_tpl_put(p->b, v.kind == PLAIT_TPL_DICT ? "}" : tuple ? ")" : "]", 1, foreign);
    return ok;
}

/* `indent` is the column that the value starts in, `allowance` the characters that have to fit behind it. */
static bool put_item(printer *p, plait_tpl_value v, int64_t indent, int64_t allowance, int level) {
    const plait_tpl_str *rep;
    bool breakable = v.kind == PLAIT_TPL_STRING || v.kind == PLAIT_TPL_LIST || v.kind == PLAIT_TPL_TUPLE ||
                     v.kind == PLAIT_TPL_DICT;
    if (!plait_tpl_enter(p->r) || !repr_of(p->r, v, &rep)) return false;
    bool ok = true;
    if (breakable && (int64_t)rep->n_chars > WIDTH - indent - allowance)
        ok = put_broken(p, v, indent, allowance, level + 1);
    else
        plait_tpl_put_str(p->b, rep);
    plait_tpl_leave(p->r);
    return ok && !p->b->failed;
}

/* Sorted once, then printed: repr has to see the same order as the broken form. */
bool plait_tpl_pformat(plait_tpl_render *r, plait_tpl_value v, plait_tpl_value *out) {
    plait_tpl_builder b;
    plait_tpl_builder_init(&b, r);
    printer p = {.r = r, .b = &b};
    return sort_deep(r, v, &v) && put_item(&p, v, 0, 0, 0) && plait_tpl_finish(&b, out);
}
