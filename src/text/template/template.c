/* The public face: compiling, rendering, turning variables into values and marks into segments. Invariant: nothing of
 * a rendering outlives plait_template_render but the output, which is copied out of the arena at the very end.
 *
 * Two arenas: that of the template holds tokens, tree and constants and lives as long as it; that of a rendering holds
 * every value and is released in one go. Nothing points from the first into the second. */
#include "plait/template.h"

#include "base/alloc.h"
#include "base/os.h"
#include "text/json.h"
#include "text/template/eval.h"
#include "text/template/parser.h"
#include "text/template/print.h"

#include <stdlib.h>
#include <string.h>

/* Zero means the default; the numbers are those of plait/template.h. A template comes out of a file from a stranger, so
 * none of them may stay without a bound. */
static plait_template_limits with_defaults(const plait_template_limits *limits) {
    plait_template_limits l = limits ? *limits : (plait_template_limits){0};
    if (!l.source_bytes) l.source_bytes = (size_t)4 << 20;
    if (!l.parse_depth) l.parse_depth = 200;
    if (!l.depth) l.depth = 1000;
    if (!l.steps) l.steps = 200000000;
    if (!l.memory_bytes) l.memory_bytes = (size_t)512 << 20;
    if (!l.output_bytes) l.output_bytes = (size_t)64 << 20;
    if (!l.time_ns) l.time_ns = 30000000000u;
    return l;
}

/* The seed of the hashes comes from clock and address, so keys in a request cannot be chosen to collide. Nothing that
 * is printed depends on it. A time limit beyond what the clock can count to is none. */
static void start(plait_tpl_render *r, const plait_template_limits *limits) {
    uint64_t now = plait_time_ns();
    *r = (plait_tpl_render){.limits = *limits, .line = 1, .column = 1};
    plait_arena_init(&r->arena, limits->memory_bytes);
    r->deadline_ns = limits->time_ns > UINT64_MAX - now ? UINT64_MAX : now + limits->time_ns;
    r->hash_seed = now ^ (uint64_t)(uintptr_t)r * 0x9E3779B97F4A7C15u;
}

/* Compiling uses a render for its arena, limits and errors; the arena then becomes the template's. The constants live
 * there and are only read later. The text may be released afterwards: the lexer works on a copy. */
plait_status plait_template_create(plait_template **out, const char *text, size_t n_bytes,
                                   const plait_template_limits *limits) {
    plait_template_limits l = with_defaults(limits);
    plait_tpl_render r;
    plait_tpl_lexer lexer;
    plait_tpl_node *body = NULL;
    if (n_bytes > l.source_bytes)
        return plait_error(PLAIT_LIMIT, "template: %zu bytes, the limit is %zu", n_bytes, l.source_bytes);
    plait_template *t = plait_alloc_array(1, sizeof *t);
    if (!t) return plait_error_memory("template", sizeof *t);
    start(&r, &l);
    if (plait_tpl_lex(&lexer, &r, text, n_bytes)) body = plait_tpl_parse(&r, lexer.tokens);
    /* Whatever came of it: destroy releases the arena too. */
    t->arena = r.arena;
    t->limits = l;
    t->body = body;
    if (!body) {
        plait_template_destroy(t);
        return r.status;
    }
    *out = t;
    return PLAIT_OK;
}

void plait_template_destroy(plait_template *t) {
    if (!t) return;
    plait_arena_deinit(&t->arena);
    free(t);
}

/* --- variables --- */

static bool convert(plait_tpl_render *r, const plait_json *from, plait_tpl_value *out);

/* Lists and dicts of the variables are foreign: the brackets and commas that print them are not the template's text.
 * The list is made with room for all items before they are converted, so the conversion of an item can fail without
 * moving any. */
static bool convert_array(plait_tpl_render *r, const plait_json *from, plait_tpl_value *out) {
    size_t n = from->u.array.n_items;
    plait_tpl_value list;
    if (!plait_tpl_list_new(r, PLAIT_TPL_LIST, n, &list)) return false;
    list.u.list->foreign = true;
    for (size_t i = 0; i < n; i++)
        if (!convert(r, &from->u.array.items[i], &list.u.list->items[list.u.list->n_items++])) return false;
    *out = list;
    return true;
}

/* Names are foreign too: a template that prints the keys of a message's arguments prints the user's text. Of equal
 * names the last value counts, in the place of the first. */
static bool convert_object(plait_tpl_render *r, const plait_json *from, plait_tpl_value *out) {
    plait_tpl_value dict, key, value;
    if (!plait_tpl_dict_new(r, &dict)) return false;
    dict.u.dict->foreign = true;
    for (size_t i = 0; i < from->u.object.n_members; i++) {
        const plait_json_member *m = &from->u.object.members[i];
        if (!plait_tpl_str_borrow(r, m->name, m->name_bytes, 1, &key) || !convert(r, &m->value, &value) ||
            !plait_tpl_dict_set(r, dict.u.dict, key, value))
            return false;
    }
    *out = dict;
    return true;
}

/* Depth counts against the rendering's limit, so no tree is deeper than what may be walked later. */
static bool convert(plait_tpl_render *r, const plait_json *from, plait_tpl_value *out) {
    bool ok = true;
    if (!plait_tpl_enter(r)) return false;
    switch (from->kind) {
    case PLAIT_JSON_NULL: *out = plait_tpl_none(); break;
    case PLAIT_JSON_BOOL: *out = plait_tpl_bool(from->u.boolean); break;
    case PLAIT_JSON_INTEGER: *out = plait_tpl_int(from->u.integer); break;
    case PLAIT_JSON_REAL: *out = plait_tpl_float(from->u.real); break;
    case PLAIT_JSON_STRING:
        ok = plait_tpl_str_borrow(r, from->u.string.bytes, from->u.string.n_bytes, 1, out);
        break;
    case PLAIT_JSON_ARRAY: ok = convert_array(r, from, out); break;
    case PLAIT_JSON_OBJECT: ok = convert_object(r, from, out); break;
    }
    plait_tpl_leave(r);
    return ok;
}

