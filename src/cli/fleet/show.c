/* SPDX-License-Identifier: Apache-2.0 */
/* gpuwire fleet: a table of workers and models, once or live. Also its words drain, undrain and plan. */
#include <getopt.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "src/cli/fleet/ask.h"
#include "src/cli/fleet/fleet.h"
#include "src/cli/options.h"
#include "src/door/secret.h"

#define SHOW_EVERY_MS 1000
enum { SHOW_MODELS = 30 };

struct show_args {
    const char *controllers, *fleet, *token_file, *worker;
    bool once, json;
};

static const char show_usage[] =
    "usage: gpuwire fleet [OPTION...]\n"
    "       gpuwire fleet drain WORKER [OPTION...]      give it nothing new, and move away what it has\n"
    "       gpuwire fleet undrain WORKER [OPTION...]    let it take part again\n"
    "       gpuwire fleet plan [OPTION...]              what the planner would do now, as JSON\n"
    "       gpuwire fleet emulate [OPTION...]           workers that compute nothing\n"
    "       gpuwire fleet demo [OPTION...]              a fleet on this host, parts of which die\n"
    "\n"
    "Without a word it shows workers, models, places and deadlines kept, again every second.\n"
    "\n"
    "  --controller LIST controllers, HOST:PORT with commas (default 127.0.0.1:7400)\n"
    "  --fleet NAME      the fleet's name (default default)\n"
    "  --token-file FILE the fleet's token\n"
    "  --once            prints the table once\n"
    "  --json            prints what the controller says as JSON, once\n"
    "  -h, --help        this text\n";

enum { CONTROLLER = 256, FLEET, TOKEN, ONCE, JSON };
static const struct option show_options[] = {
    {"controller", 1, NULL, CONTROLLER},
    {"fleet", 1, NULL, FLEET},
    {"token-file", 1, NULL, TOKEN},
    {"once", 0, NULL, ONCE},
    {"json", 0, NULL, JSON},
    {"help", 0, NULL, 'h'},
    {NULL, 0, NULL, 0},
};

/* ---- the table */

static double show_number(const json_t *o, const char *name)
{
    return json_number_value(json_object_get(o, name));
}

static const char *show_text(const json_t *o, const char *name)
{
    const char *text = json_string_value(json_object_get(o, name));
    return text ? text : "?";
}

static void show_percent(double part, double all)
{
    if (all > 0)
        printf(" %9.3f%%", 100 * part / all);
    else
        printf(" %10s", "-");
}

static void show_workers(const json_t *all)
{
    size_t i;
    json_t *w;
    printf("%-20s %-8s %15s %7s %7s %7s %10s\n", "worker", "state", "GPU pages", "models", "leases", "queue",
           "late");
    json_array_foreach((json_t *)all, i, w)
    {
        printf("%-20s %-8s %7.0f of %4.0f %7.0f %7.0f %7.0f", show_text(w, "name"), show_text(w, "state"),
               show_number(w, "gpu_used"), show_number(w, "gpu_pages"), show_number(w, "models"),
               show_number(w, "leases"), show_number(w, "queue"));
        show_percent(show_number(w, "late"), show_number(w, "answered") + show_number(w, "late"));
        printf("\n");
    }
}

static void show_places(const json_t *places)
{
    size_t i, n = 0;
    json_t *p;
    json_array_foreach((json_t *)places, i, p)
    {
        if (strcmp(show_text(p, "where"), "gpu") != 0) continue;
        if (n++ < 3) printf(" %s", show_text(p, "worker"));
    }
    if (n > 3) printf(" and %zu more", n - 3);
}

/* The busiest first. */
static int show_by_rate(const void *a, const void *b)
{
    double x = show_number(*(json_t *const *)a, "rate"), y = show_number(*(json_t *const *)b, "rate");
    return (x < y) - (x > y);
}

static void show_model(const json_t *m)
{
    double refused = show_number(m, "refused"), answered = show_number(m, "answered");
    printf("%-24s %9.0f %8.0f %8.0f", show_text(m, "name"), show_number(m, "rate"), show_number(m, "clients"),
           show_number(m, "waiting"));
    show_percent(answered, answered + refused + show_number(m, "late"));
    show_places(json_object_get(m, "places"));
    printf("\n");
}

static void show_models(const json_t *all)
{
    size_t n = json_array_size(all);
    json_t **sorted = calloc(n ? n : 1, sizeof(*sorted));
    printf("\n%-24s %9s %8s %8s %10s %s\n", "model", "requests/s", "clients", "waiting", "kept", "on");
    for (size_t i = 0; sorted && i < n; i++) sorted[i] = json_array_get(all, i);
    if (sorted) qsort(sorted, n, sizeof(*sorted), show_by_rate);
    for (size_t i = 0; sorted && i < n && i < SHOW_MODELS; i++) show_model(sorted[i]);
    if (n > SHOW_MODELS) printf("and %zu more\n", n - SHOW_MODELS);
    free(sorted);
}

