/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attention over pages. A chunk is a tile of rows of one run, and one head of keys with all its queries: the
 * tile's rows share a pass over the pages.
 *
 * A row's sums go by stretches of positions, counted from 0: page after page within a stretch, then the
 * stretches are joined in order. So they do not depend on the tile, the window's edge apart, nor on threads.
 */
#include <math.h>
#include <string.h>

#include "src/generate/cpu/run.h"

#define STRETCH 128u /* positions */

/* The sums of one row's queries. */
struct attend_sums {
    float *most, *sum, *out; /* [group], [group], [group][stride] */
};

struct attend_run {
    struct gen_cpu_run *r;
    const struct gen_op *op;
    uint32_t group, stride;
};

static uint32_t attend_stride(const struct gen_op *op)
{
    uint32_t head = op->head > op->value_head ? op->head : op->value_head;

    return (head + 15) / 16 * 16;
}

/* Of a row's queries: themselves, the sums of a stretch, and those of all. */
static size_t attend_row_floats(const struct gen_op *op)
{
    size_t group = op->heads / op->kv_heads;

    return group * (3 * (size_t)attend_stride(op) + 4);
}

size_t gen_cpu_attend_floats(const struct gen_cpu_plan *plan)
{
    size_t most = 0;

    for (uint32_t i = 0; i < plan->items; i++)
        if (plan->item[i].kind == GEN_CPU_ATTEND && most < attend_row_floats(plan->item[i].op))
            most = attend_row_floats(plan->item[i].op);
    return most * GEN_CPU_TILE;
}

void gen_cpu_cut_tiles(struct gen_cpu_run *r)
{
    r->tiles = 0;
    for (uint32_t i = 0; i < r->step->runs; i++) {
        const struct gen_run *run = r->step->run + i;

        if (run->lane == GEN_NO_LANE) continue;
        for (uint32_t at = 0; at < run->rows; at += GEN_CPU_TILE) {
            uint32_t rows = run->rows - at < GEN_CPU_TILE ? run->rows - at : GEN_CPU_TILE;

            r->tile[r->tiles++] = (struct gen_cpu_tile){.run = i, .row = run->row + at, .rows = rows};
        }
    }
}

static struct attend_sums attend_sums_at(const struct attend_run *run, float *row, uint32_t which)
{
    float *at = row + (size_t)run->group * run->stride + which * (size_t)run->group * (run->stride + 2);

    return (struct attend_sums){.most = at, .sum = at + run->group, .out = at + 2 * (size_t)run->group};
}

static void attend_clear(const struct attend_run *run, const struct attend_sums *s)
{
    for (uint32_t g = 0; g < run->group; g++) s->most[g] = -INFINITY;
    memset(s->sum, 0, run->group * sizeof(*s->sum));
    memset(s->out, 0, (size_t)run->group * run->stride * sizeof(*s->out));
}

/* Adds a stretch's sums to those of the stretches before. */
static void attend_join(const struct attend_run *run, const struct attend_sums *all,
                        const struct attend_sums *s)
{
    for (uint32_t g = 0; g < run->group; g++) {
        float most = fmaxf(all->most[g], s->most[g]);
        float keep = all->most[g] == most ? 1 : expf(all->most[g] - most);
        float take = s->most[g] == most ? 1 : expf(s->most[g] - most);

        for (size_t i = (size_t)g * run->stride; i < (size_t)(g + 1) * run->stride; i++)
            all->out[i] = all->out[i] * keep + s->out[i] * take;
        all->sum[g] = all->sum[g] * keep + s->sum[g] * take;
        all->most[g] = most;
    }
}

/* The first position that a row attends to. */
static uint32_t attend_from(const struct gen_op *op, uint32_t position)
{
    return op->window && position >= op->window ? position - op->window + 1 : 0;
}

static void attend_queries(const struct attend_run *run, uint32_t row, uint32_t kv, float *to)
{
    const float *from = gen_cpu_part(run->r, &run->op->a, row) + (size_t)kv * run->group * run->op->head;

    for (uint32_t g = 0; g < run->group; g++, from += run->op->head, to += run->stride) {
        memcpy(to, from, run->op->head * sizeof(*to));
        memset(to + run->op->head, 0, (run->stride - run->op->head) * sizeof(*to));
    }
}

/* Where a page's keys, or values, of a head lie. */
static const char *attend_at(const struct attend_run *run, uint32_t kind, uint32_t kv, uint32_t page)
{
    const struct gen_cache *c = &run->r->cache;
    uint64_t at = gen_cache_page(c, run->op->layer, kind, page) + (uint64_t)kv * GEN_PAGE * c->width;

    return (const char *)c->at + at * gw_dtype_bytes(c->dtype);
}

/* Asks for a page before it is needed: the processor foresees no jumps from page to page. */
static void attend_fetch(const struct attend_run *run, uint32_t kv, uint32_t page)
{
    const struct gen_cache *c = &run->r->cache;
    size_t bytes = (size_t)GEN_PAGE * c->width * gw_dtype_bytes(c->dtype);
    const char *key = attend_at(run, 0, kv, page), *value = attend_at(run, 1, kv, page);

    for (size_t i = 0; i < bytes; i += GEN_CPU_ALIGN) {
        __builtin_prefetch(key + i);
        __builtin_prefetch(value + i);
    }
}

