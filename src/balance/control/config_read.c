/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the configuration file: its global settings, and the tables of its statements. */
#include "src/balance/control/config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <gpuwire/error.h>

#include "src/balance/check.h"
#include "src/balance/control/config_check.h"
#include "src/balance/control/config_plan.h"
#include "src/balance/control/include.h"
#include "src/balance/control/parse.h"
#include "src/balance/control/translate.h"

typedef struct gw_bal_parse parse;
typedef const struct gw_bal_statement statement;

/* ---- global_defs ---- */

static int set_endpoint(parse *p, statement *s, struct gw_bal_addr *addr, uint16_t *port)
{
    int err = gw_bal_take_addr(p, s, 1, addr);
    return err ? err : gw_bal_take_u16(p, s, 2, 0, 65535, port);
}

static int set_api(parse *p, statement *s)
{
    struct gw_bal_addr addr;
    struct gw_bal_global *g = &p->config->global;
    int err = set_endpoint(p, s, &addr, &g->api_port);
    if (!err) gw_bal_addr_text(&addr, g->api_host);
    return err;
}
static int config_set_token(parse *p, statement *s)
{
    return gw_bal_take_text(p, s, p->config->global.token_file, GW_BAL_TEXT);
}
static int set_cert(parse *p, statement *s)
{
    return gw_bal_take_text(p, s, p->config->global.tls_cert, GW_BAL_TEXT);
}
static int config_set_key(parse *p, statement *s)
{
    return gw_bal_take_text(p, s, p->config->global.tls_key, GW_BAL_TEXT);
}
static int set_run_dir(parse *p, statement *s)
{
    return gw_bal_take_text(p, s, p->config->global.run_dir, GW_BAL_TEXT);
}
static int set_flows(parse *p, statement *s)
{
    return gw_bal_take_number(p, s, 1, 1024, 1u << 30, &p->config->global.flows);
}
static int set_wide_flows(parse *p, statement *s)
{
    return gw_bal_take_number(p, s, 1, 1024, 1u << 28, &p->config->global.wide_flows);
}
static int set_huge(parse *p, statement *s)
{
    return gw_bal_take_yes(p, s, &p->config->global.huge_pages);
}
static int set_reject(parse *p, statement *s)
{
    return gw_bal_take_yes(p, s, &p->config->global.reject);
}
static int set_vrrp(parse *p, statement *s)
{
    return gw_bal_take_yes(p, s, &p->config->global.vrrp);
}
static int set_standby(parse *p, statement *s)
{
    return set_endpoint(p, s, &p->config->global.standby, &p->config->global.standby_port);
}
static int set_listen(parse *p, statement *s)
{
    return set_endpoint(p, s, &p->config->global.listen, &p->config->global.listen_port);
}
static int set_sync_key(parse *p, statement *s)
{
    return gw_bal_take_text(p, s, p->config->global.sync_key_file, GW_BAL_TEXT);
}

static int config_read_seed(parse *p, statement *s)
{
    return gw_bal_take_text(p, s, p->config->global.seed_file, GW_BAL_TEXT);
}

static int set_cores(parse *p, statement *s)
{
    struct gw_bal_global *g = &p->config->global;
    uint64_t n;
    for (unsigned k = 1; k < s->words; k++) {
        int err = gw_bal_take_number(p, s, k, 0, 1023, &n);
        if (err) return err;
        for (unsigned i = 0; i < g->cores; i++)
            if (g->core[i] == n) return gw_bal_wrong(p, s, "core %u is named twice", (unsigned)n);
        if (g->cores == GW_BAL_CORES) return gw_bal_wrong(p, s, "more than %u cores", GW_BAL_CORES);
        g->core[g->cores++] = (uint16_t)n;
    }
    return 0;
}

static int config_set_timeout(parse *p, statement *s)
{
    static const char *const names[] = {"syn", "established", "fin_wait",   "close",
                                        "udp", "udp_stream",  "queue_pair", NULL};
    return gw_bal_take_seconds(p, s, &p->config->global.timeout_ns[gw_bal_name_index(names, s->word[0])]);
}

static const struct gw_bal_keyword timeout_keywords[] = {
    {"syn", 1, 1, config_set_timeout, NULL, NULL},
    {"established", 1, 1, config_set_timeout, NULL, NULL},
    {"fin_wait", 1, 1, config_set_timeout, NULL, NULL},
    {"close", 1, 1, config_set_timeout, NULL, NULL},
    {"udp", 1, 1, config_set_timeout, NULL, NULL},
    {"udp_stream", 1, 1, config_set_timeout, NULL, NULL},
    {"queue_pair", 1, 1, config_set_timeout, NULL, NULL},
    {0},
};

