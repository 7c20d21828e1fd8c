/* The command lists of a run: for every queue and each place one list, made from the plan's steps. What differs between
 * steps is read through pointers: sizes, dims, values of signals and waits.
 *
 * Order between queues is what the plan says and plan/verify_queues.c has proved: a command's waits come before it, its
 * signal behind it.
 *
 * Invariant: the lists are constant, except that they are filled anew when an arena of the context was replaced. */
#include "run/run.h"

#include "base/alloc.h"
#include "base/status.h"

#include <stdlib.h>

/* ---- pieces of transfers ---- */

static bool boxes_on(const plait_plan *plan, int device) {
    return (plan->context->devices[device].info.caps & PLAIT_CAP_BOXES) != 0;
}

static bool is_transfer(const plait_plan_step *step) {
    return step->kind == PLAIT_STEP_MOVE || step->kind == PLAIT_STEP_SEND || step->kind == PLAIT_STEP_RECEIVE;
}

/* Commands that move something in a step. */
static size_t pieces_of(const plait_plan *plan, const plait_plan_step *step) {
    if (!is_transfer(step)) return 1;
    return plait_part_pieces(&plan->transfers[step->item].part, boxes_on(plan, step->device));
}

/* The box with the pitches of the two sides as the step's command has them. A part speaks of storage and staging, a
 * command of source and target. */
static plait_box turn_box(const plait_plan_step *step, plait_box box) {
    plait_box turned = box;
    if (step->kind == PLAIT_STEP_SEND) return box; /* from the storage to staging */
    turned.target_row_pitch = box.source_row_pitch;
    turned.target_plane_pitch = box.source_plane_pitch;
    if (step->kind == PLAIT_STEP_MOVE) return turned; /* both sides are the storage's */
    turned.source_row_pitch = box.target_row_pitch;
    turned.source_plane_pitch = box.target_plane_pitch;
    return turned;
}

/* The i-th piece of a transfer step at the given dims. `dims` NULL: at the bounds. */
static plait_box piece_of(const plait_plan *plan, const plait_plan_step *step, size_t i, const int64_t *dims,
                          uint64_t storage_bytes, uint64_t *out_offset, uint64_t *out_staging_offset) {
    plait_box box;
    plait_part_piece(&plan->transfers[step->item].part, boxes_on(plan, step->device), i, dims, storage_bytes,
                     &box, out_offset, out_staging_offset);
    return turn_box(step, box);
}

/* ---- commands ---- */

/* What a command is made for: a run and one of its places. */
typedef struct filler {
    plait_run *run;
    int place;
    plait_run_place *at;
} filler;

/* Bytes of a value, from `offset` on, in the buffer of its slot; a value lies in one chunk of the arena, so cutting its
 * beginning is enough. */
static plait_region value_region(const filler *f, uint32_t value, uint64_t offset, uint64_t size) {
    const plait_plan_value *row = &f->run->plan->values[value];
    uint32_t slot = row->slot;
    uint64_t at = row->offset;
    plait_plan_cut(f->run->plan, row->device, &slot, &at);
    return (plait_region){f->at->slots[row->device][slot], at + offset, size};
}

/* Behind the room for hand-over. The list was sized for all that can be added. */
static plait_command *add_command(plait_run_list *list, plait_command_kind kind) {
    plait_command *c = &list->commands[list->room + list->n_commands++];
    *c = (plait_command){.kind = kind};
    return c;
}

/* Nothing for what has no bytes even at the bounds: its slot may have no buffer. */
static void add_transfer(plait_run_list *list, plait_command_kind kind, plait_region region, void *host,
                         const uint64_t *size_bytes, const plait_box *box, plait_launch_trace *trace) {
    if (region.size_bytes == 0) return;
    plait_command *c = add_command(list, kind);
    c->transfer.trace = trace;
    c->transfer.region = region;
    c->transfer.host = host;
    c->transfer.size_bytes = size_bytes;
    c->transfer.box = box;
}

