/* Models by their metadata alone: files with the shapes of well-known sizes whose tensor data is a hole, so that planning
 * has everything it may look at and nothing that it may not. Reading a weight of them reads zeros. */
#ifndef PLAIT_TESTS_FIT_MODELS_H
#define PLAIT_TESTS_FIT_MODELS_H

#include "plait/gguf.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

typedef struct fit_shape {
    const char *name;
    plait_dtype type; /* of the matrices */
    int64_t n_layers, n_embd, n_heads, n_kv_heads, head_dim, n_ff, n_vocab, context;
    bool tied;
    int64_t n_experts, n_used; /* 0: none; n_ff is that of an expert then */
} fit_shape;

static const fit_shape fit_shapes[] = {
    {"135M", PLAIT_Q8_0, 30, 576, 9, 3, 64, 1536, 49152, 8192, true, 0, 0},
    {"1B", PLAIT_Q4_0, 16, 2048, 32, 8, 64, 8192, 128256, 131072, true, 0, 0},
    {"8B", PLAIT_Q4_0, 32, 4096, 32, 8, 128, 14336, 128256, 131072, false, 0, 0},
    {"70B", PLAIT_Q4_K, 80, 8192, 64, 8, 128, 28672, 128256, 131072, false, 0, 0},
    {"405B", PLAIT_Q4_K, 126, 16384, 128, 8, 128, 53248, 128256, 131072, false, 0, 0},
    /* Mixtures: few large experts, and many small ones. */
    {"8x7B", PLAIT_Q4_K, 32, 4096, 32, 8, 128, 14336, 32000, 32768, false, 8, 2},
    {"30B-A3B", PLAIT_Q4_K, 48, 2048, 32, 4, 128, 768, 151936, 40960, false, 128, 8},
    {"235B-A22B", PLAIT_Q4_K, 94, 4096, 64, 4, 128, 1536, 151936, 40960, false, 128, 8},
    {"400B-A17B", PLAIT_Q4_K, 96, 5120, 64, 8, 128, 2048, 202048, 131072, false, 128, 4},
    /* Small enough to be loaded and run. */
    {"tiny", PLAIT_Q8_0, 6, 128, 4, 2, 32, 256, 512, 4096, false, 0, 0},
    {"tiny-moe", PLAIT_Q8_0, 6, 128, 4, 2, 32, 64, 512, 4096, false, 8, 2},
};

static inline const fit_shape *fit_shape_named(const char *name) {
    for (size_t i = 0; i < sizeof fit_shapes / sizeof *fit_shapes; i++)
        if (strcmp(fit_shapes[i].name, name) == 0) return &fit_shapes[i];
    fail_msg("no model %s", name);
    return NULL;
}

static inline void fit_must(plait_status status) {
    if (status != PLAIT_OK) fail_msg("%s: %s", plait_status_name(status), plait_error_message());
}

static inline plait_status fit_write(void *user, const void *bytes, size_t n) {
    return fwrite(bytes, 1, n, user) == n ? PLAIT_OK : PLAIT_IO;
}

/* The writer asks for data when all that stands before it has been written: there the hole begins. */
static inline plait_status fit_hole(void *user, uint64_t offset_bytes, void *out, size_t n) {
    (void)user, (void)offset_bytes, (void)out, (void)n;
    return PLAIT_CANCELLED;
}

static inline void fit_add_stack(plait_gguf_writer *w, const char *name, plait_dtype type, int64_t d0,
                                 int64_t d1, int64_t d2) {
    plait_gguf_tensor_source source = {.name = name,
                                       .dtype = type,
                                       .rank = d2   ? 3
                                               : d1 ? 2
                                                    : 1,
                                       .dims = {d0, d1, d2},
                                       .fill = fit_hole};
    fit_must(plait_gguf_writer_add_tensor(w, &source));
}

static inline void fit_add(plait_gguf_writer *w, const char *name, plait_dtype type, int64_t d0, int64_t d1) {
    fit_add_stack(w, name, type, d0, d1, 0);
}

