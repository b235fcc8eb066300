/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses the batch sizes that run inside the waiting kernel, and builds its programs. */
#include "src/server/worker/resident.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "src/exec/c_locale.h"
#include "src/door/log.h"
#include "src/model/inside.h"

GW_KERNEL_DECLARE(gw_resident);

/* A model is small when a run takes less. */
#define SMALL_NS 50000u
/* How long launching a graph from the device takes; waiting in the kernel that does the work takes nothing.
 */
#define LAUNCH_NS 8000u

int gw_resident_parse(const char *name)
{
    static const char *const names[] = {
        [GW_RESIDENT_NEVER] = "never", [GW_RESIDENT_AUTO] = "auto", [GW_RESIDENT_ALWAYS] = "always"};
    for (int i = 0; i < 3; i++)
        if (!strcmp(names[i], name)) return i;
    return -1;
}

/*
 * Blocks of resident kernels wait for each other, so all must run at once. Each takes a multiprocessor at
 * most. So that none waits forever for another model's, all of them together take at most half of the GPU.
 */
static uint32_t taken;

/* `more` blocks of the share: 0, or there are not enough left. */
static int resident_take(struct gw_resident *r, const struct gw_exec *exec, uint32_t more)
{
    uint32_t all = gw_exec_resident_blocks(exec) / 2;
    if (gw_exec_kind(exec) != GW_EXEC_GPU) return 0;
    if (__atomic_add_fetch(&taken, more, __ATOMIC_RELAXED) > all) { /* a count by itself */
        __atomic_sub_fetch(&taken, more, __ATOMIC_RELAXED);
        return -EBUSY;
    }
    r->taken += more;
    return 0;
}

void gw_resident_free(struct gw_resident *r)
{
    __atomic_sub_fetch(&taken, r->taken, __ATOMIC_RELAXED);
    r->taken = 0;
    gw_mem_free(&r->mem);
}

/* A plan that the kernel can run; -ENOTSUP: there is none, or no room on the GPU, and the choice says why. */
static int resident_make(struct gw_resident *r, uint32_t i, const struct gw_model *model,
                         const struct gw_plan_options *options, struct gw_plan **plan)
{
    struct gw_resident_choice *c = &r->choice[i];
    struct gw_plan_options o = *options;
    struct gwm_program *p = &r->args.program[i];
    o.place = GW_PLACE_GPU; /* whose kernels run on CPU threads, too */
    o.flags |= GW_PLAN_RESIDENT;
    int err = gw_plan_create(model, &o, plan, c->why, sizeof(c->why));
    if (err) return -ENOTSUP;
    err = gwm_plan_program(*plan, p, &c->times);
    if (err) snprintf(c->why, sizeof(c->why), "only models from ONNX files can be run so");
    uint32_t blocks = gw_exec_kind(o.exec) == GW_EXEC_GPU ? p->blocks : 1;
    uint32_t more = !err && blocks > r->blocks ? blocks - r->blocks : 0;
    if (!err && (err = resident_take(r, o.exec, more)))
        snprintf(c->why, sizeof(c->why),
                 "it needs %u multiprocessors; such kernels have their half of the GPU", more);
    if (err) {
        p->ops = 0;
        gw_plan_free(*plan);
        *plan = NULL;
        return -ENOTSUP;
    }
    c->blocks = blocks;
    r->blocks += more;
    if (p->threads > r->threads) r->threads = p->threads;
    return 0;
}

static uint64_t run_ns(const struct gw_plan *plan)
{
    struct gw_plan_stats s;
    gw_plan_stats(plan, &s);
    return s.run_ns;
}

/* Is it worth while to try the kernel? */
static bool resident_is_small(struct gw_resident_choice *c)
{
    if (!c->graph_ns) snprintf(c->why, sizeof(c->why), "nothing could be measured");
    if (c->graph_ns > SMALL_NS)
        snprintf(c->why, sizeof(c->why), "that is for models below %u us", SMALL_NS / 1000);
    return c->graph_ns && c->graph_ns <= SMALL_NS;
}

