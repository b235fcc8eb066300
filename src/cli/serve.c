/* SPDX-License-Identifier: Apache-2.0 */
/* gpuwire serve: the inference server. */
#include "src/cli/cli.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <gpuwire/error.h>
#include <gpuwire/exec.h>

#include "src/cli/options.h"
#include "src/cli/serve_args.h"
#include "src/cli/serve_balancer.h"
#include "src/cli/serve_fleet.h"
#include "src/server/http/http.h"
#include "src/server/requests/infer.h"
#include "src/server/requests/local.h"
#include "src/server/requests/watch.h"
#include "src/door/log.h"
#include "src/server/lifecycle/server.h"

struct running {
    struct gw_server *server;
    struct gw_control *control;
    struct gw_watch *watch; /* NULL: the repository's changes are not looked for */
    struct gw_infer_local local;
    struct gw_infer *infer;
    struct gw_http_door *http;
    struct gw_access *access;
    struct gw_cli_balancer *balancer;
    int hangup_fd;      /* -1: SIGHUP ends the server */
    uint16_t grpc_port; /* 0: there is none */
    int quiet;          /* standard output belongs to the access log */
};

/* A model that is at work is not waited for: nothing but the end of the process ends it. */
static void serve_cut_short(const struct running *r, int err)
{
    gw_cli_doors_tell(r->quiet, "stopped; %s", gw_last_error());
    gw_access_close(r->access);
    _exit(err ? GW_EXIT_FAILURE : GW_EXIT_OK);
}

/* ---- beginning ---- */

/* What the balancer compares: requests that wait, or are under way. */
static uint64_t serve_load(void *infer)
{
    struct gw_infer_stats s;
    struct gw_infer_model m;
    uint64_t load = 0;
    gw_infer_enter(infer);
    for (size_t i = 0; gw_infer_model(infer, i, &m); i++) {
        gw_infer_stats(infer, &m, &s);
        load += s.waiting + s.calls_taken;
    }
    gw_infer_leave(infer);
    return load;
}

static int serve_join_balancer(const struct gw_cli_serving *all, struct running *r,
                               const struct gw_server_view *view)
{
    const struct gw_cli_balanced server = {"serve", serve_load, r->infer, view->sessions,
                                           gw_http_door_port(r->http)};

    return gw_cli_balancer_start(&all->balancer, &server, &r->balancer);
}

static int serve_open_doors(const struct gw_cli_serving *all, struct running *r)
{
    struct gw_server_view view;
    gw_server_view(r->server, &view);
    int err = gw_control_create(r->server, all->control ? all->server.models : NULL, &r->control);
    struct gw_server_door http, grpc;
    gw_infer_local_of(&view, &r->local);
    struct gw_infer_opts infer = {
        .backend = &gw_infer_local, .ctx = &r->local, .control = r->control, .access = r->access};
    if (!err) err = gw_infer_create(&infer, &r->infer);
    if (!err) err = gw_http_door_start(&view, r->infer, &all->doors.http, &http, &r->http);
    if (!err) err = gw_server_add_door(r->server, &http);
    if (!err) err = gw_cli_grpc_open(r->infer, &all->doors.http, &all->doors.grpc, &grpc, &r->grpc_port);
    if (!err && r->grpc_port) err = gw_server_add_door(r->server, &grpc);
    return err ? err : serve_join_balancer(all, r, &view);
}

static int serve_start(struct gw_cli_serving *all, struct running *r)
{
    int err = gw_cli_doors_log(&all->doors, &r->access, &r->hangup_fd);
    r->quiet = all->doors.access_log && !strcmp(all->doors.access_log, "-");
    all->server.access = r->access;
    /* Before the models are read: what changes from now on is noticed. */
    if (!err && all->watch) err = gw_watch_create(all->server.models, all->server.only, &r->watch);
    if (!err) err = gw_server_start(&all->server, &r->server);
    return err ? err : serve_open_doors(all, r);
}

/* ---- running ---- */

/* Until a signal comes, or a worker fails. */
static int serve_run(struct running *r)
{
    const int fds[] = {gw_interrupt_fd(), gw_control_fd(r->control), r->hangup_fd,
                       r->watch ? gw_watch_fd(r->watch) : -1};
    for (;;) {
        int err = gw_server_run(r->server, fds, 4);
        if (err || gw_wait_fds(fds, 1, 0) > 0) return err;
        gw_cli_doors_reopen(r->access, r->hangup_fd);
        gw_control_do(r->control);
        if (r->watch) gw_watch_do(r->watch, r->server);
    }
}

/* ---- ending ---- */

/* A second signal ends the process at once. */
static void serve_drain(const struct gw_cli_serving *all, struct running *r)
{
    gw_cli_balancer_leave(r->balancer);
    if (!all->doors.drain_ns) return;
    gw_log(GW_LOG_INFO,
           "the server ends: it takes nothing new, and answers what is under way for %llu s at most",
           (unsigned long long)(all->doors.drain_ns / 1000000000u));
    gw_control_close(r->control);
    gw_infer_drain(r->infer);
    if (gw_server_drain(r->server, gw_deadline(all->doors.drain_ns)))
        gw_log(GW_LOG_WARNING, "not all is answered after %llu s: %s",
               (unsigned long long)(all->doors.drain_ns / 1000000000u), gw_last_error());
}

static int serve_stop(struct running *r, uint64_t *stop_ns)
{
    gw_cli_balancer_leave(r->balancer);
    gw_control_close(r->control); /* no caller waits for it any more */
    int err = gw_server_stop(r->server, stop_ns);
    if (err) return err;               /* nothing was freed */
    gw_cli_balancer_stop(r->balancer); /* the last sessions have ended */
    gw_infer_destroy(r->infer);
    gw_control_destroy(r->control);
    gw_watch_destroy(r->watch);
    return 0;
}

int gw_cli_serve(int argc, char **argv)
{
    struct gw_cli_serving all = {.server = {.models = gw_default_models()}};
    struct running r = {.hangup_fd = -1};
    uint64_t stop_ns = 0;
    int done = gw_cli_serve_args(argc, argv, &all);
    if (done >= 0) return done;

    gw_cli_doors_keep_memory();
    gw_catch_signals();
    if (all.fleet.fleet) return gw_cli_serve_fleet(&all);
    int err = serve_start(&all, &r);
    if (err) {
        done = gw_failed("serve");
        if (gw_cli_doors_is_a_setting(err) || (err == -ENODEV && all.server.device)) done = GW_EXIT_USAGE;
        serve_stop(&r, &stop_ns);
        gw_access_close(r.access);
        return done;
    }
    gw_cli_doors_warn(&all.doors);
    char grpc[32] = "";
    if (r.grpc_port) snprintf(grpc, sizeof(grpc), "; gRPC on port %u", r.grpc_port);
    gw_cli_doors_tell(r.quiet, "serving %s; HTTP on port %u%s", gw_server_text(r.server),
                      gw_http_door_port(r.http), grpc);

    err = serve_run(&r);
    if (err)
        gw_log(GW_LOG_ERROR, "%s", gw_last_error());
    else
        serve_drain(&all, &r);
    if (serve_stop(&r, &stop_ns)) serve_cut_short(&r, err);
    gw_cli_doors_tell(r.quiet, "stopped; the slowest loop took %.2f ms to stop", (double)stop_ns / 1e6);
    gw_access_close(r.access);
    return err ? GW_EXIT_FAILURE : GW_EXIT_OK;
}
