/* The letters with which byte-level vocabularies spell bytes: 21-7E, A1-AC and AE-FF stand for themselves as code
 * points, the other 68 bytes in rising order for U+0100, U+0101, ... (the scheme of GPT-2). */
#ifndef PLAIT_TEXT_TOKENIZER_LETTERS_H
#define PLAIT_TEXT_TOKENIZER_LETTERS_H

#include <stdbool.h>
#include <stddef.h>

/* Decodes letters into at most n bytes; false, and nothing of use in out, when a character is no such letter. */
bool plait_tok_letters_decode(const char *text, size_t n, char *out, size_t *out_n);

#endif
