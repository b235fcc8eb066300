/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A hostile peer is connected to a queue pair and sends sequences of requests: new ones, the same ones again,
 * or nearly. Their PSNs, keys, addresses and lengths are right or wrong. When the peer has ended the
 * connection it gets a new one. In between the program deregisters memory, registers other, and posts
 * receives.
 *
 * The peer must write no byte, and read no byte, that it was not given at that time. In the end a connection
 * works.
 */
#include "softnic/engine/engine.h"
#include "tests/fuzz/fuzz_peer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { RQ = 16, LOG = 16 };
enum { MEM = 8192, SECRET = 0xa5, RECV_AT = 7168, RECV_LEN = 1024, WINDOW_AT = 6144, WINDOW_SIZE = 256 };
enum {
    READS = IBV_ACCESS_REMOTE_READ,
    WRITES = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_LOCAL_WRITE,
    ATOMICS = IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_LOCAL_WRITE
};

static uint8_t rq_mem[RQ * 64] __attribute__((aligned(64)));

/* A part of the memory, and what the peer may do there. */
struct grant {
    uint32_t at, len, access;
    bool foreign; /* in a protection domain that is not the queue pair's: nothing */
    struct sn_mr *mr;
    uint32_t key;
};

static const struct grant plan[] = {
    {1024, 512, READS | WRITES, false, NULL, 0},
    {2048, 300, READS, false, NULL, 0},
    {3072, 300, WRITES, false, NULL, 0},
    {4096, 64, ATOMICS, false, NULL, 0},
    {5120, 256, READS | WRITES | ATOMICS, true, NULL, 0},
};
enum { GRANTS = sizeof(plan) / sizeof(plan[0]) };

struct bed {
    struct grant grant[GRANTS];
    struct sn_pd *pd, *foreign;
    struct sn_mr *base, *window; /* the peer may take what the window grants back */
    bool bound;
    uint32_t window_key;
    struct sn_mr *receives;
    struct rig_cq cq;
    struct rig_qp qp;
    uint8_t shadow[MEM];
    struct roce_hdr log[LOG];
    uint32_t logged, psn;
};

static struct bed b;

/* ---- what the peer was given --------------------------------------------------------------------------- */

static uint64_t iova(uint32_t at)
{
    return UINT64_C(0x10000000) + at;
}

static void give(struct grant *g, uint8_t fill)
{
    struct sn_mr_init init = {
        .addr = (uintptr_t)mem(g->at), .length = g->len, .iova = iova(g->at), .access = g->access};

    memset(mem(g->at), fill, g->len);
    memset(b.shadow + g->at, fill, g->len);
    require(!sn_mr_create(g->foreign ? b.foreign : b.pd, &init, &g->mr));
    g->key = sn_mr_key(g->mr);
}

/* The peer must not see what it may not read. */
static uint8_t fill_of(const struct grant *g, uint8_t readable)
{
    if (g->foreign || !(g->access & (READS | IBV_ACCESS_REMOTE_ATOMIC))) return SECRET;
    return g->access & READS ? readable : 0;
}

static void take_back(struct grant *g)
{
    if (!g->mr) return;
    require(!sn_mr_destroy(g->mr));
    g->mr = NULL;
    memset(mem(g->at), SECRET, g->len);
    memset(b.shadow + g->at, SECRET, g->len);
}

static void may_change(uint32_t at, uint32_t len)
{
    memcpy(b.shadow + at, mem(at), len);
}

/* Nothing else has changed. The check takes the window for bound all the time. */
static void check_memory(void)
{
    for (unsigned k = 0; k < GRANTS; k++) {
        const struct grant *g = &b.grant[k];

        if (g->mr && !g->foreign && g->access & IBV_ACCESS_LOCAL_WRITE) may_change(g->at, g->len);
    }
    may_change(RECV_AT, RECV_LEN);
    may_change(WINDOW_AT, WINDOW_SIZE);
    require(!memcmp(b.shadow, mem(0), MEM));
}

