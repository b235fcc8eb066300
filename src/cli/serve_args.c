/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the command line of `gpuwire serve`, and the file that --config names. */
#include "src/cli/serve_args.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "src/cli/options.h"
#include "src/cli/serve_config.h"
#include "src/door/listen.h"
#include "src/door/log.h"
#include "src/server/wire/wire.h"

static const char usage[] =
    "usage: gpuwire serve [OPTION...]\n"
    "\n"
    "Serves the models of a repository (DIR/NAME/VERSION/model.onnx or model.so). Clients set a session up "
    "over HTTP, "
    "then write\n"
    "their inputs straight into this process's memory by RDMA and get the answers written back.\n"
    "\n"
    "  --config FILE    reads options from this file, one NAME = VALUE a line; the command line wins\n"
    "  --models DIR     the repository (default: the models that come with gpuwire)\n"
    "  --model NAME     serve this one only\n"
    "  --exec WHERE     gpu, cpu or auto: the GPU when there is one (default {exec})\n"
    "  --gpu N          which GPU, by its CUDA number (default {gpu})\n"
    "  --device NAME    RDMA device, or softnic (default: GPUWIRE_DEVICE, a real one, else softnic)\n"
    "  --listen ADDRESS where HTTP and gRPC listen, a numeric address; 0.0.0.0 and :: are all of the host's "
    "(default "
    "127.0.0.1:\n"
    "                   this host alone)\n"
    "  --port N         HTTP port, 0 for any free one (default {port})\n"
    "  --grpc PORT      gRPC port, 0 for any free one; off: no gRPC (default 8001; with --port 0 any free "
    "one)\n"
    "  --sessions N     sessions of each model at once (default {sessions})\n"
    "  --sessions-per-client N\n"
    "                   of them, what one host, or one user of this host, may have (default: all but a "
    "quarter)\n"
    "  --connections-per-client N\n"
    "                   connections of HTTP, and of gRPC, that one host, or one user of this host, may have\n"
    "                   (default 64; of HTTP what its sessions need)\n"
    "  --trusted-proxy LIST\n"
    "                   reverse proxies whose X-Forwarded-For names the client: addresses, networks, or "
    "users of this "
    "host\n"
    "                   (10.0.0.7,user 33)\n"
    "  --host-name LIST names of this server that calls may have in their Host, beside addresses, localhost "
    "and the "
    "host's\n"
    "                   own name\n"
    "  --idle SECONDS   a session is closed after this time without requests, 0: never (default {idle}); one "
    "that never had\n"
    "                   any after 10 s\n"
    "  --slots N        requests in flight of each session (default {slots})\n"
    "  --max-batch N    requests share runs of the models that allow it, at most N samples together "
    "(default {max-batch})\n"
    "  --batch-delay US how long a request waits for others to share its run, in microseconds (default "
    "{batch-delay})\n"
    "  --resident WHICH small models run inside the kernel that waits for requests: auto, always or never "
    "(default {resident})\n"
    "  --threads N      CPU threads that one inference uses on --exec cpu (default {threads})\n"
    "  --model-memory-limit MIB\n"
    "                   what a model may take with the slots of its sessions (default {model-memory-limit})\n"
    "  --max-body MIB   the longest body of an inference over HTTP, the longest message over gRPC (default "
    "{max-body})\n"
    "  --tls-cert FILE  HTTP and gRPC are encrypted, with this certificate (PEM, followed by the chain)\n"
    "  --tls-key FILE   and its key\n"
    "  --token-file FILE\n"
    "                   every call must bring the token in this file: \"Authorization: Bearer TOKEN\"\n"
    "  --open-health    but for v2/health and its like, which every client may ask\n"
    "  --metrics-port N metrics are answered on this port, too, and nothing else is\n"
    "  --balancer URL   this server is a worker of that service of a load balancer (gpuwire balance): "
    "http://HOST:PORT/SERVICE\n"
    "  --balancer-address ADDRESS\n"
    "                   where the balancer reaches it (default: as it reaches the balancer)\n"
    "  --balancer-token-file FILE\n"
    "                   the token of the balancer's API\n"
    "  --fleet LIST     this server is a worker of a fleet: its controllers, HOST:PORT with commas, or the "
    "etcd that knows\n"
    "                   them, http://HOST:PORT. It has no HTTP and no gRPC then: clients of the fleet come "
    "to "
    "--listen and\n"
    "                   --port, and --token-file has the fleet's token\n"
    "  --fleet-name NAME\n"
    "                   the fleet's name (default {fleet-name})\n"
    "  --fleet-address HOST:PORT\n"
    "                   where clients of the fleet reach this worker (default: where it listens)\n"
    "  --fleet-folder DIR\n"
    "                   where the fleet's weights are kept, in pages (default: gpuwire/fleet in the user's "
    "cache)\n"
    "  --worker NAME    this worker's name in the fleet (default: the host's)\n"
    "  --gpu-pages N    memory for weights on the GPU, in pages of 16 MiB (default {gpu-pages})\n"
    "  --host-pages N   pinned memory for weights, the same (default {host-pages})\n"
    "  --load-delay US  with --exec cpu, how long a page's way to where models run takes at least (default "
    "{load-delay})\n"
    "  --leases N       leases of clients at once (default {leases})\n"
    "  --model-control  clients may load and unload models of the repository\n"
    "  --watch          models and versions that come into the repository are served, those that go are not "
    "any more\n"
    "  --drain-seconds N\n"
    "                   how long requests under way may take when the server ends (default "
    "{drain-seconds})\n"
    "  --access-log FILE\n"
    "                   a line of JSON for each request, - for standard output; SIGHUP opens the file again\n"
    "  --log-level LEVEL\n"
    "                   what is said on standard error: error, warning, info or debug (default {log-level})\n"
    "  -h, --help       this text\n"
    "\n"
    "Prints one line when it is ready. SIGINT or SIGTERM ends it, a second one at once.\n";

