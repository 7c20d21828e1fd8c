/* Wrong usage: exit status 2, one line on standard error, nothing on standard output, nothing opened. And help, which is
 * made from the tables. */
#include "cli/program.h"

static const char *const commands[] = {"run",      "chat",        "inspect",    "tokenize", "template",
                                       "embed",    "logits",      "perplexity", "bench",    "plan",
                                       "quantize", "conformance", "devices",    "doctor"};
enum { N_COMMANDS = sizeof commands / sizeof *commands };

static void no_or_unknown_command(void **state) {
    (void)state;
    expect_refused(program_start(&(start){0}, ARGUMENTS(NULL)), 2, "a command is missing");
    expect_refused(PLAIT("walk"), 2, "there is no command \"walk\"");
    expect_refused(PLAIT("help", "walk"), 2, "there is no command \"walk\"");
    expect_refused(PLAIT("--walk"), 2, "\"--walk\"");
}

static void unknown_options_and_values(void **state) {
    (void)state;
    for (int i = 0; i < N_COMMANDS; i++) expect_refused(PLAIT(commands[i], "--walk"), 2, "\"--walk\"");
    expect_refused(PLAIT("run", "f.gguf", "-p"), 2, "-p wants a value");
    expect_refused(PLAIT("run", "f.gguf", "--json=yes", "-p", "a"), 2, "--json takes no value");
    expect_refused(PLAIT("run", "f.gguf", "-p", "a", "-n", "many"), 2, "-n wants a whole number");
    expect_refused(PLAIT("run", "f.gguf", "-p", "a", "-n", "-1"), 2, "-n wants a whole number");
    expect_refused(PLAIT("run", "f.gguf", "-p", "a", "--temp", "nan"), 2, "--temp wants a number");
    expect_refused(PLAIT("run", "f.gguf", "-p", "a", "--temp", "1", "--min-p", "2"), 2, "min_p");
    expect_refused(PLAIT("run", "f.gguf", "g.gguf", "-p", "a"), 2, "\"g.gguf\" is too many");
    expect_refused(PLAIT("run", "-p", "a"), 2, "an argument is missing");
    expect_refused(PLAIT("quantize", "a", "b"), 2, "an argument is missing");
    expect_refused(PLAIT("quantize", "a", "b", "Q7_7"), 2, "Q7_7");
    expect_refused(PLAIT("quantize", "a", "b", "I32"), 2, "I32");
    expect_refused(PLAIT("template", "t.jinja"), 2, "--conversation");
    expect_refused(PLAIT("template", "t.jinja", "--conversation", "c", "--now", "noon"), 2, "--now");
    expect_refused(PLAIT("logits", "f.gguf", "--ids", "1"), 2, "--out");
    expect_refused(PLAIT("logits", "f.gguf", "--ids", "1,x", "--out", "o"), 2, "\"x\"");
    expect_refused(PLAIT("completion", "csh"), 2, "csh");
}

static void prompts_that_exclude_each_other(void **state) {
    (void)state;
    expect_refused(PLAIT("run", "f.gguf"), 2, "-p TEXT, -f FILE and --ids");
    expect_refused(PLAIT("run", "f.gguf", "-p", "a", "--ids", "1"), 2, "2 were given");
    expect_refused(PLAIT("run", "f.gguf", "--ids", "1", "--chat"), 2, "--chat");
    expect_refused(PLAIT("run", "f.gguf", "--ids", ""), 2, "--ids");
    expect_refused(PLAIT("run", "f.gguf", "--ids", "1,"), 2, "--ids");
    expect_refused(PLAIT("run", "f.gguf", "--ids", "-1"), 2, "--ids");
    expect_refused(PLAIT("embed", "f.gguf", "-p", "a", "-f", "b"), 2, "2 were given");
    expect_refused(PLAIT("perplexity", "f.gguf"), 2, "0 were given");
    expect_refused(PLAIT("perplexity", "f.gguf", "-f", "t", "--ctx", "2"), 2, "--ctx");
}

/* Counts near the largest integer: refused by their size, not added up before. */
static void counts_that_overflow(void **state) {
    (void)state;
    static const char *const options[] = {"-p", "-n", "-d"};
    for (size_t i = 0; i < 3; i++) {
        expect_refused(PLAIT("bench", "f.gguf", options[i], "9223372036854775807"), 2,
                       "9223372036854775807 tokens are too many");
        expect_refused(PLAIT("bench", "f.gguf", options[i], "2147483648"), 2, "too many");
    }
    expect_refused(PLAIT("bench", "f.gguf", "-d", "9223372036854775807", "-p", "9223372036854775807", "-n",
                         "9223372036854775807"),
                   2, "too many");
    expect_refused(PLAIT("bench", "f.gguf", "-d", "2147483647", "-n", "2147483647"), 2,
                   "4294967295 tokens are too many");
}

