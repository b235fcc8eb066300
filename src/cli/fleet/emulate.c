/* SPDX-License-Identifier: Apache-2.0 */
/* gpuwire fleet emulate: workers that compute nothing, on one loop or on one for each thread. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include <gpuwire/error.h>

#include "src/cli/fleet/emulate.h"
#include "src/cli/fleet/fleet.h"
#include "src/cli/options.h"
#include "src/door/log.h"
#include "src/door/secret.h"
#include "src/fleet/worker/agent.h"
#include "src/fleet/worker/emulated.h"
#include "src/fleet/worker/enrol.h"

#define EMULATE_SECOND INT64_C(1000000000)
enum { EMULATE_STAGGER_NS = 2000000 }; /* between two beginnings on one thread */

/* A thread's part of the workers. */
struct emulate_part {
    const struct gw_emulate *e;
    const struct fleet_zoo *zoo;
    const char *token;
    struct fleet_loop *loop;
    struct fleet_agent **agent;
    struct fleet_enrol **entry; /* in etcd; NULL: none */
    uint32_t first, n, left;
    struct fleet_watch *signals;
    pthread_t thread;
    int err;
};

static void emulate_say(void *ctx, const char *line)
{
    const struct emulate_part *p = ctx;
    gw_log(p->e->quiet ? GW_LOG_DEBUG : GW_LOG_INFO, "%s", line);
}

/* ---- ending */

static void emulate_left(void *ctx)
{
    struct emulate_part *p = ctx;
    if (++p->left == p->n) fleet_loop_stop(p->loop);
}

static void emulate_signal(void *ctx)
{
    struct emulate_part *p = ctx;
    fleet_watch_drop(p->loop, p->signals);
    p->signals = NULL;
    for (uint32_t i = 0; i < p->n; i++)
        fleet_agent_leave(p->agent[i], p->e->drain_s * EMULATE_SECOND, emulate_left, p);
}

static void emulate_end(struct emulate_part *p)
{
    for (uint32_t i = 0; p->entry && i < p->n; i++) fleet_enrol_close(p->entry[i]);
    for (uint32_t i = 0; p->agent && i < p->n; i++) fleet_agent_destroy(p->agent[i]);
    if (p->loop) fleet_loop_run(p->loop, 0); /* what is owed to the agents' threads */
    fleet_loop_destroy(p->loop);
    free(p->entry);
    free(p->agent);
}

/* ---- beginning */

static int emulate_worker(struct emulate_part *p, uint32_t i)
{
    const struct gw_emulate *e = p->e;
    char name[FLEET_NAME], listen[FLEET_ADDRESS];
    struct fleet_engine *engine;
    struct fleet_emulated_opts eo = {.loop = p->loop,
                                     .zoo = p->zoo,
                                     .gpu_pages = e->gpu_pages,
                                     .host_pages = e->host_pages,
                                     .slots = e->slots,
                                     .leases = e->leases,
                                     .cold = e->cold,
                                     .slow = e->slow,
                                     .seed = e->seed + (p->first + i) * UINT64_C(0x9E3779B97F4A7C15)};
    struct fleet_agent_opts ao = {.loop = p->loop,
                                  .fleet = e->fleet,
                                  .name = name,
                                  .token = p->token,
                                  .listen = listen,
                                  .controllers = e->controller,
                                  .say = emulate_say,
                                  .ctx = p};
    if (snprintf(name, sizeof(name), "%s-%u", e->name, p->first + i) >= (int)sizeof(name))
        return gw_error(-EINVAL, "--name %s is too long", e->name);
    if (snprintf(listen, sizeof(listen), strchr(e->host, ':') ? "[%s]:0" : "%s:0", e->host) >=
        (int)sizeof(listen))
        return gw_error(-EINVAL, "--host %s is too long", e->host);
    int err = fleet_emulated_create(&eo, &engine);
    if (err) return err;
    ao.engine = engine;
    err = fleet_agent_create(&ao, &p->agent[i]);
    if (err) {
        engine->ops->stop(engine);
        engine->ops->destroy(engine);
    }
    const struct fleet_registry_opts registry = {.etcd = e->etcd, .fleet = e->fleet};
    const struct fleet_enrol_opts entry = {.loop = p->loop,
                                           .agent = p->agent[i],
                                           .name = name,
                                           .registry = &registry,
                                           .say = emulate_say,
                                           .ctx = p};
    return err || !e->etcd ? err : fleet_enrol_open(&entry, &p->entry[i]);
}

