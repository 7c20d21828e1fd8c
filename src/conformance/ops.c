/* Every op, on the examples of its descriptor and on what can be made of them: other layouts, sizes, types, values,
 * aliased and broadcast operands. Nothing here knows an op by name: what an example can become is asked of its factors
 * and its shape rule, so that a new op is checked as soon as it has examples. Not here: running a case (case.c), sizes
 * of models (shapes.c).
 *
 * Invariant: a variation that the op refuses is no case; one that it takes is a case for every device. */
#include "base/size.h"
#include "conformance/case.h"

#include <stdio.h>
#include <string.h>

/* MAX_CASE_ELEMS: what the reference kernel computes in a moment. */
enum { NAME_BYTES = 96, MAX_CASE_ELEMS = 1 << 20, MAX_SIGNATURES = 64 };

static void check(plait_conf *c, plait_conf_case *test, const char *format, ...) PLAIT_PRINTF(3, 4);

/* "op/NAME/" and what the format makes: names are stable, for results are compared by them. */
static void check(plait_conf *c, plait_conf_case *test, const char *format, ...) {
    char name[NAME_BYTES];
    va_list args;
    int n = snprintf(name, sizeof name, "op/%s/", test->use.op->name);
    va_start(args, format);
    vsnprintf(name + n, sizeof name - (size_t)n, format, args);
    va_end(args);
    plait_conf_check(c, name, plait_conf_case_check, test);
}

/* ---- layouts ---- */

/* PADDED: bytes between rows, planes and volumes. PERMUTED: dims 1 and 2 change places, as heads and tokens do.
 * STRIDED: dims 0 and 1 change places, so rows are not contiguous. GAPPED: every element by itself. */
typedef enum layout { PADDED, PERMUTED, STRIDED, GAPPED, N_LAYOUTS } layout;
static const char *const layout_names[N_LAYOUTS] = {"padded", "permuted", "strided", "gapped"};

static int64_t at_least_one(int64_t n) {
    return n > 1 ? n : 1;
}

/* Strides of an operand whose elements still lie apart. Odd numbers of blocks between rows, planes and volumes, another
 * one for each input, so that a kernel which takes one operand's strides for another's fails. Blocks of quantised types
 * are never pulled apart. Strides are in bytes. A dim of 0 counts as 1, so that strides stay above 0. */
static void lay(plait_operand *o, layout how, int input) {
    int64_t block = plait_dtype_block_bytes(o->dtype), gap = (2 * input + 1) * block;
    bool plain = !plait_dtype_quantised(o->dtype);
    int64_t places = at_least_one(o->dims[0] / plait_dtype_block_elems(o->dtype));
    if (!plait_operand_make_dense(o)) return;
    if (how == PERMUTED) {
        o->strides[2] = places * block + gap;
        o->strides[1] = o->strides[2] * at_least_one(o->dims[2]);
        o->strides[3] = o->strides[1] * at_least_one(o->dims[1]) + gap;
        return;
    }
    if (how == STRIDED && plain) {
        o->strides[1] = block;
        o->strides[0] = block * at_least_one(o->dims[1]);
        o->strides[2] = o->strides[0] * places;
    } else {
        if (how == GAPPED && plain) o->strides[0] = (input + 2) * block;
        o->strides[1] = o->strides[0] * places + (how == PADDED ? gap : 0);
        o->strides[2] = o->strides[1] * at_least_one(o->dims[1]) + (how == PADDED ? 3 * gap : 0);
    }
    o->strides[3] = o->strides[2] * at_least_one(o->dims[2]);
}

/* Outputs are dense whatever the inputs are; layouts that an op cannot take are refused by its shape rule. A case that
 * infer takes must be taken by the device, or refused by `supports` with a reason. */
static void check_layouts(plait_conf *c, const plait_conf_case *from) {
    for (layout how = PADDED; how < N_LAYOUTS; how++) {
        plait_conf_case test = *from;
        for (int i = 0; i < test.use.n_inputs; i++)
            if (plait_op_has(&test.use, i)) lay(&test.use.inputs[i], how, i);
        if (plait_conf_case_infer(&test)) check(c, &test, "%d/%s", test.which, layout_names[how]);
    }
}

/* ---- sizes ---- */

static bool has_factor(const plait_factor_dim *dim, int factor) {
    for (int k = 0; k < dim->n; k++)
        if (dim->factors[k] == factor) return true;
    return false;
}

/* Gives a factor another size in every input, dense. False where that is nothing for the op, or changes nothing. A dim
 * of several factors (heads of a width) is their product, and a dim of 1 that stands for all is left alone. The limit
 * on elements is for the reference kernels, which are as slow as they are plain. */
