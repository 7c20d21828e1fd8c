/* plait tokenize: text to ids and back, with the tokenizer of a model file; the file needs no tensors. Not here:
 * tokenizers (text/tokenizer). Invariant: text may hold any bytes, NUL included, and stdin's last line end belongs to
 * it. */
#include "cli/cli.h"

#include "base/status.h"
#include "text/json.h"

#include <stdlib.h>
#include <string.h>

/* `out` collects results and is written once it is large. One scratch serves all lines: tokenizing short texts would
 * otherwise spend its time on allocations. */
typedef struct work {
    const plait_cli_values *values;
    const plait_tokenizer *tokenizer;
    plait_tokenizer_scratch *scratch;
    plait_strbuf out;
} work;

/* Special tokens are recognised by default here, unlike in prompts: this command is a tool for looking at a tokenizer.
 * One line of ids for a text, whatever line ends are in it, so that lines of output belong to lines of input. */
static plait_status encode(work *w, const char *text, size_t n_bytes) {
    /* --no-special is what a prompt gets, but for BOS. */
    uint32_t flags = w->values->no_special ? 0 : PLAIT_TOKENIZE_ADD_SPECIAL | PLAIT_TOKENIZE_PARSE_SPECIAL;
    plait_tokens ids = {0};
    plait_status status = plait_tokenize(w->tokenizer, w->scratch, text, n_bytes, flags, &ids);
    if (status == PLAIT_OK) {
        plait_cli_print_ids(&w->out, ids.ids, ids.n);
        plait_strbuf_append_char(&w->out, '\n');
    }
    plait_tokens_deinit(&ids);
    return status;
}

/* Only the range of the type is checked here; the detokenizer knows the vocabulary. */
static plait_status read_ids(const plait_json *list, plait_token **out, size_t *out_n) {
    if (list->kind != PLAIT_JSON_ARRAY)
        return plait_error(PLAIT_CORRUPT, "expected a JSON array of ids, found %s",
                           plait_json_kind_name(list->kind));
    size_t n = list->u.array.n_items;
    /* n entries of a JSON tree that is in memory: the product cannot overflow. */
    plait_token *ids = malloc((n ? n : 1) * sizeof *ids);
    if (!ids) return plait_error_memory("ids", n * sizeof *ids);
    for (size_t i = 0; i < n; i++) {
        const plait_json *item = &list->u.array.items[i];
        if (item->kind != PLAIT_JSON_INTEGER || item->u.integer < 0 || item->u.integer > INT32_MAX) {
            free(ids);
            return plait_error(PLAIT_CORRUPT, "entry %zu of the array is no token id", i);
        }
        ids[i] = (plait_token)item->u.integer;
    }
    *out = ids;
    *out_n = n;
    return PLAIT_OK;
}

/* Every id is written out, special tokens too; the space that a tokenizer puts in front of a text is dropped. An id
 * beyond the vocabulary is refused by the detokenizer, before anything of the list is written. */
static plait_status decode(work *w, const plait_json *list) {
    plait_token *ids;
    size_t n, n_bytes;
    char *text;
    PLAIT_TRY(read_ids(list, &ids, &n));
    /* WHOLE: ids are a text of their own, and not the continuation of another. */
    plait_status status = plait_detokenize(
        w->tokenizer, ids, n, PLAIT_DETOKENIZE_SPECIAL | PLAIT_DETOKENIZE_WHOLE, &text, &n_bytes);
    free(ids);
    PLAIT_TRY(status);
    /* JSON holds text only, so bytes that are no UTF-8 become U+FFFD in it. */
    if (w->values->jsonl) {
        plait_strbuf_json_string_n(&w->out, text, n_bytes);
        plait_strbuf_append_char(&w->out, '\n');
    } else {
        plait_strbuf_append_n(&w->out, text, n_bytes);
    }
    free(text);
    return PLAIT_OK;
}

/* One JSON value: a string to encode, or an array to decode. */
static plait_status work_on_json(work *w, const char *text, size_t n_bytes) {
    plait_json_document document;
    PLAIT_TRY(plait_json_parse(&document, text, n_bytes, NULL));
    const plait_json *root = document.root;
    plait_status status;
    if (w->values->decode)
        status = decode(w, root);
    else if (root->kind != PLAIT_JSON_STRING)
        status =
            plait_error(PLAIT_CORRUPT, "expected a JSON string, found %s", plait_json_kind_name(root->kind));
    else
        status = encode(w, root->u.string.bytes, root->u.string.n_bytes);
    plait_json_document_deinit(&document);
    return status;
}

