/* What plait asks of the operating system: files, mappings, time, memory and processors at hand. Linux first;
 * everything that differs between systems is behind this header. */
#ifndef PLAIT_BASE_OS_H
#define PLAIT_BASE_OS_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A whole file in memory: mapped read-only, or read into private memory. */
typedef struct plait_file {
    const unsigned char *bytes; /* Owned: unmapped or freed by plait_file_close. NULL for an empty file. */
    uint64_t size_bytes;
    uint64_t device_id, inode; /* identity: equal pairs are the same file; 0, 0 for pipes */
    bool mapped;
} plait_file;

/* Opens path; with `map` false the bytes are read into memory (the way of --no-mmap, and for pipes). Messages
 * name the path and the reason. A directory is an error. */
plait_status plait_file_open(plait_file *file, const char *path, bool map);
void plait_file_close(plait_file *file);
/* Tells the system that a range of a mapped file is no longer needed in memory; harmless otherwise. */
void plait_file_release_range(const plait_file *file, uint64_t offset, uint64_t size_bytes);

/* Writes a file so that it appears whole or not at all: a temporary beside `path`, then a rename. A path that is a device
 * or a pipe is written directly. */
typedef struct plait_file_writer {
    int fd;
    char *path, *temporary_path; /* Owned. */
    uint64_t written_bytes;
} plait_file_writer;

plait_status plait_file_writer_open(plait_file_writer *writer, const char *path);
plait_status plait_file_writer_write(plait_file_writer *writer, const void *bytes, uint64_t size_bytes);
/* Flushes to the disk and renames; after this or a failure the writer is closed. A failure removes the
 * temporary. */
plait_status plait_file_writer_commit(plait_file_writer *writer);
/* Closes and removes the temporary; nothing to do after a commit. Accepts a zeroed writer. */
void plait_file_writer_abandon(plait_file_writer *writer);

/* The first line of a small file, without its line end, cut to fit; false when it cannot be read. For what the system
 * tells under /proc and /sys. */
bool plait_os_read_line(const char *path, char *out, size_t capacity);

/* Monotonic time in nanoseconds. */
uint64_t plait_time_ns(void);

/* Processors that this process may use: the affinity mask, further bounded by the cgroup's quota; at least 1. */
int plait_os_processors(void);
/* What all processors of the machine have worked since it began, and what of it this process has, in nanoseconds of one
 * processor, to about 10 ms; and how many processors there are. False when the system does not tell. */
bool plait_os_work(uint64_t *out_all_ns, uint64_t *out_own_ns, int *out_n_processors);
/* Seconds since a file was written; UINT64_MAX when it cannot be asked, 0 when its time is yet to come. */
uint64_t plait_os_file_age_s(const char *path);
/* Bytes that can still be allocated: MemAvailable, bounded by what the cgroup's limit leaves. */
uint64_t plait_os_memory_available(void);
/* All memory: MemTotal bounded by the cgroup's limit. */
uint64_t plait_os_memory_total(void);
/* Highest resident set of this process so far, in bytes. */
uint64_t plait_os_peak_resident(void);
size_t plait_os_page_bytes(void);
/* Bytes that this process has allocated and not freed, as the C library (or a sanitizer in its place) counts them; 0 where
 * nobody counts. Other threads move it. */
uint64_t plait_os_heap_bytes(void);
/* Asks for memory of a NUMA node for these whole pages, which nobody has touched yet; when the node is full, other memory
 * serves. UNSUPPORTED with the system's reason when it refuses (no such node, or a sandbox forbids it). */
plait_status plait_os_prefer_node(void *address, uint64_t size_bytes, int node);
/* Bytes that a NUMA node has, and that can still be had there: free, or pages of files that can be read again. NOT_FOUND
 * when the system does not tell. */
plait_status plait_os_node_memory(int node, uint64_t *out_total_bytes, uint64_t *out_free_bytes);

/* ${XDG_CACHE_HOME:-~/.cache}/plait, created if needed. The caller frees *out_path. */
plait_status plait_os_cache_dir(char **out_path);

#endif
