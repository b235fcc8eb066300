/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A hostile peer answers a requester, over a sequence of requests: with acknowledgements, data and refusals
 * for what was asked, was asked before, or never was. When the connection has ended a new one is made.
 *
 * A request must succeed only if the peer has acknowledged it, or sent its data, and after all before it. No
 * byte changes but those of the buffers that outstanding READs and atomics name. In the end a connection
 * works.
 */
#include "src/roce/segment.h"
#include "tests/fuzz/fuzz_peer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
    ROOM = 640,
    ASKED = 16,
    FIRST_AT = 1024,
    MEM = FIRST_AT + ASKED * ROOM + 1024,
    PSNS = 8192,
    SAID = STEPS * 4
};

/* A request: whether it waits for data, and its first PSN and their number, counted from the connection's
 * first. */
struct request {
    uint8_t opcode;
    uint32_t len, psn, packets;
};

/* An answer: about that packet, counted from the connection's first, or about those before it. */
struct said {
    uint32_t psn;
    bool data, ack;
};

struct bed {
    struct sn_pd *pd;
    struct sn_mr *mr;
    struct rig_cq cq;
    struct rig_qp qp;
    struct request asked[ASKED]; /* by their number, free-running */
    uint32_t first, end, psns;
    uint32_t acked;         /* everything before that PSN, as the peer said */
    bool answered[PSNS];    /* data came for that one */
    struct said said[SAID]; /* answers that are on their way */
    uint32_t on_their_way;
    uint8_t shadow[MEM];
};

static struct bed b;

static uint32_t buffer_of(uint32_t number)
{
    return FIRST_AT + number % ASKED * ROOM;
}

static uint64_t iova(uint32_t at)
{
    return UINT64_C(0x20000000) + at;
}

static bool waits_for_data(const struct request *r)
{
    return r->opcode == GW_MLX5_READ || gw_mlx5_is_atomic(r->opcode);
}

/* ---- the program --------------------------------------------------------------------------------------- */

static const struct rig_link link_of = {.mtu = IBV_MTU_256,
                                        .sq_psn = 0xfffff0,
                                        .rq_psn = 5,
                                        .timeout = 8,
                                        .retry_cnt = 2,
                                        .rnr_retry = 2,
                                        .min_rnr_timer = 1,
                                        .max_rd_atomic = 3,
                                        .max_dest_rd_atomic = 1,
                                        .access = IBV_ACCESS_LOCAL_WRITE};

static void asks(struct stream *s)
{
    static const uint8_t opcodes[] = {GW_MLX5_SEND, GW_MLX5_WRITE, GW_MLX5_READ, GW_MLX5_ATOMIC_FA,
                                      GW_MLX5_WRITE_IMM};
    struct request *r = &b.asked[b.end % ASKED];
    uint64_t addr = iova(buffer_of(b.end)), there = 0x1000;
    uint32_t key = sn_mr_key(b.mr), i = b.qp.sq_pi;

    if (b.end - b.first == ASKED || b.psns > PSNS - 8) return;
    r->opcode = opcodes[take8(s) % sizeof(opcodes)];
    r->len = take16(s) % (ROOM + 1);
    if (gw_mlx5_is_atomic(r->opcode)) {
        r->len = 8;
        gw_mlx5_put_atomic(&b.qp.sq, i, r->opcode, GW_MLX5_SIGNALED, there, 1, 1, 0, addr, key);
    } else if (r->opcode == GW_MLX5_SEND) {
        gw_mlx5_put_send(&b.qp.sq, i, r->opcode, GW_MLX5_SIGNALED, 0, addr, r->len, key);
    } else {
        gw_mlx5_put_rdma(&b.qp.sq, i, r->opcode, GW_MLX5_SIGNALED, 0, there, 1, addr, r->len, key);
    }
    r->psn = b.psns;
    r->packets = roce_packets(r->len, MTU);
    b.psns += r->packets;
    b.end++;
    b.qp.last_wqe = (uint16_t)i;
    b.qp.sq_pi++;
    rig_record(&b.qp);
    rig_ring(&b.qp, 1, 1);
}

static void succeeded(const struct request *r)
{
    if (!waits_for_data(r)) {
        require(r->psn + r->packets <= b.acked);
        return;
    }
    for (uint32_t k = 0; k < r->packets; k++) require(b.answered[r->psn + k]);
}

static void polls(void)
{
    struct gw_mlx5_wc wc;
    uint8_t inside[64];

    while (rig_poll(&b.cq, &wc, inside)) {
        require(b.first != b.end);
        if (wc.opcode == GW_MLX5_CQE_REQ) succeeded(&b.asked[b.first % ASKED]);
        b.first++;
    }
}

/* Before completions are taken: buffers of what is outstanding may have changed, and nothing else. */
static void check_memory(void)
{
    for (uint32_t i = b.first; i != b.end; i++) {
        const struct request *r = &b.asked[i % ASKED];

        if (waits_for_data(r)) memcpy(b.shadow + buffer_of(i), mem(buffer_of(i)), r->len);
    }
    require(!memcmp(b.shadow, mem(0), MEM));
}

/* Answers on their way vouch for packets once they are there: a refusal and an RNR for those before the
 * packet that they name. */
static void note_answers(void)
{
    for (uint32_t i = 0; i < b.on_their_way; i++) {
        const struct said *a = &b.said[i];

        if (a->psn >= b.psns) continue; /* never asked */
        if (a->psn + a->ack > b.acked) b.acked = a->psn + a->ack;
        if (a->data) b.answered[a->psn] = true;
    }
    b.on_their_way = 0;
}

