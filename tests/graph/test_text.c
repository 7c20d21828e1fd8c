/* Graphs as text: what is printed reads back to an equal graph and prints the same; broken text is refused with the
 * line and the reason; drawings hold every node. */
#include "graph/build.h"

#include "support/assert_ok.h"
#include "support/random_graph.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

/* Prints, reads back, compares, prints again. */
static void check_round_trip(const plait_graph *graph) {
    char *text = NULL, *again = NULL, *drawing = NULL;
    plait_graph *copy = NULL;
    assert_ok(plait_graph_print(graph, &text));
    if (plait_graph_parse(text, strlen(text), &copy) != PLAIT_OK)
        fail_msg("%s\n%s", plait_error_message(), text);
    assert_ok(plait_graph_print(copy, &again));
    assert_string_equal(text, again);
    assert_true(plait_graph_equal(graph, copy));
    assert_true(plait_graph_equal(copy, graph));
    assert_ok(plait_graph_print_dot(graph, &drawing));
    free(text);
    free(again);
    free(drawing);
    plait_graph_destroy(copy);
}

static void test_random_graphs_round_trip(void **state) {
    (void)state;
    size_t nodes = 0, views = 0;
    for (uint64_t seed = 0; seed < 400; seed++) {
        plait_graph *graph = random_graph_make(seed, 4 + (int)(seed % 40));
        if (!graph) fail_msg("seed %llu: %s", (unsigned long long)seed, plait_error_message());
        check_round_trip(graph);
        nodes += graph->n_nodes;
        for (size_t t = 1; t < graph->n_tensors; t++) views += graph->tensors[t].base != 0;
        plait_graph_destroy(graph);
    }
    print_message("400 random graphs, %zu nodes, %zu views\n", nodes, views);
}

/* ---- the form itself ---- */

static plait_graph *small_graph(void) {
    plait_graph *g = plait_graph_create(&(plait_graph_options){.name = "two \"words\"\n"});
    assert_non_null(g);
    plait_dim n = plait_graph_dim(g, "tokens", 64), half = plait_graph_derived_dim(g, n, 1, 1, 2);
    plait_tensor ids = plait_input(g, "ids", PLAIT_I32, PLAIT_SHAPE(half));
    plait_tensor w = plait_weight(g, "wqk", PLAIT_Q8_0, PLAIT_SHAPE(32, 48));
    plait_graph_parts(g, w, 1, (plait_part[]){{"q", 32, 8}, {"k", 16, 8}}, 2);
    plait_graph_scope(g, "blk.0.");
    plait_tensor rows = plait_named(g, "embed", plait_get_rows(g, w, ids));
    plait_tensor heads = plait_reshape(g, rows, PLAIT_SHAPE(8, 4, half));
    plait_tensor part = plait_slice(g, heads, 1, 2, 2);
    plait_graph_block(g, 7);
    plait_tensor y = plait_rms_norm(g, part, PLAIT_NO_TENSOR, 1e-5), values, best;
    plait_graph_block(g, -1);
    plait_top_k(g, rows, 3, &values, &best);
    plait_output(g, "values", values);
    plait_output(g, "best\\", best);
    plait_output(g, "y", y);
    assert_ok(plait_graph_seal(g));
    return g;
}

static const char small_text[] =
    "plait-graph 1 \"two \\\"words\\\"\\x0a\"\n"
    "dim tokens 64\n"
    "%1 = input \"ids\" I32 [(1*tokens+1)/2]\n"
    "%2 = weight \"wqk\" Q8_0 [32, 48] parts 1 \"q\" 32/8 \"k\" 16/8\n"
    "%3 = get_rows \"blk.0.embed\" %2 %1 -> F32 [32, (1*tokens+1)/2]\n"
    "%4 = view %3 [8, 4, (1*tokens+1)/2] strides [4, 32, 128, 4096] offset 0\n"
    "%5 = view %4 [8, 2, (1*tokens+1)/2] strides [4, 32, 128, 4096] offset 64\n"
    "block 7\n"
    "%6 = rms_norm \"blk.0.rms_norm\" %5 _ eps=1e-05 -> F32 [8, 2, (1*tokens+1)/2]\n"
    "block -1\n"
    "%7, %8 = top_k \"blk.0.top_k\" %3 k=3 -> F32 [3, (1*tokens+1)/2], I32 [3, (1*tokens+1)/2]\n"
    "output \"values\" %7\n"
    "output \"best\\\\\" %8\n"
    "output \"y\" %6\n";

