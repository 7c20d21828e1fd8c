/* Figures of devices and links: the scale they are rounded to, where they come from, and what a context remembers. A
 * device states them, or they are in the cache folder, or they are measured, in this order. Not here: measuring itself
 * (measure.c), the files (cache.c), and what figures are used for (work.c).
 *
 * Invariant: figures that leave this file are on the scale, and no rate is 0. */
#include "cost/cost.h"

#include "base/alloc.h"
#include "base/size.h"
#include "base/status.h"

#include <stdlib.h>
#include <string.h>

/* A device that says nothing and cannot be measured: slow, so that it is chosen for what nobody else runs. */
enum { UNKNOWN_RATE = 1000000000 };

/* Figures that were only measured while others used the machine are measured again, a minute later at the soonest, until
 * once there was peace or the patience is over. */
enum { PATIENCE = 8, AGAIN_AFTER_S = 60 };

/* ---- the scale ---- */

/* Steps of 1 up to 10; from there on of a tenth, rounded. Integers all the way, so that no library's logarithm decides
 * what a figure is. */
static uint64_t next_on_scale(uint64_t value) {
    return value + (value < 10 ? 1 : (value + 5) / 10);
}

/* Some four hundred steps at most, so no table. What is halfway goes up. Beyond 2^60 everything is the nearest number
 * of the scale. */
uint64_t plait_cost_round(uint64_t value) {
    const uint64_t largest = (uint64_t)1 << 60; /* a step further still fits */
    uint64_t low = 1;
    if (value == 0) return 0;
    if (value > largest) value = largest;
    while (next_on_scale(low) <= value) low = next_on_scale(low);
    uint64_t high = next_on_scale(low);
    return value - low < high - value ? low : high;
}

/* The fields in the order of the struct, which is all uint64_t behind the first one. The struct's fields have to stay
 * uint64_t and in the order of PLAIT_DEVICE_FIGURES for this. */
static uint64_t *field(plait_device_figures *figures, size_t i) {
    return &figures->integer_flop_per_s + i;
}

enum { N_FIELDS = (sizeof(plait_device_figures) - sizeof(size_t)) / sizeof(uint64_t) };

/* The first of two figures that is known. */
static uint64_t known(uint64_t a, uint64_t b) {
    return a ? a : b;
}

/* What is missing is taken from the figure that is nearest in kind, and only then from UNKNOWN_RATE; times that nobody
 * knows are 0. Rounded last, so that derived figures are not rounded twice. */
void plait_cost_complete(plait_device_figures *f) {
    uint64_t product = known(known(f->integer_flop_per_s, f->float_flop_per_s), UNKNOWN_RATE);
    f->struct_bytes = sizeof *f;
    f->integer_flop_per_s = known(f->integer_flop_per_s, product);
    f->float_flop_per_s = known(f->float_flop_per_s, product);
    f->attention_flop_per_s = known(f->attention_flop_per_s, f->float_flop_per_s);
    f->bytes_per_s = known(known(f->bytes_per_s, f->weight_bytes_per_s), UNKNOWN_RATE);
    f->weight_bytes_per_s = known(f->weight_bytes_per_s, f->bytes_per_s);
    f->write_bytes_per_s = known(known(f->write_bytes_per_s, f->read_bytes_per_s), UNKNOWN_RATE);
    f->read_bytes_per_s = known(f->read_bytes_per_s, f->write_bytes_per_s);
    f->peer_bytes_per_s = known(f->peer_bytes_per_s, f->read_bytes_per_s);
    for (size_t i = 0; i < N_FIELDS; i++) *field(f, i) = plait_cost_round(*field(f, i));
}

/* ---- of one device ---- */

/* What the device itself says; UNSUPPORTED when it says nothing. */
static plait_status stated(plait_device *device, plait_device_figures *out) {
    *out = (plait_device_figures){.struct_bytes = sizeof *out};
    return device->vtable->figures(device, out);
}

/* A file that cannot be read or written costs the next program another measurement, nothing else; memory that runs out
 * is the caller's affair. */
static plait_status forgive(plait_status status) {
    return status == PLAIT_OUT_OF_MEMORY ? status : PLAIT_OK;
}

/* The minute keeps programs that are started one after the other from measuring each. */
static bool is_settled(const plait_cost_record *record) {
    return record->n_disturbed == 0 || record->n_disturbed >= PATIENCE || record->age_s < AGAIN_AFTER_S;
}

