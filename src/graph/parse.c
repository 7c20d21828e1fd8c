/* The way back from text (its form is described in text.c) to a graph. Every line becomes a call of the builder, so all
 * rules of shapes, names and order are checked again by the same code; then the text's own shapes must agree. Text may
 * come from anywhere: nothing here trusts a count, a length or a number.
 *
 * A parser by hand, a line at a time: `at` runs through the line, nothing ever looks beyond its end, and what a call
 * takes is either understood whole or an error.
 *
 * Not here: any rule about graphs. Invariant: what is returned is sealed; a failure names the line. */
#include "graph/build.h"

#include "base/alloc.h"
#include "base/strbuf.h"

#include <stdlib.h>
#include <string.h>

typedef struct parser {
    const char *at, *end; /* the rest of the line */
    size_t line;          /* from 1 */
    plait_graph *graph;   /* NULL before the first line */
} parser;

enum { MAX_TEXT_BYTES = 1 << 28 };

/* ---- words of a line ---- */

/* What stands there instead, in a few characters that a terminal can show. */
static plait_status expected(const parser *p, const char *what) {
    size_t n = (size_t)(p->end - p->at);
    char found[24] = "the end of the line";
    if (n > 0) {
        size_t k = n < sizeof found - 1 ? n : sizeof found - 1;
        for (size_t i = 0; i < k; i++) found[i] = (unsigned char)p->at[i] < ' ' ? '?' : p->at[i];
        found[k] = '\0';
    }
    return plait_error(PLAIT_CORRUPT, "expected %s, found %s", what, found);
}

static void skip_spaces(parser *p) {
    while (p->at < p->end && (*p->at == ' ' || *p->at == '\t')) p->at++;
}

/* Takes the text if it is next. By prefix: callers give the space or mark that must follow, where letters could. */
static bool accept(parser *p, const char *text) {
    skip_spaces(p);
    size_t n = strlen(text);
    if ((size_t)(p->end - p->at) < n || memcmp(p->at, text, n) != 0) return false;
    p->at += n;
    return true;
}

static plait_status expect(parser *p, const char *text) {
    return accept(p, text) ? PLAIT_OK : expected(p, text);
}

