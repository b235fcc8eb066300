/* SPDX-License-Identifier: Apache-2.0 */
/* Which service a packet belongs to, from which side it comes, and which key its flow has. */
#include "src/balance/classify.h"

#include <string.h>

#include "src/balance/rdma_key.h"

void bal_flow_key(const struct bal_core *core, struct bal_work *w, uint16_t vip_port)
{
    const struct bal_service *s = &core->snap->config.service[w->service];
    if (!w->m.ipv6 && s->port) {
        w->where = BAL_NARROW;
        w->narrow = bal_narrow_key(w->client, w->client_port, w->service);
        return;
    }
    w->where = BAL_WIDE;
    w->wide = bal_wide_key(BAL_W_FLOW, w->client, w->m.ipv6, w->service,
                           (uint32_t)w->client_port << 16 | (s->port ? 0 : vip_port));
}

struct bal_wide bal_fragment_key(const struct bal_work *w)
{
    const uint8_t *frame = w->p->data;
    struct bal_wide k = bal_wide_key(BAL_W_FRAGMENT, bal_src(frame, &w->m), w->m.ipv6, w->m.ipv6, w->m.id);
    memcpy(k.y, bal_dst(frame, &w->m), w->m.ipv6 ? 16 : 4);
    k.more = w->m.proto;
    return k;
}

/* Its service and its client are known. With NAT both directions must come to one core. */
static void classify_flow(struct bal_core *core, struct bal_work *w, uint16_t vip_port)
{
    if (bal_is_owned(core, w->service) && core->bal->attr.cores > 1) {
        uint32_t owner = bal_persists(core, w->service)
                             ? bal_client_core(core, w->service, w->client, w->m.ipv6)
                             : bal_owner(core, w->client, w->m.ipv6, w->client_port);
        if (owner != core->index) {
            bal_pass(w, owner);
            return;
        }
    }
    bal_flow_key(core, w, vip_port);
}

/* A packet to a VIP comes from a client. false: it is to no service. */
static bool classify_to_vip(struct bal_core *core, struct bal_work *w)
{
    const uint8_t *frame = w->p->data;
    const struct bal_meta *m = &w->m;
    const uint8_t *vip = bal_dst(frame, m);
    bool is_error = m->kind == BAL_K_ERROR;
    uint8_t proto = is_error ? m->in_proto : m->proto;
    uint16_t port = is_error ? m->in_sport : m->dport;
    int service = m->ipv6 ? -1 : bal_find_direct(core->snap, bal_direct_key(proto, vip, port));
    if (service < 0) service = bal_find_vip(core->snap, proto, vip, m->ipv6, port);
    if (service < 0) return false;
    if (is_error && memcmp(frame + m->in_l3 + (m->ipv6 ? 8 : 12), vip, m->ipv6 ? 16 : 4)) return false;
    w->service = (uint16_t)service;
    w->side = core->snap->config.service[service].forward == BAL_NAT ? BAL_FROM_CLIENT : BAL_CLIENT_ONLY;
    w->client = is_error ? frame + m->in_l3 + (m->ipv6 ? 24 : 16) : bal_src(frame, m);
    w->client_port = is_error ? m->in_dport : m->sport;
    classify_flow(core, w, port);
    return true;
}

/* With NAT, a packet from a worker's address is an answer. false: it is from no worker. */
static bool classify_from_worker(struct bal_core *core, struct bal_work *w)
{
    const uint8_t *frame = w->p->data;
    const struct bal_meta *m = &w->m;
    if (!core->snap->has_nat) return false;
    bool is_error = m->kind == BAL_K_ERROR;
    /* Inside an error stands what the client sent: from it, to the worker. */
    const uint8_t *worker = is_error ? frame + m->in_l3 + (m->ipv6 ? 24 : 16) : bal_src(frame, m);
    uint16_t port = is_error ? m->in_dport : m->sport;
    w->back = bal_find_back(core->snap, is_error ? m->in_proto : m->proto, worker, m->ipv6, port);
    if (w->back == BAL_NO_WORKER) return false;
    w->service = core->snap->config.worker[w->back].service;
    w->side = BAL_FROM_WORKER;
    w->client = is_error ? frame + m->in_l3 + (m->ipv6 ? 8 : 12) : bal_dst(frame, m);
    w->client_port = is_error ? m->in_sport : m->dport;
    classify_flow(core, w, port);
    return true;
}