static void test_text_is_as_documented(void **state) {
    (void)state;
    plait_graph *g = small_graph();
    char *text = NULL;
    assert_ok(plait_graph_print(g, &text));
    assert_string_equal(text, small_text);
    check_round_trip(g);
    free(text);
    plait_graph_destroy(g);
}

/* Written by hand: spaces, tabs, comments, empty lines and line ends of another system do not matter. */
static void test_loose_text(void **state) {
    (void)state;
    plait_graph *g = plait_graph_create(NULL), *read = NULL;
    plait_tensor x = plait_input(g, "x", PLAIT_F32, PLAIT_SHAPE(4, plait_graph_dim(g, "a-b", 3)));
    plait_output(g, "y", plait_scale(g, x, 2));
    assert_ok(plait_graph_seal(g));
    const char text[] =
        "# a comment\n\nplait-graph 1 \"graph\"\r\n  dim \"a-b\"\t3\n%1=input \"x\" f32 [ 4 ,\"a-b\" ]\n"
        "%2 = scale \"scale\" %1 factor=2.0e0->F32[4,\"a-b\"]\n\toutput \"y\" %2";
    if (plait_graph_parse(text, strlen(text), &read) != PLAIT_OK) fail_msg("%s", plait_error_message());
    assert_true(plait_graph_equal(g, read));
    check_round_trip(read);
    plait_graph_destroy(g);
    plait_graph_destroy(read);
}

static void test_equal_sees_differences(void **state) {
    (void)state;
    static const char *const changes[][2] = {
        {"tokens 64", "tokens 63"},     {"\"ids\" I32", "\"idz\" I32"},
        {"\"q\" 32/8", "\"q\" 32/16"},  {"\"q\" 32/8", "\"p\" 32/8"},
        {"eps=1e-05", "eps=1e-06"},     {"offset 64", "offset 32"},
        {"blk.0.embed", "blk.1.embed"}, {"output \"values\"", "output \"v\""},
        {"block 7", "block 8"},         {"Q8_0 [32, 48]", "Q8_0 [32, 48]"},
    };
    plait_graph *g = small_graph();
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        char text[sizeof small_text + 64];
        const char *at = strstr(small_text, changes[i][0]);
        assert_non_null(at);
        snprintf(text, sizeof text, "%.*s%s%s", (int)(at - small_text), small_text, changes[i][1],
                 at + strlen(changes[i][0]));
        plait_graph *other = NULL;
        if (plait_graph_parse(text, strlen(text), &other) != PLAIT_OK) fail_msg("%s", plait_error_message());
        bool same = strcmp(changes[i][0], changes[i][1]) == 0;
        if (plait_graph_equal(g, other) != same) fail_msg("%s -> %s", changes[i][0], changes[i][1]);
        plait_graph_destroy(other);
    }
    plait_graph_destroy(g);
}

/* ---- broken text ---- */

#define HEAD       "plait-graph 1 \"g\"\ndim n 8\n%1 = input \"x\" F32 [4, n]\n"
#define VIEW(rest) HEAD "%2 = view %1 " rest "\n"

