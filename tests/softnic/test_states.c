/* SPDX-License-Identifier: Apache-2.0 */
/* The states of a queue pair: which transitions exist, what they need and refuse, and what a state lets
 * through. */
#include "tests/softnic/rig.h"

static struct rig r;

static int up(void **state)
{
    (void)state;
    rig_up(&r, NULL);
    return 0;
}

static int down(void **state)
{
    (void)state;
    rig_down(&r);
    return 0;
}

enum {
    TO_INIT = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
    TO_RTR = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
             IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
    TO_RTS = IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
             IBV_QP_MAX_QP_RD_ATOMIC,
};

static struct ibv_qp_attr good(enum ibv_qp_state to)
{
    struct ibv_qp_attr a = {.qp_state = to,
                            .port_num = 1,
                            .path_mtu = IBV_MTU_1024,
                            .dest_qp_num = 0x10002,
                            .ah_attr = {.is_global = 1, .port_num = 1}};

    memcpy(a.ah_attr.grh.dgid.raw, r.w.nics[1].gid, 16);
    return a;
}

static int modify(enum ibv_qp_state to, int mask)
{
    struct ibv_qp_attr a = good(to);

    return sn_qp_modify(r.a.qp.qp, &a, mask);
}

static void go(enum ibv_qp_state to)
{
    assert_int_equal(modify(IBV_QPS_RESET, IBV_QP_STATE), 0);
    if (to == IBV_QPS_ERR) {
        assert_int_equal(modify(to, IBV_QP_STATE), 0);
        return;
    }
    if (to >= IBV_QPS_INIT) assert_int_equal(modify(IBV_QPS_INIT, TO_INIT), 0);
    if (to >= IBV_QPS_RTR) assert_int_equal(modify(IBV_QPS_RTR, TO_RTR), 0);
    if (to >= IBV_QPS_RTS) assert_int_equal(modify(IBV_QPS_RTS, TO_RTS), 0);
    if (to == IBV_QPS_SQD) assert_int_equal(modify(IBV_QPS_SQD, IBV_QP_STATE), 0);
}

static void only_the_transitions_of_the_table_exist(void **state)
{
    /* rows: from; columns: to RESET INIT RTR RTS SQD SQE ERR */
    static const char *const table[] = {
        [IBV_QPS_RESET] = "11....1", [IBV_QPS_INIT] = "111...1", [IBV_QPS_RTR] = "1..1..1",
        [IBV_QPS_RTS] = "1..11.1",   [IBV_QPS_SQD] = "1..11.1",  [IBV_QPS_ERR] = "1.....1",
    };
    static const int masks[] = {IBV_QP_STATE, TO_INIT,      TO_RTR,      TO_RTS,
                                IBV_QP_STATE, IBV_QP_STATE, IBV_QP_STATE};

    (void)state;
    for (enum ibv_qp_state from = IBV_QPS_RESET; from <= IBV_QPS_ERR; from++) {
        if (!table[from]) continue;
        for (enum ibv_qp_state to = IBV_QPS_RESET; to <= IBV_QPS_ERR; to++) {
            int mask = masks[to];

            go(from);
            if (to == IBV_QPS_RTS && from != IBV_QPS_RTR) mask = IBV_QP_STATE;
            if (modify(to, mask) == (table[from][to] == '1' ? 0 : -EINVAL)) continue;
            fail_msg("from state %d to %d", from, to);
        }
    }
}

static void each_attribute_is_needed(void **state)
{
    static const struct {
        enum ibv_qp_state from, to;
        int mask;
    } steps[] = {{IBV_QPS_RESET, IBV_QPS_INIT, TO_INIT},
                 {IBV_QPS_INIT, IBV_QPS_RTR, TO_RTR},
                 {IBV_QPS_RTR, IBV_QPS_RTS, TO_RTS}};

    (void)state;
    for (int i = 0; i < 3; i++) {
        for (int bit = 1; bit < 1 << 21; bit <<= 1) {
            if (!(steps[i].mask & bit) || bit == IBV_QP_STATE) continue;
            go(steps[i].from);
            assert_int_equal(modify(steps[i].to, steps[i].mask & ~bit), -EINVAL);
            assert_int_equal(app_state(&r.a.qp), steps[i].from);
        }
        go(steps[i].from);
        assert_int_equal(modify(steps[i].to, steps[i].mask | IBV_QP_QKEY), -EINVAL);
        assert_int_equal(modify(steps[i].to, steps[i].mask), 0);
    }
}

