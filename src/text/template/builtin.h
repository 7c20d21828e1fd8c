/* The functions that templates can call: filters, tests, methods of values, and globals. Each is a row of a table with
 * its parameters by name; plait_tpl_apply sorts the arguments of a call into them. */
#ifndef PLAIT_TEXT_TEMPLATE_BUILTIN_H
#define PLAIT_TEXT_TEMPLATE_BUILTIN_H

#include "text/template/string.h"

enum { PLAIT_TPL_MAX_PARAMS = 6 };

/* A call in progress: the value in front of the bar or dot, the parameters in order (kind MISSING where none was
 * given), and the arguments as written, for functions that take any number. */
typedef struct plait_tpl_call {
    plait_tpl_value self;
    plait_tpl_value v[PLAIT_TPL_MAX_PARAMS];
    const plait_tpl_args *args;
} plait_tpl_call;

typedef bool (*plait_tpl_fn)(plait_tpl_render *r, const plait_tpl_call *c, plait_tpl_value *out);

struct plait_tpl_builtin {
    const char *name;
    /* Names separated by spaces; a '?' in front makes one optional; "*" alone: any arguments, left in args. */
    const char *params;
    plait_tpl_fn call;
};

/* Rows by name; NULL when there is none. */
const plait_tpl_builtin *plait_tpl_find_filter(const plait_tpl_str *name);
const plait_tpl_builtin *plait_tpl_find_test(const plait_tpl_str *name);
const plait_tpl_builtin *plait_tpl_find_method(plait_tpl_kind kind, const plait_tpl_str *name);
const plait_tpl_builtin *plait_tpl_find_global(const plait_tpl_str *name);

/* Calls a row with evaluated arguments. */
bool plait_tpl_apply(plait_tpl_render *r, const plait_tpl_builtin *row, plait_tpl_value self,
                     const plait_tpl_args *args, plait_tpl_value *out);

/* The tables, each ended by a row without name. */
extern const plait_tpl_builtin plait_tpl_filters_text[], plait_tpl_filters_list[], plait_tpl_filters_value[],
    plait_tpl_filters_wrap[], plait_tpl_tests[];
extern const plait_tpl_builtin plait_tpl_methods_str_parts[], plait_tpl_methods_str_case[],
    plait_tpl_methods_list[], plait_tpl_methods_tuple[], plait_tpl_methods_dict[], plait_tpl_methods_number[],
    plait_tpl_methods_cycler[], plait_tpl_methods_loop[];

/* What evaluation offers to built-in functions. */

/* v.name and v[key] as templates mean them; what is not there is an undefined value. */
bool plait_tpl_get_attribute(plait_tpl_render *r, plait_tpl_value v, const plait_tpl_str *name,
                             plait_tpl_value *out);
bool plait_tpl_get_item(plait_tpl_render *r, plait_tpl_value v, plait_tpl_value key, plait_tpl_value *out);
/* Calls any callable value. */
bool plait_tpl_call_value(plait_tpl_render *r, plait_tpl_value callee, const plait_tpl_args *args,
                          plait_tpl_value *out);
/* a + b. */
bool plait_tpl_add(plait_tpl_render *r, plait_tpl_value a, plait_tpl_value b, plait_tpl_value *out);
/* v[start:stop:step]; MISSING or None for what is left out. */
bool plait_tpl_slice(plait_tpl_render *r, plait_tpl_value v, plait_tpl_value start, plait_tpl_value stop,
                     plait_tpl_value step, plait_tpl_value *out);

/* Shared between filters and methods. */
bool plait_tpl_center(plait_tpl_render *r, const plait_tpl_str *s, int64_t width, uint32_t fill, char align,
                      plait_tpl_value *out);
bool plait_tpl_range_new(plait_tpl_render *r, int64_t start, int64_t stop, int64_t step,
                         plait_tpl_value *out);
/* Python's slice.indices: clamps to a length. */
void plait_tpl_clamp(int64_t length, int64_t *start, int64_t *stop);

#endif
