/* SPDX-License-Identifier: Apache-2.0 */
/* Sockets between kernels, through the NIC and rdma_cm: data in every form, set-up and ends, and every
 * error. */
#include <pthread.h>

#include "tests/socket/rig.h"

/* ---- data ---------------------------------------------------------------------------------------------- */

/* n bytes, a number of them in each call, through buffers of a set's. */
struct transfer {
    struct gw_sockets_attr attr;
    enum gw_group form;
    uint64_t n;
    int32_t send, recv;
    uint32_t lanes; /* on a GPU. With more than two warps a block goes on after its turn */
};

/* Both directions at a time, through buffers of many sizes, in pieces that fit nothing; then the end of one
 * direction, while the other goes on. */
static void test_both_ways(void **state)
{
    static const struct transfer v[] = {
        {{.count = 4}, GW_BLOCK, 3000001, 65521, 70000, 64},
        /* Long sends, some of which end in the peer's other half, or past the end of our buffer. */
        {{.count = 4, .rbuf = 1 << 20, .wbuf = 1 << 20}, GW_BLOCK, 7000003, 300001, 250000, 256},
        {{.count = 4, .rbuf = 1 << 20, .wbuf = 2 << 20}, GW_BLOCK, 7000003, 200000, 300000, 224},
        {{.count = 4, .rbuf = 4096, .wbuf = 65536, .writes = 16}, GW_BLOCK, 300001, 5000, 777, 96},
        {{.count = 4, .rbuf = 65536, .wbuf = 4096, .mem = GW_MEM_HOST}, GW_WARP, 300001, 10007, 5000, 64},
        {{.count = 4, .writes = 16}, GW_THREAD, 30000, 7, 1000, 64},
        {{.count = 4, .mem = GW_MEM_DEVICE}, GW_THREAD, 1000003, 60000, 33333, 64},
    };
    struct rig r;

    (void)state;
    for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
        enum gw_group g = v[i].form;

        lanes = test_block_dim(exec, v[i].lanes);
        rig_make(&r, &v[i].attr);
        join(&r, g);
        bytes(&r, 0, SK_SEND, g, 2, v[i].n, v[i].send, 1);
        add(&r, 0, SK_SHUTDOWN, g, 2, SHUT_WR);
        bytes(&r, 1, SK_RECV, g, 1, v[i].n + 5, v[i].recv, 1);
        bytes(&r, 2, SK_SEND, g, 1, v[i].n / 2, v[i].send, 2);
        bytes(&r, 3, SK_RECV, g, 2, v[i].n / 2, v[i].recv, 2);
        run(&r);
        EXPECT(&r, 0, (int64_t)v[i].n, 0);
        EXPECT(&r, 1, (int64_t)v[i].n);
        EXPECT(&r, 2, (int64_t)v[i].n / 2);
        EXPECT(&r, 3, (int64_t)v[i].n / 2);
        bytes(&r, 0, SK_SEND_ONE, g, 1, 500, 0, 3); /* this direction is open */
        bytes(&r, 0, SK_RECV_ONE, g, 2, 600, 0, 3);
        bytes(&r, 0, SK_SEND_ONE, g, 2, 1, 0, 0); /* that one is not */
        add(&r, 0, SK_SHUTDOWN, g, 1, SHUT_WR);
        bytes(&r, 0, SK_RECV_ONE, g, 2, 1, 0, 0);
        run(&r);
        EXPECT(&r, 0, 500, 500, -EPIPE, 0, 0);
        part(&r, g);
        rig_free(&r);
    }
    lanes = test_block_dim(exec, 64);
}

