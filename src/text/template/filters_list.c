/* Filters over sequences: lists in, lists, items or lazy iterators out. Not here: sorting and comparing themselves
 * (operators.c), reading iterators (iterate.c). Invariant: map, select, reject and their attr forms compute items only
 * when they are asked for, the others read their whole input at once.
 *
 * Jinja's generators among the others (batch, slice, unique, items) give iterators over a finished list: what a
 * template can see of them is the same. */
#include "text/template/builtin.h"
#include "text/template/eval.h"
#include "text/template/print.h"

#include <string.h>

/* None counts as not given. */
static bool given(const plait_tpl_call *c, int i) {
    return c->v[i].kind != PLAIT_TPL_MISSING && c->v[i].kind != PLAIT_TPL_NONE;
}

static bool flag(const plait_tpl_call *c, int i) {
    return c->v[i].kind != PLAIT_TPL_MISSING && plait_tpl_truth(c->v[i]);
}

/* --- attributes by path: "a.b.0", or a number --- */

/* Digits are an index, as in Jinja; more than 17 of them cannot be one and are a name. Part of a path, [from, to) of s.
 * A number can only be an index into a sequence here, also where a dict has that text as a key, as Jinja's
 * make_attrgetter converts it before anything is looked up. */
static bool path_part(plait_tpl_render *r, const plait_tpl_str *s, size_t from, size_t to,
                      plait_tpl_value *out) {
    int64_t n = 0;
    /* 17 digits cannot overflow. */
    bool number = to > from && to - from < 18;
    for (size_t i = from; number && i < to; i++) {
        number = s->bytes[i] >= '0' && s->bytes[i] <= '9';
        n = n * 10 + (s->bytes[i] - '0');
    }
    if (!number) return plait_tpl_str_sub(r, s, from, to, out);
    *out = plait_tpl_int(n);
    return true;
}

/* One path in bytes [from, to) of s; `otherwise` (MISSING: none) replaces undefined values on the way. */
static bool follow(plait_tpl_render *r, plait_tpl_value v, const plait_tpl_str *s, size_t from, size_t to,
                   plait_tpl_value otherwise, plait_tpl_value *out) {
    while (true) {
        size_t end = from;
        plait_tpl_value part;
        /* An empty part is the empty key, as Jinja's split gives it. */
        while (end < to && s->bytes[end] != '.') end++;
        if (!path_part(r, s, from, end, &part) || !plait_tpl_get_item(r, v, part, &v)) return false;
        /* Jinja replaces after each part, so the rest of a path goes on from the default. */
        if (v.kind == PLAIT_TPL_UNDEFINED && otherwise.kind != PLAIT_TPL_MISSING &&
            otherwise.kind != PLAIT_TPL_NONE)
            v = otherwise;
        if (end >= to) break;
        from = end + 1;
    }
    *out = v;
    return true;
}

/* A path that is no string is one key. No path: the value itself. */
static bool get_path(plait_tpl_render *r, plait_tpl_value v, plait_tpl_value path, plait_tpl_value otherwise,
                     plait_tpl_value *out) {
    if (path.kind == PLAIT_TPL_NONE || path.kind == PLAIT_TPL_MISSING) return *out = v, true;
    if (path.kind == PLAIT_TPL_STRING)
        return follow(r, v, path.u.string, 0, path.u.string->n_bytes, otherwise, out);
    if (!plait_tpl_get_item(r, v, path, out)) return false;
    if (out->kind == PLAIT_TPL_UNDEFINED && otherwise.kind != PLAIT_TPL_MISSING &&
        otherwise.kind != PLAIT_TPL_NONE)
        *out = otherwise;
    return true;
}

/* Lower case of strings for comparing; other values stay. */
static bool fold_case(plait_tpl_render *r, bool case_sensitive, plait_tpl_value *v) {
    return case_sensitive || v->kind != PLAIT_TPL_STRING ||
           plait_tpl_str_case(r, v->u.string, PLAIT_TPL_LOWER, v);
}

