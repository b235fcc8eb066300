/* SPDX-License-Identifier: Apache-2.0 */
/* kernels_answers.h: what memcached answers, and the verdicts that follow. */
#ifndef FACE_KERNELS_ANSWERS_H
#define FACE_KERNELS_ANSWERS_H

#include "apps/faceverify/kernels_view.h"
#include "apps/faceverify/lbp.h"

/* The connection to a memcached is of no use: all that wait for it get their replies. */
GW_DEV void one_link_fail(struct face_view *v, uint32_t l)
{
    struct mc_link *link = &v->link[l];

    v->b->counts.links_failed++;
    for (; link->owed; mc_link_answered(link, 1))
        one_slot_reply(v, link->owes[link->first].number, 0, FACE_UNAVAILABLE);
    mc_link_fail(v->net, link, v->now);
    v->b->unsettled = 1;
    v->link_fds[l].fd = -1;
}

/* Is it the answer to this slot's question? With the binary protocol a miss names no key. */
GW_DEV bool one_key_fits(const struct mc_link *link, const struct face_slot *slot, const struct mc_answer *a)
{
    if (!a->key_len) return a->kind != MC_VALUE;
    return a->key_len == slot->key_len && mc_same(link->in + a->key, slot->key, slot->key_len);
}

/* Takes answers until one has a value to compare: its slot, and where the value lies in v->b->value. -1:
 * there is none so far. */
GW_DEV int one_next_value(struct face_view *v, uint32_t l)
{
    struct mc_link *link = &v->link[l];
    const struct mc_owed *whose;
    struct mc_answer a;
    uint32_t missed, s;

    for (;;) {
        mc_link_next(link, v->a->protocol, sizeof(struct face_value), &a);
        if (a.kind == MC_MORE) return -1;
        whose = a.kind == MC_BROKEN ? NULL : mc_link_whose(link, v->a->protocol, &a, &missed);
        s = whose ? whose->number : 0;
        if (!whose ||
            ((a.kind == MC_VALUE || a.kind == MC_TOO_LONG) && !one_key_fits(link, &v->slot[s], &a))) {
            one_link_fail(v, l);
            return -1;
        }
        for (; missed; missed--) {
            one_slot_reply(v, link->owes[link->first].number, 0, FACE_UNKNOWN);
            mc_link_answered(link, 1);
        }
        mc_link_answered(link, 1);
        link->pause_ns = 0;
        v->slot[s].ns[FACE_ANSWERED] = gw_clock_ns();
        if (a.kind == MC_VALUE && a.value_len == sizeof(struct face_value)) {
            v->b->value = a.value;
            return (int)s;
        }
        one_slot_reply(v, s, 0, a.kind == MC_MISS ? FACE_UNKNOWN : FACE_UNAVAILABLE);
    }
}

GW_DEV void one_compared(struct face_view *v, uint32_t s, uint32_t terms, int fits)
{
    float distance = face_distance(terms);

    v->slot[s].ns[FACE_COMPARED] = gw_clock_ns();
    if (!fits || terms == UINT32_MAX)
        one_slot_reply(v, s, 0, FACE_UNAVAILABLE);
    else
        one_slot_reply(v, s, distance, distance <= v->a->threshold ? FACE_MATCH : FACE_NO_MATCH);
}

/* Compares the value with the slot's histogram. */
GW_DEV void face_judge(struct face_view *v, struct face_desk *d, uint32_t l, uint32_t s)
{
    uint32_t terms;
    int fits;

    gw_copy_share(&d->on.value, v->link[l].in + v->b->value, sizeof(d->on.value), gw_thread_idx(),
                  gw_block_dim());
    gw_syncthreads();
    fits = face_value_is_of(&d->on.value, v->slot[s].name_hash);
    terms = face_block_compare(d, &v->slot[s].histogram);
    if (gw_thread_idx() == 0) one_compared(v, s, terms, fits);
}

/* What a memcached has sent. */
GW_DEV void face_hear(struct face_view *v, struct face_desk *d, uint32_t l)
{
    int64_t n = mc_link_receive(v->net, &v->link[l]);
    int s;

    if (n == -EAGAIN) return;
    if (gw_thread_idx() == 0) {
        if (n <= 0)
            one_link_fail(v, l);
        else
            v->link[l].have += (uint32_t)n;
    }
    while (n > 0 && (s = (int)gw_group_first(
                         GW_BLOCK, gw_thread_idx() == 0 ? (uint64_t)(int64_t)one_next_value(v, l) : 0)) >= 0)
        face_judge(v, d, l, (uint32_t)s);
}

/* All memcacheds that have something to say. */
GW_DEV void face_answers(struct face_view *v, struct face_desk *d)
{
    uint32_t l, state;

    for (l = 0; l < v->a->ring.servers; l++) {
        state = v->link[l].state;
        if (!v->link_fds[l].revents || v->link_fds[l].fd < 0 || state != MC_UP) continue;
        face_hear(v, d, l);
        gw_syncthreads();
    }
}

#endif
