/* SPDX-License-Identifier: Apache-2.0 */
/* Finds a tensor, checks its type and shape, and makes a weight of it. */
#include "src/generate/import/weights.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <gpuwire/error.h>

#include "src/generate/program/number.h"

static const struct gen_tensor *weights_find(const struct gen_weights *w, const char *name, char *full,
                                             size_t size)
{
    if (snprintf(full, size, "%s%s", w->prefix, name) >= (int)size) return NULL;
    return gen_tensors_find(w->tensors, full);
}

bool gen_weights_have(const struct gen_weights *w, const char *name)
{
    char full[256];

    return weights_find(w, name, full, sizeof(full));
}

static bool weights_format(const struct gen_tensor *t, enum gen_format *format)
{
    if (!strcmp(t->type, "F32"))
        *format = GEN_F32;
    else if (!strcmp(t->type, "F16"))
        *format = GEN_F16;
    else if (!strcmp(t->type, "BF16"))
        *format = GEN_BF16;
    else
        return false;
    return true;
}

/* The weight as the file has it; .data NULL: it is not there, or is another. */
static struct gen_weight weights_raw(struct gen_weights *w, const char *name, uint32_t n, uint32_t k)
{
    struct gen_weight out = {.n = n, .k = k};
    const struct gen_tensor *t;
    const char *where = w->tensors->where;
    char full[256];

    if (w->b->err) return out;
    t = weights_find(w, name, full, sizeof(full));
    if (!t) {
        w->b->err = gw_error(-EBADMSG, "%s: tensor '%s' is missing", where, full);
    } else if (!weights_format(t, &out.format)) {
        w->b->err = gw_error(-ENOTSUP, "%s: tensor '%s' has type %s; supported are F32, F16 and BF16", where,
                             full, t->type);
    } else if (!(t->rank == 2 && t->shape[0] == n && t->shape[1] == k) &&
               !(t->rank == 1 && n == 1 && t->shape[0] == k)) {
        w->b->err = gw_error(-EBADMSG, "%s: tensor '%s' has shape [%llu%s%.0llu]; expected [%u, %u]", where,
                             full, (unsigned long long)t->shape[0],
                             t->rank == 2  ? ", "
                             : t->rank > 2 ? ", …"
                                           : "",
                             (unsigned long long)(t->rank == 2 ? t->shape[1] : 0), n, k);
    } else {
        out.data = t->data;
    }
    return out;
}

static uint32_t weights_dtype(enum gen_format format)
{
    return format == GEN_F32 ? GW_DTYPE_F32 : format == GEN_F16 ? GW_DTYPE_F16 : GW_DTYPE_BF16;
}

struct gen_weight gen_weights_matrix(struct gen_weights *w, const char *name, uint32_t n, uint32_t k)
{
    struct gen_weight out = weights_raw(w, name, n, k);
    size_t width = gw_dtype_bytes(weights_dtype(out.format)), bytes = (size_t)n * k * width;

    if (out.data && (uintptr_t)out.data % width) {
        void *copy = gen_build_alloc(w->b, 1, bytes);
        if (copy) memcpy(copy, out.data, bytes);
        out.data = copy;
    }
    return out;
}

struct gen_weight gen_weights_turned(struct gen_weights *w, const char *name, uint32_t n, uint32_t k)
{
    struct gen_weight out = weights_raw(w, name, k, n);
    size_t width = gw_dtype_bytes(weights_dtype(out.format));
    const uint8_t *from = out.data;
    uint8_t *to = from ? gen_build_alloc(w->b, (size_t)n * k, width) : NULL;

    for (uint32_t i = 0; to && i < n; i++)
        for (uint32_t j = 0; j < k; j++)
            memcpy(to + ((size_t)i * k + j) * width, from + ((size_t)j * n + i) * width, width);
    return (struct gen_weight){.format = out.format, .n = n, .k = k, .data = to};
}

const float *gen_weights_floats(struct gen_weights *w, const char *name, uint32_t n)
{
    struct gen_weight v = gen_weights_matrix(w, name, 1, n);
    float *out = v.data ? gen_build_alloc(w->b, n, sizeof(*out)) : NULL;

    for (uint32_t i = 0; out && i < n; i++) out[i] = gen_number_get(weights_dtype(v.format), v.data, i);
    return out;
}
