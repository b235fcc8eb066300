/* SPDX-License-Identifier: Apache-2.0 */
/* The nodes of a rig: made, run one after the other on virtual time, ended. */
#include "tests/sim/rig.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static uint8_t arenas[NET_NODES][RIG_ARENA] __attribute__((aligned(4096)));

void rig_fail(struct rig *rig, const char *format, ...)
{
    va_list args;
    int n;

    if (rig->failed) return;
    rig->failed = true;
    n = snprintf(rig->why, sizeof(rig->why), "at %llu ns: ", (unsigned long long)rig->now);
    va_start(args, format);
    vsnprintf(rig->why + n, sizeof(rig->why) - (size_t)n, format, args);
    va_end(args);
}

void rig_note(struct rig *rig, uint64_t a, uint64_t b)
{
    rig->trace = (rig->trace ^ rig->now ^ a << 40 ^ b) * UINT64_C(0x9e3779b97f4a7c15);
    rig->trace ^= rig->trace >> 32;
}

/* ---- callbacks ----------------------------------------------------------------------------------------- */

static void on_async(void *user, enum ibv_event_type type, void *object)
{
    struct rig_node *node = user;

    if (type == IBV_EVENT_COMM_EST) return;
    if (type == IBV_EVENT_SRQ_LIMIT_REACHED && node->rig->on_srq_limit) {
        node->rig->on_srq_limit(node->rig->user, object);
        return;
    }
    node->async++;
    node->last_async = type;
}

static void on_report(void *user, const char *line)
{
    struct rig_node *node = user;

    node->reports++;
    snprintf(node->report, sizeof(node->report), "%s", line);
    if (node->rig->verbose)
        fprintf(stderr, "%10llu node %u reports: %s\n", (unsigned long long)node->rig->now, node->index,
                line);
}

/* ---- nodes --------------------------------------------------------------------------------------------- */

static bool region(struct rig_node *n, struct sn_mr **mr, uint64_t iova, bool local_only, bool lazy)
{
    struct sn_mr_init init = {
        .addr = (uintptr_t)n->mem, .length = RIG_ARENA, .iova = iova, .access = IBV_ACCESS_LOCAL_WRITE};

    if (!local_only)
        init.access |= IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
    if (lazy) {
        init.dma = &rig_lazy_dma;
        init.dma_ctx = &n->lazy;
    }
    return !sn_mr_create(n->pd, &init, mr);
}

static bool node_start(struct rig *rig, struct rig_node *n, const struct rig_params *p, uint64_t seed)
{
    bool hostile = p->mixed ? rnd_below(&rig->rnd, rig->one_host ? 2 : 4) != 0 : p->hostile;
    bool lazy = p->mixed ? rnd_below(&rig->rnd, 4) == 0 : p->lazy;
    struct sn_nic_config config = {.slot = (uint8_t)(n->index * 85),
                                   .sport = (uint16_t)(0xc000 + n->index),
                                   .seed = seed ^ n->index << 20,
                                   .hostile = hostile,
                                   .ecn = true,
                                   .loop_on_wire = p->mixed ? rnd_below(&rig->rnd, 2) : true,
                                   .window_packets = p->window_packets,
                                   .window_bytes = p->window_bytes,
                                   .budget = p->budget,
                                   .rndv_min = UINT32_C(1) << (seed + n->index) % 15,
                                   .wire = &net_wire_ops,
                                   .wire_ctx = &rig->net.port[n->index],
                                   .user = n,
                                   .cq_event = rig_on_cq_event,
                                   .async_event = on_async,
                                   .report = on_report};

    if (rig->one_host) {
        config.peers = &fake_peer_ops;
        config.peers_ctx = fake_peers_node(&rig->peers, n->index);
    }
    memcpy(config.gid, rig->net.gid[n->index], 16);
    n->next = 0;
    n->reports = n->async = 0;
    n->report[0] = 0;
    n->lazy.rig = rig;
    n->lazy.writes = 0;
    n->lazy.ahead_request = 0;
    n->lazy.low = (uintptr_t)n->mem;
    n->lazy.high = n->lazy.low + RIG_ARENA;
    n->iova =
        rnd64(&rig->rnd) >> 16 << 6; /* aligned, so that addresses of atomics are when their offsets are */
    n->local_iova = rnd_below(&rig->rnd, 2) ? (uintptr_t)n->mem : rnd64(&rig->rnd) >> 20;
    if (sn_nic_create(&config, &n->nic)) return false;
    if (sn_pd_create(n->nic, &n->pd)) return false;
    for (uint32_t i = 0; i < RIG_UARS; i++)
        if (sn_uar_create(n->nic, &n->uar[i])) return false;
    return region(n, &n->mr, n->iova, false, lazy) && region(n, &n->local, n->local_iova, true, lazy);
}

