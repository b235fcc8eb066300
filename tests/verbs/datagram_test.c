/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Datagrams of kernels, through a NIC, within one process: they arrive, are dropped, or fail, and others
 * still work then. Many threads send to several queue pairs.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "tests/verbs/datagram_kernels.h"
#include "tests/verbs/device.h"
#include "tests/verbs/pair.h"

GW_KERNEL_DECLARE(crowd_kernel);
GW_KERNEL_DECLARE(tickets_kernel);

#define LIMIT_NS 60000000000u

static struct gw_device_info info;

static void must(int rc, const char *what)
{
    if (rc) fail_msg("%s: %d, %s", what, rc, gw_last_error());
}

/* With memory of the executor's own where the NIC reaches it, or of the host. */
static void make(struct pair *p, uint32_t own, struct pair_opts o)
{
    gw_device_query(dev, &info);
    o.type = GW_QP_UD;
    if (own && info.gpu_reach != GW_REACH_NONE) o.mem = GW_MEM_DEVICE;
    pair_make(p, dev, &o);
}

/* As the datagram left side 0 at `from` it must lie after its header in side 1's receive at `to`. */
static void arrived(struct pair *p, const struct ibv_wc *wc, size_t from, size_t to, uint32_t len)
{
    static uint8_t sent[8192], got[8192];
    uint8_t gid[16];

    pair_read(p, 0, from, sent, len);
    pair_read(p, 1, to, got, GW_GRH + len);
    assert_memory_equal(got + GW_GRH, sent, len);
    assert_int_equal(wc->opcode, IBV_WC_RECV);
    assert_int_equal(wc->byte_len, GW_GRH + len);
    assert_int_equal(wc->wc_flags & IBV_WC_GRH, IBV_WC_GRH);
    assert_int_equal(wc->src_qp, gw_qp_num(p->qp[0]));
    assert_int_equal(wc->qp_num, gw_qp_num(p->qp[1]));
    assert_int_equal(gw_grh_source(got, gid), 0);
    assert_memory_equal(gid, info.gid, 16);
}

static void each_length(struct pair *p, uint32_t call, uint32_t flags)
{
    const uint32_t lengths[] = {0, 1, 12, 13, 64, 200, 1000, info.mtu - 1, info.mtu};
    const struct ibv_wc *wc = p->out.wc;
    struct step *s;

    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        uint32_t len = lengths[i], imm = call != STEP_SEND_TO;

        if (flags & IBV_SEND_INLINE && len > 256) break;
        pair_fill(p, 0, 7 + i);
        pair_step(p, STEP_RECV, 1, 8192, GW_GRH + len, 0, 100 + i);
        s = pair_step(p, call, 0, 11 * i, len, 0, 200 + i);
        s->imm = 0x12345678u + (uint32_t)i;
        s->opcode = IBV_WR_SEND_WITH_IMM;
        if (call == STEP_IBV_SEND) s->flags |= flags;
        pair_wait(p, 1, 1);
        pair_wait(p, 0, 1);
        pair_run_ok(p);
        arrived(p, &wc[0], 11 * i, 8192, len);
        assert_int_equal(wc[0].wr_id, 100 + i);
        assert_int_equal(wc[0].wc_flags & IBV_WC_WITH_IMM, imm ? IBV_WC_WITH_IMM : 0);
        if (imm) assert_int_equal(gw_wc_imm(&wc[0]), 0x12345678u + i);
        assert_int_equal(wc[1].wr_id, 200 + i);
        assert_int_equal(wc[1].opcode, IBV_WC_SEND);
    }
}

static void test_lengths(void **state)
{
    struct pair p;

    (void)state;
    for (uint32_t own = 0; own < 2; own++) {
        make(&p, own, (struct pair_opts){.max_inline = 256, .qp_flags = own ? GW_QP_ONE_POSTER : 0});
        each_length(&p, STEP_SEND_TO, 0);
        each_length(&p, STEP_SEND_TO_IMM, 0);
        each_length(&p, STEP_IBV_SEND, 0);
        if (p.mem.host) each_length(&p, STEP_IBV_SEND, IBV_SEND_INLINE);
        pair_free(&p);
    }
}

