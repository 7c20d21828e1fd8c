/* Global functions: range, dict, namespace, cycler, joiner, raise_exception, strftime_now; and the methods of the objects
 * they make. Not here: lipsum, whose text is random.
 *
 * Invariant: where the caller gives the time, what these functions give depends on their arguments alone, so a prompt
 * can be made again. */
#include "base/alloc.h"
#include "text/template/eval.h"
#include "text/template/print.h"

#include <stdlib.h>
#include <string.h>

enum { LARGEST_RANGE = 100000 }; /* as in Jinja's sandbox */

/* Differences in unsigned arithmetic: the ends may be any two 64-bit numbers. Made for slices of ranges as well, whose
 * ends may be wider apart than the items count. A range holds no items; 100000 bounds what a loop over it may cost
 * before the limit of steps does. */
bool plait_tpl_range_new(plait_tpl_render *r, int64_t start, int64_t stop, int64_t step,
                         plait_tpl_value *out) {
    if (step == 0) return plait_tpl_type_error(r, "range: the step must not be zero");
    /* How far it is, without a sign; n is span by |step|, rounded up. */
    uint64_t span = step > 0       ? (stop > start ? (uint64_t)stop - (uint64_t)start : 0)
                    : start > stop ? (uint64_t)start - (uint64_t)stop
                                   : 0;
    uint64_t by = step > 0 ? (uint64_t)step : 0 - (uint64_t)step, n = span ? (span - 1) / by + 1 : 0;
    if (n > LARGEST_RANGE)
        return plait_tpl_fail(r, PLAIT_LIMIT, "range: more than the limit of %d items", LARGEST_RANGE);
    plait_tpl_range *range = plait_tpl_alloc(r, 1, sizeof *range);
    if (!range) return false;
    *range = (plait_tpl_range){start, stop, step, (int64_t)n};
    *out = (plait_tpl_value){.kind = PLAIT_TPL_RANGE, .u.range = range};
    return true;
}

/* With one argument it is the end. */
static bool global_range(plait_tpl_render *r, const plait_tpl_call *c, plait_tpl_value *out) {
    int64_t v[3] = {0, 0, 1};
    const plait_tpl_args *a = c->args;
    if (a->n_named || a->n_pos < 1 || a->n_pos > 3)
        return plait_tpl_type_error(r, "range: expected 1 to 3 arguments");
    for (size_t i = 0; i < a->n_pos; i++)
        if (!plait_tpl_as_int(r, a->pos[i], "range", &v[a->n_pos == 1 ? 1 : i])) return false;
    return plait_tpl_range_new(r, v[0], v[1], v[2], out);
}

/* Fills a dict as dict(mapping_or_pairs, name=value) does. Names win over pairs, later pairs over earlier ones. A pair
 * is anything that gives two items, a string of two characters included, as in Python. */
static bool fill_dict(plait_tpl_render *r, const plait_tpl_args *a, const char *what, plait_tpl_dict *d) {
    plait_tpl_iter it, pair;
    plait_tpl_value item, key, value;
    int more;
    if (a->n_pos > 1) return plait_tpl_type_error(r, "%s: at most one positional argument", what);
    if (a->n_pos == 1 && a->pos[0].kind == PLAIT_TPL_DICT) {
        for (size_t i = 0; i < a->pos[0].u.dict->n_entries; i++)
            if (!plait_tpl_dict_set(r, d, a->pos[0].u.dict->entries[i].key,
                                    a->pos[0].u.dict->entries[i].value))
                return false;
    } else if (a->n_pos == 1) {
        if (!plait_tpl_iterate(r, a->pos[0], &it)) return false;
        while ((more = plait_tpl_next(r, &it, &item)) > 0) {
            if (!plait_tpl_iterate(r, item, &pair)) return false;
            /* Failures inside count as no pair, but the first error stays the one that is shown. */
            if (plait_tpl_next(r, &pair, &key) <= 0 || plait_tpl_next(r, &pair, &value) <= 0 ||
                plait_tpl_next(r, &pair, &item) != 0)
                return plait_tpl_type_error(r, "%s: expected pairs", what);
            if (!plait_tpl_dict_set(r, d, key, value)) return false;
        }
        if (more < 0) return false;
    }
    for (size_t i = 0; i < a->n_named; i++)
        if (!plait_tpl_dict_set(r, d, plait_tpl_string(a->names[i]), a->named[i])) return false;
    return true;
}

static bool global_dict(plait_tpl_render *r, const plait_tpl_call *c, plait_tpl_value *out) {
    return plait_tpl_dict_new(r, out) && fill_dict(r, c->args, "dict", out->u.dict);
}

/* A dict of its own kind: only its attributes can be set from inside of loops. Its entries are no variables: they are
 * reached by attribute only, and the value is shared by all frames that see it. */
static bool global_namespace(plait_tpl_render *r, const plait_tpl_call *c, plait_tpl_value *out) {
    if (!plait_tpl_dict_new(r, out) || !fill_dict(r, c->args, "namespace", out->u.dict)) return false;
    out->kind = PLAIT_TPL_NAMESPACE;
    return true;
}

