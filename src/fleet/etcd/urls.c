/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the URLs of etcd's members, and looks their names up while the loop goes on. */
#include "src/fleet/etcd/urls.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <gpuwire/error.h>

#define MAX_URL 300 /* bytes */
#define HOST    256

/* ---- URLs ---- */

static int url_bad(const char *url, size_t n)
{
    return gw_error(-EINVAL, "%.*s: expected http://HOST:PORT or https://HOST:PORT of etcd", (int)n, url);
}

static bool url_is_port(const char *text)
{
    char *end;
    unsigned long port = strtoul(text, &end, 10);
    return *text >= '0' && *text <= '9' && !*end && port > 0 && port < 65536;
}

/* "HOST:PORT", "[IPV6]:PORT", or one without a port. */
static bool url_is_authority(const char *s, bool *has_port)
{
    const char *end = *s == '[' ? strchr(s, ']') : s + strcspn(s, ":");
    size_t n = end ? (size_t)(end - s) : 0;
    if (*s == '[' && end) end++;
    if (!n || n >= HOST || strpbrk(s, "/?#@ \"\\") || (*s == '[' && n < 3)) return false;
    for (const char *c = s; *c; c++)
        if ((unsigned char)*c <= ' ' || (unsigned char)*c >= 127) return false;
    *has_port = *end == ':';
    return *has_port ? url_is_port(end + 1) : !*end;
}

static int url_add(struct fleet_etcd_urls *urls, const char *url, size_t n)
{
    char text[MAX_URL];
    bool has_port;
    while (n && url[n - 1] == '/') n--;
    if (n >= sizeof(text)) return url_bad(url, MAX_URL);
    snprintf(text, sizeof(text), "%.*s", (int)n, url);
    bool encrypted = !strncmp(text, "https://", 8);
    if (!encrypted && strncmp(text, "http://", 7)) return url_bad(url, n);
    const char *authority = text + (encrypted ? 8 : 7);
    if (!url_is_authority(authority, &has_port)) return url_bad(url, n);
    if (urls->n == FLEET_ETCD_MAX_URLS)
        return gw_error(-EINVAL, "%d URLs of etcd at most", FLEET_ETCD_MAX_URLS);
    if (urls->n && encrypted != urls->encrypted)
        return gw_error(-EINVAL, "%s: etcd's URLs must all be http, or all be https", text);
    urls->encrypted = encrypted;
    char *base;
    if (asprintf(&base, "%s%s", text, has_port ? "" : ":2379") < 0) return gw_error_errno(-ENOMEM, "etcd");
    urls->base[urls->n] = base;
    urls->authority[urls->n++] = base + (authority - text);
    return 0;
}

int fleet_etcd_urls_parse(const char *text, struct fleet_etcd_urls *urls)
{
    *urls = (struct fleet_etcd_urls){0};
    int err = 0;
    for (const char *at = text; !err; at++) {
        size_t n = strcspn(at, ",");
        err = url_add(urls, at, n);
        at += n;
        if (!*at) break;
    }
    if (err) fleet_etcd_urls_free(urls);
    return err;
}

void fleet_etcd_urls_free(struct fleet_etcd_urls *urls)
{
    for (uint32_t i = 0; i < urls->n; i++) free(urls->base[i]);
    *urls = (struct fleet_etcd_urls){0};
}

/* ---- names ---- */

struct fleet_etcd_resolve {
    struct gaicb request, *list[1];
    struct addrinfo wish;
    bool is_number;
    char host[HOST], port[8];
};

struct fleet_etcd_resolve *fleet_etcd_resolve_begin(const char *authority)
{
    struct fleet_etcd_resolve *r = calloc(1, sizeof(*r));
    if (!r) return NULL;
    const char *colon = strrchr(authority, ':');
    size_t bracket = *authority == '[';
    snprintf(r->host, sizeof(r->host), "%.*s", (int)((size_t)(colon - authority) - 2 * bracket),
             authority + bracket);
    snprintf(r->port, sizeof(r->port), "%s", colon + 1);
    r->wish.ai_socktype = SOCK_STREAM;
    r->wish.ai_flags = AI_NUMERICHOST;
    if (!getaddrinfo(r->host, r->port, &r->wish, &r->request.ar_result)) { /* a number needs no thread */
        r->is_number = true;
        return r;
    }
    r->wish.ai_flags = 0;
    r->request = (struct gaicb){.ar_name = r->host, .ar_service = r->port, .ar_request = &r->wish};
    r->list[0] = &r->request;
    if (!getaddrinfo_a(GAI_NOWAIT, r->list, 1, NULL)) return r;
    free(r);
    return NULL;
}

int fleet_etcd_resolve_look(struct fleet_etcd_resolve *r, char *address, size_t size, const char **why)
{
    char host[INET6_ADDRSTRLEN];
    int err = r->is_number ? 0 : gai_error(&r->request);
    if (err == EAI_INPROGRESS) return -EAGAIN;
    const struct addrinfo *a = r->request.ar_result;
    if (!err) err = getnameinfo(a->ai_addr, a->ai_addrlen, host, sizeof(host), NULL, 0, NI_NUMERICHOST);
    if (err) {
        *why = gai_strerror(err);
        return -EHOSTUNREACH;
    }
    snprintf(address, size, a->ai_family == AF_INET6 ? "[%s]:%s" : "%s:%s", host, r->port);
    return 0;
}

void fleet_etcd_resolve_end(struct fleet_etcd_resolve *r)
{
    /* What cannot be cancelled is the C library's until it has an answer. Waiting for that may take long, so
     * the memory is left to it. */
    if (!r || (gai_error(&r->request) == EAI_INPROGRESS && gai_cancel(&r->request) == EAI_NOTCANCELED))
        return;
    if (r->request.ar_result) freeaddrinfo(r->request.ar_result);
    free(r);
}
