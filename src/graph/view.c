/* Views: tensors that address part of another tensor's storage. They are rows of the tensor table and nothing else: no
 * node, no placement, no cost. Not here: copying what cannot be viewed, which is an op that the caller asks for.
 *
 * A view of a view names its base, but its offset is from the storage's start, so nobody ever walks the chain.
 *
 * Invariant: every element that a view addresses is an element of its base, at every value of the named dims. */
#include "graph/build.h"

#include "base/size.h"

/* The row keeps node, output and storage of what it views: it shows the same value. */
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

/* Both sides must have as many elements for every value of the dim, not just at its bound. Two ways are known to be
 * equal for all n: the same extent over as many elements, or, without divisors, products of inner elements and
 * coefficients that are equal. Others might be, and are refused. */
static plait_status check_extents(const plait_graph_tensor *old, const int64_t *dims,
                                  const plait_extent *outer) {
    if (old->outer.dim < 0 && outer->dim < 0) return PLAIT_OK;
    if (old->outer.dim != outer->dim) return plait_error(PLAIT_INVALID_ARGUMENT, "the bounded dim changes");
    int64_t inner_old = 1, inner_new = 1, old_a, old_b, new_a, new_b;
    bool fits = true;
    for (int i = 0; i < PLAIT_MAX_RANK; i++) {
        if (i != old->outer.axis) fits &= !__builtin_mul_overflow(inner_old, old->shape.dims[i], &inner_old);
        if (i != outer->axis) fits &= !__builtin_mul_overflow(inner_new, dims[i], &inner_new);
    }
    bool equal = fits && inner_old == inner_new && plait_extent_equal(&old->outer, outer);
    bool scaled = fits && old->outer.c == 1 && outer->c == 1 &&
                  !__builtin_mul_overflow(inner_old, old->outer.a, &old_a) &&
                  !__builtin_mul_overflow(inner_old, old->outer.b, &old_b) &&
                  !__builtin_mul_overflow(inner_new, outer->a, &new_a) &&
                  !__builtin_mul_overflow(inner_new, outer->b, &new_b) && old_a == new_a && old_b == new_b;
    if (equal || scaled) return PLAIT_OK;
    return plait_error(PLAIT_INVALID_ARGUMENT,
                       "the number of elements would not be the same for every value of the bounded dim");
}

/* Strides of the new dims over the old memory: runs of old dims that are dense together are cut anew. False when a run
 * is not dense, so that the elements cannot be reached by strides.
 *
 * Both lists of dims are walked from the innermost; each round takes the shortest run of old dims [i0, i) and of new
 * ones [j0, j) with equal products. Inside an old run every stride must be the product of what is below it; the new
 * strides then follow from the first. Dim 0 of quantised types counts in blocks (`unit`). */
static bool reshape_strides(const plait_operand *old, plait_operand *now) {
    int64_t block = plait_dtype_block_elems(old->dtype);
    int i = 0, j = 0;
    while (i < PLAIT_MAX_RANK || j < PLAIT_MAX_RANK) {
        int64_t a = i < PLAIT_MAX_RANK ? old->dims[i] : 1, b = j < PLAIT_MAX_RANK ? now->dims[j] : 1;
        int i0 = i, j0 = j;
        i++, j++;
        /* Until both runs have as many elements. */
        while (a != b) {
            if (a < b && i < PLAIT_MAX_RANK)
                a *= old->dims[i++];
            else if (b < a && j < PLAIT_MAX_RANK)
                b *= now->dims[j++];
            else
                return false;
        }
        /* Strides of dim 0 step over blocks, of other dims over single places. */
        int64_t unit = i0 == 0 ? block : 1;
        /* The run is dense if each dim begins where the one below it ends; a dim of one element may have any stride. */
        for (int k = i0 + 1; k < i && k < PLAIT_MAX_RANK; k++) {
            int64_t dense = old->strides[k - 1] * (old->dims[k - 1] / (k - 1 == 0 ? block : 1));
            if (old->dims[k] != 1 && old->strides[k] != dense) return false;
        }
        int64_t stride =
            i0 < PLAIT_MAX_RANK ? old->strides[i0] : now->strides[j0 - 1]; /* of dims of size 1 */
        for (int k = j0; k < j && k < PLAIT_MAX_RANK; k++) {
            if (k == 0 && now->dims[0] % block != 0) return false;
            now->strides[k] = stride;
            stride *= k == j0 && unit > 1 ? now->dims[k] / unit : now->dims[k];
        }
    }
    return true;
}

