/* The command line: a table of commands, a table of options, and what commands share. One file a command; adding one
 * is a line in commands.inc and its file.
 *
 * Exit status: 0 done, 1 failed (one line on stderr that says what, where, expected, actual), 2 wrong usage.
 * stdout carries results only; everything else goes to stderr.
 */
#ifndef PLAIT_CLI_CLI_H
#define PLAIT_CLI_CLI_H

#include "base/strbuf.h"
#include "plait/model.h"
#include "plait/session.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    PLAIT_EXIT_OK = 0,
    PLAIT_EXIT_FAILED = 1,
    PLAIT_EXIT_USAGE = 2,
    PLAIT_CLI_MAX_LIST = 64,
    PLAIT_CLI_MAX_DEVICES = 64 /* as many as a context takes */
};

/* Values of all options that any command has; zeroed before parsing, NULL or 0 where not given. */
typedef struct plait_cli_values {
    /* positional arguments, in order */
    const char *positional[4];
    int n_positional;
    /* devices and planning */
    const char *devices, *machine, *split, *ratio, *fit, *fit_margin, *verify, *trace;
    const char *pins[PLAIT_CLI_MAX_LIST], *device_paths[PLAIT_CLI_MAX_LIST];
    int n_pins, n_device_paths;
    int64_t threads, context, batch;
    const char *kv;
    bool exact, monitor, no_mmap, measure;
    /* output */
    bool json, help;
    const char *out, *html, *compare;
    /* prompts */
    const char *prompt, *file, *ids, *decoder_ids, *conversation, *now;
    const char *system;
    bool chat, no_special, jsonl, decode, tensors, bench, metadata;
    /* generation and measurement */
    int64_t n, n_prompt, depth, repeats, step, windows;
    bool n_given, n_prompt_given;
    double temp, top_p, min_p;
    int64_t top_k, seed;
    bool temp_given, top_k_given, top_p_given, min_p_given, seed_given;
    bool ignore_eos;
    const char *only, *lost;
    bool deep;
} plait_cli_values;

typedef enum plait_cli_kind {
    PLAIT_CLI_FLAG,   /* bool */
    PLAIT_CLI_STRING, /* const char * */
    PLAIT_CLI_LIST,   /* appends to an array of PLAIT_CLI_MAX_LIST; given_offset: of their number, an int */
    PLAIT_CLI_COUNT,  /* int64, 0 or more */
    PLAIT_CLI_NUMBER  /* double */
} plait_cli_kind;

/* One option of a command. Rows with a short name only have `name` "-p". */
typedef struct plait_cli_option {
    const char *name;  /* "--devices" or "-t" */
    const char *value; /* what its value is called in help; NULL: a flag */
    plait_cli_kind kind;
    size_t offset, given_offset; /* in plait_cli_values; given_offset 0: no such field */
    const char *help;
} plait_cli_option;

#define PLAIT_CLI_FIELD(field) offsetof(plait_cli_values, field)
#define PLAIT_CLI_END                                                                                        \
    { NULL, NULL, PLAIT_CLI_FLAG, 0, 0, NULL }

typedef struct plait_cli_command {
    const char *name;
    const char *arguments; /* "FILE", "[FILE]": shown behind the name */
    int min_positional, max_positional;
    const char *summary;             /* one line */
    const char *details;             /* paragraphs between empty lines, may be NULL */
    const char *examples;            /* lines for --help, may be NULL */
    const plait_cli_option *options; /* its own; ended by a NULL name */
    bool computes;                   /* takes the options that every command which computes takes */
    bool hidden;                     /* left out of help, man pages and completions */
    int (*run)(const plait_cli_values *values);
} plait_cli_command;

/* The table, ended by NULL; and the options of computing commands. */
extern const plait_cli_command *const plait_cli_commands[];
extern const plait_cli_option plait_cli_common_options[];
extern const plait_cli_option plait_cli_help_option;
/* A command by name, NULL when there is none. */
const plait_cli_command *plait_cli_find_command(const char *name);

/* Options that several commands have: rows of their tables. */
#define PLAIT_CLI_DEVICE_PATH                                                                                \
    {                                                                                                        \
        "--device-path", "LIB", PLAIT_CLI_LIST, PLAIT_CLI_FIELD(device_paths),                               \
            PLAIT_CLI_FIELD(n_device_paths), "load device kinds from a shared library; may be repeated"      \
    }
#define PLAIT_CLI_JSON(help)                                                                                 \
    { "--json", NULL, PLAIT_CLI_FLAG, PLAIT_CLI_FIELD(json), 0, help }
