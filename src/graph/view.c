/* Views: tensors that address part of another tensor's storage. They are rows of the tensor table and nothing
 * else: no node, no placement, no cost.
 *
 * Invariant: every element that a view addresses is an element of its base, at every value of the named dims. */
#include "graph/build.h"

#include "base/size.h"

static plait_tensor add_view(plait_graph *graph, uint32_t base, plait_graph_tensor *row, const char *what,
                             plait_status status) {
    plait_tensor tensor = PLAIT_NO_TENSOR;
    row->base = base;
    if (status == PLAIT_OK) status = plait_graph_add_tensor(graph, row, &tensor.id);
    if (status == PLAIT_OK) return tensor;
    const char *name = graph->storages[graph->tensors[base].storage].name;
    return plait_graph_fail(graph, plait_error_context(status, "%s of \"%s\"", what, name));
}

/* The row to view, or NULL with the error remembered when the graph takes calls at all. */
static const plait_graph_tensor *viewed(plait_graph *graph, plait_tensor x, const char *what) {
    if (plait_graph_closed(graph)) return NULL;
    const plait_graph_tensor *row = plait_graph_row(graph, x);
    if (!row)
        plait_graph_fail(
            graph, plait_error(PLAIT_INVALID_ARGUMENT, "%s: %u is not a tensor of this graph", what, x.id));
    return row;
}

/* ---- reshape ---- */

/* Both sides must have as many elements for every value of the dim, not just at its bound. */
static plait_status check_extents(const plait_graph_tensor *old, const int64_t *dims,
                                  const plait_extent *outer) {
    if (old->outer.dim < 0 && outer->dim < 0) return PLAIT_OK;
    if (old->outer.dim != outer->dim) return plait_error(PLAIT_INVALID_ARGUMENT, "the bounded dim changes");
    int64_t inner_old = 1, inner_new = 1;
    for (int i = 0; i < PLAIT_MAX_RANK; i++) {
        if (i != old->outer.axis) inner_old *= old->shape.dims[i];
        if (i != outer->axis) inner_new *= dims[i];
    }
    bool equal = inner_old == inner_new && plait_extent_equal(&old->outer, outer);
    bool scaled = old->outer.c == 1 && outer->c == 1 && inner_old * old->outer.a == inner_new * outer->a &&
                  inner_old * old->outer.b == inner_new * outer->b;
    if (equal || scaled) return PLAIT_OK;
    return plait_error(PLAIT_INVALID_ARGUMENT,
                       "the number of elements would not be the same for every value of the bounded dim");
}

/* Strides of the new dims over the old memory: runs of old dims that are dense together are cut anew. */
static bool reshape_strides(const plait_operand *old, plait_operand *now) {
    int64_t block = plait_dtype_block_elems(old->dtype);
    int i = 0, j = 0;
    while (i < PLAIT_MAX_RANK || j < PLAIT_MAX_RANK) {
        int64_t a = i < PLAIT_MAX_RANK ? old->dims[i] : 1, b = j < PLAIT_MAX_RANK ? now->dims[j] : 1;
        int i0 = i, j0 = j;
        i++, j++;
        while (a != b) {
            if (a < b && i < PLAIT_MAX_RANK)
                a *= old->dims[i++];
            else if (b < a && j < PLAIT_MAX_RANK)
                b *= now->dims[j++];
            else
                return false;
        }
        int64_t unit = i0 == 0 ? block : 1;
        for (int k = i0 + 1; k < i && k < PLAIT_MAX_RANK; k++) {
            int64_t dense = old->strides[k - 1] * (old->dims[k - 1] / (k - 1 == 0 ? block : 1));
            if (old->dims[k] != 1 && old->strides[k] != dense) return false;
        }
        int64_t stride = i0 < PLAIT_MAX_RANK ? old->strides[i0] : 0;
        for (int k = j0; k < j && k < PLAIT_MAX_RANK; k++) {
            if (k == 0 && now->dims[0] % block != 0) return false;
            now->strides[k] = stride;
            stride *= k == j0 && unit > 1 ? now->dims[k] / unit : now->dims[k];
        }
    }
    return true;
}

