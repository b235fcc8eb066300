/* SPDX-License-Identifier: Apache-2.0 */
#include "softnic/wire/udp.h"

#include <errno.h>
#include <linux/errqueue.h>
#include <linux/in6.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "src/roce/hdr.h"

/* The first byte of a wrapper is no opcode of a frame. The rest of it: the version of its layout. */
static const uint8_t wrapper_magic[4] = {0xff, 'g', 'w', 1};

/* A wrapper: magic, ECN bits, a zero, source port (big-endian), source GID, destination GID. Then the frame.
 */
enum { WRAP_ECN = 4, WRAP_PORT = 6, WRAP_SRC = 8, WRAP_DST = 24 };

enum { ROOM = SN_UDP_FRAME + SN_UDP_WRAPPER };

struct sn_udp {
    struct sn_addr addr;
    struct sn_slot slot;
    char note[256];
    bool shared_first; /* which socket's turn it is */
    struct sn_udp_stats stats;

    struct mmsghdr tx_msg[SN_UDP_BATCH];
    struct iovec tx_iov[SN_UDP_BATCH][2];
    struct sockaddr_in6 tx_name[SN_UDP_BATCH];
    uint8_t tx_wrapper[SN_UDP_BATCH][SN_UDP_WRAPPER];

    struct mmsghdr rx_msg[SN_UDP_BATCH];
    struct iovec rx_iov[SN_UDP_BATCH];
    struct sockaddr_in6 rx_name[SN_UDP_BATCH];
    _Alignas(struct cmsghdr) uint8_t rx_control[SN_UDP_BATCH][CMSG_SPACE(sizeof(int))];
    uint8_t rx_data[SN_UDP_BATCH][ROOM];
};

unsigned sn_udp_slot(const struct sn_udp *udp)
{
    return udp->slot.slot;
}

uint16_t sn_udp_port(const struct sn_udp *udp)
{
    return (uint16_t)(SN_SLOT_PORT + udp->slot.slot);
}

const struct sn_addr *sn_udp_addr(const struct sn_udp *udp)
{
    return &udp->addr;
}

int sn_udp_fds(const struct sn_udp *udp, int fds[2])
{
    fds[0] = udp->slot.fd;
    fds[1] = udp->slot.shared_fd;
    return udp->slot.shared_fd < 0 ? 1 : 2;
}

const char *sn_udp_note(const struct sn_udp *udp)
{
    return udp->note;
}

/* Statistics are read by other threads while the engine counts; each number is single, they are no snapshot.
 */
static void count(uint64_t *counter, uint64_t n)
{
    __atomic_store_n(counter, *counter + n, __ATOMIC_RELAXED);
}

void sn_udp_stats(const struct sn_udp *udp, struct sn_udp_stats *stats)
{
    const uint64_t *from = (const uint64_t *)&udp->stats;
    uint64_t *to = (uint64_t *)stats;

    for (size_t i = 0; i < sizeof(*stats) / sizeof(*to); i++)
        to[i] = __atomic_load_n(&from[i], __ATOMIC_RELAXED);
}

/* ---- opening
 * ------------------------------------------------------------------------------------------------------- */

static void set_note(struct sn_udp *udp)
{
    char text[SN_ADDR_TEXT];

    if (udp->slot.shared_fd >= 0) return;
    snprintf(udp->note, sizeof(udp->note),
             "UDP port 4791 at %s: %s (another user or program has it): NICs at other addresses reach this "
             "process only if a gpuwire process has that port",
             sn_addr_text(&udp->addr, text), strerror(-udp->slot.shared_err));
}

int sn_udp_open(const struct sn_addr *addr, uint64_t seed, struct sn_udp **out, char why[256])
{
    struct sn_udp *udp = calloc(1, sizeof(*udp));
    int err;

    if (!udp) {
        snprintf(why, 256, "out of memory");
        return -ENOMEM;
    }
    udp->addr = *addr;
    err = sn_slot_claim(addr, (unsigned)(seed % SN_SLOTS), &udp->slot, why);
    if (err) {
        free(udp);
        return err;
    }
    set_note(udp);
    for (int i = 0; i < SN_UDP_BATCH; i++) {
        udp->tx_msg[i].msg_hdr.msg_name = &udp->tx_name[i];
        udp->tx_msg[i].msg_hdr.msg_iov = udp->tx_iov[i];
        udp->rx_iov[i] = (struct iovec){udp->rx_data[i], ROOM};
        udp->rx_msg[i].msg_hdr.msg_iov = &udp->rx_iov[i];
        udp->rx_msg[i].msg_hdr.msg_iovlen = 1;
        udp->rx_msg[i].msg_hdr.msg_name = &udp->rx_name[i];
        udp->rx_msg[i].msg_hdr.msg_control = udp->rx_control[i];
    }
    *out = udp;
    return 0;
}

void sn_udp_close(struct sn_udp *udp)
{
    if (!udp) return;
    sn_slot_release(&udp->slot);
    free(udp);
}

/* ---- sending
 * ------------------------------------------------------------------------------------------------------- */

/* Errors of earlier frames that hosts and ports reported are queued at the socket and fail the next call
 * once. */
