/* The lexer. Not here: grammar (parser.c, parse_expr.c). The rules are those of jinja2/lexer.py with trim_blocks and
 * lstrip_blocks, as chat templates expect. Invariant: `at` only moves forward, and line and line_start belong to `at`
 * whenever a token is made.
 *
 * Positions are bytes of the normalised copy, and so are the columns of messages. Tokens are made all at once, before
 * parsing: the parser looks one token ahead, and a template has a few thousand of them. */
#include "text/template/lexer.h"

#include "base/strbuf.h"
#include "base/utf8.h"
#include "text/template/string.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Which pair of signs closes the tag that is being read: "%}" or "}}". */
typedef enum tag_end { END_BLOCK, END_PRINT } tag_end;

/* Columns count bytes from 1. CORRUPT and not INVALID_ARGUMENT: the text is that of a model file, and no argument of
 * the caller can mend it. */
static bool fail_here(plait_tpl_lexer *x, const char *what) {
    x->r->line = x->line;
    x->r->column = (uint32_t)(x->at - x->line_start + 1);
    return plait_tpl_fail(x->r, PLAIT_CORRUPT, "%s", what);
}

/* Moves to `to`, counting lines. Every byte of the template is passed once, so counting lines is linear over all. A
 * `to` behind `at` moves nothing. */
static void move_to(plait_tpl_lexer *x, size_t to) {
    for (; x->at < to; x->at++)
        if (x->text[x->at] == '\n') {
            x->line++;
            x->line_start = x->at + 1;
        }
}

/* The array doubles inside the arena, which frees nothing: the old ones cost as much again at most. */
static bool add_token(plait_tpl_lexer *x, plait_tpl_token_kind kind, plait_tpl_value value) {
    if (x->n_tokens == x->capacity) {
        size_t capacity = x->capacity ? x->capacity * 2 : 64;
        plait_tpl_token *tokens = plait_tpl_alloc(x->r, capacity, sizeof *tokens);
        if (!tokens) return false;
        if (x->n_tokens) memcpy(tokens, x->tokens, x->n_tokens * sizeof *tokens);
        x->tokens = tokens;
        x->capacity = capacity;
    }
    x->tokens[x->n_tokens++] = (plait_tpl_token){.kind = (uint8_t)kind,
                                                 .line = x->line,
                                                 .column = (uint32_t)(x->at - x->line_start + 1),
                                                 .value = value};
    return true;
}

/* The token borrows from the normalised copy, which lives in the same arena. Empty text makes no token. */
static bool add_text(plait_tpl_lexer *x, size_t from, size_t to) {
    plait_tpl_value v;
    if (to <= from) return true;
    return plait_tpl_str_borrow(x->r, x->text + from, to - from, 0, &v) && add_token(x, PLAIT_TPL_T_TEXT, v);
}

/* Needs at <= n_bytes. */
static bool at_text(const plait_tpl_lexer *x, size_t at, const char *what) {
    size_t n = strlen(what);
    return x->n_bytes - at >= n && memcmp(x->text + at, what, n) == 0;
}

/* White space as Python's \s takes it, beyond ASCII too. */
static size_t skip_space(const plait_tpl_lexer *x, size_t at) {
    while (at < x->n_bytes) {
        uint32_t code = 0;
        size_t used = plait_utf8_decode(x->text + at, x->n_bytes - at, &code);
        if (!used || !plait_tpl_is_space(code)) break;
        at += used;
    }
    return at;
}

/* End of text [from, to) without the white space at its end. Goes back a character at a time; the text is valid UTF-8,
 * so continuation bytes lead to a first byte. Undecodable bytes cannot occur, since the whole text was checked; the
 * comparison with to - p would stop at them. */
