/* SPDX-License-Identifier: Apache-2.0 */
/* Finds added tokens in a text by a trie: at each place the longest one, the leftmost place first. */
#include "src/generate/text/added.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "gpuwire/error.h"
#include "src/generate/text/chars.h"
#include "src/generate/text/spec.h"
#include "src/generate/text/utf8.h"
#include "src/generate/text/vocab.h"

/* Children are a list: most nodes have one. `token` is an index + 1 into the tokens, or 0. */
struct added_node {
    uint32_t child, sibling, token;
    unsigned char byte;
};

/* What is looked at when a token was found. */
struct added_rule {
    uint32_t id;
    bool single_word, left_strip, right_strip, guarded;
};

struct gen_added {
    struct added_node *nodes; /* the first is no node: index 0 is none */
    uint32_t count, room;
    uint32_t roots[256];
    struct added_rule *rules;
    uint32_t rule_count, rule_room;
};

int gen_added_read(const json_t *element, struct gen_added_token *out)
{
    memset(out, 0, sizeof(*out));
    size_t bytes;
    const char *text = gen_spec_text(element, "content", &bytes);
    const json_t *id = json_object_get(element, "id");
    if (!text || !json_is_integer(id) || json_integer_value(id) < 0 ||
        json_integer_value(id) > GEN_MAX_TOKEN_ID)
        return gw_error(-EINVAL, "tokenizer.json: an added token needs a content, and an id from 0 to %u",
                        GEN_MAX_TOKEN_ID);
    out->text = malloc(bytes + 1);
    if (!out->text) return gw_error(-ENOMEM, "no memory for an added token");
    memcpy(out->text, text, bytes);
    out->bytes = bytes;
    out->id = (uint32_t)json_integer_value(id);
    out->single_word = gen_spec_flag(element, "single_word", false);
    out->left_strip = gen_spec_flag(element, "lstrip", false);
    out->right_strip = gen_spec_flag(element, "rstrip", false);
    out->special = gen_spec_flag(element, "special", false);
    out->normalized = gen_spec_flag(element, "normalized", !out->special);
    return 0;
}

struct gen_added *gen_added_open(void)
{
    struct gen_added *a = calloc(1, sizeof(*a));
    if (a) a->count = 1;
    return a;
}

void gen_added_close(struct gen_added *a)
{
    if (!a) return;
    free(a->nodes);
    free(a->rules);
    free(a);
}

/* The child of a node (0: a root) for a byte, or 0. */
static uint32_t node_child(const struct gen_added *a, uint32_t node, unsigned char byte)
{
    if (!node) return a->roots[byte];
    uint32_t child = a->nodes[node].child;
    while (child && a->nodes[child].byte != byte) child = a->nodes[child].sibling;
    return child;
}

/* The same, made where it is not there. 0: no memory. */
static uint32_t node_make(struct gen_added *a, uint32_t node, unsigned char byte)
{
    uint32_t child = node_child(a, node, byte);
    if (child) return child;
    if (a->count >= a->room) {
        uint32_t room = a->room ? a->room * 2 : 256;
        struct added_node *nodes = realloc(a->nodes, room * sizeof(*nodes));
        if (!nodes) return 0;
        a->nodes = nodes;
        a->room = room;
    }
    child = a->count++;
    a->nodes[child] = (struct added_node){.byte = byte};
    if (node) {
        a->nodes[child].sibling = a->nodes[node].child;
        a->nodes[node].child = child;
    } else {
        a->roots[byte] = child;
    }
    return child;
}

static int rule_add(struct gen_added *a, const struct gen_added_token *token)
{
    if (a->rule_count == a->rule_room) {
        uint32_t room = a->rule_room ? a->rule_room * 2 : 64;
        struct added_rule *rules = realloc(a->rules, room * sizeof(*rules));
        if (!rules) return -ENOMEM;
        a->rules = rules;
        a->rule_room = room;
    }
    a->rules[a->rule_count++] = (struct added_rule){.id = token->id,
                                                    .single_word = token->single_word,
                                                    .left_strip = token->left_strip,
                                                    .right_strip = token->right_strip,
                                                    .guarded = token->special};
    return 0;
}

