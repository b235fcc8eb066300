/* SPDX-License-Identifier: Apache-2.0 */
/*
 * verbs_tx.h: the fast calls. Included by verbs_device.h; names that end in _ are private.
 *
 * A thread opens a *view* of a queue pair once (struct gw_tx, a local variable, whose fields the compiler
 * keeps in registers) and posts through it. Each post returns a 64-bit *ticket*, which never wraps; tickets
 * of a queue pair complete in order. Which requests are signalled, and when the CQ is looked at, is the
 * library's business: it looks only when the queue seems full, and while somebody waits.
 *
 *     struct gw_tx tx;
 *     uint64_t t;
 *     int err = gw_tx_open(&tx, qp);
 *
 *     if (!err) err = gw_tx_post(&tx, gw_put_op(laddr, lkey, raddr, rkey, len), GW_DEFER, NULL);
 *     if (!err) err = gw_tx_post(&tx, gw_fetch_add_op(old, lkey, counter, rkey, 1), 0, &t);
 *     if (!err) err = gw_tx_wait(&tx, t, gw_clock_ns() + 1000000);
 *
 * Forms. _warp: every thread of the warp calls it with its own operation (all of one kind, and the same
 * flags); one reservation and one doorbell for all. _block: the same for a block. Every form posts all or
 * nothing and returns the same value in every thread. on == 0: this thread takes part, and posts nothing.
 *
 * One owner: with GW_QP_ONE_POSTER one view is open at a time (a warp's or block's threads count as one:
 * thread 0's view holds the state), and posting takes no atomic operation. Without it any number of threads
 * have views.
 *
 * The send CQ of a queue pair that is posted to with tickets is the library's: do not call gw_poll_cq on it
 * (its completions would be told twice to nobody), nor mix in gw_post_send. Receives go to another CQ.
 *
 * Lengths are bytes, times nanoseconds on the executor's clock (gw_clock_ns).
 *
 * Memory order: as gw_put's. When gw_tx_wait has returned 0, everything that the request has fetched is
 * visible to the calling thread (in the _warp and _block forms to all), and its local buffer may be reused.
 */
#ifndef GPUWIRE_VERBS_TX_H
#define GPUWIRE_VERBS_TX_H

struct gw_tx {
    uint32_t size, version;
    struct gw_sq_ q;
    struct gw_cq_handle *cq;
    uint64_t mask;   /* signal interval - 1 */
    uint64_t next;   /* with one owner: WQEBBs reserved; else how many at least */
    uint64_t done;   /* completions that this view has seen, good or not */
    uint64_t ok;     /* good ones */
    uint64_t last;   /* the last ticket */
    uint64_t rung;   /* with one owner: rung for up to here; else where our own last ring for ours ended */
    uint64_t marked; /* the last ticket that is signalled because we said so */
};

/*
 * Opens a view. 0; -ENOTCONN: not connected; -EIO: the queue pair has failed; -EOPNOTSUPP: it is for datagrams;
 * -EINVAL: the handle is of another version of this header. A view holds nothing and needs no closing; after gw_qp_reset open a new
 * one.
 */
GW_FN int gw_tx_open(struct gw_tx *tx, struct gw_qp_handle *qp);

/* ---- operations ---------------------------------------------------------------------------------------- */

/* One operation, as the functions below make it. len is at most 2^30 bytes; 0: no payload. */
struct gw_op {
    uint32_t opcode; /* enum gw_mlx5_opcode */
    uint32_t bbs;    /* WQEBBs: 1; 2 with a signal, and for a masked compare and swap */
    uint64_t laddr, raddr;
    uint32_t lkey, rkey;
    uint32_t len, imm;
    uint64_t a, b; /* atomics: swap or addend, and compare or boundary. Signal: its address and value */
    uint64_t swap_mask, compare_mask;
    uint32_t signal_rkey;
};

