/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of the program's that all members have registered. */
#include <errno.h>
#include <stdio.h>

#include "src/collective/comm.h"

/* What a member tells of its memory. */
struct buffer_card {
    uint64_t addr, size;
    uint32_t rkey, pad;
};

/* Puts a buffer's entry, and its table, where kernels see them. */
static int buffer_show(struct gw_comm *c, uint32_t id, const struct buffer_card *all)
{
    uint64_t there[GW_COMM_MAX_RANKS];
    uint32_t rkey[GW_COMM_MAX_RANKS];
    uint8_t *at = (uint8_t *)c->state.dev + c->there_at + (uint64_t)id * c->size * sizeof(there[0]);
    uint8_t *key_at = (uint8_t *)c->state.dev + c->rkey_at + (uint64_t)id * c->size * sizeof(rkey[0]);
    int err;

    for (uint32_t i = 0; i < c->size; i++) {
        there[i] = all[i].addr;
        rkey[i] = all[i].rkey;
    }
    c->h.buffer[id].there = (const uint64_t *)at;
    c->h.buffer[id].rkey = (const uint32_t *)key_at;
    err = gw_copy_in(c->exec, at, there, c->size * sizeof(there[0]));
    if (!err) err = gw_copy_in(c->exec, key_at, rkey, c->size * sizeof(rkey[0]));
    return err ? err : gw_copy_in(c->exec, c->state.dev, &c->h, sizeof(c->h));
}

static int buffer_exchange(struct gw_comm *c, uint32_t id, uint64_t deadline_ns)
{
    struct buffer_card mine = {c->buffer[id].mr->addr, c->buffer[id].mr->length, c->buffer[id].mr->rkey, 0};
    struct buffer_card all[GW_COMM_MAX_RANKS];
    char key[24];
    int err;

    snprintf(key, sizeof(key), "b%u", c->registrations++);
    err = gw_comm_tell_all(c, key, &mine, sizeof(mine), all, deadline_ns);
    for (uint32_t i = 0; i < c->size && !err; i++)
        if (all[i].size != mine.size)
            err = gw_error(-EPROTO, "rank %u registers %llu bytes, this one %llu", i,
                           (unsigned long long)all[i].size, (unsigned long long)mine.size);
    return err ? err : buffer_show(c, id, all);
}

int gw_comm_register(struct gw_comm *comm, void *addr, size_t size, uint64_t deadline_ns, uint32_t *id)
{
    uint32_t i = 0;
    int err;

    while (i < GW_COMM_MAX_BUFFERS && comm->buffer[i].mr) i++;
    if (i == GW_COMM_MAX_BUFFERS) return gw_error(-ENOSPC, "communicator: %u buffers are registered", i);
    err = gw_mr_register(comm->pd, addr, size, 0, &comm->buffer[i].mr);
    if (err) return err;
    comm->h.buffer[i] = (struct gw_coll_buffer_){
        .base = addr, .length = size, .addr = comm->buffer[i].mr->addr, .lkey = comm->buffer[i].mr->lkey};
    err = buffer_exchange(comm, i, deadline_ns);
    if (!err) {
        *id = i;
        return 0;
    }
    gw_comm_unregister(comm, i);
    return err;
}

int gw_comm_unregister(struct gw_comm *comm, uint32_t id)
{
    int err;

    if (id >= GW_COMM_MAX_BUFFERS || !comm->buffer[id].mr)
        return gw_error(-EINVAL, "communicator: no buffer %u is registered", id);
    comm->h.buffer[id].base = NULL;
    err = gw_copy_in(comm->exec, comm->state.dev, &comm->h, sizeof(comm->h));
    gw_mr_free(comm->buffer[id].mr);
    comm->buffer[id].mr = NULL;
    return err;
}
