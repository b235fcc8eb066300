/* SPDX-License-Identifier: Apache-2.0 */
/* Walks the nodes of an ONNX decoder, which stand in the order of their use, and closes the program. */
#include "src/generate/import/onnx_import.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <gpuwire/error.h>

#include "src/generate/import/onnx_graph.h"
#include "src/generate/import/rope.h"
#include "src/model/import/source.h"

/* Is the name the pattern, with a number for "%d"? */
static bool matches(const char *pattern, const char *name, uint32_t *number)
{
    const char *at = strstr(pattern, "%d");
    size_t before = at ? (size_t)(at - pattern) : 0;
    char *end;

    if (!at || strncmp(pattern, name, before) || name[before] < '0' || name[before] > '9') return false;
    unsigned long n = strtoul(name + before, &end, 10);
    *number = (uint32_t)n;
    return n <= GEN_PROGRAM_MAX_OPS && !strcmp(end, at + 2);
}

/* What an input of the graph is to us. */
static int onnx_input(struct gen_onnx *o, const char *name, const struct gen_onnx_names *names)
{
    struct gen_onnx_value v = {.kind = GEN_ONNX_RUNTIME};

    if (!strcmp(name, names->tokens))
        v.kind = GEN_ONNX_TOKENS;
    else if (!strcmp(name, names->positions))
        v.kind = GEN_ONNX_POSITIONS;
    else if (matches(names->past_key, name, &v.layer))
        v.kind = GEN_ONNX_PAST;
    else if (matches(names->past_value, name, &v.layer)) {
        v.kind = GEN_ONNX_PAST;
        v.values = true;
    } else if (strcmp(name, names->mask)) {
        return gwm_fail(o->im.msg, -ENOTSUP, "the input '%.60s' is not supported", name);
    }
    return gen_onnx_define(o, name, &v);
}

static const struct gen_onnx_operator *onnx_find(const char *type)
{
    const struct gen_onnx_operator *table[] = {gen_onnx_simple, gen_onnx_products, gen_onnx_norms,
                                               gen_onnx_attends};

    for (size_t t = 0; t < sizeof(table) / sizeof(table[0]); t++)
        for (const struct gen_onnx_operator *op = table[t]; op->name; op++)
            if (!strcmp(op->name, type)) return op;
    return NULL;
}

/* Looks the inputs up. */
static int onnx_inputs(struct gen_onnx *o)
{
    const Onnx__NodeProto *n = o->im.node;

    if (n->n_input > GEN_ONNX_MAX_INPUTS) return gwm_op_fail(&o->im, -ENOTSUP, "%zu inputs", n->n_input);
    o->im.nin = (uint32_t)n->n_input;
    memset(o->in, 0, sizeof(o->in));
    for (uint32_t i = 0; i < o->im.nin; i++) {
        if (!*n->input[i]) continue;
        const struct gwm_name *found = gwm_names_find(o->im.names, n->input[i]);
        if (!found->name)
            return gwm_op_fail(&o->im, -EBADMSG, "nothing makes its input '%.60s'", n->input[i]);
        o->in[i] = &o->value[found->value];
    }
    return 0;
}

/* Nodes of sizes and masks alone make what a step knows anyway. */
static bool onnx_runtime(const struct gen_onnx *o)
{
    bool runtime = false;

    for (uint32_t i = 0; i < o->im.nin; i++) {
        if (gen_onnx_is(o, i, GEN_ONNX_ROWS)) return false;
        runtime = runtime || gen_onnx_is(o, i, GEN_ONNX_RUNTIME);
    }
    return runtime;
}

/* An attribute that is not known may change what the operator computes. */
static int onnx_attributes(struct gen_onnx *o, const char *known)
{
    const Onnx__NodeProto *n = o->im.node;

    for (size_t i = 0; i < n->n_attribute; i++) {
        const char *name = n->attribute[i]->name ? n->attribute[i]->name : "", *at = known;
        size_t len = strlen(name);
        while (*at && (strncmp(at, name, len) || at[len] != ' ')) at += strcspn(at, " ") + 1;
        if (!*at) return gwm_op_fail(&o->im, -ENOTSUP, "attribute '%.60s' is not supported", name);
    }
    return 0;
}

static int onnx_node(struct gen_onnx *o, const Onnx__NodeProto *n)
{
    const struct gen_onnx_operator *op = onnx_find(n->op_type ? n->op_type : "");
    struct gen_onnx_value v = {.kind = GEN_ONNX_RUNTIME};
    int err;

    o->im.node = n;
    if ((err = onnx_inputs(o))) return err;
    if (onnx_runtime(o)) {
        for (uint32_t i = 0; i < n->n_output && !err; i++) err = gen_onnx_set(o, i, &v);
        return err;
    }
    if (!op) return gwm_op_fail(&o->im, -ENOTSUP, "this operator is not supported");
    if (o->im.nin < op->min_in || o->im.nin > op->max_in)
        return gwm_op_fail(&o->im, -ENOTSUP, "%u inputs; supported are %u to %u", o->im.nin, op->min_in,
                           op->max_in);
    for (uint32_t i = 0; i < op->min_in; i++)
        if (!o->in[i] && strcmp(op->name, "GroupQueryAttention"))
            return gwm_op_fail(&o->im, -EBADMSG, "input %u is missing", i);
    err = onnx_attributes(o, op->attrs);
    if (!err) err = op->import(o);
    if (!err && o->b.err) err = gwm_op_fail(&o->im, o->b.err, "%s", gw_last_error());
    return err;
}

