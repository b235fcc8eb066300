/* SPDX-License-Identifier: Apache-2.0 */
/* Statements of the configuration file that say how a worker is checked. */
#include "src/balance/control/config_check.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "src/balance/control/config_plan.h"

typedef struct gw_bal_parse parse;
typedef const struct gw_bal_statement statement;

/* ---- values ---- */

int gw_bal_set_check_timeout(parse *p, statement *s)
{
    p->plan->said->has |= GW_BAL_SAID_TIMEOUT;
    return gw_bal_take_seconds(p, s, &p->plan->said->ask.timeout_ns);
}
int gw_bal_set_check_interval(parse *p, statement *s)
{
    p->plan->said->has |= GW_BAL_SAID_INTERVAL;
    return gw_bal_take_seconds(p, s, &p->plan->said->interval_ns);
}
int gw_bal_set_check_again(parse *p, statement *s)
{
    p->plan->said->has |= GW_BAL_SAID_AGAIN;
    return gw_bal_take_seconds(p, s, &p->plan->said->again_ns);
}
/* keepalived counts the tries after the first. */
int gw_bal_set_check_retry(parse *p, statement *s)
{
    int err = gw_bal_take_u16(p, s, 1, 0, 1000, &p->plan->said->fall);
    p->plan->said->has |= GW_BAL_SAID_FALL;
    p->plan->said->fall++;
    return err;
}
int gw_bal_set_check_rise(parse *p, statement *s)
{
    p->plan->said->has |= GW_BAL_SAID_RISE;
    return gw_bal_take_u16(p, s, 1, 1, 1000, &p->plan->said->rise);
}
int gw_bal_set_check_fall(parse *p, statement *s)
{
    p->plan->said->has |= GW_BAL_SAID_FALL;
    return gw_bal_take_u16(p, s, 1, 1, 1001, &p->plan->said->fall);
}
static int set_check_port(parse *p, statement *s)
{
    p->plan->said->has |= GW_BAL_SAID_PORT;
    return gw_bal_take_u16(p, s, 1, 1, 65535, &p->plan->said->ask.port);
}

/* It becomes a part of a request's line. */
static int take_token(parse *p, statement *s, char *out, size_t size)
{
    for (const char *c = s->word[1]; *c; c++)
        if (*c <= ' ' || *c > '~' || *c == '"' || *c == '\\')
            return gw_bal_wrong(p, s, "%.64s: it may have no blanks, quotes and special characters",
                                s->word[1]);
    return gw_bal_take_text(p, s, out, size);
}
static int set_path(parse *p, statement *s)
{
    p->plan->said->has |= GW_BAL_SAID_PATH;
    if (s->word[1][0] != '/') return gw_bal_wrong(p, s, "%.64s: a path begins with /", s->word[1]);
    return take_token(p, s, p->plan->said->ask.path, sizeof(p->plan->said->ask.path));
}
int gw_bal_set_check_host(parse *p, statement *s)
{
    p->plan->said->has |= GW_BAL_SAID_HOST;
    return take_token(p, s, p->plan->said->ask.host, sizeof(p->plan->said->ask.host));
}
static int take_status(parse *p, statement *s, unsigned k, struct gw_bal_range *out)
{
    char *dash = strchr(s->word[k], '-'), *end = NULL;
    unsigned long from = strtoul(s->word[k], &end, 10), to = from;
    if (dash && end == dash) to = strtoul(dash + 1, &end, 10);
    if (*end || from < 100 || to > 599 || from > to)
        return gw_bal_wrong(p, s, "%.64s: it must be a status from 100 to 599, or a range such as 200-299",
                            s->word[k]);
    *out = (struct gw_bal_range){(uint16_t)from, (uint16_t)to};
    return 0;
}

/* "200-299 404 503" */
static int set_status(parse *p, statement *s)
{
    struct gw_bal_ask *a = &p->plan->said->ask;
    int err = 0;
    p->plan->said->has |= GW_BAL_SAID_STATUS;
    memset(a->status, 0, sizeof(a->status));
    for (unsigned k = 1; k < s->words && !err; k++) err = take_status(p, s, k, &a->status[k - 1]);
    return err;
}

static int set_digest(parse *p, statement *s)
{
    p->plan->said->has |= GW_BAL_SAID_DIGEST;
    if (strlen(s->word[1]) != 32 || strspn(s->word[1], "0123456789abcdefABCDEF") != 32)
        return gw_bal_wrong(p, s, "%.64s: it must be an MD5 sum, 32 hexadecimal digits, as genhash prints it",
                            s->word[1]);
    return gw_bal_take_text(p, s, p->plan->said->ask.digest, sizeof(p->plan->said->ask.digest));
}
static int set_connect(parse *p, statement *s)
{
    p->plan->said->has |= GW_BAL_SAID_CONNECT;
    return gw_bal_take_addr(p, s, 1, &p->plan->said->ask.connect);
}
static int config_check_set_bind(parse *p, statement *s)
{
    p->plan->said->has |= GW_BAL_SAID_BIND;
    return gw_bal_take_addr(p, s, 1, &p->plan->said->ask.bind);
}

