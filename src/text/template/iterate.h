/* Running over the items of a value: for loops, filters, unpacking, `in`. Lazy filters (map, select, ...) compute an
 * item when it is asked for, as Python's generators do. */
#ifndef PLAIT_TEXT_TEMPLATE_ITERATE_H
#define PLAIT_TEXT_TEMPLATE_ITERATE_H

#include "text/template/value.h"

/* Computes what a lazy filter makes of an item: 1 *out is the next item, 0 skip it, -1 failed. */
typedef int (*plait_tpl_stage_fn)(plait_tpl_render *r, void *state, plait_tpl_value item,
                                  plait_tpl_value *out);

struct plait_tpl_iter {
    plait_tpl_value source;
    size_t position; /* item number; for strings a byte; for ranges and reversed sources items done */
    bool reversed;
    plait_tpl_iter *shared;   /* the source is itself an iterator: its position moves for everybody */
    plait_tpl_stage_fn stage; /* NULL: items as they are */
    void *state;
};

/* Prepares to run over v; fails when it is not iterable. *out points into v. */
bool plait_tpl_iterate(plait_tpl_render *r, plait_tpl_value v, plait_tpl_iter *out);
/* 1: *out is the next item; 0: no more; -1: failed. */
int plait_tpl_next(plait_tpl_render *r, plait_tpl_iter *it, plait_tpl_value *out);

/* A value that runs over v through `stage` once. That v is not iterable shows when the first item is asked for. */
bool plait_tpl_lazy(plait_tpl_render *r, plait_tpl_value v, plait_tpl_stage_fn stage, void *state,
                    plait_tpl_value *out);
/* reversed(v) for sequences and dicts. */
bool plait_tpl_reversed(plait_tpl_render *r, plait_tpl_value v, plait_tpl_value *out);

/* loop.length: reads the rest of a lazy source. */
bool plait_tpl_loop_length(plait_tpl_render *r, plait_tpl_loop *loop, int64_t *out);

#endif
