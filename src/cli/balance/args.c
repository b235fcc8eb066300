/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the command line of `gpuwire balance`, and starts what it names. */
#include "src/cli/balance/args.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "src/cli/cli.h"
#include "src/cli/options.h"
#include "src/door/log.h"

static const char usage[] =
    "usage: gpuwire balance --config FILE [--keep]\n"
    "       gpuwire balance check FILE\n"
    "       gpuwire balance list | top | save | reload\n"
    "       gpuwire balance add VIP:PORT[/tcp|/udp|/roce] [--scheduler S] [--forward F] [--name NAME]\n"
    "       gpuwire balance add SERVICE ADDRESS[:PORT] [--weight N] [--name NAME]\n"
    "       gpuwire balance weight SERVICE WORKER N\n"
    "       gpuwire balance drain SERVICE WORKER [--limit S]\n"
    "       gpuwire balance up SERVICE WORKER\n"
    "       gpuwire balance remove SERVICE [WORKER] [--now | --limit S]\n"
    "       gpuwire balance demo\n"
    "\n"
    "Spreads TCP, UDP and RoCEv2 clients of virtual addresses over workers, and keeps each connection where "
    "it "
    "began.\n"
    "With --config it runs here, until SIGINT or SIGTERM; SIGHUP reads the file again. `check` reads a file "
    "and "
    "says what\n"
    "is wrong with it. The others ask the balancer that runs. `reload` has it read its file again, and says "
    "what "
    "is\n"
    "wrong. `drain` gives a worker no new connections; "
    "`remove` "
    "does the\n"
    "same, and takes it away when its last one has ended. `demo` shows all that in network namespaces of its "
    "own, "
    "as root.\n"
    "\n"
    "  --config FILE    services, workers, ports, as keepalived writes them; docs/balance.md\n"
    "  --keep           packets are forwarded on when this process ends; the next one takes over\n"
    "  --api URL        where the balancer's API is (default " GW_BALANCE_API ")\n"
    "  --token-file FILE\n"
    "                   the API's token: for users other than root and the balancer's own\n"
    "  --ca-file FILE   who may sign the API's certificate (default: the system's)\n"
    "  --scheduler S    rr, wrr, lc, wlc, sh, mh, p2c or lb (default wlc)\n"
    "  --forward F      DR, TUN, GUE or NAT (default DR)\n"
    "  --name NAME      of the new service or worker (default: made from its address)\n"
    "  --weight N       of the new worker, 0 to 65535 (default 1)\n"
    "  --limit S        seconds that the drain may last, 0: without a limit (default: the service's\n"
    "                   drain_limit, which is 300 for UDP). Then its connections go to other workers\n"
    "  --now            the worker goes at once, and its connections with it\n"
    "  --json           list: as the API says it\n"
    "  --interval MS    top: between two looks (default 1000)\n"
    "  --once           top: one look, and no more\n"
    "  -h, --help       this text\n";

enum {
    CONFIG = 256,
    KEEP,
    API,
    TOKEN,
    CA,
    SCHEDULER,
    FORWARD,
    NAME,
    WEIGHT,
    NOW,
    JSON,
    INTERVAL,
    ONCE,
    LIMIT
};

static const struct option options[] = {
    {"config", 1, NULL, CONFIG},   {"keep", 0, NULL, KEEP},
    {"api", 1, NULL, API},         {"token-file", 1, NULL, TOKEN},
    {"ca-file", 1, NULL, CA},      {"scheduler", 1, NULL, SCHEDULER},
    {"forward", 1, NULL, FORWARD}, {"name", 1, NULL, NAME},
    {"weight", 1, NULL, WEIGHT},   {"now", 0, NULL, NOW},
    {"json", 0, NULL, JSON},       {"interval", 1, NULL, INTERVAL},
    {"once", 0, NULL, ONCE},       {"limit", 1, NULL, LIMIT},
    {"help", 0, NULL, 'h'},        {0},
};

