/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Data in GPU memory that its completion may overtake, since the NIC writes the one to the GPU and the other
 * to the host. Whether it may, the GPU says (cuda.c), or GPUWIRE_GPU_FLUSH. Where it does not promise the
 * order, completion queues get a queue pair that is connected to itself, and their pollers READ over it
 * (detail/verbs/flush.h). That READ is of the executor's GPU; memory of others, and CPU threads, need the
 * GPU's promise.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/verbs/cuda.h"
#include "src/verbs/impl.h"

#define BYTES 65536u

/* Of a device: what the READs read. */
struct gw_flush_target {
    struct gw_pd pd;
    struct gw_mem memory;
    struct gw_mr *mr;
};

/* Of a completion queue. */
struct gw_flush {
    struct gw_cq *cq;
    struct gw_qp *qp;
    struct gw_piece handle;
};

/* ---- who needs it -------------------------------------------------------------------------------------- */

static bool verbs_flush_on_gpu(const struct gw_device *dev)
{
    return gw_exec_kind(dev->exec) == GW_EXEC_GPU;
}

/* May data in that GPU's memory be late for threads of this executor? Then *why has the reason. */
static bool late(const struct gw_device *dev, int gpu, const char **why)
{
    bool other = verbs_flush_on_gpu(dev) && gpu != (int)gw_exec_device(dev->exec);
    enum gw_cuda_order order;

    *why = "GPUWIRE_GPU_FLUSH=1";
    if (dev->settings.flush >= 0) return dev->settings.flush;
    if (!dev->ops->data_may_be_late(dev)) return false;
    order = gw_cuda_order(gpu, why);
    if (order == GW_CUDA_OWNER) *why = "it promises that to its own kernels alone";
    return order < (other ? GW_CUDA_ALL : GW_CUDA_OWNER);
}

int gw_order_refuses(const struct gw_device *dev, const void *addr)
{
    int gpu = gw_cuda_gpu_of(addr);
    const char *why;

    if (!late(dev, gpu, &why)) return 0;
    if (verbs_flush_on_gpu(dev) && gpu == (int)gw_exec_device(dev->exec) && !dev->no_flush[0]) return 0;
    if (dev->no_flush[0] && verbs_flush_on_gpu(dev)) return gw_error(-EOPNOTSUPP, "%s", dev->no_flush);
    return gw_error(
        -EOPNOTSUPP,
        "%s: GPU %d does not promise that a completion finds its data in this memory: %s. Poll "
        "from kernels of that GPU, or use mapped host memory (GPUWIRE_GPU_FLUSH=0, if you know better)",
        dev->info.name, gpu, why);
}

/* ---- the device's part --------------------------------------------------------------------------------- */

static int make_target(struct gw_device *dev)
{
    struct gw_flush_target *t = calloc(1, sizeof(*t));
    int err;

    if (!t) return gw_error_errno(-ENOMEM, "network device");
    dev->flush = t;
    t->pd = (struct gw_pd){.dev = dev, .pd = dev->pd, .parent = dev->parent};
    err = gw_mem_alloc(dev->exec, GW_MEM_DEVICE, BYTES, &t->memory);
    /* Without relaxed ordering, whatever the program's regions have: else nothing may be pushed. */
    return err ? err
               : gw_mr_register_by(&t->pd, t->memory.dev, BYTES, GW_MR_STRICT_, dev->info.gpu_reach, &t->mr);
}

void gw_flush_open(struct gw_device *dev)
{
    struct gw_device_info *i = &dev->info;
    const char *why;
    int err;

    if (i->gpu_reach <= GW_REACH_HOST || !late(dev, (int)gw_exec_device(dev->exec), &why)) return;
    err = dev->loops ? make_target(dev)
                     : gw_error(-EOPNOTSUPP, "no queue pair of the NIC can be connected to itself");
    i->gpu_flush = !err;
    snprintf(i->flush_why, sizeof(i->flush_why), "%s", why);
    if (!err) return;
    snprintf(dev->no_flush, sizeof(dev->no_flush),
             "%s: GPU %u does not promise that a completion finds its data (%.100s), and the NIC cannot make "
             "sure: %.120s",
             i->name, gw_exec_device(dev->exec), why, gw_last_error());
    i->gpu_reach = GW_REACH_NONE;
    snprintf(i->gpu_why, sizeof(i->gpu_why), "%s", dev->no_flush);
}

void gw_flush_close(struct gw_device *dev)
{
    struct gw_flush_target *t = dev->flush;

    if (!t) return;
    gw_mr_free(t->mr);
    gw_mem_free(&t->memory);
    free(t);
    dev->flush = NULL;
}

/* ---- a completion queue's ------------------------------------------------------------------------------ */

static int make_pair(struct gw_device *dev, uint32_t mode, struct gw_flush *f)
{
    struct gw_cq_attr ca = {.cqe = 4, .flags = GW_CQ_ONE_POLLER, .qps = 1, .post_mode = mode};
    struct gw_qp_attr qa = {.max_send_wr = 2, .flags = GW_QP_ONE_POSTER, .post_mode = mode};
    struct gw_endpoint itself;
    int err = gw_cq_create_plain(dev, &ca, NULL, &f->cq);

    qa.send_cq = qa.recv_cq = f->cq;
    if (!err) err = gw_qp_create(&dev->flush->pd, &qa, &f->qp);
    if (err) return err;
    gw_qp_endpoint(f->qp, &itself);
    return gw_qp_connect(f->qp, &itself, NULL);
}

static int write_handle(struct gw_device *dev, struct gw_flush *f)
{
    struct gw_flush_handle h = {
        .qp = gw_qp_handle(f->qp),
        .cq = gw_cq_handle(f->cq),
        .at = dev->flush->mr->addr,
        .lkey = dev->flush->mr->lkey,
        .rkey = dev->flush->mr->rkey,
    };
    int err = gw_arena_alloc(&dev->handles, sizeof(h), 64, &f->handle);

    return err ? gw_error_errno(err, "completion queue")
               : gw_copy_in(dev->exec, f->handle.dev, &h, sizeof(h));
}

int gw_flush_make(struct gw_device *dev, uint32_t mode, struct gw_flush **out)
{
    int err;

    *out = NULL;
    if (!dev->info.gpu_flush) return 0;
    *out = calloc(1, sizeof(**out));
    if (!*out) return gw_error_errno(-ENOMEM, "completion queue");
    err = make_pair(dev, mode, *out);
    if (!err) err = write_handle(dev, *out);
    if (!err) return 0;
    gw_flush_free(dev, *out);
    *out = NULL;
    return err;
}

void gw_flush_free(struct gw_device *dev, struct gw_flush *f)
{
    if (!f) return;
    gw_qp_destroy(f->qp);
    gw_cq_destroy(f->cq);
    gw_arena_free(&dev->handles, f->handle.dev);
    free(f);
}

struct gw_flush_handle *gw_flush_handle_of(const struct gw_flush *f)
{
    return f ? f->handle.dev : NULL;
}