/* The same without copies; the sockets are closed at once. */
static void test_in_place(void **state)
{
    static const struct transfer v[] = {
        {{.count = 4, .rbuf = 1 << 20, .wbuf = 1 << 20}, GW_BLOCK, 7000003, 300001, 250000, 256},
        {{.count = 4, .rbuf = 4096, .wbuf = 65536, .writes = 16}, GW_BLOCK, 300001, 5000, 777, 96},
        {{.count = 4, .rbuf = 65536, .wbuf = 4096}, GW_WARP, 300001, 1007, 5000, 64},
        {{.count = 4, .writes = 16}, GW_THREAD, 30000, 7, 1000, 64},
    };
    struct rig r;

    (void)state;
    for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
        enum gw_group g = v[i].form;

        lanes = test_block_dim(exec, v[i].lanes);
        rig_make(&r, &v[i].attr);
        join(&r, g);
        bytes(&r, 0, SK_SEND_IN_PLACE, g, 2, v[i].n, v[i].send, 1);
        add(&r, 0, SK_CLOSE, g, 2, 0);
        bytes(&r, 1, SK_RECV_IN_PLACE, g, 1, v[i].n + 5, v[i].recv, 1);
        add(&r, 1, SK_CLOSE, g, 1, 0);
        add(&r, 1, SK_CLOSE, g, 0, 0);
        run(&r);
        EXPECT(&r, 0, (int64_t)v[i].n, 0);
        EXPECT(&r, 1, (int64_t)v[i].n, 0, 0);
        rig_free(&r);
    }
    lanes = test_block_dim(exec, 64);
}

/* Bytes where they lie: those that are not given back come again; a row ends where the buffer does. */
static void test_borrowing(void **state)
{
    struct gw_sockets_attr a = {.count = 4, .rbuf = 4096, .wbuf = 4096};
    struct rig r;

    (void)state;
    rig_make(&r, &a);
    join(&r, GW_BLOCK);
    bytes(&r, 0, SK_BORROW, GW_BLOCK, 1, 0, 0, 0)->limit_ns = 0;
    bytes(&r, 0, SK_SEND_ONE, GW_BLOCK, 2, 1000, 0, 8);
    add(&r, 0, SK_POLL, GW_BLOCK, 1, POLLIN);
    bytes(&r, 0, SK_BORROW, GW_BLOCK, 1, 0, 0, 8);
    bytes(&r, 0, SK_BORROW, GW_WARP, 1, 400, 0, 8);
    bytes(&r, 0, SK_BORROW, GW_THREAD, 1, 601, 0, 8)->at = 400;
    bytes(&r, 0, SK_BORROW, GW_BLOCK, 1, 600, 0, 8)->at = 400;
    bytes(&r, 0, SK_SEND_ONE, GW_BLOCK, 2, 3000, 0, 8)->at = 1000;
    bytes(&r, 0, SK_RECV_ONE, GW_BLOCK, 1, 3000, 0, 8)->at = 1000;
    r.script[0].step[8].flags = MSG_WAITALL;
    bytes(&r, 0, SK_SEND_ONE, GW_BLOCK, 2, 500, 0, 8)->at = 4000;
    run(&r);
    EXPECT(&r, 0, -EAGAIN, 1000, POLLIN, 1000, 1000, -EINVAL, 600, 3000, 3000, 500);
    add(&r, 0, SK_SHUTDOWN, GW_BLOCK, 2, SHUT_WR);
    bytes(&r, 0, SK_BORROW, GW_BLOCK, 1, 96, 0, 8)->at = 4000;
    bytes(&r, 0, SK_BORROW, GW_WARP, 1, 404, 0, 8)->at = 4096;
    bytes(&r, 0, SK_BORROW, GW_BLOCK, 1, 0, 0, 0);
    run(&r);
    EXPECT(&r, 0, 0, 96, 404, 0);
    part(&r, GW_THREAD);
    rig_free(&r);
}

/* ---- set-up and ends ----------------------------------------------------------------------------------- */

