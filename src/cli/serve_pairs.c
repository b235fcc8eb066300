/* SPDX-License-Identifier: Apache-2.0 */
/* Tells the load balancer of each queue pair before the client hears of it. */
#include "src/cli/serve_pairs.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include <gpuwire/error.h>
#include <gpuwire/detail/held.h>

#include "src/door/log.h"

#define PATIENCE_S 5 /* longer than one call to the balancer takes */

enum state {
    NEW,     /* the balancer is to be told, and a thread waits for that */
    KNOWN,   /* it knows */
    REFUSED, /* it does not want it; the thread that waits takes note */
    ENDING,  /* it is to be told */
    OVER     /* it is no longer needed */
};

struct gw_cli_pair {
    struct gw_cli_pair *next;
    enum state state;
    uint32_t qpn;
    uint8_t client[16];
    char why[200];
};

/* ---- addresses ---- */

static bool serve_pairs_is_v4(const uint8_t gid[16])
{
    static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
    return !memcmp(gid, mapped, sizeof(mapped));
}

static const char *serve_pairs_gid_text(const uint8_t gid[16], char text[INET6_ADDRSTRLEN])
{
    return serve_pairs_is_v4(gid) ? inet_ntop(AF_INET, gid + 12, text, INET6_ADDRSTRLEN)
                                  : inet_ntop(AF_INET6, gid, text, INET6_ADDRSTRLEN);
}

static void gid_of(const char *text, uint8_t gid[16])
{
    char mapped[INET6_ADDRSTRLEN + 8];
    snprintf(mapped, sizeof(mapped), "%s%s", strchr(text, ':') ? "" : "::ffff:", text);
    if (inet_pton(AF_INET6, mapped, gid) != 1) memset(gid, 0, 16);
}

static bool same(const uint8_t a[16], const uint8_t b[16])
{
    static const uint8_t none[16];
    return !memcmp(a, b, 16) && memcmp(a, none, 16) != 0;
}

/* ---- sessions: any thread ---- */

static void serve_pairs_wake(const struct gw_cli_pairs *p)
{
    const uint64_t one = 1;
    if (write(p->wake_fd, &one, sizeof(one)) < 0) return; /* readable anyway */
}

/* With the lock. 1: the session's packets pass the balancer; 0: they do not. */
static int passes(struct gw_cli_pairs *p, const struct gw_session_wish *wish, const struct gw_endpoint *own)
{
    GW_ASSERT_HELD(&p->lock);
    char vip[INET6_ADDRSTRLEN], mine[INET6_ADDRSTRLEN];
    int called = same(wish->via, p->vip), ours = same(own->gid, p->vip);
    if (!called && !ours) return 0;
    serve_pairs_gid_text(p->vip, vip);
    if (ours && !p->service[0])
        return gw_error(-EBUSY,
                        "the load balancer has no service of protocol roce at %s; `gpuwire balance add "
                        "%s%s%s:4791/roce` makes one",
                        vip, strchr(vip, ':') ? "[" : "", vip, strchr(vip, ':') ? "]" : "");
    if (ours || (called && p->nat && p->service[0])) return 1;
    if (!p->said && p->service[0])
        gw_log(GW_LOG_WARNING, "RDMA sessions go past the load balancer: the NIC's address is %s and not %s",
               serve_pairs_gid_text(own->gid, mine), vip);
    p->said = 1;
    return 0;
}

static struct gw_cli_pair *serve_pairs_append(struct gw_cli_pairs *p, const uint8_t client[16], uint32_t qpn)
{
    GW_ASSERT_HELD(&p->lock);
    struct gw_cli_pair *pair = calloc(1, sizeof(*pair)), **link = &p->first;
    if (!pair) return NULL;
    pair->qpn = qpn;
    memcpy(pair->client, client, 16);
    while (*link) link = &(*link)->next;
    *link = pair;
    serve_pairs_wake(p);
    return pair;
}

static int serve_pairs_wait_for(struct gw_cli_pairs *p, struct gw_cli_pair *pair)
{
    struct timespec end;
    int err = 0;
    clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_sec += PATIENCE_S;
    while (pair->state == NEW && !err) err = pthread_cond_timedwait(&p->moved, &p->lock, &end);
    if (pair->state == KNOWN) return 1;
    /* -EAGAIN: the client asks again, and gets another queue pair. */
    gw_error(-EAGAIN, "the load balancer has not taken the session: %s",
             pair->state == REFUSED ? pair->why : "it does not answer");
    pair->state = pair->state == REFUSED ? OVER : ENDING;
    return -EAGAIN;
}

