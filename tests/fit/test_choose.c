/* The chosen setting against all others: every setting that is open, with every split of the layers, is planned, and the best
 * of them is hardly better. Metadata alone: nothing is loaded, no device is touched. */
/* labels: slow */
#include "fit/fit.h"
#include "fit/models.h"

#include "base/os.h"

#include <time.h>

static const fit_shape *shape_of(const char *name) {
    return fit_shape_named(name);
}

/* Devices that nobody has to have: a simulated one plans as it would compute. */
#define CARD(mem, flops, rate, link)                                                                         \
    "sim:inner=null:mem=" mem ":flops=" flops ":memory-bandwidth=" rate ":bandwidth=" link                   \
    ":latency=10us:overhead=10us"
#define HOST CARD("256GiB", "1.5T", "60GB", "25GB")

typedef struct machine {
    const char *name, *devices;
    int n_devices;
} machine;

static const machine machines[] = {
    {"a small card", CARD("6GiB", "12T", "250GB", "12GB"), 1},
    {"a large card", CARD("24GiB", "80T", "900GB", "25GB"), 1},
    {"two unequal cards", CARD("24GiB", "80T", "900GB", "25GB") "," CARD("12GiB", "25T", "350GB", "12GB"), 2},
    {"a tiny card and a host", CARD("3GiB", "12T", "250GB", "12GB") "," HOST, 2},
    {"a card and a host", CARD("24GiB", "80T", "900GB", "25GB") "," HOST, 2},
    {"two cards and a host",
     CARD("24GiB", "80T", "900GB", "25GB") "," CARD("12GiB", "25T", "350GB", "12GB") "," HOST, 3},
    {"three", CARD("8GiB", "20T", "300GB", "12GB") "," CARD("24GiB", "80T", "900GB", "25GB") "," HOST, 3},
};

typedef struct opened {
    plait_context *context;
    plait_model *model;
} opened;

static plait_status open_dry(opened *o, const char *devices, const char *path, plait_model_options options) {
    options.dry = true;
    fit_must(plait_context_open(&o->context, devices, NULL));
    plait_status status = plait_model_open(&o->model, o->context, path, &options);
    if (status != PLAIT_OK) plait_context_close(o->context);
    return status;
}

static void close_dry(opened *o) {
    plait_model_release(o->model);
    plait_context_close(o->context);
}

/* ---- brute force ---- */

typedef struct brute {
    plait_model *model;
    const plait_fit_experts *experts;
    double best;
    plait_fit_setting setting;
    char split[64];
    int n;
} brute;

static void try_one(brute *b, const plait_fit_setting *setting, const double *ratio, const char *split) {
    plait_engine engine = {0};
    double ns;
    bool fits;
    plait_model_options kept = b->model->options;
    b->model->options.split = ratio ? PLAIT_SPLIT_LAYER : PLAIT_SPLIT_AUTO;
    b->model->options.ratio = ratio;
    fit_must(plait_fit_try(b->model, b->experts, setting, &engine, &ns, &fits));
    b->model->options = kept;
    b->n++;
    if (!fits) return;
    double score = plait_fit_score(setting, ns);
    if (score < b->best) {
        b->best = score;
        b->setting = *setting;
        snprintf(b->split, sizeof b->split, "%s", split);
    }
    plait_engine_destroy(&engine);
}

/* Every number of layers whose experts lie apart, by steps. */
static void try_experts(brute *b, const plait_fit_setting *setting, int step) {
    char text[64];
    for (int64_t n = 1; n <= b->experts->n_layers; n += step) {
        plait_fit_setting apart = *setting;
        apart.far_layers = n;
        snprintf(text, sizeof text, "experts of %d apart", (int)n);
        try_one(b, &apart, NULL, text);
    }
    if (step == 1 || b->experts->n_layers == 0) return;
    plait_fit_setting all = *setting;
    all.far_layers = b->experts->n_layers;
    try_one(b, &all, NULL, "all experts apart");
}

/* Every way to cut n layers into ranges for the devices, by steps of `step` layers. */
static void try_splits(brute *b, const plait_fit_setting *setting, int n_devices, int n_layers, int step) {
    char text[64];
    for (int i = 0; n_devices > 1 && i <= n_layers; i += step)
        for (int k = i; k <= n_layers; k += step) {
            double ratio[3] = {i, n_devices > 2 ? k - i : n_layers - i, n_layers - k};
            snprintf(text, sizeof text, "%g,%g,%g", ratio[0], ratio[1], ratio[2]);
            try_one(b, setting, ratio, text);
            if (n_devices == 2) break;
        }
}

