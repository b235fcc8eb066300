/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The graph of a file, in one pass over the nodes (the format demands that they are sorted): names are
 * resolved, shapes inferred and constants folded as the nodes come by.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "src/model/import/walk.h"

#include "src/model/graph/msg.h"
#include "src/model/import/names.h"
#include "src/model/import/tensor.h"

static const struct gwm_operator *find_operator(const char *type)
{
    const struct gwm_operator *const tables[] = {gwm_ops_window, gwm_ops_elementwise, gwm_ops_product,
                                                 gwm_ops_reduce, gwm_ops_shape,       gwm_ops_move,
                                                 gwm_ops_index,  gwm_ops_resize,      gwm_ops_scatter};

    for (size_t t = 0; t < sizeof(tables) / sizeof(tables[0]); t++)
        for (const struct gwm_operator *op = tables[t]; op->name; op++)
            if (!strcmp(op->name, type)) return op;
    return NULL;
}

/* An attribute we do not know could change what the operator means. */
static int check_attributes(const struct gwm_import *im, const struct gwm_operator *op)
{
    for (size_t i = 0; i < im->node->n_attribute; i++) {
        const char *name = im->node->attribute[i]->name;
        size_t len = name ? strlen(name) : 0;
        const char *p = op->attrs;
        while (len && *p && (strncmp(p, name, len) || p[len] != ' ')) p = strchr(p, ' ') + 1;
        if (!len || !*p)
            return gwm_op_fail(im, -ENOTSUP, "attribute '%.60s' is not supported", name ? name : "");
    }
    return 0;
}

/* Resolves the node's inputs into values; 1: one of them is unknown, because the node before failed. */
static int find_inputs(struct gwm_import *im, const struct gwm_operator *op, int *in)
{
    const Onnx__NodeProto *n = im->node;
    bool unknown = false;

    for (size_t i = 0; i < n->n_input; i++) {
        in[i] = -1;
        if (!*n->input[i]) {
            if (i < op->min_in) return gwm_op_fail(im, -EBADMSG, "input %zu is missing", i);
            continue;
        }
        const struct gwm_name *s = gwm_names_find(im->names, n->input[i]);
        if (!s->name)
            return gwm_op_fail(im, -EBADMSG, "input '%.60s' is not made by any node before it", n->input[i]);
        if (s->value == GWM_NOT_COMPUTED)
            return gwm_op_fail(im, -ENOTSUP,
                               "input '%.60s' is an operator's second output; only the first is supported",
                               n->input[i]);
        in[i] = s->value;
        unknown = unknown || s->value < 0;
        uint32_t dtype = s->value >= 0 && i == 0 ? im->g->value[s->value].dtype : GWM_F32;
        if (dtype == GWM_F64 && !op->takes)
            return gwm_op_fail(
                im, -ENOTSUP, "input '%.60s' is a float64 tensor; convert the model to float32", n->input[i]);
        if (dtype == GWM_I64 && op->takes != true)
            return gwm_op_fail(im, -ENOTSUP, "input '%.60s' is an integer tensor; only floats are supported",
                               n->input[i]);
    }
    return unknown;
}

/* Defines the outputs that the operator has not. */
static int define_rest(struct gwm_import *im, int as)
{
    const Onnx__NodeProto *n = im->node;
    int err = 0;

    for (size_t i = im->done; i < n->n_output && err >= 0; i++)
        err = *n->output[i] ? gwm_define(im, n->output[i], as) : 0;
    return err;
}

static int import_node(struct gwm_import *im, const Onnx__NodeProto *n)
{
    int local[16], *in = local, err;

    im->node = n;
    im->done = 0;
    if (n->domain && *n->domain && strcmp(n->domain, "ai.onnx"))
        return gwm_op_fail(im, -ENOTSUP, "operators of domain '%.60s' are not supported", n->domain);
    const struct gwm_operator *op = n->op_type ? find_operator(n->op_type) : NULL;
    if (!op) return gwm_op_fail(im, -ENOTSUP, "the operator is not supported");
    if (n->n_input < op->min_in || n->n_input > op->max_in)
        return gwm_op_fail(im, -EBADMSG, "%zu inputs, expected %u to %u", n->n_input, op->min_in, op->max_in);
    if (!n->n_output || !*n->output[0]) return gwm_op_fail(im, -EBADMSG, "it has no output");
    err = check_attributes(im, op);
    if (err) return err;
    if (n->n_input > 16 && !(in = calloc(n->n_input, sizeof(*in))))
        return gwm_op_fail(im, -ENOMEM, "out of memory");
    err = find_inputs(im, op, in);
    bool unknown = err > 0;
    im->in = in;
    im->nin = (uint32_t)n->n_input;
    if (!err) err = op->import(im);
    if (in != local) free(in);
    return err < 0 ? err : define_rest(im, unknown ? GWM_UNKNOWN : GWM_NOT_COMPUTED);
}

