/* Topologies and shares of machines that are not at hand: files of a system, hwloc's synthetic machines and XML files;
 * what a device gets of them, and what a list of devices gets. Expected values are written down by hand from the machine,
 * or are laws: shares of a list are disjoint, large enough for their threads, proportional; two readers of one machine
 * agree. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/os.h"
#include "base/size.h"
#include "base/thread.h"
#include "device/cpu/options.h"
#include "device/cpu/share.h"
#include "device/fake_sys.h"
#include "device/list.h"

static plait_cpuset list(const char *text) {
    plait_cpuset set;
    if (plait_cpuset_parse(text, &set) != PLAIT_OK) fail_msg("%s: %s", text, plait_error_message());
    return set;
}

static void assert_set(const plait_cpuset *set, const char *expected) {
    char text[1024];
    plait_cpuset_print(set, ',', text, sizeof text);
    assert_string_equal(text, expected);
}

static void assert_message(const char *part) {
    if (!strstr(plait_error_message(), part))
        fail_msg("message \"%s\" does not say \"%s\"", plait_error_message(), part);
}

/* Processors of a kind, of a node (by index), of a core. */
static void assert_kind(const plait_topology *t, int kind, uint32_t speed, const char *processors) {
    plait_cpuset set = {0};
    for (int i = 0; i < t->n_processors; i++)
        if (t->processors[i].kind == kind) plait_cpuset_add(&set, t->processors[i].number);
    assert_true(kind < t->n_kinds);
    assert_int_equal(t->kinds[kind].speed, speed);
    assert_int_equal(t->kinds[kind].n_processors, plait_cpuset_count(&set));
    assert_set(&set, processors);
}

static int count_cores(const plait_topology *t) {
    int n = 0;
    for (int i = 0; i < t->n_processors; i++)
        n += i == 0 || t->processors[i].core != t->processors[i - 1].core;
    return n;
}

/* What topology.h promises of every topology. */
static void assert_sound(const plait_topology *t) {
    assert_true(t->n_processors > 0 && t->n_kinds > 0 && t->n_kinds <= PLAIT_TOPOLOGY_MAX_KINDS);
    assert_int_equal(t->kinds[0].speed, PLAIT_TOPOLOGY_FULL_SPEED);
    for (int k = 1; k < t->n_kinds; k++) assert_true(t->kinds[k].speed <= PLAIT_TOPOLOGY_FULL_SPEED);
    for (int i = 0; i < t->n_processors; i++) {
        const plait_topology_processor *p = &t->processors[i];
        assert_true(p->kind >= 0 && p->kind < t->n_kinds && p->node >= -1 && p->node < t->n_nodes);
        if (p->node >= 0) assert_true(plait_cpuset_has(&t->nodes[p->node].processors, p->number));
        if (i == 0) continue;
        const plait_topology_processor *q = &t->processors[i - 1];
        assert_true(q->node < p->node || (q->node == p->node && q->core <= p->core));
        assert_true(q->core < p->core || q->number < p->number);
    }
    plait_cpuset all;
    plait_topology_processors(t, &all);
    assert_int_equal(plait_cpuset_count(&all), t->n_processors);
}

static plait_topology read_fake(const char *usable) {
    plait_topology t;
    plait_cpuset set = {0};
    if (usable) set = list(usable);
    if (plait_topology_read_system(fake_root, usable ? &set : NULL, &t) != PLAIT_OK)
        fail_msg("%s", plait_error_message());
    assert_sound(&t);
    assert_false(t.is_this_machine);
    return t;
}

/* ---- machines as files ---- */

/* Two sockets, two nodes each, two cores a node, two threads a core: the second threads are numbered behind all cores. */
static void put_two_sockets(void) {
    fake_put("system/cpu/online", "0-15");
    fake_put("system/node/online", "0-3");
    for (int i = 0; i < 16; i++) {
        char siblings[32];
        snprintf(siblings, sizeof siblings, "%d,%d", i % 8, i % 8 + 8);
        fake_put_cpu(i, "topology/thread_siblings_list", siblings);
        fake_put_number(i, "cpufreq/cpuinfo_max_freq", 3500000 + 100000 * (i % 3));
    }
    fake_put_node(0, "0-1,8-9", 1000);
    fake_put_node(1, "2-3,10-11", 2000);
    fake_put_node(2, "4-5,12-13", 3000);
    fake_put_node(3, "6-7,14-15", 4000);
}

