/* Stop conditions. Text runs through an Aho-Corasick automaton of the stop strings (Aho, Corasick 1975):
 * its state is the longest end of the text that begins some string, so its depth is exactly what has to be
 * held back.
 *
 * Not here: making text from tokens (the detokenizer), deciding what is an end-of-generation token (the
 * vocabulary).
 *
 * Invariant: buffer[0, shown) was handed out by the last call, buffer[shown, length) is held, and the held
 * text is at least as long as the automaton's depth. Time is linear in the text. */
#include "plait/stop.h"

#include "base/alloc.h"
#include "base/size.h"
#include "base/status.h"

#include <stdlib.h>
#include <string.h>

#define MAX_HELD_BYTES ((size_t)1 << 30)

/* A state of the automaton: a beginning of some stop string. Children are a list, for memory in proportion to the
 * strings; the root, where most text is spent, has a table. Strings that begin alike share nodes, so there is one for
 * each distinct beginning. */
typedef struct stop_node {
    uint32_t child, sibling; /* 0: none; the root is no one's child */
    uint32_t fail;           /* the longest proper end of this that is a node too */
    uint32_t depth;
    int32_t string; /* the longest stop string that ends here, or -1 */
    unsigned char byte;
} stop_node;

struct plait_stop {
    stop_node *nodes; /* Owned. [0] is the root. */
    size_t n_nodes;
    uint32_t first[256];                   /* children of the root */
    uint32_t *lengths;                     /* Owned. Bytes of each string. */
    plait_token *end_tokens, *stop_tokens; /* Owned. */
    size_t n_end_tokens, n_stop_tokens, n_strings;
    int64_t max_tokens;

    char *buffer; /* Owned. */
    size_t capacity, length, shown;
    uint32_t state;
    int64_t n_tokens;
    bool stopped;
};

const char *plait_stop_reason_name(plait_stop_reason reason) {
    static const char *const names[] = {"none", "end", "token", "string", "length"};
    return (size_t)reason < PLAIT_COUNT_OF(names) ? names[reason] : "unknown";
}

/* ---- the automaton ---- */

/* Nodes below the root have few children; a list of siblings is shorter than a table of 256 for each node. */
static uint32_t find_child(const plait_stop *stop, uint32_t node, unsigned char byte) {
    if (node == 0) return stop->first[byte];
    uint32_t child = stop->nodes[node].child;
    while (child && stop->nodes[child].byte != byte) child = stop->nodes[child].sibling;
    return child;
}

/* Enters one string; the array of nodes is large enough. `index` is the number that a result reports. Children are
 * added at the front of the list; their order means nothing. */
static void add_string(plait_stop *stop, const char *text, size_t n, int32_t index) {
    uint32_t node = 0;
    for (size_t i = 0; i < n; i++) {
        unsigned char byte = (unsigned char)text[i];
        uint32_t child = find_child(stop, node, byte);
        if (!child) {
            child = (uint32_t)stop->n_nodes++;
            stop->nodes[child] = (stop_node){
                .sibling = stop->nodes[node].child, .depth = (uint32_t)i + 1, .string = -1, .byte = byte};
            stop->nodes[node].child = child;
            if (node == 0) stop->first[byte] = child;
        }
        node = child;
    }
    if (stop->nodes[node].string < 0) stop->nodes[node].string = index; /* of equal strings the first */
}

/* Follows fail links until a child fits: over a whole text no more often than bytes were read, since each link lowers
 * the depth that reading raised by one. */
static uint32_t step(const plait_stop *stop, uint32_t node, unsigned char byte) {
    for (;;) {
        uint32_t child = find_child(stop, node, byte);
        if (child || node == 0) return child;
        node = stop->nodes[node].fail;
    }
}

/* Fail links in order of depth; `queue` holds n_nodes entries. A node inherits the string of its fail link: a short
 * stop string inside of a longer beginning must be seen as well, and of two that end together the longer, its own,
 * wins. Breadth first, so the link of a node leads to a shallower one, whose own link and string are final already. */
static void link_failures(plait_stop *stop, uint32_t *queue) {
    size_t head = 0, tail = 0;
    queue[tail++] = 0;
    while (head < tail) {
        uint32_t node = queue[head++];
        for (uint32_t child = stop->nodes[node].child; child; child = stop->nodes[child].sibling) {
            stop_node *c = &stop->nodes[child];
            c->fail = node == 0 ? 0 : step(stop, stop->nodes[node].fail, c->byte);
            if (c->string < 0) c->string = stop->nodes[c->fail].string;
            queue[tail++] = child;
        }
    }
}

/* ---- life ---- */

static size_t string_length(const plait_stop_options *options, size_t i) {
    return options->string_bytes ? options->string_bytes[i] : strlen(options->strings[i]);
}

/* Checks the options and counts the bytes of all strings. Limits are checked before anything is allocated. An empty
 * string would stop before the first token, and is refused as a mistake. */
