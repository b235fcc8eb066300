/* SPDX-License-Identifier: Apache-2.0 */
/* A chat template that is no Jinja: each message between its role's token and the end of its turn. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "src/door/text.h"
#include "src/generate/text/chat.h"

struct gen_chat {
    int none;
};

int gen_chat_open(const char *folder, struct gen_chat **out)
{
    (void)folder;
    *out = calloc(1, sizeof(**out));
    return *out ? 0 : -ENOMEM;
}

void gen_chat_close(struct gen_chat *c)
{
    free(c);
}

void gen_rendered_free(struct gen_rendered *r)
{
    free(r->text);
    free(r->foreign);
    memset(r, 0, sizeof(*r));
}

int gen_chat_render(const struct gen_chat *c, const json_t *variables, struct gen_rendered *out)
{
    struct gw_text t = {0};
    const json_t *messages = json_object_get(variables, "messages");
    (void)c;
    for (size_t i = 0; i < json_array_size(messages); i++) {
        const json_t *m = json_array_get(messages, i), *content = json_object_get(m, "content");
        gw_text_printf(&t, "<|%.100s|>", json_string_value(json_object_get(m, "role")));
        gw_text_add(&t, json_string_value(content), json_string_length(content));
        gw_text_printf(&t, "<|end|>");
    }
    if (json_is_true(json_object_get(variables, "add_generation_prompt")))
        gw_text_printf(&t, "<|assistant|>");
    *out = (struct gen_rendered){t.at, calloc(1, t.bytes + 1), t.bytes};
    return t.broken || !out->foreign ? -ENOMEM : 0;
}
