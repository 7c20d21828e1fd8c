/* Running one node. Not here: which cases there are (ops.c, shapes.c, failures.c). Invariant: the reference kernel, the
 * bounds and the device see the same operands and bytes. */
#include "conformance/case.h"

#include "base/alloc.h"
#include "base/map.h"
#include "base/size.h"
#include "conformance/built.h"
#include "conformance/kit.h"
#include "op/reference.h"

#include <stdlib.h>
#include <string.h>

/* Called after every change of inputs or attributes: outputs follow from them, or there is no such case. */
bool plait_conf_case_infer(plait_conf_case *test) {
    return plait_op_infer(&test->use) == PLAIT_OK;
}

/* An example as its op gives it: dense, nothing shared, no named dim. The seed differs from example to example. */
bool plait_conf_case_init(plait_conf_case *test, const plait_op *op, int which) {
    *test = (plait_conf_case){.which = which, .seed = (uint64_t)(100 * which), .outputs = PLAIT_CONF_FIXED};
    for (int i = 0; i < PLAIT_MAX_INPUTS; i++) {
        test->inputs[i] = PLAIT_CONF_FIXED;
        test->same_as[i] = -1;
    }
    return op->example(which, &test->use) && plait_conf_case_infer(test);
}

/* ---- named dims ---- */

/* Where the factor is the outermost dim of the operand; -1: it is not there, -2: it is there otherwise. The bounded dim
 * must be the outermost one, since only then strides and offsets do not depend on its value. */
static int outermost_axis(const plait_factor_operand *f, const plait_operand *o, int factor, int64_t size) {
    int axis = -1;
    for (int d = 0; d < f->rank; d++)
        for (int i = 0; i < f->dims[d].n; i++) {
            if (f->dims[d].factors[i] != factor) continue;
            if (o->dims[d] == 1 && size != 1) continue; /* broadcast */
            if (f->dims[d].n != 1 || axis != -1) return -2;
            axis = d;
        }
    for (int d = axis + 1; axis >= 0 && d < PLAIT_MAX_RANK; d++)
        if (o->dims[d] != 1) return -2;
    return axis;
}

/* An extent with a division that changes nothing, so that devices which ignore a, b or c fail. A dim that is outermost
 * in one operand and in the middle of another cannot be a named dim. On false the extents are half set; the caller
 * tries another factor, which sets them all again, or gives the case up. */
static bool bound_factor(plait_conf_case *test, const plait_factors *f, int factor, int64_t size) {
    const plait_op_use *use = &test->use;
    bool any = false;
    for (int i = 0; i < use->n_inputs + use->n_outputs; i++) {
        bool input = i < use->n_inputs;
        int k = input ? i : i - use->n_inputs;
        if (input && !plait_op_has(use, i)) continue;
        int axis = outermost_axis(input ? &f->inputs[k] : &f->outputs[k],
                                  input ? &use->inputs[k] : &use->outputs[k], factor, size);
        if (axis == -2) return false;
        /* floor((2 n + 1) / 2) is n. */
        plait_extent extent = axis < 0 ? PLAIT_CONF_FIXED : (plait_extent){0, axis, 2, 1, 2};
        if (input)
            test->inputs[k] = extent;
        else
            test->outputs = extent;
        any |= axis >= 0;
    }
    test->bounded = any && size >= 1;
    test->bound = test->value = size;
    return test->bounded;
}

/* It is a factor of the results, or, where an op writes in place, of the rows or list that it works off. From the
 * outermost dim inwards: the first that works is taken. */
bool plait_conf_case_bind(plait_conf_case *test) {
    plait_factors f;
    int64_t sizes[PLAIT_MAX_FACTORS];
    const plait_op_use *use = &test->use;
    if (plait_op_factors(use->op, &f) != PLAIT_OK) return false;
    if (plait_op_factor_sizes(use, &f, sizes) != PLAIT_OK) return false;
    bool in_place = use->op->writes_input >= 0;
    for (int k = in_place ? 1 : 0; k < (in_place ? 2 : use->n_outputs); k++) {
        const plait_factor_operand *from = in_place ? &f.inputs[k] : &f.outputs[k];
        for (int d = from->rank - 1; d >= 0; d--)
            for (int i = 0; i < from->dims[d].n; i++) {
                int factor = from->dims[d].factors[i];
                if (sizes[factor] > 1 && bound_factor(test, &f, factor, sizes[factor])) return true;
            }
    }
    return false;
}

/* ---- on the bench ---- */

/* What one run needs beside the bench. */
typedef struct desk {
    const plait_conf_case *test;
    plait_conf_work w;
    int inputs[PLAIT_MAX_INPUTS], first_output;
    double *limits[PLAIT_MAX_OUTPUTS]; /* Owned. NULL: the same numbers */
} desk;

