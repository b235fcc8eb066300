/* SPDX-License-Identifier: Apache-2.0 */
/* Threads that stop while they post or poll: the others go on, or end with an error, and lose nothing. A NIC
 * played by a thread. */
#include "tests/verbs/meaning.h"

/* A thread stops while it posts, where CPU threads take turns. The others wait for it, but not forever.
 * Nothing remains of the requests that they could not post. */
static void *waits_to_ring(void *arg)
{
    gw_ring(arg);
    return NULL;
}

static void test_lock_held(void **state)
{
    uint64_t before = gw_clock_ns();
    struct ibv_send_wr wr, *where = NULL;
    pthread_t thread;
    struct ibv_wc wc[3];

    (void)state;
    if (lock_free) skip();
    start(8, 0);
    make(&wr, 2, 1, NULL);
    assert_int_equal(gw_post_op(r.qp, gw_put_op(1, 1, 0, 1, 8), GW_DEFER | GW_SIGNALED, 10), 0);
    assert_int_equal(gw_sq_lock_(r.qp), 0);
    assert_int_equal(pthread_create(&thread, NULL, waits_to_ring, r.qp), 0);
    assert_int_equal(gw_post_op(r.qp, gw_put_op(1, 1, 1, 1, 8), GW_SIGNALED, 11), -EAGAIN);
    pthread_join(thread, NULL);
    assert_true(gw_clock_ns() - before >= GW_SQ_LOCK_NS_);
    assert_true(gw_clock_ns() - before < 10 * (uint64_t)GW_SQ_LOCK_NS_);
    assert_int_equal(gw_poll_cq(r.cqh, 3, wc), 0);
    gw_sq_unlock_(r.qp);
    assert_int_equal(gw_post_op(r.qp, gw_put_op(1, 1, 1, 1, 8), GW_SIGNALED, 11), 0);
    assert_int_equal(gw_post_send(r.qp, &wr, &where), 0);
    take(3, wc);
    assert_int_equal(wc[0].wr_id, 10);
    assert_int_equal(wc[1].wr_id, 11);
    assert_int_equal(wc[2].wr_id, 2);
    end();
    assert_int_equal(r.wqes, 3);
}

/* The same; it goes on while others wait. */
static void *goes_on(void *arg)
{
    nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    gw_sq_unlock_(arg);
    return NULL;
}

static void test_lock_given_back(void **state)
{
    struct gw_tx tx;
    pthread_t thread;
    uint64_t t = 0;

    (void)state;
    if (lock_free) skip();
    start(8, 0);
    assert_int_equal(gw_tx_open(&tx, r.qp), 0);
    for (uint32_t i = 0; i < 3; i++) {
        struct gw_op op = gw_put_op(1, 1, i, 1, 8);
        struct ibv_send_wr wr, *where;

        make(&wr, i, 1, NULL);
        wr.send_flags = 0;
        assert_int_equal(gw_sq_lock_(r.qp), 0);
        assert_int_equal(pthread_create(&thread, NULL, goes_on, r.qp), 0);
        if (i == 0)
            assert_int_equal(gw_tx_post(&tx, op, GW_DEFER, &t), 0);
        else if (i == 1)
            assert_int_equal(gw_post_op(r.qp, gw_put_op(1, 1, i, 1, 8), 0, 0), 0);
        else
            assert_int_equal(gw_post_send(r.qp, &wr, &where), 0);
        pthread_join(thread, NULL);
    }
    assert_int_equal(gw_tx_wait(&tx, t, gw_clock_ns() + 60000000000u), 0);
    end();
    assert_int_equal(r.wqes, 3);
}

/* A thread stops while it polls: others find nothing in that time, and a wait ends when it should. */
static void test_poller_stopped(void **state)
{
    uint64_t until;
    struct ibv_wc wc[1];

    (void)state;
    start(8, 0);
    assert_int_equal(gw_post_op(r.qp, gw_put_op(1, 1, 0, 1, 8), GW_SIGNALED, 10), 0);
    assert_true(gw_cq_enter_(r.cqh));
    until = gw_clock_ns() + 20000000;
    assert_int_equal(gw_wait_cq(r.cqh, 1, wc, until, NULL, -1), -ETIMEDOUT);
    assert_true(gw_clock_ns() >= until);
    assert_int_equal(gw_poll_cq(r.cqh, 1, wc), 0);
    gw_cq_leave_(r.cqh);
    take(1, wc);
    assert_int_equal(wc[0].wr_id, 10);
    end();
}

/* A second poster publishes between the first one's doorbell and its leaving: the first must ring for it too,
 * since the second has left the ringing to it. Played step by step, in one thread. */
static void test_ring_for_late_comer(void **state)
{
    struct ibv_wc wc[2];
    struct gw_sq_ q;
    uint64_t at[2], before, seen = 0;

    (void)state;
    if (!lock_free) skip();
    start(8, 0);
    q = gw_sq_of_(r.qp);
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(gw_sq_reserve_(&q, 1, &seen, &at[i]), 0);
        gw_mlx5_put_rdma(&q.sq, (uint32_t)at[i], GW_MLX5_WRITE, GW_SIGNALED, 0, i, 1, 1, 8, 1);
        gw_sq_slot_(&q, at[i], 1, 100 + i);
    }
    before = gw_sq_idle_(0) + GW_SQ_ASK_; /* the word as the first poster left it */
    r.qp->sq_word = before;
    gw_sq_publish_(&q, at[1], 1, 1, 0); /* the second one: finds a ringer, and leaves */
    assert_int_equal(gw_poll_cq(r.cqh, 2, wc), 0);
    gw_sq_ring_claimed_(&q, before, 1); /* the first one goes on */
    assert_int_equal(r.qp->sq_word, gw_sq_idle_(2));
    take(2, wc);
    assert_int_equal(wc[0].wr_id, 100);
    assert_int_equal(wc[1].wr_id, 101);
    end();
    assert_true(r.rings <= 2 && r.rings >= 1);
}

