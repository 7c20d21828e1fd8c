/* wordwrap and urlize. Not here: the other filters of text (filters_text.c). wordwrap follows Python's textwrap: a line
 * is cut into chunks (words, white space, parts ending in a hyphen) which are packed greedily. urlize follows
 * jinja2/utils.py, with its regular expressions written out.
 *
 * Invariant: text that was in the input keeps its marks of origin, and what is added (line ends, tags, rel) has the
 * template's, unless it was given as an argument, whose marks it then has. */
#include "text/template/builtin.h"
#include "text/template/print.h"

#include <string.h>

static bool given(const plait_tpl_call *c, int i) {
    return c->v[i].kind != PLAIT_TPL_MISSING && c->v[i].kind != PLAIT_TPL_NONE;
}

/* One call of wordwrap. `between` stands between lines ("\n" or wrapstring), `width` is at least 1, and positions are
 * bytes of `s`. */
typedef struct wrapper {
    plait_tpl_render *r;
    plait_tpl_builder b;
    const plait_tpl_str *s, *between;
    int64_t width;
    bool break_long, on_hyphens;
    size_t n_lines; /* lines of the current input line so far */
} wrapper;

/* textwrap's own idea of white space: ASCII only. */
static bool is_blank(uint32_t c) {
    return c == ' ' || (c >= 9 && c <= 13);
}

/* The class [^\d\W_] of textwrap. */
static bool is_letter(uint32_t c) {
    return plait_tpl_is_word(c) && !plait_tpl_is_decimal(c) && c != '_';
}

/* End of the chunk that starts at `at`: white space, or a word, cut behind a hyphen between letters and around dashes
 * of two and more. Never `at` itself when at < to, so callers move on. textwrap's wordsep_re, written out: the
 * expression looks behind and ahead, which here are `last` and `before_last`, and the one or two characters read in
 * front of `next`. The word before a cut keeps its hyphen. */
static size_t chunk_end(const wrapper *w, size_t at, size_t to) {
    const plait_tpl_str *s = w->s;
    size_t p = at, next = at;
    bool blank = is_blank(plait_tpl_str_next(s, &next));
    if (w->on_hyphens && !blank && s->bytes[at] == '-') { /* a dash between words stands alone */
        size_t end = at, before = at;
        while (end < to && s->bytes[end] == '-') end++;
        /* Outside of the text there is a space. */
        uint32_t previous = at > 0 ? plait_tpl_str_prev(s, &before) : ' ', following = ' ';
        size_t look = end;
        if (end < to) following = plait_tpl_str_next(s, &look);
        if (end - at >= 2 && plait_tpl_is_word(following) &&
            (plait_tpl_is_word(previous) ||
             (previous && strchr("!\"'&.,?", (int)(previous < 0x80 ? previous : 1)))))
            return end;
    }
    uint32_t last = 0, before_last = 0;
    while (p < to) {
        next = p;
        uint32_t code = plait_tpl_str_next(s, &next);
        if (is_blank(code) != blank) break;
        if (!blank && w->on_hyphens && code == '-' && p > at) {
            size_t after = next, after2 = next;
            uint32_t a = after < to ? plait_tpl_str_next(s, &after) : ' ';
            after2 = after;
            uint32_t b = after < to ? plait_tpl_str_next(s, &after2) : ' ';
            /* Both sides need two letters, or a letter and a hyphen: "e-mail" is not cut and "well-known" is. */
            bool two_before = is_letter(last) && (is_letter(before_last) || before_last == '-');
            bool two_after = is_letter(a) && (is_letter(b) || b == '-');
            if (a == '-' &&
                (plait_tpl_is_word(last) || (last < 0x80 && last && strchr("!\"'&.,?", (int)last)))) {
                /* The dash of two or more between words begins a chunk of its own, so this one ends in front of it. */
                size_t end = next;
                while (end < to && s->bytes[end] == '-') end++;
                size_t look = end;
                if (end < to && plait_tpl_is_word(plait_tpl_str_next(s, &look))) return p;
            } else if (two_before && two_after) {
                return next;
            }
        }
        before_last = last;
        last = code;
        p = next;
    }
    return p;
}

