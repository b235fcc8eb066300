/* SPDX-License-Identifier: Apache-2.0 */
/* Applies what the control plane sends, and answers with what could not be applied. */
#include "src/balance/control/agent.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <gpuwire/error.h>
#include <gpuwire/exec.h>

#include "src/balance/control/claim.h"
#include "src/balance/control/fence.h"
#include "src/balance/control/json.h"
#include "src/balance/control/sync_counts.h"
#include "src/balance/control/translate.h"
#include "src/balance/control/wire.h"
#include "src/balance/neighbour.h"
#include "src/balance/states.h"

#define MS          1000000u
#define PATIENCE_NS 5000000000u
#define SETTLE_NS   300000000u /* counts of live flows are as old as that at most */

struct gw_bal_agent {
    struct bal *bal;
    const struct gw_bal_global *global;
    void (*stop)(void *ctx);
    void *ctx;
    pthread_t thread;
    pthread_mutex_t lock;      /* of what follows */
    struct gw_bal_model model; /* as it was applied */
    bool has_state;
    uint64_t version, generation; /* of the last that was applied */
    uint64_t seen_ns;             /* when all cores were seen to have it; 0: not yet */
    uint64_t settled;
    struct gw_bal_fence fence;
    uint64_t started_ns;
    uint64_t displaced, displaced_ns; /* what a line has told, and when */
    int ready;
    const struct gw_bal_sync *sync;
    int listen_fd, end_fd;
    struct sockaddr_un address;
};

/* ---- answers ---- */

static json_t *refusal(const char *why)
{
    char plain[512];
    gw_bal_plain(plain, sizeof(plain), why); /* it may name what the question said */
    return json_pack("{s:s}", "error", plain);
}

/* What this data plane cannot run, in a model that it has taken. */
static json_t *refused_json(const struct gw_bal_model *m)
{
    json_t *all = json_array();
    for (const struct gw_bal_service *s = m->services; s; s = s->next) {
        if (s->refused[0])
            json_array_append_new(all, json_pack("[s,I,s]", "service", (json_int_t)s->id, s->refused));
        for (const struct gw_bal_worker *w = s->workers; w; w = w->next)
            if (w->refused[0])
                json_array_append_new(all, json_pack("[s,I,s]", "worker", (json_int_t)w->id, w->refused));
    }
    return all;
}

/* Objects that cannot run are refused alone: the rest comes into force. */
static int agent_publish(struct gw_bal_agent *a, struct gw_bal_model *m, char *why, size_t size)
{
    struct bal_config *config = calloc(1, sizeof(*config));
    int err = config ? 0 : gw_error_errno(-ENOMEM, "apply");
    m->global = a->global;
    if (!err) err = gw_bal_model_refuse(m);
    if (err < 0) {
        snprintf(why, size, "%s", gw_last_error());
    } else {
        gw_bal_translate(m, a->global, false, config);
        gw_bal_fence_set(&a->fence, config); /* before the first packet comes to a new service */
        err = bal_publish(a->bal, config, why, size);
    }
    free(config);
    return err;
}

/* The configuration that comes into force; it takes the model. */
static json_t *take_model(struct gw_bal_agent *a, struct gw_bal_model *next, uint64_t version)
{
    char why[256] = "";
    if (agent_publish(a, next, why, sizeof(why))) {
        gw_bal_model_free(next);
        return refusal(why);
    }
    gw_bal_model_free(&a->model);
    a->model = *next;
    a->model.version = a->version = version;
    a->generation = bal_generation(a->bal);
    a->seen_ns = 0;
    a->has_state = true;
    return json_pack("{s:I, s:o, s:I, s:s}", "version", (json_int_t)version, "refused", refused_json(next),
                     "lost", (json_int_t)next->lost, "lost_why", next->lost_why);
}

static uint64_t agent_version_of(const json_t *state)
{
    return (uint64_t)json_integer_value(json_object_get(state, "version"));
}

static json_t *apply(struct gw_bal_agent *a, const json_t *question)
{
    json_t *state = json_object_get(question, "state");
    struct gw_bal_model next = {0};
    if (!gw_bal_model_from(state, &next, gw_deadline(0)))
        return take_model(a, &next, agent_version_of(state));
    gw_bal_model_free(&next);
    return refusal(gw_last_error());
}