static plait_status check_options(const plait_stop_options *o, size_t *out_bytes) {
    size_t total = 0;
    if (o->max_tokens < 0)
        return plait_error(PLAIT_INVALID_ARGUMENT, "stop: max_tokens is %lld, expected 0 (no limit) or more",
                           (long long)o->max_tokens);
    if (o->n_end_tokens > PLAIT_STOP_MAX_TOKENS || o->n_stop_tokens > PLAIT_STOP_MAX_TOKENS)
        return plait_error(PLAIT_LIMIT,
                           "stop: %zu end tokens and %zu stop tokens, at most %d of each allowed",
                           o->n_end_tokens, o->n_stop_tokens, PLAIT_STOP_MAX_TOKENS);
    if (o->n_strings > PLAIT_STOP_MAX_STRINGS)
        return plait_error(PLAIT_LIMIT, "stop: %zu strings, at most %d allowed", o->n_strings,
                           PLAIT_STOP_MAX_STRINGS);
    for (size_t i = 0; i < o->n_strings; i++) {
        size_t n = string_length(o, i);
        if (n == 0) return plait_error(PLAIT_INVALID_ARGUMENT, "stop: string %zu is empty", i);
        if (!plait_add_size(total, n, &total) || total > PLAIT_STOP_MAX_STRING_BYTES)
            return plait_error(PLAIT_LIMIT, "stop: the first %zu strings have more than %d bytes together",
                               i + 1, PLAIT_STOP_MAX_STRING_BYTES);
    }
    *out_bytes = total;
    return PLAIT_OK;
}

/* A list of 0 still gets memory, so that NULL means failure only. */
static plait_status copy_tokens(const plait_token *from, size_t n, plait_token **out, size_t *out_n) {
    plait_token *copy = plait_alloc_array(n, sizeof *copy);
    if (!copy) return plait_error_memory("stop tokens", n * sizeof *copy);
    if (n) memcpy(copy, from, n * sizeof *copy);
    *out = copy;
    *out_n = n;
    return PLAIT_OK;
}

/* At most one node a byte, and the root: sized beforehand, so entering strings cannot fail. What was allocated is freed
 * with the object. The strings themselves are not kept: the automaton knows their bytes, and a result needs their
 * length only. */
static plait_status build_automaton(plait_stop *stop, const plait_stop_options *o, size_t bytes) {
    stop->nodes = plait_alloc_array(bytes + 1, sizeof *stop->nodes);
    stop->lengths = plait_alloc_array(o->n_strings, sizeof *stop->lengths);
    uint32_t *queue = plait_alloc_array(bytes + 1, sizeof *queue);
    if (!stop->nodes || !stop->lengths || !queue) {
        free(queue);
        return plait_error_memory("stop strings", (bytes + 1) * (sizeof *stop->nodes + sizeof *queue));
    }
    stop->nodes[0].string = -1;
    stop->n_nodes = 1;
    stop->n_strings = o->n_strings;
    for (size_t i = 0; i < o->n_strings; i++) {
        size_t n = string_length(o, i);
        stop->lengths[i] = (uint32_t)n;
        add_string(stop, o->strings[i], n, (int32_t)i);
    }
    link_failures(stop, queue);
    free(queue);
    return PLAIT_OK;
}

/* With ignore_end the list is empty: then an end token is found nowhere, and its piece is text like any other. The
 * buffer has room from the beginning, so that it is never NULL. */
static plait_status fill(plait_stop *stop, const plait_stop_options *o, size_t string_bytes) {
    size_t n_end = o->ignore_end ? 0 : o->n_end_tokens;
    stop->max_tokens = o->max_tokens;
    PLAIT_TRY(copy_tokens(o->end_tokens, n_end, &stop->end_tokens, &stop->n_end_tokens));
    PLAIT_TRY(copy_tokens(o->stop_tokens, o->n_stop_tokens, &stop->stop_tokens, &stop->n_stop_tokens));
    PLAIT_TRY(build_automaton(stop, o, string_bytes));
    return plait_grow(&stop->buffer, &stop->capacity, 256, 1, MAX_HELD_BYTES, "stop text");
}

plait_status plait_stop_create(plait_stop **out_stop, const plait_stop_options *options) {
    static const plait_stop_options none = {0};
    size_t string_bytes = 0;
    if (!options) options = &none;
    PLAIT_TRY(check_options(options, &string_bytes));
    plait_stop *stop = plait_alloc_array(1, sizeof *stop);
    if (!stop) return plait_error_memory("stop", sizeof *stop);
    plait_status status = fill(stop, options, string_bytes);
    if (status != PLAIT_OK) {
        plait_stop_destroy(stop);
        return status;
    }
    *out_stop = stop;
    return PLAIT_OK;
}

void plait_stop_destroy(plait_stop *stop) {
    if (!stop) return;
    free(stop->nodes);
    free(stop->lengths);
    free(stop->end_tokens);
    free(stop->stop_tokens);
    free(stop->buffer);
    free(stop);
}

/* The buffer keeps its capacity: a second generation of the same length allocates nothing. */
void plait_stop_reset(plait_stop *stop) {
    stop->length = stop->shown = 0;
    stop->state = 0;
    stop->n_tokens = 0;
    stop->stopped = false;
}

