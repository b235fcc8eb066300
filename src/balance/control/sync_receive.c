/* SPDX-License-Identifier: Apache-2.0 */
/* A standby's use of the active balancer's frames. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <gpuwire/exec.h>

#include "src/balance/control/json.h"
#include "src/balance/control/agent.h"
#include "src/balance/control/sync_impl.h"
#include "src/balance/control/wire.h"

#define LEARN_TRY 200u /* times a millisecond, for cores that have not taken the last records */
#define NOT_HERE  0xffffu

struct receiving {
    struct gw_bal_sync *s;
    struct gw_bal_tls *tls;
    struct gw_bal_model theirs;
    uint16_t service[GW_BAL_SERVICES], worker[GW_BAL_WORKERS]; /* their number to ours */
    uint64_t version;                                          /* of our model that these are made from */
    struct bal_record *batch;
    size_t n, learnt;
    int again;
};

static void map_workers(struct receiving *r, const struct gw_bal_model *ours,
                        const struct gw_bal_service *mine, const struct gw_bal_service *their)
{
    for (const struct gw_bal_worker *t = their->workers; t; t = t->next) {
        const struct gw_bal_worker *w = gw_bal_worker_at(ours, mine, &t->addr, gw_bal_port_of(their, t));
        if (w) r->worker[t->id] = (uint16_t)w->id;
    }
}

static void map_numbers(struct receiving *r, const struct gw_bal_model *ours)
{
    memset(r->service, 0xff, sizeof(r->service));
    memset(r->worker, 0xff, sizeof(r->worker));
    for (const struct gw_bal_service *t = r->theirs.services; t; t = t->next) {
        const struct gw_bal_service *s = gw_bal_service_at(ours, t);
        if (!s) continue;
        r->service[t->id] = (uint16_t)s->id;
        map_workers(r, ours, s, t);
    }
}

/* Under the agent's lock, which serializes it with publications: goes on where it stopped, until the cores
 * are full. */
static void sync_receive_learn(void *ctx, const struct gw_bal_model *ours, uint64_t version)
{
    struct receiving *r = ctx;
    if (version != r->version) map_numbers(r, ours);
    r->version = version;
    for (r->again = 0; r->learnt < r->n; r->learnt++) {
        struct bal_record record = r->batch[r->learnt];
        record.service = record.service < GW_BAL_SERVICES ? r->service[record.service] : NOT_HERE;
        record.worker = record.worker < GW_BAL_WORKERS ? r->worker[record.worker] : NOT_HERE;
        int err =
            record.service == NOT_HERE || record.worker == NOT_HERE ? -EINVAL : bal_learn(r->s->bal, &record);
        r->again = err == -EAGAIN;
        if (r->again) return;
        if (err)
            r->s->unknown++;
        else
            r->s->received++;
    }
}

static int take_flows(struct receiving *r, void *data, size_t bytes)
{
    if (bytes % sizeof(struct bal_record)) return -EPROTO;
    r->batch = data;
    r->n = bytes / sizeof(struct bal_record);
    r->learnt = 0;
    for (unsigned i = 0; i < LEARN_TRY; i++) {
        gw_bal_agent_model(r->s->agent, sync_receive_learn, r);
        if (!r->again) return 0;
        if (gw_bal_sync_ended(r->s, MS)) return -ECANCELED;
    }
    r->s->lost += r->n - r->learnt;
    return 0;
}

static int take_table(struct receiving *r, const char *text, size_t bytes)
{
    json_t *j = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, NULL);
    gw_bal_model_free(&r->theirs);
    r->theirs = (struct gw_bal_model){0};
    r->version = UINT64_MAX;
    int err = j ? gw_bal_model_from(j, &r->theirs, gw_deadline(0)) : -EPROTO;
    json_decref(j);
    return err;
}

static int sync_receive_answer(struct receiving *r, uint64_t number)
{
    struct gw_bal_sync_frame f = {GW_BAL_SYNC_MAGIC, GW_BAL_SYNC_ANSWER, 0, sizeof(struct bal_record),
                                  number};
    return gw_bal_tls_write(r->tls, &f, sizeof(f), GW_BAL_SYNC_PATIENCE);
}

/* The active balancer says something every second, and expects an answer to it. */
static int take_frame(struct receiving *r, uint64_t number)
{
    struct gw_bal_sync_frame f;
    int err = gw_bal_tls_read(r->tls, &f, sizeof(f), GW_BAL_SYNC_PATIENCE);
    if (err) return err;
    if (f.magic != GW_BAL_SYNC_MAGIC || f.record != sizeof(struct bal_record) || f.number != number ||
        f.bytes > GW_BAL_MESSAGE)
        return -EPROTO;
    char *data = malloc((size_t)f.bytes + 1);
    if (!data) return -ENOMEM;
    err = gw_bal_tls_read(r->tls, data, f.bytes, GW_BAL_SYNC_PATIENCE);
    if (!err)
        err = f.kind == GW_BAL_SYNC_TABLE   ? take_table(r, data, f.bytes)
              : f.kind == GW_BAL_SYNC_FLOWS ? take_flows(r, data, f.bytes)
              : f.kind == GW_BAL_SYNC_ASK   ? 0
                                            : -EPROTO;
    free(data);
    if (!err) r->s->heard_ns = gw_deadline(0);
    return err ? err : sync_receive_answer(r, number);
}

int gw_bal_sync_receive(struct gw_bal_sync *s, struct gw_bal_tls *t)
{
    struct receiving *r = calloc(1, sizeof(*r));
    if (!r) return -ENOMEM;
    r->s = s;
    r->tls = t;
    r->version = UINT64_MAX;
    int err = take_frame(r, 1), speaks = !err;
    s->active += (uint32_t)speaks;
    for (uint64_t number = 2; !err; number++) err = take_frame(r, number);
    s->active -= (uint32_t)speaks;
    gw_bal_model_free(&r->theirs);
    free(r);
    return err;
}
