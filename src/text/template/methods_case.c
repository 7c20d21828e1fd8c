/* Methods of strings about letter case and kinds of characters. Not here: the tables (unicode_tables.h) and the mapping
 * of one character (string.c).
 *
 * Rules are those of Python's str with the Unicode version of the tables. Work is charged as one step for every 64
 * bytes, after or before it: it is linear and small. */
#include "text/template/builtin.h"
#include "text/template/print.h"

static const plait_tpl_str *self(const plait_tpl_call *c) {
    return c->self.u.string;
}

static bool method_upper(plait_tpl_render *r, const plait_tpl_call *c, plait_tpl_value *out) {
    return plait_tpl_str_case(r, self(c), PLAIT_TPL_UPPER, out);
}

static bool method_lower(plait_tpl_render *r, const plait_tpl_call *c, plait_tpl_value *out) {
    return plait_tpl_str_case(r, self(c), PLAIT_TPL_LOWER, out);
}

static bool method_casefold(plait_tpl_render *r, const plait_tpl_call *c, plait_tpl_value *out) {
    return plait_tpl_str_case(r, self(c), PLAIT_TPL_FOLD, out);
}

/* Markup stays markup, as all methods of Markup do; the step pays for the walk that the caller made. The builder holds
 * the mapped text; one character may have become three, so the length is not that of the input. */
static bool finish_like_self(plait_tpl_render *r, const plait_tpl_call *c, plait_tpl_builder *b,
                             plait_tpl_value *out) {
    const plait_tpl_str *whole;
    return plait_tpl_step(r, self(c)->n_bytes >> 6) && plait_tpl_finish_str(b, &whole) &&
           plait_tpl_str_with_markup(r, whole, self(c)->markup, out);
}

/* Title case for the first character, since Python 3.8; one character may become several. */
static bool method_capitalize(plait_tpl_render *r, const plait_tpl_call *c, plait_tpl_value *out) {
    plait_tpl_builder b;
    plait_tpl_builder_init(&b, r);
    for (size_t at = 0; at < self(c)->n_bytes && !b.failed;)
        at = plait_tpl_put_case(&b, self(c), at, at == 0 ? PLAIT_TPL_TITLE : PLAIT_TPL_LOWER);
    return finish_like_self(r, c, &b, out);
}

/* A word begins behind every character without case, so "it's" becomes "It'S", as in Python. The filter of that name
 * has other rules (filters_text.c). */
static bool method_title(plait_tpl_render *r, const plait_tpl_call *c, plait_tpl_value *out) {
    plait_tpl_builder b;
    bool inside = false;
    plait_tpl_builder_init(&b, r);
    for (size_t at = 0; at < self(c)->n_bytes && !b.failed;) {
        size_t peek = at;
        uint32_t code = plait_tpl_str_next(self(c), &peek);
        at = plait_tpl_put_case(&b, self(c), at, inside ? PLAIT_TPL_LOWER : PLAIT_TPL_TITLE);
        inside = plait_tpl_is_cased(code);
    }
    return finish_like_self(r, c, &b, out);
}

/* Title case characters have neither case here and stay. */
static bool method_swapcase(plait_tpl_render *r, const plait_tpl_call *c, plait_tpl_value *out) {
    plait_tpl_builder b;
    plait_tpl_builder_init(&b, r);
    for (size_t at = 0; at < self(c)->n_bytes && !b.failed;) {
        size_t next = at;
        uint32_t code = plait_tpl_str_next(self(c), &next);
        if (plait_tpl_is_upper(code) || plait_tpl_is_lower(code))
            plait_tpl_put_case(&b, self(c), at, plait_tpl_is_upper(code) ? PLAIT_TPL_LOWER : PLAIT_TPL_UPPER);
        else
            plait_tpl_put_slice(&b, self(c), at, next);
        at = next;
    }
    return finish_like_self(r, c, &b, out);
}

/* Whether every character passes; `empty` is the answer for the empty string, which is true only for isascii and
 * isprintable. The step is charged after the walk, which stops at the first character that fails. */