/* Reports it when the caller wants everything that fails; 0 to go on. */
static int walk_tell(struct gwm_import *im, int err, const char *name, const char *type)
{
    if (err >= 0 || !im->check || err == -ENOMEM) return err;
    im->check->each(im->check->arg, name, type, im->msg->text + strlen(im->msg->file) + 2);
    im->failed = true;
    return 0;
}

static int import_nodes(struct gwm_import *im, const Onnx__GraphProto *graph)
{
    int err = 0;

    for (size_t i = 0; i < graph->n_node && err >= 0; i++) {
        const Onnx__NodeProto *n = graph->node[i];
        const char *name = n->name && *n->name ? n->name : n->n_output ? n->output[0] : "?";
        err = import_node(im, n);
        if (err >= 0) continue;
        err = walk_tell(im, err, name, n->op_type ? n->op_type : "");
        if (!err) err = define_rest(im, GWM_UNKNOWN);
    }
    return err;
}

/* The shape of an input. The batch may be open: then it is as many as the graph has rows. */
static int input_shape(const struct gwm_import *im, const Onnx__ValueInfoProto *info, struct gwm_shape *s,
                       bool *open)
{
    const char *name = info->name;
    const Onnx__TypeProto *type = info->type;

    if (!type || type->value_case != ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE || !type->tensor_type)
        return gwm_fail(im->msg, -ENOTSUP, "input '%.60s' is not a tensor", name);
    const Onnx__TypeProto__Tensor *t = type->tensor_type;
    if (!gwm_type(t->elem_type))
        return gwm_fail(im->msg, -ENOTSUP, "input '%.60s' has type %s, which is not supported", name,
                        gwm_type_name(t->elem_type));
    if (!t->shape)
        return gwm_fail(im->msg, -ENOTSUP, "input '%.60s' has no shape; export the model with fixed sizes",
                        name);
    if (t->shape->n_dim > GW_MODEL_MAX_RANK)
        return gwm_fail(im->msg, -ENOTSUP, "input '%.60s' has more than 8 dimensions", name);
    memset(s, 0, sizeof(*s));
    s->rank = (uint32_t)t->shape->n_dim;
    for (uint32_t i = 0; i < s->rank; i++) {
        const Onnx__TensorShapeProto__Dimension *d = t->shape->dim[i];
        int64_t size =
            d->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE ? d->dim_value : -1;
        if (size < 0 && i == 0) {
            size = im->rows;
            *open = true;
        }
        if (size <= 0 || size > GWM_MAX_COUNT)
            return gwm_fail(im->msg, -ENOTSUP,
                            "input '%.60s': the size of dimension %u is open, 0 or too large; "
                            "export the model with fixed sizes",
                            name, i);
        s->d[i] = (int32_t)size;
    }
    if (gwm_count(s) < 0)
        return gwm_fail(im->msg, -ENOTSUP, "input '%.60s' has more than 2^28 elements", name);
    return 0;
}

static void walk_describe(struct gw_tensor_info *info, const struct gwm_value *v, const char *name)
{
    info->name = name;
    info->dtype = v->dtype;
    info->rank = v->shape.rank;
    for (uint32_t i = 0; i < v->shape.rank; i++) info->dims[i] = (uint64_t)v->shape.d[i];
    info->bytes = gwm_bytes(v);
}

/* A node that no operator of the file stands for: from one type to another, or a copy. Its value, or an
 * error. */
static int border(struct gwm_graph *g, int from, uint32_t dtype, uint32_t type)
{
    struct gwm_shape s = g->value[from].shape;
    int out = gwm_value_new(g, g->value[from].name, dtype, &s);
    bool same = out >= 0 && g->value[from].dtype == dtype;
    int n = out < 0 ? out : gwm_node_new(g, same ? GWM_UNARY : GWM_CONVERT, &from, 1, out);

    if (n < 0) return n;
    g->value[out].type = type;
    g->node[n].name = g->value[out].name;
    g->node[n].type = same ? "Identity" : "Cast";
    if (!same) g->node[n].convert.to = type;
    return out;
}

