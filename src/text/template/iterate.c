/* Iterators. Not here: the loop statement (exec.c), the stages of lazy filters (filters_list.c). Invariant: an iterator
 * only holds positions, so a list that changes under it is read as it is at that moment, and never beyond its end. */
#include "text/template/iterate.h"

#include "text/template/string.h"

/* Undefined gives no items, as in Jinja. A lazy value is shared and not copied: who takes an item of it takes it from
 * everybody. *out is small and may live on the stack: it holds positions, and a pointer to the shared iterator where
 * the source is lazy. */
bool plait_tpl_iterate(plait_tpl_render *r, plait_tpl_value v, plait_tpl_iter *out) {
    *out = (plait_tpl_iter){.source = v};
    switch (v.kind) {
    case PLAIT_TPL_UNDEFINED:
    case PLAIT_TPL_STRING:
    case PLAIT_TPL_LIST:
    case PLAIT_TPL_TUPLE:
    case PLAIT_TPL_DICT:
    case PLAIT_TPL_RANGE:
    case PLAIT_TPL_VIEW: return true;
    case PLAIT_TPL_ITERATOR: out->shared = v.u.iter; return true;
    default: return plait_tpl_type_error(r, "'%s' object is not iterable", plait_tpl_type_name(v));
    }
}

/* A pair out of a dict of the variables has the dict's origin, so its brackets print as foreign text. */
static int next_entry(plait_tpl_render *r, const plait_tpl_dict *d, plait_tpl_view_part part, size_t i,
                      plait_tpl_value *out) {
    if (i >= d->n_entries) return 0;
    const plait_tpl_entry *e = &d->entries[i];
    if (part == PLAIT_TPL_ITEMS) {
        if (!plait_tpl_pair(r, e->key, e->value, out)) return -1;
        out->u.list->foreign = d->foreign;
        return 1;
    }
    *out = part == PLAIT_TPL_KEYS ? e->key : e->value;
    return 1;
}

/* `position` counts the bytes already given, from whichever end. Characters of a markup string are markup. A changed
 * string is another value, so positions stay valid. */
static int next_char(plait_tpl_render *r, plait_tpl_iter *it, plait_tpl_value *out) {
    const plait_tpl_str *s = it->source.u.string;
    size_t from, to;
    if (it->position >= s->n_bytes) return 0;
    if (it->reversed) {
        to = from = s->n_bytes - it->position;
        plait_tpl_str_prev(s, &from);
    } else {
        from = to = it->position;
        plait_tpl_str_next(s, &to);
    }
    /* str_sub keeps the marks of the bytes, so a character of foreign text is foreign. */
    it->position += to - from;
    if (!plait_tpl_str_sub(r, s, from, to, out)) return -1;
    return plait_tpl_str_with_markup(r, out->u.string, false, out) ? 1 : -1;
}

/* Number of the item to give next, in a source of n items. */
static size_t next_index(plait_tpl_iter *it, size_t n) {
    /* n is asked anew for each item: a list may have become shorter. */
    if (it->position >= n) return SIZE_MAX;
    size_t i = it->position++;
    return it->reversed ? n - 1 - i : i;
}

/* 1 and *out, 0 at the end, -1 failed; the last line turns the false of a type error into -1. */
static int next_plain(plait_tpl_render *r, plait_tpl_iter *it, plait_tpl_value *out) {
    plait_tpl_value v = it->source;
    size_t i;
    switch (v.kind) {
    case PLAIT_TPL_STRING: return next_char(r, it, out);
    case PLAIT_TPL_LIST:
    case PLAIT_TPL_TUPLE:
        i = next_index(it, v.u.list->n_items);
        if (i == SIZE_MAX) return 0;
        *out = v.u.list->items[i];
        return 1;
    case PLAIT_TPL_DICT:
        i = next_index(it, v.u.dict->n_entries);
        return i == SIZE_MAX ? 0 : next_entry(r, v.u.dict, PLAIT_TPL_KEYS, i, out);
    case PLAIT_TPL_VIEW:
        i = next_index(it, v.u.view->dict->n_entries);
        return i == SIZE_MAX ? 0 : next_entry(r, v.u.view->dict, v.u.view->part, i, out);
    case PLAIT_TPL_RANGE:
        i = next_index(it, (size_t)v.u.range->length);
        if (i == SIZE_MAX) return 0;
        *out = plait_tpl_int(plait_tpl_range_item(v.u.range, i));
        return 1;
    case PLAIT_TPL_UNDEFINED: return 0;
    default: return plait_tpl_type_error(r, "'%s' object is not iterable", plait_tpl_type_name(v)) - 1;
    }
}

/* Every item that a stage drops costs a step, so a filter that lets nothing through still meets the limit. Lazy values
 * over lazy values recurse here, hence the level. A failure leaves *out undefined and the level entered. An iterator
 * that has ended stays so, unless its list grew. */
int plait_tpl_next(plait_tpl_render *r, plait_tpl_iter *it, plait_tpl_value *out) {
    if (!plait_tpl_enter(r)) return -1;
    int more;
    for (;;) {
        plait_tpl_value item;
        if (!plait_tpl_step(r, 1)) return -1;
        more = it->shared ? plait_tpl_next(r, it->shared, &item) : next_plain(r, it, &item);
        if (more <= 0) break;
        if (!it->stage) {
            *out = item;
            break;
        }
        more = it->stage(r, it->state, item, out);
        if (more != 0) break;
    }
    if (more >= 0) plait_tpl_leave(r);
    return more;
}

/* NULL for `stage`: the items as they are. `state` has to live in the arena, as the iterator does. */
bool plait_tpl_lazy(plait_tpl_render *r, plait_tpl_value v, plait_tpl_stage_fn stage, void *state,
                    plait_tpl_value *out) {
    plait_tpl_iter *it = plait_tpl_alloc(r, 1, sizeof *it);
    if (!it) return false;
    it->source = v;
    if (v.kind == PLAIT_TPL_ITERATOR) it->shared = v.u.iter;
    it->stage = stage;
    it->state = state;
    *out = (plait_tpl_value){.kind = PLAIT_TPL_ITERATOR, .u.iter = it};
    return true;
}

/* A lazy source has to be read to its end first. The source itself is left alone: positions count from its end. */
bool plait_tpl_reversed(plait_tpl_render *r, plait_tpl_value v, plait_tpl_value *out) {
    plait_tpl_iter probe;
    if (v.kind == PLAIT_TPL_ITERATOR && !plait_tpl_list_from(r, v, &v)) return false;
    if (!plait_tpl_iterate(r, v, &probe) || !plait_tpl_lazy(r, v, NULL, NULL, out)) return false;
    out->u.iter->reversed = true;
    return true;
}
