/* SPDX-License-Identifier: Apache-2.0 */
/* Sockets between kernels: vectors, room filled in place, and options. */
#include "tests/socket/rig.h"

static void test_vectors(void **state)
{
    static const enum gw_group forms[] = {GW_BLOCK, GW_WARP, GW_THREAD};
    struct gw_sockets_attr a = {.count = 4, .rbuf = 4096, .wbuf = 4096};
    struct rig r;

    (void)state;
    rig_make(&r, &a);
    for (uint32_t i = 0; i < 3; i++) {
        enum gw_group g = forms[i];

        join(&r, g);
        bytes(&r, 0, SK_WRITEV, g, 2, 2000, 40, i);
        bytes(&r, 0, SK_READV, g, 1, 1500, 9, i);
        bytes(&r, 0, SK_READV, g, 1, 3000, 1, i)->at = 1500;
        bytes(&r, 0, SK_READV, g, 1, 0, 3, i);
        bytes(&r, 0, SK_WRITEV, g, 2, 0, 0, i);
        bytes(&r, 0, SK_READV, g, 1, 0, -1, i);
        bytes(&r, 0, SK_WRITEV, g, 2, 0, GW_SOCK_IOV_MAX + 1, i)->n = 0;
        bytes(&r, 0, SK_WRITEV, g, 100, 0, 1, i);
        run(&r);
        EXPECT(&r, 0, 2000, 1500, 500, 0, 0, -EINVAL, -EINVAL, -EBADF);
        /* More than all buffers on the way have room for: one block sends, another receives. */
        bytes(&r, 0, SK_WRITEV, g, 2, 60000, 60, i);
        bytes(&r, 1, SK_RECV, g, 1, 60000, 7777, i);
        run(&r);
        EXPECT(&r, 0, 60000);
        EXPECT(&r, 1, 60000);
        part(&r, g);
    }
    rig_free(&r);
}

/* Room is filled where it lies: all, some or none of it goes. A row ends where the buffer does. */
static void test_reserving(void **state)
{
    struct gw_sockets_attr a = {.count = 4, .rbuf = 16384, .wbuf = 4096};
    struct rig r;

    (void)state;
    rig_make(&r, &a);
    join(&r, GW_BLOCK);
    bytes(&r, 0, SK_RESERVE, GW_BLOCK, 2, 1000, 0, 9);
    bytes(&r, 0, SK_RESERVE, GW_WARP, 2, 0, 0, 9);
    bytes(&r, 0, SK_RESERVE, GW_WARP, 2, 4000, 0, 9);
    bytes(&r, 0, SK_RESERVE, GW_THREAD, 2, 3096, 0, 9)->at = 1000;
    bytes(&r, 1, SK_RECV, GW_BLOCK, 1, 4096, 999, 9);
    run(&r);
    EXPECT(&r, 0, 4096, 3096, -EINVAL, 3096);
    EXPECT(&r, 1, 4096);
    bytes(&r, 0, SK_RESERVE, GW_BLOCK, 2, 1, 0, 9); /* as much as the NIC has acknowledged by now */
    bytes(&r, 0, SK_SEND_ONE, GW_BLOCK, 2, 100, 0, 9)->at = 1;
    bytes(&r, 0, SK_RECV, GW_BLOCK, 1, 101, 101, 9);
    run(&r);
    assert_true(r.result[0][0] > 0);
    r.result[0][0] = 0;
    EXPECT(&r, 0, 0, 100, 101);
    if (carrier == GW_RDMA_OFF) { /* what there is between the two of the host's has no size that is known */
        add(&r, 0, SK_SHUTDOWN, GW_BLOCK, 2, SHUT_WR);
        bytes(&r, 0, SK_RESERVE, GW_BLOCK, 2, 1, 0, 9);
        bytes(&r, 0, SK_RESERVE, GW_BLOCK, 0, 1, 0, 9);
        run(&r);
        EXPECT(&r, 0, 0, -EPIPE, -ENOTCONN);
        part(&r, GW_BLOCK);
        rig_free(&r);
        return;
    }
    /* Without a reader room ends with the peer's buffer. */
    bytes(&r, 0, SK_SEND_ONE, GW_BLOCK, 2, 20000, 0, 9)->limit_ns = 500000000;
    bytes(&r, 0, SK_RESERVE, GW_BLOCK, 2, 1, 0, 9)->limit_ns = 0;
    bytes(&r, 0, SK_RESERVE, GW_BLOCK, 2, 1, 0, 9)->limit_ns = 20000000;
    add(&r, 0, SK_SHUTDOWN, GW_BLOCK, 2, SHUT_WR);
    bytes(&r, 0, SK_RESERVE, GW_BLOCK, 2, 1, 0, 9);
    bytes(&r, 0, SK_RESERVE, GW_BLOCK, 0, 1, 0, 9);
    run(&r);
    assert_true(r.result[0][0] > 0);
    r.result[0][0] = 0;
    EXPECT(&r, 0, 0, -EAGAIN, -ETIMEDOUT, 0, -EPIPE, -ENOTCONN);
    part(&r, GW_BLOCK);
    rig_free(&r);
}

