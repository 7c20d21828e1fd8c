/* room: text */
/* mutations: 24 */
/* Any metadata. The input is lines "key=value"; `m` the model, `p` the splitting rule, `t` a token (its first letter the
 * type, then the text), `s` a score, `g` a merge, `c` bytes of a character map, `i` a role's id, `b` a switch, `n` the
 * model's name; anything else is text to tokenise. What is refused must say why; what is accepted must tokenise without
 * a failure but LIMIT, to ids in range. */
#include "support/synthetic.h"

#include <stdio.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static synthetic v;
static uint8_t map[4096];
static size_t n_map, n_roles, n_switches;
static uint32_t roles[10];
static bool switches[5];
static char model[32], rule[32], name[32];

static const char *const role_keys[10] = {
    "tokenizer.ggml.bos_token_id",     "tokenizer.ggml.eos_token_id",
    "tokenizer.ggml.eot_token_id",     "tokenizer.ggml.eom_token_id",
    "tokenizer.ggml.unknown_token_id", "tokenizer.ggml.seperator_token_id",
    "tokenizer.ggml.padding_token_id", "tokenizer.ggml.mask_token_id",
    "tokenizer.ggml.cls_token_id",     "tokenizer.ggml.separator_token_id"};
static const char *const switch_keys[5] = {"tokenizer.ggml.add_bos_token", "tokenizer.ggml.add_eos_token",
                                           "tokenizer.ggml.add_sep_token", "tokenizer.ggml.add_space_prefix",
                                           "tokenizer.ggml.remove_extra_whitespaces"};

static void broken(const char *what) {
    fprintf(stderr, "%s: %s\n", what, plait_error_message());
    abort();
}

static void copy(char out[32], const char *text, size_t n) {
    if (n > 31) n = 31;
    memcpy(out, text, n);
    out[n] = '\0';
}

static void read_line(const char *line, size_t n) {
    const char *text = line + 2;
    if (n < 2 || line[1] != '=') return;
    n -= 2;
    switch (line[0]) {
    case 'm': copy(model, text, n), v.model = model; break;
    case 'p': copy(rule, text, n), v.pre = rule; break;
    case 'n': copy(name, text, n); break;
    case 't':
        if (v.n_tokens < 1000 && n > 0) {
            v.tokens[v.n_tokens] = (plait_gguf_string){text + 1, n - 1};
            v.types[v.n_tokens++] = text[0] - '0';
            v.n_types = v.n_tokens;
        }
        break;
    case 's':
        if (v.n_scores < 1000 && n > 0) v.scores[v.n_scores++] = (float)(signed char)text[0];
        break;
    case 'g':
        if (v.n_merges < 1000) v.merges[v.n_merges++] = (plait_gguf_string){text, n};
        break;
    case 'c':
        for (size_t i = 0; i < n && n_map < sizeof map; i++) map[n_map++] = (uint8_t)text[i];
        break;
    case 'i':
        if (n > 0 && n_roles < 10) roles[n_roles++] = (uint8_t)text[0];
        break;
    case 'b':
        if (n > 0 && n_switches < 5) switches[n_switches++] = text[0] & 1;
        break;
    default: break;
    }
}

static plait_status more(plait_gguf_writer *w) {
    if (n_map)
        PLAIT_TRY(
            plait_gguf_writer_add_array(w, "tokenizer.ggml.precompiled_charsmap", PLAIT_GGUF_U8, map, n_map));
    for (size_t i = 0; i < n_roles; i++) PLAIT_TRY(plait_gguf_writer_add_u32(w, role_keys[i], roles[i]));
    for (size_t i = 0; i < n_switches; i++)
        PLAIT_TRY(plait_gguf_writer_add_bool(w, switch_keys[i], switches[i]));
    if (name[0]) {
        PLAIT_TRY(plait_gguf_writer_add_string(w, "general.name", name));
        PLAIT_TRY(plait_gguf_writer_add_string(w, "general.architecture", name));
    }
    return PLAIT_OK;
}

static void use(const plait_tokenizer *t, const char *text, size_t n) {
    plait_tokenizer_scratch *s = NULL;
    plait_tokens ids = {0};
    char *back = NULL;
    size_t n_back;
    if (plait_tokenizer_scratch_create(&s, t) != PLAIT_OK) broken("scratch");
    for (uint32_t flags = 0; flags < 8; flags++) {
        plait_status status = plait_tokenize(t, s, text, n, flags, &ids);
        if (status != PLAIT_OK && status != PLAIT_LIMIT && status != PLAIT_UNSUPPORTED) broken("tokenize");
    }
    for (size_t i = 0; i < ids.n; i++)
        if (ids.ids[i] < 0 || ids.ids[i] >= plait_tokenizer_n_vocab(t)) broken("an id out of range");
    if (plait_detokenize(t, ids.ids, ids.n, PLAIT_DETOKENIZE_SPECIAL, &back, &n_back) != PLAIT_OK)
        broken("detokenize");
    free(back);
    plait_tokens_deinit(&ids);
    plait_tokenizer_scratch_destroy(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const char *text = (const char *)data;
    plait_tokenizer *t = NULL;
    v.model = v.pre = NULL;
    v.n_tokens = v.n_types = v.n_scores = v.n_merges = 0;
    n_map = n_roles = n_switches = 0;
    name[0] = '\0';
    for (size_t i = 0; i < size;) {
        size_t end = i;
        while (end < size && text[end] != '\n') end++;
        read_line(text + i, end - i);
        i = end + 1;
    }
    plait_status status = synthetic_create(&t, &v, more);
    if (status != PLAIT_OK) {
        if (!plait_error_message()[0]) broken("no message");
        return 0;
    }
    use(t, text, size);
    plait_tokenizer_destroy(t);
    return 0;
}
