/* Linux implementation of os.h. Not here: threads and futexes (thread.c), and what the processors are
 * (device/topology.c). Invariant: no descriptor, mapping or temporary file survives a failure, and what the system does
 * not tell becomes a value that the header names, never a guess. */
#define _GNU_SOURCE
#include "base/os.h"

#include "base/alloc.h"
#include "base/size.h"
#include "base/strbuf.h"
#include "base/thread.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* ---- reading files ---- */

/* Reads until the end, wherever that is: `expected` bytes are made room for, and one more in which the end shows, so
 * that a file of the stated size is never copied or held twice. Pipes and files of /proc state a size of 0 and are read
 * by growing. An empty file gives no bytes and no failure. */
static plait_status read_whole(plait_file *file, int fd, const char *path, uint64_t expected) {
    size_t capacity, length = 0;
    if (!plait_add_size(expected, 1, &capacity)) return plait_error_memory(path, expected);
    unsigned char *bytes = plait_alloc_array(capacity, 1);
    if (!bytes) return plait_error_memory(path, capacity);
    plait_status status = PLAIT_OK;
    for (;;) {
        if (length == capacity)
            status = plait_grow(&bytes, &capacity, length + (1 << 16), 1, SIZE_MAX / 2, path);
        if (status != PLAIT_OK) break;
        ssize_t n = read(fd, bytes + length, capacity - length);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) status = plait_error(PLAIT_IO, "%s: cannot read: %s", path, strerror(errno));
        if (n <= 0) break;
        length += (size_t)n;
    }
    if (status != PLAIT_OK || length == 0) {
        free(bytes);
        return status;
    }
    file->bytes = bytes;
    file->size_bytes = length;
    return PLAIT_OK;
}

/* Fills *file, which is zeroed, from an open descriptor, which stays the caller's. MAP_PRIVATE: nobody can write
 * through the mapping; a file that is cut meanwhile still faults (--no-mmap is for that). The size is the one at this
 * moment: bytes added later are not seen. */
static plait_status load_open_file(plait_file *file, int fd, const char *path, bool map) {
    struct stat st;
    if (fstat(fd, &st) != 0) return plait_error(PLAIT_IO, "%s: cannot stat: %s", path, strerror(errno));
    if (S_ISDIR(st.st_mode)) return plait_error(PLAIT_IO, "%s: is a directory, expected a file", path);
    if (S_ISREG(st.st_mode)) { /* the bytes of a pipe are another's each time */
        file->device_id = st.st_dev;
        file->inode = st.st_ino;
    }
    uint64_t size = st.st_size > 0 ? (uint64_t)st.st_size : 0;
    if (!map || !S_ISREG(st.st_mode)) return read_whole(file, fd, path, size);
    file->size_bytes = size;
    if (size == 0) return PLAIT_OK;
    void *p = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (p == MAP_FAILED)
        return plait_error(errno == ENOMEM ? PLAIT_OUT_OF_MEMORY : PLAIT_IO, "%s: cannot map %llu bytes: %s",
                           path, (unsigned long long)size, strerror(errno));
    file->bytes = p;
    file->mapped = true;
    return PLAIT_OK;
}

/* The descriptor is closed at once: a mapping lives without it. *file is set on success only. */
plait_status plait_file_open(plait_file *file, const char *path, bool map) {
    plait_file opened = {0};
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return plait_error(errno == ENOENT ? PLAIT_NOT_FOUND : PLAIT_IO, "%s: cannot open: %s", path,
                           strerror(errno));
    plait_status status = load_open_file(&opened, fd, path, map);
    close(fd);
    if (status == PLAIT_OK) *file = opened;
    return status;
}

/* bytes is const for everybody else; only here the qualifier goes. A zeroed file may be closed: free(NULL) does
 * nothing. */
void plait_file_close(plait_file *file) {
    if (file->mapped)
        munmap((void *)(uintptr_t)file->bytes, file->size_bytes);
    else
        free((void *)(uintptr_t)file->bytes);
    *file = (plait_file){0};
}

/* Only pages that lie in the range with every byte: those at its ends may hold a neighbour's bytes, which would have to
 * be read again. MADV_DONTNEED on a private file mapping that nobody wrote to loses nothing: a later touch reads the
 * file. Advice only: a failure costs memory and nothing else, and is not reported. */