static void options_of_devices(void **state) {
    static const struct {
        const char *option, *value, *piece;
    } cases[] = {
        {"--devices", "tpu", "\"tpu\""},
        {"--devices", "cpu:speed=9", "speed"},
        {"--devices", "cpu,,cpu", "empty"},
        {"--devices", "cpu:threads=0", "threads"},
        {"--split", "half", "--split"},
        {"--split", "layer", NULL},
        {"--ratio", "1,1", "--ratio"},
        {"--ratio", "1,x", "--ratio"},
        {"--ratio", "0", "--ratio"},
        {"--ratio", "-1", "--ratio"},
        {"--kv", "q99", "--kv"},
        {"--kv", "f16,q99", "--kv"},
        {"--fit", "maybe", "--fit"},
        {"--verify", "0", "--verify"},
        {"--pin", "a=gpu", "--pin"},
        {"--pin", "a", "--pin"},
        {"-t", "5000", "-t"},
        {"--batch", "99999999", "--batch"},
        {"--ctx", "99999999999", "--ctx"},
    };
    (void)state;
    char model[PLAIT_TEST_PATH_BYTES];
    plait_test_golden("archs/llama-dense.gguf", model);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        outcome o = PLAIT("run", model, "--ids", "1", "-n", "1", cases[i].option, cases[i].value);
        if (cases[i].piece)
            expect_refused(o, 2, cases[i].piece);
        else
            expect_done(&o), outcome_free(&o);
    }
    outcome plain = PLAIT("run", model, "--ids", "1", "-n", "4"),
            monitored = PLAIT("run", model, "--ids", "1", "-n", "4", "--monitor");
    expect_done(&plain), expect_done(&monitored);
    assert_string_equal(plain.out, monitored.out);
    assert_null(strstr(monitored.err, "monitor: "));
    outcome_free(&plain), outcome_free(&monitored);
    expect_refused(PLAIT("run", model, "--ids", "1", "--devices", "cpu,cpu", "--split", "tensor"), 2,
                   "--split tensor over 2 devices is not supported yet");
    expect_refused(
        PLAIT("run", model, "--ids", "1", "--devices", "cpu,cpu", "--split", "layer", "--ratio", "1,1,1"), 2,
        "3 shares");
    expect_refused(
        PLAIT("run", model, "--ids", "1", "--devices", "cpu,cpu", "--split", "layer", "--ratio", "1"), 2,
        "1 shares");
    expect_refused(PLAIT("run", model, "--ids", "1", "--devices", "cpu,cpu", "--ratio", "0,0"), 2,
                   "not all 0");
    expect_refused(PLAIT("run", model, "--ids", "1", "--devices", "cpu,cpu", "--ratio", "1,"), 2, "--ratio");
    expect_refused(
        PLAIT("run", model, "--ids", "1", "--devices", "cpu,cpu", "--split", "none", "--ratio", "1,1"), 2,
        "--split none");
    expect_refused(PLAIT("run", model, "--ids", "1", "--device-path", "none.so"), 1, "none.so");
}

/* Every command's help: it names the command, and every command stands in the program's help. */
static void help(void **state) {
    (void)state;
    outcome all = PLAIT("--help");
    expect_done(&all);
    for (int i = 0; i < N_COMMANDS; i++) {
        char line[64];
        outcome o = PLAIT(commands[i], "--help"), same = PLAIT("help", commands[i]);
        expect_done(&o);
        assert_string_equal(o.out, same.out);
        assert_int_equal(o.n_err, 0);
        snprintf(line, sizeof line, "\n  %s ", commands[i]);
        assert_non_null(strstr(all.out, line));
        snprintf(line, sizeof line, "plait %s", commands[i]);
        assert_int_equal(strncmp(o.out, line, strlen(line)), 0);
        assert_non_null(strstr(o.out, "\nExamples\n"));
        outcome_free(&o);
        outcome_free(&same);
    }
    outcome_free(&all);
    outcome version = PLAIT("--version");
    expect_done(&version);
    assert_int_equal(strncmp(version.out, "plait ", 6), 0);
    outcome_free(&version);
    printf("%d commands have help with examples\n", N_COMMANDS);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_or_unknown_command),
        cmocka_unit_test(unknown_options_and_values),
        cmocka_unit_test(prompts_that_exclude_each_other),
        cmocka_unit_test(options_of_devices),
        cmocka_unit_test(counts_that_overflow),
        cmocka_unit_test(help),
    };
    return cmocka_run_group_tests(tests, program_setup, program_teardown);
}