/* Sizes are rounded and bounded; accepted sockets have their listener's; what is sent without being received
 * shows that they are real. */
static void test_buffer_sizes(void **state)
{
    struct gw_sockets_attr a = {.count = 4, .rbuf = 65536, .wbuf = 32768};
    struct rig r;

    (void)state;
    rig_make(&r, &a);
    open_at(&r, 0, GW_BLOCK, 0);
    opt(&r, SK_GETOPT, GW_BLOCK, 0, SOL_SOCKET, SO_RCVBUF, 0);
    opt(&r, SK_SETOPT, GW_WARP, 0, SOL_SOCKET, SO_RCVBUF, 5000);
    opt(&r, SK_GETOPT, GW_THREAD, 0, SOL_SOCKET, SO_RCVBUF, 0);
    opt(&r, SK_SETOPT, GW_BLOCK, 0, SOL_SOCKET, SO_SNDBUF, 1 << 30);
    opt(&r, SK_GETOPT, GW_BLOCK, 0, SOL_SOCKET, SO_SNDBUF, 0);
    add(&r, 0, SK_BIND, GW_BLOCK, 0, 0);
    add(&r, 0, SK_LISTEN, GW_BLOCK, 0, 4);
    opt(&r, SK_GETOPT, GW_BLOCK, 0, SOL_SOCKET, SO_ACCEPTCONN, 0);
    run(&r);
    EXPECT(&r, 0, 0, 65536, 0, 8192, 0, 32768, 0, 0, 1);
    add(&r, 1, SK_ACCEPT, GW_BLOCK, 0, 1);
    open_at(&r, 0, GW_BLOCK, 2);
    opt(&r, SK_SETOPT, GW_BLOCK, 2, SOL_SOCKET, SO_SNDBUF, 1);
    add(&r, 0, SK_CONNECT, GW_BLOCK, 2, 0);
    opt(&r, SK_SETOPT, GW_BLOCK, 2, SOL_SOCKET, SO_SNDBUF, 8192);
    run(&r);
    EXPECT(&r, 0, 0, 0, 0, -EISCONN);
    EXPECT(&r, 1, 0);
    opt(&r, SK_GETOPT, GW_BLOCK, 1, SOL_SOCKET, SO_RCVBUF, 0);
    opt(&r, SK_GETOPT, GW_BLOCK, 2, SOL_SOCKET, SO_SNDBUF, 0);
    add(&r, 0, SK_POLL, GW_BLOCK, 1, POLLOUT); /* offers its second half */
    bytes(&r, 0, SK_SEND_ONE, GW_BLOCK, 2, 20000, 0, 4)->limit_ns = 500000000;
    bytes(&r, 0, SK_RECV, GW_BLOCK, 1, 8192, 8192, 4);
    run(&r);
    EXPECT(&r, 0, 8192, 4096, POLLOUT, 8192, 8192);
    part(&r, GW_BLOCK);
    rig_free(&r);
}

/* The byte that socket_kernels_body.h puts at a place of a stream. */
static uint8_t byte_of(uint64_t stream, uint64_t at)
{
    uint64_t x = (stream + 1) * 0x9e3779b97f4a7c15u + at * 0xd1b54a32d192ed03u;

    return (uint8_t)(x >> 40 ^ x >> 17);
}

