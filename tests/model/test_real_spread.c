/* The two real models, layers spread over two and three devices in every proportion, single ops missing on one of them,
 * the cache on one device or the other: the ids and the logits of one device, byte for byte.
 *
 * usage: test_model_real_spread [all]: with `all`, part of the target long-tests, also every way to share out layers
 * between two devices and between three. */
/* room: fit */
/* labels: slow serial */
#include "model/real_model.h"

#include <stdlib.h>

enum { N_IDS = 16 };

typedef struct way {
    const char *devices;
    plait_split split;
    double ratio[3];
    plait_pin pins[2];
    int n_pins;
} way;

#define ONE   "cpu:threads=1"
#define TWO   ONE "," ONE
#define THREE TWO "," ONE
static const way ways[] = {
    {TWO, PLAIT_SPLIT_LAYER, {1, 0}, {{0}}, 0},
    {TWO, PLAIT_SPLIT_LAYER, {7, 1}, {{0}}, 0},
    {TWO, PLAIT_SPLIT_LAYER, {3, 1}, {{0}}, 0},
    {TWO, PLAIT_SPLIT_LAYER, {1, 1}, {{0}}, 0},
    {TWO, PLAIT_SPLIT_LAYER, {0.37, 0.63}, {{0}}, 0},
    {TWO, PLAIT_SPLIT_LAYER, {1, 9}, {{0}}, 0},
    {TWO, PLAIT_SPLIT_LAYER, {0, 1}, {{0}}, 0},
    {THREE, PLAIT_SPLIT_LAYER, {1, 1, 1}, {{0}}, 0},
    {THREE, PLAIT_SPLIT_LAYER, {1, 0, 2}, {{0}}, 0},
    {THREE, PLAIT_SPLIT_LAYER, {5, 2, 1}, {{0}}, 0},
    {THREE, PLAIT_SPLIT_LAYER, {0, 1, 8}, {{0}}, 0},
    {TWO, PLAIT_SPLIT_NONE, {0}, {{"cache.*", 1}}, 1},
    {TWO, PLAIT_SPLIT_LAYER, {1, 1}, {{"cache.*", 0}}, 1},
    {ONE ",sim,sim", PLAIT_SPLIT_LAYER, {2, 1, 1}, {{0}}, 0},
    {ONE ",sim:lack=attention,sim:lack=rope", PLAIT_SPLIT_LAYER, {1, 1, 1}, {{0}}, 0},
    {"sim:lack=matmul," ONE, PLAIT_SPLIT_NONE, {0}, {{0}}, 0},
    {"sim:lack=rms_norm+kv_write," ONE ",sim:lack=attention", PLAIT_SPLIT_LAYER, {3, 1, 2}, {{0}}, 0},
    {ONE ",sim,sim", PLAIT_SPLIT_LAYER, {1, 5, 2}, {{0}}, 0},
    {ONE ",sim,sim", PLAIT_SPLIT_LAYER, {0, 2, 7}, {{0}}, 0},
    {ONE ",sim,sim", PLAIT_SPLIT_LAYER, {1, 1, 1}, {{"cache.*", 1}}, 1},
    {ONE ",sim,sim", PLAIT_SPLIT_LAYER, {1, 1, 1}, {{"cache.*.k", 2}, {"cache.*.v", 0}}, 2},
    {"sim:lack=get_rows," ONE, PLAIT_SPLIT_LAYER, {1, 1}, {{0}}, 0},
    {"sim:lack=swiglu+add," ONE ",sim:lack=rope+mul", PLAIT_SPLIT_LAYER, {1, 1, 1}, {{0}}, 0},
    /* operands that have to be dense; direct copies that bring nothing */
    {"sim:contiguous=yes:copy-strides=yes," ONE ",sim:contiguous=yes",
     PLAIT_SPLIT_LAYER,
     {2, 1, 2},
     {{0}},
     0},
    {"sim:astray=yes,sim:astray=yes," ONE, PLAIT_SPLIT_LAYER, {1, 1, 1}, {{0}}, 0},
};

typedef struct result {
    plait_token ids[N_IDS];
    float *logits; /* behind the prompt */
} result;

