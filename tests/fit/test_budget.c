/* What was counted is what is taken: models that were planned for simulated devices of little memory are loaded and run there,
 * at every size, with padding and coarse allocations; not a byte is asked for that is not there. What nothing fits into is
 * refused with the numbers. */
#include "fit/fit.h"
#include "fit/models.h"
#include "plait/machine.h"
#include "plait/session.h"

#define MIB (1ull << 20)

static void model_path(char path[256]) {
    fit_model(fit_shape_named("tiny"), path);
}

/* Opens, loads, makes a session and feeds a full step and a single one. */
static plait_status live(const char *devices, const char *path, const plait_model_options *options,
                         uint64_t *out_used, int64_t *out_context, bool *out_apart) {
    plait_context *context;
    plait_model *model = NULL;
    plait_session *session = NULL;
    plait_model_facts facts;
    plait_seq seq;
    plait_token ids[64], best;
    fit_must(plait_context_open(&context, devices, NULL));
    plait_status status = plait_model_open(&model, context, path, options);
    if (status == PLAIT_OK) {
        /* From here on it must work. */
        plait_model_describe(model, &facts);
        int64_t n = facts.batch < 64 ? facts.batch : 64;
        for (int i = 0; i < 64; i++) ids[i] = i;
        fit_must(plait_session_create(&session, model));
        fit_must(plait_session_begin(session, &seq));
        fit_must(plait_session_feed(session, seq, ids, n));
        for (int i = 0; i < 2; i++) fit_must(plait_session_next(session, seq, NULL, &best));
        for (int d = 0; d < plait_context_device_count(context); d++) {
            uint64_t total, available;
            plait_device *device = plait_context_device(context, d);
            fit_must(device->vtable->memory_query(device, &total, &available));
            out_used[d] = total - available;
        }
        *out_context = facts.context;
        *out_apart = strstr(plait_model_flags(model), "_exps") != NULL;
    }
    plait_session_destroy(session);
    plait_model_release(model);
    plait_context_close(context);
    return status;
}

static const char *const kinds[] = {"", ":pad=1000", ":granularity=64KiB", ":max-buffer=900KiB",
                                    ":pad=256:granularity=4KiB:max-buffer=1MiB"};

/* One device: the least memory that is accepted is used up but for less than a grain, and everything above works. */
static void test_one_device(void **state) {
    (void)state;
    static const uint64_t margin[] = {0};
    char path[256], devices[256];
    model_path(path);
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        plait_model_options options = {.context = 512, .batch = 64, .margin_bytes = margin};
        uint64_t low = 0, high = 8 * MIB, used = 0;
        int64_t context;
        bool apart;
        while (high - low > 1) {
            uint64_t middle = low + (high - low) / 2;
            snprintf(devices, sizeof devices, "sim:poison=no:mem=%llu%s", (unsigned long long)middle,
                     kinds[k]);
            plait_status status = live(devices, path, &options, &used, &context, &apart);
            if (status != PLAIT_OK) assert_int_equal(status, PLAIT_OUT_OF_MEMORY);
            *(status == PLAIT_OK ? &high : &low) = middle;
        }
        snprintf(devices, sizeof devices, "sim:poison=no:mem=%llu%s", (unsigned long long)high, kinds[k]);
        fit_must(live(devices, path, &options, &used, &context, &apart));
        print_message("sim%s: accepted from %llu bytes, of which %llu are used\n", kinds[k],
                      (unsigned long long)high, (unsigned long long)used);
        assert_int_equal(used, high); /* counted to the byte */
    }
    remove(path);
}

