/* SPDX-License-Identifier: Apache-2.0 */
/* One client of `gpuwire load`: a thread that keeps requests in flight, or sends them at their times. */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <gpuwire/error.h>
#include <gpuwire/exec.h>

#include "src/cli/load/data.h"
#include "src/cli/load/load.h"
#include "src/cli/options.h"

#define LOOK_NS   100000000u
#define ANSWER_NS 60000000000u /* how long one answer may take before the server is given up */

static uint64_t load_client_elements(const struct gw_client_tensor *t, uint32_t rows)
{
    return t->bytes / gw_dtype_bytes(t->dtype) * (t->batched ? rows : 1);
}

/* Numbers that follow from the id. */
static void load_client_fill(const struct gw_load_client *me, uint32_t slot, uint64_t id)
{
    for (uint32_t i = 0; i < gw_client_inputs(me->c); i++) {
        const struct gw_client_tensor *t = gw_client_input(me->c, i);
        gw_data_fill(t->dtype, gw_client_slot_input(me->c, slot, i, me->load->rows),
                     load_client_elements(t, me->load->rows), id, i);
    }
}

void gw_load_fill(struct gw_load_client *me)
{
    for (uint32_t slot = 0; slot < gw_client_slots(me->c); slot++) {
        if (me->load->arrays.count)
            gw_arrays_copy(&me->load->arrays, me->c, slot, me->load->rows);
        else
            load_client_fill(me, slot, slot);
    }
}

static bool is_echo(const struct gw_load_client *me, const struct gw_client_reply *r)
{
    for (uint32_t i = 0; i < r->outputs; i++) {
        const struct gw_client_tensor *t = gw_client_input(me->c, i);
        if (!gw_data_is(t->dtype, r->out[i].data, load_client_elements(t, me->load->rows), r->id, i))
            return false;
    }
    return true;
}

/* 1: sent. 0: there is nothing more to send. */
static int load_client_send_next(struct gw_load_client *me, uint32_t slot, uint64_t intended)
{
    struct gw_load *l = me->load;
    struct gw_client_request r = l->o.door.request;
    if (atomic_load(&l->stop)) return 0;
    r.id = atomic_fetch_add(&l->next, 1);
    r.rows = l->rows;
    if (l->limit && r.id >= l->limit) return 0;
    if (l->o.verify) load_client_fill(me, slot, r.id);
    me->sent[slot] = gw_deadline(0);
    me->intended[slot] = intended ? intended : me->sent[slot];
    int err = gw_client_submit(me->c, slot, &r);
    return err ? err : 1;
}

bool gw_load_is_fleet(const struct gw_load *l)
{
    return !strcmp(gw_client_door(l->client[0].c), "fleet");
}

/* A fleet may refuse and lose: each has a count of its own. True: it is no failure. */
static bool load_client_count_fleet(struct gw_load_client *me, const struct gw_client_reply *r)
{
    struct gw_tally *t = me->tally;
    uint64_t budget = me->load->o.door.request.budget_ns;
    t->within += !r->error && (!budget || (uint64_t)r->times.total <= budget);
    t->refused += r->error == -EBUSY;
    t->lost += r->error == -EHOSTDOWN;
    return r->error == -EBUSY;
}

static void load_client_count(struct gw_load_client *me, struct gw_client_reply *r)
{
    struct gw_tally *t = me->tally;
    int wrong = !r->error && me->load->o.verify && !is_echo(me, r);
    /* The request's wait before it was sent is a part of its latency, too. */
    r->times.total += (int64_t)(me->sent[r->slot] - me->intended[r->slot]);
    pthread_mutex_lock(&t->lock);
    if (!r->error) {
        gw_latency_add(t->latency, &r->times);
        t->batch[r->batch < GW_LOAD_BATCHES ? r->batch : GW_LOAD_BATCHES - 1]++;
    }
    bool fine = !r->error || r->error == -ETIME;
    if (gw_load_is_fleet(me->load) && load_client_count_fleet(me, r)) fine = true;
    t->late += r->error == -ETIME;
    t->failed += !fine;
    t->wrong += (uint64_t)wrong;
    pthread_mutex_unlock(&t->lock);
    if (!fine && !me->why[0]) snprintf(me->why, sizeof(me->why), "%s", r->why);
    atomic_store(&me->load->last, gw_deadline(0));
    atomic_fetch_add(&me->load->answered, 1);
}

