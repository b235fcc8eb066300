/* SPDX-License-Identifier: Apache-2.0 */
/* Asks the kernel which user has a UDP port, by netlink or /proc. */
#include "softnic/wire/owner.h"
#include "softnic/base/clock.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* How long an answer holds, and one from /proc, which is a file to read. At most QUESTIONS are asked in a
 * period; beyond that the period's answers hold to its end. */
#define HOLDS_NS      500000u
#define PROC_HOLDS_NS 10000000u
#define PERIOD_NS     10000000u
enum { QUESTIONS = 200, TRIES = 3, LOOPBACK = 1 };

/* A socket at all addresses that is this user's keeps others from a slot's port (slot.c); nothing reads
 * it. */
static bool is_own_guard(bool everywhere, uint32_t uid)
{
    return everywhere && uid == geteuid();
}

/* ---- by netlink ---------------------------------------------------------------------------------------- */

static void slot_owner_fill_address(uint32_t to[4], const uint8_t gid[16])
{
    memset(to, 0, 16);
    if (sn_gid_is_ipv4(gid))
        memcpy(to, gid + 12, 4);
    else
        memcpy(to, gid, 16);
}

struct question {
    struct nlmsghdr head;
    struct inet_diag_req_v2 req;
};

/*
 * As for a packet from our own port: a socket that is connected to another would not receive that. The kernel
 * swaps the two ends in this lookup, so the end that is asked about is what it calls the destination.
 */
static void make_question(const struct sn_owners *o, struct question *q, const struct sn_addr *at,
                          uint16_t port)
{
    memset(q, 0, sizeof(*q));
    q->head.nlmsg_len = sizeof(*q);
    q->head.nlmsg_type = SOCK_DIAG_BY_FAMILY;
    q->head.nlmsg_flags = NLM_F_REQUEST;
    q->head.nlmsg_seq = o->seq;
    q->req.sdiag_family = sn_gid_is_ipv4(at->gid) ? AF_INET : AF_INET6;
    q->req.sdiag_protocol = IPPROTO_UDP;
    q->req.idiag_states = ~0u;
    q->req.id.idiag_sport = htons(o->own_port);
    q->req.id.idiag_dport = htons(port);
    slot_owner_fill_address(q->req.id.idiag_src, o->own_gid);
    slot_owner_fill_address(q->req.id.idiag_dst, at->gid);
    q->req.id.idiag_if = at->scope ? at->scope : LOOPBACK; /* where packets of this host come from */
    q->req.id.idiag_cookie[0] = q->req.id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
}

/* The answer to question `seq`: 0 and *owner, or a negative errno: -ENOENT no owner, or no such service. */
static int slot_owner_read_answer(int fd, uint32_t seq, struct sn_owner *owner)
{
    union {
        struct nlmsghdr head;
        char bytes[1024];
    } in;
    const struct inet_diag_msg *m = NLMSG_DATA(&in.head);
    const struct nlmsgerr *e = NLMSG_DATA(&in.head);
    static const uint32_t everywhere[4];
    ssize_t n;

    do {
        n = recv(fd, &in, sizeof(in), MSG_DONTWAIT);
        if (n < 0) return -errno;
    } while (n < (ssize_t)sizeof(in.head) || in.head.nlmsg_seq != seq);
    if (in.head.nlmsg_type == NLMSG_ERROR && n >= (ssize_t)NLMSG_LENGTH(sizeof(*e)))
        return e->error ? e->error : -EPROTO;
    if (in.head.nlmsg_type != SOCK_DIAG_BY_FAMILY || n < (ssize_t)NLMSG_LENGTH(sizeof(*m))) return -EPROTO;
    owner->kind = SN_OWNER_PROCESS;
    owner->uid = m->idiag_uid;
    owner->id = (uint64_t)m->id.idiag_cookie[1] << 32 | m->id.idiag_cookie[0];
    return is_own_guard(memcmp(m->id.idiag_src, everywhere, sizeof(everywhere)) == 0, owner->uid) ? -ENOENT
                                                                                                  : 0;
}

static int ask_diag(struct sn_owners *o, const struct sn_addr *at, uint16_t port, struct sn_owner *owner)
{
    struct question q;

    ++o->seq;
    make_question(o, &q, at, port);
    if (send(o->fd, &q, sizeof(q), MSG_DONTWAIT) < 0) return -errno;
    return slot_owner_read_answer(o->fd, o->seq, owner);
}

/* ---- by /proc ------------------------------------------------------------------------------------------ */

/* An address as it stands there: words of the host's byte order. */
static void proc_text(const uint8_t gid[16], char text[40])
{
    uint32_t w[4];

    slot_owner_fill_address(w, gid);
    if (sn_gid_is_ipv4(gid))
        snprintf(text, 40, "%08X", w[0]);
    else
        snprintf(text, 40, "%08X%08X%08X%08X", w[0], w[1], w[2], w[3]);
}

static int ask_proc(const struct sn_addr *at, uint16_t port, struct sn_owner *owner)
{
    FILE *f = fopen(sn_gid_is_ipv4(at->gid) ? "/proc/net/udp" : "/proc/net/udp6", "re");
    char line[512], want[40], local[40];
    unsigned local_port, uid;
    unsigned long long inode;
    bool exact = false, everywhere;

    if (!f) return -errno;
    proc_text(at->gid, want);
    owner->kind = SN_OWNER_NOBODY;
    while (!exact && fgets(line, sizeof(line), f)) {
        if (sscanf(line, " %*u: %39[0-9A-F]:%x %*s %*s %*s %*s %*s %u %*u %llu", local, &local_port, &uid,
                   &inode) != 4 ||
            local_port != port)
            continue;
        exact = strcmp(local, want) == 0;
        everywhere = !local[strspn(local, "0")];
        if (exact || (everywhere && !is_own_guard(true, uid)))
            *owner = (struct sn_owner){SN_OWNER_PROCESS, uid, inode};
    }
    fclose(f);
    return owner->kind == SN_OWNER_NOBODY ? -ENOENT : 0;
}

