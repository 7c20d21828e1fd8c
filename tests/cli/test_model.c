/* Commands that run a model, on the small models of golden/archs and on one with a vocabulary: results against golden
 * data and against each other, and the form of each --json. */
#include "cli/tiny.h"
#include "model/arch_case.h"

#include "base/strbuf.h"

/* "1,2,3" */
static char *ids_text(const plait_token *ids, int64_t n, char *out, size_t n_bytes) {
    size_t used = 0;
    for (int64_t i = 0; i < n; i++)
        used += (size_t)snprintf(out + used, n_bytes - used, "%s%d", i ? "," : "", ids[i]);
    return out;
}

/* ---- logits ---- */

static float *logits_of(const arch_case *c, const char *ids, const char *step, size_t *out_bytes) {
    char path[PLAIT_TEST_PATH_BYTES];
    program_file("logits.f32", path);
    outcome o =
        PLAIT("logits", c->model, "--ids", ids, "--out", path, "--kv", "f32", "--ctx", "256", "--step", step);
    expect_done(&o);
    assert_int_equal(o.n_out, 0);
    outcome_free(&o);
    float *got = (float *)(void *)read_all(path, out_bytes);
    unlink(path);
    return got;
}

static void logits_are_golden(void **state) {
    static const char *const names[] = {"llama-dense", "qwen3", "gemma3", "llama-gqa-quant"};
    (void)state;
    for (size_t i = 0; i < 4; i++) {
        arch_case c;
        char ids[4096];
        double most, rms;
        size_t n_bytes, n_by_step;
        bool quantised = strstr(names[i], "quant") != NULL;
        arch_load(names[i], quantised, &c);
        ids_text(c.tokens, c.n_tokens, ids, sizeof ids);
        float *got = logits_of(&c, ids, "0", &n_bytes), *by_step = logits_of(&c, ids, "7", &n_by_step);
        assert_int_equal(n_bytes, (size_t)(c.n_tokens * c.n_vocab) * sizeof(float));
        assert_int_equal(n_by_step, n_bytes);
        assert_memory_equal(got, by_step, n_bytes);
        arch_difference(&c, got, &most, &rms);
        printf("%-16s max %.2e rms %.2e\n", names[i], most, rms);
        assert_true(quantised ? most <= 0.15 && rms <= 0.03 : most <= 2e-4);
        free(got);
        free(by_step);
        free(c.expected);
    }
}

/* ---- run ---- */

/* Greedy ids against the golden ones, up to the first step with a small margin. */
static void greedy_is_golden(void **state) {
    (void)state;
    arch_case c;
    char ids[4096], path[PLAIT_TEST_PATH_BYTES];
    plait_json_document golden, document;
    size_t n_bytes, n_equal = 0;
    arch_load("qwen3", false, &c);
    char *text = read_all(plait_test_golden("archs/qwen3.json", path), &n_bytes);
    const plait_json *greedy = member(parse(text, n_bytes, &golden), "greedy_after_all", PLAIT_JSON_OBJECT);
    outcome o = PLAIT("run", c.model, "--ids", ids_text(c.tokens, c.n_tokens, ids, sizeof ids), "-n", "16",
                      "--json", "--kv", "f32", "--ctx", "256");
    expect_done(&o);
    const plait_json *root = parse(o.out, o.n_out, &document);
    const plait_json *made = member(root, "ids", PLAIT_JSON_ARRAY);
    assert_int_equal(member(root, "prompt_ids", PLAIT_JSON_ARRAY)->u.array.n_items, c.n_tokens);
    member(root, "text", PLAIT_JSON_STRING);
    assert_int_equal(made->u.array.n_items, 16);
    for (; n_equal < 16; n_equal++) {
        if (number(&member(greedy, "margins", PLAIT_JSON_ARRAY)->u.array.items[n_equal]) < 2e-3) break;
        assert_int_equal(made->u.array.items[n_equal].u.integer,
                         member(greedy, "tokens", PLAIT_JSON_ARRAY)->u.array.items[n_equal].u.integer);
    }
    printf("%zu greedy tokens are golden\n", n_equal);
    assert_true(n_equal >= 8);
    plait_json_document_deinit(&golden);
    plait_json_document_deinit(&document);
    outcome_free(&o);
    free(text);
    free(c.expected);
}