static void two_sockets(void **state) {
    (void)state;
    fake_begin();
    put_two_sockets();
    plait_topology t = read_fake(NULL);
    assert_int_equal(t.n_processors, 16);
    assert_int_equal(t.n_nodes, 4);
    assert_int_equal(count_cores(&t), 8);
    assert_int_equal(t.nodes[2].memory_bytes, (uint64_t)3000 << 20);
    assert_set(&t.nodes[1].processors, "2-3,10-11");
    /* Some percent of turbo are no kinds. */
    assert_int_equal(t.n_kinds, 1);
    /* Neighbours in the list are neighbours on the machine. */
    static const int order[] = {0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15};
    for (int i = 0; i < 16; i++) assert_int_equal(t.processors[i].number, order[i]);
    assert_int_equal(plait_topology_find_node(&t, 3), 3);
    assert_int_equal(plait_topology_find_node(&t, 4), -1);
    plait_topology_deinit(&t);
    /* A mask leaves a socket and a half; the rest of the second node, and the third, keep their numbers. */
    t = read_fake("0-2,8,40-50");
    assert_int_equal(t.n_processors, 4);
    assert_int_equal(count_cores(&t), 3);
    assert_set(&t.nodes[0].processors, "0-1,8");
    assert_set(&t.nodes[1].processors, "2");
    assert_set(&t.nodes[3].processors, "");
    assert_true(plait_topology_is_home(&t, 1));
    assert_false(plait_topology_is_home(&t, 3));
    plait_topology_deinit(&t);
    /* Processors that went off line. */
    fake_put("system/cpu/online", "0-1,5,13-15");
    t = read_fake("0-14");
    plait_cpuset all;
    plait_topology_processors(&t, &all);
    assert_set(&all, "0-1,5,13-14");
    plait_topology_deinit(&t);
    plait_cpuset none = list("9");
    assert_int_equal(plait_topology_read_system(fake_root, &none, &t), PLAIT_NOT_FOUND);
    fake_end();
}

/* Two fast cores with two threads, four slow ones; capacities that say nothing, as kernels before 6.12 have them. */
static void put_intel(bool levels) {
    fake_put("system/cpu/online", "0-7");
    fake_put("cpu_core/cpus", "0-3");
    fake_put("cpu_atom/cpus", "4-7");
    for (int i = 0; i < 8; i++) {
        char siblings[32];
        snprintf(siblings, sizeof siblings, i < 4 ? "%d-%d" : "%d", i < 4 ? i / 2 * 2 : i, i / 2 * 2 + 1);
        fake_put_cpu(i, "topology/thread_siblings_list", siblings);
        fake_put_number(i, "cpu_capacity", 1024);
        fake_put_number(i, "cpufreq/cpuinfo_max_freq", i < 4 ? 5000000 : 3800000);
        if (levels) fake_put_number(i, "acpi_cppc/highest_perf", i < 4 ? 64 : 40);
    }
}

static void unequal_cores(void **state) {
    (void)state;
    fake_begin();
    put_intel(false);
    plait_topology t = read_fake(NULL);
    assert_int_equal(t.n_kinds, 2);
    assert_kind(&t, 0, 1024, "0-3");
    assert_kind(&t, 1, 1024 * 3800 / 5000, "4-7");
    assert_int_equal(count_cores(&t), 6);
    assert_int_equal(t.n_nodes, 0);
    plait_topology_deinit(&t);
    put_intel(true); /* the firmware's levels know more than frequencies */
    t = read_fake(NULL);
    assert_kind(&t, 1, 640, "4-7");
    plait_topology_deinit(&t);
    t = read_fake("4-6");
    assert_int_equal(t.n_kinds, 1);
    assert_kind(&t, 0, 1024, "4-6");
    plait_topology_deinit(&t);
    fake_end();
}

