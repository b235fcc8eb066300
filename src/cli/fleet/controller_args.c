/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the command line of `gpuwire controller`. */
#include <arpa/inet.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "src/cli/fleet/controller.h"
#include "src/cli/options.h"

#define CONTROLLER "controller"

static const char usage[] =
    "usage: gpuwire controller --etcd URL[,URL] | --standalone [OPTION...]\n"
    "\n"
    "Plans which model lies on which GPU of a fleet, and grants clients leases of its workers. No request "
    "passes "
    "it.\n"
    "\n"
    "  --etcd LIST      etcd, as http://HOST:PORT with commas: one of several controllers leads\n"
    "  --standalone     leads alone, without etcd\n"
    "  --listen WHERE   HOST:PORT for workers and clients (default 127.0.0.1:7400)\n"
    "  --address WHERE  HOST:PORT where others reach it (default: as --listen)\n"
    "  --fleet NAME     the fleet's name (default default)\n"
    "  --name NAME      of this controller, for logs (default: the host's)\n"
    "  --models PATH    models that it waits for: a model repository, or a file of JSON that also says on "
    "how "
    "many\n"
    "                   GPUs each shall be: [\"NAME\", {\"name\": \"NAME\", \"replicas\": 2}]; SIGHUP reads "
    "it "
    "again\n"
    "  --token-file FILE the fleet's token; without one all peers must be on this host\n"
    "  --http WHERE     HOST:PORT of its page and metrics (default 127.0.0.1:7480; 0: any port, off: none)\n"
    "  --http-token-file FILE a token that each HTTP call must bring\n"
    "  --audit FILE     a line of JSON for each action, - for standard output; SIGHUP opens the file again\n"
    "  --dry-run        says what it would do, and sends nothing\n"
    "  --telemetry MS   how often workers tell of themselves (default 10)\n"
    "  --device NAME    a NIC of this host, or softnic: workers with a NIC write their telemetry to it by "
    "RDMA\n"
    "                   (default off: all send it over TCP)\n"
    "  --max-workers N  (default 1024)\n"
    "  --max-models N   (default 16384)\n"
    "  --max-places N   models on workers, in GPU or host memory (default 262144)\n"
    "  -h, --help       this text\n"
    "\n"
    "Prints one line when it listens. SIGINT or SIGTERM ends it: what it granted goes on for ten seconds.\n";

enum {
    ETCD = 256,
    STANDALONE,
    LISTEN,
    ADDRESS,
    FLEET,
    NAME,
    MODELS,
    TOKEN,
    HTTP,
    HTTP_TOKEN,
    AUDIT,
    DRY_RUN,
    TELEMETRY,
    DEVICE,
    MAX_WORKERS,
    MAX_MODELS,
    MAX_PLACES
};

static const struct option options[] = {
    {"etcd", 1, NULL, ETCD},
    {"standalone", 0, NULL, STANDALONE},
    {"listen", 1, NULL, LISTEN},
    {"address", 1, NULL, ADDRESS},
    {"fleet", 1, NULL, FLEET},
    {"name", 1, NULL, NAME},
    {"models", 1, NULL, MODELS},
    {"token-file", 1, NULL, TOKEN},
    {"http", 1, NULL, HTTP},
    {"http-token-file", 1, NULL, HTTP_TOKEN},
    {"audit", 1, NULL, AUDIT},
    {"dry-run", 0, NULL, DRY_RUN},
    {"telemetry", 1, NULL, TELEMETRY},
    {"device", 1, NULL, DEVICE},
    {"max-workers", 1, NULL, MAX_WORKERS},
    {"max-models", 1, NULL, MAX_MODELS},
    {"max-places", 1, NULL, MAX_PLACES},
    {"help", 0, NULL, 'h'},
    {NULL, 0, NULL, 0},
};

static int controller_http(const char *text, struct gw_controller_args *a)
{
    struct sockaddr_storage at;
    socklen_t bytes;
    a->http = strcmp(text, "off") != 0;
    if (!a->http) return 0;
    int code = gw_option_listen(CONTROLLER, text, 7480, &at, &bytes);
    if (code) return code;
    bool six = at.ss_family == AF_INET6;
    const void *ip = six ? (const void *)&((const struct sockaddr_in6 *)&at)->sin6_addr
                         : (const void *)&((const struct sockaddr_in *)&at)->sin_addr;
    inet_ntop(at.ss_family, ip, a->http_host, sizeof(a->http_host));
    a->http_port = ntohs(six ? ((const struct sockaddr_in6 *)&at)->sin6_port
                             : ((const struct sockaddr_in *)&at)->sin_port);
    return 0;
}

static int controller_option(int c, struct gw_controller_args *a)
{
    switch (c) {
    case ETCD: a->etcd = optarg; return 0;
    case STANDALONE: a->standalone = true; return 0;
    case LISTEN: a->listen = optarg; return 0;
    case ADDRESS: a->address = optarg; return 0;
    case FLEET: a->fleet = optarg; return 0;
    case NAME: a->name = optarg; return 0;
    case MODELS: a->models = optarg; return 0;
    case TOKEN: a->token_file = optarg; return 0;
    case HTTP: return controller_http(optarg, a);
    case HTTP_TOKEN: a->http_token_file = optarg; return 0;
    case AUDIT: a->audit = optarg; return 0;
    case DRY_RUN: a->dry_run = true; return 0;
    case TELEMETRY: return gw_option_u32(CONTROLLER, "--telemetry", optarg, 1, 10000, &a->telemetry_ms);
    case DEVICE: a->device = strcmp(optarg, "off") ? optarg : NULL; return 0;
    case MAX_WORKERS:
        return gw_option_u32(CONTROLLER, "--max-workers", optarg, 1, 1 << 16, &a->limits.workers);
    case MAX_MODELS: return gw_option_u32(CONTROLLER, "--max-models", optarg, 1, 1 << 20, &a->limits.models);
    default: return gw_option_u32(CONTROLLER, "--max-places", optarg, 1, 1 << 26, &a->limits.places);
    }
}

int gw_controller_parse(int argc, char **argv, struct gw_controller_args *a)
{
    *a = (struct gw_controller_args){.listen = "127.0.0.1:7400",
                                     .fleet = "default",
                                     .http = true,
                                     .http_host = "127.0.0.1",
                                     .http_port = 7480};
    a->telemetry_ms = 10;
    opterr = 0;
    for (int c; (c = getopt_long(argc, argv, ":h", options, NULL)) != -1;) {
        if (c == 'h') {
            fputs(usage, stdout);
            return -1;
        }
        if (c == '?' || c == ':') return gw_option_wrong(CONTROLLER, argv, c);
        int code = controller_option(c, a);
        if (code) return code;
    }
    if (optind < argc)
        return gw_usage_error(CONTROLLER, "%s: it is not clear what this is for", argv[optind]);
    if (!a->etcd && !a->standalone) return gw_usage_error(CONTROLLER, "give --etcd URL, or --standalone");
    if (a->etcd && a->standalone)
        return gw_usage_error(CONTROLLER, "--etcd and --standalone exclude each other");
    return 0;
}