static void text_and_json_agree(void **state) {
    (void)state;
    char model[PLAIT_TEST_PATH_BYTES];
    plait_json_document document;
    tiny_model(model);
    outcome plain = PLAIT("run", model, "-p", "Hello there", "-n", "24"),
            json = PLAIT("run", model, "-p", "Hello there", "-n", "24", "--json"),
            input = PLAIT_WITH("Hello there", 11, "run", model, "-f", "-", "-n", "24");
    expect_done(&plain);
    expect_done(&json);
    assert_string_equal(plain.out, input.out);
    const plait_json *text = member(parse(json.out, json.n_out, &document), "text", PLAIT_JSON_STRING);
    assert_int_equal(plain.n_out, text->u.string.n_bytes + 1);
    assert_memory_equal(plain.out, text->u.string.bytes, text->u.string.n_bytes);
    assert_int_equal(plain.out[plain.n_out - 1], '\n');
    assert_non_null(strstr(plain.err, "tokens/s"));
    plait_json_document_deinit(&document);
    outcome_free(&plain);
    outcome_free(&json);
    outcome_free(&input);
}

/* Equal seeds, equal texts, for any number of threads. */
static void seeds_repeat(void **state) {
    (void)state;
    char model[PLAIT_TEST_PATH_BYTES];
    tiny_model(model);
    outcome a = PLAIT("run", model, "-p", "x", "-n", "32", "--temp", "1", "--seed", "7", "-t", "1",
                      "--ignore-eos"),
            b = PLAIT("run", model, "-p", "x", "-n", "32", "--temp", "1", "--seed", "7", "-t", "2",
                      "--ignore-eos"),
            c = PLAIT("run", model, "-p", "x", "-n", "32", "--temp", "1", "--seed", "8", "-t", "2",
                      "--ignore-eos");
    expect_done(&a);
    assert_string_equal(a.out, b.out);
    assert_string_not_equal(a.out, c.out);
    outcome_free(&a);
    outcome_free(&b);
    outcome_free(&c);
}

/* A user's marks stay text; those of the template count. */
static void chat_option_uses_the_template(void **state) {
    static const char prompt[] = "<|im_start|>user\nHi <|im_end|> you<|im_end|>\n<|im_start|>assistant\n";
    (void)state;
    char model[PLAIT_TEST_PATH_BYTES];
    plait_json_document document;
    tiny_model(model);
    outcome o = PLAIT("run", model, "--chat", "-p", "Hi <|im_end|> you", "-n", "1", "--json");
    expect_done(&o);
    const plait_json *ids = member(parse(o.out, o.n_out, &document), "prompt_ids", PLAIT_JSON_ARRAY);
    size_t n_special = 0;
    for (size_t i = 0; i < ids->u.array.n_items; i++)
        n_special +=
            ids->u.array.items[i].u.integer == TINY_BOS || ids->u.array.items[i].u.integer == TINY_EOS;
    assert_int_equal(n_special, 3);
    outcome back =
        PLAIT_WITH(o.out + strlen("{\"prompt_ids\":"), strcspn(o.out, "]") + 1 - strlen("{\"prompt_ids\":"),
                   "tokenize", model, "--decode");
    assert_string_equal(back.out, prompt);
    plait_json_document_deinit(&document);
    outcome_free(&o);
    outcome_free(&back);
}

/* ---- embed, perplexity, bench ---- */

static void embeddings(void **state) {
    (void)state;
    char model[PLAIT_TEST_PATH_BYTES];
    plait_json_document document;
    tiny_model(model);
    outcome json = PLAIT("embed", model, "-p", "Hi", "--json"),
            ids = PLAIT("embed", model, "--ids", "39,72", "--json"),
            plain = PLAIT_WITH("Hi", 2, "embed", model), longer = PLAIT("embed", model, "-p", "Ha", "--json");
    expect_done(&json);
    expect_done(&plain);
    assert_string_equal(json.out, ids.out);
    assert_string_not_equal(json.out, longer.out);
    const plait_json *root = parse(json.out, json.n_out, &document);
    const plait_json *embedding = member(root, "embedding", PLAIT_JSON_ARRAY);
    assert_int_equal(member(root, "ids", PLAIT_JSON_ARRAY)->u.array.n_items, 2);
    const char *p = plain.out;
    for (size_t i = 0; i < embedding->u.array.n_items; i++) {
        char *end;
        assert_true(strtod(p, &end) == number(&embedding->u.array.items[i]));
        p = end;
    }
    assert_string_equal(p, "\n");
    printf("an embedding of %zu numbers\n", embedding->u.array.n_items);
    plait_json_document_deinit(&document);
    outcome_free(&json);
    outcome_free(&ids);
    outcome_free(&plain);
    outcome_free(&longer);
}