static const struct broken {
    const char *text, *message;
} broken[] = {
    {"", "graph text: the line \"plait-graph 1 NAME\" is missing"},
    {"\n# nothing\n", "graph text: the line \"plait-graph 1 NAME\" is missing"},
    {"graph 1 \"g\"\n", "graph text: line 1: expected plait-graph, found graph 1 \"g\""},
    {"plait-graph 2 \"g\"\n", "graph text: line 1: version 2, this library reads 1"},
    {"plait-graph 1 g\n", "graph text: line 1: expected the graph's name, found g"},
    {"plait-graph 1 \"g\n", "graph text: line 1: the graph's name: the closing quote is missing"},
    {"plait-graph 1 \"\\x00\"\n",
     "graph text: line 1: the graph's name: a broken escape or control character"},
    {"plait-graph 1 \"g\"\n", "graph text: graph g: it has no node and no output"},
    {HEAD "plait-graph 1 \"g\"\n",
     "line 4: expected dim, block, output or a tensor's number, found plait-graph 1 \"g\""},
    {HEAD "dim n 8\n", "line 4: dim \"n\" is declared twice"},
    {HEAD "dim m -1\n", "line 4: graph g: dim m: bound -1, expected 0 to 2147483647"},
    {HEAD "dim m 99999999999999999999\n", "line 4: expected a bound, found 99999999999999999999"},
    {HEAD "%2 = input \"x\" F32 [4]\n", "line 4: graph g: input \"x\": input \"x\" exists already"},
    {HEAD "%3 = input \"y\" F32 [4]\n", "line 4: %3 is made here, expected %2: numbers count up"},
    {HEAD "%2 = silu \"s\" %2 -> F32 [4, n]\n", "line 4: %2 is not made by a line above"},
    {HEAD "%2 = silu \"s\" %9 -> F32 [4, n]\n", "line 4: %9 is not made by a line above"},
    {HEAD "%2 = shrug \"s\" %1 -> F32 [4, n]\n", "line 4: there is no op \"shrug\""},
    {HEAD "%2 = silu \"s\" %1 -> F32 [4, 8]\n",
     "line 4: %2 has another type or shape: the op makes F32 [4, n]"},
    {HEAD "%2 = silu \"s\" %1 -> F16 [4, n]\n",
     "line 4: %2 has another type or shape: the op makes F32 [4, n]"},
    {HEAD "%2 = silu \"s\" %1 -> F32 [4, n] x\n", "line 4: expected the end of the line, found x"},
    {HEAD "%2 = silu \"s\" %1 %1 -> F32 [4, n]\n", "line 4: graph g: node 0 \"silu\": silu: 2 inputs given"},
    {HEAD "%2 = silu \"s\" eps=3 %1 -> F32 [4, n]\n", "line 4: silu has no attribute \"eps\""},
    {HEAD "%2 = scale \"s\" %1 -> F32 [4, n]\n",
     "line 4: graph g: node 0 \"scale\": attribute \"factor\" is missing"},
    {HEAD "%2 = scale \"s\" %1 factor=1e999 -> F32 [4, n]\n", "line 4: expected a number, found 1e999"},
    {HEAD "%2 = scale \"s\" %1 factor=1 factor=2 -> F32 [4, n]\n", "attribute \"factor\" is given twice"},
    {HEAD "%2 = silu \"a b\" %1 -> F32 [4, n]\n", "byte 1 is a space, quote or control byte"},
    {HEAD "%2 = silu \"\" %1 -> F32 [4, n]\n", "a name is missing"},
    {HEAD "%2, %3 = silu \"s\" %1 -> F32 [4, n]\n",
     "line 4: graph g: node 1 \"silu\": 2 outputs asked for, the op has 1"},
    {HEAD "%2 = input \"y\" Q4_0 [31]\n", "line 4: graph g: input \"y\": Q4_0 [31, 1, 1, 1]"},
    {HEAD "%2 = input \"y\" Q9 [31]\n", "line 4"},
    {HEAD "%2 = input \"y\" F32 [n, 2]\n",
     "line 4: graph g: input \"y\": dim 0 is bounded, but only the outermost"},
    {HEAD "%2 = input \"y\" F32 [m]\n", "line 4: there is no dim \"m\""},
    {HEAD "%2 = input \"y\" F32 [-4]\n", "line 4: a size of -4"},
    {HEAD "%2 = input \"y\" F32 [1, 2, 3, 4, 5]\n", "line 4: a shape of more than 4 dims"},
    {HEAD "%2 = input \"y\" F32 [(1*n+1)/0]\n", "line 4: graph g: derived dim: (1 n + 1) / 0"},
    {HEAD "%2 = input \"y\" F32 [(9223372036854775807*n+1)/1]\n",
     "line 4: graph g: derived dim of n: out of range"},
    {HEAD "%2 = weight \"y\" F32 [n]\n", "line 4: graph g: weight \"y\": a weight cannot have a bounded dim"},
    {HEAD "%2 = weight \"y\" F32 [4, 6] parts 1 \"q\" 5/1\n", "parts of \"y\" add up to 5, but dim 1 is 6"},
    {HEAD "%2 = weight \"y\" F32 [4, 6] parts 1\n", "parts of \"y\": axis 1, 0 parts"},
    {HEAD "%2 = weight \"y\" F32 [4, 6] parts 4294967297 \"q\" 6/1\n", "parts of \"y\": axis -1, 1 parts"},
    {HEAD "%2 = weight \"y\" F32 [281474976710656, 2]\n", "has more than 2^48 elements"},
    {HEAD "output \"y\" %1\noutput \"y\" %1\n", "line 5: graph g: output \"y\": output \"y\" exists already"},
    {HEAD "block -2\n", "line 4: graph g: block -2, expected -1 to 1048575"},
    {HEAD "block 4294967295\n", "line 4: graph g: block -2, expected -1 to 1048575"},
    {HEAD "block x\n", "line 4: expected a block, found x"},
    {HEAD "output \"y\" %2\n", "line 4: %2 is not made by a line above"},
    {HEAD "%2 = silu \"s\" %1 -> F32 [4, n]\n",
     "graph text: graph g: node 0 \"s\" (silu): nothing uses its result"},
    {VIEW("[4, n] strides [4, 16, 128, 128] offset 4"),
     "bytes [4, +128) of \"x\", but its base has [0, 128)"},
    {VIEW("[4, n] strides [4, 16, 128, 128] offset -4"), "offset -4"},
    {VIEW("[4, 8] strides [4, 16, 128, 128] offset 0"),
     "its bounded dim does not move as that of \"x\" does"},
    {VIEW("[2, n] strides [4, 8, 128, 128] offset 64"),
     "its bounded dim does not move as that of \"x\" does"},
    {VIEW("[4, n] strides [0, 16, 128, 128] offset 0"), "expected multiples of the 4 bytes of F32, above 0"},
    {VIEW("[4, n] strides [4, 6, 128, 128] offset 0"), "expected multiples of the 4 bytes of F32, above 0"},
    {VIEW("[4, n] strides [4, 9223372036854775804, 4, 4] offset 0"), "bytes [0, +-1) of \"x\""},
    {VIEW("[8, n] strides [4, 4, 4, 4] offset 0"), "a view of 64 elements, its base has 32"},
    {VIEW("[4, n] strides [4, 16, 128] offset 0"), "line 4: expected ,, found ] offset 0"},
};

