/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gw_post_send, gw_post_recv and gw_poll_cq against ibv_post_send, ibv_post_recv and ibv_poll_cq: the same
 * random lists of requests through a queue pair of each must return the same, complete the same and leave the
 * same bytes behind. With the argument "ud" the lists are of datagrams.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/rnd.h"
#include "tests/verbs/pair.h"
#include "tests/verbs/theirs.h"

#define HALF  65536u
#define SLOT  2048u
#define BATCH 8

static struct gw_device *dev;
static struct pair ours;

static bool ud;
static struct gw_device_info info;

static void must(int rc, const char *what)
{
    if (rc) fail_msg("%s: %d, %s", what, rc, gw_last_error());
}

/* A batch: requests in terms of offsets, to be filled in for either of the two. */
struct batch {
    int n, recvs;
    bool broken; /* contains something that ends in an error completion */
    int sure;    /* of the receives: datagrams come for so many, whatever becomes of those behind */
    struct ibv_send_wr wr[BATCH];
    struct ibv_recv_wr recv[BATCH];
    struct ibv_sge sge[BATCH][4], recv_sge[BATCH][4];
};

/* Cuts a slot into one to four pieces, some of them empty. */
static int pieces(struct rnd *r, struct ibv_sge *sge, uint64_t off, uint32_t len)
{
    int n = 1 + (int)rnd_below(r, 4);

    for (int i = 0; i < n; i++) {
        uint32_t part = i == n - 1 ? len : rnd_below(r, 3) ? rnd_below(r, len + 1) : 0;

        sge[i].addr = off;
        sge[i].length = part;
        off += part;
        len -= part;
    }
    return n;
}

static void add_recv(struct rnd *r, struct batch *b, int slot, uint32_t len)
{
    struct ibv_recv_wr *w = &b->recv[b->recvs];
    uint32_t room = len + rnd_below(r, 64);

    if (!rnd_below(r, 250) && len) room = len - 1, b->broken = true; /* too short */
    w->wr_id = rnd64(r);
    w->sg_list = b->recv_sge[b->recvs];
    w->num_sge = pieces(r, w->sg_list, HALF + 32768 + (uint64_t)slot * SLOT, room);
    if (b->recvs) w[-1].next = w;
    b->recvs++;
}

/* To the peer, now and then with a wrong Q_Key (which no receive waits for), or what ends the sender. */
static void add_datagram(struct rnd *r, struct batch *b, int i, uint32_t len, bool *ended)
{
    static const enum ibv_wr_opcode wrong[] = {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ,
                                               IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_SEND_WITH_INV};
    struct ibv_send_wr *w = &b->wr[i];
    uint32_t what = rnd_below(r, 1000);

    w->wr.ud.remote_qkey = PAIR_QKEY ^ !rnd_below(r, 10);
    if (what < 4) {
        w->opcode = wrong[what];
    } else if (what < 7) {
        w->num_sge = 1;
        w->sg_list->length = info.mtu + 1;
        w->send_flags &= ~(unsigned)IBV_SEND_INLINE;
    }
    *ended = *ended || what < 7;
    b->broken = b->broken || *ended;
    if (w->wr.ud.remote_qkey == PAIR_QKEY) add_recv(r, b, i, GW_GRH + len);
    if (!*ended) b->sure = b->recvs;
}

static void add_remote(struct rnd *r, struct batch *b, int i, uint32_t len)
{
    struct ibv_send_wr *w = &b->wr[i];

    w->wr.rdma.remote_addr = HALF + (w->opcode == IBV_WR_RDMA_READ ? 16384u : 0u) + (uint64_t)i * SLOT;
    if (w->opcode == IBV_WR_SEND || w->opcode == IBV_WR_SEND_WITH_IMM) add_recv(r, b, i, len);
    if (w->opcode == IBV_WR_RDMA_WRITE_WITH_IMM) add_recv(r, b, i, 0);
    if (rnd_below(r, 500)) return;
    b->broken = true; /* a wrong address; READ and WRITE only, a SEND has none */
    w->wr.rdma.remote_addr += 1u << 30;
}

static void make_batch(struct rnd *r, struct batch *b)
{
    static const enum ibv_wr_opcode op[] = {IBV_WR_SEND, IBV_WR_SEND_WITH_IMM, IBV_WR_RDMA_WRITE,
                                            IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_RDMA_READ};
    bool ended = false;

    memset(b, 0, sizeof(*b));
    b->n = 1 + (int)rnd_below(r, BATCH);
    for (int i = 0; i < b->n; i++) {
        struct ibv_send_wr *w = &b->wr[i];
        bool inl = !rnd_below(r, 3);
        uint32_t len = rnd_below(r, 4) ? rnd_below(r, inl ? 257 : 1900) : rnd_below(r, 2);

        w->opcode = op[rnd_below(r, ud ? 2 : 5)];
        w->wr_id = rnd64(r);
        w->sg_list = b->sge[i];
        w->next = i + 1 < b->n ? w + 1 : NULL;
        w->send_flags = (rnd_below(r, 2) || i + 1 == b->n ? IBV_SEND_SIGNALED : 0) |
                        (rnd_below(r, 4) ? 0 : IBV_SEND_FENCE) | (rnd_below(r, 4) ? 0 : IBV_SEND_SOLICITED);
        if (inl && w->opcode != IBV_WR_RDMA_READ && len <= 256) w->send_flags |= IBV_SEND_INLINE;
        w->imm_data = (uint32_t)rnd64(r);
        w->num_sge =
            pieces(r, w->sg_list,
                   w->opcode == IBV_WR_RDMA_READ ? 32768 + (uint64_t)i * SLOT : (uint64_t)i * SLOT, len);
        if (ud)
            add_datagram(r, b, i, len, &ended);
        else
            add_remote(r, b, i, len);
    }
}

