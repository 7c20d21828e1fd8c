/* The registry of device kinds, loading kinds from libraries, and the parsing of device-list items. This is one of the
 * few places with global state: a table that only grows, under a lock. Not here: cutting a list into items and
 * expanding them (list.c), names and queues of devices (context.c).
 *
 * Invariant: every registered table is a copy in which each slot is filled, so nobody tests a slot for NULL; a vtable
 * pointer that was handed out stays valid for ever; of a library all kinds are registered, or none. */
#define _GNU_SOURCE /* dladdr */
#include "base/alloc.h"
#include "base/size.h"
#include "base/status.h"
#include "base/strbuf.h"
#include "device/cpu/cpu.h"
#include "device/null/null.h"
#include "device/sim/sim.h"

#include <ctype.h>
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* MAX_TABLE_BYTES: tables of later versions have more slots; a size beyond this is no size. */
enum { MAX_KINDS = 32, MAX_OPTIONS = 32, MAX_TABLE_BYTES = 65536 };

/* The built-in kinds, in the order in which they are listed. */
#define BUILT_IN_KINDS(X)                                                                                    \
    X(plait_cpu_vtable)                                                                                      \
    X(plait_null_vtable)                                                                                     \
    X(plait_sim_vtable)

/* An array of fixed size, so that tables never move: pointers into it are read without the lock, and n_kinds is what
 * the lock guards. */
static plait_device_vtable kinds[MAX_KINDS];
static int n_kinds;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t built_in_once = PTHREAD_ONCE_INIT;

/* ---- stubs of optional slots ---- */

/* What a stub answers: the device's name, its kind, and what it does not offer. */
static plait_status lacks(const plait_device *device, const char *what) {
    return plait_error(PLAIT_UNSUPPORTED, "device %s (%s) offers no %s", device->name, device->vtable->kind,
                       what);
}

static plait_status no_import(plait_device *device, void *host, uint64_t size_bytes, uint32_t usage,
                              plait_buffer **out) {
    (void)host, (void)size_bytes, (void)usage, (void)out;
    return lacks(device, "import of host memory");
}

static plait_status no_encodings(plait_device *device, const plait_weight_use *use,
                                 plait_encoding_offer *offers, int *n_offers) {
    (void)use, (void)offers, (void)n_offers;
    return lacks(device, "packed weights");
}

static plait_status no_pack(plait_device *device, const plait_operand *source, plait_encoding encoding,
                            int64_t row_begin, int64_t row_end, plait_region target) {
    (void)source, (void)encoding, (void)row_begin, (void)row_end, (void)target;
    return lacks(device, "packed weights");
}

static plait_status no_unpack(plait_device *device, const plait_operand *shape, plait_encoding encoding,
                              int64_t row_begin, int64_t row_end, plait_region source, void *target) {
    (void)shape, (void)encoding, (void)row_begin, (void)row_end, (void)source, (void)target;
    return lacks(device, "packed weights");
}

/* Defaults from what the device says of itself. They call describe each time: a kind that is asked often supplies its
 * own. */
static plait_status aligned_bytes(plait_device *device, uint64_t size_bytes, uint32_t usage,
                                  uint64_t *out_bytes) {
    plait_device_info info;
    (void)usage;
    PLAIT_TRY(device->vtable->describe(device, &info));
    if (!plait_align_u64(size_bytes, info.alignment, out_bytes))
        return plait_error(PLAIT_OUT_OF_RANGE, "%s: a buffer of %llu bytes", device->name,
                           (unsigned long long)size_bytes);
    return PLAIT_OK;
}

/* For kinds that have no memory_query: the numbers of describe, as fresh as it gives them. */
static plait_status described_memory(plait_device *device, uint64_t *out_total_bytes,
                                     uint64_t *out_free_bytes) {
    plait_device_info info;
    PLAIT_TRY(device->vtable->describe(device, &info));
    *out_total_bytes = info.memory_total_bytes;
    *out_free_bytes = info.memory_free_bytes;
    return PLAIT_OK;
}

/* A device always reaches itself, and nothing is assumed of others. */
static bool reaches_itself(plait_device *device, plait_device *other) {
    return device == other;
}

static plait_status no_host_alloc(plait_device *device, uint64_t size_bytes, void **out) {
    (void)size_bytes, (void)out;
    return lacks(device, "pinned host memory");
}

static void no_host_free(plait_device *device, void *host) {
    (void)device, (void)host; /* there is nothing that host_alloc has given */
}

