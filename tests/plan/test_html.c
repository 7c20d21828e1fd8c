/* The page of plans: well-formed, every name escaped, nothing from outside, boxes inside their picture; one plan or
 * several. */
#include "plan/plan.h"

#include "support/assert_ok.h"
#include "support/decoder.h"
#include "support/fake_device.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

/* Elements that end with what follows them, as HTML allows for cells and heads of tables. */
static bool ends_by_itself(const char *name) {
    static const char *const names[] = {"meta", "br", "td", "th", "tr", "!DOCTYPE"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i], name) == 0) return true;
    return false;
}

/* Tags open and close in order; no bare '<', '&' or '>' between them. */
static void check_nesting(const char *page) {
    char stack[32][16];
    int depth = 0;
    for (const char *at = page; *at; at++) {
        if (*at == '&' && !strchr("alqg", at[1])) fail_msg("a bare & at %.40s", at);
        if (*at != '<') continue;
        char name[16] = "";
        bool closes = at[1] == '/';
        size_t n = strcspn(at + 1 + closes, " >/\n");
        if (n == 0 || n >= sizeof name) fail_msg("a bare < at %.40s", at);
        memcpy(name, at + 1 + closes, n);
        const char *end = strchr(at, '>');
        assert_non_null(end);
        if (ends_by_itself(name) || end[-1] == '/') continue;
        if (!closes) {
            assert_true(depth < 32);
            memcpy(stack[depth++], name, sizeof name);
        } else if (depth == 0 || strcmp(stack[--depth], name) != 0) {
            fail_msg("</%s> closes %s", name, depth >= 0 ? stack[depth] : "nothing");
        }
    }
    assert_int_equal(depth, 0);
}

static void check_boxes(const char *page) {
    int n = 0;
    for (const char *at = page; (at = strstr(at, "<rect class=\"v ")); at++, n++) {
        double x, y, width, height;
        assert_int_equal(sscanf(strstr(at, " x="), " x=\"%lf\" y=\"%lf\" width=\"%lf\" height=\"%lf\"", &x,
                                &y, &width, &height),
                         4);
        if (x < 75.9 || x + width > 948.1 || y < 13.9 || y + height > 214.1)
            fail_msg("a box at %g, %g of %g x %g", x, y, width, height);
    }
    assert_true(n > 10);
}

/* Boxes of queues lie in their picture, and those of a lane one behind the other. */
static void check_lanes(const char *page) {
    double last_y = -1, last_end = 0, bottom = 0;
    int n = 0;
    for (const char *at = page; (at = strpbrk(at, "<")); at++) {
        double x, y, width, height;
        char class[16];
        int end = 0;
        if (sscanf(at, "<svg class=\"lanes%*[^0]0 0 960 %lf", &bottom) == 1) last_y = -1;
        if (sscanf(at, "<rect class=\"b %15[a-z]\" x=\"%lf\" y=\"%lf\" width=\"%lf\" height=\"%lf\"%n", class,
                   &x, &y, &width, &height, &end) < 5)
            continue;
        double middle = y + height / 2;
        if (x < 149.9 || x + width > 946.1 || y < 10 || y + height > bottom - 24)
            fail_msg("a box at %g, %g of %g x %g", x, y, width, height);
        if (middle == last_y && x < last_end - 0.002) fail_msg("a box begins at %g before %g", x, last_end);
        last_y = middle;
        last_end = x + width;
        n++;
    }
    assert_true(n > 10);
    assert_non_null(strstr(page, "<path class=arrow"));
}

static void test_pages(void **state) {
    (void)state;
    plait_context *context = NULL;
    plait_residence *residence = NULL;
    plait_plan *plans[2] = {NULL, NULL};
    char *page = NULL;
    plait_graph *graph = decoder_make(3, 64, 16);
    const plait_graph *graphs[] = {graph};
    assert_ok(plait_context_open(&context, "fake:lack=attention,fake", NULL));
    assert_ok(plait_residence_create(&residence, context, graphs, 1, NULL));
    for (int i = 0; i < 2; i++)
        assert_ok(plait_plan_make(
            &plans[i], context, graph,
            &(plait_plan_options){.residence = residence, .name = i ? "tail" : "layers <b>&amp;\"</b>"}));
    assert_ok(plait_plan_print_html(plans[0], &page));
    check_nesting(page);
    check_boxes(page);
    check_lanes(page);
    assert_null(strstr(page, "<b>&amp;\"</b>"));
    assert_non_null(strstr(page, "layers &lt;b&gt;&amp;amp;&quot;&lt;/b&gt;"));
    static const char *const foreign[] = {"<script", "http:", "https:", "url(", "@import", "<link"};
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++) assert_null(strstr(page, foreign[i]));
    static const char *const parts[] = {"prefers-color-scheme:dark",    "fake:1",
                                        "weights live there",           "state lives there",
                                        "Where weights and state live", "blk.2.ffn_down"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (!strstr(page, parts[i])) fail_msg("%s is not on the page", parts[i]);
    free(page);
    assert_ok(plait_plans_print_html((const plait_plan *const[]){plans[0], plans[1]}, 2, "a <model>", &page));
    check_nesting(page);
    assert_non_null(strstr(page, "<h1>a &lt;model&gt;</h1>"));
    assert_non_null(strstr(page, "<h2>Plan of tail</h2>"));
    const char *where = strstr(page, "Where weights and state live");
    assert_non_null(where);
    assert_null(strstr(where + 1, "Where weights and state live")); /* one residence, shown once */
    free(page);
    assert_int_equal(plait_plans_print_html(NULL, 0, NULL, &page), PLAIT_INVALID_ARGUMENT);
    for (int i = 0; i < 2; i++) plait_plan_release(plans[i]);
    plait_residence_release(residence);
    plait_context_close(context);
    plait_graph_destroy(graph);
}

static int make_known(void **state) {
    (void)state;
    return fake_register() == PLAIT_OK ? 0 : -1;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_pages)};
    return cmocka_run_group_tests(tests, make_known, NULL);
}
