/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/sim/net.h"

#include <string.h>

#include "src/roce/hdr.h"
#include "src/roce/icrc.h"

static bool chance(struct net *net, uint32_t per_10000)
{
    return per_10000 && rnd_below(&net->rnd, 10000) < per_10000;
}

void net_reset(struct net *net, const struct net_params *params, uint64_t seed, const uint64_t *now)
{
    net->params = *params;
    net->rnd.state = seed | 1;
    net->now = now;
    net->seq = 0;
    net->inject_offers = false;
    net->unused_count = NET_POOL;
    for (uint32_t i = 0; i < NET_POOL; i++) net->unused[i] = (uint16_t)(NET_POOL - 1 - i);
    memset(net->harm, 0, sizeof(net->harm));
    net->rows = 0;
    memset(net->gid, 0, sizeof(net->gid));
    for (uint32_t i = 0; i < NET_NODES; i++) {
        struct net_port *p = &net->port[i];

        p->net = net;
        p->node = i;
        p->dead = false;
        p->count = p->held_count = 0;
        memset(p->last_due, 0, sizeof(p->last_due));
        if (params->ipv6) {
            net->gid[i][0] = 0xfd;
        } else {
            net->gid[i][10] = net->gid[i][11] = 0xff;
            net->gid[i][12] = 10;
        }
        net->gid[i][15] = (uint8_t)(i + 1);
    }
    net->sent = net->lost = net->doubled = net->reordered = net->corrupted = net->forged = 0;
}

/* ---- frames under way: a heap for each destination ----------------------------------------------------- */

static bool before(const struct net_due *a, const struct net_due *b)
{
    return a->due != b->due ? a->due < b->due : a->seq < b->seq;
}