/* One after the other, so that a thousand do not tell the leader of all their models in one moment. */
static int emulate_begin(struct emulate_part *p)
{
    int err = fleet_loop_create(&p->loop);
    p->agent = calloc(p->n, sizeof(struct fleet_agent *));
    p->entry = calloc(p->n, sizeof(struct fleet_enrol *));
    if (!err && (!p->agent || !p->entry)) err = gw_error(-ENOMEM, "no memory for %u workers", p->n);
    if (!err) err = fleet_watch_add(p->loop, gw_interrupt_fd(), emulate_signal, p, &p->signals);
    for (uint32_t i = 0; !err && i < p->n; i++) {
        err = emulate_worker(p, i);
        if (!err) err = fleet_loop_run(p->loop, fleet_loop_now(p->loop) + EMULATE_STAGGER_NS);
    }
    return err;
}

static void *emulate_thread(void *arg)
{
    struct emulate_part *p = arg;
    p->err = fleet_loop_run(p->loop, INT64_MAX);
    return NULL;
}

/* Each worker has a listener, and a connection for each client. */
static void emulate_descriptors(void)
{
    struct rlimit r;
    if (getrlimit(RLIMIT_NOFILE, &r)) return;
    r.rlim_cur = r.rlim_max;
    setrlimit(RLIMIT_NOFILE, &r);
}

static int emulate_run(const struct gw_emulate *e, struct emulate_part *part)
{
    int err = 0;
    for (uint32_t t = 0; !err && t < e->threads; t++) err = emulate_begin(&part[t]);
    if (err) return err;
    printf("emulating %u workers of %u models (%s) on %u threads\n", e->workers, e->models, e->profile,
           e->threads);
    fflush(stdout);
    uint32_t began = 1;
    while (began < e->threads && !pthread_create(&part[began].thread, NULL, emulate_thread, &part[began]))
        began++;
    if (began < e->threads) return gw_error(-EAGAIN, "only %u of %u threads could begin", began, e->threads);
    emulate_thread(&part[0]);
    for (uint32_t t = 1; t < began; t++) pthread_join(part[t].thread, NULL);
    for (uint32_t t = 0; !err && t < e->threads; t++) err = part[t].err;
    return err;
}

int gw_fleet_emulate(int argc, char **argv)
{
    struct gw_emulate e;
    struct fleet_profile profile;
    struct fleet_zoo *zoo = NULL;
    char *token = NULL;
    int done = gw_emulate_args(argc, argv, &e);
    if (done >= 0) return done;
    gw_log_name("gpuwire fleet");
    int err = fleet_profile_read(e.profile, &profile);
    if (!err && !e.host_pages) e.host_pages = e.models * profile.pages;
    if (!err) err = gw_secret_take_token(NULL, e.token_file, &token);
    if (!err) err = fleet_zoo_create(e.models, &profile, &zoo);
    struct emulate_part *part = calloc(e.threads, sizeof(*part));
    if (!err && !part) err = gw_error(-ENOMEM, "no memory");
    if (err) {
        free(part);
        return gw_failed("fleet emulate");
    }
    for (uint32_t t = 0; t < e.threads; t++) {
        uint32_t first = (uint32_t)((uint64_t)e.workers * t / e.threads);
        uint32_t end = (uint32_t)((uint64_t)e.workers * (t + 1) / e.threads);
        part[t] =
            (struct emulate_part){.e = &e, .zoo = zoo, .token = token, .first = first, .n = end - first};
    }
    gw_catch_signals();
    emulate_descriptors();
    err = emulate_run(&e, part);
    if (err) gw_failed("fleet emulate");
    for (uint32_t t = 0; t < e.threads; t++) emulate_end(&part[t]);
    fleet_zoo_destroy(zoo);
    free(part);
    gw_secret_forget(token);
    return err ? GW_EXIT_FAILURE : GW_EXIT_OK;
}
