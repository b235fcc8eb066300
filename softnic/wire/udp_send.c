/* SPDX-License-Identifier: Apache-2.0 */
/* Sends UDP datagrams, many by one system call. */
#include "softnic/wire/udp_state.h"

#include <errno.h>
#include <netinet/udp.h>
#include <string.h>

#include "src/roce/hdr.h"

int sn_udp_out_new(struct sn_udp_out *out, const struct sn_addr *to, uint16_t port)
{
    int i = out->messages++;
    struct msghdr *msg = &out->msg[i].msg_hdr;

    msg->msg_namelen = sn_addr_to_sock(to, port, &out->name[i]);
    msg->msg_iov = &out->iov[out->iovs];
    msg->msg_iovlen = 0;
    msg->msg_control = NULL;
    msg->msg_controllen = 0;
    out->frames[i] = 1;
    return i;
}

void sn_udp_out_add(struct sn_udp_out *out, int message, const void *data, size_t len)
{
    out->iov[out->iovs++] = (struct iovec){(void *)data, len};
    out->msg[message].msg_hdr.msg_iovlen++;
}

/* The message holds `count` frames of `len` bytes (the last may be shorter), which the kernel is to cut apart
 * again. */
static void set_segments(struct sn_udp_out *out, int message, int count, uint32_t len)
{
    struct msghdr *msg = &out->msg[message].msg_hdr;
    uint16_t size = (uint16_t)len;
    struct cmsghdr *c;

    msg->msg_control = out->control[message];
    msg->msg_controllen = sizeof(out->control[message]);
    c = CMSG_FIRSTHDR(msg);
    c->cmsg_level = IPPROTO_UDP;
    c->cmsg_type = UDP_SEGMENT;
    c->cmsg_len = CMSG_LEN(sizeof(size));
    memcpy(CMSG_DATA(c), &size, sizeof(size));
    out->frames[message] = (uint16_t)count;
}

/* Errors that may have been reported about an earlier frame. */
static bool pending_error(int err)
{
    return err == ECONNREFUSED || err == EHOSTUNREACH || err == ENETUNREACH || err == EMSGSIZE ||
           err == EPROTO || err == ENOPROTOOPT || err == EHOSTDOWN || err == EOPNOTSUPP;
}

/* An error of sendmmsg is either the first message's or an earlier frame's; offered again, the latter is
 * gone. */
int sn_udp_out_send(struct sn_udp *udp, uint64_t *lost, bool *full)
{
    struct sn_udp_out *out = &udp->out;
    int done = 0;
    bool again = false;

    *lost = 0;
    *full = false;
    while (done < out->messages) {
        int sent = sendmmsg(udp->slot.fd, out->msg + done, (unsigned)(out->messages - done), MSG_DONTWAIT);

        if (sent > 0) {
            done += sent;
            again = false;
        } else if (errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS) {
            *full = true;
            break;
        } else if (errno == EINTR) {
            continue;
        } else if (pending_error(errno) && !again) {
            sn_udp_drain_errors(udp, udp->slot.fd);
            again = true;
        } else if (out->frames[done] > 1) {
            udp->segment = false; /* the way to the peer does not do it: from now on frame by frame */
            break;
        } else {
            again = false;
            *lost += out->frames[done++];
        }
    }
    return done;
}

/* The slot of this host whose port the frame goes to; -1: it goes to port 4791. */
static int same_host_slot(struct sn_udp *udp, const struct sn_frame *frame)
{
    bool own = memcmp(frame->dst_gid, udp->addr.gid, 16) == 0;
    int slot;

    if (frame->len < ROCE_MIN_PACKET) return -1;
    slot = sn_udp_slot_of(frame->data, frame->len);
    /* Any process at the address will do: at the own one the nearest is this. */
    if (own) return slot < 0 ? (int)udp->slot.slot : slot;
    return slot >= 0 && sn_udp_is_here(udp, frame->dst_gid) ? slot : -1;
}

static bool goes_to(const struct sn_frame *f, const uint8_t gid[16], int slot)
{
    return f->len >= ROCE_MIN_PACKET && memcmp(f->dst_gid, gid, 16) == 0 &&
           sn_udp_slot_of(f->data, f->len) == slot;
}

/*
 * How many frames can go as one message: all for the same slot of this host, all of one length but for the
 * last. Only on this host: cutting up, the kernel numbers the packets' IPv4 IDs, which the ICRC covers; a
 * receiver here knows what the sender counted with.
 */
static int run_length(const struct sn_udp *udp, const struct sn_frame *frames, int n)
{
    uint32_t len = frames[0].len, total = len;
    int count = 1, slot = sn_udp_slot_of(frames[0].data, len);

    if (!udp->segment) return 1;
    while (count < n && count < SN_UDP_SEGMENTS && frames[count].len <= len &&
           total + frames[count].len <= SN_UDP_DATAGRAM && goes_to(&frames[count], frames[0].dst_gid, slot)) {
        total += frames[count].len;
        if (frames[count++].len < len) break;
    }
    return count;
}

/* Adds a message of as many of them as one can hold. Returns how many. */
static int add_frames(struct sn_udp *udp, const struct sn_frame *frames, int n)
{
    struct sn_addr to = {.scope = udp->addr.scope};
    int slot = same_host_slot(udp, &frames[0]), count = slot < 0 ? 1 : run_length(udp, frames, n), message;

    memcpy(to.gid, frames[0].dst_gid, 16);
    message = sn_udp_out_new(&udp->out, &to, slot < 0 ? ROCE_UDP_PORT : (uint16_t)(SN_SLOT_PORT + slot));
    for (int i = 0; i < count; i++) sn_udp_out_add(&udp->out, message, frames[i].data, frames[i].len);
    if (count > 1) set_segments(&udp->out, message, count, frames[0].len);
    return count;
}

int sn_udp_send(struct sn_udp *udp, const struct sn_frame *tx, int n)
{
    int taken = 0;
    bool full = false;

    while (taken < n && !full) {
        int batch = n - taken < SN_UDP_BATCH ? n - taken : SN_UDP_BATCH, frames = 0, done;
        uint64_t lost, bytes = 0;

        udp->out.messages = udp->out.iovs = 0;
        for (int i = 0; i < batch;) i += add_frames(udp, &tx[taken + i], batch - i);
        done = sn_udp_out_send(udp, &lost, &full);
        for (int i = 0; i < done; i++) frames += udp->out.frames[i];
        for (int i = 0; i < frames; i++) bytes += tx[taken + i].len;
        taken += frames;
        sn_udp_count(&udp->stats.tx_frames, (uint64_t)frames - lost);
        sn_udp_count(&udp->stats.tx_bytes, bytes);
        sn_udp_count(&udp->stats.tx_errors, lost);
        sn_udp_count(&udp->stats.tx_waits, full);
    }
    return taken;
}
