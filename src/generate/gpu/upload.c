/* SPDX-License-Identifier: Apache-2.0 */
/* Weights, tables and biases in the GPU's memory. What several operators name is there once. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "src/generate/gpu/inside.h"
#include "src/generate/program/number.h"

#define UPLOAD_PIECE ((uint64_t)16 << 20) /* bytes that are converted at a time */

/* That many elements of it; of a matrix: rows and columns. */
static struct gen_upload *upload_find(const struct gen_gpu *g, enum gen_upload_kind kind, const void *from,
                                      uint64_t n, uint64_t k)
{
    for (uint32_t i = 0; i < g->uploads; i++) {
        const struct gen_upload *u = &g->upload[i];
        if (u->from == from && u->kind == kind && u->n == n && u->k == k) return &g->upload[i];
    }
    return NULL;
}

/* Room for one more, with memory of that size. */
static struct gen_upload *upload_new(struct gen_gpu *g, struct gen_upload what, uint64_t bytes)
{
    if (g->uploads == g->cap_uploads) {
        uint32_t cap = g->cap_uploads ? 2 * g->cap_uploads : 64;
        struct gen_upload *more = realloc(g->upload, cap * sizeof(*more));
        if (!more) return NULL;
        g->upload = more, g->cap_uploads = cap;
    }
    struct gen_upload *u = &g->upload[g->uploads];
    *u = what;
    if (gw_mem_alloc(g->exec, GW_MEM_DEVICE, bytes ? bytes : 1, &u->mem)) return NULL;
    g->uploads++;
    return u;
}

static int upload_copy(struct gen_gpu *g, const struct gen_upload *u, uint64_t at, const void *from,
                       uint64_t bytes)
{
    return gw_copy_in(g->exec, (char *)u->mem.dev + at, from, bytes);
}

static uint32_t format_type(enum gen_format f)
{
    return f == GEN_F32 ? GW_DTYPE_F32 : f == GEN_F16 ? GW_DTYPE_F16 : GW_DTYPE_BF16;
}

/* Elements of one type become those of another. */
static int upload_turned(struct gen_gpu *g, const struct gen_upload *u, const struct gen_weight *w,
                         uint32_t type)
{
    uint64_t n = (uint64_t)w->n * w->k, width = gw_dtype_bytes(type), piece = UPLOAD_PIECE / width;
    void *to = malloc(UPLOAD_PIECE);
    int err = to ? 0 : -ENOMEM;

    for (uint64_t at = 0; at < n && !err; at += piece) {
        uint64_t count = n - at < piece ? n - at : piece;
        for (uint64_t i = 0; i < count; i++)
            gen_number_put(type, to, i, gen_number_get(format_type(w->format), w->data, at + i));
        err = upload_copy(g, u, at * width, to, count * width);
    }
    free(to);
    return err;
}

static struct gen_upload upload_matrix(const struct gen_weight *w)
{
    return (struct gen_upload){.kind = GEN_UPLOAD_MATRIX, .from = w->data, .n = w->n, .k = w->k};
}

static int upload_plain(struct gen_gpu *g, const struct gen_weight *w, struct gen_upload **out)
{
    uint32_t type = gw_dtype_bytes(g->o.type) == 2 ? g->o.type : format_type(w->format);
    uint64_t bytes = (uint64_t)w->n * w->k * gw_dtype_bytes(type);
    struct gen_upload *u = upload_new(g, upload_matrix(w), bytes);

    if (!u) return -ENOMEM;
    u->matrix = (struct gen_matrix){.data = u->mem.dev,
                                    .format = type == GW_DTYPE_F32   ? GEN_F32
                                              : type == GW_DTYPE_F16 ? GEN_F16
                                                                     : GEN_BF16,
                                    .n = w->n,
                                    .k = w->k,
                                    .row_bytes = w->k * gw_dtype_bytes(type)};
    *out = u;
    g->shape.weight_bytes += bytes;
    return type == format_type(w->format) ? upload_copy(g, u, 0, w->data, bytes)
                                          : upload_turned(g, u, w, type);
}

