/* SPDX-License-Identifier: Apache-2.0 */
/* The running configuration as a file: what `gpuwire balance save` prints. */
#include <stdio.h>
#include <stdlib.h>

#include "src/balance/control/config.h"
#include "src/balance/control/drain.h"

static void write_http(FILE *f, const struct gw_bal_ask *a, const char *in)
{
    fprintf(f, "%s    url {\n%s        path \"%s\"\n", in, in, a->path);
    if (a->status[0].from) fprintf(f, "%s        status_code", in);
    for (unsigned i = 0; i < GW_BAL_RANGES && a->status[i].from; i++)
        fprintf(f, a->status[i].from == a->status[i].to ? " %u" : " %u-%u", a->status[i].from,
                a->status[i].to);
    if (a->status[0].from) fprintf(f, "\n");
    if (a->digest[0]) fprintf(f, "%s        digest %s\n", in, a->digest);
    if (a->host[0]) fprintf(f, "%s        virtualhost \"%s\"\n", in, a->host);
    fprintf(f, "%s    }\n", in);
}

static void write_udp(FILE *f, const struct gw_bal_ask *a, const char *in)
{
    if (a->path[0]) fprintf(f, "%s    payload %s\n", in, a->path);
    if (!a->needs_reply) return;
    fprintf(f, "%s    require_reply%s%s\n%s    min_reply_length %u\n%s    max_reply_length %u\n", in,
            a->model[0] ? " " : "", a->model, in, a->least, in, a->most);
}

static void config_write_script(FILE *f, const struct gw_bal_ask *a, const char *in)
{
    fprintf(f, "%s    misc_path \"%s\"\n", in, a->path);
    if (a->dynamic) fprintf(f, "%s    misc_dynamic\n", in);
    if (a->host[0]) fprintf(f, "%s    user %s\n", in, a->host);
}

static void write_ask(FILE *f, const struct gw_bal_check *c, const struct gw_bal_ask *a, const char *in)
{
    static const char *const names[] = {
        [GW_BAL_TCP_CHECK] = "TCP_CHECK",   [GW_BAL_HTTP_GET] = "HTTP_GET",
        [GW_BAL_RDMA_CHECK] = "RDMA_CHECK", [GW_BAL_SSL_GET] = "SSL_GET",
        [GW_BAL_UDP_CHECK] = "UDP_CHECK",   [GW_BAL_MISC_CHECK] = "MISC_CHECK"};
    char addr[GW_BAL_ADDR];
    int script = a->kind == GW_BAL_MISC_CHECK;
    fprintf(f, "%s%s {\n%s    delay_loop %g\n%s    %s %g\n%s    rise %u\n%s    fall %u\n", in, names[a->kind],
            in, (double)c->interval_ns / 1e9, in, script ? "misc_timeout" : "connect_timeout",
            (double)a->timeout_ns / 1e9, in, c->rise, in, c->fall);
    if (c->again_ns) fprintf(f, "%s    delay_before_retry %g\n", in, (double)c->again_ns / 1e9);
    if (a->port && !script) fprintf(f, "%s    connect_port %u\n", in, a->port);
    if (a->connect.family) fprintf(f, "%s    connect_ip %s\n", in, gw_bal_addr_text(&a->connect, addr));
    if (a->bind.family) fprintf(f, "%s    bindto %s\n", in, gw_bal_addr_text(&a->bind, addr));
    if (a->kind == GW_BAL_HTTP_GET || a->kind == GW_BAL_SSL_GET) write_http(f, a, in);
    if (a->kind == GW_BAL_RDMA_CHECK) fprintf(f, "%s    model \"%s\"\n", in, a->model);
    if (a->kind == GW_BAL_UDP_CHECK) write_udp(f, a, in);
    if (script) config_write_script(f, a, in);
    fprintf(f, "%s}\n", in);
}

static void write_check(FILE *f, const struct gw_bal_check *c, const char *in)
{
    if (c->kind == GW_BAL_NO_CHECK) fprintf(f, "%sNO_CHECK\n", in);
    for (unsigned i = 0; i <= c->others && c->kind != GW_BAL_NO_CHECK; i++)
        write_ask(f, c, gw_bal_ask_of(c, i), in);
}

static void write_worker(FILE *f, const struct gw_bal_service *s, const struct gw_bal_worker *w)
{
    char addr[GW_BAL_ADDR];
    if (w->leave || w->origin == GW_BAL_OF_ITSELF) return; /* the one goes, the other comes by itself */
    if (w->sorry) {
        fprintf(f, "    sorry_server %s %u\n", gw_bal_addr_text(&w->addr, addr), gw_bal_port_of(s, w));
        return;
    }
    fprintf(f, "    real_server %s %u {\n        name %s\n        weight %u\n",
            gw_bal_addr_text(&w->addr, addr), gw_bal_port_of(s, w), w->name, w->weight);
    if (w->drain) fprintf(f, "        drain\n");
    if (w->inhibit) fprintf(f, "        inhibit_on_failure\n");
    if (w->has_check) write_check(f, &w->check, "        ");
    fprintf(f, "    }\n");
}

static void write_persistence(FILE *f, const struct gw_bal_service *s)
{
    struct gw_bal_addr mask = {.family = 4};
    char text[GW_BAL_ADDR];
    if (!s->persist_s) return;
    fprintf(f, "    persistence_timeout %u\n", s->persist_s);
    for (unsigned i = 0; i < s->persist_bits && i < 32; i++) mask.bytes[i / 8] |= (uint8_t)(0x80 >> i % 8);
    if (s->persist_bits && s->addr.family == 6)
        fprintf(f, "    persistence_granularity %u\n", s->persist_bits);
    else if (s->persist_bits)
        fprintf(f, "    persistence_granularity %s\n", gw_bal_addr_text(&mask, text));
}

char *gw_bal_config_write(const struct gw_bal_model *m)
{
    char *text = NULL, addr[GW_BAL_ADDR];
    size_t bytes;
    FILE *f = open_memstream(&text, &bytes);
    if (!f) return NULL;
    for (const struct gw_bal_service *s = m->services; s; s = s->next) {
        fprintf(f, "virtual_server %s %u {\n    name %s\n    protocol %s\n    lb_algo %s\n    lb_kind %s\n",
                gw_bal_addr_text(&s->addr, addr), s->port, s->name, gw_bal_protocol_names[s->protocol],
                gw_bal_sched_names[s->sched], gw_bal_forward_names[s->forward]);
        if (s->jet) fprintf(f, "    jet yes\n");
        write_persistence(f, s);
        if (s->quorum) fprintf(f, "    quorum %u\n", s->quorum);
        uint64_t limit = gw_bal_drain_limit_of(s);
        if (limit != gw_bal_drain_default(s->protocol))
            fprintf(f, "    drain_limit %g\n", limit == GW_BAL_DRAIN_ALWAYS ? 0.0 : (double)limit / 1e9);
        write_check(f, &s->check, "    ");
        for (const struct gw_bal_worker *w = s->workers; w; w = w->next) write_worker(f, s, w);
        fprintf(f, "}\n");
    }
    if (fclose(f)) {
        free(text);
        return NULL;
    }
    return text;
}
