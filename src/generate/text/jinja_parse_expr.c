/* SPDX-License-Identifier: Apache-2.0 */
/* Parses expressions, in Jinja's order of operators. */
#include <errno.h>
#include <string.h>

#include "src/generate/text/jinja_names.h"
#include "src/generate/text/jinja_parse.h"

static struct gen_jnode *parse_unary(struct gen_jparser *p, bool filters);
static struct gen_jnode *parse_or(struct gen_jparser *p);

static struct gen_jnode *expr_const(struct gen_jparser *p, struct gen_jvalue value)
{
    struct gen_jnode *node = gen_jp_node(p, GEN_JN_CONST);
    if (node) node->value = value;
    return node;
}

/* Texts that stand side by side are one. */
static struct gen_jnode *expr_text(struct gen_jparser *p)
{
    struct gen_jtext text = {.at = p->token.at, .bytes = p->token.bytes};
    while (gen_jp_next(p) && p->token.kind == GEN_JW_TEXT) {
        char *both = gen_arena_take(p->arena, text.bytes + p->token.bytes + 1);
        if (!both) return gen_jp_fail(p, -ENOMEM, "no memory for the template");
        memcpy(both, text.at, text.bytes);
        memcpy(both + text.bytes, p->token.at, p->token.bytes);
        text = (struct gen_jtext){.at = both, .bytes = text.bytes + p->token.bytes};
    }
    return expr_const(p, gen_j_text(text));
}

static struct gen_jnode *expr_name(struct gen_jparser *p)
{
    static const struct {
        const char *name;
        enum gen_jkind kind;
        int64_t number;
    } constants[] = {
        {"true", GEN_J_BOOL, 1},  {"True", GEN_J_BOOL, 1}, {"false", GEN_J_BOOL, 0},
        {"False", GEN_J_BOOL, 0}, {"none", GEN_J_NONE, 0}, {"None", GEN_J_NONE, 0},
    };
    for (size_t i = 0; i < sizeof(constants) / sizeof(constants[0]); i++) {
        if (gen_jp_take_name(p, constants[i].name))
            return expr_const(p,
                              (struct gen_jvalue){.kind = constants[i].kind, .number = constants[i].number});
    }
    struct gen_jnode *node = gen_jp_node(p, GEN_JN_NAME);
    return node && (node->name = gen_jp_name(p)) ? node : NULL;
}

/* Elements up to the closing bracket. */
static struct gen_jnode *expr_list(struct gen_jparser *p, const char *close)
{
    struct gen_jnode *list = gen_jp_node(p, GEN_JN_LIST), **end = list ? &list->args : NULL;
    while (list && !gen_jp_take(p, close)) {
        *end = gen_jp_expression(p, true);
        if (!*end) return NULL;
        end = &(*end)->next;
        if (!gen_jp_is(p, close) && !gen_jp_expect(p, ",")) return NULL;
    }
    return list;
}

static struct gen_jnode *expr_dict(struct gen_jparser *p)
{
    struct gen_jnode *dict = gen_jp_node(p, GEN_JN_DICT), **end = dict ? &dict->args : NULL;
    while (dict && !gen_jp_take(p, "}")) {
        struct gen_jnode *pair = gen_jp_node(p, GEN_JN_PAIR);
        if (!pair || !(pair->a = gen_jp_expression(p, true)) || !gen_jp_expect(p, ":") ||
            !(pair->b = gen_jp_expression(p, true)))
            return NULL;
        *end = pair;
        end = &pair->next;
        if (!gen_jp_is(p, "}") && !gen_jp_expect(p, ",")) return NULL;
    }
    return dict;
}

/* After an opening parenthesis: one value, or a tuple. */
static struct gen_jnode *expr_parenthesis(struct gen_jparser *p)
{
    if (gen_jp_is(p, ")")) {
        struct gen_jnode *empty = expr_list(p, ")");
        if (empty) empty->tuple = true;
        return empty;
    }
    struct gen_jnode *first = gen_jp_expression(p, true);
    if (!first || gen_jp_take(p, ")")) return p->err ? NULL : first;
    if (!gen_jp_expect(p, ",")) return NULL;
    struct gen_jnode *rest = expr_list(p, ")");
    if (!rest) return NULL;
    rest->tuple = true;
    first->next = rest->args;
    rest->args = first;
    return rest;
}

