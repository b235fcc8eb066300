/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds out, by trying, whether a NIC notices a GPU's rings and reaches its memory. A mapping that was
 * granted says little. Behind PCIe access control, an IOMMU or a virtual machine the stores may still go
 * nowhere. So a kernel posts over a queue pair that is connected to itself, and has a limited time for it.
 */
#include <errno.h>
#include <stdio.h>

#include "src/verbs/impl.h"
#include "src/verbs/probe_steps.h"

#define LIMIT_NS 1000000000u /* what takes microseconds, and more where others want the processors */
#define SLICE_NS 20000u      /* how often a NIC in this process gets the calling thread during that */
#define BYTES    65536u      /* of memory: whole pages, whatever the GPU's are */

GW_KERNEL_DECLARE(gw_probe_kernel);

struct probe {
    struct gw_pd pd; /* the device's own: it takes no memory that could be refused */
    struct gw_cq *cq;
    struct gw_qp *qp;
    struct gw_mem page, memory;
    struct gw_mr *page_mr, *memory_mr;
};

static void verbs_probe_end(struct probe *p)
{
    gw_qp_destroy(p->qp);
    gw_mr_free(p->memory_mr);
    gw_mr_free(p->page_mr);
    gw_mem_free(&p->memory);
    gw_mem_free(&p->page);
    gw_cq_destroy(p->cq);
}

static int verbs_probe_make_queues(struct gw_device *dev, uint32_t mode, struct probe *p)
{
    struct gw_cq_attr ca = {.cqe = 8, .post_mode = mode};
    struct gw_qp_attr qa = {.max_send_wr = 4, .max_recv_wr = 1, .post_mode = mode};
    int err = gw_cq_create(dev, &ca, &p->cq);

    qa.send_cq = qa.recv_cq = p->cq;
    return err ? err : gw_qp_create(&p->pd, &qa, &p->qp);
}

static int connect_to_itself(struct probe *p)
{
    struct gw_endpoint itself;

    gw_qp_endpoint(p->qp, &itself);
    return gw_qp_connect(p->qp, &itself, NULL);
}

static int verbs_probe_make_memory(struct gw_device *dev, enum gw_reach how, struct probe *p)
{
    bool host = how == GW_REACH_HOST;
    int err = gw_mem_alloc(dev->exec, host ? GW_MEM_HOST : GW_MEM_DEVICE, BYTES, &p->memory);

    if (err) return err;
    return gw_mr_register_by(&p->pd, host ? p->memory.host : p->memory.dev, p->memory.size, 0, how,
                             &p->memory_mr);
}

static bool tries_masked(const struct gw_device *dev, uint32_t mode)
{
    return dev->mlx5 && gw_has_atomics(dev) && !dev->masked && mode != GW_POST_PROXY_POST;
}

static struct gw_probe_args args_of(const struct gw_device *dev, const struct probe *p, uint32_t mode)
{
    return (struct gw_probe_args){
        .qp = gw_qp_handle(p->qp),
        .cq = gw_cq_handle(p->cq),
        .page = p->page.dev,
        .page_at = p->page_mr->addr,
        .page_key = p->page_mr->lkey,
        .page_rkey = p->page_mr->rkey,
        .value = UINT64_C(0x6770757769726521) ^ gw_clock_ns(),
        .limit_ns = LIMIT_NS,
        .masked = !p->memory_mr && tries_masked(dev, mode),
    };
}

/* Runs the kernel to its end, and says how far it came. */
static int verbs_probe_run(struct gw_device *dev, struct probe *p, uint32_t mode,
                           struct gw_probe_page *result)
{
    struct gw_probe_page *page = p->page.host;
    struct gw_probe_args args = args_of(dev, p, mode);
    int err;

    if (p->memory_mr) {
        args.memory = p->memory.dev;
        args.memory_key = p->memory_mr->lkey;
        args.memory_rkey = p->memory_mr->rkey;
    }
    err = gw_launch(dev->exec, &gw_probe_kernel, 1, 1, &args);
    if (err) return err;
    while ((err = gw_exec_sync(dev->exec, gw_deadline(SLICE_NS))) == -ETIMEDOUT) dev->ops->progress(dev);
    result->step = gw_ld_acquire_u32(&page->step);
    result->status = page->status;
    result->masked = page->masked;
    return err;
}

/* Makes what it takes, and runs the kernel. A negative errno: it could not be tried. */
static int verbs_probe_one(struct gw_device *dev, uint32_t mode, enum gw_reach how,
                           struct gw_probe_page *result)
{
    struct probe p = {.pd = {.dev = dev, .pd = dev->pd, .parent = dev->parent}};
    int err = verbs_probe_make_queues(dev, mode, &p), page;