void plait_file_release_range(const plait_file *file, uint64_t offset, uint64_t size_bytes) {
    if (!file->mapped) return;
    uint64_t page = plait_os_page_bytes();
    uint64_t start = (offset + page - 1) / page * page, end = (offset + size_bytes) / page * page;
    if (start < end) madvise((void *)(uintptr_t)(file->bytes + start), end - start, MADV_DONTNEED);
}

/* ---- writing files ---- */

/* Creates the temporary under a name that nobody uses: another writer of the same path, in this process or one that
 * died, must not share it. In the folder of the target, because a rename does not cross file systems. O_EXCL also
 * refuses a link that somebody put there. */
static plait_status create_temporary(plait_file_writer *writer) {
    enum { ATTEMPTS = 1000 };
    plait_strbuf name;
    plait_strbuf_init(&name, 0);
    for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
        plait_strbuf_clear(&name);
        plait_strbuf_printf(&name, "%s.part.%ld", writer->path, (long)getpid());
        if (attempt > 0) plait_strbuf_printf(&name, ".%d", attempt);
        if (plait_strbuf_status(&name) != PLAIT_OK) break;
        writer->fd = open(plait_strbuf_text(&name), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (writer->fd >= 0 || errno != EEXIST) break;
    }
    plait_status status = plait_strbuf_status(&name);
    if (status == PLAIT_OK && writer->fd < 0)
        status = plait_error(PLAIT_IO, "%s: cannot create: %s", plait_strbuf_text(&name), strerror(errno));
    if (status == PLAIT_OK) writer->temporary_path = plait_strbuf_take(&name); /* has its memory already */
    plait_strbuf_deinit(&name);
    return status;
}

/* For what exists and is no regular file; neither created nor cut. */
static plait_status open_direct(plait_file_writer *writer) {
    writer->fd = open(writer->path, O_WRONLY | O_CLOEXEC);
    if (writer->fd >= 0) return PLAIT_OK;
    return plait_error(PLAIT_IO, "%s: cannot open for writing: %s", writer->path, strerror(errno));
}

/* A symbolic link at `path` is followed by stat, but the rename replaces the link itself. */
plait_status plait_file_writer_open(plait_file_writer *writer, const char *path) {
    plait_file_writer opened = {.fd = -1, .path = plait_string_copy(path)};
    if (!opened.path) return plait_error_memory(path, strlen(path));
    struct stat st;
    /* A device or a pipe is written as it is: a rename would put a file in its place. */
    bool direct = stat(path, &st) == 0 && !S_ISREG(st.st_mode);
    plait_status status = direct ? open_direct(&opened) : create_temporary(&opened);
    if (status == PLAIT_OK)
        *writer = opened;
    else
        plait_file_writer_abandon(&opened);
    return status;
}

/* A write may take less than it was given, and Linux takes at most 2^31 - 4096 bytes at once: a gigabyte each time
 * keeps below that. After a failure the writer can only be abandoned. */
plait_status plait_file_writer_write(plait_file_writer *writer, const void *bytes, uint64_t size_bytes) {
    const char *p = bytes;
    while (size_bytes > 0) {
        size_t chunk = size_bytes > (1u << 30) ? 1u << 30 : (size_t)size_bytes;
        ssize_t n = write(writer->fd, p, chunk);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0)
            return plait_error(PLAIT_IO, "%s: cannot write at byte %llu: %s", writer->path,
                               (unsigned long long)writer->written_bytes, strerror(errno));
        p += n;
        size_bytes -= (uint64_t)n;
        writer->written_bytes += (uint64_t)n;
    }
    return PLAIT_OK;
}

/* The order is what makes the file whole or absent after a loss of power: contents to the disk first, then the name.
 * EINVAL and EROFS come from pipes and devices, which have nothing to flush. close can report a failed write (network
 * file systems) and so counts; after a failure the temporary goes, and the old file at `path`, if any, is untouched. */
