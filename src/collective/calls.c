/* SPDX-License-Identifier: Apache-2.0 */
/* The host's calls: check, launch one kernel, wait, and say who is to blame. */
#include <errno.h>
#include <string.h>

#include "src/collective/coll_kernel.h"
#include "src/collective/comm.h"

#define BLOCK_BYTES (UINT64_C(32) << 10)  /* below which a block's share is not worth a further message */
#define KEEP_BYTES  (UINT64_C(256) << 10) /* that one block copies at most, where nothing else is to do */
#define GRACE_NS    UINT64_C(10000000000) /* a kernel ends by its own deadline: beyond this it is stuck */

int gw_comm_explain(const struct gw_comm *c, int err)
{
    uint32_t rank = UINT32_MAX;
    int why = gw_comm_fault(c, &rank);

    if (!why || rank >= c->size) return gw_error_errno(err, "collective");
    switch (-why) {
    case ECONNRESET: return gw_error(err, "collective: rank %u is dead", rank);
    case ETIMEDOUT: return gw_error(err, "collective: rank %u has not sent its part in time", rank);
    case EPROTO: return gw_error(err, "collective: rank %u makes another call, or with other sizes", rank);
    default:
        return gw_error(err, "collective: the queue pair to rank %u has failed: %s", rank, strerror(-why));
    }
}

static int coll_check(const struct gw_comm *c, const struct gw_coll *coll)
{
    uint32_t each = gw_coll_bytes_(coll->dtype);
    bool real = coll->dtype >= GW_DTYPE_F32 && coll->dtype <= GW_DTYPE_F64;

    if (coll->kind > GW_COLL_ALLTOALLV)
        return gw_error(-EINVAL, "collective: there is no operation %u", coll->kind);
    if (coll->kind == GW_COLL_BARRIER) return 0;
    if (!each) return gw_error(-EINVAL, "collective: there is no type %u", coll->dtype);
    if (coll->op > GW_AVG) return gw_error(-EINVAL, "collective: there is no reduction %u", coll->op);
    if (coll->op == GW_AVG && !real)
        return gw_error(-EINVAL, "collective: an average is of floating-point numbers");
    if (coll->root >= c->size) return gw_error(-EINVAL, "collective: there is no rank %u", coll->root);
    if (coll->way > GW_WAY_RING) return gw_error(-EINVAL, "collective: there is no way %u", coll->way);
    if (coll->count > (UINT64_C(1) << 48) / each / c->size)
        return gw_error(-EINVAL, "collective: %llu elements are too many", (unsigned long long)coll->count);
    return 0;
}

static bool coll_registered(const struct gw_comm *c, const struct gw_coll *coll)
{
    uint32_t each = gw_coll_bytes_(coll->dtype);

    return gw_coll_moves_(coll->kind) && coll->count * each >= c->h.direct &&
           gw_buffer_of_(&c->h, coll->send, gw_coll_extent_(coll, c->size, 0) * each) &&
           gw_buffer_of_(&c->h, coll->recv, gw_coll_extent_(coll, c->size, 1) * each);
}

int gw_coll_plan(const struct gw_comm *comm, const struct gw_coll *coll, struct gw_coll_plan *plan)
{
    uint64_t bytes, blocks;
    int err = coll_check(comm, coll);

    if (err) return err;
    bytes = coll->count * (coll->kind == GW_COLL_BARRIER ? 1 : gw_coll_bytes_(coll->dtype));
    plan->way = coll->way ? coll->way : comm->attr.way;
    if (!plan->way) plan->way = gw_coll_way_(coll->kind, bytes, comm->size);
    if (coll->kind == GW_COLL_BARRIER)
        blocks = 1;
    else if (coll->kind == GW_COLL_ALLTOALLV)
        blocks = comm->blocks; /* its sizes differ between ranks, and blocks must not */
    else if (coll_registered(comm, coll))
        blocks = bytes / KEEP_BYTES > comm->size - 1 ? bytes / KEEP_BYTES : comm->size - 1;
    else
        blocks = (bytes + BLOCK_BYTES - 1) / BLOCK_BYTES;
    if (!blocks) blocks = 1;
    plan->blocks = blocks < comm->blocks ? (uint32_t)blocks : comm->blocks;
    return 0;
}

/* The lists of an all-to-all(v), where kernels see them. */
static void lists_copy(struct gw_comm *c, struct gw_coll *coll)
{
    const uint64_t **list[4] = {&coll->send_count, &coll->send_at, &coll->recv_count, &coll->recv_at};
    uint64_t *to = c->lists.host;

    for (uint32_t k = 0; k < 4; k++) {
        uint64_t at = 0;

        for (uint32_t i = 0; i < c->size; i++) {
            /* Without places: one part after the other. The counts stand in the list before. */
            to[k * c->size + i] = *list[k] ? (*list[k])[i] : at;
            if (k % 2) at += to[(k - 1) * c->size + i];
        }
        *list[k] = (const uint64_t *)c->lists.dev + k * c->size;
    }
}

static int calls_busy(void)
{
    return gw_error(-EBUSY, "collective: the last operation has not been waited for");
}

