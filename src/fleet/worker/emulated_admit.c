/* SPDX-License-Identifier: Apache-2.0 */
/* emulated_admit.c: leases, and which requests they let in. */
#include "src/fleet/worker/emulated_impl.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <gpuwire/error.h>

#define ADMIT_SLOWEST 1e-3f /* samples a second */
enum { ADMIT_FIRST = 64 };

/* Makes room for a lease of that number. */
static bool admit_room(struct emulated *e, uint32_t number)
{
    if (number < e->leases) return true;
    uint32_t n = e->leases ? e->leases : ADMIT_FIRST;
    while (n <= number) n *= 2;
    struct emulated_lease *grown = realloc(e->lease, n * sizeof(*grown));
    if (!grown) return false;
    memset(grown + e->leases, 0, (n - e->leases) * sizeof(*grown));
    e->lease = grown;
    e->leases = n;
    return true;
}

static uint32_t admit_batch_of(const struct fleet_lease *l)
{
    return l->max_batch && l->max_batch < FLEET_MAX_BATCH ? l->max_batch : FLEET_MAX_BATCH;
}

int emulated_lease(struct fleet_engine *engine, const struct fleet_lease *l, int64_t until_at)
{
    struct emulated *e = emulated_of(engine);
    if (l->lease >= e->o.leases) return gw_error(-EINVAL, "the table has %u leases", e->o.leases);
    if (until_at &&
        (l->model >= e->o.zoo->models || !l->slots || l->slots > e->o.slots || !l->key || !(l->rate >= 0)))
        return gw_error(-EINVAL, "lease %u has no key, model, slots or rate that make sense", l->lease);
    struct emulated_place *p = until_at ? emulated_place(e, l->model) : NULL;
    if (!admit_room(e, l->lease) || (until_at && !p))
        return gw_error(-ENOMEM, "no memory for lease %u", l->lease);
    struct emulated_lease *at = &e->lease[l->lease];
    bool same = at->lease.key == l->key;
    if (at->lease.key) e->place[at->lease.model]->of_batch[admit_batch_of(&at->lease)]--;
    at->lease.key = 0;
    if (!until_at) return 0;
    if (!same) {
        at->next_at = 0;
        at->in_flight = 0;
    }
    at->lease = *l;
    at->until_at = until_at;
    at->interval_ns =
        l->rate > 0 ? (int64_t)(1e9 / (double)(l->rate < ADMIT_SLOWEST ? ADMIT_SLOWEST : l->rate)) : 0;
    p->of_batch[admit_batch_of(l)]++;
    return 0;
}

/* The lease that this request may use, or NULL: forged, foreign or expired. */
static struct emulated_lease *admit_lease(struct emulated *e, const struct fleet_call *c)
{
    if (c->request.lease >= e->leases) return NULL;
    struct emulated_lease *l = &e->lease[c->request.lease];
    bool good = l->lease.key && l->lease.key == c->request.key &&
                !memcmp(l->lease.client, c->client, sizeof(c->client)) && c->arrived_at <= l->until_at;
    return good ? l : NULL;
}

/* Whether the lease has a slot and budget left; else when it will have. As on the device: `next_at` is when
 * a client that sends at the lease's rate would have sent all that came, and it may run ahead of the clock by
 * `slots` samples. A rate of 0 is no limit. */
static bool admit_budget(const struct emulated *e, const struct emulated_lease *l, int64_t now,
                         int64_t *retry_ns)
{
    int64_t ahead = l->interval_ns * (int64_t)(l->lease.slots - 1);
    if (l->in_flight >= l->lease.slots) {
        int64_t left = e->ends_at - now;
        *retry_ns = e->running && left > 0 ? left : fleet_profile_exec(&e->o.zoo->profile, 1);
        return false;
    }
    *retry_ns = l->next_at - ahead - now;
    return *retry_ns <= 0;
}

static void admit_charge(struct emulated_lease *l, uint32_t rows, int64_t now)
{
    l->next_at = (l->next_at > now ? l->next_at : now) + l->interval_ns * rows;
    l->in_flight++;
}

/* The device's order: the lease, the message, the model, the budget, the deadline. */
static enum gw_serve_status admit_request(struct emulated *e, struct fleet_call *c,
                                          struct emulated_lease **lease, int64_t *retry_ns)
{
    const struct fleet_request *r = &c->request;
    const struct fleet_profile *f = &e->o.zoo->profile;
    struct emulated_lease *l = admit_lease(e, c);
    *retry_ns = 0;
    *lease = NULL;
    if (!l) return GW_SERVE_NO_LEASE;
    if (!r->rows || r->rows > FLEET_MAX_BATCH || r->bytes != (uint64_t)r->rows * f->request_bytes)
        return GW_SERVE_BAD_REQUEST;
    if (emulated_where(e, l->lease.model) != FLEET_GPU) {
        *retry_ns = f->load_ns;
        return GW_SERVE_NOT_THERE;
    }
    if (r->rows > admit_batch_of(&l->lease) || !admit_budget(e, l, c->arrived_at, retry_ns))
        return GW_SERVE_OVER_BUDGET;
    int64_t deadline = INT64_MAX;
    if (r->budget_ns && r->budget_ns < (uint64_t)(INT64_MAX - c->arrived_at))
        deadline = c->arrived_at + (int64_t)r->budget_ns;
    int64_t done = deadline == INT64_MAX ? 0 : emulated_estimate(e, e->place[l->lease.model], c, deadline);
    if (done > deadline) {
        *retry_ns = done - deadline;
        return GW_SERVE_LATE;
    }
    *retry_ns = 0;
    *lease = l;
    return GW_SERVE_OK;
}

void emulated_submit(struct fleet_engine *engine, struct fleet_call *c)
{
    struct emulated *e = emulated_of(engine);
    struct emulated_lease *l;
    int64_t retry_ns;
    enum gw_serve_status status = admit_request(e, c, &l, &retry_ns);
    uint32_t number = c->request.lease;
    struct emulated_place *p = NULL;
    if (status != GW_SERVE_NO_LEASE && status != GW_SERVE_BAD_REQUEST) {
        p = emulated_place(e, e->lease[number].lease.model);
        if (p) p->requests++, p->refused += status != GW_SERVE_OK, emulated_tell(e, p);
    }
    if (status == GW_SERVE_OK && (!p || !emulated_enqueue(e, p, c))) status = GW_SERVE_FAILED;
    if (status != GW_SERVE_OK) {
        emulated_answer(e, c, status, retry_ns);
        return;
    }
    admit_charge(l, c->request.rows, c->arrived_at);
    emulated_look(e);
}
