/* GGUF files byte by byte, for tests that need files no writer would make. Not here: any check; that is the point. */
#ifndef PLAIT_TESTS_GGUF_IMAGE_H
#define PLAIT_TESTS_GGUF_IMAGE_H

#include "plait/gguf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct image {
    unsigned char *bytes;
    size_t length, capacity;
} image;

static inline void image_bytes(image *m, const void *bytes, size_t n) {
    if (m->length + n > m->capacity) {
        m->capacity = (m->length + n) * 2;
        m->bytes = realloc(m->bytes, m->capacity);
        if (!m->bytes) exit(1);
    }
    if (n) memcpy(m->bytes + m->length, bytes, n);
    m->length += n;
}

static inline void image_end(image *m) {
    free(m->bytes);
    *m = (image){0};
}

static inline void image_u8(image *m, uint8_t v) {
    image_bytes(m, &v, sizeof v);
}
static inline void image_u32(image *m, uint32_t v) {
    image_bytes(m, &v, sizeof v);
}
static inline void image_u64(image *m, uint64_t v) {
    image_bytes(m, &v, sizeof v);
}

static inline void image_string_n(image *m, const char *text, size_t n) {
    image_u64(m, n);
    image_bytes(m, text, n);
}
static inline void image_string(image *m, const char *text) {
    image_string_n(m, text, strlen(text));
}

static inline void image_begin_version(image *m, uint32_t version, uint64_t n_tensors, uint64_t n_entries) {
    image_bytes(m, "GGUF", 4);
    image_u32(m, version);
    image_u64(m, n_tensors);
    image_u64(m, n_entries);
}
static inline void image_begin(image *m, uint64_t n_tensors, uint64_t n_entries) {
    image_begin_version(m, 3, n_tensors, n_entries);
}

static inline void image_key(image *m, const char *key, uint32_t type) {
    image_string(m, key);
    image_u32(m, type);
}
static inline void image_entry_u32(image *m, const char *key, uint32_t value) {
    image_key(m, key, PLAIT_GGUF_U32);
    image_u32(m, value);
}
static inline void image_array(image *m, uint32_t elem_type, uint64_t count) {
    image_u32(m, elem_type);
    image_u64(m, count);
}

static inline void image_tensor_n(image *m, const char *name, size_t name_length, uint32_t type,
                                  uint64_t offset, uint32_t rank, const uint64_t *dims) {
    image_string_n(m, name, name_length);
    image_u32(m, rank);
    for (uint32_t i = 0; i < rank; i++) image_u64(m, dims[i]);
    image_u32(m, type);
    image_u64(m, offset);
}
/* One dim. */
static inline void image_tensor(image *m, const char *name, uint32_t type, uint64_t offset, uint64_t dim) {
    image_tensor_n(m, name, strlen(name), type, offset, 1, &dim);
}

static inline void image_zeros(image *m, size_t n) {
    for (size_t i = 0; i < n; i++) image_u8(m, 0);
}
static inline void image_align(image *m, size_t alignment) {
    while (m->length % alignment) image_u8(m, 0);
}

static inline void image_save(const image *m, const char *path) {
    FILE *f = fopen(path, "wb");
    if (!f || (m->length && fwrite(m->bytes, 1, m->length, f) != m->length) || fclose(f) != 0) {
        perror(path);
        exit(1);
    }
}

/* Two tensors and a little metadata; the smallest whole file with everything in it. */
static inline void image_small(image *m) {
    image_begin(m, 2, 3);
    image_key(m, "general.architecture", PLAIT_GGUF_STRING);
    image_string(m, "llama");
    image_entry_u32(m, "llama.block_count", 1);
    image_key(m, "words", PLAIT_GGUF_ARRAY);
    image_array(m, PLAIT_GGUF_STRING, 2);
    image_string(m, "a");
    image_string(m, "");
    image_tensor(m, "first.weight", PLAIT_F32, 0, 4);
    image_tensor(m, "second.weight", PLAIT_Q8_0, 32, 64);
    image_align(m, 32);
    for (int i = 0; i < 32 + 68; i++) image_u8(m, (uint8_t)i);
}

#endif
