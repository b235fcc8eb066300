/* SPDX-License-Identifier: Apache-2.0 */
/* A configuration becomes what the cores look things up in. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/balance/balance.h"

struct maker {
    struct bal_snapshot *s;
    char *error;
    size_t size;
};

__attribute__((format(printf, 2, 3))) static int refuse(const struct maker *m, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(m->error, m->size, format, args);
    va_end(args);
    return -EINVAL;
}

const char *bal_addr_text(const struct bal_addr *addr, char text[BAL_ADDR_TEXT])
{
    if (!addr->family || !inet_ntop(addr->family == 4 ? AF_INET : AF_INET6, addr->byte, text, BAL_ADDR_TEXT))
        snprintf(text, BAL_ADDR_TEXT, "none");
    return text;
}

/* ---- hashes of addresses ---- */

static uint32_t hash(uint8_t proto, const uint8_t *addr, bool ipv6, uint16_t port, uint32_t rows)
{
    uint64_t a[2] = {0}, h = (uint64_t)proto << 16 | port;
    uint32_t short_one;
    if (ipv6) {
        memcpy(a, addr, 16);
    } else {
        memcpy(&short_one, addr, 4);
        a[0] = short_one;
    }
    h = (h ^ a[0]) * 0x9e3779b97f4a7c15u;
    h = (h ^ h >> 32 ^ a[1]) * 0xd6e8feb86659fd93u;
    return (uint32_t)((h >> 32) * rows >> 32);
}

static bool is_at(const struct bal_entry *e, uint8_t proto, const uint8_t *addr, bool ipv6, uint16_t port)
{
    if (e->port != port || e->proto != proto || e->addr.family != (ipv6 ? 6 : 4)) return false;
    return ipv6 ? !memcmp(e->addr.byte, addr, 16) : !memcmp(e->addr.byte, addr, 4);
}

static struct bal_entry *find(const struct bal_entry *table, uint32_t rows, uint8_t proto,
                              const uint8_t *addr, bool ipv6, uint16_t port)
{
    uint32_t i = hash(proto, addr, ipv6, port, rows);
    while (table[i].used && !is_at(&table[i], proto, addr, ipv6, port)) i = i + 1 < rows ? i + 1 : 0;
    return (struct bal_entry *)&table[i];
}

int bal_find_vip(const struct bal_snapshot *s, uint8_t proto, const uint8_t *addr, bool ipv6, uint16_t port)
{
    const struct bal_entry *e = find(s->vip, BAL_VIP_ROWS, proto, addr, ipv6, port);
    if (!e->used && s->has_any_port) e = find(s->vip, BAL_VIP_ROWS, proto, addr, ipv6, 0);
    return e->used ? e->value : -1;
}

uint16_t bal_find_back(const struct bal_snapshot *s, uint8_t proto, const uint8_t *addr, bool ipv6,
                       uint16_t port)
{
    const struct bal_entry *e = find(s->back, BAL_BACK_ROWS, proto, addr, ipv6, port);
    if (!e->used) e = find(s->back, BAL_BACK_ROWS, proto, addr, ipv6, 0); /* of a service on any port */
    return e->used ? e->value : BAL_NO_WORKER;
}

bool bal_is_vip(const struct bal_snapshot *s, const struct bal_addr *addr)
{
    return find(s->vip, BAL_VIP_ROWS, 0, addr->byte, addr->family == 6, 0)->used;
}

static void add(struct bal_entry *table, uint32_t rows, const struct bal_entry *entry)
{
    struct bal_entry *e =
        find(table, rows, entry->proto, entry->addr.byte, entry->addr.family == 6, entry->port);
    *e = *entry;
    e->used = true;
}

/* ---- checks ---- */

static const char *service_text(const struct bal_service *s, char *text, size_t size)
{
    char addr[BAL_ADDR_TEXT];
    const char *proto = s->proto == BAL_TCP ? "tcp" : s->proto == BAL_UDP ? "udp" : "roce";
    snprintf(text, size, "%s %s port %u", proto, bal_addr_text(&s->vip, addr), s->port);
    return text;
}

static bool is_address(const struct bal_addr *a)
{
    static const uint8_t none[16];
    if (a->family != 4 && a->family != 6) return false;
    if (a->family == 4) return memcmp(a->byte, none, 4) && a->byte[0] < 224;
    return memcmp(a->byte, none, 16) && a->byte[0] != 0xff;
}

