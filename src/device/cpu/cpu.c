/* The cpu device: options, facts, and the vtable. Invariant: two cpu devices of this program give the same bytes,
 * whatever their options. */
#include "device/cpu/cpu.h"

#include "base/alloc.h"
#include "base/os.h"
#include "base/size.h"
#include "device/cpu/kernels.h"
#include "device/cpu/program.h"
#include "plait/host_queue.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

/* The numbers that kernels give; counts up when any of them changes. The same on every instruction set. */
#define NUMERIC_CLASS "cpu-float-1"

static const char known_keys[] = "threads, isa";

/* ---- options ---- */

static plait_status parse_threads(const char *value, int *out) {
    char *end;
    long n = strtol(value, &end, 10);
    if (end == value || *end || n < 1 || n > PLAIT_CPU_MAX_THREADS)
        return plait_error(PLAIT_INVALID_ARGUMENT, "threads is \"%.40s\", expected 1 to %d", value,
                           PLAIT_CPU_MAX_THREADS);
    *out = (int)n;
    return PLAIT_OK;
}

/* Limits the instruction sets to one name and what it comes with, as far as the processor has them. */
static plait_status parse_isa(const char *value, uint32_t *features) {
    static const struct {
        const char *name;
        uint32_t bits;
    } sets[] = {
        {"portable", 0},
        {"avx2", PLAIT_CPU_AVX2},
        {"avxvnni", PLAIT_CPU_AVX2 | PLAIT_CPU_AVXVNNI},
        {"avx512", PLAIT_CPU_AVX2 | PLAIT_CPU_AVX512},
        {"avx512vnni", PLAIT_CPU_AVX2 | PLAIT_CPU_AVX512 | PLAIT_CPU_AVX512VNNI},
    };
    for (size_t i = 0; i < PLAIT_COUNT_OF(sets); i++) {
        if (strcmp(sets[i].name, value) != 0) continue;
        char have[64];
        if (sets[i].bits & ~*features)
            return plait_error(PLAIT_UNSUPPORTED, "isa is %s, this processor has %s", value,
                               plait_cpu_features_names(*features, have, sizeof have));
        *features = sets[i].bits;
        return PLAIT_OK;
    }
    return plait_error(PLAIT_INVALID_ARGUMENT,
                       "isa is \"%.40s\"; known: portable, avx2, avxvnni, avx512, avx512vnni", value);
}

static plait_status parse_options(plait_cpu_device *device, const char *const *options, int n_options) {
    device->n_threads = (int)plait_min_i64(plait_os_processors(), PLAIT_CPU_MAX_THREADS);
    device->features = plait_cpu_features_detect();
    for (int i = 0; i < n_options; i++) {
        const char *option = options[i], *value = strchr(option, '=');
        size_t n = value ? (size_t)(value - option) : strlen(option);
        if (value && n == 7 && memcmp(option, "threads", n) == 0)
            PLAIT_TRY(parse_threads(value + 1, &device->n_threads));
        else if (value && n == 3 && memcmp(option, "isa", n) == 0)
            PLAIT_TRY(parse_isa(value + 1, &device->features));
        else
            return plait_error(PLAIT_INVALID_ARGUMENT, "option \"%.60s\" is unknown; known: %s", option,
                               known_keys);
    }
    return PLAIT_OK;
}

/* ---- life ---- */

static void cpu_destroy(plait_device *base) {
    plait_cpu_device *device = (plait_cpu_device *)base;
    if (!device) return;
    plait_cpu_pool_destroy(device->pool);
    free(device);
}

static plait_status cpu_create(const char *const *options, int n_options, const plait_logger *logger,
                               plait_device **out) {
    plait_cpu_device *device = plait_alloc_array(1, sizeof *device);
    if (!device) return plait_error_memory("cpu device", sizeof *device);
    device->base.vtable = &plait_cpu_vtable;
    snprintf(device->base.name, sizeof device->base.name, "cpu");
    if (logger) device->logger = *logger;
    device->memory_total_bytes = plait_os_memory_total();
    plait_status status = parse_options(device, options, n_options);
    if (status == PLAIT_OK) status = plait_cpu_pool_create(device->n_threads, &device->pool);
    if (status != PLAIT_OK) {
        cpu_destroy(&device->base);
        return status;
    }
    *out = &device->base;
    return PLAIT_OK;
}

/* ---- facts ---- */

/* The processor's own name, for people. */
static void processor_name(char out[64]) {
    snprintf(out, 64, "processor");
#if defined(__x86_64__)
    uint32_t words[12], top, b, c, d;
    if (!__get_cpuid(0x80000000u, &top, &b, &c, &d) || top < 0x80000004u) return;
    for (uint32_t i = 0; i < 3; i++)
        __get_cpuid(0x80000002u + i, &words[4 * i], &words[4 * i + 1], &words[4 * i + 2], &words[4 * i + 3]);
    const char *text = (const char *)words;
    size_t skip = 0, n = 0;
    while (skip < sizeof words && text[skip] == ' ') skip++;
    while (skip + n < sizeof words && text[skip + n]) n++;
    if (n) snprintf(out, 64, "%.*s", (int)n, text + skip);
#elif defined(__aarch64__)
    snprintf(out, 64, "64-bit Arm");
#endif
}

