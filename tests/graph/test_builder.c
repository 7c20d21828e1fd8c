/* The builder: what is asked for is what the tables hold; the first wrong call is remembered with its names and numbers,
 * and everything after it is passed over in silence. */
#include "graph/build.h"

#include "support/assert_ok.h"
#include "support/random_graph.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

static plait_graph *new_graph(void) {
    plait_graph *g = plait_graph_create(&(plait_graph_options){.name = "g"});
    assert_non_null(g);
    return g;
}

/* ---- errors: each makes one wrong call on a graph that has x [4, n], w [4, 6], a cache, and n <= 8 ---- */

typedef struct base {
    plait_dim n;
    plait_tensor x, w, s, ids, cache;
} base;

#define PART(...)                                                                                            \
    (plait_part[]) {                                                                                         \
        __VA_ARGS__                                                                                          \
    }
#define LONG_NAME                                                                                            \
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa" \
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

/* X(call, status, message behind "graph g: ") */
#define WRONG_CALLS(X)                                                                                       \
    X(plait_graph_dim(g, "m", -1), INVALID_ARGUMENT, "dim m: bound -1, expected 0 to 2147483647")            \
    X(plait_graph_dim(g, "n", 9), INVALID_ARGUMENT, "dim n: bound 9, but it was given before as 8")          \
    X(plait_graph_dim(g, "", 9), INVALID_ARGUMENT, "a name is missing")                                      \
    X(plait_graph_derived_dim(g, 4, 1, 0, 1), INVALID_ARGUMENT,                                              \
      "derived dim: 4 is not a bounded dim of this graph")                                                   \
    X(plait_graph_derived_dim(g, -9, 1, 0, 1), INVALID_ARGUMENT,                                             \
      "derived dim: -9 is not a bounded dim of this graph")                                                  \
    X(plait_graph_derived_dim(g, b.n, -1, 0, 1), INVALID_ARGUMENT,                                           \
      "derived dim: (-1 n + 0) / 1 of a dim divided by 1")                                                   \
    X(plait_graph_derived_dim(g, b.n, 1, -1, 1), INVALID_ARGUMENT, "derived dim of n: out of range")         \
    X(plait_graph_derived_dim(g, plait_graph_derived_dim(g, b.n, 1, 0, 3), 2, 0, 1), INVALID_ARGUMENT,       \
      "derived dim: (2 n + 0) / 1 of a dim divided by 3")                                                    \
    X(plait_input(g, "x", PLAIT_F32, PLAIT_SHAPE(1)), INVALID_ARGUMENT,                                      \
      "input \"x\": input \"x\" exists already")                                                             \
    X(plait_input(g, NULL, PLAIT_F32, PLAIT_SHAPE(1)), INVALID_ARGUMENT, "input \"\": a name is missing")    \
    X(plait_input(g, "a b", PLAIT_F32, PLAIT_SHAPE(1)), INVALID_ARGUMENT,                                    \
      "input \"a b\": name \"a b\": byte 1 is a space, quote or control byte")                               \
    X(plait_input(g, LONG_NAME, PLAIT_F32, PLAIT_SHAPE(1)), INVALID_ARGUMENT, "bytes, at most 127")          \
    X(plait_input(g, "y", (plait_dtype)99, PLAIT_SHAPE(1)), INVALID_ARGUMENT,                                \
      "input \"y\": type number 99 is unknown")                                                              \
    X(plait_input(g, "y", PLAIT_F32, (plait_shape){0}), INVALID_ARGUMENT,                                    \
      "input \"y\": rank 0, expected 1 to 4")                                                                \
    X(plait_input(g, "y", PLAIT_F32, (plait_shape){.rank = 5}), INVALID_ARGUMENT,                            \
      "input \"y\": rank 5, expected 1 to 4")                                                                \
    X(plait_input(g, "y", PLAIT_F32, PLAIT_SHAPE(b.n, 2)), INVALID_ARGUMENT,                                 \
      "input \"y\": dim 0 is bounded, but only the outermost (dim 1) may be")                                \
    X(plait_input(g, "y", PLAIT_F32, PLAIT_SHAPE(2, -7)), INVALID_ARGUMENT,                                  \
      "input \"y\": dim 1: -7 is not a bounded dim of this graph")                                           \
    X(plait_input(g, "y", PLAIT_Q8_0, PLAIT_SHAPE(b.n)), INVALID_ARGUMENT,                                   \
      "input \"y\": dim 0 of a quantised type (Q8_0) cannot be bounded")                                     \
    X(plait_weight(g, "y", PLAIT_Q8_0, PLAIT_SHAPE(33, 2)), INVALID_ARGUMENT,                                \
      "weight \"y\": Q8_0 [33, 2, 1, 1]: too large, or dim 0 is no whole number of blocks of 32")            \
    X(plait_weight(g, "y", PLAIT_F32, PLAIT_SHAPE((int64_t)1 << 40, 1 << 10)), INVALID_ARGUMENT,             \
      "weight \"y\": [1099511627776, 1024, 1, 1] has more than 2^48 elements")                               \
    X(plait_weight(g, "y", PLAIT_F32, PLAIT_SHAPE(2, b.n)), INVALID_ARGUMENT,                                \
      "weight \"y\": a weight cannot have a bounded dim")                                                    \
    X(plait_output(g, "o", PLAIT_NO_TENSOR), INVALID_ARGUMENT,                                               \
      "output \"o\": 0 is not a tensor of this graph")                                                       \
    X(plait_output(g, "o", (plait_tensor){77}), INVALID_ARGUMENT,                                            \
      "output \"o\": 77 is not a tensor of this graph")                                                      \
    X((plait_output(g, "o", b.x), plait_output(g, "o", b.x)), INVALID_ARGUMENT,                              \
      "output \"o\": output \"o\" exists already")                                                           \
    X(plait_graph_scope(g, "a b"), INVALID_ARGUMENT,                                                         \
      "scope: name \"a b\": byte 1 is a space, quote or control byte")                                       \
    X(plait_named(g, "z", b.x), INVALID_ARGUMENT, "naming \"z\": no node makes that tensor")                 \
    X(plait_named(g, "", plait_silu(g, b.x)), INVALID_ARGUMENT, "a name is missing")                         \
    X(plait_graph_parts(g, b.x, 0, PART({"a", 4, 1}), 1), INVALID_ARGUMENT,                                  \
      "parts: \"x\" is no weight or state")                                                                  \
    X(plait_graph_parts(g, plait_slice(g, b.w, 1, 0, 2), 0, PART({"a", 4, 1}), 1), INVALID_ARGUMENT,         \
      "is no weight or state")                                                                               \
    X(plait_graph_parts(g, b.w, 4, PART({"a", 4, 1}), 1), INVALID_ARGUMENT,                                  \
      "parts of \"w\": axis 4, 1 parts")                                                                     \
    X(plait_graph_parts(g, b.w, 1, PART({"a", 4, 1}, {"b", 1, 1}), 2), INVALID_ARGUMENT,                     \
      "parts of \"w\" add up to 5, but dim 1 is 6")                                                          \
    X(plait_graph_parts(g, b.w, 1, PART({"a", 6, 0}), 1), INVALID_ARGUMENT,                                  \
      "part \"a\" of \"w\": size 6, granule 0")                                                              \
    X(plait_graph_parts(g, b.w, 1, PART({"a", -6, 1}), 1), INVALID_ARGUMENT,                                 \
      "part \"a\" of \"w\": size -6, granule 1")                                                             \
    X(plait_reshape(g, PLAIT_NO_TENSOR, PLAIT_SHAPE(1)), INVALID_ARGUMENT,                                   \
      "reshape: 0 is not a tensor of this graph")                                                            \
    X(plait_reshape(g, b.w, PLAIT_SHAPE(5, 5)), INVALID_ARGUMENT,                                            \
      "reshape of \"w\": [5, 5, 1, 1] has 25 elements, expected 24")                                         \
    X(plait_reshape(g, b.x, PLAIT_SHAPE(4, 8)), INVALID_ARGUMENT,                                            \
      "reshape of \"x\": the bounded dim changes")                                                           \
    X(plait_reshape(g, b.x, PLAIT_SHAPE(2, plait_graph_derived_dim(g, b.n, 1, 8, 1))), INVALID_ARGUMENT,     \
      "reshape of \"x\": the number of elements would not be the same for every value of the bounded dim")   \
    X(plait_reshape(g, plait_slice(g, b.w, 0, 0, 2), PLAIT_SHAPE(12)), INVALID_ARGUMENT,                     \
      "reshape of \"w\": the memory is not dense over the dims that change; copy it first")                  \
    X(plait_slice(g, b.w, 4, 0, 1), INVALID_ARGUMENT, "slice of \"w\": axis 4, expected 0 to 3")             \
    X(plait_slice(g, b.w, 1, 5, 2), OUT_OF_RANGE, "slice of \"w\": [5, 5 + 2) of dim 1, which is 6")         \
    X(plait_slice(g, b.w, 1, -1, 2), OUT_OF_RANGE, "slice of \"w\": [-1, -1 + 2) of dim 1, which is 6")      \
    X(plait_slice(g, b.w, 1, 2, INT64_MAX), OUT_OF_RANGE, "of dim 1, which is 6")                            \
    X(plait_slice(g, b.x, 1, 0, 4), INVALID_ARGUMENT,                                                        \
      "slice of \"x\": dim 1 is bounded and cannot be cut; use get_rows")                                    \
    X(plait_slice(g, plait_weight(g, "q", PLAIT_Q8_0, PLAIT_SHAPE(64, 2)), 0, 16, 32), INVALID_ARGUMENT,     \
      "slice of \"q\": [16, 16 + 32) of dim 0 cuts a block of 32 elements")                                  \
    X(plait_permute(g, b.w, (const int[]){0, 0, 2, 3}), INVALID_ARGUMENT,                                    \
      "permute of \"w\": order [0, 0, 2, 3] is no permutation")                                              \
    X(plait_permute(g, b.w, (const int[]){0, 4, 2, 3}), INVALID_ARGUMENT,                                    \
      "permute of \"w\": order [0, 4, 2, 3] is no permutation")                                              \
    X(plait_permute(g, b.x, (const int[]){1, 0, 2, 3}), INVALID_ARGUMENT,                                    \
      "permute of \"x\": the bounded dim must stay outermost")                                               \
    X(plait_permute(g, plait_weight(g, "q", PLAIT_Q8_0, PLAIT_SHAPE(64, 2)), (const int[]){1, 0, 2, 3}),     \
      INVALID_ARGUMENT, "permute of \"q\": dim 0 of a quantised type (Q8_0) must stay")                      \
    X(plait_apply(g, (plait_op_id)999, &b.x, 1, NULL, 0, NULL, 1), INVALID_ARGUMENT,                         \
      "op number 999 is unknown")                                                                            \
    X(plait_apply(g, PLAIT_OP_silu, &b.x, 11, NULL, 0, NULL, 1), INVALID_ARGUMENT,                           \
      "node 0 \"silu\": 11 inputs, at most 10")                                                              \
    X(plait_silu(g, (plait_tensor){50}), INVALID_ARGUMENT,                                                   \
      "node 0 \"silu\": input 0: 50 is not a tensor of this graph")                                          \
    X(plait_add(g, b.x, PLAIT_NO_TENSOR), INVALID_ARGUMENT, "node 0 \"add\": add: b: the input is missing")  \
    X(plait_matmul(g, b.x, b.x), INVALID_ARGUMENT,                                                           \
      "node 0 \"matmul\": output y: dims 0 and 1 are both bounded")                                          \
    X(plait_matmul(g, b.w, b.ids), INVALID_ARGUMENT, "node 0 \"matmul\": matmul: x: type is I32")            \
    X(plait_apply(g, PLAIT_OP_scale, &b.x, 1, (plait_attr_value[]){PLAIT_FLOAT("size", 1)}, 1, NULL, 1),     \
      INVALID_ARGUMENT, "node 0 \"scale\": there is no attribute \"size\"")                                  \
    X(plait_apply(g, PLAIT_OP_scale, &b.x, 1, NULL, 0, NULL, 1), INVALID_ARGUMENT,                           \
      "node 0 \"scale\": attribute \"factor\" is missing")                                                   \
    X(plait_apply(g, PLAIT_OP_scale, &b.x, 1,                                                                \
                  (plait_attr_value[]){PLAIT_FLOAT("factor", 1), PLAIT_FLOAT("factor", 1)}, 2, NULL, 1),     \
      INVALID_ARGUMENT, "node 0 \"scale\": attribute \"factor\" is given twice")                             \
    X(plait_apply(g, PLAIT_OP_scale, &b.x, 1, (plait_attr_value[]){PLAIT_FLOAT("factor", 1e308 * 10)}, 1,    \
                  NULL, 1),                                                                                  \
      INVALID_ARGUMENT, "node 0 \"scale\": scale: factor is inf, expected a finite number")                  \
    X((plait_kv_write(g, b.cache, b.s, b.ids), plait_kv_write(g, b.cache, b.s, b.ids)), INVALID_ARGUMENT,    \
      "node 1 \"kv_write\": input 0 is an old value of \"cache\": node \"kv_write\" wrote it since")         \
    X((plait_kv_write(g, b.cache, b.s, b.ids), plait_silu(g, plait_slice(g, b.cache, 3, 0, 1))),             \
      INVALID_ARGUMENT,                                                                                      \
      "node 1 \"silu\": input 0 is an old value of \"cache\": node \"kv_write\" wrote it since")             \
    X(plait_kv_write(g, plait_reshape(g, b.w, PLAIT_SHAPE(2, 2, 2, 3)), b.s, b.ids), INVALID_ARGUMENT,       \
      "node 0 \"kv_write\": would write \"w\", which is a weight")

