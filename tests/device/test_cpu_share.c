/* What a share does to threads and memory of this machine: where workers run and where the caller runs afterwards, which
 * node the pages of buffers ask for, how home ranges follow weights, and what is left when the system refuses. And the
 * list of users: never more threads at work within launches that wait for each other than there are processors. */
/* monitor: no */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/os.h"
#include "base/size.h"
#include "base/thread.h"
#include "device/cpu/cpu.h"
#include "device/processors.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- jobs that tell who does what ---- */

enum { MAX_WORKERS = 8, UNITS = 100000 };

/* A job of one phase in which every worker takes part: nobody goes on before all have begun. */
typedef struct roll_call {
    plait_cpu_work work;
    int64_t units;
    int n_workers;
    _Atomic int begun;
    _Atomic bool came[MAX_WORKERS];
    int64_t first[MAX_WORKERS]; /* first unit of each worker */
    plait_cpuset where[MAX_WORKERS];
    _Atomic int64_t done;
} roll_call;

static void answer(const plait_cpu_work *work, int phase, int64_t begin, int64_t end, int thread) {
    roll_call *r = (roll_call *)(uintptr_t)work;
    (void)phase;
    if (!r->came[thread]) {
        r->came[thread] = true;
        r->first[thread] = begin;
        plait_thread_processors(&r->where[thread]);
        r->begun++;
        while (r->begun < r->n_workers) sched_yield();
    }
    r->done += end - begin;
}

static void call_roll(plait_cpu_pool *pool, roll_call *r) {
    memset(r, 0, sizeof *r);
    r->units = UNITS;
    r->n_workers = plait_cpu_pool_threads(pool);
    r->work = (plait_cpu_work){.n_phases = 1, .units = &r->units, .run = answer};
    plait_cpu_pool_acquire(pool);
    plait_cpu_pool_run(pool, &r->work);
    plait_cpu_pool_release(pool);
    assert_int_equal(r->done, UNITS);
    assert_int_equal(r->begun, r->n_workers);
}

static plait_cpu_device *open_device(const char *item) {
    plait_device *device = NULL;
    if (plait_device_create(item, NULL, &device) != PLAIT_OK) fail_msg("%s: %s", item, plait_error_message());
    return (plait_cpu_device *)device;
}

static void close_device(plait_cpu_device *device) {
    device->base.vtable->destroy(&device->base);
}

static void assert_description(plait_cpu_device *device, const char *part) {
    plait_device_info info;
    assert_int_equal(device->base.vtable->describe(&device->base, &info), PLAIT_OK);
    if (!strstr(info.description, part)) fail_msg("\"%s\" does not say \"%s\"", info.description, part);
}

/* ---- binding ---- */

static void bound_threads(void **state) {
    static roll_call r;
    plait_cpuset before, after, wanted = {0};
    char item[64], part[64];
    (void)state;
    plait_thread_processors(&before);
    int last = 0;
    for (int p = plait_cpuset_next(&before, 0); p >= 0; p = plait_cpuset_next(&before, p + 1)) last = p;
    plait_cpuset_add(&wanted, last);
    snprintf(item, sizeof item, "cpu:threads=3:cores=%d", last);
    snprintf(part, sizeof part, "3 threads");
    plait_cpu_device *device = open_device(item);
    assert_description(device, part);
    snprintf(part, sizeof part, "processor %d", last);
    assert_description(device, part);
    call_roll(device->pool, &r);
    for (int i = 0; i < 3; i++) assert_true(plait_cpuset_equal(&r.where[i], &wanted));
    /* The caller was worker 0, and is free again. */
    plait_thread_processors(&after);
    assert_true(plait_cpuset_equal(&before, &after));
    close_device(device);
    /* Nothing asked for, nothing bound. */
    device = open_device("cpu:threads=2");
    call_roll(device->pool, &r);
    if (device->share.n_kinds == 0)
        for (int i = 0; i < 2; i++) assert_true(plait_cpuset_equal(&r.where[i], &before));
    close_device(device);
}

/* ---- home ranges ---- */

