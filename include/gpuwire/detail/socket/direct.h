/* SPDX-License-Identifier: Apache-2.0 */
/*
 * direct.h: direct access to a stream's peer, and its to us: rsocket's iomap. Included by socket.h; names
 * that end in _ are private.
 *
 * The peer's announcements are taken as they arrive, under the flow's lock (stream.h). Ours go out in the
 * sender's turn, and so do writes. Until then they lie in the stream's own buffer. They take neither credit
 * nor room of the peer's buffers, and the peer is not told.
 */
#include <gpuwire/socket.h> /* which includes this file where it belongs */

#ifndef GPUWIRE_DETAIL_SOCKET_DIRECT_H
#define GPUWIRE_DETAIL_SOCKET_DIRECT_H

/* Where the peer has this offset, and how many bytes from there on. -ENXIO: nowhere. */
GW_FN int gw_stream_find_(struct gw_stream_ *st, uint64_t offset, struct gw_rs_sge *to)
{
    const struct gw_rs_map *m;
    int err = -ENXIO;
    uint32_t i;

    (void)gw_turn_take_(&st->flow.lock, UINT64_MAX); /* held for a moment */
    for (i = 0; i < st->maps && err; i++) {
        m = &st->map[i].theirs;
        if (offset < m->offset || offset - m->offset >= m->at.length) continue;
        to->addr = m->at.addr + (offset - m->offset);
        to->key = m->at.key;
        to->length = (uint32_t)(m->at.length - (offset - m->offset));
        err = 0;
    }
    gw_turn_leave_(&st->flow.lock);
    return err;
}

/* How many bytes can be written there now, in one write? 0: none yet; or an error. */
GW_FN int64_t gw_stream_may_write_(struct gw_stream_out_ *o, uint64_t offset)
{
    struct gw_stream_ *st = o->st;
    int err = gw_stream_open_(o);
    struct gw_rs_sge to;

    if (err) return err;
    if (gw_stream_find_(st, offset, &to)) {
        while (gw_stream_look_(st)) continue; /* what it has announced may have arrived by now */
        err = gw_stream_find_(st, offset, &to);
    }
    return err ? err : (int64_t)gw_smaller_(gw_stream_own_room_(o), to.length);
}

/* Writes n bytes that lie in our buffer; waits for room in the send queue. */
GW_SLOW_FN int gw_stream_write_(struct gw_stream_out_ *o, uint64_t offset, uint32_t n, uint64_t deadline_ns)
{
    struct gw_flow_wait_ w = gw_flow_wait_();
    struct gw_stream_ *st = o->st;
    uint32_t at = (uint32_t)o->wpos & (o->wbuf_size - 1), flags = gw_stream_flags_(o, n);
    struct gw_rs_sge to;
    uint64_t ticket;
    int err = gw_stream_find_(st, offset, &to);

    if (!err && to.length < n) err = -ENXIO; /* the peer has taken it back by now */
    while (!err) {
        err = gw_stream_post_(st, st->tx, gw_put_op(st->wbuf_addr + at, st->lkey, to.addr, to.key, n), flags,
                              &ticket);
        if (!err) gw_stream_posted_(o, n, flags, ticket);
        if (err != -EAGAIN) return err;
        err = gw_flow_pause_(&st->flow, &w, deadline_ns);
    }
    return err;
}

/* ---- what of ours the peer may write to --------------------------------------------------------------- */

/* The entry for [addr, addr + length), or else a free one; -1: there is none. */
GW_FN int gw_stream_own_entry_(const struct gw_stream_ *st, uint64_t addr, uint64_t length)
{
    uint32_t i;

    for (i = 0; i < st->peer_maps; i++)
        if (st->map[i].ours.at.addr == addr && st->map[i].ours.at.length == length) return (int)i;
    return -1;
}

GW_FN int gw_stream_free_entry_(const struct gw_stream_ *st)
{
    uint32_t i;

    for (i = 0; i < st->peer_maps; i++)
        if (!st->map[i].ours.at.length) return (int)i;
    return -1;
}

/* Can entry i be announced now? Its last announcement has been read by our NIC, and the peer has given
 * credit. */
GW_FN int gw_stream_may_announce_(const struct gw_stream_out_ *o, uint32_t i)
{
    struct gw_stream_ *st = o->st;
    int err = gw_stream_open_(o);

    if (err) return err;
    gw_cq_retire_(st->send_cq);
    /* Acquire: the NIC has read before we overwrite. */
    if (gw_ld_acquire_u64_gpu(&st->flow.qp->sq_ok) < st->map[i].ticket) return -EAGAIN;
    return (uint16_t)(gw_ld_relaxed_u32_gpu(&st->credit) - o->seq) ? 0 : -EAGAIN;
}

