/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is launched together, and where values lie. Operators become items: a sum joins the product or norm
 * before it, products of the same input are one, and turns join the attention that they are for. Values share
 * an arena: each has its place from the item that writes it to the last one that reads it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "src/generate/gpu/inside.h"

#define ARENA_ALIGN 256u /* bytes */

struct plan {
    struct gen_gpu *g;
    uint32_t *uses, *writer; /* of each value: operators that read it; the one that writes it */
    bool *taken;             /* operators that are part of an item */
};

static void plan_count(struct plan *p, struct gen_part part)
{
    if (part.value >= 0) p->uses[part.value]++;
}

static bool plan_takes_b(const struct gen_op *op)
{
    return op->kind == GEN_ATTEND || op->kind == GEN_GATE ||
           ((op->kind == GEN_ADD || op->kind == GEN_MUL) && op->b.value >= 0);
}

static bool plan_takes_a(const struct gen_op *op)
{
    return op->kind != GEN_EMBED && op->kind != GEN_LEARNED;
}

static void plan_uses(struct plan *p)
{
    const struct gen_program *q = &p->g->p;

    for (uint32_t i = 0; i < q->ops; i++) {
        const struct gen_op *op = &q->op[i];
        p->writer[op->out] = i;
        if (plan_takes_a(op)) plan_count(p, op->a);
        if (plan_takes_b(op)) plan_count(p, op->b);
        if (op->kind == GEN_ATTEND) plan_count(p, op->c);
    }
    p->uses[q->logits]++;
    for (uint32_t i = 0; i < q->ops; i++) { /* what comes after PICK has a vector for each wanted row */
        const struct gen_op *op = &q->op[i];
        p->g->value[op->out].width = q->width[op->out];
        p->g->value[op->out].picked =
            op->kind == GEN_PICK || (plan_takes_a(op) && p->g->value[op->a.value].picked);
    }
}

/* Logits are floats already before they are capped, scaled or shifted. */
static void plan_types(struct plan *p)
{
    const struct gen_program *q = &p->g->p;
    int32_t v = q->logits;

    for (uint32_t i = 0; i < q->values; i++) p->g->value[i].type = p->g->o.type;
    for (;;) {
        const struct gen_op *op = &q->op[p->writer[v]];
        p->g->value[v].type = GW_DTYPE_F32;
        if (op->kind != GEN_CAP && op->kind != GEN_ADD && op->kind != GEN_MUL) return;
        if (plan_takes_b(op) || p->uses[op->a.value] != 1) return;
        v = op->a.value;
    }
}

static bool plan_is_whole(const struct plan *p, struct gen_part part)
{
    return part.value >= 0 && part.first == 0 && part.width == p->g->p.width[part.value];
}

static void item_reads(struct gen_item *it, struct gen_part part)
{
    it->in[it->ins++] = part;
}

/* The sum that the value of operator i alone goes into, whose other part is there before: or NULL. */
static const struct gen_op *plan_sum(const struct plan *p, uint32_t i, struct gen_part *other)
{
    const struct gen_program *q = &p->g->p;
    int32_t value = q->op[i].out;

    if (p->uses[value] != 1 || value == q->logits) return NULL;
    for (uint32_t k = i + 1; k < q->ops; k++) {
        const struct gen_op *op = &q->op[k];
        if (op->a.value != value && !(plan_takes_b(op) && op->b.value == value)) continue;
        if (op->kind != GEN_ADD || op->b.value < 0) return NULL;
        *other = op->a.value == value ? op->b : op->a;
        struct gen_part mine = op->a.value == value ? op->a : op->b;
        if (!plan_is_whole(p, mine) || other->value == value || p->writer[other->value] > i) return NULL;
        return op;
    }
    return NULL;
}

static void plan_with_sum(struct plan *p, uint32_t i, struct gen_item *it)
{
    struct gen_part other;
    const struct gen_op *sum = plan_sum(p, i, &other);

    item_reads(it, p->g->p.op[i].a);
    it->out[it->outs++] = sum ? sum->out : p->g->p.op[i].out;
    it->add.value = -1;
    if (!sum) return;
    it->add = other;
    item_reads(it, other);
    p->taken[sum - p->g->p.op] = true;
}

/* Further products of the same input and kind of weights. */
static void plan_products(struct plan *p, uint32_t i, struct gen_item *it)
{
    const struct gen_program *q = &p->g->p;
    const struct gen_op *first = &q->op[i];

    if (it->add.value >= 0) return;
    for (uint32_t k = i + 1; k < q->ops && it->ops < GEN_GPU_MATRICES; k++) {
        const struct gen_op *op = &q->op[k];
        struct gen_part other;
        if (op->kind == GEN_ATTEND) return; /* what comes after it is too far off */
        if (op->kind != GEN_LINEAR || p->taken[k] || op->a.value != first->a.value ||
            op->a.first != first->a.first || op->a.width != first->a.width ||
            op->weight.format != first->weight.format ||
            plan_sum(p, k, &other)) /* with its sum it is better off */
            continue;
        p->taken[k] = true;
        it->op[it->ops++] = op;
        it->out[it->outs++] = op->out;
    }
}

