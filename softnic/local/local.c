/* SPDX-License-Identifier: Apache-2.0 */
/* The engine's questions, inside the NIC's lock: which peers it reaches; and frames both ways. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "softnic/local/cma.h"
#include "softnic/local/gate.h"
#include "softnic/local/meet.h"
#include "softnic/local/ring.h"
#include "softnic/local/state.h"
#include "softnic/local/table.h"
#include "softnic/wire/slot.h"
#include "src/roce/cm.h"
#include "src/roce/hdr.h"

/* For a peer that takes nothing from a full ring. After the first time we look whether it stands still. After
 * the second we give it up although it seems to run. */
#define STILL_NS   10000000u
#define GIVE_UP_NS 1000000000u

/* ---- what peers are told ------------------------------------------------------------------------------- */

/* A program that registers memory again and again touches every page of the table in the end: keys are
 * random. For one that seems to do so the pages come now, some with each entry. From then on its memory does
 * not grow, and a leak checker sees none. */
static void local_touch(struct sn_touched *t, const void *table, size_t bytes)
{
    enum { OFTEN = 64, AT_ONCE = 32, PAGE = 4096 };

    if (++t->entered <= OFTEN) return;
    t->entered = OFTEN;
    for (int i = 0; i < AT_ONCE && (size_t)t->pages * PAGE < bytes; i++, t->pages++)
        (void)__atomic_load_n((const uint32_t *)table + (size_t)t->pages * (PAGE / 4), __ATOMIC_RELAXED);
}

static void region(void *ctx, uint32_t key, const struct sn_peer_region *r)
{
    struct sn_local *h = ctx;

    if (!h->cfg.copy) return;
    if (r) local_touch(&h->regions, h->table->region, sizeof(h->table->region));
    if (r && r->gpu) local_touch(&h->gpus, h->table->gpu, sizeof(h->table->gpu));
    bool open = !r && sn_table_on_gpu(h->table, key);
    sn_table_region(h->table, key, r);
    /* Peers that have it open are to close it: the program may be about to free it. */
    for (unsigned i = 0; open && i < h->senders; i++) sn_meet_wake(h->sender[i]->fd);
}

static void queue(void *ctx, uint32_t qpn, const struct sn_peer_queue *q)
{
    struct sn_local *h = ctx;

    if (h->cfg.copy) sn_table_queue(h->table, qpn, q);
    /* It will be answered, and perhaps asked: meet the other end already. */
    if (q) sn_local_peer_ops.in_memory(ctx, q->terms.gid, q->dest_qpn);
}

/* ---- peers of this host -------------------------------------------------------------------------------- */

static bool is_self(const struct sn_local *h, const uint8_t gid[16], unsigned slot)
{
    return slot == h->cfg.slot && !memcmp(gid, h->cfg.gid, 16);
}

struct sn_peer *sn_local_peer(struct sn_local *h, const uint8_t gid[16], unsigned slot)
{
    unsigned at = slot ^ gid[15] << 1 ^ gid[14] << 4;
    struct sn_peer *place = NULL;

    for (unsigned i = 0; i < SN_LOCAL_PEERS; i++) {
        struct sn_peer *p = &h->peer[(at + i) % SN_LOCAL_PEERS];
        bool idle = p->state == SN_OUT_NEW, unused = idle && !p->retry_at;

        if (!unused && p->slot == slot && !memcmp(p->gid, gid, 16)) return p;
        if (idle && (!place || p->retry_at < place->retry_at)) place = p;
        if (unused) break;
    }
    /* Once none is unused, one that was not there, or is no more, gives up its place. */
    if (!place || (place->retry_at && sn_now_ns() < place->retry_at)) return NULL;
    place->retry_at = 0;
    place->slot = slot;
    memcpy(place->gid, gid, 16);
    return place;
}

static void want(struct sn_local *h, struct sn_peer *p)
{
    uint64_t one = 1;

    __atomic_store_n(&p->state, SN_OUT_WANTED, __ATOMIC_RELAXED);
    __atomic_fetch_add(&h->wanted, 1,
                       __ATOMIC_RELEASE);               /* the thread sees the entry when it sees the count */
    if (write(h->event, &one, sizeof(one)) < 0) return; /* full: the thread is being woken */
}

