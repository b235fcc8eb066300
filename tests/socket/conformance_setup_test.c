/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How connections are made, named and ended: some hundred calls of a random script on a handful of the host's
 * TCP sockets and on as many of ours. Every result must be the same, and so must what poll, getsockname and
 * getpeername tell.
 *
 *     test_socket_conformance_setup [rdma|rdma6|tcp [SEED [SCRIPTS]]]
 *
 * The script avoids the steps in which the two are meant to differ (docs/sockets.md). It closes a socket
 * whose connect has failed. One whose peer is gone receives, and is closed. A listening socket is closed when
 * no connection waits. The script does not call SHUT_RD.
 */
#include "tests/socket/conformance_rig.h"

#define STEPS 400
#define SLOTS 7

enum state { NONE, OPENED, BOUND, LISTENING, CONNECTED, FAILED };

struct slot {
    enum state state;
    int s[2];         /* [kind] */
    int peer;         /* CONNECTED: whose; -1: not accepted yet, or gone */
    int wr;           /* has shut down for writing */
    uint32_t waiting; /* LISTENING: who wait to be accepted */
    int queue[64];    /* … in their order */
};

static uint32_t met, said, ended;   /* connections that were accepted, talked over, and shut down */
static struct slot slot[SLOTS + 1]; /* the last: for who is accepted when all others are in use */
static int is_rdma;

static int some(struct rnd *r, enum state state)
{
    uint32_t from = rnd_below(r, SLOTS);

    for (uint32_t i = 0; i < SLOTS; i++)
        if (slot[(from + i) % SLOTS].state == state) return (int)((from + i) % SLOTS);
    return -1;
}

/* Where a kind's sockets are; port 0. */
static struct sockaddr_storage home(enum kind k)
{
    struct sockaddr_storage a = addr;

    if (k == TCP) local_addr(&a);
    return a;
}

static in_port_t *port_of(struct sockaddr_storage *a)
{
    return domain == AF_INET6 ? &((struct sockaddr_in6 *)a)->sin6_port : &((struct sockaddr_in *)a)->sin_port;
}

static struct sockaddr_storage name_of(enum kind k, int s, int peer)
{
    struct sockaddr_storage a;
    socklen_t len = sizeof(a);

    memset(&a, 0, sizeof(a));
    if (do_name(k, s, peer, &a, &len) || len != addr_len) stop("a name", k, len);
    return a;
}

static int same_name(struct sockaddr_storage a, struct sockaddr_storage b)
{
    return a.ss_family == b.ss_family && *port_of(&a) == *port_of(&b) &&
           (domain == AF_INET6
                ? !memcmp(&((struct sockaddr_in6 *)&a)->sin6_addr, &((struct sockaddr_in6 *)&b)->sin6_addr,
                          16)
                : ((struct sockaddr_in *)&a)->sin_addr.s_addr == ((struct sockaddr_in *)&b)->sin_addr.s_addr);
}

/* ---- steps --------------------------------------------------------------------------------------------- */

static void an_open(struct rnd *r)
{
    int i = some(r, NONE), type = rnd_below(r, 6) ? SOCK_STREAM : 11; /* which there is not */
    int protocol = rnd_below(r, 4) ? 0 : rnd_below(r, 2) ? IPPROTO_TCP : IPPROTO_UDP;

    if (i < 0) return;
    slot[i] = (struct slot){.peer = -1};
    for (enum kind k = TCP; k <= OURS; k++) slot[i].s[k] = (int)do_open(k, type, protocol);
    same("socket", slot[i].s[TCP] < 0 ? slot[i].s[TCP] : 0, slot[i].s[OURS] < 0 ? slot[i].s[OURS] : 0);
    if (slot[i].s[TCP] >= 0) slot[i].state = OPENED;
}

/* An address that is well, of another family, not of this host, taken, or too short. */
static socklen_t choose(enum kind k, uint32_t which, const struct slot *taken, struct sockaddr_storage *a)
{
    *a = home(k);
    switch (which) {
    case 0: a->ss_family = domain == AF_INET ? AF_INET6 : AF_INET; return sizeof(*a);
    case 1:
        if (domain == AF_INET)
            ((struct sockaddr_in *)a)->sin_addr.s_addr = htonl(0xc0000201); /* 192.0.2.1 */
        else
            ((struct sockaddr_in6 *)a)->sin6_addr.s6_addr[0] = 0x20;
        return addr_len;
    case 2: return addr_len - 5;
    case 3:
        if (taken) *a = name_of(k, taken->s[k], 0);
        return addr_len;
    default: return addr_len;
    }
}

static void a_bind(struct rnd *r, int i)
{
    uint32_t which = slot[i].state == OPENED ? rnd_below(r, 8) : 4; /* of two errors it may be either */
    int l = some(r, LISTENING);
    const struct slot *taken = l >= 0 ? &slot[l] : NULL;
    struct sockaddr_storage a;
    int64_t rc[2];

    for (enum kind k = TCP; k <= OURS; k++) {
        socklen_t len = choose(k, which, taken, &a);

        rc[k] = do_bind(k, slot[i].s[k], &a, len);
    }
    if (!same("bind", rc[TCP], rc[OURS])) slot[i].state = BOUND;
}

