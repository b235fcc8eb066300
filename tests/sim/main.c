/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sim: the software NIC's engine under simulation. sim --seed N [-v] runs one seed, sim --seeds A..B a range.
 * A seed that fails prints what went wrong first, and how to see it again.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/sim/sim.h"

static struct sim sim; /* large */

enum { MAX_STEPS = 3000000 };
#define DEADLINE UINT64_C(60000000000) /* ns of virtual time, by which every seed must be done */

void sim_say(const struct sim *s, const char *format, ...)
{
    va_list args;

    if (!s->rig.verbose) return;
    fprintf(stderr, "%10" PRIu64 " ", s->rig.now);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
}

static bool all_done(const struct sim *s)
{
    if (!sim_all_posted(s) || !sim_loose_done(s) || !sim_guests_done(s)) return false;
    for (uint32_t i = 0; i < s->ends; i++) {
        const struct end *e = &s->end[i], *peer = &s->end[e->peer];

        if (e->retired < e->posted || peer->recv_done < e->messages) return false;
    }
    return true;
}

/* The node that is due; of several, by chance. Returns false when none is due before `until`. */
static bool one_step(struct sim *s, uint64_t until)
{
    struct {
        uint64_t t;
        uint32_t who;
    } due[NET_NODES + RIG_QPS + RIG_CQS + SIM_LOOSE + 1];
    uint64_t first = UINT64_MAX;
    uint32_t n = 0, ready = 0;

    for (uint32_t i = 0; i < s->rig.nodes; i++, n++)
        due[n].t = rig_node_time(&s->rig.node[i]), due[n].who = i;
    for (uint32_t i = 0; i < s->cqs; i++, n++) due[n].t = s->cq[i].next, due[n].who = 100 + i;
    for (uint32_t i = 0; i < s->ends && !s->draining; i++, n++)
        due[n].t = s->end[i].next, due[n].who = 200 + i;
    for (uint32_t i = 0; i < s->looses; i++, n++) due[n].t = s->loose[i].next, due[n].who = 300 + i;
    if (s->host.guests) due[n].t = s->host.next, due[n++].who = 400;
    for (uint32_t i = 0; i < n; i++)
        if (due[i].t < first) first = due[i].t;
    if (first > until) return false;
    if (first > s->rig.now) s->rig.now = first;
    for (uint32_t i = 0; i < n; i++)
        if (due[i].t <= s->rig.now) due[ready++] = due[i];
    uint32_t who = due[rnd_below(&s->rig.rnd, ready)].who;
    if (who >= 400)
        sim_guests_turn(s);
    else if (who >= 300)
        sim_loose_turn(s, &s->loose[who - 300]);
    else if (who >= 200)
        sim_app(s, &s->end[who - 200]);
    else if (who >= 100)
        sim_poll(s, &s->cq[who - 100]);
    else {
        rig_progress(&s->rig.node[who]);
        /* No host runs a NIC at exactly the time it asked for. */
        if (s->rig.node[who].next != SN_NEVER) s->rig.node[who].next += rnd_below(&s->rig.rnd, 2000);
    }
    s->rig.now += rnd_below(&s->rig.rnd, 300);
    s->step++;
    return true;
}

static void stuck(struct sim *s)
{
    uint32_t i = 0;

    while (i < s->ends && s->end[i].retired == s->end[i].goal &&
           sim_peer(s, &s->end[i])->recv_done == s->end[i].messages)
        i++;
    if (i == s->ends) i = 0;
    const struct end *e = &s->end[i], *p = sim_peer(s, e);
    const struct op *op = &e->ops[e->retired];
    for (uint32_t n = 0; n < s->rig.nodes; n++) {
        struct sn_counters c;

        sn_nic_counters(s->rig.node[n].nic, &c);
        sim_say(s,
                "node %u: next %" PRIu64 "; %" PRIu64 " frames out, %" PRIu64 " in, %" PRIu64
                " again, %" PRIu64 " timeouts, %" PRIu64 " RNR out, %" PRIu64 " in, %" PRIu64
                " NAKs in, %" PRIu64 " duplicates, %" PRIu64 " stale, %" PRIu64 " out of order",
                n, s->rig.node[n].next, c.tx_packets, c.rx_packets, c.retransmits, c.timeouts, c.rnr_sent,
                c.rnr_received, c.naks_received, c.duplicates, c.drop_stale, c.drop_psn);
    }
    rig_fail(&s->rig,
             "stuck: end %u (node %u, to end %u of node %u): %u of %u posted, %u rung, %u complete (next: "
             "opcode %02x, %u bytes); "
             "%u messages sent, %u received, %u receives posted",
             e->index, e->q.node->index, p->index, p->q.node->index, e->posted, e->goal, e->rung, e->retired,
             op->opcode, op->len, e->messages, p->recv_done, p->recv_posted);
}

/* Reports are for programs and peers that do wrong; here only unrung doorbells are. */
static void check_reports(struct sim *s)
{
    for (uint32_t n = 0; n < s->rig.nodes; n++) {
        const struct rig_node *node = &s->rig.node[n];

        if (node->reports && !s->holds) rig_fail(&s->rig, "node %u reports: %s", n, node->report);
        if (node->async) rig_fail(&s->rig, "node %u: asynchronous event %d", n, (int)node->last_async);
    }
}