GW_HOT_FN struct gw_op gw_op_(uint32_t opcode, uint64_t laddr, uint32_t lkey, uint64_t raddr, uint32_t rkey,
                              uint32_t len)
{
    struct gw_op op;

    op.opcode = opcode;
    op.bbs = 1;
    op.laddr = laddr;
    op.raddr = raddr;
    op.lkey = lkey;
    op.rkey = rkey;
    op.len = len;
    op.imm = op.signal_rkey = 0;
    op.a = op.b = op.swap_mask = op.compare_mask = 0;
    return op;
}

/* WRITE. */
GW_FN struct gw_op gw_put_op(uint64_t laddr, uint32_t lkey, uint64_t raddr, uint32_t rkey, uint32_t len)
{
    return gw_op_(GW_MLX5_WRITE, laddr, lkey, raddr, rkey, len);
}

/* WRITE with immediate (host order), which takes a receive at the peer. */
GW_FN struct gw_op gw_put_imm_op(uint64_t laddr, uint32_t lkey, uint64_t raddr, uint32_t rkey, uint32_t len,
                                 uint32_t imm)
{
    struct gw_op op = gw_op_(GW_MLX5_WRITE_IMM, laddr, lkey, raddr, rkey, len);

    op.imm = gw_be32(imm);
    return op;
}

/* READ. */
GW_FN struct gw_op gw_get_op(uint64_t laddr, uint32_t lkey, uint64_t raddr, uint32_t rkey, uint32_t len)
{
    return gw_op_(GW_MLX5_READ, laddr, lkey, raddr, rkey, len);
}

/*
 * WRITE, and behind it a WRITE of 8 bytes, `value`, to signal_raddr: a second request of the same ticket. The
 * peer may poll for the value where writes to that memory are placed in order (see docs/verbs.md); where they
 * are not, it must wait for a completion (gw_put_imm_op).
 */
GW_FN struct gw_op gw_put_signal_op(uint64_t laddr, uint32_t lkey, uint64_t raddr, uint32_t rkey,
                                    uint32_t len, uint64_t signal_raddr, uint32_t signal_rkey, uint64_t value)
{
    struct gw_op op = gw_op_(GW_MLX5_WRITE, laddr, lkey, raddr, rkey, len);

    op.bbs = 2;
    op.a = signal_raddr;
    op.b = value;
    op.signal_rkey = signal_rkey;
    return op;
}

/* Adds to the 8 bytes at raddr (aligned to 8); what was there before arrives at laddr, as it lay in memory.
 */
GW_FN struct gw_op gw_fetch_add_op(uint64_t laddr, uint32_t lkey, uint64_t raddr, uint32_t rkey, uint64_t add)
{
    struct gw_op op = gw_op_(GW_MLX5_ATOMIC_FA, laddr, lkey, raddr, rkey, 8);

    op.a = add;
    return op;
}

/* Writes swap there if compare is what is there; what was there before arrives at laddr. */
GW_FN struct gw_op gw_cmp_swap_op(uint64_t laddr, uint32_t lkey, uint64_t raddr, uint32_t rkey,
                                  uint64_t compare, uint64_t swap)
{
    struct gw_op op = gw_op_(GW_MLX5_ATOMIC_CS, laddr, lkey, raddr, rkey, 8);

    op.a = swap;
    op.b = compare;
    return op;
}

/*
 * The masked ones are ConnectX's own: in posting mode proxy-post they are refused (-EOPNOTSUPP), and an older ConnectX
 * completes them with an error. The peer must be such a device too, or a software NIC.
 *
 * Adds field by field: each bit set in field_boundary is the highest of a field, and nothing is carried out
 * of it; 0 is gw_fetch_add_op.
 */
GW_FN struct gw_op gw_masked_fetch_add_op(uint64_t laddr, uint32_t lkey, uint64_t raddr, uint32_t rkey,
                                          uint64_t add, uint64_t field_boundary)
{
    struct gw_op op = gw_op_(GW_MLX5_MASKED_FA, laddr, lkey, raddr, rkey, 8);

    op.a = add;
    op.b = field_boundary;
    return op;
}

/* If what is there equals compare in the bits of compare_mask, its bits of swap_mask become those of swap. It
 * takes two WQEBBs of the queue. */
