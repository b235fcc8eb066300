/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gw_post_send, gw_post_recv and gw_poll_cq, called by a kernel, against ibv_post_send, ibv_post_recv and
 * ibv_poll_cq. The same random lists of requests go through a queue pair of each. They must return the same,
 * complete the same and leave the same bytes. Both have room for as many requests as they were made
 * for, and refuse more in the same way. With the argument "ud" the lists are of datagrams.
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

#include "tests/verbs/device.h"
#include "tests/verbs/lists.h"
#include "tests/verbs/pair.h"
#include "tests/verbs/theirs.h"

GW_KERNEL_DECLARE(lists_kernel);

#define LIMIT_NS 60000000000u
#define BLOCK    32

static struct pair ours;
static struct gw_mem shared; /* what the kernel reads and writes */

static bool ud;
static uint32_t mtu; /* of datagrams; else 0 */

struct shared {
    struct batch batch;
    struct outcome out;
};

static void must(int rc, const char *what)
{
    if (rc) fail_msg("%s: %d, %s", what, rc, gw_last_error());
}

/* ---- posting, and taking in ---------------------------------------------------------------------------- */

static void forget(struct outcome *o)
{
    o->ret[0] = o->ret[1] = o->lists = o->n[0] = o->n[1] = 0;
    o->bad[0] = o->bad[1] = -1;
}

static void by_kernel(bool post, int times, const struct goal *g, uint32_t who)
{
    struct shared *seen = shared.dev;
    struct lists_args a = {.batch = post ? &seen->batch : NULL,
                           .who = who % test_block_dim(exec, BLOCK),
                           .times = times,
                           .goal = *g,
                           .limit_ns = LIMIT_NS,
                           .out = &seen->out};

    for (int i = 0; i < 2; i++) {
        a.qp[i] = gw_qp_handle(ours.qp[i]);
        a.cq[i] = gw_cq_handle(ours.cq[i]);
    }
    must(gw_launch(exec, &lists_kernel, 1, BLOCK, &a), "gw_launch");
    must(gw_exec_sync(exec, gw_deadline(2 * (uint64_t)LIMIT_NS)), "gw_exec_sync");
}

static bool take(struct outcome *o, int side)
{
    int n = o->n[side] < OUTCOME_WCS ? ibv_poll_cq(theirs.cq[side], 1, &o->wc[side][o->n[side]]) : 0;

    assert_true(n >= 0);
    o->n[side] += n;
    return n;
}

/* The kernel's text, with libibverbs. */
static void by_host(struct batch *b, int times, const struct goal *g, struct outcome *o)
{
    uint64_t deadline = gw_deadline(LIMIT_NS);
    struct ibv_send_wr *bad_send = NULL;
    struct ibv_recv_wr *bad_recv = NULL;

    if (b && b->recvs + b->refused) o->ret[1] = ibv_post_recv(theirs.qp[1], b->recv, &bad_recv);
    if (bad_recv) o->bad[1] = bad_recv - b->recv;
    while (b && o->lists < times && !o->ret[0]) {
        o->ret[0] = ibv_post_send(theirs.qp[0], b->wr, &bad_send);
        o->lists += !o->ret[0];
    }
    if (bad_send) o->bad[0] = bad_send - b->wr;
    while (!lists_sent(o, g) && gw_clock_ns() < deadline) {
        take(o, 1);
        take(o, 0);
    }
    while (o->n[1] < g->recvs && gw_clock_ns() < deadline) take(o, 1);
}

/*
 * Posts a list and collects all its completions. A list with an error in it ends when its last request has
 * completed, flushed or not. The peer is then taken down, so that every receive completes as well.
 */