static void test_broken_text(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
        plait_graph *graph = NULL;
        plait_status status = plait_graph_parse(broken[i].text, strlen(broken[i].text), &graph);
        if (status == PLAIT_OK) fail_msg("case %zu was accepted:\n%s", i, broken[i].text);
        assert_null(graph);
        if (!strstr(plait_error_message(), broken[i].message))
            fail_msg("case %zu:\n%sexpected: %s\nfound:    %s", i, broken[i].text, broken[i].message,
                     plait_error_message());
    }
}

/* Every prefix, and every byte changed to some others: an error or a graph, never harm. */
static void test_damaged_text(void **state) {
    (void)state;
    static const char others[] = {'\0', '\n', '"', '9', '-', '%', ' ', '[', '\x80', '\\'};
    size_t accepted = 0;
    for (size_t i = 0; i + 1 < sizeof small_text; i++) {
        plait_graph *graph = NULL;
        if (plait_graph_parse(small_text, i, &graph) == PLAIT_OK) accepted++, check_round_trip(graph);
        plait_graph_destroy(graph);
        for (size_t k = 0; k < sizeof others; k++) {
            char text[sizeof small_text];
            memcpy(text, small_text, sizeof text);
            text[i] = others[k];
            graph = NULL;
            if (plait_graph_parse(text, sizeof text - 1, &graph) == PLAIT_OK)
                accepted++, check_round_trip(graph);
            plait_graph_destroy(graph);
        }
    }
    print_message("%zu damaged texts were still graphs\n", accepted);
}

