/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel of pingpong_kernel.c: pingpong_ibv.c's functions, with gpuwire's calls in place of
 * libibverbs'. */
#include <gpuwire/verbs_device.h>

#define ROUNDS 1000
#define LIMIT  10000000000u /* nanoseconds that one message may take */

struct pingpong_args {
    struct gw_qp_handle *qp;
    struct gw_cq_handle *send_cq, *recv_cq;
    uint64_t *word; /* [0] arrives, [1] leaves, as the kernel sees them */
    uint64_t addr;  /* of word, as work requests name it */
    uint32_t lkey, client;
    int *result;
};

GW_DEV int wait_one(struct gw_cq_handle *cq)
{
    struct ibv_wc wc;

    if (gw_wait_cq(cq, 1, &wc, gw_clock_ns() + LIMIT, NULL, -1) != 1) return -ETIMEDOUT;
    return wc.status == IBV_WC_SUCCESS ? 0 : -EIO;
}

GW_DEV int send_word(const struct pingpong_args *a)
{
    int err = gw_send(a->qp, a->addr + 8, a->lkey, 8, GW_SIGNALED, 0);

    return err ? err : wait_one(a->send_cq);
}

GW_KERNEL(pingpong, struct pingpong_args, a)
{
    uint64_t i;
    int err;

    if (gw_global_idx()) return; /* one thread plays */
    /* A message that is there before this receive is repeated by its sender's NIC until it fits
     * (rnr_retry). */
    err = gw_recv(a->qp, a->addr, a->lkey, 8, 0);
    for (i = 0; i < ROUNDS && !err; i++) {
        if (a->client) {
            a->word[1] = i;
            err = send_word(a);
        }
        if (!err) err = wait_one(a->recv_cq);
        if (!err && a->client && a->word[0] != i + 1) err = -EBADMSG;
        a->word[1] = a->word[0] + 1;
        if (!err)
            err = gw_recv(a->qp, a->addr, a->lkey, 8, 0); /* for the next, before the other can send it */
        if (!err && !a->client) err = send_word(a);
    }
    *a->result = err;
}
