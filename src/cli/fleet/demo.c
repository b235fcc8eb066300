/* SPDX-License-Identifier: Apache-2.0 */
/* gpuwire fleet demo: parts of a fleet on this host die one after the other. What became of requests? */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <gpuwire/error.h>
#include <gpuwire/exec.h>

#include "src/cli/fleet/ask.h"
#include "src/cli/fleet/demo_load.h"
#include "src/cli/fleet/demo_process.h"
#include "src/cli/fleet/fleet.h"
#include "src/cli/options.h"

#define DEMO_COMMAND "fleet demo"
#define DEMO_PROFILE "resnet50-h200"
#define DEMO_S       UINT64_C(1000000000)
#define DEMO_PATIENT (60 * DEMO_S)
enum { DEMO_CONTROLLERS = 2, DEMO_WORKERS = 4, DEMO_MODELS = 40, DEMO_DIES = 1, DEMO_ENOUGH = 90 };

static const char demo_usage[] =
    "usage: gpuwire fleet demo [OPTION...]\n"
    "\n"
    "Starts etcd, 2 controllers and 4 emulated workers of 40 models on this host, and sends them requests "
    "with\n"
    "a deadline. Then it kills a worker, the leading controller, and etcd, which comes back after a while. A "
    "table\n"
    "says what became of the requests. It takes half a minute, listens on 127.0.0.1 alone, and leaves "
    "nothing.\n"
    "\n"
    "  --deadline MS    of each request, in milliseconds (default 20)\n"
    "  --rate N         requests a second (default 200)\n"
    "  --quick          shorter: some seconds\n"
    "  -h, --help       this text\n"
    "\n"
    "Exit code 0: deadlines were kept again after each fault; 1: not; 130: ended by Ctrl-C.\n";

struct demo_fleet {
    uint64_t deadline_ms, rate, began;
    bool quick;
    char folder[DEMO_PATH], etcd_url[40], peer_url[40], where[DEMO_CONTROLLERS][32], list[64];
    uint16_t etcd_port;
    struct gw_demo_process etcd, controller[DEMO_CONTROLLERS], worker[DEMO_WORKERS];
    int leader; /* which controller */
    struct gw_demo_load *load;
};

/* A line with the seconds since the start. */
__attribute__((format(printf, 2, 3))) static void demo_say(const struct demo_fleet *d, const char *format,
                                                           ...)
{
    va_list args;
    printf("%5.1f s  ", (double)(gw_deadline(0) - d->began) / (double)DEMO_S);
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    printf("\n");
    fflush(stdout);
}

/* ---- waiting */

static int demo_alive(struct demo_fleet *d)
{
    struct gw_demo_process *all[1 + DEMO_CONTROLLERS + DEMO_WORKERS];
    int n = 0;
    all[n++] = &d->etcd;
    for (int i = 0; i < DEMO_CONTROLLERS; i++) all[n++] = &d->controller[i];
    for (int i = 0; i < DEMO_WORKERS; i++) all[n++] = &d->worker[i];
    for (int i = 0; i < n; i++)
        if (all[i]->pid && !gw_demo_process_lives(all[i], d->folder)) return -ECHILD;
    return 0;
}

/* Waits until `is` holds. */
static int demo_until(struct demo_fleet *d, bool (*is)(struct demo_fleet *d), const char *what)
{
    uint64_t end = gw_deadline(DEMO_PATIENT);
    int fd = gw_interrupt_fd();
    while (!is(d)) {
        int err = demo_alive(d);
        if (err) return err;
        gw_wait_fds(&fd, 1, gw_deadline(DEMO_S / 20));
        if (gw_interrupted()) return gw_error(-EINTR, "interrupted");
        if (gw_deadline(0) > end)
            return gw_error(-ETIMEDOUT,
                            "%s: not within a minute; if this host has too much other work, give a lower "
                            "--rate or a longer --deadline",
                            what);
    }
    return 0;
}

static int demo_wait(struct demo_fleet *d, double seconds)
{
    int fd = gw_interrupt_fd();
    gw_wait_fds(&fd, 1, gw_deadline((uint64_t)(seconds * (double)DEMO_S)));
    if (gw_interrupted()) return gw_error(-EINTR, "interrupted");
    return demo_alive(d);
}

