/* The processors that this process may use, as far as sharing them out needs it: which ones are one core, which memory is
 * near, which are faster than others. A topology is an ordinary value that is read from somewhere: the files of the
 * system, hwloc, a description in the form of hwloc, so that sharing can be planned and tested for machines that are not
 * at hand. Not here: who gets which processors (the cpu device decides that).
 *
 * Invariant: every processor has a core, a kind, and a node unless there are no nodes; kinds are sorted, fastest first;
 * processors are sorted by node, core and number, so that neighbours in the list are neighbours on the machine.
 *
 * hwloc is loaded when it is wanted (dlopen), never linked: the library needs none to be built or to run. Its plugins make
 * that take tens of milliseconds, so a device that asks for nothing special reads /sys instead, which takes one.
 */
#ifndef PLAIT_DEVICE_TOPOLOGY_H
#define PLAIT_DEVICE_TOPOLOGY_H

#include "base/cpuset.h"
#include "base/status.h"

enum { PLAIT_TOPOLOGY_MAX_KINDS = 8, PLAIT_TOPOLOGY_FULL_SPEED = 1024 };

typedef struct plait_topology_processor {
    int number; /* the system's */
    int core;   /* equal: threads of one core; counted from 0 */
    int node;   /* index into `nodes`: the first whose memory is near; -1: there are none */
    int kind;   /* index into `kinds` */
} plait_topology_processor;

typedef struct plait_topology_node {
    int number; /* the system's */
    uint64_t memory_bytes;
    plait_cpuset processors; /* those that it is near to; several nodes may be near to one processor */
} plait_topology_node;

typedef struct plait_topology_kind {
    uint32_t speed; /* of one core, PLAIT_TOPOLOGY_FULL_SPEED: the fastest kind */
    int n_processors;
} plait_topology_kind;

typedef struct plait_topology {
    char source[64];      /* "hwloc", "/sys": where it was read */
    bool is_this_machine; /* false: a description of another one, where nothing can be bound */
    int n_processors, n_nodes, n_kinds;
    plait_topology_processor *processors; /* Owned. */
    plait_topology_node *nodes;           /* Owned. Sorted by number; those without a usable processor too */
    plait_topology_kind kinds[PLAIT_TOPOLOGY_MAX_KINDS];
} plait_topology;

/* Reads the topology of the processors that the calling thread may use. With `detailed`, or when a description is named
 * in the environment as hwloc has it (HWLOC_XMLFILE, HWLOC_SYNTHETIC), hwloc is asked if it is there; otherwise, or when
 * it fails, the files of the system. */
plait_status plait_topology_read(bool detailed, plait_topology *out);
/* Accepts a zeroed topology. */
void plait_topology_deinit(plait_topology *topology);

/* The files of the system below `root` ("/sys"), of those of `usable` that are online (NULL: all that are online). Cores,
 * nodes and speeds that the system does not tell are taken as one core a processor, no nodes, one speed. NOT_FOUND when
 * no processor is left. */
plait_status plait_topology_read_system(const char *root, const plait_cpuset *usable, plait_topology *out);

/* hwloc: an XML file, or a synthetic description ("pack:2 numa:4 core:8 pu:2"), or with neither the environment or this
 * machine. `usable` as above. UNSUPPORTED when hwloc is not there, INVALID_ARGUMENT when it cannot read the description. */
plait_status plait_topology_read_hwloc(const char *xml_file, const char *synthetic,
                                       const plait_cpuset *usable, plait_topology *out);

/* Index of the node with this number, or -1. */
int plait_topology_find_node(const plait_topology *topology, int number);
/* True when the node at this index is the first for some processor: one device for each such node uses every processor
 * once. Nodes of memory alone, and second memories of the same processors, are not. */
bool plait_topology_is_home(const plait_topology *topology, int node);
/* All processors. */
void plait_topology_processors(const plait_topology *topology, plait_cpuset *out);

/* ---- for readers ---- */

/* What sources tell of a processor's speed; 0: nothing. Figures of one field are comparable, of two are not. */
typedef struct plait_processor_speed {
    uint32_t capacity;    /* the scheduler's, 1024 the fastest */
    uint32_t performance; /* the firmware's highest performance level */
    uint32_t mhz;         /* highest frequency */
    int rank;             /* more is faster; 0 and up, equal when nothing is known */
    int type;             /* processors of different types are of different kinds, whatever their figures */
} plait_processor_speed;

/* Sorts the processors into kinds by their figures (speeds[i] is of processors[i]): fills topology->kinds and each
 * processor's kind. */
void plait_topology_set_kinds(plait_topology *topology, const plait_processor_speed *speeds);
/* Index of the first node that is near to the processor, or -1. */
int plait_topology_node_of(const plait_topology *topology, int processor);
/* Sorts processors and numbers their cores; call when node, core and kind are set. */
void plait_topology_finish(plait_topology *topology);
/* Adds what the files of the system below `root` tell of the speed of the processors. */
void plait_topology_read_speeds(const char *root, const plait_topology *topology,
                                plait_processor_speed *speeds);

#endif
