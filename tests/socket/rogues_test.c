/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Peers of a stream that break rsocket's rules, played with librdmacm and libibverbs. Their own socket gets a
 * negative errno, and the others get nothing: after each, a good connection, there from the beginning, still
 * works.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <rdma/rdma_cma.h>

#include <gpuwire/socket.h>
#include <gpuwire/verbs.h>

#include "tests/socket/own_nic.h"

#define RBUF    8192u
#define BYTES   65536u
#define RECVS   64
#define SOCKETS 6

static struct gw_exec *exec;
static struct gw_device *dev;
static struct gw_sockets *set;
static struct gw_net *net;
static struct sockaddr_in addr;
static int listener, good[2];

static uint64_t soon(void)
{
    return gw_clock_ns() + 60000000000u;
}

/* ---- the rogue ----------------------------------------------------------------------------------------- */

struct rogue {
    struct rdma_cm_id *id;
    struct ibv_mr *mr;
    uint8_t *bytes;
    struct gw_rs_conn theirs;
};

static void good_offer(const struct rogue *r, uint8_t data[GW_RS_CONN_BYTES])
{
    struct gw_rs_conn c = {.credits = 64};

    c.half = (struct gw_rs_sge){(uintptr_t)r->bytes + 1024, r->mr->rkey, 4096};
    c.table = (struct gw_rs_sge){(uintptr_t)r->bytes, r->mr->rkey, GW_RS_TABLE};
    gw_rs_conn_pack(&c, data);
}

static void rogue_make(struct rogue *r, int receives)
{
    struct ibv_qp_init_attr qa = {
        .qp_type = IBV_QPT_RC,
        .sq_sig_all = 1,
        .cap = {.max_send_wr = 128, .max_recv_wr = RECVS, .max_send_sge = 1, .max_recv_sge = 1}};
    struct ibv_recv_wr wr = {.num_sge = 0}, *bad;

    assert_return_code(rdma_create_id(NULL, &r->id, NULL, RDMA_PS_TCP), errno);
    assert_return_code(rdma_resolve_addr(r->id, NULL, (struct sockaddr *)&addr, 5000), errno);
    assert_return_code(rdma_resolve_route(r->id, 5000), errno);
    assert_return_code(rdma_create_qp(r->id, NULL, &qa), errno);
    r->bytes = calloc(1, BYTES);
    r->mr = ibv_reg_mr(r->id->pd, r->bytes, BYTES, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    assert_non_null(r->mr);
    for (int i = 0; i < receives; i++) assert_int_equal(ibv_post_recv(r->id->qp, &wr, &bad), 0);
}

/* Asks with this as private data. 0, or an errno. */
static int rogue_ask(struct rogue *r, const void *data, uint8_t len)
{
    struct rdma_conn_param p = {.private_data = data,
                                .private_data_len = len,
                                .flow_control = 1,
                                .retry_count = 7,
                                .rnr_retry_count = 7};

    if (rdma_connect(r->id, &p)) return errno;
    assert_int_equal(gw_rs_conn_unpack(r->id->event->param.conn.private_data,
                                       r->id->event->param.conn.private_data_len, &r->theirs),
                     0);
    return 0;
}

static void rogue_free(struct rogue *r)
{
    rdma_destroy_qp(r->id);
    ibv_dereg_mr(r->mr);
    free(r->bytes);
    rdma_destroy_id(r->id);
}

/* A rogue whose handshake was good, and the socket that it is connected to. */
static int rogue_meet_with(struct rogue *r, int receives)
{
    uint8_t data[GW_RS_CONN_BYTES];
    int s;

    rogue_make(r, receives);
    good_offer(r, data);
    assert_int_equal(rogue_ask(r, data, sizeof(data)), 0);
    s = gw_sock_accept_thread(net, listener, NULL, NULL, soon());
    assert_true(s >= 0);
    return s;
}

static int rogue_meet(struct rogue *r)
{
    return rogue_meet_with(r, RECVS);
}

/* Posts a write with this immediate, or another request; its completion's status. */
static enum ibv_wc_status rogue_post(struct rogue *r, enum ibv_wr_opcode op, uint32_t imm, uint64_t to,
                                     uint32_t key, uint32_t n)
{
    struct ibv_sge sge = {(uintptr_t)r->bytes + 8192, n, r->mr->lkey};
    struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = n ? 1 : 0, .opcode = op}, *bad;
    uint64_t limit = soon();
    struct ibv_wc wc;
    int got;

    wr.imm_data = htonl(imm);
    wr.wr.rdma.remote_addr = to;
    wr.wr.rdma.rkey = key;
    assert_int_equal(ibv_post_send(r->id->qp, &wr, &bad), 0);
    while (!(got = ibv_poll_cq(r->id->send_cq, 1, &wc))) assert_true(gw_clock_ns() < limit);
    assert_int_equal(got, 1);
    return wc.status;
}

