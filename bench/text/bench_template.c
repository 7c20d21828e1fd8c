/* How long chat templates take: compiling each golden template, and rendering each of its conversations.
 *
 *   bench_template FOLDER [REPEATS]     a line a template: microseconds of processor time, medians of REPEATS (50)
 *
 * FOLDER holds the golden templates (tests/golden/templates). */
/* room: text */
#include "base/os.h"
#include "base/strbuf.h"
#include "plait/template.h"
#include "text/json.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double now_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static int by_value(const void *a, const void *b) {
    const double *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}

static double median(double *values, int n) {
    qsort(values, (size_t)n, sizeof *values, by_value);
    return values[n / 2];
}

/* Renders all cases once; returns how many gave output. */
static int render_all(const plait_template *t, const plait_json *cases, size_t *out_bytes) {
    int n = 0;
    for (size_t i = 0; i < cases->u.array.n_items; i++) {
        plait_template_input input = {.variables = plait_json_get(&cases->u.array.items[i], "variables"),
                                      .now = "2025-03-09 14:05:07"};
        plait_template_output out;
        if (plait_template_render(t, &input, &out) == PLAIT_OK) n++, *out_bytes += out.n_bytes;
        plait_template_output_deinit(&out);
    }
    return n;
}

static void measure(const char *name, const plait_json *root, int repeats, double *compile, double *render) {
    const plait_json *text = plait_json_get(root, "template_text"), *cases = plait_json_get(root, "cases");
    size_t bytes = 0;
    int n = 0;
    if (!text || !cases) return;
    for (int r = 0; r < repeats; r++) {
        plait_template *t = NULL;
        double begin = now_us();
        if (plait_template_create(&t, text->u.string.bytes, text->u.string.n_bytes, NULL) != PLAIT_OK) return;
        compile[r] = now_us() - begin;
        bytes = 0;
        begin = now_us();
        n = render_all(t, cases, &bytes);
        render[r] = (now_us() - begin) / (n ? n : 1);
        plait_template_destroy(t);
    }
    if (n == 0) return;
    printf("%-48.48s compile %8.1f us   render %8.1f us of %6.0f bytes\n", name, median(compile, repeats),
           median(render, repeats), (double)bytes / n);
}

static void measure_file(const char *folder, const char *name, int repeats, double *compile, double *render) {
    plait_json_document document;
    plait_strbuf path;
    plait_file file;
    plait_strbuf_init(&path, 0);
    plait_strbuf_printf(&path, "%s/%s", folder, name);
    if (plait_file_open(&file, plait_strbuf_text(&path), false) == PLAIT_OK) {
        if (plait_json_parse(&document, (const char *)file.bytes, file.size_bytes, NULL) == PLAIT_OK)
            measure(name, document.root, repeats, compile, render);
        plait_json_document_deinit(&document);
        plait_file_close(&file);
    }
    plait_strbuf_deinit(&path);
}

int main(int argc, char **argv) {
    enum { MOST = 1000 };
    static double compile[MOST], render[MOST];
    int repeats = argc > 2 ? atoi(argv[2]) : 50;
    DIR *folder = argc > 1 ? opendir(argv[1]) : NULL;
    if (!folder || repeats < 1 || repeats > MOST) {
        fprintf(stderr, "usage: bench_template FOLDER [REPEATS up to %d]\n", MOST);
        return 2;
    }
    for (struct dirent *entry; (entry = readdir(folder));) {
        size_t n = strlen(entry->d_name);
        if (n > 5 && strcmp(entry->d_name + n - 5, ".json") == 0)
            measure_file(argv[1], entry->d_name, repeats, compile, render);
    }
    closedir(folder);
    return 0;
}