/* Lists of several entries and several requests, inline and not, round the queue's end many times. */
static void test_wraps(void **state)
{
    struct pair p;

    (void)state;
    make(&p, 0, (struct pair_opts){.max_inline = 200, .send_wr = 8, .sge = 3});
    pair_fill(&p, 0, 3);
    for (uint32_t round = 0; round < 60; round++) {
        for (uint32_t i = 0; i < 3; i++) pair_step(&p, STEP_IBV_RECV, 1, 1000 * i, 1000, 0, i);
        for (uint32_t i = 0; i < 3; i++) {
            struct step *s = pair_step(&p, STEP_IBV_SEND, 0, 300 * i, 40 + round, 0, i);

            s->opcode = IBV_WR_SEND;
            s->more = i < 2;
            s->flags = (i == 2 ? IBV_SEND_SIGNALED : 0) | ((round + i) % 3 ? 0 : IBV_SEND_INLINE);
            s->num_sge = 1 + i;
            for (uint32_t k = 1; k <= i; k++) {
                s->sge[k] = s->sge[0];
                s->sge[k].addr = s->sge[k - 1].addr + s->sge[k - 1].length;
                s->sge[k].length = k;
            }
        }
        pair_wait(&p, 1, 3);
        pair_wait(&p, 0, 1);
        pair_step(&p, STEP_EXPECT_EMPTY, 0, 0, 0, 0, 0);
        pair_run_ok(&p);
        for (uint32_t i = 0; i < 3; i++)
            arrived(&p, &p.out.wc[i], 300 * i, 1000 * i, 40 + round + i * (i + 1) / 2);
    }
    pair_free(&p);
}

/* A wrong Q_Key, and no receive: both are sent well, and arrive nowhere. */
static void test_dropped(void **state)
{
    struct pair p;

    (void)state;
    make(&p, 0, (struct pair_opts){0});
    pair_fill(&p, 0, 9);
    pair_step(&p, STEP_RECV, 1, 0, 200, 0, 1);
    pair_step(&p, STEP_SEND_TO, 0, 0, 100, 0, 2)->qkey ^= 1;
    pair_wait(&p, 0, 1);
    pair_step(&p, STEP_SEND_TO, 0, 100, 100, 0, 3);
    pair_wait(&p, 0, 1);
    pair_wait(&p, 1, 1);
    pair_step(&p, STEP_EXPECT_EMPTY, 1, 0, 0, 0, 0);
    pair_run_ok(&p);
    arrived(&p, &p.out.wc[2], 100, 0, 100);
    /* The second one goes after the first: where that had no receive, the next takes this one. */
    pair_step(&p, STEP_SEND_TO, 0, 0, 50, 0, 4)->dqpn = gw_qp_num(p.qp[0]);
    pair_wait(&p, 0, 1);
    pair_step(&p, STEP_EXPECT_EMPTY, 0, 0, 0, 0, 0);
    pair_run_ok(&p);
    pair_free(&p);
}

/* The queue pair has failed and sends nothing any more, but receives; started again it does both. */
static void after_a_failure(struct pair *p)
{
    struct gw_fault fault;

    pair_step(p, STEP_SEND_TO, 0, 0, 10, 0, 1);
    pair_step(p, STEP_RECV, 0, 300, 200, 0, 2);
    pair_step(p, STEP_SEND_TO, 1, 0, 100, 0, 3);
    pair_wait(p, 1, 1);
    pair_wait(p, 0, 1);
    pair_run(p);
    assert_int_equal(p->out.ret[0], -EIO);
    assert_int_equal(p->out.ret[4], 0);
    assert_int_equal(p->out.wc[1].status, IBV_WC_SUCCESS);
    assert_int_equal(p->out.wc[1].wr_id, 2);
    assert_int_equal(gw_qp_fault(p->qp[0], &fault), 1);
    for (int i = 0; i < 2; i++) must(gw_qp_reset(p->qp[i], 0, gw_deadline(LIMIT_NS)), "gw_qp_reset");
    pair_step(p, STEP_SEND_TO, 0, 0, 10, 0, 1);
    pair_run(p);
    assert_int_equal(p->out.ret[0], -ENOTCONN);
    pair_connect(p, NULL);
    pair_step(p, STEP_RECV, 1, 0, 200, 0, 1);
    pair_step(p, STEP_SEND_TO, 0, 0, 100, 0, 2);
    pair_wait(p, 1, 1);
    pair_wait(p, 0, 1);
    pair_run_ok(p);
    arrived(p, &p->out.wc[0], 0, 0, 100);
}

