/* The table of architectures. Not here: numbers of a file (hparams.c), and what a trait does to a graph (decoder.c).
 * Invariant: a row's traits are data; no code asks for an architecture's name. */
#include "model/arch.h"

#include "base/size.h"

#include <string.h>

/* Names are those of general.architecture. Numbers that only some families have (soft caps, windows, scaling of rope)
 * are no traits: a file that has them says so itself. */
static const plait_arch rows[] = {
    {"llama", {.experts = PLAIT_EXPERTS_OF_CHOSEN}, plait_decoder_layers},
    {"mistral3", {.temperature = true}, plait_decoder_layers},
    {"granite", {.multipliers = true}, plait_decoder_layers},
    {"qwen2", {.rope_halves = true}, plait_decoder_layers},
    {"qwen3", {.rope_halves = true, .qk_norm = true}, plait_decoder_layers},
    {"granitemoe", {.multipliers = true, .experts = PLAIT_EXPERTS_OF_CHOSEN}, plait_decoder_layers},
    {"qwen2moe",
     {.rope_halves = true, .experts = PLAIT_EXPERTS_OF_ALL, .shared_gate = true},
     plait_decoder_layers},
    {"qwen3moe",
     {.rope_halves = true, .qk_norm = true, .experts = PLAIT_EXPERTS_OF_CHOSEN},
     plait_decoder_layers},
    {"gemma2",
     {.rope_halves = true, .post_norms = true, .gelu = true, .scaled_embedding = true, .window_period = 2},
     plait_decoder_layers},
    {"gemma3",
     {.rope_halves = true,
      .qk_norm = true,
      .post_norms = true,
      .gelu = true,
      .scaled_embedding = true,
      .window_period = 6,
      .local_unscaled = true},
     plait_decoder_layers},
};

const plait_arch *plait_arch_at(size_t index) {
    return index < PLAIT_COUNT_OF(rows) ? &rows[index] : NULL;
}

/* `name` comes from a file: it has a length, not an end. */
const plait_arch *plait_arch_find(const char *name, size_t length) {
    for (size_t i = 0; i < PLAIT_COUNT_OF(rows); i++)
        if (strlen(rows[i].name) == length && memcmp(rows[i].name, name, length) == 0) return &rows[i];
    return NULL;
}