/* Linear in text beyond ASCII, which is why wrap_line charges for it. */
static int64_t chars_in(const plait_tpl_str *s, size_t from, size_t to) {
    return (int64_t)(plait_tpl_str_char_of(s, to) - plait_tpl_str_char_of(s, from));
}

/* Between lines, not behind the last. */
static void new_line(wrapper *w) {
    if (w->n_lines++) plait_tpl_put_str(&w->b, w->between);
}

/* Part of a chunk that is longer than a whole line and fits into `space` characters. At least one character, so that a
 * width of 1 makes progress. `space` is what the line still has; `from` is the start of the chunk. A hyphen within the
 * space is preferred, as textwrap has it; the second loop looks for it. */
static size_t long_chunk_cut(const wrapper *w, size_t from, size_t to, int64_t space) {
    size_t cut = from;
    if (space < 1) space = 1;
    for (int64_t i = 0; i < space && cut < to; i++) plait_tpl_str_next(w->s, &cut);
    if (!w->on_hyphens || chars_in(w->s, from, to) <= space) return cut;
    for (size_t p = cut; p > from; p--) { /* behind the last hyphen that has something else before it */
        if (w->s->bytes[p - 1] != '-') continue;
        for (size_t q = from; q < p - 1; q++)
            if (w->s->bytes[q] != '-') return p;
        break;
    }
    return cut;
}

/* Packs the chunks of bytes [from, to) into lines. The first chunk of a line is taken even when it is longer than the
 * width and may not be broken: otherwise nothing would move. Chunks are found twice at a line's border, once to measure
 * and once to begin; their lengths are bounded by the line's. */
static bool wrap_line(wrapper *w, size_t from, size_t to) {
    const plait_tpl_str *s = w->s;
    w->n_lines = 0;
    while (from < to) {
        size_t end = chunk_end(w, from, to), line_from, line_to, next = from;
        /* Not on the first line, whose indent stays. */
        if (w->n_lines && is_blank(plait_tpl_str_next(s, &next)))
            from = end; /* no white space at the start of a line */
        line_from = line_to = from;
        int64_t used = 0;
        while (line_to < to) {
            end = chunk_end(w, line_to, to);
            int64_t n = chars_in(s, line_to, end);
            if (!plait_tpl_step(w->r, 1 + (s->n_chars == s->n_bytes ? 0 : (uint64_t)s->n_bytes >> 6)))
                return false;
            if (used + n > w->width) {
                /* Longer than any line: as much of it as this line still takes. */
                if (n > w->width && w->break_long)
                    line_to = long_chunk_cut(w, line_to, end, w->width - used);
                else if (n > w->width && line_to == line_from)
                    line_to = end;
                break;
            }
            used += n;
            line_to = end;
        }
        /* White space at the end of a line goes, and a line of nothing else is dropped. */
        size_t trimmed = line_to;
        while (trimmed > line_from && is_blank((unsigned char)s->bytes[trimmed - 1])) trimmed--;
        if (trimmed > line_from) {
            new_line(w);
            plait_tpl_put_slice(&w->b, s, line_from, trimmed);
        }
        if (line_to == from && from < to) line_to = end; /* never stand still */
        from = line_to;
        if (w->b.failed) return false;
    }
    return true;
}