#define PLAIT_CLI_PROMPT_OPTIONS                                                                             \
    {"-p", "TEXT", PLAIT_CLI_STRING, PLAIT_CLI_FIELD(prompt), 0, "the text"},                                \
        {"-f", "FILE", PLAIT_CLI_STRING, PLAIT_CLI_FIELD(file), 0, "read the text from a file (-: stdin)"},  \
    {                                                                                                        \
        "--ids", "1,2,3", PLAIT_CLI_STRING, PLAIT_CLI_FIELD(ids), 0, "token ids instead of a text"           \
    }
#define PLAIT_CLI_SAMPLING_OPTIONS                                                                           \
    {"-n",                                                                                                   \
     "N",                                                                                                    \
     PLAIT_CLI_COUNT,                                                                                        \
     PLAIT_CLI_FIELD(n),                                                                                     \
     PLAIT_CLI_FIELD(n_given),                                                                               \
     "most tokens to generate (default: what the context leaves)"},                                          \
        {"--temp",                                                                                           \
         "T",                                                                                                \
         PLAIT_CLI_NUMBER,                                                                                   \
         PLAIT_CLI_FIELD(temp),                                                                              \
         PLAIT_CLI_FIELD(temp_given),                                                                        \
         "temperature; 0: greedy (default)"},                                                                \
        {"--top-k",                                                                                          \
         "K",                                                                                                \
         PLAIT_CLI_COUNT,                                                                                    \
         PLAIT_CLI_FIELD(top_k),                                                                             \
         PLAIT_CLI_FIELD(top_k_given),                                                                       \
         "only the K best tokens (default 40; 0: off)"},                                                     \
        {"--top-p",                                                                                          \
         "P",                                                                                                \
         PLAIT_CLI_NUMBER,                                                                                   \
         PLAIT_CLI_FIELD(top_p),                                                                             \
         PLAIT_CLI_FIELD(top_p_given),                                                                       \
         "the best tokens that have probability P together (default 0.95)"},                                 \
        {"--min-p",                                                                                          \
         "P",                                                                                                \
         PLAIT_CLI_NUMBER,                                                                                   \
         PLAIT_CLI_FIELD(min_p),                                                                             \
         PLAIT_CLI_FIELD(min_p_given),                                                                       \
         "only tokens at least P times as probable as the best (default 0.05)"},                             \
        {"--seed",                                                                                           \
         "S",                                                                                                \
         PLAIT_CLI_COUNT,                                                                                    \
         PLAIT_CLI_FIELD(seed),                                                                              \
         PLAIT_CLI_FIELD(seed_given),                                                                        \
         "seed of the random numbers (default: the clock)"},                                                 \
    {                                                                                                        \
        "--ignore-eos", NULL, PLAIT_CLI_FLAG, PLAIT_CLI_FIELD(ignore_eos), 0,                                \
            "go on behind the end of generation"                                                             \
    }

/* Parses argv[0 .. argc) after the command's name. Returns 0, or PLAIT_EXIT_USAGE with a line on stderr. */
int plait_cli_parse(const plait_cli_command *command, int argc, char **argv, plait_cli_values *values);
/* Help of one command, or of the program (NULL), on stdout. */
void plait_cli_help(const plait_cli_command *command);

/* ---- errors and output (common.c) ---- */

