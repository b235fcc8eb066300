/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A seed chooses calls. A pair of the host's TCP or UNIX sockets and a pair of ours get the same ones. Every
 * result must be the same, bytes and error numbers. POSIX leaves choices that the two make differently: how
 * much a full connection takes, or what a reset socket says the second time. The script avoids those.
 *
 *     test_socket_conformance [rdma|rdma6|rdma-doorbell|rdma-post|tcp|unix [SEED [SCRIPTS]]]
 *
 * The carriers of our sockets: rdma; by IPv6; in the posting modes with a proxy; or the host's sockets.
 */
#include "tests/socket/conformance_rig.h"

#define STEPS 60   /* of a script; every tenth of the first thousand has ten times as many */
#define MOST  3000 /* bytes under way in a direction: both take as many at once */

/* ---- a connection of each kind ------------------------------------------------------------------------- */

struct pair {
    int s[2][2]; /* [kind][end] */
    uint32_t under_way[2], wr[2], rd[2];
};

static void meet_tcp(int s[2])
{
    struct sockaddr_storage a;
    socklen_t len = sizeof(a);
    int l = socket(domain, SOCK_STREAM, 0);

    local_addr(&a);
    s[0] = socket(domain, SOCK_STREAM, 0);
    if (l < 0 || s[0] < 0 || bind(l, (struct sockaddr *)&a, addr_len) || listen(l, 1) ||
        getsockname(l, (struct sockaddr *)&a, &len) || connect(s[0], (struct sockaddr *)&a, len))
        stop("no sockets here", -errno, 0);
    s[1] = accept(l, NULL, NULL);
    close(l);
}

static void meet_ours(int s[2])
{
    struct sockaddr_storage a = addr;
    socklen_t len = sizeof(a);
    int l = gw_sock_open_thread(net, domain, SOCK_STREAM, 0, soon()), err = l < 0 ? l : 0;

    if (!err) err = gw_sock_bind_thread(net, l, (struct sockaddr *)&a, addr_len, soon());
    if (!err) err = gw_sock_listen_thread(net, l, 1, soon());
    if (!err) err = gw_sock_name_thread(net, l, (struct sockaddr *)&a, &len);
    s[0] = gw_sock_open_thread(net, domain, SOCK_STREAM, 0, soon());
    if (!err) err = gw_sock_connect_thread(net, s[0], (struct sockaddr *)&a, len, soon());
    s[1] = err ? err : gw_sock_accept_thread(net, l, NULL, NULL, soon());
    if (s[1] < 0) stop("cannot connect", 0, s[1]);
    (void)gw_sock_close_thread(net, l, soon());
}

/* ---- steps --------------------------------------------------------------------------------------------- */

/* Cuts n bytes into up to 8 stretches, some of which may be empty. How many. */
static int cut(struct rnd *r, uint8_t *bytes, uint32_t n, struct iovec iov[8])
{
    int parts = (int)rnd_below(r, 8);

    for (int i = 0; i < parts; i++) {
        iov[i].iov_base = bytes;
        iov[i].iov_len = rnd_below(r, n + 1);
        bytes += iov[i].iov_len;
        n -= (uint32_t)iov[i].iov_len;
    }
    return parts;
}

static void a_send(struct pair *p, struct rnd *r, int end)
{
    uint8_t bytes[MOST];
    uint32_t room = MOST - p->under_way[end], n = rnd_below(r, room + 1), i;
    const int *s[2] = {p->s[TCP], p->s[OURS]};
    struct iovec iov[8];
    int parts;
    int64_t got;

    for (i = 0; i < n; i++) bytes[i] = (uint8_t)rnd64(r);
    switch (rnd_below(r, 3)) {
    case 0:
        parts = cut(r, bytes, n, iov);
        got = same("writev", do_writev(TCP, s[TCP][end], iov, parts),
                   do_writev(OURS, s[OURS][end], iov, parts));
        break;
    case 1:
        got = same("sendto", do_sendto(TCP, s[TCP][end], bytes, n), do_sendto(OURS, s[OURS][end], bytes, n));
        break;
    default:
        got = same("send", do_send(TCP, s[TCP][end], bytes, n, 0), do_send(OURS, s[OURS][end], bytes, n, 0));
    }
    if (got > 0) p->under_way[end] += (uint32_t)got;
}

