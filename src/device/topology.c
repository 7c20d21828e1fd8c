/* Topology from the files of the system, kinds of processors from their figures, and the choice of the source. Not
 * here: hwloc (topology_hwloc.c), and what is done with a topology (device/cpu/share.c, device/cpu/list.c). Invariant:
 * a file that is missing or makes no sense costs knowledge, never the topology. */
#include "device/topology.h"

#include "base/alloc.h"
#include "base/os.h"
#include "base/size.h"
#include "base/thread.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Cores whose figures differ by less are one kind: turbo favours single cores by some percent. */
enum { SAME_KIND_PERCENT = 85 };

void plait_topology_deinit(plait_topology *topology) {
    free(topology->processors);
    free(topology->nodes);
    *topology = (plait_topology){0};
}

int plait_topology_find_node(const plait_topology *topology, int number) {
    for (int i = 0; i < topology->n_nodes; i++)
        if (topology->nodes[i].number == number) return i;
    return -1;
}

/* A node is a home of processors that name it as theirs, which is the first node near to them. */
bool plait_topology_is_home(const plait_topology *topology, int node) {
    for (int i = 0; i < topology->n_processors; i++)
        if (topology->processors[i].node == node) return true;
    return false;
}

void plait_topology_processors(const plait_topology *topology, plait_cpuset *out) {
    *out = (plait_cpuset){0};
    for (int i = 0; i < topology->n_processors; i++) plait_cpuset_add(out, topology->processors[i].number);
}

/* ---- kinds ---- */

/* The figure by which all processors can be compared. Capacities say nothing where all are equal though types, or
 * frequencies, are not: kernels before 6.12 say 1024 for both kinds of Intel's. A rank without figures: half the speed
 * for each step down. */
typedef enum figure { CAPACITY, PERFORMANCE, FREQUENCY, RANK } figure;

/* A rank becomes a power of two, cut off at 32, so that it can be compared in percent like the others. */
static uint64_t figure_of(const plait_processor_speed *speed, figure which) {
    switch (which) {
    case CAPACITY: return speed->capacity;
    case PERFORMANCE: return speed->performance;
    case FREQUENCY: return speed->mhz;
    case RANK: return UINT64_C(1) << (speed->rank < 0 ? 0 : speed->rank > 32 ? 32 : speed->rank);
    }
    return 0;
}

/* True when the figure is known of all processors, and not the same of all. */
static bool tells(const plait_processor_speed *speeds, int n, figure which) {
    bool differs = false;
    for (int i = 0; i < n; i++) {
        if (figure_of(&speeds[i], which) == 0) return false;
        differs = differs || figure_of(&speeds[i], which) != figure_of(&speeds[0], which);
    }
    return differs;
}

static bool have_types(const plait_processor_speed *speeds, int n) {
    for (int i = 1; i < n; i++)
        if (speeds[i].type != speeds[0].type) return true;
    return false;
}

/* Performance levels rank favoured cores of one type too, far apart: only types make them a measure of speed. */
static figure choose_figure(const plait_processor_speed *speeds, int n) {
    if (tells(speeds, n, CAPACITY)) return CAPACITY;
    if (have_types(speeds, n) && tells(speeds, n, PERFORMANCE)) return PERFORMANCE;
    if (tells(speeds, n, FREQUENCY)) return FREQUENCY;
    return RANK;
}

/* Of the processors without a kind, the fastest. */
static int fastest_left(const plait_topology *t, const plait_processor_speed *speeds, figure which) {
    int best = -1;
    for (int i = 0; i < t->n_processors; i++)
        if (t->processors[i].kind < 0 &&
            (best < 0 || figure_of(&speeds[i], which) > figure_of(&speeds[best], which)))
            best = i;
    return best;
}

/* Kinds are made from the fastest down: the fastest processor without a kind takes everybody of its type within
 * SAME_KIND_PERCENT of it. The threshold is measured from the top, not between neighbours, so a slope of small steps is
 * cut into kinds too. Speeds are means, relative to the first kind's. The last kind that there is room for takes all
 * that are left. */
