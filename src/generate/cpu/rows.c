/* SPDX-License-Identifier: Apache-2.0 */
/* Items of operators that take row by row: a thread does all of them to a row, while it lies in its cache. */
#include <string.h>

#include "src/generate/cpu/readers.h"
#include "src/generate/cpu/run.h"
#include "src/generate/program/number.h"

struct rows_run {
    struct gen_cpu_run *r;
    const struct gen_cpu_item *item;
    uint32_t rows, each;
};

static void rows_lookup(const struct gen_weight *w, uint32_t n, float scale, float *out)
{
    uint64_t from = (uint64_t)n * w->k;

    if (w->format == GEN_F32)
        for (uint32_t i = 0; i < w->k; i++) out[i] = ((const float *)w->data)[from + i] * scale;
    else if (w->format == GEN_BF16)
        for (uint32_t i = 0; i < w->k; i++)
            out[i] = gen_bf16_get(((const uint16_t *)w->data)[from + i]) * scale;
    else
        for (uint32_t i = 0; i < w->k; i++) out[i] = gen_weight_at(w, n, i) * scale;
}

static void rows_rotate(const struct gen_op *op, uint32_t position, const float *a, float *out)
{
    const float *cosine = op->cosine + (size_t)position * op->half,
                *sine = op->sine + (size_t)position * op->half;
    uint32_t far = op->interleaved ? 1 : op->half, step = op->interleaved ? 2 : 1;

    memcpy(out, a, op->a.width * sizeof(*a));
    for (uint32_t head = 0; head < op->a.width; head += op->head) {
        for (uint32_t i = 0; i < op->half; i++) {
            float x = a[head + i * step], y = a[head + i * step + far];

            out[head + i * step] = x * cosine[i] - y * sine[i];
            out[head + i * step + far] = y * cosine[i] + x * sine[i];
        }
    }
}

/* Keys and values of a row go into its lane's page. */
static void rows_store(const struct gen_cpu_run *r, const struct gen_op *op, uint32_t row)
{
    const struct gen_cache *c = &r->cache;
    const struct gen_step *s = r->step;
    uint32_t position = s->position[row], page;
    size_t bytes = gw_dtype_bytes(c->dtype);

    if (s->lane[row] == GEN_NO_LANE) return;
    page = s->page[(size_t)s->lane[row] * s->lane_pages + position / GEN_PAGE];
    for (uint32_t kind = 0; kind < 2; kind++) {
        const float *from = gen_cpu_part(r, kind ? &op->c : &op->b, row);
        uint32_t n = kind ? op->value_head : op->head;
        uint64_t at = gen_cache_page(c, op->layer, kind, page) + (uint64_t)(position % GEN_PAGE) * c->width;

        for (uint32_t head = 0; head < op->kv_heads; head++, at += (uint64_t)GEN_PAGE * c->width)
            r->kernels->store(c->dtype, (char *)c->at + at * bytes, from + (size_t)head * n, n);
    }
}

static void rows_op(const struct gen_cpu_run *r, const struct gen_op *op, uint32_t row)
{
    float *out = op->kind == GEN_ATTEND ? NULL : gen_cpu_row(r, op->out, row);

    switch (op->kind) {
    case GEN_EMBED: rows_lookup(&op->weight, r->step->token[row], op->scale, out); return;
    case GEN_LEARNED: rows_lookup(&op->weight, r->step->position[row] + (uint32_t)op->offset, 1, out); return;
    case GEN_ROTATE: rows_rotate(op, r->step->position[row], gen_cpu_part(r, &op->a, row), out); return;
    case GEN_ATTEND: rows_store(r, op, row); return;
    case GEN_PICK:
        memcpy(out, gen_cpu_part(r, &op->a, r->step->out[row]), op->a.width * sizeof(*out));
        return;
    case GEN_NORM:
        r->kernels->norm(r->plan->norm + (op - r->plan->program->op), gen_cpu_part(r, &op->a, row), out,
                         op->a.width);
        return;
    default:
        r->kernels->element(op, gen_cpu_part(r, &op->a, row),
                            gen_cpu_reads_b(op) ? gen_cpu_part(r, &op->b, row) : op->bias, out, op->a.width);
    }
}

static void rows_chunk(void *ctx, uint32_t chunk, uint32_t member)
{
    const struct rows_run *run = ctx;
    uint32_t from = chunk * run->each, to = from + run->each < run->rows ? from + run->each : run->rows;

    (void)member;
    for (uint32_t row = from; row < to; row++)
        for (uint32_t i = 0; i < run->item->count; i++)
            rows_op(run->r, run->r->plan->row[run->item->first + i], row);
}

void gen_cpu_run_rows(struct gen_cpu_run *r, const struct gen_cpu_item *item)
{
    struct rows_run run = {.r = r, .item = item, .rows = gen_cpu_rows(r, item)};

    run.each = run.rows / (4 * gen_team_threads(r->team)) + 1;
    gen_team_run(r->team, (run.rows + run.each - 1) / run.each, rows_chunk, &run);
}
