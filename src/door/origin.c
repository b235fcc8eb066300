/* SPDX-License-Identifier: Apache-2.0 */
/* Tells whether a web page of another site has sent a call. */
#include "src/door/origin.h"

#include <arpa/inet.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#define NAME_ROOM 256

struct name {
    char text[NAME_ROOM]; /* without brackets, port and last dot */
    int is_v6;
};

/* The name in "name:port" or "[v6]:port". -1: there is none. */
static int http_origin_take_name(const char *authority, struct name *out)
{
    const char *from = authority, *end;
    out->is_v6 = *from == '[';
    if (out->is_v6) {
        end = strchr(++from, ']');
        if (!end || (end[1] && end[1] != ':')) return -1;
    } else {
        end = from + strcspn(from, ":/?#@ \t");
        if (*end && *end != ':') return -1;
    }
    const char *port = out->is_v6 ? end + 1 : end;
    if (*port && strspn(port + 1, "0123456789") != strlen(port + 1)) return -1;
    size_t n = (size_t)(end - from);
    if (n && !out->is_v6 && from[n - 1] == '.') n--;
    if (!n || n >= sizeof(out->text)) return -1;
    memcpy(out->text, from, n);
    out->text[n] = 0;
    return 0;
}

static bool http_origin_is_address(const struct name *n)
{
    uint8_t bytes[16];
    return inet_pton(n->is_v6 ? AF_INET6 : AF_INET, n->text, bytes) == 1;
}

static bool is_localhost(const char *text)
{
    size_t n = strlen(text), tail = sizeof(".localhost") - 1;
    return !strcasecmp(text, "localhost") || (n > tail && !strcasecmp(text + n - tail, ".localhost"));
}

static bool is_own_name(const char *text)
{
    char own[HOST_NAME_MAX + 1] = "";
    return !gethostname(own, sizeof(own)) && own[0] && !strcasecmp(text, own);
}

static bool is_listed(const char *names, const char *text)
{
    size_t n = strlen(text);
    while (names && *names) {
        names += strspn(names, ", ");
        size_t m = strcspn(names, ", ");
        if (m == n && !strncasecmp(names, text, n)) return true;
        names += m;
    }
    return false;
}

static bool http_origin_is_ours(const char *names, const struct name *n)
{
    return http_origin_is_address(n) || is_localhost(n->text) || is_own_name(n->text) ||
           is_listed(names, n->text);
}

/* An Origin is SCHEME://AUTHORITY. NULL: it is not, as "null" is not. */
static const char *authority_of(const char *origin)
{
    const char *at = strstr(origin, "://");
    return at && at != origin ? at + 3 : NULL;
}

/* The same server, with the port: browsers leave out a scheme's usual one in both. */
static bool same_authority(const char *host, const char *authority)
{
    return host && authority && !strcasecmp(host, authority);
}

const char *gw_http_foreign(const char *host, const char *origin, const char *names)
{
    const char *authority = origin ? authority_of(origin) : NULL;
    struct name page, server;
    if (host && http_origin_take_name(host, &server)) return "the Host header is not a name";
    if (authority && !http_origin_take_name(authority, &page) && is_listed(names, page.text)) return NULL;
    if (origin && !same_authority(host, authority)) return "a web page of another site may not call";
    if (!host || http_origin_is_ours(names, &server) || (!origin && !strchr(server.text, '.'))) return NULL;
    return "the Host header names another host; call by address, or as localhost";
}

bool gw_http_is_json(const char *type)
{
    static const char json[] = "application/json";
    size_t n = sizeof(json) - 1;
    return type && !strncasecmp(type, json, n) && (!type[n] || strchr("; \t", type[n]));
}