static enum ibv_wc_status rogue_write(struct rogue *r, uint32_t imm, const struct gw_rs_sge *to, uint32_t n)
{
    return rogue_post(r, IBV_WR_RDMA_WRITE_WITH_IMM, imm, to->addr, to->key, n);
}

/* ---- the good ones ------------------------------------------------------------------------------------- */

static void still_works(void)
{
    static uint8_t say;
    uint8_t bytes[500], heard[500];

    for (int way = 0; way < 2; way++) {
        memset(bytes, ++say, sizeof(bytes));
        assert_int_equal(gw_sock_send_thread(net, good[way], bytes, sizeof(bytes), 0, soon()), sizeof(bytes));
        assert_int_equal(gw_sock_recv_thread(net, good[!way], heard, sizeof(heard), MSG_WAITALL, soon()),
                         sizeof(heard));
        assert_memory_equal(bytes, heard, sizeof(bytes));
    }
}

static int64_t receive(int s)
{
    uint8_t bytes[BYTES];

    return gw_sock_recv_thread(net, s, bytes, sizeof(bytes), 0, soon());
}

static void ends(struct rogue *r, int s, int64_t want)
{
    struct pollfd f = {.fd = s, .events = POLLIN | POLLOUT};

    assert_int_equal(receive(s), want);
    assert_int_equal(receive(s), want); /* it stays */
    assert_int_equal(gw_sock_poll_thread(net, &f, 1, soon()), 1);
    assert_true(f.revents & POLLERR);
    assert_int_equal(gw_sock_send_thread(net, s, "x", 1, 0, soon()), want);
    assert_int_equal(gw_sock_close_thread(net, s, soon()), 0);
    rogue_free(r);
    still_works();
}

/* ---- handshakes ---------------------------------------------------------------------------------------- */

static void test_handshakes(void **state)
{
    static const struct {
        uint8_t len, at, value[4], n;
    } bad[] = {
        {0, 0, {0}, 0},  /* nothing at all */
        {36, 0, {1}, 1}, /* without the half's length */
        {40, 0, {2}, 1}, /* another version */
        {40, 0, {0}, 1},
        {40, 2, {0, 0}, 2},        /* no credits */
        {40, 20, {0, 0, 0, 3}, 4}, /* a table of three */
        {40, 20, {0, 0, 0, 0}, 4},
        {40, 36, {0, 0, 0, 0}, 4},    /* a half of no bytes */
        {40, 36, {0x20, 0, 0, 0}, 4}, /* … of more than an immediate can say */
        {40, 36, {0xff, 0xff, 0xff, 0xff}, 4},
    };
    uint8_t data[GW_RS_CONN_BYTES];
    struct rogue r;
    int err;

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        rogue_make(&r, RECVS);
        good_offer(&r, data);
        memcpy(data + bad[i].at, bad[i].value, bad[i].n);
        err = rogue_ask(&r, data, bad[i].len);
        if (err != ECONNREFUSED) fail_msg("handshake %zu: %s", i, strerror(err));
        rogue_free(&r);
        still_works();
    }
    assert_int_equal(gw_sock_accept_thread(net, listener, NULL, NULL, 0), -EAGAIN);
    assert_int_equal(gw_sockets_open(set), 3); /* none is left of them */
}

