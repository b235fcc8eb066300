/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Items of products. A chunk is a block of rows and a range of one segment's outputs. Each thread prepares a
 * block's rows for itself (norm, order): that is little beside the product, and saves a meeting of all.
 */
#include <string.h>

#include "src/generate/cpu/readers.h"
#include "src/generate/cpu/run.h"

#define X_FLOATS 65536u /* of a block of rows: they stay in a core's cache */
#define MAX_ROWS 64u

struct product_run {
    struct gen_cpu_run *r;
    const struct gen_cpu_item *item;
    uint64_t number;
    uint32_t rows, block_rows;
    uint32_t each;   /* outputs of a chunk */
    uint32_t chunks; /* of one block of rows */
};

static uint32_t product_stride(const struct gen_cpu_item *item)
{
    return (item->op->a.width + GEN_CPU_GROUP - 1) / GEN_CPU_GROUP * GEN_CPU_GROUP;
}

/* Rows of a block, where there are max_rows at most. */
static uint32_t product_rows(const struct gen_cpu_item *item, uint32_t max_rows)
{
    uint32_t rows = X_FLOATS / product_stride(item);

    rows = rows < 4 ? 4 : rows > MAX_ROWS ? MAX_ROWS : rows;
    return rows < max_rows ? rows : max_rows;
}

size_t gen_cpu_x_floats(const struct gen_cpu_plan *plan, uint32_t max_rows)
{
    size_t most = 0;

    for (uint32_t i = 0; i < plan->items; i++) {
        const struct gen_cpu_item *item = plan->item + i;
        size_t floats;

        if (item->kind != GEN_CPU_PRODUCT) continue;
        floats = (size_t)product_rows(item, max_rows) * product_stride(item);
        if (most < floats) most = floats;
    }
    return most;
}

size_t gen_cpu_up_floats(const struct gen_cpu_plan *plan, uint32_t max_rows)
{
    for (uint32_t i = 0; i < plan->segments; i++)
        if (plan->segment[i].gate)
            return (size_t)(max_rows < MAX_ROWS ? max_rows : MAX_ROWS) * GEN_CPU_OUTPUTS;
    return 0;
}

size_t gen_cpu_panel_floats(const struct gen_cpu_plan *plan)
{
    size_t most = 0;

    for (uint32_t i = 0; i < plan->items; i++)
        if (plan->item[i].kind == GEN_CPU_PRODUCT && most < product_stride(plan->item + i))
            most = product_stride(plan->item + i);
    return 4 * most;
}

/* Puts a block's rows into the member's x. */
static void product_input(const struct product_run *run, struct gen_cpu_member *m, uint32_t block,
                          uint32_t rows)
{
    const struct gen_cpu_run *r = run->r;
    const struct gen_cpu_item *item = run->item;
    const struct gen_part *part = gen_cpu_input(item);
    uint32_t stride = product_stride(item);
    uint64_t of = run->number << 16 | block;

    if (m->x_of == of) return;
    m->x_of = of;
    for (uint32_t i = 0; i < rows; i++) {
        const float *from = gen_cpu_part(r, part, block * run->block_rows + i);
        float *x = m->x + (size_t)i * stride;

        if (item->norm)
            r->kernels->norm(r->plan->norm + (item->norm - r->plan->program->op), from, x, part->width);
        else
            memcpy(x, from, part->width * sizeof(*x));
        memset(x + part->width, 0, (stride - part->width) * sizeof(*x));
        if (item->op->weight.format == GEN_Q4) r->kernels->order(x, stride);
    }
}

/* One weight's outputs p->from … p->to - 1, with the bias. */
static void product_of(const struct product_run *run, struct gen_cpu_product *p, const float *bias)
{
    static const struct gen_op add = {.kind = GEN_ADD};

    run->r->kernels->product(p);
    for (uint32_t i = 0; i < p->rows && bias; i++) {
        float *out = p->out + i * p->out_stride;

        run->r->kernels->element(&add, out, bias + p->from, out, p->to - p->from);
    }
}

