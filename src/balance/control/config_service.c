/* SPDX-License-Identifier: Apache-2.0 */
/* virtual_server, and what stands in it. */
#include <errno.h>
#include <string.h>

#include <gpuwire/error.h>

#include "src/balance/control/parse.h"

typedef struct gw_bal_parse parse;
typedef const struct gw_bal_statement statement;

/* ---- checks ---- */

static int begin_check(parse *p, uint8_t kind)
{
    if (p->check == &p->worker.check) {
        p->worker.check = p->service.check; /* what the service says counts, but for what follows */
        p->worker.has_check = 1;
    }
    p->check->kind = kind;
    return 0;
}

static int begin_tcp(parse *p, statement *s)
{
    (void)s;
    return begin_check(p, GW_BAL_TCP_CHECK);
}
static int begin_http(parse *p, statement *s)
{
    (void)s;
    return begin_check(p, GW_BAL_HTTP_GET);
}
static int begin_rdma(parse *p, statement *s)
{
    (void)s;
    return begin_check(p, GW_BAL_RDMA_CHECK);
}
static int no_check(parse *p, statement *s)
{
    (void)s;
    return begin_check(p, GW_BAL_NO_CHECK);
}

static int set_check_port(parse *p, statement *s)
{
    return gw_bal_take_u16(p, s, 1, 1, 65535, &p->check->port);
}
static int set_timeout(parse *p, statement *s)
{
    return gw_bal_take_seconds(p, s, &p->check->timeout_ns);
}
static int set_interval(parse *p, statement *s)
{
    if (p->check == &p->worker.check && !p->worker.has_check) begin_check(p, p->added->check.kind);
    return gw_bal_take_seconds(p, s, &p->check->interval_ns);
}

static int set_count(parse *p, statement *s, uint16_t *out)
{
    return gw_bal_take_u16(p, s, 1, 1, 1000, out);
}
static int set_rise(parse *p, statement *s)
{
    return set_count(p, s, &p->check->rise);
}
static int set_fall(parse *p, statement *s)
{
    return set_count(p, s, &p->check->fall);
}
/* keepalived counts the tries after the first. */
static int set_retry(parse *p, statement *s)
{
    int error = set_count(p, s, &p->check->fall);
    p->check->fall++;
    return error;
}
static int set_path(parse *p, statement *s)
{
    if (s->word[1][0] != '/') return gw_bal_wrong(p, s, "%.64s: a path begins with /", s->word[1]);
    return gw_bal_take_text(p, s, p->check->path, sizeof(p->check->path));
}
static int set_host(parse *p, statement *s)
{
    return gw_bal_take_text(p, s, p->check->host, sizeof(p->check->host));
}
static int set_status(parse *p, statement *s)
{
    return gw_bal_take_u16(p, s, 1, 100, 599, &p->check->status);
}

#define COMMON_CHECK                                                                                         \
    {"connect_port", 1, 1, set_check_port, NULL, NULL}, {"connect_timeout", 1, 1, set_timeout, NULL, NULL},  \
        {"delay_loop", 1, 1, set_interval, NULL, NULL}, {"rise", 1, 1, set_rise, NULL, NULL},                \
        {"fall", 1, 1, set_fall, NULL, NULL},                                                                \
    {                                                                                                        \
        "retry", 1, 1, set_retry, NULL, NULL                                                                 \
    }

static int set_model(parse *p, statement *s)
{
    return gw_bal_take_text(p, s, p->check->model, sizeof(p->check->model));
}

static const struct gw_bal_keyword rdma_keywords[] = {
    COMMON_CHECK,
    {"model", 1, 1, set_model, NULL, NULL},
    {0},
};

static const struct gw_bal_keyword check_keywords[] = {COMMON_CHECK, {0}};

static const struct gw_bal_keyword url_keywords[] = {
    {"path", 1, 1, set_path, NULL, NULL},
    {"status_code", 1, 1, set_status, NULL, NULL},
    {"virtualhost", 1, 1, set_host, NULL, NULL},
    {0},
};

static const struct gw_bal_keyword http_keywords[] = {
    COMMON_CHECK,
    {"url", 0, 0, NULL, url_keywords, NULL},
    {"virtualhost", 1, 1, set_host, NULL, NULL},
    {0},
};

#define CHECKS                                                                                               \
    {"TCP_CHECK", 0, 0, begin_tcp, check_keywords, NULL},                                                    \
        {"HTTP_GET", 0, 0, begin_http, http_keywords, NULL},                                                 \
        {"RDMA_CHECK", 0, 0, begin_rdma, rdma_keywords, NULL}, {"NO_CHECK", 0, 0, no_check, NULL, NULL},     \
    {                                                                                                        \
        "delay_loop", 1, 1, set_interval, NULL, NULL                                                         \
    }