/* A connection that waits to be accepted has a socket already. It belongs to no call: calls on its number
 * leave it alone. */
static void test_not_accepted(void **state)
{
    uint8_t data[GW_RS_CONN_BYTES];
    struct pollfd f[SOCKETS];
    struct rogue r;
    int s;

    (void)state;
    rogue_make(&r, RECVS);
    good_offer(&r, data);
    assert_int_equal(rogue_ask(&r, data, sizeof(data)), 0);
    for (s = 0; s < SOCKETS; s++) f[s] = (struct pollfd){.fd = s, .events = POLLOUT};
    assert_int_equal(gw_sock_poll_thread(net, f, SOCKETS, soon()), SOCKETS - 1); /* all but the listener */
    for (s = 0; s < SOCKETS; s++) {
        if (s == listener || s == good[0] || s == good[1]) continue;
        assert_int_equal(f[s].revents, POLLNVAL);
        assert_int_equal(receive(s), -EBADF);
        assert_int_equal(gw_sock_close_thread(net, s, soon()), -EBADF);
    }
    s = gw_sock_accept_thread(net, listener, NULL, NULL, soon());
    assert_true(s >= 0);
    assert_int_equal(rogue_write(&r, gw_rs_imm(GW_RS_DATA, 100), &r.theirs.half, 100), IBV_WC_SUCCESS);
    assert_int_equal(receive(s), 100);
    assert_int_equal(gw_sock_close_thread(net, s, soon()), 0);
    rogue_free(&r);
    still_works();
}

/* Asks and goes away: before it is accepted, and after. */
static void test_half_open(void **state)
{
    struct rogue r;
    int s;

    (void)state;
    for (int i = 0; i < 8; i++) { /* more than the set has sockets */
        s = rogue_meet(&r);
        rogue_free(&r); /* no disconnect: rdma_destroy_id alone */
        assert_int_equal(receive(s), -ECONNRESET);
        assert_int_equal(gw_sock_close_thread(net, s, soon()), 0);
    }
    still_works();
}

/* ---- messages ------------------------------------------------------------------------------------------ */

static void test_bad_messages(void **state)
{
    static const struct {
        uint32_t imm, n;
    } bad[] = {
        {1u << 29 | 5, 5}, /* kinds that there are not */
        {2u << 29 | 5, 5},
        {3u << 29 | 5, 5},
        {5u << 29, 0},
        {4, 5}, /* another number of bytes than it says */
        {6, 5},
        {0, 0},             /* no bytes */
        {4u << 29 | 64, 8}, /* half a table entry */
        {4u << 29 | 64, 32},
        {7u << 29 | 3, 0}, /* a control message of no meaning */
        {7u << 29, 16},
        {6u << 29, 24}, /* direct access, which was not offered */
        {6u << 29 | 77, 24},
        {6u << 29, 0},
    };
    struct rogue r;
    int s;

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        s = rogue_meet(&r);
        assert_int_equal(rogue_write(&r, bad[i].imm, &r.theirs.half, bad[i].n), IBV_WC_SUCCESS);
        ends(&r, s, -EPROTO);
    }
}

/* What it may say is understood until then: bytes in front of the fault are received. */
static void test_more_than_offered(void **state)
{
    struct rogue r;
    int s = rogue_meet(&r);

    (void)state;
    assert_int_equal(rogue_write(&r, gw_rs_imm(GW_RS_DATA, RBUF / 2), &r.theirs.half, RBUF / 2),
                     IBV_WC_SUCCESS);
    assert_int_equal(rogue_write(&r, gw_rs_imm(GW_RS_DATA, 100), &r.theirs.half, 100), IBV_WC_SUCCESS);
    assert_int_equal(receive(s), RBUF / 2);
    ends(&r, s, -EPROTO);
}