static plait_status reshape(const plait_graph *graph, const plait_graph_tensor *old, plait_shape shape,
                            plait_graph_tensor *row) {
    *row = *old;
    row->rank = shape.rank;
    PLAIT_TRY(plait_graph_shape(graph, shape, row->shape.dims, &row->outer));
    int64_t elems = plait_operand_elems(&row->shape);
    if (elems != plait_operand_elems(&old->shape))
        return plait_error(
            PLAIT_INVALID_ARGUMENT, "[%lld, %lld, %lld, %lld] has %lld elements, expected %lld",
            (long long)row->shape.dims[0], (long long)row->shape.dims[1], (long long)row->shape.dims[2],
            (long long)row->shape.dims[3], (long long)elems, (long long)plait_operand_elems(&old->shape));
    PLAIT_TRY(check_extents(old, row->shape.dims, &row->outer));
    if (plait_operand_is_dense(&old->shape) || elems == 0)
        return plait_operand_make_dense(&row->shape)
                   ? PLAIT_OK
                   : plait_error(PLAIT_INVALID_ARGUMENT, "dim 0 is %lld, no whole number of %s blocks",
                                 (long long)row->shape.dims[0], plait_dtype_name(old->shape.dtype));
    if (!reshape_strides(&old->shape, &row->shape))
        return plait_error(PLAIT_INVALID_ARGUMENT,
                           "the memory is not dense over the dims that change; copy it first");
    return PLAIT_OK;
}

plait_tensor plait_reshape(plait_graph *graph, plait_tensor x, plait_shape shape) {
    plait_graph_tensor row;
    const plait_graph_tensor *old = viewed(graph, x, "reshape");
    if (!old) return PLAIT_NO_TENSOR;
    plait_status status = reshape(graph, old, shape, &row);
    return add_view(graph, x.id, &row, "reshape", status);
}

/* ---- slice ---- */

static plait_status slice(const plait_graph_tensor *old, int axis, int64_t start, int64_t size,
                          plait_graph_tensor *row) {
    *row = *old;
    if (axis < 0 || axis >= PLAIT_MAX_RANK)
        return plait_error(PLAIT_INVALID_ARGUMENT, "axis %d, expected 0 to 3", axis);
    int64_t dim = old->shape.dims[axis], unit = axis == 0 ? plait_dtype_block_elems(old->shape.dtype) : 1;
    if (old->outer.dim >= 0 && old->outer.axis == axis)
        return plait_error(PLAIT_INVALID_ARGUMENT, "dim %d is bounded and cannot be cut; use get_rows", axis);
    if (start < 0 || size < 0 || start > dim || size > dim - start)
        return plait_error(PLAIT_OUT_OF_RANGE, "[%lld, %lld + %lld) of dim %d, which is %lld",
                           (long long)start, (long long)start, (long long)size, axis, (long long)dim);
    if (start % unit || size % unit)
        return plait_error(PLAIT_INVALID_ARGUMENT,
                           "[%lld, %lld + %lld) of dim 0 cuts a block of %lld elements", (long long)start,
                           (long long)start, (long long)size, (long long)unit);
    row->shape.dims[axis] = size;
    row->offset += (uint64_t)(start / unit) * (uint64_t)old->shape.strides[axis];
    return PLAIT_OK;
}

plait_tensor plait_slice(plait_graph *graph, plait_tensor x, int axis, int64_t start, int64_t size) {
    plait_graph_tensor row;
    const plait_graph_tensor *old = viewed(graph, x, "slice");
    if (!old) return PLAIT_NO_TENSOR;
    plait_status status = slice(old, axis, start, size, &row);
    return add_view(graph, x.id, &row, "slice", status);
}

/* ---- permute ---- */

static plait_status permute(const plait_graph_tensor *old, const int *order, plait_graph_tensor *row) {
    *row = *old;
    unsigned seen = 0;
    for (int i = 0; i < PLAIT_MAX_RANK; i++) {
        if (order[i] < 0 || order[i] >= PLAIT_MAX_RANK || (seen >> order[i] & 1u))
            return plait_error(PLAIT_INVALID_ARGUMENT, "order [%d, %d, %d, %d] is no permutation", order[0],
                               order[1], order[2], order[3]);
        seen |= 1u << order[i];
        row->shape.dims[i] = old->shape.dims[order[i]];
        row->shape.strides[i] = old->shape.strides[order[i]];
        if (old->outer.dim >= 0 && order[i] == old->outer.axis) row->outer.axis = i;
    }
    if (order[0] != 0 && plait_dtype_quantised(old->shape.dtype))
        return plait_error(PLAIT_INVALID_ARGUMENT, "dim 0 of a quantised type (%s) must stay",
                           plait_dtype_name(old->shape.dtype));
    for (int i = row->outer.axis + 1; row->outer.dim >= 0 && i < PLAIT_MAX_RANK; i++)
        if (row->shape.dims[i] != 1)
            return plait_error(PLAIT_INVALID_ARGUMENT, "the bounded dim must stay outermost");
    row->rank = plait_graph_rank(row->shape.dims, &row->outer);
    return PLAIT_OK;
}

plait_tensor plait_permute(plait_graph *graph, plait_tensor x, const int order[PLAIT_MAX_RANK]) {
    plait_graph_tensor row;
    const plait_graph_tensor *old = viewed(graph, x, "permute");
    if (!old) return PLAIT_NO_TENSOR;
    plait_status status = permute(old, order, &row);
    return add_view(graph, x.id, &row, "permute", status);
}