static void a_listen(struct rnd *r, int i)
{
    int backlog = (int)rnd_below(r, 3) ? 32 : 8, listening = 0;

    for (int k = 0; k < SLOTS; k++) listening += slot[k].state == LISTENING;
    if (listening > 1 && slot[i].state != CONNECTED) return; /* others have to connect */
    if (!same("listen", do_listen(TCP, slot[i].s[TCP], backlog), do_listen(OURS, slot[i].s[OURS], backlog)))
        slot[i].state = LISTENING;
}

/* Until what was begun is done. */
static int64_t connected(enum kind k, int s, const struct sockaddr_storage *a, socklen_t len, int at_once)
{
    int64_t rc = do_connect(k, s, a, len, at_once);

    if (rc != -EINPROGRESS) return rc;
    rc = do_poll(k, s, POLLOUT, 60000);
    if (!(rc & POLLOUT)) stop("connecting", k, rc);
    return do_connect(k, s, a, len, 1);
}

/* To one that listens, to one that does not, or to what is no address. */
static void a_connect(struct rnd *r, int i)
{
    int l = rnd_below(r, 4) ? some(r, LISTENING) : -1, at_once = (int)rnd_below(r, 2);
    uint32_t which = rnd_below(r, 8) ? 4 : 2 * rnd_below(r, 2);
    struct sockaddr_storage a;
    int64_t rc[2];

    if (l >= 0 && slot[l].waiting == 6) return;
    for (enum kind k = TCP; k <= OURS; k++) {
        socklen_t len = choose(k, which, NULL, &a);

        if (which == 4)
            *port_of(&a) =
                l >= 0 ? *port_of(&(struct sockaddr_storage[]){name_of(k, slot[l].s[k], 0)}[0]) : htons(1);
        rc[k] = connected(k, slot[i].s[k], &a, len, at_once);
    }
    same("connect", rc[TCP], rc[OURS]);
    if (rc[TCP] == -ECONNREFUSED) slot[i].state = FAILED;
    if (rc[TCP]) return;
    slot[i].state = CONNECTED;
    slot[i].peer = -1;
    slot[l].queue[slot[l].waiting++] = i;
}

/* Which slot has the accepted connection; -1: none. */
static int an_accept(struct rnd *r, int i)
{
    struct slot *l = &slot[i];
    int at_once = l->state != LISTENING || !l->waiting || rnd_below(r, 2), to = some(r, NONE), s[2];
    struct sockaddr_storage from[2];

    if (to < 0) to = SLOTS;
    for (enum kind k = TCP; k <= OURS; k++) {
        socklen_t len = sizeof(from[k]);

        if (l->waiting && !(do_poll(k, l->s[k], POLLIN, 60000) & POLLIN))
            stop("no connection to accept", k, 0);
        s[k] = (int)do_accept(k, l->s[k], &from[k], &len, at_once);
        if (s[k] >= 0) same("the length of the peer's address", addr_len, len);
    }
    same("accept", s[TCP] < 0 ? s[TCP] : 0, s[OURS] < 0 ? s[OURS] : 0);
    if (s[TCP] < 0) return -1;
    slot[to] = (struct slot){.state = CONNECTED, .s = {s[TCP], s[OURS]}, .peer = l->queue[0]};
    for (enum kind k = TCP; k <= OURS && l->queue[0] >= 0; k++)
        same("accept's address", same_name(from[k], name_of(k, slot[l->queue[0]].s[k], 0)), 1);
    if (l->queue[0] >= 0) slot[l->queue[0]].peer = to;
    met++;
    l->waiting--;
    memmove(l->queue, l->queue + 1, l->waiting * sizeof(l->queue[0]));
    return to;
}

/* Its own name and its peer's: those of the two ends are each other's. */
static void names(int i)
{
    struct slot *p = &slot[i];

    for (int peer = 0; peer < 2; peer++) {
        struct sockaddr_storage a[2];
        socklen_t len[2] = {sizeof(a[0]), sizeof(a[0])};
        int64_t rc;

        memset(a, 0, sizeof(a));
        rc = same(peer ? "getpeername" : "getsockname", do_name(TCP, p->s[TCP], peer, &a[TCP], &len[TCP]),
                  do_name(OURS, p->s[OURS], peer, &a[OURS], &len[OURS]));
        if (rc) continue;
        same("a name's length", len[TCP], len[OURS]);
        same("a name's family", a[TCP].ss_family, a[OURS].ss_family);
        same("is there a port?", !*port_of(&a[TCP]), !*port_of(&a[OURS]));
        for (enum kind k = TCP; k <= OURS && p->peer >= 0; k++)
            same("the peer's name", same_name(a[k], name_of(k, slot[p->peer].s[k], !peer)), 1);
    }
}

static void read_all(int i)
{
    char c[64];

    for (enum kind k = TCP; k <= OURS; k++)
        while (do_recv(k, slot[i].s[k], c, sizeof(c), MSG_DONTWAIT) > 0) continue;
}