uint64_t gw_comm_limit(uint64_t deadline_ns)
{
    uint64_t now = gw_clock_ns(), left = deadline_ns > now ? deadline_ns - now : 0;

    return left < UINT64_C(1) << 62 ? left : UINT64_C(1) << 62; /* added to a clock, it must not wrap */
}

int gw_comm_launch(struct gw_comm *c, const struct gw_kernel *kernel, uint32_t blocks, const void *args,
                   uint64_t deadline_ns)
{
    int err;

    if (c->running) return calls_busy();
    if (gw_comm_fault_word(c)) return gw_comm_explain(c, -ECONNABORTED);
    for (uint32_t i = 0; i < blocks; i++) ((int32_t *)c->result.host)[i] = -EIO; /* until it says otherwise */
    err = gw_launch(c->exec, kernel, blocks, c->threads, args);
    if (err) return err;
    c->running = blocks;
    c->until_ns = deadline_ns;
    return 0;
}

int gw_coll_start(struct gw_comm *comm, const struct gw_coll *coll, uint64_t deadline_ns)
{
    struct gw_coll_args args = {.comm = comm->state.dev, .coll = *coll, .result = comm->result.dev};
    struct gw_coll_plan plan;
    int err = gw_coll_plan(comm, coll, &plan);

    if (err) return err;
    /* The lists of the last one may still be in use. */
    if (comm->running) return calls_busy();
    if (coll->kind == GW_COLL_ALLTOALLV) lists_copy(comm, &args.coll);
    args.coll.way = plan.way;
    args.limit_ns = gw_comm_limit(deadline_ns);
    return gw_comm_launch(comm, &gw_coll_kernel, plan.blocks, &args, deadline_ns);
}

int gw_coll_wait(struct gw_comm *comm)
{
    uint64_t until = comm->until_ns > GW_NEVER - GRACE_NS ? GW_NEVER : comm->until_ns + GRACE_NS;
    int err;

    if (!comm->running) return gw_error(-EINVAL, "collective: nothing was started");
    err = gw_exec_sync(comm->exec, until);
    if (err == -ETIMEDOUT) return err; /* the kernel goes on: call again */
    for (uint32_t i = 0; i < comm->running && !err; i++) err = ((int32_t *)comm->result.host)[i];
    comm->running = 0;
    return err ? gw_comm_explain(comm, err) : 0;
}

static int coll_call(struct gw_comm *comm, const struct gw_coll *coll, uint64_t deadline_ns)
{
    int err = gw_coll_start(comm, coll, deadline_ns);

    return err ? err : gw_coll_wait(comm);
}

int gw_barrier(struct gw_comm *comm, uint64_t deadline_ns)
{
    struct gw_coll c = {.kind = GW_COLL_BARRIER};

    return coll_call(comm, &c, deadline_ns);
}

int gw_broadcast(struct gw_comm *comm, const void *send, void *recv, uint64_t count, uint32_t dtype,
                 uint32_t root, uint64_t deadline_ns)
{
    struct gw_coll c = {
        .kind = GW_COLL_BROADCAST, .dtype = dtype, .root = root, .send = send, .recv = recv, .count = count};

    return coll_call(comm, &c, deadline_ns);
}

int gw_allreduce(struct gw_comm *comm, const void *send, void *recv, uint64_t count, uint32_t dtype,
                 uint32_t op, uint64_t deadline_ns)
{
    struct gw_coll c = {
        .kind = GW_COLL_ALLREDUCE, .dtype = dtype, .op = op, .send = send, .recv = recv, .count = count};

    return coll_call(comm, &c, deadline_ns);
}

int gw_reduce_scatter(struct gw_comm *comm, const void *send, void *recv, uint64_t count, uint32_t dtype,
                      uint32_t op, uint64_t deadline_ns)
{
    struct gw_coll c = {
        .kind = GW_COLL_REDUCE_SCATTER, .dtype = dtype, .op = op, .send = send, .recv = recv, .count = count};

    return coll_call(comm, &c, deadline_ns);
}

int gw_allgather(struct gw_comm *comm, const void *send, void *recv, uint64_t count, uint32_t dtype,
                 uint64_t deadline_ns)
{
    struct gw_coll c = {
        .kind = GW_COLL_ALLGATHER, .dtype = dtype, .send = send, .recv = recv, .count = count};

    return coll_call(comm, &c, deadline_ns);
}

int gw_alltoall(struct gw_comm *comm, const void *send, void *recv, uint64_t count, uint32_t dtype,
                uint64_t deadline_ns)
{
    struct gw_coll c = {.kind = GW_COLL_ALLTOALL, .dtype = dtype, .send = send, .recv = recv, .count = count};

    return coll_call(comm, &c, deadline_ns);
}

int gw_alltoallv(struct gw_comm *comm, const struct gw_parts *send, const struct gw_parts *recv,
                 uint32_t dtype, uint64_t deadline_ns)
{
    struct gw_coll c = {.kind = GW_COLL_ALLTOALLV,
                        .dtype = dtype,
                        .send = send->base,
                        .recv = recv->base,
                        .send_count = send->count,
                        .send_at = send->at,
                        .recv_count = recv->count,
                        .recv_at = recv->at};

    return coll_call(comm, &c, deadline_ns);
}