GW_FN struct gw_op gw_masked_cmp_swap_op(uint64_t laddr, uint32_t lkey, uint64_t raddr, uint32_t rkey,
                                         uint64_t compare, uint64_t compare_mask, uint64_t swap,
                                         uint64_t swap_mask)
{
    struct gw_op op = gw_op_(GW_MLX5_MASKED_CS, laddr, lkey, raddr, rkey, 8);

    op.bbs = 2;
    op.a = swap;
    op.b = compare;
    op.swap_mask = swap_mask;
    op.compare_mask = compare_mask;
    return op;
}

/* ---- calls --------------------------------------------------------------------------------------------- */

/*
 * Posts one operation and returns 0 and its ticket (ticket may be NULL), or
 *   -EAGAIN      the queue is full, also after a look at the CQ: try again. Nothing was posted;
 *   -EIO         the queue pair has failed, which is noticed when the queue seems full: until then posts return 0
 * and their tickets fail; -EMSGSIZE    more requests than the queue holds at all; -EOPNOTSUPP  an atomic, and the
 * device has none. flags: GW_DEFER, GW_FENCED, GW_SOLICITED; GW_SIGNALED for a request that is going to be
 * waited for soon. Never blocks. With GW_DEFER it is rung for by the next post without, by gw_tx_ring, or by
 * a wait.
 */
GW_FN int gw_tx_post(struct gw_tx *tx, struct gw_op op, uint32_t flags, uint64_t *ticket);
GW_DEV int gw_tx_post_warp(struct gw_tx *tx, int on, struct gw_op op, uint32_t flags, uint64_t *ticket);
GW_DEV int gw_tx_post_block(struct gw_tx *tx, int on, struct gw_op op, uint32_t flags, uint64_t *ticket);

/* Rings for what was deferred. One thread. */
GW_FN void gw_tx_ring(struct gw_tx *tx);

/*
 * Waits until the request with this ticket, and all before it, are complete, and returns 0; -EIO: it was not
 * executed, or not wholly (gw_qp_fault on the host says why); -ETIMEDOUT; -EINVAL: no such ticket. The ticket
 * may be another thread's. deadline_ns: gw_clock_ns() + what it may take; in the past: one look. A wait for a
 * request that is not signalled posts an empty one behind it. _warp, _block: all wait for the highest of the
 * threads' tickets.
 */
GW_FN int gw_tx_wait(struct gw_tx *tx, uint64_t ticket, uint64_t deadline_ns);
GW_DEV int gw_tx_wait_warp(struct gw_tx *tx, uint64_t ticket, uint64_t deadline_ns);
GW_DEV int gw_tx_wait_block(struct gw_tx *tx, uint64_t ticket, uint64_t deadline_ns);

/* Waits for everything that was posted through this view. In a warp or block: by thread 0 for all. */
GW_FN int gw_tx_flush(struct gw_tx *tx, uint64_t deadline_ns);

/* ---- how ----------------------------------------------------------------------------------------------- */

GW_FN int gw_tx_open(struct gw_tx *tx, struct gw_qp_handle *qp)
{
    tx->size = sizeof(*tx);
    tx->version = GW_VERBS_VERSION;
    tx->q = gw_sq_of_(qp);
    tx->cq = qp->send_cq;
    tx->mask = qp->interval - 1;
    tx->next = gw_ld_relaxed_u64_gpu(&qp->sq_resv);
    tx->done = gw_ld_acquire_u64_gpu(&qp->sq_ci); /* acquire: as in gw_sq_reserve_ */
    tx->ok = tx->last = tx->rung = tx->marked = 0;
    if (qp->size != sizeof(*qp) || qp->version != GW_VERBS_VERSION) return -EINVAL;
    return gw_qp_usable_(qp);
}

GW_FN void gw_tx_ring(struct gw_tx *tx)
{
    if (tx->q.flags & GW_ONE_USER_ && tx->rung == tx->next) return;
    gw_ring(tx->q.qp);
    if (tx->q.flags & GW_ONE_USER_) tx->rung = tx->next;
}

