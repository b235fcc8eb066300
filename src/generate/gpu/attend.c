/* SPDX-License-Identifier: Apache-2.0 */
/* Which kernels compute attention, and in how many parts. */
#include <stdbool.h>

#include "src/generate/gpu/inside.h"

#define ATTEND_ROWS   64 /* a step of more rows is cut into tiles */
#define ATTEND_SPLITS 32 /* at most */
#define ATTEND_SAME   4  /* splits where the size must not show */
#define ATTEND_FULL   4  /* blocks for each multiprocessor, at least */

/* A kernel on tensor cores for that size of a head; NULL: there is none. */
static const struct gw_kernel *attend_kernel(uint32_t type, uint32_t head)
{
    bool b = type == GW_DTYPE_BF16;

    switch (head) {
    case 16: return b ? &gen_attend_bf16_16 : &gen_attend_f16_16;
    case 64: return b ? &gen_attend_bf16_64 : &gen_attend_f16_64;
    case 80: return b ? &gen_attend_bf16_80 : &gen_attend_f16_80;
    case 96: return b ? &gen_attend_bf16_96 : &gen_attend_f16_96;
    case 128: return b ? &gen_attend_bf16_128 : &gen_attend_f16_128;
    case 256: return b ? &gen_attend_bf16_256 : &gen_attend_f16_256;
    default: return NULL;
    }
}

/* Queries, where the turn leaves them, must be aligned to 16 bytes, as keys and values must. */
static const struct gw_kernel *attend_fits(const struct gen_gpu *g, const struct gen_item *it)
{
    const struct gen_op *op = it->op[0];
    bool aligned = it->op[1] || (op->a.first % 8 == 0 && g->value[op->a.value].width % 8 == 0);

    if (gw_dtype_bytes(g->o.type) != 2 || g->o.type != g->o.cache_type || op->head != op->value_head ||
        !aligned || g->shape.width % 8)
        return NULL;
    return attend_kernel(g->o.type, op->head);
}

static uint32_t attend_groups(const struct gen_op *op)
{
    return (op->heads / op->kv_heads + GEN_GPU_GROUP - 1) / GEN_GPU_GROUP;
}

/* Rows of a tile: all their heads with the same keys are 16 vectors at most. */
static uint32_t attend_each(const struct gen_op *op)
{
    uint32_t heads = op->heads / op->kv_heads;

    return heads < GEN_GPU_GROUP ? GEN_GPU_GROUP / heads : 1;
}

static bool attend_tiled(const struct gen_gpu *g, const struct gen_item *it, uint32_t size)
{
    return size > ATTEND_ROWS && !g->o.same && attend_fits(g, it);
}

/* Rows that blocks have: all, or single ones, of which each lane has one at most. */
static uint32_t attend_slots(const struct gen_gpu *g, const struct gen_item *it, uint32_t size)
{
    return attend_tiled(g, it, size) && g->o.lanes < size ? g->o.lanes : size;
}

/* Blocks that share the pages of a row: as many as keep the GPU busy when there are few rows. */
static uint32_t attend_splits(const struct gen_gpu *g, const struct gen_item *it, uint32_t size)
{
    uint64_t blocks = (uint64_t)attend_slots(g, it, size) * it->op[0]->kv_heads * attend_groups(it->op[0]);
    uint64_t full = (uint64_t)ATTEND_FULL * gw_exec_resident_blocks(g->exec), splits;

    if (g->o.same) return ATTEND_SAME;
    if (size > ATTEND_ROWS && !attend_tiled(g, it, size)) return 1;
    splits = (full + blocks - 1) / blocks;
    return splits < ATTEND_SPLITS ? (uint32_t)splits : ATTEND_SPLITS;
}

uint64_t gen_gpu_partial(const struct gen_gpu *g, const struct gen_item *it, uint32_t size)
{
    uint32_t splits = attend_splits(g, it, size);

    if (splits == 1) return 0;
    return (uint64_t)splits * attend_slots(g, it, size) * it->op[0]->heads * (it->op[0]->value_head + 2) *
           sizeof(float);
}

static uint64_t attend_table_bytes(const struct gen_gpu *g)
{
    return ((uint64_t)g->o.max_rows + 1) * sizeof(struct gen_tile);
}

/* Tables of tiles lie one after another, one for each number of rows that tiles may have. */
static struct gen_tile *attend_table(const struct gen_gpu *g, uint32_t each)
{
    return (struct gen_tile *)((char *)g->tiles.dev + attend_table_bytes(g) * (each - 1));
}

/* After the tables: single rows, and how many there are. */
static uint32_t *attend_single(const struct gen_gpu *g)
{
    return (uint32_t *)((char *)g->tiles.dev + attend_table_bytes(g) * GEN_GPU_GROUP);
}

uint64_t gen_gpu_tiles_bytes(const struct gen_gpu *g)
{
    return attend_table_bytes(g) * GEN_GPU_GROUP + ((uint64_t)g->o.max_rows + 1) * sizeof(uint32_t);
}

/* The number of tiles stands behind the last one. */
static uint32_t *attend_number(const struct gen_gpu *g, uint32_t each)
{
    return &attend_table(g, each)[g->o.max_rows].row;
}

