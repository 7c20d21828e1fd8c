/* What goes wrong on request: the n-th call that fails, the command at which the device is lost, random delays; and the
 * slowness of the link. Not here: who asks (buffer.c, queue.c, program.c, event.c). Invariant: the same options and the
 * same sequence of calls of one kind meet the same troubles. */
#define _GNU_SOURCE
#include "device/sim/sim.h"

#include "base/os.h"
#include "base/size.h"
#include "plait/host_queue.h"

#include <time.h>

static const struct {
    const char *word;
    plait_status status;
} failures[] = {
#define FAILURE(upper, word, status) {#word, status},
    PLAIT_SIM_FAILURE_LIST(FAILURE)
#undef FAILURE
};

static const char *const without[] = {
#define WITHOUT(upper, word, what) what,
    PLAIT_SIM_WITHOUT_LIST(WITHOUT)
#undef WITHOUT
};

plait_status plait_sim_alive(plait_sim_device *device) {
    return atomic_load_explicit(&device->lost, memory_order_acquire) ? plait_error_raise(&device->loss)
                                                                     : PLAIT_OK;
}

/* Calls are counted over all threads of the device, one count a kind. Only the n-th fails: later ones work again, as
 * after an error that passes. */
plait_status plait_sim_count(plait_sim_device *device, plait_sim_failure kind) {
    uint64_t fail_at = device->options.fail_at[kind];
    if (!fail_at) return PLAIT_OK;
    pthread_mutex_lock(&device->lock);
    uint64_t n = ++device->calls[kind];
    pthread_mutex_unlock(&device->lock);
    if (n != fail_at) return PLAIT_OK;
    return plait_error(failures[kind].status, "%s: %s number %llu fails, as was asked for", device->base.name,
                       failures[kind].word, (unsigned long long)n);
}

/* The loss is known before anything fails for it: an event that is made in between looks at `lost` itself (event.c).
 * Queues fail with this message, and so do all events that are not reached. */
void plait_sim_lose(plait_sim_device *device, const char *cause) {
    plait_error_record loss;
    plait_error_save(plait_error(PLAIT_DEVICE_LOST, "%s is lost: %s", device->base.name, cause), &loss);
    pthread_mutex_lock(&device->lock);
    if (!atomic_load_explicit(&device->lost, memory_order_relaxed)) {
        device->loss = loss;
        atomic_store_explicit(&device->lost, true, memory_order_release);
        plait_sim_queues_fail(device, &loss);
        for (plait_sim_event *event = device->events; event; event = event->next)
            plait_sim_event_fail(&event->base, &loss);
    }
    pthread_mutex_unlock(&device->lock);
}

static plait_status count_kind(plait_sim_device *device, const plait_command *command) {
    switch (command->kind) {
    case PLAIT_COMMAND_WRITE:
    case PLAIT_COMMAND_READ:
    case PLAIT_COMMAND_COPY:
    case PLAIT_COMMAND_FILL: return plait_sim_count(device, PLAIT_SIM_FAIL_COPY);
    case PLAIT_COMMAND_LAUNCH: return plait_sim_count(device, PLAIT_SIM_FAIL_LAUNCH);
    case PLAIT_COMMAND_WAIT: return plait_sim_count(device, PLAIT_SIM_FAIL_WAIT);
    case PLAIT_COMMAND_SIGNAL: break;
    }
    return PLAIT_OK;
}

/* Commands of all queues are one count. The command that loses the device has no effect itself. */
plait_status plait_sim_count_command(plait_sim_device *device, const plait_command *command) {
    if (device->options.lose_at) {
        pthread_mutex_lock(&device->lock);
        uint64_t n = ++device->n_commands;
        pthread_mutex_unlock(&device->lock);
        if (n == device->options.lose_at)
            plait_sim_lose(device, "at the command at which that was asked for");
    }
    PLAIT_TRY(plait_sim_alive(device));
    return count_kind(device, command);
}

plait_status plait_sim_offers(const plait_sim_device *device, plait_sim_without what) {
    if (!device->options.without[what]) return PLAIT_OK;
    return plait_error(PLAIT_UNSUPPORTED, "%s was made without %s", device->base.name, without[what]);
}

/* splitmix64: every seed gives a sequence of its own. */
uint64_t plait_sim_random(uint64_t *state) {
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* To a moment and not for a time, so that being woken late does not add up; signals may wake it early. */
void plait_sim_sleep_until(uint64_t moment_ns) {
    struct timespec moment = {.tv_sec = (time_t)(moment_ns / 1000000000u),
                              .tv_nsec = (long)(moment_ns % 1000000000u)};
    while (plait_time_ns() < moment_ns) clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &moment, NULL);
}

