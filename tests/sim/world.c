/* SPDX-License-Identifier: Apache-2.0 */
/* Draws the world of a seed: network, nodes, queues, connections, how much work of which kind. */
#include <string.h>

#include "tests/sim/sim.h"

uint8_t sim_exp[NET_NODES][RIG_ARENA];
uint8_t sim_copy[SIM_COPIES];
static uint8_t sq_mem[RIG_QPS][RIG_SQ_BYTES] __attribute__((aligned(64)));
static uint8_t rq_mem[RIG_QPS][RIG_RQ_BYTES] __attribute__((aligned(64)));
static uint8_t cq_mem[RIG_CQS][RIG_CQ_BYTES] __attribute__((aligned(128)));

static uint32_t draw(struct sim *s, uint32_t n)
{
    return rnd_below(&s->rig.rnd, n);
}

static uint32_t pick(struct sim *s, const uint32_t *list, uint32_t n)
{
    return list[draw(s, n)];
}
#define PICK(s, ...) pick(s, (const uint32_t[]){__VA_ARGS__}, sizeof((const uint32_t[]){__VA_ARGS__}) / 4)

static struct net_params draw_net(struct sim *s)
{
    struct net_params p = {.latency = PICK(s, 0, 500, 2000, 10000),
                           .jitter = PICK(s, 0, 200, 5000, 20000),
                           .behind = PICK(s, 5000, 50000, 300000, 3000000),
                           .ipv6 = draw(s, 5) == 0,
                           .has_ip_id = draw(s, 2),
                           .refuse = PICK(s, 0, 0, 300, 3000)};

    if (draw(s, 4)) { /* else clean */
        p.loss = PICK(s, 0, 100, 300, 1000, 3000);
        p.dup = PICK(s, 0, 100, 500, 2000);
        p.reorder = PICK(s, 0, 100, 500, 2000);
        p.corrupt = PICK(s, 0, 0, 100, 1000);
        p.forge = PICK(s, 0, 0, 200, 1000);
        p.ecn = PICK(s, 0, 1000);
    }
    /* Without the ID one damaged packet in 65,536 passes, by nature. */
    if (p.corrupt) p.has_ip_id = true;
    p.odd_ip_id = !p.ipv6 && draw(s, 8) == 0;
    return p;
}

bool sim_alloc(struct sim *s, uint32_t node, uint32_t len, uint32_t align, uint32_t *off)
{
    uint32_t at = (s->used[node] + align - 1) / align * align + (align == 1 ? draw(s, 4) : 0);

    if (at + len + 8 > RIG_ARENA) return false;
    *off = at;
    s->used[node] = at + len + (draw(s, 2) ? draw(s, 16) : 0);
    return true;
}

static void fill_memory(struct sim *s)
{
    static uint8_t noise[RIG_ARENA + 4096];

    if (!noise[0]) {
        struct rnd r = {UINT64_C(0x6a09e667f3bcc908)};

        for (size_t i = 0; i < sizeof(noise); i += 8) {
            uint64_t v = rnd64(&r);
            memcpy(noise + i, &v, 8);
        }
        noise[0] |= 1;
    }
    for (uint32_t n = 0; n < s->rig.nodes; n++) {
        memcpy(s->rig.node[n].mem, noise + draw(s, 512) * 8, RIG_ARENA);
        memcpy(sim_exp[n], s->rig.node[n].mem, RIG_ARENA);
        memcpy(s->word_start[n], s->rig.node[n].mem, sizeof(s->word_start[n]));
        s->used[n] = SIM_WORDS_BYTES;
    }
}

/* ---- queues -------------------------------------------------------------------------------------------- */

/* The sizes that an end will need of its completion queues are drawn before these are made. */
static void draw_end(struct sim *s, struct end *e)
{
    e->sig_all = draw(s, 4) == 0;
    e->sig_cap = 1 + draw(s, PICK(s, 1, 4, 16));
    e->recv_cap = 1u << draw(s, 4);
    e->recv_ahead = draw(s, 3) ? draw(s, e->recv_cap + 1) : 0;
    e->goal = 2 + draw(s, PICK(s, 4, 12, SIM_OPS - 2));
    e->kinds = draw(s, 3) ? ~0u : (uint32_t)rnd64(&s->rig.rnd) | 1;
    e->max_len = PICK(s, 16, 300, 2000, 6000, 20000);
    e->last_write = e->last_read = -1;
    e->next = draw(s, 20000);
}