static void test_opening(void **state)
{
    struct gw_sockets_attr a = {.count = 3, .rbuf = 4096, .wbuf = 4096};
    struct rig r;

    (void)state;
    rig_make(&r, &a);
    add(&r, 0, SK_OPEN, GW_BLOCK, 0, AF_UNIX)->flags = SOCK_STREAM;
    add(&r, 0, SK_OPEN, GW_BLOCK, 0, AF_INET)->flags = SOCK_DGRAM;
    open_at(&r, 0, GW_BLOCK, 0);
    open_at(&r, 0, GW_WARP, 1);
    open_at(&r, 0, GW_THREAD, 2);
    open_at(&r, 0, GW_BLOCK, 3);
    add(&r, 0, SK_BIND, GW_BLOCK, 0, 0);
    add(&r, 0, SK_NAME, GW_BLOCK, 0, 0);
    add(&r, 0, SK_BIND, GW_BLOCK, 1, 0);
    add(&r, 0, SK_BIND, GW_BLOCK, 0, 0);
    add(&r, 0, SK_NAME, GW_BLOCK, 0, 1);
    add(&r, 0, SK_ACCEPT, GW_BLOCK, 0, 5);
    bytes(&r, 0, SK_SEND_ONE, GW_BLOCK, 0, 1, 0, 0);
    bytes(&r, 0, SK_RECV_ONE, GW_WARP, 0, 1, 0, 0);
    add(&r, 0, SK_SHUTDOWN, GW_BLOCK, 0, SHUT_RD);
    add(&r, 0, SK_CONNECT, GW_BLOCK, 2, 0); /* no socket listens there, though it is taken */
    run(&r);
    EXPECT(&r, 0, -EAFNOSUPPORT, -ESOCKTNOSUPPORT, 0, 0, 0, -EMFILE, 0, port, -EADDRINUSE, -EINVAL, -ENOTCONN,
           -EINVAL, -ENOTCONN, -ENOTCONN, -ENOTCONN, -ECONNREFUSED);
    add(&r, 0, SK_POLL, GW_BLOCK, 2, POLLIN | POLLOUT);
    add(&r, 0, SK_CONNECT, GW_BLOCK, 2, 0);
    add(&r, 0, SK_LISTEN, GW_BLOCK, 0, 0);
    add(&r, 0, SK_ACCEPT, GW_BLOCK, 0, 5)->limit_ns = 0;
    add(&r, 0, SK_ACCEPT, GW_BLOCK, 0, 5)->limit_ns = 20000000;
    add(&r, 0, SK_POLL, GW_BLOCK, 0, POLLIN)->limit_ns = 0;
    add(&r, 0, SK_CONNECT, GW_BLOCK, 0, 0);
    for (uint32_t s = 0; s < 3; s++) add(&r, 0, SK_CLOSE, GW_BLOCK, s, 0);
    add(&r, 0, SK_CLOSE, GW_BLOCK, 0, 0);
    add(&r, 0, SK_POLL, GW_BLOCK, 0, POLLIN);
    add(&r, 0, SK_NAME, GW_BLOCK, 1, 0);
    bytes(&r, 0, SK_SEND_ONE, GW_BLOCK, 100000, 1, 0, 0);
    add(&r, 0, SK_CLOSE, GW_BLOCK, (uint32_t)-1, 0);
    run(&r);
    EXPECT(&r, 0, POLLIN | POLLOUT | POLLERR | POLLHUP, -ECONNABORTED, 0, -EAGAIN, -ETIMEDOUT, -1,
           -EOPNOTSUPP, 0, 0, 0, -EBADF, POLLNVAL, -EBADF, -EBADF, -EBADF);
    assert_int_equal(gw_sockets_open(r.set), 0);
    rig_free(&r);
}

