/* SPDX-License-Identifier: Apache-2.0 */
#include "src/balance/control/config_check.h"

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
    int error = gw_bal_take_u16(p, s, 1, 0, 1000, &p->plan->said->fall);
    p->plan->said->has |= GW_BAL_SAID_FALL;
    p->plan->said->fall++;
    return error;
}
static int set_rise(parse *p, statement *s)
{
    p->plan->said->has |= GW_BAL_SAID_RISE;
    return gw_bal_take_u16(p, s, 1, 1, 1000, &p->plan->said->rise);
}
static int set_fall(parse *p, statement *s)
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
static int set_status(parse *p, statement *s)
{
    p->plan->said->has |= GW_BAL_SAID_STATUS;
    return gw_bal_take_u16(p, s, 1, 100, 599, &p->plan->said->ask.status);
}
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

/* What was not given comes from elsewhere. What one kind of check alone has is that kind's. */
static void said_fill(struct gw_bal_said *to, const struct gw_bal_said *from)
{
    unsigned missing = from->has & ~to->has;
    if (missing & GW_BAL_SAID_PORT) to->ask.port = from->ask.port;
    if (missing & GW_BAL_SAID_TIMEOUT) to->ask.timeout_ns = from->ask.timeout_ns;
    if (missing & GW_BAL_SAID_STATUS) to->ask.status = from->ask.status;
    if (missing & GW_BAL_SAID_PATH) memcpy(to->ask.path, from->ask.path, sizeof(to->ask.path));
    if (missing & GW_BAL_SAID_HOST) memcpy(to->ask.host, from->ask.host, sizeof(to->ask.host));
    if (missing & GW_BAL_SAID_MODEL) memcpy(to->ask.model, from->ask.model, sizeof(to->ask.model));
    if (missing & GW_BAL_SAID_INTERVAL) to->interval_ns = from->interval_ns;
    if (missing & GW_BAL_SAID_RISE) to->rise = from->rise;
    if (missing & GW_BAL_SAID_FALL) to->fall = from->fall;
    if (missing & GW_BAL_SAID_AGAIN) to->again_ns = from->again_ns;
    to->has |= from->has;
}

int gw_bal_end_check(parse *p, statement *s)
{
    struct gw_bal_saids *all = gw_bal_plan_checks(p->plan);
    struct gw_bal_said *alone = all->n == p->plan->begun ? add_check(p, s) : NULL;
    if (alone) *alone = (struct gw_bal_said){.ask.kind = p->plan->block.ask.kind};
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
        {"rise", 1, 1, set_rise, NULL, NULL},                                                                \
    {                                                                                                        \
        "fall", 1, 1, set_fall, NULL, NULL                                                                   \
    }

const struct gw_bal_keyword gw_bal_keywords_tcp[] = {COMMON_CHECK, {0}};

const struct gw_bal_keyword gw_bal_keywords_rdma[] = {
    COMMON_CHECK,
    {"model", 1, 1, set_model, NULL, NULL},
    {0},
};

static const struct gw_bal_keyword url_keywords[] = {
    {"path", 1, 1, set_path, NULL, NULL},
    {"status_code", 1, 1, set_status, NULL, NULL},
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
    said_fill(to, &all);
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
