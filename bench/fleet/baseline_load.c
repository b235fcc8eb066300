/* SPDX-License-Identifier: Apache-2.0 */
/* baseline_load.c: requests at a fixed rate, to the baseline's controller, or through gpuwire's client
 * straight to workers. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include <gpuwire/error.h>

#include "bench/fleet/baseline.h"
#include "src/fleet/client/fleet_client.h"
#include "src/server/wire/wire.h"

#define LOAD_TICK (BASELINE_MS / 2)
enum { LOAD_TIMES = 1 << 21 /* latencies that are kept */ };

struct load_one {
    struct load *load;
    int64_t sent_at;
    uint32_t next_free;
    uint32_t life; /* in the id, so that an old answer is known */
    bool flies, counts;
};

struct load {
    const struct baseline_opts *o;
    /* Of one thread to the baseline; gpuwire's client answers in its own thread. */
    pthread_mutex_t lock;
    struct load_one one[BASELINE_REQUESTS];
    uint32_t free_one, flying, turn;
    int64_t began_at, counts_at, ends_at;
    uint64_t due; /* requests that the rate has asked for */
    struct load_line {
        uint32_t us, model;
    } * line; /* of the trace, by time */
    uint64_t lines, next, room;
    bool said;
    uint64_t sent, good, late, refused, failed, wrong;
    uint32_t *us, nus;
    uint8_t *tensors;
    /* to the baseline */
    struct fleet_loop *loop;
    struct fleet_conn *conn;
    struct fleet_timer timer;
    bool open;
    /* to gpuwire */
    struct fleet_client_model **models;
};

static int64_t load_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * BASELINE_SECOND + t.tv_nsec;
}

/* ---- one request */

static struct load_one *load_take(struct load *l, int64_t now)
{
    struct load_one *r = &l->one[l->free_one];
    l->free_one = r->next_free;
    l->flying++;
    r->load = l;
    r->flies = true;
    r->life++;
    r->sent_at = now;
    r->counts = now >= l->counts_at;
    l->sent += r->counts;
    return r;
}

/* error: 0, or what fleet_client_reply has. */
static void load_end(struct load_one *r, int error, bool wrong)
{
    struct load *l = r->load;
    int64_t took = load_now() - r->sent_at;
    bool late = error == -ETIME || error == -ETIMEDOUT || (!error && took > l->o->deadline_ms * BASELINE_MS);
    r->flies = false;
    r->next_free = l->free_one;
    l->free_one = (uint32_t)(r - l->one);
    l->flying--;
    if (!r->counts) return;
    l->wrong += wrong;
    if (late)
        l->late++;
    else if (error == -EAGAIN)
        l->refused++;
    else if (error)
        l->failed++;
    else
        l->good++;
    if (!error && l->nus < LOAD_TIMES) l->us[l->nus++] = (uint32_t)(took / 1000);
}

/* ---- to the baseline */

static void load_request(struct load *l, int64_t now)
{
    struct load_one *r = load_take(l, now);
    uint64_t id = (uint64_t)r->life << 32 | (uint32_t)(r - l->one);
    struct fleet_request q = {.lease = l->turn++ % l->o->models, .rows = 1, .id = id};
    q.budget_ns = (uint64_t)l->o->deadline_ms * BASELINE_MS;
    q.bytes = l->o->profile.request_bytes;
    if (q.bytes >= sizeof id) memcpy(l->tensors, &id, sizeof id);
    if (fleet_send(l->conn, FLEET_REQUEST, 0, &q, sizeof q, l->tensors, q.bytes, NULL))
        load_end(r, -ECONNRESET, false);
}

static void load_answer(struct load *l, const struct fleet_answer *a, uint32_t bytes)
{
    struct load_one *r = (uint32_t)a->id < BASELINE_REQUESTS ? &l->one[(uint32_t)a->id] : NULL;
    if (!r || !r->flies || r->life != a->id >> 32 || bytes - sizeof *a != a->bytes) {
        l->wrong++;
        return;
    }
    int error = a->status == GW_SERVE_OK            ? 0
                : a->status == GW_SERVE_LATE        ? -ETIME
                : a->status == GW_SERVE_OVER_BUDGET ? -EAGAIN
                                                    : -EREMOTEIO;
    bool whole = a->bytes == l->o->profile.answer_bytes;
    bool own = a->bytes < sizeof a->id || l->o->profile.request_bytes < sizeof a->id ||
               !memcmp(a + 1, &a->id, sizeof a->id);
    load_end(r, error, !error && !(whole && own));
}

