/* SPDX-License-Identifier: Apache-2.0 */
#include "src/balance/control/model.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <gpuwire/error.h>

#define S 1000000000ull

void gw_bal_check_default(struct gw_bal_check *c)
{
    *c = (struct gw_bal_check){
        .kind = GW_BAL_DEFAULT_CHECK, .rise = 2, .fall = 3, .interval_ns = 2 * S, .timeout_ns = S};
    snprintf(c->path, sizeof(c->path), "/");
    snprintf(c->model, sizeof(c->model), "identity");
}

static void free_service(struct gw_bal_service *s)
{
    for (struct gw_bal_worker *w = s->workers, *next; w; w = next) {
        next = w->next;
        free(w);
    }
    free(s);
}

void gw_bal_model_free(struct gw_bal_model *m)
{
    for (struct gw_bal_service *s = m->services, *next; s; s = next) {
        next = s->next;
        free_service(s);
    }
    m->services = NULL;
}

/* ---- finding ---- */

struct gw_bal_service *gw_bal_find_service(const struct gw_bal_model *m, const char *name)
{
    char text[GW_BAL_ENDPOINT];
    struct gw_bal_service *found = NULL;
    for (struct gw_bal_service *s = m->services; s; s = s->next)
        if (!strcmp(s->name, name) || !strcmp(gw_bal_endpoint_text(s, text), name)) return s;
    for (struct gw_bal_service *s = m->services; s; s = s->next) {
        gw_bal_endpoint_text(s, text);
        *strrchr(text, '/') = 0;
        if (strcmp(text, name)) continue;
        if (found) {
            gw_error(-EINVAL, "%.64s: several services have it; say %.64s/tcp or the like", name, name);
            return NULL;
        }
        found = s;
    }
    if (!found) gw_error(-ENOENT, "%.64s: no such service; `gpuwire balance list` names them", name);
    return found;
}

struct gw_bal_worker *gw_bal_find_worker(const struct gw_bal_service *s, const char *name)
{
    struct gw_bal_addr addr;
    uint16_t port;
    int is_addr = !gw_bal_endpoint_parse(name, &addr, &port);
    for (struct gw_bal_worker *w = s->workers; w; w = w->next) {
        if (!strcmp(w->name, name)) return w;
        if (is_addr && gw_bal_addr_same(&w->addr, &addr) && (!port || port == gw_bal_port_of(s, w))) return w;
    }
    gw_error(-ENOENT, "%.64s: service %s has no such worker; `gpuwire balance list` names them", name,
             s->name);
    return NULL;
}

static uint32_t count_services(const struct gw_bal_model *m)
{
    uint32_t n = 0;
    for (const struct gw_bal_service *s = m->services; s; s = s->next) n++;
    return n;
}

static int worker_id_taken(const struct gw_bal_model *m, uint32_t id)
{
    for (const struct gw_bal_service *s = m->services; s; s = s->next)
        for (const struct gw_bal_worker *w = s->workers; w; w = w->next)
            if (w->id == id) return 1;
    return 0;
}

static int service_id_taken(const struct gw_bal_model *m, uint32_t id)
{
    for (const struct gw_bal_service *s = m->services; s; s = s->next)
        if (s->id == id) return 1;
    return 0;
}

/* ---- what may be ---- */

static int name_is_good(const char *name)
{
    for (const char *c = name; *c; c++)
        if (!isalnum((unsigned char)*c) && !strchr("-_.:", *c)) return 0;
    return *name != 0;
}

int gw_bal_fits(const struct gw_bal_service *s, const struct gw_bal_worker *w)
{
    char text[GW_BAL_ADDR];
    const char *kind = gw_bal_forward_names[s->forward];
    gw_bal_addr_text(&w->addr, text);
    if (w->weight > GW_BAL_WEIGHT)
        return gw_error(-EINVAL, "worker %s: weight %u: it is %u at most", text, w->weight, GW_BAL_WEIGHT);
    if (w->addr.family != s->addr.family)
        return gw_error(-EINVAL, "worker %s: it is IPv%u and the service IPv%u; both must be the same", text,
                        w->addr.family, s->addr.family);
    if (gw_bal_addr_same(&w->addr, &s->addr))
        return gw_error(-EINVAL, "worker %s: it has the service's address; give the worker's own", text);
    if (s->forward != GW_BAL_NAT && w->port && w->port != s->port)
        return gw_error(-EINVAL,
                        "worker %s: port %u: %s changes no ports; give the service's, %u, or use NAT", text,
                        w->port, kind, s->port);
    if (s->protocol == GW_BAL_ROCE && w->port && w->port != s->port)
        return gw_error(-EINVAL, "worker %s: port %u: RoCE has one port, 4791", text, w->port);
    return 0;
}

