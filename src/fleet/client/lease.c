/* SPDX-License-Identifier: Apache-2.0 */
/* lease.c: the leases that a client holds: grants, ends, and which one a request takes. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "src/fleet/client/rdma.h"
#include "src/fleet/plan/choose.h"

enum { LEASE_MOST_SLOTS = 1 << 16 };
#define LEASE_MOST_NS (3600ll * FLEET_SECOND)

/* ---- finding one */

static uint64_t lease_hash(const struct fleet_peer *p, uint32_t number)
{
    const uint64_t key[2] = {p->serial, number};
    return fleet_table_hash(p->client->seed, key, sizeof key);
}

static struct fleet_holding *lease_find(const struct fleet_peer *p, uint32_t number)
{
    struct fleet_entry *e = fleet_table_find(&p->client->leases, lease_hash(p, number));
    for (; e; e = fleet_table_next(e)) {
        struct fleet_holding *h = (struct fleet_holding *)e;
        if (h->peer == p && h->number == number) return h;
    }
    return NULL;
}

/* ---- in its model's lists */

static int lease_list(struct fleet_holding *h)
{
    struct fleet_holdings *l = &h->model->held[h->spill];
    if (l->n == l->most) {
        uint32_t most = l->most ? 2 * l->most : 4;
        struct fleet_holding **more = realloc(l->at, most * sizeof(struct fleet_holding *));
        if (!more) return -ENOMEM;
        l->at = more;
        l->most = most;
    }
    h->at = l->n;
    l->at[l->n++] = h;
    return 0;
}

static void lease_unlist(struct fleet_holding *h)
{
    struct fleet_holdings *l = &h->model->held[h->spill];
    struct fleet_holding *last = l->at[--l->n];
    l->at[h->at] = last;
    last->at = h->at;
}

/* ---- its life */

void fleet_lease_put(struct fleet_holding *h)
{
    if (!h->dropped || h->flying) return;
    fleet_peer_left(h->peer);
    free(h);
}

void fleet_lease_drop(struct fleet_holding *h)
{
    struct fleet_client *c = h->peer->client;
    if (h->dropped) return;
    fleet_timer_clear(c->loop, &h->timer);
    fleet_table_remove(&c->leases, &h->entry);
    lease_unlist(h);
    c->stats.leases--;
    h->dropped = true;
    fleet_lease_put(h);
}

static void lease_is_over(void *ctx)
{
    fleet_lease_drop(ctx);
}

static struct fleet_holding *lease_make(struct fleet_peer *p, struct fleet_client_model *m,
                                        const struct fleet_granted *g)
{
    struct fleet_client *c = p->client;
    struct fleet_holding *h = calloc(1, sizeof *h);
    if (!h) return NULL;
    *h = (struct fleet_holding){.model = m, .peer = p, .number = g->lease, .key = g->key};
    h->spill = g->spill != 0;
    if (lease_list(h)) {
        free(h);
        return NULL;
    }
    if (fleet_table_add(&c->leases, &h->entry, lease_hash(p, h->number))) {
        lease_unlist(h);
        free(h);
        return NULL;
    }
    p->holds++;
    c->stats.leases++;
    return h;
}

/* The lease of a grant: the one that it renews, or a new one. NULL: no memory. */
static struct fleet_holding *lease_of(struct fleet_peer *p, struct fleet_client_model *m,
                                      const struct fleet_granted *g)
{
    struct fleet_holding *h = lease_find(p, g->lease);
    if (h && h->model == m && h->key == g->key && h->spill == (g->spill != 0)) return h;
    if (h) fleet_lease_drop(h);
    return lease_make(p, m, g);
}

/* A lease's numbers are such that requests can be sent on it. */
static bool lease_makes_sense(const struct fleet_granted *g)
{
    return fleet_text_ok(g->worker, sizeof g->worker) && fleet_text_ok(g->address, sizeof g->address) &&
           g->key && g->slots && isfinite(g->rate) && g->rate > 0 && g->left_ns > 0 && g->exec_ns >= 0;
}

/* It may have been made when the leader got the message that it answers; one that answers none, now. */
static int64_t lease_from(const struct fleet_client_model *m, uint64_t seq, int64_t now)
{
    for (uint32_t i = 0; i < FLEET_DEMANDS_KEPT; i++)
        if (m->told[i].at && m->told[i].seq == seq) return m->told[i].at;
    return now;
}

/* Workers allow bursts of all slots. What was sent apart may arrive together, so an eighth is left. */
static double lease_burst(uint32_t slots)
{
    return slots > 1 ? slots - (slots + 7) / 8 : 1;
}