/* Arm: three kinds, which the scheduler's capacities tell apart. */
static void three_kinds(void **state) {
    (void)state;
    fake_begin();
    fake_put("system/cpu/online", "0-7");
    for (int i = 0; i < 8; i++) fake_put_number(i, "cpu_capacity", i < 4 ? 256 : i < 7 ? 768 : 1024);
    plait_topology t = read_fake(NULL);
    assert_int_equal(t.n_kinds, 3);
    assert_kind(&t, 0, 1024, "7");
    assert_kind(&t, 1, 768, "4-6");
    assert_kind(&t, 2, 256, "0-3");
    plait_topology_deinit(&t);
    fake_end();
}

/* AMD: levels rank the favoured ones of equal cores, 15% and more apart, while frequencies tell dense cores. */
static void favoured_cores(void **state) {
    (void)state;
    fake_begin();
    fake_put("system/cpu/online", "0-7");
    for (int i = 0; i < 8; i++) {
        fake_put_number(i, "acpi_cppc/highest_perf", 166 + 10 * (unsigned)i);
        fake_put_number(i, "cpufreq/cpuinfo_max_freq", 5100000);
    }
    plait_topology t = read_fake(NULL);
    assert_int_equal(t.n_kinds, 1);
    plait_topology_deinit(&t);
    for (int i = 4; i < 8; i++) fake_put_number(i, "cpufreq/cpuinfo_max_freq", 3300000);
    t = read_fake(NULL);
    assert_int_equal(t.n_kinds, 2);
    assert_kind(&t, 1, 1024 * 3300 / 5100, "4-7");
    plait_topology_deinit(&t);
    /* Kinds beyond the table's end are one. */
    for (int i = 0; i < 8; i++) fake_put_number(i, "cpu_capacity", 1024u >> i);
    fake_put("system/cpu/online", "0-9");
    fake_put_number(8, "cpu_capacity", 2);
    fake_put_number(9, "cpu_capacity", 1);
    t = read_fake(NULL);
    assert_int_equal(t.n_kinds, PLAIT_TOPOLOGY_MAX_KINDS);
    assert_int_equal(t.kinds[PLAIT_TOPOLOGY_MAX_KINDS - 1].n_processors, 3);
    plait_topology_deinit(&t);
    fake_end();
}

/* Files that are missing or make no sense cost knowledge only. */
static void odd_files(void **state) {
    (void)state;
    fake_begin();
    fake_put("system/cpu/online", "no list");
    fake_put("system/node/online", "0-1");
    fake_put("system/node/node0/cpulist", "5-1");
    fake_put("cpu_core/cpus", "99999999999");
    fake_put_cpu(0, "topology/thread_siblings_list", "1-2"); /* not itself */
    fake_put_cpu(1, "cpu_capacity", "-1");
    fake_put_cpu(2, "cpu_capacity", "fast");
    plait_topology t = read_fake("0-2");
    assert_int_equal(t.n_processors, 3);
    assert_int_equal(count_cores(&t), 3);
    assert_int_equal(t.n_kinds, 1);
    assert_int_equal(t.processors[0].node, -1);
    plait_topology_deinit(&t);
    assert_int_equal(plait_topology_read_system(fake_root, NULL, &t), PLAIT_NOT_FOUND);
    fake_end();
}

/* ---- machines as hwloc describes them ---- */

static plait_topology read_hwloc(const char *xml, const char *synthetic, const char *usable) {
    plait_topology t;
    plait_cpuset set = {0};
    if (usable) set = list(usable);
    if (plait_topology_read_hwloc(xml, synthetic, usable ? &set : NULL, &t) != PLAIT_OK)
        fail_msg("%s", plait_error_message());
    assert_sound(&t);
    return t;
}

/* False, after a look at the answer, in a build without hwloc's headers. */
static bool have_hwloc(void) {
    plait_topology t;
    plait_status status = plait_topology_read_hwloc(NULL, "core:1 pu:1", NULL, &t);
    if (status == PLAIT_OK)
        plait_topology_deinit(&t);
    else
        assert_int_equal(status, PLAIT_UNSUPPORTED);
    return status == PLAIT_OK;
}

static const char eight_nodes[] = "pack:2 numa:4 core:8 pu:2";

