/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plans that one kernel runs (GW_PLAN_RESIDENT): the launches become a table that lies in the executor's
 * memory, and the kernel of kernels/program_alone.h takes them from there.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/model/gpu/program.h"

#include "src/model/gpu/enqueue.h"
#include "src/model/gpu/timer.h"
#include "src/model/graph/msg.h"
#include "src/model/kernels/args.h"
#include "src/model/kernels/program_list.h"

#define ARGS_ALIGN 16u

/* Beyond this, other kernels use a GPU better; and on CPU threads oneDNN is far better. */
#define MOST_WORK    ((int64_t)64 << 20) /* products of two elements */
#define MOST_WEIGHTS ((size_t)32 << 20)
#define MOST_OPS     256

#define RUNS 16 /* in one launch, when it is measured: where it will run nothing is launched */

/* What is known of the kernels: which they are, and where in their arguments the result is named. */
static const struct kind {
    const struct gw_kernel *kernel;
    size_t result;
} kinds[] = {
#define KIND(name, type) {&name, offsetof(struct type, y)},
    GWM_PROGRAM_KERNELS(KIND, KIND)
#undef KIND
};
#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

static uint32_t program_kind_of(const struct gw_kernel *kernel)
{
    uint32_t k = 0;

    while (k < KINDS && kinds[k].kernel != kernel) k++;
    return k;
}

/* ---- what is small enough ---- */

static int64_t work_of(const struct gwm_graph *g, const struct gwm_node *n)
{
    int64_t count = g->value[n->out].count;

    switch (n->op) {
    case GWM_CONV: return count * (n->conv.win.c / n->conv.group) * n->conv.win.kh * n->conv.win.kw;
    case GWM_DECONV: return count * n->conv.win.c * n->conv.win.kh * n->conv.win.kw;
    case GWM_POOL: return count * n->pool.win.kh * n->pool.win.kw;
    case GWM_GEMM: return count * n->gemm.k;
    case GWM_REDUCE: return count * n->reduce.n;
    case GWM_INTERP: return count * n->interp.taps;
    default: return count;
    }
}

int gwm_program_fits(const struct gwm_graph *g, const struct gwm_msg *msg)
{
    int64_t work = 0;
    size_t weights = 0;

    for (int i = 0; i < g->nnode; i++) work += work_of(g, &g->node[i]);
    for (int v = 0; v < g->nvalue; v++)
        if (g->value[v].data) weights += gwm_bytes(&g->value[v]);
    if (g->nnode <= MOST_OPS && work <= MOST_WORK && weights <= MOST_WEIGHTS) return 0;
    return gwm_fail(msg, -ENOTSUP, "the model is too large for a resident kernel (%d nodes, %lld products)",
                    g->nnode, (long long)work);
}

/* ---- the table ---- */

/* Do two buffers share memory? Constants are only read, and each input and output lies by itself. */
static bool overlap(const struct gwm_gpu *p, int a, int b)
{
    const struct gwm_span *x = &p->span[a], *y = &p->span[b];

    if (a == b) return p->buf[a].mem != GWM_MEM_CONST;
    if (p->buf[a].mem != p->buf[b].mem) return false;
    if (p->buf[a].mem != GWM_MEM_ARENA)
        return p->buf[a].mem != GWM_MEM_CONST && p->buf[a].index == p->buf[b].index;
    return x->offset < y->offset + y->bytes && y->offset < x->offset + x->bytes;
}

static int result_of(const struct gwm_launch *l)
{
    size_t at = kinds[program_kind_of(l->kernel)].result;

    for (int k = 0; k < l->nfix; k++)
        if (l->fix[k].at == at) return l->fix[k].buf;
    return -1;
}

/* Does one of two launches write what the other one reads or writes? */
static bool depend(const struct gwm_gpu *p, const struct gwm_launch *a, const struct gwm_launch *b)
{
    int ya = result_of(a), yb = result_of(b);

    for (int k = 0; k < b->nfix; k++)
        if (ya < 0 || overlap(p, ya, b->fix[k].buf)) return true;
    for (int k = 0; k < a->nfix; k++)
        if (yb < 0 || overlap(p, yb, a->fix[k].buf)) return true;
    return false;
}

/* Sets where blocks must meet: as late as the dependences allow. */
static void place_meetings(const struct gwm_gpu *p, struct gwm_do *op)
{
    for (int i = 1, since = 0; i < p->nlaunch; i++) {
        for (int k = since; k < i && !op[i].meet; k++) op[i].meet = depend(p, &p->launch[k], &p->launch[i]);
        if (op[i].meet) since = i;
    }
}

static size_t args_bytes(const struct gwm_launch *l)
{
    return (l->kernel->arg_size + ARGS_ALIGN - 1) / ARGS_ALIGN * ARGS_ALIGN;
}

