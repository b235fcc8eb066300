/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/softnic/world.h"
#include "tests/softnic/fake_peers.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/roce/hdr.h"

uint32_t world_below(struct world *w, uint32_t n)
{
    return rnd_below(&w->rnd, n);
}

bool world_chance(struct world *w, uint32_t of_10000)
{
    return of_10000 && world_below(w, 10000) < of_10000;
}

/* ---- frames on their way ------------------------------------------------------------------------------- */

static bool before(const struct flight *a, const struct flight *b)
{
    return a->at < b->at || (a->at == b->at && a->order < b->order);
}

static void heap_add(struct world *w, struct flight *f)
{
    uint32_t i = w->flights++;

    if (w->flights > w->room) {
        w->room = w->room ? w->room * 2 : 256;
        w->heap = realloc(w->heap, w->room * sizeof(*w->heap));
        if (!w->heap) abort();
    }
    for (; i && before(f, w->heap[(i - 1) / 2]); i = (i - 1) / 2) w->heap[i] = w->heap[(i - 1) / 2];
    w->heap[i] = f;
}

static struct flight *heap_take(struct world *w)
{
    struct flight *first = w->heap[0], *last = w->heap[--w->flights];
    uint32_t i = 0;

    for (;;) {
        uint32_t c = 2 * i + 1;

        if (c + 1 < w->flights && before(w->heap[c + 1], w->heap[c])) c++;
        if (c >= w->flights || !before(w->heap[c], last)) break;
        w->heap[i] = w->heap[c];
        i = c;
    }
    w->heap[i] = last;
    return first;
}

static struct flight *new_flight(struct world *w)
{
    struct flight *f = w->unused;

    if (f)
        w->unused = f->next;
    else
        f = malloc(sizeof(*f));
    if (!f) abort();
    return f;
}

static void free_flight(struct world *w, struct flight *f)
{
    f->next = w->unused;
    w->unused = f;
}

static void launch(struct world *w, const struct sn_frame *frame)
{
    struct flight *f = new_flight(w);
    uint64_t delay = w->faults.delay_ns + world_below(w, (uint32_t)w->faults.jitter_ns + 1);

    if (world_chance(w, w->faults.reorder)) delay += world_below(w, (uint32_t)w->faults.reorder_ns + 1);
    f->at = w->now + delay;
    f->order = w->sent++;
    f->frame = *frame;
    memcpy(f->data, frame->data, frame->len);
    f->frame.data = f->data;
    if (frame->ecn == ROCE_ECT && world_chance(w, w->faults.mark)) f->frame.ecn = ROCE_CE;
    if (world_chance(w, w->faults.corrupt))
        f->data[world_below(w, frame->len)] ^= (uint8_t)(1u << world_below(w, 8));
    heap_add(w, f);
}

static int wire_send(void *ctx, const struct sn_frame *frames, int n)
{
    struct world *w = ((struct world_nic *)ctx)->world;
    int take = world_chance(w, w->faults.refuse) ? (int)world_below(w, (uint32_t)n + 1) : n;

    for (int i = 0; i < take; i++) {
        if (!world_chance(w, w->faults.loss)) launch(w, &frames[i]);
        if (world_chance(w, w->faults.dup)) launch(w, &frames[i]);
    }
    return take;
}

static void drop_lent(struct world_nic *n)
{
    while (n->lent) {
        struct flight *f = n->lent;

        n->lent = f->next;
        free_flight(n->world, f);
    }
}

static int wire_recv(void *ctx, struct sn_frame *frames, int max, bool *more)
{
    struct world_nic *n = ctx;
    int i;

    drop_lent(n);
    if (max > 4) max = 1 + (int)world_below(n->world, (uint32_t)max); /* batches of any size */
    for (i = 0; i < max && n->inbox; i++) {
        struct flight *f = n->inbox;

        n->inbox = f->next;
        if (!n->inbox) n->inbox_end = &n->inbox;
        f->next = n->lent;
        n->lent = f;
        frames[i] = f->frame;
    }
    *more = n->inbox != NULL;
    return i;
}

static struct sn_owner wire_owner(void *ctx, const uint8_t gid[16], uint32_t qpn)
{
    struct world *w = ((struct world_nic *)ctx)->world;

    (void)gid;
    (void)qpn;
    w->owner_looks++;
    return w->owner;
}

static const struct sn_wire_ops wire_ops = {wire_send, wire_recv, wire_owner};

static void put_into_inbox(struct world_nic *n, struct flight *f)
{
    f->next = NULL;
    *n->inbox_end = f;
    n->inbox_end = &f->next;
}

/* By address, and where NICs share one by the slot in the queue pair's number, as the wire of processes does.
 */
static void arrive(struct world *w, struct flight *f)
{
    bool for_all = !f->data[5] && !f->data[6] && f->data[7] == 1; /* queue pair 1: the first node */

    for (unsigned i = 0; i < WORLD_NICS; i++) {
        struct world_nic *n = &w->nics[i];

        if (memcmp(n->gid, f->frame.dst_gid, 16) || (f->data[5] != i && !for_all)) continue;
        put_into_inbox(n, f);
        return;
    }
    free_flight(w, f);
}

static void arrivals(struct world *w)
{
    while (w->flights && w->heap[0]->at <= w->now) {
        struct flight *f = heap_take(w);

        if (w->cut)
            free_flight(w, f);
        else
            arrive(w, f);
    }
}

