/* A folder that looks like /sys of some machine: processors, cores, nodes, speeds, written file by file. */
#ifndef TESTS_DEVICE_FAKE_SYS_H
#define TESTS_DEVICE_FAKE_SYS_H

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char fake_root[512];

static inline void fake_begin(void) {
    snprintf(fake_root, sizeof fake_root, "%s/fake_sys.XXXXXX", PLAIT_BINARY_DIR);
    assert_non_null(mkdtemp(fake_root));
}

static inline void fake_remove(const char *path) {
    DIR *dir = opendir(path);
    if (!dir) {
        unlink(path);
        return;
    }
    for (struct dirent *e; (e = readdir(dir));) {
        char inner[1024];
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) continue;
        snprintf(inner, sizeof inner, "%s/%s", path, e->d_name);
        fake_remove(inner);
    }
    closedir(dir);
    rmdir(path);
}

static inline void fake_end(void) {
    fake_remove(fake_root);
}

/* Writes a line into devices/PATH. */
static inline void fake_put(const char *path, const char *line) {
    char full[1024];
    snprintf(full, sizeof full, "%s/devices/%s", fake_root, path);
    for (char *slash = full + strlen(fake_root); (slash = strchr(slash + 1, '/'));) {
        *slash = '\0';
        mkdir(full, 0777);
        *slash = '/';
    }
    FILE *f = fopen(full, "w");
    assert_non_null(f);
    assert_true(fprintf(f, "%s\n", line) > 0);
    assert_int_equal(fclose(f), 0);
}

static inline void fake_put_cpu(int cpu, const char *name, const char *line) {
    char path[256];
    snprintf(path, sizeof path, "system/cpu/cpu%d/%s", cpu, name);
    fake_put(path, line);
}

static inline void fake_put_number(int cpu, const char *name, unsigned value) {
    char text[32];
    snprintf(text, sizeof text, "%u", value);
    fake_put_cpu(cpu, name, text);
}

/* A node with its processors and MemTotal. */
static inline void fake_put_node(int node, const char *processors, unsigned mib) {
    char path[256], line[128];
    snprintf(path, sizeof path, "system/node/node%d/cpulist", node);
    fake_put(path, processors);
    snprintf(path, sizeof path, "system/node/node%d/meminfo", node);
    snprintf(line, sizeof line, "Node %d MemTotal:       %u kB", node, mib * 1024);
    fake_put(path, line);
}

#endif
