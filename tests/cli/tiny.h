/* A small model with a vocabulary and a chat template: the tensors of golden/archs/llama-dense and a byte-level
 * vocabulary of printable ASCII, ChatML around it. What it says is meaningless, and always the same. */
#ifndef PLAIT_TESTS_CLI_TINY_H
#define PLAIT_TESTS_CLI_TINY_H

#include "cli/program.h"
#include "plait/gguf.h"

#define TINY_TEMPLATE                                                                                        \
    "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>' + '\n' }}"    \
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"

enum { TINY_VOCABULARY = 112, TINY_LETTERS = 96, TINY_BOS = 96, TINY_EOS = 97 };

static inline void tiny_must(plait_status status) {
    if (status != PLAIT_OK) fail_msg("%s", plait_error_message());
}

/* Tokens 0 to 93: '!' to '~'; 94: space; 95: line end; 96 and 97: the marks of ChatML; others unused. */
static inline void tiny_vocabulary(plait_gguf_writer *w) {
    static char texts[TINY_VOCABULARY][16];
    plait_gguf_string tokens[TINY_VOCABULARY];
    int32_t types[TINY_VOCABULARY];
    for (int i = 0; i < TINY_VOCABULARY; i++) {
        types[i] = i < TINY_LETTERS ? 1 : i < TINY_LETTERS + 2 ? 3 : 5;
        snprintf(texts[i], sizeof texts[i], i < TINY_LETTERS ? "%c" : "<unused%d>",
                 i < TINY_LETTERS ? '!' + i : i);
    }
    strcpy(texts[94], "\xC4\xA0"); /* U+0120 stands for a space, U+010A for a line end */
    strcpy(texts[95], "\xC4\x8A");
    strcpy(texts[TINY_BOS], "<|im_start|>");
    strcpy(texts[TINY_EOS], "<|im_end|>");
    for (int i = 0; i < TINY_VOCABULARY; i++) tokens[i] = (plait_gguf_string){texts[i], strlen(texts[i])};
    tiny_must(plait_gguf_writer_add_string(w, "tokenizer.ggml.model", "gpt2"));
    tiny_must(plait_gguf_writer_add_string(w, "tokenizer.ggml.pre", "gpt-2"));
    tiny_must(
        plait_gguf_writer_add_array(w, "tokenizer.ggml.tokens", PLAIT_GGUF_STRING, tokens, TINY_VOCABULARY));
    tiny_must(
        plait_gguf_writer_add_array(w, "tokenizer.ggml.token_type", PLAIT_GGUF_I32, types, TINY_VOCABULARY));
    tiny_must(plait_gguf_writer_add_array(w, "tokenizer.ggml.merges", PLAIT_GGUF_STRING,
                                          &(plait_gguf_string){"a a", 3}, 1));
    tiny_must(plait_gguf_writer_add_u32(w, "tokenizer.ggml.bos_token_id", TINY_BOS));
    tiny_must(plait_gguf_writer_add_u32(w, "tokenizer.ggml.eos_token_id", TINY_EOS));
    tiny_must(plait_gguf_writer_add_bool(w, "tokenizer.ggml.add_bos_token", false));
    tiny_must(plait_gguf_writer_add_string(w, "tokenizer.chat_template", TINY_TEMPLATE));
}

/* Writes the model to the test's folder; returns out, its path. */
static inline char *tiny_model(char out[PLAIT_TEST_PATH_BYTES]) {
    static const char *const skip[] = {"tokenizer.ggml.model",         "tokenizer.ggml.pre",
                                       "tokenizer.ggml.tokens",        "tokenizer.ggml.token_type",
                                       "tokenizer.ggml.merges",        "tokenizer.ggml.scores",
                                       "tokenizer.ggml.bos_token_id",  "tokenizer.ggml.eos_token_id",
                                       "tokenizer.ggml.add_bos_token", NULL};
    char path[PLAIT_TEST_PATH_BYTES];
    plait_gguf *in;
    plait_gguf_writer *w;
    tiny_must(plait_gguf_open(&in, plait_test_golden("archs/llama-dense.gguf", path), NULL));
    tiny_must(plait_gguf_writer_create(&w));
    tiny_must(plait_gguf_writer_add_entries(w, in, skip));
    tiny_vocabulary(w);
    for (size_t i = 0; i < plait_gguf_tensor_count(in); i++) {
        const plait_gguf_tensor *t = plait_gguf_tensor_at(in, i);
        plait_gguf_tensor_source source = {
            .name = t->name, .dtype = t->dtype, .rank = t->rank, .bytes = t->bytes};
        memcpy(source.dims, t->dims, sizeof source.dims);
        tiny_must(plait_gguf_writer_add_tensor(w, &source));
    }
    tiny_must(plait_gguf_writer_write(w, program_file("tiny.gguf", out)));
    plait_gguf_writer_destroy(w);
    plait_gguf_release(in);
    return out;
}

#endif
