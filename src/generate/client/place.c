/* SPDX-License-Identifier: Apache-2.0 */
/* Posts a client's messages: requests, and words that take them back. */
#include <errno.h>
#include <stddef.h>

#include <gpuwire/exec.h>
#include <gpuwire/verbs.h>

#include "src/generate/client/impl.h"

#define ROOM_NS 100000000u /* a send queue that stays full for that time has no peer */

/* The send queue holds two messages for each slot, so there is nearly always room. Otherwise there is when
 * acknowledgements have come. */
static int place_send(struct gen_peer *peer, struct gw_op op, uint32_t slot)
{
    GW_ASSERT_HELD(&peer->post);
    uint32_t flags = ++peer->sent % peer->client->opts.slots == 0 ? GW_SIGNALED : 0;
    uint64_t end = gw_deadline(ROOM_NS);
    struct ibv_wc wc;
    for (;;) {
        while (gw_poll_cq(gw_cq_handle(peer->send_cq), 1, &wc) > 0)
            if (wc.status != IBV_WC_SUCCESS) return -EIO;
        int err = gw_post_op(gw_qp_handle(peer->qp), op, flags, slot);
        if (err != -EAGAIN) return err;
        if (gw_cq_wait(peer->send_cq, end, NULL, -1) <= 0) return -EIO;
    }
}

int gen_place_post(struct gen_place *p)
{
    struct gen_peer *peer = p->peer;
    const struct gen_client *c = peer->client;
    p->posted = true;
    p->posts++;
    return place_send(peer,
                      gw_put_imm_op(peer->request_at + p->index * c->request_stride, c->request_mr->lkey,
                                    peer->grant.request_addr + p->index * peer->grant.request_stride,
                                    peer->grant.request_rkey, p->bytes, p->index),
                      p->index);
}

/* The word goes into the slot after its request, and before the slot's next one, by the same queue pair. */
int gen_place_recall(struct gen_place *p)
{
    const size_t at = offsetof(struct gen_request, taken);
    struct gen_peer *peer = p->peer;
    const struct gen_client *c = peer->client;
    gen_place_request(p)->taken = p->id;
    return place_send(peer,
                      gw_put_op(peer->request_at + p->index * c->request_stride + at, c->request_mr->lkey,
                                peer->grant.request_addr + p->index * peer->grant.request_stride + at,
                                peer->grant.request_rkey, sizeof(p->id)),
                      p->index);
}
