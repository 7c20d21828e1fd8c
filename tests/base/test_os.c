/* Files read and written, full disks, the figures of the machine. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/os.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static char folder[512];

static const char *in_folder(const char *name) {
    static char paths[4][700];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

static int make_folder(void **state) {
    (void)state;
    snprintf(folder, sizeof folder, "%s/test_os.XXXXXX", PLAIT_BINARY_DIR);
    return mkdtemp(folder) ? 0 : -1;
}

static int n_entries(const char *path) {
    int n = 0;
    DIR *dir = opendir(path);
    assert_non_null(dir);
    for (struct dirent *e; (e = readdir(dir));) n += e->d_name[0] != '.';
    closedir(dir);
    return n;
}

static int remove_folder(void **state) {
    (void)state;
    DIR *dir = opendir(folder);
    for (struct dirent *e; dir && (e = readdir(dir));)
        if (e->d_name[0] != '.') remove(in_folder(e->d_name));
    if (dir) closedir(dir);
    return rmdir(folder);
}

static void write_plainly(const char *path, const void *bytes, size_t n) {
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    fclose(f);
}

static void test_open_both_ways(void **state) {
    (void)state;
    enum { SIZE = 100000 };
    unsigned char *bytes = malloc(SIZE);
    assert_non_null(bytes);
    for (int i = 0; i < SIZE; i++) bytes[i] = (unsigned char)(i * 31 >> 3);
    write_plainly(in_folder("data"), bytes, SIZE);
    plait_file mapped, read;
    assert_int_equal(plait_file_open(&mapped, in_folder("data"), true), PLAIT_OK);
    assert_int_equal(plait_file_open(&read, in_folder("data"), false), PLAIT_OK);
    assert_true(mapped.mapped && !read.mapped);
    assert_int_equal(mapped.size_bytes, SIZE);
    assert_int_equal(read.size_bytes, SIZE);
    assert_memory_equal(mapped.bytes, bytes, SIZE);
    assert_memory_equal(read.bytes, bytes, SIZE);
    assert_true(mapped.inode == read.inode && mapped.device_id == read.device_id);
    plait_file_release_range(&mapped, 1, SIZE - 1);
    plait_file_release_range(&read, 0, SIZE);
    assert_memory_equal(mapped.bytes, bytes, SIZE); /* released pages come back from the file */
    plait_file_close(&mapped);
    plait_file_close(&read);
    plait_file_close(&read);
    assert_null(read.bytes);
    free(bytes);
}

static void test_open_oddities(void **state) {
    (void)state;
    plait_file file = {.size_bytes = 99};
    assert_int_equal(plait_file_open(&file, in_folder("missing"), true), PLAIT_NOT_FOUND);
    assert_non_null(strstr(plait_error_message(), "missing"));
    assert_int_equal(plait_file_open(&file, folder, true), PLAIT_IO);
    assert_non_null(strstr(plait_error_message(), "directory"));
    assert_int_equal(file.size_bytes, 99); /* untouched by failures */
    write_plainly(in_folder("empty"), "", 0);
    for (int map = 0; map < 2; map++) {
        assert_int_equal(plait_file_open(&file, in_folder("empty"), map), PLAIT_OK);
        assert_true(file.bytes == NULL && file.size_bytes == 0);
        plait_file_close(&file);
    }
    /* Files whose size is not known before: the end shows by reading. */
    assert_int_equal(plait_file_open(&file, "/proc/filesystems", true), PLAIT_OK);
    assert_true(file.size_bytes == 0 || file.mapped == false);
    plait_file_close(&file);
    assert_int_equal(plait_file_open(&file, "/proc/filesystems", false), PLAIT_OK);
    assert_true(file.size_bytes > 20 && memchr(file.bytes, '\n', file.size_bytes));
    plait_file_close(&file);
}

static void test_read_from_pipe(void **state) {
    (void)state;
    enum { SIZE = 50000 };
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", ends[0]);
    char *bytes = calloc(1, SIZE);
    assert_non_null(bytes);
    memset(bytes, 'p', SIZE);
    assert_int_equal(write(ends[1], bytes, SIZE), SIZE);
    plait_file file = {0};
    /* The reading end is opened again by name; all writers must be gone for the end to show. */
    int keep = open(path, O_RDONLY | O_NONBLOCK);
    assert_true(keep >= 0);
    close(ends[1]);
    assert_int_equal(plait_file_open(&file, path, true), PLAIT_OK);
    assert_int_equal(file.size_bytes, SIZE);
    assert_memory_equal(file.bytes, bytes, SIZE);
    assert_false(file.mapped);
    plait_file_close(&file);
    close(keep);
    close(ends[0]);
    free(bytes);
}

static void expect_content(const char *path, const char *text) {
    plait_file file;
    assert_int_equal(plait_file_open(&file, path, false), PLAIT_OK);
    assert_int_equal(file.size_bytes, strlen(text));
    assert_memory_equal(file.bytes, text, strlen(text));
    plait_file_close(&file);
}

