/* SPDX-License-Identifier: Apache-2.0 */
/* gpuwire generate: serves language models over OpenAI's API and by RDMA. */
#include "src/cli/cli.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <gpuwire/error.h>
#include <gpuwire/exec.h>

#include "src/cli/generate/args.h"
#include "src/cli/generate/load.h"
#include "src/cli/options.h"
#include "src/door/access.h"
#include "src/door/log.h"
#include "src/generate/host/model.h"
#include "src/generate/openai/door.h"
#include "src/generate/rdma/sessions.h"

#define TEND_NS 100000000u  /* between two looks at the door's connections */
#define NAP_NS  2000000u    /* between two looks whether all is answered */
#define STOP_NS 5000000000u /* for the step that runs */

struct generating {
    struct gen_place place;
    struct gen_model model[GW_CLI_GENERATE_MODELS];
    struct gen_worker *worker[GW_CLI_GENERATE_MODELS];
    struct gen_service *service[GW_CLI_GENERATE_MODELS];
    uint32_t models; /* that there are; the last one may be half made */
    struct gen_rdma *rdma;
    struct gen_openai_door *door;
    struct gw_access *access;
    struct gw_cli_balancer *balancer;
    int hangup_fd; /* -1: SIGHUP ends the server */
    int quiet;     /* standard output belongs to the access log */
};

/* ---- beginning ---- */

static int generate_check_names(const struct generating *g)
{
    for (uint32_t i = 0; i < g->models; i++)
        for (uint32_t k = 0; k < i; k++)
            if (!strcmp(g->model[i].name, g->model[k].name))
                return gw_error(-EINVAL, "two models are called %s; give NAME=FOLDER", g->model[i].name);
    return 0;
}

static struct gen_model_opts generate_model_opts(const struct gw_cli_generate *all, uint32_t i)
{
    return (struct gen_model_opts){.folder = all->model[i].folder,
                                   .name = all->model[i].name,
                                   .threads = all->threads,
                                   .lanes = all->lanes,
                                   .context = all->context,
                                   .max_tokens = all->max_tokens,
                                   .prompt_rows = all->rows,
                                   .cache_bytes = all->kv_bytes,
                                   .cache_type = all->kv,
                                   .sessions = all->sessions,
                                   .slots = all->slots};
}

/* On a GPU all are made before one runs. */
static int generate_open_models(const struct gw_cli_generate *all, struct generating *g)
{
    int err = 0;
    for (uint32_t i = 0; !err && i < all->models; i++) {
        g->models = i + 1;
        const struct gen_model_opts opts = generate_model_opts(all, i);
        err = gen_model_make(&opts, &g->place, &g->model[i]);
        g->worker[i] = g->model[i].worker;
    }
    if (!err) err = generate_check_names(g);
    for (uint32_t i = 0; !err && i < g->models; i++) {
        err = gen_model_start(&g->model[i]);
        g->service[i] = g->model[i].service;
    }
    return err;
}

static int generate_open_doors(const struct gw_cli_generate *all, struct generating *g)
{
    const struct gen_rdma_opts rdma = {.worker = g->worker, .workers = g->models, .each = all->sessions_each};
    int err = gen_rdma_create(&rdma, &g->rdma);
    const struct gen_openai_opts opts = {.service = g->service,
                                         .services = g->models,
                                         .http = all->doors.http,
                                         .access = g->access,
                                         .executor = gw_exec_name(g->place.exec),
                                         .beside = {.path = GEN_RDMA_PATH,
                                                    .ctx = g->rdma,
                                                    .call = gen_rdma_call,
                                                    .closed = gen_rdma_closed,
                                                    .stays = gen_rdma_stays}};
    return err ? err : gen_openai_open(&opts, &g->door);
}

/* What the balancer compares: pages in use, and a lane's share of them for each request that waits. */
static uint64_t generate_load(void *ctx)
{
    const struct generating *g = ctx;
    uint64_t load = 0;
    for (uint32_t i = 0; i < g->models; i++) {
        struct gen_source_shape shape;
        struct gen_source_stats s;
        gen_worker_shape(g->worker[i], &shape);
        gen_worker_stats(g->worker[i], &s);
        load += s.pages_used + s.waiting * (s.pages / shape.lanes);
    }
    return load;
}

static int generate_join_balancer(const struct gw_cli_generate *all, struct generating *g)
{
    const struct gw_cli_balanced server = {
        .command = "generate", .load = generate_load, .ctx = g, .port = gen_openai_port(g->door)};
    return gw_cli_balancer_start(&all->balancer, &server, &g->balancer);
}

static int generate_start(const struct gw_cli_generate *all, struct generating *g)
{
    int err = gw_cli_doors_log(&all->doors, &g->access, &g->hangup_fd);
    g->quiet = all->doors.access_log && !strcmp(all->doors.access_log, "-");
    if (!err) err = gen_place_open(all->exec, all->gpu, all->device, &g->place);
    if (!err) err = generate_open_models(all, g);
    if (!err) err = generate_open_doors(all, g);
    return err ? err : generate_join_balancer(all, g);
}

