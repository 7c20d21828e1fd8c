/* The table of block formats. Invariant: one entry a line of PLAIT_DTYPE_LIST, indexed by GGUF number, each with
 * both functions (a missing format does not link). */
#include "tensor/quant/quant.h"

#define QUANT_DECLARE(name, number, elems, bytes) extern const plait_quant plait_quant_##name;
PLAIT_DTYPE_LIST(QUANT_DECLARE)
#undef QUANT_DECLARE

static const plait_quant *const formats[PLAIT_DTYPE_LIMIT] = {
#define QUANT_ROW(name, number, elems, bytes) [number] = &plait_quant_##name,
    PLAIT_DTYPE_LIST(QUANT_ROW)
#undef QUANT_ROW
};

const plait_quant *plait_quant_of(plait_dtype dtype) {
    return (int)dtype >= 0 && (int)dtype < PLAIT_DTYPE_LIMIT ? formats[dtype] : NULL;
}
