/* plait bench: speed of prompts and of generation, in tokens per second. Not here: speed of single ops and devices
 * (conformance.c, devices.c).
 *
 * Tests are named as llama-bench names them: pp is a prompt, tg generation. */
#include "cli/cli.h"

#include "base/alloc.h"
#include "base/os.h"
#include "base/size.h"
#include "base/status.h"
#include "base/strbuf.h"

#include <stdio.h>
#include <stdlib.h>

/* Random ids and not a text: speed does not depend on them where all experts cost the same, and no tokenizer is needed.
 * With experts the choice may be another than that of a text. */
typedef struct bench {
    plait_session *session;
    plait_token *tokens; /* random ids, the same in every run */
    int64_t n_tokens;
} bench;

/* ids of a small linear congruential generator: any valid ids will do. */
static plait_status make_tokens(bench *b, int64_t n, int64_t n_vocab) {
    uint64_t x = 1;
    b->tokens = plait_alloc_array((size_t)n, sizeof *b->tokens);
    if (!b->tokens) return plait_error_memory("bench", (uint64_t)n * sizeof *b->tokens);
    for (int64_t i = 0; i < n; i++) {
        /* Knuth's MMIX constants; the upper bits are the good ones. */
        x = x * 6364136223846793005u + 1442695040888963407u;
        b->tokens[i] = (plait_token)((x >> 33) % (uint64_t)n_vocab);
    }
    b->n_tokens = n;
    return PLAIT_OK;
}

/* Seconds for a prompt of n tokens, or for generating n, behind `depth` tokens. The time ends when the last result is
 * on the host. Tokens at the end of generation are chosen by argmax. Each run has a sequence of its own, so the cache
 * begins empty. What is before the clock (depth tokens and the first one of generation) is waited for, or its work
 * would be counted. */
static plait_status measure(bench *b, int64_t n, int64_t depth, bool prompt, double *out_seconds) {
    plait_seq seq = 0;
    PLAIT_TRY(plait_session_begin(b->session, &seq));
    /* Generation needs one token to begin from, which is not part of the time. */
    plait_status status = plait_session_feed(b->session, seq, b->tokens, depth + !prompt);
    if (status == PLAIT_OK) status = plait_session_wait(b->session);
    uint64_t begin = plait_time_ns();
    if (prompt && status == PLAIT_OK) {
        plait_token token;
        status = plait_session_feed(b->session, seq, b->tokens + depth, n);
        if (status == PLAIT_OK) status = plait_session_argmax(b->session, 0, &token);
    }
    for (int64_t i = 0; !prompt && status == PLAIT_OK && i < n; i++) {
        plait_token token;
        if (plait_cli_interrupted()) status = plait_error(PLAIT_CANCELLED, "interrupted");
        if (status == PLAIT_OK) status = plait_session_next(b->session, seq, NULL, &token);
    }
    *out_seconds = (double)(plait_time_ns() - begin) / 1e9;
    /* Also after a failure; the first failure is what is returned. */
    plait_session_drop(b->session, seq);
    return status;
}

static int by_value(const void *a, const void *b) {
    const double *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}

/* Rates go out in the order of the runs; the median is what a single disturbed run does not move. Printed at once,
 * since tests may take minutes. The mean is not printed: times have a tail on one side only, towards slow, and the mean
 * follows it. */
static plait_status row(bench *b, const plait_cli_values *values, const char *kind, int64_t n, bool first,
                        plait_strbuf *json) {
    int64_t repeats = values->repeats ? values->repeats : 5;
    double seconds, *rates = plait_alloc_array((size_t)repeats, sizeof *rates);
    bool prompt = kind[0] == 'p';
    if (!rates) return plait_error_memory("bench", (uint64_t)repeats * sizeof *rates);
    plait_status status =
        /* The first run does what is done once, as touching the weights. Generation repeats one plan, so a few tokens
         * warm it up. */
        measure(b, prompt ? n : plait_min_i64(n, 8), values->depth, prompt, &seconds); /* warm-up */
    for (int64_t r = 0; status == PLAIT_OK && r < repeats; r++) {
        status = measure(b, n, values->depth, prompt, &seconds);
        rates[r] = (double)n / seconds;
    }
    if (status == PLAIT_OK) {
        plait_strbuf_printf(json, "%s{\"test\":\"%s%lld\",\"tokens_per_s\":[", first ? "" : ",", kind,
                            (long long)n);
        for (int64_t r = 0; r < repeats; r++) plait_strbuf_printf(json, "%s%.3f", r ? "," : "", rates[r]);
        qsort(rates, (size_t)repeats, sizeof *rates, by_value);
        double median = repeats % 2 ? rates[repeats / 2] : (rates[repeats / 2 - 1] + rates[repeats / 2]) / 2;
        plait_strbuf_printf(json, "],\"median\":%.3f}", median);
        if (!values->json)
            printf("%s%-6lld %10.2f tokens/s  (min %.2f, max %.2f, %lld runs)\n", kind, (long long)n, median,
                   rates[0], rates[repeats - 1], (long long)repeats);
    }
    free(rates);
    return status;
}

