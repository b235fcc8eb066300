/* SPDX-License-Identifier: Apache-2.0 */
/* A server of kernels: its memory, its thread, its end. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/exec/impl.h"
#include "src/host/clock_kernel.h"
#include "src/host/server.h"

#define AT_ONCE  4
#define LINES    1024
#define LINE_MIN 16
#define LINE_MAX 65536
#define CLOSE_NS 1000000000u

/* ---- what kernels do through functions, on CPU threads ------------------------------------------------- */

void gw_cpu_host_wake_(struct gw_host_server *s)
{
    gw_helper_wake(&s->helper);
}

uint32_t gw_cpu_host_news_(struct gw_host_server *s)
{
    return gw_helper_news(&s->helper);
}

void gw_cpu_host_sleep_(struct gw_host_server *s, uint32_t news, uint64_t deadline_ns)
{
    gw_helper_wait(&s->helper, news, deadline_ns);
}

/* ---- memory -------------------------------------------------------------------------------------------- */

static int host_server_check(struct gw_host_attr *a)
{
    uint32_t lines = LINE_MIN;

    if (!a->at_once) a->at_once = AT_ONCE;
    if (!a->lines) a->lines = LINES;
    if (a->count > GW_HOST_KERNELS || a->at_once > GW_HOST_AT_ONCE || a->lines > LINE_MAX ||
        (a->count && !a->kernels))
        return gw_error(-EINVAL,
                        "host's server: %u kernels, %u launches at once, %u lines; %u, %u and %u at most",
                        a->count, a->at_once, a->lines, GW_HOST_KERNELS, GW_HOST_AT_ONCE, LINE_MAX);
    for (uint32_t i = 0; i < a->count; i++)
        if (!a->kernels[i]) return gw_error(-EINVAL, "host's server: kernel %u is none", i);
    while (lines < a->lines) lines *= 2;
    a->lines = lines;
    return 0;
}

/* Where the parts of the shared piece begin. */
struct layout {
    size_t ask, line, size;
};

static struct layout host_server_layout(const struct gw_host_attr *a)
{
    struct layout l;

    l.ask = sizeof(struct gw_host_page_);
    l.line = l.ask + GW_HOST_ASKS_ * sizeof(struct gw_host_ask_);
    l.size = l.line + (size_t)a->lines * sizeof(struct gw_print_line_);
    return l;
}

static int host_server_make_memory(struct gw_host_server *s)
{
    struct layout l = host_server_layout(&s->attr);
    uint8_t *shared;
    int err = gw_mem_alloc(s->exec, GW_MEM_HOST, l.size, &s->shared);

    if (!err)
        err = gw_mem_alloc(s->exec, GW_MEM_DEVICE,
                           sizeof(struct gw_host) + s->attr.count * sizeof(struct gw_host_kernel_),
                           &s->kernels);
    if (!err && s->clock_exec)
        err = gw_mem_alloc(s->exec, GW_MEM_HOST, sizeof(struct gw_clock_page), &s->clock);
    if (err) return err;
    shared = s->shared.host;
    s->page = (struct gw_host_page_ *)shared;
    s->ask = (struct gw_host_ask_ *)(shared + l.ask);
    s->line = (struct gw_print_line_ *)(shared + l.line);
    return 0;
}

/* Kernels get the handle and, after it, the table. */
static int host_server_publish(struct gw_host_server *s)
{
    struct layout l = host_server_layout(&s->attr);
    struct gw_host *own = gw_host_handle(s);
    uint8_t *shared = s->shared.dev;
    struct gw_host h = {
        .size = sizeof(h),
        .version = GW_HOST_VERSION,
        .server = gw_exec_kind(s->exec) == GW_EXEC_CPU ? s : NULL,
        .kernel = (struct gw_host_kernel_ *)(own + 1),
        .ask = (struct gw_host_ask_ *)(shared + l.ask),
        .page = (struct gw_host_page_ *)shared,
        .line = (struct gw_print_line_ *)(shared + l.line),
        .kernels = s->attr.count,
        .lines = s->attr.lines,
    };
    int err = gw_copy_in(s->exec, own, &h, sizeof(h));

    for (uint32_t i = 0; !err && i < s->attr.count; i++) {
        struct gw_host_kernel_ k = {.arg_size = (uint32_t)s->attr.kernels[i]->arg_size};

        snprintf(k.name, sizeof(k.name), "%s", s->attr.kernels[i]->name);
        err = gw_copy_in(s->exec, (struct gw_host_kernel_ *)(own + 1) + i, &k, sizeof(k));
    }
    return err;
}

/* ---- the thread ---------------------------------------------------------------------------------------- */

static bool host_server_look(void *arg)
{
    struct gw_host_server *s = arg;
    bool launched = gw_host_launches(s), printed = gw_host_prints(s);

    if (s->clock_exec && gw_clock_ns() >= s->clock_due)
        (void)gw_host_ask_clock(s); /* or with the last result */
    return launched || printed;
}

static void launch_ended(void *arg)
{
    gw_helper_wake(&((struct gw_host_server *)arg)->helper);
}