/* Every line of the input is wrapped alone, so existing line ends stay. */
static bool filter_wordwrap(plait_tpl_render *r, const plait_tpl_call *c, plait_tpl_value *out) {
    wrapper w = {.r = r, .width = 79};
    plait_tpl_value newline;
    if (!plait_tpl_as_str(r, c->self, "wordwrap", &w.s) || !plait_tpl_str_text(r, "\n", &newline))
        return false;
    w.between = newline.u.string;
    if (c->v[0].kind != PLAIT_TPL_MISSING && !plait_tpl_as_int(r, c->v[0], "wordwrap", &w.width))
        return false;
    if (given(c, 2) && !plait_tpl_as_str(r, c->v[2], "wordwrap", &w.between)) return false;
    if (w.width <= 0) return plait_tpl_type_error(r, "wordwrap: the width must be above 0");
    /* Both are on unless switched off. */
    w.break_long = c->v[1].kind == PLAIT_TPL_MISSING || plait_tpl_truth(c->v[1]);
    w.on_hyphens = c->v[3].kind == PLAIT_TPL_MISSING || plait_tpl_truth(c->v[3]);
    plait_tpl_builder_init(&w.b, r);
    /* str.splitlines, so a line end at the very end does not give one more line. */
    for (size_t at = 0, next = 0; at < w.s->n_bytes; at = next) {
        size_t end = plait_tpl_str_line_end(w.s, at, &next);
        if (at > 0) plait_tpl_put_str(&w.b, w.between);
        if (!wrap_line(&w, at, end)) return false;
    }
    return plait_tpl_finish(&w.b, out);
}

/* --- urlize --- */

/* One call of urlize. rel and target are escaped already; schemes holds strings only, or is NULL. */
typedef struct links {
    plait_tpl_render *r;
    plait_tpl_builder b;
    uint8_t foreign;
    int64_t trim; /* longest text of a link, or -1 */
    const plait_tpl_str *rel, *target;
    const plait_tpl_list *schemes;
} links;

/* `with` is compared as it is written; bytes behind `to` are not looked at. */
static bool begins(const plait_tpl_str *s, size_t from, size_t to, const char *with) {
    size_t n = strlen(with);
    return to - from >= n && memcmp(s->bytes + from, with, n) == 0;
}

/* `with` is ASCII in lower case. Only letters are folded: the bit that tells their cases apart also makes ':' and '/' of
 * control characters. */
static bool begins_any_case(const plait_tpl_str *s, size_t from, size_t to, const char *with) {
    for (; *with; with++, from++) {
        if (from >= to) return false;
        char c = s->bytes[from];
        if (c >= 'A' && c <= 'Z') c = (char)(c | 0x20);
        if (c != *with) return false;
    }
    return true;
}

/* Length of a host name "a.b.tld" at `from`: labels of word characters, '%' and '-', the last of letters. With `bare`
 * the last label must be one of the old generic domains. Returns the end, or `from` when there is no such name.
 * `labels` counts the dots passed. A top level of an internationalised name is written "xn--...", which has digits and
 * hyphens and so needs its own way. */
static size_t host_end(const plait_tpl_str *s, size_t from, size_t to, bool bare) {
    static const char *const generic[] = {"com", "net", "int", "edu", "gov", "org", "info", "mil"};
    size_t at = from, label = from, labels = 0;
    while (at < to) {
        size_t next = at;
        uint32_t code = plait_tpl_str_next(s, &next);
        /* Empty labels end nothing and start nothing: "a..b" is no host. */
        if (code == '.' && at > label && (!bare || (at - label >= 2 && at - label <= 63))) {
            label = next;
            labels++;
        } else if (!plait_tpl_is_word(code) && code != '%' && code != '-') {
            break;
        }
        at = next;
    }
    if (at == label) return from;
    if (bare) {
        for (size_t i = 0; labels && i < sizeof generic / sizeof *generic; i++)
            if (strlen(generic[i]) == at - label && begins_any_case(s, label, at, generic[i])) return at;
        return from;
    }
    for (size_t i = label; i < at; i++)
        if ((s->bytes[i] | 0x20) < 'a' || (s->bytes[i] | 0x20) > 'z')
            return labels && begins_any_case(s, label, at, "xn--") ? at : from;
    return at - label >= 2 && at - label <= 63 ? at : from;
}

/* a.b.c.d behind a scheme. */
static size_t ipv4_end(const plait_tpl_str *s, size_t from, size_t to) {
    size_t at = from;
    /* Up to three digits each; whether a number is below 256 is not asked, as Jinja does not. */
    for (int part = 0; part < 4; part++) {
        size_t digits = 0;
        if (part && (at >= to || s->bytes[at++] != '.')) return from;
        while (at < to && digits < 3 && s->bytes[at] >= '0' && s->bytes[at] <= '9') at++, digits++;
        if (!digits) return from;
    }
    return at;
}