/* Half of the commands go at once, one in thirty-two waits for up to delay-max, the others for up to a sixteenth of
 * that: what is ordered by luck alone then happens the other way round. */
void plait_sim_delay(const plait_sim_device *device, uint64_t *random) {
    uint64_t r = plait_sim_random(random), scale = device->options.delay_max_ns;
    if (r & 1) return;
    if (r & 0x1E) scale /= 16;
    plait_sim_sleep_until(plait_time_ns() + (r >> 8) % (scale + 1));
}

/* Nanoseconds of what takes so many seconds; what takes for ever, takes thirty years. */
static uint64_t as_ns(double seconds) {
    return (uint64_t)(seconds < 1e9 ? seconds * 1e9 : 1e18);
}

/* Each way of the link is one at a time: bytes begin to move when those before them have. Latency comes behind that and
 * does not keep the link busy, so many small transfers overlap in it. */
uint64_t plait_sim_link_claim(plait_sim_device *device, int way, uint64_t size_bytes) {
    const plait_sim_options *options = &device->options;
    uint64_t move_ns = options->bandwidth > 0 ? as_ns((double)size_bytes / options->bandwidth) : 0;
    uint64_t now = plait_time_ns();
    pthread_mutex_lock(&device->lock);
    uint64_t *free_ns = &device->link_free_ns[way];
    *free_ns = (*free_ns > now ? *free_ns : now) + move_ns;
    uint64_t arrival = *free_ns + options->latency_ns;
    pthread_mutex_unlock(&device->lock);
    return arrival;
}

/* ---- speed ---- */

/* What is not limited is stated as so fast that it takes no time in any prediction. */
static const double UNLIMITED = 1e15;

static uint64_t rate(double asked) {
    return (uint64_t)(asked > 0 ? asked : UNLIMITED);
}

/* Stated only when launches have a speed of their own; otherwise the device is measured like any other. */
plait_status plait_sim_figures(plait_device *base, plait_device_figures *out) {
    const plait_sim_options *o = &((plait_sim_device *)base)->options;
    if (!(o->flops > 0) && !(o->memory_bandwidth > 0))
        return plait_error(PLAIT_UNSUPPORTED, "%s: its speed was not given (flops=, memory-bandwidth=)",
                           base->name);
    out->integer_flop_per_s = out->float_flop_per_s = out->attention_flop_per_s = rate(o->flops);
    out->weight_bytes_per_s = out->bytes_per_s = rate(o->memory_bandwidth);
    out->launch_ns = o->overhead_ns;
    out->write_bytes_per_s = out->read_bytes_per_s = out->peer_bytes_per_s = rate(o->bandwidth);
    out->write_ns = out->read_ns = out->peer_ns = o->latency_ns;
    return PLAIT_OK;
}

static double larger(double a, double b) {
    return a > b ? a : b;
}

/* Nodes one after the other, each bound by arithmetic or by memory (the roofline of Williams, Waterman and Patterson);
 * never faster than the device inside was, nor than `speed` makes it. Costs scale with the outermost dim of each node's
 * output. */
uint64_t plait_sim_end_of_launch(const plait_sim_device *device, const plait_program *program,
                                 const int64_t *dims, uint64_t begin_ns) {
    const plait_sim_options *o = &device->options;
    double taken_s = (double)(plait_time_ns() - begin_ns) / o->speed * 1e-9, model_s = 0;
    for (size_t i = 0; i < program->n_costs; i++) {
        const plait_sim_cost *cost = &program->costs[i];
        int64_t bound = cost->bound > 0 ? cost->bound : 1;
        double share = (double)plait_extent_value(&cost->outer, bound, dims) / (double)bound;
        double flop_s = o->flops > 0 ? cost->flop * share / o->flops : 0;
        double bytes_s = o->memory_bandwidth > 0 ? cost->bytes * share / o->memory_bandwidth : 0;
        model_s += larger(flop_s, bytes_s);
    }
    return begin_ns + as_ns(larger(taken_s, model_s)) + o->overhead_ns;
}

/* Spans keep their places in relation to each other. Only ever made longer. */
void plait_sim_stretch(plait_launch_trace *trace, size_t first, uint64_t begin_ns, uint64_t old_end_ns,
                       uint64_t new_end_ns) {
    double factor =
        old_end_ns > begin_ns ? (double)(new_end_ns - begin_ns) / (double)(old_end_ns - begin_ns) : 1;
    for (size_t i = first; factor > 1 && i < trace->n; i++) {
        struct plait_launch_span *span = &trace->spans[i];
        span->begin_ns = begin_ns + (uint64_t)((double)(span->begin_ns - begin_ns) * factor);
        span->end_ns = begin_ns + (uint64_t)((double)(span->end_ns - begin_ns) * factor);
    }
}
