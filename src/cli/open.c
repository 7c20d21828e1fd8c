/* Opening what commands work on, by the options that every computing command takes: context, model, session. Not here:
 * what is planned and fitted (model), lists of devices (device). Invariant: options are checked before anything is
 * opened, so that wrong usage costs nothing.
 *
 * Functions that return int have printed what is wrong and return an exit status; those that return plait_status have
 * left a message.
 *
 * Devices are numbered here as in the context, which is the order of --devices: --ratio and --fit-margin mean that
 * order, --pin the names. The structs that options point into live on the stack of the function that opens the model,
 * because they are only read while it opens. */
#include "cli/cli.h"

#include "base/alloc.h"
#include "base/log.h"
#include "base/os.h"
#include "base/status.h"
#include "plait/machine.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Bounds that no machine reaches, against typing errors; spans of a trace: those of some thousand steps of a model with
 * dozens of layers. */
enum { MOST_THREADS = 4096, MOST_BATCH = 65536, TRACE_SPANS = 1 << 17 };

/* ---- checking options ---- */

/* "KEYS,VALUES", or one type for both. The library decides which types a cache may have; here a name only has to be
 * that of a type. */
static int parse_kv(const char *text, plait_model_options *options) {
    char first[32];
    const char *comma = strchr(text, ',');
    size_t n = comma ? (size_t)(comma - text) : strlen(text);
    if (n >= sizeof first) return plait_cli_usage("--kv: \"%.60s\" names no type", text);
    memcpy(first, text, n);
    first[n] = '\0';
    plait_status status = plait_dtype_parse(first, &options->k_type);
    if (status == PLAIT_OK) status = plait_dtype_parse(comma ? comma + 1 : first, &options->v_type);
    if (plait_error_context(status, "--kv") != PLAIT_OK) return plait_cli_usage_error();
    options->kv_given = true;
    return PLAIT_EXIT_OK;
}

/* "on" or "off"; *out_off is left alone when the option is not given. */
static int parse_switch(const char *name, const char *text, bool *out_off) {
    if (!text) return PLAIT_EXIT_OK;
    if (strcmp(text, "on") != 0 && strcmp(text, "off") != 0)
        return plait_cli_usage("%s wants on or off, not \"%s\"", name, text);
    *out_off = strcmp(text, "off") == 0;
    return PLAIT_EXIT_OK;
}

/* Counts are 0 or more already. */
static int check_range(const char *name, int64_t value, int64_t most) {
    if (value <= most) return PLAIT_EXIT_OK;
    return plait_cli_usage("%s: %lld is too many, at most %lld", name, (long long)value, (long long)most);
}

/* One size for every device, or a size for each. `margins` has room for every device, and is left alone without
 * --fit-margin. An item of 64 bytes or more stays empty here, and an empty one is no size. 2^63 is refused too, so that
 * sums of margins and sizes stay within 64 bits. */
static int read_margins(const plait_cli_values *values, int n_devices, uint64_t *margins,
                        plait_model_options *options) {
    const char *text = values->fit_margin;
    int n = 0;
    if (!text) return PLAIT_EXIT_OK;
    for (const char *p = text;; n++) {
        char item[64] = "";
        size_t length = strcspn(p, ",");
        double bytes;
        if (length < sizeof item) memcpy(item, p, length);
        if (!plait_parse_bytes(item, &bytes) || bytes >= 0x1p63)
            return plait_cli_usage("--fit-margin \"%s\": expected sizes like 512MiB or 1GiB,0", text);
        if (n < n_devices) margins[n] = (uint64_t)bytes;
        if (!p[length]) break;
        p += length + 1;
    }
    if (n > 0 && n + 1 != n_devices)
        return plait_cli_usage("--fit-margin \"%s\": %d sizes, expected one, or one for each of %d devices",
                               text, n + 1, n_devices);
    for (int d = 1; n == 0 && d < n_devices; d++) margins[d] = margins[0];
    options->margin_bytes = margins;
    return PLAIT_EXIT_OK;
}

/* A share for each device, none negative, some above 0. Items beyond the devices are counted and not stored, so that
 * the message can say how many there were. Shares need no common sum: only their ratio is used. */
