/* SPDX-License-Identifier: Apache-2.0 */
/* The table of queue pairs that workers have told, and which of them the data plane has yet to learn. */
#include "src/balance/control/pairs.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <gpuwire/error.h>

#include "src/balance/control/json.h"

/* ---- the set ---- */

struct gw_bal_pair {
    struct gw_bal_pair *next; /* in its row */
    struct gw_bal_qp qp;
    uint8_t keep; /* while a worker's whole list is read */
};

static bool same_key(const struct gw_bal_qp *a, const struct gw_bal_qp *b)
{
    return a->service == b->service && a->qpn == b->qpn && gw_bal_addr_same(&a->client, &b->client);
}

static struct gw_bal_pair **row_of(struct gw_bal_core *c, const struct gw_bal_qp *q)
{
    uint64_t h = q->qpn ^ (uint64_t)q->service << 32, a[2];
    memcpy(a, q->client.bytes, sizeof(a));
    if (q->client.family == 4) a[0] &= 0xffffffff, a[1] = 0;
    h = (h ^ a[0]) * 0x9e3779b97f4a7c15u;
    h = (h ^ h >> 32 ^ a[1]) * 0xd6e8feb86659fd93u;
    return &c->pair[(h >> 32) % GW_BAL_PAIR_ROWS];
}

static struct gw_bal_pair **pairs_find(struct gw_bal_core *c, const struct gw_bal_qp *q)
{
    struct gw_bal_pair **link = row_of(c, q);
    while (*link && !same_key(&(*link)->qp, q)) link = &(*link)->next;
    return link;
}

static struct gw_bal_worker *worker_by_id(const struct gw_bal_core *c, uint32_t service, uint32_t id)
{
    struct gw_bal_worker *w = gw_bal_worker_by_id(&c->model, id);
    return w && w->service->id == service ? w : NULL;
}

static void pairs_drop(struct gw_bal_core *c, struct gw_bal_pair **link)
{
    struct gw_bal_pair *p = *link;
    struct gw_bal_worker *w = worker_by_id(c, p->qp.service, p->qp.worker);
    if (w) w->pairs--;
    *link = p->next;
    c->pairs--;
    free(p);
}

/* ---- what the data plane must hear ---- */

static int pairs_enqueue(struct gw_bal_core *c, const struct gw_bal_qp *from, uint8_t ends)
{
    struct gw_bal_qp *q = malloc(sizeof(*q));
    if (!q) return gw_error_errno(-ENOMEM, "queue pair");
    *q = *from;
    q->ends = ends;
    q->next = NULL;
    *c->qps_end = q;
    c->qps_end = &q->next;
    c->qps_waiting++;
    c->qps_told++;
    return 0;
}

struct gw_bal_qp *gw_bal_pairs_take(struct gw_bal_core *c)
{
    struct gw_bal_qp *q = c->qps;
    if (!q) return NULL;
    c->qps = q->next;
    if (!c->qps) c->qps_end = &c->qps;
    c->qps_waiting--;
    return q;
}

void gw_bal_pairs_done(struct gw_bal_core *c, struct gw_bal_qp *q)
{
    c->qps_done++;
    pthread_cond_broadcast(&c->moved);
    free(q);
}

void gw_bal_pairs_back(struct gw_bal_core *c, struct gw_bal_qp *q)
{
    if (!c->qps) c->qps_end = &q->next;
    q->next = c->qps;
    c->qps = q;
    c->qps_waiting++;
}

bool gw_bal_pairs_wait(struct gw_bal_core *c)
{
    return gw_bal_core_wait(c, &c->qps_done, c->qps_told);
}

/* ---- changes ---- */

/* The entry of this queue pair, which is the worker's from now on. */
static int pairs_add(struct gw_bal_core *c, const struct gw_bal_service *s, struct gw_bal_worker *w,
                     const struct gw_bal_qp *q, struct gw_bal_pair **out)
{
    struct gw_bal_pair **link = pairs_find(c, q), *p = *link;
    struct gw_bal_worker *had = p ? worker_by_id(c, p->qp.service, p->qp.worker) : NULL;
    if (had && had != w && gw_bal_state_of(had) != GW_BAL_DOWN)
        return gw_error(-EEXIST,
                        "queue pair 0x%x: worker %s of service %s has one of that number with that "
                        "client; take another one",
                        q->qpn, had->name, s->name);
    if (!p && c->pairs >= GW_BAL_PAIRS) return gw_error(-ENOSPC, "there may be %u queue pairs", GW_BAL_PAIRS);
    if (!p && !(p = calloc(1, sizeof(*p)))) return gw_error_errno(-ENOMEM, "queue pair");
    int err = pairs_enqueue(c, q, 0);
    if (err) {
        if (!*link) free(p);
        return err;
    }
    if (!*link) {
        p->next = *link;
        *link = p;
        c->pairs++;
    }
    if (had) had->pairs--;
    w->pairs++;
    p->qp = *q;
    *out = p;
    return 0;
}

static int pairs_read_one(const struct gw_bal_service *s, const json_t *from, struct gw_bal_qp *q)
{
    char client[GW_BAL_ADDR] = "";
    uint64_t qpn = 0;
    if (gw_bal_get_text(from, "client", client, sizeof(client)) < 0 ||
        gw_bal_get_number(from, "qpn", 2, 0xffffff, &qpn) < 0)
        return -EINVAL;
    if (!qpn || !client[0]) return gw_error(-EINVAL, "client and qpn are missing");
    if (gw_bal_addr_parse(client, &q->client) || q->client.family != s->addr.family)
        return gw_error(-EINVAL, "client: must be an address of the service's family");
    q->service = s->id;
    q->qpn = (uint32_t)qpn;
    return 0;
}

