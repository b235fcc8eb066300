/* SPDX-License-Identifier: Apache-2.0 */
/* TCP and UDP: what a packet makes of its flow, and which worker gets a new one, or one whose own is gone. */
#include "src/balance/flows.h"

#include <errno.h>

#include <gpuwire/detail/assert.h>

#include "src/balance/choose.h"
#include "src/balance/classify.h"
#include "src/balance/feed.h"
#include "src/balance/forward.h"
#include "src/balance/fragment.h"
#include "src/balance/persist.h"
#include "src/balance/refuse.h"
#include "src/balance/sequence.h"
#include "src/trace/trace.h"

static void flow_set_state(struct bal_core *core, struct bal_work *w, int state)
{
    GW_ASSERT(state >= 0 && (uint32_t)state < GW_FLOW_STATES); /* not BAL_REOPEN or BAL_RENEW any more */
    if (state == w->found.state) return;
    bal_refresh(core, w, true);
    if (w->found.slot == GW_FLOW_NONE) return;
    gw_flow_set_state(bal_table_of(core, w), w->found.slot, (uint32_t)state);
    GW_TRACE(balance, state, w->client, w->m.ipv6, w->client_port, w->found.worker, w->found.state, state);
    bool proven = state == BAL_ESTABLISHED && w->found.state == BAL_UNPROVEN; /* told already */
    bool told = (state == BAL_ESTABLISHED && !proven) || state == BAL_UNPROVEN || state == BAL_UDP_STREAM ||
                state == BAL_CLOSE;
    if (told) bal_tell(core, w->where, bal_key_of(w), w->found.worker, (uint8_t)state);
    w->found.state = (uint8_t)state;
    bal_mark_changed(core, w);
}

/* The worker of a packet that has no flow, and whether the flow is to be remembered. */
static uint16_t flow_choose(struct bal_core *core, struct bal_work *w, bool begins, bool *track)
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

static void flow_open(struct bal_core *core, struct bal_work *w, int state)
{
    bool track, begins = state == BAL_SYN_SENT || state == BAL_UDP_NEW;
    uint16_t worker = flow_choose(core, w, begins, &track);
    if (worker == BAL_NO_WORKER) {
        bal_refuse(core, w, BAL_DROP_NO_WORKER);
        return;
    }
    if (track) {
        int evicted =
            gw_flow_insert(bal_table_of(core, w), bal_key_of(w), worker, (uint32_t)state, &w->found);
        core->burst.inserted = true;
        bal_mark_changed(core, w);
        if (evicted == 1) bal_count(&core->counters->evicted, 1);
        if (evicted < 0) {
            /* No room: without memory, Maglev's choice is the one that all packets of the flow will get. */
            uint32_t row = bal_row(core->snap, w->service, w->client, w->m.ipv6, w->client_port);
            worker = *bal_table_at(core->snap->table[w->service], row);
            track = false;
        }
    }
    GW_TRACE(balance, opened, w->client, w->m.ipv6, w->client_port, w->service, worker, state);
    if (begins) bal_opened(core, worker);
    if (track && bal_persists(core, w->service)) bal_client_opened(core, w, worker, begins);
    if (!track) bal_count(&core->counters->stateless, 1);
    if (w->m.first) bal_fragment_note(core, w, worker);
    bal_to_worker(core, w, worker);
}

/* The flow's worker is gone. TCP's next segment makes another worker reset the connection, so that the client
 * knows. */
static uint16_t flow_move(struct bal_core *core, struct bal_work *w)
{
    uint32_t row = bal_row(core->snap, w->service, w->client, w->m.ipv6, w->client_port);
    bool sticks = bal_persists(core, w->service);
    uint16_t worker = sticks ? bal_client_worker(core, w) : BAL_NO_WORKER;
    if (worker == BAL_NO_WORKER) worker = bal_choose(core, w->service, row);
    if (worker == BAL_NO_WORKER) return worker;
    if (sticks) bal_client_chose(core, w->service, w->client, w->m.ipv6, worker);
    bal_refresh(core, w, true);
    if (w->found.slot == GW_FLOW_NONE) return worker;
    gw_flow_set_worker(bal_table_of(core, w), w->found.slot, worker);
    GW_TRACE(balance, moved, w->client, w->m.ipv6, w->client_port, w->service, w->found.worker, worker);
    w->found.worker = worker;
    bal_mark_changed(core, w);
    bal_count(&core->counters->moved, 1);
    bal_chosen(core, worker);
    return worker;
}

/* The lot has fallen on an unproven flow. Other packets of the burst need not know: none looks again. Where
 * an insertion may have moved the flow, its next lot will do: a second look would cost more than all this. */
static void flow_prove(struct bal_core *core, struct bal_work *w)
{
    if (core->burst.inserted) return;
    gw_flow_set_state(bal_table_of(core, w), w->found.slot, BAL_ESTABLISHED);
    w->found.state = BAL_ESTABLISHED;
}

/* States in which a plain segment's numbers tell something. */
#define NUMBERS_TELL                                                                                         \
    (1u << BAL_SYN_RECV | 1u << BAL_LOOSE | 1u << BAL_FIN_WAIT | 1u << BAL_CLOSE_WAIT | 1u << BAL_LAST_ACK)

