/* SPDX-License-Identifier: Apache-2.0 */
/* A loop's public calls: what does not depend on where it runs. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <gpuwire/detail/assert.h>

#include "src/loop/impl.h"

/* How often a sleeping owner looks whether a GPU loop broke (which CUDA should announce), and how often while
 * a stop is under way. */
#define LOOK_NS     500000000u
#define STOPPING_NS 200000u

/* ---- making one ---------------------------------------------------------------------------------------- */

/* As it is before the first iteration. */
static int write_ctl(struct gw_loop *l)
{
    struct gw_loop_ctl ctl;

    memset(&ctl, 0, sizeof(ctl));
    ctl.size = sizeof(ctl);
    ctl.version = GW_LOOP_CTL_VERSION;
    ctl.shared = l->shared_mem.dev;
    ctl.wake_fd = gw_exec_kind(l->exec) == GW_EXEC_CPU ? l->wake_fd : -1;
    ctl.iterations = l->shared->iterations;
    return gw_copy_in(l->exec, l->ctl_mem.dev, &ctl, sizeof(ctl));
}

static int make_ctl(struct gw_loop *l)
{
    int err = gw_mem_alloc(l->exec, GW_MEM_HOST, sizeof(struct gw_loop_shared), &l->shared_mem);

    if (!err) err = gw_mem_alloc(l->exec, GW_MEM_DEVICE, sizeof(struct gw_loop_ctl), &l->ctl_mem);
    if (err) return err;
    l->shared = l->shared_mem.host;
    return write_ctl(l);
}

static void loop_free_stages(struct gw_loop_variant *v)
{
    while (v->first) {
        struct gw_loop_step *s = v->first;

        v->first = s->next;
        free((void *)s->stage.arg);
        free((void *)s->stage.name);
        free(s);
    }
}

static void free_loop(struct gw_loop *l)
{
    uint32_t i;

    for (i = 0; l->variant && i <= l->variants; i++) loop_free_stages(&l->variant[i]);
    free(l->variant);
    gw_mem_free(&l->ctl_mem);
    gw_mem_free(&l->shared_mem);
    if (l->wake_fd >= 0) close(l->wake_fd);
    if (l->owner_fd >= 0) close(l->owner_fd);
    GW_ASSERT(gw_ld_relaxed_u32(&l->exec->users) > 0);
    gw_add_release_u32(&l->exec->users, UINT32_MAX); /* after its last use: gw_exec_destroy may follow */
    free(l);
}

static int loop_make_table(struct gw_loop *l, uint32_t variants)
{
    if (variants > GW_LOOP_MAX_VARIANTS)
        return gw_error(-EINVAL, "%s: %u variants (a loop has %d at most)", l->name, variants,
                        GW_LOOP_MAX_VARIANTS);
    l->variants = variants ? variants : GW_LOOP_VARIANTS;
    l->variant = calloc(l->variants + 1, sizeof(*l->variant));
    return l->variant ? 0 : gw_error(-ENOMEM, "%s: no memory for %u variants", l->name, l->variants);
}

int gw_loop_create(struct gw_exec *exec, const struct gw_loop_opts *opts, struct gw_loop **loop)
{
    struct gw_loop *l = calloc(1, sizeof(*l));
    int err;

    *loop = NULL;
    if (!l) return gw_error(-ENOMEM, "no memory for a loop");
    gw_add_relaxed_u32(&exec->users, 1);
    l->exec = exec;
    l->ops = gw_exec_kind(exec) == GW_EXEC_GPU ? &gw_loop_gpu_ops : &gw_loop_cpu_ops;
    snprintf(l->name, sizeof(l->name), "%s", opts && opts->name ? opts->name : "loop");
    l->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    l->owner_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    err =
        l->wake_fd < 0 || l->owner_fd < 0 ? gw_error_errno(-errno, "%s: cannot make an eventfd", l->name) : 0;
    if (!err) err = loop_make_table(l, opts ? opts->variants : 0);
    if (!err) err = make_ctl(l);
    if (err) {
        free_loop(l);
        return err;
    }
    *loop = l;
    return 0;
}

struct gw_loop_ctl *gw_loop_ctl(struct gw_loop *loop)
{
    return loop->ctl_mem.dev;
}

static int check_stage(const struct gw_loop *l, const struct gw_loop_stage *s, const char *name)
{
    int gpu = gw_exec_kind(l->exec) == GW_EXEC_GPU;

    if (s->variant > l->variants)
        return gw_error(-EINVAL, "%s: stage %s: variant %u (this loop has %u)", l->name, name, s->variant,
                        l->variants);
    if (l->variant[s->variant].ready)
        return gw_error(-EBUSY, "%s: it is prepared already; stages are added before", l->name);
    if (!s->kernel && !(gpu ? s->enqueue != NULL : s->run != NULL))
        return gw_error(-EINVAL, "%s: stage %s has neither a kernel nor %s", l->name, name,
                        gpu ? "an enqueue callback, which the GPU needs"
                            : "a run callback, which the CPU needs");
    if (s->kernel && gpu && !s->kernel->gpu)
        return gw_error(-EINVAL, "%s: stage %s: kernel %s has no GPU version", l->name, name,
                        s->kernel->name);
    if (s->kernel && !gpu && !s->kernel->cpu)
        return gw_error(-EINVAL, "%s: stage %s: kernel %s has no CPU version", l->name, name,
                        s->kernel->name);
    if (s->beside && (!gpu || !s->kernel))
        return gw_error(-ENOTSUP, "%s: stage %s: only a kernel on a GPU runs beside other stages", l->name,
                        name);
    if (s->kernel && (!s->grid || s->grid > INT32_MAX || !s->block || s->block > 1024))
        return gw_error(-EINVAL, "%s: stage %s: %u blocks of %u threads (a block has 1 to 1024)", l->name,
                        name, s->grid, s->block);
    return 0;
}