static int parse_ratio(const char *text, int n_devices, double *shares) {
    double sum = 0;
    int n = 0;
    for (const char *p = text;; n++) {
        size_t length = strcspn(p, ",");
        double share;
        if (length >= 64 || !plait_parse_double(p, length, &share) || share < 0)
            return plait_cli_usage("--ratio \"%s\": expected shares of 0 or more, like 2,1", text);
        if (n < n_devices) shares[n] = share;
        sum += share;
        if (!p[length]) break;
        p += length + 1;
    }
    if (n + 1 != n_devices || !(sum > 0) || !isfinite(sum))
        return plait_cli_usage(
            "--ratio \"%s\": %d shares that add up to %g, expected one for each of %d devices, "
            "not all 0",
            text, n + 1, sum, n_devices);
    return PLAIT_EXIT_OK;
}

/* `shares` has room for every device, and is left alone without --ratio. What has no meaning for the devices at hand is
 * refused and not ignored: who gives --ratio to a mode that has no use for it expects an effect, and would measure its
 * absence as a property of the program. With one device all modes are the same, so none is refused. */
static int read_split(const plait_cli_values *values, int n_devices, double *shares,
                      plait_model_options *options) {
    static const struct {
        const char *name;
        plait_split split;
    } modes[] = {{"none", PLAIT_SPLIT_NONE}, {"layer", PLAIT_SPLIT_LAYER}, {"tensor", PLAIT_SPLIT_TENSOR}};
    bool known = !values->split;
    for (size_t i = 0; values->split && i < sizeof modes / sizeof *modes; i++)
        if (strcmp(values->split, modes[i].name) == 0) options->split = modes[i].split, known = true;
    if (!known) return plait_cli_usage("--split wants none, layer or tensor, not \"%s\"", values->split);
    if (options->split == PLAIT_SPLIT_TENSOR && n_devices > 1)
        return plait_cli_usage(
            "--split tensor over %d devices is not supported yet; --split layer spreads whole "
            "layers over them",
            n_devices);
    if (options->split == PLAIT_SPLIT_TENSOR)
        options->split = PLAIT_SPLIT_AUTO; /* of one device: the whole */
    if (!values->ratio) return PLAIT_EXIT_OK;
    int status = parse_ratio(values->ratio, n_devices, shares);
    if (status != PLAIT_EXIT_OK) return status;
    if (options->split == PLAIT_SPLIT_NONE && n_devices > 1)
        return plait_cli_usage(
            "--ratio has no meaning with --split none; --split layer spreads the layers by it");
    options->ratio = shares;
    return PLAIT_EXIT_OK;
}

static int read_options(const plait_cli_values *values, plait_model_options *out) {
    *out = (plait_model_options){.context = values->context,
                                 .batch = values->batch,
                                 .exact = values->exact,
                                 .no_mmap = values->no_mmap};
    int status = parse_switch("--fit", values->fit, &out->fit_off);
    if (status == PLAIT_EXIT_OK) status = parse_switch("--verify", values->verify, &out->skip_verify);
    if (status == PLAIT_EXIT_OK && values->kv) status = parse_kv(values->kv, out);
    if (status == PLAIT_EXIT_OK) status = check_range("--ctx", values->context, INT32_MAX);
    if (status == PLAIT_EXIT_OK) status = check_range("--batch", values->batch, MOST_BATCH);
    return status;
}

/* Pins "PATTERN=DEVICE"; the patterns live in `copies`, one string for each. The last '=' separates, as patterns may
 * hold one. Devices go by the names of the context, so they can only be checked once it is open. That a pattern matches
 * anything is not checked: the names of nodes are only known once the model is planned. */
static int parse_pins(const plait_cli_values *values, plait_context *context, plait_pin *pins,
                      char **copies) {
    for (int i = 0; i < values->n_pins; i++) {
        const char *equals = strrchr(values->pins[i], '=');
        int device = -1;
        for (int d = 0; equals && d < plait_context_device_count(context); d++)
            if (strcmp(plait_context_device(context, d)->name, equals + 1) == 0) device = d;
        if (!equals || device < 0)
            return plait_cli_usage("--pin \"%s\": expected PATTERN=DEVICE with a device of --devices",
                                   values->pins[i]);
        copies[i] = plait_string_copy_n(values->pins[i], (size_t)(equals - values->pins[i]));
        if (!copies[i]) return plait_cli_fail(plait_error_memory("--pin", 0));
        pins[i] = (plait_pin){copies[i], device};
    }
    return PLAIT_EXIT_OK;
}

/* ---- opening ---- */

/* Before any list of devices is read, because the list may name their kinds. A library that cannot be loaded is a
 * failure, unlike a kind of device that is not available: the user has named the file. */
