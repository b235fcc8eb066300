/* SPDX-License-Identifier: Apache-2.0 */
/* Adds, changes and removes services and workers, and keeps the model whole. */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <gpuwire/error.h>

#include "src/balance/control/drain.h"
#include "src/balance/control/index.h"
#include "src/balance/control/model.h"

static void model_free_service(struct gw_bal_service *s)
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
        model_free_service(s);
    }
    m->services = m->last = NULL;
    gw_bal_index_close(m);
}

int gw_bal_model_copy(const struct gw_bal_model *from, struct gw_bal_model *out)
{
    struct gw_bal_service *mine;
    int err = 0;
    *out = *from;
    out->services = out->last = NULL;
    out->index = NULL;
    for (const struct gw_bal_service *s = from->services; s && !err; s = s->next) {
        err = gw_bal_put_service(out, s, s->id, &mine);
        for (const struct gw_bal_worker *w = s->workers; w && !err; w = w->next)
            err = gw_bal_put_worker(out, mine, w, w->id, NULL);
    }
    out->version = from->version;
    if (err) gw_bal_model_free(out);
    return err;
}

/* ---- finding ---- */

/* Of any protocol; NULL with words: none, or several. */
static struct gw_bal_service *model_find_place(const struct gw_bal_model *m, const char *name)
{
    struct gw_bal_service like = {0}, *found = NULL;
    char text[GW_BAL_ENDPOINT];
    snprintf(text, sizeof(text), "%s", name);
    char *slash = strchr(text, '/');
    if (slash) *slash = 0;
    int only = slash ? gw_bal_name_index(gw_bal_protocol_names, slash + 1) : -1;
    if (strlen(name) >= sizeof(text) || gw_bal_endpoint_parse(text, &like.addr, &like.port) ||
        (slash && only < 0))
        return NULL;
    for (int i = 0; i < GW_BAL_PROTOCOLS; i++) {
        like.protocol = (uint8_t)i;
        struct gw_bal_service *s = only < 0 || only == i ? gw_bal_service_at(m, &like) : NULL;
        if (s && found) {
            gw_error(-EINVAL, "%.64s: several services have it; say %.64s/tcp or the like", name, name);
            return NULL;
        }
        if (s) found = s;
    }
    return found;
}

struct gw_bal_service *gw_bal_find_service(const struct gw_bal_model *m, const char *name)
{
    struct gw_bal_service *found = gw_bal_index_service(m, name);
    gw_error(-ENOENT, "%.64s: no such service; `gpuwire balance list` names them", name);
    return found ? found : model_find_place(m, name);
}

struct gw_bal_worker *gw_bal_find_worker(const struct gw_bal_service *s, const char *name)
{
    struct gw_bal_addr addr;
    uint16_t port;
    bool is_addr = !gw_bal_endpoint_parse(name, &addr, &port);
    for (struct gw_bal_worker *w = s->workers; w; w = w->next)
        if (!strcmp(w->name, name)) return w;
    for (struct gw_bal_worker *w = is_addr ? s->workers : NULL; w; w = w->next)
        if (gw_bal_addr_same(&w->addr, &addr) && (!port || port == gw_bal_port_of(s, w))) return w;
    gw_error(-ENOENT, "%.64s: service %s has no such worker; `gpuwire balance list` names them", name,
             s->name);
    return NULL;
}

/* ---- changes ---- */

void gw_bal_check_changed(struct gw_bal_model *m, struct gw_bal_worker *w)
{
    if (w->health.has_weight && !gw_bal_check_asks(gw_bal_check_of(w->service, w), GW_BAL_MISC_CHECK)) {
        w->health.has_weight = 0; /* the script that said so is gone */
        m->version++;
    }
    if (gw_bal_check_of(w->service, w)->kind != GW_BAL_NO_CHECK || w->health.up) return;
    w->health.up = 1;
    m->version++;
}

static void set_check_kind(struct gw_bal_service *s)
{
    if (s->check.kind == GW_BAL_DEFAULT_CHECK)
        s->check.kind = s->protocol == GW_BAL_TCP ? GW_BAL_TCP_CHECK : GW_BAL_NO_CHECK;
}

void gw_bal_set_check(struct gw_bal_model *m, struct gw_bal_service *s, const struct gw_bal_check *c)
{
    s->check = *c;
    set_check_kind(s);
    for (struct gw_bal_worker *w = s->workers; w; w = w->next) gw_bal_check_changed(m, w);
}