/* Where the host finds bytes of a mapped value. */
static void *host_address(plait_region region) {
    return region.size_bytes ? (uint8_t *)region.buffer->host + region.offset : NULL;
}

/* Each place has its own part of the staging, each transfer its own range in that. */
static uint8_t *staging_address(const filler *f, const plait_plan_transfer *transfer, uint64_t staged) {
    return f->run->transfer_staging.bytes + (uint64_t)f->place * f->run->plan->transfer_staging_bytes +
           transfer->staging_offset + staged;
}

/* One piece of a transfer: `bytes` at most, from its offset in the storage on. The region is as large as the piece at
 * the bounds; what a step really moves of it is in `size` or in the box, both read when the command runs. With boxes
 * the region spans all rows; without, a piece is one row. */
static void add_piece(const filler *f, size_t s, plait_run_list *list, const plait_box *piece,
                      uint64_t offset, uint64_t staged, uint64_t bytes) {
    const plait_plan_step *step = &f->run->plan->steps[s];
    plait_launch_trace *trace = plait_run_trace_of_step(f->run, f->place, s);
    const plait_plan_transfer *transfer = &f->run->plan->transfers[step->item];
    /* With boxes a command moves what the box says, else as many bytes as `size` says; a range of bytes needs no box.
     */
    bool rows = transfer->part.n_levels > 0 && boxes_on(f->run->plan, step->device);
    const plait_box *box = rows ? piece : NULL;
    const uint64_t *size = rows ? NULL : &piece->row_bytes;
    plait_region source = value_region(f, transfer->source, offset, bytes);
    plait_region target = value_region(f, transfer->target, offset, bytes);
    uint8_t *staging = staging_address(f, transfer, staged);
    if (step->kind == PLAIT_STEP_SEND) {
        add_transfer(list, PLAIT_COMMAND_READ, source, staging, size, box, trace);
    } else if (step->kind == PLAIT_STEP_RECEIVE) {
        add_transfer(list, PLAIT_COMMAND_WRITE, target, staging, size, box, trace);
    } else if (transfer->route == PLAIT_ROUTE_READ) {
        add_transfer(list, PLAIT_COMMAND_READ, source, host_address(target), size, box, trace);
    } else if (transfer->route == PLAIT_ROUTE_WRITE) {
        add_transfer(list, PLAIT_COMMAND_WRITE, target, host_address(source), size, box, trace);
    } else if (bytes) {
        plait_command *c = add_command(list, PLAIT_COMMAND_COPY);
        c->copy.source = source;
        c->copy.target = target;
        c->copy.size_bytes = size;
        c->copy.box = box;
        c->copy.trace = trace;
    }
}

/* Rows by ids may lie anywhere in the part; where they do, a step says. Until then the region is all of the part.
 * `moves` remembers the commands for that. */
static void add_row_pieces(const filler *f, size_t s, plait_run_list *list) {
    const plait_plan_step *step = &f->run->plan->steps[s];
    const plait_plan_part *part = &f->run->plan->transfers[step->item].part;
    for (size_t i = 0, n = pieces_of(f->run->plan, step); i < n; i++) {
        size_t piece = f->run->first_piece[s] + i;
        add_piece(f, s, list, &f->at->pieces[piece], part->begin, 0, part->end - part->begin);
        f->at->moves[piece] = &list->commands[list->room + list->n_commands - 1];
    }
}

/* The span of each piece at the bounds is what its region must cover, on the side whose pitches are the storage's. */
static void add_pieces(const filler *f, size_t s, plait_run_list *list) {
    const plait_plan *plan = f->run->plan;
    const plait_plan_step *step = &plan->steps[s];
    if (plan->transfers[step->item].part.rows_node) {
        add_row_pieces(f, s, list);
        return;
    }
    for (size_t i = 0, n = pieces_of(plan, step); i < n; i++) {
        uint64_t offset, staged;
        plait_box whole = piece_of(plan, step, i, NULL, UINT64_MAX, &offset, &staged);
        bool to_storage = step->kind == PLAIT_STEP_RECEIVE;
        uint64_t row = to_storage ? whole.target_row_pitch : whole.source_row_pitch;
        uint64_t plane = to_storage ? whole.target_plane_pitch : whole.source_plane_pitch;
        add_piece(f, s, list, &f->at->pieces[f->run->first_piece[s] + i], offset, staged,
                  plait_box_span(&whole, row, plane));
    }
}