static void values_are_checked(void **state)
{
    struct ibv_qp_attr a;

    (void)state;
#define REFUSED(to, mask, set)                                                                               \
    do {                                                                                                     \
        a = good(to);                                                                                        \
        a.set;                                                                                               \
        assert_int_equal(sn_qp_modify(r.a.qp.qp, &a, mask), -EINVAL);                                        \
    } while (0)
    REFUSED(IBV_QPS_INIT, TO_INIT, port_num = 2);
    REFUSED(IBV_QPS_INIT, TO_INIT, pkey_index = 1);
    REFUSED(IBV_QPS_INIT, TO_INIT | IBV_QP_CUR_STATE, cur_qp_state = IBV_QPS_RTS);
    go(IBV_QPS_INIT);
    REFUSED(IBV_QPS_RTR, TO_RTR, ah_attr.is_global = 0);
    REFUSED(IBV_QPS_RTR, TO_RTR, ah_attr.grh.sgid_index = 1); /* an engine alone has one */
    REFUSED(IBV_QPS_RTR, TO_RTR, path_mtu = 6);
    REFUSED(IBV_QPS_RTR, TO_RTR, path_mtu = 0);
    REFUSED(IBV_QPS_RTR, TO_RTR, dest_qp_num = 1 << 24);
    REFUSED(IBV_QPS_RTR, TO_RTR, max_dest_rd_atomic = 17);
    REFUSED(IBV_QPS_RTR, TO_RTR, min_rnr_timer = 32);
    go(IBV_QPS_RTR);
    REFUSED(IBV_QPS_RTS, TO_RTS, timeout = 32);
    REFUSED(IBV_QPS_RTS, TO_RTS, retry_cnt = 8);
    REFUSED(IBV_QPS_RTS, TO_RTS, rnr_retry = 8);
    REFUSED(IBV_QPS_RTS, TO_RTS, max_rd_atomic = 17);
    assert_int_equal(app_state(&r.a.qp), IBV_QPS_RTR);
}

/* FLUSH_GLOBAL, FLUSH_PERSISTENT, and bits that no header names. */
static void access_flags_without_a_use_are_ignored(void **state)
{
    struct ibv_qp_attr a = good(IBV_QPS_INIT);

    (void)state;
    a.qp_access_flags = 0xfffffff0;
    assert_int_equal(sn_qp_modify(r.a.qp.qp, &a, TO_INIT), 0);
    assert_int_equal(sn_qp_query(r.a.qp.qp, &a), 0);
    assert_int_equal(a.qp_access_flags & IBV_ACCESS_REMOTE_WRITE, 0);
    for (int bit = 0; bit < 32; bit++) {
        a = good(IBV_QPS_INIT);
        a.qp_access_flags = 1u << bit;
        assert_int_equal(sn_qp_modify(r.a.qp.qp, &a, IBV_QP_STATE | IBV_QP_ACCESS_FLAGS), 0);
    }
}

static void a_query_says_what_was_set(void **state)
{
    struct ibv_qp_attr a;

    (void)state;
    rig_connect(&r);
    assert_int_equal(sn_qp_query(r.a.qp.qp, &a), 0);
    assert_int_equal(a.qp_state, IBV_QPS_RTS);
    assert_int_equal(a.dest_qp_num, r.b.qp.sq.qpn);
    assert_int_equal(a.path_mtu, IBV_MTU_1024);
    assert_int_equal(a.sq_psn, app_connect_default.psn_here);
    assert_int_equal(a.rq_psn, app_connect_default.psn_there);
    assert_int_equal(a.retry_cnt, 7);
    assert_int_equal(a.timeout, app_connect_default.timeout);
}

static void rings_before_rts_do_nothing(void **state)
{
    (void)state;
    go(IBV_QPS_RTR);
    post(&r, GW_MLX5_SEND, 0, 10, 0);
    world_settle(&r.w, MS);
    expect_nothing(&r.a);
    expect_report(&r, "not yet in RTS");
}

static void numbers_begin_with_the_slot(void **state)
{
    (void)state;
    assert_int_equal(r.a.qp.sq.qpn >> 16, 0);
    assert_int_equal(r.b.qp.sq.qpn >> 16, 1);
    assert_true(r.a.qp.sq.qpn > 1);
}

/* Through RESET a queue pair is as new: PSNs, queues, what was under way. */
static void a_reset_queue_pair_is_as_new(void **state)
{
    (void)state;
    rig_connect(&r);
    post(&r, GW_MLX5_SEND, 0, 100, 0); /* RNR forever */
    world_settle(&r.w, MS);
    for (int i = 0; i < 2; i++) {
        struct app_qp *q = i ? &r.b.qp : &r.a.qp;
        struct ibv_qp_attr a = {.qp_state = IBV_QPS_RESET};

        assert_int_equal(sn_qp_modify(q->qp, &a, IBV_QP_STATE), 0);
        q->sq_pi = q->rq_pi = q->dbrec[0] = q->dbrec[1] = 0;
    }
    world_settle(&r.w, 100 * MS);
    expect_nothing(&r.a);
    rig_connect(&r);
    post_recv(&r.b, 0, 100);
    post(&r, GW_MLX5_SEND, 0, 100, 0);
    world_settle(&r.w, MS);
    assert_int_equal(expect(&r.a, GW_MLX5_CQE_REQ).wqe_counter, 0);
    expect(&r.b, GW_MLX5_CQE_RESP_SEND);
}