static void test_writer(void **state) {
    (void)state;
    int before = n_entries(folder);
    plait_file_writer w = {0};
    plait_file_writer_abandon(&w);
    assert_int_equal(plait_file_writer_open(&w, in_folder("out")), PLAIT_OK);
    assert_int_equal(plait_file_writer_write(&w, "hello ", 6), PLAIT_OK);
    assert_int_equal(access(in_folder("out"), F_OK), -1); /* not there before the commit */
    assert_int_equal(plait_file_writer_write(&w, "world", 5), PLAIT_OK);
    assert_int_equal(w.written_bytes, 11);
    assert_int_equal(plait_file_writer_commit(&w), PLAIT_OK);
    plait_file_writer_abandon(&w); /* nothing left to do */
    expect_content(in_folder("out"), "hello world");
    assert_int_equal(n_entries(folder), before + 1);
    /* Replacing: the old content stands until the commit, and for ever when it does not come. */
    assert_int_equal(plait_file_writer_open(&w, in_folder("out")), PLAIT_OK);
    assert_int_equal(plait_file_writer_write(&w, "new", 3), PLAIT_OK);
    expect_content(in_folder("out"), "hello world");
    plait_file_writer_abandon(&w);
    expect_content(in_folder("out"), "hello world");
    assert_int_equal(n_entries(folder), before + 1);
    struct stat st;
    mode_t mask = umask(0);
    umask(mask);
    assert_int_equal(stat(in_folder("out"), &st), 0);
    assert_int_equal(st.st_mode & 0777, 0666 & ~mask);
}

static void test_two_writers_of_one_path(void **state) {
    (void)state;
    plait_file_writer a, b;
    assert_int_equal(plait_file_writer_open(&a, in_folder("both")), PLAIT_OK);
    assert_int_equal(plait_file_writer_open(&b, in_folder("both")), PLAIT_OK);
    assert_int_equal(plait_file_writer_write(&a, "aaaaaaaa", 8), PLAIT_OK);
    assert_int_equal(plait_file_writer_write(&b, "bb", 2), PLAIT_OK);
    assert_int_equal(plait_file_writer_commit(&a), PLAIT_OK);
    expect_content(in_folder("both"), "aaaaaaaa");
    assert_int_equal(plait_file_writer_commit(&b), PLAIT_OK);
    expect_content(in_folder("both"), "bb");
}

static void test_writer_failures(void **state) {
    (void)state;
    plait_file_writer w = {.fd = 1234};
    assert_int_equal(plait_file_writer_open(&w, in_folder("no/such/folder")), PLAIT_IO);
    assert_non_null(strstr(plait_error_message(), "no/such/folder"));
    assert_int_equal(w.fd, 1234);
    /* A folder is no file to write, before and after the bytes. */
    int before = n_entries(folder);
    assert_int_equal(plait_file_writer_open(&w, folder), PLAIT_IO);
    assert_int_equal(plait_file_writer_open(&w, in_folder("way")), PLAIT_OK);
    assert_int_equal(mkdir(in_folder("way"), 0777), 0);
    write_plainly(in_folder("way/in"), "x", 1);
    assert_int_equal(plait_file_writer_commit(&w), PLAIT_IO); /* the rename fails */
    assert_int_equal(n_entries(folder), before + 1);
    /* A device stays a device. */
    struct stat st;
    assert_int_equal(plait_file_writer_open(&w, "/dev/null"), PLAIT_OK);
    assert_int_equal(plait_file_writer_write(&w, "x", 1), PLAIT_OK);
    assert_int_equal(plait_file_writer_commit(&w), PLAIT_OK);
    assert_true(stat("/dev/null", &st) == 0 && S_ISCHR(st.st_mode));
    remove(in_folder("way/in"));
}

/* Writes until it fails, at `path`; the failure must leave nothing behind. */
static void fill_up(const char *path, const char *where) {
    enum { CHUNK = 1 << 16 };
    char *bytes = calloc(1, CHUNK);
    assert_non_null(bytes);
    int before = n_entries(where);
    plait_file_writer w;
    plait_status status = plait_file_writer_open(&w, path);
    assert_int_equal(status, PLAIT_OK);
    for (int i = 0; i < 64 && status == PLAIT_OK; i++) status = plait_file_writer_write(&w, bytes, CHUNK);
    assert_int_equal(status, PLAIT_IO);
    assert_non_null(strstr(plait_error_message(), "cannot write at byte"));
    plait_file_writer_abandon(&w);
    assert_int_equal(access(path, F_OK), -1);
    assert_int_equal(n_entries(where), before);
    free(bytes);
}

/* No more room: a limit of the process on file sizes, which everybody may set; and, where mounting is allowed, a file
 * system that is full. */
static void test_no_room(void **state) {
    (void)state;
    struct rlimit old, small;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    small = old;
    small.rlim_cur = 300000;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    fill_up(in_folder("large"), folder);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    assert_int_equal(mkdir(in_folder("disk"), 0777), 0);
    bool mounted = mount("none", in_folder("disk"), "tmpfs", 0, "size=256k") == 0;
    if (mounted) {
        char disk[700];
        snprintf(disk, sizeof disk, "%s", in_folder("disk"));
        fill_up(in_folder("disk/large"), disk);
        assert_int_equal(umount(disk), 0);
    }
    rmdir(in_folder("disk"));
    printf("file size limit reached; full file system: %s\n", mounted ? "tried" : "may not mount one here");
}

