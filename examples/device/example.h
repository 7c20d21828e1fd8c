/* The three parts of the example device to each other: the device (device.c), what it makes of segments (program.c),
 * and its kernels (kernels.c). */
#ifndef EXAMPLE_H
#define EXAMPLE_H

#include <plait/host_queue.h>

#include <pthread.h>

/* Objects that fail when the device is lost. */
typedef struct example_list {
    void **items;
    size_t n, capacity;
} example_list;

typedef struct example_device {
    plait_device base; /* first: a plait_device * of this kind is an example_device * */
    bool reference;    /* ops without a kernel run the op table's reference kernels */
    uint64_t memory_bytes;
    pthread_mutex_t lock; /* of everything below */
    uint64_t used_bytes, commands, lose_at;
    bool lost;
    plait_error_record loss;
    example_list queues, events;
} example_device;

/* A kernel has the form of the op table's reference kernels: operands with data, dims at their values. */
typedef void example_kernel(const plait_op_use *use, void *scratch);

/* kernels.c: the kernel for a use, NULL when there is none: then `reason` says why. */
example_kernel *example_find_kernel(const plait_op_use *use, char *reason, size_t reason_bytes);

/* device.c: what queues are made with. */
extern const plait_host_hooks example_hooks;

/* program.c: the vtable's functions for programs, and the hook that runs one. */
bool example_supports(plait_device *device, const plait_op_use *use, const plait_encoding *encodings,
                      char *reason, size_t reason_bytes);
plait_status example_prepare(plait_device *device, const plait_segment *segment, plait_prepared *out);
void example_prepared_destroy(plait_device *device, plait_prepared *prepared);
plait_status example_compile(plait_device *device, const plait_segment *segment,
                             const plait_prepared *prepared, plait_program **out);
void example_program_destroy(plait_device *device, plait_program *program);
plait_status example_launch(plait_device *device, const plait_program *program, plait_buffer *const *slots,
                            const int64_t *dims, plait_launch_trace *trace);

#endif
