/* SPDX-License-Identifier: Apache-2.0 */
/* Included by kernels.c for the CPU and by kernels.cu for the GPU. All threads of the one block make the
 * call. */
#include "src/cli/cat/kernels.h"

GW_DEV int64_t cat_call(const struct cat_args *a, uint64_t deadline)
{
    const struct sockaddr *addr = (const struct sockaddr *)&a->addr;

    switch (a->op) {
    case CAT_OPEN: return gw_sock_open(a->net, a->addr.ss_family, SOCK_STREAM, 0, deadline);
    case CAT_BIND: return gw_sock_bind(a->net, a->s, addr, a->len, deadline);
    case CAT_LISTEN: return gw_sock_listen(a->net, a->s, 1, deadline);
    case CAT_ACCEPT: return gw_sock_accept(a->net, a->s, NULL, NULL, deadline);
    case CAT_CONNECT: return gw_sock_connect(a->net, a->s, addr, a->len, deadline);
    case CAT_SEND: return gw_sock_send(a->net, a->s, a->bytes, a->n, MSG_NOSIGNAL, deadline);
    case CAT_RECV: return gw_sock_recv(a->net, a->s, a->bytes, a->n, 0, deadline);
    case CAT_SHUT: return gw_sock_shutdown(a->net, a->s, SHUT_WR, deadline);
    case CAT_CLOSE: return gw_sock_close(a->net, a->s, deadline);
    case CAT_NAME: return gw_sock_name(a->net, a->s, a->name, a->name_len);
    default: return gw_sock_peer(a->net, a->s, a->name, a->name_len);
    }
}

GW_KERNEL(cat_kernel, struct cat_args, a)
{
    int64_t result = cat_call(a, gw_clock_ns() + a->limit_ns);

    gw_syncthreads(); /* the call's copies come before the result: the host waits for the kernel's end */
    if (gw_thread_idx() == 0) *a->result = result;
}
