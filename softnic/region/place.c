/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Payload on its way into memory. As a NIC may, this leaves open when and in which order the bytes of a
 * message become visible. They are visible once sn_place_flush has returned. That comes before every
 * completion and acknowledgement that vouches for them. It also comes before the next message is done, and
 * before a READ or atomic of the same connection.
 *
 * In hostile mode payload is cut into pieces of random length. They are held back, all queue pairs' together,
 * and written in random order, some early, the rest when flushed.
 *
 * A network that takes several paths, or a bus with relaxed ordering, may put a WRITE in front of what is
 * left of an earlier one. With `overtake`, or where the region allows relaxed ordering, a WRITE's pieces are
 * held back beyond its end, each for a time of its own. These must come after them, so they write the pieces
 * first: a SEND, an immediate, a READ and an atomic of the same connection. So does each completion that this
 * NIC writes, of any connection: no completion passes data on the bus. An acknowledgement does not: it says
 * only that the responder has the WRITE.
 *
 * A GPU may not promise that who sees a completion sees its data. Then in hostile mode what goes to its
 * memory is held back (as if on the bus) until this NIC reads from there, which pushes it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <gpuwire/detail/held.h>

#include "softnic/region/region.h"

/* How long a WRITE may be held back beyond its end. */
#define OVERTAKEN_NS 2000000u

/* ---- which regions have to be flushed ------------------------------------------------------------------ */

static void note_error(struct sn_qp *qp, int err)
{
    if (err && !qp->place_error) qp->place_error = err;
}

static void flush_regions(struct sn_qp *qp)
{
    for (unsigned i = 0; i < qp->dirty_count; i++)
        note_error(qp, qp->dirty[i]->init.dma->flush(qp->dirty[i]->init.dma_ctx));
    qp->dirty_count = 0;
}

static void write_now(struct sn_qp *qp, struct sn_mr *mr, uint64_t va, const void *src, uint32_t len)
{
    note_error(qp, sn_mr_write(mr, va, src, len));
    if (!mr->init.dma->flush) return;
    for (unsigned i = 0; i < qp->dirty_count; i++)
        if (qp->dirty[i] == mr) return;
    if (qp->dirty_count == SN_DIRTY_MRS) flush_regions(qp);
    qp->dirty[qp->dirty_count++] = mr;
}

/* ---- pieces on the bus --------------------------------------------------------------------------------- */

static const void *place_line_of(const struct sn_mr *mr)
{
    return mr->init.dma->line ? mr->init.dma->line(mr->init.dma_ctx) : NULL;
}

/* In the order in which they came, those of one line, or of one region: line NULL. */
static void land(struct sn_nic *nic, const void *line, uint32_t key)
{
    unsigned kept = 0;

    for (unsigned i = 0; i < nic->behind_count; i++) {
        struct sn_piece_behind *b = nic->behind[i];
        struct sn_mr *mr = sn_mr_find(nic, b->pd, b->key, b->va, b->len);

        if (mr && (line ? place_line_of(mr) != line : b->key != key)) {
            nic->behind[kept++] = b;
            continue;
        }
        if (mr && !sn_mr_write(mr, b->va, b->bytes, b->len) && mr->init.dma->flush)
            (void)mr->init.dma->flush(mr->init.dma_ctx); /* its completion has been given */
        free(b);
    }
    nic->behind_count = kept;
}

/* False: there is no room. */
static bool leave_behind(struct sn_nic *nic, const struct sn_piece_held *p)
{
    struct sn_piece_behind *b = nic->behind_count < SN_PIECES_BEHIND ? malloc(sizeof(*b) + p->len) : NULL;

    if (!b) return false;
    *b = (struct sn_piece_behind){p->pd, p->key, p->va, p->len};
    memcpy(b->bytes, nic->held_bytes + p->at, p->len);
    nic->behind[nic->behind_count++] = b;
    return true;
}

void sn_place_read(struct sn_mr *mr)
{
    struct sn_nic *nic = mr->pd->nic;

    GW_ASSERT_HELD(&nic->lock);
    if (mr->init.unordered && nic->behind_count) land(nic, place_line_of(mr), 0);
}

/* ---- pieces held back ---------------------------------------------------------------------------------- */

static void write_piece(struct sn_nic *nic, unsigned i)
{
    struct sn_piece_held *p = &nic->held[i];
    /* Rights were checked when the piece came; what matters now is that the region still exists. */
    struct sn_mr *mr = sn_mr_find(nic, p->pd, p->key, p->va, p->len);

    GW_ASSERT_HELD(&nic->lock);
    if (mr && mr->init.unordered && !leave_behind(nic, p)) {
        land(nic, place_line_of(mr), 0); /* what came before it stays before it */
        write_now(p->qp, mr, p->va, nic->held_bytes + p->at, p->len);
    } else if (mr && !mr->init.unordered) {
        write_now(p->qp, mr, p->va, nic->held_bytes + p->at, p->len);
    } else if (!mr) {
        note_error(p->qp, -EACCES);
    }
    GW_ASSERT(p->qp->held > 0 && p->at + p->len <= nic->held_used && nic->held_used <= SN_PLACE_BYTES);
    p->qp->held--;
    memmove(p, p + 1, (nic->held_count - i - 1) * sizeof(*p));
    if (--nic->held_count == 0) nic->held_used = 0;
}