static void test_too_long(void **state)
{
    struct pair p;

    (void)state;
    make(&p, 0, (struct pair_opts){0});
    pair_step(&p, STEP_RECV, 1, 0, 200, 0, 1);
    pair_step(&p, STEP_SEND_TO, 0, 0, 100, 0, 5);
    pair_step(&p, STEP_SEND_TO, 0, 0, info.mtu + 1, 0, 6)->flags = 0;
    pair_step(&p, STEP_SEND_TO, 0, 0, 1, 0, 7)->flags = 0;
    pair_wait(&p, 0, 3);
    pair_wait(&p, 1, 1);
    pair_run(&p);
    assert_int_equal(p.out.ret[5], 0);
    assert_int_equal(p.out.wc[0].status, IBV_WC_SUCCESS);
    assert_int_equal(p.out.wc[1].status, IBV_WC_LOC_LEN_ERR);
    assert_int_equal(p.out.wc[1].wr_id, 6);
    assert_int_equal(p.out.wc[2].status, IBV_WC_WR_FLUSH_ERR);
    assert_int_equal(p.out.wc[2].wr_id, 7);
    assert_int_equal(p.out.faulted[0], 1);
    assert_int_equal(p.out.fault[0].status, IBV_WC_LOC_LEN_ERR);
    after_a_failure(&p);
    pair_free(&p);
}

/* A request that only connected queue pairs do: the NIC fails it. Earlier requests go out, later ones do
 * not. */
static void test_wrong_opcode(void **state)
{
    static const enum ibv_wr_opcode wrong[] = {
        IBV_WR_RDMA_WRITE,         IBV_WR_RDMA_WRITE_WITH_IMM,  IBV_WR_RDMA_READ,
        IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_SEND_WITH_INV};
    struct pair p;

    (void)state;
    make(&p, 0, (struct pair_opts){.max_inline = 64});
    for (size_t i = 0; i < 2 * sizeof(wrong) / sizeof(wrong[0]); i++) {
        pair_step(&p, STEP_RECV, 1, 0, 200, 0, 1);
        for (uint32_t k = 0; k < 3; k++) {
            struct step *s = pair_step(&p, STEP_IBV_SEND, 0, 0, 32, 0, 10 + k);

            s->opcode = k == 1 ? wrong[i / 2] : IBV_WR_SEND;
            s->flags = i % 2 ? IBV_SEND_INLINE : 0;
            s->more = k < 2;
        }
        pair_wait(&p, 0, 2);
        pair_wait(&p, 1, 1);
        pair_run(&p);
        assert_int_equal(p.out.ret[1], 0);
        assert_int_equal(p.out.ret[5], 0);
        assert_int_equal(p.out.wc[0].status, IBV_WC_LOC_QP_OP_ERR);
        assert_int_equal(p.out.wc[0].wr_id, 11);
        assert_int_equal(p.out.wc[1].status, IBV_WC_WR_FLUSH_ERR);
        assert_int_equal(p.out.wc[1].wr_id, 12);
        assert_int_equal(p.out.wc[2].status, IBV_WC_SUCCESS);
        after_a_failure(&p);
    }
    pair_free(&p);
}

static void test_refused_posts(void **state)
{
    static const struct {
        uint32_t opcode, num_sge, ud, len, flags;
        int err;
    } bad[] = {{IBV_WR_LOCAL_INV, 1, 1, 8, 0, EOPNOTSUPP},
               {IBV_WR_SEND, STEP_SGE + 1, 1, 8, 0, ENOMEM},
               {IBV_WR_SEND, 1, 2, 8, 0, EINVAL},
               {IBV_WR_SEND, 1, 1, 65, IBV_SEND_INLINE, ENOMEM},
               {IBV_WR_SEND, 1, 1, 1u << 31, 0, EINVAL}};
    struct pair p;

    (void)state;
    make(&p, 0, (struct pair_opts){.max_inline = 64});
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct step *s = pair_step(&p, STEP_IBV_SEND, 0, 0, 8, 0, 1);
        uint32_t most = 0;

        s->opcode = bad[i].opcode;
        s->num_sge = bad[i].num_sge;
        s->ud = bad[i].ud;
        s->flags = bad[i].flags;
        s->sge[0].length = bad[i].len;
        pair_run(&p);
        /* A device may allow more inline bytes than were asked for. */
        most = p.out.ret[0] == 0 && bad[i].flags;
        if (!most) assert_int_equal(p.out.ret[0], bad[i].err);
    }
    for (uint32_t call = STEP_PUT; call <= STEP_SEND; call++) {
        pair_step(&p, call, 0, 0, 8, 0, 1);
        pair_run(&p);
        assert_int_equal(p.out.ret[0], -EOPNOTSUPP);
    }
    pair_free(&p);
}