static int check_service(const struct maker *m, uint32_t i)
{
    const struct bal_service *s = &m->s->config.service[i];
    char text[96];
    if (!is_address(&s->vip)) return refuse(m, "service %u: its address is none that clients can reach", i);
    if (s->proto != BAL_TCP && s->proto != BAL_UDP && s->proto != BAL_ROCE)
        return refuse(m, "service %u: protocol %u is none of TCP, UDP and RoCE", i, s->proto);
    service_text(s, text, sizeof(text));
    if (s->scheduler >= BAL_SCHEDULERS) return refuse(m, "%s: there is no scheduler %u", text, s->scheduler);
    if (s->forward >= BAL_FORWARDS) return refuse(m, "%s: there is no way %u to forward", text, s->forward);
    if (s->track_moved && s->scheduler != BAL_MH)
        return refuse(m, "%s: tracking only flows that would move needs the scheduler mh", text);
    if (s->track_moved && (s->proto != BAL_TCP || s->forward == BAL_NAT))
        return refuse(m, "%s: only TCP without NAT can do without tracking every flow", text);
    const struct bal_entry *e = find(m->s->vip, BAL_VIP_ROWS, s->proto, s->vip.byte, s->vip.family == 6,
                                     s->proto == BAL_ROCE ? 0 : s->port);
    return e->used ? refuse(m, "%s: two services have it; give one another port", text) : 0;
}

static int check_worker(const struct maker *m, uint32_t i)
{
    const struct bal_worker *w = &m->s->config.worker[i];
    char text[BAL_ADDR_TEXT], service[96];
    if (w->service >= BAL_SERVICES || !m->s->config.service[w->service].used)
        return refuse(m, "worker %u is of service %u, which there is none of", i, w->service);
    const struct bal_service *s = &m->s->config.service[w->service];
    service_text(s, service, sizeof(service));
    if (!is_address(&w->addr)) return refuse(m, "worker %u of %s has no address", i, service);
    bal_addr_text(&w->addr, text);
    if (w->via >= BAL_PORTS || !m->s->config.port[w->via].used)
        return refuse(m, "worker %s of %s: there is no network port %u", text, service, w->via);
    if (w->state > BAL_DRAINING || w->weight > UINT16_MAX)
        return refuse(m, "worker %s of %s: its weight is above 65535, or its state is none", text, service);
    bool tunnel = s->forward == BAL_IPIP || s->forward == BAL_GUE;
    if (!tunnel && w->addr.family != s->vip.family)
        return refuse(m, "worker %s of %s: only tunnels go from IPv4 to IPv6", text, service);
    const struct bal_port *p = &m->s->config.port[w->via];
    if (tunnel && p->addr[0].family != w->addr.family && p->addr[1].family != w->addr.family)
        return refuse(m, "worker %s of %s: network port %u needs an address of its kind for the tunnel", text,
                      service, w->via);
    if (w->port && w->port != s->port && s->forward != BAL_NAT)
        return refuse(m, "worker %s of %s: only NAT can change the port", text, service);
    if (s->forward == BAL_NAT && s->proto != BAL_ROCE && !s->port && w->port)
        return refuse(m, "worker %s of %s: a service of any port needs workers of any port", text, service);
    return 0;
}

static int check_port(const struct maker *m, uint32_t i)
{
    const struct bal_port *p = &m->s->config.port[i];
    if (p->vlan > 4094) return refuse(m, "network port %u: VLANs are 1 to 4094", i);
    if (p->mtu && p->mtu < 576) return refuse(m, "network port %u: its MTU is below 576", i);
    for (int k = 0; k < 2; k++) {
        if (p->addr[k].family && !is_address(&p->addr[k]))
            return refuse(m, "network port %u: address %d is none of a host", i, k);
        if (p->prefix[k] > (p->addr[k].family == 6 ? 128 : 32))
            return refuse(m, "network port %u: address %d has a prefix of %u bits", i, k, p->prefix[k]);
        if (p->gateway[k].family && p->gateway[k].family != p->addr[k].family)
            return refuse(m, "network port %u: the gateway of address %d is of another kind", i, k);
    }
    return 0;
}

/* ---- services and workers ---- */

