/* SPDX-License-Identifier: Apache-2.0 */
/* A burst's way through a core: parse, look up all at once, then each packet's flow. */
#include <errno.h>
#include <string.h>

#include "src/balance/forward.h"
#include "src/balance/persist.h"
#include "src/balance/refuse.h"
#include "src/balance/sequence.h"
#include "src/balance/step.h"

enum { HEADERS_AHEAD = 24 /* packets whose headers are on their way */ };

void bal_drop(struct bal_core *core, struct bal_work *w, enum bal_drop why)
{
    w->p->verdict = BAL_DISCARD;
    w->where = BAL_NOWHERE;
    bal_count(&core->counters->drop[why], 1);
}

static void pass(struct bal_work *w, uint32_t core)
{
    w->p->verdict = BAL_PASS;
    w->p->core = (uint8_t)core;
    w->p->hops++;
    w->where = BAL_NOWHERE;
}

uint32_t bal_owner(const struct bal_core *core, const uint8_t *client, bool ipv6, uint16_t port)
{
    const uint64_t *seed = core->bal->seed;
    uint64_t a[2] = {0}, h;
    memcpy(a, client, ipv6 ? 16 : 4);
    h = bal_mix(a[0] ^ seed[0], seed[1] | 1);
    h = bal_mix(h ^ a[1] ^ (uint64_t)port << 48, seed[0] | 1);
    return (uint32_t)((h >> 32) * core->bal->attr.cores >> 32);
}

/* ---- whose packet it is ---- */

static void set_key(struct bal_core *core, struct bal_work *w, uint16_t vip_port)
{
    const struct bal_service *s = &core->snap->config.service[w->service];
    if (!w->m.ipv6 && s->port) {
        w->where = BAL_NARROW;
        w->narrow = bal_narrow_key(w->client, w->client_port, w->service);
        return;
    }
    w->where = BAL_WIDE;
    w->wide = bal_wide_key(BAL_W_FLOW, w->client, w->m.ipv6, w->service,
                           (uint32_t)w->client_port << 16 | (s->port ? 0 : vip_port));
}

/* Is one core responsible for each of the service's clients? */
static bool is_owned(const struct bal_core *core, uint32_t service)
{
    return core->snap->config.service[service].forward == BAL_NAT || bal_persists(core, service);
}

/* The packet belongs to a flow of this client. With NAT both directions must come to one core. */
static void of_flow(struct bal_core *core, struct bal_work *w, uint16_t vip_port)
{
    if (is_owned(core, w->service) && core->bal->attr.cores > 1) {
        uint32_t owner = bal_persists(core, w->service)
                             ? bal_client_core(core, w->service, w->client, w->m.ipv6)
                             : bal_owner(core, w->client, w->m.ipv6, w->client_port);
        if (owner != core->index) {
            pass(w, owner);
            return;
        }
    }
    set_key(core, w, vip_port);
}

static bool from_client(struct bal_core *core, struct bal_work *w)
{
    const uint8_t *frame = w->p->data;
    const struct bal_meta *m = &w->m;
    const uint8_t *vip = bal_dst(frame, m);
    bool error = m->kind == BAL_K_ERROR;
    uint8_t proto = error ? m->in_proto : m->proto;
    uint16_t port = error ? m->in_sport : m->dport;
    int service = m->ipv6 ? -1 : bal_find_direct(core->snap, bal_direct_key(proto, vip, port));
    if (service < 0) service = bal_find_vip(core->snap, proto, vip, m->ipv6, port);
    if (service < 0) return false;
    if (error && memcmp(frame + m->in_l3 + (m->ipv6 ? 8 : 12), vip, m->ipv6 ? 16 : 4)) return false;
    w->service = (uint16_t)service;
    w->side = core->snap->config.service[service].forward == BAL_NAT ? BAL_FROM_CLIENT : BAL_CLIENT_ONLY;
    w->client = error ? frame + m->in_l3 + (m->ipv6 ? 24 : 16) : bal_src(frame, m);
    w->client_port = error ? m->in_dport : m->sport;
    of_flow(core, w, port);
    return true;
}