/* ---- either -------------------------------------------------------------------------------------------- */

static int slot_owner_ask(struct sn_owners *o, const struct sn_addr *at, uint16_t port,
                          struct sn_owner *owner)
{
    if (o->by == SN_OWNERS_BY_DIAG) return ask_diag(o, at, port, owner);
    return o->by == SN_OWNERS_BY_PROC ? ask_proc(at, port, owner) : -ENOSYS;
}

void sn_owners_open(struct sn_owners *o, const struct sn_addr *at, uint16_t port)
{
    struct sn_owner self;

    memset(o, 0, sizeof(*o));
    memcpy(o->own_gid, at->gid, 16);
    o->own_port = port;
    o->fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
    o->by = SN_OWNERS_BY_DIAG;
    if (o->fd >= 0 && slot_owner_ask(o, at, port, &self) == 0) return;
    o->by = SN_OWNERS_BY_PROC;
    if (slot_owner_ask(o, at, port, &self)) o->by = SN_OWNERS_UNKNOWN;
}

void sn_owners_close(struct sn_owners *o)
{
    if (o->fd >= 0) close(o->fd);
    o->fd = -1;
}

static struct sn_owners_answer *slot_owner_place(struct sn_owners *o, const uint8_t gid[16], uint16_t port)
{
    unsigned at = port ^ (unsigned)gid[15] * 5 ^ (unsigned)gid[14] * 11 ^ (unsigned)(port >> 8) * 3;

    return &o->known[at % SN_OWNERS_KNOWN];
}

static bool slot_owner_is_about(const struct sn_owners_answer *a, const uint8_t gid[16], uint16_t port)
{
    return a->at && a->port == port && !memcmp(a->gid, gid, 16);
}

/* Does an answer of that age still do? */
static bool slot_owner_holds(struct sn_owners *o, uint64_t asked_at, uint64_t now)
{
    if (now - asked_at < (o->by == SN_OWNERS_BY_DIAG ? HOLDS_NS : PROC_HOLDS_NS)) return true;
    if (now - o->period >= PERIOD_NS) {
        o->period = now;
        o->asked = 0;
    }
    return asked_at >= o->period && o->asked >= QUESTIONS;
}

struct sn_owner sn_owners_ask(struct sn_owners *o, const struct sn_addr *at, uint16_t port)
{
    struct sn_owners_answer *a = slot_owner_place(o, at->gid, port);
    bool about = slot_owner_is_about(a, at->gid, port);
    struct sn_owner owner = {.kind = SN_OWNER_UNKNOWN};
    uint64_t now;
    int err = -EAGAIN;

    if (o->by == SN_OWNERS_UNKNOWN) return owner;
    now = sn_now_ns();
    if (about && slot_owner_holds(o, a->at, now)) return a->owner;
    o->asked++;
    for (int i = 0; i < TRIES && err && err != -ENOENT; i++) err = slot_owner_ask(o, at, port, &owner);
    if (err && err != -ENOENT) return about ? a->owner : owner; /* the system has no memory, say */
    if (err) owner.kind = SN_OWNER_NOBODY;
    a->at = now;
    a->port = port;
    a->owner = owner;
    memcpy(a->gid, at->gid, 16);
    return owner;
}

void sn_owners_forget(struct sn_owners *o, const uint8_t gid[16], uint16_t port)
{
    struct sn_owners_answer *a = slot_owner_place(o, gid, port);

    if (slot_owner_is_about(a, gid, port)) a->at = 0;
}

/* ---- for messages -------------------------------------------------------------------------------------- */

struct tally {
    unsigned uid, ports;
};

static unsigned count_users(FILE *f, uint16_t first, uint16_t last, struct tally *users, unsigned max)
{
    char line[512];
    unsigned port, uid, n = 0, i;

    while (fgets(line, sizeof(line), f)) {
        if (sscanf(line, " %*u: %*[0-9A-F]:%x %*s %*s %*s %*s %*s %u", &port, &uid) != 2 || port < first ||
            port > last)
            continue;
        for (i = 0; i < n && users[i].uid != uid; i++) {
        }
        if (i == max) continue;
        if (i == n) users[n++] = (struct tally){.uid = uid};
        users[i].ports++;
    }
    return n;
}

char *sn_owner_users(const uint8_t gid[16], uint16_t first, uint16_t last, char text[SN_OWNER_USERS])
{
    FILE *f = fopen(sn_gid_is_ipv4(gid) ? "/proc/net/udp" : "/proc/net/udp6", "re");
    struct tally users[4];
    unsigned n = f ? count_users(f, first, last, users, 4) : 0;
    int at = 0;

    snprintf(text, SN_OWNER_USERS, "users unknown");
    for (unsigned i = 0; i < n; i++)
        at += snprintf(text + at, SN_OWNER_USERS - (size_t)at, "%suser %u (%u sockets)", i ? ", " : "",
                       users[i].uid, users[i].ports);
    if (f) fclose(f);
    return text;
}