/* A dense tensor may take any shape of as many elements; others only if their memory allows it. Nothing is ever copied
 * to make it fit. */
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

/* At 0 elements the offset stays, so that an empty slice at the end lies inside of the storage. A bounded dim cannot be
 * cut: where the cut lies would change with its value. */
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
    /* An empty slice addresses nothing; its offset stays inside the storage. */
    if (size > 0) row->offset += (uint64_t)(start / unit) * (uint64_t)old->shape.strides[axis];
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

/* Axes move with their strides. The bounded dim must stay outermost, as everywhere, and blocks of quantised types lie
 * along dim 0. */
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

/* ---- the general form ---- */

/* The view's last byte lies inside the storage when the named dim has this value. The extents of view and storage
 * follow the same named dim, the caller has seen to that. */
static bool inside_at(const plait_graph_tensor *root, const plait_graph_tensor *row, int64_t value) {
    plait_operand whole = root->shape, part = row->shape;
    int64_t values[PLAIT_GRAPH_MAX_DIMS] = {0}, end;
    values[root->outer.dim] = value;
    whole.dims[root->outer.axis] = plait_extent_value(&root->outer, 0, values);
    part.dims[row->outer.axis] = plait_extent_value(&row->outer, 0, values);
    int64_t span = plait_operand_span_bytes(&part);
    return span == 0 || (span > 0 && !__builtin_add_overflow(span, (int64_t)row->offset, &end) &&
                         end <= plait_operand_span_bytes(&whole));
}

/* Both outermost strides cover the same bytes for each step of the named dim. */
static bool proportional(const plait_graph_tensor *root, const plait_graph_tensor *row) {
    int64_t stride = row->shape.strides[row->outer.axis], root_stride = root->shape.strides[root->outer.axis];
    int64_t a, b, root_a, root_b;
    if (plait_extent_equal(&row->outer, &root->outer))
        return stride == root_stride || root->shape.dims[root->outer.axis] <= 1;
    return row->outer.c == 1 && root->outer.c == 1 && !__builtin_mul_overflow(stride, row->outer.a, &a) &&
           !__builtin_mul_overflow(stride, row->outer.b, &b) &&
           !__builtin_mul_overflow(root_stride, root->outer.a, &root_a) &&
           !__builtin_mul_overflow(root_stride, root->outer.b, &root_b) && a == root_a && b == root_b;
}

/* True when at every value of the bounded dim the view addresses bytes that exist at that value: looked at one by one
 * when the values are few; otherwise its bounded dim must move through memory as that of the whole storage does, and
 * what lies inside one step must stay inside. Bounds of up to FEW values, or extents that do not depend on the dim, are
 * proved by looking; the general rule is sufficient, not necessary. */
static bool moves_with(const plait_graph *graph, const plait_graph_tensor *root,
                       const plait_graph_tensor *row) {
    enum { FEW = 16 };
    if (root->outer.dim < 0 && row->outer.dim < 0) return true;
    if (root->outer.dim != row->outer.dim) return false;
    int64_t bound = graph->dims[root->outer.dim].bound;
    bool constant = root->outer.a == 0 && row->outer.a == 0;
    if (bound <= FEW || constant) {
        for (int64_t n = 0; n <= (constant ? 0 : bound); n++)
            if (!inside_at(root, row, n)) return false;
        return true;
    }
    plait_operand inner = row->shape;
    inner.dims[row->outer.axis] = 1;
    int64_t span = plait_operand_span_bytes(&inner), end;
    return proportional(root, row) && span >= 0 &&
           !__builtin_add_overflow(span, (int64_t)row->offset, &end) &&
           (end <= row->shape.strides[row->outer.axis] || root->shape.dims[root->outer.axis] <= 1);
}

