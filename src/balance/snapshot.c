/* SPDX-License-Identifier: Apache-2.0 */
/* A configuration becomes what the cores look things up in. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/balance/balance.h"
#include "src/balance/check.h"

struct maker {
    struct bal_snapshot *s;
    char *error;
    size_t size;
};

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

/* A publication is refused by the first thing that cannot run: its publisher has asked before. */
static void refuse(void *ctx, enum bal_object kind, uint32_t number, const char *why)
{
    static const char *const what[] = {"network port", "service", "worker"};
    const struct maker *m = ctx;
    char text[BAL_ADDR_TEXT] = "";
    const struct bal_config *c = &m->s->config;
    if (kind == BAL_A_SERVICE) bal_addr_text(&c->service[number].vip, text);
    if (kind == BAL_A_WORKER) bal_addr_text(&c->worker[number].addr, text);
    if (!*m->error) snprintf(m->error, m->size, "%s %u %s: %s", what[kind], number, text, why);
}

/* ---- services and workers ---- */

static void take_services(struct bal_snapshot *s)
{
    for (uint32_t i = 0; i < BAL_SERVICES; i++) {
        struct bal_service *v = &s->config.service[i];
        if (!v->used) continue;
        if (v->proto == BAL_ROCE) v->port = 0;
        if (!v->gue_port) v->gue_port = 6080;
        add(s->vip, BAL_VIP_ROWS,
            &(struct bal_entry){.addr = v->vip, .port = v->port, .proto = v->proto, .value = (uint16_t)i});
        if (!s->config.mute)
            add(s->vip, BAL_VIP_ROWS, &(struct bal_entry){.addr = v->vip}); /* for bal_is_vip */
        s->services++;
        s->has_any_port |= !v->port && v->proto != BAL_ROCE;
        s->has_nat |= v->forward == BAL_NAT;
        s->has_roce |= v->proto == BAL_ROCE;
    }
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

static void take_back(struct bal_snapshot *s, uint32_t i)
{
    const struct bal_worker *w = &s->config.worker[i];
    const struct bal_service *v = &s->config.service[w->service];
    uint16_t port = v->proto == BAL_ROCE ? 0 : w->port;
    struct bal_entry *e = find(s->back, BAL_BACK_ROWS, v->proto, w->addr.byte, w->addr.family == 6, port);
    s->next_back[i] = e->used ? e->value : BAL_NO_WORKER;
    add(s->back, BAL_BACK_ROWS,
        &(struct bal_entry){.addr = w->addr, .port = port, .proto = v->proto, .value = (uint16_t)i});
}

/* The place of a next hop, which is let go with the snapshot. */
static uint32_t hold(struct bal_snapshot *s, uint8_t port, const struct bal_addr *hop)
{
    uint32_t place = bal_neighbour_hold(s->neighbours, port, hop);
    if (place == BAL_NO_NEIGHBOUR) s->no_place = true;
    return place;
}

static void take_gateways(struct bal_snapshot *s)
{
    for (uint8_t i = 0; i < BAL_PORTS; i++)
        for (int k = 0; k < 2; k++) {
            const struct bal_addr *a = &s->config.port[i].gateway[k];
            if (s->config.port[i].used && a->family) s->gateway[i][a->family == 6] = hold(s, i, a);
        }
}

static void let_go(struct bal_snapshot *s)
{
    for (uint32_t i = 0; i < BAL_WORKERS; i++) bal_neighbour_release(s->neighbours, s->neighbour[i]);
    for (uint32_t i = 0; i < BAL_PORTS; i++)
        for (int k = 0; k < 2; k++) bal_neighbour_release(s->neighbours, s->gateway[i][k]);
}

static void take_workers(struct bal_snapshot *s)
{
    for (uint32_t i = 0; i < BAL_WORKERS; i++) {
        struct bal_worker *w = &s->config.worker[i];
        s->next_back[i] = BAL_NO_WORKER;
        if (!w->used) continue;
        if (!w->port) w->port = s->config.service[w->service].port;
        struct bal_addr hop = w->next_hop;
        if (!hop.family && !bal_route(&s->config.port[w->via], &w->addr, true, &hop)) hop = w->addr;
        if (!w->mac_known) s->neighbour[i] = hold(s, w->via, &hop);
        if (s->config.service[w->service].forward == BAL_NAT) take_back(s, i);
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
    if ((a->services <= BAL_FEW_SERVICES) != (b->services <= BAL_FEW_SERVICES)) return false;
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
        bool up = bal_is_up(s, w);
        if (!all && !up) continue;
        c[n++] = (struct bal_candidate){w, up, s->config.worker[w].weight, name_of(&s->config.worker[w])};
    }
    qsort(c, n, sizeof(*c), by_name);
    return n;
}

static struct bal_table *table_new(uint32_t rows)
{
    struct bal_table *t = malloc(sizeof(*t) + rows * sizeof(t->worker[0]));
    if (t) *t = (struct bal_table){.users = 1, .rows = rows};
    return t;
}

/* A hundred rows for each worker share out well enough. Where there are thousands of services, those with few
 * workers have small tables, or memory would end. */
static uint32_t table_rows(const struct bal_snapshot *s, uint32_t v, uint32_t candidates)
{
    if (candidates < 2) return 1;
    return s->services <= BAL_FEW_SERVICES || s->members[v].count > BAL_MAGLEV_SMALL / 100 ? BAL_MAGLEV
                                                                                           : BAL_MAGLEV_SMALL;
}

/* Of a service that remembers only what a change would move: its rows depend on nothing else. */
static int make_jet(struct bal_snapshot *s, uint32_t v, struct bal_candidate *c)
{
    uint32_t n = candidates(s, v, true, c), rows = n < 2 ? 1 : BAL_MAGLEV;
    s->table[v] = table_new(rows);
    s->stable[v] = table_new(rows);
    if (!s->table[v] || !s->stable[v]) return -ENOMEM;
    bal_rendezvous(c, n, s->config.maglev_seed,
                   &(struct bal_rows){s->table[v]->worker, s->stable[v]->worker, rows});
    return 0;
}

static int make_tables(struct bal_snapshot *s, uint32_t v, struct bal_candidate *c)
{
    if (s->config.service[v].track_moved) return make_jet(s, v, c);
    uint32_t n = candidates(s, v, false, c), rows = table_rows(s, v, n);
    s->table[v] = table_new(rows);
    return s->table[v] ? bal_maglev(c, n, s->config.maglev_seed, s->table[v]->worker, rows) : -ENOMEM;
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
    let_go(s);
    free(s);
}

int bal_snapshot_make(struct bal *bal, const struct bal_config *config, const struct bal_snapshot *last,
                      struct bal_snapshot **out, char *error, size_t size)
{
    struct bal_snapshot *s = calloc(1, sizeof(*s));
    struct maker m = {s, error, size};
    *out = NULL;
    if (!s) return -ENOMEM;
    if (size) *error = 0;
    s->config = *config;
    s->neighbours = bal->neighbours;
    memset(s->neighbour, 0xff, sizeof(s->neighbour)); /* BAL_NO_NEIGHBOUR */
    memset(s->gateway, 0xff, sizeof(s->gateway));
    int rc = bal_check_config(&s->config, refuse, &m);
    if (!rc && *error) rc = -EINVAL;
    if (!rc) take_services(s);
    if (!rc) take_workers(s);
    if (!rc) take_gateways(s);
    if (!rc && s->no_place) rc = -ENOMEM;
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
