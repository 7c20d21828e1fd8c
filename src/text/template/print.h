/* Values as text: Python's str() and repr(), json.dumps, and formatting by % and str.format. */
#ifndef PLAIT_TEXT_TEMPLATE_PRINT_H
#define PLAIT_TEXT_TEMPLATE_PRINT_H

#include "text/template/string.h"

/* Python's repr of a float ("2.0", "1e+20", "nan"); out needs 40 bytes; returns the length. */
size_t plait_tpl_float_repr(double value, char *out);

/* str(v) and repr(v) appended. */
void plait_tpl_put_value(plait_tpl_builder *b, plait_tpl_value v);
void plait_tpl_put_repr(plait_tpl_builder *b, plait_tpl_value v, uint8_t foreign);
/* repr of a string; ascii: also escape everything beyond ASCII. */
void plait_tpl_put_str_repr(plait_tpl_builder *b, const plait_tpl_str *s, bool ascii);
/* str(v) as a string value; a string is returned unchanged. */
bool plait_tpl_to_str(plait_tpl_render *r, plait_tpl_value v, const plait_tpl_str **out);

/* json.dumps. indent NULL: one line. */
typedef struct plait_tpl_json_style {
    bool ascii, sort_keys;
    const plait_tpl_str *indent, *item_separator, *key_separator;
} plait_tpl_json_style;
bool plait_tpl_to_json(plait_tpl_render *r, plait_tpl_value v, const plait_tpl_json_style *style,
                       plait_tpl_value *out);
/* pprint.pformat at width 80. */
bool plait_tpl_pformat(plait_tpl_render *r, plait_tpl_value v, plait_tpl_value *out);

/* format % args, format.format(args), and format_map. */
bool plait_tpl_format_percent(plait_tpl_render *r, const plait_tpl_str *format, plait_tpl_value args,
                              plait_tpl_value *out);
bool plait_tpl_format_braces(plait_tpl_render *r, const plait_tpl_str *format, const plait_tpl_args *args,
                             plait_tpl_value *out);
/* One value under a format specification ("08.3f"), appended. */
bool plait_tpl_put_spec(plait_tpl_builder *b, plait_tpl_value v, const plait_tpl_str *spec);
/* A number of type 'd', 'x', 'o', 'X', 'b', 'e', 'f', 'g', ... without sign; appended to a small text. */
typedef struct plait_tpl_number {
    char *digits; /* in the arena */
    size_t n_digits;
    const char *prefix; /* "0x" and the like, under '#' */
    bool negative;
} plait_tpl_number;
bool plait_tpl_number_digits(plait_tpl_render *r, plait_tpl_value v, char type, int precision, bool alternate,
                             plait_tpl_number *out);

/* strftime in English; now is "YYYY-MM-DD HH:MM:SS", NULL takes the clock. */
bool plait_tpl_strftime(plait_tpl_render *r, const plait_tpl_str *format, plait_tpl_value *out);
/* Rejects a text that is no such time. */
plait_status plait_tpl_check_now(const char *now);

#endif
