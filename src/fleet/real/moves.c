/* SPDX-License-Identifier: Apache-2.0 */
/* moves.c: LOAD, EVICT and DROP, and what the loop is told before and after. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "src/fleet/real/impl.h"

#define MOVE_TOLD_NS 1000000000  /* the loop takes what it is told within this time */
#define MOVE_LEFT_NS 10000000000 /* a batch that runs has ended by then */
#define MOVE_LOOK_NS 20000

static void move_pause(void)
{
    nanosleep(&(struct timespec){0, MOVE_LOOK_NS}, NULL);
}

/* Tells the loop where a model is; waits while it has not taken what it was told before. */
static int move_place(struct real_model *m, enum gw_model_state state, int64_t retry_ns)
{
    struct real *r = m->real;
    int64_t until = real_now() + MOVE_TOLD_NS;
    int err;

    do {
        pthread_mutex_lock(&r->host);
        err = gw_many_place(r->many, m->number, state, (uint64_t)retry_ns);
        pthread_mutex_unlock(&r->host);
        if (err == -EAGAIN) move_pause();
    } while (err == -EAGAIN && real_now() < until);
    return err;
}

void real_arrived(void *ctx, void *user)
{
    const struct real *r = (const struct real *)ctx;
    struct real_model *m = (struct real_model *)user;

    if (!m->added) return; /* a load is measured */
    if (move_place(m, GW_MODEL_PRESENT, 0))
        real_say(r, "model %s: it was loaded, and the loop was not told: %s", m->facts.name, gw_last_error());
}

/* The weights may go when no batch of the model runs. */
int real_leave(void *ctx, void *user)
{
    struct real *r = (struct real *)ctx;
    struct real_model *m = (struct real_model *)user;
    int64_t until = real_now() + MOVE_LEFT_NS;
    int err = m->added ? move_place(m, GW_MODEL_LEAVING, m->facts.load_ns) : 0;

    if (err || !m->added) return err;
    while (!gw_many_placed(r->many, m->number)) {
        if (real_now() > until) {
            move_place(m, GW_MODEL_PRESENT, 0);
            return gw_error(-ETIMEDOUT, "a batch of model %s does not end", m->facts.name);
        }
        move_pause();
    }
    return 0;
}

/* ---- what the agent asks for ---- */

struct real_move {
    struct fleet_pages_move move;
    struct fleet_move *of;
};

static void move_done(struct fleet_pages_move *p)
{
    struct real_move *rm = (struct real_move *)p;
    struct fleet_move *m = rm->of;

    m->result = p->result;
    m->result.model = m->model;
    free(rm);
    m->done(m);
}

static void move_refuse(struct fleet_move *m, uint32_t outcome, const char *why)
{
    int64_t now = real_now();

    m->result = (struct fleet_result){
        .outcome = outcome, .model = m->model, .where = FLEET_ON_DISK, .began_at = now, .ended_at = now};
    snprintf(m->result.why, sizeof(m->result.why), "%s", why);
    m->done(m);
}

void real_move(struct fleet_engine *e, struct fleet_move *m)
{
    static const enum fleet_weights_move kinds[] = {
        [FLEET_LOAD] = FLEET_TO_GPU, [FLEET_EVICT] = FLEET_OFF_GPU, [FLEET_DROP] = FLEET_TO_DISK};
    struct real *r = real_of(e);
    uint32_t models = real_models(r);
    struct real_move *rm = (struct real_move *)calloc(1, sizeof(*rm));

    if (m->model >= models || m->kind > FLEET_DROP || !rm) {
        if (m->model >= models)
            move_refuse(m, FLEET_NO_MODEL, "no such model");
        else
            move_refuse(m, rm ? FLEET_BAD : FLEET_BROKEN, rm ? "no such move" : "no memory");
        free(rm);
        return;
    }
    rm->of = m;
    rm->move =
        (struct fleet_pages_move){.done = move_done, .kind = kinds[m->kind], .latest_at = m->latest_at};
    fleet_weights_move(r->model[m->model]->weights, &rm->move);
}

/* ---- a move that is waited for ---- */

struct awaited {
    struct fleet_pages_move move;
    pthread_mutex_t lock;
    pthread_cond_t over;
    bool done;
};

static void awaited_done(struct fleet_pages_move *p)
{
    struct awaited *a = (struct awaited *)p;

    pthread_mutex_lock(&a->lock);
    a->done = true;
    pthread_cond_signal(&a->over);
    pthread_mutex_unlock(&a->lock);
}

uint32_t real_move_wait(struct real_model *m, enum fleet_weights_move kind, int64_t *took_ns)
{
    struct awaited a = {.move = {.done = awaited_done, .kind = kind, .latest_at = INT64_MAX},
                        .lock = PTHREAD_MUTEX_INITIALIZER,
                        .over = PTHREAD_COND_INITIALIZER};

    fleet_weights_move(m->weights, &a.move);
    pthread_mutex_lock(&a.lock);
    while (!a.done) pthread_cond_wait(&a.over, &a.lock);
    pthread_mutex_unlock(&a.lock);
    *took_ns = a.move.result.ended_at - a.move.result.began_at;
    return a.move.result.outcome;
}
