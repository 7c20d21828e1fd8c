/* A cpu device's share of the machine: which processors its threads run on, how many threads of which kind of core, how
 * the home ranges of work are cut, whose memory is near. Made from a topology and what the options wish; a plain value.
 * Not here: reading topologies (device/topology.h), binding and running (pool.h).
 *
 * Without a wish for processors or a node, and with cores of one speed, threads are not bound: the system places them
 * best. Cores of unequal speed get threads bound to the cores of a kind, the fastest first, for a home range in
 * proportion to speed means nothing where threads wander.
 *
 * Invariant: the sum of the kinds' threads is n_threads, worker numbers are given out kind by kind; what the share says
 * decides who computes something, never what is computed.
 */
#ifndef PLAIT_DEVICE_CPU_SHARE_H
#define PLAIT_DEVICE_CPU_SHARE_H

#include "device/topology.h"

#define PLAIT_CPU_MAX_THREADS 256

typedef struct plait_cpu_share_kind {
    int n_processors, n_threads;
    uint32_t speed;  /* of one core, PLAIT_TOPOLOGY_FULL_SPEED the fastest of the machine */
    uint32_t weight; /* of one thread's home range, in proportion to those of other kinds */
    plait_cpuset processors;
} plait_cpu_share_kind;

typedef struct plait_cpu_share {
    int n_threads;
    bool bound;              /* threads keep to the processors of their kind */
    bool is_this_machine;    /* false: planned for a description, nothing can be bound */
    int node;                /* number of the node whose memory is asked for; -1: none */
    bool only_node;          /* the machine has no other with memory */
    uint64_t memory_bytes;   /* of that node */
    plait_cpuset processors; /* of all kinds */
    int n_kinds; /* those with processors in the share, fastest first; 0: any processor (not bound) */
    plait_cpu_share_kind kinds[PLAIT_TOPOLOGY_MAX_KINDS];
} plait_cpu_share;

/* What the options of a device ask for. */
typedef struct plait_cpu_wish {
    int threads;                    /* 0: as many as processors, at most `limit` */
    int limit;                      /* processors that the process may keep busy (plait_os_processors) */
    int node;                       /* number of a NUMA node; -1: none */
    const plait_cpuset *processors; /* Borrowed. NULL: all of the node, or of the machine */
} plait_cpu_wish;

/* INVALID_ARGUMENT says which processor or node is none that may be used, and names those that are. */
plait_status plait_cpu_share_make(const plait_cpu_wish *wish, const plait_topology *topology,
                                  plait_cpu_share *out);
/* A share of threads alone, bound to nothing. */
void plait_cpu_share_plain(int n_threads, plait_cpu_share *out);

/* The kind of a worker: workers [0, kinds[0].n_threads) are of kind 0, and so on. */
int plait_cpu_share_kind_of(const plait_cpu_share *share, int worker);

/* For people, behind the number of threads: "processors 0-3 (4 fast, 2 at 63%), memory of node 1"; empty for a share that
 * is plain. NUL-terminated, cut to fit. */
void plait_cpu_share_describe(const plait_cpu_share *share, char *out, size_t capacity);

#endif