static void sqd_drains_and_goes_on(void **state)
{
    struct ibv_qp_attr a = {.qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1};

    (void)state;
    rig_connect(&r);
    post(&r, GW_MLX5_WRITE, 0, 3000, 0);
    world_run(&r.w, 0);
    assert_int_equal(sn_qp_modify(r.a.qp.qp, &a, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY), 0);
    post(&r, GW_MLX5_WRITE, 0, 10, 0);
    world_settle(&r.w, MS);
    expect(&r.a, GW_MLX5_CQE_REQ);
    expect_nothing(&r.a);
    assert_int_equal(r.w.events[IBV_EVENT_SQ_DRAINED], 1);
    assert_int_equal(modify(IBV_QPS_RTS, IBV_QP_STATE), 0);
    world_settle(&r.w, MS);
    expect(&r.a, GW_MLX5_CQE_REQ);
}

static void set_in_sqd(struct end *e, int mask, uint8_t n)
{
    struct ibv_qp_attr a = {.qp_state = IBV_QPS_SQD, .max_rd_atomic = n, .max_dest_rd_atomic = n};

    assert_int_equal(sn_qp_modify(e->qp.qp, &a, IBV_QP_STATE), 0);
    assert_int_equal(sn_qp_modify(e->qp.qp, &a, mask), 0);
}

static void back_to_rts(struct end *e)
{
    struct ibv_qp_attr a = {.qp_state = IBV_QPS_RTS};

    assert_int_equal(sn_qp_modify(e->qp.qp, &a, IBV_QP_STATE), 0);
    world_settle(&r.w, 10000ull * MS);
}

static void fewer_reads_than_are_under_way(void **state)
{
    (void)state;
    rig_connect(&r);
    memset(r.b.mem, 7, RIG_MEM);
    for (uint32_t i = 0; i < 6; i++) post(&r, GW_MLX5_READ, 3000 * i, 3000, 0);
    world_run(&r.w, 0); /* 4 leave */
    set_in_sqd(&r.a, IBV_QP_MAX_QP_RD_ATOMIC, 1);
    back_to_rts(&r.a);
    for (int i = 0; i < 6; i++) expect(&r.a, GW_MLX5_CQE_REQ);
    assert_memory_equal(r.a.mem, r.b.mem, 18000);
}

/* Requests that have begun are finished; the next has nothing to wait for. */
static void no_reads_any_more(void **state)
{
    (void)state;
    rig_connect(&r);
    for (uint32_t i = 0; i < 6; i++) post(&r, GW_MLX5_READ, 3000 * i, 3000, 0);
    world_run(&r.w, 0);
    set_in_sqd(&r.a, IBV_QP_MAX_QP_RD_ATOMIC, 0);
    back_to_rts(&r.a);
    for (int i = 0; i < 4; i++) expect(&r.a, GW_MLX5_CQE_REQ);
    expect_error(&r.a, GW_MLX5_CQE_REQ_ERR, GW_MLX5_SYND_LOCAL_QP_OP);
    expect_error(&r.a, GW_MLX5_CQE_REQ_ERR, GW_MLX5_SYND_FLUSHED);
    expect_report(&r, "max_rd_atomic");
}

/* The responder answers what it has accepted, whatever it agrees to from now on. */
static void fewer_answers_than_are_owed(void **state)
{
    static const struct world_options slow = {.seed = 1, .budget = 1};

    (void)state;
    rig_down(&r);
    rig_up(&r, &slow);
    rig_connect(&r);
    memset(r.b.mem, 7, RIG_MEM);
    for (uint32_t i = 0; i < 3; i++) post(&r, GW_MLX5_READ, 15000 * i, 15000, 0);
    for (int i = 0; i < 20; i++) world_run(&r.w, 0);
    while (counters(&r, 1).tx_packets < 20) {
        world_advance(&r.w, 1000);
        world_run(&r.w, 1);
    }
    assert_int_equal(counters(&r, 1).rx_packets, 3);
    assert_true(counters(&r, 1).tx_packets < 40);
    set_in_sqd(&r.b, IBV_QP_MAX_DEST_RD_ATOMIC, 1);
    back_to_rts(&r.b);
    for (int i = 0; i < 3; i++) expect(&r.a, GW_MLX5_CQE_REQ);
    assert_memory_equal(r.a.mem, r.b.mem, 45000);
    assert_int_equal(counters(&r, 0).retransmits, 0);
}