/* Says which models there are, and how to try one. */
static void generate_tell(const struct gw_cli_generate *all, const struct generating *g)
{
    struct gw_device_info nic;
    unsigned port = gen_openai_port(g->door);
    gw_device_query(g->place.dev, &nic);
    for (uint32_t i = 0; i < g->models; i++) {
        const struct gen_model *m = &g->model[i];
        struct gen_source_shape s;
        gen_worker_shape(m->worker, &s);
        gw_cli_doors_tell(
            g->quiet, "%s: %s (%s), %u lanes, %u tokens of context, %llu MiB of keys and values%s", m->name,
            m->info.family, m->info.format, s.lanes, s.context,
            (unsigned long long)gen_worker_cache_bytes(m->worker) >> 20, m->chat ? "" : "; no chats");
    }
    gw_cli_doors_tell(g->quiet, "generating on %s over %s%s; HTTP on port %u", gw_exec_name(g->place.exec),
                      nic.name, nic.soft ? " (softnic)" : "", port);
    if (all->doors.http.token_file || all->doors.http.cert) return;
    gw_cli_doors_tell(
        g->quiet,
        "try: curl http://127.0.0.1:%u/v1/%scompletions -d '{\"model\": \"%s\", \"stream\": true, %s}'", port,
        g->model[0].chat ? "chat/" : "", g->model[0].name,
        g->model[0].chat ? "\"messages\": [{\"role\": \"user\", \"content\": \"Hello\"}]"
                         : "\"prompt\": \"Hello\"");
}

/* ---- running ---- */

/* A loop that has ended by itself: 0, or its error. */
static int generate_look(const struct generating *g)
{
    for (uint32_t i = 0; i < g->models; i++) {
        const int fd = gen_worker_fd(g->worker[i]);
        if (gw_wait_fds(&fd, 1, 0) <= 0) continue;
        int err = gen_worker_stop(g->worker[i], gw_deadline(STOP_NS));
        return gw_error(err ? err : -EIO, "model %s: its loop has ended: %s", g->model[i].name,
                        gw_last_error());
    }
    return 0;
}

/* Until a signal comes, or a model's loop fails. */
static int generate_run(struct generating *g)
{
    const int fds[] = {gw_interrupt_fd(), g->hangup_fd};
    int err = 0;
    while (!err && gw_wait_fds(fds, 1, 0) <= 0) {
        gw_wait_fds(fds, g->hangup_fd < 0 ? 1 : 2, gw_deadline(TEND_NS));
        gw_cli_doors_reopen(g->access, g->hangup_fd);
        gen_openai_tend(g->door);
        err = generate_look(g);
    }
    return err;
}

/* ---- ending ---- */

static bool generate_is_busy(const struct generating *g)
{
    bool busy = false;
    for (uint32_t i = 0; i < g->models && !busy; i++) busy = gen_model_busy(&g->model[i]);
    return busy;
}

static void generate_nap(const struct generating *g, uint64_t end)
{
    while (generate_is_busy(g) && gw_deadline(0) < end) {
        usleep(NAP_NS / 1000);
        gen_openai_tend(g->door);
    }
}

/* Running requests may end. Those that wait or come are refused. A second signal ends the process at once. */
static void generate_drain(const struct gw_cli_generate *all, const struct generating *g)
{
    unsigned long long seconds = all->doors.drain_ns / 1000000000u;
    gw_cli_balancer_leave(g->balancer);
    if (all->doors.drain_ns)
        gw_log(GW_LOG_INFO,
               "the server ends: it takes nothing new, and answers what is under way for %llu s at most",
               seconds);
    gen_rdma_drain(g->rdma);
    for (uint32_t i = 0; i < g->models; i++) {
        gen_service_drain(g->service[i]);
        gen_worker_close(g->worker[i], 1);
    }
    generate_nap(g, gw_deadline(all->doors.drain_ns));
    if (!generate_is_busy(g)) return;
    gw_log(GW_LOG_WARNING, "not all is answered after %llu s", seconds);
    for (uint32_t i = 0; i < g->models; i++) gen_worker_close(g->worker[i], 2);
    generate_nap(g, gw_deadline(STOP_NS / 5));
}

/* The door's threads must have left the services before these are closed. */
static int generate_stop(struct generating *g)
{
    int err = 0;
    gw_cli_balancer_leave(g->balancer);
    gw_cli_balancer_stop(g->balancer);
    if (g->door) gen_openai_close(g->door);
    for (uint32_t i = 0; i < g->models; i++)
        if (g->service[i]) gen_worker_stop(g->worker[i], gw_deadline(STOP_NS));
    for (uint32_t i = 0; !err && i < g->models; i++) err = gen_model_close(&g->model[i]);
    if (err) return err; /* a step still runs: nothing it uses may go */
    gen_rdma_destroy(g->rdma);
    gen_place_close(&g->place);
    gw_access_close(g->access);
    return 0;
}

int gw_cli_generate(int argc, char **argv)
{
    static struct gw_cli_generate all;
    static struct generating g = {.hangup_fd = -1};
    if (argc > 1 && !strcmp(argv[1], "load")) return gw_cli_generate_load(argc - 1, argv + 1);
    int done = gw_cli_generate_args(argc, argv, &all);
    if (done >= 0) return done;
    gw_log_name("gpuwire generate");
    gw_cli_doors_keep_memory();
    gw_catch_signals();
    int err = generate_start(&all, &g);
    if (err) {
        done = gw_failed("generate");
        if (gw_cli_doors_is_a_setting(err)) done = GW_EXIT_USAGE;
        generate_stop(&g);
        return done;
    }
    gw_cli_doors_warn(&all.doors);
    generate_tell(&all, &g);
    err = generate_run(&g);
    if (err)
        gw_log(GW_LOG_ERROR, "%s", gw_last_error());
    else
        generate_drain(&all, &g);
    if (generate_stop(&g)) _exit(GW_EXIT_FAILURE);
    gw_cli_doors_tell(g.quiet, "stopped");
    return err ? GW_EXIT_FAILURE : GW_EXIT_OK;
}