/* ---- to gpuwire */

static void load_replied(void *ctx, const struct fleet_client_reply *reply)
{
    struct load_one *r = ctx;
    pthread_mutex_lock(&r->load->lock);
    load_end(r, reply->error, !reply->error && reply->bytes != r->load->o->profile.answer_bytes);
    pthread_mutex_unlock(&r->load->lock);
}

static void load_submit(struct load *l, int64_t now)
{
    pthread_mutex_lock(&l->lock);
    struct load_one *r = load_take(l, now);
    pthread_mutex_unlock(&l->lock);
    const struct fleet_client_request q = {.in = l->tensors,
                                           .bytes = l->o->profile.request_bytes,
                                           .rows = 1,
                                           .deadline_at = now + l->o->deadline_ms * BASELINE_MS,
                                           .done = load_replied,
                                           .ctx = r};
    if (!fleet_client_submit(l->models[l->turn++ % l->o->models], &q)) return;
    pthread_mutex_lock(&l->lock);
    load_end(r, -ENOMEM, false);
    pthread_mutex_unlock(&l->lock);
}

/* ---- the rate */

static uint32_t load_flying(struct load *l)
{
    pthread_mutex_lock(&l->lock);
    uint32_t n = l->flying;
    pthread_mutex_unlock(&l->lock);
    return n;
}

/* Sends what the trace has by now, as far as there is room. */
static void load_lines(struct load *l, int64_t now, void (*send)(struct load *, int64_t))
{
    for (; l->next < l->lines && l->line[l->next].us * INT64_C(1000) <= now - l->began_at; l->next++) {
        l->turn = l->line[l->next].model;
        if (load_flying(l) < l->o->flying) send(l, now);
    }
}

/* Sends what is due. False: the time is over, and all is answered. */
static bool load_tick(struct load *l, void (*send)(struct load *, int64_t))
{
    int64_t now = load_now();
    if (!l->said && now >= l->counts_at) {
        printf("counts\n");
        l->said = true;
    }
    if (now >= l->ends_at)
        return load_flying(l) && now < l->ends_at + 2 * l->o->deadline_ms * BASELINE_MS + BASELINE_SECOND;
    if (l->o->trace) {
        load_lines(l, now, send);
        return true;
    }
    uint64_t due = (uint64_t)((double)(now - l->began_at) * 1e-9 * l->o->rate);
    for (; l->due < due && load_flying(l) < l->o->flying; l->due++) send(l, now);
    l->due = due; /* what found no room is not made up for */
    return true;
}

