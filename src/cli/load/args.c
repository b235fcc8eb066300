/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the command line of `gpuwire load`. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/cli/load/load.h"
#include "src/cli/options.h"

static const char usage[] =
    "usage: gpuwire load MODEL [OPTION...]\n"
    "       gpuwire load MODEL --concurrency FROM[:TO[:STEP|:2x]] [OPTION...]\n"
    "       gpuwire load MODEL --rate FROM[:TO[:STEP|:2x]] [OPTION...]\n"
    "\n"
    "Loads a server, over RDMA or HTTP, or a fleet, and reports rate and latencies. Plain, it sends "
    "--requests as fast "
    "as the\n"
    "server answers. --concurrency keeps N in flight; --rate sends N a second, answered or not, "
    "and\n"
    "counts a latency from when the request was to be sent. Both try one level after the other; a level ends "
    "when\n"
    "three windows agree.\n"
    "\n"
    "  --server URL        where the server listens: HOST:PORT or rdma:// (RDMA), http://, https://,\n"
    "                      grpc:// or grpcs:// (default 127.0.0.1:8000)\n"
    "  --fleet ADDRESSES   instead: a fleet's controllers, HOST:PORT[,HOST:PORT], or http://HOST:PORT of its "
    "etcd\n"
    "                      (with /NAME at its end for a fleet that is not called default)\n"
    "  --token-file FILE   a file with the server's bearer token\n"
    "  --ca-file FILE      who may sign the server's certificate (PEM; default: the system's)\n"
    "  --model-version V   of the model (default: the server's choice)\n"
    "  --clients N         sessions, or groups of connections, a thread each (default 1, or as many as it "
    "takes)\n"
    "  --slots N           requests that a client keeps in flight (default: as many as the server gives)\n"
    "  --requests N        of each level, all clients together (default 1000; with levels: until it is "
    "steady)\n"
    "  --concurrency RANGE requests in flight: 1:16:2x tries 1, 2, 4, 8 and 16\n"
    "  --rate RANGE        requests a second: 100:500:100 tries 100, 200, 300, 400 and 500\n"
    "  --arrivals HOW      of --rate: poisson (default) or constant\n"
    "  --seed N            of the arrivals (default 1)\n"
    "  --window SECONDS    how long a window is (default 1)\n"
    "  --windows N         at most, at a level (default 10)\n"
    "  --stability PERCENT rate and mean latency of three windows lie so near their means (default 10)\n"
    "  --warmup SECONDS    before the first window (default 0.5)\n"
    "  --rows N            samples in each request (default 1)\n"
    "  --priority N        1 is served first (default: the model's)\n"
    "  --deadline TIME     20ms, 500us, 1s: an answer after it is worth nothing: the server refuses late "
    "ones\n"
    "  --input NAME=IN.npy an input as numpy saves it (default: random numbers)\n"
    "  --verify-echo       other numbers in each request, and every answer must be its request (model "
    "identity)\n"
    "  --csv FILE, --json FILE, --plot FILE.svg   where the results go, too (a plot takes gnuplot)\n"
    "  -h, --help          this text\n"
    "\n"
    "Exit code 0: all answered, and rightly; 1: not; 2: wrong usage; 130: ended by Ctrl-C.\n";

enum {
    CLIENTS = GW_DOOR_OPTIONS_END,
    REQUESTS,
    CONCURRENCY,
    RATE,
    ARRIVALS,
    SEED,
    WINDOW,
    WINDOWS,
    STABILITY,
    WARMUP,
    ROWS,
    INPUT,
    VERIFY,
    CSV,
    JSON,
    PLOT,
};

static const struct option options[] = {
    GW_DOOR_OPTIONS,
    {"clients", 1, NULL, CLIENTS},
    {"requests", 1, NULL, REQUESTS},
    {"concurrency", 1, NULL, CONCURRENCY},
    {"rate", 1, NULL, RATE},
    {"arrivals", 1, NULL, ARRIVALS},
    {"seed", 1, NULL, SEED},
    {"window", 1, NULL, WINDOW},
    {"windows", 1, NULL, WINDOWS},
    {"stability", 1, NULL, STABILITY},
    {"warmup", 1, NULL, WARMUP},
    {"rows", 1, NULL, ROWS},
    {"input", 1, NULL, INPUT},
    {"verify-echo", 0, NULL, VERIFY},
    {"csv", 1, NULL, CSV},
    {"json", 1, NULL, JSON},
    {"plot", 1, NULL, PLOT},
    {"help", 0, NULL, 'h'},
    {0},
};