/* ---- pieces of a step ---- */

/* Moves a command to where its rows are: the list is in nobody's hands between two steps. By the command's kind, which
 * says which sides are regions. From the rows' beginning the region reaches to the end of the part: how long the rows
 * are, the box or size says. */
static void place_rows(const filler *f, const plait_plan_step *step, plait_command *c, uint64_t offset,
                       uint64_t staged) {
    const plait_plan_transfer *transfer = &f->run->plan->transfers[step->item];
    uint64_t bytes = transfer->part.end - offset;
    plait_region source = value_region(f, transfer->source, offset, bytes);
    plait_region target = value_region(f, transfer->target, offset, bytes);
    if (c->kind == PLAIT_COMMAND_COPY) {
        c->copy.source = source;
        c->copy.target = target;
    } else if (c->kind == PLAIT_COMMAND_READ) {
        c->transfer.region = source;
        c->transfer.host =
            step->kind == PLAIT_STEP_SEND ? staging_address(f, transfer, staged) : host_address(target);
    } else {
        c->transfer.region = target;
        c->transfer.host =
            step->kind == PLAIT_STEP_RECEIVE ? staging_address(f, transfer, staged) : host_address(source);
    }
}

/* Reads the ids that the host has written for this step, and cuts the rows they name into pieces. Pieces without rows
 * move nothing. */
static void set_row_pieces(const filler *f, size_t s) {
    plait_run *run = f->run;
    const plait_plan *plan = run->plan;
    const plait_plan_step *step = &plan->steps[s];
    const plait_plan_part *part = &plan->transfers[step->item].part;
    const plait_graph_node *node = &plan->graph->nodes[part->rows_node - 1];
    plait_box *pieces = f->at->pieces + run->first_piece[s];
    uint64_t *offsets = f->at->offsets, *staged = offsets + run->most_row_pieces;
    plait_op_use use;
    plait_graph_use(plan->graph, part->rows_node - 1, f->at->dims, &use);
    use.inputs[node->op->rows_input].data = plait_run_host_copy(run, node->inputs[node->op->rows_input]);
    plait_part_row_pieces(part, boxes_on(plan, step->device), &use,
                          plan->graph->tensors[node->outputs[0]].offset, pieces, offsets, staged);
    for (size_t i = 0, n = pieces_of(plan, step); i < n; i++) {
        pieces[i] = turn_box(step, pieces[i]);
        if (part->end > part->begin)
            place_rows(f, step, f->at->moves[run->first_piece[s] + i], offsets[i], staged[i]);
    }
}

/* For the dims of the coming step. Plans without transfers have nothing to do here. */
void plait_run_set_pieces(plait_run *run, int place) {
    const plait_plan *plan = run->plan;
    filler f = {run, place, &run->places[place]};
    for (size_t s = 0; plan->n_transfers > 0 && s < plan->n_steps; s++) {
        const plait_plan_step *step = &plan->steps[s];
        uint64_t offset, staged;
        if (!is_transfer(step)) continue;
        if (plan->transfers[step->item].part.rows_node) {
            set_row_pieces(&f, s);
            continue;
        }
        uint32_t storage = plan->values[plan->transfers[step->item].source].storage;
        uint64_t bytes = plait_run_span_now(run, plan->graph->storages[storage].root);
        for (size_t i = 0, n = pieces_of(plan, step); i < n; i++)
            f.at->pieces[run->first_piece[s] + i] =
                piece_of(plan, step, i, f.at->dims, bytes, &offset, &staged);
    }
}