/* Only what is other than in version `from`, which must be the one that is here. */
static json_t *agent_change(struct gw_bal_agent *a, const json_t *question)
{
    json_t *part = json_object_get(question, "part");
    struct gw_bal_model next;
    if (!a->has_state || (uint64_t)json_integer_value(json_object_get(question, "from")) != a->version)
        return refusal("the data plane has another version");
    if (gw_bal_model_copy(&a->model, &next)) return refusal(gw_last_error());
    if (!gw_bal_part_from(part, &next, gw_deadline(0))) return take_model(a, &next, agent_version_of(part));
    gw_bal_model_free(&next);
    return refusal(gw_last_error());
}

static json_t *agent_load(struct gw_bal_agent *a, const json_t *question)
{
    size_t i;
    json_t *one;
    uint64_t now = gw_deadline(0);
    json_array_foreach(json_object_get(question, "loads"), i, one)
    {
        json_int_t id = 0, queue = 0, bytes = 0;
        if (json_unpack(one, "[I,I,I]", &id, &queue, &bytes) || id < 0 || id >= BAL_WORKERS || queue < 0 ||
            bytes < 0)
            return refusal("load: expected [worker, queue, bytes]");
        struct bal_load l = {.queue_depth = (uint32_t)queue, .bytes = (uint64_t)bytes};
        bal_telemetry(a->bal, (uint32_t)id, &l, now);
    }
    return json_object();
}

static json_t *queue_pair(struct gw_bal_agent *a, const json_t *question)
{
    const char *client;
    json_int_t service, worker, qpn;
    struct gw_bal_addr addr;
    int ended;
    if (json_unpack((json_t *)question, "{s:I, s:I, s:s, s:I, s:b}", "service", &service, "worker", &worker,
                    "client", &client, "qpn", &qpn, "ended", &ended) ||
        gw_bal_addr_parse(client, &addr))
        return refusal("queue_pair: not of that form");
    struct bal_record r = {.service = (uint16_t)service,
                           .worker = (uint16_t)worker,
                           .qpn = (uint32_t)qpn & 0xffffff,
                           .state = ended ? 0xff : BAL_ROCE_LIVE};
    gw_bal_to_addr(&addr, &r.client);
    int err = bal_learn(a->bal, &r);
    return err == -EAGAIN ? json_pack("{s:s, s:b}", "error", "the cores are busy", "retry", 1)
           : err          ? refusal("no such service or worker")
                          : json_object();
}

static json_t *totals_json(const struct bal_totals *t)
{
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "received_packets",
                     (json_int_t)t->received, "received_bytes", (json_int_t)t->received_bytes, "packets",
                     (json_int_t)t->packets, "bytes", (json_int_t)t->bytes, "answered",
                     (json_int_t)t->answered, "opened", (json_int_t)t->opened, "expired",
                     (json_int_t)t->expired, "evicted", (json_int_t)t->evicted, "moved", (json_int_t)t->moved,
                     "stateless", (json_int_t)t->stateless, "live", (json_int_t)t->live, "neighbours",
                     (json_int_t)t->neighbours, "neighbours_displaced", (json_int_t)t->displaced);
}

static json_t *sync_json(const struct gw_bal_sync *sync)
{
    struct gw_bal_sync_counts c;
    if (!sync) return json_null();
    gw_bal_sync_counts(sync, &c);
    json_t *j =
        json_pack("{s:I, s:I, s:I, s:I, s:b, s:b, s:b}", "sent", (json_int_t)c.sent, "received",
                  (json_int_t)c.received, "unknown", (json_int_t)c.unknown, "lost", (json_int_t)c.lost,
                  "connected", (int)c.connected, "sends", (int)c.sends, "receives", (int)c.receives);
    if (c.heard_ns)
        json_object_set_new(j, "heard_ms", json_integer((json_int_t)((gw_deadline(0) - c.heard_ns) / MS)));
    return j;
}

