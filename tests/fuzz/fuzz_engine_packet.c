/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any packets from the connected peer, with the right ICRC, to a NIC with queue pairs in every state. One
 * waits for answers to SENDs, READs and atomics. One has receives posted. There is one each in RTR, INIT and
 * ERR, a UC and a UD one. The peer may end its connection by what it sends; it must reach no memory but what
 * it was given, and the NIC must stay usable.
 */
#include "src/roce/hdr.h"
#include "tests/fuzz/fuzz_engine.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { QPS = 7, UC = 5, UD = 6, SQ = 32, RQ = 16, CQ = 256, PEER = 1, XRC = 2, XRC_WQES = 8 };

static struct rig rig;
static uint8_t cq_mem[CQ * 128] __attribute__((aligned(128)));
static uint8_t sq_mem[QPS][SQ * 64] __attribute__((aligned(64)));
static uint8_t rq_mem[QPS][RQ * 64] __attribute__((aligned(64)));

struct bed {
    struct window w;
    struct rig_cq cq;
    struct rig_qp qp[QPS];
    struct rig_link link;
    struct sn_xrcd *xrcd;
    struct sn_srq *srq;
    uint32_t srq_record[2];
    struct sn_qp *target; /* an XRC_RECV queue pair, in place of queue pair XRC when packets are aimed */
};

