/* plait quantize: a copy of a model with its matrices in another element type.
 *
 * The writer asks for the bytes of each tensor in order; they are made a window of rows at a time, the rows shared out
 * over threads, so that a tensor never lies in memory whole. Invariant: the bytes depend on the source and the type
 * only, never on the number of threads; the output appears whole or not at all.
 *
 * What this is not: a quantiser that looks at how a model is used. There is no importance matrix (encode is called with
 * NULL for the weights of columns), and no mixture of types chosen by layer; each matrix gets the one type that was
 * asked for, or one that its rows allow. */
#include "cli/cli.h"

#include "base/alloc.h"
#include "base/log.h"
#include "base/os.h"
#include "base/size.h"
#include "base/status.h"
#include "base/thread.h"
#include "gguf/describe.h"
#include "tensor/quant/quant.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* A window is large enough that starting threads for each of them costs nothing beside the encoding, and small enough
 * to be nothing beside a model. The version is that of the layout of quantised blocks, which
 * general.quantization_version states; readers of other programs look at it. */
enum { WINDOW_BYTES = 1 << 25, MOST_THREADS = 256, QUANTISATION_VERSION = 2 };

/* The writer hands it back to fill, with the job behind it. */
typedef struct tensor_job {
    struct job *job;
    const plait_gguf_tensor *source;
    plait_dtype dtype; /* of the output; the source's when the tensor is kept */
} tensor_job;

/* Everything of one run. The window is a cache of one entry: it holds converted rows until the writer has taken all of
 * their bytes. */
typedef struct job {
    plait_gguf *in;
    plait_gguf_writer *writer;
    plait_dtype dtype;
    int n_threads;
    tensor_job *tensors; /* one for each of the file */
    unsigned char *window;
    const tensor_job *current; /* whose rows [row_begin, row_end) the window holds */
    int64_t row_begin, row_end;
    int64_t n_converted, n_kept, n_fallen;
    uint64_t done_bytes, total_bytes; /* of sources */
    plait_logger logger;
} job;

/* ---- which type a tensor gets ---- */

/* Small matrices that steer the others, and what is no matrix product, stay as they are: their share of the file is
 * small and their errors spread. Names are searched for anywhere in the tensor's, so that blk.N. in front and variants
 * behind match too. Integers are indices, as a map of experts, and no type of weights can hold those. */
static bool is_kept(const plait_gguf_tensor *t) {
    static const char *const kept[] = {"norm",           "ffn_gate_inp", "ssm_conv1d",
                                       "shortconv.conv", "time_mix",     "position_embd",
                                       "token_types",    "attn_rel_b",   "rope_f"};
    size_t n = strlen(t->name), suffix = strlen(".weight");
    if (t->rank < 2 || t->dims[1] < 2 || n < suffix || strcmp(t->name + n - suffix, ".weight") != 0)
        return true;
    for (size_t i = 0; i < PLAIT_COUNT_OF(kept); i++)
        if (strstr(t->name, kept[i])) return true;
    return t->dtype == PLAIT_I8 || t->dtype == PLAIT_I16 || t->dtype == PLAIT_I32 || t->dtype == PLAIT_I64;
}

/* For rows that are no whole number of the type's blocks: a type with short blocks and at least as many bits, apart
 * from MXFP4, the nearest kin of NVFP4, which has a quarter of a bit less. Fewer bits are no choice elsewhere: a model
 * that became larger than asked for is a nuisance, one that became worse than asked for would be taken for the type's
 * fault. */
static plait_dtype with_short_blocks(plait_dtype dtype) {
    switch (dtype) {
    case PLAIT_Q4_K: return PLAIT_Q4_1;
    case PLAIT_Q5_K: return PLAIT_Q5_1;
    case PLAIT_Q6_K: return PLAIT_Q8_0;
    case PLAIT_NVFP4: return PLAIT_MXFP4;
    default: return PLAIT_IQ4_NL;
    }
}

