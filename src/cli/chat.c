/* plait chat: a conversation through the model's own template. The cache is kept between turns: of each rendered
 * prompt only what differs from the tokens that the sequence has is fed. Works from a pipe, too: a message a line.
 *
 * Invariant: `messages` holds the conversation so far as a JSON array without its closing bracket; a turn that failed
 * leaves it as it was. */
#include "cli/cli.h"

#include "base/size.h"
#include "base/status.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { INTERRUPTED = -2 }; /* beside EOF and bytes */

/* The buffer of input belongs to the conversation, because a pipe may hand over many messages in one read. */
typedef struct chat {
    plait_cli_generation g;
    plait_strbuf messages;
    bool interactive;
    char input[4096]; /* standard input that was read and not yet used: [at, n) */
    size_t at, n;
} chat;

/* Text goes through the JSON writer, so nothing in it can end the message. A failure stays in the buffer, for
 * plait_strbuf_status. The length tells whether this is the first message: the bracket alone is one byte. */
static void add_message(chat *c, const char *role, const char *text, size_t n) {
    plait_strbuf_printf(&c->messages, "%s{\"role\":\"%s\",\"content\":", c->messages.length > 1 ? "," : "",
                        role);
    plait_strbuf_json_string_n(&c->messages, text, n);
    plait_strbuf_append_char(&c->messages, '}');
}

/* Takes back what was added, after a failure. */
static void cut_messages(chat *c, size_t length) {
    c->messages.length = length;
    if (c->messages.bytes) c->messages.bytes[length] = '\0';
}

/* The conversation anew, with the system's message if there is one. The sequence is left as it is: the next prompt
 * finds what it has in common with it, which is as a rule the system's message. */
static plait_status begin(chat *c) {
    const char *system = c->g.values->system;
    plait_strbuf_clear(&c->messages);
    plait_strbuf_append_char(&c->messages, '[');
    if (system) add_message(c, "system", system, strlen(system));
    return plait_strbuf_status(&c->messages);
}

/* The whole conversation each time: a template may look at any message, and some change old ones. The bracket is put
 * behind for the time of the call only, so that the next message can be added without searching for the end. */
static plait_status render(chat *c, plait_tokens *out) {
    size_t length = c->messages.length;
    plait_strbuf_append_char(&c->messages, ']');
    PLAIT_TRY(plait_strbuf_status(&c->messages));
    plait_status status = plait_cli_render_chat(*c->g.model, plait_strbuf_text(&c->messages), out);
    cut_messages(c, length);
    return status;
}

/* Tokens at the start of the prompt that the sequence has already; the last token is always fed, for its logits. Tokens
 * and not texts are compared: the same text may be cut otherwise once something stands behind it, and then the cache
 * has keys of tokens that are no longer there. */
static size_t common_tokens(const chat *c, const plait_tokens *prompt) {
    const plait_token *have = plait_session_tokens(c->g.session, c->g.seq);
    size_t n = 0, most = (size_t)plait_session_length(c->g.session, c->g.seq);
    if (prompt->n == 0) return 0;
    /* The logits of the last token are not kept from the turn before. */
    if (most > prompt->n - 1) most = prompt->n - 1;
    while (n < most && have[n] == prompt->ids[n]) n++;
    return n;
}

/* Cuts the sequence back to `n` tokens; where a sliding window gave up what that needs, to none. Such a layer has
 * thrown away keys that tokens before the cut still look at, and nothing but feeding them again brings them back. */
static plait_status rewind_to(chat *c, size_t *n) {
    plait_status status = plait_session_truncate(c->g.session, c->g.seq, (int64_t)*n);
    if (status != PLAIT_UNSUPPORTED) return status;
    *n = 0;
    return plait_session_truncate(c->g.session, c->g.seq, 0);
}

/* What does not fit is refused whole. No message is dropped silently: the model would forget without anybody knowing. A
 * prompt of exactly the context's length is let through and leaves no room for an answer, which is then empty. */
static plait_status feed(chat *c, const plait_tokens *prompt) {
    plait_model_facts facts;
    plait_model_describe(*c->g.model, &facts);
    if (prompt->n == 0)
        return plait_error(PLAIT_INVALID_ARGUMENT, "the template made no token of the conversation");
    if ((int64_t)prompt->n > facts.context)
        return plait_error(
            PLAIT_OUT_OF_RANGE,
            "the conversation of %zu tokens is longer than the context of %lld; /clear begins anew",
            prompt->n, (long long)facts.context);
    size_t n = common_tokens(c, prompt);
    PLAIT_TRY(rewind_to(c, &n));
    return plait_cli_generation_feed(&c->g, prompt->ids + n, prompt->n - n);
}