/* Prints "plait: MESSAGE" of the last error on stderr and returns PLAIT_EXIT_FAILED. */
int plait_cli_fail(plait_status status);
/* "plait: ..." on stderr; returns PLAIT_EXIT_USAGE. */
int plait_cli_usage(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The same with the message of the last error. */
int plait_cli_usage_error(void);

/* Writes to stdout and flushes: IO when that fails (a full disk, a closed pipe). */
plait_status plait_cli_write(const void *bytes, size_t n_bytes);
plait_status plait_cli_flush(void);
/* Writes what was printed into the buffer, or returns the buffer's own failure; releases the buffer. */
plait_status plait_cli_emit(plait_strbuf *text);
/* [1,2,3] */
void plait_cli_print_ids(plait_strbuf *out, const plait_token *ids, size_t n);

/* Log lines and progress on stderr (progress only on a terminal); progress stops the work after Ctrl-C. */
plait_logger plait_cli_logger(void);
/* Makes Ctrl-C set a flag that ends the work cleanly; a second one before _clear ends the program. */
void plait_cli_catch_interrupt(void);
/* Waits until standard input can be read; false when Ctrl-C came, before or meanwhile. */
bool plait_cli_wait_for_input(void);
bool plait_cli_interrupted(void);
void plait_cli_clear_interrupt(void);

/* ---- opening (open.c) ---- */

/* Loads the libraries of --device-path. */
plait_status plait_cli_load_devices(const plait_cli_values *values);
/* Opens a context with the options --devices, -t, --device-path. Returns an exit status, printed already. */
int plait_cli_open_context(const plait_cli_values *values, plait_context **out);
/* Opens the context and the model with the common options. On failure prints and returns an exit status, with
 * nothing left open; PLAIT_EXIT_OK otherwise. `adjust` may change the model's options before they are used. */
int plait_cli_open(const plait_cli_values *values,
                   void (*adjust)(plait_model_options *options, const void *user), const void *user,
                   plait_context **out_context, plait_model **out_model);
/* An `adjust` that lets fit choose the types of the cache too, where --kv does not say them. */
void plait_cli_let_kv_fit(plait_model_options *options, const void *unused);
void plait_cli_close(plait_context *context, plait_model *model);
/* After a device was lost: closes model and context, whose sessions are gone already, and opens both again on the devices
 * that are left, with the options that plait_cli_open had. After a failure *model is NULL, and *context is to be
 * closed all the same. */
plait_status plait_cli_reopen(const plait_cli_values *values,
                              void (*adjust)(plait_model_options *options, const void *user),
                              const void *user, plait_context **context, plait_model **model);
/* A session of the model; with --trace it records. */
plait_status plait_cli_session_open(const plait_cli_values *values, plait_model *model, plait_session **out);
/* Writes the trace when `status` is OK, destroys the session, and returns the first failure. Accepts NULL. */
plait_status plait_cli_session_close(const plait_cli_values *values, plait_session *session,
                                     plait_status status);

/* ---- prompts (prompt.c) ---- */

/* "1,2,3" to ids; the caller frees *out. */
plait_status plait_cli_parse_ids(const char *text, plait_token **out, int64_t *out_n);
/* A whole file ("-": stdin), NUL-terminated; the caller frees. */
plait_status plait_cli_read_file(const char *path, char **out, size_t *out_n_bytes);
/* INVALID_ARGUMENT when a text that somebody is to answer holds NUL: a sign of a wrong file. */
plait_status plait_cli_check_text(const char *what, const char *text, size_t n_bytes);
/* Text to ids, BOS and EOS as the model asks, special tokens not recognised. */
plait_status plait_cli_text_ids(const plait_tokenizer *tokenizer, const char *text, size_t n_bytes,
                                uint32_t flags, plait_tokens *out);
/* 0 when just one of -p, -f and --ids was given, or none and `may_lack`; else prints and returns wrong usage. A list of
 * ids that is none is wrong usage as well. */
int plait_cli_check_prompt(const plait_cli_values *values, bool may_lack);
/* The prompt of -p, -f (neither: stdin) or --ids as token ids, through the chat template when values->chat. */
plait_status plait_cli_prompt(const plait_cli_values *values, const plait_model *model, plait_tokens *out);

/* Renders messages (a JSON array) with the model's own template and a generation prompt, and tokenises it so that
 * special tokens come from the template only (conversation.c). */
plait_status plait_cli_render_chat(const plait_model *model, const char *messages_json, plait_tokens *out);

/* ---- generating text (generation.c) ---- */

typedef struct plait_cli_generation {
    const plait_cli_values *values;
    plait_context **context; /* The caller's: replaced, as is the model, after a device was lost. */
    plait_model **model;
    const plait_tokenizer *tokenizer; /* NULL: ids only */
    plait_session *session;
    plait_seq seq;
    plait_sampler *sampler;
    plait_detokenizer stream;
    char *piece;
    size_t piece_bytes;
    bool silent;       /* nothing goes to stdout */
    plait_tokens made; /* of the last plait_cli_generate */
    plait_strbuf text;
    bool ended; /* the last generation met an end token */
    size_t n_fed;
    uint64_t prompt_ns, generation_ns;
} plait_cli_generation;

/* Makes the sampler of the options, before anything is opened. Returns an exit status. */
int plait_cli_generation_init(plait_cli_generation *g, const plait_cli_values *values);
/* Session, sequence, text stream; tokenizer needed when `text`. */
plait_status plait_cli_generation_open(plait_cli_generation *g, plait_context **context, plait_model **model,
                                       bool text);
/* Releases everything; writes the trace when all went well. Returns the first failure. */
plait_status plait_cli_generation_close(plait_cli_generation *g, plait_status status);
/* Feeds tokens behind what the sequence has. When a device is lost, here or while generating, a warning says so, and it
 * goes on with the devices that are left. */
plait_status plait_cli_generation_feed(plait_cli_generation *g, const plait_token *ids, size_t n);
/* Generates as many tokens as -n and the context allow, streaming text to stdout; ends early at an end token and after
 * Ctrl-C. */
plait_status plait_cli_generate(plait_cli_generation *g);
/* One line of figures on stderr. */
void plait_cli_report_speed(const plait_cli_generation *g);

#endif
