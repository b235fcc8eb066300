/* SPDX-License-Identifier: Apache-2.0 */
/* Two kinds of sockets, one set of calls: results as ours are, a count or a negative errno. */
#ifndef GW_TESTS_SOCKET_CONFORMANCE_CALLS_H
#define GW_TESTS_SOCKET_CONFORMANCE_CALLS_H

enum kind { TCP, OURS };

static int64_t result(int64_t rc)
{
    return rc < 0 ? -errno : rc;
}

static uint64_t soon(void)
{
    return gw_clock_ns() + 60000000000u;
}

static inline int64_t do_send(enum kind k, int s, const void *p, size_t n, int flags)
{
    return k == TCP ? result(send(s, p, n, flags | MSG_NOSIGNAL))
                    : gw_sock_send_thread(net, s, p, n, flags, soon());
}

static inline int64_t do_recv(enum kind k, int s, void *p, size_t n, int flags)
{
    return k == TCP ? result(recv(s, p, n, flags)) : gw_sock_recv_thread(net, s, p, n, flags, soon());
}

static inline int64_t do_shutdown(enum kind k, int s, int how)
{
    return k == TCP ? result(shutdown(s, how)) : gw_sock_shutdown_thread(net, s, how, soon());
}

static inline int64_t do_close(enum kind k, int s)
{
    return k == TCP ? result(close(s)) : gw_sock_close_thread(net, s, soon());
}

/* The result of poll within a time; 0 ms: at once. */
static inline int64_t do_poll(enum kind k, int s, short events, int ms)
{
    struct pollfd f = {.fd = s, .events = events};
    int n = k == TCP ? poll(&f, 1, ms)
                     : gw_sock_poll_thread(net, &f, 1, ms ? gw_clock_ns() + (uint64_t)ms * 1000000 : 0);

    return n < 0 ? -errno : f.revents;
}

static inline int64_t do_writev(enum kind k, int s, const struct iovec *iov, int n)
{
    return k == TCP ? result(writev(s, iov, n)) : gw_sock_writev_thread(net, s, iov, n, soon());
}

static inline int64_t do_readv(enum kind k, int s, const struct iovec *iov, int n)
{
    return k == TCP ? result(readv(s, iov, n)) : gw_sock_readv_thread(net, s, iov, n, soon());
}

/* To an address that is not the peer's, which TCP does not look at and UNIX sockets refuse. */
static inline int64_t do_sendto(enum kind k, int s, const void *p, size_t n)
{
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_port = 7};
    const struct sockaddr *to = (const struct sockaddr *)&any;

    return k == TCP ? result(sendto(s, p, n, MSG_NOSIGNAL, to, sizeof(any)))
                    : gw_sock_sendto_thread(net, s, p, n, MSG_NOSIGNAL, to, sizeof(any), soon());
}

/* -EILSEQ: it told an address, as only UNIX sockets do. */
static inline int64_t do_recvfrom(enum kind k, int s, void *p, size_t n, int flags)
{
    struct sockaddr_in from;
    socklen_t len = sizeof(from);
    int64_t got = k == TCP
                      ? result(recvfrom(s, p, n, flags, (struct sockaddr *)&from, &len))
                      : gw_sock_recvfrom_thread(net, s, p, n, flags, (struct sockaddr *)&from, &len, soon());

    return got >= 0 && len && domain == AF_INET ? -EILSEQ : got;
}

static inline int64_t do_setopt(enum kind k, int s, int level, int name, const void *value, socklen_t len)
{
    return k == TCP ? result(setsockopt(s, level, name, value, len))
                    : gw_sock_setsockopt_thread(net, s, level, name, value, len);
}

static inline int64_t do_getopt(enum kind k, int s, int level, int name, void *value, socklen_t *len)
{
    return k == TCP ? result(getsockopt(s, level, name, value, len))
                    : gw_sock_getsockopt_thread(net, s, level, name, value, len);
}

/* ---- setting up; `at_once`: without waiting ------------------------------------------------------------ */

static inline int64_t do_open(enum kind k, int type, int protocol)
{
    return k == TCP ? result(socket(domain, type, protocol))
                    : gw_sock_open_thread(net, domain, type, protocol, soon());
}

static inline int64_t do_bind(enum kind k, int s, const struct sockaddr_storage *a, socklen_t len)
{
    const struct sockaddr *to = (const struct sockaddr *)a;

    return k == TCP ? result(bind(s, to, len)) : gw_sock_bind_thread(net, s, to, len, soon());
}

static inline int64_t do_listen(enum kind k, int s, int backlog)
{
    return k == TCP ? result(listen(s, backlog)) : gw_sock_listen_thread(net, s, backlog, soon());
}

static inline void set_waiting(int s, int at_once)
{
    int flags = fcntl(s, F_GETFL);

    (void)fcntl(s, F_SETFL, at_once ? flags | O_NONBLOCK : flags & ~O_NONBLOCK);
}

static inline int64_t do_connect(enum kind k, int s, const struct sockaddr_storage *a, socklen_t len,
                                 int at_once)
{
    const struct sockaddr *to = (const struct sockaddr *)a;
    int64_t rc;

    if (k == OURS) return gw_sock_connect_thread(net, s, to, len, at_once ? 0 : soon());
    set_waiting(s, at_once);
    rc = result(connect(s, to, len));
    set_waiting(s, 0);
    return rc;
}

static inline int64_t do_accept(enum kind k, int s, struct sockaddr_storage *a, socklen_t *len, int at_once)
{
    struct sockaddr *from = (struct sockaddr *)a;
    int64_t rc;

    if (k == OURS) return gw_sock_accept_thread(net, s, from, len, at_once ? 0 : soon());
    set_waiting(s, at_once);
    rc = result(accept(s, from, len));
    set_waiting(s, 0);
    return rc;
}

static inline int64_t do_name(enum kind k, int s, int peer, struct sockaddr_storage *a, socklen_t *len)
{
    struct sockaddr *to = (struct sockaddr *)a;

    if (k == TCP) return result((peer ? getpeername : getsockname)(s, to, len));
    return peer ? gw_sock_peer_thread(net, s, to, len) : gw_sock_name_thread(net, s, to, len);
}

#endif
