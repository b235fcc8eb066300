/* SPDX-License-Identifier: Apache-2.0 */
/* Queue pairs: making and ending, errors, and the list of those that have work. qp_state.c says what a state
 * means. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <gpuwire/detail/held.h>

#include "softnic/base/bits.h"
#include "softnic/engine/engine.h"
#include "softnic/mem/guard.h"

/* ---- creation ------------------------------------------------------------------------------------------ */

static int check_queues(const struct sn_qp_init *i)
{
    if (i->sq_wqebbs && (!sn_is_power_of_two(i->sq_wqebbs) || i->sq_wqebbs > SN_MAX_SQ_WQEBB || !i->sq_buf))
        return -EINVAL;
    if ((uintptr_t)i->sq_buf % GW_MLX5_WQEBB) return -EINVAL;
    if (i->srq && (i->rq_wqes || i->srq->init.xrcd)) return -EINVAL;
    if (!i->rq_wqes) return 0;
    if (!sn_is_power_of_two(i->rq_wqes) || i->rq_wqes > SN_MAX_RQ_WQE || !i->rq_buf) return -EINVAL;
    if (!sn_is_power_of_two(i->rq_stride) || i->rq_stride < GW_MLX5_UNIT || i->rq_stride > SN_MAX_RQ_STRIDE)
        return -EINVAL;
    return (uintptr_t)i->rq_buf % GW_MLX5_UNIT ? -EINVAL : 0;
}

static int check_scatter(const struct sn_qp_init *i)
{
    uint32_t r = i->scatter_recv, s = i->scatter_req;

    return (r == 0 || r == 32 || r == 64) && (s == 0 || s == 32 || s == 64) ? 0 : -EINVAL;
}

/* The upper bits of its packets' opcodes, or -1 for a type that there is not. */
static int service_of(enum ibv_qp_type type)
{
    switch (type) {
    case IBV_QPT_RC: return ROCE_RC;
    case IBV_QPT_UC: return ROCE_UC;
    case IBV_QPT_UD: return ROCE_UD;
    case IBV_QPT_XRC_SEND:
    case IBV_QPT_XRC_RECV: return ROCE_XRC;
    default: return -1;
    }
}

static int engine_qp_check_init(const struct sn_qp_init *i)
{
    uint32_t word;
    int err;

    if (service_of(i->type) < 0) return -EOPNOTSUPP;
    if (!i->xrcd != (i->type != IBV_QPT_XRC_RECV)) return -EINVAL;
    if (i->xrcd)
        return i->pd || i->send_cq || i->recv_cq || i->sq_wqebbs || i->rq_wqes || i->srq ? -EINVAL : 0;
    if (!i->pd || !i->send_cq || !i->uar || !i->dbrec || (uintptr_t)i->dbrec % 8) return -EINVAL;
    if (i->type == IBV_QPT_XRC_SEND ? i->recv_cq || i->rq_wqes || i->srq : !i->recv_cq) return -EINVAL;
    if (i->bfreg >= SN_UAR_BF_COUNT || i->uidx > 0xffffff) return -EINVAL;
    err = check_queues(i);
    if (!err) err = check_scatter(i);
    return err ? err : sn_guard_load32(i->dbrec, &word);
}

/* 0, 1 and 0xffff are not given out: management QPs in slot 0, and the number that must not be a doorbell's
 * in slot 255. */
static int engine_qp_take_number(struct sn_nic *nic, struct sn_qp *qp)
{
    uint32_t n;
    int err;

    if (nic->qp_count == SN_MAX_QP) return -ENOMEM;
    do {
        err = sn_secret_below(nic, 0xffff - 2, &n);
        if (err) return err;
    } while (nic->qps[2 + n]);
    qp->number = (uint32_t)nic->cfg.slot << 16 | (2 + n);
    return 0;
}

/* The heap has a place for every QP, so that setting a timer cannot fail. */
static int grow_heap(struct sn_nic *nic)
{
    uint32_t room = nic->heap_room ? nic->heap_room * 2 : 64;
    struct sn_qp **heap;

    if (nic->qp_count < nic->heap_room) return 0;
    heap = realloc(nic->heap, room * sizeof(*heap));
    if (!heap) return -ENOMEM;
    nic->heap = heap;
    nic->heap_room = room;
    return 0;
}