static plait_status cpu_describe(plait_device *base, plait_device_info *out) {
    const plait_cpu_device *device = (const plait_cpu_device *)base;
    char processor[64], features[64];
    plait_device_info info = {.kind = "cpu",
                              .numeric_class = NUMERIC_CLASS,
                              .memory_total_bytes = device->memory_total_bytes,
                              .memory_free_bytes = plait_os_memory_available(),
                              .alignment = PLAIT_CPU_ALIGNMENT,
                              .max_buffer_bytes = device->memory_total_bytes,
                              .n_threads = device->n_threads,
                              .unified_memory = true,
                              .caps = PLAIT_CAP_MAPPED | PLAIT_CAP_BOXES | PLAIT_CAP_FOREIGN_WAITS};
    processor_name(processor);
    plait_cpu_features_names(device->features, features, sizeof features);
    memcpy(info.name, base->name, sizeof info.name);
    snprintf(info.description, sizeof info.description, "%s, %d thread%s, %s", processor, device->n_threads,
             device->n_threads == 1 ? "" : "s", features);
    *out = info;
    return PLAIT_OK;
}

static plait_status cpu_health(plait_device *device) {
    (void)device;
    return PLAIT_OK;
}

static plait_status cpu_launch(plait_device *device, const plait_program *program, plait_buffer *const *slots,
                               const int64_t *dims, plait_launch_trace *trace) {
    return plait_cpu_launch((plait_cpu_device *)device, program, slots, dims, trace);
}

static const plait_host_hooks cpu_hooks = {.launch = cpu_launch};

static plait_status cpu_queue_create(plait_device *device, uint32_t flags, plait_queue **out) {
    return plait_host_queue_create(device, flags, &cpu_hooks, out);
}

/* ---- programs ---- */

bool plait_cpu_supports(plait_device *base, const plait_op_use *use, const plait_encoding *encodings,
                        char *reason, size_t reason_bytes) {
    const plait_cpu_device *device = (const plait_cpu_device *)base;
    return plait_cpu_kernel_find(use, encodings, device->features, reason, reason_bytes) != NULL;
}

plait_status plait_cpu_compile(plait_device *base, const plait_segment *segment,
                               const plait_prepared *prepared, plait_program **out) {
    const plait_cpu_device *device = (const plait_cpu_device *)base;
    plait_cpu_reading reading;
    PLAIT_TRY(plait_cpu_reading_init(&reading, device, segment));
    plait_program *program = plait_alloc_array(1, sizeof *program);
    plait_status status = program ? PLAIT_OK : plait_error_memory("program", sizeof *program);
    if (program) {
        program->device = base->name;
        status = plait_cpu_build_program(program, &reading, prepared);
    }
    plait_cpu_reading_deinit(&reading);
    if (status != PLAIT_OK) {
        plait_cpu_program_destroy(base, program);
        return status;
    }
    *out = program;
    return PLAIT_OK;
}

void plait_cpu_program_destroy(plait_device *device, plait_program *program) {
    (void)device;
    if (!program) return;
    plait_arena_deinit(&program->arena);
    free(program);
}

const plait_device_vtable plait_cpu_vtable = {
    .version = PLAIT_DEVICE_VERSION,
    .struct_bytes = sizeof(plait_device_vtable),
    .sizes = PLAIT_DEVICE_SIZES,
    .kind = "cpu",
    .doc = "this machine's processor cores; threads=N, isa=portable|avx2|avxvnni|avx512|avx512vnni",
    .create = cpu_create,
    .destroy = cpu_destroy,
    .describe = cpu_describe,
    .buffer_create = plait_cpu_buffer_create,
    .buffer_destroy = plait_cpu_buffer_destroy,
    .event_create = plait_host_event_create,
    .event_destroy = plait_host_event_destroy,
    .event_query = plait_host_event_query,
    .event_wait = plait_host_event_wait,
    .event_signal = plait_host_event_signal,
    .event_fail = plait_host_event_fail,
    .queue_create = cpu_queue_create,
    .queue_destroy = plait_host_queue_destroy,
    .submit = plait_host_submit,
    .synchronise = plait_host_synchronise,
    .supports = plait_cpu_supports,
    .prepare = plait_cpu_prepare,
    .prepared_destroy = plait_cpu_prepared_destroy,
    .compile = plait_cpu_compile,
    .program_destroy = plait_cpu_program_destroy,
    .health = cpu_health,
    .buffer_import = plait_cpu_buffer_import,
    .encodings = plait_cpu_encodings,
    .pack = plait_cpu_pack_rows,
    .unpack = plait_cpu_unpack_rows,
    .reaches = plait_host_reaches,
};
