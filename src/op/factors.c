/* Factor texts: the parser, and the solver that finds the size of each factor from the shapes of operands.
 *
 *     text    = operand+ "->" operand+ [ ";" rule { "," rule } ]
 *     operand = NAME [ "?" ] "[" dim { "," dim } "]"
 *     dim     = NAME [ "?" ] | "(" NAME NAME+ ")"             fastest first; "?": size 1 serves all
 *     rule    = NAME ":" KIND [ "(" NAME ")" ] [ "@" ]
 *
 * Invariant: nothing is allocated, and every count is bounded by the PLAIT_MAX_ limits. Not here: what the
 * kinds mean for layouts (the sharding room's matter). */
#include "base/size.h"
#include "base/status.h"
#include "op/shape.h"

#include <pthread.h>
#include <string.h>

/* ---- parser ---- */

typedef struct factor_parser {
    const char *op, *text, *at;
    plait_factors *out;
    bool declared[PLAIT_MAX_FACTORS];
} factor_parser;

static plait_status fail(const factor_parser *p, const char *at, const char *expected) {
    return plait_error(PLAIT_CORRUPT, "factors of %s: column %d: expected %s, found \"%.12s\"", p->op,
                       (int)(at - p->text) + 1, expected, at);
}

static void skip_blanks(factor_parser *p) {
    while (*p->at == ' ') p->at++;
}

/* Takes the character when it is next. */
static bool take(factor_parser *p, char c) {
    skip_blanks(p);
    if (*p->at != c) return false;
    p->at++;
    return true;
}

static bool is_name_char(char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
}

/* A name, NUL-terminated and padded with NULs. */
static plait_status take_name(factor_parser *p, char out[16]) {
    skip_blanks(p);
    size_t n = 0;
    while (is_name_char(p->at[n])) n++;
    if (n == 0) return fail(p, p->at, "a name");
    if (n >= 16) return fail(p, p->at, "a name below 16 characters");
    memset(out, 0, 16);
    memcpy(out, p->at, n);
    p->at += n;
    return PLAIT_OK;
}

static int find_factor(const plait_factors *f, const char *name) {
    for (int i = 0; i < f->n_factors; i++)
        if (strcmp(f->factors[i].name, name) == 0) return i;
    return -1;
}

/* A factor where a dim names it; new ones are free when an output brings them, else whole. A name that occurs again is
 * the same index; that is all that ties operands together. */
static plait_status take_factor(factor_parser *p, plait_factor_dim *dim) {
    char name[16];
    const char *start = p->at;
    PLAIT_TRY(take_name(p, name));
    int index = find_factor(p->out, name);
    if (index < 0) {
        if (p->out->n_factors == PLAIT_MAX_FACTORS) return fail(p, start, "no more factors");
        index = p->out->n_factors++;
        memcpy(p->out->factors[index].name, name, sizeof name);
        p->out->factors[index].kind = PLAIT_FACTOR_WHOLE;
    }
    if (dim->n == PLAIT_COUNT_OF(dim->factors)) return fail(p, start, "at most 4 factors in a dim");
    dim->factors[dim->n++] = (uint8_t)index;
    return PLAIT_OK;
}

static plait_status take_dim(factor_parser *p, plait_factor_dim *dim) {
    if (!take(p, '(')) {
        PLAIT_TRY(take_factor(p, dim));
        dim->may_be_one = take(p, '?');
        return PLAIT_OK;
    }
    while (!take(p, ')')) PLAIT_TRY(take_factor(p, dim));
    return dim->n >= 2 ? PLAIT_OK : fail(p, p->at - 1, "two factors in brackets");
}

/* NAME[dims], and whether it may be absent. */
static plait_status take_operand(factor_parser *p, plait_factor_operand *operand) {
    PLAIT_TRY(take_name(p, operand->name));
    operand->optional = take(p, '?');
    if (!take(p, '[')) return fail(p, p->at, "'['");
    do {
        if (operand->rank == PLAIT_MAX_RANK) return fail(p, p->at, "at most 4 dims");
        PLAIT_TRY(take_dim(p, &operand->dims[operand->rank++]));
    } while (take(p, ','));
    return take(p, ']') ? PLAIT_OK : fail(p, p->at, "']' or ','");
}