GW_FN int gw_stream_announce_(struct gw_stream_out_ *o, uint32_t i, const struct gw_rs_map *map)
{
    struct gw_stream_ *st = o->st;
    uint64_t to = st->peer_table.addr + GW_RS_TABLE * sizeof(struct gw_rs_sge) + i * sizeof(*map);
    int err = gw_stream_may_announce_(o, i);

    if (err) return err;
    st->map_own[i] = st->swap ? gw_rs_map_swapped(map) : *map;
    err = gw_stream_post_(st, st->tx,
                          gw_put_imm_op(st->map_own_addr + i * sizeof(*map), st->lkey, to, st->peer_table.key,
                                        sizeof(*map), gw_rs_imm(GW_RS_IOMAP, i)),
                          GW_SIGNALED, &st->map[i].ticket);
    if (err) return err;
    st->last = st->map[i].ticket;
    st->map[i].ours = *map;
    st->seq = ++o->seq;
    return 0;
}

/* As above, but waits. */
GW_SLOW_FN int gw_stream_announce_all_(struct gw_stream_out_ *o, uint32_t i, const struct gw_rs_map *map,
                                       uint64_t deadline_ns)
{
    struct gw_flow_wait_ w = gw_flow_wait_();
    int err, late;

    while ((err = gw_stream_announce_(o, i, map)) == -EAGAIN) {
        if (gw_stream_look_(o->st)) continue;
        late = gw_flow_pause_(&o->st->flow, &w, deadline_ns);
        if (late) return late;
    }
    return err;
}

/* ---- the calls ---------------------------------------------------------------------------------------- */

GW_FN int gw_sock_enter_direct_(struct gw_net *net, int s, int flags, uint64_t *until)
{
    int kind = gw_sock_enter_(net, s, flags, 1, until);

    if (kind < 0) return kind;
    if (kind == GW_SOCK_STREAM_) return 0;
    gw_turn_leave_(&net->sock[s].send_lock);
    return -EOPNOTSUPP;
}

GW_SLOW_FN int gw_sock_announce_(struct gw_net *net, int s, const struct gw_rs_map *map, int unmap,
                                 uint64_t deadline_ns)
{
    int err = gw_sock_enter_direct_(net, s, 0, &deadline_ns), i;
    struct gw_stream_out_ o;
    struct gw_rs_map gone;

    if (err) return err;
    memset(&gone, 0, sizeof(gone));
    gw_stream_out_(&net->stream[s], &net->sock[s], &o);
    i = unmap ? gw_stream_own_entry_(o.st, map->at.addr, map->at.length) : gw_stream_free_entry_(o.st);
    err = i < 0 ? unmap ? -EINVAL : -ENOMEM
                : gw_stream_announce_all_(&o, (uint32_t)i, unmap ? &gone : map, deadline_ns);
    gw_turn_leave_(&net->sock[s].send_lock);
    return err;
}

GW_SLOW_FN int gw_sock_iomap_thread(struct gw_net *net, int s, uint64_t addr, uint32_t rkey, uint64_t n,
                                    uint64_t offset, uint64_t deadline_ns)
{
    struct gw_rs_map map;

    if (!n || n > UINT32_MAX || n - 1 > UINT64_MAX - offset) return -EINVAL;
    map.offset = offset;
    map.at.addr = addr;
    map.at.key = rkey;
    map.at.length = (uint32_t)n;
    return gw_sock_announce_(net, s, &map, 0, deadline_ns);
}

GW_SLOW_FN int gw_sock_iounmap_thread(struct gw_net *net, int s, uint64_t addr, uint64_t n,
                                      uint64_t deadline_ns)
{
    struct gw_rs_map map;

    if (!n || n > UINT32_MAX) return -EINVAL;
    memset(&map, 0, sizeof(map));
    map.at.addr = addr;
    map.at.length = (uint32_t)n;
    return gw_sock_announce_(net, s, &map, 1, deadline_ns);
}

GW_SLOW_DEV int64_t gw_sock_iowrite_g_(enum gw_group g, struct gw_net *net, int s, const void *bytes,
                                       uint64_t n, uint64_t offset, int flags, uint64_t deadline_ns)
{
    uint64_t until = flags & MSG_DONTWAIT ? 0 : deadline_ns, done = 0;
    int64_t may = GW_SOCK_FIRST_(g, gw_sock_enter_direct_(net, s, flags, &until)), err;
    struct gw_stream_out_ o;
    uint64_t at;
    uint32_t part;

    if (may) return may;
    if (gw_group_rank(g) == 0) gw_stream_out_(&net->stream[s], &net->sock[s], &o);
    while (done < n) {
        at = offset + done;
        may = GW_SOCK_FIRST_(g, gw_stream_await_room_(&o, &at, until));
        if (may < 0) break;
        part = gw_smaller_((uint64_t)may, n - done);
        gw_copy_share_away(gw_sock_room_at_(net, s), (const uint8_t *)bytes + done, part, gw_group_rank(g),
                           gw_group_size(g));
        gw_group_sync(g); /* all parts before the post that writes them */
        err = GW_SOCK_FIRST_(g, gw_stream_write_(&o, at, part, until));
        if (err) {
            may = err;
            break;
        }
        done += part;
    }
    if (gw_group_rank(g) == 0) gw_turn_leave_(&net->sock[s].send_lock);
    return done || may > 0 ? (int64_t)done : may;
}

#endif
