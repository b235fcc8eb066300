/* SPDX-License-Identifier: Apache-2.0 */
/* life.c: a controller begins and ends, lets peers in, leads, and leads no more. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include <gpuwire/error.h>

#include "src/fleet/control/impl.h"

/* ---- connections */

static void control_send_away(struct fleet_conn *conn, const struct fleet_control *c)
{
    struct fleet_elsewhere e = {.retry_ns = 200 * CTL_MS};
    memcpy(e.leader, c->leader, sizeof(e.leader));
    fleet_send(conn, FLEET_ELSEWHERE, 0, &e, sizeof(e), NULL, 0, NULL);
}

static void control_opened(void *ctx, struct fleet_conn *conn)
{
    struct fleet_control *c = ((struct ctl_conn *)ctx)->control;
    struct ctl_conn *k = calloc(1, sizeof(*k));
    if (!k) {
        fleet_conn_close(conn, -ENOMEM, "no memory");
        return;
    }
    k->control = c;
    k->conn = conn;
    ctl_link_add(&c->conns, &k->link);
    fleet_conn_set_ctx(conn, k);
    if (fleet_conn_peer(conn)->role != FLEET_IS_CLIENT) return; /* workers and tools speak first */
    if (c->term)
        ctl_client_open(k);
    else
        control_send_away(conn, c);
}

static void control_free(struct ctl_conn *k)
{
    ctl_link_remove(&k->link);
    free(k);
}

static void control_heard(void *ctx, struct fleet_conn *conn, const struct fleet_frame *f, const void *body)
{
    struct ctl_conn *k = ctx;
    uint8_t role = fleet_conn_peer(conn)->role;
    bool good = true;
    if (!k->control->term)
        control_send_away(conn, k->control);
    else if (role == FLEET_IS_WORKER)
        good = ctl_worker_message(k, f, body);
    else if (role == FLEET_IS_CLIENT)
        good = k->client && ctl_client_message(k, f, body);
    else
        ctl_tool_message(k, f, body);
    if (good) return;
    ctl_say(k->control, "%s is cut off: it sent a message that makes no sense", fleet_conn_text(conn));
    if (k->client) ctl_client_closed(k->client);
    fleet_conn_close(conn, -EPROTO, "a message that makes no sense");
    control_free(k);
}

static void control_lost(void *ctx, struct fleet_conn *conn, int err, const char *why)
{
    struct ctl_conn *k = ctx;
    (void)conn, (void)err;
    if (!k->conn) return; /* a stranger, which never was open */
    if (k->worker) ctl_worker_gone(k->worker, why);
    if (k->client) ctl_client_closed(k->client);
    control_free(k);
}

static const struct fleet_handler control_handler = {control_opened, control_heard, control_lost};

/* ---- what is known */

static int control_allocate(struct fleet_control *c)
{
    struct fleet_limits *l = &c->o.limits;
    size_t bytes = (fleet_state_size(l) + 63) / 64 * 64;
    c->memory = aligned_alloc(64, bytes);
    c->dry_memory = aligned_alloc(64, bytes);
    c->models = calloc(l->models, sizeof(*c->models));
    c->workers = calloc(l->workers, sizeof(struct ctl_worker *));
    c->places = calloc(l->places, sizeof(*c->places));
    c->actions = calloc(CTL_MAX_ACTIONS, sizeof(*c->actions));
    if (!c->memory || !c->dry_memory || !c->models || !c->workers || !c->places || !c->actions)
        return gw_error(-ENOMEM, "no memory for %u workers, %u models and %u places", l->workers, l->models,
                        l->places);
    c->state = fleet_state_init(c->memory, l);
    c->dry = fleet_state_init(c->dry_memory, l);
    c->state->files = calloc(1, fleet_state_files_size(l));
    if (!c->state->files) return gw_error(-ENOMEM, "no memory for %u workers", l->workers);
    for (uint32_t i = 0; i < l->places; i++) ctl_link_init(&c->places[i].leases);
    return 0;
}

/* Forgets all clients, workers and models. Connections are closed before. */
static void control_forget(struct fleet_control *c)
{
    for (struct ctl_link *l = c->all_workers.next; l != &c->all_workers; l = l->next)
        ctl_worker_gone(CTL_OF(struct ctl_worker, link, l), "this controller leads no more");
    for (uint32_t i = 0; i < c->clients_by_id.slots; i++)
        while (c->clients_by_id.slot[i])
            ctl_client_drop(c, CTL_OF(struct ctl_client, entry, c->clients_by_id.slot[i]));
    while (!ctl_link_alone(&c->dirty)) ctl_link_remove(c->dirty.next);
    fleet_table_free(&c->models_by_name);
    c->nmodels = 0;
    fleet_timer_clear(c->o.loop, &c->round);
    uint64_t *files = c->state->files;
    memset(files, 0, fleet_state_files_size(&c->o.limits));
    c->state = fleet_state_init(c->memory, &c->o.limits);
    c->state->files = files;
}