static bool every(plait_tpl_render *r, const plait_tpl_call *c, bool (*passes)(uint32_t), bool empty,
                  plait_tpl_value *out) {
    bool all = self(c)->n_bytes > 0 || empty;
    for (size_t at = 0; at < self(c)->n_bytes && all;) all = passes(plait_tpl_str_next(self(c), &at));
    *out = plait_tpl_bool(all);
    return plait_tpl_step(r, self(c)->n_bytes >> 6);
}

static bool is_alnum(uint32_t code) {
    return plait_tpl_is_alpha(code) || plait_tpl_is_numeric(code);
}

static bool is_ascii(uint32_t code) {
    return code < 0x80;
}

#define EVERY_METHOD(name, passes, empty)                                                                    \
    static bool method_##name(plait_tpl_render *r, const plait_tpl_call *c, plait_tpl_value *out) {          \
        return every(r, c, passes, empty, out);                                                              \
    }

EVERY_METHOD(isalpha, plait_tpl_is_alpha, false)
EVERY_METHOD(isalnum, is_alnum, false)
EVERY_METHOD(isdecimal, plait_tpl_is_decimal, false)
EVERY_METHOD(isdigit, plait_tpl_is_digit, false)
EVERY_METHOD(isnumeric, plait_tpl_is_numeric, false)
EVERY_METHOD(isspace, plait_tpl_is_space, false)
EVERY_METHOD(isascii, is_ascii, true)
EVERY_METHOD(isprintable, plait_tpl_is_printable, true)

/* Word characters without a number in front. This comes close to Python's XID rules without being them. */
static bool method_isidentifier(plait_tpl_render *r, const plait_tpl_call *c, plait_tpl_value *out) {
    size_t at = 0;
    if (!every(r, c, plait_tpl_is_word, false, out) || !out->u.boolean) return r->status == PLAIT_OK;
    *out = plait_tpl_bool(!plait_tpl_is_numeric(plait_tpl_str_next(self(c), &at)));
    return true;
}

/* islower and isupper have the rules of the tests of those names. `self` is a string here, so the test's own conversion
 * to text gives it back as it is. */
static bool apply_test(plait_tpl_render *r, const plait_tpl_call *c, const char *name, size_t n,
                       plait_tpl_value *out) {
    plait_tpl_str key = {.bytes = name, .n_bytes = n};
    plait_tpl_args none = {0};
    return plait_tpl_apply(r, plait_tpl_find_test(&key), c->self, &none, out);
}

static bool method_isupper(plait_tpl_render *r, const plait_tpl_call *c, plait_tpl_value *out) {
    return apply_test(r, c, "upper", 5, out);
}

static bool method_islower(plait_tpl_render *r, const plait_tpl_call *c, plait_tpl_value *out) {
    return apply_test(r, c, "lower", 5, out);
}

/* Upper case only behind uncased characters, lower case only behind cased ones, and at least one cased character. */
static bool method_istitle(plait_tpl_render *r, const plait_tpl_call *c, plait_tpl_value *out) {
    bool some = false, inside = false, good = true;
    for (size_t at = 0; at < self(c)->n_bytes && good;) {
        uint32_t code = plait_tpl_str_next(self(c), &at);
        bool upper = plait_tpl_is_upper(code) || plait_tpl_is_title(code), lower = plait_tpl_is_lower(code);
        if ((upper && inside) || (lower && !inside)) good = false;
        inside = upper || lower;
        some = some || inside;
    }
    *out = plait_tpl_bool(some && good);
    return plait_tpl_step(r, self(c)->n_bytes >> 6);
}

/* Second column: the parameters, in the notation of builtin.h. */
const plait_tpl_builtin plait_tpl_methods_str_case[] = {
    {"upper", "", method_upper},
    {"lower", "", method_lower},
    {"casefold", "", method_casefold},
    {"capitalize", "", method_capitalize},
    {"title", "", method_title},
    {"swapcase", "", method_swapcase},
    {"isalpha", "", method_isalpha},
    {"isalnum", "", method_isalnum},
    {"isascii", "", method_isascii},
    {"isdecimal", "", method_isdecimal},
    {"isdigit", "", method_isdigit},
    {"isidentifier", "", method_isidentifier},
    {"islower", "", method_islower},
    {"isnumeric", "", method_isnumeric},
    {"isprintable", "", method_isprintable},
    {"isspace", "", method_isspace},
    {"istitle", "", method_istitle},
    {"isupper", "", method_isupper},
    {0},
};
