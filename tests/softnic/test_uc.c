/* SPDX-License-Identifier: Apache-2.0 */
/* Unreliable connections: messages arrive whole or not at all, without any answer. */
#include <sys/mman.h>

#include "softnic/nic/introspect.h"
#include "tests/softnic/fixture.h"

enum { MTU = 1024 };

static int up_uc(void **state)
{
    (void)state;
    return up_as(IBV_QPT_UC);
}

static void settle(void)
{
    world_settle(&r.w, 5 * MS);
}

static void all_kinds_arrive(void **state)
{
    struct gw_mlx5_wc wc;

    (void)state;
    for (uint32_t i = 0; i < 5000; i++) r.a.mem[i] = (uint8_t)(i * 7);
    post_recv(&r.b, 0, 5000);
    post(&r, GW_MLX5_SEND, 0, 5000, 0);
    settle();
    expect(&r.a, GW_MLX5_CQE_REQ);
    wc = expect(&r.b, GW_MLX5_CQE_RESP_SEND);
    assert_int_equal(wc.byte_cnt, 5000);
    assert_int_equal(wc.src_qp, r.a.qp.sq.qpn);
    assert_memory_equal(r.b.mem, r.a.mem, 5000);
    post(&r, GW_MLX5_WRITE, 0, 3000, 8000);
    post_recv(&r.b, 0, 16);
    post_recv(&r.b, 0, 16);
    post(&r, GW_MLX5_WRITE_IMM, 100, 2048, 12000);
    post(&r, GW_MLX5_SEND_IMM, 0, 0, 0);
    settle();
    for (int i = 0; i < 3; i++) expect(&r.a, GW_MLX5_CQE_REQ);
    assert_int_equal(expect(&r.b, GW_MLX5_CQE_RESP_WR_IMM).byte_cnt, 2048);
    assert_int_equal(expect(&r.b, GW_MLX5_CQE_RESP_SEND_IMM).byte_cnt, 0);
    assert_memory_equal(r.b.mem + 8000, r.a.mem, 3000);
    assert_memory_equal(r.b.mem + 12000, r.a.mem + 100, 2048);
    assert_int_equal(counters(&r, 1).tx_packets, 0); /* not a word */
    assert_int_equal(counters(&r, 0).rx_packets, 0);
}

/* ---- what a sender does -------------------------------------------------------------------------------- */

/* To SQE, where sends come back and receives go on; and back to RTS. */
static void a_wrong_request_stops_the_send_queue_only(void **state)
{
    static const uint8_t wrong[] = {GW_MLX5_READ, GW_MLX5_ATOMIC_CS, GW_MLX5_ATOMIC_FA, GW_MLX5_SEND_INVAL};
    struct ibv_qp_attr rts = {.qp_state = IBV_QPS_RTS, .cur_qp_state = IBV_QPS_SQE};

    (void)state;
    for (size_t i = 0; i < sizeof(wrong); i++) {
        post(&r, GW_MLX5_WRITE, 0, 100, 0);
        post(&r, wrong[i], 0, 8, 0);
        post(&r, GW_MLX5_WRITE, 0, 100, 0);
        settle();
        expect(&r.a, GW_MLX5_CQE_REQ);
        expect_error(&r.a, GW_MLX5_CQE_REQ_ERR, GW_MLX5_SYND_LOCAL_QP_OP);
        expect_report(&r, "UC has no such request");
        r.w.report[0] = 0;
        expect_error(&r.a, GW_MLX5_CQE_REQ_ERR, GW_MLX5_SYND_FLUSHED);
        assert_int_equal(app_state(&r.a.qp), IBV_QPS_SQE);
        post(&r, GW_MLX5_WRITE, 0, 100, 0);
        settle();
        expect_error(&r.a, GW_MLX5_CQE_REQ_ERR, GW_MLX5_SYND_FLUSHED);
        assert_int_equal(sn_qp_modify(r.a.qp.qp, &rts, IBV_QP_STATE | IBV_QP_CUR_STATE), 0);
        post(&r, GW_MLX5_WRITE, 0, 100, 0);
        settle();
        expect(&r.a, GW_MLX5_CQE_REQ);
        expect_nothing(&r.a);
    }
}

static void in_sqe_it_still_receives(void **state)
{
    struct gw_mlx5_sge s = sge_of(&r.a, 0, 100);
    struct gw_mlx5_wr wr = {.opcode = GW_MLX5_SEND, .flags = GW_MLX5_SIGNALED, .num_sge = 1, .sge = &s};

    (void)state;
    s.lkey ^= 1;
    app_post(&r.a.qp, &wr);
    settle();
    expect_error(&r.a, GW_MLX5_CQE_REQ_ERR, GW_MLX5_SYND_LOCAL_PROT);
    assert_int_equal(app_state(&r.a.qp), IBV_QPS_SQE);
    post_recv(&r.a, 0, 100);
    s = sge_of(&r.b, 0, 60);
    app_post(&r.b.qp, &wr);
    settle();
    assert_int_equal(expect(&r.a, GW_MLX5_CQE_RESP_SEND).byte_cnt, 60);
}

