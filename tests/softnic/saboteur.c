/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/softnic/saboteur.h"

#include <stdlib.h>
#include <string.h>

static void must(bool ok)
{
    if (!ok) abort();
}

static void end_up(struct saboteur *s, struct saboteur_end *e, unsigned nic)
{
    struct sn_mr_init mr = {.length = SABOTEUR_MEM};
    struct app_qp_options o = {.uidx = 77};

    e->n = &s->w->nics[nic];
    e->mem = malloc(SABOTEUR_MEM * 3); /* the region is the middle third */
    must(e->mem && !sn_pd_create(e->n->nic, &e->pd) && !sn_uar_create(e->n->nic, &e->uar));
    memset(e->mem, 0xee, SABOTEUR_MEM * 3);
    mr.addr = mr.iova = (uintptr_t)e->mem + SABOTEUR_MEM;
    mr.access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
    must(!sn_mr_create(e->pd, &mr, &e->mr));
    app_cq_up(&e->cq, e->n, e->uar, 128, 64);
    app_qp_up(&e->qp, e->n, e->pd, e->uar, &e->cq, &e->cq, &o);
}

static void connect(struct saboteur *s)
{
    struct app_connect c = app_connect_default;

    c.retry_cnt = 1;
    c.rnr_retry = 1;
    c.timeout = 5;
    app_connect(&s->end[0].qp, &s->end[1].qp, &c);
}

void saboteur_up(struct saboteur *s, struct world *w, unsigned from, unsigned to)
{
    memset(s, 0, sizeof(*s));
    s->w = w;
    end_up(s, &s->end[0], from);
    end_up(s, &s->end[1], to);
    connect(s);
}

static void garbage_wqe(struct saboteur *s)
{
    struct app_qp *q = &s->end[0].qp;
    uint8_t *at = (uint8_t *)q->sq_buf + (q->sq_pi & (q->sq.wqebbs - 1)) * 64;

    rnd_bytes(&s->w->rnd, at, 64);
    if (world_below(s->w, 2)) { /* one whose beginning is right */
        struct gw_u128 ctrl = gw_mlx5_ctrl(at[3], q->sq_pi, q->sq.qpn, 1 + world_below(s->w, 4), 8, 0);

        memcpy(at, &ctrl, 16);
    }
    q->sq_pi++;
}

static void forbidden_request(struct saboteur *s, uint32_t key, uint64_t va)
{
    static const uint8_t ops[] = {GW_MLX5_WRITE, GW_MLX5_READ, GW_MLX5_WRITE_IMM, GW_MLX5_ATOMIC_FA};
    struct saboteur_end *e = &s->end[0], *other = &s->end[1];
    struct gw_mlx5_sge sge = {(uintptr_t)e->mem + SABOTEUR_MEM, 1 + world_below(s->w, 3000),
                              sn_mr_key(e->mr)};
    struct gw_mlx5_wr wr = {.num_sge = 1, .sge = &sge, .swap_or_add = 1};

    wr.opcode = ops[world_below(s->w, 4)];
    if (wr.opcode == GW_MLX5_ATOMIC_FA) sge.length = 8;
    if (world_below(s->w, 2)) {
        wr.rkey = key; /* a right key, of another protection domain */
        wr.raddr = va & ~UINT64_C(7);
    } else {
        wr.rkey = sn_mr_key(other->mr);
        wr.raddr = (uintptr_t)other->mem + 2 * SABOTEUR_MEM - sge.length + 8; /* its own, 8 bytes too far */
        wr.raddr &= ~UINT64_C(7);
        if (wr.raddr + sge.length <= (uintptr_t)other->mem + 2 * SABOTEUR_MEM) wr.raddr += 8;
    }
    app_put(&e->qp, &wr);
}

static void wrong_sge(struct saboteur *s)
{
    struct saboteur_end *e = &s->end[0];
    struct gw_mlx5_sge sge = {(uintptr_t)e->mem + SABOTEUR_MEM, SABOTEUR_MEM + 1, sn_mr_key(e->mr)};
    struct gw_mlx5_wr wr = {.opcode = GW_MLX5_SEND, .num_sge = 1, .sge = &sge};

    app_put(&e->qp, &wr);
}

static void try_something(struct saboteur *s, uint32_t key, uint64_t va)
{
    struct app_qp *q = &s->end[0].qp;

    switch (world_below(s->w, 4)) {
    case 0: garbage_wqe(s); break;
    case 1: wrong_sge(s); break;
    default: forbidden_request(s, key, va); break;
    }
    app_publish(q);
    app_ring(q, (int)world_below(s->w, 2));
}

static void reset(struct app_qp *q)
{
    struct ibv_qp_attr a = {.qp_state = IBV_QPS_RESET};

    must(!sn_qp_modify(q->qp, &a, IBV_QP_STATE));
    q->sq_pi = q->rq_pi = q->dbrec[0] = q->dbrec[1] = 0;
}

void saboteur_step(struct saboteur *s, uint32_t key, uint64_t va)
{
    struct gw_mlx5_wc wc;

    for (int i = 0; i < 2; i++)
        while (app_poll(&s->end[i].cq, &wc, NULL))
            if (i == 0) s->failed |= gw_mlx5_wc_is_error(&wc);
    if (!s->posted) try_something(s, key, va);
    s->posted = true;
    if (!s->failed) return;
    reset(&s->end[0].qp);
    reset(&s->end[1].qp);
    connect(s);
    s->posted = s->failed = false;
}

bool saboteur_harmless(const struct saboteur *s)
{
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < SABOTEUR_MEM * 3; i++)
            if (s->end[k].mem[i] != 0xee) return false;
    return true;
}

void saboteur_down(struct saboteur *s)
{
    for (int i = 0; i < 2; i++) {
        struct saboteur_end *e = &s->end[i];

        app_qp_down(&e->qp);
        app_cq_down(&e->cq);
        must(!sn_mr_destroy(e->mr) && !sn_uar_destroy(e->uar) && !sn_pd_destroy(e->pd));
        free(e->mem);
    }
}