/* ---- UDP_CHECK ---- */

/* keepalived's free form: "Ab12f 3" is AB 12 0F 03. `any`: x stands for any digit. It becomes pairs of
 * digits. */
static int take_hex(parse *p, statement *s, bool any, char *out, size_t size)
{
    size_t n = 0;
    for (unsigned k = 1; k < s->words; k++)
        for (const char *c = s->word[k] + strspn(s->word[k], " \t"); *c; c += strspn(c, " \t")) {
            size_t digits = strspn(c, any ? "0123456789abcdefABCDEFxX" : "0123456789abcdefABCDEF");
            if (!digits) return gw_bal_wrong(p, s, "%.64s: it must be hexadecimal digits", s->word[k]);
            if (digits > 2) digits = 2;
            if (n + 3 > size) return gw_bal_wrong(p, s, "it may have %zu bytes", (size - 1) / 2);
            if (digits == 1) out[n++] = '0';
            for (size_t i = 0; i < digits; i++) out[n++] = (char)tolower((unsigned char)*c++);
        }
    out[n] = 0;
    return 0;
}

static int set_payload(parse *p, statement *s)
{
    p->plan->said->has |= GW_BAL_SAID_PATH;
    return take_hex(p, s, false, p->plan->said->ask.path, sizeof(p->plan->said->ask.path));
}
static int set_reply(parse *p, statement *s)
{
    p->plan->said->has |= GW_BAL_SAID_REPLY | GW_BAL_SAID_MODEL;
    p->plan->said->ask.needs_reply = 1;
    return take_hex(p, s, true, p->plan->said->ask.model, sizeof(p->plan->said->ask.model));
}
static int set_least(parse *p, statement *s)
{
    p->plan->said->has |= GW_BAL_SAID_LEAST;
    return gw_bal_take_u16(p, s, 1, 0, 65507, &p->plan->said->ask.least);
}
static int set_most(parse *p, statement *s)
{
    p->plan->said->has |= GW_BAL_SAID_MAX;
    return gw_bal_take_u16(p, s, 1, 0, 65507, &p->plan->said->ask.most);
}

/* ---- others ---- */

static int set_model(parse *p, statement *s)
{
    p->plan->said->has |= GW_BAL_SAID_MODEL;
    return take_token(p, s, p->plan->said->ask.model, sizeof(p->plan->said->ask.model));
}

/* ---- blocks ---- */

/* A check is read into `block`. Each `url` in it begins as a check of its own. */
static int begin_check(parse *p, uint8_t kind)
{
    p->plan->block = (struct gw_bal_said){.ask.kind = kind};
    p->plan->begun = gw_bal_plan_checks(p->plan)->n;
    p->plan->said = &p->plan->block;
    return 0;
}

int gw_bal_begin_tcp(parse *p, statement *s)
{
    (void)s;
    return begin_check(p, GW_BAL_TCP_CHECK);
}
int gw_bal_begin_http(parse *p, statement *s)
{
    (void)s;
    return begin_check(p, GW_BAL_HTTP_GET);
}
int gw_bal_begin_ssl(parse *p, statement *s)
{
    (void)s;
    return begin_check(p, GW_BAL_SSL_GET);
}
int gw_bal_begin_udp(parse *p, statement *s)
{
    (void)s;
    return begin_check(p, GW_BAL_UDP_CHECK);
}
int gw_bal_begin_misc(parse *p, statement *s)
{
    (void)s;
    return begin_check(p, GW_BAL_MISC_CHECK);
}
int gw_bal_begin_rdma(parse *p, statement *s)
{
    (void)s;
    return begin_check(p, GW_BAL_RDMA_CHECK);
}

static struct gw_bal_said *add_check(parse *p, statement *s)
{
    struct gw_bal_saids *all = gw_bal_plan_checks(p->plan);
    if (all->n == GW_BAL_ASKS) {
        gw_bal_wrong(p, s, "a worker may have %u checks, and each url counts; remove one", GW_BAL_ASKS);
        return NULL;
    }
    return &all->check[all->n++];
}

static int begin_url(parse *p, statement *s)
{
    struct gw_bal_said *url = add_check(p, s);
    if (!url) url = &p->plan->spare;
    *url = (struct gw_bal_said){.ask.kind = p->plan->block.ask.kind};
    p->plan->said = url;
    return 0;
}
static int end_url(parse *p, statement *s)
{
    (void)s;
    p->plan->said = &p->plan->block;
    return 0;
}

