/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The batches of direct accesses: requests to one process, of one queue pair or several, that are one copy. A
 * request joins the one that gathers when all of its pieces are listed, and leaves it copied, or to be sent
 * after all: direct_end.c.
 *
 * Where the memory allows (struct sn_dma_ops: start), the NIC does not wait for a copy. A few batches are
 * under way while the next one gathers, frames are sent and received, and rings are seen. Requests only end
 * later. Batches end in order, and until then a request of one is `copying`. That keeps its completion, its
 * frame and all frames of the requests after it. If an error of its queue pair ends a request otherwise, the
 * copies are settled first: its memory is the program's again.
 */
#include <gpuwire/detail/held.h>

#include "softnic/transport/direct.h"

/*
 * A batch within a GPU has enough when it reaches this length, or this number of requests. Its end is told
 * once for all of it, so shorter ones end sooner, and longer ones cost less. The copy kernel takes 64
 * commands at a time.
 */
enum { GPU_BYTES = 256 << 10, GPU_ITEMS = 16 };

/* ---- on their way -------------------------------------------------------------------------------------- */

static struct sn_batch *gathering(struct sn_direct *d)
{
    return &d->batch[d->open % SN_BATCHES];
}

static unsigned direct_batch_under_way(const struct sn_direct *d)
{
    return d->open - d->first;
}

static void await(struct sn_batch *b)
{
    if (!b->copy.to.dma) return;
    /* As of one that stopped: nothing of it counts. */
    if (b->copy.to.dma->await(b->copy.to.ctx, b->copy.mark)) b->copied = 0;
    b->copy.to.dma = NULL;
}

static void await_all(struct sn_direct *d)
{
    for (uint32_t i = d->first; i != d->open; i++) await(&d->batch[i % SN_BATCHES]);
}

static bool has_ended(const struct sn_batch *b)
{
    return !b->copy.to.dma || b->copy.to.dma->ended(b->copy.to.ctx, b->copy.mark);
}

/* Copies what is listed. What is not of the line of those under way could come before them. */
static int64_t direct_batch_copy(struct sn_nic *nic, struct sn_copying *end)
{
    struct sn_direct *d = &nic->direct;
    const struct sn_copy c = {d->write,       d->here,    d->there,   d->here_count,
                              d->there_count, d->by_here, d->by_there};
    struct sn_reach to = d->write ? d->by_there : d->by_here;
    const void *line = to.dma && to.dma->line ? to.dma->line(to.ctx) : NULL;
    int64_t copied;

    if (!line || line != d->line) await_all(d);
    d->line = line;
    copied = d->peers.ops->copy(d->peers.ctx, d->peer, &c, end);
    sn_count(&nic->count.direct_copies, 1);
    if (copied > 0 && (d->by_here.dma || d->by_there.dma))
        sn_count(&nic->count.direct_gpu_bytes, (uint64_t)copied);
    return copied;
}

static void new_one(struct sn_direct *d)
{
    d->here_count = d->there_count = 0;
    gathering(d)->items = 0;
    gathering(d)->bytes = 0;
}

/* Puts the batch that gathers on its way. */
static void direct_batch_issue(struct sn_nic *nic)
{
    struct sn_direct *d = &nic->direct;
    struct sn_batch *b = gathering(d);

    GW_ASSERT_HELD(&nic->lock);
    b->copied = 0;
    b->copy.to.dma = NULL;
    if (d->there_count) b->copied = direct_batch_copy(nic, &b->copy);
    d->open++;
    GW_ASSERT(direct_batch_under_way(d) < SN_BATCHES);
    new_one(d);
}

void sn_direct_settle(struct sn_nic *nic)
{
    struct sn_direct *d = &nic->direct;

    if (!d->peer) return;
    if (sn_batch_has_items(d)) direct_batch_issue(nic);
    await_all(d);
}

/* The first of those for which there was no room has its turn again, and leaves the queue if it finds
 * some. */
static bool wake_one(struct sn_nic *nic)
{
    if (sn_list_empty(&nic->copy_waits)) return false;
    sn_qp_wake(sn_entry(nic->copy_waits.next, struct sn_qp, copy_wait_link));
    return true;
}

/* Nothing is under way in the peer's memory any more: it may take it away. */
static void direct_batch_leave(struct sn_nic *nic)
{
    struct sn_direct *d = &nic->direct;

    GW_ASSERT_HELD(&nic->lock);
    d->peers.ops->leave(d->peers.ctx, d->peer);
    d->peer = NULL;
    new_one(d);
    sn_activity(nic);
}

/* ---- and ended ----------------------------------------------------------------------------------------- */

/* The oldest. */
static void direct_batch_finish(struct sn_nic *nic)
{
    struct sn_direct *d = &nic->direct;
    struct sn_batch *b = &d->batch[d->first % SN_BATCHES];

    GW_ASSERT_HELD(&nic->lock);
    /* Before those whose requests these were, which would take its place. */
    wake_one(nic);
    await(b);
    if (b->copied > 0) sn_count(&nic->count.direct_bytes, (uint64_t)b->copied);
    /* Requests after those that are put back are put back with them, and must not be copied any more either.
     */
    if (b->copied < b->bytes) sn_direct_settle(nic);
    sn_batch_end(b);
    d->first++;
    sn_activity(nic);
}