static bool from_worker(struct bal_core *core, struct bal_work *w)
{
    const uint8_t *frame = w->p->data;
    const struct bal_meta *m = &w->m;
    if (!core->snap->has_nat) return false;
    bool error = m->kind == BAL_K_ERROR;
    /* Inside an error stands what the client sent: from it, to the worker. */
    const uint8_t *worker = error ? frame + m->in_l3 + (m->ipv6 ? 24 : 16) : bal_src(frame, m);
    uint16_t port = error ? m->in_dport : m->sport;
    w->back = bal_find_back(core->snap, error ? m->in_proto : m->proto, worker, m->ipv6, port);
    if (w->back == BAL_NO_WORKER) return false;
    w->service = core->snap->config.worker[w->back].service;
    w->side = BAL_FROM_WORKER;
    w->client = error ? frame + m->in_l3 + (m->ipv6 ? 8 : 12) : bal_dst(frame, m);
    w->client_port = error ? m->in_sport : m->dport;
    of_flow(core, w, port);
    return true;
}

/* Is it this balancer's own, on the port that the packet came by? A worker answers a health check there. */
static bool is_own(const struct bal_core *core, const struct bal_work *w, const uint8_t *addr)
{
    const struct bal_addr *own = &core->snap->config.port[w->p->port].addr[w->m.ipv6];
    return own->family && !memcmp(own->byte, addr, w->m.ipv6 ? 16 : 4);
}

static bool of_roce(struct bal_core *core, struct bal_work *w)
{
    const uint8_t *frame = w->p->data;
    const struct bal_meta *m = &w->m;
    const struct bal_snapshot *s = core->snap;
    int service = s->has_roce ? bal_find_vip(s, BAL_ROCE, bal_dst(frame, m), m->ipv6, 0) : -1;
    bool answer = s->has_nat && service < 0;
    w->back = answer ? bal_find_back(s, BAL_ROCE, bal_src(frame, m), m->ipv6, 0) : BAL_NO_WORKER;
    if (service < 0 && (w->back == BAL_NO_WORKER || is_own(core, w, bal_dst(frame, m)))) return false;
    w->roce = true;
    w->client = service >= 0 ? bal_src(frame, m) : bal_dst(frame, m);
    w->service = service >= 0 ? (uint16_t)service : core->snap->config.worker[w->back].service;
    w->side = service < 0                                                 ? BAL_FROM_WORKER
              : core->snap->config.service[w->service].forward == BAL_NAT ? BAL_FROM_CLIENT
                                                                          : BAL_CLIENT_ONLY;
    /* CM's packets and the queue pair's have different UDP ports, so that NICs spread them over the cores. */
    uint32_t owner = bal_owner(core, w->client, m->ipv6, 0);
    if (owner != core->index)
        pass(w, owner);
    else
        bal_roce_key(core, w);
    return true;
}

static struct bal_wide fragment_key(const struct bal_work *w)
{
    const uint8_t *frame = w->p->data;
    struct bal_wide k = bal_wide_key(BAL_W_FRAGMENT, bal_src(frame, &w->m), w->m.ipv6, w->m.ipv6, w->m.id);
    memcpy(k.y, bal_dst(frame, &w->m), w->m.ipv6 ? 16 : 4);
    k.more = w->m.proto;
    return k;
}

/* Frames to other hosts come where a switch does not know yet where they are. */
static bool is_for_us(const struct bal_core *core, const struct bal_work *w)
{
    const struct bal *bal = core->bal;
    static const uint8_t six[8] = {255, 255, 255, 255, 255, 255};
    uint64_t own = atomic_load_explicit(&bal->port_mac[w->p->port], memory_order_relaxed), to, mask;
    memcpy(&to, w->p->data, 8); /* one load: a frame has more bytes than that */
    memcpy(&mask, six, 8);
    if ((to & mask) == own || atomic_load_explicit(&bal->any_mac[w->p->port], memory_order_relaxed))
        return true;
    bool asks = w->m.kind == BAL_K_ARP || w->m.kind == BAL_K_SOLICIT || w->m.kind == BAL_K_ADVERTISE;
    return asks && w->p->data[0] & 1; /* who has an address is asked of all */
}

