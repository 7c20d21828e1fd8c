/* plait logits: the logits of every position of a list of ids, as raw float32. Not here: text (there is no tokenizer in
 * it), probabilities.
 *
 * A tool for comparing with other programs, so the ids are fed as they are.
 *
 * It is one of the few commands whose output is for machines only: that is why it goes to a file, whole or not at all,
 * and standard output stays empty. */
#include "cli/cli.h"

#include "base/alloc.h"
#include "base/os.h"
#include "base/size.h"
#include "base/status.h"

#include <stdlib.h>
#include <string.h>

/* Feeds ids [at, at + n) and writes their logits. float32 of the host, which is little-endian on every machine that
 * this program runs on. Rows lie in the session until its next step, so they are written before that. */
static plait_status feed(plait_session *session, plait_seq seq, const plait_token *ids, int64_t n,
                         plait_batch_item *items, plait_file_writer *out) {
    plait_model_facts facts;
    plait_model_describe(plait_session_model(session), &facts);
    for (int64_t i = 0; i < n; i++)
        items[i] = (plait_batch_item){
            .token = ids[i], .position = -1, .seqs = &seq, .n_seqs = 1, .wants_output = true};
    PLAIT_TRY(plait_session_step(session, items, n));
    for (int64_t i = 0; i < n; i++) {
        const float *logits;
        PLAIT_TRY(plait_session_logits(session, i, &logits));
        PLAIT_TRY(plait_file_writer_write(out, logits, (uint64_t)facts.n_vocab * sizeof *logits));
    }
    return PLAIT_OK;
}

/* --step changes how many ids go into one step, at most a batch. With --step 1 each id sees the cache as generation
 * makes it; the logits may differ by rounding from those of larger steps, and with --exact not at all. */
static plait_status feed_all(const plait_cli_values *values, plait_model *model, const plait_token *ids,
                             int64_t n, plait_file_writer *out) {
    plait_model_facts facts;
    plait_session *session;
    plait_seq seq = 0;
    int64_t step = values->step;
    plait_model_describe(model, &facts);
    /* What a step may take at most, whatever was asked for. */
    if (step <= 0 || step > facts.batch) step = facts.batch;
    if (n > facts.context)
        return plait_error(PLAIT_OUT_OF_RANGE, "--ids: %lld ids are longer than the context of %lld tokens",
                           (long long)n, (long long)facts.context);
    plait_batch_item *items = plait_alloc_array((size_t)step, sizeof *items);
    if (!items) return plait_error_memory("--step", (uint64_t)step * sizeof *items);
    plait_status status = plait_cli_session_open(values, model, &session);
    if (status == PLAIT_OK) {
        status = plait_session_begin(session, &seq);
        for (int64_t at = 0; status == PLAIT_OK && at < n; at += step)
            status = feed(session, seq, ids + at, plait_min_i64(step, n - at), items, out);
        status = plait_cli_session_close(values, session, status);
    }
    free(items);
    return status;
}

/* The file appears under its name at the end only. */
static int run(const plait_cli_values *values) {
    plait_context *context;
    plait_model *model;
    plait_token *ids = NULL;
    int64_t n = 0;
    if (!values->ids || !values->out) return plait_cli_usage("logits: --ids and --out are needed");
    /* The option is there so that scripts which know it get a reason, and not "there is no option". */
    if (values->decoder_ids)
        return plait_cli_usage(
            "logits: --decoder-ids is for encoder-decoder models, which are not supported");
    if (plait_cli_parse_ids(values->ids, &ids, &n) != PLAIT_OK) return plait_cli_usage_error();
    int exit_status = plait_cli_open(values, NULL, NULL, &context, &model);
    if (exit_status == PLAIT_EXIT_OK) {
        /* -1: nothing to abandon yet. */
        plait_file_writer out = {.fd = -1};
        plait_status status = plait_file_writer_open(&out, values->out);
        if (status == PLAIT_OK) status = feed_all(values, model, ids, n, &out);
        if (status == PLAIT_OK) status = plait_file_writer_commit(&out);
        if (status != PLAIT_OK) exit_status = plait_cli_fail(status);
        plait_file_writer_abandon(&out);
        plait_cli_close(context, model);
    }
    free(ids);
    return exit_status;
}

static const plait_cli_option options[] = {
    {"--ids", "1,2,3", PLAIT_CLI_STRING, PLAIT_CLI_FIELD(ids), 0, "token ids to feed"},
    {"--out", "OUT.f32", PLAIT_CLI_STRING, PLAIT_CLI_FIELD(out), 0,
     "float32 little-endian [ids][vocabulary], every position"},
    {"--step", "N", PLAIT_CLI_COUNT, PLAIT_CLI_FIELD(step), 0, "feed N ids at a time instead of all at once"},
    {"--decoder-ids", "1,2,3", PLAIT_CLI_STRING, PLAIT_CLI_FIELD(decoder_ids), 0,
     "ids for the decoder of encoder-decoder models"},
    PLAIT_CLI_END,
};

const plait_cli_command plait_cli_logits = {
    .name = "logits",
    .arguments = "FILE --ids 1,2,3 --out OUT.f32",
    .min_positional = 1,
    .max_positional = 1,
    .summary = "Write the logits of every position of a list of token ids.",
    .details =
        "OUT.f32 holds float32, little-endian, [ids][vocabulary], one row for each id, without a header. It "
        "appears whole or not at all. The ids are fed as they are: no BOS is added.",
    .examples = "  plait logits model.gguf --ids 1,2,3 --out logits.f32\n"
                "  plait logits model.gguf --ids 1,2,3 --step 1 --kv f32 --out logits.f32\n",
    .options = options,
    .computes = true,
    .run = run,
};
