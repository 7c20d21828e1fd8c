/* Two sessions of one model, driven by two threads at once, give the bytes that each gives alone. */
/* room: fit */
/* labels: threads */
#include "model/session_case.h"

#include "base/thread.h"

enum { N_TOKENS = 60 };

/* What one thread does; failures are told to the main thread, which alone may fail a test. */
typedef struct work {
    const rig *r;
    plait_session *session;
    int stream;
    plait_token tokens[N_TOKENS];
    float *logits; /* [N_TOKENS][n_vocab] */
    plait_status status;
} work;

static plait_status run_session(work *w) {
    plait_seq seq = 0, fork = 0;
    plait_token token = token_at(w->r, w->stream, 0);
    PLAIT_TRY(plait_session_begin(w->session, &seq));
    for (int i = 0; i < N_TOKENS; i++) {
        const float *logits = NULL;
        PLAIT_TRY(step_one(w->session, seq, token));
        PLAIT_TRY(plait_session_argmax(w->session, 0, &w->tokens[i]));
        PLAIT_TRY(plait_session_logits(w->session, 0, &logits));
        memcpy(w->logits + i * w->r->n_vocab, logits, (size_t)w->r->n_vocab * sizeof *logits);
        token = i % 3 ? w->tokens[i] : token_at(w->r, w->stream, i);
        if (i % 20 != 10) continue; /* pages are copied now and then */
        PLAIT_TRY(plait_session_fork(w->session, seq, &fork));
        PLAIT_TRY(plait_session_drop(w->session, seq));
        seq = fork;
    }
    return plait_session_drop(w->session, seq);
}

static void *thread_main(void *argument) {
    work *w = argument;
    w->status = run_session(w);
    return NULL;
}

static void work_init(work *w, const rig *r, int stream) {
    *w = (work){.r = r, .stream = stream};
    must(plait_session_create(&w->session, r->model));
    w->logits = malloc((size_t)(N_TOKENS * r->n_vocab) * sizeof *w->logits);
    assert_non_null(w->logits);
}

static void work_deinit(work *w) {
    plait_session_destroy(w->session);
    free(w->logits);
}

static void two_threads_on(const char *devices) {
    rig r;
    work alone[2], together[2];
    plait_thread threads[2] = {0};
    rig_open(&r, "qwen3", devices, &(plait_model_options){.context = 128, .batch = 8, .sequences = 2});
    for (int t = 0; t < 2; t++) {
        work_init(&alone[t], &r, t);
        work_init(&together[t], &r, t);
        must(run_session(&alone[t]));
    }
    for (int t = 0; t < 2; t++) must(plait_thread_start(&threads[t], "session", thread_main, &together[t]));
    for (int t = 0; t < 2; t++) plait_thread_join(&threads[t]);
    for (int t = 0; t < 2; t++) {
        assert_int_equal(together[t].status, PLAIT_OK);
        assert_memory_equal(together[t].tokens, alone[t].tokens, sizeof alone[t].tokens);
        assert_rows_equal(&r, together[t].logits, alone[t].logits, N_TOKENS);
        work_deinit(&alone[t]);
        work_deinit(&together[t]);
    }
    rig_close(&r);
}

static void on_one_worker(void **state) {
    (void)state;
    two_threads_on("cpu:threads=1");
}

static void on_two_workers(void **state) {
    (void)state;
    two_threads_on("cpu:threads=2");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(on_one_worker),
        cmocka_unit_test(on_two_workers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
