/* SPDX-License-Identifier: Apache-2.0 */
/* Turns the model into the configuration that the data plane publishes. */
#include "src/balance/control/translate.h"

#include <stdbool.h>
#include <string.h>

_Static_assert(GW_BAL_WORKERS <= BAL_WORKERS && GW_BAL_SERVICES <= BAL_SERVICES &&
                   GW_BAL_PORTS <= BAL_PORTS && GW_BAL_CORES <= BAL_CORES,
               "the data plane has fewer places");

void gw_bal_to_addr(const struct gw_bal_addr *from, struct bal_addr *to)
{
    *to = (struct bal_addr){.family = from->family};
    memcpy(to->byte, from->bytes, sizeof(to->byte));
}

static bool on_link(const struct gw_bal_addr *net, uint8_t bits, const struct gw_bal_addr *a)
{
    if (net->family != a->family) return false;
    for (unsigned i = 0; i < bits; i++)
        if ((net->bytes[i / 8] ^ a->bytes[i / 8]) >> (7 - i % 8) & 1) return false;
    return true;
}

/* The port whose net it is in, else the first that has a gateway for its family, else the first. */
static uint8_t port_to(const struct gw_bal_global *g, const struct gw_bal_addr *a)
{
    for (unsigned i = 0; g && i < g->ports; i++)
        if (on_link(&g->port[i].address4, g->port[i].prefix4, a) ||
            on_link(&g->port[i].address6, g->port[i].prefix6, a))
            return (uint8_t)i;
    for (unsigned i = 0; g && i < g->ports; i++)
        if ((a->family == 6 ? g->port[i].gateway6 : g->port[i].gateway4).family) return (uint8_t)i;
    return 0;
}

static void translate_port(const struct gw_bal_port *from, struct bal_port *to)
{
    *to = (struct bal_port){.used = true, .vlan = from->vlan, .mtu = from->mtu};
    to->prefix[0] = from->prefix4;
    to->prefix[1] = from->prefix6;
    gw_bal_to_addr(&from->address4, &to->addr[0]);
    gw_bal_to_addr(&from->address6, &to->addr[1]);
    gw_bal_to_addr(&from->gateway4, &to->gateway[0]);
    gw_bal_to_addr(&from->gateway6, &to->gateway[1]);
}

void gw_bal_to_service(const struct gw_bal_service *from, struct bal_service *to)
{
    static const uint8_t protos[] = {
        [GW_BAL_TCP] = BAL_TCP, [GW_BAL_UDP] = BAL_UDP, [GW_BAL_ROCE] = BAL_ROCE};
    static const uint8_t forwards[] = {
        [GW_BAL_DR] = BAL_DR, [GW_BAL_TUN] = BAL_IPIP, [GW_BAL_GUE] = BAL_GUE, [GW_BAL_NAT] = BAL_NAT};
    static const uint8_t scheds[] = {
        [GW_BAL_RR] = BAL_RR, [GW_BAL_WRR] = BAL_WRR, [GW_BAL_LC] = BAL_LC,   [GW_BAL_WLC] = BAL_WLC,
        [GW_BAL_SH] = BAL_SH, [GW_BAL_MH] = BAL_MH,   [GW_BAL_P2C] = BAL_P2C, [GW_BAL_LB] = BAL_LEAST_BYTES};
    *to = (struct bal_service){.used = true,
                               .proto = protos[from->protocol],
                               .scheduler = scheds[from->sched],
                               .forward = forwards[from->forward],
                               .track_moved = from->jet,
                               .persist_ns = from->persist_s * UINT64_C(1000000000),
                               .persist_bits = from->persist_bits,
                               .port = from->port};
    gw_bal_to_addr(&from->addr, &to->vip);
}

void gw_bal_to_worker(const struct gw_bal_service *s, const struct gw_bal_worker *from,
                      const struct gw_bal_global *g, struct bal_worker *to)
{
    *to = (struct bal_worker){.used = true,
                              .service = (uint16_t)s->id,
                              .port = from->port,
                              .weight = gw_bal_weight_of(from),
                              .via = port_to(g, &from->addr)};
    if (from->silent || from->drain_over || (!from->health.up && !from->inhibit))
        to->state = BAL_DOWN;
    else
        to->state = !from->health.up || from->drain || from->leave ? BAL_DRAINING : BAL_UP;
    gw_bal_to_addr(&from->addr, &to->addr);
}

/* Either the sorry server or the others get new flows. Workers that do not keep the flows that they have. */
static void choose_sorry(const struct gw_bal_service *s, struct bal_config *out)
{
    if (!gw_bal_sorry_server(s)) return;
    int sorry = !gw_bal_has_quorum(s);
    for (const struct gw_bal_worker *w = s->workers; w; w = w->next) {
        struct bal_worker *to = &out->worker[w->id];
        if (w->sorry != sorry && to->state == BAL_UP) to->state = BAL_DRAINING;
    }
}

void gw_bal_to_ports(const struct gw_bal_global *g, struct bal_port *out)
{
    memset(out, 0, BAL_PORTS * sizeof(*out));
    if (!g || !g->ports) out[0] = (struct bal_port){.used = true, .only_tried = true};
    for (unsigned i = 0; g && i < g->ports; i++) translate_port(&g->port[i], &out[i]);
}

void gw_bal_translate(const struct gw_bal_model *m, const struct gw_bal_global *g, bool all,
                      struct bal_config *out)
{
    out->maglev_seed = g ? g->maglev_seed : 0;
    out->reject = g && g->reject;
    out->mute = g && g->vrrp;
    gw_bal_to_ports(g, out->port);
    for (const struct gw_bal_service *s = m->services; s; s = s->next) {
        if (s->refused[0] && !all) continue;
        gw_bal_to_service(s, &out->service[s->id]);
        for (const struct gw_bal_worker *w = s->workers; w; w = w->next)
            if (!w->refused[0] || all) gw_bal_to_worker(s, w, g, &out->worker[w->id]);
        choose_sorry(s, out);
    }
}

void gw_bal_translate_attr(const struct gw_bal_global *g, struct bal_attr *out)
{
    const uint64_t *t = g->timeout_ns;
    *out = (struct bal_attr){.cores = g->cores ? g->cores : 1,
                             .flows = g->flows,
                             .wide_flows = g->wide_flows,
                             .huge_pages = g->huge_pages,
                             .timeout = {.syn = t[GW_BAL_T_SYN],
                                         .established = t[GW_BAL_T_ESTABLISHED],
                                         .fin_wait = t[GW_BAL_T_FIN],
                                         .close = t[GW_BAL_T_CLOSE],
                                         .udp = t[GW_BAL_T_UDP],
                                         .udp_stream = t[GW_BAL_T_UDP_STREAM],
                                         .queue_pair = t[GW_BAL_T_QP]}};
}