/* Several devices of unlike memory, everything open. */
static void several_devices(const char *name) {
    static const uint64_t margins[] = {0, 0, 0};
    static const int memory[][3] = {{300, 900, 2200}, {900, 300, 2200}, {1500, 1500, 300}, {400, 400, 700},
                                    {700, 60, 1100},  {2500, 40, 40},   {100, 100, 3000}};
    char path[256], devices[512];
    int n_open = 0, n_short = 0, n_apart = 0;
    fit_model(fit_shape_named(name), path);
    for (size_t m = 0; m < sizeof memory / sizeof *memory; m++)
        for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
            for (int n = 2; n <= 3; n++) {
                plait_model_options options = {.margin_bytes = margins, .kv_open = k % 2 == 0};
                uint64_t used[3];
                int64_t context = 0;
                bool apart = false;
                size_t at = 0;
                for (int d = 0; d < n; d++)
                    at += (size_t)snprintf(devices + at, sizeof devices - at,
                                           "%ssim:poison=no:mem=%dKiB:flops=%dG:memory-bandwidth=%dGB%s",
                                           d ? "," : "", 2 * memory[m][d], 50 * (d + 1), 10 * (d + 1),
                                           kinds[k]);
                plait_status status = live(devices, path, &options, used, &context, &apart);
                if (status != PLAIT_OK) {
                    if (status != PLAIT_OUT_OF_MEMORY) fail_msg("%s: %s", devices, plait_error_message());
                    assert_non_null(strstr(plait_error_message(), "nothing fits"));
                    continue;
                }
                n_open++;
                n_short += context < 4096;
                n_apart += apart;
            }
    print_message("%d of %zu sets of devices took %s, %d with less context, %d with experts apart\n", n_open,
                  2 * (sizeof memory / sizeof *memory) * (sizeof kinds / sizeof *kinds), name, n_short,
                  n_apart);
    assert_true(n_open > 20 && n_short > 5);
    assert_true((n_apart > 5) == (fit_shape_named(name)->n_experts > 0));
    remove(path);
}

static void test_several_devices(void **state) {
    (void)state;
    several_devices("tiny");
}

static void test_experts_apart(void **state) {
    (void)state;
    several_devices("tiny-moe");
}

/* ---- what is said ---- */

static plait_status open_machine(const char *text, const char *path, plait_model_options options,
                                 plait_model **out, plait_context **out_context) {
    options.dry = true;
    fit_must(plait_machine_open(out_context, text, strlen(text), NULL));
    plait_status status = plait_model_open(out, *out_context, path, &options);
    if (status != PLAIT_OK) plait_context_close(*out_context);
    return status;
}

#define SPEED " flops=20T memory-bandwidth=300GB bandwidth=12GB\n"

static void expect_refused(const char *text, const char *path, plait_model_options options,
                           const char *const *words) {
    plait_model *model;
    plait_context *context;
    plait_status status = open_machine(text, path, options, &model, &context);
    assert_int_equal(status, PLAIT_OUT_OF_MEMORY);
    for (; *words; words++)
        if (!strstr(plait_error_message(), *words))
            fail_msg("\"%s\" is not in: %s", *words, plait_error_message());
}

static void test_nothing_fits(void **state) {
    (void)state;
    char path[256];
    fit_model(fit_shape_named("8B"), path);
    static const char *const two[] = {"nothing fits, not even --ctx 512 --batch 64 --kv f16",
                                      "small: ",
                                      "large: ",
                                      "of it would take 4.",
                                      "992.0 MiB beside a margin of 32.0 MiB",
                                      "1.94 GiB beside a margin of 64.0 MiB",
                                      NULL};
    expect_refused("small memory=1GiB" SPEED "large memory=2GiB" SPEED, path, (plait_model_options){0}, two);
    static const char *const one[] = {"card: weights 4.21 GiB, state ", "temporaries ",
                                      " of 992.0 MiB beside a margin of 32.0 MiB", NULL};
    expect_refused("card memory=1GiB" SPEED, path, (plait_model_options){0}, one);
    /* A length that no memory holds is a status like any other. */
    static const char *const absurd[] = {"does not fit", "card: ", NULL};
    expect_refused("card memory=24GiB" SPEED, path, (plait_model_options){.context = 75000000}, absurd);
    static const uint64_t margins[] = {6ull << 30, 0};
    static const char *const apart[] = {"2.00 GiB beside a margin of 6.00 GiB", "1.00 GiB", NULL};
    expect_refused("a memory=8GiB" SPEED "b memory=1GiB" SPEED, path,
                   (plait_model_options){.margin_bytes = margins}, apart);
    remove(path);
}