static bool make_cqs(struct sim *s, const uint32_t *need)
{
    for (uint32_t i = 0; i < s->cqs; i++) {
        struct rig_cq_params p = {.count = 2,
                                  .size = draw(s, 2) ? 64 : 128,
                                  .uar = draw(s, RIG_UARS),
                                  .ignore_overrun = draw(s, 4) == 0};
        struct simcq *cq = &s->cq[i];

        while (p.count < need[i]) p.count *= 2;
        if (!rig_cq_open(&cq->c, &s->rig.node[i % s->rig.nodes], &p, cq_mem[i])) return false;
        cq->mode = draw(s, 3);
        cq->next = draw(s, 20000);
        cq->arms = cq->events = cq->idle = 0;
    }
    return true;
}

static bool make_end(struct sim *s, struct end *e, uint32_t node, uint32_t send_cq, uint32_t recv_cq,
                     bool alone)
{
    struct rig_qp_params p = {.sq_wqebbs = 1u << draw(s, 7),
                              .rq_wqes = e->recv_cap << draw(s, 2),
                              .rq_stride = 16u << draw(s, 4),
                              .uar = alone ? RIG_UARS - 1 : draw(s, RIG_UARS - 1),
                              .bfreg = draw(s, 4),
                              .uidx = (uint32_t)rnd64(&s->rig.rnd) & 0xffffff,
                              .sq_sig_all = e->sig_all,
                              .scatter_recv = PICK(s, 0, 0, 32, 64),
                              .scatter_req = PICK(s, 0, 0, 32, 64)};

    if (p.rq_wqes > SIM_RECVS) p.rq_wqes = SIM_RECVS;
    e->scatters = e->sig_all && p.scatter_req;
    e->may_hold = alone;
    e->max_bb = p.sq_wqebbs < 4 ? p.sq_wqebbs : 1 + draw(s, p.sq_wqebbs < 16 ? p.sq_wqebbs / 2 : 16);
    e->recv_max_sge = p.rq_stride / 16 < SIM_SGES ? p.rq_stride / 16 : SIM_SGES;
    return rig_qp_open(&e->q, &s->rig.node[node], &s->cq[send_cq].c, &s->cq[recv_cq].c, &p, sq_mem[e->index],
                       rq_mem[e->index]);
}

static uint32_t near_the_end(struct sim *s)
{
    return draw(s, 4) ? (0xffffff - draw(s, 40)) & 0xffffff : (uint32_t)rnd64(&s->rig.rnd) & 0xffffff;
}

static bool connect_ends(struct sim *s, struct end *a, struct end *b, uint8_t timeout)
{
    uint32_t psn_a = near_the_end(s), psn_b = a == b ? psn_a : near_the_end(s);
    uint8_t rd_a = (uint8_t)(1 + draw(s, PICK(s, 1, 4, SN_MAX_RD_ATOMIC)));
    uint8_t rd_b = a == b ? rd_a : (uint8_t)(1 + draw(s, PICK(s, 1, 4, SN_MAX_RD_ATOMIC)));
    enum ibv_mtu mtu = (enum ibv_mtu)(1 + draw(s, 5));
    int access =
        IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
    struct rig_link la = {.mtu = mtu,
                          .sq_psn = psn_a,
                          .rq_psn = psn_b,
                          .timeout = timeout,
                          .retry_cnt = 7,
                          .rnr_retry = 7,
                          .min_rnr_timer = (uint8_t)(1 + draw(s, 12)),
                          .max_rd_atomic = rd_a,
                          .max_dest_rd_atomic = rd_b,
                          .access = access};
    struct rig_link lb = la;

    lb.sq_psn = psn_b;
    lb.rq_psn = psn_a;
    lb.max_rd_atomic = rd_b;
    lb.max_dest_rd_atomic = rd_a;
    a->link = la;
    if (a != b) b->link = lb;
    if (!rig_qp_up(&a->q, b->q.node->index, b->q.qpn, &la)) return false;
    return a == b || rig_qp_up(&b->q, a->q.node->index, a->q.qpn, &lb);
}

/* The receives' memory: every receive has room for the longest message that its peer sends. */
static bool give_receives(struct sim *s, struct end *e)
{
    uint32_t mtu = e->q.mtu, longest = PICK(s, 0, 1, 32, 64, 500, mtu, 3 * mtu - 1, 4 * mtu + 3);
    uint32_t slack = draw(s, 2) ? 0 : draw(s, 100);

    e->recv_len = longest < 6000 ? longest : 6000;
    while (e->recv_cap * (e->recv_len + slack + 32) > RIG_ARENA / 16) e->recv_len /= 2;
    e->slot_len = e->recv_len + slack + 32;
    return sim_alloc(s, e->q.node->index, e->recv_cap * e->slot_len, 1, &e->slot_off);
}

