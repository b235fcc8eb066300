/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/sim/rig.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint8_t arenas[NET_NODES][RIG_ARENA] __attribute__((aligned(4096)));

void rig_fail(struct rig *rig, const char *format, ...)
{
    va_list args;
    int n;

    if (rig->failed) return;
    rig->failed = true;
    n = snprintf(rig->why, sizeof(rig->why), "at %llu ns: ", (unsigned long long)rig->now);
    va_start(args, format);
    vsnprintf(rig->why + n, sizeof(rig->why) - (size_t)n, format, args);
    va_end(args);
}

void rig_note(struct rig *rig, uint64_t a, uint64_t b)
{
    rig->trace = (rig->trace ^ rig->now ^ a << 40 ^ b) * UINT64_C(0x9e3779b97f4a7c15);
    rig->trace ^= rig->trace >> 32;
}

/* ---- DMA that comes late ------------------------------------------------------------------------------- */

static int lazy_check(struct rig_lazy *z, uint64_t addr, uint64_t len)
{
    if (addr >= z->low && len <= z->high - addr) return 0;
    rig_fail(z->rig, "DMA outside of the region: %llu bytes", (unsigned long long)len);
    return -EFAULT;
}

/* In random order, but of two writes to one byte the later one stays. */
static int lazy_flush(void *ctx)
{
    struct rig_lazy *z = ctx;

    while (z->writes) {
        uint32_t i = rnd_below(&z->rig->rnd, z->writes), k;

        for (k = 0; k < i; k++)
            if (z->write[k].addr < z->write[i].addr + z->write[i].len &&
                z->write[i].addr < z->write[k].addr + z->write[k].len)
                i = k, k = UINT32_MAX;
        memcpy((void *)(uintptr_t)z->write[i].addr, z->write[i].data, z->write[i].len);
        free(z->write[i].data);
        memmove(&z->write[i], &z->write[i + 1], (--z->writes - i) * sizeof(z->write[0]));
    }
    return 0;
}

static int lazy_write(void *ctx, uint64_t addr, const void *src, uint32_t len)
{
    struct rig_lazy *z = ctx;

    if (lazy_check(z, addr, len)) return -EFAULT;
    if (z->writes == RIG_LAZY) lazy_flush(z);
    uint8_t *copy = malloc(len ? len : 1);
    if (!copy) return -ENOMEM;
    memcpy(copy, src, len);
    z->write[z->writes].addr = addr;
    z->write[z->writes].len = len;
    z->write[z->writes++].data = copy;
    return 0;
}

/* Answers from what it fetched ahead for this request, as it is allowed to. */
static int lazy_read(void *ctx, uint64_t addr, void *dst, uint32_t len, uint64_t ahead, uint64_t request)
{
    struct rig_lazy *z = ctx;

    if (ahead < len) rig_fail(z->rig, "DMA read of %u bytes with %llu ahead", len, (unsigned long long)ahead);
    if (lazy_check(z, addr, ahead)) return -EFAULT;
    if (request && request == z->ahead_request && addr >= z->ahead_addr &&
        addr + len <= z->ahead_addr + z->ahead_len) {
        memcpy(dst, z->ahead + (addr - z->ahead_addr), len);
        return 0;
    }
    lazy_flush(z);
    memcpy(dst, (const void *)(uintptr_t)addr, len);
    z->ahead_request = request;
    z->ahead_addr = addr;
    z->ahead_len = ahead < sizeof(z->ahead) ? (uint32_t)ahead : sizeof(z->ahead);
    memcpy(z->ahead, (const void *)(uintptr_t)addr, z->ahead_len);
    return 0;
}

static const struct sn_dma_ops lazy_dma = {.read = lazy_read, .write = lazy_write, .flush = lazy_flush};

/* ---- callbacks ----------------------------------------------------------------------------------------- */

static void cover(struct rig_cq *cq);

