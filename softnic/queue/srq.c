/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared receive queues. Their WQEs form a list. A program links those that it has got back, in any order,
 * and the record says how many of the list are posted. A queue pair takes a WQE when a message begins, and
 * its completion names it.
 */
#include <errno.h>
#include <stdlib.h>

#include <gpuwire/detail/held.h>

#include "softnic/base/bits.h"
#include "softnic/mem/guard.h"
#include "softnic/queue/queue.h"

/* ---- XRC domains --------------------------------------------------------------------------------------- */

int sn_xrcd_create(struct sn_nic *nic, struct sn_xrcd **out)
{
    struct sn_xrcd *xrcd = calloc(1, sizeof(*xrcd));

    if (!xrcd) return -ENOMEM;
    xrcd->nic = nic;
    sn_nic_lock(nic);
    nic->objects++;
    sn_nic_unlock(nic);
    *out = xrcd;
    return 0;
}

int sn_xrcd_destroy(struct sn_xrcd *xrcd)
{
    bool busy;

    sn_nic_lock(xrcd->nic);
    busy = xrcd->users != 0;
    if (!busy) xrcd->nic->objects--;
    sn_nic_unlock(xrcd->nic);
    if (busy) return -EBUSY;
    free(xrcd);
    return 0;
}

struct sn_srq *sn_srq_find(struct sn_nic *nic, const struct sn_xrcd *xrcd, uint32_t number)
{
    struct sn_srq *srq = nic->srqs[number & 0xffff];

    GW_ASSERT_HELD(&nic->lock);
    return srq && srq->number == number && srq->init.xrcd == xrcd ? srq : NULL;
}

const struct sn_pd *sn_resp_pd(const struct sn_qp *qp, uint32_t srqn)
{
    const struct sn_srq *srq;

    if (!qp->init.xrcd) return qp->init.pd;
    srq = sn_srq_find(qp->nic, qp->init.xrcd, srqn);
    return srq ? srq->init.pd : NULL;
}

/* ---- making and ending --------------------------------------------------------------------------------- */

static int srq_check_init(const struct sn_srq_init *i)
{
    uint32_t word;

    if (!i->xrcd != !i->cq || i->uidx > 0xffffff) return -EINVAL;
    if (!i->pd || !i->buf || !i->dbrec || (uintptr_t)i->dbrec % 8) return -EINVAL;
    if (!sn_is_power_of_two(i->wqes) || i->wqes > SN_MAX_RQ_WQE || (uintptr_t)i->buf % GW_MLX5_UNIT)
        return -EINVAL;
    if (!sn_is_power_of_two(i->stride) || i->stride < 2 * GW_MLX5_UNIT || i->stride > SN_MAX_RQ_STRIDE)
        return -EINVAL;
    return sn_guard_load32(i->dbrec, &word);
}

/* Peers name it, so its number is as hard to guess as queue pairs', and like theirs it has the NIC's slot. */
static int srq_attach(struct sn_nic *nic, struct sn_srq *srq)
{
    uint32_t n;
    int err;

    GW_ASSERT_HELD(&nic->lock);
    if (nic->srq_count == SN_MAX_SRQ) return -ENOMEM;
    do {
        err = sn_secret_below(nic, 0xfffe, &n);
        if (err) return err;
        n++;
    } while (nic->srqs[n]);
    srq->number = (uint32_t)nic->cfg.slot << 16 | n;
    nic->srqs[n] = srq;
    nic->srq_count++;
    nic->objects++;
    srq->init.pd->users++;
    if (srq->init.xrcd) srq->init.xrcd->users++;
    if (srq->init.cq) srq->init.cq->users++;
    return 0;
}

int sn_srq_create(struct sn_nic *nic, const struct sn_srq_init *init, struct sn_srq **out)
{
    int err = sn_guard_install();
    struct sn_srq *srq;

    if (!err) err = srq_check_init(init);
    if (err) return err;
    srq = calloc(1, sizeof(*srq));
    if (!srq) return -ENOMEM;
    srq->nic = nic;
    srq->init = *init;
    sn_nic_lock(nic);
    err = srq_attach(nic, srq);
    sn_nic_unlock(nic);
    if (err) {
        free(srq);
        return err;
    }
    *out = srq;
    return 0;
}

/* XRC: queue pairs whose messages are under way lose their WQEs, and their completions go nowhere. */
static void abandon(struct sn_srq *srq)
{
    struct sn_link *it, *tmp;

    sn_list_each(it, tmp, &srq->nic->all_qps)
    {
        struct sn_qp *qp = sn_entry(it, struct sn_qp, all_link);

        if (qp->resp.srq != srq) continue;
        qp->resp.srq = NULL;
        qp->resp.has_wqe = false;
    }
    sn_cq_drop_late_uidx(srq->init.cq, srq->init.uidx);
}

