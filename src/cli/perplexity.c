/* plait perplexity: how well a model predicts a text.
 *
 * The rules are those of llama-perplexity, so that figures can be compared: the text is cut into windows of --ctx tokens,
 * an incomplete last one is left out; each is run on an empty cache; the first token of a window is replaced by BOS
 * where the model adds one; scored is each token of the second half of a window, from its own predecessors. */
#include "cli/cli.h"

#include "base/alloc.h"
#include "base/log.h"
#include "base/size.h"
#include "base/status.h"

#include <math.h>
#include <stdlib.h>

enum { USUAL_WINDOW = 512 };

/* Sums in double over all scored tokens; their number is small enough for plain addition. Some 10^5 terms of about 3:
 * doubles lose some 10^-11 of them at worst, far below the standard error. */
typedef struct scores {
    plait_session *session;
    plait_model_facts facts;
    plait_token bos; /* PLAIT_NO_TOKEN: nothing is replaced */
    plait_batch_item *items;
    int64_t window, n_windows, n_scored;
    double sum, squares; /* of -log p */
} scores;

/* -log of the probability that the logits give to the token, in float64. The largest logit is taken out of the
 * exponents, so none overflows. A logit of minus infinity adds nothing to the sum, and as the target gives an infinite
 * surprise, which is the truth about such a model. */
static double surprise(const float *logits, int64_t n, plait_token token) {
    double sum = 0;
    float most = logits[0];
    for (int64_t i = 1; i < n; i++)
        if (logits[i] > most) most = logits[i];
    for (int64_t i = 0; i < n; i++) sum += exp((double)logits[i] - most);
    return log(sum) + most - logits[token];
}

/* Feeds tokens [at, at + n) of a window and scores those of the second half that have a successor in it. `row` counts
 * the outputs of the step, which come in the order of the items that want one. The target is the text's own token, also
 * where BOS replaced a predecessor. Only the second half is scored because tokens at the beginning of a window have few
 * predecessors, and would measure the length of the window instead of the model. */
static plait_status feed(scores *s, plait_seq seq, const plait_token *tokens, int64_t at, int64_t n) {
    int64_t row = 0;
    for (int64_t i = 0; i < n; i++) {
        /* In the window, which is the position in the sequence too. */
        int64_t position = at + i;
        plait_token token = position == 0 && s->bos != PLAIT_NO_TOKEN ? s->bos : tokens[position];
        /* The output at a position scores the token behind it, so the last one of a window is not asked for. */
        bool wanted = position >= s->window / 2 && position + 1 < s->window;
        s->items[i] = (plait_batch_item){
            .token = token, .position = -1, .seqs = &seq, .n_seqs = 1, .wants_output = wanted};
    }
    PLAIT_TRY(plait_session_step(s->session, s->items, n));
    for (int64_t i = 0; i < n; i++) {
        const float *logits;
        if (!s->items[i].wants_output) continue;
        PLAIT_TRY(plait_session_logits(s->session, row++, &logits));
        double nll = surprise(logits, s->facts.n_vocab, tokens[at + i + 1]);
        s->sum += nll;
        s->squares += nll * nll;
        s->n_scored++;
    }
    return PLAIT_OK;
}

/* A new sequence for each window is the empty cache. Steps of --batch tokens change nothing but speed and rounding.
 * Positions begin at 0 in each, so no window depends on the ones before it, and their order does not matter. */
static plait_status score_window(scores *s, const plait_token *tokens) {
    plait_seq seq = 0;
    PLAIT_TRY(plait_session_begin(s->session, &seq));
    for (int64_t at = 0; at < s->window; at += s->facts.batch)
        PLAIT_TRY(feed(s, seq, tokens, at, plait_min_i64(s->facts.batch, s->window - at)));
    return plait_session_drop(s->session, seq);
}

/* most_windows 0: all of them. */
static plait_status score_text(scores *s, const plait_tokens *tokens, int64_t most_windows) {
    plait_logger logger = plait_cli_logger();
    s->n_windows = (int64_t)tokens->n / s->window;
    if (most_windows && s->n_windows > most_windows) s->n_windows = most_windows;
    if (s->n_windows == 0)
        return plait_error(PLAIT_OUT_OF_RANGE, "the text has %zu tokens, a window needs %lld", tokens->n,
                           (long long)s->window);
    s->items = plait_alloc_array((size_t)s->facts.batch, sizeof *s->items);
    if (!s->items) return plait_error_memory("perplexity", (uint64_t)s->facts.batch * sizeof *s->items);
    for (int64_t w = 0; w < s->n_windows; w++) {
        if (!plait_log_progress(&logger, "perplexity", (uint64_t)w, (uint64_t)s->n_windows))
            return plait_error(PLAIT_CANCELLED, "interrupted after %lld of %lld windows", (long long)w,
                               (long long)s->n_windows);
        PLAIT_TRY(score_window(s, tokens->ids + w * s->window));
    }
    plait_log_progress(&logger, "perplexity", 1, 1);
    return PLAIT_OK;
}

/* The error is the standard error of the mean of -log p; that of the perplexity follows from it by the derivative of
 * exp. Tokens of one window are not independent, so the true error is somewhat larger; it is computed as
 * llama-perplexity does, for the comparison. */