static bool resize(plait_conf_case *test, const plait_factors *f, int factor, int64_t size) {
    int64_t sizes[PLAIT_MAX_FACTORS];
    plait_op_use *use = &test->use;
    if (plait_op_factor_sizes(use, f, sizes) != PLAIT_OK || sizes[factor] == size) return false;
    for (int i = 0; i < use->n_inputs; i++) {
        plait_operand *o = &use->inputs[i];
        if (!plait_op_has(use, i)) continue;
        for (int d = 0; d < f->inputs[i].rank; d++) {
            const plait_factor_dim *dim = &f->inputs[i].dims[d];
            if (!has_factor(dim, factor) || (o->dims[d] == 1 && sizes[factor] != 1)) continue;
            o->dims[d] = 1;
            for (int k = 0; k < dim->n; k++)
                o->dims[d] *= dim->factors[k] == factor ? size : sizes[dim->factors[k]];
        }
        if (!plait_operand_make_dense(o) || plait_operand_elems(o) > MAX_CASE_ELEMS) return false;
    }
    return plait_conf_case_infer(test);
}

/* Elements of the blocks that a factor must be a whole number of. Dim 0 of quantised operands is whole blocks, and the
 * factor must be so in every operand that has it there. 1 where the factor may have any size. */
static int64_t block_of(const plait_conf_case *test, const plait_factors *f, int factor) {
    int64_t block = 1;
    for (int i = 0; i < test->use.n_inputs + test->use.n_outputs; i++) {
        bool input = i < test->use.n_inputs;
        int k = input ? i : i - test->use.n_inputs;
        const plait_factor_operand *from = input ? &f->inputs[k] : &f->outputs[k];
        const plait_operand *o = input ? &test->use.inputs[k] : &test->use.outputs[k];
        if (input && !plait_op_has(&test->use, k)) continue;
        if (from->rank > 0 && has_factor(&from->dims[0], factor))
            block = plait_max_i64(block, plait_dtype_block_elems(o->dtype));
    }
    return block;
}

/* One below, at and above what kernels like to work in: vectors, groups of rows, blocks. Where a factor must be whole
 * blocks, the last digit of the size says how many. */
static void check_ragged(plait_conf *c, const plait_conf_case *from, const plait_factors *f) {
    static const int64_t quick[] = {1, 17, 33}, deep[] = {1,  2,  3,  5,  7,  8,  9,   15,  16,  17,
                                                          31, 32, 33, 63, 64, 65, 127, 129, 255, 257};
    bool all = c->options.deep;
    for (int factor = 0; factor < f->n_factors; factor++)
        for (size_t i = 0; i < (all ? PLAIT_COUNT_OF(deep) : PLAIT_COUNT_OF(quick)); i++) {
            plait_conf_case test = *from;
            int64_t block = block_of(from, f, factor), size = (all ? deep : quick)[i];
            if (block > 1) size = size % 10 * block;
            if (size > 0 && resize(&test, f, factor, size))
                check(c, &test, "%d/ragged-%s-%lld", test.which, f->factors[factor].name, (long long)size);
        }
}

/* No elements along one factor. Where run-time data indexes something, only what is free in the result may vanish. A
 * sum over nothing is 0 and a maximum over nothing is what the reference says; ids into nothing have no answer, hence
 * the exception. */
static void check_zero(plait_conf *c, const plait_conf_case *from, const plait_factors *f) {
    for (int factor = 0; factor < f->n_factors; factor++) {
        plait_conf_case test = *from;
        if (from->use.op->example_data && f->factors[factor].kind != PLAIT_FACTOR_FREE) continue;
        if (resize(&test, f, factor, 0)) check(c, &test, "%d/zero-%s", test.which, f->factors[factor].name);
    }
}

/* ---- operands that share ---- */

static bool equal_shapes(const plait_operand *a, const plait_operand *b) {
    return a->dtype == b->dtype && memcmp(a->dims, b->dims, sizeof a->dims) == 0 &&
           memcmp(a->strides, b->strides, sizeof a->strides) == 0;
}

/* One tensor in the place of two inputs. Inputs that are read as control, or written in place, are left out: the op's
 * own rules speak of those. */
static void check_aliases(plait_conf *c, const plait_conf_case *from) {
    const plait_op_use *use = &from->use;
    for (int i = 0; i < use->n_inputs; i++)
        for (int j = i + 1; j < use->n_inputs; j++) {
            plait_conf_case test = *from;
            if (!plait_op_has(use, i) || !plait_op_has(use, j) ||
                !equal_shapes(&use->inputs[i], &use->inputs[j]))
                continue;
            if ((use->op->runtime_inputs >> i | use->op->runtime_inputs >> j) & 1u) continue;
            if (use->op->writes_input == i || use->op->writes_input == j) continue;
            test.same_as[j] = i;
            check(c, &test, "%d/alias-%d-%d", test.which, i, j);
        }
}