/* No completion before the wire has taken the last packet. */
static void a_send_completes_when_it_has_left(void **state)
{
    struct gw_mlx5_wc wc;
    uint64_t done = 0;

    (void)state;
    r.w.faults.refuse = 9000;
    for (int i = 0; i < 10; i++) post(&r, GW_MLX5_WRITE, 0, 4 * MTU, 0);
    for (int i = 0; i < 10000 && done < 10; i++) {
        world_run(&r.w, 0);
        while (app_poll(&r.a.cq, &wc, NULL)) done++;
        assert_true(4 * done <= r.w.sent);
        world_advance(&r.w, 100000);
    }
    assert_int_equal(done, 10);
}

static void sqd_drains(void **state)
{
    struct ibv_qp_attr a = {.qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1};

    (void)state;
    for (int i = 0; i < 10; i++) post(&r, GW_MLX5_WRITE, 0, 5 * MTU, 0);
    world_run(&r.w, 0);
    assert_int_equal(sn_qp_modify(r.a.qp.qp, &a, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY), 0);
    settle();
    assert_int_equal(r.w.events[IBV_EVENT_SQ_DRAINED], 1);
    post(&r, GW_MLX5_WRITE, 0, 8, 0);
    settle();
    for (int i = 0; i < 10; i++) expect(&r.a, GW_MLX5_CQE_REQ);
    expect_nothing(&r.a);
    a.qp_state = IBV_QPS_RTS;
    assert_int_equal(sn_qp_modify(r.a.qp.qp, &a, IBV_QP_STATE), 0);
    settle();
    expect(&r.a, GW_MLX5_CQE_REQ);
}

/* ---- what a receiver does with what does not fit ------------------------------------------------------- */

static void packet(uint8_t opcode, uint32_t psn, uint8_t fill, uint32_t len)
{
    struct roce_hdr h = {.opcode = ROCE_UC | opcode, .psn = psn, .dlen = len};
    uint8_t payload[MTU];

    memset(payload, fill, sizeof(payload));
    h.va = (uintptr_t)r.b.mem + 30000;
    h.rkey = r.b.key;
    forge(&r, &h, payload, len);
}

static void expect_whole(uint8_t fill, uint32_t len)
{
    assert_int_equal(expect(&r.b, GW_MLX5_CQE_RESP_SEND).byte_cnt, len);
    for (uint32_t i = 0; i < len; i++) assert_int_equal(r.b.mem[i], fill);
}

/* Whichever packet of a message is missing, the next message arrives, in the receive that was begun. */
static void a_lost_packet_loses_its_message(void **state)
{
    static const uint8_t ops[] = {ROCE_SEND_FIRST, ROCE_SEND_MIDDLE, ROCE_SEND_LAST};

    (void)state;
    for (uint32_t missing = 0; missing < 3; missing++) {
        post_recv(&r.b, 0, 4 * MTU);
        for (uint32_t i = 0; i < 3; i++)
            if (i != missing) packet(ops[i], 100 + i, 1, MTU);
        expect_nothing(&r.b);
        packet(ROCE_SEND_FIRST, 103, 2, MTU);
        packet(ROCE_SEND_LAST, 104, 2, 10);
        expect_whole(2, MTU + 10);
        packet(ROCE_SEND_MIDDLE, 105, 3, MTU); /* goes with nothing */
        expect_nothing(&r.b);
    }
    assert_int_equal(counters(&r, 1).lost_messages, 2); /* the one without its first was not noticed */
    assert_int_equal(counters(&r, 1).tx_packets, 0);
    assert_int_equal(app_state(&r.b.qp), IBV_QPS_RTS);
}

static void a_first_packet_of_any_number_begins_anew(void **state)
{
    (void)state;
    post_recv(&r.b, 0, 4 * MTU);
    post_recv(&r.b, 0, 4 * MTU);
    packet(ROCE_SEND_ONLY, 0xfffff0, 4, 77);
    expect_whole(4, 77);
    packet(ROCE_SEND_FIRST, 5, 5, MTU);
    packet(ROCE_SEND_FIRST, 0xffffff, 6, MTU);
    packet(ROCE_SEND_LAST, 6, 5, 1); /* the first message's, too late */
    packet(ROCE_SEND_LAST, 0, 6, 9); /* the second's: it was given up */
    expect_nothing(&r.b);
    packet(ROCE_SEND_FIRST, 0xffffff, 7, MTU); /* numbers go round */
    packet(ROCE_SEND_LAST, 0, 7, 9);
    expect_whole(7, MTU + 9);
}

