/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A model in C: every answer is scale * x + shift. It is a plug-in, which `gpuwire serve` and
 * libgpuwire-serve load as NAME/VERSION/model.so. Its numbers lie beside it in coefficients.txt: how many
 * elements a row has, scale and shift.
 *
 * <gpuwire/model.h> says what each function of the table at the end means.
 */
#include "affine.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_ROW (1u << 24)

struct model {
    struct gw_tensor_info x, y;
    struct affine affine; /* of one row */
};

struct plan {
    struct affine affine; /* of all rows */
    int on_gpu;
};

static int fail(char *err, size_t errlen, int code, const char *file, const char *why)
{
    if (err) snprintf(err, errlen, "%s: %s", file, why);
    return code;
}

/* ---- the model ---- */

static int read_coefficients(int dir, struct affine *a)
{
    int fd = openat(dir, "coefficients.txt", O_RDONLY | O_CLOEXEC);
    FILE *f = fd < 0 ? NULL : fdopen(fd, "r");
    if (!f) {
        int error = -errno;
        if (fd >= 0) close(fd);
        return error;
    }
    int sound = fscanf(f, "%u %f %f", &a->elements, &a->scale, &a->shift) == 3 && a->elements >= 1 &&
                a->elements <= MAX_ROW;
    fclose(f);
    return sound ? 0 : -EBADMSG;
}

static int load(const void *bytes, size_t len, const char *file, int dir, void **model, char *err,
                size_t errlen)
{
    struct model *m = calloc(1, sizeof(*m));
    (void)bytes, (void)len; /* a plug-in gets none */
    if (!m) return fail(err, errlen, -ENOMEM, file, "out of memory");
    int error = read_coefficients(dir, &m->affine);
    if (error) {
        free(m);
        return fail(err, errlen, error, file,
                    "coefficients.txt beside it must hold three numbers: elements, scale, shift");
    }
    m->x = (struct gw_tensor_info){.name = "x",
                                   .dtype = GW_DTYPE_F32,
                                   .rank = 2,
                                   .dims = {1, m->affine.elements},
                                   .bytes = m->affine.elements * sizeof(float),
                                   .batched = 1};
    m->y = m->x;
    m->y.name = "y";
    *model = m;
    return 0;
}

static uint32_t count(const void *model, int output)
{
    (void)model, (void)output;
    return 1;
}

static const struct gw_tensor_info *info(const void *model, int output, uint32_t i)
{
    const struct model *m = model;
    (void)i;
    return output ? &m->y : &m->x;
}

/* ---- its plans: for `rows` rows, on the CPU or a GPU ---- */

static int make_plan(const void *model, const struct gw_plan_options *options, void **plan, char *err,
                     size_t errlen)
{
    const struct model *m = model;
    struct plan *p = calloc(1, sizeof(*p));
    if (!p) return fail(err, errlen, -ENOMEM, "affine", "out of memory");
    p->affine = m->affine;
    p->affine.elements *= options->rows ? options->rows : 1;
    p->on_gpu = options->place == GW_PLACE_GPU;
    int error = p->on_gpu ? affine_prepare() : 0;
    if (error) {
        free(p);
        return fail(err, errlen, error, "affine", "the plug-in has no kernels for this GPU");
    }
    *plan = p;
    return 0;
}

static void stats(const void *plan, struct gw_plan_stats *s)
{
    (void)plan;
    *s = (struct gw_plan_stats){.steps = 1}; /* weights and intermediate results: none */
}

static int run(void *plan, const void *const in[], void *const out[])
{
    const struct plan *p = plan;
    const float *x = in[0];
    float *y = out[0];
    if (p->on_gpu) return affine_run(&p->affine, x, y);
    for (uint32_t i = 0; i < p->affine.elements; i++) y[i] = p->affine.scale * x[i] + p->affine.shift;
    return 0;
}

static int enqueue(void *plan, void *stream, const void *const in[], void *const out[])
{
    const struct plan *p = plan;
    return p->on_gpu ? affine_enqueue(&p->affine, stream, in[0], out[0]) : -ENOTSUP;
}

/* The server's loop uses this on a GPU: the addresses are another slot's each time. */
static int enqueue_indirect(void *plan, void *stream, const struct gw_plan_io *io)
{
    const struct plan *p = plan;
    return p->on_gpu ? affine_enqueue_indirect(&p->affine, stream, io) : -ENOTSUP;
}

const struct gw_model_backend GW_MODEL_PLUGIN = {
    .abi = GW_MODEL_ABI,
    .name = "affine",
    .load_in = load,
    .unload = free,
    .count = count,
    .info = info,
    .plan = make_plan,
    .plan_free = free,
    .stats = stats,
    .run = run,
    .enqueue = enqueue,
    .enqueue_indirect = enqueue_indirect,
};

#ifndef AFFINE_CUDA
int affine_prepare(void)
{
    return -ENOTSUP;
}
int affine_run(const struct affine *a, const float *x, float *y)
{
    (void)a, (void)x, (void)y;
    return -ENOTSUP;
}
int affine_enqueue(const struct affine *a, void *stream, const void *x, void *y)
{
    (void)a, (void)stream, (void)x, (void)y;
    return -ENOTSUP;
}
int affine_enqueue_indirect(const struct affine *a, void *stream, const struct gw_plan_io *io)
{
    (void)a, (void)stream, (void)io;
    return -ENOTSUP;
}
#endif
