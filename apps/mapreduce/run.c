/* SPDX-License-Identifier: Apache-2.0 */
/* A rank of a job: its worker, and on rank 0 the master in a thread beside it. */
#include "run.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "worker.h"

struct master_thread {
    struct master_opts opts;
    const struct launch *launch;
    struct master_result *result;
    int exit_code;
};

static void *master_main(void *arg)
{
    struct master_thread *t = (struct master_thread *)arg;

    t->exit_code = master_run(&t->opts, t->launch->listener, t->launch->cookie, LAUNCH_COOKIE, t->result);
    return NULL;
}

/* Rank 0 alone takes Ctrl-C: it ends the job everywhere. */
static int interrupt_open(void)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    return signalfd(-1, &set, SFD_CLOEXEC);
}

static void print_result(const struct options *o, const struct launch *l, const struct master_result *r)
{
    fprintf(stderr, "%-12s %10s %6s %8s %8s %10s %10s%s\n", "job", "MB", "ranks", "seconds", "MB/s", "pairs",
            "output", r->rounds > 1 ? "  rounds" : "");
    fprintf(stderr, "%-12s %10.1f %6u %8.3f %8.1f %10llu %10llu", o->job->job, (double)r->bytes / 1e6,
            l->ranks, r->seconds, r->seconds > 0 ? (double)r->bytes * r->rounds / 1e6 / r->seconds : 0.0,
            (unsigned long long)r->pairs, (unsigned long long)r->out);
    if (r->rounds > 1) fprintf(stderr, "  %u", r->rounds);
    fprintf(stderr, "\n");
    if (r->deaths) fprintf(stderr, "%u of %u ranks died; the others did their work\n", r->deaths, l->ranks);
}

static uint32_t cpu_mappers(const struct options *o, uint32_t ranks)
{
    long n = sysconf(_SC_NPROCESSORS_ONLN);

    if (o->mappers) return o->mappers;
    return n / (long)ranks > 2 ? (uint32_t)(n / (long)ranks) : 2;
}

static int run_worker(const struct options *o, const struct launch *l)
{
    char why[200];
    bool gpu = strcmp(o->exec, "cpu") && gw_exec_gpu_available(why, sizeof(why));
    struct worker_opts w = {.job = o->job,
                            .rank = l->rank,
                            .out = o->job->round ? NULL : o->out,
                            .rate = o->rate,
                            .verbose = o->verbose,
                            .interrupt_fd = -1};
    int fd = launch_connect(l);

    if (fd < 0) return 1;
    w.engine.exec = gpu ? "gpu" : strcmp(o->exec, "auto") ? o->exec : "cpu";
    w.engine.lanes = o->lanes;
    w.engine.mappers = gpu ? o->mappers : cpu_mappers(o, l->ranks);
    w.engine.device = l->local;
    w.engine.memory = o->memory;
    w.engine.ranks = l->ranks;
    if (o->verbose) fprintf(stderr, "rank %u of %u is process %d\n", l->rank, l->ranks, (int)getpid());
    return worker_run(&w, fd, l->cookie, LAUNCH_COOKIE);
}

int run_rank(const struct options *o, const struct launch *l, struct master_result *r)
{
    struct master_thread t = {.launch = l, .result = r};
    pthread_t thread;
    int code;

    if (l->rank) return run_worker(o, l);
    t.opts = (struct master_opts){.job = o->job,
                                  .input = o->input,
                                  .inputs = o->inputs,
                                  .args = o->args,
                                  .n_args = o->n_args,
                                  .ranks = l->ranks,
                                  .parts = o->parts,
                                  .out = o->out,
                                  .task = o->task,
                                  .patience_ns = o->patience * 1000000000,
                                  .verbose = o->verbose,
                                  .progress = !o->quiet && isatty(STDERR_FILENO),
                                  .interrupt_fd = interrupt_open()};
    if (pthread_create(&thread, NULL, master_main, &t)) {
        fprintf(stderr, "gpuwire app mapreduce: cannot start the master's thread\n");
        return 1;
    }
    code = run_worker(o, l);
    pthread_join(thread, NULL);
    close(t.opts.interrupt_fd);
    if (!t.exit_code && !o->quiet) print_result(o, l, r);
    return t.exit_code ? t.exit_code : r->alive == l->ranks ? code : 0;
}

int run_job(const struct options *o)
{
    struct launch l = {.listener = -1};
    struct master_result r;
    int code = 1, joined = launch_join(&l), started = joined;

    if (joined > 0 && o->workers) {
        fprintf(stderr, "gpuwire app mapreduce: --workers: a launcher has started %u ranks already\n",
                l.ranks);
        launch_end(&l);
        return 2;
    }
    if (!joined) started = launch_local(o->workers ? o->workers : 1, &l, &code);
    if (started < 0) return 1;
    if (!started) return code;
    code = run_rank(o, &l, &r);
    if (joined) {
        launch_end(&l);
        return code;
    }
    fflush(NULL);
    _exit(code);
}