static void on_cq_event(void *user, void *cq_user)
{
    struct rig_node *node = user;
    struct rig_cq *cq = cq_user;

    rig_note(node->rig, 1, cq->number);
    cq->events++;
    if (!cq->armed)
        rig_fail(node->rig, "cq 0x%x of node %u: an event, but it is not armed", cq->number, node->index);
    else if (!rig_arm_met(cq))
        rig_fail(node->rig, "cq 0x%x of node %u: an event without the completion it was armed for",
                 cq->number, node->index);
    cq->armed = false;
    cover(cq);
    if (cq->on_event) cq->on_event(node->rig->user, cq);
}

static void on_async(void *user, enum ibv_event_type type, void *object)
{
    struct rig_node *node = user;

    if (type == IBV_EVENT_COMM_EST) return;
    if (type == IBV_EVENT_SRQ_LIMIT_REACHED && node->rig->on_srq_limit) {
        node->rig->on_srq_limit(node->rig->user, object);
        return;
    }
    node->async++;
    node->last_async = type;
}

static void on_report(void *user, const char *line)
{
    struct rig_node *node = user;

    node->reports++;
    snprintf(node->report, sizeof(node->report), "%s", line);
    if (node->rig->verbose)
        fprintf(stderr, "%10llu node %u reports: %s\n", (unsigned long long)node->rig->now, node->index,
                line);
}

/* ---- nodes --------------------------------------------------------------------------------------------- */

static bool region(struct rig_node *n, struct sn_mr **mr, uint64_t iova, bool local_only, bool lazy)
{
    struct sn_mr_init init = {
        .addr = (uintptr_t)n->mem, .length = RIG_ARENA, .iova = iova, .access = IBV_ACCESS_LOCAL_WRITE};

    if (!local_only)
        init.access |= IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
    if (lazy) {
        init.dma = &lazy_dma;
        init.dma_ctx = &n->lazy;
    }
    return !sn_mr_create(n->pd, &init, mr);
}

static bool node_start(struct rig *rig, struct rig_node *n, const struct rig_params *p, uint64_t seed)
{
    bool hostile = p->mixed ? rnd_below(&rig->rnd, rig->one_host ? 2 : 4) != 0 : p->hostile;
    bool lazy = p->mixed ? rnd_below(&rig->rnd, 4) == 0 : p->lazy;
    struct sn_nic_config config = {.slot = (uint8_t)(n->index * 85),
                                   .sport = (uint16_t)(0xc000 + n->index),
                                   .seed = seed ^ n->index << 20,
                                   .hostile = hostile,
                                   .ecn = true,
                                   .loop_on_wire = p->mixed ? rnd_below(&rig->rnd, 2) : true,
                                   .window_packets = p->window_packets,
                                   .window_bytes = p->window_bytes,
                                   .budget = p->budget,
                                   .offer_min = UINT32_C(1) << (seed + n->index) % 15,
                                   .wire = &net_wire_ops,
                                   .wire_ctx = &rig->net.port[n->index],
                                   .user = n,
                                   .cq_event = on_cq_event,
                                   .async_event = on_async,
                                   .report = on_report};

    if (rig->one_host) {
        config.peers = &fake_peer_ops;
        config.peers_ctx = fake_peers_node(&rig->peers, n->index);
    }
    memcpy(config.gid, rig->net.gid[n->index], 16);
    n->next = 0;
    n->reports = n->async = 0;
    n->report[0] = 0;
    n->lazy.rig = rig;
    n->lazy.writes = 0;
    n->lazy.ahead_request = 0;
    n->lazy.low = (uintptr_t)n->mem;
    n->lazy.high = n->lazy.low + RIG_ARENA;
    n->iova =
        rnd64(&rig->rnd) >> 16 << 6; /* aligned, so that addresses of atomics are when their offsets are */
    n->local_iova = rnd_below(&rig->rnd, 2) ? (uintptr_t)n->mem : rnd64(&rig->rnd) >> 20;
    if (sn_nic_create(&config, &n->nic)) return false;
    if (sn_pd_create(n->nic, &n->pd)) return false;
    for (uint32_t i = 0; i < RIG_UARS; i++)
        if (sn_uar_create(n->nic, &n->uar[i])) return false;
    return region(n, &n->mr, n->iova, false, lazy) && region(n, &n->local, n->local_iova, true, lazy);
}

