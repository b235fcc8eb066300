/* SPDX-License-Identifier: Apache-2.0 */
/* Completion queues: writing entries, events, resizing. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <gpuwire/detail/held.h>

#include "softnic/mem/guard.h"
#include "softnic/queue/queue.h"
#include "src/trace/trace.h"

static const uint32_t poison = 0xffffffff; /* no arm word has its upper bits set */

/* ---- making and ending --------------------------------------------------------------------------------- */

static bool count_ok(uint32_t n)
{
    return n >= 2 && n <= SN_MAX_CQE && !(n & (n - 1));
}

static int cq_check_init(const struct sn_cq_init *i)
{
    if (!i->buf || !i->dbrec || !i->uar || (i->cqe_size != 64 && i->cqe_size != 128)) return -EINVAL;
    if (!count_ok(i->cqe_count)) return -EINVAL;
    if ((uintptr_t)i->buf % 64 || (uintptr_t)i->dbrec % 8) return -EINVAL;
    /* 0 there, as libmlx5 leaves it, is what the first arm writes: it would go unnoticed. */
    return sn_guard_store32(i->dbrec + GW_MLX5_DBREC_CQ_ARM, poison);
}

/* Numbers are an index plus a constant, so that no other kind of number is one by accident. */
enum { FIRST_CQN = 0x400 };

static int cq_take_number(struct sn_nic *nic, struct sn_cq *cq)
{
    GW_ASSERT_HELD(&nic->lock);
    if (nic->cq_count == SN_MAX_CQ) return -ENOMEM;
    do nic->cq_hint = (nic->cq_hint + 1) % SN_MAX_CQ;
    while (nic->cqs[nic->cq_hint]);
    nic->cqs[nic->cq_hint] = cq;
    nic->cq_count++;
    nic->objects++;
    cq->number = FIRST_CQN + nic->cq_hint;
    return 0;
}

int sn_cq_create(struct sn_nic *nic, const struct sn_cq_init *init, struct sn_cq **out)
{
    int err = sn_guard_install();
    struct sn_cq *cq;

    if (!err) err = cq_check_init(init);
    if (err) return err;
    cq = calloc(1, sizeof(*cq));
    if (!cq) return -ENOMEM;
    cq->nic = nic;
    cq->init = *init;
    cq->arm_seen = poison;
    sn_list_init(&cq->uar_link);
    sn_list_init(&cq->news_link);
    sn_nic_lock(nic);
    cq->arms = init->uar->arms;
    err = cq_take_number(nic, cq);
    if (!err) sn_uar_attach(init->uar, &init->uar->cqs, &cq->uar_link);
    sn_nic_unlock(nic);
    if (err) {
        free(cq);
        return err;
    }
    *out = cq;
    return 0;
}

int sn_cq_destroy(struct sn_cq *cq)
{
    struct sn_nic *nic = cq->nic;
    bool busy;

    sn_nic_lock(nic);
    busy = cq->users != 0;
    if (!busy) {
        GW_ASSERT(nic->cqs[cq->number - FIRST_CQN] == cq && nic->cq_count > 0);
        sn_uar_detach(cq->init.uar, &cq->uar_link);
        sn_list_del(&cq->news_link);
        nic->cqs[cq->number - FIRST_CQN] = NULL;
        nic->cq_count--;
        nic->objects--;
    }
    sn_nic_unlock(nic);
    if (busy) return -EBUSY;
    free(cq);
    return 0;
}

struct sn_cq *sn_cq_find(struct sn_nic *nic, uint32_t number)
{
    GW_ASSERT_HELD(&nic->lock);
    return number - FIRST_CQN < SN_MAX_CQ ? nic->cqs[number - FIRST_CQN] : NULL;
}

uint32_t sn_cq_number(const struct sn_cq *cq)
{
    return cq->number;
}

/* ---- events -------------------------------------------------------------------------------------------- */

static void fire(struct sn_cq *cq)
{
    GW_ASSERT_HELD(&cq->nic->lock);
    cq->armed = SN_DISARMED;
    cq->events++;
    cq->since_event = 0;
    sn_list_del(&cq->news_link);
    sn_count(&cq->nic->count.cq_events, 1);
    if (cq->nic->cfg.cq_event) cq->nic->cfg.cq_event(cq->nic->cfg.user, cq->init.user);
}