static void choose_against_brute_force(const fit_shape *m, const machine *where, int step, bool every_setting,
                                       plait_model_options options) {
    char path[256];
    opened o;
    fit_model(m, path);
    uint64_t begin = plait_time_ns();
    plait_status status = open_dry(&o, where->devices, path, options);
    double ms = (double)(plait_time_ns() - begin) * 1e-6;
    if (status != PLAIT_OK) { /* then nothing else may fit either */
        assert_int_equal(status, PLAIT_OUT_OF_MEMORY);
        options.dry = true;
        fit_must(plait_context_open(&o.context, where->devices, NULL));
        fit_must(plait_model_create(&o.model, o.context, path, &options));
    }
    double ns = 0, score = INFINITY;
    static plait_fit_setting settings[PLAIT_FIT_MAX_SETTINGS];
    plait_model_options chosen = o.model->options;
    o.model->options.batch = options.batch;
    if (!options.kv_given) o.model->options.k_type = o.model->options.v_type = PLAIT_F16;
    o.model->options.pins = options.pins;
    o.model->options.n_pins = options.n_pins;
    plait_fit_experts experts;
    fit_must(plait_fit_experts_init(&experts, o.model));
    int n = plait_fit_list(o.model, settings);
    for (int i = 0; status == PLAIT_OK && i < n; i++)
        if (settings[i].context == o.model->engine.context && settings[i].batch == chosen.batch &&
            settings[i].k_type == chosen.k_type) {
            o.model->options.batch = chosen.batch;
            fit_must(plait_engine_time(&o.model->engine, &ns));
            score = plait_fit_score(&settings[i], ns);
        }
    assert_true(status != PLAIT_OK || score < INFINITY);
    brute b = {.model = o.model, .experts = &experts, .best = INFINITY};
    for (int i = 0; i < n; i++) {
        try_one(&b, &settings[i], NULL, "by cost");
        if (!every_setting && settings[i].batch != settings[0].batch) continue;
        try_experts(&b, &settings[i], step);
        if (!experts.n_layers) try_splits(&b, &settings[i], where->n_devices, (int)m->n_layers, step);
    }
    print_message("%-5s on %-22s: %6.1f ms, %s; of %d plans the best is %.2f%% better (%lld/%lld/%s, %s)\n",
                  m->name, where->name, ms, status == PLAIT_OK ? plait_model_flags(o.model) : "nothing fits",
                  b.n, status == PLAIT_OK && b.best < INFINITY ? 100 * (score / b.best - 1) : 0,
                  (long long)b.setting.context, (long long)b.setting.batch,
                  b.best < INFINITY ? plait_dtype_name(b.setting.k_type) : "-", b.split);
    if (status == PLAIT_OK)
        assert_true(score <= 1.02 * b.best);
    else
        assert_true(b.best == INFINITY);
    o.model->options = chosen;
    close_dry(&o);
    remove(path);
}

static void test_everything_open(void **state) {
    (void)state;
    static const char *const models[] = {"135M", "1B", "8B"};
    for (size_t m = 0; m < sizeof models / sizeof *models; m++)
        for (size_t i = 0; i < sizeof machines / sizeof *machines; i++)
            choose_against_brute_force(shape_of(models[m]), &machines[i], machines[i].n_devices > 2 ? 8 : 4,
                                       false, (plait_model_options){.kv_open = true});
}

static void test_every_layer(void **state) {
    (void)state;
    for (size_t i = 2; i < 5; i++)
        choose_against_brute_force(shape_of("8B"), &machines[i], 1, true,
                                   (plait_model_options){.context = 32768, .batch = 512});
}

static void test_large_models(void **state) {
    (void)state;
    for (size_t i = 2; i < sizeof machines / sizeof *machines; i++)
        choose_against_brute_force(shape_of("70B"), &machines[i], 20, false,
                                   (plait_model_options){.kv_open = true});
    choose_against_brute_force(shape_of("405B"), &machines[6], 42, false,
                               (plait_model_options){.context = 8192});
}

/* Mixtures: with everything open, some numbers of layers whose experts lie apart; with the context given, all of them. */
static void test_mixtures(void **state) {
    (void)state;
    static const char *const models[] = {"8x7B", "30B-A3B", "235B-A22B", "400B-A17B"};
    for (size_t m = 0; m < sizeof models / sizeof *models; m++)
        for (size_t i = 2; i < sizeof machines / sizeof *machines; i++) {
            choose_against_brute_force(shape_of(models[m]), &machines[i], 1, true,
                                       (plait_model_options){.context = 8192, .batch = 512});
            choose_against_brute_force(shape_of(models[m]), &machines[i], m < 2 ? 3 : 12, false,
                                       (plait_model_options){.kv_open = true});
        }
}

/* The choice for the largest models that people have at home; time of the processor, whoever else may be busy. */
static void check_time(const char *name) {
    char path[256];
    fit_model(shape_of(name), path);
    for (size_t i = 2; i < sizeof machines / sizeof *machines; i++) {
        double least = INFINITY;
        for (int k = 0; k < 3; k++) {
            opened o;
            clock_t begin = clock();
            plait_status status =
                open_dry(&o, machines[i].devices, path, (plait_model_options){.kv_open = true});
            double ms = 1e3 * (double)(clock() - begin) / CLOCKS_PER_SEC;
            if (ms < least) least = ms;
            if (status == PLAIT_OK) close_dry(&o);
        }
        print_message("%s on %s: chosen in %.0f ms\n", name, machines[i].name, least);
        assert_true(least < 1000);
    }
    remove(path);
}

static void test_time(void **state) {
    (void)state;
    check_time("70B");
    check_time("235B-A22B");
    check_time("400B-A17B");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_time), cmocka_unit_test(test_mixtures), cmocka_unit_test(test_every_layer),
        cmocka_unit_test(test_everything_open), cmocka_unit_test(test_large_models)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