int gen_gpu_tiles(struct gen_gpu *g, uint32_t size, struct gen_launches *l)
{
    uint32_t done = 0; /* bit i: the table for i rows */
    int err = 0;

    for (uint32_t i = 0; i < g->items && !err; i++) {
        if (g->item[i].kind != GEN_ATTEND || !attend_tiled(g, &g->item[i], size)) continue;
        uint32_t each = attend_each(g->item[i].op[0]);
        struct gen_tiles_args a = {.step = g->memory.step,
                                   .tile = attend_table(g, each),
                                   .tiles = attend_number(g, each),
                                   .single = attend_single(g),
                                   .singles = attend_single(g) + g->o.max_rows,
                                   .each = each};
        if (!(done >> each & 1)) err = gen_gpu_launch(l, &gen_tiles_kernel, 1, g->threads, &a);
        done |= 1u << each;
    }
    return err;
}

int gen_gpu_turn(struct gen_gpu *g, const struct gen_op *turn, struct gen_part part, uint32_t head,
                 struct gen_turn *out)
{
    uint64_t n;
    int err;

    *out = (struct gen_turn){
        .x = gen_gpu_rows(g, turn ? turn->a : part), .heads = part.width / head, .head = head};
    if (!turn) return 0;
    n = (uint64_t)turn->positions * turn->half;
    out->half = turn->half;
    out->interleaved = turn->interleaved;
    err = gen_gpu_floats(g, turn->cosine, n, &out->cosine);
    return err ? err : gen_gpu_floats(g, turn->sine, n, &out->sine);
}

/* Keys and values go into the pages, and queries are turned. */
static int attend_place(struct gen_gpu *g, const struct gen_item *it, uint32_t size, struct gen_launches *l)
{
    const struct gen_op *op = it->op[0];
    struct gen_place_args a = {
        .count = gen_gpu_count(g, op->out, size), .cache = g->memory.cache, .layer = op->layer};
    int err = gen_gpu_turn(g, it->op[2], op->b, op->head, &a.k);

    if (!err) err = gen_gpu_turn(g, NULL, op->c, op->value_head, &a.v);
    if (!err && it->op[1]) {
        err = gen_gpu_turn(g, it->op[1], op->a, op->head, &a.q);
        a.y = gen_gpu_out(g, it->op[1]->out);
    }
    if (err) return err;
    a.type = g->o.type;
    a.width = a.q.heads * a.q.head + a.k.heads * a.k.head + a.v.heads * a.v.head;
    a.parts = gen_gpu_parts(a.width);
    return gen_gpu_launch(l, &gen_place_kernel, (uint64_t)size * a.parts, g->threads, &a);
}

/* Warps that have a tile each. */
static int attend_tiles(struct gen_gpu *g, const struct gen_item *it, struct gen_attend_args a, uint32_t size,
                        struct gen_launches *l)
{
    uint32_t each = attend_each(it->op[0]), warps = GEN_GPU_THREADS / 32;
    uint64_t tiles = (uint64_t)(size + each - 1) / each + g->o.lanes;

    if (tiles > size) tiles = size; /* each has a row at least */
    a.tile = attend_table(g, each), a.tiles = attend_number(g, each);
    a.splits = 1;
    return gen_gpu_launch(l, attend_fits(g, it), (tiles + warps - 1) / warps * a.kv_heads * a.groups,
                          GEN_GPU_THREADS, &a);
}

int gen_gpu_attend(struct gen_gpu *g, const struct gen_item *it, uint32_t size, struct gen_launches *l)
{
    const struct gen_op *op = it->op[0];
    const struct gw_kernel *kernel = attend_fits(g, it);
    struct gen_attend_args a = {.step = g->memory.step,
                                .cache = g->memory.cache,
                                .q = it->op[1] ? gen_gpu_out(g, it->op[1]->out) : gen_gpu_rows(g, op->a),
                                .y = gen_gpu_out(g, op->out),
                                .partial = g->partial.dev,
                                .slots = attend_slots(g, it, size),
                                .layer = op->layer,
                                .heads = op->heads,
                                .kv_heads = op->kv_heads,
                                .head = op->head,
                                .value_head = op->value_head,
                                .window = op->window,
                                .splits = attend_splits(g, it, size),
                                .groups = attend_groups(op),
                                .scale = op->scale,
                                .cap = op->cap};
    int err = gen_gpu_floats(g, op->sink, op->heads, &a.sink);

    if (!err) err = attend_place(g, it, size, l);
    if (err) return err;
    if (attend_tiled(g, it, size)) {
        err = attend_tiles(g, it, a, size, l);
        a.single = attend_single(g), a.singles = a.single + g->o.max_rows;
    }
    if (!err)
        err = gen_gpu_launch(l, kernel ? kernel : &gen_attend_any,
                             (uint64_t)a.slots * a.kv_heads * a.groups * a.splits,
                             kernel ? GEN_GPU_THREADS : g->threads, &a);
    if (err || a.splits == 1) return err;
    return gen_gpu_launch(l, &gen_attend_join, (uint64_t)a.slots * op->heads, g->threads, &a);
}