static void window_is(const struct gw_mem *window, uint32_t from, uint32_t n, uint64_t stream, uint64_t at)
{
    const uint8_t *p = window->host;

    for (uint32_t i = 0; i < n; i++)
        if (p[from + i] != byte_of(stream, at + i)) fail_msg("byte %u of the window is wrong", from + i);
    assert_int_equal(p[from + n], 0);
}

static struct socket_step *map(struct rig *r, enum socket_op op, uint32_t s, const struct gw_mr *mr,
                               uint32_t from, uint64_t n, uint64_t offset)
{
    struct socket_step *p = bytes(r, 0, op, GW_BLOCK, s, n, 0, mr->addr + from);

    p->flags = (int32_t)mr->rkey;
    p->at = offset;
    return p;
}

/* The other end writes to two windows of one end, at their offsets. Bytes that were sent earlier come
 * earlier. Nothing is written to a window that was taken back. */
static void test_direct_access(void **state)
{
    struct gw_sockets_attr a = {.count = 4, .maps = 2, .rbuf = 8192, .wbuf = 8192};
    struct gw_mem window;
    struct gw_mr *mr;
    struct rig r;

    (void)state;
    rig_make(&r, &a);
    must(gw_mem_alloc(exec, GW_MEM_HOST, 100000, &window), "gw_mem_alloc");
    must(gw_sockets_map(r.set, window.host, 100000, &mr), "gw_sockets_map");
    join(&r, GW_BLOCK);
    bytes(&r, 0, SK_IOWRITE, GW_BLOCK, 2, 10, 0, 7)->at = 1000; /* nothing is offered yet */
    map(&r, SK_IOMAP, 1, mr, 0, 60000, 1000);
    map(&r, SK_IOMAP, 1, mr, 70000, 1000, 0)->form = GW_WARP;
    map(&r, SK_IOMAP, 1, mr, 80000, 1000, 1u << 20)->form = GW_THREAD;
    map(&r, SK_IOMAP, 1, mr, 80000, 0, 0);
    map(&r, SK_IOUNMAP, 1, mr, 0, 50000, 0);
    bytes(&r, 0, SK_IOWRITE, GW_BLOCK, 2, 50000, 0, 7)->at = 2000;
    bytes(&r, 0, SK_IOWRITE, GW_WARP, 2, 900, 0, 7)->at = 0;
    bytes(&r, 0, SK_IOWRITE, GW_THREAD, 2, 1000, 0, 7)->at = 60500; /* beyond the window's end */
    bytes(&r, 0, SK_SEND_ONE, GW_BLOCK, 2, 10, 0, 7);
    bytes(&r, 0, SK_RECV_ONE, GW_BLOCK, 1, 10, 0, 7);
    run(&r);
    EXPECT(&r, 0, -ENXIO, 0, 0, -ENOMEM, -EINVAL, -EINVAL, 50000, 900, 500, 10, 10);
    window_is(&window, 1000, 50000, 7, 2000);
    window_is(&window, 70000, 900, 7, 0);
    window_is(&window, 59500, 500, 7, 60500);
    map(&r, SK_IOUNMAP, 1, mr, 0, 60000, 0);
    map(&r, SK_IOMAP, 1, mr, 80000, 1000, 1u << 20);
    bytes(&r, 0, SK_SEND_ONE, GW_BLOCK, 1, 10, 0, 8);
    bytes(&r, 0, SK_RECV_ONE, GW_BLOCK, 2, 10, 0, 8);
    bytes(&r, 0, SK_IOWRITE, GW_BLOCK, 2, 10, 0, 8)->at = 2000;
    bytes(&r, 0, SK_IOWRITE, GW_BLOCK, 2, 10, 0, 8)->at = 1u << 20;
    bytes(&r, 0, SK_IOWRITE, GW_BLOCK, 0, 10, 0, 8)->at = 0;
    bytes(&r, 0, SK_IOWRITE, GW_BLOCK, 2, 10, 0, 8)->flags = MSG_PEEK;
    run(&r);
    EXPECT(&r, 0, 0, 0, 10, 10, -ENXIO, 10, -ENOTCONN, -EOPNOTSUPP);
    part(&r, GW_BLOCK);
    must(gw_mr_free(mr), "gw_mr_free");
    gw_mem_free(&window);
    rig_free(&r);
}

