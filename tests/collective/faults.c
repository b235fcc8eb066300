/* SPDX-License-Identifier: Apache-2.0 */
/* Wrong arguments, ranks that differ, are late, or die: every rank gets an error. */
#include <signal.h>

#include "src/collective/comm.h"
#include "tests/collective/peer.h"

#define COUNT 1000

static int sum(struct peer *p, uint64_t count, uint64_t deadline)
{
    return gw_allreduce(p->comm, p->send.dev, p->recv.dev, count, GW_DTYPE_F32, GW_SUM, deadline);
}

/* A broken communicator stays so; a new one works. */
static int renew(struct peer *p, const char *name)
{
    struct gw_comm_attr attr = {.name = name};

    TRY(sum(p, COUNT, LIMIT) == -ECONNABORTED);
    TRY(gw_comm_destroy(p->comm) == 0);
    TRY(gw_comm_create(p->ranks, p->dev, &attr, LIMIT, &p->comm) == 0);
    TRY(sum(p, COUNT, LIMIT) == 0);
    return 0;
}

static int check_arguments(struct peer *p)
{
    struct gw_coll c = {.kind = GW_COLL_BROADCAST, .dtype = GW_DTYPE_F32, .root = p->size};
    struct gw_coll_plan plan;

    TRY(gw_allreduce(p->comm, p->send.dev, p->recv.dev, 1, 99, GW_SUM, LIMIT) == -EINVAL);
    TRY(gw_allreduce(p->comm, p->send.dev, p->recv.dev, 1, GW_DTYPE_F32, 99, LIMIT) == -EINVAL);
    TRY(gw_allreduce(p->comm, p->send.dev, p->recv.dev, 1, GW_DTYPE_I32, GW_AVG, LIMIT) == -EINVAL);
    TRY(gw_coll_plan(p->comm, &c, &plan) == -EINVAL);
    TRY(gw_coll_wait(p->comm) == -EINVAL);
    TRY(sum(p, COUNT, LIMIT) == 0);
    return 0;
}

/* Rank 1 does not come. */
static int check_late(struct peer *p)
{
    uint32_t who = UINT32_MAX;

    if (p->rank != 1) {
        int err = sum(p, COUNT, gw_deadline(300000000));

        TRY(err == -ETIMEDOUT || err == -ECONNABORTED);
        TRY(gw_comm_fault(p->comm, &who) == -ETIMEDOUT && who == 1);
    }
    TRY(gw_ranks_fence(p->ranks, LIMIT) == 0);
    if (p->rank == 1) {
        int err = 0;

        /* The others had sent their parts before they gave up, so the first may succeed. Then this rank is
         * told, or it first sees that a rank which was told has closed its queue pairs. */
        for (uint32_t i = 0; i < 100 && !err; i++) err = sum(p, COUNT, LIMIT);
        TRY(err == -ECONNABORTED || err == -EIO);
    }
    return renew(p, "late");
}

/* Rank 1 brings one element more. Others may first hear of that from one that noticed. */
static int check_differs(struct peer *p)
{
    int err = sum(p, COUNT + (p->rank == 1), LIMIT);

    TRY(err == -EPROTO || err == -ECONNABORTED);
    return renew(p, "differs");
}

/* One queue pair of rank 0's is taken down. */
static int check_queue(struct peer *p)
{
    int err = 0;

    TRY(gw_ranks_fence(p->ranks, LIMIT) == 0);
    if (!p->rank) TRY(gw_qp_abort(p->comm->qp[1]) == 0);
    for (uint32_t i = 0; i < 100 && !err; i++) err = sum(p, COUNT, LIMIT);
    TRY(err == -EIO || err == -ECONNABORTED);
    return renew(p, "queue");
}

/* A part of the program. */
static int check_members(struct peer *p)
{
    uint32_t odd[GW_COMM_MAX_RANKS], n = 0;
    struct gw_comm_attr attr = {.members = odd, .name = "odd"};
    struct gw_comm *comm;

    for (uint32_t i = 1; i < p->size; i += 2) odd[n++] = i;
    attr.size = n;
    if (p->rank % 2 == 0) {
        TRY(gw_comm_create(p->ranks, p->dev, &attr, LIMIT, &comm) == -EINVAL);
        return 0;
    }
    TRY(gw_comm_create(p->ranks, p->dev, &attr, LIMIT, &comm) == 0);
    TRY(gw_comm_size(comm) == n && gw_comm_rank(comm) == p->rank / 2);
    TRY(gw_allreduce(comm, p->send.dev, p->recv.dev, COUNT, GW_DTYPE_F32, GW_SUM, LIMIT) == 0);
    TRY(gw_barrier(comm, LIMIT) == 0);
    TRY(gw_comm_destroy(comm) == 0);
    return 0;
}

int check_faults(struct peer *p)
{
    TRY(check_arguments(p) == 0);
    TRY(check_late(p) == 0);
    TRY(check_differs(p) == 0);
    TRY(check_queue(p) == 0);
    TRY(check_members(p) == 0);
    return gw_ranks_fence(p->ranks, LIMIT);
}

int check_death(struct peer *p, uint32_t who)
{
    uint32_t dead = UINT32_MAX;
    int err = 0;

    for (uint32_t i = 0; !err; i++) {
        if (i == 50 && p->rank == who) raise(SIGKILL);
        err = sum(p, 100000, LIMIT);
    }
    TRY(err == -ECONNRESET || err == -ECONNABORTED || err == -EIO);
    TRY(gw_comm_fault(p->comm, &dead) < 0);
    TRY(dead == who);
    TRY(sum(p, COUNT, LIMIT) == -ECONNABORTED);
    return 0;
}