/* What perplexity must say of two windows of 32, computed from the logits of each. */
static double expected_nll(const char *model, const plait_token *ids, int64_t window, int64_t n_windows) {
    char text[2048], path[PLAIT_TEST_PATH_BYTES];
    double sum = 0;
    int64_t n = 0;
    program_file("window.f32", path);
    for (int64_t w = 0; w < n_windows; w++) {
        outcome o = PLAIT("logits", model, "--ids", ids_text(ids + w * window, window, text, sizeof text),
                          "--out", path);
        expect_done(&o);
        outcome_free(&o);
        float *logits = (float *)(void *)read_all(path, NULL);
        for (int64_t i = window / 2; i + 1 < window; i++, n++) {
            const float *row = logits + i * TINY_VOCABULARY;
            double total = 0;
            for (int k = 0; k < TINY_VOCABULARY; k++) total += exp(row[k]);
            sum += log(total) - row[ids[w * window + i + 1]];
        }
        free(logits);
    }
    return sum / (double)n;
}

static void perplexity_follows_its_rules(void **state) {
    enum { WINDOW = 32, TOKENS = 2 * WINDOW + 5 };
    (void)state;
    char model[PLAIT_TEST_PATH_BYTES], path[PLAIT_TEST_PATH_BYTES], text[TOKENS];
    plait_token ids[TOKENS];
    plait_json_document document;
    tiny_model(model);
    for (int i = 0; i < TOKENS; i++) ids[i] = (i * 37 + i * i) % 90, text[i] = (char)('!' + ids[i]);
    write_all(program_file("text.txt", path), text, TOKENS);
    outcome o = PLAIT("perplexity", model, "-f", path, "--ctx", "32", "--json"),
            pieces = PLAIT("perplexity", model, "-f", path, "--ctx", "32", "--json", "--batch", "5"),
            one = PLAIT("perplexity", model, "-f", path, "--ctx", "32", "--windows", "1");
    expect_done(&o);
    const plait_json *root = parse(o.out, o.n_out, &document);
    double nll = number(member(root, "mean_nll", PLAIT_JSON_REAL)),
           wanted = expected_nll(model, ids, WINDOW, 2);
    printf("perplexity %.4f, mean -log p %.8f, from logits %.8f\n", number(plait_json_get(root, "ppl")), nll,
           wanted);
    assert_true(fabs(nll - wanted) < 1e-9);
    assert_true(fabs(number(member(root, "ppl", PLAIT_JSON_REAL)) - exp(nll)) < 1e-6 * exp(nll));
    assert_int_equal(member(root, "n_tokens", PLAIT_JSON_INTEGER)->u.integer, 2 * (WINDOW / 2 - 1));
    assert_int_equal(member(root, "n_windows", PLAIT_JSON_INTEGER)->u.integer, 2);
    assert_string_equal(o.out, pieces.out); /* the same for any batch */
    assert_non_null(strstr(one.out, "1 windows of 32"));
    expect_refused(PLAIT("perplexity", model, "-f", path, "--ctx", "128"), 1,
                   "69 tokens, a window needs 128");
    plait_json_document_deinit(&document);
    outcome_free(&o);
    outcome_free(&pieces);
    outcome_free(&one);
}

static void bench_rows(void **state) {
    (void)state;
    char model[PLAIT_TEST_PATH_BYTES];
    plait_json_document document;
    tiny_model(model);
    outcome o = PLAIT("bench", model, "-p", "16", "-n", "4", "-d", "3", "-r", "2", "--json"),
            one = PLAIT("bench", model, "-p", "0", "-n", "4", "-r", "1", "--json"),
            none = PLAIT("bench", model, "-p", "0", "-n", "0", "--json");
    expect_done(&o);
    const plait_json *root = parse(o.out, o.n_out, &document);
    const plait_json *rows = member(root, "results", PLAIT_JSON_ARRAY);
    assert_int_equal(rows->u.array.n_items, 2);
    for (int i = 0; i < 2; i++) {
        const plait_json *row = &rows->u.array.items[i];
        assert_string_equal(member(row, "test", PLAIT_JSON_STRING)->u.string.bytes, i ? "tg4" : "pp16");
        assert_int_equal(member(row, "tokens_per_s", PLAIT_JSON_ARRAY)->u.array.n_items, 2);
        assert_true(number(plait_json_get(row, "median")) > 0);
    }
    assert_true(member(root, "peak_bytes", PLAIT_JSON_INTEGER)->u.integer > 1 << 20);
    plait_json_document_deinit(&document);
    expect_done(&one);
    assert_non_null(strstr(one.out, "tg4"));
    assert_null(strstr(one.out, "pp"));
    expect_done(&none);
    assert_non_null(strstr(none.out, "\"results\":[]"));
    outcome_free(&o);
    outcome_free(&one);
    outcome_free(&none);
}

