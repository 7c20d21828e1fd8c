/* Descriptions: what is found in golden files, what is said about files that make no sense, and that printing is safe. */
#include "gguf/describe.h"
#include "gguf/image.h"
#include "support/locale.h"
#include "support/paths.h"

#include <dirent.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

static plait_gguf *opened(const image *m, bool metadata_only) {
    plait_gguf *g = NULL;
    plait_gguf_options options = {.metadata_only = metadata_only};
    if (plait_gguf_open_memory(&g, m->bytes, m->length, &options) != PLAIT_OK)
        fail_msg("%s", plait_error_message());
    return g;
}

static uint64_t number(const plait_gguf_description *d, plait_gguf_fact fact) {
    uint64_t value = 0;
    assert_non_null(d->facts[fact]);
    assert_true(plait_gguf_elem_u64(d->facts[fact], 0, &value));
    return value;
}

static void assert_has(const plait_strbuf *text, const char *fragment) {
    if (!strstr(plait_strbuf_text(text), fragment))
        fail_msg("\"%s\" is not in:\n%s", fragment, plait_strbuf_text(text));
}

static void a_quantised_model(void **state) {
    (void)state;
    char path[PLAIT_TEST_PATH_BYTES];
    static const char *const keys[] = {"llama.block_count", "llama.no_such"};
    static const char *const tensors[] = {"token_embd.weight", "blk.7.attn_q.weight", "blk.9.attn_q.weight"};
    plait_gguf_needs needs = {.keys = keys, .n_keys = 2, .tensors = tensors, .n_tensors = 3};
    plait_gguf *g = NULL;
    plait_gguf_description d;
    plait_strbuf text;
    assert_int_equal(plait_gguf_open(&g, plait_test_golden("archs/llama-gqa-quant.gguf", path), NULL),
                     PLAIT_OK);
    assert_int_equal(plait_gguf_describe(&d, g, &needs), PLAIT_OK);
    assert_true(plait_gguf_string_is(d.facts[PLAIT_GGUF_FACT_ARCHITECTURE]->strings[0], "llama"));
    assert_int_equal(number(&d, PLAIT_GGUF_FACT_CONTEXT_LENGTH), 512);
    assert_int_equal(number(&d, PLAIT_GGUF_FACT_LAYERS), 2);
    assert_int_equal(number(&d, PLAIT_GGUF_FACT_HEADS), 9);
    assert_int_equal(number(&d, PLAIT_GGUF_FACT_KV_HEADS), 3);
    assert_null(d.facts[PLAIT_GGUF_FACT_SLIDING_WINDOW]);
    assert_int_equal(d.head_size, 32);
    assert_int_equal(d.vocabulary_size, 112);
    assert_int_equal(d.chat_template_bytes, 0);
    assert_int_equal(d.file_bytes, 511744);
    assert_int_equal(d.n_problems, 0);
    uint64_t n_tensors = 0, n_elems = 0, bytes = 0;
    for (size_t i = 0; i < d.n_types; i++) {
        n_tensors += d.types[i].n_tensors;
        n_elems += d.types[i].n_elems;
        bytes += d.types[i].size_bytes;
        assert_true(i == 0 || d.types[i - 1].size_bytes >= d.types[i].size_bytes);
    }
    assert_int_equal(n_tensors, 20);
    assert_true(n_elems == d.n_parameters && bytes == d.tensor_bytes);
    assert_int_equal(d.n_missing_keys, 1);
    assert_string_equal(d.missing_keys[0], "llama.no_such");
    assert_int_equal(d.n_missing_tensors, 2);
    assert_string_equal(d.missing_tensors[1], "blk.9.attn_q.weight");
    plait_strbuf_init(&text, 0);
    plait_gguf_description_text(&d, &text);
    assert_has(&text, "architecture            llama\n");
    assert_has(&text, "rope base               10000\n");
    assert_has(&text, "missing tensor          blk.7.attn_q.weight\n");
    plait_strbuf_clear(&text);
    plait_gguf_description_json(&d, &text);
    assert_has(&text, "\"architecture\":\"llama\"");
    assert_has(&text, "\"missing\":{\"keys\":[\"llama.no_such\"],\"tensors\":[\"blk.7.attn_q.weight\"");
    plait_strbuf_deinit(&text);
    plait_gguf_description_deinit(&d);
    plait_gguf_release(g);
}