/* F16 fits any row. */
static plait_dtype choose(job *j, const plait_gguf_tensor *t) {
    plait_dtype dtype = j->dtype;
    if (t->dims[0] % plait_dtype_block_elems(dtype) == 0) return dtype;
    dtype = with_short_blocks(dtype);
    if (t->dims[0] % plait_dtype_block_elems(dtype) != 0) dtype = PLAIT_F16;
    j->n_fallen++;
    return dtype;
}

/* ---- making bytes ---- */

/* Workers share nothing but the source, which they only read. A cut of a window. The row of floats is the worker's own,
 * since two workers decode at the same time. */
typedef struct worker {
    plait_thread thread;
    const tensor_job *tensor;
    unsigned char *out;
    int64_t row_begin, row_end; /* of the worker */
    float *values;              /* a row */
    int64_t bad_row;            /* -1: none */
} worker;

/* Without a branch in the loop, so that it is vectorised. Needs IEEE arithmetic: no -ffast-math. x * 0 is 0 for what is
 * finite and NaN for infinities and NaN, and a NaN stays in a sum for good: one comparison at the end tells it all. */
static bool all_finite(const float *x, int64_t n) {
    float sum = 0;
    for (int64_t i = 0; i < n; i++) sum += x[i] * 0; /* 0, or NaN once something was not finite */
    return sum == 0;
}

/* Through float32, one row at a time. The last bad row of a worker is kept; its bytes are written and then given up
 * with the file. What is not finite is found here and not in the encoders, where an infinite largest value would make a
 * scale that turns the whole block into NaN without anybody saying so. */
static void *convert_rows(void *argument) {
    worker *w = argument;
    const plait_gguf_tensor *t = w->tensor->source;
    int64_t from = plait_dtype_row_bytes(t->dtype, t->dims[0]),
            to = plait_dtype_row_bytes(w->tensor->dtype, t->dims[0]);
    unsigned char *out = w->out;
    for (int64_t row = w->row_begin; row < w->row_end; row++, out += to) {
        plait_quant_of(t->dtype)->decode(t->bytes + row * from, w->values, t->dims[0]);
        if (!all_finite(w->values, t->dims[0])) w->bad_row = row;
        plait_quant_of(w->tensor->dtype)->encode(w->values, NULL, out, t->dims[0]);
    }
    return NULL;
}

/* Parts of a window by rows, which are independent: that is why the number of threads does not change a byte. After a
 * failure the caller joins those that run. */
static plait_status start_workers(job *j, worker *workers, int n, const tensor_job *tensor) {
    int64_t to = plait_dtype_row_bytes(tensor->dtype, tensor->source->dims[0]),
            n_rows = j->row_end - j->row_begin;
    for (int i = 0; i < n; i++) {
        worker *w = &workers[i];
        int64_t first = plait_part_start(n_rows, i, n);
        *w = (worker){.tensor = tensor,
                      .out = j->window + first * to,
                      .row_begin = j->row_begin + first,
                      .row_end = j->row_begin + plait_part_start(n_rows, i + 1, n),
                      .values = plait_alloc_array((size_t)tensor->source->dims[0], sizeof(float)),
                      .bad_row = -1};
        if (!w->values) return plait_error_memory("a row", (uint64_t)tensor->source->dims[0] * sizeof(float));
        /* Worker 0 has no thread: joining one that was never started does nothing. */
        if (i > 0) PLAIT_TRY(plait_thread_start(&w->thread, "quantize", convert_rows, w));
    }
    convert_rows(&workers[0]); /* the caller works, too */
    return PLAIT_OK;
}

/* Fills the window with the rows from `row` on. A window is 32 MiB of output, or one row where that is longer. A failed
 * window is forgotten, so that its rows are not taken for good ones by a later call. */