int gw_loop_add(struct gw_loop *l, const struct gw_loop_stage *stage)
{
    const char *name = stage->name ? stage->name : stage->kernel ? stage->kernel->name : "(unnamed)";
    struct gw_loop_variant *v;
    struct gw_loop_step *s;
    void *arg = NULL;
    int err = check_stage(l, stage, name);

    if (err) return err;
    s = calloc(1, sizeof(*s));
    if (!s) return gw_error(-ENOMEM, "%s: no memory for stage %s", l->name, name);
    s->stage = *stage;
    s->stage.name = strdup(name);
    if (stage->kernel) {
        arg = malloc(stage->kernel->arg_size);
        if (arg) memcpy(arg, stage->arg, stage->kernel->arg_size);
    }
    s->stage.arg = arg;
    if (!s->stage.name || (stage->kernel && !arg)) {
        free((void *)s->stage.name);
        free(arg);
        free(s);
        return gw_error(-ENOMEM, "%s: no memory for stage %s", l->name, name);
    }
    v = &l->variant[stage->variant];
    if (v->last)
        v->last->next = s;
    else
        v->first = s;
    v->last = s;
    return 0;
}

static int loop_build(struct gw_loop *l, uint32_t variant)
{
    int err = l->ops->build(l, variant);

    /* Release: a thread of the loop that sees it sees the stages. */
    if (!err) gw_st_release_u32(&l->variant[variant].ready, 1);
    return err;
}

int gw_loop_prepare(struct gw_loop *l)
{
    uint32_t v;
    int err;

    if (l->prepared) return 0;
    for (v = 0; v <= l->variants && !l->variant[v].first; v++) continue;
    if (v > l->variants) return gw_error(-EINVAL, "%s: it has no stage", l->name);
    err = l->ops->prepare(l);
    if (err) return err;
    /* The common stages may be none: the variants end with them all the same. */
    err = loop_build(l, 0);
    for (v = 1; !err && v <= l->variants; v++)
        if (l->variant[v].first) err = loop_build(l, v);
    if (err) {
        for (v = 0; v <= l->variants; v++) l->variant[v].ready = 0;
        l->ops->destroy(l);
        return err;
    }
    l->prepared = 1;
    return 0;
}

int gw_loop_extend(struct gw_loop *l, uint32_t variant)
{
    if (!l->prepared || !variant || variant > l->variants || !l->variant[variant].first)
        return gw_error(-EINVAL, "%s: there is no variant %u to make ready", l->name, variant);
    return l->variant[variant].ready ? 0 : loop_build(l, variant);
}

int gw_loop_start(struct gw_loop *l)
{
    int err;

    if (l->started) return gw_error(-EBUSY, "%s: it was started already", l->name);
    err = gw_loop_prepare(l);
    if (!err) err = l->ops->start(l);
    if (!err) l->started = 1;
    return err;
}

static void loop_empty(int fd)
{
    uint64_t drained;
    int saved = errno;

    if (read(fd, &drained, sizeof(drained)) < 0) errno = saved; /* it was empty */
}

int gw_loop_restart(struct gw_loop *l)
{
    int err;

    if (!l->started) return gw_error(-EINVAL, "%s: it was not started", l->name);
    err = l->ops->ended(l);
    if (err < 0) return err;
    if (!err) return gw_error(-EBUSY, "%s: it still runs", l->name);
    l->ops->join(l);
    loop_empty(l->wake_fd);
    loop_empty(l->owner_fd);
    l->stop_ns = l->ended_ns = 0;
    l->why[0] = 0;
    l->shared->stop = l->shared->ended = 0;
    l->shared->error = 0;
    err = write_ctl(l);
    if (!err) err = l->ops->start(l);
    if (err) l->shared->ended = 1; /* it has ended, as before */
    return err;
}

/* ---- stopping and waiting ------------------------------------------------------------------------------ */

/* In signal handlers too. A full eventfd is readable already, so that a failure does not matter. */
static void loop_poke(int fd)
{
    const uint64_t one = 1;
    int saved = errno;

    if (write(fd, &one, sizeof(one)) < 0) errno = saved;
}

void gw_loop_stop(struct gw_loop *l)
{
    gw_cas_relaxed_u64(&l->stop_ns, 0, gw_clock_ns());
    /* Release, before the pokes: threads that they wake see that the loop must end. */
    gw_st_release_u32(&l->shared->stop, 1);
    loop_poke(l->wake_fd);
    loop_poke(l->owner_fd);
}