/* For no service, though the address may be one's. */
static void of_nobody(struct bal_core *core, struct bal_work *w)
{
    struct bal_addr dst = bal_addr_of(bal_dst(w->p->data, &w->m), w->m.ipv6);
    if (core->snap->config.reject && w->m.kind != BAL_K_ERROR && bal_is_vip(core->snap, &dst)) {
        w->side = BAL_CLIENT_ONLY;
        bal_refuse(core, w, BAL_DROP_NOT_OURS);
    } else {
        bal_drop(core, w, BAL_DROP_NOT_OURS);
    }
}

static void classify(struct bal_core *core, struct bal_work *w)
{
    struct bal_packet *p = w->p;
    w->roce = false;
    w->where = BAL_NOWHERE;
    if (bal_parse(p->data, p->len, &w->m) || p->port >= BAL_PORTS) {
        bal_drop(core, w, BAL_DROP_BAD);
        return;
    }
    bool here = is_for_us(core, w);
    if (!here || w->m.vlan != core->snap->config.port[p->port].vlan) {
        bal_drop(core, w, here ? BAL_DROP_NOT_OURS : BAL_DROP_OTHER_HOST);
        return;
    }
    switch (w->m.kind) {
    case BAL_K_ROCE:
        if (of_roce(core, w)) return;
        w->m.kind = BAL_K_UDP;
        __attribute__((fallthrough));
    case BAL_K_TCP:
    case BAL_K_UDP:
    case BAL_K_ERROR:
        if (!from_client(core, w) && !from_worker(core, w)) of_nobody(core, w);
        return;
    case BAL_K_LATER:
        w->where = BAL_WIDE;
        w->wide = fragment_key(w);
        return;
    default: bal_for_us(core, w); return;
    }
}

/* ---- flows ---- */

static uint32_t class_of(const struct bal_work *w)
{
    uint64_t h = w->where == BAL_NARROW ? w->narrow : w->wide.x + ((uint64_t)w->wide.service << 32);
    return (uint32_t)((h ^ h >> 32) * 0x9e3779b97f4a7c15u >> 32) % BAL_CLASSES;
}

static void mark_changed(struct bal_core *core, const struct bal_work *w)
{
    uint32_t c = class_of(w);
    core->burst.any_changed = true;
    core->burst.changed[c / 64] |= UINT64_C(1) << c % 64;
}

/* Looks again where an earlier packet of the burst may have changed this one's flow. */
static void refresh(struct bal_core *core, struct bal_work *w, bool slot)
{
    uint32_t c = core->burst.any_changed ? class_of(w) : 0;
    bool changed = core->burst.changed[c / 64] >> c % 64 & 1;
    if (!changed && !(slot && core->burst.inserted)) return;
    gw_flow_lookup_bulk(bal_table_of(core, w), bal_key_of(w), 1, &w->found);
}

static void set_state(struct bal_core *core, struct bal_work *w, int state)
{
    if (state == w->found.state) return;
    refresh(core, w, true);
    if (w->found.slot == GW_FLOW_NONE) return;
    gw_flow_set_state(bal_table_of(core, w), w->found.slot, (uint32_t)state);
    bool proven = state == BAL_ESTABLISHED && w->found.state == BAL_UNPROVEN; /* told already */
    bool told = (state == BAL_ESTABLISHED && !proven) || state == BAL_UNPROVEN || state == BAL_UDP_STREAM ||
                state == BAL_CLOSE;
    if (told) bal_tell(core, w->where, bal_key_of(w), w->found.worker, (uint8_t)state);
    w->found.state = (uint8_t)state;
    mark_changed(core, w);
}

bool bal_is_crowded(const struct bal_core *core, const struct bal_work *w)
{
    const struct bal_attr *a = &core->bal->attr;
    uint64_t room = w->where == BAL_NARROW ? a->flows : a->wide_flows;
    return gw_flow_count(bal_table_of(core, w)) > room - room / 8;
}