static size_t strip_end(const plait_tpl_lexer *x, size_t from, size_t to) {
    while (to > from) {
        size_t p = to - 1;
        uint32_t code = 0;
        while (p > from && ((unsigned char)x->text[p] & 0xC0) == 0x80) p--;
        if (plait_utf8_decode(x->text + p, to - p, &code) != to - p || !plait_tpl_is_space(code)) break;
        to = p;
    }
    return to;
}

/* Text before a tag, cut as the tag's sign asks: '-' strips it, '+' leaves it, and otherwise white space between the
 * start of the line and a block or comment goes. */
static size_t cut_before(const plait_tpl_lexer *x, size_t from, size_t to, char sign, bool lstrip,
                         bool line_starting) {
    if (sign == '-') return strip_end(x, from, to);
    if (sign == '+' || !lstrip) return to;
    /* Only the white space of the tag's own line is looked at; `line_starting` tells that the text before `from` ended
     * a line. */
    size_t line = to;
    while (line > from && x->text[line - 1] != '\n') line--;
    /* A tag stands before on this line. */
    if (line == from && !line_starting) return to;
    return strip_end(x, line, to) == line ? line : to;
}

/* Where the text continues behind "%}" or "#}" that ends at `at`. Without a sign one line end goes with the tag, which
 * is trim_blocks; '-' takes all white space, over any number of lines. */
static size_t after_block(const plait_tpl_lexer *x, size_t at, char sign) {
    if (sign == '-') return skip_space(x, at);
    if (sign == '+') return at;
    return at < x->n_bytes && x->text[at] == '\n' ? at + 1 : at;
}

/* '-', '+', or 0 for no sign. */
static char sign_at(const plait_tpl_lexer *x, size_t at) {
    return at < x->n_bytes && (x->text[at] == '-' || x->text[at] == '+') ? x->text[at] : 0;
}

/* Comments do not nest, and nothing inside them is looked at, quotes neither. */
static bool lex_comment(plait_tpl_lexer *x) {
    size_t at = x->at + 2 + (sign_at(x, x->at + 2) != 0), from = at;
    while (at < x->n_bytes && !at_text(x, at, "#}")) at++;
    if (from >= x->n_bytes)
        return move_to(x, x->n_bytes), true; /* as in Jinja: nothing follows, nothing is missed */
    if (at >= x->n_bytes) return fail_here(x, "missing end of comment tag");
    /* "#}" with its sign; a '-' that opened the comment does not close it. */
    char sign = at > from ? sign_at(x, at - 1) : 0;
    move_to(x, after_block(x, at + 2, sign));
    return true;
}

/* Whether a tag "{% NAME %}" starts at `at`; *sign_before and *sign_end are its signs, *end the position behind
 * "%}". */
static bool word_tag(const plait_tpl_lexer *x, size_t at, const char *name, char *sign_before, char *sign_end,
                     size_t *end) {
    if (!at_text(x, at, "{%")) return false;
    at += 2;
    *sign_before = sign_at(x, at);
    at = skip_space(x, at + (*sign_before != 0));
    /* A longer name fails behind this one, where the tag should end. */
    if (!at_text(x, at, name)) return false;
    at = skip_space(x, at + strlen(name));
    *sign_end = sign_at(x, at);
    at += *sign_end != 0;
    if (!at_text(x, at, "%}")) return false;
    *end = at + 2;
    return true;
}

/* Up to the first endraw tag, whatever stands in between. Its white space is cut as that of any block tag. Raw text is
 * cut as text is elsewhere, but no tag in it is seen, so a template can print another template. */
static bool lex_raw(plait_tpl_lexer *x, size_t begin_end, char begin_sign) {
    move_to(x, begin_sign == '-' ? skip_space(x, begin_end) : begin_end);
    size_t from = x->at, at = from, end = 0;
    char before = 0, sign = 0;
    /* The tag was alone on its line, as far as the raw text is concerned. */
    bool starting = from > 0 && x->text[from - 1] == '\n';
    while (at < x->n_bytes && !word_tag(x, at, "endraw", &before, &sign, &end)) at++;
    if (from >= x->n_bytes) return true;
    if (at >= x->n_bytes) return fail_here(x, "missing end of raw directive");
    if (!add_text(x, from, cut_before(x, from, at, before, true, starting))) return false;
    move_to(x, after_block(x, end, sign));
    return true;
}

