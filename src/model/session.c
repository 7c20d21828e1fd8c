/* A session's life and its sequences. Not here: steps (step.c), outputs (output.c), text (generate.c), pages (pages.c).
 * Invariant: between calls every sequence's pages cover its tokens, but for what windows gave up. */
#include "model/session.h"

#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>

/* ---- life ---- */

/* Names are resolved once; a step indexes. */
static plait_status index_inputs(plait_session *s) {
    const plait_engine *e = &s->model->engine;
    PLAIT_TRY(plait_run_input_index(s->layers, "ids", &s->in_ids));
    PLAIT_TRY(plait_run_input_index(s->layers, "positions", &s->in_positions));
    PLAIT_TRY(plait_run_input_index(s->layers, "sequence_of", &s->in_sequence_of));
    PLAIT_TRY(plait_run_input_index(s->layers, "output_rows", &s->in_output_rows));
    PLAIT_TRY(plait_run_input_index(s->layers, "hidden_slots", &s->in_hidden_slots));
    for (int g = 0; g < e->n_groups; g++) {
        PLAIT_TRY(plait_run_input_index(s->layers, e->groups[g].slots_name, &s->in_slots[g]));
        PLAIT_TRY(plait_run_input_index(s->layers, e->groups[g].pages_name, &s->in_pages[g]));
    }
    PLAIT_TRY(plait_run_dim_index(s->layers, "tokens", &s->dim_tokens));
    PLAIT_TRY(plait_run_dim_index(s->layers, "outputs", &s->dim_outputs));
    PLAIT_TRY(plait_run_dim_index(s->layers, "sequences", &s->dim_sequences));
    for (int t = 0; t < PLAIT_TAIL_COUNT; t++) {
        PLAIT_TRY(plait_run_input_index(s->tails[t], "rows", &s->tail_rows[t]));
        PLAIT_TRY(plait_run_dim_index(s->tails[t], "outputs", &s->tail_dim[t]));
    }
    return PLAIT_OK;
}

/* All runs share one state: the layers write the caches and "hidden", tails and copies work on them. */
static plait_status open_runs(plait_session *s) {
    plait_engine *e = &s->model->engine;
    PLAIT_TRY(plait_session_state_create(&s->state, e->residence));
    plait_run_options options = {.state = s->state};
    PLAIT_TRY(plait_run_create(&s->layers, e->layers_plan, &options));
    PLAIT_TRY(plait_run_create(&s->copies, e->copies_plan, &options));
    for (int t = 0; t < PLAIT_TAIL_COUNT; t++)
        PLAIT_TRY(plait_run_create(&s->tails[t], e->tail_plans[t], &options));
    return index_inputs(s);
}

/* All that steps need is allocated here, tokens of every sequence at full length included. */
static plait_status open_session(plait_session *s) {
    size_t n = (size_t)s->model->options.sequences;
    s->sequences = plait_alloc_array(n, sizeof *s->sequences);
    s->output_of = plait_alloc_array(n, sizeof *s->output_of);
    s->items = plait_alloc_array((size_t)s->model->options.batch, sizeof *s->items);
    if (!s->sequences || !s->output_of || !s->items)
        return plait_error_memory("session", n * sizeof *s->sequences);
    for (size_t i = 0; i < n; i++) {
        s->output_of[i] = -1;
        /* Kept on the host: after a lost device they are all that is needed to make the cache again (resume.c). */
        s->sequences[i].tokens = plait_alloc_array((size_t)s->model->engine.context, sizeof(plait_token));
        if (!s->sequences[i].tokens)
            return plait_error_memory("session tokens", (uint64_t)s->model->engine.context * 4);
    }
    PLAIT_TRY(plait_pages_init(s));
    return open_runs(s);
}

/* A dry model has neither programs nor weights on its devices. */
plait_status plait_session_create(plait_session **out, plait_model *model) {
    if (model->options.dry)
        return plait_error(PLAIT_WRONG_STATE, "session: the model was opened for planning only");
    plait_session *s = plait_alloc_array(1, sizeof *s);
    if (!s) return plait_error_memory("session", sizeof *s);
    s->model = plait_model_retain(model);
    plait_status status = open_session(s);
    if (status != PLAIT_OK) {
        plait_session_destroy(s);
        return status;
    }
    *out = s;
    return PLAIT_OK;
}

/* Runs first: they wait for what is in flight and use everything else. */
void plait_session_destroy(plait_session *s) {
    if (!s) return;
    plait_run_destroy(s->layers);
    plait_run_destroy(s->copies);
    for (int t = 0; t < PLAIT_TAIL_COUNT; t++) plait_run_destroy(s->tails[t]);
    plait_session_state_destroy(s->state);
    plait_pages_deinit(s);
    for (int64_t i = 0; s->sequences && i < s->model->options.sequences; i++) free(s->sequences[i].tokens);
    free(s->sequences);
    free(s->output_of);
    free(s->items);
    plait_model_release(s->model);
    free(s);
}

plait_model *plait_session_model(const plait_session *session) {
    return session->model;
}