static void run_seed(struct sim *s, uint64_t seed)
{
    uint64_t end;

    if (!sim_build(s, seed)) return;
    sim_say(s, "%u queue pairs, %u completion queues; loss %u dup %u reorder %u corrupt %u of 10000", s->ends,
            s->cqs, s->rig.net.params.loss, s->rig.net.params.dup, s->rig.net.params.reorder,
            s->rig.net.params.corrupt);
    while (!s->rig.failed && !all_done(s)) {
        if (s->rig.now > DEADLINE || s->step > MAX_STEPS) {
            stuck(s);
            break;
        }
        one_step(s, UINT64_MAX);
    }
    /* What is still under way arrives, and must do nothing any more. */
    s->draining = true;
    end = s->rig.now + 20000000;
    for (uint32_t i = 0; i < s->rig.nodes; i++) rig_kick(&s->rig.node[i], 20000);
    for (uint32_t i = 0; i < s->cqs; i++) s->cq[i].next = end - 1000000;
    while (!s->rig.failed && one_step(s, end) && s->step <= 2 * MAX_STEPS) {
    }
    if (!s->rig.failed) sim_check_end(s);
    if (!s->rig.failed) check_reports(s);
    sim_tear_down(s);
    rig_note(&s->rig, s->rig.net.sent, s->step);
}

struct totals {
    uint64_t seeds, failed, ops, messages, atomics, events, holds, breaks, flushed, frames, lost, corrupted,
        forged, direct, loose, loose_lost, guests, windows, limits;
    double virtual_s;
};

static void add(struct totals *t, const struct sim *s)
{
    t->seeds++;
    t->failed += s->rig.failed;
    t->ops += s->ops_done;
    t->messages += s->messages_done;
    t->atomics += s->atomics_done;
    t->events += s->events_seen;
    t->holds += s->holds;
    t->breaks += s->breaks;
    t->flushed += s->flushed;
    t->frames += s->rig.net.sent;
    t->lost += s->rig.net.lost;
    t->corrupted += s->rig.net.corrupted;
    t->forged += s->rig.net.forged;
    t->direct += s->rig.one_host ? s->rig.peers.copies : 0;
    t->loose += s->loose_done;
    t->loose_lost += s->loose_lost;
    t->guests += s->guests_done;
    t->windows += s->windows_done;
    t->limits += s->limits_seen;
    t->virtual_s += (double)s->rig.now * 1e-9;
}

static void print_failure(const struct sim *s, const char *program)
{
    printf("seed %" PRIu64 " FAILED %s\n  again: %s --seed %" PRIu64 " -v\n", s->seed, s->rig.why, program,
           s->seed);
    fflush(stdout);
}

static int run_range(uint64_t from, uint64_t to, uint64_t max_failures, const char *program)
{
    struct totals t = {0};
    struct timespec a, b;

    clock_gettime(CLOCK_MONOTONIC, &a);
    for (uint64_t seed = from; seed <= to && t.failed < max_failures; seed++) {
        run_seed(&sim, seed);
        if (sim.rig.failed) {
            add(&t, &sim);
            print_failure(&sim, program);
            continue;
        }
        add(&t, &sim);
        /* A seed that does not replay is worth nothing: now and then one is run twice. */
        if (seed % 500 == 1) {
            uint64_t trace = sim.rig.trace;

            run_seed(&sim, seed);
            if (sim.rig.trace != trace) {
                printf("seed %" PRIu64 " FAILED: it did not do the same when it was run again\n", seed);
                t.failed++;
            }
        }
        if (seed % 1000 == 0) {
            printf("... %" PRIu64 "\n", seed);
            fflush(stdout);
        }
    }
    clock_gettime(CLOCK_MONOTONIC, &b);
    printf("%" PRIu64 " seeds, %" PRIu64 " failed; %" PRIu64 " work requests, %" PRIu64 " messages, %" PRIu64
           " atomics, %" PRIu64 " events, %" PRIu64 " doorbells held back, %" PRIu64
           " connections broken (%" PRIu64 " flushed); %" PRIu64 " frames (%" PRIu64 " lost, %" PRIu64
           " damaged, %" PRIu64 " forged), %" PRIu64 " copies between nodes; %" PRIu64
           " messages of UC and UD (%" PRIu64 " lost); %" PRIu64 " messages to shared queues (%" PRIu64
           " limit events), %" PRIu64 " uses of windows; %.1f s of virtual time in %.1f s\n",
           t.seeds, t.failed, t.ops, t.messages, t.atomics, t.events, t.holds, t.breaks, t.flushed, t.frames,
           t.lost, t.corrupted, t.forged, t.direct, t.loose, t.loose_lost, t.guests, t.limits, t.windows,
           t.virtual_s, (double)(b.tv_sec - a.tv_sec) + 1e-9 * (double)(b.tv_nsec - a.tv_nsec));
    return t.failed ? 1 : 0;
}

int main(int argc, char **argv)
{
    uint64_t from = 1, to = 200, most = 10;
    bool usage = false;

    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--seed") && i + 1 < argc)
            usage |= sscanf(argv[++i], "%" SCNu64, &from) != 1, to = from;
        else if (!strcmp(argv[i], "--seeds") && i + 1 < argc)
            usage |= sscanf(argv[++i], "%" SCNu64 "..%" SCNu64, &from, &to) != 2;
        else if (!strcmp(argv[i], "--failures") && i + 1 < argc)
            usage |= sscanf(argv[++i], "%" SCNu64, &most) != 1;
        else if (!strcmp(argv[i], "-v"))
            sim.rig.verbose = true;
        else
            usage = true;
    }
    if (usage) {
        fprintf(stderr, "usage: sim [--seed N | --seeds A..B] [--failures MOST] [-v]\n");
        return 2;
    }
    return run_range(from, to, most, argv[0]);
}