/* The key of an item for sort: a list of the paths' values ("a,b"). The commas of sort's attribute; a key that is no
 * string is one path, for example a number. Lists compare item by item, so the second path decides where the first is
 * equal, and a failure to order names the items. */
static bool multi_key(plait_tpl_render *r, plait_tpl_value v, plait_tpl_value paths, bool case_sensitive,
                      plait_tpl_value *out) {
    const plait_tpl_value none = {.kind = PLAIT_TPL_MISSING};
    plait_tpl_value part;
    if (!plait_tpl_list_new(r, PLAIT_TPL_LIST, 1, out)) return false;
    /* No attribute: the item itself is the key. */
    if (paths.kind != PLAIT_TPL_STRING)
        return get_path(r, v, paths, none, &part) && fold_case(r, case_sensitive, &part) &&
               plait_tpl_list_push(r, out->u.list, part);
    const plait_tpl_str *s = paths.u.string;
    for (size_t from = 0;;) {
        size_t end = from;
        while (end < s->n_bytes && s->bytes[end] != ',') end++;
        if (!follow(r, v, s, from, end, none, &part) || !fold_case(r, case_sensitive, &part) ||
            !plait_tpl_list_push(r, out->u.list, part))
            return false;
        if (end >= s->n_bytes) return true;
        from = end + 1;
    }
}

/* --- lazy ones --- */

/* What a lazy filter does to each item. Arguments live in the arena, so they outlast the call of the filter. by_path:
 * what the path leads to is mapped to, or tested. reject: items that pass the test are dropped instead of kept. */
typedef struct stage {
    const plait_tpl_builtin *row; /* filter or test; NULL: truth */
    plait_tpl_args args;
    plait_tpl_value path, otherwise;
    bool by_path, reject;
} stage;

/* 1 for an item, -1 for a failure; it never drops any. */
static int map_stage(plait_tpl_render *r, void *state, plait_tpl_value item, plait_tpl_value *out) {
    stage *s = state;
    if (s->by_path) return get_path(r, item, s->path, s->otherwise, out) ? 1 : -1;
    return plait_tpl_step(r, 1) && plait_tpl_apply(r, s->row, item, &s->args, out) ? 1 : -1;
}

/* 0 drops the item. Without a test the item's own truth decides. The item itself goes on, not what the path led to. */
static int select_stage(plait_tpl_render *r, void *state, plait_tpl_value item, plait_tpl_value *out) {
    stage *s = state;
    plait_tpl_value v = item, verdict;
    const plait_tpl_value none = {.kind = PLAIT_TPL_MISSING};
    if (s->by_path && !get_path(r, item, s->path, none, &v)) return -1;
    verdict = v;
    if (!plait_tpl_step(r, 1) || (s->row && !plait_tpl_apply(r, s->row, v, &s->args, &verdict))) return -1;
    if (plait_tpl_truth(verdict) == s->reject) return 0;
    *out = item;
    return 1;
}

/* For filters that take any arguments and sort them out themselves. */
static const plait_tpl_value *named_argument(const plait_tpl_args *args, const char *name) {
    for (size_t i = 0; i < args->n_named; i++)
        if (plait_tpl_str_is(args->names[i], name)) return &args->named[i];
    return NULL;
}

/* Arguments behind the first n. */
static plait_tpl_args rest_of(const plait_tpl_args *args, size_t n) {
    plait_tpl_args rest = *args;
    rest.pos += n;
    rest.n_pos -= n;
    return rest;
}

/* Named: map(attribute=..., default=...) follows a path; else the first argument names a filter and the rest are its
 * arguments. That name is looked up now, so a wrong one fails even when nothing is read. `s` outlives this call: the
 * iterator that is given back holds it. */