/* Another thread is polling: there is nothing for us now, and nothing is lost. */
static void test_poll_held(void **state)
{
    struct ibv_wc wc;

    (void)state;
    start(8, 0);
    assert_int_equal(gw_post_op(r.qp, gw_put_op(1, 1, 0, 1, 8), GW_SIGNALED, 7), 0);
    while (!gw_cq_ready_(r.cqh, 0)) gw_pause(100);
    r.cqh->lock = 1;
    assert_int_equal(gw_poll_cq(r.cqh, 1, &wc), 0);
    r.cqh->lock = 0;
    assert_int_equal(gw_poll_cq(r.cqh, 1, &wc), 1);
    end();
}

/* As after a reset under threads that post: a reservation whose predecessors are gone does not wait forever.
 */
static void test_predecessors_that_are_gone(void **state)
{
    (void)state;
    if (!lock_free) skip();
    start(8, 0);
    rig_die(&r);
    r.qp->sq_resv = 2;
    r.qp->sq_ci = 0;
    assert_int_equal(gw_sq_take_back_(r.qp, 8, 4), 0);
    end();
}

static uint32_t receives_counted(void)
{
    return gw_mlx5_dbrec_count(gw_ld_relaxed_u32(&r.dbrec[GW_MLX5_DBREC_RECV]));
}

/* A thread stops for long while it posts receives, before and after it has asked for the record. The others
 * do not wait for it. The NIC does not see theirs before its own; and when it goes on, it sees all. */
static void test_receives_behind_a_stopped_thread(void **state)
{
    uint64_t at = 0, claim;

    (void)state;
    start(8, 0);
    assert_int_equal(gw_rq_reserve_(r.qp, 2, &at), 0);
    assert_int_equal(gw_recv(r.qp, 0x1000, 1, 8, 1), 0);
    assert_int_equal(gw_recv_empty(r.qp, 2, 2), 0);
    assert_int_equal(receives_counted(), 0);
    claim = gw_rq_claim_(r.qp, at);
    gw_rq_publish_(r.qp, at, 2, claim);
    assert_int_equal(receives_counted(), 5);
    assert_int_equal(gw_rq_reserve_(r.qp, 1, &at), 0);
    claim = gw_rq_claim_(r.qp, at);
    assert_int_equal(gw_recv(r.qp, 0x1000, 1, 8, 1), 0);
    assert_int_equal(gw_recv_empty(r.qp, 1, 2), 0);
    assert_int_equal(receives_counted(), 5);
    gw_rq_publish_(r.qp, at, 1, claim);
    assert_int_equal(receives_counted(), 8);
    assert_int_equal(gw_recv_empty(r.qp, 1, 2), -EAGAIN);
    end();
}

/* Threads that reserve in one queue of four, a number each, and complete them at once; what does not fit they
 * try again. */
struct taker {
    pthread_t thread;
    bool sends;
    uint32_t n, full; /* entries at a time; how often there was no room */
    uint32_t *start;
};

static void *takes(void *arg)
{
    struct taker *t = arg;
    struct gw_sq_ q = gw_sq_of_(r.qp);
    uint64_t at = 0, *done = t->sends ? &r.qp->sq_ci : &r.qp->rq_ci;

    gw_add_relaxed_u32(t->start, 1);
    while (gw_ld_relaxed_u32(t->start) % 3) gw_pause(0);
    for (uint32_t i = 0; i < 30000;) {
        if (t->sends ? gw_sq_room_(&q, t->n, &at) : gw_rq_reserve_(r.qp, t->n, &at)) {
            t->full++;
            if (t->n > 1) i++;
            continue;
        }
        for (uint32_t k = 0; gw_ld_acquire_u64_gpu(done) != at;) gw_pause(k++);
        gw_st_release_u64_gpu(done, at + t->n);
        i++;
    }
    return NULL;
}

/* Of three that want 3, 2 and 1 of four entries the last always finds room: only one of the others can have
 * found any. */
static void test_room_is_found(void **state)
{
    uint32_t n, round, start_at;

    (void)state;
    if (!lock_free) skip();
    for (round = 0; round < 2; round++) {
        struct taker t[3] = {{0}};

        start(4, 0);
        rig_die(&r);
        r.qp->rq_wqes = 4;
        start_at = 0;
        for (n = 0; n < 3; n++) {
            t[n].n = 3 - n;
            t[n].sends = round;
            t[n].start = &start_at;
            assert_int_equal(pthread_create(&t[n].thread, NULL, takes, &t[n]), 0);
        }
        for (n = 0; n < 3; n++) pthread_join(t[n].thread, NULL);
        assert_int_equal(t[2].full, 0);
        end();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lock_held),
        cmocka_unit_test(test_lock_given_back),
        cmocka_unit_test(test_poller_stopped),
        cmocka_unit_test(test_ring_for_late_comer),
        cmocka_unit_test(test_poll_held),
        cmocka_unit_test(test_predecessors_that_are_gone),
        cmocka_unit_test(test_receives_behind_a_stopped_thread),
        cmocka_unit_test(test_room_is_found),
    };

    return RUN_MEANING(tests);
}