static plait_graph *prepared_graph(base *b) {
    plait_graph *g = new_graph();
    b->n = plait_graph_dim(g, "n", 8);
    b->x = plait_input(g, "x", PLAIT_F32, PLAIT_SHAPE(4, b->n));
    b->w = plait_weight(g, "w", PLAIT_F32, PLAIT_SHAPE(4, 6));
    b->s = plait_input(g, "rows", PLAIT_F32, PLAIT_SHAPE(2, 2, b->n));
    b->ids = plait_input(g, "ids", PLAIT_I32, PLAIT_SHAPE(b->n));
    b->cache = plait_state(g, "cache", PLAIT_F32, PLAIT_SHAPE(2, 2, 2, 3));
    assert_ok(plait_graph_first_error(g));
    return g;
}

static void check_failed(plait_graph *g, const char *call, plait_status expected, const char *message) {
    size_t n_tensors = g->n_tensors, n_nodes = g->n_nodes, n_outputs = g->n_outputs;
    plait_status status = plait_graph_seal(g);
    if (status != expected || !strstr(plait_error_message(), message) ||
        strncmp(plait_error_message(), "graph g: ", 9) != 0)
        fail_msg("%s:\nexpected %s %s\nfound    %s %s", call, plait_status_name(expected), message,
                 plait_status_name(status), plait_error_message());
    /* Later calls do nothing, return poison and leave the first error. */
    plait_tensor poison = plait_input(g, "later", PLAIT_F32, PLAIT_SHAPE(4)), outputs[2] = {{9}, {9}};
    assert_int_equal(poison.id, 0);
    assert_int_equal(plait_silu(g, poison).id, 0);
    assert_int_equal(plait_slice(g, poison, 0, 0, 1).id, 0);
    assert_int_equal(plait_apply(g, PLAIT_OP_top_k, &poison, 1, NULL, 0, outputs, 2).id, 0);
    assert_int_equal(outputs[0].id + outputs[1].id, 0);
    assert_int_equal(plait_graph_dim(g, "later", 4), 0);
    assert_int_equal(plait_named(g, "later", poison).id, 0);
    plait_graph_scope(g, "a b");
    plait_output(g, "", poison);
    assert_int_equal(g->n_tensors, n_tensors);
    assert_int_equal(g->n_nodes, n_nodes);
    assert_int_equal(g->n_outputs, n_outputs);
    assert_int_equal(plait_graph_seal(g), expected);
    assert_non_null(strstr(plait_error_message(), message));
}

