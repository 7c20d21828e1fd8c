/* The avx512 kernels compiled over emulated intrinsics: the portable bytes, on any x86-64 processor. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include "device/emulated.h"

#if EMULATED
#define plait_cpu_blocks_avx512vnni emulated_blocks
#define plait_cpu_floats_avx512     emulated_floats
#include "device/cpu/matmul/blocks_avx512vnni.c"
#include "device/cpu/matmul/floats_avx512.c"

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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_bytes_are_the_portable_ones),

    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#else
int main(void) {
    printf("no emulated intrinsics here: libsimde-dev is not installed, or the processor is no x86-64\n");
    return 0;
}
#endif
