/* plait run: continue a prompt. Only the continuation goes to stdout, as it comes; speed and notes go to stderr. */
#include "cli/cli.h"

#include "base/alloc.h"
#include "base/os.h"
#include "base/status.h"
#include "base/strbuf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct generation {
    const plait_cli_values *values;
    plait_model *model;
    const plait_tokenizer *tokenizer; /* NULL: ids only */
    plait_session *session;
    plait_seq seq;
    plait_sampler *sampler; /* NULL: greedy */
    plait_detokenizer stream;
    char *piece;
    size_t piece_bytes;
    plait_tokens made;
    plait_strbuf text;
    uint64_t prompt_ns, generation_ns;
} generation;

static plait_status make_sampler(generation *g) {
    const plait_cli_values *v = g->values;
    plait_sampler_options options;
    plait_sampler_options_default(&options);
    options.temp = v->temp_given ? (float)v->temp : 0;
    if (v->top_k_given) options.top_k = (int32_t)v->top_k;
    if (v->top_p_given) options.top_p = (float)v->top_p;
    if (v->min_p_given) options.min_p = (float)v->min_p;
    options.seed = v->seed_given ? (uint64_t)v->seed : plait_time_ns();
    return plait_sampler_create_from_options(&g->sampler, &options);
}

static plait_status open_generation(generation *g) {
    PLAIT_TRY(make_sampler(g));
    PLAIT_TRY(plait_session_create(&g->session, g->model));
    PLAIT_TRY(plait_session_begin(g->session, &g->seq));
    if (!g->values->ids) PLAIT_TRY(plait_model_need_tokenizer(g->model, &g->tokenizer));
    if (g->values->ids) g->tokenizer = plait_model_tokenizer(g->model);
    plait_strbuf_init(&g->text, 0);
    if (!g->tokenizer) return PLAIT_OK;
    plait_detokenizer_init(&g->stream, g->tokenizer, 0);
    g->piece_bytes = plait_detokenizer_max_bytes(g->tokenizer);
    g->piece = plait_alloc_array(1, g->piece_bytes);
    return g->piece ? PLAIT_OK : plait_error_memory("run", g->piece_bytes);
}

static void close_generation(generation *g) {
    plait_session_destroy(g->session);
    plait_sampler_destroy(g->sampler);
    plait_tokens_deinit(&g->made);
    plait_strbuf_deinit(&g->text);
    free(g->piece);
}

static plait_status show(generation *g, const char *text, size_t n) {
    if (g->values->json) {
        plait_strbuf_append_n(&g->text, text, n);
        return plait_strbuf_status(&g->text);
    }
    fwrite(text, 1, n, stdout);
    return plait_cli_flush();
}

static plait_status keep(generation *g, plait_token token) {
    PLAIT_TRY(plait_grow(&g->made.ids, &g->made.capacity, g->made.n + 1, sizeof token, 1 << 28, "run"));
    g->made.ids[g->made.n++] = token;
    size_t n = 0;
    if (g->tokenizer) PLAIT_TRY(plait_detokenizer_feed(&g->stream, token, g->piece, g->piece_bytes, &n));
    if (g->tokenizer) return show(g, g->piece, n);
    if (!g->values->json) printf("%s%d", g->made.n > 1 ? " " : "", token);
    return plait_cli_flush();
}

static plait_status generate(generation *g, int64_t n) {
    for (int64_t i = 0; i < n && !plait_cli_interrupted(); i++) {
        plait_token token = PLAIT_NO_TOKEN;
        PLAIT_TRY(plait_session_next(g->session, g->seq, g->sampler, &token));
        if (g->tokenizer && !g->values->ignore_eos && plait_token_ends(g->tokenizer, token)) break;
        PLAIT_TRY(keep(g, token));
    }
    return PLAIT_OK;
}

static plait_status finish_text(generation *g) {
    char rest[4];
    if (g->tokenizer) PLAIT_TRY(show(g, rest, plait_detokenizer_flush(&g->stream, rest)));
    if (!g->values->json) fputc('\n', stdout);
    return plait_cli_flush();
}

static void print_ids(plait_strbuf *s, const plait_token *ids, size_t n) {
    plait_strbuf_append(s, "[");
    for (size_t i = 0; i < n; i++) plait_strbuf_printf(s, "%s%d", i ? "," : "", ids[i]);
    plait_strbuf_append(s, "]");
}

static plait_status print_json(const generation *g, const plait_tokens *prompt) {
    plait_strbuf s;
    plait_strbuf_init(&s, 0);
    plait_strbuf_append(&s, "{\"prompt_ids\":");
    print_ids(&s, prompt->ids, prompt->n);
    plait_strbuf_append(&s, ",\"ids\":");
    print_ids(&s, g->made.ids, g->made.n);
    plait_strbuf_append(&s, ",\"text\":");
    plait_strbuf_json_string_n(&s, plait_strbuf_text(&g->text), g->text.length);
    plait_strbuf_append(&s, "}\n");
    plait_status status = plait_strbuf_status(&s);
    if (status == PLAIT_OK) fputs(plait_strbuf_text(&s), stdout);
    plait_strbuf_deinit(&s);
    return status;
}

