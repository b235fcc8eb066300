/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The check that every program passes before a network runs it. Programs come from files of strangers. A
 * network computes what has passed without a further look at any number. No part leaves its value. No weight
 * is smaller than what is read of it. Nothing is read before it is written.
 */
#include "src/generate/program/program.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

enum value_state { UNWRITTEN, ALL_ROWS, PICKED_ROWS };

struct check {
    struct gen_program *p;
    const struct gen_op *op;
    uint8_t *state; /* enum value_state, of each value */
    bool *layer;    /* is attended to; of as many as there are operators */
    bool picked;
};

static const char *const check_names[] = {"EMBED", "LEARNED", "NORM", "LINEAR", "ROTATE", "ATTEND",
                                          "ADD",   "MUL",     "ACT",  "GATE",   "CAP",    "PICK"};

static int check_bad(const struct check *c, const char *why)
{
    return gw_error(-EINVAL, "operator %u of the program (%s): %s", (unsigned)(c->op - c->p->op),
                    (unsigned)c->op->kind < 12 ? check_names[c->op->kind] : "?", why);
}

static bool check_aligned(const void *p, size_t bytes)
{
    return p && (uintptr_t)p % bytes == 0;
}

/* A part that is read: of rows of the kind that `rows` says. */
static int check_part(const struct check *c, const struct gen_part *part, enum value_state rows)
{
    if (part->value < 0 || (uint32_t)part->value >= c->p->values) return check_bad(c, "an input is missing");
    if (c->state[part->value] == UNWRITTEN) return check_bad(c, "an input is not written before");
    if (c->state[part->value] != rows) return check_bad(c, "an input has other rows");
    if (!part->width || (uint64_t)part->first + part->width > c->p->width[part->value])
        return check_bad(c, "a part exceeds its value");
    return 0;
}

static int check_q4(const struct check *c, const struct gen_weight *w)
{
    size_t bytes = w->scale_type == GEN_F32 ? 4 : 2;

    if (w->block != 16 && w->block != 32 && w->block != 64 && w->block != 128 && w->block != 256)
        return check_bad(c, "blocks must have 16, 32, 64, 128 or 256 elements");
    if (w->scale_type > GEN_BF16) return check_bad(c, "the scales have no known type");
    if (!check_aligned(w->scale, bytes)) return check_bad(c, "the scales are missing or not aligned");
    if (w->zero && w->zero_is_float && !check_aligned(w->zero, bytes))
        return check_bad(c, "the zeros are not aligned");
    return 0;
}

/* A weight of k columns and n rows; n 0: of any number. */
static int check_weight(const struct check *c, uint32_t n, uint32_t k)
{
    const struct gen_weight *w = &c->op->weight;

    if ((unsigned)w->format > GEN_Q4) return check_bad(c, "its weight has no known format");
    if (!w->n || (n && w->n != n) || w->k != k) return check_bad(c, "its weight has another shape");
    if (!check_aligned(w->data, w->format == GEN_F32 ? 4 : w->format == GEN_Q4 ? 1 : 2))
        return check_bad(c, "its weight is missing or not aligned");
    return w->format == GEN_Q4 ? check_q4(c, w) : 0;
}

static int check_floats(const struct check *c, const float *at, bool must)
{
    if (!at) return must ? check_bad(c, "its numbers are missing") : 0;
    return check_aligned(at, 4) ? 0 : check_bad(c, "its numbers are not aligned");
}

static int check_lookup(const struct check *c, uint32_t out)
{
    const struct gen_op *op = c->op;
    uint64_t rows = c->p->vocab;

    if (op->kind == GEN_LEARNED) {
        if (op->offset < 0) return check_bad(c, "its offset is below 0");
        rows = (uint64_t)op->offset + c->p->max_position;
    }
    if (op->weight.n < rows) return check_bad(c, "its weight has too few rows");
    return check_weight(c, 0, out);
}

