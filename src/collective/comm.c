/* SPDX-License-Identifier: Apache-2.0 */
/* Makes and destroys communicators. */
#include "src/collective/comm.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/ranks/count.h"

#define MAX_TOLD    1900u /* queue pairs that fit into what a rank tells its peers */
#define MAX_NAMES   1024u
#define GPU_BLOCKS  8u
#define GPU_THREADS 256u /* more do not fit: the kernels use all 255 registers of a thread */

/* Members count the communicators of each name alike. */
static int name_take(struct gw_comm *c, const char *name)
{
    int64_t made;

    if (strlen(name) >= GW_COMM_NAME)
        return gw_error(-EINVAL, "communicator: its name is longer than 31 bytes");
    made = gw_ranks_count(c->ranks, name);
    if (made < 0) return (int)made;
    snprintf(c->name, sizeof(c->name), "%s.%u", name, (uint32_t)made);
    return 0;
}

static int members_take(struct gw_comm *c)
{
    uint32_t all = gw_ranks_size(c->ranks), me = gw_ranks_rank(c->ranks);

    c->size = c->attr.members ? c->attr.size : all;
    if (!c->size || c->size > GW_COMM_MAX_RANKS)
        return gw_error(-EINVAL, "communicator: %u members: there must be 1 to %u", c->size,
                        GW_COMM_MAX_RANKS);
    c->members = calloc(c->size, sizeof(*c->members));
    if (!c->members) return gw_error(-ENOMEM, "communicator: no memory");
    c->rank = UINT32_MAX;
    for (uint32_t i = 0; i < c->size; i++) {
        c->members[i] = c->attr.members ? c->attr.members[i] : i;
        if (c->members[i] >= all)
            return gw_error(-EINVAL, "communicator: there is no rank %u", c->members[i]);
        for (uint32_t k = 0; k < i; k++)
            if (c->members[k] == c->members[i])
                return gw_error(-EINVAL, "communicator: rank %u is a member twice", c->members[i]);
        if (c->members[i] == me) c->rank = i;
    }
    if (c->rank == UINT32_MAX) return gw_error(-EINVAL, "communicator: rank %u is no member", me);
    c->attr.members = NULL; /* the caller's */
    return 0;
}

static int shape_take(struct gw_comm *c)
{
    bool gpu = gw_exec_kind(c->exec) == GW_EXEC_GPU;
    uint32_t most = gw_exec_resident_blocks(c->exec);

    if (c->attr.blocks > GW_COMM_MAX_BLOCKS || c->attr.threads > (gpu ? GPU_THREADS : 1024) ||
        c->attr.way > GW_WAY_RING || (c->attr.staging && c->attr.staging < 1 << 16) ||
        c->attr.staging > UINT64_C(1) << 40)
        return gw_error(-EINVAL, "communicator: an attribute is out of range");
    c->blocks = c->attr.blocks ? c->attr.blocks : gpu ? GPU_BLOCKS : 1;
    if (c->blocks > most) c->blocks = most;
    if (c->blocks * c->size > MAX_TOLD) c->blocks = MAX_TOLD / c->size;
    c->threads = c->attr.threads ? c->attr.threads : gpu ? GPU_THREADS : gw_exec_lanes(c->exec);
    if (!c->attr.staging) c->attr.staging = 64 << 20;
    return 0;
}

static void comm_free(struct gw_comm *c)
{
    gw_comm_watch_end(c);
    gw_comm_memory_free(c);
    if (c->pd) gw_pd_destroy(c->pd);
    free(c->members);
    free(c);
}

int gw_comm_create(struct gw_ranks *ranks, struct gw_device *dev, const struct gw_comm_attr *attr,
                   uint64_t deadline_ns, struct gw_comm **out)
{
    struct gw_comm *c = calloc(1, sizeof(*c));
    int err;

    if (!c) return gw_error(-ENOMEM, "communicator: no memory");
    c->ranks = ranks;
    c->dev = dev;
    c->exec = gw_device_exec(dev);
    if (attr) c->attr = *attr;
    c->death_fd = c->stop_fd = -1;
    err = members_take(c);
    if (!err) err = shape_take(c);
    if (!err) err = name_take(c, c->attr.name ? c->attr.name : "");
    c->attr.name = NULL;
    if (!err) err = gw_pd_create(dev, &c->pd);
    if (!err) err = gw_comm_memory(c);
    if (!err) err = gw_comm_meet(c, deadline_ns);
    if (!err) err = gw_comm_watch(c);
    if (err) {
        comm_free(c);
        return err;
    }
    *out = c;
    return 0;
}

int gw_comm_destroy(struct gw_comm *comm)
{
    if (!comm) return 0;
    for (uint32_t i = 0; i < GW_COMM_MAX_BUFFERS; i++)
        if (comm->buffer[i].mr) return gw_error(-EBUSY, "communicator: buffers are registered");
    comm_free(comm);
    return 0;
}

uint32_t gw_comm_rank(const struct gw_comm *comm)
{
    return comm->rank;
}

uint32_t gw_comm_size(const struct gw_comm *comm)
{
    return comm->size;
}

uint32_t gw_comm_blocks(const struct gw_comm *comm)
{
    return comm->blocks;
}

struct gw_comm_handle *gw_comm_handle(const struct gw_comm *comm)
{
    return (struct gw_comm_handle *)comm->state.dev;
}

int gw_comm_fault(const struct gw_comm *comm, uint32_t *rank)
{
    uint64_t fault = gw_comm_fault_word(comm);

    if (!fault) return 0;
    *rank = (uint32_t)fault - 1;
    return -(int)(uint32_t)(fault >> 32 & 0x7fffffff);
}
