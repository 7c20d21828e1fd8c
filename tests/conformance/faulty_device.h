/* A device with one fault of choice. It is a small complete device: memory of its own that the host does not see, queues
 * with threads, events, programs that are the reference kernels. Written against the public headers alone, as a vendor
 * would. `faulty` behaves; `faulty:fault=NAME` has the fault of that name and no other; `lose=N` makes it lost at its
 * N-th command, as devices may be.
 *
 * The list says for each fault what is broken, a check of the conformance suite that must find it, and the message that
 * the check must give ('*' stands for anything).
 */
#ifndef TESTS_CONFORMANCE_FAULTY_DEVICE_H
#define TESTS_CONFORMANCE_FAULTY_DEVICE_H

#include "plait/device.h"

/* X(enum name, option, what is broken, check, message) */
#define FAULTS(X)                                                                                            \
    /* moving bytes */                                                                                       \
    X(LOST_COPY, "lost-copy", "every seventh copy is not done", "copy/sizes",                                \
      "copied bytes: byte * of * is *, expected * (* bytes differ)")                                         \
    X(SHORT_COPY, "short-copy", "copies of more than 64 bytes leave out the last one", "copy/sizes",         \
      "copied bytes: byte 64 of 65 is *, expected * (1 bytes differ)")                                       \
    X(SWAPPED_PITCHES, "swapped-pitches", "boxes step with the other side's row pitch", "copy/box-copy",     \
      "box 1: 7 bytes, 5 rows, 1 planes: a buffer after a copy of a box: byte 18 of 4099 is *")              \
    X(PLANE_PITCH, "plane-pitch", "planes of a box are taken as if they lay dense", "copy/box-write",        \
      "box 4: 13 bytes, 4 rows, 3 planes: a buffer after a write of a box: byte *")                          \
    X(REGION_OFFSET, "region-offset", "reads begin at the start of the buffer", "copy/sizes",                \
      "copied bytes: byte 0 of *")                                                                           \
    X(WRITE_PAST, "write-past", "writes clear the byte behind their region", "copy/random",                  \
      "a buffer after random commands: byte * is 0, expected *")                                             \
    X(FILL_TAIL, "fill-tail", "fills leave out what is behind the last whole word", "copy/random",           \
      "a buffer after random commands: byte *")                                                              \
    X(READ_PAST, "read-past", "reads write one byte more to the host", "copy/sizes",                         \
      "host memory behind a read's target: byte 0 of 32 is 0, expected 195")                                 \
    X(NOTHING_MOVES, "nothing-moves", "a size of 0 by pointer is taken as the whole region", "copy/nothing", \
      "a buffer after commands that move nothing: byte 0 of 5000 is 195, *")                                 \
    X(RANGE_CLAMPED, "range-clamped", "what leaves its buffer is cut off in silence", "copy/outside",        \
      "a write beyond its buffer: OK, expected OUT_OF_RANGE")                                                \
    X(RANGE_PARTLY, "range-partly",                                                                          \
      "what leaves its buffer is refused after the part that fits was written", "copy/outside",              \
      "a write beyond its buffer: byte 60 of 61 is 0, expected * (1 bytes differ)")                          \
    X(BOX_OVERFLOW, "box-overflow", "the span of a box is computed in 32 bits", "copy/box-outside",          \
      "a * of a box whose * overflow: OK, expected OUT_OF_RANGE")                                            \
    /* queues */                                                                                             \
    X(SIZE_AT_SUBMIT, "size-at-submit", "sizes behind pointers are read when a list is submitted",           \
      "queue/read-late", "a buffer after commands whose sizes an earlier command has brought: byte 111 *")   \
    X(OVER_WAIT, "over-wait", "a command overtakes the wait in front of it", "queue/wait-between",           \
      "a buffer while its queue waits in the middle of a list: byte 0 of 256 is 2, expected 1 *")            \
    X(OUT_OF_ORDER, "out-of-order", "large copies are done by somebody else, later", "queue/hazards",        \
      "bytes after copies that depend on each other: byte *")                                                \
    X(DESTROY_DROPS, "destroy-drops", "queue_destroy forgets what is not done yet", "queue/destroy",         \
      "what was read by a queue that is destroyed: byte *")                                                  \
    X(SUBMIT_BLOCKS, "submit-blocks", "submit returns when the list is done", "queue/deep",                  \
      "did not end within * s; its device is given up")                                                      \
    X(FEW_QUEUES, "few-queues", "there are five queues", "queue/eight",                                      \
      "queue 5 of 8: faulty: there are 5 queues already")                                                    \
    /* events */                                                                                             \
    X(EARLY_EVENT, "early-event", "signals are given when they are submitted", "event/not-early",            \
      "what the host sees when a read is signalled: byte *")                                                 \
    X(LATE_EVENT, "late-event", "signals are given at the end of their list", "event/not-late",              \
      "a signal in front of a wait: its event did not reach 1 within * s")                                   \
    X(EARLY_READ, "early-read", "the second half of a large read comes after its signal", "event/not-early", \
      "what the host sees when a read is signalled: byte *")                                                 \
    X(LOST_SIGNAL, "lost-signal", "every fiftieth signal is not given", "event/turns",                       \
      "the last turn of two queues: its event did not reach 100 within * s")                                 \
    X(BACKWARDS, "backwards", "a signal sets the value, also to a smaller one", "event/never-back",          \
      "the event is at 0, expected 5")                                                                       \
    X(DEAF_QUEUE, "deaf-queue", "queues do not hear signals that the host gives", "event/host-signal",       \
      "a queue that waited for the host: its event did not reach 2 within * s")                              \
    X(TIMEOUT_OK, "timeout-ok", "a wait whose time is over returns OK", "event/timeout",                     \
      "a wait for what never comes: OK, expected TIMEOUT")                                                   \
    X(FAILURE_FORGOTTEN, "failure-forgotten", "queries tell an event's failure once", "event/host-fail",     \
      "a query of an event that failed: OK, expected CANCELLED")                                             \
    X(QUEUE_RECOVERS, "queue-recovers", "a queue goes on after it has told its failure", "failure/region",   \
      "synchronise of a queue that failed: OK, expected OUT_OF_RANGE")                                       \
    X(FAILED_GOES_ON, "failed-goes-on", "commands behind a failed one are done", "failure/region",           \
      "a wait for an event of a queue that failed: OK, expected OUT_OF_RANGE")                               \
    X(NO_MESSAGE, "no-message", "failures leave no message", "memory/oversized",                             \
      "a buffer larger than the largest: OUT_OF_MEMORY without a message")                                   \
    X(STATUS_SWALLOWED, "status-swallowed", "a command that fails is left out, and nobody is told",          \
      "failure/region", "a wait for an event of a queue that failed: OK, expected OUT_OF_RANGE")             \
    /* memory */                                                                                             \
    X(IMPORT_COPIES, "import-copies", "an import is a copy", "memory/import",                                \
      "a copy of imported memory that the host has changed: byte 0 of 5000 is *")                            \
    X(FALSE_MAPPING, "false-mapping", "buffers show an address that is not their memory", "memory/mapped",   \
      "what the host sees of a mapped buffer: byte 0 of 1000 is *")                                          \
    X(UNMAPPED_STAGING, "unmapped-staging", "staging buffers show no address", "memory/mapped",              \
      "a buffer for usage 8 is not mapped for the host")                                                     \
    X(SHARED_MEMORY, "shared-memory", "a buffer gets the memory of one that lives", "memory/apart",          \
      "a buffer beside others that came and went: byte *")                                                   \
    X(BAD_BUFFER, "bad-buffer", "when memory is used up, buffers share what there is", "memory/exhaustion",  \
      "* buffers of * bytes were given out of * free bytes")                                                 \
    X(OUTPUT_SET, "output-set", "a buffer_create that fails sets its output", "memory/oversized",            \
      "a failed buffer_create has set its output")                                                           \
    X(MEMORY_LOST, "memory-lost", "destroyed buffers are still counted", "memory/query",                     \
      "of * free bytes * are left after a buffer has come and gone")                                         \
    X(PADDING_HIDDEN, "padding-hidden", "allocation_bytes leaves out the padding", "memory/query",           \
      "a buffer of 100001 bytes took 100032, expected between that and the 100001 of allocation_bytes")      \
    /* the device */                                                                                         \
    X(FACTS_CHANGE, "facts-change", "the alignment depends on when it is asked for", "device/facts",         \
      "describe: numbers have changed that must not")                                                        \
    X(OPTIONS_IGNORED, "options-ignored", "unknown options are ignored", "device/options",                   \
      "create with the option \"no-such-key=1\": OK, expected INVALID_ARGUMENT")                             \
    X(STUB_WITHOUT_WORDS, "stub-without-words", "an optional call says UNSUPPORTED and no more",             \
      "memory/pinned", "host_alloc: UNSUPPORTED without a message")                                          \
    X(CLOCK_STANDS, "clock-stands", "the device's clock stands still", "device/clock",                       \
      "time_query: the device's clock went from 1 to 1 in 2 ms")                                             \
    /* programs: operands */                                                                                 \
    X(WRONG_STRIDE, "wrong-stride", "rows are taken as if they lay dense", "op/add/0/padded",                \
      "output 0: F32 element * is *nan, expected * within *")                                                \
    X(DENSE_ELEMENTS, "dense-elements", "elements of a row are taken as neighbours", "op/silu/0/gapped",     \
      "output 0: F32 element [*] is *nan, expected * within *")                                              \
    X(OPERAND_OFFSET, "operand-offset", "operands begin at aligned places", "op/add/0/offset",               \
      "output 0: F32 element [0, 0, 0, 0] is *nan, expected * within *")                                     \
    X(RAGGED, "ragged", "the last element of rows of odd length is left out", "op/silu/0/ragged-i-17",       \
      "output 0: F32 element [16, 0, 0, 0] is *nan, expected * within *")                                    \
    X(WHOLE_VECTORS, "whole-vectors", "rows are stored in vectors of four", "op/matmul/0/plain",             \
      "*a byte that no node writes has changed from 255 to 0: *")                                            \
    X(PADDING_WRITTEN, "padding-written", "a cache's padding is cleared", "op/kv_write/7/plain",             \
      "a byte that no node writes has changed from 255 to 0: * behind the start of value 0, *")              \
    X(BOUND_USED, "bound-used", "named dims are taken at their bound", "op/add/0/bounded",                   \
      "a byte that no node writes has changed from 255 to *: *")                                             \
    X(EMPTY_TOUCHES, "empty-touches", "a launch over nothing writes one element", "op/add/0/empty",          \
      "a byte that no node writes has changed from 255 to 0: 0 behind the start of value 2, *")              \
    X(BROADCAST, "broadcast", "broadcast along dim 2 goes along dim 1 instead", "op/add/2/broadcast-1-4",    \
      "output 0: F32 element * is *, expected * within *")                                                   \
    X(IN_PLACE, "in-place", "results that lie over an input are cleared first", "op/add/0/in-place",         \
      "output 0: F32 element [0, 0, 0, 0] is *, expected * within *")                                        \
    X(ALIASED, "aliased", "the second of two equal inputs reads as zeros", "op/mul/0/alias-0-1",             \
      "output 0: F32 element [0, 0, 0, 0] is 0, expected * within *")                                        \
    /* programs: numbers */                                                                                  \
    X(TRUNCATED, "truncated", "casts to F16 cut off instead of rounding", "op/cast/0/plain",                 \
      "output 0: F16 element * is *, expected * within 0")                                                   \
    X(TIES_AWAY, "ties-away", "casts to BF16 round ties away from zero", "op/cast/1/special",                \
      "output 0: BF16 element * is *1.0078125, expected *1 within 0")                                        \
    X(NAN_SWALLOWED, "nan-swallowed", "NaN counts as 0", "op/silu/0/nan",                                    \
      "output 0: F32 element * is *, expected *nan within *")                                                \
    X(OVERFLOW, "overflow", "squares of large numbers overflow", "op/rms_norm/0/large",                      \
      "output 0: F32 element * is *, expected * within *")                                                   \
    X(UNDERFLOW, "underflow", "numbers below 1e-20 count as 0", "op/scale/0/tiny",                           \
      "output 0: F32 element * is *0, expected * within *")                                                  \
    X(BLOCK_BORDER, "block-border", "the last block of a row has the scale of the one before",               \
      "op/matmul/type-w-Q4_K/random", "output 0: F32 element * is *, expected * within *")                   \
    X(LARGEST_CODE, "largest-code", "the largest code of Q8_0 counts as the next smaller one",               \
      "op/get_rows/type-table-Q8_0/codes", "output 0: F32 element * is *, expected * within 0")              \
    X(ONE_TERM, "one-term", "a product of 576 terms leaves out the last one",                                \
      "shape/matmul/smollm2-q-F32/1", "output 0: F32 element * is *, expected * within *")                   \
    X(TIES, "ties", "of equal numbers the last one is the largest", "op/argmax/0/special",                   \
      "output 0: I32 element * is *, expected * within 0")                                                   \
    X(UNSTEADY, "unsteady", "sums depend on what else is going on", "op/matmul/0/plain",                     \
      "a second run: image: byte *")                                                                         \
    X(BAD_ID, "bad-id", "an id outside its range is not told", "failure/bad-id/get_rows-1",                  \
      "an id out of its range was not noticed")                                                              \
    X(WRONG_CLASS, "wrong-class", "devices of one class do not agree", "peer/twin/equal-bytes",              \
      "a value on a second device of the same numeric class: byte *")                                        \
    /* programs: decisions, life */                                                                          \
    X(SUPPORTS_LIES, "supports-lies", "supports says yes to hadamard, and compile no",                       \
      "op/hadamard/0/plain", "supports said yes: faulty has no hadamard")                                    \
    X(SUPPORTS_FLIPS, "supports-flips", "supports says no every hundredth time", "program/supports",         \
      "*: supports says *, and the contrary when asked again")                                               \
    X(NO_REASON, "no-reason", "supports says no without a reason", "op/hadamard/0/plain",                    \
      "supports says no, and no reason")                                                                     \
    X(ORDER, "order", "prepare turns the order of the nodes round", "segment/elementwise/F32/file/1",        \
      "prepare: node 0 (scale) stands behind node 1 (mul), which depends on it")                             \
    X(ELIDED, "elided", "prepare leaves out a value that is needed", "segment/elementwise/F32/file/1",       \
      "prepare: value * is needed and left out")                                                             \
    X(KEEPS_POINTER, "keeps-pointer", "a program reads the caller's bounds when it runs",                    \
      "program/keeps-nothing", "a program whose segment is gone: faulty: dim 0 is 6, expected 0 to 1")       \
    X(KEEPS_DIMS, "keeps-dims", "a program keeps the dims of its first launch", "program/dims",              \
      "dim 1: a byte that no node writes has changed from 255 to *")                                         \
    X(KEEPS_BUFFERS, "keeps-buffers", "a program keeps the buffers of its first launch", "program/often",    \
      "the result differs from the reference by *, at most 0.01")                                            \
    X(SHARED_STATE, "shared-state", "launches of a program share their operands' addresses",                 \
      "program/several-queues", "thread *: run *: the image of a program: byte *")                           \
    X(SHARED_SCRATCH, "shared-scratch", "all programs use one scratch of the device", "program/two-at-once", \
      "thread *: run *: the image of a program: byte *")                                                     \
    X(SCRATCH_OVERRUN, "scratch-overrun", "a program writes behind its scratch", "program/often",            \
      "scratch that belongs to no group: byte * of * is 0, expected 255")                                    \
    X(DIM_CLAMPED, "dim-clamped", "a dim above its bound is taken as the bound", "failure/launch",           \
      "a dim above its bound was accepted*")                                                                 \
    X(SPANS_PAST, "spans-past", "a launch leaves more spans than there is room for", "program/spans",        \
      "a launch left * spans in room for *")                                                                 \
    X(LEAK_RUN, "leak-run", "every launch keeps some memory", "life/leaks-programs",                         \
      "launches of one program: * bytes of host memory were left behind in 200 rounds")                      \
    X(LEAK_OBJECT, "leak-object", "destroyed events keep their memory", "life/leaks-objects",                \
      "queues, events and buffers that came and went: * bytes of host memory were left behind in 200 *")     \
    X(LEAK_FAILURE, "leak-failure", "a command that fails keeps some memory", "life/leaks-failures",         \
      "calls and commands that failed: * bytes of host memory were left behind in 200 rounds")               \
    /* two devices; loss */                                                                                  \
    X(PEER_COPY, "peer-copy", "copies to a device that is in reach end in the own memory",                   \
      "peer/twin/copies", "the target of a copy between devices: byte *")                                    \
    X(REACHES_LIES, "reaches-lies", "the device says it reaches a cpu", "peer/cpu/copies",                   \
      "a copy between devices that reach each other: *")                                                     \
    X(FOREIGN_WAIT, "foreign-wait", "waits for events of other devices are left out", "peer/cpu/events",     \
      "bytes that two devices hand over: byte *")                                                            \
    X(LOST_SLEEPERS, "lost-sleepers", "who waits when the device is lost waits on", "life/lost",             \
      "a wait for an event that is not reached: TIMEOUT, expected DEVICE_LOST")                              \
    X(LOST_HEALTHY, "lost-healthy", "a lost device says that it is well", "life/lost",                       \
      "health of a lost device: OK, expected DEVICE_LOST")                                                   \
    X(LOST_GIVES, "lost-gives", "a lost device gives out buffers", "life/lost",                              \
      "buffer_create of a lost device: OK, expected DEVICE_LOST")

typedef enum fault {
    FAULT_NONE,
#define FAULT_ENUM(name, option, what, check, message) FAULT_##name,
    FAULTS(FAULT_ENUM)
#undef FAULT_ENUM
} fault;

/* The kind "faulty". The caller registers it. */
extern const plait_device_vtable faulty_vtable;

#endif
