/* SPDX-License-Identifier: Apache-2.0 */
/* What the engine asks, inside the NIC's lock: who is near, may this be done, copy; and frames both ways. */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "softnic/host/cma.h"
#include "softnic/host/meet.h"
#include "softnic/host/ring.h"
#include "softnic/host/state.h"
#include "softnic/host/table.h"
#include "softnic/mem/pieces.h"
#include "softnic/wire/slot.h"
#include "src/roce/hdr.h"

/* A peer that was seen alive so long ago is asked again before its memory is touched: its number may be
 * another process's by then. */
#define ALIVE_NS 10000000u
/* A ring that stayed full for so long is nobody's who runs: frames for it get lost, and hold up no others. */
#define FULL_NS 2000000u
/* When to say that somebody has to be waited for. */
#define PATIENCE_NS 2000000000u

enum { SPINS = 1000 };

uint64_t sn_host_now(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* ---- what peers are told ------------------------------------------------------------------------------- */

static void region(void *ctx, uint32_t key, const struct sn_peer_region *r)
{
    struct sn_host *h = ctx;

    if (!h->cfg.copy) return;
    bool open = !r && sn_table_on_gpu(h->table, key);
    sn_table_region(h->table, key, r);
    /* Peers that have it open are to close it: the program may be about to free it. */
    for (unsigned i = 0; open && i < h->senders; i++) sn_meet_wake(h->sender[i]->fd);
}

static void queue(void *ctx, uint32_t qpn, const struct sn_peer_queue *q)
{
    struct sn_host *h = ctx;

    if (h->cfg.copy) sn_table_queue(h->table, qpn, q);
    /* It will be answered, and perhaps asked: meet the other end already. */
    if (q) sn_host_peer_ops.in_memory(ctx, q->dest_gid, q->dest_qpn);
}

/* Is this sender still in the access that it was in? Stores of the caller come before: see quiesce. */
static bool still_in(struct sn_host *h, uint64_t number, uint32_t epoch, pid_t *pid)
{
    bool in = false;

    pthread_mutex_lock(&h->senders_lock);
    for (unsigned i = 0; i < h->senders; i++) {
        struct sn_sender *s = h->sender[i];

        if (s->number != number) continue;
        *pid = s->pid;
        /* Acquire: what the access wrote was written before what follows here. A dead process accesses
         * nothing: its sockets close after its last system call. */
        in = __atomic_load_n(&s->channel->epoch, __ATOMIC_ACQUIRE) == epoch && sn_meet_alive(s->fd);
    }
    pthread_mutex_unlock(&h->senders_lock);
    return in;
}

/*
 * Not bounded: memory is given back only when nobody writes to it any more, and a process that was stopped in
 * the middle, by a debugger say, will.
 */
static void wait_for(struct sn_host *h, uint64_t number, uint32_t epoch)
{
    const struct timespec nap = {.tv_nsec = 100000};
    uint64_t since = sn_host_now();
    bool told = false;
    pid_t pid = 0;

    for (int i = 0; still_in(h, number, epoch, &pid); i++) {
        if (i < SPINS)
            sched_yield();
        else
            nanosleep(&nap, NULL);
        if (told || sn_host_now() - since < PATIENCE_NS) continue;
        told = true;
        fprintf(
            stderr,
            "gpuwire: NIC: waiting for process %d, which stands still in the middle of a copy to or from a "
            "region or queue pair that is to go\n",
            (int)pid);
    }
}

static void quiesce(void *ctx)
{
    struct sn_host *h = ctx;
    uint64_t number[SN_HOST_SENDERS];
    uint32_t epoch[SN_HOST_SENDERS];
    unsigned n = 0;

    /*
     * Sequentially consistent, with the fence in enter: either we see that a peer has begun an access, or it
     * sees that the entry is gone. Without the fences each could read before its own store was visible.
     */
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    pthread_mutex_lock(&h->senders_lock);
    for (unsigned i = 0; i < h->senders; i++) {
        struct sn_sender *s = h->sender[i];

        if (!s->channel) continue;
        epoch[n] = __atomic_load_n(&s->channel->epoch, __ATOMIC_ACQUIRE);
        number[n] = s->number;
        n += epoch[n] & 1;
    }
    pthread_mutex_unlock(&h->senders_lock);
    for (unsigned i = 0; i < n; i++) wait_for(h, number[i], epoch[i]);
}

/* ---- who is near --------------------------------------------------------------------------------------- */

static bool is_self(const struct sn_host *h, const uint8_t gid[16], unsigned slot)
{
    return slot == h->cfg.slot && !memcmp(gid, h->cfg.gid, 16);
}

struct sn_peer *sn_host_peer(struct sn_host *h, const uint8_t gid[16], unsigned slot)
{
    unsigned at = slot ^ gid[15] << 1 ^ gid[14] << 4;
    struct sn_peer *place = NULL;

    for (unsigned i = 0; i < SN_HOST_PEERS; i++) {
        struct sn_peer *p = &h->peer[(at + i) % SN_HOST_PEERS];
        bool idle = p->state == SN_OUT_NEW, unused = idle && !p->retry_at;

        if (!unused && p->slot == slot && !memcmp(p->gid, gid, 16)) return p;
        if (idle && (!place || p->retry_at < place->retry_at)) place = p;
        if (unused) break;
    }
    /* Once none is unused, one that was not there, or is no more, gives up its place. */
    if (!place || (place->retry_at && sn_host_now() < place->retry_at)) return NULL;
    place->retry_at = 0;
    place->slot = slot;
    memcpy(place->gid, gid, 16);
    return place;
}

static void want(struct sn_host *h, struct sn_peer *p)
{
    uint64_t one = 1;

    if (sn_host_now() < p->retry_at) return;
    __atomic_store_n(&p->state, SN_OUT_WANTED, __ATOMIC_RELAXED);
    __atomic_fetch_add(&h->wanted, 1,
                       __ATOMIC_RELEASE);               /* the thread sees the entry when it sees the count */
    if (write(h->event, &one, sizeof(one)) < 0) return; /* full: the thread is being woken */
}

/* The peer, once it was met. */
static struct sn_peer *met(struct sn_host *h, const uint8_t gid[16], uint32_t qpn)
{
    unsigned slot = qpn >> 16 & 0xff;
    struct sn_peer *p;

    if (h->paused || is_self(h, gid, slot)) return NULL;
    p = sn_host_peer(h, gid, slot);
    if (!p) return NULL;
    if (p->state == SN_OUT_MET) return __atomic_load_n(&p->table->head.paused, __ATOMIC_RELAXED) ? NULL : p;
    if (p->state == SN_OUT_NEW) want(h, p);
    return NULL;
}

static struct sn_peer *find(void *ctx, const uint8_t gid[16], uint32_t qpn)
{
    struct sn_peer *p = met(ctx, gid, qpn);

    return p && p->copies ? p : NULL;
}

static bool in_memory(void *ctx, const uint8_t gid[16], uint32_t qpn)
{
    return met(ctx, gid, qpn) != NULL;
}

static bool pulls(void *ctx, const uint8_t gid[16], uint32_t qpn)
{
    struct sn_host *h = ctx;
    unsigned slot = qpn >> 16 & 0xff;

    /* Without copies there is no table by which it could be allowed. */
    if (!h->cfg.copy || !met(h, gid, qpn)) return false;
    for (unsigned i = 0; i < h->senders; i++) {
        const struct sn_sender *s = h->sender[i];

        if (s->channel && s->slot == slot && !memcmp(s->gid, gid, 16))
            return __atomic_load_n(&s->channel->pulls, __ATOMIC_RELAXED) != 0;
    }
    return false;
}

/* ---- access -------------------------------------------------------------------------------------------- */

static bool enter(void *ctx, struct sn_peer *p, uint64_t now)
{
    (void)ctx;
    if (now - p->seen_alive > ALIVE_NS) {
        if (!sn_meet_alive(p->fd)) {
            p->copies = false; /* the thread does the rest */
            return false;
        }
        p->seen_alive = now;
    }
    __atomic_store_n(&p->channel->epoch, ++p->epoch, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_SEQ_CST); /* before the table is read: see quiesce */
    return true;
}

static bool grant(void *ctx, struct sn_peer *p, const struct sn_peer_access *access, uint64_t *addr,
                  struct sn_reach *by)
{
    struct sn_host *h = ctx;
    struct sn_gpu_share gpu;
    uint64_t at;

    *by = (struct sn_reach){NULL, NULL};
    if (!sn_table_grants(p->table, access, addr, &gpu)) return false;
    if (!gpu.size) return true;
    if (!sn_gpu_find(h->gpu, p, p->inside, access->rkey, &gpu, by, &at)) return false;
    *addr = at + (*addr - gpu.base);
    return true;
}

static int64_t copy_with(const struct sn_peer *p, const struct sn_copy *c)
{
    struct sn_copy by_parts = *c;

    if (p->inside) return sn_pieces_copy(c);
    if (!c->by_here.dma && !c->by_there.dma)
        return sn_cma_copy(p->pid, c->write, c->here, c->n_here, c->there, c->n_there);
    if (!c->by_there.dma) by_parts.by_there = sn_cma_reach(p->pid);
    return sn_pieces_copy(&by_parts);
}

static int64_t copy(void *ctx, struct sn_peer *p, const struct sn_copy *c)
{
    struct sn_host *h = ctx;
    int64_t n = copy_with(p, c);

    /* Memory that is not there is one request's affair; anything else will not work the next time either. */
    if (n < 0 && n != -EFAULT) {
        p->copies = false;
        __atomic_store_n(&p->channel->pulls, 0, __ATOMIC_RELAXED);
        h->copy_error = (int)n;
    }
    return n;
}

static void leave(void *ctx, struct sn_peer *p)
{
    (void)ctx;
    /* Release: whoever sees it knows that the copy has been made. */
    __atomic_store_n(&p->channel->epoch, ++p->epoch, __ATOMIC_RELEASE);
}

const struct sn_peer_ops sn_host_peer_ops = {region, queue, quiesce, find, in_memory,
                                             pulls,  enter, grant,   copy, leave};

/* ---- frames -------------------------------------------------------------------------------------------- */

static bool stuck(struct sn_peer *p)
{
    uint32_t head = p->tail - sn_ring_used(p->channel, p->tail);
    uint64_t now = sn_host_now();

    if (!p->full_since || head != p->full_head) {
        p->full_since = now;
        p->full_head = head;
    }
    return now - p->full_since > FULL_NS;
}

/* The byte of a frame that holds the slot of the queue pair that it is for. */
static struct sn_peer *peer_of(struct sn_host *h, const struct sn_frame *f)
{
    if (f->len < ROCE_MIN_PACKET || f->len > SN_FRAME_MAX) return NULL;
    return met(h, f->dst_gid, (uint32_t)f->data[5] << 16);
}

bool sn_host_reaches(struct sn_host *h, const struct sn_frame *f)
{
    return peer_of(h, f) != NULL;
}

int sn_host_send(struct sn_host *h, const struct sn_frame *f)
{
    struct sn_peer *p = peer_of(h, f);

    if (!p) return -ENOENT;
    if (!sn_ring_put(p->channel, &p->tail, f->data, f->len, f->offer)) return stuck(p);
    p->full_since = 0;
    if (!p->sent) h->to_wake[h->to_wake_count++] = p;
    p->sent = true;
    return 1;
}

void sn_host_sent(struct sn_host *h)
{
    if (!h->to_wake_count) return;
    /* Sequentially consistent, with sn_host_doze: either the sleeper sees the frames or we see that it
     * sleeps. */
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    while (h->to_wake_count) {
        struct sn_peer *p = h->to_wake[--h->to_wake_count];
        uint32_t sleeps;

        p->sent = false;
        if (p->state != SN_OUT_MET) continue;
        sleeps = __atomic_load_n(&p->table->head.sleeps, __ATOMIC_RELAXED);
        if (!(sleeps & 1) || sleeps == p->woken) continue;
        p->woken = sleeps;
        sn_meet_wake(p->fd);
    }
}

static void fill(const struct sn_host *h, const struct sn_sender *s, struct sn_frame *f, uint8_t *data,
                 int len, bool offer)
{
    memset(f, 0, sizeof(*f));
    memcpy(f->src_gid, s->gid, 16);
    memcpy(f->dst_gid, h->cfg.gid, 16);
    f->sport = (uint16_t)(SN_SLOT_PORT + s->slot);
    f->has_ip_id = true;
    f->no_icrc = true;
    f->offer = offer;
    f->len = (uint32_t)len;
    f->data = data;
}

int sn_host_recv(struct sn_host *h, struct sn_frame *frames, int max)
{
    int n = 0;

    if (max > SN_HOST_RX) max = SN_HOST_RX;
    for (unsigned i = 0; i < h->senders && n < max; i++) {
        /* Another one's turn to be first each time: none can keep the others from being heard. */
        struct sn_sender *s = h->sender[(h->next_sender + i) % h->senders];

        while (s->channel && !s->broken && n < max) {
            bool offer;
            int len = sn_ring_take(s->channel, &s->head, h->rx[n], &offer);

            if (len < 0) __atomic_store_n(&s->broken, true, __ATOMIC_RELAXED);
            if (len <= 0) break;
            fill(h, s, &frames[n], h->rx[n], len, offer);
            n++;
        }
    }
    h->next_sender++;
    return n;
}

void sn_host_pause(struct sn_host *h, bool pause)
{
    h->paused = pause;
    __atomic_store_n(&h->table->head.paused, pause, __ATOMIC_RELAXED);
}

unsigned sn_host_met(const struct sn_host *h)
{
    return h->met;
}

unsigned sn_host_senders(const struct sn_host *h)
{
    return __atomic_load_n(&h->senders, __ATOMIC_RELAXED);
}

/* Not on the data path: it may read a file. */
void sn_host_info(struct sn_host *h, struct sn_host_info *info)
{
    memset(info, 0, sizeof(*info));
    for (unsigned i = 0; i < SN_HOST_PEERS; i++) {
        if (h->peer[i].state != SN_OUT_MET) continue;
        if (h->peer[i].copies)
            info->copying++;
        else
            info->framing++;
    }
    info->senders = h->senders;
    info->copy = h->cfg.copy;
    if (!h->cfg.copy) return;
    snprintf(info->why, sizeof(info->why), "%s",
             h->copy_error ? sn_cma_why(h->copy_error) : sn_cma_hindrance());
}