static void a_write_that_is_not_whole_gives_no_immediate(void **state)
{
    (void)state;
    post_recv(&r.b, 0, 8);
    packet(ROCE_WRITE_FIRST, 10, 1, MTU);
    packet(ROCE_WRITE_LAST_IMM, 12, 1, 5);
    expect_nothing(&r.b);
    packet(ROCE_WRITE_ONLY_IMM, 13, 2, 5);
    assert_int_equal(expect(&r.b, GW_MLX5_CQE_RESP_WR_IMM).byte_cnt, 5);
    packet(ROCE_SEND_LAST, 14, 2, 5); /* no SEND is under way */
    packet(ROCE_WRITE_FIRST, 15, 2, MTU - 1);
    packet(ROCE_WRITE_FIRST, 15, 2, MTU);
    packet(ROCE_WRITE_LAST, 16, 2, 7); /* dlen said MTU: this is more */
    expect_nothing(&r.b);
    assert_true(counters(&r, 1).drop_refused >= 2);
    assert_int_equal(app_state(&r.b.qp), IBV_QPS_RTS);
}

static void without_a_receive_a_message_is_lost(void **state)
{
    (void)state;
    packet(ROCE_SEND_FIRST, 10, 1, MTU);
    post_recv(&r.b, 0, 4 * MTU); /* too late for that one */
    packet(ROCE_SEND_LAST, 11, 1, 5);
    expect_nothing(&r.b);
    packet(ROCE_SEND_ONLY, 12, 2, 5);
    expect_whole(2, 5);
    packet(ROCE_WRITE_ONLY_IMM, 13, 2, 5);
    expect_nothing(&r.b);
    assert_int_equal(counters(&r, 1).drop_no_recv, 2);
}

static void rights_are_checked_without_a_word(void **state)
{
    struct roce_hdr h = {.opcode = ROCE_UC | ROCE_WRITE_ONLY, .va = (uintptr_t)r.b.mem, .dlen = 4};
    struct ibv_qp_attr none = {.qp_access_flags = 0};

    (void)state;
    h.rkey = r.b.key ^ 1;
    forge(&r, &h, "evil", 4);
    expect_report(&r, "no region has that key");
    h.rkey = r.b.key;
    h.va = (uintptr_t)r.b.mem + RIG_MEM - 3;
    forge(&r, &h, "evil", 4);
    h.va = (uintptr_t)r.b.mem;
    assert_int_equal(sn_qp_modify(r.b.qp.qp, &none, IBV_QP_ACCESS_FLAGS), 0);
    forge(&r, &h, "evil", 4);
    assert_int_equal(counters(&r, 1).drop_refused, 3);
    assert_int_equal(counters(&r, 1).tx_packets, 0);
    assert_memory_equal(r.b.mem, "\0\0\0", 4);
    assert_int_equal(app_state(&r.b.qp), IBV_QPS_RTS);
}

/* What is wrong with our own receive is told, to us alone. */
/* There are no answers, so without an end to it a peer could try millions of keys in a second. */
static void a_peer_that_guesses_keys_is_cut_off(void **state)
{
    struct sn_qp_view view;
    uint32_t cursor = 0;

    (void)state;
    for (uint32_t i = 1; i <= 64; i++) {
        struct roce_hdr h = {
            .opcode = ROCE_UC | ROCE_WRITE_ONLY, .psn = i, .va = (uintptr_t)r.b.mem, .dlen = 8};

        assert_int_equal(app_state(&r.b.qp), IBV_QPS_RTS);
        h.rkey = r.b.key ^ i;
        forge(&r, &h, "guessing", 8);
    }
    assert_int_equal(app_state(&r.b.qp), IBV_QPS_ERR);
    assert_int_equal(r.w.events[IBV_EVENT_QP_ACCESS_ERR], 1);
    assert_int_equal(counters(&r, 1).wrong_keys, 64);
    assert_int_equal(r.w.warnings, 1);
    expect_report(&r, "perhaps it guesses keys");
    assert_int_equal(sn_introspect_qps(r.w.nics[1].nic, &cursor, &view, 1, MS), 1);
    assert_non_null(strstr(view.line, "named 64 wrong keys: the connection ends"));
}

static void a_receive_that_is_too_short_fails_here(void **state)
{
    (void)state;
    post_recv(&r.b, 0, 10);
    packet(ROCE_SEND_ONLY, 1, 1, 11);
    expect_error(&r.b, GW_MLX5_CQE_RESP_ERR, GW_MLX5_SYND_LOCAL_LENGTH);
    assert_int_equal(app_state(&r.b.qp), IBV_QPS_ERR);
    assert_int_equal(counters(&r, 1).tx_packets, 0);
}

