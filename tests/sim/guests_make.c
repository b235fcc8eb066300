/* SPDX-License-Identifier: Apache-2.0 */
/* Makes and ends what guests.c works with. */
#include <string.h>

#include "tests/sim/guests.h"

struct guests_ram guests_ram;

static uint32_t draw(struct sim *s, uint32_t n)
{
    return rnd_below(&s->rig.rnd, n);
}

static bool make_region(struct rig_node *node, void *mem, uint64_t len, uint32_t more, struct sn_mr **mr)
{
    struct sn_mr_init init = {.addr = (uintptr_t)mem, .length = len, .access = IBV_ACCESS_LOCAL_WRITE | more};

    init.iova = init.addr;
    return !sn_mr_create(node->pd, &init, mr);
}

static bool make_cq(struct sim *s, struct rig_cq *cq, struct rig_node *node, uint32_t k)
{
    struct rig_cq_params p = {.count = GUEST_CQES, .size = 64, .uar = draw(s, RIG_UARS)};

    return rig_cq_open(cq, node, &p, guests_ram.cq[k]);
}

static bool make_srq(struct sim *s, struct sim_srq *q, uint32_t k)
{
    struct sim_host *h = &s->host;
    struct sn_srq_init init = {.pd = h->node->pd,
                               .buf = guests_ram.srq[k],
                               .wqes = SIM_SRQ_WQES,
                               .stride = GUEST_STRIDE,
                               .dbrec = q->record,
                               .user = q};

    if (!make_cq(s, &q->cq, h->node, 2 * SIM_GUESTS + k)) return false;
    if (guests_xrc(h)) init.xrcd = h->xrcd, init.cq = q->cq.cq, init.uidx = GUEST_UIDX + k;
    q->index = k;
    q->tail = SIM_SRQ_WQES - 1;
    memset(guests_ram.srq[k], 0, sizeof(guests_ram.srq[k]));
    for (uint32_t i = 0; i < q->tail; i++)
        gw_store16(guests_ram.srq[k] + i * GUEST_STRIDE, gw_mlx5_srq_next(i + 1));
    return make_region(h->node, guests_ram.in[k], sizeof(guests_ram.in[k]), 0, &q->mr) &&
           !sn_srq_create(h->node->nic, &init, &q->srq);
}

/* The receiver lends a window of either type, to be bound again and again. */
static bool make_window(struct sim *s, struct sim_window *w, uint32_t k)
{
    struct sim_host *h = &s->host;

    w->type2 = draw(s, 3) != 0;
    memset(guests_ram.lent[k], 0x5a, GUEST_WINDOW);
    return make_region(h->node, guests_ram.lent[k], GUEST_WINDOW, IBV_ACCESS_MW_BIND, &w->mr) &&
           !sn_mw_create(h->node->pd, w->type2 ? IBV_MW_TYPE_2 : IBV_MW_TYPE_1, &w->mw);
}

static bool make_ends(struct sim *s, struct sim_guest *g)
{
    struct sim_host *h = &s->host;
    struct rig_node *node = &s->rig.node[draw(s, s->rig.nodes)];
    uint32_t k = g->index;
    struct rig_qp_params from = {.type = guests_xrc(h) ? IBV_QPT_XRC_SEND : IBV_QPT_RC,
                                 .sq_wqebbs = GUEST_SQ_BBS,
                                 .uar = draw(s, RIG_UARS - 1),
                                 .bfreg = draw(s, 4),
                                 .uidx = 2 * k,
                                 .sq_sig_all = true};
    struct rig_qp_params to = from;

    to.type = guests_xrc(h) ? IBV_QPT_XRC_RECV : IBV_QPT_RC;
    to.xrcd = h->xrcd;
    to.srq = h->srq[0].srq;
    to.uidx = 2 * k + 1;
    if (!make_region(node, guests_ram.out[k], sizeof(guests_ram.out[k]), 0, &g->mr)) return false;
    if (!make_cq(s, &g->cq, node, 2 * k)) return false;
    if (!rig_qp_open(&g->from, node, &g->cq, guests_xrc(h) ? NULL : &g->cq, &from, guests_ram.sq[2 * k],
                     NULL))
        return false;
    if (guests_xrc(h)) return rig_qp_open(&g->to, h->node, NULL, NULL, &to, NULL, NULL);
    return make_cq(s, &g->window.cq, h->node, 2 * k + 1) && make_window(s, &g->window, k) &&
           rig_qp_open(&g->to, h->node, &g->window.cq, &h->srq[0].cq, &to, guests_ram.sq[2 * k + 1], NULL);
}

