/* Spans of a shadow: looking up, splitting, writing over, sweeping together. Not here: what a conflict means
 * (buffer.c). Invariant: see shadow.h; between calls no two spans that touch have the same answer within what was last
 * changed, so a shadow has as many spans as there are stories to tell. */
#include "device/monitor/shadow.h"

#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>

/* MOST_SPANS: beyond that a shadow goes blind. SWEEP_FROM: fewer spans are not worth sweeping. */
enum { MOST_SPANS = 1 << 16, SWEEP_FROM = 64 };

typedef plait_monitor_span span;
typedef plait_monitor_mark mark;

void plait_monitor_shadow_deinit(plait_monitor_shadow *shadow) {
    free(shadow->spans);
    *shadow = (plait_monitor_shadow){0};
}

void plait_monitor_shadow_clear(plait_monitor_shadow *shadow) {
    shadow->n = shadow->swept = 0;
    shadow->blind = false;
}

/* From here on every byte counts as written by nobody: no breach is found here any more, and none is made up. */
static void forget(plait_monitor_shadow *shadow) {
    shadow->n = 0;
    shadow->blind = true;
}

/* The first span that ends behind `at`: the one that holds `at`, or the next one. By bisection. */
static size_t find(const plait_monitor_shadow *shadow, uint64_t at) {
    size_t low = 0, high = shadow->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (shadow->spans[middle].end > at)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* ---- shape ---- */

/* Room for one span at `index`, whose content is left to the caller; false when there is none and everything was
 * forgotten. */
static bool open_at(plait_monitor_shadow *shadow, size_t index) {
    if (shadow->n == shadow->capacity) {
        void *spans = shadow->spans;
        plait_error_record kept; /* running out of memory here is no failure of the caller's call */
        plait_error_save(PLAIT_INTERNAL, &kept);
        plait_status status =
            plait_grow(&spans, &shadow->capacity, shadow->n + 1, sizeof(span), MOST_SPANS, "monitor: spans");
        shadow->spans = spans;
        if (status != PLAIT_OK) {
            plait_error_raise(&kept);
            forget(shadow);
            return false;
        }
    }
    memmove(shadow->spans + index + 1, shadow->spans + index, (shadow->n - index) * sizeof(span));
    shadow->n++;
    return true;
}

/* A border between spans at `at`, if one lies across it; false when everything was forgotten on the way. */
static bool split(plait_monitor_shadow *shadow, uint64_t at) {
    size_t i = find(shadow, at);
    if (i == shadow->n || shadow->spans[i].begin >= at) return true;
    if (!open_at(shadow, i)) return false;
    shadow->spans[i + 1].begin = at;
    shadow->spans[i].end = at;
    return true;
}

/* Marks of one call and lane are one: which command of a list it was, is told as that of the first. */
static bool same_mark(const mark *a, const mark *b) {
    return a->t == b->t && (a->t == 0 || (a->lane == b->lane && a->call == b->call));
}

/* Neighbours without a gap, with the same writer and readers. */
static bool joins(const span *a, const span *b) {
    bool same = a->end == b->begin && a->written == b->written && same_mark(&a->write, &b->write);
    for (int r = 0; same && r < PLAIT_MONITOR_READERS; r++) same = same_mark(&a->reads[r], &b->reads[r]);
    return same;
}

/* Makes one of spans first .. last (included) where neighbours have the same answer. */
static void merge(plait_monitor_shadow *shadow, size_t first, size_t last) {
    size_t kept = first;
    if (shadow->n == 0) return;
    if (last >= shadow->n) last = shadow->n - 1;
    for (size_t i = first + 1; i <= last; i++)
        if (joins(&shadow->spans[kept], &shadow->spans[i]))
            shadow->spans[kept].end = shadow->spans[i].end;
        else if (++kept != i)
            shadow->spans[kept] = shadow->spans[i];
    if (kept == last || first >= shadow->n) return;
    memmove(shadow->spans + kept + 1, shadow->spans + last + 1, (shadow->n - last - 1) * sizeof(span));
    shadow->n -= last - kept;
}

/* ---- what is known ---- */

/* What the host knows to be over, everybody learns with the next submission. */
static void forget_known(mark *m, const plait_monitor_clock *host) {
    if (m->t && plait_monitor_knows(host, m)) *m = (mark){0};
}

/* Drops marks that everybody will know, and moves the readers that are left together. */
static void tidy(span *s, const plait_monitor_clock *host) {
    int n = 0;
    forget_known(&s->write, host);
    for (int r = 0; r < PLAIT_MONITOR_READERS; r++) {
        forget_known(&s->reads[r], host);
        if (s->reads[r].t && n++ != r) {
            s->reads[n - 1] = s->reads[r];
            s->reads[r] = (mark){0};
        }
    }
}

/* A span that was read only, by readers that are over: the same as no span. */
static bool says_nothing(const span *s) {
    return !s->written && s->write.t == 0 && s->reads[0].t == 0;
}

/* All spans at once, when they have doubled since the last time: so sweeping costs a constant for each span that was
 * made. */
static void sweep(plait_monitor_shadow *shadow, const plait_monitor_clock *host) {
    size_t kept = 0;
    if (shadow->n < SWEEP_FROM || shadow->n < 2 * shadow->swept) return;
    for (size_t i = 0; i < shadow->n; i++) {
        tidy(&shadow->spans[i], host);
        if (!says_nothing(&shadow->spans[i])) shadow->spans[kept++] = shadow->spans[i];
    }
    shadow->n = kept;
    if (kept) merge(shadow, 0, kept - 1);
    shadow->swept = shadow->n;
}

/* A write conflicts with any access that `clock` does not know, a read with writes only. */
const plait_monitor_mark *plait_monitor_shadow_conflict(const plait_monitor_shadow *shadow, uint64_t begin,
                                                        uint64_t end, bool write,
                                                        const plait_monitor_clock *clock, bool *out_write,
                                                        uint64_t *out_at) {
    for (size_t i = find(shadow, begin); i < shadow->n && shadow->spans[i].begin < end; i++) {
        const span *s = &shadow->spans[i];
        *out_at = s->begin > begin ? s->begin : begin;
        *out_write = true;
        if (s->write.t && !plait_monitor_knows(clock, &s->write)) return &s->write;
        *out_write = false;
        for (int r = 0; write && r < PLAIT_MONITOR_READERS; r++)
            if (s->reads[r].t && !plait_monitor_knows(clock, &s->reads[r])) return &s->reads[r];
    }
    return NULL;
}

/* ---- noting ---- */

/* Later reads of a lane cover earlier ones. With more lanes than places one is forgotten: a write against it is then
 * not found. */
static void add_reader(span *s, const mark *reader) {
    int place = PLAIT_MONITOR_READERS - 1;
    for (int r = PLAIT_MONITOR_READERS - 1; r >= 0; r--)
        if (s->reads[r].t == 0 || s->reads[r].lane == reader->lane) place = r;
    for (int r = 0; r < PLAIT_MONITOR_READERS; r++)
        if (s->reads[r].t && s->reads[r].lane == reader->lane) place = r;
    s->reads[place] = *reader;
}

/* One span for all of it: whoever wrote or read these bytes before is in order with this writer, or was reported. */
static void note_write(plait_monitor_shadow *shadow, uint64_t begin, uint64_t end, const mark *writer) {
    if (!split(shadow, begin) || !split(shadow, end)) return;
    size_t first = find(shadow, begin), last = first;
    while (last < shadow->n && shadow->spans[last].begin < end) last++;
    if (first == last) {
        if (!open_at(shadow, first)) return;
        last = first + 1;
    }
    shadow->spans[first] = (span){.begin = begin, .end = end, .written = true, .write = *writer};
    memmove(shadow->spans + first + 1, shadow->spans + last, (shadow->n - last) * sizeof(span));
    shadow->n -= last - first - 1;
    merge(shadow, first ? first - 1 : 0, first + 1);
}

/* Spans keep their writers and gain a reader; gaps become spans that nobody wrote. */
static void note_read(plait_monitor_shadow *shadow, uint64_t begin, uint64_t end, const mark *reader,
                      const plait_monitor_clock *host) {
    if (!split(shadow, begin) || !split(shadow, end)) return;
    size_t first = find(shadow, begin), i = first;
    for (uint64_t at = begin; at < end; i++) {
        bool gap = i == shadow->n || shadow->spans[i].begin > at;
        if (gap) {
            uint64_t stop = i == shadow->n || shadow->spans[i].begin > end ? end : shadow->spans[i].begin;
            if (!open_at(shadow, i)) return;
            shadow->spans[i] = (span){.begin = at, .end = stop};
        }
        tidy(&shadow->spans[i], host);
        add_reader(&shadow->spans[i], reader);
        at = shadow->spans[i].end;
    }
    merge(shadow, first ? first - 1 : 0, i);
}

/* A blind shadow notes nothing more: it holds all to be written. */
void plait_monitor_shadow_note(plait_monitor_shadow *shadow, uint64_t begin, uint64_t end, bool write,
                               const plait_monitor_mark *access, const plait_monitor_clock *host) {
    if (shadow->blind || begin >= end) return;
    sweep(shadow, host);
    if (write)
        note_write(shadow, begin, end, access);
    else
        note_read(shadow, begin, end, access, host);
}

void plait_monitor_shadow_write(plait_monitor_shadow *shadow, uint64_t begin, uint64_t end) {
    static const mark nobody = {0};
    if (!shadow->blind && begin < end) note_write(shadow, begin, end, &nobody);
}

/* Steps over written spans from `begin` on, then takes all up to the next written one: gaps, and spans that were only
 * read. */
bool plait_monitor_shadow_unwritten(const plait_monitor_shadow *shadow, uint64_t begin, uint64_t end,
                                    uint64_t *out_begin, uint64_t *out_end) {
    if (shadow->blind) return false;
    size_t i = find(shadow, begin);
    while (i < shadow->n && shadow->spans[i].begin <= begin && shadow->spans[i].written && begin < end)
        begin = shadow->spans[i++].end;
    if (begin >= end) return false;
    *out_begin = begin;
    while (i < shadow->n && !shadow->spans[i].written && shadow->spans[i].begin < end) i++;
    *out_end = i < shadow->n && shadow->spans[i].begin < end ? shadow->spans[i].begin : end;
    return true;
}
