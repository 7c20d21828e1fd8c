/* Options of a simulated device: one table of keys, one parser for each kind of value. Not here: whether the device
 * inside can live with them (sim.c). Invariant: a value is written only when it is right, into the field that its row
 * names. */
#include "device/sim/options.h"

#include "base/size.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

typedef struct option_row option_row;

/* Parses `value` into the field at `field`. */
typedef plait_status parse_fn(const option_row *row, const char *value, void *field);

/* min and max are for kinds of values that are whole numbers. */
struct option_row {
    const char *key;
    parse_fn *parse;
    size_t offset; /* of the field in plait_sim_options */
    uint64_t min, max;
};

static plait_status wrong(const option_row *row, const char *value, const char *expected) {
    return plait_error(PLAIT_INVALID_ARGUMENT, "%s is \"%.60s\", expected %s", row->key, value, expected);
}

static plait_status outside(const option_row *row, const char *value) {
    return plait_error(PLAIT_INVALID_ARGUMENT, "%s is \"%.60s\", expected %llu to %llu", row->key, value,
                       (unsigned long long)row->min, (unsigned long long)row->max);
}

/* ---- numbers ---- */

/* A whole number in the row's range. Doubles are exact up to 2^53, which is more than any key takes. `number` may be
 * what a unit has multiplied: 1.5MiB is whole, 0.3us is not. */
static plait_status whole(const option_row *row, const char *value, double number, uint64_t *out) {
    if (number != floor(number) || number > 9007199254740992.0) return wrong(row, value, "a whole number");
    if (number < (double)row->min || number > (double)row->max) return outside(row, value);
    *out = (uint64_t)number;
    return PLAIT_OK;
}

static plait_status parse_count(const option_row *row, const char *value, void *field) {
    static const plait_unit units[] = {{"", 1}, {NULL, 0}};
    double number;
    if (!plait_parse_scaled(value, units, &number)) return wrong(row, value, "a whole number");
    return whole(row, value, number, field);
}

static plait_status parse_bytes(const option_row *row, const char *value, void *field) {
    double number;
    if (!plait_parse_bytes(value, &number)) return wrong(row, value, "bytes, as in 4096, 64MiB, 1.5GB");
    return whole(row, value, number, field);
}

/* Also within the row's range, which parse_bytes has checked. */
static plait_status parse_alignment(const option_row *row, const char *value, void *field) {
    uint64_t bytes;
    PLAIT_TRY(parse_bytes(row, value, &bytes));
    if (!plait_is_power_of_two(bytes)) return wrong(row, value, "a power of two");
    *(uint64_t *)field = bytes;
    return PLAIT_OK;
}

/* In nanoseconds; a number without a unit is none, for nobody would agree on which. */
static plait_status parse_time(const option_row *row, const char *value, void *field) {
    static const plait_unit units[] = {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}, {NULL, 0}};
    double number;
    if (!plait_parse_scaled(value, units, &number)) return wrong(row, value, "a time, as in 20us, 1.5ms");
    return whole(row, value, number, field);
}

/* Written so that NaN is refused too. */
static plait_status positive(const option_row *row, const char *value, double number, double *out) {
    if (!(number > 0)) return wrong(row, value, "more than 0");
    *out = number;
    return PLAIT_OK;
}

/* Rates stay doubles: they are only ever divided by. */
static plait_status parse_rate(const option_row *row, const char *value, void *field) {
    double number;
    if (!plait_parse_bytes(value, &number)) return wrong(row, value, "bytes a second, as in 500MB, 12GiB");
    return positive(row, value, number, field);
}

/* Without a unit, or in millions, thousands of millions, millions of millions. */
static plait_status parse_flops(const option_row *row, const char *value, void *field) {
    static const plait_unit units[] = {{"", 1}, {"M", 1e6}, {"G", 1e9}, {"T", 1e12}, {NULL, 0}};
    double number;
    if (!plait_parse_scaled(value, units, &number))
        return wrong(row, value, "operations a second, as in 50G, 1.5T");
    return positive(row, value, number, field);
}

/* Never faster than the device inside, which does the computing. */
static plait_status parse_speed(const option_row *row, const char *value, void *field) {
    static const plait_unit units[] = {{"", 1}, {NULL, 0}};
    double number;
    if (!plait_parse_scaled(value, units, &number) || !(number >= 0.001 && number <= 1))
        return wrong(row, value, "0.001 to 1");
    *(double *)field = number;
    return PLAIT_OK;
}

