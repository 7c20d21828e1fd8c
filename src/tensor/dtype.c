/* The table of element types. Not here: what a type's bits mean (quant/). Invariant: one row a line of
 * PLAIT_DTYPE_LIST, indexed by GGUF number; numbers between that are no types have rows of zeros, whose name is
 * NULL. */
#include "plait/types.h"

#include "base/size.h"
#include "base/status.h"
#include "base/strbuf.h"

#include <strings.h>

/* block_elems and block_bytes are both 1 or more in every row that has a name. */
typedef struct dtype_row {
    const char *name;
    int block_elems, block_bytes;
} dtype_row;

static const dtype_row rows[PLAIT_DTYPE_LIMIT] = {
#define DTYPE_ROW(name, number, elems, bytes) [number] = {#name, elems, bytes},
    PLAIT_DTYPE_LIST(DTYPE_ROW)
#undef DTYPE_ROW
};

/* Never NULL, so that callers ask for a field without asking first whether the number is known. A number from a file is
 * passed as it stands, negative ones too. */
static const dtype_row *row_of(int number) {
    static const dtype_row none = {0};
    return number >= 0 && number < PLAIT_DTYPE_LIMIT ? &rows[number] : &none;
}

bool plait_dtype_known(int number) {
    return row_of(number)->name != NULL;
}

const char *plait_dtype_name(plait_dtype dtype) {
    const char *name = row_of((int)dtype)->name;
    return name ? name : "unknown";
}

/* The message lists all names, in the order of their numbers; the list is bounded by the size of the error record.
 * Running out of memory shortens the list and changes nothing else: the answer is NOT_FOUND all the same. */
plait_status plait_dtype_parse(const char *name, plait_dtype *out_dtype) {
    plait_strbuf known;
    plait_strbuf_init(&known, PLAIT_ERROR_BYTES);
    for (int i = 0; i < PLAIT_DTYPE_LIMIT; i++) {
        if (!rows[i].name) continue;
        if (strcasecmp(rows[i].name, name) == 0) {
            plait_strbuf_deinit(&known);
            *out_dtype = (plait_dtype)i;
            return PLAIT_OK;
        }
        plait_strbuf_printf(&known, " %s", rows[i].name);
    }
    plait_status status =
        plait_error(PLAIT_NOT_FOUND, "unknown type \"%s\"; known are:%s", name, plait_strbuf_text(&known));
    plait_strbuf_deinit(&known);
    return status;
}

int64_t plait_dtype_block_elems(plait_dtype dtype) {
    return row_of((int)dtype)->block_elems;
}

int64_t plait_dtype_block_bytes(plait_dtype dtype) {
    return row_of((int)dtype)->block_bytes;
}

bool plait_dtype_quantised(plait_dtype dtype) {
    return row_of((int)dtype)->block_elems > 1;
}

/* block_elems of an unknown number is 0: asked before the division. -1 also where n_elems is no whole number of blocks:
 * rows are never padded. */
int64_t plait_dtype_row_bytes(plait_dtype dtype, int64_t n_elems) {
    const dtype_row *row = row_of((int)dtype);
    int64_t bytes;
    if (!row->name || n_elems < 0 || n_elems % row->block_elems != 0) return -1;
    if (__builtin_mul_overflow(n_elems / row->block_elems, (int64_t)row->block_bytes, &bytes)) return -1;
    return bytes;
}
