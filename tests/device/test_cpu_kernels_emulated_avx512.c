/* The avx512 row functions compiled over emulated intrinsics: the portable bytes, on any x86-64 processor. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include "device/emulated.h"

#if EMULATED
#include "device/emulated_kernels.h"

#define plait_cpu_simd_avx512 emulated_simd
#include "device/cpu/kernels/simd_avx512.c"
#undef plait_cpu_simd_avx512

static void the_bytes_are_the_portable_ones(void **state) {
    (void)state;
    compare_tables(plait_cpu_simd_for(0), &emulated_simd);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_bytes_are_the_portable_ones)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#else
int main(void) {
    printf("no emulated intrinsics here: libsimde-dev is not installed, or the processor is no x86-64\n");
    return 0;
}
#endif