/* Measures, and remembers the best of this and what is known. A measurement in peace settles the matter, with the best
 * of all so far: what others took away can only have made figures worse. */
static plait_status measure(plait_device *device, const plait_device_info *info,
                            const plait_cost_record *known_ones, plait_cost_record *out) {
    plait_cost_record record = {.n_disturbed = 0};
    bool disturbed = false;
    PLAIT_TRY(plait_error_context(plait_cost_measure(device, &record.figures, &disturbed), "measuring %s",
                                  device->name));
    if (known_ones) plait_cost_keep_best(&record.figures, &known_ones->figures);
    if (disturbed) record.n_disturbed = (known_ones ? known_ones->n_disturbed : 0) + 1;
    plait_cost_complete(&record.figures);
    *out = record;
    return forgive(plait_cost_cache_write(info, &record));
}

/* `again`: the user asked for a new measurement, so what is known does not count. A file that cannot be read is the
 * same as none. */
static plait_status remembered(plait_device *device, bool again, plait_cost_record *out,
                               plait_figures_source *out_source) {
    plait_device_info info;
    PLAIT_TRY(device->vtable->describe(device, &info));
    *out_source = PLAIT_FIGURES_CACHED;
    plait_status status = again ? PLAIT_NOT_FOUND : plait_cost_cache_read(&info, out);
    if (status == PLAIT_OK && is_settled(out)) return PLAIT_OK;
    if (status != PLAIT_OK && status != PLAIT_NOT_FOUND) return status;
    *out_source = PLAIT_FIGURES_MEASURED;
    return measure(device, &info, status == PLAIT_OK ? out : NULL, out);
}

/* A device that states figures is never measured: what it says is meant, also where it says little. */
plait_status plait_device_measure(plait_device *device, bool again, plait_device_figures *out,
                                  plait_figures_source *out_source) {
    plait_cost_record record = {0};
    plait_figures_source source = PLAIT_FIGURES_STATED;
    plait_status status = stated(device, &record.figures);
    if (status == PLAIT_UNSUPPORTED) status = remembered(device, again, &record, &source);
    PLAIT_TRY(plait_error_context(status, "figures of %s", device->name));
    plait_cost_complete(&record.figures);
    *out = record.figures;
    if (out_source) *out_source = source;
    return PLAIT_OK;
}

/* ---- of a context ---- */

static plait_status entry_of(plait_context *context, int device, plait_context_entry **out) {
    if (device < 0 || device >= context->n_devices)
        return plait_error(PLAIT_INVALID_ARGUMENT, "figures: device %d, there are %d", device,
                           context->n_devices);
    *out = &context->devices[device];
    return PLAIT_OK;
}

/* Asked for once in a context, so that all plans of it are made with the same figures, even if another program improves
 * the file meanwhile. */
plait_status plait_context_figures(plait_context *context, int device, plait_device_figures *out) {
    plait_context_entry *entry;
    PLAIT_TRY(entry_of(context, device, &entry));
    if (!entry->figures.struct_bytes)
        PLAIT_TRY(plait_device_measure(entry->device, false, &entry->figures, NULL));
    *out = entry->figures;
    return PLAIT_OK;
}

/* For machines that are described, and tests. A rate of products and one of bytes must be there; the rest follows. */
plait_status plait_context_set_figures(plait_context *context, int device,
                                       const plait_device_figures *figures) {
    plait_context_entry *entry;
    PLAIT_TRY(entry_of(context, device, &entry));
    if (!figures->integer_flop_per_s && !figures->float_flop_per_s)
        return plait_error(PLAIT_INVALID_ARGUMENT, "figures of %s: no rate of matrix products is given",
                           entry->device->name);
    if (!figures->bytes_per_s && !figures->weight_bytes_per_s)
        return plait_error(PLAIT_INVALID_ARGUMENT, "figures of %s: no rate of bytes is given",
                           entry->device->name);
    entry->figures = *figures;
    plait_cost_complete(&entry->figures);
    return PLAIT_OK;
}

/* ---- links ---- */

/* Through host memory: out of one device, into the other; each byte takes both ways one after the other. */
static plait_link_figures staged(const plait_device_figures *from, const plait_device_figures *to) {
    double each = 1.0 / (double)from->read_bytes_per_s + 1.0 / (double)to->write_bytes_per_s;
    return (plait_link_figures){.bytes_per_s = plait_cost_round((uint64_t)(1.0 / each)),
                                .latency_ns = plait_cost_round(from->read_ns + to->write_ns)};
}

