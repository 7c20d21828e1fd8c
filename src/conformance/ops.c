/* Every op on its examples, in four forms, against the reference kernel; twice, for equal bytes; and nothing else may
 * have changed. What differs from the reference is measured against the scale of the numbers involved: kernels may
 * sum in other orders and use shorter types inside, within limits that are stated here, an op and a type at a time. */
#include "base/map.h"
#include "base/size.h"
#include "conformance/work.h"
#include "op/attrs.h"
#include "op/reference.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef enum form { FORM_PLAIN, FORM_OFFSET, FORM_BOUNDED, FORM_EMPTY, N_FORMS } form;
static const char *const form_names[] = {"plain", "offset", "bounded", "empty"};

typedef struct op_case {
    const plait_op *op;
    int which;
    form form;
    plait_op_use use;                               /* at the bounds */
    plait_extent inputs[PLAIT_MAX_INPUTS], outputs; /* outermost dims that follow the named dim */
    int64_t bound;
} op_case;

/* ---- tolerances ---- */

/* Of the decoded result, relative to the larger of 1 and the value. */
static double type_tolerance(plait_dtype dtype) {
    switch (dtype) {
    case PLAIT_F32: return 2e-5;
    case PLAIT_F16: return 1e-3;
    case PLAIT_BF16: return 8e-3;
    case PLAIT_Q8_0: return 1.2e-2;
    default: return plait_dtype_quantised(dtype) ? 0.2 : 0;
    }
}

/* Types that kernels may read together with activations of 8 bits. */
static bool reads_short(plait_dtype dtype) {
    return plait_dtype_quantised(dtype);
}

static double tolerance(const plait_op_use *use, int output) {
    double limit = type_tolerance(use->outputs[output].dtype);
    switch (use->op->id) {
    case PLAIT_OP_matmul: return reads_short(use->inputs[0].dtype) ? 4e-2 : 1e-4;
    case PLAIT_OP_attention:
        return reads_short(use->inputs[PLAIT_ATTENTION_K].dtype) ||
                       reads_short(use->inputs[PLAIT_ATTENTION_V].dtype)
                   ? 4e-2
                   : 2e-3;
    /* Angles of some thousands in float32. */
    case PLAIT_OP_rope:
    case PLAIT_OP_kv_shift: return fmax(limit, 2e-3);
    case PLAIT_OP_copy: return 0;
    default: return limit;
    }
}

/* Size of the numbers that a result is made of: sums of products grow with the root of their length. */
static double scale_of(const plait_conf_work *w, const op_case *test, const int *inputs) {
    if (test->op->id != PLAIT_OP_matmul) return 1;
    plait_operand weight = plait_conf_host(w, inputs[0]), x = plait_conf_host(w, inputs[1]);
    double scale = sqrt((double)weight.dims[0]) * plait_conf_magnitude(&weight) * plait_conf_magnitude(&x);
    return scale > 0 ? scale : 1;
}

/* ---- named dims ---- */

/* Where the factor is the outermost dim of the operand; -1: it is not there, -2: it is there otherwise. */
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

static bool bound_factor(op_case *test, const plait_factors *f, int factor, int64_t size) {
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
    test->bound = size;
    return any && size >= 1;
}

/* Finds a factor that can be a named dim: outermost wherever it occurs. It is one of the results, or, where an op
 * writes in place, of the rows or list that it works off. */
