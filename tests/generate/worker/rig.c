/* SPDX-License-Identifier: Apache-2.0 */
/* Starts a generator, and checks its streams. */
#include "tests/generate/worker/rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>
#include <time.h>
#include <unistd.h>

#include <gpuwire/exec.h>

void rig_begin(struct rig *r, uint32_t lanes, struct gen_worker_opts opts)
{
    memset(r, 0, sizeof(*r));
    const struct gw_exec_opts exec = {.lanes = lanes};
    assert_int_equal(gw_exec_create("cpu", &exec, &r->exec), 0);
    assert_int_equal(gw_device_open("softnic", r->exec, &r->dev), 0);
    opts.name = "fake";
    opts.exec = r->exec;
    opts.dev = opts.own_dev = r->dev;
    opts.net = fake_net_of(&r->net);
    if (!opts.context) opts.context = RIG_CONTEXT;
    if (!opts.sessions) opts.sessions = 4;
    if (!opts.slots) opts.slots = 64;
    if (!opts.own_sessions) opts.own_sessions = 2;
    if (gen_worker_create(&opts, &r->worker)) fail_msg("%s", gw_last_error());
    r->source = gen_client_source(gen_worker_client(r->worker));
    assert_int_equal(gen_worker_start(r->worker), 0);
}

void rig_slow(struct rig *r, uint32_t us)
{
    __atomic_store_n(&r->net.sleep_us, us, __ATOMIC_RELAXED); /* it stands alone */
}

void rig_calm(struct rig *r)
{
    struct gen_source_stats s;
    uint64_t end = gw_deadline(PATIENCE);
    do {
        usleep(2000);
        r->source.ops->stats(r->source.own, &s);
    } while ((s.running || s.waiting || gen_client_streams(gen_worker_client(r->worker))) &&
             gw_deadline(0) < end);
    assert_int_equal(s.running, 0);
    assert_int_equal(s.waiting, 0);
    assert_int_equal(gen_client_streams(gen_worker_client(r->worker)), 0);
}

void rig_end(struct rig *r)
{
    assert_int_equal(gen_worker_stop(r->worker, gw_deadline(PATIENCE)), 0);
    assert_int_equal(gen_worker_destroy(r->worker), 0);
    assert_int_equal(gw_device_close(r->dev), 0);
    gw_exec_destroy(r->exec);
}

static void told_event(void *ctx, const struct gen_event *e)
{
    struct told *t = ctx;
    t->wrong |= e->number != t->events || t->status != GEN_GOING;
    __atomic_store_n(&t->events, t->events + 1, __ATOMIC_RELAXED); /* it stands alone */
    if (e->token != GEN_NO_TOKEN) {
        t->wrong |= t->n == RIG_CONTEXT || e->token != fake_net_next(t->token, t->n);
        if (t->n < RIG_CONTEXT) t->token[t->n++] = e->token;
    }
    __atomic_store_n(&t->status, e->status, __ATOMIC_RELEASE); /* what is above is seen by who looks at it */
    if (e->status != GEN_GOING) sem_post(&t->ended);
}

int told_submit(struct rig *r, struct told *t, uint32_t seed, uint32_t prompt, uint32_t most, const char *who)
{
    memset(t, 0, sizeof(*t));
    sem_init(&t->ended, 0, 0);
    t->prompt = t->n = prompt;
    for (uint32_t i = 0; i < prompt; i++) t->token[i] = (seed * 31 + i * i) % FAKE_VOCAB;
    const struct gen_source_ask ask = {
        .request = {.prompt = prompt, .max_tokens = most, .top_p = 1, .repetition = 1},
        .prompt = t->token,
        .who = who,
        .deadline_ns = gw_deadline(PATIENCE),
        .event = told_event,
        .ctx = t};
    return r->source.ops->submit(r->source.own, &ask, &t->stream);
}

uint32_t told_events(const struct told *t)
{
    return __atomic_load_n(&t->events, __ATOMIC_RELAXED);
}

uint32_t told_wait(struct rig *r, struct told *t)
{
    struct timespec end;
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += (time_t)(PATIENCE / 1000000000u);
    assert_int_equal(sem_timedwait(&t->ended, &end), 0);
    r->source.ops->release(t->stream);
    assert_false(t->wrong);
    sem_destroy(&t->ended);
    return t->status;
}