/* -1 is the host. The sender's figure counts where it can push, else the receiver's, as plait_transfer_route lets
 * whoever reaches the other do the copy. To itself nothing moves. */
static plait_link_figures link_of(plait_context *context, int from, int to,
                                  const plait_device_figures *figures) {
    plait_device *a = from >= 0 ? context->devices[from].device : NULL;
    plait_device *b = to >= 0 ? context->devices[to].device : NULL;
    if (from == to) return (plait_link_figures){.bytes_per_s = UINT64_MAX, .direct = true};
    if (!a) return (plait_link_figures){figures[to].write_bytes_per_s, figures[to].write_ns, true};
    if (!b) return (plait_link_figures){figures[from].read_bytes_per_s, figures[from].read_ns, true};
    if (context->devices[from].reaches >> to & 1u)
        return (plait_link_figures){figures[from].peer_bytes_per_s, figures[from].peer_ns, true};
    if (context->devices[to].reaches >> from & 1u)
        return (plait_link_figures){figures[to].peer_bytes_per_s, figures[to].peer_ns, true};
    return staged(&figures[from], &figures[to]);
}

/* -1 stands for the host. Only the figures of these two devices are asked for. */
plait_status plait_context_link(plait_context *context, int from, int to, plait_link_figures *out) {
    plait_device_figures *figures;
    if (from < -1 || to < -1 || from >= context->n_devices || to >= context->n_devices)
        return plait_error(PLAIT_INVALID_ARGUMENT, "link from %d to %d: there are %d devices", from, to,
                           context->n_devices);
    figures = plait_alloc_array((size_t)context->n_devices, sizeof *figures);
    if (!figures) return plait_error_memory("figures", (uint64_t)context->n_devices * sizeof *figures);
    plait_status status = from >= 0 ? plait_context_figures(context, from, &figures[from]) : PLAIT_OK;
    if (status == PLAIT_OK && to >= 0) status = plait_context_figures(context, to, &figures[to]);
    if (status == PLAIT_OK) status = plait_context_test_peers(context);
    if (status == PLAIT_OK) *out = link_of(context, from, to, figures);
    free(figures);
    return status;
}

/* ---- all of them ---- */

/* The class of an op follows from its factors: text that every op has. */
static plait_status classify(plait_cost *cost) {
    for (int id = 0; id < PLAIT_OP_COUNT; id++) {
        plait_factors factors;
        const plait_op *op = plait_op_get((plait_op_id)id);
        PLAIT_TRY(plait_op_factors(op, &factors));
        for (int f = 0; f < factors.n_factors; f++) {
            if (factors.factors[f].kind == PLAIT_FACTOR_SUM) cost->classes[id] = PLAIT_COST_PRODUCT;
            if (factors.factors[f].kind == PLAIT_FACTOR_MERGE &&
                strcmp(factors.factors[f].rule, "softmax") == 0)
                cost->classes[id] = PLAIT_COST_ATTENTION;
        }
    }
    return PLAIT_OK;
}

/* Peers are tested before links are taken for direct: a pair whose bytes arrive wrong goes through host memory. */
plait_status plait_cost_init(plait_cost *cost, plait_context *context) {
    size_t n = (size_t)context->n_devices;
    *cost = (plait_cost){.n_devices = context->n_devices};
    cost->devices = plait_alloc_array(n, sizeof *cost->devices);
    cost->links = plait_alloc_array(n * n, sizeof *cost->links);
    plait_status status = cost->devices && cost->links ? PLAIT_OK : plait_error_memory("figures", n);
    if (status == PLAIT_OK) status = classify(cost);
    if (status == PLAIT_OK) status = plait_context_test_peers(context); /* before a way is taken for direct */
    for (int d = 0; status == PLAIT_OK && d < context->n_devices; d++)
        status = plait_context_figures(context, d, &cost->devices[d]);
    for (int a = 0; status == PLAIT_OK && a < context->n_devices; a++)
        for (int b = 0; b < context->n_devices; b++)
            cost->links[(size_t)a * n + (size_t)b] = link_of(context, a, b, cost->devices);
    if (status != PLAIT_OK) plait_cost_deinit(cost);
    return status;
}

void plait_cost_deinit(plait_cost *cost) {
    free(cost->devices);
    free(cost->links);
    *cost = (plait_cost){0};
}