static bool find_bound(op_case *test) {
    plait_factors f;
    int64_t sizes[PLAIT_MAX_FACTORS];
    const plait_op_use *use = &test->use;
    if (plait_op_factors(test->op, &f) != PLAIT_OK) return false;
    if (plait_op_factor_sizes(use, &f, sizes) != PLAIT_OK) return false;
    bool in_place = test->op->writes_input >= 0;
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

/* ---- a case ---- */

/* The values of the inputs; control data as the op's example gives it. */
static void fill_inputs(plait_conf_work *w, const op_case *test, const int *inputs) {
    plait_op_use use = test->use;
    for (int i = 0; i < use.n_inputs; i++) {
        if (!plait_op_has(&use, i)) continue;
        plait_operand host = plait_conf_host(w, inputs[i]);
        use.inputs[i].data = host.data; /* dims at the bounds */
        plait_conf_fill(&use.inputs[i], (uint64_t)(100 * test->which + i + 1), 1);
    }
    if (test->op->example_data) test->op->example_data(test->which, &use);
}

static plait_status compare(plait_conf *c, plait_conf_work *w, const op_case *test, const int *inputs,
                            int first_output, const unsigned char *image) {
    double scale = scale_of(w, test, inputs);
    for (int o = 0; o < test->use.n_outputs; o++) {
        double limit = tolerance(&test->use, o);
        double difference = plait_conf_difference(w, first_output + o, image, scale);
        if (difference > c->result.error) c->result.error = difference;
        PLAIT_CONF_EXPECT(difference <= limit, "output %d differs from the reference by %.3g, at most %.3g",
                          o, difference, limit);
    }
    PLAIT_CONF_EXPECT(plait_conf_untouched(w, image), "bytes that the node does not write have changed");
    return PLAIT_OK;
}

static plait_status run_case(plait_conf *c, plait_conf_work *w, const op_case *test, const int *inputs,
                             int first_output) {
    unsigned char *once = plait_conf_image(w), *again = plait_conf_image(w);
    fill_inputs(w, test, inputs);
    PLAIT_TRY(plait_conf_run_device(w, PLAIT_CONF_SINGLE, once));
    PLAIT_TRY(plait_conf_run_device(w, PLAIT_CONF_SINGLE, again));
    c->result.launch_ns = w->launch_ns;
    c->result.bytes = plait_op_bytes(&test->use);
    c->result.flop = plait_op_flop(&test->use);
    if (!c->computes) return PLAIT_OK;
    c->result.hash = plait_hash_bytes(once, w->device_bytes, 1);
    PLAIT_CONF_EXPECT(memcmp(once, again, w->device_bytes) == 0, "two runs gave different bytes");
    PLAIT_TRY(plait_conf_run_reference(w));
    return compare(c, w, test, inputs, first_output, once);
}

static plait_status build_case(plait_conf_work *w, const op_case *test, int *inputs, int *out_first) {
    const plait_op_use *use = &test->use;
    if (test->form >= FORM_BOUNDED)
        plait_conf_dim(w, test->bound, test->form == FORM_EMPTY ? 0 : test->bound - 1);
    for (int i = 0; i < use->n_inputs; i++) {
        uint64_t shift =
            test->form == FORM_OFFSET ? (uint64_t)plait_dtype_block_bytes(use->inputs[i].dtype) : 0;
        inputs[i] = -1;
        if (!plait_op_has(use, i)) continue;
        bool weight = plait_dtype_quantised(use->inputs[i].dtype) && test->op->writes_input != i;
        inputs[i] = plait_conf_tensor_add(w, &use->inputs[i], test->inputs[i], shift, weight);
    }
    *out_first = plait_conf_apply(w, use, use->n_inputs, inputs, test->outputs);
    if (*out_first < 0) return plait_error(PLAIT_INTERNAL, "the example is refused");
    return plait_conf_freeze(w);
}

static plait_status check_case(plait_conf *c, void *user) {
    op_case *test = user;
    plait_conf_work w;
    plait_encoding encodings[PLAIT_MAX_INPUTS] = {PLAIT_ENCODING_FILE};
    int inputs[PLAIT_MAX_INPUTS], first_output = -1;
    char reason[200] = "";
    if (!c->v->supports(c->device, &test->use, encodings, reason, sizeof reason)) {
        PLAIT_CONF_EXPECT(reason[0], "supports says no, and no reason");
        return plait_error(PLAIT_UNSUPPORTED, "%s", reason);
    }
    plait_conf_work_init(&w, c);
    plait_status status = build_case(&w, test, inputs, &first_output);
    if (status == PLAIT_OK) status = run_case(c, &w, test, inputs, first_output);
    plait_conf_work_deinit(&w);
    /* supports said yes: from here on nothing may be lacking. */
    if (status == PLAIT_UNSUPPORTED)
        return plait_error_context(PLAIT_INTERNAL, "it was said to be supported");
    return status;
}

static bool make_case(const plait_op *op, int which, form f, op_case *out) {
    *out = (op_case){.op = op, .which = which, .form = f, .outputs = PLAIT_CONF_FIXED};
    for (int i = 0; i < PLAIT_MAX_INPUTS; i++) out->inputs[i] = PLAIT_CONF_FIXED;
    if (!op->example(which, &out->use)) return false;
    return plait_op_infer(&out->use) == PLAIT_OK;
}

void plait_conf_ops(plait_conf *c) {
    op_case test;
    for (int id = 0; id < PLAIT_OP_COUNT; id++)
        for (int which = 0; make_case(plait_op_get(id), which, FORM_PLAIN, &test); which++)
            for (form f = FORM_PLAIN; f < N_FORMS; f++) {
                char name[64];
                make_case(plait_op_get(id), which, f, &test);
                if (f >= FORM_BOUNDED && !find_bound(&test)) continue;
                snprintf(name, sizeof name, "op/%s/%d/%s", test.op->name, which, form_names[f]);
                plait_conf_check(c, name, check_case, &test);
            }
}
