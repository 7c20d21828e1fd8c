/* What a simulated device was asked to be: the options of its device-list item, parsed strictly.
 *
 * Invariant: after a success every value is in the range that its key states; 0 stands for "not given" where a key has no
 * default of its own. */
#ifndef PLAIT_DEVICE_SIM_OPTIONS_H
#define PLAIT_DEVICE_SIM_OPTIONS_H

#include "base/status.h"
#include "base/strbuf.h"
#include "plait/op.h"

/* Longest item of a device inside, with its NUL. */
enum { PLAIT_SIM_ITEM_BYTES = 256 };

/* What can be taken away from a device: words of no=. X(WORD in capitals, word, what then is missing). */
#define PLAIT_SIM_WITHOUT_LIST(X)                                                                            \
    X(PEER, peer, "copies to and from other devices")                                                        \
    X(BOXES, boxes, "transfers and copies of two and three dims")                                            \
    X(WAITS, waits, "waits of its queues for events of other devices")                                       \
    X(TIMELINES, timelines, "import of other devices' events")                                               \
    X(PACKING, packing, "packed weights")                                                                    \
    X(PINNED, pinned, "pinned host memory")                                                                  \
    X(UPDATE, update, "updates of programs")                                                                 \
    X(CLOCK, clock, "a clock")                                                                               \
    X(NAMES, names, "names of objects")

typedef enum plait_sim_without {
#define PLAIT_SIM_WITHOUT_ENUM(upper, word, what) PLAIT_SIM_NO_##upper,
    PLAIT_SIM_WITHOUT_LIST(PLAIT_SIM_WITHOUT_ENUM)
#undef PLAIT_SIM_WITHOUT_ENUM
        PLAIT_SIM_WITHOUT_COUNT
} plait_sim_without;

/* Calls and commands of which the n-th can be made to fail: fail-WORD=N. X(WORD in capitals, word, status). */
#define PLAIT_SIM_FAILURE_LIST(X)                                                                            \
    X(ALLOC, alloc, PLAIT_OUT_OF_MEMORY)                                                                     \
    X(PREPARE, prepare, PLAIT_UNSUPPORTED)                                                                   \
    X(COMPILE, compile, PLAIT_UNSUPPORTED)                                                                   \
    X(COPY, copy, PLAIT_IO)                                                                                  \
    X(LAUNCH, launch, PLAIT_IO)                                                                              \
    X(WAIT, wait, PLAIT_IO)

typedef enum plait_sim_failure {
#define PLAIT_SIM_FAILURE_ENUM(upper, word, status) PLAIT_SIM_FAIL_##upper,
    PLAIT_SIM_FAILURE_LIST(PLAIT_SIM_FAILURE_ENUM)
#undef PLAIT_SIM_FAILURE_ENUM
        PLAIT_SIM_FAILURE_COUNT
} plait_sim_failure;

/* What the keys mean to whoever gives them is in docs/command-line.md. */
typedef struct plait_sim_options {
    char inner[PLAIT_SIM_ITEM_BYTES]; /* item of the device inside, with ':' in place of '/' */
    uint64_t mem_bytes, granularity_bytes, align_bytes, pad_bytes, max_buffer_bytes;
    /* copy_queues: what describe states; max_dim, max_rank: of operands, 0: any. */
    uint64_t copy_queues, max_dim, max_rank;
    uint64_t delay_seed, reorder_seed, delay_max_ns; /* seeds: 0 for no delays, for the order of submission */
    uint64_t latency_ns, overhead_ns;                /* of the link; of each launch */
    uint64_t fail_at[PLAIT_SIM_FAILURE_COUNT], lose_at; /* 0: never */
    double bandwidth;                                   /* of the link, bytes/s; 0: as fast as it goes */
    double flops, memory_bandwidth; /* of launches, FLOP/s and bytes/s; 0: as fast as they go */
    double speed;                   /* of launches, share of the inner device's */
    bool contiguous, copies_strides, astray, nan, poison, import;
    /* What it has not: by number of the word, the op, the type. */
    bool without[PLAIT_SIM_WITHOUT_COUNT], lacks_op[PLAIT_OP_COUNT], lacks_type[PLAIT_DTYPE_LIMIT];
} plait_sim_options;

/* Sets defaults, then each "key=value". INVALID_ARGUMENT names the known keys, words, ops or types, or the range. */
plait_status plait_sim_options_parse(plait_sim_options *out, const char *const *options, int n_options);

#endif
