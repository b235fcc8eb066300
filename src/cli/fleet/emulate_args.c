/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the command line of `gpuwire fleet emulate`. */
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "src/cli/fleet/emulate.h"
#include "src/cli/options.h"

#define EMULATE "fleet emulate"

static const char usage[] =
    "usage: gpuwire fleet emulate --controller HOST:PORT[,HOST:PORT] [OPTION...]\n"
    "       gpuwire fleet emulate --etcd URL[,URL] [OPTION...]\n"
    "\n"
    "Runs workers in this process that compute nothing, and take the time that was measured of a model. They "
    "obey the\n"
    "leader, admit and refuse as GPUs do, and answer with zeros.\n"
    "\n"
    "  --controller LIST the controllers: HOST:PORT, with commas\n"
    "  --etcd LIST      or the etcd that knows the leader: http://HOST:PORT, with commas\n"
    "  --workers N      how many (default 1)\n"
    "  --models N       models that each of them can load (default 40)\n"
    "  --profile NAME   what a model takes: resnet50-v100, resnet50-h200, or a file (default resnet50-v100)\n"
    "  --gpu-pages N    memory of each GPU, in pages of 16 MiB (default 960)\n"
    "  --host-pages N   pinned memory of each host, the same (default: all models fit)\n"
    "  --slots N        requests in flight of all leases of a worker (default 4096)\n"
    "  --leases N       leases of a worker (default 4096)\n"
    "  --cold           models are on disk at first, not in pinned memory\n"
    "  --slow FACTOR    batches take this times what the profile says (default 1)\n"
    "  --seed N         of the durations (default 1)\n"
    "  --threads N      threads that share the workers (default 1)\n"
    "  --fleet-name NAME the fleet's name (default default)\n"
    "  --name PREFIX    workers are called PREFIX-0, PREFIX-1 and so on (default emulated)\n"
    "  --host ADDRESS   where their data ports listen, each on any free port (default 127.0.0.1)\n"
    "  --token-file FILE the fleet's token; without one all peers must be on this host\n"
    "  --drain-seconds N how long requests and leases may last when it ends (default 15)\n"
    "  --quiet          says nothing of single workers\n"
    "  -h, --help       this text\n"
    "\n"
    "Prints one line when it is ready. SIGINT or SIGTERM has the workers leave in order, a second one ends "
    "it "
    "at once.\n";

enum {
    CONTROLLER = 256,
    ETCD,
    WORKERS,
    MODELS,
    PROFILE,
    GPU_PAGES,
    HOST_PAGES,
    SLOTS,
    LEASES,
    COLD,
    SLOW,
    SEED,
    THREADS,
    FLEET,
    NAME,
    HOST,
    TOKEN,
    DRAIN,
    QUIET
};

static const struct option options[] = {
    {"controller", 1, NULL, CONTROLLER},
    {"workers", 1, NULL, WORKERS},
    {"models", 1, NULL, MODELS},
    {"profile", 1, NULL, PROFILE},
    {"gpu-pages", 1, NULL, GPU_PAGES},
    {"host-pages", 1, NULL, HOST_PAGES},
    {"slots", 1, NULL, SLOTS},
    {"leases", 1, NULL, LEASES},
    {"cold", 0, NULL, COLD},
    {"slow", 1, NULL, SLOW},
    {"seed", 1, NULL, SEED},
    {"threads", 1, NULL, THREADS},
    {"etcd", 1, NULL, ETCD},
    {"fleet-name", 1, NULL, FLEET},
    {"name", 1, NULL, NAME},
    {"host", 1, NULL, HOST},
    {"token-file", 1, NULL, TOKEN},
    {"drain-seconds", 1, NULL, DRAIN},
    {"quiet", 0, NULL, QUIET},
    {"help", 0, NULL, 'h'},
    {0},
};

/* 0, or the exit code. */
static int emulate_number(struct gw_emulate *e, int option)
{
    static const struct {
        int option;
        const char *name;
        uint32_t least, most;
    } numbers[] = {
        {WORKERS, "--workers", 1, 100000},      {MODELS, "--models", 1, 1000000},
        {GPU_PAGES, "--gpu-pages", 1, 1 << 24}, {HOST_PAGES, "--host-pages", 1, 1 << 30},
        {SLOTS, "--slots", 1, 1 << 20},         {LEASES, "--leases", 1, 1 << 20},
        {THREADS, "--threads", 1, 1024},        {DRAIN, "--drain-seconds", 0, 86400},
    };
    uint32_t *const to[] = {&e->workers, &e->models, &e->gpu_pages, &e->host_pages,
                            &e->slots,   &e->leases, &e->threads,   &e->drain_s};
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        if (option == numbers[i].option)
            return gw_option_u32(EMULATE, numbers[i].name, optarg, numbers[i].least, numbers[i].most, to[i]);
    return 0;
}

static int emulate_option(struct gw_emulate *e, int option)
{
    switch (option) {
    case CONTROLLER: e->controller = optarg; return 0;
    case ETCD: e->etcd = optarg; return 0;
    case PROFILE: e->profile = optarg; return 0;
    case COLD: e->cold = true; return 0;
    case QUIET: e->quiet = true; return 0;
    case FLEET: e->fleet = optarg; return 0;
    case NAME: e->name = optarg; return 0;
    case HOST: e->host = optarg; return 0;
    case TOKEN: e->token_file = optarg; return 0;
    case SLOW: return gw_option_real(EMULATE, "--slow", optarg, .001, 1000, &e->slow);
    case SEED: return gw_option_number(EMULATE, "--seed", optarg, 1, UINT64_MAX, &e->seed);
    default: return emulate_number(e, option);
    }
}

int gw_emulate_args(int argc, char **argv, struct gw_emulate *e)
{
    int option, wrong;
    *e = (struct gw_emulate){.workers = 1,
                             .models = 40,
                             .threads = 1,
                             .profile = "resnet50-v100",
                             .gpu_pages = 960,
                             .slots = 4096,
                             .leases = 4096,
                             .slow = 1,
                             .seed = 1,
                             .drain_s = 15,
                             .fleet = "default",
                             .name = "emulated",
                             .host = "127.0.0.1"};
    optind = 1;
    opterr = 0;
    while ((option = getopt_long(argc, argv, ":h", options, NULL)) >= 0) {
        if (option == 'h') {
            fputs(usage, stdout);
            return GW_EXIT_OK;
        }
        if (option == '?' || option == ':') return gw_option_wrong(EMULATE, argv, option);
        if ((wrong = emulate_option(e, option))) return wrong;
    }
    if (optind < argc) return gw_usage_error(EMULATE, "%s: no such word", argv[optind]);
    if (!e->controller == !e->etcd) return gw_usage_error(EMULATE, "give either --controller or --etcd");
    if (e->threads > e->workers) e->threads = e->workers;
    return -1;
}