static void heap_push(struct net_port *p, struct net_due d)
{
    uint32_t i = p->count++;

    while (i && before(&d, &p->heap[(i - 1) / 2])) {
        p->heap[i] = p->heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    p->heap[i] = d;
}

static struct net_frame *heap_pop(struct net_port *p)
{
    struct net_frame *frame = p->heap[0].frame;
    struct net_due d = p->heap[--p->count];
    uint32_t i = 0;

    for (uint32_t child; (child = 2 * i + 1) < p->count; i = child) {
        if (child + 1 < p->count && before(&p->heap[child + 1], &p->heap[child])) child++;
        if (!before(&p->heap[child], &d)) break;
        p->heap[i] = p->heap[child];
    }
    p->heap[i] = d;
    return frame;
}

static struct net_frame *frame_new(struct net *net)
{
    return net->unused_count ? &net->pool[net->unused[--net->unused_count]] : NULL;
}

static void frame_free(struct net *net, struct net_frame *f)
{
    net->unused[net->unused_count++] = (uint16_t)(f - net->pool);
}

uint64_t net_next(const struct net *net, uint32_t node)
{
    return net->port[node].count ? net->port[node].heap[0].due : UINT64_MAX;
}

/* ---- sending ------------------------------------------------------------------------------------------- */

static void fix_icrc(struct sn_frame *f)
{
    static const uint8_t v4[12] = {[10] = 0xff, [11] = 0xff};
    struct roce_path path = {.sport = f->sport, .dport = ROCE_UDP_PORT, .frag_off = ROCE_IP_DF};

    path.ipv6 = memcmp(f->dst_gid, v4, 12) != 0;
    memcpy(path.src, path.ipv6 ? f->src_gid : f->src_gid + 12, path.ipv6 ? 16 : 4);
    memcpy(path.dst, path.ipv6 ? f->dst_gid : f->dst_gid + 12, path.ipv6 ? 16 : 4);
    path.ip_id = f->ip_id;
    roce_icrc_end(roce_icrc(&path, f->data, f->len), f->data + f->len - ROCE_ICRC_LEN);
}

static bool is_answer(const struct sn_frame *f)
{
    return roce_flags(f->data[0]) & ROCE_F_RESPONSE;
}

/* Of the queue pair that an answer goes to. NULL: no room for another. */
static struct net_row *row_of(struct net *net, uint32_t to, const struct sn_frame *f)
{
    uint32_t qpn = (uint32_t)f->data[5] << 16 | (uint32_t)f->data[6] << 8 | f->data[7], i = 0;

    while (i < net->rows && (net->row[i].to != to || net->row[i].qpn != qpn)) i++;
    if (i == NET_ROWS) return NULL;
    if (i == net->rows) net->row[net->rows++] = (struct net_row){to, qpn, 0};
    return &net->row[i];
}

/* May this frame be harmed once more? A repeated request may have another form (an offer, then packets), but
 * the same queue pair and number; so may an answer. */
static bool may_harm(struct net *net, uint32_t to, const struct sn_frame *f)
{
    struct net_row *row = is_answer(f) ? row_of(net, to, f) : NULL;
    uint64_t key = to << 1 | is_answer(f);

    for (uint32_t i = 5; i < 12; i++)
        if (i != 8) key = key * 1099511628211u + f->data[i]; /* 8: whether an ACK is asked for */
    uint8_t *harm = &net->harm[(key ^ key >> 29) % NET_HARM_KEYS];
    if (*harm >= NET_HARM || (is_answer(f) && (!row || row->harmed >= NET_HARM))) return false;
    (*harm)++;
    if (row) row->harmed++;
    return true;
}

static void unharmed(struct net *net, uint32_t to, const struct sn_frame *f)
{
    struct net_row *row = is_answer(f) ? row_of(net, to, f) : NULL;

    if (row) row->harmed = 0;
}

static void put(struct net *net, uint32_t to, const struct sn_frame *f, uint32_t from, bool overtaken,
                bool damaged)
{
    struct net_port *p = &net->port[to];
    struct net_frame *n = frame_new(net);
    uint64_t due =
        *net->now + net->params.latency + (net->params.jitter ? rnd64(&net->rnd) % net->params.jitter : 0);

    if (!n) {
        net->lost++;
        return;
    }
    if (overtaken) {
        due += net->params.behind ? rnd64(&net->rnd) % net->params.behind : 0;
    } else {
        if (due < p->last_due[from]) due = p->last_due[from];
        p->last_due[from] = due;
    }
    n->f = *f;
    n->f.data = n->data;
    memcpy(n->data, f->data, f->len);
    n->f.has_ip_id = net->params.has_ip_id;
    n->f.ip_id = 0;
    if (net->params.odd_ip_id && !damaged) {
        n->f.ip_id = (uint16_t)rnd64(&net->rnd);
        fix_icrc(&n->f);
    }
    if (chance(net, net->params.ecn)) n->f.ecn = 3;
    heap_push(p, (struct net_due){due, net->seq++, n});
}

/* A few flipped bits, or a cut: what an ICRC finds. */
static void damage(struct net *net, uint8_t *data, uint32_t *len)
{
    if (*len > 20 && !rnd_below(&net->rnd, 4)) {
        *len = 4 * rnd_below(&net->rnd, *len / 4);
        return;
    }
    for (uint32_t n = 1 + rnd_below(&net->rnd, 3); n; n--) {
        uint32_t bit = rnd_below(&net->rnd, *len * 8);

        data[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
}

/* A stranger's version of this packet: other payload, right ICRC, but not from the connected peer. */
static void forge(struct net *net, uint32_t to, const struct sn_frame *f, uint32_t from)
{
    uint8_t copy[SN_FRAME_MAX];
    struct sn_frame g = *f;

    memcpy(copy, f->data, f->len);
    g.data = copy;
    if (f->len > 40) copy[f->len - 8] ^= 0x55;
    if (rnd_below(&net->rnd, 2)) {
        g.src_gid[15] = NET_FORGED;
    } else { /* a queue pair that does not exist: numbers below 16 are never given */
        copy[6] = 0;
        copy[7] = (uint8_t)rnd_below(&net->rnd, 2);
    }
    fix_icrc(&g);
    put(net, to, &g, from, true, false);
    net->forged++;
}

static void send_one(struct net *net, uint32_t from, const struct sn_frame *f)
{
    uint32_t to = (uint32_t)f->dst_gid[15] - 1;
    uint8_t copy[SN_FRAME_MAX];
    struct sn_frame g = *f;

    net->sent++;
    if (to >= NET_NODES || net->port[to].dead || net->port[from].dead) return;
    if (chance(net, net->params.forge)) forge(net, to, f, from);
    if (chance(net, net->params.loss) && may_harm(net, to, f)) {
        net->lost++;
        return;
    }
    if (chance(net, net->params.dup)) {
        put(net, to, f, from, true, false);
        net->doubled++;
    }
    if (chance(net, net->params.corrupt) && may_harm(net, to, f)) {
        memcpy(copy, f->data, f->len);
        g.data = copy;
        damage(net, copy, &g.len);
        net->corrupted++;
        put(net, to, &g, from, false, true);
        return;
    }
    bool overtaken = chance(net, net->params.reorder) && may_harm(net, to, f);
    net->reordered += overtaken;
    if (!overtaken) unharmed(net, to, f);
    put(net, to, f, from, overtaken, false);
}

static int wire_send(void *ctx, const struct sn_frame *frames, int n)
{
    struct net_port *p = ctx;
    int i;

    for (i = 0; i < n; i++) {
        if (chance(p->net, p->net->params.refuse)) break;
        send_one(p->net, p->node, &frames[i]);
    }
    return i;
}

static int wire_recv(void *ctx, struct sn_frame *frames, int max, bool *more)
{
    struct net_port *p = ctx;
    int n = 0;

    while (p->held_count) frame_free(p->net, p->held[--p->held_count]);
    if (max > NET_HELD) max = NET_HELD;
    while (n < max && p->count && p->heap[0].due <= *p->net->now) {
        struct net_frame *f = heap_pop(p);

        p->held[p->held_count++] = f;
        frames[n++] = f->f;
    }
    *more = p->count && p->heap[0].due <= *p->net->now;
    return n;
}

void net_inject(struct net *net, uint32_t to, const uint8_t src_gid[16], const void *data, uint32_t len,
                bool fix)
{
    struct net_frame *n = frame_new(net);

    if (!n) return;
    memset(&n->f, 0, sizeof(n->f));
    memcpy(n->data, data, len);
    n->f.data = n->data;
    n->f.len = len;
    memcpy(n->f.src_gid, src_gid, 16);
    memcpy(n->f.dst_gid, net->gid[to], 16);
    n->f.sport = 0xc001;
    n->f.has_ip_id = true;
    n->f.rndv = net->inject_offers;
    if (fix) fix_icrc(&n->f);
    heap_push(&net->port[to], (struct net_due){*net->now, net->seq++, n});
}

const struct sn_wire_ops net_wire_ops = {.send = wire_send, .recv = wire_recv};
