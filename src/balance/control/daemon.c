/* SPDX-License-Identifier: Apache-2.0 */
/* The loop of the control plane: file, data plane, checks and API until a signal ends it. */
#include "src/balance/control/daemon.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <gpuwire/error.h>
#include <gpuwire/exec.h>

#include "src/balance/control/api.h"
#include "src/balance/control/claim.h"
#include "src/balance/control/core.h"
#include "src/balance/control/exchange.h"
#include "src/balance/control/fence.h"
#include "src/balance/control/health.h"
#include "src/balance/control/link.h"
#include "src/balance/control/pairs.h"
#include "src/balance/control/probe.h"

#define MS       1000000u
#define STATS_NS (200u * MS)
#define AGAIN_NS (500u * MS) /* between attempts to reach the data plane */
#define END_NS   (20000ull * MS)

struct daemon {
    const struct gw_bal_daemon_opts *opts;
    struct gw_bal_config config;
    struct gw_bal_core core;
    struct gw_bal_exchange exchange;
    struct gw_bal_probes probes;
    struct gw_bal_due_list due;
    struct pollfd *fds; /* room for the first three and one for each check */
    unsigned fds_room;
    struct gw_bal_api *api;
    uint64_t stats_ns, again_ns;
    int attach_error; /* that was printed last */
    int claim_fd;     /* of the control of the data plane in this run_dir */
};

/* ---- health ---- */

/* With the lock. */
static void checked(void *ctx, uint32_t id, const char *why, int weight)
{
    struct daemon *d = ctx;
    struct gw_bal_worker *w = gw_bal_worker_by_id(&d->core.model, id);
    if (w) gw_bal_health_weight(&d->core.model, w, why ? -1 : weight);
    if (!w || !gw_bal_health_done(&d->core.model, w->service, w, why, gw_deadline(0))) return;
    printf("%s: worker %s is %s%s%s\n", w->service->name, w->name, w->health.up ? "up" : "down",
           why ? ": " : "", why ? w->health.why : "");
    fflush(stdout);
}

/* With the lock. Begins what is due and has room, and returns when the next check is. A check without room
 * begins when another has ended. */
static uint64_t begin_checks(struct daemon *d)
{
    uint64_t next, now = gw_deadline(0);
    if (gw_bal_health_due(&d->core.model, now, &d->due, &next)) return now + AGAIN_NS;
    for (size_t i = 0; i < d->due.n; i++) {
        struct gw_bal_due *o = &d->due.due[i];
        if (!gw_bal_probe_room(&d->probes, gw_bal_check_of(o->service, o->worker))) continue;
        o->worker->health.busy = 1;
        gw_bal_probe_begin(&d->probes, o->service, o->worker, now, checked, d);
    }
    return next;
}

/* ---- the data plane ---- */

static int daemon_attach(struct daemon *d, bool first, bool *started)
{
    struct gw_bal_link *l = &d->exchange.link;
    int err = gw_bal_link_open(l, d->config.global.run_dir);
    *started = err == -ENOENT || err == -ECONNREFUSED;
    if (*started && first && (err = gw_bal_fence_check(&d->config.global, &d->config.model))) return err;
    if (*started)
        err = gw_bal_link_start(l, &d->config.global, d->opts->config, d->opts->stopped);
    else if (!err)
        err = gw_bal_link_answers(l);
    if (err) return err;
    pthread_mutex_lock(&d->core.lock);
    if (!first) d->core.restarts += (unsigned)*started;
    if (!first) gw_bal_pairs_again(&d->core);
    d->core.attached = 1;
    d->core.heard_ns = gw_deadline(0);
    d->core.applied = 0;
    pthread_mutex_unlock(&d->core.lock);
    d->exchange.applied = d->exchange.settled = 0; /* whatever it has: it gets ours */
    d->exchange.have = 0;
    return 0;
}

/* Once more, when it has gone. */
static void attach_again(struct daemon *d, uint64_t now)
{
    gw_bal_link_ended(&d->exchange.link);
    if (now < d->again_ns) return;
    d->again_ns = now + AGAIN_NS;
    bool started;
    int err = daemon_attach(d, false, &started);
    if (!err) {
        printf("the data plane %s\n", started ? "has been started again" : "answers again");
        fflush(stdout);
    } else if (err != d->attach_error) {
        fprintf(stderr, "gpuwire balance: %s\n", gw_last_error());
    }
    d->attach_error = err;
}