int gw_bal_put_service(struct gw_bal_model *m, const struct gw_bal_service *s, uint32_t id,
                       struct gw_bal_service **out)
{
    struct gw_bal_service *mine = gw_bal_index_open(m) ? NULL : malloc(sizeof(*mine));
    if (!mine) return gw_error_errno(-ENOMEM, "service");
    int err =
        id != GW_BAL_ANY_ID ? gw_bal_service_by_id(m, id) ? -EEXIST : 0 : gw_bal_index_service_id(m, &id);
    if (err) {
        free(mine);
        return gw_error(err,
                        err == -EEXIST ? "service %s: another has its id"
                                       : "service %s: the limit of services is reached",
                        s->name);
    }
    *mine = *s;
    mine->next = NULL;
    mine->workers = mine->last = NULL;
    mine->id = id;
    set_check_kind(mine);
    gw_bal_index_add_service(m, mine);
    *(m->last ? &m->last->next : &m->services) = mine;
    m->last = mine;
    m->version++;
    if (out) *out = mine;
    return 0;
}

int gw_bal_put_worker(struct gw_bal_model *m, struct gw_bal_service *s, const struct gw_bal_worker *w,
                      uint32_t id, struct gw_bal_worker **out)
{
    struct gw_bal_worker *mine = malloc(sizeof(*mine));
    if (!mine) return gw_error_errno(-ENOMEM, "worker");
    int err = id != GW_BAL_ANY_ID ? gw_bal_worker_by_id(m, id) ? -EEXIST : 0 : gw_bal_index_worker_id(m, &id);
    if (err) {
        free(mine);
        return gw_error(err,
                        err == -EEXIST ? "worker %s: another has its id"
                                       : "worker %s: the limit of workers is reached",
                        w->name);
    }
    *mine = *w;
    mine->next = NULL;
    mine->service = s;
    mine->id = id;
    gw_bal_index_add_worker(m, mine);
    *(s->last ? &s->last->next : &s->workers) = mine;
    s->last = mine;
    m->version++;
    if (out) *out = mine;
    return 0;
}

int gw_bal_add_service(struct gw_bal_model *m, const struct gw_bal_service *s, struct gw_bal_service **out)
{
    struct gw_bal_service mine = *s, *other;
    char text[GW_BAL_ENDPOINT], addr[GW_BAL_ADDR];
    if (!mine.name[0])
        snprintf(mine.name, sizeof(mine.name), "%s-%s-%u", gw_bal_protocol_names[mine.protocol],
                 gw_bal_addr_text(&mine.addr, addr), mine.port);
    int err = gw_bal_service_fits(m, &mine);
    if (err) return err;
    if (gw_bal_index_service(m, mine.name))
        return gw_error(-EEXIST, "service %s: there is one already", mine.name);
    if ((other = gw_bal_service_at(m, &mine)))
        return gw_error(-EEXIST, "service %s: it is there already, as %s", gw_bal_endpoint_text(&mine, text),
                        other->name);
    return gw_bal_put_service(m, &mine, GW_BAL_ANY_ID, out);
}

int gw_bal_add_worker(struct gw_bal_model *m, struct gw_bal_service *s, const struct gw_bal_worker *w,
                      struct gw_bal_worker **out)
{
    struct gw_bal_worker mine = *w, *other;
    char text[GW_BAL_ENDPOINT], addr[GW_BAL_ADDR];
    if (!mine.name[0])
        snprintf(mine.name, sizeof(mine.name), "%s-%u", gw_bal_addr_text(&mine.addr, addr),
                 gw_bal_port_of(s, &mine));
    int err = gw_bal_fits(m, s, &mine);
    if (err) return err;
    if ((other = gw_bal_index_worker(m, s, mine.name)))
        return gw_error(-EEXIST, "worker %s: service %s has one already%s", mine.name, s->name,
                        other->leave ? "; it is leaving" : "");
    if ((other = gw_bal_worker_at(m, s, &mine.addr, gw_bal_port_of(s, &mine))))
        return gw_error(-EEXIST, "worker %s: service %s has it already, as %s%s",
                        gw_bal_worker_text(s, &mine, text), s->name, other->name,
                        other->leave ? "; it is leaving" : "");
    mine.health.up = gw_bal_check_of(s, &mine)->kind == GW_BAL_NO_CHECK;
    err = gw_bal_put_worker(m, s, &mine, GW_BAL_ANY_ID, &other);
    if (err) return err;
    other->changed = m->version;
    if (out) *out = other;
    return 0;
}

int gw_bal_replace_service(struct gw_bal_model *m, struct gw_bal_service *s, const struct gw_bal_service *as)
{
    if (s->protocol != as->protocol || s->port != as->port || !gw_bal_addr_same(&s->addr, &as->addr))
        return gw_error(-EINVAL, "service %s: another has its id", as->name);
    struct gw_bal_service was = *s;
    gw_bal_index_drop_service(m, s);
    *s = *as;
    s->id = was.id;
    s->next = was.next;
    s->workers = was.workers;
    s->last = was.last;
    set_check_kind(s);
    gw_bal_index_add_service(m, s);
    return 0;
}

