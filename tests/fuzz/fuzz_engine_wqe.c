/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes in a program's queues, records and doorbells: a NIC with one queue pair whose program is the
 * fuzzer, connected to one whose program is well-behaved. Whatever is posted, memory that no region grants
 * stays as it is, at both ends, and neither NIC stops.
 */
#include "tests/fuzz/fuzz_engine.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { SQ = 16, RQ = 8, CQ = 32, ROUNDS = 6 };

static struct rig rig;
static uint8_t cq_mem[2][CQ * 128] __attribute__((aligned(128)));
static uint8_t sq_mem[2][SQ * 64] __attribute__((aligned(64)));
static uint8_t rq_mem[2][RQ * 64] __attribute__((aligned(64)));

struct bed {
    struct window w[2];
    struct rig_cq cq[2];
    struct rig_qp qp[2];
    struct sn_srq *srq; /* where queue pair 0 takes its receives from, or NULL */
    uint32_t srq_record[2];
    struct sn_mr *mw[2]; /* windows of queue pair 0's domain, one of each type */
};

/* A shared queue in the memory of queue pair 0's own, whose links lead in a circle until the fuzzer says
 * otherwise. */
static struct sn_srq *shared(struct bed *b)
{
    struct sn_srq_init i = {
        .pd = b->w[0].pd, .buf = rq_mem[0], .wqes = RQ, .stride = 64, .dbrec = b->srq_record, .user = b};

    b->srq_record[0] = 0;
    for (uint32_t k = 0; k < RQ; k++) gw_store16(rq_mem[0] + (size_t)k * 64, gw_mlx5_srq_next((k + 3) % RQ));
    require(!sn_srq_create(rig.node[0].nic, &i, &b->srq));
    return b->srq;
}

static void set_up(struct bed *b, struct stream *s)
{
    static const enum ibv_qp_type types[] = {IBV_QPT_RC, IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD};
    uint8_t how = take8(s), more = take8(s);
    struct rig_params p = {.nodes = 2, .hostile = how & 1, .net = {.has_ip_id = true}};
    struct rig_cq_params cp = {
        .count = CQ >> (more & 3), .size = how & 2 ? 64 : 128, .ignore_overrun = how & 4};
    struct rig_qp_params qp = {.type = types[take8(s) % 4],
                               .sq_wqebbs = 1u << (how >> 4) % 5,
                               .rq_wqes = RQ,
                               .rq_stride = 16u << (more >> 2 & 1) * 2,
                               .sq_sig_all = how & 8,
                               .scatter_recv = more & 8 ? 64 : 0,
                               .scatter_req = more & 16 ? 32 : 0};
    struct rig_link link = {.mtu = (enum ibv_mtu)(1 + (more >> 5) % 5),
                            .sq_psn = 0xfffffc,
                            .rq_psn = 0xfffffc,
                            .timeout = 8,
                            .retry_cnt = 1,
                            .rnr_retry = 1,
                            .min_rnr_timer = 1,
                            .max_rd_atomic = 2,
                            .max_dest_rd_atomic = 2,
                            .access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                                      IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC};

    require(rig_start(&rig, &p, 1));
    for (uint32_t i = 0; i < 2; i++) {
        window_open(&b->w[i], &rig.node[i]);
        qp.pd = b->w[i].pd;
        memset(sq_mem[i], 0, sizeof(sq_mem[i]));
        memset(rq_mem[i], 0, sizeof(rq_mem[i]));
        require(rig_cq_open(&b->cq[i], &rig.node[i], &cp, cq_mem[i]));
        if (i == 0) b->srq = NULL;
        if (i == 0 && (how ^ more) & 0x40) qp.srq = shared(b);
        require(rig_qp_open(&b->qp[i], &rig.node[i], &b->cq[i], &b->cq[i], &qp, sq_mem[i], rq_mem[i]));
        qp.sq_wqebbs = SQ; /* the other one's */
        qp.srq = NULL;
    }
    require(!sn_mw_create(b->w[0].pd, IBV_MW_TYPE_1, &b->mw[0]) &&
            !sn_mw_create(b->w[0].pd, IBV_MW_TYPE_2, &b->mw[1]));
    for (uint32_t i = 0; i < 2; i++) require(rig_qp_up(&b->qp[i], !i, b->qp[!i].qpn, &link));
}

/* Some 16-byte units that often make sense in their place. */
static void put_unit(struct bed *b, struct stream *s, uint32_t unit)
{
    const struct gw_mlx5_sq *sq = &b->qp[0].sq;
    uint8_t kind = take8(s);
    struct gw_u128 raw;

    switch (kind % 6) {
    case 0:
    case 1:
        gw_mlx5_put(sq, unit, gw_mlx5_data(take_addr(s, &b->w[0]), take_len(s), take_key(s, &b->w[0])));
        return;
    case 2:
    case 3: gw_mlx5_put(sq, unit, gw_mlx5_raddr(take_addr(s, &b->w[1]), take_key(s, &b->w[1]))); return;
    case 4: gw_mlx5_put(sq, unit, gw_mlx5_inline12(take16(s) % 300, 1, 2, 3)); return;
    default:
        for (uint32_t i = 0; i < 4; i++) raw.w[i] = take32(s);
        gw_mlx5_put(sq, unit, raw);
    }
}

