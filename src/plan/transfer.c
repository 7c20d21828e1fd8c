/* What a transfer moves and which way it goes. A part of a storage is a range of bytes or, where a view leaves gaps that
 * are worth leaving out, rows in up to four levels; it is cut into boxes of three dims (PLAIT_CAP_BOXES) or into rows.
 *
 * Not here: which transfers there are (segment.c), and when they may run (order.c). Invariant: the pieces of a part at
 * any values of the dims lie within [begin, end) and, in staging, next to each other in the order of the pieces. */
#include "plan/plan.h"

#include "base/size.h"
#include "op/reference.h"

#include <string.h>

/* A row is worth a piece of its own when its gap is at least this large: what a command, or a row of a box, costs at
 * the speed of a link, roughly. More commands than MAX_COMMANDS are never worth it: every run keeps them in its lists.
 */
enum { ROW_BYTES = 64, COMMAND_BYTES = 4096, MAX_COMMANDS = 4096 };

plait_plan_part plait_part_range(uint64_t begin, uint64_t end) {
    return (plait_plan_part){.begin = begin, .end = end, .bounded = -1};
}

/* ---- from a view to rows ---- */

/* One dim of a tensor by how it lies in memory. */
typedef struct axis {
    int64_t count;
    uint64_t pitch;
    bool bounded;
} axis;

/* The tensor's axes from the smallest pitch to the largest; single and repeated ones do not matter. Of quantised types
 * dim 0 counts blocks. Returns how many there are. */
static int sort_axes(const plait_graph_tensor *tensor, axis *axes) {
    const plait_operand *shape = &tensor->shape;
    int n = 0;
    for (int d = 0; d < PLAIT_MAX_RANK; d++) {
        int64_t count = d ? shape->dims[d] : shape->dims[0] / plait_dtype_block_elems(shape->dtype);
        bool bounded = tensor->outer.dim >= 0 && tensor->outer.axis == d;
        if ((count == 1 && !bounded) || shape->strides[d] == 0) continue;
        int at = n++;
        for (; at > 0 && axes[at - 1].pitch > (uint64_t)shape->strides[d]; at--) axes[at] = axes[at - 1];
        axes[at] = (axis){count, (uint64_t)shape->strides[d], bounded};
    }
    return n;
}

/* Makes rows and levels of a tensor. Axes that follow each other without a gap grow the row, as long as there is no
 * level yet and nothing bounded is in it; every other one is a level. False when the axes overlap one another, so that
 * no nest of rows shows the bytes once, or when a bounded dim 0 is cut inside of blocks.
 *
 * A bounded axis lies outermost of the tensor, not necessarily in memory: its level's count, or the row's length,
 * follows the dim at run time, while pitches and the place of rows in staging stay those of the bound. */
static bool nest(const plait_graph_tensor *tensor, plait_plan_part *part) {
    axis axes[PLAIT_MAX_RANK];
    bool in_blocks = plait_dtype_block_elems(tensor->shape.dtype) > 1;
    if (tensor->outer.dim >= 0 && tensor->outer.axis == 0 && in_blocks) return false;
    int n = sort_axes(tensor, axes);
    uint64_t inner =
        (uint64_t)plait_dtype_block_bytes(tensor->shape.dtype); /* bytes that one step goes over */
    bool open = true; /* the row can still grow: nothing bounded is in it */
    part->row_bytes = inner;
    part->outer = tensor->outer;
    for (int a = 0; a < n; a++) {
        if (axes[a].pitch < inner) return false;
        if (axes[a].pitch == inner && part->n_levels == 0 && open) {
            if (axes[a].bounded) part->bounded = PLAIT_PART_ROW, open = false;
            /* A bounded row's length is one step; the count follows from the dim. */
            if (!axes[a].bounded) part->row_bytes *= (uint64_t)axes[a].count;
        } else {
            if (axes[a].bounded) part->bounded = part->n_levels;
            part->levels[part->n_levels++] = (struct plait_part_level){axes[a].count, axes[a].pitch};
        }
        /* From the first byte of this axis to its last: what the next one must step over. */
        inner = axes[a].pitch * (uint64_t)plait_max_i64(axes[a].count - 1, 0) + inner;
    }
    return true;
}

/* At the bounds. */
static uint64_t rows_of(const plait_plan_part *part) {
    uint64_t rows = 1;
    for (int l = 0; l < part->n_levels; l++) rows *= (uint64_t)part->levels[l].count;
    return rows;
}

/* Range or rows: leaving out gaps has to win more than what the rows cost, at the bounds. */
plait_plan_part plait_part_of_tensor(const plait_graph_tensor *tensor, bool boxes) {
    uint64_t span = (uint64_t)plait_operand_span_bytes(&tensor->shape);
    plait_plan_part range = plait_part_range(tensor->offset, tensor->offset + span), part = range;
    if (span == 0 || !nest(tensor, &part) || part.n_levels == 0) return range;
    uint64_t rows = rows_of(&part), bytes = rows * part.row_bytes;
    if (part.bounded == PLAIT_PART_ROW) bytes *= (uint64_t)tensor->shape.dims[tensor->outer.axis];
    bool worth = span - bytes > rows * (boxes ? ROW_BYTES : COMMAND_BYTES);
    return worth && plait_part_pieces(&part, boxes) <= MAX_COMMANDS ? part : range;
}

