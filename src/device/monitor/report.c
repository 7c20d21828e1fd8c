/* Breaches: said in one line, kept in a table of fixed size, counted for ever. Nothing here allocates, and nothing
 * takes the monitor's lock, so that every place can report. Not here: what is a breach.
 *
 * Invariant: rows of the table are written before they are counted, and never again, so readers need no lock. */
#include "device/monitor/monitor.h"

#include "base/log.h"

#include <stdio.h>
#include <string.h>

/* One row a rule, in the order of plait_monitor_rule: its name, whose fault it is, the status that a call returns for
 * it. */
static const plait_monitor_rule_info rules[] = {
#define RULE_ROW(name, text, side, status, meaning) {text, meaning, PLAIT_MONITOR_##side, PLAIT_##status},
    PLAIT_MONITOR_RULE_LIST(RULE_ROW)
#undef RULE_ROW
};

const plait_monitor_rule_info *plait_monitor_rule_of(plait_monitor_rule rule) {
    return (unsigned)rule < PLAIT_MONITOR_RULE_COUNT ? &rules[rule] : NULL;
}

/* Marks of no call have an empty name. */
const char *plait_monitor_function_name(plait_monitor_function function) {
    static const char *const names[] = {
#define FUNCTION_NAME(name) #name,
        PLAIT_MONITOR_FUNCTIONS(FUNCTION_NAME)
#undef FUNCTION_NAME
    };
    return function == PLAIT_MONITOR_F_none ? "" : names[function];
}

const char *plait_monitor_object_name(const plait_monitor_object *object, char out[128]) {
    static const char *const kinds[] = {"buffer", "event", "queue", "program"};
    const char *device = object->device->base.name;
    if (object->name[0])
        snprintf(out, 128, "%s %u (%s) of %s", kinds[object->kind], object->number, object->name, device);
    else
        snprintf(out, 128, "%s %u of %s", kinds[object->kind], object->number, device);
    return out;
}

/* A mark without a call is a place without a name: nothing is said of it then. */
static plait_monitor_place place_of(const plait_monitor_mark *mark) {
    plait_monitor_place place = {.function = "", .command = -1};
    if (!mark || mark->call == 0) return place;
    place.call = mark->call;
    place.function = plait_monitor_function_name((plait_monitor_function)mark->function);
    place.command = mark->command;
    return place;
}

/* "call 12 (submit, command 3)", cut to fit. */
static void print_place(const plait_monitor_place *place, char out[64]) {
    int n = snprintf(out, 64, "call %llu (%s", (unsigned long long)place->call, place->function);
    if (place->command >= 0 && n > 0 && n < 64)
        n += snprintf(out + n, 64 - (size_t)n, ", command %d", place->command);
    if (n > 0 && n < 63) snprintf(out + n, 64 - (size_t)n, ")");
}

/* The first PLAIT_MONITOR_KEPT are kept: later ones usually follow from them. */
static void keep(plait_monitor *monitor, const plait_monitor_violation *violation) {
    pthread_mutex_lock(&monitor->records_lock);
    uint64_t index = monitor->n_records;
    if (index < PLAIT_MONITOR_KEPT) monitor->records[index] = *violation;
    atomic_store(&monitor->n_records, index + 1);
    pthread_mutex_unlock(&monitor->records_lock);
}

/* The object's name, the text and the earlier place are put together in one buffer of the record, so a message is cut
 * and never lost. The order is: kept, logged, and then left as this thread's message, for logging might leave one of
 * its own. */
plait_status plait_monitor_report(const plait_monitor_call *call, plait_monitor_rule rule,
                                  const plait_monitor_object *object, const plait_monitor_mark *earlier,
                                  const char *format, ...) {
    plait_monitor *monitor = call->device->monitor;
    plait_monitor_violation violation = {.rule = rule, .earlier = place_of(earlier)};
    char text[PLAIT_ERROR_BYTES / 2], at[64], before[64];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    violation.at.call = call->number;
    violation.at.function = plait_monitor_function_name(call->function);
    violation.at.command = call->command;
    print_place(&violation.at, at);
    if (object) plait_monitor_object_name(object, violation.object);
    int n = snprintf(violation.message, sizeof violation.message, "monitor: %s: %s%s%s: %s", rules[rule].text,
                     at, object ? ", " : "", violation.object, text);
    if (violation.earlier.call && n > 0 && (size_t)n < sizeof violation.message) {
        print_place(&violation.earlier, before);
        snprintf(violation.message + n, sizeof violation.message - (size_t)n, "; earlier: %s", before);
    }
    keep(monitor, &violation);
    plait_log(&monitor->logger, PLAIT_LOG_ERROR, "%s", violation.message);
    plait_error_set(rules[rule].status, "%s", violation.message);
    return rules[rule].status;
}

uint64_t plait_monitor_count(const plait_monitor *monitor) {
    return atomic_load(&monitor->n_records);
}

bool plait_monitor_get(const plait_monitor *monitor, uint64_t index, plait_monitor_violation *out) {
    if (index >= PLAIT_MONITOR_KEPT || index >= atomic_load(&monitor->n_records)) return false;
    *out = monitor->records[index]; /* rows are written before the count, and never again */
    return true;
}
