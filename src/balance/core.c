/* SPDX-License-Identifier: Apache-2.0 */
/* A core's memory, and which publication it looks at. */
#include "src/balance/core.h"

#include <errno.h>
#include <stdlib.h>

#include <gpuwire/detail/assert.h>

#include "src/balance/persist.h"
#include "src/balance/purge.h"
#include "src/balance/sound.h"
#include "src/balance/states.h"

static struct gw_flow_attr core_table_attr(const struct bal_attr *a, bool wide)
{
    const struct bal_timeouts *t = &a->timeout;
    return (struct gw_flow_attr){
        .flows = wide ? a->wide_flows : a->flows,
        .key_bytes = wide ? GW_FLOW_KEY_MAX : 8,
        .flags = a->huge_pages ? GW_FLOW_HUGE_PAGES : 0,
        .evictable = BAL_EVICTABLE | GW_FLOW_IDLE(BAL_EVICTABLE_IDLE),
        .timeout_ns = {[BAL_SYN_SENT] = t->syn,
                       [BAL_UNPROVEN] = t->established,
                       [BAL_SYN_RECV] = t->syn,
                       [BAL_ESTABLISHED] = t->established,
                       [BAL_FIN_WAIT] = t->fin_wait,
                       [BAL_CLOSE_WAIT] = t->fin_wait,
                       [BAL_LAST_ACK] = t->fin_wait,
                       [BAL_TIME_WAIT] = t->fin_wait,
                       [BAL_CLOSE] = t->close,
                       [BAL_LOOSE] = t->syn,
                       [BAL_UDP_NEW] = t->udp,
                       [BAL_UDP_STREAM] = t->udp_stream,
                       [BAL_ROCE_OPENING] = t->queue_pair,
                       [BAL_ROCE_LIVE] = t->queue_pair,
                       [BAL_ROCE_CLOSING] = t->close,
                       [BAL_FRAGMENT] = t->fragment},
    };
}

void bal_core_free(struct bal_core *c)
{
    if (!c) return;
    gw_flow_destroy(c->narrow);
    gw_flow_destroy(c->wide);
    free(c->counters);
    free(c->feed);
    free(c->inbox);
    bal_clients_free(c->clients);
    free(c);
}

int bal_core_make(struct bal *bal, uint32_t index)
{
    struct bal_core *c = calloc(1, sizeof(*c));
    if (!c) return -ENOMEM;
    bal->core[index] = c;
    c->bal = bal;
    c->index = index;
    c->choice.random = (bal->seed[0] + 0x9e3779b97f4a7c15u * (index + 1)) | 1;
    c->counters = calloc(1, sizeof(*c->counters));
    c->feed = calloc(1, sizeof(*c->feed));
    c->inbox = calloc(1, sizeof(*c->inbox));
    c->clients = bal_clients_new();
    if (!c->counters || !c->feed || !c->inbox || !c->clients) return -ENOMEM;
    struct gw_flow_attr narrow = core_table_attr(&bal->attr, false), wide = core_table_attr(&bal->attr, true);
    int err = gw_flow_create(&narrow, &c->narrow);
    if (!err) err = gw_flow_create(&wide, &c->wide);
    if (err) return err;
    c->count[0] = gw_flow_worker_counts(c->narrow);
    c->count[1] = gw_flow_worker_counts(c->wide);
    return 0;
}

struct bal_core *bal_core_begin(struct bal *bal, uint32_t index)
{
    if (index >= bal->attr.cores) return NULL;
    struct bal_core *c = bal->core[index];
    atomic_store(&bal->seen[index], 0); /* before the load: nothing that it finds is freed from now on */
    c->snap = atomic_load(&bal->snap);
    atomic_store(&bal->seen[index], c->snap->generation);
    return c;
}

void bal_core_look(struct bal_core *core, uint64_t now_ns)
{
    core->now_ns = now_ns;
    gw_flow_clock(core->narrow, now_ns);
    gw_flow_clock(core->wide, now_ns);
    /* acquire: the snapshot is seen whole. release: reads of the last one come before it is given back. */
    const struct bal_snapshot *next = atomic_load_explicit(&core->bal->snap, memory_order_acquire);
    GW_ASSERT(next->generation >= core->snap->generation);
    if (next != core->snap) bal_purge(core, next);
    core->snap = next;
    if (atomic_load_explicit(&core->bal->seen[core->index], memory_order_relaxed) != core->snap->generation)
        atomic_store_explicit(&core->bal->seen[core->index], core->snap->generation, memory_order_release);
}

void bal_core_end(struct bal_core *c)
{
    GW_ASSERT(bal_core_is_sound(c));
    c->snap = NULL;
    /* release: its last reads of a snapshot come before */
    atomic_store(&c->bal->seen[c->index], BAL_OFFLINE);
}
