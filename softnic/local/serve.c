/* SPDX-License-Identifier: Apache-2.0 */
/* Meeting and losing peers: the part of the NIC's own thread. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <gpuwire/detail/assert.h>

#include "softnic/local/cma.h"
#include "softnic/local/lend.h"
#include "softnic/local/meet.h"
#include "softnic/local/ring.h"
#include "softnic/local/state.h"
#include "softnic/local/table.h"

/* How soon a peer is asked for its name again; each time it is twice as long, and then it is given up. */
#define ASK_AGAIN_NS 20000000u
/* A line about other users who connect is said so often at most. */
#define TOLD_NS UINT64_C(10000000000)

enum { EVENTS = 16, ASKS = 6, ACCEPT_AT_ONCE = 32 };

int sn_local_watch(struct sn_local *h, int fd, enum sn_local_event kind, uint32_t which)
{
    struct epoll_event e = {.events = EPOLLIN, .data.u64 = (uint64_t)kind << 32 | which};

    /* A peer that cannot be accepted, since no descriptors are left, say, must not keep the thread from
     * sleeping. */
    if (kind == SN_AT_LISTENER) e.events |= EPOLLET;

    return epoll_ctl(h->epoll, EPOLL_CTL_ADD, fd, &e) ? -errno : 0;
}

void sn_local_close_fd(int *fd)
{
    int was = *fd;

    *fd = -1; /* first: a child that is forked now closes what it finds here */
    if (was >= 0) close(was);
}

static bool is_broken(const struct sn_sender *s)
{
    return __atomic_load_n(&s->broken, __ATOMIC_RELAXED);
}

/* ---- those that send to us ----------------------------------------------------------------------------- */

void sn_local_free_sender(struct sn_sender *s)
{
    if (s->channel) munmap(s->channel, sizeof(*s->channel));
    sn_local_close_fd(&s->fd);
    free(s);
}

static void drop_sender(struct sn_local *h, const struct sn_local_guard *g, struct sn_sender *s)
{
    unsigned i = 0;

    g->lock(g->nic);
    pthread_mutex_lock(&h->senders_lock);
    while (h->sender[i] != s) i++;
    GW_ASSERT(i < h->senders);
    h->sender[i] = h->sender[h->senders - 1];
    __atomic_store_n(&h->senders, h->senders - 1, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&h->senders_lock);
    g->unlock(g->nic);
    sn_local_free_sender(s);
}

static void add_sender(struct sn_local *h, const struct sn_local_guard *g, int fd, pid_t pid)
{
    struct sn_sender *s = h->senders < SN_LOCAL_SENDERS ? calloc(1, sizeof(*s)) : NULL;

    if (!s || sn_local_watch(h, fd, SN_AT_SENDER, (uint32_t)(h->sender_numbers + 1))) {
        free(s);
        close(fd);
        return;
    }
    s->fd = fd;
    s->pid = pid;
    s->number = ++h->sender_numbers;
    g->lock(g->nic);
    pthread_mutex_lock(&h->senders_lock);
    GW_ASSERT(h->senders < SN_LOCAL_SENDERS);
    h->sender[h->senders] = s;
    __atomic_store_n(&h->senders, h->senders + 1, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&h->senders_lock);
    g->unlock(g->nic);
}

/* Another user's process, or one whose user is not known here. */
static void local_serve_refuse(struct sn_local *h, int fd)
{
    uint64_t now = sn_now_ns();
    struct ucred cred;
    socklen_t len = sizeof(cred);

    if ((!h->notified_at || now - h->notified_at > TOLD_NS) &&
        getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) == 0) {
        fprintf(
            stderr,
            "gpuwire: NIC (process %d): process %d of user %u wants to share memory with this one: refused\n",
            (int)getpid(), (int)cred.pid, (unsigned)cred.uid);
        h->notified_at = now;
    }
    close(fd);
}

