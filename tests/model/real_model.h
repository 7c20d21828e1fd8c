/* One of the two real models with its golden folder, opened for a test. */
#ifndef PLAIT_TESTS_MODEL_REAL_MODEL_H
#define PLAIT_TESTS_MODEL_REAL_MODEL_H

#include "model/arch_case.h"
#include "text/json.h"

typedef struct real_model {
    const char *folder, *file;
    plait_context *context;
    plait_model *model;
    plait_session *session;
    plait_model_facts facts;
} real_model;

static inline void real_open(real_model *r, const char *folder, const char *file, plait_dtype kv,
                             int64_t context) {
    char path[PLAIT_TEST_PATH_BYTES];
    plait_model_options options = {.context = context, .kv_given = true, .k_type = kv, .v_type = kv};
    memset(r, 0, sizeof *r);
    r->folder = folder;
    r->file = file;
    if (!plait_test_model(file, path)) fail_msg("%s is missing: scripts/get-models fetches it", file);
    must(plait_context_open(&r->context, "cpu", NULL));
    must(plait_model_open(&r->model, r->context, path, &options));
    must(plait_session_create(&r->session, r->model));
    plait_model_describe(r->model, &r->facts);
}

static inline void real_close(real_model *r) {
    plait_session_destroy(r->session);
    plait_model_release(r->model);
    plait_context_close(r->context);
}

/* A JSON file of the model's golden folder. */
static inline const plait_json *real_json(const char *folder, const char *name,
                                          plait_json_document *document) {
    char relative[256], path[PLAIT_TEST_PATH_BYTES];
    size_t bytes;
    snprintf(relative, sizeof relative, "models/%s/%s", folder, name);
    char *text = arch_read(plait_test_golden(relative, path), &bytes);
    must(plait_json_parse(document, text, bytes, NULL));
    free(text);
    return document->root;
}

static inline double json_number(const plait_json *value) {
    assert_non_null(value);
    return value->kind == PLAIT_JSON_INTEGER ? (double)value->u.integer : value->u.real;
}

static inline int64_t json_ids(const plait_json *value, plait_token *out, int64_t capacity) {
    assert_non_null(value);
    assert_int_equal(value->kind, PLAIT_JSON_ARRAY);
    int64_t n = (int64_t)value->u.array.n_items;
    assert_true(n <= capacity);
    for (int64_t i = 0; i < n; i++) out[i] = (plait_token)value->u.array.items[i].u.integer;
    return n;
}

/* log of the sum of exp over the vocabulary, in float64. */
static inline double log_sum_exp(const float *logits, int64_t n) {
    double most = logits[0], sum = 0;
    for (int64_t i = 1; i < n; i++) most = logits[i] > most ? logits[i] : most;
    for (int64_t i = 0; i < n; i++) sum += exp(logits[i] - most);
    return most + log(sum);
}

#endif