/* The worker of a packet that has no flow, and whether the flow is to be remembered. */
static uint16_t worker_of_new(struct bal_core *core, struct bal_work *w, bool begins, bool *track)
{
    const struct bal_snapshot *s = core->snap;
    uint32_t row = bal_row(s, w->service, w->client, w->m.ipv6, w->client_port);
    const uint16_t *now =
        bal_table_at(s->table[w->service], row); /* read where it is needed: it is far away */
    *track = true;
    uint16_t stuck = bal_persists(core, w->service) ? bal_client_worker(core, w) : BAL_NO_WORKER;
    if (stuck != BAL_NO_WORKER) return stuck;
    if (s->stable[w->service]) {
        /* The row's worker if all were up. A flow that is there needs no memory: no change moves it, as long
         * as that worker is there itself. */
        uint16_t always = *bal_table_at(s->stable[w->service], row);
        uint16_t choice = !begins && bal_keeps(s, always, w->service) ? always : *now;
        *track = choice != always;
        return choice;
    }
    /* In the middle of a connection all balancers agree on Maglev's choice. So do they when the table is
     * nearly full: a flow that has to make room then goes on to the same worker. */
    return begins && !bal_is_crowded(core, w) ? bal_choose(core, w->service, row) : *now;
}

void bal_opened(struct bal_core *core, uint16_t worker)
{
    bal_count(&core->counters->opened, 1);
    bal_count(&core->counters->worker[worker].opened, 1);
    bal_chosen(core, worker);
}

static void open_flow(struct bal_core *core, struct bal_work *w, int state)
{
    bool track, begins = state == BAL_SYN_SENT || state == BAL_UDP_NEW;
    uint16_t worker = worker_of_new(core, w, begins, &track);
    if (worker == BAL_NO_WORKER) {
        bal_refuse(core, w, BAL_DROP_NO_WORKER);
        return;
    }
    if (track) {
        int rc = gw_flow_insert(bal_table_of(core, w), bal_key_of(w), worker, (uint32_t)state, &w->found);
        core->burst.inserted = true;
        mark_changed(core, w);
        if (rc == 1) bal_count(&core->counters->evicted, 1);
        if (rc < 0) {
            /* No room: without memory, Maglev's choice is the one that all packets of the flow will get. */
            uint32_t row = bal_row(core->snap, w->service, w->client, w->m.ipv6, w->client_port);
            worker = *bal_table_at(core->snap->table[w->service], row);
            track = false;
        }
    }
    if (begins) bal_opened(core, worker);
    if (track && bal_persists(core, w->service)) bal_client_opened(core, w, worker, begins);
    if (!track) bal_count(&core->counters->stateless, 1);
    if (w->m.first) bal_note_fragment(core, w, worker);
    bal_to_worker(core, w, worker);
}

/* The flow's worker is gone. TCP's next segment makes another worker reset the connection, so that the client
 * knows. */
static uint16_t move(struct bal_core *core, struct bal_work *w)
{
    uint32_t row = bal_row(core->snap, w->service, w->client, w->m.ipv6, w->client_port);
    bool sticks = bal_persists(core, w->service);
    uint16_t worker = sticks ? bal_client_worker(core, w) : BAL_NO_WORKER;
    if (worker == BAL_NO_WORKER) worker = bal_choose(core, w->service, row);
    if (worker == BAL_NO_WORKER) return worker;
    if (sticks) bal_client_chose(core, w->service, w->client, w->m.ipv6, worker);
    refresh(core, w, true);
    if (w->found.slot == GW_FLOW_NONE) return worker;
    gw_flow_set_worker(bal_table_of(core, w), w->found.slot, worker);
    w->found.worker = worker;
    mark_changed(core, w);
    bal_count(&core->counters->moved, 1);
    bal_chosen(core, worker);
    return worker;
}

/* The lot has fallen on an unproven flow. Other packets of the burst need not know: none looks again. Where
 * an insertion may have moved the flow, its next lot will do: a second look would cost more than all this. */
