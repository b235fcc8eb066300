/* SPDX-License-Identifier: Apache-2.0 */
/*
 * channel.h: how channels work. Included by channel.h; names that end in _ are private.
 *
 * Counts of messages go round at 2^30: immediates hold that many bits, besides two for what the write is.
 * For each side, messages that are under way, or in slots that were not given back, are at most `window`.
 *
 * The receive queue holds slots + GW_CHANNEL_SPARE_ entries and is refilled whenever completions are taken.
 * Besides messages only these take an entry: a finish, once; and empty credits. At most two of those are ever
 * unseen, because each tells of half a window or more of messages that we have sent since the one before.
 */
#include <gpuwire/channel.h> /* which includes this file where it belongs */

#ifndef GPUWIRE_DETAIL_SOCKET_CHANNEL_H
#define GPUWIRE_DETAIL_SOCKET_CHANNEL_H

enum { GW_CHANNEL_MESSAGE_ = 0, GW_CHANNEL_CREDIT_ = 1, GW_CHANNEL_FINISH_ = 2 };
enum { GW_CHANNEL_SPARE_ = 4 };
#define GW_CHANNEL_COUNT_ 0x3fffffffu

GW_FN uint32_t gw_channel_imm_(uint32_t kind, uint32_t taken)
{
    return kind << 30 | (taken & GW_CHANNEL_COUNT_);
}

/* ---- what arrives ------------------------------------------------------------------------------------- */

/* Understands one write. 0, or -EPROTO. */
GW_FN int gw_channel_understand_(struct gw_channel *ch, uint32_t imm, uint32_t bytes)
{
    uint32_t kind = imm >> 30, given = (imm - ch->credited) & GW_CHANNEL_COUNT_;
    /* Acquire: as the slots' next use. The sender counts before it posts, and the peer answers afterwards. */
    uint32_t open = gw_ld_acquire_u32_gpu(&ch->sent) - ch->credited;

    /* A side that has finished goes on receiving, and sends credits for it. */
    if (kind > GW_CHANNEL_FINISH_ || (ch->finished && kind != GW_CHANNEL_CREDIT_)) return -EPROTO;
    if (bytes != (kind == GW_CHANNEL_MESSAGE_ ? ch->bytes : 0)) return -EPROTO;
    /* Credits that two threads of the peer tell may overtake each other: an older one says nothing new. */
    if (given <= GW_CHANNEL_COUNT_ / 2) {
        if (given > open) return -EPROTO;
        gw_st_release_u32_gpu(&ch->credited, ch->credited + given);
    }
    if (kind == GW_CHANNEL_MESSAGE_) {
        if (ch->arrived - gw_ld_relaxed_u32_gpu(&ch->taken) >= ch->slots) return -EPROTO;
        gw_st_release_u32_gpu(&ch->arrived, ch->arrived + 1); /* release: the message is there */
    } else if (kind == GW_CHANNEL_FINISH_) {
        gw_st_release_u32_gpu(&ch->finished, 1); /* release: after the last message has been counted */
    }
    return 0;
}

/* Takes what has arrived. 0: there is nothing more. */
GW_SLOW_FN int gw_channel_look_(struct gw_channel *ch)
{
    struct gw_flow_msg_ msg[GW_FLOW_TAKE_];
    struct gw_flow_seen_ seen;
    uint32_t n, i;
    int failed = 0, err = 0;

    gw_flow_at_(&ch->flow, &seen);
    if (!gw_flow_there_(&seen)) return 0;
    if (!gw_turn_try_(&ch->flow.lock)) {
        gw_pause(64); /* another thread is at it, and may wait for this very core */
        return 1;
    }
    n = gw_flow_take_(&ch->flow, &seen, &ch->flow.unposted, msg, &failed);
    gw_flow_repost_(&ch->flow); /* at once: before the peer can be told of any room */
    for (i = 0; i < n && !err; i++) err = gw_channel_understand_(ch, msg[i].imm, msg[i].bytes);
    if (err || failed) gw_flow_fail_(&ch->flow, err ? err : failed);
    gw_turn_leave_(&ch->flow.lock);
    return n != 0 || failed;
}

/* ---- credits ------------------------------------------------------------------------------------------ */