/* As recv and read: what is there, or the end; never where it would wait. */
static void a_readv(struct pair *p, struct rnd *r, int end)
{
    uint8_t bytes[2][MOST] = {{0}};
    struct iovec iov[2][8];
    int parts = cut(r, bytes[TCP], MOST, iov[TCP]);
    uint32_t there = p->under_way[!end];
    int64_t got;

    for (int i = 0; i < parts; i++) {
        iov[OURS][i] = iov[TCP][i];
        iov[OURS][i].iov_base = bytes[OURS] + ((uint8_t *)iov[TCP][i].iov_base - bytes[TCP]);
    }
    if (!there && !p->wr[!end] && !p->rd[end]) return;
    got = same("readv", do_readv(TCP, p->s[TCP][end], iov[TCP], parts),
               do_readv(OURS, p->s[OURS][end], iov[OURS], parts));
    if (memcmp(bytes[TCP], bytes[OURS], MOST)) stop("the bytes", got, got);
    if (got > 0) p->under_way[!end] -= (uint32_t)got;
}

static void a_recv(struct pair *p, struct rnd *r, int end)
{
    static const int kinds[] = {0, 0, MSG_PEEK, MSG_WAITALL, MSG_DONTWAIT, MSG_DONTWAIT | MSG_PEEK};
    uint8_t bytes[2][MOST + 100];
    uint32_t there = p->under_way[!end], n = 1 + rnd_below(r, MOST + 99);
    int flags = kinds[rnd_below(r, 6)];
    int64_t got;

    /* Not where it would wait forever, nor for no bytes at all: Linux does wait then. */
    if (!there && !p->wr[!end] && !p->rd[end]) flags |= MSG_DONTWAIT;
    if (flags & MSG_WAITALL && n > there && there && !p->wr[!end]) n = there;
    if (rnd_below(r, 2))
        got = same("recv", do_recv(TCP, p->s[TCP][end], bytes[TCP], n, flags),
                   do_recv(OURS, p->s[OURS][end], bytes[OURS], n, flags));
    else
        got = same("recvfrom", do_recvfrom(TCP, p->s[TCP][end], bytes[TCP], n, flags),
                   do_recvfrom(OURS, p->s[OURS][end], bytes[OURS], n, flags));
    if (got <= 0) return;
    if (memcmp(bytes[TCP], bytes[OURS], (size_t)got)) stop("the bytes", got, got);
    if (!(flags & MSG_PEEK)) p->under_way[!end] -= (uint32_t)got;
}

static void a_shutdown(struct pair *p, struct rnd *r, int end, uint32_t steps)
{
    /* Whether bytes that come after SHUT_RD are read is a choice; so is what a sender learns of it. */
    if (rnd_below(r, steps / 15)) return;
    if (p->wr[0] && p->wr[1]) return; /* Linux has forgotten the connection by then: ENOTCONN */
    same("shutdown", do_shutdown(TCP, p->s[TCP][end], SHUT_WR), do_shutdown(OURS, p->s[OURS][end], SHUT_WR));
    p->wr[end] = 1;
}

/* POLLIN and POLLOUT; what of both ends' shutdowns is told as POLLHUP, too. */
static void a_poll(struct pair *p, struct rnd *r, int end)
{
    short events = (short)(rnd_below(r, 2) ? POLLIN : POLLIN | POLLOUT);

    same("poll", do_poll(TCP, p->s[TCP][end], events, 0), do_poll(OURS, p->s[OURS][end], events, 0));
}

/*
 * Sets and reads a socket's option. Sizes of buffers matter only to the owner, and the first
 * values of keep-alive differ, so these are read only when they have been set.
 */
