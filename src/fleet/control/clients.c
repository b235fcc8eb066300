/* SPDX-License-Identifier: Apache-2.0 */
/* Clients, and what they want of which model. A DEMAND costs the same however many clients and models there
 * are: sums change by the difference to the client's last one. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "src/fleet/control/impl.h"

#define CLIENTS_SILENT (5 * CTL_SECOND) /* a want that no DEMAND renews */
#define CLIENTS_BACK   CTL_SECOND       /* time to come back for one that is gone */
#define CLIENTS_RATE   1e7              /* requests a second of one client and model that are believed */

/* ---- wants */

static uint64_t clients_want_hash(const struct fleet_control *c, const struct ctl_client *client,
                                  uint32_t model)
{
    struct {
        uint8_t id[FLEET_ID];
        uint64_t model;
    } key = {.model = model};
    memcpy(key.id, client->id, FLEET_ID);
    return fleet_table_hash(c->seed, &key, sizeof(key));
}

struct ctl_want *ctl_want_find(struct fleet_control *c, const struct ctl_client *client, uint32_t model)
{
    struct fleet_entry *e = fleet_table_find(&c->wants, clients_want_hash(c, client, model));
    for (; e; e = fleet_table_next(e)) {
        struct ctl_want *w = CTL_OF(struct ctl_want, entry, e);
        if (w->client == client && w->model == model) return w;
    }
    return NULL;
}

/* What the want counts for in its model's sums. */
static void clients_count(struct fleet_control *c, struct ctl_want *w, uint32_t class, double offered,
                          uint64_t waiting)
{
    struct ctl_model *m = &c->models[w->model];
    m->offered[w->class] -= w->offered;
    m->waiting[w->class] -= w->waiting;
    if (m->offered[w->class] < 0 || m->nwants == 1) m->offered[w->class] = 0; /* what rounding has left */
    w->class = class;
    w->offered = offered;
    w->waiting = waiting;
    m->offered[class] += offered;
    m->waiting[class] += waiting;
}

/* Ends the client's leases of this model. */
static void clients_end_leases(struct fleet_control *c, struct ctl_want *w)
{
    struct ctl_link *head = &w->client->leases;
    for (struct ctl_link *l = head->next, *next; l != head; l = next) {
        struct ctl_lease *lease = CTL_OF(struct ctl_lease, of_client, l);
        next = l->next;
        if (lease->want == w) ctl_lease_end(c, lease, true);
    }
}

static void clients_drop_want(struct fleet_control *c, struct ctl_want *w)
{
    clients_end_leases(c, w);
    clients_count(c, w, w->class, 0, 0);
    fleet_timer_clear(c->o.loop, &w->timer);
    fleet_table_remove(&c->wants, &w->entry);
    ctl_link_remove(&w->of_client);
    ctl_link_remove(&w->of_model);
    c->models[w->model].nwants--;
    ctl_model_dirty(c, w->model);
    free(w);
}

static void clients_want_is_old(void *ctx)
{
    struct ctl_want *w = ctx;
    clients_drop_want(w->client->control, w);
}

/* Leases that a new leader learned from a worker belong to the want when it comes. */
static void clients_attach(struct ctl_want *w)
{
    struct ctl_link *head = &w->client->leases;
    for (struct ctl_link *l = head->next; l != head; l = l->next) {
        struct ctl_lease *lease = CTL_OF(struct ctl_lease, of_client, l);
        if (lease->model != w->model || lease->want) continue;
        lease->want = w;
        w->nleases++;
    }
}

static struct ctl_want *clients_new_want(struct fleet_control *c, struct ctl_client *client, uint32_t model)
{
    struct ctl_want *w = calloc(1, sizeof(*w));
    if (!w) return NULL;
    w->client = client;
    w->model = model;
    w->nothing_at = ctl_now(c) - CTL_SECOND;
    if (fleet_table_add(&c->wants, &w->entry, clients_want_hash(c, client, model))) {
        free(w);
        return NULL;
    }
    ctl_link_add(&client->wants, &w->of_client);
    ctl_link_add(&c->models[model].wants, &w->of_model);
    c->models[model].nwants++;
    clients_attach(w);
    return w;
}

/* ---- what is shed */