static void test_without_waiting(void **state)
{
    struct gw_sockets_attr a = {.count = 4};
    struct rig r;

    (void)state;
    rig_make(&r, &a);
    open_at(&r, 0, GW_BLOCK, 0);
    add(&r, 0, SK_BIND, GW_BLOCK, 0, 0);
    add(&r, 0, SK_LISTEN, GW_BLOCK, 0, 1);
    open_at(&r, 0, GW_BLOCK, 2);
    add(&r, 0, SK_POLL, GW_BLOCK, 2, POLLOUT);
    add(&r, 0, SK_CONNECT, GW_BLOCK, 2, 0)->limit_ns = 0;
    add(&r, 0, SK_POLL, GW_BLOCK, 0, POLLIN);
    add(&r, 0, SK_ACCEPT, GW_BLOCK, 0, 1)->limit_ns = 0;
    add(&r, 0, SK_POLL, GW_BLOCK, 2, POLLIN | POLLOUT);
    add(&r, 0, SK_CONNECT, GW_BLOCK, 2, 0)->limit_ns = 0;
    add(&r, 0, SK_CONNECT, GW_BLOCK, 2, 0)->limit_ns = 0;
    add(&r, 0, SK_NAME, GW_BLOCK, 2, 1);
    bytes(&r, 0, SK_SEND_ONE, GW_BLOCK, 1, 9, 0, 0);
    add(&r, 0, SK_POLL, GW_BLOCK, 2, POLLIN);
    add(&r, 0, SK_CLOSE, GW_BLOCK, 1, 0);
    bytes(&r, 0, SK_RECV_ONE, GW_BLOCK, 2, 20, 0, 0);
    run(&r);
    EXPECT(&r, 0, 0, 0, 0, 0, POLLOUT | POLLHUP, -EINPROGRESS, POLLIN, 0, POLLOUT, 0, -EISCONN, port, 9,
           POLLIN, 0, 9);
    bytes(&r, 0, SK_RECV_ONE, GW_BLOCK, 2, 20, 0, 0);
    add(&r, 0, SK_POLL, GW_BLOCK, 2, POLLIN);
    bytes(&r, 0, SK_SEND_ONE, GW_BLOCK, 2, 20, 0, 0);
    add(&r, 0, SK_CLOSE, GW_BLOCK, 2, 0);
    add(&r, 0, SK_CLOSE, GW_BLOCK, 0, 0);
    run(&r);
    EXPECT(&r, 0, 0, POLLIN | POLLHUP, -EPIPE, 0, 0);
    assert_int_equal(gw_sockets_open(r.set), 0);
    rig_free(&r);
}

/* Connections that are not accepted go with their listener; a backlog that is full refuses. */
static void test_backlog(void **state)
{
    struct gw_sockets_attr a = {.count = 8, .rbuf = 4096, .wbuf = 4096};
    struct rig r;

    (void)state;
    rig_make(&r, &a);
    open_at(&r, 0, GW_BLOCK, 0);
    add(&r, 0, SK_BIND, GW_BLOCK, 0, 0);
    add(&r, 0, SK_LISTEN, GW_BLOCK, 0, 2);
    for (uint32_t s = 1; s < 4; s++) {
        open_at(&r, 0, GW_BLOCK, s);
        add(&r, 0, SK_CONNECT, GW_BLOCK, s, 0);
    }
    add(&r, 0, SK_CLOSE, GW_BLOCK, 0, 0);
    bytes(&r, 0, SK_RECV_ONE, GW_BLOCK, 1, 1, 0, 0);
    for (uint32_t s = 1; s < 4; s++) add(&r, 0, SK_CLOSE, GW_BLOCK, s, 0);
    run(&r);
    EXPECT(&r, 0, 0, 0, 0, 0, 0, 0, 0, 0, -ECONNREFUSED, 0, -ECONNRESET, 0, 0, 0);
    assert_int_equal(gw_sockets_open(r.set), 0);
    rig_free(&r);
}

/* One block waits for bytes, another closes its socket. */
static void test_close_under_a_receiver(void **state)
{
    struct gw_sockets_attr a = {.count = 4};
    struct rig r;

    (void)state;
    rig_make(&r, &a);
    join(&r, GW_BLOCK);
    bytes(&r, 0, SK_RECV_ONE, GW_BLOCK, 1, 1, 0, 0);
    bytes(&r, 1, SK_RECV_ONE, GW_BLOCK, 2, 1, 0, 0)->limit_ns = 100000000;
    add(&r, 1, SK_CLOSE, GW_BLOCK, 1, 0);
    bytes(&r, 1, SK_RECV_ONE, GW_BLOCK, 2, 1, 0, 0);
    run(&r);
    EXPECT(&r, 0, -EBADF);
    EXPECT(&r, 1, -ETIMEDOUT, 0, 0);
    add(&r, 0, SK_CLOSE, GW_BLOCK, 2, 0);
    add(&r, 0, SK_CLOSE, GW_BLOCK, 0, 0);
    run(&r);
    EXPECT(&r, 0, 0, 0);
    rig_free(&r);
}

struct closer {
    struct gw_net *net;
    int s, closed;
};

static void *close_one(void *arg)
{
    struct closer *c = arg;
    int err = gw_sock_close_thread(c->net, c->s, gw_deadline(10 * (uint64_t)SECOND));

    __atomic_store_n(&c->closed, err ? err : 1, __ATOMIC_RELEASE);
    return NULL;
}

