/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sim: four NICs, random connections between them and random work on these, over a wire that does what wires
 * do.
 *
 *     sim --seeds A..B     runs them all; stops at the first that fails
 *     sim --seed N [-v]    runs one, the same way every time
 */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "src/roce/hdr.h"
#include "src/roce/icrc.h"
#include "tests/softnic/saboteur.h"
#include "tests/softnic/workload.h"

enum { STEPS = 2000000, NONE = -1 };

struct sim {
    struct world w;
    struct sn_pd *pd[WORLD_NICS];
    struct sn_uar *uar[WORLD_NICS];
    struct side sides[SIDES];
    unsigned count;
    bool garbage, sabotage;
    struct saboteur saboteur;
    char why[160];
    int failed; /* side, or NONE */
};

/* ---- setting up ---------------------------------------------------------------------------------------- */

static void choose_faults(struct world *w)
{
    struct world_faults *f = &w->faults;

    f->delay_ns = 100 + world_below(w, 8000);
    f->reorder_ns = f->delay_ns * (1 + world_below(w, 4));
    if (world_below(w, 2)) f->jitter_ns = world_below(w, 4000);
    if (world_below(w, 4) == 0) return; /* a wire without faults */
    if (world_below(w, 2)) f->loss = world_below(w, 600);
    if (world_below(w, 2)) f->dup = world_below(w, 800);
    if (world_below(w, 2)) f->reorder = world_below(w, 1500);
    if (world_below(w, 3) == 0) f->corrupt = world_below(w, 300);
    if (world_below(w, 3) == 0) f->refuse = world_below(w, 5000);
}

static void world_of_seed(struct sim *s, const struct plan *plan)
{
    struct world_options o = {.seed = plan->seed};
    struct rnd r = {plan->seed * UINT64_C(0x2545f4914f6cdd1d) + 99};

    o.hostile = rnd_below(&r, 4) != 0;
    o.same_address = rnd_below(&r, 3) == 0;
    o.loop_on_wire = rnd_below(&r, 2);
    if (rnd_below(&r, 2)) o.window_packets = 4 + rnd_below(&r, 30);
    if (rnd_below(&r, 3) == 0) o.window_bytes = 1024 + rnd_below(&r, 16000);
    if (rnd_below(&r, 3) == 0) o.budget = 1 + rnd_below(&r, 20);
    if (rnd_below(&r, 2)) o.probe_ns = 1000 + rnd_below(&r, 100000);
    world_up(&s->w, &o);
    s->w.verbose = plan->verbose;
    choose_faults(&s->w);
    s->garbage = world_below(&s->w, 3) == 0;
    for (unsigned i = 0; i < WORLD_NICS; i++) {
        if (sn_pd_create(s->w.nics[i].nic, &s->pd[i]) || sn_uar_create(s->w.nics[i].nic, &s->uar[i])) abort();
    }
}

static void side_up(struct sim *sim, unsigned index, unsigned nic)
{
    struct side *s = &sim->sides[index];
    struct world *w = &sim->w;
    uint32_t cqe = world_below(w, 2) ? 128 : 64;
    struct app_qp_options o = {.uidx = 100 + index, .max_sge = MAX_PIECES, .sq_wqebbs = 32, .rq_wqes = 8};
    struct sn_mr_init mr = {.length = SIDE_MEM};

    s->w = w;
    s->n = &w->nics[nic];
    s->mem = malloc(SIDE_MEM);
    s->expected = malloc(SIDE_MEM);
    if (!s->mem || !s->expected) abort();
    memset(s->mem, 0xa5, SIDE_MEM);
    memset(s->expected, 0xa5, SIDE_MEM);
    mr.addr = mr.iova = (uintptr_t)s->mem;
    mr.access =
        IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
    if (sn_mr_create(sim->pd[nic], &mr, &s->mr)) abort();
    s->key = sn_mr_key(s->mr);
    s->sig_all = o.sig_all = world_below(w, 3) == 0;
    o.scatter_recv = 32 * world_below(w, 3);
    o.scatter_req = 32 * world_below(w, 3);
    s->by_event = world_below(w, 3) == 0;
    app_cq_up(&s->cq, s->n, sim->uar[nic], 64, cqe);
    app_qp_up(&s->qp, s->n, sim->pd[nic], sim->uar[nic], &s->cq, &s->cq, &o);
}