static int take_services(const struct maker *m)
{
    struct bal_snapshot *s = m->s;
    for (uint32_t i = 0; i < BAL_PORTS; i++) {
        int error = s->config.port[i].used ? check_port(m, i) : 0;
        if (error) return error;
    }
    for (uint32_t i = 0; i < BAL_SERVICES; i++) {
        struct bal_service *v = &s->config.service[i];
        if (!v->used) continue;
        int error = check_service(m, i);
        if (error) return error;
        if (v->proto == BAL_ROCE) v->port = 0;
        if (!v->gue_port) v->gue_port = 6080;
        add(s->vip, BAL_VIP_ROWS,
            &(struct bal_entry){.addr = v->vip, .port = v->port, .proto = v->proto, .value = (uint16_t)i});
        add(s->vip, BAL_VIP_ROWS, &(struct bal_entry){.addr = v->vip}); /* for bal_is_vip */
        s->has_any_port |= !v->port && v->proto != BAL_ROCE;
        s->has_nat |= v->forward == BAL_NAT;
        s->has_roce |= v->proto == BAL_ROCE;
    }
    return 0;
}

static bool on_link(const struct bal_port *p, int k, const struct bal_addr *a)
{
    unsigned bytes = p->prefix[k] / 8u, bits = p->prefix[k] % 8u;
    if (p->addr[k].family != a->family || memcmp(p->addr[k].byte, a->byte, bytes)) return false;
    return !bits || !((p->addr[k].byte[bytes] ^ a->byte[bytes]) >> (8 - bits));
}

bool bal_route(const struct bal_port *p, const struct bal_addr *to, bool gateway, struct bal_addr *hop)
{
    for (int k = 0; k < 2; k++)
        if (on_link(p, k, to)) {
            *hop = *to;
            return true;
        }
    for (int k = 0; k < 2 && gateway; k++)
        if (p->gateway[k].family == to->family) {
            *hop = p->gateway[k];
            return true;
        }
    return false;
}

static void take_back(const struct maker *m, uint32_t i)
{
    struct bal_snapshot *s = m->s;
    const struct bal_worker *w = &s->config.worker[i];
    const struct bal_service *v = &s->config.service[w->service];
    uint16_t port = v->proto == BAL_ROCE ? 0 : w->port;
    struct bal_entry *e = find(s->back, BAL_BACK_ROWS, v->proto, w->addr.byte, w->addr.family == 6, port);
    s->next_back[i] = e->used ? e->value : BAL_NO_WORKER;
    add(s->back, BAL_BACK_ROWS,
        &(struct bal_entry){.addr = w->addr, .port = port, .proto = v->proto, .value = (uint16_t)i});
}

static int take_workers(const struct maker *m, struct bal *bal)
{
    struct bal_snapshot *s = m->s;
    for (uint32_t i = 0; i < BAL_WORKERS; i++) {
        struct bal_worker *w = &s->config.worker[i];
        s->neighbour[i] = BAL_NO_NEIGHBOUR;
        s->next_back[i] = BAL_NO_WORKER;
        if (!w->used) continue;
        int error = check_worker(m, i);
        if (error) return error;
        if (!w->port) w->port = s->config.service[w->service].port;
        struct bal_addr hop = w->next_hop;
        if (!hop.family && !bal_route(&s->config.port[w->via], &w->addr, true, &hop)) hop = w->addr;
        if (!w->mac_known) s->neighbour[i] = bal_neighbour(bal->neighbours, w->via, &hop);
        if (s->config.service[w->service].forward == BAL_NAT) take_back(m, i);
        s->members[w->service].count++;
    }
    uint16_t at = 0;
    for (uint32_t i = 0; i < BAL_SERVICES; i++) {
        s->members[i].first = at;
        at = (uint16_t)(at + s->members[i].count);
        s->members[i].count = 0;
    }
    for (uint32_t i = 0; i < BAL_WORKERS; i++) {
        if (!s->config.worker[i].used) continue;
        uint32_t v = s->config.worker[i].service;
        s->member[s->members[v].first + s->members[v].count++] = (uint16_t)i;
    }
    return 0;
}

/* ---- tables ---- */

static uint64_t name_of(const struct bal_worker *w)
{
    uint64_t a[2] = {0}, h = w->port;
    memcpy(a, w->addr.byte, w->addr.family == 4 ? 4 : 16);
    h = (h ^ a[0]) * 0x9e3779b97f4a7c15u;
    return (h ^ h >> 32 ^ a[1]) * 0xd6e8feb86659fd93u;
}

