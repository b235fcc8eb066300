/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions: opened, closed, cleared between two clients, and what is known of them. */
#include "src/server/worker/session_pool.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include <gpuwire/detail/held.h>

#include "src/exec/clear.h"

#define RESET_NS 2000000u /* the housekeeper has other sessions to see to, and comes again */

/* ---- opening and closing ---- */

static void session_tell(struct gw_session_pool *p, uint32_t i, enum gw_serve_state state)
{
    /* Release: the kernel that sees the word sees the fields. The count comes after the word, so a kernel
     * that sees the new count finds the new word. */
    gw_st_release_u32(&notice(p, i)->word, next_word(&p->session[i], state));
    p->session[i].generation++;
    gw_add_release_u32(&board(p)->changes, 1);
}

/* Acquire: what the kernel did before it answered is over. */
static bool taken_up(const struct gw_session_pool *p, uint32_t i)
{
    return gw_ld_acquire_u32(&notice(p, i)->seen) == gw_ld_relaxed_u32(&notice(p, i)->word);
}

static enum life life_of(struct gw_session_pool *p, uint32_t i)
{
    pthread_mutex_lock(&p->lock);
    enum life life = p->session[i].life;
    pthread_mutex_unlock(&p->lock);
    return life;
}

/* A session goes round: FREE, OPENING, OPEN, CLOSING. One that could not be connected leaves OPEN out. */
GW_CHECKS int may_become(enum life from, enum life to)
{
    if (to == CLOSING) return from == OPENING || from == OPEN;
    return to == OPEN ? from == OPENING : to == FREE && from == CLOSING;
}

static void set_life(struct gw_session_pool *p, uint32_t i, enum life life)
{
    pthread_mutex_lock(&p->lock);
    GW_ASSERT(may_become(p->session[i].life, life));
    p->session[i].life = life;
    pthread_mutex_unlock(&p->lock);
}

static uint32_t slots_for(const struct gw_session_pool *p, const struct gw_session_wish *w)
{
    return w->slots && w->slots < p->opts.slots ? w->slots : p->opts.slots;
}

static int check_wish(const struct gw_session_pool *p, const struct gw_session_wish *w)
{
    /* Where there are several models, requests name theirs, and the loop looks at each answer's size. */
    uint64_t out = p->opts.tables.models ? 0 : gw_layout_bytes(&p->opts.out, rows_of(&p->opts));
    uint64_t need = sizeof(struct gw_serve_reply) + out, all;
    if (w->reply_stride < need)
        return gw_error(-EINVAL, "reply_stride is %llu, an answer takes %llu bytes",
                        (unsigned long long)w->reply_stride, (unsigned long long)need);
    if (__builtin_mul_overflow(w->reply_stride, (uint64_t)slots_for(p, w), &all) ||
        w->reply_addr > UINT64_MAX - all)
        return gw_error(-EINVAL, "reply_addr and reply_stride go beyond the address space");
    return 0;
}

/* How many of the same kind there are, and whether one of them is about to be free. */
static uint32_t count_kind(const struct gw_session_pool *p, uint32_t own, int *closing)
{
    GW_ASSERT_HELD(&p->lock);
    uint32_t n = 0;
    for (uint32_t i = 0; i < p->opts.sessions; i++) {
        const struct session *s = &p->session[i];
        if (s->life == FREE || s->own != own) continue;
        n++;
        *closing |= s->life == CLOSING;
    }
    return n;
}

/* A free one is OPENING from now on. -EBUSY: there is none. -EAGAIN: some will be free soon. */
static int64_t take_free(struct gw_session_pool *p, uint32_t own)
{
    int closing = 0;
    int64_t found = -EBUSY;
    pthread_mutex_lock(&p->lock);
    uint32_t most = own ? p->opts.kept : p->opts.sessions - p->opts.kept;
    int room = count_kind(p, own, &closing) < most;
    for (uint32_t i = 0; room && found < 0 && i < p->opts.sessions; i++)
        if (p->session[i].life == FREE) found = i;
    if (found >= 0) {
        p->session[found].life = OPENING;
        p->session[found].own = own;
    }
    pthread_mutex_unlock(&p->lock);
    return found < 0 && closing ? -EAGAIN : found;
}

