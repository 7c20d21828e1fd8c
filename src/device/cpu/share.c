/* Shares: which processors, then how many threads of each kind, then the weight of a thread. Not here: the binding of
 * threads (pool.c), dealing processors to several devices (list.c). Invariant: equal wishes and topologies make equal
 * shares. */
#include "device/cpu/share.h"

#include "base/size.h"

#include <stdio.h>
#include <string.h>

/* What the second thread of a core adds to the first one's speed. Measured values for such work are between nothing and
 * 30%; a wrong one costs some units taken over by idle threads. */
enum { SECOND_THREAD_PERCENT = 25 };

void plait_cpu_share_plain(int n_threads, plait_cpu_share *out) {
    *out = (plait_cpu_share){.n_threads = n_threads, .node = -1, .is_this_machine = true};
}

/* The last kind takes whatever is beyond the others, so every number of worker has a kind. */
int plait_cpu_share_kind_of(const plait_cpu_share *share, int worker) {
    for (int k = 0; k + 1 < share->n_kinds; k++) {
        if (worker < share->kinds[k].n_threads) return k;
        worker -= share->kinds[k].n_threads;
    }
    return share->n_kinds ? share->n_kinds - 1 : 0;
}

/* ---- processors ---- */

/* Cuts the share's processors to those near to the node. only_node: no other node has memory, so this one's is the
 * machine's, which every device shares. */
static plait_status choose_node(const plait_cpu_wish *wish, const plait_topology *topology,
                                plait_cpu_share *share) {
    char known[128] = "none";
    size_t n = 0;
    int index = plait_topology_find_node(topology, wish->node);
    /* For the message: nodes with a processor that may be used. It is made first, for it is needed for both ways to
     * fail. */
    for (int i = 0; i < topology->n_nodes && n < sizeof known; i++)
        if (plait_cpuset_next(&topology->nodes[i].processors, 0) >= 0)
            n += (size_t)snprintf(known + n, sizeof known - n, n ? ", %d" : "%d", topology->nodes[i].number);
    if (index < 0 || plait_cpuset_next(&topology->nodes[index].processors, 0) < 0)
        return plait_error(PLAIT_INVALID_ARGUMENT,
                           "numa=%d: there is no such node with processors that may be used; there are: %s",
                           wish->node, known);
    share->node = wish->node;
    share->memory_bytes = topology->nodes[index].memory_bytes;
    share->only_node = true;
    for (int i = 0; i < topology->n_nodes; i++)
        share->only_node = share->only_node && (i == index || topology->nodes[i].memory_bytes == 0);
    plait_cpuset_keep(&share->processors, &topology->nodes[index].processors);
    return PLAIT_OK;
}

/* All that may be used, cut to the node's, cut to those that the wish names. Each of the named ones must be left by
 * then: a smaller share than was asked for would be silently slower. */
static plait_status choose_processors(const plait_cpu_wish *wish, const plait_topology *topology,
                                      plait_cpu_share *share) {
    char text[128];
    plait_topology_processors(topology, &share->processors);
    if (wish->node >= 0) PLAIT_TRY(choose_node(wish, topology, share));
    if (!wish->processors) return PLAIT_OK;
    int first = plait_cpuset_next(wish->processors, 0);
    while (plait_cpuset_has(&share->processors, first))
        first = plait_cpuset_next(wish->processors, first + 1);
    plait_cpuset_print(&share->processors, '+', text, sizeof text);
    if (plait_cpuset_next(wish->processors, 0) < 0)
        return plait_error(PLAIT_INVALID_ARGUMENT, "cores= names no processor; there are: %s", text);
    if (first >= 0)
        return plait_error(PLAIT_INVALID_ARGUMENT,
                           "cores=: processor %d is not there, or may not be used%s; there are: %s", first,
                           wish->node >= 0 ? ", or is not of the node" : "", text);
    share->processors = *wish->processors;
    return PLAIT_OK;
}

/* ---- kinds ---- */

/* Cores of each kind that have processors in the share. */
typedef struct core_counts {
    int cores[PLAIT_TOPOLOGY_MAX_KINDS];
} core_counts;

/* Fills the kinds that have processors in the share, fastest first as the topology has them. Processors of a topology
 * are sorted, so those of a core follow each other, and a change of the core's number counts a core. */
static void collect_kinds(const plait_topology *topology, plait_cpu_share *share, core_counts *counts) {
    for (int k = 0; k < topology->n_kinds; k++) {
        plait_cpu_share_kind *kind = &share->kinds[share->n_kinds];
        int last_core = -1, cores = 0;
        *kind = (plait_cpu_share_kind){.speed = topology->kinds[k].speed};
        for (int i = 0; i < topology->n_processors; i++) {
            const plait_topology_processor *p = &topology->processors[i];
            if (p->kind != k || !plait_cpuset_has(&share->processors, p->number)) continue;
            plait_cpuset_add(&kind->processors, p->number);
            kind->n_processors++;
            cores += p->core != last_core;
            last_core = p->core;
        }
        if (kind->n_processors) counts->cores[share->n_kinds++] = cores;
    }
}

