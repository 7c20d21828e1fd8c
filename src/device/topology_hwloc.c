/* Topology as hwloc sees it. The library is opened when it is wanted first and stays open: its functions are a table that
 * never changes afterwards. Not here: binding, which needs no hwloc. Invariant: what hwloc hands out is copied, and its
 * topology destroyed, before a call returns.
 *
 * Built without hwloc's headers (PLAIT_HWLOC is 0) every call answers UNSUPPORTED. Functions that hwloc's headers define
 * inline are not used: they would need the library at link time. */
#include "device/topology.h"

#if PLAIT_HWLOC

#include "base/alloc.h"
#include "base/size.h"

#include <dlfcn.h>
#include <hwloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the library ---- */

/* X(result, name, parameters) of each function that is used, named hwloc_NAME. */
#define FUNCTIONS(X)                                                                                         \
    X(unsigned, get_api_version, (void))                                                                     \
    X(int, topology_init, (hwloc_topology_t *))                                                              \
    X(void, topology_destroy, (hwloc_topology_t))                                                            \
    X(int, topology_set_xml, (hwloc_topology_t, const char *))                                               \
    X(int, topology_set_synthetic, (hwloc_topology_t, const char *))                                         \
    X(int, topology_load, (hwloc_topology_t))                                                                \
    X(int, topology_is_thissystem, (hwloc_topology_t))                                                       \
    X(int, get_type_depth, (hwloc_topology_t, hwloc_obj_type_t))                                             \
    X(unsigned, get_nbobjs_by_depth, (hwloc_topology_t, int))                                                \
    X(hwloc_obj_t, get_obj_by_depth, (hwloc_topology_t, int, unsigned))                                      \
    X(hwloc_bitmap_t, bitmap_alloc, (void))                                                                  \
    X(void, bitmap_free, (hwloc_bitmap_t))                                                                   \
    X(int, bitmap_isset, (hwloc_const_bitmap_t, unsigned))                                                   \
    X(int, cpukinds_get_nr, (hwloc_topology_t, unsigned long))                                               \
    X(int, cpukinds_get_info,                                                                                \
      (hwloc_topology_t, unsigned, hwloc_bitmap_t, int *, unsigned *, struct hwloc_info_s **,                \
       unsigned long))

#define FIELD(result, name, parameters) result(*name) parameters;
static struct { FUNCTIONS(FIELD) } hwloc;
#undef FIELD

static pthread_once_t once = PTHREAD_ONCE_INIT;
static char lacking[128]; /* why it cannot be used; empty: it can */

/* Once in a process, and never closed: the plugins that hwloc loads would be loaded again. libhwloc.so.15 is version 2
 * of the library; a version 1 has structs of other layouts. */