/* Announcements take credits and give them back: many more of them than a side has. */
static void test_many_announcements(void **state)
{
    struct gw_sockets_attr a = {.count = 4, .maps = 1, .rbuf = 4096, .wbuf = 4096, .writes = 16};
    struct gw_mem window;
    struct gw_mr *mr;
    struct rig r;

    (void)state;
    rig_make(&r, &a);
    must(gw_mem_alloc(exec, GW_MEM_HOST, 4096, &window), "gw_mem_alloc");
    must(gw_sockets_map(r.set, window.host, 4096, &mr), "gw_sockets_map");
    join(&r, GW_BLOCK);
    for (uint32_t round = 0; round < 10; round++) {
        for (uint32_t i = 0; i < 3; i++) {
            map(&r, SK_IOMAP, 2, mr, 0, 100, 0);
            map(&r, SK_IOUNMAP, 2, mr, 0, 100, 0);
        }
        bytes(&r, 0, SK_SEND_ONE, GW_BLOCK, 2, 5, 0, round);
        bytes(&r, 0, SK_RECV_ONE, GW_BLOCK, 1, 5, 0, round);
        run(&r);
        EXPECT(&r, 0, 0, 0, 0, 0, 0, 0, 5, 5);
    }
    part(&r, GW_BLOCK);
    must(gw_mr_free(mr), "gw_mr_free");
    gw_mem_free(&window);
    rig_free(&r);
}

/* A port that a socket was bound to is free for the next one when both say so. A socket closed with no time
 * to linger takes back what it has sent. */
static void test_reuse_and_linger(void **state)
{
    struct gw_sockets_attr a = {.count = 4};
    struct rig r;

    (void)state;
    rig_make(&r, &a);
    for (uint32_t s = 0; s < 3; s++) open_at(&r, 0, GW_BLOCK, s);
    opt(&r, SK_SETOPT, GW_BLOCK, 0, SOL_SOCKET, SO_REUSEADDR, 1);
    add(&r, 0, SK_BIND, GW_BLOCK, 0, 0);
    add(&r, 0, SK_BIND, GW_BLOCK, 1, 0);
    opt(&r, SK_SETOPT, GW_BLOCK, 2, SOL_SOCKET, SO_REUSEADDR, 1);
    add(&r, 0, SK_BIND, GW_BLOCK, 2, 0);
    run(&r);
    EXPECT(&r, 0, 0, 0, 0, 0, 0, -EADDRINUSE, 0, 0);
    part(&r, GW_BLOCK);
    join(&r, GW_BLOCK);
    opt(&r, SK_SETOPT, GW_BLOCK, 2, SOL_SOCKET, SO_LINGER, 0);
    opt(&r, SK_GETOPT, GW_BLOCK, 2, SOL_SOCKET, SO_LINGER, 0);
    add(&r, 0, SK_CLOSE, GW_BLOCK, 2, 0);
    bytes(&r, 0, SK_RECV_ONE, GW_BLOCK, 1, 10, 0, 0);
    opt(&r, SK_GETOPT, GW_WARP, 1, SOL_SOCKET, SO_ERROR, 0);
    opt(&r, SK_GETOPT, GW_BLOCK, 1, SOL_SOCKET, SO_ERROR, 0);
    open_at(&r, 0, GW_BLOCK, 2);
    run(&r);
    EXPECT(&r, 0, 0, 0, 0, -ECONNRESET, ECONNRESET, 0, 0);
    part(&r, GW_BLOCK);
    rig_free(&r);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vectors),
        cmocka_unit_test(test_reserving),
        cmocka_unit_test(test_buffer_sizes),
        cmocka_unit_test(test_reuse_and_linger),
        cmocka_unit_test(test_direct_access),
        cmocka_unit_test(test_many_announcements),
        cmocka_unit_test_setup(test_vectors, over_tcp),
        cmocka_unit_test_setup(test_reserving, over_tcp),
        cmocka_unit_test_setup(test_reuse_and_linger, over_tcp),
    };

    rig_begin(argc, argv);
    return cmocka_run_group_tests(tests, open_dev, close_all);
}
