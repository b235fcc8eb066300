/* SPDX-License-Identifier: Apache-2.0 */
/* virtual_server and virtual_server_group, and what stands in them. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <gpuwire/error.h>

#include "src/balance/control/drain.h"
#include "src/balance/control/config_check.h"
#include "src/balance/control/config_plan.h"

typedef struct gw_bal_parse parse;
typedef const struct gw_bal_statement statement;

/* ---- names that keepalived has, too ---- */

/* "TUN type gue port 6080" and "TUN type ipip" are said longer than by our names. */
static int take_kind(parse *p, statement *s, uint8_t *out)
{
    int tun = !strcasecmp(s->word[1], "TUN") && s->words > 2;
    if (!tun && s->words > 2) return gw_bal_wrong(p, s, "%.64s: it takes one word", s->word[1]);
    if (!tun) return gw_bal_take_name(p, s, gw_bal_forward_names, out);
    int gue = s->words > 3 && !strcasecmp(s->word[3], "gue"),
        ipip = s->words == 4 && !strcasecmp(s->word[3], "ipip");
    if (strcasecmp(s->word[2], "type") != 0 || (!gue && !ipip))
        return gw_bal_wrong(p, s, "a tunnel is `TUN`, `TUN type ipip` or `TUN type gue port 6080`");
    if (gue && s->words > 4 &&
        (s->words != 6 || strcmp(s->word[4], "port") != 0 || strcmp(s->word[5], "6080") != 0))
        return gw_bal_wrong(p, s, "GUE goes to port 6080, without checksums of its own");
    *out = gue ? GW_BAL_GUE : GW_BAL_TUN;
    return 0;
}

/* The schedulers of IPVS that another one here does the work of, or of which none does. */
static int take_sched(parse *p, statement *s, uint8_t *out)
{
    static const char *const like_wlc[] = {"sed", "nq", NULL};
    static const char *const by_target[] = {"dh", "lblc", "lblcr", "fo", "ovf", "twos", NULL};
    char text[96];
    if (gw_bal_name_index(by_target, s->word[1]) >= 0)
        return gw_bal_wrong(p, s, "%s: there is no such scheduler here; use mh, wlc or p2c", s->word[1]);
    if (gw_bal_name_index(like_wlc, s->word[1]) < 0) return gw_bal_take_name(p, s, gw_bal_sched_names, out);
    snprintf(text, sizeof(text), "lb_algo %s: wlc is used, which counts the new connection, too", s->word[1]);
    gw_bal_report_note(&p->config->report, s->file, s->line, text);
    *out = GW_BAL_WLC;
    return 0;
}

/* ---- real_server ---- */

static int set_weight(parse *p, statement *s)
{
    uint64_t n = 0;
    int err = gw_bal_take_number(p, s, 1, 0, GW_BAL_WEIGHT, &n);
    p->plan->worker->worker.weight = (uint32_t)n;
    return err;
}
static int set_worker_name(parse *p, statement *s)
{
    struct gw_bal_worker *w = &p->plan->worker->worker;
    return gw_bal_take_text(p, s, w->name, sizeof(w->name));
}
static int set_drain(parse *p, statement *s)
{
    struct gw_bal_worker *w = &p->plan->worker->worker;
    int err = gw_bal_take_yes(p, s, &w->drain);
    w->file_drain = w->drain;
    return err;
}
static int set_worker_kind(parse *p, statement *s)
{
    p->plan->worker->has_forward = 1;
    return take_kind(p, s, &p->plan->worker->forward);
}

static int set_worker_inhibit(parse *p, statement *s)
{
    p->plan->worker->has_inhibit = 1;
    return gw_bal_take_yes(p, s, &p->plan->worker->worker.inhibit);
}

static const struct gw_bal_keyword worker_keywords[] = {
    {"inhibit_on_failure", 0, 1, set_worker_inhibit, NULL, NULL},
    {"drain", 0, 1, set_drain, NULL, NULL},
    {"weight", 1, 1, set_weight, NULL, NULL},
    {"name", 1, 1, set_worker_name, NULL, NULL},
    {"lb_kind", 1, 8, set_worker_kind, NULL, NULL},
    {"lvs_method", 1, 8, set_worker_kind, NULL, NULL},
    GW_BAL_CHECK_PACE,
    GW_BAL_CHECKS,
    {0},
};

