/* Prompts: text from the command line, a file or stdin, or ids; to token ids. Not here: conversations (conversation.c),
 * the tokenizer (text/tokenizer). Invariant: a text's length is known everywhere, so that a NUL in it is seen and
 * refused, and does not silently end the prompt. */
#include "cli/cli.h"

#include "base/alloc.h"
#include "base/os.h"
#include "base/status.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* strtol skips white space and takes a sign, which is harmless here. Whether an id is in the vocabulary is for the
 * session to say. An empty list is refused with the first item: without a digit strtol does not move. */
plait_status plait_cli_parse_ids(const char *text, plait_token **out, int64_t *out_n) {
    size_t capacity = 0, n = 0;
    plait_token *ids = NULL;
    for (const char *p = text;;) {
        char *end;
        errno = 0;
        long id = strtol(p, &end, 10);
        /* 2^24 ids are 64 MiB, more than any context. */
        plait_status status = plait_grow(&ids, &capacity, n + 1, sizeof *ids, 1 << 24, "--ids");
        if (status == PLAIT_OK && (end == p || errno || id < 0 || id > INT32_MAX || (*end && *end != ',')))
            status = plait_error(PLAIT_INVALID_ARGUMENT, "--ids: \"%.40s\" is no token id", p);
        if (status != PLAIT_OK) {
            free(ids);
            return status;
        }
        ids[n++] = (plait_token)id;
        if (!*end) break;
        p = end + 1;
    }
    *out = ids;
    *out_n = (int64_t)n;
    return PLAIT_OK;
}

/* Read, not mapped, then copied: the text has to end with NUL for the parsers behind it. The price is twice the memory
 * for a moment, of a text that is small beside a model. */
plait_status plait_cli_read_file(const char *path, char **out, size_t *out_n_bytes) {
    plait_file file;
    /* Not mapped: a pipe cannot be, and a file may change while it is read. */
    PLAIT_TRY(plait_file_open(&file, strcmp(path, "-") == 0 ? "/dev/stdin" : path, false));
    char *copy = plait_string_copy_n(file.bytes ? (const char *)file.bytes : "", file.size_bytes);
    size_t n_bytes = file.size_bytes;
    plait_file_close(&file);
    if (!copy) return plait_error_memory(path, n_bytes);
    *out = copy;
    *out_n_bytes = n_bytes;
    return PLAIT_OK;
}

/* A scratch for each call: commands tokenise once or a few times, and a scratch that is kept would have to be released
 * everywhere. */
plait_status plait_cli_text_ids(const plait_tokenizer *tokenizer, const char *text, size_t n_bytes,
                                uint32_t flags, plait_tokens *out) {
    plait_tokenizer_scratch *scratch;
    PLAIT_TRY(plait_tokenizer_scratch_create(&scratch, tokenizer));
    plait_status status = plait_tokenize(tokenizer, scratch, text, n_bytes, flags, out);
    plait_tokenizer_scratch_destroy(scratch);
    return status;
}

/* One message of a user, written as JSON so that any text is safe in it. */
static plait_status chat_prompt(const plait_model *model, const char *text, size_t n_bytes,
                                plait_tokens *out) {
    plait_strbuf messages;
    plait_strbuf_init(&messages, 0);
    plait_strbuf_append(&messages, "[{\"role\":\"user\",\"content\":");
    /* Bytes that are no UTF-8 become U+FFFD here. */
    plait_strbuf_json_string_n(&messages, text, n_bytes);
    plait_strbuf_append(&messages, "}]");
    plait_status status = plait_strbuf_status(&messages);
    if (status == PLAIT_OK) status = plait_cli_render_chat(model, plait_strbuf_text(&messages), out);
    plait_strbuf_deinit(&messages);
    return status;
}

/* Text with NUL is valid for the tokenizer, but a prompt with it is a sign of a wrong file, as one in UTF-16. Checked
 * after reading and before anything is tokenised, so that no part of such a file reaches the model. */
plait_status plait_cli_check_text(const char *what, const char *text, size_t n_bytes) {
    const char *nul = n_bytes ? memchr(text, 0, n_bytes) : NULL;
    if (!nul) return PLAIT_OK;
    return plait_error(PLAIT_INVALID_ARGUMENT, "%s: byte %zu of %zu is NUL, expected text", what,
                       (size_t)(nul - text), n_bytes);
}

/* Ids are parsed here and thrown away, because they are usage: they have to be right before a model is opened. */
int plait_cli_check_prompt(const plait_cli_values *values, bool may_lack) {
    int n_given = (values->prompt != NULL) + (values->file != NULL) + (values->ids != NULL);
    plait_token *ids;
    int64_t n;
    /* Reading a terminal without being asked would look like a program that hangs. */
    if (n_given > 1 || (n_given == 0 && !may_lack))
        return plait_cli_usage("one of -p TEXT, -f FILE and --ids 1,2,3 is needed, %d were given", n_given);
    if (!values->ids) return PLAIT_EXIT_OK;
    if (values->chat) return plait_cli_usage("--chat wants a text, not --ids");
    plait_status status = plait_cli_parse_ids(values->ids, &ids, &n);
    if (status == PLAIT_INVALID_ARGUMENT) return plait_cli_usage_error();
    if (status != PLAIT_OK) return plait_cli_fail(status);
    free(ids);
    return PLAIT_EXIT_OK;
}

/* Text is untrusted: what looks like a special token in it is text. */
plait_status plait_cli_prompt(const plait_cli_values *values, const plait_model *model, plait_tokens *out) {
    const plait_tokenizer *tokenizer;
    char *read = NULL;
    const char *text = values->prompt;
    size_t n_bytes = text ? strlen(text) : 0;
    if (values->ids) {
        int64_t n;
        PLAIT_TRY(plait_cli_parse_ids(values->ids, &out->ids, &n));
        /* The array becomes the caller's, as that of a tokenizer would. */
        out->n = out->capacity = (size_t)n;
        return PLAIT_OK;
    }
    PLAIT_TRY(plait_model_need_tokenizer(model, &tokenizer));
    if (!text) {
        PLAIT_TRY(plait_cli_read_file(values->file ? values->file : "-", &read, &n_bytes));
        text = read;
    }
    plait_status status = plait_cli_check_text("the prompt", text, n_bytes);
    if (status == PLAIT_OK)
        status = values->chat
                     ? chat_prompt(model, text, n_bytes, out)
                     : plait_cli_text_ids(tokenizer, text, n_bytes,
                                          PLAIT_TOKENIZE_ADD_SPECIAL | PLAIT_TOKENIZE_UNTRUSTED, out);
    free(read);
    return status;
}