/* ---- sequences ---- */

/* The check of every call that names a sequence. */
plait_status plait_session_sequence(const plait_session *s, plait_seq seq, plait_sequence **out) {
    if (seq < 0 || seq >= s->model->options.sequences || !s->sequences[seq].used)
        return plait_error(PLAIT_INVALID_ARGUMENT, "sequence %d does not exist", seq);
    *out = &s->sequences[seq];
    return PLAIT_OK;
}

/* The lowest number that is free, so page tables, which go up to the last one in use, stay short. */
plait_status plait_session_begin(plait_session *s, plait_seq *out) {
    for (plait_seq i = 0; i < s->model->options.sequences; i++)
        if (!s->sequences[i].used) {
            s->sequences[i].used = true;
            s->sequences[i].length = 0;
            s->output_of[i] = -1;
            *out = i;
            return PLAIT_OK;
        }
    return plait_error(PLAIT_LIMIT, "all %lld sequences of the session are in use",
                       (long long)s->model->options.sequences);
}

/* Pages go back at once: later steps of other sequences may take them, and are behind this one's steps on the same
 * queues. */
plait_status plait_session_drop(plait_session *s, plait_seq seq) {
    plait_sequence *sequence;
    PLAIT_TRY(plait_session_sequence(s, seq, &sequence));
    plait_pages_release(s, sequence, 0);
    sequence->used = false;
    sequence->length = 0;
    s->output_of[seq] = -1;
    return PLAIT_OK;
}

/* The new sequence has the output of the old one's last token too, so both can go on from it. */
plait_status plait_session_fork(plait_session *s, plait_seq seq, plait_seq *out) {
    plait_sequence *from;
    plait_seq made = 0;
    PLAIT_TRY(plait_session_sequence(s, seq, &from));
    PLAIT_TRY(plait_session_begin(s, &made));
    plait_sequence *to = &s->sequences[made];
    plait_pages_share(s, from, to, from->length);
    memcpy(to->tokens, from->tokens, (size_t)from->length * sizeof *to->tokens);
    to->length = from->length;
    s->output_of[made] = s->output_of[seq];
    *out = made;
    return PLAIT_OK;
}

/* Shortest length at which every key that the next query sees is still there. The first page that is left of a window's
 * list begins at position first * page_len; the next query, at position n, sees keys from n - window + 1 on. */
static int64_t shortest_length(const plait_session *s, const plait_sequence *sequence) {
    int64_t shortest = 0;
    for (int g = 0; g < s->model->engine.n_groups; g++) {
        int64_t window = s->model->engine.groups[g].window, first = 0;
        if (window == 0) continue;
        /* Pages are given up from the front only, so the first that is there begins what is left. */
        while (first * PLAIT_MODEL_PAGE_LEN < sequence->length && sequence->pages[g][first] < 0) first++;
        int64_t needed = first == 0 ? 0 : first * PLAIT_MODEL_PAGE_LEN + window - 1;
        if (needed > shortest) shortest = needed;
    }
    return shortest;
}

/* To 0 always possible: nothing is needed then. Tokens beyond are forgotten, and so is the output, which was of the
 * last of them. The last page that is kept may hold keys of dropped positions; the positions that follow write over
 * them before anybody sees them. */
plait_status plait_session_truncate(plait_session *s, plait_seq seq, int64_t n_tokens) {
    plait_sequence *sequence;
    PLAIT_TRY(plait_session_sequence(s, seq, &sequence));
    if (n_tokens < 0 || n_tokens > sequence->length)
        return plait_error(PLAIT_OUT_OF_RANGE, "sequence %d: cannot keep %lld of its %lld tokens", seq,
                           (long long)n_tokens, (long long)sequence->length);
    int64_t shortest = shortest_length(s, sequence);
    /* Its own length is always fine: a step goes on from there anyway. */
    if (n_tokens > 0 && n_tokens < sequence->length && n_tokens < shortest)
        return plait_error(PLAIT_UNSUPPORTED,
                           "sequence %d: the sliding window gave up what %lld tokens would need; the "
                           "shortest that can be restored is %lld",
                           seq, (long long)n_tokens, (long long)shortest);
    plait_pages_release(s, sequence, (n_tokens + PLAIT_MODEL_PAGE_LEN - 1) / PLAIT_MODEL_PAGE_LEN);
    if (n_tokens < sequence->length) s->output_of[seq] = -1;
    sequence->length = n_tokens;
    return PLAIT_OK;
}

/* 0 for a number that is not in use: no error, as a loop over numbers asks. */
int64_t plait_session_length(const plait_session *s, plait_seq seq) {
    plait_sequence *sequence;
    return plait_session_sequence(s, seq, &sequence) == PLAIT_OK ? sequence->length : 0;
}

const plait_token *plait_session_tokens(const plait_session *s, plait_seq seq) {
    plait_sequence *sequence;
    return plait_session_sequence(s, seq, &sequence) == PLAIT_OK ? sequence->tokens : NULL;
}
