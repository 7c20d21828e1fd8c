/* Tokenizers when memory runs out, at each allocation in turn; and that a warm scratch asks for none. */
/* room: text */
#include "fault/fault.h"
#include "support/random_text.h"
#include "support/synthetic.h"
#include "text/tokenizer/internal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <cmocka.h>

static synthetic v;

/* A vocabulary in which every structure has something to hold. */
static void fill(const char *model) {
    static char words[200][8];
    memset(&v, 0, sizeof v);
    v.model = model;
    v.pre = "deepseek-llm";
    synthetic_add(&v, "<unk>", 5, PLAIT_TOKEN_UNKNOWN, 0);
    for (char c = 'a'; c <= 'z'; c++) {
        words[c - 'a'][0] = c;
        synthetic_add(&v, words[c - 'a'], 1, PLAIT_TOKEN_NORMAL, -1);
    }
    synthetic_add(&v, "aa", 2, PLAIT_TOKEN_UNUSED, -2);
    synthetic_add(&v, "aaaa", 4, PLAIT_TOKEN_NORMAL, -2);
    synthetic_add(&v, "\xE2\x96\x81", 3, PLAIT_TOKEN_NORMAL, -2);
    synthetic_add(&v, "<|a|>", 5, PLAIT_TOKEN_CONTROL, 0);
    synthetic_add(&v, "  ", 2, PLAIT_TOKEN_USER_DEFINED, 0);
    synthetic_add(&v, "   ", 3, PLAIT_TOKEN_USER_DEFINED, 0);
    v.merges[v.n_merges++] = (plait_gguf_string){"a a", 3};
    v.merges[v.n_merges++] = (plait_gguf_string){"aa aa", 5};
    v.merges[v.n_merges++] = (plait_gguf_string){"x y", 3};
}

static plait_status use(const plait_tokenizer *t) {
    plait_tokenizer_scratch *s = NULL;
    plait_tokens ids = {0};
    char text[2000], *back = NULL;
    size_t n = 0, n_back;
    for (; n < 300; n++) text[n] = 'a';
    for (int i = 0; i < 40; i++) {
        static const char part[] = "<|a|>    xy e\xCC\x81\xCC\xA3 \xFF <|";
        memcpy(text + n, part, sizeof part - 1);
        n += sizeof part - 1;
    }
    for (int i = 0; i < 30; i++) memcpy(text + n, "\xCC\x81\xCC\xA3", 4), n += 4;
    plait_text_segment parts[2] = {{text, 400, true}, {text + 400, n - 400, false}};
    plait_status status = plait_tokenizer_scratch_create(&s, t);
    if (status == PLAIT_OK) status = plait_tokenize(t, s, text, n, PLAIT_TOKENIZE_PARSE_SPECIAL, &ids);
    if (status == PLAIT_OK)
        status = plait_tokenize_segments(t, s, parts, 2, PLAIT_TOKENIZE_ADD_SPECIAL, &ids);
    if (status == PLAIT_OK) status = plait_detokenize(t, ids.ids, ids.n, 0, &back, &n_back);
    free(back);
    plait_tokens_deinit(&ids);
    plait_tokenizer_scratch_destroy(s);
    return status;
}

static synthetic_image image;
static plait_tokenizer_options options;

static plait_status life(void *user) {
    (void)user;
    plait_gguf *gguf = NULL;
    plait_tokenizer *t = NULL;
    plait_status status = plait_gguf_open_memory(&gguf, image.bytes, image.n, NULL);
    if (status == PLAIT_OK) status = plait_tokenizer_create(&t, gguf, &options);
    if (status == PLAIT_OK) status = use(t);
    plait_tokenizer_destroy(t);
    plait_gguf_release(gguf);
    return status;
}

static plait_status charsmap(plait_gguf_writer *w) {
    static const uint8_t map[] = {4, 0, 0, 0, 0, 0, 0, 0};
    return plait_gguf_writer_add_array(w, "tokenizer.ggml.precompiled_charsmap", PLAIT_GGUF_U8, map,
                                       sizeof map);
}

static void make_image(const char *model) {
    plait_gguf_writer *w = NULL;
    fill(model);
    image.n = 0;
    assert_int_equal(plait_gguf_writer_create(&w), PLAIT_OK);
    assert_int_equal(synthetic_fill(w, &v), PLAIT_OK);
    assert_int_equal(charsmap(w), PLAIT_OK);
    assert_int_equal(plait_gguf_writer_write_to(w, synthetic_sink, &image), PLAIT_OK);
    plait_gguf_writer_destroy(w);
}

static void every_allocation_fails(void **state) {
    (void)state;
    static const char *const models[] = {"gpt2", "gemma4", "llama", "t5", "bert", "rwkv"};
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        make_image(models[i]);
        options.pre = i == 0 ? "mpt" : NULL; /* NFC as well */
        fault_each_named(models[i], life, NULL);
    }
    free(image.bytes);
    image = (synthetic_image){0};
}

/* After one call with a text of that size, further ones allocate nothing. */
static void warm_scratch_allocates_nothing(void **state) {
    (void)state;
    static const char *const models[] = {"gpt2", "gemma4", "llama", "t5", "bert", "rwkv"};
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        plait_tokenizer *t = NULL;
        plait_tokenizer_scratch *s = NULL;
        plait_tokens ids = {0};
        char text[4000];
        uint64_t random = 9;
        fill(models[i]);
        assert_int_equal(synthetic_create(&t, &v, NULL), PLAIT_OK);
        assert_int_equal(plait_tokenizer_scratch_create(&s, t), PLAIT_OK);
        size_t n = random_text(&random, 1000, text);
        memset(text, ' ', 500);
        memcpy(text + 500, "<|a|><|a|>", 10);
        for (int round = 0; round < 3; round++) {
            ids.n = 0;
            uint64_t before = fault_allocations();
            assert_int_equal(plait_tokenize(t, s, text, n, PLAIT_TOKENIZE_PARSE_SPECIAL, &ids), PLAIT_OK);
            if (round) assert_int_equal(fault_allocations() - before, 0);
        }
        plait_tokens_deinit(&ids);
        plait_tokenizer_scratch_destroy(s);
        plait_tokenizer_destroy(t);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_allocation_fails),
        cmocka_unit_test(warm_scratch_allocates_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