static int service_is_good(const struct gw_bal_model *m, const struct gw_bal_service *s)
{
    char text[GW_BAL_ENDPOINT];
    gw_bal_endpoint_text(s, text);
    if (!name_is_good(s->name))
        return gw_error(-EINVAL, "service %s: letters, digits and -_.: are wanted in a name", text);
    if (s->protocol == GW_BAL_ROCE && s->port != 4791)
        return gw_error(-EINVAL, "service %s: the port of RoCE is 4791", text);
    if (s->forward == GW_BAL_NAT && !s->port)
        return gw_error(-EINVAL, "service %s: NAT wants a port; all ports (0) go with DR and TUN", text);
    if (s->jet && (s->sched != GW_BAL_MH || s->protocol != GW_BAL_TCP || s->forward == GW_BAL_NAT))
        return gw_error(-EINVAL, "service %s: jet goes with lb_algo mh and TCP, and not with NAT", text);
    for (const struct gw_bal_service *o = m->services; o; o = o->next) {
        if (!strcmp(o->name, s->name)) return gw_error(-EEXIST, "service %s: there is one already", s->name);
        if (o->protocol == s->protocol && o->port == s->port && gw_bal_addr_same(&o->addr, &s->addr))
            return gw_error(-EEXIST, "service %s: it is there already, as %s", text, o->name);
    }
    if (count_services(m) >= GW_BAL_SERVICES)
        return gw_error(-ENOSPC, "service %s: there may be %u services", text, GW_BAL_SERVICES);
    return 0;
}

static int worker_is_new(const struct gw_bal_service *s, const struct gw_bal_worker *w)
{
    char text[GW_BAL_ENDPOINT];
    for (const struct gw_bal_worker *o = s->workers; o; o = o->next) {
        if (!strcmp(o->name, w->name))
            return gw_error(-EEXIST, "worker %s: service %s has one already%s", w->name, s->name,
                            o->leave ? "; it is leaving" : "");
        if (gw_bal_port_of(s, o) == gw_bal_port_of(s, w) && gw_bal_addr_same(&o->addr, &w->addr))
            return gw_error(-EEXIST, "worker %s: service %s has it already, as %s%s",
                            gw_bal_worker_text(s, w, text), s->name, o->name,
                            o->leave ? "; it is leaving" : "");
    }
    return 0;
}

/* ---- changes ---- */

void gw_bal_set_check(struct gw_bal_model *m, struct gw_bal_service *s, const struct gw_bal_check *c)
{
    s->check = *c;
    if (c->kind == GW_BAL_DEFAULT_CHECK)
        s->check.kind = s->protocol == GW_BAL_TCP ? GW_BAL_TCP_CHECK : GW_BAL_NO_CHECK;
    for (struct gw_bal_worker *w = s->workers; w; w = w->next)
        if (gw_bal_check_of(s, w)->kind == GW_BAL_NO_CHECK && !w->health.up) {
            w->health.up = 1;
            m->version++;
        }
}

int gw_bal_add_service(struct gw_bal_model *m, const struct gw_bal_service *s, struct gw_bal_service **out)
{
    struct gw_bal_service *mine = malloc(sizeof(*mine)), **link = &m->services;
    if (!mine) return gw_error_errno(-ENOMEM, "service");
    *mine = *s;
    mine->next = NULL;
    mine->workers = NULL;
    char addr[GW_BAL_ADDR];
    gw_bal_set_check(m, mine, &s->check);
    if (!mine->name[0])
        snprintf(mine->name, sizeof(mine->name), "%s-%s-%u", gw_bal_protocol_names[mine->protocol],
                 gw_bal_addr_text(&mine->addr, addr), mine->port);
    int error = service_is_good(m, mine);
    if (error) {
        free(mine);
        return error;
    }
    do mine->id = m->next_service++ % GW_BAL_SERVICES;
    while (service_id_taken(m, mine->id));
    while (*link) link = &(*link)->next;
    *link = mine;
    m->version++;
    if (out) *out = mine;
    return 0;
}