/* Logits behind a prompt, and a greedy continuation of it. */
static void run_way(const char *path, const way *w, const plait_token *prompt, int64_t n_prompt,
                    result *out) {
    plait_context *context;
    plait_model *model;
    plait_session *session;
    plait_model_facts facts;
    plait_seq seq;
    const float *logits;
    plait_model_options options = {.context = 512,
                                   .split = w->split,
                                   .ratio = w->ratio[0] + w->ratio[1] + w->ratio[2] > 0 ? w->ratio : NULL,
                                   .pins = w->pins,
                                   .n_pins = w->n_pins};
    must(plait_context_open(&context, w->devices, NULL));
    must(plait_model_open(&model, context, path, &options));
    must(plait_session_create(&session, model));
    plait_model_describe(model, &facts);
    must(plait_session_begin(session, &seq));
    must(plait_session_feed(session, seq, prompt, n_prompt));
    must(plait_session_logits(session, 0, &logits));
    out->logits = malloc((size_t)facts.n_vocab * sizeof(float));
    assert_non_null(out->logits);
    memcpy(out->logits, logits, (size_t)facts.n_vocab * sizeof(float));
    for (int i = 0; i < N_IDS; i++) must(plait_session_next(session, seq, NULL, &out->ids[i]));
    plait_session_destroy(session);
    plait_model_release(model);
    plait_context_close(context);
}

static bool all_shares; /* `all` */

static void check_way(const char *path, const way *w, const char *name, const plait_token *prompt, int64_t n,
                      const result *expected, int64_t n_vocab) {
    result got;
    run_way(path, w, prompt, n, &got);
    if (memcmp(got.ids, expected->ids, sizeof got.ids) != 0)
        fail_msg("%s, %s on %s, %g,%g,%g: other ids", path, name, w->devices, w->ratio[0], w->ratio[1],
                 w->ratio[2]);
    if (memcmp(got.logits, expected->logits, (size_t)n_vocab * sizeof(float)) != 0)
        fail_msg("%s, %s on %s, %g,%g,%g: other logits", path, name, w->devices, w->ratio[0], w->ratio[1],
                 w->ratio[2]);
    free(got.logits);
}

/* Layers by number: n between two devices in n + 1 ways, between three in (n + 1)(n + 2) / 2. */
static int check_shares(const char *path, int n_layers, const plait_token *prompt, int64_t n,
                        const result *expected, int64_t n_vocab) {
    int n_ways = 0;
    for (int a = 0; a <= n_layers; a++, n_ways++) {
        way w = {.devices = TWO, .split = PLAIT_SPLIT_LAYER, .ratio = {a, n_layers - a}};
        check_way(path, &w, "layers", prompt, n, expected, n_vocab);
    }
    for (int a = 0; a <= n_layers; a++)
        for (int b = 0; a + b <= n_layers; b++, n_ways++) {
            way w = {.devices = a % 2 ? ONE ",sim,sim" : THREE,
                     .split = PLAIT_SPLIT_LAYER,
                     .ratio = {a, b, n_layers - a - b}};
            check_way(path, &w, "layers", prompt, n, expected, n_vocab);
            if (n_ways % 50 == 0) print_message("%s: %d ways\n", path, n_ways);
        }
    return n_ways;
}

static void check_model(const char *folder, const char *file, int n_layers, int64_t n_vocab) {
    static const way alone = {.devices = ONE};
    char path[PLAIT_TEST_PATH_BYTES];
    plait_json_document document;
    plait_token prompt[4096];
    result expected;
    if (!plait_test_model(file, path)) fail_msg("%s is missing: scripts/get-models fetches it", file);
    const plait_json *prompts = real_json(folder, "prompts.json", &document);
    int64_t n = 0;
    for (size_t i = 0; n < 20; i++) { /* the first that is no mere word */
        assert_true(i < prompts->u.array.n_items);
        n = json_ids(plait_json_get(&prompts->u.array.items[i], "tokens"), prompt, 4096);
    }
    if (n > 40) n = 40;
    run_way(path, &alone, prompt, n, &expected);
    for (size_t w = 0; w < sizeof ways / sizeof *ways; w++)
        check_way(path, &ways[w], "way", prompt, n, &expected, n_vocab);
    if (all_shares)
        print_message("%s: %d shares of layers\n", file,
                      check_shares(path, n_layers, prompt, n, &expected, n_vocab));
    free(expected.logits);
    plait_json_document_deinit(&document);
}

static void smollm2(void **state) {
    (void)state;
    check_model("smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf", 30, 49152);
}

static void gemma3(void **state) {
    (void)state;
    check_model("gemma3", "gemma-3-270m-q4_k_m.gguf", 18, 262144);
}

int main(int argc, char **argv) {
    all_shares = argc > 1 && strcmp(argv[1], "all") == 0;
    const struct CMUnitTest tests[] = {cmocka_unit_test(smollm2), cmocka_unit_test(gemma3)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