static int load_compare(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

static void load_print(struct load *l)
{
    qsort(l->us, l->nus, sizeof *l->us, load_compare);
    printf("sent %lu good %lu late %lu refused %lu failed %lu wrong %lu p50_us %u p99_us %u\n",
           (unsigned long)l->sent, (unsigned long)l->good, (unsigned long)l->late, (unsigned long)l->refused,
           (unsigned long)(l->failed + l->flying), (unsigned long)l->wrong, l->nus ? l->us[l->nus / 2] : 0,
           l->nus ? l->us[(uint64_t)l->nus * 99 / 100] : 0);
}

static void load_begin(struct load *l)
{
    l->began_at = load_now();
    l->counts_at = l->began_at + l->o->warm_ms * BASELINE_MS;
    l->ends_at = l->counts_at + l->o->run_ms * BASELINE_MS;
}

/* ---- the two ways */

static void load_turn(void *ctx)
{
    struct load *l = ctx;
    if (!load_tick(l, load_request) ||
        fleet_timer_set(l->loop, &l->timer, load_now() + LOAD_TICK, load_turn, l))
        fleet_loop_stop(l->loop);
}

static void load_open(void *ctx, struct fleet_conn *c)
{
    struct load *l = ctx;
    (void)c;
    l->open = true;
    load_begin(l);
    load_turn(l);
}

static void load_message(void *ctx, struct fleet_conn *c, const struct fleet_frame *f, const void *body)
{
    (void)c;
    const struct fleet_answer *a = f->kind == FLEET_ANSWER ? FLEET_BODY(struct fleet_answer, f, body) : NULL;
    if (a) load_answer(ctx, a, f->bytes);
}

static void load_closed(void *ctx, struct fleet_conn *c, int err, const char *why)
{
    struct load *l = ctx;
    (void)c;
    (void)err;
    fprintf(stderr, "baseline: the controller is gone: %s\n", why);
    l->open = false;
    fleet_loop_stop(l->loop);
}

static int load_baseline(struct load *l)
{
    static const struct fleet_handler handler = {load_open, load_message, load_closed};
    uint8_t id[FLEET_ID];
    if (fleet_loop_create(&l->loop) || getrandom(id, FLEET_ID, 0) != FLEET_ID) return 1;
    struct fleet_conn_opts c = baseline_conn(FLEET_IS_CLIENT, 1 << FLEET_IS_CONTROLLER, id);
    if (fleet_dial(l->loop, &c, l->o->controller, &handler, l, &l->conn)) {
        fprintf(stderr, "baseline: %s\n", gw_last_error());
        return 1;
    }
    fleet_loop_run(l->loop, INT64_MAX);
    load_print(l);
    return l->open ? 0 : 1;
}

static int load_fleet(struct load *l)
{
    const struct fleet_client_opts co = {.controllers = l->o->fleet};
    const struct timespec tick = {.tv_nsec = LOAD_TICK};
    struct fleet_client *c;
    l->models = calloc(l->o->models, sizeof(struct fleet_client_model *));
    if (!l->models || fleet_client_open(&co, &c)) return 1;
    for (uint32_t i = 0; i < l->o->models; i++) {
        char name[FLEET_MODEL];
        snprintf(name, sizeof name, "%s-%u", l->o->profile.name, i);
        if (fleet_client_model(c, name, 0, &l->models[i])) return 1;
    }
    load_begin(l);
    while (load_tick(l, load_submit)) nanosleep(&tick, NULL);
    fleet_client_close(c);
    load_print(l);
    return 0;
}

static bool load_read_line(struct load *l, FILE *f)
{
    struct load_line *at = &l->line[l->lines];
    if (fscanf(f, "%u %u", &at->us, &at->model) != 2 || at->model >= l->o->models) return false;
    if (l->lines && at->us < at[-1].us) return false;
    l->lines++;
    return true;
}

static bool load_read_trace(struct load *l, const char *path)
{
    FILE *f = fopen(path, "re");
    bool more = f;
    while (more) {
        if (l->lines == l->room) {
            struct load_line *line = realloc(l->line, (l->room = 2 * l->room + 1024) * sizeof *line);
            if (!line) break;
            l->line = line;
        }
        more = load_read_line(l, f);
    }
    bool good = f && feof(f) && l->lines;
    if (f) fclose(f);
    if (!good)
        fprintf(stderr, "baseline: %s, after line %lu: no MICROSECONDS MODEL\n", path,
                (unsigned long)l->lines);
    return good;
}

int baseline_load(const struct baseline_opts *o)
{
    struct load *l = calloc(1, sizeof *l);
    if (!l || pthread_mutex_init(&l->lock, NULL)) return 1;
    l->o = o;
    l->us = malloc(LOAD_TIMES * sizeof *l->us);
    l->tensors = calloc(1, o->profile.request_bytes + 1);
    if (!l->us || !l->tensors) return 1;
    for (uint32_t i = 0; i < BASELINE_REQUESTS; i++) l->one[i].next_free = i + 1;
    setlinebuf(stdout);
    if (o->trace && !load_read_trace(l, o->trace)) return 1;
    return o->fleet ? load_fleet(l) : load_baseline(l);
}