static bool filter_map(plait_tpl_render *r, const plait_tpl_call *c, plait_tpl_value *out) {
    const plait_tpl_str *name;
    plait_tpl_value v =
        plait_tpl_truth(c->self) ? c->self : plait_tpl_undefined(NULL); /* anything false maps to nothing */
    stage *s = plait_tpl_alloc(r, 1, sizeof *s);
    if (!s) return false;
    /* The arena gives zeros, and zero is another kind. */
    s->path.kind = s->otherwise.kind = PLAIT_TPL_MISSING;
    const plait_tpl_value *attribute = named_argument(c->args, "attribute"),
                          *otherwise = named_argument(c->args, "default");
    if (c->args->n_pos == 0 && attribute) {
        /* Only attribute and default go together. */
        if (c->args->n_named > (otherwise ? 2u : 1u))
            return plait_tpl_type_error(r, "map: unexpected named argument");
        s->by_path = true;
        s->path = *attribute;
        if (otherwise) s->otherwise = *otherwise;
    } else {
        if (v.kind == PLAIT_TPL_UNDEFINED) return plait_tpl_lazy(r, v, map_stage, s, out);
        if (c->args->n_pos == 0) return plait_tpl_type_error(r, "map requires a filter argument");
        if (!plait_tpl_as_str(r, c->args->pos[0], "map", &name)) return false;
        s->row = plait_tpl_find_filter(name);
        if (!s->row)
            return plait_tpl_type_error(r, "map: there is no filter named '%.*s'",
                                        (int)(name->n_bytes < 60 ? name->n_bytes : 60), name->bytes);
        s->args = rest_of(c->args, 1);
    }
    return plait_tpl_lazy(r, v, map_stage, s, out);
}

/* The first argument is the path for the attr forms, then comes the name of a test with its arguments. */
static bool select_by(plait_tpl_render *r, const plait_tpl_call *c, bool by_path, bool reject,
                      plait_tpl_value *out) {
    const plait_tpl_str *name;
    plait_tpl_value v = plait_tpl_truth(c->self) ? c->self : plait_tpl_undefined(NULL);
    /* How many arguments stand in front of the test's name. */
    size_t off = by_path;
    stage *s = plait_tpl_alloc(r, 1, sizeof *s);
    if (!s) return false;
    s->by_path = by_path;
    s->reject = reject;
    /* Nothing to run over: wrong names do not show, as in Jinja, where the generator never starts. */
    if (v.kind == PLAIT_TPL_UNDEFINED) return plait_tpl_lazy(r, v, select_stage, s, out);
    if (c->args->n_pos < off) return plait_tpl_type_error(r, "missing parameter for attribute name");
    if (by_path) s->path = c->args->pos[0];
    if (c->args->n_pos > off) {
        if (!plait_tpl_as_str(r, c->args->pos[off], "name of a test", &name)) return false;
        s->row = plait_tpl_find_test(name);
        if (!s->row)
            return plait_tpl_type_error(r, "there is no test named '%.*s'",
                                        (int)(name->n_bytes < 60 ? name->n_bytes : 60), name->bytes);
        s->args = rest_of(c->args, off + 1);
    }
    return plait_tpl_lazy(r, v, select_stage, s, out);
}

static bool filter_select(plait_tpl_render *r, const plait_tpl_call *c, plait_tpl_value *out) {
    return select_by(r, c, false, false, out);
}

static bool filter_reject(plait_tpl_render *r, const plait_tpl_call *c, plait_tpl_value *out) {
    return select_by(r, c, false, true, out);
}

static bool filter_selectattr(plait_tpl_render *r, const plait_tpl_call *c, plait_tpl_value *out) {
    return select_by(r, c, true, false, out);
}

static bool filter_rejectattr(plait_tpl_render *r, const plait_tpl_call *c, plait_tpl_value *out) {
    return select_by(r, c, true, true, out);
}

/* A finished list that behaves as a generator. */
static bool as_iterator(plait_tpl_render *r, plait_tpl_value list, plait_tpl_value *out) {
    return plait_tpl_lazy(r, list, NULL, NULL, out);
}

/* --- the rest --- */

/* A copy: changing it leaves the original alone. Strings become lists of characters. */
static bool filter_list(plait_tpl_render *r, const plait_tpl_call *c, plait_tpl_value *out) {
    return plait_tpl_list_from(r, c->self, out);
}

