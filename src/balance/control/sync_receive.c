/* SPDX-License-Identifier: Apache-2.0 */
/* What a standby makes of the active balancer's frames. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <gpuwire/exec.h>

#include "src/balance/control/json.h"
#include "src/balance/control/sync_impl.h"
#include "src/balance/control/wire.h"
#include "src/serve/secret.h"

#define AGAIN_NS  (500 * MS)
#define LEARN_TRY 200u /* times a millisecond, for cores that have not taken the last records */
#define NOT_HERE  0xffffu

struct receiving {
    struct gw_bal_sync *s;
    struct gw_bal_model theirs;
    uint16_t service[GW_BAL_SERVICES], worker[GW_BAL_WORKERS]; /* their number to ours */
    uint64_t version;                                          /* of our model that these are made from */
    struct bal_record *batch;
    size_t n, learnt;
    int again;
};

static void map_workers(struct receiving *r, const struct gw_bal_service *mine,
                        const struct gw_bal_service *their)
{
    for (const struct gw_bal_worker *t = their->workers; t; t = t->next)
        for (const struct gw_bal_worker *w = mine->workers; w; w = w->next)
            if (gw_bal_addr_same(&w->addr, &t->addr) && gw_bal_port_of(mine, w) == gw_bal_port_of(their, t))
                r->worker[t->id] = (uint16_t)w->id;
}

static void map_numbers(struct receiving *r, const struct gw_bal_model *ours)
{
    memset(r->service, 0xff, sizeof(r->service));
    memset(r->worker, 0xff, sizeof(r->worker));
    for (const struct gw_bal_service *t = r->theirs.services; t; t = t->next)
        for (const struct gw_bal_service *s = ours->services; s; s = s->next) {
            if (s->protocol != t->protocol || s->port != t->port || !gw_bal_addr_same(&s->addr, &t->addr))
                continue;
            r->service[t->id] = (uint16_t)s->id;
            map_workers(r, s, t);
        }
}

/* Under the agent's lock, which serializes it with publications: goes on where it stopped, until the cores
 * are full. */
static void learn(void *ctx, const struct gw_bal_model *ours, uint64_t version)
{
    struct receiving *r = ctx;
    if (version != r->version) map_numbers(r, ours);
    r->version = version;
    for (r->again = 0; r->learnt < r->n; r->learnt++) {
        struct bal_record record = r->batch[r->learnt];
        record.service = record.service < GW_BAL_SERVICES ? r->service[record.service] : NOT_HERE;
        record.worker = record.worker < GW_BAL_WORKERS ? r->worker[record.worker] : NOT_HERE;
        int error =
            record.service == NOT_HERE || record.worker == NOT_HERE ? -EINVAL : bal_learn(r->s->bal, &record);
        r->again = error == -EAGAIN;
        if (r->again) return;
        if (error)
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
        gw_bal_agent_model(r->s->agent, learn, r);
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
    int error = j ? gw_bal_model_from(j, &r->theirs, gw_deadline(0)) : -EPROTO;
    json_decref(j);
    return error;
}

static int take_hello(const struct gw_bal_sync *s, const char *key, size_t bytes)
{
    char *bearer = NULL;
    if (asprintf(&bearer, "Bearer %.*s", (int)bytes, key) < 0) return -ENOMEM;
    int ok = gw_secret_allows(s->key, bearer);
    gw_secret_forget(bearer);
    return ok ? 0 : -EACCES;
}

/* One frame; the first must be the hello, and nothing of a stranger is kept before. */
static int take_frame(struct receiving *r, int fd, uint64_t number)
{
    struct gw_bal_sync_frame f;
    /* A quiet network has nothing to tell for long. */
    while (gw_wait_fds((int[]){fd, r->s->end_fd}, 2, gw_deadline(AGAIN_NS)) == 0) continue;
    if (gw_bal_sync_ended(r->s, 0)) return -ECANCELED;
    int error = gw_bal_read_all(fd, &f, sizeof(f), gw_deadline(GW_BAL_SYNC_PATIENCE));
    if (error) return error;
    uint32_t most = number == 1 ? 256 : GW_BAL_MESSAGE;
    if (f.magic != GW_BAL_SYNC_MAGIC || f.record != sizeof(struct bal_record) || f.number != number ||
        f.bytes > most || (f.kind == GW_BAL_SYNC_HELLO) != (number == 1))
        return -EPROTO;
    char *data = malloc((size_t)f.bytes + 1);
    if (!data) return -ENOMEM;
    error = gw_bal_read_all(fd, data, f.bytes, gw_deadline(GW_BAL_SYNC_PATIENCE));
    if (!error)
        error = f.kind == GW_BAL_SYNC_HELLO   ? take_hello(r->s, data, f.bytes)
                : f.kind == GW_BAL_SYNC_TABLE ? take_table(r, data, f.bytes)
                : f.kind == GW_BAL_SYNC_FLOWS ? take_flows(r, data, f.bytes)
                                              : -EPROTO;
    free(data);
    return error;
}

void gw_bal_sync_receive(struct gw_bal_sync *s, int fd)
{
    struct receiving *r = calloc(1, sizeof(*r));
    int error = r ? 0 : -ENOMEM;
    if (r) r->s = s;
    if (r) r->version = UINT64_MAX;
    for (uint64_t number = 1; !error; number++) {
        error = take_frame(r, fd, number);
        if (!error) s->connected = 1;
    }
    s->connected = 0;
    if (error == -EACCES)
        fprintf(stderr, "gpuwire balance: flows came with another key; sync_key_file must be the same\n");
    if (error == -EPROTO)
        fprintf(stderr, "gpuwire balance: flows came from another version of gpuwire, or a stranger\n");
    if (r) gw_bal_model_free(&r->theirs);
    free(r);
}