/* ---- the program --------------------------------------------------------------------------------------- */

static void post_receives(void)
{
    for (uint32_t i = 0; i < RQ; i++) {
        struct gw_mlx5_sge sge = {iova(RECV_AT) + 60 * i, 20 * i, sn_mr_key(b.receives)};

        gw_mlx5_put_recv(&b.qp.rq, i, &sge, 1, 4);
    }
    b.qp.rq_pi = RQ - 2;
    rig_recv_record(&b.qp);
}

static void polls(void)
{
    struct gw_mlx5_wc wc;
    uint8_t inside[64];

    while (rig_poll(&b.cq, &wc, inside)) {
    }
}

static void runs(uint64_t ns)
{
    rig_kick(&rig.node[0], 0);
    rig_run(&rig, rig.now + ns);
    polls();
}

static void bind_window(void)
{
    struct gw_mlx5_bind bind = {.mkey = b.window_key,
                                .tag = (uint8_t)(b.window_key + 1),
                                .type2 = true,
                                .access = GW_MLX5_MKEY_REMOTE_READ | GW_MLX5_MKEY_REMOTE_WRITE,
                                .length = WINDOW_SIZE,
                                .lkey = sn_mr_key(b.base),
                                .addr = iova(WINDOW_AT),
                                .start = iova(WINDOW_AT)};

    b.qp.last_wqe = b.qp.sq_pi;
    b.qp.sq_pi = (uint16_t)(b.qp.sq_pi + gw_mlx5_put_bind(&b.qp.sq, b.qp.sq_pi, &bind, GW_MLX5_SIGNALED));
    rig_record(&b.qp);
    rig_ring(&b.qp, 1, 1);
    runs(100000);
    b.window_key = sn_mr_key(b.window);
}

static const struct rig_link link_of = {.mtu = IBV_MTU_256,
                                        .sq_psn = 0x1000,
                                        .rq_psn = 0xfffff0,
                                        .timeout = 8,
                                        .retry_cnt = 1,
                                        .rnr_retry = 1,
                                        .min_rnr_timer = 1,
                                        .max_rd_atomic = 3,
                                        .max_dest_rd_atomic = 3,
                                        .access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                                                  IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC};

static void connects(void)
{
    require(rig_qp_state(&b.qp, IBV_QPS_RESET));
    b.logged = 0;
    require(rig_qp_up(&b.qp, PEER, PEER_QPN, &link_of));
    post_receives();
}

static enum ibv_qp_state state_of(struct ibv_qp_attr *a)
{
    require(!sn_qp_query(b.qp.qp, a));
    return a->qp_state;
}

static void set_up(uint8_t how)
{
    struct rig_cq_params cp = {.count = CQ, .size = 64};
    struct rig_qp_params qp = {.sq_wqebbs = SQ, .rq_wqes = RQ, .rq_stride = 64};
    struct sn_mr_init receives = {
        .length = RECV_LEN, .iova = iova(RECV_AT), .access = IBV_ACCESS_LOCAL_WRITE};
    struct sn_mr_init base = {.length = WINDOW_SIZE, .iova = iova(WINDOW_AT)};

    memset(&b, 0, sizeof(b));
    peer_begin(how & 1, b.shadow, SECRET, MEM);
    memset(mem(WINDOW_AT), 0x44, WINDOW_SIZE);
    require(!sn_pd_create(rig.node[0].nic, &b.pd) && !sn_pd_create(rig.node[0].nic, &b.foreign));
    for (unsigned i = 0; i < GRANTS; i++) {
        b.grant[i] = plan[i];
        give(&b.grant[i], fill_of(&plan[i], 0x11));
    }
    receives.addr = (uintptr_t)mem(RECV_AT);
    base.addr = (uintptr_t)mem(WINDOW_AT);
    base.access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND;
    require(!sn_mr_create(b.pd, &receives, &b.receives) && !sn_mr_create(b.pd, &base, &b.base));
    require(!sn_mw_create(b.pd, IBV_MW_TYPE_2, &b.window));
    b.window_key = sn_mr_key(b.window);
    require(rig_cq_open(&b.cq, &rig.node[0], &cp, cq_mem));
    qp.pd = b.pd;
    require(rig_qp_open(&b.qp, &rig.node[0], &b.cq, &b.cq, &qp, sq_mem, rq_mem));
    connects();
    if (how & 2) bind_window();
    check_memory();
}