int gw_bal_add_worker(struct gw_bal_model *m, struct gw_bal_service *s, const struct gw_bal_worker *w,
                      struct gw_bal_worker **out)
{
    struct gw_bal_worker *mine = malloc(sizeof(*mine)), **link = &s->workers;
    if (!mine) return gw_error_errno(-ENOMEM, "worker");
    *mine = *w;
    mine->next = NULL;
    char addr[GW_BAL_ADDR];
    if (!mine->name[0])
        snprintf(mine->name, sizeof(mine->name), "%s-%u", gw_bal_addr_text(&mine->addr, addr),
                 gw_bal_port_of(s, mine));
    int error = gw_bal_fits(s, mine);
    if (!error && !name_is_good(mine->name))
        error = gw_error(-EINVAL, "worker %.64s: letters, digits and -_.: are wanted in a name", mine->name);
    if (!error) error = worker_is_new(s, mine);
    uint32_t tries = 0;
    /* Ids go round, so that one that was given back rests as long as possible. */
    do mine->id = m->next_worker++ % GW_BAL_WORKERS;
    while (++tries <= GW_BAL_WORKERS && worker_id_taken(m, mine->id));
    if (!error && tries > GW_BAL_WORKERS)
        error = gw_error(-ENOSPC, "worker %s: there may be %u workers", mine->name, GW_BAL_WORKERS);
    if (error) {
        free(mine);
        return error;
    }
    mine->changed = ++m->version;
    mine->health.up = gw_bal_check_of(s, mine)->kind == GW_BAL_NO_CHECK;
    while (*link) link = &(*link)->next;
    *link = mine;
    if (out) *out = mine;
    return 0;
}

static void changed(struct gw_bal_model *m, struct gw_bal_worker *w)
{
    w->changed = ++m->version;
    w->idle = 0;
}

int gw_bal_set_weight(struct gw_bal_model *m, struct gw_bal_worker *w, uint64_t weight)
{
    if (weight > GW_BAL_WEIGHT)
        return gw_error(-EINVAL, "weight %llu: a number from 0 to %u is wanted", (unsigned long long)weight,
                        GW_BAL_WEIGHT);
    if (w->weight == weight) return 0;
    w->weight = (uint32_t)weight;
    changed(m, w);
    return 0;
}

void gw_bal_drain(struct gw_bal_model *m, struct gw_bal_worker *w, int on)
{
    if (w->drain == !!on && !w->leave) return;
    w->drain = !!on;
    w->leave = 0;
    changed(m, w);
}

static void forget(struct gw_bal_model *m, struct gw_bal_service *s, struct gw_bal_worker *w)
{
    struct gw_bal_worker **link = &s->workers;
    while (*link != w) link = &(*link)->next;
    *link = w->next;
    free(w);
    m->version++;
}

void gw_bal_leave(struct gw_bal_model *m, struct gw_bal_service *s, struct gw_bal_worker *w, int now)
{
    if (now) {
        forget(m, s, w);
        return;
    }
    if (w->leave) return;
    w->leave = 1;
    changed(m, w);
}

void gw_bal_remove_service(struct gw_bal_model *m, struct gw_bal_service *s)
{
    struct gw_bal_service **link = &m->services;
    while (*link != s) link = &(*link)->next;
    *link = s->next;
    free_service(s);
    m->version++;
}

/* ---- what follows ---- */

enum gw_bal_state gw_bal_state_of(const struct gw_bal_worker *w)
{
    if (!w->health.up || w->silent) return GW_BAL_DOWN;
    if (w->drain || w->leave) return w->idle ? GW_BAL_DOWN : GW_BAL_DRAINING;
    return GW_BAL_UP;
}

uint16_t gw_bal_port_of(const struct gw_bal_service *s, const struct gw_bal_worker *w)
{
    return w->port ? w->port : s->port;
}

const struct gw_bal_check *gw_bal_check_of(const struct gw_bal_service *s, const struct gw_bal_worker *w)
{
    return w->has_check ? &w->check : &s->check;
}

/* A worker that promised to speak has so many beats of patience. */
#define BEATS 5u

static unsigned tend_worker(struct gw_bal_model *m, struct gw_bal_worker *w, uint64_t published, uint64_t now)
{
    const struct gw_bal_telemetry *t = &w->telemetry;
    int silent = t->beat_ns && now > t->at_ns && now - t->at_ns > BEATS * t->beat_ns;
    /* Only counts that were taken after every core knew of its state say that no flow will come. */
    int idle = (w->drain || w->leave) && w->changed <= published && w->counted >= w->changed &&
               !w->counts.live && !w->counts.held;
    if (silent == w->silent && idle == w->idle) return 0;
    if (silent != w->silent) m->version++;
    w->silent = (uint8_t)silent;
    w->idle = (uint8_t)idle;
    return 1;
}

unsigned gw_bal_tend(struct gw_bal_model *m, uint64_t published, uint64_t now_ns)
{
    unsigned n = 0;
    for (struct gw_bal_service *s = m->services; s; s = s->next)
        for (struct gw_bal_worker *w = s->workers, *next; w; w = next) {
            next = w->next;
            n += tend_worker(m, w, published, now_ns);
            if (w->origin == GW_BAL_OF_ITSELF && w->silent && !w->leave) {
                w->leave = 1; /* it comes back by itself */
                w->changed = ++m->version;
            }
            if (!w->leave || !w->idle) continue;
            forget(m, s, w);
            n++;
        }
    return n;
}
