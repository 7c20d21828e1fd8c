/* Inside of a session: sequences, cache pages, and the runs of the model's plans.
 *
 * A sequence is its tokens and, for each cache group, a list of pages: entry i holds positions [i, i + 1) * page_len,
 * -1 where a window has given the page up. Pages are counted: a page with a count above 1 is shared and is copied
 * before it is written. */
#ifndef PLAIT_MODEL_SESSION_H
#define PLAIT_MODEL_SESSION_H

#include "model/model.h"
#include "plait/session.h"

/* The pages of one cache group. */
typedef struct plait_page_pool {
    int32_t *counts; /* [n_pages] references by sequences */
    int32_t *free;   /* stack of pages without references */
    int64_t n_free, n_pages;
    int32_t *copies; /* [2 * sequences]: (from, to) pairs of the coming step */
    int64_t n_copies;
} plait_page_pool;

/* Tokens and pages have room for the whole context. Entries of pages behind the last token are -1, but for those that a
 * failed step had taken: the next step uses them. */
typedef struct plait_sequence {
    bool used;
    plait_token *tokens; /* [context] */
    int64_t length;
    int64_t pending;                        /* items of the step being prepared */
    plait_seq leader;                       /* whose items it shares in that step; -1: it has its own */
    int32_t *pages[PLAIT_MODEL_MAX_GROUPS]; /* [max_list] of each group */
} plait_sequence;

struct plait_session {
    plait_model *model; /* Retained. */
    plait_session_state *state;
    plait_run *layers, *tails[PLAIT_TAIL_COUNT], *copies;
    plait_sequence *sequences; /* [options.sequences] */
    plait_batch_item *items;   /* [options.batch]: of prompts that are fed in pieces */
    plait_page_pool pools[PLAIT_MODEL_MAX_GROUPS];
    int64_t n_outputs;  /* of the last step */
    int64_t *output_of; /* [sequences]: last output row of each sequence in the last step, -1: none */
    /* What the tails computed last: rows [tail_row, tail_row + n) of kind `tail`; n 0: nothing. */
    plait_tail tail;
    int64_t tail_row, n_tail;
    /* Indices in the layers' run. */
    int in_ids, in_positions, in_sequence_of, in_output_rows, in_hidden_slots;
    int in_slots[PLAIT_MODEL_MAX_GROUPS], in_pages[PLAIT_MODEL_MAX_GROUPS];
    int dim_tokens, dim_outputs, dim_sequences;
    int tail_rows[PLAIT_TAIL_COUNT], tail_dim[PLAIT_TAIL_COUNT];
};

/* ---- pages.c ---- */

plait_status plait_pages_init(plait_session *session);
void plait_pages_deinit(plait_session *session);
/* Gives up pages that no coming query of the sequence can see. */
void plait_pages_drop_unseen(plait_session *session, plait_sequence *sequence);
/* Adds to out_needed what the sequence's pending tokens take from each group's pool, copies of shared pages included:
 * the last of a page's holders to write it needs no copy, so counted sequences are taken off the counts of their
 * pages until plait_pages_uncount puts them back. */
void plait_pages_count(plait_session *session, const plait_sequence *sequence, int64_t *out_needed);
void plait_pages_uncount(plait_session *session, const plait_sequence *sequence);
/* Makes the page of a position exclusively the sequence's: takes one, or copies a shared one. Pages were counted. */
void plait_pages_take(plait_session *session, plait_sequence *sequence, int64_t position);
/* Releases the pages at and after list entry `first`. */
void plait_pages_release(plait_session *session, plait_sequence *sequence, int64_t first);
/* Shares the pages of the first `length` positions of `from` with `to`, which has none. */
void plait_pages_share(plait_session *session, const plait_sequence *from, plait_sequence *to,
                       int64_t length);
/* Takes back the copies that were listed but not made: their sequences have the shared pages again. */
void plait_pages_undo_copies(plait_session *session);

/* The sequence, or INVALID_ARGUMENT. */
plait_status plait_session_sequence(const plait_session *session, plait_seq seq, plait_sequence **out);

#endif