/* The answer enters the conversation as text, so the next prompt may tokenise it otherwise than it was made;
 * common_tokens finds how far both agree. What an answer has made stays in the sequence after a failure or Ctrl-C;
 * nothing has to be undone there, because the next turn compares tokens and cuts. */
static plait_status answer(chat *c) {
    plait_tokens prompt = {0};
    plait_status status = render(c, &prompt);
    if (status == PLAIT_OK) status = feed(c, &prompt);
    if (status == PLAIT_OK) status = plait_cli_generate(&c->g);
    plait_tokens_deinit(&prompt);
    PLAIT_TRY(status);
    PLAIT_TRY(plait_cli_write("\n", 1));
    if (!c->interactive) plait_cli_report_speed(&c->g);
    add_message(c, "assistant", plait_strbuf_text(&c->g.text), c->g.text.length);
    return plait_strbuf_status(&c->messages);
}

/* One turn. In the terminal a failure is shown and the conversation goes on as it was before. */
static plait_status turn(chat *c, const char *text, size_t n) {
    size_t length = c->messages.length;
    add_message(c, "user", text, n);
    PLAIT_TRY(plait_strbuf_status(&c->messages));
    plait_status status = answer(c);
    if (status == PLAIT_OK) return PLAIT_OK;
    cut_messages(c, length);
    /* What will not get better by going on ends the conversation in a terminal too. */
    if (!c->interactive || status == PLAIT_IO || status == PLAIT_OUT_OF_MEMORY || status == PLAIT_DEVICE_LOST)
        return status;
    if (status == PLAIT_CANCELLED)
        fputc('\n', stderr);
    else
        plait_cli_fail(status);
    return PLAIT_OK;
}

/* Everything but answers goes to stderr. */
static void print_help(void) {
    fputs("/clear  begin a new conversation\n/stats  speed of the last answer\n/help   this text\n"
          "/quit   end (also Ctrl-D)\n"
          "A line that ends with \\ goes on in the next. Ctrl-C stops an answer.\n",
          stderr);
}

/* A line that begins with '/'. A message cannot begin with '/' for that reason. */
static plait_status command(chat *c, const char *line, bool *quit) {
    if (strcmp(line, "/quit") == 0 || strcmp(line, "/exit") == 0)
        *quit = true;
    else if (strcmp(line, "/clear") == 0)
        return begin(c);
    else if (strcmp(line, "/stats") == 0)
        plait_cli_report_speed(&c->g);
    else if (strcmp(line, "/help") == 0)
        print_help();
    else
        fprintf(stderr, "plait: there is no command \"%.60s\"; /help lists them\n", line);
    return PLAIT_OK;
}

/* The next byte of standard input; EOF at its end, INTERRUPTED after Ctrl-C. read and not stdio, because stdio's buffer
 * would hide input from the wait. An error of read is the end of input as well: there is nothing more to be had from
 * it. */
static int next_byte(chat *c) {
    if (c->at == c->n) {
        if (!plait_cli_wait_for_input()) return INTERRUPTED;
        ssize_t n = read(STDIN_FILENO, c->input, sizeof c->input);
        c->at = 0;
        c->n = n > 0 ? (size_t)n : 0;
        if (n <= 0) return EOF;
    }
    return (unsigned char)c->input[c->at++];
}

/* Appends the rest of a line without its end, and returns what ended it: '\n', EOF or INTERRUPTED. */
static int read_line(chat *c, plait_strbuf *text) {
    for (;;) {
        int byte = next_byte(c);
        if (byte == '\n' || byte == EOF || byte == INTERRUPTED) return byte;
        plait_strbuf_append_char(text, (char)byte);
    }
}

/* Reads a message: a line, and those that continue it. False at the end of input. Ctrl-C while reading forgets what was
 * typed in a terminal; from a pipe, where nobody types, it is the end, and the interrupt stays set to say so. A NUL is
 * a byte like others here; the check of the whole text decides about it. */
