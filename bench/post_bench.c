/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a post alone costs on a CPU thread: our calls beside libmlx5's ibv_post_send, with no NIC at work.
 *
 *     post_bench [ROUNDS]    default 101
 *     post_bench --payload   against the payload that it announces: lines "cpu,BYTES,NANOSECONDS" and
 *                            "ibv,BYTES,NANOSECONDS", for bench/figures
 *
 * All write into queues of libmlx5's and ring libmlx5's registers. The queue pairs are stopped (SQD), so that
 * the NIC executes nothing, and a software NIC is not driven by the thread that posts: libmlx5's own entry is
 * called, and of our calls those steps are left out that tell such a NIC. So both do what they would do for a
 * device. One after the other posts a burst into an emptied queue, in turn; of the bursts' times median and
 * minimum are printed.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/post_side.h"

#define BURST   256u /* requests */
#define BBS     4u   /* WQEBBs of the longest of them, at most */
#define LIST    32u
#define MOST    (1u << 20)
#define ROUNDS  101u
#define INLINED 64u

static struct gw_device *dev;
static struct gw_mem mem;

/* ---- what is posted --------------------------------------------------------------------------------------- */

struct work {
    const char *name;
    enum ibv_wr_opcode opcode;
    uint32_t length, inlined, list; /* list: so many with one doorbell */
    struct ibv_sge sge;
    struct ibv_send_wr wr[LIST];
};

static void prepare(struct work *w)
{
    w->sge = (struct ibv_sge){(uint64_t)(uintptr_t)mem.host, w->length, 1};
    for (uint32_t i = 0; i < w->list; i++) {
        struct ibv_send_wr *wr = &w->wr[i];

        memset(wr, 0, sizeof(*wr));
        wr->wr_id = i;
        wr->next = i + 1 < w->list ? wr + 1 : NULL;
        wr->sg_list = &w->sge;
        wr->num_sge = 1;
        wr->opcode = w->opcode;
        wr->send_flags = w->inlined ? IBV_SEND_INLINE : 0;
        if (w->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
            wr->wr.atomic.remote_addr = w->sge.addr + MOST;
            wr->wr.atomic.compare_add = i;
            wr->wr.atomic.rkey = 1;
        } else {
            wr->wr.rdma.remote_addr = w->sge.addr + MOST;
            wr->wr.rdma.rkey = 1;
        }
    }
}

/* ---- ways to post it: each posts BURST requests, and returns 0 or an errno value ------------------------- */

typedef int way(struct side *s, struct work *w);

static int by_ibv(struct side *s, struct work *w)
{
    struct ibv_send_wr *bad;
    int err = 0;

    for (uint32_t i = 0; i < BURST && !err; i += w->list) err = s->post_send(s->qp, w->wr, &bad);
    return err;
}

static int by_gw_post_send(struct side *s, struct work *w)
{
    struct ibv_send_wr *bad;
    int err = 0;

    for (uint32_t i = 0; i < BURST && !err; i += w->list) err = gw_post_send(s->h, w->wr, &bad);
    return err;
}

static int by_typed(struct side *s, struct work *w)
{
    const uint64_t from = w->sge.addr, to = from + MOST;
    const uint32_t mask = w->list - 1, len = w->length;
    int err = 0;
    uint32_t i;

    if (w->opcode == IBV_WR_SEND)
        for (i = 0; i < BURST && !err; i++)
            err = gw_send(s->h, from, 1, len, (i & mask) == mask ? 0 : GW_DEFER, i);
    else
        for (i = 0; i < BURST && !err; i++)
            err = gw_put(s->h, from, 1, to, 1, len, (i & mask) == mask ? 0 : GW_DEFER, i);
    return -err;
}

