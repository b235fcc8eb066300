/* SPDX-License-Identifier: Apache-2.0 */
/* Later fragments have no ports: the first one notes where they go. */
#include "src/balance/fragment.h"

#include <errno.h>

#include "src/balance/classify.h"
#include "src/balance/forward.h"

void bal_fragment_note(struct bal_core *core, struct bal_work *w, uint16_t worker)
{
    struct bal_wide key = bal_fragment_key(w);
    struct gw_flow at;
    core->burst.inserted = true;
    if (gw_flow_insert(core->wide, &key, bal_beside(worker), BAL_FRAGMENT, &at) == -EEXIST)
        gw_flow_set_worker(core->wide, at.slot, bal_beside(worker));
}

void bal_fragment_later(struct bal_core *core, struct bal_work *w)
{
    /* The first one may be in this burst. */
    if (w->found.slot == GW_FLOW_NONE) gw_flow_lookup_bulk(core->wide, &w->wide, 1, &w->found);
    uint16_t worker = bal_worker_of(w->found.worker);
    if (w->found.slot == GW_FLOW_NONE || !core->snap->config.worker[worker].used) {
        if (w->p->hops + 1u < core->bal->attr.cores)
            bal_pass(w, (core->index + 1) % core->bal->attr.cores);
        else
            bal_drop(core, w, BAL_DROP_FRAGMENT);
        return;
    }
    const struct bal_worker *to = &core->snap->config.worker[worker];
    struct bal_addr src = bal_addr_of(bal_src(w->p->data, &w->m), w->m.ipv6);
    w->service = to->service;
    w->client_port = (uint16_t)w->m.id;
    w->client = bal_src(w->p->data, &w->m);
    bool back = core->snap->config.service[to->service].forward == BAL_NAT && bal_same_addr(&src, &to->addr);
    w->side = back ? BAL_FROM_WORKER : BAL_FROM_CLIENT;
    if (back)
        bal_to_client(core, w, worker);
    else
        bal_to_worker(core, w, worker);
}
