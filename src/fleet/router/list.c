/* SPDX-License-Identifier: Apache-2.0 */
/*
 * list.c: a thread with a connection to the leading controller, on which it asks for "models". A controller
 * that leads no more, is silent or talks nonsense is left. The next round asks the leader of then.
 */
#include "src/fleet/router/list.h"

#include <errno.h>
#include <jansson.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include <gpuwire/error.h>

#include "src/door/limit.h"
#include "src/door/log.h"
#include "src/door/text.h"
#include "src/fleet/wire/conn.h"

#define LIST_FIRST_NS  100000000   /* between two rounds until a list has come */
#define LIST_EVERY_NS  3000000000  /* and afterwards */
#define LIST_ANSWER_NS 5000000000  /* for an answer */
#define LIST_BYTES     (64u << 20) /* of an answer */
#define LIST_QUESTION  "models"

struct fleet_list {
    struct fleet_loop *loop;
    struct fleet_client *client;
    struct fleet_catalog *catalog;
    struct fleet_conn_opts opts;
    uint8_t id[FLEET_ID];
    pthread_t thread;
    bool runs;
    struct fleet_timer timer;
    struct fleet_conn *conn; /* NULL: none */
    bool open;               /* the controller has proved itself */
    int64_t asked_at;        /* 0: no answer is due */
    struct gw_text answer;
    struct gw_say_limit said;
    char trouble[FLEET_TROUBLE]; /* why no controller answers, as it was said last */
};

/* ---- the answer */

/* As far as it makes sense. */
static int list_take(struct fleet_list *l, const json_t *models)
{
    size_t i, n = json_array_size(models);
    const json_t *one;
    struct fleet_catalog_item *item = calloc(n + 1, sizeof(*item));
    if (!item) return -ENOMEM;
    json_array_foreach((json_t *)models, i, one)
    {
        const char *name = json_string_value(json_object_get(one, "name"));
        json_int_t version = json_integer_value(json_object_get(one, "version"));
        item[i].name = name ? name : "";
        item[i].version = version > 0 && version <= UINT32_MAX ? (unsigned)version : 0;
    }
    int err = fleet_catalog_set(l->catalog, item, n, fleet_loop_now(l->loop));
    free(item);
    return err;
}

static void list_read(struct fleet_list *l)
{
    json_t *j = l->answer.broken ? NULL : json_loadb(l->answer.at, l->answer.bytes, 0, NULL);
    const json_t *models = json_object_get(j, "models");
    if (!json_is_array(models))
        gw_say(&l->said, "the controller's list of models makes no sense; the one before is used");
    else if (list_take(l, models))
        gw_say(&l->said, "no memory for the list of models; the one before is used");
    json_decref(j);
}

static void list_forget(struct fleet_list *l)
{
    free(l->answer.at);
    l->answer = (struct gw_text){0};
    l->asked_at = 0;
}

/* ---- the connection */

static void list_leave(struct fleet_list *l)
{
    if (l->conn) fleet_conn_close(l->conn, 0, NULL);
    l->conn = NULL;
    l->open = false;
    list_forget(l);
}

static void list_ask(struct fleet_list *l)
{
    list_forget(l);
    l->asked_at = fleet_loop_now(l->loop);
    if (fleet_send(l->conn, FLEET_ASK, 0, LIST_QUESTION, strlen(LIST_QUESTION), NULL, 0, NULL)) list_leave(l);
}

static void list_opened(void *ctx, struct fleet_conn *c)
{
    struct fleet_list *l = ctx;
    (void)c;
    l->open = true;
    list_ask(l);
}

static void list_heard(void *ctx, struct fleet_conn *c, const struct fleet_frame *frame, const void *body)
{
    struct fleet_list *l = ctx;
    (void)c;
    if (frame->kind == FLEET_ELSEWHERE || frame->kind == FLEET_GOODBYE) {
        list_leave(l);
    } else if (frame->kind == FLEET_TOLD && l->asked_at) {
        if (frame->bytes > LIST_BYTES - l->answer.bytes) {
            gw_say(&l->said, "the controller's list of models is too long; the one before is used");
            list_leave(l);
        } else if (frame->bytes) {
            gw_text_add(&l->answer, body, frame->bytes);
        } else {
            list_read(l);
            list_forget(l);
        }
    }
}

