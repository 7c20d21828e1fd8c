/* Options: the table of those that every computing command takes, and parsing by table. Invariant: nothing about an
 * option is written anywhere but in its row; help, man pages and completions (help.c, man.c, completion.c) are made of
 * the rows. */
#include "cli/cli.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* In the order of help. */
const plait_cli_option plait_cli_common_options[] = {
    {"-t", "THREADS", PLAIT_CLI_COUNT, PLAIT_CLI_FIELD(threads), 0,
     "threads of cpu devices without threads= (default: all processors)"},
    {"--devices", "LIST", PLAIT_CLI_STRING, PLAIT_CLI_FIELD(devices), 0,
     "devices, kind[:key=value]..., comma-separated (default cpu)"},
    {"--split", "MODE", PLAIT_CLI_STRING, PLAIT_CLI_FIELD(split), 0,
     "none: the first device, others for what it lacks; layer: whole layers (default: by cost)"},
    {"--ratio", "A,B,...", PLAIT_CLI_STRING, PLAIT_CLI_FIELD(ratio), 0,
     "shares of the devices in weights and cache, for whole layers"},
    {"--pin", "PATTERN=DEVICE", PLAIT_CLI_LIST, PLAIT_CLI_FIELD(pins), PLAIT_CLI_FIELD(n_pins),
     "weights, caches, nodes and layers (blk.N) of a name on a device; may be repeated, the first match "
     "wins"},
    {"--ctx", "N", PLAIT_CLI_COUNT, PLAIT_CLI_FIELD(context), 0,
     "context in tokens (default: the file's, reduced to what fits)"},
    {"--batch", "N", PLAIT_CLI_COUNT, PLAIT_CLI_FIELD(batch), 0,
     "most tokens of one step (default 512, reduced to what fits)"},
    {"--kv", "TYPE[,TYPE]", PLAIT_CLI_STRING, PLAIT_CLI_FIELD(kv), 0,
     "types of the cache: keys, values (default f16; run, chat and plan may choose q8_0 to fit)"},
    {"--exact", NULL, PLAIT_CLI_FLAG, PLAIT_CLI_FIELD(exact), 0,
     "same bytes for any batching and number of devices"},
    {"--fit", "on|off", PLAIT_CLI_STRING, PLAIT_CLI_FIELD(fit), 0, "choose what fits (default on)"},
    {"--fit-margin", "SIZE[,SIZE...]", PLAIT_CLI_STRING, PLAIT_CLI_FIELD(fit_margin), 0,
     "memory to leave free on every device, or on each (default: 1/32 of what is free)"},
    {"--trace", "OUT.json", PLAIT_CLI_STRING, PLAIT_CLI_FIELD(trace), 0,
     "write when each group of nodes ran, for chrome://tracing"},
    {"--verify", "on|off", PLAIT_CLI_STRING, PLAIT_CLI_FIELD(verify), 0,
     "prove plans before they run (default on)"},
    {"--monitor", NULL, PLAIT_CLI_FLAG, PLAIT_CLI_FIELD(monitor), 0,
     "check every access of devices while running"},
    PLAIT_CLI_DEVICE_PATH,
    {"--no-mmap", NULL, PLAIT_CLI_FLAG, PLAIT_CLI_FIELD(no_mmap), 0,
     "read the file into memory instead of mapping it"},
    PLAIT_CLI_END,
};

const plait_cli_option plait_cli_help_option = {"--help", NULL,       PLAIT_CLI_FLAG, PLAIT_CLI_FIELD(help),
                                                0,        "this text"};

/* ---- parsing ---- */

/* Names are compared whole: no abbreviations, which would end up in scripts and break with the next option. Lengths
 * come first, because the name in an argument may end at '=' and has no NUL there. */
static const plait_cli_option *find_in(const plait_cli_option *rows, const char *name, size_t length) {
    for (; rows && rows->name; rows++)
        if (strlen(rows->name) == length && strncmp(rows->name, name, length) == 0) return rows;
    return NULL;
}

/* A command's own row comes first and may replace a common one of the same name. -h is --help without a row. */
static const plait_cli_option *find_option(const plait_cli_command *command, const char *name,
                                           size_t length) {
    const plait_cli_option *row = find_in(command->options, name, length);
    /* Common options only where they mean something: others refuse them instead of ignoring them. */
    if (!row && command->computes) row = find_in(plait_cli_common_options, name, length);
    if (!row &&
        ((length == 6 && strncmp(name, "--help", 6) == 0) || (length == 2 && strncmp(name, "-h", 2) == 0)))
        row = &plait_cli_help_option;
    return row;
}

/* Texts are not copied: argv lives as long as the program. The field is an array in the struct and its number a field
 * of its own, which the row knows by their offsets. */