static plait_status no_event_import(plait_device *device, plait_event *foreign, plait_event **out) {
    (void)foreign, (void)out;
    return lacks(device, "events of other devices");
}

static plait_status no_program_update(plait_device *device, plait_program *program,
                                      const plait_segment *segment, const int *nodes, int n_nodes) {
    (void)program, (void)segment, (void)nodes, (void)n_nodes;
    return lacks(device, "updates of programs");
}

static plait_status no_time_query(plait_device *device, uint64_t *out_device_ns, uint64_t *out_host_ns) {
    (void)out_device_ns, (void)out_host_ns;
    return lacks(device, "clock");
}

static plait_status no_name_object(plait_device *device, plait_device_object kind, void *object,
                                   const char *name) {
    (void)kind, (void)object, (void)name;
    return lacks(device, "names of objects");
}

static plait_status no_figures(plait_device *device, plait_device_figures *out) {
    (void)out;
    return lacks(device, "figures of its own");
}

/* Every item is one device, with the options that it has. */
static plait_status expand_to_itself(const char *const *items, int n_items, int threads,
                                     plait_item_sink *emit, void *user) {
    (void)threads;
    for (int i = 0; i < n_items; i++) PLAIT_TRY(emit(user, i, items[i]));
    return PLAIT_OK;
}

/* Optional slots and what stands in for them: X(slot, stub). */
#define OPTIONALS(X)                                                                                         \
    X(buffer_import, no_import)                                                                              \
    X(encodings, no_encodings)                                                                               \
    X(pack, no_pack)                                                                                         \
    X(unpack, no_unpack)                                                                                     \
    X(allocation_bytes, aligned_bytes)                                                                       \
    X(memory_query, described_memory)                                                                        \
    X(reaches, reaches_itself)                                                                               \
    X(host_alloc, no_host_alloc)                                                                             \
    X(host_free, no_host_free)                                                                               \
    X(event_import, no_event_import)                                                                         \
    X(program_update, no_program_update)                                                                     \
    X(time_query, no_time_query)                                                                             \
    X(name_object, no_name_object)                                                                           \
    X(figures, no_figures)                                                                                   \
    X(expand, expand_to_itself)

/* Only slots that are NULL: a kind's own are never replaced. An older kind's shorter table has zeros behind its end
 * (append_kind), so slots that it does not know are filled too. */
static void fill_stubs(plait_device_vtable *table) {
#define FILL(slot, stub)                                                                                     \
    if (!table->slot) table->slot = stub;
    OPTIONALS(FILL)
#undef FILL
}

/* ---- registering ---- */

/* Must-haves by name: X(slot). */
#define MUST_HAVES(X)                                                                                        \
    X(create)                                                                                                \
    X(destroy)                                                                                               \
    X(describe)                                                                                              \
    X(buffer_create)                                                                                         \
    X(buffer_destroy)                                                                                        \
    X(event_create)                                                                                          \
    X(event_destroy)                                                                                         \
    X(event_query)                                                                                           \
    X(event_wait)                                                                                            \
    X(event_signal)                                                                                          \
    X(event_fail)                                                                                            \
    X(queue_create)                                                                                          \
    X(queue_destroy)                                                                                         \
    X(submit)                                                                                                \
    X(synchronise)                                                                                           \
    X(supports)                                                                                              \
    X(prepare)                                                                                               \
    X(prepared_destroy)                                                                                      \
    X(compile)                                                                                               \
    X(program_destroy)                                                                                       \
    X(health)

/* A kind's name stands before ':' and ',' in a device list, and in messages. */
static bool name_is_fine(const char *kind) {
    size_t limit = sizeof((plait_device_info *)0)->kind, n = 0;
    while (kind && n < limit && isgraph((unsigned char)kind[n]) && !strchr(":,=", kind[n])) n++;
    return n > 0 && n < limit && kind[n] == '\0';
}

/* A kind that was compiled against structs of other sizes would read and write beside them. */
static plait_status check_sizes(const plait_device_vtable *vtable) {
    static const plait_device_sizes ours = PLAIT_DEVICE_SIZES;
    static const char *const names[] = {"command", "segment",     "segment_node", "prepared",
                                        "group",   "device_info", "buffer",       "op_use"};
    /* plait_device_sizes is nothing but uint32_t, so it is compared as an array, in the order of its members. */
    const uint32_t *a = &vtable->sizes.command, *b = &ours.command;
    for (size_t i = 0; i < PLAIT_COUNT_OF(names); i++)
        if (a[i] != b[i])
            return plait_error(
                PLAIT_INVALID_ARGUMENT,
                "device kind: its plait_%s has %u bytes, expected %u (sizes = PLAIT_DEVICE_SIZES)", names[i],
                a[i], b[i]);
    return PLAIT_OK;
}

