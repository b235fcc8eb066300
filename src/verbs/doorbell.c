/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The doorbell proxy, for a NIC whose doorbell page cannot be mapped into a GPU. Kernels write their rings
 * into a mailbox in host memory instead, and the proxy thread carries them to the register. The queues, the
 * records and the device API are the same as without it.
 */
#include <errno.h>
#include <stdlib.h>

#include <gpuwire/detail/held.h>

#include "src/verbs/proxy.h"
#include "src/trace/trace.h"

struct gw_route {
    uint64_t *mailbox, *reg;
};

bool gw_doorbell_round(struct gw_proxy *p)
{
    bool any = false;

    GW_ASSERT_HELD(&p->lock);
    for (uint32_t i = 0; i < p->count; i++) {
        struct gw_route *r = &p->routes[i];
        uint64_t v;

        if (!gw_ld_relaxed_u64(r->mailbox)) continue;
        /* Taken out by exchange: a ring that comes in between is either in v or still there at the next look.
         * Acquire, and the flush: the record, written before the mailbox, comes before the register. */
        v = gw_exch_acquire_u64(r->mailbox, 0);
        GW_TRACE(verbs, ring_carried, v);
        gw_mmio_flush();
        gw_mmio_st64(r->reg, v);
        gw_mmio_flush(); /* out of the write-combining buffer, before the next one is written over it */
        any = true;
    }
    if (any) p->dev->ops->rang(p->dev);
    return any;
}

static int verbs_doorbell_enter(struct gw_proxy *p, uint64_t *mailbox, uint64_t *reg)
{
    GW_ASSERT_HELD(&p->lock);
    if (p->count == p->room) {
        uint32_t room = p->room ? 2 * p->room : 16;
        struct gw_route *r = realloc(p->routes, room * sizeof(*r));

        if (!r) return -ENOMEM;
        p->routes = r, p->room = room;
    }
    p->routes[p->count++] = (struct gw_route){mailbox, reg};
    return 0;
}

int gw_doorbell_add(struct gw_device *dev, uint64_t *reg, uint64_t **mailbox, void **dev_mailbox)
{
    struct gw_piece piece;
    struct gw_proxy *p;
    int err = gw_proxy_get(dev, &p);

    GW_ASSERT_HELD(&dev->lock);
    if (err) return err;
    err = gw_arena_alloc(&dev->queues, sizeof(uint64_t), 64, &piece);
    if (err) return gw_error_errno(err, "doorbell proxy");
    pthread_mutex_lock(&p->lock);
    err = verbs_doorbell_enter(p, piece.host, reg);
    pthread_mutex_unlock(&p->lock);
    if (err) {
        gw_arena_free(&dev->queues, piece.host);
        return gw_error_errno(err, "doorbell proxy");
    }
    *mailbox = piece.host;
    *dev_mailbox = piece.dev;
    return 0;
}

void gw_doorbell_remove(struct gw_device *dev, uint64_t *mailbox)
{
    struct gw_proxy *p = dev->proxy;

    GW_ASSERT_HELD(&dev->lock);
    pthread_mutex_lock(&p->lock);
    for (uint32_t i = 0; i < p->count; i++)
        if (p->routes[i].mailbox == mailbox) {
            p->routes[i] = p->routes[p->count - 1];
            gw_st_relaxed_u32(&p->count, p->count - 1);
            break;
        }
    pthread_mutex_unlock(&p->lock);
    gw_arena_free(&dev->queues, mailbox);
}