/* Whether bytes [from, to) are a web address as jinja2's urlize sees one. */
static bool is_url(const plait_tpl_str *s, size_t from, size_t to) {
    size_t scheme = begins_any_case(s, from, to, "https://")  ? 8
                    : begins_any_case(s, from, to, "http://") ? 7
                    : begins_any_case(s, from, to, "www.")    ? 4
                                                              : 0;
    size_t host = from + scheme, at = scheme ? host_end(s, host, to, false) : host_end(s, host, to, true);
    if (at == host && scheme > 4) at = ipv4_end(s, host, to);
    if (at == host) return false;
    if (at < to && s->bytes[at] == ':') {
        size_t digits = at + 1;
        while (digits < to && s->bytes[digits] >= '0' && s->bytes[digits] <= '9') digits++;
        /* One to five digits of a port. */
        if (digits == at + 1 || digits > at + 6) return false;
        at = digits;
    }
    /* What follows the host is taken as it is. */
    return at == to || s->bytes[at] == '/' || s->bytes[at] == '?' || s->bytes[at] == '#';
}

/* Something in front of the last @, and behind it labels of word characters with a dot before the last one, as Jinja's
 * pattern asks. Whether a top level exists is not asked. The address may hold anything before the @, since the word was
 * cut at white space and punctuation before. */
static bool is_mail(const plait_tpl_str *s, size_t from, size_t to) {
    size_t at = to;
    while (at > from && s->bytes[at - 1] != '@') at--;
    /* No @, or nothing in front of it. */
    if (at <= from + 1) return false;
    size_t dot = 0, next = at;
    if (at >= to || !plait_tpl_is_word(plait_tpl_str_next(s, &next))) return false;
    for (size_t p = next; p < to;) {
        size_t q = p;
        uint32_t code = plait_tpl_str_next(s, &q);
        if (code == '.')
            dot = q;
        else if (!plait_tpl_is_word(code) && code != '-')
            return false;
        /* Jinja's pattern allows hyphens before the last dot only. */
        else if (code == '-')
            dot = 0;
        p = q;
    }
    return dot && dot < to;
}

/* The text of the link is cut to `trim` characters, for mail never. Bytes of the address keep their marks, the tags
 * around are the template's. */
static void put_link(links *l, const plait_tpl_str *s, size_t from, size_t to, const char *prefix,
                     size_t text_from, bool mail) {
    plait_tpl_put_text(&l->b, "<a href=\"", 0);
    plait_tpl_put_text(&l->b, prefix, 0);
    plait_tpl_put_slice(&l->b, s, from, to);
    plait_tpl_put_text(&l->b, "\"", 0);
    if (!mail && l->rel) {
        plait_tpl_put_text(&l->b, " rel=\"", 0);
        plait_tpl_put_str(&l->b, l->rel);
        plait_tpl_put_text(&l->b, "\"", 0);
    }
    if (!mail && l->target) {
        plait_tpl_put_text(&l->b, " target=\"", 0);
        plait_tpl_put_str(&l->b, l->target);
        plait_tpl_put_text(&l->b, "\"", 0);
    }
    plait_tpl_put_text(&l->b, ">", 0);
    size_t end = text_from;
    for (int64_t i = 0; end < to && (mail || l->trim < 0 || i < l->trim); i++) plait_tpl_str_next(s, &end);
    plait_tpl_put_slice(&l->b, s, text_from, end);
    if (end < to) plait_tpl_put_text(&l->b, "...", 0);
    plait_tpl_put_text(&l->b, "</a>", 0);
}

/* A word without its brackets and punctuation: web address, mail, or one of the caller's schemes, tried in this order;
 * else it stays text. */