static void talk(struct daemon *d)
{
    uint64_t now = gw_deadline(0);
    if (d->exchange.link.fd < 0) attach_again(d, now);
    if (d->exchange.link.fd < 0) return;
    int err = gw_bal_exchange_push(&d->exchange, &d->core);
    if (!err && now >= d->stats_ns) {
        d->stats_ns = now + STATS_NS;
        err = gw_bal_exchange_stats(&d->exchange, &d->core);
    }
    if (!err || d->exchange.link.fd >= 0) return;
    pthread_mutex_lock(&d->core.lock);
    d->core.attached = 0;
    pthread_mutex_unlock(&d->core.lock);
    fprintf(stderr, "gpuwire balance: %s\n", gw_last_error());
}

/* ---- the file ---- */

static void say_refused(const struct gw_bal_model *m)
{
    for (const struct gw_bal_service *s = m->services; s; s = s->next) {
        if (s->refused[0])
            fprintf(stderr, "gpuwire balance: service %s is refused: %s\n", s->name, s->refused);
        for (const struct gw_bal_worker *w = s->workers; w; w = w->next)
            if (w->refused[0])
                fprintf(stderr, "gpuwire balance: service %s: worker %s is refused: %s\n", s->name, w->name,
                        w->refused);
    }
}

static int begin_model(struct daemon *d)
{
    int found = 0;
    d->core.model.global = &d->config.global;
    int err = gw_bal_exchange_state(&d->exchange, &d->core.model, &found);
    if (err) return err;
    if (found) printf("the data plane was there: its services and workers stay as they were\n");
    if (d->core.model.lost)
        fprintf(stderr, "gpuwire balance: %u objects of its state could not be read: %s\n",
                d->core.model.lost, d->core.model.lost_why);
    /* Changes by the API stay, unless the file itself has changed. */
    if (found && d->core.model.file_hash == d->config.model.file_hash)
        err = gw_bal_model_refuse(&d->core.model);
    else
        err = gw_bal_begin(&d->core.model, &d->config.model);
    if (err >= 0) say_refused(&d->core.model);
    if (err >= 0 || !found) return err < 0 ? err : 0;
    /* The objects that ran go on: a start must not fail because of what the API has added. */
    fprintf(stderr, "gpuwire balance: %s: %s; what ran goes on\n", d->opts->config, gw_last_error());
    return 0;
}

static void daemon_reload(struct daemon *d, uint64_t asked)
{
    struct gw_bal_config config;
    int err = gw_bal_config_read(d->opts->config, &config);
    err = gw_bal_config_say(d->opts->config, &config, err);
    pthread_mutex_lock(&d->core.lock);
    if (!err) /* ports stay as they were */
        err = gw_bal_reconcile(&d->core.model, &config.model);
    gw_bal_plain(d->core.reload_why, sizeof(d->core.reload_why), err ? gw_last_error() : "");
    d->core.reloads_done = asked;
    pthread_cond_broadcast(&d->core.moved);
    pthread_mutex_unlock(&d->core.lock);
    gw_bal_config_free(&config);
    if (err)
        fprintf(stderr, "gpuwire balance: %s; what ran goes on\n", gw_last_error());
    else
        printf("%s: read again\n", d->opts->config);
    fflush(stdout);
}

/* By SIGHUP, or by the API. */
static void reload_if_asked(struct daemon *d, int by_signal)
{
    uint64_t count;
    pthread_mutex_lock(&d->core.lock);
    uint64_t asked = d->core.reloads_asked;
    int by_api = asked != d->core.reloads_done;
    pthread_mutex_unlock(&d->core.lock);
    if (by_signal && read(d->opts->reload_fd, &count, sizeof(count)) < 0) by_signal = 0;
    if (by_api || by_signal) daemon_reload(d, asked);
}

/* ---- the loop ---- */

#define OWN_FDS 3u

/* Room for the daemon's own descriptors and one of each check. Without memory the checks stay unwatched, and
 * the loop looks at them when it turns. */
static unsigned fill_fds(struct daemon *d, uint64_t *until)
{
    unsigned room = OWN_FDS + d->probes.places;
    struct pollfd *bigger = room > d->fds_room ? realloc(d->fds, room * sizeof(*bigger)) : NULL;
    if (bigger) {
        d->fds = bigger;
        d->fds_room = room;
    }
    if (!d->fds) return 0;
    d->fds[0] = (struct pollfd){.fd = d->opts->stop_fd, .events = POLLIN};
    d->fds[1] = (struct pollfd){.fd = d->opts->reload_fd, .events = POLLIN};
    d->fds[2] = (struct pollfd){.fd = d->core.wake_fd, .events = POLLIN};
    return OWN_FDS + (room > d->fds_room ? 0 : gw_bal_probes_fds(&d->probes, d->fds + OWN_FDS, until));
}

