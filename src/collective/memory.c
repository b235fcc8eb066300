/* SPDX-License-Identifier: Apache-2.0 */
/* A communicator's memory and queue pairs. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "src/collective/comm.h"

enum {
    SEND_WR = 64, /* more than the messages, signals and answers that a pipe has under way */
    RECV_WR = 16, /* more than a peer sends before it hears of what was taken */
    SMALL_MAX = 16 << 10,
    SMALL_MIN = 1 << 10,
    LARGE_MAX = 1 << 20,
    LARGE_MIN = 4 << 10,
    DIRECT_MIN = 16 << 10, /* bytes for a peer below which an offer costs more than two copies */
};

static uint32_t slot_size(uint64_t budget, uint64_t slots, uint32_t least, uint32_t most)
{
    uint64_t n = budget / slots;

    if (n > most) n = most;
    return n < least ? least : (uint32_t)(n & ~(uint64_t)(GW_COLL_HEAD_ - 1));
}

/* The NIC's address of a place in memory that gw_mem_alloc gave. */
static void *memory_nic(const struct gw_mem *m)
{
    return m->host ? m->host : m->dev;
}

/* Small slots and words lie in host memory where a CPU thread moves the data, or where a GPU would not see
 * its own memory in order; large ones in the executor's memory, where the NIC reaches it. */
static int memory_slots(struct gw_comm *c)
{
    uint64_t pipes = (uint64_t)c->blocks * c->size, slots = pipes * GW_COLL_SLOTS_;
    uint64_t front = sizeof(struct gw_coll_front_) + pipes * sizeof(struct gw_coll_words_);
    struct gw_device_info info;
    bool reached;
    int err;

    gw_device_query(c->dev, &info);
    reached = info.gpu_reach != GW_REACH_NONE && !info.gpu_flush;
    c->h.small = slot_size(c->attr.staging / 8, 2 * slots, SMALL_MIN, SMALL_MAX);
    c->h.large = slot_size(c->attr.staging, 2 * slots, LARGE_MIN, LARGE_MAX);
    c->h.direct = DIRECT_MIN;
    err = gw_mem_alloc(c->exec, reached && !info.soft ? GW_MEM_DEVICE : GW_MEM_HOST,
                       front + 2 * slots * (c->h.small + GW_COLL_HEAD_), &c->small);
    if (!err)
        err = gw_mem_alloc(c->exec, reached ? GW_MEM_DEVICE : GW_MEM_HOST,
                           2 * slots * (c->h.large + (uint64_t)GW_COLL_HEAD_), &c->large);
    if (!err) err = gw_mr_register(c->pd, memory_nic(&c->small), c->small.size, 0, &c->small_mr);
    if (!err) err = gw_mr_register(c->pd, memory_nic(&c->large), c->large.size, 0, &c->large_mr);
    if (err) return err;
    c->h.front = c->small.dev;
    c->h.words = (struct gw_coll_words_ *)((uint8_t *)c->small.dev + sizeof(struct gw_coll_front_));
    c->h.recv_small = (uint8_t *)c->small.dev + front;
    c->h.send_small = c->h.recv_small + slots * (c->h.small + GW_COLL_HEAD_);
    c->h.recv_large = c->large.dev;
    c->h.send_large = c->h.recv_large + slots * (c->h.large + (uint64_t)GW_COLL_HEAD_);
    c->h.front_addr = c->small_mr->addr;
    c->h.send_small_addr = c->small_mr->addr + (uint64_t)(c->h.send_small - (uint8_t *)c->small.dev);
    c->h.send_large_addr = c->large_mr->addr + (uint64_t)(c->h.send_large - (uint8_t *)c->large.dev);
    c->h.small_lkey = c->small_mr->lkey;
    c->h.large_lkey = c->large_mr->lkey;
    return 0;
}

/* One block's queue pairs, which share its completion queues. */
static int block_make(struct gw_comm *c, uint32_t block)
{
    struct gw_cq_attr send = {.cqe = c->size * SEND_WR, .qps = c->size};
    struct gw_cq_attr recv = {.cqe = c->size * RECV_WR, .qps = c->size};
    struct gw_qp_attr attr = {.max_send_wr = SEND_WR, .max_recv_wr = c->h.immediate ? RECV_WR : 1};
    int err = gw_cq_create(c->dev, &send, &c->send_cq[block]);

    if (!err) err = gw_cq_create(c->dev, &recv, &c->recv_cq[block]);
    if (err) return err;
    attr.send_cq = c->send_cq[block];
    attr.recv_cq = c->recv_cq[block];
    for (uint32_t i = 0; i < c->size && !err; i++) {
        struct gw_qp **qp = &c->qp[(uint64_t)block * c->size + i];

        if (i == c->rank) continue;
        err = gw_qp_create(c->pd, &attr, qp);
        if (!err && c->h.immediate) err = gw_qp_recv_empty(*qp, RECV_WR, 0);
    }
    return err;
}