/* Whole blocks or elements apart, no two places along a dim the same. */
static plait_status check_strides(const plait_operand *shape, int64_t offset) {
    int64_t block = plait_dtype_block_bytes(shape->dtype);
    bool whole = offset % block == 0;
    for (int d = 0; d < PLAIT_MAX_RANK; d++)
        whole = whole && shape->strides[d] > 0 && shape->strides[d] % block == 0;
    if (plait_dtype_quantised(shape->dtype)) whole = whole && shape->strides[0] == block;
    if (!whole)
        return plait_error(
            PLAIT_INVALID_ARGUMENT,
            "strides [%lld, %lld, %lld, %lld], offset %lld: expected multiples of the %lld bytes "
            "of %s, above 0",
            (long long)shape->strides[0], (long long)shape->strides[1], (long long)shape->strides[2],
            (long long)shape->strides[3], (long long)offset, (long long)block,
            plait_dtype_name(shape->dtype));
    return PLAIT_OK;
}

/* What the special forms guarantee by how they are made is checked here from the numbers: whole blocks, no more
 * elements than the base, all of them inside the base's bytes, and at every value of the named dim. */
static plait_status general(const plait_graph *graph, const plait_graph_tensor *base, plait_shape shape,
                            const int64_t *strides, int64_t offset, plait_graph_tensor *row) {
    const plait_graph_tensor *root = &graph->tensors[graph->storages[base->storage].root];
    *row = *base;
    row->rank = shape.rank;
    PLAIT_TRY(plait_graph_shape(graph, shape, row->shape.dims, &row->outer));
    for (int d = 0; d < PLAIT_MAX_RANK; d++) row->shape.strides[d] = strides[d];
    if (row->outer.dim >= 0 && row->outer.axis == 0 && plait_dtype_quantised(row->shape.dtype))
        return plait_error(PLAIT_INVALID_ARGUMENT, "dim 0 of a quantised type (%s) cannot be bounded",
                           plait_dtype_name(row->shape.dtype));
    int64_t elems = plait_operand_elems(&row->shape), base_elems = plait_operand_elems(&base->shape);
    if (elems < 0 || elems > base_elems)
        return plait_error(PLAIT_INVALID_ARGUMENT, "a view of %lld elements, its base has %lld",
                           (long long)elems, (long long)base_elems);
    if (offset < 0) return plait_error(PLAIT_OUT_OF_RANGE, "offset %lld", (long long)offset);
    PLAIT_TRY(check_strides(&row->shape, offset));
    row->offset = (uint64_t)offset;
    int64_t span = plait_operand_span_bytes(&row->shape), end = 0;
    uint64_t base_end = base->offset + (uint64_t)plait_operand_span_bytes(&base->shape);
    bool fits = span >= 0 && !__builtin_add_overflow(span, offset, &end) && row->offset >= base->offset;
    if (!fits || (uint64_t)end > base_end)
        return plait_error(PLAIT_OUT_OF_RANGE, "bytes [%lld, +%lld) of \"%s\", but its base has [%llu, %llu)",
                           (long long)offset, (long long)span, graph->storages[base->storage].name,
                           (unsigned long long)base->offset, (unsigned long long)base_end);
    bool bounded = row->outer.dim >= 0 || root->outer.dim >= 0;
    bool moves =
        row->outer.dim == base->outer.dim && (elems == 0 || !bounded || moves_with(graph, root, row));
    return moves ? PLAIT_OK
                 : plait_error(PLAIT_INVALID_ARGUMENT, "its bounded dim does not move as that of \"%s\" does",
                               graph->storages[base->storage].name);
}

plait_tensor plait_graph_view(plait_graph *graph, plait_tensor base, plait_shape shape,
                              const int64_t strides[PLAIT_MAX_RANK], int64_t offset) {
    plait_graph_tensor row;
    const plait_graph_tensor *old = viewed(graph, base, "view");
    if (!old) return PLAIT_NO_TENSOR;
    plait_status status = general(graph, old, shape, strides, offset, &row);
    return add_view(graph, base.id, &row, "view", status);
}