/* What the user said stays; what was left open is chosen around it. */
static void test_what_is_given_stays(void **state) {
    (void)state;
    static const plait_pin pins[] = {{"blk.31", 1}, {"cache.0.*", 1}};
    static const double ratio[] = {1, 3};
    static const char *text =
        "card memory=3GiB" SPEED "host memory=64GiB flops=1T memory-bandwidth=50GB bandwidth=12GB\n";
    const plait_model_options given[] = {
        {.pins = pins, .n_pins = 2},
        {.batch = 256},
        {.context = 16384},
        {.kv_given = true, .k_type = PLAIT_Q8_0, .v_type = PLAIT_F16},
        {.split = PLAIT_SPLIT_LAYER, .ratio = ratio},
        {.split = PLAIT_SPLIT_NONE},
    };
    static const char *const flags[] = {" --pin blk.31=host --pin 'cache.0.*=host'",
                                        " --batch 256 ",
                                        "--ctx 16384 ",
                                        " --kv q8_0,f16",
                                        " --ratio 1,3",
                                        " --split none"};
    char path[256];
    fit_model(fit_shape_named("8B"), path);
    for (size_t i = 0; i < sizeof given / sizeof *given; i++) {
        plait_model *model;
        plait_context *context;
        fit_must(open_machine(text, path, given[i], &model, &context));
        if (!strstr(plait_model_flags(model), flags[i]))
            fail_msg("%s: %s", flags[i], plait_model_flags(model));
        plait_model_release(model);
        plait_context_close(context);
    }
    remove(path);
}

/* The flags name a setting that leads to the same plans. */
static void lead_back(const char *name, int *n_apart) {
    static const char *const machines[] = {
        "card memory=3GiB" SPEED "host memory=64GiB flops=1T memory-bandwidth=50GB bandwidth=12GB\n",
        "a memory=9GiB" SPEED "b memory=6GiB" SPEED "c memory=2GiB" SPEED,
        "a memory=2GiB" SPEED "b memory=2GiB" SPEED
        "c memory=64GiB flops=1T memory-bandwidth=50GB bandwidth=12GB\n",
        ("card memory=8GiB" SPEED),
    };
    char path[256];
    fit_model(fit_shape_named(name), path);
    for (size_t i = 0; i < 3 || (i < 4 && !fit_shape_named(name)->n_experts); i++) { /* the last is small */
        plait_model *first, *again;
        plait_context *context, *other;
        long long context_len, batch;
        char type[16] = "";
        double ratio[3];
        fit_must(open_machine(machines[i], path, (plait_model_options){.kv_open = true}, &first, &context));
        const char *flags = plait_model_flags(first), *shares = strstr(flags, "--ratio ");
        const char *apart = strstr(flags, "--pin ");
        print_message("%s\n", flags);
        assert_int_equal(sscanf(flags, "--ctx %lld --batch %lld --kv %15s", &context_len, &batch, type), 3);
        plait_model_options options = {.context = context_len, .batch = batch, .kv_given = true};
        fit_must(plait_dtype_parse(type, &options.k_type));
        options.v_type = options.k_type;
        if (shares) {
            int n = sscanf(shares, "--ratio %lf,%lf,%lf", &ratio[0], &ratio[1], &ratio[2]);
            assert_int_equal(n, plait_context_device_count(context));
            options.split = PLAIT_SPLIT_LAYER;
            options.ratio = ratio;
        }
        plait_pin pin;
        char pattern[64], device[64];
        if (apart) {
            assert_int_equal(sscanf(apart, "--pin '%63[^=]=%63[^']", pattern, device), 2);
            pin = (plait_pin){pattern, 0};
            while (strcmp(plait_context_device(context, pin.device)->name, device)) pin.device++;
            options.pins = &pin;
            options.n_pins = 1;
            ++*n_apart;
        }
        if (!shares && strstr(flags, "--split layer")) options.split = PLAIT_SPLIT_LAYER;
        assert_true(shares || options.split || plait_context_device_count(context) == 1);
        fit_must(open_machine(machines[i], path, options, &again, &other));
        assert_true(plait_engine_same(&first->engine, &again->engine));
        assert_string_equal(flags, plait_model_flags(again));
        plait_model_release(first);
        plait_model_release(again);
        plait_context_close(context);
        plait_context_close(other);
    }
    remove(path);
}

