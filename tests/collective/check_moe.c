/* SPDX-License-Identifier: Apache-2.0 */
/* Tokens go to their experts and back, beside a plain reference that knows all ranks' choices. */
#include <gpuwire/moe.h>

#include "tests/collective/peer.h"

#define LOCAL  3u /* experts of a rank */
#define TOP    2u
#define MANY   70u /* tokens of a rank at most */
#define HIDDEN 37u

struct mixture {
    struct gw_moe *moe;
    struct gw_moe_shape shape;
    struct gw_moe_io io; /* the executor's addresses */
    struct gw_mem token, expert, weight, result, inbox, count;
    uint32_t round;
};

static uint32_t tokens_of(uint32_t rank, uint32_t round)
{
    static const uint32_t some[] = {MANY, 0, 17, 64, 1};

    return some[(rank + round) % 5];
}

/* The k-th expert of a token. Expert 1 gets none; in every third round expert 0 is everybody's first
 * choice. */
static int32_t choice(uint32_t rank, uint32_t token, uint32_t k, uint32_t round, uint32_t experts)
{
    int32_t e = (int32_t)((token * 7 + rank * 3 + k * 5 + round) % experts);

    if (round % 3 == 2 && !k) return 0;
    if (token % 11 == 10) return k ? -1 : (int32_t)experts + 5; /* none */
    return e == 1 ? 2 % (int32_t)experts : e;
}

static float value(uint32_t rank, uint32_t token, uint32_t h)
{
    return (float)(rank * 1000 + token) + (float)h / 64;
}

/* Which place among rank's tokens for the expert this one has; capacity or more: dropped. */
static uint32_t place_of(const struct peer *p, const struct mixture *m, uint32_t rank, uint32_t token,
                         uint32_t k)
{
    int32_t e = choice(rank, token, k, m->round, m->shape.experts);
    uint32_t n = 0;

    (void)p;
    for (uint32_t t = 0; t <= token; t++)
        for (uint32_t j = 0; j < (t == token ? k : TOP); j++)
            n += choice(rank, t, j, m->round, m->shape.experts) == e;
    return n;
}

static int mixture_fill(struct peer *p, struct mixture *m)
{
    static float token[MANY * HIDDEN], weight[MANY * TOP];
    static int32_t expert[MANY * TOP];

    m->io.n = tokens_of(p->rank, m->round);
    for (uint32_t t = 0; t < m->io.n; t++) {
        for (uint32_t h = 0; h < HIDDEN; h++) token[t * HIDDEN + h] = value(p->rank, t, h);
        for (uint32_t k = 0; k < TOP; k++) {
            expert[t * TOP + k] = choice(p->rank, t, k, m->round, m->shape.experts);
            weight[t * TOP + k] = k ? 0.25f : 0.5f;
        }
    }
    TRY(gw_copy_in(p->exec, m->token.dev, token, sizeof(token)) == 0);
    TRY(gw_copy_in(p->exec, m->expert.dev, expert, sizeof(expert)) == 0);
    TRY(gw_copy_in(p->exec, m->weight.dev, weight, sizeof(weight)) == 0);
    return 0;
}

/* What dispatch brought; then each expert e multiplies by e + 1. */
static int mixture_work(struct peer *p, struct mixture *m)
{
    uint32_t cap = m->shape.capacity, count[LOCAL * GW_COMM_MAX_RANKS], seen[LOCAL * GW_COMM_MAX_RANKS] = {0};
    float *box = calloc(1, m->inbox.size);

    TRY(box != NULL);
    TRY(gw_copy_out(p->exec, box, m->inbox.dev, m->inbox.size) == 0);
    TRY(gw_copy_out(p->exec, count, m->count.dev, LOCAL * p->size * sizeof(uint32_t)) == 0);
    for (uint32_t from = 0; from < p->size; from++)
        for (uint32_t i = 0; i < tokens_of(from, m->round) * TOP; i++) {
            uint32_t e = (uint32_t)choice(from, i / TOP, i % TOP, m->round, m->shape.experts);
            uint32_t place = place_of(p, m, from, i / TOP, i % TOP), l = e - p->rank * LOCAL;
            float *row = &box[((l * p->size + from) * cap + place) * HIDDEN];

            if (e >= m->shape.experts || l >= LOCAL || place >= cap) continue;
            seen[l * p->size + from]++;
            for (uint32_t h = 0; h < HIDDEN; h++) {
                TRY(row[h] == value(from, i / TOP, h));
                row[h] *= (float)(e + 1);
            }
        }
    for (uint32_t i = 0; i < LOCAL * p->size; i++) TRY(seen[i] == count[i]);
    TRY(gw_copy_in(p->exec, m->inbox.dev, box, m->inbox.size) == 0);
    free(box);
    return 0;
}

