/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ONNX bytes to graph, in one pass over the nodes (the format demands that they are sorted): names are
 * resolved, shapes inferred and constants folded as the nodes come by.
 */
#include "src/model/ops.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OPSET_MIN 7
#define OPSET_MAX 26

/* ---- names → values: open addressing, sized once ---- */

struct gwm_names {
    uint64_t seed, mask;
    struct slot {
        const char *name;
        int value;
    } slot[];
};

static struct gwm_names *names_new(size_t count)
{
    size_t size = 64;

    while (size < 2 * count) size *= 2;
    struct gwm_names *t = calloc(1, sizeof(*t) + size * sizeof(t->slot[0]));
    if (t) {
        t->mask = size - 1;
        t->seed =
            (uintptr_t)t * 0x9e3779b97f4a7c15u; /* differs from run to run: no file can be made to collide */
    }
    return t;
}

/* The slot of a name, or the free one where it belongs. */
static struct slot *names_at(struct gwm_names *t, const char *name)
{
    uint64_t h = t->seed;

    for (const char *p = name; *p; p++) h = (h ^ (unsigned char)*p) * 0x100000001b3u;
    h ^= h >> 29;
    while (t->slot[h & t->mask].name && strcmp(t->slot[h & t->mask].name, name)) h++;
    return &t->slot[h & t->mask];
}

/* A negative value stands for a result that we do not compute. Returns 0 or an error. */
static int define(struct gwm_import *im, const char *name, int value)
{
    struct slot *s = names_at(im->names, name);

    if (s->name) return gwm_fail(im->msg, -EBADMSG, "the value '%.60s' is made twice", name);
    s->name = name;
    s->value = value;
    return 0;
}

/* ---- what operators use ---- */

int gwm_op_fail(const struct gwm_import *im, int code, const char *fmt, ...)
{
    char text[GW_MODEL_ERR];
    const Onnx__NodeProto *n = im->node;
    const char *name = n->name && *n->name ? n->name : n->n_output && *n->output[0] ? n->output[0] : "?";
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    return gwm_fail(im->msg, code, "node '%.60s' (%.30s): %s", name, n->op_type ? n->op_type : "", text);
}

const Onnx__AttributeProto *gwm_attr(const struct gwm_import *im, const char *name)
{
    for (size_t i = 0; i < im->node->n_attribute; i++)
        if (im->node->attribute[i]->name && !strcmp(im->node->attribute[i]->name, name))
            return im->node->attribute[i];
    return NULL;
}

static int wrong_type(const struct gwm_import *im, const char *name)
{
    return gwm_op_fail(im, -EBADMSG, "attribute '%s' has the wrong type", name);
}

int gwm_attr_int(const struct gwm_import *im, const char *name, int64_t *out)
{
    const Onnx__AttributeProto *a = gwm_attr(im, name);

    if (!a) return 0;
    if (!a->has_i || (a->has_type && a->type != ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT))
        return wrong_type(im, name);
    *out = a->i;
    return 1;
}

int gwm_attr_float(const struct gwm_import *im, const char *name, float *out)
{
    const Onnx__AttributeProto *a = gwm_attr(im, name);

    if (!a) return 0;
    if (!a->has_f || (a->has_type && a->type != ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT))
        return wrong_type(im, name);
    *out = a->f;
    return 1;
}

int gwm_attr_string(const struct gwm_import *im, const char *name, char *out, size_t size)
{
    const Onnx__AttributeProto *a = gwm_attr(im, name);

    if (!a) return 0;
    if (!a->has_s || (a->has_type && a->type != ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRING) ||
        a->s.len >= size)
        return wrong_type(im, name);
    if (a->s.len) memcpy(out, a->s.data, a->s.len);
    out[a->s.len] = '\0';
    return 1;
}

int gwm_attr_ints(const struct gwm_import *im, const char *name, int64_t *out, int max)
{
    const Onnx__AttributeProto *a = gwm_attr(im, name);

    if (!a) return -ENOENT;
    if ((a->has_type && a->type != ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS) || a->n_ints > (size_t)max)
        return wrong_type(im, name);
    if (a->n_ints) memcpy(out, a->ints, a->n_ints * sizeof(*out));
    return (int)a->n_ints;
}

const struct gwm_value *gwm_in(const struct gwm_import *im, uint32_t i)
{
    return i < im->nin && im->in[i] >= 0 ? &im->g->value[im->in[i]] : NULL;
}

int gwm_in_ints(const struct gwm_import *im, uint32_t i, int64_t *out, int max)
{
    const struct gwm_value *v = gwm_in(im, i);

    if (!v) return -ENOENT;
    if (v->dtype != GWM_I64 || v->shape.rank > 1 || v->count > max || !v->data)
        return gwm_op_fail(im, -ENOTSUP, "input '%.60s' must be a constant list of at most %d integers",
                           v->name, max);
    memcpy(out, v->data, (size_t)v->count * 8);
    return v->count;
}