/* The loop has something to look at. Should the call fail: it wakes by itself now and then. */
void gw_session_wake(struct gw_session_pool *p)
{
    const uint64_t one = 1;
    if (p->news_fd >= 0 && write(p->news_fd, &one, sizeof(one)) < 0) return;
}

static void session_cut_off(struct gw_session_pool *p, uint32_t i)
{
    gw_qp_abort(p->session[i].qp);
    session_tell(p, i, GW_SESSION_CLOSING);
    set_life(p, i, CLOSING);
    gw_session_wake(p);
}

int gw_session_open(struct gw_session_pool *p, const struct gw_session_wish *wish,
                    struct gw_session_grant *grant)
{
    int err = check_wish(p, wish);
    if (err) return err;
    int64_t found = take_free(p, wish->own);
    if (found < 0)
        return gw_error((int)found, "all %u sessions are taken; start the worker with more --sessions",
                        p->opts.sessions - p->opts.kept);

    uint32_t i = (uint32_t)found;
    struct session *s = &p->session[i];
    struct gw_serve_notice *n = notice(p, i);
    n->slots = slots_for(p, wish);
    n->reply_addr = wish->reply_addr;
    n->reply_stride = wish->reply_stride;
    n->reply_rkey = wish->reply_rkey;
    n->activity = 0;
    n->owner = wish->own ? GW_SERVE_OWN : wish->owner;
    /* Before the connection: a request that it brings finds the session open. The loop need not have
     * looked. */
    session_tell(p, i, GW_SESSION_OPEN);
    gw_qp_endpoint(s->qp, &grant->endpoint);
    struct gw_device_info nic;
    gw_device_query(p->opts.dev, &nic);
    const struct gw_connect_opts with = {.timeout = nic.soft ? GW_SERVE_SOFT_TIMEOUT : 0};
    err = gw_qp_connect(s->qp, &wish->endpoint, &with);
    if (err) {
        session_cut_off(p, i);
        return err;
    }
    grant->index = i;
    grant->slots = n->slots;
    grant->request_addr = s->in->addr;
    grant->request_stride = p->in_stride;
    grant->request_rkey = s->in->rkey;
    set_life(p, i, OPEN);
    return 0;
}

void gw_session_slot(const struct gw_session_pool *p, uint32_t i, uint32_t slot, uint8_t **in, uint8_t **out)
{
    uint64_t at = (uint64_t)i * p->opts.slots + slot;
    *in = (uint8_t *)p->in.dev + at * p->in_stride + sizeof(struct gw_serve_request);
    *out = (uint8_t *)p->out.dev + at * p->out_stride + sizeof(struct gw_serve_reply);
}

void gw_session_close(struct gw_session_pool *p, uint32_t i)
{
    if (life_of(p, i) == OPEN) session_cut_off(p, i);
}

/* ---- between two clients ---- */

/* Nothing of the last client is left for the next one: no connection, no key, no byte. The loop has let
 * go of it. */
static int make_anew(struct gw_session_pool *p, uint32_t i)
{
    struct session *s = &p->session[i];
    uint64_t in_bytes = p->opts.slots * p->in_stride, out_bytes = p->opts.slots * p->out_stride;
    int err = gw_qp_reset(s->qp, 0, gw_deadline(RESET_NS));
    if (!err) err = gw_mr_rekey(s->in); /* before the clearing: no peer writes there after it */
    if (!err) err = gw_clear(&p->in, i * in_bytes, in_bytes);
    if (!err) err = gw_clear(&p->out, i * out_bytes, out_bytes);
    return err ? err : gw_session_post_receives(p, i);
}

/* The loop may sleep again, if it has acted on all that the host has said. What is said during this call
 * wakes it a little later. */
void gw_session_rest(struct gw_session_pool *p)
{
    uint64_t count;
    bool news = gw_ld_relaxed_u32(&board(p)->orders) != gw_ld_relaxed_u32(&board(p)->taken);
    for (uint32_t i = 0; !news && i < p->opts.sessions; i++)
        news = life_of(p, i) == CLOSING && !taken_up(p, i);
    if (!news && p->news_fd >= 0 && read(p->news_fd, &count, sizeof(count)) < 0) return; /* it was empty */
}