void gw_bal_replace_worker(struct gw_bal_model *m, struct gw_bal_worker *w, const struct gw_bal_worker *as)
{
    struct gw_bal_worker was = *w;
    gw_bal_index_drop_worker(m, w);
    *w = *as;
    w->id = was.id;
    w->next = was.next;
    w->service = was.service;
    gw_bal_index_add_worker(m, w);
}

void gw_bal_rename_service(struct gw_bal_model *m, struct gw_bal_service *s, const char *name)
{
    char mine[GW_BAL_NAME];
    if (!strcmp(s->name, name)) return;
    snprintf(mine, sizeof(mine), "%s", name);
    gw_bal_index_drop_service(m, s);
    memcpy(s->name, mine, sizeof(mine));
    gw_bal_index_add_service(m, s);
}

void gw_bal_rename_worker(struct gw_bal_model *m, struct gw_bal_worker *w, const char *name)
{
    char mine[GW_BAL_NAME];
    if (!strcmp(w->name, name)) return;
    snprintf(mine, sizeof(mine), "%s", name);
    gw_bal_index_drop_worker(m, w);
    memcpy(w->name, mine, sizeof(mine));
    gw_bal_index_add_worker(m, w);
}

static void changed(struct gw_bal_model *m, struct gw_bal_worker *w)
{
    w->changed = ++m->version;
    w->idle = 0;
}

int gw_bal_set_weight(struct gw_bal_model *m, struct gw_bal_worker *w, uint64_t weight)
{
    if (weight > GW_BAL_WEIGHT)
        return gw_error(-EINVAL, "weight %llu: must be from 0 to %u", (unsigned long long)weight,
                        GW_BAL_WEIGHT);
    if (w->weight == weight) return 0;
    w->weight = (uint32_t)weight;
    changed(m, w);
    return 0;
}

void gw_bal_drain(struct gw_bal_model *m, struct gw_bal_worker *w, bool on)
{
    if (w->drain == !!on && !w->leave) return;
    w->drain = !!on;
    w->leave = 0;
    w->drain_limit_ns = w->drain_end_ns = 0;
    w->drain_over = 0;
    changed(m, w);
}

static void model_forget(struct gw_bal_model *m, struct gw_bal_service *s, struct gw_bal_worker *w)
{
    struct gw_bal_worker **link = &s->workers, *before = NULL;
    for (; *link != w; link = &before->next) before = *link;
    *link = w->next;
    if (s->last == w) s->last = before;
    gw_bal_index_drop_worker(m, w);
    free(w);
    m->version++;
}

void gw_bal_leave(struct gw_bal_model *m, struct gw_bal_service *s, struct gw_bal_worker *w, bool now)
{
    if (now) {
        model_forget(m, s, w);
        return;
    }
    if (w->leave) return;
    w->leave = 1;
    changed(m, w);
}

void gw_bal_remove_service(struct gw_bal_model *m, struct gw_bal_service *s)
{
    struct gw_bal_service **link = &m->services, *before = NULL;
    for (; *link != s; link = &before->next) before = *link;
    *link = s->next;
    if (m->last == s) m->last = before;
    for (struct gw_bal_worker *w = s->workers; w; w = w->next) gw_bal_index_drop_worker(m, w);
    gw_bal_index_drop_service(m, s);
    model_free_service(s);
    m->version++;
}

/* ---- what follows ---- */

/* The number of beats that a worker which promised to speak may miss. */
#define BEATS 5u

static unsigned tend_worker(struct gw_bal_model *m, struct gw_bal_worker *w, uint64_t published, uint64_t now)
{
    const struct gw_bal_telemetry *t = &w->telemetry;
    int silent = t->beat_ns && now > t->at_ns && now - t->at_ns > BEATS * t->beat_ns;
    /* Only counts that were taken after every core knew of its state say that no flow will come. */
    int over = gw_bal_tend_drain(m, w, now);
    int idle = (w->drain || w->leave) && w->changed <= published &&
               (w->drain_over || (w->counted >= w->changed && !w->counts.live && !w->counts.held));
    if (over) return 1;
    if (silent == w->silent && idle == w->idle) return 0;
    if (silent != w->silent) m->version++;
    w->silent = (uint8_t)silent;
    w->idle = (uint8_t)idle;
    return 1;
}

/* People ask since when a worker has its state, and how far its drain is. */
static void note_state(struct gw_bal_worker *w, uint64_t now)
{
    enum gw_bal_state state = gw_bal_state_of(w);
    int drains = state == GW_BAL_DRAINING || state == GW_BAL_DRAINED;
    int drained = w->since_ns && (w->shown == GW_BAL_DRAINING || w->shown == GW_BAL_DRAINED);
    if (w->since_ns && w->shown == state) return;
    if (!drains || !drained) w->drain_from = drains ? w->counts.live : 0;
    w->shown = (uint8_t)state;
    w->since_ns = now;
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
            note_state(w, now_ns);
            if (!w->leave || !w->idle) continue;
            model_forget(m, s, w);
            n++;
        }
    return n;
}
