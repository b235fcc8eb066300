/* SPDX-License-Identifier: Apache-2.0 */
/* A burst's way through a core: parse, look up all at once, then each packet's flow. */
#include "src/balance/burst.h"

#include <gpuwire/detail/assert.h>

#include "src/balance/answer.h"
#include "src/balance/classify.h"
#include "src/balance/core.h"
#include "src/balance/flows.h"
#include "src/balance/fragment.h"
#include "src/balance/rdma.h"
#include "src/balance/refuse.h"

enum { HEADERS_AHEAD = 24 /* packets whose headers are on their way */ };

/* A packet for no service, though the address may be one's. */
static void burst_refuse(struct bal_core *core, struct bal_work *w)
{
    struct bal_addr dst = bal_addr_of(bal_dst(w->p->data, &w->m), w->m.ipv6);
    if (core->snap->config.reject && w->m.kind != BAL_K_ERROR && bal_is_vip(core->snap, &dst)) {
        w->side = BAL_CLIENT_ONLY;
        bal_refuse(core, w, BAL_DROP_NOT_OURS);
    } else {
        bal_drop(core, w, BAL_DROP_NOT_OURS);
    }
}

/* An ICMP error, and the first of several fragments, reach a core by other bytes than their flow did. When
 * this core does not know the flow, the others are asked. */
static bool burst_may_be_elsewhere(const struct bal_core *core, const struct bal_work *w)
{
    return (w->m.kind == BAL_K_ERROR || w->m.first) && w->p->hops + 1u < core->bal->attr.cores;
}

static void burst_act(struct bal_core *core, struct bal_work *w)
{
    if (w->m.kind == BAL_K_LATER) {
        bal_fragment_later(core, w);
        return;
    }
    bal_refresh(core, w, false);
    if (w->roce)
        bal_roce(core, w);
    else if (w->found.slot == GW_FLOW_NONE && burst_may_be_elsewhere(core, w) &&
             !bal_is_owned(core, w->service))
        bal_pass(w, (core->index + 1) % core->bal->attr.cores);
    else if (w->side == BAL_FROM_WORKER)
        bal_flow_of_worker(core, w);
    else
        bal_flow_of_client(core, w);
}

static void burst_look_up(struct bal_core *core, struct bal_work *work, size_t n)
{
    uint64_t narrow[BAL_BURST];
    struct bal_wide wide[BAL_BURST];
    struct gw_flow found[BAL_BURST];
    size_t narrows = 0, wides = 0;
    for (size_t i = 0; i < n; i++) {
        if (work[i].where == BAL_NARROW) narrow[narrows++] = work[i].narrow;
        if (work[i].where == BAL_WIDE) wide[wides++] = work[i].wide;
    }
    if (narrows) gw_flow_lookup_bulk(core->narrow, narrow, narrows, found);
    for (size_t i = 0, k = 0; i < n && narrows; i++)
        if (work[i].where == BAL_NARROW) work[i].found = found[k++];
    if (wides) gw_flow_lookup_bulk(core->wide, wide, wides, found);
    for (size_t i = 0, k = 0; i < n && wides; i++)
        if (work[i].where == BAL_WIDE) work[i].found = found[k++];
}

static void burst_count(struct bal_core *core, const struct bal_packet *packets, size_t n)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < n; i++) bytes += packets[i].len;
    bal_count(&core->counters->received, n);
    bal_count(&core->counters->received_bytes, bytes);
    core->burst = (struct bal_burst){0};
}

/* A packet without a flow is finished here. One with a flow is looked up with the others. */
static void burst_classify(struct bal_core *core, struct bal_work *w)
{
    switch (bal_classify(core, w)) {
    case BAL_OF_FLOW: gw_flow_prefetch(bal_table_of(core, w), bal_key_of(w)); return;
    case BAL_OF_BALANCER: bal_for_us(core, w); return;
    case BAL_OF_NO_SERVICE: burst_refuse(core, w); return;
    case BAL_SETTLED: return;
    }
}

/* Has each packet its verdict? A flow's packet has one when it has no table any more. */
GW_CHECKS bool burst_is_over(const struct bal_work *work, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (work[i].where != BAL_NOWHERE || work[i].p->verdict > BAL_PASS) return false;
    return true;
}

static void burst_step(struct bal_core *core, struct bal_packet *packets, size_t n)
{
    struct bal_work work[BAL_BURST];
    burst_count(core, packets, n);
    for (size_t i = 0; i < n && i < HEADERS_AHEAD; i++) __builtin_prefetch(packets[i].data, 1);
    for (size_t i = 0; i < n; i++) {
        if (i + HEADERS_AHEAD < n) __builtin_prefetch(packets[i + HEADERS_AHEAD].data, 1);
        work[i].p = &packets[i];
        packets[i].verdict = BAL_DISCARD;
        burst_classify(core, &work[i]);
    }
    burst_look_up(core, work, n);
    for (size_t i = 0; i < n; i++)
        if (work[i].where != BAL_NOWHERE) burst_act(core, &work[i]);
    GW_ASSERT(burst_is_over(work, n));
    bal_count(&core->counters->packets, core->burst.packets);
    bal_count(&core->counters->bytes, core->burst.bytes);
}

void gw_balance_burst(struct bal_core *core, struct bal_packet *packets, size_t n, uint64_t now_ns)
{
    bal_core_look(core, now_ns);
    for (size_t done = 0; done < n; done += BAL_BURST)
        burst_step(core, packets + done, n - done < BAL_BURST ? n - done : BAL_BURST);
}