/* Stays at the top, so that an age of 2^32 is not taken for none. */
static uint32_t older(uint32_t age)
{
    return age == UINT32_MAX ? age : age + 1;
}

/*
 * Only a completion that the program had not polled when it armed, and that no event has told of, is news.
 * One that an event announced and that is still unpolled is not. Otherwise a program that takes its
 * completions one by one would get event after event for it.
 */
static void maybe_fire(struct sn_cq *cq, uint32_t unpolled)
{
    uint32_t news = unpolled < cq->since_event ? unpolled : cq->since_event;

    if (cq->armed == SN_ARM_NEXT && news >= 1)
        fire(cq);
    else if (cq->armed == SN_ARM_SOLICITED && cq->has_solicited && news >= cq->solicited_age)
        fire(cq);
}

static void cq_look(struct sn_cq *cq)
{
    uint32_t word;

    cq->arms = cq->init.uar->arms;
    if (sn_guard_load32(cq->init.dbrec + GW_MLX5_DBREC_CQ_ARM, &word)) return;
    if (word == cq->arm_seen) return;
    cq->arm_seen = word;
    word = gw_be32(word);
    /* An arm for an event that was given already, and that the program has not taken yet. */
    if ((word >> 28 & 3) != (cq->events & 3)) return;
    cq->armed = word >> 24 & 1 ? SN_ARM_SOLICITED : SN_ARM_NEXT;
    maybe_fire(cq, (cq->pi - word) & 0xffffff);
}

/* ---- entries ------------------------------------------------------------------------------------------- */

static void cq_die(struct sn_cq *cq, const char *why)
{
    cq->dead = true;
    sn_report(cq->nic, "CQ 0x%06x of %u entries: %s", cq->number, cq->init.cqe_count, why);
    if (cq->nic->cfg.async_event)
        cq->nic->cfg.async_event(cq->nic->cfg.user, IBV_EVENT_CQ_ERR, cq->init.user);
}

/*
 * How many entries the program has not consumed, going by its record. Resizing consumes an index without a
 * word in the record, until the program next writes it.
 */
static int unconsumed(struct sn_cq *cq, uint32_t *n)
{
    uint32_t ci;
    int err = sn_guard_load32(cq->init.dbrec + GW_MLX5_DBREC_CQ_CI, &ci);

    if (err) return err;
    if (ci != cq->resized_ci) cq->resizings = 0;
    cq->resized_ci = ci;
    *n = (cq->pi - gw_be32(ci) - cq->resizings) & 0xffffff;
    return 0;
}

/* Is there room for one more? An entry that the program has not consumed is never overwritten. */
static bool cq_has_room(struct sn_cq *cq)
{
    uint32_t n;

    if (cq->dead) return false;
    if (cq->init.ignore_overrun) return true;
    if (unconsumed(cq, &n)) {
        cq_die(cq, "its doorbell record is not mapped");
        return false;
    }
    if (n < cq->init.cqe_count) return true;
    cq_die(cq, "overrun: more completions than the program has polled");
    return false;
}

struct entry {
    uint8_t before[64]; /* the first half of a 128-byte entry */
    struct gw_mlx5_cqe cqe;
};

/* Copies the entry in but for its last byte; then that. */
static int put_entry(const struct sn_cq *cq, const struct entry *e, uint8_t last)
{
    uint8_t *slot = (uint8_t *)cq->init.buf + (size_t)(cq->pi & (cq->init.cqe_count - 1)) * cq->init.cqe_size;
    uint32_t before = cq->init.cqe_size - 64;

    if (sn_guard_copy(slot, (const uint8_t *)&e->cqe - before, before + 63)) return -EFAULT;
    /* Release: no reader sees the owner bit before the rest of the entry, or before the payload, which was
     * stored earlier. */
    return sn_guard_store8(slot + before + 63, last);
}

/*
 * All CQs of a page are armed through one register, so a ring may have hidden others. CQs with news may have
 * to fire now, so they are looked at at once. The others have their turn when their next completion comes.
 * Polled entries are no news, until then.
 */
void sn_cq_armed(struct sn_uar *uar, struct sn_cq *cq)
{
    struct sn_link *it, *tmp;
    uint32_t unpolled;

    GW_ASSERT_HELD(&uar->nic->lock);
    uar->arms++;
    cq_look(cq);
    sn_list_each(it, tmp, &uar->news)
    {
        cq = sn_entry(it, struct sn_cq, news_link);
        if (cq->arms != uar->arms) cq_look(cq);
        if (!cq->init.ignore_overrun && !unconsumed(cq, &unpolled) && !unpolled) sn_list_del(&cq->news_link);
    }
}