/* Items are copied, because arguments only live as long as the call. A joiner is a cycle of one item with a memory. */
static bool new_cycle(plait_tpl_render *r, plait_tpl_kind kind, const plait_tpl_value *items, size_t n,
                      plait_tpl_value *out) {
    plait_tpl_cycle *cycle = plait_tpl_alloc(r, 1, sizeof *cycle);
    if (!cycle || !(cycle->items = plait_tpl_alloc(r, n, sizeof *items))) return false;
    memcpy(cycle->items, items, n * sizeof *items);
    cycle->n_items = n;
    *out = (plait_tpl_value){.kind = kind, .u.cycle = cycle};
    return true;
}

static bool global_cycler(plait_tpl_render *r, const plait_tpl_call *c, plait_tpl_value *out) {
    if (c->args->n_named || c->args->n_pos == 0)
        return plait_tpl_type_error(r, "cycler: at least one item has to be provided");
    return new_cycle(r, PLAIT_TPL_CYCLER, c->args->pos, c->args->n_pos, out);
}

static bool global_joiner(plait_tpl_render *r, const plait_tpl_call *c, plait_tpl_value *out) {
    plait_tpl_value separator = c->v[0];
    /* The text of a default is the template's. */
    if (separator.kind == PLAIT_TPL_MISSING && !plait_tpl_str_text(r, ", ", &separator)) return false;
    return new_cycle(r, PLAIT_TPL_JOINER, &separator, 1, out);
}

/* The message is kept whole for the caller, who frees it; the error shows as much as fits. The first message counts.
 * Always false. INVALID_ARGUMENT, because it is the conversation that the template will not have. */
static bool global_raise(plait_tpl_render *r, const plait_tpl_call *c, plait_tpl_value *out) {
    const plait_tpl_str *message;
    (void)out;
    if (!plait_tpl_to_str(r, c->v[0], &message)) return false;
    if (r->raised && !r->raised->raised) {
        r->raised->raised = plait_string_copy_n(message->bytes, message->n_bytes);
        if (!r->raised->raised) {
            r->status = plait_error_memory("message of a template", message->n_bytes + 1);
            return false;
        }
    }
    /* Cut for the error; whole in `raised`. */
    int shown = message->n_bytes < PLAIT_ERROR_BYTES ? (int)message->n_bytes : PLAIT_ERROR_BYTES;
    return plait_tpl_type_error(r, "the template refuses this conversation: %.*s", shown, message->bytes);
}

static bool global_strftime(plait_tpl_render *r, const plait_tpl_call *c, plait_tpl_value *out) {
    const plait_tpl_str *format;
    return plait_tpl_as_str(r, c->v[0], "strftime_now", &format) && plait_tpl_strftime(r, format, out);
}

/* Variables of the same name win: these are looked up last. */
const plait_tpl_builtin *plait_tpl_find_global(const plait_tpl_str *name) {
    static const plait_tpl_builtin rows[] = {
        {"range", "*", global_range},
        {"dict", "*", global_dict},
        {"namespace", "*", global_namespace},
        {"cycler", "*", global_cycler},
        {"joiner", "?sep", global_joiner},
        {"raise_exception", "message", global_raise},
        {"strftime_now", "format", global_strftime},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (plait_tpl_str_is(name, rows[i].name)) return &rows[i];
    return NULL;
}

/* --- methods of cycler and loop --- */

/* Gives the item first and moves then. */
static bool cycler_next(plait_tpl_render *r, const plait_tpl_call *c, plait_tpl_value *out) {
    (void)r;
    plait_tpl_cycle *cycle = c->self.u.cycle;
    *out = cycle->items[cycle->position];
    cycle->position = (cycle->position + 1) % cycle->n_items;
    return true;
}

static bool cycler_reset(plait_tpl_render *r, const plait_tpl_call *c, plait_tpl_value *out) {
    (void)r;
    c->self.u.cycle->position = 0;
    *out = plait_tpl_none();
    return true;
}

const plait_tpl_builtin plait_tpl_methods_cycler[] = {
    {"next", "", cycler_next}, {"reset", "", cycler_reset}, {0}};

/* By the number of the round, without a memory. */
static bool loop_cycle(plait_tpl_render *r, const plait_tpl_call *c, plait_tpl_value *out) {
    if (c->args->n_pos == 0 || c->args->n_named) return plait_tpl_type_error(r, "loop.cycle: no items given");
    *out = c->args->pos[(size_t)c->self.u.loop->index0 % c->args->n_pos];
    return true;
}

/* All the arguments count as one value; the first call is a change. Held in the loop itself, so inner loops with their
 * own `loop` do not disturb it. */
static bool loop_changed(plait_tpl_render *r, const plait_tpl_call *c, plait_tpl_value *out) {
    plait_tpl_loop *loop = c->self.u.loop;
    plait_tpl_value now;
    bool same = false;
    if (!plait_tpl_list_new(r, PLAIT_TPL_TUPLE, c->args->n_pos, &now)) return false;
    for (size_t i = 0; i < c->args->n_pos; i++)
        if (!plait_tpl_list_push(r, now.u.list, c->args->pos[i])) return false;
    if (loop->has_changed && !plait_tpl_equal(r, loop->changed, now, &same)) return false;
    loop->changed = now;
    loop->has_changed = true;
    *out = plait_tpl_bool(!same);
    return true;
}

const plait_tpl_builtin plait_tpl_methods_loop[] = {
    {"cycle", "*", loop_cycle}, {"changed", "*", loop_changed}, {0}};
