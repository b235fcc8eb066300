/* SPDX-License-Identifier: Apache-2.0 */
/* Names and addresses as people write them. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "src/balance/control/model.h"

const char *const gw_bal_protocol_names[] = {"tcp", "udp", "roce", NULL};
const char *const gw_bal_forward_names[] = {"DR", "TUN", "GUE", "NAT", NULL};
const char *const gw_bal_sched_names[] = {"rr", "wrr", "lc", "wlc", "sh", "mh", "p2c", "lb", NULL};
const char *const gw_bal_check_names[] = {"none", "tcp", "http", "rdma", "https", "udp", "script", NULL};
const char *const gw_bal_state_names[] = {"up", "draining", "down", "drained", "refused", NULL};

int gw_bal_name_index(const char *const *names, const char *text)
{
    for (int i = 0; names[i]; i++)
        if (!strcasecmp(names[i], text)) return i;
    return -1;
}

void gw_bal_plain(char *to, size_t size, const char *from)
{
    size_t n = 0;
    for (; *from && n + 5 <= size; from++) {
        if (*from >= ' ' && *from <= '~' && *from != '"' && *from != '\\')
            to[n++] = *from;
        else
            n += (size_t)snprintf(to + n, 5, "\\x%02x", (unsigned char)*from);
    }
    to[n] = 0;
}

int gw_bal_addr_parse(const char *text, struct gw_bal_addr *out)
{
    struct gw_bal_addr a = {0};
    a.family = 4;
    if (inet_pton(AF_INET, text, a.bytes) != 1) {
        a.family = 6;
        if (inet_pton(AF_INET6, text, a.bytes) != 1) return -EINVAL;
    }
    *out = a;
    return 0;
}

const char *gw_bal_addr_text(const struct gw_bal_addr *a, char text[GW_BAL_ADDR])
{
    if (!inet_ntop(a->family == 6 ? AF_INET6 : AF_INET, a->bytes, text, GW_BAL_ADDR)) text[0] = 0;
    return text;
}

bool gw_bal_addr_same(const struct gw_bal_addr *a, const struct gw_bal_addr *b)
{
    return a->family == b->family && !memcmp(a->bytes, b->bytes, a->family == 6 ? 16 : 4);
}

static void print_endpoint(const struct gw_bal_addr *a, uint16_t port, char text[GW_BAL_ENDPOINT])
{
    char addr[GW_BAL_ADDR];
    snprintf(text, GW_BAL_ENDPOINT, a->family == 6 ? "[%s]:%u" : "%s:%u", gw_bal_addr_text(a, addr), port);
}

const char *gw_bal_endpoint_text(const struct gw_bal_service *s, char text[GW_BAL_ENDPOINT])
{
    print_endpoint(&s->addr, s->port, text);
    size_t n = strlen(text);
    snprintf(text + n, GW_BAL_ENDPOINT - n, "/%s", gw_bal_protocol_names[s->protocol]);
    return text;
}

const char *gw_bal_worker_text(const struct gw_bal_service *s, const struct gw_bal_worker *w,
                               char text[GW_BAL_ENDPOINT])
{
    print_endpoint(&w->addr, gw_bal_port_of(s, w), text);
    return text;
}

int gw_bal_endpoint_parse(const char *text, struct gw_bal_addr *addr, uint16_t *port)
{
    char host[GW_BAL_ADDR], *end;
    *port = 0;
    if (!gw_bal_addr_parse(text, addr)) return 0;
    const char *colon = strrchr(text, ':');
    if (!colon || colon[1] < '0' || colon[1] > '9') return -EINVAL;
    unsigned long number = strtoul(colon + 1, &end, 10);
    size_t n = (size_t)(colon - text);
    int bracketed = *text == '[';
    if (*end || number > 65535 || n < 2 || n >= sizeof(host)) return -EINVAL;
    if (bracketed && text[n - 1] != ']') return -EINVAL;
    snprintf(host, sizeof(host), "%.*s", (int)(n - 2u * (unsigned)bracketed), text + bracketed);
    if (gw_bal_addr_parse(host, addr) || (addr->family == 6) != bracketed) return -EINVAL;
    *port = (uint16_t)number;
    return 0;
}