static bool is_faster(const struct gw_resident_choice *c)
{
    return c->own_ns && c->own_ns < SMALL_NS && c->own_ns <= c->graph_ns + LAUNCH_NS;
}

int gw_resident_plan(struct gw_resident *r, uint32_t i, const struct gw_model *model,
                     const struct gw_plan_options *options, struct gw_plan **plan, char why[GW_MODEL_ERR])
{
    struct gw_resident_choice *c = &r->choice[i];
    struct gw_plan *small = NULL;
    *plan = NULL;
    if (r->mode == GW_RESIDENT_ALWAYS && !resident_make(r, i, model, options, plan)) {
        c->own_ns = run_ns(*plan);
        return 0;
    }
    int err = gw_plan_create(model, options, plan, why, GW_MODEL_ERR);
    if (err) return err;
    c->graph_ns = run_ns(*plan);
    if (r->mode != GW_RESIDENT_AUTO || !resident_is_small(c) || resident_make(r, i, model, options, &small))
        return 0;
    c->own_ns = run_ns(small);
    if (is_faster(c)) {
        gw_plan_free(*plan);
        *plan = small;
    } else {
        r->args.program[i].ops = 0; /* its blocks stay the kernel's: another batch size may want them */
        gw_plan_free(small);
    }
    return 0;
}

static const char *in_us(uint64_t ns, char *text, size_t size)
{
    if (!ns) return "not measured";
    snprintf(text, size, "%llu.%llu us", (unsigned long long)ns / 1000, (unsigned long long)ns / 100 % 10);
    return text;
}

static void tell_times(const struct gwm_program_times *t, const char *model, uint32_t rows)
{
    char text[GWM_PROGRAM_TRIES * 24] = "";
    size_t n = 0;
    locale_t before = gw_c_locale_enter();
    for (uint32_t k = 0; k < t->tries; k++)
        n += (size_t)snprintf(text + n, sizeof(text) - n, t->us[k] < 0 ? " failed," : " %.1f us,",
                              (double)t->us[k]);
    gw_c_locale_leave(before);
    if (n) text[n - 1] = '\0';
    if (n)
        gw_log(GW_LOG_DEBUG, "model %s, batches of %u: one kernel of 1, 2, 4 blocks and so on takes%s%s%s",
               model, rows, text, *t->why ? "; " : "", t->why);
}

void gw_resident_tell(const struct gw_resident *r, uint32_t i, const char *model, uint32_t rows)
{
    const struct gw_resident_choice *c = &r->choice[i];
    char text[2][32];
    const char *graph = in_us(c->graph_ns, text[0], sizeof(text[0])),
               *own = in_us(c->own_ns, text[1], sizeof(text[1]));
    tell_times(&c->times, model, rows);
    if (gw_resident_has(r, i))
        gw_log(GW_LOG_INFO,
               "model %s, batches of %u: in the kernel that waits. There: %s, with %u blocks; as a graph: %s",
               model, rows, own, c->blocks, graph);
    else if (*c->why)
        gw_log(GW_LOG_INFO, "model %s, batches of %u: as a graph (%s). Not in the kernel that waits: %s",
               model, rows, graph, c->why);
    else
        gw_log(GW_LOG_INFO,
               "model %s, batches of %u: as a graph (%s). In the kernel that waits: %s, with %u blocks",
               model, rows, graph, own, c->blocks);
}

bool gw_resident_has(const struct gw_resident *r, uint32_t i)
{
    return r->args.program[i].ops != 0;
}

int gw_resident_stage(struct gw_resident *r, struct gw_exec *exec, struct gw_loop_stage *stage)
{
    static const struct {
        struct gw_resident_work work;
        struct gwm_meeting meeting;
    } none;
    int err = gw_mem_alloc(exec, GW_MEM_DEVICE, sizeof(none), &r->mem);
    if (!err) err = gw_copy_in(exec, r->mem.dev, &none, sizeof(none));
    if (err) return err;
    r->args.here = r->mem.dev;
    r->args.meeting = (struct gwm_meeting *)(r->args.here + 1);
    *stage = (struct gw_loop_stage){
        .kernel = &gw_resident, .grid = r->blocks, .block = r->threads, .arg = &r->args};
    return 0;
}
