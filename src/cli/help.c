/* Help in the terminal, made from the tables. Not here: the texts (each command's file), manual pages (man.c).
 * Invariant: no line is wider than 100 bytes unless an option's own text is. */
#include "cli/cli.h"

#include <stdio.h>
#include <string.h>

/* Width of paragraphs, and the column that the texts of options begin in. */
enum { WIDTH = 96, COLUMN = 26 };

/* A name that reaches into the column pushes its text to the right. Texts of options are not broken: a line of a table
 * is easier to search with grep than a paragraph. */
static void rows(const char *title, const plait_cli_option *row) {
    if (!row || !row->name) return;
    printf("\n%s\n", title);
    for (; row->name; row++) {
        int n = printf("  %s%s%s", row->name, row->value ? " " : "", row->value ? row->value : "");
        printf("%*s %s\n", n < COLUMN ? COLUMN - n : 0, "", row->help);
    }
}

/* Paragraphs (between empty lines), broken at spaces. Words are counted in bytes; the texts are ASCII, as they also
 * become manual pages. */
static void paragraphs(const char *text) {
    size_t column = 0;
    putchar('\n');
    for (; *text; text += strspn(text, " ")) {
        if (*text == '\n') {
            if (column) fputs("\n\n", stdout);
            column = 0;
            text++;
            continue;
        }
        size_t n = strcspn(text, " \n");
        if (column && column + 1 + n > WIDTH) putchar('\n'), column = 0;
        column += (size_t)printf("%s%.*s", column ? " " : "", (int)n, text);
        text += n;
    }
    putchar('\n');
}

/* printf without checks: whoever calls flushes and sees a failure there. */
void plait_cli_help(const plait_cli_command *command) {
    if (command) {
        printf("plait %s %s\n\n%s\n", command->name, command->arguments, command->summary);
        if (command->details) paragraphs(command->details);
        rows("Options", command->options);
        if (command->computes) rows("Devices and memory", plait_cli_common_options);
        if (command->examples) printf("\nExamples\n%s", command->examples);
        return;
    }
    printf("plait runs GGUF language models on all the devices at hand.\n\nusage: plait COMMAND "
           "[ARGUMENT...]\n\n");
    for (size_t i = 0; plait_cli_commands[i]; i++)
        if (!plait_cli_commands[i]->hidden)
            printf("  %-12s %s\n", plait_cli_commands[i]->name, plait_cli_commands[i]->summary);
    printf("\nplait COMMAND --help tells more. Exit status: 0 done, 1 failed, 2 wrong usage.\n");
}