static plait_status fill_window(job *j, const tensor_job *tensor, int64_t row) {
    const plait_gguf_tensor *t = tensor->source;
    int64_t to = plait_dtype_row_bytes(tensor->dtype, t->dims[0]), n_rows = t->n_elems / t->dims[0];
    worker workers[MOST_THREADS] = {0};
    j->current = tensor;
    j->row_begin = row;
    j->row_end = plait_min_i64(n_rows, row + plait_max_i64(1, WINDOW_BYTES / to));
    int n = (int)plait_min_i64(j->n_threads, j->row_end - j->row_begin);
    plait_status status = start_workers(j, workers, n, tensor);
    for (int i = 0; i < n; i++) {
        plait_thread_join(&workers[i].thread);
        free(workers[i].values);
        if (status == PLAIT_OK && workers[i].bad_row >= 0)
            status = plait_error(PLAIT_CORRUPT, "row %lld holds values that are not finite",
                                 (long long)workers[i].bad_row);
    }
    if (status != PLAIT_OK) j->current = NULL;
    return status;
}

/* The writer's callback: bytes [offset, offset + n_bytes) of a tensor. It asks in order, so each window is made
 * once. */
static plait_status fill(void *user, uint64_t offset, void *out, size_t n_bytes) {
    const tensor_job *tensor = user;
    job *j = tensor->job;
    uint64_t to = (uint64_t)plait_dtype_row_bytes(tensor->dtype, tensor->source->dims[0]);
    if (!plait_log_progress(&j->logger, "quantize", j->done_bytes, j->total_bytes))
        return plait_error(PLAIT_CANCELLED, "interrupted");
    for (unsigned char *p = out; n_bytes > 0;) {
        int64_t row = (int64_t)(offset / to);
        if (j->current != tensor || row < j->row_begin || row >= j->row_end) {
            PLAIT_TRY(fill_window(j, tensor, row));
            /* Bytes of a row of the source by the rows of the window. */
            j->done_bytes += tensor->source->size_bytes /
                             (uint64_t)(tensor->source->n_elems / tensor->source->dims[0]) *
                             (uint64_t)(j->row_end - j->row_begin);
        }
        /* The writer's pieces end anywhere, windows at rows. */
        uint64_t skip = offset - (uint64_t)j->row_begin * to,
                 have = (uint64_t)(j->row_end - j->row_begin) * to - skip;
        size_t n = n_bytes < have ? n_bytes : (size_t)have;
        memcpy(p, j->window + skip, n);
        p += n, offset += n, n_bytes -= n;
    }
    return PLAIT_OK;
}

/* ---- the file ---- */

/* A tensor that has the type already is copied as it is, not decoded and encoded again. Bytes that are handed to the
 * writer as they lie in the source are those of the mapping: a kept tensor goes from file to file without a buffer of
 * ours. Only converted bytes count for the progress, since copying is fast beside them. */
static plait_status add_tensor(job *j, tensor_job *tensor) {
    const plait_gguf_tensor *t = tensor->source;
    plait_gguf_tensor_source source = {
        .name = t->name, .rank = t->rank, .dtype = t->dtype, .bytes = t->bytes};
    memcpy(source.dims, t->dims, sizeof source.dims);
    tensor->dtype = is_kept(t) ? t->dtype : choose(j, t);
    if (tensor->dtype == t->dtype) {
        j->n_kept++;
    } else {
        source = (plait_gguf_tensor_source){
            .name = t->name, .rank = t->rank, .dtype = tensor->dtype, .fill = fill, .user = tensor};
        memcpy(source.dims, t->dims, sizeof source.dims);
        j->n_converted++;
        j->total_bytes += t->size_bytes;
    }
    return plait_gguf_writer_add_tensor(j->writer, &source);
}

/* The number of general.file_type for a type alone; false where there is none. The table has names like "Q4_K_S" for
 * mixtures, of which the small one is closest to a type alone. A number that is left out is better than one that is
 * wrong: readers show it, and none needs it to read the tensors. */