/* Of everything that has one; a generator has none. */
static bool filter_length(plait_tpl_render *r, const plait_tpl_call *c, plait_tpl_value *out) {
    int64_t n;
    if (!plait_tpl_length(r, c->self, &n)) return false;
    *out = plait_tpl_int(n);
    return true;
}

/* One item, so a lazy source stays unread behind it. */
static bool filter_first(plait_tpl_render *r, const plait_tpl_call *c, plait_tpl_value *out) {
    plait_tpl_iter it;
    if (!plait_tpl_iterate(r, c->self, &it)) return false;
    int more = plait_tpl_next(r, &it, out);
    if (more == 0) *out = plait_tpl_undefined("no first item, sequence was empty");
    return more >= 0;
}

/* Python's reversed() refuses generators, and so does Jinja's filter. Takes one item of the reversed sequence, so it is
 * constant in time for lists, tuples and ranges. */
static bool filter_last(plait_tpl_render *r, const plait_tpl_call *c, plait_tpl_value *out) {
    plait_tpl_value reversed;
    if (c->self.kind == PLAIT_TPL_ITERATOR)
        return plait_tpl_type_error(r, "last: a generator cannot be reversed");
    if (!plait_tpl_reversed(r, c->self, &reversed)) return false;
    int more = plait_tpl_next(r, reversed.u.iter, out);
    if (more == 0) *out = plait_tpl_undefined("no last item, sequence was empty");
    return more >= 0;
}

/* Strings and generators are reversed at once, sequences lazily, as in Jinja. */
static bool filter_reverse(plait_tpl_render *r, const plait_tpl_call *c, plait_tpl_value *out) {
    const plait_tpl_value nothing = {.kind = PLAIT_TPL_MISSING};
    if (c->self.kind == PLAIT_TPL_STRING)
        return plait_tpl_slice(r, c->self, nothing, nothing, plait_tpl_int(-1), out);
    if (c->self.kind == PLAIT_TPL_ITERATOR) {
        plait_tpl_value list;
        if (!plait_tpl_list_from(r, c->self, &list)) return false;
        /* list_from made it, so it may be turned around in place. */
        plait_tpl_list *l = list.u.list;
        for (size_t i = 0; i < l->n_items / 2; i++) {
            plait_tpl_value t = l->items[i];
            l->items[i] = l->items[l->n_items - 1 - i];
            l->items[l->n_items - 1 - i] = t;
        }
        *out = list;
        return true;
    }
    return plait_tpl_reversed(r, c->self, out);
}

/* Items become text by str(). Autoescape is off, so markup has no effect here. `attribute` may be a path; without one
 * get_path gives the item itself. What join returns carries each part's marks of origin, so a message joined into a
 * prompt stays foreign text. */
static bool filter_join(plait_tpl_render *r, const plait_tpl_call *c, plait_tpl_value *out) {
    const plait_tpl_str *between = NULL, *s;
    const plait_tpl_value none = {.kind = PLAIT_TPL_MISSING};
    plait_tpl_builder b;
    plait_tpl_iter it;
    plait_tpl_value v;
    int more;
    size_t n = 0;
    plait_tpl_builder_init(&b, r);
    if (c->v[0].kind != PLAIT_TPL_MISSING && !plait_tpl_to_str(r, c->v[0], &between)) return false;
    if (!plait_tpl_iterate(r, c->self, &it)) return false;
    while ((more = plait_tpl_next(r, &it, &v)) > 0) {
        if (!get_path(r, v, c->v[1], none, &v) || !plait_tpl_to_str(r, v, &s)) return false;
        /* Between items, also behind an empty one. */
        if (n++ && between) plait_tpl_put_str(&b, between);
        plait_tpl_put_str(&b, s);
    }
    return more == 0 && plait_tpl_finish(&b, out);
}

/* Keys are computed once for each item. The sort is stable. The list is a copy, so the input keeps its order. Keys are
 * lists of one or more folded values, whose comparison is Python's. */
