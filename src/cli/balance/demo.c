/* SPDX-License-Identifier: Apache-2.0 */
/* gpuwire balance demo: a worker drains, another one dies, and a table says whose connections broke. */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gpuwire/error.h>
#include <gpuwire/exec.h>

#include "src/balance/run.h"
#include "src/cli/balance/args.h"
#include "src/cli/balance/demo_load.h"
#include "src/cli/options.h"

#define S         1000000000ull
#define PHASE_NS  (8 * S)
#define READY_NS  (90 * S)
#define GATHER_NS (60 * S) /* until all connections that stay are there */
#define NOTICE_NS (60 * S)
#define LAST_NS   (60 * S) /* until no client waits for the dead worker */
#define END_NS    (30 * S)

#define GW_DEMO_PATH 256 /* of the folder for its files */

#define DRAINS 0 /* which of the workers */
#define DIES   1

struct demo {
    struct gw_demo_net net;
    struct gw_demo_tally *tally;
    pid_t balancer, clients, worker[GW_DEMO_WORKERS];
    char dir[GW_DEMO_PATH], file[GW_DEMO_PATH + 16], api[48];
    FILE *says;
    unsigned up;       /* workers, when the balancer began */
    int dead, noticed; /* the worker that dies; the balancer has said so */
};

/* ---- the balancer ---- */

static int write_config(struct demo *d)
{
    const char *tmp = getenv("TMPDIR");
    int n = snprintf(d->dir, sizeof(d->dir), "%s/gpuwire-demo-XXXXXX", tmp ? tmp : "/tmp");
    if (n < 0 || (size_t)n >= sizeof(d->dir) || !mkdtemp(d->dir)) {
        d->dir[0] = 0;
        return gw_error(-EINVAL, "TMPDIR (%s): no folder for the demo's files can be made there",
                        tmp ? tmp : "/tmp");
    }
    snprintf(d->file, sizeof(d->file), "%s/balance.conf", d->dir);
    FILE *f = fopen(d->file, "we");
    if (!f) return gw_error_errno(-errno, "%s", d->file);
    fprintf(
        f,
        "global_defs {\n    api 127.0.0.1 0\n    run_dir %s/run\n    flows 65536\n    wide_flows 4096\n}\n"
        "interface eth0 {\n    address 10.77.0.10/24\n}\n"
        "virtual_server " GW_DEMO_VIP " %d {\n    name demo\n    lb_algo rr\n    lb_kind DR\n"
        "    TCP_CHECK {\n        delay_loop 0.3\n        connect_timeout 1\n        fall 3\n    }\n",
        d->dir, GW_DEMO_PORT);
    for (int i = 0; i < GW_DEMO_WORKERS; i++)
        fprintf(f, "    real_server 10.77.0.%d %d {\n        name w%d\n    }\n", 21 + i, GW_DEMO_PORT, i + 1);
    fprintf(f, "}\n");
    return fclose(f) ? gw_error_errno(-errno, "%s", d->file) : 0;
}

/* A line of the balancer's. It may take only the killed worker for dead. */
static int understand(struct demo *d, const char *line)
{
    const char *port = strstr(line, " port "), *worker = strstr(line, "worker w"),
               *why = strstr(line, " is down");
    printf("balancer: %s", line);
    if (strstr(line, "API on") && port)
        snprintf(d->api, sizeof(d->api), "127.0.0.1:%lu", strtoul(port + 6, NULL, 10));
    if (strstr(line, "started again")) return gw_error(-EIO, "the balancer's data plane died");
    d->up += worker && strstr(worker, " is up");
    if (!worker || !why) return 0;
    if (worker[8] != '1' + DIES || !d->dead)
        return gw_error(-EIO,
                        "the balancer took w%c for dead, though it lives: three checks had no answer. This "
                        "machine has too much other work for the demo: run it again when it has less",
                        worker[8]);
    d->noticed = 1;
    return 0;
}

/* Listens to the balancer until then, or until it has noticed that a worker died, or enough workers are up.
 */
static int balance_demo_hear(struct demo *d, uint64_t end, unsigned up)
{
    char line[256];
    const int fds[2] = {fileno(d->says), gw_interrupt_fd()};
    int err = 0, noticed = d->noticed;
    while (!err && d->noticed == noticed && (!up || d->up < up)) {
        int64_t ready = gw_wait_fds(fds, 2, end);
        if (gw_interrupted()) return gw_error(-EINTR, "interrupted");
        if (!ready) return 0;
        if (ready < 0) continue;
        if (!fgets(line, sizeof(line), d->says)) /* where it does not start it has said why */
            return d->up ? gw_error(-EIO, "the balancer has ended") : -ECHILD;
        err = understand(d, line);
    }
    return err;
}