/* What it was made with has one user more, or (uint32_t)-1: one less. */
static void engine_qp_hold_parts(const struct sn_qp_init *i, uint32_t one)
{
    GW_ASSERT(one == 1 || ((!i->pd || i->pd->users) && (!i->send_cq || i->send_cq->users)));
    GW_ASSERT(one == 1 || ((!i->recv_cq || i->recv_cq->users) && (!i->srq || i->srq->users)));
    if (i->pd) i->pd->users += one;
    if (i->send_cq) i->send_cq->users += one;
    if (i->recv_cq) i->recv_cq->users += one;
    if (i->srq) i->srq->users += one;
    if (i->xrcd) i->xrcd->users += one;
}

static int engine_qp_attach(struct sn_nic *nic, struct sn_qp *qp)
{
    int err = grow_heap(nic);

    GW_ASSERT_HELD(&nic->lock);
    if (!err) err = engine_qp_take_number(nic, qp);
    if (!err) err = sn_ringer_add(qp);
    if (err) return err;
    nic->qps[qp->number & 0xffff] = qp;
    nic->qp_count++;
    nic->objects++;
    engine_qp_hold_parts(&qp->init, 1);
    sn_list_add(&nic->all_qps, &qp->all_link);
    if (qp->init.uar) sn_uar_attach(qp->init.uar, &qp->init.uar->qps, &qp->uar_link);
    return 0;
}

static void set_scatter(struct sn_qp *qp)
{
    struct sn_qp_init *i = &qp->init;

    if (!i->recv_cq) i->scatter_recv = 0;
    if (!i->send_cq) i->scatter_req = 0;
    if (i->recv_cq && i->recv_cq->init.cqe_size < 128 && i->scatter_recv == 64) i->scatter_recv = 32;
    if (i->send_cq && i->send_cq->init.cqe_size < 128 && i->scatter_req == 64) i->scatter_req = 32;
    if (!i->sq_sig_all) i->scatter_req = 0;
    if (i->srq || i->type == IBV_QPT_UD) i->scatter_recv = 0;
}

static struct sn_qp *alloc_qp(struct sn_nic *nic, const struct sn_qp_init *init)
{
    struct sn_qp *qp = calloc(1, sizeof(*qp));

    if (!qp) return NULL;
    qp->nic = nic;
    qp->init = *init;
    qp->service = (uint8_t)service_of(init->type);
    qp->state = IBV_QPS_RESET;
    sn_list_init(&qp->all_link);
    sn_list_init(&qp->windows);
    sn_list_init(&qp->run_link);
    sn_list_init(&qp->copy_wait_link);
    sn_list_init(&qp->err_link);
    sn_list_init(&qp->uar_link);
    return qp;
}

int sn_qp_create(struct sn_nic *nic, const struct sn_qp_init *init, struct sn_qp **out)
{
    int err = sn_guard_install();
    struct sn_qp *qp;

    if (!err) err = engine_qp_check_init(init);
    if (err) return err;
    qp = alloc_qp(nic, init);
    if (!qp) return -ENOMEM;
    set_scatter(qp);
    sn_nic_lock(nic);
    sn_qp_forget(qp);
    err = engine_qp_attach(nic, qp);
    sn_nic_unlock(nic);
    if (err) {
        free(qp->line);
        free(qp);
        return err;
    }
    *out = qp;
    return 0;
}

/* ---- destruction --------------------------------------------------------------------------------------- */

/*
 * A program may destroy a queue pair, and end, the moment it sees the completion of a message. An adapter has
 * acknowledged that message by then. Here the acknowledgement may wait for the NIC's next turn, and without
 * it the sender would repeat the message for nothing.
 */
void sn_qp_last_word(struct sn_qp *qp)
{
    enum { LAST_WORDS = 64 };

    GW_ASSERT_HELD(&qp->nic->lock);
    if (qp->nic->failed || !sn_qp_reliable(qp) || !qp->resp.ack_pending || qp->resp.nak_pending) return;
    sn_qp_wake(qp); /* among those that run, not those that are parked: a step changes what it is */
    for (int i = 0; i < LAST_WORDS && qp->resp.ack_pending; i++)
        if (sn_responder_step(qp) != SN_DID) break;
    qp->parked = false; /* its next turn finds that out again */
    sn_tx_push(qp->nic);
}