static void prove(struct bal_core *core, struct bal_work *w)
{
    if (core->burst.inserted) return;
    gw_flow_set_state(bal_table_of(core, w), w->found.slot, BAL_ESTABLISHED);
    w->found.state = BAL_ESTABLISHED;
}

/* States in which a plain segment's numbers tell something. */
#define NUMBERS_TELL                                                                                         \
    (1u << BAL_SYN_RECV | 1u << BAL_LOOSE | 1u << BAL_FIN_WAIT | 1u << BAL_CLOSE_WAIT | 1u << BAL_LAST_ACK)

static int next_state(struct bal_core *core, struct bal_work *w)
{
    if (w->m.kind == BAL_K_ERROR) return w->found.state;
    if (w->m.proto != BAL_IP_TCP) return bal_udp_next(w->found.state, (enum bal_side)w->side);
    /* what nearly all segments do: nothing */
    if (w->found.state == BAL_ESTABLISHED && !(w->m.flags & (BAL_FIN | BAL_SYN | BAL_RST)))
        return BAL_ESTABLISHED;
    /* Other plain segments: their numbers tell something only while a connection opens or closes. */
    if (!(w->m.flags & (BAL_FIN | BAL_SYN | BAL_RST)) && !(NUMBERS_TELL >> w->found.state & 1)) {
        if (w->found.state == BAL_UNPROVEN && w->side == BAL_CLIENT_ONLY) {
            if (w->m.flags & BAL_ACK && !bal_random_below(&core->choice, BAL_LOT)) prove(core, w);
            return w->found.state;
        }
        return bal_tcp_next(w->found.state, w->m.flags, (enum bal_side)w->side, 0);
    }
    unsigned evidence = bal_seq_evidence(core, w);
    bal_seq_note(core, w);
    return bal_tcp_next(w->found.state, w->m.flags, (enum bal_side)w->side, evidence);
}

/* It opens nothing, and goes where a flow that was forgotten would have gone. */
static void pass_on(struct bal_core *core, struct bal_work *w)
{
    bool track;
    uint16_t worker = worker_of_new(core, w, false, &track);
    if (worker == BAL_NO_WORKER) {
        bal_refuse(core, w, BAL_DROP_NO_WORKER);
        return;
    }
    if (w->side == BAL_FROM_CLIENT) {
        bal_drop(core, w, BAL_DROP_INVALID);
        return;
    }
    bal_count(&core->counters->stateless, 1);
    bal_to_worker(core, w, worker);
}

static void of_stranger(struct bal_core *core, struct bal_work *w)
{
    int first = w->m.proto == BAL_IP_TCP ? bal_tcp_first(w->m.flags) : BAL_UDP_NEW;
    if (w->m.kind == BAL_K_TCP) {
        if (first == BAL_LOOSE && w->side == BAL_CLIENT_ONLY && bal_seq_follows_syn(core, w))
            first = BAL_UNPROVEN;
        /* A SYN's number is needed where its flow may find no room, or lose it. */
        if (w->m.flags & BAL_FIN || bal_is_crowded(core, w)) bal_seq_note(core, w);
    }
    if (first >= 0 && w->m.kind != BAL_K_ERROR)
        open_flow(core, w, first);
    else
        pass_on(core, w);
}

/* A SYN has come for a flow that may still live. The new connection stays at the flow's worker. It goes to
 * another one if that worker takes nothing new and the client has closed its side. */
static int renew(struct bal_core *core, const struct bal_work *w)
{
    uint16_t worker = w->found.worker;
    bool up = bal_is_up(core->snap, worker);
    if (!bal_keeps(core->snap, worker, w->service) || (!up && w->found.state == BAL_FIN_WAIT))
        return BAL_REOPEN;
    bal_opened(core, worker);
    return w->side == BAL_CLIENT_ONLY ? BAL_UNPROVEN : BAL_SYN_SENT;
}

