/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of sockets: blocks of a kernel that follow scripts of calls, on a NIC of the test's own. */
#ifndef GW_TESTS_SOCKET_RIG_H
#define GW_TESTS_SOCKET_RIG_H

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

#include "tests/socket/launch.h"
#include "tests/socket/own_nic.h"
#include "tests/socket/socket_kernels.h"

GW_KERNEL_DECLARE(socket_kernel);

/* TCP's keep a closed connection's for a while: each bind takes another one. */
static uint16_t port = 7000;
static uint32_t carrier = GW_RDMA_ONLY;

/* ---- scripts ------------------------------------------------------------------------------------------- */

struct rig {
    struct gw_sockets *set;
    struct gw_mem sock; /* the scripts' sockets, which stay from run to run */
    struct socket_script script[BLOCKS];
    int64_t result[BLOCKS][SK_STEPS];
};

static void rig_make(struct rig *r, const struct gw_sockets_attr *attr)
{
    struct gw_sockets_attr a = *attr;

    memset(r, 0, sizeof(*r));
    port++;
    a.rdma = carrier;
    a.exec = exec;
    must(gw_sockets_create(carrier ? dev : NULL, &a, &r->set), "gw_sockets_create");
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
    p->addr = own_addr(1, port);
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

/* An option of a level: sets it to the value, or reads it. */
static inline struct socket_step *opt(struct rig *r, enum socket_op op, enum gw_group form, uint32_t s,
                                      int level, int name, int value)
{
    struct socket_step *p = add(r, 0, op, form, s, name);

    p->flags = level;
    p->n = (uint64_t)value;
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
    must(gw_exec_sync(exec, gw_deadline(240u * (uint64_t)SECOND)), "gw_exec_sync");
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
    port++;
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

/* The set's sockets are the host's own TCP. */
static int over_tcp(void **state)
{
    (void)state;
    carrier = GW_RDMA_OFF;
    return 0;
}

static void rig_begin(int argc, char **argv)
{
    struct sockaddr_in own = own_addr(1, 0);

    test_options(argc, argv);
    own_nic(&own, ",hostile=1");
}

#endif
