/* SPDX-License-Identifier: Apache-2.0 */
/* A queue pair gets single packets, right and wrong ones, as a peer that is not this engine might send
 * them. */
#include "tests/softnic/rig.h"

static struct rig r;
static uint8_t bytes[4096];

/* b is driven by forged packets; a's own engine would only answer what it did not ask for. */
static int up(void **state)
{
    (void)state;
    rig_up(&r, NULL);
    rig_connect(&r);
    memset(bytes, 0x33, sizeof(bytes));
    return 0;
}

static int down(void **state)
{
    (void)state;
    rig_down(&r);
    return 0;
}

static uint32_t psn_at(uint32_t i)
{
    return app_connect_default.psn_here + i;
}

static struct roce_hdr head(uint8_t opcode, uint32_t i)
{
    struct roce_hdr h = {
        .opcode = opcode, .psn = psn_at(i), .rkey = r.b.key, .va = (uintptr_t)r.b.mem, .ackreq = true};

    return h;
}

static void send_packet(uint8_t opcode, uint32_t i, uint32_t len)
{
    struct roce_hdr h = head(opcode, i);

    h.dlen = len;
    forge(&r, &h, bytes, len);
}

static void ended_with(uint64_t *counter_seen, enum ibv_event_type event)
{
    assert_int_equal(*counter_seen, 1);
    assert_int_equal(r.w.events[event], 1);
    assert_int_equal(app_state(&r.b.qp), IBV_QPS_ERR);
}

static void invalid(void)
{
    struct sn_counters c = counters(&r, 1);

    ended_with(&c.naks_inv_sent, IBV_EVENT_QP_REQ_ERR);
}

static void a_write_in_one_packet(void **state)
{
    (void)state;
    send_packet(ROCE_WRITE_ONLY, 0, 100);
    assert_memory_equal(r.b.mem, bytes, 100);
    assert_int_equal(r.b.mem[100], 0);
    assert_int_equal(counters(&r, 1).acks_sent, 1);
}

static void ahead_gives_one_nak_and_then_silence(void **state)
{
    (void)state;
    for (uint32_t i = 1; i < 5; i++) send_packet(ROCE_WRITE_ONLY, i, 10);
    assert_int_equal(counters(&r, 1).naks_seq_sent, 1);
    send_packet(ROCE_WRITE_ONLY, 0, 10);
    send_packet(ROCE_WRITE_ONLY, 2, 10);
    assert_int_equal(counters(&r, 1).naks_seq_sent, 2); /* another gap, another NAK */
    assert_int_equal(counters(&r, 1).drop_psn, 5);
}

static void behind_is_acknowledged_and_not_executed(void **state)
{
    (void)state;
    send_packet(ROCE_WRITE_ONLY, 0, 10);
    memset(r.b.mem, 0, 10);
    send_packet(ROCE_WRITE_ONLY, 0, 10);
    assert_int_equal(r.b.mem[0], 0);
    assert_int_equal(counters(&r, 1).acks_sent, 2);
    assert_int_equal(counters(&r, 1).duplicates, 1);
}

/* The headers of the frame that left last. */
static struct roce_hdr last_sent(void)
{
    const struct flight *last = NULL;
    struct roce_hdr h;
    uint32_t len;

    for (uint32_t i = 0; i < r.w.flights; i++)
        if (!last || r.w.heap[i]->order > last->order) last = r.w.heap[i];
    assert_non_null(last);
    assert_true(roce_parse(last->data, last->frame.len, &h, &len) > 0);
    return h;
}

/* A READ or atomic is acknowledged by its answer alone: some requesters would take anything else for it. */
static void behind_is_acknowledged_up_to_the_last_write(void **state)
{
    struct roce_hdr add = head(ROCE_FETCH_ADD, 1), read = head(ROCE_READ_REQ, 2), h;

    (void)state;
    send_packet(ROCE_WRITE_ONLY, 0, 10);
    forge(&r, &add, NULL, 0);
    assert_int_equal(last_sent().opcode, ROCE_ATOMIC_ACK);
    send_packet(ROCE_WRITE_ONLY, 0, 10);
    h = last_sent();
    assert_int_equal(h.opcode, ROCE_ACK);
    assert_int_equal(h.psn, psn_at(0));
    read.dlen = 10;
    forge(&r, &read, NULL, 0);
    send_packet(ROCE_WRITE_ONLY, 3, 10);
    send_packet(ROCE_WRITE_ONLY, 0, 10);
    assert_int_equal(last_sent().psn, psn_at(3));
}

