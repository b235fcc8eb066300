/* SPDX-License-Identifier: Apache-2.0 */
/* A chat template: found in a model's folder, parsed once, rendered for each request. */
#include "src/generate/text/chat.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "gpuwire/error.h"
#include "src/generate/text/file.h"
#include "src/generate/text/hash.h"
#include "src/generate/text/jinja_parse.h"
#include "src/generate/text/jinja_run.h"
#include "src/generate/text/utf8.h"

/* What one render may take. */
#define MAX_STEPS        5000000u
#define MAX_RENDER_BYTES (16u * GEN_MAX_PROMPT)

struct gen_chat {
    struct gen_arena arena;
    struct gen_jname *names[GEN_JNAME_SLOTS];
    const struct gen_jname *loop, *caller;
    struct gen_jnode *root;
    json_t *tokens; /* or NULL */
};

/* ---- opening */

/* The template as Jinja reads it: its lines end with \n, and the last of those goes. */
static char *chat_source(struct gen_arena *arena, const char *source, size_t *bytes)
{
    char *copy = gen_arena_take(arena, *bytes + 8);
    size_t n = 0;
    for (size_t i = 0; copy && i < *bytes; i++) {
        if (source[i] == '\r' && i + 1 < *bytes && source[i + 1] == '\n') continue;
        copy[n++] = source[i] == '\r' ? '\n' : source[i];
    }
    if (n && copy[n - 1] == '\n') copy[--n] = 0;
    *bytes = n;
    return copy;
}

static bool source_is_text(const char *source, size_t bytes)
{
    bool whole = true, open;
    for (size_t i = 0; i < bytes && whole;) i += gen_utf8_scan(source + i, bytes - i, &whole, &open);
    return whole && (!bytes || !memchr(source, 0, bytes));
}

static int chat_build(struct gen_chat *c, const char *source, size_t bytes)
{
    struct gen_jparser p = {.arena = &c->arena, .lex = {.line = 1, .fresh_line = true, .arena = &c->arena}};
    p.token.line = 1;
    p.lex.source = chat_source(&c->arena, source, &bytes);
    p.lex.bytes = bytes;
    if (!p.lex.source) return gw_error(-ENOMEM, "no memory for a chat template");
    c->root = gen_jp_template(&p);
    if (p.err) return p.err;
    c->loop = gen_jp_intern(&p, "loop", 4);
    c->caller = gen_jp_intern(&p, "caller", 6);
    memcpy(c->names, p.names, sizeof(c->names));
    return p.err;
}

int gen_chat_parse(const char *source, size_t bytes, const json_t *tokens, struct gen_chat **out)
{
    *out = NULL;
    if (bytes > GEN_MAX_TEMPLATE)
        return gw_error(-E2BIG, "the chat template has %zu bytes; the limit is %u", bytes, GEN_MAX_TEMPLATE);
    if (!source_is_text(source, bytes)) return gw_error(-EINVAL, "the chat template is not UTF-8 text");
    struct gen_chat *c = calloc(1, sizeof(*c));
    if (!c) return gw_error(-ENOMEM, "no memory for a chat template");
    c->arena.limit = 64u * GEN_MAX_TEMPLATE;
    c->tokens = json_incref((json_t *)tokens);
    int err = chat_build(c, source, bytes);
    if (err)
        gen_chat_close(c);
    else
        *out = c;
    return err;
}

void gen_chat_close(struct gen_chat *c)
{
    if (!c) return;
    gen_arena_free(&c->arena);
    json_decref(c->tokens);
    free(c);
}

/* The texts that tokenizer_config.json gives templates: bos_token and the others. */
static json_t *chat_tokens(const json_t *config)
{
    json_t *tokens = json_object();
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)config, name, value)
    {
        size_t n = strlen(name);
        const json_t *text = json_is_object(value) ? json_object_get(value, "content") : value;
        if (n > 6 && !strcmp(name + n - 6, "_token") && json_is_string(text))
            json_object_set(tokens, name, (json_t *)text);
    }
    return tokens;
}

/* tokenizer_config.json's template: a text, or a list of which one is the default. */
static const json_t *config_template(const json_t *config)
{
    const json_t *template = json_object_get(config, "chat_template");
    for (size_t i = 0; i < json_array_size(template); i++) {
        const json_t *one = json_array_get(template, i);
        const char *name = json_string_value(json_object_get(one, "name"));
        if (name && !strcmp(name, "default")) return json_object_get(one, "template");
    }
    return json_is_string(template) ? template : NULL;
}

int gen_chat_open(const char *folder, struct gen_chat **out)
{
    struct gw_text file = {0};
    json_t *config = NULL, *tokens = NULL;
    *out = NULL;
    int err = gen_file_json(folder, "tokenizer_config.json", &config);
    if (!err || err == -ENOENT) err = gen_file_read(folder, "chat_template.jinja", &file);
    const json_t *template = err == -ENOENT ? config_template(config) : NULL;
    tokens = chat_tokens(config);
    if (!err)
        err = gen_chat_parse(file.at ? file.at : "", file.bytes, tokens, out);
    else if (template)
        err = gen_chat_parse(json_string_value(template), json_string_length(template), tokens, out);
    else if (err == -ENOENT)
        err = gw_error(
            err, "%s has no chat template (chat_template.jinja, or chat_template in tokenizer_config.json)",
            folder);
    json_decref(tokens);
    json_decref(config);
    free(file.at);
    return err;
}

/* ---- rendering */

void gen_rendered_free(struct gen_rendered *r)
{
    free(r->text);
    free(r->foreign);
    memset(r, 0, sizeof(*r));
}

/* Variables that the template names; the others it cannot see. */
static bool chat_variables(const struct gen_chat *c, struct gen_jrun *r, const json_t *from, bool foreign)
{
    const char *text;
    json_t *json;
    json_object_foreach((json_t *)from, text, json)
    {
        struct gen_jtext key = {.at = text, .bytes = strlen(text)};
        const struct gen_jname *name = c->names[gen_hash(text, key.bytes) % GEN_JNAME_SLOTS];
        while (name && !gen_j_same(&name->text, &key)) name = name->next;
        struct gen_jvalue value;
        if (name &&
            (!gen_j_from_json(&r->j, json, foreign, &value) || !gen_j_set(&r->j, r->scope, name, &value)))
            return false;
    }
    return true;
}

int gen_chat_render(const struct gen_chat *c, const json_t *variables, struct gen_rendered *out)
{
    struct gen_marked made = {.marks = true};
    struct gen_jrun r = {.j = {.steps = MAX_STEPS, .line = 1},
                         .out = &made,
                         .macro = gen_j_macro,
                         .loop = c->loop,
                         .caller = c->caller};
    r.j.arena.limit = MAX_RENDER_BYTES;
    memset(out, 0, sizeof(*out));
    bool done = gen_j_scope(&r, NULL) && chat_variables(c, &r, c->tokens, false) &&
                chat_variables(c, &r, variables, true) && gen_j_scope(&r, r.scope) && gen_j_body(&r, c->root);
    gen_arena_free(&r.j.arena);
    if (!done) {
        gen_marked_free(&made);
        return r.j.err;
    }
    *out = (struct gen_rendered){
        .text = made.text.at, .foreign = (unsigned char *)made.foreign.at, .bytes = made.text.bytes};
    return 0;
}