static void test_full_queue(void **state)
{
    uint32_t room, n = 0;
    struct pair p;

    (void)state;
    make(&p, 0, (struct pair_opts){.send_wr = 4});
    for (uint32_t i = 0; i < 40; i++) pair_step(&p, STEP_SEND_TO, 0, 0, 8, 0, i);
    pair_run(&p);
    for (room = 0; room < 40 && !p.out.ret[room]; room++) continue;
    assert_in_range(room, 4, 39);
    for (uint32_t i = room; i < 40; i++) assert_int_equal(p.out.ret[i], -EAGAIN);
    for (uint32_t round = 0; round < 10; round++, n = room) {
        pair_wait(&p, 0, n ? n : room);
        for (uint32_t i = 0; i < room; i++) pair_step(&p, STEP_SEND_TO, 0, 0, 8, 0, i);
        pair_step(&p, STEP_SEND_TO, 0, 0, 8, 0, 99);
        pair_run(&p);
        for (uint32_t i = 0; i <= room; i++) assert_int_equal(p.out.ret[i], 0);
        assert_int_equal(p.out.ret[room + 1], -EAGAIN);
        for (uint32_t i = 0; i < room; i++) assert_int_equal(p.out.wc[i].wr_id, i);
    }
    pair_free(&p);
}

/* A receive that is too short ends the receiver. */
static void test_short_receive(void **state)
{
    struct pair p;

    (void)state;
    make(&p, 0, (struct pair_opts){0});
    pair_step(&p, STEP_RECV, 1, 0, GW_GRH + 99, 0, 1);
    pair_step(&p, STEP_RECV, 1, 0, 200, 0, 2);
    pair_step(&p, STEP_SEND_TO, 0, 0, 100, 0, 3);
    pair_wait(&p, 0, 1);
    pair_wait(&p, 1, 2);
    pair_run(&p);
    assert_int_equal(p.out.wc[0].status, IBV_WC_SUCCESS);
    assert_int_equal(p.out.wc[1].status, IBV_WC_LOC_LEN_ERR);
    assert_int_equal(p.out.wc[1].wr_id, 1);
    assert_int_equal(p.out.wc[2].status, IBV_WC_WR_FLUSH_ERR);
    assert_int_equal(p.out.fault[1].recv, 1);
    pair_free(&p);
}

static void test_kinds(void **state)
{
    struct gw_endpoint ep, nobody = {.qpn = 5, .mtu = 1024};
    struct pair ud, rc;
    struct gw_ah *ah[200];

    (void)state;
    make(&ud, 0, (struct pair_opts){0});
    pair_make(&rc, dev, &(struct pair_opts){.unconnected = 1});
    gw_qp_endpoint(ud.qp[0], &ep);
    assert_int_equal(gw_qp_connect(ud.qp[0], &ep, NULL), -EINVAL);
    assert_non_null(strstr(gw_last_error(), "gw_qp_activate"));
    assert_int_equal(gw_qp_activate(rc.qp[0], 1), -EINVAL);
    assert_non_null(strstr(gw_last_error(), "gw_qp_connect"));
    pair_step(&rc, STEP_SEND_TO, 0, 0, 8, 0, 1)->ah = ud.ah->handle;
    pair_run(&rc);
    assert_int_equal(rc.out.ret[0], -ENOTCONN);
    pair_connect(&rc, NULL);
    pair_step(&rc, STEP_SEND_TO, 0, 0, 8, 0, 1)->ah = ud.ah->handle;
    pair_run(&rc);
    assert_int_equal(rc.out.ret[0], -EOPNOTSUPP);
    assert_int_equal(gw_ah_create(ud.pd, &nobody, NULL, &ah[0]), -EINVAL);
    for (int i = 0; i < 200; i++) must(gw_ah_create(rc.pd, &ep, NULL, &ah[i]), "gw_ah_create");
    assert_int_equal(gw_pd_destroy(rc.pd), -EBUSY);
    for (int i = 0; i < 200; i++) must(gw_ah_destroy(ah[i]), "gw_ah_destroy");
    pair_free(&rc);
    pair_free(&ud);
}

/* ---- many to many -------------------------------------------------------------------------------------- */

