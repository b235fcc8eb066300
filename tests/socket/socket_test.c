/* SPDX-License-Identifier: Apache-2.0 */
/* Sockets between kernels, through the NIC and rdma_cm: data in every form, set-up and ends, and every error. */
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

#include "tests/exec/options.h"
#include "tests/socket/socket_kernels.h"

GW_KERNEL_DECLARE(socket_kernel);

#define SECOND 1000000000u
#define LIMIT  (10u * (uint64_t)SECOND)
#define BLOCKS 4
#define PORT   7000

static struct gw_exec *exec;
static struct gw_device *dev;
static uint32_t lanes;
static char address[16];

static void must(int rc, const char *what)
{
    if (rc) fail_msg("%s: %d, %s", what, rc, gw_last_error());
}

/* ---- scripts -------------------------------------------------------------------------------------------- */

struct rig {
    struct gw_sockets *set;
    struct gw_mem sock; /* the scripts' sockets, which stay from run to run */
    struct socket_script script[BLOCKS];
    int64_t result[BLOCKS][SK_STEPS];
};

static void rig_make(struct rig *r, const struct gw_sockets_attr *attr)
{
    memset(r, 0, sizeof(*r));
    must(gw_sockets_create(dev, attr, &r->set), "gw_sockets_create");
    must(gw_mem_alloc(exec, GW_MEM_DEVICE, SK_SOCKETS * sizeof(int32_t), &r->sock), "gw_mem_alloc");
}

static void rig_free(struct rig *r)
{
    must(gw_sockets_destroy(r->set), "gw_sockets_destroy");
    gw_mem_free(&r->sock);
}

static struct socket_step *add(struct rig *r, uint32_t block, enum socket_op op, enum gw_group form,
                               uint32_t s, int32_t number)
{
    struct socket_script *script = &r->script[block];
    struct socket_step *p = &script->step[script->steps++];

    assert_true(script->steps <= SK_STEPS);
    *p = (struct socket_step){.op = op, .form = form, .s = s, .number = number, .limit_ns = LIMIT};
    p->addr.sin_family = AF_INET;
    p->addr.sin_port = htons(PORT);
    inet_pton(AF_INET, address, &p->addr.sin_addr);
    return p;
}

static struct socket_step *open_at(struct rig *r, uint32_t block, enum gw_group form, uint32_t s)
{
    struct socket_step *p = add(r, block, SK_OPEN, form, s, AF_INET);

    p->flags = SOCK_STREAM;
    return p;
}

/* Moves n bytes, `each` of them per call at most. */
static struct socket_step *bytes(struct rig *r, uint32_t block, enum socket_op op, enum gw_group form,
                                 uint32_t s, uint64_t n, int32_t each, uint64_t seed)
{
    struct socket_step *p = add(r, block, op, form, s, each);

    p->n = n;
    p->seed = seed;
    return p;
}

/* Runs the blocks' scripts; then there are none. */
static void run(struct rig *r)
{
    struct gw_mem script, result, buffer;
    struct socket_args args;

    must(gw_mem_alloc(exec, GW_MEM_DEVICE, sizeof(r->script), &script), "gw_mem_alloc");
    must(gw_mem_alloc(exec, GW_MEM_DEVICE, sizeof(r->result), &result), "gw_mem_alloc");
    must(gw_mem_alloc(exec, GW_MEM_DEVICE, BLOCKS * SK_BUFFER, &buffer), "gw_mem_alloc");
    must(gw_copy_in(exec, script.dev, r->script, sizeof(r->script)), "gw_copy_in");
    args.net = gw_sockets_net(r->set);
    args.script = script.dev;
    args.result = result.dev;
    args.sock = r->sock.dev;
    args.buffer = buffer.dev;
    must(gw_launch(exec, &socket_kernel, BLOCKS, lanes, &args), "gw_launch");
    must(gw_exec_sync(exec, gw_deadline(60u * (uint64_t)SECOND)), "gw_exec_sync");
    must(gw_copy_out(exec, r->result, result.dev, sizeof(r->result)), "gw_copy_out");
    gw_mem_free(&script);
    gw_mem_free(&result);
    gw_mem_free(&buffer);
    memset(r->script, 0, sizeof(r->script));
}