/* With NAT the worker itself says whether a RST was right. */
static bool is_to_be_probed(const struct bal_work *w)
{
    return w->side == BAL_FROM_CLIENT && w->m.proto == BAL_IP_TCP && w->m.flags & BAL_RST && !w->m.first &&
           w->m.kind != BAL_K_ERROR && w->found.state != BAL_SYN_SENT && w->found.state != BAL_CLOSE;
}

static void of_client(struct bal_core *core, struct bal_work *w)
{
    bool there = w->found.slot != GW_FLOW_NONE;
    int state = there ? next_state(core, w) : 0;
    if (there && state != w->found.state) { /* a flow that has ended may have made room in this burst */
        refresh(core, w, true);
        there = w->found.slot != GW_FLOW_NONE;
    }
    if (there && state == BAL_RENEW) state = renew(core, w);
    if (there && state == BAL_REOPEN) {
        gw_flow_delete(bal_table_of(core, w), bal_key_of(w));
        core->burst.inserted = true; /* no slot found earlier is certain any more */
        there = false;
    }
    if (!there) {
        of_stranger(core, w);
        return;
    }
    uint16_t worker = w->found.worker;
    if (!bal_keeps(core->snap, worker, w->service)) worker = move(core, w);
    if (worker == BAL_NO_WORKER) {
        bal_refuse(core, w, BAL_DROP_NO_WORKER);
        return;
    }
    bool probe = is_to_be_probed(w);
    if (bal_persists(core, w->service))
        bal_client_seen(core, w, worker, state == BAL_ESTABLISHED || state == BAL_UDP_STREAM);
    set_state(core, w, state);
    if (w->m.first) bal_note_fragment(core, w, worker);
    bal_to_worker(core, w, worker);
    if (probe && w->p->verdict == BAL_SEND) bal_seq_probe(core, w);
}

/* An answer's flow is one of a service that this address works for; seldom there are several. */
static bool find_answered(struct bal_core *core, struct bal_work *w)
{
    for (uint16_t b = w->back; b != BAL_NO_WORKER; b = core->snap->next_back[b]) {
        uint16_t service = core->snap->config.worker[b].service;
        if (b != w->back) {
            w->service = service;
            set_key(core, w, w->m.kind == BAL_K_ERROR ? w->m.in_dport : w->m.sport);
            gw_flow_lookup_bulk(bal_table_of(core, w), bal_key_of(w), 1, &w->found);
        }
        if (w->found.slot != GW_FLOW_NONE && w->found.worker == b) return true;
    }
    return false;
}

static void of_worker(struct bal_core *core, struct bal_work *w)
{
    if (!find_answered(core, w)) {
        bal_drop(core, w, BAL_DROP_INVALID);
        return;
    }
    uint16_t worker = w->found.worker;
    set_state(core, w, next_state(core, w));
    if (w->m.first) bal_note_fragment(core, w, worker);
    bal_to_client(core, w, worker);
}

/* ---- fragments ---- */

void bal_note_fragment(struct bal_core *core, struct bal_work *w, uint16_t worker)
{
    struct bal_wide key = fragment_key(w);
    struct gw_flow at;
    core->burst.inserted = true;
    if (gw_flow_insert(core->wide, &key, bal_beside(worker), BAL_FRAGMENT, &at) == -EEXIST)
        gw_flow_set_worker(core->wide, at.slot, bal_beside(worker));
}

static void of_fragment(struct bal_core *core, struct bal_work *w)
{
    /* The first one may be in this burst. */
    if (w->found.slot == GW_FLOW_NONE) gw_flow_lookup_bulk(core->wide, &w->wide, 1, &w->found);
    uint16_t worker = bal_worker_of(w->found.worker);
    if (w->found.slot == GW_FLOW_NONE || !core->snap->config.worker[worker].used) {
        if (w->p->hops + 1u < core->bal->attr.cores)
            pass(w, (core->index + 1) % core->bal->attr.cores);
        else
            bal_drop(core, w, BAL_DROP_FRAGMENT);
        return;
    }
    const struct bal_worker *to = &core->snap->config.worker[worker];
    struct bal_addr src = bal_addr_of(bal_src(w->p->data, &w->m), w->m.ipv6);
    w->service = to->service;
    w->client_port = (uint16_t)w->m.id;
    w->client = bal_src(w->p->data, &w->m);
    bool back = core->snap->config.service[to->service].forward == BAL_NAT && bal_same_addr(&src, &to->addr);
    w->side = back ? BAL_FROM_WORKER : BAL_FROM_CLIENT;
    if (back)
        bal_to_client(core, w, worker);
    else
        bal_to_worker(core, w, worker);
}

