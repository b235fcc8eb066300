/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions of a generator: opened, closed, and made ready for the next client. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include <gpuwire/detail/held.h>
#include <gpuwire/error.h>

#include "src/exec/clear.h"
#include "src/generate/worker/pool_impl.h"

#define RESET_NS 2000000u /* the housekeeper has other sessions to see to, and comes again */

/* ---- what the loop is told ---- */

static void session_raise(int fd)
{
    const uint64_t one = 1;
    if (fd >= 0 && write(fd, &one, sizeof(one)) < 0) return; /* it is readable already */
}

static void session_change(struct gen_pool *p, uint32_t i)
{
    GW_ASSERT_HELD(&p->lock);
    p->session[i].untold = !gen_device_tell(p->board, p->change, p->change_mask, i);
}

static void pooled_tell(struct gen_pool *p, uint32_t i, enum gen_session_state state)
{
    struct gen_pooled *s = &p->session[i];
    /* Release: the kernel that sees the word sees the fields. */
    gw_st_release_u32(&p->notice[i].word, gen_pooled_word(s, state));
    s->generation++;
    session_change(p, i);
}

/* Acquire: what the kernel did before it answered is over. */
static bool session_is_taken_up(const struct gen_pool *p, uint32_t i)
{
    return gw_ld_acquire_u32(&p->notice[i].seen) == gw_ld_relaxed_u32(&p->notice[i].word);
}

/* ---- opening and closing ---- */

static int session_check(const struct gen_pool *p, const struct gen_wish *w, uint32_t slots)
{
    uint64_t ring = (uint64_t)w->ring * sizeof(struct gen_event), all;
    if (w->ring < 1 || w->ring > p->opts.context)
        return gw_error(-EINVAL, "ring: must be 1 to %u events, not %u", p->opts.context, w->ring);
    if (w->event_stride < ring)
        return gw_error(-EINVAL, "event_stride is %llu, a ring takes %llu bytes",
                        (unsigned long long)w->event_stride, (unsigned long long)ring);
    if (__builtin_mul_overflow(w->event_stride, (uint64_t)slots, &all) || w->event_addr > UINT64_MAX - all)
        return gw_error(-EINVAL, "event_addr and event_stride go beyond the address space");
    return 0;
}

/* A free one is OPENING from now on. */
static int session_take(struct gen_pool *p, bool own, uint32_t *i)
{
    pthread_mutex_lock(&p->lock);
    int err = p->free[own] >= 0 ? 0 : p->closing[own] ? -EAGAIN : -EBUSY;
    if (!err) {
        *i = (uint32_t)p->free[own];
        p->free[own] = p->session[*i].next;
        p->session[*i].life = GEN_LIFE_OPENING;
    }
    pthread_mutex_unlock(&p->lock);
    return err ? gw_error(err, "model %s: all %u sessions are taken; start it with more --sessions",
                          p->opts.name, p->opts.sessions - p->opts.kept)
               : 0;
}

/* No request is taken from it any more, and its memory is out of reach. */
static void pooled_cut_off(struct gen_pool *p, uint32_t i)
{
    GW_ASSERT_HELD(&p->lock);
    bool own = i < p->opts.kept;
    if (p->session[i].life == GEN_LIFE_OPEN && !own) p->open--;
    gw_qp_abort(p->session[i].qp);
    pooled_tell(p, i, GEN_SESSION_CLOSING);
    p->session[i].life = GEN_LIFE_CLOSING;
    p->closing[own]++;
    session_raise(p->look_fd);
    session_raise(p->news_fd);
}

static void session_notice(struct gen_pool *p, uint32_t i, const struct gen_wish *w, uint32_t slots)
{
    struct gen_notice *n = &p->notice[i];
    n->slots = slots;
    n->ring = w->ring;
    n->event_rkey = w->event_rkey;
    n->event_addr = w->event_addr;
    n->event_stride = w->event_stride;
    gw_st_relaxed_u32(&n->activity, 0); /* the kernel has let go of the session */
    pthread_mutex_lock(&p->lock);
    pooled_tell(p, i, GEN_SESSION_OPEN);
    pthread_mutex_unlock(&p->lock);
}