/* Notes that the peer is being told of `taken`. Never goes back: the sender and the receiver both tell. */
GW_FN void gw_channel_granted_(struct gw_channel *ch, uint32_t taken)
{
    uint32_t granted = gw_ld_relaxed_u32_gpu(&ch->granted), seen;

    while ((int32_t)(taken - granted) > 0) {
        seen = gw_cas_relaxed_u32_gpu(&ch->granted, granted, taken);
        if (seen == granted) break;
        granted = seen;
    }
}

GW_FN int gw_channel_post_(struct gw_channel *ch, uint32_t kind, uint32_t slot)
{
    /* Acquire: our reads of the messages that we say we have taken come before the peer overwrites them. */
    uint32_t taken = gw_ld_acquire_u32_gpu(&ch->taken), message = kind == GW_CHANNEL_MESSAGE_;
    uint64_t from = ch->send_addr + (uint64_t)(slot & (ch->slots - 1)) * ch->stride;
    uint64_t to = ch->peer_addr + (uint64_t)(slot & (ch->peer_slots - 1)) * ch->stride;
    int err = gw_flow_post_(&ch->flow,
                            gw_put_imm_op(message ? from : 0, message ? ch->lkey : 0, to, ch->peer_rkey,
                                          message ? ch->bytes : 0, gw_channel_imm_(kind, taken)),
                            0, NULL);

    if (!err) gw_channel_granted_(ch, taken);
    return err;
}

/* Tells the peer of slots that it may use again, once they are half of what it may have under way. */
GW_FN void gw_channel_tell_(struct gw_channel *ch)
{
    uint32_t ungranted = gw_ld_relaxed_u32_gpu(&ch->taken) - gw_ld_relaxed_u32_gpu(&ch->granted);

    if (ungranted >= (ch->window + 1) / 2 && ungranted <= ch->slots)
        (void)gw_channel_post_(ch, GW_CHANNEL_CREDIT_, 0);
}

/* ---- sending: the group's first thread ---------------------------------------------------------------- */

GW_FN int gw_channel_open_(const struct gw_channel *ch)
{
    if (ch->size != sizeof(*ch) || ch->version != GW_CHANNEL_VERSION) return -EINVAL;
    return gw_ld_acquire_u32(&ch->connected) ? 0 : -ENOTCONN; /* acquire: what the host wrote of the peer */
}

/* May this side send now? 1, 0 (not yet), or an error. */
GW_FN int gw_channel_may_send_(struct gw_channel *ch, uint32_t more)
{
    int err = gw_flow_error_(&ch->flow);

    if (err) return err;
    if (ch->ended) return -EPIPE;
    /* Acquire: the peer has received what lay in the slot before it is filled again. (A NIC that repeats such
     * a write because the acknowledgement was lost repeats what the peer's NIC no longer takes.) */
    return ch->sent - gw_ld_acquire_u32_gpu(&ch->credited) + more <= ch->window;
}

/* Takes the turn and waits for `more` free slots. */
GW_SLOW_FN int gw_channel_begin_send_(struct gw_channel *ch, uint32_t more, uint64_t deadline_ns)
{
    struct gw_flow_wait_ w;
    int err = gw_channel_open_(ch), may = 0;

    if (!err) err = gw_turn_take_(&ch->send_lock, deadline_ns);
    if (err) return err;
    w = gw_flow_wait_();
    for (;;) {
        may = gw_channel_may_send_(ch, more);
        if (may) break;
        if (gw_channel_look_(ch)) continue;
        may = gw_flow_pause_(&ch->flow, &w, deadline_ns);
        if (may) break;
    }
    if (may > 0) return 0;
    gw_turn_leave_(&ch->send_lock);
    return may;
}

/* Posts a message or a finish, when there is room in the send queue, and leaves the turn. */
GW_SLOW_FN int gw_channel_end_send_(struct gw_channel *ch, uint32_t kind, uint64_t deadline_ns)
{
    struct gw_flow_wait_ w = gw_flow_wait_();
    uint32_t slot = ch->sent;
    int err, late;

    /* Before it is posted: the peer's credit for it may be understood before this thread goes on. */
    if (kind == GW_CHANNEL_MESSAGE_) gw_st_release_u32_gpu(&ch->sent, slot + 1);
    while ((err = gw_channel_post_(ch, kind, slot)) == -EAGAIN) {
        late = gw_flow_pause_(&ch->flow, &w, deadline_ns);
        if (!late) continue;
        err = late;
        break;
    }
    if (err && kind == GW_CHANNEL_MESSAGE_) gw_st_release_u32_gpu(&ch->sent, slot);
    if (!err && kind == GW_CHANNEL_FINISH_) ch->ended = 1;
    gw_turn_leave_(&ch->send_lock);
    return err;
}

