/* Packed weights: every encoding that is offered gives the file's bytes back, and the numbers of the file form. Not
 * here: packed weights in larger segments (segments.c). Invariant: results in both forms are compared byte for byte, so
 * a packing may not change a rounding. */
#include "base/alloc.h"
#include "base/size.h"
#include "conformance/built.h"
#include "conformance/fill.h"
#include "op/reference.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Weight [k, m], or [k, m, experts]; n columns, ids or tokens. */
typedef struct pack_case {
    plait_op_id reader; /* a product, a lookup in what a product reads too, or a product with experts */
    plait_dtype dtype;
    int64_t k, m, experts, n;
} pack_case;

enum { EXPERTS = 5, USED = 2 };

/* In each case input 0 is the weight. */
static const plait_op *reader_of(const pack_case *test) {
    return plait_op_get(test->reader);
}

/* Without data. */
static plait_operand weight_of(const pack_case *test) {
    plait_operand shape = {.dtype = test->dtype, .dims = {test->k, test->m, test->experts, 1}};
    plait_operand_make_dense(&shape);
    return shape;
}

/* What the reader wants beside the weight: ids of rows; columns; columns, and an i32 operand with the ids of their
 * experts. Returns how many operands. */
static int others_of(const pack_case *test, plait_operand out[2]) {
    bool experts = test->reader == PLAIT_OP_expert_matmul;
    out[0] = (plait_operand){.dtype = PLAIT_F32, .dims = {test->k, test->n, 1, 1}};
    out[1] = (plait_operand){.dtype = PLAIT_I32, .dims = {USED, test->n, 1, 1}};
    if (test->reader == PLAIT_OP_get_rows)
        out[0] = (plait_operand){.dtype = PLAIT_I32, .dims = {test->n, 1, 1, 1}};
    if (experts) out[0].dims[1] = 1, out[0].dims[2] = test->n;
    for (int i = 0; i < 2; i++) plait_operand_make_dense(&out[i]);
    return experts ? 2 : 1;
}

/* The weight and its reader, inputs in tensors[]; returns the result's tensor. */
static int build(plait_conf_work *w, const pack_case *test, const plait_encoding_offer *offer,
                 int tensors[3]) {
    plait_operand shape = weight_of(test), others[2];
    plait_op_use use;
    int n = others_of(test, others);
    plait_op_use_init(&use, reader_of(test));
    tensors[0] = plait_conf_tensor_add(w, &shape, PLAIT_CONF_FIXED, 0, true);
    if (offer && tensors[0] >= 0) plait_conf_encode(w, tensors[0], offer);
    for (int i = 0; i < n; i++)
        tensors[1 + i] = plait_conf_tensor_add(w, &others[i], PLAIT_CONF_FIXED, 0, false);
    return plait_conf_apply(w, &use, 1 + n, tensors, PLAIT_CONF_FIXED);
}

/* The same numbers in every call: both forms get the same weight and the same columns. Ids are spread over the rows; of
 * experts so that one of them has none, and a token twice the same. */
static plait_status fill(plait_conf_work *w, const pack_case *test, const int tensors[3]) {
    plait_operand others[2];
    int n = others_of(test, others);
    for (int t = 0; t < 1 + n; t++) {
        plait_operand host = plait_conf_host(w, tensors[t]);
        if (host.dtype != PLAIT_I32) {
            PLAIT_TRY(plait_conf_values_fill(w->c, &host, PLAIT_CONF_RANDOM, (uint64_t)(11 + t), 1));
            continue;
        }
        int64_t limit = test->reader == PLAIT_OP_get_rows ? test->m : EXPERTS - 1;
        for (int64_t j = 0; j < host.dims[1]; j++)
            for (int64_t i = 0; i < host.dims[0]; i++)
                plait_ref_set_id(&host, i, j,
                                 (int32_t)((7 * i + (i == 0 || j % 3 ? 5 * j : 4 * j) + 3) % limit));
    }
    return PLAIT_OK;
}

/* The result's bytes with the weight in this form; the caller frees them. A bench of its own for each form, since the
 * image is laid out by the packing's size. *out is set only with OK. */