static const struct verb {
    const char *name;
    unsigned least, most; /* words after it */
    const char *wants;
    int (*run)(const struct gw_balance_args *a);
} verbs[] = {
    {"check", 1, 1, "a file", gw_balance_check},
    {"list", 0, 0, NULL, gw_balance_list},
    {"top", 0, 0, NULL, gw_balance_top},
    {"save", 0, 0, NULL, gw_balance_save},
    {"reload", 0, 0, NULL, gw_balance_reload},
    {"add", 1, 2, "VIP:PORT, or a service and a worker's address", gw_balance_add},
    {"weight", 3, 3, "a service, a worker and a number", gw_balance_weight},
    {"drain", 2, 2, "a service and a worker", gw_balance_drain},
    {"up", 2, 2, "a service and a worker", gw_balance_up},
    {"remove", 1, 2, "a service, or a service and a worker", gw_balance_remove},
    {"demo", 0, 0, NULL, gw_balance_demo},
    {"plane", 0, 1, "nothing, or its settings",
     gw_balance_plane}, /* what `gpuwire balance --config` starts; not for people */
};
#define VERBS (sizeof(verbs) / sizeof(verbs[0]))

static int balance_args_take_option(struct gw_balance_args *a, int option)
{
    switch (option) {
    case CONFIG: a->config = optarg; break;
    case KEEP: a->keep = 1; break;
    case API: a->api = optarg; break;
    case TOKEN: a->token_file = optarg; break;
    case CA: a->ca_file = optarg; break;
    case SCHEDULER: a->scheduler = optarg; break;
    case FORWARD: a->forward = optarg; break;
    case NAME: a->name = optarg; break;
    case NOW: a->now = 1; break;
    case JSON: a->json = 1; break;
    case ONCE: a->once = 1; break;
    case WEIGHT:
        a->has_weight = 1;
        return gw_option_number("balance", "--weight", optarg, 0, 65535, &a->weight);
    case LIMIT:
        a->has_limit = 1;
        return gw_option_number("balance", "--limit", optarg, 0, 86400, &a->limit_s);
    case INTERVAL: return gw_option_number("balance", "--interval", optarg, 10, 3600000, &a->interval_ms);
    }
    return 0;
}

static int balance_args_take_words(struct gw_balance_args *a, int n, char **word)
{
    const struct verb *v = verbs;
    if (!n)
        return a->config ? -1 : gw_usage_error("balance", "--config FILE is missing, or a word such as list");
    while (v < verbs + VERBS && strcmp(v->name, word[0])) v++;
    if (v == verbs + VERBS) return gw_usage_error("balance", "%s: no such word", word[0]);
    if ((unsigned)n - 1 < v->least || (unsigned)n - 1 > v->most)
        return v->wants ? gw_usage_error("balance", "%s: it wants %s", v->name, v->wants)
                        : gw_usage_error("balance", "%s: it takes no further words", v->name);
    a->verb = v->name;
    a->words = (unsigned)n - 1 < 2 ? (unsigned)n - 1 : 2;
    for (unsigned i = 0; i < a->words; i++) a->word[i] = word[1 + i];
    if (v->run == gw_balance_weight)
        return gw_option_number("balance", "weight", word[3], 0, 65535, &a->weight) ?: -1;
    return -1;
}

int gw_balance_args(int argc, char **argv, struct gw_balance_args *a)
{
    int option, wrong;
    optind = 1;
    opterr = 0;
    while ((option = getopt_long(argc, argv, ":h", options, NULL)) >= 0) {
        if (option == 'h') {
            fputs(usage, stdout);
            return GW_EXIT_OK;
        }
        if (option == '?' || option == ':') return gw_option_wrong("balance", argv, option);
        if ((wrong = balance_args_take_option(a, option))) return wrong;
    }
    return balance_args_take_words(a, argc - optind, argv + optind);
}

int gw_cli_balance(int argc, char **argv)
{
    struct gw_balance_args a = {.api = GW_BALANCE_API, .interval_ms = 1000};
    int wrong = gw_balance_args(argc, argv, &a);
    gw_log_name("gpuwire balance");
    if (wrong >= 0) return wrong;
    if (!a.verb) return gw_balance_run_here(&a);
    for (size_t i = 0; i < VERBS; i++)
        if (!strcmp(verbs[i].name, a.verb)) return verbs[i].run(&a);
    return GW_EXIT_USAGE;
}
