/* In a terminal: plait chat shows a prompt, Ctrl-C stops an answer and gives the prompt back, Ctrl-D ends; plait run
 * ends cleanly after Ctrl-C; from a pipe, Ctrl-C ends plait chat as well. The terminal is a pseudo-terminal that the
 * test holds the other end of. */
#define _XOPEN_SOURCE 700
#include "cli/tiny.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <time.h>

typedef struct terminal {
    int fd;
    pid_t child;
    char text[1 << 16]; /* all that was shown */
    size_t n;
} terminal;

static void terminal_start(terminal *t, const char *const *arguments) {
    const char *argv[32] = {"plait"};
    for (int i = 0; arguments[i] && i < 30; i++) argv[i + 1] = arguments[i];
    memset(t, 0, sizeof *t);
    t->fd = posix_openpt(O_RDWR | O_NOCTTY);
    assert_true(t->fd >= 0 && grantpt(t->fd) == 0 && unlockpt(t->fd) == 0);
    const char *name = ptsname(t->fd);
    assert_non_null(name);
    t->child = fork();
    assert_true(t->child >= 0);
    if (t->child > 0) return;
    setsid();
    int fd = open(name, O_RDWR);
    if (fd < 0 || ioctl(fd, TIOCSCTTY, 0) != 0) _exit(99);
    for (int i = 0; i < 3; i++) dup2(fd, i);
    execv(PLAIT_BINARY_DIR "/plait", (char *const *)(uintptr_t)argv);
    _exit(99);
}

/* Reads what is shown until `piece` appears behind position `from`; false when it ends or takes a minute. */
static bool wait_for(terminal *t, const char *piece, size_t from) {
    struct pollfd wait = {.fd = t->fd, .events = POLLIN};
    while (!piece || !strstr(t->text + from, piece)) {
        if (t->n + 1 >= sizeof t->text || poll(&wait, 1, 60000) <= 0) return false;
        ssize_t n = read(t->fd, t->text + t->n, sizeof t->text - 1 - t->n);
        if (n <= 0) return !piece; /* the other end is closed */
        t->n += (size_t)n;
    }
    return true;
}

/* More than `n` bytes are shown behind `from`: an answer is on its way. */
static void wait_for_bytes(terminal *t, size_t from, size_t n) {
    while (t->n < from + n) {
        ssize_t got = read(t->fd, t->text + t->n, 64);
        assert_true(got > 0 && t->n + 128 < sizeof t->text);
        t->n += (size_t)got;
    }
}

static void type(terminal *t, const char *text) {
    assert_int_equal(write(t->fd, text, strlen(text)), strlen(text));
}

static int terminal_end(terminal *t) {
    int status = 0;
    wait_for(t, NULL, t->n);
    assert_int_equal(waitpid(t->child, &status, 0), t->child);
    close(t->fd);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void chat_in_a_terminal(void **state) {
    (void)state;
    char model[PLAIT_TEST_PATH_BYTES];
    terminal *t = malloc(sizeof *t);
    assert_non_null(t);
    tiny_model(model);
    terminal_start(t, ARGUMENTS("chat", model, "--ctx", "200000", "--ignore-eos", "-t", "1"));
    assert_true(wait_for(t, "> ", 0));
    size_t from = t->n;
    type(t, "Hello\n");
    wait_for_bytes(t, from, 60);
    type(t, "\x03"); /* stops the answer */
    from = t->n;
    assert_true(wait_for(t, "\n> ", from));
    from = t->n;
    type(t, "half a line\x03"); /* forgets the line */
    assert_true(wait_for(t, "\n> ", from));
    from = t->n;
    type(t, "/help\n");
    assert_true(wait_for(t, "/clear", from) && wait_for(t, "> ", from));
    type(t, "/clear\n");
    type(t, "\x04");
    assert_int_equal(terminal_end(t), 0);
    free(t);
}

static void run_in_a_terminal(void **state) {
    (void)state;
    char model[PLAIT_TEST_PATH_BYTES];
    terminal *t = malloc(sizeof *t);
    assert_non_null(t);
    tiny_model(model);
    terminal_start(t, ARGUMENTS("run", model, "-p", "Hello", "--ctx", "200000", "--ignore-eos", "-t", "1"));
    wait_for_bytes(t, 0, 60);
    type(t, "\x03");
    assert_true(wait_for(t, "tokens/s", 0)); /* what was made counts */
    assert_int_equal(terminal_end(t), 0);
    free(t);
}

/* Standard error so far; false when `piece` does not appear within a minute. */
static bool wait_in_file(const char *path, const char *piece) {
    for (int i = 0; i < 600; i++) {
        char *text = read_all(path, NULL);
        bool found = strstr(text, piece) != NULL;
        free(text);
        if (found) return true;
        nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
    }
    return false;
}

/* From a pipe that stays open: Ctrl-C while the program waits for the next message ends it, and no prompt is shown. */
static void chat_from_a_pipe(void **state) {
    (void)state;
    char model[PLAIT_TEST_PATH_BYTES], err[PLAIT_TEST_PATH_BYTES];
    int ends[2], status = 0;
    tiny_model(model);
    write_all(program_file("stderr", err), "", 0);
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        dup2(ends[0], STDIN_FILENO);
        close(ends[0]);
        close(ends[1]);
        program_redirect(STDOUT_FILENO, "/dev/null", O_WRONLY);
        program_redirect(STDERR_FILENO, err, O_WRONLY | O_TRUNC);
        execl(PLAIT_BINARY_DIR "/plait", "plait", "chat", model, "-n", "4", "-t", "1", (char *)NULL);
        _exit(99);
    }
    close(ends[0]);
    assert_int_equal(write(ends[1], "Hello\n", 6), 6);
    assert_true(wait_in_file(err, "tokens/s")); /* the answer is there */
    nanosleep(&(struct timespec){.tv_nsec = 300000000}, NULL);
    kill(child, SIGINT);
    pid_t ended = 0;
    for (int i = 0; i < 600 && (ended = waitpid(child, &status, WNOHANG)) == 0; i++)
        nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
    close(ends[1]);
    if (ended == 0) {
        kill(child, SIGKILL);
        waitpid(child, &status, 0);
        fail_msg("plait chat goes on after Ctrl-C");
    }
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 1);
    char *text = read_all(err, NULL);
    assert_non_null(strstr(text, "interrupted"));
    assert_null(strstr(text, "> "));
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chat_in_a_terminal),
        cmocka_unit_test(run_in_a_terminal),
        cmocka_unit_test(chat_from_a_pipe),
    };
    return cmocka_run_group_tests(tests, program_setup, program_teardown);
}