/* The question for its name, or the answer, may have got lost. */
static bool local_is_due(const struct sn_peer *p)
{
    if (p->state == SN_OUT_NEW) return sn_now_ns() >= p->retry_at;
    return p->state == SN_OUT_NAMELESS && sn_now_ns() >= p->ask_at;
}

const uint8_t *sn_local_name(const struct sn_local *h)
{
    return h->name;
}

void sn_local_told(struct sn_local *h, const uint8_t gid[16], unsigned slot,
                   const uint8_t nonce[SN_MEET_NONCE], const uint8_t name[SN_MEET_NAME])
{
    static const uint8_t none[SN_MEET_NAME];
    struct sn_peer *p = NULL;

    for (unsigned i = 0; i < SN_LOCAL_PEERS && !p; i++) {
        struct sn_peer *at = &h->peer[i];

        if (at->state == SN_OUT_NAMELESS && at->slot == slot && !memcmp(at->gid, gid, 16)) p = at;
    }
    if (!p || memcmp(p->question, nonce, SN_MEET_NONCE)) return;
    if (!memcmp(name, none, SN_MEET_NAME)) {
        p->retry_at = sn_now_ns() + SN_LOCAL_RETRY_NS;
        p->state = SN_OUT_NEW;
        return;
    }
    memcpy(p->name, name, SN_MEET_NAME);
    p->named = true;
    want(h, p);
}

/* The peer, once it was met. */
static struct sn_peer *met(struct sn_local *h, const uint8_t gid[16], uint32_t qpn)
{
    unsigned slot = qpn >> 16 & 0xff;
    struct sn_peer *p;

    if (h->paused || is_self(h, gid, slot)) return NULL;
    p = sn_local_peer(h, gid, slot);
    if (!p) return NULL;
    if (p->state == SN_OUT_MET) return __atomic_load_n(&p->table->head.paused, __ATOMIC_RELAXED) ? NULL : p;
    if (local_is_due(p)) want(h, p);
    return NULL;
}

static struct sn_peer *local_find(void *ctx, const uint8_t gid[16], uint32_t qpn)
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
    struct sn_local *h = ctx;
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

/*
 * A peer may well not be let run for a long time, where others want the processors too: what is for it waits.
 * One that was stopped, or is dead, may never take anything, and frames for it get lost, as on a wire, until
 * it does.
 */
static bool given_up(struct sn_peer *p, uint64_t now)
{
    if (!p->full_since || p->head != p->full_head) {
        p->full_since = now;
        p->full_head = p->head;
        p->look_after = STILL_NS;
        p->given_up = false;
    }
    if (now - p->full_since > GIVE_UP_NS) return true;
    if (!p->given_up && now - p->full_since > p->look_after) {
        p->look_after *= 2;
        p->given_up = sn_process_stands_still(p->pid);
    }
    return p->given_up;
}

/* Room for all that the NIC may have made before this and not yet offered. The peer's count is asked for only
 * when what is known of it does not do: its place in memory is the peer's to write. */
static bool local_room(void *ctx, const uint8_t gid[16], uint32_t qpn, uint64_t now)
{
    enum { ENOUGH = SN_SHARE_FRAMES - SN_TX_FRAMES };
    struct sn_peer *p = met(ctx, gid, qpn);

    if (!p || p->tail - p->head < ENOUGH) return true;
    p->head = p->tail - sn_ring_used(p->channel, p->tail);
    if (p->tail - p->head >= ENOUGH) return given_up(p, now);
    p->full_since = 0;
    return true;
}

static bool lags(void *ctx, const struct sn_peer *p)
{
    (void)ctx;
    return sn_ring_used(p->channel, p->tail) >= SN_LOCAL_BEHIND;
}

static bool local_lends(void *ctx)
{
    const struct sn_local *h = ctx;

    return h->cfg.copy;
}

const struct sn_peer_ops sn_local_peer_ops = {
    .region = region,
    .queue = queue,
    .quiesce = sn_access_quiesce,
    .find = local_find,
    .in_memory = in_memory,
    .room = local_room,
    .pulls = pulls,
    .lags = lags,
    .enter = sn_access_enter,
    .grant = sn_access_grant,
    .copy = sn_access_copy,
    .leave = sn_access_leave,
    .lends = local_lends,
};