/*
 * While no thread looks, more writes at once than there is credit for, and than the receive queue holds. Our
 * NIC tells the rogue's NIC to wait. Once our side looks, everything comes, since there is room for the
 * bytes.
 */
static void test_credit_ignored(void **state)
{
    struct ibv_sge sge;
    struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE_WITH_IMM}, *bad;
    struct rogue r;
    int64_t got, all = 0;
    int s = rogue_meet(&r);

    (void)state;
    sge = (struct ibv_sge){(uintptr_t)r.bytes + 8192, 1, r.mr->lkey};
    for (uint32_t i = 0; i < 100; i++) {
        wr.imm_data = htonl(gw_rs_imm(GW_RS_DATA, 1));
        wr.wr.rdma.remote_addr = r.theirs.half.addr + i;
        wr.wr.rdma.rkey = r.theirs.half.key;
        assert_int_equal(ibv_post_send(r.id->qp, &wr, &bad), 0);
    }
    still_works();
    while (all < 100 && (got = receive(s)) > 0) all += got;
    assert_int_equal(all, 100);
    assert_int_equal(gw_sock_close_thread(net, s, soon()), 0);
    rogue_free(&r);
    still_works();
}

/* Table entries over entries that are in use. */
static void test_halves_too_many(void **state)
{
    struct gw_rs_sge *entry;
    struct rogue r;
    int s = rogue_meet(&r);

    (void)state;
    entry = (struct gw_rs_sge *)(r.bytes + 8192);
    *entry = (struct gw_rs_sge){(uintptr_t)r.bytes + 16384, r.mr->rkey, 4096};
    for (int i = 0; i < 2; i++)
        assert_int_equal(rogue_post(&r, IBV_WR_RDMA_WRITE_WITH_IMM, gw_rs_imm(GW_RS_CREDIT, 70),
                                    r.theirs.table.addr + (i ? 0 : 16), r.theirs.table.key, 16),
                         IBV_WC_SUCCESS);
    ends(&r, s, -EPROTO);
}

/* An entry of no bytes, or of more than there can be, once it is announced. */
static void test_bad_halves(void **state)
{
    static const uint32_t lengths[] = {0, 1u << 29, UINT32_MAX};
    struct rogue r;

    (void)state;
    for (int i = 0; i < 3; i++) {
        int s = rogue_meet(&r);

        *(struct gw_rs_sge *)(r.bytes + 8192) =
            (struct gw_rs_sge){(uintptr_t)r.bytes, r.mr->rkey, lengths[i]};
        assert_int_equal(rogue_post(&r, IBV_WR_RDMA_WRITE_WITH_IMM, gw_rs_imm(GW_RS_CREDIT, 70),
                                    r.theirs.table.addr + 16, r.theirs.table.key, 16),
                         IBV_WC_SUCCESS);
        ends(&r, s, -EPROTO);
    }
}

/* A key that opens nothing: our queue pair fails when it writes there, after the peer's NIC has refused. */
static void test_bad_key(void **state)
{
    uint8_t data[GW_RS_CONN_BYTES];
    struct rogue r;
    int64_t got;
    int s;

    (void)state;
    rogue_make(&r, RECVS);
    good_offer(&r, data);
    data[32] ^= 0x55; /* the half's key */
    assert_int_equal(rogue_ask(&r, data, sizeof(data)), 0);
    s = gw_sock_accept_thread(net, listener, NULL, NULL, soon());
    assert_true(s >= 0);
    got = gw_sock_send_thread(net, s, "hello", 5, 0, soon());
    assert_true(got == 5 || got == -ECONNRESET);
    ends(&r, s, -ECONNRESET);
}

/* Requests that streams have no use for: a send, a read of our memory, a write to where nothing was
 * offered. */