static bool finish_those_ended(struct sn_nic *nic)
{
    struct sn_direct *d = &nic->direct;
    bool any = false;

    while (direct_batch_under_way(d) && has_ended(&d->batch[d->first % SN_BATCHES])) {
        direct_batch_finish(nic);
        any = true;
    }
    return any;
}

/* ---- what others ask for ------------------------------------------------------------------------------- */

void sn_batch_rest(struct sn_nic *nic)
{
    struct sn_direct *d = &nic->direct;

    if (d->peer && !direct_batch_under_way(d) && !sn_batch_has_items(d)) direct_batch_leave(nic);
}

/* Is there room for one more? Not if it had better wait: what was refused last was of another kind. */
static bool wants_more(const struct sn_direct *d)
{
    if (direct_batch_under_way(d) < SN_BATCHES_AHEAD) return true;
    return direct_batch_under_way(d) == SN_BATCHES_AHEAD && !sn_batch_enough(d) && !d->other_kind;
}

bool sn_direct_go(struct sn_nic *nic)
{
    struct sn_direct *d = &nic->direct;
    bool any;

    if (!d->peer) return wake_one(nic);
    any = finish_those_ended(nic);
    /* One is to be there when the one before it ends; beyond that they had better gather. */
    if (sn_batch_has_items(d) && direct_batch_under_way(d) < SN_BATCHES_AHEAD - 1) {
        direct_batch_issue(nic);
        finish_those_ended(nic);
        any = true;
    }
    if (wants_more(d) && wake_one(nic)) any = true;
    sn_batch_rest(nic);
    return any;
}

bool sn_direct_drain(struct sn_nic *nic)
{
    struct sn_direct *d = &nic->direct;

    if (!d->peer) return false;
    if (sn_batch_has_items(d)) direct_batch_issue(nic);
    while (direct_batch_under_way(d)) direct_batch_finish(nic);
    sn_batch_rest(nic);
    return true;
}

void sn_batch_close(struct sn_nic *nic)
{
    if (direct_batch_under_way(&nic->direct) < SN_BATCHES_AHEAD) direct_batch_issue(nic);
    finish_those_ended(nic);
    sn_batch_rest(nic);
}

int64_t sn_batch_copy_alone(struct sn_nic *nic)
{
    int64_t copied = direct_batch_copy(nic, NULL);

    direct_batch_leave(nic);
    return copied;
}

/* ---- gathering ----------------------------------------------------------------------------------------- */

bool sn_batch_has_items(const struct sn_direct *d)
{
    return d->batch[d->open % SN_BATCHES].items != 0;
}

bool sn_batch_enough(const struct sn_direct *d)
{
    const struct sn_batch *b = &d->batch[d->open % SN_BATCHES];

    if (d->here_count + GW_MLX5_MAX_DS > SN_DIRECT_HERE || b->items == SN_DIRECT_ITEMS) return true;
    if (!b->items || !d->by_here.dma || !d->by_there.dma) return false;
    return b->bytes >= GPU_BYTES || b->items >= GPU_ITEMS;
}

bool sn_batch_room(struct sn_nic *nic)
{
    struct sn_direct *d = &nic->direct;

    if (!d->peer) return true;
    /* Settled, they are one more than may be under way, and wait to be ended. */
    if (direct_batch_under_way(d) > SN_BATCHES_AHEAD) return false;
    if (sn_batch_enough(d) && direct_batch_under_way(d) < SN_BATCHES_AHEAD) direct_batch_issue(nic);
    return !sn_batch_enough(d);
}

bool sn_batch_fits(const struct sn_direct *d, const struct sn_peer *peer, bool write)
{
    return d->peer == peer && d->write == write;
}

bool sn_batch_open(struct sn_nic *nic, struct sn_peers peers, struct sn_peer *peer, bool write)
{
    struct sn_direct *d = &nic->direct;

    if (d->peer) return true;
    if (!peers.ops->enter(peers.ctx, peer, nic->now)) return false;
    d->peers = peers;
    d->peer = peer;
    d->write = write;
    d->line = NULL;
    return true;
}

static void direct_batch_take_out(struct sn_qp *qp, struct sn_sreq *s)
{
    struct sn_requester *r = &qp->req;
    bool eager = sn_eager_kind(s);

    s->copying = true;
    if (!r->early.batched) r->early.batched_from = r->cur;
    r->cur++;
    r->early.batched++;
    r->early.batched_eager += eager;
    if (eager) return; /* it is sent all the same */
    s->packets = 0;
    sn_batch_renumber(qp, r->cur, s->psn);
}

void sn_batch_join(struct sn_qp *qp, struct sn_sreq *s, uint32_t len)
{
    struct sn_batch *b = gathering(&qp->nic->direct);

    GW_ASSERT(b->items < SN_DIRECT_ITEMS && qp->nic->direct.here_count <= SN_DIRECT_HERE);
    GW_ASSERT(direct_batch_under_way(&qp->nic->direct) <= SN_BATCHES_AHEAD);
    b->item[b->items++] = (struct sn_direct_item){qp, qp->req.cur, len, sn_eager_kind(s)};
    b->bytes += len;
    qp->nic->direct.joined++;
    direct_batch_take_out(qp, s);
}
