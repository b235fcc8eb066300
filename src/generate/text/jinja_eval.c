/* SPDX-License-Identifier: Apache-2.0 */
/* Evaluates expressions. */
#include "src/generate/text/jinja_eval.h"

#include <errno.h>

#include "src/generate/text/jinja_filter.h"
#include "src/generate/text/jinja_function.h"
#include "src/generate/text/jinja_member.h"
#include "src/generate/text/jinja_method.h"
#include "src/generate/text/jinja_test.h"

struct gen_jvalue *gen_j_lookup(struct gen_jscope *scope, const struct gen_jname *name)
{
    for (; scope; scope = scope->parent) {
        for (struct gen_jvariable *v = scope->variables; v; v = v->next) {
            if (v->name == name) return &v->value;
        }
    }
    return NULL;
}

bool gen_j_set(struct gen_jinja *j, struct gen_jscope *scope, const struct gen_jname *name,
               const struct gen_jvalue *value)
{
    for (struct gen_jvariable *v = scope->variables; v; v = v->next) {
        if (v->name == name) {
            v->value = *value;
            return true;
        }
    }
    struct gen_jvariable *v = gen_j_take(j, sizeof(*v));
    if (!v) return false;
    *v = (struct gen_jvariable){.name = name, .value = *value, .next = scope->variables};
    scope->variables = v;
    return true;
}

bool gen_j_scope(struct gen_jrun *r, struct gen_jscope *parent)
{
    struct gen_jscope *scope = gen_j_take(&r->j, sizeof(*scope));
    if (!scope) return false;
    scope->parent = parent;
    r->scope = scope;
    return true;
}

bool gen_j_arguments(struct gen_jrun *r, const struct gen_jnode *nodes, struct gen_jargs *out)
{
    *out = (struct gen_jargs){0};
    for (; nodes; nodes = nodes->next) {
        struct gen_jvalue value, name;
        if (!gen_j_eval(r, nodes->kind == GEN_JN_KEYWORD ? nodes->a : nodes, &value)) return false;
        if (nodes->kind != GEN_JN_KEYWORD) {
            if (!gen_j_push(&r->j, &out->values, &value)) return false;
            continue;
        }
        name = gen_j_text(nodes->name->text);
        if (!gen_j_push(&r->j, &out->names, &name) || !gen_j_push(&r->j, &out->named, &value)) return false;
    }
    return true;
}

static bool eval_name(struct gen_jrun *r, const struct gen_jnode *node, struct gen_jvalue *out)
{
    const struct gen_jvalue *value = gen_j_lookup(r->scope, node->name);
    int function = value ? -1 : gen_jfunction_find(&node->name->text);
    if (value)
        *out = *value;
    else if (function >= 0)
        *out = (struct gen_jvalue){.kind = GEN_J_FUNCTION, .number = function};
    else
        *out = gen_j_undefined(node->name->text);
    return true;
}

static bool eval_list(struct gen_jrun *r, const struct gen_jnode *node, struct gen_jvalue *out)
{
    struct gen_jvalue value;
    if (!gen_j_list(&r->j, out)) return false;
    out->list->tuple = node->tuple;
    for (const struct gen_jnode *n = node->args; n; n = n->next) {
        if (!gen_j_eval(r, n, &value) || !gen_j_push(&r->j, out->list, &value)) return false;
    }
    return true;
}

static bool eval_dict(struct gen_jrun *r, const struct gen_jnode *node, struct gen_jvalue *out)
{
    struct gen_jvalue key, value;
    if (!gen_j_dict(&r->j, GEN_J_DICT, out)) return false;
    for (const struct gen_jnode *n = node->args; n; n = n->next) {
        if (!gen_j_eval(r, n->a, &key) || !gen_j_eval(r, n->b, &value) ||
            !gen_j_put(&r->j, out->dict, &key, &value))
            return false;
    }
    return true;
}

static bool eval_slice(struct gen_jrun *r, const struct gen_jnode *node, struct gen_jvalue *out)
{
    const struct gen_jnode *parts[3] = {node->b, node->c, node->args};
    struct gen_jvalue of, bounds[3];
    if (!gen_j_eval(r, node->a, &of)) return false;
    for (unsigned i = 0; i < 3; i++) {
        bounds[i] = gen_j_none();
        if (parts[i] && !gen_j_eval(r, parts[i], &bounds[i])) return false;
    }
    return gen_j_slice(&r->j, &of, bounds, out);
}