/* A bind or an invalidation that is often right. */
static void post_bind(struct bed *b, struct stream *s)
{
    struct rig_qp *q = &b->qp[0];
    uint8_t how = take8(s);
    struct gw_mlx5_bind bind = {.mkey = sn_mr_key(b->mw[how & 1]),
                                .tag = take8(s),
                                .type2 = (how & 1) ^ (how > 0xf0),
                                .access = take8(s),
                                .length = how & 6 ? take_len(s) : 0,
                                .lkey = take_key(s, &b->w[0]),
                                .addr = take_addr(s, &b->w[0])};

    if (how & 8) bind.mkey ^= how;
    bind.start = how & 16 ? 0 : bind.addr;
    q->last_wqe = q->sq_pi;
    q->sq_pi =
        (uint16_t)(q->sq_pi + gw_mlx5_put_bind(&q->sq, q->sq_pi, &bind, how & 32 ? GW_MLX5_SIGNALED : 0));
}

/* Where a datagram goes: mostly to the other queue pair. */
static void put_address(struct bed *b, struct stream *s, uint32_t unit)
{
    uint8_t how = take8(s);
    uint32_t qpn = b->qp[how & 1].qpn ^ (how > 0xf0), qkey = how & 2 ? 0x80000000 : RIG_QKEY ^ (how > 0xe0);
    struct gw_u128 gid;

    memcpy(&gid, rig.net.gid[how & 1], sizeof(gid));
    if (how > 0xfc) gid.w[how & 3] = take32(s);
    gw_mlx5_put(
        &b->qp[0].sq, unit,
        (struct gw_u128){{gw_be32(qkey), 0, gw_be32(qpn | (how == 0xe5 ? 0 : GW_MLX5_AV_EXTENDED)), 0}});
    gw_mlx5_put(&b->qp[0].sq, unit + 1, (struct gw_u128){{0, 0, 0, how > 0xf8 ? take32(s) : 0}});
    gw_mlx5_put(&b->qp[0].sq, unit + 2, gid);
}

static void post(struct bed *b, struct stream *s)
{
    static const uint8_t known[] = {GW_MLX5_NOP,       GW_MLX5_WRITE,     GW_MLX5_WRITE_IMM,
                                    GW_MLX5_SEND,      GW_MLX5_SEND_IMM,  GW_MLX5_READ,
                                    GW_MLX5_ATOMIC_CS, GW_MLX5_ATOMIC_FA, GW_MLX5_SEND_INVAL,
                                    GW_MLX5_MASKED_CS, GW_MLX5_MASKED_FA};
    struct rig_qp *q = &b->qp[0];
    uint8_t op = take8(s), ds = take8(s), flags = take8(s);
    if (op >= 0xe0 && op < 0xf0 && q->sq.wqebbs >= 4) {
        post_bind(b, s);
        return;
    }
    uint32_t u = q->sq_pi * 4u, opcode = op < 0xf0 ? known[op % sizeof(known)] : op, units = ds & 63;

    if (units > 12 && !(ds & 64)) units = 1 + units % 5;
    gw_mlx5_put(&q->sq, u,
                gw_mlx5_ctrl(opcode, q->sq_pi + (flags == 0xff), q->qpn ^ (flags == 0xfe), units, flags, op));
    for (uint32_t i = 1; i < units && i < 12; i++) put_unit(b, s, u + i);
    if (q->type == IBV_QPT_UD && units >= GW_MLX5_UD_HEAD) put_address(b, s, u + 1);
    q->last_wqe = q->sq_pi;
    q->sq_pi = (uint16_t)(q->sq_pi + (units ? gw_mlx5_wqebbs(units) : 1));
}

static void shared_receives(struct bed *b, struct stream *s)
{
    struct gw_mlx5_rq rq = {rq_mem[0], RQ, 64};
    uint8_t n = take8(s);

    for (uint32_t i = 0; i < n % 4; i++) {
        struct gw_mlx5_sge sge = {take_addr(s, &b->w[0]), take_len(s), take_key(s, &b->w[0])};
        uint8_t entry = take8(s);

        sge.length &= 0x7fffffff; /* more the builder does not write */
        if (entry > 0xe0) gw_store16(rq_mem[0] + entry % RQ * 64, gw_mlx5_srq_next(take16(s) % (RQ + 1)));
        require(!gw_mlx5_put_srq_recv(&rq, entry, &sge, 1, 3));
        if (entry > 0xf8) rq_mem[0][take16(s) % (RQ * 64)] = take8(s);
        b->srq_record[0] = gw_be32(gw_be32(b->srq_record[0]) + 1);
    }
    if (n > 0xf0) b->srq_record[0] = take32(s);
    if (n & 0x40) sn_srq_set_limit(b->srq, n % RQ);
}

