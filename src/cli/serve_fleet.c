/* SPDX-License-Identifier: Apache-2.0 */
/* gpuwire serve --fleet: the engine that computes, and its agent, on this thread's loop. */
#include "src/cli/serve_fleet.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <gpuwire/error.h>
#include <gpuwire/exec.h>
#include <gpuwire/verbs.h>

#include "src/cli/options.h"
#include "src/cli/serve_args.h"
#include "src/door/log.h"
#include "src/door/secret.h"
#include "src/fleet/pipe/pipe.h"
#include "src/fleet/real/real.h"
#include "src/fleet/worker/agent.h"
#include "src/fleet/worker/enrol.h"

enum { FLEET_CALLS = 256, FLEET_FOLDER = 4096 };

struct fleet_serving {
    const struct gw_cli_serving *all;
    struct gw_exec *exec, *own_exec;
    struct gw_device *dev, *own_dev;
    struct fleet_pipes *pipes; /* on own_dev, for telemetry */
    struct fleet_loop *loop;
    struct fleet_agent *agent;
    struct fleet_enrol *entry;
    struct fleet_engine *engine;
    struct fleet_watch *signals, *failures;
    bool failed; /* the engine has ended by itself */
    char name[FLEET_NAME], folder[FLEET_FOLDER];
    char *token;
};

static void fleet_say(void *ctx, const char *line)
{
    (void)ctx;
    gw_log(GW_LOG_INFO, "%s", line);
}

/* ---- what it needs */

/* Makes the folder and those above it. */
static int fleet_make_folder(char *path)
{
    for (char *at = path + 1; *at; at++) {
        if (*at != '/') continue;
        *at = 0;
        int err = mkdir(path, 0700) && errno != EEXIST ? -errno : 0;
        *at = '/';
        if (err) return gw_error_errno(err, "the folder %s", path);
    }
    return mkdir(path, 0700) && errno != EEXIST ? gw_error_errno(-errno, "the folder %s", path) : 0;
}

static int fleet_find_folder(struct fleet_serving *s)
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME"), *given = s->all->fleet.folder;
    int n;
    if (given)
        n = snprintf(s->folder, sizeof(s->folder), "%s", given);
    else if (cache && *cache == '/')
        n = snprintf(s->folder, sizeof(s->folder), "%s/gpuwire/fleet", cache);
    else if (home && *home == '/')
        n = snprintf(s->folder, sizeof(s->folder), "%s/.cache/gpuwire/fleet", home);
    else
        n = snprintf(s->folder, sizeof(s->folder), "/var/cache/gpuwire/fleet");
    if (n <= 0 || n >= (int)sizeof(s->folder))
        return gw_error(-EINVAL, "--fleet-folder: give a shorter path");
    return fleet_make_folder(s->folder);
}

static int fleet_find_name(struct fleet_serving *s)
{
    const char *given = s->all->fleet.worker;
    if (!given && gethostname(s->name, sizeof(s->name)))
        return gw_error_errno(-errno, "this host has no name: give --worker");
    if (given && snprintf(s->name, sizeof(s->name), "%s", given) >= (int)sizeof(s->name))
        return gw_error(-EINVAL, "--worker: give %zu bytes at most", sizeof(s->name) - 1);
    s->name[sizeof(s->name) - 1] = 0;
    return 0;
}

/* As the server does (src/server/lifecycle): requests by TCP go through a device of their own. */
static int fleet_open_devices(struct fleet_serving *s)
{
    const struct gw_server_opts *o = &s->all->server;
    struct gw_exec_opts exec = {.device = o->gpu};
    struct gw_device_info nic;
    int err = gw_exec_create(o->exec, &exec, &s->exec);
    if (!err) err = gw_device_open(o->device, s->exec, &s->dev);
    if (err) return err;
    gw_device_query(s->dev, &nic);
    err = gw_exec_create("cpu", NULL, &s->own_exec);
    return err ? err : gw_device_open(nic.soft ? "softnic" : nic.name, s->own_exec, &s->own_dev);
}

static int fleet_make_engine(struct fleet_serving *s, struct fleet_engine **engine)
{
    const struct gw_server_opts *o = &s->all->server;
    const struct fleet_real_opts real = {.exec = s->exec,
                                         .dev = s->dev,
                                         .own_dev = s->own_dev,
                                         .models = o->models,
                                         .folder = s->folder,
                                         .gpu_pages = s->all->fleet.gpu_pages,
                                         .host_pages = s->all->fleet.host_pages,
                                         .load_delay_ns = (int64_t)s->all->fleet.load_delay_us * 1000,
                                         .sessions = o->sessions,
                                         .slots = o->slots,
                                         .calls = FLEET_CALLS,
                                         .leases = s->all->fleet.leases,
                                         .max_batch = o->max_batch > 16 ? 16 : o->max_batch,
                                         .threads = o->threads,
                                         .memory = o->model_memory,
                                         .say = fleet_say};
    return fleet_real_create(&real, engine);
}

