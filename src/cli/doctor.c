/* plait doctor: what this machine can do, and how to mend what is missing. Each check is a function that prints its
 * finding; a check that fails says what to do about it, and makes the exit status 1. Not here: figures of devices
 * (devices.c), whether a device is right (conformance.c).
 *
 * A check needs no privileges and changes nothing. */
#include "cli/cli.h"

#include "base/alloc.h"
#include "base/os.h"
#include "base/size.h"
#include "base/status.h"
#include "base/thread.h"
#include "device/topology.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* NOTE works, but could be better; only BAD counts for the exit status. */
typedef enum finding { FINE, NOTE, BAD } finding;

/* Findings are collected, so that a slow check (the bandwidth) does not print half a report and then seem to hang. */
typedef struct report {
    plait_strbuf out;
    int n_bad;
} report;

/* A finding that is longer than the buffer is cut: the texts of this file are far shorter, but a driver's message may
 * not be. */
static void say(report *r, finding kind, const char *what, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

static void say(report *r, finding kind, const char *what, const char *format, ...) {
    static const char *const words[] = {"ok", "note", "BAD"};
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    plait_strbuf_printf(&r->out, "%-5s %-12s %s\n", words[kind], what, text);
    r->n_bad += kind == BAD;
}

/* ---- checks ---- */

/* A kind that is not there is normal, apart from the CPU, without which nothing runs. Devices are made without options,
 * and given back at once: two kinds that share memory are not held at the same time. */
static void check_devices(report *r) {
    plait_logger logger = plait_cli_logger();
    for (int i = 0; i < plait_device_kind_count(); i++) {
        const plait_device_vtable *kind = plait_device_kind_at(i);
        plait_device *device = NULL;
        plait_device_info info = {0};
        plait_status status = plait_device_create(kind->kind, &logger, &device);
        if (status == PLAIT_OK) status = device->vtable->describe(device, &info);
        if (status == PLAIT_OK)
            say(r, FINE, kind->kind, "%s", info.description);
        else
            say(r, strcmp(kind->kind, "cpu") == 0 ? BAD : NOTE, kind->kind, "%s", plait_error_message());
        if (device) device->vtable->destroy(device);
    }
}

/* A mask or quota is often set by a container without anybody knowing. More threads than may run at the same time are
 * worse than fewer, since all wait at each step for the one that is paused; that is why the number matters. */
static void check_processors(report *r) {
    int usable = plait_os_processors();
    long all = sysconf(_SC_NPROCESSORS_ONLN);
    /* sysconf counts what is online, whoever may use it. */
    if (usable < all)
        say(r, NOTE, "processors",
            "%d of %ld may be used: the affinity mask or the cgroup's quota says so; taskset, or the limit "
            "of the "
            "container, changes that",
            usable, all);
    else
        say(r, FINE, "processors", "%d", usable);
}

/* What a share of the machine could be. Processors are sorted by core, so the first of each core is counted. Two
 * hardware threads of a core are one core here, and nodes with memory alone are not counted. */
static void check_topology(report *r) {
    plait_topology t;
    char kinds[256] = "one speed";
    size_t n = 0;
    int cores = 0, nodes = 0;
    if (plait_topology_read(true, &t) != PLAIT_OK) {
        say(r, NOTE, "topology", "%s", plait_error_message());
        return;
    }
    for (int i = 0; i < t.n_processors; i++)
        cores += i == 0 || t.processors[i].core != t.processors[i - 1].core;
    for (int i = 0; i < t.n_nodes; i++) nodes += plait_topology_is_home(&t, i);
    /* Kinds of cores by speed, on machines with large and small ones; a text that does not fit is cut. */
    for (int k = 0; t.n_kinds > 1 && k < t.n_kinds && n < sizeof kinds; k++)
        n += (size_t)snprintf(kinds + n, sizeof kinds - n, "%s%d at %u%% speed", k ? ", " : "",
                              t.kinds[k].n_processors, t.kinds[k].speed * 100 / PLAIT_TOPOLOGY_FULL_SPEED);
    say(r, FINE, "topology", "%d processors, %d cores, %d NUMA node%s with processors, %s (from %s)%s",
        t.n_processors, cores, nodes, nodes == 1 ? "" : "s", kinds, t.source,
        nodes > 1 ? "; --devices cpu:numa=each makes a device of each node" : "");
    plait_topology_deinit(&t);
}

/* Below 1 GiB free hardly a model fits. */
static void check_memory(report *r) {
    uint64_t total = plait_os_memory_total(), available = plait_os_memory_available();
    finding kind = available < (1u << 30) ? NOTE : FINE;
    say(r, kind, "memory", "%.1f GiB free of %.1f GiB%s", (double)available / (1 << 30),
        (double)total / (1 << 30),
        kind == NOTE ? ": only small models fit; end other programs, or choose a smaller --ctx or --kv q8_0"
                     : "");
}

/* The figures of devices are kept there; without it they are measured each time. Asked with the rights of this process,
 * so that a folder of another user, left by sudo, is found. */
static void check_cache(report *r) {
    char *path;
    if (plait_os_cache_dir(&path) != PLAIT_OK) {
        say(r, NOTE, "cache", "%s; set XDG_CACHE_HOME to a folder that can be written",
            plait_error_message());
        return;
    }
    /* The folder exists: asking for it has made it. */
    if (access(path, W_OK) == 0)
        say(r, FINE, "cache", "%s", path);
    else
        say(r, NOTE, "cache", "%s cannot be written; set XDG_CACHE_HOME to a folder that can be", path);
    free(path);
}

/* Huge pages spare the processor work when large weights are read. Linux only: without the file nothing is said. The
 * word in brackets is the one that is set. "madvise" is enough, since large buffers ask for them. */
static void check_huge_pages(report *r) {
    char text[128] = "";
    FILE *f = fopen("/sys/kernel/mm/transparent_hugepage/enabled", "re");
    if (!f) return;
    bool there = fgets(text, sizeof text, f) != NULL;
    fclose(f);
    if (!there) return;
    if (strstr(text, "[never]"))
        say(r, NOTE, "huge pages",
            "off: reading weights is slower; as root: echo madvise > "
            "/sys/kernel/mm/transparent_hugepage/enabled");
    else
        say(r, FINE, "huge pages", "on");
}

/* ---- speed of memory ---- */

/* 64 MiB for each processor, above the caches of most machines; the best of 8 attempts, since others may use the
 * machine. */
enum { READ_BYTES = 1 << 26, READ_ATTEMPTS = 8 };

typedef struct reading {
    plait_thread thread;
    const uint64_t *words;
    size_t n;
    uint64_t sum;
} reading;

/* Eight sums at a time, so that additions do not wait for each other; the sum is kept so that no compiler drops the
 * loop. Integers, because a compiler may vectorise their sums without leave, and then additions are far faster than
 * memory. */
static void *read_words(void *argument) {
    reading *r = argument;
    uint64_t sums[8] = {0};
    for (size_t i = 0; i + 8 <= r->n; i += 8)
        for (size_t k = 0; k < 8; k++) sums[k] += r->words[i + k];
    for (size_t k = 0; k < 8; k++) r->sum += sums[k];
    return NULL;
}

/* Seconds that the processors need to read all words together, each its part. A thread that does not start is replaced
 * by the caller, which only makes the figure lower. */
static double read_together(reading *readings, int n, const uint64_t *words) {
    uint64_t begin = plait_time_ns();
    for (int i = 0; i < n; i++) {
        readings[i] = (reading){.words = words + (size_t)i * READ_BYTES / 8, .n = READ_BYTES / 8};
        if (i > 0 && plait_thread_start(&readings[i].thread, "doctor", read_words, &readings[i]) != PLAIT_OK)
            read_words(&readings[i]);
    }
    read_words(&readings[0]);
    for (int i = 0; i < n; i++) plait_thread_join(&readings[i].thread);
    return (double)(plait_time_ns() - begin) / 1e9;
}

/* How fast memory is read at best: the bound of generating text, which reads all weights for a token. Memory is given
 * to a node by whoever touches it first, which is the caller: on a machine with several nodes the figure is a lower
 * one. Beyond 64 processors the others are left out, as they hardly add to it. */
static void check_bandwidth(report *r) {
    reading readings[64] = {0};
    int n = (int)plait_min_i64(plait_os_processors(), PLAIT_COUNT_OF(readings));
    size_t n_bytes = (size_t)n * READ_BYTES;
    /* Only half of what is free, so that nothing is pushed out of memory for a measurement. */
    uint64_t *words = plait_os_memory_available() > 2 * n_bytes ? plait_alloc_array(1, n_bytes) : NULL;
    if (!words) {
        say(r, NOTE, "bandwidth", "not measured: too little memory is free");
        return;
    }
    memset(words, 1, n_bytes); /* makes the pages real */
    double best = 0;
    for (int i = 0; i < READ_ATTEMPTS; i++) {
        double rate = (double)n_bytes / read_together(readings, n, words) / 1e9;
        if (rate > best) best = rate;
    }
    free(words);
    say(r, FINE, "bandwidth", "memory is read with %.1f GB/s: a model of 1 GB makes at most %.0f tokens/s",
        best, best);
}

/* All findings are printed before the status is decided. */
static int run(const plait_cli_values *values) {
    report r = {0};
    (void)values;
    plait_strbuf_init(&r.out, 0);
    check_devices(&r);
    check_processors(&r);
    check_topology(&r);
    check_memory(&r);
    check_bandwidth(&r);
    check_huge_pages(&r);
    check_cache(&r);
    plait_status status = plait_cli_emit(&r.out);
    if (status == PLAIT_OK && r.n_bad)
        status = plait_error(PLAIT_UNSUPPORTED, "doctor: %d checks failed, expected 0", r.n_bad);
    return status == PLAIT_OK ? PLAIT_EXIT_OK : plait_cli_fail(status);
}

static const plait_cli_option options[] = {PLAIT_CLI_END};

const plait_cli_command plait_cli_doctor = {
    .name = "doctor",
    .arguments = "",
    .summary = "Tell what this machine can do, and how to mend what is missing.",
    .details =
        "One line a finding: ok, note (works, but could be better) or BAD (then the exit status is 1).",
    .examples = "  plait doctor\n",
    .options = options,
    .run = run,
};