static void synthetic_machines(void **state) {
    (void)state;
    if (!have_hwloc()) return;
    plait_topology t = read_hwloc(NULL, eight_nodes, NULL);
    assert_int_equal(t.n_processors, 128);
    assert_int_equal(t.n_nodes, 8);
    assert_int_equal(count_cores(&t), 64);
    assert_int_equal(t.n_kinds, 1);
    assert_set(&t.nodes[5].processors, "80-95");
    assert_true(t.nodes[0].memory_bytes > 0);
    assert_false(t.is_this_machine);
    plait_topology_deinit(&t);
    t = read_hwloc(NULL, eight_nodes, "3,16-40,500");
    assert_int_equal(t.n_processors, 26);
    assert_set(&t.nodes[2].processors, "32-40");
    plait_topology_deinit(&t);
    /* Two memories near the same cores: the first is home. */
    t = read_hwloc(NULL, "pack:2 [numa(memory=64GB)] [numa(memory=16GB)] core:4 pu:1", NULL);
    assert_int_equal(t.n_nodes, 4);
    assert_set(&t.nodes[0].processors, "0-3");
    assert_set(&t.nodes[1].processors, "0-3");
    assert_true(plait_topology_is_home(&t, 0) && plait_topology_is_home(&t, 2));
    assert_false(plait_topology_is_home(&t, 1) || plait_topology_is_home(&t, 3));
    plait_topology_deinit(&t);
    plait_cpuset none = list("1000");
    assert_int_equal(plait_topology_read_hwloc(NULL, eight_nodes, &none, &t), PLAIT_NOT_FOUND);
    assert_int_equal(plait_topology_read_hwloc(NULL, "bowl:2 fish:3", NULL, &t), PLAIT_INVALID_ARGUMENT);
    assert_message("bowl:2");
    assert_int_equal(plait_topology_read_hwloc("no-such-file.xml", NULL, NULL, &t), PLAIT_INVALID_ARGUMENT);
}

#define SLOW_ONES "16,18,20,22,24,26,28,30,32,34,36,38,40,42,44,46"
static const char hybrid[] = PLAIT_SOURCE_DIR "/tests/device/topologies/hybrid-8p-16e.xml";

static void described_kinds(void **state) {
    (void)state;
    if (!have_hwloc()) return;
    plait_topology t = read_hwloc(hybrid, NULL, NULL);
    assert_int_equal(t.n_processors, 32);
    assert_int_equal(count_cores(&t), 24);
    assert_int_equal(t.n_kinds, 2);
    assert_kind(&t, 0, 1024, "0-15");
    assert_kind(&t, 1, 1024 * 3900 / 5100, SLOW_ONES);
    plait_topology_deinit(&t);
}

/* Two readers that share no code agree about the machine at hand. */
static void this_machine(void **state) {
    plait_topology a, b;
    plait_cpuset usable;
    (void)state;
    plait_thread_processors(&usable);
    assert_int_equal(plait_topology_read_system("/sys", &usable, &a), PLAIT_OK);
    assert_sound(&a);
    assert_true(a.is_this_machine);
    assert_int_equal(a.n_processors, plait_cpuset_count(&usable));
    printf("%d processors, %d cores, %d nodes, %d kinds\n", a.n_processors, count_cores(&a), a.n_nodes,
           a.n_kinds);
    if (have_hwloc()) {
        assert_int_equal(plait_topology_read_hwloc(NULL, NULL, &usable, &b), PLAIT_OK);
        assert_true(b.is_this_machine);
        assert_int_equal(b.n_processors, a.n_processors);
        assert_int_equal(count_cores(&b), count_cores(&a));
        for (int i = 0; i < a.n_processors; i++) {
            assert_int_equal(b.processors[i].number, a.processors[i].number);
            assert_int_equal(b.processors[i].kind, a.processors[i].kind);
        }
        plait_topology_deinit(&b);
    }
    plait_topology_deinit(&a);
}

/* ---- shares ---- */

static plait_cpu_share share_of(const plait_topology *t, int threads, int node, const char *cores) {
    plait_cpu_share share;
    plait_cpuset set = {0};
    if (cores) set = list(cores);
    plait_cpu_wish wish = {.threads = threads, .limit = 4, .node = node, .processors = cores ? &set : NULL};
    if (plait_cpu_share_make(&wish, t, &share) != PLAIT_OK) fail_msg("%s", plait_error_message());
    int sum = 0;
    for (int k = 0; k < share.n_kinds; k++) {
        for (int i = 0; i < share.kinds[k].n_threads; i++)
            assert_int_equal(plait_cpu_share_kind_of(&share, sum + i), k);
        sum += share.kinds[k].n_threads;
    }
    if (share.n_kinds) assert_int_equal(sum, share.n_threads);
    return share;
}

