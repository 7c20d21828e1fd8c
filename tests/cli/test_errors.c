/* Bad files and bad numbers, for every command that could meet them: exit status 1, one line on standard error that names
 * the file or the number, nothing on standard output. */
#include "cli/tiny.h"

/* Runs every command that opens a model on the file; each must fail. */
static size_t all_refuse(const char *file, const char *piece) {
    char out[PLAIT_TEST_PATH_BYTES], other[PLAIT_TEST_PATH_BYTES];
    program_file("out", out);
    program_file("other.gguf", other);
    expect_refused(PLAIT("run", file, "--ids", "1"), 1, piece);
    expect_refused(PLAIT("run", file, "--ids", "1", "--no-mmap"), 1, piece);
    expect_refused(PLAIT_WITH("hi\n", 3, "chat", file), 1, piece);
    expect_refused(PLAIT("logits", file, "--ids", "1", "--out", out), 1, piece);
    expect_refused(PLAIT("embed", file, "--ids", "1"), 1, piece);
    expect_refused(PLAIT("perplexity", file, "--ids", "1"), 1, piece);
    expect_refused(PLAIT("bench", file), 1, piece);
    expect_refused(PLAIT("plan", file), 1, piece);
    expect_refused(PLAIT("quantize", file, other, "Q8_0"), 1, piece);
    assert_int_equal(access(out, F_OK), -1);
    assert_int_equal(access(other, F_OK), -1);
    return 9;
}