int gen_added_put(struct gen_added *a, const struct gen_added_token *token, const char *text, size_t bytes)
{
    if (!bytes) return 0; /* it stands nowhere */
    if (bytes > GEN_MAX_ADDED_BYTES)
        return gw_error(-E2BIG, "tokenizer.json: an added token has %zu bytes; the limit is %d", bytes,
                        GEN_MAX_ADDED_BYTES);
    uint32_t node = 0;
    for (size_t i = 0; i < bytes; i++) {
        node = node_make(a, node, (unsigned char)text[i]);
        if (!node) return gw_error(-ENOMEM, "no memory for the added tokens");
    }
    if (rule_add(a, token)) return gw_error(-ENOMEM, "no memory for the added tokens");
    a->nodes[node].token = a->rule_count;
    return 0;
}

void gen_added_guard(struct gen_added *a, uint32_t id)
{
    for (uint32_t i = 0; i < a->rule_count; i++) {
        if (a->rules[i].id == id) a->rules[i].guarded = true;
    }
}

/* The longest token that begins at `from`, or NULL; *to is its end. */
static const struct added_rule *added_longest(const struct gen_added *a, const struct gw_text *text,
                                              size_t from, size_t *to)
{
    const struct added_rule *rule = NULL;
    uint32_t node = 0;
    for (size_t i = from; i < text->bytes; i++) {
        node = node_child(a, node, (unsigned char)text->at[i]);
        if (!node) break;
        if (a->nodes[node].token) {
            rule = &a->rules[a->nodes[node].token - 1];
            *to = i + 1;
        }
    }
    return rule;
}

/* Whether it stands alone: neither what is before nor what comes after is part of a word. */
static bool stands_alone(const struct gw_text *text, size_t from, size_t to)
{
    uint32_t c;
    if (from) {
        gen_utf8_get(text->at + gen_utf8_before(text->at, from), &c);
        if (gen_char_is_word(c)) return false;
    }
    if (to == text->bytes) return true;
    gen_utf8_get(text->at + to, &c);
    return !gen_char_is_word(c);
}

/* Widens the match over the spaces beside it, as the token asks; not before `low`. */
static void take_spaces(const struct added_rule *rule, const struct gw_text *text, size_t low,
                        size_t match[2])
{
    uint32_t c;
    while (rule->left_strip && match[0] > low) {
        size_t before = gen_utf8_before(text->at, match[0]);
        gen_utf8_get(text->at + before, &c);
        if (!gen_char_is_space(c)) break;
        match[0] = before;
    }
    while (rule->right_strip && match[1] < text->bytes) {
        unsigned n = gen_utf8_get(text->at + match[1], &c);
        if (!gen_char_is_space(c)) break;
        match[1] += n;
    }
}

static int added_emit(struct gen_pieces *out, size_t from, size_t to, uint32_t token, bool first)
{
    struct gen_piece piece = {.at = from, .bytes = to - from, .token = token, .first = first && from == 0};
    return gen_pieces_add(out, piece) ? gw_error(-ENOMEM, "no memory to cut a text") : 0;
}

int gen_added_cut(const struct gen_added *a, const struct gen_marked *m, bool control, bool first,
                  struct gen_pieces *out)
{
    const struct gw_text *text = &m->text;
    size_t done = 0, match[2];
    int err = 0;
    for (size_t i = 0; i < text->bytes && !err; i = match[1]) {
        const struct added_rule *rule =
            a->roots[(unsigned char)text->at[i]] ? added_longest(a, text, i, &match[1]) : NULL;
        match[0] = i;
        if (!rule) {
            match[1] = i + 1;
            continue;
        }
        if ((rule->guarded && (!control || gen_marked_foreign(m, match[0], match[1]))) ||
            (rule->single_word && !stands_alone(text, match[0], match[1])))
            continue;
        take_spaces(rule, text, done, match);
        err = added_emit(out, done, match[0], UINT32_MAX, first);
        if (!err) err = added_emit(out, match[0], match[1], rule->id, first);
        done = match[1];
    }
    return err ? err : added_emit(out, done, text->bytes, UINT32_MAX, first);
}