/* ---- the burst ---- */

/* An ICMP error, and the first of several fragments, reach a core by other bytes than their flow did. When
 * this core does not know the flow, the others are asked. */
static bool may_be_elsewhere(const struct bal_core *core, const struct bal_work *w)
{
    return (w->m.kind == BAL_K_ERROR || w->m.first) && w->p->hops + 1u < core->bal->attr.cores;
}

static void act(struct bal_core *core, struct bal_work *w)
{
    if (w->m.kind == BAL_K_LATER) {
        of_fragment(core, w);
        return;
    }
    refresh(core, w, false);
    if (w->roce)
        bal_roce(core, w);
    else if (w->found.slot == GW_FLOW_NONE && may_be_elsewhere(core, w) && !is_owned(core, w->service))
        pass(w, (core->index + 1) % core->bal->attr.cores);
    else if (w->side == BAL_FROM_WORKER)
        of_worker(core, w);
    else
        of_client(core, w);
}

static void look_up(struct bal_core *core, struct bal_work *work, size_t n)
{
    uint64_t narrow[BAL_BURST];
    struct bal_wide wide[BAL_BURST];
    struct gw_flow found[BAL_BURST];
    size_t narrows = 0, wides = 0;
    for (size_t i = 0; i < n; i++) {
        if (work[i].where == BAL_NARROW) narrow[narrows++] = work[i].narrow;
        if (work[i].where == BAL_WIDE) wide[wides++] = work[i].wide;
    }
    if (narrows) gw_flow_lookup_bulk(core->narrow, narrow, narrows, found);
    for (size_t i = 0, k = 0; i < n && narrows; i++)
        if (work[i].where == BAL_NARROW) work[i].found = found[k++];
    if (wides) gw_flow_lookup_bulk(core->wide, wide, wides, found);
    for (size_t i = 0, k = 0; i < n && wides; i++)
        if (work[i].where == BAL_WIDE) work[i].found = found[k++];
}

static void count_burst(struct bal_core *core, const struct bal_packet *packets, size_t n)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < n; i++) bytes += packets[i].len;
    bal_count(&core->counters->received, n);
    bal_count(&core->counters->received_bytes, bytes);
    core->burst = (struct bal_burst){0};
}

static void step(struct bal_core *core, struct bal_packet *packets, size_t n)
{
    struct bal_work work[BAL_BURST];
    count_burst(core, packets, n);
    for (size_t i = 0; i < n && i < HEADERS_AHEAD; i++) __builtin_prefetch(packets[i].data, 1);
    for (size_t i = 0; i < n; i++) {
        if (i + HEADERS_AHEAD < n) __builtin_prefetch(packets[i + HEADERS_AHEAD].data, 1);
        work[i].p = &packets[i];
        packets[i].verdict = BAL_DISCARD;
        classify(core, &work[i]);
        if (work[i].where != BAL_NOWHERE)
            gw_flow_prefetch(bal_table_of(core, &work[i]), bal_key_of(&work[i]));
    }
    look_up(core, work, n);
    for (size_t i = 0; i < n; i++)
        if (work[i].where != BAL_NOWHERE) act(core, &work[i]);
    bal_count(&core->counters->packets, core->burst.packets);
    bal_count(&core->counters->bytes, core->burst.bytes);
}

void gw_balance_burst(struct bal_core *core, struct bal_packet *packets, size_t n, uint64_t now_ns)
{
    bal_core_look(core, now_ns);
    for (size_t done = 0; done < n; done += BAL_BURST)
        step(core, packets + done, n - done < BAL_BURST ? n - done : BAL_BURST);
}