/* What kernels read and write besides: after the handle come pipes, queues, the meeting, and buffers'
 * tables. */
static int memory_state(struct gw_comm *c)
{
    uint64_t pipes = (uint64_t)c->blocks * c->size, at = (sizeof(c->h) + 127) & ~127u;
    uint64_t pipe_at = at, cq_at = pipe_at + pipes * sizeof(struct gw_pipe_);
    uint64_t meet_at = (cq_at + c->blocks * sizeof(void *) + 127) & ~UINT64_C(127);
    uint8_t *dev;
    int err;

    c->there_at = meet_at + 128;
    c->rkey_at = c->there_at + (uint64_t)GW_COMM_MAX_BUFFERS * c->size * sizeof(uint64_t);
    err = gw_mem_alloc(c->exec, GW_MEM_DEVICE,
                       c->rkey_at + (uint64_t)GW_COMM_MAX_BUFFERS * c->size * sizeof(uint32_t), &c->state);
    if (err) return err;
    dev = c->state.dev;
    c->h.size = sizeof(c->h);
    c->h.version = GW_COMM_VERSION;
    c->h.rank = c->rank;
    c->h.ranks = c->size;
    c->h.blocks = c->blocks;
    c->h.way = c->attr.way;
    c->h.pipe = (struct gw_pipe_ *)(dev + pipe_at);
    c->h.recv_cq = (struct gw_cq_handle **)(dev + cq_at);
    c->h.meet = (uint64_t *)(dev + meet_at);
    err = gw_mem_alloc(c->exec, GW_MEM_HOST, 4 * c->size * sizeof(uint64_t), &c->lists);
    return err ? err : gw_mem_alloc(c->exec, GW_MEM_HOST, c->blocks * sizeof(int32_t), &c->result);
}

/* Does the NIC do atomics for kernels? */
static bool memory_atomics(const struct gw_comm *c)
{
    struct ibv_device_attr attr;

    return !ibv_query_device(gw_device_context(c->dev), &attr) && attr.atomic_cap != IBV_ATOMIC_NONE;
}

int gw_comm_memory(struct gw_comm *c)
{
    int err = 0;

    c->h.immediate = c->attr.immediate || !memory_atomics(c);
    c->send_cq = calloc(c->blocks, sizeof(*c->send_cq));
    c->recv_cq = calloc(c->blocks, sizeof(*c->recv_cq));
    c->qp = calloc((uint64_t)c->blocks * c->size, sizeof(struct gw_qp *));
    c->pipe = calloc((uint64_t)c->blocks * c->size, sizeof(*c->pipe));
    if (!c->send_cq || !c->recv_cq || !c->qp || !c->pipe) return gw_error(-ENOMEM, "communicator: no memory");
    err = memory_slots(c);
    if (!err) err = memory_state(c);
    for (uint32_t b = 0; b < c->blocks && !err; b++) err = block_make(c, b);
    return err;
}

int gw_comm_memory_publish(struct gw_comm *c)
{
    uint64_t pipes = (uint64_t)c->blocks * c->size;
    int err = gw_copy_in(c->exec, c->h.pipe, c->pipe, pipes * sizeof(*c->pipe));

    for (uint32_t b = 0; b < c->blocks && !err; b++) {
        struct gw_cq_handle *cq = gw_cq_handle(c->recv_cq[b]);

        err = gw_copy_in(c->exec, &c->h.recv_cq[b], &cq, sizeof(struct gw_cq_handle *));
    }
    return err ? err : gw_copy_in(c->exec, c->state.dev, &c->h, sizeof(c->h));
}

void gw_comm_memory_free(struct gw_comm *c)
{
    for (uint64_t i = 0; c->qp && i < (uint64_t)c->blocks * c->size; i++) gw_qp_destroy(c->qp[i]);
    for (uint32_t b = 0; c->recv_cq && b < c->blocks; b++) {
        if (c->send_cq[b]) gw_cq_destroy(c->send_cq[b]);
        if (c->recv_cq[b]) gw_cq_destroy(c->recv_cq[b]);
    }
    gw_mr_free(c->small_mr);
    gw_mr_free(c->large_mr);
    gw_mem_free(&c->small);
    gw_mem_free(&c->large);
    gw_mem_free(&c->state);
    gw_mem_free(&c->lists);
    gw_mem_free(&c->result);
    free(c->send_cq);
    free(c->recv_cq);
    free(c->qp);
    free(c->pipe);
}