/* Does the queue have no room up to `end`, as far as this view knows? (Others may have completed more than
 * this view knows to be reserved.) */
GW_HOT_FN int gw_tx_full_(const struct gw_tx *tx, uint64_t end)
{
    return (int64_t)(end - tx->done) > (int64_t)tx->q.sq.wqebbs;
}

/* The queue seems full: is it? Looks at what others have retired, then at the CQ, until there is room up to
 * `end`. Returns how far the queue has completed. */
GW_SLOW_FN uint64_t gw_tx_look_(struct gw_qp_handle *qp, struct gw_cq_handle *cq, uint64_t end)
{
    uint64_t done;

    do {
        done = gw_ld_acquire_u64_gpu(&qp->sq_ci); /* acquire: as in gw_sq_reserve_ */
    } while ((int64_t)(end - done) > (int64_t)qp->sq.wqebbs && gw_cq_retire_(cq));
    return done;
}

/* Is there room for n more, also after a look at the CQ? 0, or why not. */
GW_HOT_FN int gw_tx_room_(struct gw_tx *tx, uint32_t n)
{
    int err;

    if (!gw_tx_full_(tx, tx->next + n)) return 0;
    tx->done = gw_tx_look_(tx->q.qp, tx->cq, tx->next + n);
    if (!gw_tx_full_(tx, tx->next + n)) return 0;
    gw_tx_ring(tx); /* the room may be waiting for a ring that was deferred */
    if (n > tx->q.sq.wqebbs) return -EMSGSIZE;
    err = gw_qp_usable_(tx->q.qp);
    return err ? err : -EAGAIN;
}

/* Reserves where there was room for n a moment ago. */
GW_HOT_FN int gw_tx_take_(struct gw_tx *tx, uint32_t n, uint64_t *first)
{
    if (tx->q.flags & GW_ONE_USER_) {
        *first = tx->next;
    } else if (gw_sq_reserve_(&tx->q, n, &tx->done, first)) {
        /* Others have filled it. So as not to add and take back in vain all the time, believe that there is
         * no room for so many until something completes. */
        tx->next = tx->done + tx->q.sq.wqebbs - n + 1;
        return -EAGAIN;
    }
    tx->next = *first + n;
    return 0;
}

/* Every interval-th WQE is signalled by its place, so that any thread knows which are. */
GW_HOT_FN uint32_t gw_tx_flags_(const struct gw_tx *tx, uint64_t at, uint32_t flags)
{
    uint32_t mask = (uint32_t)tx->mask;

    return gw_ctrl_flags_(tx->q.flags, flags | (((uint32_t)at & mask) == mask ? GW_SIGNALED : 0));
}

GW_HOT_FN void gw_tx_signal_(const struct gw_tx *tx, uint64_t at, const struct gw_op *op, uint32_t flags)
{
    uint32_t u = (uint32_t)at * GW_MLX5_UNITS_PER_BB;

    gw_mlx5_put(&tx->q.sq, u, gw_mlx5_ctrl(GW_MLX5_WRITE, (uint32_t)at, tx->q.sq.qpn, 3, flags, 0));
    gw_mlx5_put(&tx->q.sq, u + 1, gw_mlx5_raddr(op->a, op->signal_rkey));
    gw_mlx5_put(&tx->q.sq, u + 2, gw_mlx5_inline12(8, (uint32_t)op->b, (uint32_t)(op->b >> 32), 0));
}

/* One WQE of two WQEBBs. The slot says so, and its ticket, to whoever retires it. */
GW_HOT_FN void gw_tx_masked_cs_(const struct gw_tx *tx, uint64_t at, const struct gw_op *op, uint32_t flags)
{
    /* Signalled as the second one's place says, too. */
    flags = gw_tx_flags_(tx, at, flags) | gw_tx_flags_(tx, at + 1, flags);
    gw_mlx5_put_masked_cs(&tx->q.sq, (uint32_t)at, flags, op->raddr, op->rkey, op->a, op->b, op->swap_mask,
                          op->compare_mask, op->laddr, op->lkey);
    gw_sq_slot_(&tx->q, at, op->bbs, at + op->bbs);
}