/* Half of the seeds: NICs reach each other's memory, save when by chance that does not work. */
static void one_host(struct rig *rig)
{
    static const uint32_t trouble[4] = {0, 0, 300, 3000};

    fake_peers_up(&rig->peers, rnd64(&rig->rnd) | 1);
    rig->peers.absent = trouble[rnd_below(&rig->rnd, 4)];
    rig->peers.stops = trouble[rnd_below(&rig->rnd, 4)];
    rig->peers.refused = trouble[rnd_below(&rig->rnd, 4)];
}

bool rig_start(struct rig *rig, const struct rig_params *params, uint64_t seed)
{
    bool verbose = rig->verbose;

    rig->now = 1;
    rig->rnd.state = (seed * UINT64_C(0x9e3779b97f4a7c15)) ^ UINT64_C(0xd1b54a32d192ed03);
    if (!rig->rnd.state) rig->rnd.state = 1;
    rig->failed = false;
    rig->trace = 0;
    rig->verbose = verbose;
    rig->nodes = params->nodes;
    rig->one_host = params->mixed && rnd_below(&rig->rnd, 2);
    if (rig->one_host) one_host(rig);
    rig->peers.no_offers = seed / 8 % 2; /* then long WRITEs with immediate data are placed */
    net_reset(&rig->net, &params->net, rnd64(&rig->rnd), &rig->now);
    for (uint32_t i = 0; i < rig->nodes; i++) {
        struct rig_node *n = &rig->node[i];

        n->rig = rig;
        n->index = i;
        n->mem = arenas[i];
        if (!node_start(rig, n, params, seed)) {
            rig_fail(rig, "node %u could not be made", i);
            return false;
        }
    }
    return true;
}

void rig_stop(struct rig *rig)
{
    for (uint32_t i = 0; i < rig->nodes; i++) {
        struct rig_node *n = &rig->node[i];
        int error = sn_mr_destroy(n->mr) | sn_mr_destroy(n->local) | sn_pd_destroy(n->pd);

        for (uint32_t k = 0; k < RIG_UARS; k++) error |= sn_uar_destroy(n->uar[k]);
        error |= sn_nic_destroy(n->nic);
        if (error) rig_fail(rig, "node %u: its objects could not be destroyed", i);
        lazy_flush(&n->lazy);
    }
}

uint64_t rig_node_time(const struct rig_node *node)
{
    uint64_t frame = net_next(&node->rig->net, node->index);

    return frame < node->next ? frame : node->next;
}

#define NAP_NS 20000u

/* One time in four as a thread does that has just posted; then somebody else looks soon, as gw-nic would. */
static uint64_t look(struct rig_node *node)
{
    uint64_t now = node->rig->now, next;

    if (rnd_below(&node->rig->rnd, 4)) return sn_nic_progress(node->nic, now);
    next = sn_nic_posted(node->nic, now);
    return next < now + NAP_NS ? next : now + NAP_NS;
}

void rig_progress(struct rig_node *node)
{
    uint64_t next = look(node);

    if (next == SN_CONTENDED || next < node->rig->now)
        rig_fail(node->rig, "node %u: sn_nic_progress returns %llu, which has passed", node->index,
                 (unsigned long long)next);
    node->next = next;
}

void rig_run(struct rig *rig, uint64_t until)
{
    while (!rig->failed) {
        struct rig_node *soonest = &rig->node[0];

        for (uint32_t i = 1; i < rig->nodes; i++)
            if (rig_node_time(&rig->node[i]) < rig_node_time(soonest)) soonest = &rig->node[i];
        uint64_t t = rig_node_time(soonest);
        if (t > until) break;
        if (t > rig->now) rig->now = t;
        rig_progress(soonest);
        rig->now += 100; /* so that one that always has work left cannot stop the clock */
        if (rig->now > until) break;
    }
    if (rig->now < until) rig->now = until;
}

/* ---- completion queues --------------------------------------------------------------------------------- */