/* Architecture "x" with keys of wrong types, per-layer heads, special tokens outside the vocabulary. */
static void odd_file(image *m) {
    image_begin(m, 1, 9);
    image_key(m, "general.architecture", PLAIT_GGUF_STRING), image_string(m, "x");
    image_key(m, "x.block_count", PLAIT_GGUF_STRING), image_string(m, "two");
    image_key(m, "x.attention.head_count", PLAIT_GGUF_ARRAY), image_array(m, PLAIT_GGUF_I32, 3);
    image_u32(m, 8), image_u32(m, 8), image_u32(m, 8);
    image_key(m, "x.attention.head_count_kv", PLAIT_GGUF_ARRAY), image_array(m, PLAIT_GGUF_I32, 3);
    image_u32(m, 0), image_u32(m, 2), image_u32(m, 4);
    image_entry_u32(m, "x.embedding_length", 64);
    image_key(m, "x.rope.freq_base", PLAIT_GGUF_F32), image_bytes(m, &(float){NAN}, 4);
    image_key(m, "tokenizer.ggml.tokens", PLAIT_GGUF_ARRAY), image_array(m, PLAIT_GGUF_STRING, 2);
    image_string(m, "\x1b[2J\r\n"), image_string_n(m, "nul\0\xff", 5);
    image_entry_u32(m, "tokenizer.ggml.eos_token_id", 2);
    image_key(m, "tokenizer.ggml.bos_token_id", PLAIT_GGUF_F32), image_u32(m, 0);
    image_tensor(m, "t.weight", 77, 0, 1000);
}

static void what_makes_no_sense(void **state) {
    (void)state;
    image m = {0};
    plait_gguf_description d;
    plait_strbuf text;
    odd_file(&m);
    plait_gguf *g = opened(&m, true);
    assert_int_equal(plait_gguf_describe(&d, g, NULL), PLAIT_OK);
    assert_int_equal(d.n_problems, 4);
    assert_string_equal(d.problems[0], "memory: tensor \"t.weight\": element type number 77 is unknown");
    assert_string_equal(d.problems[1],
                        "metadata \"x.block_count\": expected an integer of at least 0, found string");
    assert_string_equal(d.problems[2], "special token \"eos\": id 2 is outside the vocabulary of 2");
    assert_string_equal(d.problems[3], "special token \"bos\": expected an integer of at least 0, found f32");
    assert_null(d.facts[PLAIT_GGUF_FACT_LAYERS]);
    assert_int_equal(d.head_size, 8);
    assert_int_equal(d.n_parameters, 0);
    assert_int_equal(d.n_types, 1);
    plait_strbuf_init(&text, 0);
    plait_gguf_description_text(&d, &text);
    assert_has(&text, "heads                   8 (each of 3)\n");
    assert_has(&text, "KV heads                [0, 2, 4]\n");
    assert_has(&text, "rope base               nan\n");
    assert_has(&text, "  type 77                   1 tensors  1.00 K elements  0 B\n");
    plait_strbuf_clear(&text);
    plait_gguf_description_json(&d, &text);
    assert_has(&text, "\"rope_base\":null");
    assert_has(&text, "\"kv_heads\":[0,2,4]");
    assert_has(&text, "\"special_tokens\":{\"eos\":2}");
    plait_strbuf_clear(&text);
    plait_gguf_metadata_text(g, NULL, &text);
    assert_has(&text, "tokenizer.ggml.tokens = string[2] [\"\\u001b[2J\\u000d\\n\", \"nul\\u0000\\xff\"]\n");
    plait_strbuf_clear(&text);
    plait_gguf_metadata_json(g, NULL, &text);
    assert_has(&text,
               "{\"key\":\"tokenizer.ggml.tokens\",\"type\":\"array\",\"elem_type\":\"string\",\"count\":2,"
               "\"value\":[\"\\u001b[2J\\r\\n\",\"nul\\u0000\xef\xbf\xbd\"]}");
    plait_strbuf_clear(&text);
    plait_gguf_tensors_text(g, &text);
    assert_has(&text, "t.weight  type 77");
    plait_strbuf_clear(&text);
    plait_gguf_tensors_json(g, &text);
    assert_has(
        &text,
        "[{\"name\":\"t.weight\",\"type\":\"type 77\",\"type_number\":77,\"dims\":[1000],\"n_elems\":1000");
    plait_strbuf_deinit(&text);
    plait_gguf_description_deinit(&d);
    plait_gguf_release(g);
    image_end(&m);
}

