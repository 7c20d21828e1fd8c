/* The program: finds the command, parses its options, runs it. Invariant: exit status 2 for wrong usage, before
 * anything is opened. */
#include "cli/cli.h"

#include <stdio.h>
#include <string.h>

#define PLAIT_CLI_COMMAND(name) extern const plait_cli_command plait_cli_##name;
#include "cli/commands.inc"
#undef PLAIT_CLI_COMMAND

const plait_cli_command *const plait_cli_commands[] = {
#define PLAIT_CLI_COMMAND(name) &plait_cli_##name,
#include "cli/commands.inc"
#undef PLAIT_CLI_COMMAND
    NULL,
};

static const plait_cli_command *find_command(const char *name) {
    for (size_t i = 0; plait_cli_commands[i]; i++)
        if (strcmp(plait_cli_commands[i]->name, name) == 0) return plait_cli_commands[i];
    return NULL;
}

static int help_for(int argc, char **argv) {
    const plait_cli_command *command = argc > 2 ? find_command(argv[2]) : NULL;
    if (argc > 2 && !command)
        return plait_cli_usage("there is no command \"%s\"; plait --help lists them", argv[2]);
    plait_cli_help(command);
    return PLAIT_EXIT_OK;
}

int main(int argc, char **argv) {
    plait_cli_values values = {0};
    if (argc < 2) {
        plait_cli_help(NULL);
        return PLAIT_EXIT_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "help") == 0)
        return help_for(argc, argv);
    if (strcmp(argv[1], "--version") == 0) {
        printf("plait %s\n", PLAIT_VERSION);
        return PLAIT_EXIT_OK;
    }
    const plait_cli_command *command = find_command(argv[1]);
    if (!command) return plait_cli_usage("there is no command \"%s\"; plait --help lists them", argv[1]);
    int status = plait_cli_parse(command, argc - 2, argv + 2, &values);
    if (status != PLAIT_EXIT_OK) return status;
    if (values.help) {
        plait_cli_help(command);
        return PLAIT_EXIT_OK;
    }
    status = command->run(&values);
    if (status == PLAIT_EXIT_OK && plait_cli_flush() != PLAIT_OK) return plait_cli_fail(PLAIT_IO);
    return status;
}