static struct gen_jnode *expr_primary(struct gen_jparser *p)
{
    struct gen_jtoken token = p->token;
    if (token.kind == GEN_JW_NAME) return expr_name(p);
    if (token.kind == GEN_JW_TEXT) return expr_text(p);
    if (token.kind == GEN_JW_INT && gen_jp_next(p)) return expr_const(p, gen_j_int(token.number));
    if (token.kind == GEN_JW_FLOAT && gen_jp_next(p))
        return expr_const(p, (struct gen_jvalue){.kind = GEN_J_FLOAT, .real = token.real});
    if (gen_jp_take(p, "(")) return expr_parenthesis(p);
    if (gen_jp_take(p, "[")) return expr_list(p, "]");
    if (gen_jp_take(p, "{")) return expr_dict(p);
    return gen_jp_fail(p, -EINVAL, "expected a value");
}

/* One argument: a value, or name=value. */
static struct gen_jnode *expr_argument(struct gen_jparser *p, bool named)
{
    if (gen_jp_is(p, "*") || gen_jp_is(p, "**"))
        return gen_jp_fail(p, -ENOTSUP, "arguments by * and ** are not supported");
    struct gen_jnode *value = gen_jp_expression(p, true);
    if (value && value->kind == GEN_JN_NAME && gen_jp_take(p, "=")) {
        struct gen_jnode *argument = gen_jp_node(p, GEN_JN_KEYWORD);
        if (!argument) return NULL;
        argument->name = value->name;
        argument->a = gen_jp_expression(p, true);
        return argument->a ? argument : NULL;
    }
    if (named) return gen_jp_fail(p, -EINVAL, "an argument without a name follows one with a name");
    return p->err ? NULL : value;
}

bool gen_jp_arguments(struct gen_jparser *p, struct gen_jnode **out)
{
    bool named = false;
    *out = NULL;
    while (!gen_jp_take(p, ")")) {
        struct gen_jnode *argument = expr_argument(p, named);
        if (!argument) return false;
        named = argument->kind == GEN_JN_KEYWORD;
        *out = argument;
        out = &argument->next;
        if (!gen_jp_is(p, ")") && !gen_jp_expect(p, ",")) return false;
    }
    return !p->err;
}

/* After an opening bracket: one index, or a slice. */
static struct gen_jnode *expr_item(struct gen_jparser *p, struct gen_jnode *of)
{
    struct gen_jnode *node = gen_jp_node(p, GEN_JN_ITEM);
    if (!node) return NULL;
    node->a = of;
    if (!gen_jp_is(p, ":") && !(node->b = gen_jp_expression(p, true))) return NULL;
    if (gen_jp_take(p, ":")) {
        node->kind = GEN_JN_SLICE;
        if (!gen_jp_is(p, "]") && !gen_jp_is(p, ":")) node->c = gen_jp_expression(p, true);
        if (gen_jp_take(p, ":") && !gen_jp_is(p, "]")) node->args = gen_jp_expression(p, true);
    }
    return gen_jp_expect(p, "]") ? node : NULL;
}

static struct gen_jnode *expr_dot(struct gen_jparser *p, struct gen_jnode *of)
{
    struct gen_jnode *node = gen_jp_node(p, p->token.kind == GEN_JW_INT ? GEN_JN_ITEM : GEN_JN_ATTRIBUTE);
    if (!node) return NULL;
    node->a = of;
    if (node->kind == GEN_JN_ITEM) return (node->b = expr_primary(p)) ? node : NULL;
    return (node->name = gen_jp_name(p)) ? node : NULL;
}

static struct gen_jnode *expr_call(struct gen_jparser *p, struct gen_jnode *of)
{
    struct gen_jnode *node = gen_jp_node(p, GEN_JN_CALL);
    if (!node) return NULL;
    node->a = of;
    return gen_jp_arguments(p, &node->args) ? node : NULL;
}

/* Attributes, indices and calls after a value. */
static struct gen_jnode *expr_postfix(struct gen_jparser *p, struct gen_jnode *node)
{
    while (node && !p->err) {
        if (gen_jp_take(p, "."))
            node = expr_dot(p, node);
        else if (gen_jp_take(p, "["))
            node = expr_item(p, node);
        else if (gen_jp_take(p, "("))
            node = expr_call(p, node);
        else
            return node;
    }
    return NULL;
}

