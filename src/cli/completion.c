/* plait completion: completions for shells, made from the tables of commands and options. Not here: the texts
 * themselves (each command's file). Hidden: what it prints is in the folder completions, and a test holds that it is
 * current.
 *
 * Where a value has no fixed words, files are completed. */
#include "cli/cli.h"

#include "base/status.h"

#include <string.h>

/* Calls `visit` for each option that the command takes. */
static void each_option(const plait_cli_command *command,
                        void (*visit)(plait_strbuf *, const plait_cli_command *, const plait_cli_option *),
                        plait_strbuf *out) {
    for (const plait_cli_option *row = command->options; row && row->name; row++) visit(out, command, row);
    for (const plait_cli_option *row = plait_cli_common_options; command->computes && row->name; row++)
        visit(out, command, row);
    visit(out, command, &plait_cli_help_option);
}

/* Hidden ones are left out, as from help. */
static void each_command(void (*visit)(plait_strbuf *, const plait_cli_command *), plait_strbuf *out) {
    for (size_t i = 0; plait_cli_commands[i]; i++)
        if (!plait_cli_commands[i]->hidden) visit(out, plait_cli_commands[i]);
}

/* Words that an option's value is one of, "on|off", or NULL. None of the words needs quoting in any of the shells, so
 * they are written as they are. */
static const char *choices(const plait_cli_option *row) {
    /* Its value is called MODE in help, which says nothing to a shell. */
    if (strcmp(row->name, "--split") == 0) return "none layer tensor";
    return row->value && strcmp(row->value, "on|off") == 0 ? "on off" : NULL;
}

/* ---- bash ---- */

static void bash_name(plait_strbuf *out, const plait_cli_command *command) {
    plait_strbuf_printf(out, " %s", command->name);
}

/* bash shows words only, so the texts are left out. */
static void bash_option(plait_strbuf *out, const plait_cli_command *command, const plait_cli_option *row) {
    (void)command;
    plait_strbuf_printf(out, " %s", row->name);
}

/* `options` is set for the command that stands first; words of an unknown command complete to files only. */
static void bash_case(plait_strbuf *out, const plait_cli_command *command) {
    plait_strbuf_printf(out, "    %s) options=\"", command->name);
    each_option(command, bash_option, out);
    plait_strbuf_append(out, "\" ;;\n");
}

/* `before` decides first: the word behind --split is a mode whatever the command is. */
static void bash(plait_strbuf *out) {
    plait_strbuf_append(
        out, "# Completion of plait for bash, made by `plait completion bash`.\n"
             "_plait() {\n"
             "    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} options\n"
             "    if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
             "        COMPREPLY=($(compgen -W \"--help --version");
    each_command(bash_name, out);
    plait_strbuf_append(
        out, "\" -- \"$word\"))\n"
             "        return\n"
             "    fi\n"
             "    case $before in\n"
             "    --split) COMPREPLY=($(compgen -W \"none layer tensor\" -- \"$word\")); return ;;\n"
             "    --fit | --verify) COMPREPLY=($(compgen -W \"on off\" -- \"$word\")); return ;;\n"
             "    esac\n"
             "    case ${COMP_WORDS[1]} in\n");
    each_command(bash_case, out);
    plait_strbuf_append(out, "    esac\n"
                             "    case $word in\n"
                             "    -*) COMPREPLY=($(compgen -W \"$options\" -- \"$word\")) ;;\n"
                             "    *) COMPREPLY=($(compgen -f -- \"$word\")) ;;\n"
                             "    esac\n"
                             "}\n"
                             "complete -o filenames -F _plait plait\n");
}

/* ---- zsh ---- */

/* Text between single quotes; brackets and colons mean something to _arguments. `special` are characters that get a
 * backslash. A quote ends the string, stands behind a backslash, and the string begins again: a form that both zsh and
 * fish take. */
static void quoted(plait_strbuf *out, const char *text, const char *special) {
    for (; *text; text++) {
        if (*text == '\'')
            plait_strbuf_append(out, "'\\''");
        else if (strchr(special, *text))
            plait_strbuf_printf(out, "\\%c", *text);
        else
            plait_strbuf_append_char(out, *text);
    }
}

/* '*' in front lets an option be given again. The form is NAME[TEXT]:VALUE:ACTION, in which both texts may hold
 * anything once the special ones are escaped. */