/* Fills the host's copy of what lies at `dev`: io, meeting, operations, arguments. */
static void program_fill(struct gwm_gpu *p, char *host, char *dev)
{
    struct gw_plan_io *io = (struct gw_plan_io *)dev;
    struct gwm_where where = {.at = p->at, .io = io};
    size_t ops = sizeof(*io) + sizeof(struct gwm_meeting) + ARGS_ALIGN, at;
    struct gwm_do *op;

    ops = ops / ARGS_ALIGN * ARGS_ALIGN;
    op = (struct gwm_do *)(host + ops);
    at = ops + (size_t)p->nlaunch * sizeof(*op);
    for (int i = 0; i < p->nlaunch; i++) {
        const struct gwm_launch *l = &p->launch[i];
        op[i] = (struct gwm_do){.kernel = program_kind_of(l->kernel), .blocks = l->grid, .args = dev + at};
        gwm_gpu_args(p, l, &where, host + at);
        at += args_bytes(l);
    }
    place_meetings(p, op);
    p->program = (struct gwm_program){.op = (const struct gwm_do *)(dev + ops),
                                      .io = io,
                                      .meeting = (struct gwm_meeting *)(io + 1),
                                      .ops = (uint32_t)p->nlaunch,
                                      .nin = p->g->ninput,
                                      .nout = p->g->noutput};
}

static int program_make_table(struct gwm_gpu *p)
{
    size_t bytes = sizeof(struct gw_plan_io) + sizeof(struct gwm_meeting) + ARGS_ALIGN;

    for (int i = 0; i < p->nlaunch; i++) bytes += sizeof(struct gwm_do) + args_bytes(&p->launch[i]);
    char *host = (char *)calloc(1, bytes);
    int err = host ? gw_mem_alloc(p->exec, GW_MEM_DEVICE, bytes, &p->program_mem) : -ENOMEM;
    if (!err) {
        program_fill(p, host, (char *)p->program_mem.dev);
        err = gw_copy_in(p->exec, p->program_mem.dev, host, bytes);
    }
    free(host);
    return err;
}

/* ---- the kernel ---- */

static uint32_t most_blocks(const struct gwm_gpu *p)
{
    uint32_t most = gw_exec_resident_blocks(p->exec);

    return most < GWM_PROGRAM_BLOCKS ? most : GWM_PROGRAM_BLOCKS;
}

/* Whole warps, or a part of one. */
static uint32_t threads(const struct gwm_gpu *p)
{
    uint32_t lanes = gw_exec_lanes(p->exec);

    if (lanes > GWM_PROGRAM_THREADS) return GWM_PROGRAM_THREADS;
    return lanes > 32 ? lanes / 32 * 32 : lanes;
}

/* The fewest blocks that are nearly as fast as any number of them; without a clock, the most. */
static void choose_blocks(struct gwm_gpu *p)
{
    struct gwm_program_times *t = &p->times;
    uint32_t most = most_blocks(p);
    float least = -1;

    p->program.blocks = most;
    p->program.threads = threads(p);
    if (!p->timer) return;
    p->program_runs = RUNS;
    for (; t->tries < GWM_PROGRAM_TRIES && 1u << t->tries <= most; t->tries++) {
        p->program.blocks = 1u << t->tries;
        float us = t->us[t->tries] = gwm_timer_plan(p->timer, p) / RUNS;
        if (us < 0) snprintf(t->why, sizeof(t->why), "%s", gwm_timer_why(p->timer));
        if (us >= 0 && (least < 0 || us < least)) least = us;
    }
    p->program_runs = 0;
    for (uint32_t i = t->tries; i-- > 0;) {
        if (t->us[i] < 0 || t->us[i] > least * 1.1f) continue;
        p->program.blocks = 1u << i;
        p->run_us = t->us[i];
    }
}

int gwm_program_make(struct gwm_gpu *p, const struct gwm_msg *msg)
{
    for (int i = 0; i < p->nlaunch; i++)
        if (!p->launch[i].kernel || program_kind_of(p->launch[i].kernel) == KINDS)
            return gwm_fail(msg, -ENOTSUP, "a resident kernel cannot do what %s does",
                            p->launch[i].kernel ? p->launch[i].kernel->name : "a library");
    int err = program_make_table(p);
    if (err) return gwm_fail(msg, err, "%s", err == -ENOMEM ? "out of memory" : gw_last_error());
    if (gw_exec_kind(p->exec) == GW_EXEC_GPU) p->timer = gwm_timer_open(p->exec, p->most);
    choose_blocks(p);
    gwm_timer_close(p->timer);
    p->timer = NULL;
    return 0;
}