/* A table of the same candidates as before is the same table. */
static bool same_members(const struct bal_snapshot *a, const struct bal_snapshot *b, uint32_t v)
{
    const struct bal_service *x = &a->config.service[v], *y = &b->config.service[v];
    if (!y->used || a->members[v].count != b->members[v].count || x->track_moved != y->track_moved ||
        a->config.maglev_seed != b->config.maglev_seed)
        return false;
    for (uint32_t i = 0; i < a->members[v].count; i++) {
        uint16_t w = a->member[a->members[v].first + i];
        if (w != b->member[b->members[v].first + i]) return false;
        const struct bal_worker *p = &a->config.worker[w], *q = &b->config.worker[w];
        if (p->state != q->state || p->weight != q->weight || p->port != q->port ||
            !bal_same_addr(&p->addr, &q->addr))
            return false;
    }
    return true;
}

static int by_name(const void *a, const void *b)
{
    const struct bal_candidate *x = a, *y = b;
    return (x->name > y->name) - (x->name < y->name);
}

/* The candidates of a service, in an order that does not depend on their numbers. */
static uint32_t candidates(const struct bal_snapshot *s, uint32_t v, bool all, struct bal_candidate *c)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->members[v].count; i++) {
        uint16_t w = s->member[s->members[v].first + i];
        if (!all && !bal_is_up(s, w)) continue;
        c[n++] = (struct bal_candidate){w, s->config.worker[w].weight, name_of(&s->config.worker[w])};
    }
    qsort(c, n, sizeof(*c), by_name);
    return n;
}

static int make_tables(struct bal_snapshot *s, uint32_t v, struct bal_candidate *c)
{
    bool jet = s->config.service[v].track_moved;
    uint64_t seed = s->config.maglev_seed;
    s->table[v] = calloc(1, sizeof(*s->table[v]));
    if (jet) s->stable[v] = calloc(1, sizeof(*s->stable[v]));
    if (!s->table[v] || (jet && !s->stable[v])) return -ENOMEM;
    s->table[v]->users = 1;
    uint32_t n = candidates(s, v, false, c);
    if (!jet) return bal_maglev(c, n, seed, s->table[v]->worker);
    s->stable[v]->users = 1;
    bal_rendezvous(c, n, seed, s->table[v]->worker);
    n = candidates(s, v, true, c);
    bal_rendezvous(c, n, seed, s->stable[v]->worker);
    return 0;
}

static int take_tables(struct bal_snapshot *s, const struct bal_snapshot *last)
{
    struct bal_candidate *c = calloc(BAL_WORKERS, sizeof(*c));
    int error = c ? 0 : -ENOMEM;
    for (uint32_t v = 0; v < BAL_SERVICES && !error; v++) {
        if (!s->config.service[v].used) continue;
        if (!last || !same_members(s, last, v)) {
            error = make_tables(s, v, c);
            continue;
        }
        s->table[v] = last->table[v];
        s->stable[v] = last->stable[v];
        s->table[v]->users++;
        if (s->stable[v]) s->stable[v]->users++;
    }
    free(c);
    return error;
}

static void drop_table(struct bal_table *t)
{
    if (t && (!t->users || !--t->users)) free(t);
}

void bal_snapshot_free(struct bal_snapshot *s)
{
    if (!s) return;
    for (uint32_t v = 0; v < BAL_SERVICES; v++) {
        drop_table(s->table[v]);
        drop_table(s->stable[v]);
    }
    free(s);
}

int bal_snapshot_make(struct bal *bal, const struct bal_config *config, const struct bal_snapshot *last,
                      struct bal_snapshot **out, char *error, size_t size)
{
    struct bal_snapshot *s = calloc(1, sizeof(*s));
    struct maker m = {s, error, size};
    *out = NULL;
    if (!s) return -ENOMEM;
    s->config = *config;
    int rc = take_services(&m);
    if (!rc) rc = take_workers(&m, bal);
    if (!rc) rc = take_tables(s, last);
    if (!rc) bal_make_ways(s);
    if (rc) {
        if (rc == -ENOMEM) snprintf(error, size, "no memory for the services' tables");
        bal_snapshot_free(s);
        return rc;
    }
    *out = s;
    return 0;
}