/* --- inside tags --- */

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

/* 99 is above any base. */
static int digit_value(char c) {
    return is_digit(c)            ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : 99;
}

/* Digits of a base with single underscores between them; returns the end, `at` when there are none. `base` 1 takes
 * zeros only. An underscore counts only with a digit behind it, so "1_" is the number 1 and a name; the parser refuses
 * the two together. */
static size_t scan_digits(const plait_tpl_lexer *x, size_t at, int base, bool underscore_first) {
    size_t p = at;
    while (p < x->n_bytes) {
        bool line = x->text[p] == '_' && (p > at || underscore_first);
        size_t q = p + line;
        if (q >= x->n_bytes || digit_value(x->text[q]) >= base) break;
        p = q + 1;
    }
    return p;
}

/* End of a float literal at `at`, or `at`. Digits behind a dot are an index (x.1.2 is x[1][2]), not a float; without
 * dot or exponent it is an integer. `good` is the end of the longest valid literal so far: in "1.e5" the dot has no
 * digit behind it, and what follows is an attribute. */
static size_t scan_float(const plait_tpl_lexer *x, size_t at) {
    size_t p = scan_digits(x, at, 10, false), good = at;
    /* Behind a dot it is an index. */
    if (p == at || (at > 0 && x->text[at - 1] == '.')) return at;
    if (p < x->n_bytes && x->text[p] == '.') {
        size_t q = scan_digits(x, p + 1, 10, false);
        if (q > p + 1) p = good = q;
    }
    if (p < x->n_bytes && (x->text[p] == 'e' || x->text[p] == 'E')) {
        size_t q = p + 1;
        if (q < x->n_bytes && (x->text[q] == '+' || x->text[q] == '-')) q++;
        size_t end = scan_digits(x, q, 10, false);
        if (end > q) good = end;
    }
    return good;
}

/* Underscores are dropped; 63 characters are more than any double needs. */
static bool add_float(plait_tpl_lexer *x, size_t end) {
    char small[64];
    size_t n = 0;
    for (size_t i = x->at; i < end; i++) {
        if (x->text[i] == '_') continue;
        if (n + 1 >= sizeof small) return fail_here(x, "a number literal is too long");
        small[n++] = x->text[i];
    }
    small[n] = '\0';
    if (!add_token(x, PLAIT_TPL_T_FLOAT, plait_tpl_float(plait_strtod(small, NULL)))) return false;
    move_to(x, end);
    return true;
}

/* A prefix without digits behind it leaves "0" as the number and the letter as a name. Leading zeros are taken only
 * when nothing but zeros follows, as in Python: what is behind them is the next token, which the parser refuses. The
 * digits were scanned in the base, so digit_value is below it; the one thing that can go wrong is 64 bits. */
static bool add_integer(plait_tpl_lexer *x) {
    int base = 10;
    size_t at = x->at, end;
    char kind = at + 1 < x->n_bytes && x->text[at] == '0' ? (char)(x->text[at + 1] | 0x20) : 0;
    if (kind == 'b' || kind == 'o' || kind == 'x') {
        int wanted = kind == 'b' ? 2 : kind == 'o' ? 8 : 16;
        /* An underscore may follow the prefix, as in Python. */
        if (scan_digits(x, at + 2, wanted, true) > at + 2) base = wanted, at += 2;
    }
    if (base != 10)
        end = scan_digits(x, at, base, true);
    else if (x->text[at] == '0')
        end = scan_digits(x, at, 1, false);
    else
        end = scan_digits(x, at, 10, false);
    int64_t value = 0;
    for (size_t i = at; i < end; i++) {
        if (x->text[i] == '_') continue;
        if (__builtin_mul_overflow(value, (int64_t)base, &value) ||
            __builtin_add_overflow(value, (int64_t)digit_value(x->text[i]), &value))
            return fail_here(x, "an integer literal beyond the limit of 64 bits");
    }
    if (!add_token(x, PLAIT_TPL_T_INTEGER, plait_tpl_int(value))) return false;
    move_to(x, end);
    return true;
}