struct gen_jnode *gen_jp_filter(struct gen_jparser *p, struct gen_jnode *of)
{
    struct gen_jnode *node = gen_jp_node(p, GEN_JN_FILTER);
    if (!node || !(node->name = gen_jp_name(p))) return NULL;
    node->a = of;
    node->op = gen_jfilter_find(&node->name->text);
    if (node->op < 0)
        return gen_jp_fail(p, -ENOTSUP, "the filter '%.*s' is not supported", (int)node->name->text.bytes,
                           node->name->text.at);
    if (gen_jp_take(p, "(") && !gen_jp_arguments(p, &node->args)) return NULL;
    return p->err ? NULL : node;
}

/* Whether the word that comes begins the argument of a test, which needs no parentheses. */
static bool test_argument(const struct gen_jparser *p)
{
    if (p->token.kind == GEN_JW_TEXT || p->token.kind == GEN_JW_INT || p->token.kind == GEN_JW_FLOAT)
        return true;
    if (p->token.kind == GEN_JW_NAME)
        return !gen_jp_names(p, "else") && !gen_jp_names(p, "or") && !gen_jp_names(p, "and") &&
               !gen_jp_names(p, "if") && !gen_jp_names(p, "is") && !gen_jp_names(p, "in") &&
               !gen_jp_names(p, "not");
    return gen_jp_is(p, "[") || gen_jp_is(p, "{");
}

/* After `is`. */
static struct gen_jnode *expr_test(struct gen_jparser *p, struct gen_jnode *of)
{
    struct gen_jnode *node = gen_jp_node(p, GEN_JN_TEST);
    if (!node) return NULL;
    node->a = of;
    node->negated = gen_jp_take_name(p, "not");
    if (!(node->name = gen_jp_name(p))) return NULL;
    node->op = gen_jtest_find(&node->name->text);
    if (node->op < 0)
        return gen_jp_fail(p, -ENOTSUP, "the test '%.*s' is not supported", (int)node->name->text.bytes,
                           node->name->text.at);
    if (gen_jp_take(p, "(")) return gen_jp_arguments(p, &node->args) ? node : NULL;
    if (!p->err && test_argument(p)) node->args = expr_postfix(p, expr_primary(p));
    return p->err ? NULL : node;
}

/* Filters and tests after a value, and calls of what they give. */
static struct gen_jnode *expr_suffixes(struct gen_jparser *p, struct gen_jnode *node, bool tests)
{
    while (node && !p->err) {
        if (gen_jp_take(p, "|"))
            node = gen_jp_filter(p, node);
        else if (tests && gen_jp_take_name(p, "is"))
            node = expr_test(p, node);
        else if (gen_jp_take(p, "("))
            node = expr_call(p, node);
        else
            return node;
    }
    return NULL;
}

struct gen_jnode *gen_jp_filters(struct gen_jparser *p, struct gen_jnode *node)
{
    while (!p->err && gen_jp_take(p, "|")) node = gen_jp_filter(p, node);
    return p->err ? NULL : node;
}

static struct gen_jnode *parse_sign(struct gen_jparser *p, enum gen_jnode_kind kind)
{
    struct gen_jnode *node = gen_jp_node(p, kind);
    return node && (node->a = parse_unary(p, false)) ? node : NULL;
}

static struct gen_jnode *parse_unary(struct gen_jparser *p, bool filters)
{
    if (!gen_jp_enter(p)) return NULL;
    struct gen_jnode *node;
    if (gen_jp_take(p, "-"))
        node = parse_sign(p, GEN_JN_NEGATE);
    else if (gen_jp_take(p, "+"))
        node = parse_sign(p, GEN_JN_PLUS);
    else
        node = p->err ? NULL : expr_primary(p);
    node = expr_postfix(p, node);
    if (filters) node = expr_suffixes(p, node, true);
    p->depth--;
    return node;
}

/* Operators of one strength, from the weakest; each binds to the left. */
struct level {
    const char *text[6];
    int op[6];
};

static struct gen_jnode *parse_level(struct gen_jparser *p, unsigned level)
{
    static const struct level levels[] = {
        {{"+", "-"}, {'+', '-'}},
        {{"~"}, {'~'}},
        {{"*", "/", "//", "%"}, {'*', '/', GEN_JO_FLOOR, '%'}},
        {{"**"}, {GEN_JO_POWER}},
    };
    if (level == sizeof(levels) / sizeof(levels[0])) return parse_unary(p, true);
    struct gen_jnode *left = parse_level(p, level + 1);
    for (unsigned i = 0; left && i < 6 && levels[level].text[i];) {
        if (!gen_jp_take(p, levels[level].text[i])) {
            i++;
            continue;
        }
        struct gen_jnode *node = gen_jp_node(p, GEN_JN_BINARY);
        if (!node) return NULL;
        node->op = levels[level].op[i];
        node->a = left;
        node->b = parse_level(p, level + 1);
        if (!node->b) return NULL;
        left = node;
        i = 0;
    }
    return p->err ? NULL : left;
}

