/* SPDX-License-Identifier: Apache-2.0 */
/* options.h: options of sockets. The helper checks and keeps them (src/socket/options.c); kernels read.
 * Included by socket.h; names that end in _ are private. */
#include <gpuwire/socket.h> /* which includes this file where it belongs */

#ifndef GPUWIRE_DETAIL_SOCKET_OPTIONS_H
#define GPUWIRE_DETAIL_SOCKET_OPTIONS_H

#define GW_SOCK_OPT_KEY_(level, name) ((level) << 16 | (name))

/* An option has been set: calls from now on go by it. */
GW_FN void gw_sock_changed_(struct gw_net *net, int s)
{
    struct gw_sock_ *k = &net->sock[s];
    uint32_t begun;

    (void)gw_turn_take_(&k->lock, UINT64_MAX); /* held for a moment; else one might begin without them */
    gw_sock_limits_(net, s);
    begun = gw_ld_acquire_u32_gpu(&k->begun);
    if (begun) {
        gw_sock_options_(net, s);
        (void)gw_cas_acq_rel_u32_gpu(&k->begun, begun, gw_sock_begun_(k)); /* but if it is being closed */
    }
    gw_turn_leave_(&k->lock);
}

GW_SLOW_FN int gw_sock_setsockopt_thread(struct gw_net *net, int s, int level, int name, const void *value,
                                         socklen_t len)
{
    struct gw_sock_addr_ v;
    int err = gw_sock_find_(net, s);

    if (err) return err;
    if (gw_sock_state_(net, s) == GW_SOCK_FREE_) return -EBADF;
    if ((level | name) < 0 || level > INT16_MAX || name > UINT16_MAX) return -ENOPROTOOPT;
    if (!value) return -EINVAL;
    memset(&v, 0, sizeof(v));
    v.len = len < sizeof(v.bytes) ? (uint32_t)len : (uint32_t)sizeof(v.bytes);
    memcpy(v.bytes, value, v.len);
    err = gw_sock_ask_(net, GW_SOCK_OPTION_, s, GW_SOCK_OPT_KEY_(level, name), &v, 0);
    if (!err) gw_sock_changed_(net, s);
    return err;
}

/* The pending error, once: of a connect whose result was not read, or of the stream. */
GW_FN int gw_sock_pending_(struct gw_net *net, int s)
{
    int err;

    if (gw_sock_state_(net, s) == GW_SOCK_FAILED_)
        return gw_exch_relaxed_u32_gpu(&net->sock[s].connect_reported, 1) ? 0 : -net->info[s].error;
    err = gw_sock_joined_(net, s) ? 0 : gw_sock_failure_(net, s);
    return err && !gw_exch_relaxed_u32_gpu(&net->sock[s].error_reported, 1) ? err : 0;
}

