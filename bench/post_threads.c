/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/post_ways.h"

struct poster {
    pthread_t thread;
    struct side *s;
    struct work w;
    void *from;
    unsigned how;
    uint32_t n, of, *ready; /* requests; threads, and how many of them are there */
    uint64_t start, end;
    int err;
};

static void *posts(void *arg)
{
    struct poster *p = arg;

    work_prepare(&p->w, p->from);
    gw_add_relaxed_u32(p->ready, 1);
    while (gw_ld_acquire_u32(p->ready) != p->of) continue; /* all begin at once */
    p->start = gw_clock_ns();
    p->err = ways[p->how].way(p->s, &p->w, p->n);
    p->end = gw_clock_ns();
    return NULL;
}

/* As post_burst, by several threads; from the first one's begin to the last one's end, for a request of
 * all. */
static double burst_of(struct side *s, const struct work *w, void *from, unsigned how, uint32_t threads,
                       uint32_t *count)
{
    static struct poster p[POST_THREADS];
    uint32_t n = BURST * BBS / threads / w->list * w->list, ready = 0;
    uint64_t start = UINT64_MAX, end = 0;

    side_empty(s);
    for (uint32_t i = 0; i < threads; i++) {
        p[i] = (struct poster){
            .s = s, .w = *w, .from = from, .how = how, .n = n, .of = threads, .ready = &ready};
        bench_check(-pthread_create(&p[i].thread, NULL, posts, &p[i]), "thread");
    }
    for (uint32_t i = 0; i < threads; i++) {
        pthread_join(p[i].thread, NULL);
        bench_check(p[i].err ? gw_error(-p[i].err, "%s", strerror(p[i].err)) : 0, ways[how].name);
        start = p[i].start < start ? p[i].start : start;
        end = p[i].end > end ? p[i].end : end;
    }
    *count = gw_be32(s->h->dbrec[GW_MLX5_DBREC_SEND]);
    return (double)(end - start) / (n * threads);
}

/* Each way, and ours once more with the handle as GW_QP_LOCK_FREE makes it. */
static void by_several(struct side *s, const struct work *w, void *from, uint32_t threads, uint32_t rounds)
{
    double *ns = calloc(2 * WAYS * rounds, sizeof(*ns)), ibv = 0;

    bench_check(ns ? 0 : -ENOMEM, "memory");
    for (uint32_t i = 0; i < rounds; i++) {
        uint32_t count[2 * WAYS];

        for (unsigned k = 0; k < 2 * WAYS; k++) {
            if (k == WAYS) continue; /* libmlx5's way is the same */
            s->h->flags = k < WAYS ? s->h->flags | GW_LOCKED_ : s->h->flags & ~(uint32_t)GW_LOCKED_;
            ns[k * rounds + i] = burst_of(s, w, from, k % WAYS, threads, &count[k]);
            bench_check(count[k] == count[IBV] ? 0 : gw_error(-5, "the number of WQEBBs differs"),
                        ways[k % WAYS].name);
        }
    }
    printf("%s by %u threads:\n", w->name, threads);
    for (unsigned k = 0; k < 2 * WAYS; k++) {
        double *of = ns + k * rounds;

        if (k == WAYS) continue;
        qsort(of, rounds, sizeof(double), side_by_value);
        if (k == IBV) ibv = of[rounds / 2];
        printf("  %-14s %-10s %7.1f (%6.1f)  %4.2f\n", ways[k % WAYS].name, k > WAYS ? "lock-free" : "",
               of[rounds / 2], of[0], of[rounds / 2] / ibv);
    }
    free(ns);
}

void post_several(struct gw_device *dev, void *from, uint32_t threads, uint32_t rounds)
{
    static const struct work works[] = {{"WRITE", IBV_WR_RDMA_WRITE, 64, 0, 1, {0}, {{0}}},
                                        {"32 WRITEs, one ring,", IBV_WR_RDMA_WRITE, 64, 0, LIST, {0}, {{0}}}};
    struct side s = {0};

    printf(
        "bench: a queue pair of several at once, ns per request: median (minimum) of %u rounds, and ratio to "
        "ibv_post_send\n",
        rounds);
    side_make(&s, dev, BURST * BBS, INLINED, false);
    for (uint32_t i = 0; i < sizeof(works) / sizeof(works[0]); i++)
        by_several(&s, &works[i], from, threads, rounds);
    side_free(&s);
}