/* The output over an input, as far as `prepare` says that this may be. */
static void check_sharing(plait_conf *c, const plait_conf_case *from) {
    plait_conf_case test = *from;
    if (!test.use.op->in_place_inputs) return;
    test.share = true;
    check(c, &test, "%d/in-place", test.which);
}

/* Inputs of which the shape rule takes one element along some dims, for the same result. All combinations of dims;
 * those in which the result changes its shape are another op's business. Input 0 gives the result its shape in the ops
 * that broadcast, so it is left alone. */
static void check_broadcast(plait_conf *c, const plait_conf_case *from) {
    for (int i = 1; i < from->use.n_inputs; i++)
        for (unsigned mask = 1; mask < 1u << PLAIT_MAX_RANK; mask++) {
            plait_conf_case test = *from;
            bool changes = true;
            if (!plait_op_has(&test.use, i)) continue;
            for (int d = 0; d < PLAIT_MAX_RANK; d++) {
                changes = changes && (!(mask >> d & 1u) || test.use.inputs[i].dims[d] > 1);
                if (mask >> d & 1u) test.use.inputs[i].dims[d] = 1;
            }
            if (!changes || !plait_operand_make_dense(&test.use.inputs[i]) || !plait_conf_case_infer(&test))
                continue;
            if (memcmp(test.use.outputs[0].dims, from->use.outputs[0].dims,
                       sizeof from->use.outputs[0].dims) == 0)
                check(c, &test, "%d/broadcast-%d-%u", test.which, i, mask);
        }
}

/* ---- types ---- */

/* Input i, or output 0 when i is -1, gets another type: rows become two whole blocks. The other inputs are made dense
 * again, since the row's size has changed. What the op refuses is no case. Two blocks, so that a kernel which forgets
 * to move on to the second one fails. */
static bool retype(plait_conf_case *test, const plait_factors *f, int input, plait_dtype dtype) {
    plait_op_use *use = &test->use;
    int64_t block = plait_dtype_block_elems(dtype);
    if (input >= 0) {
        if (use->inputs[input].dtype == dtype) return false;
        use->inputs[input].dtype = dtype;
    }
    const plait_factor_dim *dim = &f->inputs[input < 0 ? 0 : input].dims[0];
    for (int i = 0; i < use->n_inputs; i++)
        if (plait_op_has(use, i) && !plait_operand_make_dense(&use->inputs[i])) break;
    if (block == 1) return plait_conf_case_infer(test);
    return dim->n == 1 && resize(test, f, dim->factors[0], 2 * block);
}

/* Encoders that search a grid take milliseconds a block; most of them are left to deep runs. */
static bool encodes_slowly(const plait_conf_case *test, plait_dtype dtype) {
    bool quick = plait_dtype_block_elems(dtype) <= 32 || dtype == PLAIT_Q4_K || dtype == PLAIT_Q6_K;
    return test->use.op->tolerance && test->use.outputs[0].dtype == dtype && !quick;
}

/* Quantised types are also filled with extreme codes, and with zeros: scales of 0 and codes at their bounds are where
 * unpacking goes wrong. */
static void check_type(plait_conf *c, const plait_conf_case *test, const char *operand, plait_dtype dtype) {
    if (encodes_slowly(test, dtype) && !c->options.deep) return;
    static const plait_conf_values kinds[] = {PLAIT_CONF_RANDOM, PLAIT_CONF_CODES, PLAIT_CONF_ZERO};
    for (size_t k = 0; k < (plait_dtype_quantised(dtype) ? PLAIT_COUNT_OF(kinds) : 1); k++) {
        plait_conf_case typed = *test;
        typed.values = kinds[k];
        check(c, &typed, "type-%s-%s/%s", operand, plait_dtype_name(dtype), plait_conf_value_names[kinds[k]]);
    }
}

/* Every type for every input, and for every attribute that names the type of an output. With the first example only:
 * types multiply quickly. */
static void check_types(plait_conf *c, const plait_conf_case *from, const plait_factors *f) {
    const plait_op *op = from->use.op;
    for (int d = 0; d < PLAIT_DTYPE_LIMIT; d++) {
        if (!plait_dtype_known(d)) continue;
        for (int i = 0; i < from->use.n_inputs; i++) {
            plait_conf_case test = *from;
            if (!plait_op_has(&from->use, i) || (op->runtime_inputs >> i & 1u)) continue;
            if (retype(&test, f, i, (plait_dtype)d)) check_type(c, &test, f->inputs[i].name, (plait_dtype)d);
        }
        for (int a = 0; a < op->n_attrs; a++) {
            plait_conf_case test = *from;
            if (op->attrs[a].kind != PLAIT_ATTR_DTYPE) continue;
            test.use.attrs[a].i = d;
            if (retype(&test, f, -1, (plait_dtype)d)) check_type(c, &test, op->attrs[a].name, (plait_dtype)d);
        }
    }
}