/* A row's quants, in the order that kernels/args.h says. */
static void upload_order(const uint8_t *from, uint32_t bytes, uint8_t *to)
{
    for (uint32_t i = 0; i + 4 <= bytes; i += 4) {
        uint32_t word = 0, e;
        for (e = 0; e < 8; e++)
            word |= (uint32_t)(from[i + e / 2] >> (e % 2 * 4) & 15) << (e / 2 * 4 + e % 2 * 16);
        memcpy(to + i, &word, sizeof(word));
    }
}

static float upload_zero(const struct gen_weight *w, uint32_t n, uint32_t block, uint32_t blocks)
{
    uint32_t type = format_type(w->scale_type);

    if (!w->zero) return 8;
    if (w->zero_is_float) return gen_number_get(type, w->zero, (uint64_t)n * blocks + block);
    return (float)(((const uint8_t *)w->zero)[(uint64_t)n * ((blocks + 1) / 2) + block / 2] >>
                       (block % 2 * 4) &
                   15);
}

/* Each block's scale, and what is added. */
static void upload_scales(const struct gen_weight *w, uint32_t blocks, uint32_t type, void *to)
{
    for (uint32_t n = 0; n < w->n; n++)
        for (uint32_t b = 0; b < blocks; b++) {
            uint64_t at = (uint64_t)n * blocks + b;
            float scale = gen_number_get(format_type(w->scale_type), w->scale, at);
            gen_number_put(type, to, 2 * at, scale);
            gen_number_put(type, to, 2 * at + 1, -upload_zero(w, n, b, blocks) * scale);
        }
}

static int upload_q4(struct gen_gpu *g, const struct gen_weight *w, struct gen_upload **out)
{
    uint32_t blocks = (w->k + w->block - 1) / w->block, row = blocks * w->block / 2, shift = 0;
    uint32_t padded = (row + 15) / 16 * 16, type = g->o.type;
    uint64_t quants = (uint64_t)w->n * padded, scales = (uint64_t)w->n * blocks * 2 * gw_dtype_bytes(type);
    uint64_t scale_at = (quants + 255) / 256 * 256;
    struct gen_upload *u = upload_new(g, upload_matrix(w), scale_at + scales);
    uint8_t *to = calloc(1, quants > scales ? quants : scales);
    int err = u && to ? 0 : -ENOMEM;

    for (uint32_t n = 0; n < w->n && !err; n++)
        upload_order((const uint8_t *)w->data + (uint64_t)n * row, row, to + (uint64_t)n * padded);
    if (!err) err = upload_copy(g, u, 0, to, quants);
    if (!err) upload_scales(w, blocks, type, to);
    if (!err) err = upload_copy(g, u, scale_at, to, scales);
    free(to);
    if (err) return err;
    while (1u << shift < w->block) shift++;
    u->matrix = (struct gen_matrix){.data = u->mem.dev,
                                    .scale = (char *)u->mem.dev + scale_at,
                                    .format = GEN_Q4,
                                    .n = w->n,
                                    .k = w->k,
                                    .shift = shift,
                                    .blocks = blocks,
                                    .scale_type = type,
                                    .row_bytes = padded};
    g->shape.weight_bytes += quants + scales;
    *out = u;
    return 0;
}

int gen_gpu_matrix(struct gen_gpu *g, const struct gen_weight *w, struct gen_matrix *out)
{
    struct gen_upload *u = upload_find(g, GEN_UPLOAD_MATRIX, w->data, w->n, w->k);
    int err = u ? 0 : w->format == GEN_Q4 ? upload_q4(g, w, &u) : upload_plain(g, w, &u);

    if (!err) *out = u->matrix;
    return err;
}

