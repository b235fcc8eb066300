/* SPDX-License-Identifier: Apache-2.0 */
/* Parses statements: the tags of a template and the text between them. */
#include <errno.h>
#include <string.h>

#include "src/generate/text/jinja_parse.h"

static struct gen_jnode *stmt_list(struct gen_jparser *p, const char *const *ends);

/* Goes past %}, which must come. */
static bool stmt_end(struct gen_jparser *p)
{
    if (!p->err && p->token.kind == GEN_JW_TAG_END) return gen_jp_next(p);
    gen_jp_fail(p, -EINVAL, "expected %%}");
    return false;
}

/* A body up to {% name %}, which it passes. */
static bool stmt_body(struct gen_jparser *p, const char *name, struct gen_jnode **out)
{
    const char *const ends[] = {name, NULL};
    *out = stmt_list(p, ends);
    return !p->err && gen_jp_take_name(p, name) && stmt_end(p);
}

/* Names (or namespaces' attributes) that are set, with commas between. */
static bool stmt_targets(struct gen_jparser *p, struct gen_jnode **out)
{
    bool open = gen_jp_take(p, "(");
    do {
        struct gen_jnode *target = gen_jp_node(p, GEN_JN_NAME);
        if (!target || !(target->name = gen_jp_name(p))) return false;
        if (gen_jp_take(p, ".")) {
            struct gen_jnode *attribute = gen_jp_node(p, GEN_JN_ATTRIBUTE);
            if (!attribute || !(attribute->name = gen_jp_name(p))) return false;
            attribute->a = target;
            target = attribute;
        }
        *out = target;
        out = &target->next;
    } while (gen_jp_take(p, ","));
    return !p->err && (!open || gen_jp_expect(p, ")"));
}

static struct gen_jnode *stmt_for(struct gen_jparser *p)
{
    static const char *const ends[] = {"else", "endfor", NULL};
    struct gen_jnode *node = gen_jp_node(p, GEN_JN_FOR);
    if (!node || !stmt_targets(p, &node->args)) return NULL;
    if (!gen_jp_take_name(p, "in")) return gen_jp_fail(p, -EINVAL, "expected 'in'");
    node->a = gen_jp_tuple(p, false);
    if (gen_jp_take_name(p, "if") && !(node->b = gen_jp_expression(p, true))) return NULL;
    if (!p->err && gen_jp_names(p, "recursive"))
        return gen_jp_fail(p, -ENOTSUP, "a recursive loop is not supported");
    if (!stmt_end(p)) return NULL;
    p->loops++;
    node->body = stmt_list(p, ends);
    p->loops--;
    if (gen_jp_take_name(p, "else"))
        return stmt_end(p) && stmt_body(p, "endfor", &node->otherwise) ? node : NULL;
    return gen_jp_take_name(p, "endfor") && stmt_end(p) ? node : NULL;
}

static struct gen_jnode *stmt_if(struct gen_jparser *p)
{
    static const char *const ends[] = {"elif", "else", "endif", NULL};
    struct gen_jnode *first = gen_jp_node(p, GEN_JN_IF), *node = first;
    while (node) {
        if (!(node->a = gen_jp_tuple(p, true)) || !stmt_end(p)) return NULL;
        node->body = stmt_list(p, ends);
        if (!gen_jp_take_name(p, "elif")) break;
        node->otherwise = gen_jp_node(p, GEN_JN_IF);
        node = node->otherwise;
    }
    if (!node || p->err) return NULL;
    if (gen_jp_take_name(p, "else"))
        return stmt_end(p) && stmt_body(p, "endif", &node->otherwise) ? first : NULL;
    return gen_jp_take_name(p, "endif") && stmt_end(p) ? first : NULL;
}

static struct gen_jnode *stmt_set(struct gen_jparser *p)
{
    struct gen_jnode *node = gen_jp_node(p, GEN_JN_SET);
    if (!node || !stmt_targets(p, &node->args)) return NULL;
    if (gen_jp_take(p, "=")) return (node->a = gen_jp_tuple(p, true)) && stmt_end(p) ? node : NULL;
    node->b = gen_jp_filters(p, NULL);
    return stmt_end(p) && stmt_body(p, "endset", &node->body) ? node : NULL;
}

/* The parameters of a macro, after the opening parenthesis: names, some with what they are otherwise. */
static bool stmt_parameters(struct gen_jparser *p, struct gen_jnode **out)
{
    while (!gen_jp_take(p, ")")) {
        struct gen_jnode *parameter = gen_jp_node(p, GEN_JN_KEYWORD);
        if (!parameter || !(parameter->name = gen_jp_name(p))) return false;
        if (gen_jp_take(p, "=") && !(parameter->a = gen_jp_expression(p, true))) return false;
        *out = parameter;
        out = &parameter->next;
        if (!gen_jp_is(p, ")") && !gen_jp_expect(p, ",")) return false;
    }
    return !p->err;
}

/* Loops around a macro are not loops of its body. */
static bool stmt_own_body(struct gen_jparser *p, const char *name, struct gen_jnode **out)
{
    unsigned loops = p->loops;
    p->loops = 0;
    bool done = stmt_end(p) && stmt_body(p, name, out);
    p->loops = loops;
    return done;
}

static struct gen_jnode *stmt_macro(struct gen_jparser *p)
{
    struct gen_jnode *node = gen_jp_node(p, GEN_JN_MACRO);
    if (!node || !(node->name = gen_jp_name(p)) || !gen_jp_expect(p, "(") || !stmt_parameters(p, &node->args))
        return NULL;
    return stmt_own_body(p, "endmacro", &node->body) ? node : NULL;
}

