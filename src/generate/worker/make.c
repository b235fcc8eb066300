/* SPDX-License-Identifier: Apache-2.0 */
/* Makes what a generator works with: memory, sessions, and the loop. */
#include <errno.h>

#include <gpuwire/error.h>
#include <gpuwire/exec.h>

#include "src/generate/worker/worker_impl.h"

#define TURN_THREADS   128u
#define SAMPLE_THREADS 256u

static bool make_on_gpu(const struct gen_worker *w)
{
    return gw_exec_kind(w->opts.exec) == GW_EXEC_GPU;
}

/* In host memory that the GPU sees where the NIC cannot reach the GPU's own. */
static bool make_slots_on_gpu(const struct gen_worker *w)
{
    struct gw_device_info nic;
    gw_device_query(w->opts.dev, &nic);
    return make_on_gpu(w) && (nic.gpu_reach == GW_REACH_DIRECT || nic.gpu_reach == GW_REACH_DMABUF);
}

static unsigned long long make_mib(uint64_t bytes)
{
    return (bytes + (1u << 20) - 1) >> 20;
}

/* ---- memory ---- */

static int make_records(struct gen_worker *w, struct gen_step *step)
{
    struct gen_device_bytes bytes;
    int err = gen_device_bytes(&w->shape, &bytes);
    if (!err) err = gw_mem_alloc(w->opts.exec, GW_MEM_HOST, bytes.host, &w->host);
    if (!err) err = gw_mem_alloc(w->opts.exec, GW_MEM_DEVICE, bytes.dev, &w->dev);
    if (err == -ENOMEM)
        return gw_error(err, "model %s: no memory for the records of %u requests (%llu MiB); lower --context",
                        w->name, w->shape.requests, make_mib(bytes.host + bytes.dev));
    if (err) return err;
    gen_device_place(&w->shape, w->host.dev, w->dev.dev, &w->args, step);
    return gw_copy_in(w->opts.exec, w->args.step, step, sizeof(*step));
}

static int make_cache(struct gen_worker *w)
{
    const struct gen_net_shape *n = &w->net;
    int err = gw_mem_alloc(w->opts.exec, GW_MEM_DEVICE, w->cache_bytes, &w->cache);
    if (!err)
        err = gw_mem_alloc(w->opts.exec, GW_MEM_DEVICE, (uint64_t)w->shape.lanes * n->vocab * sizeof(float),
                           &w->logits);
    if (err == -ENOMEM)
        return gw_error(err,
                        "model %s: no memory for %llu MiB of keys and values; lower --kv-memory, --lanes "
                        "or --context",
                        w->name, make_mib(w->cache_bytes));
    w->memory.cache = (struct gen_cache){.at = w->cache.dev,
                                         .dtype = n->dtype,
                                         .layers = n->layers,
                                         .pages = w->shape.pages,
                                         .heads = n->heads,
                                         .width = n->width};
    w->memory.logits = w->logits.dev;
    w->memory.logit_stride = n->vocab;
    return err;
}

/* The network is told where all lies, or says where it has it. */
static int make_bound(struct gen_worker *w)
{
    struct gen_step step;
    int err = make_records(w, &step);
    /* A network whose lanes are fixed has its own cache. */
    if (!err && !w->shape.fixed) err = make_cache(w);
    if (err) return err;
    w->memory.step = w->args.step;
    err = w->opts.net.ops->bind(w->opts.net.own, w->opts.exec, &w->memory);
    if (err < 0) return err;
    w->args.step = w->memory.step;
    w->args.logits = w->memory.logits;
    w->args.logit_stride = w->memory.logit_stride;
    return 0;
}

/* ---- sessions ---- */