/* As many fast and slow threads as the share says, each kind with any processor of this machine. */
static void weighted_homes(void **state) {
    static roll_call r;
    plait_cpu_share share;
    plait_cpu_pool *pool = NULL;
    (void)state;
    plait_cpu_share_plain(5, &share);
    share.n_kinds = 3;
    share.kinds[0] = (plait_cpu_share_kind){.n_processors = 2, .n_threads = 2, .weight = 1024};
    share.kinds[1] = (plait_cpu_share_kind){.n_processors = 1, .n_threads = 0, .weight = 700};
    share.kinds[2] = (plait_cpu_share_kind){.n_processors = 3, .n_threads = 3, .weight = 300};
    assert_int_equal(plait_cpu_pool_create(&share, &pool), PLAIT_OK);
    call_roll(pool, &r);
    static const int64_t weights[] = {0, 1024, 2048, 2348, 2648};
    for (int i = 0; i < 5; i++) assert_int_equal(r.first[i], UNITS * weights[i] / 2948);
    plait_cpu_pool_destroy(pool);
    plait_cpu_share_plain(3, &share);
    assert_int_equal(plait_cpu_pool_create(&share, &pool), PLAIT_OK);
    call_roll(pool, &r);
    for (int i = 0; i < 3; i++) assert_int_equal(r.first[i], plait_part_start(UNITS, i, 3));
    plait_cpu_pool_destroy(pool);
}

/* ---- memory of a node ---- */

/* <linux/mempolicy.h>: the policy of an address; preferred memory of a node. */
enum { BY_ADDRESS = 2, PREFERRED = 1 };

/* -1 where the system has no nodes, or does not tell. */
static int policy_of(const void *address, unsigned long *nodes) {
    int mode = -1;
    return syscall(SYS_get_mempolicy, &mode, nodes, 1024, address, BY_ADDRESS) == 0 ? mode : -1;
}

static void memory_of_a_node(void **state) {
    (void)state;
    unsigned long nodes[16] = {0};
    uint64_t total, left;
    int local = 0;
    plait_device *none = NULL;
    if (plait_os_node_memory(0, &total, &left) != PLAIT_OK) {
        printf("this system does not tell of nodes\n");
        assert_int_equal(plait_device_create("cpu:numa=0", NULL, &none), PLAIT_INVALID_ARGUMENT);
        return;
    }
    plait_cpu_device *device = open_device("cpu:numa=0:threads=1");
    const plait_device_vtable *v = device->base.vtable;
    uint64_t seen_total = 0, seen_left = 0;
    if (policy_of(&local, nodes) < 0) {
        printf("this system lets nobody ask for memory of a node\n");
        assert_description(device, "refused: ");
        close_device(device);
        return;
    }
    assert_description(device, "memory of node 0");
    assert_int_equal(v->memory_query(&device->base, &seen_total, &seen_left), PLAIT_OK);
    assert_true(seen_total <= total && seen_left <= total && seen_left > 0);
    static const uint64_t sizes[] = {1, 4096, 100000, 5 << 20};
    for (size_t i = 0; i < PLAIT_COUNT_OF(sizes); i++) {
        plait_buffer *buffer = NULL;
        assert_int_equal(v->buffer_create(&device->base, sizes[i], PLAIT_BUFFER_STATE, &buffer), PLAIT_OK);
        int mode = policy_of(buffer->host, nodes);
        assert_int_equal(mode & 0xff, PREFERRED);
        assert_int_equal(nodes[0], 1);
        ((unsigned char *)buffer->host)[sizes[i] - 1] = 1;
        v->buffer_destroy(buffer);
    }
    close_device(device);
}

/* ---- a system that refuses ---- */

/* From now on this process may neither bind threads nor ask for memory of a node, as in many containers. */
static bool forbid(void) {
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mbind, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_sched_setaffinity, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = PLAIT_COUNT_OF(filter), .filter = filter};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

static int in_a_sandbox(const char *item, bool node) {
    plait_device *device = NULL;
    plait_device_info info;
    plait_buffer *buffer = NULL;
    static roll_call r;
    if (!forbid()) return 77;
    if (plait_device_create(item, NULL, &device) != PLAIT_OK) return 2;
    plait_cpu_device *cpu = (plait_cpu_device *)device;
    if (device->vtable->describe(device, &info) != PLAIT_OK) return 3;
    printf("%s\n", info.description);
    if (!strstr(info.description, "(refused: keeping threads to processors: Operation not permitted"))
        return 4;
    if (node && !strstr(info.description, "; memory of node 0: Operation not permitted)")) return 4;
    if (cpu->memory_node != -1 || cpu->share.node != (node ? 0 : -1)) return 5;
    if (device->vtable->buffer_create(device, 9 << 20, PLAIT_BUFFER_STATE, &buffer) != PLAIT_OK) return 6;
    for (size_t i = 0; i < 9 << 20; i += 1000)
        if (((unsigned char *)buffer->host)[i] != 0) return 7;
    call_roll(cpu->pool, &r);
    device->vtable->buffer_destroy(buffer);
    device->vtable->destroy(device);
    return 0;
}

