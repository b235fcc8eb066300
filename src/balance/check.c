/* SPDX-License-Identifier: Apache-2.0 */
/* Finds what the data plane cannot run, and what one object forbids another. */
#include "src/balance/check.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/balance/address.h"

__attribute__((format(printf, 2, 3))) static int check_refuse(char why[BAL_WHY], const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(why, BAL_WHY, format, args);
    va_end(args);
    return -EINVAL;
}

/* ---- timeouts ---- */

int bal_check_attr(const struct bal_attr *attr, char why[BAL_WHY])
{
    static const char *const name[] = {"syn", "established", "fin_wait",   "close",
                                       "udp", "udp_stream",  "queue_pair", "fragment"};
    struct bal_attr a = *attr;
    bal_fill_attr(&a);
    const struct bal_timeouts *t = &a.timeout;
    const uint64_t ns[] = {t->syn, t->established, t->fin_wait,   t->close,
                           t->udp, t->udp_stream,  t->queue_pair, t->fragment};
    unsigned longest = 0, shortest = 0;
    for (unsigned i = 1; i < sizeof(ns) / sizeof(ns[0]); i++) {
        if (ns[i] > ns[longest]) longest = i;
        if (ns[i] < ns[shortest]) shortest = i;
    }
    if (!a.cores || a.cores > BAL_CORES) return check_refuse(why, "cores: there may be 1 to %d", BAL_CORES);
    if (ns[longest] <= ns[shortest] * BAL_TIMEOUT_SPAN) return 0;
    return check_refuse(why, "timeouts: %s may be %u times %s at most, %g s; give a smaller one",
                        name[longest], BAL_TIMEOUT_SPAN, name[shortest],
                        (double)ns[shortest] * BAL_TIMEOUT_SPAN / 1e9);
}

/* ---- addresses ---- */

/* That one host can have: not 0.0.0.0, multicast or broadcast. */
static bool check_is_host(const struct bal_addr *a)
{
    static const uint8_t none[16];
    if (a->family == 4) return a->byte[0] && a->byte[0] < 224;
    return a->family == 6 && memcmp(a->byte, none, 16) && a->byte[0] != 0xff;
}

static bool check_is_loopback(const struct bal_addr *a)
{
    static const uint8_t one[16] = {[15] = 1};
    return a->family == 4 ? a->byte[0] == 127 : !memcmp(a->byte, one, 16);
}

/* The last address of the port's net, which means all hosts there. */
static bool is_broadcast(const struct bal_port *p, const struct bal_addr *a)
{
    uint32_t net, addr, mask = p->prefix[0] ? ~0u << (32 - p->prefix[0]) : 0;
    if (a->family != 4 || p->addr[0].family != 4 || p->prefix[0] > 30) return false;
    memcpy(&net, p->addr[0].byte, 4);
    memcpy(&addr, a->byte, 4);
    net = ntohl(net), addr = ntohl(addr);
    return (net & mask) == (addr & mask) && (addr | mask) == ~0u;
}

/* Addresses that packets of a service, or of a worker, cannot have beside these ports. */
static int check_beside(const struct bal_port *ports, const struct bal_addr *a, char why[BAL_WHY])
{
    for (uint32_t i = 0; ports && i < BAL_PORTS; i++) {
        const struct bal_port *p = &ports[i];
        if (!p->used || p->only_tried) continue;
        for (int k = 0; k < 2; k++)
            if (bal_same_addr(&p->addr[k], a))
                return check_refuse(why, "the balancer itself has this address; give another");
        if (check_is_loopback(a))
            return check_refuse(why, "no other host reaches a loopback address; give another");
        if (is_broadcast(p, a))
            return check_refuse(why,
                                "this is the broadcast address of the balancer's network; give a host's");
    }
    return 0;
}

/* ---- one object ---- */

