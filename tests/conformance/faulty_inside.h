/* What the two halves of the faulty device share. */
#ifndef TESTS_CONFORMANCE_FAULTY_INSIDE_H
#define TESTS_CONFORMANCE_FAULTY_INSIDE_H

#include "conformance/faulty_device.h"

#include <pthread.h>
#include <stdatomic.h>

typedef struct event {
    plait_event base;
    struct event *next; /* of the device */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint64_t value;
    _Atomic uint64_t by_host; /* for a fault: the largest value that the host gave */
    plait_error_record failure;
    bool told; /* for a fault: a query has told the failure */
} event;

typedef struct buffer {
    plait_buffer base;
    struct buffer *next;
    unsigned char *bytes;
    bool foreign; /* the bytes are not the buffer's: imported, or lent for a fault */
    uint64_t taken;
    void *other; /* memory that a fault shows instead */
} buffer;

typedef struct list {
    const plait_command *commands;
    int n;
    bool own; /* for a fault: a copy, with sizes */
    uint64_t *sizes;
} list;

typedef struct queue {
    plait_queue base;
    struct queue *next;
    bool runs_inline, stop;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    list *lists; /* number i at i % capacity */
    size_t capacity;
    uint64_t submitted, done;
    plait_error_record failure;
    /* for faults: what is done later */
    unsigned char *late_to;
    const unsigned char *late_from;
    uint64_t late_bytes;
} queue;

typedef struct kept {
    struct kept *next;
    void *memory;
} kept;

typedef struct faulty_device {
    plait_device base;
    fault fault;
    int number; /* of this device in the process */
    pthread_mutex_t lock;
    uint64_t used_bytes;
    event *events;
    queue *queues;
    buffer *buffers;
    int n_queues, n_commands, lose_at;
    plait_error_record loss;
    /* for faults */
    kept *kept;
    unsigned char *scratch;
    _Atomic int n_asked, n_buffers, n_copies, n_signals, n_launches;
} faulty_device;

/* True for the device with this fault. */
#define broken(device, name) ((device)->fault == FAULT_##name)

#define FAULTY_TRY(call)                                                                                     \
    do {                                                                                                     \
        plait_status faulty_status_ = (call);                                                                \
        if (faulty_status_ != PLAIT_OK) return faulty_status_;                                               \
    } while (0)

void faulty_pause_ms(int ms);
void faulty_retire(faulty_device *device, void *memory);

/* faulty_program.c */
bool faulty_supports(plait_device *device, const plait_op_use *use, const plait_encoding *encodings,
                     char *reason, size_t reason_bytes);
plait_status faulty_prepare(plait_device *device, const plait_segment *segment, plait_prepared *out);
void faulty_prepared_destroy(plait_device *device, plait_prepared *prepared);
plait_status faulty_compile(plait_device *device, const plait_segment *segment,
                            const plait_prepared *prepared, plait_program **out);
void faulty_program_destroy(plait_device *device, plait_program *program);
plait_status faulty_launch(faulty_device *device, const plait_command *launch);

#endif