static void drain_errors(struct sn_udp *udp, int fd)
{
    uint8_t control[512];

    for (int i = 0; i < SN_UDP_BATCH; i++) {
        struct msghdr msg = {.msg_control = control, .msg_controllen = sizeof(control)};

        if (recvmsg(fd, &msg, MSG_ERRQUEUE | MSG_DONTWAIT) < 0) return;
        for (struct cmsghdr *c = CMSG_FIRSTHDR(&msg); c; c = CMSG_NXTHDR(&msg, c)) {
            if (c->cmsg_type != IP_RECVERR && c->cmsg_type != IPV6_RECVERR) continue;
            if (((struct sock_extended_err *)CMSG_DATA(c))->ee_errno == ECONNREFUSED)
                count(&udp->stats.refused, 1);
        }
    }
}

static bool pending_error(int err)
{
    return err == ECONNREFUSED || err == EHOSTUNREACH || err == ENETUNREACH || err == EMSGSIZE ||
           err == EPROTO || err == ENOPROTOOPT || err == EHOSTDOWN || err == EOPNOTSUPP;
}

/*
 * Sends what stands in tx_msg[0 … n). Returns how many were taken; *lost of them the system refused. An error
 * is either of the first frame offered or one reported about an earlier frame: offered again, the latter is
 * gone.
 */
static int send_batch(struct sn_udp *udp, int n, int *lost)
{
    int done = 0;
    bool again = false;

    *lost = 0;
    while (done < n) {
        int sent = sendmmsg(udp->slot.fd, udp->tx_msg + done, (unsigned)(n - done), MSG_DONTWAIT);

        if (sent > 0) {
            done += sent;
            again = false;
        } else if (errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS) {
            break;
        } else if (errno == EINTR) {
            continue;
        } else if (pending_error(errno) && !again) {
            drain_errors(udp, udp->slot.fd);
            again = true;
        } else {
            again = false;
            done++;
            ++*lost;
        }
    }
    return done;
}

static void set_destination(struct sn_udp *udp, int i, const struct sn_addr *addr, uint16_t port)
{
    udp->tx_msg[i].msg_hdr.msg_namelen = sn_addr_to_sock(addr, port, &udp->tx_name[i]);
}

/* The slot that the frame's queue pair number names. Numbers 0 and 1 are every process's management queue
 * pairs. */
static int slot_of_frame(const uint8_t *frame)
{
    return !frame[5] && !frame[6] && frame[7] < 2 ? -1 : frame[5];
}

static void address_frame(struct sn_udp *udp, int i, const struct sn_frame *tx)
{
    struct sn_addr to = {.scope = udp->addr.scope};
    uint16_t port = ROCE_UDP_PORT;

    memcpy(to.gid, tx->dst_gid, 16);
    if (memcmp(to.gid, udp->addr.gid, 16) == 0 && tx->len >= ROCE_MIN_PACKET) {
        int slot = slot_of_frame(tx->data);

        port = (uint16_t)(SN_SLOT_PORT + (slot < 0 ? (int)udp->slot.slot : slot));
    }
    set_destination(udp, i, &to, port);
    udp->tx_iov[i][0] = (struct iovec){tx->data, tx->len};
    udp->tx_msg[i].msg_hdr.msg_iovlen = 1;
}

int sn_udp_send(struct sn_udp *udp, const struct sn_frame *tx, int n)
{
    int taken = 0;

    while (taken < n) {
        int batch = n - taken < SN_UDP_BATCH ? n - taken : SN_UDP_BATCH, done, lost;
        uint64_t bytes = 0;

        for (int i = 0; i < batch; i++) address_frame(udp, i, &tx[taken + i]);
        done = send_batch(udp, batch, &lost);
        for (int i = 0; i < done; i++) bytes += tx[taken + i].len;
        count(&udp->stats.tx_frames, (uint64_t)(done - lost));
        count(&udp->stats.tx_bytes, bytes);
        count(&udp->stats.tx_errors, (uint64_t)lost);
        taken += done;
        if (done < batch) {
            count(&udp->stats.tx_waits, 1);
            break;
        }
    }
    return taken;
}

/* ---- receiving
 * ----------------------------------------------------------------------------------------------------- */