GW_HOT_FN void gw_tx_write_(const struct gw_tx *tx, uint64_t at, const struct gw_op *op, uint32_t flags)
{
    uint32_t first = gw_tx_flags_(tx, at, op->bbs == 1 ? flags : flags & GW_FENCED);

    if (op->opcode == GW_MLX5_MASKED_CS) {
        gw_tx_masked_cs_(tx, at, op, flags);
        return;
    }
    if (gw_mlx5_is_atomic(op->opcode))
        gw_mlx5_put_atomic(&tx->q.sq, (uint32_t)at, op->opcode, first, op->raddr, op->rkey, op->a, op->b,
                           op->laddr, op->lkey);
    else
        gw_mlx5_put_rdma(&tx->q.sq, (uint32_t)at, op->opcode, first, op->imm, op->raddr, op->rkey, op->laddr,
                         op->len, op->lkey);
    if (op->bbs == 1) return;
    gw_tx_signal_(tx, at + 1, op, gw_tx_flags_(tx, at + 1, flags));
}

GW_HOT_FN int gw_tx_may_(const struct gw_tx *tx, const struct gw_op *op)
{
    uint32_t masked = (op->opcode & 0xfe) == GW_MLX5_MASKED_CS ? GW_NO_MASKED_ : 0; /* both of them */

    return !gw_mlx5_is_atomic(op->opcode) || !(tx->q.flags & (GW_NO_ATOMICS_ | masked));
}

/* The WQEBBs of the WQE at op's beginning. */
GW_HOT_FN uint32_t gw_tx_first_(const struct gw_op *op)
{
    return op->opcode == GW_MLX5_MASKED_CS ? op->bbs : 1;
}

/* With one owner: everything up to `end`. */
GW_HOT_FN void gw_tx_publish_alone_(struct gw_tx *tx, uint64_t end, uint32_t flags)
{
    tx->last = end;
    if (flags & GW_SIGNALED) tx->marked = end;
    if (!(flags & GW_DEFER)) {
        gw_sq_ring_alone_(&tx->q, end);
        tx->rung = end;
    }
    /* For gw_ring and the owner's next view; behind the ring, so that no fence of this post waits for it. */
    gw_st_relaxed_u64_gpu(&tx->q.qp->sq_resv, end);
}

/* With several posters: n WQEBBs from first on, of which `bbs` are the first WQE's. */
GW_HOT_FN void gw_tx_publish_shared_(struct gw_tx *tx, uint64_t first, uint32_t bbs, uint32_t n,
                                     uint32_t flags, uint64_t claim)
{
    tx->last = first + n;
    if (flags & GW_SIGNALED) tx->marked = tx->last;
    /* If its slot will have to say that it is ready, whoever retires it takes the ticket from there, too. Whether
     * it will is not asked yet: the claim's answer is on its way. */
    gw_st_relaxed_u64_gpu(&tx->q.slot[first & (tx->q.sq.wqebbs - 1)].wr_id, first + bbs);
    gw_sq_publish_(&tx->q, first, bbs, n, flags, claim, tx->rung == first);
    if (claim == gw_sq_idle_(first)) tx->rung = tx->last;
}

GW_HOT_FN void gw_tx_publish_(struct gw_tx *tx, uint64_t first, uint32_t bbs, uint32_t n, uint32_t flags,
                              uint64_t claim)
{
    if (tx->q.flags & GW_ONE_USER_)
        gw_tx_publish_alone_(tx, first + n, flags);
    else
        gw_tx_publish_shared_(tx, first, bbs, n, flags, claim);
}

/*
 * What is rare works on a copy of the view, so that the view itself can stay in registers; and what it may
 * have changed goes back.
 */
GW_HOT_FN void gw_tx_copy_back_(struct gw_tx *tx, const struct gw_tx *copy)
{
    tx->next = copy->next;
    tx->done = copy->done;
    tx->last = copy->last;
    tx->rung = copy->rung;
    tx->marked = copy->marked;
}