static int mixture_result(struct peer *p, const struct mixture *m)
{
    static float got[MANY * HIDDEN];

    TRY(gw_copy_out(p->exec, got, m->result.dev, sizeof(got)) == 0);
    for (uint32_t t = 0; t < m->io.n; t++)
        for (uint32_t h = 0; h < HIDDEN; h++) {
            float want = 0;

            for (uint32_t k = 0; k < TOP; k++) {
                uint32_t e = (uint32_t)choice(p->rank, t, k, m->round, m->shape.experts);

                if (e < m->shape.experts && place_of(p, m, p->rank, t, k) < m->shape.capacity)
                    want += (k ? 0.25f : 0.5f) * (value(p->rank, t, h) * (float)(e + 1));
            }
            TRY(got[t * HIDDEN + h] <= want * 1.00001f && got[t * HIDDEN + h] >= want * 0.99999f);
        }
    return 0;
}

static int mixture_open(struct peer *p, struct mixture *m)
{
    m->shape = (struct gw_moe_shape){
        .experts = LOCAL * p->size, .top = TOP, .capacity = 9, .hidden = HIDDEN, .dtype = GW_DTYPE_F32};
    TRY(gw_moe_create(p->comm, &m->shape, MANY, LIMIT, &m->moe) == 0);
    TRY(gw_mem_alloc(p->exec, GW_MEM_DEVICE, MANY * HIDDEN * 4, &m->token) == 0);
    TRY(gw_mem_alloc(p->exec, GW_MEM_DEVICE, MANY * TOP * 4, &m->expert) == 0);
    TRY(gw_mem_alloc(p->exec, GW_MEM_DEVICE, MANY * TOP * 4, &m->weight) == 0);
    TRY(gw_mem_alloc(p->exec, GW_MEM_DEVICE, MANY * HIDDEN * 4, &m->result) == 0);
    TRY(gw_mem_alloc(p->exec, GW_MEM_DEVICE, (size_t)m->shape.experts * 9 * HIDDEN * 4, &m->inbox) == 0);
    TRY(gw_mem_alloc(p->exec, GW_MEM_DEVICE, m->shape.experts * 4, &m->count) == 0);
    m->io = (struct gw_moe_io){.token = m->token.dev,
                               .expert = m->expert.dev,
                               .weight = m->weight.dev,
                               .result = m->result.dev,
                               .inbox = m->inbox.dev,
                               .count = m->count.dev};
    return 0;
}

static int mixture_refuse(struct peer *p)
{
    struct gw_moe_shape shape = {
        .experts = p->size + (p->size > 1), .top = 1, .capacity = 1, .hidden = 1, .dtype = 1};
    struct gw_moe *moe;

    if (p->size > 1) TRY(gw_moe_create(p->comm, &shape, 1, LIMIT, &moe) == -EINVAL);
    shape.experts = p->size;
    shape.dtype = GW_DTYPE_I32;
    TRY(gw_moe_create(p->comm, &shape, 1, LIMIT, &moe) == -EINVAL);
    return 0;
}

int check_moe(struct peer *p)
{
    struct mixture m = {0};

    TRY(mixture_refuse(p) == 0);
    TRY(mixture_open(p, &m) == 0);
    for (m.round = 0; m.round < 10; m.round++) {
        TRY(mixture_fill(p, &m) == 0);
        TRY(gw_moe_dispatch(m.moe, &m.io, LIMIT) == 0);
        TRY(mixture_work(p, &m) == 0);
        TRY(gw_moe_combine(m.moe, &m.io, LIMIT) == 0);
        TRY(mixture_result(p, &m) == 0);
    }
    m.io.n = MANY + 1;
    TRY(gw_moe_dispatch(m.moe, &m.io, LIMIT) == -EINVAL);
    TRY(gw_barrier(p->comm, LIMIT) == 0);
    gw_moe_destroy(m.moe);
    gw_mem_free(&m.token);
    gw_mem_free(&m.expert);
    gw_mem_free(&m.weight);
    gw_mem_free(&m.result);
    gw_mem_free(&m.inbox);
    gw_mem_free(&m.count);
    return 0;
}