static void a_middle_without_a_first(void **state)
{
    (void)state;
    send_packet(ROCE_WRITE_MIDDLE, 0, 1024);
    invalid();
}

static void a_first_after_a_first(void **state)
{
    struct roce_hdr h = head(ROCE_WRITE_FIRST, 0);

    (void)state;
    h.dlen = 3000;
    forge(&r, &h, bytes, 1024);
    send_packet(ROCE_SEND_ONLY, 1, 10);
    invalid();
}

static void a_last_of_another_kind(void **state)
{
    struct roce_hdr h = head(ROCE_WRITE_FIRST, 0);

    (void)state;
    post_recv(&r.b, 0, 4096);
    h.dlen = 3000;
    forge(&r, &h, bytes, 1024);
    send_packet(ROCE_SEND_LAST, 1, 10);
    invalid();
}

static void a_first_that_is_not_full(void **state)
{
    (void)state;
    post_recv(&r.b, 0, 4096);
    send_packet(ROCE_SEND_FIRST, 0, 1000);
    invalid();
}

static void more_than_the_path_mtu(void **state)
{
    (void)state;
    send_packet(ROCE_WRITE_ONLY, 0, 1028);
    invalid();
    assert_int_equal(r.b.mem[0], 0);
}

static void more_than_was_announced(void **state)
{
    struct roce_hdr h = head(ROCE_WRITE_ONLY, 0);

    (void)state;
    h.dlen = 8;
    forge(&r, &h, bytes, 16);
    invalid();
    assert_int_equal(r.b.mem[0], 0);
}

static void a_message_that_never_ends(void **state)
{
    struct roce_hdr h = head(ROCE_WRITE_FIRST, 0);

    (void)state;
    h.dlen = 2048;
    forge(&r, &h, bytes, 1024);
    send_packet(ROCE_WRITE_MIDDLE, 1, 1024); /* the announced bytes are all here, but it is no last packet */
    invalid();
}

static void as_many_reads_as_agreed(void **state)
{
    (void)state;
    for (uint32_t n = 4; n <= 5; n++) { /* agreed are 4 */
        for (uint32_t i = 0; i < n; i++) {
            struct roce_hdr h = head(ROCE_READ_REQ, (n - 4) * 4 + i);

            h.dlen = 10;
            forge_unseen(&r, &h, NULL, 0); /* all at once: none is answered when the last comes */
        }
        assert_int_equal(app_state(&r.b.qp), IBV_QPS_RTS);
        for (int i = 0; i < 100; i++) world_run(&r.w, 1);
    }
    invalid();
}

static void an_atomic_is_executed_once(void **state)
{
    struct roce_hdr h = head(ROCE_FETCH_ADD, 0);
    uint64_t value = 5;

    (void)state;
    memcpy(r.b.mem, &value, 8);
    h.swap_or_add = 3;
    for (int i = 0; i < 3; i++) forge(&r, &h, NULL, 0);
    memcpy(&value, r.b.mem, 8);
    assert_int_equal(value, 8);
    assert_int_equal(counters(&r, 1).duplicates, 2);
    assert_int_equal(counters(&r, 1).tx_packets, 3); /* the kept result each time */
}

/* A connection of its own for each try, as a wrong one ends it. */
static void not_repeated(struct roce_hdr h, const char *words)
{
    forge(&r, &h, NULL, 0);
    assert_int_equal(last_sent().opcode, ROCE_ACK);
    assert_int_equal(last_sent().syndrome, roce_aeth_nak(ROCE_NAK_REMOTE_ACCESS));
    assert_int_equal(app_state(&r.b.qp), IBV_QPS_ERR);
    assert_int_equal(counters(&r, 1).wrong_keys, 1);
    assert_int_equal(r.w.warnings, 1);
    expect_report(&r, words);
    expect_report(&r, "perhaps it guesses keys");
    down(NULL);
    up(NULL);
}

