/* plait man: manual pages in roff, made from the tables of commands and options. Not here: help in the terminal
 * (help.c). Hidden: what it prints is in docs/man, and a test holds that it is current. Macros: groff_man(7).
 *
 * No date is in the pages, because a generated file has to be the same on any day. */
#include "cli/cli.h"

#include "base/status.h"

#include <string.h>

/* Text in which nothing is a request or an escape; `at_start` tells that a line begins here. Every text of the tables
 * goes through here, so that nobody who writes a help text has to think of roff. */
static void roff(plait_strbuf *out, const char *text, bool at_start) {
    for (; *text; text++) {
        /* A line that begins with one of both is a request; \& is nothing, and in front of them. */
        if (at_start && (*text == '.' || *text == '\'')) plait_strbuf_append(out, "\\&");
        at_start = *text == '\n';
        /* \e prints a backslash, and \- the sign that can be copied into a shell, which a plain '-' may not be. */
        if (*text == '\\')
            plait_strbuf_append(out, "\\e");
        else if (*text == '-')
            plait_strbuf_append(out, "\\-");
        else
            plait_strbuf_append_char(out, *text);
    }
}

/* A paragraph has at most 4095 bytes, which is far above those of the table. */
static void paragraphs(plait_strbuf *out, const char *text) {
    while (*text) {
        const char *end = strstr(text, "\n\n");
        size_t n = end ? (size_t)(end - text) : strlen(text);
        char copy[4096];
        if (n >= sizeof copy) n = sizeof copy - 1;
        memcpy(copy, text, n);
        copy[n] = '\0';
        plait_strbuf_append(out, ".PP\n");
        roff(out, copy, true);
        plait_strbuf_append_char(out, '\n');
        text += end ? n + 2 : n;
    }
}

/* A tagged paragraph for each option: name in bold, value in italics. */
static void rows(plait_strbuf *out, const char *title, const plait_cli_option *row) {
    if (!row || !row->name) return;
    plait_strbuf_printf(out, ".SH %s\n", title);
    for (; row->name; row++) {
        plait_strbuf_append(out, ".TP\n\\fB");
        roff(out, row->name, false);
        plait_strbuf_append(out, "\\fR");
        if (row->value) {
            plait_strbuf_append(out, " \\fI");
            roff(out, row->value, false);
            plait_strbuf_append(out, "\\fR");
        }
        plait_strbuf_append_char(out, '\n');
        roff(out, row->help, true);
        plait_strbuf_append_char(out, '\n');
    }
}

/* An empty suffix is the page of the program. The first line of NAME is read by programs like apropos, which expect the
 * name, " \- " and one line of text. */
static void heading(plait_strbuf *out, const char *suffix, const char *summary) {
    /* Section 1; the date stays empty. */
    plait_strbuf_printf(out, ".TH \"PLAIT%s%s\" 1 \"\" \"plait %s\"\n.SH NAME\n", suffix[0] ? "-" : "",
                        suffix, PLAIT_VERSION);
    plait_strbuf_append(out, "plait");
    if (suffix[0]) plait_strbuf_printf(out, "\\-%s", suffix);
    plait_strbuf_append(out, " \\- ");
    roff(out, summary, false);
    plait_strbuf_append(out, "\n.SH SYNOPSIS\n");
}

/* .nf keeps the lines as they are. The text ends with a line end, so .fi begins a line. */
static void examples(plait_strbuf *out, const char *text) {
    if (!text) return;
    plait_strbuf_append(out, ".SH EXAMPLES\n.nf\n");
    roff(out, text, true);
    plait_strbuf_append(out, ".fi\n");
}

/* The same for all commands: cli.h. */
static void exit_status(plait_strbuf *out) {
    plait_strbuf_append(out,
                        ".SH EXIT STATUS\n0: done; 1: failed, one line on standard error says what, where, "
                        "expected, actual; 2: wrong usage.\n");
}

static void command_page(plait_strbuf *out, const plait_cli_command *command) {
    heading(out, command->name, command->summary);
    plait_strbuf_printf(out, "\\fBplait %s\\fR ", command->name);
    roff(out, command->arguments, false);
    /* Every command but those without any options. */
    if (command->computes || (command->options && command->options->name))
        plait_strbuf_append(out, " [OPTION...]");
    plait_strbuf_append(out, "\n.SH DESCRIPTION\n");
    roff(out, command->summary, true);
    plait_strbuf_append_char(out, '\n');
    if (command->details) paragraphs(out, command->details);
    rows(out, "OPTIONS", command->options);
    if (command->computes) rows(out, "DEVICES AND MEMORY", plait_cli_common_options);
    examples(out, command->examples);
    exit_status(out);
    plait_strbuf_append(out, ".SH SEE ALSO\n.BR plait (1)\n");
}

/* The options that computing commands share are listed once here, and in each of their pages too. */
static void program_page(plait_strbuf *out) {
    heading(out, "", "runs GGUF language models on all the devices at hand");
    plait_strbuf_append(
        out, "\\fBplait\\fR COMMAND [ARGUMENT...]\n.SH DESCRIPTION\n"
             "Each command has a page of its own, and \\fBplait COMMAND \\-\\-help\\fR.\n.SH COMMANDS\n");
    /* Hidden commands have pages, for who asks for them by name, but are not listed. */
    for (size_t i = 0; plait_cli_commands[i]; i++) {
        const plait_cli_command *command = plait_cli_commands[i];
        if (command->hidden) continue;
        plait_strbuf_printf(out, ".TP\n\\fB%s\\fR\n", command->name);
        roff(out, command->summary, true);
        plait_strbuf_append_char(out, '\n');
    }
    rows(out, "OPTIONS OF COMMANDS THAT COMPUTE", plait_cli_common_options);
    plait_strbuf_append(
        out,
        ".SH DEVICE LISTS\n"
        "Items separated by commas, each \\fIkind\\fR[:\\fIkey\\fR=\\fIvalue\\fR]..., for example "
        "cpu:threads=4. \\fBplait devices\\fR lists the kinds. Devices of one kind are called "
        "\\fIkind\\fR, \\fIkind\\fR:1, \\fIkind\\fR:2, ... in the order of the list. "
        "cpu:cores=0\\-3+6 keeps to these processors, cpu:numa=1 to those and the memory of a NUMA node, "
        "cpu:numa=each is a device of each node; several cpu items that name neither share out the "
        "processors.\n");
    exit_status(out);
}

static int run(const plait_cli_values *values) {
    const char *name = values->n_positional ? values->positional[0] : NULL;
    const plait_cli_command *command = name ? plait_cli_find_command(name) : NULL;
    plait_strbuf out;
    if (name && !command) return plait_cli_usage("there is no command \"%s\"; plait --help lists them", name);
    plait_strbuf_init(&out, 0);
    if (command)
        command_page(&out, command);
    else
        program_page(&out);
    plait_status status = plait_cli_emit(&out);
    return status == PLAIT_OK ? PLAIT_EXIT_OK : plait_cli_fail(status);
}

const plait_cli_command plait_cli_man = {
    .name = "man",
    .arguments = "[COMMAND]",
    .min_positional = 0,
    .max_positional = 1,
    .summary = "Print the manual page of a command, or of the program.",
    .hidden = true,
    .run = run,
};
