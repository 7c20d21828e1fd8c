/* The golden prompts of the two real models: equal token ids, KL divergence at recorded positions, greedy text that
 * follows the exact reference wherever its margin is above the README's tolerance. */
/* room: fit */
/* labels: slow serial */
#include "model/real_model.h"

enum { MAX_TOKENS = 4096, N_GREEDY = 64 };

/* Token ids of the prompt's text: special tokens are recognised in chat prompts only. */
static void check_tokens(const real_model *r, const plait_json *prompt, const plait_token *expected,
                         int64_t n) {
    const plait_json *text = plait_json_get(prompt, "text");
    bool chat = strcmp(plait_json_get(prompt, "kind")->u.string.bytes, "chat") == 0;
    const plait_tokenizer *tokenizer = plait_model_tokenizer(r->model);
    plait_tokenizer_scratch *scratch;
    plait_tokens got = {0};
    must(plait_tokenizer_scratch_create(&scratch, tokenizer));
    must(plait_tokenize(
        tokenizer, scratch, text->u.string.bytes, text->u.string.n_bytes,
        PLAIT_TOKENIZE_ADD_SPECIAL | (chat ? PLAIT_TOKENIZE_PARSE_SPECIAL : PLAIT_TOKENIZE_UNTRUSTED), &got));
    assert_int_equal(got.n, n);
    assert_memory_equal(got.ids, expected, (size_t)n * sizeof *expected);
    plait_tokens_deinit(&got);
    plait_tokenizer_scratch_destroy(scratch);
}

/* Feeds the prompt; the logits at the recorded positions must have the reference's best token near the top. */
static void check_positions(real_model *r, const plait_json *prompt, plait_seq seq, const plait_token *tokens,
                            int64_t n, double *out_worst) {
    const plait_json *positions = plait_json_get(prompt, "positions"),
                     *reference = plait_json_get(prompt, "reference");
    for (int64_t at = 0; at < n; at += r->facts.batch) {
        static plait_batch_item items[MAX_TOKENS];
        int64_t m = n - at < r->facts.batch ? n - at : r->facts.batch, row = 0;
        for (int64_t i = 0; i < m; i++) {
            bool wanted = at + i == n - 1;
            for (size_t k = 0; k < positions->u.array.n_items; k++)
                wanted |= positions->u.array.items[k].u.integer == at + i;
            items[i] = (plait_batch_item){
                .token = tokens[at + i], .position = -1, .seqs = &seq, .n_seqs = 1, .wants_output = wanted};
        }
        must(plait_session_step(r->session, items, m));
        for (size_t k = 0; k < positions->u.array.n_items; k++) {
            int64_t p = positions->u.array.items[k].u.integer;
            const float *logits;
            if (p < at || p >= at + m) continue;
            must(plait_session_logits(r->session, row++, &logits));
            const plait_json *ids = &plait_json_get(reference, "top_ids")->u.array.items[k];
            const plait_json *tops = &plait_json_get(reference, "top_logits")->u.array.items[k];
            for (int t = 0; t < 8; t++) {
                double d =
                    fabs(logits[ids->u.array.items[t].u.integer] - json_number(&tops->u.array.items[t]));
                if (d > *out_worst) *out_worst = d;
            }
        }
    }
}

/* Steps until the greedy continuation leaves the reference's; checks the margin there. */
static int64_t check_greedy(real_model *r, const plait_json *prompt, plait_seq seq) {
    const plait_json *greedy = plait_json_get(prompt, "greedy"),
                     *reference = plait_json_get(greedy, "reference");
    const plait_json *ids = plait_json_get(reference, "ids"), *margins = plait_json_get(reference, "margin");
    const plait_json *peer = plait_json_get(greedy, "peer_first_difference");
    double allowed = 0.5;
    if (peer && peer->kind == PLAIT_JSON_INTEGER) {
        double margin = json_number(&margins->u.array.items[peer->u.integer]);
        if (margin > allowed) allowed = margin;
    }
    for (int64_t step = 0; step < N_GREEDY; step++) {
        plait_token token;
        must(plait_session_next(r->session, seq, NULL, &token));
        if (token == ids->u.array.items[step].u.integer) continue;
        double margin = json_number(&margins->u.array.items[step]);
        if (margin > allowed)
            fail_msg("%s: greedy step %lld: token %d, the reference's %lld with margin %.3f, allowed %.3f",
                     plait_json_get(prompt, "name")->u.string.bytes, (long long)step, token,
                     (long long)ids->u.array.items[step].u.integer, margin, allowed);
        return step;
    }
    return N_GREEDY;
}

static void check_model(const char *folder, const char *file, size_t n_expected) {
    real_model r;
    plait_json_document document;
    const plait_json *prompts = real_json(folder, "prompts.json", &document);
    int64_t ours = 0, peers = 0;
    double worst = 0;
    real_open(&r, folder, file, PLAIT_F16, 2560);
    for (size_t i = 0; i < prompts->u.array.n_items; i++) {
        static plait_token tokens[MAX_TOKENS];
        const plait_json *prompt = &prompts->u.array.items[i];
        int64_t n = json_ids(plait_json_get(prompt, "tokens"), tokens, MAX_TOKENS);
        plait_seq seq;
        check_tokens(&r, prompt, tokens, n);
        must(plait_session_begin(r.session, &seq));
        check_positions(&r, prompt, seq, tokens, n, &worst);
        ours += check_greedy(&r, prompt, seq);
        const plait_json *peer = plait_json_get(plait_json_get(prompt, "greedy"), "peer_first_difference");
        peers += peer && peer->kind == PLAIT_JSON_INTEGER ? peer->u.integer : N_GREEDY;
        must(plait_session_drop(r.session, seq));
    }
    print_message("%s: %zu prompts, ids equal; greedy steps equal to the reference %lld (peer %lld); largest "
                  "difference of a top-8 logit %.3f\n",
                  folder, prompts->u.array.n_items, (long long)ours, (long long)peers, worst);
    assert_int_equal(prompts->u.array.n_items, n_expected);
    assert_true((double)ours >= 0.9 * (double)peers);
    real_close(&r);
    plait_json_document_deinit(&document);
}

static void smollm2(void **state) {
    (void)state;
    check_model("smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf", 20);
}

static void gemma3(void **state) {
    (void)state;
    check_model("gemma3", "gemma-3-270m-q4_k_m.gguf", 15);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(smollm2), cmocka_unit_test(gemma3)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