/* ADDRESS [PORT] from word k on. */
static int take_endpoint(parse *p, statement *s, unsigned k, struct gw_bal_addr *addr, uint16_t *port)
{
    if (s->words <= k) return gw_bal_wrong(p, s, "it takes an address, and a port");
    if (s->words > k + 2)
        return gw_bal_wrong(p, s, "%.64s: it takes an address and a port, and no more", s->word[k + 2]);
    int err = gw_bal_take_addr(p, s, k, addr);
    return !err && s->words == k + 2 ? gw_bal_take_u16(p, s, k + 1, 0, 65535, port) : err;
}

static int begin_worker(parse *p, statement *s)
{
    struct gw_bal_plan *plan = p->plan;
    struct gw_bal_plan_worker *w = calloc(1, sizeof(*w));
    plan->worker = w ? w : &plan->spare_worker;
    plan->said = &plan->worker->checks.common;
    if (!w) return gw_bal_wrong(p, s, "no memory");
    w->at = gw_bal_place_of(s);
    w->worker.weight = 1;
    return take_endpoint(p, s, 1, &w->worker.addr, &w->worker.port);
}

static int end_worker(parse *p, statement *s)
{
    struct gw_bal_plan *plan = p->plan;
    struct gw_bal_plan_worker *w = plan->worker;
    (void)s;
    plan->worker = NULL;
    plan->said = &plan->service->checks.common;
    if (w == &plan->spare_worker) return 0;
    if (p->spoiled) {
        free(w);
        return 0;
    }
    *plan->service->end = w;
    plan->service->end = &w->next;
    return 0;
}

/* ---- sorry_server ---- */

static struct gw_bal_plan_worker *sorry_server(struct gw_bal_plan_service *of)
{
    struct gw_bal_plan_worker *w = of->workers;
    while (w && !w->worker.sorry) w = w->next;
    return w;
}

/* A worker that is not checked, of one line. */
static int set_sorry(parse *p, statement *s)
{
    int twice = sorry_server(p->plan->service) != NULL, err = begin_worker(p, s), outer = p->spoiled;
    p->plan->worker->worker.sorry = 1;
    p->plan->worker->checks.n = 1;
    p->plan->worker->checks.check[0] = (struct gw_bal_said){.ask.kind = GW_BAL_NO_CHECK};
    if (!err && twice) err = gw_bal_wrong(p, s, "a service has one sorry server; remove the other");
    p->spoiled |= err != 0;
    end_worker(p, s);
    p->spoiled = outer;
    return err;
}

static int set_sorry_kind(parse *p, statement *s)
{
    struct gw_bal_plan_service *mine = p->plan->service;
    mine->has_sorry_forward = 1;
    return take_kind(p, s, &mine->sorry_forward);
}

/* ---- virtual_server ---- */

static int set_algo(parse *p, statement *s)
{
    return take_sched(p, s, &p->plan->service->service.sched);
}
static int set_kind(parse *p, statement *s)
{
    return take_kind(p, s, &p->plan->service->service.forward);
}
static int set_protocol(parse *p, statement *s)
{
    return gw_bal_take_name(p, s, gw_bal_protocol_names, &p->plan->service->service.protocol);
}
static int config_service_set_name(parse *p, statement *s)
{
    struct gw_bal_service *mine = &p->plan->service->service;
    return gw_bal_take_text(p, s, mine->name, sizeof(mine->name));
}
static int set_jet(parse *p, statement *s)
{
    return gw_bal_take_yes(p, s, &p->plan->service->service.jet);
}

static int set_inhibit(parse *p, statement *s)
{
    return gw_bal_take_yes(p, s, &p->plan->service->inhibit);
}
static int set_quorum(parse *p, statement *s)
{
    uint64_t n = 1;
    int err = gw_bal_take_number(p, s, 1, 1, UINT32_MAX, &n);
    p->plan->service->service.quorum = n == 1 ? 0 : (uint32_t)n;
    return err;
}

