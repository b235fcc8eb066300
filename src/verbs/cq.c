/* SPDX-License-Identifier: Apache-2.0 */
/* Completion queues. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "src/verbs/impl.h"

#define DEFAULT_QPS 64

static int make_channel(struct gw_cq *cq)
{
    int flags;

    cq->channel = ibv_create_comp_channel(cq->dev->ctx);
    if (!cq->channel)
        return gw_error_errno(-errno, "%s: cannot make a completion channel", cq->dev->info.name);
    /* Several threads may wake for one event; those that come late must not block in reading it. */
    flags = fcntl(cq->channel->fd, F_GETFL);
    if (flags < 0 || fcntl(cq->channel->fd, F_SETFL, flags | O_NONBLOCK))
        return gw_error_errno(-errno, "%s: completion channel", cq->dev->info.name);
    return 0;
}

static int make_cq(struct gw_cq *cq, uint32_t cqe)
{
    struct ibv_cq_init_attr_ex attr = {
        .cqe = cqe,
        .cq_context = cq,
        .channel = cq->channel,
        .wc_flags = IBV_WC_STANDARD_FLAGS,
        .comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD,
        .flags = IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN, /* it cannot overrun: gw_cq_attach keeps account */
        .parent_domain = cq->dev->parent,
    };
    struct mlx5dv_obj obj = {0};
    int err;

    cq->cq = ibv_create_cq_ex(cq->dev->ctx, &attr);
    if (!cq->cq)
        return gw_error_errno(-errno, "%s: cannot make a completion queue of %u entries", cq->dev->info.name,
                              cqe);
    obj.cq.in = ibv_cq_ex_to_cq(cq->cq);
    obj.cq.out = &cq->dv;
    err = mlx5dv_init_obj(&obj, MLX5DV_OBJ_CQ);
    if (err) return gw_error_errno(-err, "%s: completion queue", cq->dev->info.name);
    if (cq->dv.cqe_size != GW_MLX5_CQE)
        return gw_error(-EOPNOTSUPP, "%s: completions of %u bytes; unset MLX5_CQE_SIZE", cq->dev->info.name,
                        cq->dv.cqe_size);
    return 0;
}

static int make_handle(struct gw_cq *cq, uint32_t flags)
{
    struct gw_device *dev = cq->dev;
    struct gw_cq_handle *h = &cq->copy;
    struct gw_piece handle, table;
    int err;

    cq->table = calloc(2 * cq->table_size, sizeof(*cq->table));
    if (!cq->table) return gw_error_errno(-ENOMEM, "completion queue");
    err = gw_arena_alloc(&dev->handles, sizeof(*h), GW_HANDLE_BYTES, &handle);
    if (err) return err;
    cq->handle = handle.dev;
    err = gw_arena_alloc(&dev->handles, cq->table_size * sizeof(*cq->table), 64, &table);
    if (err) return err;
    h->size = sizeof(*h);
    h->version = GW_VERBS_VERSION;
    h->cqn = cq->dv.cqn;
    h->flags = flags;
    h->cqe = gw_arena_dev(&dev->queues, cq->dv.buf);
    h->cqes = cq->dv.cqe_cnt;
    h->table = table.dev;
    h->table_mask = cq->table_size - 1;
    h->dbrec = gw_arena_dev(&dev->queues, cq->dv.dbrec);
    h->host = gw_exec_kind(dev->exec) == GW_EXEC_CPU ? cq : NULL;
    if (!h->cqe || !h->dbrec)
        return gw_error(-EOPNOTSUPP,
                        "%s: this libmlx5 does not take its memory from us; it must be 44 or newer",
                        dev->info.name);
    return gw_copy_in(dev->exec, cq->handle, h, sizeof(*h));
}

static void destroy(struct gw_cq *cq)
{
    if (cq->cq) ibv_destroy_cq(ibv_cq_ex_to_cq(cq->cq));
    if (cq->channel) ibv_destroy_comp_channel(cq->channel);
    gw_arena_free(&cq->dev->handles, cq->copy.table);
    gw_arena_free(&cq->dev->handles, cq->handle);
    pthread_mutex_destroy(&cq->sleep);
    free(cq->table);
    free(cq);
}