static bool is_http(const struct gw_bal_said *c)
{
    return c->ask.kind == GW_BAL_HTTP_GET || c->ask.kind == GW_BAL_SSL_GET;
}

/* Which values of another one can count: how often and where, and for the same kind all that this kind has.
 * (What several have in common is of no kind.) A script's time-out is no connection's. */
static unsigned said_mask(const struct gw_bal_said *to, const struct gw_bal_said *from)
{
    unsigned mask = GW_BAL_SAID_INTERVAL | GW_BAL_SAID_RISE | GW_BAL_SAID_FALL | GW_BAL_SAID_AGAIN |
                    GW_BAL_SAID_PORT | GW_BAL_SAID_TIMEOUT;
    bool same = to->ask.kind == from->ask.kind || (is_http(to) && is_http(from));
    if (same) return ~0u;
    if (to->ask.kind == GW_BAL_MISC_CHECK || from->ask.kind == GW_BAL_MISC_CHECK)
        mask &= ~GW_BAL_SAID_TIMEOUT;
    return from->ask.kind == GW_BAL_NO_CHECK && is_http(to) ? mask | GW_BAL_SAID_HOST : mask;
}

/* Values that were not given come from elsewhere. */
static void said_fill(struct gw_bal_said *to, const struct gw_bal_said *from)
{
    unsigned missing = from->has & ~to->has & said_mask(to, from);
    if (missing & GW_BAL_SAID_PORT) to->ask.port = from->ask.port;
    if (missing & GW_BAL_SAID_TIMEOUT) to->ask.timeout_ns = from->ask.timeout_ns;
    if (missing & GW_BAL_SAID_STATUS) memcpy(to->ask.status, from->ask.status, sizeof(to->ask.status));
    if (missing & GW_BAL_SAID_PATH) memcpy(to->ask.path, from->ask.path, sizeof(to->ask.path));
    if (missing & GW_BAL_SAID_HOST) memcpy(to->ask.host, from->ask.host, sizeof(to->ask.host));
    if (missing & GW_BAL_SAID_HOST) to->ask.uid = from->ask.uid;
    if (missing & GW_BAL_SAID_HOST) to->ask.gid = from->ask.gid;
    if (missing & GW_BAL_SAID_DYNAMIC) to->ask.dynamic = from->ask.dynamic;
    if (missing & GW_BAL_SAID_MODEL) memcpy(to->ask.model, from->ask.model, sizeof(to->ask.model));
    if (missing & GW_BAL_SAID_DIGEST) memcpy(to->ask.digest, from->ask.digest, sizeof(to->ask.digest));
    if (missing & GW_BAL_SAID_CONNECT) to->ask.connect = from->ask.connect;
    if (missing & GW_BAL_SAID_BIND) to->ask.bind = from->ask.bind;
    if (missing & GW_BAL_SAID_REPLY) to->ask.needs_reply = from->ask.needs_reply;
    if (missing & GW_BAL_SAID_LEAST) to->ask.least = from->ask.least;
    if (missing & GW_BAL_SAID_MAX) to->ask.most = from->ask.most;
    if (missing & GW_BAL_SAID_INTERVAL) to->interval_ns = from->interval_ns;
    if (missing & GW_BAL_SAID_RISE) to->rise = from->rise;
    if (missing & GW_BAL_SAID_FALL) to->fall = from->fall;
    if (missing & GW_BAL_SAID_AGAIN) to->again_ns = from->again_ns;
    to->has |= missing;
}

int gw_bal_end_check(parse *p, statement *s)
{
    struct gw_bal_saids *all = gw_bal_plan_checks(p->plan);
    struct gw_bal_said *alone = all->n == p->plan->begun ? add_check(p, s) : NULL;
    if (alone) *alone = p->plan->block;
    for (unsigned i = p->plan->begun; i < all->n; i++) said_fill(&all->check[i], &p->plan->block);
    p->plan->said = &all->common;
    return 0;
}

int gw_bal_no_check(parse *p, statement *s)
{
    struct gw_bal_said *c = add_check(p, s);
    if (c) *c = (struct gw_bal_said){.ask.kind = GW_BAL_NO_CHECK};
    return 0;
}

#define COMMON_CHECK                                                                                         \
    GW_BAL_CHECK_PACE, {"connect_port", 1, 1, set_check_port, NULL, NULL},                                   \
        {"connect_ip", 1, 1, set_connect, NULL, NULL}, {"bindto", 1, 1, config_check_set_bind, NULL, NULL},  \
        {"bind_to", 1, 1, config_check_set_bind, NULL, NULL},                                                \
        {"rise", 1, 1, gw_bal_set_check_rise, NULL, NULL},                                                   \
    {                                                                                                        \
        "fall", 1, 1, gw_bal_set_check_fall, NULL, NULL                                                      \
    }