plait_status plait_file_writer_commit(plait_file_writer *writer) {
    plait_status status = PLAIT_OK;
    if (fsync(writer->fd) != 0 && errno != EINVAL && errno != EROFS)
        status = plait_error(PLAIT_IO, "%s: cannot flush: %s", writer->path, strerror(errno));
    int closed = close(writer->fd);
    writer->fd = -1;
    if (status == PLAIT_OK && closed != 0)
        status = plait_error(PLAIT_IO, "%s: cannot close: %s", writer->path, strerror(errno));
    if (status == PLAIT_OK && writer->temporary_path && rename(writer->temporary_path, writer->path) != 0)
        status = plait_error(PLAIT_IO, "%s: cannot rename %s to it: %s", writer->path, writer->temporary_path,
                             strerror(errno));
    if (status == PLAIT_OK) {
        free(writer->temporary_path);
        writer->temporary_path = NULL;
    }
    plait_file_writer_abandon(writer);
    return status;
}

/* A zeroed writer has descriptor 0, which is not its own: without a path nothing is closed. */
void plait_file_writer_abandon(plait_file_writer *writer) {
    if (writer->path && writer->fd >= 0) close(writer->fd);
    if (writer->temporary_path) unlink(writer->temporary_path);
    free(writer->temporary_path);
    free(writer->path);
    *writer = (plait_file_writer){.fd = -1};
}

/* ---- the machine ---- */

/* Not the wall clock, which people set back; it stands still while the machine sleeps. */
uint64_t plait_time_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

bool plait_os_read_line(const char *path, char *out, size_t capacity) {
    FILE *f = fopen(path, "re");
    if (!f) return false;
    bool read = fgets(out, (int)plait_min_i64((int64_t)capacity, INT32_MAX), f) != NULL;
    fclose(f);
    if (read) out[strcspn(out, "\n")] = '\0';
    return read;
}

/* First unsigned number of a small file, or `otherwise` ("max", missing, unreadable). Values in such files are decimal
 * and end with a newline, which strtoull stops at. */
static uint64_t number_in_file(const char *path, uint64_t otherwise) {
    char text[64], *end;
    if (!plait_os_read_line(path, text, sizeof text)) return otherwise;
    unsigned long long value = strtoull(text, &end, 10);
    return end == text ? otherwise : value;
}

/* The number behind a field name at the start of a line ("MemTotal:", "inactive_file"), or 0. The name must be followed
 * by a space: "MemFree:" must not answer for "MemFreeX:". */
static uint64_t field_in_file(const char *path, const char *field) {
    char line[128];
    uint64_t value = 0;
    FILE *f = fopen(path, "re");
    if (!f) return 0;
    size_t n = strlen(field);
    while (fgets(line, sizeof line, f))
        if (strncmp(line, field, n) == 0 && line[n] == ' ') {
            value = strtoull(line + n, NULL, 10);
            break;
        }
    fclose(f);
    return value;
}

static uint64_t meminfo_bytes(const char *field) {
    return field_in_file("/proc/meminfo", field) * 1024;
}

/* Limit and use of the memory cgroup, version 2 or 1; UINT64_MAX when there is no limit. Cached pages of files count as
 * use to the kernel, but it gives them up when memory is wanted. Reads the root of the hierarchy as the process sees
 * it, which inside a container is the container's own group. */
static void cgroup_memory(uint64_t *out_limit, uint64_t *out_used) {
    const char *statistics = "/sys/fs/cgroup/memory.stat", *active = "active_file",
               *inactive = "inactive_file";
    *out_limit = number_in_file("/sys/fs/cgroup/memory.max", UINT64_MAX);
    *out_used = number_in_file("/sys/fs/cgroup/memory.current", 0);
    if (*out_limit == UINT64_MAX) {
        statistics = "/sys/fs/cgroup/memory/memory.stat";
        active = "total_active_file";
        inactive = "total_inactive_file";
        *out_limit = number_in_file("/sys/fs/cgroup/memory/memory.limit_in_bytes", UINT64_MAX);
        *out_used = number_in_file("/sys/fs/cgroup/memory/memory.usage_in_bytes", 0);
    }
    uint64_t cached = field_in_file(statistics, active) + field_in_file(statistics, inactive);
    *out_used = *out_used > cached ? *out_used - cached : 0;
}

/* What the limit leaves; UINT64_MAX when there is none. */
static uint64_t cgroup_memory_left(void) {
    uint64_t limit, used;
    cgroup_memory(&limit, &used);
    return limit == UINT64_MAX ? UINT64_MAX : limit > used ? limit - used : 0;
}