int64_t plait_stop_n_tokens(const plait_stop *stop) {
    return stop->n_tokens;
}

/* ---- feeding ---- */

/* Linear: lists have a handful of entries. */
static int64_t find_token(const plait_token *tokens, size_t n, plait_token token) {
    for (size_t i = 0; i < n; i++)
        if (tokens[i] == token) return (int64_t)i;
    return -1;
}

/* Bytes at the end of text[0, n) that begin a UTF-8 character without completing it; 0 to 3. Lone continuation bytes
 * and bytes that begin no character are not held: they will never be completed, and a reader shows U+FFFD for them
 * anyway. */
static size_t unfinished_bytes(const char *text, size_t n) {
    for (size_t back = 1; back <= 3 && back <= n; back++) {
        unsigned char c = (unsigned char)text[n - back];
        if ((c & 0xC0) == 0x80) continue;
        size_t length = c >= 0xF0 && c <= 0xF4  ? 4
                        : c >= 0xE0 && c < 0xF0 ? 3
                        : c >= 0xC2 && c < 0xE0 ? 2
                                                : 1;
        return back < length ? back : 0;
    }
    return 0;
}

/* Hands out the first n bytes of the buffer. The text is lent until the next call; what follows it in the buffer is
 * held, or dropped after a stop. */
static void show(plait_stop *stop, size_t n, plait_stop_reason reason, int64_t index,
                 plait_stop_result *out) {
    stop->shown = n;
    stop->stopped = reason != PLAIT_STOP_NONE;
    *out = (plait_stop_result){.text = stop->buffer, .n_bytes = n, .reason = reason, .index = index};
}

/* What the last call lent out ends here; held bytes move to the front. */
static void drop_shown(plait_stop *stop) {
    stop->length -= stop->shown;
    memmove(stop->buffer, stop->buffer + stop->shown, stop->length);
    stop->shown = 0;
}

/* An overflow becomes SIZE_MAX, which the limit then refuses. On failure the held text is as before. The limit is far
 * above what can be held back (the longest stop string and one piece); it only bounds a hostile piece. */
static plait_status append(plait_stop *stop, const char *piece, size_t n_bytes) {
    size_t needed;
    if (!plait_add_size(stop->length, n_bytes, &needed)) needed = SIZE_MAX;
    PLAIT_TRY(plait_grow(&stop->buffer, &stop->capacity, needed, 1, MAX_HELD_BYTES, "stop text"));
    if (n_bytes) memcpy(stop->buffer + stop->length, piece, n_bytes);
    stop->length = needed;
    return PLAIT_OK;
}

/* The state moves byte by byte, so a string that ends in the middle of a piece is seen where it ends; what stands
 * behind it is dropped. Of what is safe to show, a character that is not complete yet is kept back as well. A failed
 * append leaves the state of the automaton untouched, so the token may be fed again. End tokens are looked for before
 * stop tokens, and neither counts for max_tokens nor adds its piece. Order within a token: a stop string in the last
 * allowed piece is reported as the string, not as the length. */
plait_status plait_stop_feed(plait_stop *stop, plait_token token, const char *piece, size_t n_bytes,
                             plait_stop_result *out_result) {
    if (stop->stopped)
        return plait_error(PLAIT_WRONG_STATE, "stop: token %lld fed after the end", (long long)token);
    drop_shown(stop);
    int64_t index = find_token(stop->end_tokens, stop->n_end_tokens, token);
    if (index >= 0) return show(stop, stop->length, PLAIT_STOP_END, index, out_result), PLAIT_OK;
    index = find_token(stop->stop_tokens, stop->n_stop_tokens, token);
    if (index >= 0) return show(stop, stop->length, PLAIT_STOP_TOKEN, index, out_result), PLAIT_OK;

    size_t at = stop->length;
    PLAIT_TRY(append(stop, piece, n_bytes));
    stop->n_tokens++;
    for (; at < stop->length; at++) {
        stop->state = step(stop, stop->state, (unsigned char)stop->buffer[at]);
        int32_t string = stop->nodes[stop->state].string;
        if (string < 0) continue;
        stop->length = at + 1 - stop->lengths[string];
        return show(stop, stop->length, PLAIT_STOP_STRING, string, out_result), PLAIT_OK;
    }
    if (stop->max_tokens && stop->n_tokens >= stop->max_tokens)
        return show(stop, stop->length, PLAIT_STOP_LENGTH, -1, out_result), PLAIT_OK;
    size_t safe = stop->length - stop->nodes[stop->state].depth;
    return show(stop, safe - unfinished_bytes(stop->buffer, safe), PLAIT_STOP_NONE, -1, out_result), PLAIT_OK;
}

/* Nothing can complete a string any more: what is held is text. */
plait_status plait_stop_flush(plait_stop *stop, plait_stop_result *out_result) {
    drop_shown(stop);
    show(stop, stop->length, PLAIT_STOP_NONE, -1, out_result);
    stop->stopped = true;
    return PLAIT_OK;
}