static void talk(struct rnd *r, int i)
{
    char out[64], in[2][64];
    struct slot *p = &slot[i];
    uint32_t n = 1 + rnd_below(r, sizeof(out));

    if (p->peer < 0 || slot[p->peer].wr) return;
    for (uint32_t k = 0; k < n; k++) out[k] = (char)rnd64(r);
    if (same("send", do_send(TCP, p->s[TCP], out, n, 0), do_send(OURS, p->s[OURS], out, n, 0)) < 0) return;
    same("recv", do_recv(TCP, slot[p->peer].s[TCP], in[TCP], n, MSG_WAITALL),
         do_recv(OURS, slot[p->peer].s[OURS], in[OURS], n, MSG_WAITALL));
    same("the bytes", memcmp(out, in[TCP], n), memcmp(out, in[OURS], n));
    said++;
}

static void a_shutdown(int i)
{
    struct slot *p = &slot[i];

    /* Linux remembers it of one that is not connected, and forgets the connection when both sides have. */
    if (p->state != CONNECTED || p->peer < 0 || slot[p->peer].wr) return;
    if (same("shutdown", do_shutdown(TCP, p->s[TCP], SHUT_WR), do_shutdown(OURS, p->s[OURS], SHUT_WR)))
        return;
    p->wr = 1;
    ended++;
    for (enum kind k = TCP; k <= OURS; k++) {
        char c;

        same("the end", 0, do_recv(k, slot[p->peer].s[k], &c, 1, 0));
    }
}

static void a_close(int i)
{
    struct slot *p = &slot[i];

    if (p->state == LISTENING && p->waiting) return;
    for (int l = 0; l < SLOTS && p->state == CONNECTED && p->peer < 0; l++) /* one will find no connection */
        for (uint32_t k = 0; slot[l].state == LISTENING && k < slot[l].waiting; k++)
            if (slot[l].queue[k] == i) return;
    if (p->peer >= 0) read_all(p->peer);
    if (p->state == CONNECTED) read_all(i);
    same("close", do_close(TCP, p->s[TCP]), do_close(OURS, p->s[OURS]));
    if (p->peer >= 0)
        for (enum kind k = TCP; k <= OURS; k++) {
            char c;

            same("the end", 0, do_recv(k, slot[p->peer].s[k], &c, 1, 0));
        }
    if (p->peer >= 0) slot[p->peer].peer = -2;
    p->state = NONE;
}

/* All that poll says the same of. Whose peer has closed is told that by RDMA, and not by TCP. */
static void look(void)
{
    for (int i = 0; i < SLOTS; i++) {
        struct slot *p = &slot[i];

        if (p->state == NONE || p->state == FAILED || (is_rdma && p->peer == -2)) continue;
        if (p->state == LISTENING && p->waiting)
            for (enum kind k = TCP; k <= OURS; k++) (void)do_poll(k, p->s[k], POLLIN, 60000);
        if (p->peer == -2 && p->wr) continue; /* Linux may have forgotten the connection */
        same("poll", do_poll(TCP, p->s[TCP], POLLIN | POLLOUT, 0),
             do_poll(OURS, p->s[OURS], POLLIN | POLLOUT, 0));
    }
}

/* One call on one socket, be it the right one or not. */
static void a_call(struct rnd *r)
{
    int i = (int)rnd_below(r, SLOTS);
    struct slot *p = &slot[i];
    int gone = p->state == FAILED || (p->state == CONNECTED && p->peer == -2);

    if (p->state == NONE) {
        an_open(r);
        return;
    }
    switch (gone ? 0 : rnd_below(r, 14)) {
    case 0:
    case 1: a_close(i); break;
    case 2:
    case 3: a_bind(r, i); break;
    case 4: a_listen(r, i); break;
    case 5:
    case 6:
        if (p->state != LISTENING) a_connect(r, i);
        break;
    case 7:
    case 8:
        if (an_accept(r, i) == SLOTS) a_close(SLOTS);
        break;
    case 9:
    case 10:
        if (!(p->wr && p->peer >= 0 && slot[p->peer].wr)) names(i);
        break;
    case 11:
    case 12:
        if (p->state == CONNECTED) talk(r, i);
        break;
    default: a_shutdown(i);
    }
}

static void a_script(void)
{
    struct rnd r = {seed * 0x9e3779b97f4a7c15u + 7};

    for (step = 0; step < STEPS; step++) {
        a_call(&r);
        if (rnd_below(&r, 4) == 0) look();
    }
    for (int i = 0; i < SLOTS; i++)
        while (slot[i].state == LISTENING && slot[i].waiting) a_close(an_accept(&r, i));
    for (int i = 0; i < SLOTS; i++)
        if (slot[i].state != NONE) a_close(i);
}

static void begin(void)
{
    is_rdma = addr.ss_family != 0 && net->host_stream == NULL;
}

int main(int argc, char **argv)
{
    struct gw_sockets_attr attr = {.count = 64, .rbuf = 4096, .wbuf = 4096};

    int rc = compare(argc, argv, &attr, begin, a_script, STEPS);

    printf("%u connections were accepted, %u pieces said, %u ends\n", met, said, ended);
    return rc || !met || !said || !ended;
}
