/* Every case of golden/samplers through the chain, with every variant of the kernels. */
#include "support/paths.h"
#include "text/sampler/chain.h"

#include <math.h>
#include <setjmp.h>
#include <string.h>

#include <jansson.h>
#include <cmocka.h>

#define MAX_SHOWN 128

static double number(const json_t *object, const char *key) {
    json_t *value = json_object_get(object, key);
    assert_true(json_is_number(value));
    return json_number_value(value);
}

static void add_penalties(plait_sampler *s, const json_t *step) {
    assert_int_equal(plait_sampler_add_penalties(s, (int32_t)number(step, "last_n"),
                                                 (float)number(step, "repeat"), (float)number(step, "freq"),
                                                 (float)number(step, "present")),
                     PLAIT_OK);
}

static plait_status add_step(plait_sampler *s, const json_t *step, const char *name) {
    if (!strcmp(name, "temp")) return plait_sampler_add_temp(s, (float)number(step, "t"));
    if (!strcmp(name, "temp_ext"))
        return plait_sampler_add_temp_dynamic(s, (float)number(step, "t"), (float)number(step, "delta"),
                                              (float)number(step, "exponent"));
    if (!strcmp(name, "top_k")) return plait_sampler_add_top_k(s, (int32_t)number(step, "k"));
    if (!strcmp(name, "top_n_sigma")) return plait_sampler_add_top_n_sigma(s, (float)number(step, "n"));
    if (!strcmp(name, "mirostat_v2"))
        return plait_sampler_add_mirostat_v2(s, (float)number(step, "tau"), (float)number(step, "eta"));
    if (!strcmp(name, "mirostat_v1"))
        return plait_sampler_add_mirostat_v1(s, (float)number(step, "tau"), (float)number(step, "eta"),
                                             (int32_t)number(step, "m"));
    if (!strcmp(name, "penalties")) return add_penalties(s, step), PLAIT_OK;
    int32_t min_keep = (int32_t)number(step, "min_keep");
    if (!strcmp(name, "xtc"))
        return plait_sampler_add_xtc(s, (float)number(step, "probability"), (float)number(step, "threshold"),
                                     min_keep);
    float p = (float)number(step, "p");
    if (!strcmp(name, "top_p")) return plait_sampler_add_top_p(s, p, min_keep);
    if (!strcmp(name, "min_p")) return plait_sampler_add_min_p(s, p, min_keep);
    if (!strcmp(name, "typical")) return plait_sampler_add_typical(s, p, min_keep);
    fail_msg("the golden data name a sampler that this test does not know: %s", name);
    return PLAIT_INTERNAL;
}

static plait_sampler *make_chain(const json_t *steps) {
    plait_sampler *s = NULL;
    assert_int_equal(plait_sampler_create(&s, 1), PLAIT_OK);
    size_t i;
    json_t *step;
    json_array_foreach(steps, i, step)
        assert_int_equal(add_step(s, step, json_string_value(json_object_get(step, "sampler"))), PLAIT_OK);
    json_array_foreach(steps, i, step) {
        size_t j;
        json_t *token;
        json_array_foreach(json_object_get(step, "history"), j, token)
            assert_int_equal(plait_sampler_accept(s, (plait_token)json_integer_value(token)), PLAIT_OK);
    }
    return s;
}

static float *read_vector(const json_t *values, size_t *out_n) {
    size_t i;
    json_t *value;
    float *logits = calloc(json_array_size(values) + 1, sizeof *logits);
    assert_non_null(logits);
    json_array_foreach(values, i, value) logits[i] =
        json_is_null(value) ? -INFINITY : (float)json_number_value(value);
    *out_n = json_array_size(values);
    return logits;
}

static bool listed(const json_t *ids, plait_token id) {
    size_t i;
    json_t *expected;
    json_array_foreach(ids, i, expected) if (json_integer_value(expected) == id) return true;
    return false;
}

/* Order must agree save where neighbours have equal probability. */
static void check_case(const json_t *c, const plait_token *ids, const float *probs, size_t kept) {
    const char *id = json_string_value(json_object_get(c, "id"));
    const json_t *want_ids = json_object_get(c, "ids"), *want_probs = json_object_get(c, "probs");
    double tol = number(c, "tol");
    if (kept != (size_t)number(c, "kept")) fail_msg("%s: %zu kept, expected %g", id, kept, number(c, "kept"));
    size_t n = json_array_size(want_ids);
    assert_int_equal(n, kept < MAX_SHOWN ? kept : MAX_SHOWN);
    for (size_t i = 0; i < n; i++) {
        double want = json_number_value(json_array_get(want_probs, i));
        if (!(fabs((double)probs[i] - want) <= tol))
            fail_msg("%s: place %zu has %g, expected %g", id, i, probs[i], want);
        if (json_integer_value(json_array_get(want_ids, i)) == ids[i]) continue;
        bool tie = (i > 0 && fabs((double)(probs[i - 1] - probs[i])) <= 1e-7) ||
                   (i + 1 < n && fabs((double)(probs[i + 1] - probs[i])) <= 1e-7);
        if (!tie || !listed(want_ids, ids[i])) fail_msg("%s: place %zu is token %d", id, i, ids[i]);
    }
}

static void test_all_cases(void **state) {
    (void)state;
    char path[PLAIT_TEST_PATH_BYTES];
    json_error_t error;
    json_t *root = json_load_file(plait_test_golden("samplers/samplers.json", path), 0, &error), *c;
    if (!root) fail_msg("%s: %s", path, error.text);
    size_t i, checked = 0, variants = 0;
    json_array_foreach(json_object_get(root, "cases"), i, c) {
        size_t n;
        float *logits = read_vector(json_object_get(json_object_get(root, "vectors"),
                                                    json_string_value(json_object_get(c, "vector"))),
                                    &n);
        assert_true(n > 0);
        for (variants = 0; plait_sampler_kernels_at(variants); variants++) {
            plait_sampler *s = make_chain(json_object_get(c, "steps"));
            plait_sampler_use_kernels(s, plait_sampler_kernels_at(variants));
            plait_token ids[MAX_SHOWN];
            float probs[MAX_SHOWN];
            size_t kept = 0;
            if (plait_sampler_distribution(s, logits, (int64_t)n, ids, probs, MAX_SHOWN, &kept) != PLAIT_OK)
                fail_msg("%s: %s", json_string_value(json_object_get(c, "id")), plait_error_message());
            check_case(c, ids, probs, kept);
            plait_sampler_destroy(s);
        }
        free(logits);
        checked++;
    }
    assert_true(checked >= 1000);
    printf("golden/samplers: %zu cases checked, each with %zu kernel variants, of %s\n", checked, variants,
           path);
    json_decref(root);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_all_cases)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