static void long_values_are_cut(void **state) {
    (void)state;
    image m = {0};
    plait_strbuf text;
    char big[5000];
    memset(big, 'z', sizeof big);
    image_begin(&m, 0, 3);
    image_key(&m, "s", PLAIT_GGUF_STRING), image_string_n(&m, big, sizeof big);
    image_key(&m, "a", PLAIT_GGUF_ARRAY), image_array(&m, PLAIT_GGUF_U8, sizeof big);
    image_bytes(&m, big, sizeof big);
    image_key(&m, "u", PLAIT_GGUF_STRING), image_string(&m, "\xc3\xa9\xc3\xa9\xc3\xa9");
    plait_gguf *g = opened(&m, false);
    plait_strbuf_init(&text, 0);
    plait_gguf_metadata_text(g, NULL, &text);
    assert_true(text.length < 300);
    assert_has(&text, "zzz...\" (5000 bytes)\n");
    assert_has(&text, "a = u8[5000] [122, 122, 122, 122, 122, 122, 122, 122, ...]\n");
    plait_strbuf_clear(&text);
    plait_gguf_metadata_json(g, &(plait_gguf_print_limits){.max_elems = 2, .max_text_bytes = 3}, &text);
    assert_string_equal(plait_strbuf_text(&text),
                        "[{\"key\":\"s\",\"type\":\"string\",\"value\":\"zzz\",\"cut\":true},"
                        "{\"key\":\"a\",\"type\":\"array\",\"elem_type\":\"u8\",\"count\":5000,\"value\":["
                        "122,122],\"cut\":true},"
                        "{\"key\":\"u\",\"type\":\"string\",\"value\":\"\xc3\xa9\",\"cut\":true}]");
    plait_strbuf_deinit(&text);
    plait_gguf_release(g);
    image_end(&m);
}

static void plain_text(void **state) {
    (void)state;
    plait_strbuf text;
    plait_strbuf_init(&text, 0);
    static const char hostile[] = "a\x1b]0;x\x07\xc2\x9b\xe2\x80\xae\xef\xbb\xbf\x7f\xc3\xa9";
    plait_gguf_plain_text((plait_gguf_string){hostile, sizeof hostile - 1}, 100, &text);
    assert_string_equal(plait_strbuf_text(&text), "a\\u001b]0;x\\u0007\\u009b\\u202e\\ufeff\\u007f\xc3\xa9");
    plait_strbuf_deinit(&text);
}

static void numbers(void **state) {
    (void)state;
    char out[32];
    static const struct {
        float value;
        const char *text;
    } floats[] = {
        {0.1f, "0.1"}, {1e-5f, "1e-05"}, {1.0f / 3, "0.33333334"}, {3.4028235e38f, "3.4028235e+38"}};
    for (size_t i = 0; i < 4; i++) {
        plait_gguf_format_f32(floats[i].value, out);
        assert_string_equal(out, floats[i].text);
    }
    /* With a comma in the program's locale JSON stays JSON. */
    static const double values[] = {2.5, 10000, 1e-7};
    plait_gguf_value value = {
        .type = PLAIT_GGUF_ARRAY, .elem_type = PLAIT_GGUF_F64, .count = 3, .data = values};
    plait_strbuf text;
    plait_strbuf_init(&text, 0);
    assert_true(test_locale_begin());
    plait_gguf_format_f32(1.0f / 3, out);
    plait_gguf_value_json(&value, NULL, &text);
    test_locale_end();
    assert_string_equal(out, "0.33333334");
    assert_string_equal(plait_strbuf_text(&text), "[2.5,10000,1e-07]");
    plait_strbuf_deinit(&text);
    assert_string_equal(plait_gguf_file_type_name(15), "Q4_K_M");
    assert_null(plait_gguf_file_type_name(4));
    assert_null(plait_gguf_file_type_name(1024));
}

