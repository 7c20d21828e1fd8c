/* What the files of this room share: the open file, the cursor over its bytes, and the passes of an open.
 *
 * Order of an open: open.c gets the bytes of every part, parse.c turns each part's header into entries and tensors
 * (nothing is looked at beyond the header), check.c proves the ranges of tensor data. get.c reads the result.
 * Invariant: nothing is allocated for a count of the file before the bytes that it stands for were seen. */
#ifndef PLAIT_GGUF_INTERNAL_H
#define PLAIT_GGUF_INTERNAL_H

#include "base/arena.h"
#include "base/map.h"
#include "base/os.h"
#include "base/status.h"
#include "plait/gguf.h"

#include <stdatomic.h>

/* Room for a text of the file in a message, NUL included: plait_gguf_shown cuts what is longer. */
#define PLAIT_GGUF_SHOWN_BYTES 100

/* Metadata of one part while it is read; that of the first part becomes the file's. */
typedef struct plait_gguf_meta {
    plait_gguf_entry *entries; /* Owned. Strings and arrays borrowed from the arena or the file's bytes. */
    size_t n_entries, capacity;
    plait_map keys; /* key -> index of its entry */
} plait_gguf_meta;

/* One part: its bytes and where they come from. */
typedef struct plait_gguf_source {
    plait_gguf_part info;       /* info.path points to `path` */
    char *path;                 /* Owned. */
    plait_file file;            /* Owned, zeroed when the bytes are not a file's. */
    void *copy;                 /* Owned: a private copy of memory or a stream, or NULL. */
    const unsigned char *bytes; /* Borrowed from file, copy or the caller. */
    uint32_t version, alignment;
} plait_gguf_source;

struct plait_gguf {
    _Atomic uint32_t references;
    plait_gguf_options options;
    plait_arena arena;          /* arrays of strings, arrays of arrays, aligned copies, tensor names */
    plait_gguf_source *sources; /* Owned. */
    size_t n_sources, sources_capacity;
    plait_gguf_meta meta;
    plait_gguf_tensor *tensors; /* Owned. */
    size_t n_tensors, tensors_capacity;
    plait_map names; /* tensor name -> index */
};

/* A place in a part's bytes. Invariant: at <= size_bytes. */
typedef struct plait_gguf_cursor {
    const unsigned char *bytes;
    uint64_t size_bytes, at;
} plait_gguf_cursor;

/* Reads the header of source `part` of gguf: version, metadata into *meta (zeroed before), tensors appended to
 * gguf. Messages name the part's path. Whatever was added stays owned by gguf and meta, also on failure. */
plait_status plait_gguf_parse(plait_gguf *gguf, size_t part, plait_gguf_meta *meta);
/* Tells from the first bytes whether this can be a GGUF file of a version we read. n may be less than the file. */
plait_status plait_gguf_check_magic(const unsigned char *bytes, uint64_t n);
void plait_gguf_meta_deinit(plait_gguf_meta *meta);

/* Value of a key in one part's metadata, or NULL. */
const plait_gguf_value *plait_gguf_meta_find(const plait_gguf_meta *meta, const char *key);

/* Rules that reader and writer share. The messages do not name the file. */
plait_status plait_gguf_check_key(plait_gguf_string key);
plait_status plait_gguf_check_tensor_name(plait_gguf_string name);
plait_status plait_gguf_check_alignment(uint64_t alignment);
/* From rank and dims: fills n_elems, and size_bytes when the type is known. */
plait_status plait_gguf_measure_tensor(plait_gguf_tensor *tensor);

/* Copies text into out as far as it fits, with what is not printable as \xNN and "..." for the rest; returns out.
 * For messages about bytes that came from a file. */
const char *plait_gguf_shown(plait_gguf_string text, char out[PLAIT_GGUF_SHOWN_BYTES]);

#endif
