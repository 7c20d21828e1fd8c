/* What commands share: errors, logging, Ctrl-C, opening a model by the common options, reading prompts. */
#include "cli/cli.h"

#include "base/alloc.h"
#include "base/os.h"
#include "base/status.h"
#include "base/strbuf.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- errors ---- */

int plait_cli_fail(plait_status status) {
    char message[PLAIT_ERROR_BYTES];
    plait_error_copy(message, sizeof message);
    for (char *p = message; *p; p++)
        if (*p == '\n' || *p == '\r') *p = ' '; /* one line, whatever was quoted in it */
    fprintf(stderr, "plait: %s\n", message[0] ? message : plait_status_name(status));
    return PLAIT_EXIT_FAILED;
}

int plait_cli_usage(const char *format, ...) {
    va_list args;
    va_start(args, format);
    fputs("plait: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    return PLAIT_EXIT_USAGE;
}

plait_status plait_cli_flush(void) {
    if (fflush(stdout) == 0 && !ferror(stdout)) return PLAIT_OK;
    return plait_error(PLAIT_IO, "standard output: cannot write: %s", strerror(errno));
}

/* ---- Ctrl-C ---- */

static volatile sig_atomic_t interrupts;

static void on_interrupt(int signal_number) {
    (void)signal_number;
    if (interrupts++) _exit(130);
}

void plait_cli_catch_interrupt(void) {
    struct sigaction action = {.sa_handler = on_interrupt};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
}

bool plait_cli_interrupted(void) {
    return interrupts > 0;
}

/* ---- logging ---- */

static void log_line(void *user, plait_log_level level, const char *line) {
    (void)user;
    if (level >= PLAIT_LOG_INFO)
        fprintf(stderr, "plait: %s%s\n", level >= PLAIT_LOG_WARNING ? "warning: " : "", line);
}

/* A line that is written over while the work goes on, on terminals only and at most ten times a second. */
static bool show_progress(void *user, const char *what, uint64_t done, uint64_t total) {
    static uint64_t last_ns; /* one progress at a time is shown */
    (void)user;
    if (isatty(STDERR_FILENO) && total) {
        uint64_t now = plait_time_ns();
        if (done >= total)
            fprintf(stderr, "\r\033[K");
        else if (now - last_ns > 100000000u)
            fprintf(stderr, "\r%s %3.0f%%\033[K", what, 100.0 * (double)done / (double)total), last_ns = now;
    }
    return !plait_cli_interrupted();
}

plait_logger plait_cli_logger(void) {
    return (plait_logger){.line = log_line, .progress = show_progress};
}

/* ---- opening ---- */

static plait_status parse_kv(const char *text, plait_model_options *options) {
    char first[32];
    const char *comma = strchr(text, ',');
    size_t n = comma ? (size_t)(comma - text) : strlen(text);
    if (n >= sizeof first) return plait_error(PLAIT_INVALID_ARGUMENT, "--kv: \"%.60s\" names no type", text);
    memcpy(first, text, n);
    first[n] = '\0';
    PLAIT_TRY(plait_error_context(plait_dtype_parse(first, &options->k_type), "--kv"));
    options->v_type = options->k_type;
    if (comma) PLAIT_TRY(plait_error_context(plait_dtype_parse(comma + 1, &options->v_type), "--kv"));
    options->kv_given = true;
    return PLAIT_OK;
}

/* "on" or "off"; *out_off is left alone when the option is not given. */
static int parse_switch(const char *name, const char *text, bool *out_off) {
    if (!text) return PLAIT_EXIT_OK;
    if (strcmp(text, "on") != 0 && strcmp(text, "off") != 0)
        return plait_cli_usage("%s wants on or off, not \"%s\"", name, text);
    *out_off = strcmp(text, "off") == 0;
    return PLAIT_EXIT_OK;
}

/* Pins "PATTERN=DEVICE"; the patterns live in `copies`, one string for each. */
static int parse_pins(const plait_cli_values *values, plait_context *context, plait_pin *pins,
                      char **copies) {
    for (int i = 0; i < values->n_pins; i++) {
        const char *equals = strrchr(values->pins[i], '=');
        int device = -1;
        for (int d = 0; equals && d < plait_context_device_count(context); d++)
            if (strcmp(plait_context_device(context, d)->name, equals + 1) == 0) device = d;
        if (!equals || device < 0)
            return plait_cli_usage("--pin \"%s\": expected PATTERN=DEVICE with a device of --devices",
                                   values->pins[i]);
        copies[i] = plait_string_copy_n(values->pins[i], (size_t)(equals - values->pins[i]));
        if (!copies[i]) return plait_cli_fail(plait_error_memory("--pin", 0));
        pins[i] = (plait_pin){copies[i], device};
    }
    return PLAIT_EXIT_OK;
}

static int open_context(const plait_cli_values *values, plait_context **out) {
    plait_context_options options = {.logger = plait_cli_logger(), .threads = (int)values->threads};
    if (values->threads > 4096)
        return plait_cli_usage("-t: %lld threads, at most 4096", (long long)values->threads);
    plait_status status = plait_context_open(out, values->devices, &options);
    if (status == PLAIT_INVALID_ARGUMENT) return plait_cli_usage("%s", plait_error_message());
    return status == PLAIT_OK ? PLAIT_EXIT_OK : plait_cli_fail(status);
}

int plait_cli_open(const plait_cli_values *values,
                   void (*adjust)(plait_model_options *options, const void *user), const void *user,
                   plait_context **out_context, plait_model **out_model) {
    plait_model_options options = {.context = values->context,
                                   .batch = values->batch,
                                   .exact = values->exact,
                                   .no_mmap = values->no_mmap};
    plait_pin pins[64];
    char *copies[64] = {0};
    plait_context *context = NULL;
    int exit_status = parse_switch("--fit", values->fit, &options.fit_off);
    if (exit_status == PLAIT_EXIT_OK)
        exit_status = parse_switch("--verify", values->verify, &options.skip_verify);
    if (exit_status == PLAIT_EXIT_OK && values->kv && parse_kv(values->kv, &options) != PLAIT_OK)
        exit_status = plait_cli_usage("%s", plait_error_message());
    if (exit_status == PLAIT_EXIT_OK) exit_status = open_context(values, &context);
    if (exit_status == PLAIT_EXIT_OK) exit_status = parse_pins(values, context, pins, copies);
    if (exit_status == PLAIT_EXIT_OK) {
        options.pins = pins;
        options.n_pins = values->n_pins;
        if (adjust) adjust(&options, user);
        plait_status status = plait_model_open(out_model, context, values->positional[0], &options);
        if (status != PLAIT_OK) exit_status = plait_cli_fail(status);
    }
    for (int i = 0; i < 64; i++) free(copies[i]);
    if (exit_status != PLAIT_EXIT_OK)
        plait_context_close(context);
    else
        *out_context = context;
    return exit_status;
}

void plait_cli_close(plait_context *context, plait_model *model) {
    plait_model_release(model);
    plait_context_close(context);
}

/* ---- input ---- */

plait_status plait_cli_parse_ids(const char *text, plait_token **out, int64_t *out_n) {
    size_t capacity = 0, n = 0;
    plait_token *ids = NULL;
    for (const char *p = text; *p;) {
        char *end;
        errno = 0;
        long id = strtol(p, &end, 10);
        plait_status status = plait_grow(&ids, &capacity, n + 1, sizeof *ids, 1 << 24, "--ids");
        if (status == PLAIT_OK && (end == p || errno || id < 0 || id > INT32_MAX || (*end && *end != ',')))
            status = plait_error(PLAIT_INVALID_ARGUMENT, "--ids: \"%.40s\" is no token id", p);
        if (status != PLAIT_OK) {
            free(ids);
            return status;
        }
        ids[n++] = (plait_token)id;
        p = *end ? end + 1 : end;
    }
    *out = ids;
    *out_n = (int64_t)n;
    return PLAIT_OK;
}

plait_status plait_cli_read_file(const char *path, char **out, size_t *out_n_bytes) {
    plait_file file;
    PLAIT_TRY(plait_file_open(&file, strcmp(path, "-") == 0 ? "/dev/stdin" : path, false));
    char *copy = plait_string_copy_n((const char *)file.bytes, file.size_bytes);
    *out_n_bytes = file.size_bytes;
    plait_file_close(&file);
    if (!copy) return plait_error_memory(path, *out_n_bytes);
    *out = copy;
    return PLAIT_OK;
}

static plait_status chat_prompt(const plait_model *model, const char *text, size_t n_bytes,
                                plait_tokens *out) {
    plait_strbuf messages;
    plait_strbuf_init(&messages, 0);
    plait_strbuf_append(&messages, "[{\"role\":\"user\",\"content\":");
    plait_strbuf_json_string_n(&messages, text, n_bytes);
    plait_strbuf_append(&messages, "}]");
    plait_status status = plait_strbuf_status(&messages);
    if (status == PLAIT_OK) status = plait_cli_render_chat(model, plait_strbuf_text(&messages), out);
    plait_strbuf_deinit(&messages);
    return status;
}

static plait_status tokenise(const plait_model *model, const char *text, size_t n_bytes, plait_tokens *out) {
    const plait_tokenizer *tokenizer;
    plait_tokenizer_scratch *scratch;
    PLAIT_TRY(plait_model_need_tokenizer(model, &tokenizer));
    PLAIT_TRY(plait_tokenizer_scratch_create(&scratch, tokenizer));
    plait_status status = plait_tokenize(tokenizer, scratch, text, n_bytes, PLAIT_TOKENIZE_ADD_SPECIAL, out);
    plait_tokenizer_scratch_destroy(scratch);
    return status;
}

plait_status plait_cli_prompt(const plait_cli_values *values, const plait_model *model, plait_tokens *out) {
    char *read = NULL;
    const char *text = values->prompt;
    size_t n_bytes = text ? strlen(text) : 0;
    if (values->ids) {
        int64_t n;
        PLAIT_TRY(plait_cli_parse_ids(values->ids, &out->ids, &n));
        out->n = out->capacity = (size_t)n;
        return PLAIT_OK;
    }
    if (values->file) {
        PLAIT_TRY(plait_cli_read_file(values->file, &read, &n_bytes));
        text = read;
    }
    if (!text)
        return plait_error(PLAIT_INVALID_ARGUMENT, "a prompt is missing: -p TEXT, -f FILE or --ids 1,2,3");
    plait_status status =
        values->chat ? chat_prompt(model, text, n_bytes, out) : tokenise(model, text, n_bytes, out);
    free(read);
    return status;
}