GW_SLOW_FN void gw_tx_mark_copy_(struct gw_tx *tx, uint64_t ticket)
{
    uint64_t resv = gw_ld_relaxed_u64_gpu(&tx->q.qp->sq_resv), at;

    if (tx->marked >= ticket || resv >= ((ticket + tx->mask) & ~tx->mask)) {
        gw_tx_ring(tx); /* it may be deferred */
    } else if (!gw_tx_room_(tx, 1) && !gw_tx_take_(tx, 1, &at)) {
        gw_mlx5_put_nop(&tx->q.sq, (uint32_t)at, 1, GW_SIGNALED);
        gw_tx_publish_(tx, at, 1, 1, GW_SIGNALED, ~gw_sq_idle_(at));
    }
}

/* Sees to it that a signalled request behind the ticket is on its way to the NIC, as far as there is room. */
GW_FN void gw_tx_mark_(struct gw_tx *tx, uint64_t ticket)
{
    struct gw_tx copy = *tx;

    gw_tx_mark_copy_(&copy, ticket);
    gw_tx_copy_back_(tx, &copy);
}

/* If it is for more than there are from one signalled request to the next, the room may be held by requests
 * that are not: then a signalled one goes behind them. */
GW_SLOW_FN int gw_tx_make_room_copy_(struct gw_tx *tx, uint32_t n)
{
    int err = gw_tx_room_(tx, n);

    if (err == -EAGAIN && n > tx->mask + 1) gw_tx_mark_copy_(tx, gw_ld_relaxed_u64_gpu(&tx->q.qp->sq_resv));
    return err;
}

GW_HOT_FN int gw_tx_make_room_(struct gw_tx *tx, uint32_t n)
{
    struct gw_tx copy = *tx;
    int err = gw_tx_make_room_copy_(&copy, n);

    gw_tx_copy_back_(tx, &copy);
    return err;
}

/* Reserves for n requests like *op. */
GW_HOT_FN int gw_tx_reserve_(struct gw_tx *tx, const struct gw_op *op, uint32_t n, uint64_t *first)
{
    int err = gw_tx_may_(tx, op) ? 0 : -EOPNOTSUPP;

    if (!err && gw_tx_full_(tx, tx->next + n)) err = gw_tx_make_room_(tx, n);
    return err ? err : gw_tx_take_(tx, n, first);
}

GW_HOT_FN int gw_tx_post(struct gw_tx *tx, struct gw_op op, uint32_t flags, uint64_t *ticket)
{
    uint64_t at;
    int err = gw_tx_reserve_(tx, &op, op.bbs, &at);

    if (err) return err;
    /* Two paths: where they meet, a GPU would wait for the claim's answer. */
    if (tx->q.flags & GW_ONE_USER_) {
        gw_tx_write_(tx, at, &op, flags);
        gw_tx_publish_alone_(tx, at + op.bbs, flags);
    } else {
        uint64_t claim = gw_sq_claim_(&tx->q, at, flags);

        gw_tx_write_(tx, at, &op, flags);
        gw_tx_publish_shared_(tx, at, gw_tx_first_(&op), op.bbs, flags, claim);
    }
    if (ticket) *ticket = at + op.bbs;
    return 0;
}

/* The first lane reserves for n requests like *op, and all get the index, or with its highest bit set a
 * negative errno. (An index never has that.) */
GW_DEV uint64_t gw_tx_reserve_warp_(struct gw_tx *tx, const struct gw_op *op, uint32_t n)
{
    uint64_t at = 0;

    if (gw_lane() == 0) {
        int err = gw_tx_reserve_(tx, op, n, &at);

        if (err) at = (uint64_t)(int64_t)err;
    }
    return gw_shfl_u64(gw_warp_all(), at, 0);
}

/* The same with one owner. Every lane looks at its own view, of which only the first one's counts: so there is
 * no branch on the way of a post that has room. */
