/* SPDX-License-Identifier: Apache-2.0 */
/* classify.h: which service a packet belongs to, and which key its flow has. */
#ifndef GW_SRC_BALANCE_CLASSIFY_H
#define GW_SRC_BALANCE_CLASSIFY_H

#include "src/balance/persist.h"
#include "src/balance/step.h"

enum bal_whose {                    /* packet it is */
                 BAL_OF_NO_SERVICE, /* for no service, though the address may be one's */
                 BAL_OF_BALANCER,   /* for the balancer itself */
                 BAL_OF_FLOW,       /* of a flow: w->where names the table of its key */
                 BAL_SETTLED,       /* it is dropped, or goes to another core: its verdict stands */
};
/* Parses w->p and fills w. */
enum bal_whose bal_classify(struct bal_core *core, struct bal_work *w);

/* The key of the packet's flow, once its service and its client are known. */
void bal_flow_key(const struct bal_core *core, struct bal_work *w, uint16_t vip_port);
/* The key that the fragments of the packet have in common. */
struct bal_wide bal_fragment_key(const struct bal_work *w);

/* Is one core responsible for each of the service's clients? */
static inline bool bal_is_owned(const struct bal_core *core, uint32_t service)
{
    return core->snap->config.service[service].forward == BAL_NAT || bal_persists(core, service);
}

#endif