static plait_status refuse(const plait_topology *t, int node, const char *cores) {
    plait_cpu_share share;
    plait_cpuset set = {0};
    if (cores) set = list(cores);
    plait_cpu_wish wish = {.limit = 4, .node = node, .processors = cores ? &set : NULL};
    return plait_cpu_share_make(&wish, t, &share);
}

static void shares_of_nodes(void **state) {
    char text[128];
    (void)state;
    fake_begin();
    put_two_sockets();
    plait_topology t = read_fake(NULL);
    plait_cpu_share s = share_of(&t, 0, -1, NULL);
    assert_int_equal(s.n_threads, 16); /* a description is not limited by this machine */
    assert_int_equal(s.n_kinds, 0);
    plait_cpu_share_describe(&s, text, sizeof text);
    assert_string_equal(text, "");
    s = share_of(&t, 0, 2, NULL);
    assert_int_equal(s.n_threads, 4);
    assert_set(&s.processors, "4-5,12-13");
    assert_int_equal(s.memory_bytes, (uint64_t)3000 << 20);
    plait_cpu_share_describe(&s, text, sizeof text);
    assert_string_equal(text, "processors 4-5+12-13 and memory of node 2");
    s = share_of(&t, 3, 2, "5+12");
    assert_int_equal(s.n_threads, 3);
    assert_set(&s.processors, "5,12");
    s = share_of(&t, 0, -1, "7");
    assert_int_equal(s.n_threads, 1);
    assert_int_equal(s.node, -1);
    plait_cpu_share_describe(&s, text, sizeof text);
    assert_string_equal(text, "processor 7");
    assert_int_equal(refuse(&t, 4, NULL), PLAIT_INVALID_ARGUMENT);
    assert_message("there are: 0, 1, 2, 3");
    assert_int_equal(refuse(&t, -1, "3+16"), PLAIT_INVALID_ARGUMENT);
    assert_message("processor 16");
    assert_int_equal(refuse(&t, 0, "3"), PLAIT_INVALID_ARGUMENT);
    assert_message("not of the node");
    assert_int_equal(refuse(&t, -1, ""), PLAIT_INVALID_ARGUMENT);
    /* The machine at hand is limited by what the process may keep busy, unless threads are named. */
    t.is_this_machine = true;
    s = share_of(&t, 0, -1, NULL);
    assert_int_equal(s.n_threads, 4);
    assert_false(s.bound);
    s = share_of(&t, 9, -1, NULL);
    assert_int_equal(s.n_threads, 9);
    s = share_of(&t, 0, 1, NULL);
    assert_true(s.bound);
    plait_topology_deinit(&t);
    fake_end();
}

/* Threads go to cores first, the fastest first; home ranges are in proportion to what a thread of the kind does. */
static void shares_of_kinds(void **state) {
    char text[256];
    (void)state;
    fake_begin();
    put_intel(true); /* 2 cores with 2 threads at 1024, 4 at 640 */
    plait_topology t = read_fake(NULL);
    static const struct {
        int threads, fast, slow;
    } cases[] = {{1, 1, 0}, {2, 2, 0}, {3, 2, 1}, {6, 2, 4}, {7, 3, 4}, {8, 4, 4}, {10, 6, 4}, {16, 8, 8}};
    for (size_t i = 0; i < PLAIT_COUNT_OF(cases); i++) {
        plait_cpu_share s = share_of(&t, cases[i].threads, -1, NULL);
        assert_int_equal(s.n_kinds, 2);
        assert_int_equal(s.kinds[0].n_threads, cases[i].fast);
        assert_int_equal(s.kinds[1].n_threads, cases[i].slow);
        if (cases[i].fast <= 2) assert_int_equal(s.kinds[0].weight, 1024);
        if (cases[i].slow) assert_int_equal(s.kinds[1].weight, cases[i].slow > 4 ? 320 : 640);
    }
    plait_cpu_share s = share_of(&t, 8, -1, NULL);
    assert_int_equal(s.kinds[0].weight, 1024 * 125 / 200); /* four threads do what two and a half cores do */
    assert_set(&s.kinds[0].processors, "0-3");
    assert_set(&s.kinds[1].processors, "4-7");
    plait_cpu_share_describe(&s, text, sizeof text);
    assert_string_equal(text,
                        "processors 0-7 (4 at 100% speed with 4 threads, 4 at 63% speed with 4 threads)");
    t.is_this_machine = true;
    s = share_of(&t, 8, -1, NULL);
    assert_true(s.bound); /* unequal cores are respected without being asked for */
    s = share_of(&t, 2, -1, "4-7");
    assert_int_equal(s.n_kinds, 1);
    assert_int_equal(s.kinds[0].n_threads, 2);
    plait_topology_deinit(&t);
    fake_end();
}

