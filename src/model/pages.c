/* Cache pages: counting, taking, sharing, giving up. Host bookkeeping only: no byte of a cache is touched here; copies
 * of shared pages are listed for the coming step. The idea of a cache in counted pages with a table for each sequence:
 * Kwon et al., arXiv 2309.06180.
 *
 * Invariant: the count of a page is the number of list entries that name it; pages with count 0 are on the free stack,
 * each once. */
#include "model/session.h"

#include "base/alloc.h"
#include "base/size.h"

#include <stdlib.h>
#include <string.h>

static const plait_cache_group *group_of(const plait_session *session, int g) {
    return &session->model->engine.groups[g];
}

/* Pages are taken from the lowest number up at first, so a session that uses little of its cache touches little of it.
 */
static plait_status init_pool(plait_session *session, int g) {
    plait_page_pool *pool = &session->pools[g];
    const plait_cache_group *group = group_of(session, g);
    size_t n = (size_t)group->n_pages, n_sequences = (size_t)session->model->options.sequences;
    pool->counts = plait_alloc_array(n, sizeof *pool->counts);
    pool->free = plait_alloc_array(n, sizeof *pool->free);
    pool->copies = plait_alloc_array(2 * n_sequences, sizeof *pool->copies);
    if (!pool->counts || !pool->free || !pool->copies)
        return plait_error_memory("cache pages", n * sizeof *pool->free);
    pool->n_pages = pool->n_free = group->n_pages;
    for (int64_t p = 0; p < group->n_pages; p++) pool->free[p] = (int32_t)(group->n_pages - 1 - p);
    for (size_t s = 0; s < n_sequences; s++) {
        int32_t *list = plait_alloc_array((size_t)group->max_list, sizeof *list);
        if (!list) return plait_error_memory("cache page lists", (uint64_t)group->max_list * sizeof *list);
        for (int64_t i = 0; i < group->max_list; i++) list[i] = -1;
        session->sequences[s].pages[g] = list;
    }
    return PLAIT_OK;
}

plait_status plait_pages_init(plait_session *session) {
    for (int g = 0; g < session->model->engine.n_groups; g++) PLAIT_TRY(init_pool(session, g));
    return PLAIT_OK;
}

/* Accepts a session whose pools or sequences were never made. */
void plait_pages_deinit(plait_session *session) {
    for (int g = 0; g < PLAIT_MODEL_MAX_GROUPS; g++) {
        free(session->pools[g].counts);
        free(session->pools[g].free);
        free(session->pools[g].copies);
        for (int64_t s = 0; session->sequences && s < session->model->options.sequences; s++)
            free(session->sequences[s].pages[g]);
    }
}

/* Absent entries are passed over; the last holder gives the page back. */
static void release_page(plait_page_pool *pool, int32_t *entry) {
    if (*entry < 0) return;
    if (--pool->counts[*entry] == 0) pool->free[pool->n_free++] = *entry;
    *entry = -1;
}

/* That there is one was counted before (plait_pages_count). */
static int32_t take_page(plait_page_pool *pool) {
    int32_t page = pool->free[--pool->n_free];
    pool->counts[page] = 1;
    return page;
}

/* Only whole pages are given up, from the front of the list; their entries stay as -1, so positions keep their places.
 */
void plait_pages_drop_unseen(plait_session *session, plait_sequence *sequence) {
    for (int g = 0; g < session->model->engine.n_groups; g++) {
        const plait_cache_group *group = group_of(session, g);
        if (group->window == 0) continue;
        /* The next query is at position `length`; it sees keys at distance < window. */
        int64_t first_seen = sequence->length - group->window + 1;
        for (int64_t i = 0; i < group->max_list && (i + 1) * PLAIT_MODEL_PAGE_LEN <= first_seen; i++)
            release_page(&session->pools[g], &sequence->pages[g][i]);
    }
}