static void list_closed(void *ctx, struct fleet_conn *c, int err, const char *why)
{
    struct fleet_list *l = ctx;
    (void)c, (void)err, (void)why; /* the client says that its controller is away */
    l->conn = NULL;
    l->open = false;
    list_forget(l);
}

static const struct fleet_handler list_handler = {
    .open = list_opened, .message = list_heard, .closed = list_closed};

/* ---- rounds */

/* A line for each change. */
static void list_say_trouble(struct fleet_list *l, const struct fleet_client_stats *s)
{
    if (!strcmp(l->trouble, s->trouble)) return;
    memcpy(l->trouble, s->trouble, sizeof(l->trouble));
    if (s->trouble[0]) gw_say(&l->said, "no controller of the fleet answers: %s", s->trouble);
}

static void list_dial(struct fleet_list *l)
{
    struct fleet_client_stats s;
    fleet_client_stats(l->client, &s);
    list_say_trouble(l, &s);
    if (!s.has_controller || !*s.controller) return;
    if (fleet_dial(l->loop, &l->opts, s.controller, &list_handler, l, &l->conn)) l->conn = NULL;
}

static void list_round(void *ctx)
{
    struct fleet_list *l = ctx;
    int64_t now = fleet_loop_now(l->loop);
    if (l->asked_at && now - l->asked_at > LIST_ANSWER_NS) list_leave(l);
    if (!l->conn)
        list_dial(l);
    else if (l->open && !l->asked_at)
        list_ask(l);
    int64_t pause = fleet_catalog_is_known(l->catalog) ? LIST_EVERY_NS : LIST_FIRST_NS;
    fleet_timer_set(l->loop, &l->timer, now + pause, list_round, l);
}

static void *list_run(void *arg)
{
    struct fleet_list *l = arg;
    int err = fleet_loop_run(l->loop, INT64_MAX);
    if (err) gw_log(GW_LOG_ERROR, "the list of models is not kept any more: %s", gw_last_error());
    return NULL;
}

static void list_stop(void *ctx)
{
    struct fleet_list *l = ctx;
    fleet_loop_stop(l->loop);
}

int fleet_list_open(const struct fleet_client_opts *o, struct fleet_client *client,
                    struct fleet_catalog *catalog, struct fleet_list **out)
{
    struct fleet_list *l = calloc(1, sizeof(*l));
    if (!l) return gw_error_errno(-ENOMEM, "fleet: the list of models");
    l->client = client;
    l->catalog = catalog;
    if (getrandom(l->id, sizeof(l->id), 0) != sizeof(l->id)) memset(l->id, 1, sizeof(l->id));
    l->opts = (struct fleet_conn_opts){.role = FLEET_IS_TOOL,
                                       .peers = 1u << FLEET_IS_CONTROLLER,
                                       .fleet = o->fleet ? o->fleet : "default",
                                       .name = o->name ? o->name : "",
                                       .id = l->id,
                                       .token = o->token};
    int err = fleet_loop_create(&l->loop);
    if (!err) err = fleet_loop_call(l->loop, list_round, l);
    if (!err) err = -pthread_create(&l->thread, NULL, list_run, l);
    l->runs = !err;
    if (err)
        fleet_list_close(l);
    else
        *out = l;
    return err ? gw_error_errno(err, "fleet: the list of models") : 0;
}

void fleet_list_close(struct fleet_list *l)
{
    if (!l) return;
    if (l->runs && !fleet_loop_call(l->loop, list_stop, l)) pthread_join(l->thread, NULL);
    fleet_loop_destroy(l->loop);
    list_forget(l);
    free(l);
}
