/* Methods of lists, tuples, dicts and numbers. Those that change a container are there too, though Jinja's sandbox
 * refuses them: templates written for other engines use append and update. Invariant: a container never contains
 * itself in a way that hangs anything, for every walk counts its depth.
 *
 * Methods write through the value they were called on, so every other value that holds the same container sees the
 * change. A list that belongs to the caller's variables is a copy made for this rendering, never the caller's own. */
#include "text/template/builtin.h"
#include "text/template/eval.h"
#include "text/template/print.h"

#include <math.h>
#include <string.h>

static plait_tpl_list *list_of(const plait_tpl_call *c) {
    return c->self.u.list;
}

static plait_tpl_dict *dict_of(const plait_tpl_call *c) {
    return c->self.u.dict;
}

/* --- lists --- */

/* A list may be appended to itself; printing it then ends at the limit of levels. */
static bool list_append(plait_tpl_render *r, const plait_tpl_call *c, plait_tpl_value *out) {
    *out = plait_tpl_none();
    return plait_tpl_list_push(r, list_of(c), c->v[0]);
}

/* The source is read whole first, so x.extend(x) ends. */
static bool list_extend(plait_tpl_render *r, const plait_tpl_call *c, plait_tpl_value *out) {
    plait_tpl_value more;
    if (!plait_tpl_list_from(r, c->v[0], &more)) return false;
    for (size_t i = 0; i < more.u.list->n_items; i++)
        if (!plait_tpl_list_push(r, list_of(c), more.u.list->items[i])) return false;
    *out = plait_tpl_none();
    return true;
}

/* Positions beyond either end are the ends, as in Python. Moving items is charged one step for 16 of them. */
static bool list_insert(plait_tpl_render *r, const plait_tpl_call *c, plait_tpl_value *out) {
    plait_tpl_list *list = list_of(c);
    int64_t at, end = (int64_t)list->n_items;
    if (!plait_tpl_as_int(r, c->v[0], "insert", &at)) return false;
    /* Negative positions count from the end. */
    plait_tpl_clamp((int64_t)list->n_items, &at, &end);
    if (!plait_tpl_step(r, 1 + list->n_items / 16) || !plait_tpl_list_push(r, list, c->v[1])) return false;
    /* The push made room, for which it may have moved the items. */
    memmove(list->items + at + 1, list->items + at, (list->n_items - 1 - (size_t)at) * sizeof *list->items);
    list->items[at] = c->v[1];
    *out = plait_tpl_none();
    return true;
}

/* From the end without an index. */
static bool list_pop(plait_tpl_render *r, const plait_tpl_call *c, plait_tpl_value *out) {
    plait_tpl_list *list = list_of(c);
    int64_t at = -1;
    if (c->v[0].kind != PLAIT_TPL_MISSING && !plait_tpl_as_int(r, c->v[0], "pop", &at)) return false;
    if (at < 0) at += (int64_t)list->n_items;
    if (at < 0 || at >= (int64_t)list->n_items) return plait_tpl_type_error(r, "pop: index out of range");
    /* Popping from the front of a long list is what this bounds. */
    if (!plait_tpl_step(r, 1 + (list->n_items - (size_t)at) / 16)) return false;
    *out = list->items[at];
    list->n_items--;
    memmove(list->items + at, list->items + at + 1, (list->n_items - (size_t)at) * sizeof *list->items);
    return true;
}

/* Position of an equal item, or n_items. [from, to) is looked through, as far as there are items. */
static bool locate(plait_tpl_render *r, const plait_tpl_list *list, plait_tpl_value v, size_t from, size_t to,
                   size_t *out) {
    for (*out = from; *out < to && *out < list->n_items; ++*out) {
        bool same;
        if (!plait_tpl_step(r, 1) || !plait_tpl_equal(r, list->items[*out], v, &same)) return false;
        if (same) return true;
    }
    *out = list->n_items;
    return true;
}