/* loop.cycle("odd", "even") and loop.changed(value) */
static bool eval_loop_call(struct gen_jrun *r, struct gen_jloop *loop, const struct gen_jnode *node,
                           struct gen_jvalue *out)
{
    struct gen_jargs args;
    if (!gen_j_arguments(r, node->args, &args)) return false;
    if (gen_j_is(&node->a->name->text, "cycle") && args.values.count) {
        *out = args.values.at[loop->index % args.values.count];
        return true;
    }
    if (!gen_j_is(&node->a->name->text, "changed"))
        return gen_j_fail(&r->j, -ENOTSUP, "a loop has no function of this name that is supported");
    struct gen_jvalue now = {.kind = GEN_J_LIST, .list = gen_j_take(&r->j, sizeof(struct gen_jlist))};
    struct gen_jvalue *kept = gen_j_take(&r->j, sizeof(*kept));
    if (!now.list || !kept) return false;
    *now.list = args.values;
    *out = gen_j_bool(!loop->changed || !gen_j_equal(&r->j, loop->changed, &now));
    *kept = now;
    loop->changed = kept;
    return !r->j.err;
}

static bool eval_call(struct gen_jrun *r, const struct gen_jnode *node, struct gen_jvalue *out)
{
    struct gen_jvalue of;
    struct gen_jargs args;
    if (node->a->kind == GEN_JN_ATTRIBUTE) {
        struct gen_jvalue owner;
        if (!gen_j_eval(r, node->a->a, &owner)) return false;
        if (owner.kind == GEN_J_LOOP) return eval_loop_call(r, owner.loop, node, out);
        if (!gen_j_attribute(&r->j, &owner, &node->a->name->text, &of)) return false;
    } else if (!gen_j_eval(r, node->a, &of)) {
        return false;
    }
    if (!gen_j_arguments(r, node->args, &args)) return false;
    r->j.line = node->line;
    if (of.kind == GEN_J_FUNCTION)
        return gen_jfunction_call(&r->j, (enum gen_jfunction)of.number, &args, out);
    if (of.kind == GEN_J_METHOD) return gen_jmethod_call(&r->j, of.method, &args, out);
    if (of.kind == GEN_J_MACRO) return r->macro(r, of.macro, &args, out);
    if (of.kind == GEN_J_UNDEFINED)
        return gen_j_fail(&r->j, -EINVAL, "'%.*s' is undefined",
                          (int)(of.text.bytes < 60 ? of.text.bytes : 60), of.text.at ? of.text.at : "");
    return gen_j_fail(&r->j, -EINVAL, "%s cannot be called", gen_j_type(&of));
}

static bool eval_filter(struct gen_jrun *r, const struct gen_jnode *node, struct gen_jvalue *out)
{
    struct gen_jvalue of;
    struct gen_jargs args;
    return gen_j_eval(r, node->a, &of) && gen_j_arguments(r, node->args, &args) &&
           gen_jfilter_apply(&r->j, (enum gen_jfilter)node->op, &of, &args, out);
}

static bool eval_test(struct gen_jrun *r, const struct gen_jnode *node, struct gen_jvalue *out)
{
    struct gen_jvalue of;
    struct gen_jargs args;
    bool yes;
    if (!gen_j_eval(r, node->a, &of) || !gen_j_arguments(r, node->args, &args) ||
        !gen_jtest_apply(&r->j, (enum gen_jtest)node->op, &of, &args, &yes))
        return false;
    *out = gen_j_bool(yes != node->negated);
    return true;
}

static bool eval_compare_one(struct gen_jrun *r, int op, const struct gen_jvalue *a,
                             const struct gen_jvalue *b, bool *yes)
{
    int order;
    if (op == GEN_JO_EQ || op == GEN_JO_NE) {
        *yes = gen_j_equal(&r->j, a, b) == (op == GEN_JO_EQ);
        return !r->j.err;
    }
    if (op == GEN_JO_IN || op == GEN_JO_NOT_IN) {
        if (!gen_j_contains(&r->j, b, a, yes)) return false;
        *yes = *yes == (op == GEN_JO_IN);
        return true;
    }
    if (!gen_j_order(&r->j, a, b, &order)) return false;
    *yes = op == '<' ? order < 0 : op == '>' ? order > 0 : op == GEN_JO_LE ? order <= 0 : order >= 0;
    return true;
}