static inline void fit_add_layer(plait_gguf_writer *w, const fit_shape *m, int il) {
    const int64_t e = m->n_experts;
    const struct {
        const char *name;
        plait_dtype type;
        int64_t d0, d1, d2;
    } rows[] = {
        {"attn_norm", PLAIT_F32, m->n_embd, 0, 0},
        {"attn_q", m->type, m->n_embd, m->n_heads * m->head_dim, 0},
        {"attn_k", m->type, m->n_embd, m->n_kv_heads * m->head_dim, 0},
        {"attn_v", m->type, m->n_embd, m->n_kv_heads * m->head_dim, 0},
        {"attn_output", m->type, m->n_heads * m->head_dim, m->n_embd, 0},
        {"ffn_norm", PLAIT_F32, m->n_embd, 0, 0},
        {e ? "ffn_gate_exps" : "ffn_gate", m->type, m->n_embd, m->n_ff, e},
        {e ? "ffn_up_exps" : "ffn_up", m->type, m->n_embd, m->n_ff, e},
        {e ? "ffn_down_exps" : "ffn_down", m->type, m->n_ff, m->n_embd, e},
        {"ffn_gate_inp", PLAIT_F32, m->n_embd, e, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows - !e; i++) {
        char name[64];
        snprintf(name, sizeof name, "blk.%d.%s.weight", il, rows[i].name);
        fit_add_stack(w, name, rows[i].type, rows[i].d0, rows[i].d1, rows[i].d2);
    }
}

/* Writes the model beside the test; returns out, its path. The caller removes the file. */
static inline char *fit_model(const fit_shape *m, char out[256]) {
    plait_gguf_writer *w;
    uint64_t size_bytes;
    fit_must(plait_gguf_writer_create(&w));
    fit_must(plait_gguf_writer_add_string(w, "general.architecture", "llama"));
    fit_must(plait_gguf_writer_add_u32(w, "llama.block_count", (uint32_t)m->n_layers));
    fit_must(plait_gguf_writer_add_u32(w, "llama.context_length", (uint32_t)m->context));
    fit_must(plait_gguf_writer_add_u32(w, "llama.embedding_length", (uint32_t)m->n_embd));
    fit_must(plait_gguf_writer_add_u32(w, "llama.feed_forward_length", (uint32_t)m->n_ff));
    fit_must(plait_gguf_writer_add_u32(w, "llama.attention.head_count", (uint32_t)m->n_heads));
    fit_must(plait_gguf_writer_add_u32(w, "llama.attention.head_count_kv", (uint32_t)m->n_kv_heads));
    fit_must(plait_gguf_writer_add_u32(w, "llama.attention.key_length", (uint32_t)m->head_dim));
    fit_must(plait_gguf_writer_add_u32(w, "llama.attention.value_length", (uint32_t)m->head_dim));
    fit_must(plait_gguf_writer_add_f32(w, "llama.attention.layer_norm_rms_epsilon", 1e-5f));
    fit_must(plait_gguf_writer_add_f32(w, "llama.rope.freq_base", 500000.0f));
    if (m->n_experts) {
        fit_must(plait_gguf_writer_add_u32(w, "llama.expert_count", (uint32_t)m->n_experts));
        fit_must(plait_gguf_writer_add_u32(w, "llama.expert_used_count", (uint32_t)m->n_used));
    }
    fit_add(w, "token_embd.weight", m->type, m->n_embd, m->n_vocab);
    for (int il = 0; il < m->n_layers; il++) fit_add_layer(w, m, il);
    fit_add(w, "output_norm.weight", PLAIT_F32, m->n_embd, 0);
    if (!m->tied) fit_add(w, "output.weight", m->type, m->n_embd, m->n_vocab);
    snprintf(out, 256, "fit-%d-%s.gguf", (int)getpid(), m->name);
    FILE *file = fopen(out, "wb");
    assert_non_null(file);
    fit_must(plait_gguf_writer_size(w, &size_bytes));
    assert_int_equal(plait_gguf_writer_write_to(w, fit_write, file), PLAIT_CANCELLED);
    assert_int_equal(fflush(file), 0);
    assert_int_equal(ftruncate(fileno(file), (off_t)size_bytes), 0);
    fclose(file);
    plait_gguf_writer_destroy(w);
    return out;
}

#endif