/* Models of the controller's --models. */
static void show_missing(const json_t *names)
{
    size_t n = json_array_size(names);
    if (!n) return;
    printf("\n%zu models are named, but on no worker:", n);
    for (size_t i = 0; i < n && i < SHOW_MODELS; i++)
        printf(" %s", json_string_value(json_array_get(names, i)));
    printf(n > SHOW_MODELS ? " and %zu more\n" : "\n", n - SHOW_MODELS);
}

static void show_table(const json_t *t)
{
    printf("fleet %s, term %lld: %.0f models, %.0f clients, %.0f leases; a round takes %.2f ms\n",
           show_text(t, "fleet"), (long long)json_integer_value(json_object_get(t, "term")),
           show_number(t, "models_known"), show_number(t, "clients"), show_number(t, "leases"),
           show_number(t, "round_us") / 1000);
    if (json_is_true(json_object_get(t, "frozen"))) printf("etcd is away: nothing new is granted\n");
    printf("\n");
    show_workers(json_object_get(t, "workers"));
    show_models(json_object_get(t, "models"));
    show_missing(json_object_get(t, "missing"));
    fflush(stdout);
}

static int show_live(const struct gw_fleet_ask *ask)
{
    int code = 0;
    gw_catch_signals();
    struct pollfd stop = {.fd = gw_interrupt_fd(), .events = POLLIN};
    while (!code && !gw_interrupted()) {
        json_t *answer;
        code = gw_fleet_ask(ask, "table", &answer);
        if (code) break;
        printf("\033[H\033[2J");
        show_table(answer);
        json_decref(answer);
        poll(&stop, 1, SHOW_EVERY_MS);
    }
    return code ? code : gw_exit_code(false);
}

/* ---- the words */

static int show_parse(const char *command, int argc, char **argv, bool wants_worker, struct show_args *a)
{
    *a = (struct show_args){.controllers = "127.0.0.1:7400", .fleet = "default"};
    opterr = 0;
    optind = 1;
    for (int c; (c = getopt_long(argc, argv, ":h", show_options, NULL)) != -1;) switch (c) {
        case CONTROLLER: a->controllers = optarg; break;
        case FLEET: a->fleet = optarg; break;
        case TOKEN: a->token_file = optarg; break;
        case ONCE: a->once = true; break;
        case JSON: a->json = true; break;
        case 'h': fputs(show_usage, stdout); return -1;
        default: return gw_option_wrong(command, argv, c);
        }
    if (wants_worker && optind == argc) return gw_usage_error(command, "which worker?");
    if (wants_worker) a->worker = argv[optind++];
    if (optind < argc) return gw_usage_error(command, "%s: it is not clear what this is for", argv[optind]);
    return 0;
}

/* Prints JSON for scripts. */
static void show_json(const json_t *answer)
{
    json_dumpf(answer, stdout, JSON_INDENT(1));
    printf("\n");
}

static int show_ask(const struct gw_fleet_ask *ask, const struct show_args *a, const char *line, bool table)
{
    json_t *answer;
    if (table && !a->once && !a->json && isatty(STDOUT_FILENO)) return show_live(ask);
    int code = gw_fleet_ask(ask, line, &answer);
    if (code) return code;
    if (table && !a->json)
        show_table(answer);
    else if (!a->worker)
        show_json(answer);
    json_decref(answer);
    return 0;
}

static int show_run(const char *command, int argc, char **argv, const char *word, bool wants_worker)
{
    struct show_args a;
    char line[200], *token = NULL;
    int code = show_parse(command, argc, argv, wants_worker, &a);
    if (code) return code < 0 ? GW_EXIT_OK : code;
    if (a.token_file && gw_secret_take_token(NULL, a.token_file, &token)) return gw_failed(command);
    struct gw_fleet_ask ask = {command, a.controllers, a.fleet, token, .quiet = false};
    snprintf(line, sizeof(line), "%s%s%s", word, a.worker ? " " : "", a.worker ? a.worker : "");
    code = show_ask(&ask, &a, line, !strcmp(word, "table"));
    gw_secret_forget(token);
    return code;
}

int gw_fleet_show(int argc, char **argv)
{
    return show_run("fleet", argc, argv, "table", false);
}

int gw_fleet_plan(int argc, char **argv)
{
    return show_run("fleet plan", argc, argv, "plan", false);
}

int gw_fleet_drain(int argc, char **argv)
{
    return show_run("fleet drain", argc, argv, "drain", true);
}

int gw_fleet_undrain(int argc, char **argv)
{
    return show_run("fleet undrain", argc, argv, "undrain", true);
}