/* An option that is one number; or -ENOPROTOOPT. */
GW_FN int gw_sock_number_(struct gw_net *net, int s, int key)
{
    uint32_t idle = gw_sock_opt_(net, s, GW_SOCK_OPT_IDLE_);

    switch (key) {
    case GW_SOCK_OPT_KEY_(GW_SOL_SOCKET, GW_SO_RDMA): return (int)gw_sock_opt_(net, s, GW_SOCK_OPT_RDMA_);
    case GW_SOCK_OPT_KEY_(GW_SOL_SOCKET, GW_SO_NONBLOCK):
        return (int)gw_sock_opt_(net, s, GW_SOCK_OPT_NONBLOCK_);
    case GW_SOCK_OPT_KEY_(SOL_SOCKET, SO_TYPE): return (int)gw_sock_opt_(net, s, GW_SOCK_OPT_TYPE_);
    case GW_SOCK_OPT_KEY_(SOL_SOCKET, SO_PROTOCOL):
        if (gw_sock_opt_(net, s, GW_SOCK_OPT_DOMAIN_) == AF_UNIX) return 0;
        return gw_sock_is_dgram_(net, s) ? IPPROTO_UDP : IPPROTO_TCP;
    case GW_SOCK_OPT_KEY_(SOL_SOCKET, SO_DOMAIN): return (int)gw_sock_opt_(net, s, GW_SOCK_OPT_DOMAIN_);
    case GW_SOCK_OPT_KEY_(SOL_SOCKET, SO_ACCEPTCONN): return gw_sock_state_(net, s) == GW_SOCK_LISTENING_;
    case GW_SOCK_OPT_KEY_(SOL_SOCKET, SO_ERROR): return gw_sock_pending_(net, s);
    case GW_SOCK_OPT_KEY_(SOL_SOCKET, SO_RCVBUF): return (int)gw_sock_opt_(net, s, GW_SOCK_OPT_RBUF_);
    case GW_SOCK_OPT_KEY_(SOL_SOCKET, SO_SNDBUF): return (int)gw_sock_opt_(net, s, GW_SOCK_OPT_WBUF_);
    case GW_SOCK_OPT_KEY_(SOL_SOCKET, SO_REUSEADDR): return (int)gw_sock_opt_(net, s, GW_SOCK_OPT_REUSE_);
    case GW_SOCK_OPT_KEY_(SOL_SOCKET, SO_REUSEPORT): return (int)gw_sock_opt_(net, s, GW_SOCK_OPT_REUSEPORT_);
    case GW_SOCK_OPT_KEY_(SOL_SOCKET, SO_KEEPALIVE): return (int)gw_sock_opt_(net, s, GW_SOCK_OPT_KEEPALIVE_);
    case GW_SOCK_OPT_KEY_(IPPROTO_TCP, TCP_NODELAY): return (int)gw_sock_opt_(net, s, GW_SOCK_OPT_NODELAY_);
    case GW_SOCK_OPT_KEY_(IPPROTO_TCP, TCP_KEEPIDLE):
        return (int)(idle ? idle : (net->keepalive_ns + GW_SOCK_SECOND_ - 1) / GW_SOCK_SECOND_);
    case GW_SOCK_OPT_KEY_(IPPROTO_TCP, TCP_KEEPINTVL):
        return (int)gw_sock_opt_(net, s, GW_SOCK_OPT_INTERVAL_);
    case GW_SOCK_OPT_KEY_(IPPROTO_TCP, TCP_KEEPCNT): return (int)gw_sock_opt_(net, s, GW_SOCK_OPT_COUNT_);
    default: return -ENOPROTOOPT;
    }
}

GW_SLOW_FN int gw_sock_getsockopt_thread(struct gw_net *net, int s, int level, int name, void *value,
                                         socklen_t *len)
{
    int err = gw_sock_find_(net, s);
    union {
        int number;
        struct linger linger;
        struct timeval time;
    } v;
    socklen_t size = sizeof(v.number);
    uint32_t n;

    if (err) return err;
    if (gw_sock_state_(net, s) == GW_SOCK_FREE_) return -EBADF;
    if ((level | name) < 0 || level > INT16_MAX || name > UINT16_MAX) return -ENOPROTOOPT;
    if (!value || !len) return -EINVAL;
    if (level == IPPROTO_TCP &&
        (gw_sock_is_dgram_(net, s) || gw_sock_opt_(net, s, GW_SOCK_OPT_DOMAIN_) == AF_UNIX))
        return -EOPNOTSUPP;
    if (level == SOL_SOCKET && name == SO_LINGER) {
        n = gw_sock_opt_(net, s, GW_SOCK_OPT_LINGER_);
        v.linger.l_onoff = n != 0;
        v.linger.l_linger = n ? (int)(n - 1) : 0;
        size = sizeof(v.linger);
    } else if (level == SOL_SOCKET && (name == SO_RCVTIMEO || name == SO_SNDTIMEO)) {
        n = gw_sock_opt_(net, s, name == SO_RCVTIMEO ? GW_SOCK_OPT_RCVTIMEO_ : GW_SOCK_OPT_SNDTIMEO_);
        v.time.tv_sec = (long)(n / 1000);
        v.time.tv_usec = (long)(n % 1000 * 1000);
        size = sizeof(v.time);
    } else {
        v.number = gw_sock_number_(net, s, GW_SOCK_OPT_KEY_(level, name));
        if (v.number == -ENOPROTOOPT) return v.number;
    }
    if (*len < size) size = *len;
    memcpy(value, &v, size);
    *len = size;
    return 0;
}

#endif
