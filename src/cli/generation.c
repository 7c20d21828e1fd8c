/* Generating text: what `run` and `chat` share. Text goes to stdout as it comes, whole characters at a time. Not here:
 * sampling (text/sampler), prompts (prompt.c), opening (open.c). Invariant: the sequence holds just the tokens that
 * were fed and made.
 *
 * A loss of a device in the middle is not the end: context, model and session are opened anew on what is left, and the
 * loops below go on with the token at which they stood. That is why the caller hands in the addresses of its context
 * and model. */
#include "cli/cli.h"

#include "base/alloc.h"
#include "base/log.h"
#include "base/os.h"
#include "base/size.h"
#include "base/status.h"

#include <stdio.h>
#include <stdlib.h>

/* Greedy unless --temp is given, so that a plain run is repeatable. The seed of the clock only matters with a
 * temperature. The sampler is made before anything is opened, since wrong settings are wrong usage. */
int plait_cli_generation_init(plait_cli_generation *g, const plait_cli_values *values) {
    plait_sampler_options options;
    *g = (plait_cli_generation){.values = values};
    plait_strbuf_init(&g->text, 0);
    plait_sampler_options_default(&options);
    options.temp = values->temp_given ? (float)values->temp : 0;
    if (values->top_k_given) options.top_k = (int32_t)plait_min_i64(values->top_k, INT32_MAX);
    if (values->top_p_given) options.top_p = (float)values->top_p;
    if (values->min_p_given) options.min_p = (float)values->min_p;
    options.seed = values->seed_given ? (uint64_t)values->seed : plait_time_ns();
    plait_status status = plait_sampler_create_from_options(&g->sampler, &options);
    if (status == PLAIT_INVALID_ARGUMENT) return plait_cli_usage_error();
    return status == PLAIT_OK ? PLAIT_EXIT_OK : plait_cli_fail(status);
}

/* Also after a loss: the detokenizer's state stays, since the tokens before are the same, and only the tokenizer is a
 * new one. A file may have a tokenizer of the model "none", which has no vocabulary: with ids alone it counts as no
 * tokenizer. */
static plait_status open_session(plait_cli_generation *g, bool text) {
    PLAIT_TRY(plait_cli_session_open(g->values, *g->model, &g->session));
    PLAIT_TRY(plait_session_begin(g->session, &g->seq));
    g->tokenizer = plait_model_tokenizer(*g->model);
    if (text) PLAIT_TRY(plait_model_need_tokenizer(*g->model, &g->tokenizer));
    if (g->tokenizer && !text && plait_tokenizer_n_vocab(g->tokenizer) == 0)
        g->tokenizer = NULL; /* model "none" */
    g->stream.tokenizer = g->tokenizer;
    return PLAIT_OK;
}

/* One buffer that any token fits into. The largest token does not change with another context, since the file is the
 * same, so it is not asked for again after a loss. */
plait_status plait_cli_generation_open(plait_cli_generation *g, plait_context **context, plait_model **model,
                                       bool text) {
    g->context = context;
    g->model = model;
    PLAIT_TRY(open_session(g, text));
    if (!g->tokenizer) return PLAIT_OK;
    g->piece_bytes = plait_detokenizer_max_bytes(g->tokenizer);
    g->piece = plait_alloc_array(1, g->piece_bytes);
    return g->piece ? PLAIT_OK : plait_error_memory("generation", g->piece_bytes);
}

/* Also for a generation that was only initialised. */
plait_status plait_cli_generation_close(plait_cli_generation *g, plait_status status) {
    status = plait_cli_session_close(g->values, g->session, status);
    plait_sampler_destroy(g->sampler);
    plait_tokens_deinit(&g->made);
    plait_strbuf_deinit(&g->text);
    free(g->piece);
    *g = (plait_cli_generation){0};
    return status;
}

/* ---- after a loss ---- */

/* Everything anew on the devices that are left, and the tokens fed again. *out_again: nothing stands in the way of another
 * try when this one ends with a loss. */
static plait_status open_again(plait_cli_generation *g, const plait_token *tokens, int64_t n,
                               bool *out_again) {
    plait_error_record failure;
    plait_error_save(PLAIT_DEVICE_LOST, &failure);
    *out_again = false;
    plait_session_destroy(g->session);
    g->session = NULL;
    /* As the commands that generate have opened it. */
    plait_status status = plait_cli_reopen(g->values, plait_cli_let_kv_fit, NULL, g->context, g->model);
    if (status == PLAIT_OK) {
        *out_again = true;
        fprintf(stderr, "plait: warning: %s; going on with what is left: %d device%s\n", failure.message,
                plait_context_device_count(*g->context),
                plait_context_device_count(*g->context) == 1 ? "" : "s");
        status = open_session(g, g->tokenizer != NULL);
    }
    if (status == PLAIT_OK) status = plait_session_feed(g->session, g->seq, tokens, n);
    return plait_error_context(status, "going on after: %s", failure.message);
}

/* After a failed call on the session: OK when it was a loss and all is well again. The caller's model and context are
 * new ones then. The tokens are copied first: they are the session's, which the next try destroys. Each try has fewer
 * devices, so the tries end. The sampler needs no repair: it is told of a token only once the sequence has it. With a
 * temperature the draw of the token that was lost is made again. */