/* An executor like the server's: for launches that go beside those of the program. */
static int host_server_another(const struct gw_host_server *s, struct gw_exec **out)
{
    struct gw_exec_opts o = {.device = gw_exec_device(s->exec), .cpu_pin = s->exec->cpu_pin};
    bool cpu = gw_exec_kind(s->exec) == GW_EXEC_CPU;

    if (cpu) {
        o.lanes = gw_exec_lanes(s->exec);
        o.blocks = gw_exec_resident_blocks(s->exec);
    }
    return gw_exec_create(cpu ? "cpu" : "gpu", &o, out);
}

static int make_runners(struct gw_host_server *s)
{
    int err = 0;

    for (uint32_t i = 0; !err && i < s->attr.at_once; i++) {
        err = host_server_another(s, &s->runner[i].exec);
        if (err) break;
        s->runner[i].exec->ended = launch_ended;
        s->runner[i].exec->ended_arg = s;
    }
    if (!err && gw_exec_kind(s->exec) == GW_EXEC_GPU) err = host_server_another(s, &s->clock_exec);
    return err;
}

int gw_host_open(struct gw_exec *exec, const struct gw_host_attr *attr, struct gw_host_server **out)
{
    struct gw_host_server *s = calloc(1, sizeof(*s));
    int err;

    *out = NULL;
    if (!s) return gw_error_errno(-ENOMEM, "host's server");
    s->exec = exec;
    if (attr) s->attr = *attr;
    err = host_server_check(&s->attr);
    if (!err) err = gw_helper_init(&s->helper, exec, host_server_look, s);
    if (!err) err = make_runners(s);
    if (!err) err = host_server_make_memory(s);
    if (!err) err = host_server_publish(s);
    if (!err && s->clock_exec) err = gw_host_ask_clock(s);
    if (!err) err = gw_helper_start(&s->helper, "gw-host");
    if (err)
        gw_host_close(s);
    else
        *out = s;
    return err;
}

struct gw_host *gw_host_handle(const struct gw_host_server *s)
{
    return s->kernels.dev;
}

/* ---- the end ------------------------------------------------------------------------------------------- */

/* Waits until the thread has changed something, or a little: what it waits for may lie with a kernel. */
static int wait_more(struct gw_host_server *s, uint32_t news, uint64_t deadline_ns)
{
    uint64_t now = gw_clock_ns(), nap = now + 10000000;

    if (now >= deadline_ns) return -ETIMEDOUT;
    gw_helper_wait(&s->helper, news, nap < deadline_ns ? nap : deadline_ns);
    return 0;
}

int gw_host_flush(struct gw_host_server *s, uint64_t deadline_ns)
{
    uint64_t head;
    uint32_t news;
    int err = gw_copy_out(s->exec, &head, &gw_host_handle(s)->head, sizeof(head));

    while (!err) {
        news = gw_helper_news(&s->helper);
        if ((int64_t)(gw_ld_acquire_u64(&s->page->printed) - head) >= 0) return 0;
        err = wait_more(s, news, deadline_ns);
    }
    return err == -ETIMEDOUT ? gw_error(err, "host's server: lines are still to be printed") : err;
}

void gw_host_query(struct gw_host_server *s, struct gw_host_counts *c)
{
    c->launches = gw_ld_relaxed_u64(&s->launches);
    c->failed = gw_ld_relaxed_u64(&s->failed);
    c->printed = gw_ld_relaxed_u64(&s->texts);
    c->lost = gw_ld_relaxed_u64(&s->lost);
}

static int host_server_settle(struct gw_host_server *s)
{
    uint64_t deadline = gw_deadline(CLOSE_NS);
    uint32_t news;

    for (;;) {
        news = gw_helper_news(&s->helper);
        if (!gw_host_pending(s)) return 0;
        if (wait_more(s, news, deadline))
            return gw_error(-EBUSY, "host's server: %u launches are under way", gw_host_pending(s));
    }
}

/* What is still in the ring, and how many lines were never in it. */
static void last_words(struct gw_host_server *s)
{
    uint64_t lost = 0;

    while (gw_host_prints(s)) continue;
    if (!gw_copy_out(s->exec, &lost, &gw_host_handle(s)->lost, sizeof(lost))) gw_host_tell_lost(s, lost);
    if (!s->attr.print) fflush(stdout);
}

int gw_host_close(struct gw_host_server *s)
{
    bool ran = s && s->helper.running;
    int err = ran ? host_server_settle(s) : 0;

    if (!s || err) return err;
    /* First: the end of a launch wakes the helper. */
    for (uint32_t i = 0; i < s->attr.at_once && i < GW_HOST_AT_ONCE; i++) gw_exec_destroy(s->runner[i].exec);
    gw_helper_stop(&s->helper);
    if (ran) last_words(s);
    if (s->clock_exec) gw_exec_sync(s->clock_exec, gw_deadline(CLOSE_NS));
    gw_mem_free(&s->kernels);
    gw_mem_free(&s->shared);
    gw_mem_free(&s->clock);
    gw_exec_destroy(s->clock_exec);
    free(s);
    return 0;
}