/* ---- real_server ---- */

static int set_weight(parse *p, statement *s)
{
    uint64_t n = 0;
    int error = gw_bal_take_number(p, s, 1, 0, GW_BAL_WEIGHT, &n);
    p->worker.weight = (uint32_t)n;
    return error;
}
static int set_worker_name(parse *p, statement *s)
{
    return gw_bal_take_text(p, s, p->worker.name, sizeof(p->worker.name));
}

static int set_drain(parse *p, statement *s)
{
    int error = gw_bal_take_yes(p, s, &p->worker.drain);
    p->worker.file_drain = p->worker.drain;
    return error;
}

static const struct gw_bal_keyword worker_keywords[] = {
    {"drain", 0, 1, set_drain, NULL, NULL},
    {"weight", 1, 1, set_weight, NULL, NULL},
    {"name", 1, 1, set_worker_name, NULL, NULL},
    CHECKS,
    {0},
};

/* The service enters the model with its first worker, so that the worker can be looked at in place. */
static int add_service(parse *p)
{
    if (p->added) return 0;
    if (gw_bal_add_service(&p->config->model, &p->service, &p->added))
        return gw_bal_wrong_there(p, p->service_line);
    return 0;
}

static int begin_worker(parse *p, statement *s)
{
    uint64_t port = p->service.port;
    p->worker = (struct gw_bal_worker){.weight = 1};
    p->check = &p->worker.check;
    int error = add_service(p);
    if (!error) error = gw_bal_take_addr(p, s, 1, &p->worker.addr);
    if (!error && s->words == 3) error = gw_bal_take_number(p, s, 2, 0, 65535, &port);
    p->worker.port = port == p->service.port ? 0 : (uint16_t)port;
    return error;
}

static int end_worker(parse *p, statement *s)
{
    p->check = &p->service.check;
    if (gw_bal_add_worker(&p->config->model, p->added, &p->worker, NULL))
        return gw_bal_wrong_there(p, s->line);
    return 0;
}

/* ---- virtual_server ---- */

/* What says how the service works comes before its workers, who must fit it. */
static int early(parse *p, statement *s)
{
    return p->added ? gw_bal_wrong(p, s, "it must stand before the first real_server") : 0;
}

static int set_algo(parse *p, statement *s)
{
    int error = early(p, s);
    return error ? error : gw_bal_take_name(p, s, gw_bal_sched_names, &p->service.sched);
}
static int set_kind(parse *p, statement *s)
{
    int error = early(p, s);
    return error ? error : gw_bal_take_name(p, s, gw_bal_forward_names, &p->service.forward);
}
static int set_protocol(parse *p, statement *s)
{
    int error = early(p, s);
    return error ? error : gw_bal_take_name(p, s, gw_bal_protocol_names, &p->service.protocol);
}
static int set_name(parse *p, statement *s)
{
    int error = early(p, s);
    return error ? error : gw_bal_take_text(p, s, p->service.name, sizeof(p->service.name));
}
static int set_jet(parse *p, statement *s)
{
    int error = early(p, s);
    return error ? error : gw_bal_take_yes(p, s, &p->service.jet);
}

const struct gw_bal_keyword gw_bal_keywords_service[] = {
    {"lb_algo", 1, 1, set_algo, NULL, NULL},
    {"lvs_sched", 1, 1, set_algo, NULL, NULL},
    {"lb_kind", 1, 1, set_kind, NULL, NULL},
    {"lvs_method", 1, 1, set_kind, NULL, NULL},
    {"protocol", 1, 1, set_protocol, NULL, NULL},
    {"name", 1, 1, set_name, NULL, NULL},
    {"jet", 0, 1, set_jet, NULL, NULL},
    CHECKS,
    {"real_server", 1, 2, begin_worker, worker_keywords, end_worker},
    {0},
};

int gw_bal_begin_service(parse *p, statement *s)
{
    p->service = (struct gw_bal_service){.sched = GW_BAL_WLC};
    gw_bal_check_default(&p->service.check);
    p->check = &p->service.check;
    p->added = NULL;
    p->service_line = s->line;
    int error = gw_bal_take_addr(p, s, 1, &p->service.addr);
    return !error && s->words == 3 ? gw_bal_take_u16(p, s, 2, 0, 65535, &p->service.port) : error;
}

int gw_bal_end_service(parse *p, statement *s)
{
    (void)s;
    int error = add_service(p);
    if (!error)
        gw_bal_set_check(&p->config->model, p->added,
                         &p->service.check); /* it may stand behind the workers */
    return error;
}
