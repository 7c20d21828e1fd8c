/* Lists of cpu items: a device of each NUMA node, and fair shares for those that name none. What an item became is
 * written as options again, so a device is made the same way whether a list or a person named its processors.
 *
 * Not here: what a device does with its processors (share.c). Invariant: an item that this file does not understand
 * stays as it is, so that creating it says what is wrong; whatever is given out is given once. */
#include "base/alloc.h"
#include "base/os.h"
#include "base/size.h"
#include "base/strbuf.h"
#include "device/cpu/options.h"

#include <stdlib.h>
#include <string.h>

/* MAX_OPTIONS as in the registry, which refuses longer items when it creates them. MAX_DEVICES bounds what numa=each of
 * many items may become before the list's own limit is looked at. */
enum { MAX_OPTIONS = 32, MAX_DEVICES = 4096 };

/* A device to be. */
typedef struct entry {
    int source;  /* item */
    int threads; /* 0: not settled */
    int node;    /* number of the node that numa=each stands for here; -1: the item's own word, if any */
    bool placed; /* the item names processors or a node: `processors` */
    bool dealt;  /* processors were given to it */
    plait_cpuset processors;
} entry;

/* entries: in the order of the items, those of one item's nodes in the order of nodes. threads:
 * plait_context_options.threads, for items that name none; 0: nobody said. */
typedef struct expansion {
    const plait_topology *topology; /* NULL: not needed */
    const char *const *items;
    int threads;
    entry *entries; /* Owned. */
    size_t capacity;
    int n;
} expansion;

/* ---- reading ---- */

/* The options of an item; false when they are none. *out must not move. */
static bool read_item(const char *item, plait_cpu_options *out, bool *out_of_memory) {
    const char *parts[MAX_OPTIONS];
    int n = 0;
    char *text = plait_string_copy(item);
    *out_of_memory = !text;
    if (!text) return false;
    for (char *p = item[0] ? text : NULL; p && n < MAX_OPTIONS; n++) {
        parts[n] = p;
        p = strchr(p, ':');
        if (p) *p++ = '\0';
    }
    bool fine = plait_cpu_options_parse(parts, n, out) == PLAIT_OK;
    free(text);
    return fine;
}

static plait_status add_entry(expansion *e, const entry *what) {
    PLAIT_TRY(plait_grow(&e->entries, &e->capacity, (size_t)e->n + 1, sizeof *e->entries, MAX_DEVICES,
                         "device list"));
    e->entries[e->n++] = *what;
    return PLAIT_OK;
}

/* An entry for each node that is the first one near to some processor, with those processors: together they use every
 * processor once. Nodes of memory alone make none. */
static plait_status add_each_node(expansion *e, const plait_cpu_options *options, entry what) {
    const plait_topology *t = e->topology;
    if (options->wish.processors)
        return plait_error(PLAIT_INVALID_ARGUMENT,
                           "numa=each and cores= in one item: each node has its cores");
    if (t->n_nodes == 0)
        return plait_error(PLAIT_INVALID_ARGUMENT, "numa=each: this machine has no NUMA nodes");
    for (int i = 0; i < t->n_nodes; i++) {
        if (!plait_topology_is_home(t, i)) continue;
        what.node = t->nodes[i].number;
        what.processors = (plait_cpuset){0};
        for (int p = 0; p < t->n_processors; p++)
            if (t->processors[p].node == i) plait_cpuset_add(&what.processors, t->processors[p].number);
        PLAIT_TRY(add_entry(e, &what));
    }
    return PLAIT_OK;
}

/* An item that cannot be read takes part in nothing: it counts as placed, without processors, and is emitted as it
 * stands. One that names a node of the topology has that node's processors; one whose node does not exist has none, and
 * fails when it is created. */
static plait_status add_item(expansion *e, int item) {
    plait_cpu_options options;
    bool out_of_memory;
    entry what = {.source = item, .node = -1, .placed = true};
    if (!read_item(e->items[item], &options, &out_of_memory))
        return out_of_memory ? plait_error_memory("device list", 0) : add_entry(e, &what);
    what.threads = options.wish.threads ? options.wish.threads : e->threads;
    if (options.each_node && e->topology) return add_each_node(e, &options, what);
    what.placed = options.each_node || options.wish.processors || options.wish.node >= 0;
    if (options.wish.processors)
        what.processors = options.processors;
    else if (what.placed && e->topology) {
        int node = plait_topology_find_node(e->topology, options.wish.node);
        if (node >= 0) what.processors = e->topology->nodes[node].processors;
    }
    return add_entry(e, &what);
}

/* ---- threads ---- */

/* What the placed ones leave: the set, and how many threads it may keep busy. The two differ under a quota of processor
 * time, which bounds threads and not processors. A placed item takes as many as it has threads, at most its processors;
 * without a number of threads, all of them. */