/* The attack: a READ that was granted is repeated with other keys and addresses, until one of them fits. */
static void a_repeated_read_reads_nothing_else(void **state)
{
    uint64_t packets;

    (void)state;
    for (int what = 0; what < 6; what++) {
        static const char *const words[] = {"with another key",    "for another address",
                                            "for another address", "for more bytes",
                                            "for another address", "another kind of request"};
        struct roce_hdr h = head(ROCE_READ_REQ, 0), part;

        h.dlen = 3000; /* three packets */
        forge(&r, &h, NULL, 0);
        for (int i = 0; i < 10; i++) world_run(&r.w, 1);
        packets = counters(&r, 1).tx_packets;
        part = h; /* what a peer may do: again, from the second packet on */
        part.psn = psn_at(1);
        part.va += 1024;
        part.dlen -= 1024;
        forge(&r, &part, NULL, 0);
        for (int i = 0; i < 10; i++) world_run(&r.w, 1);
        assert_int_equal(counters(&r, 1).tx_packets, packets + 2);
        switch (what) {
        case 0: part.rkey ^= 1; break;
        case 1: part.va += 8; break;
        case 2: part.va -= 1024; break;
        case 3: part.dlen++; break;
        case 4: part = h, part.psn = psn_at(1); break;
        default: part = h, part.opcode = ROCE_FETCH_ADD; break;
        }
        not_repeated(part, words[what]);
    }
}

static void a_repeated_atomic_names_the_same(void **state)
{
    (void)state;
    for (int what = 0; what < 2; what++) {
        struct roce_hdr h = head(ROCE_FETCH_ADD, 0);

        forge(&r, &h, NULL, 0);
        if (what)
            h.rkey ^= 0x1000;
        else
            h.va += 8;
        not_repeated(h, what ? "with another key" : "for another address");
    }
}

/* A packet that took its time on the way, and its region has gone: that is no fault. */
static void a_late_read_of_a_region_that_went(void **state)
{
    struct roce_hdr h = head(ROCE_READ_REQ, 0);

    (void)state;
    h.dlen = 100;
    forge(&r, &h, NULL, 0);
    sn_mr_destroy(r.b.mr);
    r.b.mr = NULL;
    forge(&r, &h, NULL, 0);
    assert_int_equal(app_state(&r.b.qp), IBV_QPS_RTS);
    assert_int_equal(counters(&r, 1).tx_packets, 1);
    assert_int_equal(counters(&r, 1).wrong_keys, 0);
}

static void atomics_must_be_aligned(void **state)
{
    struct roce_hdr h = head(ROCE_FETCH_ADD, 0);

    (void)state;
    h.va += 4;
    forge(&r, &h, NULL, 0);
    invalid();
}

static void strangers_change_nothing(void **state)
{
    struct sn_counters c;
    struct roce_hdr h = head(ROCE_WRITE_ONLY, 0);
    uint8_t frame[64], gid[16] = {[10] = 0xff, [11] = 0xff, [12] = 9};

    (void)state;
    h.dlen = 10;
    h.dqpn = r.b.qp.sq.qpn ^ 1;
    forge(&r, &h, bytes, 10);
    h.dqpn = 0;
    h.pkey = 0x1234;
    forge(&r, &h, bytes, 10);
    h = head(ROCE_UC | ROCE_WRITE_ONLY, 0);
    h.dlen = 10;
    forge(&r, &h, bytes, 10);
    h = head(ROCE_WRITE_ONLY, 0);
    h.pkey = ROCE_DEFAULT_PKEY;
    h.dqpn = r.b.qp.sq.qpn;
    h.dlen = 4;
    roce_pack(frame, &h);
    world_inject(&r.w, 1, NULL, 0xc000, frame, 36); /* no ICRC */
    world_inject(&r.w, 1, gid, 0xc000, frame, 36);  /* another's address */
    world_inject(&r.w, 1, NULL, 0xc000, frame, 7);
    world_run(&r.w, 1);
    c = counters(&r, 1);
    assert_int_equal(c.drop_no_qp, 1);
    assert_int_equal(c.drop_pkey, 1);
    assert_int_equal(c.drop_opcode, 1);
    assert_int_equal(c.drop_icrc, 1);
    assert_int_equal(c.drop_address, 1);
    assert_int_equal(c.drop_malformed, 1);
    assert_int_equal(c.tx_packets, 0);
    assert_int_equal(r.b.mem[0], 0);
    assert_int_equal(app_state(&r.b.qp), IBV_QPS_RTS);
}

/* ---- answers ------------------------------------------------------------------------------------------- */

/* To b, which has requests under way that a (its engine is never run) does not answer. */
static uint32_t b_posts(uint8_t opcode, uint32_t len)
{
    struct gw_mlx5_sge s = sge_of(&r.b, 0, len);
    struct gw_mlx5_wr wr = {.opcode = opcode, .flags = GW_MLX5_SIGNALED, .num_sge = len != 0, .sge = &s};

    wr.raddr = (uintptr_t)r.a.mem;
    wr.rkey = r.a.key;
    app_post(&r.b.qp, &wr);
    world_run(&r.w, 1);
    return app_connect_default.psn_there;
}