static bool demo_etcd_answers(struct demo_fleet *d)
{
    return gw_demo_port_answers(d->etcd_port);
}

static int demo_active(const json_t *table)
{
    size_t i;
    json_t *w;
    int n = 0;
    json_array_foreach(json_object_get(table, "workers"), i, w)
    {
        const char *state = json_string_value(json_object_get(w, "state"));
        n += state && !strcmp(state, "active");
    }
    return n;
}

/* A controller leads, and all workers that live are with it. Says which. */
static bool demo_leads(struct demo_fleet *d)
{
    json_t *table;
    int lives = 0;
    struct gw_fleet_ask ask = {DEMO_COMMAND, d->list, "default", NULL, .quiet = true};
    for (int i = 0; i < DEMO_WORKERS; i++) lives += d->worker[i].pid != 0;
    if (gw_fleet_ask(&ask, "table", &table)) return false;
    const char *name = json_string_value(json_object_get(table, "controller"));
    bool leads = json_is_true(json_object_get(table, "leads")) &&
                 !json_is_true(json_object_get(table, "frozen")) && demo_active(table) == lives;
    for (int i = 0; name && i < DEMO_CONTROLLERS; i++)
        if (!strcmp(name, d->controller[i].name)) d->leader = i;
    json_decref(table);
    return leads;
}

static bool demo_keeps(struct demo_fleet *d)
{
    return gw_demo_load_kept(d->load) >= DEMO_ENOUGH;
}

/* ---- starting */

static int demo_etcd_start(struct demo_fleet *d)
{
    char data[DEMO_PATH + 16], cluster[64];
    snprintf(data, sizeof(data), "%s/etcd", d->folder);
    snprintf(cluster, sizeof(cluster), "default=%s", d->peer_url);
    const char *const argv[] = {"etcd",      "--data-dir",
                                data,        "--listen-client-urls",
                                d->etcd_url, "--advertise-client-urls",
                                d->etcd_url, "--listen-peer-urls",
                                d->peer_url, "--initial-advertise-peer-urls",
                                d->peer_url, "--initial-cluster",
                                cluster,     NULL};
    int err = gw_demo_process_start(&d->etcd, d->folder, "etcd", argv);
    return err ? err : demo_until(d, demo_etcd_answers, "etcd");
}

static int demo_controller_start(struct demo_fleet *d, int i)
{
    char name[DEMO_NAME];
    snprintf(name, sizeof(name), "controller-%d", i + 1);
    const char *const argv[] = {"gpuwire", "controller", "--etcd", d->etcd_url, "--listen", d->where[i],
                                "--name",  name,         "--http", "off",       NULL};
    return gw_demo_process_start(&d->controller[i], d->folder, name, argv);
}

static int demo_worker_start(struct demo_fleet *d, int i)
{
    char name[DEMO_NAME], models[16];
    snprintf(name, sizeof(name), "worker-%d", i + 1);
    snprintf(models, sizeof(models), "%d", DEMO_MODELS);
    const char *const argv[] = {"gpuwire", "fleet",    "emulate", "--etcd",    d->etcd_url,  "--name",
                                name,      "--models", models,    "--profile", DEMO_PROFILE, NULL};
    return gw_demo_process_start(&d->worker[i], d->folder, name, argv);
}

static int demo_addresses(struct demo_fleet *d)
{
    uint16_t port[2 + DEMO_CONTROLLERS];
    int err = gw_demo_ports(port, 2 + DEMO_CONTROLLERS);
    if (err) return err;
    d->etcd_port = port[0];
    snprintf(d->etcd_url, sizeof(d->etcd_url), "http://127.0.0.1:%u", port[0]);
    snprintf(d->peer_url, sizeof(d->peer_url), "http://127.0.0.1:%u", port[1]);
    for (int i = 0; i < DEMO_CONTROLLERS; i++)
        snprintf(d->where[i], sizeof(d->where[i]), "127.0.0.1:%u", port[2 + i]);
    snprintf(d->list, sizeof(d->list), "%s,%s", d->where[0], d->where[1]);
    return 0;
}