/* One page, for all rows of a tile. */
static void attend_tile_page(const struct attend_run *run, const struct gen_cpu_tile *tile, uint32_t kv,
                             uint32_t page, float *rows)
{
    const struct gen_cpu_run *r = run->r;
    const struct gen_op *op = run->op;
    const struct gen_step *s = r->step;
    const uint32_t *number = s->page + (size_t)s->lane[tile->row] * s->lane_pages + page;
    struct gen_cpu_attend a = {.dtype = r->cache.dtype, .width = r->cache.width, .group = run->group};

    if ((page + 1) * GEN_PAGE <= s->position[tile->row + tile->rows - 1]) attend_fetch(run, kv, number[1]);
    a.key = attend_at(run, 0, kv, *number);
    a.value = attend_at(run, 1, kv, *number);
    a.head = op->head;
    a.value_head = op->value_head;
    a.stride = run->stride;
    a.scale = op->scale;
    a.cap = op->cap;
    for (uint32_t i = 0; i < tile->rows; i++) {
        float *row = rows + i * attend_row_floats(op);
        uint32_t position = s->position[tile->row + i], from = attend_from(op, position),
                 base = page * GEN_PAGE;
        struct attend_sums sums = attend_sums_at(run, row, 0);

        if (position < base || from >= base + GEN_PAGE) continue;
        a.from = from > base ? from - base : 0;
        a.to = position - base < GEN_PAGE ? position - base + 1 : GEN_PAGE;
        a.query = row;
        a.most = sums.most;
        a.sum = sums.sum;
        a.out = sums.out;
        r->kernels->attend(&a);
    }
}

static void attend_finish(const struct attend_run *run, uint32_t row, uint32_t kv,
                          const struct attend_sums *all)
{
    const struct gen_op *op = run->op;
    float *out = gen_cpu_row(run->r, op->out, row) + (size_t)kv * run->group * op->value_head;

    for (uint32_t g = 0; g < run->group; g++, out += op->value_head) {
        float keep = 1, sum = all->sum[g];

        if (op->sink) {
            float sink = op->sink[kv * run->group + g], most = fmaxf(all->most[g], sink);

            keep = expf(all->most[g] - most);
            sum = sum * keep + expf(sink - most);
        }
        for (uint32_t i = 0; i < op->value_head; i++)
            out[i] = all->out[(size_t)g * run->stride + i] * keep / sum;
    }
}

static void attend_chunk(void *ctx, uint32_t chunk, uint32_t member)
{
    const struct attend_run *run = ctx;
    const struct gen_op *op = run->op;
    const struct gen_cpu_tile *tile = run->r->tile + chunk / op->kv_heads;
    uint32_t kv = chunk % op->kv_heads, first = run->r->step->position[tile->row],
             last = first + tile->rows - 1;
    float *rows = run->r->member[member].attend;
    size_t floats = attend_row_floats(op);

    for (uint32_t i = 0; i < tile->rows; i++) {
        struct attend_sums all = attend_sums_at(run, rows + i * floats, 1);

        attend_queries(run, tile->row + i, kv, rows + i * floats);
        attend_clear(run, &all);
    }
    for (uint32_t at = attend_from(op, first) / STRETCH * STRETCH; at <= last; at += STRETCH) {
        uint32_t to =
            last / GEN_PAGE < (at + STRETCH - 1) / GEN_PAGE ? last / GEN_PAGE : (at + STRETCH - 1) / GEN_PAGE;

        for (uint32_t i = 0; i < tile->rows; i++) {
            struct attend_sums sums = attend_sums_at(run, rows + i * floats, 0);

            attend_clear(run, &sums);
        }
        for (uint32_t page = at / GEN_PAGE; page <= to; page++) attend_tile_page(run, tile, kv, page, rows);
        for (uint32_t i = 0; i < tile->rows; i++) {
            struct attend_sums all = attend_sums_at(run, rows + i * floats, 1);
            struct attend_sums sums = attend_sums_at(run, rows + i * floats, 0);

            /* A sum of tokens is never 0: each weight is above it. */
            if (sums.sum[0] != 0) attend_join(run, &all, &sums);
        }
    }
    for (uint32_t i = 0; i < tile->rows; i++) {
        struct attend_sums all = attend_sums_at(run, rows + i * floats, 1);

        attend_finish(run, tile->row + i, kv, &all);
    }
}

void gen_cpu_run_attend(struct gen_cpu_run *r, const struct gen_cpu_item *item)
{
    struct attend_run run = {.r = r, .op = item->op, .group = item->op->heads / item->op->kv_heads};

    run.stride = attend_stride(item->op);
    gen_team_run(r->team, r->tiles * item->op->kv_heads, attend_chunk, &run);
}
