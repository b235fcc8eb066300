/* SPDX-License-Identifier: Apache-2.0 */
/* The layouts of values. Activations are reordered where two steps disagree. Constants are brought into the
 * needed layout once. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "src/model/cpu/dnnl_layout.h"

#include "src/model/cpu/constants.h"
#include "src/model/cpu/steps.h"

int gwm_dnnl_reorder(struct gwm_cpu *p, int from, const_md_t from_md, int to, const_md_t to_md)
{
    dnnl_engine_t e = p->dnnl->engine;
    dnnl_primitive_attr_t attr = NULL;
    dnnl_primitive_desc_t pd = NULL;
    struct gwm_prim *q;
    int err = gwm_dnnl_attr(1, false, NULL, &attr);

    if (!err) err = gwm_dnnl_status(dnnl_reorder_primitive_desc_create(&pd, from_md, e, to_md, e, attr));
    if (!err && (q = gwm_prim_new(p, pd, &err)) && !(err = gwm_prim_step(p, q, pd)) &&
        !(err = gwm_prim_arg(p, q, DNNL_ARG_FROM, from, from_md)))
        err = gwm_prim_arg(p, q, DNNL_ARG_TO, to, to_md);
    if (pd) dnnl_primitive_desc_destroy(pd);
    if (attr) dnnl_primitive_attr_destroy(attr);
    return err;
}

const struct gwm_form *gwm_form_find(const struct gwm_cpu *p, int root, const_md_t md)
{
    for (const struct gwm_form *f = p->dnnl->forms; f; f = f->next)
        if (f->root == root && (md ? dnnl_memory_desc_equal(f->md, md) : f->made)) return f;
    return NULL;
}

static int form_in(struct gwm_cpu *p, int root, const_md_t md, bool made, int buf)
{
    struct gwm_form *f = calloc(1, sizeof(*f));

    if (!f || !(f->md = md_copy(md))) {
        free(f);
        return -ENOMEM;
    }
    f->root = root;
    f->buf = buf;
    f->made = made;
    f->next = p->dnnl->forms;
    p->dnnl->forms = f;
    return buf;
}

int gwm_form_add(struct gwm_cpu *p, int root, const_md_t md, bool made)
{
    int b = gwm_cpu_buf(p, dnnl_memory_desc_get_size(md));

    return b < 0 ? b : form_in(p, root, md, made, b);
}

int gwm_form_share(struct gwm_cpu *p, int root, const_md_t md, int buf)
{
    return form_in(p, root, md, true, buf);
}

md_t gwm_dnnl_c_order(const struct gwm_cpu *p, int root)
{
    const struct gwm_shape *s = &p->g->value[root].shape;
    dnnl_dims_t dims = {0};

    if (s->rank == 4 || s->rank == 3) {
        dims[0] = s->d[0];
        dims[1] = s->d[1];
        dims[2] = s->rank == 4 ? s->d[2] : 1;
        dims[3] = s->d[s->rank - 1];
        return md_new(dims, 4, dnnl_nchw);
    }
    return NULL;
}

int gwm_dnnl_plain(struct gwm_cpu *p, int root)
{
    const struct gwm_form *f = p->plain[root] ? NULL : gwm_form_find(p, root, NULL);

    if (!f) return 0;
    md_t md = gwm_dnnl_c_order(p, root);
    int err = md ? gwm_dnnl_reorder(p, f->buf, f->md, root, md) : -EIO;
    md_free(md);
    p->plain[root] = !err;
    return err;
}

int gwm_dnnl_in_layout(struct gwm_cpu *p, int root, const_md_t have, const_md_t want)
{
    const struct gwm_form *f = gwm_form_find(p, root, want);

    if (f) return f->buf;
    int err = gwm_dnnl_plain(p, root);
    if (err || dnnl_memory_desc_equal(have, want)) return err ? err : root;
    int b = gwm_form_add(p, root, want, false);
    if (b >= 0) err = gwm_dnnl_reorder(p, root, have, b, want);
    return err ? err : b;
}

int gwm_fixed_in_layout(struct gwm_cpu *p, const float *data, const_md_t have, const_md_t want)
{
    dnnl_engine_t e = p->dnnl->engine;
    dnnl_memory_t from = NULL, to = NULL;
    dnnl_primitive_desc_t pd = NULL;
    dnnl_primitive_t prim = NULL;
    size_t bytes = dnnl_memory_desc_get_size(want);
    void *made = gwm_constant_room(bytes);
    if (!made) return -ENOMEM;
    dnnl_status_t s = dnnl_memory_create(&from, have, e, (void *)data);
    if (!s) s = dnnl_memory_create(&to, want, e, made);
    if (!s) s = dnnl_reorder_primitive_desc_create(&pd, have, e, want, e, NULL);
    if (!s) s = dnnl_primitive_create(&prim, pd);
    if (!s) {
        dnnl_exec_arg_t args[2] = {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}};
        s = dnnl_primitive_execute(prim, p->dnnl->stream, 2, args);
        dnnl_stream_wait(p->dnnl->stream);
    }
    if (prim) dnnl_primitive_destroy(prim);
    if (pd) dnnl_primitive_desc_destroy(pd);
    if (to) dnnl_memory_destroy(to);
    if (from) dnnl_memory_destroy(from);
    if (!s) return gwm_constant_take(p, made, bytes);
    free(made);
    return gwm_dnnl_status(s);
}

int gwm_fixed_bias(struct gwm_cpu *p, const float *bias, int32_t n, float factor)
{
    size_t bytes = (size_t)n * sizeof(float);
    float *made = (float *)gwm_constant_room(bytes);

    for (int32_t i = 0; made && i < n; i++) made[i] = factor * bias[i];
    return made ? gwm_constant_take(p, made, bytes) : -ENOMEM;
}
