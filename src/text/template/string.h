/* Strings of the template language: making, cutting, searching, and Unicode properties as Python has them.
 * Positions in bytes are named *_at or *_byte, positions in characters are what templates see. */
#ifndef PLAIT_TEXT_TEMPLATE_STRING_H
#define PLAIT_TEXT_TEMPLATE_STRING_H

#include "text/template/value.h"

/* A builder appends to its rendering's arena. */
void plait_tpl_builder_init(plait_tpl_builder *b, plait_tpl_render *r);
void plait_tpl_put(plait_tpl_builder *b, const char *bytes, size_t n, uint8_t foreign);
void plait_tpl_put_text(plait_tpl_builder *b, const char *text, uint8_t foreign);
/* Part [from, to) in bytes of a string, origins carried along. */
void plait_tpl_put_slice(plait_tpl_builder *b, const plait_tpl_str *s, size_t from, size_t to);
void plait_tpl_put_str(plait_tpl_builder *b, const plait_tpl_str *s);
void plait_tpl_put_code(plait_tpl_builder *b, uint32_t code, uint8_t foreign);
void plait_tpl_put_repeat(plait_tpl_builder *b, uint32_t code, int64_t n, uint8_t foreign);
/* The string that was built. */
bool plait_tpl_finish(plait_tpl_builder *b, plait_tpl_value *out);
bool plait_tpl_finish_str(plait_tpl_builder *b, const plait_tpl_str **out);

/* A string over borrowed bytes that outlive the rendering. */
bool plait_tpl_str_borrow(plait_tpl_render *r, const char *bytes, size_t n, uint8_t foreign,
                          plait_tpl_value *out);
/* A copy of C text, from the template. */
bool plait_tpl_str_text(plait_tpl_render *r, const char *text, plait_tpl_value *out);
bool plait_tpl_str_sub(plait_tpl_render *r, const plait_tpl_str *s, size_t from_byte, size_t to_byte,
                       plait_tpl_value *out);
bool plait_tpl_str_concat(plait_tpl_render *r, const plait_tpl_str *a, const plait_tpl_str *b,
                          plait_tpl_value *out);
bool plait_tpl_str_with_markup(plait_tpl_render *r, const plait_tpl_str *s, bool markup,
                               plait_tpl_value *out);

bool plait_tpl_str_equal(const plait_tpl_str *a, const plait_tpl_str *b);
bool plait_tpl_str_is(const plait_tpl_str *s, const char *text);
int plait_tpl_str_compare(const plait_tpl_str *a, const plait_tpl_str *b);
/* Byte position of the first (last) occurrence within [from, to), or SIZE_MAX. */
size_t plait_tpl_str_find(const plait_tpl_str *s, const plait_tpl_str *part, size_t from, size_t to);
size_t plait_tpl_str_rfind(const plait_tpl_str *s, const plait_tpl_str *part, size_t from, size_t to);
/* Byte position of character number n (n up to n_chars), and back. */
size_t plait_tpl_str_byte_of(const plait_tpl_str *s, size_t n);
size_t plait_tpl_str_char_of(const plait_tpl_str *s, size_t byte);
/* Origin of a byte, of a range (1 when any byte is foreign). */
uint8_t plait_tpl_str_mark(const plait_tpl_str *s, size_t byte);
uint8_t plait_tpl_str_any_foreign(const plait_tpl_str *s);
/* Decodes the character at a byte position and steps over it. */
uint32_t plait_tpl_str_next(const plait_tpl_str *s, size_t *at);
uint32_t plait_tpl_str_prev(const plait_tpl_str *s, size_t *at);
/* str.strip and its halves; `chars` NULL strips white space. */
bool plait_tpl_str_strip(plait_tpl_render *r, const plait_tpl_str *s, const plait_tpl_str *chars, bool left,
                         bool right, plait_tpl_value *out);
/* End of the line that starts at byte `at` (str.splitlines), and where the next one starts. */
size_t plait_tpl_str_line_end(const plait_tpl_str *s, size_t at, size_t *next);
/* str.replace; count < 0: all. */
bool plait_tpl_str_replace(plait_tpl_render *r, const plait_tpl_str *s, const plait_tpl_str *old,
                           const plait_tpl_str *with, int64_t count, plait_tpl_value *out);
/* HTML escaping as markupsafe does; the result is markup. */
bool plait_tpl_str_escape(plait_tpl_render *r, const plait_tpl_str *s, plait_tpl_value *out);

/* Unicode, version of utf8proc. */
bool plait_tpl_is_space(uint32_t code);
bool plait_tpl_is_printable(uint32_t code);
bool plait_tpl_is_alpha(uint32_t code);
bool plait_tpl_is_decimal(uint32_t code);
/* What a decimal digit (plait_tpl_is_decimal) counts. */
uint32_t plait_tpl_decimal_value(uint32_t code);
bool plait_tpl_is_digit(uint32_t code);
bool plait_tpl_is_numeric(uint32_t code);
bool plait_tpl_is_word(uint32_t code); /* \w */
bool plait_tpl_is_cased(uint32_t code);
bool plait_tpl_is_upper(uint32_t code);
bool plait_tpl_is_lower(uint32_t code);
bool plait_tpl_is_title(uint32_t code);
typedef enum plait_tpl_case {
    PLAIT_TPL_UPPER,
    PLAIT_TPL_LOWER,
    PLAIT_TPL_TITLE,
    PLAIT_TPL_FOLD
} plait_tpl_case;
/* Full case mapping: up to 3 characters; returns how many. */
size_t plait_tpl_map_case(uint32_t code, plait_tpl_case to, uint32_t out[3]);
/* Appends the character at byte `at` of s, mapped (final sigma included), with its origin; returns the next position. */
size_t plait_tpl_put_case(plait_tpl_builder *b, const plait_tpl_str *s, size_t at, plait_tpl_case to);
bool plait_tpl_str_case(plait_tpl_render *r, const plait_tpl_str *s, plait_tpl_case to, plait_tpl_value *out);

#endif
