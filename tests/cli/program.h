/* Running the built program as a user does: arguments and standard input in; standard output, standard error and exit
 * status out. Files that a test makes lie in a folder of its own inside the build folder. Includes cmocka's asserts. */
#ifndef PLAIT_TESTS_CLI_PROGRAM_H
#define PLAIT_TESTS_CLI_PROGRAM_H

#include "support/paths.h"
#include "text/json.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* What a run of the program gave. Texts are NUL-terminated, and may hold NUL. */
typedef struct outcome {
    int status; /* exit status; 128 + signal when a signal ended it */
    char *out, *err;
    size_t n_out, n_err;
} outcome;

/* How the program is started; zeroed: empty standard input, output kept. */
typedef struct start {
    const char *input;
    size_t n_input;
    const char *out_path;    /* where standard output goes instead of being kept, for example /dev/full */
    bool closed_pipe;        /* standard output is a pipe that nobody reads */
    rlim_t file_limit_bytes; /* no file may become larger: as a full disk; 0: no limit */
} start;

static char program_folder_path[PLAIT_TEST_PATH_BYTES];

/* Group set-up: the folder for files. */
static inline int program_setup(void **state) {
    (void)state;
    snprintf(program_folder_path, sizeof program_folder_path, "%s/cli-test-XXXXXX", PLAIT_BINARY_DIR);
    return mkdtemp(program_folder_path) ? 0 : -1;
}

/* Group tear-down: removes the folder and its files. */
static inline int program_teardown(void **state) {
    (void)state;
    DIR *folder = opendir(program_folder_path);
    for (struct dirent *entry; folder && (entry = readdir(folder)) != NULL;) {
        char path[PLAIT_TEST_PATH_BYTES + 300];
        snprintf(path, sizeof path, "%s/%s", program_folder_path, entry->d_name);
        unlink(path);
    }
    if (folder) closedir(folder);
    return rmdir(program_folder_path);
}

/* The path of a file of the test's folder. Returns out. */
static inline char *program_file(const char *name, char out[PLAIT_TEST_PATH_BYTES]) {
    snprintf(out, PLAIT_TEST_PATH_BYTES, "%.900s/%.100s", program_folder_path, name);
    return out;
}

static inline char *read_all(const char *path, size_t *out_n) {
    FILE *f = fopen(path, "rb");
    if (!f) fail_msg("%s: %s", path, strerror(errno));
    size_t n = 0, capacity = 1 << 16;
    char *bytes = malloc(capacity + 1);
    for (size_t got = 1; got > 0; n += got) {
        if (n == capacity) bytes = realloc(bytes, (capacity *= 2) + 1);
        assert_non_null(bytes);
        got = fread(bytes + n, 1, capacity - n, f);
    }
    fclose(f);
    bytes[n] = '\0';
    if (out_n) *out_n = n;
    return bytes;
}

static inline void write_all(const char *path, const void *bytes, size_t n) {
    FILE *f = fopen(path, "wb");
    if (!f) fail_msg("%s: %s", path, strerror(errno));
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

static inline void program_redirect(int from, const char *path, int flags) {
    int fd = open(path, flags, 0600);
    if (fd < 0 || dup2(fd, from) < 0) _exit(99);
}

/* In the child: never returns. */
static inline void program_exec(const start *s, const char *in, const char *out, const char *err,
                                const char *const *arguments) {
    const char *argv[64] = {"plait"};
    for (int i = 0; arguments[i] && i < 62; i++) argv[i + 1] = arguments[i];
    program_redirect(STDIN_FILENO, in, O_RDONLY);
    program_redirect(STDERR_FILENO, err, O_WRONLY | O_CREAT | O_TRUNC);
    if (s->closed_pipe) {
        int ends[2];
        if (pipe(ends) != 0 || dup2(ends[1], STDOUT_FILENO) < 0) _exit(99);
        close(ends[0]);
        close(ends[1]);
    } else {
        program_redirect(STDOUT_FILENO, s->out_path ? s->out_path : out, O_WRONLY | O_CREAT | O_TRUNC);
    }
    if (s->file_limit_bytes) {
        struct rlimit limit = {s->file_limit_bytes, s->file_limit_bytes};
        signal(SIGXFSZ, SIG_IGN); /* the write fails instead */
        if (setrlimit(RLIMIT_FSIZE, &limit) != 0) _exit(99);
    }
    execv(PLAIT_BINARY_DIR "/plait", (char *const *)(uintptr_t)argv);
    _exit(99);
}

/* Runs the program with these arguments (ended by NULL). */
static inline outcome program_start(const start *s, const char *const *arguments) {
    char in[PLAIT_TEST_PATH_BYTES], out[PLAIT_TEST_PATH_BYTES], err[PLAIT_TEST_PATH_BYTES];
    outcome o = {0};
    int status = 0;
    write_all(program_file("stdin", in), s->input ? s->input : "", s->n_input);
    write_all(program_file("stdout", out), "", 0);
    program_file("stderr", err);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) program_exec(s, in, out, err, arguments);
    while (waitpid(child, &status, 0) < 0) assert_int_equal(errno, EINTR);
    o.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    o.out = read_all(out, &o.n_out);
    o.err = read_all(err, &o.n_err);
    if (o.status == 99) fail_msg("%s/plait could not be started: is it built?", PLAIT_BINARY_DIR);
    return o;
}

static inline void outcome_free(outcome *o) {
    free(o->out);
    free(o->err);
    *o = (outcome){0};
}

#define ARGUMENTS(...) ((const char *const[]){__VA_ARGS__, NULL})
/* plait ... < TEXT */
#define PLAIT_WITH(text, n_bytes, ...)                                                                       \
    program_start(&(start){.input = (text), .n_input = (n_bytes)}, ARGUMENTS(__VA_ARGS__))
#define PLAIT(...) PLAIT_WITH("", 0, __VA_ARGS__)

static inline size_t count_lines(const char *text) {
    size_t n = 0;
    for (; *text; text++) n += *text == '\n';
    return n;
}

/* It went well. */
static inline void expect_done(const outcome *o) {
    if (o->status != 0) fail_msg("exit status %d: %s", o->status, o->err);
}

/* It failed as it should: this status, nothing on stdout, one line on stderr that has `piece` in it. Releases o. */
static inline void expect_refused(outcome o, int status, const char *piece) {
    if (o.status != status) fail_msg("exit status %d, expected %d: %s", o.status, status, o.err);
    if (o.n_out != 0) fail_msg("on standard output: %s", o.out);
    if (count_lines(o.err) != 1 || !strstr(o.err, piece))
        fail_msg("expected one line with \"%s\", found: %s", piece, o.err);
    outcome_free(&o);
}

/* The output as JSON; fails the test when it is none. */
static inline const plait_json *parse(const char *text, size_t n, plait_json_document *document) {
    if (plait_json_parse(document, text, n, NULL) != PLAIT_OK)
        fail_msg("%s in %.300s", plait_error_message(), text);
    return document->root;
}

static inline const plait_json *member(const plait_json *object, const char *name, plait_json_kind kind) {
    const plait_json *value = plait_json_get(object, name);
    if (!value || value->kind != kind) fail_msg("JSON: \"%s\" is missing or of another kind", name);
    return value;
}

static inline double number(const plait_json *value) {
    assert_true(value->kind == PLAIT_JSON_INTEGER || value->kind == PLAIT_JSON_REAL);
    return value->kind == PLAIT_JSON_REAL ? value->u.real : (double)value->u.integer;
}

#endif
