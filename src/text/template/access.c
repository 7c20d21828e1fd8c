/* Reaching into values: attributes, items, slices, calls. Not here: what a function does (filters_*.c, methods_*.c,
 * globals.c). Invariant: what is not there is an undefined value, not an error; only reaching into an undefined value
 * fails.
 *
 * Jinja looks for x.name as an attribute first and as an item second, for x["name"] the other way round; both ways are
 * kept, since templates rely on each (message.items is a method, message["items"] a key). */
#include "text/template/eval.h"

#include <string.h>

/* Undefined with Jinja's words, cut names included: they come out of the template. True unless memory was short: that
 * something is missing is a value, and fails where it is used. */
static bool missing_attribute(plait_tpl_render *r, plait_tpl_value v, const plait_tpl_str *name,
                              plait_tpl_value *out) {
    *out = plait_tpl_undefined_name(r, "'%s' object has no attribute '%.*s'", plait_tpl_type_name(v),
                                    (int)(name->n_bytes < 80 ? name->n_bytes : 80), name->bytes);
    return r->status == PLAIT_OK;
}

/* A method taken without being called: the value it belongs to goes along. */
static bool bind_method(plait_tpl_render *r, plait_tpl_value v, const plait_tpl_builtin *row,
                        plait_tpl_value *out) {
    plait_tpl_method *m = plait_tpl_alloc(r, 1, sizeof *m);
    if (!m) return false;
    *m = (plait_tpl_method){.self = v, .builtin = row};
    *out = (plait_tpl_value){.kind = PLAIT_TPL_METHOD, .u.method = m};
    return true;
}

/* A new tuple each time: whoever gets it cannot change the macro. */
static bool macro_parameters(plait_tpl_render *r, const plait_tpl_node *node, plait_tpl_value *out) {
    if (!plait_tpl_list_new(r, PLAIT_TPL_TUPLE, 0, out)) return false;
    for (const plait_tpl_node *p = node->a; p; p = p->next)
        if (!plait_tpl_list_push(r, out->u.list, p->value)) return false;
    return true;
}

/* Numbers have these in Python; templates that print them exist. */
static int number_attribute(plait_tpl_value v, const plait_tpl_str *name, plait_tpl_value *out) {
    bool real =
        plait_tpl_str_is(name, "real") || (v.kind != PLAIT_TPL_FLOAT && plait_tpl_str_is(name, "numerator"));
    if (v.kind == PLAIT_TPL_BOOL) v = plait_tpl_int(v.u.boolean);
    if (real) return *out = v, 1;
    if (plait_tpl_str_is(name, "imag"))
        return *out = v.kind == PLAIT_TPL_FLOAT ? plait_tpl_float(0) : plait_tpl_int(0), 1;
    if (v.kind != PLAIT_TPL_FLOAT && plait_tpl_str_is(name, "denominator")) return *out = plait_tpl_int(1), 1;
    return 0;
}

/* Attributes that are plain data: 1 found, 0 none, -1 failed. A tuple of groupby answers to two names, which Jinja
 * makes a named tuple for; other tuples have none. */
static int data_attribute(plait_tpl_render *r, plait_tpl_value v, const plait_tpl_str *name,
                          plait_tpl_value *out) {
    const plait_tpl_node *node;
    switch (v.kind) {
    case PLAIT_TPL_NAMESPACE: return plait_tpl_dict_get(r, v.u.dict, plait_tpl_string(name), out);
    case PLAIT_TPL_LOOP: return plait_tpl_loop_attribute(r, v.u.loop, name, out);
    case PLAIT_TPL_TUPLE:
        /* Only pairs that groupby made. */
        if (!v.u.list->group || v.u.list->n_items != 2) return 0;
        if (!plait_tpl_str_is(name, "grouper") && !plait_tpl_str_is(name, "list")) return 0;
        *out = v.u.list->items[plait_tpl_str_is(name, "list")];
        return 1;
    case PLAIT_TPL_RANGE:
        if (plait_tpl_str_is(name, "start")) return *out = plait_tpl_int(v.u.range->start), 1;
        if (plait_tpl_str_is(name, "stop")) return *out = plait_tpl_int(v.u.range->stop), 1;
        if (plait_tpl_str_is(name, "step")) return *out = plait_tpl_int(v.u.range->step), 1;
        return 0;
    case PLAIT_TPL_CYCLER:
        if (!plait_tpl_str_is(name, "current")) return 0;
        *out = v.u.cycle->items[v.u.cycle->position];
        return 1;
    case PLAIT_TPL_BOOL:
    case PLAIT_TPL_INT:
    case PLAIT_TPL_FLOAT: return number_attribute(v, name, out);
    case PLAIT_TPL_MACRO:
        node = v.u.macro->node;
        if (plait_tpl_str_is(name, "name"))
            return *out = node->kind == PLAIT_TPL_N_MACRO ? node->value : plait_tpl_none(), 1;
        if (plait_tpl_str_is(name, "arguments")) return macro_parameters(r, node, out) ? 1 : -1;
        if (plait_tpl_str_is(name, "caller"))
            return *out = plait_tpl_bool(node->uses & PLAIT_TPL_USES_CALLER), 1;
        if (plait_tpl_str_is(name, "catch_kwargs"))
            return *out = plait_tpl_bool(node->uses & PLAIT_TPL_USES_KWARGS), 1;
        if (plait_tpl_str_is(name, "catch_varargs"))
            return *out = plait_tpl_bool(node->uses & PLAIT_TPL_USES_VARARGS), 1;
        return 0;
    default: return 0;
    }
}

