/* Inside of a program: tasks that know what to run, and the places where addresses and dims go at launch.
 *
 * A program is immutable to whoever uses it. The blocks of its calls are the working memory of the one launch that
 * runs at a time: they are filled in under the pool's lock, so any number of runs and queues may use it. Nothing of a
 * launch is read after it.
 */
#ifndef PLAIT_DEVICE_CPU_PROGRAM_H
#define PLAIT_DEVICE_CPU_PROGRAM_H

#include "device/cpu/group.h"

/* What a phase runs: units of its own, behind those of the tasks before it. */
typedef struct plait_cpu_task plait_cpu_task;
struct plait_cpu_task {
    /* Asked at launch, after dims are bound: one of the functions of launch.c below, and its run. */
    int64_t (*units)(const plait_cpu_task *task);
    void (*run)(const plait_cpu_task *task, int64_t begin, int64_t end, int thread);
    int64_t n_units; /* of the launch that runs */
    union {
        struct {
            const plait_cpu_kernel *kernel;
            plait_cpu_call *call; /* of the program's calls */
            int phase;
        } kernel;
        struct { /* a chain of rows, and the row of x that it makes */
            int n;
            const plait_cpu_kernel **kernels;
            plait_cpu_call **calls;
            const plait_cpu_product_input *input; /* NULL: no product reads a prepared x */
        } rows;
        const plait_cpu_product *product;
        const plait_cpu_gated *gated;
    };
};

/* Tasks that may run at the same time; the next phase waits for all of them. */
typedef struct plait_cpu_phase {
    int first_task, n_tasks; /* a range of the program's tasks */
    int group;               /* of the prepared segment */
} plait_cpu_phase;

/* *address := slot's memory + offset, at launch. */
typedef struct plait_cpu_bind {
    void **address;
    uint32_t slot;
    uint64_t offset;
} plait_cpu_bind;

/* *dim := value of the extent, at launch. Only outermost dims vary, so strides are those of the bounds. */
typedef struct plait_cpu_bind_dim {
    int64_t *dim;
    plait_extent extent;
} plait_cpu_bind_dim;

struct plait_program {
    plait_cpu_work work; /* first: a worker gets from it to the program */
    plait_arena arena;   /* everything below */
    const char *device;
    int n_slots, n_dims, n_calls, n_tasks, n_binds, n_bind_dims;
    int64_t *bounds;       /* of the named dims */
    uint64_t *slot_bytes;  /* least size of each slot's buffer; 0: it may be absent */
    plait_cpu_call *calls; /* shared by the phases of a kernel */
    const char **names;    /* of the calls' nodes */
    uint32_t *error_words; /* of the calls; written by any worker */
    plait_cpu_task *tasks;
    plait_cpu_phase *phases;
    int64_t *units; /* of each phase */
    bool tracing;
    uint64_t *begin_ns; /* of each phase while tracing: when the first worker took it up; 0: it did not */
    plait_cpu_bind *binds;
    plait_cpu_bind_dim *bind_dims;
};

/* compile.c: fills the tables. The program is zeroed, with its arena. */
plait_status plait_cpu_build_program(plait_program *program, plait_cpu_reading *reading,
                                     const plait_prepared *prepared);

/* launch.c: the tasks' functions. */
int64_t plait_cpu_kernel_units(const plait_cpu_task *task);
void plait_cpu_kernel_run(const plait_cpu_task *task, int64_t begin, int64_t end, int thread);
int64_t plait_cpu_rows_units(const plait_cpu_task *task);
void plait_cpu_rows_run(const plait_cpu_task *task, int64_t begin, int64_t end, int thread);
int64_t plait_cpu_product_task_units(const plait_cpu_task *task);
void plait_cpu_product_task_run(const plait_cpu_task *task, int64_t begin, int64_t end, int thread);
int64_t plait_cpu_gated_task_units(const plait_cpu_task *task);
void plait_cpu_gated_task_run(const plait_cpu_task *task, int64_t begin, int64_t end, int thread);
/* What the pool calls for each piece of a phase: cut by tasks. */
void plait_cpu_run_tasks(const plait_cpu_work *work, int phase, int64_t begin, int64_t end, int thread);

#endif