/* 0: a drain has no limit. */
static int set_drain_limit(parse *p, statement *s)
{
    uint64_t *limit = &p->plan->service->service.drain_limit_ns;
    *limit = GW_BAL_DRAIN_ALWAYS;
    return strcmp(s->word[1], "0") ? gw_bal_take_seconds(p, s, limit) : 0;
}

/* Without a number: 6 minutes, as in keepalived. */
static int set_persistence(parse *p, statement *s)
{
    uint64_t n = 360;
    int err = s->words == 1 ? 0 : gw_bal_take_number(p, s, 1, 0, GW_BAL_PERSIST_S, &n);
    p->plan->service->service.persist_s = (uint32_t)n;
    return err;
}

/* IPv4's is a netmask, IPv6's a number of bits; either takes a number. */
static int set_granularity(parse *p, statement *s)
{
    uint64_t bits = 0;
    struct gw_bal_addr mask;
    uint8_t *out = &p->plan->service->service.persist_bits;
    int dotted = strchr(s->word[1], '.') != NULL;
    int err = dotted ? gw_bal_take_addr(p, s, 1, &mask) : gw_bal_take_number(p, s, 1, 1, 128, &bits);
    if (err) return err;
    while (dotted && bits < 32 && mask.bytes[bits / 8] & 0x80 >> bits % 8) bits++;
    for (uint64_t i = bits; dotted && i < 32; i++)
        if (!bits || mask.bytes[i / 8] & 0x80 >> i % 8)
            return gw_bal_wrong(p, s, "%s: it must be a netmask, such as 255.255.255.0", s->word[1]);
    *out = (uint8_t)bits;
    return 0;
}

const struct gw_bal_keyword gw_bal_keywords_service[] = {
    {"drain_limit", 1, 1, set_drain_limit, NULL, NULL},
    {"persistence_timeout", 0, 1, set_persistence, NULL, NULL},
    {"persistence_granularity", 1, 1, set_granularity, NULL, NULL},
    {"sorry_server", 1, 2, set_sorry, NULL, NULL},
    {"sorry_server_lvs_method", 1, 8, set_sorry_kind, NULL, NULL},
    {"quorum", 1, 1, set_quorum, NULL, NULL},
    {"inhibit_on_failure", 0, 1, set_inhibit, NULL, NULL},
    {"lb_algo", 1, 1, set_algo, NULL, NULL},
    {"lvs_sched", 1, 1, set_algo, NULL, NULL},
    {"lb_kind", 1, 8, set_kind, NULL, NULL},
    {"lvs_method", 1, 8, set_kind, NULL, NULL},
    {"protocol", 1, 1, set_protocol, NULL, NULL},
    {"name", 1, 1, config_service_set_name, NULL, NULL},
    {"jet", 0, 1, set_jet, NULL, NULL},
    GW_BAL_CHECK_PACE,
    GW_BAL_CHECKS,
    {"real_server", 0, GW_BAL_WORDS, begin_worker, worker_keywords, end_worker},
    {0},
};

/* ADDRESS [PORT], or "group NAME". */
static int take_target(parse *p, statement *s, struct gw_bal_plan_service *mine)
{
    const char *first = s->words > 1 ? s->word[1] : "";
    if (!strcasecmp(first, "fwmark"))
        return gw_bal_wrong(p, s,
                            "fwmark: the balancer sees no firewall marks; name the address and the port");
    if (strcasecmp(first, "group") != 0)
        return take_endpoint(p, s, 1, &mine->service.addr, &mine->service.port);
    if (s->words != 3 || strlen(s->word[2]) >= sizeof(mine->group))
        return gw_bal_wrong(p, s, "group: it takes the name of a virtual_server_group");
    strcpy(mine->group, s->word[2]);
    return 0;
}