/* ---- other commands ---- */

/* From staging, or from the mapped device that has the input. */
static void add_input(const filler *f, size_t s, plait_run_list *list) {
    const plait_plan *plan = f->run->plan;
    const plait_plan_step *step = &plan->steps[s];
    const plait_plan_input *input = &plan->inputs[step->item];
    uint64_t size = plan->graph->storages[input->storage].size_bytes;
    uint8_t *host =
        f->run->input_staging.bytes + (uint64_t)f->place * plan->input_staging_bytes + input->host_offset;
    if (input->home != PLAIT_NO_SLOT)
        host = host_address(value_region(f, plan->inputs[input->home].value, 0, size));
    add_transfer(list, PLAIT_COMMAND_WRITE, value_region(f, input->value, 0, size), host,
                 &f->at->input_sizes[step->item], NULL, plait_run_trace_of_step(f->run, f->place, s));
}

/* Into the place's own part of the output staging, valid until the place is used again. */
static void add_output(const filler *f, size_t s, plait_run_list *list) {
    const plait_plan *plan = f->run->plan;
    const plait_plan_step *step = &plan->steps[s];
    const plait_plan_output *output = &plan->outputs[step->item];
    uint8_t *host =
        f->run->output_staging.bytes + (uint64_t)f->place * plan->output_staging_bytes + output->host_offset;
    add_transfer(list, PLAIT_COMMAND_READ,
                 value_region(f, output->value, output->source_offset, output->size_bytes), host,
                 &f->at->output_sizes[step->item], NULL, plait_run_trace_of_step(f->run, f->place, s));
}

/* A launch names the arrays of buffers and dims of its place, which are filled before each step. */
static void add_launch(const filler *f, size_t s, plait_run_list *list) {
    const plait_plan_step *step = &f->run->plan->steps[s];
    plait_command *c = add_command(list, PLAIT_COMMAND_LAUNCH);
    c->launch.program = f->run->plan->segments[step->item].program;
    c->launch.slots = f->at->slots[step->device];
    c->launch.dims = f->at->dims;
    c->launch.trace = plait_run_trace_of_step(f->run, f->place, s);
}

/* Before the command that waits. The value is read when the queue gets there, so it stands in the place: among this
 * step's signals or those of the step before. What the device cannot see is asked of the relay, in the order of the
 * source's values: first those of the step before, whose values are smaller. */
static void add_waits(const filler *f, const plait_plan_step *step, plait_run_list *list) {
    const plait_plan *plan = f->run->plan;
    for (uint32_t w = step->first_wait; w < step->first_wait + step->n_waits; w++) {
        const plait_plan_step *other = &plan->steps[plan->waits[w].step];
        const plait_run_source *source = &f->run->sources[step->queue * plan->n_queues + other->queue];
        const uint64_t *values = plan->waits[w].before ? f->at->before : f->at->signals;
        const uint64_t *value = &values[f->run->first_signal[other->queue] + other->signal - 1];
        plait_command *c = add_command(list, PLAIT_COMMAND_WAIT);
        c->wait.event = source->event;
        c->wait.value = value;
        c->wait.trace = plait_run_trace_of_wait(f->run, f->place, w);
        if (source->relayed)
            f->at->requests[f->at->n_requests++] =
                (plait_run_request){.source = other->queue,
                                    .rank = other->signal + (plan->waits[w].before ? 0 : UINT32_MAX / 2),
                                    .from = plait_context_queue_at(plan->context, other->queue)->timeline,
                                    .target = source->event,
                                    .value = value};
    }
}

/* Behind the command. Its value is promised at submission. */
static void add_signal(const filler *f, const plait_plan_step *step, plait_run_list *list) {
    if (!step->signal) return;
    plait_command *c = add_command(list, PLAIT_COMMAND_SIGNAL);
    c->signal.event = plait_context_queue_at(f->run->plan->context, step->queue)->timeline;
    c->signal.value = &f->at->signals[f->run->first_signal[step->queue] + step->signal - 1];
}

