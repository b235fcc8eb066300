/* SPDX-License-Identifier: Apache-2.0 */
/* Runs statements: text, output, loops, conditions, variables, macros. */
#include "src/generate/text/jinja_run.h"

#include <errno.h>

#include "src/generate/text/jinja_filter.h"
#include "src/generate/text/jinja_member.h"
#include "src/generate/text/jinja_print.h"

static bool run_set_one(struct gen_jrun *r, const struct gen_jnode *target, const struct gen_jvalue *value)
{
    if (target->kind == GEN_JN_NAME) return gen_j_set(&r->j, r->scope, target->name, value);
    struct gen_jvalue of, name = gen_j_text(target->name->text);
    if (!gen_j_eval(r, target->a, &of)) return false;
    if (of.kind != GEN_J_NAMESPACE)
        return gen_j_fail(&r->j, -EINVAL, "only attributes of a namespace can be set");
    return gen_j_put(&r->j, of.dict, &name, value);
}

/* Sets one target, or several to the items of the value. */
static bool run_set_all(struct gen_jrun *r, const struct gen_jnode *targets, const struct gen_jvalue *value)
{
    struct gen_jlist items;
    size_t i = 0;
    if (!targets->next) return run_set_one(r, targets, value);
    if (!gen_j_items(&r->j, value, &items)) return false;
    for (; targets && i < items.count; targets = targets->next, i++) {
        if (!run_set_one(r, targets, &items.at[i])) return false;
    }
    return (!targets && i == items.count) ||
           gen_j_fail(&r->j, -EINVAL, "there are not as many values as names");
}

/* Runs a body with its text going to a value. */
static bool run_captured(struct gen_jrun *r, const struct gen_jnode *body, struct gen_jvalue *out)
{
    struct gen_marked made = {.marks = true}, *before = r->out;
    r->out = &made;
    bool done = gen_j_body(r, body);
    r->out = before;
    return gen_j_made(&r->j, &made, out) && done;
}

/* Filters of a block, the innermost first. */
static bool run_filters(struct gen_jrun *r, const struct gen_jnode *filter, struct gen_jvalue *value)
{
    struct gen_jvalue of = *value;
    struct gen_jargs args;
    if (!filter) return true;
    if (r->j.depth >= GEN_MAX_RENDER_DEPTH)
        return gen_j_fail(&r->j, -E2BIG, "a block has more than %d filters", GEN_MAX_RENDER_DEPTH);
    r->j.depth++;
    bool done = run_filters(r, filter->a, &of);
    r->j.depth--;
    return done && gen_j_arguments(r, filter->args, &args) &&
           gen_jfilter_apply(&r->j, (enum gen_jfilter)filter->op, &of, &args, value);
}

static bool run_set(struct gen_jrun *r, const struct gen_jnode *node)
{
    struct gen_jvalue value;
    if (node->a) return gen_j_eval(r, node->a, &value) && run_set_all(r, node->args, &value);
    struct gen_jscope *before = r->scope;
    if (!gen_j_scope(r, before)) return false;
    bool done = run_captured(r, node->body, &value) && run_filters(r, node->b, &value);
    r->scope = before;
    return done && run_set_all(r, node->args, &value);
}

static bool run_filter_block(struct gen_jrun *r, const struct gen_jnode *node)
{
    struct gen_jvalue value;
    struct gen_jscope *before = r->scope;
    if (!gen_j_scope(r, before)) return false;
    bool done = run_captured(r, node->body, &value) && run_filters(r, node->a, &value);
    r->scope = before;
    return done && gen_j_print(&r->j, &value, r->out);
}

static bool run_if(struct gen_jrun *r, const struct gen_jnode *node)
{
    struct gen_jvalue value;
    for (;;) {
        if (!gen_j_eval(r, node->a, &value)) return false;
        if (gen_j_truth(&value)) return gen_j_body(r, node->body);
        node = node->otherwise;
        if (!node || node->kind != GEN_JN_IF || node->next) return gen_j_body(r, node);
    }
}

/* The items that the loop's condition lets through. */
static bool run_chosen(struct gen_jrun *r, const struct gen_jnode *node, struct gen_jlist *items)
{
    struct gen_jlist chosen = {0};
    struct gen_jscope *before = r->scope;
    for (size_t i = 0; i < items->count; i++) {
        struct gen_jvalue yes;
        bool done = gen_j_scope(r, before) && run_set_all(r, node->args, &items->at[i]) &&
                    gen_j_eval(r, node->b, &yes);
        r->scope = before;
        if (!done || (gen_j_truth(&yes) && !gen_j_push(&r->j, &chosen, &items->at[i]))) return false;
    }
    *items = chosen;
    return true;
}

static bool run_turn(struct gen_jrun *r, const struct gen_jnode *node, struct gen_jloop *loop)
{
    struct gen_jvalue value = {.kind = GEN_J_LOOP, .loop = loop};
    struct gen_jscope *before = r->scope;
    bool done = gen_j_work(&r->j, 1) && gen_j_scope(r, before) &&
                (!r->loop || gen_j_set(&r->j, r->scope, r->loop, &value)) &&
                run_set_all(r, node->args, &loop->items.at[loop->index]) && gen_j_body(r, node->body);
    r->scope = before;
    return done;
}