static void program(struct stream *s)
{
    uint8_t what = take8(s);
    struct grant *g = &b.grant[what % GRANTS];

    if (g->foreign) return;
    if (g->mr)
        take_back(g);
    else
        give(g, fill_of(g, 0x33));
}

/* ---- the peer ------------------------------------------------------------------------------------------ */

/* A READ's answer holds no secret byte, and an atomic's no secret word. */
static void no_secret(const struct roce_hdr *h, const uint8_t *payload, uint32_t len)
{
    if ((h->opcode & ~ROCE_SERVICE_MASK) == ROCE_ATOMIC_ACK) require(h->orig != UINT64_C(0xa5a5a5a5a5a5a5a5));
    for (uint32_t k = 0; k < len; k++) require(payload[k] != SECRET);
}

/* Mostly what it was given, often beside that, sometimes anything. */
static void aim(struct stream *s, struct roce_hdr *h)
{
    uint8_t kind = take8(s), off = take8(s);
    const struct grant *g = &b.grant[kind % GRANTS];
    uint32_t at = g->at, len = g->len;

    h->rkey = g->key;
    if (kind % 8 == 7) {
        at = WINDOW_AT, len = WINDOW_SIZE;
        h->rkey = b.window_key;
    }
    if (kind % 16 == 5) h->rkey = sn_mr_key(b.receives);
    if (kind >= 240) h->rkey ^= 1u << off % 32;
    h->va = iova(at) + (kind & 16 ? off : off & ~7u) % (kind & 32 ? len : 16);
    h->dlen = take8(s);
    if (kind & 64) h->dlen = len - (uint32_t)(h->va - iova(at));
    if (kind >= 224) h->dlen += off;
}

static uint32_t payload_of(struct stream *s, const struct roce_hdr *h)
{
    uint32_t flags = roce_flags(h->opcode);

    if (!(flags & ROCE_F_PAYLOAD)) return 0;
    if (flags & (ROCE_F_FIRST | ROCE_F_MIDDLE)) return MTU;
    if (flags & ROCE_F_WRITE && flags & ROCE_F_ONLY) return h->dlen <= MTU ? h->dlen : MTU;
    return take8(s);
}

static void sends(struct roce_hdr *h, uint32_t len, uint8_t fill)
{
    if (peer_sends(b.qp.qpn, h, len, fill == SECRET ? 0 : fill)) b.log[b.logged++ % LOG] = *h;
}

static void new_request(struct stream *s, uint32_t epsn)
{
    uint8_t opcode = take8(s) % 0x19, how = take8(s);
    struct roce_hdr h = {.opcode = opcode, .ackreq = how & 1, .solicited = how & 2};

    if (opcode == 0x18) h.opcode = ROCE_MASKED_COMPARE_SWAP;
    if (roce_flags(h.opcode) & ROCE_F_RESPONSE) h.opcode = ROCE_READ_REQ;
    aim(s, &h);
    h.psn = epsn;
    if (how & 4) h.psn = (epsn + (uint32_t)(int32_t)(int8_t)take8(s)) & 0xffffff;
    h.compare = h.compare_mask = h.swap_mask = how >> 4;
    h.swap_or_add = how;
    if (roce_flags(h.opcode) & ROCE_F_ATOMIC && how & 8) h.va &= ~UINT64_C(7);
    h.imm_be = roce_flags(h.opcode) & ROCE_F_IETH ? gw_be32(h.rkey) : how;
    sends(&h, payload_of(s, &h), how);
}