/* ---- lists ---- */

enum { MAX_EMITTED = 64 };

typedef struct emitted {
    int n, items[MAX_EMITTED];
    char options[MAX_EMITTED][512];
} emitted;

static plait_status emit(void *user, int item, const char *options) {
    emitted *e = user;
    assert_true(e->n < MAX_EMITTED);
    assert_true(strlen(options) < sizeof e->options[0]);
    e->items[e->n] = item;
    strcpy(e->options[e->n++], options);
    return PLAIT_OK;
}

/* Items separated by ',' on a topology; the result likewise. */
static const char *expand(const plait_topology *t, const char *items, int threads) {
    static char text[4096], copy[1024];
    static emitted e;
    const char *parts[MAX_EMITTED];
    int n = 0;
    snprintf(copy, sizeof copy, "%s", items);
    for (char *p = copy; p; n++) {
        parts[n] = p;
        p = strchr(p, ',');
        if (p) *p++ = '\0';
    }
    e.n = 0;
    if (plait_cpu_expand_on(t, parts, n, threads, emit, &e) != PLAIT_OK) return NULL;
    text[0] = '\0';
    for (int i = 0; i < e.n; i++) {
        if (i) assert_true(e.items[i - 1] <= e.items[i]);
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s", i ? "," : "", e.options[i]);
    }
    return text;
}

static void lists_by_hand(void **state) {
    (void)state;
    fake_begin();
    put_two_sockets();
    plait_topology t = read_fake(NULL);
    /* One device: the whole machine, nothing said. */
    assert_string_equal(expand(&t, "", 0), "");
    assert_string_equal(expand(&t, "", 3), "threads=3");
    assert_string_equal(expand(&t, "isa=portable:threads=2", 3), "isa=portable:threads=2");
    /* Two: a socket each. */
    assert_string_equal(expand(&t, ",", 0), "threads=8:cores=0-3+8-11,threads=8:cores=4-7+12-15");
    assert_string_equal(expand(&t, "threads=1,threads=3", 0),
                        "threads=1:cores=0-1+8-9,threads=3:cores=2-7+10-15");
    assert_string_equal(expand(&t, "isa=portable,", 2),
                        "isa=portable:threads=2:cores=0-3+8-11,threads=2:cores=4-7+12-15");
    /* What somebody named is his; the others share the rest. */
    assert_string_equal(expand(&t, "cores=0-1,", 0), "cores=0-1,threads=14:cores=2-15");
    assert_string_equal(expand(&t, "numa=0,numa=3:threads=2,", 0),
                        "numa=0,numa=3:threads=2,threads=8:cores=2-5+10-13");
    /* Not enough for all threads: nobody is bound. */
    assert_string_equal(expand(&t, "threads=16,threads=1", 0), "threads=16,threads=1");
    assert_string_equal(expand(&t, "cores=0-15,", 0), "cores=0-15,threads=1");
    /* A device of each node. */
    assert_string_equal(
        expand(&t, "numa=each", 0),
        "numa=0:cores=0-1+8-9,numa=1:cores=2-3+10-11,numa=2:cores=4-5+12-13,numa=3:cores=6-7+14-15");
    assert_string_equal(
        expand(&t, "threads=1:numa=each:isa=portable", 7),
        "threads=1:isa=portable:numa=0:cores=0-1+8-9,threads=1:isa=portable:numa=1:cores=2-3+10-11,"
        "threads=1:isa=portable:numa=2:cores=4-5+12-13,threads=1:isa=portable:numa=3:cores=6-7+14-15");
    assert_null(expand(&t, "numa=each:cores=1", 0));
    assert_message("each node has its cores");
    /* What is wrong stays, for whoever creates it. */
    assert_string_equal(expand(&t, "threads=none,numa,speed=1", 0), "threads=none,numa,speed=1");
    plait_topology_deinit(&t);
    t = read_fake("0-2,9");
    assert_string_equal(expand(&t, "numa=each", 0), "numa=0:cores=0-1+9,numa=1:cores=2");
    /* Three cores for four single threads: second threads of a core are better than nothing. */
    assert_string_equal(expand(&t, "threads=1,threads=1,threads=1,threads=1", 0),
                        "threads=1:cores=0,threads=1:cores=1,threads=1:cores=9,threads=1:cores=2");
    plait_topology_deinit(&t);
    fake_end();
    fake_begin();
    put_intel(false);
    t = read_fake(NULL);
    assert_string_equal(expand(&t, ",", 0), "threads=4:cores=0-1+4-5,threads=4:cores=2-3+6-7");
    assert_null(expand(&t, "numa=each", 0));
    assert_message("no NUMA nodes");
    plait_topology_deinit(&t);
    fake_end();
}