enum {
    MODELS = GW_CLI_DOORS_END,
    MODEL,
    EXEC,
    GPU,
    DEVICE,
    SESSIONS,
    EACH,
    IDLE,
    SLOTS,
    THREADS,
    BATCH,
    DELAY,
    RESIDENT,
    MEMORY,
    CONTROL,
    WATCH,
    BALANCER,
    BALANCER_ADDRESS,
    BALANCER_TOKEN,
    FLEET,
    OF_FLEET,
    FLEET_AT,
    FLEET_IN,
    WORKER,
    GPU_PAGES,
    HOST_PAGES,
    LOAD_DELAY,
    LEASES,
    CONFIG
};

static const struct option options[] = {
    GW_CLI_DOORS_OPTIONS,
    {"models", 1, NULL, MODELS},
    {"model", 1, NULL, MODEL},
    {"exec", 1, NULL, EXEC},
    {"gpu", 1, NULL, GPU},
    {"device", 1, NULL, DEVICE},
    {"sessions", 1, NULL, SESSIONS},
    {"slots", 1, NULL, SLOTS},
    {"threads", 1, NULL, THREADS},
    {"max-batch", 1, NULL, BATCH},
    {"batch-delay", 1, NULL, DELAY},
    {"resident", 1, NULL, RESIDENT},
    {"sessions-per-client", 1, NULL, EACH},
    {"idle", 1, NULL, IDLE},
    {"model-memory-limit", 1, NULL, MEMORY},
    {"model-control", 0, NULL, CONTROL},
    {"watch", 0, NULL, WATCH},
    {"balancer", 1, NULL, BALANCER},
    {"balancer-address", 1, NULL, BALANCER_ADDRESS},
    {"balancer-token-file", 1, NULL, BALANCER_TOKEN},
    {"fleet", 1, NULL, FLEET},
    {"fleet-name", 1, NULL, OF_FLEET},
    {"fleet-address", 1, NULL, FLEET_AT},
    {"fleet-folder", 1, NULL, FLEET_IN},
    {"worker", 1, NULL, WORKER},
    {"gpu-pages", 1, NULL, GPU_PAGES},
    {"host-pages", 1, NULL, HOST_PAGES},
    {"load-delay", 1, NULL, LOAD_DELAY},
    {"leases", 1, NULL, LEASES},
    {"config", 1, NULL, CONFIG},
    {"help", 0, NULL, 'h'},
    {0},
};

/* The defaults. The program sets these as if they stood before the command line,
 * and --help prints them. */
static const struct {
    int id;
    const char *value;
} defaults[] = {{EXEC, "auto"},        {GPU, "0"},
                {GW_CLI_PORT, "8000"}, {SESSIONS, "16"},
                {IDLE, "300"},         {SLOTS, "8"},
                {BATCH, "1"},          {DELAY, "0"},
                {THREADS, "1"},        {RESIDENT, "never"},
                {MEMORY, "2048"},      {GW_CLI_BODY, "64"},
                {GW_CLI_DRAIN, "30"},  {GW_CLI_LEVEL, "info"},
                {OF_FLEET, "default"}, {GPU_PAGES, "128"},
                {HOST_PAGES, "256"},   {LOAD_DELAY, "0"},
                {LEASES, "4096"}};