GW_DEV uint64_t gw_tx_reserve_warp_alone_(struct gw_tx *tx, const struct gw_op *op, uint32_t n)
{
    /* Asked of the first lane before n is known. */
    uint64_t at = gw_shfl_u64(gw_warp_all(), tx->next, 0);
    uint64_t room = gw_shfl_u64(gw_warp_all(), tx->done + tx->q.sq.wqebbs - tx->next, 0);

    if ((int64_t)room < (int64_t)n || !gw_tx_may_(tx, op)) {
        at = gw_tx_reserve_warp_(tx, op, n);
        if ((int64_t)at < 0) return at;
    }
    tx->next = at + n;
    return at;
}

GW_DEV int gw_tx_post_warp_alone_(struct gw_tx *tx, int on, const struct gw_op *op, uint32_t flags,
                                  uint32_t before, uint32_t n, uint64_t *ticket)
{
    uint64_t at = gw_tx_reserve_warp_alone_(tx, op, n);

    if ((int64_t)at < 0) return (int)(int64_t)at;
    if (on) gw_tx_write_(tx, at + before, op, flags);
    if (on && ticket) *ticket = at + before + op->bbs;
    /* All lanes' WQEs happen before lane 0 goes on; its fence in publishing then stands behind them too. */
    gw_syncwarp(gw_warp_all());
    if (gw_lane() == 0) gw_tx_publish_alone_(tx, at + n, flags);
    return 0;
}

GW_DEV int gw_tx_post_warp(struct gw_tx *tx, int on, struct gw_op op, uint32_t flags, uint64_t *ticket)
{
    uint32_t mask = gw_warp_all(), posting = gw_ballot(mask, on), n = gw_popcount(posting) * op.bbs;
    uint32_t before = gw_popcount(posting & ((1u << gw_lane()) - 1)) * op.bbs;
    uint64_t at, claim = 0;

    if (!posting) return 0;
    /* Two paths: see gw_tx_post. */
    if (tx->q.flags & GW_ONE_USER_) return gw_tx_post_warp_alone_(tx, on, &op, flags, before, n, ticket);
    at = gw_tx_reserve_warp_(tx, &op, n);
    if ((int64_t)at < 0) return (int)(int64_t)at;
    if (gw_lane() == 0) claim = gw_sq_claim_(&tx->q, at, flags);
    if (on) gw_tx_write_(tx, at + before, &op, flags);
    if (on && ticket) *ticket = at + before + op.bbs;
    gw_syncwarp(mask); /* as above */
    if (gw_lane() == 0) gw_tx_publish_shared_(tx, at, gw_tx_first_(&op), n, flags, claim);
    return 0;
}

struct gw_tx_block_ {
    uint32_t posting[32]; /* threads of each warp that post */
    uint64_t at;          /* or a negative errno */
};

/* The block's threads that post before this one; *all: how many there are. */
GW_DEV uint32_t gw_tx_before_(const struct gw_tx_block_ *b, uint32_t posting, uint32_t *all)
{
    uint32_t warps = (gw_block_dim() + 31) / 32, before = gw_popcount(posting & ((1u << gw_lane()) - 1)), i;

    for (i = 0, *all = 0; i < warps; i++) {
        if (i == gw_warp_idx()) before += *all;
        *all += b->posting[i];
    }
    return before;
}

GW_DEV int gw_tx_post_block(struct gw_tx *tx, int on, struct gw_op op, uint32_t flags, uint64_t *ticket)
{
    GW_SHARED(struct gw_tx_block_, b);
    uint32_t posting = gw_ballot(gw_warp_all(), on), all, before;
    uint64_t at = 0, claim = 0;
    int err = 0;

    if (gw_lane() == 0) b->posting[gw_warp_idx()] = gw_popcount(posting);
    gw_syncthreads();
    before = gw_tx_before_(b, posting, &all);
    if (gw_thread_idx() == 0) {
        if (all) err = gw_tx_reserve_(tx, &op, all * op.bbs, &at);
        if (all && !err) claim = gw_sq_claim_(&tx->q, at, flags);
        b->at = err ? (uint64_t)(int64_t)err : at;
    }
    gw_syncthreads();
    at = b->at;
    if ((int64_t)at >= 0 && on) {
        gw_tx_write_(tx, at + before * op.bbs, &op, flags);
        if (ticket) *ticket = at + (before + 1) * op.bbs;
    }
    /* All WQEs before thread 0 goes on, as in a warp; and nobody enters again while others still read *b. */
    gw_syncthreads();
    if ((int64_t)at < 0) return (int)(int64_t)at;
    if (gw_thread_idx() == 0 && all) gw_tx_publish_(tx, at, gw_tx_first_(&op), all * op.bbs, flags, claim);
    return 0;
}