/* First and last list entry that the pending tokens write. */
static int64_t first_written(const plait_sequence *sequence) {
    return sequence->length / PLAIT_MODEL_PAGE_LEN;
}

static int64_t last_written(const plait_sequence *sequence) {
    return (sequence->length + sequence->pending - 1) / PLAIT_MODEL_PAGE_LEN;
}

/* Counted by pretending: each sequence takes itself off the counts of the pages that it will write, so of several that
 * share a page all but the last need a copy. */
void plait_pages_count(plait_session *session, const plait_sequence *sequence, int64_t *out_needed) {
    for (int g = 0; g < session->model->engine.n_groups; g++)
        for (int64_t i = first_written(sequence); i <= last_written(sequence); i++) {
            int32_t page = sequence->pages[g][i];
            out_needed[g] += page < 0 || --session->pools[g].counts[page] > 0;
        }
}

void plait_pages_uncount(plait_session *session, const plait_sequence *sequence) {
    for (int g = 0; g < session->model->engine.n_groups; g++)
        for (int64_t i = first_written(sequence); i <= last_written(sequence); i++)
            if (sequence->pages[g][i] >= 0) session->pools[g].counts[sequence->pages[g][i]]++;
}

/* A page of its own stays; none yet: a fresh one; shared: a fresh one, and its bytes are to be copied before the step.
 */
void plait_pages_take(plait_session *session, plait_sequence *sequence, int64_t position) {
    for (int g = 0; g < session->model->engine.n_groups; g++) {
        plait_page_pool *pool = &session->pools[g];
        int32_t *entry = &sequence->pages[g][position / PLAIT_MODEL_PAGE_LEN];
        if (*entry >= 0 && pool->counts[*entry] == 1) continue;
        int32_t fresh = take_page(pool);
        if (*entry >= 0) {
            pool->copies[2 * pool->n_copies] = *entry;
            pool->copies[2 * pool->n_copies + 1] = fresh;
            pool->n_copies++;
            release_page(pool, entry);
        }
        *entry = fresh;
    }
}

void plait_pages_release(plait_session *session, plait_sequence *sequence, int64_t first) {
    for (int g = 0; g < session->model->engine.n_groups; g++)
        for (int64_t i = first; i < group_of(session, g)->max_list; i++)
            release_page(&session->pools[g], &sequence->pages[g][i]);
}

/* The last page may be half full: whoever writes it first copies it. */
void plait_pages_share(plait_session *session, const plait_sequence *from, plait_sequence *to,
                       int64_t length) {
    int64_t n = (length + PLAIT_MODEL_PAGE_LEN - 1) / PLAIT_MODEL_PAGE_LEN;
    for (int g = 0; g < session->model->engine.n_groups; g++)
        for (int64_t i = 0; i < n; i++) {
            to->pages[g][i] = from->pages[g][i];
            if (to->pages[g][i] >= 0) session->pools[g].counts[to->pages[g][i]]++;
        }
}

/* The one list entry that names a page which was just taken. Searched, as it happens after failures only. */
static int32_t *holder_of(plait_session *session, int g, int32_t page) {
    for (int64_t s = 0; s < session->model->options.sequences; s++)
        for (int64_t i = 0; i < group_of(session, g)->max_list; i++)
            if (session->sequences[s].pages[g][i] == page) return &session->sequences[s].pages[g][i];
    return NULL;
}

/* Last copy first, so that counts go back as they came. */
void plait_pages_undo_copies(plait_session *session) {
    for (int g = 0; g < session->model->engine.n_groups; g++) {
        plait_page_pool *pool = &session->pools[g];
        while (pool->n_copies > 0) {
            int32_t from = pool->copies[2 * --pool->n_copies], to = pool->copies[2 * pool->n_copies + 1];
            int32_t *entry = holder_of(session, g, to);
            if (!entry) continue;
            release_page(pool, entry);
            *entry = from;
            pool->counts[from]++;
        }
    }
}