/* The version first: of another one, nothing behind it can be trusted to be what we take it for. */
static plait_status check_vtable(const plait_device_vtable *vtable) {
    if ((uintptr_t)vtable % _Alignof(plait_device_vtable) != 0)
        return plait_error(PLAIT_INVALID_ARGUMENT, "device kind: %p is no address of a table",
                           (const void *)vtable);
    if (vtable->version != PLAIT_DEVICE_VERSION)
        return plait_error(PLAIT_INVALID_ARGUMENT,
                           "device kind: interface version %u, expected %d; compile it with the headers of "
                           "this plait",
                           vtable->version, PLAIT_DEVICE_VERSION);
    /* A table must reach to the end of the must-haves; optional slots may be missing from its end. */
    if (vtable->struct_bytes < offsetof(plait_device_vtable, buffer_import) ||
        vtable->struct_bytes > MAX_TABLE_BYTES || vtable->struct_bytes % sizeof(void *) != 0)
        return plait_error(PLAIT_INVALID_ARGUMENT,
                           "device kind: struct_bytes is %zu, expected sizeof(plait_device_vtable), which is "
                           "%zu here",
                           vtable->struct_bytes, sizeof *vtable);
    PLAIT_TRY(check_sizes(vtable));
    if (!name_is_fine(vtable->kind))
        return plait_error(PLAIT_INVALID_ARGUMENT,
                           "device kind \"%.40s\": expected a name of 1 to 31 printable bytes without ':', "
                           "',', '=', ' '",
                           vtable->kind ? vtable->kind : "");
#define CHECK(slot)                                                                                          \
    if (!vtable->slot)                                                                                       \
        return plait_error(PLAIT_INVALID_ARGUMENT, "device kind %s lacks the must-have " #slot, vtable->kind);
    MUST_HAVES(CHECK)
#undef CHECK
    return PLAIT_OK;
}

/* With the lock held. */
static const plait_device_vtable *find_locked(const char *kind) {
    for (int i = 0; i < n_kinds; i++)
        if (strcmp(kinds[i].kind, kind) == 0) return &kinds[i];
    return NULL;
}

/* With the lock held: whether all of them can be added. */
static plait_status check_room(const plait_device_vtable *const *vtables, int n) {
    for (int i = 0; i < n; i++)
        if (find_locked(vtables[i]->kind))
            return plait_error(PLAIT_INVALID_ARGUMENT, "device kind %s is registered already",
                               vtables[i]->kind);
    if (n > MAX_KINDS - n_kinds)
        return plait_error(PLAIT_LIMIT, "device kind %s: there are %d kinds already, at most %d",
                           vtables[0]->kind, n_kinds, MAX_KINDS);
    return PLAIT_OK;
}

/* With the lock held, after check_vtable and check_room. A table that is longer than ours has slots that this plait
 * never calls. */
static void append_kind(const plait_device_vtable *vtable) {
    plait_device_vtable *table = &kinds[n_kinds];
    size_t bytes = vtable->struct_bytes < sizeof *table ? vtable->struct_bytes : sizeof *table;
    memset(table, 0, sizeof *table);
    memcpy(table, vtable, bytes);
    table->struct_bytes = sizeof *table;
    fill_stubs(table);
    n_kinds++;
}

/* All of them, which are checked already, or none. Looked up and appended under one lock, so that two libraries that
 * are loaded at the same time do not both find a name free. */
static plait_status add_kinds(const plait_device_vtable *const *vtables, int n) {
    pthread_mutex_lock(&lock);
    plait_status status = check_room(vtables, n);
    for (int i = 0; status == PLAIT_OK && i < n; i++) append_kind(vtables[i]);
    pthread_mutex_unlock(&lock);
    return status;
}

/* Checked outside of the lock, which add_kinds takes. */
static plait_status add_kind(const plait_device_vtable *vtable) {
    PLAIT_TRY(check_vtable(vtable));
    return add_kinds(&vtable, 1);
}

/* Every way into the registry comes through here once. Status is not looked at: built-in tables are right, or no test
 * passes. */
static void add_built_in(void) {
#define ADD(vtable) add_kind(&vtable);
    BUILT_IN_KINDS(ADD)
#undef ADD
}

plait_status plait_device_register(const plait_device_vtable *vtable) {
    pthread_once(&built_in_once, add_built_in);
    return add_kind(vtable);
}

/* Looking up may be the first thing a program does, so built-in kinds are added by whoever comes first. */
const plait_device_vtable *plait_device_kind(const char *kind) {
    pthread_once(&built_in_once, add_built_in);
    pthread_mutex_lock(&lock);
    const plait_device_vtable *found = find_locked(kind);
    pthread_mutex_unlock(&lock);
    return found;
}

int plait_device_kind_count(void) {
    pthread_once(&built_in_once, add_built_in);
    pthread_mutex_lock(&lock);
    int n = n_kinds;
    pthread_mutex_unlock(&lock);
    return n;
}

/* Entries below the count never change, so no lock is held for reading them. */
const plait_device_vtable *plait_device_kind_at(int index) {
    return index >= 0 && index < plait_device_kind_count() ? &kinds[index] : NULL;
}

/* ---- device-list items ---- */

/* The message names the known kinds, as many of them as 255 characters hold. */
static plait_status unknown_kind(const char *kind) {
    char known[256] = "";
    size_t used = 0;
    for (int i = 0; i < plait_device_kind_count() && used < sizeof known; i++) {
        int n =
            snprintf(known + used, sizeof known - used, "%s%s", i ? ", " : "", plait_device_kind_at(i)->kind);
        used += n > 0 ? (size_t)n : 0;
    }
    return plait_error(PLAIT_INVALID_ARGUMENT, "device kind \"%.60s\" is unknown; known: %s", kind, known);
}

/* Cuts `text`, which is changed, at every ':'; parts[0] is the kind, up to MAX_OPTIONS options follow. What keys mean
 * is the kind's affair; here only the form is checked. */
static plait_status cut(char *text, const char **parts, int *out_n) {
    int n = 0;
    for (char *p = text; p; n++) {
        if (n > MAX_OPTIONS)
            return plait_error(PLAIT_INVALID_ARGUMENT, "device \"%.100s\": more than %d options", text,
                               MAX_OPTIONS);
        parts[n] = p;
        p = strchr(p, ':');
        if (p) *p++ = '\0';
    }
    for (int i = 1; i < n; i++) {
        const char *equals = strchr(parts[i], '=');
        if (!equals || equals == parts[i])
            return plait_error(PLAIT_INVALID_ARGUMENT, "device %s: \"%.100s\" is not key=value", parts[0],
                               parts[i]);
    }
    *out_n = n;
    return PLAIT_OK;
}

/* The vtable of a device is the registry's filled copy whatever create put there: a kind sets its own table, whose
 * optional slots may be NULL. A name that create did not give is the kind's until a context names the device. */
static plait_status create_from(char *text, const plait_logger *logger, plait_device **out) {
    const char *parts[MAX_OPTIONS + 1];
    int n = 0;
    PLAIT_TRY(cut(text, parts, &n));
    const plait_device_vtable *vtable = plait_device_kind(parts[0]);
    if (!vtable) return unknown_kind(parts[0]);
    plait_device *device = NULL;
    PLAIT_TRY(plait_error_context(vtable->create(parts + 1, n - 1, logger, &device), "device %s", parts[0]));
    if (!device) return plait_error(PLAIT_INTERNAL, "device %s: create gave OK and no device", parts[0]);
    device->vtable = vtable; /* the filled copy */
    if (!device->name[0]) strncpy(device->name, vtable->kind, sizeof device->name - 1);
    *out = device;
    return PLAIT_OK;
}

/* On a copy, since cutting puts NULs into the text. */
plait_status plait_device_create(const char *item, const plait_logger *logger, plait_device **out) {
    char *text = plait_string_copy(item);
    if (!text) return plait_error_memory("device item", strlen(item));
    plait_status status = create_from(text, logger, out);
    free(text);
    return status;
}

/* ---- libraries ---- */

/* Kinds of a library, checked one by one; nothing is registered yet. found: room for MAX_KINDS. The count is limited so
 * that an entry which never returns NULL ends. Two kinds of one name within a library would pass check_room, which
 * knows registered ones only, so they are compared here. */
static plait_status collect_kinds(plait_device_entry_fn entry, const plait_device_vtable **found,
                                  int *out_n) {
    const plait_device_vtable *vtable;
    int n = 0;
    for (; (vtable = entry(n)) != NULL; n++) {
        if (n == MAX_KINDS)
            return plait_error(PLAIT_LIMIT,
                               "more than %d device kinds: " PLAIT_DEVICE_ENTRY
                               " returns NULL behind the last one",
                               MAX_KINDS);
        PLAIT_TRY(plait_error_context(check_vtable(vtable), PLAIT_DEVICE_ENTRY "(%d)", n));
        for (int i = 0; i < n; i++)
            if (strcmp(found[i]->kind, vtable->kind) == 0)
                return plait_error(PLAIT_INVALID_ARGUMENT,
                                   PLAIT_DEVICE_ENTRY "(%d): device kind %s is there already as number %d", n,
                                   vtable->kind, i);
        found[n] = vtable;
    }
    if (n == 0) return plait_error(PLAIT_INVALID_ARGUMENT, "it has no device kind");
    *out_n = n;
    return PLAIT_OK;
}

/* Libraries that bring a copy of plait of their own leave their messages in that copy's error record, and compare events
 * with that copy's functions: nothing works as it should. What a library itself is linked to is found through its
 * handle; nothing, when it leaves that to the program. Every kind that can fail has the function that is looked for. */
static plait_status check_one_plait(void *library) {
    Dl_info ours = {0}, theirs = {0};
    void *symbol = dlsym(library, "plait_error_set");
    if (!symbol || !dladdr(symbol, &theirs) || !dladdr(&n_kinds, &ours) || theirs.dli_fbase == ours.dli_fbase)
        return PLAIT_OK;
    return plait_error(PLAIT_INVALID_ARGUMENT,
                       "it uses the plait in %s, but this program the one in %s; both have to use one "
                       "shared libplait",
                       theirs.dli_fname ? theirs.dli_fname : "?", ours.dli_fname ? ours.dli_fname : "?");
}

/* Built-in kinds are added before the library's, or its kind could take a built-in name. */
static plait_status add_library(void *library) {
    const plait_device_vtable *found[MAX_KINDS];
    int n = 0;
    /* ISO C has no conversion from object to function pointers; POSIX promises that this works. */
    plait_device_entry_fn entry = NULL;
    void *symbol = dlsym(library, PLAIT_DEVICE_ENTRY);
    memcpy(&entry, &symbol, sizeof entry);
    if (!entry) return plait_error(PLAIT_INVALID_ARGUMENT, "it exports no " PLAIT_DEVICE_ENTRY);
    PLAIT_TRY(check_one_plait(library));
    PLAIT_TRY(collect_kinds(entry, found, &n));
    pthread_once(&built_in_once, add_built_in);
    return add_kinds(found, n);
}

/* A name without '/' is a file of the current folder, when there is one; otherwise the system's loader looks for it. */
static plait_status open_library(const char *path, void **out) {
    struct stat file;
    bool is_path = strchr(path, '/') != NULL, exists = stat(path, &file) == 0;
    if (!path[0]) return plait_error(PLAIT_INVALID_ARGUMENT, "expected the path of a shared library");
    if (is_path && !exists) return plait_error(PLAIT_NOT_FOUND, "%s", strerror(errno));
    if (exists && !S_ISREG(file.st_mode))
        return plait_error(PLAIT_INVALID_ARGUMENT, "it is no file, expected a shared library");
    plait_strbuf name;
    plait_strbuf_init(&name, 0);
    plait_strbuf_printf(&name, "%s%s", exists && !is_path ? "./" : "", path);
    plait_status status = plait_strbuf_status(&name);
    void *library = status == PLAIT_OK ? dlopen(plait_strbuf_text(&name), RTLD_NOW | RTLD_LOCAL) : NULL;
    if (status == PLAIT_OK && !library)
        status =
            plait_error(exists ? PLAIT_INVALID_ARGUMENT : PLAIT_NOT_FOUND, "cannot be loaded: %s", dlerror());
    plait_strbuf_deinit(&name);
    if (status == PLAIT_OK) *out = library;
    return status;
}

/* A library that is refused is closed again; one of which kinds were registered never is, for their tables and
 * functions lie in it. */
plait_status plait_device_load(const char *path) {
    void *library = NULL;
    plait_status status = open_library(path, &library);
    if (status == PLAIT_OK) {
        status = add_library(library);
        if (status != PLAIT_OK) dlclose(library);
    }
    return plait_error_context(status, "device library \"%.300s\"", path);
}
