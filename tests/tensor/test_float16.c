/* fp16 and bf16 conversions: all 65536 patterns, and rounding against arithmetic in double. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tensor/float16.h"

#include <math.h>

/* The value of an fp16 pattern by its definition, without bit tricks. */
static double f16_by_definition(uint16_t h) {
    int exponent = h >> 10 & 31, fraction = h & 1023;
    double magnitude = exponent == 0 ? ldexp(fraction, -24) : ldexp(1024 + fraction, exponent - 25);
    return h & 0x8000 ? -magnitude : magnitude;
}

static void test_f16_all_patterns(void **state) {
    (void)state;
    for (uint32_t h = 0; h < 65536; h++) {
        float v = plait_f16_to_f32((uint16_t)h);
        assert_int_equal(plait_f16_from_f32(v), h);
        assert_int_equal(plait_f32_bits(v) >> 31, h >> 15);
        if ((h & 0x7C00) == 0x7C00)
            assert_true(h & 0x3FF ? isnan(v) : isinf(v));
        else
            assert_true((double)v == f16_by_definition((uint16_t)h));
    }
}

static void test_bf16_all_patterns(void **state) {
    (void)state;
    for (uint32_t h = 0; h < 65536; h++) {
        float v = plait_bf16_to_f32((uint16_t)h);
        assert_int_equal(plait_f32_bits(v), h << 16);
        assert_int_equal(plait_bf16_from_f32(v), h);
    }
}

/* Between each pair of finite neighbours: just below the middle, the middle (to even), just above. */
static void test_f16_rounding(void **state) {
    (void)state;
    for (uint32_t h = 0; h < 0x7C00; h++) {
        double low = f16_by_definition((uint16_t)h);
        double high =
            h == 0x7BFF ? 65536 : f16_by_definition((uint16_t)(h + 1)); /* 65536 stands for infinity */
        float middle = (float)((low + high) / 2);                       /* exact */
        assert_int_equal(plait_f16_from_f32(nextafterf(middle, 0)), h);
        assert_int_equal(plait_f16_from_f32(middle), h & 1 ? h + 1 : h);
        assert_int_equal(plait_f16_from_f32(nextafterf(middle, INFINITY)), h + 1);
        assert_int_equal(plait_f16_from_f32(-middle), (h & 1 ? h + 1 : h) | 0x8000);
    }
}

static void test_bf16_rounding(void **state) {
    (void)state;
    for (uint32_t h = 0; h < 0x7F80; h++) {
        uint32_t low = h << 16;
        assert_int_equal(plait_bf16_from_f32(plait_f32_from_bits(low | 0x7FFF)), h);
        assert_int_equal(plait_bf16_from_f32(plait_f32_from_bits(low | 0x8000)), h & 1 ? h + 1 : h);
        assert_int_equal(plait_bf16_from_f32(plait_f32_from_bits(low | 0x8001)), h + 1);
        assert_int_equal(plait_bf16_from_f32(plait_f32_from_bits(low | 0x80008001)), (h + 1) | 0x8000);
    }
}

static void test_special_values(void **state) {
    (void)state;
    assert_int_equal(plait_f16_from_f32(INFINITY), 0x7C00);
    assert_int_equal(plait_f16_from_f32(-INFINITY), 0xFC00);
    assert_int_equal(plait_f16_from_f32(65519.996f), 0x7BFF);
    assert_int_equal(plait_f16_from_f32(65520), 0x7C00);
    assert_int_equal(plait_f16_from_f32(3.4e38f), 0x7C00);
    assert_int_equal(plait_f16_from_f32(-0.0f), 0x8000);
    assert_int_equal(plait_f16_from_f32(0x1p-25f), 0);
    assert_int_equal(plait_f16_from_f32(0x1.000002p-25f), 1);
    assert_int_equal(plait_f16_from_f32(plait_f32_from_bits(1)), 0);
    assert_int_equal(plait_bf16_from_f32(3.4028235e38f), 0x7F80);
    /* NaNs whose upper payload is zero must not turn into infinity. */
    assert_int_equal(plait_f16_from_f32(plait_f32_from_bits(0x7F800001)), 0x7E00);
    assert_int_equal(plait_bf16_from_f32(plait_f32_from_bits(0xFF800001)), 0xFFC0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_f16_all_patterns), cmocka_unit_test(test_bf16_all_patterns),
        cmocka_unit_test(test_f16_rounding),     cmocka_unit_test(test_bf16_rounding),
        cmocka_unit_test(test_special_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
