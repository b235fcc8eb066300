/* SPDX-License-Identifier: Apache-2.0 */
/* Splits a server's URL into scheme, host and port. */
#include "src/client/url.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <gpuwire/error.h>

static const struct scheme {
    const char *name, *base, *port;
    enum gw_url_door door;
    int encrypted;
} schemes[] = {
    {"rdma://", "http", ":8000", GW_URL_RDMA, 0}, {"rdmas://", "https", ":8000", GW_URL_RDMA, 1},
    {"http://", "http", ":8000", GW_URL_HTTP, 0}, {"https://", "https", ":443", GW_URL_HTTP, 1},
    {"grpc://", "grpc", ":8001", GW_URL_GRPC, 0}, {"grpcs://", "grpcs", ":8001", GW_URL_GRPC, 1},
    {"fleet://", "fleet", "", GW_URL_FLEET, 0},   {"fleet+etcd://", "fleet+etcd", "", GW_URL_FLEET, 0},
};
#define SCHEMES (sizeof(schemes) / sizeof(schemes[0]))

static const struct scheme *scheme_of(const char *server)
{
    if (!strstr(server, "://")) return &schemes[0];
    for (size_t i = 0; i < SCHEMES; i++)
        if (!strncmp(server, schemes[i].name, strlen(schemes[i].name))) return &schemes[i];
    return NULL;
}

/* HOST, HOST:PORT, [IPV6] or [IPV6]:PORT in `length` bytes? */
static bool url_is_host(const char *host, size_t length, int *has_port)
{
    const char *end = host + length, *name_end = host;
    if (*host == '[') {
        name_end = memchr(host, ']', length);
        if (!name_end) return false;
        name_end++;
    } else {
        while (name_end < end && *name_end != ':') name_end++;
    }
    *has_port = name_end < end;
    if (name_end == host || (*has_port && (*name_end != ':' || name_end + 1 == end))) return false;
    for (const char *p = name_end + 1; p < end; p++)
        if (*p < '0' || *p > '9') return false;
    for (const char *p = host; p < end; p++)
        if (*p <= ' ' || strchr("@?#%\\\"", *p)) return false;
    return true;
}

/* HOST:PORT[,HOST:PORT], and no more. */
static bool url_is_hosts(const char *hosts)
{
    int has_port;
    for (;; hosts++) {
        size_t length = strcspn(hosts, ",");
        if (!url_is_host(hosts, length, &has_port) || !has_port || memchr(hosts, '/', length)) return false;
        hosts += length;
        if (!*hosts) return true;
    }
}

static int url_parse_fleet(const char *server, const struct scheme *s, struct gw_url *url)
{
    const char *hosts = server + strlen(s->name);
    size_t length = strcspn(hosts, "/");
    const char *fleet = hosts[length] ? hosts + length + 1 : "";
    url->door = s->door;
    url->etcd = !strcmp(s->base, "fleet+etcd");
    url->base = strdup(server);
    url->authority = strndup(hosts, length);
    url->fleet = *fleet ? strdup(fleet) : NULL;
    if (!url->base || !url->authority || (*fleet && !url->fleet))
        return gw_error_errno(-ENOMEM, "server %s", server);
    if (url_is_hosts(url->authority) && !strchr(fleet, '/')) return 0;
    return gw_error(-EINVAL, "server %s: expected %sHOST:PORT[,HOST:PORT][/FLEET]", server, s->name);
}

int gw_url_parse(const char *server, struct gw_url *url)
{
    const struct scheme *s = scheme_of(server);
    memset(url, 0, sizeof(*url));
    if (!s)
        return gw_error(
            -ENOTSUP,
            "server %s: must begin with rdma://, rdmas://, http://, https://, grpc://, grpcs:// or fleet://",
            server);
    if (s->door == GW_URL_FLEET) return url_parse_fleet(server, s, url);
    const char *host = strstr(server, "://") ? server + strlen(s->name) : server;
    size_t length = strcspn(host, "/");
    const char *prefix = host + length;
    while (*prefix == '/') prefix++;
    int has_port;
    if (!url_is_host(host, length, &has_port) || strpbrk(prefix, " ?#") ||
        (s->door != GW_URL_HTTP && *prefix))
        return gw_error(-EINVAL, "server %s: not HOST or HOST:PORT", server);
    const char *slash = *prefix && prefix[strlen(prefix) - 1] != '/' ? "/" : "";
    url->door = s->door;
    url->encrypted = s->encrypted;
    if (asprintf(&url->authority, "%.*s%s", (int)length, host, has_port ? "" : s->port) < 0)
        url->authority = NULL;
    if (!url->authority || asprintf(&url->base, "%s://%s/%s%s", s->base, url->authority, prefix, slash) < 0) {
        url->base = NULL;
        return gw_error_errno(-ENOMEM, "server %s", server);
    }
    return 0;
}

void gw_url_free(struct gw_url *url)
{
    free(url->base);
    free(url->authority);
    free(url->fleet);
    url->base = url->authority = url->fleet = NULL;
}