static void expect(const struct rig *r, uint32_t block, const int64_t *want, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (r->result[block][i] != want[i])
            fail_msg("block %u, step %u: %lld, not %lld", block, i, (long long)r->result[block][i],
                     (long long)want[i]);
}
#define EXPECT(r, block, ...)                                                                                \
    expect(r, block, (const int64_t[]){__VA_ARGS__}, sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t))

/* Socket 1 of block 1 listens as socket 0 and accepts; block 0 connects socket 2 to it. */
static void join(struct rig *r, enum gw_group form)
{
    open_at(r, 0, form, 0);
    add(r, 0, SK_BIND, form, 0, 0);
    add(r, 0, SK_LISTEN, form, 0, 4);
    run(r);
    EXPECT(r, 0, 0, 0, 0);
    add(r, 1, SK_ACCEPT, form, 0, 1);
    open_at(r, 0, form, 2);
    add(r, 0, SK_CONNECT, form, 2, 0);
    run(r);
    EXPECT(r, 0, 0, 0);
    EXPECT(r, 1, 0);
}

static void part(struct rig *r, enum gw_group form)
{
    for (uint32_t s = 0; s < 3; s++) add(r, 0, SK_CLOSE, form, s, 0);
    run(r);
    EXPECT(r, 0, 0, 0, 0);
    assert_int_equal(gw_sockets_open(r->set), 0);
}

/* ---- data ----------------------------------------------------------------------------------------------- */

/* Both directions at a time, through buffers of many sizes, in pieces that fit nothing; then the end of one
 * direction, while the other goes on. */
static void test_both_ways(void **state)
{
    static const struct {
        struct gw_sockets_attr attr;
        enum gw_group form;
        uint64_t n;
        int32_t send, recv;
    } v[] = {
        {{.count = 4}, GW_BLOCK, 3000001, 65521, 70000},
        {{.count = 4, .rbuf = 4096, .wbuf = 65536, .writes = 16}, GW_BLOCK, 300001, 5000, 777},
        {{.count = 4, .rbuf = 65536, .wbuf = 4096, .mem = GW_MEM_HOST}, GW_WARP, 300001, 10007, 5000},
        {{.count = 4, .writes = 16}, GW_THREAD, 30000, 7, 1000},
        {{.count = 4, .mem = GW_MEM_DEVICE}, GW_THREAD, 1000003, 60000, 33333},
    };
    struct rig r;

    (void)state;
    for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
        enum gw_group g = v[i].form;

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
}