/* An attribute in Python's sense, keys of a dict not meant: 1, 0, -1. Names of a namespace and of loop are looked at
 * before methods, since they are what the template put there. */
static int own_attribute(plait_tpl_render *r, plait_tpl_value v, const plait_tpl_str *name,
                         plait_tpl_value *out) {
    if (v.kind == PLAIT_TPL_NAMESPACE || v.kind == PLAIT_TPL_LOOP) {
        int found = data_attribute(r, v, name, out);
        if (found) return found;
    }
    const plait_tpl_builtin *row = plait_tpl_find_method(v.kind, name);
    if (row) return bind_method(r, v, row, out) ? 1 : -1;
    return data_attribute(r, v, name, out);
}

/* Keys of a dict are found last, so a key named "items" does not hide the method. */
bool plait_tpl_get_attribute(plait_tpl_render *r, plait_tpl_value v, const plait_tpl_str *name,
                             plait_tpl_value *out) {
    if (v.kind == PLAIT_TPL_UNDEFINED) return plait_tpl_undefined_error(r, v);
    int found = own_attribute(r, v, name, out);
    if (found == 0 && v.kind == PLAIT_TPL_DICT)
        found = plait_tpl_dict_get(r, v.u.dict, plait_tpl_string(name), out);
    if (found != 0) return found > 0;
    return missing_attribute(r, v, name, out);
}

/* Item number i of a sequence, from the end when negative; undefined when there is none. In strings that are not ASCII
 * the place is found by walking, which is charged. */
static bool item_at(plait_tpl_render *r, plait_tpl_value v, int64_t i, plait_tpl_value *out) {
    int64_t n;
    if (!plait_tpl_length(r, v, &n)) return false;
    /* No overflow: i is negative and n is not. */
    int64_t at = i < 0 ? i + n : i;
    if (at < 0 || at >= n) {
        *out = plait_tpl_undefined_name(r, "%s object has no element %lld", plait_tpl_type_name(v),
                                        (long long)i);
        return r->status == PLAIT_OK;
    }
    if (v.kind == PLAIT_TPL_RANGE) {
        *out = plait_tpl_int(plait_tpl_range_item(v.u.range, (size_t)at));
        return true;
    }
    if (v.kind != PLAIT_TPL_STRING) {
        *out = v.u.list->items[at];
        return true;
    }
    const plait_tpl_str *s = v.u.string;
    if (s->n_chars != s->n_bytes && !plait_tpl_step(r, s->n_bytes >> 6)) return false;
    size_t from = plait_tpl_str_byte_of(s, (size_t)at), to = from;
    plait_tpl_str_next(s, &to);
    return plait_tpl_str_sub(r, s, from, to, out);
}

/* Only to choose the way: with an unhashable key a dict gives an undefined value instead of Python's exception, as
 * Jinja has it. Tuples are looked at one level deep; what hides deeper fails in the hash. Hashing itself would do, but
 * would record a failure, and the first failure ends the rendering. */
static bool is_hashable(plait_tpl_value v) {
    if (v.kind == PLAIT_TPL_TUPLE)
        for (size_t i = 0; i < v.u.list->n_items; i++)
            if (v.u.list->items[i].kind == PLAIT_TPL_LIST || v.u.list->items[i].kind == PLAIT_TPL_DICT)
                return false;
    return v.kind != PLAIT_TPL_LIST && v.kind != PLAIT_TPL_DICT;
}