static plait_status result_bytes(plait_conf *c, const pack_case *test, const plait_encoding_offer *offer,
                                 unsigned char **out, size_t *out_bytes) {
    plait_conf_work w;
    int tensors[3] = {-1, -1, -1};
    plait_conf_work_init(&w, c);
    int y = build(&w, test, offer, tensors);
    plait_status status = y >= 0 ? plait_conf_freeze(&w) : plait_error(PLAIT_INTERNAL, "it is refused");
    unsigned char *image = status == PLAIT_OK ? plait_conf_image(&w) : NULL;
    if (status == PLAIT_OK) {
        status = fill(&w, test, tensors);
        if (status == PLAIT_OK) status = plait_conf_run_device(&w, PLAIT_CONF_SINGLE, image);
    }
    if (status == PLAIT_OK) {
        /* Copied out, for the bench and its image end here. */
        const plait_conf_value *value = &w.values[w.tensors[y].value];
        *out_bytes = value->size_bytes;
        *out = plait_alloc_array(value->size_bytes + 1, 1);
        if (*out)
            memcpy(*out, image + value->offset, value->size_bytes);
        else
            status = plait_error_memory("conformance", value->size_bytes);
    }
    plait_conf_work_deinit(&w);
    return status;
}

/* ---- there and back ---- */

/* One byte behind the rows is a guard. */
static plait_status unpack_part(plait_conf *c, const plait_operand *source, plait_encoding encoding,
                                int64_t begin, int64_t end, plait_region region, unsigned char *back) {
    int64_t row_bytes = source->strides[1];
    size_t bytes = (size_t)((end - begin) * row_bytes);
    /* Rows that unpack leaves out show. */
    memset(back, 0xEE, bytes + 1);
    PLAIT_TRY(c->v->unpack(c->device, source, encoding, begin, end, region, back));
    PLAIT_CONF_EXPECT(memcmp(back, (const char *)source->data + begin * row_bytes, bytes) == 0,
                      "rows [%lld, %lld) are not what was packed", (long long)begin, (long long)end);
    PLAIT_CONF_EXPECT(back[bytes] == 0xEE, "unpack wrote behind its rows");
    return PLAIT_OK;
}

/* All rows, the first, a range that begins and ends within groups, and none. The rows of all experts count through, as
 * the weight lies in the file. */
static plait_status round_trip(plait_conf *c, const pack_case *test, const plait_encoding_offer *offer,
                               plait_buffer *buffer, plait_operand *source, unsigned char *back) {
    plait_region region = {buffer, 0, offer->size_bytes};
    PLAIT_TRY(c->v->pack(c->device, source, offer->encoding, 0, test->m * test->experts, region));
    int64_t rows = test->m * test->experts;
    const int64_t parts[][2] = {{0, rows}, {0, 1}, {rows / 3, rows - 1}, {rows, rows}};
    for (size_t i = 0; i < PLAIT_COUNT_OF(parts); i++)
        PLAIT_TRY(unpack_part(c, source, offer->encoding, parts[i][0], parts[i][1], region, back));
    return PLAIT_OK;
}

/* The offer's size is the buffer's, to the byte: a packing that needs more writes beyond it. pack and unpack are calls
 * on the device and no commands: they return when they are done. */
static plait_status check_round_trip(plait_conf *c, const pack_case *test,
                                     const plait_encoding_offer *offer) {
    plait_operand source = weight_of(test);
    size_t bytes = (size_t)plait_operand_span_bytes(&source);
    unsigned char *back = plait_alloc_array(bytes + 1, 1);
    plait_buffer *buffer = NULL;
    /* pack takes host memory, of any alignment that the caller has; this one is good. */
    source.data = plait_alloc_aligned(64, bytes + 1);
    plait_status status = back && source.data ? PLAIT_OK : plait_error_memory("conformance", bytes);
    if (status == PLAIT_OK)
        status = c->v->buffer_create(c->device, offer->size_bytes, PLAIT_BUFFER_WEIGHTS, &buffer);
    if (status == PLAIT_OK) {
        status = plait_conf_values_fill(c, &source, PLAIT_CONF_RANDOM, 5, 1);
    }
    if (status == PLAIT_OK) {
        status = round_trip(c, test, offer, buffer, &source, back);
    }
    if (buffer) c->v->buffer_destroy(buffer);
    free(source.data);
    free(back);
    return status;
}

