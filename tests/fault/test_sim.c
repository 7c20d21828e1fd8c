/* Every n-th failure of a device, and its loss at every n-th command, while a model is opened, fed and asked on it: each
 * time a status with the device's message, nothing left allocated, mapped or open, and afterwards the same context gives
 * the right numbers; or says for good that its device is lost. */
/* labels: threads */
#define _GNU_SOURCE
#include "fault/fault.h"
#include "plait/session.h"
#include "support/paths.h"

#include <setjmp.h>
#include <string.h>

#include <cmocka.h>

#include <dirent.h>
#include <unistd.h>

enum { N_PROMPT = 5, N_NEXT = 2, MAX_VOCAB = 1024, MANY = 5000, FEW = 12, SECONDS = 120 };

static void must(plait_status status) {
    if (status != PLAIT_OK) fail_msg("%s: %s", plait_status_name(status), plait_error_message());
}

/* ---- what a life computes ---- */

typedef struct answer {
    float logits[MAX_VOCAB];
    plait_token tokens[N_NEXT];
} answer;

static plait_status ask(plait_session *session, int64_t n_vocab, answer *out) {
    static const plait_token prompt[N_PROMPT] = {1, 5, 9, 2, 44};
    const float *logits;
    plait_seq seq = 0;
    PLAIT_TRY(plait_session_begin(session, &seq));
    PLAIT_TRY(plait_session_feed(session, seq, prompt, N_PROMPT));
    PLAIT_TRY(plait_session_logits(session, 0, &logits));
    memcpy(out->logits, logits, (size_t)n_vocab * sizeof *logits);
    for (int i = 0; i < N_NEXT; i++) PLAIT_TRY(plait_session_next(session, seq, NULL, &out->tokens[i]));
    return PLAIT_OK;
}

typedef struct life {
    const char *list; /* device list, with a place for what goes wrong */
    const plait_pin *pins;
    int n_pins;
    char path[PLAIT_TEST_PATH_BYTES];
} life;

static plait_status use_model(plait_context *context, const life *l, answer *out) {
    plait_model_options options = {
        .context = 64, .batch = 16, .sequences = 2, .pins = l->pins, .n_pins = l->n_pins};
    plait_model *model = NULL;
    plait_session *session = NULL;
    plait_model_facts facts;
    PLAIT_TRY(plait_model_open(&model, context, l->path, &options));
    plait_model_describe(model, &facts);
    assert_true(facts.n_vocab <= MAX_VOCAB);
    memset(out, 0, sizeof *out);
    plait_status status = plait_session_create(&session, model);
    if (status == PLAIT_OK) status = ask(session, facts.n_vocab, out);
    plait_session_destroy(session);
    plait_model_release(model);
    return status;
}

/* ---- what is taken ---- */

typedef struct taken {
    size_t blocks, bytes;
    int files, mappings, threads;
} taken;

static int count_entries(const char *path) {
    int n = 0;
    DIR *folder = opendir(path);
    assert_non_null(folder);
    while (readdir(folder)) n++;
    closedir(folder);
    return n;
}

static int count_mappings(void) {
    char line[512];
    int n = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    assert_non_null(maps);
    while (fgets(line, sizeof line, maps)) n += strstr(line, "plait-sim") != NULL;
    fclose(maps);
    return n;
}

static taken take_stock(void) {
    return (taken){fault_live_blocks(), fault_live_bytes(), count_entries("/proc/self/fd"), count_mappings(),
                   count_entries("/proc/self/task")};
}

static bool equal(const taken *a, const taken *b) {
    return a->blocks == b->blocks && a->bytes == b->bytes && a->files == b->files &&
           a->mappings == b->mappings && a->threads == b->threads;
}

static void assert_as_before(const taken *before, const char *item) {
    taken now = take_stock();
    /* A thread that was joined may take a moment to leave the list. */
    for (int i = 0; now.threads != before->threads && i < 1000; i++) {
        usleep(1000);
        now = take_stock();
    }
    if (!equal(before, &now))
        fail_msg("%s: %zu blocks, %zu bytes, %d files, %d mappings, %d threads; before %zu, %zu, %d, %d, %d",
                 item, now.blocks, now.bytes, now.files, now.mappings, now.threads, before->blocks,
                 before->bytes, before->files, before->mappings, before->threads);
}

/* ---- the sweep ---- */

/* A failure while commands run is for good for the queue, and so for its context. */
static bool kills_queue(const char *trouble) {
    return !strcmp(trouble, "fail-copy") || !strcmp(trouble, "fail-launch") || !strcmp(trouble, "fail-wait");
}

