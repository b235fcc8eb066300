/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A WRITE may come before the bytes of an earlier one: on several paths, or with relaxed ordering. With
 * hostile=2 the software NIC does that everywhere, and with hostile=1 in relaxed regions. gpuwire's promises
 * must hold all the same. And the test must see orders fail that nothing promises: else it could not fail.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <gpuwire/exec.h>
#include <gpuwire/verbs.h>

#define LIMIT UINT64_C(20000000000)
enum { ROUNDS = 40, BYTES = 4096, WORD = 8192, BACK = 16384, SIZE = 32768 };

static struct gw_exec *exec;
static struct gw_device *dev;
static struct gw_pd *pd;
static struct gw_cq *cq, *peer_cq;
static struct gw_qp *qp, *peer;
static struct gw_mem mem, target;
static struct gw_mr *mr, *target_mr;

static void must(int err)
{
    if (err) fail_msg("%d: %s", err, gw_last_error());
}

static struct gw_qp *new_qp(struct gw_cq *its)
{
    struct gw_qp_attr a = {.max_send_wr = 16, .max_recv_wr = 16, .send_cq = its, .recv_cq = its};
    struct gw_qp *made;

    must(gw_qp_create(pd, &a, &made));
    return made;
}

static int make(void **state)
{
    struct gw_cq_attr a = {.cqe = 64};
    struct gw_endpoint ep[2];

    (void)state;
    must(gw_exec_create("cpu", NULL, &exec));
    must(gw_device_open("softnic", exec, &dev));
    must(gw_pd_create(dev, &pd));
    must(gw_cq_create(dev, &a, &cq));
    must(gw_cq_create(dev, &a, &peer_cq));
    qp = new_qp(cq);
    peer = new_qp(peer_cq);
    gw_qp_endpoint(qp, &ep[0]);
    gw_qp_endpoint(peer, &ep[1]);
    must(gw_qp_connect(qp, &ep[1], NULL));
    must(gw_qp_connect(peer, &ep[0], NULL));
    must(gw_mem_alloc(exec, GW_MEM_HOST, SIZE, &mem));
    must(gw_mem_alloc(exec, GW_MEM_HOST, SIZE, &target));
    must(gw_mr_register(pd, mem.host, SIZE, 0, &mr));
    must(gw_mr_register(pd, target.host, SIZE, 0, &target_mr));
    return 0;
}

static int end(void **state)
{
    (void)state;
    must(gw_qp_destroy(qp));
    must(gw_qp_destroy(peer));
    must(gw_cq_destroy(cq));
    must(gw_cq_destroy(peer_cq));
    must(gw_mr_free(mr));
    must(gw_mr_free(target_mr));
    gw_mem_free(&mem);
    gw_mem_free(&target);
    must(gw_pd_destroy(pd));
    must(gw_device_close(dev));
    must(gw_exec_destroy(exec));
    return 0;
}

/* ---- what is posted ------------------------------------------------------------------------------------ */

/* The next round's payload at this end; nothing but zeros at the other. */
static void fill(uint32_t round)
{
    uint8_t *from = mem.host;

    for (size_t i = 0; i < BYTES; i++) from[i] = (uint8_t)(i * 7 + round) | 1;
    memset(target.host, 0, BYTES);
}

static int arrived(void)
{
    return !memcmp(target.host, mem.host, BYTES);
}

static struct gw_op payload(void)
{
    return gw_put_op(mr->addr, mr->lkey, target_mr->addr, target_mr->rkey, BYTES);
}

static void post(struct gw_op op, uint32_t flags)
{
    must(gw_post_op(gw_qp_handle(qp), op, flags, 1));
}

/* The peer polls its memory; value: what the word is then. */
static void see_word(uint64_t value)
{
    const uint64_t *word = (const uint64_t *)((const uint8_t *)target.host + WORD);
    uint64_t until = gw_deadline(LIMIT);

    while (gw_ld_acquire_u64(word) != value) {
        gw_device_progress(dev);
        if (gw_clock_ns() > until) fail_msg("the word did not come");
    }
}

static struct ibv_wc next(struct gw_cq *of)
{
    uint64_t until = gw_deadline(LIMIT);
    struct ibv_wc wc = {0};
    int n;

    while (!(n = gw_poll_cq(gw_cq_handle(of), 1, &wc)) && gw_clock_ns() < until) gw_pause(1);
    assert_int_equal(n, 1);
    assert_int_equal(wc.status, IBV_WC_SUCCESS);
    return wc;
}