/* Limits may be fewer than outputs, after a failure. */
static void desk_deinit(desk *d) {
    for (int o = 0; o < PLAIT_MAX_OUTPUTS; o++) free(d->limits[o]);
    plait_conf_work_deinit(&d->w);
}

/* The packing that a product with this weight gets, if any. A device without packings leaves the weight in file form:
 * then that is what is tested. */
static void pack_weight(plait_conf *c, desk *d) {
    const plait_operand *weight = &d->test->use.inputs[0];
    struct plait_weight_reader reader = {d->test->use.op, 0, true};
    plait_weight_use use = {.dtype = weight->dtype, .n_readers = 1, .readers = &reader};
    plait_encoding_offer offers[4];
    int n = 4;
    memcpy(use.dims, weight->dims, sizeof use.dims);
    if (c->v->encodings(c->device, &use, offers, &n) == PLAIT_OK && n > 0)
        plait_conf_encode(&d->w, d->inputs[0], &offers[0]);
}

/* Quantised inputs are weights, which is what they are in models. All outputs are needed, so none may be left out.
 * Inputs that are the same tensor get one place in the image. */
static plait_status build(plait_conf *c, desk *d) {
    const plait_conf_case *test = d->test;
    const plait_op_use *use = &test->use;
    if (test->bounded) plait_conf_dim(&d->w, test->bound, test->value);
    for (int i = 0; i < use->n_inputs; i++) {
        uint64_t shift = test->shift_blocks * (uint64_t)plait_dtype_block_bytes(use->inputs[i].dtype);
        bool weight = plait_dtype_quantised(use->inputs[i].dtype) && use->op->writes_input != i;
        d->inputs[i] = -1;
        if (!plait_op_has(use, i)) continue;
        d->inputs[i] = test->same_as[i] >= 0
                           ? d->inputs[test->same_as[i]]
                           : plait_conf_tensor_add(&d->w, &use->inputs[i], test->inputs[i], shift, weight);
    }
    if (test->packed) pack_weight(c, d);
    d->first_output = plait_conf_apply(&d->w, use, use->n_inputs, d->inputs, test->outputs);
    if (d->first_output < 0) return plait_error_context(PLAIT_INTERNAL, "the node is refused");
    for (int o = 0; o < use->n_outputs; o++) plait_conf_need(&d->w, d->first_output + o);
    return plait_conf_freeze(&d->w);
}

/* Ids are I32 in every op. */
static void copy_numbers(const plait_operand *from, const plait_operand *to) {
    PLAIT_REF_ROWS(from, i1, i2, i3)
    for (int64_t i = 0; i < from->dims[0]; i++)
        memcpy(plait_ref_at(to, i, i1, i2, i3), plait_ref_at(from, i, i1, i2, i3), sizeof(int32_t));
}

/* Control data as the op's example gives it, which knows dense tables only: they are filled beside, and copied. */
static plait_status fill_control(desk *d, plait_op_use *use) {
    plait_operand laid[PLAIT_MAX_INPUTS];
    const plait_op *op = use->op;
    memcpy(laid, use->inputs, sizeof laid);
    for (int i = 0; i < use->n_inputs; i++) {
        if (!plait_op_has(use, i) || !(op->runtime_inputs >> i & 1u)) continue;
        plait_operand_make_dense(&use->inputs[i]);
        int64_t bytes = plait_max_i64(plait_operand_span_bytes(&use->inputs[i]), 1);
        use->inputs[i].data = plait_arena_alloc(&d->w.arena, (size_t)bytes, 1);
        if (!use->inputs[i].data) return plait_error_memory("conformance", (uint64_t)bytes);
    }
    op->example_data(d->test->which, use);
    for (int i = 0; i < use->n_inputs; i++)
        if (plait_op_has(use, i) && (op->runtime_inputs >> i & 1u)) copy_numbers(&use->inputs[i], &laid[i]);
    return PLAIT_OK;
}

/* All inputs get numbers first, those with run-time data as well: what the example does not set is then defined. Filled
 * at the bounds, so that bytes behind a named dim's value are numbers too, which must not be read into the result.
 * Seeds differ by input, so that two inputs of one shape do not hold the same numbers. */
static plait_status fill_inputs(plait_conf *c, desk *d) {
    plait_op_use use = d->test->use;
    for (int i = 0; i < use.n_inputs; i++) {
        if (!plait_op_has(&use, i)) continue;
        use.inputs[i].data = plait_conf_host(&d->w, d->inputs[i]).data; /* dims at the bounds */
        PLAIT_TRY(
            plait_conf_values_fill(c, &use.inputs[i], d->test->values, d->test->seed + (uint64_t)i + 1, 1));
    }
    return use.op->example_data ? fill_control(d, &use) : PLAIT_OK;
}