/* Two memories near the same cores make one device. */
static void each_home(void **state) {
    (void)state;
    if (!have_hwloc()) return;
    plait_topology t = read_hwloc(NULL, "pack:2 [numa(memory=64GB)] [numa(memory=16GB)] core:4 pu:1", NULL);
    assert_string_equal(expand(&t, "numa=each", 0), "numa=0:cores=0-3,numa=2:cores=4-7");
    plait_topology_deinit(&t);
    t = read_hwloc(NULL, eight_nodes, "0-31,64-127");
    assert_string_equal(expand(&t, "threads=2:numa=each", 0),
                        "threads=2:numa=0:cores=0-15,threads=2:numa=1:cores=16-31,"
                        "threads=2:numa=4:cores=64-79,threads=2:numa=5:cores=80-95,"
                        "threads=2:numa=6:cores=96-111,threads=2:numa=7:cores=112-127");
    plait_topology_deinit(&t);
}

/* ---- lists by law ---- */

static uint32_t seed = 7;

static int below(int n) {
    seed = seed * 1664525u + 1013904223u;
    return (int)((uint64_t)(seed >> 8) * (uint64_t)n >> 24);
}

/* A machine of some sockets, kinds and threads a core, with processors missing here and there. */
static void draw_machine(plait_topology *t) {
    static plait_topology_processor processors[512];
    static plait_topology_node nodes[8];
    plait_processor_speed speeds[512] = {{0}};
    int n_nodes = 1 + below(4), cores = 1 + below(12), threads = 1 + below(2), slow = below(3);
    int number = 0;
    *t = (plait_topology){.processors = processors, .nodes = nodes, .n_nodes = n_nodes};
    memset(nodes, 0, sizeof nodes);
    for (int node = 0; node < n_nodes; node++) {
        nodes[node].number = node;
        for (int core = 0; core < cores + slow * 2; core++)
            for (int k = 0; k < (core < cores ? threads : 1); k++, number++) {
                if (below(8) == 0) continue;
                speeds[t->n_processors].capacity = core < cores ? 1024 : 300;
                plait_cpuset_add(&nodes[node].processors, number);
                processors[t->n_processors++] =
                    (plait_topology_processor){.number = number, .core = node * 100 + core, .node = node};
            }
    }
    if (t->n_processors == 0) processors[t->n_processors++] = (plait_topology_processor){.node = -1};
    plait_topology_set_kinds(t, speeds);
    plait_topology_finish(t);
}

static int option_number(const char *options, const char *key) {
    const char *p = strstr(options, key);
    return p ? atoi(p + strlen(key)) : 0;
}