static void put_middle(links *l, const plait_tpl_str *s, size_t from, size_t to) {
    bool at_sign = from < to && memchr(s->bytes + from, '@', to - from);
    if (is_url(s, from, to)) {
        /* With the case as written, as Jinja asks here: HTTP:// gets a scheme in front. */
        bool full = begins(s, from, to, "https://") || begins(s, from, to, "http://");
        put_link(l, s, from, to, full ? "" : "https://", from, false);
        return;
    }
    if (begins(s, from, to, "mailto:") && is_mail(s, from + 7, to)) {
        put_link(l, s, from, to, "", from + 7, true);
        return;
    }
    if (at_sign && !begins(s, from, to, "www.") && s->bytes[from] != '@' &&
        !memchr(s->bytes + from, ':', to - from) && is_mail(s, from, to)) {
        put_link(l, s, from, to, "mailto:", from, true);
        return;
    }
    for (size_t i = 0; l->schemes && i < l->schemes->n_items; i++) {
        const plait_tpl_str *scheme = l->schemes->items[i].u.string;
        if (to - from > scheme->n_bytes && memcmp(s->bytes + from, scheme->bytes, scheme->n_bytes) == 0) {
            int64_t trim = l->trim;
            /* Links of extra schemes are not cut. */
            l->trim = -1;
            put_link(l, s, from, to, "", from, false);
            l->trim = trim;
            return;
        }
    }
    plait_tpl_put_slice(&l->b, s, from, to);
}

/* Overlapping ones count twice; none of the signs looked for can overlap. */
static size_t count_of(const plait_tpl_str *s, size_t from, size_t to, const char *what) {
    size_t n = 0, k = strlen(what);
    for (; from + k <= to; from++) n += memcmp(s->bytes + from, what, k) == 0;
    return n;
}

/* One word: brackets in front and punctuation behind do not belong to an address, unless they balance inside it. The
 * counts follow Jinja, which compares the brackets in the middle with each other and takes as many closing ones back
 * from the tail as open ones are without partner. Each word is charged by its length, because the counting is linear in
 * it. */
static bool put_word(links *l, const plait_tpl_str *s, size_t from, size_t to) {
    static const char *const pairs[3][2] = {{"(", ")"}, {"<", ">"}, {"&lt;", "&gt;"}};
    size_t head = from, tail = to;
    while (head < to && (s->bytes[head] == '(' || s->bytes[head] == '<' || begins(s, head, to, "&lt;")))
        head += s->bytes[head] == '&' ? 4 : 1;
    while (tail > head) {
        char ch = s->bytes[tail - 1];
        if (tail >= head + 4 && begins(s, tail - 4, to, "&gt;"))
            tail -= 4;
        else if (ch == ')' || ch == '>' || ch == '.' || ch == ',')
            tail--;
        else
            break;
    }
    /* The bracket that closes one inside of the address comes back to it. */
    for (int i = 0; i < 3; i++) {
        size_t open = count_of(s, head, tail, pairs[i][0]), closed = count_of(s, head, tail, pairs[i][1]);
        size_t n = open <= closed ? 0 : open, k = strlen(pairs[i][1]),
               in_tail = count_of(s, tail, to, pairs[i][1]);
        if (n > in_tail) n = in_tail;
        for (; n > 0; n--) {
            while (!begins(s, tail, to, pairs[i][1])) tail++;
            tail += k;
        }
    }
    plait_tpl_put_slice(&l->b, s, from, head);
    put_middle(l, s, head, tail);
    plait_tpl_put_slice(&l->b, s, tail, to);
    return !l->b.failed && plait_tpl_step(l->r, 1 + ((to - from) >> 4));
}

/* rel of a link: "noopener", with "nofollow" and the caller's words, sorted. The words are put through the filters
 * split, unique, sort and join themselves, so their order and case rules cannot drift apart from those a template sees.
 * `sensitive` keeps words that differ by case apart. */
