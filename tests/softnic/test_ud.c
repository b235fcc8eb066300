/* SPDX-License-Identifier: Apache-2.0 */
/* Datagrams: where they go, what a receiver learns of where they came from, and what is dropped. */
#include "tests/softnic/fixture.h"

enum { GRH = 40, IPV4 = 20, LONGEST = 4096 };

static int up_ud(void **state)
{
    (void)state;
    return up_as(IBV_QPT_UD);
}

static void settle(void)
{
    world_settle(&r.w, 5 * MS);
}

static uint32_t send_with(struct end *from, uint8_t opcode, uint32_t at, uint32_t len, struct end *to,
                          uint32_t qkey)
{
    struct gw_mlx5_sge s = sge_of(from, at, len);
    struct gw_mlx5_wr wr = {
        .opcode = opcode, .flags = GW_MLX5_SIGNALED, .num_sge = len != 0, .sge = &s, .imm_be = 0xabcd};

    return app_post_ud(&from->qp, &wr, to->qp.n->gid, to->qp.sq.qpn, qkey);
}

static void send(struct end *from, uint32_t at, uint32_t len, struct end *to)
{
    send_with(from, GW_MLX5_SEND, at, len, to, APP_QKEY);
}

/* A frame to b, with Q_Key and source as they should be unless set. */
static void datagram(struct roce_hdr h, const void *payload, uint32_t len)
{
    if (!h.opcode) h.opcode = ROCE_UD_SEND_ONLY;
    if (!h.qkey) h.qkey = APP_QKEY;
    if (!h.sqpn) h.sqpn = r.a.qp.sq.qpn;
    forge(&r, &h, payload, len);
}

/* ---- delivery ------------------------------------------------------------------------------------------ */

static uint16_t sum16(const uint8_t *p)
{
    uint32_t sum = 0;

    for (int i = 0; i < IPV4; i += 2) sum += (uint32_t)(p[i] << 8 | p[i + 1]);
    return (uint16_t)((sum & 0xffff) + (sum >> 16));
}

/* 20 bytes of nothing, then the header of an IPv4 packet from one NIC to the other, its checksum right. */
static void expect_ipv4(const uint8_t *grh, const struct end *from, const struct end *to, uint32_t payload,
                        bool imm)
{
    const uint8_t *ip = grh + GRH - IPV4;
    uint8_t zeros[GRH - IPV4] = {0};

    assert_memory_equal(grh, zeros, sizeof(zeros));
    assert_int_equal(ip[0], 0x45);
    assert_int_equal(ip[2] << 8 | ip[3], 20 + 8 + 12 + 8 + (imm ? 4 : 0) + payload + roce_pad(payload) + 4);
    assert_int_equal(ip[9], 17);
    assert_int_equal(sum16(ip), 0xffff);
    assert_memory_equal(ip + 12, from->qp.n->gid + 12, 4);
    assert_memory_equal(ip + 16, to->qp.n->gid + 12, 4);
}

static void a_datagram_tells_where_it_came_from(void **state)
{
    struct gw_mlx5_wc wc;

    (void)state;
    for (uint32_t i = 0; i < LONGEST; i++) r.a.mem[i] = (uint8_t)(i * 5);
    for (uint32_t len = 0; len <= LONGEST; len += len < 4 ? 1 : 1023) {
        memset(r.b.mem, 0xee, GRH + LONGEST + 1);
        post_recv(&r.b, 0, GRH + LONGEST + 1);
        send_with(&r.a, len & 1 ? GW_MLX5_SEND_IMM : GW_MLX5_SEND, 0, len, &r.b, APP_QKEY);
        settle();
        expect(&r.a, GW_MLX5_CQE_REQ);
        wc = expect(&r.b, len & 1 ? GW_MLX5_CQE_RESP_SEND_IMM : GW_MLX5_CQE_RESP_SEND);
        assert_int_equal(wc.byte_cnt, GRH + len);
        assert_int_equal(wc.src_qp, r.a.qp.sq.qpn);
        assert_int_equal(wc.grh, 1);
        if (len & 1) assert_int_equal(wc.imm_be, 0xabcd);
        expect_ipv4(r.b.mem, &r.a, &r.b, len, len & 1);
        assert_memory_equal(r.b.mem + GRH, r.a.mem, len);
        assert_int_equal(r.b.mem[GRH + len], 0xee);
    }
    assert_int_equal(counters(&r, 1).tx_packets, 0);
}