static int flow_next_state(struct bal_core *core, struct bal_work *w)
{
    if (w->m.kind == BAL_K_ERROR) return w->found.state;
    if (w->m.proto != BAL_IP_TCP) return bal_udp_next(w->found.state, (enum bal_side)w->side);
    /* what nearly all segments do: nothing */
    if (w->found.state == BAL_ESTABLISHED && !(w->m.flags & (BAL_FIN | BAL_SYN | BAL_RST)))
        return BAL_ESTABLISHED;
    /* Other plain segments: their numbers tell something only while a connection opens or closes. */
    if (!(w->m.flags & (BAL_FIN | BAL_SYN | BAL_RST)) && !(NUMBERS_TELL >> w->found.state & 1)) {
        if (w->found.state == BAL_UNPROVEN && w->side == BAL_CLIENT_ONLY) {
            if (w->m.flags & BAL_ACK && !bal_random_below(&core->choice, BAL_LOT)) flow_prove(core, w);
            return w->found.state;
        }
        return bal_tcp_next(w->found.state, w->m.flags, (enum bal_side)w->side, 0);
    }
    unsigned evidence = bal_seq_evidence(core, w);
    bal_seq_note(core, w);
    return bal_tcp_next(w->found.state, w->m.flags, (enum bal_side)w->side, evidence);
}

/* It opens nothing, and goes where a flow that was forgotten would have gone. */
static void flow_pass_on(struct bal_core *core, struct bal_work *w)
{
    bool track;
    uint16_t worker = flow_choose(core, w, false, &track);
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

/* A packet that has no flow. */
static void flow_begin(struct bal_core *core, struct bal_work *w)
{
    int first = w->m.proto == BAL_IP_TCP ? bal_tcp_first(w->m.flags) : BAL_UDP_NEW;
    if (w->m.kind == BAL_K_TCP) {
        if (first == BAL_LOOSE && w->side == BAL_CLIENT_ONLY && bal_seq_follows_syn(core, w))
            first = BAL_UNPROVEN;
        /* A SYN's number is needed where its flow may find no room, or lose it. */
        if (w->m.flags & BAL_FIN || bal_is_crowded(core, w)) bal_seq_note(core, w);
    }
    if (first >= 0 && w->m.kind != BAL_K_ERROR)
        flow_open(core, w, first);
    else
        flow_pass_on(core, w);
}

/* A SYN has come for a flow that may still live. The new connection stays at the flow's worker. It goes to
 * another one if that worker takes nothing new and the client has closed its side. */
static int flow_renew(struct bal_core *core, const struct bal_work *w)
{
    uint16_t worker = w->found.worker;
    bool up = bal_is_up(core->snap, worker);
    if (!bal_keeps(core->snap, worker, w->service) || (!up && w->found.state == BAL_FIN_WAIT))
        return BAL_REOPEN;
    bal_opened(core, worker);
    return w->side == BAL_CLIENT_ONLY ? BAL_UNPROVEN : BAL_SYN_SENT;
}

/* With NAT the worker itself says whether a RST was right. */
static bool flow_is_to_be_probed(const struct bal_work *w)
{
    return w->side == BAL_FROM_CLIENT && w->m.proto == BAL_IP_TCP && w->m.flags & BAL_RST && !w->m.first &&
           w->m.kind != BAL_K_ERROR && w->found.state != BAL_SYN_SENT && w->found.state != BAL_CLOSE;
}

void bal_flow_of_client(struct bal_core *core, struct bal_work *w)
{
    bool there = w->found.slot != GW_FLOW_NONE;
    int state = there ? flow_next_state(core, w) : 0;
    if (there && state != w->found.state) { /* a flow that has ended may have made room in this burst */
        bal_refresh(core, w, true);
        there = w->found.slot != GW_FLOW_NONE;
    }
    if (there && state == BAL_RENEW) state = flow_renew(core, w);
    if (there && state == BAL_REOPEN) {
        gw_flow_delete(bal_table_of(core, w), bal_key_of(w));
        core->burst.inserted = true; /* no slot found earlier is certain any more */
        there = false;
    }
    if (!there) {
        flow_begin(core, w);
        return;
    }
    uint16_t worker = w->found.worker;
    if (!bal_keeps(core->snap, worker, w->service)) worker = flow_move(core, w);
    if (worker == BAL_NO_WORKER) {
        bal_refuse(core, w, BAL_DROP_NO_WORKER);
        return;
    }
    bool probe = flow_is_to_be_probed(w);
    if (bal_persists(core, w->service))
        bal_client_seen(core, w, worker, state == BAL_ESTABLISHED || state == BAL_UDP_STREAM);
    flow_set_state(core, w, state);
    if (w->m.first) bal_fragment_note(core, w, worker);
    bal_to_worker(core, w, worker);
    if (probe && w->p->verdict == BAL_SEND) bal_seq_probe(core, w);
}

/* An answer's flow is one of a service that this address works for; seldom there are several. */
static bool flow_find_answered(struct bal_core *core, struct bal_work *w)
{
    for (uint16_t b = w->back; b != BAL_NO_WORKER; b = core->snap->next_back[b]) {
        uint16_t service = core->snap->config.worker[b].service;
        if (b != w->back) {
            w->service = service;
            bal_flow_key(core, w, w->m.kind == BAL_K_ERROR ? w->m.in_dport : w->m.sport);
            gw_flow_lookup_bulk(bal_table_of(core, w), bal_key_of(w), 1, &w->found);
        }
        if (w->found.slot != GW_FLOW_NONE && w->found.worker == b) return true;
    }
    return false;
}

void bal_flow_of_worker(struct bal_core *core, struct bal_work *w)
{
    if (!flow_find_answered(core, w)) {
        bal_drop(core, w, BAL_DROP_INVALID);
        return;
    }
    uint16_t worker = w->found.worker;
    flow_set_state(core, w, flow_next_state(core, w));
    if (w->m.first) bal_fragment_note(core, w, worker);
    bal_to_client(core, w, worker);
}