/* The first equal one. */
static bool list_remove(plait_tpl_render *r, const plait_tpl_call *c, plait_tpl_value *out) {
    plait_tpl_list *list = list_of(c);
    size_t at;
    if (!locate(r, list, c->v[0], 0, list->n_items, &at)) return false;
    if (at == list->n_items) return plait_tpl_type_error(r, "remove: the value is not in the list");
    list->n_items--;
    memmove(list->items + at, list->items + at + 1, (list->n_items - at) * sizeof *list->items);
    *out = plait_tpl_none();
    return true;
}

/* Memory stays with the list: the arena frees nothing before the end of the rendering. */
static bool list_clear(plait_tpl_render *r, const plait_tpl_call *c, plait_tpl_value *out) {
    (void)r;
    list_of(c)->n_items = 0;
    *out = plait_tpl_none();
    return true;
}

static bool list_copy(plait_tpl_render *r, const plait_tpl_call *c, plait_tpl_value *out) {
    return plait_tpl_list_from(r, c->self, out);
}

static bool list_reverse(plait_tpl_render *r, const plait_tpl_call *c, plait_tpl_value *out) {
    plait_tpl_list *list = list_of(c);
    for (size_t i = 0; i < list->n_items / 2; i++) {
        plait_tpl_value t = list->items[i];
        list->items[i] = list->items[list->n_items - 1 - i];
        list->items[list->n_items - 1 - i] = t;
    }
    *out = plait_tpl_none();
    return plait_tpl_step(r, 1 + list->n_items / 16);
}

/* Keys are a copy, because the sort moves both arrays. No code of the template runs meanwhile. Keys that cannot be
 * compared leave the list in its old order. */
static bool list_sort(plait_tpl_render *r, const plait_tpl_call *c, plait_tpl_value *out) {
    plait_tpl_list *list = list_of(c);
    plait_tpl_value keys;
    *out = plait_tpl_none();
    if (!plait_tpl_list_from(r, c->self, &keys)) return false;
    return plait_tpl_sort(r, list->items, keys.u.list->items, list->n_items,
                          c->v[0].kind != PLAIT_TPL_MISSING && plait_tpl_truth(c->v[0]));
}

/* Also the index method of tuples and ranges; Python's search window with start and stop. */
static bool list_index(plait_tpl_render *r, const plait_tpl_call *c, plait_tpl_value *out) {
    plait_tpl_value list = c->self;
    /* There are 100000 items in a range at most, so its list is small. */
    if (list.kind == PLAIT_TPL_RANGE && !plait_tpl_list_from(r, list, &list)) return false;
    int64_t n = (int64_t)list.u.list->n_items, start = 0, stop = n;
    size_t at;
    if (c->v[1].kind != PLAIT_TPL_MISSING && !plait_tpl_as_int(r, c->v[1], "index", &start)) return false;
    if (c->v[2].kind != PLAIT_TPL_MISSING && !plait_tpl_as_int(r, c->v[2], "index", &stop)) return false;
    plait_tpl_clamp(n, &start, &stop);
    if (!locate(r, list.u.list, c->v[0], (size_t)start, (size_t)stop, &at)) return false;
    if (at == (size_t)n) return plait_tpl_type_error(r, "index: the value is not there");
    *out = plait_tpl_int((int64_t)at);
    return true;
}

/* Goes through an iterator, so it serves ranges too. */
static bool list_count(plait_tpl_render *r, const plait_tpl_call *c, plait_tpl_value *out) {
    plait_tpl_iter it;
    plait_tpl_value v;
    int64_t n = 0;
    int more;
    if (!plait_tpl_iterate(r, c->self, &it)) return false;
    while ((more = plait_tpl_next(r, &it, &v)) > 0) {
        bool same;
        if (!plait_tpl_equal(r, v, c->v[0], &same)) return false;
        n += same;
    }
    *out = plait_tpl_int(n);
    return more == 0;
}

