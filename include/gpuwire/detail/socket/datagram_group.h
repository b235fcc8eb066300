/* SPDX-License-Identifier: Apache-2.0 */
/* datagram_group.h: how datagrams go and come over RDMA (datagram.h). Included by socket.h; names that end in
 * _ are private. */
#include <gpuwire/socket.h> /* which includes this file where it belongs */

#ifndef GPUWIRE_DETAIL_SOCKET_DATAGRAM_GROUP_H
#define GPUWIRE_DETAIL_SOCKET_DATAGRAM_GROUP_H

/* ---- sending: the group's first thread ---------------------------------------------------------------- */

/* How a datagram goes, with the sender's turn. */
#define GW_DATAGRAM_BY_HELPER_ 0x100

GW_SLOW_FN int gw_datagram_room_(const struct gw_sock_ *k, struct gw_datagram_end_ *e, uint64_t deadline_ns)
{
    struct gw_datagram_wait_ w = {0, 0};
    int may;

    for (;;) {
        may = gw_datagram_may_send_(k, e);
        if (may) return may < 0 ? may : 0;
        gw_datagram_look_(e);
        may = gw_datagram_may_send_(k, e);
        if (!may) may = gw_datagram_pause_(e->send_cq, &w, deadline_ns);
        if (may) return may < 0 ? may : 0;
    }
}

/* The receiver of a datagram: `to`, or else the peer. */
GW_FN int gw_datagram_whom_(struct gw_net *net, int s, const struct sockaddr *to, socklen_t len,
                            struct gw_sock_addr_ *a, struct gw_datagram_addr *whom)
{
    struct gw_datagram_end_ *e = gw_datagram_(net, s);
    int err;

    a->len = 0;
    if (!to) {
        *whom = e->peer; /* only a connect by another thread, at this very moment, changes it */
        return e->joined ? 0 : -EDESTADDRREQ;
    }
    err = gw_sock_addr_(a, to, len);
    if (!err) err = gw_datagram_addr_of(a->bytes, a->len, whom);
    return err ? err : to->sa_family == gw_sock_opt_(net, s, GW_SOCK_OPT_DOMAIN_) ? 0 : -EAFNOSUPPORT;
}

/* Is it too long, is there room, and how does it go? Bytes of its head, which it writes; or
 * GW_DATAGRAM_BY_HELPER_; or an error. */
GW_SLOW_FN int gw_datagram_head_(struct gw_net *net, int s, uint64_t n, const struct sockaddr *to,
                                 socklen_t len, uint64_t deadline_ns)
{
    struct gw_datagram_end_ *e = gw_datagram_(net, s);
    uint64_t ah[sizeof(struct gw_ah_handle) / 8];
    struct gw_sock_addr_ a;
    struct gw_datagram_addr whom;
    uint32_t qpn;
    int err = gw_datagram_whom_(net, s, to, len, &a, &whom);

    if (err) return err;
    if (n > e->most - gw_datagram_head_bytes(&whom)) return -EMSGSIZE;
    err = gw_datagram_room_(&net->sock[s], e, deadline_ns);
    if (err) return err;
    if (!e->self.w[0] || !gw_datagram_find_(e->shared, &whom, &qpn, ah)) return GW_DATAGRAM_BY_HELPER_;
    return (int)gw_datagram_head_put(&e->self, e->wbuf + (size_t)(e->put % e->sends) * GW_DATAGRAM_MESSAGE);
}

/* The payload lies after its head: it is sent to where the peer is now. */
GW_SLOW_FN int gw_datagram_go_(struct gw_net *net, int s, uint32_t bytes, const struct sockaddr *to,
                               socklen_t len)
{
    struct gw_datagram_end_ *e = gw_datagram_(net, s);
    struct gw_sock_addr_ a;
    struct gw_datagram_addr whom;
    struct gw_ah_handle ah;
    uint64_t copy[sizeof(ah) / 8];
    uint32_t qpn;
    int err = gw_datagram_whom_(net, s, to, len, &a, &whom);

    if (err) return err;
    /* The table was full of others in between: this one is lost, as datagrams may be. */
    if (!gw_datagram_find_(e->shared, &whom, &qpn, copy)) return 0;
    memcpy(&ah, copy, sizeof(ah));
    err = gw_post_op(e->qp,
                     gw_send_to_op(&ah, qpn, GW_DATAGRAM_QKEY,
                                   e->wbuf_addr + (e->put % e->sends) * GW_DATAGRAM_MESSAGE, e->lkey, bytes),
                     GW_SIGNALED, e->put);
    if (!err) gw_st_relaxed_u64_gpu(&e->put, e->put + 1);
    return err ? -ECONNRESET : 0; /* there was room, so that the queue pair has failed */
}