static bool make_ends(struct sim *s)
{
    uint32_t need[RIG_CQS] = {0}, node[RIG_QPS], scq[RIG_QPS], rcq[RIG_QPS], pairs = 1 + draw(s, RIG_QPS / 2);
    uint32_t breaks = draw(s, 3) ? 0 : PICK(s, 100000, 1000000, 20000000);
    bool alone[NET_NODES];

    for (uint32_t n = 0; n < NET_NODES; n++) alone[n] = draw(s, 2);
    s->cqs = s->rig.nodes * (1 + draw(s, RIG_CQS / NET_NODES));
    for (uint32_t i = 0; i < pairs; i++) {
        bool self = draw(s, 10) == 0;

        for (uint32_t side = 0; side < (self ? 1 : 2); side++) {
            struct end *e = &s->end[s->ends];

            memset(e, 0, offsetof(struct end, ops));
            memset(&e->goal, 0, sizeof(*e) - offsetof(struct end, goal));
            e->index = s->ends;
            e->peer = self ? s->ends : s->ends ^ 1;
            draw_end(s, e);
            node[s->ends] = draw(s, s->rig.nodes);
            scq[s->ends] = node[s->ends] + s->rig.nodes * draw(s, s->cqs / s->rig.nodes);
            rcq[s->ends] = node[s->ends] + s->rig.nodes * draw(s, s->cqs / s->rig.nodes);
            if (i == 0) e->break_at = breaks ? 1 + draw(s, breaks) : 0;
            /* When the connection breaks every work request completes. */
            need[scq[s->ends]] += i == 0 && breaks ? SIM_OPS : e->sig_cap;
            need[rcq[s->ends]] += e->recv_cap;
            s->ends++;
        }
        if (self) break; /* so that the two ends of a pair have numbers 2k and 2k + 1 */
    }
    if (!make_cqs(s, need)) return false;
    for (uint32_t i = 0; i < s->ends; i++) {
        bool lone = alone[node[i]];

        alone[node[i]] = false;
        if (!make_end(s, &s->end[i], node[i], scq[i], rcq[i], lone)) return false;
    }
    return true;
}

bool sim_build(struct sim *s, uint64_t seed)
{
    struct rig_params p = {.nodes = NET_NODES, .mixed = true};
    bool verbose = s->rig.verbose;
    uint8_t timeout;

    /* The seed draws the network before the rig is there to do it. */
    s->rig.rnd.state = (seed + 1) * UINT64_C(0xbf58476d1ce4e5b9);
    p.net = draw_net(s);
    p.window_packets = PICK(s, 0, 0, 1, 2, 8);
    p.window_bytes = PICK(s, 0, 0, 4096, 16384);
    p.budget = PICK(s, 0, 0, 1, 7);
    timeout = (uint8_t)PICK(s, 9, 10, 11); /* 2 to 8 ms: longer than all delays together */
    s->seed = seed;
    s->step = s->ends = s->cqs = s->copies = 0;
    s->ops_done = s->messages_done = s->atomics_done = s->events_seen = s->holds = s->breaks = s->flushed = 0;
    memset(s->word_unknown, 0, sizeof(s->word_unknown));
    s->draining = false;
    s->looses = 0;
    s->rig.verbose = verbose;
    s->rig.user = s;
    if (!rig_start(&s->rig, &p, seed)) return false;
    s->think = PICK(s, 2000, 20000, 100000);
    fill_memory(s);
    if (!make_ends(s) || !sim_loose_build(s) || !sim_guests_build(s, timeout)) return false;
    for (uint32_t i = 0; i < s->ends; i++) {
        struct end *e = &s->end[i], *peer = sim_peer(s, e);

        if (peer->index >= e->index && !connect_ends(s, e, peer, timeout)) {
            rig_fail(&s->rig, "two queue pairs could not be connected");
            return false;
        }
    }
    for (uint32_t i = 0; i < s->ends; i++)
        if (!give_receives(s, &s->end[i])) {
            rig_fail(&s->rig, "no memory for receives");
            return false;
        }
    return true;
}

void sim_tear_down(struct sim *s)
{
    sim_loose_tear_down(s);
    sim_guests_tear_down(s);
    for (uint32_t i = 0; i < s->ends; i++) rig_qp_close(&s->end[i].q);
    for (uint32_t i = 0; i < s->cqs; i++) rig_cq_close(&s->cq[i].c);
    rig_stop(&s->rig);
}
