/* Explanations of plans: what is said adds up to what the plan is. Every node stands once, sums are the plan's facts,
 * predicted times keep the order that the plan keeps, and folding leaves no line out. */
/* room: model */
#include "plan/explain.h"

#include "text/json.h"

#include "support/assert_ok.h"
#include "support/decoder.h"
#include "support/fake_device.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

/* A plan of the decoder on some devices, its text and its JSON. */
typedef struct explained {
    plait_context *context;
    plait_graph *graph;
    plait_plan *plan;
    char *text, *json;
    plait_json_document document;
} explained;

static void explain(explained *x) {
    free(x->text);
    free(x->json);
    plait_json_document_deinit(&x->document);
    assert_ok(plait_plan_print(x->plan, &x->text));
    assert_ok(plait_plan_print_json(x->plan, &x->json));
    assert_ok(plait_json_parse(&x->document, x->json, strlen(x->json), NULL));
}

static void open_on(explained *x, const char *devices, int layers, plait_split split) {
    *x = (explained){0};
    x->graph = decoder_make(layers, 64, 16);
    assert_ok(plait_context_open(&x->context, devices, NULL));
    assert_ok(plait_plan_make(&x->plan, x->context, x->graph, &(plait_plan_options){.split = split}));
    explain(x);
}

static void close_it(explained *x) {
    free(x->text);
    free(x->json);
    plait_json_document_deinit(&x->document);
    plait_plan_release(x->plan);
    plait_context_close(x->context);
    plait_graph_destroy(x->graph);
}

/* ---- reading ---- */

static const plait_json *get(const plait_json *object, const char *name, plait_json_kind kind) {
    const plait_json *value = plait_json_get(object, name);
    if (!value || value->kind != kind)
        fail_msg("\"%s\" is %s", name, plait_json_kind_name(value ? value->kind : 0));
    return value;
}

static int64_t integer(const plait_json *object, const char *name) {
    return get(object, name, PLAIT_JSON_INTEGER)->u.integer;
}

static const char *string(const plait_json *object, const char *name) {
    return get(object, name, PLAIT_JSON_STRING)->u.string.bytes;
}

static const plait_json *list(const plait_json *object, const char *name, size_t *out_n) {
    const plait_json *array = get(object, name, PLAIT_JSON_ARRAY);
    *out_n = array->u.array.n_items;
    return array->u.array.items;
}

/* ---- what must hold ---- */

