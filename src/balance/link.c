/* SPDX-License-Identifier: Apache-2.0 */
/* The balancer on its links: which MAC and address it has there, and how it asks for another's MAC. */
#include "src/balance/link.h"

#include <string.h>

#include "src/balance/step.h"

void bal_set_port_mac(struct bal *bal, uint32_t port, const uint8_t mac[6], bool any)
{
    uint64_t v = 0;
    memcpy(&v, mac, 6);
    if (port >= BAL_PORTS) return;
    atomic_store_explicit(&bal->any_mac[port], any, memory_order_relaxed);
    atomic_store_explicit(&bal->port_mac[port], v, memory_order_relaxed);
}

bool bal_link_on(const struct bal_core *core, uint32_t port, uint8_t family, struct bal_link *link,
                 uint8_t mac[6])
{
    const struct bal_port *p = &core->snap->config.port[port];
    bal_port_mac(core->bal, port, mac);
    link->vlan = p->vlan;
    link->mac = mac;
    for (int i = 0; i < 2; i++)
        if (p->addr[i].family == family) {
            link->own = p->addr[i];
            return true;
        }
    return false;
}

bool bal_is_ours(const struct bal_core *core, uint32_t port, const struct bal_addr *addr)
{
    const struct bal_port *p = &core->snap->config.port[port];
    return bal_same_addr(addr, &p->addr[0]) || bal_same_addr(addr, &p->addr[1]) ||
           bal_is_vip(core->snap, addr);
}

void bal_ask_on(struct bal_core *core, uint8_t port, const struct bal_addr *who)
{
    uint8_t mac[6];
    struct bal_link link;
    struct bal_frame *f = bal_link_on(core, port, who->family, &link, mac) ? bal_new_frame(core, port) : NULL;
    if (f) f->len = bal_ask_frame(f->data, &link, who);
}

void bal_ask(struct bal_core *core, uint32_t neighbour)
{
    uint8_t port;
    struct bal_addr who;
    if (core->outbox_used == BAL_OUTBOX || !bal_neighbour_ask(core->bal->neighbours, neighbour, core->now_ns))
        return;
    bal_neighbour_name(core->bal->neighbours, neighbour, &port, &who);
    bal_ask_on(core, port, &who);
}