/* ---- words ---- */

static plait_status parse_yes(const option_row *row, const char *value, void *field) {
    bool yes = strcmp(value, "yes") == 0;
    if (!yes && strcmp(value, "no") != 0) return wrong(row, value, "yes or no");
    *(bool *)field = yes;
    return PLAIT_OK;
}

/* '/' stands for ':' there, which would end this item's own option. Longer than any sensible item is refused rather
 * than cut. */
static plait_status parse_inner(const option_row *row, const char *value, void *field) {
    char *item = field;
    if (!value[0] || strlen(value) >= PLAIT_SIM_ITEM_BYTES)
        return wrong(row, value, "a device, as in cpu/threads=2");
    for (size_t i = 0; i <= strlen(value); i++) item[i] = value[i] == '/' ? ':' : value[i];
    return PLAIT_OK;
}

/* The i-th word of a list of known words, NULL behind the last, "" for a gap in the numbering. */
typedef const char *word_fn(int i);

/* Lists the words that there are, which is the documentation that the caller has at hand. */
static plait_status unknown_word(const option_row *row, const char *word, size_t n, word_fn *known) {
    plait_strbuf list;
    plait_strbuf_init(&list, PLAIT_ERROR_BYTES);
    for (int i = 0; known(i); i++)
        if (known(i)[0]) plait_strbuf_printf(&list, "%s%s", list.length ? ", " : "", known(i));
    plait_status status = plait_error(PLAIT_INVALID_ARGUMENT, "%s: \"%.*s\" is unknown; known: %s", row->key,
                                      (int)(n < 60 ? n : 60), word, plait_strbuf_text(&list));
    plait_strbuf_deinit(&list);
    return status;
}

/* "a+b+c": sets the bool of each word. Words are compared without regard to case, whole: the row's word must end where
 * the given one does, and an empty word is none. */
static plait_status parse_words(const option_row *row, const char *value, bool *set, word_fn *known) {
    for (const char *word = value;; word++) {
        size_t n = strcspn(word, "+");
        int i = 0;
        while (known(i) && (strncasecmp(known(i), word, n) != 0 || known(i)[n] || !n)) i++;
        if (!known(i)) return unknown_word(row, word, n, known);
        set[i] = true;
        word += n;
        if (!*word) return PLAIT_OK;
    }
}

static const char *op_name(int i) {
    return i < PLAIT_OP_COUNT ? plait_op_get((plait_op_id)i)->name : NULL;
}

/* Numbers of types have gaps; those have an empty name, which no word equals. */
static const char *type_name(int i) {
    if (i >= PLAIT_DTYPE_LIMIT) return NULL;
    return plait_dtype_known(i) ? plait_dtype_name((plait_dtype)i) : "";
}

static const char *without_name(int i) {
    static const char *const names[] = {
#define NAME(upper, word, what) #word,
        PLAIT_SIM_WITHOUT_LIST(NAME)
#undef NAME
            NULL};
    return names[i];
}

static plait_status parse_ops(const option_row *row, const char *value, void *field) {
    return parse_words(row, value, field, op_name);
}
static plait_status parse_types(const option_row *row, const char *value, void *field) {
    return parse_words(row, value, field, type_name);
}
static plait_status parse_without(const option_row *row, const char *value, void *field) {
    return parse_words(row, value, field, without_name);
}

/* ---- the table ---- */

/* Limits: 1 PiB, what a double counts exactly, ten seconds. An option that asks for more is a slip of the pen. */
#define AT(field)   offsetof(plait_sim_options, field)
#define MAX_BYTES   ((uint64_t)1 << 50)
#define MAX_NUMBER  ((uint64_t)1 << 53)
#define MAX_TIME_NS 10000000000u