    if (!err && how != GW_REACH_NONE) err = verbs_probe_make_memory(dev, how, &p);
    if (!err) err = gw_mem_alloc(dev->exec, GW_MEM_HOST, sizeof(struct gw_probe_page), &p.page);
    /* Without memory there is nothing to try it with: `gpuwire info` tells of that, on an open device. */
    page = err ? err : gw_mr_register_by(&p.pd, p.page.host, p.page.size, 0, GW_REACH_HOST, &p.page_mr);
    if (!page) err = connect_to_itself(&p);
    if (!page && !err) err = verbs_probe_run(dev, &p, mode, result);
    if (page && !err) result->step = GW_PROBE_COMPLETED;
    verbs_probe_end(&p);
    return err;
}

/* ---- masked atomics ------------------------------------------------------------------------------------ */

/*
 * The kernel's driver chooses a mode of atomics for each queue pair, from what the NIC can do. In one of them
 * there are no masked atomics. No attribute of libibverbs tells. So a queue pair is asked that the driver has
 * made.
 */
static void learn_masked(struct gw_device *dev, const struct gw_probe_page *got)
{
    dev->masked = got->masked;
    dev->masked_status = got->status;
}

void gw_masked_tell(struct gw_device *dev)
{
    struct gw_device_info *i = &dev->info;
    const char *why = !gw_has_atomics(dev)                 ? "the device has no atomics"
                      : i->post_mode == GW_POST_PROXY_POST ? "posting mode proxy-post: libibverbs has none"
                      : dev->masked == GW_PROBE_UNTRIED    ? "they could not be tried"
                                                           : "";

    snprintf(i->masked_why, sizeof(i->masked_why), "%s", why);
    i->masked_atomics = !*why || (gw_has_atomics(dev) && i->post_mode != GW_POST_PROXY_POST);
    if (*why || dev->masked != GW_PROBE_REFUSED) return;
    i->masked_atomics = 0;
    snprintf(i->masked_why, sizeof(i->masked_why),
             "a queue pair failed when it was asked for one (%s): the kernel's driver chose a mode of "
             "atomics without them",
             dev->masked_status ? ibv_wc_status_str((enum ibv_wc_status)dev->masked_status)
                                : "it changed other bits");
}

/* This thread posts, as a kernel on CPU threads would. */
static void try_masked(struct gw_device *dev, uint32_t mode, struct probe *p)
{
    struct gw_probe_page got = {0};
    struct gw_probe_args args;

    if (!tries_masked(dev, mode)) return;
    if (!gw_mem_alloc(dev->exec, GW_MEM_HOST, sizeof(struct gw_probe_page), &p->page) &&
        !gw_mr_register_by(&p->pd, p->page.host, p->page.size, 0, GW_REACH_HOST, &p->page_mr) &&
        !connect_to_itself(p)) {
        args = args_of(dev, p, mode);
        gw_probe_masked_(&args, gw_deadline(LIMIT_NS));
        got = *args.page;
    }
    learn_masked(dev, &got);
}

/* ---- ways of posting ----------------------------------------------------------------------------------- */

int gw_probe_post(struct gw_device *dev, uint32_t mode)
{
    struct gw_probe_page got = {0};
    struct probe p = {.pd = {.dev = dev, .pd = dev->pd, .parent = dev->parent}};
    int err;

    if (gw_exec_kind(dev->exec) != GW_EXEC_GPU) { /* CPU threads ring as libmlx5 does */
        err = verbs_probe_make_queues(dev, mode, &p);
        if (!err) try_masked(dev, mode, &p);
        verbs_probe_end(&p);
        return err;
    }
    err = verbs_probe_one(dev, mode, GW_REACH_NONE, &got);
    if (err) return err;
    if (tries_masked(dev, mode)) learn_masked(dev, &got);
    if (got.step < GW_PROBE_COMPLETED)
        return gw_error(-EOPNOTSUPP,
                        "%s: a kernel rang, and nothing came of it within %u ms: the GPU's stores do not "
                        "reach the NIC (PCIe access control, an IOMMU or a virtual machine may be between)",
                        dev->info.name, LIMIT_NS / 1000000);
    dev->loops = got.step >= GW_PROBE_LOOPED;
    return 0;
}

int gw_probe_memory(struct gw_device *dev, enum gw_reach how)
{
    struct gw_probe_page got = {0};
    struct probe p = {.pd = {.dev = dev, .pd = dev->pd, .parent = dev->parent}};
    int err;

    if (gw_exec_kind(dev->exec) != GW_EXEC_GPU || !dev->loops) { /* then it can be registered or not */
        err = verbs_probe_make_memory(dev, how, &p);
        verbs_probe_end(&p);
        return err;
    }
    err = verbs_probe_one(dev, GW_POST_AUTO, how, &got);
    if (err) return err;
    if (got.step == GW_PROBE_SAW) return 0;
    return gw_error(-EOPNOTSUPP,
                    "it can be registered, but what the NIC writes there does not arrive (%s): PCIe access "
                    "control, an IOMMU or a virtual machine may be between",
                    got.status ? ibv_wc_status_str((enum ibv_wc_status)got.status) : "no error was reported");
}
