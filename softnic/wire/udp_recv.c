/* SPDX-License-Identifier: Apache-2.0 */
#include "softnic/wire/udp_state.h"

#include <errno.h>
#include <linux/in6.h>
#include <netinet/udp.h>
#include <string.h>

#include "src/roce/hdr.h"

/* The first byte of a wrapper is no opcode of a frame. The rest of it: the version of its layout. */
static const uint8_t wrapper_magic[4] = {0xff, 'g', 'w', 1};

/* A wrapper: magic, ECN bits, a zero, source port (big-endian), source GID, destination GID. Then the frame.
 */
enum { WRAP_ECN = 4, WRAP_PORT = 6, WRAP_SRC = 8, WRAP_DST = 24 };

/* ---- wrappers
 * ------------------------------------------------------------------------------------------------------ */

/* A message that passes a frame on to the process that has the slot. */
static void wrap(struct sn_udp *udp, const struct sn_frame *frame, int slot)
{
    int message = sn_udp_out_new(&udp->out, &udp->addr, (uint16_t)(SN_SLOT_PORT + slot));
    uint8_t *w = udp->wrapper[message];

    memset(w, 0, SN_UDP_WRAPPER);
    memcpy(w, wrapper_magic, sizeof(wrapper_magic));
    w[WRAP_ECN] = frame->ecn;
    w[WRAP_PORT] = (uint8_t)(frame->sport >> 8);
    w[WRAP_PORT + 1] = (uint8_t)frame->sport;
    memcpy(w + WRAP_SRC, frame->src_gid, 16);
    memcpy(w + WRAP_DST, udp->addr.gid, 16);
    sn_udp_out_add(&udp->out, message, w, SN_UDP_WRAPPER);
    sn_udp_out_add(&udp->out, message, frame->data, frame->len);
}

static void pass_on(struct sn_udp *udp)
{
    int n = udp->out.messages, done;
    uint64_t lost;
    bool full;

    if (!n) return;
    done = sn_udp_out_send(udp, &lost, &full);
    sn_udp_count(&udp->stats.passed_on, (uint64_t)done - lost);
    sn_udp_count(&udp->stats.pass_failed, (uint64_t)(n - done) + lost);
}

/* Takes the wrapper off. What arrives wrapped is never passed on again, so nothing can go round in circles.
 */
static bool unwrap(const struct sn_udp *udp, struct sn_frame *frame)
{
    const uint8_t *w = frame->data;

    if (frame->len < SN_UDP_WRAPPER + ROCE_MIN_PACKET) return false;
    if (memcmp(w + WRAP_DST, udp->addr.gid, 16) != 0) return false;
    frame->sport = (uint16_t)(w[WRAP_PORT] << 8 | w[WRAP_PORT + 1]);
    memcpy(frame->src_gid, w + WRAP_SRC, 16);
    frame->ecn = w[WRAP_ECN] & 3;
    frame->has_ip_id = false;
    frame->data += SN_UDP_WRAPPER;
    frame->len -= SN_UDP_WRAPPER;
    return true;
}

enum { SHARED_VAIN = 256, SHARED_EVERY = 8 };

/* ---- messages
 * ------------------------------------------------------------------------------------------------------ */

static int receive_messages(struct sn_udp *udp, int fd)
{
    struct sn_udp_in *in = &udp->in;

    for (int tries = 0; tries < 2; tries++) {
        for (int i = 0; i < SN_UDP_MESSAGES; i++) {
            in->msg[i].msg_hdr.msg_namelen = sizeof(in->name[i]);
            in->msg[i].msg_hdr.msg_controllen = sizeof(in->control[i]);
        }
        int n = recvmmsg(fd, in->msg, SN_UDP_MESSAGES, MSG_DONTWAIT, NULL);

        if (n >= 0) return n;
        if (errno == EAGAIN || errno == EWOULDBLOCK) return 0;
        sn_udp_drain_errors(udp, fd); /* an error reported about a frame sent earlier */
    }
    return 0;
}

/*
 * Is it to be asked this time? Where all peers are at this address nothing ever comes to port 4791, and
 * asking is a system call: after many in vain only every eighth time. Who waits for the sockets is told of
 * both.
 */
static bool ask_shared(struct sn_udp *udp)
{
    if (udp->slot.shared_fd < 0) return false;
    return udp->shared_vain < SHARED_VAIN || ++udp->shared_turn % SHARED_EVERY == 0;
}

/* Fills `in` from the socket whose turn it is, or from the other; taking turns, neither can starve the other.
 */
