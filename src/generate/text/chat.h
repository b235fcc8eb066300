/* SPDX-License-Identifier: Apache-2.0 */
/*
 * chat.h: messages to the one text that a model was trained on, by the template that its folder brings.
 *
 * A template is written in Jinja. The interpreter here knows the part of it that the templates of the
 * common families use; anything else is an error with its line. A template is from a file; the messages are
 * from strangers. So each render has limits of steps, depth and bytes, and every byte of the result knows
 * whether it came from a stranger.
 */
#ifndef GW_GENERATE_TEXT_CHAT_H
#define GW_GENERATE_TEXT_CHAT_H

#include <jansson.h>
#include <stddef.h>

#include "src/generate/text/limits.h"

struct gen_chat;

/*
 * Opens the template of a model's folder: chat_template.jinja, else tokenizer_config.json's chat_template.
 * 0, or a negative errno with gw_error's line: -ENOENT (the folder has none: it is not a chat model),
 * -ENOTSUP (Jinja that is not supported; the line says where), -EINVAL, -ENOMEM.
 */
int gen_chat_open(const char *folder, struct gen_chat **out);
/* The same, of a template's text. `tokens` is an object with texts such as bos_token, which the template
 * may use; NULL for none. Its reference stays the caller's. */
int gen_chat_parse(const char *source, size_t bytes, const json_t *tokens, struct gen_chat **out);
/* Frees it. NULL is fine. */
void gen_chat_close(struct gen_chat *c);

/* What a template made: `text` with its bytes, and for each byte whether it is a stranger's (not 0). Zeroed
 * it is empty. */
struct gen_rendered {
    char *text;
    unsigned char *foreign;
    size_t bytes;
};

/* Frees the text; it is empty then. */
void gen_rendered_free(struct gen_rendered *r);

/*
 * Renders. `variables` is an object; each member is a variable of the template: "messages" (an array of
 * objects with "role" and "content"), "add_generation_prompt", "tools" and whatever else the template
 * reads. All its texts count as foreign, but a "role" that models know (user, assistant …). 0, or a
 * negative errno with gw_error's line: -EINVAL (the template refused the messages by raise_exception, or
 * uses a value in a way it does not allow), -ENOTSUP, -E2BIG (beyond a limit of steps, depth or bytes),
 * -ENOMEM. Any thread; many at once.
 */
int gen_chat_render(const struct gen_chat *c, const json_t *variables, struct gen_rendered *out);

#endif
