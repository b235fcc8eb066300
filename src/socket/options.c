/* SPDX-License-Identifier: Apache-2.0 */
/* The options of sockets: what may be set, and when. Kernels read them where they are published. */
#include <errno.h>
#include <netinet/tcp.h>
#include <string.h>
#include <unistd.h>

#include "src/socket/proxy.h"

#define SECONDS_MAX 32767 /* of TCP_KEEPIDLE and TCP_KEEPINTVL, as Linux has it */
#define PROBES_MAX  127

static void sock_options_put(struct sock *k, enum gw_sock_opt_ which, uint32_t value)
{
    gw_st_relaxed_u32(&k->info->opt[which], value);
}

/* RDMA or TCP carries it, and finds out that a peer is gone. The host's TCP does so only when it is told to,
 * after two hours. */
static void put_rdma(const struct gw_sockets *set, struct sock *k, uint32_t rdma)
{
    sock_options_put(k, GW_SOCK_OPT_RDMA_, rdma);
    sock_options_put(k, GW_SOCK_OPT_KEEPALIVE_, rdma && set->attr.keepalive_ns != UINT64_MAX);
    sock_options_put(k, GW_SOCK_OPT_IDLE_, rdma ? 0 : 7200);
}

void gw_sock_options_begin(const struct gw_sockets *set, struct sock *k, int domain, int type)
{
    sock_options_put(k, GW_SOCK_OPT_TYPE_, (uint32_t)type);
    sock_options_put(k, GW_SOCK_OPT_DOMAIN_, (uint32_t)domain);
    sock_options_put(k, GW_SOCK_OPT_RBUF_, set->attr.rbuf);
    sock_options_put(k, GW_SOCK_OPT_WBUF_, set->attr.wbuf);
    sock_options_put(k, GW_SOCK_OPT_REUSE_, 0);
    put_rdma(set, k,
             domain == AF_UNIX || type != SOCK_STREAM ? set->attr.rdma & GW_RDMA_ONLY : set->attr.rdma);
    sock_options_put(k, GW_SOCK_OPT_INTERVAL_, 75); /* as Linux' */
    sock_options_put(k, GW_SOCK_OPT_COUNT_, 9);
    sock_options_put(k, GW_SOCK_OPT_NODELAY_, 0);
    sock_options_put(k, GW_SOCK_OPT_LINGER_, 0);
    sock_options_put(k, GW_SOCK_OPT_NONBLOCK_, 0);
    sock_options_put(k, GW_SOCK_OPT_RCVTIMEO_, 0);
    sock_options_put(k, GW_SOCK_OPT_SNDTIMEO_, 0);
    sock_options_put(k, GW_SOCK_OPT_REUSEPORT_, 0);
}

/* A buffer's size: no more than the set has, and what the others of a set are told must not change. */
static int set_buffer(struct sock *k, enum gw_sock_opt_ which, int value, uint32_t most)
{
    uint32_t size = GW_SOCK_BUFFER_MIN_;

    if (k->step != SOCK_OPENED && k->step != SOCK_LISTENING) return -EISCONN;
    while (size < most && size < (uint32_t)(value < 0 ? INT32_MAX : value)) size *= 2;
    sock_options_put(k, which, size);
    return 0;
}

static int set_between(struct sock *k, enum gw_sock_opt_ which, int value, int most)
{
    if (value < 1 || value > most) return -EINVAL;
    sock_options_put(k, which, (uint32_t)value);
    return 0;
}

static int set_flag(struct sock *k, enum gw_sock_opt_ which, int value)
{
    sock_options_put(k, which, value != 0);
    return 0;
}

static int set_reuse(struct gw_sockets *set, struct sock *k, int value)
{
    /* After bind it has no effect, as TCP's. */
    int err = k->info->opt[GW_SOCK_OPT_RDMA_] && k->step == SOCK_OPENED && !k->bound
                  ? gw_sock_cm_reuse(set, k, value != 0)
                  : 0;

    return err ? err : set_flag(k, GW_SOCK_OPT_REUSE_, value);
}

/* rdma_cm gives a port to one listener alone. */
static int set_reuseport(struct sock *k, int value)
{
    if (k->info->opt[GW_SOCK_OPT_RDMA_] != GW_RDMA_OFF) return -EOPNOTSUPP;
    return set_flag(k, GW_SOCK_OPT_REUSEPORT_, value);
}

static int set_linger(struct sock *k, const struct gw_sock_addr_ *value)
{
    struct linger l;

    if (value->len < sizeof(l)) return -EINVAL;
    memcpy(&l, value->bytes, sizeof(l));
    if (l.l_linger < 0 || l.l_linger > INT32_MAX - 1) l.l_linger = INT32_MAX - 1; /* as long as can be */
    sock_options_put(k, GW_SOCK_OPT_LINGER_, l.l_onoff ? 1 + (uint32_t)l.l_linger : 0);
    return 0;
}

/* SO_RCVTIMEO, SO_SNDTIMEO: kept in milliseconds, rounded up; as many as there are, if it is more. */
static int sock_options_set_timeout(struct sock *k, enum gw_sock_opt_ which,
                                    const struct gw_sock_addr_ *value)
{
    struct timeval t;

    if (value->len < sizeof(t)) return -EINVAL;
    memcpy(&t, value->bytes, sizeof(t));
    if (t.tv_sec < 0 || t.tv_usec < 0 || t.tv_usec >= 1000000) return -EDOM;
    sock_options_put(k, which,
                     t.tv_sec > UINT32_MAX / 1000 - 1
                         ? UINT32_MAX
                         : (uint32_t)(t.tv_sec * 1000 + (t.tv_usec + 999) / 1000));
    return 0;
}