static int start_balancer(struct demo *d)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC)) return gw_error_errno(-errno, "demo");
    d->balancer = gw_demo_fork_all(&d->net, GW_DEMO_BALANCER);
    if (!d->balancer) {
        dup2(ends[1], STDOUT_FILENO);
        execl("/proc/self/exe", "gpuwire", "balance", "--config", d->file, (char *)NULL);
        _exit(1);
    }
    close(ends[1]);
    d->says = fdopen(ends[0], "r");
    if (d->balancer < 0 || !d->says) return gw_error_errno(-errno, "cannot start the balancer");
    setvbuf(d->says, NULL, _IONBF, 0);
    /* A line for its API, and one for each worker that is up. */
    int err = balance_demo_hear(d, gw_deadline(READY_NS), GW_DEMO_WORKERS);
    return err || d->up == GW_DEMO_WORKERS ? err : gw_error(-ETIMEDOUT, "the balancer does not get ready");
}

static int tell_balancer(const struct demo *d, const char *verb, const char *worker)
{
    const char *argv[] = {"/proc/self/exe", "balance", verb, "demo", worker, "--api", d->api, NULL};
    return gw_demo_run(&d->net, GW_DEMO_BALANCER, argv)
               ? gw_error(-EIO, "the balancer refused: %s %s", verb, worker)
               : 0;
}

/* ---- what happens ---- */

static int start_load(struct demo *d)
{
    for (int i = 0; i < GW_DEMO_WORKERS; i++) {
        d->worker[i] = gw_demo_fork(&d->net, GW_DEMO_WORKER + i);
        if (!d->worker[i]) gw_demo_worker((unsigned)i);
    }
    return 0;
}

static uint64_t staying(const struct gw_demo_tally *t)
{
    uint64_t n = 0;
    for (int i = 0; i < GW_DEMO_WORKERS; i++) n += atomic_load(&t->of[i].staying);
    return n;
}

static int balance_demo_start_clients(struct demo *d)
{
    uint64_t end = gw_deadline(GATHER_NS);
    d->clients = gw_demo_fork(&d->net, GW_DEMO_CLIENT);
    if (!d->clients) gw_demo_clients(d->tally);
    while (staying(d->tally) < GW_DEMO_STAYING) {
        int err = balance_demo_hear(d, gw_deadline(S / 10), 0);
        if (err) return err;
        if (gw_deadline(0) > end) return gw_error(-ETIMEDOUT, "the clients reach no worker");
    }
    printf("%d connections stay open and ask ten times a second each; 100 short ones begin each second\n",
           GW_DEMO_STAYING);
    return 0;
}

/* The machine is gone at once, without a goodbye. Returns when the balancer knows. */
static int kill_worker(struct demo *d, int which)
{
    const char *down[] = {"ip", "link", "set", "eth0", "down", NULL};
    if (gw_demo_run(&d->net, GW_DEMO_WORKER + which, down))
        return gw_error(-EIO, "the worker's link does not go down");
    kill(d->worker[which], SIGKILL);
    atomic_store(&d->tally->phase, GW_DEMO_DYING);
    d->dead = 1;
    printf("w%d is dead: its link is down, its process killed\n", which + 1);
    fflush(stdout);
    int err = balance_demo_hear(d, gw_deadline(NOTICE_NS), 0);
    return err || d->noticed ? err
                             : gw_error(-ETIMEDOUT, "the balancer does not notice that a worker is dead");
}

static int act(struct demo *d)
{
    int err = balance_demo_hear(d, gw_deadline(PHASE_NS), 0);
    if (!err) err = tell_balancer(d, "drain", "w1");
    if (err) return err;
    printf("w1 drains\n");
    /* The cores know by now, unless the machine is very slow. Connections that begin now must not reach
     * w1. */
    err = balance_demo_hear(d, gw_deadline(S), 0);
    atomic_store(&d->tally->phase, GW_DEMO_DRAINED);
    if (!err) err = balance_demo_hear(d, gw_deadline(PHASE_NS), 0);
    uint64_t died = gw_deadline(0);
    if (!err) err = kill_worker(d, DIES);
    if (err) return err;
    uint64_t took = gw_deadline(0) - died;
    printf("the balancer has noticed, after %.1f s\n", (double)took / (double)S);
    fflush(stdout);
    err = balance_demo_hear(d, gw_deadline(S), 0);
    atomic_store(&d->tally->phase, GW_DEMO_KILLED);
    if (!err) err = balance_demo_hear(d, gw_deadline(2 * PHASE_NS), 0);
    /* A client without an answer asks less and less often, and learns late that its worker has gone. */
    uint64_t last = gw_deadline(LAST_NS);
    while (!err && atomic_load(&d->tally->of[DIES].staying) && gw_deadline(0) < last)
        err = balance_demo_hear(d, gw_deadline(S / 10), 0);
    atomic_store(&d->tally->phase, GW_DEMO_END);
    return err;
}

