/* One step: items are checked as a whole, pages are taken, the run's inputs are written, and the layers run. Nothing is
 * changed before everything was checked.
 *
 * Invariant: after a failed step every sequence has the length and tokens it had; pages that were taken for it stay with
 * the sequence and are used by the next step. */
#include "model/session.h"

#include "base/size.h"
#include "run/run.h"

#include <string.h>

/* ---- checking ---- */

/* True when both have the same tokens in the same pages. Same pages, so no token need be compared: pages are only
 * shared by sequences that have the same tokens in them. */
static bool equal_so_far(const plait_session *s, const plait_sequence *a, const plait_sequence *b) {
    size_t n = (size_t)((a->length + PLAIT_MODEL_PAGE_LEN - 1) / PLAIT_MODEL_PAGE_LEN);
    if (a->length != b->length) return false;
    for (int g = 0; g < s->model->engine.n_groups; g++)
        if (memcmp(a->pages[g], b->pages[g], n * sizeof **a->pages) != 0) return false;
    return true;
}

/* The first sequence of an item leads, the others follow: their keys and values are written once, in the leader's pages,
 * which they share after the step. A follower therefore has no items of its own in the step, and may fall behind, but
 * never skip an item of its leader. */
static plait_status check_followers(plait_session *s, const plait_batch_item *item, int64_t index) {
    plait_sequence *first = &s->sequences[item->seqs[0]];
    int64_t pending = first->pending++;
    if (first->leader >= 0)
        return plait_error(PLAIT_INVALID_ARGUMENT,
                           "item %lld: sequence %d shared an item of sequence %d earlier in this step",
                           (long long)index, item->seqs[0], first->leader);
    for (int k = 1; k < item->n_seqs; k++) {
        plait_sequence *other;
        PLAIT_TRY(plait_error_context(plait_session_sequence(s, item->seqs[k], &other), "item %lld",
                                      (long long)index));
        /* Only before its first item of the step can a sequence join a leader; later it would have items of its own. */
        bool joins = other->leader < 0 && pending == 0 && equal_so_far(s, first, other);
        if (other->pending != pending || (!joins && other->leader != item->seqs[0]))
            return plait_error(PLAIT_INVALID_ARGUMENT, "item %lld: sequences %d and %d are not equal so far",
                               (long long)index, item->seqs[0], item->seqs[k]);
        other->leader = item->seqs[0];
        other->pending++;
    }
    return PLAIT_OK;
}

/* `pending` counts the items of the step per sequence, so positions within the step follow one another. */
static plait_status check_item(plait_session *s, const plait_batch_item *item, int64_t index) {
    plait_sequence *sequence;
    if (item->n_seqs < 1 || !item->seqs)
        return plait_error(PLAIT_INVALID_ARGUMENT, "item %lld belongs to no sequence", (long long)index);
    PLAIT_TRY(plait_error_context(plait_session_sequence(s, item->seqs[0], &sequence), "item %lld",
                                  (long long)index));
    int64_t next = sequence->length + sequence->pending;
    if (item->token < 0 || item->token >= s->model->hp.n_vocab)
        return plait_error(PLAIT_OUT_OF_RANGE, "item %lld: token id %d, expected 0 to %lld", (long long)index,
                           item->token, (long long)s->model->hp.n_vocab - 1);
    if (item->position >= 0 && item->position != next)
        return plait_error(PLAIT_OUT_OF_RANGE, "item %lld: position %lld of sequence %d, expected %lld",
                           (long long)index, (long long)item->position, item->seqs[0], (long long)next);
    if (next >= s->model->engine.context)
        return plait_error(PLAIT_OUT_OF_RANGE,
                           "sequence %d: position %lld is beyond the context of %lld tokens", item->seqs[0],
                           (long long)next, (long long)s->model->engine.context);
    return check_followers(s, item, index);
}

/* Of all sequences together, before any page is taken: what windows no longer see is given up first, as it may be what
 * lacks. Followers write nothing. */