static void test_machine(void **state) {
    (void)state;
    uint64_t a = plait_time_ns(), b = plait_time_ns();
    assert_true(b >= a && a > 0);
    assert_in_range(plait_os_processors(), 1, sysconf(_SC_NPROCESSORS_CONF));
    assert_true(plait_os_memory_total() > 64 << 20);
    assert_true(plait_os_memory_available() > 0);
    assert_true(plait_os_memory_available() <= plait_os_memory_total());
    assert_true(plait_os_peak_resident() > 100000);
    uint64_t before = plait_os_heap_bytes();
    void *block = malloc(100000);
    assert_non_null(block);
    if (before) assert_true(plait_os_heap_bytes() >= before + 100000);
    free(block);
    assert_true(plait_os_page_bytes() >= 4096 && (plait_os_page_bytes() & (plait_os_page_bytes() - 1)) == 0);
}

/* What this process works is part of what all work, as the system's other books have it. */
static void test_work(void **state) {
    (void)state;
    uint64_t all[2], own[2], begin = plait_time_ns();
    int n = 0;
    struct rusage usage;
    assert_true(plait_os_work(&all[0], &own[0], &n));
    assert_true(n >= 1 && n >= plait_os_processors());
    do {
        assert_true(plait_os_work(&all[1], &own[1], &n));
    } while (own[1] - own[0] < 60000000 && plait_time_ns() - begin < 20000000000u);
    assert_true(own[1] - own[0] >= 60000000);
    /* In ticks of 10 ms, as its threads' turns fall on them. */
    assert_true(all[1] - all[0] + 30000000 >= own[1] - own[0]);
    assert_true(all[1] - all[0] <= (plait_time_ns() - begin + 50000000) * (uint64_t)n);
    assert_int_equal(getrusage(RUSAGE_SELF, &usage), 0);
    double s = (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
               1e-6 * (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
    assert_true((double)own[1] * 1e-9 <= s + 0.01 && (double)own[1] * 1e-9 >= s - 0.05);
}

static void test_file_age(void **state) {
    (void)state;
    const char *path = in_folder("aged");
    struct timespec now, times[2];
    write_plainly(path, "x", 1);
    assert_true(plait_os_file_age_s(path) < 60);
    assert_int_equal(clock_gettime(CLOCK_REALTIME, &now), 0);
    times[0] = times[1] = (struct timespec){.tv_sec = now.tv_sec - 1000};
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
    assert_true(plait_os_file_age_s(path) >= 1000 && plait_os_file_age_s(path) < 1060);
    times[0] = times[1] = (struct timespec){.tv_sec = now.tv_sec + 1000};
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
    assert_int_equal(plait_os_file_age_s(path), 0);
    assert_int_equal(unlink(path), 0);
    assert_true(plait_os_file_age_s(path) == UINT64_MAX);
}

static void test_cache_folder(void **state) {
    (void)state;
    char *path = NULL, expected[700];
    struct stat st;
    setenv("XDG_CACHE_HOME", in_folder("cache"), 1);
    assert_int_equal(plait_os_cache_dir(&path), PLAIT_OK);
    snprintf(expected, sizeof expected, "%s/cache/plait", folder);
    assert_string_equal(path, expected);
    assert_true(stat(path, &st) == 0 && S_ISDIR(st.st_mode));
    free(path);
    assert_int_equal(plait_os_cache_dir(&path), PLAIT_OK); /* exists already */
    rmdir(path);
    free(path);
    unsetenv("XDG_CACHE_HOME");
    setenv("HOME", in_folder("cache"), 1);
    assert_int_equal(plait_os_cache_dir(&path), PLAIT_OK);
    snprintf(expected, sizeof expected, "%s/cache/.cache/plait", folder);
    assert_string_equal(path, expected);
    rmdir(path);
    free(path);
    rmdir(in_folder("cache/.cache"));
    setenv("HOME", "relative", 1);
    path = expected;
    assert_int_equal(plait_os_cache_dir(&path), PLAIT_NOT_FOUND);
    assert_ptr_equal(path, expected);
    write_plainly(in_folder("afile"), "x", 1);
    setenv("XDG_CACHE_HOME", in_folder("afile"), 1);
    assert_int_equal(plait_os_cache_dir(&path), PLAIT_IO);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_open_both_ways),
        cmocka_unit_test(test_open_oddities),
        cmocka_unit_test(test_read_from_pipe),
        cmocka_unit_test(test_writer),
        cmocka_unit_test(test_two_writers_of_one_path),
        cmocka_unit_test(test_writer_failures),
        cmocka_unit_test(test_no_room),
        cmocka_unit_test(test_machine),
        cmocka_unit_test(test_work),
        cmocka_unit_test(test_file_age),
        cmocka_unit_test(test_cache_folder),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