/* Is it this balancer's own, on the port that the packet came by? A worker answers a health check there. */
static bool classify_is_own(const struct bal_core *core, const struct bal_work *w, const uint8_t *addr)
{
    const struct bal_addr *own = &core->snap->config.port[w->p->port].addr[w->m.ipv6];
    return own->family && !memcmp(own->byte, addr, w->m.ipv6 ? 16 : 4);
}

/* Either of these, for RoCE. false: it is for no service. */
static bool classify_roce(struct bal_core *core, struct bal_work *w)
{
    const uint8_t *frame = w->p->data;
    const struct bal_meta *m = &w->m;
    const struct bal_snapshot *s = core->snap;
    int service = s->has_roce ? bal_find_vip(s, BAL_ROCE, bal_dst(frame, m), m->ipv6, 0) : -1;
    bool answer = s->has_nat && service < 0;
    w->back = answer ? bal_find_back(s, BAL_ROCE, bal_src(frame, m), m->ipv6, 0) : BAL_NO_WORKER;
    if (service < 0 && (w->back == BAL_NO_WORKER || classify_is_own(core, w, bal_dst(frame, m))))
        return false;
    w->roce = true;
    w->client = service >= 0 ? bal_src(frame, m) : bal_dst(frame, m);
    w->service = service >= 0 ? (uint16_t)service : core->snap->config.worker[w->back].service;
    w->side = service < 0                                                 ? BAL_FROM_WORKER
              : core->snap->config.service[w->service].forward == BAL_NAT ? BAL_FROM_CLIENT
                                                                          : BAL_CLIENT_ONLY;
    /* CM's packets and the queue pair's have different UDP ports, so that NICs spread them over the cores. */
    uint32_t owner = bal_owner(core, w->client, m->ipv6, 0);
    if (owner != core->index)
        bal_pass(w, owner);
    else
        bal_roce_key(w);
    return true;
}

/* Frames to other hosts come where a switch does not know yet where they are. */
static bool classify_is_here(const struct bal_core *core, const struct bal_work *w)
{
    const struct bal *bal = core->bal;
    static const uint8_t six[8] = {255, 255, 255, 255, 255, 255};
    uint64_t own = atomic_load_explicit(&bal->port_mac[w->p->port], memory_order_relaxed), to, mask;
    memcpy(&to, w->p->data, 8); /* one load: a frame has more bytes than that */
    memcpy(&mask, six, 8);
    if ((to & mask) == own || atomic_load_explicit(&bal->any_mac[w->p->port], memory_order_relaxed))
        return true;
    bool asks = w->m.kind == BAL_K_ARP || w->m.kind == BAL_K_SOLICIT || w->m.kind == BAL_K_ADVERTISE;
    return asks && w->p->data[0] & 1; /* who has an address is asked of all */
}

enum bal_whose bal_classify(struct bal_core *core, struct bal_work *w)
{
    struct bal_packet *p = w->p;
    w->roce = false;
    w->where = BAL_NOWHERE;
    if (bal_parse(p->data, p->len, &w->m) || p->port >= BAL_PORTS) {
        bal_drop(core, w, BAL_DROP_BAD);
        return BAL_SETTLED;
    }
    bool here = classify_is_here(core, w);
    if (!here || w->m.vlan != core->snap->config.port[p->port].vlan) {
        bal_drop(core, w, here ? BAL_DROP_NOT_OURS : BAL_DROP_OTHER_HOST);
        return BAL_SETTLED;
    }
    switch (w->m.kind) {
    case BAL_K_ROCE:
        if (classify_roce(core, w)) break;
        w->m.kind = BAL_K_UDP;
        __attribute__((fallthrough));
    case BAL_K_TCP:
    case BAL_K_UDP:
    case BAL_K_ERROR:
        if (!classify_to_vip(core, w) && !classify_from_worker(core, w)) return BAL_OF_NO_SERVICE;
        break;
    case BAL_K_LATER:
        w->where = BAL_WIDE;
        w->wide = bal_fragment_key(w);
        break;
    default: return BAL_OF_BALANCER;
    }
    return w->where == BAL_NOWHERE ? BAL_SETTLED : BAL_OF_FLOW;
}