/* ---- cases ---- */

/* The offer itself, then there and back, then results. All devices give the file form's numbers: packing is about speed
 * and memory. */
static plait_status check_offer(plait_conf *c, const pack_case *test, const plait_encoding_offer *offer) {
    unsigned char *file = NULL, *packed = NULL;
    size_t file_bytes = 0, packed_bytes = 0;
    PLAIT_CONF_EXPECT(offer->encoding != PLAIT_ENCODING_FILE && offer->size_bytes > 0 && offer->name[0] &&
                          plait_is_power_of_two(offer->alignment),
                      "offer %u \"%s\" of %llu bytes makes no sense", offer->encoding, offer->name,
                      (unsigned long long)offer->size_bytes);
    PLAIT_TRY(check_round_trip(c, test, offer));
    plait_status status = result_bytes(c, test, NULL, &file, &file_bytes);
    if (status == PLAIT_OK) status = result_bytes(c, test, offer, &packed, &packed_bytes);
    if (status == PLAIT_OK && c->computes &&
        (file_bytes != packed_bytes || memcmp(file, packed, file_bytes) != 0))
        status =
            plait_error(PLAIT_INTERNAL, "%s: the results differ from those of the file form", offer->name);
    free(file);
    free(packed);
    return status;
}

/* A lookup alone may be offered nothing, so a table is asked for together with a product that reads it. */
static plait_status check_packing(plait_conf *c, void *user) {
    const pack_case *test = user;
    struct plait_weight_reader reader = {reader_of(test), 0, true};
    struct plait_weight_reader both[2] = {{plait_op_get(PLAIT_OP_matmul), 0, true}, reader};
    plait_weight_use use = {.dtype = test->dtype,
                            .dims = {test->k, test->m, test->experts, 1},
                            .n_readers = test->reader == PLAIT_OP_get_rows ? 2 : 1,
                            .readers = test->reader == PLAIT_OP_get_rows ? both : &reader};
    plait_encoding_offer offers[8];
    int n = PLAIT_COUNT_OF(offers);
    PLAIT_TRY(plait_conf_may_lack(c, c->v->encodings(c->device, &use, offers, &n)));
    PLAIT_CONF_EXPECT(n >= 0 && n <= (int)PLAIT_COUNT_OF(offers), "%d offers in room for %d", n,
                      (int)PLAIT_COUNT_OF(offers));
    if (n == 0) return plait_conf_lack(c, "the device packs no weights of this type");
    for (int i = 0; i < n; i++) PLAIT_TRY(check_offer(c, test, &offers[i]));
    return PLAIT_OK;
}

/* Types without a packing are lacking, one check each: what a device packs is for it to say. */
void plait_conf_packings(plait_conf *c) {
    static const plait_op_id readers[] = {PLAIT_OP_matmul, PLAIT_OP_get_rows, PLAIT_OP_expert_matmul};
    /* Rows that are no whole groups, whole ones, and more columns than a tile has. */
    static const struct { /* of experts, the last is no whole groups */
        int64_t k, m, expert_m, n;
    } sizes[] = {{256, 37, 48, 1}, {512, 16, 16, 5}, {768, 83, 20, 33}};
    for (int d = 0; d < PLAIT_DTYPE_LIMIT; d++)
        for (size_t i = 0; plait_dtype_known(d) && i < PLAIT_COUNT_OF(sizes); i++)
            for (size_t r = 0; r < PLAIT_COUNT_OF(readers); r++) {
                bool experts = readers[r] == PLAIT_OP_expert_matmul;
                pack_case test = {readers[r],
                                  (plait_dtype)d,
                                  sizes[i].k,
                                  experts ? sizes[i].expert_m : sizes[i].m,
                                  experts ? EXPERTS : 1,
                                  sizes[i].n};
                char name[64];
                snprintf(name, sizeof name, "packing/%s/%zu/%s", plait_dtype_name(test.dtype), i,
                         reader_of(&test)->name);
                plait_conf_check(c, name, check_packing, &test);
            }
}