static int make_session_pool(struct gen_worker *w)
{
    const struct gen_pool_opts opts = {.name = w->name,
                                       .exec = w->opts.exec,
                                       .dev = w->opts.dev,
                                       .sessions = w->shape.sessions,
                                       .kept = w->opts.own_sessions,
                                       .slots = w->shape.slots,
                                       .context = w->shape.context,
                                       .depth = w->shape.depth,
                                       .gpu_memory = make_slots_on_gpu(w)};
    int err = gen_pool_create(&opts, &w->pool);
    if (err == -ENOMEM)
        return gw_error(err,
                        "model %s: no memory for %u sessions of %u slots (%llu MiB); lower --sessions, "
                        "--slots or --context",
                        w->name, opts.sessions, opts.slots, make_mib(gen_pool_bytes(&opts)));
    return err;
}

/* The doors' client is a client like others, over the pool of this process. */
static int make_link_open(void *ctx, const struct gen_wish *wish, struct gen_grant *grant)
{
    return gen_pool_open(((struct gen_worker *)ctx)->pool, wish, grant);
}

static void make_link_close(void *ctx, const struct gen_grant *grant)
{
    gen_pool_close(((struct gen_worker *)ctx)->pool, grant);
}

static int make_link_confirm(void *ctx, const struct gen_grant *grant)
{
    return gen_pool_has(((struct gen_worker *)ctx)->pool, grant) ? 0 : -ENOENT;
}

static void make_link_stats(void *ctx, struct gen_source_stats *out)
{
    gen_worker_stats(ctx, out);
}

static const struct gen_link_ops make_link = {
    .open = make_link_open, .close = make_link_close, .confirm = make_link_confirm, .stats = make_link_stats};

static int make_client(struct gen_worker *w)
{
    const struct gen_client_opts opts = {.name = w->name,
                                         .dev = w->opts.own_dev,
                                         .link = {&make_link, w},
                                         .shape = w->source,
                                         .sessions = w->opts.own_sessions,
                                         .slots = w->shape.slots,
                                         .own = 1};
    return w->opts.own_sessions ? gen_client_create(&opts, &w->client) : 0;
}

/* ---- the loop ---- */

static int make_kernel(struct gen_worker *w, uint32_t variant, const struct gw_kernel *kernel,
                       uint32_t blocks, uint32_t threads)
{
    uint32_t lanes = gw_exec_lanes(w->opts.exec);
    struct gw_loop_stage stage = {.kernel = kernel,
                                  .grid = blocks,
                                  .block = threads < lanes ? threads : lanes,
                                  .arg = &w->args,
                                  .variant = variant};
    return gw_loop_add(w->loop, &stage);
}

static int make_stages(struct gen_worker *w)
{
    int err = make_kernel(w, 0, &gen_turn, 1, TURN_THREADS);
    for (uint32_t i = 0; !err && i < w->shape.sizes; i++) {
        uint32_t variant = w->shape.picks ? i + 1 : 0, size = w->shape.size[i];
        err = w->opts.net.ops->add(w->opts.net.own, w->loop, variant, size);
        if (!err) err = make_kernel(w, variant, &gen_sampling, w->shape.lanes, SAMPLE_THREADS);
    }
    return err ? err : gw_loop_prepare(w->loop);
}

static int make_bare_loop(struct gen_worker *w)
{
    const struct gw_loop_opts opts = {.name = w->name, .variants = GEN_NET_SIZES};
    int err = gw_loop_create(w->opts.exec, &opts, &w->loop);
    if (err) return err;
    w->args.ctl = gw_loop_ctl(w->loop);
    int loop_fd = make_on_gpu(w) ? -1 : w->args.ctl->wake_fd; /* on a GPU, ctl is in its memory */
    return gen_pool_attach(w->pool, &w->args, w->host.host, loop_fd);
}

int gen_worker_make(struct gen_worker *w)
{
    int err = make_bound(w);
    if (!err) err = make_session_pool(w);
    if (!err) err = make_bare_loop(w);
    if (!err) err = make_client(w);
    return err ? err : make_stages(w);
}