static bool filter_sort(plait_tpl_render *r, const plait_tpl_call *c, plait_tpl_value *out) {
    /* Both default to false: Jinja compares without case. */
    bool reverse = flag(c, 0), sensitive = flag(c, 1);
    plait_tpl_value list, keys, key;
    if (!plait_tpl_list_from(r, c->self, &list) ||
        !plait_tpl_list_new(r, PLAIT_TPL_LIST, list.u.list->n_items, &keys))
        return false;
    for (size_t i = 0; i < list.u.list->n_items; i++)
        if (!multi_key(r, list.u.list->items[i], c->v[2], sensitive, &key) ||
            !plait_tpl_list_push(r, keys.u.list, key))
            return false;
    *out = list;
    return plait_tpl_sort(r, list.u.list->items, keys.u.list->items, list.u.list->n_items, reverse);
}

/* Pairs of a foreign dict are foreign lists. Entries with equal keys cannot exist, but folded ones can be equal ("A"
 * and "a"): they keep the order of the dict. */
static bool filter_dictsort(plait_tpl_render *r, const plait_tpl_call *c, plait_tpl_value *out) {
    bool sensitive = flag(c, 0), by_value = false;
    plait_tpl_value list, keys, key, pair;
    if (c->self.kind == PLAIT_TPL_UNDEFINED) return plait_tpl_undefined_error(r, c->self);
    if (c->self.kind != PLAIT_TPL_DICT)
        return plait_tpl_type_error(r, "dictsort: expected a dict, found %s", plait_tpl_type_name(c->self));
    if (c->v[1].kind != PLAIT_TPL_MISSING) {
        bool text = c->v[1].kind == PLAIT_TPL_STRING;
        by_value = text && plait_tpl_str_is(c->v[1].u.string, "value");
        if (!by_value && !(text && plait_tpl_str_is(c->v[1].u.string, "key")))
            return plait_tpl_type_error(r, "dictsort: you can only sort by 'key' or 'value'");
    }
    const plait_tpl_dict *d = c->self.u.dict;
    if (!plait_tpl_list_new(r, PLAIT_TPL_LIST, d->n_entries, &list) ||
        !plait_tpl_list_new(r, PLAIT_TPL_LIST, d->n_entries, &keys))
        return false;
    for (size_t i = 0; i < d->n_entries; i++) {
        key = by_value ? d->entries[i].value : d->entries[i].key;
        if (!plait_tpl_step(r, 1) || !fold_case(r, sensitive, &key) ||
            !plait_tpl_pair(r, d->entries[i].key, d->entries[i].value, &pair))
            return false;
        pair.u.list->foreign = d->foreign;
        if (!plait_tpl_list_push(r, list.u.list, pair) || !plait_tpl_list_push(r, keys.u.list, key))
            return false;
    }
    list.u.list->foreign = d->foreign;
    *out = list;
    return plait_tpl_sort(r, list.u.list->items, keys.u.list->items, d->n_entries, flag(c, 2));
}

/* What these filters give is only run over later in Jinja: so is the complaint that the input cannot be. */
static bool not_iterable(plait_tpl_value v) {
    return v.kind != PLAIT_TPL_UNDEFINED && (v.kind < PLAIT_TPL_STRING || v.kind > PLAIT_TPL_ITERATOR);
}

static bool filter_items(plait_tpl_render *r, const plait_tpl_call *c, plait_tpl_value *out) {
    if (c->self.kind == PLAIT_TPL_UNDEFINED) return as_iterator(r, c->self, out);
    if (c->self.kind != PLAIT_TPL_DICT)
        return as_iterator(r, plait_tpl_none(), out) /* fails when it is run over */;
    plait_tpl_view *view = plait_tpl_alloc(r, 1, sizeof *view);
    if (!view) return false;
    /* Entries set while the loop runs over it are seen, unlike in Python, which would fail. */
    *view = (plait_tpl_view){.dict = c->self.u.dict, .part = PLAIT_TPL_ITEMS};
    return as_iterator(r, (plait_tpl_value){.kind = PLAIT_TPL_VIEW, .u.view = view}, out);
}

