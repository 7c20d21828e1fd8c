/* The wrapped allocator behind fault.h. Every live block is in one fixed table, found by its address, so that blocks of
 * libraries (which come past only at free) are told apart from ours. Invariant: the table holds exactly the blocks that
 * were given out and not freed. */
#include "fault/fault.h"

#include "base/status.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

/* What the linker calls the true functions, and ours that stand in for them. */
void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *block, size_t size);
void *__real_aligned_alloc(size_t alignment, size_t size);
void __real_free(void *block);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *block, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);
void __wrap_free(void *block);

#define TABLE_SLOTS (1u << 17)
#define MAX_FAULTS  1000000
#define REMOVED     ((void *)1)

typedef struct live_block {
    void *block; /* NULL: never used; REMOVED: free again, the search goes on behind it */
    size_t size_bytes;
} live_block;

static struct {
    pthread_mutex_t lock;
    uint64_t n_allocations, fail_at; /* fail_at: the count at which one fails, 0 for none */
    bool hit;
    size_t n_blocks, n_bytes;
    live_block table[TABLE_SLOTS];
} state = {.lock = PTHREAD_MUTEX_INITIALIZER};

static live_block *find(void *block) {
    size_t at = (size_t)(((uintptr_t)block >> 4) * 0x9e3779b97f4a7c15u >> 40) % TABLE_SLOTS;
    for (size_t i = 0; i < TABLE_SLOTS; i++, at = (at + 1) % TABLE_SLOTS)
        if (state.table[at].block == block || !state.table[at].block) return &state.table[at];
    return NULL;
}

static void forget(void *block) {
    live_block *entry = find(block);
    if (!entry || entry->block != block) return;
    state.n_blocks--;
    state.n_bytes -= entry->size_bytes;
    *entry = (live_block){.block = REMOVED};
    /* Marks before a slot that was never used lead nowhere: without them the table stays quick. */
    size_t at = (size_t)(entry - state.table);
    if (state.table[(at + 1) % TABLE_SLOTS].block) return;
    for (; state.table[at].block == REMOVED; at = (at + TABLE_SLOTS - 1) % TABLE_SLOTS)
        state.table[at].block = NULL;
}

static void remember(void *block, size_t size_bytes) {
    if (!block) return;
    forget(block); /* a library may have freed it behind our back */
    live_block *entry = find(block);
    size_t at = entry ? (size_t)(entry - state.table) : 0;
    for (size_t i = 0; !entry && i < TABLE_SLOTS; i++)
        if (state.table[i].block == REMOVED) entry = &state.table[at = i];
    if (!entry) return; /* more live blocks than the table has room for: the counts say so */
    state.table[at] = (live_block){block, size_bytes};
    state.n_blocks++;
    state.n_bytes += size_bytes;
}

/* Counts one allocation; true when it is the one that must fail. */
static bool must_fail(void) {
    state.n_allocations++;
    bool fail = state.n_allocations == state.fail_at;
    state.hit = state.hit || fail;
    return fail;
}

void *__wrap_malloc(size_t size) {
    pthread_mutex_lock(&state.lock);
    void *block = must_fail() ? NULL : __real_malloc(size);
    remember(block, size);
    pthread_mutex_unlock(&state.lock);
    return block;
}

void *__wrap_calloc(size_t n, size_t size) {
    pthread_mutex_lock(&state.lock);
    void *block = must_fail() ? NULL : __real_calloc(n, size);
    remember(block, n * size);
    pthread_mutex_unlock(&state.lock);
    return block;
}

void *__wrap_aligned_alloc(size_t alignment, size_t size) {
    pthread_mutex_lock(&state.lock);
    void *block = must_fail() ? NULL : __real_aligned_alloc(alignment, size);
    remember(block, size);
    pthread_mutex_unlock(&state.lock);
    return block;
}

void *__wrap_realloc(void *old, size_t size) {
    pthread_mutex_lock(&state.lock);
    void *block = NULL;
    if (!must_fail()) {
        uintptr_t old_address = (uintptr_t)old;
        block = __real_realloc(old, size);
        if (block && old_address) forget((void *)old_address);
        remember(block, size);
    }
    pthread_mutex_unlock(&state.lock);
    return block;
}

void __wrap_free(void *block) {
    if (!block) return;
    pthread_mutex_lock(&state.lock);
    forget(block);
    __real_free(block);
    pthread_mutex_unlock(&state.lock);
}

void fault_arm(uint64_t nth) {
    pthread_mutex_lock(&state.lock);
    state.fail_at = nth ? state.n_allocations + nth : 0;
    state.hit = false;
    pthread_mutex_unlock(&state.lock);
}

bool fault_hit(void) {
    pthread_mutex_lock(&state.lock);
    bool hit = state.hit;
    pthread_mutex_unlock(&state.lock);
    return hit;
}

uint64_t fault_allocations(void) {
    pthread_mutex_lock(&state.lock);
    uint64_t n = state.n_allocations;
    pthread_mutex_unlock(&state.lock);
    return n;
}

size_t fault_live_blocks(void) {
    pthread_mutex_lock(&state.lock);
    size_t n = state.n_blocks;
    pthread_mutex_unlock(&state.lock);
    return n;
}

size_t fault_live_bytes(void) {
    pthread_mutex_lock(&state.lock);
    size_t n = state.n_bytes;
    pthread_mutex_unlock(&state.lock);
    return n;
}

#define NO_MESSAGE "no message was left"

/* One run with the nth allocation failing, and everything that must be true after it. Returns false when the run had
 * fewer allocations than that. */
static bool run_once(const char *name, fault_fn fn, void *user, uint64_t nth) {
    size_t blocks = fault_live_blocks(), bytes = fault_live_bytes();
    plait_error_set(PLAIT_INTERNAL, "%s", NO_MESSAGE);
    fault_arm(nth);
    plait_status status = fn(user);
    bool hit = fault_hit();
    fault_arm(0);
    if (fault_live_blocks() != blocks || fault_live_bytes() != bytes)
        fail_msg("%s, allocation %llu failing: %lld blocks and %lld bytes are still allocated", name,
                 (unsigned long long)nth, (long long)fault_live_blocks() - (long long)blocks,
                 (long long)fault_live_bytes() - (long long)bytes);
    if (!hit && status != PLAIT_OK)
        fail_msg("%s: fails with all its memory: %s: %s", name, plait_status_name(status),
                 plait_error_message());
    if (!hit) return false;
    if (status != PLAIT_OUT_OF_MEMORY)
        fail_msg("%s, allocation %llu failing: expected OUT_OF_MEMORY, found %s", name,
                 (unsigned long long)nth, plait_status_name(status));
    if (!plait_error_message()[0] || strcmp(plait_error_message(), NO_MESSAGE) == 0)
        fail_msg("%s, allocation %llu failing: no message", name, (unsigned long long)nth);
    return true;
}

uint64_t fault_each_named(const char *name, fault_fn fn, void *user) {
    uint64_t n = 0;
    while (run_once(name, fn, user, n + 1))
        if (++n == MAX_FAULTS) fail_msg("%s: more than %d allocations", name, MAX_FAULTS);
    printf("%s: %llu allocations made to fail\n", name, (unsigned long long)n);
    return n;
}