/* ---- its life */

static void fleet_left(void *ctx)
{
    struct fleet_serving *s = ctx;
    fleet_loop_stop(s->loop);
}

static void fleet_signal(void *ctx)
{
    struct fleet_serving *s = ctx;
    fleet_watch_drop(s->loop, s->signals);
    fleet_agent_leave(s->agent, (int64_t)s->all->doors.drain_ns, fleet_left, s);
}

/* A worker that answers nothing would keep its leases, and its clients. It ends, and what starts it again
 * gives it a NIC and a GPU that work. */
static void fleet_engine_failed(void *ctx)
{
    struct fleet_serving *s = ctx;
    gw_log(GW_LOG_ERROR, "worker %s: its NIC or its GPU has failed: it leaves the fleet and ends", s->name);
    s->failed = true;
    fleet_watch_drop(s->loop, s->failures);
    fleet_agent_leave(s->agent, 0, fleet_left, s);
}

static int fleet_make_agent(struct fleet_serving *s)
{
    const struct gw_http_door_opts *door = &s->all->doors.http;
    const struct gw_cli_fleet_opts *f = &s->all->fleet;
    const char *host = door->host ? door->host : "127.0.0.1";
    char listen[FLEET_ADDRESS];
    snprintf(listen, sizeof(listen), strchr(host, ':') ? "[%s]:%u" : "%s:%u", host, door->port);
    int err = fleet_make_engine(s, &s->engine);
    if (err) return err;
    const struct fleet_agent_opts o = {.loop = s->loop,
                                       .engine = s->engine,
                                       .fleet = f->name,
                                       .name = s->name,
                                       .token = s->token,
                                       .listen = listen,
                                       .address = f->address,
                                       .controllers = strstr(f->fleet, "://") ? NULL : f->fleet,
                                       .pipes = s->pipes,
                                       .say = fleet_say};
    err = fleet_agent_create(&o, &s->agent);
    if (!err) return 0;
    s->engine->ops->stop(s->engine);
    s->engine->ops->destroy(s->engine);
    return err;
}

static int fleet_start(struct fleet_serving *s)
{
    const struct gw_cli_fleet_opts *f = &s->all->fleet;
    if (s->all->server.only)
        return gw_error(-EINVAL, "--model %s: a worker of a fleet serves all of its repository",
                        s->all->server.only);
    int err = gw_secret_take_token(NULL, s->all->doors.http.token_file, &s->token);
    if (!err) err = fleet_find_name(s);
    if (!err) err = fleet_find_folder(s);
    if (!err) err = fleet_loop_create(&s->loop);
    if (!err) err = fleet_open_devices(s);
    if (!err) err = fleet_pipes_on(s->own_dev, &s->pipes);
    if (!err) err = fleet_make_agent(s);
    if (!err) err = fleet_watch_add(s->loop, gw_interrupt_fd(), fleet_signal, s, &s->signals);
    if (!err) err = fleet_watch_add(s->loop, fleet_real_fd(s->engine), fleet_engine_failed, s, &s->failures);
    if (err || !strstr(f->fleet, "://")) return err;
    const struct fleet_registry_opts registry = {.etcd = f->fleet, .fleet = f->name};
    const struct fleet_enrol_opts o = {
        .loop = s->loop, .agent = s->agent, .name = s->name, .registry = &registry, .say = fleet_say};
    return fleet_enrol_open(&o, &s->entry);
}

static void fleet_end(struct fleet_serving *s)
{
    fleet_enrol_close(s->entry);
    fleet_agent_destroy(s->agent);
    if (s->loop) fleet_loop_run(s->loop, 0); /* what it owes to the engine's threads */
    fleet_loop_destroy(s->loop);
    fleet_pipes_close(s->pipes);
    if (s->own_dev) gw_device_close(s->own_dev);
    gw_exec_destroy(s->own_exec);
    if (s->dev) gw_device_close(s->dev);
    gw_exec_destroy(s->exec);
    gw_secret_forget(s->token);
}

int gw_cli_serve_fleet(const struct gw_cli_serving *all)
{
    struct fleet_serving s = {.all = all};
    struct fleet_agent_view v;
    int err = fleet_start(&s);
    if (!err) {
        fleet_agent_view(s.agent, &v);
        printf("worker %s of the fleet %s: %u models, on %s, at %s\n", s.name, all->fleet.name,
               v.facts.models, gw_exec_name(s.exec), v.address);
        fflush(stdout);
        err = fleet_loop_run(s.loop, INT64_MAX);
    }
    int done = err ? gw_failed("serve") : s.failed ? GW_EXIT_FAILURE : GW_EXIT_OK;
    fleet_end(&s);
    return done;
}