static const option_row rows[] = {
    {"inner", parse_inner, AT(inner), 0, 0},
    {"mem", parse_bytes, AT(mem_bytes), 1, MAX_BYTES},
    {"granularity", parse_bytes, AT(granularity_bytes), 1, MAX_BYTES},
    {"align", parse_alignment, AT(align_bytes), 1, 1 << 20},
    {"pad", parse_bytes, AT(pad_bytes), 0, MAX_BYTES},
    {"max-buffer", parse_bytes, AT(max_buffer_bytes), 1, MAX_BYTES},
    {"lack", parse_ops, AT(lacks_op), 0, 0},
    {"lack-type", parse_types, AT(lacks_type), 0, 0},
    {"no", parse_without, AT(without), 0, 0},
    {"max-dim", parse_count, AT(max_dim), 1, MAX_NUMBER},
    {"max-rank", parse_count, AT(max_rank), 1, PLAIT_MAX_RANK},
    {"contiguous", parse_yes, AT(contiguous), 0, 0},
    {"copy-strides", parse_yes, AT(copies_strides), 0, 0},
    {"import", parse_yes, AT(import), 0, 0},
    {"copy-queues", parse_count, AT(copy_queues), 0, 16},
    {"bandwidth", parse_rate, AT(bandwidth), 0, 0},
    {"latency", parse_time, AT(latency_ns), 0, MAX_TIME_NS},
    {"speed", parse_speed, AT(speed), 0, 0},
    {"flops", parse_flops, AT(flops), 0, 0},
    {"memory-bandwidth", parse_rate, AT(memory_bandwidth), 0, 0},
    {"overhead", parse_time, AT(overhead_ns), 0, MAX_TIME_NS},
    {"delay", parse_count, AT(delay_seed), 1, MAX_NUMBER},
    {"delay-max", parse_time, AT(delay_max_ns), 1, MAX_TIME_NS},
    {"reorder", parse_count, AT(reorder_seed), 1, MAX_NUMBER},
#define FAIL_ROW(upper, word, status)                                                                        \
    {"fail-" #word, parse_count, AT(fail_at) + PLAIT_SIM_FAIL_##upper * sizeof(uint64_t), 1, MAX_NUMBER},
    PLAIT_SIM_FAILURE_LIST(FAIL_ROW)
#undef FAIL_ROW
        {"lose", parse_count, AT(lose_at), 1, MAX_NUMBER},
    {"astray", parse_yes, AT(astray), 0, 0},
    {"nan", parse_yes, AT(nan), 0, 0},
    {"poison", parse_yes, AT(poison), 0, 0},
};

/* The keys are the rows of the table, so no list of them can be out of date. */
static plait_status unknown_key(const char *option) {
    plait_strbuf known;
    plait_strbuf_init(&known, PLAIT_ERROR_BYTES);
    for (size_t i = 0; i < PLAIT_COUNT_OF(rows); i++)
        plait_strbuf_printf(&known, "%s%s", i ? ", " : "", rows[i].key);
    plait_status status = plait_error(PLAIT_INVALID_ARGUMENT, "option \"%.60s\" is unknown; known: %s",
                                      option, plait_strbuf_text(&known));
    plait_strbuf_deinit(&known);
    return status;
}

/* A key given twice is an error: which of the two was meant, nobody knows. */
static plait_status parse_one(plait_sim_options *out, const char *option, bool *given) {
    size_t n = strcspn(option, "=");
    size_t i = 0;
    while (i < PLAIT_COUNT_OF(rows) && (strncmp(rows[i].key, option, n) != 0 || rows[i].key[n])) i++;
    if (i == PLAIT_COUNT_OF(rows) || !option[n]) return unknown_key(option);
    if (given[i]) return plait_error(PLAIT_INVALID_ARGUMENT, "%s is given twice", rows[i].key);
    given[i] = true;
    return rows[i].parse(&rows[i], option + n + 1, (char *)out + rows[i].offset);
}

/* *out is set only when all options are right. The defaults are a device that does nothing but stand behind a wall,
 * where mistakes with memory show. */
plait_status plait_sim_options_parse(plait_sim_options *out, const char *const *options, int n_options) {
    plait_sim_options parsed = {.inner = "cpu:threads=1",
                                .copy_queues = 1,
                                .delay_max_ns = 200000,
                                .speed = 1,
                                .nan = true,
                                .poison = true};
    bool given[PLAIT_COUNT_OF(rows)] = {false};
    for (int i = 0; i < n_options; i++) PLAIT_TRY(parse_one(&parsed, options[i], given));
    *out = parsed;
    return PLAIT_OK;
}