static const struct gw_bal_keyword global_keywords[] = {
    {"api", 2, 2, set_api, NULL, NULL},
    {"token_file", 1, 1, config_set_token, NULL, NULL},
    {"tls_cert", 1, 1, set_cert, NULL, NULL},
    {"tls_key", 1, 1, config_set_key, NULL, NULL},
    {"run_dir", 1, 1, set_run_dir, NULL, NULL},
    {"cores", 1, GW_BAL_WORDS - 2, set_cores, NULL, NULL},
    {"flows", 1, 1, set_flows, NULL, NULL},
    {"wide_flows", 1, 1, set_wide_flows, NULL, NULL},
    {"timeouts", 0, 0, NULL, timeout_keywords, NULL},
    {"huge_pages", 1, 1, set_huge, NULL, NULL},
    {"reject", 1, 1, set_reject, NULL, NULL},
    {"vrrp", 1, 1, set_vrrp, NULL, NULL},
    {"standby", 2, 2, set_standby, NULL, NULL},
    {"sync_listen", 2, 2, set_listen, NULL, NULL},
    {"script_user", 1, 2, gw_bal_set_script_user, NULL, NULL},
    {"sync_key_file", 1, 1, set_sync_key, NULL, NULL},
    {"seed_file", 1, 1, config_read_seed, NULL, NULL},
    {0},
};

/* ---- interface and device ---- */

static int new_port(parse *p, statement *s)
{
    struct gw_bal_global *g = &p->config->global;
    p->port = &p->spare_port;
    if (g->ports == GW_BAL_PORTS) return gw_bal_wrong(p, s, "there may be %u ports", GW_BAL_PORTS);
    p->port = &g->port[g->ports++];
    return 0;
}

static int begin_interface(parse *p, statement *s)
{
    int err = new_port(p, s);
    if (err) return err;
    snprintf(p->port->driver, sizeof(p->port->driver), "af_packet");
    return gw_bal_take_text(p, s, p->port->interface, 16); /* as the kernel has it */
}
static int begin_device(parse *p, statement *s)
{
    int err = new_port(p, s);
    if (err) return err;
    return gw_bal_take_text(p, s, p->port->device, sizeof(p->port->device));
}

static int set_driver(parse *p, statement *s)
{
    static const char *const drivers[] = {"af_packet", "af_xdp", "tap", NULL};
    uint8_t i = 0;
    if (!p->port->interface[0])
        return gw_bal_wrong(p, s, "a device's name says its driver already; remove this");
    int err = gw_bal_take_name(p, s, drivers, &i);
    if (!err) snprintf(p->port->driver, sizeof(p->port->driver), "%s", drivers[i]);
    return err;
}

/* "10.0.0.1/24" */
static int set_address(parse *p, statement *s)
{
    struct gw_bal_addr a;
    char *slash = strchr(s->word[1], '/'), *end = NULL;
    if (slash) *slash = 0;
    int err = gw_bal_take_addr(p, s, 1, &a);
    if (err) return err;
    long n = slash ? strtol(slash + 1, &end, 10) : -1;
    if (n < 1 || n > (a.family == 6 ? 128 : 32) || *end || slash[1] < '0' || slash[1] > '9')
        return gw_bal_wrong(p, s, "%.64s: it must be ADDRESS/BITS, such as 10.0.0.2/24", s->word[1]);
    *(a.family == 6 ? &p->port->address6 : &p->port->address4) = a;
    *(a.family == 6 ? &p->port->prefix6 : &p->port->prefix4) = (uint8_t)n;
    return 0;
}
static int set_gateway(parse *p, statement *s)
{
    struct gw_bal_addr a;
    int err = gw_bal_take_addr(p, s, 1, &a);
    if (!err) *(a.family == 6 ? &p->port->gateway6 : &p->port->gateway4) = a;
    return err;
}
static int set_vlan(parse *p, statement *s)
{
    return gw_bal_take_u16(p, s, 1, 1, 4094, &p->port->vlan);
}
static int config_read_mtu(parse *p, statement *s)
{
    return gw_bal_take_u16(p, s, 1, 1280, 9216, &p->port->mtu);
}

static const struct gw_bal_keyword port_keywords[] = {
    {"driver", 1, 1, set_driver, NULL, NULL},   {"address", 1, 1, set_address, NULL, NULL},
    {"gateway", 1, 1, set_gateway, NULL, NULL}, {"vlan", 1, 1, set_vlan, NULL, NULL},
    {"mtu", 1, 1, config_read_mtu, NULL, NULL}, {0},
};

static const struct gw_bal_keyword keywords[] = {
    {"global_defs", 0, 0, NULL, global_keywords, NULL},
    {"interface", 1, 1, begin_interface, port_keywords, NULL},
    {"device", 1, 1, begin_device, port_keywords, NULL},
    {"virtual_server", 0, GW_BAL_WORDS, gw_bal_begin_service, gw_bal_keywords_service, gw_bal_end_service},
    {"virtual_server_group", 1, 1, gw_bal_begin_group, gw_bal_keywords_group, NULL},
    {0},
};

/* ---- the file ---- */

void gw_bal_config_default(struct gw_bal_config *c)
{
    memset(c, 0, sizeof(*c));
    snprintf(c->global.api_host, sizeof(c->global.api_host), "127.0.0.1");
    snprintf(c->global.run_dir, sizeof(c->global.run_dir), "/run/gpuwire-balance");
    c->global.api_port = GW_BAL_API;
    c->global.reject = 1;
}