static bool join(struct sim *s, struct sim_guest *g, uint8_t timeout)
{
    struct rig_link link = {.mtu = (enum ibv_mtu)(1 + draw(s, 5)),
                            .sq_psn = 0xffffff - draw(s, 30),
                            .rq_psn = draw(s, 1 << 24),
                            .timeout = timeout,
                            .retry_cnt = 7,
                            .rnr_retry = 7,
                            .min_rnr_timer = (uint8_t)(1 + draw(s, 8)),
                            .max_rd_atomic = 1,
                            .max_dest_rd_atomic = 1,
                            .access = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ};
    struct rig_link back = link;

    back.sq_psn = link.rq_psn;
    back.rq_psn = link.sq_psn;
    return rig_qp_up(&g->from, s->host.node->index, g->to.qpn, &link) &&
           rig_qp_up(&g->to, g->from.node->index, g->from.qpn, &back);
}

bool sim_guests_build(struct sim *s, uint8_t timeout)
{
    struct sim_host *h = &s->host;
    bool is_xrc = draw(s, 2);

    memset(h, 0, sizeof(*h));
    s->limits_seen = s->guests_done = s->windows_done = 0;
    if (draw(s, 3) == 0) return true; /* h->guests is 0 */
    h->node = &s->rig.node[draw(s, s->rig.nodes)];
    s->rig.on_srq_limit = guests_on_limit;
    h->next = draw(s, 20000);
    if (is_xrc && sn_xrcd_create(h->node->nic, &h->xrcd)) return false;
    h->srqs = is_xrc ? 2 : 1;
    h->guests = is_xrc ? 1 : 2;
    for (uint32_t i = 0; i < h->srqs; i++)
        if (!make_srq(s, &h->srq[i], i)) return false;
    for (uint32_t i = 0; i < h->guests; i++) {
        struct sim_guest *g = &h->guest[i];

        g->index = i;
        g->goal = draw(s, SIM_GUEST_SENDS + 1);
        if (!make_ends(s, g) || !join(s, g, timeout)) {
            rig_fail(&s->rig, "a guest could not be made");
            return false;
        }
    }
    return true;
}

void sim_guests_tear_down(struct sim *s)
{
    struct sim_host *h = &s->host;
    int error = 0;

    for (uint32_t i = 0; i < h->guests; i++) {
        struct sim_guest *g = &h->guest[i];

        rig_qp_close(&g->from);
        rig_qp_close(&g->to);
        rig_cq_close(&g->cq);
        error |= g->mr ? sn_mr_destroy(g->mr) : 0;
        if (guests_xrc(h)) continue;
        rig_cq_close(&g->window.cq);
        error |= sn_mr_destroy(g->window.mw) | sn_mr_destroy(g->window.mr);
    }
    for (uint32_t i = 0; i < h->srqs; i++) {
        error |= sn_srq_destroy(h->srq[i].srq) | sn_mr_destroy(h->srq[i].mr);
        rig_cq_close(&h->srq[i].cq);
    }
    if (h->xrcd) error |= sn_xrcd_destroy(h->xrcd);
    if (error) rig_fail(&s->rig, "what the guests used could not be destroyed");
    h->guests = h->srqs = 0;
    s->rig.on_srq_limit = NULL;
}