static void choose_connect(struct world *w, struct app_connect *c)
{
    *c = app_connect_default;
    c->mtu = IBV_MTU_256 + world_below(w, 3);
    c->psn_here = world_below(w, 2) ? 0xffffff - world_below(w, 40) : world_below(w, 1 << 24);
    c->psn_there = world_below(w, 2) ? 0xffffff - world_below(w, 40) : world_below(w, 1 << 24);
    c->timeout = (uint8_t)(5 + world_below(w, 3));
    c->rd_atomic = (uint8_t)(1 + world_below(w, 16));
    c->min_rnr_timer = (uint8_t)(1 + world_below(w, 4));
}

/* One connection between two sides, or of one with itself. */
static void link_up(struct sim *s)
{
    struct world *w = &s->w;
    unsigned a = s->count++, b = a;
    struct app_connect c;
    uint32_t mtu;

    side_up(s, a, world_below(w, WORLD_NICS));
    if (world_below(w, 10) != 0) {
        b = s->count++;
        side_up(s, b, world_below(w, WORLD_NICS));
    }
    s->sides[a].peer = &s->sides[b];
    s->sides[b].peer = &s->sides[a];
    choose_connect(w, &c);
    mtu = 128u << c.mtu;
    make_ops(&s->sides[a], 1 + world_below(w, SIDE_OPS), mtu);
    if (a != b) make_ops(&s->sides[b], world_below(w, SIDE_OPS), mtu);
    app_connect(&s->sides[a].qp, &s->sides[b].qp, &c);
}

/* ---- what programs do ---------------------------------------------------------------------------------- */

static void post_recvs(struct side *s)
{
    uint32_t n = world_below(s->w, 4), k = 0;
    const struct side *from = s->peer;

    for (uint32_t i = 0; i < from->op_count && n; i++) {
        const struct op *o = &from->ops[i];

        if (!o->consumes || k++ < s->recv_posted) continue;
        if (s->recv_posted - s->recv_done == s->qp.rq.wqes) return;
        app_recv(&s->qp, o->recv_sge, o->recv_pieces);
        s->recv_posted++;
        n--;
    }
}

static uint32_t put(struct side *s, struct op *o)
{
    uint32_t index = s->qp.sq_pi;

    if (!o->nop) return app_put(&s->qp, &o->wr);
    gw_mlx5_put_nop(&s->qp.sq, index, 1, o->wr.flags & (GW_MLX5_SIGNALED | GW_MLX5_FENCE));
    s->qp.sq_pi++;
    return index & 0xffff;
}

static void post_sends(struct side *s)
{
    uint32_t n = 1 + world_below(s->w, 4);
    bool any = false;

    for (; n && s->posted < s->op_count; n--) {
        struct op *o = &s->ops[s->posted];

        o->wqebbs = o->nop ? 1 : gw_mlx5_wqebbs((uint32_t)gw_mlx5_wr_units(&o->wr));
        if (s->sq_used + o->wqebbs > s->qp.sq.wqebbs) break;
        o->index = put(s, o);
        s->sq_used += o->wqebbs;
        s->posted++;
        any = true;
    }
    if (!any && !s->unrung) return;
    if (any) app_publish(&s->qp);
    s->unrung = world_below(s->w, 4) == 0; /* the ring comes later, for these and the next together */
    if (!s->unrung) app_ring(&s->qp, (int)world_below(s->w, 2));
}

static void on_cq_event(void *cq_user)
{
    struct app_cq *cq = cq_user;

    cq->events++;
}

/* A program that sleeps until its CQ has an event: one that does not come is found by the sim not ending. */
static bool awake(struct side *s)
{
    if (!s->by_event || !s->asleep) return true;
    if (!s->cq.events) return false;
    s->cq.events--;
    app_event_taken(&s->cq);
    s->asleep = false;
    return true;
}

static void poll_cq(struct sim *sim, struct side *s)
{
    const struct gw_mlx5_cqe *cqe;
    struct gw_mlx5_wc wc;

    if (!awake(s)) return;
    if (s->by_event && world_below(s->w, 4) == 0) { /* with completions that were not polled: fires at once */
        app_arm(&s->cq, false);
        s->asleep = true;
        return;
    }
    for (uint32_t n = 1 + world_below(s->w, 6); n; n--) {
        if (!app_poll(&s->cq, &wc, &cqe)) {
            s->asleep = s->by_event;
            if (s->asleep) app_arm(&s->cq, false); /* what came in between fires at once */
            return;
        }
        if (check_completion(s, &wc, cqe, sim->why)) continue;
        sim->failed = (int)(s - sim->sides);
        return;
    }
}

static bool finished(const struct side *s)
{
    return s->completed == s->op_count && s->recv_done == s->recv_total;
}