/* The comparison that comes, or 0. */
static int take_comparison(struct gen_jparser *p)
{
    static const struct level comparisons = {{"==", "!=", "<=", ">=", "<", ">"},
                                             {GEN_JO_EQ, GEN_JO_NE, GEN_JO_LE, GEN_JO_GE, '<', '>'}};
    for (unsigned i = 0; i < 6; i++) {
        if (gen_jp_take(p, comparisons.text[i])) return comparisons.op[i];
    }
    if (gen_jp_take_name(p, "in")) return GEN_JO_IN;
    if (!gen_jp_take_name(p, "not")) return 0;
    if (gen_jp_take_name(p, "in")) return GEN_JO_NOT_IN;
    gen_jp_fail(p, -EINVAL, "expected 'in' after 'not'");
    return 0;
}

static struct gen_jnode *parse_compare(struct gen_jparser *p)
{
    struct gen_jnode *left = parse_level(p, 0), *node = NULL, **end = NULL;
    int op;
    while (left && (op = take_comparison(p)) != 0) {
        struct gen_jnode *part = gen_jp_node(p, GEN_JN_COMPARE);
        if (!part) return NULL;
        part->op = op;
        if (!node) {
            node = part;
            node->a = left;
            node->b = parse_level(p, 0);
            end = &node->args;
        } else {
            part->a = parse_level(p, 0);
            *end = part;
            end = &part->next;
        }
        if (p->err) return NULL;
    }
    return p->err ? NULL : node ? node : left;
}

static struct gen_jnode *parse_not(struct gen_jparser *p)
{
    if (!gen_jp_take_name(p, "not")) return p->err ? NULL : parse_compare(p);
    struct gen_jnode *node = gen_jp_node(p, GEN_JN_NOT);
    if (!node || !gen_jp_enter(p)) return NULL;
    node->a = parse_not(p);
    p->depth--;
    return node->a ? node : NULL;
}

static struct gen_jnode *parse_and(struct gen_jparser *p)
{
    struct gen_jnode *left = parse_not(p);
    while (left && gen_jp_take_name(p, "and")) {
        struct gen_jnode *node = gen_jp_node(p, GEN_JN_AND);
        if (!node || !(node->b = parse_not(p))) return NULL;
        node->a = left;
        left = node;
    }
    return p->err ? NULL : left;
}

static struct gen_jnode *parse_or(struct gen_jparser *p)
{
    struct gen_jnode *left = parse_and(p);
    while (left && gen_jp_take_name(p, "or")) {
        struct gen_jnode *node = gen_jp_node(p, GEN_JN_OR);
        if (!node || !(node->b = parse_and(p))) return NULL;
        node->a = left;
        left = node;
    }
    return p->err ? NULL : left;
}

struct gen_jnode *gen_jp_expression(struct gen_jparser *p, bool choice)
{
    if (p->err || !gen_jp_enter(p)) return NULL;
    struct gen_jnode *value = parse_or(p);
    while (value && choice && gen_jp_take_name(p, "if")) {
        struct gen_jnode *node = gen_jp_node(p, GEN_JN_CHOICE);
        if (!node || !(node->b = parse_or(p))) return NULL;
        node->a = value;
        if (gen_jp_take_name(p, "else") && !(node->c = gen_jp_expression(p, true))) return NULL;
        value = node;
    }
    p->depth--;
    return p->err ? NULL : value;
}

struct gen_jnode *gen_jp_tuple(struct gen_jparser *p, bool choice)
{
    struct gen_jnode *first = gen_jp_expression(p, choice);
    if (!first || !gen_jp_is(p, ",")) return first;
    struct gen_jnode *list = gen_jp_node(p, GEN_JN_LIST), **end = &first->next;
    if (!list) return NULL;
    list->args = first;
    list->tuple = true;
    while (gen_jp_take(p, ",") && p->token.kind != GEN_JW_TAG_END && p->token.kind != GEN_JW_CLOSE) {
        *end = gen_jp_expression(p, choice);
        if (!*end) return NULL;
        end = &(*end)->next;
    }
    return p->err ? NULL : list;
}