/* One escape sequence behind a backslash at x->text[*at - 1]; Python's "unicode-escape". *at moves behind the escape.
 * \N{...} would need the table of Unicode's names, which is not carried. */
static bool put_escape(plait_tpl_lexer *x, plait_tpl_builder *b, size_t *at, size_t end) {
    static const char from[] = "\\'\"abfnrtv", to[] = "\\'\"\a\b\f\n\r\t\v";
    char c = x->text[*at];
    /* memchr and not strchr: a zero byte is no escape. */
    const char *simple = memchr(from, c, sizeof from - 1);
    size_t n = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    uint32_t code = 0;
    if (simple) {
        (*at)++;
        plait_tpl_put(b, &to[simple - from], 1, 0);
        return true;
    }
    if (c == '\n') { /* a continued line */
        (*at)++;
        return true;
    }
    if (c >= '0' && c <= '7') {
        for (n = 0; n < 3 && *at < end && x->text[*at] >= '0' && x->text[*at] <= '7'; n++)
            code = code * 8 + (uint32_t)(x->text[(*at)++] - '0');
        plait_tpl_put_code(b, code, 0);
        return true;
    }
    if (c == 'N') return fail_here(x, "escapes of named characters are not supported");
    if (n == 0) { /* unknown: stays as it is */
        plait_tpl_put(b, "\\", 1, 0);
        return true;
    }
    (*at)++;
    for (size_t i = 0; i < n; i++, (*at)++) {
        if (*at >= end || digit_value(x->text[*at]) > 15)
            return fail_here(x, "a broken \\x, \\u or \\U escape");
        code = code * 16 + (uint32_t)digit_value(x->text[*at]);
    }
    if (code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF))
        return fail_here(x, "an escape that is no character");
    plait_tpl_put_code(b, code, 0);
    return true;
}

/* A backslash takes the next character along, so a quote behind one does not end the string; line ends belong to it.
 * Without a backslash nothing is copied. */
static bool add_string(plait_tpl_lexer *x) {
    char quote = x->text[x->at];
    size_t end = x->at + 1;
    bool escapes = false;
    while (end < x->n_bytes && x->text[end] != quote) {
        escapes = escapes || x->text[end] == '\\';
        /* May pass the end of the text, which counts as not closed. */
        end += x->text[end] == '\\' ? 2 : 1;
    }
    if (end >= x->n_bytes) return fail_here(x, "a string without its closing quote");
    plait_tpl_value v;
    size_t at = x->at + 1;
    if (escapes) {
        plait_tpl_builder b;
        plait_tpl_builder_init(&b, x->r);
        while (at < end) {
            const char *p = memchr(x->text + at, '\\', end - at);
            size_t stop = p ? (size_t)(p - x->text) : end;
            plait_tpl_put(&b, x->text + at, stop - at, 0);
            at = stop + 1;
            if (p && !put_escape(x, &b, &at, end)) return false;
        }
        if (!plait_tpl_finish(&b, &v)) return false;
    } else if (!plait_tpl_str_borrow(x->r, x->text + at, end - at, 0, &v)) {
        return false;
    }
    if (!add_token(x, PLAIT_TPL_T_STRING, v)) return false;
    move_to(x, end + 1);
    return true;
}

/* End of a name at `at`, or `at`: letters, digits, underscores and what Unicode counts with them. */
static size_t scan_name(const plait_tpl_lexer *x, size_t at) {
    size_t p = at;
    while (p < x->n_bytes) {
        uint32_t code = 0;
        size_t used = plait_utf8_decode(x->text + p, x->n_bytes - p, &code);
        if (!used || !plait_tpl_is_word(code) || (p == at && plait_tpl_is_decimal(code))) break;
        p += used;
    }
    return p;
}