/* Turns offsets into addresses and fills in the keys, and where datagrams go. */
static void place(struct batch *b, uint64_t base, uint32_t lkey, uint32_t rkey, struct ibv_ah *ah,
                  uint32_t qpn)
{
    for (int i = 0; i < b->n; i++) {
        b->wr[i].sg_list = b->sge[i];
        if (b->wr[i].next) b->wr[i].next = &b->wr[i + 1];
        if (ud) {
            b->wr[i].wr.ud.ah = ah;
            b->wr[i].wr.ud.remote_qpn = qpn;
        } else {
            b->wr[i].wr.rdma.remote_addr += base;
            b->wr[i].wr.rdma.rkey = rkey;
        }
        for (int k = 0; k < 4; k++) b->sge[i][k].addr += base, b->sge[i][k].lkey = lkey;
    }
    for (int i = 0; i < b->recvs; i++) {
        b->recv[i].sg_list = b->recv_sge[i];
        if (b->recv[i].next) b->recv[i].next = &b->recv[i + 1];
        for (int k = 0; k < 4; k++) b->recv_sge[i][k].addr += base, b->recv_sge[i][k].lkey = lkey;
    }
}

struct outcome {
    int n[2];
    struct ibv_wc wc[2][2 * BATCH];
};

static int poll_one(bool gw, int side, struct ibv_wc *wc)
{
    return gw ? gw_poll_cq(gw_cq_handle(ours.cq[side]), 1, wc) : ibv_poll_cq(theirs.cq[side], 1, wc);
}

/* Takes what is there; false when nothing was. */
static bool take(bool gw, int s, struct outcome *out)
{
    int n = out->n[s] < 2 * BATCH ? poll_one(gw, s, &out->wc[s][out->n[s]]) : 0;

    out->n[s] += n > 0 ? n : 0;
    return n > 0;
}

/*
 * Collects all completions of a list. One with an error in it ends when its last request has completed,
 * flushed or not; the peer is then taken down, so that every receive completes as well, whatever became of
 * it.
 */
static void collect(bool gw, const struct batch *b, int sends, struct outcome *out)
{
    uint64_t deadline = gw_deadline(60000000000u);
    bool last = false;

    memset(out, 0, sizeof(*out));
    while (!last && gw_clock_ns() < deadline) {
        take(gw, 1, out);
        if (!take(gw, 0, out)) continue;
        last = b->broken ? out->wc[0][out->n[0] - 1].wr_id == b->wr[b->n - 1].wr_id : out->n[0] == sends;
    }
    while (out->n[1] < b->sure && gw_clock_ns() < deadline) take(gw, 1, out);
    if (b->broken) {
        struct ibv_qp_attr a = {.qp_state = IBV_QPS_ERR};

        must(gw ? gw_qp_abort(ours.qp[1]) : ibv_modify_qp(theirs.qp[1], &a, IBV_QP_STATE), "ERR");
    }
    while (out->n[1] < b->recvs && gw_clock_ns() < deadline) take(gw, 1, out);
}

static void run(bool gw, const struct batch *b, struct outcome *out)
{
    struct batch mine = *b;
    struct ibv_send_wr *bad_send = NULL;
    struct ibv_recv_wr *bad_recv = NULL;
    int sends = 0, err = 0;

    if (gw)
        place(&mine, ours.base, ours.mr->lkey, ours.mr->rkey, ud ? gw_ibv_ah(&ours.ah->handle) : NULL,
              gw_qp_num(ours.qp[1]));
    else
        place(&mine, (uint64_t)(uintptr_t)theirs.mem, theirs.mr->lkey, theirs.mr->rkey, theirs.ah,
              theirs.qp[1]->qp_num);
    for (int i = 0; i < b->n; i++) sends += (b->wr[i].send_flags & IBV_SEND_SIGNALED) != 0;
    if (b->recvs)
        err = gw ? gw_post_recv(gw_qp_handle(ours.qp[1]), mine.recv, &bad_recv)
                 : ibv_post_recv(theirs.qp[1], mine.recv, &bad_recv);
    assert_int_equal(err, 0);
    err = gw ? gw_post_send(gw_qp_handle(ours.qp[0]), mine.wr, &bad_send)
             : ibv_post_send(theirs.qp[0], mine.wr, &bad_send);
    assert_int_equal(err, 0);
    collect(gw, b, sends, out);
}