static int demo_start(struct demo_fleet *d)
{
    struct gw_demo_load_opts o = {.etcd = d->etcd_url,
                                  .profile = DEMO_PROFILE,
                                  .models = DEMO_MODELS,
                                  .rate = (double)d->rate,
                                  .deadline_ns = (int64_t)d->deadline_ms * 1000000};
    int err = gw_demo_folder_make(d->folder);
    if (!err) err = demo_addresses(d);
    if (!err) err = demo_etcd_start(d);
    for (int i = 0; !err && i < DEMO_CONTROLLERS; i++) err = demo_controller_start(d, i);
    for (int i = 0; !err && i < DEMO_WORKERS; i++) err = demo_worker_start(d, i);
    if (!err) err = demo_until(d, demo_leads, "a controller that leads all workers");
    if (err) return err;
    demo_say(d, "etcd at %s, controllers at %s; %s leads %d workers with %d models", d->etcd_url, d->list,
             d->controller[d->leader].name, DEMO_WORKERS, DEMO_MODELS);
    err = gw_demo_load_begin(&o, &d->load);
    if (!err) err = demo_until(d, demo_keeps, "deadlines kept");
    if (!err) err = demo_wait(d, 1); /* leases of all models */
    if (!err)
        demo_say(d, "%" PRIu64 " requests a second, each with a deadline of %" PRIu64 " ms", d->rate,
                 d->deadline_ms);
    return err;
}

/* ---- what happens */

/* A phase lasts this long; then deadlines must be kept again. */
static int demo_phase_end(struct demo_fleet *d, double seconds)
{
    int err = demo_wait(d, d->quick ? 1 : seconds);
    return err ? err : demo_until(d, demo_keeps, "deadlines kept again");
}

static int demo_kill_worker(struct demo_fleet *d)
{
    gw_demo_load_phase(d->load, DEMO_WORKER);
    gw_demo_process_kill(&d->worker[DEMO_DIES]);
    demo_say(d, "%s is killed", d->worker[DEMO_DIES].name);
    int err = demo_until(d, demo_leads, "the leader's notice of the dead worker");
    if (!err) demo_say(d, "%s knows", d->controller[d->leader].name);
    return err ? err : demo_phase_end(d, 4);
}

static int demo_kill_leader(struct demo_fleet *d)
{
    int old = d->leader;
    gw_demo_load_phase(d->load, DEMO_LEADER);
    gw_demo_process_kill(&d->controller[old]);
    demo_say(d, "%s, which leads, is killed", d->controller[old].name);
    uint64_t killed = gw_deadline(0);
    int err = demo_until(d, demo_leads, "another leader");
    if (err) return err;
    demo_say(d, "%s leads, after %.1f s", d->controller[d->leader].name,
             (double)(gw_deadline(0) - killed) / (double)DEMO_S);
    return demo_phase_end(d, 3);
}

static int demo_kill_etcd(struct demo_fleet *d)
{
    gw_demo_load_phase(d->load, DEMO_ETCD);
    gw_demo_process_kill(&d->etcd);
    demo_say(d, "etcd is killed: what was granted goes on");
    int err = demo_phase_end(d, 4);
    if (!err) gw_demo_load_phase(d->load, DEMO_BACK);
    if (!err) err = demo_etcd_start(d);
    if (err) return err;
    demo_say(d, "etcd is back, with the same data");
    err = demo_until(d, demo_leads, "a leader after etcd's return");
    if (!err) demo_say(d, "%s leads", d->controller[d->leader].name);
    return err ? err : demo_phase_end(d, 3);
}

static int demo_act(struct demo_fleet *d)
{
    gw_demo_load_phase(d->load, DEMO_STEADY);
    int err = demo_phase_end(d, 4);
    if (!err) err = demo_kill_worker(d);
    if (!err) err = demo_kill_leader(d);
    if (!err) err = demo_kill_etcd(d);
    return err;
}

/* ---- what came of it */

