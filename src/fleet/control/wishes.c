/* SPDX-License-Identifier: Apache-2.0 */
/* wishes.c: models that people named before a worker told of them, and on how many GPUs each shall always be.
 * They outlast a leadership. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <gpuwire/error.h>

#include "src/fleet/control/impl.h"

enum { WISHES_SAID = 8 }; /* names in one line */

static uint64_t wishes_hash(const struct fleet_control *c, const char *name)
{
    return fleet_table_hash(c->seed, name, strlen(name));
}

bool ctl_wish_is_missing(struct fleet_control *c, const struct fleet_control_wish *w)
{
    return !ctl_model_find(c, w->name, w->version);
}

void ctl_wishes_say(struct fleet_control *c)
{
    char names[WISHES_SAID * (FLEET_MODEL + 2) + 1] = "";
    uint32_t missing = 0;
    for (uint32_t i = 0; i < c->nwishes; i++) {
        const struct fleet_control_wish *w = &c->wishes[i].is;
        if (!ctl_wish_is_missing(c, w) || missing++ >= WISHES_SAID) continue;
        sprintf(names + strlen(names), "%s%s", missing > 1 ? ", " : "", w->name);
    }
    if (missing)
        ctl_say(c, "%u of the models of --models are on no worker: %s%s", missing, names,
                missing > WISHES_SAID ? ", ..." : "");
}

/* ---- setting them */

static int wishes_check(const struct fleet_control_wish *w)
{
    if (!w->name[0] || !fleet_text_ok(w->name, sizeof(w->name)))
        return gw_error(-EINVAL, "a model's name is UTF-8 of 1 to %d bytes", FLEET_MODEL - 1);
    return 0;
}

static void wishes_free(struct ctl_wish *all, struct fleet_table *by_name)
{
    free(all);
    fleet_table_free(by_name);
}

static int wishes_enter(const struct fleet_control *c, const struct fleet_control_wish *wish, uint32_t n,
                        struct ctl_wish *all, struct fleet_table *by_name)
{
    for (uint32_t i = 0; i < n; i++) {
        int err = wishes_check(&wish[i]);
        all[i].is = wish[i];
        if (!err) err = fleet_table_add(by_name, &all[i].entry, wishes_hash(c, all[i].is.name));
        if (err) return err == -ENOMEM ? gw_error(err, "no memory for %u models", n) : err;
    }
    return 0;
}

int fleet_control_wishes(struct fleet_control *c, const struct fleet_control_wish *wish, uint32_t n)
{
    struct ctl_wish *all = calloc(n + 1, sizeof(*all));
    struct fleet_table by_name = {0};
    if (!all) return gw_error(-ENOMEM, "no memory for %u models", n);
    int err = wishes_enter(c, wish, n, all, &by_name);
    if (err) {
        wishes_free(all, &by_name);
        return err;
    }
    wishes_free(c->wishes, &c->wishes_by_name);
    c->wishes = all;
    c->nwishes = n;
    c->wishes_by_name = by_name;
    for (uint32_t i = 0; i < c->nmodels; i++)
        c->state->models[i].min_replicas = ctl_wish_replicas(c, c->models[i].name, c->models[i].version);
    if (c->settled) ctl_wishes_say(c);
    ctl_round_soon(c);
    return 0;
}

void ctl_wishes_close(struct fleet_control *c)
{
    wishes_free(c->wishes, &c->wishes_by_name);
}