/* Every golden model can be described without a problem, and prints nothing but lines of text. */
static void golden_models(void **state) {
    (void)state;
    char dir_path[PLAIT_TEST_PATH_BYTES], path[2 * PLAIT_TEST_PATH_BYTES];
    int n = 0;
    DIR *dir = opendir(plait_test_golden("archs", dir_path));
    assert_non_null(dir);
    for (struct dirent *e; (e = readdir(dir));) {
        size_t length = strlen(e->d_name);
        if (length < 5 || strcmp(e->d_name + length - 5, ".gguf") != 0) continue;
        snprintf(path, sizeof path, "%s/%s", dir_path, e->d_name);
        plait_gguf *g = NULL;
        plait_gguf_description d;
        plait_strbuf text;
        plait_strbuf_init(&text, 0);
        assert_int_equal(plait_gguf_open(&g, path, NULL), PLAIT_OK);
        assert_int_equal(plait_gguf_describe(&d, g, NULL), PLAIT_OK);
        if (d.n_problems) fail_msg("%s: %s", path, d.problems[0]);
        assert_true(number(&d, PLAIT_GGUF_FACT_LAYERS) > 0 && d.vocabulary_size > 0 && d.n_parameters > 0);
        plait_gguf_description_text(&d, &text);
        assert_int_equal(plait_strbuf_status(&text), PLAIT_OK);
        plait_strbuf_deinit(&text);
        plait_gguf_description_deinit(&d);
        plait_gguf_release(g);
        n++;
    }
    closedir(dir);
    print_message("%d golden files described\n", n);
    assert_true(n > 0);
}

/* A file without tokens states the size of its vocabulary by a key; a chat template is only measured. */
static void vocabulary_and_template(void **state) {
    (void)state;
    image m = {0};
    plait_gguf_description d;
    plait_strbuf text;
    image_begin(&m, 0, 4);
    image_key(&m, "general.architecture", PLAIT_GGUF_STRING), image_string(&m, "gpt2");
    image_entry_u32(&m, "gpt2.vocab_size", 50257);
    image_key(&m, "tokenizer.chat_template", PLAIT_GGUF_STRING), image_string(&m, "{{ messages }}\t");
    image_key(&m, "general.name", PLAIT_GGUF_STRING), image_string(&m, "tab\tseparated");
    plait_gguf *g = opened(&m, false);
    assert_int_equal(plait_gguf_describe(&d, g, NULL), PLAIT_OK);
    assert_int_equal(d.vocabulary_size, 50257);
    assert_int_equal(d.chat_template_bytes, 15);
    plait_strbuf_init(&text, 0);
    plait_gguf_description_text(&d, &text);
    assert_has(&text, "name                    tab\\tseparated\n");
    assert_has(&text, "chat template           15 bytes\n");
    assert_has(&text, "parameters              0 in 0 B, 0.00 bits each\n");
    plait_strbuf_deinit(&text);
    plait_gguf_description_deinit(&d);
    plait_gguf_release(g);
    image_end(&m);
}

/* A file whose data is cut is still described, and the cut is its problem. */
static void a_cut_file(void **state) {
    (void)state;
    image m = {0};
    plait_gguf_description d;
    image_small(&m);
    m.length -= 10;
    plait_gguf *g = opened(&m, true);
    assert_int_equal(plait_gguf_describe(&d, g, NULL), PLAIT_OK);
    assert_int_equal(d.n_problems, 1);
    assert_non_null(strstr(d.problems[0], "it is cut, 10 bytes are missing"));
    assert_int_equal(d.n_parameters, 68);
    plait_gguf_description_deinit(&d);
    plait_gguf_release(g);
    image_end(&m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_quantised_model), cmocka_unit_test(what_makes_no_sense),
        cmocka_unit_test(plain_text),        cmocka_unit_test(long_values_are_cut),
        cmocka_unit_test(numbers),           cmocka_unit_test(golden_models),
        cmocka_unit_test(a_cut_file),        cmocka_unit_test(vocabulary_and_template),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