static void test_flags(void **state)
{
    struct gw_sockets_attr a = {.count = 4};
    struct rig r;

    (void)state;
    rig_make(&r, &a);
    join(&r, GW_BLOCK);
    bytes(&r, 0, SK_RECV_ONE, GW_BLOCK, 1, 10, 0, 0)->flags = MSG_DONTWAIT;
    bytes(&r, 0, SK_RECV_ONE, GW_WARP, 1, 10, 0, 0)->limit_ns = 20000000;
    bytes(&r, 0, SK_SEND_ONE, GW_BLOCK, 2, 0, 0, 0);
    bytes(&r, 0, SK_SEND_ONE, GW_BLOCK, 2, 100, 0, 5)->flags = MSG_NOSIGNAL;
    bytes(&r, 0, SK_RECV_ONE, GW_THREAD, 1, 40, 0, 5)->flags = MSG_PEEK;
    bytes(&r, 0, SK_RECV_ONE, GW_BLOCK, 1, 200, 0, 5)->flags = MSG_PEEK | MSG_WAITALL;
    bytes(&r, 0, SK_RECV_ONE, GW_BLOCK, 1, 40, 0, 5);
    bytes(&r, 0, SK_RECV_ONE, GW_WARP, 1, 200, 0, 5)->at = 40;
    bytes(&r, 0, SK_RECV_ONE, GW_BLOCK, 1, 10, 0, 0)->flags = MSG_OOB;
    bytes(&r, 0, SK_SEND_ONE, GW_BLOCK, 2, 10, 0, 0)->flags = MSG_OOB;
    bytes(&r, 0, SK_RECV_ONE, GW_BLOCK, 1, 0, 0, 0);
    run(&r);
    EXPECT(&r, 0, -EAGAIN, -ETIMEDOUT, 0, 100, 40, 100, 40, 60, -EOPNOTSUPP, -EOPNOTSUPP, 0);
    bytes(&r, 0, SK_SEND, GW_BLOCK, 2, 50000, 999, 6);
    bytes(&r, 1, SK_RECV_ONE, GW_BLOCK, 1, 50000, 0, 6)->flags = MSG_WAITALL;
    run(&r);
    EXPECT(&r, 0, 50000);
    EXPECT(&r, 1, 50000);
    /* Nobody receives: a sender that does not wait fills the peer's buffer and says how far it came. Of that the
     * first half, of which 50100 bytes have been read, has not been given back. */
    bytes(&r, 0, SK_SEND_ONE, GW_BLOCK, 2, SK_BUFFER, 0, 0);
    bytes(&r, 0, SK_SEND_ONE, GW_BLOCK, 2, SK_BUFFER, 0, 0)->flags = MSG_DONTWAIT;
    bytes(&r, 0, SK_SEND_ONE, GW_BLOCK, 2, SK_BUFFER, 0, 0)->limit_ns = 20000000;
    run(&r);
    EXPECT(&r, 0, SK_BUFFER, (128 << 10) - 50100 - SK_BUFFER, -ETIMEDOUT);
    part(&r, GW_WARP);
    rig_free(&r);
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

/* ---- set-up and ends ------------------------------------------------------------------------------------ */

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
    add(&r, 0, SK_CONNECT, GW_BLOCK, 2, 0); /* nobody listens there, though it is taken */
    run(&r);
    EXPECT(&r, 0, -EAFNOSUPPORT, -ESOCKTNOSUPPORT, 0, 0, 0, -EMFILE, 0, PORT, -EADDRINUSE, -EINVAL, -ENOTCONN,
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
    EXPECT(&r, 0, 0, 0, 0, 0, POLLOUT | POLLHUP, -EINPROGRESS, POLLIN, 0, POLLOUT, 0, -EISCONN, PORT, 9,
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

/* Connections that nobody accepts go with their listener; a backlog that is full refuses. */
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

static int open_dev(void **state)
{
    (void)state;
    exec = test_exec();
    lanes = test_block_dim(exec, 64);
    if (!gw_device_open("softnic", exec, &dev)) return 0;
    fprintf(stderr, "%s\n", gw_last_error());
    return -1;
}

static int close_dev(void **state)
{
    (void)state;
    return gw_device_close(dev) || gw_exec_destroy(exec) ? -1 : 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_both_ways),
        cmocka_unit_test(test_flags),
        cmocka_unit_test(test_borrowing),
        cmocka_unit_test(test_opening),
        cmocka_unit_test(test_without_waiting),
        cmocka_unit_test(test_backlog),
        cmocka_unit_test(test_close_under_a_receiver),
        cmocka_unit_test(test_churn),
        cmocka_unit_test(test_refused),
    };
    char nic[64];

    test_options(argc, argv);
    /* An address of this test's own, with all its ports: all of 127.0.0.0/8 is this host's. */
    snprintf(address, sizeof(address), "127.%d.%d.1", 20 + getpid() % 200, 1 + getpid() / 200 % 250);
    snprintf(nic, sizeof(nic), "addr=%s,hostile=1", address);
    setenv("GPUWIRE_NIC", nic, 1);
    return cmocka_run_group_tests(tests, open_dev, close_dev);
}
