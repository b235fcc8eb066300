/* SPDX-License-Identifier: Apache-2.0 */
/* Limits the lines that one client can cause in the access log. */
#include "src/door/access_share.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

void gw_access_shares_open(struct gw_access_shares *s)
{
    memset(s, 0, sizeof(*s));
    pthread_mutex_init(&s->lock, NULL);
}

void gw_access_shares_close(struct gw_access_shares *s)
{
    pthread_mutex_destroy(&s->lock);
}

static struct gw_access_share *share_of(struct gw_access_shares *s, const char *who)
{
    uint32_t hash = 0x811c9dc5u; /* FNV-1a */
    for (const char *c = who; *c; c++) hash = (hash ^ (uint8_t)*c) * 0x01000193u;
    return &s->share[hash % GW_ACCESS_SHARES];
}

bool gw_access_share_take(struct gw_access_shares *s, const char *who, uint64_t now)
{
    const uint64_t burst = (uint64_t)GW_ACCESS_BURST * GW_ACCESS_EACH_NS;
    pthread_mutex_lock(&s->lock);
    struct gw_access_share *c = share_of(s, who);
    uint64_t from = c->full > now ? c->full : now;
    bool may = from - now + GW_ACCESS_EACH_NS <= burst;
    if (may) {
        c->full = from + GW_ACCESS_EACH_NS;
    } else {
        c->left_out++;
        snprintf(c->who, sizeof(c->who), "%s", who);
    }
    pthread_mutex_unlock(&s->lock);
    return may;
}

bool gw_access_share_summary(struct gw_access_shares *s, int all, uint64_t now, char who[GW_WHO_TEXT],
                             uint64_t *lines)
{
    struct gw_access_share *c = NULL;
    pthread_mutex_lock(&s->lock);
    for (uint32_t i = 0; (all || now >= s->next) && i < GW_ACCESS_SHARES && !c; i++)
        if (s->share[i].left_out) c = &s->share[i];
    if (c) {
        *lines = c->left_out;
        memcpy(who, c->who, GW_WHO_TEXT);
        c->left_out = 0;
    } else if (now >= s->next) {
        s->next = now + GW_ACCESS_SUMMARY_NS;
    }
    pthread_mutex_unlock(&s->lock);
    return c != NULL;
}
