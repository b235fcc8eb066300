/* SPDX-License-Identifier: Apache-2.0 */
/* Opens the UDP sockets of a slot, and keeps their counts. */
#include "softnic/wire/udp_state.h"

#include <errno.h>
#include <linux/errqueue.h>
#include <linux/in6.h>
#include <netinet/udp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "src/roce/hdr.h"

enum { ENOUGH_ROOM = 1 << 20 };

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

void sn_udp_claim_fds(const struct sn_udp *udp, int fds[2])
{
    fds[0] = udp->slot.claim_fd;
    fds[1] = udp->slot.guard_fd;
}

bool sn_udp_is_here(struct sn_udp *udp, const uint8_t gid[16])
{
    struct sn_addr addr = {.scope = udp->addr.scope};

    memcpy(addr.gid, gid, 16);
    return memcmp(gid, udp->addr.gid, 16) == 0 || sn_near_is(&udp->near_cache, &addr);
}

struct sn_owner sn_udp_owner(struct sn_udp *udp, const uint8_t gid[16], unsigned slot)
{
    struct sn_addr at = {.scope = udp->addr.scope};

    memcpy(at.gid, gid, 16);
    if (!sn_udp_is_here(udp, gid)) return (struct sn_owner){.kind = SN_OWNER_UNKNOWN};
    return sn_owners_ask(&udp->owners, &at, (uint16_t)(SN_SLOT_PORT + slot));
}

const char *sn_udp_note(const struct sn_udp *udp)
{
    return udp->note;
}

bool sn_udp_note_matters(const struct sn_udp *udp)
{
    return udp->note_matters;
}

bool sn_udp_segments(const struct sn_udp *udp)
{
    return __atomic_load_n(&udp->segment, __ATOMIC_RELAXED);
}

void sn_udp_stats(const struct sn_udp *udp, struct sn_udp_stats *stats)
{
    const uint64_t *from = (const uint64_t *)&udp->stats;
    uint64_t *to = (uint64_t *)stats;

    for (size_t i = 0; i < sizeof(*stats) / sizeof(*to); i++)
        to[i] = __atomic_load_n(&from[i], __ATOMIC_RELAXED);
}

uint32_t sn_udp_room(const struct sn_udp *udp)
{
    socklen_t len = sizeof(int);
    int room = 0;

    /* The kernel counts double, for its own overhead. */
    return getsockopt(udp->slot.fd, SOL_SOCKET, SO_RCVBUF, &room, &len) ? 0 : (uint32_t)room / 2;
}

/* Another user is at port 4791: nothing that this user did, and nothing to be silent about. */
static void note_no_port(struct sn_udp *udp, const char *text)
{
    struct sn_owner who = sn_owners_ask(&udp->owners, &udp->addr, ROCE_UDP_PORT);
    bool others = who.kind == SN_OWNER_PROCESS && who.uid != geteuid();
    char user[32] = "another program";

    if (others) snprintf(user, sizeof(user), "user %u", who.uid);
    udp->note_matters = others && !sn_addr_is_loopback(&udp->addr);
    snprintf(udp->note, sizeof(udp->note),
             "UDP port 4791 at %s: %s (%s has it): what other hosts send reaches this process only if it is "
             "passed on there, by a gpuwire process",
             text, strerror(-udp->slot.shared_err), user);
}

static void set_note(struct sn_udp *udp)
{
    char text[SN_ADDR_TEXT];
    uint32_t room = sn_udp_room(udp);

    sn_addr_text(&udp->addr, text);
    if (sn_addr_is_loopback(&udp->addr) && sn_lo_is_down()) {
        udp->note_matters = true;
        snprintf(udp->note, sizeof(udp->note),
                 "lo is down in this network namespace, and packets to %s get lost: `ip link set lo up`",
                 text);
    } else if (udp->slot.shared_fd < 0) {
        note_no_port(udp, text);
    } else if (udp->owners.by == SN_OWNERS_UNKNOWN) {
        udp->note_matters = true;
        snprintf(
            udp->note, sizeof(udp->note),
            "the system does not tell who has a UDP port (neither by udp_diag nor in /proc/net/udp): a "
            "connection does not notice that another process has taken the port of a peer that has ended");
    } else if (room < ENOUGH_ROOM) {
        snprintf(udp->note, sizeof(udp->note),
                 "the system allows a receive buffer of %u KiB; bursts lose less with more: sysctl "
                 "net.core.rmem_max=4194304",
                 room / 1024);
    }
}

static struct sn_udp_in *new_batch(void)
{
    struct sn_udp_in *in = calloc(1, sizeof(*in));

    for (int i = 0; in && i < SN_UDP_MESSAGES; i++) {
        struct msghdr *msg = &in->msg[i].msg_hdr;

        in->iov[i] = (struct iovec){in->data[i], SN_UDP_ROOM};
        msg->msg_iov = &in->iov[i];
        msg->msg_iovlen = 1;
        msg->msg_name = &in->name[i];
        msg->msg_control = in->control[i];
    }
    return in;
}