static void check_shares(const plait_topology *t, const emitted *e, int n_items, const int *asked) {
    plait_cpuset seen = {0}, all;
    int64_t n_threads = 0, dealt = 0;
    plait_topology_processors(t, &all);
    assert_int_equal(e->n, n_items);
    for (int i = 0; i < e->n; i++) {
        int threads = option_number(e->options[i], "threads=");
        assert_true(threads >= 1);
        if (asked[i]) assert_int_equal(threads, asked[i]);
        n_threads += threads;
        dealt += strstr(e->options[i], "cores=") != NULL;
    }
    /* All or nobody, and all whenever it is enough. */
    assert_int_equal(dealt, n_threads <= t->n_processors ? e->n : 0);
    for (int i = 0; i < e->n && dealt; i++) {
        int threads = option_number(e->options[i], "threads=");
        plait_cpuset set = list(strstr(e->options[i], "cores=") + 6);
        int n = plait_cpuset_count(&set);
        assert_false(plait_cpuset_intersects(&set, &seen));
        plait_cpuset_join(&seen, &set);
        assert_true(n >= threads);
        /* In proportion, up to a core and a rounding for each kind. */
        int64_t exact = (int64_t)t->n_processors * threads, found = (int64_t)n * n_threads;
        assert_true(llabs(exact - found) <= n_threads * (3 * t->n_kinds));
    }
    if (dealt) assert_true(plait_cpuset_equal(&seen, &all));
}

static void lists_by_law(void **state) {
    (void)state;
    int n_dealt = 0;
    for (int round = 0; round < 3000; round++) {
        plait_topology t;
        static emitted e;
        char text[8][32];
        const char *items[8];
        int asked[8], n = 2 + below(7);
        draw_machine(&t);
        for (int i = 0; i < n; i++) {
            asked[i] = below(3) ? 0 : 1 + below(6);
            text[i][0] = '\0';
            if (asked[i]) snprintf(text[i], sizeof text[i], "threads=%d", asked[i]);
            items[i] = text[i];
        }
        e.n = 0;
        assert_int_equal(plait_cpu_expand_on(&t, items, n, 0, emit, &e), PLAIT_OK);
        check_shares(&t, &e, n, asked);
        n_dealt += strstr(e.options[0], "cores=") != NULL;
    }
    printf("%d of 3000 lists were dealt\n", n_dealt);
    assert_true(n_dealt > 1000 && n_dealt < 2990);
}

/* ---- lists of several kinds ---- */

static void whole_lists(void **state) {
    plait_device_list l = {0};
    (void)state;
    assert_int_equal(plait_device_list_parse("null,cpu:threads=1,moon:a=b,null", 0, &l), PLAIT_OK);
    assert_int_equal(l.n_items, 4);
    assert_string_equal(l.items[0].text, "null");
    assert_string_equal(l.items[1].text, "cpu:threads=1");
    assert_string_equal(l.items[2].text, "moon:a=b");
    assert_int_equal(l.items[3].source, 3);
    plait_device_list_deinit(&l);
    assert_int_equal(plait_device_list_parse("cpu,null,cpu", 1, &l), PLAIT_OK);
    assert_int_equal(l.n_items, 3);
    assert_true(strncmp(l.items[0].text, "cpu:threads=1", 13) == 0);
    assert_string_equal(l.items[1].text, "null");
    assert_true(strncmp(l.items[2].text, "cpu:threads=1", 13) == 0);
    plait_device_list_deinit(&l);
    assert_int_equal(plait_device_list_parse("cpu,,null", 0, &l), PLAIT_INVALID_ARGUMENT);
    assert_message("empty");
    assert_int_equal(plait_device_list_parse("", 0, &l), PLAIT_INVALID_ARGUMENT);
    char many[65 * 5];
    for (int i = 0; i < 65; i++) memcpy(many + 5 * i, "null,", 5);
    many[sizeof many - 1] = '\0';
    assert_int_equal(plait_device_list_parse(many, 0, &l), PLAIT_INVALID_ARGUMENT);
    assert_message("64");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_sockets),     cmocka_unit_test(unequal_cores),
        cmocka_unit_test(three_kinds),     cmocka_unit_test(favoured_cores),
        cmocka_unit_test(odd_files),       cmocka_unit_test(synthetic_machines),
        cmocka_unit_test(described_kinds), cmocka_unit_test(this_machine),
        cmocka_unit_test(shares_of_nodes), cmocka_unit_test(shares_of_kinds),
        cmocka_unit_test(lists_by_hand),   cmocka_unit_test(each_home),
        cmocka_unit_test(lists_by_law),    cmocka_unit_test(whole_lists),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