int sn_qp_destroy(struct sn_qp *qp)
{
    struct sn_nic *nic = qp->nic;

    sn_nic_lock(nic);
    sn_sq_settle(qp); /* a ring that is there was only not seen yet */
    if (sn_record_ahead(qp) >= 0) sn_report_missing_ring(qp);
    sn_qp_last_word(qp);
    GW_CHECK(sn_qp_check(qp));
    sn_qp_forget(qp);
    GW_ASSERT(!qp->heap_at && !qp->held && !qp->req.ring && nic->objects > 0);
    sn_window_unbind_qp(qp);
    sn_ringer_del(qp);
    if (qp->init.uar) sn_uar_detach(qp->init.uar, &qp->uar_link);
    sn_list_del(&qp->all_link);
    nic->qps[qp->number & 0xffff] = NULL;
    nic->qp_count--;
    nic->objects--;
    engine_qp_hold_parts(&qp->init, (uint32_t)-1);
    sn_nic_unlock(nic);
    sn_publish_quiesce(nic);
    free(qp->line);
    free(qp);
    return 0;
}

uint32_t sn_qp_number(const struct sn_qp *qp)
{
    return qp->number;
}

int sn_qp_query(struct sn_qp *qp, struct ibv_qp_attr *attr)
{
    sn_nic_lock(qp->nic);
    *attr = qp->attr;
    attr->qp_state = attr->cur_qp_state = qp->state;
    attr->sq_draining = qp->state == IBV_QPS_SQD && qp->req.una != qp->req.end;
    attr->path_mig_state = IBV_MIG_MIGRATED;
    if (qp->state >= IBV_QPS_RTR && qp->state != IBV_QPS_ERR) {
        attr->sq_psn = qp->req.tail_psn;
        attr->rq_psn = qp->resp.epsn;
    }
    sn_nic_unlock(qp->nic);
    return 0;
}

/* ---- work and errors ----------------------------------------------------------------------------------- */

/* Everything that the connection knew is gone, and so is every reference to it in the NIC but its number and
 * page. */
void sn_qp_forget(struct sn_qp *qp)
{
    GW_ASSERT_HELD(&qp->nic->lock);
    /* A WQE that it took from a shared queue would be lost to the others: its completion gives it back. */
    if (sn_rq_shared(qp)) sn_rq_flush_one(qp);
    sn_cq_drop_late(qp);
    sn_place_drop(qp);
    sn_timer_remove(qp);
    sn_list_del(&qp->run_link);
    sn_list_del(&qp->copy_wait_link);
    sn_list_del(&qp->err_link);
    sn_qp_set_state(qp, IBV_QPS_RESET);
    sn_publish_queue(qp);
    memset(&qp->attr, 0, sizeof(qp->attr));
    qp->owner_look = SN_NEVER;
    memset(&qp->resp, 0, sizeof(qp->resp));
    qp->sq_next = qp->sq_ci = qp->rq_ci = 0;
    sn_ringer_at(qp, 0);
    qp->sq_rung[0] = qp->sq_rung[1] = 0;
    qp->rq_bad = qp->last_wqe_reported = false;
    qp->sqd_notify = false;
    qp->syndrome = 0;
    qp->guesses = 0;
    sn_requester_init(qp, 0);
    sn_sq_rest(qp);
    sn_rate_init(qp);
}

/* Others that share its receive queue may want to know when it is done with it. */
static void report_last_wqe(struct sn_qp *qp)
{
    if (!qp->init.srq || qp->last_wqe_reported) return;
    qp->last_wqe_reported = true;
    if (qp->nic->cfg.async_event)
        qp->nic->cfg.async_event(qp->nic->cfg.user, IBV_EVENT_QP_LAST_WQE_REACHED, qp->init.user);
}

bool sn_qp_flush_step(struct sn_qp *qp)
{
    GW_ASSERT_HELD(&qp->nic->lock);
    if (sn_sq_flush_one(qp) || sn_rq_flush_one(qp)) return true;
    report_last_wqe(qp);
    return false;
}
