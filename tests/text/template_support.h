/* Shared by the tests of templates: reading a golden folder, rendering to text. Includes cmocka's asserts. */
#ifndef PLAIT_TESTS_TEXT_TEMPLATE_SUPPORT_H
#define PLAIT_TESTS_TEXT_TEMPLATE_SUPPORT_H

#include "base/os.h"
#include "plait/template.h"
#include "support/paths.h"
#include "text/json.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdbool.h>
#include <string.h>

#include <cmocka.h>

/* Reads a JSON file; the test fails when that does not work. */
static inline void read_json(const char *path, plait_json_document *out) {
    plait_file file;
    assert_int_equal(plait_file_open(&file, path, false), PLAIT_OK);
    plait_status status = plait_json_parse(out, (const char *)file.bytes, (size_t)file.size_bytes, NULL);
    if (status != PLAIT_OK) print_error("%s: %s\n", path, plait_error_message());
    assert_int_equal(status, PLAIT_OK);
    plait_file_close(&file);
}

/* Calls `visit` with every template file of the golden folder (not snippets.json); returns how many there were. */
static inline size_t for_each_template(void (*visit)(const char *name, const plait_json *root, void *user),
                                       void *user) {
    char folder[PLAIT_TEST_PATH_BYTES], path[2 * PLAIT_TEST_PATH_BYTES];
    size_t n = 0;
    DIR *dir = opendir(plait_test_golden("templates", folder));
    assert_non_null(dir);
    for (struct dirent *entry; (entry = readdir(dir));) {
        size_t length = strlen(entry->d_name);
        if (length < 6 || strcmp(entry->d_name + length - 5, ".json") != 0) continue;
        if (strcmp(entry->d_name, "snippets.json") == 0) continue;
        plait_json_document document;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        read_json(path, &document);
        visit(entry->d_name, document.root, user);
        plait_json_document_deinit(&document);
        n++;
    }
    closedir(dir);
    return n;
}

static inline const plait_json *get_string(const plait_json *object, const char *name) {
    const plait_json *v = plait_json_get(object, name);
    assert_non_null(v);
    assert_int_equal(v->kind, PLAIT_JSON_STRING);
    return v;
}

static inline bool text_equals(const plait_json *expected, const char *text, size_t n_bytes) {
    return expected->u.string.n_bytes == n_bytes && memcmp(expected->u.string.bytes, text, n_bytes) == 0;
}

/* Segments are in order, cover the text, are not empty, and neighbours differ. */
static inline void check_segments(const plait_template_output *out) {
    size_t at = 0;
    for (size_t i = 0; i < out->n_segments; i++) {
        assert_int_equal(out->segments[i].offset_bytes, at);
        assert_true(out->segments[i].n_bytes > 0);
        if (i) assert_int_not_equal(out->segments[i].from_template, out->segments[i - 1].from_template);
        at += out->segments[i].n_bytes;
    }
    assert_int_equal(at, out->n_bytes);
}

/* Compiles and renders C text with variables as JSON text; returns the status. */
static inline plait_status render_text(const char *source, const char *variables,
                                       const plait_template_limits *limits, plait_template_output *out) {
    plait_template *t = NULL;
    *out = (plait_template_output){0};
    plait_status status = plait_template_create(&t, source, strlen(source), limits);
    if (status != PLAIT_OK) return status;
    plait_template_input input = {.variables_json = variables,
                                  .variables_bytes = variables ? strlen(variables) : 0,
                                  .now = "2025-03-09 14:05:07"};
    status = plait_template_render(t, &input, out);
    plait_template_destroy(t);
    return status;
}

#endif