/* ---- pieces ---- */

/* `dims` NULL: at the bounds. */
static int64_t level_count(const plait_plan_part *part, int level, const int64_t *dims) {
    return part->bounded == level && dims ? plait_extent_value(&part->outer, 0, dims)
                                          : part->levels[level].count;
}

/* A bounded row has row_bytes for each step of its dim. */
static uint64_t row_length(const plait_plan_part *part, const int64_t *dims, int64_t bound) {
    if (part->bounded != PLAIT_PART_ROW) return part->row_bytes;
    return part->row_bytes * (uint64_t)(dims ? plait_extent_value(&part->outer, 0, dims) : bound);
}

/* Steps of a bounded row at the bounds: what is left of the range behind the last row's begin. */
static int64_t row_bound(const plait_plan_part *part) {
    uint64_t last = part->begin;
    if (part->bounded != PLAIT_PART_ROW) return 1;
    for (int l = 0; l < part->n_levels; l++)
        last += (uint64_t)plait_max_i64(part->levels[l].count - 1, 0) * part->levels[l].pitch;
    return (int64_t)((part->end - last) / part->row_bytes);
}

uint64_t plait_part_bytes(const plait_plan_part *part) {
    if (part->rows_node) return (uint64_t)part->n_rows * rows_of(part) * part->row_bytes;
    if (part->n_levels == 0) return part->end - part->begin;
    return rows_of(part) * row_length(part, NULL, row_bound(part));
}

/* Levels that one piece covers: a box has two above the row; without boxes a piece is a row. */
static int piece_levels(const plait_plan_part *part, bool boxes) {
    return boxes ? (part->n_levels < 2 ? part->n_levels : 2) : 0;
}

size_t plait_part_pieces(const plait_plan_part *part, bool boxes) {
    size_t n = 1;
    for (int l = piece_levels(part, boxes); l < part->n_levels; l++) n *= (size_t)part->levels[l].count;
    return part->rows_node ? n * (size_t)part->n_rows : n;
}

/* Places are those at the bounds, whatever the dims are: the pieces of a transfer are commands that a run makes once,
 * so only counts and lengths may change from step to step. In staging, rows lie without gaps at their bounded length.
 */
void plait_part_piece(const plait_plan_part *part, bool boxes, size_t i, const int64_t *dims,
                      uint64_t storage_bytes, plait_box *out, uint64_t *out_offset,
                      uint64_t *out_staging_offset) {
    int within = piece_levels(part, boxes);
    uint64_t bytes = row_length(part, NULL, row_bound(part)), staged = 0, offset = part->begin;
    plait_box box = {row_length(part, dims, row_bound(part)), 1, 1, 0, 0, 0, 0};
    if (part->n_levels == 0) {
        uint64_t end = dims && storage_bytes < part->end ? storage_bytes : part->end;
        box.row_bytes = end > part->begin ? end - part->begin : 0;
    }
    box.source_row_pitch = box.source_plane_pitch = box.target_row_pitch = box.target_plane_pitch = bytes;
    if (within > 0) {
        box.n_rows = (uint64_t)level_count(part, 0, dims);
        box.source_row_pitch = part->levels[0].pitch;
        bytes *= (uint64_t)part->levels[0].count;
        box.target_plane_pitch = bytes;
    }
    if (within > 1) {
        box.n_planes = (uint64_t)level_count(part, 1, dims);
        box.source_plane_pitch = part->levels[1].pitch;
        bytes *= (uint64_t)part->levels[1].count;
    }
    for (int l = within; l < part->n_levels; l++) { /* the piece's place in the levels outside of it */
        size_t count = (size_t)part->levels[l].count, at = i % count;
        if (at >= (size_t)level_count(part, l, dims)) box.row_bytes = 0;
        offset += at * part->levels[l].pitch;
        staged += at * bytes;
        bytes *= count;
        i /= count;
    }
    *out = box;
    *out_offset = offset;
    *out_staging_offset = staged;
}

/* ---- rows by ids ---- */

/* The host writes it, and nobody else: what an op computes, or a state, is not known when the step begins. */
static bool host_knows(const plait_graph *graph, uint32_t tensor) {
    return tensor && graph->storages[graph->tensors[tensor].storage].kind == PLAIT_STORAGE_INPUT;
}

/* The part is that of one row, `rows_node` and `n_rows` say that there is one for each id. Whole is the tensor, so
 * [begin, end) is where rows may lie. Worth it when at most half of the tensor would move, at the bounds, and without
 * boxes in few enough commands, since a row's place is not known yet and boxes of several rows may not come about. */