static int import_input(struct gwm_import *im, const Onnx__ValueInfoProto *info)
{
    struct gwm_graph *g = im->g;
    struct gwm_shape s;
    bool open = false;
    int err = input_shape(im, info, &s, &open);

    if (err) return err;
    if (g->ninput == GW_MODEL_MAX_IO)
        return gwm_fail(im->msg, -ENOTSUP, "more than %d inputs", GW_MODEL_MAX_IO);
    uint32_t type = gwm_type(info->type->tensor_type->elem_type);
    int v = gwm_value_new(g, info->name, type, &s);
    if (v < 0) return gwm_fail(im->msg, v, "out of memory");
    g->value[v].input = (int)g->ninput;
    walk_describe(&g->info[0][g->ninput], &g->value[v], g->value[v].name);
    g->info[0][g->ninput].batched = open;
    g->input[g->ninput++] = v;
    if (gwm_computed(type) != type) v = border(g, v, gwm_computed(type), type);
    return v < 0 ? gwm_fail(im->msg, v, "out of memory") : gwm_define(im, info->name, v);
}

static int import_inputs(struct gwm_import *im, const Onnx__GraphProto *graph)
{
    int err = 0;

    for (size_t i = 0; i < graph->n_input && err >= 0; i++) {
        const char *name = graph->input[i]->name;
        if (!name || !*name) return gwm_fail(im->msg, -EBADMSG, "an input has no name");
        if (gwm_names_find(im->names, name)->name)
            continue; /* a weight: old files list them among the inputs */
        err = import_input(im, graph->input[i]);
        if (err < 0 && !(err = walk_tell(im, err, name, "input"))) err = gwm_define(im, name, GWM_UNKNOWN);
    }
    return err;
}

static int import_output(struct gwm_import *im, const char *name)
{
    struct gwm_graph *g = im->g;
    const struct gwm_name *s = gwm_names_find(im->names, name);
    uint32_t i = g->noutput;

    if (!s->name) return gwm_fail(im->msg, -EBADMSG, "output '%.60s' is not made by any node", name);
    int v = s->value;
    if (v == GWM_UNKNOWN) return 0;
    if (v < 0) return gwm_fail(im->msg, -ENOTSUP, "output '%.60s' is an operator's second output", name);
    const struct gwm_value *val = &g->value[v], *root = &g->value[val->root];
    if (!val->count) return gwm_fail(im->msg, -ENOTSUP, "output '%.60s' has no elements", name);
    if (val->type != val->dtype || root->input >= 0 || root->output >= 0 || root->data)
        v = border(g, v, val->type, val->type);
    const char *copy = gwm_strdup(g, name);
    if (v < 0 || !copy) return gwm_fail(im->msg, -ENOMEM, "out of memory");
    g->value[g->value[v].root].output = (int)i;
    walk_describe(&g->info[1][i], &g->value[v], copy);
    g->output[i] = v;
    g->noutput++;
    return 0;
}

static int import_outputs(struct gwm_import *im, const Onnx__GraphProto *graph)
{
    int err = 0;

    if (!graph->n_output || graph->n_output > GW_MODEL_MAX_IO)
        return gwm_fail(im->msg, -ENOTSUP, "%zu outputs, supported are 1 to %d", graph->n_output,
                        GW_MODEL_MAX_IO);
    for (size_t i = 0; i < graph->n_output && !err; i++) {
        const char *name = graph->output[i]->name ? graph->output[i]->name : "";
        err = walk_tell(im, import_output(im, name), name, "output");
    }
    return err;
}

static int import_weights(struct gwm_import *im, const Onnx__GraphProto *graph)
{
    int err = 0;

    for (size_t i = 0; i < graph->n_initializer && err >= 0; i++) {
        const char *name = graph->initializer[i]->name ? graph->initializer[i]->name : "";
        err = gwm_tensor(im, graph->initializer[i]);
        if (err < 0 && !(err = walk_tell(im, err, name, "tensor"))) err = GWM_UNKNOWN;
        if (err >= 0 || err == GWM_UNKNOWN) err = gwm_define(im, name, err);
    }
    return err;
}

int gwm_import_graph(struct gwm_import *im, const Onnx__GraphProto *graph)
{
    size_t names = graph->n_input + graph->n_initializer;

    for (size_t i = 0; i < graph->n_node; i++) names += graph->node[i]->n_output;
    if (graph->n_node > GWM_MAX_NODES / 4)
        return gwm_fail(im->msg, -ENOTSUP, "%zu nodes, more than %d", graph->n_node, GWM_MAX_NODES / 4);
    if (graph->n_sparse_initializer) return gwm_fail(im->msg, -ENOTSUP, "sparse tensors are not supported");
    im->names = gwm_names_new(names + 1);
    if (!im->names) return gwm_fail(im->msg, -ENOMEM, "out of memory");
    int err = import_weights(im, graph);
    if (err >= 0) err = import_inputs(im, graph);
    if (err >= 0) err = import_nodes(im, graph);
    if (err >= 0) err = import_outputs(im, graph);
    free(im->names);
    return err < 0 ? err : im->failed ? -ENOTSUP : 0;
}
