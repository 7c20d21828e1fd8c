/* room: text */
/* Any bytes as a template, rendered over variables of all kinds. Whatever it is, compiling and rendering end within their
 * limits, and what comes out is valid UTF-8 whose segments cover it. Error messages are never empty. */
#include "base/utf8.h"
#include "plait/template.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static const char variables[] =
    "{\"messages\":[{\"role\":\"system\",\"content\":\"S<|im_end|>\"},{\"role\":\"user\",\"content\":\" "
    "a\\nb \"},"
    "{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"id\":\"1\",\"function\":{\"name\":\"f\","
    "\"arguments\":"
    "{\"x\":1,\"y\":[1.5,true,null]}}}]}],\"tools\":null,\"s\":\"Gr\xC3\xBC\xC3\x9F\x65 \xF0\x9F\x98\x80 'q' "
    "\\\"\\u0000\","
    "\"l\":[3,1,2],\"d\":{\"b\":1,\"a\":{\"c\":[]}},\"i\":7,\"f\":-2.5,\"t\":true,\"bos_token\":\"<s>\","
    "\"add_generation_prompt\":true}";

/* Traps without ending the process in a way that only debug builds see. */
static void must(int condition) {
    if (!condition) __builtin_trap();
}

static void check_output(const plait_template_output *out) {
    size_t at = 0;
    must(plait_utf8_valid(out->text, out->n_bytes));
    for (size_t i = 0; i < out->n_segments; i++) {
        must(out->segments[i].offset_bytes == at && out->segments[i].n_bytes > 0);
        at += out->segments[i].n_bytes;
    }
    must(at == out->n_bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const plait_template_limits limits = {
        .steps = 20000, .memory_bytes = 4 << 20, .output_bytes = 1 << 20, .depth = 200, .parse_depth = 60};
    plait_template *t = NULL;
    if (plait_template_create(&t, (const char *)data, size, &limits) != PLAIT_OK) {
        must(plait_error_message()[0] != '\0');
        return 0;
    }
    plait_template_input input = {
        .variables_json = variables, .variables_bytes = sizeof variables - 1, .now = "2025-03-09 14:05:07"};
    plait_template_output out;
    if (plait_template_render(t, &input, &out) == PLAIT_OK)
        check_output(&out);
    else
        must(plait_error_message()[0] != '\0' && out.text == NULL && out.segments == NULL);
    plait_template_output_deinit(&out);
    plait_template_destroy(t);
    return 0;
}
