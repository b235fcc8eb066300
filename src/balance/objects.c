/* SPDX-License-Identifier: Apache-2.0 */
/* A balancer's defaults. */
#include "src/balance/objects.h"

#define SECOND UINT64_C(1000000000)

static uint64_t attr_or(uint64_t value, uint64_t standard)
{
    return value ? value : standard;
}

void bal_fill_attr(struct bal_attr *a)
{
    struct bal_timeouts *t = &a->timeout;
    a->flows = attr_or(a->flows, 1000000);
    a->wide_flows = attr_or(a->wide_flows, 100000);
    t->syn = attr_or(t->syn, 20 * SECOND);
    t->established = attr_or(t->established, 900 * SECOND);
    t->fin_wait = attr_or(t->fin_wait, 120 * SECOND);
    t->close = attr_or(t->close, 10 * SECOND);
    t->udp = attr_or(t->udp, 30 * SECOND);
    t->udp_stream = attr_or(t->udp_stream, 180 * SECOND);
    t->queue_pair = attr_or(t->queue_pair, 900 * SECOND);
    t->fragment = attr_or(t->fragment, 5 * SECOND);
}