static int append(const plait_cli_command *command, const plait_cli_option *row, const char *text,
                  plait_cli_values *values) {
    const char **items = (const char **)(void *)((char *)values + row->offset);
    int *n = (int *)(void *)((char *)values + row->given_offset);
    if (*n == PLAIT_CLI_MAX_LIST)
        return plait_cli_usage("%s: %s: at most %d times", command->name, row->name, PLAIT_CLI_MAX_LIST);
    items[(*n)++] = text;
    return PLAIT_EXIT_OK;
}

/* `text` is NULL for flags only. An option given twice: the last one counts, for lists both. Fields are reached by
 * offset and kind, so that a new option is a row and a member and no code. Nothing checks that the kind is that of the
 * member: the compiler does not see it through the offset. */
static int store(const plait_cli_command *command, const plait_cli_option *row, const char *text,
                 plait_cli_values *values) {
    char *field = (char *)values + row->offset, *end;
    if (row->kind == PLAIT_CLI_LIST) return append(command, row, text, values);
    /* For values whose zero means something else than "not given". */
    if (row->given_offset) *(bool *)((char *)values + row->given_offset) = true;
    errno = 0;
    switch (row->kind) {
    case PLAIT_CLI_FLAG: *(bool *)field = true; return PLAIT_EXIT_OK;
    case PLAIT_CLI_STRING: *(const char **)(void *)field = text; return PLAIT_EXIT_OK;
    case PLAIT_CLI_LIST: break;
    case PLAIT_CLI_COUNT: {
        long long number = strtoll(text, &end, 10);
        /* strtoll takes a sign and white space in front; what follows the number is refused. */
        if (end == text || *end || errno || number < 0)
            return plait_cli_usage("%s: %s wants a whole number of 0 or more, not \"%s\"", command->name,
                                   row->name, text);
        *(int64_t *)(void *)field = number;
        return PLAIT_EXIT_OK;
    }
    case PLAIT_CLI_NUMBER: {
        /* The point is '.' in any locale. */
        double number = plait_strtod(text, &end);
        /* inf and nan are numbers for strtod, and no setting. */
        if (end == text || *end || !isfinite(number))
            return plait_cli_usage("%s: %s wants a number, not \"%s\"", command->name, row->name, text);
        *(double *)(void *)field = number;
        return PLAIT_EXIT_OK;
    }
    }
    return PLAIT_EXIT_USAGE;
}

/* An argument that is an option: "--name", "--name=value", "-n". A lone "-" and what follows "--" are positional. *at
 * moves on to a value that stands in an argument of its own. Such a value may begin with '-': "-p -1" is a text. "-n8"
 * is not taken apart: it is an unknown option, and never means something else than it seems to. */
static int parse_option(const plait_cli_command *command, int argc, char **argv, int *at,
                        plait_cli_values *values) {
    const char *argument = argv[*at],
               *equals = strncmp(argument, "--", 2) == 0 ? strchr(argument, '=') : NULL;
    size_t length = equals ? (size_t)(equals - argument) : strlen(argument);
    const plait_cli_option *row = find_option(command, argument, length);
    if (!row)
        return plait_cli_usage("%s: there is no option \"%.*s\"; plait %s --help lists them", command->name,
                               (int)length, argument, command->name);
    if (!row->value) {
        /* --flag=value would look like "off" for some value. */
        if (equals) return plait_cli_usage("%s: %s takes no value", command->name, row->name);
        return store(command, row, NULL, values);
    }
    if (equals) return store(command, row, equals + 1, values);
    if (*at + 1 >= argc)
        return plait_cli_usage("%s: %s wants a value: %s", command->name, row->name, row->value);
    return store(command, row, argv[++*at], values);
}

/* Options and positional arguments may be mixed. */
int plait_cli_parse(const plait_cli_command *command, int argc, char **argv, plait_cli_values *values) {
    bool only_positional = false;
    for (int i = 0; i < argc; i++) {
        if (!only_positional && strcmp(argv[i], "--") == 0) {
            only_positional = true;
        } else if (!only_positional && argv[i][0] == '-' && argv[i][1]) {
            int status = parse_option(command, argc, argv, &i, values);
            if (status != PLAIT_EXIT_OK) return status;
        } else if (values->n_positional == command->max_positional) {
            return plait_cli_usage("%s: \"%s\" is too many; usage: plait %s %s", command->name, argv[i],
                                   command->name, command->arguments);
        } else {
            values->positional[values->n_positional++] = argv[i];
        }
    }
    /* Whoever asks for help has nothing to give yet. */
    if (values->n_positional < command->min_positional && !values->help)
        return plait_cli_usage("%s: an argument is missing; usage: plait %s %s", command->name, command->name,
                               command->arguments);
    return PLAIT_EXIT_OK;
}
