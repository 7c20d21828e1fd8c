/* The program: finds the command, parses its options, runs it. Not here: what commands do (a file each), the options
 * (options.c). Invariant: exit status 2 for wrong usage, before anything is opened. */
#include "cli/cli.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

/* The list is included twice, once as declarations and once as the table: a command cannot be declared and left out of
 * it. The declarations stand here so that no command's file needs a header of its own. */
#define PLAIT_CLI_COMMAND(name) extern const plait_cli_command plait_cli_##name;
#include "cli/commands.inc"
#undef PLAIT_CLI_COMMAND

/* The order is that of help. */
const plait_cli_command *const plait_cli_commands[] = {
#define PLAIT_CLI_COMMAND(name) &plait_cli_##name,
#include "cli/commands.inc"
#undef PLAIT_CLI_COMMAND
    NULL,
};

const plait_cli_command *plait_cli_find_command(const char *name) {
    for (size_t i = 0; plait_cli_commands[i]; i++)
        if (strcmp(plait_cli_commands[i]->name, name) == 0) return plait_cli_commands[i];
    return NULL;
}

/* A result that could not be written whole is a failure, also when a buffer is only flushed at the end. Without it a
 * full disk behind a redirected standard output would look like success, as the C library flushes after main and tells
 * nobody. */
static int finish(void) {
    return plait_cli_flush() == PLAIT_OK ? PLAIT_EXIT_OK : plait_cli_fail(PLAIT_IO);
}

/* "plait help COMMAND" and "plait --help". */
static int help_for(int argc, char **argv) {
    const plait_cli_command *command = argc > 2 ? plait_cli_find_command(argv[2]) : NULL;
    if (argc > 2 && !command)
        return plait_cli_usage("there is no command \"%s\"; plait --help lists them", argv[2]);
    plait_cli_help(command);
    return finish();
}

int main(int argc, char **argv) {
    plait_cli_values values = {0};
    /* The default would end the program in the middle, with files half written and no word said. */
    signal(SIGPIPE, SIG_IGN); /* a closed pipe is a failed write, with a message */
    if (argc < 2) return plait_cli_usage("a command is missing; plait --help lists them");
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "help") == 0)
        return help_for(argc, argv);
    if (strcmp(argv[1], "--version") == 0) {
        printf("plait %s\n", PLAIT_VERSION);
        return finish();
    }
    const plait_cli_command *command = plait_cli_find_command(argv[1]);
    if (!command) return plait_cli_usage("there is no command \"%s\"; plait --help lists them", argv[1]);
    int status = plait_cli_parse(command, argc - 2, argv + 2, &values);
    if (status != PLAIT_EXIT_OK) return status;
    /* Parsed with the rest, so --help is found anywhere, and a missing argument is no matter then. */
    if (values.help) {
        plait_cli_help(command);
        return finish();
    }
    status = command->run(&values);
    /* A failure has printed its line already, and a second one would only hide it. */
    return status == PLAIT_EXIT_OK ? finish() : status;
}