static plait_status print(const scores *s, bool json) {
    double n = (double)s->n_scored, mean = s->sum / n;
    /* Variance of a mean of n values, from the sums; rounding may bring it below 0, which counts as 0. */
    double variance = s->n_scored > 1 ? (s->squares / n - mean * mean) / (n - 1) : 0;
    double error = variance > 0 ? sqrt(variance) : 0;
    plait_strbuf out;
    plait_strbuf_init(&out, 0);
    if (json) {
        plait_strbuf_append(&out, "{\"ppl\":");
        plait_strbuf_json_number(&out, exp(mean));
        plait_strbuf_append(&out, ",\"mean_nll\":");
        plait_strbuf_json_number(&out, mean);
        plait_strbuf_append(&out, ",\"standard_error\":");
        plait_strbuf_json_number(&out, error);
        plait_strbuf_printf(&out, ",\"n_tokens\":%lld,\"n_windows\":%lld,\"ctx\":%lld}\n",
                            (long long)s->n_scored, (long long)s->n_windows, (long long)s->window);
    } else {
        plait_strbuf_printf(
            &out, "perplexity %.4f +- %.4f  (mean -log p %.6f over %lld tokens, %lld windows of %lld)\n",
            /* First order: d exp(m) = exp(m) dm. */
            exp(mean), exp(mean) * error, mean, (long long)s->n_scored, (long long)s->n_windows,
            (long long)s->window);
    }
    return plait_cli_emit(&out);
}

/* With --ids the ids are taken as they are: no BOS is put in. */
static plait_status measure(const plait_cli_values *values, plait_model *model, const plait_tokens *tokens) {
    const plait_tokenizer *tokenizer = plait_model_tokenizer(model);
    scores s = {.bos = PLAIT_NO_TOKEN};
    plait_model_describe(model, &s.facts);
    s.window = s.facts.context;
    /* The text's own BOS is the first token of the first window only; all others get it here. */
    if (tokenizer && !values->ids && plait_tokenizer_adds_bos(tokenizer))
        s.bos = plait_tokenizer_role(tokenizer, PLAIT_ROLE_BOS);
    plait_status status = plait_cli_session_open(values, model, &s.session);
    if (status == PLAIT_OK) status = score_text(&s, tokens, values->windows);
    if (status == PLAIT_OK) status = print(&s, values->json);
    status = plait_cli_session_close(values, s.session, status);
    free(s.items);
    return status;
}

/* Before the first window: ids are targets too, and index the logits. */
static plait_status check_ids(const plait_model *model, const plait_tokens *tokens) {
    plait_model_facts facts;
    plait_model_describe(model, &facts);
    for (size_t i = 0; i < tokens->n; i++)
        if (tokens->ids[i] >= facts.n_vocab)
            return plait_error(PLAIT_OUT_OF_RANGE, "token %zu: id %d, expected 0 to %lld", i, tokens->ids[i],
                               (long long)facts.n_vocab - 1);
    return PLAIT_OK;
}

/* The usual window of llama-perplexity, where --ctx does not say another. It is the window and the context at once: a
 * longer context would not be used. */
static void set_window(plait_model_options *options, const void *user) {
    (void)user;
    if (options->context == 0) options->context = USUAL_WINDOW;
}

static int run(const plait_cli_values *values) {
    plait_context *context;
    plait_model *model;
    plait_tokens tokens = {0};
    int exit_status = plait_cli_check_prompt(values, false);
    if (exit_status == PLAIT_EXIT_OK && values->context && values->context < 4)
        exit_status =
            plait_cli_usage("--ctx: a window of %lld tokens, at least 4", (long long)values->context);
    if (exit_status != PLAIT_EXIT_OK) return exit_status;
    plait_cli_catch_interrupt();
    exit_status = plait_cli_open(values, set_window, NULL, &context, &model);
    if (exit_status != PLAIT_EXIT_OK) return exit_status;
    plait_status status = plait_cli_prompt(values, model, &tokens);
    if (status == PLAIT_OK) status = check_ids(model, &tokens);
    if (status == PLAIT_OK) status = measure(values, model, &tokens);
    if (status != PLAIT_OK) exit_status = plait_cli_fail(status);
    plait_tokens_deinit(&tokens);
    plait_cli_close(context, model);
    return exit_status;
}

static const plait_cli_option options[] = {
    PLAIT_CLI_PROMPT_OPTIONS,
    {"--windows", "N", PLAIT_CLI_COUNT, PLAIT_CLI_FIELD(windows), 0, "at most N windows (default: all)"},
    PLAIT_CLI_JSON("figures as one JSON object"),
    PLAIT_CLI_END,
};

const plait_cli_command plait_cli_perplexity = {
    .name = "perplexity",
    .arguments = "FILE -f TEXT",
    .min_positional = 1,
    .max_positional = 1,
    .summary = "Measure how well a model predicts a text.",
    .details =
        "The rules are those of llama-perplexity: the text, with BOS in front if the model adds one, is cut "
        "into "
        "windows of --ctx tokens (default 512), an incomplete last one is left out. Each window is run on an "
        "empty cache; if the model adds BOS, the first token of each window is replaced by it. Scored are "
        "the "
        "tokens whose predecessor stands in the second half of the window. Perplexity is exp of the mean of "
        "-log p.\n\n"
        "--json prints {\"ppl\":x,\"mean_nll\":x,\"standard_error\":x (of mean_nll),\"n_tokens\":n "
        "(scored),\"n_windows\":n,\"ctx\":n}.",
    .examples = "  plait perplexity model.gguf -f book.txt\n"
                "  plait perplexity model.gguf -f book.txt --ctx 2048 --kv q8_0 --json\n",
    .options = options,
    .computes = true,
    .run = run,
};