/* The first of equal items stays. Keys have to be hashable, as in Jinja. */
static bool filter_unique(plait_tpl_render *r, const plait_tpl_call *c, plait_tpl_value *out) {
    plait_tpl_value seen, list, item, key, ignored;
    const plait_tpl_value none = {.kind = PLAIT_TPL_MISSING};
    plait_tpl_iter it;
    int more;
    if (not_iterable(c->self)) return as_iterator(r, c->self, out);
    /* A dict as a set: constant time for each item. */
    if (!plait_tpl_dict_new(r, &seen) || !plait_tpl_list_new(r, PLAIT_TPL_LIST, 0, &list) ||
        !plait_tpl_iterate(r, c->self, &it))
        return false;
    while ((more = plait_tpl_next(r, &it, &item)) > 0) {
        if (!get_path(r, item, c->v[1], none, &key) || !fold_case(r, flag(c, 0), &key)) return false;
        int found = plait_tpl_dict_get(r, seen.u.dict, key, &ignored);
        if (found < 0) return false;
        if (!found && (!plait_tpl_dict_set(r, seen.u.dict, key, plait_tpl_none()) ||
                       !plait_tpl_list_push(r, list.u.list, item)))
            return false;
    }
    return more == 0 && as_iterator(r, list, out);
}

/* The first of equal items wins, as with min and max of Python. NaN compares as neither, so it never replaces the best
 * so far and, as the first item, is never replaced. */
static bool extreme(plait_tpl_render *r, const plait_tpl_call *c, int wanted, const char *op,
                    plait_tpl_value *out) {
    const plait_tpl_value none = {.kind = PLAIT_TPL_MISSING};
    plait_tpl_iter it;
    plait_tpl_value item, key, best;
    int more, order;
    size_t n = 0;
    if (!plait_tpl_iterate(r, c->self, &it)) return false;
    while ((more = plait_tpl_next(r, &it, &item)) > 0) {
        if (!get_path(r, item, c->v[1], none, &key) || !fold_case(r, flag(c, 0), &key)) return false;
        /* `order` is only read once it was set, from the second item on. */
        if (n++ && !plait_tpl_compare(r, key, best, op, &order)) return false;
        if (n > 1 && order != wanted) continue;
        best = key;
        *out = item;
    }
    if (n == 0) *out = plait_tpl_undefined("no aggregated item, sequence was empty");
    return more == 0;
}

static bool filter_min(plait_tpl_render *r, const plait_tpl_call *c, plait_tpl_value *out) {
    return extreme(r, c, -1, "<", out);
}

static bool filter_max(plait_tpl_render *r, const plait_tpl_call *c, plait_tpl_value *out) {
    return extreme(r, c, 1, ">", out);
}

/* By the + operator from `start`, so lists can be summed too. */
static bool filter_sum(plait_tpl_render *r, const plait_tpl_call *c, plait_tpl_value *out) {
    const plait_tpl_value none = {.kind = PLAIT_TPL_MISSING};
    /* 0 without a start, so the sum of nothing is a number. */
    plait_tpl_value total = c->v[1].kind == PLAIT_TPL_MISSING ? plait_tpl_int(0) : c->v[1], item;
    plait_tpl_iter it;
    int more;
    /* Python's sum refuses to start from a string too. */
    if (total.kind == PLAIT_TPL_STRING) return plait_tpl_type_error(r, "sum: strings are joined with join");
    if (!plait_tpl_iterate(r, c->self, &it)) return false;
    while ((more = plait_tpl_next(r, &it, &item)) > 0)
        if (!get_path(r, item, c->v[0], none, &item) || !plait_tpl_add(r, total, item, &total)) return false;
    *out = total;
    return more == 0;
}