uint32_t gw_session_pool_tend(struct gw_session_pool *p)
{
    uint32_t left = 0;
    for (uint32_t i = 0; i < p->opts.sessions; i++) {
        if (life_of(p, i) != CLOSING) continue;
        if (taken_up(p, i) && !make_anew(p, i))
            set_life(p, i, FREE);
        else
            left++;
    }
    gw_session_rest(p);
    return left;
}

/* ---- what is known of them ---- */

bool gw_session_pool_has(const struct gw_session_pool *p, const struct gw_endpoint *ep)
{
    struct gw_endpoint own;
    for (uint32_t i = 0; i < p->opts.sessions; i++) {
        gw_qp_endpoint(p->session[i].qp, &own);
        if (own.qpn == ep->qpn && !memcmp(own.gid, ep->gid, sizeof(own.gid))) return true;
    }
    return false;
}

void gw_session_ask(struct gw_session_pool *p, uint32_t i)
{
    gw_add_release_u32(&notice(p, i)->ask, 1);
    gw_add_release_u32(&board(p)->changes, 1); /* after the question: a kernel that sees the count finds it */
}

bool gw_session_heard(struct gw_session_pool *p, uint32_t i, uint32_t *activity)
{
    /* Acquire: the activity is read after it. */
    bool heard = gw_ld_acquire_u32(&notice(p, i)->heard) == gw_ld_relaxed_u32(&notice(p, i)->ask);
    *activity = gw_ld_relaxed_u32(&notice(p, i)->activity);
    return heard;
}

uint32_t gw_session_pool_open_count(struct gw_session_pool *p)
{
    uint32_t n = 0;
    pthread_mutex_lock(&p->lock);
    for (uint32_t i = 0; i < p->opts.sessions; i++) n += p->session[i].life == OPEN && !p->session[i].own;
    pthread_mutex_unlock(&p->lock);
    return n;
}

int gw_session_pool_broken(struct gw_session_pool *p)
{
    /* Acquire: the faults of those that are counted are seen. */
    uint32_t broken = gw_ld_acquire_u32(&board(p)->broken);
    int news = broken != p->heard.broken;
    p->heard.broken = broken;
    return news;
}

uint64_t gw_session_pool_failures(struct gw_session_pool *p)
{
    uint64_t failed = gw_ld_relaxed_u64(&board(p)->total.failures), news = failed - p->heard.failed;
    p->heard.failed = failed;
    return news;
}

bool gw_session_failed(struct gw_session_pool *p, uint32_t i, struct gw_fault *fault)
{
    return life_of(p, i) == OPEN && gw_qp_fault(p->session[i].qp, fault) > 0;
}

uint32_t gw_session_pool_size(const struct gw_session_pool *p)
{
    return p->opts.sessions - p->opts.kept;
}

/* Words that the loop stores whole. */
static void read_words(void *to, const void *from, size_t bytes)
{
    uint64_t *out = to;
    const uint64_t *in = from;
    for (size_t i = 0; i < bytes / sizeof(*in); i++) out[i] = gw_ld_relaxed_u64(&in[i]);
}

void gw_session_pool_counters(const struct gw_session_pool *p, struct gw_serve_counters *total,
                              struct gw_serve_variant_counters variant[GW_SERVE_VARIANTS])
{
    read_words(total, &board(p)->total, sizeof(*total));
    memset(variant, 0, GW_SERVE_VARIANTS * sizeof(*variant));
    read_words(variant, board_place(p, p->boards.variant), p->opts.variants * sizeof(*variant));
}

void gw_session_pool_latency(const struct gw_session_pool *p, uint64_t bucket[GW_SERVE_BUCKETS])
{
    for (uint32_t i = 0; i < GW_SERVE_BUCKETS; i++) bucket[i] = gw_ld_relaxed_u64(&board(p)->latency[i]);
}

void gw_session_pool_closing(struct gw_session_pool *p)
{
    gw_st_relaxed_u32(&board(p)->closing, 1);
    gw_add_release_u32(&board(p)->changes, 1); /* after it: a kernel that sees the count finds it */
    gw_session_wake(p);
}
