/* Descriptions of machines: lines of names, keys and values become a list of simulated devices that compute nothing.
 * Values are judged by the simulated device alone (device/sim/options.c); here are lines, names and which keys there
 * are. Not here: planning for them, which sees an ordinary context.
 *
 * Invariant: no text reaches the device list but letters that cannot end an item in it. */
#include "plait/machine.h"

#include "base/size.h"
#include "base/status.h"
#include "base/strbuf.h"
#include "device/context.h"

#include <stdio.h>
#include <string.h>

enum { MAX_MACHINE_BYTES = 1 << 20, MAX_DEVICES = 64, MAX_VALUE = 200 };

/* Keys of a line, and what they are called as options of a simulated device. */
static const struct {
    const char *key, *option;
    bool needed;
} keys[] = {
    {"memory", "mem", true},
    {"flops", "flops", true},
    {"memory-bandwidth", "memory-bandwidth", true},
    {"bandwidth", "bandwidth", false},
    {"latency", "latency", false},
    {"overhead", "overhead", false},
    {"lack", "lack", false},
    {"lack-type", "lack-type", false},
    {"copy-queues", "copy-queues", false},
    {"max-buffer", "max-buffer", false},
    {"granularity", "granularity", false},
    {"pad", "pad", false},
};

typedef struct reader {
    const char *at, *end;
    int line;
    char names[MAX_DEVICES][PLAIT_MAX_NAME];
    int n;
    plait_strbuf items; /* comma-separated */
    plait_strbuf item;
} reader;

/* ---- words ---- */

/* A CR counts as blank, so files of other systems read alike. */
static bool is_blank(char c) {
    return c == ' ' || c == '\t' || c == '\r';
}

/* The next word of the line; 0 bytes at its end. A comment is passed over where it begins; a '#' ends a word. */
static size_t next_word(reader *r, const char **out) {
    while (r->at < r->end && is_blank(*r->at)) r->at++;
    *out = r->at;
    /* Nothing of a comment is looked at: it may hold any bytes. */
    if (r->at < r->end && *r->at == '#')
        while (r->at < r->end && *r->at != '\n') r->at++, *out = r->at;
    while (r->at < r->end && *r->at != '\n' && *r->at != '#' && !is_blank(*r->at)) r->at++;
    return (size_t)(r->at - *out);
}

/* Letters, digits and the given marks, at least one byte. In device lists ',' ends an item and ':' an option: neither
 * is ever among the marks. */