/* ---- values ---- */

/* Encoders do not say what they make of numbers that their scales cannot hold. */
static bool makes_sense(const plait_conf_case *test, plait_conf_values kind) {
    bool encodes = false;
    for (int o = 0; o < test->use.n_outputs; o++)
        encodes |= plait_dtype_quantised(test->use.outputs[o].dtype);
    return !encodes || (kind != PLAIT_CONF_LARGE && kind != PLAIT_CONF_NAN);
}

/* Every kind of numbers but the random ones, which the other checks have. */
static void check_values(plait_conf *c, const plait_conf_case *from) {
    for (plait_conf_values kind = PLAIT_CONF_LARGE; kind < PLAIT_CONF_N_VALUES; kind++) {
        plait_conf_case test = *from;
        test.values = kind;
        if (makes_sense(&test, kind)) check(c, &test, "%d/%s", test.which, plait_conf_value_names[kind]);
    }
}

/* ---- examples ---- */

/* As the example says, behind an odd offset, and with a named dim: below its bound, at 1, at 0. The odd offset is one
 * block: addresses that are a multiple of the element's size and of nothing more. */
static void check_example(plait_conf *c, const plait_conf_case *from) {
    plait_conf_case test = *from;
    check(c, &test, "%d/plain", test.which);
    test.shift_blocks = 1;
    check(c, &test, "%d/offset", test.which);
    test = *from;
    if (!plait_conf_case_bind(&test)) return;
    test.value = test.bound - 1;
    check(c, &test, "%d/bounded", test.which);
    test.value = 1;
    if (c->options.deep) check(c, &test, "%d/bounded-1", test.which);
    test.value = 0;
    check(c, &test, "%d/empty", test.which);
}

/* The types of an example's inputs and attributes, as a number. Types in base 64; 63 for an input that is left out. A
 * collision would only drop variations. */
static uint64_t signature_of(const plait_conf_case *test) {
    uint64_t signature = test->use.present;
    for (int i = 0; i < test->use.n_inputs; i++)
        signature = signature * 64 + (plait_op_has(&test->use, i) ? (uint64_t)test->use.inputs[i].dtype : 63);
    return signature * 64 + (uint64_t)test->use.outputs[0].dtype;
}

/* Variations of an example without elements would be without elements. */
static bool is_full(const plait_conf_case *test) {
    for (int i = 0; i < test->use.n_inputs; i++)
        if (plait_op_has(&test->use, i) && plait_operand_elems(&test->use.inputs[i]) == 0) return false;
    return true;
}

static bool has_four_dims(const plait_conf_case *test) {
    for (int d = 0; d < PLAIT_MAX_RANK; d++)
        if (test->use.inputs[0].dims[d] < 2) return false;
    return true;
}

/* What is tried once for each combination of types that the examples have. */
static void check_variations(plait_conf *c, const plait_conf_case *from, const plait_factors *f) {
    check_layouts(c, from);
    check_ragged(c, from, f);
    check_zero(c, from, f);
    check_aliases(c, from);
    check_values(c, from);
}

/* Examples themselves are always checked; variations once for each signature, unless the run is deep. Broadcasting is
 * tried with the first example that has four dims to speak of. */
static void check_op(plait_conf *c, const plait_op *op) {
    plait_conf_case test;
    plait_factors f;
    uint64_t seen[MAX_SIGNATURES];
    int n_seen = 0;
    bool broadcast = false;
    if (plait_op_factors(op, &f) != PLAIT_OK) return;
    for (int which = 0; plait_conf_case_init(&test, op, which); which++) {
        uint64_t signature = signature_of(&test);
        bool known = false;
        check_example(c, &test);
        check_sharing(c, &test);
        for (int i = 0; i < n_seen; i++) known |= seen[i] == signature;
        if (!is_full(&test) || (known && !c->options.deep)) known = true;
        if (which == 0) check_types(c, &test, &f);
        if (!broadcast && has_four_dims(&test)) {
            broadcast = true;
            check_broadcast(c, &test);
        }
        if (known) continue;
        if (n_seen < MAX_SIGNATURES) seen[n_seen++] = signature;
        check_variations(c, &test, &f);
    }
}

void plait_conf_ops(plait_conf *c) {
    for (int id = 0; id < PLAIT_OP_COUNT; id++) check_op(c, plait_op_get(id));
}