static plait_status check_pages(plait_session *s) {
    int64_t needed[PLAIT_MODEL_MAX_GROUPS] = {0}, n = s->model->options.sequences;
    for (int64_t i = 0; i < n; i++)
        if (s->sequences[i].pending) plait_pages_drop_unseen(s, &s->sequences[i]);
    for (int64_t i = 0; i < n; i++)
        if (s->sequences[i].pending && s->sequences[i].leader < 0)
            plait_pages_count(s, &s->sequences[i], needed);
    for (int64_t i = 0; i < n; i++)
        if (s->sequences[i].pending && s->sequences[i].leader < 0) plait_pages_uncount(s, &s->sequences[i]);
    for (int g = 0; g < s->model->engine.n_groups; g++)
        if (needed[g] > s->pools[g].n_free)
            return plait_error(PLAIT_LIMIT, "the cache has %lld free pages of %d tokens, the step needs %lld",
                               (long long)s->pools[g].n_free, PLAIT_MODEL_PAGE_LEN, (long long)needed[g]);
    return PLAIT_OK;
}

/* Marks of the step before are cleared first, so a step that failed its checks leaves none that count. */
static plait_status check_items(plait_session *s, const plait_batch_item *items, int64_t n) {
    if (n < 1 || n > s->model->options.batch)
        return plait_error(PLAIT_OUT_OF_RANGE, "a step of %lld tokens, expected 1 to %lld", (long long)n,
                           (long long)s->model->options.batch);
    for (int64_t i = 0; i < s->model->options.sequences; i++)
        s->sequences[i].pending = 0, s->sequences[i].leader = -1;
    for (int64_t i = 0; i < n; i++) PLAIT_TRY(check_item(s, &items[i], i));
    return check_pages(s);
}

/* ---- inputs ---- */

/* The place may still be in use by the step that used it before: this waits for it. */
static plait_status input(plait_run *run, int index, int32_t **out) {
    void *bytes;
    uint64_t size;
    PLAIT_TRY(plait_run_input_at(run, index, &bytes, &size));
    *out = bytes;
    return PLAIT_OK;
}

/* Pages are taken while items are written, in their order. Slots are rows of the cache: page * page_len + place in it.
 * The mean of visible keys goes to the trace, since shapes do not tell it. */
static plait_status write_tokens(plait_session *s, const plait_batch_item *items, int64_t n) {
    int32_t *ids, *positions, *sequence_of, *output_rows, *hidden_slots, *slots[PLAIT_MODEL_MAX_GROUPS];
    PLAIT_TRY(input(s->layers, s->in_ids, &ids));
    PLAIT_TRY(input(s->layers, s->in_positions, &positions));
    PLAIT_TRY(input(s->layers, s->in_sequence_of, &sequence_of));
    PLAIT_TRY(input(s->layers, s->in_output_rows, &output_rows));
    PLAIT_TRY(input(s->layers, s->in_hidden_slots, &hidden_slots));
    for (int g = 0; g < s->model->engine.n_groups; g++)
        PLAIT_TRY(input(s->layers, s->in_slots[g], &slots[g]));
    for (int64_t i = 0; i < s->model->options.sequences; i++)
        s->sequences[i].pending = 0, s->output_of[i] = -1;
    s->n_outputs = 0;
    uint64_t n_keys = 0;
    for (int64_t i = 0; i < n; i++) {
        plait_sequence *sequence = &s->sequences[items[i].seqs[0]];
        int64_t position = sequence->length + sequence->pending++;
        plait_pages_take(s, sequence, position);
        ids[i] = items[i].token;
        positions[i] = (int32_t)position;
        n_keys += (uint64_t)position + 1;
        sequence_of[i] = items[i].seqs[0];
        for (int g = 0; g < s->model->engine.n_groups; g++)
            slots[g][i] = sequence->pages[g][position / PLAIT_MODEL_PAGE_LEN] * PLAIT_MODEL_PAGE_LEN +
                          (int32_t)(position % PLAIT_MODEL_PAGE_LEN);
        /* The last item of a sequence decides whether it has an output: sampling goes on from there. */
        for (int k = 0; k < items[i].n_seqs; k++)
            s->output_of[items[i].seqs[k]] = items[i].wants_output ? s->n_outputs : -1;
        if (!items[i].wants_output) continue;
        /* Row i of the step's tokens becomes row n_outputs of "hidden". */
        output_rows[s->n_outputs] = (int32_t)i;
        hidden_slots[s->n_outputs] = (int32_t)s->n_outputs;
        s->n_outputs++;
    }
    plait_run_note_keys(s->layers, n > 0 ? n_keys / (uint64_t)n : 0);
    return PLAIT_OK;
}

