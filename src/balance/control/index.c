/* SPDX-License-Identifier: Apache-2.0 */
/* Hash tables of the model's services and workers: by id, by name, by address. */
#include "src/balance/control/index.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define ROWS 16384u

struct gw_bal_index {
    struct gw_bal_service *service[GW_BAL_SERVICES];
    struct gw_bal_worker *worker[GW_BAL_WORKERS];
    struct gw_bal_service *service_name[ROWS], *service_place[ROWS];
    struct gw_bal_worker *worker_name[ROWS], *worker_place[ROWS];
};

int gw_bal_index_open(struct gw_bal_model *m)
{
    if (!m->index) m->index = calloc(1, sizeof(*m->index));
    return m->index ? 0 : -ENOMEM;
}

void gw_bal_index_close(struct gw_bal_model *m)
{
    free(m->index);
    m->index = NULL;
}

/* ---- rows ---- */

static uint32_t name_row(const char *name, uint32_t of)
{
    uint64_t h = 0xcbf29ce484222325u ^ of;
    for (; *name; name++) h = (h ^ (uint8_t)*name) * 0x100000001b3u;
    return (uint32_t)(h >> 32 ^ h) % ROWS;
}

static uint32_t place_row(const struct gw_bal_addr *a, uint32_t port, uint32_t of)
{
    uint64_t part[2] = {0}, h = (uint64_t)of << 32 | port;
    memcpy(part, a->bytes, a->family == 6 ? 16 : 4);
    h = (h ^ part[0]) * 0x9e3779b97f4a7c15u;
    h = (h ^ h >> 32 ^ part[1]) * 0xd6e8feb86659fd93u;
    return (uint32_t)(h >> 32) % ROWS;
}

static struct gw_bal_service **service_name(const struct gw_bal_model *m, const struct gw_bal_service *s)
{
    return &m->index->service_name[name_row(s->name, 0)];
}

static struct gw_bal_service **service_place(const struct gw_bal_model *m, const struct gw_bal_service *s)
{
    return &m->index->service_place[place_row(&s->addr, s->port, s->protocol)];
}

static struct gw_bal_worker **worker_name(const struct gw_bal_model *m, const struct gw_bal_worker *w)
{
    return &m->index->worker_name[name_row(w->name, w->service->id)];
}

static struct gw_bal_worker **worker_place(const struct gw_bal_model *m, const struct gw_bal_worker *w)
{
    return &m->index->worker_place[place_row(&w->addr, gw_bal_port_of(w->service, w), w->service->id)];
}

/* ---- ids ---- */

int gw_bal_index_service_id(struct gw_bal_model *m, uint32_t *id)
{
    for (uint32_t i = 0; i < GW_BAL_SERVICES; i++) {
        *id = m->next_service++ % GW_BAL_SERVICES;
        if (!m->index->service[*id]) return 0;
    }
    return -ENOSPC;
}

int gw_bal_index_worker_id(struct gw_bal_model *m, uint32_t *id)
{
    for (uint32_t i = 0; i < GW_BAL_WORKERS; i++) {
        *id = m->next_worker++ % GW_BAL_WORKERS;
        if (!m->index->worker[*id]) return 0;
    }
    return -ENOSPC;
}

/* ---- in and out ---- */

void gw_bal_index_add_service(struct gw_bal_model *m, struct gw_bal_service *s)
{
    struct gw_bal_service **name = service_name(m, s), **place = service_place(m, s);
    m->index->service[s->id] = s;
    s->next_name = *name;
    s->next_place = *place;
    *name = *place = s;
}

void gw_bal_index_add_worker(struct gw_bal_model *m, struct gw_bal_worker *w)
{
    struct gw_bal_worker **name = worker_name(m, w), **place = worker_place(m, w);
    m->index->worker[w->id] = w;
    w->next_name = *name;
    w->next_place = *place;
    *name = *place = w;
}

void gw_bal_index_drop_service(struct gw_bal_model *m, struct gw_bal_service *s)
{
    struct gw_bal_service **link = service_name(m, s);
    while (*link != s) link = &(*link)->next_name;
    *link = s->next_name;
    link = service_place(m, s);
    while (*link != s) link = &(*link)->next_place;
    *link = s->next_place;
    m->index->service[s->id] = NULL;
}

void gw_bal_index_drop_worker(struct gw_bal_model *m, struct gw_bal_worker *w)
{
    struct gw_bal_worker **link = worker_name(m, w);
    while (*link != w) link = &(*link)->next_name;
    *link = w->next_name;
    link = worker_place(m, w);
    while (*link != w) link = &(*link)->next_place;
    *link = w->next_place;
    m->index->worker[w->id] = NULL;
}

/* ---- finding ---- */

struct gw_bal_service *gw_bal_service_by_id(const struct gw_bal_model *m, uint32_t id)
{
    return m->index && id < GW_BAL_SERVICES ? m->index->service[id] : NULL;
}

struct gw_bal_worker *gw_bal_worker_by_id(const struct gw_bal_model *m, uint32_t id)
{
    return m->index && id < GW_BAL_WORKERS ? m->index->worker[id] : NULL;
}

struct gw_bal_service *gw_bal_index_service(const struct gw_bal_model *m, const char *name)
{
    struct gw_bal_service *s = m->index ? m->index->service_name[name_row(name, 0)] : NULL;
    while (s && strcmp(s->name, name)) s = s->next_name;
    return s;
}

struct gw_bal_worker *gw_bal_index_worker(const struct gw_bal_model *m, const struct gw_bal_service *s,
                                          const char *name)
{
    struct gw_bal_worker *w = m->index ? m->index->worker_name[name_row(name, s->id)] : NULL;
    while (w && (w->service != s || strcmp(w->name, name))) w = w->next_name;
    return w;
}

struct gw_bal_service *gw_bal_service_at(const struct gw_bal_model *m, const struct gw_bal_service *like)
{
    struct gw_bal_service *s = m->index ? *service_place(m, like) : NULL;
    while (s && (s->protocol != like->protocol || s->port != like->port ||
                 !gw_bal_addr_same(&s->addr, &like->addr)))
        s = s->next_place;
    return s;
}

struct gw_bal_worker *gw_bal_worker_at(const struct gw_bal_model *m, const struct gw_bal_service *s,
                                       const struct gw_bal_addr *addr, uint16_t port)
{
    struct gw_bal_worker *w = m->index ? m->index->worker_place[place_row(addr, port, s->id)] : NULL;
    while (w && (w->service != s || gw_bal_port_of(s, w) != port || !gw_bal_addr_same(&w->addr, addr)))
        w = w->next_place;
    return w;
}
