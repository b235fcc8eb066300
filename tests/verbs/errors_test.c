/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Errors of each operation: a wrong key, a peer that is gone, a peer without a receive, a request that the
 * NIC does not take, a connection taken down under posts. Each ends in an error before its deadline, host and
 * kernel read the same first error, and afterwards the queue pairs are connected again and work.
 */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/verbs/device.h"
#include "tests/verbs/pair.h"

static void must(int rc, const char *what)
{
    if (rc) fail_msg("%s: %d, %s", what, rc, gw_last_error());
}

static const struct operation {
    const char *name;
    uint32_t call, opcode;
    bool remote, receives; /* has a remote key; takes a receive at the peer */
    uint32_t len;
} operations[] = {
    {"put", STEP_PUT, 0, true, false, 64},
    {"put with immediate", STEP_PUT_IMM, 0, true, true, 64},
    {"get", STEP_GET, 0, true, false, 64},
    {"send", STEP_SEND, 0, false, true, 64},
    {"compare and swap", STEP_IBV_SEND, IBV_WR_ATOMIC_CMP_AND_SWP, true, false, 8},
    {"fetch and add", STEP_IBV_SEND, IBV_WR_ATOMIC_FETCH_AND_ADD, true, false, 8},
    {"send, ibv", STEP_IBV_SEND, IBV_WR_SEND, false, true, 64},
    {"write, ibv", STEP_IBV_SEND, IBV_WR_RDMA_WRITE, true, false, 64},
};
#define OPERATIONS (sizeof(operations) / sizeof(operations[0]))

static struct step *add(struct pair *p, const struct operation *o, uint64_t wr_id)
{
    struct step *s = pair_step(p, o->call, 0, 128, o->len, 256, wr_id);

    s->opcode = o->opcode;
    return s;
}

/* Host and kernel say the same, and what is expected. */
static void expect(const struct pair *p, const char *name, uint32_t status, uint64_t wr_id)
{
    struct gw_fault fault;
    char text[256];

    assert_int_equal(gw_qp_fault(p->qp[0], &fault), 1);
    gw_fault_text(&fault, text, sizeof(text));
    if (fault.status != status) fail_msg("%s: expected status %u, got: %s", name, status, text);
    assert_int_equal(fault.wr_id, wr_id);
    assert_int_equal(fault.recv, 0);
    assert_int_equal(p->out.faulted[0], 1);
    assert_memory_equal(&p->out.fault[0], &fault, sizeof(fault));
}

static void again(struct pair *p, const struct gw_connect_opts *o)
{
    for (int k = 0; k < 2; k++) must(gw_qp_reset(p->qp[k], GW_RESET_QUIET, 0), "gw_qp_reset");
    pair_connect(p, o);
    pair_step(p, STEP_PUT, 0, 0, 64, 0, 1);
    pair_wait(p, 0, 1);
    pair_run_ok(p);
    assert_int_equal(p->out.faulted[0], 0);
}

static void wrong_keys(void **state)
{
    struct pair_opts o = {0};
    struct pair p;

    (void)state;
    pair_make(&p, dev, &o);
    for (size_t i = 0; i < OPERATIONS; i++)
        for (int local = 0; local < 2; local++) {
            struct step *s;

            if (!local && !operations[i].remote) continue;
            if (operations[i].receives) pair_step(&p, STEP_RECV, 1, 512, 64, 0, 9);
            s = add(&p, &operations[i], 70 + i);
            if (local)
                s->sge[0].lkey ^= 0x5500;
            else
                s->rkey ^= 0x5500;
            pair_wait(&p, 0, 1);
            pair_run(&p);
            assert_int_equal(p.out.ret[operations[i].receives ? 2 : 1], 0);
            expect(&p, operations[i].name,
                   local
                       ? pair_local_key_status(dev, operations[i].call == STEP_GET || operations[i].len == 8)
                       : IBV_WC_REM_ACCESS_ERR,
                   70 + i);
            again(&p, NULL);
        }
    pair_free(&p);
}

static void peer_gone(void **state)
{
    struct pair_opts o = {.connect = {.timeout = 10, .retry_cnt = 1}}; /* 4.2 ms */
    struct pair p;

    (void)state;
    pair_make(&p, dev, &o);
    for (size_t i = 0; i < OPERATIONS; i++) {
        must(gw_qp_reset(p.qp[1], GW_RESET_QUIET, 0), "gw_qp_reset");
        add(&p, &operations[i], 80 + i);
        pair_wait(&p, 0, 1);
        pair_run(&p);
        assert_int_equal(p.out.ret[1], 0);
        expect(&p, operations[i].name, IBV_WC_RETRY_EXC_ERR, 80 + i);
        again(&p, &(struct gw_connect_opts){.timeout = 14});
        for (int k = 0; k < 2; k++) must(gw_qp_reset(p.qp[k], GW_RESET_QUIET, 0), "gw_qp_reset");
        pair_connect(&p, &o.connect);
    }
    pair_free(&p);
}

static void no_receive(void **state)
{
    struct pair_opts o = {.connect = {.rnr_retry = 1, .min_rnr_timer = 1}};
    struct pair p;

    (void)state;
    pair_make(&p, dev, &o);
    for (size_t i = 0; i < OPERATIONS; i++) {
        if (!operations[i].receives) continue;
        add(&p, &operations[i], 90 + i);
        pair_wait(&p, 0, 1);
        pair_run(&p);
        assert_int_equal(p.out.ret[1], 0);
        expect(&p, operations[i].name, IBV_WC_RNR_RETRY_EXC_ERR, 90 + i);
        again(&p, &o.connect);
    }
    pair_free(&p);
}