int gen_gpu_floats(struct gen_gpu *g, const float *from, uint64_t n, const float **out)
{
    struct gen_upload *u = from ? upload_find(g, GEN_UPLOAD_FLOATS, from, n, 1) : NULL;
    int err = 0;

    *out = NULL;
    if (!from) return 0;
    if (!u) {
        u = upload_new(g, (struct gen_upload){.kind = GEN_UPLOAD_FLOATS, .from = from, .n = n, .k = 1},
                       n * sizeof(*from));
        err = u ? upload_copy(g, u, 0, from, n * sizeof(*from)) : -ENOMEM;
    }
    if (!err) *out = u->mem.dev;
    return err;
}

int gen_gpu_narrow(struct gen_gpu *g, const float *from, uint64_t n, void **out)
{
    struct gen_upload *u = from ? upload_find(g, GEN_UPLOAD_NARROW, from, n, 1) : NULL;
    struct gen_weight w = {.format = GEN_F32, .n = 1, .k = (uint32_t)n, .data = from};
    int err = 0;

    *out = NULL;
    if (!from) return 0;
    if (!u) {
        struct gen_upload what = {.kind = GEN_UPLOAD_NARROW, .from = from, .n = n, .k = 1};
        u = upload_new(g, what, n * gw_dtype_bytes(g->o.type));
        err = u ? upload_turned(g, u, &w, g->o.type) : -ENOMEM;
    }
    if (!err) *out = u->mem.dev;
    return err;
}

int gen_gpu_factors(struct gen_gpu *g, const struct gen_weight *w, bool plus_one, const float **out)
{
    enum gen_upload_kind kind = plus_one ? GEN_UPLOAD_PLUS_ONE : GEN_UPLOAD_FACTORS;
    struct gen_upload *u = w->data ? upload_find(g, kind, w->data, w->k, 1) : NULL;
    float *f = NULL;
    int err = 0;

    *out = NULL;
    if (!w->data) return 0;
    if (!u) {
        f = malloc(w->k * sizeof(*f));
        u = f ? upload_new(g, (struct gen_upload){.kind = kind, .from = w->data, .n = w->k, .k = 1},
                           w->k * sizeof(*f))
              : NULL;
        for (uint32_t i = 0; u && i < w->k; i++) f[i] = gen_weight_at(w, 0, i) + (plus_one ? 1 : 0);
        err = u ? upload_copy(g, u, 0, f, w->k * sizeof(*f)) : -ENOMEM;
        free(f);
    }
    if (!err) *out = u->mem.dev;
    return err;
}

static int upload_op(struct gen_gpu *g, const struct gen_op *op)
{
    uint64_t turns = (uint64_t)op->positions * op->half;
    struct gen_matrix m;
    const float *f;
    void *narrow;
    int err = 0;

    switch (op->kind) {
    case GEN_EMBED:
    case GEN_LEARNED: return gen_gpu_matrix(g, &op->weight, &m);
    case GEN_LINEAR:
        err = gen_gpu_matrix(g, &op->weight, &m);
        if (!err && g->lt) err = gen_gpu_narrow(g, op->bias, op->weight.n, &narrow);
        return err ? err : gen_gpu_floats(g, op->bias, op->weight.n, &f);
    case GEN_NORM:
        err = gen_gpu_factors(g, &op->weight, op->plus_one, &f);
        return err ? err : gen_gpu_floats(g, op->bias, op->segment, &f);
    case GEN_ROTATE:
        err = gen_gpu_floats(g, op->cosine, turns, &f);
        return err ? err : gen_gpu_floats(g, op->sine, turns, &f);
    case GEN_ATTEND: return gen_gpu_floats(g, op->sink, op->heads, &f);
    case GEN_ADD: return op->b.value < 0 ? gen_gpu_floats(g, op->bias, op->a.width, &f) : 0;
    default: return 0;
    }
}

int gen_gpu_upload(struct gen_gpu *g)
{
    int err = 0;

    for (uint32_t i = 0; i < g->p.ops && !err; i++) err = upload_op(g, &g->p.op[i]);
    return err;
}

void gen_gpu_unload(struct gen_gpu *g)
{
    for (uint32_t i = 0; i < g->uploads; i++) gw_mem_free(&g->upload[i].mem);
    free(g->upload);
}