static struct gen_jnode *stmt_call(struct gen_jparser *p)
{
    struct gen_jnode *node = gen_jp_node(p, GEN_JN_CALL_BLOCK);
    if (!node || (gen_jp_take(p, "(") && !stmt_parameters(p, &node->args))) return NULL;
    node->a = gen_jp_expression(p, true);
    if (node->a && node->a->kind != GEN_JN_CALL)
        return gen_jp_fail(p, -EINVAL, "{%% call %%} must call a macro");
    return stmt_own_body(p, "endcall", &node->body) ? node : NULL;
}

static struct gen_jnode *stmt_filter(struct gen_jparser *p)
{
    struct gen_jnode *node = gen_jp_node(p, GEN_JN_FILTER_BLOCK);
    if (!node || !(node->a = gen_jp_filters(p, gen_jp_filter(p, NULL))) || !stmt_end(p)) return NULL;
    return stmt_body(p, "endfilter", &node->body) ? node : NULL;
}

static struct gen_jnode *stmt_with(struct gen_jparser *p)
{
    struct gen_jnode *node = gen_jp_node(p, GEN_JN_SCOPE), **end = node ? &node->args : NULL;
    while (node && !p->err && p->token.kind == GEN_JW_NAME) {
        struct gen_jnode *part = gen_jp_node(p, GEN_JN_KEYWORD);
        if (!part || !(part->name = gen_jp_name(p)) || !gen_jp_expect(p, "=") ||
            !(part->a = gen_jp_expression(p, true)))
            return NULL;
        *end = part;
        end = &part->next;
        if (!gen_jp_take(p, ",")) break;
    }
    return node && stmt_end(p) && stmt_body(p, "endwith", &node->body) ? node : NULL;
}

/* {% generation %} marks what the model says, for training: here only its body counts. */
static struct gen_jnode *stmt_generation(struct gen_jparser *p)
{
    struct gen_jnode *node = gen_jp_node(p, GEN_JN_IF);
    if (!node) return NULL;
    node->a = gen_jp_node(p, GEN_JN_CONST);
    if (!node->a) return NULL;
    node->a->value = gen_j_bool(true);
    return stmt_end(p) && stmt_body(p, "endgeneration", &node->body) ? node : NULL;
}

static struct gen_jnode *stmt_leave(struct gen_jparser *p, enum gen_jnode_kind kind)
{
    if (!p->loops) return gen_jp_fail(p, -EINVAL, "break and continue stand in loops only");
    struct gen_jnode *node = gen_jp_node(p, kind);
    return node && stmt_end(p) ? node : NULL;
}

static struct gen_jnode *parse_tag(struct gen_jparser *p)
{
    if (gen_jp_take_name(p, "if")) return stmt_if(p);
    if (gen_jp_take_name(p, "for")) return stmt_for(p);
    if (gen_jp_take_name(p, "set")) return stmt_set(p);
    if (gen_jp_take_name(p, "macro")) return stmt_macro(p);
    if (gen_jp_take_name(p, "call")) return stmt_call(p);
    if (gen_jp_take_name(p, "filter")) return stmt_filter(p);
    if (gen_jp_take_name(p, "with")) return stmt_with(p);
    if (gen_jp_take_name(p, "generation")) return stmt_generation(p);
    if (gen_jp_take_name(p, "break")) return stmt_leave(p, GEN_JN_BREAK);
    if (gen_jp_take_name(p, "continue")) return stmt_leave(p, GEN_JN_CONTINUE);
    return gen_jp_fail(p, -ENOTSUP, "the tag '%.*s' is not supported here",
                       (int)(p->token.bytes < 40 ? p->token.bytes : 40), p->token.at ? p->token.at : "");
}

static struct gen_jnode *parse_statement(struct gen_jparser *p)
{
    struct gen_jnode *node;
    if (p->token.kind == GEN_JW_DATA) {
        node = gen_jp_node(p, GEN_JN_DATA);
        if (node) node->value = gen_j_text((struct gen_jtext){.at = p->token.at, .bytes = p->token.bytes});
        return node && gen_jp_next(p) ? node : NULL;
    }
    node = gen_jp_node(p, GEN_JN_PRINT);
    if (!node || !gen_jp_next(p) || !(node->a = gen_jp_tuple(p, true))) return NULL;
    if (p->token.kind != GEN_JW_CLOSE) return gen_jp_fail(p, -EINVAL, "expected }}");
    return gen_jp_next(p) ? node : NULL;
}

static bool stmt_is_end(const struct gen_jparser *p, const char *const *ends)
{
    for (; *ends; ends++) {
        if (gen_jp_names(p, *ends)) return true;
    }
    return false;
}

/* Statements up to a tag whose name is one of `ends`; the name is the word that comes then. */
static struct gen_jnode *stmt_list(struct gen_jparser *p, const char *const *ends)
{
    struct gen_jnode *first = NULL, **end = &first;
    if (!gen_jp_enter(p)) return NULL;
    while (!p->err) {
        if (p->token.kind == GEN_JW_END) {
            if (*ends) gen_jp_fail(p, -EINVAL, "the template ends, but {%% %s %%} is missing", ends[0]);
            break;
        }
        if (p->token.kind == GEN_JW_TAG) {
            if (!gen_jp_next(p) || stmt_is_end(p, ends)) break;
            *end = parse_tag(p);
        } else {
            *end = parse_statement(p);
        }
        if (*end) end = &(*end)->next;
    }
    p->depth--;
    return p->err ? NULL : first;
}

struct gen_jnode *gen_jp_template(struct gen_jparser *p)
{
    static const char *const none[] = {NULL};
    return gen_jp_next(p) ? stmt_list(p, none) : NULL;
}