void world_inject(struct world *w, unsigned i, const uint8_t *src_gid, uint16_t sport, const void *data,
                  uint32_t len)
{
    struct flight *f = new_flight(w);

    memset(&f->frame, 0, sizeof(f->frame));
    memcpy(f->frame.src_gid, src_gid ? src_gid : w->nics[0].gid, 16);
    memcpy(f->frame.dst_gid, w->nics[i].gid, 16);
    f->frame.sport = sport;
    f->frame.has_ip_id = true;
    f->frame.rndv = w->inject_offers;
    f->frame.same_host = w->inject_same_host;
    f->frame.len = len;
    f->frame.data = f->data;
    memcpy(f->data, data, len);
    put_into_inbox(&w->nics[i], f);
}

/* ---- callbacks ----------------------------------------------------------------------------------------- */

static void on_cq_event(void *user, void *cq_user)
{
    struct world *w = ((struct world_nic *)user)->world;

    if (w->cq_event) w->cq_event(cq_user);
}

static void on_async_event(void *user, enum ibv_event_type type, void *object_user)
{
    struct world *w = ((struct world_nic *)user)->world;

    w->events[type]++;
    w->event_user = object_user;
}

static bool on_mad(void *user, const uint8_t dgid[16], const uint8_t sgid[16], int slot,
                   uint8_t mad[SN_MAD_LEN])
{
    struct world_nic *n = user;

    if (memcmp(dgid, n->gid, 16) || slot != SN_NO_SLOT) abort();
    return n->world->mad && n->world->mad(n->index, sgid, mad);
}

/* The oldest go when there is no room. */
static void remember(struct world *w, const char *line)
{
    size_t room = sizeof(w->report), len = strlen(w->report), more = strlen(line) + 1;

    if (len + more >= room) {
        memmove(w->report, w->report + room / 2, len - room / 2 + 1);
        len -= room / 2;
    }
    snprintf(w->report + len, room - len, "%s\n", line);
}

static void on_report(void *user, const char *line)
{
    struct world_nic *n = user;

    n->world->reports++;
    remember(n->world, line);
    if (n->world->verbose)
        printf("NIC %u at %llu ns: %s\n", n->index, (unsigned long long)n->world->now, line);
}

static void on_warn(void *user, const char *line)
{
    ((struct world_nic *)user)->world->warnings++;
    on_report(user, line);
}

/* ---- up, down, running --------------------------------------------------------------------------------- */

static void nic_up(struct world *w, unsigned i, const struct world_options *o)
{
    struct world_nic *n = &w->nics[i];
    struct sn_nic_config c = {
        .slot = (uint8_t)i,
        .sport = (uint16_t)(0xc000 + i),
        .seed = o->seed * 31 + i,
        .secret = o->secret,
        .hostile = o->hostile,
        .ecn = !o->no_ecn,
        .loop_on_wire = o->loop_on_wire,
        .max_mtu = o->max_mtu,
        .window_packets = o->window_packets,
        .window_bytes = o->window_bytes,
        .budget = o->budget,
        .rndv_min = o->rndv_min,
        .probe_ns = o->probe_ns,
        .wire = &wire_ops,
        .wire_ctx = n,
        .user = n,
        .cq_event = on_cq_event,
        .async_event = on_async_event,
        .mad = on_mad,
        .report = on_report,
        .warn = on_warn,
    };

    n->world = w;
    n->index = i;
    n->inbox_end = &n->inbox;
    memcpy(n->gid, (uint8_t[16]){[10] = 0xff, [11] = 0xff, [12] = 10}, 16);
    n->gid[15] = (uint8_t)(o->same_address ? 1 : 1 + i);
    memcpy(c.gid, n->gid, 16);
    if (o->peers) {
        c.peers = &fake_peer_ops;
        c.peers_ctx = fake_peers_node(o->peers, i);
    }
    n->next = SN_NEVER;
    if (o->only && i != o->only - 1) return;
    if (sn_nic_create(&c, &n->nic)) abort();
}

void world_up(struct world *w, const struct world_options *o)
{
    memset(w, 0, sizeof(*w));
    w->rnd.state = o->seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
    w->now = 1000;
    for (unsigned i = 0; i < WORLD_NICS; i++) nic_up(w, i, o);
}

void world_down(struct world *w)
{
    for (unsigned i = 0; i < WORLD_NICS; i++) {
        struct world_nic *n = &w->nics[i];

        if (n->nic && sn_nic_destroy(n->nic)) abort();
        drop_lent(n);
        while (n->inbox) {
            struct flight *f = n->inbox;

            n->inbox = f->next;
            free(f);
        }
    }
    while (w->flights) free(heap_take(w));
    while (w->unused) {
        struct flight *f = w->unused;

        w->unused = f->next;
        free(f);
    }
    free(w->heap);
}

void world_run(struct world *w, unsigned i)
{
    w->nics[i].next = sn_nic_progress(w->nics[i].nic, w->now);
}

bool world_busy(const struct world *w)
{
    for (unsigned i = 0; i < WORLD_NICS; i++)
        if (w->nics[i].inbox || w->nics[i].next <= w->now) return true;
    return false;
}

bool world_advance(struct world *w, uint64_t max_ns)
{
    uint64_t to = SN_NEVER;

    if (w->flights) to = w->heap[0]->at;
    for (unsigned i = 0; i < WORLD_NICS; i++)
        if (w->nics[i].next < to) to = w->nics[i].next;
    if (to == SN_NEVER) return false;
    if (to > w->now + max_ns) to = w->now + max_ns;
    if (to > w->now) w->now = to;
    arrivals(w);
    return true;
}

void world_settle(struct world *w, uint64_t max_ns)
{
    uint64_t end = w->now + max_ns;

    do {
        arrivals(w);
        for (unsigned i = 0; i < WORLD_NICS; i++)
            if (w->nics[i].nic) world_run(w, i);
    } while (world_busy(w) || (w->now < end && world_advance(w, end - w->now) && w->now < end));
}
