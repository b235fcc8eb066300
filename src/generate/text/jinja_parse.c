/* SPDX-License-Identifier: Apache-2.0 */
/* What parsing expressions and statements shares: words, names, nodes, limits. */
#include "src/generate/text/jinja_parse.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "gpuwire/error.h"
#include "src/generate/text/hash.h"

void *gen_jp_fail(struct gen_jparser *p, int err, const char *format, ...)
{
    if (p->err) return NULL;
    char text[300];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    p->err = gw_error(err, "chat template, line %u: %s", p->token.line, text);
    return NULL;
}

bool gen_jp_next(struct gen_jparser *p)
{
    if (!p->err) p->err = gen_jlex_next(&p->lex, &p->token);
    return !p->err;
}

bool gen_jp_is(const struct gen_jparser *p, const char *operator)
{
    size_t n = strlen(operator);
    return p->token.kind == GEN_JW_OPERATOR && p->token.bytes == n && !memcmp(p->token.at, operator, n);
}

bool gen_jp_names(const struct gen_jparser *p, const char *name)
{
    size_t n = strlen(name);
    return p->token.kind == GEN_JW_NAME && p->token.bytes == n && !memcmp(p->token.at, name, n);
}

bool gen_jp_take(struct gen_jparser *p, const char *operator)
{
    return !p->err && gen_jp_is(p, operator) && gen_jp_next(p);
}

bool gen_jp_take_name(struct gen_jparser *p, const char *name)
{
    return !p->err && gen_jp_names(p, name) && gen_jp_next(p);
}

bool gen_jp_expect(struct gen_jparser *p, const char *operator)
{
    if (gen_jp_take(p, operator)) return true;
    gen_jp_fail(p, -EINVAL, "expected '%s'", operator);
    return false;
}

struct gen_jname *gen_jp_intern(struct gen_jparser *p, const char *text, size_t bytes)
{
    struct gen_jname **slot = &p->names[gen_hash(text, bytes) % GEN_JNAME_SLOTS];
    for (struct gen_jname *name = *slot; name; name = name->next) {
        if (name->text.bytes == bytes && !memcmp(name->text.at, text, bytes)) return name;
    }
    struct gen_jname *name = gen_arena_take(p->arena, sizeof(*name));
    if (!name) return gen_jp_fail(p, -ENOMEM, "no memory for the template");
    *name = (struct gen_jname){.next = *slot, .text = {.at = text, .bytes = bytes}};
    *slot = name;
    return name;
}

struct gen_jname *gen_jp_name(struct gen_jparser *p)
{
    if (p->err || p->token.kind != GEN_JW_NAME) return gen_jp_fail(p, -EINVAL, "expected a name");
    struct gen_jname *name = gen_jp_intern(p, p->token.at, p->token.bytes);
    return name && gen_jp_next(p) ? name : NULL;
}

struct gen_jnode *gen_jp_node(struct gen_jparser *p, enum gen_jnode_kind kind)
{
    struct gen_jnode *node = gen_arena_take(p->arena, sizeof(*node));
    if (!node) return gen_jp_fail(p, -ENOMEM, "no memory for the template");
    node->kind = kind;
    node->line = p->token.line;
    return node;
}

bool gen_jp_enter(struct gen_jparser *p)
{
    if (p->depth >= GEN_MAX_TEMPLATE_DEPTH) {
        gen_jp_fail(p, -E2BIG, "expressions or statements stand in each other more than %d deep",
                    GEN_MAX_TEMPLATE_DEPTH);
        return false;
    }
    p->depth++;
    return true;
}