int gen_pool_open(struct gen_pool *p, const struct gen_wish *wish, struct gen_grant *grant)
{
    uint32_t slots = wish->slots && wish->slots < p->opts.slots ? wish->slots : p->opts.slots, i = 0;
    int err = session_check(p, wish, slots);
    if (!err) err = session_take(p, wish->own, &i);
    if (err) return err;
    struct gen_pooled *s = &p->session[i];
    /* Before the connection: a request that it brings finds the session open. */
    session_notice(p, i, wish, slots);
    memset(grant, 0, sizeof(*grant));
    gw_qp_endpoint(s->qp, &grant->endpoint);
    err = gw_qp_connect(s->qp, &wish->endpoint, NULL);
    pthread_mutex_lock(&p->lock);
    grant->index = i;
    grant->life = s->generation;
    if (err) {
        pooled_cut_off(p, i);
    } else {
        s->life = GEN_LIFE_OPEN;
        p->open += i >= p->opts.kept;
    }
    pthread_mutex_unlock(&p->lock);
    grant->slots = slots;
    grant->request_addr = s->in->addr;
    grant->request_stride = p->in_stride;
    grant->request_rkey = s->in->rkey;
    return err;
}

static bool session_is(const struct gen_pool *p, const struct gen_grant *g)
{
    GW_ASSERT_HELD(&p->lock);
    const struct gen_pooled *s = &p->session[g->index];
    return s->life == GEN_LIFE_OPEN && s->generation == g->life;
}

void gen_pool_close(struct gen_pool *p, const struct gen_grant *grant)
{
    pthread_mutex_lock(&p->lock);
    if (session_is(p, grant)) pooled_cut_off(p, grant->index);
    pthread_mutex_unlock(&p->lock);
}

bool gen_pool_has(struct gen_pool *p, const struct gen_grant *grant)
{
    pthread_mutex_lock(&p->lock);
    bool has = session_is(p, grant);
    pthread_mutex_unlock(&p->lock);
    return has;
}

uint32_t gen_pool_activity(struct gen_pool *p, const struct gen_grant *grant)
{
    return gw_ld_relaxed_u32(&p->notice[grant->index].activity);
}

void gen_pool_ask(struct gen_pool *p, const struct gen_grant *grant)
{
    pthread_mutex_lock(&p->lock);
    if (session_is(p, grant)) {
        gw_st_release_u32(&p->notice[grant->index].ask, ++p->session[grant->index].asked);
        session_change(p, grant->index);
    }
    pthread_mutex_unlock(&p->lock);
}

bool gen_pool_owns(const struct gen_pool *p, const struct gw_endpoint *ep)
{
    for (uint32_t i = 0; i < p->opts.sessions; i++) {
        const struct gw_endpoint *own = &p->session[i].at;
        if (own->qpn == ep->qpn && !memcmp(own->gid, ep->gid, sizeof(own->gid))) return true;
    }
    return false;
}

uint32_t gen_pool_open_count(struct gen_pool *p)
{
    pthread_mutex_lock(&p->lock);
    uint32_t n = p->open;
    pthread_mutex_unlock(&p->lock);
    return n;
}

uint32_t gen_pool_size(const struct gen_pool *p)
{
    return p->opts.sessions - p->opts.kept;
}

uint32_t gen_pool_slots(const struct gen_pool *p)
{
    return p->opts.slots;
}

void gen_pool_closing(struct gen_pool *p, uint32_t how)
{
    gw_st_relaxed_u32(&p->board->closing, how);
    pthread_mutex_lock(&p->lock);
    session_change(p, 0); /* after it: a kernel that sees the count finds it. Session 0 has nothing new. */
    pthread_mutex_unlock(&p->lock);
    session_raise(p->look_fd);
    session_raise(p->news_fd); /* the housekeeper lets the loop sleep again */
}