/* ---- what is shown ---- */

static void inspect_shows_a_file(void **state) {
    (void)state;
    char model[PLAIT_TEST_PATH_BYTES];
    plait_json_document document;
    tiny_model(model);
    outcome o = PLAIT("inspect", model, "--tensors", "--json"),
            plain = PLAIT("inspect", model, "--tensors", "--metadata");
    expect_done(&o);
    const plait_json *root = parse(o.out, o.n_out, &document);
    const plait_json *d = member(root, "description", PLAIT_JSON_OBJECT);
    assert_true(member(root, "runs", PLAIT_JSON_BOOL)->u.boolean);
    assert_string_equal(member(d, "architecture", PLAIT_JSON_STRING)->u.string.bytes, "llama");
    assert_int_equal(member(root, "tensors", PLAIT_JSON_ARRAY)->u.array.n_items,
                     member(d, "tensors", PLAIT_JSON_INTEGER)->u.integer);
    assert_int_equal(member(root, "metadata", PLAIT_JSON_ARRAY)->u.array.n_items,
                     member(d, "entries", PLAIT_JSON_INTEGER)->u.integer);
    expect_done(&plain);
    assert_non_null(strstr(plain.out, "\nruns                    yes\n"));
    assert_non_null(strstr(plain.out, "blk.0.attn_q.weight"));
    assert_non_null(strstr(plain.out, "general.architecture = "));
    plait_json_document_deinit(&document);
    outcome_free(&o);
    outcome_free(&plain);
}

static void plans_are_shown(void **state) {
    (void)state;
    char model[PLAIT_TEST_PATH_BYTES];
    plait_json_document document;
    plait_test_golden("archs/gemma3.gguf", model);
    outcome o = PLAIT("plan", model, "--json", "--ctx", "64"), plain = PLAIT("plan", model, "--ctx", "64");
    expect_done(&o);
    const plait_json *root = parse(o.out, o.n_out, &document);
    const plait_json *plans = member(root, "plans", PLAIT_JSON_OBJECT);
    assert_int_equal(member(root, "context", PLAIT_JSON_INTEGER)->u.integer, 64);
    for (int i = 0; i < 4; i++) {
        static const char *const names[] = {"layers", "argmax", "best", "logits"};
        const plait_json *plan = member(plans, names[i], PLAIT_JSON_OBJECT);
        assert_true(member(plan, "nodes", PLAIT_JSON_INTEGER)->u.integer > 0);
        member(plan, "work", PLAIT_JSON_ARRAY);
    }
    expect_done(&plain);
    assert_non_null(strstr(plain.out, "plan of layers"));
    char page[PLAIT_TEST_PATH_BYTES];
    outcome html = PLAIT("plan", model, "--ctx", "64", "--html", program_file("plan.html", page));
    expect_done(&html);
    char *text = read_all(page, NULL);
    assert_non_null(strstr(text, "</html>"));
    free(text);
    outcome_free(&html);
    plait_json_document_deinit(&document);
    outcome_free(&o);
    outcome_free(&plain);
}