/* The PSN that the queue pair expects next, so that only the address tells a stranger's frame from the
 * peer's. */
static void near_psn(struct side *to, uint8_t *frame)
{
    struct ibv_qp_attr a;

    if (sn_qp_query(to->qp.qp, &a)) abort();
    frame[9] = (uint8_t)(a.rq_psn >> 16);
    frame[10] = (uint8_t)(a.rq_psn >> 8);
    frame[11] = (uint8_t)a.rq_psn;
}

/* Frames of strangers, well-formed ones too: right QP number and ICRC, wrong address. */
static void inject_garbage(struct sim *s)
{
    struct world *w = &s->w;
    struct side *to = &s->sides[world_below(w, s->count)];
    uint8_t data[256], gid[16] = {[10] = 0xff, [11] = 0xff, [12] = 192, [13] = 0, [14] = 2, [15] = 7};
    struct roce_path path = {
        .src = {192, 0, 2, 7}, .sport = 0xd000, .dport = ROCE_UDP_PORT, .frag_off = ROCE_IP_DF};
    uint32_t len = 16 + 4 * world_below(w, 50);

    rnd_bytes(&w->rnd, data, len);
    if (world_below(w, 3)) {
        data[0] = (uint8_t)world_below(w, 0x18);
        data[1] &= 0x40;
        data[2] = data[3] = 0xff;
        data[5] = (uint8_t)(to->qp.sq.qpn >> 16);
        data[6] = (uint8_t)(to->qp.sq.qpn >> 8);
        data[7] = (uint8_t)to->qp.sq.qpn;
        if (world_below(w, 2)) near_psn(to, data);
        memcpy(path.dst, to->n->gid + 12, 4);
        roce_icrc_end(roce_icrc(&path, data, len), data + len - 4);
    }
    world_inject(w, to->n->index, gid, 0xd000, data, len);
    to->n->next = w->now;
}

/* ---- running ------------------------------------------------------------------------------------------- */

static bool all_finished(const struct sim *s)
{
    for (unsigned i = 0; i < s->count; i++)
        if (!finished(&s->sides[i])) return false;
    return true;
}

static void someone_programs(struct sim *sim)
{
    struct side *s = &sim->sides[world_below(&sim->w, sim->count)];

    if (sim->garbage && world_below(&sim->w, 20) == 0) inject_garbage(sim);
    if (sim->sabotage && world_below(&sim->w, 10) == 0) {
        const struct side *of = &sim->sides[0];

        saboteur_step(&sim->saboteur, of->key, (uintptr_t)of->mem + world_below(&sim->w, SIDE_MEM / 2));
        world_run(&sim->w, sim->saboteur.end[0].n->index);
    }
    if (world_below(&sim->w, 2)) post_sends(s);
    if (world_below(&sim->w, 3) == 0) post_recvs(s);
    poll_cq(sim, s);
    world_run(&sim->w, s->n->index);
}

static bool run(struct sim *s)
{
    for (uint32_t step = 0; s->failed == NONE && !all_finished(s); step++) {
        if (step == STEPS) {
            snprintf(s->why, sizeof(s->why), "not finished after %u steps, %llu ms", STEPS,
                     (unsigned long long)s->w.now / 1000000);
            return false;
        }
        someone_programs(s);
        world_run(&s->w, world_below(&s->w, WORLD_NICS));
        /* Time moves a little each step, and where nothing is under way to the next thing that happens. */
        world_advance(&s->w, world_busy(&s->w) ? world_below(&s->w, 300) : 1000 + world_below(&s->w, 100000));
    }
    return s->failed == NONE;
}

/* Nothing else was written to: all memory is as it has to be. */
static bool memory_right(struct sim *sim)
{
    for (unsigned i = 0; i < sim->count; i++) {
        struct side *s = &sim->sides[i];

        for (uint32_t k = 0; k < SIDE_MEM; k++) {
            if (s->mem[k] == s->expected[k]) continue;
            snprintf(sim->why, sizeof(sim->why), "at the end byte %u of side %u is 0x%02x instead of 0x%02x",
                     k, i, s->mem[k], s->expected[k]);
            return false;
        }
    }
    return true;
}

/* What happened, all seeds together: a fault that never occurs tests nothing. */
static struct sn_counters total;

static void add_counters(const struct sim *s)
{
    for (unsigned i = 0; i < WORLD_NICS; i++) {
        struct sn_counters c;
        uint64_t *to = (uint64_t *)&total, *from = (uint64_t *)&c;

        sn_nic_counters(s->w.nics[i].nic, &c);
        for (size_t k = 0; k < sizeof(c) / sizeof(*from); k++) to[k] += from[k];
    }
}