/* The payload lies in `out`: the helper sends it, and says what came of that. */
GW_SLOW_FN int gw_datagram_by_helper_(struct gw_net *net, int s, uint32_t n, const struct sockaddr *to,
                                      socklen_t len, uint64_t deadline_ns)
{
    struct gw_datagram_end_ *e = gw_datagram_(net, s);
    struct gw_sock_addr_ a;
    struct gw_datagram_addr whom;
    int err = gw_datagram_whom_(net, s, to, len, &a, &whom);

    if (!err && !to) a.len = gw_datagram_addr_tell(&whom, a.bytes);
    if (!err) err = gw_sock_ask_(net, GW_SOCK_SEND_DATAGRAM_, s, (int)n, &a, deadline_ns);
    if (!err) (void)gw_datagram_addr_of(net->info[s].local.bytes, net->info[s].local.len, &e->self);
    return err;
}

/* Whose turn it is to send. */
GW_SLOW_DEV int64_t gw_datagram_send_g_(enum gw_group g, struct gw_net *net, int s, struct gw_sock_vec_ v,
                                        const struct sockaddr *to, socklen_t len, uint64_t deadline_ns)
{
    struct gw_datagram_end_ *e = gw_datagram_(net, s);
    uint64_t n = v.left;
    int64_t how = GW_SOCK_FIRST_(g, gw_datagram_head_(net, s, n, to, len, deadline_ns));
    uint8_t *at = how == GW_DATAGRAM_BY_HELPER_ ? e->shared->out
                                                : e->wbuf + (size_t)(e->put % e->sends) * GW_DATAGRAM_MESSAGE;

    if (how >= 0) {
        gw_sock_vec_copy_(g, &v, at + (how == GW_DATAGRAM_BY_HELPER_ ? 0 : how), n, 1, 0);
        gw_group_sync(g); /* all parts before the post that sends them */
        how = GW_SOCK_FIRST_(g, how == GW_DATAGRAM_BY_HELPER_
                                    ? gw_datagram_by_helper_(net, s, (uint32_t)n, to, len, deadline_ns)
                                    : gw_datagram_go_(net, s, (uint32_t)(how + (int64_t)n), to, len));
    }
    if (gw_group_rank(g) == 0) gw_turn_leave_(&net->sock[s].send_lock);
    return how ? how : (int64_t)n;
}

/* ---- receiving ---------------------------------------------------------------------------------------- */

GW_SLOW_FN int64_t gw_datagram_next_(const struct gw_sock_ *k, struct gw_datagram_end_ *e,
                                     uint64_t deadline_ns)
{
    struct gw_datagram_wait_ w = {0, 0};
    int64_t may;

    for (;;) {
        gw_datagram_look_(e);
        may = gw_datagram_may_recv_(k, e);
        if (!may) may = gw_datagram_pause_(e->recv_cq, &w, deadline_ns);
        if (may) return may;
    }
}

/* Whose turn it is to receive. One datagram; what there is no room for is lost. */
GW_SLOW_DEV int64_t gw_datagram_recv_g_(enum gw_group g, struct gw_net *net, int s, struct gw_sock_vec_ v,
                                        int flags, struct sockaddr *from, socklen_t *len,
                                        uint64_t deadline_ns)
{
    struct gw_datagram_end_ *e = gw_datagram_(net, s);
    int64_t may = GW_SOCK_FIRST_(g, gw_datagram_next_(&net->sock[s], e, deadline_ns));
    uint32_t n = 0, whole = 0;
    struct gw_sock_addr_ a;

    if (may == 1) {
        whole = e->bytes - e->head;
        n = gw_smaller_(whole, v.left);
        gw_sock_vec_copy_(g, &v, gw_datagram_message_(e, e->slot) + e->head, n, 0, 0);
        gw_group_sync(g); /* everybody has copied before the place is given back */
        if (gw_group_rank(g) == 0) {
            a.len = gw_datagram_addr_tell(&e->from, a.bytes);
            (void)gw_sock_tell_addr_(&a, from, len);
            if (!(flags & MSG_PEEK)) gw_datagram_taken_(e);
        }
    }
    gw_group_sync(g); /* no thread reads what belongs to the message any more */
    if (gw_group_rank(g) == 0) gw_turn_leave_(&net->sock[s].recv_lock);
    return may == GW_STREAM_END_ ? 0 : may < 0 ? may : flags & MSG_TRUNC ? whole : n;
}

#endif