static void test_wrong_calls(void **state) {
    (void)state;
    int n = 0;
#define TRY_CALL(call, code, message)                                                                        \
    {                                                                                                        \
        base b;                                                                                              \
        plait_graph *g = prepared_graph(&b);                                                                 \
        (void)(call);                                                                                        \
        check_failed(g, #call, PLAIT_##code, message);                                                       \
        plait_graph_destroy(g);                                                                              \
        n++;                                                                                                 \
    }
    WRONG_CALLS(TRY_CALL)
#undef TRY_CALL
    print_message("%d wrong calls\n", n);
}

/* ---- sealing ---- */

static void test_sealing(void **state) {
    (void)state;
    plait_graph *g = new_graph();
    assert_int_equal(plait_graph_seal(g), PLAIT_INVALID_ARGUMENT);
    assert_string_equal(plait_error_message(), "graph g: it has no node and no output");
    plait_tensor x = plait_input(g, "x", PLAIT_F32, PLAIT_SHAPE(4)); /* that seal failed, but no call did */
    plait_tensor y = plait_named(g, "lonely", plait_silu(g, x));
    assert_int_equal(plait_graph_seal(g), PLAIT_INVALID_ARGUMENT);
    assert_string_equal(plait_error_message(), "graph g: node 0 \"lonely\" (silu): nothing uses its result");
    plait_output(g, "y", y);
    assert_ok(plait_graph_seal(g));
    assert_ok(plait_graph_seal(g));
    size_t n = g->n_tensors;
    assert_int_equal(plait_silu(g, y).id, 0);
    assert_int_equal(plait_input(g, "z", PLAIT_F32, PLAIT_SHAPE(4)).id, 0);
    assert_int_equal(g->n_tensors, n);
    plait_graph_destroy(g);

    base b;
    g = prepared_graph(&b);
    plait_output(g, "old", plait_slice(g, b.cache, 3, 0, 1));
    plait_kv_write(g, b.cache, b.s, b.ids);
    assert_int_equal(plait_graph_seal(g), PLAIT_INVALID_ARGUMENT);
    assert_string_equal(plait_error_message(), "graph g: output \"old\" is an old value of \"cache\": node "
                                               "\"kv_write\" wrote it since");
    plait_graph_destroy(g);
}

/* A write of state is its own purpose; chains of them end in the last. */
static void test_state_writes_are_used(void **state) {
    (void)state;
    base b;
    plait_graph *g = prepared_graph(&b);
    plait_tensor c = plait_kv_write(g, b.cache, b.s, b.ids);
    plait_tensor part = plait_slice(g, c, 3, 1, 1);
    plait_tensor c2 = plait_kv_write(g, c, b.s, b.ids);
    assert_ok(plait_graph_seal(g));
    const plait_graph_tensor *rows = g->tensors;
    assert_int_equal(rows[c.id].storage, rows[b.cache.id].storage);
    assert_int_equal(rows[c2.id].storage, rows[b.cache.id].storage);
    assert_int_equal(rows[part.id].node, rows[c.id].node);
    assert_int_equal(g->storages[rows[c.id].storage].writer, rows[c2.id].node);
    assert_int_equal(g->n_storages, 5);
    plait_graph_destroy(g);
}

/* ---- views ---- */

static void check_view(const plait_graph *g, plait_tensor v, const int64_t dims[4], const int64_t strides[4],
                       uint64_t offset) {
    const plait_graph_tensor *row = plait_graph_row(g, v);
    if (!row) fail_msg("%s", plait_graph_first_error(g) ? plait_error_message() : "no tensor");
    for (int i = 0; i < 4; i++) {
        assert_int_equal(row->shape.dims[i], dims[i]);
        if (dims[i] > 1) assert_int_equal(row->shape.strides[i], strides[i]);
    }
    assert_int_equal(row->offset, offset);
}

static void test_views(void **state) {
    (void)state;
    plait_graph *g = new_graph();
    plait_dim n = plait_graph_dim(g, "n", 5);
    plait_tensor x = plait_input(g, "x", PLAIT_F32, PLAIT_SHAPE(12, 6, n));
#define D(...) (const int64_t[]){__VA_ARGS__}
    check_view(g, x, D(12, 6, 5, 1), D(4, 48, 288, 0), 0);
    plait_tensor v = plait_slice(g, x, 0, 3, 6);
    check_view(g, v, D(6, 6, 5, 1), D(4, 48, 288, 0), 12);
    v = plait_slice(g, v, 1, 2, 4);
    check_view(g, v, D(6, 4, 5, 1), D(4, 48, 288, 0), 108);
    v = plait_reshape(g, v, PLAIT_SHAPE(3, 2, 4, n));
    check_view(g, v, D(3, 2, 4, 5), D(4, 12, 48, 288), 108);
    v = plait_permute(g, v, (const int[]){1, 2, 0, 3});
    check_view(g, v, D(2, 4, 3, 5), D(12, 48, 4, 288), 108);
    assert_int_equal(plait_graph_row(g, v)->outer.axis, 3);
    v = plait_reshape(g, x, PLAIT_SHAPE(72, n));
    check_view(g, v, D(72, 5, 1, 1), D(4, 288, 0, 0), 0);
    v = plait_reshape(g, x, PLAIT_SHAPE(plait_graph_derived_dim(g, n, 72, 0, 1)));
    check_view(g, v, D(360, 1, 1, 1), D(4, 0, 0, 0), 0);
    v = plait_slice(g, x, 1, 6, 0); /* nothing, at the very end */
    check_view(g, v, D(12, 0, 5, 1), D(4, 48, 288, 0), 0);
    plait_tensor q = plait_weight(g, "q", PLAIT_Q4_K, PLAIT_SHAPE(512, 6, 2));
    check_view(g, q, D(512, 6, 2, 1), D(144, 288, 1728, 0), 0);
    v = plait_slice(g, plait_slice(g, q, 0, 256, 256), 2, 1, 1);
    check_view(g, v, D(256, 6, 1, 1), D(144, 288, 0, 0), 1872);
    v = plait_reshape(g, q, PLAIT_SHAPE(256, 2, 12));
    check_view(g, v, D(256, 2, 12, 1), D(144, 144, 288, 0), 0);
    v = plait_permute(g, q, (const int[]){0, 2, 1, 3});
    check_view(g, v, D(512, 2, 6, 1), D(144, 1728, 288, 0), 0);
    v = plait_reshape(g, v, PLAIT_SHAPE(256, 2, 2, 6));
    check_view(g, v, D(256, 2, 2, 6), D(144, 144, 1728, 288), 0);
#undef D
    assert_ok(plait_graph_first_error(g));
    plait_graph_destroy(g);
}

/* Every element of random chains of views is the base's element that indices say, and inside at every value. */
static void test_view_chains_address_their_base(void **state) {
    (void)state;
    uint64_t seed = 5;
    int made = 0;
    for (int trial = 0; trial < 300; trial++) {
        plait_graph *g = new_graph();
        plait_tensor v = plait_weight(g, "x", PLAIT_I32, PLAIT_SHAPE(4, 3, 6, 2));
        int32_t data[144];
        for (int i = 0; i < 144; i++) data[i] = i;
        int32_t expected[144], next[144];
        int64_t dims[4] = {4, 3, 6, 2};
        memcpy(expected, data, sizeof data);
        for (int step = 0; step < 4; step++) {
            int64_t now[4] = {dims[0], dims[1], dims[2], dims[3]}, n = 0;
            if (random_next(&seed, 2)) {
                int axis = (int)random_next(&seed, 4);
                int64_t start = (int64_t)random_next(&seed, (uint64_t)dims[axis]);
                now[axis] = 1 + (int64_t)random_next(&seed, (uint64_t)(dims[axis] - start));
                v = plait_slice(g, v, axis, start, now[axis]);
                for (int64_t i = 0; i < now[0] * now[1] * now[2] * now[3]; i++) {
                    int64_t at[4] = {i % now[0], i / now[0] % now[1], i / now[0] / now[1] % now[2],
                                     i / now[0] / now[1] / now[2]};
                    at[axis] += start;
                    next[n++] = expected[at[0] + dims[0] * (at[1] + dims[1] * (at[2] + dims[2] * at[3]))];
                }
            } else {
                int order[4] = {0, 1, 2, 3};
                for (int i = 3; i > 0; i--) {
                    int k = (int)random_next(&seed, (uint64_t)i + 1), keep = order[i];
                    order[i] = order[k], order[k] = keep;
                }
                v = plait_permute(g, v, order);
                for (int i = 0; i < 4; i++) now[i] = dims[order[i]];
                for (int64_t i = 0; i < now[0] * now[1] * now[2] * now[3]; i++) {
                    int64_t at[4] = {i % now[0], i / now[0] % now[1], i / now[0] / now[1] % now[2],
                                     i / now[0] / now[1] / now[2]},
                            from[4];
                    for (int d = 0; d < 4; d++) from[order[d]] = at[d];
                    next[n++] =
                        expected[from[0] + dims[0] * (from[1] + dims[1] * (from[2] + dims[2] * from[3]))];
                }
            }
            memcpy(expected, next, sizeof next);
            memcpy(dims, now, sizeof dims);
            const plait_graph_tensor *row = plait_graph_row(g, v);
            assert_non_null(row);
            for (int64_t i = 0; i < n; i++) {
                const int64_t *s = row->shape.strides;
                int64_t byte = (int64_t)row->offset + i % dims[0] * s[0] + i / dims[0] % dims[1] * s[1] +
                               i / dims[0] / dims[1] % dims[2] * s[2] +
                               i / dims[0] / dims[1] / dims[2] * s[3];
                assert_int_equal(byte % 4, 0);
                assert_int_equal(data[byte / 4], expected[i]);
            }
            made++;
        }
        plait_graph_destroy(g);
    }
    print_message("%d views checked element by element\n", made);
}

/* ---- bounded dims along factors ---- */

static void check_extent(const plait_graph *g, plait_tensor t, int axis, int64_t a, int64_t b, int64_t c) {
    const plait_graph_tensor *row = plait_graph_row(g, t);
    assert_non_null(row);
    assert_int_equal(row->outer.dim, axis < 0 ? -1 : 0);
    if (axis < 0) return;
    assert_int_equal(row->outer.axis, axis);
    assert_int_equal(row->outer.a, a);
    assert_int_equal(row->outer.b, b);
    assert_int_equal(row->outer.c, c);
    assert_int_equal(row->shape.dims[axis], (a * g->dims[0].bound + b) / c);
}

static void test_bounded_dims_follow_factors(void **state) {
    (void)state;
    plait_graph *g = new_graph();
    plait_dim n = plait_graph_dim(g, "n", 9), m = plait_graph_derived_dim(g, n, 2, 3, 4);
    plait_tensor x = plait_input(g, "x", PLAIT_F32, PLAIT_SHAPE(8, m));
    plait_tensor w = plait_weight(g, "w", PLAIT_F32, PLAIT_SHAPE(8, 5));
    plait_tensor ids = plait_input(g, "ids", PLAIT_I32, PLAIT_SHAPE(n)), values, best;
    check_extent(g, plait_matmul(g, w, x), 1, 2, 3, 4);
    check_extent(g, plait_get_rows(g, w, ids), 1, 1, 0, 1);
    check_extent(g, plait_add(g, x, plait_weight(g, "bias", PLAIT_F32, PLAIT_SHAPE(8))), 1, 2, 3, 4);
    check_extent(g, plait_reshape(g, x, PLAIT_SHAPE(4, 2, m)), 2, 2, 3, 4);
    plait_top_k(g, x, 2, &values, &best);
    check_extent(g, values, 1, 2, 3, 4);
    check_extent(g, best, 1, 2, 3, 4);
    check_extent(g, plait_argmax(g, x), 0, 2, 3, 4);
    check_extent(g, plait_matmul(g, w, plait_weight(g, "v", PLAIT_F32, PLAIT_SHAPE(8, 3))), -1, 0, 0, 0);
    assert_ok(plait_graph_first_error(g));
    assert_int_equal(plait_graph_derived_dim(g, n, 2, 3, 4), m); /* the same dim has one name */
    assert_int_equal(plait_graph_dim(g, "n", 9), n);
    /* Two dims of equal bounds are not the same dim. */
    plait_tensor y = plait_input(g, "y", PLAIT_F32, PLAIT_SHAPE(8, plait_graph_dim(g, "k", 5)));
    plait_add(g, x, y);
    assert_int_equal(plait_graph_seal(g), PLAIT_INVALID_ARGUMENT);
    assert_non_null(strstr(plait_error_message(), "is bounded in two different ways"));
    plait_graph_destroy(g);
}

/* A dim that is summed over, or that ends up inside, cannot be bounded. */
static void test_bounded_dims_in_wrong_places(void **state) {
    (void)state;
    plait_graph *g = new_graph();
    plait_dim n = plait_graph_dim(g, "n", 9);
    plait_tensor a = plait_input(g, "a", PLAIT_F32, PLAIT_SHAPE(4, n));
    plait_tensor b = plait_weight(g, "b", PLAIT_F32, PLAIT_SHAPE(4, 7));
    plait_matmul(g, a, b); /* [n, 7]: n is inside */
    assert_int_equal(plait_graph_seal(g), PLAIT_INVALID_ARGUMENT);
    if (!strstr(plait_error_message(), "is not the outermost")) fail_msg("%s", plait_error_message());
    plait_graph_destroy(g);
}

/* ---- names, scopes, reading ---- */

static void test_names(void **state) {
    (void)state;
    plait_graph *g = new_graph();
    plait_tensor x = plait_input(g, "same", PLAIT_F32, PLAIT_SHAPE(4)), found;
    plait_tensor w = plait_weight(g, "same", PLAIT_F32, PLAIT_SHAPE(4));
    plait_graph_scope(g, "blk.3.");
    plait_tensor y = plait_add(g, x, w);
    plait_tensor z = plait_named(g, "double", plait_add(g, y, y));
    plait_graph_scope(g, NULL);
    plait_tensor u = plait_named(g, "free", plait_silu(g, z));
    plait_output(g, "same", u);
    assert_ok(plait_graph_seal(g));
    plait_tensor_info info;
    assert_ok(plait_tensor_describe(g, y, &info));
    assert_string_equal(info.name, "blk.3.add");
    assert_ok(plait_tensor_describe(g, z, &info));
    assert_string_equal(info.name, "blk.3.double");
    assert_string_equal(g->storages[g->tensors[z.id].storage].name, "blk.3.double");
    assert_ok(plait_tensor_describe(g, u, &info));
    assert_string_equal(info.name, "free");
    assert_ok(plait_graph_find(g, "same", &found)); /* outputs come first */
    assert_int_equal(found.id, u.id);
    assert_int_equal(plait_graph_find(g, "free", &found), PLAIT_NOT_FOUND);
    assert_string_equal(plait_error_message(), "graph g: nothing is called \"free\"");
    assert_int_equal(plait_tensor_describe(g, PLAIT_NO_TENSOR, &info), PLAIT_INVALID_ARGUMENT);
    assert_int_equal(plait_tensor_describe(g, (plait_tensor){1000}, &info), PLAIT_INVALID_ARGUMENT);
    assert_string_equal(plait_error_message(), "graph g: 1000 is not a tensor of this graph");
    plait_graph_destroy(g);
}

static void test_describe(void **state) {
    (void)state;
    plait_graph *g = new_graph();
    plait_dim n = plait_graph_dim(g, "n", 8), m = plait_graph_derived_dim(g, n, 3, 1, 2);
    plait_tensor x = plait_input(g, "x", PLAIT_F32, PLAIT_SHAPE(4, 6, m));
    plait_tensor v = plait_slice(g, x, 1, 2, 3);
    plait_tensor_info info;
    assert_ok(plait_tensor_describe(g, v, &info));
    assert_string_equal(info.name, "x");
    assert_int_equal(info.dtype, PLAIT_F32);
    assert_int_equal(info.shape.rank, 3);
    assert_int_equal(info.shape.dims[1], 3);
    assert_int_equal(info.shape.dims[2], m);
    assert_int_equal(info.bounds[2], 12);
    assert_int_equal(info.storage, PLAIT_STORAGE_INPUT);
    assert_true(info.is_view);
    plait_graph_destroy(g);
}

static void test_parts(void **state) {
    (void)state;
    plait_graph *g = new_graph();
    plait_tensor w = plait_weight(g, "w", PLAIT_F32, PLAIT_SHAPE(4, 12));
    char q[] = "q";
    plait_graph_parts(g, w, 1, PART({q, 8, 4}, {"k", 4, 2}), 2);
    q[0] = 'z'; /* names are copied */
    const plait_graph_storage *storage = &g->storages[0];
    assert_int_equal(storage->n_parts, 2);
    assert_int_equal(storage->part_axis, 1);
    assert_string_equal(storage->parts[0].name, "q");
    assert_int_equal(storage->parts[1].granule, 2);
    assert_ok(plait_graph_first_error(g));
    plait_graph_destroy(g);
}

/* More tensors than the first tables hold: ids stay what they were. */
static void test_many_nodes(void **state) {
    (void)state;
    plait_graph *g = new_graph();
    plait_tensor x = plait_input(g, "x", PLAIT_F32, PLAIT_SHAPE(4));
    for (int i = 0; i < 5000; i++) x = plait_silu(g, x);
    plait_output(g, "y", x);
    assert_ok(plait_graph_seal(g));
    assert_int_equal(g->n_nodes, 5000);
    for (uint32_t n = 1; n < 5000; n++) assert_int_equal(g->nodes[n].inputs[0], g->nodes[n - 1].outputs[0]);
    plait_graph_destroy(g);
    plait_graph_destroy(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wrong_calls),
        cmocka_unit_test(test_sealing),
        cmocka_unit_test(test_state_writes_are_used),
        cmocka_unit_test(test_views),
        cmocka_unit_test(test_view_chains_address_their_base),
        cmocka_unit_test(test_bounded_dims_follow_factors),
        cmocka_unit_test(test_bounded_dims_in_wrong_places),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_describe),
        cmocka_unit_test(test_parts),
        cmocka_unit_test(test_many_nodes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
