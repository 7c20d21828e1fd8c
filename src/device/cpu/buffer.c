/* Buffers: host memory, mapped by nature. Large ones come straight from the system, zeroed by it and on huge pages
 * where it has them; small ones from the allocator. Where the device has a NUMA node, all come from the system, which is
 * asked for memory of that node; when it does not take such wishes, the device's threads, which run there, touch the
 * pages first, for the system then puts them near. Invariant: `mapped` tells how `host` is given back; an imported buffer
 * owns nothing. */
#define _GNU_SOURCE
#include "base/alloc.h"
#include "base/os.h"
#include "base/size.h"
#include "device/cpu/cpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

/* LARGE_BYTES: from here on a buffer is mapped (smaller ones only for a node), and pieces of this size are the units of
 * touching: two huge pages of x86. TOUCH_BYTES: the smallest page that there is. */
enum { LARGE_BYTES = 4 << 20, TOUCH_BYTES = 4096 };

typedef struct cpu_buffer {
    plait_buffer base;
    bool mapped, imported;
} cpu_buffer;

/* NULL instead of the system's MAP_FAILED, so that callers see one kind of nothing. */
static void *map_pages(uint64_t size_bytes) {
    void *memory = mmap(NULL, size_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

/* The reason of a refusal is kept for `describe`; it is no failure of the device, which works with memory from
 * anywhere. Systems without NUMA and containers that forbid the call are the usual ones. */
void plait_cpu_try_node(plait_cpu_device *device, int node) {
    device->memory_node = -1;
    if (node < 0) return;
    size_t page = plait_os_page_bytes();
    void *memory = map_pages(page);
    if (memory && plait_os_prefer_node(memory, page, node) == PLAIT_OK)
        device->memory_node = node;
    else
        snprintf(device->memory_reason, sizeof device->memory_reason, "%s",
                 memory ? plait_error_message() : "no page is left");
    if (memory) munmap(memory, page);
}

/* A job of the pool: a unit is a stretch of pages. */
typedef struct touch_work {
    plait_cpu_work work;
    unsigned char *bytes;
    uint64_t size_bytes;
} touch_work;

/* The memory is zero before and after: it was just mapped. */
static void touch(const plait_cpu_work *work, int phase, int64_t begin, int64_t end, int thread) {
    const touch_work *w = (const touch_work *)work;
    uint64_t last = (uint64_t)plait_min_i64((int64_t)w->size_bytes, end * LARGE_BYTES);
    (void)phase, (void)thread;
    /* Through volatile: a store of the zero that is there already must happen all the same. */
    for (uint64_t at = (uint64_t)begin * LARGE_BYTES; at < last; at += TOUCH_BYTES)
        *(volatile unsigned char *)(w->bytes + at) = 0;
}

/* Units are dealt like those of a launch, to bound threads: pages come near to the device, if not each to its own
 * worker. */
static void touch_pages(plait_cpu_device *device, void *memory, uint64_t size_bytes) {
    int64_t units = (int64_t)((size_bytes + LARGE_BYTES - 1) / LARGE_BYTES);
    touch_work w = {
        .work = {.n_phases = 1, .units = &units, .run = touch}, .bytes = memory, .size_bytes = size_bytes};
    plait_cpu_pool_acquire(device->pool);
    plait_cpu_pool_run(device->pool, &w.work);
    plait_cpu_pool_release(device->pool);
}

/* Memory of a mapped buffer, or NULL. */
static void *map_buffer(plait_cpu_device *device, uint64_t size_bytes) {
    void *memory = map_pages(size_bytes);
    if (!memory) return NULL;
    /* Advice only, both of it: failure changes nothing. */
    if (size_bytes >= LARGE_BYTES) madvise(memory, size_bytes, MADV_HUGEPAGE);
    if (device->memory_node >= 0)
        plait_os_prefer_node(memory, size_bytes, device->memory_node);
    else if (device->share.node >= 0)
        touch_pages(device, memory, size_bytes);
    return memory;
}

/* Without memory yet; NULL when there is none for the struct. */
static cpu_buffer *new_buffer(plait_device *device, uint64_t size_bytes, uint32_t usage) {
    cpu_buffer *buffer = plait_alloc_array(1, sizeof *buffer);
    if (!buffer) return NULL;
    buffer->base = (plait_buffer){.device = device, .size_bytes = size_bytes, .usage = usage};
    return buffer;
}

/* More than the machine has is refused at once: the system would promise it, and kill the process when it is written.
 * Of 0 bytes, the allocator gives an address nevertheless, so every buffer is mapped for the host. */
plait_status plait_cpu_buffer_create(plait_device *device, uint64_t size_bytes, uint32_t usage,
                                     plait_buffer **out) {
    plait_cpu_device *cpu = (plait_cpu_device *)device;
    if (size_bytes > cpu->memory_total_bytes)
        return plait_error(PLAIT_OUT_OF_MEMORY, "%s: a buffer of %llu bytes, the machine has %llu",
                           device->name, (unsigned long long)size_bytes,
                           (unsigned long long)cpu->memory_total_bytes);
    cpu_buffer *buffer = new_buffer(device, size_bytes, usage);
    if (!buffer) return plait_error_memory("buffer", sizeof *buffer);
    buffer->mapped = size_bytes >= LARGE_BYTES || (size_bytes && cpu->share.node >= 0);
    buffer->base.host = buffer->mapped
                            ? map_buffer(cpu, size_bytes)
                            : plait_alloc_aligned(PLAIT_CPU_ALIGNMENT, (size_t)(size_bytes ? size_bytes : 1));
    if (!buffer->base.host) {
        free(buffer);
        return plait_error_memory("buffer", size_bytes);
    }
    *out = &buffer->base;
    return PLAIT_OK;
}

/* Nothing is copied and nothing owned: the memory, the mapping of a model's file above all, stays when the buffer
 * goes. */
plait_status plait_cpu_buffer_import(plait_device *device, void *host, uint64_t size_bytes, uint32_t usage,
                                     plait_buffer **out) {
    if (!host && size_bytes)
        return plait_error(PLAIT_INVALID_ARGUMENT, "%s: import of %llu bytes at no address", device->name,
                           (unsigned long long)size_bytes);
    cpu_buffer *buffer = new_buffer(device, size_bytes, usage);
    if (!buffer) return plait_error_memory("buffer", sizeof *buffer);
    buffer->imported = true;
    buffer->base.host = host;
    *out = &buffer->base;
    return PLAIT_OK;
}

/* Mapped memory goes back to the system, an import's stays, the rest came from the allocator. */
void plait_cpu_buffer_destroy(plait_buffer *base) {
    cpu_buffer *buffer = (cpu_buffer *)base;
    if (!buffer) return;
    if (buffer->mapped)
        munmap(buffer->base.host, buffer->base.size_bytes);
    else if (!buffer->imported)
        free(buffer->base.host);
    free(buffer);
}
