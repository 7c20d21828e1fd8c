/* What the options of a cpu item ask for: threads, processors, a NUMA node, instruction sets. Not here: what several
 * items of a list leave open for each other (list.c), and what a share is made of (share.c). Invariant: an option that
 * cannot be had is refused with what could be had instead. */
#include "device/cpu/options.h"
#include "base/os.h"
#include "base/size.h"
#include "device/cpu/features.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* ---- values ---- */

/* More threads than processors are allowed: they are how a launch with many threads is tested on a small machine. */
static plait_status parse_threads(const char *value, int *out) {
    char *end;
    long n = strtol(value, &end, 10);
    if (end == value || *end || n < 1 || n > PLAIT_CPU_MAX_THREADS)
        return plait_error(PLAIT_INVALID_ARGUMENT, "threads is \"%.40s\", expected 1 to %d", value,
                           PLAIT_CPU_MAX_THREADS);
    *out = (int)n;
    return PLAIT_OK;
}

/* Limits the instruction sets to one name and what it comes with, as far as the processor has them. *features: what it
 * has, in; what may be used, out. The sets are no chain: avxvnni is the 256-bit form of what avx512vnni has in 512
 * bits, and a processor may have either without the other. */
static plait_status parse_isa(const char *value, uint32_t *features) {
    static const struct {
        const char *name;
        uint32_t bits;
    } sets[] = {
        {"portable", 0},
        {"avx2", PLAIT_CPU_AVX2},
        {"avxvnni", PLAIT_CPU_AVX2 | PLAIT_CPU_AVXVNNI},
        {"avx512", PLAIT_CPU_AVX2 | PLAIT_CPU_AVX512},
        {"avx512vnni", PLAIT_CPU_AVX2 | PLAIT_CPU_AVX512 | PLAIT_CPU_AVX512VNNI},
    };
    for (size_t i = 0; i < PLAIT_COUNT_OF(sets); i++) {
        if (strcmp(sets[i].name, value) != 0) continue;
        char have[64];
        if (sets[i].bits & ~*features)
            return plait_error(PLAIT_UNSUPPORTED, "isa is %s, this processor has %s", value,
                               plait_cpu_features_names(*features, have, sizeof have));
        *features = sets[i].bits;
        return PLAIT_OK;
    }
    return plait_error(PLAIT_INVALID_ARGUMENT,
                       "isa is \"%.40s\"; known: portable, avx2, avxvnni, avx512, avx512vnni", value);
}

/* Only the form is checked; whether there is such a node is asked of the topology when the share is made. */
static plait_status parse_numa(const char *value, plait_cpu_options *out) {
    char *end;
    long n = strtol(value, &end, 10);
    out->each_node = strcmp(value, "each") == 0;
    if (!out->each_node && (end == value || *end || n < 0 || n > INT_MAX))
        return plait_error(PLAIT_INVALID_ARGUMENT,
                           "numa is \"%.40s\", expected the number of a node, or each", value);
    out->wish.node = out->each_node ? -1 : (int)n;
    return PLAIT_OK;
}

/* The set lives in *out, which wish.processors points into: hence *out must not move. */
static plait_status parse_cores(const char *value, plait_cpu_options *out) {
    plait_status status = plait_error_context(plait_cpuset_parse(value, &out->processors), "cores");
    if (status == PLAIT_OUT_OF_RANGE) status = PLAIT_INVALID_ARGUMENT; /* wrong usage all the same */
    out->wish.processors = &out->processors;
    return status;
}

/* ---- options ---- */

/* The position in `keys` is the case; a text without '=' has a key of no length, which is unknown like any other. */
static plait_status parse_option(const char *option, plait_cpu_options *out) {
    static const char *const keys[] = {"threads", "isa", "numa", "cores"};
    const char *value = strchr(option, '=');
    size_t n = value ? (size_t)(value - option) : 0, key = 0;
    while (key < PLAIT_COUNT_OF(keys) && (strlen(keys[key]) != n || memcmp(keys[key], option, n) != 0)) key++;
    switch (key) {
    case 0: return parse_threads(value + 1, &out->wish.threads);
    case 1: return parse_isa(value + 1, &out->features);
    case 2: return parse_numa(value + 1, out);
    case 3: return parse_cores(value + 1, out);
    default:
        return plait_error(PLAIT_INVALID_ARGUMENT,
                           "option \"%.60s\" is unknown; known: threads, isa, numa, cores", option);
    }
}

/* numa=each of one item: a device list makes an item of each node of it, so here there must be one. *out is set when
 * there is exactly one node that has processors of its own. */
static plait_status only_node(const plait_topology *topology, int *out) {
    int n = 0;
    for (int i = 0; i < topology->n_nodes; i++)
        if (plait_topology_is_home(topology, i)) {
            *out = topology->nodes[i].number;
            n++;
        }
    if (n != 1)
        return plait_error(PLAIT_INVALID_ARGUMENT,
                           "numa=each makes a device of each node, in a device list; this is one device, and "
                           "there are %d nodes",
                           n);
    return PLAIT_OK;
}

/* hwloc knows nodes best, but is slow: it is asked where a node is, unless the processors are named as well. */
static plait_status choose_share(plait_cpu_options *wanted, plait_cpu_share *out) {
    plait_topology topology;
    bool for_node = wanted->each_node || wanted->wish.node >= 0;
    PLAIT_TRY(plait_topology_read(for_node && !wanted->wish.processors, &topology));
    plait_status status = wanted->each_node ? only_node(&topology, &wanted->wish.node) : PLAIT_OK;
    if (status == PLAIT_OK) status = plait_cpu_share_make(&wanted->wish, &topology, out);
    plait_topology_deinit(&topology);
    return status;
}

/* What no option names: as many threads as the process may keep busy, no node, all instruction sets of the
 * processor. */
plait_status plait_cpu_options_parse(const char *const *options, int n_options, plait_cpu_options *out) {
    *out = (plait_cpu_options){.wish = {.limit = plait_os_processors(), .node = -1},
                               .features = plait_cpu_features_detect()};
    for (int i = 0; i < n_options; i++) PLAIT_TRY(parse_option(options[i], out));
    return PLAIT_OK;
}

plait_status plait_cpu_options_apply(plait_cpu_options *options, plait_cpu_device *device) {
    PLAIT_TRY(choose_share(options, &device->share));
    device->features = options->features;
    device->n_threads = device->share.n_threads;
    return PLAIT_OK;
}
