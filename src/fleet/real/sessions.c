/* SPDX-License-Identifier: Apache-2.0 */
/* sessions.c: RDMA sessions of clients. A thread opens and closes them, since the NIC's driver takes its
 * time; it also makes closed ones ready for the next client. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/fleet/real/impl.h"

#define SESSION_TEND_NS 50000000

struct real_session {
    struct fleet_job job;
    struct real *real;
    struct fleet_session *of;
    uint32_t owner, index;
};

/* Closed sessions become ready when the loop has let them go. */
static void session_tend(struct fleet_job *j)
{
    struct real *r = (struct real *)((char *)j - offsetof(struct real, tend));

    if (gw_session_pool_tend(gw_many_sessions(r->many)) && !__atomic_load_n(&r->stopped, __ATOMIC_RELAXED)) {
        j->earliest_at = real_now() + SESSION_TEND_NS;
        fleet_lane_add(r->work, j);
    } else {
        __atomic_store_n(&r->tends, false, __ATOMIC_RELAXED); /* this thread's alone while jobs run */
    }
}

static void session_close(struct fleet_job *j)
{
    struct real_session *s = (struct real_session *)j;
    struct real *r = s->real;

    gw_session_close(gw_many_sessions(r->many), s->index);
    real_owner_drop(r, s->owner);
    free(s);
    if (__atomic_exchange_n(&r->tends, true, __ATOMIC_RELAXED)) return;
    r->tend = (struct fleet_job){.run = session_tend};
    fleet_lane_add(r->work, &r->tend);
}

static void session_failed(struct fleet_session *f, int err, const char *why)
{
    f->err = err;
    f->state = NULL;
    snprintf(f->why, sizeof(f->why), "%s", why);
    f->done(f);
}

static struct gw_endpoint endpoint_of(const uint8_t gid[FLEET_GID], uint32_t qpn, uint32_t psn, uint32_t mtu)
{
    struct gw_endpoint ep = {.qpn = qpn, .psn = psn, .mtu = mtu};

    memcpy(ep.gid, gid, sizeof(ep.gid));
    return ep;
}

static void session_open(struct fleet_job *j)
{
    struct real_session *s = (struct real_session *)j;
    struct fleet_session *f = s->of;
    const struct fleet_open *o = &f->open;
    struct gw_session_pool *pool = gw_many_sessions(s->real->many);
    const struct gw_session_wish wish = {.slots = o->slots,
                                         .endpoint = endpoint_of(o->gid, o->qpn, o->psn, o->mtu),
                                         .reply_addr = o->reply_addr,
                                         .reply_stride = o->reply_stride,
                                         .reply_rkey = o->reply_rkey,
                                         .owner = s->owner};
    struct gw_session_grant g;
    int err = gw_session_pool_has(pool, &wish.endpoint)
                  ? gw_error(-EINVAL, "the endpoint is one of this worker's own")
                  : gw_session_open(pool, &wish, &g);

    if (err) {
        real_owner_drop(s->real, s->owner);
        free(s);
        session_failed(f, err, gw_last_error());
        return;
    }
    s->index = g.index;
    f->opened = (struct fleet_opened){.slots = g.slots,
                                      .request_rkey = g.request_rkey,
                                      .qpn = g.endpoint.qpn,
                                      .psn = g.endpoint.psn,
                                      .mtu = g.endpoint.mtu,
                                      .request_addr = g.request_addr,
                                      .request_stride = g.request_stride};
    memcpy(f->opened.gid, g.endpoint.gid, sizeof(f->opened.gid));
    f->err = 0;
    f->state = s;
    f->done(f);
}

void real_open(struct fleet_engine *e, struct fleet_session *f)
{
    struct real *r = real_of(e);
    struct real_session *s = (struct real_session *)calloc(1, sizeof(*s));
    uint32_t owner = s ? real_owner_take(r, f->client) : UINT32_MAX;

    if (owner == UINT32_MAX || r->stopped) {
        if (owner != UINT32_MAX) real_owner_drop(r, owner);
        free(s);
        session_failed(f, r->stopped ? -ESHUTDOWN : -ENOMEM, r->stopped ? "the worker ends" : "no memory");
        return;
    }
    *s = (struct real_session){.job = {.run = session_open}, .real = r, .of = f, .owner = owner};
    fleet_lane_add(r->work, &s->job);
}

void real_close(struct fleet_engine *e, struct fleet_session *f)
{
    struct real *r = real_of(e);
    struct real_session *s = (struct real_session *)f->state;

    f->state = NULL;
    if (!s || r->stopped) { /* the loop does not run any more */
        free(s);
        return;
    }
    s->job = (struct fleet_job){.run = session_close};
    fleet_lane_add(r->work, &s->job);
}