static void compare(uint32_t round, const struct batch *b, const struct outcome *x, const struct outcome *y)
{
    for (int s = 0; s < 2; s++) {
        if (x->n[s] != y->n[s])
            fail_msg("batch %u: side %d has %d completions with gw_, %d with ibv_", round, s, x->n[s],
                     y->n[s]);
        for (int i = 0; i < x->n[s]; i++) {
            const struct ibv_wc *p = &x->wc[s][i], *q = &y->wc[s][i];

            assert_int_equal(p->status, q->status);
            assert_int_equal(p->wr_id, q->wr_id);
            if (p->status) continue; /* nothing else means anything then */
            /* Not the flag that a GRH came along: where libmlx5 let the NIC put the payload into the
             * completion, its bytes lie where that flag would. */
            if (p->opcode != q->opcode || (p->wc_flags ^ q->wc_flags) & (ud ? ~0u : ~(unsigned)IBV_WC_GRH))
                fail_msg("list %u, side %d, completion %d: opcode %d, flags %x with gw_, %d, %x with ibv_",
                         round, s, i, p->opcode, p->wc_flags, q->opcode, q->wc_flags);
            if (s == 1 || p->opcode == IBV_WC_RDMA_READ) assert_int_equal(p->byte_len, q->byte_len);
            if (s == 1 && p->wc_flags & IBV_WC_WITH_IMM) assert_int_equal(p->imm_data, q->imm_data);
            assert_int_equal(p->qp_num == gw_qp_num(ours.qp[s]), 1);
            if (!ud || s == 0) continue;
            assert_int_equal(p->src_qp, gw_qp_num(ours.qp[0]));
            assert_int_equal(q->src_qp, theirs.qp[0]->qp_num);
        }
    }
    if (!b->broken && memcmp((void *)(uintptr_t)ours.base, theirs.mem, 2 * HALF)) {
        for (uint32_t i = 0; i < 2 * HALF; i++)
            if (((uint8_t *)(uintptr_t)ours.base)[i] != theirs.mem[i])
                fail_msg("batch %u: byte %u differs", round, i);
    }
}

static void reconnect(void)
{
    struct ibv_wc wc[16];

    for (int i = 0; i < 2; i++) must(gw_qp_reset(ours.qp[i], 0, gw_deadline(60000000000u)), "gw_qp_reset");
    pair_connect(&ours, &(struct gw_connect_opts){.mtu = 1024, .rnr_retry = 1, .min_rnr_timer = 1});
    theirs_connect();
    for (int i = 0; i < 2; i++)
        while (ibv_poll_cq(theirs.cq[i], 16, wc) > 0) continue;
    memcpy(theirs.mem, (void *)(uintptr_t)ours.base, 2 * HALF);
}

static void test_random_lists(void **state)
{
    const uint64_t seed = 20240611;
    struct rnd r = {seed};
    uint32_t broken = 0, requests = 0;

    (void)state;
    printf("seed %llu\n", (unsigned long long)seed);
    rnd_bytes(&r, theirs.mem, 2 * HALF);
    memcpy((void *)(uintptr_t)ours.base, theirs.mem, 2 * HALF);
    for (uint32_t round = 0; round < 2500; round++) {
        struct outcome x, y;
        struct batch b;

        make_batch(&r, &b);
        run(true, &b, &x);
        run(false, &b, &y);
        compare(round, &b, &x, &y);
        requests += (uint32_t)b.n;
        if (!b.broken) continue;
        broken++;
        if (broken > 25) break; /* each of these takes its time */
        reconnect();
    }
    printf("%u requests, %u lists with an error in them\n", requests, broken);
    assert_true(broken > 10);
}

static int open_all(void **state)
{
    struct pair_opts o = {.half = HALF,
                          .max_inline = 256,
                          .type = ud ? GW_QP_UD : GW_QP_RC,
                          .connect = {.mtu = 1024, .rnr_retry = 1, .min_rnr_timer = 1}};

    (void)state;
    if (gw_device_open("softnic", NULL, &dev)) {
        fprintf(stderr, "%s\n", gw_last_error());
        return -1;
    }
    gw_device_query(dev, &info);
    pair_make(&ours, dev, &o);
    theirs_make(dev, 2 * HALF, ud ? IBV_QPT_UD : IBV_QPT_RC);
    return 0;
}

static int close_all(void **state)
{
    (void)state;
    theirs_free();
    pair_free(&ours);
    return gw_device_close(dev);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random_lists)};

    ud = argc > 1 && !strcmp(argv[1], "ud");
    setenv("GPUWIRE_NIC", "addr=127.0.0.1,hostile=1", 0);
    return cmocka_run_group_tests(tests, open_all, close_all);
}