static void test_other_requests(void **state)
{
    struct rogue r;
    int s = rogue_meet(&r);

    (void)state;
    assert_int_equal(rogue_post(&r, IBV_WR_SEND, 0, 0, 0, 0), IBV_WC_SUCCESS);
    ends(&r, s, -EPROTO);
    s = rogue_meet(&r);
    assert_int_not_equal(rogue_post(&r, IBV_WR_RDMA_READ, 0, r.theirs.half.addr, r.theirs.half.key, 64),
                         IBV_WC_SUCCESS);
    ends(&r, s, -ECONNRESET);
    s = rogue_meet(&r);
    assert_int_not_equal(
        rogue_post(&r, IBV_WR_RDMA_WRITE, 0, r.theirs.half.addr - (1u << 30), r.theirs.half.key, 64),
        IBV_WC_SUCCESS);
    ends(&r, s, -ECONNRESET);
}

/*
 * It posts no receives: its NIC says to come again later, forever, and our own goes on trying. The question
 * whether it is there waits after that, and what the socket's options allow for it ends the wait.
 */
static void test_no_receives(void **state)
{
    static const int name[] = {TCP_KEEPIDLE, TCP_KEEPINTVL, TCP_KEEPCNT};
    struct rogue r;
    int s = rogue_meet_with(&r, 0), one = 1;

    (void)state;
    for (int i = 0; i < 3; i++)
        assert_int_equal(gw_sock_setsockopt_thread(net, s, IPPROTO_TCP, name[i], &one, sizeof(one)), 0);
    assert_int_equal(gw_sock_send_thread(net, s, "hello", 5, 0, soon()), 5);
    ends(&r, s, -ETIMEDOUT); /* each call has sixty seconds, thirty times what the options say */
}

/* ---- set-up -------------------------------------------------------------------------------------------- */

static int begin(void **state)
{
    struct gw_sockets_attr attr = {
        .count = SOCKETS, .rbuf = RBUF, .wbuf = RBUF, .writes = 16, .rdma = GW_RDMA_ONLY};
    socklen_t len = sizeof(addr);

    (void)state;
    addr = own_addr(1, 0);
    own_nic(&addr, ",hostile=1");
    if (gw_exec_create("cpu", NULL, &exec) || gw_device_open("softnic", exec, &dev) ||
        gw_sockets_create(dev, &attr, &set)) {
        fprintf(stderr, "%s\n", gw_last_error());
        return -1;
    }
    net = gw_sockets_net(set);
    listener = gw_sock_open_thread(net, AF_INET, SOCK_STREAM, 0, soon());
    good[0] = gw_sock_open_thread(net, AF_INET, SOCK_STREAM, 0, soon());
    if (gw_sock_bind_thread(net, listener, (struct sockaddr *)&addr, sizeof(addr), soon()) ||
        gw_sock_listen_thread(net, listener, 2, soon()) ||
        gw_sock_name_thread(net, listener, (struct sockaddr *)&addr, &len) ||
        gw_sock_connect_thread(net, good[0], (struct sockaddr *)&addr, sizeof(addr), soon()))
        return -1;
    good[1] = gw_sock_accept_thread(net, listener, NULL, NULL, soon());
    return good[1] < 0 ? -1 : 0;
}

static int end(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) gw_sock_close_thread(net, good[i], soon());
    gw_sock_close_thread(net, listener, soon());
    if (gw_sockets_open(set)) fprintf(stderr, "%u sockets are open\n", gw_sockets_open(set));
    if (!gw_sockets_destroy(set) && !gw_device_close(dev) && !gw_exec_destroy(exec)) return 0;
    fprintf(stderr, "%s\n", gw_last_error());
    return -1;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_handshakes),     cmocka_unit_test(test_half_open),
        cmocka_unit_test(test_bad_messages),   cmocka_unit_test(test_more_than_offered),
        cmocka_unit_test(test_credit_ignored), cmocka_unit_test(test_halves_too_many),
        cmocka_unit_test(test_bad_halves),     cmocka_unit_test(test_bad_key),
        cmocka_unit_test(test_other_requests), cmocka_unit_test(test_no_receives),
        cmocka_unit_test(test_not_accepted),
    };

    if (argc > 1) cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, begin, end);
}