/* What the relay is asked for stands in the order of the values of each source. */
static int by_rank(const void *a, const void *b) {
    const plait_run_request *x = a, *y = b;
    if (x->source != y->source) return x->source < y->source ? -1 : 1;
    return x->rank < y->rank ? -1 : x->rank > y->rank;
}

/* As many chunks as the plan has; the context's arena may have more. Chunks beyond the plan's own would be slots that
 * no program knows. */
static void use_arena(const filler *f, int d) {
    const plait_plan *plan = f->run->plan;
    const plait_context_entry *entry = &plan->context->devices[d];
    size_t n_slots = plait_plan_slot_count(plan, d);
    for (int c = 0; c < entry->n_chunks; c++) {
        uint32_t slot = plait_plan_chunk_slot(plan, d, (uint64_t)c);
        if (slot < n_slots) f->at->slots[d][slot] = entry->arena[c];
    }
}

/* In the order of the plan's steps, so each queue's list is in the order that was proved. Also called when the context
 * has replaced an arena: then everything is made anew, in the same room. */
void plait_run_fill_lists(plait_run *run, int place) {
    const plait_plan *plan = run->plan;
    filler f = {run, place, &run->places[place]};
    for (size_t q = 0; q < plan->n_queues; q++) f.at->lists[q].n_commands = 0;
    for (int d = 0; d < plan->context->n_devices; d++) use_arena(&f, d);
    f.at->n_requests = 0;
    for (size_t s = 0; s < plan->n_steps; s++) {
        const plait_plan_step *step = &plan->steps[s];
        plait_run_list *list = &f.at->lists[step->queue];
        add_waits(&f, step, list);
        if (step->kind == PLAIT_STEP_LAUNCH) add_launch(&f, s, list);
        if (step->kind == PLAIT_STEP_WRITE_INPUT) add_input(&f, s, list);
        if (step->kind == PLAIT_STEP_READ_OUTPUT) add_output(&f, s, list);
        if (is_transfer(step)) add_pieces(&f, s, list);
        add_signal(&f, step, list);
    }
    if (f.at->n_requests) qsort(f.at->requests, f.at->n_requests, sizeof *f.at->requests, by_rank);
}

/* ---- room ---- */

/* Room in front of a list for one wait for each other queue: more cannot be handed over. `before` holds values of the
 * step before, copied at submission, as that step's place may be in use again when they are read. */
static plait_status reserve_place(plait_run *run, plait_run_place *place, const size_t *n_commands,
                                  size_t n_waits) {
    size_t n_queues = run->plan->n_queues;
    place->pieces = plait_alloc_array(run->n_pieces, sizeof *place->pieces);
    place->moves = plait_alloc_array(run->most_row_pieces ? run->n_pieces : 0, sizeof *place->moves);
    place->offsets = plait_alloc_array(2 * run->most_row_pieces, sizeof *place->offsets);
    place->signals = plait_alloc_array(run->n_signals, sizeof *place->signals);
    place->before = plait_alloc_array(run->n_signals, sizeof *place->before);
    place->handed = plait_alloc_array(n_queues * n_queues, sizeof *place->handed);
    place->requests = plait_alloc_array(n_waits, sizeof *place->requests);
    place->lists = plait_alloc_array(n_queues, sizeof *place->lists);
    if (!place->pieces || !place->moves || !place->offsets || !place->signals || !place->before ||
        !place->handed || !place->requests || !place->lists)
        return plait_error_memory("run: lists", n_queues * n_queues * sizeof *place->handed);
    for (size_t q = 0; q < n_queues; q++) {
        plait_run_list *list = &place->lists[q];
        if (run->plan->queues[q].n_steps == 0) continue;
        list->room = run->plan->context->n_devices > 1 ? (int)n_queues : 0;
        list->commands = plait_alloc_array((size_t)list->room + n_commands[q], sizeof *list->commands);
        if (!list->commands)
            return plait_error_memory("run: command list", n_commands[q] * sizeof *list->commands);
    }
    return PLAIT_OK;
}

