/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "bench/post_ways.h"

void work_prepare(struct work *w, void *from)
{
    w->sge = (struct ibv_sge){(uint64_t)(uintptr_t)from, w->length, 1};
    for (uint32_t i = 0; i < w->list; i++) {
        struct ibv_send_wr *wr = &w->wr[i];

        memset(wr, 0, sizeof(*wr));
        wr->wr_id = i;
        wr->next = i + 1 < w->list ? wr + 1 : NULL;
        wr->sg_list = &w->sge;
        wr->num_sge = 1;
        wr->opcode = w->opcode;
        wr->send_flags = w->inlined ? IBV_SEND_INLINE : 0;
        if (w->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
            wr->wr.atomic.remote_addr = w->sge.addr + MOST;
            wr->wr.atomic.compare_add = i;
            wr->wr.atomic.rkey = 1;
        } else {
            wr->wr.rdma.remote_addr = w->sge.addr + MOST;
            wr->wr.rdma.rkey = 1;
        }
    }
}

/* ---- ways to post it: each posts n requests, and returns 0 or an errno value --------------------------- */

static int by_ibv(struct side *s, struct work *w, uint32_t n)
{
    struct ibv_send_wr *bad;
    int err = 0;

    for (uint32_t i = 0; i < n && !err; i += w->list) err = s->post_send(s->qp, w->wr, &bad);
    return err;
}

static int by_gw_post_send(struct side *s, struct work *w, uint32_t n)
{
    struct ibv_send_wr *bad;
    int err = 0;

    for (uint32_t i = 0; i < n && !err; i += w->list) err = gw_post_send(s->h, w->wr, &bad);
    return err;
}

static int by_name(struct side *s, struct work *w, uint32_t n)
{
    const uint64_t from = w->sge.addr, to = from + MOST;
    const uint32_t mask = w->list - 1, len = w->length;
    int err = 0;
    uint32_t i;

    if (w->opcode == IBV_WR_SEND)
        for (i = 0; i < n && !err; i++)
            err = gw_send(s->h, from, 1, len, (i & mask) == mask ? 0 : GW_DEFER, i);
    else
        for (i = 0; i < n && !err; i++)
            err = gw_post_op(s->h, gw_put_op(from, 1, to, 1, len), (i & mask) == mask ? 0 : GW_DEFER, i);
    return -err;
}

static int by_tickets(struct side *s, struct work *w, uint32_t n)
{
    const uint64_t from = w->sge.addr, to = from + MOST;
    const uint32_t mask = w->list - 1, len = w->length;
    struct gw_tx tx;
    int err = gw_tx_open(&tx, s->h);
    uint32_t i;

    if (w->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
        for (i = 0; i < n && !err; i++)
            err =
                gw_tx_post(&tx, gw_fetch_add_op(from, 1, to, 1, i), (i & mask) == mask ? 0 : GW_DEFER, NULL);
    else
        for (i = 0; i < n && !err; i++)
            err = gw_tx_post(&tx, gw_put_op(from, 1, to, 1, len), (i & mask) == mask ? 0 : GW_DEFER, NULL);
    return -err;
}

const struct post_way ways[WAYS] = {{"ibv_post_send", by_ibv},
                                    {"gw_post_op", by_name},
                                    {"gw_tx_post", by_tickets},
                                    {"gw_post_send", by_gw_post_send}};

double post_burst(struct side *s, struct work *w, unsigned how, uint32_t *count)
{
    uint64_t start;
    int err;

    side_empty(s);
    start = gw_clock_ns();
    err = ways[how].way(s, w, BURST);
    start = gw_clock_ns() - start;
    bench_check(err ? gw_error(-err, "%s", strerror(err)) : 0, ways[how].name);
    *count = gw_be32(s->h->dbrec[GW_MLX5_DBREC_SEND]);
    return (double)start / BURST;
}