GW_FN void *gw_channel_send_slot_(const struct gw_channel *ch)
{
    return ch->send + (uint64_t)(ch->sent & (ch->slots - 1)) * ch->stride;
}

/* ---- receiving: the group's first thread -------------------------------------------------------------- */

/* Is there a message? 1, 0 (not yet), or an error. */
GW_FN int gw_channel_may_recv_(const struct gw_channel *ch)
{
    /* Errors are read first and told last: messages that came before them are received. */
    int err = gw_flow_error_(&ch->flow);

    /* Acquire, each: the finish before the count of messages, the count before the message. */
    if (!err && gw_ld_acquire_u32_gpu(&ch->finished)) err = -ESHUTDOWN;
    return gw_ld_acquire_u32_gpu(&ch->arrived) != ch->taken ? 1 : err;
}

/* Takes the turn and waits for a message. */
GW_SLOW_FN int gw_channel_begin_recv_(struct gw_channel *ch, uint64_t deadline_ns)
{
    struct gw_flow_wait_ w;
    int err = gw_channel_open_(ch), may = 0;

    if (!err) err = gw_turn_take_(&ch->recv_lock, deadline_ns);
    if (err) return err;
    w = gw_flow_wait_();
    for (;;) {
        may = gw_channel_may_recv_(ch);
        if (may > 0) break;
        if (gw_channel_look_(ch)) continue; /* also after an error: the last messages may be there */
        if (may) break;
        gw_channel_tell_(ch); /* what could not be told before, for want of room in the send queue */
        may = gw_flow_pause_(&ch->flow, &w, deadline_ns);
        if (may) break;
    }
    if (may > 0) return 0;
    gw_turn_leave_(&ch->recv_lock);
    return may;
}

GW_FN const void *gw_channel_recv_slot_(const struct gw_channel *ch)
{
    return ch->recv + (uint64_t)(ch->taken & (ch->slots - 1)) * ch->stride;
}

GW_SLOW_FN void gw_channel_end_recv_(struct gw_channel *ch)
{
    /* Release: the group's reads of the slot come before the peer is told (gw_channel_post_). */
    gw_st_release_u32_gpu(&ch->taken, ch->taken + 1);
    gw_channel_tell_(ch);
    gw_turn_leave_(&ch->recv_lock);
}

/* ---- the forms ---------------------------------------------------------------------------------------- */

/* Gives the result of the group's first thread to all. */
#define GW_CHANNEL_FIRST_(g, call)                                                                           \
    ((int)(uint32_t)gw_group_first(g, gw_group_rank(g) == 0 ? (uint32_t)(call) : 0))

GW_SLOW_DEV int gw_channel_send_g_(enum gw_group g, struct gw_channel *ch, const void *msg,
                                   uint64_t deadline_ns)
{
    int err = GW_CHANNEL_FIRST_(g, gw_channel_begin_send_(ch, 1, deadline_ns));

    if (err) return err;
    gw_copy_share_away(gw_channel_send_slot_(ch), msg, ch->bytes, gw_group_rank(g), gw_group_size(g));
    gw_group_sync(g); /* all parts of the message before the post that sends it */
    return GW_CHANNEL_FIRST_(g, gw_channel_end_send_(ch, GW_CHANNEL_MESSAGE_, deadline_ns));
}

GW_SLOW_DEV int gw_channel_recv_g_(enum gw_group g, struct gw_channel *ch, void *msg, uint64_t deadline_ns)
{
    int err = GW_CHANNEL_FIRST_(g, gw_channel_begin_recv_(ch, deadline_ns));

    if (err) return err;
    gw_copy_share(msg, gw_channel_recv_slot_(ch), ch->bytes, gw_group_rank(g), gw_group_size(g));
    gw_group_sync(g); /* everybody has copied before the slot is given back */
    if (gw_group_rank(g) == 0) gw_channel_end_recv_(ch);
    return 0;
}

