/* SPDX-License-Identifier: Apache-2.0 */
/* How a program's operators are joined into items, in an order in which each finds its input written. */
#include "src/generate/cpu/plan.h"

#include <errno.h>
#include <stdlib.h>

#include "src/generate/cpu/readers.h"

#define MAX_SEGMENTS 64u /* of an item: each chunk looks for its own among them */

struct planner {
    const struct gen_program *p;
    struct gen_cpu_plan *plan;
    struct gen_cpu_readers readers;
    bool *done;    /* of each operator: it is in an item */
    bool *written; /* of each value: by an item that is complete */
    int32_t *norm; /* of each value: the operator that products do instead of reading it; -1: none */
};

/* ---- memory ---- */

static bool planner_memory(struct planner *b)
{
    const struct gen_program *p = b->p;
    struct gen_cpu_plan *plan = b->plan;

    plan->item = calloc(2 * (size_t)p->ops, sizeof(*plan->item));
    plan->row = calloc(2 * (size_t)p->ops, sizeof(*plan->row));
    plan->segment = calloc(p->ops, sizeof(*plan->segment));
    plan->tail = calloc(p->ops, sizeof(*plan->tail));
    plan->norm = calloc(p->ops, sizeof(*plan->norm));
    plan->first = calloc(p->values, sizeof(*plan->first));
    plan->last = calloc(p->values, sizeof(*plan->last));
    plan->picked = calloc(p->values, sizeof(*plan->picked));
    b->done = calloc(p->ops, sizeof(*b->done));
    b->written = calloc(p->values, sizeof(*b->written));
    b->norm = calloc(p->values, sizeof(*b->norm));
    if (!plan->item || !plan->row || !plan->segment || !plan->tail || !plan->norm || !plan->first)
        return false;
    if (!plan->last || !plan->picked || !b->done || !b->written || !b->norm) return false;
    for (uint32_t i = 0; i < p->values; i++) b->norm[i] = plan->first[i] = plan->last[i] = -1;
    return true;
}

void gen_cpu_plan_free(struct gen_cpu_plan *plan)
{
    if (!plan) return;
    for (uint32_t i = 0; plan->norm && i < plan->program->ops; i++) {
        free(plan->norm[i].factor);
        free(plan->norm[i].bias);
    }
    free(plan->item);
    free(plan->row);
    free(plan->segment);
    free(plan->tail);
    free(plan->norm);
    free(plan->first);
    free(plan->last);
    free(plan->picked);
    free(plan);
}

/* ---- norms ---- */

/* The numbers of a norm, as floats. */
static int plan_norm(struct planner *b, uint32_t i)
{
    const struct gen_op *op = b->p->op + i;
    struct gen_cpu_norm *norm = b->plan->norm + i;

    *norm = (struct gen_cpu_norm){.segment = op->segment, .epsilon = op->epsilon, .mean = op->mean};
    norm->factor = calloc(op->segment, sizeof(*norm->factor));
    if (op->bias) norm->bias = calloc(op->segment, sizeof(*norm->bias));
    if (!norm->factor || (op->bias && !norm->bias)) return -ENOMEM;
    for (uint32_t k = 0; k < op->segment; k++) {
        norm->factor[k] = op->weight.data ? gen_weight_at(&op->weight, 0, k) : 1;
        if (op->plus_one) norm->factor[k] += 1;
        if (op->bias) norm->bias[k] = op->bias[k];
    }
    return 0;
}

/* Do only products read the norm, and do they take all of it? */
static bool norm_joins(const struct planner *b, const struct gen_op *op)
{
    uint32_t from = b->readers.start[op->out], to = b->readers.start[op->out + 1];

    if (op->segment != op->a.width || op->out == b->p->logits || from == to) return false;
    for (uint32_t i = from; i < to; i++) {
        const struct gen_op *reader = b->p->op + b->readers.reader[i];

        if (reader->kind != GEN_LINEAR || reader->a.width != op->a.width) return false;
    }
    return true;
}

/* ---- products ---- */

static const struct gen_op *planner_writer(const struct planner *b, int32_t value)
{
    return b->readers.writer[value] < 0 ? NULL : b->p->op + b->readers.writer[value];
}

static bool planner_same_part(const struct gen_part *a, const struct gen_part *b)
{
    return a->value == b->value && a->first == b->first && a->width == b->width;
}

/* Q4 takes its input in another order than the other formats. */
static bool planner_same_product(const struct gen_op *a, const struct gen_op *b)
{
    return a->kind == GEN_LINEAR && b->kind == GEN_LINEAR && planner_same_part(&a->a, &b->a) &&
           (a->weight.format == GEN_Q4) == (b->weight.format == GEN_Q4);
}

