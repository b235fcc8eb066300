/* SPDX-License-Identifier: Apache-2.0 */
/* Notes of a flow's sequence numbers, and what a segment's own numbers say beside them. */
#include "src/balance/sequence.h"

#include <string.h>

#include "src/balance/checksum.h"
#include "src/balance/choose.h"

/* Farther from a FIN than this no segment of its connection lies: windows are some MiB. */
#define REACH (1 << 25)
/* The balancer sends one question in that time, and no more: 100,000 a second. */
#define PROBE_NS 10000u

struct segment {
    uint32_t seq, ack, end; /* end: what follows it */
};

static struct segment sequence_segment(const struct bal_work *w)
{
    const uint8_t *tcp = w->p->data + w->m.l4;
    uint32_t header = (uint32_t)(tcp[12] >> 4) * 4, length = (uint32_t)(w->m.l3 + w->m.ip_len - w->m.l4);
    struct segment s = {bal_get32(tcp + 4), bal_get32(tcp + 8), 0};
    s.end =
        s.seq + (length > header ? length - header : 0) + !!(w->m.flags & BAL_SYN) + !!(w->m.flags & BAL_FIN);
    return s;
}

enum what { WORKER_SYN, CLIENT_SYN, WORKER_FIN, CLIENT_FIN };

static enum what fin_of(bool worker)
{
    return worker ? WORKER_FIN : CLIENT_FIN;
}

/* The place of a flow's note. */
static uint32_t sequence_place(const struct bal_core *core, const struct bal_work *w, enum what what,
                               uint32_t *tag)
{
    uint64_t word[5] = {w->narrow}, h = core->bal->seed[0] + what;
    if (w->where == BAL_WIDE) memcpy(word, &w->wide, sizeof(word));
    for (int i = 0; i < (w->where == BAL_WIDE ? 5 : 1); i++) h = bal_mix(h ^ word[i], core->bal->seed[1] | 1);
    *tag = (uint32_t)h | 1;
    return (uint32_t)(h >> 32) % BAL_SEQS;
}

static bool sequence_noted(const struct bal_core *core, const struct bal_work *w, enum what what,
                           uint32_t *seq)
{
    uint32_t tag, i = sequence_place(core, w, what, &tag);
    *seq = core->seq_of[i].seq;
    return core->seq_of[i].tag == tag;
}

static void sequence_note(struct bal_core *core, const struct bal_work *w, enum what what, uint32_t seq)
{
    uint32_t tag, i = sequence_place(core, w, what, &tag);
    core->seq_of[i].tag = tag;
    core->seq_of[i].seq = seq;
}

static void sequence_forget(struct bal_core *core, const struct bal_work *w, enum what what)
{
    uint32_t tag, i = sequence_place(core, w, what, &tag);
    if (core->seq_of[i].tag == tag) core->seq_of[i].tag = 0;
}

static bool is_far(uint32_t a, uint32_t b)
{
    return a - b + REACH > 2 * REACH;
}

static unsigned lot(struct bal_core *core)
{
    return bal_random_below(&core->choice, BAL_LOT) ? 0 : BAL_LUCKY;
}

static bool is_closing(uint8_t state)
{
    return state >= BAL_FIN_WAIT && state <= BAL_LAST_ACK;
}

unsigned bal_seq_evidence(struct bal_core *core, const struct bal_work *w)
{
    const bool worker = w->side == BAL_FROM_WORKER, closing = is_closing(w->found.state);
    const struct segment s = sequence_segment(w);
    const bool acks = w->m.flags & BAL_ACK;
    unsigned e = 0;
    uint32_t seq;
    if (w->side == BAL_CLIENT_ONLY && !closing) return lot(core);
    if (w->side != BAL_CLIENT_ONLY && sequence_noted(core, w, closing ? fin_of(!worker) : WORKER_SYN, &seq)) {
        e |= BAL_NOTED;
        if (acks && s.ack == seq) e |= BAL_ACKS;
        if (acks && closing && is_far(s.ack, seq)) e |= BAL_FAR;
    }
    if (closing && sequence_noted(core, w, fin_of(worker), &seq)) {
        if (s.seq == seq) e |= BAL_AFTER;
        if (is_far(s.seq, seq)) e |= BAL_FAR;
    }
    return e;
}

void bal_seq_note(struct bal_core *core, const struct bal_work *w)
{
    const bool worker = w->side == BAL_FROM_WORKER;
    if (w->m.flags & BAL_RST) return;
    if (w->m.flags & BAL_FIN) {
        if (!is_closing(w->found.state))
            sequence_forget(core, w, fin_of(!worker)); /* of an earlier connection */
        sequence_note(core, w, fin_of(worker), sequence_segment(w).end);
    } else if (w->m.flags & BAL_SYN) {
        sequence_note(core, w, worker ? WORKER_SYN : CLIENT_SYN, sequence_segment(w).end);
    }
}

bool bal_seq_follows_syn(const struct bal_core *core, const struct bal_work *w)
{
    uint32_t seq;
    return sequence_noted(core, w, CLIENT_SYN, &seq) && sequence_segment(w).seq == seq;
}

/* ---- asking the worker ---- */

/* A segment without data that carries the RST's numbers: its receiver answers it in any state. */
static void probe_frame(struct bal_frame *f, const struct bal_packet *p, const struct bal_meta *m,
                        uint32_t l3)
{
    enum { TCP = 20 };
    const uint32_t l4 = l3 + (m->ipv6 ? 40 : 20);
    const uint8_t *from = p->data + l3 + (m->l4 - m->l3);
    uint8_t *ip = f->data + l3, *tcp = f->data + l4;
    memcpy(f->data, p->data, l4);
    memcpy(tcp, from, TCP);
    tcp[12] = TCP / 4 << 4;
    tcp[13] = BAL_ACK;
    memset(tcp + 16, 0, 4); /* its checksum, and the urgent pointer */
    uint64_t sum = BAL_IP_TCP + TCP + bal_sum(ip + (m->ipv6 ? 8 : 12), m->ipv6 ? 32 : 8);
    if (m->ipv6) {
        bal_put16(ip + 4, TCP);
        ip[6] = BAL_IP_TCP;
    } else {
        ip[0] = 0x45;
        bal_put16(ip + 2, 20 + TCP);
        bal_put16(ip + 10, 0);
        bal_checksum_write(ip + 10, bal_sum(ip, 20));
    }
    bal_checksum_write(tcp + 16, sum + bal_sum(tcp, TCP));
    f->len = (uint8_t)(l4 + TCP);
}

void bal_seq_probe(struct bal_core *core, const struct bal_work *w)
{
    if (core->now_ns - core->probed_ns < PROBE_NS) return;
    struct bal_frame *f = bal_new_frame(core, w->p->port);
    if (!f) return;
    core->probed_ns = core->now_ns;
    probe_frame(f, w->p, &w->m,
                core->snap->config.port[w->p->port].vlan ? BAL_ETH_LEN + BAL_VLAN_LEN : BAL_ETH_LEN);
}
