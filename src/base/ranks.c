/* The set of ranks. Not here: any meaning of a rank (the planner's orders, the merges of a tokenizer). Invariant: a bit
 * of a level is set exactly when the word below it, at its place, is not empty. */
#include "base/ranks.h"

/* Each level has a bit for each word of the one below, up to a level of one word: 64^6 = 2^36 numbers need six levels,
 * and not one word more in the lowest. The set below 0 has a word too, so that there is a level. n bits and a 63rd of
 * that above them: each level has a 64th of the one below. The arena owns them. */
plait_status plait_ranks_init(plait_ranks *ranks, plait_arena *arena, size_t n) {
    size_t words = n ? (n - 1) / 64 + 1 : 1;
    if (n > (size_t)1 << 36) return plait_error(PLAIT_LIMIT, "set of ranks: %zu, at most 2^36", n);
    *ranks = (plait_ranks){0};
    for (;;) {
        uint64_t *level = plait_arena_alloc(arena, words, sizeof *level);
        if (!level) return plait_error_memory("set of ranks", words * sizeof *level);
        ranks->n_words[ranks->n_levels] = words;
        ranks->levels[ranks->n_levels++] = level;
        if (words == 1) return PLAIT_OK;
        words = (words + 63) / 64;
    }
}

/* rank < n, as in all functions but the two searches. Adding a member twice does nothing. */
void plait_ranks_add(plait_ranks *ranks, size_t rank) {
    for (int l = 0; l < ranks->n_levels; l++, rank /= 64)
        ranks->levels[l][rank / 64] |= (uint64_t)1 << (rank % 64);
}

/* Stops at the first level whose word keeps another member: the levels above then say the truth already. */
void plait_ranks_remove(plait_ranks *ranks, size_t rank) {
    for (int l = 0; l < ranks->n_levels; l++, rank /= 64) {
        uint64_t *word = &ranks->levels[l][rank / 64];
        *word &= ~((uint64_t)1 << (rank % 64));
        if (*word) return;
    }
}

bool plait_ranks_has(const plait_ranks *ranks, size_t rank) {
    return ranks->levels[0][rank / 64] >> (rank % 64) & 1u;
}

/* Up until a word has a member on the wanted side, then down along its nearest end. A level that has none at or below
 * `rank` in its word goes on one bit to the left in the level above, which is the word before; past word 0 there is
 * nothing. The largest member at or below `rank`; at most two words for each level are looked at, so a search costs the
 * same in a set of a thousand and of a million. */
size_t plait_ranks_below(const plait_ranks *ranks, size_t rank) {
    for (int l = 0; l < ranks->n_levels; l++) {
        uint64_t word = ranks->levels[l][rank / 64] & (UINT64_MAX >> (63 - rank % 64));
        if (word) {
            rank = rank / 64 * 64 + 63 - (size_t)__builtin_clzll(word);
            while (l-- > 0) rank = rank * 64 + 63 - (size_t)__builtin_clzll(ranks->levels[l][rank]);
            return rank;
        }
        if (rank / 64 == 0) return PLAIT_NO_RANK;
        rank = rank / 64 - 1;
    }
    return PLAIT_NO_RANK;
}

/* The mirror image of plait_ranks_below: masks keep the upper bits, and the nearest end is the lowest. */
size_t plait_ranks_above(const plait_ranks *ranks, size_t rank) {
    for (int l = 0; l < ranks->n_levels && rank / 64 < ranks->n_words[l]; l++) {
        uint64_t word = ranks->levels[l][rank / 64] & (UINT64_MAX << (rank % 64));
        if (word) {
            rank = rank / 64 * 64 + (size_t)__builtin_ctzll(word);
            while (l-- > 0) rank = rank * 64 + (size_t)__builtin_ctzll(ranks->levels[l][rank]);
            return rank;
        }
        rank = rank / 64 + 1;
    }
    return PLAIT_NO_RANK;
}