void gw_loop_wake(struct gw_loop *l)
{
    gw_st_release_u32(&l->woken, 1); /* before the poke */
    loop_poke(l->owner_fd);
}

void gw_loop_note_end(struct gw_loop *l)
{
    if (gw_ld_relaxed_u32(&l->paused) % 2) return;

    gw_cas_relaxed_u64(&l->ended_ns, 0, gw_clock_ns());
    loop_poke(l->owner_fd);
}

void gw_loop_pause(struct gw_loop *l)
{
    uint32_t round = 0;

    gw_add_release_u32(&l->paused, 1); /* before the stop: who sees the end sees why */
    gw_st_release_u32(&l->shared->stop, 1);
    loop_poke(l->wake_fd);
    while (!l->ops->ended(l)) gw_pause(round++);
}

int gw_loop_resume(struct gw_loop *l)
{
    int err = l->ops->ended(l);

    l->ops->join(l);
    if (err > 0 && !l->shared->error && !gw_ld_relaxed_u64(&l->stop_ns)) {
        l->shared->stop = l->shared->ended = 0;
        loop_empty(l->wake_fd);
        err = write_ctl(l);
        if (!err) err = l->ops->start(l);
        if (err) l->shared->ended = 1;
        /* A gw_loop_stop since then has been wiped out. */
        if (gw_ld_relaxed_u64(&l->stop_ns)) {
            gw_st_release_u32(&l->shared->stop, 1);
            loop_poke(l->wake_fd);
        }
    }
    gw_add_release_u32(&l->paused, 1);
    if (l->ops->ended(l)) gw_loop_note_end(l);
    return err < 0 ? err : 0;
}

static void loop_report(struct gw_loop *l, struct gw_loop_end *end)
{
    uint64_t stop_ns = gw_ld_relaxed_u64(&l->stop_ns), ended_ns = gw_ld_relaxed_u64(&l->ended_ns);

    end->error = gw_ld_relaxed_u32(&l->shared->ended) ? l->shared->error : 0;
    end->iterations = gw_loop_iterations(l);
    end->stop_ns = stop_ns && ended_ns > stop_ns ? ended_ns - stop_ns : 0;
    if (end->error) gw_error_errno(end->error, "%s: %s", l->name, l->why[0] ? l->why : "a stage failed");
}

/* When the owner looks again although it is not woken. */
static uint64_t next_look(const struct gw_loop *l, uint64_t now)
{
    if (gw_exec_kind(l->exec) == GW_EXEC_CPU) return GW_NEVER;
    return now + (gw_ld_relaxed_u32(&l->shared->stop) ? STOPPING_NS : LOOK_NS);
}

int gw_loop_wait(struct gw_loop *l, uint64_t deadline_ns, struct gw_loop_end *end)
{
    struct gw_loop_end unused;
    uint64_t now, next, drained;
    uint32_t pauses;
    int64_t ready;
    int err;

    if (!l->started) return gw_error(-EINVAL, "%s: it was not started", l->name);
    for (;;) {
        pauses = gw_ld_acquire_u32(&l->paused); /* before the look, and again after it */
        err = pauses % 2 ? 0 : l->ops->ended(l);
        if (err > 0 && gw_ld_acquire_u32(&l->paused) != pauses) err = 0;
        if (err) {
            gw_loop_note_end(l); /* which also leaves gw_loop_fd readable */
            loop_report(l, end ? end : &unused);
            return err < 0 ? err : 0;
        }
        if (gw_exch_acquire_u32(&l->woken, 0)) return -EINTR;
        now = gw_clock_ns();
        if (now >= deadline_ns) return gw_error(-ETIMEDOUT, "%s: it still runs at the deadline", l->name);
        next = next_look(l, now);
        ready = gw_wait_fds(&l->owner_fd, 1, next < deadline_ns ? next : deadline_ns);
        if (ready < 0) return (int)ready;
        /* Emptied first and looked at afterwards: what happens in between makes it readable again. */
        if (ready && read(l->owner_fd, &drained, sizeof(drained)) < 0 && errno != EAGAIN)
            return gw_error_errno(-errno, "%s: cannot read an eventfd", l->name);
    }
}

int gw_loop_fd(const struct gw_loop *l)
{
    return l->owner_fd;
}

uint64_t gw_loop_iterations(const struct gw_loop *l)
{
    return gw_ld_relaxed_u64(&l->shared->iterations);
}

int gw_loop_destroy(struct gw_loop *l)
{
    uint64_t deadline = gw_deadline(1000000000u);
    int err = 0;

    if (!l) return 0;
    if (l->started) {
        gw_loop_stop(l);
        do err = gw_loop_wait(l, deadline, NULL);
        while (err == -EINTR);
        if (err == -ETIMEDOUT)
            return gw_error(-EBUSY, "%s: it does not end: a stage waits without asking gw_loop_stopping",
                            l->name);
    }
    if (l->prepared) l->ops->destroy(l);
    free_loop(l);
    return 0;
}
