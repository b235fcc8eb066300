/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels of echo.c: echo_cpu.c's two sides, with gpuwire's calls in place of the C library's. Every
 * thread of the block makes every call. */
#include <gpuwire/host.h>
#include <gpuwire/socket.h>

#define BYTES  10000
#define ROUNDS 100
#define LIMIT  10000000000u /* nanoseconds that one call may take */

struct echo_args {
    struct gw_net *net;
    struct gw_host *host; /* prints */
    struct sockaddr_in addr;
    int *result;
};

struct echo_bytes {
    char said[BYTES], heard[BYTES];
};

GW_DEV uint64_t until(void)
{
    return gw_clock_ns() + LIMIT;
}

/* Answers until the other side has nothing more to say. */
GW_DEV int64_t answer(struct gw_net *net, int s)
{
    GW_SHARED(struct echo_bytes, b);
    int64_t n;

    while ((n = gw_sock_recv(net, s, b->heard, BYTES, 0, until())) > 0)
        if ((n = gw_sock_send(net, s, b->heard, (uint64_t)n, 0, until())) < 0) break;
    return n;
}

GW_DEV int64_t say_and_hear(struct gw_net *net, int s)
{
    GW_SHARED(struct echo_bytes, b);
    int64_t n = 0;
    uint32_t i, at;

    for (i = 0; i < ROUNDS && n >= 0; i++) {
        for (at = gw_thread_idx(); at < BYTES; at += gw_block_dim()) b->said[at] = (char)('a' + i % 26);
        gw_syncthreads();
        n = gw_sock_send(net, s, b->said, BYTES, 0, until());
        if (n == BYTES) n = gw_sock_recv(net, s, b->heard, BYTES, MSG_WAITALL, until());
        if (n >= 0 && n < BYTES) n = -ECONNABORTED; /* it has ended too early */
        gw_syncthreads();
        for (at = 0; n >= 0 && at < BYTES; at++)
            if (b->heard[at] != b->said[at]) n = -EBADMSG;
        gw_syncthreads(); /* all have looked before the next is written */
    }
    if (n >= 0) n = gw_sock_shutdown(net, s, SHUT_WR, until());
    if (n >= 0) n = gw_sock_recv(net, s, b->heard, 1, 0, until());
    return n > 0 ? -EBADMSG : n;
}

GW_KERNEL(echo_client, struct echo_args, a)
{
    int s = gw_sock_open(a->net, AF_INET, SOCK_STREAM, 0, until());
    int64_t err = s;

    if (s >= 0) err = gw_sock_connect(a->net, s, (const struct sockaddr *)&a->addr, sizeof(a->addr), until());
    if (err >= 0) err = say_and_hear(a->net, s);
    if (s >= 0) gw_sock_close(a->net, s, until());
    if (gw_thread_idx() == 0 && !err)
        gw_printf(a->host, "all answers are right at %lu\n", gw_time(a->host) / 1000000000u);
    if (gw_thread_idx() == 0) *a->result = (int)err;
}

GW_KERNEL(echo_server, struct echo_args, a)
{
    int s = -1, listener = gw_sock_open(a->net, AF_INET, SOCK_STREAM, 0, until());
    int64_t err = listener;

    if (err >= 0)
        err = gw_sock_bind(a->net, listener, (const struct sockaddr *)&a->addr, sizeof(a->addr), until());
    if (!err) err = gw_sock_listen(a->net, listener, 1, until());
    if (!err) err = s = gw_sock_accept(a->net, listener, NULL, NULL, gw_clock_ns() + 6 * (uint64_t)LIMIT);
    if (s >= 0) err = answer(a->net, s);
    if (s >= 0) gw_sock_close(a->net, s, until());
    if (listener >= 0) gw_sock_close(a->net, listener, until());
    if (gw_thread_idx() == 0 && !err) gw_printf(a->host, "answered\n");
    if (gw_thread_idx() == 0) *a->result = (int)err;
}