GW_SLOW_DEV int gw_channel_reserve_g_(enum gw_group g, struct gw_channel *ch, void **slot,
                                      uint64_t deadline_ns)
{
    int err = GW_CHANNEL_FIRST_(g, gw_channel_begin_send_(ch, 1, deadline_ns));

    *slot = err ? NULL : gw_channel_send_slot_(ch);
    return err;
}

GW_SLOW_DEV int gw_channel_commit_g_(enum gw_group g, struct gw_channel *ch, uint64_t deadline_ns)
{
    gw_group_sync(g); /* all parts of the message before the post that sends it */
    return GW_CHANNEL_FIRST_(g, gw_channel_end_send_(ch, GW_CHANNEL_MESSAGE_, deadline_ns));
}

GW_SLOW_DEV int gw_channel_borrow_g_(enum gw_group g, struct gw_channel *ch, const void **msg,
                                     uint64_t deadline_ns)
{
    int err = GW_CHANNEL_FIRST_(g, gw_channel_begin_recv_(ch, deadline_ns));

    *msg = err ? NULL : gw_channel_recv_slot_(ch);
    return err;
}

GW_SLOW_DEV void gw_channel_give_back_g_(enum gw_group g, struct gw_channel *ch)
{
    gw_group_sync(g); /* everybody has read before the slot is given back */
    if (gw_group_rank(g) == 0) gw_channel_end_recv_(ch);
}

GW_DEV int gw_channel_finish_thread(struct gw_channel *ch, uint64_t deadline_ns)
{
    int err = gw_channel_begin_send_(ch, 0, deadline_ns);

    if (err == -EPIPE) return 0;
    return err ? err : gw_channel_end_send_(ch, GW_CHANNEL_FINISH_, deadline_ns);
}

GW_DEV int gw_channel_finish(struct gw_channel *ch, uint64_t deadline_ns)
{
    gw_group_sync(GW_BLOCK); /* what others of the block have sent one by one comes before */
    return GW_CHANNEL_FIRST_(GW_BLOCK, gw_channel_finish_thread(ch, deadline_ns));
}

GW_DEV int gw_channel_finish_warp(struct gw_channel *ch, uint64_t deadline_ns)
{
    gw_group_sync(GW_WARP); /* as above */
    return GW_CHANNEL_FIRST_(GW_WARP, gw_channel_finish_thread(ch, deadline_ns));
}

/* The three forms of a call. */
#define GW_CHANNEL_FORMS_(name, params, ...)                                                                 \
    GW_DEV int gw_channel_##name params                                                                      \
    {                                                                                                        \
        return gw_channel_##name##_g_(GW_BLOCK, __VA_ARGS__);                                                \
    }                                                                                                        \
    GW_DEV int gw_channel_##name##_warp params                                                               \
    {                                                                                                        \
        return gw_channel_##name##_g_(GW_WARP, __VA_ARGS__);                                                 \
    }                                                                                                        \
    GW_DEV int gw_channel_##name##_thread params                                                             \
    {                                                                                                        \
        return gw_channel_##name##_g_(GW_THREAD, __VA_ARGS__);                                               \
    }

GW_CHANNEL_FORMS_(send, (struct gw_channel * ch, const void *msg, uint64_t deadline_ns), ch, msg, deadline_ns)
GW_CHANNEL_FORMS_(recv, (struct gw_channel * ch, void *msg, uint64_t deadline_ns), ch, msg, deadline_ns)
GW_CHANNEL_FORMS_(reserve, (struct gw_channel * ch, void **slot, uint64_t deadline_ns), ch, slot, deadline_ns)
GW_CHANNEL_FORMS_(commit, (struct gw_channel * ch, uint64_t deadline_ns), ch, deadline_ns)
GW_CHANNEL_FORMS_(borrow, (struct gw_channel * ch, const void **msg, uint64_t deadline_ns), ch, msg,
                  deadline_ns)
#undef GW_CHANNEL_FORMS_

GW_DEV void gw_channel_give_back(struct gw_channel *ch)
{
    gw_channel_give_back_g_(GW_BLOCK, ch);
}

GW_DEV void gw_channel_give_back_warp(struct gw_channel *ch)
{
    gw_channel_give_back_g_(GW_WARP, ch);
}

GW_DEV void gw_channel_give_back_thread(struct gw_channel *ch)
{
    gw_channel_give_back_g_(GW_THREAD, ch);
}

#endif