/* Takes an answer, until the deadline or the user's Ctrl-C. 1, 0: there is none yet. */
static int load_client_take(struct gw_load_client *me, uint64_t deadline, struct gw_client_reply *r)
{
    uint64_t look = gw_deadline(LOOK_NS);
    int err = gw_client_wait(me->c, deadline < look ? deadline : look, r);
    if (gw_interrupted()) return gw_error(-EINTR, "interrupted");
    if (err == -ETIMEDOUT) return 0;
    if (err) return err;
    load_client_count(me, r);
    /* The server has gone: every further request would fail like this one. */
    return r->error == -ECONNRESET ? gw_error(r->error, "%s", r->why) : 1;
}

/* N in flight, and the next one when one is answered. */
static int closed_loop(struct gw_load_client *me)
{
    struct gw_client_reply r;
    uint32_t in_flight = 0;
    int got = 0, sent = 1;
    uint64_t patience = gw_deadline(ANSWER_NS);
    for (uint32_t slot = 0; slot < me->max_in_flight && (sent = load_client_send_next(me, slot, 0)) > 0;
         slot++)
        in_flight++;
    while (sent >= 0 && got >= 0 && in_flight) {
        got = load_client_take(me, UINT64_MAX, &r);
        if (got == 0 && gw_deadline(0) >= patience)
            return gw_error(-ETIMEDOUT, "the server has not answered in time");
        if (got <= 0) continue;
        patience = gw_deadline(ANSWER_NS);
        sent = load_client_send_next(me, r.slot, 0);
        in_flight -= sent <= 0;
    }
    return sent < 0 ? sent : got < 0 ? got : 0;
}

struct free_slots {
    uint32_t slot[GW_CLIENT_MAX_SLOTS], count;
};

/* Sends all whose time has come, as far as there are slots. */
static int send_due(struct gw_load_client *me, struct free_slots *f)
{
    while (f->count && me->arrivals.next_ns <= (double)gw_deadline(0)) {
        int sent = load_client_send_next(me, f->slot[f->count - 1], gw_arrivals_take(&me->arrivals));
        if (sent <= 0) return sent;
        f->count--;
    }
    return 1;
}

/* At their times, whether or not earlier ones were answered. One that finds no slot is sent later, and its
 * latency counts from when it was to be sent. */
static int open_loop(struct gw_load_client *me)
{
    struct gw_client_reply r;
    struct free_slots f = {.count = gw_client_slots(me->c)};
    uint64_t patience = gw_deadline(ANSWER_NS);
    int got = 0, going = 1;
    for (uint32_t i = 0; i < f.count; i++) f.slot[i] = i;
    while (got >= 0 && going >= 0) {
        if (going) going = send_due(me, &f);
        if (going < 0 || atomic_load(&me->load->stop)) going = going < 0 ? going : 0;
        if (!going && f.count == gw_client_slots(me->c)) return 0;
        got = load_client_take(me, going && f.count ? (uint64_t)me->arrivals.next_ns : UINT64_MAX, &r);
        if (got > 0) f.slot[f.count++] = r.slot;
        if (got > 0 || f.count == gw_client_slots(me->c)) patience = gw_deadline(ANSWER_NS);
        if (gw_deadline(0) >= patience) return gw_error(-ETIMEDOUT, "the server has not answered in time");
    }
    return going < 0 ? going : got;
}

void *gw_load_run_client(void *arg)
{
    struct gw_load_client *me = arg;
    me->error = me->load->o.mode == GW_LOAD_RATE ? open_loop(me) : closed_loop(me);
    if (me->error) snprintf(me->why, sizeof(me->why), "%s", gw_last_error());
    atomic_fetch_sub(&me->load->running, 1);
    return NULL;
}
