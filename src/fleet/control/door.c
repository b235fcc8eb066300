/* SPDX-License-Identifier: Apache-2.0 */
/* HTTP calls come on threads of their own. The loop's thread alone knows the controller, so each call asks it
 * and waits. */
#include "src/fleet/control/door.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <gpuwire/error.h>

#include "src/door/httpd.h"
#include "src/door/page.h"

#define DOOR_TEND   INT64_C(1000000000)
#define DOOR_WAIT_S 5 /* a call's patience with the loop */

GW_PAGE_EMBEDDED(fleet_html);
GW_PAGE_EMBEDDED(fleet_js);

static const struct gw_http_file door_page[] = {
    GW_PAGE_FILE("/", "text/html", fleet_html),
    GW_PAGE_FILE("/fleet.js", "text/javascript", fleet_js),
    GW_PAGE_COMMON,
    {0},
};

/* One call, which its thread and the loop's thread share: the last of both frees it. */
struct door_call {
    struct fleet_door *door;
    enum { DOOR_TABLE, DOOR_PLAN, DOOR_METRICS } what;
    json_t *answer;
    bool done, left;
};

struct fleet_door {
    struct fleet_door_opts o;
    struct gw_httpd *httpd;
    struct fleet_timer tend;
    pthread_mutex_t lock; /* of the calls */
    pthread_cond_t news;
    bool closing;
};

/* ---- the loop's thread */

static json_t *door_metrics(struct fleet_control *c)
{
    struct gw_text text = {0};
    fleet_control_metrics(c, &text);
    json_t *answer = text.broken ? NULL : json_stringn(text.at, text.bytes);
    free(text.at);
    return answer;
}

static void door_answer(void *ctx)
{
    struct door_call *call = ctx;
    struct fleet_door *d = call->door;
    json_t *answer = call->what == DOOR_TABLE  ? fleet_control_table(d->o.control)
                     : call->what == DOOR_PLAN ? fleet_control_plan(d->o.control)
                                               : door_metrics(d->o.control);
    pthread_mutex_lock(&d->lock);
    bool left = call->left;
    call->answer = answer;
    call->done = true;
    pthread_cond_broadcast(&d->news);
    pthread_mutex_unlock(&d->lock);
    if (!left) return;
    json_decref(answer);
    free(call);
}

/* ---- the threads of calls */

/* Waits for the answer; NULL: none came in time, or there is no memory. */
static json_t *door_wait(struct door_call *call)
{
    struct fleet_door *d = call->door;
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += DOOR_WAIT_S;
    pthread_mutex_lock(&d->lock);
    int err = 0;
    while (!call->done && !d->closing && !err) err = pthread_cond_timedwait(&d->news, &d->lock, &until);
    bool done = call->done;
    json_t *answer = call->answer;
    call->left = true;
    pthread_mutex_unlock(&d->lock);
    if (done) free(call);
    return done ? answer : NULL;
}

static unsigned door_call_of(void *ctx, const struct gw_http_request *r, json_t **reply)
{
    struct fleet_door *d = ctx;
    static const char *const paths[] = {"/v1/fleet", "/v1/plan", "/metrics"};
    unsigned what = 0;
    while (what < 3 && strcmp(r->path, paths[what])) what++;
    if (what == 3) {
        *reply = gw_http_error("there are /v1/fleet, /v1/plan and /metrics");
        return 404;
    }
    if (strcmp(r->method, "GET")) {
        *reply = gw_http_error("GET alone is answered here");
        return 405;
    }
    struct door_call *call = calloc(1, sizeof(*call));
    if (call) {
        call->door = d;
        call->what = what;
    }
    if (call && fleet_loop_call(d->o.loop, door_answer, call)) {
        free(call);
        call = NULL;
    }
    *reply = call ? door_wait(call) : NULL;
    if (*reply) return 200;
    *reply = gw_http_error("the controller is busy");
    return 503;
}

static void door_forget(void *ctx, const void *connection)
{
    (void)ctx, (void)connection;
}

static bool door_stays(void *ctx, const void *connection)
{
    (void)ctx, (void)connection;
    return false;
}

/* ---- opening and closing */

static void door_tend(void *ctx)
{
    struct fleet_door *d = ctx;
    gw_httpd_tend(d->httpd);
    fleet_timer_set(d->o.loop, &d->tend, fleet_loop_now(d->o.loop) + DOOR_TEND, door_tend, d);
}

int fleet_door_open(const struct fleet_door_opts *opts, struct fleet_door **out)
{
    struct fleet_door *d = calloc(1, sizeof(*d));
    if (!d) return gw_error(-ENOMEM, "no memory for the HTTP door");
    struct gw_httpd_opts o = {
        .option = "--http", .host = opts->host, .port = opts->port, .token = opts->token};
    struct gw_httpd_handler handler = {
        .ctx = d, .call = door_call_of, .closed = door_forget, .stays = door_stays, .files = door_page};
    d->o = *opts;
    pthread_mutex_init(&d->lock, NULL);
    pthread_cond_init(&d->news, NULL);
    int err = gw_httpd_start(&o, &handler, &d->httpd);
    if (err) {
        free(d);
        return err;
    }
    door_tend(d);
    *out = d;
    return 0;
}

uint16_t fleet_door_port(const struct fleet_door *d)
{
    return gw_httpd_port(d->httpd);
}

void fleet_door_close(struct fleet_door *d)
{
    if (!d) return;
    pthread_mutex_lock(&d->lock);
    d->closing = true; /* nothing waits for this thread, which waits for them now */
    pthread_cond_broadcast(&d->news);
    pthread_mutex_unlock(&d->lock);
    gw_httpd_stop(d->httpd);
    fleet_timer_clear(d->o.loop, &d->tend);
    /* Calls that were left are in the loop still: it answers them before the door goes. */
    fleet_loop_run(d->o.loop, 0);
    pthread_cond_destroy(&d->news);
    pthread_mutex_destroy(&d->lock);
    free(d);
}
