/* The cpu device as its own files see it, and its vtable for the registry. The parts of the vtable are declared here by
 * the file that has them; their contract is that of plait/device.h. Invariant: a device is not changed after it was
 * created; what changes with launches is in the pool and in programs. */
#ifndef PLAIT_DEVICE_CPU_CPU_H
#define PLAIT_DEVICE_CPU_CPU_H

#include "base/status.h"
#include "device/cpu/pool.h"
#include "plait/device.h"

/* What the registry copies. */
extern const plait_device_vtable plait_cpu_vtable;

/* Offsets of values are multiples of this: a cache line, and the widest vector. */
enum { PLAIT_CPU_ALIGNMENT = 64 };

typedef struct plait_cpu_device {
    plait_device base;
    /* `features` may be fewer than the processor's (isa=). n_threads is share.n_threads. */
    uint32_t features; /* PLAIT_CPU_... bits that kernels may use */
    int n_threads;
    plait_cpu_share share;
    plait_cpu_pool *pool; /* Owned. */
    /* Node whose memory buffers ask for; -1: none, or the system refuses, for the reason below. */
    int memory_node;
    /* Empty while nothing was refused. */
    char memory_reason[96];
    uint64_t memory_total_bytes; /* of the machine: a full node is helped out by others */
    plait_logger logger;
} plait_cpu_device;

/* The parts of the vtable, by file. */

/* buffer.c */
/* Whether the system gives memory of a node on demand, found out with one page: sets memory_node or memory_reason. */
void plait_cpu_try_node(plait_cpu_device *device, int node);
plait_status plait_cpu_buffer_create(plait_device *device, uint64_t size_bytes, uint32_t usage,
                                     plait_buffer **out);
/* An import's memory stays: it is the caller's. */
void plait_cpu_buffer_destroy(plait_buffer *buffer);
plait_status plait_cpu_buffer_import(plait_device *device, void *host, uint64_t size_bytes, uint32_t usage,
                                     plait_buffer **out);

/* prepare.c: which nodes run as a group, which values never exist. */
plait_status plait_cpu_prepare(plait_device *device, const plait_segment *segment, plait_prepared *out);
void plait_cpu_prepared_destroy(plait_device *device, plait_prepared *prepared);

/* cpu.c, but for the launch: a program is built by compile.c, run by launch.c. */
bool plait_cpu_supports(plait_device *device, const plait_op_use *use, const plait_encoding *encodings,
                        char *reason, size_t reason_bytes);
plait_status plait_cpu_compile(plait_device *device, const plait_segment *segment,
                               const plait_prepared *prepared, plait_program **out);
void plait_cpu_program_destroy(plait_device *device, plait_program *program);
/* Runs a program of this device on the calling thread and the pool's. */
plait_status plait_cpu_launch(plait_cpu_device *device, const plait_program *program,
                              plait_buffer *const *slots, const int64_t *dims, plait_launch_trace *trace);

/* weights.c: the one packing that there is, offered where it serves every reader. Packing and unpacking use the pool,
 * as a launch does. */
plait_status plait_cpu_encodings(plait_device *device, const plait_weight_use *use,
                                 plait_encoding_offer *offers, int *n_offers);
plait_status plait_cpu_pack_rows(plait_device *device, const plait_operand *source, plait_encoding encoding,
                                 int64_t row_begin, int64_t row_end, plait_region target);
plait_status plait_cpu_unpack_rows(plait_device *device, const plait_operand *shape, plait_encoding encoding,
                                   int64_t row_begin, int64_t row_end, plait_region source, void *target);

#endif