static int compare_names(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void check_nodes(const explained *x) {
    size_t n_groups, n_nodes = 0, n = x->graph->n_nodes;
    const plait_json *groups = list(x->document.root, "work", &n_groups);
    const char **said = calloc(n, sizeof *said), **real = calloc(n, sizeof *real);
    assert_true(said && real);
    for (size_t g = 0; g < n_groups; g++) {
        size_t n_members;
        const plait_json *members = list(&groups[g], "nodes", &n_members);
        for (size_t k = 0; k < n_members; k++, n_nodes++) {
            assert_true(n_nodes < n);
            said[n_nodes] = string(&members[k], "name");
        }
    }
    assert_int_equal(n_nodes, n);
    for (size_t i = 0; i < n; i++) real[i] = x->graph->nodes[i].name;
    qsort(said, n, sizeof *said, compare_names);
    qsort(real, n, sizeof *real, compare_names);
    for (size_t i = 0; i < n; i++) assert_string_equal(said[i], real[i]);
    assert_int_equal(n_groups, x->plan->facts.n_groups);
    free(said);
    free(real);
}

static void check_sums(const explained *x) {
    size_t n_groups, n_commands;
    const plait_json *groups = list(x->document.root, "work", &n_groups);
    const plait_json *commands = list(x->document.root, "commands", &n_commands);
    int64_t moved = 0, in = 0, out = 0;
    double flop = 0;
    int n_transfers = 0;
    for (size_t c = 0; c < n_commands; c++) {
        if (strcmp(string(&commands[c], "kind"), "move") != 0 &&
            strcmp(string(&commands[c], "kind"), "receive") != 0)
            continue;
        moved += integer(&commands[c], "full_bytes");
        assert_true(integer(&commands[c], "single_bytes") <= integer(&commands[c], "full_bytes"));
        n_transfers++;
    }
    for (size_t g = 0; g < n_groups; g++) {
        const plait_json *work = plait_json_get(&groups[g], "flop");
        in += integer(&groups[g], "in_bytes");
        out += integer(&groups[g], "out_bytes");
        flop += work->kind == PLAIT_JSON_INTEGER ? (double)work->u.integer : work->u.real;
    }
    assert_int_equal(n_transfers, x->plan->facts.n_transfers);
    assert_int_equal(moved, x->plan->facts.transfer_bytes);
    assert_true(in <= moved && out <= moved);
    assert_true(flop > 0.999 * x->plan->facts.flop && flop < 1.001 * x->plan->facts.flop);
}

static void check_memory(const explained *x) {
    size_t n_devices;
    const plait_json *devices = list(x->document.root, "devices", &n_devices);
    assert_int_equal(n_devices, x->context->n_devices);
    for (size_t d = 0; d < n_devices; d++) {
        size_t n;
        const plait_json *changes = list(&devices[d], "temporary_use", &n);
        int64_t most = 0, last = -1;
        for (size_t i = 0; i < n; i++) {
            int64_t at = changes[i].u.array.items[0].u.integer, bytes = changes[i].u.array.items[1].u.integer;
            assert_true(at > last && bytes >= 0);
            last = at;
            if (bytes > most) most = bytes;
        }
        assert_int_equal(most, integer(&devices[d], "temporary_bound_bytes"));
    }
}

static int64_t time_of(const plait_json *object, const char *dims, const char *which) {
    return integer(get(object, dims, PLAIT_JSON_OBJECT), which);
}

/* Commands begin when their queue is free and what they wait for has ended; groups follow each other in their launch. */
static void check_times(const explained *x, const char *dims) {
    size_t n_groups, n_commands;
    const plait_json *groups = list(x->document.root, "work", &n_groups);
    const plait_json *commands = list(x->document.root, "commands", &n_commands);
    int64_t *queue_ends = calloc(x->plan->n_queues, sizeof *queue_ends), last = 0;
    for (size_t c = 0; c < n_commands; c++) {
        int64_t begin = time_of(&commands[c], dims, "begin_ns"), end = time_of(&commands[c], dims, "end_ns");
        int64_t earliest = queue_ends[x->plan->steps[c].queue];
        size_t n_waits;
        const plait_json *waits = list(&commands[c], "after", &n_waits);
        for (size_t w = 0; w < n_waits; w++) {
            if (plait_json_get(&waits[w], "step_before")) continue;
            int64_t done = time_of(&commands[integer(&waits[w], "command")], dims, "end_ns");
            if (done > earliest) earliest = done;
        }
        assert_int_equal(begin, earliest);
        assert_true(end >= begin);
        queue_ends[x->plan->steps[c].queue] = end;
        if (end > last) last = end;
        if (strcmp(string(&commands[c], "kind"), "launch") != 0) continue;
        int64_t first = integer(&commands[c], "first_group"), n = integer(&commands[c], "groups"), at = begin;
        for (int64_t g = first; g < first + n; g++) {
            assert_true(time_of(&groups[g], dims, "begin_ns") >= at);
            at = time_of(&groups[g], dims, "end_ns");
        }
        assert_int_equal(at, end);
    }
    assert_int_equal(last, integer(x->document.root, strcmp(dims, "full") == 0 ? "full_ns" : "single_ns"));
    free(queue_ends);
}

static void check_all(const explained *x) {
    check_nodes(x);
    check_sums(x);
    check_memory(x);
    check_times(x, "single");
    check_times(x, "full");
    assert_true(integer(x->document.root, "single_ns") < integer(x->document.root, "full_ns"));
}

static void test_sums(void **state) {
    static const char *const devices[] = {
        "fake,fake", "fake:lack=attention,fake", "fake:lack=attention:copy=2,fake:copy=1",
        "fake:hide=yes:lack=rms_norm,fake:hide=yes:copy=1,fake:lack=matmul:waits=no",
        "fake:lack=attention:group=3,fake:reach=no:share=no"};
    (void)state;
    for (size_t i = 0; i < sizeof devices / sizeof *devices; i++)
        for (int split = PLAIT_SPLIT_AUTO; split <= PLAIT_SPLIT_LAYER; split++) {
            explained x;
            open_on(&x, devices[i], 4, (plait_split)split);
            check_all(&x);
            close_it(&x);
        }
}

/* With one device no figures are needed, and none are asked for by printing. */
static void test_times_when_known(void **state) {
    (void)state;
    explained x;
    plait_device_figures figures;
    open_on(&x, "fake", 2, PLAIT_SPLIT_AUTO);
    assert_null(plait_json_get(x.document.root, "single_ns"));
    assert_non_null(strstr(x.text, "predicted: nothing"));
    assert_ok(plait_context_figures(x.context, 0, &figures));
    explain(&x);
    check_all(&x);
    assert_non_null(strstr(x.text, "predicted: "));
    assert_null(strstr(x.text, "predicted: nothing"));
    close_it(&x);
}

/* Lines of groups that stand for a range stand for each block of it; together they are all groups. */
static void test_folding(void **state) {
    static const char *const devices[] = {"fake,fake", "fake:lack=attention,fake"};
    (void)state;
    for (size_t i = 0; i < sizeof devices / sizeof *devices; i++) {
        explained x;
        int n_lines = 0, n_groups = 0, times = 1;
        open_on(&x, devices[i], 30, PLAIT_SPLIT_NONE);
        char *save = NULL, *text = strdup(x.text);
        bool in_list = false;
        for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
            int n = 0, end = 0;
            if (in_list) n_lines++;
            if (strstr(line, "why there")) {
                in_list = true;
                continue;
            }
            if (sscanf(line, "%d times:%n", &n, &end) == 1 && end && !line[end]) {
                times = n;
                continue;
            }
            bool folded = line[0] == '|';
            if (!folded) times = 1;
            const char *name = folded ? line + 2 : line;
            if (in_list && strncmp(name, "  ", 2) == 0) n_groups += times;
        }
        assert_int_equal(n_groups, x.plan->facts.n_groups);
        assert_true(n_lines < 120);
        assert_non_null(strstr(x.text, "times:\n| "));
        free(text);
        close_it(&x);
    }
}

