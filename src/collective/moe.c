/* SPDX-License-Identifier: Apache-2.0 */
/* Mixtures of experts: their working memory, and the host's calls. */
#include <gpuwire/moe.h>

#include <errno.h>
#include <stdlib.h>

#include "src/collective/comm.h"
#include "src/collective/moe_kernel.h"

struct gw_moe {
    struct gw_comm *comm;
    struct gw_mem state, out, in; /* handle and tables; rows */
    struct gw_moe_handle h;
    uint32_t out_id, in_id;
    bool out_registered, in_registered;
};

static int shape_check(const struct gw_comm *comm, const struct gw_moe_shape *s, uint32_t tokens)
{
    uint64_t rows = (uint64_t)s->experts * s->capacity;

    if (!s->experts || s->experts > 65536 || s->experts % comm->size)
        return gw_error(-EINVAL, "experts: %u is no multiple of the %u ranks, or too many", s->experts,
                        comm->size);
    if (!s->top || s->top > 64 || s->top > s->experts) return gw_error(-EINVAL, "experts: top is %u", s->top);
    if (s->dtype < GW_DTYPE_F32 || s->dtype > GW_DTYPE_BF16)
        return gw_error(-EINVAL, "experts: tokens are of fp32, fp16 or bf16");
    if (!s->capacity || !s->hidden || !tokens || rows > 1 << 30 || (uint64_t)tokens * s->top > 1 << 30 ||
        rows * s->hidden > UINT64_C(1) << 40)
        return gw_error(-EINVAL, "experts: no room for tokens, or for too many");
    return 0;
}

/* The rows that go are as many as tokens have experts, or as experts take. */
static int moe_memory(struct gw_moe *m)
{
    const struct gw_moe_shape *s = &m->h.shape;
    uint64_t entries = (uint64_t)m->h.tokens * s->top, all = (uint64_t)s->experts * s->capacity, out = all;
    uint64_t list = (sizeof(m->h) + 63) & ~63u, at = list + 4 * m->comm->size * sizeof(uint64_t);
    uint64_t count = at + entries * sizeof(int32_t), first = count + s->experts * sizeof(uint32_t);
    uint64_t come = first + s->experts * sizeof(uint32_t);
    struct gw_exec *exec = m->comm->exec;
    uint8_t *dev;
    int err;

    if (entries < out) out = entries;
    err = gw_mem_alloc(exec, GW_MEM_DEVICE, come + s->experts * sizeof(uint32_t), &m->state);
    if (!err) err = gw_mem_alloc(exec, GW_MEM_DEVICE, out * m->h.row, &m->out);
    if (!err) err = gw_mem_alloc(exec, GW_MEM_DEVICE, all * m->h.row, &m->in);
    if (err) return err;
    dev = m->state.dev;
    m->h.list = (uint64_t *)(dev + list);
    m->h.at = (int32_t *)(dev + at);
    m->h.count = (uint32_t *)(dev + count);
    m->h.first = (uint32_t *)(dev + first);
    m->h.come = (uint32_t *)(dev + come);
    m->h.out = m->out.dev;
    m->h.in = m->in.dev;
    return gw_copy_in(exec, dev, &m->h, sizeof(m->h));
}

int gw_moe_create(struct gw_comm *comm, const struct gw_moe_shape *shape, uint32_t tokens,
                  uint64_t deadline_ns, struct gw_moe **out)
{
    struct gw_moe *m;
    int err = shape_check(comm, shape, tokens);

    if (err) return err;
    m = calloc(1, sizeof(*m));
    if (!m) return gw_error(-ENOMEM, "experts: no memory");
    m->comm = comm;
    m->h = (struct gw_moe_handle){.size = sizeof(m->h),
                                  .version = GW_COMM_VERSION,
                                  .shape = *shape,
                                  .tokens = tokens,
                                  .local = shape->experts / comm->size,
                                  .row = shape->hidden * gw_coll_bytes_(shape->dtype)};
    err = moe_memory(m);
    if (!err) err = gw_comm_register(comm, m->out.dev, m->out.size, deadline_ns, &m->out_id);
    m->out_registered = !err;
    if (!err) err = gw_comm_register(comm, m->in.dev, m->in.size, deadline_ns, &m->in_id);
    m->in_registered = m->out_registered && !err;
    if (err) {
        gw_moe_destroy(m);
        return err;
    }
    *out = m;
    return 0;
}

void gw_moe_destroy(struct gw_moe *moe)
{
    if (!moe) return;
    if (moe->out_registered) gw_comm_unregister(moe->comm, moe->out_id);
    if (moe->in_registered) gw_comm_unregister(moe->comm, moe->in_id);
    gw_mem_free(&moe->out);
    gw_mem_free(&moe->in);
    gw_mem_free(&moe->state);
    free(moe);
}

struct gw_moe_handle *gw_moe_handle(const struct gw_moe *moe)
{
    return (struct gw_moe_handle *)moe->state.dev;
}

static int moe_call(struct gw_moe *m, const struct gw_moe_io *io, uint32_t back, uint64_t deadline_ns)
{
    struct gw_moe_args args = {.comm = m->comm->state.dev, .moe = m->state.dev, .io = *io, .back = back};
    int err;

    if (io->n > m->h.tokens) return gw_error(-EINVAL, "experts: %u tokens, made for %u", io->n, m->h.tokens);
    args.result = m->comm->result.dev;
    args.limit_ns = gw_comm_limit(deadline_ns);
    err = gw_comm_launch(m->comm, &gw_moe_kernel, m->comm->blocks, &args, deadline_ns);
    return err ? err : gw_coll_wait(m->comm);
}

int gw_moe_dispatch(struct gw_moe *moe, const struct gw_moe_io *io, uint64_t deadline_ns)
{
    return moe_call(moe, io, 0, deadline_ns);
}

int gw_moe_combine(struct gw_moe *moe, const struct gw_moe_io *io, uint64_t deadline_ns)
{
    return moe_call(moe, io, 1, deadline_ns);
}