static int open_pair(void *ctx, const struct gw_session_wish *wish, struct gw_endpoint *own)
{
    struct gw_cli_pairs *p = ctx;
    struct gw_cli_pair *pair = NULL;
    pthread_mutex_lock(&p->lock);
    int err = wish->own ? 0 : passes(p, wish, own);
    if (err > 0 && !p->told)
        err = gw_error(-EAGAIN, "the load balancer cannot be told of the session: %s", p->why);
    if (err > 0 && !(pair = serve_pairs_append(p, wish->endpoint.gid, own->qpn)))
        err = gw_error_errno(-ENOMEM, "session");
    if (err > 0) err = serve_pairs_wait_for(p, pair);
    if (err > 0) memcpy(own->gid, p->vip, 16);
    pthread_mutex_unlock(&p->lock);
    return err;
}

static void close_pair(void *ctx, const uint8_t client[16], uint32_t qpn)
{
    struct gw_cli_pairs *p = ctx;
    pthread_mutex_lock(&p->lock);
    for (struct gw_cli_pair *pair = p->first; pair; pair = pair->next)
        if (pair->state == KNOWN && pair->qpn == qpn && !memcmp(pair->client, client, 16))
            pair->state = ENDING;
    pthread_mutex_unlock(&p->lock);
    serve_pairs_wake(p);
}

/* ---- the balancer: one thread ---- */

void gw_cli_pairs_hear(struct gw_cli_pairs *p, const json_t *answer)
{
    const json_t *rdma = json_object_get(answer, "rdma");
    const char *vip = json_string_value(json_object_get(answer, "vip"));
    const char *service = json_string_value(json_object_get(rdma, "service"));
    const char *forward = json_string_value(json_object_get(rdma, "forward"));
    pthread_mutex_lock(&p->lock);
    p->told = answer != NULL;
    if (!answer) {
        snprintf(p->why, sizeof(p->why), "%s", gw_last_error());
        p->again = 1;
    } else {
        if (vip) gid_of(vip, p->vip);
        snprintf(p->service, sizeof(p->service), "%s",
                 service && strlen(service) < GW_CLI_SERVICE ? service : "");
        p->nat = forward && !strcmp(forward, "NAT");
    }
    pthread_mutex_unlock(&p->lock);
}

static json_t *pair_json(const struct gw_cli_pair *pair)
{
    char text[INET6_ADDRSTRLEN];
    return json_pack("{s:s, s:I}", "client", serve_pairs_gid_text(pair->client, text), "qpn",
                     (json_int_t)pair->qpn);
}

/* Everything that it should have. */
static void tell_all(struct gw_cli_pairs *p, struct gw_http *http)
{
    char path[3 * GW_CLI_SERVICE];
    json_t *list = json_array(), *body, *reply = NULL;
    pthread_mutex_lock(&p->lock);
    p->again = 0;
    for (const struct gw_cli_pair *pair = p->first; pair; pair = pair->next)
        if (pair->state == KNOWN) json_array_append_new(list, pair_json(pair));
    snprintf(path, sizeof(path), "v1/services/%s/workers/%s/queue_pairs", p->service, p->worker);
    pthread_mutex_unlock(&p->lock);
    body = json_pack("{s:o}", "queue_pairs", list);
    if (!body || gw_http_call(http, "PUT", path, body, &reply)) {
        gw_log(GW_LOG_WARNING, "the load balancer does not take the sessions' queue pairs: %s",
               gw_last_error());
        p->again = 1;
    }
    json_decref(body);
    json_decref(reply);
}

static uint32_t known_pairs(struct gw_cli_pairs *p)
{
    uint32_t known = 0;
    pthread_mutex_lock(&p->lock);
    for (const struct gw_cli_pair *pair = p->first; pair; pair = pair->next) known += pair->state == KNOWN;
    pthread_mutex_unlock(&p->lock);
    return known;
}

