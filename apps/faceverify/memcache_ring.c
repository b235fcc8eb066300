/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a list of memcached servers and makes the points of their circle, as libmemcached does. */
#include "apps/faceverify/memcache_ring.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <gpuwire/options.h>

static int server_parse(const char *command, char *text, struct mc_servers *all)
{
    char *slash = strchr(text, '/'), *colon, *host = text;
    uint64_t weight = 1;
    uint32_t i = all->count;
    int err = 0;

    if (i == MC_SERVERS_MAX)
        return gw_usage_error(command, "--memcached: %d servers at most", MC_SERVERS_MAX);
    if (slash) *slash = 0;
    if (slash) err = gw_option_number(command, "a server's weight", slash + 1, 1, 1000, &weight);
    if (!err) err = gw_option_address(command, text, MC_PORT, &all->server[i].addr, &all->server[i].len);
    if (err) return err;
    all->server[i].weight = (uint32_t)weight;
    all->server[i].port = ntohs(((struct sockaddr_in *)&all->server[i].addr)->sin_port);
    colon = strrchr(host, ':');
    if (*host == '[') {
        host++;
        host[strcspn(host, "]")] = 0;
    } else if (colon && strchr(host, ':') == colon) {
        *colon = 0;
    }
    snprintf(all->server[i].host, sizeof(all->server[i].host), "%s", host);
    all->count++;
    return 0;
}

int mc_servers_parse(const char *command, const char *text, struct mc_servers *out)
{
    char *copy = strdup(text), *rest = copy, *word;
    int err = copy ? 0 : gw_fail(command, "no memory");

    memset(out, 0, sizeof(*out));
    while (!err && (word = strsep(&rest, ",")) != NULL) err = server_parse(command, word, out);
    free(copy);
    return err;
}

int mc_spread_parse(const char *command, const char *text, uint32_t *out)
{
    return gw_option_word(command, "--spread", text, "modula ketama ketama-weighted", out);
}

/* ---- the circle ---------------------------------------------------------------------------------------- */

static int point_compare(const void *a, const void *b)
{
    const struct mc_point *p = a, *q = b;

    if (p->value != q->value) return p->value < q->value ? -1 : 1;
    return p->server < q->server ? -1 : p->server > q->server;
}

/* How many names a server's points come of: one for each point, or with MD5 for each four. The arithmetic is
 * libmemcached's, in floats as there: rounding decides about points. */
static uint32_t names_of(const struct mc_servers *s, uint32_t i, uint32_t spread)
{
    float total = 0, share;

    if (spread == MC_KETAMA) return 100;
    for (uint32_t j = 0; j < s->count; j++) total += (float)s->server[j].weight;
    share = (float)s->server[i].weight / total;
    return (uint32_t)floor((double)(float)(share * 160 / 4 * (float)s->count + 0.0000000001F));
}

void mc_ring_make(const struct mc_servers *s, uint32_t spread, struct mc_point *point, struct mc_ring *out)
{
    uint32_t n = 0, digest[4], i, j, k;
    char name[300];

    for (i = 0; i < s->count && spread != MC_MODULA; i++) {
        for (j = 0; j < names_of(s, i, spread); j++) {
            int len = s->server[i].port == MC_PORT
                          ? snprintf(name, sizeof(name), "%s-%u", s->server[i].host, j)
                          : snprintf(name, sizeof(name), "%s:%u-%u", s->server[i].host, s->server[i].port, j);

            digest[0] = mc_jenkins(name, (uint32_t)len);
            if (spread == MC_KETAMA_WEIGHTED) mc_md5(name, (uint32_t)len, digest);
            for (k = 0; k < (spread == MC_KETAMA ? 1 : 4) && n < MC_POINTS_MAX; k++)
                point[n++] = (struct mc_point){digest[k], i};
        }
    }
    qsort(point, n, sizeof(*point), point_compare);
    *out = (struct mc_ring){.spread = spread, .servers = s->count, .points = n, .point = point};
}