static void report_speed(const generation *g, const plait_tokens *prompt) {
    double prompt_s = (double)g->prompt_ns / 1e9, made_s = (double)g->generation_ns / 1e9;
    fprintf(stderr,
            "plait: prompt %zu tokens in %.3f s (%.1f tokens/s), generated %zu tokens in %.3f s (%.1f "
            "tokens/s)\n",
            prompt->n, prompt_s, prompt_s > 0 ? (double)prompt->n / prompt_s : 0, g->made.n, made_s,
            made_s > 0 ? (double)g->made.n / made_s : 0);
}

static plait_status generate_all(generation *g, const plait_tokens *prompt) {
    plait_model_facts facts;
    plait_model_describe(g->model, &facts);
    if (prompt->n == 0) return plait_error(PLAIT_INVALID_ARGUMENT, "the prompt has no token");
    if ((int64_t)prompt->n > facts.context)
        return plait_error(PLAIT_OUT_OF_RANGE, "the prompt of %zu tokens is longer than the context of %lld",
                           prompt->n, (long long)facts.context);
    int64_t left = facts.context - (int64_t)prompt->n, n = g->values->n_given ? g->values->n : left;
    if (n > left) {
        fprintf(stderr, "plait: warning: the context of %lld tokens leaves room for %lld new tokens\n",
                (long long)facts.context, (long long)left);
        n = left;
    }
    uint64_t begin = plait_time_ns();
    PLAIT_TRY(plait_session_feed(g->session, g->seq, prompt->ids, (int64_t)prompt->n));
    uint64_t middle = plait_time_ns();
    plait_status status = generate(g, n);
    g->prompt_ns = middle - begin;
    g->generation_ns = plait_time_ns() - middle;
    PLAIT_TRY(status);
    PLAIT_TRY(finish_text(g));
    return g->values->json ? print_json(g, prompt) : PLAIT_OK;
}

static int run(const plait_cli_values *values) {
    plait_context *context;
    generation g = {.values = values};
    plait_tokens prompt = {0};
    if (!values->prompt + !values->file + !values->ids != 2)
        return plait_cli_usage("run: one of -p TEXT, -f FILE and --ids 1,2,3 is needed");
    plait_cli_catch_interrupt();
    int exit_status = plait_cli_open(values, NULL, NULL, &context, &g.model);
    if (exit_status != PLAIT_EXIT_OK) return exit_status;
    plait_status status = plait_cli_prompt(values, g.model, &prompt);
    if (status == PLAIT_OK) status = open_generation(&g);
    if (status == PLAIT_OK) status = generate_all(&g, &prompt);
    if (status == PLAIT_OK)
        report_speed(&g, &prompt);
    else
        exit_status = plait_cli_fail(status);
    close_generation(&g);
    plait_tokens_deinit(&prompt);
    plait_cli_close(context, g.model);
    return exit_status;
}

static const plait_cli_option options[] = {
    {"-p", "TEXT", PLAIT_CLI_STRING, PLAIT_CLI_FIELD(prompt), 0, "the prompt"},
    {"-f", "FILE", PLAIT_CLI_STRING, PLAIT_CLI_FIELD(file), 0, "read the prompt from a file (-: stdin)"},
    {"--ids", "1,2,3", PLAIT_CLI_STRING, PLAIT_CLI_FIELD(ids), 0, "the prompt as token ids"},
    {"--chat", NULL, PLAIT_CLI_FLAG, PLAIT_CLI_FIELD(chat), 0,
     "put the prompt as a user's message through the model's template"},
    {"-n", "N", PLAIT_CLI_COUNT, PLAIT_CLI_FIELD(n), PLAIT_CLI_FIELD(n_given),
     "most tokens to generate (default: what the context leaves)"},
    {"--temp", "T", PLAIT_CLI_NUMBER, PLAIT_CLI_FIELD(temp), PLAIT_CLI_FIELD(temp_given),
     "temperature; 0: greedy (default)"},
    {"--top-k", "K", PLAIT_CLI_COUNT, PLAIT_CLI_FIELD(top_k), PLAIT_CLI_FIELD(top_k_given),
     "only the K best tokens (default 40; 0: off)"},
    {"--top-p", "P", PLAIT_CLI_NUMBER, PLAIT_CLI_FIELD(top_p), PLAIT_CLI_FIELD(top_p_given),
     "the best tokens that have probability P together (default 0.95)"},
    {"--min-p", "P", PLAIT_CLI_NUMBER, PLAIT_CLI_FIELD(min_p), PLAIT_CLI_FIELD(min_p_given),
     "only tokens at least P times as probable as the best (default 0.05)"},
    {"--seed", "S", PLAIT_CLI_COUNT, PLAIT_CLI_FIELD(seed), PLAIT_CLI_FIELD(seed_given),
     "seed of the random numbers (default: the clock)"},
    {"--ignore-eos", NULL, PLAIT_CLI_FLAG, PLAIT_CLI_FIELD(ignore_eos), 0,
     "go on behind the end of generation"},
    {"--json", NULL, PLAIT_CLI_FLAG, PLAIT_CLI_FIELD(json), 0, "prompt ids, ids and text as one JSON object"},
    PLAIT_CLI_END,
};

const plait_cli_command plait_cli_run = {
    .name = "run",
    .arguments = "FILE (-p TEXT | -f FILE | --ids 1,2,3)",
    .min_positional = 1,
    .max_positional = 1,
    .summary = "Continue a prompt.",
    .examples = "  plait run model.gguf -p \"The capital of France is\" -n 16\n"
                "  plait run model.gguf --chat -p \"Name three primary colors.\" --temp 0.7 --seed 1\n",
    .options = options,
    .computes = true,
    .run = run,
};