const float *gwm_in_floats(const struct gwm_import *im, uint32_t i, int32_t count)
{
    const struct gwm_value *v = gwm_in(im, i);

    return v && v->dtype == GWM_F32 && v->count == count ? (const float *)v->data : NULL;
}

int gwm_axis(const struct gwm_import *im, int64_t axis, uint32_t rank)
{
    if (axis < -(int64_t)rank || axis >= (int64_t)rank)
        return gwm_op_fail(im, -EBADMSG, "axis %" PRId64 " of a tensor with %u dimensions", axis, rank);
    return (int)(axis < 0 ? axis + rank : axis);
}

int gwm_emit(struct gwm_import *im, enum gwm_op op, const int *in, uint32_t nin, const struct gwm_shape *out,
             const char *name)
{
    int v = gwm_value_new(im->g, name, GWM_F32, out);

    if (v == -EOVERFLOW) return gwm_op_fail(im, -ENOTSUP, "its result has more than 2^28 elements");
    int i = v < 0 ? v : gwm_node_new(im->g, op, in, nin, v);
    if (i < 0) return gwm_op_fail(im, i, "out of memory");
    struct gwm_node *n = &im->g->node[i];
    n->name = gwm_strdup(im->g, im->node->name ? im->node->name : "");
    n->type = gwm_strdup(im->g, im->node->op_type);
    return n->name && n->type ? i : gwm_op_fail(im, -ENOMEM, "out of memory");
}

int gwm_settle(struct gwm_import *im, int node)
{
    struct gwm_graph *g = im->g;
    struct gwm_node *n = &g->node[node];
    struct gwm_value *out = &g->value[n->out];

    for (uint32_t i = 0; i < n->nin; i++)
        if (!g->value[n->in[i]].data) return n->out;
    if (n->op == GWM_CONV || n->op == GWM_POOL || n->op == GWM_GEMM)
        return n->out; /* rare: left to the back-end */
    const float **in = calloc(n->nin, sizeof(*in));
    float *data = gwm_alloc(g, gwm_bytes(out));
    if (in && data) {
        for (uint32_t i = 0; i < n->nin; i++) in[i] = (const float *)g->value[n->in[i]].data;
        gwm_ref_eval(n, g, in, data);
        out->data = data;
        n->dead = true;
    }
    free(in);
    return data && in ? n->out : gwm_op_fail(im, -ENOMEM, "out of memory: its constant result is too large");
}

int gwm_const(struct gwm_import *im, enum gwm_dtype dtype, const struct gwm_shape *shape, const void *data,
              void **room)
{
    int v = gwm_value_new(im->g, "", dtype, shape);

    if (v < 0) return v;
    size_t bytes = gwm_bytes(&im->g->value[v]);
    void *p = gwm_alloc(im->g, bytes);
    if (!p) return -ENOMEM;
    if (data && bytes) memcpy(p, data, bytes);
    if (room) *room = p;
    im->g->value[v].data = p;
    return v;
}

int gwm_reshape(struct gwm_import *im, int of, const struct gwm_shape *shape)
{
    int v = gwm_view_new(im->g, im->node->output[0], of, shape);

    if (v < 0) return gwm_op_fail(im, v, "out of memory");
    im->g->value[v].data = im->g->value[of].data;
    return v;
}

int gwm_result(struct gwm_import *im, int value)
{
    return value < 0 ? value : define(im, im->node->output[0], value);
}

/* ---- the walk ---- */

