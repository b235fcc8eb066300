/* SPDX-License-Identifier: Apache-2.0 */
/* Between the bytes of a message, in order, and the pieces of memory that a work request lists. */
#include <errno.h>
#include <string.h>

#include "softnic/region/region.h"

/* What is done with each stretch: bytes at va of piece p, n of them; msg is where they are in the message. */
struct list;
typedef int stretch_fn(struct sn_qp *qp, const struct list *l, const struct gw_mlx5_piece *p, uint32_t used,
                       uint8_t *msg, uint32_t n);

struct list {
    const struct gw_mlx5_wqe *send; /* or */
    const struct gw_mlx5_rwqe *recv;
    struct sn_cursor *cursor;
    const struct sn_pd *pd; /* whose keys it names */
    uint64_t request;
    uint32_t index;        /* of the WQE */
    struct sn_places *out; /* where to note pieces */
};

void sn_cursor_reset(struct sn_cursor *c)
{
    memset(c, 0, sizeof(*c));
}

static bool next_piece(const struct list *l, struct sn_cursor *c)
{
    c->used = 0;
    c->piece.length = 0;
    return l->send ? gw_mlx5_wqe_piece(l->send, &c->unit, &c->piece)
                   : gw_mlx5_rwqe_piece(l->recv, &c->unit, &c->piece);
}

/* Moves the cursor over the next n bytes at most, within one piece. Returns how many, 0 at the list's end. */
static uint32_t stretch(const struct list *l, struct sn_cursor *c, uint32_t n)
{
    uint32_t left = c->piece.length - c->used;

    if (!left) {
        if (!next_piece(l, c)) return 0;
        left = c->piece.length;
    }
    return n < left ? n : left;
}

static void sgl_advance(struct sn_cursor *c, uint32_t n)
{
    c->used += n;
    c->offset += n;
}

static int sgl_walk(struct sn_qp *qp, const struct list *l, uint32_t offset, uint8_t *msg, uint32_t len,
                    stretch_fn *fn)
{
    struct sn_cursor *c = l->cursor;
    uint32_t n;

    if (offset < c->offset) sn_cursor_reset(c);
    while (c->offset < offset) {
        n = stretch(l, c, offset - c->offset);
        if (!n) return -EMSGSIZE;
        sgl_advance(c, n);
    }
    while (len) {
        int err;

        n = stretch(l, c, len);
        if (!n) return -EMSGSIZE;
        err = fn(qp, l, &c->piece, c->used, msg, n);
        if (err) return err;
        sgl_advance(c, n);
        if (msg) msg += n;
        len -= n;
    }
    return 0;
}

static int sgl_refused(struct sn_qp *qp, const struct list *l, const struct gw_mlx5_piece *p, uint32_t access)
{
    const struct sn_mr_named named = {l->pd, p->lkey, access, p->addr, p->length};
    char why[SN_WHY];

    sn_report_qp(qp, "%s WQE at index %u: its piece [0x%llx, +%u) with lkey 0x%x: %s",
                 l->send ? "send" : "receive", l->index, (unsigned long long)p->addr, p->length, p->lkey,
                 sn_mr_diagnose(qp->nic, &named, why));
    return -EACCES;
}

static int read_stretch(struct sn_qp *qp, const struct list *l, const struct gw_mlx5_piece *p, uint32_t used,
                        uint8_t *msg, uint32_t n)
{
    struct sn_mr *mr;

    if (p->inl) {
        memcpy(msg, p->inl + used, n);
        return 0;
    }
    mr = sn_mr_check(qp->nic, l->pd, p->lkey, p->addr, p->length, 0);
    if (!mr) return sgl_refused(qp, l, p, 0);
    return sn_mr_read(mr, p->addr + used, msg, n, p->length - used, l->request);
}