const plait_tpl_builtin plait_tpl_methods_list[] = {
    {"append", "object", list_append},
    {"extend", "iterable", list_extend},
    {"insert", "index object", list_insert},
    {"pop", "?index", list_pop},
    {"remove", "value", list_remove},
    {"clear", "", list_clear},
    {"copy", "", list_copy},
    {"reverse", "", list_reverse},
    {"sort", "?reverse", list_sort},
    {"index", "value ?start ?stop", list_index},
    {"count", "value", list_count},
    {0},
};

const plait_tpl_builtin plait_tpl_methods_tuple[] = {
    {"index", "value ?start ?stop", list_index},
    {"count", "value", list_count},
    {0},
};

/* --- dicts --- */

/* A key that cannot be hashed is an error, as in Python, and not the default. */
static bool dict_get(plait_tpl_render *r, const plait_tpl_call *c, plait_tpl_value *out) {
    int found = plait_tpl_dict_get(r, dict_of(c), c->v[0], out);
    if (found == 0) *out = c->v[1].kind == PLAIT_TPL_MISSING ? plait_tpl_none() : c->v[1];
    return found >= 0;
}

/* A view, not a copy: it shows what the dict holds when it is run over. */
static bool dict_view(plait_tpl_render *r, const plait_tpl_call *c, plait_tpl_view_part part,
                      plait_tpl_value *out) {
    plait_tpl_view *view = plait_tpl_alloc(r, 1, sizeof *view);
    if (!view) return false;
    *view = (plait_tpl_view){.dict = dict_of(c), .part = part};
    *out = (plait_tpl_value){.kind = PLAIT_TPL_VIEW, .u.view = view};
    return true;
}

static bool dict_keys(plait_tpl_render *r, const plait_tpl_call *c, plait_tpl_value *out) {
    return dict_view(r, c, PLAIT_TPL_KEYS, out);
}

static bool dict_values(plait_tpl_render *r, const plait_tpl_call *c, plait_tpl_value *out) {
    return dict_view(r, c, PLAIT_TPL_VALUES, out);
}

static bool dict_items(plait_tpl_render *r, const plait_tpl_call *c, plait_tpl_value *out) {
    return dict_view(r, c, PLAIT_TPL_ITEMS, out);
}

static bool dict_pop(plait_tpl_render *r, const plait_tpl_call *c, plait_tpl_value *out) {
    int found = plait_tpl_dict_remove(r, dict_of(c), c->v[0], out);
    if (found < 0) return false;
    if (found == 0 && c->v[1].kind == PLAIT_TPL_MISSING)
        return plait_tpl_type_error(r, "pop: the key is not there");
    if (found == 0) *out = c->v[1];
    return true;
}

/* The entry that was set last. The last entry costs no moving, so taking a dict apart by popitem is linear. */
static bool dict_popitem(plait_tpl_render *r, const plait_tpl_call *c, plait_tpl_value *out) {
    plait_tpl_dict *d = dict_of(c);
    plait_tpl_value ignored;
    if (d->n_entries == 0) return plait_tpl_type_error(r, "popitem: the dict is empty");
    /* Copied: removing it moves entries. */
    plait_tpl_entry last = d->entries[d->n_entries - 1];
    return plait_tpl_dict_remove(r, d, last.key, &ignored) >= 0 &&
           plait_tpl_pair(r, last.key, last.value, out);
}

/* Without a default None is stored, so the key is there afterwards in either case. */
static bool dict_setdefault(plait_tpl_render *r, const plait_tpl_call *c, plait_tpl_value *out) {
    int found = plait_tpl_dict_get(r, dict_of(c), c->v[0], out);
    /* -1 is a key that cannot be hashed. */
    if (found) return found > 0;
    *out = c->v[1].kind == PLAIT_TPL_MISSING ? plait_tpl_none() : c->v[1];
    return plait_tpl_dict_set(r, dict_of(c), c->v[0], *out);
}