bool rig_cq_open(struct rig_cq *cq, struct rig_node *node, const struct rig_cq_params *p, uint8_t *buf)
{
    struct sn_cq_init init = {.buf = buf,
                              .cqe_count = p->count,
                              .cqe_size = p->size,
                              .dbrec = cq->dbrec,
                              .uar = node->uar[p->uar],
                              .ignore_overrun = p->ignore_overrun,
                              .user = cq};

    memset(cq, 0, sizeof(*cq));
    cq->node = node;
    cq->buf = buf;
    cq->count = p->count;
    cq->size = p->size;
    cq->ignore_overrun = p->ignore_overrun;
    cq->page = sn_uar_page(node->uar[p->uar]);
    memset(buf, 0, (size_t)p->count * p->size);
    for (uint32_t i = 0; i < p->count; i++) buf[(size_t)(i + 1) * p->size - 1] = 0xf0;
    if (sn_cq_create(node->nic, &init, &cq->cq)) {
        rig_fail(node->rig, "a completion queue of %u entries of %u bytes could not be made", p->count,
                 p->size);
        return false;
    }
    cq->number = sn_cq_number(cq->cq);
    return true;
}

void rig_cq_close(struct rig_cq *cq)
{
    if (cq->cq && sn_cq_destroy(cq->cq))
        rig_fail(cq->node->rig, "cq 0x%x could not be destroyed", cq->number);
    cq->cq = NULL;
}

static struct gw_mlx5_cqe *cqe_at(const struct rig_cq *cq, uint32_t ci)
{
    return (struct gw_mlx5_cqe *)(cq->buf + (size_t)((ci & (cq->count - 1)) + 1) * cq->size - GW_MLX5_CQE);
}

static bool meets(uint8_t op_own, bool solicited)
{
    return !solicited || op_own & 2 || op_own >> 4 >= GW_MLX5_CQE_REQ_ERR;
}

/* The first completion, from index `from` on, that is not there yet; or the first that an arm waits for. */
static uint32_t find(const struct rig_cq *cq, uint32_t from, bool any, bool solicited, bool *found)
{
    for (*found = false; from - cq->ci < cq->count; from++) {
        uint8_t op = cqe_at(cq, from)->op_own;

        if (!gw_mlx5_cqe_ready(op, from, cq->count)) return from;
        if (any && meets(op, solicited)) {
            *found = true;
            return from;
        }
    }
    return from;
}

bool rig_has_completion(const struct rig_cq *cq, bool solicited)
{
    bool found;

    find(cq, cq->ci, true, solicited, &found);
    return found;
}

/* The first completion that no event has told of and that is not polled. */
static uint32_t news(const struct rig_cq *cq)
{
    return (int32_t)(cq->covered - cq->ci) > 0 ? cq->covered : cq->ci;
}

bool rig_arm_met(const struct rig_cq *cq)
{
    bool found;

    find(cq, news(cq), true, cq->armed_solicited, &found);
    return found || cq->armed_met;
}

/* An event tells of all that is there when it is raised. */
static void cover(struct rig_cq *cq)
{
    bool found;

    cq->covered = find(cq, cq->ci, false, false, &found);
}

bool rig_poll(struct rig_cq *cq, struct gw_mlx5_wc *wc, uint8_t data[64])
{
    struct gw_mlx5_cqe *cqe = cqe_at(cq, cq->ci);

    if (!gw_mlx5_cqe_ready(cqe->op_own, cq->ci, cq->count)) return false;
    if (gw_mlx5_cqe_parse(cqe, wc))
        rig_fail(cq->node->rig, "cq 0x%x: an entry with op_own %02x", cq->number, cqe->op_own);
    if (wc->scatter == GW_MLX5_CQE_SCATTER_32) memcpy(data, cqe, 32);
    if (wc->scatter == GW_MLX5_CQE_SCATTER_64) memcpy(data, (uint8_t *)cqe - 64, 64);
    if (news(cq) == cq->ci && meets(cqe->op_own, cq->armed_solicited)) cq->armed_met = true;
    cq->ci++;
    if (!cq->ignore_overrun) __atomic_store_n(&cq->dbrec[0], gw_mlx5_cq_ci_be(cq->ci), __ATOMIC_RELEASE);
    rig_note(cq->node->rig, cq->number, (uint64_t)wc->qpn << 32 | wc->opcode << 16 | wc->wqe_counter);
    return true;
}