/* fill_with fills the last batch only. A size below 0 is reached by no batch, so all items land in a single one. */
static bool filter_batch(plait_tpl_render *r, const plait_tpl_call *c, plait_tpl_value *out) {
    int64_t size;
    plait_tpl_value list, batch = {.kind = PLAIT_TPL_MISSING}, item;
    plait_tpl_iter it;
    int more;
    if (not_iterable(c->self)) return as_iterator(r, c->self, out);
    if (!plait_tpl_as_int(r, c->v[0], "batch", &size) || !plait_tpl_list_new(r, PLAIT_TPL_LIST, 0, &list) ||
        !plait_tpl_iterate(r, c->self, &it))
        return false;
    while ((more = plait_tpl_next(r, &it, &item)) > 0) {
        if (batch.kind == PLAIT_TPL_MISSING || (int64_t)batch.u.list->n_items == size) {
            if (batch.kind == PLAIT_TPL_MISSING && size == 0) { /* as in Jinja, an empty batch comes first */
                if (!plait_tpl_list_new(r, PLAIT_TPL_LIST, 0, &batch) ||
                    !plait_tpl_list_push(r, list.u.list, batch))
                    return false;
            }
            if (!plait_tpl_list_new(r, PLAIT_TPL_LIST, 0, &batch) ||
                !plait_tpl_list_push(r, list.u.list, batch))
                return false;
        }
        if (!plait_tpl_list_push(r, batch.u.list, item)) return false;
    }
    if (more < 0) return false;
    if (batch.kind == PLAIT_TPL_LIST && given(c, 1))
        /* Bounded by steps, as `size` is whatever the template says. */
        while ((int64_t)batch.u.list->n_items < size)
            if (!plait_tpl_step(r, 1) || !plait_tpl_list_push(r, batch.u.list, c->v[1])) return false;
    return as_iterator(r, list, out);
}

/* The first n % slices ones are longer by one; fill_with fills the others up to them. */
static bool filter_slice(plait_tpl_render *r, const plait_tpl_call *c, plait_tpl_value *out) {
    int64_t slices, at = 0;
    plait_tpl_value list, all, part;
    if (not_iterable(c->self)) return as_iterator(r, c->self, out);
    if (!plait_tpl_as_int(r, c->v[0], "slice", &slices) || !plait_tpl_list_from(r, c->self, &all) ||
        !plait_tpl_list_new(r, PLAIT_TPL_LIST, 0, &list))
        return false;
    /* Python's words for it; a negative number gives no slice at all. */
    if (slices == 0) return plait_tpl_type_error(r, "division by zero");
    int64_t n = (int64_t)all.u.list->n_items;
    for (int64_t i = 0; i < slices; i++) {
        /* Steps bound `slices`, which may be far more than there are items. */
        int64_t take = n / slices + (i < n % slices);
        if (!plait_tpl_step(r, 1) || !plait_tpl_list_new(r, PLAIT_TPL_LIST, (size_t)take + 1, &part) ||
            !plait_tpl_list_push(r, list.u.list, part))
            return false;
        for (int64_t k = 0; k < take; k++)
            part.u.list->items[part.u.list->n_items++] = all.u.list->items[at++];
        if (given(c, 1) && i >= n % slices && !plait_tpl_list_push(r, part.u.list, c->v[1])) return false;
    }
    return as_iterator(r, list, out);
}

/* A group's key is that of its first member, in the original case. `key` was folded for sorting; the path is followed
 * again in the first member to show it as it was written. */
static bool close_group(plait_tpl_render *r, const plait_tpl_call *c, plait_tpl_list *groups,
                        plait_tpl_value key, plait_tpl_value members) {
    plait_tpl_value group;
    if (!flag(c, 2) && !get_path(r, members.u.list->items[0], c->v[0], c->v[1], &key)) return false;
    if (!plait_tpl_pair(r, key, members, &group)) return false;
    /* The pair answers to .grouper and .list too. */
    group.u.list->group = true;
    return plait_tpl_list_push(r, groups, group);
}

/* Sorted by key and then cut where keys differ; members keep their order. The sort runs over positions so that items
 * and keys stay together. Reads its whole input at once; n log n comparisons. */
