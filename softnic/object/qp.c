/* SPDX-License-Identifier: Apache-2.0 */
/* Finding queue pairs, and the list of those that have work. */
#include <gpuwire/detail/held.h>

#include "softnic/object/nic.h"
#include "src/trace/trace.h"

struct sn_qp *sn_qp_find(struct sn_nic *nic, uint32_t qpn)
{
    struct sn_qp *qp = nic->qps[qpn & 0xffff];

    GW_ASSERT_HELD(&nic->lock);
    return qp && qp->number == qpn ? qp : NULL;
}

void sn_qp_wake(struct sn_qp *qp)
{
    GW_ASSERT_HELD(&qp->nic->lock);
    if (qp->parked) sn_list_del(&qp->run_link);
    qp->parked = false;
    if (sn_list_empty(&qp->run_link)) sn_list_add(&qp->nic->run, &qp->run_link);
}

/* A queue pair counts as one that may be rung, or whose CQs may be armed, from RTR on. */
void sn_qp_set_state(struct sn_qp *qp, enum ibv_qp_state state)
{
    bool ringable = state != IBV_QPS_RESET && state != IBV_QPS_INIT;

    GW_ASSERT_HELD(&qp->nic->lock);
    if (ringable != qp->ringable) __atomic_fetch_add(&qp->nic->ringable, ringable ? 1 : -1, __ATOMIC_RELAXED);
    qp->ringable = ringable;
    GW_TRACE(softnic, qp_state, qp->number, qp->state, state);
    qp->state = state;
}