/* A string key of another value is an attribute in the end: loop["index"] is loop.index. */
bool plait_tpl_get_item(plait_tpl_render *r, plait_tpl_value v, plait_tpl_value key, plait_tpl_value *out) {
    if (v.kind == PLAIT_TPL_UNDEFINED) return plait_tpl_undefined_error(r, v);
    if (v.kind == PLAIT_TPL_DICT && is_hashable(key)) {
        int found = plait_tpl_dict_get(r, v.u.dict, key, out);
        if (found != 0) return found > 0;
    }
    /* Views and iterators have no positions, as in Python. */
    bool sequence = v.kind == PLAIT_TPL_LIST || v.kind == PLAIT_TPL_TUPLE || v.kind == PLAIT_TPL_STRING ||
                    v.kind == PLAIT_TPL_RANGE;
    if (sequence && (key.kind == PLAIT_TPL_INT || key.kind == PLAIT_TPL_BOOL))
        return item_at(r, v, key.kind == PLAIT_TPL_BOOL ? key.u.boolean : key.u.integer, out);
    if (key.kind == PLAIT_TPL_STRING) {
        int found = own_attribute(r, v, key.u.string, out);
        return found ? found > 0 : missing_attribute(r, v, key.u.string, out);
    }
    *out = plait_tpl_undefined_name(r, "%s object has no such element", plait_tpl_type_name(v));
    return r->status == PLAIT_OK;
}

/* *start may still exceed *stop: callers see an empty range then. Both bounds as Python's slices with step 1 take them:
 * negative ones count from the end once, and what is still outside is brought to the nearer end. */
void plait_tpl_clamp(int64_t length, int64_t *start, int64_t *stop) {
    if (*start < 0) *start = *start + length < 0 ? 0 : *start + length;
    if (*stop < 0) *stop = *stop + length < 0 ? 0 : *stop + length;
    if (*start > length) *start = length;
    if (*stop > length) *stop = length;
}

/* None and nothing mean the same: the end of the sequence. */
static bool slice_part(plait_tpl_render *r, plait_tpl_value v, bool *given, int64_t *out) {
    *given = v.kind != PLAIT_TPL_NONE && v.kind != PLAIT_TPL_MISSING;
    return !*given || plait_tpl_as_int(r, v, "slice", out);
}

/* Python's PySlice_AdjustIndices: bounds for a step of either sign, and the number of items. start and stop come out in
 * [low, high]; the count is how many steps fit between them, none when they lie the wrong way round. Negative bounds
 * cannot overflow: length is not negative. */
static int64_t adjust(int64_t length, int64_t step, bool has_start, bool has_stop, int64_t *start,
                      int64_t *stop) {
    /* The place in front of the first item is -1 for a step backwards, which no start or stop of the template's can
     * name. */
    int64_t low = step < 0 ? -1 : 0, high = step < 0 ? length - 1 : length;
    if (!has_start) *start = step < 0 ? high : low;
    if (!has_stop) *stop = step < 0 ? low : high;
    int64_t *ends[2] = {start, stop};
    for (int i = 0; i < 2; i++) {
        if (!(i == 0 ? has_start : has_stop)) continue;
        if (*ends[i] < 0) {
            *ends[i] += length;
            if (*ends[i] < 0) *ends[i] = low;
        } else if (*ends[i] > high) {
            *ends[i] = high;
        }
    }
    if (step > 0) return *stop > *start ? (*stop - *start - 1) / step + 1 : 0;
    return *start > *stop ? (*start - *stop - 1) / -step + 1 : 0;
}

/* Step 1 shares the bytes; others go character by character, each charged by the distance. start, step and n come from
 * adjust, so every character named exists. Backwards, UTF-8 is walked by its continuation bytes. */
static bool slice_string(plait_tpl_render *r, const plait_tpl_str *s, int64_t start, int64_t step, int64_t n,
                         plait_tpl_value *out) {
    if (!plait_tpl_step(r, s->n_bytes >> 6)) return false;
    if (step == 1) {
        size_t from = plait_tpl_str_byte_of(s, (size_t)start),
               to = plait_tpl_str_byte_of(s, (size_t)(start + n));
        return n == 0 ? plait_tpl_str_sub(r, s, 0, 0, out) : plait_tpl_str_sub(r, s, from, to, out);
    }
    plait_tpl_builder b;
    plait_tpl_builder_init(&b, r);
    size_t at = n ? plait_tpl_str_byte_of(s, (size_t)start) : 0;
    for (int64_t i = 0; i < n && !b.failed; i++) {
        size_t next = at;
        plait_tpl_str_next(s, &next);
        plait_tpl_put_slice(&b, s, at, next);
        if (!plait_tpl_step(r, (uint64_t)((step < 0 ? -step : step) >> 6))) return false;
        /* Not behind the last one, where the walk could leave the string. */
        for (int64_t k = 0; i + 1 < n && k < (step < 0 ? -step : step); k++) {
            if (step < 0)
                plait_tpl_str_prev(s, &at);
            else
                plait_tpl_str_next(s, &at);
        }
    }
    const plait_tpl_str *whole;
    return plait_tpl_finish_str(&b, &whole) && plait_tpl_str_with_markup(r, whole, s->markup, out);
}