/* Options that are whole numbers, from min to max. */
static const struct {
    int id;
    uint64_t min, max;
} numbers[] = {
    {GPU, 0, 1023},
    {SESSIONS, 1, 1024},
    {EACH, 1, 1024},
    {SLOTS, 1, GW_SERVE_MAX_SLOTS},
    {BATCH, 1, GW_SERVING_MAX_ROWS},
    {THREADS, 1, 1024},
    {DELAY, 0, 10000000},
    {IDLE, 0, 1000000},
    {MEMORY, 1, 1u << 30},
    {GPU_PAGES, 1, 1u << 24},
    {HOST_PAGES, 1, 1u << 24},
    {LOAD_DELAY, 0, 1000000},
    {LEASES, 1, 1u << 20},
};

/* -1: the option is no number. Otherwise as `set`. */
static int serve_args_set_number(struct gw_cli_serving *all, int id, const char *name, const char *value)
{
    struct gw_server_opts *o = &all->server;
    uint64_t n = 0;
    size_t i = 0;
    while (i < sizeof(numbers) / sizeof(*numbers) && numbers[i].id != id) i++;
    if (i == sizeof(numbers) / sizeof(*numbers)) return -1;
    int wrong = gw_option_number("serve", name, value, numbers[i].min, numbers[i].max, &n);
    switch (id) {
    case GPU: o->gpu = (uint32_t)n; break;
    case SESSIONS: o->sessions = (uint32_t)n; break;
    case EACH: o->sessions_each = (uint32_t)n; break;
    case SLOTS: o->slots = (uint32_t)n; break;
    case BATCH: o->max_batch = n > 1 ? (uint32_t)n : 0; break;
    case THREADS: o->threads = (uint32_t)n; break;
    case DELAY: o->batch_delay_ns = n * 1000; break;
    case IDLE: o->idle_ns = n * 1000000000u; break;
    case MEMORY: o->model_memory = n << 20; break;
    case GPU_PAGES: all->fleet.gpu_pages = (uint32_t)n; break;
    case HOST_PAGES: all->fleet.host_pages = (uint32_t)n; break;
    case LOAD_DELAY: all->fleet.load_delay_us = (uint32_t)n; break;
    case LEASES: all->fleet.leases = (uint32_t)n; break;
    }
    return wrong;
}

/* Options that are one of a few words. -1: this is none. Otherwise as `set`. */
static int serve_args_set_word(struct gw_cli_serving *all, int id, const char *name, const char *value)
{
    int word = 0;
    switch (id) {
    case EXEC:
        if (strcmp(value, "gpu") && strcmp(value, "cpu") && strcmp(value, "auto"))
            return gw_usage_error("serve", "%s %s: must be gpu, cpu or auto", name, value);
        all->server.exec = value;
        return 0;
    case RESIDENT:
        word = gw_resident_parse(value);
        if (word < 0) return gw_usage_error("serve", "%s %s: must be auto, always or never", name, value);
        all->server.resident = (enum gw_resident_mode)word;
        return 0;
    default: return -1;
    }
}

/* Option `id` has this value. Mistakes call it `name`. 0, or GW_EXIT_USAGE. */
static int set(struct gw_cli_serving *all, int id, const char *name, const char *value)
{
    int wrong = gw_cli_doors_set("serve", &all->doors, id, name, value);
    if (wrong < 0) wrong = serve_args_set_number(all, id, name, value);
    if (wrong < 0) wrong = serve_args_set_word(all, id, name, value);
    if (wrong >= 0) return wrong;
    switch (id) {
    case MODELS: all->server.models = value; break;
    case MODEL: all->server.only = value; break;
    case DEVICE: all->server.device = value; break;
    case CONTROL: all->control = 1; break;
    case WATCH: all->watch = 1; break;
    case BALANCER: all->balancer.url = value; break;
    case BALANCER_ADDRESS: all->balancer.address = value; break;
    case BALANCER_TOKEN: all->balancer.token_file = value; break;
    case FLEET: all->fleet.fleet = value; break;
    case OF_FLEET: all->fleet.name = value; break;
    case FLEET_AT: all->fleet.address = value; break;
    case FLEET_IN: all->fleet.folder = value; break;
    case WORKER: all->fleet.worker = value; break;
    }
    return 0;
}

/* A line of the file. A flag, which has no value on the command line, is yes or no here. */
static int set_line(void *args, const struct gw_setting *s)
{
    struct gw_cli_serving *all = args;
    const struct option *o = options;
    while (o->name && strcmp(o->name, s->name)) o++;
    if (!o->name || o->val == CONFIG || o->val == 'h')
        return gw_usage_error("serve", "%s: no such setting", s->said);
    uint64_t bit = 1ull << (o->val - GW_CLI_LISTEN);
    if (all->in_file & bit) return gw_usage_error("serve", "%s: it is set twice; remove one", s->said);
    all->in_file |= bit;
    if (o->has_arg) return set(all, o->val, s->said, s->value);
    if (!strcmp(s->value, "yes")) return set(all, o->val, s->said, NULL);
    return strcmp(s->value, "no") ? gw_usage_error("serve", "%s %s: must be yes or no", s->said, s->value)
                                  : 0;
}