static int left_over(const expansion *e, plait_cpuset *out) {
    plait_topology_processors(e->topology, out);
    int64_t busy = e->topology->is_this_machine ? plait_os_processors() : e->topology->n_processors;
    for (int i = 0; i < e->n; i++) {
        const entry *x = &e->entries[i];
        if (!x->placed) continue;
        int n = plait_cpuset_count(&x->processors);
        plait_cpuset_remove(out, &x->processors);
        busy -= x->threads ? plait_min_i64(x->threads, n) : n;
    }
    return (int)plait_max_i64(plait_min_i64(busy, plait_cpuset_count(out)), 0);
}

/* Threads of those that are not placed; returns their sum. Items that name their threads keep them; what is left over
 * is cut evenly among the others, one at least each, so the sum may be more than there are processors: nobody is dealt
 * any then. */
static int64_t settle_threads(expansion *e, int processors) {
    int64_t rest = processors, open = 0, sum = 0, index = 0;
    for (int i = 0; i < e->n; i++)
        if (!e->entries[i].placed) {
            rest -= e->entries[i].threads;
            open += e->entries[i].threads == 0;
        }
    rest = plait_max_i64(rest, open); /* one at least */
    for (int i = 0; i < e->n; i++) {
        entry *x = &e->entries[i];
        if (x->placed) continue;
        if (x->threads == 0) {
            /* The parts of an even cut, which differ by one at most. */
            int64_t n = plait_part_start(rest, index + 1, open) - plait_part_start(rest, index, open);
            x->threads = (int)plait_min_i64(n, PLAIT_CPU_MAX_THREADS);
            index++;
        }
        sum += x->threads;
    }
    return sum;
}

/* ---- dealing ---- */

/* How processors are dealt: those of a core together or each alone; each kind in the same proportion or all as one. */
typedef struct manner {
    bool by_core, by_kind;
} manner;

/* Length of the run of processors from `first` on that go together: of one core, kind and free. */
static int run_length(const plait_topology *t, const plait_cpuset *left, int first, manner how) {
    int n = 1;
    while (how.by_core && first + n < t->n_processors &&
           t->processors[first + n].core == t->processors[first].core &&
           t->processors[first + n].kind == t->processors[first].kind &&
           plait_cpuset_has(left, t->processors[first + n].number))
        n++;
    return n;
}

/* Deals the processors of a kind (-1: of all), in the topology's order: each entry takes runs until it has come to its
 * share, counted from the beginning so that roundings do not add up. Neighbours of the list are neighbours on the
 * machine, so what an entry gets is near together. n_threads: of all entries that are dealt to, at least 1. */
static void deal_kind(expansion *e, const plait_cpuset *left, int64_t n_threads, int kind, manner how) {
    const plait_topology *t = e->topology;
    int64_t total = 0, given = 0, wanted = 0;
    int to = -1; /* entry */
    for (int i = 0; i < t->n_processors; i++)
        total +=
            plait_cpuset_has(left, t->processors[i].number) && (kind < 0 || t->processors[i].kind == kind);
    for (int i = 0, n; i < t->n_processors; i += n) {
        n = 1;
        if (!plait_cpuset_has(left, t->processors[i].number) || (kind >= 0 && t->processors[i].kind != kind))
            continue;
        n = run_length(t, left, i, how);
        /* A run belongs to the entry in whose share its middle lies, given + n / 2 of total against wanted of
         * n_threads, both sides doubled to stay in integers. With the last entry `wanted` is n_threads, which no middle
         * of a run is beyond, so `to` never passes the end. */
        while (to < 0 || (2 * given + n) * n_threads > 2 * total * wanted) {
            do to++;
            while (e->entries[to].placed);
            wanted += e->entries[to].threads;
        }
        for (int k = 0; k < n; k++) plait_cpuset_add(&e->entries[to].processors, t->processors[i + k].number);
        given += n;
    }
}

/* One attempt, from nothing; false when somebody would get fewer processors than threads. Shares are in proportion to
 * threads, so that happens through rounding, by cores of two threads above all. */
static bool deal(expansion *e, const plait_cpuset *left, int64_t n_threads, manner how) {
    for (int i = 0; i < e->n; i++)
        if (!e->entries[i].placed) e->entries[i].processors = (plait_cpuset){0};
    for (int kind = 0; kind < (how.by_kind ? e->topology->n_kinds : 1); kind++)
        deal_kind(e, left, n_threads, how.by_kind ? kind : -1, how);
    for (int i = 0; i < e->n; i++)
        if (!e->entries[i].placed && plait_cpuset_count(&e->entries[i].processors) < e->entries[i].threads)
            return false;
    return true;
}