/* Before the counts are read: which version do they know of? */
static void agent_settle(struct gw_bal_agent *a)
{
    uint64_t now = gw_deadline(0);
    if (bal_generation_seen(a->bal) < a->generation) return;
    if (!a->seen_ns) a->seen_ns = now;
    if (now - a->seen_ns >= SETTLE_NS) a->settled = a->version;
}

/* One line a minute says that the table of MACs is too small. */
static void tell_displaced(struct gw_bal_agent *a, uint64_t displaced)
{
    uint64_t now = gw_deadline(0);
    if (displaced == a->displaced || (a->displaced_ns && now - a->displaced_ns < 60000000000u)) return;
    fprintf(stderr,
            "gpuwire balance: the table of neighbours is full: %llu entries made room. A host names "
            "addresses on the "
            "link that no host has, or more than %u clients share it: put a router between\n",
            (unsigned long long)(displaced - a->displaced), (unsigned)BAL_CLIENTS_KNOWN);
    a->displaced = displaced;
    a->displaced_ns = now;
}

static json_t *agent_stats(struct gw_bal_agent *a)
{
    struct bal_totals t;
    struct bal_counts c;
    agent_settle(a);
    json_t *workers = json_array(), *drops = json_object();
    for (const struct gw_bal_service *s = a->model.services; s; s = s->next)
        for (const struct gw_bal_worker *w = s->workers; w; w = w->next) {
            bal_worker_counts(a->bal, w->id, &c);
            if (!c.opened && !c.packets && !c.live && !c.held) continue;
            json_array_append_new(workers,
                                  json_pack("[I,I,I,I,I,I,I]", (json_int_t)w->id, (json_int_t)c.packets,
                                            (json_int_t)c.bytes, (json_int_t)c.opened, (json_int_t)c.live,
                                            (json_int_t)c.held, (json_int_t)c.clients));
        }
    bal_totals(a->bal, -1, &t);
    tell_displaced(a, t.displaced);
    for (int i = 0; i < BAL_DROPS; i++)
        json_object_set_new(drops, bal_drop_name((enum bal_drop)i), json_integer((json_int_t)t.drop[i]));
    return json_pack("{s:o, s:I, s:I, s:s, s:I, s:o, s:o, s:o}", "sync", sync_json(a->sync), "settled",
                     (json_int_t)a->settled, "pid", (json_int_t)getpid(), "version", GW_VERSION, "uptime_ms",
                     (json_int_t)((gw_deadline(0) - a->started_ns) / MS), "totals", totals_json(&t), "drops",
                     drops, "workers", workers);
}

json_t *gw_bal_agent_answer(struct gw_bal_agent *a, const json_t *question)
{
    const char *op = json_string_value(json_object_get(question, "op"));
    json_t *answer;
    pthread_mutex_lock(&a->lock);
    if (!op)
        answer = refusal("no operation");
    else if (!strcmp(op, "apply"))
        answer = apply(a, question);
    else if (!strcmp(op, "change"))
        answer = agent_change(a, question);
    else if (!strcmp(op, "state"))
        answer = json_pack("{s:o}", "state", a->has_state ? gw_bal_model_json(&a->model) : json_null());
    else if (!strcmp(op, "load"))
        answer = agent_load(a, question);
    else if (!strcmp(op, "queue_pair"))
        answer = queue_pair(a, question);
    else if (!strcmp(op, "stats"))
        answer = agent_stats(a);
    else if (!strcmp(op, "ready"))
        answer = json_pack("{s:b}", "ready", a->ready);
    else if (!strcmp(op, "stop"))
        answer = json_object();
    else
        answer = refusal("no such operation");
    pthread_mutex_unlock(&a->lock);
    if (op && !strcmp(op, "stop")) a->stop(a->ctx);
    return answer;
}

void gw_bal_agent_model(struct gw_bal_agent *a,
                        void (*look)(void *ctx, const struct gw_bal_model *m, uint64_t version), void *ctx)
{
    pthread_mutex_lock(&a->lock);
    look(ctx, &a->model, a->version);
    pthread_mutex_unlock(&a->lock);
}

void gw_bal_agent_ready(struct gw_bal_agent *a)
{
    pthread_mutex_lock(&a->lock);
    a->ready = 1;
    pthread_mutex_unlock(&a->lock);
}