static void test_reasons(void **state) {
    (void)state;
    explained x;
    size_t n_groups;
    int found = 0;
    open_on(&x, "fake:lack=attention,fake", 3, PLAIT_SPLIT_NONE);
    const plait_json *groups = list(x.document.root, "work", &n_groups);
    for (size_t g = 0; g < n_groups; g++) {
        size_t n_others;
        const plait_json *others = list(&groups[g], "alternatives", &n_others);
        assert_int_equal(n_others, 1);
        assert_string_not_equal(string(&others[0], "device"), string(&groups[g], "device"));
        if (!strstr(string(&groups[g], "name"), "attention")) continue;
        assert_string_equal(string(&groups[g], "device"), "fake:1");
        assert_non_null(strstr(string(&others[0], "reason"), "attention"));
        found++;
    }
    assert_int_equal(found, 3);
    close_it(&x);
}

/* Graphs refuse such names; a plan's may hold anything, and does not reach a terminal as it is. */
static void test_hostile_names(void **state) {
    (void)state;
    explained x = {0};
    plait_graph *g = x.graph = plait_graph_create(NULL);
    plait_tensor in = plait_input(g, "in", PLAIT_F32, PLAIT_SHAPE(8));
    plait_output(g, "out", plait_named(g, "no<de>", plait_add(g, in, in)));
    assert_ok(plait_graph_seal(g));
    assert_ok(plait_context_open(&x.context, "fake:hide=yes", NULL));
    assert_ok(plait_plan_make(&x.plan, x.context, g, &(plait_plan_options){.name = "pl\033[2J\ra\x7fn\""}));
    explain(&x);
    for (const char *p = x.text; *p; p++) assert_true(*p == '\n' || ((unsigned char)*p >= ' ' && *p != 0x7f));
    assert_non_null(strstr(x.text, "plan of pl?[2J?a?n\":"));
    assert_string_equal(string(x.document.root, "name"), "pl\033[2J\ra\x7fn\"");
    check_nodes(&x);
    close_it(&x);
}

static int make_known(void **state) {
    (void)state;
    return fake_register() == PLAIT_OK ? 0 : -1;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sums),          cmocka_unit_test(test_times_when_known),
        cmocka_unit_test(test_folding),       cmocka_unit_test(test_reasons),
        cmocka_unit_test(test_hostile_names),
    };
    return cmocka_run_group_tests(tests, make_known, NULL);
}
