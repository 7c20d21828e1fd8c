/* What is left after a device was lost: the context opened again on the others, the model in it, and a session there that
 * goes on where the old one was. Tokens are those of a life without trouble: the devices are of one numeric class. */
/* room: fit */
/* labels: model */
#include "model/session_case.h"

enum { N_PROMPT = 70, N_NEXT = 12, CONTEXT = 256 };

static const plait_model_options small = {.context = CONTEXT, .batch = 32, .sequences = 4};

/* Greedy continuation of two sequences that share most of their prompt, a token of each in turn. */
typedef struct talk {
    plait_seq seqs[2];
    plait_token tokens[2][N_NEXT];
    int made[2];
} talk;

static plait_status prompt(rig *r, talk *t) {
    plait_token tokens[N_PROMPT];
    for (int i = 0; i < N_PROMPT; i++) tokens[i] = token_at(r, 1, i);
    PLAIT_TRY(plait_session_begin(r->session, &t->seqs[0]));
    PLAIT_TRY(plait_session_feed(r->session, t->seqs[0], tokens, N_PROMPT - 2));
    PLAIT_TRY(plait_session_fork(r->session, t->seqs[0], &t->seqs[1]));
    for (int k = 0; k < 2; k++) PLAIT_TRY(step_one(r->session, t->seqs[k], tokens[N_PROMPT - 2 + k]));
    return PLAIT_OK;
}

/* Both sequences step together, so that each has an output. */
static plait_status both(rig *r, talk *t, plait_token a, plait_token b) {
    plait_batch_item items[] = {item_of(&t->seqs[0], a), item_of(&t->seqs[1], b)};
    return plait_session_step(r->session, items, 2);
}

static plait_status next_of_both(rig *r, talk *t) {
    plait_token ids[2];
    for (int k = 0; k < 2; k++) PLAIT_TRY(plait_session_argmax(r->session, k, &ids[k]));
    for (int k = 0; k < 2; k++) t->tokens[k][t->made[k]++] = ids[k];
    return both(r, t, ids[0], ids[1]);
}

static plait_status talk_on(rig *r, talk *t) {
    while (t->made[0] < N_NEXT) PLAIT_TRY(next_of_both(r, t));
    return PLAIT_OK;
}

static plait_status whole_talk(rig *r, talk *t) {
    PLAIT_TRY(prompt(r, t));
    PLAIT_TRY(both(r, t, token_at(r, 2, 0), token_at(r, 3, 0)));
    return talk_on(r, t);
}

/* ---- resuming without any loss ---- */

static void resume_in(rig *r, rig *fresh, const char *name, const char *devices) {
    rig_open(fresh, name, devices, &small);
    plait_session_destroy(fresh->session);
    must(plait_session_resume(&fresh->session, fresh->model, r->session));
    check_pages_of(fresh->session);
}

static void a_session_goes_on_in_another_model(void **state) {
    static const char *const names[] = {"llama-dense", "gemma3", "qwen3"};
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        rig r, fresh;
        talk whole = {0}, half = {0};
        rig_open(&r, names[i], "cpu:threads=1", &small);
        must(whole_talk(&r, &whole));
        rig_close(&r);
        rig_open(&r, names[i], "cpu:threads=1", &small);
        must(prompt(&r, &half));
        must(both(&r, &half, token_at(&r, 2, 0), token_at(&r, 3, 0)));
        for (int k = 0; k < 4; k++) must(next_of_both(&r, &half));
        resume_in(&r, &fresh, names[i], "cpu:threads=2");
        for (int k = 0; k < 2; k++) {
            int64_t n = plait_session_length(r.session, half.seqs[k]);
            assert_int_equal(plait_session_length(fresh.session, half.seqs[k]), n);
            assert_memory_equal(plait_session_tokens(fresh.session, half.seqs[k]),
                                plait_session_tokens(r.session, half.seqs[k]),
                                (size_t)n * sizeof(plait_token));
        }
        rig_close(&r);
        must(talk_on(&fresh, &half));
        assert_memory_equal(half.tokens, whole.tokens, sizeof whole.tokens);
        rig_close(&fresh);
    }
}

/* Pages of a common prefix are taken once. */
static void common_prefixes_are_shared(void **state) {
    rig r, fresh;
    talk t = {0};
    plait_seq more = 0;
    (void)state;
    rig_open(&r, "llama-dense", "cpu:threads=1", &small);
    must(prompt(&r, &t));
    must(plait_session_fork(r.session, t.seqs[1], &more));
    resume_in(&r, &fresh, "llama-dense", "cpu:threads=1");
    /* 70 tokens are two pages; the first one is common, the second one of the first sequence is its own. */
    assert_int_equal(pages_used(fresh.session, 0), 3);
    rig_close(&r);
    rig_close(&fresh);
}