/* A refusal to prepare or compile may lead to another plan, in which other words stand for the failure, or none. */
static bool may_be_mended(const char *trouble) {
    return !strcmp(trouble, "fail-prepare") || !strcmp(trouble, "fail-compile");
}

static const char *without_trouble(const life *l, char *out, size_t size_bytes) {
    snprintf(out, size_bytes, l->list, "nan=yes");
    return out;
}

/* One context in which something goes wrong once: true when it did. */
static bool one_life(const life *l, const char *trouble, int n, const answer *expected) {
    char list[256], option[64];
    plait_context *context = NULL;
    answer got;
    bool lost = strncmp(trouble, "lose", 4) == 0;
    snprintf(option, sizeof option, "%s=%d", trouble, n);
    snprintf(list, sizeof list, l->list, option);
    alarm(SECONDS); /* waiting for ever is a failure as well */
    taken before = take_stock();
    must(plait_context_open(&context, list, NULL));
    plait_error_set(PLAIT_INTERNAL, "no message was left");
    plait_status status = use_model(context, l, &got);
    bool hit = status != PLAIT_OK;
    const char *words = may_be_mended(trouble) ? "" : lost ? "is lost" : "fails, as was asked for";
    if (hit &&
        (!strstr(plait_error_message(), words) || strstr(plait_error_message(), "no message was left")))
        fail_msg("%s: %s: %s", list, plait_status_name(status), plait_error_message());
    if (lost && hit) assert_int_equal(status, PLAIT_DEVICE_LOST);
    if (hit) {
        if (!lost && kills_queue(trouble)) {
            plait_context_close(context);
            must(plait_context_open(&context, without_trouble(l, list, sizeof list), NULL));
        }
        status = use_model(context, l, &got);
        if (status != (lost ? PLAIT_DEVICE_LOST : PLAIT_OK))
            fail_msg("%s, once more: %s: %s", list, plait_status_name(status), plait_error_message());
    }
    if (status == PLAIT_OK) assert_memory_equal(&got, expected, sizeof got);
    plait_context_close(context);
    assert_as_before(&before, list);
    alarm(0);
    return hit;
}

static void sweep(const char *list, const char *model, const plait_pin *pins, int n_pins) {
    static const char *const troubles[] = {"fail-alloc",  "fail-prepare", "fail-compile", "fail-copy",
                                           "fail-launch", "fail-wait",    "lose"};
    static answer expected;
    life l = {.list = list, .pins = pins, .n_pins = n_pins};
    char relative[128];
    plait_context *context = NULL;
    snprintf(relative, sizeof relative, "archs/%s.gguf", model);
    plait_test_golden(relative, l.path);
    must(plait_context_open(&context, "cpu:threads=1", NULL));
    life plain = l;
    plain.pins = NULL;
    plain.n_pins = 0;
    must(use_model(context, &plain, &expected));
    plait_context_close(context);
    for (size_t t = 0; t < sizeof troubles / sizeof troubles[0]; t++) {
        int n = 1;
        while (n < MANY &&
               (one_life(&l, troubles[t], n, &expected) || (may_be_mended(troubles[t]) && n < FEW)))
            n++;
        print_message("%s on %s: %s: %d failures\n", model, list, troubles[t], n - 1);
        assert_true(n > 1 && n < MANY);
    }
}

static void alone(void **state) {
    (void)state;
    sweep("sim:%s", "llama-gqa-quant", NULL, 0);
}

/* Speeds are stated: measuring would use up the failures. Half of the blocks on each: transfers, waits for one another. */
static void with_cpu(void **state) {
    static const plait_pin pins[] = {{"blk.1.*", 1}};
    (void)state;
    sweep("sim:%s:flops=1T,cpu:threads=1", "gemma3", pins, 1);
}

static void two_alike(void **state) {
    static const plait_pin pins[] = {{"blk.1.*", 1}};
    (void)state;
    sweep("sim:%s:flops=1T,sim:flops=1T", "llama-gqa-quant", pins, 1);
}

/* What comes with the first thread of a process (of sanitizers, say) is there before anything is counted. */
static int start_threads(void **state) {
    plait_context *context = NULL;
    (void)state;
    plait_status status = plait_context_open(&context, "sim", NULL);
    plait_context_close(context);
    return status == PLAIT_OK ? 0 : -1;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(alone),
        cmocka_unit_test(with_cpu),
        cmocka_unit_test(two_alike),
    };
    return cmocka_run_group_tests(tests, start_threads, NULL);
}