/* Prepares message k of tx_msg to pass a frame on to the process that has the slot. */
static void wrap(struct sn_udp *udp, int k, const struct sn_frame *frame, int slot)
{
    uint8_t *w = udp->tx_wrapper[k];

    memset(w, 0, SN_UDP_WRAPPER);
    memcpy(w, wrapper_magic, sizeof(wrapper_magic));
    w[WRAP_ECN] = frame->ecn;
    w[WRAP_PORT] = (uint8_t)(frame->sport >> 8);
    w[WRAP_PORT + 1] = (uint8_t)frame->sport;
    memcpy(w + WRAP_SRC, frame->src_gid, 16);
    memcpy(w + WRAP_DST, udp->addr.gid, 16);
    set_destination(udp, k, &udp->addr, (uint16_t)(SN_SLOT_PORT + slot));
    udp->tx_iov[k][0] = (struct iovec){w, SN_UDP_WRAPPER};
    udp->tx_iov[k][1] = (struct iovec){frame->data, frame->len};
    udp->tx_msg[k].msg_hdr.msg_iovlen = 2;
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

static bool is_ours(const struct sn_udp *udp, const struct sn_frame *frame)
{
    int slot = slot_of_frame(frame->data);

    return slot < 0 || slot == (int)udp->slot.slot;
}

/* A message to the slot's own port: from a process at this address, wrapped or not. Its IPv4 ID is what our
 * sockets make it. */
static bool take_direct(struct sn_udp *udp, struct sn_frame *frame)
{
    if (memcmp(frame->src_gid, udp->addr.gid, 16) != 0 || !sn_is_slot_port(frame->sport)) return false;
    frame->has_ip_id = true;
    if (memcmp(frame->data, wrapper_magic, sizeof(wrapper_magic)) == 0) {
        if (!unwrap(udp, frame)) return false;
        count(&udp->stats.rx_unwrapped, 1);
    }
    return is_ours(udp, frame);
}

/* The lower two bits of the type of service: IPv4 tells one byte, IPv6 an int. */
static uint8_t ecn_of(struct msghdr *msg)
{
    struct cmsghdr *c = msg->msg_controllen ? CMSG_FIRSTHDR(msg) : NULL;
    int traffic_class = 0;

    if (!c) return 0;
    if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_TOS) return *(uint8_t *)CMSG_DATA(c) & 3;
    if (c->cmsg_level != IPPROTO_IPV6 || c->cmsg_type != IPV6_TCLASS) return 0;
    memcpy(&traffic_class, CMSG_DATA(c), sizeof(traffic_class));
    return traffic_class & 3;
}

static bool read_message(struct sn_udp *udp, int i, struct sn_frame *frame)
{
    struct msghdr *msg = &udp->rx_msg[i].msg_hdr;

    memset(frame, 0, sizeof(*frame));
    memcpy(frame->dst_gid, udp->addr.gid, 16);
    frame->data = udp->rx_data[i];
    frame->len = udp->rx_msg[i].msg_len;
    frame->ecn = ecn_of(msg);
    if (frame->len < ROCE_MIN_PACKET || (msg->msg_flags & MSG_TRUNC)) return false;
    return sn_addr_from_sock(&udp->rx_name[i], frame->src_gid, &frame->sport);
}

static int receive_batch(struct sn_udp *udp, int fd, int max)
{
    for (int tries = 0; tries < 2; tries++) {
        for (int i = 0; i < max; i++) {
            udp->rx_msg[i].msg_hdr.msg_namelen = sizeof(udp->rx_name[i]);
            udp->rx_msg[i].msg_hdr.msg_controllen = sizeof(udp->rx_control[i]);
        }
        int n = recvmmsg(fd, udp->rx_msg, (unsigned)max, MSG_DONTWAIT, NULL);

        if (n >= 0) return n;
        if (errno == EAGAIN || errno == EWOULDBLOCK) return 0;
        drain_errors(udp, fd); /* an error reported about a frame sent earlier */
    }
    return 0;
}

static void pass_on(struct sn_udp *udp, int n)
{
    int lost, done = n ? send_batch(udp, n, &lost) : 0;

    if (!n) return;
    count(&udp->stats.passed_on, (uint64_t)(done - lost));
    count(&udp->stats.pass_failed, (uint64_t)(n - done + lost));
}

/* One batch from one socket. Returns the frames for us; *got is what the socket gave. */
static int receive_from(struct sn_udp *udp, int fd, struct sn_frame *rx, int max, int *got)
{
    int n = receive_batch(udp, fd, max), ours = 0, others = 0, dropped = 0;
    uint64_t bytes = 0;

    for (int i = 0; i < n; i++) {
        struct sn_frame *frame = &rx[ours];
        bool good = read_message(udp, i, frame);

        if (good && fd == udp->slot.shared_fd && !is_ours(udp, frame)) {
            wrap(udp, others++, frame, slot_of_frame(frame->data));
        } else if (good && (fd == udp->slot.shared_fd || take_direct(udp, frame))) {
            bytes += frame->len;
            ours++;
        } else {
            dropped++;
        }
    }
    pass_on(udp, others);
    count(&udp->stats.rx_frames, (uint64_t)ours);
    count(&udp->stats.rx_bytes, bytes);
    count(&udp->stats.rx_dropped, (uint64_t)dropped);
    *got = n;
    return ours;
}

int sn_udp_recv(struct sn_udp *udp, struct sn_frame *rx, int max, bool *more)
{
    int fds[2], sockets = sn_udp_fds(udp, fds), n = 0, got = 0;

    if (max > SN_UDP_BATCH) max = SN_UDP_BATCH;
    /* The buffers hold one socket's batch; taking turns, neither socket can starve the other. */
    if (sockets == 2) udp->shared_first = !udp->shared_first;
    for (int i = 0; i < sockets && !got; i++)
        n = receive_from(udp, fds[i ^ udp->shared_first], rx, max, &got);
    *more = got > 0;
    return n;
}