/* One queue pair sends to another NIC's, to itself and to another of its own NIC in turn. */
static void one_queue_pair_reaches_all(void **state)
{
    struct app_qp_options o = {.type = IBV_QPT_UD, .uidx = 7};
    struct end other = r.a;
    struct end *to[] = {&r.b, &r.a, &other};

    (void)state;
    app_qp_up(&other.qp, &r.w.nics[0], r.a.pd, r.a.uar, &r.a.cq, &r.a.cq, &o);
    app_connect(&other.qp, &other.qp, &app_connect_default);
    for (uint32_t i = 0; i < 3; i++) {
        post_recv(to[i], 1000 * (i + 1), 200);
        r.a.mem[i] = (uint8_t)(0x51 + i);
        send(&r.a, i, 1, to[i]);
    }
    settle();
    expect(&r.b, GW_MLX5_CQE_RESP_SEND);
    for (int i = 0; i < 5; i++) {
        struct gw_mlx5_wc wc;

        assert_int_equal(app_poll(&r.a.cq, &wc, NULL), 1);
        assert_true(wc.opcode == GW_MLX5_CQE_REQ || wc.opcode == GW_MLX5_CQE_RESP_SEND);
    }
    expect_nothing(&r.a);
    assert_int_equal(r.b.mem[1000 + GRH], 0x51);
    assert_int_equal(r.a.mem[2000 + GRH], 0x52);
    assert_int_equal(r.a.mem[3000 + GRH], 0x53);
    expect_ipv4(r.a.mem + 3000, &r.a, &r.a, 1, false); /* also what never left the NIC has one */
    app_qp_down(&other.qp);
}

static void receives_may_be_scattered(void **state)
{
    struct gw_mlx5_sge s[3] = {sge_of(&r.b, 0, GRH), sge_of(&r.b, 100, 10), sge_of(&r.b, 200, 10)};

    (void)state;
    app_recv(&r.b.qp, s, 3);
    memcpy(r.a.mem, "0123456789abcdef", 16);
    send(&r.a, 0, 16, &r.b);
    settle();
    assert_int_equal(expect(&r.b, GW_MLX5_CQE_RESP_SEND).byte_cnt, GRH + 16);
    assert_memory_equal(r.b.mem + 100, "0123456789", 10);
    assert_memory_equal(r.b.mem + 200, "abcdef", 6);
}

static void a_shared_receive_queue_serves_too(void **state)
{
    struct app_srq srq;
    struct app_qp_options o = {.type = IBV_QPT_UD, .uidx = 8, .srq = &srq};
    struct gw_mlx5_sge s = sge_of(&r.b, 0, 100);
    struct end shared = r.b;
    int entry;

    (void)state;
    app_srq_up(&srq, &r.w.nics[1], r.b.pd, 4, 2, NULL);
    app_qp_up(&shared.qp, &r.w.nics[1], r.b.pd, r.b.uar, &r.b.cq, &r.b.cq, &o);
    app_connect(&shared.qp, &shared.qp, &app_connect_default);
    entry = app_srq_recv(&srq, &s, 1);
    send(&r.a, 0, 16, &shared);
    settle();
    shared.cq = r.b.cq;
    assert_int_equal(expect(&shared, GW_MLX5_CQE_RESP_SEND).wqe_counter, entry);
    r.b.cq = shared.cq;
    app_qp_down(&shared.qp);
    app_srq_down(&srq);
}

static void the_source_is_reported_as_it_came(void **state)
{
    uint8_t v6[16] = {0xfd, 1, [15] = 9}, frame[64];
    struct roce_path path = {.ipv6 = true, .sport = 0xd000, .dport = ROCE_UDP_PORT};
    struct roce_hdr h = {.opcode = ROCE_UD_SEND_ONLY, .pkey = ROCE_DEFAULT_PKEY, .dqpn = r.b.qp.sq.qpn};
    uint32_t at;

    (void)state;
    post_recv(&r.b, 0, 100);
    h.qkey = APP_QKEY;
    h.sqpn = 0xfedcba;
    at = roce_pack(frame, &h) + ROCE_ICRC_LEN;
    memcpy(path.src, v6, 16);
    memcpy(path.dst, r.b.qp.n->gid, 16);
    roce_icrc_end(roce_icrc(&path, frame, at), frame + at - ROCE_ICRC_LEN);
    world_inject(&r.w, 1, v6, 0xd000, frame, at);
    settle();
    assert_int_equal(expect(&r.b, GW_MLX5_CQE_RESP_SEND).src_qp, 0xfedcba);
    assert_int_equal(r.b.mem[0] >> 4, 6);
    assert_int_equal(r.b.mem[6], 17);
    assert_memory_equal(r.b.mem + 8, v6, 16);
    assert_memory_equal(r.b.mem + 24, r.b.qp.n->gid, 16);
}

/* ---- Q_Keys -------------------------------------------------------------------------------------------- */