static bool file_type_of(plait_dtype dtype, uint32_t *out) {
    const char *name = plait_dtype_name(dtype);
    size_t n = strlen(name);
    for (uint32_t number = 0; number < 64; number++) {
        const char *known = plait_gguf_file_type_name(number);
        if (known && strncmp(known, name, n) == 0 && (known[n] == '\0' || strcmp(known + n, "_S") == 0)) {
            *out = number;
            return true;
        }
    }
    return false;
}

/* The parts of a split file become one, so its split.* entries go. */
static plait_status add_metadata(job *j) {
    static const char *const skip[] = {"general.file_type", "general.quantization_version", "split.no",
                                       "split.count",       "split.tensors.count",          NULL};
    uint32_t number;
    PLAIT_TRY(plait_gguf_writer_add_entries(j->writer, j->in, skip));
    if (file_type_of(j->dtype, &number))
        PLAIT_TRY(plait_gguf_writer_add_u32(j->writer, "general.file_type", number));
    return plait_gguf_writer_add_u32(j->writer, "general.quantization_version", QUANTISATION_VERSION);
}

/* Writing over the file that is being read would be the end of both. By device and inode, which sees through links. All
 * parts of a split source are looked at. A file that does not exist cannot be one of them, and a stat that fails for
 * another reason will fail again when the file is created. */
static plait_status check_not_same(const job *j, const char *out) {
    struct stat st;
    if (stat(out, &st) != 0) return PLAIT_OK;
    for (size_t i = 0; i < plait_gguf_part_count(j->in); i++) {
        const plait_gguf_part *part = plait_gguf_part_at(j->in, i);
        if (part->device_id == (uint64_t)st.st_dev && part->inode == (uint64_t)st.st_ino)
            return plait_error(PLAIT_INVALID_ARGUMENT, "%s: is the file that is read, expected another one",
                               out);
    }
    return PLAIT_OK;
}

/* All tensors are announced before the first is written: offsets are in the file's head. */
static plait_status quantise(job *j, const char *in, const char *out) {
    PLAIT_TRY(plait_gguf_open(&j->in, in, NULL));
    PLAIT_TRY(check_not_same(j, out));
    size_t n = plait_gguf_tensor_count(j->in);
    if (n == 0) return plait_error(PLAIT_NOT_FOUND, "%s: has no tensor", in);
    PLAIT_TRY(plait_gguf_writer_create(&j->writer));
    PLAIT_TRY(add_metadata(j));
    j->tensors = plait_alloc_array(n, sizeof *j->tensors);
    if (!j->tensors) return plait_error_memory("quantize", n * sizeof *j->tensors);
    int64_t widest = 0;
    for (size_t i = 0; i < n; i++) {
        j->tensors[i] = (tensor_job){.job = j, .source = plait_gguf_tensor_at(j->in, i)};
        PLAIT_TRY(add_tensor(j, &j->tensors[i]));
        widest =
            plait_max_i64(widest, plait_dtype_row_bytes(j->tensors[i].dtype, j->tensors[i].source->dims[0]));
    }
    /* The widest row decides where a single one is longer than the window: rows are never cut, as the blocks of some
     * types reach over many elements. */
    size_t window = (size_t)plait_max_i64(WINDOW_BYTES, widest);
    j->window = plait_alloc_array(1, window);
    if (!j->window) return plait_error_memory("quantize", window);
    PLAIT_TRY(plait_gguf_writer_write(j->writer, out));
    plait_log_progress(&j->logger, "quantize", 1, 1);
    return PLAIT_OK;
}

/* Notes come last: a failure prints one line only. Sizes are those of the tensors alone, so that metadata, which both
 * have, does not blur the ratio. */