enum end_how { BY_RESET, BY_ERROR, BY_DESTROYING };

static void end_queue_pair(struct end *e, enum end_how how)
{
    struct ibv_qp_attr a = {.qp_state = how == BY_RESET ? IBV_QPS_RESET : IBV_QPS_ERR};
    struct app_qp_options o = {.type = IBV_QPT_RC};

    if (how != BY_DESTROYING) {
        assert_int_equal(sn_qp_modify(e->qp.qp, &a, IBV_QP_STATE), 0);
        return;
    }
    app_qp_down(&e->qp);
    app_qp_up(&e->qp, &r.w.nics[1], e->pd, e->uar, &e->cq, &e->cq, &o); /* for who takes all down */
}

/* A program may end the moment it sees a message, and that moment may come before the NIC's next turn. */
static void a_message_seen_is_acknowledged_whatever_comes_next(void **state)
{
    static const struct world_options slow = {.seed = 1, .budget = 1};

    (void)state;
    for (enum end_how how = BY_RESET; how <= BY_DESTROYING; how++) {
        struct gw_mlx5_wc wc;

        rig_down(&r);
        rig_up(&r, &slow);
        rig_connect(&r);
        post_recv(&r.b, 0, 100);
        post(&r, GW_MLX5_SEND, 0, 100, 0);
        for (int i = 0; i < 20; i++) world_run(&r.w, 0);
        for (int i = 0; i < 20 && !app_poll(&r.b.cq, &wc, NULL); i++) {
            world_advance(&r.w, 1000);
            world_run(&r.w, 1);
        }
        assert_int_equal(wc.opcode, GW_MLX5_CQE_RESP_SEND);
        assert_int_equal(counters(&r, 1).acks_sent, 0);
        end_queue_pair(&r.b, how);
        assert_int_equal(counters(&r, 1).acks_sent, 1);
        world_settle(&r.w, MS);
        expect(&r.a, GW_MLX5_CQE_REQ);
    }
}

static void ringable_counts_those_beyond_init(void **state)
{
    struct sn_nic *nic = r.w.nics[0].nic;

    (void)state;
    assert_int_equal(sn_nic_ringable(nic), 0);
    go(IBV_QPS_INIT);
    assert_int_equal(sn_nic_ringable(nic), 0);
    go(IBV_QPS_RTS);
    assert_int_equal(sn_nic_ringable(nic), 1);
    go(IBV_QPS_RESET);
    assert_int_equal(sn_nic_ringable(nic), 0);
}

static void kinds_and_sizes_are_checked(void **state)
{
    uint8_t *buf = aligned_alloc(64, 4096);
    uint32_t dbrec[2] __attribute__((aligned(8)));
    struct sn_qp_init i = {.type = IBV_QPT_RAW_PACKET,
                           .pd = r.a.pd,
                           .send_cq = r.a.cq.cq,
                           .recv_cq = r.a.cq.cq,
                           .sq_buf = buf,
                           .sq_wqebbs = 4,
                           .dbrec = dbrec,
                           .uar = r.a.uar};
    struct sn_qp *qp;

    (void)state;
    assert_int_equal(sn_qp_create(r.w.nics[0].nic, &i, &qp), -EOPNOTSUPP);
    i.type = IBV_QPT_RC;
    i.sq_wqebbs = 3;
    assert_int_equal(sn_qp_create(r.w.nics[0].nic, &i, &qp), -EINVAL);
    i.sq_wqebbs = 65536;
    assert_int_equal(sn_qp_create(r.w.nics[0].nic, &i, &qp), -EINVAL);
    i.sq_wqebbs = 4;
    i.bfreg = 4;
    assert_int_equal(sn_qp_create(r.w.nics[0].nic, &i, &qp), -EINVAL);
    i.bfreg = 0;
    i.rq_buf = buf;
    i.rq_wqes = 4;
    i.rq_stride = 24;
    assert_int_equal(sn_qp_create(r.w.nics[0].nic, &i, &qp), -EINVAL);
    free(buf);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, up, down)
    const struct CMUnitTest tests[] = {
        T(only_the_transitions_of_the_table_exist),
        T(each_attribute_is_needed),
        T(values_are_checked),
        T(access_flags_without_a_use_are_ignored),
        T(a_query_says_what_was_set),
        T(rings_before_rts_do_nothing),
        T(numbers_begin_with_the_slot),
        T(a_reset_queue_pair_is_as_new),
        T(sqd_drains_and_goes_on),
        T(fewer_reads_than_are_under_way),
        T(no_reads_any_more),
        T(fewer_answers_than_are_owed),
        T(a_message_seen_is_acknowledged_whatever_comes_next),
        T(ringable_counts_those_beyond_init),
        T(kinds_and_sizes_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