static void only_the_right_q_key_gets_in(void **state)
{
    struct ibv_qp_attr a = {.qkey = 0x77};

    (void)state;
    post_recv(&r.b, 0, 100);
    send_with(&r.a, GW_MLX5_SEND, 0, 4, &r.b, APP_QKEY + 1);
    settle();
    expect_nothing(&r.b);
    expect(&r.a, GW_MLX5_CQE_REQ); /* it has left, and that is all a sender learns */
    assert_int_equal(counters(&r, 1).drop_qkey, 1);
    expect_report(&r, "Q_Key");
    send_with(&r.a, GW_MLX5_SEND, 0, 4, &r.b, 0x80000000 | 1); /* the queue pair's own */
    settle();
    expect(&r.b, GW_MLX5_CQE_RESP_SEND);
    assert_int_equal(sn_qp_modify(r.b.qp.qp, &a, IBV_QP_QKEY), 0);
    post_recv(&r.b, 0, 100);
    send(&r.a, 0, 4, &r.b);
    send_with(&r.a, GW_MLX5_SEND, 0, 4, &r.b, 0x77);
    settle();
    expect(&r.b, GW_MLX5_CQE_RESP_SEND);
    expect_nothing(&r.b);
}

/* ---- wrong sends --------------------------------------------------------------------------------------- */

static void expect_refused(uint8_t syndrome, const char *words)
{
    struct ibv_qp_attr rts = {.qp_state = IBV_QPS_RTS};
    uint64_t before = counters(&r, 0).tx_packets;

    send(&r.a, 0, 4, &r.b);
    settle();
    expect_error(&r.a, GW_MLX5_CQE_REQ_ERR, syndrome);
    expect_error(&r.a, GW_MLX5_CQE_REQ_ERR, GW_MLX5_SYND_FLUSHED);
    expect_report(&r, words);
    assert_int_equal(counters(&r, 0).tx_packets, before);
    assert_int_equal(app_state(&r.a.qp), IBV_QPS_SQE);
    assert_int_equal(sn_qp_modify(r.a.qp.qp, &rts, IBV_QP_STATE), 0);
}

static void wrong_sends_fail_here(void **state)
{
    struct gw_mlx5_wr wr = {.opcode = GW_MLX5_SEND, .flags = GW_MLX5_SIGNALED};
    struct gw_mlx5_av av = {.grh_be = gw_be32(1 << 20)};
    uint8_t group[16] = {0xff, 0x0e};

    (void)state;
    send(&r.a, 0, LONGEST + 1, &r.b);
    expect_refused(GW_MLX5_SYND_LOCAL_LENGTH, "longer than the port's MTU");
    app_post_ud(&r.a.qp, &wr, group, 0xffffff, 0);
    expect_refused(GW_MLX5_SYND_LOCAL_QP_OP, "multicast");
    memcpy(group, r.b.qp.n->gid, 16);
    group[12] = 239;
    app_post_ud(&r.a.qp, &wr, group, 0xffffff, 0);
    expect_refused(GW_MLX5_SYND_LOCAL_QP_OP, "multicast");
    memcpy(av.rgid, r.b.qp.n->gid, 16);
    assert_int_equal(gw_mlx5_put_ud(&r.a.qp.sq, r.a.qp.sq_pi++, &wr, &av, 2, 0), 1);
    app_publish(&r.a.qp);
    app_ring(&r.a.qp, 0);
    r.w.report[0] = 0;
    expect_refused(GW_MLX5_SYND_LOCAL_QP_OP, "GID index");
}

static void only_sends_can_be_posted(void **state)
{
    struct ibv_qp_attr rts = {.qp_state = IBV_QPS_RTS};

    (void)state;
    post(&r, GW_MLX5_WRITE, 0, 8, 0);
    settle();
    expect_error(&r.a, GW_MLX5_CQE_REQ_ERR, GW_MLX5_SYND_LOCAL_QP_OP);
    assert_int_equal(sn_qp_modify(r.a.qp.qp, &rts, IBV_QP_STATE), 0);
    post(&r, GW_MLX5_SEND, 0, 8, 0); /* as for a connection: without an address */
    settle();
    expect_error(&r.a, GW_MLX5_CQE_REQ_ERR, GW_MLX5_SYND_LOCAL_QP_OP);
}

/* ---- what is dropped ----------------------------------------------------------------------------------- */

static void without_a_receive_it_is_dropped(void **state)
{
    (void)state;
    send(&r.a, 0, 4, &r.b);
    settle();
    post_recv(&r.b, 0, 100);
    settle();
    expect_nothing(&r.b);
    assert_int_equal(counters(&r, 1).drop_no_recv, 1);
    send(&r.a, 0, 5, &r.b);
    settle();
    assert_int_equal(expect(&r.b, GW_MLX5_CQE_RESP_SEND).byte_cnt, GRH + 5);
}