static void turn(struct daemon *d)
{
    uint64_t count, now = gw_deadline(0), until = now + STATS_NS;
    pthread_mutex_lock(&d->core.lock);
    gw_bal_tend(&d->core.model, d->exchange.settled, now);
    gw_bal_pairs_tend(&d->core);
    uint64_t next = begin_checks(d);
    pthread_mutex_unlock(&d->core.lock);
    talk(d);
    gw_bal_api_tend(d->api);
    if (next < until) until = next;
    unsigned n = fill_fds(d, &until);
    now = gw_deadline(0);
    poll(d->fds, n, until > now ? (int)((until - now + MS - 1) / MS) : 0);
    reload_if_asked(d, n && d->fds[1].revents & POLLIN);
    if (n && d->fds[2].revents & POLLIN && read(d->core.wake_fd, &count, sizeof(count)) < 0) return;
    pthread_mutex_lock(&d->core.lock);
    gw_bal_probes_run(&d->probes, gw_deadline(0), checked, d);
    pthread_mutex_unlock(&d->core.lock);
}

static void greet(const struct daemon *d)
{
    unsigned services = 0, workers = 0;
    for (const struct gw_bal_service *s = d->core.model.services; s; s = s->next) {
        services++;
        for (const struct gw_bal_worker *w = s->workers; w; w = w->next) workers++;
    }
    if (!d->config.global.ports) printf("no interface and no device: no packet is forwarded\n");
    printf("balancing %u service%s over %u worker%s; API on %s port %u\n", services, services == 1 ? "" : "s",
           workers, workers == 1 ? "" : "s", d->config.global.api_host, gw_bal_api_port(d->api));
    fflush(stdout);
}

static void end_plane(struct daemon *d)
{
    json_t *answer;
    struct gw_bal_link *l = &d->exchange.link;
    uint64_t end = gw_deadline(END_NS);
    if (d->opts->keep) {
        printf("the data plane goes on; `gpuwire balance --config %s` takes it over again\n",
               d->opts->config);
        return;
    }
    if (l->fd < 0) return;
    if (!gw_bal_link_ask(l, json_pack("{s:s}", "op", "stop"), &answer)) json_decref(answer);
    gw_bal_link_close(l);
    /* Its socket goes when it has ended. */
    while (gw_deadline(0) < end && !gw_bal_link_open(l, d->config.global.run_dir)) {
        gw_bal_link_close(l);
        usleep(20000);
    }
    while (l->child && gw_deadline(0) < end && !gw_bal_link_ended(l)) usleep(10000);
    if (l->child)
        fprintf(stderr, "gpuwire balance: the data plane, process %d, does not end\n", (int)l->child);
}

static int daemon_begin(struct daemon *d)
{
    d->claim_fd = gw_bal_claim_control(d->config.global.run_dir);
    bool started;
    int err = d->claim_fd < 0 ? d->claim_fd : daemon_attach(d, true, &started);
    if (!err) err = begin_model(d);
    return err ? err : gw_bal_api_start(&d->core, &d->config.global, &d->api);
}

/* Each check and each call of the API takes a descriptor. A process may have as many as the system allows. */
static void raise_files(void)
{
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files)) return;
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
}

int gw_bal_daemon_run(const struct gw_bal_daemon_opts *o)
{
    struct daemon *d = calloc(1, sizeof(*d));
    if (!d) return gw_error_errno(-ENOMEM, "balance");
    d->opts = o;
    d->exchange.link.fd = -1;
    raise_files();
    gw_bal_probes_init(&d->probes);
    int err = gw_bal_config_read(o->config, &d->config);
    err = gw_bal_config_say(o->config, &d->config, err);
    if (!err) err = gw_bal_core_init(&d->core);
    if (err) {
        gw_bal_config_free(&d->config);
        free(d);
        return err;
    }
    d->core.global = &d->config.global;
    err = daemon_begin(d);
    if (!err) {
        greet(d);
        while (!o->stopped()) turn(d);
    }
    char why[512];
    snprintf(why, sizeof(why), "%s", gw_last_error());
    gw_bal_api_stop(d->api);
    /* A mistake of this process is no reason to end the data plane of the one before it. */
    if (!err || d->exchange.link.child) end_plane(d);
    gw_bal_probes_free(&d->probes);
    gw_bal_due_list_free(&d->due);
    free(d->fds);
    gw_bal_link_close(&d->exchange.link);
    if (d->claim_fd >= 0) close(d->claim_fd);
    gw_bal_core_free(&d->core);
    gw_bal_config_free(&d->config);
    free(d);
    return err ? gw_error(err, "%s", why) : 0;
}