/* Where item i of a range is, or would be for -1 and its length; false beyond 64 bits. On the way there may be more. */
static bool range_place(const plait_tpl_range *range, int64_t i, int64_t *out) {
    __extension__ typedef __int128 wide;
    wide place = (wide)range->start + (wide)i * range->step;
    *out = (int64_t)place;
    return place == *out;
}

/* Steps are held within half of 64 bits: with any larger one there is a single item, and sums of start and step cannot
 * overflow. Ranges are sliced without their items. */
bool plait_tpl_slice(plait_tpl_render *r, plait_tpl_value v, plait_tpl_value start_v, plait_tpl_value stop_v,
                     plait_tpl_value step_v, plait_tpl_value *out) {
    int64_t start = 0, stop = 0, step = 1, n;
    bool has_start, has_stop, has_step;
    if (v.kind == PLAIT_TPL_UNDEFINED) return plait_tpl_undefined_error(r, v);
    if (v.kind != PLAIT_TPL_STRING && v.kind != PLAIT_TPL_LIST && v.kind != PLAIT_TPL_TUPLE &&
        v.kind != PLAIT_TPL_RANGE)
        return plait_tpl_type_error(r, "%s object cannot be sliced", plait_tpl_type_name(v));
    if (!slice_part(r, start_v, &has_start, &start) || !slice_part(r, stop_v, &has_stop, &stop) ||
        !slice_part(r, step_v, &has_step, &step) || !plait_tpl_length(r, v, &n))
        return false;
    if (step == 0) return plait_tpl_type_error(r, "slice step cannot be zero");
    if (step < -INT64_MAX / 2) step = -INT64_MAX / 2;
    if (step > INT64_MAX / 2) step = INT64_MAX / 2;
    n = adjust(n, step, has_start, has_stop, &start, &stop);
    if (v.kind == PLAIT_TPL_STRING) return slice_string(r, v.u.string, start, step, n, out);
    if (v.kind == PLAIT_TPL_RANGE) {
        const plait_tpl_range *range = v.u.range;
        int64_t first, last, by;
        if (__builtin_mul_overflow(range->step, step, &by) || !range_place(range, start, &first) ||
            !range_place(range, stop, &last))
            return plait_tpl_int_overflow(r);
        return plait_tpl_range_new(r, first, last, by, out);
    }
    plait_tpl_value list;
    if (!plait_tpl_step(r, (uint64_t)n >> 3) || !plait_tpl_list_new(r, v.kind, (size_t)n, &list))
        return false;
    for (int64_t i = 0; i < n; i++) list.u.list->items[i] = v.u.list->items[start + i * step];
    list.u.list->n_items = (size_t)n;
    list.u.list->foreign = v.u.list->foreign;
    *out = list;
    return true;
}

/* A joiner gives nothing at its first call and its separator at every later one. What has no call fails with Python's
 * words. A cycler is no function here either: its next() is a method. */
bool plait_tpl_call_value(plait_tpl_render *r, plait_tpl_value callee, const plait_tpl_args *args,
                          plait_tpl_value *out) {
    switch (callee.kind) {
    case PLAIT_TPL_UNDEFINED: return plait_tpl_undefined_error(r, callee);
    case PLAIT_TPL_MACRO: return plait_tpl_call_macro(r, callee.u.macro, args, out);
    case PLAIT_TPL_LOOP: return plait_tpl_call_loop(r, callee.u.loop, args, out);
    case PLAIT_TPL_BUILTIN: return plait_tpl_apply(r, callee.u.builtin, plait_tpl_none(), args, out);
    case PLAIT_TPL_METHOD:
        return plait_tpl_apply(r, callee.u.method->builtin, callee.u.method->self, args, out);
    case PLAIT_TPL_JOINER:
        if (args->n_pos || args->n_named) return plait_tpl_type_error(r, "a joiner takes no arguments");
        /* `position` is 0 before the first call and 1 from then on. */
        if (callee.u.cycle->position++ == 0) return plait_tpl_str_text(r, "", out);
        callee.u.cycle->position = 1;
        *out = callee.u.cycle->items[0];
        return true;
    default: return plait_tpl_type_error(r, "'%s' object is not callable", plait_tpl_type_name(callee));
    }
}