/* ---- what nothing promises ----------------------------------------------------------------------------- */

/* Whether the NIC was told that it may: for all regions, or for those that this process registers. */
static int may_overtake(void)
{
    const char *relaxed = getenv("GPUWIRE_RELAXED_ORDERING");

    return strstr(getenv("GPUWIRE_NIC"), "hostile=2") || (relaxed && *relaxed == '1');
}

/* A flag that a plain put sets is seen before the payload of the put before it. */
static void a_put_overtakes(void **state)
{
    uint64_t *flag = (uint64_t *)((uint8_t *)mem.host + WORD);
    int overtaken = 0;

    (void)state;
    *(uint64_t *)((uint8_t *)target.host + WORD) = 0;
    for (uint32_t i = 1; i <= ROUNDS; i++) {
        fill(i);
        *flag = i;
        post(payload(), GW_DEFER);
        post(gw_put_op(mr->addr + WORD, mr->lkey, target_mr->addr + WORD, target_mr->rkey, 8), 0);
        see_word(i);
        overtaken += !arrived();
        /* A request that completes, so that the queue never fills; and nothing is left. */
        post(gw_put_op(0, 0, 0, 0, 0), GW_SIGNALED);
        (void)next(cq);
    }
    if (may_overtake())
        assert_in_range(overtaken, 1, ROUNDS);
    else
        assert_int_equal(overtaken, 0);
}

/* ---- what is promised ---------------------------------------------------------------------------------- */

static void signal_is_behind(void **state)
{
    uint64_t *word = (uint64_t *)((uint8_t *)target.host + WORD);

    (void)state;
    *word = 0;
    for (uint32_t i = 1; i <= ROUNDS; i++) {
        fill(i);
        post(gw_with_signal(payload(), target_mr->addr + WORD, target_mr->rkey, 1), i % 8 ? 0 : GW_SIGNALED);
        see_word(i);
        if (!arrived()) fail_msg("round %u: the signal came before its put", i);
        if (i % 8 == 0) (void)next(cq);
    }
}

static void immediate_is_behind(void **state)
{
    (void)state;
    for (uint32_t i = 1; i <= ROUNDS; i++) {
        fill(i);
        must(gw_recv_empty(gw_qp_handle(peer), 1, 2));
        post(payload(), GW_DEFER);
        post(gw_put_imm_op(0, 0, 0, 0, 0, i), GW_SIGNALED);
        (void)next(peer_cq);
        if (!arrived()) fail_msg("round %u: the immediate came before the put", i);
        (void)next(cq);
    }
}

static void send_is_behind(void **state)
{
    (void)state;
    for (uint32_t i = 1; i <= ROUNDS; i++) {
        fill(i);
        must(gw_recv(gw_qp_handle(peer), target_mr->addr + WORD, target_mr->lkey, 8, 2));
        post(payload(), GW_DEFER);
        post(gw_send_op(mr->addr, mr->lkey, 8), GW_SIGNALED);
        (void)next(peer_cq);
        if (!arrived()) fail_msg("round %u: the SEND came before the put", i);
        (void)next(cq);
    }
}

/* A READ reads what was written before it. */
static void read_is_behind(void **state)
{
    (void)state;
    for (uint32_t i = 1; i <= ROUNDS; i++) {
        fill(i);
        post(payload(), GW_DEFER);
        post(gw_get_op(mr->addr + BACK, mr->lkey, target_mr->addr, target_mr->rkey, BYTES), GW_SIGNALED);
        (void)next(cq);
        if (memcmp((uint8_t *)mem.host + BACK, mem.host, BYTES))
            fail_msg("round %u: the READ read what was there before the put", i);
    }
}

/* Completions come all the same, also unpolled ones. */
static void comes_in_the_end(void **state)
{
    uint64_t until = gw_deadline(LIMIT);

    (void)state;
    fill(1);
    post(payload(), 0);
    while (!arrived() && gw_clock_ns() < until) gw_device_progress(dev);
    assert_true(arrived());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_put_overtakes),     cmocka_unit_test(signal_is_behind),
        cmocka_unit_test(immediate_is_behind), cmocka_unit_test(send_is_behind),
        cmocka_unit_test(read_is_behind),      cmocka_unit_test(comes_in_the_end),
    };

    setenv("GPUWIRE_NIC", "addr=127.0.0.1,hostile=2,seed=11", 0);
    return cmocka_run_group_tests(tests, make, end);
}