static void what_does_not_fit_is_refused(void **state) {
    rig r, fresh;
    talk t = {0};
    plait_session *made = NULL;
    (void)state;
    rig_open(&r, "llama-dense", "cpu:threads=1", &small);
    must(prompt(&r, &t));
    rig_open(&fresh, "llama-dense", "cpu:threads=1",
             &(plait_model_options){.context = 64, .batch = 8, .sequences = 4});
    assert_fails(plait_session_resume(&made, fresh.model, r.session), PLAIT_OUT_OF_RANGE, "64");
    rig_close(&fresh);
    rig_open(&fresh, "llama-dense", "cpu:threads=1", &(plait_model_options){.context = 128, .sequences = 1});
    assert_fails(plait_session_resume(&made, fresh.model, r.session), PLAIT_LIMIT, "sequence 1");
    assert_null(made);
    rig_close(&fresh);
    rig_close(&r);
}

/* ---- after a loss ---- */

static plait_context *reopened(plait_context *lost, int n_expected) {
    int numbers[4] = {-1, -1, -1, -1};
    plait_context *context = NULL;
    assert_int_equal(plait_context_health(lost), PLAIT_DEVICE_LOST);
    must(plait_context_reopen(&context, lost, numbers));
    assert_int_equal(plait_context_device_count(context), n_expected);
    for (int i = 0; i < n_expected; i++) assert_int_equal(numbers[i], i + 1); /* the first one was lost */
    return context;
}

/* A context whose first device is lost at its n-th command. False when the talk ends before. */
static bool talk_with_loss(int n, const char *rest, int n_rest, const talk *whole) {
    char list[96], path[PLAIT_TEST_PATH_BYTES];
    talk t = {0};
    rig r = {0}, fresh = {0};
    plait_pin pin = {"blk.1.*", 0};
    plait_model_options options = small;
    options.pins = &pin;
    options.n_pins = 1;
    snprintf(list, sizeof list, "sim:lose=%d,%s", n, rest);
    must(plait_context_open(&r.context, list, NULL));
    plait_test_golden("archs/llama-dense.gguf", path);
    plait_status status = plait_model_open(&r.model, r.context, path, &options);
    if (status == PLAIT_OK) {
        plait_model_facts facts;
        plait_model_describe(r.model, &facts);
        r.n_vocab = facts.n_vocab;
        status = plait_session_create(&r.session, r.model);
    }
    if (status == PLAIT_OK) status = whole_talk(&r, &t);
    if (status == PLAIT_OK) {
        rig_close(&r);
        return false;
    }
    assert_int_equal(status, PLAIT_DEVICE_LOST);
    assert_non_null(strstr(plait_error_message(), "sim"));
    fresh.context = reopened(r.context, n_rest);
    fresh.n_vocab = whole == NULL ? 0 : r.n_vocab;
    must(plait_model_open(&fresh.model, fresh.context, path, &small));
    plait_model_facts facts;
    plait_model_describe(fresh.model, &facts);
    fresh.n_vocab = facts.n_vocab;
    /* Before the prompt is whole there is nothing to go on from: the caller begins again. */
    bool begun = t.made[0] > 0 && t.made[0] == t.made[1];
    if (begun)
        must(plait_session_resume(&fresh.session, fresh.model, r.session));
    else
        must(plait_session_create(&fresh.session, fresh.model));
    rig_close(&r);
    if (begun) {
        must(talk_on(&fresh, &t));
    } else {
        t = (talk){0};
        must(whole_talk(&fresh, &t));
    }
    assert_memory_equal(t.tokens, whole->tokens, sizeof t.tokens);
    rig_close(&fresh);
    return true;
}

static void losses_at_many_commands(void **state) {
    rig r;
    talk whole = {0};
    int lost = 0;
    (void)state;
    rig_open(&r, "llama-dense", "cpu:threads=1", &small);
    must(whole_talk(&r, &whole));
    rig_close(&r);
    for (int n = 1; n < 100000; n += 1 + n / 6) {
        if (!talk_with_loss(n, "cpu:threads=1", 1, &whole)) break;
        lost++;
    }
    assert_true(lost > 10);
    assert_true(talk_with_loss(60, "sim,cpu:threads=1", 2, &whole));
    print_message("%d losses\n", lost);
}

static void none_is_left(void **state) {
    plait_context *context = NULL, *other = NULL;
    (void)state;
    must(plait_context_open(&context, "sim:lose=1", NULL));
    plait_device *device = plait_context_device(context, 0);
    plait_buffer *buffer = NULL;
    must(device->vtable->buffer_create(device, 64, PLAIT_BUFFER_STATE, &buffer));
    plait_queue *queue = NULL;
    must(device->vtable->queue_create(device, 0, &queue));
    plait_command fill = {.kind = PLAIT_COMMAND_FILL, .fill = {{buffer, 0, 64}, 1}};
    must(device->vtable->submit(queue, &fill, 1));
    assert_int_equal(device->vtable->synchronise(queue), PLAIT_DEVICE_LOST);
    assert_fails(plait_context_reopen(&other, context, NULL), PLAIT_DEVICE_LOST, "none of the 1 devices");
    device->vtable->queue_destroy(queue);
    device->vtable->buffer_destroy(buffer);
    plait_context_close(context);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_session_goes_on_in_another_model),
        cmocka_unit_test(common_prefixes_are_shared),
        cmocka_unit_test(what_does_not_fit_is_refused),
        cmocka_unit_test(losses_at_many_commands),
        cmocka_unit_test(none_is_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