static const struct gwm_operator *find_operator(const char *type)
{
    const struct gwm_operator *const tables[] = {gwm_ops_window, gwm_ops_math, gwm_ops_shape};

    for (size_t t = 0; t < 3; t++)
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

/* Resolves the node's inputs into values. */
static int find_inputs(struct gwm_import *im, const struct gwm_operator *op, int *in)
{
    const Onnx__NodeProto *n = im->node;

    for (size_t i = 0; i < n->n_input; i++) {
        in[i] = -1;
        if (!*n->input[i]) {
            if (i < op->min_in) return gwm_op_fail(im, -EBADMSG, "input %zu is missing", i);
            continue;
        }
        const struct slot *s = names_at(im->names, n->input[i]);
        if (!s->name)
            return gwm_op_fail(im, -EBADMSG, "input '%.60s' is not made by any node before it", n->input[i]);
        if (s->value < 0)
            return gwm_op_fail(im, -ENOTSUP,
                               "input '%.60s' is an operator's second output; only the first is supported",
                               n->input[i]);
        in[i] = s->value;
        if (!op->ints && i == 0 && im->g->value[s->value].dtype != GWM_F32)
            return gwm_op_fail(im, -ENOTSUP, "input '%.60s' is an integer tensor; only float32 is supported",
                               n->input[i]);
    }
    return 0;
}

static int import_node(struct gwm_import *im, const Onnx__NodeProto *n)
{
    int local[16], *in = local, rc;

    im->node = n;
    if (n->domain && *n->domain && strcmp(n->domain, "ai.onnx"))
        return gwm_op_fail(im, -ENOTSUP, "operators of domain '%.60s' are not supported", n->domain);
    const struct gwm_operator *op = n->op_type ? find_operator(n->op_type) : NULL;
    if (!op) return gwm_op_fail(im, -ENOTSUP, "the operator is not supported");
    if (n->n_input < op->min_in || n->n_input > op->max_in)
        return gwm_op_fail(im, -EBADMSG, "%zu inputs, expected %u to %u", n->n_input, op->min_in, op->max_in);
    if (!n->n_output || !*n->output[0]) return gwm_op_fail(im, -EBADMSG, "it has no output");
    rc = check_attributes(im, op);
    if (rc) return rc;
    if (n->n_input > 16 && !(in = calloc(n->n_input, sizeof(*in))))
        return gwm_op_fail(im, -ENOMEM, "out of memory");
    rc = find_inputs(im, op, in);
    im->in = in;
    im->nin = (uint32_t)n->n_input;
    if (!rc) rc = op->import(im);
    if (in != local) free(in);
    for (size_t i = 1; i < n->n_output && rc >= 0; i++) rc = *n->output[i] ? define(im, n->output[i], -1) : 0;
    return rc;
}

/* The shape of an input; the batch may be open and is then 1. */
static int input_shape(const struct gwm_import *im, const Onnx__ValueInfoProto *info, struct gwm_shape *s)
{
    const char *name = info->name;
    const Onnx__TypeProto *type = info->type;

    if (!type || type->value_case != ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE || !type->tensor_type)
        return gwm_fail(im->msg, -ENOTSUP, "input '%.60s' is not a tensor", name);
    const Onnx__TypeProto__Tensor *t = type->tensor_type;
    if (t->elem_type != ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT)
        return gwm_fail(im->msg, -ENOTSUP, "input '%.60s' has type %s; only float32 is supported", name,
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
        if (size < 0 && i == 0) size = 1;
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

static void describe(struct gw_tensor_info *info, const struct gwm_value *v, const char *name)
{
    info->name = name;
    info->dtype = GW_DTYPE_F32;
    info->rank = v->shape.rank;
    for (uint32_t i = 0; i < v->shape.rank; i++) info->dims[i] = (uint64_t)v->shape.d[i];
    info->bytes = gwm_bytes(v);
}

static int import_inputs(struct gwm_import *im, const Onnx__GraphProto *graph)
{
    struct gwm_graph *g = im->g;

    for (size_t i = 0; i < graph->n_input; i++) {
        struct gwm_shape s;
        const char *name = graph->input[i]->name;
        if (!name || !*name) return gwm_fail(im->msg, -EBADMSG, "an input has no name");
        if (names_at(im->names, name)->name) continue; /* a weight: old files list them among the inputs */
        int rc = input_shape(im, graph->input[i], &s);
        if (rc) return rc;
        if (g->ninput == GW_MODEL_MAX_IO)
            return gwm_fail(im->msg, -ENOTSUP, "more than %d inputs", GW_MODEL_MAX_IO);
        int v = gwm_value_new(g, name, GWM_F32, &s);
        if (v < 0) return gwm_fail(im->msg, v, "out of memory");
        if ((rc = define(im, name, v))) return rc;
        g->value[v].input = (int)g->ninput;
        describe(&g->info[0][g->ninput], &g->value[v], g->value[v].name);
        g->input[g->ninput++] = v;
    }
    return 0;
}

/* A copy of v, for outputs that are an input, a constant or another output. */
static int copy_of(struct gwm_graph *g, int v)
{
    struct gwm_shape s = g->value[v].shape;
    int out = gwm_value_new(g, g->value[v].name, GWM_F32, &s);
    int n = out < 0 ? out : gwm_node_new(g, GWM_UNARY, &v, 1, out);

    if (n >= 0) g->node[n].type = "Identity";
    return n < 0 ? n : out;
}

static int import_outputs(struct gwm_import *im, const Onnx__GraphProto *graph)
{
    struct gwm_graph *g = im->g;

    if (!graph->n_output || graph->n_output > GW_MODEL_MAX_IO)
        return gwm_fail(im->msg, -ENOTSUP, "%zu outputs, supported are 1 to %d", graph->n_output,
                        GW_MODEL_MAX_IO);
    for (size_t i = 0; i < graph->n_output; i++) {
        const char *name = graph->output[i]->name ? graph->output[i]->name : "";
        const struct slot *s = names_at(im->names, name);
        if (!s->name) return gwm_fail(im->msg, -EBADMSG, "output '%.60s' is not made by any node", name);
        int v = s->value;
        if (v < 0) return gwm_fail(im->msg, -ENOTSUP, "output '%.60s' is an operator's second output", name);
        if (g->value[v].dtype != GWM_F32)
            return gwm_fail(im->msg, -ENOTSUP,
                            "output '%.60s' is an integer tensor; only float32 is supported", name);
        const struct gwm_value *root = &g->value[g->value[v].root];
        if (root->input >= 0 || root->output >= 0 || root->data) v = copy_of(g, v);
        const char *copy = gwm_strdup(g, name);
        if (v < 0 || !copy) return gwm_fail(im->msg, -ENOMEM, "out of memory");
        g->value[g->value[v].root].output = (int)i;
        describe(&g->info[1][i], &g->value[v], copy);
        g->output[i] = v;
        g->noutput++;
    }
    return 0;
}

static int import_graph(struct gwm_import *im, const Onnx__GraphProto *graph)
{
    size_t names = graph->n_input + graph->n_initializer;
    int rc = 0;

    for (size_t i = 0; i < graph->n_node; i++) names += graph->node[i]->n_output;
    if (graph->n_node > GWM_MAX_NODES / 4)
        return gwm_fail(im->msg, -ENOTSUP, "%zu nodes, more than %d", graph->n_node, GWM_MAX_NODES / 4);
    if (graph->n_sparse_initializer) return gwm_fail(im->msg, -ENOTSUP, "sparse tensors are not supported");
    im->names = names_new(names + 1);
    if (!im->names) return gwm_fail(im->msg, -ENOMEM, "out of memory");
    for (size_t i = 0; i < graph->n_initializer && rc >= 0; i++) {
        const char *name = graph->initializer[i]->name;
        rc = gwm_tensor(im, graph->initializer[i]);
        if (rc >= 0) rc = define(im, name ? name : "", rc);
    }
    if (rc >= 0) rc = import_inputs(im, graph);
    for (size_t i = 0; i < graph->n_node && rc >= 0; i++) rc = import_node(im, graph->node[i]);
    if (rc >= 0) rc = import_outputs(im, graph);
    free(im->names);
    return rc < 0 ? rc : 0;
}

/* Unpacking may take a few times the file's size, and no more: tiny nested messages cost far more than they
 * weigh. */
static void *budget_alloc(void *data, size_t size)
{
    size_t *left = data;

    if (size > *left) return NULL;
    *left -= size;
    return malloc(size ? size : 1);
}

static void budget_free(void *data, void *p)
{
    (void)data;
    free(p);
}

static int check_versions(struct gwm_import *im, const Onnx__ModelProto *m)
{
    for (size_t i = 0; i < m->n_opset_import; i++) {
        const Onnx__OperatorSetIdProto *o = m->opset_import[i];
        if (!o->domain || !*o->domain || !strcmp(o->domain, "ai.onnx")) im->opset = o->version;
    }
    if (im->opset < OPSET_MIN || im->opset > OPSET_MAX)
        return gwm_fail(im->msg, -ENOTSUP,
                        "operator set %" PRId64
                        "; supported are %d to %d (onnx.version_converter changes it)",
                        im->opset, OPSET_MIN, OPSET_MAX);
    return 0;
}

int gwm_import(const void *bytes, size_t len, struct gwm_graph **graph, const struct gwm_msg *msg)
{
    size_t left = ((size_t)64 << 20) + 8 * len;
    ProtobufCAllocator allocator = {.alloc = budget_alloc, .free = budget_free, .allocator_data = &left};
    struct gwm_import im = {.msg = msg};

    *graph = NULL;
    int rc = len ? gwm_wire_check(&onnx__model_proto__descriptor, bytes, len) : -EBADMSG;
    if (rc == -ELOOP) return gwm_fail(msg, -EBADMSG, "messages are nested too deeply: not a model");
    Onnx__ModelProto *m = rc ? NULL : onnx__model_proto__unpack(&allocator, len, bytes);
    if (!m || !m->graph) {
        if (m) onnx__model_proto__free_unpacked(m, &allocator);
        return gwm_fail(msg, -EBADMSG, "not an ONNX model, or truncated");
    }
    im.g = gwm_graph_new(((size_t)64 << 20) + 3 * len);
    rc = im.g ? check_versions(&im, m) : gwm_fail(msg, -ENOMEM, "out of memory");
    if (!rc) rc = import_graph(&im, m->graph);
    onnx__model_proto__free_unpacked(m, &allocator);
    if (!rc && gwm_optimise(im.g)) rc = gwm_fail(msg, -ENOMEM, "out of memory");
    if (rc)
        gwm_graph_free(im.g);
    else
        *graph = im.g;
    return rc;
}