void plait_topology_set_kinds(plait_topology *t, const plait_processor_speed *speeds) {
    const figure which = choose_figure(speeds, t->n_processors);
    uint64_t full = 0;
    t->n_kinds = 0;
    for (int i = 0; i < t->n_processors; i++) t->processors[i].kind = -1;
    for (int best; (best = fastest_left(t, speeds, which)) >= 0;) {
        uint64_t top = figure_of(&speeds[best], which), sum = 0;
        bool last = t->n_kinds + 1 == PLAIT_TOPOLOGY_MAX_KINDS; /* takes all that are left */
        plait_topology_kind *kind = &t->kinds[t->n_kinds];
        *kind = (plait_topology_kind){0};
        for (int i = 0; i < t->n_processors; i++) {
            uint64_t own = figure_of(&speeds[i], which);
            bool same = speeds[i].type == speeds[best].type && own * 100 >= top * SAME_KIND_PERCENT;
            if (t->processors[i].kind >= 0 || !(same || last)) continue;
            t->processors[i].kind = t->n_kinds;
            kind->n_processors++;
            sum += own;
        }
        uint64_t mean = sum / (uint64_t)kind->n_processors;
        if (full == 0) full = mean;
        uint64_t speed = mean * PLAIT_TOPOLOGY_FULL_SPEED / full;
        /* Types whose figures are equal, or nearly, may come in the wrong order by a hair. */
        kind->speed = (uint32_t)plait_min_i64(plait_max_i64((int64_t)speed, 1), PLAIT_TOPOLOGY_FULL_SPEED);
        t->n_kinds++;
    }
}

/* ---- order ---- */

/* Of qsort. Node, core, number: the order that topology.h promises. A core's number is that of its first processor
 * here. */
static int by_place(const void *a, const void *b) {
    const plait_topology_processor *x = a, *y = b;
    if (x->node != y->node) return x->node < y->node ? -1 : 1;
    if (x->core != y->core) return x->core < y->core ? -1 : 1;
    return x->number < y->number ? -1 : x->number > y->number;
}

/* Cores get numbers without gaps, in the order of the list; readers may have numbered them as they like, as long as
 * equal means the same core. */
void plait_topology_finish(plait_topology *t) {
    qsort(t->processors, (size_t)t->n_processors, sizeof *t->processors, by_place);
    int last = INT_MIN, core = -1;
    for (int i = 0; i < t->n_processors; i++) {
        plait_topology_processor *p = &t->processors[i];
        if (p->core != last) core++;
        last = p->core;
        p->core = core;
    }
}

/* ---- the files of the system ---- */

/* The set that a file below root lists; empty when it cannot be read. */
static plait_cpuset read_set(const char *root, const char *path) {
    plait_cpuset set;
    char full[512], line[PLAIT_CPUSET_LIMIT];
    snprintf(full, sizeof full, "%s/%s", root, path);
    if (!plait_os_read_line(full, line, sizeof line) || plait_cpuset_parse(line, &set) != PLAIT_OK)
        return (plait_cpuset){0};
    return set;
}

/* A number from a processor's folder; 0 when it cannot be read, or is too large to be what it should be. */
static uint32_t read_number(const char *root, int processor, const char *name) {
    char full[512], line[64];
    snprintf(full, sizeof full, "%s/devices/system/cpu/cpu%d/%s", root, processor, name);
    if (!plait_os_read_line(full, line, sizeof line)) return 0;
    unsigned long value = strtoul(line, NULL, 10);
    return value <= UINT32_MAX ? (uint32_t)value : 0;
}

/* Adds to what is known: a figure that the files do not tell stays as the reader had it (hwloc's). */
void plait_topology_read_speeds(const char *root, const plait_topology *t, plait_processor_speed *speeds) {
    /* Intel's two types, each with its own counters of events. */
    plait_cpuset big = read_set(root, "devices/cpu_core/cpus"),
                 small = read_set(root, "devices/cpu_atom/cpus");
    for (int i = 0; i < t->n_processors; i++) {
        int number = t->processors[i].number;
        plait_processor_speed *speed = &speeds[i];
        if (plait_cpuset_has(&big, number)) speed->type = speed->rank = 2;
        if (plait_cpuset_has(&small, number)) speed->type = speed->rank = 1;
        uint32_t capacity = read_number(root, number, "cpu_capacity");
        uint32_t khz = read_number(root, number, "cpufreq/cpuinfo_max_freq");
        uint32_t performance = read_number(root, number, "acpi_cppc/highest_perf");
        /* cpu_capacity: 1024 for the fastest; cpuinfo_max_freq in kHz; highest_perf of ACPI's CPPC has a unit of the
         * firmware's own. */
        if (capacity) speed->capacity = capacity;
        if (khz) speed->mhz = khz / 1000;
        if (performance) speed->performance = performance;
    }
}

/* The first processor of the core stands for it. */
static int read_core(const char *root, int processor) {
    char path[128];
    snprintf(path, sizeof path, "devices/system/cpu/cpu%d/topology/thread_siblings_list", processor);
    plait_cpuset siblings = read_set(root, path);
    return plait_cpuset_has(&siblings, processor) ? plait_cpuset_next(&siblings, 0) : processor;
}

