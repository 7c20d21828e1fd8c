/* Figures: the scale, what completes them, links, where they come from: stated, given, cached, measured; a damaged cache
 * is replaced. And costs of nodes for given figures, against the formula by hand. */
#include "cost/cost.h"

#include "support/assert_ok.h"
#include "support/decoder.h"
#include "support/fake_device.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <fcntl.h>
#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- the scale ---- */

static void test_scale(void **state) {
    (void)state;
    assert_int_equal(plait_cost_round(0), 0);
    uint64_t previous = 0;
    for (uint64_t v = 1; v < (uint64_t)1 << 59; v += 1 + v / 53) {
        uint64_t r = plait_cost_round(v);
        assert_int_equal(plait_cost_round(r), r);
        assert_true(r >= previous);
        double off = (double)r / (double)v;
        if (off < 0.94 || off > 1.07)
            fail_msg("%llu became %llu", (unsigned long long)v, (unsigned long long)r);
        /* Steps of a tenth, as near as whole numbers come to it. */
        if (previous >= 50 && r != previous)
            assert_true((double)r / (double)previous > 1.08 && (double)r / (double)previous < 1.12);
        previous = r;
    }
    assert_true(plait_cost_round(UINT64_MAX) > 0);
    /* Noise of 3% around the middle of a step changes nothing. */
    uint64_t middle = plait_cost_round(94000000000);
    assert_int_equal(plait_cost_round(middle - middle / 33), middle);
    assert_int_equal(plait_cost_round(middle + middle / 33), middle);
}

static void test_complete(void **state) {
    (void)state;
    plait_device_figures f = {.float_flop_per_s = 100, .weight_bytes_per_s = 50, .read_bytes_per_s = 8};
    plait_cost_complete(&f);
    assert_int_equal(f.integer_flop_per_s, plait_cost_round(100));
    assert_int_equal(f.attention_flop_per_s, plait_cost_round(100));
    assert_int_equal(f.bytes_per_s, plait_cost_round(50));
    assert_int_equal(f.write_bytes_per_s, 8);
    assert_int_equal(f.peer_bytes_per_s, 8);
    assert_int_equal(f.launch_ns, 0);
    f = (plait_device_figures){0};
    plait_cost_complete(&f);
    assert_true(f.integer_flop_per_s && f.float_flop_per_s && f.attention_flop_per_s && f.bytes_per_s &&
                f.weight_bytes_per_s && f.write_bytes_per_s && f.read_bytes_per_s && f.peer_bytes_per_s);
}

/* ---- where figures come from ---- */

static char folder[64];

/* A cache folder of the test's own, removed afterwards. */
static int make_cache(void **state) {
    (void)state;
    strcpy(folder, "/tmp/plait-figures-XXXXXX");
    if (!mkdtemp(folder)) return 1;
    return setenv("XDG_CACHE_HOME", folder, 1);
}

static int remove_cache(void **state) {
    (void)state;
    char path[512];
    snprintf(path, sizeof path, "%s/plait", folder);
    DIR *dir = opendir(path);
    for (struct dirent *e = dir ? readdir(dir) : NULL; e; e = readdir(dir)) {
        snprintf(path, sizeof path, "%s/plait/%s", folder, e->d_name);
        unlink(path);
    }
    if (dir) closedir(dir);
    snprintf(path, sizeof path, "%s/plait", folder);
    rmdir(path);
    return rmdir(folder);
}

/* The one file of figures in the cache; false when there is none. */
static bool cache_file(char *out, size_t size) {
    char path[128];
    bool found = false;
    snprintf(path, sizeof path, "%s/plait", folder);
    DIR *dir = opendir(path);
    for (struct dirent *e = dir ? readdir(dir) : NULL; e; e = readdir(dir))
        if (strncmp(e->d_name, "figures-", 8) == 0) {
            assert_false(found);
            snprintf(out, size, "%s/%s", path, e->d_name);
            found = true;
        }
    if (dir) closedir(dir);
    return found;
}