static void planner_finish(struct planner *b, const struct gen_op *op)
{
    b->done[op - b->p->op] = true;
}

static bool planner_done(const struct planner *b, const struct gen_op *op)
{
    return b->done[op - b->p->op];
}

static bool planner_takes_all(const struct planner *b, const struct gen_part *part)
{
    return !part->first && part->width == b->p->width[part->value];
}

/* Rows `first` … of a weight. */
static struct gen_weight planner_weight_rows(struct gen_weight w, uint32_t first, uint32_t n)
{
    struct gen_weight before = w;
    uint32_t blocks = w.format == GEN_Q4 ? (w.k + w.block - 1) / w.block : 0;
    uint32_t bytes = w.scale_type == GEN_F32 ? 4 : 2;

    before.n = first;
    w.n = n;
    if (w.format != GEN_Q4) {
        w.data = (const char *)w.data + gen_weight_bytes(&before);
        return w;
    }
    w.data = (const char *)w.data + (size_t)first * blocks * (w.block / 2);
    w.scale = (const char *)w.scale + (size_t)first * blocks * bytes;
    if (w.zero)
        w.zero = (const char *)w.zero + (size_t)first * (w.zero_is_float ? blocks * bytes : (blocks + 1) / 2);
    return w;
}

/* gate(a, b) of two products, or of two parts of one, becomes one segment. Returns the gate, or NULL. */
static const struct gen_op *join_gate(struct planner *b, const struct gen_op *op, struct gen_cpu_segment *s)
{
    const struct gen_op *gate = gen_cpu_only_reader(b->p, &b->readers, op->out), *a, *up;

    if (!gate || gate->kind != GEN_GATE || planner_done(b, gate)) return NULL;
    a = planner_writer(b, gate->a.value);
    up = planner_writer(b, gate->b.value);
    if (!a || !up || !planner_same_product(a, up)) return NULL;
    if (a != op && (planner_done(b, a) || gen_cpu_only_reader(b->p, &b->readers, a->out) != gate))
        return NULL;
    if (up != op && (planner_done(b, up) || gen_cpu_only_reader(b->p, &b->readers, up->out) != gate))
        return NULL;
    s->w = planner_weight_rows(a->weight, gate->a.first, gate->a.width);
    s->up = planner_weight_rows(up->weight, gate->b.first, gate->b.width);
    s->bias = a->bias ? a->bias + gate->a.first : NULL;
    s->up_bias = up->bias ? up->bias + gate->b.first : NULL;
    s->gate = gate;
    s->out = gate->out;
    planner_finish(b, a);
    planner_finish(b, up);
    planner_finish(b, gate);
    return gate;
}

/* What is done to each element of the segment's result alone becomes part of it, as long as what else it
 * needs is there. */
static void join_tails(struct planner *b, struct gen_cpu_segment *s)
{
    const struct gen_op *op;

    s->tail = b->plan->tails;
    while ((op = gen_cpu_only_reader(b->p, &b->readers, s->out)) && gen_cpu_elementwise(op) &&
           !planner_done(b, op)) {
        bool two = gen_cpu_reads_b(op), second = two && op->b.value == s->out;
        const struct gen_part *mine = second ? &op->b : &op->a, *other = second ? &op->a : &op->b;

        if (!planner_takes_all(b, mine) || (two && (other->value == s->out || !b->written[other->value])))
            return;
        b->plan->tail[b->plan->tails++] = (struct gen_cpu_tail){.op = op, .second = second};
        s->tails++;
        s->out = op->out;
        planner_finish(b, op);
    }
}

static void plan_segment(struct planner *b, const struct gen_op *op)
{
    struct gen_cpu_segment *s = b->plan->segment + b->plan->segments++;

    *s = (struct gen_cpu_segment){.w = op->weight, .bias = op->bias, .out = op->out};
    planner_finish(b, op);
    join_gate(b, op, s);
    join_tails(b, s);
}

/* ---- items ---- */

static struct gen_cpu_item *planned_item(struct planner *b, enum gen_cpu_kind kind, const struct gen_op *op)
{
    struct gen_cpu_item *item = b->plan->item + b->plan->items++;

    *item = (struct gen_cpu_item){.kind = kind, .op = op, .picked = b->plan->picked[op->out]};
    return item;
}

static void planned_read(struct planner *b, int32_t value)
{
    b->plan->last[value] = (int)b->plan->items - 1;
}