/* ---- what came of it ---- */

/* Connections with this worker that began from that phase on. */
static uint64_t opened_from(const struct gw_demo_tally *t, int worker, int phase)
{
    uint64_t n = 0;
    for (; phase < GW_DEMO_PHASES; phase++) n += atomic_load(&t->of[worker].opened[phase]);
    return n;
}

/* Returns how many connections broke, moved or began where they should not have. */
static uint64_t print_table(const struct gw_demo_tally *t)
{
    static const char *const fate[] = {"drained", "killed", "neither"};
    uint64_t wrong = opened_from(t, DRAINS, GW_DEMO_DRAINED);
    printf("\n  worker        connections  answers   new while w1 drained   new after w2 died   moved   "
           "broken\n");
    for (int i = 0; i < GW_DEMO_WORKERS; i++) {
        uint64_t broken = atomic_load(&t->of[i].broken), moved = atomic_load(&t->of[i].moved);
        printf(
            "  w%d %-10s %11" PRIu64 " %8" PRIu64 " %22" PRIu64 " %19" PRIu64 " %7" PRIu64 " %8" PRIu64 "\n",
            i + 1, fate[i], opened_from(t, i, 0), atomic_load(&t->of[i].answers),
            atomic_load(&t->of[i].opened[GW_DEMO_DRAINED]), opened_from(t, i, GW_DEMO_DYING), moved, broken);
        wrong += moved + (i == DIES ? 0 : broken);
    }
    for (int i = 0; i < GW_DEMO_PHASES; i++) {
        uint64_t n = atomic_load(&t->unanswered[i]);
        if (n && i == GW_DEMO_DYING)
            printf("  %" PRIu64 " more found w2 dead, before the balancer knew\n", n);
        else if (n)
            printf("  %" PRIu64 " more got no answer\n", n);
        wrong += i == GW_DEMO_DYING ? 0 : n;
    }
    return wrong;
}

static int balance_demo_judge(const struct gw_demo_tally *t)
{
    uint64_t dead = atomic_load(&t->of[DIES].broken), wrong = print_table(t);
    if (wrong)
        return gw_error(-EIO, "%" PRIu64 " connections broke, moved or began where they should not have",
                        wrong);
    if (!dead || !atomic_load(&t->of[DRAINS].answers))
        return gw_error(-EIO, "a worker had no connections: nothing was shown");
    printf("\nOnly the killed worker's connections broke: %" PRIu64
           ". The drained worker kept all of its own, and got no new ones.\n",
           dead);
    return 0;
}

static void kill_process(pid_t pid)
{
    if (pid <= 0) return;
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

/* In order, where it can: its data plane ends with it, either way. */
static void end_balancer(struct demo *d)
{
    uint64_t end = gw_deadline(END_NS);
    if (d->balancer <= 0) return;
    if (d->api[0]) kill(d->balancer, SIGTERM);
    while (d->api[0] && gw_deadline(0) < end) {
        if (waitpid(d->balancer, NULL, WNOHANG)) return;
        usleep(10000);
    }
    kill_process(d->balancer);
}

static int remove_one(const char *path, const struct stat *s, int type, struct FTW *at)
{
    (void)s, (void)type, (void)at;
    remove(path);
    return 0;
}

static void balance_demo_clean_up(struct demo *d)
{
    kill_process(d->clients);
    end_balancer(d);
    for (int i = 0; i < GW_DEMO_WORKERS; i++) kill_process(d->worker[i]);
    if (d->says) fclose(d->says);
    gw_demo_net_drop(&d->net);
    if (d->dir[0]) nftw(d->dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    munmap(d->tally, sizeof(*d->tally));
}

int gw_balance_demo(const struct gw_balance_args *a)
{
    struct demo d = {0};
    (void)a;
    if (geteuid()) {
        fprintf(stderr, "gpuwire balance: the demo makes network namespaces: run it as root\n");
        return GW_EXIT_FAILURE;
    }
    if (!gw_balance_has_dpdk()) {
        fprintf(stderr, "gpuwire balance: built without DPDK; install libdpdk-dev and build again\n");
        return GW_EXIT_FAILURE;
    }
    d.tally = mmap(NULL, sizeof(*d.tally), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (d.tally == MAP_FAILED) return GW_EXIT_FAILURE;
    gw_catch_signals();
    printf("six hosts in network namespaces: a balancer, a client, three workers, and a switch\n");
    int err = gw_demo_net_make(&d.net);
    if (!err) err = write_config(&d);
    if (!err) err = start_load(&d);
    if (!err) err = start_balancer(&d);
    if (!err) err = balance_demo_start_clients(&d);
    if (!err) err = act(&d);
    if (!err) err = balance_demo_judge(d.tally);
    if (err && err != -ECHILD) gw_failed("balance");
    balance_demo_clean_up(&d);
    return gw_exit_code(err);
}
