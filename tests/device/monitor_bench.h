/* Handling monitored devices from tests: opening, lists that outlive their submission, a program of one node, and what
 * the monitor is expected to have found. Anything that fails by itself fails the test. */
#ifndef TESTS_DEVICE_MONITOR_BENCH_H
#define TESTS_DEVICE_MONITOR_BENCH_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "plait/monitor.h"

enum { BENCH_BYTES = 256 };

typedef struct bench {
    plait_monitor *monitor;
    plait_device *a, *b; /* b: NULL unless asked for */
} bench;

static inline void must(plait_status status) {
    if (status != PLAIT_OK) fail_msg("%s: %s", plait_status_name(status), plait_error_message());
}

static inline void print_line(void *user, plait_log_level level, const char *line) {
    (void)user, (void)level;
    printf("    %s\n", line);
}

static inline plait_device *open_monitored(plait_monitor *monitor, const char *item) {
    plait_device *inner = NULL, *device = NULL;
    if (plait_device_create(item, NULL, &inner) != PLAIT_OK) fail_msg("%s: %s", item, plait_error_message());
    must(plait_monitor_wrap(monitor, inner, &device));
    return device;
}

/* Little patience: nobody else is going to signal. */
static inline bench open_bench(plait_monitor_level level, const char *a, const char *b) {
    bench t = {0};
    plait_monitor_options options = {.struct_bytes = sizeof options,
                                     .level = level,
                                     .logger = {.line = print_line},
                                     .patience_ns = 30000000};
    must(plait_monitor_create(&options, &t.monitor));
    t.a = open_monitored(t.monitor, a);
    if (b) t.b = open_monitored(t.monitor, b);
    return t;
}

static inline void close_bench(bench *t) {
    if (t->b) t->b->vtable->destroy(t->b);
    t->a->vtable->destroy(t->a);
    plait_monitor_destroy(t->monitor);
}

/* ---- docs/monitor.md ---- */

enum { MOST_MESSAGES = 256, DOC_BYTES = 1 << 16 };

/* What tests of this program have found, numbers and addresses as '#'. */
static char messages_found[MOST_MESSAGES][PLAIT_ERROR_BYTES];
static int n_messages_found;

static inline void without_numbers(const char *text, size_t n, char *out, size_t out_bytes) {
    size_t at = 0;
    for (size_t i = 0; i < n && at + 1 < out_bytes;) {
        if (text[i] < '0' || text[i] > '9') {
            out[at++] = text[i++];
            continue;
        }
        bool hex = text[i] == '0' && i + 1 < n && text[i + 1] == 'x';
        out[at++] = '#';
        for (i += hex ? 2 : 0; i < n && strchr(hex ? "0123456789abcdef." : "0123456789", text[i]);) i++;
    }
    out[at] = '\0';
}

static inline void keep_message(const plait_monitor_violation *found) {
    const char *said = strstr(found->message, ": ");
    assert_non_null(said); /* behind "monitor" */
    if (n_messages_found < MOST_MESSAGES)
        without_numbers(said + 2, strlen(said + 2), messages_found[n_messages_found++],
                        sizeof messages_found[0]);
}

/* Every row that the page has for this program is a message that one of its tests got. Numbers may differ: of calls of
 * several threads, of addresses. To be the last test. */
static inline void rows_are_messages(const char *program) {
    static char text[DOC_BYTES];
    FILE *file = fopen(PLAIT_SOURCE_DIR "/docs/monitor.md", "rb");
    assert_non_null(file);
    size_t n = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[n] = '\0';
    char *at = strstr(text, program), row[PLAIT_ERROR_BYTES];
    int n_rows = 0;
    assert_non_null(at);
    char *end = strstr(at, "\n## ");
    if (end) *end = '\0';
    while ((at = strstr(at, "\n| `")) != NULL) {
        char *from = strstr(at + 2, "` | "), *line = strchr(at + 1, '\n');
        assert_non_null(from);
        from += 4;
        size_t length = line ? (size_t)(line - from) : strlen(from);
        without_numbers(from, length >= 2 ? length - 2 : 0, row, sizeof row);
        int k = 0;
        while (k < n_messages_found && strcmp(messages_found[k], row) != 0) k++;
        if (k == n_messages_found) fail_msg("no test got the message of docs/monitor.md: %.400s", row);
        n_rows++;
        at++;
    }
    assert_true(n_rows > 10);
}

/* The first breach is of this rule; its message holds the words; the earlier call is of that function, "" for none. */
static inline void expect(const bench *t, plait_monitor_rule rule, const char *words, const char *earlier) {
    plait_monitor_violation found;
    if (!plait_monitor_get(t->monitor, 0, &found)) fail_msg("nothing was found");
    const plait_monitor_rule_info *info = plait_monitor_rule_of(found.rule);
    keep_message(&found);
    if (found.rule != rule)
        fail_msg("found %s, expected %s: %s", info->text, plait_monitor_rule_of(rule)->text, found.message);
    if (!strstr(found.message, words)) fail_msg("\"%s\" does not say \"%s\"", found.message, words);
    if (strcmp(found.earlier.function, earlier) != 0)
        fail_msg("the earlier call is \"%s\", expected \"%s\": %s", found.earlier.function, earlier,
                 found.message);
    assert_true(found.at.call > 0);
    assert_true((found.earlier.call > 0) == (earlier[0] != '\0'));
    assert_true(found.earlier.call < found.at.call || found.earlier.command >= 0);
}

static inline void expect_nothing(const bench *t) {
    plait_monitor_violation found;
    if (plait_monitor_get(t->monitor, 0, &found)) fail_msg("%s", found.message);
}

/* ---- objects ---- */