plait_status plait_cli_load_devices(const plait_cli_values *values) {
    for (int i = 0; i < values->n_device_paths; i++)
        PLAIT_TRY(plait_error_context(plait_device_load(values->device_paths[i]), "--device-path"));
    return PLAIT_OK;
}

/* Devices that a file describes. The text is not kept: the devices made from it have copies of what it says. */
static int open_machine(const plait_cli_values *values, const plait_context_options *options,
                        plait_context **out) {
    char *text;
    size_t n_bytes;
    if (values->devices)
        return plait_cli_usage("--machine and --devices: only one of them says what there is");
    plait_status status = plait_cli_read_file(values->machine, &text, &n_bytes);
    if (status != PLAIT_OK) return plait_cli_fail(plait_error_context(status, "--machine"));
    status = plait_machine_open(out, text, n_bytes, options);
    free(text);
    return status == PLAIT_OK ? PLAIT_EXIT_OK
                              : plait_cli_fail(plait_error_context(status, "%s", values->machine));
}

/* A wrong list of devices is wrong usage; a device that cannot be opened is a failure. A -t that is out of range is
 * refused before its cut to an int is used. */
int plait_cli_open_context(const plait_cli_values *values, plait_context **out) {
    plait_context_options options = {.logger = plait_cli_logger(),
                                     .threads = (int)values->threads,
                                     .monitor = values->monitor ? PLAIT_MONITOR_ON : PLAIT_MONITOR_OFF};
    int exit_status = check_range("-t", values->threads, MOST_THREADS);
    if (exit_status != PLAIT_EXIT_OK) return exit_status;
    plait_status status = plait_cli_load_devices(values);
    if (status != PLAIT_OK) return plait_cli_fail(status);
    if (values->machine) return open_machine(values, &options, out);
    status = plait_context_open(out, values->devices, &options);
    if (status == PLAIT_INVALID_ARGUMENT) return plait_cli_usage_error();
    return status == PLAIT_OK ? PLAIT_EXIT_OK : plait_cli_fail(status);
}

/* What --split, --ratio, --fit-margin and --pin say of the devices of a context. */
typedef struct spreading {
    plait_pin pins[PLAIT_CLI_MAX_LIST];
    char *patterns[PLAIT_CLI_MAX_LIST]; /* Owned. */
    double shares[PLAIT_CLI_MAX_DEVICES];
    uint64_t margins[PLAIT_CLI_MAX_DEVICES];
} spreading;

/* Also after a failure in the middle: what was not made is NULL. */
static void spreading_deinit(spreading *s) {
    for (int i = 0; i < PLAIT_CLI_MAX_LIST; i++) free(s->patterns[i]);
}

/* *options points into *s from here on, so both have to live as long as the call that takes them. */
static int read_spreading(const plait_cli_values *values, plait_context *context, spreading *s,
                          plait_model_options *options) {
    *s = (spreading){0};
    int n_devices = plait_context_device_count(context);
    int exit_status = read_split(values, n_devices, s->shares, options);
    if (exit_status == PLAIT_EXIT_OK) exit_status = read_margins(values, n_devices, s->margins, options);
    if (exit_status == PLAIT_EXIT_OK) exit_status = parse_pins(values, context, s->pins, s->patterns);
    options->pins = s->pins;
    options->n_pins = values->n_pins;
    return exit_status;
}

/* The options are only read while the model opens. */
static int open_model(const plait_cli_values *values, plait_model_options *options, plait_context *context,
                      plait_model **out) {
    spreading spread;
    int exit_status = read_spreading(values, context, &spread, options);
    if (exit_status == PLAIT_EXIT_OK) {
        plait_status status = plait_model_open(out, context, values->positional[0], options);
        if (status != PLAIT_OK) exit_status = plait_cli_fail(status);
    }
    spreading_deinit(&spread);
    return exit_status;
}

/* Options that need no device are read first, those that name devices after the context is open, and the model comes
 * last. */
int plait_cli_open(const plait_cli_values *values,
                   void (*adjust)(plait_model_options *options, const void *user), const void *user,
                   plait_context **out_context, plait_model **out_model) {
    plait_model_options options;
    plait_context *context = NULL;
    int exit_status = read_options(values, &options);
    if (exit_status == PLAIT_EXIT_OK) exit_status = plait_cli_open_context(values, &context);
    if (exit_status != PLAIT_EXIT_OK) return exit_status;
    if (adjust) adjust(&options, user);
    exit_status = open_model(values, &options, context, out_model);
    if (exit_status != PLAIT_EXIT_OK)
        plait_context_close(context);
    else
        *out_context = context;
    return exit_status;
}

