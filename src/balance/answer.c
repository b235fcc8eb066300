/* SPDX-License-Identifier: Apache-2.0 */
/* Packets for the balancer itself: a host tells where it is, asks where an address of ours is, or pings. */
#include "src/balance/answer.h"

#include <string.h>

#include "src/balance/frames.h"
#include "src/balance/link.h"

static void answer_done(struct bal_core *core, struct bal_work *w, bool sent)
{
    w->p->verdict = sent ? BAL_SEND : BAL_DISCARD;
    w->where = BAL_NOWHERE;
    bal_count(&core->counters->answered, 1);
}

/* A host tells where it is, and perhaps asks where an address of ours is. */
static void answer_told(struct bal_core *core, struct bal_work *w, const struct bal_addr *sender,
                        const uint8_t *mac, const struct bal_addr *asked)
{
    struct bal_link link;
    uint8_t own[6];
    if (mac) bal_neighbour_told(core->bal->neighbours, w->p->port, sender, mac, core->now_ns);
    if (!asked || !bal_is_ours(core, w->p->port, asked)) {
        answer_done(core, w, false);
        return;
    }
    bal_link_on(core, w->p->port, asked->family, &link, own);
    link.own = *asked;
    struct bal_frame *f = bal_new_frame(core, w->p->port);
    static const uint8_t none[16];
    bool probe = sender->family == 6 && !memcmp(sender->byte, none, 16);
    if (f) f->len = bal_answer_frame(f->data, &link, probe ? NULL : w->p->data + 6, probe ? NULL : sender);
    answer_done(core, w, false);
}

/* The link-layer address option of that type in a neighbour message, or NULL. */
static const uint8_t *answer_nd_option(const struct bal_work *w, uint8_t type)
{
    const uint8_t *icmp = w->p->data + w->m.l4, *end = w->p->data + w->m.l3 + w->m.ip_len;
    for (const uint8_t *o = icmp + 24; end - o >= 8 && o[1]; o += o[1] * 8) {
        if (o[1] * 8 > end - o) break;
        if (o[0] == type) return o + 2;
    }
    return NULL;
}

static void answer_arp(struct bal_core *core, struct bal_work *w)
{
    const uint8_t *p = w->p->data + w->m.l3;
    struct bal_addr sender = bal_addr_of(p + 14, false), target = bal_addr_of(p + 24, false);
    answer_told(core, w, &sender, p + 8, p[7] == 1 ? &target : NULL);
}

static void answer_nd(struct bal_core *core, struct bal_work *w)
{
    const uint8_t *p = w->p->data + w->m.l4;
    struct bal_addr target = bal_addr_of(p + 8, true), sender = bal_addr_of(bal_src(w->p->data, &w->m), true);
    if (w->m.kind == BAL_K_SOLICIT)
        answer_told(core, w, &sender, answer_nd_option(w, 1), &target);
    else
        answer_told(core, w, &target, answer_nd_option(w, 2), NULL);
}

void bal_for_us(struct bal_core *core, struct bal_work *w)
{
    switch (w->m.kind) {
    case BAL_K_ARP: answer_arp(core, w); return;
    case BAL_K_SOLICIT:
    case BAL_K_ADVERTISE: answer_nd(core, w); return;
    case BAL_K_ECHO: {
        struct bal_addr dst = bal_addr_of(bal_dst(w->p->data, &w->m), w->m.ipv6);
        if (!bal_is_ours(core, w->p->port, &dst)) break;
        bal_echo(w->p, &w->m);
        answer_done(core, w, true);
        return;
    }
    default: break;
    }
    bal_drop(core, w, BAL_DROP_NOT_OURS);
}