/* How each queue of the plan waits for each queue that there is. With one device nobody waits for another queue. */
static plait_status find_sources(plait_run *run) {
    const plait_plan *plan = run->plan;
    plait_context *context = plan->context;
    run->sources = plait_alloc_array(plan->n_queues * plan->n_queues, sizeof *run->sources);
    if (!run->sources)
        return plait_error_memory("run", plan->n_queues * plan->n_queues * sizeof *run->sources);
    for (uint32_t q = 0; context->n_devices > 1 && q < plan->n_queues; q++) {
        for (uint32_t other = 0; plan->queues[q].n_steps && other < plan->n_queues; other++) {
            plait_run_source *source = &run->sources[q * plan->n_queues + other];
            if (other == q || !plait_context_queue_at(context, other)->queue) continue;
            PLAIT_TRY(plait_context_awaitable(context, (int)(q / PLAIT_DEVICE_QUEUES), other, &source->event,
                                              &source->relayed));
        }
    }
    return PLAIT_OK;
}

/* Requests that may be under way: of every place the waits that are relayed, and one hand-over for each source. */
static plait_status reserve_relay(plait_run *run) {
    const plait_plan *plan = run->plan;
    size_t n = 0;
    for (size_t i = 0; i < plan->n_queues * plan->n_queues; i++) n += run->sources[i].relayed;
    for (size_t s = 0; s < plan->n_steps; s++)
        for (uint32_t w = 0; w < plan->steps[s].n_waits; w++) {
            uint32_t other = plan->steps[plan->waits[plan->steps[s].first_wait + w].step].queue;
            n += run->sources[plan->steps[s].queue * plan->n_queues + other].relayed;
        }
    n *= (size_t)run->depth;
    if (n) PLAIT_TRY(plait_relay_reserve(plan->context->relay, n));
    run->n_reserved = n;
    return PLAIT_OK;
}

/* Counts first: commands of each queue (its waits, pieces and one signal a step), pieces of all transfers, signals. All
 * tables of a place then have their final size. */
plait_status plait_run_reserve_lists(plait_run *run) {
    const plait_plan *plan = run->plan;
    size_t *n_commands = plait_alloc_array(plan->n_queues, sizeof *n_commands);
    run->first_signal = plait_alloc_array(plan->n_queues, sizeof *run->first_signal);
    run->first_piece = plait_alloc_array(plan->n_steps, sizeof *run->first_piece);
    if (!n_commands || !run->first_signal || !run->first_piece) {
        free(n_commands);
        return plait_error_memory("run: lists", plan->n_steps * sizeof *run->first_piece);
    }
    for (size_t s = 0; s < plan->n_steps; s++) {
        const plait_plan_step *step = &plan->steps[s];
        size_t pieces = pieces_of(plan, step);
        /* A step's commands at most: pieces that have no bytes even at the bounds add none. */
        n_commands[step->queue] += step->n_waits + pieces + 1;
        run->first_piece[s] = run->n_pieces;
        run->n_pieces += is_transfer(step) ? pieces : 0;
        bool rows = is_transfer(step) && plan->transfers[step->item].part.rows_node;
        if (rows && pieces > run->most_row_pieces) run->most_row_pieces = pieces;
    }
    for (size_t q = 0; q < plan->n_queues; q++) {
        run->first_signal[q] = run->n_signals;
        run->n_signals += plan->queues[q].n_signals;
    }
    plait_status status = PLAIT_OK;
    for (int p = 0; status == PLAIT_OK && p < run->depth; p++)
        status = reserve_place(run, &run->places[p], n_commands, plan->n_waits);
    free(n_commands);
    PLAIT_TRY(status);
    PLAIT_TRY(find_sources(run));
    return reserve_relay(run);
}