/* In a container the machine's MemAvailable says nothing of the group's limit, and the limit says nothing of what
 * others took: the smaller of the two holds. */
uint64_t plait_os_memory_available(void) {
    uint64_t available = meminfo_bytes("MemAvailable:"), left = cgroup_memory_left();
    return left < available ? left : available;
}

uint64_t plait_os_memory_total(void) {
    uint64_t total = meminfo_bytes("MemTotal:"), limit, used;
    cgroup_memory(&limit, &used);
    return limit < total ? limit : total;
}

/* ru_maxrss is in KiB on Linux. It never falls. */
uint64_t plait_os_peak_resident(void) {
    struct rusage usage;
    return getrusage(RUSAGE_SELF, &usage) == 0 ? (uint64_t)usage.ru_maxrss * 1024 : 0;
}

size_t plait_os_page_bytes(void) {
    long n = sysconf(_SC_PAGESIZE);
    return n > 0 ? (size_t)n : 4096;
}

/* Of a sanitizer's allocator, where one is linked in: then the C library has nothing to count. Weak: NULL in all other
 * builds. */
extern size_t __sanitizer_get_current_allocated_bytes(void) __attribute__((weak));

/* uordblks are the bytes in use of the heaps, hblkhd those of large blocks that malloc mapped one by one. 0 where
 * nobody counts: callers compare two readings and see no change then. */
uint64_t plait_os_heap_bytes(void) {
    if (__sanitizer_get_current_allocated_bytes) return __sanitizer_get_current_allocated_bytes();
#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 33)
    struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
#else
    return 0;
#endif
}

/* MPOL_PREFERRED of <linux/mempolicy.h>: the node first, others when it is full. */
enum { PREFER_NODE = 1, MOST_NODES = 1024 };

/* Through the system call: libnuma would be a library for one function. PREFERRED, not BIND: on a full node binding
 * would kill the process, and slower memory is better than that. */
plait_status plait_os_prefer_node(void *address, uint64_t size_bytes, int node) {
    unsigned long nodes[MOST_NODES / (8 * sizeof(long))] = {0};
    const size_t bits = 8 * sizeof nodes[0];
    if (node < 0 || node >= MOST_NODES)
        return plait_error(PLAIT_UNSUPPORTED, "memory of node %d: nodes go up to %d", node, MOST_NODES - 1);
    nodes[(size_t)node / bits] = 1ul << (size_t)node % bits;
    /* The kernel reads one bit less than it is told. */
    if (syscall(SYS_mbind, address, size_bytes, PREFER_NODE, nodes, MOST_NODES + 1, 0) != 0)
        return plait_error(PLAIT_UNSUPPORTED, "memory of node %d: %s", node, strerror(errno));
    return PLAIT_OK;
}

/* A field of the node's own meminfo, whose lines begin "Node 0 MemTotal:"; in bytes, 0 when it is not there. */
static uint64_t node_field_bytes(int node, const char *name) {
    char path[64], field[64];
    snprintf(path, sizeof path, "/sys/devices/system/node/node%d/meminfo", node);
    snprintf(field, sizeof field, "Node %d %s:", node, name);
    return field_in_file(path, field) * 1024;
}

/* There is no MemAvailable for a node; pages of files can be dropped and count as free. The cgroup's limit is for all
 * nodes together, so it bounds each of them. The free bytes are an estimate by which fit plans; nothing is reserved. */
plait_status plait_os_node_memory(int node, uint64_t *out_total_bytes, uint64_t *out_free_bytes) {
    uint64_t total = node_field_bytes(node, "MemTotal"), left = cgroup_memory_left();
    if (total == 0) return plait_error(PLAIT_NOT_FOUND, "memory of node %d: the system does not tell", node);
    uint64_t available = node_field_bytes(node, "MemFree") + node_field_bytes(node, "Active(file)") +
                         node_field_bytes(node, "Inactive(file)");
    *out_total_bytes = total;
    *out_free_bytes = left < available ? left : available;
    return PLAIT_OK;
}

