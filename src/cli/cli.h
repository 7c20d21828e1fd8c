/* The command line: a table of commands, a table of options, and what commands share. One file a command; adding one
 * is a line in commands.inc and its file.
 *
 * Exit status: 0 done, 1 failed (one line on stderr that says what, where, expected, actual), 2 wrong usage.
 * stdout carries results only; everything else goes to stderr.
 */
#ifndef PLAIT_CLI_CLI_H
#define PLAIT_CLI_CLI_H

#include "plait/model.h"
#include "plait/session.h"

#include <stdbool.h>
#include <stdint.h>

enum { PLAIT_EXIT_OK = 0, PLAIT_EXIT_FAILED = 1, PLAIT_EXIT_USAGE = 2 };

/* Values of all options that any command has; zeroed before parsing, NULL or 0 where not given. */
typedef struct plait_cli_values {
    /* positional arguments, in order */
    const char *positional[4];
    int n_positional;
    /* devices and planning */
    const char *devices, *split, *ratio, *fit, *verify, *device_path, *trace;
    const char *pins[64];
    int n_pins;
    int64_t threads, context, batch;
    const char *kv;
    bool exact, monitor, no_mmap;
    /* output */
    bool json, help;
    const char *out, *html;
    /* prompts */
    const char *prompt, *file, *ids, *decoder_ids, *conversation, *now;
    bool chat, no_special, jsonl, decode, tensors, bench, metadata;
    /* generation and measurement */
    int64_t n, n_prompt, depth, repeats, step, window;
    bool n_given, n_prompt_given;
    double temp, top_p, min_p;
    int64_t top_k, seed;
    bool temp_given, top_k_given, top_p_given, min_p_given, seed_given;
    bool ignore_eos;
    const char *only, *machine, *compare;
} plait_cli_values;

typedef enum plait_cli_kind {
    PLAIT_CLI_FLAG,   /* bool */
    PLAIT_CLI_STRING, /* const char * */
    PLAIT_CLI_LIST,   /* appends to pins */
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
    const char *examples;            /* lines for --help, may be NULL */
    const plait_cli_option *options; /* its own; ended by a NULL name */
    bool computes;                   /* takes the options that every command which computes takes */
    int (*run)(const plait_cli_values *values);
} plait_cli_command;

/* The table, ended by a NULL name; and the options of computing commands. */
extern const plait_cli_command *const plait_cli_commands[];
extern const plait_cli_option plait_cli_common_options[];

/* Parses argv[0 .. argc) after the command's name. Returns 0, or PLAIT_EXIT_USAGE with a line on stderr. */
int plait_cli_parse(const plait_cli_command *command, int argc, char **argv, plait_cli_values *values);
/* Help of one command, or of the program (NULL), on stdout. */
void plait_cli_help(const plait_cli_command *command);

/* ---- shared by commands (common.c) ---- */

/* Prints "plait: MESSAGE" of the last error on stderr and returns PLAIT_EXIT_FAILED; INVALID_ARGUMENT from option
 * values is reported with plait_cli_usage instead. */
int plait_cli_fail(plait_status status);
/* "plait COMMAND: ..." on stderr; returns PLAIT_EXIT_USAGE. */
int plait_cli_usage(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Log lines and progress on stderr (progress only on a terminal); progress stops the work after Ctrl-C. */
plait_logger plait_cli_logger(void);
/* Makes Ctrl-C set a flag that ends generation cleanly; a second one ends the program. */
void plait_cli_catch_interrupt(void);
bool plait_cli_interrupted(void);

/* Opens the context and the model with the common options. On failure prints and returns an exit status, with
 * nothing left open; PLAIT_EXIT_OK otherwise. `adjust` may change the model's options before they are used. */
int plait_cli_open(const plait_cli_values *values,
                   void (*adjust)(plait_model_options *options, const void *user), const void *user,
                   plait_context **out_context, plait_model **out_model);
void plait_cli_close(plait_context *context, plait_model *model);

/* "1,2,3" to ids; the caller frees *out. */
plait_status plait_cli_parse_ids(const char *text, plait_token **out, int64_t *out_n);
/* A whole file ("-": stdin), NUL-terminated; the caller frees. */
plait_status plait_cli_read_file(const char *path, char **out, size_t *out_n_bytes);
/* The prompt of -p, -f or --ids as token ids, the chat template applied when values->chat; the caller frees. */
plait_status plait_cli_prompt(const plait_cli_values *values, const plait_model *model, plait_tokens *out);
/* Writes all of stdout, IO when that fails (a full disk, a closed pipe). */
plait_status plait_cli_flush(void);

/* ---- a conversation through the model's template (conversation.c) ---- */

/* Renders messages (a JSON array) with the model's own template and a generation prompt, and tokenises it so that
 * special tokens come from the template only. */
plait_status plait_cli_render_chat(const plait_model *model, const char *messages_json, plait_tokens *out);

#endif