int gw_bal_begin_service(parse *p, statement *s)
{
    struct gw_bal_plan *plan = p->plan;
    struct gw_bal_plan_service *mine = calloc(1, sizeof(*mine));
    plan->service = mine ? mine : &plan->spare_service;
    plan->said = &plan->service->checks.common;
    plan->service->end = &plan->service->workers;
    if (!mine) return gw_bal_wrong(p, s, "no memory");
    mine->at = gw_bal_place_of(s);
    mine->service.sched = GW_BAL_WLC;
    return take_target(p, s, mine);
}

int gw_bal_end_service(parse *p, statement *s)
{
    struct gw_bal_plan *plan = p->plan;
    (void)s;
    if (plan->service == &plan->spare_service) return 0;
    if (p->spoiled) {
        gw_bal_plan_free_service(plan->service);
        return 0;
    }
    *plan->end = plan->service;
    plan->end = &plan->service->next;
    return 0;
}

/* ---- virtual_server_group ---- */

int gw_bal_begin_group(parse *p, statement *s)
{
    struct gw_bal_plan_group *g = calloc(1, sizeof(*g));
    if (!g) return gw_bal_wrong(p, s, "no memory");
    g->end = &g->ranges;
    g->next = p->plan->groups;
    p->plan->groups = g;
    return gw_bal_take_text(p, s, g->name, sizeof(g->name));
}

/* How many addresses from this one to that. 0: none. */
static uint32_t span(const struct gw_bal_addr *from, const struct gw_bal_addr *to)
{
    unsigned n = from->family == 6 ? 16 : 4;
    uint32_t a, b;
    if (from->family != to->family || memcmp(from->bytes, to->bytes, n - 4) != 0) return 0;
    memcpy(&a, from->bytes + n - 4, 4);
    memcpy(&b, to->bytes + n - 4, 4);
    return ntohl(b) < ntohl(a) ? 0 : ntohl(b) - ntohl(a) + 1;
}

/* The part after the dash: a whole address, or its last number. */
static int range_end(const char *text, const struct gw_bal_addr *first, struct gw_bal_addr *last)
{
    char *end;
    int six = first->family == 6;
    *last = *first;
    if (strpbrk(text, ".:")) return gw_bal_addr_parse(text, last);
    unsigned long n = strtoul(text, &end, six ? 16 : 10);
    if (*end || end == text || n > (six ? 0xffffu : 255u)) return -EINVAL;
    if (six) last->bytes[14] = (uint8_t)(n >> 8);
    last->bytes[six ? 15 : 3] = (uint8_t)n;
    return 0;
}

/* "10.0.0.3-10", "10.0.0.3-10.0.1.4", "fd00::2-9", or one address. */
static int take_range(parse *p, statement *s, struct gw_bal_plan_range *r)
{
    struct gw_bal_addr last;
    char *dash = strchr(s->word[0], '-');
    if (dash) *dash = 0;
    int err = gw_bal_addr_parse(s->word[0], &r->addr);
    if (!err && dash) err = range_end(dash + 1, &r->addr, &last);
    if (dash) *dash = '-';
    if (err) return gw_bal_wrong(p, s, "it must be an address, or a range such as 10.0.0.3-10");
    r->count = dash ? span(&r->addr, &last) : 1;
    if (r->count && r->count <= GW_BAL_SERVICES) return 0;
    return gw_bal_wrong(p, s, "a range goes upwards, and may have %u addresses", GW_BAL_SERVICES);
}

int gw_bal_group_member(parse *p, statement *s)
{
    struct gw_bal_plan_group *g = p->plan->groups;
    struct gw_bal_plan_range *r = g ? calloc(1, sizeof(*r)) : NULL;
    int err = r ? take_range(p, s, r) : gw_bal_wrong(p, s, "no memory");
    if (!err && s->words == 2) err = gw_bal_take_u16(p, s, 1, 0, 65535, &r->port);
    if (err) {
        if (g) g->spoiled = 1;
        free(r);
        return err;
    }
    *g->end = r;
    g->end = &r->next;
    return 0;
}

const struct gw_bal_keyword gw_bal_keywords_group[] = {
    {GW_BAL_ANY_WORD, 0, 1, gw_bal_group_member, NULL, NULL}, {0}};
