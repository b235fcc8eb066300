/* SPDX-License-Identifier: Apache-2.0 */
/* Ports: which ids have them, and who listens. Between processes the environment decides. */
#include <errno.h>
#include <stdlib.h>

#include <sys/socket.h>

#include "softnic/cm/core.h"

/* Where Linux takes numbers from when a program does not care. */
enum { EPHEMERAL_FIRST = 32768, EPHEMERAL_COUNT = 28232, TRIES = 128 };

static struct cm_port *find(struct cm *cm, uint16_t ps, uint16_t port)
{
    struct sn_link *it, *tmp;

    sn_list_each(it, tmp, &cm->ports)
    {
        struct cm_port *p = sn_entry(it, struct cm_port, link);

        if (p->ps == ps && p->port == port) return p;
    }
    return NULL;
}

static int take(struct cm_id *id, uint16_t port)
{
    struct cm *cm = id->cm;
    struct cm_port *p = find(cm, id->ps, port);
    int claim;

    if (p && (!p->reuse || !id->reuse)) return -EADDRINUSE;
    if (!p) {
        p = calloc(1, sizeof(*p));
        if (!p) return -ENOMEM;
        claim = cm->env.claim(cm->env.ctx, id->ps, port);
        if (claim < 0) {
            free(p);
            return claim;
        }
        *p = (struct cm_port){.ps = id->ps, .port = port, .reuse = id->reuse, .claim = claim};
        sn_list_init(&p->link);
        sn_list_add(&cm->ports, &p->link);
    }
    p->users++;
    id->port = p;
    id->src.port = port;
    return 0;
}

uint16_t cm_port_number(struct cm *cm, uint16_t ps)
{
    uint16_t port = EPHEMERAL_FIRST;

    for (int i = 0; i < TRIES; i++) {
        port = (uint16_t)(EPHEMERAL_FIRST + cm_random(cm) % EPHEMERAL_COUNT);
        if (!find(cm, ps, port)) break;
    }
    return port;
}

int cm_port_take(struct cm_id *id, uint16_t port)
{
    int err = -EADDRINUSE;

    if (port) return take(id, port);
    for (int i = 0; i < TRIES && err == -EADDRINUSE; i++) err = take(id, cm_port_number(id->cm, id->ps));
    return err;
}

void cm_port_give(struct cm_id *id)
{
    struct cm_port *p = id->port;

    id->port = NULL;
    if (!p || --p->users) return;
    sn_list_del(&p->link);
    id->cm->env.release(id->cm->env.ctx, p->claim);
    free(p);
}

bool cm_port_listening(const struct cm_id *id)
{
    const struct cm *cm = id->cm;

    for (uint32_t i = 0; i < cm->high; i++) {
        const struct cm_id *other = cm->ids[i];

        if (other && other != id && other->port == id->port && other->state == CM_LISTEN) return true;
    }
    return false;
}

static bool takes_family(const struct cm_id *id, const struct roce_cma_hdr *h)
{
    if (id->src.family == (h->ipv6 ? AF_INET6 : AF_INET)) return true;
    return !h->ipv6 && !id->afonly; /* an IPv6 listener takes IPv4 too, unless it said not to */
}

struct cm_id *cm_listener(struct cm *cm, uint64_t service_id, const struct roce_cma_hdr *h)
{
    for (uint32_t i = 0; i < cm->high; i++) {
        struct cm_id *id = cm->ids[i];

        if (!id || id->state != CM_LISTEN || !takes_family(id, h)) continue;
        if (roce_cm_service_id(id->ps, id->src.port) == service_id) return id;
    }
    return NULL;
}