/* While one batch is taken apart each thread may be busy with one more. */
int sn_udp_threads(struct sn_udp *udp, unsigned threads)
{
    unsigned want = threads > 1 ? 2 * threads : 1;

    for (; udp->batches < want; udp->batches++) {
        udp->in[udp->batches] = new_batch();
        if (!udp->in[udp->batches]) return -ENOMEM;
    }
    return 0;
}

static void free_udp(struct sn_udp *udp)
{
    for (unsigned i = 0; i < udp->batches; i++) free(udp->in[i]);
    pthread_mutex_destroy(&udp->fetch_lock);
    free(udp);
}

int sn_udp_open(const struct sn_addr *addr, uint64_t seed, struct sn_udp **out, char why[256])
{
    struct sn_udp *udp = calloc(1, sizeof(*udp));
    int err, on = 1;

    if (udp) pthread_mutex_init(&udp->fetch_lock, NULL);
    err = udp ? sn_udp_threads(udp, 1) : -ENOMEM;
    if (err) {
        snprintf(why, 256, "out of memory");
    } else {
        udp->addr = *addr;
        err = sn_slot_claim(addr, (unsigned)(seed % SN_SLOTS), &udp->slot, why);
    }
    if (err) {
        if (udp) free_udp(udp);
        return err;
    }
    /* Whether the peer's socket takes many frames at once does not matter: the kernel cuts them up for one
     * that does not. */
    udp->segment = setsockopt(udp->slot.fd, IPPROTO_UDP, UDP_GRO, &on, sizeof(on)) == 0;
    sn_owners_open(&udp->owners, addr, sn_udp_port(udp));
    sn_owners_open(&udp->senders, addr, sn_udp_port(udp));
    set_note(udp);
    for (int i = 0; i < SN_UDP_BATCH; i++) udp->out.msg[i].msg_hdr.msg_name = &udp->out.name[i];
    *out = udp;
    return 0;
}

void sn_udp_no_segments(struct sn_udp *udp)
{
    int off = 0;

    udp->segment = false;
    setsockopt(udp->slot.fd, IPPROTO_UDP, UDP_GRO, &off, sizeof(off)); /* fails where it was never on */
}

/* Receivers that pass a frame on tell its mark in the wrapper. */
void sn_udp_mark(struct sn_udp *udp, uint8_t ecn)
{
    int value = ecn;
    bool ipv4 = sn_gid_is_ipv4(udp->addr.gid);

    setsockopt(udp->slot.fd, ipv4 ? IPPROTO_IP : IPPROTO_IPV6, ipv4 ? IP_TOS : IPV6_TCLASS, &value,
               sizeof(value)); /* fails where it is forbidden: then nothing is marked */
}

void sn_udp_close(struct sn_udp *udp)
{
    if (!udp) return;
    sn_slot_release(&udp->slot);
    sn_owners_close(&udp->owners);
    sn_owners_close(&udp->senders);
    free_udp(udp);
}

void sn_udp_on_refused(struct sn_udp *udp, sn_udp_refused *refused)
{
    udp->refused = refused;
}

static void tell_refused(struct sn_udp *udp, const struct sockaddr_in6 *to, const uint8_t *frame, size_t len)
{
    uint8_t gid[16];
    uint16_t port;

    sn_udp_count(&udp->stats.refused, 1);
    if (!sn_addr_from_sock(to, gid, &port)) return;
    sn_owners_forget(&udp->owners, gid, port);
    if (udp->refused) udp->refused(gid, frame, len);
}

/* The system keeps what was sent with the error, as much of it as the other host quoted. */
void sn_udp_drain_errors(struct sn_udp *udp, int fd)
{
    uint8_t control[512], frame[512];

    for (int i = 0; i < SN_UDP_BATCH; i++) {
        struct iovec iov = {frame, sizeof(frame)};
        struct sockaddr_in6 to;
        struct msghdr msg = {.msg_control = control,
                             .msg_controllen = sizeof(control),
                             .msg_name = &to,
                             .msg_namelen = sizeof(to),
                             .msg_iov = &iov,
                             .msg_iovlen = 1};
        ssize_t len = recvmsg(fd, &msg, MSG_ERRQUEUE | MSG_DONTWAIT);

        if (len < 0) return;
        for (struct cmsghdr *c = CMSG_FIRSTHDR(&msg); c; c = CMSG_NXTHDR(&msg, c)) {
            struct sock_extended_err error;

            if (c->cmsg_type != IP_RECVERR && c->cmsg_type != IPV6_RECVERR) continue;
            memcpy(&error, CMSG_DATA(c), sizeof(error));
            if (error.ee_errno == ECONNREFUSED) tell_refused(udp, &to, frame, (size_t)len);
        }
    }
}
