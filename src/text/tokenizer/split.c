/* Splitting text by the stages of a rule, with PCRE2 and its JIT where the system allows one.
 *
 * Every stage sees only its piece: what lies before and behind is out of reach of its lookarounds, as the rules
 * demand. A match limit bounds the work of one search; reaching it is the status LIMIT, not a wrong split.
 *
 * Invariant: pieces come in order and cover the text exactly.
 */
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "text/tokenizer/internal.h"

/* Far above what any rule needs on a piece of the largest text, for rules are linear. */
enum { MATCH_LIMIT = 1 << 30, HEAP_LIMIT_KIB = 1 << 18, JIT_STACK_FIRST = 32 << 10, JIT_STACK_MAX = 8 << 20 };

/* 121 is PCRE2_ERROR_HEAP_FAILED, the compiler's own word for want of memory. A system that forbids executable memory
 * only makes it slower. */
plait_status plait_tok_split_compile(plait_tok_split *split, const plait_tok_rule *rule) {
    const char *const *stages;
    uint32_t n = plait_tok_rule_stages(rule, &stages);
    for (uint32_t i = 0; i < n; i++) {
        int code;
        PCRE2_SIZE offset;
        split->stages[i] = pcre2_compile((PCRE2_SPTR)stages[i], PCRE2_ZERO_TERMINATED, PCRE2_UTF | PCRE2_UCP,
                                         &code, &offset, NULL);
        if (!split->stages[i]) {
            if (code == PCRE2_ERROR_NOMEMORY || code == 121) return plait_error_memory("splitting rule", 0);
            return plait_error(PLAIT_INTERNAL, "splitting rule, stage %u: PCRE2 error %d at %zu", i, code,
                               (size_t)offset);
        }
        split->n_stages = i + 1;
        split->jit[i] = pcre2_jit_compile(split->stages[i], PCRE2_JIT_COMPLETE) == 0;
    }
    return PLAIT_OK;
}

void plait_tok_split_deinit(plait_tok_split *split) {
    for (uint32_t i = 0; i < split->n_stages; i++) pcre2_code_free(split->stages[i]);
    *split = (plait_tok_split){0};
}

/* One pair of offsets is enough: the rules have no groups that are asked for. */
plait_status plait_tok_split_scratch(plait_tokenizer_scratch *s) {
    s->match_data = pcre2_match_data_create(1, NULL);
    s->match_context = pcre2_match_context_create(NULL);
    s->jit_stack = pcre2_jit_stack_create(JIT_STACK_FIRST, JIT_STACK_MAX, NULL);
    if (!s->match_data || !s->match_context)
        return plait_error_memory("regular expressions", JIT_STACK_FIRST);
    pcre2_set_match_limit(s->match_context, MATCH_LIMIT);
    pcre2_set_heap_limit(s->match_context, HEAP_LIMIT_KIB);
    /* Without a stack of its own the JIT uses 32 KiB of the machine's. */
    if (s->jit_stack) pcre2_jit_stack_assign(s->match_context, NULL, s->jit_stack);
    return PLAIT_OK;
}

void plait_tok_split_scratch_deinit(plait_tokenizer_scratch *s) {
    pcre2_match_data_free(s->match_data);
    pcre2_match_context_free(s->match_context);
    if (s->jit_stack) pcre2_jit_stack_free(s->jit_stack);
}

/* The first match of a stage at or behind `from`: 1 and its range, 0 for none. */
static plait_status search(plait_tokenizer_scratch *s, uint32_t stage, const char *text, uint32_t n_bytes,
                           uint32_t from, uint32_t *out_start, uint32_t *out_end, bool *out_found) {
    const plait_tok_split *split = &s->tokenizer->split;
    s->n_steps++;
    int rc = split->jit[stage] ? pcre2_jit_match(split->stages[stage], (PCRE2_SPTR)text, n_bytes, from, 0,
                                                 s->match_data, s->match_context)
                               : pcre2_match(split->stages[stage], (PCRE2_SPTR)text, n_bytes, from,
                                             PCRE2_NO_UTF_CHECK, s->match_data, s->match_context);
    if (rc == PCRE2_ERROR_NOMATCH) {
        *out_found = false;
        return PLAIT_OK;
    }
    if (rc == PCRE2_ERROR_NOMEMORY) return plait_error_memory("regular expression", n_bytes);
    if (rc < 0)
        return plait_error(PLAIT_LIMIT,
                           "tokenizer: splitting %u bytes of text, stage %u: PCRE2 stopped with %d", n_bytes,
                           stage, rc);
    const PCRE2_SIZE *range = pcre2_get_ovector_pointer(s->match_data);
    *out_start = (uint32_t)range[0];
    *out_end = (uint32_t)range[1];
    *out_found = range[1] > range[0];
    return PLAIT_OK;
}

/* Recursion is as deep as a rule has stages. What lies between two matches goes to the next stage as well. An empty
 * match counts as none, so the loop always moves on. */
static plait_status run_stage(plait_tokenizer_scratch *s, uint32_t stage, const char *text, uint32_t n_bytes,
                              plait_tok_piece_fn piece) {
    if (n_bytes == 0) return PLAIT_OK;
    if (stage == s->tokenizer->split.n_stages) return piece(s, text, n_bytes);
    for (uint32_t at = 0; at < n_bytes;) {
        uint32_t start, end;
        bool found;
        PLAIT_TRY(search(s, stage, text, n_bytes, at, &start, &end, &found));
        if (!found) return run_stage(s, stage + 1, text + at, n_bytes - at, piece);
        if (start > at) PLAIT_TRY(run_stage(s, stage + 1, text + at, start - at, piece));
        PLAIT_TRY(run_stage(s, stage + 1, text + start, end - start, piece));
        at = end;
    }
    return PLAIT_OK;
}

plait_status plait_tok_split_run(plait_tokenizer_scratch *s, const char *text, uint32_t n_bytes,
                                 plait_tok_piece_fn piece) {
    return run_stage(s, 0, text, n_bytes, piece);
}