static void refuse(const char *item, bool node) {
    int status = 0;
    fflush(stdout);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        int code = in_a_sandbox(item, node);
        fflush(stdout);
        _exit(code);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77)
        printf("this system takes no filters\n"); /* so nothing can be made to be refused */
    else
        assert_int_equal(WEXITSTATUS(status), 0);
}

static void refusals(void **state) {
    uint64_t total, left;
    plait_cpuset usable;
    char item[64];
    (void)state;
    plait_thread_processors(&usable);
    snprintf(item, sizeof item, "cpu:threads=2:cores=%d", plait_cpuset_next(&usable, 0));
    refuse(item, false);
    if (plait_os_node_memory(0, &total, &left) == PLAIT_OK) refuse("cpu:threads=2:numa=0", true);
}

/* ---- who may use how many processors ---- */

static void plenty(void **state) {
    const int n = plait_os_processors();
    plait_processor_user a = {.n_threads = n}, b = {.n_threads = n};
    (void)state;
    plait_processors_join(&a);
    assert_true(plait_processors_are_plenty(&a));
    assert_int_equal(plait_processors_take(&a), n);
    plait_processors_give(&a);
    plait_processors_join(&b);
    assert_false(plait_processors_are_plenty(&a) || plait_processors_are_plenty(&b));
    /* Alone at work, each gets all; the second one gets what is left, but one at least. */
    assert_int_equal(plait_processors_take(&a), n);
    assert_int_equal(plait_processors_take(&b), 1);
    plait_processors_give(&a);
    plait_processors_give(&b);
    assert_int_equal(plait_processors_take(&b), n);
    plait_processors_give(&b);
    plait_processors_leave(&b);
    assert_true(plait_processors_are_plenty(&a));
    plait_processors_leave(&a);
    plait_processors_leave(&a);
}

/* More threads than processors are the user's wish as long as nobody else works. */
static void more_than_there_are(void **state) {
    const int n = plait_os_processors();
    plait_processor_user a = {.n_threads = n + 3}, b = {.n_threads = 1};
    (void)state;
    plait_processors_join(&a);
    plait_processors_join(&b);
    assert_int_equal(plait_processors_take(&a), n + 3);
    plait_processors_give(&a);
    assert_int_equal(plait_processors_take(&b), 1);
    assert_int_equal(plait_processors_take(&a), plait_max_i64(n - 1, 1));
    plait_processors_give(&a);
    plait_processors_give(&b);
    plait_processors_leave(&a);
    plait_processors_leave(&b);
}

/* Sets that overlap are short of processors even when the machine is not. */
static void sets_that_overlap(void **state) {
    plait_cpuset one = {0}, two = {0};
    (void)state;
    plait_cpuset_add(&one, 0);
    plait_cpuset_add(&two, 1);
    plait_processor_user a = {.n_threads = 1, .bound = &one}, b = {.n_threads = 1, .bound = &one},
                         c = {.n_threads = 1, .bound = &two};
    plait_processors_join(&a);
    bool alone = plait_os_processors() >= 3;
    plait_processors_join(&c);
    if (alone) assert_true(plait_processors_are_plenty(&a) && plait_processors_are_plenty(&c));
    plait_processors_join(&b);
    assert_false(plait_processors_are_plenty(&a) || plait_processors_are_plenty(&b));
    if (alone) assert_true(plait_processors_are_plenty(&c));
    plait_processors_leave(&a);
    plait_processors_leave(&c);
    plait_processors_leave(&b);
}

/* ---- under load ---- */

enum { USERS = 4, ROUNDS = 20000 };

static _Atomic int together; /* threads of launches with more than one */
static _Atomic int worst;

typedef struct taker {
    plait_processor_user user;
    plait_thread thread;
} taker;

static void *take_and_give(void *argument) {
    taker *t = argument;
    for (int i = 0; i < ROUNDS; i++) {
        int n = plait_processors_take(&t->user);
        if (n > 1) {
            int now = atomic_fetch_add(&together, n) + n, seen = worst;
            while (now > seen && !atomic_compare_exchange_weak(&worst, &seen, now)) continue;
            if (i % 64 == 0) sched_yield();
            together -= n;
        }
        plait_processors_give(&t->user);
    }
    return NULL;
}

