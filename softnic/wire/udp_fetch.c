/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From the sockets into batches, by whichever thread comes. Threads take turns in the system call, so batches
 * keep the order in which frames came. They check the ICRCs, which is most of the work, side by side.
 */
#include "softnic/wire/udp_state.h"

#include <errno.h>
#include <linux/in6.h>
#include <netinet/udp.h>
#include <string.h>

#include <gpuwire/detail/held.h>

#include "softnic/nic/frame.h"
#include "src/roce/hdr.h"

enum { SHARED_VAIN = 256, SHARED_EVERY = 8 };

/* ---- messages ------------------------------------------------------------------------------------------ */

/* Long ones fill the caches of the receiving thread: where others can take the next they are few. */
static unsigned batch_size(const struct sn_udp *udp)
{
    return udp->batches > 1 && udp->long_messages ? SN_UDP_LONG_MESSAGES : SN_UDP_MESSAGES;
}

static int receive_messages(struct sn_udp *udp, struct sn_udp_in *in, int fd, bool in_engine)
{
    for (int tries = 0; tries < 2; tries++) {
        for (int i = 0; i < SN_UDP_MESSAGES; i++) {
            in->msg[i].msg_hdr.msg_namelen = sizeof(in->name[i]);
            in->msg[i].msg_hdr.msg_controllen = sizeof(in->control[i]);
        }
        int n = recvmmsg(fd, in->msg, batch_size(udp), MSG_DONTWAIT, NULL);

        if (n >= 0) return n;
        if (errno == EAGAIN || errno == EWOULDBLOCK) return 0;
        /* An error reported about a frame sent earlier. */
        if (in_engine)
            sn_udp_drain_errors(udp, fd);
        else
            __atomic_store_n(&udp->errors, 1, __ATOMIC_RELAXED);
    }
    return 0;
}

/*
 * Is it to be asked this time? Where all peers are at this address nothing ever comes to port 4791, and
 * asking is a system call: after many without result only every eighth time. A thread that waits for the
 * sockets waits for both.
 */
static bool ask_shared(struct sn_udp *udp)
{
    if (udp->slot.shared_fd < 0) return false;
    return udp->shared_vain < SHARED_VAIN || ++udp->shared_turn % SHARED_EVERY == 0;
}

/* From the socket whose turn it is, or from the other; taking turns, neither can starve the other. */
bool sn_udp_fill(struct sn_udp *udp, struct sn_udp_in *in, bool in_engine)
{
    int fds[2] = {udp->slot.fd, udp->slot.shared_fd}, sockets = ask_shared(udp) ? 2 : 1;
    unsigned size = batch_size(udp);

    GW_ASSERT_HELD(&udp->fetch_lock);
    in->next = in->messages = 0;
    in->offset = in->frame = 0;
    memset(in->checked, 0, sizeof(in->checked));
    udp->shared_first = sockets == 2 && !udp->shared_first;
    for (int i = 0; i < sockets && !in->messages; i++) {
        in->shared = i ^ udp->shared_first;
        in->messages = receive_messages(udp, in, fds[in->shared], in_engine);
        if (in->shared)
            udp->shared_vain = in->messages ? 0 : udp->shared_vain + (udp->shared_vain < SHARED_VAIN);
    }
    in->full = in->messages == (int)size;
    if (in->messages) udp->long_messages = in->msg[0].msg_len >= SN_UDP_LONG;
    return !in->messages && (sockets == 2 || udp->slot.shared_fd < 0);
}

/* The kernel's facts about a message: congestion marks (IPv4: a byte, IPv6: an int) and the length of its
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

void sn_udp_cut_message(const struct sn_udp *udp, struct sn_udp_in *in, int message, struct sn_udp_cut *cut)
{
    struct msghdr *msg = &in->msg[message].msg_hdr;
    struct sn_frame *frame = &cut->frame;

    memset(frame, 0, sizeof(*frame));
    memcpy(frame->dst_gid, udp->addr.gid, 16);
    read_control(msg, &frame->ecn, &cut->segment);
    cut->good =
        !(msg->msg_flags & MSG_TRUNC) && sn_addr_from_sock(&in->name[message], frame->src_gid, &frame->sport);
}

bool sn_udp_cut_frame(const struct sn_udp_cut *cut, struct sn_udp_in *in, int message, uint32_t offset,
                      struct sn_frame *frame)
{
    uint32_t left = in->msg[message].msg_len - offset;

    *frame = cut->frame;
    frame->data = in->data[message] + offset;
    frame->len = cut->segment && cut->segment < left ? cut->segment : left;
    return cut->good && frame->len >= ROCE_MIN_PACKET && frame->len <= SN_UDP_FRAME + SN_UDP_WRAPPER;
}

/* ---- checking ------------------------------------------------------------------------------------------ */

/* Wrappers, and what is wrong, are left to the engine: it takes the former off, and counts the latter. */
static void check_message(const struct sn_udp *udp, struct sn_udp_in *in, int message)
{
    struct sn_udp_cut cut;
    struct sn_frame frame;
    uint32_t offset = 0;

    sn_udp_cut_message(udp, in, message, &cut);
    for (int i = 0; i < SN_UDP_SEGMENTS && offset < in->msg[message].msg_len; i++) {
        bool good = sn_udp_cut_frame(&cut, in, message, offset, &frame);

        /* As take_direct in udp_recv.c has it. */
        frame.has_ip_id = !in->shared;
        if (good && frame.data[0] != SN_UDP_WRAPPED && sn_frame_icrc_ok(&frame))
            in->checked[message] |= UINT64_C(1) << i;
        offset += frame.len;
    }
}

int sn_udp_fetch(struct sn_udp *udp)
{
    struct sn_udp_in *in;
    int messages;

    pthread_mutex_lock(&udp->fetch_lock);
    /* Acquire: the engine has read all that it wanted of the batches before head. */
    if (udp->tail - __atomic_load_n(&udp->head, __ATOMIC_ACQUIRE) == udp->batches) {
        pthread_mutex_unlock(&udp->fetch_lock);
        return -EAGAIN;
    }
    in = udp->in[udp->tail % udp->batches];
    sn_udp_fill(udp, in, false);
    messages = in->messages; /* if there are none the batch is anybody's again */
    if (messages) {
        __atomic_store_n(&in->ready, 0, __ATOMIC_RELAXED); /* seen with tail */
        __atomic_store_n(&udp->tail, udp->tail + 1, __ATOMIC_RELEASE);
        GW_ASSERT(udp->tail - __atomic_load_n(&udp->head, __ATOMIC_RELAXED) <= udp->batches);
    }
    pthread_mutex_unlock(&udp->fetch_lock);
    if (!messages) return __atomic_load_n(&udp->errors, __ATOMIC_RELAXED);
    for (int i = 0; i < messages; i++) check_message(udp, in, i);
    __atomic_store_n(&in->ready, 1, __ATOMIC_RELEASE); /* with the acquire in udp_recv.c */
    return 1;
}
