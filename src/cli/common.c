/* What every command shares: errors on stderr, results on stdout, Ctrl-C, progress. Invariant: nothing here opens
 * anything. */
#include "cli/cli.h"

#include "base/os.h"
#include "base/status.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/select.h>
#include <unistd.h>

/* ---- errors ---- */

/* One line, whatever was quoted in it, and nothing that a terminal would obey. The message is changed in place, as it
 * is a copy. Bytes above 127 stay, so that names in UTF-8 can be read. */
static void print_line(const char *prefix, char *message) {
    for (char *p = message; *p; p++)
        if ((unsigned char)*p < 32 || *p == 127) *p = ' ';
    fprintf(stderr, "%s%s\n", prefix, message);
}

/* A failure that left no message is shown by its name, which is better than an empty line. */
int plait_cli_fail(plait_status status) {
    char message[PLAIT_ERROR_BYTES];
    plait_error_copy(message, sizeof message);
    if (!message[0]) snprintf(message, sizeof message, "%s", plait_status_name(status));
    print_line("plait: ", message);
    return PLAIT_EXIT_FAILED;
}

int plait_cli_usage(const char *format, ...) {
    char message[PLAIT_ERROR_BYTES];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    print_line("plait: ", message);
    return PLAIT_EXIT_USAGE;
}

/* The library has found the wrong usage and left the message. */
int plait_cli_usage_error(void) {
    plait_cli_fail(PLAIT_INVALID_ARGUMENT);
    return PLAIT_EXIT_USAGE;
}

/* ---- results ---- */

/* After each write: somebody may read a pipe while the program still computes. A full disk or a closed pipe shows only
 * here: printf reports nothing of what it has buffered. ferror also tells of writes whose results nobody looked at. */
plait_status plait_cli_flush(void) {
    if (fflush(stdout) == 0 && !ferror(stdout)) return PLAIT_OK;
    return plait_error(PLAIT_IO, "standard output: cannot write: %s", strerror(errno));
}

plait_status plait_cli_write(const void *bytes, size_t n_bytes) {
    if (n_bytes && fwrite(bytes, 1, n_bytes, stdout) != n_bytes)
        return plait_error(PLAIT_IO, "standard output: cannot write: %s", strerror(errno));
    return plait_cli_flush();
}

/* The buffer is released either way. */
plait_status plait_cli_emit(plait_strbuf *text) {
    plait_status status = plait_strbuf_status(text);
    if (status == PLAIT_OK) status = plait_cli_write(plait_strbuf_text(text), text->length);
    plait_strbuf_deinit(text);
    return status;
}

void plait_cli_print_ids(plait_strbuf *out, const plait_token *ids, size_t n) {
    plait_strbuf_append_char(out, '[');
    for (size_t i = 0; i < n; i++) plait_strbuf_printf(out, "%s%d", i ? "," : "", ids[i]);
    plait_strbuf_append_char(out, ']');
}

/* ---- Ctrl-C ---- */

/* How often Ctrl-C came since it was cleared last. The handler is all that writes it beside _clear. sig_atomic_t
 * because a handler may interrupt a load or a store of anything wider in its middle. */
static volatile sig_atomic_t interrupts;

/* The second one ends the program with the status that shells give to SIGINT. Only calls that are safe in a handler.
 * _exit and not exit: handlers of exit and buffers of stdio may be in the middle of anything. */
static void on_interrupt(int signal_number) {
    (void)signal_number;
    if (interrupts++) _exit(130);
}

void plait_cli_catch_interrupt(void) {
    /* Everything goes on after the signal: half-written output would be lost. Whoever waits for input asks first. */
    struct sigaction action = {.sa_handler = on_interrupt, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
}

/* Without the block a signal between the look at the count and the wait would leave the wait without an end. pselect
 * puts the old mask in place and waits in one step, and it is never restarted, whatever SA_RESTART says. Threads of the
 * library block all signals, so that this one has the signal. */
bool plait_cli_wait_for_input(void) {
    sigset_t interrupt, before;
    fd_set set;
    sigemptyset(&interrupt);
    sigaddset(&interrupt, SIGINT);
    FD_ZERO(&set);
    FD_SET(STDIN_FILENO, &set);
    /* The signal is let in only while waiting, so that one which comes just before is not lost. */
    sigprocmask(SIG_BLOCK, &interrupt, &before);
    if (!interrupts) pselect(STDIN_FILENO + 1, &set, NULL, NULL, NULL, &before);
    sigprocmask(SIG_SETMASK, &before, NULL);
    return !interrupts;
}

bool plait_cli_interrupted(void) {
    return interrupts > 0;
}

void plait_cli_clear_interrupt(void) {
    interrupts = 0;
}

/* ---- logging ---- */

/* Lines below INFO are for those who debug the library. */
static void log_line(void *user, plait_log_level level, const char *line) {
    (void)user;
    if (level >= PLAIT_LOG_INFO)
        fprintf(stderr, "plait: %s%s\n", level >= PLAIT_LOG_WARNING ? "warning: " : "", line);
}

/* A line that is written over while the work goes on, on terminals only and at most ten times a second. The answer is
 * the other half of it: false is how Ctrl-C reaches work in the library, which knows nothing of signals. */
static bool show_progress(void *user, const char *what, uint64_t done, uint64_t total) {
    static uint64_t last_ns; /* one progress at a time is shown */
    (void)user;
    if (isatty(STDERR_FILENO) && total) {
        uint64_t now = plait_time_ns();
        if (done >= total) {
            fprintf(stderr, "\r\033[K");
            last_ns = 0;
        } else if (now - last_ns > 100000000u) {
            fprintf(stderr, "\r%s %3.0f%%\033[K", what, 100.0 * (double)done / (double)total);
            last_ns = now;
        }
    }
    return !plait_cli_interrupted();
}

plait_logger plait_cli_logger(void) {
    return (plait_logger){.line = log_line, .progress = show_progress};
}