/* A shared queue of a few receives, in a circle, and a queue pair whose peer may name it. */
static void xrc_up(struct bed *b)
{
    struct sn_nic *nic = rig.node[0].nic;
    struct sn_srq_init si = {.pd = b->w.pd, .buf = rq_mem[XRC], .wqes = XRC_WQES, .stride = 64};
    struct sn_qp_init qi = {.type = IBV_QPT_XRC_RECV};
    struct gw_mlx5_rq rq = {rq_mem[XRC], XRC_WQES, 64};
    struct ibv_qp_attr a = {
        .qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = (unsigned)b->link.access};

    require(!sn_xrcd_create(nic, &b->xrcd));
    si.xrcd = qi.xrcd = b->xrcd;
    si.cq = b->cq.cq;
    si.uidx = 0x777;
    si.dbrec = b->srq_record;
    for (uint32_t k = 0; k < XRC_WQES; k++) {
        struct gw_mlx5_sge sge = {b->w.iova + 100 * k, 90 * k, b->w.key};

        gw_store16(rq_mem[XRC] + (size_t)k * 64, gw_mlx5_srq_next((k + 3) % XRC_WQES));
        require(!gw_mlx5_put_srq_recv(&rq, k, &sge, 1, 3));
    }
    b->srq_record[0] = gw_be32(XRC_WQES);
    require(!sn_srq_create(nic, &si, &b->srq) && !sn_qp_create(nic, &qi, &b->target));
    require(
        !sn_qp_modify(b->target, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
    a.qp_state = IBV_QPS_RTR;
    a.path_mtu = IBV_MTU_256;
    a.dest_qp_num = 0x550000 + XRC;
    a.rq_psn = b->link.rq_psn;
    a.max_dest_rd_atomic = 2;
    a.ah_attr = (struct ibv_ah_attr){.is_global = 1, .port_num = 1};
    memcpy(a.ah_attr.grh.dgid.raw, rig.net.gid[PEER], 16);
    require(!sn_qp_modify(b->target, &a,
                          IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                              IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
}

static void xrc_down(struct bed *b)
{
    require(!sn_qp_destroy(b->target) && !sn_srq_destroy(b->srq) && !sn_xrcd_destroy(b->xrcd));
}

/* Work whose answers the fuzzer plays. */
static void post_requests(struct bed *b, struct rig_qp *q)
{
    static const uint8_t opcodes[] = {GW_MLX5_SEND, GW_MLX5_READ,      GW_MLX5_WRITE,     GW_MLX5_ATOMIC_FA,
                                      GW_MLX5_READ, GW_MLX5_WRITE_IMM, GW_MLX5_MASKED_FA, GW_MLX5_NOP};

    for (uint32_t i = 0; i < 12; i++) {
        uint8_t op = opcodes[i % sizeof(opcodes)];
        uint64_t addr = b->w.iova + 512 * i;

        if (op == GW_MLX5_SEND)
            gw_mlx5_put_send(&q->sq, i, op, GW_MLX5_SIGNALED, 0, addr, 500, b->w.key);
        else if (op == GW_MLX5_NOP)
            gw_mlx5_put_nop(&q->sq, i, 1, 0);
        else if (gw_mlx5_is_atomic(op))
            gw_mlx5_put_atomic(&q->sq, i, op, GW_MLX5_SIGNALED, 64, 1, 1, 0, addr, b->w.key);
        else
            gw_mlx5_put_rdma(&q->sq, i, op, i & 1 ? GW_MLX5_SIGNALED : 0, 0, 64, 1, addr, 400 + 50 * i,
                             b->w.key);
    }
    q->last_wqe = 11;
    q->sq_pi = 12;
    rig_record(q);
    rig_ring(q, 0, 1);
}

static void post_receives(struct bed *b, struct rig_qp *q)
{
    for (uint32_t i = 0; i < RQ; i++) {
        struct gw_mlx5_sge sge[2] = {{b->w.iova + 6000 + 10 * i, i * 7, b->w.key},
                                     {b->w.iova + 7000, i * 40, b->w.key}};

        gw_mlx5_put_recv(&q->rq, i, sge, 2, 4);
    }
    q->rq_pi = 10;
    rig_recv_record(q);
}

static void set_up(struct bed *b, struct stream *s)
{
    uint8_t how = take8(s);
    struct rig_params p = {.nodes = 1, .hostile = how & 1, .net = {.ipv6 = how & 2, .has_ip_id = true}};
    struct rig_cq_params cp = {.count = CQ, .size = how & 4 ? 64 : 128};
    struct rig_qp_params qp = {.sq_wqebbs = SQ,
                               .rq_wqes = RQ,
                               .rq_stride = 64,
                               .sq_sig_all = how & 8,
                               .scatter_recv = how & 16 ? 32 : 0,
                               .scatter_req = how & 32 ? 64 : 0};
    struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT, .port_num = 1};

    require(rig_start(&rig, &p, 1));
    window_open(&b->w, &rig.node[0]);
    qp.pd = b->w.pd;
    require(rig_cq_open(&b->cq, &rig.node[0], &cp, cq_mem));
    b->link = (struct rig_link){.mtu = IBV_MTU_256,
                                .sq_psn = 0xfffff0,
                                .rq_psn = 0xfffffd,
                                .timeout = 8,
                                .retry_cnt = 1,
                                .rnr_retry = 1,
                                .min_rnr_timer = 1,
                                .max_rd_atomic = 3,
                                .max_dest_rd_atomic = 2,
                                .access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                                          IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC};
    for (uint32_t i = 0; i < QPS; i++) {
        qp.type = i == UC ? IBV_QPT_UC : i == UD ? IBV_QPT_UD : IBV_QPT_RC;
        require(rig_qp_open(&b->qp[i], &rig.node[0], &b->cq, &b->cq, &qp, sq_mem[i], rq_mem[i]));
        if (i == 3)
            require(!sn_qp_modify(b->qp[i].qp, &init,
                                  IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
        else
            require(rig_qp_up(&b->qp[i], PEER, 0x550000 + i, &b->link));
    }
    require(rig_qp_state(&b->qp[4], IBV_QPS_ERR));
    post_requests(b, &b->qp[0]);
    post_requests(b, &b->qp[1]);
    for (uint32_t i = 0; i < QPS; i++)
        if (i < 2 || i >= UC) post_receives(b, &b->qp[i]);
    xrc_up(b);
}

/* A packet near to one that could come, in all its fields. */
static uint32_t near_packet(struct bed *b, struct stream *s, uint8_t *p)
{
    uint8_t sel = take8(s), opcode = take8(s) % 0x19, delta = take8(s);
    struct rig_qp *q = &b->qp[sel % QPS];
    bool response = roce_flags(opcode) & ROCE_F_RESPONSE;
    struct roce_hdr h = {.opcode = opcode,
                         .dqpn = q->qpn,
                         .pkey = ROCE_DEFAULT_PKEY,
                         .migreq = true,
                         .ackreq = sel & 0x80,
                         .solicited = sel & 0x40,
                         .msn = delta};
    uint32_t n, len;

    if (opcode == 0x18) h.opcode = opcode = ROCE_CNP;
    if (sel % QPS == XRC && opcode != ROCE_CNP) {
        h.dqpn = sn_qp_number(b->target);
        h.opcode = opcode |= ROCE_XRC;
        h.xrcsrq = sn_srq_number(b->srq) ^ (delta == 0x55);
    }
    if (sel % QPS == UC) h.opcode = opcode |= ROCE_UC;
    if (sel % QPS == UD) {
        h.opcode = opcode = ROCE_UD_SEND_ONLY | (opcode & 1);
        h.qkey = RIG_QKEY ^ (delta == 0x55);
        h.sqpn = delta;
    }
    h.psn = ((response ? b->link.sq_psn : b->link.rq_psn) + (uint32_t)(int32_t)(int8_t)delta) & 0xffffff;
    h.va = take_addr(s, &b->w);
    h.rkey = take_key(s, &b->w);
    h.dlen = take_len(s);
    h.compare = take8(s);
    h.swap_or_add = h.orig = take16(s);
    h.syndrome = take8(s);
    h.imm_be = h.dlen;
    len = roce_flags(opcode) & ROCE_F_PAYLOAD ? take_len(s) % 600 : 0;
    if (sel & 0x20) len = 256;
    if ((sel & 0x30) == 0x10 && h.dlen < 600) len = h.dlen;
    h.pad = roce_pad(len);
    n = roce_pack(p, &h);
    if (!n) return 0;
    memset(p + n, sel, len + h.pad);
    return n + len + h.pad + ROCE_ICRC_LEN;
}

static void one_packet(struct bed *b, struct stream *s)
{
    uint8_t packet[SN_FRAME_MAX], how = take8(s);
    uint32_t n;

    if (how & 3) {
        n = near_packet(b, s, packet);
    } else { /* any bytes, to some queue pair */
        n = 16 + take8(s) % 160 * 4u;
        for (uint32_t i = 0; i < n; i++) packet[i] = take8(s);
        uint32_t qpn = b->qp[(how >> 2) % QPS].qpn;

        packet[1] &= 0xf0;
        packet[5] = (uint8_t)(qpn >> 16);
        packet[6] = (uint8_t)(qpn >> 8);
        packet[7] = (uint8_t)qpn;
    }
    if (n >= 16 && n <= sizeof(packet)) net_inject(&rig.net, 0, rig.net.gid[PEER], packet, n, how != 0xfc);
    if (how & 0x40) rig_run(&rig, rig.now + 1000 + (how & 0x80 ? 1000000 : 0));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct stream s = {data, size};
    static struct bed b;
    struct gw_mlx5_wc wc;
    uint8_t inside[64];

    set_up(&b, &s);
    for (uint32_t n = 0; s.left && n < 64; n++) one_packet(&b, &s);
    rig_run(&rig, rig.now + 2000000);
    /* The NIC is not harmed: a fresh connection works. */
    while (rig_poll(&b.cq, &wc, inside)) {
    }
    require(rig_qp_state(&b.qp[0], IBV_QPS_RESET));
    rig_run(&rig, rig.now + 1000000);
    while (rig_poll(&b.cq, &wc, inside)) {
    }
    require(rig_qp_up(&b.qp[0], 0, b.qp[0].qpn,
                      &(struct rig_link){.mtu = IBV_MTU_256, .timeout = 8, .retry_cnt = 1}));
    gw_mlx5_put_send(&b.qp[0].sq, 0, GW_MLX5_NOP, GW_MLX5_SIGNALED, 0, 0, 0, 0);
    b.qp[0].last_wqe = 0;
    b.qp[0].sq_pi = 1;
    rig_record(&b.qp[0]);
    rig_ring(&b.qp[0], 0, 1);
    rig_kick(&rig.node[0], 0);
    rig_run(&rig, rig.now + 1000000);
    require(rig_poll(&b.cq, &wc, inside) && wc.opcode == GW_MLX5_CQE_REQ && wc.qpn == b.qp[0].qpn);
    for (uint32_t i = 0; i < QPS; i++) rig_qp_close(&b.qp[i]);
    xrc_down(&b);
    rig_cq_close(&b.cq);
    window_close(&b.w);
    rig_stop(&rig);
    require(!rig.failed);
    return 0;
}
