/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that share a queue pair ring in the order in which they publish. The software NIC goes by the index
 * in a ring (ring=index), and ends a queue pair when a ring comes after a newer one. Here a thread may pause
 * right before its store to the register, so that another one overtakes it if it can.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <pthread.h>
#include <time.h>

#include <cmocka.h>

#include <gpuwire/sync.h>

/* All of the posting functions below ring with this. */
static void late_st64(void *reg, uint64_t value);
#define gw_mmio_st64 late_st64
#include <gpuwire/exec.h>
#include <gpuwire/verbs.h>
#undef gw_mmio_st64

#define LIMIT UINT64_C(20000000000)
enum { POSTERS = 4, EACH = 400, SIZE = 4096 };

static struct gw_exec *exec;
static struct gw_device *dev;

static _Thread_local uint32_t drawn;

static void late_st64(void *reg, uint64_t value)
{
    const struct timespec pause = {.tv_nsec = 50000};

    drawn = drawn * 1664525u + 1013904223u;
    if (drawn >> 29 == 0) nanosleep(&pause, NULL);
    gw_mmio_st64(reg, value);
}

struct rig {
    struct gw_pd *pd;
    struct gw_cq *cq;
    struct gw_qp *qp; /* connected to itself */
    struct gw_mem mem;
    struct gw_mr *mr;
};

struct poster {
    struct rig *r;
    uint32_t number, defer;
    int err;
};

static void must(int err)
{
    if (err) fail_msg("%d: %s", err, gw_last_error());
}

static void begin(struct rig *r, uint32_t qp_flags)
{
    struct gw_cq_attr ca = {.cqe = 256};
    struct gw_qp_attr qa = {.max_send_wr = 64, .max_recv_wr = 1, .flags = qp_flags};
    struct gw_endpoint itself;

    must(gw_pd_create(dev, &r->pd));
    must(gw_cq_create(dev, &ca, &r->cq));
    qa.send_cq = qa.recv_cq = r->cq;
    must(gw_qp_create(r->pd, &qa, &r->qp));
    gw_qp_endpoint(r->qp, &itself);
    must(gw_qp_connect(r->qp, &itself, NULL));
    must(gw_mem_alloc(exec, GW_MEM_HOST, SIZE, &r->mem));
    must(gw_mr_register(r->pd, r->mem.host, SIZE, 0, &r->mr));
}

static void end(struct rig *r)
{
    must(gw_qp_destroy(r->qp));
    must(gw_cq_destroy(r->cq));
    must(gw_mr_free(r->mr));
    gw_mem_free(&r->mem);
    must(gw_pd_destroy(r->pd));
}

static void *post(void *arg)
{
    struct poster *p = arg;
    struct gw_qp_handle *qp = gw_qp_handle(p->r->qp);
    uint64_t at = p->r->mr->addr + 8 * (uint64_t)p->number, until = gw_deadline(LIMIT);

    drawn = p->number * 2654435761u;
    for (uint32_t i = 0; i < EACH && !p->err;) {
        struct gw_op op = gw_put_op(at, p->r->mr->lkey, at, p->r->mr->rkey, 8);

        p->err = gw_post_op(qp, op, GW_SIGNALED | (i % 4 < p->defer ? GW_DEFER : 0), 1);
        if (!p->err) i++;
        if (p->err == -EAGAIN && gw_clock_ns() < until) p->err = 0;
    }
    gw_ring(qp);
    return NULL;
}

/* defer: of four requests of a thread, these are left to others' rings. */
static void in_order(uint32_t qp_flags, uint32_t defer)
{
    struct poster posters[POSTERS];
    pthread_t thread[POSTERS];
    uint64_t until = gw_deadline(LIMIT);
    uint32_t done = 0;
    struct rig r;

    begin(&r, qp_flags);
    for (uint32_t i = 0; i < POSTERS; i++) {
        posters[i] = (struct poster){&r, i, defer, 0};
        must(-pthread_create(&thread[i], NULL, post, &posters[i]));
    }
    while (done < POSTERS * EACH && gw_clock_ns() < until) {
        struct ibv_wc wc;
        int n = gw_poll_cq(gw_cq_handle(r.cq), 1, &wc);

        if (n == 1 && wc.status != IBV_WC_SUCCESS) break;
        done += n == 1;
    }
    if (done < POSTERS * EACH) must(gw_qp_abort(r.qp)); /* posters see that, and end */
    for (uint32_t i = 0; i < POSTERS; i++) must(-pthread_join(thread[i], NULL));
    if (done < POSTERS * EACH) fail_msg("only %u of %u requests were executed", done, POSTERS * EACH);
    for (uint32_t i = 0; i < POSTERS; i++) assert_int_equal(posters[i].err, 0);
    end(&r);
}

static void without_a_lock(void **state)
{
    (void)state;
    in_order(GW_QP_LOCK_FREE, 0);
}

static void without_a_lock_deferred(void **state)
{
    (void)state;
    in_order(GW_QP_LOCK_FREE, 2);
}

static void in_turns(void **state)
{
    (void)state;
    in_order(0, 0);
    in_order(0, 2);
}

static int open_all(void **state)
{
    (void)state;
    must(gw_exec_create("cpu", NULL, &exec));
    must(gw_device_open("softnic", exec, &dev));
    return 0;
}

static int close_all(void **state)
{
    (void)state;
    return gw_device_close(dev) || gw_exec_destroy(exec);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(without_a_lock),
                                       cmocka_unit_test(without_a_lock_deferred), cmocka_unit_test(in_turns)};

    setenv("GPUWIRE_NIC", "addr=127.0.0.1,ring=index", 0);
    return cmocka_run_group_tests(tests, open_all, close_all);
}