static int check_norm(const struct check *c)
{
    const struct gen_op *op = c->op;

    if (!op->segment || op->a.width % op->segment) return check_bad(c, "its segments do not fit");
    if (!(op->epsilon >= 0) || !isfinite(op->epsilon)) return check_bad(c, "its epsilon is below 0");
    return op->weight.data ? check_weight(c, 1, op->segment) : 0;
}

static int check_rotate(const struct check *c)
{
    const struct gen_op *op = c->op;
    int err;

    if (!op->head || op->a.width % op->head) return check_bad(c, "its heads do not fit");
    if (!op->half || op->half > op->head / 2) return check_bad(c, "it rotates more than a head");
    if (op->positions < c->p->max_position) return check_bad(c, "its table has too few positions");
    if ((err = check_floats(c, op->cosine, true))) return err;
    return check_floats(c, op->sine, true);
}

static int check_attend(struct check *c)
{
    const struct gen_op *op = c->op;
    struct gen_program *p = c->p;
    uint32_t kv = op->kv_heads;

    if (!op->heads || !kv || op->heads % kv) return check_bad(c, "heads are no multiple of kv_heads");
    if (!op->head || !op->value_head) return check_bad(c, "a head has no elements");
    if ((uint64_t)op->heads * op->head != op->a.width) return check_bad(c, "its queries do not fit");
    if ((uint64_t)kv * op->head != op->b.width) return check_bad(c, "its keys do not fit");
    if ((uint64_t)kv * op->value_head != op->c.width) return check_bad(c, "its values do not fit");
    if (!isfinite(op->scale)) return check_bad(c, "its scale is no finite number");
    if (!(op->cap >= 0) || !isfinite(op->cap)) return check_bad(c, "its cap is below 0");
    if (op->layer >= p->ops) return check_bad(c, "there is no layer of that number");
    if (c->layer[op->layer]) return check_bad(c, "its layer has been attended to");
    c->layer[op->layer] = true;
    p->layers++;
    if (p->heads < kv) p->heads = kv;
    if (p->head < op->head) p->head = op->head;
    if (p->head < op->value_head) p->head = op->value_head;
    return check_floats(c, op->sink, false);
}

static int check_pick(struct check *c)
{
    if (c->picked) return check_bad(c, "there is another PICK");
    c->picked = true;
    return 0;
}

/* What each kind asks of its numbers; its inputs have been looked at. */
static int check_numbers(struct check *c, uint32_t out)
{
    const struct gen_op *op = c->op;

    switch (op->kind) {
    case GEN_EMBED:
        return isfinite(op->scale) ? check_lookup(c, out) : check_bad(c, "its scale is no finite number");
    case GEN_LEARNED: return check_lookup(c, out);
    case GEN_NORM: return check_norm(c);
    case GEN_LINEAR: return check_weight(c, out, op->a.width);
    case GEN_ROTATE: return check_rotate(c);
    case GEN_ATTEND: return check_attend(c);
    case GEN_MUL:
        return op->b.value >= 0 || isfinite(op->scale) ? 0 : check_bad(c, "its scale is no finite number");
    case GEN_ACT:
    case GEN_GATE: return (unsigned)op->act <= GEN_RELU2 ? 0 : check_bad(c, "its function is not known");
    case GEN_CAP: return op->cap > 0 && isfinite(op->cap) ? 0 : check_bad(c, "its cap is not above 0");
    case GEN_PICK: return check_pick(c);
    case GEN_ADD: return op->b.value >= 0 ? 0 : check_floats(c, op->bias, true);
    }
    return check_bad(c, "it is of no known kind");
}

static bool takes_b(const struct gen_op *op)
{
    return op->kind == GEN_ATTEND || op->kind == GEN_GATE ||
           ((op->kind == GEN_ADD || op->kind == GEN_MUL) && op->b.value >= 0);
}

/* Elements of its result. */
static uint64_t out_width(const struct gen_op *op)
{
    switch (op->kind) {
    case GEN_EMBED:
    case GEN_LEARNED: return op->weight.k;
    case GEN_LINEAR: return op->weight.n;
    case GEN_ATTEND: return (uint64_t)op->heads * op->value_head;
    default: return op->a.width;
    }
}