/* A thread for each core, the fastest first; then the cores' other processors; then, when there are more threads than
 * processors, all over again. Ends, since a share has a processor: some round places at least one. */
static void place_threads(plait_cpu_share *share, const core_counts *counts) {
    int left = share->n_threads;
    while (left > 0)
        for (int round = 0; round < 2; round++)
            for (int k = 0; k < share->n_kinds; k++) {
                plait_cpu_share_kind *kind = &share->kinds[k];
                int room = round == 0 ? counts->cores[k] : kind->n_processors - counts->cores[k];
                int n = (int)plait_min_i64(left, room);
                kind->n_threads += n;
                left -= n;
            }
}

/* A kind's cores together do their speed, and a bit more where they have second threads; its threads share that.
 * Threads beyond the processors add nothing, and make everybody's part smaller. At least 1: a thread of no weight would
 * have no home range. */
static void weigh_threads(plait_cpu_share *share, const core_counts *counts) {
    for (int k = 0; k < share->n_kinds; k++) {
        plait_cpu_share_kind *kind = &share->kinds[k];
        int64_t cores = counts->cores[k], threads = kind->n_threads;
        int64_t second = plait_min_i64(plait_max_i64(threads - cores, 0), kind->n_processors - cores);
        int64_t busy = plait_min_i64(threads, cores);
        int64_t hundredths = kind->speed * (100 * busy + SECOND_THREAD_PERCENT * second);
        kind->weight = threads ? (uint32_t)plait_max_i64(hundredths / (100 * threads), 1) : 0;
    }
}

/* ---- making ---- */

/* Bound are shares that somebody asked for, and those with cores of unequal speed. The plain share, all processors of
 * one kind, is written as no kinds at all: its threads are placed by the system. */
plait_status plait_cpu_share_make(const plait_cpu_wish *wish, const plait_topology *topology,
                                  plait_cpu_share *out) {
    plait_cpu_share share = {.node = -1, .is_this_machine = topology->is_this_machine};
    core_counts counts = {{0}};
    PLAIT_TRY(choose_processors(wish, topology, &share));
    collect_kinds(topology, &share, &counts);
    /* A description of another machine is not bounded by what this one may keep busy. */
    int64_t n = plait_cpuset_count(&share.processors);
    if (topology->is_this_machine) n = plait_min_i64(n, wish->limit);
    share.n_threads = (int)plait_min_i64(wish->threads ? wish->threads : n, PLAIT_CPU_MAX_THREADS);
    place_threads(&share, &counts);
    weigh_threads(&share, &counts);
    share.bound = topology->is_this_machine && (wish->processors || wish->node >= 0 || share.n_kinds > 1);
    if (!share.bound && !wish->processors && wish->node < 0 && share.n_kinds == 1) share.n_kinds = 0;
    *out = share;
    return PLAIT_OK;
}

/* ---- for people ---- */

/* Cut to fit: the list of kinds matters less than the line that it stands in. */
static void describe_kinds(const plait_cpu_share *share, char *out, size_t capacity) {
    size_t n = 0;
    for (int k = 0; k < share->n_kinds && n < capacity; k++) {
        const plait_cpu_share_kind *kind = &share->kinds[k];
        unsigned percent = (kind->speed * 100 + PLAIT_TOPOLOGY_FULL_SPEED / 2) / PLAIT_TOPOLOGY_FULL_SPEED;
        n += (size_t)snprintf(out + n, capacity - n, "%s%d at %u%% speed with %d thread%s", k ? ", " : " (",
                              kind->n_processors, percent, kind->n_threads, kind->n_threads == 1 ? "" : "s");
    }
    if (n < capacity) snprintf(out + n, capacity - n, ")");
}

void plait_cpu_share_describe(const plait_cpu_share *share, char *out, size_t capacity) {
    char list[64], kinds[128] = "";
    out[0] = '\0';
    if (share->n_kinds == 0) return;
    plait_cpuset_print(&share->processors, '+', list, sizeof list);
    if (share->n_kinds > 1) describe_kinds(share, kinds, sizeof kinds);
    int n = snprintf(out, capacity, "processor%s %s%s",
                     plait_cpuset_count(&share->processors) == 1 ? "" : "s", list, kinds);
    if (share->node >= 0 && n >= 0 && (size_t)n < capacity)
        snprintf(out + n, capacity - (size_t)n, " and memory of node %d", share->node);
}
