/* SPDX-License-Identifier: Apache-2.0 */
/* Channels: the host side. It makes endpoints and connects them; messages are the kernels'
 * (detail/socket/channel.h). */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <gpuwire/channel.h>

#define DEFAULT_SLOTS 16
#define SQ_SPARE      16 /* requests besides messages: credits and looks at the peer */
#define LINE          64

struct endpoint {
    struct gw_cq *cq;
    struct gw_qp *qp;
    struct gw_channel fresh; /* as the executor gets it at creation and after a reset */
    bool connected;
};

struct gw_channels {
    struct gw_device *dev;
    struct gw_pd *pd;
    struct gw_cq *send_cq;
    struct gw_mem slots;   /* all endpoints' rings: receive, then send, one endpoint after another */
    struct gw_mem handles; /* struct gw_channel [count], in the executor's own memory */
    struct gw_mr *mr;
    struct gw_channel_attr attr;
    uint32_t stride;
    struct endpoint *end;
};

static uint32_t channel_pow2(uint32_t n)
{
    uint32_t p = 1;

    while (p < n) p *= 2;
    return p;
}

static int channel_check(struct gw_channel_attr *a)
{
    if (!a->slots) a->slots = DEFAULT_SLOTS;
    if (!a->count || !a->bytes || a->bytes > GW_CHANNEL_BYTES_MAX || a->slots > GW_CHANNEL_SLOTS_MAX ||
        a->mem > GW_MEM_DEVICE)
        return gw_error(-EINVAL, "channels: %u endpoints of %u slots of %u bytes, memory of kind %u",
                        a->count, a->slots, a->bytes, a->mem);
    a->slots = channel_pow2(a->slots);
    return 0;
}

static int channel_make_memory(struct gw_channels *set)
{
    struct gw_exec *exec = gw_device_exec(set->dev);
    struct gw_channel_attr *a = &set->attr;
    struct gw_device_info info;
    int err;

    gw_device_query(set->dev, &info);
    if (!a->mem) a->mem = info.gpu_reach == GW_REACH_NONE ? GW_MEM_HOST : GW_MEM_DEVICE;
    err = gw_mem_alloc(exec, (enum gw_mem_kind)a->mem, (size_t)a->count * 2 * a->slots * set->stride,
                       &set->slots);
    if (!err) err = gw_mem_alloc(exec, GW_MEM_DEVICE, a->count * sizeof(struct gw_channel), &set->handles);
    if (err) return err;
    return gw_mr_register(set->pd, set->slots.host ? set->slots.host : set->slots.dev, set->slots.size,
                          GW_MR_REMOTE_WRITE, &set->mr);
}

static struct gw_channel *handle(const struct gw_channels *set, uint32_t i)
{
    return (struct gw_channel *)set->handles.dev + i;
}

static int channel_publish(const struct gw_channels *set, uint32_t i, const struct gw_channel *ch)
{
    return gw_copy_in(gw_device_exec(set->dev), handle(set, i), ch, sizeof(*ch));
}

static int set_connected(const struct gw_channels *set, uint32_t i)
{
    uint32_t one = 1;

    if (gw_exec_kind(gw_device_exec(set->dev)) != GW_EXEC_CPU)
        return gw_copy_in(gw_device_exec(set->dev), &handle(set, i)->connected, &one, sizeof(one));
    gw_st_release_u32(&handle(set, i)->connected, 1);
    return 0;
}

/* The endpoint's queue pair is new: gives it its receives, and a handle that says that nothing has happened.
 */
static int channel_start(struct gw_channels *set, uint32_t i)
{
    int err = gw_qp_recv_empty(set->end[i].qp, set->attr.slots + GW_CHANNEL_SPARE_, 0);

    set->end[i].connected = false;
    return err ? err : channel_publish(set, i, &set->end[i].fresh);
}

static int make_endpoint(struct gw_channels *set, uint32_t i)
{
    struct endpoint *e = &set->end[i];
    const struct gw_channel_attr *a = &set->attr;
    uint64_t ring = (uint64_t)a->slots * set->stride, at = 2 * ring * i;
    struct gw_cq_attr ca = {
        .cqe = channel_pow2(a->slots + GW_CHANNEL_SPARE_), .flags = GW_CQ_ONE_POLLER | GW_CQ_SLEEP, .qps = 1};
    struct gw_qp_attr qa = {.send_cq = set->send_cq,
                            .max_send_wr = a->slots + SQ_SPARE,
                            .max_recv_wr = a->slots + GW_CHANNEL_SPARE_,
                            .post_mode = a->post_mode};
    int err = gw_cq_create(set->dev, &ca, &e->cq);

    qa.recv_cq = e->cq;
    if (!err) err = gw_qp_create(set->pd, &qa, &e->qp);
    if (err) return err;
    e->fresh = (struct gw_channel){
        .size = sizeof(e->fresh),
        .version = GW_CHANNEL_VERSION,
        .bytes = a->bytes,
        .stride = set->stride,
        .recv = (uint8_t *)set->slots.dev + at,
        .send = (uint8_t *)set->slots.dev + at + ring,
        .send_addr = set->mr->addr + at + ring,
        .lkey = set->mr->lkey,
        .slots = a->slots,
        .flow = {.qp = gw_qp_handle(e->qp), .cq = gw_cq_handle(e->cq), .keepalive_ns = a->keepalive_ns},
    };
    return channel_start(set, i);
}

