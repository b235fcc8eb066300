/* SPDX-License-Identifier: Apache-2.0 */
/* One question to a fleet's leader, and its answer. */
#include "src/cli/fleet/ask.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include <gpuwire/error.h>

#include "src/cli/options.h"
#include "src/door/text.h"
#include "src/fleet/wire/conn.h"

#define ASK_PATIENCE (5 * INT64_C(1000000000)) /* for one controller */
enum { ASK_HOPS = 4, ASK_MOST = 256 << 20 };   /* bytes of an answer */

struct ask_talk {
    struct fleet_loop *loop;
    struct fleet_conn *conn;
    const char *line;
    struct gw_text text;
    bool whole, elsewhere;
    char leader[FLEET_ADDRESS], why[FLEET_WHY];
};

static void ask_opened(void *ctx, struct fleet_conn *c)
{
    struct ask_talk *t = ctx;
    fleet_send(c, FLEET_ASK, 0, t->line, strlen(t->line), NULL, 0, NULL);
}

static void ask_message(void *ctx, struct fleet_conn *c, const struct fleet_frame *f, const void *body)
{
    struct ask_talk *t = ctx;
    const struct fleet_elsewhere *e = FLEET_BODY(struct fleet_elsewhere, f, body);
    (void)c;
    if (f->kind == FLEET_TOLD && f->bytes && t->text.bytes < ASK_MOST) {
        gw_text_add(&t->text, body, f->bytes);
        return;
    }
    t->whole = f->kind == FLEET_TOLD;
    t->elsewhere = f->kind == FLEET_ELSEWHERE && e && fleet_text_ok(e->leader, sizeof(e->leader));
    if (t->elsewhere) memcpy(t->leader, e->leader, sizeof(t->leader));
    fleet_loop_stop(t->loop);
}

static void ask_closed(void *ctx, struct fleet_conn *c, int err, const char *why)
{
    struct ask_talk *t = ctx;
    (void)c, (void)err;
    t->conn = NULL;
    snprintf(t->why, sizeof(t->why), "%s", why);
    fleet_loop_stop(t->loop);
}

static void ask_interrupted(void *ctx)
{
    fleet_loop_stop(ctx);
}

/* Asks the controller at `address`. */
static int ask_one(const struct gw_fleet_ask *a, const char *address, struct ask_talk *t)
{
    static const struct fleet_handler handler = {ask_opened, ask_message, ask_closed};
    uint8_t id[FLEET_ID];
    struct fleet_watch *w;
    struct timespec now;
    struct fleet_conn_opts o = {.role = FLEET_IS_TOOL,
                                .peers = 1u << FLEET_IS_CONTROLLER,
                                .fleet = a->fleet,
                                .name = "",
                                .id = id,
                                .token = a->token};
    if (getrandom(id, sizeof(id), 0) != sizeof(id)) return gw_error(-EIO, "no random bytes can be had");
    int err = fleet_loop_create(&t->loop);
    if (err) return err;
    clock_gettime(CLOCK_MONOTONIC, &now);
    if (gw_interrupt_fd() >= 0)
        err = fleet_watch_add(t->loop, gw_interrupt_fd(), ask_interrupted, t->loop, &w);
    if (!err) err = fleet_dial(t->loop, &o, address, &handler, t, &t->conn);
    if (!err) err = fleet_loop_run(t->loop, now.tv_sec * INT64_C(1000000000) + now.tv_nsec + ASK_PATIENCE);
    fleet_loop_destroy(t->loop);
    if (!err && !t->whole && !t->elsewhere)
        err = gw_error(-EHOSTUNREACH, "%s: %s", address, t->why[0] ? t->why : "no answer");
    return err;
}

/* Asks one controller, and then those that it names. */
static int ask_from(const struct gw_fleet_ask *a, const char *address, const char *line, struct gw_text *out)
{
    char to[FLEET_ADDRESS];
    snprintf(to, sizeof(to), "%s", address);
    for (int hop = 0; hop < ASK_HOPS; hop++) {
        struct ask_talk t = {.line = line};
        int err = ask_one(a, to, &t);
        if (!err && t.whole) {
            *out = t.text;
            return 0;
        }
        free(t.text.at);
        if (err) return err;
        if (!t.leader[0]) return gw_error(-EAGAIN, "%s: no controller leads at the moment", to);
        memcpy(to, t.leader, sizeof(to));
    }
    return gw_error(-ELOOP, "%s: controllers name each other as the leader", to);
}

static int ask_parse(struct gw_text *text, json_t **answer)
{
    json_error_t wrong;
    *answer = text->broken ? NULL : json_loadb(text->at ? text->at : "", text->bytes, 0, &wrong);
    free(text->at);
    if (!*answer) return gw_error(-EPROTO, "the controller's answer is no JSON");
    const char *said = json_string_value(json_object_get(*answer, "error"));
    if (!said) return 0;
    gw_error(-EINVAL, "%s", said);
    json_decref(*answer);
    return -EINVAL;
}

int gw_fleet_ask(const struct gw_fleet_ask *a, const char *line, json_t **answer)
{
    struct gw_text text = {0};
    int err = -EINVAL;
    char address[FLEET_ADDRESS];
    for (const char *at = a->controllers; at && *at && err; at += strcspn(at, ","), at += *at == ',') {
        snprintf(address, sizeof(address), "%.*s", (int)strcspn(at, ","), at);
        err = ask_from(a, address, line, &text);
        if (gw_interrupted()) {
            free(text.at);
            return GW_EXIT_INTERRUPTED;
        }
    }
    if (!err) err = ask_parse(&text, answer);
    if (err && a->quiet) return GW_EXIT_FAILURE;
    return err ? gw_failed(a->command) : 0;
}