static void load_library(void) {
    void *library = dlopen("libhwloc.so.15", RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        snprintf(lacking, sizeof lacking, "libhwloc.so.15 cannot be loaded");
        return;
    }
/* ISO C has no conversion from object to function pointers; POSIX promises that this works. */
#define FIND(result, name, parameters)                                                                       \
    if (!lacking[0]) {                                                                                       \
        void *symbol = dlsym(library, "hwloc_" #name);                                                       \
        if (symbol)                                                                                          \
            memcpy(&hwloc.name, &symbol, sizeof symbol);                                                     \
        else                                                                                                 \
            snprintf(lacking, sizeof lacking, "it has no hwloc_%s", #name);                                  \
    }
    FUNCTIONS(FIND)
#undef FIND
    /* The upper half of the number is the major version, within which structs keep their layout. */
    if (!lacking[0] && hwloc.get_api_version() >> 16 != HWLOC_API_VERSION >> 16)
        snprintf(lacking, sizeof lacking, "its interface is %x, expected %x", hwloc.get_api_version(),
                 HWLOC_API_VERSION);
}

/* ---- what it says ---- */

/* 0 for a type that the machine lacks. */
static int n_objects(hwloc_topology_t topology, hwloc_obj_type_t type) {
    int n = (int)hwloc.get_nbobjs_by_depth(topology, hwloc.get_type_depth(topology, type));
    return n > 0 ? n : 0;
}

/* Number `index` of its type, in hwloc's logical order. NUMA nodes have a virtual depth in hwloc 2, which the lookup by
 * type covers. */
static hwloc_obj_t object(hwloc_topology_t topology, hwloc_obj_type_t type, int index) {
    return hwloc.get_obj_by_depth(topology, hwloc.get_type_depth(topology, type), (unsigned)index);
}

static int by_number(const void *a, const void *b) {
    const plait_topology_node *x = a, *y = b;
    return x->number < y->number ? -1 : x->number > y->number;
}

/* Nodes may be near to several cores, and several nodes, of fast and of plenty memory, to one core. All are copied;
 * which is a processor's own is decided by number, the first that is near (plait_topology_node_of), hence the sorting.
 * A node's set is cut to the usable processors. */
static plait_status copy_nodes(hwloc_topology_t from, const plait_cpuset *usable, plait_topology *t) {
    int n = n_objects(from, HWLOC_OBJ_NUMANODE);
    t->nodes = plait_alloc_array((size_t)n, sizeof *t->nodes);
    if (!t->nodes) return plait_error_memory("topology", (uint64_t)n * sizeof *t->nodes);
    for (int i = 0; i < n; i++) {
        hwloc_obj_t node = object(from, HWLOC_OBJ_NUMANODE, i);
        plait_topology_node *out = &t->nodes[t->n_nodes++];
        out->number = (int)node->os_index;
        out->memory_bytes = node->attr->numanode.local_memory;
        for (int p = plait_cpuset_next(usable, 0); p >= 0; p = plait_cpuset_next(usable, p + 1))
            if (hwloc.bitmap_isset(node->cpuset, (unsigned)p)) plait_cpuset_add(&out->processors, p);
    }
    qsort(t->nodes, (size_t)n, sizeof *t->nodes, by_number);
    return PLAIT_OK;
}

/* Cores are told apart by their place in hwloc's order; a processor without one is a core, numbered beyond all of
 * hwloc's so that it equals none. */
static int core_of(hwloc_obj_t processor) {
    hwloc_obj_t o = processor;
    while (o && o->type != HWLOC_OBJ_CORE) o = o->parent;
    return o ? (int)o->logical_index : PLAIT_CPUSET_LIMIT + (int)processor->os_index;
}

/* The figures of a kind of cores, by hwloc's names. efficiency: hwloc's rank of kinds, -1 when it has none. The kind's
 * number stands as type; the caller decides whether it may. */
static plait_processor_speed figures(int kind, int efficiency, unsigned n, const struct hwloc_info_s *infos) {
    plait_processor_speed speed = {.rank = efficiency > 0 ? efficiency : 0, .type = kind};
    for (unsigned i = 0; i < n; i++) {
        unsigned long value = strtoul(infos[i].value, NULL, 10);
        uint32_t number = value <= UINT32_MAX ? (uint32_t)value : 0;
        if (strcmp(infos[i].name, "LinuxCapacity") == 0) speed.capacity = number;
        if (strcmp(infos[i].name, "FrequencyMaxMHz") == 0) speed.mhz = number;
    }
    return speed;
}

/* hwloc may make a kind of each turbo frequency, so kinds are types only where they carry a core's type or a rank. */
static plait_status copy_kinds(hwloc_topology_t from, const plait_topology *t,
                               plait_processor_speed *speeds) {
    hwloc_bitmap_t set = hwloc.bitmap_alloc();
    if (!set) return plait_error_memory("topology", 0);
    for (int k = 0; k < hwloc.cpukinds_get_nr(from, 0); k++) {
        int efficiency = -1;
        unsigned n_infos = 0;
        struct hwloc_info_s *infos = NULL;
        if (hwloc.cpukinds_get_info(from, (unsigned)k, set, &efficiency, &n_infos, &infos, 0) != 0) continue;
        plait_processor_speed speed = figures(k, efficiency, n_infos, infos);
        /* With a figure to compare, kinds of one type become one or several by that figure, like those that /sys tells
         * of. */
        if (speed.mhz || speed.capacity) speed.type = 0;
        for (unsigned i = 0; i < n_infos; i++)
            if (strcmp(infos[i].name, "CoreType") == 0) speed.type = k + 1;
        for (int i = 0; i < t->n_processors; i++)
            if (hwloc.bitmap_isset(set, (unsigned)t->processors[i].number)) speeds[i] = speed;
    }
    hwloc.bitmap_free(set);
    return PLAIT_OK;
}

/* Needs the nodes, which give each processor its own. Speeds of this machine are completed from /sys, which knows more
 * of them than hwloc tells; of a described machine only hwloc knows. */
static plait_status copy_processors(hwloc_topology_t from, const plait_cpuset *usable, plait_topology *t) {
    int n = plait_cpuset_count(usable);
    if (n == 0) return plait_error(PLAIT_NOT_FOUND, "topology: hwloc knows no usable processor");
    t->processors = plait_alloc_array((size_t)n, sizeof *t->processors);
    plait_processor_speed *speeds = plait_alloc_array((size_t)n, sizeof *speeds);
    plait_status status = PLAIT_OK;
    if (!t->processors || !speeds)
        status = plait_error_memory("topology", (uint64_t)n * sizeof *t->processors);
    for (int i = 0; status == PLAIT_OK && i < n_objects(from, HWLOC_OBJ_PU); i++) {
        hwloc_obj_t p = object(from, HWLOC_OBJ_PU, i);
        int number = (int)p->os_index;
        if (plait_cpuset_has(usable, number))
            t->processors[t->n_processors++] = (plait_topology_processor){
                .number = number, .core = core_of(p), .node = plait_topology_node_of(t, number)};
    }
    if (status == PLAIT_OK) status = copy_kinds(from, t, speeds);
    if (status == PLAIT_OK && t->is_this_machine) plait_topology_read_speeds("/sys", t, speeds);
    if (status == PLAIT_OK) plait_topology_set_kinds(t, speeds);
    free(speeds);
    return status;
}

/* What of hwloc's topology is usable (mask NULL: all) as a value of ours; *out is untouched on failure. */
static plait_status copy(hwloc_topology_t from, const plait_cpuset *mask, plait_topology *out) {
    plait_topology t = {.is_this_machine = hwloc.topology_is_thissystem(from) != 0};
    plait_cpuset usable = {0};
    snprintf(t.source, sizeof t.source, "hwloc%s", t.is_this_machine ? "" : ", a description");
    for (int i = 0; i < n_objects(from, HWLOC_OBJ_PU); i++)
        plait_cpuset_add(&usable, (int)object(from, HWLOC_OBJ_PU, i)->os_index);
    if (mask) plait_cpuset_keep(&usable, mask);
    plait_status status = copy_nodes(from, &usable, &t);
    if (status == PLAIT_OK) status = copy_processors(from, &usable, &t);
    if (status != PLAIT_OK) {
        plait_topology_deinit(&t);
        return status;
    }
    plait_topology_finish(&t);
    *out = t;
    return PLAIT_OK;
}

/* ---- reading ---- */

/* The last step decides whether the description made sense. Failing for this machine is NOT_FOUND: the caller then
 * reads /sys. */
static plait_status load(hwloc_topology_t topology, const char *xml_file, const char *synthetic) {
    const char *what = xml_file ? xml_file : synthetic ? synthetic : "this machine";
    if (xml_file && hwloc.topology_set_xml(topology, xml_file) != 0)
        return plait_error(PLAIT_INVALID_ARGUMENT, "topology: hwloc cannot read %s", what);
    if (synthetic && hwloc.topology_set_synthetic(topology, synthetic) != 0)
        return plait_error(PLAIT_INVALID_ARGUMENT, "topology: hwloc does not understand \"%s\"", what);
    if (hwloc.topology_load(topology) != 0)
        return plait_error(xml_file || synthetic ? PLAIT_INVALID_ARGUMENT : PLAIT_NOT_FOUND,
                           "topology: hwloc cannot load %s", what);
    return PLAIT_OK;
}

plait_status plait_topology_read_hwloc(const char *xml_file, const char *synthetic,
                                       const plait_cpuset *usable, plait_topology *out) {
    hwloc_topology_t topology;
    pthread_once(&once, load_library);
    if (lacking[0]) return plait_error(PLAIT_UNSUPPORTED, "topology: hwloc: %s", lacking);
    if (hwloc.topology_init(&topology) != 0) return plait_error_memory("topology", 0);
    plait_status status = load(topology, xml_file, synthetic);
    if (status == PLAIT_OK) {
        /* A description from the environment is of another machine, whose processors the calling thread's mask says
         * nothing of. One that the caller names gets the caller's mask. */
        bool ours = xml_file || synthetic || hwloc.topology_is_thissystem(topology);
        status = copy(topology, ours ? usable : NULL, out);
    }
    hwloc.topology_destroy(topology);
    return status;
}

#else

plait_status plait_topology_read_hwloc(const char *xml_file, const char *synthetic,
                                       const plait_cpuset *usable, plait_topology *out) {
    (void)xml_file, (void)synthetic, (void)usable, (void)out;
    return plait_error(PLAIT_UNSUPPORTED, "topology: built without hwloc");
}

#endif