void gw_bal_agent_sync(struct gw_bal_agent *a, const struct gw_bal_sync *sync)
{
    pthread_mutex_lock(&a->lock);
    a->sync = sync;
    pthread_mutex_unlock(&a->lock);
}

/* ---- the socket ---- */

static int agent_serve(struct gw_bal_agent *a, int fd)
{
    json_t *question, *answer;
    int err = gw_bal_receive(fd, &question, gw_deadline(PATIENCE_NS));
    if (err) return err;
    answer = gw_bal_agent_answer(a, question);
    json_decref(question);
    err = gw_bal_send(fd, answer, gw_deadline(PATIENCE_NS));
    json_decref(answer);
    return err;
}

/* One control plane at a time: a new one takes the place of the old. */
static void *agent_run(void *arg)
{
    struct gw_bal_agent *a = arg;
    struct pollfd fds[3] = {{.fd = a->end_fd, .events = POLLIN},
                            {.fd = a->listen_fd, .events = POLLIN},
                            {.fd = -1, .events = POLLIN}};
    while (!(fds[0].revents & POLLIN)) {
        if (poll(fds, 3, -1) < 0) continue;
        if (fds[1].revents & POLLIN) {
            int fd = accept4(a->listen_fd, NULL, NULL, SOCK_CLOEXEC);
            if (fd >= 0 && fds[2].fd >= 0) close(fds[2].fd);
            if (fd >= 0) fds[2].fd = fd;
            continue;
        }
        if (fds[2].fd >= 0 && fds[2].revents && agent_serve(a, fds[2].fd)) {
            close(fds[2].fd);
            fds[2].fd = -1;
        }
    }
    if (fds[2].fd >= 0) close(fds[2].fd);
    return NULL;
}

static int agent_open_socket(struct gw_bal_agent *a)
{
    const char *dir = a->global->run_dir;
    int err = gw_bal_socket_path(dir, &a->address);
    if (err) return err;
    err = gw_bal_make_run_dir(dir);
    if (err) return err;
    a->listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (a->listen_fd < 0) return gw_error_errno(-errno, "socket");
    unlink(a->address.sun_path); /* of one that has gone: the caller has looked that none answers */
    mode_t before = umask(0177);
    err = bind(a->listen_fd, (struct sockaddr *)&a->address, sizeof(a->address)) || listen(a->listen_fd, 4)
              ? -errno
              : 0;
    umask(before);
    return err ? gw_error_errno(err, "%s", a->address.sun_path) : 0;
}

static void free_agent(struct gw_bal_agent *a)
{
    if (a->listen_fd >= 0) close(a->listen_fd);
    if (a->end_fd >= 0) close(a->end_fd);
    gw_bal_fence_close(&a->fence);
    gw_bal_model_free(&a->model);
    free(a);
}

int gw_bal_agent_start(struct bal *bal, const struct gw_bal_global *g, void (*stop)(void *ctx), void *ctx,
                       struct gw_bal_agent **out)
{
    struct gw_bal_agent *a = calloc(1, sizeof(*a));
    if (!a) return gw_error_errno(-ENOMEM, "agent");
    *a = (struct gw_bal_agent){.bal = bal, .global = g, .stop = stop, .ctx = ctx, .listen_fd = -1};
    a->end_fd = eventfd(0, EFD_CLOEXEC);
    pthread_mutex_init(&a->lock, NULL);
    a->started_ns = gw_deadline(0);
    gw_bal_fence_open(&a->fence, g);
    int err = agent_open_socket(a);
    if (!err && (err = -pthread_create(&a->thread, NULL, agent_run, a))) gw_error_errno(err, "thread");
    if (err)
        free_agent(a);
    else
        *out = a;
    return err;
}

void gw_bal_agent_stop(struct gw_bal_agent *a)
{
    uint64_t one = 1;
    if (!a) return;
    if (write(a->end_fd, &one, sizeof(one)) < 0) { /* an eventfd takes it */
    }
    pthread_join(a->thread, NULL);
    unlink(a->address.sun_path);
    free_agent(a);
}
