/* SPDX-License-Identifier: Apache-2.0 */
/* The last part of a packet's way: the next hop, its MAC, and whether the packet fits. */
#include <string.h>

#include "src/balance/forward.h"
#include "src/balance/refuse.h"
#include "src/balance/step.h"

struct bal_frame *bal_new_frame(struct bal_core *core, uint8_t port)
{
    if (core->outbox_used == BAL_OUTBOX) return NULL;
    struct bal_frame *f = &core->outbox[core->outbox_used++];
    f->port = port;
    return f;
}

size_t bal_core_frames(struct bal_core *core, struct bal_frame *out, size_t n)
{
    if (n > core->outbox_used) n = core->outbox_used;
    core->outbox_used -= (uint32_t)n;
    memcpy(out, core->outbox, n * sizeof(*out));
    memmove(core->outbox, core->outbox + n, core->outbox_used * sizeof(*out));
    return n;
}

/* The balancer on a port, in an address of that kind; false: it has none. */
static bool link_of(const struct bal_core *core, uint32_t port, uint8_t family, struct bal_link *link,
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

static void ask_frame(struct bal_core *core, uint8_t port, const struct bal_addr *who)
{
    uint8_t mac[6];
    struct bal_link link;
    struct bal_frame *f = link_of(core, port, who->family, &link, mac) ? bal_new_frame(core, port) : NULL;
    if (f) f->len = bal_ask_frame(f->data, &link, who);
}

void bal_ask(struct bal_core *core, uint32_t neighbour)
{
    uint8_t port;
    struct bal_addr who;
    if (core->outbox_used == BAL_OUTBOX || !bal_neighbour_ask(core->bal->neighbours, neighbour, core->now_ns))
        return;
    bal_neighbour_name(core->bal->neighbours, neighbour, &port, &who);
    ask_frame(core, port, &who);
}

/* A next hop's MAC, or a drop while it is not known. */
static bool find_mac(struct bal_core *core, struct bal_work *w, uint32_t neighbour, uint8_t mac[6])
{
    if (bal_neighbour_mac(core->bal->neighbours, neighbour, mac)) return true;
    bal_ask(core, neighbour);
    bal_drop(core, w, BAL_DROP_NO_NEIGHBOUR);
    return false;
}

static void send(struct bal_core *core, struct bal_work *w, uint8_t port, uint16_t worker)
{
    struct bal_counters *c = core->counters;
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
static bool fits(struct bal_core *core, struct bal_work *w, const struct bal_port *port, uint32_t extra)
{
    uint32_t mtu = port->mtu ? port->mtu : 1500;
    if (w->m.ip_len + extra <= mtu) return true;
    bal_refuse_size(core, w, mtu - extra);
    return false;
}

static bool encapsulate(struct bal_core *core, struct bal_work *w, const struct bal_worker *worker,
                        uint16_t *l3, uint32_t *len)
{
    const struct bal_service *s = &core->snap->config.service[w->service];
    struct bal_link link;
    uint8_t mac[6];
    if (!link_of(core, worker->via, worker->addr.family, &link, mac) || !bal_hop(w->p->data, &w->m)) {
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
static bool send_quickly(struct bal_core *core, struct bal_work *w, uint16_t worker)
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
    send(core, w, way->via, worker);
    return true;
}

void bal_to_worker(struct bal_core *core, struct bal_work *w, uint16_t worker)
{
    if (send_quickly(core, w, worker)) return;
    const struct bal_worker *to = &core->snap->config.worker[worker];
    const struct bal_service *s = &core->snap->config.service[w->service];
    const struct bal_port *port = &core->snap->config.port[to->via];
    uint8_t mac[6], own[6];
    uint16_t l3 = w->m.l3;
    uint32_t len = w->m.ip_len;
    if (to->mac_known)
        memcpy(mac, to->mac, 6);
    else if (!find_mac(core, w, core->snap->neighbour[worker], mac))
        return;
    if (!fits(core, w, port, bal_tunnel_overhead(s->forward, to->addr.family))) return;
    if (s->forward == BAL_IPIP || s->forward == BAL_GUE) {
        if (!encapsulate(core, w, to, &l3, &len)) return;
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
        send(core, w, to->via, worker);
}

/* The port and the MAC for an address: its own where it is on link, else a gateway's. A drop while it is not
 * known. */
static bool find_way(struct bal_core *core, struct bal_work *w, const struct bal_addr *to, uint8_t *port,
                     uint8_t mac[6])
{
    const struct bal_snapshot *s = core->snap;
    struct bal_addr hop;
    for (uint8_t i = 0; i < BAL_PORTS; i++) {
        if (!s->config.port[i].used || !bal_route(&s->config.port[i], to, false, &hop)) continue;
        unsigned known = bal_client_mac(core->bal->neighbours, *port = i, to, core->now_ns, mac);
        if (known & BAL_MAC_ASK) ask_frame(core, i, to);
        if (known & BAL_MAC_KNOWN) return true;
        bal_drop(core, w, BAL_DROP_NO_NEIGHBOUR);
        return false;
    }
    for (uint8_t i = 0; i < BAL_PORTS; i++) {
        uint32_t gateway = s->gateway[i][to->family == 6];
        *port = i;
        if (s->config.port[i].used && gateway != BAL_NO_NEIGHBOUR) return find_mac(core, w, gateway, mac);
    }
    bal_drop(core, w, BAL_DROP_NO_NEIGHBOUR);
    return false;
}

void bal_to_client(struct bal_core *core, struct bal_work *w, uint16_t worker)
{
    const struct bal_service *s = &core->snap->config.service[w->service];
    struct bal_addr client = bal_addr_of(bal_dst(w->p->data, &w->m), w->m.ipv6);
    uint8_t mac[6], own[6], out = 0;
    if (!find_way(core, w, &client, &out, mac)) return;
    if (!fits(core, w, &core->snap->config.port[out], 0)) return;
    if (!bal_hop(w->p->data, &w->m)) {
        bal_refuse(core, w, BAL_DROP_TTL);
        return;
    }
    bal_nat(w->p->data, &w->m, false, &s->vip, s->port);
    bal_port_mac(core->bal, out, own);
    if (!bal_ethernet(w->p, &core->snap->config.port[out], w->m.l3, w->m.ip_len, own, mac))
        bal_drop(core, w, BAL_DROP_NO_ROOM);
    else
        send(core, w, out, worker);
}

/* ---- for the balancer itself ---- */

bool bal_is_ours(const struct bal_core *core, uint32_t port, const struct bal_addr *addr)
{
    const struct bal_port *p = &core->snap->config.port[port];
    return bal_same_addr(addr, &p->addr[0]) || bal_same_addr(addr, &p->addr[1]) ||
           bal_is_vip(core->snap, addr);
}

static void answered(struct bal_core *core, struct bal_work *w, bool sent)
{
    w->p->verdict = sent ? BAL_SEND : BAL_DISCARD;
    w->where = BAL_NOWHERE;
    bal_count(&core->counters->answered, 1);
}

/* Somebody tells where it is, and perhaps asks where an address of ours is. */
static void told(struct bal_core *core, struct bal_work *w, const struct bal_addr *sender, const uint8_t *mac,
                 const struct bal_addr *asked)
{
    struct bal_link link;
    uint8_t own[6];
    if (mac) bal_neighbour_told(core->bal->neighbours, w->p->port, sender, mac, core->now_ns);
    if (!asked || !bal_is_ours(core, w->p->port, asked)) {
        answered(core, w, false);
        return;
    }
    link_of(core, w->p->port, asked->family, &link, own);
    link.own = *asked;
    struct bal_frame *f = bal_new_frame(core, w->p->port);
    static const uint8_t none[16];
    bool probe = sender->family == 6 && !memcmp(sender->byte, none, 16);
    if (f) f->len = bal_answer_frame(f->data, &link, probe ? NULL : w->p->data + 6, probe ? NULL : sender);
    answered(core, w, false);
}

/* The link-layer address option of that type in a neighbour message, or NULL. */
static const uint8_t *nd_option(const struct bal_work *w, uint8_t type)
{
    const uint8_t *icmp = w->p->data + w->m.l4, *end = w->p->data + w->m.l3 + w->m.ip_len;
    for (const uint8_t *o = icmp + 24; end - o >= 8 && o[1]; o += o[1] * 8) {
        if (o[1] * 8 > end - o) break;
        if (o[0] == type) return o + 2;
    }
    return NULL;
}

static void arp(struct bal_core *core, struct bal_work *w)
{
    const uint8_t *p = w->p->data + w->m.l3;
    struct bal_addr sender = bal_addr_of(p + 14, false), target = bal_addr_of(p + 24, false);
    told(core, w, &sender, p + 8, p[7] == 1 ? &target : NULL);
}

static void nd(struct bal_core *core, struct bal_work *w)
{
    const uint8_t *p = w->p->data + w->m.l4;
    struct bal_addr target = bal_addr_of(p + 8, true), sender = bal_addr_of(bal_src(w->p->data, &w->m), true);
    if (w->m.kind == BAL_K_SOLICIT)
        told(core, w, &sender, nd_option(w, 1), &target);
    else
        told(core, w, &target, nd_option(w, 2), NULL);
}

void bal_for_us(struct bal_core *core, struct bal_work *w)
{
    switch (w->m.kind) {
    case BAL_K_ARP: arp(core, w); return;
    case BAL_K_SOLICIT:
    case BAL_K_ADVERTISE: nd(core, w); return;
    case BAL_K_ECHO: {
        struct bal_addr dst = bal_addr_of(bal_dst(w->p->data, &w->m), w->m.ipv6);
        if (!bal_is_ours(core, w->p->port, &dst)) break;
        bal_echo(w->p, &w->m);
        answered(core, w, true);
        return;
    }
    default: break;
    }
    bal_drop(core, w, BAL_DROP_NOT_OURS);
}
