/* SPDX-License-Identifier: Apache-2.0 */
/* Of several ways to do what a node says, the fastest: by measurement, or by what was measured before. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "src/model/gpu/pick.h"

#include "src/model/gpu/cache.h"
#include "src/model/gpu/launch.h"
#include "src/model/gpu/timer.h"

/* Where a way begins, to come back to. */
struct mark {
    int nlaunch, nbuf;
};

static void go_back(struct gwm_gpu *p, const struct mark *m, const struct gwm_store *to)
{
    gwm_gpu_back(p, m->nlaunch, m->nbuf);
    /* The result may have gone to an output of the model, whose buffer was there before. */
    for (int f = 0; f < GWM_SLOTS; f++) p->as[to->out * GWM_SLOTS + f] = -1;
}

static int attempt(struct gwm_gpu *p, const struct gwm_node *n, const struct gwm_store *to,
                   const struct gwm_way *way, int setting)
{
    const struct mark m = {p->nlaunch, p->nbuf};
    int err = way->lower(p, n, to, setting);

    if (err) go_back(p, &m, to);
    return err;
}

static int first_that_works(struct gwm_gpu *p, const struct gwm_node *n, const struct gwm_store *to,
                            const struct gwm_way *ways)
{
    int err = -ENOTSUP;

    for (; ways->name && err == -ENOTSUP; ways++) err = attempt(p, n, to, ways, 0);
    return err;
}

/* The cache's choice, if it names a way that we have and that works. */
static int remembered(struct gwm_gpu *p, const struct gwm_node *n, const struct gwm_store *to,
                      const char *choice, const struct gwm_way *ways)
{
    char name[16];
    int setting;

    if (!choice || sscanf(choice, "%15s %d", name, &setting) != 2) return -ENOENT;
    for (; ways->name; ways++)
        if (!strcmp(ways->name, name) && setting >= 0 && setting < ways->settings)
            return attempt(p, n, to, ways, setting);
    return -ENOENT;
}

int gwm_gpu_pick(struct gwm_gpu *p, const struct gwm_node *n, const struct gwm_store *to, const char *what,
                 const struct gwm_way *ways)
{
    const struct gwm_way *best = NULL;
    const struct mark m = {p->nlaunch, p->nbuf};
    int setting = 0;
    float least = 0;
    char choice[32];

    if (!p->timer) return first_that_works(p, n, to, ways);
    if (!remembered(p, n, to, gwm_cache_get(p->cache, what), ways)) return 0;
    for (const struct gwm_way *w = ways; w->name; w++) {
        for (int s = 0; s < w->settings; s++) {
            if (attempt(p, n, to, w, s)) continue;
            float us = gwm_timer_nodes(p->timer, p, m.nlaunch);
            go_back(p, &m, to);
            if (us < 0 || (best && us >= least)) continue;
            best = w;
            setting = s;
            least = us;
        }
    }
    if (!best) return first_that_works(p, n, to, ways);
    snprintf(choice, sizeof(choice), "%s %d %.1f", best->name, setting, least);
    gwm_cache_put(p->cache, what, choice);
    return attempt(p, n, to, best, setting);
}
