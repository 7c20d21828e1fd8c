/* room: gguf */
/* Any bytes as a GGUF file. What opens is read to its last byte, written again, and must open equal; what does not
 * open must leave a message. A look at metadata alone succeeds whenever a full open does, can always be described, and
 * the description holds nothing that a terminal would obey. */
#include "gguf/describe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct image {
    unsigned char *bytes;
    size_t length, capacity;
} image;

static void broken(const char *what) {
    fprintf(stderr, "%s: %s\n", what, plait_error_message());
    abort();
}

static plait_status append(void *user, const void *bytes, size_t n) {
    image *out = user;
    if (out->length + n > out->capacity) {
        out->capacity = (out->length + n) * 2;
        out->bytes = realloc(out->bytes, out->capacity);
        if (!out->bytes) abort();
    }
    memcpy(out->bytes + out->length, bytes, n);
    out->length += n;
    return PLAIT_OK;
}

static int same_value(const plait_gguf_value *a, const plait_gguf_value *b) {
    if (a->type != b->type || a->elem_type != b->elem_type || a->count != b->count) return 0;
    if (a->elem_type == PLAIT_GGUF_STRING) {
        for (uint64_t i = 0; i < a->count; i++)
            if (a->strings[i].length != b->strings[i].length ||
                memcmp(a->strings[i].bytes, b->strings[i].bytes, a->strings[i].length) != 0)
                return 0;
    } else if (a->elem_type == PLAIT_GGUF_ARRAY) {
        for (uint64_t i = 0; i < a->count; i++)
            if (!same_value(&a->arrays[i], &b->arrays[i])) return 0;
    } else if ((uintptr_t)a->data % plait_gguf_type_bytes(a->elem_type) != 0) {
        return 0;
    } else if (a->count) {
        return memcmp(a->data, b->data, a->count * plait_gguf_type_bytes(a->elem_type)) == 0;
    }
    return 1;
}

static void compare(const plait_gguf *a, const plait_gguf *b) {
    if (plait_gguf_entry_count(a) != plait_gguf_entry_count(b)) broken("entries lost");
    for (size_t i = 0; i < plait_gguf_entry_count(a); i++) {
        const plait_gguf_entry *x = plait_gguf_entry_at(a, i), *y = plait_gguf_entry_at(b, i);
        if (x->key.length != y->key.length || memcmp(x->key.bytes, y->key.bytes, x->key.length) != 0)
            broken("key");
        if (!same_value(&x->value, &y->value)) broken("value");
    }
    if (plait_gguf_tensor_count(a) != plait_gguf_tensor_count(b)) broken("tensors lost");
    for (size_t i = 0; i < plait_gguf_tensor_count(a); i++) {
        const plait_gguf_tensor *x = plait_gguf_tensor_at(a, i), *y = plait_gguf_find_tensor(b, x->name);
        if (!y || x->dtype != y->dtype || x->rank != y->rank || x->size_bytes != y->size_bytes ||
            memcmp(x->dims, y->dims, sizeof x->dims) != 0)
            broken("tensor");
        if (memcmp(x->bytes, y->bytes, x->size_bytes) != 0) broken("tensor bytes");
    }
}

static void rewrite(const plait_gguf *gguf) {
    plait_gguf_writer *writer = NULL;
    plait_gguf *again = NULL;
    image out = {0};
    uint64_t size = 0;
    if (plait_gguf_writer_create(&writer) != PLAIT_OK) broken("writer");
    if (plait_gguf_writer_set_version(writer, plait_gguf_version(gguf)) != PLAIT_OK) broken("version");
    if (plait_gguf_writer_add_entries(writer, gguf, NULL) != PLAIT_OK) broken("entries refused");
    for (size_t i = 0; i < plait_gguf_tensor_count(gguf); i++) {
        const plait_gguf_tensor *t = plait_gguf_tensor_at(gguf, i);
        plait_gguf_tensor_source source = {
            .name = t->name, .dtype = t->dtype, .rank = t->rank, .bytes = t->bytes};
        memcpy(source.dims, t->dims, sizeof source.dims);
        if (plait_gguf_writer_add_tensor(writer, &source) != PLAIT_OK) broken("tensor refused");
    }
    if (plait_gguf_writer_write_to(writer, append, &out) != PLAIT_OK) broken("write");
    if (plait_gguf_writer_size(writer, &size) != PLAIT_OK || size != out.length) broken("size");
    if (plait_gguf_open_memory(&again, out.bytes, out.length, &(plait_gguf_options){.single_part = true}) !=
        PLAIT_OK)
        broken("does not open again");
    compare(gguf, again);
    plait_gguf_release(again);
    plait_gguf_writer_destroy(writer);
    free(out.bytes);
}

static void check_text(const plait_strbuf *text, int lines) {
    if (plait_strbuf_status(text) != PLAIT_OK) broken("printing");
    for (size_t i = 0; i < text->length; i++) {
        unsigned char c = (unsigned char)text->bytes[i];
        if ((c < 0x20 && !(lines && c == '\n')) || c == 0x7F) broken("a control byte is printed");
    }
}

static void describe(const plait_gguf *gguf) {
    static const char *const needed[] = {"general.architecture", "token_embd.weight"};
    plait_gguf_needs needs = {.keys = needed, .n_keys = 2, .tensors = needed, .n_tensors = 2};
    plait_gguf_description d;
    plait_strbuf text;
    plait_strbuf_init(&text, 0);
    if (plait_gguf_describe(&d, gguf, &needs) != PLAIT_OK) broken("describe");
    plait_gguf_description_text(&d, &text);
    plait_gguf_metadata_text(gguf, NULL, &text);
    plait_gguf_tensors_text(gguf, &text);
    check_text(&text, 1);
    plait_strbuf_clear(&text);
    plait_gguf_description_json(&d, &text);
    plait_gguf_metadata_json(gguf, &(plait_gguf_print_limits){3, 9}, &text);
    plait_gguf_tensors_json(gguf, &text);
    check_text(&text, 0);
    plait_gguf_description_deinit(&d);
    plait_strbuf_deinit(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    plait_gguf *gguf = NULL, *look = NULL;
    plait_gguf_options full = {.single_part = true}, only = {.single_part = true, .metadata_only = true};
    plait_status status = plait_gguf_open_memory(&gguf, data, size, &full);
    plait_status looked = plait_gguf_open_memory(&look, data, size, &only);
    if (status == PLAIT_OK && looked != PLAIT_OK) broken("opens, but not with metadata_only");
    if (looked == PLAIT_OK && plait_gguf_check_tensors(look) != status) {
        if (status != PLAIT_UNSUPPORTED) broken("check_tensors disagrees with open");
    }
    if (status != PLAIT_OK && (gguf || plait_error_message()[0] == '\0'))
        broken("a failure without a message");
    if (status == PLAIT_OK) rewrite(gguf);
    if (looked == PLAIT_OK) describe(look);
    plait_gguf_release(gguf);
    plait_gguf_release(look);
    return 0;
}