static void planned_write(struct planner *b, int32_t value)
{
    b->plan->first[value] = (int)b->plan->items - 1;
    if (b->plan->last[value] < 0) b->plan->last[value] = b->plan->first[value];
}

/* All products that read what op reads. */
static void plan_product(struct planner *b, const struct gen_op *op)
{
    struct gen_cpu_item *item = planned_item(b, GEN_CPU_PRODUCT, op);
    uint32_t from = b->readers.start[op->a.value], to = b->readers.start[op->a.value + 1];
    struct gen_cpu_plan *plan = b->plan;

    item->first = plan->segments;
    if (b->norm[op->a.value] >= 0) item->norm = b->p->op + b->norm[op->a.value];
    for (uint32_t i = from; i < to && plan->segments - item->first < MAX_SEGMENTS; i++) {
        const struct gen_op *reader = b->p->op + b->readers.reader[i];

        if (!planner_done(b, reader) && planner_same_product(op, reader)) plan_segment(b, reader);
    }
    item->count = plan->segments - item->first;
    planned_read(b, gen_cpu_input(item)->value);
    for (uint32_t i = item->first; i < plan->segments; i++) {
        const struct gen_cpu_segment *s = plan->segment + i;

        planned_write(b, s->out);
        for (uint32_t t = s->tail; t < s->tail + s->tails; t++)
            if (gen_cpu_reads_b(plan->tail[t].op))
                planned_read(b, plan->tail[t].second ? plan->tail[t].op->a.value : plan->tail[t].op->b.value);
    }
    for (uint32_t i = item->first; i < plan->segments; i++) b->written[plan->segment[i].out] = true;
}

/* An operator that takes row by row joins the item before, if that is of such operators. PICK does not: it
 * reads rows that other threads have made. */
static void plan_row(struct planner *b, const struct gen_op *op)
{
    struct gen_cpu_plan *plan = b->plan;
    struct gen_cpu_item *item = plan->items ? plan->item + plan->items - 1 : NULL;

    if (!item || item->kind != GEN_CPU_ROWS || op->kind == GEN_PICK) {
        item = planned_item(b, GEN_CPU_ROWS, op);
        item->first = plan->rows;
    }
    plan->row[plan->rows++] = op;
    item->count++;
    if (op->kind == GEN_ATTEND) {
        planned_read(b, op->b.value);
        planned_read(b, op->c.value);
        return;
    }
    if (op->kind != GEN_EMBED && op->kind != GEN_LEARNED) planned_read(b, op->a.value);
    if (gen_cpu_reads_b(op)) planned_read(b, op->b.value);
    planned_write(b, op->out);
    b->written[op->out] = true;
}

static void plan_attend(struct planner *b, const struct gen_op *op)
{
    plan_row(b, op);
    planned_item(b, GEN_CPU_ATTEND, op);
    planned_read(b, op->a.value);
    planned_write(b, op->out);
    b->written[op->out] = true;
}

static int plan_ops(struct planner *b)
{
    bool picked = false;

    for (uint32_t i = 0; i < b->p->ops; i++) {
        picked = picked || b->p->op[i].kind == GEN_PICK;
        b->plan->picked[b->p->op[i].out] = picked;
    }
    for (uint32_t i = 0; i < b->p->ops; i++) {
        const struct gen_op *op = b->p->op + i;

        if (op->kind == GEN_NORM && plan_norm(b, i)) return -ENOMEM;
        if (b->done[i]) continue;
        planner_finish(b, op);
        if (op->kind == GEN_NORM && norm_joins(b, op)) {
            b->norm[op->out] = (int32_t)i;
        } else if (op->kind == GEN_LINEAR) {
            b->done[i] = false; /* it is one of those that read its input */
            plan_product(b, op);
        } else if (op->kind == GEN_ATTEND) {
            plan_attend(b, op);
        } else {
            plan_row(b, op);
        }
    }
    return 0;
}

int gen_cpu_plan_make(const struct gen_program *p, struct gen_cpu_plan **out)
{
    struct planner b = {.p = p, .plan = calloc(1, sizeof(*b.plan))};
    int err = -ENOMEM;

    if (b.plan) {
        b.plan->program = p;
        if (planner_memory(&b)) err = gen_cpu_readers_find(p, &b.readers);
        if (!err) err = plan_ops(&b);
    }
    free(b.done);
    free(b.written);
    free(b.norm);
    gen_cpu_readers_free(&b.readers);
    if (err) {
        gen_cpu_plan_free(b.plan);
        return gw_error(err, "no memory to plan a program");
    }
    *out = b.plan;
    return 0;
}