/* Bounds of every output, from the inputs as they are before the node runs. An op without a tolerance must give the
 * reference's numbers. They are computed in double from the inputs (op/tolerance), before an op that writes in place
 * has changed those. */
static plait_status find_limits(desk *d) {
    plait_op_use use = plait_conf_host_use(&d->w, &d->w.nodes[0]);
    size_t bytes = use.op->reference_scratch ? use.op->reference_scratch(&use) : 0;
    if (!use.op->tolerance) return PLAIT_OK;
    void *scratch = plait_alloc_aligned(64, bytes + 64);
    plait_status status = scratch ? PLAIT_OK : plait_error_memory("error bounds", bytes);
    for (int o = 0; o < use.n_outputs && status == PLAIT_OK; o++) {
        int64_t n = plait_operand_elems(&use.outputs[o]);
        d->limits[o] = plait_alloc_array((size_t)n, sizeof **d->limits);
        if (d->limits[o])
            plait_op_tolerance(&use, o, d->limits[o], scratch);
        else
            status = plait_error_memory("error bounds", (uint64_t)n * sizeof **d->limits);
    }
    free(scratch);
    return status;
}

/* Outputs within their bounds, and everything else as it was. Limits of the worst output fill result.error, as a share
 * of what was allowed. */
static plait_status compare(plait_conf *c, desk *d, const unsigned char *image) {
    for (int o = 0; o < d->test->use.n_outputs; o++)
        PLAIT_TRY(plait_error_context(
            plait_conf_within(&d->w, d->first_output + o, image, d->limits[o], &c->result.error), "output %d",
            o));
    return plait_conf_untouched(&d->w, image);
}

/* Launches that are timed change what is written in place: they come last. */
static plait_status time_it(plait_conf *c, desk *d, plait_conf_way way) {
    if (!d->test->timed) return PLAIT_OK;
    d->w.timed = true;
    PLAIT_TRY(plait_conf_run_device(&d->w, way, plait_conf_image(&d->w)));
    c->result.launch_ns = d->w.launch_ns;
    c->least_ns = d->w.least_ns;
    c->result.bytes = plait_op_bytes(&d->test->use);
    c->result.flop = plait_op_flop(&d->test->use);
    return PLAIT_OK;
}

/* Twice on the device before the reference runs in the host image, which is where both uploads come from. The two
 * images must be the same bytes, gaps included. A device that computes nothing has been run twice by then, which is
 * what can be asked of it. */
static plait_status run(plait_conf *c, desk *d) {
    plait_conf_way way = d->test->share ? PLAIT_CONF_SHARING : PLAIT_CONF_SINGLE;
    PLAIT_TRY(fill_inputs(c, d));
    if (d->test->unchecked) return time_it(c, d, way);
    unsigned char *once = plait_conf_image(&d->w), *again = plait_conf_image(&d->w);
    PLAIT_TRY(plait_conf_run_device(&d->w, way, once));
    if (d->test->share && !d->w.n_shared)
        return plait_conf_lack(c, "the device lets no output lie over an input here");
    PLAIT_TRY(plait_conf_run_device(&d->w, way, again));
    PLAIT_TRY(time_it(c, d, way));
    if (!c->computes) return PLAIT_OK;
    c->result.hash = plait_conf_hash(&d->w, once);
    PLAIT_TRY(find_limits(d));
    PLAIT_TRY(plait_conf_run_reference(&d->w));
    PLAIT_TRY(compare(c, d, once));
    return plait_error_context(plait_conf_same(again, once, d->w.device_bytes, "image"), "a second run");
}

/* Asked with file form, which every device must take that supports the op for a weight it may pack. */
static bool supported(plait_conf *c, const plait_conf_case *test, char *reason, size_t reason_bytes) {
    plait_encoding encodings[PLAIT_MAX_INPUTS] = {PLAIT_ENCODING_FILE};
    return c->v->supports(c->device, &test->use, encodings, reason, reason_bytes);
}

/* Refusals are lacking, with the device's reason; a refusal without one is a failure. */
plait_status plait_conf_case_check(plait_conf *c, void *user) {
    desk d = {.test = user};
    char reason[200] = "";
    if (!supported(c, d.test, reason, sizeof reason)) {
        PLAIT_CONF_EXPECT(reason[0], "supports says no, and no reason");
        return plait_conf_lack(c, "%s", reason);
    }
    plait_conf_work_init(&d.w, c);
    plait_status status = build(c, &d);
    if (status == PLAIT_OK) status = run(c, &d);
    desk_deinit(&d);
    /* supports said yes: from here on nothing may be lacking. */
    if (status == PLAIT_UNSUPPORTED && !c->lacks)
        return plait_error_context(PLAIT_INTERNAL, "supports said yes");
    return status;
}