/* Written every MiB, so memory does not grow with the output. The number of the line is in a failure's message. An
 * empty line is no JSON value and is refused, so that lines of output can be counted off against lines of input. */
static plait_status work_on_lines(work *w, const char *text, size_t n_bytes) {
    size_t line = 1;
    for (const char *end = text + n_bytes; text < end; line++) {
        const char *stop = memchr(text, '\n', (size_t)(end - text));
        size_t n = stop ? (size_t)(stop - text) : (size_t)(end - text);
        PLAIT_TRY(plait_error_context(work_on_json(w, text, n), "standard input, line %zu", line));
        /* Beyond the end by one behind a last line without a line end; only compared then. */
        text += n + 1;
        if (w->out.length > 1 << 20) {
            PLAIT_TRY(plait_cli_emit(&w->out));
            /* Emitting has released it. */
            plait_strbuf_init(&w->out, 0);
        }
    }
    return PLAIT_OK;
}

/* Input is read whole: a tokenizer cannot cut a text anywhere without changing its tokens. */
static plait_status work_on_input(work *w) {
    char *text;
    size_t n_bytes;
    PLAIT_TRY(plait_cli_read_file("-", &text, &n_bytes));
    plait_status status;
    if (w->values->jsonl)
        status = work_on_lines(w, text, n_bytes);
    else if (w->values->decode)
        status = plait_error_context(work_on_json(w, text, n_bytes), "standard input");
    else
        status = encode(w, text, n_bytes);
    free(text);
    return status;
}

/* The tokenizer keeps what it needs, so the file is closed at once. After a failure results that are not written yet
 * are dropped. */
static plait_status open_and_work(const plait_cli_values *values) {
    plait_gguf *gguf;
    plait_tokenizer *tokenizer = NULL;
    work w = {.values = values};
    plait_strbuf_init(&w.out, 0);
    PLAIT_TRY(plait_gguf_open(&gguf, values->positional[0], &(plait_gguf_options){.metadata_only = true}));
    plait_status status =
        plait_error_context(plait_tokenizer_create(&tokenizer, gguf, NULL), "%s", values->positional[0]);
    plait_gguf_release(gguf);
    PLAIT_TRY(status);
    w.tokenizer = tokenizer;
    status = plait_tokenizer_scratch_create(&w.scratch, tokenizer);
    if (status == PLAIT_OK) {
        status = work_on_input(&w);
        plait_tokenizer_scratch_destroy(w.scratch);
    }
    if (status == PLAIT_OK)
        status = plait_cli_emit(&w.out);
    else
        plait_strbuf_deinit(&w.out);
    plait_tokenizer_destroy(tokenizer);
    return status;
}

/* No options that could be wrong together, so nothing is checked before. */
static int run(const plait_cli_values *values) {
    plait_status status = open_and_work(values);
    return status == PLAIT_OK ? PLAIT_EXIT_OK : plait_cli_fail(status);
}

static const plait_cli_option options[] = {
    {"--no-special", NULL, PLAIT_CLI_FLAG, PLAIT_CLI_FIELD(no_special), 0,
     "neither add BOS and EOS nor recognise special tokens"},
    {"--jsonl", NULL, PLAIT_CLI_FLAG, PLAIT_CLI_FIELD(jsonl), 0,
     "a JSON string a line in, an array a line out"},
    {"--decode", NULL, PLAIT_CLI_FLAG, PLAIT_CLI_FIELD(decode), 0,
     "ids to text: a JSON array in, raw bytes out; with --jsonl an array and a JSON string a line"},
    PLAIT_CLI_JSON("ids as a JSON array (what is printed anyway)"),
    PLAIT_CLI_END,
};

const plait_cli_command plait_cli_tokenize = {
    .name = "tokenize",
    .arguments = "FILE",
    .min_positional = 1,
    .max_positional = 1,
    .summary = "Turn text on standard input into token ids, or ids into text.",
    .details =
        "By default BOS and EOS are added as the model asks, and special tokens are recognised. The text is "
        "all of "
        "standard input, its last line end included; it may hold any bytes. FILE may be a vocabulary without "
        "tensors.\n\n"
        "--decode writes out every id, special tokens too, whatever --no-special says; raw bytes without a "
        "line end, "
        "with --jsonl JSON strings in which U+FFFD stands for bytes that are no UTF-8.",
    .examples = "  printf 'Hello world' | plait tokenize model.gguf\n"
                "  echo '[1,2,3]' | plait tokenize model.gguf --decode\n"
                "  plait tokenize model.gguf --jsonl --no-special < strings.jsonl > ids.jsonl\n",
    .options = options,
    .run = run,
};