static void traces_are_json(void **state) {
    (void)state;
    char model[PLAIT_TEST_PATH_BYTES], path[PLAIT_TEST_PATH_BYTES];
    plait_json_document document;
    size_t n;
    tiny_model(model);
    outcome o = PLAIT("run", model, "-p", "abc", "-n", "4", "--trace", program_file("trace.json", path));
    expect_done(&o);
    char *text = read_all(path, &n);
    const plait_json *events = member(parse(text, n, &document), "traceEvents", PLAIT_JSON_ARRAY);
    size_t n_spans = 0, n_groups = 0;
    for (size_t i = 0; i < events->u.array.n_items; i++) {
        const plait_json *event = &events->u.array.items[i];
        member(event, "name", PLAIT_JSON_STRING);
        if (strcmp(member(event, "ph", PLAIT_JSON_STRING)->u.string.bytes, "X") != 0) continue;
        assert_true(number(plait_json_get(event, "dur")) >= 0);
        n_groups += strcmp(member(event, "cat", PLAIT_JSON_STRING)->u.string.bytes, "group") == 0;
        n_spans++;
    }
    printf("a trace of %zu spans, %zu groups\n", n_spans, n_groups);
    assert_true(n_groups > 0 && n_groups < n_spans);
    plait_json_document_deinit(&document);
    outcome_free(&o);
    free(text);
}

static void traces_are_compared(void **state) {
    (void)state;
    char model[PLAIT_TEST_PATH_BYTES], path[PLAIT_TEST_PATH_BYTES], odd[PLAIT_TEST_PATH_BYTES];
    plait_json_document document;
    tiny_model(model);
    outcome o = PLAIT("run", model, "-p", "abc", "-n", "4", "--trace", program_file("compared.json", path));
    outcome text = PLAIT("plan", model, "--compare", path),
            json = PLAIT("plan", model, "--compare", path, "--json");
    expect_done(&o);
    expect_done(&text);
    expect_done(&json);
    const plait_json *root = parse(json.out, json.n_out, &document);
    assert_true(member(root, "names", PLAIT_JSON_ARRAY)->u.array.n_items > 5);
    assert_int_equal(member(root, "only_in_trace", PLAIT_JSON_ARRAY)->u.array.n_items, 0);
    assert_int_equal(member(root, "spans", PLAIT_JSON_INTEGER)->u.integer,
                     member(root, "known_spans", PLAIT_JSON_INTEGER)->u.integer);
    assert_true(number(plait_json_get(member(root, "steps", PLAIT_JSON_OBJECT), "layers")) > 0);
    assert_non_null(strstr(text.out, "largest differences"));
    assert_null(strstr(text.out, "another model"));
    expect_refused(PLAIT("plan", model, "--compare", path, "--devices", "null"), 1, "of another model");
    expect_refused(PLAIT("plan", model, "--compare", program_file("none.json", odd)), 1, "--compare");
    expect_refused(PLAIT("plan", model, "--compare", model), 1, "trace: JSON line 1");
    plait_json_document_deinit(&document);
    outcome *const all[] = {&o, &text, &json};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) outcome_free(all[i]);
}

static void machine_is_shown(void **state) {
    (void)state;
    plait_json_document document;
    outcome o = PLAIT("devices", "--json"), plain = PLAIT("devices"), doctor = PLAIT("doctor");
    expect_done(&o);
    expect_done(&plain);
    expect_done(&doctor);
    const plait_json *root = parse(o.out, o.n_out, &document);
    const plait_json *first = &member(root, "devices", PLAIT_JSON_ARRAY)->u.array.items[0];
    assert_string_equal(member(first, "kind", PLAIT_JSON_STRING)->u.string.bytes, "cpu");
    assert_true(member(first, "threads", PLAIT_JSON_INTEGER)->u.integer >= 1);
    assert_true(member(first, "memory_total_bytes", PLAIT_JSON_INTEGER)->u.integer > 1 << 20);
    const plait_json *figures = member(first, "figures", PLAIT_JSON_OBJECT);
    assert_true(number(plait_json_get(figures, "integer_flop_per_s")) > 1e6);
    assert_true(number(plait_json_get(figures, "write_bytes_per_s")) > 1e6);
    assert_non_null(strstr(plain.out, "\ncpu "));
    assert_non_null(strstr(plain.out, "GFLOP/s"));
    assert_non_null(strstr(doctor.out, "bandwidth"));
    plait_json_document_deinit(&document);
    outcome_free(&o);
    outcome_free(&plain);
    outcome_free(&doctor);
}