static bool filter_groupby(plait_tpl_render *r, const plait_tpl_call *c, plait_tpl_value *out) {
    plait_tpl_value items, keys, key, groups, members = {.kind = PLAIT_TPL_MISSING};
    if (!plait_tpl_list_from(r, c->self, &items) ||
        !plait_tpl_list_new(r, PLAIT_TPL_LIST, items.u.list->n_items, &keys) ||
        !plait_tpl_list_new(r, PLAIT_TPL_LIST, 0, &groups))
        return false;
    size_t n = items.u.list->n_items;
    for (size_t i = 0; i < n; i++) {
        if (!get_path(r, items.u.list->items[i], c->v[0], c->v[1], &key) || !fold_case(r, flag(c, 2), &key))
            return false;
        keys.u.list->items[i] = key;
    }
    plait_tpl_value order;
    if (!plait_tpl_list_new(r, PLAIT_TPL_LIST, n, &order)) return false;
    for (size_t i = 0; i < n; i++) order.u.list->items[i] = plait_tpl_int((int64_t)i);
    if (!plait_tpl_sort(r, order.u.list->items, keys.u.list->items, n, false)) return false;
    for (size_t i = 0; i < n; i++) {
        size_t at = (size_t)order.u.list->items[i].u.integer;
        bool same = false;
        /* `key` is the key of the group that is open. */
        if (i && !plait_tpl_equal(r, keys.u.list->items[at], key, &same)) return false;
        if (!same) {
            if (i && !close_group(r, c, groups.u.list, key, members)) return false;
            key = keys.u.list->items[at];
            if (!plait_tpl_list_new(r, PLAIT_TPL_LIST, 0, &members)) return false;
        }
        if (!plait_tpl_list_push(r, members.u.list, items.u.list->items[at])) return false;
    }
    /* The last group is open when the loop ends. */
    if (n && !close_group(r, c, groups.u.list, key, members)) return false;
    *out = groups;
    return true;
}

/* An item chosen by the rendering's own generator (splitmix64), so that equal seeds give equal prompts. */
static bool filter_random(plait_tpl_render *r, const plait_tpl_call *c, plait_tpl_value *out) {
    int64_t n;
    if (!plait_tpl_length(r, c->self, &n)) return false;
    /* As for first and last. */
    if (n == 0) return *out = plait_tpl_undefined("no random item, sequence was empty"), true;
    /* They have a length but no positions. */
    if (c->self.kind == PLAIT_TPL_DICT || c->self.kind == PLAIT_TPL_VIEW)
        return plait_tpl_type_error(r, "random: expected a sequence, found %s", plait_tpl_type_name(c->self));
    uint64_t z = r->random_state += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return plait_tpl_get_item(r, c->self, plait_tpl_int((int64_t)((z ^ z >> 31) % (uint64_t)n)), out);
}

const plait_tpl_builtin plait_tpl_filters_list[] = {
    {"list", "", filter_list},
    {"length", "", filter_length},
    {"count", "", filter_length},
    {"first", "", filter_first},
    {"last", "", filter_last},
    {"reverse", "", filter_reverse},
    {"join", "?d ?attribute", filter_join},
    {"sort", "?reverse ?case_sensitive ?attribute", filter_sort},
    {"dictsort", "?case_sensitive ?by ?reverse", filter_dictsort},
    {"items", "", filter_items},
    {"unique", "?case_sensitive ?attribute", filter_unique},
    {"min", "?case_sensitive ?attribute", filter_min},
    {"max", "?case_sensitive ?attribute", filter_max},
    {"sum", "?attribute ?start", filter_sum},
    {"batch", "linecount ?fill_with", filter_batch},
    {"slice", "slices ?fill_with", filter_slice},
    {"groupby", "attribute ?default ?case_sensitive", filter_groupby},
    {"random", "", filter_random},
    {"map", "*", filter_map},
    {"select", "*", filter_select},
    {"reject", "*", filter_reject},
    {"selectattr", "*", filter_selectattr},
    {"rejectattr", "*", filter_rejectattr},
    {0},
};