static bool is_word(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/* Letters, digits and '_'; out has PLAIT_MAX_NAME bytes. */
static plait_status take_word(parser *p, const char *what, char *out) {
    skip_spaces(p);
    size_t n = 0;
    while (p->at + n < p->end && is_word(p->at[n])) n++;
    if (n == 0 || n >= PLAIT_MAX_NAME) return expected(p, what);
    memcpy(out, p->at, n);
    out[n] = '\0';
    p->at += n;
    return PLAIT_OK;
}

/* Lower case, as printed. */
static int hex_digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* One character of a quoted text; -1 when it is broken. A NUL cannot be part of a name, escaped or not. */
static int quoted_char(parser *p) {
    unsigned char c = (unsigned char)*p->at++;
    if (c != '\\') return c < ' ' || c == 0x7f ? -1 : c;
    if (p->at == p->end) return -1;
    c = (unsigned char)*p->at++;
    if (c == '"' || c == '\\') return c;
    if (c != 'x' || p->end - p->at < 2) return -1;
    /* The sum is looked at only when both are digits. */
    int high = hex_digit(p->at[0]), low = hex_digit(p->at[1]), code = 16 * high + low;
    p->at += 2;
    return high < 0 || low < 0 || code == 0 ? -1 : code;
}

/* The buffer has a limit of its own, if the caller gave it one. */
static plait_status take_quoted(parser *p, const char *what, plait_strbuf *out) {
    skip_spaces(p);
    if (p->at == p->end || *p->at != '"') return expected(p, what);
    p->at++;
    while (p->at < p->end && *p->at != '"') {
        int c = quoted_char(p);
        if (c < 0) return plait_error(PLAIT_CORRUPT, "%s: a broken escape or control character", what);
        plait_strbuf_append_char(out, (char)c);
    }
    if (p->at == p->end) return plait_error(PLAIT_CORRUPT, "%s: the closing quote is missing", what);
    p->at++;
    return plait_strbuf_status(out);
}

/* A quoted name; the builder checks its characters. out has PLAIT_MAX_NAME bytes. */
static plait_status take_name(parser *p, const char *what, char *out) {
    plait_strbuf text;
    plait_strbuf_init(&text, PLAIT_MAX_NAME - 1);
    plait_status status = take_quoted(p, what, &text);
    if (status == PLAIT_OK) memcpy(out, plait_strbuf_text(&text), text.length + 1);
    plait_strbuf_deinit(&text);
    return plait_error_context(status, "%s", what);
}

/* Reads towards the negative, because that side reaches one further; a number out of range is no number, and `at` stays
 * in front of it. */
static plait_status take_int(parser *p, const char *what, int64_t *out) {
    skip_spaces(p);
    const char *begin = p->at;
    bool negative = p->at < p->end && *p->at == '-';
    int64_t value = 0;
    bool fits = true;
    if (negative) p->at++;
    const char *digits = p->at;
    for (; p->at < p->end && *p->at >= '0' && *p->at <= '9'; p->at++)
        fits = fits && !__builtin_mul_overflow(value, 10, &value) &&
               !__builtin_sub_overflow(value, *p->at - '0', &value); /* negative: reaches INT64_MIN */
    if (!fits || p->at == digits || (!negative && value == INT64_MIN)) {
        p->at = begin;
        return expected(p, what);
    }
    *out = negative ? value : -value;
    return PLAIT_OK;
}

/* ---- dims and shapes ---- */

/* Quoted, or bare where it looks like an identifier. */
static plait_status take_dim_name(parser *p, char *out) {
    skip_spaces(p);
    return p->at < p->end && *p->at == '"' ? take_name(p, "a dim's name", out) : take_word(p, "a dim", out);
}

/* The named dim, which a line above must have declared. */
static plait_status find_dim(parser *p, plait_dim *out) {
    char name[PLAIT_MAX_NAME];
    PLAIT_TRY(take_dim_name(p, name));
    for (size_t d = 0; d < p->graph->n_dims; d++)
        if (strcmp(p->graph->dims[d].name, name) == 0) {
            *out = plait_graph_dim(p->graph, name, p->graph->dims[d].bound);
            return plait_graph_first_error(p->graph);
        }
    return plait_error(PLAIT_CORRUPT, "there is no dim \"%s\"", name);
}

/* A size, a named dim, or one derived from it. Negative sizes are refused here: the builder would take them for
 * references. */
static plait_status take_dim(parser *p, plait_dim *out) {
    int64_t a, b, c;
    plait_dim n;
    skip_spaces(p);
    if (p->at < p->end && (*p->at == '-' || (*p->at >= '0' && *p->at <= '9'))) {
        PLAIT_TRY(take_int(p, "a size", out));
        return *out >= 0 ? PLAIT_OK : plait_error(PLAIT_CORRUPT, "a size of %lld", (long long)*out);
    }
    /* "(2*tokens+1)/3", as print_extent writes it. */
    if (!accept(p, "(")) return find_dim(p, out);
    PLAIT_TRY(take_int(p, "a factor", &a));
    PLAIT_TRY(expect(p, "*"));
    PLAIT_TRY(find_dim(p, &n));
    PLAIT_TRY(expect(p, "+"));
    PLAIT_TRY(take_int(p, "an addend", &b));
    PLAIT_TRY(expect(p, ")/"));
    PLAIT_TRY(take_int(p, "a divisor", &c));
    *out = plait_graph_derived_dim(p->graph, n, a, b, c);
    return plait_graph_first_error(p->graph);
}

/* One to four dims; the builder looks at the rest. */
static plait_status take_shape(parser *p, plait_shape *out) {
    plait_shape shape = {0};
    PLAIT_TRY(expect(p, "["));
    do {
        if (shape.rank == PLAIT_MAX_RANK)
            return plait_error(PLAIT_CORRUPT, "a shape of more than %d dims", PLAIT_MAX_RANK);
        PLAIT_TRY(take_dim(p, &shape.dims[shape.rank++]));
    } while (accept(p, ","));
    *out = shape;
    return expect(p, "]");
}

/* Names as printed first, which a walk finds quickly; everything else is the common parser's, with its messages. */
static plait_status take_dtype(parser *p, plait_dtype *out) {
    char word[PLAIT_MAX_NAME];
    PLAIT_TRY(take_word(p, "a type", word));
    for (int i = 0; i < PLAIT_DTYPE_LIMIT;
         i++) /* as printed; other letter cases and messages are dtype.c's */
        if (plait_dtype_known(i) && strcmp(plait_dtype_name((plait_dtype)i), word) == 0)
            return *out = (plait_dtype)i, PLAIT_OK;
    return plait_dtype_parse(word, out);
}

/* A tensor that a line above made; `_` is none where `absent` allows it. */
static plait_status take_tensor(parser *p, bool absent, plait_tensor *out) {
    int64_t id;
    out->id = 0;
    if (absent && accept(p, "_")) return PLAIT_OK;
    PLAIT_TRY(expect(p, "%"));
    PLAIT_TRY(take_int(p, "a tensor's number", &id));
    if (id < 1 || (uint64_t)id >= p->graph->n_tensors)
        return plait_error(PLAIT_CORRUPT, "%%%lld is not made by a line above", (long long)id);
    out->id = (uint32_t)id;
    return PLAIT_OK;
}

/* ---- lines ---- */

/* Declared once, before use: the text is not the builder, which would take a repetition. */
static plait_status parse_dim(parser *p) {
    char name[PLAIT_MAX_NAME];
    int64_t bound;
    PLAIT_TRY(take_dim_name(p, name));
    PLAIT_TRY(take_int(p, "a bound", &bound));
    for (size_t d = 0; d < p->graph->n_dims; d++)
        if (strcmp(p->graph->dims[d].name, name) == 0)
            return plait_error(PLAIT_CORRUPT, "dim \"%s\" is declared twice", name);
    plait_graph_dim(p->graph, name, bound);
    return plait_graph_first_error(p->graph);
}

/* Names of outputs are checked by the builder. */
static plait_status parse_output(parser *p) {
    char name[PLAIT_MAX_NAME];
    plait_tensor tensor;
    PLAIT_TRY(take_name(p, "an output's name", name));
    PLAIT_TRY(take_tensor(p, false, &tensor));
    plait_output(p->graph, name, tensor);
    return plait_graph_first_error(p->graph);
}

/* What does not fit 32 bits becomes a number that the builder refuses. */
static plait_status parse_block(parser *p) {
    int64_t block;
    PLAIT_TRY(take_int(p, "a block", &block));
    plait_graph_block(p->graph, block < -1 || block > INT32_MAX ? -2 : (int)block);
    return plait_graph_first_error(p->graph);
}

/* Until the end of the line. Names are kept in a table that moves while it grows, so pointers to them are taken at the
 * end. */
static plait_status parse_parts(parser *p, plait_tensor tensor) {
    int64_t axis;
    plait_part *parts = NULL;
    char(*names)[PLAIT_MAX_NAME] = NULL;
    size_t n = 0, capacity = 0, name_capacity = 0;
    plait_status status = take_int(p, "an axis", &axis);
    while (status == PLAIT_OK && (skip_spaces(p), p->at < p->end)) {
        status = plait_grow(&parts, &capacity, n + 1, sizeof *parts, PLAIT_GRAPH_MAX_PARTS, "parts");
        if (status == PLAIT_OK)
            status =
                plait_grow(&names, &name_capacity, n + 1, sizeof *names, 2 * PLAIT_GRAPH_MAX_PARTS, "parts");
        if (status == PLAIT_OK) status = take_name(p, "a part's name", names[n]);
        if (status == PLAIT_OK) status = take_int(p, "a part's size", &parts[n].size);
        if (status == PLAIT_OK) status = expect(p, "/");
        if (status == PLAIT_OK) status = take_int(p, "a part's granule", &parts[n].granule);
        n++;
    }
    for (size_t i = 0; status == PLAIT_OK && i < n; i++) parts[i].name = names[i];
    if (status == PLAIT_OK) {
        int where = axis < 0 || axis >= PLAIT_MAX_RANK ? -1 : (int)axis;
        plait_graph_parts(p->graph, tensor, where, parts, (int)n);
        status = plait_graph_first_error(p->graph);
    }
    free(parts);
    free(names);
    return status;
}

/* The shape is the text's own here: nothing else says it. */
static plait_status parse_root(parser *p, const char *kind) {
    char name[PLAIT_MAX_NAME];
    plait_dtype dtype;
    plait_shape shape;
    plait_tensor tensor;
    PLAIT_TRY(take_name(p, "a name", name));
    PLAIT_TRY(take_dtype(p, &dtype));
    PLAIT_TRY(take_shape(p, &shape));
    if (strcmp(kind, "input") == 0)
        tensor = plait_input(p->graph, name, dtype, shape);
    else if (strcmp(kind, "weight") == 0)
        tensor = plait_weight(p->graph, name, dtype, shape);
    else
        tensor = plait_state(p->graph, name, dtype, shape);
    PLAIT_TRY(plait_graph_first_error(p->graph));
    return accept(p, "parts") ? parse_parts(p, tensor) : PLAIT_OK;
}

/* All views have one form, in whichever way they were made. */
static plait_status parse_view(parser *p) {
    plait_tensor base;
    plait_shape shape;
    int64_t strides[PLAIT_MAX_RANK], offset;
    PLAIT_TRY(take_tensor(p, false, &base));
    PLAIT_TRY(take_shape(p, &shape));
    PLAIT_TRY(expect(p, "strides"));
    for (int i = 0; i < PLAIT_MAX_RANK; i++) {
        PLAIT_TRY(expect(p, i ? "," : "["));
        PLAIT_TRY(take_int(p, "a stride", &strides[i]));
    }
    PLAIT_TRY(expect(p, "]"));
    PLAIT_TRY(expect(p, "offset"));
    PLAIT_TRY(take_int(p, "an offset", &offset));
    plait_graph_view(p->graph, base, shape, strides, offset);
    return plait_graph_first_error(p->graph);
}

/* Finds where the number ends, as other words may follow; then all of it must be one finite decimal number. */
static plait_status take_float(parser *p, double *out) {
    skip_spaces(p);
    size_t n = 0;
    for (char last = 'e'; p->at + n < p->end; last = p->at[n++]) {
        char c = p->at[n];
        /* `last` begins as an exponent's letter, so that a sign in front is taken by the same rule. */
        bool sign = (c == '+' || c == '-') && (last == 'e' || last == 'E'); /* in front, or of the exponent */
        if (!sign && !is_word(c) && c != '.') break;
    }
    if (!plait_parse_double(p->at, n, out)) return expected(p, "a number");
    p->at += n;
    return PLAIT_OK;
}

static plait_status take_attr(parser *p, const plait_op *op, const char *name, plait_attr *out) {
    int index = plait_op_attr_index(op, name);
    plait_dtype dtype;
    if (index < 0) return plait_error(PLAIT_CORRUPT, "%s has no attribute \"%s\"", op->name, name);
    switch (op->attrs[index].kind) {
    case PLAIT_ATTR_INT: return take_int(p, name, &out->i);
    case PLAIT_ATTR_FLOAT: return take_float(p, &out->f);
    case PLAIT_ATTR_DTYPE: PLAIT_TRY(take_dtype(p, &dtype)); return out->i = dtype, PLAIT_OK;
    case PLAIT_ATTR_BOOL: out->i = accept(p, "true"); return out->i ? PLAIT_OK : expect(p, "false");
    }
    return PLAIT_OK;
}

/* The text's word on an output must be what the shape rules say. The row is looked up again behind take_shape(), which
 * may add extents. */
static plait_status check_result(parser *p, uint32_t id) {
    const plait_graph_tensor *made = &p->graph->tensors[id];
    plait_dtype dtype;
    plait_shape shape;
    int64_t dims[PLAIT_MAX_RANK];
    plait_extent outer;
    PLAIT_TRY(take_dtype(p, &dtype));
    PLAIT_TRY(take_shape(p, &shape));
    made = &p->graph->tensors[id];
    PLAIT_TRY(plait_graph_shape(p->graph, shape, dims, &outer));
    bool equal = dtype == made->shape.dtype && shape.rank == made->rank &&
                 memcmp(dims, made->shape.dims, sizeof dims) == 0 &&
                 plait_extent_equal(&outer, &made->outer) &&
                 (outer.dim < 0 || outer.axis == made->outer.axis);
    if (equal) return PLAIT_OK;
    plait_strbuf text;
    plait_strbuf_init(&text, 0);
    plait_graph_print_shape(p->graph, made, &text);
    plait_status status = plait_error(PLAIT_CORRUPT, "%%%u has another type or shape: the op makes %s %s", id,
                                      plait_dtype_name(made->shape.dtype), plait_strbuf_text(&text));
    plait_strbuf_deinit(&text);
    return status;
}

/* Inputs, attributes, then the builder's call, then the text's word on the results. Tables on the stack have the sizes
 * that ops can have at most. */
static plait_status apply(parser *p, const plait_op *op, const char *name, int n_ids) {
    plait_tensor inputs[PLAIT_MAX_INPUTS], outputs[PLAIT_MAX_OUTPUTS];
    plait_attr_value attrs[PLAIT_MAX_ATTRS];
    char names[PLAIT_MAX_ATTRS][PLAIT_MAX_NAME];
    int n_inputs = 0, n_attrs = 0;
    /* An attribute's name begins with a letter, so a mark tells inputs from what follows them. */
    while (skip_spaces(p), p->at < p->end && (*p->at == '%' || *p->at == '_')) {
        if (n_inputs == PLAIT_MAX_INPUTS)
            return plait_error(PLAIT_CORRUPT, "more than %d inputs", PLAIT_MAX_INPUTS);
        PLAIT_TRY(take_tensor(p, true, &inputs[n_inputs++]));
    }
    while (!accept(p, "->")) {
        if (n_attrs == PLAIT_MAX_ATTRS)
            return plait_error(PLAIT_CORRUPT, "more than %d attributes", PLAIT_MAX_ATTRS);
        PLAIT_TRY(take_word(p, "an attribute or ->", names[n_attrs]));
        PLAIT_TRY(expect(p, "="));
        attrs[n_attrs].name = names[n_attrs];
        PLAIT_TRY(take_attr(p, op, names[n_attrs], &attrs[n_attrs].value));
        n_attrs++;
    }
    plait_tensor first = plait_apply(p->graph, op->id, inputs, n_inputs, attrs, n_attrs, outputs, n_ids);
    plait_named(p->graph, name, first);
    PLAIT_TRY(plait_graph_first_error(p->graph));
    for (int o = 0; o < n_ids; o++) {
        if (o) PLAIT_TRY(expect(p, ","));
        PLAIT_TRY(check_result(p, outputs[o].id));
    }
    return PLAIT_OK;
}

/* "%7 = ..." or "%7, %8 = ...": the numbers must be the next ones. */
static plait_status parse_made(parser *p) {
    char word[PLAIT_MAX_NAME], name[PLAIT_MAX_NAME];
    int n = 0;
    do {
        int64_t id;
        PLAIT_TRY(expect(p, "%"));
        PLAIT_TRY(take_int(p, "a tensor's number", &id));
        /* Numbers say nothing that the order of lines does not; that they agree shows lines that were lost or moved. */
        if (id != (int64_t)p->graph->n_tensors + n)
            return plait_error(PLAIT_CORRUPT, "%%%lld is made here, expected %%%lld: numbers count up",
                               (long long)id, (long long)p->graph->n_tensors + n);
        n++;
    } while (accept(p, ",") && n < PLAIT_MAX_OUTPUTS);
    PLAIT_TRY(expect(p, "="));
    PLAIT_TRY(take_word(p, "input, weight, state, view or an op", word));
    /* No op is called like one of these words. */
    bool root = strcmp(word, "input") == 0 || strcmp(word, "weight") == 0 || strcmp(word, "state") == 0;
    if ((root || strcmp(word, "view") == 0) && n != 1)
        return plait_error(PLAIT_CORRUPT, "%s makes one tensor, not %d", word, n);
    if (root) return parse_root(p, word);
    if (strcmp(word, "view") == 0) return parse_view(p);
    const plait_op *op = plait_op_find(word);
    if (!op) return plait_error(PLAIT_CORRUPT, "there is no op \"%s\"", word);
    PLAIT_TRY(take_name(p, "a node's name", name));
    return apply(p, op, name, n);
}

/* Version 1 is all there is. The graph's name may be anything, it is not compared. */
static plait_status parse_first(parser *p) {
    int64_t version;
    plait_strbuf name;
    PLAIT_TRY(expect(p, "plait-graph"));
    PLAIT_TRY(take_int(p, "a version", &version));
    if (version != 1)
        return plait_error(PLAIT_UNSUPPORTED, "version %lld, this library reads 1", (long long)version);
    plait_strbuf_init(&name, 0);
    plait_status status = take_quoted(p, "the graph's name", &name);
    if (status == PLAIT_OK) {
        /* From here on p->graph is the caller's to destroy, whatever happens. */
        p->graph = plait_graph_create(&(plait_graph_options){.name = plait_strbuf_text(&name)});
        if (!p->graph) status = plait_error_memory("graph", sizeof *p->graph);
    }
    plait_strbuf_deinit(&name);
    return status;
}

/* Empty lines and comments are passed over; behind what was understood nothing may follow. */
static plait_status parse_line(parser *p) {
    skip_spaces(p);
    if (p->at == p->end || *p->at == '#') return PLAIT_OK;
    plait_status status;
    if (!p->graph)
        status = parse_first(p);
    else if (*p->at == '%')
        status = parse_made(p);
    else if (accept(p, "dim "))
        status = parse_dim(p);
    else if (accept(p, "output "))
        status = parse_output(p);
    else if (accept(p, "block "))
        status = parse_block(p);
    else
        return expected(p, "dim, block, output or a tensor's number");
    PLAIT_TRY(status);
    skip_spaces(p);
    return p->at == p->end ? PLAIT_OK : expected(p, "the end of the line");
}

/* Sealing ends it, with the checks of a whole graph. */
static plait_status parse_lines(parser *p, const char *text, size_t n_bytes) {
    if (n_bytes > MAX_TEXT_BYTES)
        return plait_error(PLAIT_LIMIT, "%zu bytes of text, at most %d", n_bytes, MAX_TEXT_BYTES);
    for (const char *at = text, *end = text + n_bytes; at < end;) {
        /* The last line need not end, and the text need not have a NUL. */
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        p->at = at;
        p->end = stop ? stop : end;
        p->line++;
        /* Lines may end as other systems end them. */
        if (p->end > p->at && p->end[-1] == '\r') p->end--;
        PLAIT_TRY(plait_error_context(parse_line(p), "line %zu", p->line));
        at = stop ? stop + 1 : end;
    }
    if (!p->graph) return plait_error(PLAIT_CORRUPT, "the line \"plait-graph 1 NAME\" is missing");
    return plait_graph_seal(p->graph);
}

/* n_bytes 0 with whatever pointer is an empty text. */
plait_status plait_graph_parse(const char *text, size_t n_bytes, plait_graph **out) {
    parser p = {0};
    plait_status status = n_bytes ? parse_lines(&p, text, n_bytes) : parse_lines(&p, "", 0);
    if (status != PLAIT_OK) {
        plait_graph_destroy(p.graph);
        return plait_error_context(status, "graph text");
    }
    *out = p.graph;
    return PLAIT_OK;
}
