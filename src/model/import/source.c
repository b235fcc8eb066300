/* SPDX-License-Identifier: Apache-2.0 */
/* The file that graphs come from: unpacked once, with weights from other files, and kept while a graph points
 * into it. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "src/model/import/source.h"

#include "src/model/graph/graph.h"
#include "src/model/graph/msg.h"
#include "src/model/import/wire.h"

#define OPSET_MIN 7
#define OPSET_MAX 26

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

void gwm_source_free(struct gwm_source *s)
{
    if (!s) return;
    if (s->model) onnx__model_proto__free_unpacked(s->model, &s->allocator);
    free(s->file);
    free(s);
}

void gwm_source_keep(struct gwm_source *s, const void *const *at, size_t n)
{
    const Onnx__GraphProto *g = s->model->graph;

    for (size_t i = 0; i < g->n_initializer; i++) {
        ProtobufCBinaryData *raw = &g->initializer[i]->raw_data;
        if (raw->len < GWM_LARGE || gwm_graph_points(at, n, raw->data, raw->len)) continue;
        free(raw->data); /* as budget_free does */
        *raw = (ProtobufCBinaryData){0};
    }
}

static int check_versions(struct gwm_source *s, const struct gwm_msg *msg)
{
    for (size_t i = 0; i < s->model->n_opset_import; i++) {
        const Onnx__OperatorSetIdProto *o = s->model->opset_import[i];
        if (!o->domain || !*o->domain || !strcmp(o->domain, "ai.onnx")) s->opset = o->version;
    }
    if (!s->opset && s->model->n_opset_import && s->model->opset_import[0]->domain)
        return gwm_fail(msg, -ENOTSUP,
                        "its operators are of domain '%.60s'; supported are those of ONNX itself",
                        s->model->opset_import[0]->domain);
    if (s->opset < OPSET_MIN || s->opset > OPSET_MAX)
        return gwm_fail(msg, -ENOTSUP,
                        "operator set %" PRId64
                        "; supported are %d to %d (onnx.version_converter changes it)",
                        s->opset, OPSET_MIN, OPSET_MAX);
    return 0;
}

static int source_unpack(struct gwm_source *s, const void *bytes, size_t len, const struct gwm_msg *msg)
{
    int err = len ? gwm_wire_check(&onnx__model_proto__descriptor, bytes, len) : -EBADMSG;

    if (err == -ELOOP) return gwm_fail(msg, -EBADMSG, "messages are nested too deeply: not a model");
    s->len = len;
    s->left = ((size_t)64 << 20) + 8 * len;
    s->allocator =
        (ProtobufCAllocator){.alloc = budget_alloc, .free = budget_free, .allocator_data = &s->left};
    if (!err) s->model = onnx__model_proto__unpack(&s->allocator, len, bytes);
    if (!s->model || !s->model->graph) return gwm_fail(msg, -EBADMSG, "not an ONNX model, or truncated");
    return 0;
}

int gwm_source_open(const void *bytes, size_t len, const struct gwm_msg *msg, struct gwm_source **source)
{
    struct gwm_source *s = calloc(1, sizeof(*s));
    int err = s ? 0 : gwm_fail(msg, -ENOMEM, "out of memory");

    *source = s;
    if (!err) err = source_unpack(s, bytes, len, msg);
    if (!err) err = check_versions(s, msg);
    if (!err && !(s->file = strdup(msg->file ? msg->file : "model")))
        err = gwm_fail(msg, -ENOMEM, "out of memory");
    if (err) gwm_source_free(s);
    return err;
}
