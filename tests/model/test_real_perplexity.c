/* Perplexity and Kullback-Leibler divergence of the two real models against an exact reference (golden/models): per
 * text, with the cache in f16 and q8_0. Limits are those of the golden README. */
/* room: fit */
/* labels: slow serial */
#include "model/real_model.h"

enum { TOP = 256, RECORD_BYTES = 4 * (2 * TOP + 2) };

typedef struct sums {
    double nll, kld;
    int64_t n;
} sums;

/* KL divergence over the reference's 256 most probable tokens and the rest, and -log p of the next token. */
static void score(const unsigned char *record, const float *logits, int64_t n_vocab, plait_token target,
                  sums *out) {
    uint32_t ids[TOP];
    float logp[TOP], log_rest;
    memcpy(ids, record, sizeof ids);
    memcpy(logp, record + sizeof ids, sizeof logp);
    memcpy(&log_rest, record + sizeof ids + sizeof logp, sizeof log_rest);
    double total = log_sum_exp(logits, n_vocab), q_top = 0, kld = 0;
    for (int i = 0; i < TOP; i++) {
        double log_q = logits[ids[i]] - total;
        q_top += exp(log_q);
        kld += exp(logp[i]) * (logp[i] - log_q);
    }
    double q_rest = 1 - q_top;
    if (q_rest < 1e-30) q_rest = 1e-30;
    kld += exp(log_rest) * (log_rest - log(q_rest));
    out->kld += kld;
    out->nll += total - logits[target];
    out->n++;
}

/* Feeds a window in steps of the model's batch and scores the wanted positions. */
static void run_window(real_model *r, const plait_token *tokens, int64_t n, int64_t first, int64_t last,
                       int64_t step, const unsigned char **record, sums *out) {
    plait_seq seq;
    must(plait_session_begin(r->session, &seq));
    for (int64_t at = 0; at < n; at += r->facts.batch) {
        static plait_batch_item items[4096];
        int64_t m = n - at < r->facts.batch ? n - at : r->facts.batch, row = 0;
        for (int64_t i = 0; i < m; i++) {
            int64_t p = at + i;
            items[i] = (plait_batch_item){.token = tokens[p],
                                          .position = p,
                                          .seqs = &seq,
                                          .n_seqs = 1,
                                          .wants_output = p >= first && p <= last && (p - first) % step == 0};
        }
        must(plait_session_step(r->session, items, m));
        for (int64_t i = 0; i < m; i++) {
            const float *logits;
            if (!items[i].wants_output) continue;
            must(plait_session_logits(r->session, row++, &logits));
            score(*record, logits, r->facts.n_vocab, tokens[at + i + 1], out);
            *record += RECORD_BYTES;
        }
    }
    must(plait_session_drop(r->session, seq));
}

static void check_text(real_model *r, const plait_json *text, const char *peer_key, sums *total) {
    char name[64], relative[256], path[PLAIT_TEST_PATH_BYTES];
    size_t bytes;
    const plait_json *scored = plait_json_get(text, "scored_positions"),
                     *windows = plait_json_get(text, "tokens");
    snprintf(name, sizeof name, "%s", plait_json_get(text, "name")->u.string.bytes);
    snprintf(relative, sizeof relative, "models/%s/kld-%s.bin", r->folder, name);
    unsigned char *records = (unsigned char *)arch_read(plait_test_golden(relative, path), &bytes);
    const unsigned char *record = records;
    sums s = {0};
    for (size_t w = 0; w < windows->u.array.n_items; w++) {
        static plait_token tokens[4096];
        int64_t n = json_ids(&windows->u.array.items[w], tokens, 4096);
        run_window(r, tokens, n, (int64_t)json_number(plait_json_get(scored, "first")),
                   (int64_t)json_number(plait_json_get(scored, "last")),
                   (int64_t)json_number(plait_json_get(scored, "step")), &record, &s);
    }
    assert_ptr_equal(record, records + bytes);
    free(records);
    double reference = json_number(plait_json_get(plait_json_get(text, "reference"), "mean_nll"));
    double peer =
        json_number(plait_json_get(plait_json_get(plait_json_get(text, peer_key), "kld_top256"), "mean"));
    double nll = s.nll / (double)s.n, kld = s.kld / (double)s.n;
    print_message(
        "%-8s %-8s %s: %lld positions, nll %.5f (reference %+.5f), kld %.5f (peer %.5f, ratio %.3f)\n",
        r->folder, name, peer_key, (long long)s.n, nll, nll - reference, kld, peer, kld / peer);
    assert_true(fabs(nll - reference) <= 0.015);
    assert_true(kld <= 1.1 * peer);
    total->n += s.n;
    total->kld += s.kld;
    total->nll += s.nll;
}

static void check_model(const char *folder, const char *file, plait_dtype kv, const char *peer_key) {
    real_model r;
    plait_json_document document;
    sums total = {0};
    const plait_json *root = real_json(folder, "perplexity.json", &document),
                     *texts = plait_json_get(root, "texts");
    real_open(&r, folder, file, kv, 2304);
    for (size_t t = 0; t < texts->u.array.n_items; t++)
        check_text(&r, &texts->u.array.items[t], peer_key, &total);
    print_message("%s %s: %zu texts, %lld positions, mean kld %.5f\n", folder, peer_key,
                  texts->u.array.n_items, (long long)total.n, total.kld / (double)total.n);
    assert_int_equal(texts->u.array.n_items, 4);
    real_close(&r);
    plait_json_document_deinit(&document);
}

static void smollm2_f16(void **state) {
    (void)state;
    check_model("smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf", PLAIT_F16, "peer_kv_f16");
}

static void smollm2_q8_0(void **state) {
    (void)state;
    check_model("smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf", PLAIT_Q8_0, "peer_kv_q8_0");
}

static void gemma3_f16(void **state) {
    (void)state;
    check_model("gemma3", "gemma-3-270m-q4_k_m.gguf", PLAIT_F16, "peer_kv_f16");
}

static void gemma3_q8_0(void **state) {
    (void)state;
    check_model("gemma3", "gemma-3-270m-q4_k_m.gguf", PLAIT_Q8_0, "peer_kv_q8_0");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(smollm2_f16),
        cmocka_unit_test(smollm2_q8_0),
        cmocka_unit_test(gemma3_f16),
        cmocka_unit_test(gemma3_q8_0),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
