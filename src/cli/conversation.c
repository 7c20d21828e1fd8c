/* A conversation through the model's own chat template, to token ids. Special tokens are recognised only in text that
 * the template wrote. Invariant: what a user typed never becomes a control token. */
#include "cli/cli.h"

#include "base/alloc.h"
#include "base/status.h"
#include "base/strbuf.h"
#include "plait/template.h"

#include <stdlib.h>
#include <string.h>

/* "name": text of the token with that role, if there is one. */
static void add_token(plait_strbuf *s, const plait_tokenizer *tokenizer, const char *name,
                      plait_token_role role) {
    const char *text;
    size_t n;
    if (!plait_token_text(tokenizer, plait_tokenizer_role(tokenizer, role), &text, &n)) return;
    plait_strbuf_printf(s, ",\"%s\":", name);
    plait_strbuf_json_string_n(s, text, n);
}

static plait_status render(const plait_model *model, const plait_tokenizer *tokenizer,
                           const char *messages_json, plait_template_output *out) {
    plait_gguf_string source;
    plait_template *compiled;
    plait_strbuf variables;
    PLAIT_TRY(plait_gguf_get_string(plait_model_gguf(model), "tokenizer.chat_template", &source));
    PLAIT_TRY(plait_error_context(plait_template_create(&compiled, source.bytes, source.length, NULL),
                                  "chat template of the model"));
    plait_strbuf_init(&variables, 0);
    plait_strbuf_printf(&variables,
                        "{\"messages\":%s,\"tools\":null,\"documents\":null,\"add_generation_prompt\":true",
                        messages_json);
    add_token(&variables, tokenizer, "bos_token", PLAIT_ROLE_BOS);
    add_token(&variables, tokenizer, "eos_token", PLAIT_ROLE_EOS);
    plait_strbuf_append(&variables, "}");
    plait_status status = plait_strbuf_status(&variables);
    if (status == PLAIT_OK) {
        plait_template_input input = {.variables_json = plait_strbuf_text(&variables),
                                      .variables_bytes = variables.length};
        status =
            plait_error_context(plait_template_render(compiled, &input, out), "chat template of the model");
    }
    plait_strbuf_deinit(&variables);
    plait_template_destroy(compiled);
    return status;
}

/* BOS is added by the tokenizer unless the template wrote it itself. */
static bool begins_with_bos(const plait_tokenizer *tokenizer, const plait_template_output *prompt) {
    const char *bos;
    size_t n;
    return plait_token_text(tokenizer, plait_tokenizer_role(tokenizer, PLAIT_ROLE_BOS), &bos, &n) && n > 0 &&
           prompt->n_bytes >= n && memcmp(prompt->text, bos, n) == 0;
}

static plait_status tokenise(const plait_tokenizer *tokenizer, const plait_template_output *prompt,
                             plait_tokens *out) {
    plait_tokenizer_scratch *scratch;
    plait_text_segment *segments = plait_alloc_array(prompt->n_segments, sizeof *segments);
    if (!segments) return plait_error_memory("conversation", prompt->n_segments * sizeof *segments);
    for (size_t i = 0; i < prompt->n_segments; i++)
        segments[i] = (plait_text_segment){prompt->text + prompt->segments[i].offset_bytes,
                                           prompt->segments[i].n_bytes, prompt->segments[i].from_template};
    plait_status status = plait_tokenizer_scratch_create(&scratch, tokenizer);
    if (status == PLAIT_OK) {
        uint32_t flags = plait_tokenizer_adds_bos(tokenizer) && !begins_with_bos(tokenizer, prompt)
                             ? PLAIT_TOKENIZE_ADD_SPECIAL
                             : 0;
        status = plait_tokenize_segments(tokenizer, scratch, segments, prompt->n_segments, flags, out);
        plait_tokenizer_scratch_destroy(scratch);
    }
    free(segments);
    return status;
}

plait_status plait_cli_render_chat(const plait_model *model, const char *messages_json, plait_tokens *out) {
    const plait_tokenizer *tokenizer;
    plait_template_output prompt = {0};
    PLAIT_TRY(plait_model_need_tokenizer(model, &tokenizer));
    plait_status status = render(model, tokenizer, messages_json, &prompt);
    if (status == PLAIT_OK) status = tokenise(tokenizer, &prompt, out);
    plait_template_output_deinit(&prompt);
    return status;
}