/* The turn that makes a part for operator i alone; or NULL. */
static const struct gen_op *plan_turn(struct plan *p, struct gen_part part, uint32_t head)
{
    const struct gen_op *op = &p->g->p.op[p->writer[part.value]];

    if (op->kind != GEN_ROTATE || op->head != head || p->uses[part.value] != 1 || !plan_is_whole(p, part))
        return NULL;
    return op;
}

static void plan_attention(struct plan *p, const struct gen_op *op, struct gen_item *it)
{
    it->op[1] = plan_turn(p, op->a, op->head);
    it->op[2] = plan_turn(p, op->b, op->head);
    item_reads(it, it->op[1] ? it->op[1]->a : op->a);
    item_reads(it, it->op[2] ? it->op[2]->a : op->b);
    item_reads(it, op->c);
    if (it->op[1]) it->out[it->outs++] = it->op[1]->out;
    it->out[it->outs++] = op->out;
}

static void plan_item(struct plan *p, uint32_t i)
{
    const struct gen_op *op = &p->g->p.op[i];
    struct gen_item *it = &p->g->item[p->g->items++];

    *it = (struct gen_item){.kind = op->kind, .op = {op}, .ops = 1, .add = {.value = -1}};
    if (op->kind == GEN_NORM || op->kind == GEN_LINEAR) {
        plan_with_sum(p, i, it);
        if (op->kind == GEN_LINEAR) plan_products(p, i, it);
    } else if (op->kind == GEN_ATTEND) {
        plan_attention(p, op, it);
    } else {
        if (plan_takes_a(op)) item_reads(it, op->a);
        if (plan_takes_b(op)) item_reads(it, op->b);
        it->out[it->outs++] = op->out;
    }
}

/* Turns that attention does itself are no items. */
static void plan_turns(struct plan *p)
{
    const struct gen_program *q = &p->g->p;

    for (uint32_t i = 0; i < q->ops; i++) {
        const struct gen_op *op = &q->op[i], *turn;
        if (op->kind != GEN_ATTEND) continue;
        if ((turn = plan_turn(p, op->a, op->head))) p->taken[turn - q->op] = true;
        if ((turn = plan_turn(p, op->b, op->head))) p->taken[turn - q->op] = true;
    }
}

static void plan_lives(struct gen_gpu *g)
{
    for (uint32_t i = 0; i < g->items; i++) {
        const struct gen_item *it = &g->item[i];
        for (uint32_t k = 0; k < it->outs; k++) {
            struct gen_value *v = &g->value[it->out[k]];
            uint64_t rows = v->picked && g->o.lanes < g->o.max_rows ? g->o.lanes : g->o.max_rows;
            v->born = v->dies = i;
            v->bytes =
                (rows * v->width * gw_dtype_bytes(v->type) + ARENA_ALIGN - 1) / ARENA_ALIGN * ARENA_ALIGN;
        }
        for (uint32_t k = 0; k < it->ins; k++) g->value[it->in[k].value].dies = i;
    }
    g->value[g->p.logits].bytes = 0; /* they lie elsewhere */
}

/* The lowest place where a value meets none that lives at the same time: those are few. */
static void plan_place(struct gen_gpu *g, struct gen_value *v, int32_t *live, uint32_t lives)
{
    bool moved;

    v->at = 0;
    do {
        moved = false;
        for (uint32_t i = 0; i < lives; i++) {
            const struct gen_value *o = &g->value[live[i]];
            if (v->at >= o->at + o->bytes || o->at >= v->at + v->bytes) continue;
            v->at = o->at + o->bytes;
            moved = true;
        }
    } while (moved);
    if (v->at + v->bytes > g->arena_bytes) g->arena_bytes = v->at + v->bytes;
}

static int plan_places(struct gen_gpu *g)
{
    int32_t *live = malloc((g->p.values + 1) * sizeof(*live));
    uint32_t lives = 0;

    if (!live) return -ENOMEM;
    for (uint32_t i = 0; i < g->items; i++) {
        for (uint32_t k = 0; k < g->item[i].outs; k++) {
            struct gen_value *v = &g->value[g->item[i].out[k]];
            if (!v->bytes) continue;
            plan_place(g, v, live, lives);
            live[lives++] = g->item[i].out[k];
        }
        for (uint32_t k = 0; k < lives;)
            if (g->value[live[k]].dies <= i)
                live[k] = live[--lives];
            else
                k++;
    }
    free(live);
    return 0;
}

int gen_gpu_plan(struct gen_gpu *g)
{
    struct plan p = {.g = g,
                     .uses = calloc(g->p.values, sizeof(*p.uses)),
                     .writer = calloc(g->p.values, sizeof(*p.writer)),
                     .taken = calloc(g->p.ops, sizeof(*p.taken))};
    int err = -ENOMEM;

    if (p.uses && p.writer && p.taken) {
        plan_uses(&p);
        plan_types(&p);
        plan_turns(&p);
        for (uint32_t i = 0; i < g->p.ops; i++)
            if (!p.taken[i]) plan_item(&p, i);
        plan_lives(g);
        err = plan_places(g);
    }
    free(p.uses);
    free(p.writer);
    free(p.taken);
    return err;
}