/* One session for all tests: plans and memory are made once. The peak is that of the whole process up to here, weights
 * included. */
static plait_status run_rows(plait_model *model, const plait_cli_values *values, int64_t n_prompt,
                             int64_t n) {
    bench b = {0};
    plait_model_facts facts;
    plait_strbuf json;
    plait_model_describe(model, &facts);
    plait_strbuf_init(&json, 0);
    plait_strbuf_append(&json, "{\"results\":[");
    plait_status status = make_tokens(&b, values->depth + plait_max_i64(n_prompt, 1) + 1, facts.n_vocab);
    if (status == PLAIT_OK) status = plait_cli_session_open(values, model, &b.session);
    if (status == PLAIT_OK && n_prompt) status = row(&b, values, "pp", n_prompt, true, &json);
    if (status == PLAIT_OK && n) status = row(&b, values, "tg", n, n_prompt == 0, &json);
    plait_strbuf_printf(&json, "],\"peak_bytes\":%llu}\n", (unsigned long long)plait_os_peak_resident());
    status = plait_cli_session_close(values, b.session, status);
    if (status == PLAIT_OK && values->json)
        status = plait_cli_emit(&json);
    else
        plait_strbuf_deinit(&json);
    free(b.tokens);
    return status;
}

/* Only as much context as the tests fill, unless --ctx says otherwise. */
static void need_context(plait_model_options *options, const void *user) {
    const int64_t *needed = user;
    if (options->context == 0) options->context = *needed;
}

/* Tests come one after the other, so the larger one decides. Each count by itself first: sums of larger ones could
 * overflow. */
static int count_tokens(int64_t depth, int64_t n_prompt, int64_t n, int64_t *out) {
    int64_t largest = plait_max_i64(depth, plait_max_i64(n_prompt, n));
    *out = largest > INT32_MAX ? largest : depth + plait_max_i64(n_prompt, n + 1);
    if (*out <= INT32_MAX) return PLAIT_EXIT_OK;
    return plait_cli_usage("bench: %lld tokens are too many, at most %lld", (long long)*out,
                           (long long)INT32_MAX);
}

static int run(const plait_cli_values *values) {
    plait_context *context;
    plait_model *model;
    int64_t n_prompt = values->n_prompt_given ? values->n_prompt : 512, n = values->n_given ? values->n : 64;
    int64_t needed;
    int exit_status = count_tokens(values->depth, n_prompt, n, &needed);
    if (exit_status != PLAIT_EXIT_OK) return exit_status;
    plait_cli_catch_interrupt();
    exit_status = plait_cli_open(values, need_context, &needed, &context, &model);
    if (exit_status != PLAIT_EXIT_OK) return exit_status;
    plait_status status = run_rows(model, values, n_prompt, n);
    if (status != PLAIT_OK) exit_status = plait_cli_fail(status);
    plait_cli_close(context, model);
    return exit_status;
}

static const plait_cli_option options[] = {
    {"-p", "N", PLAIT_CLI_COUNT, PLAIT_CLI_FIELD(n_prompt), PLAIT_CLI_FIELD(n_prompt_given),
     "tokens of the prompt (default 512; 0: leave out)"},
    {"-n", "N", PLAIT_CLI_COUNT, PLAIT_CLI_FIELD(n), PLAIT_CLI_FIELD(n_given),
     "tokens to generate (default 64; 0: leave out)"},
    {"-d", "N", PLAIT_CLI_COUNT, PLAIT_CLI_FIELD(depth), 0, "tokens in the cache before (default 0)"},
    {"-r", "N", PLAIT_CLI_COUNT, PLAIT_CLI_FIELD(repeats), 0, "runs of each test (default 5)"},
    PLAIT_CLI_JSON("results as one JSON object"),
    PLAIT_CLI_END,
};

const plait_cli_command plait_cli_bench = {
    .name = "bench",
    .arguments = "FILE",
    .min_positional = 1,
    .max_positional = 1,
    .summary = "Measure the speed of prompts and of generation.",
    .details = "pp is a prompt of -p tokens fed at once, its last logits included; tg is -n tokens generated "
               "one after "
               "another. Each is run once to warm up, then -r times.\n\n"
               "--json prints {\"results\":[{\"test\":\"pp512\",\"tokens_per_s\":[...],\"median\":x},...],"
               "\"peak_bytes\":n}; peak_bytes is the largest resident memory of the program.",
    .examples = "  plait bench model.gguf -t 2\n  plait bench model.gguf -p 0 -n 128 -d 1024 --json\n",
    .options = options,
    .computes = true,
    .run = run,
};
