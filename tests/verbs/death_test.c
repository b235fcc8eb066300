/* SPDX-License-Identifier: Apache-2.0 */
/* A NIC dies, and a queue pair. Threads that wait without a deadline get an error. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/verbs/pair.h"

#define SOON UINT64_C(20000000000)

static void must(int err)
{
    if (err) fail_msg("%d: %s", err, gw_last_error());
}

/* The tool raises an event of this process's NIC. */
static void raise_event(const char *event)
{
    const char *tool = getenv("GPUWIRE");
    char command[4200];

    if (!tool) fail_msg("GPUWIRE does not name the tool");
    snprintf(command, sizeof(command), "LD_PRELOAD= '%s' nic --pid %d --event %s", tool, (int)getpid(),
             event);
    assert_int_equal(system(command), 0);
}

/* ---- those who wait ------------------------------------------------------------------------------------ */

struct waiter {
    pthread_t thread;
    struct pair *p;
    int ret, ended;
};

static void *for_completion(void *arg)
{
    struct waiter *w = arg;
    struct ibv_wc wc;

    w->ret = gw_wait_cq(gw_cq_handle(w->p->cq[1]), 1, &wc, GW_NEVER, NULL, -1);
    __atomic_store_n(&w->ended, 1, __ATOMIC_RELEASE);
    return NULL;
}

static void *on_the_host(void *arg)
{
    struct waiter *w = arg;

    w->ret = gw_cq_wait(w->p->cq[1], GW_NEVER, NULL, -1);
    __atomic_store_n(&w->ended, 1, __ATOMIC_RELEASE);
    return NULL;
}

/* A SEND that no receive meets: it is repeated forever. */
static void *for_ticket(void *arg)
{
    struct waiter *w = arg;
    uint64_t ticket = 0;
    struct gw_tx tx;

    w->ret = gw_tx_open(&tx, gw_qp_handle(w->p->qp[0]));
    if (!w->ret) w->ret = gw_tx_post(&tx, gw_send_op(w->p->base, w->p->mr->lkey, 8), 0, &ticket);
    if (!w->ret) w->ret = gw_tx_wait(&tx, ticket, GW_NEVER);
    __atomic_store_n(&w->ended, 1, __ATOMIC_RELEASE);
    return NULL;
}

static void start(struct waiter *w, struct pair *p, void *(*main)(void *))
{
    *w = (struct waiter){.p = p};
    assert_int_equal(pthread_create(&w->thread, NULL, main, w), 0);
}

static void nap(void)
{
    const struct timespec t = {.tv_nsec = 1000000};

    nanosleep(&t, NULL);
}

static void ends(struct waiter *w)
{
    uint64_t until = gw_deadline(SOON);

    while (!__atomic_load_n(&w->ended, __ATOMIC_ACQUIRE)) {
        if (gw_clock_ns() >= until) fail_msg("it waits on, though its NIC is dead");
        nap();
    }
    pthread_join(w->thread, NULL);
    assert_int_equal(w->ret, -EIO);
}

/* ---- tests --------------------------------------------------------------------------------------------- */

static void failed(struct gw_qp *qp)
{
    struct gw_fault fault;
    char text[200];

    assert_int_equal(gw_qp_fault(qp, &fault), 1);
    assert_int_equal(fault.status, IBV_WC_FATAL_ERR);
    gw_fault_text(&fault, text, sizeof(text));
    assert_non_null(strstr(text, "failed itself"));
    assert_int_equal(gw_post_op(gw_qp_handle(qp), gw_send_op(0, 0, 0), 0, 0), -EIO);
}

static void device(uint32_t cq_flags)
{
    struct pair_opts o = {.cq_flags = cq_flags};
    struct waiter cq, host, ticket;
    struct gw_device *dev;
    struct gw_exec *exec;
    struct gw_cq *late;
    struct ibv_wc wc;
    struct pair p;

    must(gw_exec_create("cpu", NULL, &exec));
    must(gw_device_open("softnic", exec, &dev));
    pair_make(&p, dev, &o);
    start(&cq, &p, for_completion);
    start(&ticket, &p, for_ticket);
    if (cq_flags & GW_CQ_SLEEP) start(&host, &p, on_the_host);
    for (int i = 0; i < 100; i++) nap(); /* asleep by now, as far as they sleep */
    raise_event("port-err");             /* which kills no queue pair */
    raise_event("port-active");
    for (int i = 0; i < 50; i++) nap();
    assert_int_equal(cq.ended | ticket.ended, 0);
    raise_event("device-fatal");
    ends(&cq);
    ends(&ticket);
    if (cq_flags & GW_CQ_SLEEP) ends(&host);
    failed(p.qp[0]);
    failed(p.qp[1]);
    /* What is made now is dead, too. */
    must(gw_cq_create(dev, &(struct gw_cq_attr){.cqe = 4}, &late));
    assert_int_equal(gw_wait_cq(gw_cq_handle(late), 1, &wc, GW_NEVER, NULL, -1), -EIO);
    must(gw_cq_destroy(late));
    pair_free(&p);
    must(gw_device_close(dev));
    /* Opened again it is another one. */
    must(gw_device_open("softnic", exec, &dev));
    pair_make(&p, dev, &o);
    pair_step(&p, STEP_PUT, 0, 0, 64, 0, 1)->flags = GW_SIGNALED;
    pair_wait(&p, 0, 1);
    pair_run_ok(&p);
    pair_free(&p);
    must(gw_device_close(dev));
    must(gw_exec_destroy(exec));
}

static void device_awake(void **state)
{
    (void)state;
    device(0);
}

static void device_asleep(void **state)
{
    (void)state;
    device(GW_CQ_SLEEP);
}

/* Its record counts more receives than it has room for: the NIC gives it up when a message comes. Its peer is
 * told, and of itself only an event. */
static void queue_pair(void **state)
{
    uint64_t until = gw_deadline(SOON);
    struct pair_opts o = {.recv_wr = 4};
    struct gw_device_info info;
    struct gw_fault fault;
    struct gw_device *dev;
    struct gw_exec *exec;
    struct pair p;

    (void)state;
    must(gw_exec_create("cpu", NULL, &exec));
    must(gw_device_open("softnic", exec, &dev));
    gw_device_query(dev, &info);
    pair_make(&p, dev, &o);
    if (info.post_mode != GW_POST_PROXY_POST) { /* there the proxy finds it out */
        gw_st_release_u32(&gw_qp_handle(p.qp[1])->dbrec[GW_MLX5_DBREC_RECV], gw_mlx5_dbrec_be(1000));
        must(gw_post_op(gw_qp_handle(p.qp[0]), gw_send_op(p.base, p.mr->lkey, 8), GW_SIGNALED, 1));
        while (gw_qp_fault(p.qp[1], &fault) != 1) {
            if (gw_clock_ns() >= until) fail_msg("the queue pair is dead, and nothing says so");
            gw_device_progress(dev);
            nap();
        }
        assert_int_equal(fault.status, IBV_WC_FATAL_ERR);
        assert_int_equal(gw_qp_handle(p.qp[0])->state, GW_QP_READY); /* it has polled nothing yet */
    }
    pair_free(&p);
    must(gw_device_close(dev));
    must(gw_exec_destroy(exec));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(device_awake), cmocka_unit_test(device_asleep),
                                       cmocka_unit_test(queue_pair)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