struct crowd {
    struct gw_pd *pd;
    struct gw_cq *cq[1 + CROWD_TO];
    struct gw_qp *qp[1 + CROWD_TO];
    struct gw_ah *ah;
    struct gw_mem mem, counts;
    struct gw_mr *mr;
    struct crowd_args args;
    uint32_t one_owner; /* of queue pair 0 */
};

/* A thread that is slow to post a receive holds back those that others post after it. So there are many more
 * than datagrams on their way. */
enum { CROWD_RECVS = 512 };

/* Queue pair 0 sends, the others receive. */
static void make_queues(struct crowd *c, uint32_t threads)
{
    struct gw_qp_attr qa = {.max_send_wr = threads, .max_recv_wr = c->args.recvs, .type = GW_QP_UD};
    const uint32_t flags = c->one_owner ? GW_QP_ONE_POSTER : 0;
    struct gw_endpoint self;

    must(gw_pd_create(dev, &c->pd), "gw_pd_create");
    for (int i = 0; i <= CROWD_TO; i++) {
        must(gw_cq_create(dev, &(struct gw_cq_attr){.cqe = 1024}, &c->cq[i]), "gw_cq_create");
        qa.send_cq = qa.recv_cq = c->cq[i];
        qa.flags = i ? 0 : flags;
        must(gw_qp_create(c->pd, &qa, &c->qp[i]), "gw_qp_create");
        must(gw_qp_activate(c->qp[i], c->args.qkey), "gw_qp_activate");
    }
    gw_qp_endpoint(c->qp[0], &self);
    must(gw_ah_create(c->pd, &self, NULL, &c->ah), "gw_ah_create");
    c->args.ah = c->ah->handle;
    c->args.from = gw_qp_handle(c->qp[0]);
    c->args.from_qpn = gw_qp_num(c->qp[0]);
    c->args.from_cq = gw_cq_handle(c->cq[0]);
    for (int i = 0; i < CROWD_TO; i++) {
        c->args.to[i] = gw_qp_handle(c->qp[1 + i]);
        c->args.qpn[i] = gw_qp_num(c->qp[1 + i]);
        c->args.to_cq[i] = gw_cq_handle(c->cq[1 + i]);
    }
}

static void make_memory(struct crowd *c, uint32_t threads)
{
    struct gw_exec *x = gw_device_exec(dev);
    size_t sends = threads * 4 * (size_t)CROWD_WORDS,
           all = sends + c->args.recvs * (size_t)CROWD_TO * CROWD_ROOM;
    uint32_t zero[256] = {0};

    must(gw_mem_alloc(x, GW_MEM_HOST, all, &c->mem), "gw_mem_alloc");
    must(gw_mr_register(c->pd, c->mem.host, all, 0, &c->mr), "gw_mr_register");
    must(gw_mem_alloc(x, GW_MEM_DEVICE, sizeof(zero), &c->counts), "gw_mem_alloc");
    must(gw_copy_in(x, c->counts.dev, zero, sizeof(zero)), "gw_copy_in");
    c->args.send_addr = c->mr->addr;
    c->args.send = c->mem.dev;
    c->args.recv_addr = c->mr->addr + sends;
    c->args.recv = (uint8_t *)c->mem.dev + sends;
    c->args.lkey = c->mr->lkey;
    c->args.count = c->counts.dev;
    c->args.seen = c->args.count + 8;
}

static void free_crowd(struct crowd *c)
{
    for (int i = 0; i <= CROWD_TO; i++) {
        must(gw_qp_destroy(c->qp[i]), "gw_qp_destroy");
        must(gw_cq_destroy(c->cq[i]), "gw_cq_destroy");
    }
    must(gw_mr_free(c->mr), "gw_mr_free");
    must(gw_ah_destroy(c->ah), "gw_ah_destroy");
    must(gw_pd_destroy(c->pd), "gw_pd_destroy");
    gw_mem_free(&c->mem);
    gw_mem_free(&c->counts);
}

/* Datagrams that the NIC dropped because no receive was posted. The thread that sent one waits until it gives
 * up. -1: the device has no such counter. */
static long dropped(void)
{
    long n = -1;
    char path[256];
    FILE *f;

    snprintf(path, sizeof(path), "/sys/class/infiniband/%s/ports/1/hw_counters/out_of_buffer",
             ibv_get_device_name(gw_device_context(dev)->device));
    f = fopen(path, "r");
    if (f && fscanf(f, "%ld", &n) != 1) n = -1;
    if (f) fclose(f);
    return n;
}