/* The well-behaved program's messages. Returns the WQEBBs. */
static uint32_t post_good(struct bed *b, struct rig_qp *q)
{
    struct gw_mlx5_sge sge = {b->w[1].iova, 200, b->w[1].key};
    struct gw_mlx5_wr wr = {.opcode = GW_MLX5_SEND, .num_sge = 1, .sge = &sge};
    struct gw_mlx5_av av = {.hop_limit = 1};
    int n;

    memcpy(av.rgid, rig.net.gid[0], 16);
    n = q->type == IBV_QPT_UD ? gw_mlx5_put_ud(&q->sq, q->sq_pi, &wr, &av, b->qp[0].qpn, RIG_QKEY)
                              : gw_mlx5_put_wr(&q->sq, q->sq_pi, &wr);
    require(n > 0);
    return (uint32_t)n;
}

static void receives(struct bed *b, struct stream *s)
{
    struct rig_qp *q = &b->qp[0];
    uint8_t n = b->srq ? 0 : take8(s) % 12;

    if (b->srq) shared_receives(b, s);
    for (uint32_t i = 0; i < n % RQ; i++) {
        struct gw_mlx5_sge sge = {take_addr(s, &b->w[0]), take_len(s), take_key(s, &b->w[0])};
        uint8_t *wqe = rq_mem[0] + (size_t)(q->rq_pi % RQ) * q->rq.stride;

        if (gw_mlx5_put_recv(&q->rq, q->rq_pi, &sge, 1, q->rq.stride / 16))
            wqe[take8(s) % q->rq.stride] = take8(s);
        q->rq_pi++;
    }
    rig_recv_record(q);
    if (n == 11) q->dbrec[0] = take32(s);
    /* The well-behaved side takes part: receives, and messages of its own. */
    q = &b->qp[1];
    for (uint32_t i = 0; i < 2; i++) {
        struct gw_mlx5_sge sge = {b->w[1].iova + 64 * i, 1000, b->w[1].key};

        require(!gw_mlx5_put_recv(&q->rq, q->rq_pi++, &sge, 1, q->rq.stride / 16));
    }
    rig_recv_record(q);
    q->last_wqe = q->sq_pi;
    q->sq_pi = (uint16_t)(q->sq_pi + post_good(b, q));
    rig_record(q);
    rig_ring(q, 0, 1);
    rig_kick(q->node, 0);
}

/* Rings rightly, with any value, or with a record from nowhere. */
static void ring(struct bed *b, struct stream *s)
{
    struct rig_qp *q = &b->qp[0];
    uint8_t how = take8(s);
    uint64_t *page = sn_uar_page(q->node->uar[0]);

    rig_record(q);
    if (how == 0xff) q->dbrec[1] = take32(s);
    if (how >= 0xf0) page[take16(s) % 512] = (uint64_t)take32(s) << 32 | take32(s);
    if (how >= 0xe8) b->cq[0].dbrec[how & 1] = take32(s);
    if (how & 1) rig_ring(q, how >> 1 & 1, 2);
    /* Not through rig_arm: this program arms as it likes, so events mean nothing. */
    b->cq[0].armed = b->cq[0].armed_met = true;
    rig_kick(q->node, 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct stream s = {data, size};
    static struct bed b;
    struct gw_mlx5_wc wc;
    uint8_t inside[64];

    set_up(&b, &s);
    for (uint32_t round = 0; round < ROUNDS && s.left; round++) {
        uint32_t n = take8(&s) % 5;

        while (n--) post(&b, &s);
        receives(&b, &s);
        ring(&b, &s);
        for (uint32_t i = 0; i < 4 && s.left; i++) {
            b.cq[0].armed = b.cq[0].armed_met = true;
            rig_run(&rig, rig.now + 5000);
        }
        for (uint32_t i = 0; i < 2; i++)
            while (rig_poll(&b.cq[i], &wc, inside)) require(wc.qpn == b.qp[i].qpn);
    }
    b.cq[0].armed = b.cq[0].armed_met = true;
    rig_run(&rig, rig.now + 1000000);
    for (uint32_t i = 0; i < 2; i++) rig_qp_close(&b.qp[i]);
    if (b.srq) require(!sn_srq_destroy(b.srq));
    for (uint32_t i = 0; i < 2; i++) require(!sn_mr_destroy(b.mw[i]));
    for (uint32_t i = 0; i < 2; i++) rig_cq_close(&b.cq[i]);
    for (uint32_t i = 0; i < 2; i++) window_close(&b.w[i]);
    rig_stop(&rig);
    require(!rig.failed);
    return 0;
}