int bal_check_port(const struct bal_port *p, char why[BAL_WHY])
{
    if (p->vlan > 4094) return check_refuse(why, "VLANs are 1 to 4094");
    if (p->mtu && p->mtu < 576) return check_refuse(why, "its MTU is below 576");
    for (int k = 0; k < 2; k++) {
        if (p->addr[k].family && !check_is_host(&p->addr[k]))
            return check_refuse(why, "its IPv%u address is none that a host can have", p->addr[k].family);
        if (p->prefix[k] > (p->addr[k].family == 6 ? 128 : 32))
            return check_refuse(why, "its address has a prefix of %u bits", p->prefix[k]);
        if (p->gateway[k].family && p->gateway[k].family != p->addr[k].family)
            return check_refuse(why, "it has an IPv%u gateway and no IPv%u address; add `address`",
                                p->gateway[k].family, p->gateway[k].family);
        if (p->gateway[k].family &&
            (!check_is_host(&p->gateway[k]) || bal_same_addr(&p->gateway[k], &p->addr[k])))
            return check_refuse(why, "its IPv%u gateway must be another host's address",
                                p->gateway[k].family);
    }
    return 0;
}

int bal_check_service(const struct bal_port *ports, const struct bal_service *s, char why[BAL_WHY])
{
    if (!check_is_host(&s->vip))
        return check_refuse(why, "its address is none that clients can reach; give one of a single host");
    if (s->proto != BAL_TCP && s->proto != BAL_UDP && s->proto != BAL_ROCE)
        return check_refuse(why, "protocol %u is none of TCP, UDP and RoCE", s->proto);
    if (s->scheduler >= BAL_SCHEDULERS) return check_refuse(why, "there is no scheduler %u", s->scheduler);
    if (s->forward >= BAL_FORWARDS) return check_refuse(why, "there is no way %u to forward", s->forward);
    if (s->track_moved && (s->scheduler != BAL_MH || s->proto != BAL_TCP || s->forward == BAL_NAT))
        return check_refuse(why, "jet goes with lb_algo mh and TCP, and not with NAT");
    if (s->persist_ns && (s->track_moved || s->proto == BAL_ROCE))
        return check_refuse(why, "persistence_timeout goes with TCP and UDP, and not with jet; remove one");
    if (s->persist_bits > (s->vip.family == 6 ? 128 : 32))
        return check_refuse(why, "persistence_granularity: %u bits are more than an address has",
                            s->persist_bits);
    for (uint32_t i = 0; ports && i < BAL_PORTS; i++)
        for (int k = 0; k < 2; k++)
            if (ports[i].used && bal_same_addr(&ports[i].gateway[k], &s->vip))
                return check_refuse(why, "its address is the gateway's; give another");
    return check_beside(ports, &s->vip, why);
}

int bal_check_worker(const struct bal_port *ports, const struct bal_service *s, const struct bal_worker *w,
                     char why[BAL_WHY])
{
    static const char *const forward[BAL_FORWARDS] = {"DR", "TUN", "GUE", "NAT"};
    const struct bal_port *p = ports && w->via < BAL_PORTS ? &ports[w->via] : NULL;
    bool tunnel = s->forward == BAL_IPIP || s->forward == BAL_GUE;
    if (!check_is_host(&w->addr)) return check_refuse(why, "its address is none that a host can have");
    if (bal_same_addr(&w->addr, &s->vip))
        return check_refuse(why, "it has the service's address; give the worker's own");
    if (ports && (!p || !p->used)) return check_refuse(why, "there is no network port %u", w->via);
    if (w->state > BAL_DRAINING) return check_refuse(why, "there is no state %u", w->state);
    if (w->weight > UINT16_MAX) return check_refuse(why, "weight %u: it must be at most 65535", w->weight);
    if (!tunnel && w->addr.family != s->vip.family)
        return check_refuse(why, "it is IPv%u and the service IPv%u; both must be the same", w->addr.family,
                            s->vip.family);
    if (tunnel && p && !p->only_tried && p->addr[0].family != w->addr.family &&
        p->addr[1].family != w->addr.family)
        return check_refuse(why,
                            "a tunnel needs an IPv%u address of the balancer; add `address` to an interface",
                            w->addr.family);
    if (s->forward == BAL_NAT && s->proto != BAL_ROCE && !s->port && w->port)
        return check_refuse(why, "port %u: the service has all ports, so its workers have the same", w->port);
    if (w->port && w->port != s->port && s->proto == BAL_ROCE)
        return check_refuse(why, "port %u: RoCE has one port, 4791", w->port);
    if (w->port && w->port != s->port && s->forward != BAL_NAT)
        return check_refuse(why, "port %u: %s changes no ports; give the service's, %u, or use NAT", w->port,
                            forward[s->forward], s->port);
    return check_beside(ports, &w->addr, why);
}