static void wrong_whole(parse *p, const char *file)
{
    gw_bal_report_wrong(&p->config->report, file, 0, ++p->order, gw_last_error());
}

static void look_at_global(parse *p, const char *file)
{
    const struct gw_bal_global *g = &p->config->global;
    struct bal_port ports[BAL_PORTS] = {0};
    struct bal_attr attr;
    char why[BAL_WHY];
    if (!g->tls_cert[0] != !g->tls_key[0]) {
        gw_error(-EINVAL, "tls_cert and tls_key go together; give both");
        wrong_whole(p, file);
    }
    if ((g->standby.family || g->listen.family) && !g->sync_key_file[0]) {
        gw_error(-EINVAL, "standby and sync_listen need sync_key_file: the key that both balancers have");
        wrong_whole(p, file);
    }
    gw_bal_translate_attr(g, &attr);
    if (bal_check_attr(&attr, why)) {
        gw_error(-EINVAL, "%s", why);
        wrong_whole(p, file);
    }
    gw_bal_to_ports(g, ports);
    for (unsigned i = 0; i < g->ports; i++)
        if (bal_check_port(&ports[i], why)) {
            gw_error(-EINVAL, "interface %s%s: %s", g->port[i].interface, g->port[i].device, why);
            wrong_whole(p, file);
        }
}

/* Checks that the data plane could run it: ports may come after the services. */
static void look_at_whole(parse *p, const char *file)
{
    struct gw_bal_model *m = &p->config->model;
    look_at_global(p, file);
    m->global = &p->config->global;
    int refused = gw_bal_model_refuse(m);
    m->global = NULL; /* *c may be copied */
    if (refused < 0) wrong_whole(p, file);
    for (const struct gw_bal_service *s = m->services; refused > 0 && s; s = s->next) {
        if (s->refused[0]) {
            gw_error(-EINVAL, "service %s: %s", s->name, s->refused);
            gw_bal_wrong_at(p, gw_bal_plan_place(p->plan, s, NULL));
        }
        for (const struct gw_bal_worker *w = s->workers; w; w = w->next)
            if (w->refused[0] && !s->refused[0]) {
                gw_error(-EINVAL, "service %s: worker %s: %s", s->name, w->name, w->refused);
                gw_bal_wrong_at(p, gw_bal_plan_place(p->plan, s, w));
            }
    }
}

/* The first mistake, and how many there are. */
static int config_verdict(struct gw_bal_report *r)
{
    unsigned others = r->wrong.n + r->more - 1;
    if (!r->wrong.n) return 0;
    gw_bal_report_sort(r);
    if (!others) return gw_error(-EINVAL, "%s", r->wrong.line[0].text);
    return gw_error(-EINVAL, "%.300s; there %s %u more mistake%s", r->wrong.line[0].text,
                    others == 1 ? "is" : "are", others, others == 1 ? "" : "s");
}

static int parse_all(const char *file, char *text, struct gw_bal_config *c, bool may_include)
{
    struct gw_bal_parse p = {
        .config = c, .include = may_include ? gw_bal_parse_include : NULL, .bytes = strlen(text)};
    gw_bal_config_default(c);
    p.plan = calloc(1, sizeof(*p.plan));
    if (!p.plan) return gw_error_errno(-ENOMEM, "%s", file);
    p.plan->end = &p.plan->services;
    p.port = &p.spare_port;
    c->model.file_hash = gw_bal_config_hash(0, text);
    gw_bal_reader_open(&p.reader, file, text);
    if (gw_bal_parse_from(&p, p.reader.at))
        wrong_whole(&p, file);
    else
        gw_bal_parse_block(&p, keywords, NULL);
    gw_bal_plan_carry_out(&p);
    look_at_whole(&p, file);
    gw_bal_plan_free(p.plan);
    gw_bal_parse_free(&p);
    return config_verdict(&c->report);
}

int gw_bal_config_parse(const char *file, char *text, struct gw_bal_config *c)
{
    return parse_all(file, text, c, 0);
}

int gw_bal_config_read(const char *file, struct gw_bal_config *c)
{
    size_t bytes;
    gw_bal_config_default(c);
    char *text = gw_bal_parse_text(file, GW_BAL_MAX, &bytes);
    if (!text) {
        gw_bal_report_wrong(&c->report, file, 0, 1, gw_last_error());
        return config_verdict(&c->report);
    }
    int err = parse_all(file, text, c, 1);
    free(text);
    return err;
}

int gw_bal_config_say(const char *file, const struct gw_bal_config *c, int err)
{
    unsigned n = c->report.wrong.n + c->report.more;
    gw_bal_report_print(&c->report, err ? stderr : stdout, err ? "gpuwire balance: " : "");
    fflush(stdout);
    return err && n ? gw_error(err, "%s: %u mistake%s", file, n, n == 1 ? "" : "s") : err;
}

void gw_bal_config_free(struct gw_bal_config *c)
{
    gw_bal_model_free(&c->model);
    gw_bal_report_free(&c->report);
}