static void bad_files(void **state) {
    (void)state;
    char model[PLAIT_TEST_PATH_BYTES], bad[PLAIT_TEST_PATH_BYTES];
    size_t n, n_checked = 0;
    tiny_model(model);
    char *bytes = read_all(model, &n);
    program_file("bad.gguf", bad);
    write_all(bad, bytes, n / 2); /* cut in the tensors */
    n_checked += all_refuse(bad, "bad.gguf");
    write_all(bad, bytes, 100); /* cut in the metadata */
    n_checked += all_refuse(bad, "bad.gguf");
    expect_refused(PLAIT("inspect", bad), 1, "bad.gguf");
    expect_refused(PLAIT("tokenize", bad), 1, "bad.gguf");
    memset(bytes + 40, 0xFF, 200); /* corrupted */
    write_all(bad, bytes, n);
    n_checked += all_refuse(bad, "bad.gguf");
    write_all(bad, "", 0);
    n_checked += all_refuse(bad, "bad.gguf");
    expect_refused(PLAIT("inspect", bad), 1, "bad.gguf");
    write_all(bad, "GIF89a, this is no model at all.", 32);
    n_checked += all_refuse(bad, "bad.gguf");
    write_all(bad, "GGUF\x63\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 24);
    n_checked += all_refuse(bad, "99"); /* a version that is too new */
    n_checked += all_refuse(program_folder_path, "is a directory");
    n_checked += all_refuse("no-such-file.gguf", "no-such-file.gguf");
    if (geteuid() != 0) { /* root reads everything */
        chmod(bad, 0);
        n_checked += all_refuse(bad, "bad.gguf");
    }
    free(bytes);
    printf("%zu commands refused bad files\n", n_checked);
}

/* A cut file is shown as far as it goes, and the exit status says that it cannot be used. */
static void inspect_shows_what_is_cut(void **state) {
    (void)state;
    char model[PLAIT_TEST_PATH_BYTES], bad[PLAIT_TEST_PATH_BYTES];
    size_t n;
    tiny_model(model);
    char *bytes = read_all(model, &n);
    write_all(program_file("cut.gguf", bad), bytes, n / 2);
    outcome o = PLAIT("inspect", bad);
    assert_int_equal(o.status, 1);
    assert_int_equal(count_lines(o.err), 1);
    assert_non_null(strstr(o.out, "architecture"));
    assert_non_null(strstr(o.out, "runs                    no: "));
    outcome_free(&o);
    free(bytes);
}

static void unknown_architecture(void **state) {
    (void)state;
    char path[PLAIT_TEST_PATH_BYTES];
    plait_gguf_writer *w;
    tiny_must(plait_gguf_writer_create(&w));
    tiny_must(plait_gguf_writer_add_string(w, "general.architecture", "abacus"));
    tiny_must(plait_gguf_writer_write(w, program_file("abacus.gguf", path)));
    plait_gguf_writer_destroy(w);
    expect_refused(PLAIT("run", path, "--ids", "1"), 1, "\"abacus\"");
    outcome o = PLAIT("inspect", path, "--json");
    expect_done(&o);
    assert_non_null(strstr(o.out, "\"runs\":false"));
    outcome_free(&o);
}

static void numbers_out_of_range(void **state) {
    (void)state;
    char model[PLAIT_TEST_PATH_BYTES], out[PLAIT_TEST_PATH_BYTES], *prompt = malloc(4001);
    tiny_model(model);
    program_file("out", out);
    memset(prompt, 'x', 4000);
    prompt[4000] = '\0';
    expect_refused(PLAIT("run", model, "-p", prompt, "--ctx", "128"), 1, "longer than the context");
    expect_refused(PLAIT("embed", model, "-p", prompt, "--ctx", "128"), 1, "longer than the context");
    expect_refused(PLAIT("logits", model, "--ids", "1,2,3", "--out", out, "--ctx", "2"), 1,
                   "longer than the context of 2");
    expect_refused(PLAIT("run", model, "--ids", "1,112"), 1, "112");
    expect_refused(PLAIT("run", model, "--ids", "2147483647"), 1, "2147483647");
    expect_refused(PLAIT("logits", model, "--ids", "1,112", "--out", out), 1, "112");
    expect_refused(PLAIT("perplexity", model, "--ids", "1,112", "--ctx", "4"), 1, "112");
    expect_refused(PLAIT("run", model, "-p", ""), 1, "no token");
    expect_refused(PLAIT("run", model, "-f", "no-such-prompt"), 1, "no-such-prompt");
    free(prompt);
}

/* A cache of terabytes is refused before it is taken. */
static void too_large_for_memory(void **state) {
    (void)state;
    char model[PLAIT_TEST_PATH_BYTES];
    tiny_model(model);
    expect_refused(PLAIT("run", model, "-p", "a", "--ctx", "2000000000", "--kv", "f32"), 1, "does not fit");
}

/* NUL in a text to be answered is the sign of a wrong file; nothing is cut off silently. */
static void a_nul_in_a_prompt(void **state) {
    (void)state;
    char model[PLAIT_TEST_PATH_BYTES];
    tiny_model(model);
    expect_refused(PLAIT_WITH("a\0b", 3, "run", model, "-f", "-", "-n", "4", "--json"), 1,
                   "byte 1 of 3 is NUL");
    expect_refused(PLAIT_WITH("a\0b", 3, "embed", model, "-f", "-"), 1, "is NUL");
    expect_refused(PLAIT_WITH("a\0b\n", 4, "chat", model, "-n", "4"), 1, "byte 1 of 3 is NUL");
}

/* Nobody reads, or nothing can be written. */
static void output_that_fails(void **state) {
    (void)state;
    char model[PLAIT_TEST_PATH_BYTES];
    tiny_model(model);
    const char *const *const commands[] = {
        ARGUMENTS("--help"),
        ARGUMENTS("run", "--help"),
        ARGUMENTS("--version"),
        ARGUMENTS("devices"),
        ARGUMENTS("inspect", model),
        ARGUMENTS("tokenize", model),
        ARGUMENTS("plan", model),
        ARGUMENTS("embed", model, "-p", "a"),
        ARGUMENTS("run", model, "-p", "abc", "-n", "4"),
        ARGUMENTS("run", model, "-p", "abc", "-n", "4", "--json"),
        ARGUMENTS("bench", model, "-p", "2", "-n", "0", "-r", "1", "--json"),
        ARGUMENTS("man", "run"),
    };
    size_t n = sizeof commands / sizeof *commands;
    for (size_t i = 0; i < n; i++) {
        expect_refused(program_start(&(start){.out_path = "/dev/full"}, commands[i]), 1, "standard output");
        expect_refused(program_start(&(start){.closed_pipe = true}, commands[i]), 1, "standard output");
    }
    printf("%zu commands noticed a full disk and a closed pipe\n", n);
}

/* Every command that computes loads the libraries of --device-path first, all of them. */
static void libraries_of_devices(void **state) {
    static const char none[] = "/no/such/library.so",
                      message[] = "--device-path: device library \"/no/such/library.so\": No such file";
    (void)state;
    char out[PLAIT_TEST_PATH_BYTES];
    program_file("out", out);
    expect_refused(PLAIT("run", "f.gguf", "-p", "a", "--device-path", none), 1, message);
    expect_refused(PLAIT("chat", "f.gguf", "--device-path", none), 1, message);
    expect_refused(PLAIT("logits", "f.gguf", "--ids", "1", "--out", out, "--device-path", none), 1, message);
    expect_refused(PLAIT("embed", "f.gguf", "-p", "a", "--device-path", none), 1, message);
    expect_refused(PLAIT("perplexity", "f.gguf", "--ids", "1", "--device-path", none), 1, message);
    expect_refused(PLAIT("bench", "f.gguf", "--device-path", none), 1, message);
    expect_refused(PLAIT("plan", "f.gguf", "--device-path", none), 1, message);
    expect_refused(PLAIT("conformance", "cpu", "--device-path", none), 1, message);
    expect_refused(PLAIT("devices", "--device-path", none), 1, message);
    expect_refused(PLAIT("devices", "--devices", "cpu", "--device-path", none), 1, message);
    /* The first one that is wrong is named, wherever it stands. */
    expect_refused(PLAIT("devices", "--device-path", "libm.so.6", "--device-path", none), 1,
                   "exports no plait_device_entry");
    assert_int_equal(access(out, F_OK), -1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_files),
        cmocka_unit_test(inspect_shows_what_is_cut),
        cmocka_unit_test(unknown_architecture),
        cmocka_unit_test(numbers_out_of_range),
        cmocka_unit_test(too_large_for_memory),
        cmocka_unit_test(a_nul_in_a_prompt),
        cmocka_unit_test(output_that_fails),
        cmocka_unit_test(libraries_of_devices),
    };
    return cmocka_run_group_tests(tests, program_setup, program_teardown);
}