void fleet_lease_granted(struct fleet_client *c, uint64_t seq, const struct fleet_granted *g)
{
    struct fleet_client_model *m = fleet_client_named(c, g->model);
    int64_t now = fleet_loop_now(c->loop);
    if (!m || !lease_makes_sense(g)) return;
    int64_t left = g->left_ns < LEASE_MOST_NS ? g->left_ns : LEASE_MOST_NS;
    int64_t until = lease_from(m, seq, now) + left;
    if (until <= now) return;
    struct fleet_peer *p = fleet_peer_of(c, g);
    struct fleet_holding *h = p ? lease_of(p, m, g) : NULL;
    if (p) fleet_peer_left(p); /* the lease holds it */
    if (!h) return;            /* no memory: the next grant may find some */
    h->slots = g->slots < LEASE_MOST_SLOTS ? g->slots : LEASE_MOST_SLOTS;
    h->max_batch = g->max_batch;
    fleet_bucket_set(&h->bucket, g->rate, lease_burst(h->slots), now);
    m->exec_ns = g->exec_ns < FLEET_SECOND * 60ll ? g->exec_ns : 0;
    m->sample_bytes = g->request_bytes;
    m->absent_until = 0;
    m->why = NULL;
    m->retry_ns = 0;
    if (until > h->until_at) h->until_at = until;
    c->stats.granted++;
    if (c->rdma && g->reply_bytes)
        fleet_rdma_begin(p, h, g->request_bytes * (g->max_batch ? g->max_batch : 1), g->reply_bytes);
    if (fleet_timer_set(c->loop, &h->timer, h->until_at, lease_is_over, h))
        fleet_lease_drop(h);
    else
        fleet_query_drain(m);
}

void fleet_lease_revoked(struct fleet_client *c, const struct fleet_revoked *r)
{
    struct fleet_entry *e = fleet_table_find(&c->peers, fleet_table_hash(c->seed, r->worker_id, FLEET_ID));
    for (; e; e = fleet_table_next(e)) {
        struct fleet_peer *p = (struct fleet_peer *)e;
        if (memcmp(p->id, r->worker_id, FLEET_ID)) continue;
        struct fleet_holding *h = lease_find(p, r->lease);
        if (h) fleet_lease_drop(h);
        c->stats.revoked += h != NULL;
        return;
    }
}

/* ---- choosing */

static bool lease_open(const struct fleet_holding *h, const struct fleet_query *j, int64_t now)
{
    return h->peer->open && h->until_at > now && h->peer->serial != j->refused_by;
}

/* Takes a slot's token, or says when there is one. */
static bool lease_take(struct fleet_holding *h, const struct fleet_query *j, int64_t now, int64_t *when)
{
    if (!lease_open(h, j, now)) return false;
    if (j->describes) return true;
    if (h->flying >= h->slots) return false;
    if (fleet_bucket_take(&h->bucket, j->r.rows, now)) return true;
    int64_t at = fleet_bucket_when(&h->bucket, j->r.rows);
    if (!*when || at < *when) *when = at;
    return false;
}

static struct fleet_use lease_use(const struct fleet_holding *h, int64_t now)
{
    return (struct fleet_use){.flying = h->flying, .slots = h->slots, .avoid = h->avoid_at > now};
}

/* The better of two by chance; if neither can, the first of all that can. */
static struct fleet_holding *lease_among(const struct fleet_holdings *l, const struct fleet_query *j,
                                         int64_t now, int64_t *when)
{
    struct fleet_client *c = j->model->client;
    if (!l->n) return NULL;
    uint32_t i = l->n > 1 ? fleet_client_random(c, l->n) : 0;
    struct fleet_holding *a = l->at[i];
    if (l->n > 1) {
        struct fleet_holding *b = l->at[fleet_choose_other(i, l->n, fleet_client_random(c, l->n - 1))];
        bool first = fleet_choose_first(lease_use(a, now), lease_use(b, now));
        if (lease_take(first ? a : b, j, now, when)) return first ? a : b;
        if (lease_take(first ? b : a, j, now, when)) return first ? b : a;
        for (uint32_t k = 0; l->n > 2 && k < l->n; k++)
            if (lease_take(l->at[k], j, now, when)) return l->at[k];
        return NULL;
    }
    return lease_take(a, j, now, when) ? a : NULL;
}

struct fleet_holding *fleet_lease_pick(struct fleet_query *j, int64_t now, int64_t *when)
{
    const struct fleet_client_model *m = j->model;
    int first = j->refused_by != 0; /* what was refused goes where a lease is for it, if one is */
    struct fleet_holding *h = lease_among(&m->held[first], j, now, when);
    return h ? h : lease_among(&m->held[!first], j, now, when);
}