static void detach(struct sn_srq *srq)
{
    struct sn_nic *nic = srq->nic;

    GW_ASSERT_HELD(&nic->lock);
    if (srq->init.xrcd) abandon(srq);
    GW_ASSERT(nic->srqs[srq->number & 0xffff] == srq && nic->srq_count > 0);
    GW_ASSERT(srq->init.pd->users && (!srq->init.xrcd || srq->init.xrcd->users));
    nic->srqs[srq->number & 0xffff] = NULL;
    nic->srq_count--;
    nic->objects--;
    srq->init.pd->users--;
    if (srq->init.xrcd) srq->init.xrcd->users--;
    if (srq->init.cq) srq->init.cq->users--;
}

int sn_srq_destroy(struct sn_srq *srq)
{
    struct sn_nic *nic = srq->nic;
    bool busy;

    sn_nic_lock(nic);
    busy = srq->users != 0;
    if (!busy) detach(srq);
    sn_nic_unlock(nic);
    if (busy) return -EBUSY;
    free(srq);
    return 0;
}

uint32_t sn_srq_number(const struct sn_srq *srq)
{
    return srq->number;
}

/* ---- how much there is --------------------------------------------------------------------------------- */

static void srq_tell(struct sn_srq *srq, enum ibv_event_type event)
{
    if (srq->nic->cfg.async_event) srq->nic->cfg.async_event(srq->nic->cfg.user, event, srq->init.user);
}

static int srq_die(struct sn_srq *srq, const char *why)
{
    srq->dead = true;
    sn_report(srq->nic, "SRQ 0x%06x of %u WQEs, at entry %u: %s", srq->number, srq->init.wqes, srq->head,
              why);
    srq_tell(srq, IBV_EVENT_SRQ_ERR);
    return -EINVAL;
}

/* WQEs posted and not taken. Negative: it is dead, maybe only just. */
static int srq_available(struct sn_srq *srq)
{
    uint32_t word;
    uint16_t n;

    if (srq->dead) return -EINVAL;
    if (sn_guard_load32(srq->init.dbrec + GW_MLX5_DBREC_SRQ, &word))
        return srq_die(srq, "its doorbell record is not mapped");
    n = (uint16_t)(gw_mlx5_dbrec_count(word) - srq->taken);
    return n <= srq->init.wqes ? n : srq_die(srq, "its doorbell record runs past the queue");
}

static void watch_limit(struct sn_srq *srq, uint32_t left)
{
    if (left >= srq->limit) return;
    srq->limit = 0;
    srq_tell(srq, IBV_EVENT_SRQ_LIMIT_REACHED);
}

int sn_srq_set_limit(struct sn_srq *srq, uint32_t limit)
{
    int left;

    if (limit >= srq->init.wqes) return -EINVAL;
    sn_nic_lock(srq->nic);
    srq->limit = limit;
    left = srq_available(srq);
    if (left >= 0) watch_limit(srq, (uint32_t)left);
    sn_nic_unlock(srq->nic);
    return 0;
}

uint32_t sn_srq_limit(struct sn_srq *srq)
{
    uint32_t limit;

    sn_nic_lock(srq->nic);
    limit = srq->limit;
    sn_nic_unlock(srq->nic);
    return limit;
}

/* ---- taking one ---------------------------------------------------------------------------------------- */

struct parse_args {
    struct sn_srq *srq;
    struct gw_mlx5_rwqe *out;
    uint16_t next;
    int result;
};

static void srq_parse(void *arg)
{
    struct parse_args *a = arg;
    const struct sn_srq_init *i = &a->srq->init;

    a->result = gw_mlx5_srq_wqe_parse(a->out, i->buf, i->wqes, i->stride, a->srq->head, &a->next);
}

/*
 * The link is read together with the WQE: a program sets it before it posts the WQE, and may change it once
 * it has the WQE back.
 */
int sn_srq_take(struct sn_srq *srq, struct sn_qp *qp)
{
    struct parse_args a = {.srq = srq, .out = &qp->resp.wqe, .result = -EINVAL};
    int n;

    GW_ASSERT_HELD(&srq->nic->lock);
    n = qp->resp.has_wqe ? 1 : srq_available(srq);
    if (n <= 0) return n;
    qp->resp.received = 0;
    sn_cursor_reset(&qp->resp.cursor);
    if (qp->resp.has_wqe) return 1; /* of a message that was given up */
    GW_ASSERT(srq->head < srq->init.wqes && !qp->resp.has_wqe);
    if (sn_guard_call(srq_parse, &a)) return srq_die(srq, "it is not mapped");
    if (a.next >= srq->init.wqes) return srq_die(srq, "its link names no entry of the queue");
    qp->resp.has_wqe = true;
    qp->resp.entry = srq->head;
    srq->head = a.next;
    srq->taken++;
    watch_limit(srq, (uint32_t)n - 1);
    if (a.result >= 0) return 1;
    sn_count(&srq->nic->count.bad_wqes, 1);
    sn_report_qp(qp, "receive WQE %u of SRQ 0x%06x: %s", qp->resp.entry, srq->number,
                 gw_mlx5_why_text(qp->resp.wqe.why));
    return a.result;
}