static void run(bool gw, const struct batch *b, uint32_t who, struct outcome *out)
{
    struct goal g = {
        .sends = b->sends, .recvs = b->broken ? b->sure : b->recvs, .until_last = b->broken && b->good};
    struct ibv_qp_attr err = {.qp_state = IBV_QPS_ERR};
    struct shared *s = shared.host;
    struct batch mine;

    if (g.until_last) g.last = b->wr[b->good - 1].wr_id;
    forget(out);
    if (gw) {
        struct shared *seen = shared.dev;
        struct place p = {ours.base, ours.mr->lkey, ours.mr->rkey, ud ? gw_ibv_ah(&seen->batch.ah) : NULL,
                          gw_qp_num(ours.qp[1])};

        lists_place(&s->batch, &seen->batch, b, &p);
        if (ud) s->batch.ah = ours.ah->handle;
        by_kernel(true, 1, &g, who);
    } else {
        struct place p = {(uint64_t)(uintptr_t)theirs.mem, theirs.mr->lkey, theirs.mr->rkey, theirs.ah,
                          theirs.qp[1]->qp_num};

        lists_place(&mine, &mine, b, &p);
        by_host(&mine, 1, &g, out);
    }
    if (!b->broken) return;
    must(gw ? gw_qp_abort(ours.qp[1]) : ibv_modify_qp(theirs.qp[1], &err, IBV_QP_STATE), "ERR");
    g.recvs = b->recvs;
    if (gw)
        by_kernel(false, 0, &g, who);
    else
        by_host(NULL, 0, &g, out);
}

/* ---- comparing ----------------------------------------------------------------------------------------- */

static void compare_one(uint32_t round, int s, int i, const struct ibv_wc *p, const struct ibv_wc *q)
{
    assert_int_equal(p->status, q->status);
    assert_int_equal(p->wr_id, q->wr_id);
    if (p->status) return; /* nothing else means anything then */
    /* Not the flag that a GRH came along: where libmlx5 let the NIC put the payload into the
     * completion, its bytes lie where that flag would. */
    if (p->opcode != q->opcode || (p->wc_flags ^ q->wc_flags) & (ud ? ~0u : ~(unsigned)IBV_WC_GRH))
        fail_msg("list %u, side %d, completion %d: opcode %d, flags %x with gw_, %d, %x with ibv_", round, s,
                 i, p->opcode, p->wc_flags, q->opcode, q->wc_flags);
    if (s == 1 || p->opcode == IBV_WC_RDMA_READ || p->opcode == IBV_WC_FETCH_ADD ||
        p->opcode == IBV_WC_COMP_SWAP)
        assert_int_equal(p->byte_len, q->byte_len);
    if (s == 1 && p->wc_flags & IBV_WC_WITH_IMM) assert_int_equal(p->imm_data, q->imm_data);
    assert_int_equal(p->qp_num == gw_qp_num(ours.qp[s]), 1);
    if (!ud || s == 0) return;
    assert_int_equal(p->src_qp, gw_qp_num(ours.qp[0]));
    assert_int_equal(q->src_qp, theirs.qp[0]->qp_num);
}

static void compare(uint32_t round, const struct batch *b, const struct outcome *x, const struct outcome *y)
{
    for (int s = 0; s < 2; s++) {
        if (x->ret[s] != y->ret[s] || x->bad[s] != y->bad[s])
            fail_msg("list %u: %s returns %d at %d with gw_, %d at %d with ibv_", round,
                     s ? "post_recv" : "post_send", x->ret[s], (int)x->bad[s], y->ret[s], (int)y->bad[s]);
        if (x->n[s] != y->n[s])
            fail_msg("list %u: side %d has %d completions with gw_, %d with ibv_", round, s, x->n[s],
                     y->n[s]);
        for (int i = 0; i < x->n[s]; i++) compare_one(round, s, i, &x->wc[s][i], &y->wc[s][i]);
    }
    assert_int_equal(x->bad[0], b->good < b->n ? b->good : -1);
    assert_int_equal(x->bad[1], b->refused ? b->recvs : -1);
    if (b->broken || !memcmp((void *)(uintptr_t)ours.base, theirs.mem, 2 * HALF)) return;
    for (uint32_t i = 0; i < 2 * HALF; i++)
        if (((uint8_t *)(uintptr_t)ours.base)[i] != theirs.mem[i])
            fail_msg("list %u: byte %u differs", round, i);
}

