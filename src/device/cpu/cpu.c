/* The cpu device: life, facts, and the vtable. Not here: what options mean (options.c, list.c), memory (buffer.c), what
 * is fused and compiled (prepare.c, compile.c), running (launch.c, pool.c), queues and events (plait/host_queue.h, as
 * they are).
 *
 * Invariant: two cpu devices of this program give the same bytes, whatever their options. */
#include "device/cpu/cpu.h"

#include "base/alloc.h"
#include "base/os.h"
#include "base/size.h"
#include "device/cpu/kernels.h"
#include "device/cpu/options.h"
#include "device/cpu/program.h"
#include "plait/host_queue.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

/* The numbers that kernels give; counts up when any of them changes. The same on every instruction set, so it makes no
 * difference to the bytes which cpu device a node is placed on. */
#define NUMERIC_CLASS "cpu-float-1"

/* ---- life ---- */

/* Of a device at any stage of cpu_create. The pool's threads end here; queues were destroyed before. */
static void cpu_destroy(plait_device *base) {
    plait_cpu_device *device = (plait_cpu_device *)base;
    if (!device) return;
    plait_cpu_pool_destroy(device->pool);
    free(device);
}

/* A share of a described machine gets threads, but neither binding nor memory of a node: it is there to try out
 * plans. */
static plait_status cpu_create(const char *const *options, int n_options, const plait_logger *logger,
                               plait_device **out) {
    plait_cpu_device *device = plait_alloc_array(1, sizeof *device);
    if (!device) return plait_error_memory("cpu device", sizeof *device);
    device->base.vtable = &plait_cpu_vtable;
    snprintf(device->base.name, sizeof device->base.name, "cpu");
    if (logger) device->logger = *logger;
    device->memory_total_bytes = plait_os_memory_total();
    plait_cpu_options wanted;
    plait_status status = plait_cpu_options_parse(options, n_options, &wanted);
    if (status == PLAIT_OK) status = plait_cpu_options_apply(&wanted, device);
    if (status == PLAIT_OK) status = plait_cpu_pool_create(&device->share, &device->pool);
    if (status != PLAIT_OK) {
        cpu_destroy(&device->base);
        return status;
    }
    plait_cpu_try_node(device, device->share.is_this_machine ? device->share.node : -1);
    *out = &device->base;
    return PLAIT_OK;
}

/* ---- facts ---- */

/* The processor's own name, for people. CPUID leaves 0x80000002 to 0x80000004 give 16 bytes each of a text of 48, with
 * NUL at its end, on some processors with blanks in front. */
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

/* Processor, threads, instruction sets; then the share, and what of it the system refused. */
static void describe_all(const plait_cpu_device *device, char *out, size_t capacity) {
    char processor[64], features[64], share[256], refused[224] = "";
    const char *unbound = plait_cpu_pool_unbound_reason(device->pool), *memory = device->memory_reason;
    if (!device->share.is_this_machine)
        snprintf(refused, sizeof refused, " (of a described machine, nothing is bound)");
    else if (unbound[0] || memory[0])
        snprintf(refused, sizeof refused, " (refused: %s%s%s)", unbound, unbound[0] && memory[0] ? "; " : "",
                 memory);
    processor_name(processor);
    plait_cpu_features_names(device->features, features, sizeof features);
    plait_cpu_share_describe(&device->share, share, sizeof share);
    snprintf(out, capacity, "%s, %d thread%s, %s%s%s%s", processor, device->n_threads,
             device->n_threads == 1 ? "" : "s", features, share[0] ? ", " : "", share, refused);
}

/* Of the node whose memory buffers ask for, or of the machine. A node cannot have more than the process may use (a
 * control group's limit), which memory_total_bytes is. A node that cannot be asked is answered for by the machine: what
 * is told here only bounds plans. */
static plait_status cpu_memory_query(plait_device *base, uint64_t *out_total_bytes,
                                     uint64_t *out_free_bytes) {
    const plait_cpu_device *device = (const plait_cpu_device *)base;
    uint64_t total, left;
    if (device->memory_node >= 0 && plait_os_node_memory(device->memory_node, &total, &left) == PLAIT_OK) {
        *out_total_bytes = total < device->memory_total_bytes ? total : device->memory_total_bytes;
        *out_free_bytes = left;
        return PLAIT_OK;
    }
    *out_total_bytes = device->memory_total_bytes;
    *out_free_bytes = plait_os_memory_available();
    return PLAIT_OK;
}

/* Unified with every device of the machine's memory, unless this one has a node to itself: two devices of two nodes do
 * not take each other's memory. max_buffer_bytes is the machine's, since a full node is helped out by others. */
static plait_status cpu_describe(plait_device *base, plait_device_info *out) {
    const plait_cpu_device *device = (const plait_cpu_device *)base;
    plait_device_info info = {.kind = "cpu",
                              .numeric_class = NUMERIC_CLASS,
                              .alignment = PLAIT_CPU_ALIGNMENT,
                              .max_buffer_bytes = device->memory_total_bytes,
                              .n_threads = device->n_threads,
                              .unified_memory = device->memory_node < 0 || device->share.only_node,
                              .caps = PLAIT_CAP_MAPPED | PLAIT_CAP_BOXES | PLAIT_CAP_FOREIGN_WAITS};
    PLAIT_TRY(cpu_memory_query(base, &info.memory_total_bytes, &info.memory_free_bytes));
    memcpy(info.name, base->name, sizeof info.name);
    describe_all(device, info.description, sizeof info.description);
    *out = info;
    return PLAIT_OK;
}

/* Processors are not lost; a launch that fails is its queue's failure. */
static plait_status cpu_health(plait_device *device) {
    (void)device;
    return PLAIT_OK;
}

static plait_status cpu_launch(plait_device *device, const plait_program *program, plait_buffer *const *slots,
                               const int64_t *dims, plait_launch_trace *trace) {
    return plait_cpu_launch((plait_cpu_device *)device, program, slots, dims, trace);
}

/* The queue's own thread is worker 0 of every launch, so it is bound once, here, and not around each launch. */
static void cpu_queue_begin(plait_device *device) {
    plait_cpu_pool_adopt(((plait_cpu_device *)device)->pool);
}

static const plait_host_hooks cpu_hooks = {.launch = cpu_launch, .begin = cpu_queue_begin};

static plait_status cpu_queue_create(plait_device *device, uint32_t flags, plait_queue **out) {
    return plait_host_queue_create(device, flags, &cpu_hooks, out);
}

/* ---- programs ---- */

/* The answer of the kernel table, which prepare and compile ask again: what is accepted here has a kernel there. */
bool plait_cpu_supports(plait_device *base, const plait_op_use *use, const plait_encoding *encodings,
                        char *reason, size_t reason_bytes) {
    const plait_cpu_device *device = (const plait_cpu_device *)base;
    return plait_cpu_kernel_find(use, encodings, device->features, reason, reason_bytes) != NULL;
}

/* The segment is read anew: between prepare and compile the planner has set addresses and may have reordered groups,
 * and nothing of prepare's reading was kept. The program has an arena of its own, the reading's ends here. */
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

/* Everything that a program has lies in its arena. Accepts NULL, and a program whose building failed. */
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
    .doc = "this machine's processor cores; threads=N, cores=0-3+6, numa=NODE|each, "
           "isa=portable|avx2|avxvnni|avx512|avx512vnni",
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
    .memory_query = cpu_memory_query,
    .expand = plait_cpu_expand,
    .reaches = plait_host_reaches,
};
