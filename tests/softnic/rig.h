/* SPDX-License-Identifier: Apache-2.0 */
/* rig.h: two connected queue pairs on two NICs, with memory that both may do everything to. For cmocka tests.
 */
#ifndef TESTS_SOFTNIC_RIG_H
#define TESTS_SOFTNIC_RIG_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "src/roce/hdr.h"
#include "src/roce/icrc.h"
#include "src/roce/segment.h"
#include "tests/softnic/app.h"

enum { RIG_MEM = 64 << 10, RIG_IMM = 0x12345678, MS = 1000000 };

struct end {
    struct sn_pd *pd;
    struct sn_uar *uar;
    struct sn_mr *mr;
    struct app_cq cq;
    struct app_qp qp;
    uint8_t *mem;
    uint32_t key;
};

struct rig {
    struct world w;
    struct end a, b;
};

static const int rig_access =
    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;

static inline void end_up(struct rig *r, struct end *e, unsigned nic, enum ibv_qp_type type)
{
    struct world_nic *n = &r->w.nics[nic];
    struct app_qp_options o = {.type = type, .uidx = 7 + nic};
    struct sn_mr_init mr = {.length = RIG_MEM, .access = (uint32_t)rig_access};

    assert_int_equal(sn_pd_create(n->nic, &e->pd), 0);
    assert_int_equal(sn_uar_create(n->nic, &e->uar), 0);
    e->mem = calloc(1, RIG_MEM);
    assert_non_null(e->mem);
    mr.addr = mr.iova = (uintptr_t)e->mem;
    assert_int_equal(sn_mr_create(e->pd, &mr, &e->mr), 0);
    e->key = sn_mr_key(e->mr);
    app_cq_up(&e->cq, n, e->uar, 64, 64);
    app_qp_up(&e->qp, n, e->pd, e->uar, &e->cq, &e->cq, &o);
}

static inline void rig_up_as(struct rig *r, const struct world_options *o, enum ibv_qp_type type)
{
    static const struct world_options plain = {.seed = 1};

    memset(r, 0, sizeof(*r));
    world_up(&r->w, o ? o : &plain);
    r->w.faults.delay_ns = 1000;
    end_up(r, &r->a, 0, type);
    end_up(r, &r->b, 1, type);
}

static inline void rig_up(struct rig *r, const struct world_options *o)
{
    rig_up_as(r, o, IBV_QPT_RC);
}

static inline void end_down(struct end *e)
{
    app_qp_down(&e->qp);
    app_cq_down(&e->cq);
    if (e->mr) assert_int_equal(sn_mr_destroy(e->mr), 0);
    assert_int_equal(sn_uar_destroy(e->uar), 0);
    assert_int_equal(sn_pd_destroy(e->pd), 0);
    free(e->mem);
}

static inline void rig_down(struct rig *r)
{
    end_down(&r->a);
    end_down(&r->b);
    world_down(&r->w);
}

static inline void rig_connect(struct rig *r)
{
    app_connect(&r->a.qp, &r->b.qp, &app_connect_default);
}

/* Random bytes at both ends, the same each time and no two alike. */
static inline void rig_fill(struct rig *r)
{
    rnd_bytes(&(struct rnd){77}, r->a.mem, RIG_MEM);
    rnd_bytes(&(struct rnd){78}, r->b.mem, RIG_MEM);
}

/* One more region of that end's. */
static inline struct sn_mr *end_region(struct end *e, void *mem, uint64_t length)
{
    struct sn_mr_init init = {.length = length, .access = (uint32_t)rig_access};
    struct sn_mr *mr;

    init.addr = init.iova = (uintptr_t)mem;
    assert_int_equal(sn_mr_create(e->pd, &init, &mr), 0);
    return mr;
}

static inline struct gw_mlx5_sge sge_of(struct end *e, uint32_t at, uint32_t len)
{
    struct gw_mlx5_sge s = {(uintptr_t)e->mem + at, len, e->key};
    return s;
}