void plait_cli_let_kv_fit(plait_model_options *options, const void *unused) {
    (void)unused;
    options->kv_open = true;
}

/* ---- after a loss ---- */

/* Pins and shares of devices that are left; those of the lost ones are gone with them. devices[d] is the old number of
 * the device that is d in the new context; it grows, so entries can move in place. A pin on a lost device is dropped,
 * which leaves its weights to the planner: better somewhere than nowhere. When all shares that are left are 0, a ratio
 * would leave no device for the layers, so the planner chooses by cost. */
static void keep_what_is_left(spreading *s, plait_model_options *options, const int *devices, int n_devices) {
    int n = 0;
    double sum = 0;
    for (int i = 0; i < options->n_pins; i++)
        for (int d = 0; d < n_devices; d++)
            if (s->pins[i].device == devices[d]) s->pins[n++] = (plait_pin){s->pins[i].pattern, d};
    options->n_pins = n;
    for (int d = 0; d < n_devices; d++) sum += s->shares[d] = s->shares[devices[d]];
    for (int d = 0; d < n_devices; d++) s->margins[d] = s->margins[devices[d]];
    if (sum <= 0) options->ratio = NULL;
}

/* The new context is made from the old one, which knows the devices that are left; the names of pins are looked up in
 * the old one for the same reason. Between closing and opening there is no model at all, on purpose: both at once would
 * need the memory twice, on devices that are fewer than before. *model is NULL and *context a valid one in every case
 * after that, so that the caller's way out closes what there is. */
plait_status plait_cli_reopen(const plait_cli_values *values,
                              void (*adjust)(plait_model_options *options, const void *user),
                              const void *user, plait_context **context, plait_model **model) {
    int devices[PLAIT_CLI_MAX_DEVICES];
    plait_model_options options;
    plait_context *left = NULL;
    spreading spread;
    /* What was accepted once is accepted again: these print nothing now. */
    if (read_options(values, &options) != PLAIT_EXIT_OK) return PLAIT_INVALID_ARGUMENT;
    if (adjust) adjust(&options, user);
    plait_status status = plait_context_reopen(&left, *context, devices);
    if (status != PLAIT_OK) return status;
    if (read_spreading(values, *context, &spread, &options) != PLAIT_EXIT_OK) status = PLAIT_OUT_OF_MEMORY;
    plait_cli_close(*context, *model);
    *context = left;
    *model = NULL;
    if (status == PLAIT_OK) {
        keep_what_is_left(&spread, &options, devices, plait_context_device_count(left));
        status = plait_model_open(model, left, values->positional[0], &options);
    }
    spreading_deinit(&spread);
    return status;
}

void plait_cli_close(plait_context *context, plait_model *model) {
    plait_model_release(model);
    plait_context_close(context);
}

/* ---- sessions ---- */

/* The trace begins with the session, so that the first step, which does what is done once, is in it. */
plait_status plait_cli_session_open(const plait_cli_values *values, plait_model *model, plait_session **out) {
    plait_session *session;
    PLAIT_TRY(plait_session_create(&session, model));
    plait_status status = values->trace ? plait_session_trace_begin(session, TRACE_SPANS) : PLAIT_OK;
    if (status != PLAIT_OK)
        plait_session_destroy(session);
    else
        *out = session;
    return status;
}

/* Through a file that is renamed at the end: whole or not at all. The descriptor is -1 until the file is open, which
 * makes abandoning it harmless after any failure, and after the commit. */
static plait_status write_trace(const char *path, plait_session *session) {
    char *json;
    plait_file_writer out = {.fd = -1};
    PLAIT_TRY(plait_session_trace_end(session, &json));
    plait_status status = plait_file_writer_open(&out, path);
    if (status == PLAIT_OK) status = plait_file_writer_write(&out, json, strlen(json));
    if (status == PLAIT_OK) status = plait_file_writer_commit(&out);
    plait_file_writer_abandon(&out);
    free(json);
    return plait_error_context(status, "--trace");
}

/* A trace of a failed run would look like a whole one, so none is written. */
plait_status plait_cli_session_close(const plait_cli_values *values, plait_session *session,
                                     plait_status status) {
    if (session && values->trace && status == PLAIT_OK) status = write_trace(values->trace, session);
    plait_session_destroy(session);
    return status;
}