/* The first line of meminfo. 0 when it cannot be read: memory is told, but nothing is decided by it here. */
static uint64_t read_node_bytes(const char *root, int node) {
    char path[512], line[128];
    unsigned long long kib = 0;
    snprintf(path, sizeof path, "%s/devices/system/node/node%d/meminfo", root, node);
    if (plait_os_read_line(path, line, sizeof line)) sscanf(line, "Node %*d MemTotal: %llu kB", &kib);
    return (uint64_t)kib * 1024;
}

/* Nodes that are online, those of memory alone included: their `processors` are then empty. A system without the folder
 * has no nodes, which is no failure. */
static plait_status read_nodes(const char *root, const plait_cpuset *usable, plait_topology *t) {
    plait_cpuset online = read_set(root, "devices/system/node/online");
    int n = plait_cpuset_count(&online);
    if (n == 0) return PLAIT_OK;
    t->nodes = plait_alloc_array((size_t)n, sizeof *t->nodes);
    if (!t->nodes) return plait_error_memory("topology", (uint64_t)n * sizeof *t->nodes);
    for (int number = plait_cpuset_next(&online, 0); number >= 0;
         number = plait_cpuset_next(&online, number + 1)) {
        plait_topology_node *node = &t->nodes[t->n_nodes++];
        char path[128];
        snprintf(path, sizeof path, "devices/system/node/node%d/cpulist", number);
        *node = (plait_topology_node){.number = number,
                                      .memory_bytes = read_node_bytes(root, number),
                                      .processors = read_set(root, path)};
        plait_cpuset_keep(&node->processors, usable);
    }
    return PLAIT_OK;
}

int plait_topology_node_of(const plait_topology *t, int processor) {
    for (int i = 0; i < t->n_nodes; i++)
        if (plait_cpuset_has(&t->nodes[i].processors, processor)) return i;
    return -1;
}

/* Needs the nodes. An entry for each usable processor, in the order of numbers, with its core and node; then the
 * kinds. */
static plait_status read_processors(const char *root, const plait_cpuset *usable, plait_topology *t) {
    int n = plait_cpuset_count(usable);
    if (n == 0) return plait_error(PLAIT_NOT_FOUND, "topology: no usable processor is online");
    t->processors = plait_alloc_array((size_t)n, sizeof *t->processors);
    plait_processor_speed *speeds = plait_alloc_array((size_t)n, sizeof *speeds);
    if (!t->processors || !speeds) {
        free(speeds);
        return plait_error_memory("topology", (uint64_t)n * sizeof *t->processors);
    }
    for (int number = plait_cpuset_next(usable, 0); number >= 0;
         number = plait_cpuset_next(usable, number + 1))
        t->processors[t->n_processors++] = (plait_topology_processor){
            .number = number, .core = read_core(root, number), .node = plait_topology_node_of(t, number)};
    plait_topology_read_speeds(root, t, speeds);
    plait_topology_set_kinds(t, speeds);
    free(speeds);
    return PLAIT_OK;
}

/* Without a file of what is online, what the caller may use is taken to be online. Failing, *out is untouched. */
plait_status plait_topology_read_system(const char *root, const plait_cpuset *usable, plait_topology *out) {
    plait_topology t = {.is_this_machine = strcmp(root, "/sys") == 0};
    plait_cpuset online = read_set(root, "devices/system/cpu/online");
    snprintf(t.source, sizeof t.source, "%s", root);
    if (plait_cpuset_count(&online) == 0)
        online = usable ? *usable : (plait_cpuset){0};
    else if (usable)
        plait_cpuset_keep(&online, usable);
    plait_status status = read_nodes(root, &online, &t);
    if (status == PLAIT_OK) status = read_processors(root, &online, &t);
    if (status != PLAIT_OK) {
        plait_topology_deinit(&t);
        return status;
    }
    plait_topology_finish(&t);
    *out = t;
    return PLAIT_OK;
}

/* ---- the choice of the source ---- */

/* hwloc itself reads these; they are looked at here only to know that somebody wants a described machine. */
static bool is_described(void) {
    const char *xml = getenv("HWLOC_XMLFILE"), *synthetic = getenv("HWLOC_SYNTHETIC");
    return (xml && xml[0]) || (synthetic && synthetic[0]);
}

/* Where hwloc is missing, or loads nothing usable, /sys decides: what is wanted in detail is then known as far as the
 * files tell it. */
plait_status plait_topology_read(bool detailed, plait_topology *out) {
    plait_cpuset usable;
    plait_thread_processors(&usable);
    if (detailed || is_described()) {
        plait_status status = plait_topology_read_hwloc(NULL, NULL, &usable, out);
        if (status != PLAIT_UNSUPPORTED && status != PLAIT_NOT_FOUND) return status;
    }
    return plait_topology_read_system("/sys", &usable, out);
}