/* A request that libibverbs has no name for, smuggled past the check: it fails in its turn, after what is
 * before it. */
static void request_that_cannot_be_posted(void **state)
{
    struct gw_device_info info;
    struct pair_opts o = {0};
    struct ibv_wc wc[4];
    struct gw_tx tx;
    struct pair p;
    uint64_t t[3] = {0};

    (void)state;
    gw_device_query(dev, &info);
    if (info.post_mode != GW_POST_PROXY_POST || gw_exec_kind(exec) != GW_EXEC_CPU) skip();
    pair_make(&p, dev, &o);
    for (int round = 0; round < 3; round++) {
        struct gw_qp_handle *qp = gw_qp_handle(p.qp[0]);
        uint64_t there = p.base + p.half, deadline = gw_deadline(60000000000u);

        qp->flags &= ~(uint32_t)GW_NO_MASKED_;
        must(gw_tx_open(&tx, qp), "gw_tx_open");
        must(gw_tx_post(&tx, gw_put_op(p.base, p.mr->lkey, there, p.mr->rkey, 64), GW_DEFER, &t[0]), "put");
        must(gw_tx_post(&tx, gw_masked_fetch_add_op(p.base, p.mr->lkey, there, p.mr->rkey, 1, 0), GW_DEFER,
                        &t[1]),
             "masked");
        must(gw_tx_post(&tx, gw_put_op(p.base, p.mr->lkey, there, p.mr->rkey, 64), 0, &t[2]), "put");
        assert_int_equal(gw_tx_wait(&tx, t[2], deadline), -EIO);
        assert_int_equal(gw_tx_wait(&tx, t[1], deadline), -EIO);
        pair_run(&p);
        expect(&p, "masked", IBV_WC_LOC_QP_OP_ERR, t[1]);
        again(&p, NULL);
        assert_int_equal(gw_poll_cq(gw_cq_handle(p.cq[0]), 4, wc), 0);
    }
    pair_free(&p);
}

/* A ticket that fails is what the fault names, whether its request was rung for at once or later. */
static void fault_names_the_ticket(void **state)
{
    struct pair_opts o = {0};
    struct pair p;

    (void)state;
    if (gw_exec_kind(exec) != GW_EXEC_CPU) skip();
    pair_make(&p, dev, &o);
    for (uint32_t defer = 0; defer < 2; defer++) {
        uint64_t good = 0, bad = 0, there = p.base + p.half;
        struct gw_tx tx;

        must(gw_tx_open(&tx, gw_qp_handle(p.qp[0])), "gw_tx_open");
        must(gw_tx_post(&tx, gw_put_op(p.base, p.mr->lkey, there, p.mr->rkey, 64), defer ? GW_DEFER : 0,
                        &good),
             "put");
        must(gw_tx_post(&tx, gw_put_op(p.base, p.mr->lkey, there, p.mr->rkey ^ 0x5500, 64),
                        defer ? GW_DEFER : 0, &bad),
             "put");
        assert_int_equal(gw_tx_wait(&tx, bad, gw_deadline(60000000000u)), -EIO);
        pair_run(&p);
        expect(&p, "put", IBV_WC_REM_ACCESS_ERR, bad);
        again(&p, NULL);
    }
    pair_free(&p);
}

/* ---- taken down while threads post --------------------------------------------------------------------- */

struct poster {
    pthread_t thread;
    struct pair *p;
    uint64_t deadline;
    int err;
};

static void *post_until_error(void *arg)
{
    struct poster *x = arg;
    struct pair *p = x->p;
    struct gw_tx tx;
    uint64_t t = 0;

    x->err = gw_tx_open(&tx, gw_qp_handle(p->qp[0]));
    while (!x->err && gw_clock_ns() < x->deadline) {
        x->err = gw_tx_post(&tx, gw_put_op(p->base, p->mr->lkey, p->base + p->half, p->mr->rkey, 64), 0, &t);
        if (!x->err) x->err = gw_tx_wait(&tx, t, x->deadline);
        if (x->err == -EAGAIN) x->err = 0;
    }
    return NULL;
}

static void taken_down_while_posted_to(void **state)
{
    const struct timespec nap = {.tv_nsec = 5000000};
    struct pair_opts o = {.send_wr = 16};
    struct poster x[3];
    struct pair p;

    (void)state;
    if (gw_exec_kind(exec) != GW_EXEC_CPU) skip();
    pair_make(&p, dev, &o);
    for (int round = 0; round < 10; round++) {
        for (int i = 0; i < 3; i++) {
            x[i] = (struct poster){.p = &p, .deadline = gw_deadline(60000000000u)};
            assert_int_equal(pthread_create(&x[i].thread, NULL, post_until_error, &x[i]), 0);
        }
        nanosleep(&nap, NULL);
        must(gw_qp_abort(p.qp[0]), "gw_qp_abort");
        for (int i = 0; i < 3; i++) pthread_join(x[i].thread, NULL);
        for (int i = 0; i < 3; i++) assert_int_equal(x[i].err, -EIO);
        again(&p, NULL);
    }
    pair_free(&p);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_keys),
        cmocka_unit_test(peer_gone),
        cmocka_unit_test(no_receive),
        cmocka_unit_test(fault_names_the_ticket),
        cmocka_unit_test(request_that_cannot_be_posted),
        cmocka_unit_test(taken_down_while_posted_to),
    };

    setenv("GPUWIRE_NIC", "addr=127.0.0.1,hostile=1", 0);
    test_options(argc, argv);
    return cmocka_run_group_tests(tests, open_all, close_all);
}