static int write_stretch(struct sn_qp *qp, const struct list *l, const struct gw_mlx5_piece *p, uint32_t used,
                         uint8_t *msg, uint32_t n)
{
    struct sn_mr *mr;

    if (p->inl) return -EMSGSIZE; /* parsers let no inline data through where memory is written */
    mr = sn_mr_check(qp->nic, l->pd, p->lkey, p->addr, p->length, IBV_ACCESS_LOCAL_WRITE);
    if (!mr) return sgl_refused(qp, l, p, IBV_ACCESS_LOCAL_WRITE);
    return sn_place(qp, mr, p->addr + used, msg, n);
}

static int note_stretch(struct sn_qp *qp, const struct list *l, const struct gw_mlx5_piece *p, uint32_t used,
                        uint8_t *msg, uint32_t n)
{
    struct sn_places *out = l->out;
    struct sn_mr *mr;

    (void)msg;
    if (p->inl) return -EMSGSIZE;
    mr = sn_mr_check(qp->nic, l->pd, p->lkey, p->addr, p->length, IBV_ACCESS_LOCAL_WRITE);
    if (!mr) return sgl_refused(qp, l, p, IBV_ACCESS_LOCAL_WRITE);
    if (!sn_mr_copies(mr) || out->n == SN_LIST_MAX) return -EXDEV;
    if (out->n && !sn_same_reach(out->by, sn_mr_reach(mr))) return -EXDEV;
    out->by = sn_mr_reach(mr);
    out->piece[out->n++] =
        (struct iovec){(void *)(uintptr_t)(mr->init.addr + (p->addr - mr->init.iova) + used), n};
    return 0;
}

int sn_gather(struct sn_qp *qp, struct sn_sreq *s, uint32_t offset, uint8_t *dst, uint32_t len)
{
    struct list l = {
        .send = s->wqe, .cursor = &s->cursor, .pd = qp->init.pd, .request = s->request, .index = s->index};

    return sgl_walk(qp, &l, offset, dst, len, read_stretch);
}

/* write_stretch does not write to msg: the one type of function serves both directions. */
int sn_scatter_send(struct sn_qp *qp, struct sn_sreq *s, uint32_t offset, const uint8_t *src, uint32_t len)
{
    struct list l = {.send = s->wqe, .cursor = &s->cursor, .pd = qp->init.pd, .index = s->index};

    return sgl_walk(qp, &l, offset, (uint8_t *)src, len, write_stretch);
}

static struct list receive_list(struct sn_qp *qp)
{
    const struct sn_srq *srq = sn_rq_shared(qp);

    return (struct list){.recv = &qp->resp.wqe,
                         .cursor = &qp->resp.cursor,
                         .pd = srq ? srq->init.pd : qp->init.pd,
                         .index = srq ? qp->resp.entry : qp->rq_ci};
}

int sn_scatter_recv(struct sn_qp *qp, uint32_t offset, const uint8_t *src, uint32_t len)
{
    struct list l = receive_list(qp);

    return sgl_walk(qp, &l, offset, (uint8_t *)src, len, write_stretch);
}

int sn_list_recv(struct sn_qp *qp, uint32_t offset, uint32_t len, struct sn_places *places)
{
    struct list l = receive_list(qp);

    l.out = places;
    places->n = 0;
    return sgl_walk(qp, &l, offset, NULL, len, note_stretch);
}

bool sn_sreq_pieces(struct sn_qp *qp, const struct sn_sreq *s, uint32_t skip, uint32_t len, uint32_t access,
                    sn_piece_fn *fn, void *arg)
{
    struct gw_mlx5_piece p;
    uint32_t unit = 0;

    while (len && gw_mlx5_wqe_piece(s->wqe, &unit, &p)) {
        uint32_t from = skip < p.length ? skip : p.length, n = p.length - from < len ? p.length - from : len;
        struct sn_mr *mr = NULL;

        skip -= from;
        if (!n) continue;
        len -= n;
        if (!p.inl) {
            mr = sn_mr_check(qp->nic, qp->init.pd, p.lkey, p.addr, p.length, access);
            if (!mr || !sn_mr_copies(mr)) return false;
            p.addr += from;
        } else {
            p.inl += from;
        }
        p.length = n;
        if (!fn(arg, &p, mr)) return false;
    }
    return !len;
}