static void print_totals(void)
{
    const struct sn_counters *t = &total;

#define SHOW(name) printf(" %s %llu", #name, (unsigned long long)t->name)
    SHOW(wqes), SHOW(cqes), SHOW(cq_events), SHOW(tx_packets), SHOW(retransmits), SHOW(go_backs),
        SHOW(timeouts), SHOW(probes);
    SHOW(naks_seq_sent), SHOW(rnr_sent), SHOW(duplicates), SHOW(drop_icrc), SHOW(drop_address),
        SHOW(drop_psn);
    SHOW(drop_stale), SHOW(drop_no_qp), SHOW(drop_malformed), SHOW(naks_access_sent), SHOW(naks_inv_sent);
    SHOW(bad_wqes), SHOW(error_cqes);
    printf("\n");
}

static void down(struct sim *s)
{
    add_counters(s);
    if (s->sabotage) saboteur_down(&s->saboteur);
    for (unsigned i = 0; i < s->count; i++) app_qp_down(&s->sides[i].qp);
    for (unsigned i = 0; i < s->count; i++) {
        struct side *d = &s->sides[i];

        app_cq_down(&d->cq);
        sn_mr_destroy(d->mr);
        free(d->mem);
        free(d->expected);
    }
    for (unsigned i = 0; i < WORLD_NICS; i++) {
        if (sn_uar_destroy(s->uar[i]) || sn_pd_destroy(s->pd[i])) abort();
    }
    world_down(&s->w);
}

int run_seed(const struct plan *plan)
{
    static struct sim s;
    unsigned links;
    bool ok;

    memset(&s, 0, sizeof(s));
    s.failed = NONE;
    world_of_seed(&s, plan);
    s.w.cq_event = on_cq_event;
    links = 1 + world_below(&s.w, SIDES / 2);
    while (links--) link_up(&s);
    s.sabotage = world_below(&s.w, 4) == 0;
    if (s.sabotage) saboteur_up(&s.saboteur, &s.w, world_below(&s.w, WORLD_NICS), s.sides[0].n->index);
    ok = run(&s) && memory_right(&s);
    if (ok && s.sabotage && !saboteur_harmless(&s.saboteur)) {
        ok = false;
        snprintf(s.why, sizeof(s.why), "a forbidden request was executed");
    }
    if (ok && s.w.reports && !s.sabotage) {
        ok = false;
        snprintf(s.why, sizeof(s.why), "a report where nobody was wrong: %.100s", s.w.report);
    }
    if (!ok) {
        fprintf(stderr, "seed %llu: side %d at %llu ns: %s\n", (unsigned long long)plan->seed, s.failed,
                (unsigned long long)s.w.now, s.why);
    }
    down(&s);
    return !ok;
}

static int run_seeds(unsigned long long from, unsigned long long to)
{
    struct timespec a, b;

    clock_gettime(CLOCK_MONOTONIC, &a);
    for (unsigned long long i = from; i <= to; i++) {
        struct plan plan = {.seed = i};

        if (!run_seed(&plan)) continue;
        fprintf(stderr, "to see it again: sim --seed %llu -v\n", i);
        return 1;
    }
    clock_gettime(CLOCK_MONOTONIC, &b);
    print_totals();
    printf("seeds %llu..%llu: every byte and completion right, %.1f s\n", from, to,
           (double)(b.tv_sec - a.tv_sec) + 1e-9 * (double)(b.tv_nsec - a.tv_nsec));
    return 0;
}

int main(int argc, char **argv)
{
    unsigned long long from, to;
    struct plan plan = {0};

    /* Every seed makes and frees the same large blocks: keep them instead of asking the system each time. */
    mallopt(M_MMAP_THRESHOLD, 1 << 30);
    mallopt(M_TRIM_THRESHOLD, 1 << 30);
    if (argc >= 3 && !strcmp(argv[1], "--seeds") && sscanf(argv[2], "%llu..%llu", &from, &to) == 2 &&
        from <= to)
        return run_seeds(from, to);
    if (argc >= 3 && !strcmp(argv[1], "--seed") && sscanf(argv[2], "%llu", &from) == 1) {
        plan.seed = from;
        plan.verbose = argc > 3 && !strcmp(argv[3], "-v");
        return run_seed(&plan);
    }
    fprintf(stderr, "usage: sim --seeds A..B | --seed N [-v]\n");
    return 2;
}
