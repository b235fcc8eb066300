/* SPDX-License-Identifier: Apache-2.0 */
/* What the threads of a sync have counted. */
#include "src/balance/control/sync_counts.h"

#include "src/balance/control/sync_impl.h"

void gw_bal_sync_counts(const struct gw_bal_sync *s, struct gw_bal_sync_counts *out)
{
    *out = (struct gw_bal_sync_counts){.sent = s->sent,
                                       .received = s->received,
                                       .unknown = s->unknown,
                                       .lost = s->lost,
                                       .sends = (uint64_t)s->sends,
                                       .receives = (uint64_t)s->receives,
                                       .heard_ns = s->heard_ns,
                                       .connected = (!s->sends || s->standby) && (!s->receives || s->active)};
}