static void reconnect(void)
{
    struct ibv_wc wc[16];

    for (int i = 0; i < 2; i++) must(gw_qp_reset(ours.qp[i], 0, gw_deadline(LIMIT_NS)), "gw_qp_reset");
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
    uint32_t broken = 0, refused = 0, requests = 0, round;
    static struct outcome y;
    struct shared *s = shared.host;

    (void)state;
    printf("seed %llu\n", (unsigned long long)seed);
    rnd_bytes(&r, theirs.mem, 2 * HALF);
    memset(theirs.mem + HALF + COUNTERS, 0, 32);
    memcpy((void *)(uintptr_t)ours.base, theirs.mem, 2 * HALF);
    for (round = 0; round < 2500; round++) {
        struct batch b;

        lists_make(&r, &b, mtu);
        run(true, &b, round, &s->out);
        run(false, &b, round, &y);
        compare(round, &b, &s->out, &y);
        requests += (uint32_t)b.good;
        refused += b.good < b.n || b.refused;
        if (!b.broken) continue;
        broken++;
        if (broken > 25) break; /* each of these takes its time */
        reconnect();
    }
    printf("gpu: %u lists by a kernel and by libmlx5: %u requests, %u lists with an error in them, %u "
           "refused in part\n",
           round, requests, broken, refused);
    assert_true(broken > 10 && refused > 20);
}

/* ---- a full queue -------------------------------------------------------------------------------------- */

/* Both have room for as many as they were asked to have; the first that finds none is named, and all before
 * it complete. */
static int fill(bool gw, struct batch *b)
{
    static struct outcome theirs_out;
    struct shared *s = shared.host;
    struct outcome *o = gw ? &s->out : &theirs_out;
    const struct goal none = {0};
    struct goal all = {0};

    forget(o);
    if (gw)
        by_kernel(true, OUTCOME_WCS, &none, 0);
    else
        by_host(b, OUTCOME_WCS, &none, o);
    assert_int_equal(o->ret[0], ENOMEM);
    assert_in_range(o->bad[0], 0, BATCH - 1);
    all.sends = BATCH * o->lists + (int)o->bad[0];
    assert_in_range(all.sends, 64, OUTCOME_WCS);
    if (gw)
        by_kernel(false, 0, &all, 0);
    else
        by_host(NULL, 0, &all, o);
    assert_int_equal(o->n[0], all.sends);
    for (int i = 0; i < all.sends; i++) {
        assert_int_equal(o->wc[0][i].status, IBV_WC_SUCCESS);
        assert_int_equal(o->wc[0][i].wr_id, i % BATCH);
    }
    return all.sends;
}

static void test_full_queue(void **state)
{
    struct batch b = {.n = BATCH, .good = BATCH}, mine;
    struct shared *s = shared.host, *seen = shared.dev;
    struct place p = {ours.base, ours.mr->lkey, ours.mr->rkey, NULL, 0};
    struct place q = {(uint64_t)(uintptr_t)theirs.mem, theirs.mr->lkey, theirs.mr->rkey, NULL, 0};

    (void)state;
    if (ud) skip();
    reconnect();
    for (int i = 0; i < BATCH; i++) {
        b.wr[i] = (struct ibv_send_wr){
            .wr_id = (uint64_t)i, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED};
        b.sge[i][0].length = 8;
        b.wr[i].wr.rdma.remote_addr = HALF;
    }
    lists_place(&s->batch, &seen->batch, &b, &p);
    lists_place(&mine, &mine, &b, &q);
    for (int i = 0; i < 3; i++) /* all room comes back */
        printf("room for %d with gw_, %d with ibv_\n", fill(true, &s->batch), fill(false, &mine));
}

static int open_lists(void **state)
{
    struct pair_opts o = {.half = HALF,
                          .max_inline = INLINE,
                          .type = ud ? GW_QP_UD : GW_QP_RC,
                          .connect = {.mtu = 1024, .rnr_retry = 1, .min_rnr_timer = 1}};
    struct gw_device_info info;

    if (open_all(state)) return -1;
    gw_device_query(dev, &info);
    if (ud) mtu = info.mtu;
    pair_make(&ours, dev, &o);
    theirs_make(dev, 2 * HALF, ud ? IBV_QPT_UD : IBV_QPT_RC);
    must(gw_mem_alloc(exec, GW_MEM_HOST, sizeof(struct shared), &shared), "gw_mem_alloc");
    return 0;
}

static int close_lists(void **state)
{
    gw_mem_free(&shared);
    theirs_free();
    pair_free(&ours);
    return close_all(state);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random_lists),
                                       cmocka_unit_test(test_full_queue)};

    ud = argc > 1 && !strcmp(argv[1], "ud");
    if (ud) argv[1] = argv[0], argc--, argv++;
    setenv("GPUWIRE_NIC", "addr=127.0.0.1,hostile=1", 0);
    test_options(argc, argv);
    return cmocka_run_group_tests(tests, open_lists, close_lists);
}