static void a_receive_that_is_too_short_fails(void **state)
{
    (void)state;
    post_recv(&r.b, 0, GRH + 3);
    post_recv(&r.b, 0, GRH + 4);
    r.b.mem[GRH + 3] = 0xee;
    send(&r.a, 0, 4, &r.b);
    settle();
    expect_error(&r.b, GW_MLX5_CQE_RESP_ERR, GW_MLX5_SYND_LOCAL_LENGTH);
    expect_error(&r.b, GW_MLX5_CQE_RESP_ERR, GW_MLX5_SYND_FLUSHED);
    assert_int_equal(r.b.mem[GRH + 3], 0xee);
    assert_int_equal(app_state(&r.b.qp), IBV_QPS_ERR);
}

static void strange_frames_do_nothing(void **state)
{
    struct sn_counters c;

    (void)state;
    post_recv(&r.b, 0, 100);
    datagram((struct roce_hdr){.opcode = ROCE_SEND_ONLY}, "four", 4);
    datagram((struct roce_hdr){.opcode = ROCE_UC | ROCE_SEND_ONLY}, "four", 4);
    datagram((struct roce_hdr){.opcode = ROCE_ACK}, NULL, 0);
    datagram((struct roce_hdr){.pkey = 1}, "four", 4);
    datagram((struct roce_hdr){.dqpn = r.b.qp.sq.qpn ^ 1}, "four", 4);
    datagram((struct roce_hdr){.qkey = 5}, "four", 4);
    settle();
    expect_nothing(&r.b);
    c = counters(&r, 1);
    assert_int_equal(c.drop_opcode, 3);
    assert_int_equal(c.drop_pkey, 1);
    assert_int_equal(c.drop_no_qp, 1);
    assert_int_equal(c.drop_qkey, 1);
    datagram((struct roce_hdr){.opcode = ROCE_UD_SEND_ONLY_IMM, .sqpn = 1, .imm_be = 7}, "four", 4);
    settle();
    assert_int_equal(expect(&r.b, GW_MLX5_CQE_RESP_SEND_IMM).src_qp, 1); /* the receive is still there */
}

/* ---- states -------------------------------------------------------------------------------------------- */

static void the_attributes_of_connections_are_refused(void **state)
{
    struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = 3, .path_mtu = IBV_MTU_256};
    const int init = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
    struct rig fresh;
    struct sn_qp *qp;

    (void)state;
    rig_up_as(&fresh, NULL, IBV_QPT_UD);
    qp = fresh.a.qp.qp;
    assert_int_equal(sn_qp_modify(qp, &a, init), -EINVAL);
    assert_int_equal(sn_qp_modify(qp, &a, init | IBV_QP_ACCESS_FLAGS), -EINVAL);
    assert_int_equal(sn_qp_modify(qp, &a, init | IBV_QP_QKEY), 0);
    a.qp_state = IBV_QPS_RTR;
    assert_int_equal(sn_qp_modify(qp, &a, IBV_QP_STATE | IBV_QP_PATH_MTU), -EINVAL);
    assert_int_equal(sn_qp_modify(qp, &a, IBV_QP_STATE | IBV_QP_RQ_PSN), -EINVAL);
    assert_int_equal(sn_qp_modify(qp, &a, IBV_QP_STATE | IBV_QP_QKEY), 0);
    a.qp_state = IBV_QPS_RTS;
    a.sq_psn = 0xabc;
    assert_int_equal(sn_qp_modify(qp, &a, IBV_QP_STATE), -EINVAL);
    assert_int_equal(sn_qp_modify(qp, &a, IBV_QP_STATE | IBV_QP_SQ_PSN), 0);
    assert_int_equal(sn_qp_query(qp, &a), 0);
    assert_true(a.qp_state == IBV_QPS_RTS && a.qkey == 3 && a.sq_psn == 0xabc);
    rig_down(&fresh);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, up_ud, down)
    const struct CMUnitTest tests[] = {
        T(a_datagram_tells_where_it_came_from),
        T(one_queue_pair_reaches_all),
        T(receives_may_be_scattered),
        T(a_shared_receive_queue_serves_too),
        T(the_source_is_reported_as_it_came),
        T(only_the_right_q_key_gets_in),
        T(wrong_sends_fail_here),
        T(only_sends_can_be_posted),
        T(without_a_receive_it_is_dropped),
        T(a_receive_that_is_too_short_fails),
        T(strange_frames_do_nothing),
        T(the_attributes_of_connections_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
