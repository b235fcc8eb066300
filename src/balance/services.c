/* SPDX-License-Identifier: Apache-2.0 */
/* A balancer begins and ends, takes a new configuration, and hears how its workers are. */
#include "src/balance/services.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include <gpuwire/detail/assert.h>

#include "src/balance/check.h"
#include "src/balance/core.h"
#include "src/balance/publication.h"
#include "src/balance/sound.h"

int bal_create(const struct bal_attr *attr, struct bal **out)
{
    char why[BAL_WHY];
    *out = NULL;
    if (bal_check_attr(attr, why)) return -EINVAL;
    struct bal *bal = calloc(1, sizeof(*bal));
    if (!bal) return -ENOMEM;
    bal->attr = *attr;
    bal_fill_attr(&bal->attr);
    int err = getrandom(bal->seed, sizeof(bal->seed), 0) == sizeof(bal->seed) ? 0 : -EIO;
    bal->neighbours = bal_neighbours_new(bal->seed);
    if (!bal->neighbours) err = -ENOMEM;
    for (uint32_t i = 0; i < BAL_CORES; i++) atomic_init(&bal->seen[i], BAL_OFFLINE);
    for (uint32_t i = 0; i < BAL_PORTS; i++) atomic_init(&bal->any_mac[i], true); /* until the MAC is known */
    for (uint32_t i = 0; i < attr->cores && !err; i++) err = bal_core_make(bal, i);
    struct bal_config *none = calloc(1, sizeof(*none));
    if (!err) err = none ? bal_publish(bal, none, why, sizeof(why)) : -ENOMEM;
    free(none);
    if (err) {
        bal_destroy(bal);
        return err;
    }
    *out = bal;
    return 0;
}

void bal_destroy(struct bal *bal)
{
    if (!bal) return;
    for (uint32_t i = 0; i < BAL_CORES; i++) bal_core_free(bal->core[i]);
    while (bal->old) {
        struct bal_snapshot *s = bal->old;
        bal->old = s->older;
        bal_snapshot_free(s);
    }
    bal_snapshot_free(atomic_load(&bal->snap));
    bal_neighbours_free(bal->neighbours);
    free(bal);
}

/* ---- publications ---- */

uint64_t bal_generation(const struct bal *bal)
{
    return bal->generation;
}

uint64_t bal_generation_seen(const struct bal *bal)
{
    uint64_t least = bal->generation;
    for (uint32_t i = 0; i < bal->attr.cores; i++) {
        /* seq_cst, with bal_core_begin: a core that is seen offline here will load the newest snapshot */
        uint64_t seen = atomic_load(&bal->seen[i]);
        if (seen < least) least = seen;
    }
    return least;
}

static void services_reclaim(struct bal *bal)
{
    uint64_t seen = bal_generation_seen(bal);
    struct bal_snapshot **at = &bal->old;
    while (*at) {
        struct bal_snapshot *s = *at;
        if (s->generation >= seen) {
            at = &s->older;
            continue;
        }
        *at = s->older;
        bal_snapshot_free(s);
    }
}

int bal_publish(struct bal *bal, const struct bal_config *config, char *error, size_t size)
{
    struct bal_snapshot *s, *last = atomic_load(&bal->snap);
    int err = bal_snapshot_make(bal->neighbours, config, last, &s, error, size);
    if (err) return err;
    s->generation = ++bal->generation;
    atomic_store(&bal->snap, s); /* release: it is whole before anyone sees it */
    if (last) {
        last->older = bal->old;
        bal->old = last;
    }
    services_reclaim(bal);
    GW_ASSERT(bal_is_sound(bal));
    return 0;
}

void bal_stop(struct bal *bal)
{
    atomic_store_explicit(&bal->stop, true, memory_order_relaxed);
}

/* ---- telemetry ---- */

void bal_telemetry(struct bal *bal, uint32_t worker, const struct bal_load *load, uint64_t now_ns)
{
    if (worker >= BAL_WORKERS) return;
    /* relaxed: a reader that mixes two reports chooses no worse than by either of them */
    atomic_store_explicit(&bal->load[worker].queue_depth, load->queue_depth, memory_order_relaxed);
    atomic_store_explicit(&bal->load[worker].bytes, load->bytes, memory_order_relaxed);
    atomic_store_explicit(&bal->load[worker].when_ns, now_ns, memory_order_relaxed);
}
