/* The table of element types: names, sizes, lookups, row sizes and their limits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "plait/types.h"
#include "tensor/quant/quant.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

typedef struct listed {
    const char *name;
    int number, elems, bytes;
} listed;

static const listed list[] = {
#define LISTED(name, number, elems, bytes) {#name, number, elems, bytes},
    PLAIT_DTYPE_LIST(LISTED)
#undef LISTED
};
enum { N_LISTED = sizeof list / sizeof *list };

static void test_every_listed_type(void **state) {
    (void)state;
    for (int i = 0; i < N_LISTED; i++) {
        plait_dtype dtype = (plait_dtype)list[i].number, found;
        assert_true(plait_dtype_known(list[i].number));
        assert_string_equal(plait_dtype_name(dtype), list[i].name);
        assert_int_equal(plait_dtype_block_elems(dtype), list[i].elems);
        assert_int_equal(plait_dtype_block_bytes(dtype), list[i].bytes);
        assert_int_equal(plait_dtype_quantised(dtype), list[i].elems > 1);
        assert_int_equal(plait_dtype_row_bytes(dtype, 3 * list[i].elems), 3 * list[i].bytes);
        assert_int_equal(plait_dtype_row_bytes(dtype, 0), 0);
        if (list[i].elems > 1) assert_int_equal(plait_dtype_row_bytes(dtype, list[i].elems + 1), -1);
        assert_int_equal(plait_dtype_parse(list[i].name, &found), PLAIT_OK);
        assert_int_equal(found, dtype);
        char lower[32];
        size_t n = strlen(list[i].name);
        for (size_t k = 0; k <= n; k++) lower[k] = (char)tolower((unsigned char)list[i].name[k]);
        assert_int_equal(plait_dtype_parse(lower, &found), PLAIT_OK);
        assert_int_equal(found, dtype);
    }
    printf("checked %d types\n", N_LISTED);
}

static void test_every_type_has_a_format(void **state) {
    (void)state;
    for (int number = -3; number < PLAIT_DTYPE_LIMIT + 3; number++) {
        const plait_quant *quant = plait_quant_of((plait_dtype)number);
        assert_int_equal(quant != NULL, plait_dtype_known(number));
        if (!quant) continue;
        assert_int_equal(quant->dtype, number);
        assert_true(quant->decode && quant->encode);
    }
}

static void test_unknown_numbers(void **state) {
    (void)state;
    static const int unknown[] = {-1,   4,         5,        9, 15, 31, 32, 33, 36, 37, 38, PLAIT_DTYPE_LIMIT,
                                  1000, INT32_MAX, INT32_MIN};
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++) {
        assert_false(plait_dtype_known(unknown[i]));
        assert_string_equal(plait_dtype_name((plait_dtype)unknown[i]), "unknown");
        assert_int_equal(plait_dtype_block_elems((plait_dtype)unknown[i]), 0);
        assert_int_equal(plait_dtype_block_bytes((plait_dtype)unknown[i]), 0);
        assert_false(plait_dtype_quantised((plait_dtype)unknown[i]));
        assert_int_equal(plait_dtype_row_bytes((plait_dtype)unknown[i], 0), -1);
    }
}

static void test_unknown_names(void **state) {
    (void)state;
    static const char *const names[] = {"", "F", "F321", "Q4_K_M", "q4 k", "unknown"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        plait_dtype dtype = PLAIT_Q6_K;
        assert_int_equal(plait_dtype_parse(names[i], &dtype), PLAIT_NOT_FOUND);
        assert_int_equal(dtype, PLAIT_Q6_K);
        assert_non_null(strstr(plait_error_message(), "IQ2_XXS"));
        assert_non_null(strstr(plait_error_message(), "Q2_0"));
    }
}

static void test_row_bytes_limits(void **state) {
    (void)state;
    assert_int_equal(plait_dtype_row_bytes(PLAIT_F32, -1), -1);
    assert_int_equal(plait_dtype_row_bytes(PLAIT_F32, INT64_MAX), -1);
    assert_int_equal(plait_dtype_row_bytes(PLAIT_F32, INT64_MAX / 4), INT64_MAX / 4 * 4);
    assert_int_equal(plait_dtype_row_bytes(PLAIT_F64, INT64_MAX / 8 + 1), -1);
    assert_int_equal(plait_dtype_row_bytes(PLAIT_I8, INT64_MAX), INT64_MAX);
    assert_int_equal(plait_dtype_row_bytes(PLAIT_Q4_0, INT64_MIN), -1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_listed_type), cmocka_unit_test(test_every_type_has_a_format),
        cmocka_unit_test(test_unknown_numbers),   cmocka_unit_test(test_unknown_names),
        cmocka_unit_test(test_row_bytes_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