static bool read_message(chat *c, plait_strbuf *text) {
    plait_strbuf_clear(text);
    if (c->interactive) fputs("> ", stderr);
    for (;;) {
        size_t before = text->length;
        int end = read_line(c, text);
        if (end == INTERRUPTED && !c->interactive) return false;
        if (end == INTERRUPTED) {
            plait_cli_clear_interrupt();
            plait_strbuf_clear(text);
            fputs("\n> ", stderr);
            continue;
        }
        /* Input that ends without a line end is a message all the same. */
        if (end == EOF && text->length == before) return text->length > 0;
        /* The backslash becomes the line end between both lines. */
        if (text->length == 0 || text->bytes[text->length - 1] != '\\') return true;
        text->bytes[text->length - 1] = '\n';
        if (c->interactive) fputs(". ", stderr);
    }
}

/* Ctrl-C during an answer keeps what was made of it, in a terminal; from a pipe it ends the conversation, whenever it
 * comes: there it is never cleared. A failure of a turn that returns here ends everything; one that does not was shown
 * by turn(). The interrupt is cleared before each turn as well, because a Ctrl-C that came with the end of the line was
 * meant for the line. */
static plait_status converse(chat *c, plait_strbuf *text) {
    bool quit = false;
    PLAIT_TRY(begin(c));
    if (c->interactive) fputs("/help lists commands, Ctrl-D ends.\n", stderr);
    while (!quit && read_message(c, text)) {
        PLAIT_TRY(plait_strbuf_status(text));
        PLAIT_TRY(plait_cli_check_text("the message", plait_strbuf_text(text), text->length));
        const char *message = plait_strbuf_text(text);
        if (c->interactive) plait_cli_clear_interrupt();
        if (message[0] == '/')
            PLAIT_TRY(command(c, message, &quit));
        else if (text->length > 0)
            PLAIT_TRY(turn(c, message, text->length));
        if (c->interactive)
            plait_cli_clear_interrupt();
        else if (plait_cli_interrupted())
            break;
    }
    if (!c->interactive && plait_cli_interrupted()) return plait_error(PLAIT_CANCELLED, "interrupted");
    if (c->interactive && !quit) fputc('\n', stderr);
    return PLAIT_OK;
}

static int run(const plait_cli_values *values) {
    plait_context *context;
    plait_model *model;
    /* Of standard input only: answers may go into a file while somebody types. */
    chat c = {.interactive = isatty(STDIN_FILENO) != 0};
    plait_strbuf text;
    int exit_status = plait_cli_generation_init(&c.g, values);
    if (exit_status != PLAIT_EXIT_OK) return exit_status;
    plait_cli_catch_interrupt();
    exit_status = plait_cli_open(values, plait_cli_let_kv_fit, NULL, &context, &model);
    if (exit_status != PLAIT_EXIT_OK) {
        plait_cli_generation_close(&c.g, PLAIT_OK);
        return exit_status;
    }
    plait_strbuf_init(&c.messages, 0);
    plait_strbuf_init(&text, 0);
    plait_status status = plait_cli_generation_open(&c.g, &context, &model, true);
    if (status == PLAIT_OK) status = converse(&c, &text);
    status = plait_cli_generation_close(&c.g, status);
    if (status != PLAIT_OK) exit_status = plait_cli_fail(status);
    plait_strbuf_deinit(&c.messages);
    plait_strbuf_deinit(&text);
    plait_cli_close(context, model);
    return exit_status;
}

static const plait_cli_option options[] = {
    {"--system", "TEXT", PLAIT_CLI_STRING, PLAIT_CLI_FIELD(system), 0, "the system's message"},
    PLAIT_CLI_SAMPLING_OPTIONS,
    PLAIT_CLI_END,
};

const plait_cli_command plait_cli_chat = {
    .name = "chat",
    .arguments = "FILE",
    .min_positional = 1,
    .max_positional = 1,
    .summary = "Have a conversation, through the model's own template.",
    .details = "Answers go to standard output, everything else to standard error. Only tokens that are new "
               "since the last "
               "turn are fed. In the terminal: /clear begins anew, /stats tells the speed of the last "
               "answer, /help lists "
               "commands, /quit or Ctrl-D ends; Ctrl-C stops an answer, or forgets the line that is being "
               "typed; a line that "
               "ends with \\ goes on in the next.\n\n"
               "When standard input is no terminal, each line is a message, and the first failure ends the "
               "conversation.",
    .examples = "  plait chat model.gguf\n"
                "  plait chat model.gguf --system \"Answer in one word.\" --temp 0.7\n"
                "  printf '%s\\n' \"Hello!\" \"And now in French.\" | plait chat model.gguf -n 64\n",
    .options = options,
    .computes = true,
    .run = run,
};