static void an_option(struct rnd *r, int tcp, int ours)
{
    static const struct {
        int level, name, least, most;
    } v[] = {
        {SOL_SOCKET, SO_KEEPALIVE, 0, 3},
        {IPPROTO_TCP, TCP_NODELAY, 0, 3},
        {IPPROTO_TCP, TCP_KEEPIDLE, 0, 40000},
        {IPPROTO_TCP, TCP_KEEPINTVL, 0, 40000},
        {IPPROTO_TCP, TCP_KEEPCNT, 0, 200},
        {SOL_SOCKET, SO_REUSEADDR, 0, 1},
        {SOL_SOCKET, SO_TYPE, 1, 1},
        {SOL_SOCKET, SO_DOMAIN, 1, 1},
        {SOL_SOCKET, SO_PROTOCOL, 1, 1},
        {SOL_SOCKET, SO_ACCEPTCONN, 1, 1},
        {SOL_SOCKET, SO_ERROR, 0, 1},
        {SOL_SOCKET, 9999, 0, 1},
        {IPPROTO_TCP, 9999, 0, 1},
    };
    uint32_t i = rnd_below(r, sizeof(v) / sizeof(v[0]));
    int value[2] = {v[i].least + (int)rnd_below(r, (uint32_t)(v[i].most - v[i].least + 1)),
                    0};              /* or longer */
    int got[2][2] = {{0}, {0}}, own; /* an answer may be asked for in more bytes than it has */
    socklen_t len = rnd_below(r, 8) ? sizeof(value[0]) : rnd_below(r, 6), had[2];
    int64_t err = same("setsockopt", do_setopt(TCP, tcp, v[i].level, v[i].name, value, len),
                       do_setopt(OURS, ours, v[i].level, v[i].name, value, len));

    own = v[i].level == IPPROTO_TCP || v[i].name == SO_KEEPALIVE;
    if (err && own) return;
    had[TCP] = had[OURS] = rnd_below(r, 8) ? sizeof(value[0]) : rnd_below(r, 9);
    same("getsockopt", do_getopt(TCP, tcp, v[i].level, v[i].name, got[TCP], &had[TCP]),
         do_getopt(OURS, ours, v[i].level, v[i].name, got[OURS], &had[OURS]));
    same("the option's length", had[TCP], had[OURS]);
    same("the option", got[TCP][0], got[OURS][0]);
}

/* Everything that is under way arrives: results must not depend on how fast a network is. */
static void settle(struct pair *p)
{
    uint8_t bytes[MOST];

    for (int end = 0; end < 2; end++)
        for (int k = 0; k < 2; k++) {
            int s = p->s[k][end];
            uint64_t late = soon();

            while (p->under_way[!end] &&
                   do_recv(k, s, bytes, MOST, MSG_PEEK | MSG_DONTWAIT) < (int64_t)p->under_way[!end]) {
                if (gw_clock_ns() > late) stop("bytes do not arrive", k == TCP, k == OURS);
                usleep(20); /* the threads that bring them may want this processor */
            }
            if (p->wr[!end] && !(do_poll(k, s, POLLIN, 10000) & POLLIN))
                stop("no end arrives", k == TCP, k == OURS);
            if (p->wr[0] && p->wr[1] && !(do_poll(k, s, 0, 10000) & POLLHUP))
                stop("no hang-up arrives", k == TCP, k == OURS);
        }
}

static void a_script(void)
{
    uint32_t steps = seed % 10 || seed >= 1000 ? STEPS : 10 * STEPS;
    struct rnd r = {seed * 0x9e3779b97f4a7c15u + 1};
    struct pair p;

    memset(&p, 0, sizeof(p));
    meet_tcp(p.s[TCP]);
    meet_ours(p.s[OURS]);
    for (step = 0; step < steps; step++) {
        int end = (int)rnd_below(&r, 2);

        switch (rnd_below(&r, 11)) {
        case 0:
        case 1:
        case 2: a_send(&p, &r, end); break;
        case 3:
        case 4:
        case 5: a_recv(&p, &r, end); break;
        case 6: a_poll(&p, &r, end); break;
        case 7: a_readv(&p, &r, end); break;
        case 8:
        case 9:
            if (domain != AF_UNIX) an_option(&r, p.s[TCP][end], p.s[OURS][end]);
            break;
        default: a_shutdown(&p, &r, end, steps); break;
        }
        settle(&p);
    }
    for (int end = 0; end < 2; end++) {
        same("close", do_close(TCP, p.s[TCP][end]), do_close(OURS, p.s[OURS][end]));
        same("close again", do_close(TCP, p.s[TCP][end]), do_close(OURS, p.s[OURS][end]));
    }
}

/* ---- a socket that is not connected, and no socket ----------------------------------------------------- */

/* SO_LINGER and SO_ERROR, as far as they are the same: a value that is set is read, and a refused connection
 * is reported once. */
static void lingering(int t, int g)
{
    struct linger l = {1, 5}, got[2];
    socklen_t had[2] = {sizeof(l), sizeof(l)};

    same("SO_LINGER", do_setopt(TCP, t, SOL_SOCKET, SO_LINGER, &l, 4),
         do_setopt(OURS, g, SOL_SOCKET, SO_LINGER, &l, 4));
    same("SO_LINGER", do_setopt(TCP, t, SOL_SOCKET, SO_LINGER, &l, sizeof(l)),
         do_setopt(OURS, g, SOL_SOCKET, SO_LINGER, &l, sizeof(l)));
    same("SO_LINGER", do_getopt(TCP, t, SOL_SOCKET, SO_LINGER, &got[TCP], &had[TCP]),
         do_getopt(OURS, g, SOL_SOCKET, SO_LINGER, &got[OURS], &had[OURS]));
    same("SO_LINGER's length", had[TCP], had[OURS]);
    same("SO_LINGER's seconds", got[TCP].l_linger, got[OURS].l_linger);
    same("SO_LINGER's flag", got[TCP].l_onoff, got[OURS].l_onoff);
}