static void never_too_many(void **state) {
    static taker takers[USERS];
    const int n = plait_os_processors();
    (void)state;
    for (int i = 0; i < USERS; i++) {
        takers[i].user.n_threads = n;
        plait_processors_join(&takers[i].user);
    }
    for (int i = 0; i < USERS; i++)
        assert_int_equal(plait_thread_start(&takers[i].thread, "taker", take_and_give, &takers[i]), PLAIT_OK);
    for (int i = 0; i < USERS; i++) plait_thread_join(&takers[i].thread);
    for (int i = 0; i < USERS; i++) plait_processors_leave(&takers[i].user);
    printf("%d users of %d threads each: at most %d at once in launches of several\n", USERS, n, worst);
    assert_true(worst <= n);
}

/* Threads of the host spin on what the users leave. */
static void spinning_hosts(void **state) {
    const int n = plait_os_processors();
    plait_processor_user a = {.n_threads = n}, b = {.n_threads = n};
    int begun = 0;
    (void)state;
    plait_processors_join(&a);
    while (begun <= n && plait_spin_begin()) begun++;
    assert_int_equal(begun, 1); /* the one that drives the launches */
    for (; begun; begun--) plait_spin_end();
    plait_processors_join(&b);
    while (begun <= n && plait_spin_begin()) begun++;
    assert_int_equal(begun, plait_max_i64(n - 2 * (n - 1), 0));
    for (; begun; begun--) plait_spin_end();
    plait_processors_leave(&a);
    plait_processors_leave(&b);
    while (begun <= n && plait_spin_begin()) begun++;
    assert_int_equal(begun, n);
    for (; begun; begun--) plait_spin_end();
}

/* ---- pools that are short of processors ---- */

typedef struct adding {
    plait_cpu_work work;
    int64_t units[6];
    int sums[6][64];
    int wrong;
    plait_cpu_pool *pool;
    plait_thread thread;
} adding;

static void add_one(const plait_cpu_work *work, int phase, int64_t begin, int64_t end, int thread) {
    adding *a = (adding *)(uintptr_t)work;
    (void)thread;
    for (int64_t u = begin; u < end; u++) a->sums[phase][u]++;
}

static void *launch_often(void *argument) {
    adding *a = argument;
    enum { LAUNCHES = 3000 };
    for (int i = 1; i <= LAUNCHES; i++) {
        plait_cpu_pool_acquire(a->pool);
        plait_cpu_pool_run(a->pool, &a->work);
        plait_cpu_pool_release(a->pool);
        for (int p = 0; p < 6; p++)
            for (int u = 0; u < a->units[p]; u++) a->wrong += a->sums[p][u] != i;
    }
    return NULL;
}

/* The number of workers changes from launch to launch; every unit is done once all the same. */
static void several_pools(void **state) {
    static adding jobs[3];
    (void)state;
    for (int i = 0; i < 3; i++) {
        plait_cpu_share share;
        adding *a = &jobs[i];
        plait_cpu_share_plain(plait_os_processors() + 1 - (i == 0), &share);
        *a = (adding){.units = {64, 1, 17, 0, 64, 5}};
        a->work = (plait_cpu_work){.n_phases = 6, .units = a->units, .run = add_one};
        assert_int_equal(plait_cpu_pool_create(&share, &a->pool), PLAIT_OK);
    }
    for (int i = 0; i < 3; i++)
        assert_int_equal(plait_thread_start(&jobs[i].thread, "jobs", launch_often, &jobs[i]), PLAIT_OK);
    for (int i = 0; i < 3; i++) {
        plait_thread_join(&jobs[i].thread);
        assert_int_equal(jobs[i].wrong, 0);
        plait_cpu_pool_destroy(jobs[i].pool);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bound_threads),
        cmocka_unit_test(weighted_homes),
        cmocka_unit_test(memory_of_a_node),
        cmocka_unit_test(refusals),
        cmocka_unit_test(plenty),
        cmocka_unit_test(more_than_there_are),
        cmocka_unit_test(sets_that_overlap),
        cmocka_unit_test(never_too_many),
        cmocka_unit_test(spinning_hosts),
        cmocka_unit_test(several_pools),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
