/* SPDX-License-Identifier: Apache-2.0 */
#include "src/http/origin.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#define NAME 256

/* The name or address of "HOST", "HOST:PORT" or "[ADDRESS]:PORT", without the brackets. 0 when it is none. */
static int split_host(const char *host, char name[NAME])
{
    int bracket = host[0] == '[';
    size_t n = strcspn(host + bracket, bracket ? "]" : ":");
    const char *rest = host + bracket + n + bracket;
    if (!n || n >= NAME || (bracket && host[1 + n] != ']')) return 0;
    if (*rest && (*rest != ':' || strspn(rest + 1, "0123456789") != strlen(rest + 1))) return 0;
    memcpy(name, host + bracket, n);
    name[n] = 0;
    return 1;
}

static int is_address(const char *name)
{
    struct in6_addr any;
    return inet_pton(AF_INET, name, &any) == 1 || inet_pton(AF_INET6, name, &any) == 1;
}

static int is_ours(const char *name, const char *const *names)
{
    char own[NAME] = "";
    if (is_address(name) || !strcasecmp(name, "localhost")) return 1;
    if (!gethostname(own, sizeof(own) - 1) && own[0] && !strcasecmp(name, own)) return 1;
    for (; names && *names; names++)
        if (!strcasecmp(name, *names)) return 1;
    return 0;
}

const char *gw_http_foreign(const char *host, const char *origin, const char *const *names)
{
    char name[NAME];
    if (host && (!split_host(host, name) || !is_ours(name, names)))
        return "the Host header names another host; call by address, or as localhost";
    if (!origin) return NULL;
    const char *from = strstr(origin, "://");
    return from && host && !strcasecmp(from + 3, host) ? NULL : "a web page of another site may not call";
}

int gw_http_is_json(const char *type)
{
    static const char json[] = "application/json";
    size_t n = sizeof(json) - 1;
    return type && !strncasecmp(type, json, n) && (!type[n] || strchr("; \t", type[n]));
}