void rig_arm(struct rig_cq *cq, bool solicited)
{
    uint32_t word = gw_mlx5_cq_arm_be(cq->sn, solicited, cq->ci);

    cq->armed = true;
    cq->armed_solicited = solicited;
    cq->armed_met = false;
    __atomic_store_n(&cq->dbrec[1], word, __ATOMIC_RELEASE);
    __atomic_store_n((uint64_t *)((uint8_t *)cq->page + GW_MLX5_UAR_CQ), gw_mlx5_cq_db_be(word, cq->number),
                     __ATOMIC_RELEASE);
}

/* ---- queue pairs --------------------------------------------------------------------------------------- */

bool rig_qp_open(struct rig_qp *qp, struct rig_node *node, struct rig_cq *send_cq, struct rig_cq *recv_cq,
                 const struct rig_qp_params *p, uint8_t *sq, uint8_t *rq)
{
    struct sn_qp_init init = {.type = p->type ? p->type : IBV_QPT_RC,
                              .pd = p->pd ? p->pd : node->pd,
                              .send_cq = send_cq ? send_cq->cq : NULL,
                              .recv_cq = recv_cq ? recv_cq->cq : NULL,
                              .sq_buf = sq,
                              .sq_wqebbs = p->sq_wqebbs,
                              .rq_buf = rq,
                              .rq_wqes = p->srq ? 0 : p->rq_wqes,
                              .srq = p->srq,
                              .rq_stride = p->rq_stride,
                              .dbrec = qp->dbrec,
                              .uar = node->uar[p->uar],
                              .bfreg = p->bfreg,
                              .sq_sig_all = p->sq_sig_all,
                              .uidx = p->uidx,
                              .scatter_recv = p->scatter_recv,
                              .scatter_req = p->scatter_req,
                              .user = qp};
    int error;

    memset(qp, 0, sizeof(*qp));
    if (p->xrcd) init = (struct sn_qp_init){.type = p->type, .xrcd = p->xrcd, .user = qp};
    qp->type = init.type;
    qp->node = node;
    qp->page = sn_uar_page(node->uar[p->uar]);
    qp->uar = p->uar;
    qp->bfreg = p->bfreg;
    qp->uidx = p->uidx;
    qp->send_cq = send_cq;
    qp->recv_cq = recv_cq;
    error = sn_qp_create(node->nic, &init, &qp->qp);
    if (error) {
        rig_fail(node->rig, "a queue pair could not be made: error %d", error);
        return false;
    }
    qp->qpn = sn_qp_number(qp->qp);
    qp->sq = (struct gw_mlx5_sq){sq, p->sq_wqebbs, qp->qpn};
    qp->rq = (struct gw_mlx5_rq){rq, p->rq_wqes, p->rq_stride};
    return true;
}

void rig_qp_close(struct rig_qp *qp)
{
    if (qp->qp && sn_qp_destroy(qp->qp)) rig_fail(qp->node->rig, "qp 0x%x could not be destroyed", qp->qpn);
    qp->qp = NULL;
}

bool rig_qp_state(struct rig_qp *qp, enum ibv_qp_state state)
{
    struct ibv_qp_attr attr = {.qp_state = state};

    if (state == IBV_QPS_RESET) {
        qp->sq_pi = qp->rq_pi = 0;
        qp->dbrec[0] = qp->dbrec[1] = 0;
    }
    return !sn_qp_modify(qp->qp, &attr, IBV_QP_STATE);
}

static int init_mask(const struct rig_qp *qp)
{
    return IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
           (qp->type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS);
}