/* a < b < c: each value is made once, and the first no ends it. */
static bool eval_compare(struct gen_jrun *r, const struct gen_jnode *node, struct gen_jvalue *out)
{
    struct gen_jvalue left, right;
    bool yes;
    if (!gen_j_eval(r, node->a, &left) || !gen_j_eval(r, node->b, &right) ||
        !eval_compare_one(r, node->op, &left, &right, &yes))
        return false;
    for (const struct gen_jnode *n = node->args; n && yes; n = n->next) {
        left = right;
        if (!gen_j_eval(r, n->a, &right) || !eval_compare_one(r, n->op, &left, &right, &yes)) return false;
    }
    *out = gen_j_bool(yes);
    return true;
}

static bool eval_sign(struct gen_jrun *r, const struct gen_jnode *node, struct gen_jvalue *out)
{
    struct gen_jvalue zero = gen_j_int(0), v;
    if (!gen_j_eval(r, node->a, &v)) return false;
    return gen_j_binary(&r->j, node->kind == GEN_JN_NEGATE ? '-' : '+', &zero, &v, out);
}

/* `and` and `or` give one of their values, and make the second only where it counts. */
static bool eval_logic(struct gen_jrun *r, const struct gen_jnode *node, struct gen_jvalue *out)
{
    if (!gen_j_eval(r, node->a, out)) return false;
    return gen_j_truth(out) == (node->kind == GEN_JN_OR) || gen_j_eval(r, node->b, out);
}

static bool eval_choice(struct gen_jrun *r, const struct gen_jnode *node, struct gen_jvalue *out)
{
    struct gen_jvalue yes;
    if (!gen_j_eval(r, node->b, &yes)) return false;
    if (gen_j_truth(&yes)) return gen_j_eval(r, node->a, out);
    if (node->c) return gen_j_eval(r, node->c, out);
    *out = gen_j_undefined((struct gen_jtext){0});
    return true;
}

static bool eval_pair(struct gen_jrun *r, const struct gen_jnode *node, struct gen_jvalue *out)
{
    struct gen_jvalue a, b;
    if (!gen_j_eval(r, node->a, &a) || !gen_j_eval(r, node->b, &b)) return false;
    return node->kind == GEN_JN_ITEM ? gen_j_item(&r->j, &a, &b, out)
                                     : gen_j_binary(&r->j, node->op, &a, &b, out);
}

static bool eval_one(struct gen_jrun *r, const struct gen_jnode *node, struct gen_jvalue *out)
{
    struct gen_jvalue of;
    switch (node->kind) {
    case GEN_JN_CONST: *out = node->value; return true;
    case GEN_JN_NAME: return eval_name(r, node, out);
    case GEN_JN_LIST: return eval_list(r, node, out);
    case GEN_JN_DICT: return eval_dict(r, node, out);
    case GEN_JN_ATTRIBUTE:
        return gen_j_eval(r, node->a, &of) && gen_j_attribute(&r->j, &of, &node->name->text, out);
    case GEN_JN_SLICE: return eval_slice(r, node, out);
    case GEN_JN_CALL: return eval_call(r, node, out);
    case GEN_JN_FILTER: return eval_filter(r, node, out);
    case GEN_JN_TEST: return eval_test(r, node, out);
    case GEN_JN_NOT:
        if (!gen_j_eval(r, node->a, &of)) return false;
        *out = gen_j_bool(!gen_j_truth(&of));
        return true;
    case GEN_JN_NEGATE:
    case GEN_JN_PLUS: return eval_sign(r, node, out);
    case GEN_JN_AND:
    case GEN_JN_OR: return eval_logic(r, node, out);
    case GEN_JN_COMPARE: return eval_compare(r, node, out);
    case GEN_JN_CHOICE: return eval_choice(r, node, out);
    default: /* ITEM, BINARY */ return eval_pair(r, node, out);
    }
}

bool gen_j_eval(struct gen_jrun *r, const struct gen_jnode *node, struct gen_jvalue *out)
{
    r->j.line = node->line;
    if (!gen_j_work(&r->j, 1)) return false;
    if (r->j.depth >= GEN_MAX_RENDER_DEPTH)
        return gen_j_fail(&r->j, -E2BIG, "expressions or macros stand in each other more than %d deep",
                          GEN_MAX_RENDER_DEPTH);
    r->j.depth++;
    bool done = eval_one(r, node, out);
    r->j.depth--;
    return done;
}