int gen_pool_news(const struct gen_pool *p)
{
    return p->news_fd;
}

/* ---- between two clients ---- */

/* Nothing of the last client is left for the next one: no connection, no key, no byte. The loop has let go of
 * it. */
static int session_renew(struct gen_pool *p, uint32_t i)
{
    struct gen_pooled *s = &p->session[i];
    int err = gw_qp_reset(s->qp, 0, gw_deadline(RESET_NS));
    if (!err) err = gw_mr_rekey(s->in); /* before the clearing: no peer writes there after it */
    if (!err) err = gw_clear(&p->in, i * s->in->length, s->in->length);
    if (!err) err = gw_clear(&p->out, i * s->out->length, s->out->length);
    return err ? err : gen_pooled_receive(p, i);
}

static void session_free(struct gen_pool *p, uint32_t i)
{
    bool own = i < p->opts.kept;
    pthread_mutex_lock(&p->lock);
    p->session[i].life = GEN_LIFE_FREE;
    p->session[i].next = p->free[own];
    p->free[own] = (int32_t)i;
    p->closing[own]--;
    pthread_mutex_unlock(&p->lock);
}

static void session_say(struct gen_pool *p, uint32_t i)
{
    struct gw_fault fault;
    char why[160] = "its client has broken the rules, or took no events";
    if (gw_qp_fault(p->session[i].qp, &fault) > 0) gw_fault_text(&fault, why, sizeof(why));
    gw_say(&p->said, "model %s: session %u is closed: %s", p->opts.name, i, why);
}

/* The kernel has broken with that client. */
static bool session_is_lost(const struct gen_pool *p, uint32_t i)
{
    GW_ASSERT_HELD(&p->lock);
    return p->session[i].life == GEN_LIFE_OPEN &&
           gw_ld_relaxed_u32(&p->notice[i].lost) == gw_ld_relaxed_u32(&p->notice[i].word);
}

static void session_close_lost(struct gen_pool *p)
{
    /* Acquire: the words of those that are counted are seen. */
    uint32_t broken = gw_ld_acquire_u32(&p->board->broken);
    if (broken == p->broken) return;
    p->broken = broken;
    for (uint32_t i = 0; i < p->opts.sessions; i++) {
        pthread_mutex_lock(&p->lock);
        bool lost = session_is_lost(p, i);
        if (lost) {
            session_say(p, i);
            pooled_cut_off(p, i);
        }
        pthread_mutex_unlock(&p->lock);
    }
}

/* The loop may sleep again when it has read all that was said. What is said during this call wakes it a
 * little later. */
static void session_rest(struct gen_pool *p)
{
    uint64_t count;
    bool read_all = gw_ld_acquire_u32(&p->board->taken) == gw_ld_relaxed_u32(&p->board->changes);
    if (read_all && p->look_fd >= 0 && read(p->look_fd, &count, sizeof(count)) < 0) return; /* it was empty */
}

uint32_t gen_pool_tend(struct gen_pool *p)
{
    uint64_t count;
    if (read(p->news_fd, &count, sizeof(count)) < 0) count = 0;
    session_close_lost(p);
    pthread_mutex_lock(&p->lock);
    uint32_t left = p->closing[0] + p->closing[1];
    pthread_mutex_unlock(&p->lock);
    for (uint32_t i = 0; left && i < p->opts.sessions; i++) {
        pthread_mutex_lock(&p->lock);
        bool closing = p->session[i].life == GEN_LIFE_CLOSING;
        if (p->session[i].untold) session_change(p, i);
        pthread_mutex_unlock(&p->lock);
        if (closing && session_is_taken_up(p, i) && !session_renew(p, i)) session_free(p, i);
    }
    session_rest(p);
    pthread_mutex_lock(&p->lock);
    left = p->closing[0] + p->closing[1];
    pthread_mutex_unlock(&p->lock);
    return left;
}
