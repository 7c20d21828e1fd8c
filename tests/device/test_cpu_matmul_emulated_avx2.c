/* The avx2 kernels compiled over emulated intrinsics: the portable bytes, on any x86-64 processor. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include "device/emulated.h"

#if EMULATED
#define plait_cpu_blocks_avx2         emulated_blocks
#define plait_cpu_floats_avx2         emulated_floats
#define plait_cpu_quantise_block_avx2 emulated_quantise_block
#include "device/cpu/matmul/blocks_avx2.c"
#include "device/cpu/matmul/floats_avx2.c"
#include "device/cpu/matmul/quantise_avx2.c"

static const plait_cpu_matmul *const tables[] = {emulated_blocks, emulated_floats};

static void the_bytes_are_the_portable_ones(void **state) {
    (void)state;
    char why[128];
    for (size_t t = 0; t < sizeof tables / sizeof tables[0]; t++) {
        int cases = check_table(tables[t], why, sizeof why);
        if (cases < 0) fail_msg("%s", why);
        print_message("%d products, %s\n", cases, tables[t]->isa);
    }
}

static void quantised_blocks_are_the_portable_ones(void **state) {
    (void)state;
    float x[32];
    plait_cpu_block a, b;
    for (int n = 0; n < 2000; n++) {
        for (int i = 0; i < 32; i++) x[i] = random_float() * (n % 3 ? 1.0f : 1e30f);
        if (n % 50 == 0) x[n % 32] = INFINITY;
        plait_cpu_quantise_block_portable(x, &a);
        emulated_quantise_block(x, &b);
        assert_memory_equal(&a, &b, sizeof a);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_bytes_are_the_portable_ones),
        cmocka_unit_test(quantised_blocks_are_the_portable_ones),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#else
int main(void) {
    printf("no emulated intrinsics here: libsimde-dev is not installed, or the processor is no x86-64\n");
    return 0;
}
#endif