static int pairs_check_service(const struct gw_bal_service *s)
{
    return s->protocol == GW_BAL_ROCE
               ? 0
               : gw_error(-EINVAL, "service %s: its protocol is not roce, which alone has queue pairs",
                          s->name);
}

int gw_bal_pairs_tell(struct gw_bal_core *c, struct gw_bal_service *s, const json_t *body)
{
    char name[GW_BAL_ENDPOINT] = "";
    struct gw_bal_qp q = {0};
    struct gw_bal_pair *p, **link;
    uint8_t ends = 0;
    int err = pairs_check_service(s);
    if (!err &&
        (gw_bal_get_text(body, "worker", name, sizeof(name)) < 0 || gw_bal_get_yes(body, "ended", &ends) < 0))
        return -EINVAL;
    if (!err) err = pairs_read_one(s, body, &q);
    if (!err && !name[0]) err = gw_error(-EINVAL, "worker is missing");
    if (err) return err;
    struct gw_bal_worker *w = gw_bal_find_worker(s, name);
    if (!w) return -ENOENT;
    if (c->qps_waiting >= GW_BAL_QPS) return gw_error(-EAGAIN, "too many queue pairs wait; ask again");
    q.worker = w->id;
    if (!ends) return pairs_add(c, s, w, &q, &p);
    link = pairs_find(c, &q);
    if (*link && (*link)->qp.worker == w->id) pairs_drop(c, link);
    return pairs_enqueue(c, &q, 1); /* the cores may have it from before this process began */
}

/* Of the worker's: those that are not kept end. */
static int end_others(struct gw_bal_core *c, const struct gw_bal_worker *w, uint32_t service)
{
    int err = 0;
    for (uint32_t i = 0; i < GW_BAL_PAIR_ROWS; i++)
        for (struct gw_bal_pair **link = &c->pair[i]; *link;) {
            struct gw_bal_pair *p = *link;
            int mine = p->qp.service == service && p->qp.worker == w->id, kept = p->keep;
            p->keep = 0;
            if (!mine || kept) {
                link = &p->next;
                continue;
            }
            if (!err) err = pairs_enqueue(c, &p->qp, 1);
            pairs_drop(c, link);
        }
    return err;
}

int gw_bal_pairs_set(struct gw_bal_core *c, struct gw_bal_service *s, struct gw_bal_worker *w,
                     const json_t *body)
{
    const json_t *list = json_object_get(body, "queue_pairs");
    size_t i;
    json_t *one;
    int err = pairs_check_service(s);
    if (!err && !json_is_array(list)) err = gw_error(-EINVAL, "queue_pairs: expected a list");
    if (!err && c->qps_waiting >= GW_BAL_QPS) err = gw_error(-EAGAIN, "too many queue pairs wait; ask again");
    if (err) return err;
    json_array_foreach(list, i, one)
    {
        struct gw_bal_qp q = {.worker = w->id};
        struct gw_bal_pair *p;
        err = pairs_read_one(s, one, &q);
        if (!err) err = pairs_add(c, s, w, &q, &p);
        if (!err) p->keep = 1;
        if (err && err != -EEXIST) break;
        err = 0;
    }
    int ended = end_others(c, w, s->id);
    return err ? err : ended;
}

/* ---- all of them ---- */

json_t *gw_bal_pairs_json(const struct gw_bal_core *c, const struct gw_bal_service *s)
{
    char addr[GW_BAL_ADDR];
    json_t *all = json_array();
    for (uint32_t i = 0; i < GW_BAL_PAIR_ROWS; i++)
        for (const struct gw_bal_pair *p = c->pair[i]; p; p = p->next) {
            const struct gw_bal_worker *w = worker_by_id(c, p->qp.service, p->qp.worker);
            if (p->qp.service != s->id || !w) continue;
            json_array_append_new(all, json_pack("{s:s, s:s, s:I}", "worker", w->name, "client",
                                                 gw_bal_addr_text(&p->qp.client, addr), "qpn",
                                                 (json_int_t)p->qp.qpn));
        }
    return json_pack("{s:o}", "queue_pairs", all);
}

void gw_bal_pairs_again(struct gw_bal_core *c)
{
    for (uint32_t i = 0; i < GW_BAL_PAIR_ROWS; i++)
        for (const struct gw_bal_pair *p = c->pair[i]; p; p = p->next)
            if (pairs_enqueue(c, &p->qp, 0)) return;
}

void gw_bal_pairs_tend(struct gw_bal_core *c)
{
    if (c->pairs_version == c->model.version) return;
    c->pairs_version = c->model.version;
    for (uint32_t i = 0; i < GW_BAL_PAIR_ROWS && c->pairs; i++)
        for (struct gw_bal_pair **link = &c->pair[i]; *link;)
            if (worker_by_id(c, (*link)->qp.service, (*link)->qp.worker))
                link = &(*link)->next;
            else
                pairs_drop(c, link);
}

void gw_bal_pairs_free(struct gw_bal_core *c)
{
    for (uint32_t i = 0; i < GW_BAL_PAIR_ROWS; i++)
        while (c->pair[i]) {
            struct gw_bal_pair *p = c->pair[i];
            c->pair[i] = p->next;
            free(p);
        }
    for (struct gw_bal_qp *q; (q = gw_bal_pairs_take(c));) free(q);
}