static void report(const job *j) {
    uint64_t before = 0, after = 0;
    plait_strbuf s;
    plait_strbuf_init(&s, 0);
    for (size_t i = 0; i < plait_gguf_tensor_count(j->in); i++) {
        const tensor_job *t = &j->tensors[i];
        if (t->dtype != t->source->dtype && t->dtype != j->dtype)
            fprintf(stderr,
                    "plait: note: %s has rows of %lld elements, no whole blocks of %s: it became %s\n",
                    t->source->name, (long long)t->source->dims[0], plait_dtype_name(j->dtype),
                    plait_dtype_name(t->dtype));
        before += t->source->size_bytes;
        after += (uint64_t)plait_dtype_row_bytes(t->dtype, t->source->dims[0]) *
                 (uint64_t)(t->source->n_elems / t->source->dims[0]);
    }
    plait_strbuf_printf(&s, "plait: %lld tensors converted (%lld to a type with shorter blocks), %lld kept; ",
                        (long long)j->n_converted, (long long)j->n_fallen, (long long)j->n_kept);
    plait_strbuf_bytes(&s, before);
    plait_strbuf_append(&s, " became ");
    plait_strbuf_bytes(&s, after);
    fprintf(stderr, "%s\n", plait_strbuf_text(&s));
    plait_strbuf_deinit(&s);
}

/* Any state of the job can be released, since what was not made is NULL. */
static int run(const plait_cli_values *values) {
    job j = {.logger = plait_cli_logger(), .n_threads = plait_os_processors()};
    plait_status status = plait_dtype_parse(values->positional[2], &j.dtype);
    if (status != PLAIT_OK) return plait_cli_usage_error();
    /* Every type that plait_dtype_parse knows but integers and F64. */
    if (j.dtype == PLAIT_F64 || (!plait_dtype_quantised(j.dtype) && j.dtype != PLAIT_F32 &&
                                 j.dtype != PLAIT_F16 && j.dtype != PLAIT_BF16))
        return plait_cli_usage("quantize: %s is no type for weights", plait_dtype_name(j.dtype));
    if (values->threads) j.n_threads = (int)plait_min_i64(values->threads, MOST_THREADS);
    if (j.n_threads > MOST_THREADS) j.n_threads = MOST_THREADS;
    plait_cli_catch_interrupt();
    status = quantise(&j, values->positional[0], values->positional[1]);
    if (status == PLAIT_OK) report(&j);
    int exit_status = status == PLAIT_OK ? PLAIT_EXIT_OK : plait_cli_fail(status);
    free(j.window);
    free(j.tensors);
    plait_gguf_writer_destroy(j.writer);
    plait_gguf_release(j.in);
    return exit_status;
}

static const plait_cli_option options[] = {
    {"-t", "THREADS", PLAIT_CLI_COUNT, PLAIT_CLI_FIELD(threads), 0, "threads (default: all processors)"},
    PLAIT_CLI_END,
};

const plait_cli_command plait_cli_quantize = {
    .name = "quantize",
    .arguments = "IN OUT TYPE",
    .min_positional = 3,
    .max_positional = 3,
    .summary = "Copy a model with its matrices in another element type.",
    .details =
        "Converted are the matrices (tensors called *.weight with at least two dims), token embedding and "
        "output "
        "included, from whatever type they have. Norms, biases, routers, convolutions and tables of "
        "positions are "
        "copied as they are, and so is all metadata but general.file_type and general.quantization_version. "
        "A matrix "
        "whose rows are no whole blocks of TYPE gets a type with shorter blocks, or F16, and a note says so. "
        "Quantising what is quantised already loses more than quantising the original.\n\n"
        "TYPE is F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K to Q6_K, IQ1_S to IQ4_XS, TQ1_0, TQ2_0, "
        "MXFP4, "
        "NVFP4, Q1_0 or Q2_0. OUT appears whole or not at all.",
    .examples = "  plait quantize model-f16.gguf model-q4_k.gguf Q4_K\n",
    .options = options,
    .run = run,
};