static void assert_same(const plait_device_figures *a, const plait_device_figures *b) {
    assert_memory_equal(a, b, sizeof *a);
}

static plait_figures_source measure(plait_device *device, bool again, plait_device_figures *out) {
    plait_figures_source source;
    assert_ok(plait_device_measure(device, again, out, &source));
    assert_true(out->integer_flop_per_s && out->attention_flop_per_s && out->weight_bytes_per_s);
    const uint64_t *fields = &out->integer_flop_per_s;
    for (size_t i = 0; i < (sizeof *out - sizeof(size_t)) / sizeof(uint64_t); i++)
        assert_int_equal(plait_cost_round(fields[i]), fields[i]);
    return source;
}

/* Measured once, then read; a file that is damaged in any byte, cut, or empty is measured again and replaced. */
static void test_cache(void **state) {
    (void)state;
    plait_device *device = NULL;
    plait_device_figures first, next;
    plait_cost_record record;
    char path[256], text[2048];
    assert_ok(plait_device_create("cpu:threads=1", NULL, &device));
    assert_int_equal(measure(device, false, &first), PLAIT_FIGURES_MEASURED);
    assert_int_equal(measure(device, false, &next), PLAIT_FIGURES_CACHED);
    assert_same(&first, &next);
    assert_true(cache_file(path, sizeof path));
    FILE *file = fopen(path, "r");
    size_t n = fread(text, 1, sizeof text, file);
    fclose(file);
    assert_true(n > 100 && n < sizeof text);
    size_t places[] = {0, 1, 15, n / 2, n - 3, n - 1};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        char damaged[2048];
        plait_device_info info;
        memcpy(damaged, text, n);
        damaged[places[i]] = damaged[places[i]] == '7' ? 'x' : damaged[places[i]] == '"' ? '7' : '"';
        file = fopen(path, "w");
        fwrite(damaged, 1, n, file);
        fclose(file);
        assert_ok(device->vtable->describe(device, &info));
        assert_int_equal(plait_cost_cache_read(&info, &record), PLAIT_NOT_FOUND);
    }
    for (size_t cut = 0; cut < n; cut += 13) {
        plait_device_info info;
        assert_int_equal(truncate(path, 0), 0);
        file = fopen(path, "w");
        fwrite(text, 1, cut, file);
        fclose(file);
        assert_ok(device->vtable->describe(device, &info));
        assert_int_equal(plait_cost_cache_read(&info, &record), PLAIT_NOT_FOUND);
    }
    assert_int_equal(measure(device, false, &next), PLAIT_FIGURES_MEASURED);
    assert_int_equal(measure(device, false, &first), PLAIT_FIGURES_CACHED);
    assert_same(&first, &next);
    assert_int_equal(measure(device, true, &next), PLAIT_FIGURES_MEASURED);
    device->vtable->destroy(device);
}

/* A folder that cannot be had costs the next program a measurement, nothing else. */
static void test_without_a_cache(void **state) {
    (void)state;
    plait_device *device = NULL;
    plait_device_figures figures;
    char blocked[128];
    snprintf(blocked, sizeof blocked, "%s/file", folder);
    fclose(fopen(blocked, "w"));
    setenv("XDG_CACHE_HOME", blocked, 1);
    assert_ok(plait_device_create("cpu:threads=1", NULL, &device));
    assert_int_equal(measure(device, false, &figures), PLAIT_FIGURES_MEASURED);
    assert_int_equal(measure(device, false, &figures), PLAIT_FIGURES_MEASURED);
    device->vtable->destroy(device);
    unlink(blocked);
    setenv("XDG_CACHE_HOME", folder, 1);
}