/* Idle time and time that waits for disks are left out: the question is how busy the processors were, and how much of
 * that this process was. Both are sums over all processors since start, so a caller takes the difference of two calls.
 * False: the machine does not tell. */
bool plait_os_work(uint64_t *out_all_ns, uint64_t *out_own_ns, int *out_n_processors) {
    /* proc(5): user, nice, system, idle, iowait, irq, softirq, steal; guests are counted in user. */
    unsigned long long user, nice, system, idle, iowait, irq, softirq, steal;
    char line[256];
    struct timespec own;
    long ticks_per_s = sysconf(_SC_CLK_TCK), n_processors = sysconf(_SC_NPROCESSORS_ONLN);
    if (!plait_os_read_line("/proc/stat", line, sizeof line) || ticks_per_s <= 0 || n_processors <= 0 ||
        sscanf(line, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &user, &nice, &system, &idle, &iowait,
               &irq, &softirq, &steal) != 8 ||
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &own) != 0)
        return false;
    *out_all_ns = (user + nice + system + irq + softirq + steal) * (1000000000ull / (uint64_t)ticks_per_s);
    *out_own_ns = (uint64_t)own.tv_sec * 1000000000u + (uint64_t)own.tv_nsec;
    *out_n_processors = (int)plait_min_i64(n_processors, INT32_MAX);
    return true;
}

/* Against the wall clock, in which files are dated; it may have been set back since, hence the 0 for the future. */
uint64_t plait_os_file_age_s(const char *path) {
    struct stat s;
    struct timespec now;
    if (stat(path, &s) != 0 || clock_gettime(CLOCK_REALTIME, &now) != 0) return UINT64_MAX;
    return now.tv_sec > s.st_mtim.tv_sec ? (uint64_t)(now.tv_sec - s.st_mtim.tv_sec) : 0;
}

/* The affinity mask, then the quota of the cgroup: version 2 has both numbers in one file, version 1 in two. Without a
 * limit the quota reads "max" (which scans as no number) or -1 (which reads as a huge unsigned one): both count as
 * none. A quota of 1.5 processors becomes 2 threads, 1.4 one; never 0. At least 1. Two hyperthreads of a core count as
 * two. */
int plait_os_processors(void) {
    plait_cpuset usable;
    plait_thread_processors(&usable);
    int n = (int)plait_max_i64(plait_cpuset_count(&usable), 1);
    double quota = 0, period = 0;
    FILE *f = fopen("/sys/fs/cgroup/cpu.max", "re");
    if (f) {
        if (fscanf(f, "%lf %lf", &quota, &period) != 2) quota = 0;
        fclose(f);
    } else {
        uint64_t q = number_in_file("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", 0);
        period = (double)number_in_file("/sys/fs/cgroup/cpu/cpu.cfs_period_us", 0);
        quota = q < (1u << 30) ? (double)q : 0;
    }
    if (quota > 0 && period > 0) {
        int whole = (int)(quota / period + 0.5);
        if (whole < 1) whole = 1;
        if (whole < n) n = whole;
    }
    return n;
}

/* Relative values are ignored, as the XDG base directory specification asks. The parent is made as well, one level of
 * it; if that fails, making the folder below fails with the message. */
plait_status plait_os_cache_dir(char **out_path) {
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    plait_strbuf path;
    plait_strbuf_init(&path, 0);
    if (cache && cache[0] == '/')
        plait_strbuf_printf(&path, "%s", cache);
    else if (home && home[0] == '/')
        plait_strbuf_printf(&path, "%s/.cache", home);
    else
        return plait_error(PLAIT_NOT_FOUND,
                           "cache folder: neither XDG_CACHE_HOME nor HOME is an absolute path");
    char *parent = plait_strbuf_take(&path);
    if (!parent) return plait_error_memory("cache folder", 0);
    mkdir(parent, 0777);
    plait_strbuf_printf(&path, "%s/plait", parent);
    free(parent);
    char *dir = plait_strbuf_take(&path);
    if (!dir) return plait_error_memory("cache folder", 0);
    if (mkdir(dir, 0777) != 0 && errno != EEXIST) {
        plait_status status = plait_error(PLAIT_IO, "%s: cannot create: %s", dir, strerror(errno));
        free(dir);
        return status;
    }
    *out_path = dir;
    return PLAIT_OK;
}