static bool only_of(const char *word, size_t n, const char *marks) {
    for (size_t i = 0; i < n; i++) {
        char c = word[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (!letter && (c == '\0' || !strchr(marks, c))) return false;
    }
    return n > 0;
}

/* A word for a message: short, and without what a terminal would obey. */
static const char *shown(const char *word, size_t n, char out[64]) {
    size_t k = 0;
    for (; k < n && k < 60; k++) out[k] = word[k] >= ' ' && word[k] < 0x7F ? word[k] : '?';
    out[k] = '\0';
    return out;
}

/* ---- lines ---- */

/* Names of devices are shown in plans and compared with pins, so each may occur once. */
static plait_status take_name(reader *r, const char *word, size_t n) {
    char text[64];
    if (r->n == MAX_DEVICES)
        return plait_error(PLAIT_INVALID_ARGUMENT, "line %d: more than %d devices", r->line, MAX_DEVICES);
    if (n >= sizeof r->names[0] || n > 60 || !only_of(word, n, "._-"))
        return plait_error(
            PLAIT_INVALID_ARGUMENT,
            "line %d: a line begins with the name of a device (letters, digits, '.', '_', '-'), not \"%s\"",
            r->line, shown(word, n, text));
    for (int d = 0; d < r->n; d++)
        if (strlen(r->names[d]) == n && memcmp(r->names[d], word, n) == 0)
            return plait_error(PLAIT_INVALID_ARGUMENT, "line %d: there is a device %s already", r->line,
                               r->names[d]);
    memcpy(r->names[r->n], word, n);
    r->names[r->n][n] = '\0';
    return PLAIT_OK;
}

/* The message lists all keys: a word without '=' comes here as well. */
static plait_status unknown_key(const reader *r, const char *word, size_t n) {
    char text[64];
    plait_strbuf known;
    plait_strbuf_init(&known, 0);
    for (size_t i = 0; i < PLAIT_COUNT_OF(keys); i++)
        plait_strbuf_printf(&known, "%s%s", i ? ", " : "", keys[i].key);
    plait_status status = plait_strbuf_status(&known);
    if (status == PLAIT_OK)
        status = plait_error(PLAIT_INVALID_ARGUMENT, "line %d: \"%s\" is no key and value; known keys: %s",
                             r->line, shown(word, n, text), plait_strbuf_text(&known));
    plait_strbuf_deinit(&known);
    return status;
}

/* `given`: [key] so far on this line. Keys are renamed to what the simulated device calls them. */
static plait_status take_pair(reader *r, const char *word, size_t n, bool *given) {
    const char *equals = memchr(word, '=', n);
    size_t length = equals ? (size_t)(equals - word) : 0, k = 0;
    char text[64];
    while (k < PLAIT_COUNT_OF(keys) &&
           (strlen(keys[k].key) != length || memcmp(keys[k].key, word, length) != 0))
        k++;
    if (k == PLAIT_COUNT_OF(keys)) return unknown_key(r, word, n);
    const char *value = equals + 1;
    size_t value_n = n - length - 1;
    if (given[k])
        return plait_error(PLAIT_INVALID_ARGUMENT, "line %d: %s is given twice", r->line, keys[k].key);
    if (value_n > MAX_VALUE || !only_of(value, value_n, ".+_-"))
        return plait_error(PLAIT_INVALID_ARGUMENT,
                           "line %d: %s is \"%s\", expected a number with a unit, or words", r->line,
                           keys[k].key, shown(value, value_n, text));
    given[k] = true;
    plait_strbuf_printf(&r->item, ":%s=", keys[k].option);
    plait_strbuf_append_n(&r->item, value, value_n);
    return PLAIT_OK;
}

/* The simulated device says whether it can live with the values. Line by line, so that the message can say which one;
 * the device is made again when the context is opened. */
static plait_status try_item(const reader *r) {
    plait_device *device = NULL;
    plait_status status = plait_device_create(plait_strbuf_text(&r->item), NULL, &device);
    if (status == PLAIT_OK) device->vtable->destroy(device);
    return plait_error_context(status, "line %d", r->line);
}

/* Empty lines and comments describe nothing. "inner=null": the simulated device takes the place of a real one whose
 * computing nobody wants. */
static plait_status read_line(reader *r) {
    bool given[PLAIT_COUNT_OF(keys)] = {false};
    const char *word;
    size_t n = next_word(r, &word);
    if (n == 0) return PLAIT_OK;
    PLAIT_TRY(take_name(r, word, n));
    plait_strbuf_clear(&r->item);
    /* One item of a device list for each line. */
    plait_strbuf_append(&r->item, "sim:inner=null");
    while ((n = next_word(r, &word)) > 0) PLAIT_TRY(take_pair(r, word, n, given));
    for (size_t k = 0; k < PLAIT_COUNT_OF(keys); k++)
        if (keys[k].needed && !given[k])
            return plait_error(PLAIT_INVALID_ARGUMENT, "line %d: device %s has no %s", r->line,
                               r->names[r->n], keys[k].key);
    PLAIT_TRY(plait_strbuf_status(&r->item));
    PLAIT_TRY(try_item(r));
    plait_strbuf_printf(&r->items, "%s%s", r->n ? "," : "", plait_strbuf_text(&r->item));
    r->n++;
    return plait_strbuf_status(&r->items);
}

static plait_status read_lines(reader *r) {
    for (r->line = 1; r->at < r->end; r->line++) {
        PLAIT_TRY(read_line(r));
        if (r->at < r->end) r->at++; /* the line's end */
    }
    if (r->n == 0) return plait_error(PLAIT_INVALID_ARGUMENT, "it describes no device");
    return PLAIT_OK;
}

/* Behind the opening: device lists have no names, the context has made up its own. */
static void name_devices(const reader *r, plait_context *context) {
    for (int d = 0; d < r->n && d < context->n_devices; d++) {
        plait_context_entry *entry = &context->devices[d];
        /* Both places: messages use the device's own name, plans that of the info. */
        snprintf(entry->device->name, sizeof entry->device->name, "%s", r->names[d]);
        snprintf(entry->info.name, sizeof entry->info.name, "%s", r->names[d]);
    }
}

/* The context is an ordinary one, of devices that compute nothing and are called as the file says. */
plait_status plait_machine_open(plait_context **out, const char *text, size_t n_bytes,
                                const plait_context_options *options) {
    plait_context *context = NULL;
    reader r = {.at = text, .end = text + n_bytes};
    if (n_bytes > MAX_MACHINE_BYTES)
        return plait_error(PLAIT_INVALID_ARGUMENT, "%llu bytes describe no machine, at most %d do",
                           (unsigned long long)n_bytes, MAX_MACHINE_BYTES);
    plait_strbuf_init(&r.items, 0);
    plait_strbuf_init(&r.item, 0);
    plait_status status = read_lines(&r);
    if (status == PLAIT_OK) status = plait_context_open(&context, plait_strbuf_text(&r.items), options);
    plait_strbuf_deinit(&r.items);
    plait_strbuf_deinit(&r.item);
    if (status != PLAIT_OK) return status;
    name_devices(&r, context);
    *out = context;
    return PLAIT_OK;
}