/* Not all of them at once: others could keep the thread here. */
static void accept_some(struct sn_local *h, const struct sn_local_guard *g)
{
    pid_t pid;
    int fd = 0;

    for (int i = 0; i < ACCEPT_AT_ONCE && (fd = sn_meet_accept(h->listener)) >= 0; i++) {
        if (sn_meet_is_ours(fd, &pid))
            add_sender(h, g, fd, pid);
        else
            local_serve_refuse(h, fd);
    }
    h->more_waiting = fd >= 0;
    h->unaccepted = fd != -EAGAIN;
}

/* A peer comes for files only: see lend.h. */
static bool lend(struct sn_local *h, const struct sn_local_guard *g, int fd)
{
    struct sn_want want;

    if (!sn_lend_asked(fd, &want)) return false;
    g->lock(g->nic); /* the table does not change */
    if (!sn_table_shares(h->table, want.key, &want.share)) want.share.size = 0;
    g->unlock(g->nic);
    if (want.share.size) sn_lend(fd, &want.share);
    return true;
}

/* Its hello. False: it is none, and the sender goes. */
static bool hear_sender(struct sn_local *h, const struct sn_local_guard *g, struct sn_sender *s)
{
    struct sn_hello hello,
        answer = {.magic = SN_HELLO_MAGIC, .version = SN_SHARE_VERSION, .slot = h->cfg.slot};
    struct sn_channel *ch;
    int fd, err;

    if (lend(h, g, s->fd)) return false;
    err = sn_meet_hear(s->fd, &hello, &fd);
    if (err) return err == -EAGAIN;
    err = sn_share_map(fd, sizeof(*ch), true, (void **)&ch);
    close(fd);
    if (err) return false;
    memcpy(answer.gid, h->cfg.gid, 16);
    if (ch->magic != SN_SHARE_CHANNEL_MAGIC || ch->version != SN_SHARE_VERSION ||
        ch->slots != SN_SHARE_FRAMES || sn_meet_say(s->fd, &answer, h->table_fd)) {
        munmap(ch, sizeof(*ch));
        return false;
    }
    g->lock(g->nic);
    pthread_mutex_lock(&h->senders_lock);
    s->slot = hello.slot;
    memcpy(s->gid, hello.gid, 16);
    s->channel = ch;
    pthread_mutex_unlock(&h->senders_lock);
    g->unlock(g->nic);
    return true;
}

static void at_sender(struct sn_local *h, const struct sn_local_guard *g, uint32_t number)
{
    for (unsigned i = 0; i < h->senders; i++) {
        struct sn_sender *s = h->sender[i];

        if ((uint32_t)s->number != number) continue;
        if (s->channel) {
            s->gone = !sn_meet_drain(s->fd);
            /* Its fd says so over and over. */
            if (s->gone) epoll_ctl(h->epoll, EPOLL_CTL_DEL, s->fd, NULL);
        } else if (!hear_sender(h, g, s)) {
            drop_sender(h, g, s);
        }
        return;
    }
}

/* ---- those that we send to ----------------------------------------------------------------------------- */

/* From now on it goes over the wire. */
static void drop_peer(struct sn_local *h, const struct sn_local_guard *g, struct sn_peer *p,
                      uint64_t retry_at)
{
    struct sn_channel *channel = p->channel;
    const struct sn_table *table = p->table;

    g->lock(g->nic);
    sn_gpu_sweep(h->gpu, p, NULL);
    p->state = SN_OUT_NEW;
    p->retry_at = retry_at;
    p->named = false;
    p->asked = 0;
    p->channel = NULL;
    p->table = NULL;
    p->copies = false;
    g->unlock(g->nic);
    sn_local_close_fd(&p->fd);
    if (channel) munmap(channel, sizeof(*channel));
    if (table) munmap((void *)table, sizeof(*table));
}