/* RDMA or TCP: it may change as long as nothing depends on it. */
static int set_rdma(struct gw_sockets *set, struct sock *k, int value)
{
    uint32_t domain = k->info->opt[GW_SOCK_OPT_DOMAIN_];
    int err = 0;

    if (value < GW_RDMA_OFF || value > GW_RDMA_TRY) return -EINVAL;
    if (k->datagram) return value == GW_RDMA_ONLY ? 0 : -EOPNOTSUPP; /* it has no other way */
    if (value != GW_RDMA_OFF &&
        (!set->dev || domain == AF_UNIX || k->info->opt[GW_SOCK_OPT_TYPE_] != SOCK_STREAM))
        return -EOPNOTSUPP;
    if ((uint32_t)value == k->info->opt[GW_SOCK_OPT_RDMA_]) return 0;
    if (k->step != SOCK_OPENED || k->bound) return -EISCONN;
    if (value == GW_RDMA_ONLY)
        gw_try_settle(k);
    else if (k->fd < 0)
        err = gw_socket_proxy_open(set, k, (int)domain, SOCK_STREAM);
    if (!err) put_rdma(set, k, (uint32_t)value);
    return err;
}

/* Checks it and keeps it. */
static int sock_options_keep(struct gw_sockets *set, struct sock *k, int which,
                             const struct gw_sock_addr_ *value, int v)
{
    switch (which) {
    case GW_SOCK_OPT_KEY_(GW_SOL_SOCKET, GW_SO_RDMA): return set_rdma(set, k, v);
    case GW_SOCK_OPT_KEY_(GW_SOL_SOCKET, GW_SO_NONBLOCK): return set_flag(k, GW_SOCK_OPT_NONBLOCK_, v);
    case GW_SOCK_OPT_KEY_(SOL_SOCKET, SO_RCVTIMEO):
        return sock_options_set_timeout(k, GW_SOCK_OPT_RCVTIMEO_, value);
    case GW_SOCK_OPT_KEY_(SOL_SOCKET, SO_SNDTIMEO):
        return sock_options_set_timeout(k, GW_SOCK_OPT_SNDTIMEO_, value);
    case GW_SOCK_OPT_KEY_(SOL_SOCKET, SO_RCVBUF): return set_buffer(k, GW_SOCK_OPT_RBUF_, v, set->attr.rbuf);
    case GW_SOCK_OPT_KEY_(SOL_SOCKET, SO_SNDBUF): return set_buffer(k, GW_SOCK_OPT_WBUF_, v, set->attr.wbuf);
    case GW_SOCK_OPT_KEY_(SOL_SOCKET, SO_REUSEADDR): return set_reuse(set, k, v);
    case GW_SOCK_OPT_KEY_(SOL_SOCKET, SO_REUSEPORT): return set_reuseport(k, v);
    case GW_SOCK_OPT_KEY_(SOL_SOCKET, SO_KEEPALIVE): return set_flag(k, GW_SOCK_OPT_KEEPALIVE_, v);
    case GW_SOCK_OPT_KEY_(SOL_SOCKET, SO_LINGER): return set_linger(k, value);
    case GW_SOCK_OPT_KEY_(IPPROTO_TCP, TCP_NODELAY): return set_flag(k, GW_SOCK_OPT_NODELAY_, v);
    case GW_SOCK_OPT_KEY_(IPPROTO_TCP, TCP_KEEPIDLE):
        return set_between(k, GW_SOCK_OPT_IDLE_, v, SECONDS_MAX);
    case GW_SOCK_OPT_KEY_(IPPROTO_TCP, TCP_KEEPINTVL):
        return set_between(k, GW_SOCK_OPT_INTERVAL_, v, SECONDS_MAX);
    case GW_SOCK_OPT_KEY_(IPPROTO_TCP, TCP_KEEPCNT): return set_between(k, GW_SOCK_OPT_COUNT_, v, PROBES_MAX);
    default: return -ENOPROTOOPT;
    }
}

/* Options that the host's own sockets have, too. Options for kernels and the proxy alone do not go there. */
static int set_host(const struct sock *k, int which, int v)
{
    switch (which) {
    case GW_SOCK_OPT_KEY_(SOL_SOCKET, SO_REUSEADDR):
    case GW_SOCK_OPT_KEY_(SOL_SOCKET, SO_REUSEPORT):
    case GW_SOCK_OPT_KEY_(SOL_SOCKET, SO_KEEPALIVE):
    case GW_SOCK_OPT_KEY_(IPPROTO_TCP, TCP_NODELAY):
    case GW_SOCK_OPT_KEY_(IPPROTO_TCP, TCP_KEEPIDLE):
    case GW_SOCK_OPT_KEY_(IPPROTO_TCP, TCP_KEEPINTVL):
    case GW_SOCK_OPT_KEY_(IPPROTO_TCP, TCP_KEEPCNT):
        return setsockopt(k->fd, which >> 16, which & 0xffff, &v, sizeof(v)) ? -errno : 0;
    default: return 0;
    }
}

int gw_sock_option(struct gw_sockets *set, struct sock *k, int which, const struct gw_sock_addr_ *value)
{
    int v, err;

    if (value->len < sizeof(v) || value->len > sizeof(value->bytes)) return -EINVAL;
    memcpy(&v, value->bytes, sizeof(v));
    err = k->fd >= 0 ? set_host(k, which, v) : 0; /* which may refuse it: a UNIX socket has nothing of TCP */
    return err ? err : sock_options_keep(set, k, which, value, v);
}