static const struct whole {
    int option;
    const char *name;
    uint64_t least, most;
} wholes[] = {
    {CLIENTS, "--clients", 1, GW_LOAD_CLIENTS},
    {REQUESTS, "--requests", 1, UINT64_C(1) << 40},
    {SEED, "--seed", 0, UINT64_MAX},
    {WINDOWS, "--windows", GW_WINDOWS, 1000},
    {ROWS, "--rows", 1, 65536},
};

static void take_whole(struct gw_load_options *o, int option, uint64_t n)
{
    switch (option) {
    case CLIENTS: o->clients = n; break;
    case REQUESTS: o->requests = n; break;
    case SEED: o->seed = n; break;
    case WINDOWS: o->max_windows = n; break;
    default: o->door.request.rows = (uint32_t)n; break;
    }
}

static int parse_real(const char *name, const char *text, double least, double most, double *out)
{
    char *end;
    double v = strtod(text, &end);
    if (text[0] < '0' || text[0] > '9' || *end || !(v >= least && v <= most))
        return gw_usage_error("load", "%s %s: must be a number from %g to %g", name, text, least, most);
    *out = v;
    return 0;
}

static int parse_sweep(struct gw_load_options *o, enum gw_load_mode mode, const char *text)
{
    int rate = mode == GW_LOAD_RATE;
    if (o->mode != GW_LOAD_REQUESTS && o->mode != mode)
        return gw_usage_error("load", "--concurrency and --rate do not go together");
    o->mode = mode;
    if (!gw_sweep_parse(text, rate ? 0.01 : 1, rate ? 1e7 : GW_LOAD_CLIENTS * GW_CLIENT_MAX_SLOTS, !rate,
                        &o->sweep))
        return 0;
    return gw_usage_error("load",
                          "%s %s: expected FROM, FROM:TO, FROM:TO:STEP or FROM:TO:2x, up to %d levels",
                          rate ? "--rate" : "--concurrency", text, GW_SWEEP_LEVELS);
}

static int load_args_take_option(struct gw_load_options *o, int option)
{
    switch (option) {
    case CONCURRENCY: return parse_sweep(o, GW_LOAD_CONCURRENCY, optarg);
    case RATE: return parse_sweep(o, GW_LOAD_RATE, optarg);
    case ARRIVALS:
        o->constant = !strcmp(optarg, "constant");
        if (o->constant || !strcmp(optarg, "poisson")) return 0;
        return gw_usage_error("load", "--arrivals %s: must be poisson or constant", optarg);
    case WINDOW: return parse_real("--window", optarg, 0.01, 3600, &o->window_s);
    case STABILITY: return parse_real("--stability", optarg, 0.1, 100, &o->stability);
    case WARMUP: return parse_real("--warmup", optarg, 0, 3600, &o->warmup_s);
    case INPUT: return gw_files_add("load", "--input", &o->input, optarg);
    case VERIFY: o->verify = 1; return 0;
    case CSV: o->csv = optarg; return 0;
    case JSON: o->json = optarg; return 0;
    case PLOT: o->plot = optarg; return 0;
    default: return -1;
    }
}

static int one_option(char **argv, struct gw_load_options *o, int option)
{
    uint64_t n = 0;
    for (size_t i = 0; i < sizeof(wholes) / sizeof(wholes[0]); i++) {
        if (wholes[i].option != option) continue;
        int wrong = gw_option_number("load", wholes[i].name, optarg, wholes[i].least, wholes[i].most, &n);
        if (!wrong) take_whole(o, option, n);
        return wrong;
    }
    int wrong = gw_door_option("load", &o->door, option, optarg);
    if (wrong < 0) wrong = load_args_take_option(o, option);
    return wrong < 0 ? gw_option_wrong("load", argv, option) : wrong;
}

int gw_load_parse(int argc, char **argv, struct gw_load_options *o)
{
    int option, wrong = 0;
    optind = 1;
    opterr = 0;
    while (!wrong && (option = getopt_long(argc, argv, ":h", options, NULL)) >= 0) {
        if (option == 'h') {
            fputs(usage, stdout);
            return GW_EXIT_OK;
        }
        wrong = one_option(argv, o, option);
    }
    if (!wrong) wrong = gw_door_model("load", argc, argv, &o->client);
    if (wrong) return wrong;
    if (o->verify && o->input.count)
        return gw_usage_error("load", "--verify-echo makes its own numbers: it does not go with --input");
    if (o->mode == GW_LOAD_REQUESTS && !o->requests) o->requests = 1000;
    return -1;
}