/* It says that its payload is a list of pieces of its memory, or that the bytes are in their place: as
 * peers on the same host do. Here it cannot be checked, so nothing of it may be trusted. */
static void offers(struct stream *s, uint32_t epsn)
{
    static const uint8_t opcodes[] = {ROCE_SEND_ONLY, ROCE_WRITE_ONLY, ROCE_WRITE_FIRST, ROCE_WRITE_ONLY_IMM};
    struct roce_hdr h = {.opcode = opcodes[take8(s) % 4], .psn = epsn, .ackreq = true};
    uint32_t len = take8(s) % 5 * (uint32_t)sizeof(struct sn_rndv_piece);

    aim(s, &h);
    rig.net.inject_offers = true;
    sends(&h, len, take8(s) % 2);
    rig.net.inject_offers = false;
}

/* What it sent before: as it was, from a later packet on, or about something else. */
static void again(struct stream *s)
{
    uint8_t which = take8(s), how = take8(s);
    struct roce_hdr h;

    if (!b.logged) return;
    h = b.log[(b.logged - 1 - which % (b.logged < LOG ? b.logged : LOG)) % LOG];
    if (how & 1) {
        uint32_t k = 1 + which % 3;

        h.psn = (h.psn + k) & 0xffffff;
        h.va += k * MTU;
        h.dlen -= k * MTU < h.dlen ? k * MTU : h.dlen;
    }
    if (how & 2) h.rkey = b.grant[which % GRANTS].key;
    if (how & 4) aim(s, &h);
    if (how & 8) h.dlen += which;
    if (how & 16) h.va += which;
    if (how & 32) h.va = iova(take16(s) % MEM);
    sends(&h, payload_of(s, &h), how);
}

static void peer(struct stream *s)
{
    struct ibv_qp_attr a;

    if (state_of(&a) != IBV_QPS_RTS) connects();
    state_of(&a);
    for (uint8_t n = take8(s) % 4 + 1; n; n--) {
        uint8_t kind = take8(s) % 16;

        if (kind == 15)
            offers(s, a.rq_psn);
        else if (kind % 3)
            new_request(s, a.rq_psn);
        else
            again(s);
        if (n > 1 && take8(s) & 1) runs(2000);
        state_of(&a);
    }
}

/* ---- the end ------------------------------------------------------------------------------------------- */

/* A fresh connection answers a READ. */
static void still_works(void)
{
    struct grant *g = &b.grant[0];
    struct roce_hdr h = {.opcode = ROCE_READ_REQ, .psn = link_of.rq_psn, .dlen = 8};
    struct sn_counters before, after;

    if (g->mr) take_back(g);
    give(g, 0x77);
    require(rig_qp_state(&b.qp, IBV_QPS_RESET));
    runs(2000000);
    peer_hears(no_secret);
    connects();
    h.rkey = g->key;
    h.va = iova(g->at);
    sn_nic_counters(rig.node[0].nic, &before);
    sends(&h, 0, 0);
    runs(1000000);
    sn_nic_counters(rig.node[0].nic, &after);
    require(after.tx_packets == before.tx_packets + 1);
    peer_hears(no_secret);
}

static void tear_down(void)
{
    rig_qp_close(&b.qp);
    rig_cq_close(&b.cq);
    require(!sn_mr_destroy(b.window) && !sn_mr_destroy(b.base) && !sn_mr_destroy(b.receives));
    for (unsigned i = 0; i < GRANTS; i++) take_back(&b.grant[i]);
    require(!sn_pd_destroy(b.pd) && !sn_pd_destroy(b.foreign));
    peer_end();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct stream s = {data, size};

    set_up(take8(&s));
    for (int step = 0; s.left && step < STEPS; step++) {
        if (take8(&s) % 8 == 0)
            program(&s);
        else
            peer(&s);
        runs(take8(&s) & 1 ? 3000 : 300000);
        peer_hears(no_secret);
        check_memory();
    }
    still_works();
    check_memory();
    tear_down();
    return 0;
}