static void crowd(const struct gw_kernel *kernel, struct crowd c)
{
    struct gw_exec *x = gw_device_exec(dev);
    uint32_t threads = test_block_dim(x, 64), count[8];
    long before = dropped();

    c.args.each = 100;
    c.args.recvs = CROWD_RECVS;
    c.args.qkey = 0xabcd;
    c.args.limit_ns = LIMIT_NS;
    make_queues(&c, threads);
    make_memory(&c, threads);
    must(gw_launch(x, kernel, 1, threads, &c.args), "gw_launch");
    must(gw_exec_sync(x, gw_deadline(2 * (uint64_t)LIMIT_NS)), "gw_exec_sync");
    must(gw_copy_out(x, count, c.args.count, sizeof(count)), "gw_copy_out");
    if (count[2] && before < 0) print_message("how many datagrams found no receive is not known\n");
    if (count[2] && before >= 0) print_message("%ld datagrams found no receive\n", dropped() - before);
    assert_int_equal(count[2], 0);
    assert_int_equal(count[1], 0);
    assert_int_equal(count[0], threads * c.args.each);
    free_crowd(&c);
}

static void test_crowd(void **state)
{
    (void)state;
    crowd(&crowd_kernel, (struct crowd){0});
}

static void test_crowd_of_warps(void **state)
{
    (void)state;
    crowd(&crowd_kernel, (struct crowd){.args.warp = 1});
}

/* With tickets, in each form. */
static void test_crowd_with_tickets(void **state)
{
    (void)state;
    crowd(&tickets_kernel, (struct crowd){.args.form = CROWD_THREAD});
    crowd(&tickets_kernel, (struct crowd){.args.form = CROWD_WARP});
    crowd(&tickets_kernel, (struct crowd){.args.form = CROWD_BLOCK});
    crowd(&tickets_kernel, (struct crowd){.args.form = CROWD_BLOCK, .one_owner = 1});
}

/* The ticket of a datagram that is too long fails, as that of a request that is no datagram. The fault names
 * it. The one before it is good. */
static void test_ticket_that_fails(void **state)
{
    struct gw_fault fault;
    struct gw_tx tx;
    struct pair p;

    (void)state;
    if (gw_exec_kind(exec) != GW_EXEC_CPU) skip();
    make(&p, 0, (struct pair_opts){0});
    for (uint32_t put = 0; put < 2; put++) {
        uint64_t good = 0, bad = 0, deadline = gw_deadline(LIMIT_NS);
        struct gw_op op =
            gw_send_to_op(&p.ah->handle, gw_qp_num(p.qp[1]), PAIR_QKEY, p.base, p.mr->lkey, info.mtu);

        must(gw_tx_open(&tx, gw_qp_handle(p.qp[0])), "gw_tx_open");
        must(gw_tx_post(&tx, op, GW_DEFER, &good), "a datagram");
        op.len = info.mtu + 1;
        if (put) op = gw_put_op(p.base, p.mr->lkey, p.base + p.half, p.mr->rkey, 8);
        must(gw_tx_post(&tx, op, 0, &bad), "what fails");
        assert_int_equal(gw_tx_wait(&tx, bad, deadline), -EIO);
        assert_int_equal(gw_tx_wait(&tx, good, deadline), 0);
        assert_int_equal(gw_qp_fault(p.qp[0], &fault), 1);
        assert_int_equal(fault.status, put ? IBV_WC_LOC_QP_OP_ERR : IBV_WC_LOC_LEN_ERR);
        assert_int_equal(fault.wr_id, bad);
        for (int i = 0; i < 2; i++) must(gw_qp_reset(p.qp[i], 0, deadline), "gw_qp_reset");
        pair_connect(&p, NULL);
    }
    pair_free(&p);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lengths),
        cmocka_unit_test(test_wraps),
        cmocka_unit_test(test_dropped),
        cmocka_unit_test(test_too_long),
        cmocka_unit_test(test_wrong_opcode),
        cmocka_unit_test(test_refused_posts),
        cmocka_unit_test(test_full_queue),
        cmocka_unit_test(test_short_receive),
        cmocka_unit_test(test_kinds),
        cmocka_unit_test(test_crowd),
        cmocka_unit_test(test_crowd_of_warps),
        cmocka_unit_test(test_crowd_with_tickets),
        cmocka_unit_test(test_ticket_that_fails),
    };

    setenv("GPUWIRE_NIC", "addr=127.0.0.1,hostile=1", 0);
    test_options(argc, argv);
    return cmocka_run_group_tests(tests, open_all, close_all);
}
