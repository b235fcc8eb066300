/* SPDX-License-Identifier: Apache-2.0 */
/* The last part of a packet's way: the next hop, its MAC, and whether the packet fits. */
#include "src/balance/forward.h"

#include <string.h>

#include <gpuwire/detail/assert.h>

#include "src/balance/choose.h"
#include "src/balance/link.h"
#include "src/balance/refuse.h"
#include "src/balance/rewrite.h"

/* A next hop's MAC, or a drop while it is not known. */
static bool forward_find_mac(struct bal_core *core, struct bal_work *w, uint32_t neighbour, uint8_t mac[6])
{
    if (bal_neighbour_mac(core->bal->neighbours, neighbour, mac)) return true;
    bal_ask(core, neighbour);
    bal_drop(core, w, BAL_DROP_NO_NEIGHBOUR);
    return false;
}

static void forward_send(struct bal_core *core, struct bal_work *w, uint8_t port, uint16_t worker)
{
    struct bal_counters *c = core->counters;
    GW_ASSERT(w->where != BAL_NOWHERE && w->p->verdict == BAL_DISCARD); /* a packet goes one way */
    w->p->port = port;
    w->p->verdict = BAL_SEND;
    w->where = BAL_NOWHERE;
    core->burst.packets++;
    core->burst.bytes += w->p->len;
    bal_count(&c->worker[worker].packets, 1);
    bal_count(&c->worker[worker].bytes, w->p->len);
    core->choice.bytes[worker] += w->p->len;
}

/* Does the packet fit through the port with `extra` bytes in front? If not its sender is told. */
static bool forward_fits(struct bal_core *core, struct bal_work *w, const struct bal_port *port,
                         uint32_t extra)
{
    uint32_t mtu = port->mtu ? port->mtu : 1500;
    if (w->m.ip_len + extra <= mtu) return true;
    bal_refuse_size(core, w, mtu - extra);
    return false;
}

static bool forward_encapsulate(struct bal_core *core, struct bal_work *w, const struct bal_worker *worker,
                                uint16_t *l3, uint32_t *len)
{
    const struct bal_service *s = &core->snap->config.service[w->service];
    struct bal_link link;
    uint8_t mac[6];
    if (!bal_link_on(core, worker->via, worker->addr.family, &link, mac) || !bal_hop(w->p->data, &w->m)) {
        bal_refuse(core, w, BAL_DROP_TTL);
        return false;
    }
    uint32_t row = bal_row(core->snap, w->service, w->client, w->m.ipv6, w->client_port);
    struct bal_tunnel t = {s->forward, &link.own, &worker->addr, (uint16_t)(0xc000 | (row & 0x3fff)),
                           s->gue_port};
    *len = bal_encapsulate(w->p, &w->m, &t, l3);
    if (!*len) bal_drop(core, w, BAL_DROP_NO_ROOM);
    return *len;
}

/* Nearly all packets take this way. It does what bal_to_worker does. false: it is no way for this packet, or
 * the packet needs an answer. Then nothing has changed. */
static bool forward_quickly(struct bal_core *core, struct bal_work *w, uint16_t worker)
{
    const struct bal_way *way = &core->snap->way[worker];
    struct bal_packet *p = w->p;
    uint8_t mac[6], own[6];
    bool usual = w->m.kind == BAL_K_TCP || w->m.kind == BAL_K_UDP;
    if (!way->quick || way->service != w->service || w->m.ip_len > way->most || (way->nat && !usual))
        return false;
    if (way->mac_known)
        memcpy(mac, way->mac, 6);
    else if (!bal_neighbour_mac(core->bal->neighbours, way->neighbour, mac))
        return false;
    if (way->nat && !bal_nat_quickly(p->data, &w->m, way)) return false;
    bal_port_mac(core->bal, way->via, own);
    bal_ethernet_untagged(p, w->m.l3, w->m.ip_len, own, mac);
    forward_send(core, w, way->via, worker);
    return true;
}

