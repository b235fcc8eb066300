/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fake_fleet.c: `gpuwire router` in front of a fleet that is made up, in the place of the fleet's client and
 * of the list that a controller tells. A model's name says what becomes of its requests:
 *
 *     echo, m-0 … m-299   the input comes back                slow    the same, 300 ms later
 *     never               no answer by the deadline           full    refused: try again in 1.5 s
 *     dead                its worker dies in mid-request      broken  the model fails
 *     odd                 an answer of another size           riddle  a description that makes no sense
 *     mute                a description that does not come    gone    no worker has it
 *
 * The file $FAKE_FLEET_AWAY says by being there that no controller answers, and $FAKE_FLEET_BARE that no
 * lease is held either.
 */
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <gpuwire/error.h>
#include <gpuwire/sync.h>

#include "src/cli/cli.h"
#include "src/fleet/client/fleet_client.h"
#include "src/fleet/router/list.h"

enum { MANY = 300, MS = 1000000 };

struct fleet_client_model {
    struct fleet_client_model *next;
    char name[FLEET_MODEL];
};

struct fleet_client {
    pthread_mutex_t lock;
    struct fleet_client_model *models;
    uint32_t flying;
    uint32_t closing; /* atomic; it stands alone */
};

static struct fleet_client client = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* One request, on a thread of its own. */
struct job {
    struct fleet_client_model *model;
    struct fleet_client_request r;
    bool describes;
};

static int64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 * MS + t.tv_nsec;
}

/* Or until the client is closed. */
static void sleep_until(int64_t at)
{
    while (now() < at && !gw_ld_relaxed_u32(&client.closing)) usleep(2000); /* a number by itself */
}

static void count(int more)
{
    pthread_mutex_lock(&client.lock);
    client.flying += (uint32_t)more;
    pthread_mutex_unlock(&client.lock);
}

static uint32_t flying(void)
{
    pthread_mutex_lock(&client.lock);
    uint32_t n = client.flying;
    pthread_mutex_unlock(&client.lock);
    return n;
}

static bool is(const struct job *j, const char *name)
{
    return !strcmp(j->model->name, name);
}

static void describe(const struct job *j, struct fleet_client_reply *r, char text[400])
{
    if (is(j, "mute")) {
        sleep_until(j->r.deadline_at);
        r->error = -ETIME;
        r->why = "no worker has told what the model is";
        return;
    }
    if (is(j, "gone")) {
        r->error = -ENOENT;
        r->why = "no worker has such a model";
        return;
    }
    r->bytes = (uint64_t)snprintf(
        text, 400,
        "{\"name\":\"%s\",\"versions\":[\"3\"],\"platform\":\"fake\",\"inputs\":[{\"name\":"
        "\"x\",\"datatype\":\"FP32\",\"shape\":[%s,4]}],\"outputs\":[{\"name\":\"y\","
        "\"datatype\":\"FP32\",\"shape\":[-1,4]}],\"max_batch_size\":8}",
        j->model->name, is(j, "riddle") ? "-2" : "-1");
    r->data = text;
}

static void infer(const struct job *j, struct fleet_client_reply *r)
{
    static const struct {
        const char *name;
        int error;
        int64_t retry_ns;
        const char *why;
    } ends[] = {{"full", -EAGAIN, 1500 * (int64_t)MS, "every worker is full"},
                {"dead", -ECONNRESET, 0, "worker w-1 died"},
                {"broken", -EREMOTEIO, 0, "the model failed"}};
    r->queued_ns = MS;
    r->model_ns = 2 * MS;
    r->data = j->r.in;
    r->bytes = j->r.bytes - (is(j, "odd") ? 4 : 0);
    int64_t end = is(j, "never") ? INT64_MAX : is(j, "slow") ? now() + 300 * (int64_t)MS : 0;
    bool late = end > j->r.deadline_at;
    if (end) sleep_until(late ? j->r.deadline_at : end);
    if (late) *r = (struct fleet_client_reply){.error = -ETIME, .why = "no answer by the deadline"};
    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
        if (!is(j, ends[i].name)) continue;
        *r = (struct fleet_client_reply){
            .error = ends[i].error, .retry_ns = ends[i].retry_ns, .why = ends[i].why};
    }
}

