/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The software NIC. It lives in this process and works when the process' threads call libibverbs. A post that
 * posts nothing makes it do the work of the posts before. A poll makes it do all there is, arriving packets
 * included. So the library keeps a queue pair and a completion queue for such calls, which carry nothing.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "src/verbs/impl.h"

static int open_own(struct gw_device *dev)
{
    struct ibv_qp_init_attr attr = {.qp_type = IBV_QPT_RC, .cap = {1, 1, 1, 1, 0}};

    int err = gw_unsigned(dev); /* the software NIC has no such queue pairs */

    if (err) return err;
    dev->nudge = ibv_create_cq(dev->ctx, 1, NULL, NULL, 0);
    if (!dev->nudge) return gw_refused(dev, -errno, "cannot make a completion queue");
    attr.send_cq = attr.recv_cq = dev->nudge;
    dev->nudge_qp = ibv_create_qp(dev->pd, &attr);
    return dev->nudge_qp ? 0 : gw_refused(dev, -errno, "cannot make a queue pair");
}

static void close_own(struct gw_device *dev)
{
    if (dev->nudge_qp) ibv_destroy_qp(dev->nudge_qp);
    if (dev->nudge) ibv_destroy_cq(dev->nudge);
}

static void device_softnic_progress(struct gw_device *dev)
{
    struct ibv_wc wc;

    (void)ibv_poll_cq(dev->nudge, 1, &wc);
}

static void rang(struct gw_device *dev)
{
    struct ibv_send_wr *bad;

    (void)ibv_post_send(dev->nudge_qp, NULL, &bad);
}

/*
 * Polls the NIC once more, and tells it that it is on its own from now on. Its thread stays away from what
 * application threads poll, for up to a millisecond. From ibv_req_notify_cq, of any CQ, it learns that a
 * thread is about to sleep.
 */
static void device_softnic_leave(struct gw_device *dev)
{
    (void)ibv_req_notify_cq(dev->nudge, 0);
}

/* A queue pair with one poster is asked itself, because libmlx5 takes no lock for it. */
static struct ibv_qp *ring_through(const struct gw_qp *qp, bool alone)
{
    return alone ? qp->qp : qp->dev->nudge_qp;
}

/* It waits for the GPU before it writes a completion, unless it is told to be as unkind as a NIC may be. */
static bool device_softnic_data_may_be_late(const struct gw_device *dev)
{
    int (*hostile)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "softnic_hostile");

    (void)dev;
    return hostile && hostile();
}

static void device_softnic_address_refused(int err, char *why, size_t size)
{
    snprintf(why, size, "%s; the software NIC copies by the GPU driver and has said why not", strerror(err));
}

const struct gw_device_ops gw_softnic_ops = {
    .soft = true,
    .open = open_own,
    .close = close_own,
    .progress = device_softnic_progress,
    .rang = rang,
    .leave = device_softnic_leave,
    .ring_through = ring_through,
    .ways = {GW_REACH_DIRECT, GW_REACH_DMABUF}, /* it has no use for a dma-buf */
    .data_may_be_late = device_softnic_data_may_be_late,
    .address_refused = device_softnic_address_refused,
};