/* Two devices of other options are two descriptions. */
static void test_description_decides(void **state) {
    (void)state;
    plait_device *one = NULL, *two = NULL;
    plait_device_figures figures;
    assert_ok(plait_device_create("cpu:threads=1", NULL, &one));
    assert_ok(plait_device_create("cpu:threads=2", NULL, &two));
    measure(one, false, &figures);
    plait_device_info info;
    plait_cost_record record;
    assert_ok(two->vtable->describe(two, &info));
    assert_int_equal(plait_cost_cache_read(&info, &record), PLAIT_NOT_FOUND);
    assert_ok(one->vtable->describe(one, &info));
    assert_ok(plait_cost_cache_read(&info, &record));
    assert_same(&record.figures, &figures);
    one->vtable->destroy(one);
    two->vtable->destroy(two);
}

static void test_disturbance(void **state) {
    (void)state;
    const uint64_t second = 1000000000;
    /* 8 processors, a device of 4 threads: others may have 4, and the quarter that is always there. */
    assert_false(plait_cost_was_disturbed(8, 4, 0, second));
    assert_false(plait_cost_was_disturbed(8, 4, 4 * second, second));
    assert_true(plait_cost_was_disturbed(8, 4, 9 * second / 2, second));
    /* One that takes all of them; one that takes none but its caller's. */
    assert_false(plait_cost_was_disturbed(8, 8, second / 5, second));
    assert_true(plait_cost_was_disturbed(8, 8, second / 3, second));
    assert_false(plait_cost_was_disturbed(8, 0, 7 * second, second));
    assert_true(plait_cost_was_disturbed(8, 0, 8 * second, second));
    assert_false(plait_cost_was_disturbed(1, 16, 0, 0));
}

/* Figures of a bad moment do not stay: a later look measures again and keeps the best, until there was peace or often
 * enough. */
static void test_bad_moments(void **state) {
    (void)state;
    plait_device *device = NULL;
    plait_device_info info;
    plait_device_figures figures;
    plait_cost_record slow = {.figures = {.integer_flop_per_s = 7, .float_flop_per_s = 7, .bytes_per_s = 7}},
                      record;
    const struct timespec long_ago[2] = {{.tv_sec = 1000000000}, {.tv_sec = 1000000000}};
    char path[256];
    slow.figures.write_bytes_per_s = (uint64_t)1 << 50; /* better than any machine: it stays */
    plait_cost_complete(&slow.figures);
    assert_ok(plait_device_create("cpu:threads=1", NULL, &device));
    assert_ok(device->vtable->describe(device, &info));
    for (slow.n_disturbed = 0; slow.n_disturbed <= 9; slow.n_disturbed += 3)
        for (int old = 0; old < 2; old++) {
            bool again = old && slow.n_disturbed > 0 && slow.n_disturbed < 8;
            assert_ok(plait_cost_cache_write(&info, &slow));
            assert_true(cache_file(path, sizeof path));
            if (old) assert_int_equal(utimensat(AT_FDCWD, path, long_ago, 0), 0);
            assert_int_equal(measure(device, false, &figures),
                             again ? PLAIT_FIGURES_MEASURED : PLAIT_FIGURES_CACHED);
            assert_ok(plait_cost_cache_read(&info, &record));
            assert_same(&record.figures, &figures);
            assert_true(record.age_s < 600 || (old && !again));
            assert_true(figures.write_bytes_per_s == slow.figures.write_bytes_per_s);
            assert_true(again ? figures.integer_flop_per_s > 7 : figures.integer_flop_per_s == 7);
            assert_true(again ? record.n_disturbed == 0 || record.n_disturbed == slow.n_disturbed + 1
                              : record.n_disturbed == slow.n_disturbed);
        }
    device->vtable->destroy(device);
}