/* Closing waits for a thread that works after its group's turn, since the queue pair is another's soon. (On
 * a GPU the word that says so is out of this test's reach.) */
static void test_close_under_who_is_behind(void **state)
{
    struct gw_sockets_attr a = {.count = 4};
    struct closer c;
    pthread_t id;
    struct rig r;

    (void)state;
    if (gw_exec_kind(exec) == GW_EXEC_GPU) return;
    rig_make(&r, &a);
    join(&r, GW_BLOCK);
    bytes(&r, 0, SK_SEND_ONE, GW_BLOCK, 1, 100, 0, 5); /* the connection begins with its first use */
    bytes(&r, 0, SK_RECV_ONE, GW_BLOCK, 2, 100, 0, 5);
    run(&r);
    EXPECT(&r, 0, 100, 100);
    c = (struct closer){.net = gw_sockets_net(r.set), .s = ((const int32_t *)r.sock.dev)[1]};
    gw_stream_deferred_(&c.net->stream[c.s]);
    assert_int_equal(pthread_create(&id, NULL, close_one, &c), 0);
    usleep(100000);
    assert_int_equal(__atomic_load_n(&c.closed, __ATOMIC_ACQUIRE), 0);
    gw_stream_caught_up_(&c.net->stream[c.s]);
    pthread_join(id, NULL);
    assert_int_equal(c.closed, 1);
    add(&r, 0, SK_CLOSE, GW_BLOCK, 2, 0);
    add(&r, 0, SK_CLOSE, GW_BLOCK, 0, 0);
    run(&r);
    EXPECT(&r, 0, 0, 0);
    rig_free(&r);
}

/* Sockets are used again and again: nothing of an old connection is seen by the next one. */
static void test_churn(void **state)
{
    struct gw_sockets_attr a = {.count = 3, .rbuf = 8192, .wbuf = 8192};
    struct rig r;

    (void)state;
    rig_make(&r, &a);
    for (uint32_t i = 0; i < 20; i++) {
        join(&r, GW_BLOCK);
        bytes(&r, 0, SK_SEND, GW_BLOCK, 2, 20000, 3000, i);
        bytes(&r, 1, SK_RECV, GW_BLOCK, 1, 20000, 3000, i);
        bytes(&r, 1, SK_SEND_ONE, GW_BLOCK, 1, 500, 0, i); /* never received */
        run(&r);
        EXPECT(&r, 0, 20000);
        EXPECT(&r, 1, 20000, 500);
        part(&r, GW_BLOCK);
    }
    rig_free(&r);
}

static void test_refused(void **state)
{
    static const struct gw_sockets_attr bad[] = {
        {.count = 0},
        {.count = 1, .rbuf = 100},
        {.count = 1, .wbuf = (256u << 20) + 1},
        {.count = 1, .writes = 8},
        {.count = 1, .writes = 5000},
        {.count = 1, .mem = 3},
        {.count = 100000},
    };
    struct gw_sockets *set;

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(gw_sockets_create(dev, &bad[i], &set), -EINVAL);
        assert_null(set);
    }
    must(gw_sockets_destroy(NULL), "gw_sockets_destroy");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_both_ways),
        cmocka_unit_test(test_in_place),
        cmocka_unit_test(test_borrowing),
        cmocka_unit_test(test_opening),
        cmocka_unit_test(test_without_waiting),
        cmocka_unit_test(test_backlog),
        cmocka_unit_test(test_close_under_a_receiver),
        cmocka_unit_test(test_close_under_who_is_behind),
        cmocka_unit_test(test_churn),
        cmocka_unit_test(test_refused),
    };
    const struct CMUnitTest tcp[] = {
        cmocka_unit_test_setup(test_both_ways, over_tcp),
        cmocka_unit_test_setup(test_in_place, over_tcp),
        cmocka_unit_test_setup(test_borrowing, over_tcp),
        cmocka_unit_test_setup(test_close_under_a_receiver, over_tcp),
        cmocka_unit_test_setup(test_churn, over_tcp),
    };

    rig_begin(argc, argv);
    return cmocka_run_group_tests_name("RDMA", tests, open_dev, close_all) +
           cmocka_run_group_tests_name("TCP", tcp, open_dev, close_all);
}
