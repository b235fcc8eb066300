/* SPDX-License-Identifier: Apache-2.0 */
/* fake.c: controllers and workers that do what a test says. */
#include "tests/fleet/client/fake.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "src/server/wire/wire.h"

#define FAKE_MUST(what)                                                                                      \
    do {                                                                                                     \
        if (what) {                                                                                          \
            fprintf(stderr, "fake: %s\n", #what);                                                            \
            exit(1);                                                                                         \
        }                                                                                                    \
    } while (0)

/* ---- workers ---- */

static struct fleet_conn *fake_conns[1024]; /* of workers, for fake_kill */
static struct fake_worker *fake_owner[1024];
static uint32_t fake_conn_count;

static bool fake_knows(const struct fake_worker *w, const struct fleet_request *q)
{
    for (uint32_t i = 0; i < w->fake->leases; i++) {
        const struct fake_lease *l = &w->fake->lease[i];
        if (&w->fake->worker[l->worker] == w && l->number == q->lease && l->key == q->key) return true;
    }
    return false;
}

static void fake_answer(struct fake_worker *w, struct fleet_conn *c, const struct fleet_request *q,
                        const struct fleet_frame *f)
{
    struct fleet_answer a = {.id = q->id, .status = (uint32_t)w->status, .batch = 1, .arrived_at = 1000};
    int lie = w->lie;
    a.started_at = 2000;
    a.done_at = 5000;
    a.retry_ns = w->retry_ns;
    a.bytes = a.status ? 0 : q->bytes;
    if (lie == FAKE_OTHER_ID) a.id ^= 1;
    if (lie == FAKE_ODD_STATUS) a.status = 4711;
    size_t tail = a.bytes;
    if (lie == FAKE_SHORT) a.bytes += 8;
    if (lie == FAKE_MUTE) return;
    if (lie == FAKE_ODD_KIND)
        fleet_send(c, FLEET_TELEMETRY, 0, &a, sizeof a, NULL, 0, NULL);
    else
        fleet_send(c, FLEET_ANSWER, f->seq, &a, sizeof a, q + 1, tail, NULL);
    if (lie == FAKE_TWICE) fleet_send(c, FLEET_ANSWER, f->seq, &a, sizeof a, q + 1, tail, NULL);
}

static void fake_worker_open(void *ctx, struct fleet_conn *c)
{
    fake_owner[fake_conn_count % 1024] = ctx;
    fake_conns[fake_conn_count++ % 1024] = c;
}

static void fake_forget(struct fleet_conn *c)
{
    for (uint32_t i = 0; i < 1024; i++)
        if (fake_conns[i] == c) fake_conns[i] = NULL;
}

static void fake_worker_closed(void *ctx, struct fleet_conn *c, int err, const char *why)
{
    (void)ctx;
    (void)err;
    (void)why;
    fake_forget(c);
}

static void fake_worker_message(void *ctx, struct fleet_conn *c, const struct fleet_frame *f,
                                const void *body)
{
    struct fake_worker *w = ctx;
    const struct fleet_request *q = body;
    static const char json[] = "{\"inputs\":[{\"name\":\"x\",\"datatype\":\"FP32\",\"shape\":[-1,4]}],"
                               "\"outputs\":[{\"name\":\"y\",\"datatype\":\"FP32\",\"shape\":[-1,4]}]}";
    struct fleet_nothing none = {.error = -ENOENT};
    if (f->kind == FLEET_DESCRIBE && w->lie == FAKE_UNDESCRIBED)
        fleet_send(c, FLEET_NOTHING, f->seq, &none, sizeof none, NULL, 0, NULL);
    else if (f->kind == FLEET_DESCRIBE)
        fleet_send(c, FLEET_DESCRIBED, f->seq, json, sizeof json - 1, NULL, 0, NULL);
    if (f->kind == FLEET_OPEN && w->open) w->open(w, c, f, body);
    if (f->kind == FLEET_OPEN && !w->open) fleet_conn_close(c, -ENOTSUP, "no RDMA here");
    if (f->kind != FLEET_REQUEST) return;
    w->requests++;
    w->budget_ns = (long long)q->budget_ns;
    w->strangers += !fake_knows(w, q) || f->bytes != sizeof *q + q->bytes;
    if (w->lie == FAKE_CUT) {
        fake_forget(c);
        fleet_conn_close(c, 0, NULL);
    } else {
        fake_answer(w, c, q, f);
    }
}

static const struct fleet_handler fake_worker_handler = {fake_worker_open, fake_worker_message,
                                                         fake_worker_closed};

/* ---- controllers ---- */

static void fake_grant_one(struct fake_controller *k, struct fleet_conn *c, uint64_t seq, const char *model,
                           const struct fake_lease *l)
{
    const struct fake_worker *w = &k->fake->worker[l->worker];
    struct fleet_granted g = {.lease = l->number, .key = l->key, .slots = l->slots, .rate = l->rate};
    g.left_ns = l->left_ns;
    g.spill = l->spill;
    g.exec_ns = 100000;
    g.request_bytes = g.answer_bytes = 32;
    g.max_batch = 4;
    g.reply_bytes = l->reply_bytes;
    memcpy(g.model, model, sizeof g.model);
    memcpy(g.worker, w->name, sizeof g.worker);
    memcpy(g.address, w->address, sizeof g.address);
    memcpy(g.worker_id, w->id, sizeof g.worker_id);
    if (k->mood == FAKE_BABBLES) {
        static uint32_t turn;
        float odd[] = {0.0f / 0.0f, -1, 1e30f, 0};
        switch (turn++ % 6) {
        case 0: memset(g.worker, 0xff, sizeof g.worker); break;
        case 1: memset(g.address, '7', sizeof g.address); break;
        case 2: memset(g.model, 'x', sizeof g.model); break;
        case 3:
            g.rate = odd[turn / 6 % 4];
            g.slots = UINT32_MAX;
            break;
        case 4: g.left_ns = turn & 8 ? INT64_MAX : INT64_MIN; break;
        default: strcpy(g.address, "no address"); memset(g.worker_id, 0, FLEET_ID);
        }
    }
    fleet_send(c, FLEET_GRANTED, seq, &g, sizeof g, NULL, 0, NULL);
}

static void fake_controller_open(void *ctx, struct fleet_conn *c)
{
    struct fake_controller *k = ctx;
    struct fleet_welcome w = {.term = 1};
    struct fleet_elsewhere e = {.retry_ns = 1000000};
    k->conn = c;
    k->greeted++;
    memcpy(e.leader, k->elsewhere, sizeof e.leader);
    if (k->mood == FAKE_ELSEWHERE)
        fleet_send(c, FLEET_ELSEWHERE, 0, &e, sizeof e, NULL, 0, NULL);
    else if (k->mood != FAKE_DUMB)
        fleet_send(c, FLEET_WELCOME, 0, &w, sizeof w, NULL, 0, NULL);
}

static void fake_controller_message(void *ctx, struct fleet_conn *c, const struct fleet_frame *f,
                                    const void *body)
{
    struct fake_controller *k = ctx;
    const struct fleet_demand_message *d = FLEET_BODY(struct fleet_demand_message, f, body);
    if (f->kind != FLEET_DEMAND || !d || d->over) return;
    k->demands++;
    k->offered += d->offered;
    k->late += d->late;
    struct fleet_nothing n = {.error = k->mood == FAKE_NO_MODEL ? -ENOENT : -EAGAIN, .retry_ns = 200000000};
    memcpy(n.model, d->model, sizeof n.model);
    if (k->mood == FAKE_NOTHING || k->mood == FAKE_NO_MODEL)
        fleet_send(c, FLEET_NOTHING, f->seq, &n, sizeof n, NULL, 0, NULL);
    for (uint32_t i = 0; i < k->fake->leases && (k->mood == FAKE_LEADS || k->mood == FAKE_BABBLES); i++)
        fake_grant_one(k, c, f->seq, d->model, &k->fake->lease[i]);
}

static void fake_controller_closed(void *ctx, struct fleet_conn *c, int err, const char *why)
{
    struct fake_controller *k = ctx;
    (void)err;
    (void)why;
    if (k->conn == c) k->conn = NULL;
}

static const struct fleet_handler fake_controller_handler = {fake_controller_open, fake_controller_message,
                                                             fake_controller_closed};

/* ---- their thread ---- */

static struct fleet_conn_opts fake_opts(uint8_t role, const char *name, const uint8_t *id)
{
    return (struct fleet_conn_opts){
        .role = role, .peers = 1u << FLEET_IS_CLIENT, .fleet = "default", .name = name, .id = id};
}

static void *fake_run(void *arg)
{
    struct fake *f = arg;
    FAKE_MUST(fleet_loop_run(f->loop, INT64_MAX));
    return NULL;
}

void fake_begin(struct fake *f)
{
    memset(f, 0, sizeof *f);
    memset(fake_conns, 0, sizeof fake_conns);
    FAKE_MUST(fleet_loop_create(&f->loop));
    for (int i = 0; i < FAKE_WORKERS; i++) {
        struct fake_worker *w = &f->worker[i];
        w->fake = f;
        snprintf(w->name, sizeof w->name, "worker%d", i);
        FAKE_MUST(getrandom(w->id, FLEET_ID, 0) != FLEET_ID);
        struct fleet_conn_opts o = fake_opts(FLEET_IS_WORKER, w->name, w->id);
        o.most = FLEET_MAX_FRAME;
        FAKE_MUST(fleet_listen(f->loop, &o, "127.0.0.1:0", &fake_worker_handler, w, &w->listener));
        snprintf(w->address, sizeof w->address, "127.0.0.1:%u", fleet_listener_port(w->listener));
    }
    for (int i = 0; i < FAKE_CONTROLLERS; i++) {
        struct fake_controller *k = &f->controller[i];
        k->fake = f;
        FAKE_MUST(getrandom(k->id, FLEET_ID, 0) != FLEET_ID);
        struct fleet_conn_opts o = fake_opts(FLEET_IS_CONTROLLER, "", k->id);
        FAKE_MUST(fleet_listen(f->loop, &o, "127.0.0.1:0", &fake_controller_handler, k, &k->listener));
        snprintf(k->address, sizeof k->address, "127.0.0.1:%u", fleet_listener_port(k->listener));
    }
    FAKE_MUST(pthread_create(&f->thread, NULL, fake_run, f));
}

static void fake_stop(struct fake *f, void *arg)
{
    (void)arg;
    fleet_loop_stop(f->loop);
}

void fake_end(struct fake *f)
{
    fake_do(f, fake_stop, NULL);
    pthread_join(f->thread, NULL);
    for (int i = 0; i < FAKE_WORKERS; i++) fleet_listener_close(f->worker[i].listener);
    for (int i = 0; i < FAKE_CONTROLLERS; i++) fleet_listener_close(f->controller[i].listener);
    fleet_loop_destroy(f->loop);
}

struct fake_job {
    struct fake *f;
    void (*what)(struct fake *f, void *arg);
    void *arg;
    atomic_int done;
};

static void fake_do_it(void *ctx)
{
    struct fake_job *j = ctx;
    j->what(j->f, j->arg);
    j->done = 1;
}

void fake_do(struct fake *f, void (*what)(struct fake *f, void *arg), void *arg)
{
    struct fake_job j = {.f = f, .what = what, .arg = arg};
    const struct timespec pause = {.tv_nsec = 100000};
    FAKE_MUST(fleet_loop_call(f->loop, fake_do_it, &j));
    while (!j.done) nanosleep(&pause, NULL);
}

struct fake_lease *fake_grant(struct fake *f, uint32_t worker, uint32_t slots, float rate)
{
    struct fake_lease *l = &f->lease[f->leases];
    *l = (struct fake_lease){.worker = worker, .number = 10 + f->leases, .slots = slots, .rate = rate};
    l->key = 0x1234567 + f->leases;
    l->left_ns = 10000000000;
    f->leases++;
    return l;
}

static void fake_kill_it(struct fake *f, void *arg)
{
    struct fake_worker *w = arg;
    (void)f;
    fleet_listener_close(w->listener);
    w->listener = NULL;
    for (uint32_t i = 0; i < 1024; i++) {
        if (!fake_conns[i] || fake_owner[i] != w) continue;
        fleet_conn_close(fake_conns[i], 0, NULL);
        fake_conns[i] = NULL;
    }
}

void fake_kill(struct fake *f, uint32_t worker)
{
    fake_do(f, fake_kill_it, &f->worker[worker]);
}

struct fake_word {
    uint16_t kind;
    const void *body;
    size_t bytes;
};

static void fake_tell_it(struct fake *f, void *arg)
{
    const struct fake_word *w = arg;
    if (f->controller[0].conn)
        fleet_send(f->controller[0].conn, w->kind, 0, w->body, w->bytes, NULL, 0, NULL);
}

void fake_tell(struct fake *f, uint16_t kind, const void *body, size_t bytes)
{
    struct fake_word w = {kind, body, bytes};
    fake_do(f, fake_tell_it, &w);
}
