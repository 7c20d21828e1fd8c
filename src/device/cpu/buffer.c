/* Buffers: host memory, mapped by nature. Large ones come straight from the system, zeroed by it and on huge pages
 * where it has them; small ones from the allocator. Invariant: `memory` is what must be given back, `host` lies in it;
 * an imported buffer owns nothing. */
#define _GNU_SOURCE
#include "base/alloc.h"
#include "base/os.h"
#include "base/size.h"
#include "device/cpu/cpu.h"

#include <stdlib.h>
#include <sys/mman.h>

enum { LARGE_BYTES = 4 << 20 };

typedef struct cpu_buffer {
    plait_buffer base;
    bool mapped, imported;
} cpu_buffer;

/* Memory of a large buffer, or NULL. */
static void *map_pages(uint64_t size_bytes) {
    void *memory = mmap(NULL, size_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return NULL;
    madvise(memory, size_bytes, MADV_HUGEPAGE); /* advice only: failure changes nothing */
    return memory;
}

static cpu_buffer *new_buffer(plait_device *device, uint64_t size_bytes, uint32_t usage) {
    cpu_buffer *buffer = plait_alloc_array(1, sizeof *buffer);
    if (!buffer) return NULL;
    buffer->base = (plait_buffer){.device = device, .size_bytes = size_bytes, .usage = usage};
    return buffer;
}

plait_status plait_cpu_buffer_create(plait_device *device, uint64_t size_bytes, uint32_t usage,
                                     plait_buffer **out) {
    const plait_cpu_device *cpu = (const plait_cpu_device *)device;
    if (size_bytes > cpu->memory_total_bytes)
        return plait_error(PLAIT_OUT_OF_MEMORY, "%s: a buffer of %llu bytes, the machine has %llu",
                           device->name, (unsigned long long)size_bytes,
                           (unsigned long long)cpu->memory_total_bytes);
    cpu_buffer *buffer = new_buffer(device, size_bytes, usage);
    if (!buffer) return plait_error_memory("buffer", sizeof *buffer);
    buffer->mapped = size_bytes >= LARGE_BYTES;
    buffer->base.host = buffer->mapped
                            ? map_pages(size_bytes)
                            : plait_alloc_aligned(PLAIT_CPU_ALIGNMENT, (size_t)(size_bytes ? size_bytes : 1));
    if (!buffer->base.host) {
        free(buffer);
        return plait_error_memory("buffer", size_bytes);
    }
    *out = &buffer->base;
    return PLAIT_OK;
}

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

void plait_cpu_buffer_destroy(plait_buffer *base) {
    cpu_buffer *buffer = (cpu_buffer *)base;
    if (!buffer) return;
    if (buffer->mapped)
        munmap(buffer->base.host, buffer->base.size_bytes);
    else if (!buffer->imported)
        free(buffer->base.host);
    free(buffer);
}