static plait_status go_on(plait_cli_generation *g, plait_status status) {
    bool again = status == PLAIT_DEVICE_LOST;
    if (!again) return status;
    int64_t n = plait_session_length(g->session, g->seq);
    plait_token *tokens = plait_alloc_array((size_t)n, sizeof *tokens);
    if (!tokens) return plait_error_memory("going on after a loss", (uint64_t)n * sizeof *tokens);
    for (int64_t i = 0; i < n; i++) tokens[i] = plait_session_tokens(g->session, g->seq)[i];
    while (again && status == PLAIT_DEVICE_LOST) status = open_again(g, tokens, n, &again);
    free(tokens);
    return status;
}

/* Waits for the end, so that the time is that of the work and not of handing it over. After a loss in the middle the
 * loop goes on behind what the new session has. A failure that is no loss ends the loop with what was fed so far in the
 * sequence. */
plait_status plait_cli_generation_feed(plait_cli_generation *g, const plait_token *ids, size_t n) {
    plait_logger logger = plait_cli_logger();
    uint64_t begin = plait_time_ns();
    int64_t had = plait_session_length(g->session, g->seq), end = had + (int64_t)n;
    plait_status status = PLAIT_OK;
    for (int64_t at = had; status == PLAIT_OK && at < end; at = plait_session_length(g->session, g->seq)) {
        status = plait_session_feed(g->session, g->seq, ids + (at - had), end - at);
        if (status == PLAIT_OK) status = plait_session_wait(g->session);
        status = go_on(g, status);
    }
    plait_log_progress(&logger, "prompt", 1, 1); /* wipes the line */
    g->n_fed = n;
    g->prompt_ns = plait_time_ns() - begin;
    return status;
}

/* The text is kept too, for --json and for the conversation. */
static plait_status show(plait_cli_generation *g, const char *text, size_t n) {
    plait_strbuf_append_n(&g->text, text, n);
    PLAIT_TRY(plait_strbuf_status(&g->text));
    return g->silent ? PLAIT_OK : plait_cli_write(text, n);
}

/* Without a tokenizer the ids themselves are the text. 2^28 ids are far above the context of any model, so the bound
 * only catches a loop that does not end. */
static plait_status keep(plait_cli_generation *g, plait_token token) {
    char number[16];
    size_t n = 0;
    PLAIT_TRY(
        plait_grow(&g->made.ids, &g->made.capacity, g->made.n + 1, sizeof token, 1 << 28, "generation"));
    g->made.ids[g->made.n++] = token;
    if (!g->tokenizer)
        return show(g, number,
                    (size_t)snprintf(number, sizeof number, "%s%d", g->made.n > 1 ? " " : "", token));
    PLAIT_TRY(plait_detokenizer_feed(&g->stream, token, g->piece, g->piece_bytes, &n));
    return show(g, g->piece, n);
}

/* How many tokens -n asks for, as far as the context has room. Without -n the context is the bound, and its end is no
 * warning: nothing was asked for that is not given. */
static int64_t room(const plait_cli_generation *g) {
    plait_model_facts facts;
    plait_model_describe(*g->model, &facts);
    int64_t left = facts.context - plait_session_length(g->session, g->seq);
    if (!g->values->n_given) return left;
    if (g->values->n > left)
        fprintf(stderr, "plait: warning: the context of %lld tokens leaves room for %lld new tokens\n",
                (long long)facts.context, (long long)left);
    return plait_min_i64(left, g->values->n);
}

/* Stops between tokens after Ctrl-C, which is success: what was made is there. An end token ends the text without being
 * part of it. It is in the sequence all the same, as it was fed: the next turn of a conversation has it in common,
 * where its template writes it too. */
static plait_status generate(plait_cli_generation *g, int64_t n) {
    for (int64_t i = 0; i < n && !plait_cli_interrupted(); i++) {
        plait_token token = PLAIT_NO_TOKEN;
        plait_status status = plait_session_next(g->session, g->seq, g->sampler, &token);
        if (status != PLAIT_OK) {
            PLAIT_TRY(go_on(g, status));
            i--; /* this one is still to be made */
            continue;
        }
        g->ended = g->tokenizer && !g->values->ignore_eos && plait_token_ends(g->tokenizer, token);
        if (g->ended) break;
        PLAIT_TRY(keep(g, token));
    }
    return PLAIT_OK;
}

/* Bytes of a character that never ended are written last, as the flush gives them. The stream begins anew with each
 * text, because an answer does not continue the characters of the one before. */
plait_status plait_cli_generate(plait_cli_generation *g) {
    char rest[4];
    g->made.n = 0;
    g->ended = false;
    plait_strbuf_clear(&g->text);
    if (g->tokenizer) plait_detokenizer_init(&g->stream, g->tokenizer, 0);
    uint64_t begin = plait_time_ns();
    PLAIT_TRY(generate(g, room(g)));
    g->generation_ns = plait_time_ns() - begin;
    return g->tokenizer ? show(g, rest, plait_detokenizer_flush(&g->stream, rest)) : PLAIT_OK;
}

static double per_second(size_t n, uint64_t ns) {
    return ns ? (double)n * 1e9 / (double)ns : 0;
}

void plait_cli_report_speed(const plait_cli_generation *g) {
    fprintf(stderr,
            "plait: prompt %zu tokens in %.3f s (%.1f tokens/s), generated %zu tokens in %.3f s (%.1f "
            "tokens/s)\n",
            g->n_fed, (double)g->prompt_ns / 1e9, per_second(g->n_fed, g->prompt_ns), g->made.n,
            (double)g->generation_ns / 1e9, per_second(g->made.n, g->generation_ns));
}