/* Shallow, and with the origin of the original. */
static bool dict_copy(plait_tpl_render *r, const plait_tpl_call *c, plait_tpl_value *out) {
    const plait_tpl_dict *d = dict_of(c);
    if (!plait_tpl_dict_new(r, out)) return false;
    out->u.dict->foreign = d->foreign;
    for (size_t i = 0; i < d->n_entries; i++)
        if (!plait_tpl_dict_set(r, out->u.dict, d->entries[i].key, d->entries[i].value)) return false;
    return true;
}

/* update(mapping or pairs, name=value): read whole first, so that a dict can be updated from itself. */
static bool dict_update(plait_tpl_render *r, const plait_tpl_call *c, plait_tpl_value *out) {
    /* The arguments are those of dict(), so that function reads them. */
    plait_tpl_str name = {.bytes = "dict", .n_bytes = 4};
    plait_tpl_value more;
    if (!plait_tpl_apply(r, plait_tpl_find_global(&name), plait_tpl_none(), c->args, &more)) return false;
    for (size_t i = 0; i < more.u.dict->n_entries; i++)
        if (!plait_tpl_dict_set(r, dict_of(c), more.u.dict->entries[i].key, more.u.dict->entries[i].value))
            return false;
    *out = plait_tpl_none();
    return true;
}

static bool dict_clear(plait_tpl_render *r, const plait_tpl_call *c, plait_tpl_value *out) {
    (void)r;
    plait_tpl_dict_clear(dict_of(c));
    *out = plait_tpl_none();
    return true;
}

/* All keys share one value, as in Python. */
static bool dict_fromkeys(plait_tpl_render *r, const plait_tpl_call *c, plait_tpl_value *out) {
    plait_tpl_iter it;
    plait_tpl_value key, value = c->v[1].kind == PLAIT_TPL_MISSING ? plait_tpl_none() : c->v[1];
    int more;
    if (!plait_tpl_iterate(r, c->v[0], &it) || !plait_tpl_dict_new(r, out)) return false;
    while ((more = plait_tpl_next(r, &it, &key)) > 0)
        if (!plait_tpl_dict_set(r, out->u.dict, key, value)) return false;
    return more == 0;
}

const plait_tpl_builtin plait_tpl_methods_dict[] = {
    {"get", "key ?default", dict_get},
    {"keys", "", dict_keys},
    {"values", "", dict_values},
    {"items", "", dict_items},
    {"pop", "key ?default", dict_pop},
    {"popitem", "", dict_popitem},
    {"setdefault", "key ?default", dict_setdefault},
    {"copy", "", dict_copy},
    {"update", "*", dict_update},
    {"clear", "", dict_clear},
    {"fromkeys", "iterable ?value", dict_fromkeys},
    {0},
};

/* --- numbers --- */

/* True for int and bool too, which have the method since Python 3.12. */
static bool number_is_integer(plait_tpl_render *r, const plait_tpl_call *c, plait_tpl_value *out) {
    (void)r;
    *out = plait_tpl_bool(c->self.kind != PLAIT_TPL_FLOAT ||
                          (isfinite(c->self.u.real) && c->self.u.real == floor(c->self.u.real)));
    return true;
}

/* Bits of the magnitude; 0 for zero. */
static bool number_bit_length(plait_tpl_render *r, const plait_tpl_call *c, plait_tpl_value *out) {
    if (c->self.kind == PLAIT_TPL_FLOAT) return plait_tpl_type_error(r, "float has no attribute bit_length");
    int64_t i = c->self.kind == PLAIT_TPL_BOOL ? c->self.u.boolean : c->self.u.integer, bits = 0;
    /* Unsigned, so the smallest integer has a magnitude. */
    for (uint64_t m = i < 0 ? 0 - (uint64_t)i : (uint64_t)i; m; m >>= 1) bits++;
    *out = plait_tpl_int(bits);
    return true;
}

const plait_tpl_builtin plait_tpl_methods_number[] = {
    {"is_integer", "", number_is_integer},
    {"bit_length", "", number_bit_length},
    {0},
};