/* Triton's, and what does the same here. */
static const char *const triton[][2] = {
    {"model-repository", "--models DIR"},
    {"model-store", "--models DIR"},
    {"model-control-mode", "--watch (poll) or --model-control (explicit)"},
    {"repository-poll-secs", "--watch"},
    {"load-model", "--model NAME"},
    {"http-port", "--port N"},
    {"http-address", "--listen ADDRESS"},
    {"grpc-port", "--grpc PORT"},
    {"grpc-address", "--listen ADDRESS"},
    {"allow-grpc", "--grpc off"},
    {"metrics-address", "--listen ADDRESS"},
    {"grpc-use-ssl", "--tls-cert FILE and --tls-key FILE, for both ports"},
    {"grpc-server-cert", "--tls-cert FILE"},
    {"grpc-server-key", "--tls-key FILE"},
    {"exit-timeout-secs", "--drain-seconds N"},
    {"log-verbose", "--log-level LEVEL"},
    {"log-info", "--log-level LEVEL"},
    {"log-warning", "--log-level LEVEL"},
    {"log-error", "--log-level LEVEL"},
};

static const char *default_of(const char *name, size_t n)
{
    const struct option *o = options;
    while (o->name && (strlen(o->name) != n || strncmp(o->name, name, n))) o++;
    for (size_t i = 0; o->name && i < sizeof(defaults) / sizeof(defaults[0]); i++)
        if (defaults[i].id == o->val) return defaults[i].value;
    return "?";
}

/* {NAME} stands for the default of --NAME. */
static void serve_args_print_usage(void)
{
    for (const char *at = usage, *mark; *at; at = mark) {
        mark = at + strcspn(at, "{");
        fwrite(at, 1, (size_t)(mark - at), stdout);
        if (!*mark) continue;
        size_t n = strcspn(++mark, "}");
        fputs(default_of(mark, n), stdout);
        mark += n + 1;
    }
}

static int serve_args_set_defaults(struct gw_cli_serving *all)
{
    int wrong = 0;
    for (size_t i = 0; !wrong && i < sizeof(defaults) / sizeof(defaults[0]); i++)
        wrong = set(all, defaults[i].id, "a default", defaults[i].value);
    return wrong;
}

static int no_such_option(char **argv, int option)
{
    const char *said = argv[optind - 1];
    size_t n = strncmp(said, "--", 2) ? 0 : strcspn(said + 2, "=");
    for (size_t i = 0; option == '?' && n && i < sizeof(triton) / sizeof(triton[0]); i++)
        if (strlen(triton[i][0]) == n && !strncmp(said + 2, triton[i][0], n))
            return gw_usage_error("serve", "--%s is Triton's: here it is %s", triton[i][0], triton[i][1]);
    return gw_option_wrong("serve", argv, option);
}

/* Of the command line: the name of the file, and whether it is well formed. -1: go on; else the exit code. */
static int serve_args_scan(int argc, char **argv, const char **config)
{
    int option;
    optind = 1;
    opterr = 0;
    while ((option = getopt_long(argc, argv, ":h", options, NULL)) >= 0) {
        if (option == 'h') {
            serve_args_print_usage();
            return GW_EXIT_OK;
        }
        if (option == '?' || option == ':') return no_such_option(argv, option);
        if (option == CONFIG) *config = optarg;
    }
    return optind < argc ? gw_usage_error("serve", "%s: not an option", argv[optind]) : -1;
}

int gw_cli_serve_args(int argc, char **argv, struct gw_cli_serving *all)
{
    const char *config = NULL;
    char name[64];
    int option, which = 0, wrong = serve_args_scan(argc, argv, &config);
    if (wrong >= 0) return wrong;
    wrong = serve_args_set_defaults(all);
    if (!wrong && config) wrong = gw_config_read("serve", config, set_line, all);
    optind = 1; /* again: what the command line says comes after the file, and so wins */
    while (!wrong && (option = getopt_long(argc, argv, ":h", options, &which)) >= 0) {
        snprintf(name, sizeof(name), "--%s", options[which].name);
        wrong = set(all, option, name, optarg);
    }
    if (wrong) return wrong;
    if (!all->server.models)
        return gw_usage_error("serve", "no models found beside the program; give --models");
    gw_cli_doors_settle(&all->doors);
    return -1;
}