static int say_hello(struct sn_local *h, struct sn_peer *p)
{
    struct sn_hello hello = {.magic = SN_HELLO_MAGIC, .version = SN_SHARE_VERSION, .slot = h->cfg.slot};
    struct sn_channel *ch;
    int err, fd = sn_share_make(sizeof(*ch), false, (void **)&ch);

    if (fd < 0) return fd;
    p->channel = ch;
    ch->magic = SN_SHARE_CHANNEL_MAGIC;
    ch->version = SN_SHARE_VERSION;
    ch->slots = SN_SHARE_FRAMES;
    memcpy(hello.gid, h->cfg.gid, 16);
    err = sn_meet_say(p->fd, &hello, fd);
    close(fd);
    return err;
}

/* For the name by which it is met. */
static void local_serve_ask_name(struct sn_local *h, const struct sn_local_guard *g, struct sn_peer *p)
{
    uint8_t nonce[SN_MEET_NONCE];
    bool again = p->asked != 0;

    if (p->asked == ASKS || (!again && getrandom(nonce, sizeof(nonce), 0) != sizeof(nonce))) {
        drop_peer(h, g, p, sn_now_ns() + SN_LOCAL_RETRY_NS);
        return;
    }
    g->lock(g->nic);
    if (!again) memcpy(p->question, nonce, sizeof(nonce));
    p->ask_at = sn_now_ns() + ((uint64_t)ASK_AGAIN_NS << p->asked++);
    p->state = SN_OUT_NAMELESS;
    g->unlock(g->nic);
    if (!h->cfg.ask(h->cfg.ask_ctx, p->gid, p->slot, p->question))
        drop_peer(h, g, p, sn_now_ns() + SN_LOCAL_RETRY_NS);
}

static void local_serve_meet(struct sn_local *h, const struct sn_local_guard *g, struct sn_peer *p)
{
    int err;

    if (!p->named) {
        local_serve_ask_name(h, g, p);
        return;
    }

    p->tail = p->head = p->epoch = p->woken = 0;
    p->full_since = p->seen_alive = 0;
    p->fd = sn_meet_connect(p->name);
    err = p->fd < 0 ? p->fd : 0;
    if (!err && !sn_meet_is_ours(p->fd, &p->pid)) err = -EPERM;
    if (!err) err = say_hello(h, p);
    if (!err) err = sn_local_watch(h, p->fd, SN_AT_PEER, (uint32_t)(p - h->peer));
    if (err) {
        drop_peer(h, g, p, sn_now_ns() + SN_LOCAL_RETRY_NS);
        return;
    }
    g->lock(g->nic);
    p->state = SN_OUT_ASKED;
    g->unlock(g->nic);
}

/* Its answer: the table. */
static bool hear_peer(struct sn_local *h, const struct sn_local_guard *g, struct sn_peer *p)
{
    struct sn_table *t;
    struct sn_hello hello;
    int fd, err = sn_meet_hear(p->fd, &hello, &fd);
    bool copies = false;

    if (err) return err == -EAGAIN;
    err = sn_share_map(fd, sizeof(*t), false, (void **)&t);
    close(fd);
    if (err) return false;
    p->table = t;
    if (t->head.magic != SN_SHARE_TABLE_MAGIC || t->head.version != SN_SHARE_VERSION) return false;
    if (h->cfg.copy) {
        p->nonce = t->head.nonce;
        p->nonce_addr = t->head.nonce_addr;
        err = sn_cma_probe(p->pid, p->nonce, p->nonce_addr);
        copies = !err;
    }
    g->lock(g->nic);
    if (err) h->copy_error = err;
    p->copies = copies;
    p->inside = p->pid == getpid();
    __atomic_store_n(&p->channel->pulls, copies, __ATOMIC_RELAXED);
    p->state = SN_OUT_MET;
    g->unlock(g->nic);
    return true;
}

/* It says nothing but that it is time to look at its table. */
static bool heed_peer(struct sn_local *h, const struct sn_local_guard *g, struct sn_peer *p)
{
    if (!sn_meet_drain(p->fd)) return false;
    g->lock(g->nic);
    sn_gpu_sweep(h->gpu, p, p->table);
    g->unlock(g->nic);
    return true;
}

