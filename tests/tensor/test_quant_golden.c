/* Every block format against what another program computed: decoding bit for bit, encoding by its error. Nothing is
 * skipped: the list of types is read from the golden index and every one must be known here. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tensor/float16.h"
#include "tensor/quant/tables.h"

#include "tensor/quant_test.h"

enum { N_GOLDEN_TYPES = 28 };

typedef void (*type_fn)(const char *name, const char *entry);

/* Calls fn for every type of the index with the text that follows its name. */
static void each_type(type_fn fn) {
    size_t bytes;
    char *index = golden_read("index.json", &bytes);
    const char *types = strstr(index, "\"types\""), *at = types;
    assert_non_null(types);
    int n = 0;
    while ((at = strstr(at, "\"name\":"))) {
        char name[32];
        at = strchr(strchr(at, ':'), '"') + 1;
        size_t length = strcspn(at, "\"");
        assert_true(length < sizeof name);
        memcpy(name, at, length);
        name[length] = 0;
        fn(name, at);
        n++;
    }
    assert_int_equal(n, N_GOLDEN_TYPES);
    free(index);
}

static plait_dtype type_named(const char *name) {
    plait_dtype dtype;
    assert_int_equal(plait_dtype_parse(name, &dtype), PLAIT_OK);
    return dtype;
}

static long n_decoded;

static void compare_decoded(const char *name, const char *blocks_part, const char *floats_part) {
    size_t n_bytes, n_floats;
    plait_dtype dtype = type_named(name);
    unsigned char *blocks = golden_read_part(name, blocks_part, &n_bytes);
    float *expected = golden_read_part(name, floats_part, &n_floats);
    int64_t n = (int64_t)n_bytes / plait_dtype_block_bytes(dtype) * plait_dtype_block_elems(dtype);
    assert_int_equal(n * 4, n_floats);
    /* Off by one byte, so that decoders cannot rely on alignment. */
    unsigned char *moved = malloc(n_bytes + 1);
    float *out = malloc(n_floats);
    assert_true(moved && out);
    memcpy(moved + 1, blocks, n_bytes);
    plait_quant_of(dtype)->decode(moved + 1, out, n);
    for (int64_t i = 0; i < n; i++) {
        if (plait_f32_bits(out[i]) != plait_f32_bits(expected[i]) && !(out[i] == 0 && expected[i] == 0))
            fail_msg("%s.%s element %lld: expected %.9g, found %.9g", name, blocks_part, (long long)i,
                     (double)expected[i], (double)out[i]);
    }
    n_decoded += (long)n;
    free(out);
    free(moved);
    free(expected);
    free(blocks);
}

static void decode_type(const char *name, const char *entry) {
    (void)entry;
    compare_decoded(name, "q.bin", "deq.f32");
    compare_decoded(name, "raw.bin", "raw.deq.f32");
}

static void test_decode(void **state) {
    (void)state;
    n_decoded = 0;
    each_type(decode_type);
    printf("decoded bit-equal: %d types, %ld elements\n", N_GOLDEN_TYPES, n_decoded);
}

/* Reads the numbers of "rmse_per_row" that follow `entry`. */
static void read_errors(const char *entry, double out[GOLDEN_ROWS]) {
    const char *at = strstr(entry, "\"rmse_per_row\"");
    assert_non_null(at);
    at = strchr(at, '[') + 1;
    for (int row = 0; row < GOLDEN_ROWS; row++) {
        char *end;
        out[row] = strtod(at, &end);
        assert_true(end != at);
        at = end + strspn(end, ", \n");
    }
}

static int n_rows_encoded;

static void encode_type(const char *name, const char *entry) {
    size_t bytes;
    plait_dtype dtype = type_named(name);
    const plait_quant *quant = plait_quant_of(dtype);
    float *input = golden_read("input.f32", &bytes), out[GOLDEN_COLS];
    double golden[GOLDEN_ROWS];
    read_errors(entry, golden);
    size_t row_bytes = (size_t)plait_dtype_row_bytes(dtype, GOLDEN_COLS);
    unsigned char *blocks = malloc(row_bytes);
    assert_non_null(blocks);
    printf("%-8s", name);
    for (int row = 0; row < GOLDEN_ROWS; row++) {
        const float *x = input + row * GOLDEN_COLS;
        quant->encode(x, NULL, blocks, GOLDEN_COLS);
        quant->decode(blocks, out, GOLDEN_COLS);
        double error = row_error(x, out, NULL, GOLDEN_COLS);
        printf(" %6.3f", golden[row] > 0 ? error / golden[row] : error);
        if (!(error <= golden[row] * 1.05))
            fail_msg("%s row %d: error %g, golden %g", name, row, error, golden[row]);
        n_rows_encoded++;
    }
    printf("\n");
    free(blocks);
    free(input);
}

static void test_encode_error(void **state) {
    (void)state;
    n_rows_encoded = 0;
    printf("root mean square error of our encoding, relative to the golden one, per row\n");
    each_type(encode_type);
    printf("encoded: %d types, %d rows\n", N_GOLDEN_TYPES, n_rows_encoded);
}

static void test_encode_bytes_of_float_types(void **state) {
    (void)state;
    static const char *const names[] = {"F32", "F16", "BF16"};
    for (int k = 0; k < 3; k++) {
        size_t n_input, n_golden;
        float *input = golden_read("input.f32", &n_input);
        unsigned char *golden = golden_read_part(names[k], "q.bin", &n_golden), *ours = malloc(n_golden);
        assert_non_null(ours);
        plait_quant_of(type_named(names[k]))->encode(input, NULL, ours, (int64_t)(n_input / 4));
        assert_memory_equal(ours, golden, n_golden);
        free(ours);
        free(golden);
        free(input);
    }
}

static long n_dots;

static void dot_type(const char *name, const char *entry) {
    (void)entry;
    size_t bytes;
    plait_dtype dtype = type_named(name);
    float *input = golden_read("input.f32", &bytes), row[GOLDEN_COLS];
    unsigned char *blocks = golden_read_part(name, "q.bin", &bytes);
    double *dot = golden_read_part(name, "dot.f64", &bytes),
           *magnitude = golden_read_part(name, "dotabs.f64", &bytes);
    assert_int_equal(bytes, GOLDEN_ROWS * GOLDEN_ROWS * sizeof(double));
    int64_t row_bytes = plait_dtype_row_bytes(dtype, GOLDEN_COLS);
    for (int i = 0; i < GOLDEN_ROWS; i++) {
        plait_quant_of(dtype)->decode(blocks + i * row_bytes, row, GOLDEN_COLS);
        for (int j = 0; j < GOLDEN_ROWS; j++) {
            double sum = 0;
            for (int k = 0; k < GOLDEN_COLS; k++) sum += (double)row[k] * input[j * GOLDEN_COLS + k];
            assert_true(fabs(sum - dot[i * GOLDEN_ROWS + j]) <= 1e-5 * magnitude[i * GOLDEN_ROWS + j]);
            n_dots++;
        }
    }
    free(magnitude);
    free(dot);
    free(blocks);
    free(input);
}

static void test_dots(void **state) {
    (void)state;
    n_dots = 0;
    each_type(dot_type);
    printf("dot products: %d types, %ld values\n", N_GOLDEN_TYPES, n_dots);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_decode),
        cmocka_unit_test(test_encode_error),
        cmocka_unit_test(test_encode_bytes_of_float_types),
        cmocka_unit_test(test_dots),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
