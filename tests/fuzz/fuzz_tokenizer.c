/* room: text */
/* Any text through fixed small vocabularies, one for each model. The first byte chooses the model, the second the flags,
 * the third where the text is cut into a trusted and an untrusted segment. The ids must be in range and equal in a second
 * run; a stream of them must be valid UTF-8 and equal the whole. */
#include "base/utf8.h"
#include "support/synthetic.h"

#include <stdio.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { N_MODELS = 7 };

static plait_tokenizer *tokenizers[N_MODELS];
static plait_tokenizer_scratch *scratches[N_MODELS];

static void broken(const char *what) {
    fprintf(stderr, "%s: %s\n", what, plait_error_message());
    abort();
}

static void add_words(synthetic *v) {
    static const char *const words[] = {"th",
                                        "the",
                                        "he",
                                        "in",
                                        "ing",
                                        "aa",
                                        "aaaa",
                                        "aaa",
                                        "ab",
                                        "ba",
                                        "bab",
                                        "\xE2\x96\x81",
                                        "\xE2\x96\x81\xE2\x96\x81",
                                        "\xE2\x96\x81t",
                                        "\xE2\x96\x81the",
                                        "\xE4\xB8\xAD",
                                        "\xC3\xA9",
                                        "\n",
                                        "\n\n",
                                        "=",
                                        "==",
                                        "===="};
    static char letters[95][2];
    static char bytes[256][8];
    synthetic_add(v, "<unk>", 5, PLAIT_TOKEN_UNKNOWN, 0);
    synthetic_add(v, "<s>", 3, PLAIT_TOKEN_CONTROL, 0);
    synthetic_add(v, "</s>", 4, PLAIT_TOKEN_CONTROL, 0);
    for (int i = 0; i < 95; i++) {
        letters[i][0] = (char)(' ' + i);
        synthetic_add(v, letters[i], 1, PLAIT_TOKEN_NORMAL, -10);
    }
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        synthetic_add(v, words[i], strlen(words[i]), PLAIT_TOKEN_NORMAL, -(float)(i % 7));
    for (int i = 0; i < 256; i += 1) {
        snprintf(bytes[i], sizeof bytes[i], "<0x%02X>", (unsigned)i);
        if (i != 'Q') synthetic_add(v, bytes[i], 6, PLAIT_TOKEN_BYTE, 0);
    }
    synthetic_add(v, "  ", 2, PLAIT_TOKEN_USER_DEFINED, 0);
    synthetic_add(v, "   ", 3, PLAIT_TOKEN_USER_DEFINED, 0);
    synthetic_add(v, "<|end|>", 7, PLAIT_TOKEN_USER_DEFINED, 0);
    synthetic_add(v, "<|", 2, PLAIT_TOKEN_CONTROL, 0);
    synthetic_add(v, "aba", 3, PLAIT_TOKEN_CONTROL, 0);
    synthetic_add(v, "<mask>", 6, PLAIT_TOKEN_CONTROL, 0);
}

static void add_merges(synthetic *v) {
    static const char *const merges[] = {"t h",
                                         "th e",
                                         "h e",
                                         "i n",
                                         "in g",
                                         "a a",
                                         "aa aa",
                                         "a b",
                                         "= =",
                                         "== ==",
                                         "\xC4\xA0 t",
                                         "\xC4\xA0t he",
                                         "\xC3\x83 \xC2\xA9"};
    for (size_t i = 0; i < sizeof merges / sizeof *merges; i++)
        v->merges[v->n_merges++] = (plait_gguf_string){merges[i], strlen(merges[i])};
}

static plait_status phi(plait_gguf_writer *w) {
    return plait_gguf_writer_add_string(w, "general.name", "Phi-3");
}