static void control_close_all(struct fleet_control *c, bool sends_away)
{
    while (!ctl_link_alone(&c->conns)) {
        struct ctl_conn *k = CTL_OF(struct ctl_conn, link, c->conns.next);
        if (sends_away) control_send_away(k->conn, c);
        fleet_conn_close(k->conn, 0, NULL);
        control_free(k);
    }
}

/* ---- leading */

void fleet_control_lead(struct fleet_control *c, uint64_t term)
{
    if (c->term) fleet_control_yield(c, "it leads again, with another term");
    c->term = term;
    c->lead_at = ctl_now(c);
    c->settled = false;
    c->frozen = false;
    c->leader[0] = 0;
    ctl_say(c, "this controller leads, with term %llu", (unsigned long long)term);
    ctl_audit(c, "lead", FLEET_NONE, FLEET_NONE, NULL);
    /* Clients that wait here are welcome now; workers come again by themselves. */
    control_close_all(c, false);
    ctl_rounds_start(c);
}

void fleet_control_yield(struct fleet_control *c, const char *why)
{
    if (!c->term) return;
    ctl_say(c, "this controller leads no more: %s; leases go on until their ends", why);
    ctl_audit(c, "yield", FLEET_NONE, FLEET_NONE, json_pack("{s:s}", "why", why));
    c->term = 0;
    c->frozen = false;
    control_close_all(c, true);
    control_forget(c);
}

void fleet_control_elsewhere(struct fleet_control *c, const char *leader)
{
    strncpy(c->leader, leader, sizeof(c->leader) - 1);
}

void fleet_control_freeze(struct fleet_control *c, bool frozen)
{
    c->frozen = frozen && c->term;
    ctl_round_soon(c);
}

void fleet_control_expect(struct fleet_control *c, const char *worker, bool is)
{
    struct ctl_worker *k = ctl_worker_find(c, worker);
    if (!k && is) k = ctl_worker_make(c, worker);
    if (k) k->wanted = is;
    if (k && !k->conn) k->gone_at = ctl_now(c);
}

/* ---- for the next leader */

void fleet_control_keep(struct fleet_control *c, const struct fleet_control_keeper *keeper)
{
    c->keeper = *keeper;
}

/* ---- opening and closing */

static void control_defaults(struct fleet_control_opts *o)
{
    if (!o->limits.workers) o->limits.workers = 1024;
    if (!o->limits.models) o->limits.models = 16384;
    if (!o->limits.places) o->limits.places = 262144;
    if (!o->telemetry_ns) o->telemetry_ns = 10 * CTL_MS;
    if (!o->settle_ns) o->settle_ns = CTL_SECOND;
}

static int control_listen(struct fleet_control *c)
{
    struct fleet_conn_opts opts = {.role = FLEET_IS_CONTROLLER,
                                   .peers =
                                       1u << FLEET_IS_WORKER | 1u << FLEET_IS_CLIENT | 1u << FLEET_IS_TOOL,
                                   .fleet = c->o.fleet,
                                   .name = c->o.name,
                                   .id = c->o.id,
                                   .token = c->o.token,
                                   .backlog = (size_t)64 << 20,
                                   .silent_ns = 2 * CTL_SECOND,
                                   .connections = c->o.limits.workers + 16384};
    c->stranger.control = c;
    return fleet_listen(c->o.loop, &opts, c->o.listen, &control_handler, &c->stranger, &c->listener);
}

int fleet_control_open(const struct fleet_control_opts *opts, struct fleet_control **out)
{
    struct fleet_control *c = calloc(1, sizeof(*c));
    if (!c) return gw_error(-ENOMEM, "no memory for a controller");
    c->o = *opts;
    control_defaults(&c->o);
    ctl_link_init(&c->all_workers);
    ctl_link_init(&c->dirty);
    ctl_link_init(&c->conns);
    ctl_link_init(&c->piped);
    fleet_tuning_default(&c->tuning);
    if (opts->tuning) c->tuning = *opts->tuning;
    int err = getrandom(&c->seed, sizeof(c->seed), 0) == sizeof(c->seed) ? 0 : -EIO;
    if (!err) err = control_allocate(c);
    if (!err) err = ctl_targets_open(c);
    if (!err) err = control_listen(c);
    if (err)
        fleet_control_close(c);
    else
        *out = c;
    return err;
}

void fleet_control_close(struct fleet_control *c)
{
    if (!c) return;
    fleet_listener_close(c->listener);
    control_close_all(c, false);
    if (c->state) control_forget(c);
    ctl_targets_close(c);
    ctl_wishes_close(c);
    ctl_kept_close(c);
    while (!ctl_link_alone(&c->all_workers))
        ctl_worker_free(CTL_OF(struct ctl_worker, link, c->all_workers.next));
    ctl_drains_close(c);
    fleet_table_free(&c->workers_by_name);
    fleet_table_free(&c->clients_by_id);
    fleet_table_free(&c->wants);
    if (c->state) free(c->state->files);
    free(c->memory);
    free(c->dry_memory);
    free(c->models);
    free(c->workers);
    free(c->places);
    free(c->actions);
    free(c);
}

uint16_t fleet_control_port(const struct fleet_control *c)
{
    return fleet_listener_port(c->listener);
}