static void answer(uint8_t opcode, uint32_t psn, uint8_t syndrome, uint32_t len)
{
    struct roce_hdr h = {.opcode = opcode, .psn = psn, .syndrome = syndrome};

    forge(&r, &h, bytes, len);
}

static void one_acknowledgement_for_many(void **state)
{
    uint32_t psn = b_posts(GW_MLX5_WRITE, 100);

    (void)state;
    b_posts(GW_MLX5_WRITE, 100);
    b_posts(GW_MLX5_WRITE, 100);
    answer(ROCE_ACK, psn + 1, ROCE_AETH_ACK_NO_CREDITS, 0);
    expect(&r.b, GW_MLX5_CQE_REQ);
    expect(&r.b, GW_MLX5_CQE_REQ);
    expect_nothing(&r.b);
}

static void an_acknowledgement_does_not_complete_a_read(void **state)
{
    uint32_t psn = b_posts(GW_MLX5_READ, 100);
    uint64_t sent;

    (void)state;
    b_posts(GW_MLX5_WRITE, 100);
    sent = counters(&r, 1).tx_packets;
    answer(ROCE_ACK, psn + 1, ROCE_AETH_ACK_NO_CREDITS, 0);
    expect_nothing(&r.b);
    assert_int_equal(counters(&r, 1).tx_packets, sent + 2); /* both again, at once */
    answer(ROCE_ACK, psn + 1, ROCE_AETH_ACK_NO_CREDITS, 0);
    assert_int_equal(counters(&r, 1).tx_packets, sent + 2); /* but once */
    answer(ROCE_READ_RESP_ONLY, psn, ROCE_AETH_ACK_NO_CREDITS, 100);
    expect(&r.b, GW_MLX5_CQE_REQ);
    assert_memory_equal(r.b.mem, bytes, 100);
    expect_nothing(&r.b);
    answer(ROCE_ACK, psn + 1, ROCE_AETH_ACK_NO_CREDITS, 0);
    expect(&r.b, GW_MLX5_CQE_REQ);
}

static void a_resumed_read_takes_any_name_of_its_packets(void **state)
{
    uint32_t psn = b_posts(GW_MLX5_READ, 2100);

    (void)state;
    answer(ROCE_READ_RESP_FIRST, psn, ROCE_AETH_ACK_NO_CREDITS, 1024);
    answer(ROCE_READ_RESP_FIRST, psn + 1, ROCE_AETH_ACK_NO_CREDITS, 1024); /* of a repeated request */
    answer(ROCE_READ_RESP_ONLY, psn + 2, ROCE_AETH_ACK_NO_CREDITS, 52);
    expect(&r.b, GW_MLX5_CQE_REQ);
    assert_memory_equal(r.b.mem, bytes, 2100);
}

static void an_answer_of_the_wrong_length(void **state)
{
    uint32_t psn = b_posts(GW_MLX5_READ, 100);

    (void)state;
    answer(ROCE_READ_RESP_ONLY, psn, ROCE_AETH_ACK_NO_CREDITS, 104);
    expect_error(&r.b, GW_MLX5_CQE_REQ_ERR, GW_MLX5_SYND_BAD_RESP);
}

static void answers_to_nothing(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 200; i += 7) {
        answer(ROCE_ACK, i, ROCE_AETH_ACK_NO_CREDITS, 0);
        answer(ROCE_ACK, i, roce_aeth_nak(ROCE_NAK_REMOTE_ACCESS), 0);
        answer(ROCE_READ_RESP_ONLY, i, ROCE_AETH_ACK_NO_CREDITS, 100);
        answer(ROCE_ATOMIC_ACK, i, ROCE_AETH_ACK_NO_CREDITS, 0);
    }
    assert_int_equal(app_state(&r.b.qp), IBV_QPS_RTS);
    expect_nothing(&r.b);
    assert_int_equal(r.b.mem[0], 0);
}

static void naks_name_what_fails(void **state)
{
    uint32_t psn = b_posts(GW_MLX5_WRITE, 100);

    (void)state;
    b_posts(GW_MLX5_WRITE, 100);
    answer(ROCE_ACK, psn + 1, roce_aeth_nak(ROCE_NAK_REMOTE_OP), 0);
    expect(&r.b, GW_MLX5_CQE_REQ); /* before it all is well */
    expect_error(&r.b, GW_MLX5_CQE_REQ_ERR, GW_MLX5_SYND_REM_OP);
}

