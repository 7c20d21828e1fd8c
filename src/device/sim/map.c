/* The mappings of a buffer (map.h), from memfd_create and mmap. Both mappings are of one memfd, so the bytes are the
 * same, and protection is a matter of the address: no call changes it while anybody computes. Not here: what is written
 * there, and when.
 *
 * Invariant: a map is complete or zeroed when a call returns. */
#define _GNU_SOURCE
#include "device/sim/map.h"

#include "base/os.h"
#include "base/size.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* From this size on the system is asked first: what it grants and does not have would end the process. */
#define ASK_FIRST_BYTES ((uint64_t)1 << 20)

/* Addresses without memory, which fault when touched. NULL when there are none. MAP_NORESERVE: they are never counted
 * against what the system may give. */
static void *reserve(uint64_t bytes) {
    void *at = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return at == MAP_FAILED ? NULL : at;
}

static plait_status no_memory(uint64_t size_bytes, const char *why) {
    return plait_error(PLAIT_OUT_OF_MEMORY, "a buffer of %llu bytes: %s", (unsigned long long)size_bytes,
                       why);
}

/* Whole pages, at least one, with room for the two guard pages below INT64_MAX (a file's size is signed). */
static plait_status page_bytes(uint64_t size_bytes, uint64_t *out) {
    uint64_t page = plait_os_page_bytes();
    if (!plait_align_u64(size_bytes ? size_bytes : 1, page, out) || *out > (uint64_t)INT64_MAX - 2 * page)
        return no_memory(size_bytes, "no system has as much");
    if (*out >= ASK_FIRST_BYTES && *out > plait_os_memory_available())
        return no_memory(size_bytes, "the machine has no more memory");
    return PLAIT_OK;
}

/* Guard pages are what is left of a larger reservation when the alias is laid over its middle: so nobody else's mapping
 * can be their neighbour. */
static plait_status map_twice(plait_sim_map *map, int fd, bool open) {
    uint64_t page = plait_os_page_bytes();
    if (ftruncate(fd, (off_t)map->bytes) != 0) return no_memory(map->bytes, strerror(errno));
    map->guarded_bytes = map->bytes + 2 * page;
    map->guarded = reserve(map->guarded_bytes);
    if (!map->guarded) return no_memory(map->bytes, "no addresses are left");
    map->alias =
        mmap((char *)map->guarded + page, map->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0);
    if (map->alias == MAP_FAILED) {
        map->alias = NULL;
        return no_memory(map->bytes, strerror(errno));
    }
    map->published = mmap(NULL, map->bytes, open ? PROT_READ | PROT_WRITE : PROT_NONE, MAP_SHARED, fd, 0);
    if (map->published != MAP_FAILED) return PLAIT_OK;
    map->published = NULL;
    return no_memory(map->bytes, strerror(errno));
}

/* Anonymous file memory, since that can be mapped twice. */
plait_status plait_sim_map_init(plait_sim_map *map, uint64_t size_bytes, bool open) {
    *map = (plait_sim_map){0};
    PLAIT_TRY(page_bytes(size_bytes, &map->bytes));
    int fd = memfd_create("plait-sim", MFD_CLOEXEC);
    if (fd < 0) return no_memory(size_bytes, strerror(errno));
    plait_status status = map_twice(map, fd, open);
    close(fd); /* the mappings keep the memory */
    if (status != PLAIT_OK) plait_sim_map_deinit(map);
    return status;
}

plait_status plait_sim_map_init_published(plait_sim_map *map, uint64_t size_bytes) {
    *map = (plait_sim_map){0};
    PLAIT_TRY(page_bytes(size_bytes, &map->bytes));
    map->published = reserve(map->bytes);
    return map->published ? PLAIT_OK : no_memory(size_bytes, "no addresses are left");
}

/* The alias lies within `guarded` and goes with it. */
void plait_sim_map_deinit(plait_sim_map *map) {
    if (map->published) munmap(map->published, map->bytes);
    if (map->guarded) munmap(map->guarded, map->guarded_bytes);
    *map = (plait_sim_map){0};
}

/* New pages without memory over old ones, in one call: at no time are the addresses free. */
static bool replace(void *at, uint64_t bytes) {
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
    return mmap(at, bytes, PROT_NONE, flags, -1, 0) != MAP_FAILED;
}

void plait_sim_map_bury(plait_sim_map *map) {
    bool buried = replace(map->published, map->bytes);
    if (map->guarded) buried &= replace(map->guarded, map->guarded_bytes);
    if (!buried) plait_sim_map_deinit(map); /* the system has no room for as many mappings */
    map->alias = NULL;
}