/* ---- what one forbids another ---- */

/* Addresses of services, in an open hash; `rows` has numbers of services plus 1. */
struct vips {
    const struct bal_config *c;
    uint32_t rows[2 * BAL_SERVICES];
};

static uint32_t vip_hash(const struct bal_addr *a)
{
    uint64_t h = a->family, part[2] = {0};
    memcpy(part, a->byte, a->family == 4 ? 4 : 16);
    h = (h ^ part[0]) * 0x9e3779b97f4a7c15u;
    h = (h ^ h >> 32 ^ part[1]) * 0xd6e8feb86659fd93u;
    return (uint32_t)(h >> 32) % (2 * BAL_SERVICES);
}

/* The service with this address; `like` not NULL: and with its protocol and port. NULL: none. */
static const struct bal_service *vip_find(const struct vips *v, const struct bal_addr *a,
                                          const struct bal_service *like, uint32_t *row)
{
    for (*row = vip_hash(a); v->rows[*row]; *row = (*row + 1) % (2 * BAL_SERVICES)) {
        const struct bal_service *s = &v->c->service[v->rows[*row] - 1];
        if (!bal_same_addr(&s->vip, a)) continue;
        if (!like || (s->proto == like->proto && (s->port == like->port || s->proto == BAL_ROCE))) return s;
    }
    return NULL;
}

static void check_services(struct bal_config *c, struct vips *v, bal_refused *tell, void *ctx)
{
    char why[BAL_WHY];
    uint32_t row;
    for (uint32_t i = 0; i < BAL_SERVICES; i++) {
        struct bal_service *s = &c->service[i];
        if (!s->used) continue;
        int err = bal_check_service(c->port, s, why);
        if (!err && vip_find(v, &s->vip, s, &row))
            err = check_refuse(why, "two services have this address and port; give one another port");
        if (!err) {
            v->rows[row] = i + 1;
            continue;
        }
        s->used = false;
        tell(ctx, BAL_A_SERVICE, i, why);
    }
}

static void check_workers(struct bal_config *c, const struct vips *v, bal_refused *tell, void *ctx)
{
    char why[BAL_WHY];
    uint32_t row;
    for (uint32_t i = 0; i < BAL_WORKERS; i++) {
        struct bal_worker *w = &c->worker[i];
        if (!w->used) continue;
        int err = w->service >= BAL_SERVICES || !c->service[w->service].used
                      ? check_refuse(why, "its service is refused, or there is none")
                      : bal_check_worker(c->port, &c->service[w->service], w, why);
        if (!err && vip_find(v, &w->addr, NULL, &row))
            err = check_refuse(why, "its address is that of another service here; give the worker's own");
        if (!err) continue;
        w->used = false;
        tell(ctx, BAL_A_WORKER, i, why);
    }
}

int bal_check_config(struct bal_config *c, bal_refused *tell, void *ctx)
{
    char why[BAL_WHY];
    struct vips *v = calloc(1, sizeof(*v));
    if (!v) return -ENOMEM;
    v->c = c;
    for (uint32_t i = 0; i < BAL_PORTS; i++)
        if (c->port[i].used && bal_check_port(&c->port[i], why)) {
            c->port[i].used = false;
            tell(ctx, BAL_A_PORT, i, why);
        }
    check_services(c, v, tell, ctx);
    check_workers(c, v, tell, ctx);
    free(v);
    return 0;
}