static int find_input(const plait_factors *f, const char *name) {
    for (int i = 0; i < f->n_inputs; i++)
        if (strcmp(f->inputs[i].name, name) == 0) return i;
    return -1;
}

/* KIND, its rule in brackets where it needs one, and '@'. `kinds` is in the order of plait_factor_kind. */
static plait_status take_kind(factor_parser *p, plait_factor *factor) {
    static const char *const kinds[] = {"free", "sum", "merge", "indexed", "ordered", "whole"};
    char kind[16];
    const char *start = p->at;
    PLAIT_TRY(take_name(p, kind));
    size_t k = 0;
    while (k < PLAIT_COUNT_OF(kinds) && strcmp(kinds[k], kind) != 0) k++;
    if (k == PLAIT_COUNT_OF(kinds)) return fail(p, start, "free, sum, merge, indexed, ordered or whole");
    factor->kind = (plait_factor_kind)k;

    bool needs_rule = factor->kind == PLAIT_FACTOR_MERGE || factor->kind == PLAIT_FACTOR_INDEXED;
    if (take(p, '(') != needs_rule) return fail(p, p->at, needs_rule ? "'('" : "no rule for this kind");
    if (needs_rule) {
        start = p->at;
        PLAIT_TRY(take_name(p, factor->rule));
        if (factor->kind == PLAIT_FACTOR_INDEXED && find_input(p->out, factor->rule) < 0)
            return fail(p, start, "the name of an input");
        if (!take(p, ')')) return fail(p, p->at, "')'");
    }
    factor->global_start = take(p, '@');
    return PLAIT_OK;
}

static plait_status take_rules(factor_parser *p) {
    do {
        char name[16];
        skip_blanks(p);
        const char *start = p->at;
        PLAIT_TRY(take_name(p, name));
        int index = find_factor(p->out, name);
        if (index < 0) return fail(p, start, "a factor that an operand has");
        if (p->declared[index]) return fail(p, start, "one rule for each factor");
        p->declared[index] = true;
        if (!take(p, ':')) return fail(p, p->at, "':'");
        PLAIT_TRY(take_kind(p, &p->out->factors[index]));
    } while (take(p, ','));
    return PLAIT_OK;
}

/* Operands first, which makes every factor known; then what the outputs say of kinds; then the rules. A rule may so
 * override "free": a factor of an output can still be ordered, or whole for the kernel's sake. */
static plait_status take_text(factor_parser *p) {
    plait_factors *f = p->out;
    for (skip_blanks(p); *p->at != '-'; skip_blanks(p)) {
        if (f->n_inputs == PLAIT_MAX_INPUTS) return fail(p, p->at, "\"->\" after the last input");
        PLAIT_TRY(take_operand(p, &f->inputs[f->n_inputs++]));
    }
    if (p->at[1] != '>') return fail(p, p->at, "\"->\"");
    p->at += 2;
    for (skip_blanks(p); *p->at && *p->at != ';'; skip_blanks(p)) {
        if (f->n_outputs == PLAIT_MAX_OUTPUTS) return fail(p, p->at, "';' after the last output");
        PLAIT_TRY(take_operand(p, &f->outputs[f->n_outputs++]));
    }
    if (f->n_inputs == 0 || f->n_outputs == 0) return fail(p, p->at, "inputs and outputs");
    for (int o = 0; o < f->n_outputs; o++)
        for (int d = 0; d < f->outputs[o].rank; d++)
            for (int i = 0; i < f->outputs[o].dims[d].n; i++)
                f->factors[f->outputs[o].dims[d].factors[i]].kind = PLAIT_FACTOR_FREE;
    if (take(p, ';')) PLAIT_TRY(take_rules(p));
    skip_blanks(p);
    return *p->at ? fail(p, p->at, "the end") : PLAIT_OK;
}

static plait_status parse(const plait_op *op, plait_factors *out) {
    plait_factors parsed;
    memset(&parsed, 0, sizeof parsed);
    factor_parser p = {.op = op->name, .text = op->factors, .at = op->factors, .out = &parsed};
    PLAIT_TRY(take_text(&p));
    *out = parsed;
    return PLAIT_OK;
}

/* Every node of a graph asks for its op's factors several times: those of the built-in ops are parsed once, into a table
 * that is only read afterwards. An op whose text is wrong stays without an entry, so that whoever asks gets the message. */
