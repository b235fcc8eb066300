/* SPDX-License-Identifier: Apache-2.0 */
/* gpuwire controller: one thread that decides, and the threads of its HTTP door. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include <gpuwire/error.h>

#include "src/cli/cli.h"
#include "src/cli/fleet/controller.h"
#include "src/cli/fleet/controller_models.h"
#include "src/cli/options.h"
#include "src/door/access.h"
#include "src/door/log.h"
#include "src/door/secret.h"
#include "src/fleet/control/door.h"
#include "src/fleet/wire/address.h"
#ifdef GW_HAVE_FLEET_REGISTRY
#include "src/fleet/control/lead.h"
#endif

struct controller_run {
    const struct gw_controller_args *a;
    struct fleet_loop *loop;
    struct fleet_control *control;
    struct fleet_door *door;
    struct fleet_lead *lead;
    struct gw_access *audit;
    char *token, *http_token;
    uint8_t id[FLEET_ID];
    char name[FLEET_NAME], address[FLEET_ADDRESS];
    int hangup_fd;
};

static void controller_say(void *ctx, const char *line)
{
    (void)ctx;
    gw_log(GW_LOG_INFO, "%s", line);
}

static void controller_audit(void *ctx, json_t *action)
{
    const struct controller_run *r = ctx;
    gw_access_json(r->audit, action);
}

static void controller_stop(void *ctx)
{
    fleet_loop_stop(ctx);
}

/* SIGHUP: the audit log is opened again, and --models is read again. */
static void controller_hangup(void *ctx)
{
    const struct controller_run *r = ctx;
    uint64_t times;
    if (read(r->hangup_fd, &times, sizeof(times)) <= 0) return;
    if (r->audit) gw_access_reopen(r->audit);
    if (r->a->models && gw_controller_models(r->a->models, r->control))
        gw_log(GW_LOG_ERROR, "%s; the models named before are kept", gw_last_error());
}

static int controller_watch(struct controller_run *r)
{
    struct fleet_watch *w;
    int err = fleet_watch_add(r->loop, gw_interrupt_fd(), controller_stop, r->loop, &w);
    if (err || (!r->audit && !r->a->models)) return err;
    r->hangup_fd = gw_catch_hangup();
    return r->hangup_fd < 0 ? r->hangup_fd : fleet_watch_add(r->loop, r->hangup_fd, controller_hangup, r, &w);
}

static int controller_secrets(struct controller_run *r)
{
    const struct gw_controller_args *a = r->a;
    int err = a->token_file ? gw_secret_take_token(NULL, a->token_file, &r->token) : 0;
    if (!err && a->http_token_file) err = gw_secret_take_token(NULL, a->http_token_file, &r->http_token);
    if (!err && getrandom(r->id, sizeof(r->id), 0) != sizeof(r->id)) err = gw_error(-EIO, "no random bytes");
    if (a->name)
        snprintf(r->name, sizeof(r->name), "%s", a->name);
    else if (gethostname(r->name, sizeof(r->name) - 1))
        strcpy(r->name, "controller");
    return err;
}

static int controller_open(struct controller_run *r)
{
    const struct gw_controller_args *a = r->a;
    struct fleet_control_opts o = {.loop = r->loop,
                                   .fleet = a->fleet,
                                   .name = r->name,
                                   .token = r->token,
                                   .id = r->id,
                                   .listen = a->listen,
                                   .limits = a->limits,
                                   .telemetry_ns = a->telemetry_ms * INT64_C(1000000),
                                   .device = a->device,
                                   .dry_run = a->dry_run,
                                   .say = controller_say,
                                   .audit = r->audit ? controller_audit : NULL,
                                   .ctx = r};
    if (a->address && !fleet_address_ok(a->address))
        return gw_error(-EINVAL, "--address %.80s: give HOST:PORT, or [IPV6]:PORT", a->address);
    int err = fleet_control_open(&o, &r->control);
    if (err) return err;
    /* With port 0 the one that it got. */
    int host = (int)(strrchr(a->listen, ':') - a->listen);
    snprintf(r->address, sizeof(r->address), "%.*s:%u", host, a->listen, fleet_control_port(r->control));
    if (a->address) snprintf(r->address, sizeof(r->address), "%s", a->address);
    if (!a->http) return 0;
    struct fleet_door_opts d = {r->loop, r->control, a->http_host, a->http_port, r->http_token};
    return fleet_door_open(&d, &r->door);
}

static uint64_t controller_term(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

#ifdef GW_HAVE_FLEET_REGISTRY
static int controller_campaign(struct controller_run *r)
{
    struct fleet_registry_opts o = {.etcd = r->a->etcd, .fleet = r->a->fleet};
    struct fleet_registry_leader me = {0};
    memcpy(me.id, r->id, sizeof(me.id));
    memcpy(me.name, r->name, sizeof(me.name));
    memcpy(me.address, r->address, sizeof(me.address));
    return fleet_lead_open(r->loop, &o, &me, r->control, controller_say, &r->lead);
}
#else
static int controller_campaign(struct controller_run *r)
{
    (void)r;
    return gw_error(-ENOTSUP, "--etcd: this gpuwire was built without gRPC, which etcd speaks");
}

static void fleet_lead_close(struct fleet_lead *l)
{
    (void)l;
}
#endif

static int controller_lead(struct controller_run *r)
{
    if (!r->a->standalone) return controller_campaign(r);
    fleet_control_lead(r->control, controller_term());
    return 0;
}

static void controller_close(struct controller_run *r)
{
    fleet_door_close(r->door);
    fleet_lead_close(r->lead);
    fleet_control_close(r->control);
    fleet_loop_destroy(r->loop);
    gw_access_close(r->audit);
    gw_secret_forget(r->token);
    gw_secret_forget(r->http_token);
}

static int controller_run(struct controller_run *r)
{
    const struct gw_controller_args *a = r->a;
    int err = controller_secrets(r);
    if (!err && a->audit) err = gw_access_open_as("--audit", a->audit, GW_ACCESS_ROOM, &r->audit);
    if (!err) err = fleet_loop_create(&r->loop);
    if (!err) err = controller_watch(r);
    if (!err) err = controller_open(r);
    if (!err && a->models) err = gw_controller_models(a->models, r->control);
    if (!err) err = controller_lead(r);
    if (err) return err;
    bool quiet = a->audit && !strcmp(a->audit, "-");
    if (!quiet) {
        printf("listening on %s", r->address);
        if (r->door) printf(", http://%s:%u/", a->http_host, fleet_door_port(r->door));
        printf("\n");
        fflush(stdout);
    }
    return fleet_loop_run(r->loop, INT64_MAX);
}

int gw_cli_controller(int argc, char **argv)
{
    struct gw_controller_args a;
    struct controller_run r = {.a = &a};
    int code = gw_controller_parse(argc, argv, &a);
    if (code) return code < 0 ? GW_EXIT_OK : code;
    gw_log_name("gpuwire controller");
    gw_catch_signals();
    int err = controller_run(&r);
    controller_close(&r);
    return err ? gw_failed("controller") : GW_EXIT_OK;
}