static int check_op(struct check *c)
{
    const struct gen_op *op = c->op;
    enum value_state rows = c->picked ? PICKED_ROWS : ALL_ROWS;
    uint32_t out;
    int err;

    if (op->out < 0 || (uint32_t)op->out >= c->p->values) return check_bad(c, "it writes no value");
    if (c->state[op->out] != UNWRITTEN) return check_bad(c, "its result has been written before");
    if (c->picked && (op->kind == GEN_EMBED || op->kind == GEN_LEARNED || op->kind == GEN_ATTEND))
        return check_bad(c, "it comes after PICK");
    if (op->kind != GEN_EMBED && op->kind != GEN_LEARNED && (err = check_part(c, &op->a, rows))) return err;
    if (takes_b(op)) {
        if ((err = check_part(c, &op->b, rows))) return err;
        if (op->kind != GEN_ATTEND && op->b.width != op->a.width)
            return check_bad(c, "its inputs differ in width");
    }
    if (op->kind == GEN_ATTEND && (err = check_part(c, &op->c, rows))) return err;
    out = c->p->width[op->out];
    if ((err = check_numbers(c, out))) return err;
    if (out_width(op) != out) return check_bad(c, "its result has another width");
    if ((op->kind == GEN_NORM || op->kind == GEN_LINEAR) && (err = check_floats(c, op->bias, false)))
        return err;
    c->state[op->out] = c->picked ? PICKED_ROWS : ALL_ROWS;
    return 0;
}

static int check_whole(const struct check *c)
{
    const struct gen_program *p = c->p;

    if (!c->picked) return gw_error(-EINVAL, "the program has no PICK");
    if (p->logits < 0 || (uint32_t)p->logits >= p->values || c->state[p->logits] != PICKED_ROWS)
        return gw_error(-EINVAL, "the program's logits are no result of wanted rows");
    if (p->width[p->logits] != p->vocab)
        return gw_error(-EINVAL, "the program makes %u logits; its vocabulary has %u tokens",
                        p->width[p->logits], p->vocab);
    if (!p->layers) return gw_error(-EINVAL, "the program attends to nothing");
    for (uint32_t i = 0; i < p->layers; i++)
        if (!c->layer[i]) return gw_error(-EINVAL, "the program lacks layer %u", i);
    return 0;
}

static int check_sizes(const struct gen_program *p)
{
    if (!p->ops || p->ops > GEN_PROGRAM_MAX_OPS)
        return gw_error(-EINVAL, "the program has %u operators; there must be 1 to %u", p->ops,
                        GEN_PROGRAM_MAX_OPS);
    if (p->values > GEN_PROGRAM_MAX_VALUES)
        return gw_error(-EINVAL, "the program has %u values; there must be at most %u", p->values,
                        GEN_PROGRAM_MAX_VALUES);
    for (uint32_t i = 0; i < p->values; i++)
        if (!p->width[i] || p->width[i] > GEN_PROGRAM_MAX_WIDTH)
            return gw_error(-EINVAL, "value %u of the program has %u elements; there must be 1 to %u", i,
                            p->width[i], GEN_PROGRAM_MAX_WIDTH);
    if (!p->max_position || p->max_position > GEN_PROGRAM_MAX_POSITION)
        return gw_error(-EINVAL, "the program knows %u positions; there must be 1 to %u", p->max_position,
                        GEN_PROGRAM_MAX_POSITION);
    return 0;
}

int gen_program_check(struct gen_program *p)
{
    struct check c = {.p = p};
    int err = check_sizes(p);

    if (err) return err;
    c.state = calloc(p->values + 1, sizeof(*c.state));
    c.layer = calloc(p->ops, sizeof(*c.layer));
    if (!c.state || !c.layer) err = gw_error(-ENOMEM, "no memory to check a program");
    p->layers = p->heads = p->head = 0;
    for (uint32_t i = 0; i < p->ops && !err; i++) {
        c.op = p->op + i;
        err = check_op(&c);
    }
    if (!err) err = check_whole(&c);
    free(c.state);
    free(c.layer);
    return err;
}