static void devices_are_checked(void **state) {
    (void)state;
    char path[PLAIT_TEST_PATH_BYTES];
    plait_json_document document;
    size_t n;
    outcome o =
        PLAIT("conformance", "cpu:threads=1", "--only", "op/silu*", "--json", program_file("c.json", path));
    expect_done(&o);
    char *text = read_all(path, &n);
    assert_non_null(strstr(text, "\"failed\":0,"));
    const plait_json *results = member(parse(text, n, &document), "results", PLAIT_JSON_ARRAY);
    printf("conformance: %zu checks of silu\n", results->u.array.n_items);
    assert_true(results->u.array.n_items > 20);
    assert_non_null(strstr(o.out, "\nall        "));
    assert_non_null(strstr(o.out, "\nop         "));
    plait_json_document_deinit(&document);
    free(text);
    outcome_free(&o);
    expect_refused(PLAIT("conformance", "tpu"), 2, "tpu");
}

/* A device that is lost on the way changes nothing of the text; the rest of the devices goes on, with a warning. When
 * nothing is left, the failure says which device it was. Figures are stated, so that nothing is measured on the way. */
static void losses_do_not_end_a_run(void **state) {
    static const char figures[] = "flops=500G:memory-bandwidth=50GB:bandwidth=10GB:latency=1us";
    (void)state;
    char model[PLAIT_TEST_PATH_BYTES], list[300];
    int lost = 0;
    tiny_model(model);
    outcome plain = PLAIT("run", model, "-p", "Hello there", "-n", "24", "-t", "1");
    expect_done(&plain);
    for (int n = 20; n < 4000; n += n) {
        snprintf(list, sizeof list, "sim:%s:lose=%d,sim:%s,cpu:threads=1", figures, n, figures);
        outcome o = PLAIT("run", model, "-p", "Hello there", "-n", "24", "--split", "layer", "--ratio",
                          "1,1,0", "--devices", list, "--pin", "blk.0.*=sim");
        bool warned = o.err && strstr(o.err, "going on with what is left: 2 devices");
        if (o.status == 0) assert_string_equal(o.out, plain.out);
        if (o.status != 0) assert_non_null(strstr(o.err, "sim is lost")); /* before there was a session */
        lost += warned;
        outcome_free(&o);
    }
    assert_true(lost >= 2);
    snprintf(list, sizeof list, "sim:%s:lose=%d", figures, 400);
    outcome none = PLAIT("run", model, "-p", "Hello there", "-n", "240", "--devices", list);
    assert_int_equal(none.status, 1);
    assert_non_null(strstr(none.err, "none of the 1 devices"));
    outcome_free(&none);
    outcome_free(&plain);
}

/* What is left after a loss has less memory: the cache, whose type nobody gave, becomes smaller there as it would have at the
 * start. The same context of f16 fits half by half, and not as a whole into what is left. */
static void the_cache_fits_after_a_loss(void **state) {
    static const char figures[] = "flops=500G:memory-bandwidth=50GB:bandwidth=10GB:latency=1us";
    (void)state;
    char model[PLAIT_TEST_PATH_BYTES], list[300];
    int went_on = 0;
    plait_test_golden("archs/llama-dense.gguf", model);
    for (int n = 40; n < 400; n += n) {
        snprintf(list, sizeof list, "sim:%s:lose=%d,sim:%s:mem=3MiB", figures, n, figures);
        outcome o = PLAIT("run", model, "--ids", "1,2,3", "-n", "24", "--ctx", "4096", "--split", "layer",
                          "--ratio", "1,1", "--devices", list);
        const char *first = strstr(o.err, "--kv f16"), *lost = strstr(o.err, "sim is lost");
        if (first && lost) {
            expect_done(&o);
            assert_non_null(strstr(first, "--kv q8_0"));
            assert_non_null(strstr(first, "going on with what is left: 1 device"));
            went_on++;
        }
        outcome_free(&o);
    }
    assert_true(went_on > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(logits_are_golden),
        cmocka_unit_test(greedy_is_golden),
        cmocka_unit_test(text_and_json_agree),
        cmocka_unit_test(seeds_repeat),
        cmocka_unit_test(losses_do_not_end_a_run),
        cmocka_unit_test(the_cache_fits_after_a_loss),
        cmocka_unit_test(chat_option_uses_the_template),
        cmocka_unit_test(embeddings),
        cmocka_unit_test(perplexity_follows_its_rules),
        cmocka_unit_test(bench_rows),
        cmocka_unit_test(inspect_shows_a_file),
        cmocka_unit_test(plans_are_shown),
        cmocka_unit_test(traces_are_json),
        cmocka_unit_test(traces_are_compared),
        cmocka_unit_test(machine_is_shown),
        cmocka_unit_test(devices_are_checked),
    };
    return cmocka_run_group_tests(tests, program_setup, program_teardown);
}