void bal_to_worker(struct bal_core *core, struct bal_work *w, uint16_t worker)
{
    const struct bal_worker *to = &core->snap->config.worker[worker];
    GW_ASSERT(worker < BAL_WORKERS && to->used && to->service == w->service);
    if (forward_quickly(core, w, worker)) return;
    const struct bal_service *s = &core->snap->config.service[w->service];
    const struct bal_port *port = &core->snap->config.port[to->via];
    uint8_t mac[6], own[6];
    uint16_t l3 = w->m.l3;
    uint32_t len = w->m.ip_len;
    if (to->mac_known)
        memcpy(mac, to->mac, 6);
    else if (!forward_find_mac(core, w, core->snap->neighbour[worker], mac))
        return;
    if (!forward_fits(core, w, port, bal_tunnel_overhead(s->forward, to->addr.family))) return;
    if (s->forward == BAL_IPIP || s->forward == BAL_GUE) {
        if (!forward_encapsulate(core, w, to, &l3, &len)) return;
    } else if (s->forward == BAL_NAT) {
        if (!bal_hop(w->p->data, &w->m)) {
            bal_refuse(core, w, BAL_DROP_TTL);
            return;
        }
        bal_nat(w->p->data, &w->m, true, &to->addr, to->port);
    }
    bal_port_mac(core->bal, to->via, own);
    if (!bal_ethernet(w->p, port, l3, len, own, mac))
        bal_drop(core, w, BAL_DROP_NO_ROOM);
    else
        forward_send(core, w, to->via, worker);
}

/* The port and the MAC for an address: its own where it is on link, else a gateway's. A drop while it is not
 * known. */
static bool forward_find_way(struct bal_core *core, struct bal_work *w, const struct bal_addr *to,
                             uint8_t *port, uint8_t mac[6])
{
    const struct bal_snapshot *s = core->snap;
    struct bal_addr hop;
    for (uint8_t i = 0; i < BAL_PORTS; i++) {
        if (!s->config.port[i].used || !bal_route(&s->config.port[i], to, false, &hop)) continue;
        unsigned known = bal_client_mac(core->bal->neighbours, *port = i, to, core->now_ns, mac);
        if (known & BAL_MAC_ASK) bal_ask_on(core, i, to);
        if (known & BAL_MAC_KNOWN) return true;
        bal_drop(core, w, BAL_DROP_NO_NEIGHBOUR);
        return false;
    }
    for (uint8_t i = 0; i < BAL_PORTS; i++) {
        uint32_t gateway = s->gateway[i][to->family == 6];
        *port = i;
        if (s->config.port[i].used && gateway != BAL_NO_NEIGHBOUR)
            return forward_find_mac(core, w, gateway, mac);
    }
    bal_drop(core, w, BAL_DROP_NO_NEIGHBOUR);
    return false;
}

void bal_to_client(struct bal_core *core, struct bal_work *w, uint16_t worker)
{
    const struct bal_service *s = &core->snap->config.service[w->service];
    struct bal_addr client = bal_addr_of(bal_dst(w->p->data, &w->m), w->m.ipv6);
    uint8_t mac[6], own[6], out = 0;
    if (!forward_find_way(core, w, &client, &out, mac)) return;
    if (!forward_fits(core, w, &core->snap->config.port[out], 0)) return;
    if (!bal_hop(w->p->data, &w->m)) {
        bal_refuse(core, w, BAL_DROP_TTL);
        return;
    }
    bal_nat(w->p->data, &w->m, false, &s->vip, s->port);
    bal_port_mac(core->bal, out, own);
    if (!bal_ethernet(w->p, &core->snap->config.port[out], w->m.l3, w->m.ip_len, own, mac))
        bal_drop(core, w, BAL_DROP_NO_ROOM);
    else
        forward_send(core, w, out, worker);
}