/* A view over a dim with many values may not leave what exists at any of them. */
static void test_views_of_large_bounds(void **state) {
    (void)state;
    const char head[] = "plait-graph 1 \"g\"\ndim n 1000\n%1 = input \"x\" F32 [4, n]\n";
    static const struct {
        const char *view;
        bool fine;
    } cases[] = {
        {"[4, n] strides [4, 16, 16000, 16000] offset 0", true},
        {"[2, n] strides [4, 16, 16000, 16000] offset 8", true},
        {"[2, (2*n+0)/1] strides [4, 8, 16000, 16000] offset 0", true},
        {"[(4*n+0)/1] strides [4, 16, 16000, 16000] offset 0", true},
        {"[1, (2*n+0)/1] strides [4, 8, 16000, 16000] offset 4", true},
        {"[2, n] strides [4, 16, 16000, 16000] offset 12", false}, /* beyond the end at every n */
        {"[2, n] strides [4, 8, 16000, 16000] offset 0", false},   /* inside, but at half the pace */
        {"[2, n] strides [4, 8, 16000, 16000] offset 8000", false},
        {"[4, (1*n+1)/2] strides [4, 16, 16000, 16000] offset 0", false},
        {"[4, (0*n+1)/1] strides [4, 16, 16000, 16000] offset 0", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[512];
        plait_graph *graph = NULL;
        snprintf(text, sizeof text, "%s%%2 = view %%1 %s\noutput \"y\" %%2\n", head, cases[i].view);
        plait_status status = plait_graph_parse(text, strlen(text), &graph);
        if ((status == PLAIT_OK) != cases[i].fine)
            fail_msg("%s: %s", cases[i].view, status ? plait_error_message() : "accepted");
        plait_graph_destroy(graph);
    }
}

/* ---- drawings ---- */

static void test_drawing(void **state) {
    (void)state;
    plait_graph *g = small_graph();
    char *text = NULL;
    assert_ok(plait_graph_print_dot(g, &text));
    static const char *const parts[] = {"digraph \"two \\\"words\\\"?\" {",
                                        "subgraph cluster_0",
                                        "label=\"blk.0\"",
                                        "embed\\nget_rows",
                                        "style=dashed",
                                        "[8, 2, (1*tokens+1)/2]",
                                        "out0",
                                        "best\\\\"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (!strstr(text, parts[i])) fail_msg("%s is not in\n%s", parts[i], text);
    free(text);
    plait_graph_destroy(g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_graphs_round_trip),
        cmocka_unit_test(test_text_is_as_documented),
        cmocka_unit_test(test_loose_text),
        cmocka_unit_test(test_equal_sees_differences),
        cmocka_unit_test(test_broken_text),
        cmocka_unit_test(test_damaged_text),
        cmocka_unit_test(test_views_of_large_bounds),
        cmocka_unit_test(test_drawing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
