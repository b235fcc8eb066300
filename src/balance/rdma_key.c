/* SPDX-License-Identifier: Apache-2.0 */
/* The key of a RoCE packet's lookup: its queue pair, or CM's communication ID. */
#include "src/balance/rdma_key.h"

#include "src/roce/cm.h"

enum { MAD_PACKET = BAL_MAD_AT + ROCE_MAD_LEN + ROCE_ICRC_LEN };

struct bal_wide bal_roce_key_of(const struct bal_work *w, enum bal_wide_kind kind, uint32_t x)
{
    return bal_wide_key(kind, w->client, w->m.ipv6, w->service, x);
}

const uint8_t *bal_roce_mad(const struct bal_work *w)
{
    const uint8_t *udp = w->p->data + w->m.l4;
    if (w->m.dqpn != ROCE_GSI_QPN || w->m.opcode != ROCE_UD_SEND_ONLY) return NULL;
    return bal_get16(udp + 4) == 8 + MAD_PACKET ? udp + 8 + BAL_MAD_AT : NULL;
}

void bal_roce_key(struct bal_work *w)
{
    struct roce_cm cm;
    const uint8_t *mad = bal_roce_mad(w);
    w->where = BAL_WIDE;
    w->client_port = 0;
    if (mad && !roce_cm_parse(mad, &cm) && cm.attr != ROCE_CM_SIDR_REQ && cm.attr != ROCE_CM_SIDR_REP)
        w->wide = bal_roce_key_of(w, BAL_W_CM, w->side == BAL_FROM_WORKER ? cm.remote_id : cm.local_id);
    else if (roce_service(w->m.opcode) == ROCE_UD)
        w->wide = bal_roce_key_of(w, BAL_W_DATAGRAM, 0);
    else
        w->wide = bal_roce_key_of(w, BAL_W_QP, w->m.dqpn);
}