/* ---- frames -------------------------------------------------------------------------------------------- */

/* The byte of a frame that holds the slot of the queue pair that it is for. */
static struct sn_peer *peer_of(struct sn_local *h, const struct sn_frame *f)
{
    if (f->len < ROCE_MIN_PACKET || f->len > SN_FRAME_MAX) return NULL;
    if (!f->data[5] && !f->data[6] && f->data[7] <= ROCE_GSI_QPN) return NULL; /* every process has those */
    return met(h, f->dst_gid, (uint32_t)f->data[5] << 16);
}

bool sn_local_reaches(struct sn_local *h, const struct sn_frame *f)
{
    return peer_of(h, f) != NULL;
}

int sn_local_send(struct sn_local *h, const struct sn_frame *f)
{
    struct sn_peer *p = peer_of(h, f);

    if (!p) return -ENOENT;
    if (!sn_ring_put(p->channel, &p->tail, f->data, f->len, f->rndv)) {
        /* Its peer was given up, or has just gone from the wire to memory. Never to wait here: there are
         * others. */
        __atomic_store_n(&h->lost, h->lost + 1, __ATOMIC_RELAXED);
        return 1;
    }
    if (!p->sent) h->to_wake[h->to_wake_count++] = p;
    p->sent = true;
    return 1;
}

void sn_local_sent(struct sn_local *h)
{
    if (!h->to_wake_count) return;
    /* Sequentially consistent, with sn_local_doze: either the sleeper sees the frames or we see that it
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

static void local_fill(const struct sn_local *h, const struct sn_sender *s, struct sn_frame *f, uint8_t *data,
                       int len, bool rndv)
{
    memset(f, 0, sizeof(*f));
    memcpy(f->src_gid, s->gid, 16);
    memcpy(f->dst_gid, h->cfg.gid, 16);
    f->sport = (uint16_t)(SN_SLOT_PORT + s->slot);
    f->has_ip_id = f->same_host = true;
    f->no_icrc = true;
    f->rndv = rndv;
    f->len = (uint32_t)len;
    f->data = data;
}

/* Has it sent frames before? */
static bool heard(struct sn_local *h, struct sn_sender *s)
{
    if (s->heard || sn_ring_empty(s->channel, &s->head)) return s->heard;
    /* Acquire, with the release in sn_ring_put: a look at the sockets from now on finds the peer's earlier
     * frames there. */
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    s->heard = true;
    h->met++;
    return false;
}

int sn_local_recv(struct sn_local *h, struct sn_frame *frames, int max)
{
    int n = 0;

    if (max > SN_LOCAL_RX) max = SN_LOCAL_RX;
    for (unsigned i = 0; i < h->senders && n < max; i++) {
        /* Another one's turn to be first each time: none can keep the others from being heard. */
        struct sn_sender *s = h->sender[(h->next_sender + i) % h->senders];

        if (!s->channel || !heard(h, s)) continue;
        while (!s->broken && n < max) {
            bool rndv;
            int len = sn_ring_take(s->channel, &s->head, h->rx[n], &rndv);

            if (len < 0) __atomic_store_n(&s->broken, true, __ATOMIC_RELAXED);
            if (len <= 0) break;
            local_fill(h, s, &frames[n], h->rx[n], len, rndv);
            n++;
        }
    }
    h->next_sender++;
    return n;
}

void sn_local_pause(struct sn_local *h, bool pause)
{
    h->paused = pause;
    __atomic_store_n(&h->table->head.paused, pause, __ATOMIC_RELAXED);
}

unsigned sn_local_met(const struct sn_local *h)
{
    return h->met;
}

uint64_t sn_local_lost(const struct sn_local *h)
{
    return __atomic_load_n(&h->lost, __ATOMIC_RELAXED);
}

unsigned sn_local_senders(const struct sn_local *h)
{
    return __atomic_load_n(&h->senders, __ATOMIC_RELAXED);
}

/* Not on the data path: it may read a file. */
void sn_local_info(struct sn_local *h, struct sn_local_info *info)
{
    memset(info, 0, sizeof(*info));
    for (unsigned i = 0; i < SN_LOCAL_PEERS; i++) {
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
