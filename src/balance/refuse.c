/* SPDX-License-Identifier: Apache-2.0 */
/* A packet goes nowhere: may its sender hear so, and what does it hear? */
#include "src/balance/refuse.h"

#include "src/balance/frames.h"
#include "src/balance/link.h"

/* One answer in that time, and this number at once: to one client, and to all. */
#define CLIENT_NS    UINT64_C(10000000)
#define CLIENT_BURST 50
#define ALL_NS       UINT64_C(100000)
#define ALL_BURST    1000

/* May one more be sent? `due`: when the last one of a row would have been its turn. */
static bool refuse_is_due(uint64_t *due, uint64_t now, uint64_t interval, uint64_t burst)
{
    if (*due > now + interval * burst) return false;
    *due = (*due > now ? *due : now) + interval;
    return true;
}

static bool is_due_for(struct bal_core *core, const struct bal_work *w)
{
    uint64_t a[2] = {0}, h = core->bal->seed[0];
    __builtin_memcpy(a, bal_src(w->p->data, &w->m), w->m.ipv6 ? 16 : 4);
    h = bal_mix(bal_mix(h ^ a[0], core->bal->seed[1] | 1) ^ a[1], core->bal->seed[1] | 1);
    return refuse_is_due(&core->due_ns[h % BAL_DUE_ROWS], core->now_ns, CLIENT_NS, CLIENT_BURST) &&
           refuse_is_due(&core->due_all_ns, core->now_ns, ALL_NS, ALL_BURST);
}

/* Can the sender's address be one host's, and not our own? */
static bool refuse_is_host(const struct bal_core *core, const struct bal_work *w)
{
    const uint8_t *src = bal_src(w->p->data, &w->m);
    struct bal_addr a = bal_addr_of(src, w->m.ipv6);
    static const uint8_t none[16];
    if (w->m.ipv6 ? src[0] == 0xff || !__builtin_memcmp(src, none, 16)
                  : src[0] >= 224 || src[0] == 0 || src[0] == 127)
        return false;
    return !bal_is_ours(core, w->p->port, &a);
}

/* A frame to a group, a fragment, a RST or an error is not answered: that could go on without end. */
static bool may_be_told(const struct bal_core *core, const struct bal_work *w)
{
    if (w->p->data[0] & 1 || w->m.first ||
        (w->m.kind != BAL_K_TCP && w->m.kind != BAL_K_UDP && w->m.kind != BAL_K_ROCE))
        return false;
    return !(w->m.kind == BAL_K_TCP && w->m.flags & BAL_RST) && refuse_is_host(core, w);
}

/* The balancer's own address on the port, so that a worker or a trace sees who speaks. Otherwise the one that
 * the packet was for. */
static struct bal_addr speaker(const struct bal_core *core, const struct bal_work *w)
{
    const struct bal_addr *own = core->snap->config.port[w->p->port].addr;
    for (int i = 0; i < 2; i++)
        if (own[i].family == (w->m.ipv6 ? 6 : 4)) return own[i];
    return bal_addr_of(bal_dst(w->p->data, &w->m), w->m.ipv6);
}

static void refuse_tell(struct bal_core *core, struct bal_work *w, enum bal_error_kind kind, uint32_t mtu)
{
    /* A client that asks for a port is answered from the address that it asked. */
    struct bal_addr from =
        kind == BAL_NO_PORT ? bal_addr_of(bal_dst(w->p->data, &w->m), w->m.ipv6) : speaker(core, w);
    if (kind == BAL_NO_PORT && w->m.kind == BAL_K_TCP)
        bal_reset(w->p, &w->m);
    else if (!bal_error(w->p, &w->m, kind, mtu, &from))
        return;
    w->p->verdict = BAL_SEND;
    bal_count(&core->counters->answered, 1);
}

void bal_refuse(struct bal_core *core, struct bal_work *w, enum bal_drop why)
{
    bal_drop(core, w, why);
    if (!core->snap->config.reject || !may_be_told(core, w)) return;
    if (why != BAL_DROP_TTL && (w->m.kind == BAL_K_ROCE || w->side == BAL_FROM_WORKER)) return;
    if (is_due_for(core, w)) refuse_tell(core, w, why == BAL_DROP_TTL ? BAL_NO_HOPS : BAL_NO_PORT, 0);
}

void bal_refuse_size(struct bal_core *core, struct bal_work *w, uint32_t mtu)
{
    const uint8_t *ip = w->p->data + w->m.l3;
    bool whole = w->m.ipv6 || ip[6] & 0x40;
    bal_drop(core, w, BAL_DROP_TOO_BIG);
    if (whole && !(w->p->data[0] & 1) && refuse_is_host(core, w) && is_due_for(core, w))
        refuse_tell(core, w, BAL_TOO_BIG, mtu);
}