static void clients_shed(struct fleet_control *c, const struct ctl_want *w, uint32_t class)
{
    const struct ctl_model *m = &c->models[w->model];
    struct fleet_sheds s = {.deadline_ns = m->edge_ns[class]};
    s.admitted = c->state->demand[w->model].admitted[class];
    memcpy(s.model, m->name, sizeof(s.model));
    if (w->client->conn) fleet_send(w->client->conn, FLEET_SHEDS, 0, &s, sizeof(s), NULL, 0, NULL);
}

/* Classes that are not shed are told, too: a client takes the first whose deadline is not shorter. */
void ctl_sheds(struct fleet_control *c, uint32_t model, uint32_t class)
{
    struct ctl_model *m = &c->models[model];
    for (struct ctl_link *l = m->wants.next; l != &m->wants; l = l->next)
        clients_shed(c, CTL_OF(struct ctl_want, of_model, l), class);
}

/* ---- DEMAND */

static uint32_t clients_class(const struct ctl_model *m, int64_t deadline_ns)
{
    uint32_t class = 0;
    if (deadline_ns <= 0) return FLEET_CLASSES - 1;
    while (m->edge_ns[class] < deadline_ns) class ++;
    return class;
}

static void clients_none(struct ctl_conn *k, const struct fleet_frame *f,
                         const struct fleet_demand_message *d)
{
    struct fleet_nothing n = {.error = -ENOENT, .retry_ns = CTL_SECOND, .why = "no worker has such a model"};
    if (!k->control->settled) return; /* its workers may come yet */
    /* While it may lead no more, its workers may be with another one. */
    if (k->control->frozen || ctl_wish_find(k->control, d->model, d->version)) n.error = -EAGAIN;
    memcpy(n.model, d->model, sizeof(n.model));
    fleet_send(k->conn, FLEET_NOTHING, f->seq, &n, sizeof(n), NULL, 0, NULL);
}

static void clients_deadline(struct fleet_control *c, uint32_t model, uint32_t class, int64_t deadline_ns)
{
    struct fleet_class *x = &c->state->demand[model].class[class];
    bool quiet = c->models[model].nwants == 1 || !x->deadline_ns;
    if (deadline_ns <= 0) deadline_ns = 10 * CTL_SECOND;
    if (quiet || deadline_ns < x->deadline_ns) x->deadline_ns = deadline_ns;
}

static void clients_take(struct fleet_control *c, struct ctl_want *w, const struct fleet_demand_message *d)
{
    struct ctl_model *m = &c->models[w->model];
    int64_t since = d->since_ns < 10 * CTL_MS ? 10 * CTL_MS : d->since_ns;
    double offered = (double)d->offered / (double)since * 1e9;
    uint32_t class = clients_class(m, d->deadline_ns);
    if (offered > CLIENTS_RATE) offered = CLIENTS_RATE;
    clients_deadline(c, w->model, class, d->deadline_ns);
    bool first = d->waiting && !w->waiting && !w->nleases;
    clients_count(c, w, class, offered, d->waiting);
    w->slots = d->slots;
    m->count.offered += d->offered;
    m->count.answered += d->answered;
    m->count.late += d->late;
    m->count.refused += d->refused;
    double now = offered + 10 * (double)d->waiting + 0.1;
    bool differs = now > 1.25 * w->weight || w->weight > 1.25 * now;
    if (!w->nleases || (differs && ctl_now(c) - m->shared_at > 100 * CTL_MS)) ctl_model_dirty(c, w->model);
    if (first) ctl_round_soon(c);
}

static bool clients_makes_sense(const struct fleet_demand_message *d)
{
    const uint64_t most = (uint64_t)1 << 40;
    return d->model[0] && fleet_text_ok(d->model, sizeof(d->model)) && d->since_ns >= 0 &&
           d->deadline_ns >= 0 && d->offered < most && d->answered < most && d->late < most &&
           d->refused < most && d->over <= 1;
}