/* Half of the seeds: NICs reach each other's memory, save when by chance that does not work. */
static void one_host(struct rig *rig)
{
    static const uint32_t trouble[4] = {0, 0, 300, 3000};

    fake_peers_up(&rig->peers, rnd64(&rig->rnd) | 1);
    rig->peers.absent = trouble[rnd_below(&rig->rnd, 4)];
    rig->peers.stops = trouble[rnd_below(&rig->rnd, 4)];
    rig->peers.refused = trouble[rnd_below(&rig->rnd, 4)];
}

bool rig_start(struct rig *rig, const struct rig_params *params, uint64_t seed)
{
    bool verbose = rig->verbose;

    rig->now = 1;
    rig->rnd.state = (seed * UINT64_C(0x9e3779b97f4a7c15)) ^ UINT64_C(0xd1b54a32d192ed03);
    if (!rig->rnd.state) rig->rnd.state = 1;
    rig->failed = false;
    rig->trace = 0;
    rig->verbose = verbose;
    rig->nodes = params->nodes;
    rig->one_host = params->mixed && rnd_below(&rig->rnd, 2);
    if (rig->one_host) one_host(rig);
    rig->peers.no_offers = seed / 8 % 2;             /* then long WRITEs with immediate data are placed */
    rig->peers.lags = seed / 32 % 4 == 3 ? 5000 : 0; /* now some are placed, now others offered */
    rig->peers.full = seed / 128 % 4 == 1 ? 5000 : 0;
    net_reset(&rig->net, &params->net, rnd64(&rig->rnd), &rig->now);
    for (uint32_t i = 0; i < rig->nodes; i++) {
        struct rig_node *n = &rig->node[i];

        n->rig = rig;
        n->index = i;
        n->mem = arenas[i];
        if (!node_start(rig, n, params, seed)) {
            rig_fail(rig, "node %u could not be made", i);
            return false;
        }
    }
    return true;
}

void rig_stop(struct rig *rig)
{
    for (uint32_t i = 0; i < rig->nodes; i++) {
        struct rig_node *n = &rig->node[i];
        int error = sn_mr_destroy(n->mr) | sn_mr_destroy(n->local) | sn_pd_destroy(n->pd);

        for (uint32_t k = 0; k < RIG_UARS; k++) error |= sn_uar_destroy(n->uar[k]);
        error |= sn_nic_destroy(n->nic);
        if (error) rig_fail(rig, "node %u: its objects could not be destroyed", i);
        rig_lazy_dma.flush(&n->lazy);
    }
}

uint64_t rig_node_time(const struct rig_node *node)
{
    uint64_t frame = net_next(&node->rig->net, node->index);

    return frame < node->next ? frame : node->next;
}

#define NAP_NS 20000u

/* One time in four as a thread does that has just posted; then another thread looks soon, as gw-nic would. */
static uint64_t look(struct rig_node *node)
{
    uint64_t now = node->rig->now, next;

    if (rnd_below(&node->rig->rnd, 4)) return sn_nic_progress(node->nic, now);
    next = sn_nic_posted(node->nic, now);
    return next < now + NAP_NS ? next : now + NAP_NS;
}

void rig_progress(struct rig_node *node)
{
    uint64_t next = look(node);

    if (next == SN_CONTENDED || next < node->rig->now)
        rig_fail(node->rig, "node %u: sn_nic_progress returns %llu, which has passed", node->index,
                 (unsigned long long)next);
    node->next = next;
}

void rig_run(struct rig *rig, uint64_t until)
{
    while (!rig->failed) {
        struct rig_node *soonest = &rig->node[0];

        for (uint32_t i = 1; i < rig->nodes; i++)
            if (rig_node_time(&rig->node[i]) < rig_node_time(soonest)) soonest = &rig->node[i];
        uint64_t t = rig_node_time(soonest);
        if (t > until) break;
        if (t > rig->now) rig->now = t;
        rig_progress(soonest);
        rig->now += 100; /* so that one that always has work left cannot stop the clock */
        if (rig->now > until) break;
    }
    if (rig->now < until) rig->now = until;
}

void rig_kick(struct rig_node *node, uint64_t within)
{
    uint64_t at = node->rig->now + (within ? rnd64(&node->rig->rnd) % within : 0);

    if (at < node->next) node->next = at;
}