/* Brackets are matched here and not in the parser, because "}}" ends a tag only outside of them. Two-character
 * operators are tried first, since each begins with a character that is an operator alone. The stack of closers has a
 * fixed size; its 256 brackets are more than the parser's default depth lets nest. */
static bool add_operator(plait_tpl_lexer *x) {
    static const char *const twos[] = {"//", "**", "==", "!=", ">=", "<="};
    char c = x->text[x->at], op[3] = {c, 0, 0};
    size_t n = 1;
    for (size_t i = 0; i < sizeof twos / sizeof *twos; i++)
        if (at_text(x, x->at, twos[i])) op[1] = twos[i][1], n = 2;
    /* Every sign that Jinja knows, also those that no rule of the grammar takes. */
    if (n == 1 && (c == 0 || !strchr("+-/*%~[](){}><=.:|,;", c)))
        return fail_here(x, "an unexpected character");
    if (c == '(' || c == '[' || c == '{') {
        if (x->n_closers == sizeof x->closers)
            return plait_tpl_fail(x->r, PLAIT_LIMIT, "more than %zu open brackets", sizeof x->closers);
        x->closers[x->n_closers++] = c == '(' ? ')' : c == '[' ? ']' : '}';
    } else if (c == ')' || c == ']' || c == '}') {
        if (x->n_closers == 0 || x->closers[--x->n_closers] != c)
            return fail_here(x, "a closing bracket too many");
    }
    if (!add_token(x, PLAIT_TPL_T_OPERATOR, plait_tpl_none())) return false;
    memcpy(x->tokens[x->n_tokens - 1].op, op, sizeof op);
    move_to(x, x->at + n);
    return true;
}

/* Ends the tag when it ends here: sets *done. */
static bool lex_tag_end(plait_tpl_lexer *x, tag_end end, bool *done) {
    char sign = sign_at(x, x->at);
    /* '+' means nothing at the end of an expression, where it is an operator. */
    if (end == END_PRINT && sign == '+') sign = 0;
    size_t at = x->at + (sign != 0);
    *done = x->n_closers == 0 && at_text(x, at, end == END_BLOCK ? "%}" : "}}");
    /* Signs in front of anything else are operators. */
    if (!*done) return true;
    if (!add_token(x, end == END_BLOCK ? PLAIT_TPL_T_BLOCK_END : PLAIT_TPL_T_PRINT_END, plait_tpl_none()))
        return false;
    at += 2;
    if (end == END_BLOCK)
        at = after_block(x, at, sign);
    else if (sign == '-')
        at = skip_space(x, at);
    move_to(x, at);
    return true;
}

/* The order of attempts is Jinja's: float, integer, name, string, operator. A round takes at least one byte or fails.
 * Names with digits in front do not exist, so trying numbers before names loses nothing. White space inside of tags
 * ends tokens and is otherwise void. */
static bool lex_tag(plait_tpl_lexer *x, tag_end end) {
    if (!add_token(x, end == END_BLOCK ? PLAIT_TPL_T_BLOCK_BEGIN : PLAIT_TPL_T_PRINT_BEGIN, plait_tpl_none()))
        return false;
    move_to(x, x->at + 2 + (sign_at(x, x->at + 2) != 0));
    x->n_closers = 0;
    while (x->at < x->n_bytes) {
        bool done;
        if (!lex_tag_end(x, end, &done)) return false;
        if (done) return true;
        size_t next = skip_space(x, x->at);
        if (next > x->at) {
            move_to(x, next);
            continue;
        }
        char c = x->text[x->at];
        size_t stop;
        bool ok;
        if ((stop = scan_float(x, x->at)) > x->at) {
            ok = add_float(x, stop);
        } else if (is_digit(c)) {
            ok = add_integer(x);
        } else if ((stop = scan_name(x, x->at)) > x->at) {
            plait_tpl_value v;
            ok = plait_tpl_str_borrow(x->r, x->text + x->at, stop - x->at, 0, &v) &&
                 add_token(x, PLAIT_TPL_T_NAME, v);
            if (ok) move_to(x, stop);
        } else if (c == '"' || c == '\'') {
            ok = add_string(x);
        } else {
            ok = add_operator(x);
        }
        if (!ok) return false;
    }
    return true; /* the parser says what is missing */
}

