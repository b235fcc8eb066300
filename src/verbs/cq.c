/* SPDX-License-Identifier: Apache-2.0 */
/* Completion queues. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <gpuwire/detail/held.h>

#include "src/verbs/impl.h"

#define DEFAULT_QPS 64

/* CPU threads sleep on both. */
static int make_alarm(struct gw_cq *cq)
{
    if (cq->event_fd < 0) return 0;
    cq->alarm_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return cq->alarm_fd < 0 ? gw_error_errno(-errno, "completion queue") : 0;
}

static int verbs_cq_make_handle(struct gw_cq *cq, uint32_t flags)
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
    h->cqn = cq->cqn;
    h->flags = flags;
    h->cqe = gw_arena_dev(&dev->queues, cq->ring);
    h->cqes = cq->cqes;
    h->table = table.dev;
    h->table_mask = cq->table_size - 1;
    h->dbrec = gw_arena_dev(&dev->queues, cq->dbrec);
    h->host = gw_exec_kind(dev->exec) == GW_EXEC_CPU ? cq : NULL;
    h->flush = gw_flush_handle_of(cq->flush);
    if (!h->cqe || !h->dbrec)
        return gw_error(-EOPNOTSUPP,
                        "%s: this libmlx5 does not take its memory from us; rdma-core 29 and newer do",
                        dev->info.name);
    return gw_copy_in(dev->exec, cq->handle, h, sizeof(*h));
}

static void verbs_cq_destroy(struct gw_cq *cq)
{
    GW_ASSERT_HELD(&cq->dev->lock);
    cq->ops->cq_free(cq);
    gw_arena_free(&cq->dev->handles, cq->copy.table);
    gw_arena_free(&cq->dev->handles, cq->handle);
    if (cq->alarm_fd >= 0) close(cq->alarm_fd);
    free(cq->table);
    free(cq);
}

int gw_cq_create_plain(struct gw_device *dev, const struct gw_cq_attr *attr, struct gw_flush *flush,
                       struct gw_cq **out)
{
    struct gw_cq *cq;
    int err;

    *out = NULL;
    if (!attr->cqe || attr->cqe > 1u << 22 || attr->qps > 1u << 20 ||
        attr->flags & ~(GW_CQ_ONE_POLLER | GW_CQ_SLEEP))
        return gw_error(-EINVAL, "completion queue: %u entries, %u queue pairs, flags %x", attr->cqe,
                        attr->qps, attr->flags);
    if (attr->post_mode > GW_POST_PROXY_POST)
        return gw_error(-EINVAL, "completion queue: there is no posting mode %u", attr->post_mode);
    cq = gw_new(sizeof(*cq));
    if (!cq) return gw_error_errno(-ENOMEM, "completion queue");
    cq->dev = dev;
    cq->ops = gw_mode_queues(dev, attr->post_mode);
    cq->event_fd = cq->alarm_fd = -1;
    cq->flush = flush;
    cq->max_qps = attr->qps ? attr->qps : DEFAULT_QPS;
    for (cq->table_size = 4; cq->table_size < 2 * cq->max_qps; cq->table_size *= 2) continue;
    pthread_mutex_lock(&dev->lock);
    err = gw_place(dev, attr->placement);
    if (!err) err = cq->ops->cq_make(cq, attr);
    if (!err) err = make_alarm(cq);
    if (!err) err = verbs_cq_make_handle(cq, attr->flags);
    if (err) {
        verbs_cq_destroy(cq);
    } else {
        cq->room = cq->cqes;
        dev->objects++;
        gw_watch_cq(cq);
        *out = cq;
    }
    pthread_mutex_unlock(&dev->lock);
    return err;
}

int gw_cq_create(struct gw_device *dev, const struct gw_cq_attr *attr, struct gw_cq **out)
{
    struct gw_flush *flush;
    int err = gw_flush_make(dev, attr->post_mode, &flush);

    *out = NULL;
    if (!err) err = gw_cq_create_plain(dev, attr, flush, out);
    if (err) gw_flush_free(dev, flush);
    return err;
}

int gw_cq_destroy(struct gw_cq *cq)
{
    struct gw_flush *flush;
    struct gw_device *dev;

    if (!cq) return 0;
    dev = cq->dev;
    pthread_mutex_lock(&dev->lock);
    if (cq->qps) {
        pthread_mutex_unlock(&dev->lock);
        return gw_error(-EBUSY, "completion queue: %u queue pairs still use it", cq->qps);
    }
    flush = cq->flush;
    gw_watch_cq_del(cq);
    verbs_cq_destroy(cq);
    GW_ASSERT(dev->objects > 0);
    dev->objects--;
    pthread_mutex_unlock(&dev->lock);
    gw_flush_free(dev, flush);
    return 0;
}

struct gw_cq_handle *gw_cq_handle(const struct gw_cq *cq)
{
    return cq->handle;
}

static void verbs_cq_enter(struct gw_cq *cq, uint32_t qpn, struct gw_qp_handle *handle)
{
    uint32_t i = qpn * 2654435769u >> 8; /* as gw_cq_find_ looks */

    GW_ASSERT_HELD(&cq->dev->lock);
    while (cq->table[i & (cq->table_size - 1)].qpn) i++;
    cq->table[i & (cq->table_size - 1)].qp = handle;
    cq->table[i & (cq->table_size - 1)].qpn = qpn;
}

/* Each queue pair has one place, and what all may have in it fits. */
GW_CHECKS void cq_check(const struct gw_cq *cq)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < cq->table_size; i++) n += cq->table[i].qpn != 0;
    GW_ASSERT(n == cq->qps && n <= cq->max_qps && cq->room <= cq->cqes);
}

static int write_table(struct gw_cq *cq)
{
    GW_CHECK(cq_check(cq));
    return gw_copy_in(cq->dev->exec, cq->copy.table, cq->table, cq->table_size * sizeof(*cq->table));
}

int gw_cq_attach(struct gw_cq *cq, uint32_t qpn, struct gw_qp_handle *handle, uint32_t entries)
{
    GW_ASSERT_HELD(&cq->dev->lock);
    if (entries > cq->room)
        return gw_error(-ENOSPC, "completion queue of %u entries has %u left, and this queue pair needs %u",
                        cq->cqes, cq->room, entries);
    if (cq->qps == cq->max_qps)
        return gw_error(-ENOSPC, "completion queue: made for %u queue pairs, and all are there", cq->max_qps);
    cq->room -= entries;
    cq->qps++;
    verbs_cq_enter(cq, qpn, handle);
    int err = write_table(cq);
    if (err) gw_cq_detach(cq, qpn, entries); /* else the queue could never be destroyed */
    return err;
}

void gw_cq_detach(struct gw_cq *cq, uint32_t qpn, uint32_t entries)
{
    struct gw_qp_entry *old = cq->table + cq->table_size; /* scratch: this must not fail */
    size_t bytes = cq->table_size * sizeof(*old);

    GW_ASSERT_HELD(&cq->dev->lock);
    GW_ASSERT(cq->qps > 0 && cq->room + entries <= cq->cqes);
    cq->room += entries;
    cq->qps--;
    memcpy(old, cq->table, bytes);
    memset(cq->table, 0, bytes);
    for (uint32_t i = 0; i < cq->table_size; i++)
        if (old[i].qpn && old[i].qpn != qpn) verbs_cq_enter(cq, old[i].qpn, old[i].qp);
    (void)write_table(cq);
}