int gw_channels_create(struct gw_device *dev, const struct gw_channel_attr *attr, struct gw_channels **out)
{
    struct gw_channels *set = calloc(1, sizeof(*set));
    struct gw_cq_attr ca = {.flags = 0};
    int err = 0;

    *out = NULL;
    if (!set) return gw_error_errno(-ENOMEM, "channels");
    set->dev = dev;
    set->attr = *attr;
    err = channel_check(&set->attr);
    set->stride = (attr->bytes + LINE - 1) & ~(LINE - 1u);
    if (!err) set->end = calloc(set->attr.count, sizeof(*set->end));
    if (!err && !set->end) err = gw_error_errno(-ENOMEM, "channels");
    if (!err) err = gw_pd_create(dev, &set->pd);
    if (!err) err = channel_make_memory(set);
    ca.cqe = set->attr.count * channel_pow2(set->attr.slots + SQ_SPARE);
    ca.qps = set->attr.count;
    if (!err) err = gw_cq_create(dev, &ca, &set->send_cq);
    for (uint32_t i = 0; !err && i < set->attr.count; i++) err = make_endpoint(set, i);
    if (err)
        gw_channels_destroy(set);
    else
        *out = set;
    return err;
}

int gw_channels_destroy(struct gw_channels *set)
{
    if (!set) return 0;
    for (uint32_t i = 0; set->end && i < set->attr.count; i++) {
        gw_qp_destroy(set->end[i].qp);
        if (set->end[i].cq) gw_cq_destroy(set->end[i].cq);
    }
    if (set->send_cq) gw_cq_destroy(set->send_cq);
    gw_mr_free(set->mr);
    if (set->pd) gw_pd_destroy(set->pd);
    gw_mem_free(&set->slots);
    gw_mem_free(&set->handles);
    free(set->end);
    free(set);
    return 0;
}

struct gw_channel *gw_channels_handles(const struct gw_channels *set)
{
    return set->handles.dev;
}

static int channel_find(const struct gw_channels *set, uint32_t i)
{
    return i < set->attr.count
               ? 0
               : gw_error(-EINVAL, "channels: no endpoint %u, there are %u", i, set->attr.count);
}

int gw_channel_end(const struct gw_channels *set, uint32_t i, struct gw_channel_end *end)
{
    int err = channel_find(set, i);

    if (err) return err;
    memset(end, 0, sizeof(*end));
    gw_qp_endpoint(set->end[i].qp, &end->qp);
    end->addr = set->mr->addr + (uint64_t)2 * i * set->attr.slots * set->stride;
    end->rkey = set->mr->rkey;
    end->bytes = set->attr.bytes;
    end->slots = set->attr.slots;
    return 0;
}

int gw_channel_connect(struct gw_channels *set, uint32_t i, const struct gw_channel_end *peer)
{
    struct gw_channel ch;
    int err = channel_find(set, i);

    if (err) return err;
    if (set->end[i].connected) return gw_error(-EISCONN, "channel %u is connected; reset it first", i);
    if (!peer->slots || peer->slots > GW_CHANNEL_SLOTS_MAX || peer->slots & (peer->slots - 1))
        return gw_error(-EINVAL, "channel %u: a peer with %u slots", i, peer->slots);
    if (peer->bytes != set->attr.bytes)
        return gw_error(-EMSGSIZE, "channel %u: the peer's messages have %u bytes, ours %u", i, peer->bytes,
                        set->attr.bytes);
    err = gw_qp_connect(set->end[i].qp, &peer->qp, NULL);
    if (err) return err;
    ch = set->end[i].fresh;
    ch.peer_addr = peer->addr;
    ch.peer_rkey = peer->rkey;
    ch.peer_slots = peer->slots;
    ch.window = peer->slots < ch.slots ? peer->slots : ch.slots;
    err = channel_publish(set, i, &ch);
    /* Last, and by itself: who sees it sees the rest. */
    if (!err) err = set_connected(set, i);
    set->end[i].connected = !err;
    return err;
}

int gw_channel_reset(struct gw_channels *set, uint32_t i)
{
    int err = channel_find(set, i);

    if (!err) err = gw_qp_reset(set->end[i].qp, GW_RESET_QUIET, 0);
    return err ? err : channel_start(set, i);
}

int gw_channel_fault(const struct gw_channels *set, uint32_t i, struct gw_fault *fault)
{
    int err = channel_find(set, i);

    return err ? err : gw_qp_fault(set->end[i].qp, fault);
}