static inline plait_buffer *make_buffer(plait_device *device, uint64_t size_bytes) {
    plait_buffer *buffer = NULL;
    must(device->vtable->buffer_create(device, size_bytes, PLAIT_BUFFER_STATE, &buffer));
    return buffer;
}

static inline plait_queue *make_queue(plait_device *device, uint32_t flags) {
    plait_queue *queue = NULL;
    must(device->vtable->queue_create(device, flags, &queue));
    return queue;
}

static inline plait_event *make_event(plait_device *device) {
    plait_event *event = NULL;
    must(device->vtable->event_create(device, &event));
    return event;
}

static inline plait_status submit(plait_queue *queue, const plait_command *commands, int n) {
    return queue->device->vtable->submit(queue, commands, n);
}

static inline plait_status synchronise(plait_queue *queue) {
    return queue->device->vtable->synchronise(queue);
}

static inline void destroy_buffer(plait_buffer *buffer) {
    buffer->device->vtable->buffer_destroy(buffer);
}

static inline void destroy_queue(plait_queue *queue) {
    queue->device->vtable->queue_destroy(queue);
}

static inline void destroy_event(plait_event *event) {
    event->device->vtable->event_destroy(event);
}

/* ---- commands ---- */

static inline plait_command fill_of(plait_buffer *buffer, uint64_t offset, uint64_t n) {
    return (plait_command){.kind = PLAIT_COMMAND_FILL, .fill = {{buffer, offset, n}, 7}};
}

static inline plait_command write_of(plait_buffer *buffer, uint64_t offset, void *host, uint64_t n) {
    return (plait_command){.kind = PLAIT_COMMAND_WRITE,
                           .transfer = {.region = {buffer, offset, n}, .host = host}};
}

static inline plait_command read_of(plait_buffer *buffer, uint64_t offset, void *host, uint64_t n) {
    return (plait_command){.kind = PLAIT_COMMAND_READ,
                           .transfer = {.region = {buffer, offset, n}, .host = host}};
}

static inline plait_command copy_of(plait_buffer *from, uint64_t source, plait_buffer *to, uint64_t target,
                                    uint64_t n) {
    return (plait_command){.kind = PLAIT_COMMAND_COPY,
                           .copy = {.source = {from, source, n}, .target = {to, target, n}}};
}

static inline plait_command signal_of(plait_event *event, const uint64_t *value) {
    return (plait_command){.kind = PLAIT_COMMAND_SIGNAL, .signal = {.event = event, .value = value}};
}

static inline plait_command wait_of(plait_event *event, const uint64_t *value) {
    return (plait_command){.kind = PLAIT_COMMAND_WAIT, .wait = {.event = event, .value = value}};
}

/* ---- a program: sum = a + b over [8, n], n up to 4, in slot 0; scratch in slot 1 ---- */

enum { SUM_ROWS = 4, SUM_BYTES = 8 * SUM_ROWS * 4 };

/* Offsets of a, b and the sum. */
typedef struct sum_place {
    uint64_t a, b, sum, scratch;
} sum_place;

static const sum_place sum_usual = {0, 128, 256, 0};

typedef struct sum_segment {
    plait_segment_node node;
    plait_segment_operand operands[3];
} sum_segment;

static inline void make_sum_node(sum_segment *sum, const sum_place *at) {
    plait_op_use use;
    plait_op_use_init(&use, plait_op_get(PLAIT_OP_add));
    use.n_inputs = 2;
    use.present = 3;
    for (int i = 0; i < 2; i++) {
        use.inputs[i] = (plait_operand){.dtype = PLAIT_F32, .dims = {8, SUM_ROWS, 1, 1}};
        plait_operand_make_dense(&use.inputs[i]);
    }
    must(plait_op_infer(&use));
    sum->node = (plait_segment_node){.op = use.op,
                                     .name = "blk.7.sum",
                                     .n_inputs = 2,
                                     .n_outputs = 1,
                                     .present = 3,
                                     .inputs = sum->operands,
                                     .outputs = sum->operands + 2};
    const uint64_t offsets[3] = {at->a, at->b, at->sum};
    for (uint32_t i = 0; i < 3; i++)
        sum->operands[i] = (plait_segment_operand){.shape = i < 2 ? use.inputs[i] : use.outputs[0],
                                                   .outer = {0, 1, 1, 0, 1},
                                                   .value = i,
                                                   .storage = i,
                                                   .offset = offsets[i],
                                                   .needed_after = i == 2};
}

static inline plait_status compile_sum(plait_device *device, const sum_place *at, plait_program **out) {
    static const int64_t bound = SUM_ROWS;
    sum_segment sum;
    plait_prepared prepared;
    make_sum_node(&sum, at);
    plait_segment segment = {.struct_bytes = sizeof segment,
                             .n_nodes = 1,
                             .nodes = &sum.node,
                             .n_slots = 2,
                             .n_dims = 1,
                             .bounds = &bound};
    PLAIT_TRY(device->vtable->prepare(device, &segment, &prepared));
    for (int g = 0; g < prepared.n_groups; g++) {
        prepared.groups[g].scratch_slot = 1;
        prepared.groups[g].scratch_offset = at->scratch;
    }
    plait_status status = device->vtable->compile(device, &segment, &prepared, out);
    device->vtable->prepared_destroy(device, &prepared);
    return status;
}

static inline plait_program *make_sum(plait_device *device) {
    plait_program *program = NULL;
    must(compile_sum(device, &sum_usual, &program));
    return program;
}

static inline plait_command launch_of(const plait_program *program, plait_buffer *const *slots,
                                      const int64_t *dims) {
    return (plait_command){.kind = PLAIT_COMMAND_LAUNCH,
                           .launch = {.program = program, .slots = slots, .dims = dims}};
}

#endif