int gw_cq_create(struct gw_device *dev, const struct gw_cq_attr *attr, struct gw_cq **out)
{
    struct gw_cq *cq;
    int err = 0;

    *out = NULL;
    if (!attr->cqe || attr->cqe > 1u << 22 || attr->qps > 1u << 20 ||
        attr->flags & ~(GW_CQ_ONE_POLLER | GW_CQ_SLEEP))
        return gw_error(-EINVAL, "completion queue: %u entries, %u queue pairs, flags %x", attr->cqe,
                        attr->qps, attr->flags);
    cq = gw_new(sizeof(*cq));
    if (!cq) return gw_error_errno(-ENOMEM, "completion queue");
    cq->dev = dev;
    cq->max_qps = attr->qps ? attr->qps : DEFAULT_QPS;
    for (cq->table_size = 4; cq->table_size < 2 * cq->max_qps; cq->table_size *= 2) continue;
    pthread_mutex_init(&cq->sleep, NULL);
    pthread_mutex_lock(&dev->lock);
    if (attr->flags & GW_CQ_SLEEP && gw_exec_kind(dev->exec) == GW_EXEC_CPU) err = make_channel(cq);
    if (!err) err = make_cq(cq, attr->cqe);
    if (!err) err = make_handle(cq, attr->flags);
    if (err) {
        destroy(cq);
    } else {
        cq->room = cq->dv.cqe_cnt;
        dev->objects++;
        *out = cq;
    }
    pthread_mutex_unlock(&dev->lock);
    return err;
}

int gw_cq_destroy(struct gw_cq *cq)
{
    struct gw_device *dev;

    if (!cq) return 0;
    dev = cq->dev;
    pthread_mutex_lock(&dev->lock);
    if (cq->qps) {
        pthread_mutex_unlock(&dev->lock);
        return gw_error(-EBUSY, "completion queue: %u queue pairs still use it", cq->qps);
    }
    destroy(cq);
    dev->objects--;
    pthread_mutex_unlock(&dev->lock);
    return 0;
}

struct gw_cq_handle *gw_cq_handle(const struct gw_cq *cq)
{
    return cq->handle;
}

static void enter(struct gw_cq *cq, uint32_t qpn, struct gw_qp_handle *handle)
{
    uint32_t i = qpn * 2654435769u >> 8; /* as gw_cq_find_ looks */

    while (cq->table[i & (cq->table_size - 1)].qpn) i++;
    cq->table[i & (cq->table_size - 1)].qp = handle;
    cq->table[i & (cq->table_size - 1)].qpn = qpn;
}

static int write_table(struct gw_cq *cq)
{
    return gw_copy_in(cq->dev->exec, cq->copy.table, cq->table, cq->table_size * sizeof(*cq->table));
}

int gw_cq_attach(struct gw_cq *cq, uint32_t qpn, struct gw_qp_handle *handle, uint32_t entries)
{
    if (entries > cq->room)
        return gw_error(-ENOSPC, "completion queue of %u entries has %u left, and this queue pair needs %u",
                        cq->dv.cqe_cnt, cq->room, entries);
    if (cq->qps == cq->max_qps)
        return gw_error(-ENOSPC, "completion queue: made for %u queue pairs, and all are there", cq->max_qps);
    cq->room -= entries;
    cq->qps++;
    enter(cq, qpn, handle);
    return write_table(cq);
}

void gw_cq_detach(struct gw_cq *cq, uint32_t qpn, uint32_t entries)
{
    struct gw_qp_entry *old = cq->table + cq->table_size; /* scratch: this must not fail */
    size_t bytes = cq->table_size * sizeof(*old);

    cq->room += entries;
    cq->qps--;
    memcpy(old, cq->table, bytes);
    memset(cq->table, 0, bytes);
    for (uint32_t i = 0; i < cq->table_size; i++)
        if (old[i].qpn && old[i].qpn != qpn) enter(cq, old[i].qpn, old[i].qp);
    (void)write_table(cq);
}
