/* plait quantize: what is converted and what is kept, logits near the original's, the same bytes for any number of
 * threads, and an output that is whole or not there. */
#include "cli/tiny.h"
#include "model/arch_case.h"

#include <sys/stat.h>

static const plait_gguf_tensor *tensor(const plait_gguf *gguf, const char *name) {
    const plait_gguf_tensor *t = plait_gguf_find_tensor(gguf, name);
    if (!t) fail_msg("%s is missing", name);
    return t;
}

static float *logits(const char *model, size_t *out_n) {
    char path[PLAIT_TEST_PATH_BYTES];
    size_t n_bytes;
    outcome o = PLAIT("logits", model, "--ids", "5,9,33,70,2,64,51", "--out", program_file("l.f32", path));
    expect_done(&o);
    outcome_free(&o);
    float *values = (float *)(void *)read_all(path, &n_bytes);
    *out_n = n_bytes / sizeof *values;
    return values;
}

/* Root mean square difference of two models' logits, relative to their spread. */
static double distance(const char *a, const char *b) {
    size_t n, n_b;
    float *x = logits(a, &n), *y = logits(b, &n_b);
    double squares = 0, spread = 0;
    assert_int_equal(n, n_b);
    for (size_t i = 0; i < n; i++) squares += pow((double)x[i] - y[i], 2), spread += pow(x[i], 2);
    free(x);
    free(y);
    return sqrt(squares / spread);
}

static void each_type_stays_near(void **state) {
    static const struct {
        const char *type;
        double most;
    } cases[] = {{"F32", 0},     {"BF16", 0.03}, {"F16", 0.01}, {"Q8_0", 0.03},
                 {"q5_1", 0.15}, {"Q4_0", 0.4},  {"Q6_K", 0.05}};
    (void)state;
    char in[PLAIT_TEST_PATH_BYTES], out[PLAIT_TEST_PATH_BYTES];
    tiny_model(in);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        outcome o = PLAIT("quantize", in, program_file("out.gguf", out), cases[i].type);
        expect_done(&o);
        assert_int_equal(o.n_out, 0);
        double d = distance(in, out);
        printf("%-5s logits differ by %.4f of their spread\n", cases[i].type, d);
        assert_true(d <= cases[i].most);
        outcome_free(&o);
    }
}

/* Norms stay, matrices change, rows that are no whole blocks of 256 get a type with short ones; metadata is kept. */
static void types_and_metadata(void **state) {
    (void)state;
    char in[PLAIT_TEST_PATH_BYTES], out[PLAIT_TEST_PATH_BYTES];
    plait_gguf *a, *b;
    uint32_t number = 0;
    tiny_model(in);
    outcome o = PLAIT("quantize", in, program_file("out.gguf", out), "Q4_K");
    expect_done(&o);
    tiny_must(plait_gguf_open(&a, in, NULL));
    tiny_must(plait_gguf_open(&b, out, NULL));
    assert_int_equal(plait_gguf_tensor_count(a), plait_gguf_tensor_count(b));
    assert_int_equal(tensor(b, "blk.0.attn_norm.weight")->dtype, PLAIT_F32);
    const plait_gguf_tensor *q = tensor(b, "blk.0.attn_q.weight");
    assert_int_equal(q->dtype, q->dims[0] % 256 == 0 ? PLAIT_Q4_K : PLAIT_Q4_1);
    assert_true(q->dims[0] % 256 == 0 || strstr(o.err, "blk.0.attn_q.weight") != NULL);
    tiny_must(plait_gguf_get_u32(b, "general.file_type", &number));
    assert_int_equal(number, 14); /* Q4_K, small: every matrix alike */
    tiny_must(plait_gguf_get_u32(b, "general.quantization_version", &number));
    assert_int_equal(number, 2);
    for (size_t i = 0; i < plait_gguf_entry_count(a); i++) {
        char key[256];
        const plait_gguf_entry *entry = plait_gguf_entry_at(a, i);
        snprintf(key, sizeof key, "%.*s", (int)entry->key.length, entry->key.bytes);
        const plait_gguf_value *value = plait_gguf_find(b, key);
        if (!value || value->type != entry->value.type || value->count != entry->value.count)
            fail_msg("%s was not kept", key);
    }
    plait_gguf_release(a);
    plait_gguf_release(b);
    outcome_free(&o);
}

static void threads_do_not_matter(void **state) {
    (void)state;
    char in[PLAIT_TEST_PATH_BYTES], one[PLAIT_TEST_PATH_BYTES], three[PLAIT_TEST_PATH_BYTES];
    size_t n_one, n_three;
    plait_test_golden("archs/gemma3.gguf", in);
    outcome a = PLAIT("quantize", in, program_file("one.gguf", one), "Q4_0", "-t", "1"),
            b = PLAIT("quantize", in, program_file("three.gguf", three), "Q4_0", "-t", "3");
    expect_done(&a);
    expect_done(&b);
    char *x = read_all(one, &n_one), *y = read_all(three, &n_three);
    assert_int_equal(n_one, n_three);
    assert_memory_equal(x, y, n_one);
    /* What is quantised already can be read as well. */
    outcome c = PLAIT("quantize", one, three, "F16");
    expect_done(&c);
    assert_true(distance(one, three) < 0.02);
    outcome_free(&a);
    outcome_free(&b);
    outcome_free(&c);
    free(x);
    free(y);
}

static size_t count_files(void) {
    size_t n = 0;
    DIR *folder = opendir(program_folder_path);
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;) n++;
    closedir(folder);
    return n;
}

static void whole_or_not_at_all(void **state) {
    (void)state;
    char in[PLAIT_TEST_PATH_BYTES], out[PLAIT_TEST_PATH_BYTES], link_path[PLAIT_TEST_PATH_BYTES];
    struct stat st;
    tiny_model(in);
    program_file("full.gguf", out);
    outcome warm = PLAIT("--version");
    outcome_free(&warm);
    size_t n_files = count_files();
    outcome full =
        program_start(&(start){.file_limit_bytes = 100000}, ARGUMENTS("quantize", in, out, "Q8_0"));
    expect_refused(full, 1, "cannot write");
    assert_int_equal(stat(out, &st), -1);
    assert_int_equal(count_files(), n_files); /* no temporary is left */
    expect_refused(PLAIT("quantize", in, in, "Q8_0"), 1, "is the file that is read");
    program_file("link.gguf", link_path);
    unlink(link_path);
    assert_int_equal(symlink(in, link_path), 0);
    expect_refused(PLAIT("quantize", in, link_path, "Q8_0"), 1, "is the file that is read");
    expect_refused(PLAIT("quantize", in, "no-such-folder/out.gguf", "Q8_0"), 1, "no-such-folder");
    expect_refused(PLAIT("quantize", "none.gguf", out, "Q8_0"), 1, "none.gguf");
    outcome o = PLAIT("inspect", in);
    expect_done(&o);
    outcome_free(&o);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_type_stays_near),
        cmocka_unit_test(types_and_metadata),
        cmocka_unit_test(threads_do_not_matter),
        cmocka_unit_test(whole_or_not_at_all),
    };
    return cmocka_run_group_tests(tests, program_setup, program_teardown);
}