bool plait_part_of_rows(const plait_graph *graph, uint32_t n, plait_plan_part *out) {
    const plait_graph_node *node = &graph->nodes[n];
    const plait_op *op = node->op;
    if (op->write_part != PLAIT_WRITES_ROWS || !op->rows_part) return false;
    if (!host_knows(graph, node->inputs[op->rows_input])) return false;
    const plait_graph_tensor *target = &graph->tensors[node->outputs[0]];
    plait_graph_tensor row = {.outer = {.dim = -1}};
    plait_op_use use;
    uint64_t offset;
    plait_graph_use(graph, n, NULL, &use);
    (void)op->rows_part(&use, 0, &row.shape, &offset);
    uint64_t span = (uint64_t)plait_operand_span_bytes(&target->shape);
    plait_plan_part part = plait_part_range(target->offset, target->offset + span);
    if (target->outer.dim >= 0 || !nest(&row, &part)) return false;
    part.rows_node = n + 1;
    part.n_rows = use.inputs[op->rows_input].dims[0];
    /* Rows by ids are worth it only if they are few: ids may name any rows, so nothing can be said about their gaps. */
    bool worth = 2 * plait_part_bytes(&part) <= span && plait_part_pieces(&part, false) <= MAX_COMMANDS;
    if (worth) *out = part;
    return worth;
}

/* Where the next piece goes. */
typedef struct cutter {
    const plait_plan_part *part;
    bool boxes;
    plait_box *boxes_out;
    uint64_t *offsets, *staging_offsets, staged;
    size_t n;
} cutter;

/* `length` bytes from `offset` on, in each of the part's rows. Rows that lie side by side differ from one row in length
 * only, so the part's own levels serve. */
static void cut_run(cutter *c, uint64_t offset, uint64_t length) {
    plait_plan_part run = *c->part;
    run.rows_node = 0;
    run.begin = offset;
    run.row_bytes = length;
    run.end = offset + length;
    for (size_t i = 0, n = plait_part_pieces(&run, c->boxes); i < n; i++, c->n++) {
        plait_part_piece(&run, c->boxes, i, NULL, UINT64_MAX, &c->boxes_out[c->n], &c->offsets[c->n],
                         &c->staging_offsets[c->n]);
        c->staging_offsets[c->n] += c->staged;
    }
    c->staged += length * rows_of(&run);
}

/* Called when a step begins, with the host's ids. Neighbouring ids whose rows touch become one run, up to the pitch of
 * the part's own rows: beyond it, the next would lie on the second row of the first. Pieces that are left over move
 * nothing; there are always as many as the command list has room for. */
void plait_part_row_pieces(const plait_plan_part *part, bool boxes, const plait_op_use *use,
                           uint64_t tensor_offset, plait_box *out, uint64_t *out_offsets,
                           uint64_t *out_staging_offsets) {
    cutter c = {part, boxes, out, out_offsets, out_staging_offsets, 0, 0};
    const plait_operand *ids = &use->inputs[use->op->rows_input];
    uint64_t run = 0, length = 0; /* rows next to each other, as far as the part's own rows leave room */
    uint64_t most = part->n_levels ? part->levels[0].pitch : UINT64_MAX;
    for (int64_t i = 0; i < ids->dims[0]; i++) {
        plait_operand row;
        uint64_t offset;
        /* An id that writes nothing, as for items that are left out. */
        if (!use->op->rows_part(use, plait_ref_get_id(ids, i, 0), &row, &offset)) continue;
        offset += tensor_offset;
        if (length && offset == run + length && length + part->row_bytes <= most) {
            length += part->row_bytes;
            continue;
        }
        if (length) cut_run(&c, run, length);
        run = offset;
        length = part->row_bytes;
    }
    if (length) cut_run(&c, run, length);
    for (size_t n = plait_part_pieces(part, boxes); c.n < n; c.n++) {
        out[c.n] = (plait_box){.n_rows = 1, .n_planes = 1};
        out_offsets[c.n] = part->begin;
        out_staging_offsets[c.n] = 0;
    }
}

/* ---- routes ---- */

static uint32_t queue_number(const plait_context *context, int device, bool incoming) {
    return (uint32_t)device * PLAIT_DEVICE_QUEUES +
           (uint32_t)plait_context_copy_queue(&context->devices[device], incoming);
}

/* The cheapest way first: a COPY on the reader's queue, a WRITE from mapped memory on that same queue, a COPY on the
 * source's, a READ into mapped memory; else both ways through staging. */
plait_route plait_transfer_route(const plait_context *context, int source, int target, uint32_t *out_queue) {
    const plait_context_entry *from = &context->devices[source], *to = &context->devices[target];
    bool pull = to->reaches >> source & 1u, push = from->reaches >> target & 1u;
    if (pull &&
        push) { /* whoever has an engine for it; the reader otherwise: it is what waits for the bytes */
        pull = to->n_queues > 1 || from->n_queues == 1;
        push = !pull;
    }
    bool mapped = (from->info.caps & PLAIT_CAP_MAPPED) != 0;
    *out_queue = queue_number(context, target, true);
    if (pull) return PLAIT_ROUTE_COPY;
    if (!push && mapped) return PLAIT_ROUTE_WRITE;
    *out_queue = queue_number(context, source, false);
    if (push) return PLAIT_ROUTE_COPY;
    return to->info.caps & PLAIT_CAP_MAPPED ? PLAIT_ROUTE_READ : PLAIT_ROUTE_STAGED;
}
