/* Cuts a template into tokens: text, and inside of {% %} and {{ }} names, literals and operators. White-space control
 * happens here. The rules are those of jinja2/lexer.py with trim_blocks and lstrip_blocks on. */
#ifndef PLAIT_TEXT_TEMPLATE_LEXER_H
#define PLAIT_TEXT_TEMPLATE_LEXER_H

#include "text/template/ast.h"

typedef enum plait_tpl_token_kind {
    PLAIT_TPL_T_TEXT, /* str */
    PLAIT_TPL_T_BLOCK_BEGIN,
    PLAIT_TPL_T_BLOCK_END,
    PLAIT_TPL_T_PRINT_BEGIN,
    PLAIT_TPL_T_PRINT_END,
    PLAIT_TPL_T_NAME,   /* str */
    PLAIT_TPL_T_STRING, /* str */
    PLAIT_TPL_T_INTEGER,
    PLAIT_TPL_T_FLOAT,
    PLAIT_TPL_T_OPERATOR, /* op: its one or two characters */
    PLAIT_TPL_T_END
} plait_tpl_token_kind;

typedef struct plait_tpl_token {
    uint8_t kind;
    char op[3];
    uint32_t line, column;
    plait_tpl_value value; /* STRING kinds: a string in the compile arena; numbers as such */
} plait_tpl_token;

/* State of the compilation. */
typedef struct plait_tpl_lexer {
    plait_tpl_render *r; /* arena, limits and errors of the compilation */
    const char *text;    /* normalised: \n line ends, no final one */
    size_t n_bytes, at;
    uint32_t line;
    size_t line_start;
    plait_tpl_token *tokens;
    size_t n_tokens, capacity;
    char closers[256]; /* open brackets of the current tag */
    size_t n_closers;
} plait_tpl_lexer;

/* All tokens of the template, the last of kind END. */
bool plait_tpl_lex(plait_tpl_lexer *lexer, plait_tpl_render *r, const char *text, size_t n_bytes);

#endif
