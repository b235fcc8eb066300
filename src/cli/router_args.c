/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the command line of `gpuwire router`. */
#include "src/cli/router_args.h"

#include <getopt.h>
#include <stdio.h>

#include "src/cli/options.h"

static const char usage[] =
    "usage: gpuwire router --controller LIST|--etcd URL [OPTION...]\n"
    "\n"
    "Serves the models of a fleet over HTTP and gRPC (Open Inference Protocol), for clients without RDMA. "
    "Each\n"
    "request goes straight to a worker that the fleet's controller has leased: no tensor passes the "
    "controller.\n"
    "Any number of routers can stand side by side.\n"
    "\n"
    "  --controller LIST  the fleet's controllers: HOST:PORT, with commas between them\n"
    "  --etcd URL         or the fleet's etcd, which knows them: http://HOST:PORT, with commas between them\n"
    "  --fleet NAME       the fleet's name (default default)\n"
    "  --fleet-token-file FILE\n"
    "                     the fleet's token; without one, controllers and workers must be on this host\n"
    "  --name NAME        what the fleet's tables call this router (default router)\n"
    "  --deadline MS      of requests that name none: after this time the answer is worth nothing\n"
    "                     (default 10000)\n"
    "  --memory MIB       tensors that may be under way (default 1024)\n"
    "  --listen ADDRESS   where HTTP and gRPC listen, a numeric address; 0.0.0.0 and :: are all of the "
    "host's\n"
    "                     (default 127.0.0.1: this host alone)\n"
    "  --port N           HTTP port, 0 for any free one (default 8000)\n"
    "  --grpc PORT        gRPC port, 0 for any free one; off: no gRPC (default 8001; with --port 0 any free "
    "one)\n"
    "  --connections-per-client N\n"
    "                     connections of HTTP, and of gRPC, that one host, or one user of this host, may "
    "have\n"
    "                     (default 64)\n"
    "  --trusted-proxy LIST\n"
    "                     reverse proxies whose X-Forwarded-For names the client: addresses, networks, or "
    "users of\n"
    "                     this host (10.0.0.7,user 33)\n"
    "  --host-name LIST   names of this router that calls may have in their Host, beside addresses, "
    "localhost "
    "and the\n"
    "                     host's own name\n"
    "  --max-body MIB     the longest body of an inference over HTTP, the longest message over gRPC (default "
    "64)\n"
    "  --tls-cert FILE    HTTP and gRPC are encrypted, with this certificate (PEM, followed by the chain)\n"
    "  --tls-key FILE     and its key\n"
    "  --token-file FILE  every call must bring the token in this file: \"Authorization: Bearer TOKEN\"\n"
    "  --open-health      but for v2/health and its like, which every client may ask\n"
    "  --metrics-port N   metrics are answered on this port, too, and nothing else is\n"
    "  --drain-seconds N  how long requests under way may take when the router ends (default 30)\n"
    "  --access-log FILE  a line of JSON for each request, - for standard output; SIGHUP opens the file "
    "again\n"
    "  --log-level LEVEL  what is said on standard error: error, warning, info or debug (default info)\n"
    "  -h, --help         this text\n"
    "\n"
    "Prints one line when it listens. It is ready (v2/health/ready) when a controller answers, or leases "
    "are\n"
    "left. SIGINT or SIGTERM ends it, a second one at once.\n";

enum { CONTROLLER = GW_CLI_DOORS_END, ETCD, FLEET, FLEET_TOKEN, NAME, DEADLINE, MEMORY };

static const struct option options[] = {
    GW_CLI_DOORS_OPTIONS,
    {"controller", 1, NULL, CONTROLLER},
    {"etcd", 1, NULL, ETCD},
    {"fleet", 1, NULL, FLEET},
    {"fleet-token-file", 1, NULL, FLEET_TOKEN},
    {"name", 1, NULL, NAME},
    {"deadline", 1, NULL, DEADLINE},
    {"memory", 1, NULL, MEMORY},
    {"help", 0, NULL, 'h'},
    {0},
};

static int router_args_set(struct gw_cli_router *all, int id, const char *name, const char *value)
{
    uint64_t n = 0;
    int wrong = gw_cli_doors_set("router", &all->doors, id, name, value);
    if (wrong >= 0) return wrong;
    switch (id) {
    case CONTROLLER: all->fleet.client.controllers = value; return 0;
    case ETCD: all->fleet.client.etcd = value; return 0;
    case FLEET: all->fleet.client.fleet = value; return 0;
    case FLEET_TOKEN: all->fleet_token_file = value; return 0;
    case NAME: all->fleet.client.name = value; return 0;
    case DEADLINE:
        wrong = gw_option_number("router", name, value, 1, 86400000, &n);
        all->fleet.deadline_ns = (int64_t)n * 1000000;
        return wrong;
    default:
        wrong = gw_option_number("router", name, value, 1, 1u << 30, &n);
        all->fleet.memory = n << 20;
        return wrong;
    }
}

static void router_args_set_defaults(struct gw_cli_router *all)
{
    all->doors.http.port = 8000;
    all->doors.http.max_body = (uint64_t)64 << 20;
    all->doors.drain_ns = 30000000000u;
    all->fleet.client.name = "router";
    all->fleet.deadline_ns = 10000000000;
    all->fleet.memory = (uint64_t)1024 << 20;
}

int gw_cli_router_args(int argc, char **argv, struct gw_cli_router *all)
{
    char name[64];
    int option, which = 0, wrong = 0;
    router_args_set_defaults(all);
    optind = 1;
    opterr = 0;
    while (!wrong && (option = getopt_long(argc, argv, ":h", options, &which)) >= 0) {
        if (option == 'h') {
            fputs(usage, stdout);
            return GW_EXIT_OK;
        }
        if (option == '?' || option == ':') return gw_option_wrong("router", argv, option);
        snprintf(name, sizeof(name), "--%s", options[which].name);
        wrong = router_args_set(all, option, name, optarg);
    }
    if (wrong) return wrong;
    if (optind < argc) return gw_usage_error("router", "%s: not an option", argv[optind]);
    if (!all->fleet.client.controllers == !all->fleet.client.etcd)
        return gw_usage_error("router", "give --controller or --etcd, one of them");
    gw_cli_doors_settle(&all->doors);
    return -1;
}