static int by_tickets(struct side *s, struct work *w)
{
    const uint64_t from = w->sge.addr, to = from + MOST;
    const uint32_t mask = w->list - 1, len = w->length;
    struct gw_tx tx;
    int err = gw_tx_open(&tx, s->h);
    uint32_t i;

    if (w->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
        for (i = 0; i < BURST && !err; i++)
            err =
                gw_tx_post(&tx, gw_fetch_add_op(from, 1, to, 1, i), (i & mask) == mask ? 0 : GW_DEFER, NULL);
    else
        for (i = 0; i < BURST && !err; i++)
            err = gw_tx_post(&tx, gw_put_op(from, 1, to, 1, len), (i & mask) == mask ? 0 : GW_DEFER, NULL);
    return -err;
}

static const struct {
    const char *name;
    way *way;
} ways[] = {{"ibv_post_send", by_ibv},
            {"typed", by_typed},
            {"gw_tx_post", by_tickets},
            {"gw_post_send", by_gw_post_send}};
enum { IBV, TYPED, TICKETS, COMPATIBLE, WAYS };

/* The typed calls have no inline payload; atomics have tickets, and the fast calls do not send. */
static bool can(unsigned how, const struct work *w)
{
    if (w->inlined) return how == IBV || how == COMPATIBLE;
    if (how == TYPED) return w->opcode != IBV_WR_ATOMIC_FETCH_AND_ADD;
    return how != TICKETS || w->opcode != IBV_WR_SEND;
}

/* ---- measuring -------------------------------------------------------------------------------------------- */

struct figure {
    double *ns;
    double median, min;
};

/* *count: the WQEBBs that the record counts then. */
static double burst(struct side *s, struct work *w, unsigned how, uint32_t *count)
{
    uint64_t start;
    int err;

    side_empty(s);
    start = gw_clock_ns();
    err = ways[how].way(s, w);
    start = gw_clock_ns() - start;
    bench_check(err ? gw_error(-err, "%s", strerror(err)) : 0, ways[how].name);
    *count = gw_be32(s->h->dbrec[GW_MLX5_DBREC_SEND]);
    return (double)start / BURST;
}

static void measure(struct side *s, struct work *w, uint32_t rounds, struct figure *f)
{
    uint32_t count[WAYS];

    for (unsigned how = 0; how < WAYS; how++) {
        f[how].ns = calloc(rounds, sizeof(double));
        bench_check(f[how].ns ? 0 : -ENOMEM, "memory");
    }
    for (uint32_t i = 0; i < rounds; i++)
        for (unsigned how = 0; how < WAYS; how++)
            if (can(how, w)) {
                f[how].ns[i] = burst(s, w, how, &count[how]);
                bench_check(count[how] == count[IBV] ? 0 : gw_error(-5, "not so many WQEBBs"),
                            ways[how].name);
            }
    for (unsigned how = 0; how < WAYS; how++) {
        qsort(f[how].ns, rounds, sizeof(double), side_by_value);
        f[how].median = f[how].ns[rounds / 2];
        f[how].min = f[how].ns[0];
        free(f[how].ns);
    }
}

static void table(struct side *s, uint32_t rounds)
{
    struct work works[] = {
        {"WRITE", IBV_WR_RDMA_WRITE, 64, 0, 1, {0}, {{0}}},
        {"SEND", IBV_WR_SEND, 64, 0, 1, {0}, {{0}}},
        {"fetch and add", IBV_WR_ATOMIC_FETCH_AND_ADD, 8, 0, 1, {0}, {{0}}},
        {"WRITE, 12 bytes inline", IBV_WR_RDMA_WRITE, 12, 1, 1, {0}, {{0}}},
        {"WRITE, 64 bytes inline", IBV_WR_RDMA_WRITE, 64, 1, 1, {0}, {{0}}},
        {"SEND, 64 bytes inline", IBV_WR_SEND, 64, 1, 1, {0}, {{0}}},
        {"32 WRITEs", IBV_WR_RDMA_WRITE, 64, 0, LIST, {0}, {{0}}},
        {"32 WRITEs, 64 bytes inline", IBV_WR_RDMA_WRITE, 64, 1, LIST, {0}, {{0}}},
    };

    for (uint32_t i = 0; i < sizeof(works) / sizeof(works[0]); i++) {
        struct figure f[WAYS];

        prepare(&works[i]);
        measure(s, &works[i], rounds, f);
        printf("%-27s %6.1f (%5.1f)", works[i].name, f[IBV].median, f[IBV].min);
        for (unsigned how = TYPED; how < WAYS; how++)
            if (can(how, &works[i]))
                printf("  %6.1f (%5.1f) %4.2f", f[how].median, f[how].min, f[how].median / f[IBV].median);
            else
                printf("  %20s", "-");
        printf("\n");
        fflush(stdout);
    }
}

static void compare(uint32_t rounds)
{
    printf("bench: a post alone, ns per request: median (minimum) of %u bursts of %u, and ratio to "
           "ibv_post_send "
           "(aims: typed calls 0.8, gw_post_send 1.1)\n",
           rounds, BURST);
    for (int one_thread = 1; one_thread >= 0; one_thread--) {
        struct side s = {0};

        printf("%-27s %14s", one_thread ? "one thread's queue pair" : "a queue pair of several",
               "ibv_post_send");
        for (unsigned how = TYPED; how < WAYS; how++) printf("  %20s", ways[how].name);
        printf("\n");
        side_make(&s, dev, BURST * BBS, INLINED, one_thread);
        table(&s, rounds);
        side_free(&s);
    }
}

static void sweep(void)
{
    struct work w = {"WRITE", IBV_WR_RDMA_WRITE, 64, 0, 1, {0}, {{0}}};
    struct figure f[WAYS];
    struct side s = {0};

    side_make(&s, dev, BURST * BBS, INLINED, true);
    for (; w.length <= MOST; w.length *= 2) {
        prepare(&w);
        measure(&s, &w, ROUNDS, f);
        printf("cpu,%u,%.1f\n", w.length, f[TICKETS].median);
        printf("ibv,%u,%.1f\n", w.length, f[IBV].median);
    }
    side_free(&s);
}

int main(int argc, char **argv)
{
    long rounds = argc > 1 ? atol(argv[1]) : ROUNDS;

    bench_check(gw_device_open(NULL, NULL, &dev), "network device");
    bench_check(gw_mem_alloc(gw_device_exec(dev), GW_MEM_HOST, 2 * MOST, &mem), "memory");
    if (argc > 1 && !strcmp(argv[1], "--payload"))
        sweep();
    else
        compare(rounds > 0 && rounds < 100000 ? (uint32_t)rounds : ROUNDS);
    gw_mem_free(&mem);
    (void)gw_device_close(dev);
    return 0;
}
