/* The generated files in the tree are what the program's tables give today: manual pages and completions. After a change
 * of a command's options: scripts/update-cli-docs. */
#include "cli/program.h"

static size_t n_compared;

static void compare(const char *path, const char *const *arguments) {
    char full[PLAIT_TEST_PATH_BYTES];
    outcome o = program_start(&(start){0}, arguments);
    expect_done(&o);
    snprintf(full, sizeof full, "%s/%s", PLAIT_SOURCE_DIR, path);
    char *there = read_all(full, NULL);
    if (strcmp(there, o.out) != 0) fail_msg("%s is not current: run scripts/update-cli-docs", path);
    free(there);
    outcome_free(&o);
    n_compared++;
}

static void completions_are_current(void **state) {
    (void)state;
    compare("completions/plait.bash", ARGUMENTS("completion", "bash"));
    compare("completions/plait.zsh", ARGUMENTS("completion", "zsh"));
    compare("completions/plait.fish", ARGUMENTS("completion", "fish"));
}

/* The program's page lists the commands; each has its own, and there is no page of a command that is gone. */
static void pages_are_current(void **state) {
    (void)state;
    compare("docs/man/plait.1", ARGUMENTS("man"));
    DIR *folder = opendir(PLAIT_SOURCE_DIR "/docs/man");
    assert_non_null(folder);
    size_t n = 0;
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        char command[64] = "", path[300];
        if (sscanf(entry->d_name, "plait-%60[a-z].1", command) != 1) continue;
        snprintf(path, sizeof path, "docs/man/%.200s", entry->d_name);
        compare(path, ARGUMENTS("man", command));
        n++;
    }
    closedir(folder);
    outcome o = PLAIT("--help");
    size_t n_listed = 0;
    for (const char *p = o.out; (p = strstr(p, "\n  ")) != NULL; p++) n_listed++;
    assert_int_equal(n, n_listed);
    outcome_free(&o);
    printf("%zu generated files are current\n", n_compared);
}

/* The shell at hand takes its completion, and completes. */
static void bash_completes(void **state) {
    (void)state;
    static const char script[] =
        "source completions/plait.bash\n"
        "COMP_WORDS=(plait qua); COMP_CWORD=1; _plait; echo \"${COMPREPLY[*]}\"\n"
        "COMP_WORDS=(plait run m.gguf --top); COMP_CWORD=3; _plait; echo \"${COMPREPLY[*]}\"\n"
        "COMP_WORDS=(plait run --fit ''); COMP_CWORD=3; _plait; echo \"${COMPREPLY[*]}\"\n";
    char path[PLAIT_TEST_PATH_BYTES], command[2 * PLAIT_TEST_PATH_BYTES], text[256] = "";
    write_all(program_file("script", path), script, strlen(script));
    snprintf(command, sizeof command, "cd '%s' && bash '%s'", PLAIT_SOURCE_DIR, path);
    FILE *shell = popen(command, "r");
    assert_non_null(shell);
    size_t n = fread(text, 1, sizeof text - 1, shell);
    assert_int_equal(pclose(shell), 0);
    text[n] = '\0';
    assert_string_equal(text, "quantize\n--top-k --top-p\non off\n");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(completions_are_current),
        cmocka_unit_test(pages_are_current),
        cmocka_unit_test(bash_completes),
    };
    return cmocka_run_group_tests(tests, program_setup, program_teardown);
}