/* Where there is not enough for all threads, nobody gets processors of his own: bound threads would wait for each other
 * where unbound ones are spread by the system. Whole cores of every kind in proportion are tried first, then single
 * processors of every kind, then single processors of whatever kind. */
static void share_out(expansion *e) {
    static const manner manners[] = {{true, true}, {false, true}, {false, false}};
    plait_cpuset left;
    int processors = left_over(e, &left);
    int64_t n_threads = settle_threads(e, processors);
    bool dealt = false;
    if (n_threads == 0 || n_threads > processors) return;
    for (size_t i = 0; i < PLAIT_COUNT_OF(manners) && !dealt; i++)
        dealt = deal(e, &left, n_threads, manners[i]);
    for (int i = 0; i < e->n; i++) e->entries[i].dealt = dealt && !e->entries[i].placed;
}

/* ---- writing ---- */

/* The item's own options, less those that the entry settles: of numa=each, the numa. */
static void append_options(plait_strbuf *out, const char *item, const entry *x) {
    for (const char *p = item; *p;) {
        size_t n = strcspn(p, ":");
        if (x->node < 0 || strncmp(p, "numa=", 5) != 0) {
            if (out->length) plait_strbuf_append_char(out, ':');
            plait_strbuf_append_n(out, p, n);
        }
        p += n + (p[n] == ':');
    }
}

/* In the form that cores= takes. A set may be long, so it is measured first. Failing, the text carries the failure. */
static void append_processors(plait_strbuf *out, const plait_cpuset *set) {
    size_t n = plait_cpuset_print(set, '+', NULL, 0);
    char *text = plait_alloc_array(n + 1, 1);
    if (!text) {
        out->status = plait_error_memory("device list", n);
        return;
    }
    plait_cpuset_print(set, '+', text, n + 1);
    plait_strbuf_printf(out, "%scores=%s", out->length ? ":" : "", text);
    free(text);
}

/* Options that the list has settled stand behind the item's own: threads when the item names none, processors that were
 * dealt. A device of numa=each names its processors as well as its node: processors near to two nodes belong to one
 * device. */
static plait_status emit_entry(const expansion *e, const entry *x, plait_strbuf *text, plait_item_sink *emit,
                               void *user) {
    const char *item = e->items[x->source];
    plait_strbuf_clear(text);
    append_options(text, item, x);
    bool says_threads = strncmp(item, "threads=", 8) == 0 || strstr(item, ":threads=");
    if (x->threads && !says_threads)
        plait_strbuf_printf(text, "%sthreads=%d", text->length ? ":" : "", x->threads);
    if (x->node >= 0) plait_strbuf_printf(text, "%snuma=%d", text->length ? ":" : "", x->node);
    if (x->dealt || x->node >= 0) append_processors(text, &x->processors);
    PLAIT_TRY(plait_strbuf_status(text));
    return emit(user, x->source, plait_strbuf_text(text));
}

/* Entries are owned here and freed whatever happens. A topology of NULL is for a single item, which has nobody to share
 * with. */
static plait_status expand(expansion *e, int n_items, plait_item_sink *emit, void *user) {
    plait_strbuf text;
    plait_status status = PLAIT_OK;
    plait_strbuf_init(&text, 0);
    for (int i = 0; status == PLAIT_OK && i < n_items; i++) status = add_item(e, i);
    /* One device that names nothing gets the whole machine without being bound to it. */
    if (status == PLAIT_OK && e->topology && e->n > 1) share_out(e);
    for (int i = 0; status == PLAIT_OK && i < e->n; i++)
        status = emit_entry(e, &e->entries[i], &text, emit, user);
    plait_strbuf_deinit(&text);
    free(e->entries);
    return status;
}

/* ---- the list ---- */

plait_status plait_cpu_expand_on(const plait_topology *topology, const char *const *items, int n_items,
                                 int threads, plait_item_sink *emit, void *user) {
    expansion e = {.topology = topology, .items = items, .threads = threads};
    return expand(&e, n_items, emit, user);
}

/* The usual list, one item without a node, is passed on without reading any topology. hwloc is asked only for nodes. */
plait_status plait_cpu_expand(const char *const *items, int n_items, int threads, plait_item_sink *emit,
                              void *user) {
    plait_topology topology;
    bool nodes = false;
    for (int i = 0; i < n_items; i++) nodes = nodes || strstr(items[i], "numa=");
    if (!nodes && n_items == 1) return plait_cpu_expand_on(NULL, items, n_items, threads, emit, user);
    PLAIT_TRY(plait_topology_read(nodes, &topology));
    plait_status status = plait_cpu_expand_on(&topology, items, n_items, threads, emit, user);
    plait_topology_deinit(&topology);
    return status;
}