static void *work(void *arg)
{
    struct job *j = arg;
    char text[400];
    struct fleet_client_reply r = {
        .why = "", .begun_at = now(), .rows = j->r.rows, .tries = 1, .worker = "w-0"};
    if (j->describes)
        describe(j, &r, text);
    else
        infer(j, &r);
    r.seen_at = now();
    j->r.done(j->r.ctx, &r);
    free(j);
    count(-1);
    return NULL;
}

static int begin(const struct job *job)
{
    pthread_t thread;
    struct job *j = malloc(sizeof(*j));
    if (!j) return -ENOMEM;
    *j = *job;
    count(1);
    int err = pthread_create(&thread, NULL, work, j);
    if (!err) return pthread_detach(thread);
    free(j);
    count(-1);
    return -err;
}

/* ---- the fleet's client */

int fleet_client_open(const struct fleet_client_opts *opts, struct fleet_client **out)
{
    if (strcmp(opts->controllers ? opts->controllers : "", "fake:1"))
        return gw_error(-EINVAL, "controllers: there is only fake:1 here");
    *out = &client;
    return 0;
}

void fleet_client_close(struct fleet_client *c)
{
    gw_st_relaxed_u32(&c->closing, 1);
    while (flying()) usleep(1000);
    while (c->models) {
        struct fleet_client_model *m = c->models;
        c->models = m->next;
        free(m);
    }
}

int fleet_client_model(struct fleet_client *c, const char *name, uint32_t version,
                       struct fleet_client_model **out)
{
    (void)version;
    pthread_mutex_lock(&c->lock);
    struct fleet_client_model *m = c->models;
    while (m && strcmp(m->name, name)) m = m->next;
    if (!m && (m = calloc(1, sizeof(*m)))) {
        snprintf(m->name, sizeof(m->name), "%s", name);
        m->next = c->models;
        c->models = m;
    }
    pthread_mutex_unlock(&c->lock);
    *out = m;
    return m ? 0 : -ENOMEM;
}

int fleet_client_submit(struct fleet_client_model *m, const struct fleet_client_request *r)
{
    return begin(&(struct job){.model = m, .r = *r});
}

int fleet_client_describe(struct fleet_client_model *m, int64_t deadline_at,
                          void (*done)(void *ctx, const struct fleet_client_reply *reply), void *ctx)
{
    const struct fleet_client_request r = {.deadline_at = deadline_at, .done = done, .ctx = ctx};
    return begin(&(struct job){.model = m, .r = r, .describes = true});
}

static bool exists(const char *variable)
{
    const char *path = getenv(variable);
    return path && !access(path, F_OK);
}

void fleet_client_stats(struct fleet_client *c, struct fleet_client_stats *out)
{
    (void)c;
    *out = (struct fleet_client_stats){.flying = flying(),
                                       .leases = exists("FAKE_FLEET_BARE") ? 0 : 7,
                                       .has_controller = !exists("FAKE_FLEET_AWAY")};
}

/* ---- the controller's list */

int fleet_list_open(const struct fleet_client_opts *o, struct fleet_client *c, struct fleet_catalog *catalog,
                    struct fleet_list **out)
{
    static const char *const special[] = {"echo", "slow",   "never", "full", "dead", "broken",
                                          "odd",  "riddle", "mute",  "gone", "",     "echo"};
    enum { SPECIAL = sizeof(special) / sizeof(special[0]) };
    struct fleet_catalog_item item[SPECIAL + MANY];
    char name[MANY][16];
    (void)o, (void)c;
    *out = NULL;
    for (size_t i = 0; i < SPECIAL; i++) item[i] = (struct fleet_catalog_item){special[i], 3};
    for (int i = 0; i < MANY; i++) {
        snprintf(name[i], sizeof(name[i]), "m-%d", i);
        item[SPECIAL + i] = (struct fleet_catalog_item){name[i], 3};
    }
    return fleet_catalog_set(catalog, item, SPECIAL + MANY, now());
}

void fleet_list_close(struct fleet_list *l)
{
    (void)l;
}

int main(int argc, char **argv)
{
    return gw_cli_router(argc, argv);
}