/* What follows the product, for the same rows and outputs. */
static void product_tails(const struct product_run *run, const struct gen_cpu_segment *s,
                          const struct gen_cpu_product *p, uint32_t row)
{
    const struct gen_cpu_run *r = run->r;

    for (uint32_t i = 0; i < p->rows; i++) {
        float *out = p->out + i * p->out_stride;

        for (uint32_t t = s->tail; t < s->tail + s->tails; t++) {
            const struct gen_cpu_tail *tail = r->plan->tail + t;
            const float *other = tail->op->bias ? tail->op->bias + p->from : NULL;

            if (gen_cpu_reads_b(tail->op))
                other = gen_cpu_part(r, tail->second ? &tail->op->a : &tail->op->b, row + i) + p->from;
            if (tail->second)
                r->kernels->element(tail->op, other, out, out, p->to - p->from);
            else
                r->kernels->element(tail->op, out, other, out, p->to - p->from);
        }
    }
}

static void product_segment(const struct product_run *run, struct gen_cpu_member *m,
                            const struct gen_cpu_segment *s, struct gen_cpu_product *p, uint32_t row)
{
    struct gen_cpu_product up = *p;

    p->w = &s->w;
    p->out = gen_cpu_row(run->r, s->out, row) + p->from;
    p->out_stride = run->r->stride[s->out];
    product_of(run, p, s->bias);
    if (s->gate) {
        up.w = &s->up;
        up.out = m->up;
        up.out_stride = GEN_CPU_OUTPUTS;
        product_of(run, &up, s->up_bias);
        for (uint32_t i = 0; i < p->rows; i++) {
            float *out = p->out + i * p->out_stride;

            run->r->kernels->element(s->gate, out, m->up + (size_t)i * GEN_CPU_OUTPUTS, out, p->to - p->from);
        }
    }
    product_tails(run, s, p, row);
}

static void product_chunk(void *ctx, uint32_t chunk, uint32_t member)
{
    const struct product_run *run = ctx;
    struct gen_cpu_member *m = run->r->member + member;
    uint32_t block = chunk / run->chunks, row = block * run->block_rows, at = chunk % run->chunks;
    const struct gen_cpu_segment *s = run->r->plan->segment + run->item->first;
    struct gen_cpu_product p = {.x = m->x, .x_stride = product_stride(run->item), .panel = m->panel};

    for (; at >= (s->w.n + run->each - 1) / run->each; s++) at -= (s->w.n + run->each - 1) / run->each;
    p.rows = run->rows - row < run->block_rows ? run->rows - row : run->block_rows;
    p.from = at * run->each;
    p.to = p.from + run->each < s->w.n ? p.from + run->each : s->w.n;
    product_input(run, m, block, p.rows);
    product_segment(run, m, s, &p, row);
}

void gen_cpu_run_product(struct gen_cpu_run *r, const struct gen_cpu_item *item)
{
    struct product_run run = {.r = r, .item = item, .number = ++r->products, .rows = gen_cpu_rows(r, item)};
    uint64_t outputs = 0;
    uint32_t blocks;

    if (!run.rows) return;
    run.block_rows = product_rows(item, run.rows);
    blocks = (run.rows + run.block_rows - 1) / run.block_rows;
    for (uint32_t i = 0; i < item->count; i++) outputs += r->plan->segment[item->first + i].w.n;
    outputs = outputs / (6 * (uint64_t)gen_team_threads(r->team)) + 1;
    run.each = outputs > GEN_CPU_OUTPUTS ? GEN_CPU_OUTPUTS : (uint32_t)(outputs + 15) / 16 * 16;
    for (uint32_t i = 0; i < item->count; i++)
        run.chunks += (r->plan->segment[item->first + i].w.n + run.each - 1) / run.each;
    gen_team_run(r->team, blocks * run.chunks, product_chunk, &run);
}
