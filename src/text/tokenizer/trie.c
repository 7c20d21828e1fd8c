/* A trie over bytes whose edges lie in one hash table. It is built in linear time, uses 16 bytes an edge at most, and
 * a step is one probe. Not a set: values are the caller's.
 *
 * Invariant: nodes are numbered in the order of creation, so a child has a higher number than its parent; at most
 * half of the slots are used.
 */
#include "base/alloc.h"
#include "text/tokenizer/internal.h"

#include <stdlib.h>
#include <sys/random.h>

enum { FIRST_SLOTS = 1024, MAX_NODES = 1 << 24 };

/* The multiplier is odd, so that multiplying loses no bit, and random, so that no vocabulary can be made whose edges
 * collide. */
plait_status plait_tok_trie_init(plait_tok_trie *trie) {
    *trie = (plait_tok_trie){.n_slots = FIRST_SLOTS, .n_nodes = 1};
    if (getrandom(&trie->multiplier, sizeof trie->multiplier, GRND_NONBLOCK) != sizeof trie->multiplier)
        trie->multiplier = 0x9E3779B97F4A7C15u;
    trie->multiplier |= 1;
    trie->slots = plait_alloc_array(FIRST_SLOTS, sizeof *trie->slots);
    if (!trie->slots) return plait_error_memory("trie", FIRST_SLOTS * sizeof *trie->slots);
    PLAIT_TRY(plait_grow(&trie->values, &trie->values_capacity, FIRST_SLOTS, sizeof *trie->values, MAX_NODES,
                         "trie nodes"));
    trie->values[0] = PLAIT_TOK_NONE;
    return PLAIT_OK;
}

void plait_tok_trie_deinit(plait_tok_trie *trie) {
    free(trie->slots);
    free(trie->values);
    *trie = (plait_tok_trie){0};
}

/* There is a free slot, and the edge is not there yet. 0 marks a free one: no edge is 0, for the child of an edge is
 * not the root. */
static void insert_edge(plait_tok_trie *trie, uint64_t edge) {
    size_t i = plait_tok_trie_slot(trie, (uint32_t)(edge >> 32));
    while (trie->slots[i] != 0) i = (i + 1) & (trie->n_slots - 1);
    trie->slots[i] = edge;
}

/* *trie changes only when the larger table is complete. */
static plait_status grow_edges(plait_tok_trie *trie) {
    if (trie->n_edges + 1 <= trie->n_slots / 2) return PLAIT_OK;
    plait_tok_trie bigger = *trie;
    bigger.n_slots *= 2;
    bigger.slots = plait_alloc_array(bigger.n_slots, sizeof *bigger.slots);
    if (!bigger.slots) return plait_error_memory("trie", bigger.n_slots * sizeof *bigger.slots);
    for (size_t i = 0; i < trie->n_slots; i++)
        if (trie->slots[i]) insert_edge(&bigger, trie->slots[i]);
    free(trie->slots);
    *trie = bigger;
    return PLAIT_OK;
}

/* Both arrays grow before anything is entered. Children of the root have a table of their own, since most steps begin
 * there. */
static plait_status add_child(plait_tok_trie *trie, uint32_t node, unsigned char byte, uint32_t *out_child) {
    if (trie->n_nodes >= MAX_NODES)
        return plait_error(PLAIT_LIMIT, "tokenizer: the tokens need more than %d trie nodes", MAX_NODES);
    PLAIT_TRY(grow_edges(trie));
    PLAIT_TRY(plait_grow(&trie->values, &trie->values_capacity, trie->n_nodes + 1, sizeof *trie->values,
                         MAX_NODES, "trie nodes"));
    uint32_t child = trie->n_nodes++;
    trie->values[child] = PLAIT_TOK_NONE;
    if (node == 0) {
        trie->root[byte] = child;
    } else {
        insert_edge(trie, (uint64_t)(node << 8 | byte) << 32 | child);
        trie->n_edges++;
    }
    *out_child = child;
    return PLAIT_OK;
}

/* What was added of a key before a failure stays; the tokenizer is then given up. */
plait_status plait_tok_trie_add(plait_tok_trie *trie, const char *key, uint32_t key_bytes,
                                uint32_t *out_node) {
    uint32_t node = 0;
    for (uint32_t i = 0; i < key_bytes; i++) {
        uint32_t child = plait_tok_trie_step(trie, node, (unsigned char)key[i]);
        if (!child) PLAIT_TRY(add_child(trie, node, (unsigned char)key[i], &child));
        node = child;
    }
    *out_node = node;
    return PLAIT_OK;
}
