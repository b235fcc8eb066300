/* SPDX-License-Identifier: Apache-2.0 */
/*
 * memcache_link.h: a block's persistent connection to one memcached. Questions are pipelined, and answers
 * belong to them in order. A connection that fails is made again, after a pause that doubles each time until
 * an answer makes sense. One thread of the block calls everything here but mc_link_receive.
 */
#ifndef MEMCACHE_LINK_H
#define MEMCACHE_LINK_H

#include <gpuwire/socket.h>

#include "apps/faceverify/memcache.h"

enum {
    MC_OWED_MAX = 16, /* questions without an answer */
    MC_IN = 32 << 10, /* more than two answers, so that a rest can move to the front (mc_link_receive) */
};
#define MC_PAUSE_MIN_NS   10000000u
#define MC_PAUSE_MAX_NS   1000000000u
#define MC_CONNECT_MAX_NS 1000000000u

enum mc_state { MC_DOWN, MC_CONNECTING, MC_UP };

struct mc_host {
    struct sockaddr_storage addr;
    socklen_t len;
};

/* A question that has no answer yet, by the caller's number for it. Quiet: memcached does not tell a miss. */
struct mc_owed {
    uint32_t number, opaque, quiet;
};

struct mc_link {
    int fd;
    uint32_t state;                        /* enum mc_state */
    uint64_t retry_ns, pause_ns, since_ns; /* when to connect again; the next pause; connecting since then */
    uint32_t first, owed;                  /* of the ring owes */
    struct mc_owed owes[MC_OWED_MAX];
    uint32_t unsent, last; /* bytes of out; where the last question begins */
    uint32_t at, have;     /* of in: the next answer begins at `at` */
    uint32_t skip;         /* bytes of a useless value that are still to come */
    uint8_t out[MC_OWED_MAX * (MC_ASK_MAX + 2)], in[MC_IN];
};

/* ---- connecting ---------------------------------------------------------------------------------------- */

/* Closes it. What it owed is the caller's to answer. */
GW_DEV void mc_link_fail(struct gw_net *net, struct mc_link *l, uint64_t now)
{
    if (l->fd >= 0) gw_sock_close_thread(net, l->fd, 0);
    l->fd = -1;
    l->state = MC_DOWN;
    l->pause_ns = !l->pause_ns                        ? MC_PAUSE_MIN_NS
                  : l->pause_ns < MC_PAUSE_MAX_NS / 2 ? 2 * l->pause_ns
                                                      : MC_PAUSE_MAX_NS;
    l->retry_ns = now + l->pause_ns;
    l->first = l->owed = l->unsent = l->at = l->have = l->skip = 0;
}