/* A request of a to b's memory, or a SEND. */
static inline uint32_t post(struct rig *r, uint8_t opcode, uint32_t from, uint32_t len, uint32_t to)
{
    struct gw_mlx5_sge s = sge_of(&r->a, from, len);
    struct gw_mlx5_wr wr = {.opcode = opcode, .flags = GW_MLX5_SIGNALED, .num_sge = len != 0, .sge = &s};

    wr.raddr = (uintptr_t)r->b.mem + to;
    wr.rkey = r->b.key;
    wr.swap_or_add = 1;
    return app_post(&r->a.qp, &wr);
}

/* The same from anywhere to anywhere, with immediate data where there are any. */
static inline void post_between(struct rig *r, uint8_t opcode, struct gw_mlx5_sge from, uint64_t raddr,
                                uint32_t rkey)
{
    struct gw_mlx5_wr wr = {.opcode = opcode, .flags = GW_MLX5_SIGNALED, .num_sge = 1, .sge = &from};

    wr.raddr = raddr;
    wr.rkey = rkey;
    wr.imm_be = RIG_IMM;
    app_post(&r->a.qp, &wr);
}

static inline void post_recv(struct end *e, uint32_t at, uint32_t len)
{
    struct gw_mlx5_sge s = sge_of(e, at, len);

    app_recv(&e->qp, &s, 1);
}

static inline struct gw_mlx5_wc expect(struct end *e, uint8_t opcode)
{
    struct gw_mlx5_wc wc;

    if (!app_poll(&e->cq, &wc, NULL)) fail_msg("no completion");
    if (gw_mlx5_wc_is_error(&wc) && wc.opcode != opcode)
        fail_msg("error completion, syndrome 0x%02x", wc.syndrome);
    assert_int_equal(wc.opcode, opcode);
    assert_int_equal(wc.qpn, e->qp.sq.qpn);
    assert_int_equal(wc.uidx, e->qp.uidx);
    return wc;
}

static inline void expect_error(struct end *e, uint8_t opcode, uint8_t syndrome)
{
    struct gw_mlx5_wc wc = expect(e, opcode);

    if (wc.syndrome != syndrome) fail_msg("syndrome 0x%02x instead of 0x%02x", wc.syndrome, syndrome);
}

static inline void expect_nothing(struct end *e)
{
    struct gw_mlx5_wc wc;

    if (app_poll(&e->cq, &wc, NULL))
        fail_msg("a completion, opcode %u syndrome 0x%02x", wc.opcode, wc.syndrome);
}

static inline void expect_report(struct rig *r, const char *words)
{
    if (!strstr(r->w.report, words)) fail_msg("report '%s' has no '%s'", r->w.report, words);
}

static inline struct sn_counters counters(struct rig *r, unsigned nic)
{
    struct sn_counters c;

    sn_nic_counters(r->w.nics[nic].nic, &c);
    return c;
}

/* A frame to b from that port of a's address, right ICRC and all, but with any headers and payload. */
static inline void forge_from(struct rig *r, uint16_t sport, struct roce_hdr *h, const void *payload,
                              uint32_t len)
{
    struct roce_path path = {.sport = sport, .dport = ROCE_UDP_PORT, .frag_off = ROCE_IP_DF};
    uint8_t frame[SN_FRAME_MAX];
    uint32_t at;

    memcpy(path.src, r->w.nics[0].gid + 12, 4);
    memcpy(path.dst, r->w.nics[1].gid + 12, 4);
    h->pkey = h->pkey ? h->pkey : ROCE_DEFAULT_PKEY;
    h->dqpn = h->dqpn ? h->dqpn : r->b.qp.sq.qpn;
    h->pad = roce_pad(len);
    at = roce_pack(frame, h);
    if (len) memcpy(frame + at, payload, len);
    memset(frame + at + len, 0, h->pad);
    at += len + h->pad + ROCE_ICRC_LEN;
    roce_icrc_end(roce_icrc(&path, frame, at), frame + at - ROCE_ICRC_LEN);
    world_inject(&r->w, 1, NULL, sport, frame, at);
}

/* As if from a. */
static inline void forge_unseen(struct rig *r, struct roce_hdr *h, const void *payload, uint32_t len)
{
    forge_from(r, 0xc000, h, payload, len);
}

static inline void forge(struct rig *r, struct roce_hdr *h, const void *payload, uint32_t len)
{
    forge_unseen(r, h, payload, len);
    world_run(&r->w, 1);
}

#endif