/* The page tables, up to the last sequence in use. Tables of sequences beyond are not read; a number that is not in use
 * in between has an empty table. */
static plait_status write_pages(plait_session *s) {
    int64_t n = 1;
    for (int64_t i = 0; i < s->model->options.sequences; i++)
        if (s->sequences[i].used) n = i + 1;
    for (int g = 0; g < s->model->engine.n_groups; g++) {
        /* Whole lists, as the table's inner dim is constant; an entry of -1 shows no key. */
        size_t list = (size_t)s->model->engine.groups[g].max_list;
        int32_t *table;
        PLAIT_TRY(input(s->layers, s->in_pages[g], &table));
        for (int64_t i = 0; i < n; i++)
            memcpy(table + (size_t)i * list, s->sequences[i].pages[g], list * sizeof *table);
    }
    return plait_run_set_dim_at(s->layers, s->dim_sequences, n);
}

/* Copies of shared pages go before the step that writes them. A plan of its own: steps without copies do not pay for
 * it. Its inputs have a place for each step in flight, like all. */
static plait_status run_copies(plait_session *s) {
    bool any = false;
    for (int g = 0; g < s->model->engine.n_groups; g++) {
        char name[32] = "copies.0";
        name[7] = (char)('0' + g);
        int32_t *list;
        int index = 0, dim = 0;
        PLAIT_TRY(plait_run_input_index(s->copies, name, &index));
        PLAIT_TRY(plait_run_dim_index(s->copies, name, &dim));
        PLAIT_TRY(input(s->copies, index, &list));
        memcpy(list, s->pools[g].copies, (size_t)(2 * s->pools[g].n_copies) * sizeof *list);
        PLAIT_TRY(plait_run_set_dim_at(s->copies, dim, s->pools[g].n_copies));
        any = any || s->pools[g].n_copies > 0;
    }
    if (any) PLAIT_TRY(plait_run_step(s->copies));
    for (int g = 0; g < s->model->engine.n_groups; g++) s->pools[g].n_copies = 0;
    return PLAIT_OK;
}

/* ---- the step ---- */

/* Sequences that followed another one now have its tokens, as far as they followed, and share its pages. */
static void follow(plait_session *s, const plait_batch_item *items, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        for (int k = 1; k < items[i].n_seqs; k++) {
            plait_sequence *other = &s->sequences[items[i].seqs[k]];
            other->tokens[other->length++] = items[i].token;
        }
    for (int64_t i = 0; i < s->model->options.sequences; i++) {
        plait_sequence *other = &s->sequences[i];
        if (other->leader < 0) continue;
        plait_pages_release(s, other, 0);
        plait_pages_share(s, &s->sequences[other->leader], other, other->length);
        other->leader = -1;
    }
}

/* Copies are submitted before the layers, on the same queues, so the pages are there when they are written. */
static plait_status run_layers(plait_session *s, const plait_batch_item *items, int64_t n) {
    PLAIT_TRY(write_tokens(s, items, n));
    PLAIT_TRY(run_copies(s));
    PLAIT_TRY(write_pages(s));
    PLAIT_TRY(plait_run_set_dim_at(s->layers, s->dim_tokens, n));
    PLAIT_TRY(plait_run_set_dim_at(s->layers, s->dim_outputs, s->n_outputs));
    return plait_run_step(s->layers);
}

/* A step that failed has no outputs. Copies that were submitted already are done; their pages stay with the sequences.
 */
static void give_up(plait_session *s) {
    plait_pages_undo_copies(s);
    s->n_outputs = 0;
    for (int64_t i = 0; i < s->model->options.sequences; i++) s->output_of[i] = -1;
}

/* Tokens count when the step was handed over; a failure of the devices shows at the next wait. */
plait_status plait_session_step(plait_session *s, const plait_batch_item *items, int64_t n) {
    PLAIT_TRY(check_items(s, items, n));
    s->n_tail = 0;
    plait_status status = run_layers(s, items, n);
    if (status != PLAIT_OK) {
        give_up(s);
        return status;
    }
    for (int64_t i = 0; i < n; i++) {
        plait_sequence *sequence = &s->sequences[items[i].seqs[0]];
        sequence->tokens[sequence->length++] = items[i].token;
    }
    follow(s, items, n);
    return PLAIT_OK;
}

plait_status plait_session_wait(plait_session *s) {
    return plait_run_wait(s->layers);
}