/* What a device lacks is not measured, and does not matter. */
static void test_lacking(void **state) {
    (void)state;
    plait_device *device = NULL;
    plait_device_figures figures = {0};
    bool disturbed;
    assert_ok(plait_device_create("fake:lack=matmul+attention+add", NULL, &device));
    assert_ok(plait_cost_measure(device, &figures, &disturbed));
    assert_int_equal(figures.integer_flop_per_s, 0);
    assert_int_equal(figures.float_flop_per_s, 0);
    assert_int_equal(figures.attention_flop_per_s, 0);
    assert_int_equal(figures.bytes_per_s, 0);
    assert_true(figures.write_bytes_per_s > 0);
    device->vtable->destroy(device);
    /* A device of almost no memory. */
    assert_ok(plait_device_create("fake:mem=100000", NULL, &device));
    assert_ok(plait_cost_measure(device, &figures, &disturbed));
    assert_true(figures.write_bytes_per_s > 0);
    device->vtable->destroy(device);
}

/* ---- contexts ---- */

static void test_context(void **state) {
    (void)state;
    plait_context *context = NULL;
    plait_device_figures figures, given = {.integer_flop_per_s = 12345, .bytes_per_s = 777};
    plait_link_figures link;
    char path[256];
    assert_ok(plait_context_open(
        &context, "fake:speed=2:link=1000000:latency=100,fake,fake:reach=no:link=4000:latency=10", NULL));
    assert_ok(plait_context_figures(context, 0, &figures));
    assert_int_equal(figures.integer_flop_per_s, plait_cost_round(400000000000));
    assert_false(cache_file(path, sizeof path)); /* stated, so not measured */
    assert_int_equal(plait_context_figures(context, 3, &figures), PLAIT_INVALID_ARGUMENT);
    assert_string_equal(plait_error_message(), "figures: device 3, there are 3");
    assert_ok(plait_context_set_figures(context, 1, &given));
    assert_ok(plait_context_figures(context, 1, &figures));
    assert_int_equal(figures.integer_flop_per_s, plait_cost_round(12345));
    assert_int_equal(figures.float_flop_per_s, plait_cost_round(12345));
    given.bytes_per_s = 0;
    assert_int_equal(plait_context_set_figures(context, 1, &given), PLAIT_INVALID_ARGUMENT);
    assert_string_equal(plait_error_message(), "figures of fake:1: no rate of bytes is given");
    /* Direct where the source reaches the target, else where the target reaches the source, else through the host. */
    assert_ok(plait_context_link(context, 0, 1, &link));
    assert_true(link.direct && link.bytes_per_s == plait_cost_round(1000000) &&
                link.latency_ns == plait_cost_round(100));
    assert_ok(plait_context_link(context, 2, 0, &link));
    assert_true(link.direct && link.bytes_per_s == plait_cost_round(1000000));
    assert_ok(plait_context_link(context, -1, 2, &link));
    assert_true(link.direct && link.bytes_per_s == plait_cost_round(4000) && link.latency_ns == 10);
    assert_ok(plait_context_link(context, 1, 1, &link));
    assert_true(link.direct && link.bytes_per_s == UINT64_MAX && link.latency_ns == 0);
    assert_int_equal(plait_context_link(context, 0, 3, &link), PLAIT_INVALID_ARGUMENT);
    plait_context_close(context);
    context = NULL;
    assert_ok(plait_context_open(
        &context, "fake:reach=no:link=4000:latency=10,fake:reach=no:link=4000:latency=10", NULL));
    assert_ok(plait_context_link(context, 0, 1, &link));
    assert_false(link.direct);
    assert_int_equal(link.bytes_per_s, plait_cost_round(plait_cost_round(4000) / 2)); /* each byte twice */
    assert_int_equal(link.latency_ns, plait_cost_round(20));
    plait_context_close(context);
}

/* ---- costs ---- */

static void close_to(double a, double b) {
    if (fabs(a - b) > 1e-9 * fabs(b)) fail_msg("%.17g, expected %.17g", a, b);
}