static bool link_rel(plait_tpl_render *r, const plait_tpl_call *c, const plait_tpl_str **out) {
    static const plait_tpl_str noopener = {.bytes = "noopener", .n_bytes = 8, .n_chars = 8},
                               nofollow = {.bytes = "nofollow", .n_bytes = 8, .n_chars = 8},
                               split = {.bytes = "split", .n_bytes = 5},
                               unique = {.bytes = "unique", .n_bytes = 6},
                               sort = {.bytes = "sort", .n_bytes = 4}, join = {.bytes = "join", .n_bytes = 4},
                               space = {.bytes = " ", .n_bytes = 1, .n_chars = 1};
    plait_tpl_args none = {0};
    plait_tpl_value words, separator = plait_tpl_string(&space), yes = plait_tpl_bool(true);
    const plait_tpl_str *name_sensitive = &(const plait_tpl_str){.bytes = "case_sensitive", .n_bytes = 14};
    plait_tpl_args sensitive = {.names = &name_sensitive, .named = &yes, .n_named = 1},
                   by_space = {.pos = &separator, .n_pos = 1};
    if (!plait_tpl_list_new(r, PLAIT_TPL_LIST, 2, &words)) return false;
    if (given(c, 3) &&
        (c->v[3].kind != PLAIT_TPL_STRING ||
         !plait_tpl_apply(r, plait_tpl_find_method(PLAIT_TPL_STRING, &split), c->v[3], &none, &words)))
        return plait_tpl_type_error(r, "urlize: rel must be a string");
    /* Jinja's policy adds noopener always and nofollow when asked. */
    if (c->v[1].kind != PLAIT_TPL_MISSING && plait_tpl_truth(c->v[1]) &&
        !plait_tpl_list_push(r, words.u.list, plait_tpl_string(&nofollow)))
        return false;
    if (!plait_tpl_list_push(r, words.u.list, plait_tpl_string(&noopener))) return false;
    if (!plait_tpl_apply(r, plait_tpl_find_filter(&unique), words, &sensitive, &words) ||
        !plait_tpl_apply(r, plait_tpl_find_filter(&sort), words, &sensitive, &words) ||
        !plait_tpl_apply(r, plait_tpl_find_filter(&join), words, &by_space, &words) ||
        !plait_tpl_str_escape(r, words.u.string, &words))
        return false;
    *out = words.u.string;
    return true;
}

/* Escapes first, so links are found in text in which < is "&lt;". Runs of white space separate words and stay as they
 * are. */
static bool filter_urlize(plait_tpl_render *r, const plait_tpl_call *c, plait_tpl_value *out) {
    links l = {.r = r, .trim = -1};
    const plait_tpl_str *s;
    plait_tpl_value escaped, target;
    if (!plait_tpl_to_str(r, c->self, &s) || !plait_tpl_str_escape(r, s, &escaped) || !link_rel(r, c, &l.rel))
        return false;
    s = escaped.u.string;
    if (given(c, 0) && !plait_tpl_as_int(r, c->v[0], "urlize", &l.trim)) return false;
    if (l.trim < 0) l.trim = -1;
    if (given(c, 2)) {
        if (!plait_tpl_as_str(r, c->v[2], "urlize", &l.target) || !plait_tpl_str_escape(r, l.target, &target))
            return false;
        l.target = target.u.string;
    }
    if (given(c, 4)) {
        plait_tpl_value schemes;
        const plait_tpl_str *scheme;
        if (!plait_tpl_list_from(r, c->v[4], &schemes)) return false;
        l.schemes = schemes.u.list;
        /* put_middle relies on strings. */
        for (size_t i = 0; i < l.schemes->n_items; i++)
            if (!plait_tpl_as_str(r, l.schemes->items[i], "urlize", &scheme)) return false;
    }
    plait_tpl_builder_init(&l.b, r);
    for (size_t at = 0; at < s->n_bytes;) {
        size_t end = at;
        bool space = false;
        for (size_t next = at; next < s->n_bytes; end = next) {
            bool is = plait_tpl_is_space(plait_tpl_str_next(s, &next));
            if (end > at && is != space) break;
            space = is;
        }
        if (space)
            plait_tpl_put_slice(&l.b, s, at, end);
        else if (!put_word(&l, s, at, end))
            return false;
        at = end;
    }
    return plait_tpl_finish(&l.b, out);
}

const plait_tpl_builtin plait_tpl_filters_wrap[] = {
    {"wordwrap", "?width ?break_long_words ?wrapstring ?break_on_hyphens", filter_wordwrap},
    {"urlize", "?trim_url_limit ?nofollow ?target ?rel ?extra_schemes", filter_urlize},
    {0},
};
