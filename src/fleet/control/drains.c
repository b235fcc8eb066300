/* SPDX-License-Identifier: Apache-2.0 */
/* drains.c: workers that shall get nothing new, whether they are here or not. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <gpuwire/error.h>

#include "src/fleet/control/impl.h"

static struct ctl_drain *drains_find(struct fleet_control *c, const char *worker, uint64_t hash)
{
    struct fleet_entry *e = fleet_table_find(&c->drains, hash);
    for (; e; e = fleet_table_next(e))
        if (!strcmp(CTL_OF(struct ctl_drain, entry, e)->worker, worker)) break;
    return e ? CTL_OF(struct ctl_drain, entry, e) : NULL;
}

int fleet_control_drain(struct fleet_control *c, const char *worker, bool drains)
{
    uint64_t hash = fleet_table_hash(c->seed, worker, strlen(worker));
    struct ctl_drain *d = drains_find(c, worker, hash);
    struct ctl_worker *k = ctl_worker_find(c, worker);
    if (!*worker || strlen(worker) >= FLEET_NAME)
        return gw_error(-EINVAL, "a worker's name has 1 to 63 bytes");
    if (!d && drains) {
        d = calloc(1, sizeof(*d));
        if (!d || fleet_table_add(&c->drains, &d->entry, hash)) {
            free(d);
            return gw_error(-ENOMEM, "no memory");
        }
        strcpy(d->worker, worker);
    } else if (d && !drains) {
        fleet_table_remove(&c->drains, &d->entry);
        free(d);
    }
    if (!k || k->drains == drains) return 0;
    k->drains = drains;
    if (k->ready) ctl_say(c, "worker %s %s", worker, drains ? "drains" : "takes part again");
    ctl_audit(c, drains ? "drain" : "undrain", k->number, FLEET_NONE, NULL);
    ctl_worker_health(k);
    return 0;
}

bool ctl_drains(struct fleet_control *c, const char *worker)
{
    return drains_find(c, worker, fleet_table_hash(c->seed, worker, strlen(worker)));
}

void ctl_drains_close(struct fleet_control *c)
{
    for (uint32_t i = 0; i < c->drains.slots; i++)
        for (struct fleet_entry *e = c->drains.slot[i], *next; e; e = next) {
            next = e->next;
            free(CTL_OF(struct ctl_drain, entry, e));
        }
    fleet_table_free(&c->drains);
}
