/* SPDX-License-Identifier: Apache-2.0 */
/* gpuwire router: the models of a fleet, for clients of the Open Inference Protocol. */
#include "src/cli/cli.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <gpuwire/error.h>
#include <gpuwire/exec.h>

#include "src/cli/options.h"
#include "src/cli/router_args.h"
#include "src/door/log.h"
#include "src/door/secret.h"
#include "src/server/requests/infer.h"

#define TEND_NS 100000000u /* between two looks at the doors' connections */
#define NAP_NS  2000000u   /* between two looks whether all is answered */

struct routing {
    struct fleet_router *router;
    struct gw_infer *infer;
    struct gw_access *access;
    struct gw_http_door *http;
    struct gw_server_door door[2];
    uint32_t doors;
    uint16_t grpc_port; /* 0: there is none */
    int hangup_fd;      /* -1: SIGHUP ends the router */
    int quiet;          /* standard output belongs to the access log */
};

/* ---- beginning */

static int router_open_fleet(struct gw_cli_router *all, struct routing *r)
{
    char *token = NULL;
    int err = gw_secret_take_token(NULL, all->fleet_token_file, &token);
    all->fleet.client.token = token;
    if (!err) err = fleet_router_open(&all->fleet, &r->router);
    gw_secret_forget(token); /* the client has a copy */
    all->fleet.client.token = NULL;
    return err;
}

static int router_open_doors(const struct gw_cli_router *all, struct routing *r)
{
    struct gw_infer_opts infer = {.backend = &fleet_router_backend, .ctx = r->router, .access = r->access};
    int err = gw_infer_create(&infer, &r->infer);
    if (!err) err = gw_http_door_start(NULL, r->infer, &all->doors.http, &r->door[0], &r->http);
    if (!err) r->doors = 1;
    if (!err)
        err = gw_cli_grpc_open(r->infer, &all->doors.http, &all->doors.grpc, &r->door[1], &r->grpc_port);
    if (!err && r->grpc_port) r->doors = 2;
    return err;
}

static int router_start(struct gw_cli_router *all, struct routing *r)
{
    int err = gw_cli_doors_log(&all->doors, &r->access, &r->hangup_fd);
    r->quiet = all->doors.access_log && !strcmp(all->doors.access_log, "-");
    if (!err) err = router_open_fleet(all, r);
    return err ? err : router_open_doors(all, r);
}

/* ---- running */

static void router_tend(struct routing *r)
{
    for (uint32_t i = 0; i < r->doors; i++)
        if (r->door[i].tend) r->door[i].tend(r->door[i].door);
}

/* Until a signal comes. */
static void router_run(struct routing *r)
{
    const int fds[] = {gw_interrupt_fd(), r->hangup_fd};
    while (gw_wait_fds(fds, 1, 0) <= 0) {
        gw_wait_fds(fds, r->hangup_fd < 0 ? 1 : 2, gw_deadline(TEND_NS));
        gw_cli_doors_reopen(r->access, r->hangup_fd);
        router_tend(r);
    }
}

/* ---- ending */

static bool router_is_busy(struct routing *r)
{
    bool busy = fleet_router_is_busy(r->router);
    for (uint32_t i = 0; i < r->doors && !busy; i++)
        busy = r->door[i].busy && r->door[i].busy(r->door[i].door);
    return busy;
}

/* A second signal ends the process at once. */
static void router_drain(const struct gw_cli_router *all, struct routing *r)
{
    if (!all->doors.drain_ns) return;
    unsigned long long seconds = all->doors.drain_ns / 1000000000u;
    uint64_t end = gw_deadline(all->doors.drain_ns);
    gw_log(GW_LOG_INFO,
           "the router ends: it takes nothing new, and answers what is under way for %llu s at most",
           seconds);
    gw_infer_drain(r->infer);
    while (router_is_busy(r) && gw_deadline(0) < end) {
        usleep(NAP_NS / 1000);
        router_tend(r);
    }
    if (router_is_busy(r)) gw_log(GW_LOG_WARNING, "not all is answered after %llu s", seconds);
}

/* The doors' threads must have left the fleet's client before it is closed. */
static void router_stop(struct routing *r)
{
    if (r->router) fleet_router_end(r->router);
    for (uint32_t i = r->doors; i > 0; i--) r->door[i - 1].stop(r->door[i - 1].door);
    fleet_router_close(r->router);
    gw_infer_destroy(r->infer);
    gw_access_close(r->access);
}

int gw_cli_router(int argc, char **argv)
{
    struct gw_cli_router all = {0};
    struct routing r = {.hangup_fd = -1};
    int done = gw_cli_router_args(argc, argv, &all);
    if (done >= 0) return done;
    gw_log_name("gpuwire router");
    gw_cli_doors_keep_memory();
    gw_catch_signals();
    int err = router_start(&all, &r);
    if (err) {
        done = gw_failed("router");
        if (gw_cli_doors_is_a_setting(err)) done = GW_EXIT_USAGE;
        router_stop(&r);
        return done;
    }
    gw_cli_doors_warn(&all.doors);
    char grpc[32] = "";
    if (r.grpc_port) snprintf(grpc, sizeof(grpc), "; gRPC on port %u", r.grpc_port);
    gw_cli_doors_tell(r.quiet, "routing to the fleet %s; HTTP on port %u%s",
                      all.fleet.client.fleet ? all.fleet.client.fleet : "default", gw_http_door_port(r.http),
                      grpc);
    router_run(&r);
    router_drain(&all, &r);
    router_stop(&r);
    gw_cli_doors_tell(r.quiet, "stopped");
    return GW_EXIT_OK;
}
