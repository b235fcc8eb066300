/* SPDX-License-Identifier: Apache-2.0 */
/* Ports: which ids have them, and which listen. Between processes the environment decides. */
#include <errno.h>
#include <stdlib.h>

#include <sys/socket.h>

#include <gpuwire/detail/held.h>

#include "softnic/cm/core.h"

/* Where Linux takes numbers from when a program does not care. */
#define LISTENS_SOON_NS UINT64_C(1000000000)

enum { EPHEMERAL_FIRST = 32768, EPHEMERAL_COUNT = 28232, TRIES = 128 };

/* The owner of the port at this NIC's address or at all; NULL for nic: at any. */
static struct cm_port *cm_port_find(struct cm *cm, const struct cm_nic *nic, uint16_t ps, uint16_t port)
{
    struct sn_link *it, *tmp;

    GW_ASSERT_HELD(&cm->lock);
    sn_list_each(it, tmp, &cm->ports)
    {
        struct cm_port *p = sn_entry(it, struct cm_port, link);

        if (p->ps == ps && p->port == port && (!nic || !p->nic || p->nic == nic)) return p;
    }
    return NULL;
}

static void cm_port_end(struct cm *cm, struct cm_port *p)
{
    for (unsigned i = 0; i < SN_MAX_NICS; i++)
        if (p->claims[i] >= 0) cm->env.release(cm->env.ctx, p->claims[i]);
    free(p);
}

static int cm_port_claim(struct cm *cm, struct cm_port *p)
{
    for (unsigned i = 0; i < cm->nic_count; i++) {
        if (p->nic && p->nic != &cm->nics[i]) continue;
        int c = cm->env.claim(cm->env.ctx, &cm->nics[i], p->ps, p->port);
        if (c < 0) return c;
        p->claims[i] = c;
    }
    return 0;
}

static int take_new(struct cm_id *id, uint16_t port, struct cm_port **out)
{
    struct cm_port *p = malloc(sizeof(*p));

    GW_ASSERT_HELD(&id->cm->lock);
    if (!p) return -ENOMEM;
    *p = (struct cm_port){
        .ps = id->ps, .port = port, .nic = id->nic, .since = id->cm->env.now(id->cm->env.ctx)};
    for (unsigned i = 0; i < SN_MAX_NICS; i++) p->claims[i] = -1;
    int err = cm_port_claim(id->cm, p);
    if (err) {
        cm_port_end(id->cm, p);
        return err;
    }
    sn_list_init(&p->link);
    sn_list_add(&id->cm->ports, &p->link);
    *out = p;
    return 0;
}

/* An IPv6 id takes IPv4, too, unless it said not to. */
static bool takes_v4(const struct cm_id *id)
{
    return id->src.family == AF_INET || !id->afonly;
}

static bool takes_v6(const struct cm_id *id)
{
    return id->src.family == AF_INET6;
}

static bool share_a_family(const struct cm_id *a, const struct cm_id *b)
{
    return (takes_v4(a) && takes_v4(b)) || (takes_v6(a) && takes_v6(b));
}

/* May the id have the port beside those that have it? Ids of one family only if both asked for reuse. */
static bool may_share(const struct cm_port *p, const struct cm_id *id)
{
    const struct cm *cm = id->cm;

    if (p->nic != id->nic) return false;
    for (uint32_t i = 0; i < cm->high; i++) {
        const struct cm_id *other = cm->ids[i];

        if (!other || other->port != p || !share_a_family(id, other)) continue;
        if (!other->reuse || !id->reuse) return false;
    }
    return true;
}

static int cm_port_assign(struct cm_id *id, uint16_t port)
{
    struct cm_port *p = cm_port_find(id->cm, id->nic, id->ps, port);

    if (p && !may_share(p, id)) return -EADDRINUSE;
    if (!p) {
        int err = take_new(id, port, &p);
        if (err) return err;
    }
    p->users++;
    id->port = p;
    id->src.port = port;
    return 0;
}

int cm_port_number(struct cm *cm, uint16_t ps)
{
    int port = EPHEMERAL_FIRST;
    uint32_t r;

    for (int i = 0; i < TRIES; i++) {
        int err = cm->env.random(cm->env.ctx, &r, sizeof(r));

        if (err) return err;
        port = (int)(EPHEMERAL_FIRST + r % EPHEMERAL_COUNT);
        if (!cm_port_find(cm, NULL, ps, (uint16_t)port)) break;
    }
    return port;
}

int cm_port_take(struct cm_id *id, uint16_t port)
{
    int err = -EADDRINUSE;

    if (port) return cm_port_assign(id, port);
    for (int i = 0; i < TRIES && err == -EADDRINUSE; i++) {
        int number = cm_port_number(id->cm, id->ps);

        err = number < 0 ? number : cm_port_assign(id, (uint16_t)number);
    }
    return err;
}

void cm_port_give(struct cm_id *id)
{
    struct cm_port *p = id->port;

    GW_ASSERT_HELD(&id->cm->lock);
    id->port = NULL;
    GW_ASSERT(!p || p->users > 0);
    if (!p || --p->users) return;
    sn_list_del(&p->link);
    cm_port_end(id->cm, p);
}

bool cm_port_claimed(const struct cm_port *p, int claim)
{
    for (unsigned i = 0; i < SN_MAX_NICS; i++)
        if (p->claims[i] == claim) return true;
    return false;
}

bool cm_port_listening(const struct cm_id *id)
{
    const struct cm *cm = id->cm;

    for (uint32_t i = 0; i < cm->high; i++) {
        const struct cm_id *other = cm->ids[i];

        if (!other || other == id || other->port != id->port || other->state != CM_LISTEN) continue;
        if (share_a_family(id, other)) return true;
    }
    return false;
}

static bool takes_family(const struct cm_id *id, const struct roce_cma_hdr *h)
{
    return h->ipv6 ? takes_v6(id) : takes_v4(id);
}

/*
 * Programs tell their peers a port when it is bound, and listen afterwards (qperf). With an adapter a request
 * takes longer than that. Here it may come before: it counts as lost, and is repeated.
 */
bool cm_listens_soon(struct cm *cm, const struct cm_nic *nic, uint64_t service_id)
{
    uint64_t now = cm->env.now(cm->env.ctx);

    for (uint32_t i = 0; i < cm->high; i++) {
        const struct cm_id *id = cm->ids[i];

        if (!id || id->state != CM_BOUND || !id->port || (id->nic && id->nic != nic)) continue;
        if (roce_cm_service_id(id->ps, id->src.port) == service_id && now - id->port->since < LISTENS_SOON_NS)
            return true;
    }
    return false;
}

struct cm_id *cm_listener(struct cm *cm, const struct cm_nic *nic, uint64_t service_id,
                          const struct roce_cma_hdr *h)
{
    GW_ASSERT_HELD(&cm->lock);
    for (uint32_t i = 0; i < cm->high; i++) {
        struct cm_id *id = cm->ids[i];

        if (!id || id->state != CM_LISTEN || !takes_family(id, h)) continue;
        if (id->nic && id->nic != nic) continue;
        if (roce_cm_service_id(id->ps, id->src.port) == service_id) return id;
    }
    return NULL;
}