GW_FN int gw_tx_good_(struct gw_tx *tx, uint64_t ticket)
{
    if (ticket > tx->ok) tx->ok = gw_ld_acquire_u64_gpu(&tx->q.qp->sq_ok); /* acquire: what it has fetched */
    return ticket <= tx->ok;
}

GW_FN int gw_tx_wait(struct gw_tx *tx, uint64_t ticket, uint64_t deadline_ns)
{
    uint32_t round = 0;

    if (ticket > tx->next && ticket > gw_ld_relaxed_u64_gpu(&tx->q.qp->sq_resv)) return -EINVAL;
    if (gw_tx_good_(tx, ticket)) return 0;
    gw_tx_mark_(tx, ticket);
    for (;;) {
        /* Failed: but perhaps behind the ticket, so it is looked at once more. */
        int failed = gw_ld_acquire_u32_gpu(&tx->q.qp->state) == GW_QP_FAULTED;

        if (gw_tx_good_(tx, ticket)) return 0;
        if (failed) return -EIO;
        if (gw_cq_retire_(tx->cq)) continue;
        if (gw_clock_ns() >= deadline_ns) return gw_tx_good_(tx, ticket) ? 0 : -ETIMEDOUT;
        gw_pause(round++);
        /* What was to carry the signal may have been taken back, or there was no room for one. */
        if (round % 64 == 0) gw_tx_mark_(tx, ticket);
    }
}

GW_FN int gw_tx_flush(struct gw_tx *tx, uint64_t deadline_ns)
{
    return gw_tx_wait(tx, tx->last, deadline_ns);
}

GW_DEV int gw_tx_wait_warp(struct gw_tx *tx, uint64_t ticket, uint64_t deadline_ns)
{
    uint32_t mask = gw_warp_all(), i;
    uint64_t most = 0, one;
    int err = 0;

    for (i = 0; i < gw_warp_size(); i++) {
        one = gw_shfl_u64(mask, ticket, i);
        if (one > most) most = one;
    }
    if (gw_lane() == 0) err = gw_tx_wait(tx, most, deadline_ns);
    /* Shuffle for the value, syncwarp for the memory: what lane 0 has acquired is visible to all. */
    err = (int)gw_shfl_u32(mask, (uint32_t)err, 0);
    gw_syncwarp(mask);
    return err;
}

struct gw_tx_wait_block_ {
    uint64_t most[32];
    int err;
};

GW_DEV int gw_tx_wait_block(struct gw_tx *tx, uint64_t ticket, uint64_t deadline_ns)
{
    GW_SHARED(struct gw_tx_wait_block_, b);
    uint32_t mask = gw_warp_all(), warps = (gw_block_dim() + 31) / 32, i;
    uint64_t most = 0, one;
    int err;

    for (i = 0; i < gw_warp_size(); i++) {
        one = gw_shfl_u64(mask, ticket, i);
        if (one > most) most = one;
    }
    if (gw_lane() == 0) b->most[gw_warp_idx()] = most;
    gw_syncthreads();
    if (gw_thread_idx() == 0) {
        for (i = 0; i < warps; i++)
            if (b->most[i] > most) most = b->most[i];
        b->err = gw_tx_wait(tx, most, deadline_ns);
    }
    gw_syncthreads();
    err = b->err;
    gw_syncthreads(); /* nobody enters again while others still read *b */
    return err;
}

#endif