static void at_peer(struct sn_local *h, const struct sn_local_guard *g, uint32_t which)
{
    struct sn_peer *p = &h->peer[which % SN_LOCAL_PEERS];
    bool ok = true;

    if (p->state == SN_OUT_ASKED)
        ok = hear_peer(h, g, p);
    else if (p->state == SN_OUT_MET)
        ok = heed_peer(h, g, p);
    if (!ok) drop_peer(h, g, p, sn_now_ns() + SN_LOCAL_RETRY_NS);
}

static void meet_wanted(struct sn_local *h, const struct sn_local_guard *g)
{
    /* Acquire, with the release in want(). */
    if (!__atomic_exchange_n(&h->wanted, 0, __ATOMIC_ACQUIRE)) return;
    for (unsigned i = 0; i < SN_LOCAL_PEERS; i++)
        if (__atomic_load_n(&h->peer[i].state, __ATOMIC_RELAXED) == SN_OUT_WANTED)
            local_serve_meet(h, g, &h->peer[i]);
}

/* ---- the thread's -------------------------------------------------------------------------------------- */

int sn_local_fd(const struct sn_local *h)
{
    return h->epoll;
}

/* Frames that a process sent before its end are still to be received, as they would be from a socket. */
static void drop_gone(struct sn_local *h, const struct sn_local_guard *g)
{
    for (unsigned i = 0; i < h->senders;) {
        struct sn_sender *s = h->sender[i];

        if (is_broken(s) || (s->gone && sn_ring_empty(s->channel, &s->head)))
            drop_sender(h, g, h->sender[i]);
        else
            i++;
    }
}

void sn_local_serve(struct sn_local *h, const struct sn_local_guard *g)
{
    struct epoll_event events[EVENTS];
    int n = epoll_wait(h->epoll, events, EVENTS, 0);
    uint64_t count;

    for (int i = 0; i < n; i++) {
        uint32_t which = (uint32_t)events[i].data.u64;

        switch ((enum sn_local_event)(events[i].data.u64 >> 32)) {
        case SN_AT_LISTENER: h->unaccepted = true; break;
        case SN_AT_EVENT:
            if (read(h->event, &count, sizeof(count)) < 0)
                break; /* nothing is left there, which is as good */
            break;
        case SN_AT_PEER: at_peer(h, g, which); break;
        case SN_AT_SENDER: at_sender(h, g, which); break;
        }
    }
    if (h->unaccepted) accept_some(h, g);
    meet_wanted(h, g);
    drop_gone(h, g);
}

bool sn_local_doze(struct sn_local *h)
{
    uint32_t *sleeps = &h->table->head.sleeps;

    /* Sequentially consistent, with sn_local_sent: either we see a sender's frames or it sees that we sleep.
     */
    __atomic_store_n(sleeps, *sleeps | 1, __ATOMIC_SEQ_CST);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    for (unsigned i = 0; i < h->senders; i++) {
        const struct sn_sender *s = h->sender[i];

        if (s->channel && !is_broken(s) && !sn_ring_empty(s->channel, &s->head)) return false;
    }
    return !h->more_waiting && !__atomic_load_n(&h->wanted, __ATOMIC_RELAXED);
}

void sn_local_wake(struct sn_local *h)
{
    uint32_t *sleeps = &h->table->head.sleeps;

    if (*sleeps & 1) __atomic_store_n(sleeps, *sleeps + 1, __ATOMIC_RELAXED);
}

void sn_local_forked(struct sn_local *h)
{
    sn_local_close_fd(&h->listener);
    sn_local_close_fd(&h->epoll);
    sn_local_close_fd(&h->event);
    sn_local_close_fd(&h->table_fd);
    for (unsigned i = 0; i < SN_LOCAL_PEERS; i++) sn_local_close_fd(&h->peer[i].fd);
    for (unsigned i = 0; i < h->senders; i++) sn_local_close_fd(&h->sender[i]->fd);
}