static void zsh_option(plait_strbuf *out, const plait_cli_command *command, const plait_cli_option *row) {
    (void)command;
    plait_strbuf_printf(out, " \\\n            '%s%s[", row->kind == PLAIT_CLI_LIST ? "*" : "", row->name);
    quoted(out, row->help, "[]:\\");
    plait_strbuf_append_char(out, ']');
    if (row->value) {
        plait_strbuf_append_char(out, ':');
        quoted(out, row->value, "[]:\\");
        if (choices(row))
            plait_strbuf_printf(out, ":(%s)", choices(row));
        else
            plait_strbuf_append(out, ":_files");
    }
    plait_strbuf_append_char(out, '\'');
}

static void zsh_case(plait_strbuf *out, const plait_cli_command *command) {
    plait_strbuf_printf(out, "    %s)\n        _arguments", command->name);
    each_option(command, zsh_option, out);
    /* Only where the command takes positional arguments. */
    if (command->max_positional) plait_strbuf_append(out, " \\\n            '*:file:_files'");
    plait_strbuf_append(out, "\n        ;;\n");
}

static void zsh_name(plait_strbuf *out, const plait_cli_command *command) {
    plait_strbuf_printf(out, "        '%s:", command->name);
    quoted(out, command->summary, "");
    plait_strbuf_append(out, "'\n");
}

/* Words are shifted so that _arguments sees the command as the program. */
static void zsh(plait_strbuf *out) {
    plait_strbuf_append(out,
                        "#compdef plait\n# Completion of plait for zsh, made by `plait completion zsh`.\n"
                        "_plait() {\n"
                        "    local -a commands=(\n");
    each_command(zsh_name, out);
    plait_strbuf_append(out, "    )\n"
                             "    if ((CURRENT == 2)); then\n"
                             "        _describe command commands\n"
                             "        return\n"
                             "    fi\n"
                             "    local command=$words[2]\n"
                             "    shift words\n"
                             "    ((CURRENT--))\n"
                             "    case $command in\n");
    each_command(zsh_case, out);
    plait_strbuf_append(out, "    esac\n}\n_plait \"$@\"\n");
}

/* ---- fish ---- */

static void fish_name(plait_strbuf *out, const plait_cli_command *command) {
    plait_strbuf_printf(out, "complete -c plait -n __fish_use_subcommand -a %s -d '", command->name);
    quoted(out, command->summary, "");
    plait_strbuf_append(out, "'\n");
}

/* -l and -s are fish's for long and short names; -r wants a value, -f takes no files. fish completes --name=value by
 * itself once it knows of the value. */
static void fish_option(plait_strbuf *out, const plait_cli_command *command, const plait_cli_option *row) {
    bool is_long = row->name[1] == '-';
    plait_strbuf_printf(out, "complete -c plait -n '__fish_seen_subcommand_from %s' %s %s", command->name,
                        is_long ? "-l" : "-s", row->name + (is_long ? 2 : 1));
    if (row->value) plait_strbuf_append(out, " -r");
    if (choices(row)) plait_strbuf_printf(out, " -f -a '%s'", choices(row));
    plait_strbuf_append(out, " -d '");
    quoted(out, row->help, "");
    plait_strbuf_append(out, "'\n");
}

static void fish_case(plait_strbuf *out, const plait_cli_command *command) {
    each_option(command, fish_option, out);
}

static void fish(plait_strbuf *out) {
    plait_strbuf_append(out, "# Completion of plait for fish, made by `plait completion fish`.\n");
    each_command(fish_name, out);
    each_command(fish_case, out);
}

static int run(const plait_cli_values *values) {
    static const struct {
        const char *name;
        void (*print)(plait_strbuf *out);
    } shells[] = {{"bash", bash}, {"zsh", zsh}, {"fish", fish}};
    for (size_t i = 0; i < sizeof shells / sizeof *shells; i++) {
        if (strcmp(shells[i].name, values->positional[0]) != 0) continue;
        plait_strbuf out;
        plait_strbuf_init(&out, 0);
        shells[i].print(&out);
        plait_status status = plait_cli_emit(&out);
        return status == PLAIT_OK ? PLAIT_EXIT_OK : plait_cli_fail(status);
    }
    return plait_cli_usage("completion: there is no completion for \"%s\"; known: bash, zsh, fish",
                           values->positional[0]);
}

const plait_cli_command plait_cli_completion = {
    .name = "completion",
    .arguments = "bash|zsh|fish",
    .min_positional = 1,
    .max_positional = 1,
    .summary = "Print the completion for a shell.",
    .hidden = true,
    .run = run,
};