static void other_services_are_not_taken(void **state)
{
    struct roce_hdr h = {.opcode = ROCE_SEND_ONLY};

    (void)state;
    post_recv(&r.b, 0, 100);
    forge(&r, &h, "four", 4);
    h.opcode = ROCE_UD_SEND_ONLY;
    forge(&r, &h, "four", 4);
    h.opcode = ROCE_ACK;
    forge(&r, &h, NULL, 0);
    expect_nothing(&r.b);
    assert_int_equal(counters(&r, 1).drop_opcode, 3);
}

/* ---- states -------------------------------------------------------------------------------------------- */

static void the_attributes_of_rc_alone_are_refused(void **state)
{
    struct rig fresh;
    struct ibv_qp_attr a = {.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .ah_attr = {.is_global = 1}};
    const int rtr = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;

    (void)state;
    rig_up_as(&fresh, NULL, IBV_QPT_UC);
    a.ah_attr.port_num = 1;
    assert_int_equal(app_to_init(&fresh.a.qp), 0);
    assert_int_equal(sn_qp_modify(fresh.a.qp.qp, &a, rtr | IBV_QP_MIN_RNR_TIMER), -EINVAL);
    assert_int_equal(sn_qp_modify(fresh.a.qp.qp, &a, rtr | IBV_QP_MAX_DEST_RD_ATOMIC), -EINVAL);
    for (int bit = 1; bit <= rtr; bit <<= 1)
        if ((rtr & bit) && bit != IBV_QP_STATE)
            assert_int_equal(sn_qp_modify(fresh.a.qp.qp, &a, rtr & ~bit), -EINVAL);
    assert_int_equal(sn_qp_modify(fresh.a.qp.qp, &a, rtr), 0);
    a.qp_state = IBV_QPS_RTS;
    assert_int_equal(sn_qp_modify(fresh.a.qp.qp, &a, IBV_QP_STATE), -EINVAL);
    assert_int_equal(sn_qp_modify(fresh.a.qp.qp, &a, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT), -EINVAL);
    assert_int_equal(sn_qp_modify(fresh.a.qp.qp, &a, IBV_QP_STATE | IBV_QP_SQ_PSN), 0);
    assert_int_equal(sn_qp_modify(fresh.a.qp.qp, &a, IBV_QP_QKEY), -EINVAL);
    rig_down(&fresh);
}

/* What is written to memory that went away is lost, and nothing that comes after it. */
static void memory_that_went_away_loses_one_message(void **state)
{
    uint8_t *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct sn_mr_init i = {
        .addr = (uintptr_t)p, .length = 4096, .iova = (uintptr_t)p, .access = (uint32_t)rig_access};
    struct gw_mlx5_sge s = sge_of(&r.a, 0, 100);
    struct gw_mlx5_wr wr = {.opcode = GW_MLX5_WRITE, .num_sge = 1, .sge = &s, .raddr = (uintptr_t)p};
    struct sn_mr *mr;

    (void)state;
    assert_ptr_not_equal(p, MAP_FAILED);
    assert_int_equal(sn_mr_create(r.b.pd, &i, &mr), 0);
    mprotect(p, 4096, PROT_READ);
    wr.rkey = sn_mr_key(mr);
    app_post(&r.a.qp, &wr);
    settle();
    expect_report(&r, "cannot be accessed");
    memset(r.a.mem, 5, 100);
    post(&r, GW_MLX5_WRITE, 0, 100, 300);
    settle();
    expect(&r.a, GW_MLX5_CQE_REQ);
    assert_memory_equal(r.b.mem + 300, r.a.mem, 100);
    assert_int_equal(counters(&r, 1).drop_refused, 1);
    sn_mr_destroy(mr);
    munmap(p, 4096);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, up_uc, down)
    const struct CMUnitTest tests[] = {
        T(all_kinds_arrive),
        T(a_wrong_request_stops_the_send_queue_only),
        T(in_sqe_it_still_receives),
        T(a_send_completes_when_it_has_left),
        T(sqd_drains),
        T(a_lost_packet_loses_its_message),
        T(a_first_packet_of_any_number_begins_anew),
        T(a_write_that_is_not_whole_gives_no_immediate),
        T(without_a_receive_a_message_is_lost),
        T(rights_are_checked_without_a_word),
        T(a_peer_that_guesses_keys_is_cut_off),
        T(a_receive_that_is_too_short_fails_here),
        T(memory_that_went_away_loses_one_message),
        T(other_services_are_not_taken),
        T(the_attributes_of_rc_alone_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
