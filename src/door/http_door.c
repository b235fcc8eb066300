/* SPDX-License-Identifier: Apache-2.0 */
/* Starts the HTTP servers of a door, with the secrets that its options name. */
#include "src/door/http_door.h"

#include <errno.h>
#include <stdlib.h>

#include <gpuwire/error.h>

#include "src/door/secret.h"

/* The texts that the daemon needs, and only while it starts. */
struct ports_secrets {
    char *cert, *key, *token;
};

static int ports_read_secrets(const struct gw_http_door_opts *o, struct ports_secrets *s)
{
    int err = 0;
    if (!o->cert != !o->key) return gw_error(-EINVAL, "--tls-cert and --tls-key go together");
    if (o->cert) err = gw_secret_read("--tls-cert", o->cert, &s->cert);
    if (!err && o->key) err = gw_secret_read("--tls-key", o->key, &s->key);
    if (!err) err = gw_secret_take_token(o->token, o->token_file, &s->token);
    return err;
}

int gw_http_ports_open(const struct gw_http_door_opts *o, uint32_t max_each,
                       const struct gw_httpd_handler *handler, const struct gw_httpd_handler *metrics,
                       struct gw_http_ports *out)
{
    struct ports_secrets secrets = {0};
    struct gw_httpd_handler both;
    struct gw_proxies proxies;
    int err = gw_proxies_parse("--trusted-proxy", o->trusted_proxies, &proxies);
    if (!err) err = ports_read_secrets(o, &secrets);
    struct gw_httpd_opts opts = {.host = o->host,
                                 .port = o->port,
                                 .max_each = max_each,
                                 .each_option = "--connections-per-client",
                                 .host_names = o->host_names,
                                 .proxies = &proxies,
                                 .max_body = o->max_body,
                                 .cert = secrets.cert,
                                 .key = secrets.key,
                                 .token = secrets.token,
                                 .open_health = o->open_health};
    if (o->beside) {
        out->fork = (struct gw_http_fork){*handler, *o->beside, o->is_beside};
        both = gw_http_fork_handler(&out->fork);
        handler = &both;
    }
    if (!err) err = gw_httpd_start(&opts, handler, &out->httpd);
    opts.option = "--metrics-port";
    opts.port = o->metrics_port;
    if (!err && o->metrics_port) err = gw_httpd_start(&opts, metrics, &out->metrics);
    gw_secret_forget(secrets.cert);
    gw_secret_forget(secrets.key);
    gw_secret_forget(secrets.token);
    return err;
}

void gw_http_ports_tend(struct gw_http_ports *p)
{
    gw_httpd_tend(p->httpd);
    if (p->metrics) gw_httpd_tend(p->metrics);
}

void gw_http_ports_stop(struct gw_http_ports *p)
{
    gw_httpd_stop(p->metrics);
    gw_httpd_stop(p->httpd);
}
