/* Measured figures in the user's cache folder: one small JSON file a device, named by a hash of what the device says of
 * itself and of how this library was built (a build with sanitizers measures other figures).
 *
 * The file is written by nobody but this code, so reading takes exactly what writing makes: numbers are picked out, the
 * text is printed again from them, and anything that is not the same byte for byte is damaged, which is the same as not
 * there. Invariant: what is read was written whole, for this very device. */
#include "cost/cost.h"

#include "base/os.h"
#include "base/status.h"
#include "base/strbuf.h"

#include <stdlib.h>
#include <string.h>

enum { VERSION = 2, MAX_FILE_BYTES = 1 << 16 };

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define BUILD "sanitized"
#elif !defined(__OPTIMIZE__)
#define BUILD "unoptimised"
#else
#define BUILD "optimised"
#endif

/* What the figures depend on. Free memory is not in it, nor the name that a context gave. Anything that changes what a
 * measurement would give has to be in it: another number of threads is another device. */
static void print_identity(const plait_device_info *info, plait_strbuf *out) {
    plait_strbuf_printf(out, "%s; %s; %s; %d threads; %llu bytes; %s", info->kind, info->description,
                        info->numeric_class, info->n_threads, (unsigned long long)info->memory_total_bytes,
                        BUILD);
}

/* One line, keys in a fixed order. The identity is in it whole: the name of the file is only a hash. */
static void print_file(const plait_device_info *info, const plait_cost_record *record, plait_strbuf *out) {
    const plait_device_figures *figures = &record->figures;
    plait_strbuf identity;
    plait_strbuf_init(&identity, 0);
    print_identity(info, &identity);
    plait_strbuf_printf(out, "{\"version\":%d,\"device\":", VERSION);
    plait_strbuf_json_string(out, plait_strbuf_text(&identity));
#define PRINT(name) plait_strbuf_printf(out, ",\"" #name "\":%llu", (unsigned long long)figures->name);
    PLAIT_DEVICE_FIGURES(PRINT)
#undef PRINT
    plait_strbuf_printf(out, ",\"n_disturbed\":%llu}\n", (unsigned long long)record->n_disturbed);
    plait_strbuf_inherit(out, &identity);
    plait_strbuf_deinit(&identity);
}

/* The number behind "name": in the text, or 0: a wrong guess shows when the text is printed again. */
static uint64_t pick(const char *text, const char *name) {
    char key[64];
    size_t n = strlen(name);
    key[0] = '"';
    memcpy(key + 1, name, n);
    memcpy(key + 1 + n, "\":", 3);
    const char *at = strstr(text, key);
    return at ? strtoull(at + n + 3, NULL, 10) : 0;
}

/* CACHE/figures-HASH.json; the folder is made if need be. */
static plait_status path_of(const plait_device_info *info, plait_strbuf *out) {
    plait_strbuf identity;
    char *folder = NULL;
    plait_strbuf_init(&identity, 0);
    print_identity(info, &identity);
    plait_status status = plait_strbuf_status(&identity);
    if (status == PLAIT_OK) status = plait_os_cache_dir(&folder);
    if (status == PLAIT_OK) {
        uint64_t hash = plait_hash_bytes(plait_strbuf_text(&identity), identity.length, VERSION);
        plait_strbuf_printf(out, "%s/figures-%016llx.json", folder, (unsigned long long)hash);
        status = plait_strbuf_status(out);
    }
    free(folder);
    plait_strbuf_deinit(&identity);
    return status;
}

/* NOT_FOUND where there is no file yet. */
static plait_status read_text(const plait_device_info *info, plait_strbuf *out, uint64_t *out_age_s) {
    plait_strbuf path;
    plait_file file = {0};
    plait_strbuf_init(&path, 0);
    plait_status status = path_of(info, &path);
    if (status == PLAIT_OK) status = plait_file_open(&file, plait_strbuf_text(&path), false);
    if (status == PLAIT_OK) {
        if (file.size_bytes > MAX_FILE_BYTES)
            status = plait_error(PLAIT_CORRUPT, "%s: too large", plait_strbuf_text(&path));
        else
            plait_strbuf_append_n(out, file.bytes, (size_t)file.size_bytes);
        *out_age_s = plait_os_file_age_s(plait_strbuf_text(&path));
        plait_file_close(&file);
    }
    plait_strbuf_deinit(&path);
    return status == PLAIT_OK ? plait_strbuf_status(out) : status;
}

/* Picked, printed and compared: what was damaged, written by another version, or is of a device with the same hash does
 * not come out the same. */
static plait_status read_figures(const plait_device_info *info, const plait_strbuf *text,
                                 plait_cost_record *out) {
    plait_cost_record record = {.figures = {.struct_bytes = sizeof record.figures}, .age_s = out->age_s};
    plait_strbuf again;
    const char *bytes = plait_strbuf_text(text);
#define PICK(name) record.figures.name = pick(bytes, #name);
    PLAIT_DEVICE_FIGURES(PICK)
#undef PICK
    record.n_disturbed = pick(bytes, "n_disturbed");
    plait_strbuf_init(&again, 0);
    print_file(info, &record, &again);
    plait_status status = plait_strbuf_status(&again);
    bool same = again.length == text->length && strcmp(plait_strbuf_text(&again), bytes) == 0;
    plait_strbuf_deinit(&again);
    PLAIT_TRY(status);
    if (!same) return plait_error(PLAIT_NOT_FOUND, "figures: the file is damaged, or of another device");
    *out = record;
    return PLAIT_OK;
}

/* All failures but want of memory mean the same: measure. */
plait_status plait_cost_cache_read(const plait_device_info *info, plait_cost_record *out) {
    plait_strbuf text;
    plait_strbuf_init(&text, 0);
    plait_status status = read_text(info, &text, &out->age_s);
    if (status == PLAIT_OK) status = read_figures(info, &text, out);
    plait_strbuf_deinit(&text);
    return status == PLAIT_OK || status == PLAIT_OUT_OF_MEMORY ? status : PLAIT_NOT_FOUND;
}

/* Written beside and moved into place, so a reader never sees half a file, and of two writers one wins. */
plait_status plait_cost_cache_write(const plait_device_info *info, const plait_cost_record *record) {
    plait_strbuf path, text;
    plait_file_writer file = {.fd = -1};
    plait_strbuf_init(&path, 0);
    plait_strbuf_init(&text, 0);
    print_file(info, record, &text);
    plait_status status = plait_strbuf_status(&text);
    if (status == PLAIT_OK) status = path_of(info, &path);
    if (status == PLAIT_OK) status = plait_file_writer_open(&file, plait_strbuf_text(&path));
    if (status == PLAIT_OK) status = plait_file_writer_write(&file, plait_strbuf_text(&text), text.length);
    if (status == PLAIT_OK) status = plait_file_writer_commit(&file);
    plait_file_writer_abandon(&file);
    plait_strbuf_deinit(&path);
    plait_strbuf_deinit(&text);
    return status;
}