static void runs(uint64_t ns)
{
    note_answers();
    rig_kick(&rig.node[0], 0);
    rig_run(&rig, rig.now + ns);
    check_memory();
    polls();
}

static void connects(void)
{
    require(rig_qp_state(&b.qp, IBV_QPS_RESET));
    runs(1000000);
    b.first = b.end = b.psns = b.acked = 0;
    memset(b.answered, 0, sizeof(b.answered));
    require(rig_qp_up(&b.qp, PEER, PEER_QPN, &link_of));
}

static void set_up(uint8_t how)
{
    struct rig_cq_params cp = {.count = CQ, .size = 64};
    struct rig_qp_params qp = {
        .sq_wqebbs = SQ, .rq_stride = 64, .scatter_req = how & 2 ? 32 : 0, .sq_sig_all = how & 2};
    struct sn_mr_init init = {
        .length = ASKED * ROOM, .iova = iova(FIRST_AT), .access = IBV_ACCESS_LOCAL_WRITE};

    memset(&b, 0, sizeof(b));
    peer_begin(how & 1, b.shadow, CANARY, MEM);
    require(!sn_pd_create(rig.node[0].nic, &b.pd));
    init.addr = (uintptr_t)mem(FIRST_AT);
    require(!sn_mr_create(b.pd, &init, &b.mr));
    require(rig_cq_open(&b.cq, &rig.node[0], &cp, cq_mem));
    qp.pd = b.pd;
    require(rig_qp_open(&b.qp, &rig.node[0], &b.cq, &b.cq, &qp, sq_mem, NULL));
    connects();
}

/* ---- the peer ------------------------------------------------------------------------------------------ */

/* psn: counted from the connection's first. */
static void says(struct roce_hdr *h, uint32_t psn, uint32_t len, uint8_t fill)
{
    bool data = (h->opcode & ~ROCE_SERVICE_MASK) != ROCE_ACK;

    if (b.on_their_way == SAID) return;
    b.said[b.on_their_way++] = (struct said){psn, data, data || roce_aeth_is_ack(h->syndrome)};
    h->psn = (link_of.sq_psn + psn) & 0xffffff;
    peer_sends(b.qp.qpn, h, len, fill);
}

/* Right for the oldest request, or for some packet near it. */
static void answers(struct stream *s)
{
    static const uint8_t opcodes[] = {ROCE_ACK,
                                      ROCE_ACK,
                                      ROCE_READ_RESP_ONLY,
                                      ROCE_READ_RESP_FIRST,
                                      ROCE_READ_RESP_LAST,
                                      ROCE_READ_RESP_MIDDLE,
                                      ROCE_ATOMIC_ACK};
    uint8_t kind = take8(s), how = take8(s);
    const struct request *r = &b.asked[b.first % ASKED];
    uint32_t k = r->packets ? take8(s) % r->packets : 0, psn = r->psn + k, len = 0;
    struct roce_hdr h = {.opcode = opcodes[kind % sizeof(opcodes)], .msn = kind, .orig = how};

    if (how & 4) psn += (uint32_t)(int32_t)(int8_t)take8(s);
    if (how & 8) h.syndrome = take8(s);
    if (roce_flags(h.opcode) & ROCE_F_PAYLOAD) {
        len = k + 1 == r->packets && r->len ? r->len - k * MTU : MTU;
        if (how & 16) len = take16(s) % 600;
    }
    says(&h, psn, len, how);
}

/* As a good peer would: all packets of the oldest request. */
static void serves(void)
{
    const struct request *r = &b.asked[b.first % ASKED];

    if (b.first == b.end) return;
    for (uint32_t k = 0; k < r->packets; k++) {
        struct roce_seg seg = roce_segment(ROCE_MSG_READ_RESP, r->len, MTU, k);
        struct roce_hdr h = {.opcode = ROCE_ACK};

        if (r->opcode == GW_MLX5_READ) h.opcode = seg.opcode;
        if (gw_mlx5_is_atomic(r->opcode)) h.opcode = ROCE_ATOMIC_ACK;
        says(&h, r->psn + k, r->opcode == GW_MLX5_READ ? seg.length : 0, 0x21);
    }
}

/* ---- the end ------------------------------------------------------------------------------------------- */

static void still_works(void)
{
    struct stream nothing = {NULL, 0};

    connects();
    asks(&nothing); /* a SEND of no bytes */
    runs(1000000);
    require(b.first != b.end);
    serves();
    runs(1000000);
    require(b.first == b.end);
}

static void tear_down(void)
{
    rig_qp_close(&b.qp);
    rig_cq_close(&b.cq);
    require(!sn_mr_destroy(b.mr) && !sn_pd_destroy(b.pd));
    peer_end();
}

static void step(struct stream *s)
{
    struct ibv_qp_attr a;

    require(!sn_qp_query(b.qp.qp, &a));
    if (a.qp_state != IBV_QPS_RTS || b.psns > PSNS - 8) connects();
    switch (take8(s) % 8) {
    case 0:
    case 1:
    case 2: asks(s); break;
    case 3: serves(); break;
    case 4: runs(UINT64_C(1) << (10 + take8(s) % 12)); break;
    default: answers(s); break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct stream s = {data, size};

    set_up(take8(&s));
    for (int i = 0; s.left && i < STEPS; i++) {
        step(&s);
        if (take8(&s) & 1) runs(3000);
        peer_hears(NULL);
    }
    still_works();
    peer_hears(NULL);
    tear_down();
    return 0;
}