static void test_costs(void **state) {
    (void)state;
    plait_context *context = NULL;
    plait_cost cost;
    plait_work work;
    plait_op_use use;
    plait_graph *graph = decoder_make(1, 64, 8);
    assert_non_null(graph);
    assert_ok(plait_context_open(&context, "fake,fake:speed=3:latency=1000", NULL));
    assert_ok(plait_cost_init(&cost, context));
    int seen = 0;
    for (uint32_t n = 0; n < graph->n_nodes; n++) {
        const plait_graph_node *node = &graph->nodes[n];
        const plait_device_figures *f = &cost.devices[1];
        const int64_t one[] = {1}, none[] = {0};
        plait_cost_work(&cost, graph, n, NULL, &use, &work);
        assert_true(work.flop == plait_op_flop(&use));
        close_to(work.bytes + work.weight_bytes, plait_op_bytes(&use));
        double t = plait_cost_time(&cost, 1, &work);
        if (strcmp(node->name, "blk.0.ffn_gate") == 0) {
            double bytes = 64 * 128 / 32 * 18, columns = 8 * (64 + 128) * 4;
            assert_int_equal(work.kind, PLAIT_COST_PRODUCT);
            assert_true(work.quantised);
            assert_true(work.weight_bytes == bytes && work.bytes == columns);
            double moved = bytes / (double)f->weight_bytes_per_s + columns / (double)f->bytes_per_s;
            double counted = 2.0 * 64 * 128 * 8 / (double)f->integer_flop_per_s;
            close_to(t, (double)f->node_ns + 1e9 * (moved > counted ? moved : counted));
            plait_cost_work(&cost, graph, n, one, &use, &work);
            assert_true(work.weight_bytes == bytes && work.bytes == columns / 8);
            seen++;
        } else if (strcmp(node->name, "blk.0.attention") == 0) {
            assert_int_equal(work.kind, PLAIT_COST_ATTENTION);
            double counted = work.flop / (double)f->attention_flop_per_s;
            double moved = work.bytes / (double)f->bytes_per_s;
            close_to(t, (double)f->node_ns + 1e9 * (moved > counted ? moved : counted));
            seen++;
        } else if (strcmp(node->name, "blk.0.swiglu") == 0) {
            assert_int_equal(work.kind, PLAIT_COST_STREAM);
            close_to(t, (double)f->node_ns + 1e9 * (3.0 * 128 * 8 * 4) / (double)f->bytes_per_s);
            plait_cost_work(&cost, graph, n, none, &use, &work);
            close_to(plait_cost_time(&cost, 1, &work), (double)f->node_ns);
            seen++;
        } else if (strcmp(node->name, "embed") == 0) {
            assert_true(work.bytes < 64 * 128); /* a few rows, not the table */
            seen++;
        }
    }
    assert_int_equal(seen, 4);
    assert_true(plait_cost_transfer(&cost, 1, 1, 1, 1e6) == 0);
    close_to(plait_cost_transfer(&cost, 1, 0, 2, 1e6),
             2.0 * (double)cost.devices[1].peer_ns + 1e9 * 1e6 / (double)cost.devices[1].peer_bytes_per_s);
    plait_cost_deinit(&cost);
    plait_context_close(context);
    plait_graph_destroy(graph);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scale),
        cmocka_unit_test(test_complete),
        cmocka_unit_test_setup_teardown(test_cache, make_cache, remove_cache),
        cmocka_unit_test_setup_teardown(test_without_a_cache, make_cache, remove_cache),
        cmocka_unit_test_setup_teardown(test_description_decides, make_cache, remove_cache),
        cmocka_unit_test(test_disturbance),
        cmocka_unit_test_setup_teardown(test_bad_moments, make_cache, remove_cache),
        cmocka_unit_test(test_lacking),
        cmocka_unit_test_setup_teardown(test_context, make_cache, remove_cache),
        cmocka_unit_test(test_costs),
    };
    if (fake_register() != PLAIT_OK) return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