/* Strings that the caller vouches for count as the template's own text. A name that is not among the variables is
 * passed over. The key is found by its bytes, so setting it replaces the value in place. */
static bool trust(plait_tpl_render *r, const char *const *names) {
    /* Special tokens, which callers take from the model file and not from a conversation. */
    static const char *const usual[] = {"bos_token", "eos_token",  "unk_token", "sep_token",   "pad_token",
                                        "cls_token", "mask_token", "eot_token", "image_token", NULL};
    for (names = names ? names : usual; *names; names++) {
        /* Only strings at the top level: what is inside of messages is never vouched for. */
        const plait_tpl_value *v = plait_tpl_dict_find(r, r->context, *names);
        if (!v || v->kind != PLAIT_TPL_STRING) continue;
        plait_tpl_value own, key;
        if (!plait_tpl_str_borrow(r, v->u.string->bytes, v->u.string->n_bytes, 0, &own) ||
            !plait_tpl_str_borrow(r, *names, strlen(*names), 0, &key) ||
            !plait_tpl_dict_set(r, r->context, key, own))
            return false;
    }
    return r->status == PLAIT_OK;
}

/* Strings are not copied: they point into the JSON tree, which has to stay until the end of the rendering. NULL
 * variables are an empty context. */
static bool load_variables(plait_tpl_render *r, const plait_json *variables, const char *const *trusted) {
    plait_tpl_value context;
    if (!variables) {
        if (!plait_tpl_dict_new(r, &context)) return false;
    } else if (variables->kind != PLAIT_JSON_OBJECT) {
        r->status =
            plait_error(PLAIT_INVALID_ARGUMENT, "template variables: expected a JSON object, found %s",
                        plait_json_kind_name(variables->kind));
        return false;
    } else if (!convert(r, variables, &context)) {
        return false;
    }
    r->context = context.u.dict;
    return trust(r, trusted);
}

/* --- output --- */

/* Neighbouring bytes of one origin are one segment; without marks all bytes have the same. */
static size_t count_segments(const plait_tpl_chunk *c) {
    /* Without marks all bytes have the origin of the chunk. */
    if (c->used == 0) return 0;
    size_t n = 1;
    for (size_t i = 1; c->marks && i < c->used; i++) n += c->marks[i] != c->marks[i - 1];
    return n;
}

/* *out is written only when all of it is there. */
static plait_status give_output(const plait_tpl_chunk *c, plait_template_output *out) {
    size_t n = count_segments(c), k = 0;
    char *text = plait_string_copy_n(c->bytes ? c->bytes : "", c->used);
    plait_template_segment *segments = plait_alloc_array(n, sizeof *segments);
    if (!text || !segments) {
        free(text);
        free(segments);
        return plait_error_memory("output of a template", c->used + 1 + n * sizeof *segments);
    }
    for (size_t i = 0; i < c->used;) {
        uint8_t mark = c->marks ? c->marks[i] : c->foreign;
        size_t from = i;
        while (i < c->used && (c->marks ? c->marks[i] : c->foreign) == mark) i++;
        segments[k++] =
            (plait_template_segment){.offset_bytes = from, .n_bytes = i - from, .from_template = !mark};
    }
    out->text = text;
    out->n_bytes = c->used;
    out->segments = segments;
    out->n_segments = n;
    return PLAIT_OK;
}

/* Everything of a rendering is local, so threads may render one template at once. Returns what happened first. The
 * frame of the top level lies on this stack: macros may keep it, but none outlives the rendering. */
static plait_status render(const plait_template *t, const plait_template_input *input,
                           const plait_json *variables, plait_template_output *out) {
    plait_tpl_render r;
    plait_tpl_builder text;
    plait_tpl_frame root = {0};
    start(&r, &t->limits);
    plait_tpl_builder_init(&text, &r);
    text.max_bytes = t->limits.output_bytes;
    r.out = &text;
    r.root = &root;
    r.now = input->now;
    r.random_state = input->seed;
    r.raised = out;
    bool done = load_variables(&r, variables, input->trusted) && plait_tpl_execute(&r, t->body);
    if (done && r.status == PLAIT_OK) r.status = give_output(&text.chunk, out);
    /* The message of a failure was copied when it was recorded. */
    plait_arena_deinit(&r.arena);
    return r.status;
}

/* *out may be deinitialised after any result; after a failure only `raised` may be set. Variables come as a tree or as
 * text; the tree wins. It is read only, and strings of the output are copies. */
plait_status plait_template_render(const plait_template *t, const plait_template_input *input,
                                   plait_template_output *out) {
    plait_template_input none = {0};
    plait_json_document document = {0};
    *out = (plait_template_output){0};
    if (!input) input = &none;
    /* Checked even where the template never asks for the time. */
    if (input->now) PLAIT_TRY(plait_tpl_check_now(input->now));
    const plait_json *variables = input->variables;
    if (!variables && input->variables_json) {
        plait_status status =
            plait_json_parse(&document, input->variables_json, input->variables_bytes, NULL);
        if (status != PLAIT_OK) return plait_error_context(status, "template variables");
        variables = document.root;
    }
    plait_status status = render(t, input, variables, out);
    plait_json_document_deinit(&document);
    return status;
}

void plait_template_output_deinit(plait_template_output *out) {
    free(out->text);
    free(out->segments);
    free(out->raised);
    *out = (plait_template_output){0};
}
