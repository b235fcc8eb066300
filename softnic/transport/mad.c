/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queue pair 1: management datagrams, which have no work queues here. Each is one packet without an
 * acknowledgement. The two ends that talk through it repeat what must arrive.
 */
#include <errno.h>
#include <string.h>

#include <gpuwire/detail/held.h>

#include "softnic/transport/transport.h"

enum { PKEY_BASE = 0x7fff };

static int send_mad(struct sn_nic *nic, const uint8_t *dgid, const uint8_t *mad)
{
    struct roce_hdr h = {.opcode = ROCE_UD_SEND_ONLY, .sqpn = ROCE_GSI_QPN, .qkey = ROCE_GSI_QKEY};
    struct sn_route to;
    uint8_t *frame;

    GW_ASSERT_HELD(&nic->lock);
    sn_route_set(nic, &to, dgid, ROCE_GSI_QPN);
    to.loop = false; /* the number is that of all processes at the address: the wire knows which is meant */
    frame = sn_tx_begin_to(nic, &to);
    if (!frame) return -EAGAIN;
    memcpy(frame + ROCE_BTH_LEN + ROCE_DETH_LEN, mad, ROCE_MAD_LEN);
    sn_tx_end_to(nic, &to, frame, &h, ROCE_MAD_LEN);
    return 0;
}

int sn_nic_mad_send(struct sn_nic *nic, const uint8_t dgid[16], const uint8_t mad[SN_MAD_LEN])
{
    int err;

    sn_nic_lock(nic);
    err = send_mad(nic, dgid, mad);
    sn_tx_push(nic);
    sn_nic_unlock(nic);
    return err;
}

void sn_mad_rx(struct sn_nic *nic, const struct sn_frame *f, const struct roce_hdr *h, uint8_t *payload,
               uint32_t len)
{
    struct sn_counters *c = &nic->count;
    uint64_t *drop = NULL;

    if (!nic->cfg.mad)
        drop = &c->drop_no_qp;
    else if (h->opcode != ROCE_UD_SEND_ONLY)
        drop = &c->drop_opcode;
    else if ((h->pkey & PKEY_BASE) != PKEY_BASE)
        drop = &c->drop_pkey;
    else if (h->qkey != ROCE_GSI_QKEY || len != ROCE_MAD_LEN)
        drop = &c->drop_malformed;
    else if (memcmp(f->dst_gid, nic->cfg.gid, 16))
        drop = &c->drop_address;
    else if (!f->icrc_checked && !sn_frame_icrc_ok(f))
        drop = &c->drop_icrc;
    if (drop) {
        sn_count(drop, 1);
        return;
    }
    /* An answer that finds no room is lost: the peer asks again. */
    if (nic->cfg.mad(nic->cfg.user, f->dst_gid, f->src_gid, sn_frame_slot(f), payload))
        send_mad(nic, f->src_gid, payload);
}
