/* Device lists: cutting the text, asking the kinds, putting the answers in order. Not here: what options of an item
 * mean (each kind's own), and creating devices.
 *
 * Invariant: items come out in the order of the list, those of one source in the order in which their kind gave them,
 * whichever kind was asked first. */
#include "device/list.h"

#include "base/alloc.h"
#include "base/strbuf.h"
#include "plait/device.h"

#include <stdlib.h>
#include <string.h>

/* What a kind may make of one item, in bytes of text. */
enum { MAX_LIST_BYTES = 1 << 16 };

void plait_device_list_deinit(plait_device_list *list) {
    for (int i = 0; i < list->n_items; i++) free(list->items[i].text);
    free(list->items);
    *list = (plait_device_list){0};
}

/* Takes the text over, also when it fails; NULL is what a copy gave that found no memory. */
static plait_status add(plait_device_list *list, int source, char *text) {
    plait_status status = text ? PLAIT_OK : plait_error_memory("device list", 0);
    if (status == PLAIT_OK && list->n_items == PLAIT_MAX_DEVICES)
        status = plait_error(PLAIT_INVALID_ARGUMENT, "device list: more than %d devices", PLAIT_MAX_DEVICES);
    if (status == PLAIT_OK)
        status = plait_grow(&list->items, &list->capacity, (size_t)list->n_items + 1, sizeof *list->items,
                            PLAIT_MAX_DEVICES, "device list");
    if (status == PLAIT_OK)
        list->items[list->n_items++] = (plait_device_item){source, text};
    else
        free(text);
    return status;
}

/* ---- cutting ---- */

/* One item for each piece between commas. A text that is empty or ends with a comma has an empty item, which is an
 * error: silently fewer devices would be another placement. */
static plait_status cut(const char *text, plait_device_list *out) {
    for (const char *p = text;; p++) {
        size_t n = strcspn(p, ",");
        if (n == 0)
            return plait_error(PLAIT_INVALID_ARGUMENT, "device list \"%.200s\": an item is empty", text);
        PLAIT_TRY(add(out, out->n_items, plait_string_copy_n(p, n)));
        p += n;
        if (!*p) return PLAIT_OK;
    }
}

static size_t kind_length(const plait_device_item *item) {
    return strcspn(item->text, ":");
}

/* By the text in front of ':': also of kinds that nobody knows, which then are passed on together. */
static bool same_kind(const plait_device_item *a, const plait_device_item *b) {
    size_t n = kind_length(a);
    return n == kind_length(b) && memcmp(a->text, b->text, n) == 0;
}

/* What stands behind "kind:". */
static const char *options_of(const plait_device_item *item) {
    const char *colon = strchr(item->text, ':');
    return colon ? colon + 1 : "";
}

/* ---- asking the kinds ---- */

typedef struct asked {
    plait_device_list *out;
    const char *kind;
    int sources[PLAIT_MAX_DEVICES]; /* of the items that the kind sees */
    int n;
} asked;

/* The sink that a kind's expand calls, for a device that its item number `item` becomes (of those that it was shown,
 * hence `sources`). The kind is put in front of the options again. What a kind of a library says is not trusted: a
 * number out of range is its error, not a write beside the array. */
static plait_status take_item(void *user, int item, const char *options) {
    asked *a = user;
    plait_strbuf text;
    if (item < 0 || item >= a->n)
        return plait_error(PLAIT_INVALID_ARGUMENT, "device kind %s: made something of item %d of %d", a->kind,
                           item, a->n);
    plait_strbuf_init(&text, MAX_LIST_BYTES);
    plait_strbuf_append(&text, a->kind);
    if (options[0]) plait_strbuf_printf(&text, ":%s", options);
    plait_status status = plait_strbuf_status(&text);
    if (status == PLAIT_OK) status = add(a->out, a->sources[item], plait_strbuf_take(&text));
    plait_strbuf_deinit(&text);
    return status;
}

/* Adds what becomes of all items of the kind of item `first`, which is the first of its kind. A kind sees all its items
 * at once, since shares are relative: three cpu items divide the processors between the three. A kind that is unknown,
 * or whose name is longer than any kind's may be, is passed on as it is. */
static plait_status ask(const plait_device_list *in, int first, int threads, plait_device_list *out) {
    const char *options[PLAIT_MAX_DEVICES];
    char kind[sizeof((plait_device_info *)0)->kind];
    size_t n = kind_length(&in->items[first]);
    const plait_device_vtable *vtable = NULL;
    if (n < sizeof kind) {
        memcpy(kind, in->items[first].text, n);
        kind[n] = '\0';
        vtable = plait_device_kind(kind);
    }
    asked a = {.out = out, .kind = kind};
    for (int i = first; i < in->n_items; i++) {
        if (!same_kind(&in->items[i], &in->items[first])) continue;
        options[a.n] = options_of(&in->items[i]);
        a.sources[a.n++] = i;
        /* The one who creates it says what is known instead. */
        if (!vtable) PLAIT_TRY(add(out, i, plait_string_copy(in->items[i].text)));
    }
    if (!vtable) return PLAIT_OK;
    return plait_error_context(vtable->expand(options, a.n, threads, take_item, &a), "device %s", kind);
}

/* By insertion: stable, and lists are short. */
static void sort_by_source(plait_device_list *list) {
    for (int i = 1; i < list->n_items; i++) {
        plait_device_item item = list->items[i];
        int k = i;
        for (; k > 0 && list->items[k - 1].source > item.source; k--) list->items[k] = list->items[k - 1];
        list->items[k] = item;
    }
}

/* Kinds are asked in the order of their first items, each once. Quadratic in items, of which there are at most 64. */
plait_status plait_device_list_parse(const char *text, int threads, plait_device_list *out) {
    plait_device_list in = {0}, list = {0};
    plait_status status = cut(text, &in);
    for (int i = 0; status == PLAIT_OK && i < in.n_items; i++) {
        bool first = true;
        for (int k = 0; k < i; k++) first = first && !same_kind(&in.items[k], &in.items[i]);
        if (first) status = ask(&in, i, threads, &list);
    }
    plait_device_list_deinit(&in);
    if (status != PLAIT_OK) {
        plait_device_list_deinit(&list);
        return status;
    }
    sort_by_source(&list);
    *out = list;
    return PLAIT_OK;
}
