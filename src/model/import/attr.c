/* SPDX-License-Identifier: Apache-2.0 */
/* Operators ask here about the node at hand, its attributes and its inputs. And here they say that it
 * fails. */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "src/model/graph/msg.h"
#include "src/model/import/ops.h"

int gwm_op_fail(const struct gwm_import *im, int code, const char *fmt, ...)
{
    char text[GW_MODEL_ERR];
    const Onnx__NodeProto *n = im->node;
    const char *name = n->name && *n->name ? n->name : n->n_output && *n->output[0] ? n->output[0] : "?";
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    if (im->check) return gwm_fail(im->msg, code, "%s", text); /* the reader of the message knows the node */
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