static void demo_table(const struct demo_fleet *d)
{
    static const char *const names[] = {[DEMO_STEADY] = "all is well",
                                        [DEMO_WORKER] = "worker killed",
                                        [DEMO_LEADER] = "leader killed",
                                        [DEMO_ETCD] = "etcd killed",
                                        [DEMO_BACK] = "etcd is back"};
    printf("\n%-14s %9s %9s %7s %8s %6s %8s %8s %10s\n", "", "requests", "in time", "late", "refused", "lost",
           "p50, ms", "p99, ms", "recovery");
    for (int p = DEMO_STEADY; p < DEMO_PHASES; p++) {
        const struct gw_demo_count *c = gw_demo_load_count(d->load, (enum gw_demo_phase)p);
        printf("%-14s %9" PRIu64 " %8.2f%% %7" PRIu64 " %8" PRIu64 " %6" PRIu64 " %8.2f %8.2f", names[p],
               c->requests, c->requests ? 100.0 * (double)c->kept / (double)c->requests : 0.0, c->late,
               c->refused, c->lost, (double)gw_histogram_percentile(&c->time, 50) / 1e6,
               (double)gw_histogram_percentile(&c->time, 99) / 1e6);
        if (c->recovery_ns)
            printf(" %8.1f s\n", (double)c->recovery_ns / 1e9);
        else
            printf(" %10s\n", "-");
    }
    printf(
        "\nrecovery: after it, each fifth of a second had %d %% of its requests in time; -: it always had\n",
        DEMO_ENOUGH);
}

static void demo_clean_up(struct demo_fleet *d)
{
    gw_demo_load_free(d->load);
    for (int i = 0; i < DEMO_WORKERS; i++) gw_demo_process_kill(&d->worker[i]);
    for (int i = 0; i < DEMO_CONTROLLERS; i++) gw_demo_process_end(&d->controller[i]);
    gw_demo_process_end(&d->etcd);
    gw_demo_folder_remove(d->folder);
}

static int demo_parse(int argc, char **argv, struct demo_fleet *d)
{
    static const struct option options[] = {{"deadline", 1, NULL, 'd'},
                                            {"rate", 1, NULL, 'r'},
                                            {"quick", 0, NULL, 'q'},
                                            {"help", 0, NULL, 'h'},
                                            {0}};
    int err = 0;
    opterr = 0;
    optind = 1;
    for (int c; !err && (c = getopt_long(argc, argv, ":h", options, NULL)) != -1;) switch (c) {
        case 'd':
            err = gw_option_number(DEMO_COMMAND, "--deadline", optarg, 1, 60000, &d->deadline_ms);
            break;
        case 'r': err = gw_option_number(DEMO_COMMAND, "--rate", optarg, 10, 10000, &d->rate); break;
        case 'q': d->quick = true; break;
        case 'h': fputs(demo_usage, stdout); return -1;
        default: return gw_option_wrong(DEMO_COMMAND, argv, c);
        }
    if (!err && optind < argc)
        return gw_usage_error(DEMO_COMMAND, "%s: it is not clear what this is for", argv[optind]);
    return err;
}

/* Is this program on the PATH? */
static bool demo_installed(const char *program)
{
    const char *at = getenv("PATH");
    char path[4096];
    for (; at && *at; at += strcspn(at, ":"), at += *at == ':') {
        int n = snprintf(path, sizeof(path), "%.*s/%s", (int)strcspn(at, ":"), at, program);
        if (n < (int)sizeof(path) && !access(path, X_OK)) return true;
    }
    return false;
}

int gw_fleet_demo(int argc, char **argv)
{
    struct demo_fleet d = {.deadline_ms = 20, .rate = 200, .began = gw_deadline(0)};
    int code = demo_parse(argc, argv, &d);
    if (code) return code < 0 ? GW_EXIT_OK : code;
    if (!demo_installed("etcd"))
        return gw_fail(DEMO_COMMAND, "there is no etcd on this host; Debian's package etcd-server has it");
    gw_catch_signals();
    int err = demo_start(&d);
    if (!err) err = demo_act(&d);
    if (!err) {
        gw_demo_load_end(d.load);
        demo_table(&d);
    } else if (!gw_interrupted()) {
        gw_failed(DEMO_COMMAND);
    }
    demo_clean_up(&d);
    return gw_exit_code(err);
}