static plait_status nomic(plait_gguf_writer *w) {
    /* One unit that leads nowhere: a map of its own without entries. */
    static const uint8_t map[] = {4, 0, 0, 0, 0, 0, 0, 0};
    PLAIT_TRY(plait_gguf_writer_add_array(w, "tokenizer.ggml.precompiled_charsmap", PLAIT_GGUF_U8, map,
                                          sizeof map));
    return plait_gguf_writer_add_string(w, "general.architecture", "nomic-bert-moe");
}

static void make_all(void) {
    static const struct {
        const char *model, *pre;
        plait_status (*more)(plait_gguf_writer *w);
    } kinds[N_MODELS] = {
        {"gpt2", "qwen2", NULL}, {"gpt2", "deepseek-llm", NULL}, {"gemma4", NULL, NULL}, {"llama", NULL, phi},
        {"t5", NULL, nomic},     {"bert", NULL, NULL},           {"rwkv", NULL, NULL}};
    static synthetic v;
    for (size_t i = 0; i < N_MODELS; i++) {
        memset(&v, 0, sizeof v);
        v.model = kinds[i].model;
        v.pre = kinds[i].pre;
        add_words(&v);
        add_merges(&v);
        if (synthetic_create(&tokenizers[i], &v, kinds[i].more) != PLAIT_OK) broken("vocabulary");
        if (plait_tokenizer_scratch_create(&scratches[i], tokenizers[i]) != PLAIT_OK) broken("scratch");
    }
}

static void check_stream(const plait_tokenizer *t, const plait_tokens *ids, uint32_t flags) {
    size_t room = plait_detokenizer_max_bytes(t), n_joined = 0, n_whole, n;
    char *joined = malloc((ids->n + 1) * room), *whole = NULL;
    plait_detokenizer stream;
    if (!joined) return;
    plait_detokenizer_init(&stream, t, flags);
    for (size_t i = 0; i < ids->n; i++) {
        if (plait_detokenizer_feed(&stream, ids->ids[i], joined + n_joined, room, &n) != PLAIT_OK)
            broken("feed");
        if (!plait_utf8_valid(joined + n_joined, n)) broken("a piece is not UTF-8");
        n_joined += n;
    }
    n_joined += plait_detokenizer_flush(&stream, joined + n_joined);
    if (plait_detokenize(t, ids->ids, ids->n, flags, &whole, &n_whole) != PLAIT_OK) broken("detokenize");
    if (plait_utf8_valid(whole, n_whole) && (n_whole != n_joined || memcmp(whole, joined, n_whole) != 0))
        broken("the pieces are not the whole");
    free(whole);
    free(joined);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (!tokenizers[0]) make_all();
    if (size < 3) return 0;
    size_t which = data[0] % N_MODELS, n = size - 3, cut = n * data[2] / 256;
    uint32_t flags = data[1] & 7;
    const char *text = (const char *)data + 3;
    plait_tokens once = {0}, twice = {0}, parts = {0};
    if (plait_tokenize(tokenizers[which], scratches[which], text, n, flags, &once) != PLAIT_OK)
        broken("tokenize");
    if (plait_tokenize(tokenizers[which], scratches[which], text, n, flags, &twice) != PLAIT_OK)
        broken("tokenize");
    if (once.n != twice.n || (once.n && memcmp(once.ids, twice.ids, once.n * sizeof *once.ids) != 0))
        broken("another result");
    for (size_t i = 0; i < once.n; i++)
        if (once.ids[i] < 0 || once.ids[i] >= plait_tokenizer_n_vocab(tokenizers[which]))
            broken("an id out of range");
    check_stream(tokenizers[which], &once, data[1] >> 3 & 3);
    plait_text_segment segments[2] = {{text, cut, data[1] & 32}, {text + cut, n - cut, data[1] & 64}};
    if (plait_tokenize_segments(tokenizers[which], scratches[which], segments, 2, flags & 1, &parts) !=
        PLAIT_OK)
        broken("segments");
    check_stream(tokenizers[which], &parts, data[1] >> 3 & 3);
    plait_tokens_deinit(&once);
    plait_tokens_deinit(&twice);
    plait_tokens_deinit(&parts);
    return 0;
}