static void unconnected(void)
{
    int t = socket(domain, SOCK_STREAM, 0), g = gw_sock_open_thread(net, domain, SOCK_STREAM, 0, soon());
    struct sockaddr_storage nobody = addr, local;
    socklen_t len = sizeof(nobody), len2 = sizeof(nobody), to = addr_len;
    struct rnd r = {seed};
    static struct iovec many[1025];
    struct iovec none = {NULL, 0};
    volatile int less = -1; /* which the compiler would warn of */
    int on = 1;
    char c = 0;

    local_addr(&local);
    ((struct sockaddr_in *)&nobody)->sin_port = ((struct sockaddr_in *)&local)->sin_port = htons(1);
    if (domain == AF_UNIX)
        to = (socklen_t)sizeof(struct sockaddr_un); /* the path is "", and bytes after it */
    same("socket", result(socket(domain, SOCK_STREAM, IPPROTO_UDP)),
         gw_sock_open_thread(net, domain, SOCK_STREAM, IPPROTO_UDP, soon()));
    same("send", -ENOTCONN,
         do_send(OURS, g, &c, 1, 0)); /* POSIX' choice, and recv's, too; Linux makes others: */
    same("recv", -ENOTCONN, do_recv(OURS, g, &c, 1, 0));
    same("shutdown", -ENOTCONN, do_shutdown(OURS, g, SHUT_WR));
    if (domain != AF_UNIX) {
        same("send", do_send(TCP, t, &c, 1, 0), -EPIPE);
        same("recv", do_recv(TCP, t, &c, 1, 0), -ENOTCONN);
        same("shutdown", do_shutdown(TCP, t, SHUT_WR), -ENOTCONN);
    }
    same("poll", do_poll(TCP, t, POLLIN | POLLOUT, 0), do_poll(OURS, g, POLLIN | POLLOUT, 0));
    same("readv", do_readv(TCP, t, &none, 1), do_readv(OURS, g, &none, 1));
    same("readv", do_readv(TCP, t, &none, less), do_readv(OURS, g, &none, less));
    same("writev", do_writev(TCP, t, many, 1025), do_writev(OURS, g, many, 1025));
    same("accept", result(accept(t, NULL, NULL)), gw_sock_accept_thread(net, g, NULL, NULL, soon()));
    same("getpeername", result(getpeername(t, (struct sockaddr *)&nobody, &len)),
         gw_sock_peer_thread(net, g, (struct sockaddr *)&nobody, &len2));
    for (uint32_t i = 0; i < 200 && domain != AF_UNIX; i++) an_option(&r, t, g);
    lingering(t, g);
    same("connect", result(connect(t, (struct sockaddr *)&local, to)),
         gw_sock_connect_thread(net, g, (struct sockaddr *)&nobody, to, soon()));
    same("close", do_close(TCP, t), do_close(OURS, g));
    same("close again", do_close(TCP, t), do_close(OURS, g));
    same("setsockopt", do_setopt(TCP, t, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on)),
         do_setopt(OURS, g, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on)));
    same("getsockopt", do_getopt(TCP, t, SOL_SOCKET, SO_KEEPALIVE, &on, &len),
         do_getopt(OURS, g, SOL_SOCKET, SO_KEEPALIVE, &on, &len2));
    same("readv", do_readv(TCP, t, &none, 1), do_readv(OURS, g, &none, 1));
    same("send", do_send(TCP, 1 << 20, &c, 1, 0), do_send(OURS, 1 << 20, &c, 1, 0));
    same("recv", do_recv(TCP, -1, &c, 1, 0), do_recv(OURS, -1, &c, 1, 0));
    same("poll", do_poll(TCP, t, POLLIN, 0), do_poll(OURS, g, POLLIN, 0));
}

int main(int argc, char **argv)
{
    struct gw_sockets_attr attr = {.count = 4, .rbuf = 16384, .wbuf = 16384};

    return compare(argc, argv, &attr, unconnected, a_script, STEPS);
}
