/* room: run */
/* mutations: 24 */
/* Any text as a device list and as pins: the first line is the list, each further one a pin "PATTERN=NUMBER"; a line
 * "exact" or "file" sets an option. What opens must plan a small decoder, or say which node no device runs; the plan must
 * be proved, printable, and run a step. What does not open must leave a message. */
#include "plait/run.h"

#include "support/decoder.h"
#include "support/fake_device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MAX_PINS = 16, MAX_LIST = 256, MAX_ITEMS = 6, MAX_THREADS = 3 };

typedef struct setting {
    char text[2048];
    const char *devices;
    plait_pin pins[MAX_PINS];
    int n_pins;
    bool exact, no_packing;
} setting;

static void broken(const char *what) {
    fprintf(stderr, "%s: %s\n", what, plait_error_message());
    abort();
}

static void read_line(setting *s, char *line) {
    char *number = strrchr(line, '=');
    if (strcmp(line, "exact") == 0) {
        s->exact = true;
    } else if (strcmp(line, "file") == 0) {
        s->no_packing = true;
    } else if (number && s->n_pins < MAX_PINS) {
        *number = '\0';
        s->pins[s->n_pins++] = (plait_pin){line, atoi(number + 1)};
    }
}

/* Keys of simulated devices with which something goes wrong, takes long, or finds no room. */
static bool asks_for_trouble(const char *list) {
    static const char *const keys[] = {"fail-",      "lose",    "mem",        "pad",       "granularity",
                                       "max-buffer", "latency", "delay-max",  "bandwidth", "flops",
                                       "overhead",   "speed",   "copy-queues"};
    bool sim = strstr(list, "sim") != NULL;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (sim && strstr(list, keys[i])) return true;
    return false;
}

/* Lists that would take more threads or devices than a test should are left out, and odd alignments, which only the
 * fake device takes. */
static bool modest(const char *list) {
    int items = 1;
    if (strlen(list) > MAX_LIST || strstr(list, "align=") || asks_for_trouble(list)) return false;
    for (const char *p = list; *p; p++) items += *p == ',';
    for (const char *p = list; (p = strstr(p, "threads")); p++)
        if (p[7] != '=' || atoi(p + 8) > MAX_THREADS || strspn(p + 8, "0123456789") > 1) return false;
    for (const char *p = list; (p = strstr(p, "group=")); p++)
        if (atoi(p + 6) < 1) return false;
    return items <= MAX_ITEMS;
}

static void read_setting(setting *s, const uint8_t *data, size_t size) {
    size_t n = size < sizeof s->text - 1 ? size : sizeof s->text - 1;
    memset(s, 0, sizeof *s);
    if (n) memcpy(s->text, data, n);
    s->devices = s->text;
    char *line = strchr(s->text, '\n');
    while (line) {
        *line++ = '\0';
        char *next = strchr(line, '\n');
        if (next) *next = '\0';
        read_line(s, line);
        line = next;
    }
}

static plait_status print_all(const plait_plan *plan) {
    char *text[3] = {NULL, NULL, NULL};
    plait_status status = plait_plan_print(plan, &text[0]);
    if (status == PLAIT_OK) status = plait_plan_print_json(plan, &text[1]);
    if (status == PLAIT_OK) status = plait_plan_print_html(plan, &text[2]);
    for (int i = 0; i < 3; i++) free(text[i]);
    return status;
}

static void run_plan(plait_plan *plan) {
    plait_run *run = NULL;
    const void *bytes;
    uint64_t n_bytes;
    if (print_all(plan) != PLAIT_OK) broken("printing");
    if (plait_run_create(&run, plan, NULL) != PLAIT_OK) broken("run");
    for (int i = 0; i < 2; i++)
        if (plait_run_set_dim(run, "tokens", i) != PLAIT_OK || plait_run_step(run) != PLAIT_OK)
            broken("step");
    if (plait_run_output(run, "x", &bytes, &n_bytes) != PLAIT_OK) broken("output");
    plait_run_destroy(run);
}

static plait_status no_weight(void *user, const char *name, plait_operand *out, bool *lasting) {
    static const float zeros[64 * 64];
    const plait_graph *graph = user;
    plait_tensor tensor;
    plait_tensor_info info;
    PLAIT_TRY(plait_graph_find(graph, name, &tensor));
    PLAIT_TRY(plait_tensor_describe(graph, tensor, &info));
    *out = (plait_operand){.dtype = info.dtype, .data = (void *)(uintptr_t)zeros};
    memcpy(out->dims, info.bounds, sizeof out->dims);
    if (!plait_operand_make_dense(out)) broken("weight");
    *lasting = true;
    return PLAIT_OK;
}

static void plan_it(const setting *s, plait_context *context, plait_graph *graph) {
    const plait_graph *graphs[] = {graph};
    plait_residence *residence = NULL;
    plait_plan *plan = NULL;
    plait_residence_options options = {.pins = s->pins, .n_pins = s->n_pins, .no_packing = s->no_packing};
    plait_status status = plait_residence_create(&residence, context, graphs, 1, &options);
    if (status == PLAIT_OK) {
        if (plait_residence_load(residence, &(plait_weight_source){.find = no_weight, .user = graph}) !=
            PLAIT_OK)
            broken("load");
        status = plait_plan_make(&plan, context, graph,
                                 &(plait_plan_options){.residence = residence, .exact = s->exact});
    }
    bool said = status == PLAIT_UNSUPPORTED ? strstr(plait_error_message(), "no device runs") != NULL
                                            : status == PLAIT_INVALID_ARGUMENT || status == PLAIT_OK;
    if (!said) broken("plan");
    if (plan) run_plan(plan);
    plait_plan_release(plan);
    plait_residence_release(residence);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    setting s;
    plait_context *context = NULL;
    if (fake_register() != PLAIT_OK) broken("register");
    read_setting(&s, data, size);
    if (!modest(s.devices)) return 0;
    if (plait_context_open(&context, s.devices, &(plait_context_options){.threads = 1}) != PLAIT_OK) {
        if (context || plait_error_message()[0] == '\0') broken("a failure without a message");
        return 0;
    }
    plait_graph *graph = decoder_make(2, 32, 2);
    if (!graph) broken("graph");
    plan_it(&s, context, graph);
    plait_context_close(context);
    plait_graph_destroy(graph);
    return 0;
}