static void place_write_some(struct sn_nic *nic, struct sn_qp *qp)
{
    unsigned want = sn_random_below(nic, qp ? qp->held : nic->held_count), i;

    for (i = 0; i < nic->held_count; i++) {
        if (qp && nic->held[i].qp != qp) continue;
        if (want-- == 0) break;
    }
    if (i < nic->held_count) write_piece(nic, i);
}

static bool may_be_overtaken(const struct sn_nic *nic, const struct sn_mr *mr)
{
    return nic->cfg.overtake || mr->init.access & IBV_ACCESS_RELAXED_ORDERING;
}

static void place_hold(struct sn_qp *qp, const struct sn_mr *mr, uint64_t va, const uint8_t *src,
                       uint32_t len)
{
    struct sn_nic *nic = qp->nic;

    while (nic->held_count && (nic->held_count == SN_PLACE_PIECES || nic->held_used + len > SN_PLACE_BYTES))
        place_write_some(nic, NULL);
    nic->held[nic->held_count++] = (struct sn_piece_held){
        qp,
        mr->pd,
        mr->key,
        va,
        len,
        nic->held_used,
        may_be_overtaken(nic, mr) ? nic->now + sn_random_below(nic, OVERTAKEN_NS) : SN_NEVER};
    memcpy(nic->held_bytes + nic->held_used, src, len);
    nic->held_used += len;
    qp->held++;
}

int sn_place(struct sn_qp *qp, struct sn_mr *mr, uint64_t va, const void *src, uint32_t len)
{
    const uint8_t *from = src;

    GW_ASSERT_HELD(&qp->nic->lock);
    if (!qp->nic->cfg.hostile) {
        write_now(qp, mr, va, src, len);
        return qp->place_error;
    }
    while (len) {
        uint32_t n = 1 + sn_random_below(qp->nic, len < 512 ? len : 512);

        place_hold(qp, mr, va, from, n);
        va += n;
        from += n;
        len -= n;
    }
    return 0;
}

/* ---- the end of it ------------------------------------------------------------------------------------- */

int sn_place_flush(struct sn_qp *qp)
{
    int err;

    GW_ASSERT_HELD(&qp->nic->lock);
    while (qp->held) place_write_some(qp->nic, qp);
    flush_regions(qp);
    err = qp->place_error;
    qp->place_error = 0;
    return err;
}

static bool has_late(const struct sn_qp *qp)
{
    for (unsigned i = 0; i < qp->nic->held_count; i++)
        if (qp->nic->held[i].qp == qp && qp->nic->held[i].due != SN_NEVER) return true;
    return false;
}

int sn_place_end_write(struct sn_qp *qp)
{
    struct sn_nic *nic = qp->nic;
    int err;

    if (!qp->held || !has_late(qp)) return sn_place_flush(qp);
    for (unsigned i = 0; i < nic->held_count;) {
        if (nic->held[i].qp == qp && nic->held[i].due == SN_NEVER)
            write_piece(nic, i); /* which takes it out */
        else
            i++;
    }
    flush_regions(qp);
    err = qp->place_error;
    qp->place_error = 0;
    return err;
}

static void write_until(struct sn_nic *nic, uint64_t due)
{
    for (unsigned i = 0; i < nic->held_count;) {
        struct sn_qp *qp = nic->held[i].qp;

        if (nic->held[i].due > due) {
            i++;
            continue;
        }
        write_piece(nic, i); /* which takes it out */
        flush_regions(qp);
    }
}

void sn_place_due(struct sn_nic *nic)
{
    write_until(nic, nic->now);
}

void sn_place_push(struct sn_nic *nic)
{
    write_until(nic, SN_NEVER - 1);
}

uint64_t sn_place_next(const struct sn_nic *nic)
{
    uint64_t next = SN_NEVER;

    for (unsigned i = 0; i < nic->held_count; i++)
        if (nic->held[i].due < next) next = nic->held[i].due;
    return next;
}

/* The connection is gone: what it held back does not become visible, which is as good as late. But WRITEs may
 * have been acknowledged. */
void sn_place_drop(struct sn_qp *qp)
{
    struct sn_nic *nic = qp->nic;
    unsigned kept = 0;

    GW_ASSERT_HELD(&nic->lock);
    if (qp->held && has_late(qp)) (void)sn_place_flush(qp);
    if (qp->held) {
        for (unsigned i = 0; i < nic->held_count; i++)
            if (nic->held[i].qp != qp) nic->held[kept++] = nic->held[i];
        nic->held_count = kept;
        if (!kept) nic->held_used = 0;
        qp->held = 0;
    }
    flush_regions(qp);
    qp->place_error = 0;
}

void sn_place_forget_mr(struct sn_nic *nic, struct sn_mr *mr)
{
    struct sn_link *it, *tmp;

    GW_ASSERT_HELD(&nic->lock);
    for (unsigned i = 0; i < nic->held_count;) {
        if (nic->held[i].key == mr->key)
            write_piece(nic, i);
        else
            i++;
    }
    if (nic->behind_count) land(nic, NULL, mr->key);
    if (!mr->init.dma->flush) return;
    sn_list_each(it, tmp, &nic->all_qps)
    {
        struct sn_qp *qp = sn_entry(it, struct sn_qp, all_link);

        for (unsigned i = 0; i < qp->dirty_count; i++) {
            if (qp->dirty[i] != mr) continue;
            note_error(qp, mr->init.dma->flush(mr->init.dma_ctx));
            qp->dirty[i] = qp->dirty[--qp->dirty_count];
            break;
        }
    }
}