/* Which operator makes a value; ops: none. */
static uint32_t onnx_maker(const struct gen_program *p, int32_t value)
{
    uint32_t i = 0;

    while (i < p->ops && p->op[i].out != value) i++;
    return i;
}

/* Puts PICK before the last product: what follows is needed for the wanted rows alone. */
static int onnx_pick(struct gen_onnx *o, int32_t logits)
{
    struct gen_program *p = o->b.p;
    uint32_t at = onnx_maker(p, logits);
    struct gen_op pick = {.kind = GEN_PICK};

    while (at < p->ops && p->op[at].kind != GEN_LINEAR)
        at = p->op[at].kind == GEN_EMBED || p->op[at].kind == GEN_LEARNED ? p->ops
                                                                          : onnx_maker(p, p->op[at].a.value);
    if (at == p->ops) return gwm_fail(o->im.msg, -ENOTSUP, "no product makes the logits");
    pick.a = p->op[at].a;
    gen_build_op(&o->b, &pick, pick.a.width);
    if (o->b.err) return gwm_fail(o->im.msg, o->b.err, "%s", gw_last_error());
    pick = p->op[p->ops - 1]; /* it knows its result; the operators from `at` on move after it */
    memmove(&p->op[at + 1], &p->op[at], (p->ops - 1 - at) * sizeof(*p->op));
    p->op[at] = pick;
    p->op[at + 1].a = gen_build_all(&o->b, pick.out);
    return 0;
}

/* The result; what the program must know beside its operators. */
static int onnx_close(struct gen_onnx *o, const char *logits)
{
    const struct gwm_name *found = gwm_names_find(o->im.names, logits);
    struct gen_onnx_value *v = found->name ? &o->value[found->value] : NULL;

    if (!v || v->kind != GEN_ONNX_ROWS || v->form != GEN_ONNX_PLAIN || v->part.first ||
        v->last != v->part.width)
        return gwm_fail(o->im.msg, -ENOTSUP, "no rows of logits are made as '%.60s'", logits);
    o->b.p->logits = v->part.value;
    o->b.p->vocab = v->part.width;
    o->b.p->max_position = o->positions;
    return onnx_pick(o, v->part.value);
}

static int onnx_walk(struct gen_onnx *o, const Onnx__GraphProto *g, const struct gen_onnx_names *names)
{
    int err = 0;

    for (size_t i = 0; i < g->n_initializer && !err; i++) {
        struct gen_onnx_value v = {.kind = GEN_ONNX_CONSTANT};
        err = gen_constant_read(g->initializer[i], &o->x, o->im.msg, &v.constant);
        if (!err) err = gen_onnx_define(o, g->initializer[i]->name ? g->initializer[i]->name : "", &v);
    }
    for (size_t i = 0; i < g->n_input && !err; i++) {
        const char *name = g->input[i]->name ? g->input[i]->name : "";
        if (!gwm_names_find(o->im.names, name)->name)
            err = onnx_input(o, name, names); /* else an initializer */
    }
    for (size_t i = 0; i < g->n_node && !err; i++) err = onnx_node(o, g->node[i]);
    return err ? err : onnx_close(o, names->logits);
}

/* Room for every name of the file. */
static int onnx_room(struct gen_onnx *o, const Onnx__GraphProto *g)
{
    size_t room = g->n_initializer + g->n_input + 1;

    for (size_t i = 0; i < g->n_node; i++) room += g->node[i]->n_output;
    o->im.names = gwm_names_new(room);
    o->value = calloc(room, sizeof(*o->value));
    return o->im.names && o->value ? 0 : gwm_fail(o->im.msg, -ENOMEM, "no memory");
}

int gen_onnx_import(const struct gen_onnx_file *file, const struct gen_onnx_names *names,
                    struct gen_program *p, struct gwm_source **source)
{
    char text[400] = "";
    struct gwm_msg msg = {text, sizeof(text), file->name};
    struct gen_onnx o = {.im = {.msg = &msg}, .b.p = p, .x = {.maps = file->maps, .dir = file->dir}};
    struct gwm_source *s = NULL;
    int err = gwm_source_open(file->bytes, file->len, &msg, &s);

    *source = NULL;
    if (err) return gw_error(err, "%s", text);
    o.positions = GEN_MODEL_MAX_CONTEXT;
    err = onnx_room(&o, s->model->graph);
    if (!err) err = onnx_walk(&o, s->model->graph, names);
    free(o.im.names);
    free(o.value);
    free(o.x.name);
    if (err) {
        gwm_source_free(s);
        return gw_error(err, "%s", text);
    }
    *source = s;
    return 0;
}