static void refill(struct sn_udp *udp)
{
    int fds[2] = {udp->slot.fd, udp->slot.shared_fd}, sockets = ask_shared(udp) ? 2 : 1;

    udp->in.next = udp->in.messages = 0;
    udp->in.offset = 0;
    udp->shared_first = sockets == 2 && !udp->shared_first;
    for (int i = 0; i < sockets && !udp->in.messages; i++) {
        bool shared = i ^ udp->shared_first;

        udp->in.fd = fds[shared];
        udp->in.messages = receive_messages(udp, udp->in.fd);
        if (shared)
            udp->shared_vain = udp->in.messages ? 0 : udp->shared_vain + (udp->shared_vain < SHARED_VAIN);
    }
    udp->in.full = udp->in.messages == SN_UDP_MESSAGES;
}

/* What the kernel tells about a message: congestion marks (IPv4: a byte, IPv6: an int) and the length of its
 * frames, 0 if it is one. */
static void read_control(struct msghdr *msg, uint8_t *ecn, uint32_t *segment)
{
    int value;

    *ecn = 0;
    *segment = 0;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
        if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_TOS) {
            *ecn = *CMSG_DATA(c) & 3;
            continue;
        }
        if (c->cmsg_len < CMSG_LEN(sizeof(value))) continue;
        memcpy(&value, CMSG_DATA(c), sizeof(value));
        if (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_TCLASS) *ecn = value & 3;
        if (c->cmsg_level == IPPROTO_UDP && c->cmsg_type == UDP_GRO && value > 0) *segment = (uint32_t)value;
    }
}

/* The next frame of the messages received. False when there is none. *good: it may be one. */
static bool next_frame(struct sn_udp *udp, struct sn_frame *frame, bool *good)
{
    struct sn_udp_in *in = &udp->in;

    if (in->next == in->messages) return false;
    struct msghdr *msg = &in->msg[in->next].msg_hdr;
    uint32_t left = in->msg[in->next].msg_len - in->offset, segment;

    memset(frame, 0, sizeof(*frame));
    memcpy(frame->dst_gid, udp->addr.gid, 16);
    read_control(msg, &frame->ecn, &segment);
    frame->data = in->data[in->next] + in->offset;
    frame->len = segment && segment < left ? segment : left;
    *good = frame->len >= ROCE_MIN_PACKET && frame->len <= SN_UDP_FRAME + SN_UDP_WRAPPER &&
            !(msg->msg_flags & MSG_TRUNC) &&
            sn_addr_from_sock(&in->name[in->next], frame->src_gid, &frame->sport);
    in->offset += frame->len;
    if (frame->len == left) {
        in->next++;
        in->offset = 0;
    }
    return true;
}

/* ---- frames
 * -------------------------------------------------------------------------------------------------------- */

static bool is_ours(const struct sn_udp *udp, const struct sn_frame *frame)
{
    int slot = sn_udp_slot_of(frame->data, frame->len);

    return slot < 0 || slot == (int)udp->slot.slot;
}

/* A frame that came to the slot's port: from a process at this address, wrapped or not. Its ICRC was computed
 * with IPv4 ID 0, whatever the kernel put there. */
static bool take_direct(struct sn_udp *udp, struct sn_frame *frame)
{
    if (memcmp(frame->src_gid, udp->addr.gid, 16) != 0 || !sn_is_slot_port(frame->sport)) return false;
    frame->has_ip_id = true;
    if (memcmp(frame->data, wrapper_magic, sizeof(wrapper_magic)) == 0) {
        if (!unwrap(udp, frame)) return false;
        sn_udp_count(&udp->stats.rx_unwrapped, 1);
    }
    return is_ours(udp, frame);
}

bool sn_udp_holds_frames(const struct sn_udp *udp)
{
    return udp->in.next != udp->in.messages;
}

int sn_udp_recv(struct sn_udp *udp, struct sn_frame *rx, int max, bool *more)
{
    int n = 0;
    bool good;

    if (!sn_udp_holds_frames(udp)) refill(udp);
    udp->out.messages = udp->out.iovs = 0;
    for (int looked = 0; looked < SN_UDP_BATCH && n < max && next_frame(udp, &rx[n], &good); looked++) {
        struct sn_frame *frame = &rx[n];
        bool shared = udp->in.fd == udp->slot.shared_fd;

        if (good && shared && !is_ours(udp, frame)) {
            wrap(udp, frame, sn_udp_slot_of(frame->data, frame->len));
        } else if (good && (shared || take_direct(udp, frame))) {
            sn_udp_count(&udp->stats.rx_frames, 1);
            sn_udp_count(&udp->stats.rx_bytes, frame->len);
            n++;
        } else {
            sn_udp_count(&udp->stats.rx_dropped, 1);
        }
    }
    pass_on(udp);
    /* A batch that was not full emptied its socket. What is in the other, or comes now, wakes who waits for
     * it. */
    *more = sn_udp_holds_frames(udp) || udp->in.full;
    return n;
}