/* Position of the next "{%", "{{" or "{#", or the end. A brace alone is text. */
static size_t next_tag(const plait_tpl_lexer *x, size_t at) {
    while (at < x->n_bytes) {
        const char *p = memchr(x->text + at, '{', x->n_bytes - at);
        if (!p) break;
        at = (size_t)(p - x->text);
        if (at + 1 < x->n_bytes && (p[1] == '%' || p[1] == '{' || p[1] == '#')) return at;
        at++;
    }
    return x->n_bytes;
}

/* Text before a tag is cut by that tag's sign; text behind a tag begins where the tag's own end left `at`. A tag's text
 * and the text around are cut by two rules that meet here: what a tag's left sign takes is known only when the tag is
 * found, what its right sign takes is applied by moving `at` before the next text begins. */
static bool lex_all(plait_tpl_lexer *x) {
    while (x->at < x->n_bytes) {
        size_t from = x->at, tag = next_tag(x, from), raw_end = 0;
        bool starting = from == 0 || x->text[from - 1] == '\n';
        if (tag == x->n_bytes) {
            if (!add_text(x, from, tag)) return false;
            move_to(x, tag);
            break;
        }
        char kind = x->text[tag + 1], sign = sign_at(x, tag + 2), raw_sign = 0, raw_before = 0;
        if (!add_text(x, from, cut_before(x, from, tag, sign, kind != '{', starting))) return false;
        move_to(x, tag);
        bool raw =
            kind == '%' && word_tag(x, tag, "raw", &raw_before, &raw_sign, &raw_end) && raw_sign != '+';
        if (!(kind == '#' ? lex_comment(x)
              : raw       ? lex_raw(x, raw_end, raw_sign)
                          : lex_tag(x, kind == '%' ? END_BLOCK : END_PRINT)))
            return false;
    }
    return add_token(x, PLAIT_TPL_T_END, plait_tpl_none());
}

/* A copy with \n as the only line end and without one at the end. As Jinja does with keep_trailing_newline off. Columns
 * in errors count in this copy. A lone \r is a line end too, as universal newlines have it; only one \n at the very end
 * goes. */
static char *normalise(plait_tpl_render *r, const char *text, size_t n_bytes, size_t *out_n) {
    char *copy = plait_tpl_alloc(r, n_bytes + 1, 1);
    if (!copy) return NULL;
    size_t n = 0;
    for (size_t i = 0; i < n_bytes; i++) {
        char c = text[i];
        if (c == '\r') {
            if (i + 1 < n_bytes && text[i + 1] == '\n') continue;
            c = '\n';
        }
        copy[n++] = c;
    }
    if (n > 0 && copy[n - 1] == '\n') n--;
    *out_n = n;
    return copy;
}

/* UTF-8 is checked here once: all that comes later may decode without asking. */
bool plait_tpl_lex(plait_tpl_lexer *x, plait_tpl_render *r, const char *text, size_t n_bytes) {
    *x = (plait_tpl_lexer){.r = r, .line = 1};
    if (!plait_utf8_valid(text, n_bytes))
        return plait_tpl_fail(r, PLAIT_CORRUPT, "the text is not valid UTF-8");
    x->text = normalise(r, text, n_bytes, &x->n_bytes);
    return x->text && lex_all(x);
}
