/* Finding built-in functions and giving them their arguments. Not here: the functions. Invariant: a function sees its
 * parameters in the order of its row, each given at most once, those that are required given. */
#include "text/template/eval.h"

#include <string.h>

/* Linear: tables have a few dozen rows, and the first letter sorts out most. Filters and tests are looked up once, by
 * the parser. */
static const plait_tpl_builtin *find_in(const plait_tpl_builtin *table, const plait_tpl_str *name) {
    for (; table->name; table++)
        if (table->name[0] == (name->n_bytes ? name->bytes[0] : 0) && plait_tpl_str_is(name, table->name))
            return table;
    return NULL;
}

/* No name is in two tables, so their order does not matter. NULL when there is none. */
const plait_tpl_builtin *plait_tpl_find_filter(const plait_tpl_str *name) {
    const plait_tpl_builtin *row = find_in(plait_tpl_filters_text, name);
    if (!row) row = find_in(plait_tpl_filters_list, name);
    if (!row) row = find_in(plait_tpl_filters_value, name);
    return row ? row : find_in(plait_tpl_filters_wrap, name);
}

const plait_tpl_builtin *plait_tpl_find_test(const plait_tpl_str *name) {
    return find_in(plait_tpl_tests, name);
}

/* By the kind of the value: a tuple and a range have the same ones. NULL for kinds without methods. */
const plait_tpl_builtin *plait_tpl_find_method(plait_tpl_kind kind, const plait_tpl_str *name) {
    const plait_tpl_builtin *row;
    switch (kind) {
    case PLAIT_TPL_STRING:
        row = find_in(plait_tpl_methods_str_parts, name);
        return row ? row : find_in(plait_tpl_methods_str_case, name);
    case PLAIT_TPL_LIST: return find_in(plait_tpl_methods_list, name);
    case PLAIT_TPL_TUPLE:
    case PLAIT_TPL_RANGE: return find_in(plait_tpl_methods_tuple, name);
    case PLAIT_TPL_DICT: return find_in(plait_tpl_methods_dict, name);
    case PLAIT_TPL_BOOL:
    case PLAIT_TPL_INT:
    case PLAIT_TPL_FLOAT: return find_in(plait_tpl_methods_number, name);
    case PLAIT_TPL_CYCLER: return find_in(plait_tpl_methods_cycler, name);
    case PLAIT_TPL_LOOP: return find_in(plait_tpl_methods_loop, name);
    default: return NULL;
    }
}

/* The next name of a parameter list: its start, length, and whether it is optional. n is 0 at the end of the list,
 * which ends the loops of the callers. */
static const char *next_param(const char *list, size_t *n, bool *optional) {
    while (*list == ' ') list++;
    *optional = *list == '?';
    list += *optional;
    *n = strcspn(list, " ");
    return list;
}

/* A name that a positional argument has filled already is an error, as in Python. */
static bool place_named(plait_tpl_render *r, const plait_tpl_builtin *row, const plait_tpl_str *name,
                        plait_tpl_value v, plait_tpl_call *c) {
    size_t n, i = 0;
    bool optional;
    for (const char *p = next_param(row->params, &n, &optional); n;
         p = next_param(p + n, &n, &optional), i++) {
        if (n != name->n_bytes || memcmp(p, name->bytes, n) != 0) continue;
        /* MISSING is never the value of an argument. */
        if (c->v[i].kind != PLAIT_TPL_MISSING)
            return plait_tpl_type_error(r, "%s: two values for argument '%.*s'", row->name, (int)n, p);
        c->v[i] = v;
        return true;
    }
    return plait_tpl_type_error(r, "%s: unexpected argument '%.*s'", row->name,
                                (int)(name->n_bytes < 60 ? name->n_bytes : 60), name->bytes);
}

/* The list of names is read three times instead of being kept apart: it is a dozen bytes. Rows have at most
 * PLAIT_TPL_MAX_PARAMS names. A positional argument too many is refused before names are looked at. */
static bool bind(plait_tpl_render *r, const plait_tpl_builtin *row, const plait_tpl_args *args,
                 plait_tpl_call *c) {
    size_t n, i = 0;
    bool optional;
    for (const char *p = next_param(row->params, &n, &optional); n; p = next_param(p + n, &n, &optional), i++)
        if (i < args->n_pos) c->v[i] = args->pos[i];
    if (args->n_pos > i)
        return plait_tpl_type_error(r, "%s: at most %zu arguments expected, %zu given", row->name, i,
                                    args->n_pos);
    for (size_t k = 0; k < args->n_named; k++)
        if (!place_named(r, row, args->names[k], args->named[k], c)) return false;
    i = 0;
    for (const char *p = next_param(row->params, &n, &optional); n; p = next_param(p + n, &n, &optional), i++)
        if (!optional && c->v[i].kind == PLAIT_TPL_MISSING)
            return plait_tpl_type_error(r, "%s: missing argument '%.*s'", row->name, (int)n, p);
    return true;
}

/* "*" takes the arguments as they are written: nothing is bound. */
bool plait_tpl_apply(plait_tpl_render *r, const plait_tpl_builtin *row, plait_tpl_value self,
                     const plait_tpl_args *args, plait_tpl_value *out) {
    plait_tpl_call c = {.self = self, .args = args};
    /* All, also those that the row does not have: functions ask for what they like. */
    for (size_t i = 0; i < PLAIT_TPL_MAX_PARAMS; i++) c.v[i].kind = PLAIT_TPL_MISSING;
    if (row->params[0] != '*' && !bind(r, row, args, &c)) return false;
    return row->call(r, &c, out);
}