static int write_entry(struct sn_cq *cq, const struct gw_mlx5_wc *wc, const void *scatter, uint32_t len)
{
    struct entry e;
    uint8_t last;

    memset(&e, 0, sizeof(e));
    last = gw_mlx5_cqe_build(&e.cqe, wc, cq->pi, cq->init.cqe_count);
    if (wc->scatter == GW_MLX5_CQE_SCATTER_64)
        memcpy(e.before, scatter, len);
    else if (wc->scatter)
        memcpy(&e.cqe, scatter, len);
    return put_entry(cq, &e, last);
}

int sn_cq_post_now(struct sn_cq *cq, struct sn_qp *qp, const struct gw_mlx5_wc *wc, const void *scatter,
                   uint32_t len)
{
    bool error = gw_mlx5_wc_is_error(wc);

    GW_ASSERT_HELD(&cq->nic->lock);
    if (cq->arms != cq->init.uar->arms) cq_look(cq); /* its arm may have been hidden */
    if (!cq_has_room(cq)) goto dead;
    if (cq->nic->held_count) sn_place_push(cq->nic);
    GW_ASSERT(!cq->dead && len <= SN_INLINE_ROOM);
    if (write_entry(cq, wc, scatter, len)) {
        cq_die(cq, "its memory is not mapped");
        goto dead;
    }
    GW_TRACE(softnic, cqe, qp->number, wc->wqe_counter, wc->opcode, wc->syndrome, wc->byte_cnt, cq->number);
    cq->pi++;
    cq->since_event = older(cq->since_event);
    if (sn_list_empty(&cq->news_link)) sn_list_add(&cq->init.uar->news, &cq->news_link);
    cq->solicited_age = wc->solicited || error ? 1 : older(cq->solicited_age);
    cq->has_solicited |= wc->solicited || error;
    sn_count(&cq->nic->count.cqes, 1);
    if (error) sn_count(&cq->nic->count.error_cqes, 1);
    if (error && !qp->syndrome && wc->syndrome != GW_MLX5_SYND_FLUSHED) {
        GW_TRACE(softnic, error, qp->number, wc->wqe_counter, wc->syndrome, wc->vendor);
        qp->syndrome = wc->syndrome;
    }
    sn_activity(cq->nic);
    maybe_fire(cq, 1); /* this one, at least */
    return 0;
dead:
    if (qp->state != IBV_QPS_ERR) sn_qp_fatal(qp);
    return -EOVERFLOW;
}

/* ---- resizing ------------------------------------------------------------------------------------------ */

/* The entry that ends a queue: what follows is in the new one. It takes an index like any other. */
enum { OPCODE_RESIZE = 5 };

static int end_queue(struct sn_cq *cq)
{
    struct entry e;

    memset(&e, 0, sizeof(e));
    return put_entry(cq, &e, (uint8_t)(OPCODE_RESIZE << 4 | !!(cq->pi & cq->init.cqe_count)));
}

static int cq_resize(struct sn_cq *cq, void *buf, uint32_t cqe_count)
{
    uint32_t n;
    int err;

    GW_ASSERT_HELD(&cq->nic->lock);
    if (cq->dead) return -EIO;
    if (cq->init.ignore_overrun) return -EOPNOTSUPP; /* what is unpolled is unknown */
    err = unconsumed(cq, &n);
    if (err) return err;
    if (n >= cqe_count) return -EINVAL;
    if (n >= cq->init.cqe_count) return -EBUSY;
    err = end_queue(cq);
    if (err) return err;
    cq->pi++;
    cq->resizings++;
    cq->init.buf = buf;
    cq->init.cqe_count = cqe_count;
    return 0;
}

int sn_cq_resize(struct sn_cq *cq, void *buf, uint32_t cqe_count)
{
    int err;

    if (!buf || (uintptr_t)buf % 64 || !count_ok(cqe_count)) return -EINVAL;
    sn_nic_lock(cq->nic);
    err = cq_resize(cq, buf, cqe_count);
    sn_nic_unlock(cq->nic);
    return err;
}