static bool run_for(struct gen_jrun *r, const struct gen_jnode *node)
{
    struct gen_jvalue of;
    struct gen_jloop *loop = gen_j_take(&r->j, sizeof(*loop));
    if (!loop || !gen_j_eval(r, node->a, &of) || !gen_j_items(&r->j, &of, &loop->items) ||
        (node->b && !run_chosen(r, node, &loop->items)))
        return false;
    if (!loop->items.count) return gen_j_body(r, node->otherwise);
    for (; loop->index < loop->items.count && r->leave != GEN_JL_BREAK; loop->index++) {
        r->leave = GEN_JL_NOT;
        if (!run_turn(r, node, loop)) return false;
    }
    r->leave = GEN_JL_NOT;
    return true;
}

static bool run_macro(struct gen_jrun *r, const struct gen_jnode *node, struct gen_jvalue *out)
{
    struct gen_jmacro *macro = gen_j_take(&r->j, sizeof(*macro));
    if (!macro) return false;
    *macro = (struct gen_jmacro){.node = node, .scope = r->scope};
    *out = (struct gen_jvalue){.kind = GEN_J_MACRO, .macro = macro};
    return true;
}

/* The parameters of a macro, from the arguments, in the macro's own scope. */
static bool macro_bind(struct gen_jrun *r, const struct gen_jnode *parameters, const struct gen_jargs *args)
{
    size_t place = 0;
    for (const struct gen_jnode *p = parameters; p; p = p->next, place++) {
        const struct gen_jvalue *given = place < args->values.count ? &args->values.at[place] : NULL;
        struct gen_jvalue value = gen_j_undefined(p->name->text);
        for (size_t i = 0; !given && i < args->names.count; i++) {
            if (gen_j_same(&args->names.at[i].text, &p->name->text)) given = &args->named.at[i];
        }
        if (given)
            value = *given;
        else if (p->a && !gen_j_eval(r, p->a, &value))
            return false;
        if (!gen_j_set(&r->j, r->scope, p->name, &value)) return false;
    }
    return place >= args->values.count ||
           gen_j_fail(&r->j, -EINVAL, "a macro takes %zu arguments at most", place);
}

bool gen_j_macro(struct gen_jrun *r, const struct gen_jmacro *macro, const struct gen_jargs *args,
                 struct gen_jvalue *out)
{
    struct gen_jscope *before = r->scope;
    bool done = gen_j_scope(r, macro->scope);
    if (done && r->caller) {
        const struct gen_jvalue *caller = gen_j_arg(args, SIZE_MAX, "caller");
        done = !caller || gen_j_set(&r->j, r->scope, r->caller, caller);
    }
    done = done && macro_bind(r, macro->node->args, args) && run_captured(r, macro->node->body, out);
    r->scope = before;
    return done;
}

/* {% call f(x) %}: the macro f gets the body as its `caller`. */
static bool run_call_block(struct gen_jrun *r, const struct gen_jnode *node)
{
    struct gen_jvalue of, caller, text, name = gen_j_own("caller");
    struct gen_jargs args;
    if (!gen_j_eval(r, node->a->a, &of) || !gen_j_arguments(r, node->a->args, &args) ||
        !run_macro(r, node, &caller) || !gen_j_push(&r->j, &args.names, &name) ||
        !gen_j_push(&r->j, &args.named, &caller))
        return false;
    if (of.kind != GEN_J_MACRO)
        return gen_j_fail(&r->j, -EINVAL, "{%% call %%} needs a macro, not %s", gen_j_type(&of));
    return gen_j_macro(r, of.macro, &args, &text) && gen_j_print(&r->j, &text, r->out);
}

static bool run_with(struct gen_jrun *r, const struct gen_jnode *node)
{
    struct gen_jscope *before = r->scope;
    if (!gen_j_scope(r, before)) return false;
    bool done = true;
    for (const struct gen_jnode *n = node->args; n && done; n = n->next) {
        struct gen_jvalue value;
        done = gen_j_eval(r, n->a, &value) && gen_j_set(&r->j, r->scope, n->name, &value);
    }
    done = done && gen_j_body(r, node->body);
    r->scope = before;
    return done;
}

static bool run_statement(struct gen_jrun *r, const struct gen_jnode *node)
{
    struct gen_jvalue value;
    switch (node->kind) {
    case GEN_JN_DATA: gen_j_write(r->out, &node->value.text); return gen_j_fits(&r->j, r->out);
    case GEN_JN_PRINT: return gen_j_eval(r, node->a, &value) && gen_j_print(&r->j, &value, r->out);
    case GEN_JN_FOR: return run_for(r, node);
    case GEN_JN_IF: return run_if(r, node);
    case GEN_JN_SET: return run_set(r, node);
    case GEN_JN_MACRO: return run_macro(r, node, &value) && gen_j_set(&r->j, r->scope, node->name, &value);
    case GEN_JN_CALL_BLOCK: return run_call_block(r, node);
    case GEN_JN_FILTER_BLOCK: return run_filter_block(r, node);
    case GEN_JN_SCOPE: return run_with(r, node);
    default: r->leave = node->kind == GEN_JN_BREAK ? GEN_JL_BREAK : GEN_JL_CONTINUE; return true;
    }
}

bool gen_j_body(struct gen_jrun *r, const struct gen_jnode *node)
{
    if (r->j.depth >= GEN_MAX_RENDER_DEPTH)
        return gen_j_fail(&r->j, -E2BIG, "statements or macros stand in each other more than %d deep",
                          GEN_MAX_RENDER_DEPTH);
    r->j.depth++;
    bool done = true;
    for (; node && done && r->leave == GEN_JL_NOT; node = node->next) {
        r->j.line = node->line;
        done = gen_j_work(&r->j, 1) && run_statement(r, node);
    }
    r->j.depth--;
    return done;
}
