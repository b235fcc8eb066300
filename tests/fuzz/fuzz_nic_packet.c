/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any packets to a connected queue pair of the software NIC. The input is a row of records; each becomes a
 * frame, whose ICRC is made right and, as a flag says, whose queue pair, PSN, key and address too, so that
 * the fuzzer need not find those first; or has the queue pair post a request, so that answers have something
 * to answer. Nothing a peer sends may crash, or write outside the region it was given.
 */
#include <stdlib.h>
#include <string.h>

#include "src/roce/hdr.h"
#include "src/roce/icrc.h"
#include "tests/softnic/app.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { REGION = 8192, MARGIN = 4096, QP_FLAG = 1, PSN_FLAG = 2, KEY_FLAG = 4, ICRC_FLAG = 8, POST_FLAG = 16 };

static uint8_t memory[REGION + 2 * MARGIN];

struct target {
    struct world w;
    struct sn_pd *pd;
    struct sn_uar *uar;
    struct sn_mr *mr;
    struct app_cq cq;
    struct app_qp qp, peer;
    uint32_t key;
};

static void require(bool ok)
{
    if (!ok) abort();
}

static void up(struct target *t, uint8_t choice)
{
    struct world_options o = {.seed = choice, .hostile = choice & 1, .only = 2};
    struct app_qp_options q = {
        .uidx = 1, .scatter_recv = choice & 2 ? 32 : 0, .sig_all = choice & 4, .scatter_req = 32};
    struct sn_mr_init mr = {.addr = (uintptr_t)memory + MARGIN, .length = REGION, .iova = 0x10000};
    struct app_connect c = app_connect_default;

    world_up(&t->w, &o);
    t->w.cut = true; /* what it sends goes nowhere */
    require(!sn_pd_create(t->w.nics[1].nic, &t->pd) && !sn_uar_create(t->w.nics[1].nic, &t->uar));
    mr.access =
        IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
    require(!sn_mr_create(t->pd, &mr, &t->mr));
    t->key = sn_mr_key(t->mr);
    app_cq_up(&t->cq, &t->w.nics[1], t->uar, 64, choice & 8 ? 128 : 64);
    app_qp_up(&t->qp, &t->w.nics[1], t->pd, t->uar, &t->cq, &t->cq, &q);
    t->peer.n = &t->w.nics[0];
    t->peer.sq.qpn = 0x000123;
    c.mtu = IBV_MTU_256;
    c.psn_there = 0xfffff0;
    c.psn_here = 0xffffff;
    require(!app_to_init(&t->qp) && !app_to_rtr(&t->qp, &t->peer, &c) && !app_to_rts(&t->qp, &c));
}

static void down(struct target *t)
{
    app_qp_down(&t->qp);
    app_cq_down(&t->cq);
    require(!sn_mr_destroy(t->mr) && !sn_uar_destroy(t->uar) && !sn_pd_destroy(t->pd));
    world_down(&t->w);
}

static void post(struct target *t, const uint8_t *rec)
{
    static const uint8_t ops[] = {GW_MLX5_SEND, GW_MLX5_WRITE, GW_MLX5_WRITE_IMM, GW_MLX5_READ,
                                  GW_MLX5_ATOMIC_CS};
    struct gw_mlx5_sge s = {0x10000 + rec[2] * 8, rec[3] * 8u, t->key};
    struct gw_mlx5_wr wr = {.flags = GW_MLX5_SIGNALED, .num_sge = 1, .sge = &s, .raddr = 8};

    wr.opcode = ops[rec[1] % sizeof(ops)];
    if (wr.opcode == GW_MLX5_ATOMIC_CS) s.length = 8;
    app_recv(&t->qp, &s, 1);
    if (t->qp.sq_pi < 60) app_post(&t->qp, &wr);
}

/* rec: flags, what PSN and address are near to, then the packet. */
static void packet(struct target *t, const uint8_t *rec, uint32_t len)
{
    struct roce_path path = {.sport = 0xc000, .dport = ROCE_UDP_PORT, .frag_off = ROCE_IP_DF};
    uint8_t frame[1024] = {0}, flags = rec[0];
    struct ibv_qp_attr a;
    uint32_t psn;

    memcpy(frame, rec + 3, len);
    len = len < 16 ? 16 : (len + 3) & ~3u;
    sn_qp_query(t->qp.qp, &a);
    if (flags & QP_FLAG) {
        frame[1] &= 0xf0;
        frame[2] = frame[3] = 0xff;
        frame[5] = (uint8_t)(t->qp.sq.qpn >> 16);
        frame[6] = (uint8_t)(t->qp.sq.qpn >> 8);
        frame[7] = (uint8_t)t->qp.sq.qpn;
    }
    if (flags & PSN_FLAG) {
        psn = (roce_flags(frame[0]) & ROCE_F_RESPONSE ? a.sq_psn - 1 : a.rq_psn) +
              (uint32_t)(int8_t)rec[1] / 16;
        frame[9] = (uint8_t)(psn >> 16);
        frame[10] = (uint8_t)(psn >> 8);
        frame[11] = (uint8_t)psn;
    }
    if (flags & KEY_FLAG) {
        uint64_t va = gw_be64(0x10000 + (uint64_t)rec[2] * 32);
        uint32_t key = gw_be32(t->key);

        memcpy(frame + 12, &va, 8);
        memcpy(frame + 20, &key, 4);
    }
    memcpy(path.src, t->w.nics[0].gid + 12, 4);
    memcpy(path.dst, t->w.nics[1].gid + 12, 4);
    if (flags & ICRC_FLAG) roce_icrc_end(roce_icrc(&path, frame, len), frame + len - 4);
    world_inject(&t->w, 1, NULL, 0xc000, frame, len);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct target t;
    struct gw_mlx5_wc wc;
    size_t at = 1;

    if (size < 8) return 0;
    memset(&t, 0, sizeof(t));
    memset(memory, 0x5c, sizeof(memory));
    up(&t, data[0]);
    while (at + 5 < size) {
        uint32_t len = data[at] * 2u + 3, rest = (uint32_t)(size - at - 1);

        if (len > rest) len = rest;
        if (len < 4) break;
        if (data[at + 1] & POST_FLAG)
            post(&t, data + at + 1);
        else
            packet(&t, data + at + 1, len - 3);
        at += 1 + len;
        world_run(&t.w, 1);
        world_advance(&t.w, 20000);
        while (app_poll(&t.cq, &wc, NULL)) {
        }
    }
    for (int i = 0; i < 4 && world_advance(&t.w, UINT64_C(10000000)); i++) world_run(&t.w, 1);
    for (int i = 0; i < MARGIN; i++) require(memory[i] == 0x5c && memory[MARGIN + REGION + i] == 0x5c);
    down(&t);
    return 0;
}