const struct gw_bal_keyword gw_bal_keywords_tcp[] = {COMMON_CHECK, {0}};

const struct gw_bal_keyword gw_bal_keywords_udp[] = {
    COMMON_CHECK,
    {"payload", 1, GW_BAL_WORDS, set_payload, NULL, NULL},
    {"require_reply", 0, GW_BAL_WORDS, set_reply, NULL, NULL},
    {"min_reply_length", 1, 1, set_least, NULL, NULL},
    {"max_reply_length", 1, 1, set_most, NULL, NULL},
    {0},
};

const struct gw_bal_keyword gw_bal_keywords_rdma[] = {
    COMMON_CHECK,
    {"model", 1, 1, set_model, NULL, NULL},
    {0},
};

static const struct gw_bal_keyword url_keywords[] = {
    {"path", 1, 1, set_path, NULL, NULL},
    {"status_code", 1, GW_BAL_RANGES, set_status, NULL, NULL},
    {"digest", 1, 1, set_digest, NULL, NULL},
    {"virtualhost", 1, 1, gw_bal_set_check_host, NULL, NULL},
    {0},
};

const struct gw_bal_keyword gw_bal_keywords_http[] = {
    COMMON_CHECK,
    {"url", 0, 0, begin_url, url_keywords, end_url},
    {"virtualhost", 1, 1, gw_bal_set_check_host, NULL, NULL},
    {0},
};

/* ---- what they come to ---- */

static void said_default(struct gw_bal_said *to)
{
    struct gw_bal_check c;
    gw_bal_check_default(&c);
    struct gw_bal_said all = {c.ask, c.rise, c.fall, c.interval_ns, c.again_ns, ~0u};
    unsigned has = to->has;
    all.ask.kind = to->ask.kind;
    if (to->ask.kind == GW_BAL_UDP_CHECK || to->ask.kind == GW_BAL_MISC_CHECK) all.ask.path[0] = 0;
    if (to->ask.kind == GW_BAL_UDP_CHECK) all.ask.model[0] = 0;
    said_fill(to, &all);
    /* A script may take as long as the next one is away. */
    if (to->ask.kind == GW_BAL_MISC_CHECK && !(has & GW_BAL_SAID_TIMEOUT))
        to->ask.timeout_ns = to->interval_ns;
}

/* One check of all: as often as the most impatient says, and up only when each would be. */
static void saids_join(const struct gw_bal_said *said, unsigned n, struct gw_bal_check *out)
{
    *out = (struct gw_bal_check){.ask = said->ask,
                                 .others = (uint8_t)(n - 1),
                                 .rise = said->rise,
                                 .fall = said->fall,
                                 .interval_ns = said->interval_ns,
                                 .again_ns = said->again_ns};
    for (unsigned i = 1; i < n; i++) {
        out->other[i - 1] = said[i].ask;
        if (said[i].rise > out->rise) out->rise = said[i].rise;
        if (said[i].fall < out->fall) out->fall = said[i].fall;
        if (said[i].interval_ns < out->interval_ns) out->interval_ns = said[i].interval_ns;
        if (!out->again_ns || (said[i].again_ns && said[i].again_ns < out->again_ns))
            out->again_ns = said[i].again_ns;
    }
}

void gw_bal_saids_of_service(const struct gw_bal_saids *service, struct gw_bal_check *out)
{
    struct gw_bal_said all[GW_BAL_ASKS] = {{.ask.kind = GW_BAL_DEFAULT_CHECK}};
    unsigned n = service->n ? service->n : 1;
    if (service->n) memcpy(all, service->check, n * sizeof(all[0]));
    for (unsigned i = 0; i < n; i++) {
        said_fill(&all[i], &service->common);
        said_default(&all[i]);
    }
    saids_join(all, n, out);
}

int gw_bal_saids_of_worker(const struct gw_bal_saids *service, const struct gw_bal_saids *worker,
                           struct gw_bal_check *out)
{
    struct gw_bal_said all[GW_BAL_ASKS] = {{.ask.kind = GW_BAL_DEFAULT_CHECK}};
    const struct gw_bal_saids *from = worker->n ? worker : service;
    unsigned n = from->n ? from->n : 1;
    if (!worker->n && !worker->common.has) return 0;
    if (from->n) memcpy(all, from->check, n * sizeof(all[0]));
    for (unsigned i = 0; i < n; i++) {
        if (from == service) { /* the worker's word counts more than that of its service's check */
            struct gw_bal_said mine = worker->common;
            mine.ask.kind = all[i].ask.kind;
            said_fill(&mine, &all[i]);
            all[i] = mine;
        }
        said_fill(&all[i], &worker->common);
        said_fill(&all[i], &service->common);
        if (service->n) said_fill(&all[i], &service->check[0]);
        said_default(&all[i]);
    }
    saids_join(all, n, out);
    return 1;
}
