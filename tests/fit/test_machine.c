/* Machines described in a file: what they become, and what is said of lines that describe none. */
#include "plait/cost.h"
#include "plait/machine.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

static plait_status open_text(plait_context **out, const char *text) {
    return plait_machine_open(out, text, strlen(text), NULL);
}

static void test_what_is_described_is_there(void **state) {
    (void)state;
    static const char text[] =
        "# a machine\r\n\n"
        "big\tmemory=24GiB flops=80T memory-bandwidth=900GB bandwidth=25GB latency=10us#fast\r\n"
        "   small-2 lack=attention+rope memory=1.5GiB memory-bandwidth=100GB flops=500G";
    plait_context *context;
    plait_device_figures figures;
    plait_device_info info;
    uint64_t total, available;
    assert_int_equal(open_text(&context, text), PLAIT_OK);
    assert_int_equal(plait_context_device_count(context), 2);
    plait_device *big = plait_context_device(context, 0), *small = plait_context_device(context, 1);
    assert_string_equal(big->name, "big");
    assert_string_equal(small->name, "small-2");
    assert_int_equal(big->vtable->memory_query(big, &total, &available), PLAIT_OK);
    assert_int_equal(total, (uint64_t)24 << 30);
    assert_int_equal(available, total);
    assert_int_equal(small->vtable->describe(small, &info), PLAIT_OK);
    assert_int_equal(info.memory_total_bytes, 3ull << 29);
    assert_string_equal(info.name, "small-2");
    assert_int_equal(plait_context_figures(context, 0, &figures), PLAIT_OK);
    /* Figures are on a scale with steps of a tenth. */
    assert_true(figures.float_flop_per_s > 76e12 && figures.float_flop_per_s < 84e12);
    assert_true(figures.bytes_per_s > 85e10 && figures.bytes_per_s < 95e10);
    assert_true(figures.write_bytes_per_s > 23.7e9 && figures.write_bytes_per_s < 26.3e9);
    assert_true(figures.write_ns > 9500 && figures.write_ns < 10500);
    plait_context_close(context);
}

static void test_what_describes_nothing(void **state) {
    (void)state;
    static const struct {
        const char *text, *said;
    } rows[] = {
        {"", "describes no device"},
        {"# nothing\n\n", "describes no device"},
        {"a memory=1GiB flops=1T", "line 1: device a has no memory-bandwidth"},
        {"\n\nb flops=1T memory-bandwidth=1GB\n", "line 3: device b has no memory"},
        {"a memory=1GiB flops=1T memory-bandwidth=1GB\nb memory=much flops=1T memory-bandwidth=1GB",
         "line 2: "},
        {"a memory=1GiB flops=1T memory-bandwidth=1GB\na memory=1GiB flops=1T memory-bandwidth=1GB",
         "line 2: there is a device a already"},
        {"memory=1GiB flops=1T memory-bandwidth=1GB", "line 1: a line begins with the name"},
        {"a/b memory=1GiB", "line 1: a line begins with the name"},
        {"a memory", "line 1: \"memory\" is no key and value"},
        {"a mem=1GiB", "known keys: memory, flops"},
        {"a memory=1GiB memory=2GiB", "line 1: memory is given twice"},
        {"a memory=", "line 1: memory is \"\""},
        {"a memory=1:lose=1", "line 1: memory is \"1:lose=1\""},
        {"a memory=1GiB,cpu", "line 1: memory is \"1GiB,cpu\""},
        {"a memory=1GiB flops=-1 memory-bandwidth=1GB", "line 1: "},
        {"a memory=1GiB flops=1T memory-bandwidth=1GB lack=sleep", "\"sleep\" is unknown"},
        {"a\x1b[31m memory=1GiB", "not \"a?[31m\""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        plait_context *context = NULL;
        assert_int_equal(open_text(&context, rows[i].text), PLAIT_INVALID_ARGUMENT);
        assert_null(context);
        if (!strstr(plait_error_message(), rows[i].said))
            fail_msg("row %zu: \"%s\" is not in: %s", i, rows[i].said, plait_error_message());
    }
}

static void test_limits(void **state) {
    (void)state;
    static char text[(1 << 20) + 1];
    plait_context *context = NULL;
    memset(text, '\n', sizeof text);
    assert_int_equal(plait_machine_open(&context, text, sizeof text, NULL), PLAIT_INVALID_ARGUMENT);
    size_t at = 0;
    for (int d = 0; d < 65; d++)
        at += (size_t)snprintf(text + at, sizeof text - at, "d%d memory=1GiB flops=1T memory-bandwidth=1GB\n",
                               d);
    assert_int_equal(plait_machine_open(&context, text, at, NULL), PLAIT_INVALID_ARGUMENT);
    assert_non_null(strstr(plait_error_message(), "line 65: more than 64 devices"));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_what_is_described_is_there),
                                       cmocka_unit_test(test_what_describes_nothing),
                                       cmocka_unit_test(test_limits)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