static struct {
    pthread_once_t once;
    bool parsed[PLAIT_OP_COUNT];
    plait_factors factors[PLAIT_OP_COUNT];
} built_in = {.once = PTHREAD_ONCE_INIT};

/* A failing entry leaves a message on the thread that came first, which nobody reads: whoever asks for that op parses
 * again. */
static void parse_all(void) {
    for (int id = 0; id < PLAIT_OP_COUNT; id++)
        built_in.parsed[id] = parse(plait_op_get((plait_op_id)id), &built_in.factors[id]) == PLAIT_OK;
}

/* Descriptors from outside may carry the id of a built-in op: the table serves only the very object that it was made
 * of. */
plait_status plait_op_factors_at(const plait_op *op, plait_factors *room, const plait_factors **out) {
    if (op == plait_op_get(op->id)) {
        pthread_once(&built_in.once, parse_all);
        if (built_in.parsed[op->id]) return *out = &built_in.factors[op->id], PLAIT_OK;
    }
    PLAIT_TRY(parse(op, room));
    *out = room;
    return PLAIT_OK;
}

plait_status plait_op_factors(const plait_op *op, plait_factors *out) {
    const plait_factors *found;
    plait_factors room;
    PLAIT_TRY(plait_op_factors_at(op, &room, &found));
    *out = *found;
    return PLAIT_OK;
}

/* ---- solver ---- */

/* sizes: -1 while unknown. `broadcast`: a dim of size 1 says nothing of its factor. */
typedef struct factor_solver {
    const plait_factors *factors;
    int64_t *sizes;
    bool broadcast;
    /* Where each size came from, for messages. */
    struct {
        const char *operand;
        int dim;
        int64_t size;
    } origin[PLAIT_MAX_FACTORS];
    bool has_one[PLAIT_MAX_FACTORS]; /* a dim of size 1 was seen that may be broadcast */
} factor_solver;

/* Names both dims: which of the two is wrong only the caller knows. */
static plait_status mismatch(const factor_solver *s, int factor, const char *name, int dim, int64_t size) {
    return plait_error(PLAIT_INVALID_ARGUMENT, "%s: dim %d is %lld but %s: dim %d is %lld",
                       s->origin[factor].operand, s->origin[factor].dim, (long long)s->origin[factor].size,
                       name, dim, (long long)size);
}

/* A factor's size and the dim it was read from. */
static void bind(factor_solver *s, int factor, int64_t size, const char *name, int dim, int64_t dim_size) {
    s->sizes[factor] = size;
    s->origin[factor].operand = name;
    s->origin[factor].dim = dim;
    s->origin[factor].size = dim_size;
}

/* One dim that is a single factor. With broadcast a 1 agrees with everything, and counts only when nobody gives another
 * size. */
static plait_status solve_single(factor_solver *s, const plait_factor_dim *single, const char *name, int dim,
                                 int64_t size) {
    int factor = single->factors[0];
    if ((s->broadcast || single->may_be_one) && size == 1) {
        s->has_one[factor] = true;
        return PLAIT_OK;
    }
    if (s->sizes[factor] < 0) bind(s, factor, size, name, dim, size);
    return s->sizes[factor] == size ? PLAIT_OK : mismatch(s, factor, name, dim, size);
}

/* One dim that is a product. Sets *out_done when all its factors are known afterwards. A known factor of 0 makes the
 * dim 0, and tells nothing of the open one, which then counts as 0 too. */
