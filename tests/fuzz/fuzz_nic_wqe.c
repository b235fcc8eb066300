/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes in a send queue and a receive queue of the software NIC, any counts in the doorbell records, any
 * words in the doorbell page. The queue pair is connected to itself. Flags give control segments their right
 * index and queue pair, and put the right key where one would stand.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/softnic/app.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { REGION = 8192, MARGIN = 4096, WQEBBS = 8, RECVS = 4 };

static uint8_t memory[REGION + 2 * MARGIN];

static void require(bool ok)
{
    if (!ok) abort();
}

/* Keys and addresses that work, in the units that are flagged. */
static void help(struct app_qp *q, uint32_t key, uint8_t index_flags, uint16_t key_flags)
{
    uint8_t *sq = q->sq_buf;

    for (uint32_t i = 0; i < WQEBBS; i++) {
        uint32_t ctrl[2] = {gw_be32(i << 8 | sq[i * 64 + 3]),
                            gw_be32(q->sq.qpn << 8 | (sq[i * 64 + 7] & 63))};

        if (index_flags >> i & 1) memcpy(sq + i * 64, ctrl, 8);
    }
    for (uint32_t i = 0; i < WQEBBS * 2; i++) {
        uint8_t *unit = sq + (i * 2 + 1) * 16; /* the second and fourth of each block */
        struct gw_u128 seg = i & 1 ? gw_mlx5_data(0x10000 + unit[0] * 8, 1 + unit[1] * 8, key)
                                   : gw_mlx5_raddr(0x10000 + unit[0] * 8, key);

        if (key_flags >> i & 1) memcpy(unit, &seg, 16);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct world w;
    struct world_options o = {.seed = 3, .only = 1};
    struct app_qp_options qo = {.uidx = 1, .sq_wqebbs = WQEBBS, .rq_wqes = RECVS, .max_sge = 4};
    struct sn_mr_init mr = {.addr = (uintptr_t)memory + MARGIN, .length = REGION, .iova = 0x10000};
    struct sn_pd *pd;
    struct sn_uar *uar;
    struct sn_mr *m;
    struct app_cq cq;
    struct app_qp q;
    struct gw_mlx5_wc wc;
    size_t room = WQEBBS * 64, rest;

    if (size < 12) return 0;
    o.hostile = data[0] & 1;
    qo.sig_all = data[0] & 2;
    qo.scatter_recv = qo.scatter_req = 32 * (data[0] >> 2 & 1);
    memset(memory, 0x5c, sizeof(memory));
    world_up(&w, &o);
    require(!sn_pd_create(w.nics[0].nic, &pd));
    require(!sn_uar_create(w.nics[0].nic, &uar));
    mr.access =
        IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
    require(!sn_mr_create(pd, &mr, &m));
    app_cq_up(&cq, &w.nics[0], uar, 16, data[0] & 8 ? 128 : 64);
    app_qp_up(&q, &w.nics[0], pd, uar, &cq, &cq, &qo);
    app_connect(&q, &q, &app_connect_default);

    rest = size - 12;
    memcpy(q.sq_buf, data + 12, rest < room ? rest : room);
    if (rest > room) {
        size_t n = rest - room, rq = (size_t)RECVS * q.rq.stride;

        memcpy(q.rq_buf, data + 12 + room, n < rq ? n : rq);
    }
    help(&q, sn_mr_key(m), data[1], (uint16_t)(data[2] << 8 | data[3]));
    q.dbrec[GW_MLX5_DBREC_RECV] = gw_mlx5_dbrec_be(data[4] & 0x80 ? data[4] : data[4] & 3);
    for (int round = 0; round < 2; round++) {
        q.dbrec[GW_MLX5_DBREC_SEND] = gw_mlx5_dbrec_be(data[5 + round]);
        app_ring(&q, data[7] & 1);
        if (data[7] & 2) memcpy((uint8_t *)sn_uar_page(uar) + SN_UAR_CQ, data + 4, 8);
        if (data[7] & 4) memcpy((uint8_t *)sn_uar_page(uar) + SN_UAR_BF + 512, data + 3, 8);
        for (int i = 0; i < 40; i++) {
            world_run(&w, 0);
            if (!world_advance(&w, 10000000)) break;
            if (data[7] & 8)
                while (app_poll(&cq, &wc, NULL)) {
                }
        }
    }
    for (int i = 0; i < MARGIN; i++) require(memory[i] == 0x5c && memory[MARGIN + REGION + i] == 0x5c);
    app_qp_down(&q);
    app_cq_down(&cq);
    require(!sn_mr_destroy(m) && !sn_uar_destroy(uar) && !sn_pd_destroy(pd));
    world_down(&w);
    return 0;
}