static int rtr_mask(const struct rig_qp *qp)
{
    const int path = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;

    if (qp->type == IBV_QPT_UD) return IBV_QP_STATE;
    return qp->type == IBV_QPT_UC || qp->type == IBV_QPT_XRC_SEND
               ? path
               : path | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
}

static int rts_mask(const struct rig_qp *qp)
{
    const int all = IBV_QP_STATE | IBV_QP_SQ_PSN;

    if (qp->type == IBV_QPT_UC || qp->type == IBV_QPT_UD) return all;
    if (qp->type == IBV_QPT_XRC_RECV) return all | IBV_QP_TIMEOUT;
    return all | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
}

bool rig_qp_up(struct rig_qp *qp, uint32_t peer_node, uint32_t peer_qpn, const struct rig_link *link)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = RIG_QKEY};

    attr.qp_access_flags = (unsigned)link->access;
    if (sn_qp_modify(qp->qp, &attr, init_mask(qp))) return false;
    attr.qp_state = IBV_QPS_RTR;
    attr.path_mtu = link->mtu;
    attr.dest_qp_num = peer_qpn;
    attr.rq_psn = link->rq_psn;
    attr.max_dest_rd_atomic = link->max_dest_rd_atomic;
    attr.min_rnr_timer = link->min_rnr_timer;
    attr.ah_attr.is_global = 1;
    attr.ah_attr.port_num = 1;
    attr.ah_attr.grh.hop_limit = 64;
    memcpy(attr.ah_attr.grh.dgid.raw, qp->node->rig->net.gid[peer_node], 16);
    if (sn_qp_modify(qp->qp, &attr, rtr_mask(qp))) return false;
    attr.qp_state = IBV_QPS_RTS;
    attr.timeout = link->timeout;
    attr.retry_cnt = link->retry_cnt;
    attr.rnr_retry = link->rnr_retry;
    attr.sq_psn = link->sq_psn;
    attr.max_rd_atomic = link->max_rd_atomic;
    qp->mtu = 128u << link->mtu;
    return !sn_qp_modify(qp->qp, &attr, rts_mask(qp));
}

/* ---- doorbells ----------------------------------------------------------------------------------------- */

void rig_record(struct rig_qp *qp)
{
    __atomic_store_n(&qp->dbrec[GW_MLX5_DBREC_SEND], gw_mlx5_dbrec_be(qp->sq_pi), __ATOMIC_RELEASE);
}

void rig_recv_record(struct rig_qp *qp)
{
    __atomic_store_n(&qp->dbrec[GW_MLX5_DBREC_RECV], gw_mlx5_dbrec_be(qp->rq_pi), __ATOMIC_RELEASE);
}

void rig_ring(struct rig_qp *qp, uint32_t how, uint32_t wqebbs)
{
    uint8_t *reg = qp->page + gw_mlx5_bf_offset(qp->bfreg, SN_UAR_BF_SIZE, qp->bf_half);
    const uint8_t *wqe = gw_mlx5_sq_at(&qp->sq, (uint32_t)qp->last_wqe * GW_MLX5_UNITS_PER_BB);
    uint64_t word;

    qp->bf_half ^= 1;
    memcpy(&word, wqe, 8);
    if (how == 1) word = gw_mlx5_sq_db_be(qp->sq_pi, qp->qpn);
    if (how == 2 && wqebbs == 1) memcpy(reg + 8, wqe + 8, GW_MLX5_WQEBB - 8);
    __atomic_store_n((uint64_t *)reg, word, __ATOMIC_RELEASE);
}

bool rig_rings_taken(const struct rig_qp *qp)
{
    for (uint32_t k = 0; k < SN_UAR_BF_COUNT; k++)
        for (uint32_t half = 0; half < 2; half++)
            if (*(uint64_t *)(qp->page + gw_mlx5_bf_offset(k, SN_UAR_BF_SIZE, half)) != UINT64_MAX)
                return false;
    return true;
}

void rig_kick(struct rig_node *node, uint64_t within)
{
    uint64_t at = node->rig->now + (within ? rnd64(&node->rig->rnd) % within : 0);

    if (at < node->next) node->next = at;
}