void gw_cli_pairs_beat(struct gw_cli_pairs *p, struct gw_http *http, json_t *body)
{
    char path[3 * GW_CLI_SERVICE];
    json_t *reply = NULL;
    if (!p->told || !p->service[0]) return;
    snprintf(path, sizeof(path), "v1/services/%s/workers/%s", p->service, p->worker);
    int err = gw_http_call(http, "PUT", path, body, &reply);
    if (err) {
        gw_cli_pairs_hear(p, NULL);
        return;
    }
    const json_t *theirs = json_object_get(reply, "queue_pairs");
    if (p->again || (theirs && json_integer_value(theirs) != known_pairs(p))) tell_all(p, http);
    json_decref(reply);
}

/* The next one to report; unused ones are freed. With the lock. */
static struct gw_cli_pair *next_of(struct gw_cli_pairs *p)
{
    GW_ASSERT_HELD(&p->lock);
    for (struct gw_cli_pair **link = &p->first; *link;) {
        struct gw_cli_pair *pair = *link;
        if (pair->state == OVER) {
            *link = pair->next;
            free(pair);
        } else if (pair->state == NEW || pair->state == ENDING) {
            return pair;
        } else {
            link = &pair->next;
        }
    }
    return NULL;
}

/* Only this thread frees pairs, so this one stays while the lock is given back. */
static void tell_one(struct gw_cli_pairs *p, struct gw_http *http, struct gw_cli_pair *pair)
{
    char path[2 * GW_CLI_SERVICE];
    int ends = pair->state == ENDING;
    json_t *reply = NULL, *body = pair_json(pair);
    snprintf(path, sizeof(path), "v1/services/%s/queue_pairs", p->service);
    json_object_set_new(body, "worker", json_string(p->worker));
    if (ends) json_object_set_new(body, "ended", json_true());
    pthread_mutex_unlock(&p->lock);
    int err = gw_http_call(http, "POST", path, body, &reply);
    json_decref(reply);
    json_decref(body);
    pthread_mutex_lock(&p->lock);
    if (err) {
        p->again = 1; /* the next beat finds out */
        snprintf(pair->why, sizeof(pair->why), "%s", gw_last_error());
    }
    if (ends)
        pair->state = OVER;
    else if (pair->state == NEW)
        pair->state = err ? REFUSED : KNOWN;
    pthread_cond_broadcast(&p->moved);
}

void gw_cli_pairs_sync(struct gw_cli_pairs *p, struct gw_http *http)
{
    uint64_t count;
    struct gw_cli_pair *pair;
    if (read(p->wake_fd, &count, sizeof(count)) < 0) count = 0;
    pthread_mutex_lock(&p->lock);
    while ((pair = next_of(p))) tell_one(p, http, pair);
    pthread_mutex_unlock(&p->lock);
}

void gw_cli_pairs_leave(struct gw_cli_pairs *p, struct gw_http *http)
{
    char path[3 * GW_CLI_SERVICE];
    json_t *reply = NULL, *body = json_pack("{s:b}", "now", 1);
    snprintf(path, sizeof(path), "v1/services/%s/workers/%s", p->service, p->worker);
    if (p->told && p->service[0] && gw_http_call(http, "DELETE", path, body, &reply))
        gw_log(GW_LOG_DEBUG, "load balancer: %s", gw_last_error()); /* it has forgotten this server already */
    json_decref(reply);
    json_decref(body);
}

/* ---- beginning and end ---- */

int gw_cli_pairs_init(struct gw_cli_pairs *p, const char *worker)
{
    pthread_condattr_t clock;
    *p = (struct gw_cli_pairs){.route = {.ctx = p, .open = open_pair, .close = close_pair}};
    snprintf(p->worker, sizeof(p->worker), "%s", worker);
    pthread_mutex_init(&p->lock, NULL);
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&p->moved, &clock);
    pthread_condattr_destroy(&clock);
    p->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return p->wake_fd < 0 ? gw_error_errno(-errno, "load balancer: eventfd") : 0;
}

void gw_cli_pairs_free(struct gw_cli_pairs *p)
{
    for (struct gw_cli_pair *pair = p->first, *next; pair; pair = next) {
        next = pair->next;
        free(pair);
    }
    if (p->wake_fd >= 0) close(p->wake_fd);
    pthread_cond_destroy(&p->moved);
    pthread_mutex_destroy(&p->lock);
}
