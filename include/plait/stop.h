/* Stop conditions: when generation ends, and which text may be shown meanwhile.
 *
 * A plait_stop stands between detokenizer and reader. Each token goes in with its piece of text; out comes
 * the text that may be shown now, and whether generation is over, and why. Text that may be the beginning
 * of a stop string is held back until that is decided: a stop string, or a part of one that a later token
 * completes, is never shown. What is shown never ends inside a UTF-8 character either, though pieces may,
 * until the end comes: then what is left is given as it is.
 *
 *     plait_stop_result r;
 *     PLAIT_TRY(plait_stop_feed(stop, token, piece, n_bytes, &r));
 *     fwrite(r.text, 1, r.n_bytes, stdout);
 *     if (r.reason != PLAIT_STOP_NONE) break;
 *
 * When generation ends from outside (the reader left, an error), plait_stop_flush gives what is still held.
 * One thread at a time. Feeding allocates only when text longer than ever before has to be kept.
 */
#ifndef PLAIT_STOP_H
#define PLAIT_STOP_H

#include "plait/types.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct plait_stop plait_stop;

#define PLAIT_STOP_MAX_STRINGS      4096
#define PLAIT_STOP_MAX_STRING_BYTES (1 << 20) /* of all strings together */
#define PLAIT_STOP_MAX_TOKENS       65536     /* entries of one token list */

typedef enum plait_stop_reason {
    PLAIT_STOP_NONE = 0,   /* go on */
    PLAIT_STOP_END = 1,    /* the model ended its turn: one of end_tokens */
    PLAIT_STOP_TOKEN = 2,  /* one of stop_tokens */
    PLAIT_STOP_STRING = 3, /* a stop string was completed */
    PLAIT_STOP_LENGTH = 4  /* max_tokens were fed */
} plait_stop_reason;

/* Name of a reason as serving APIs print it: "none", "end", "token", "string", "length". */
const char *plait_stop_reason_name(plait_stop_reason reason);

/* Zeroed: no condition at all. Everything is copied. */
typedef struct plait_stop_options {
    const plait_token
        *end_tokens; /* the vocabulary's end-of-generation set: end of text, of turn, of message */
    size_t n_end_tokens;
    const plait_token *stop_tokens; /* the caller's own */
    size_t n_stop_tokens;
    const char *const *strings; /* none may be empty */
    const size_t *string_bytes; /* length of each, for strings with NUL inside; NULL: they end at NUL */
    size_t n_strings;
    int64_t max_tokens; /* stop after so many tokens, the one that ends not counted; 0: no limit */
    bool ignore_end;    /* end_tokens do not end anything; their piece is text like any other */
} plait_stop_options;

typedef struct plait_stop_result {
    const char
        *text; /* what may be shown now; not NUL-terminated, never NULL. Borrowed until the next call. */
    size_t n_bytes;
    plait_stop_reason reason;
    int64_t index; /* STRING: which string; TOKEN, END: which entry of the list; otherwise -1 */
} plait_stop_result;

/* Errors: INVALID_ARGUMENT (an empty string, a negative limit), LIMIT (beyond the limits above),
 * OUT_OF_MEMORY. */
plait_status plait_stop_create(plait_stop **out_stop, const plait_stop_options *options);
/* Accepts NULL. */
void plait_stop_destroy(plait_stop *stop);

/* One token and its text (n_bytes of any bytes; may be empty, piece may then be NULL).
 *
 * The piece of an ending token is not text: it is not shown, and cannot complete a string. Of several
 * strings the one that is completed first wins, of those completed by the same byte the longest; the text
 * before it is shown, the rest of the piece is dropped. When a token reaches max_tokens its text counts
 * first: a string that it completes is the reason. On END, TOKEN and LENGTH everything held is shown, since
 * nothing can complete it any more. After a reason other than NONE: WRONG_STATE until plait_stop_reset. */
plait_status plait_stop_feed(plait_stop *stop, plait_token token, const char *piece, size_t n_bytes,
                             plait_stop_result *out_result);

/* Gives what is held and ends (reason NONE); for generation that ends from outside. Harmless after a stop:
 * the text is then empty. */
plait_status plait_stop_flush(plait_stop *stop, plait_stop_result *out_result);

/* Ready for the next generation with the same conditions; keeps its memory. */
void plait_stop_reset(plait_stop *stop);

/* Tokens fed since the start, the ending token not counted. */
int64_t plait_stop_n_tokens(const plait_stop *stop);

#ifdef __cplusplus
}
#endif
#endif