static plait_status solve_product(factor_solver *s, const plait_factor_dim *product, const char *name,
                                  int dim, int64_t size, bool *out_done) {
    int n_unknown = 0, unknown = 0, known = 0;
    int64_t rest = 1;
    for (int i = 0; i < product->n; i++) {
        int factor = product->factors[i];
        if (s->sizes[factor] < 0) {
            n_unknown++;
            unknown = factor;
        } else {
            known = factor;
            if (__builtin_mul_overflow(rest, s->sizes[factor], &rest))
                return plait_error(PLAIT_INVALID_ARGUMENT, "%s: dim %d: the product of its factors overflows",
                                   name, dim);
        }
    }
    *out_done = n_unknown <= 1;
    if (n_unknown == 0) {
        if (rest == size) return PLAIT_OK;
        return plait_error(PLAIT_INVALID_ARGUMENT, "%s: dim %d is %lld, expected %lld", name, dim,
                           (long long)size, (long long)rest);
    }
    if (n_unknown > 1) return PLAIT_OK;
    if (rest == 0 ? size != 0 : size % rest != 0)
        return plait_error(PLAIT_INVALID_ARGUMENT,
                           "%s: dim %d is %lld, expected a multiple of %s: dim %d, which is %lld", name, dim,
                           (long long)size, s->origin[known].operand, s->origin[known].dim,
                           (long long)s->origin[known].size);
    bind(s, unknown, rest == 0 ? 0 : size / rest, name, dim, size);
    return PLAIT_OK;
}

/* Every dim of an operand; single factors in the first pass, products afterwards. */
static plait_status solve_operand(factor_solver *s, const plait_factor_operand *f, const plait_operand *o,
                                  bool products, bool *all_done) {
    for (int d = 0; d < f->rank; d++) {
        if ((f->dims[d].n > 1) != products) continue;
        if (!products) {
            PLAIT_TRY(solve_single(s, &f->dims[d], f->name, d, o->dims[d]));
            continue;
        }
        bool done = false;
        PLAIT_TRY(solve_product(s, &f->dims[d], f->name, d, o->dims[d], &done));
        if (!done) *all_done = false;
    }
    return PLAIT_OK;
}

/* One pass over all operands that are there. */
static plait_status solve_pass(factor_solver *s, const plait_op_use *use, bool with_outputs, bool products,
                               bool *all_done) {
    const plait_factors *f = s->factors;
    *all_done = true;
    for (int i = 0; i < f->n_inputs; i++)
        if (plait_op_has(use, i))
            PLAIT_TRY(solve_operand(s, &f->inputs[i], &use->inputs[i], products, all_done));
    for (int i = 0; with_outputs && i < f->n_outputs; i++)
        PLAIT_TRY(solve_operand(s, &f->outputs[i], &use->outputs[i], products, all_done));
    return PLAIT_OK;
}

/* Single factors need one pass. A product gives a factor once all its others are known, so products are visited
 * until nothing is open: (g h) of q waits for h, which k gives. */
plait_status plait_factor_solve(const plait_op_use *use, const plait_factors *factors, bool with_outputs,
                                bool broadcast, int64_t *sizes) {
    factor_solver s = {.factors = factors, .sizes = sizes, .broadcast = broadcast};
    for (int i = 0; i < PLAIT_MAX_FACTORS; i++) sizes[i] = -1;
    bool done = false;
    PLAIT_TRY(solve_pass(&s, use, with_outputs, false, &done));
    for (int i = 0; i < factors->n_factors; i++)
        if (sizes[i] < 0 && s.has_one[i]) sizes[i] = 1;
    done = false;
    /* Each pass that does not finish finds at least one more factor, or nothing more can be found. */
    for (int pass = 0; pass < PLAIT_MAX_FACTORS && !done; pass++)
        PLAIT_TRY(solve_pass(&s, use, with_outputs, true, &done));
    return PLAIT_OK;
}

/* Ops whose operands all have the same four dims take broadcast operands. matmul, say, has two operands of four dims
 * but not the same factors in them, and so no broadcast. */
static bool is_elementwise(const plait_factors *f) {
    if (f->n_outputs != 1 || f->outputs[0].rank != PLAIT_MAX_RANK) return false;
    for (int i = 0; i < f->n_inputs; i++)
        if (f->inputs[i].rank != PLAIT_MAX_RANK ||
            memcmp(f->inputs[i].dims, f->outputs[0].dims, sizeof f->outputs[0].dims) != 0)
            return false;
    return true;
}

plait_status plait_op_factor_sizes(const plait_op_use *use, const plait_factors *factors,
                                   int64_t *out_sizes) {
    int64_t sizes[PLAIT_MAX_FACTORS];
    PLAIT_TRY(plait_factor_solve(use, factors, true, is_elementwise(factors), sizes));
    for (int i = 0; i < PLAIT_MAX_FACTORS; i++) out_sizes[i] = sizes[i] < 0 ? 0 : sizes[i];
    return PLAIT_OK;
}