static bool clients_demand(struct ctl_conn *k, const struct fleet_frame *f,
                           const struct fleet_demand_message *d)
{
    struct fleet_control *c = k->control;
    if (!clients_makes_sense(d)) return false;
    const struct ctl_model *m = ctl_model_find(c, d->model, d->version);
    if (!m) {
        clients_none(k, f, d);
        return true;
    }
    struct ctl_want *w = ctl_want_find(c, k->client, m->number);
    if (d->over) {
        if (w) clients_drop_want(c, w);
        return true;
    }
    bool fresh = !w;
    if (!w && !(w = clients_new_want(c, k->client, m->number))) return false;
    w->seq = f->seq;
    if (fleet_timer_set(c->o.loop, &w->timer, ctl_now(c) + CLIENTS_SILENT, clients_want_is_old, w))
        return false;
    clients_take(c, w, d);
    for (uint32_t i = 0; fresh && i < FLEET_CLASSES; i++)
        if (c->state->demand[m->number].admitted[i] != FLEET_ALL) {
            for (uint32_t x = 0; x < FLEET_CLASSES; x++) clients_shed(c, w, x);
            break;
        }
    return true;
}

bool ctl_client_message(struct ctl_conn *k, const struct fleet_frame *f, const void *body)
{
    const struct fleet_demand_message *d = FLEET_BODY(struct fleet_demand_message, f, body);
    return f->kind == FLEET_DEMAND && d && clients_demand(k, f, d);
}

/* ---- clients */

static uint64_t clients_hash(const struct fleet_control *c, const uint8_t id[FLEET_ID])
{
    return fleet_table_hash(c->seed, id, FLEET_ID);
}

void ctl_client_drop(struct fleet_control *c, struct ctl_client *client)
{
    while (!ctl_link_alone(&client->wants))
        clients_drop_want(c, CTL_OF(struct ctl_want, of_client, client->wants.next));
    while (!ctl_link_alone(&client->leases))
        ctl_lease_end(c, CTL_OF(struct ctl_lease, of_client, client->leases.next), true);
    fleet_timer_clear(c->o.loop, &client->timer);
    fleet_table_remove(&c->clients_by_id, &client->entry);
    c->nclients--;
    free(client);
}

static void clients_is_gone(void *ctx)
{
    struct ctl_client *client = ctx;
    ctl_client_drop(client->control, client);
}

struct ctl_client *ctl_client_take(struct fleet_control *c, const uint8_t id[FLEET_ID])
{
    struct fleet_entry *e = fleet_table_find(&c->clients_by_id, clients_hash(c, id));
    for (; e; e = fleet_table_next(e)) {
        struct ctl_client *client = CTL_OF(struct ctl_client, entry, e);
        if (!memcmp(client->id, id, FLEET_ID)) return client;
    }
    struct ctl_client *client = calloc(1, sizeof(*client));
    if (!client) return NULL;
    memcpy(client->id, id, FLEET_ID);
    client->control = c;
    ctl_link_init(&client->wants);
    ctl_link_init(&client->leases);
    if (fleet_table_add(&c->clients_by_id, &client->entry, clients_hash(c, id))) {
        free(client);
        return NULL;
    }
    c->nclients++;
    /* One that a worker named has as long as its leases to come here; one that connects clears this. */
    fleet_timer_set(c->o.loop, &client->timer, ctl_now(c) + c->tuning.valid_ns, clients_is_gone, client);
    return client;
}

void ctl_client_open(struct ctl_conn *k)
{
    struct fleet_control *c = k->control;
    const struct fleet_hello *h = fleet_conn_peer(k->conn);
    struct fleet_welcome w = {.term = c->term};
    struct ctl_client *client = ctl_client_take(c, h->id);
    if (!client) {
        fleet_conn_close(k->conn, -ENOMEM, "no memory");
        return;
    }
    if (client->conn) { /* it connects again before its old connection is known to be dead */
        struct ctl_conn *old = fleet_conn_ctx(client->conn);
        old->client = NULL;
        fleet_conn_close(client->conn, -EALREADY, "the same client has connected again");
        ctl_link_remove(&old->link);
        free(old);
    }
    fleet_timer_clear(c->o.loop, &client->timer);
    memcpy(client->name, h->name, sizeof(client->name));
    client->conn = k->conn;
    k->client = client;
    fleet_send(k->conn, FLEET_WELCOME, 0, &w, sizeof(w), NULL, 0, NULL);
}

void ctl_client_closed(struct ctl_client *client)
{
    struct fleet_control *c = client->control;
    client->conn = NULL;
    fleet_timer_set(c->o.loop, &client->timer, ctl_now(c) + CLIENTS_BACK, clients_is_gone, client);
}
