/* Reading the golden data of one small architecture: model file, token ids, expected logits. */
#ifndef PLAIT_TESTS_MODEL_ARCH_CASE_H
#define PLAIT_TESTS_MODEL_ARCH_CASE_H

#include "plait/session.h"
#include "support/paths.h"

#include <math.h>
#include <setjmp.h>
#include <stdbool.h>
#include <string.h>

#include <cmocka.h>

typedef struct arch_case {
    char model[PLAIT_TEST_PATH_BYTES];
    plait_token tokens[512];
    int64_t n_tokens, n_vocab;
    float *expected; /* [n_tokens][n_vocab]; of a quantised model: those of its weights in float32 */
    double std;
} arch_case;

static inline char *arch_read(const char *path, size_t *out_bytes) {
    FILE *f = fopen(path, "rb");
    if (!f) fail_msg("%s cannot be opened", path);
    fseek(f, 0, SEEK_END);
    long n = ftell(f);
    rewind(f);
    char *bytes = malloc((size_t)n + 1);
    assert_non_null(bytes);
    assert_int_equal(fread(bytes, 1, (size_t)n, f), n);
    fclose(f);
    bytes[n] = '\0';
    if (out_bytes) *out_bytes = (size_t)n;
    return bytes;
}

/* True when the folder at hand has the model. */
static inline bool arch_exists(const char *name) {
    char relative[128], path[PLAIT_TEST_PATH_BYTES];
    struct stat st;
    snprintf(relative, sizeof relative, "archs/%s.gguf", name);
    return stat(plait_test_golden(relative, path), &st) == 0;
}

static inline void arch_load(const char *name, bool quantised, arch_case *out) {
    char relative[128], path[PLAIT_TEST_PATH_BYTES];
    size_t bytes;
    memset(out, 0, sizeof *out);
    snprintf(relative, sizeof relative, "archs/%s.gguf", name);
    plait_test_golden(relative, out->model);
    snprintf(relative, sizeof relative, "archs/%s.json", name);
    char *json = arch_read(plait_test_golden(relative, path), NULL);
    char *p = strstr(json, "\"tokens\": [");
    assert_non_null(p);
    for (p += strlen("\"tokens\": ["); *p != ']' && out->n_tokens < 512;) {
        out->tokens[out->n_tokens++] = (plait_token)strtol(p, &p, 10);
        p += strcspn(p, "0123456789]");
    }
    free(json);
    snprintf(relative, sizeof relative, quantised ? "archs/%s.exact.logits.f32" : "archs/%s.logits.f32",
             name);
    out->expected = (float *)(void *)arch_read(plait_test_golden(relative, path), &bytes);
    out->n_vocab = (int64_t)(bytes / sizeof(float)) / out->n_tokens;
    double sum = 0, squares = 0, n = (double)(out->n_tokens * out->n_vocab);
    for (int64_t i = 0; i < out->n_tokens * out->n_vocab; i++)
        sum += out->expected[i], squares += (double)out->expected[i] * out->expected[i];
    out->std = sqrt(squares / n - sum / n * sum / n);
    if (out->std < 1) out->std = 1;
}

static inline void must(plait_status status) {
    if (status != PLAIT_OK) fail_msg("%s: %s", plait_status_name(status), plait_error_message());
}

/* Feeds all tokens of the case in pieces of `piece` and stores the logits of every position. */
static inline void arch_run(plait_session *session, const arch_case *c, int64_t piece, float *out) {
    plait_seq seq;
    must(plait_session_begin(session, &seq));
    for (int64_t at = 0; at < c->n_tokens; at += piece) {
        plait_batch_item items[512];
        int64_t n = c->n_tokens - at < piece ? c->n_tokens - at : piece;
        for (int64_t i = 0; i < n; i++)
            items[i] = (plait_batch_item){.token = c->tokens[at + i],
                                          .position = at + i,
                                          .seqs = &seq,
                                          .n_seqs = 1,
                                          .wants_output = true};
        must(plait_session_step(session, items, n));
        assert_int_equal(plait_session_n_outputs(session), n);
        for (int64_t i = 0; i < n; i++) {
            const float *logits;
            must(plait_session_logits(session, i, &logits));
            memcpy(out + (at + i) * c->n_vocab, logits, (size_t)c->n_vocab * sizeof *out);
        }
    }
    must(plait_session_drop(session, seq));
}

/* Largest and root mean square difference from the expected, in standard deviations. */
static inline void arch_difference(const arch_case *c, const float *got, double *out_max, double *out_rms) {
    double most = 0, squares = 0;
    for (int64_t i = 0; i < c->n_tokens * c->n_vocab; i++) {
        double d = fabs((double)got[i] - c->expected[i]) / c->std;
        if (!(d <= most)) most = d;
        squares += d * d;
    }
    *out_max = most;
    *out_rms = sqrt(squares / (double)(c->n_tokens * c->n_vocab));
}

#endif