/* Until something was acknowledged it is not known what the peer can hold; then the window grows by what was.
 * It opens for many packets at once. */
static void the_first_window_is_not_the_largest(void **state)
{
    uint32_t psn = b_posts(GW_MLX5_WRITE, RIG_MEM);

    (void)state;
    b_posts(GW_MLX5_WRITE, RIG_MEM);
    assert_int_equal(counters(&r, 1).tx_packets, 48);
    answer(ROCE_ACK, psn + 3, ROCE_AETH_ACK_NO_CREDITS, 0);
    assert_int_equal(counters(&r, 1).tx_packets, 48);
    answer(ROCE_ACK, psn + 15, ROCE_AETH_ACK_NO_CREDITS, 0);
    assert_int_equal(counters(&r, 1).tx_packets, 16 + 64);
}

/* Linux' rxe finds what follows a request that it was not ready for out of sequence, and says so each time.
 * As long as it says, too, that it was not ready, the request does arrive. */
static void not_ready_and_out_of_sequence(void **state)
{
    uint32_t psn = b_posts(GW_MLX5_SEND, 100);

    (void)state;
    b_posts(GW_MLX5_READ, 100);
    for (int i = 0; i < 300; i++) {
        answer(ROCE_ACK, psn, roce_aeth_rnr(1), 0);
        r.w.now += 20000;
        world_run(&r.w, 1);
        answer(ROCE_ACK, psn, roce_aeth_nak(ROCE_NAK_PSN_SEQ), 0);
    }
    expect_nothing(&r.b);
    answer(ROCE_ACK, psn, ROCE_AETH_ACK_NO_CREDITS, 0);
    expect(&r.b, GW_MLX5_CQE_REQ);
    answer(ROCE_READ_RESP_ONLY, psn + 1, ROCE_AETH_ACK_NO_CREDITS, 100);
    expect(&r.b, GW_MLX5_CQE_REQ);
}

static void out_of_sequence_for_ever(void **state)
{
    uint32_t psn = b_posts(GW_MLX5_SEND, 100);

    (void)state;
    for (int i = 0; i < 300; i++) answer(ROCE_ACK, psn, roce_aeth_nak(ROCE_NAK_PSN_SEQ), 0);
    expect_error(&r.b, GW_MLX5_CQE_REQ_ERR, GW_MLX5_SYND_RETRY_EXC);
}

static void the_psn_goes_round(void **state)
{
    struct app_connect c = app_connect_default;
    struct rig s;

    (void)state;
    rig_up(&s, NULL);
    c.psn_here = 0xfffffe;
    app_connect(&s.a.qp, &s.b.qp, &c);
    memset(s.a.mem, 9, RIG_MEM);
    for (int i = 0; i < 5; i++) post(&s, i & 1 ? GW_MLX5_READ : GW_MLX5_WRITE, 0, 5000, 0);
    world_settle(&s.w, MS);
    for (int i = 0; i < 5; i++) expect(&s.a, GW_MLX5_CQE_REQ);
    assert_int_equal(s.b.mem[4999], 9);
    assert_int_equal(counters(&s, 0).retransmits, 0);
    rig_down(&s);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, up, down)
    const struct CMUnitTest tests[] = {
        T(a_write_in_one_packet),
        T(ahead_gives_one_nak_and_then_silence),
        T(behind_is_acknowledged_and_not_executed),
        T(behind_is_acknowledged_up_to_the_last_write),
        T(a_middle_without_a_first),
        T(a_first_after_a_first),
        T(a_last_of_another_kind),
        T(a_first_that_is_not_full),
        T(more_than_the_path_mtu),
        T(more_than_was_announced),
        T(a_message_that_never_ends),
        T(as_many_reads_as_agreed),
        T(an_atomic_is_executed_once),
        T(a_repeated_read_reads_nothing_else),
        T(a_repeated_atomic_names_the_same),
        T(a_late_read_of_a_region_that_went),
        T(atomics_must_be_aligned),
        T(strangers_change_nothing),
        T(one_acknowledgement_for_many),
        T(an_acknowledgement_does_not_complete_a_read),
        T(a_resumed_read_takes_any_name_of_its_packets),
        T(an_answer_of_the_wrong_length),
        T(answers_to_nothing),
        T(naks_name_what_fails),
        T(the_first_window_is_not_the_largest),
        T(not_ready_and_out_of_sequence),
        T(out_of_sequence_for_ever),
        T(the_psn_goes_round),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