static void test_flags_lead_back(void **state) {
    (void)state;
    int n_apart = 0;
    lead_back("8B", &n_apart);
    assert_int_equal(n_apart, 0);
    lead_back("30B-A3B", &n_apart);
    assert_true(n_apart >= 2);
}

/* Whoever says where experts lie, by a pin, by shares or by whole layers, has said it. */
static void test_experts_that_are_given_stay(void **state) {
    (void)state;
    static const plait_pin pins[] = {{"blk.{3-5}.ffn_up_exps.weight", 1}},
                           other[] = {{"blk.*.attn_q.weight", 1}};
    static const double ratio[] = {1, 3};
    const plait_model_options given[] = {{.pins = pins, .n_pins = 1},
                                         {.split = PLAIT_SPLIT_LAYER},
                                         {.split = PLAIT_SPLIT_LAYER, .ratio = ratio},
                                         {.fit_off = true, .context = 4096, .batch = 64},
                                         {.pins = other, .n_pins = 1},
                                         {.context = 4096}};
    static const char *text =
        "card memory=6GiB" SPEED "host memory=64GiB flops=1T memory-bandwidth=50GB bandwidth=12GB\n";
    char path[256];
    fit_model(fit_shape_named("30B-A3B"), path);
    for (size_t i = 0; i < sizeof given / sizeof *given; i++) {
        plait_model *model;
        plait_context *context;
        fit_must(open_machine(text, path, given[i], &model, &context));
        const char *flags = plait_model_flags(model);
        bool apart = strstr(flags, ".ffn_*_exps*=host") != NULL, open = i >= 4;
        if (apart != open) fail_msg("case %zu: %s", i, flags);
        if (i == 4) assert_non_null(strstr(flags, "--pin 'blk.*.attn_q.weight=host' --pin 'blk.{0-"));
        plait_model_release(model);
        plait_context_close(context);
    }
    remove(path);
}

/* Devices in the memory of the host: each has room for the model, both together have it only once. */
static void test_shared_memory_counts_once(void **state) {
    (void)state;
    static const double halves[] = {1, 1};
    char path[256];
    plait_context *context;
    plait_model *model;
    model_path(path);
    for (int enough = 0; enough < 2; enough++) {
        uint64_t margins[2], total, available;
        fit_must(plait_context_open(&context, "cpu:threads=1,cpu:threads=1", NULL));
        plait_device *device = plait_context_device(context, 0);
        fit_must(device->vtable->memory_query(device, &total, &available));
        margins[0] = margins[1] = available - (enough ? 64 : 1) * MIB; /* 0.7 MiB each, and 1.1 in all */
        plait_model_options options = {.context = 1024,
                                       .batch = 64,
                                       .dry = true,
                                       .split = PLAIT_SPLIT_LAYER,
                                       .ratio = halves,
                                       .margin_bytes = margins};
        plait_status status = plait_model_open(&model, context, path, &options);
        if (enough) fit_must(status);
        if (!enough) assert_int_equal(status, PLAIT_OUT_OF_MEMORY);
        if (status == PLAIT_OK) plait_model_release(model);
        plait_context_close(context);
    }
    remove(path);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_device),      cmocka_unit_test(test_several_devices),
        cmocka_unit_test(test_nothing_fits),    cmocka_unit_test(test_what_is_given_stays),
        cmocka_unit_test(test_experts_apart),   cmocka_unit_test(test_experts_that_are_given_stay),
        cmocka_unit_test(test_flags_lead_back), cmocka_unit_test(test_shared_memory_counts_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
