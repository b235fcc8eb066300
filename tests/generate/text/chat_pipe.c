/* SPDX-License-Identifier: Apache-2.0 */
/*
 * chat_pipe: parses and renders templates for tests that compare the results with Jinja's. A request is a
 * 32-bit number n and n bytes of JSON: {"template", "tokens", "variables"}. The answer is a letter, a
 * 32-bit number n and n bytes: t and the text, followed by a byte for each byte of it (1: a stranger's); or
 * e and the error.
 */
#include <jansson.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpuwire/error.h"
#include "src/generate/text/chat.h"

static void answer(char kind, const void *data, size_t bytes)
{
    uint32_t n = (uint32_t)bytes;
    putchar(kind);
    fwrite(&n, 4, 1, stdout);
    fwrite(data, 1, bytes, stdout);
}

static void render(const json_t *ask)
{
    const json_t *template = json_object_get(ask, "template");
    struct gen_rendered r = {0};
    struct gen_chat *c;
    int err = gen_chat_parse(json_string_value(template), json_string_length(template),
                             json_object_get(ask, "tokens"), &c);
    if (!err) err = gen_chat_render(c, json_object_get(ask, "variables"), &r);
    if (err) {
        answer('e', gw_last_error(), strlen(gw_last_error()));
    } else {
        answer('t', r.text ? r.text : "", r.bytes);
        fwrite(r.foreign ? r.foreign : (const void *)"", 1, r.bytes, stdout);
    }
    gen_rendered_free(&r);
    gen_chat_close(c);
}

int main(void)
{
    uint32_t n;
    while (fread(&n, 4, 1, stdin) == 1) {
        char *data = malloc(n + 1u);
        json_t *ask =
            data && fread(data, 1, n, stdin) == n ? json_loadb(data, n, JSON_ALLOW_NUL, NULL) : NULL;
        free(data);
        if (!ask) return 1;
        render(ask);
        fflush(stdout);
        json_decref(ask);
    }
    return 0;
}