/* Begins to connect. */
GW_DEV void mc_link_open(struct gw_net *net, struct mc_link *l, const struct mc_host *host, uint64_t now)
{
    int one = 1, err;

    l->fd = gw_sock_open_thread(net, host->addr.ss_family, SOCK_STREAM, 0, now + GW_SOCK_HELPER_NS);
    l->since_ns = now;
    l->state = MC_CONNECTING;
    if (l->fd < 0) {
        mc_link_fail(net, l, now);
        return;
    }
    /* Otherwise the second question would wait until the host has heard that the first one arrived. */
    gw_sock_setsockopt_thread(net, l->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    err = gw_sock_connect_thread(net, l->fd, (const struct sockaddr *)&host->addr, host->len, 0);
    if (!err)
        l->state = MC_UP;
    else if (err != -EINPROGRESS)
        mc_link_fail(net, l, now);
}

/* Connecting has ended, or takes too long. 0; or it has failed, and the caller closes it. */
GW_DEV int mc_link_connected(struct gw_net *net, struct mc_link *l, const struct mc_host *host, int events,
                             uint64_t now)
{
    int err = events ? gw_sock_connect_thread(net, l->fd, (const struct sockaddr *)&host->addr, host->len, 0)
                     : -EALREADY;

    if (!err || err == -EISCONN) l->state = MC_UP;
    if (l->state == MC_UP) return 0;
    return err != -EALREADY && err != -EINPROGRESS ? err
           : now - l->since_ns > MC_CONNECT_MAX_NS ? -ETIMEDOUT
                                                   : 0;
}

/* ---- asking -------------------------------------------------------------------------------------------- */

/* Has it room for one more question? */
GW_DEV bool mc_link_has_room(const struct mc_link *l)
{
    return l->state != MC_DOWN && l->owed < MC_OWED_MAX;
}

/* Adds a question to those that mc_link_flush sends. */
GW_DEV void mc_link_ask(struct mc_link *l, uint32_t protocol, const char *key, uint32_t len,
                        struct mc_owed owed)
{
    uint32_t i = (l->first + l->owed) % MC_OWED_MAX;

    if (l->unsent && protocol == MC_BINARY) { /* the one before is not the last of its lot */
        mc_ask_quietly(l->out + l->last, protocol);
        l->owes[(i + MC_OWED_MAX - 1) % MC_OWED_MAX].quiet = 1;
    }
    l->last = l->unsent;
    l->unsent += mc_ask(l->out + l->unsent, protocol, key, len, owed.opaque);
    l->owes[i] = owed;
    l->owed++;
}

/* Sends what has been asked. 0; or it has failed. */
GW_DEV int mc_link_flush(struct gw_net *net, struct mc_link *l)
{
    uint32_t n = l->unsent;
    int64_t sent;

    if (l->state != MC_UP || !n) return 0;
    l->unsent = 0;
    sent = gw_sock_send_thread(net, l->fd, l->out, n, MSG_DONTWAIT, 0);
    return sent == n ? 0 : sent < 0 ? (int)sent : -ETIMEDOUT;
}

/* ---- answers ------------------------------------------------------------------------------------------- */

/* All threads of the block: receives what has come, behind what is there. Bytes; 0: the end of the stream; or
 * an error. `have` is the caller's to advance. */
GW_DEV int64_t mc_link_receive(struct gw_net *net, struct mc_link *l)
{
    uint32_t at = l->at, left = l->have - at;

    if (at >= left && at) { /* otherwise there is room for the whole answer where it lies */
        gw_copy_share(l->in, l->in + at, left, gw_thread_idx(), gw_block_dim());
        gw_syncthreads();
        if (gw_thread_idx() == 0) l->at = 0, l->have = left;
        gw_syncthreads();
    }
    return gw_sock_recv(net, l->fd, l->in + l->have, MC_IN - l->have, MSG_DONTWAIT, 0);
}

/* Whose is this answer? Its question, and in *missed how many quiet ones before it were misses. NULL: no
 * question fits. */
GW_DEV const struct mc_owed *mc_link_whose(const struct mc_link *l, uint32_t protocol,
                                           const struct mc_answer *a, uint32_t *missed)
{
    const struct mc_owed *o;

    for (*missed = 0; *missed < l->owed; ++*missed) {
        o = &l->owes[(l->first + *missed) % MC_OWED_MAX];
        if (protocol == MC_TEXT || o->opaque == a->opaque) return o;
        if (!o->quiet) return NULL;
    }
    return NULL;
}

/* Its first n questions are answered. */
GW_DEV void mc_link_answered(struct mc_link *l, uint32_t n)
{
    l->first = (l->first + n) % MC_OWED_MAX;
    l->owed -= n;
}

/* The next answer: reads it, and goes past it. With MC_MORE there is none. */
GW_DEV void mc_link_next(struct mc_link *l, uint32_t protocol, uint32_t max_value, struct mc_answer *a)
{
    uint32_t n = l->have - l->at, skip = l->skip < n ? l->skip : n;

    l->at += skip;
    l->skip -= skip;
    mc_answer_read(protocol, l->in + l->at, n - skip, max_value, a);
    a->key += l->at;
    a->value += l->at;
    n -= skip;
    l->skip += a->used > n ? a->used - n : 0;
    l->at += a->used < n ? a->used : n;
}

#endif
